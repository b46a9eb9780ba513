/* SPDX-License-Identifier: MIT */
/* probe.h - a small client of our own: looks at the server behind the library's back, and stands for a foreign client.
 *
 * One blocking connection over a unix socket. A command is written as in redis-cli: words between blanks, 'single
 * quotes' around words with blanks, printf conversions for the rest. Answers belong to the probe and are valid until
 * its next command. An answer that does not come within 10 s, a closed connection, or an answer of the wrong kind
 * aborts the test. A probe belongs to one thread at a time.
 *
 * A monitor is a second kind of client: it sees every command that reaches the server, in order, and keeps them.
 */
#ifndef TESTS_SUPPORT_PROBE_H
#define TESTS_SUPPORT_PROBE_H

#include "tests/support/resp.h"
#include "tests/support/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct probe;

struct probe *probe_open(const struct server *s);
struct probe *probe_open_at(const char *socket_path);
void probe_close(struct probe *p); /* NULL is fine */

/* Does a server listen on that socket and answer (anything but LOADING)? */
bool probe_answers(const char *socket_path);

/* Any answer, errors too. */
const struct reply *probe_ask(struct probe *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
const struct reply *probe_ask_argv(struct probe *p, size_t argc, const char *const *argv, const size_t *argv_len);

/* The answer as a number: an integer, or a string of digits; a nil is -1. */
int64_t probe_int(struct probe *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The answer as text; NULL for nil. */
const char *probe_text(struct probe *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Send a command and do not wait; probe_next reads the next answer or message, NULL when none comes within bound_ms. */
void probe_send(struct probe *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
const struct reply *probe_next(struct probe *p, int64_t bound_ms);

/* ---- questions that many tests ask ------------------------------------------------------------------------------ */

int64_t probe_keys(struct probe *p); /* DBSIZE */
int64_t probe_channels_like(struct probe *p, bool sharded, const char *pattern);
int64_t probe_channels_of(struct probe *p, bool sharded);
int64_t probe_channels(struct probe *p); /* with a subscriber; a lock's and clients' own beside it count once */
int64_t probe_listeners_of(struct probe *p, bool sharded, const char *channel); /* PUBSUB NUMSUB, SHARDNUMSUB */
/* The same; or as many clients as have a channel of their own beside it, if those are more. */
int64_t probe_subscribers(struct probe *p, const char *channel);
int64_t probe_subscribers_of(struct probe *p, bool sharded, const char *channel);
int64_t probe_clients(struct probe *p, const char *name);  /* connections whose CLIENT SETNAME is `name` */
int64_t probe_calls(struct probe *p, const char *command); /* of a command since start: "evalsha" */

/* Wait until so many replicas follow, and have confirmed what was written after they had come: what is written before
 * has no offset, and what comes after it reaches a replica that is just synchronised up to a second later. No key is
 * left. */
bool probe_followed(struct probe *p, unsigned replicas, int64_t bound_ms);

/* ---- monitor ---------------------------------------------------------------------------------------------------- */

struct monitor;

struct monitor *monitor_start(const struct server *s); /* every later command is seen */
void monitor_stop(struct monitor *m);                  /* NULL is fine */

/* Wait until everything that the server ran before this call has been seen, and return how many commands that is. */
size_t monitor_mark(struct monitor *m);

/* How many commands after `mark` contain all of the given strings ("a|b": both), not counting those called from
 * scripts, or counting just those. Looks at what has been seen: call monitor_mark first to be sure of the end. */
size_t monitor_count(struct monitor *m, size_t mark, const char *needles);
size_t monitor_count_lua(struct monitor *m, size_t mark, const char *needles);

/* Wait until `n` such commands (not from scripts) have been seen after `mark`. */
bool monitor_wait(struct monitor *m, size_t mark, const char *needles, size_t n, int64_t bound_ms);

/* Wait for the first such command, and return how many had been seen with it: a mark behind it. 0: not in time. */
size_t monitor_mark_behind(struct monitor *m, size_t mark, const char *needles, int64_t bound_ms);

/* Print what was seen after `mark`, to explain a failure. */
void monitor_print(struct monitor *m, size_t mark);

#endif
