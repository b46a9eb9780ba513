/* SPDX-License-Identifier: MIT */
/* zipf.c - what a service does with locks of its data: names of which few are wanted often and most hardly ever, by the
 * threads of several processes, mostly to read.
 *
 * --locks names by Zipf's law with 0.99, 95 of 100 takes are of the read end of the name's read-write lock, the others
 * of its write end; nothing is done inside. What counts is the time until a take is granted. Handles stay, as a
 * program's would; making one is not counted. With a kind that ends in -kept the locks have the option cache_ms, and
 * clients keep --holds names.
 *
 * What counts is a service that has run for a while, as long as locks are kept. So each process begins by reading the
 * --holds most popular names, the most popular last, so often that they are kept; the other kind, too. */
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/processes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SKEW 0.99
#define READS_PERCENT 95
#define CACHE_MS 60000
#define READS_FIRST 3                   /* the client listens for recalls from the second on, and keeps the third */
#define AT_ONCE_NS (10 * US)            /* no round trip takes less */
#define MOST_SAMPLES (INT64_C(1) << 20) /* of a thread; of more, the last */

enum { READ, WRITE, ENDS };

/* Shared by all. */
struct market {
    const struct run *run;
    const double *share; /* of names up to this one; made before the processes */
    _Atomic int64_t ready;
    _Atomic int64_t start, end;
};

struct stall {
    rdl_client_t *client;
    bool keeps;
    _Atomic(rdl_lock_t *) *locks; /* [ENDS] of each name, made when it is wanted first */
    _Atomic int64_t left;         /* of the names to be read first */
};

struct buyer {
    struct market *market;
    struct stall *stall;
    uint64_t random;
    int64_t *ns; /* shared, as is the count */
    int64_t *count;
};

static double *shares(int64_t names)
{
    double *share = allocate((size_t)names, sizeof *share);
    double sum = 0;

    for (int64_t i = 0; i < names; i++)
        share[i] = sum += pow((double)(i + 1), -SKEW);
    for (int64_t i = 0; i < names; i++)
        share[i] /= sum;
    return share;
}

static uint64_t drawn(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    return *random ^= *random << 17;
}

