/* SPDX-License-Identifier: MIT */
/* curves.c - what one of very many costs: rows ask for several sizes, and what grows with the size grows too fast.
 *
 *   renewed     --holds locks of one client, held and renewed
 *   crowd       --owners wait for one lock in one process, and then have it once, one after another, for --seconds or
 *               until all have had it
 *   contended   --locks names, each wanted by two clients all the time */
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/tally.h"
#include "tools/benchmarks/programs/traffic.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Bytes of memory that the process has now. */
static int64_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long long pages = 0;

    if (f == NULL || fscanf(f, "%*s %lld", &pages) != 1)
        fail("/proc/self/statm cannot be read");
    (void)fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* ---- renewed ---------------------------------------------------------------------------------------------------- */

static int64_t renewed(const rdl_metrics_t *metrics)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, RDL_M_RENEWED, &value);
    return (int64_t)value.sum;
}

/* All are renewed once within a third of the lease: so long is looked. */
void measure_renewed(const struct run *run)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_lock_t **locks = allocate((size_t)run->holds, sizeof(rdl_lock_t *));
    redisContext *second = connect_to(run->server);
    struct tally from, to;
    int64_t count, began, bytes;
    rdl_client_t *client;
    rdl_owner_t *owner;

    if (rdl_metrics_new(NULL, &options.metrics, NULL) < 0)
        fail("no memory");
    options.watchdog_lease_ms = run->lease_ms;
    client = ours_open(run->server, &options);
    owner = ours_owner(client);
    bytes = -resident();
    began = now_ns();
    for (int64_t i = 0; i < run->holds; i++) {
        char *name = format("bench:hold:%lld", (long long)i);

        locks[i] = ours_lock(client, "redlatch", name);
        free(name);
    }
    ours_hold_all(locks, run->holds, owner, RDL_LEASE_AUTO);
    answer_number("take_us", (double)(now_ns() - began) / (double)US / (double)run->holds);
    bytes += resident();
    from = tally_read(second, NULL);
    count = -renewed(options.metrics);
    pause_ns(run->lease_ms * MS / 3);
    to = tally_read(second, NULL);
    count += renewed(options.metrics);
    if (count == 0)
        fail("nothing was renewed");
    answer_number("bytes", (double)bytes / (double)run->holds);
    answer_number("count", (double)count);
    tally_answer(&from, &to, (double)count);
    answer_end();
    (void)rdl_client_close(client); /* the holds end with their leases */
    for (int64_t i = 0; i < run->holds; i++)
        (void)rdl_lock_free(locks[i]);
    (void)rdl_metrics_free(options.metrics);
    redisFree(second);
    free(locks);
}

/* ---- crowd ------------------------------------------------------------------------------------------------------ */

struct crowd {
    sem_t served;
    _Atomic bool over; /* who waits still is not let in any more */
};

struct member {
    rdl_owner_t *owner;
    struct crowd *crowd;
};

static void on_left(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct crowd *crowd = arg;

    (void)lock;
    if (atomic_load(&crowd->over))
        return;
    ours_check(result, err);
    (void)sem_post(&crowd->served);
}

static void on_let_in(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    const struct member *member = arg;
    rdl_err_t wrong;

    if (atomic_load(&member->crowd->over))
        return;
    ours_check(result, err);
    if (rdl_unlock_async(lock, member->owner, on_left, member->crowd, NULL, &wrong) < 0 &&
        !atomic_load(&member->crowd->over))
        fail("redlatch: %s", wrong.message);
}

