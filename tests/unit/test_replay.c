/* SPDX-License-Identifier: MIT */
/* test_replay.c - what a server has confirmed is repeated at its successor: all of it, while its time lasts, within
 * bounds.
 *
 * The lane is the one below: it keeps what is submitted until the test settles it. */
#include "core/service/replay.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ENTRIES = 2 * RDL__REPLAY_MAX, IN_FLIGHT_MAX = 1000 };

#define T0 (1000 * RDL__SEC)

struct rdl__lane {
    struct rdl__req *reqs[IN_FLIGHT_MAX];
    size_t count, most;
};

static struct counting_alloc counting;
static struct rdl__mem mem;
static struct rdl__lane wire;
static struct rdl__replay *replay;
static int kept[ENTRIES];     /* copies of the entry that are there */
static int repeated[ENTRIES]; /* how often it was encoded */

void rdl__lane_submit(struct rdl__lane *lane, struct rdl__req *req)
{
    cr_assert_lt(lane->count, IN_FLIGHT_MAX);
    lane->reqs[lane->count++] = req;
    if (lane->count > lane->most)
        lane->most = lane->count;
}

static void encode(const struct rdl__replay_entry *entry, struct rdl__buf *to, bool eval)
{
    (void)to;
    (void)eval;
    repeated[entry->n]++;
}

static void keep(const struct rdl__replay_entry *entry)
{
    kept[entry->n]++;
}

static void drop(const struct rdl__replay_entry *entry)
{
    cr_assert_gt(kept[entry->n], 0);
    kept[entry->n]--;
}

static const struct rdl__replay_ops ops = {.encode = encode, .keep = keep, .drop = drop};

static void note(int n, int64_t now, int64_t until)
{
    rdl__replay_note(replay, &(struct rdl__replay_entry){.ops = &ops, .n = n, .until = until}, now);
}

/* The oldest request under way is sent, and ends with `rc`. */
static void settle(int rc, int64_t now)
{
    struct rdl__req *req = wire.reqs[0];

    wire.count--;
    memmove(wire.reqs, wire.reqs + 1, wire.count * sizeof *wire.reqs);
    req->ops->encode(req, NULL, false);
    req->rc = rc;
    req->ops->done(req, now);
}

static void repeat_all(int64_t now)
{
    memset(repeated, 0, sizeof repeated);
    rdl__replay_repeat(replay, now);
    while (wire.count > 0)
        settle(RDL_OK, now);
}

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    replay = rdl__replay_new(&mem, &wire);
    cr_assert_not_null(replay);
}

static void tear_down(void)
{
    replay = rdl__replay_free(replay);
    for (int i = 0; i < ENTRIES; i++)
        cr_assert_eq(kept[i], 0, "entry %d", i);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(replay, .init = set_up, .fini = tear_down, .timeout = 60);

Test(replay, every_entry_whose_time_lasts_is_repeated_once_at_each_successor)
{
    for (int i = 0; i < 1000; i++)
        note(i, T0, T0 + (i % 2 == 0 ? RDL__SEC : 3 * RDL__SEC));
    for (int again = 0; again < 2; again++) {
        repeat_all(T0);
        for (int i = 0; i < 1000; i++)
            cr_assert_eq(repeated[i], 1, "entry %d: %d", i, repeated[i]);
    }
    repeat_all(T0 + 2 * RDL__SEC);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(repeated[i], i % 2, "entry %d: %d", i, repeated[i]);
    repeat_all(T0 + 3 * RDL__SEC);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(repeated[i], 0);
}

Test(replay, nothing_is_repeated_where_nothing_was_done)
{
    rdl__replay_repeat(replay, T0);
    cr_assert_eq(wire.count, 0);
}

Test(replay, other_commands_slip_in_between)
{
    for (int i = 0; i < 1000; i++)
        note(i, T0, T0 + RDL__SEC);
    repeat_all(T0);
    cr_assert_leq(wire.most, 32);
}

Test(replay, entries_are_forgotten_when_their_time_is_over)
{
    for (int i = 0; i < 100; i++)
        note(i, T0, T0 + RDL__SEC);
    note(100, T0 + 2 * RDL__SEC, T0 + 3 * RDL__SEC);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(kept[i], 0);
    cr_assert_eq(kept[100], 1);
}

Test(replay, no_more_are_remembered_than_the_bound_and_the_oldest_go_first)
{
    for (int i = 0; i < RDL__REPLAY_MAX + 100; i++)
        note(i, T0, T0 + RDL__SEC);
    for (int i = 0; i < RDL__REPLAY_MAX + 100; i++)
        cr_assert_eq(kept[i], i >= 100, "entry %d", i);
    repeat_all(T0);
    for (int i = 0; i < RDL__REPLAY_MAX + 100; i++)
        cr_assert_eq(repeated[i], i >= 100, "entry %d", i);
}

/* Also of those that had their turn at a successor which was itself replaced. */
Test(replay, a_second_failover_begins_anew)
{
    for (int i = 0; i < 100; i++)
        note(i, T0, T0 + RDL__SEC);
    rdl__replay_repeat(replay, T0);
    for (int i = 0; i < 50; i++)
        settle(RDL_OK, T0);
    repeat_all(T0);
    for (int i = 0; i < 100; i++)
        cr_assert_geq(repeated[i], 1, "entry %d", i);
}

Test(replay, entries_that_are_forgotten_during_a_repetition_are_left_out_of_it)
{
    for (int i = 0; i < 100; i++)
        note(i, T0, T0 + RDL__SEC);
    rdl__replay_repeat(replay, T0);
    note(100, T0 + 2 * RDL__SEC, T0 + 3 * RDL__SEC);
    while (wire.count > 0)
        settle(RDL_OK, T0 + 2 * RDL__SEC);
    for (int i = 0; i <= 100; i++)
        cr_assert_eq(repeated[i], i < 32, "entry %d", i);
}

Test(replay, a_lane_that_closes_ends_the_repetition)
{
    for (int i = 0; i < 100; i++)
        note(i, T0, T0 + RDL__SEC);
    rdl__replay_repeat(replay, T0);
    while (wire.count > 0)
        settle(RDL_ECLOSED, T0);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(kept[i], 1);
}

Test(replay, where_memory_is_short_less_is_remembered)
{
    counting_alloc_fail_from(&counting, 1);
    note(0, T0, T0 + RDL__SEC);
    cr_assert_eq(kept[0], 0);
    counting_alloc_fail_at(&counting, 0);
    for (int i = 0; i < 64; i++)
        note(i, T0, T0 + RDL__SEC);
    counting_alloc_fail_from(&counting, 1);
    note(64, T0, T0 + RDL__SEC);
    counting_alloc_fail_at(&counting, 0);
    for (int i = 0; i <= 64; i++)
        cr_assert_eq(kept[i], i > 0, "entry %d", i);
}