static int64_t name_drawn(const struct market *market, uint64_t *random)
{
    double at = (double)(drawn(random) >> 11) / (double)(UINT64_C(1) << 53);
    int64_t low = 0, high = market->run->locks - 1;

    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (market->share[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static rdl_lock_t *lock_of(struct stall *stall, int64_t number, int end)
{
    _Atomic(rdl_lock_t *) *slot = &stall->locks[ENDS * number + end];
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_lock_t *lock = atomic_load(slot), *other = NULL;
    char *name;
    rdl_err_t err;

    if (lock != NULL)
        return lock;
    name = format("bench:%lld", (long long)number);
    options.cache_ms = stall->keeps ? CACHE_MS : 0;
    ours_check((end == READ ? rdl_read_lock : rdl_write_lock)(stall->client, name, &options, &lock, &err), &err);
    free(name);
    if (atomic_compare_exchange_strong(slot, &other, lock))
        return lock;
    (void)rdl_lock_free(lock);
    return other;
}

static void *look_round(void *arg)
{
    struct buyer *buyer = arg;
    int64_t number;
    rdl_err_t err;

    while ((number = atomic_fetch_sub(&buyer->stall->left, 1) - 1) >= 0)
        for (int i = 0; i < READS_FIRST; i++) {
            rdl_lock_t *lock = lock_of(buyer->stall, number, READ);

            ours_check(rdl_lock(lock, RDL_LEASE_AUTO, &err), &err);
            ours_check(rdl_unlock(lock, &err), &err);
        }
    return NULL;
}

static void *buy(void *arg)
{
    struct buyer *buyer = arg;
    const struct market *market = buyer->market;
    rdl_err_t err;

    while (now_ns() < atomic_load(&market->end)) {
        int64_t number = name_drawn(market, &buyer->random), asked_at, now;
        int end = (int)(drawn(&buyer->random) >> 11 & 1023);
        rdl_lock_t *lock = lock_of(buyer->stall, number, end * 100 < READS_PERCENT * 1024 ? READ : WRITE);

        asked_at = now_ns();
        ours_check(rdl_lock(lock, RDL_LEASE_AUTO, &err), &err);
        now = now_ns();
        ours_check(rdl_unlock(lock, &err), &err);
        if (asked_at >= atomic_load(&market->start) && now <= atomic_load(&market->end))
            buyer->ns[(*buyer->count)++ % MOST_SAMPLES] = now - asked_at;
    }
    return NULL;
}

struct place {
    struct market *market;
    struct buyer *buyers;
};

static void be_process(void *arg)
{
    const struct place *place = arg;
    const struct run *run = place->market->run;
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    struct stall stall = {.client = NULL,
                          .keeps = strstr(run->kind, "-kept") != NULL,
                          .locks = allocate(ENDS * (size_t)run->locks, sizeof *stall.locks),
                          .left = run->holds};

    options.cache_names = (int32_t)run->holds;
    stall.client = ours_open(run->server, &options);
    for (int64_t i = 0; i < run->threads; i++)
        place->buyers[i].stall = &stall;
    run_threads(run->threads, look_round, place->buyers, sizeof *place->buyers);
    atomic_fetch_add(&place->market->ready, 1);
    while (atomic_load(&place->market->ready) <= run->processes)
        pause_ns(MS);
    run_threads(run->threads, buy, place->buyers, sizeof *place->buyers);
    for (int64_t i = 0; i < ENDS * run->locks; i++)
        (void)rdl_lock_free(stall.locks[i]);
    (void)rdl_client_close(stall.client);
    free(stall.locks);
}

void measure_zipf(const struct run *run)
{
    int64_t threads = run->processes * run->threads, pairs = 0, at_once = 0;
    struct market *market = share(sizeof *market);
    int64_t *counts = share((size_t)threads * sizeof *counts);
    int64_t *ns = share((size_t)(threads * MOST_SAMPLES) * sizeof *ns);
    struct buyer *buyers = allocate((size_t)threads, sizeof *buyers);
    struct place *places = allocate((size_t)run->processes, sizeof *places);
    pid_t *pids = allocate((size_t)run->processes, sizeof *pids);
    struct samples all = {0};
    struct phase phase;

    market->run = run;
    market->share = shares(run->locks);
    market->start = market->end = INT64_MAX;
    for (int64_t i = 0; i < threads; i++)
        buyers[i] = (struct buyer){.market = market,
                                   .random = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1),
                                   .ns = ns + i * MOST_SAMPLES,
                                   .count = &counts[i]};
    for (int64_t i = 0; i < run->processes; i++) {
        places[i] = (struct place){.market = market, .buyers = buyers + i * run->threads};
        pids[i] = spawn(be_process, &places[i]);
    }
    while (atomic_load(&market->ready) < run->processes)
        pause_ns(MS);
    phase = phase_from_now(run);
    market->start = phase.start;
    market->end = phase.end;
    atomic_fetch_add(&market->ready, 1);
    for (int64_t i = 0; i < run->processes; i++)
        reap(pids[i]);
    for (int64_t i = 0; i < threads; i++) {
        pairs += counts[i];
        for (int64_t k = 0; k < counts[i] && k < MOST_SAMPLES; k++)
            samples_add(&all, buyers[i].ns[k]);
    }
    for (size_t i = 0; i < all.count; i++)
        at_once += all.ns[i] < AT_ONCE_NS;
    answer_samples("", &all);
    answer_number("per_second", (double)pairs / run->seconds);
    answer_number("at_once", 100 * (double)at_once / (double)all.count);
    answer_end();
    samples_done(&all);
    free((double *)(uintptr_t)market->share);
    free(buyers);
    free(places);
    free(pids);
}
