/* SPDX-License-Identifier: MIT */
#include "tests/interop/rounds.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>

#define SIDE 'C'

struct record {
    int64_t count;
    char side;
    int64_t in_a_row;
};

void rounds_prepare(struct probe *p, const char *name)
{
    (void)probe_int(p, "DEL '{%s}:inside'", name);
    (void)probe_text(p, "SET '{%s}:record' '0 - 0'", name);
}

static struct record read_record(struct probe *p, const char *name)
{
    struct record r = {0};
    const char *text = probe_text(p, "GET '{%s}:record'", name);

    if (text == NULL || sscanf(text, "%" SCNd64 " %c %" SCNd64, &r.count, &r.side, &r.in_a_row) != 3)
        die("no record of rounds: %s", text != NULL ? text : "nil");
    return r;
}

int64_t rounds_count(struct probe *p, const char *name)
{
    return read_record(p, name).count;
}

static struct record next_record(const struct record *last)
{
    return (struct record){
        .count = last->count + 1,
        .side = SIDE,
        .in_a_row = last->side == SIDE ? last->in_a_row + 1 : 1,
    };
}

/* What happens under the lock; returns the record as it is then. */
static struct record work(struct probe *p, const struct rounds_plan *plan, struct rounds_done *done)
{
    const char *name = plan->name;
    struct record last;

    if (probe_int(p, "INCR '{%s}:inside'", name) != 1)
        done->overlaps++;
    last = read_record(p, name);
    if (last.count < plan->goal) {
        done->crossings += last.side != SIDE;
        done->rounds++;
        last = next_record(&last);
        (void)probe_text(p, "SET '{%s}:record' '%" PRId64 " %c %" PRId64 "'", name, last.count, last.side,
                         last.in_a_row);
    }
    (void)probe_int(p, "DECR '{%s}:inside'", name);
    return last;
}

static bool others_had_one(struct probe *p, const struct rounds_plan *plan)
{
    struct record last = read_record(p, plan->name);

    return last.side != SIDE || last.count >= plan->goal;
}

int rounds_take_part(rdl_lock_t *lock, struct probe *p, const struct rounds_plan *plan, struct rounds_done *done)
{
    struct record last;
    int rc;

    do {
        if ((rc = rdl_try_lock(lock, plan->bound_ms, plan->lease_ms, NULL)) < 0)
            return rc;
        last = work(p, plan, done);
        if ((rc = rdl_unlock(lock, NULL)) < 0)
            return rc;
        if (last.side == SIDE && last.in_a_row >= plan->streak && !WAIT_UNTIL(others_had_one(p, plan), plan->bound_ms))
            return RDL_ETIMEDOUT;
    } while (last.count < plan->goal);
    return RDL_OK;
}
