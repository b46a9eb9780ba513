/* SPDX-License-Identifier: MIT */
/* async.c - lock and unlock by N owners on one thread, which is the client's own: callbacks call on.
 *
 * Each owner has a lock of its own and one call under way at any time. Only kinds of ours. */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/tally.h"
#include "tools/benchmarks/programs/traffic.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

struct crowd {
    struct phase phase;
    int64_t lease_ms;
    struct samples samples;
    sem_t gone; /* an owner has made its last pair */
};

struct member {
    struct crowd *crowd;
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    int64_t began;
};

static void on_locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg);

static void on_unlocked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct member *m = arg;
    struct crowd *crowd = m->crowd;
    int64_t now = now_ns();
    rdl_err_t wrong;

    ours_check(result, err);
    if (m->began >= crowd->phase.start && now <= crowd->phase.end)
        samples_add(&crowd->samples, now - m->began);
    if (now >= crowd->phase.end) {
        (void)sem_post(&crowd->gone);
        return;
    }
    m->began = now;
    ours_check(rdl_lock_async(lock, m->owner, crowd->lease_ms, on_locked, m, NULL, &wrong), &wrong);
}

static void on_locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    const struct member *m = arg;
    rdl_err_t wrong;

    ours_check(result, err);
    ours_check(rdl_unlock_async(lock, m->owner, on_unlocked, arg, NULL, &wrong), &wrong);
}

void measure_async(const struct run *run)
{
    const struct kind *kind = kind_of(run);
    redisContext *second = connect_to(run->server);
    rdl_client_t *client = ours_open(run->server, NULL);
    struct member *members = allocate((size_t)run->owners, sizeof *members);
    struct crowd crowd = {.lease_ms = ours_lease(run)};
    struct tally from;
    struct tally to;
    rdl_err_t err;

    (void)sem_init(&crowd.gone, 0, 0);
    for (int64_t i = 0; i < run->owners; i++) {
        char *name = format("bench:%lld", (long long)i);

        members[i] =
            (struct member){.crowd = &crowd, .owner = ours_owner(client), .lock = ours_lock(client, run->kind, name)};
        free(name);
    }
    crowd.phase = phase_from_now(run);
    for (int64_t i = 0; i < run->owners; i++)
        ours_check(
            rdl_lock_async(members[i].lock, members[i].owner, crowd.lease_ms, on_locked, &members[i], NULL, &err),
            &err);
    tally_phase(second, kind->plain, crowd.phase, &from, &to);
    for (int64_t i = 0; i < run->owners; i++)
        (void)sem_wait(&crowd.gone);
    answer_samples("", &crowd.samples);
    answer_number("per_second", (double)crowd.samples.count / run->seconds);
    tally_answer(&from, &to, (double)crowd.samples.count);
    answer_end();
    for (int64_t i = 0; i < run->owners; i++) {
        (void)rdl_lock_free(members[i].lock);
        (void)rdl_owner_free(members[i].owner);
    }
    (void)rdl_client_close(client);
    redisFree(second);
    samples_done(&crowd.samples);
    free(members);
}
