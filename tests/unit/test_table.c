/* SPDX-License-Identifier: MIT */
/* test_table.c - the hash table against an oracle, and when memory for growing is short. */
#include "core/base/entropy.h"
#include "core/base/table.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <redlatch/error.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES = 1000, KEY_CAP = 16 };

struct entry {
    struct rdl__table_node node; /* first, so that a node is its entry */
    char key[KEY_CAP];
    bool in;
    bool seen;
};

static struct counting_alloc counting;
static struct rdl__mem mem;
static struct rdl__table table;
static struct entry entries[ENTRIES];

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    cr_assert_eq(rdl__table_init(&table, &mem), RDL_OK);
    for (int i = 0; i < ENTRIES; i++) {
        entries[i].node.key_len = (uint32_t)snprintf(entries[i].key, KEY_CAP, "lock:%d", i);
        entries[i].node.key = entries[i].key;
    }
}

static void tear_down(void)
{
    rdl__table_done(&table);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(table, .init = set_up, .fini = tear_down, .timeout = 60);

static void add(struct entry *e)
{
    rdl__table_add(&table, &e->node);
    e->in = true;
}

static void take_out(struct entry *e)
{
    rdl__table_remove(&table, &e->node);
    e->in = false;
}

static void assert_finds_what_is_in(void)
{
    for (int i = 0; i < ENTRIES; i++) {
        const struct entry *e = &entries[i];

        cr_assert_eq(rdl__table_find(&table, e->key, e->node.key_len), e->in ? &e->node : NULL);
    }
}

static void assert_walk_sees_each_once(void)
{
    size_t steps = 0;

    for (int i = 0; i < ENTRIES; i++)
        entries[i].seen = false;
    for (struct rdl__table_node *n = NULL; (n = rdl__table_next(&table, n)) != NULL; steps++) {
        struct entry *e = (struct entry *)(void *)n;

        cr_assert(e->in && !e->seen);
        e->seen = true;
    }
    cr_assert_eq(steps, table.count);
}

Test(table, agrees_with_an_array_under_random_steps)
{
    struct rdl__rand rand = {.state = 3};
    size_t count = 0;

    for (int i = 0; i < 20000; i++) {
        struct entry *e = &entries[rdl__rand_below(&rand, ENTRIES)];

        if (e->in)
            take_out(e);
        else
            add(e);
        count += e->in ? 1 : (size_t)-1;
        cr_assert_eq(table.count, count);
        cr_assert_eq(rdl__table_find(&table, e->key, e->node.key_len), e->in ? &e->node : NULL);
        if (i % 1000 == 0) {
            assert_finds_what_is_in();
            assert_walk_sees_each_once();
        }
    }
}

Test(table, grows_so_that_chains_stay_short)
{
    size_t longest = 0;

    for (int i = 0; i < ENTRIES; i++)
        add(&entries[i]);
    cr_assert_geq(table.slot_count, ENTRIES);
    for (size_t i = 0; i < table.slot_count; i++) {
        size_t length = 0;

        for (const struct rdl__table_node *n = table.slots[i]; n != NULL; n = n->next)
            length++;
        longest = length > longest ? length : longest;
    }
    cr_assert_leq(longest, 8);
}

Test(table, works_on_without_memory_for_growing)
{
    size_t slots = table.slot_count;

    counting_alloc_fail_from(&counting, 1);
    for (int i = 0; i < ENTRIES; i++)
        add(&entries[i]);
    cr_assert_gt(counting_alloc_refused(&counting), 0);
    cr_assert_eq(table.slot_count, slots);
    assert_finds_what_is_in();
    assert_walk_sees_each_once();

    counting_alloc_fail_from(&counting, 0);
    take_out(&entries[0]);
    add(&entries[0]);
    cr_assert_gt(table.slot_count, slots);
    assert_finds_what_is_in();
}

Test(table, init_without_memory_fails_and_leaves_a_table_that_can_be_freed)
{
    struct rdl__table other;

    counting_alloc_fail_from(&counting, 1);
    cr_assert_eq(rdl__table_init(&other, &mem), RDL_ENOMEM);
    cr_assert_null(rdl__table_find(&other, "x", 1));
    cr_assert_null(rdl__table_next(&other, NULL));
    rdl__table_done(&other);
    other = (struct rdl__table){0};
    rdl__table_done(&other);
}

Test(table, keys_are_bytes)
{
    static struct entry binary[] = {
        {.node = {.key = "", .key_len = 0}},         {.node = {.key = "\0", .key_len = 1}},
        {.node = {.key = "\0\0", .key_len = 2}},     {.node = {.key = "a\0b", .key_len = 3}},
        {.node = {.key = "a\0c", .key_len = 3}},     {.node = {.key = "a", .key_len = 1}},
        {.node = {.key = "12345678", .key_len = 8}}, {.node = {.key = "12345678\0", .key_len = 9}},
    };
    enum { COUNT = sizeof binary / sizeof *binary };

    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_null(rdl__table_find(&table, binary[i].node.key, binary[i].node.key_len));
        add(&binary[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(rdl__table_find(&table, binary[i].node.key, binary[i].node.key_len), &binary[i].node);
}

Test(table, walk_goes_on_after_removal_when_next_was_read_before)
{
    struct rdl__table_node *n, *next;

    for (int i = 0; i < ENTRIES; i++)
        add(&entries[i]);
    for (n = rdl__table_next(&table, NULL); n != NULL; n = next) {
        next = rdl__table_next(&table, n);
        take_out((struct entry *)(void *)n);
    }
    cr_assert_eq(table.count, 0);
    assert_finds_what_is_in();
}

Test(table, hash_uses_every_byte)
{
    char key[64] = {0};
    uint64_t plain = rdl__hash(key, sizeof key);

    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = 1;
        cr_assert_neq(rdl__hash(key, sizeof key), plain);
        cr_assert_neq(rdl__hash(key, i), rdl__hash(key, i + 1));
        key[i] = 0;
    }
}
