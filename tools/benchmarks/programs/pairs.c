/* SPDX-License-Identifier: MIT */
/* pairs.c - lock and unlock, as fast as each of N threads can.
 *
 * One thread measures latency, many measure throughput. Thread i takes lock i modulo --locks. With --count each thread
 * makes so many pairs, for those who count instructions or system calls and subtract. With --batch so many pairs make
 * one sample, their mean: for pairs that take hardly longer than reading the clock. */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/tally.h"
#include "tools/benchmarks/programs/traffic.h"

#include <pthread.h>
#include <stdlib.h>

struct part {
    const struct kind *kind;
    void *party;
    struct phase phase;
    int64_t count; /* 0: as many as there is time for */
    int64_t batch;
    struct samples samples;
};

static void *lock_and_unlock(void *arg)
{
    struct part *part = arg;
    const struct kind_ops *ops = part->kind->ops;
    int64_t before = now_ns();

    for (int64_t i = 0; before < part->phase.end && (part->count == 0 || i < part->count); i++) {
        int64_t after;

        for (int64_t k = 0; k < part->batch; k++) {
            ops->take(part->party);
            ops->release(part->party);
        }
        after = now_ns();
        if (part->count == 0 && before >= part->phase.start && after <= part->phase.end)
            samples_add(&part->samples, (after - before) / part->batch);
        before = after;
    }
    return NULL;
}

struct watch {
    redisContext *c;
    const char *plain;
    struct phase phase;
    struct tally from, to;
};

static void *watch_phase(void *arg)
{
    struct watch *watch = arg;

    tally_phase(watch->c, watch->plain, watch->phase, &watch->from, &watch->to);
    return NULL;
}

static void answer(const struct run *run, struct samples *all, const struct watch *watch)
{
    if (run->count == 0) { /* else nothing was timed, so that nothing but pairs is counted */
        double pairs = (double)all->count * (double)run->batch;

        answer_samples("", all);
        answer_number("per_second", pairs / run->seconds);
        tally_answer(&watch->from, &watch->to, pairs);
    }
    answer_end();
}

void measure_pairs(const struct run *run)
{
    const struct kind *kind = kind_of(run);
    void *common = kind->ops->start(run, run->server);
    struct part *parts = allocate((size_t)run->threads, sizeof *parts);
    struct watch watch = {.c = connect_to(run->server), .plain = kind->plain};
    struct samples all = {0};
    pthread_t watcher;

    for (int64_t i = 0; i < run->threads; i++) {
        char *name = format("bench:%lld", (long long)(i % run->locks));

        parts[i] = (struct part){
            .kind = kind, .party = kind->ops->join(common, name), .count = run->count, .batch = run->batch};
        free(name);
    }
    watch.phase = phase_from_now(run);
    for (int64_t i = 0; i < run->threads; i++)
        parts[i].phase = watch.phase;
    if (run->count == 0 && pthread_create(&watcher, NULL, watch_phase, &watch) != 0)
        fail("cannot start a thread");
    run_threads(run->threads, lock_and_unlock, parts, sizeof *parts);
    if (run->count == 0)
        (void)pthread_join(watcher, NULL);
    for (int64_t i = 0; i < run->threads; i++) {
        samples_add_all(&all, &parts[i].samples);
        samples_done(&parts[i].samples);
        kind->ops->part(parts[i].party);
    }
    kind->ops->stop(common);
    redisFree(watch.c);
    free(parts);
    answer(run, &all, &watch);
    samples_done(&all);
}
