/* SPDX-License-Identifier: MIT */
/* contend.h - clients that want a lock all the time, and how often each of them has it.
 */
#ifndef TESTS_LIVE_CONTEND_H
#define TESTS_LIVE_CONTEND_H

#include "tests/live/live.h"

#include <pthread.h>
#include <time.h>

enum { CONTENDERS_MOST = 8 };

struct contender {
    rdl_lock_t *lock; /* of a client of its own */
    _Atomic int *begun;
    int turns, had;
    pthread_t thread;
};

static void *contend(void *arg)
{
    struct contender *c = arg;
    rdl_err_t e;

    while (atomic_fetch_add(c->begun, 1) < c->turns) {
        if (rdl_try_lock(c->lock, SOON_MS, RDL_LEASE_AUTO, &e) != RDL_OK)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); /* it works */
        c->had++;
        if (rdl_unlock(c->lock, &e) != RDL_OK)
            break;
    }
    return NULL;
}

/* Each takes its lock again and again, until all together have had theirs so often. None gets less than a quarter of
 * its even share. */
static inline void expect_turns(rdl_lock_t *const *locks, int count, int turns)
{
    struct contender all[CONTENDERS_MOST];
    _Atomic int begun = 0;
    int sum = 0;

    for (int i = 0; i < count; i++) {
        all[i] = (struct contender){.lock = locks[i], .begun = &begun, .turns = turns};
        cr_assert_eq(pthread_create(&all[i].thread, NULL, contend, &all[i]), 0);
    }
    for (int i = 0; i < count; i++)
        cr_assert_eq(pthread_join(all[i].thread, NULL), 0);
    for (int i = 0; i < count; i++) {
        cr_expect_geq(all[i].had, turns / count / 4, "client %d had it %d times", i, all[i].had);
        sum += all[i].had;
    }
    cr_assert_eq(sum, turns);
}

#endif
