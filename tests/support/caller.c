/* SPDX-License-Identifier: MIT */
#include "tests/support/caller.h"
#include "tests/support/wait.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum verb { VERB_NONE, VERB_TRY_LOCK, VERB_LOCK, VERB_UNLOCK, VERB_CALL, VERB_END };

struct caller {
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t change;
    enum verb
        verb; /* under mu; VERB_NONE: idle. The rest belongs to the thread while it is busy, to the test otherwise */
    rdl_lock_t *lock;
    int64_t wait_ms;
    int64_t lease_ms;
    int64_t (*fn)(void *arg, rdl_err_t *err);
    void *arg;
    int64_t result;
    int64_t began_us;
    int64_t ended_us;
    rdl_err_t err;
};

static int64_t act(struct caller *a)
{
    switch (a->verb) {
    case VERB_TRY_LOCK:
        return rdl_try_lock(a->lock, a->wait_ms, a->lease_ms, &a->err);
    case VERB_LOCK:
        return rdl_lock(a->lock, a->lease_ms, &a->err);
    case VERB_UNLOCK:
        return rdl_unlock(a->lock, &a->err);
    case VERB_CALL:
        return a->fn(a->arg, &a->err);
    default:
        return RDL_OK;
    }
}

static void *caller_run(void *arg)
{
    struct caller *a = arg;

    pthread_mutex_lock(&a->mu);
    while (a->verb != VERB_END) {
        if (a->verb == VERB_NONE) {
            pthread_cond_wait(&a->change, &a->mu);
            continue;
        }
        pthread_mutex_unlock(&a->mu);
        memset(&a->err, 0, sizeof a->err);
        a->began_us = now_us();
        a->result = act(a);
        a->ended_us = now_us();
        pthread_mutex_lock(&a->mu);
        a->verb = VERB_NONE;
        pthread_cond_broadcast(&a->change);
    }
    pthread_mutex_unlock(&a->mu);
    return NULL;
}

struct caller *caller_new(void)
{
    struct caller *a = must_alloc(sizeof *a);
    pthread_attr_t small; /* a test may want a thousand */

    pthread_mutex_init(&a->mu, NULL);
    cond_init(&a->change);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    if (pthread_create(&a->thread, &small, caller_run, a) != 0)
        die("cannot start a thread");
    pthread_attr_destroy(&small);
    return a;
}

/* @locks takes mu and keeps it: returns when idle */
static bool lock_when_idle(struct caller *a, int64_t bound_ms)
{
    struct timespec end = until_ms(bound_ms);
    bool in_time = true;

    pthread_mutex_lock(&a->mu);
    while (a->verb != VERB_NONE && in_time)
        in_time = pthread_cond_timedwait(&a->change, &a->mu, &end) == 0;
    return a->verb == VERB_NONE;
}

static void begin(struct caller *a, enum verb verb)
{
    pthread_mutex_lock(&a->mu);
    a->verb = verb;
    pthread_cond_broadcast(&a->change);
    pthread_mutex_unlock(&a->mu);
}

void caller_free(struct caller *a)
{
    if (a == NULL)
        return;
    if (!lock_when_idle(a, 60000))
        die("a caller's call does not return");
    pthread_mutex_unlock(&a->mu);
    begin(a, VERB_END);
    pthread_join(a->thread, NULL);
    pthread_mutex_destroy(&a->mu);
    pthread_cond_destroy(&a->change);
    free(a);
}

static void check_idle(struct caller *a)
{
    if (!caller_idle(a))
        die("a caller was given two things to do");
}

void caller_try_lock(struct caller *a, rdl_lock_t *lock, int64_t wait_ms, int64_t lease_ms)
{
    check_idle(a);
    a->lock = lock;
    a->wait_ms = wait_ms;
    a->lease_ms = lease_ms;
    begin(a, VERB_TRY_LOCK);
}

void caller_lock(struct caller *a, rdl_lock_t *lock, int64_t lease_ms)
{
    check_idle(a);
    a->lock = lock;
    a->lease_ms = lease_ms;
    begin(a, VERB_LOCK);
}

void caller_unlock(struct caller *a, rdl_lock_t *lock)
{
    check_idle(a);
    a->lock = lock;
    begin(a, VERB_UNLOCK);
}

void caller_call(struct caller *a, int64_t (*fn)(void *arg, rdl_err_t *err), void *arg)
{
    check_idle(a);
    a->fn = fn;
    a->arg = arg;
    begin(a, VERB_CALL);
}

bool caller_idle(struct caller *a)
{
    bool idle = lock_when_idle(a, 0);

    pthread_mutex_unlock(&a->mu);
    return idle;
}

int64_t caller_result(struct caller *a, int64_t bound_ms)
{
    bool idle = lock_when_idle(a, bound_ms);

    pthread_mutex_unlock(&a->mu);
    if (!idle)
        die("a call has not returned after %lld ms", (long long)bound_ms);
    return a->result;
}

const rdl_err_t *caller_error(const struct caller *a)
{
    return &a->err;
}

int64_t caller_took_us(const struct caller *a)
{
    return a->ended_us - a->began_us;
}

int64_t caller_ended_us(const struct caller *a)
{
    return a->ended_us;
}
