/* SPDX-License-Identifier: MIT */
/* waiters.c - one lock, N waiters in one process: what a hand-off costs the server.
 *
 * The owners are asynchronous. Whoever gets the lock gives it back at once and asks again, behind the others. What
 * counts are changes of owner: to take the lock again oneself is none. */
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/tally.h"
#include "tools/benchmarks/programs/traffic.h"

#include <semaphore.h>
#include <stdlib.h>

struct crowd {
    int64_t lease_ms;
    int64_t end;
    const void *last; /* who had it last; callbacks come one by one */
    _Atomic int64_t changes;
    sem_t gone;
};

struct waiter {
    struct crowd *crowd;
    rdl_owner_t *owner;
};

static void on_locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg);

static void on_unlocked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct waiter *w = arg;
    rdl_err_t wrong;

    ours_check(result, err);
    if (now_ns() >= w->crowd->end)
        (void)sem_post(&w->crowd->gone);
    else
        ours_check(rdl_lock_async(lock, w->owner, w->crowd->lease_ms, on_locked, w, NULL, &wrong), &wrong);
}

static void on_locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct waiter *w = arg;
    rdl_err_t wrong;

    ours_check(result, err);
    if (w->crowd->last != w)
        atomic_fetch_add_explicit(&w->crowd->changes, 1, memory_order_relaxed);
    w->crowd->last = w;
    ours_check(rdl_unlock_async(lock, w->owner, on_unlocked, w, NULL, &wrong), &wrong);
}

/* Changes of owner so far, and the server's tally at that moment. */
static int64_t look(struct crowd *crowd, redisContext *c, struct tally *tally)
{
    int64_t changes = atomic_load(&crowd->changes);

    *tally = tally_read(c, NULL);
    return changes;
}

void measure_waiters(const struct run *run)
{
    redisContext *second = connect_to(run->server);
    rdl_client_t *client = ours_open(run->server, NULL);
    rdl_lock_t *lock = ours_lock(client, run->kind, "bench:waited");
    struct waiter *waiters = allocate((size_t)run->owners, sizeof *waiters);
    struct phase phase = phase_from_now(run);
    struct crowd crowd = {.lease_ms = ours_lease(run), .end = phase.end};
    struct tally from;
    struct tally to;
    int64_t changes;
    rdl_err_t err;

    (void)sem_init(&crowd.gone, 0, 0);
    for (int64_t i = 0; i < run->owners; i++) {
        waiters[i] = (struct waiter){.crowd = &crowd, .owner = ours_owner(client)};
        ours_check(rdl_lock_async(lock, waiters[i].owner, crowd.lease_ms, on_locked, &waiters[i], NULL, &err), &err);
    }
    sleep_until(phase.start);
    changes = -look(&crowd, second, &from);
    sleep_until(phase.end);
    changes += look(&crowd, second, &to);
    for (int64_t i = 0; i < run->owners; i++)
        (void)sem_wait(&crowd.gone);
    if (changes == 0)
        fail("the lock never changed hands");
    answer_number("count", (double)changes);
    answer_number("per_second", (double)changes / run->seconds);
    tally_answer(&from, &to, (double)changes);
    answer_end();
    (void)rdl_lock_free(lock);
    for (int64_t i = 0; i < run->owners; i++)
        (void)rdl_owner_free(waiters[i].owner);
    (void)rdl_client_close(client);
    redisFree(second);
    free(waiters);
}
