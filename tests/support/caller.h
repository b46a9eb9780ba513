/* SPDX-License-Identifier: MIT */
/* caller.h - a thread with a mailbox: calls blocking verbs, one after another, as an owner of its own, while the test
 * goes on.
 *
 * The test's main thread begins a verb and takes its result later, with a bound. Assertions stay on the main thread:
 * Criterion leaves a failed test by a jump.
 */
#ifndef TESTS_SUPPORT_CALLER_H
#define TESTS_SUPPORT_CALLER_H

#include <redlatch/redlatch.h>
#include <stdbool.h>
#include <stdint.h>

struct caller;

struct caller *caller_new(void);
void caller_free(struct caller *a); /* waits for the present verb, then ends the thread; NULL is fine */

/* Begin a verb. The caller must be idle. */
void caller_lock(struct caller *a, rdl_lock_t *lock, int64_t lease_ms);
void caller_try_lock(struct caller *a, rdl_lock_t *lock, int64_t wait_ms, int64_t lease_ms);
void caller_unlock(struct caller *a, rdl_lock_t *lock);
void caller_call(struct caller *a, int64_t (*fn)(void *arg, rdl_err_t *err), void *arg);

bool caller_idle(struct caller *a);

/* What the verb returned; death when it has not returned after bound_ms. */
int64_t caller_result(struct caller *a, int64_t bound_ms);
const rdl_err_t *caller_error(const struct caller *a); /* of the verb whose result was taken */
int64_t caller_took_us(const struct caller *a);        /* how long that verb ran */
int64_t caller_ended_us(const struct caller *a);       /* when it returned, by now_us */

#endif