void measure_crowd(const struct run *run)
{
    rdl_client_t *client = ours_open(run->server, NULL);
    rdl_lock_t *lock = ours_lock(client, run->kind, "bench:waited"), *free_one = ours_lock(client, "redlatch", "free");
    struct member *members = allocate((size_t)run->owners, sizeof *members);
    int64_t bytes = -resident(), began, joined, served = 0;
    struct timespec end;
    struct crowd crowd = {.over = false};
    rdl_err_t err;

    (void)sem_init(&crowd.served, 0, 0);
    ours_check(rdl_lock(lock, RDL_LEASE_AUTO, &err), &err);
    began = now_ns();
    for (int64_t i = 0; i < run->owners; i++) {
        members[i] = (struct member){.owner = ours_owner(client), .crowd = &crowd};
        ours_check(rdl_lock_async(lock, members[i].owner, RDL_LEASE_AUTO, on_let_in, &members[i], NULL, &err), &err);
    }
    /* behind them all */
    ours_check(rdl_lock_async(free_one, members[0].owner, RDL_LEASE_AUTO, on_let_in, &members[0], NULL, &err), &err);
    (void)sem_wait(&crowd.served);
    joined = now_ns();
    bytes += resident();
    ours_check(rdl_unlock(lock, &err), &err);
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)run->seconds;
    while (served < run->owners && sem_timedwait(&crowd.served, &end) == 0)
        served++;
    if (served == 0)
        fail("nobody was let in");
    answer_number("pass_us", (double)(now_ns() - joined) / (double)US / (double)served);
    answer_number("join_us", (double)(joined - began) / (double)US / (double)run->owners);
    answer_number("bytes", (double)bytes / (double)run->owners);
    answer_end();
    atomic_store(&crowd.over, true);
    (void)rdl_client_close(client); /* which ends what waits */
    for (int64_t i = 0; i < run->owners; i++)
        (void)rdl_owner_free(members[i].owner);
    (void)rdl_lock_free(lock);
    (void)rdl_lock_free(free_one);
    free(members);
}

/* ---- contended -------------------------------------------------------------------------------------------------- */

struct fight {
    int64_t end;
    _Atomic int64_t changes;
    sem_t over;
};

/* One of the two who want a name. */
struct side {
    struct fight *fight;
    rdl_lock_t *lock;
    rdl_owner_t *owner;
    _Atomic(const struct side *) *last; /* who had it */
};

static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg);

static void ask_for_it(struct side *side)
{
    rdl_err_t wrong;

    ours_check(rdl_lock_async(side->lock, side->owner, RDL_LEASE_AUTO, on_taken, side, NULL, &wrong), &wrong);
}

static void on_given(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct side *side = arg;

    (void)lock;
    ours_check(result, err);
    if (now_ns() < side->fight->end)
        ask_for_it(side);
    else
        (void)sem_post(&side->fight->over);
}

static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct side *side = arg;
    rdl_err_t wrong;

    ours_check(result, err);
    if (atomic_exchange(side->last, side) != side)
        atomic_fetch_add(&side->fight->changes, 1);
    ours_check(rdl_unlock_async(lock, side->owner, on_given, side, NULL, &wrong), &wrong);
}

void measure_contended(const struct run *run)
{
    rdl_client_t *clients[2] = {ours_open(run->server, NULL), ours_open(run->server, NULL)};
    rdl_owner_t *owners[2] = {ours_owner(clients[0]), ours_owner(clients[1])};
    struct side *sides = allocate(2 * (size_t)run->locks, sizeof *sides);
    _Atomic(const struct side *) *last = allocate((size_t)run->locks, sizeof *last);
    redisContext *second = connect_to(run->server);
    struct phase phase = phase_from_now(run);
    struct fight fight = {.end = phase.end};
    struct tally from, to;
    int64_t changes;

    (void)sem_init(&fight.over, 0, 0);
    for (int64_t i = 0; i < 2 * run->locks; i++) {
        char *name = format("bench:contended:%lld", (long long)(i / 2));

        sides[i] = (struct side){.fight = &fight,
                                 .lock = ours_lock(clients[i % 2], run->kind, name),
                                 .owner = owners[i % 2],
                                 .last = &last[i / 2]};
        ask_for_it(&sides[i]);
        free(name);
    }
    sleep_until(phase.start);
    changes = -atomic_load(&fight.changes);
    from = tally_read(second, NULL);
    sleep_until(phase.end);
    changes += atomic_load(&fight.changes);
    to = tally_read(second, NULL);
    for (int64_t i = 0; i < 2 * run->locks; i++)
        (void)sem_wait(&fight.over);
    if (changes == 0)
        fail("no lock changed hands");
    answer_number("per_second", (double)changes / run->seconds);
    tally_answer(&from, &to, (double)changes);
    answer_end();
    for (int64_t i = 0; i < 2 * run->locks; i++)
        (void)rdl_lock_free(sides[i].lock);
    for (int i = 0; i < 2; i++) {
        (void)rdl_owner_free(owners[i]);
        (void)rdl_client_close(clients[i]);
    }
    redisFree(second);
    free(sides);
    free(last);
}
