/* SPDX-License-Identifier: MIT */
/* shares.c - what each of N threads gets of one lock that others want as well, one type after another.
 *
 * The others are Redisson's (peers/redisson, mode shares), who keep to the same times: type i has its turn i turns
 * after
 * --at-ms (since 1970), and a turn is a warm-up, the time in which takes are counted, and a rest in which the last
 * waiters have the lock and leave. A thread holds the lock for --hold-ms and comes back after --pause-ms. */
#include "tools/benchmarks/programs/ours.h"

#include <stdlib.h>
#include <time.h>

#define WARMUP_NS SEC
#define REST_NS SEC

static const char *const types[][2] = {{"reentrant", "redlatch"},
                                       {"fenced", "redlatch-fenced"},
                                       {"fair", "redlatch-fair"},
                                       {"write", "redlatch-write"},
                                       {"spin", "redlatch-spin"}};

struct part {
    const struct run *run;
    rdl_lock_t *lock;
    struct phase phase;
    int64_t taken;
};

static void *take_turns(void *arg)
{
    struct part *part = arg;
    rdl_err_t err;

    while (now_ns() < part->phase.end) {
        int64_t now;

        ours_check(rdl_lock(part->lock, RDL_LEASE_AUTO, &err), &err);
        now = now_ns();
        part->taken += now >= part->phase.start && now < part->phase.end;
        if (part->run->hold_ms > 0)
            pause_ns(part->run->hold_ms * MS);
        ours_check(rdl_unlock(part->lock, &err), &err);
        if (part->run->pause_ms > 0)
            pause_ns(part->run->pause_ms * MS);
    }
    return NULL;
}

/* The time of day, on the clock of now_ns. */
static int64_t at(int64_t ms_since_1970)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return now_ns() + ms_since_1970 * MS - (t.tv_sec * SEC + t.tv_nsec);
}

static void answer(const char *type, const struct part *parts, int64_t threads)
{
    int64_t least = INT64_MAX, sum = 0;
    char *name;

    for (int64_t i = 0; i < threads; i++) {
        least = parts[i].taken < least ? parts[i].taken : least;
        sum += parts[i].taken;
    }
    answer_number(name = format("%s_least", type), (double)least);
    free(name);
    answer_number(name = format("%s_sum", type), (double)sum);
    free(name);
}

void measure_shares(const struct run *run)
{
    rdl_client_t *client = ours_open(run->server, NULL);
    struct part *parts = allocate((size_t)run->threads, sizeof *parts);
    int64_t counted = (int64_t)(run->seconds * (double)SEC), begin = at(run->at_ms);

    if (begin < now_ns())
        fail("too late for the others");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++, begin += WARMUP_NS + counted + REST_NS) {
        char *name = format("bench:shared:%s", types[i][0]);
        rdl_lock_t *lock = ours_lock(client, types[i][1], name);
        struct phase phase = {.start = begin + WARMUP_NS, .end = begin + WARMUP_NS + counted};

        for (int64_t t = 0; t < run->threads; t++)
            parts[t] = (struct part){.run = run, .lock = lock, .phase = phase};
        sleep_until(begin);
        run_threads(run->threads, take_turns, parts, sizeof *parts);
        answer(types[i][0], parts, run->threads);
        (void)rdl_lock_free(lock);
        free(name);
    }
    answer_end();
    (void)rdl_client_close(client);
    free(parts);
}
