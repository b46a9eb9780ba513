/* SPDX-License-Identifier: MIT */
/* test_heap.c - the pairing heap against an oracle that looks at every node. */
#include "core/base/entropy.h"
#include "core/base/heap.h"

#include <criterion/criterion.h>
#include <string.h>

enum { NODES = 200 };

static struct rdl__heap heap;
static struct rdl__heap_node nodes[NODES];

static void set_up(void)
{
    memset(&heap, 0, sizeof heap);
    memset(nodes, 0, sizeof nodes);
}

TestSuite(heap, .init = set_up, .timeout = 60);

/* What the heap should hold, as a plain array. */
struct oracle {
    bool in[NODES];
    int64_t at[NODES];
};

static void assert_like_oracle(const struct oracle *o)
{
    size_t count = 0;
    int64_t least = INT64_MAX;

    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(rdl__heap_has(&nodes[i]), o->in[i]);
        if (!o->in[i])
            continue;
        cr_assert_eq(nodes[i].at, o->at[i]);
        count++;
        least = o->at[i] < least ? o->at[i] : least;
    }
    cr_assert_eq(heap.count, count);
    cr_assert_eq(rdl__heap_min(&heap) == NULL, count == 0);
    if (count != 0)
        cr_assert_eq(rdl__heap_min(&heap)->at, least);
}

static void step(struct rdl__rand *rand, struct oracle *o)
{
    size_t i = rdl__rand_below(rand, NODES);
    int64_t at = (int64_t)rdl__rand_below(rand, 50) - 25; /* few values: many ties */

    switch (rdl__rand_below(rand, 4)) {
    case 0:
        if (!o->in[i])
            rdl__heap_insert(&heap, &nodes[i], at);
        else
            rdl__heap_move(&heap, &nodes[i], at);
        break;
    case 1:
        rdl__heap_remove(&heap, &nodes[i]);
        o->in[i] = false;
        return;
    case 2:
        if (rdl__heap_min(&heap) != NULL) {
            i = (size_t)(rdl__heap_min(&heap) - nodes);
            rdl__heap_remove(&heap, &nodes[i]);
            o->in[i] = false;
        }
        return;
    default:
        rdl__heap_move(&heap, &nodes[i], at);
        break;
    }
    o->in[i] = true;
    o->at[i] = at;
}

Test(heap, agrees_with_a_plain_array_after_every_random_step)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rdl__rand rand = {.state = seed};
        struct oracle o = {0};

        set_up();
        for (int i = 0; i < 2000; i++) {
            step(&rand, &o);
            assert_like_oracle(&o);
        }
    }
}

Test(heap, gives_everything_back_in_order)
{
    struct rdl__rand rand = {.state = 7};
    int64_t last = INT64_MIN;

    for (int i = 0; i < NODES; i++)
        rdl__heap_insert(&heap, &nodes[i], (int64_t)rdl__rand_next(&rand));
    for (int i = 0; i < NODES; i++) {
        struct rdl__heap_node *min = rdl__heap_min(&heap);

        cr_assert_geq(min->at, last);
        last = min->at;
        rdl__heap_remove(&heap, min);
    }
    cr_assert_null(rdl__heap_min(&heap));
    cr_assert_eq(heap.count, 0);
}

Test(heap, takes_the_ends_of_time)
{
    rdl__heap_insert(&heap, &nodes[0], INT64_MAX);
    rdl__heap_insert(&heap, &nodes[1], INT64_MIN);
    cr_assert_eq(rdl__heap_min(&heap), &nodes[1]);
    rdl__heap_move(&heap, &nodes[1], INT64_MAX);
    rdl__heap_move(&heap, &nodes[0], 0);
    cr_assert_eq(rdl__heap_min(&heap), &nodes[0]);
}

Test(heap, removing_what_is_not_there_does_nothing)
{
    rdl__heap_remove(&heap, &nodes[0]);
    rdl__heap_insert(&heap, &nodes[1], 5);
    rdl__heap_remove(&heap, &nodes[0]);
    rdl__heap_remove(&heap, &nodes[1]);
    rdl__heap_remove(&heap, &nodes[1]);
    cr_assert_eq(heap.count, 0);
}

Test(heap, a_hundred_thousand_siblings_need_no_deep_stack)
{
    enum { MANY = 100000 };
    static struct rdl__heap_node many[MANY];
    int64_t last = -1;

    for (int i = 0; i < MANY; i++)
        rdl__heap_insert(&heap, &many[i], i);
    for (int i = 0; i < MANY; i++) {
        cr_assert_gt(rdl__heap_min(&heap)->at, last);
        last = rdl__heap_min(&heap)->at;
        rdl__heap_remove(&heap, rdl__heap_min(&heap));
    }
}

/* Whatever the heap looks like inside, each node comes once. */
Test(heap, a_walk_meets_every_node_once)
{
    enum { SOME = 200 };
    static struct rdl__heap_node some[SOME];
    static int met[SOME];

    cr_assert_null(rdl__heap_min(&heap));
    for (int i = 0; i < SOME; i++)
        rdl__heap_insert(&heap, &some[i], i * 37 % SOME);
    for (int left = SOME; left > 0; left -= 3) { /* removing makes deep trees of flat ones */
        int seen = 0;

        for (struct rdl__heap_node *n = rdl__heap_min(&heap); n != NULL; n = rdl__heap_next(n)) {
            met[n - some]++;
            seen++;
        }
        cr_assert_eq(seen, left);
        for (int i = 0; i < SOME; i++)
            cr_assert_eq(met[i], rdl__heap_has(&some[i]) ? 1 : 0);
        memset(met, 0, sizeof met);
        for (int i = 0; i < 3 && rdl__heap_min(&heap) != NULL; i++)
            rdl__heap_remove(&heap, rdl__heap_min(&heap));
    }
}
