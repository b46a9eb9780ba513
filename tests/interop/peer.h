/* SPDX-License-Identifier: MIT */
/* peer.h - a Java process with Redisson in it, for one test.
 *
 * The program is in the folder peer; what it understands is written in peer/src/redlatch/peer: Peer.java for the form
 * of a request, Clients, Locks and Rounds for the verbs. It is expected where $REDLATCH_TEST_PEER says, else in
 * build/interop, built there by peer/build. A JVM of its own for each test costs most of a second and leaves nothing to
 * clean up.
 *
 * Every wait has a bound. What cannot be (no start, no answer in time) aborts the test with the reason. A peer belongs
 * to the test's main thread: the kernel kills the JVM when the thread that started it is gone.
 */
#ifndef TESTS_INTEROP_PEER_H
#define TESTS_INTEROP_PEER_H

#include <stdbool.h>
#include <stdint.h>

#define PEER_BOUND_MS 30000 /* more than any answer takes that does not wait for a lock */

struct peer;

/* Start one. Where none could be built the test is skipped with the reason. */
struct peer *peer_start(void);

/* Kill it, with everything it holds left as it is; free. NULL is fine. */
void peer_stop(struct peer *p);

/* SIGKILL, and wait until the process is gone. */
void peer_kill(struct peer *p);

/* Send a request to one of its threads; returns the request's id. Words that may hold blanks or other bytes go through
 * peer_word. */
unsigned peer_send(struct peer *p, const char *thread, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Is the request answered within bound_ms? */
bool peer_answered(struct peer *p, unsigned id, int64_t bound_ms);

/* The answer to a request, "ok", "ok VALUE" or "fail CLASS MESSAGE"; valid until the next call. Each can be had once.
 */
const char *peer_answer(struct peer *p, unsigned id, int64_t bound_ms);

/* Both in one. */
const char *peer_ask(struct peer *p, const char *thread, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A word of a request that means these bytes (UTF-8). To be freed. */
char *peer_word(const char *text);

#endif
