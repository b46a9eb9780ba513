/* SPDX-License-Identifier: MIT */
/* test_agenda.c - the agenda against an oracle that looks at every node. */
#include "core/base/agenda.h"
#include "core/base/clock.h"
#include "core/base/entropy.h"

#include <criterion/criterion.h>
#include <string.h>

enum { NODES = 300 };
#define SLOT (INT64_C(1) << RDL__AGENDA_SHIFT)

static struct rdl__agenda agenda;
static struct rdl__heap_node nodes[NODES];

static void set_up(void)
{
    memset(&agenda, 0, sizeof agenda);
    memset(nodes, 0, sizeof nodes);
}

TestSuite(agenda, .init = set_up, .timeout = 60);

/* What it should hold, as a plain array. */
struct oracle {
    bool in[NODES];
    int64_t at[NODES];
};

static int64_t least_of(const struct oracle *o)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < NODES; i++)
        if (o->in[i] && o->at[i] < least)
            least = o->at[i];
    return least;
}

/* A walk meets each node once. */
static void expect_walk(const struct oracle *o)
{
    int met[NODES] = {0};

    for (struct rdl__heap_node *n = NULL; (n = rdl__agenda_next(&agenda, n)) != NULL;)
        met[n - nodes]++;
    for (int i = 0; i < NODES; i++)
        cr_assert_eq(met[i], o->in[i], "node %d is met %d times", i, met[i]);
}

static void expect_like_oracle(const struct oracle *o)
{
    struct rdl__heap_node *min;
    size_t count = 0;

    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(rdl__heap_has(&nodes[i]), o->in[i]);
        count += o->in[i];
    }
    expect_walk(o);
    min = rdl__agenda_min(&agenda);
    cr_assert_eq(min == NULL, count == 0);
    if (min != NULL)
        cr_assert_eq(min->at, least_of(o));
    cr_assert_eq(agenda.heap.count + agenda.in_slots, count);
}

/* Now and then for ever, and beyond the last slot; else within `slots` of `from`. */
static int64_t some_time(struct rdl__rand *rand, int64_t from, uint64_t slots)
{
    if (rdl__rand_below(rand, 50) == 0)
        return RDL__NEVER;
    if (rdl__rand_below(rand, 20) == 0)
        return from + 700 * SLOT;
    return from + (int64_t)rdl__rand_below(rand, slots * (uint64_t)SLOT);
}

static void agrees(uint64_t seed, uint64_t slots)
{
    struct rdl__rand rand = {.state = seed};
    struct oracle o = {0};
    int64_t now = (int64_t)rdl__rand_below(&rand, 1000) * SLOT;

    set_up();
    for (int i = 0; i < 1500; i++) {
        size_t k = rdl__rand_below(&rand, NODES);
        struct rdl__heap_node *min;

        if (rdl__rand_below(&rand, 5) == 0) {
            rdl__agenda_remove(&agenda, &nodes[k]);
            o.in[k] = false;
        } else if (rdl__rand_below(&rand, 2) == 0 && (min = rdl__agenda_min(&agenda)) != NULL) { /* it is put off */
            k = (size_t)(min - nodes);
            now = min->at == RDL__NEVER ? now : min->at;
            o.at[k] = some_time(&rand, now, slots);
            rdl__agenda_move(&agenda, &nodes[k], o.at[k]);
        } else {
            o.in[k] = true;
            o.at[k] = some_time(&rand, now, slots);
            rdl__agenda_move(&agenda, &nodes[k], o.at[k]);
        }
        expect_like_oracle(&o);
    }
}

Test(agenda, agrees_with_a_plain_array_after_every_random_step)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        agrees(seed, 2);
        agrees(seed, 60);
        agrees(seed, RDL__AGENDA_SLOTS);
        agrees(seed, 3 * RDL__AGENDA_SLOTS / 2);
    }
    cr_assert(true);
}

/* What is due much later does not keep from the lists what comes then and is due sooner. */
Test(agenda, only_what_is_due_soon_is_in_the_heap)
{
    rdl__agenda_move(&agenda, &nodes[0], 100000 * SLOT);
    for (int i = 1; i < NODES; i++)
        rdl__agenda_move(&agenda, &nodes[i], i * SLOT);
    cr_assert_eq(rdl__agenda_min(&agenda), &nodes[1]);
    cr_assert_eq(agenda.heap.count, 2);
    for (int i = 1; i < NODES; i++) {
        cr_assert_eq(rdl__agenda_min(&agenda), &nodes[i]);
        cr_assert_leq(agenda.heap.count, 3);
        rdl__agenda_move(&agenda, &nodes[i], (i + NODES) * SLOT);
    }
}

Test(agenda, takes_the_ends_of_time)
{
    rdl__agenda_move(&agenda, &nodes[0], INT64_MAX);
    rdl__agenda_move(&agenda, &nodes[1], INT64_MIN);
    cr_assert_eq(rdl__agenda_min(&agenda), &nodes[1]);
    rdl__agenda_move(&agenda, &nodes[1], INT64_MAX);
    rdl__agenda_move(&agenda, &nodes[0], 0);
    cr_assert_eq(rdl__agenda_min(&agenda), &nodes[0]);
    rdl__agenda_remove(&agenda, &nodes[0]);
    rdl__agenda_remove(&agenda, &nodes[0]);
    cr_assert_eq(rdl__agenda_min(&agenda), &nodes[1]);
}
