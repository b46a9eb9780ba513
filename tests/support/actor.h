/* SPDX-License-Identifier: MIT */
/* actor.h - a thread with a mailbox: calls blocking verbs, one after another, as an owner of its own, while the test
 * goes on.
 *
 * The test's main thread begins a verb and takes its result later, with a bound. Assertions stay on the main thread:
 * Criterion leaves a failed test by a jump.
 */
#ifndef TESTS_SUPPORT_ACTOR_H
#define TESTS_SUPPORT_ACTOR_H

#include <redlatch/redlatch.h>
#include <stdbool.h>
#include <stdint.h>

struct actor;

struct actor *actor_new(void);
void actor_free(struct actor *a); /* waits for the present verb, then ends the thread; NULL is fine */

/* Begin a verb. The actor must be idle. */
void actor_lock(struct actor *a, rdl_lock_t *lock, int64_t lease_ms);
void actor_try_lock(struct actor *a, rdl_lock_t *lock, int64_t wait_ms, int64_t lease_ms);
void actor_unlock(struct actor *a, rdl_lock_t *lock);
void actor_call(struct actor *a, int64_t (*fn)(void *arg, rdl_err_t *err), void *arg);

bool actor_idle(struct actor *a);

/* What the verb returned; death when it has not returned after bound_ms. */
int64_t actor_result(struct actor *a, int64_t bound_ms);
const rdl_err_t *actor_error(const struct actor *a); /* of the verb whose result was taken */
int64_t actor_took_us(const struct actor *a);        /* how long that verb ran */
int64_t actor_ended_us(const struct actor *a);       /* when it returned, by now_us */

#endif
