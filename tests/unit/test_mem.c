/* SPDX-License-Identifier: MIT */
/* test_mem.c - the allocator hooks get back what they gave. */
#include "core/base/mem.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <string.h>

static struct counting_alloc counting;
static struct rdl__mem mem;

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
}

static void tear_down(void)
{
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(mem, .init = set_up, .fini = tear_down, .timeout = 10);

Test(mem, uses_the_hooks_for_everything)
{
    char *a = rdl__alloc(&mem, 100);
    char *b = rdl__zalloc(&mem, 50);
    char *c = rdl__memdup(&mem, "abc", 3);

    cr_assert_eq(counting_alloc_blocks(&counting), 3);
    cr_assert_eq(counting_alloc_bytes(&counting), 154);
    rdl__free(&mem, a, 100);
    rdl__free(&mem, b, 50);
    rdl__free(&mem, c, 4);
}

Test(mem, zalloc_zeroes)
{
    static const char zeros[333];
    char *block = rdl__zalloc(&mem, sizeof zeros);

    cr_assert_arr_eq(block, zeros, sizeof zeros);
    rdl__free(&mem, block, sizeof zeros);
}

Test(mem, nothing_is_a_block_too)
{
    char *empty = rdl__alloc(&mem, 0);
    char *zeroed = rdl__zalloc(&mem, 0);

    cr_assert_not_null(empty);
    cr_assert_not_null(zeroed);
    rdl__free(&mem, empty, 0);
    rdl__free(&mem, zeroed, 0);
}

Test(mem, free_takes_null)
{
    rdl__free(&mem, NULL, 17); /* the hooks assert that they are given no NULL */
}

Test(mem, memdup_copies_any_bytes_and_ends_them)
{
    char *copy = rdl__memdup(&mem, "a\0b", 3);
    char *empty = rdl__memdup(&mem, NULL, 0);

    cr_assert_arr_eq(copy, "a\0b\0", 4);
    cr_assert_str_eq(empty, "");
    rdl__free(&mem, copy, 4);
    rdl__free(&mem, empty, 1);
}

Test(mem, shortage_is_null)
{
    counting_alloc_fail_from(&counting, 1);
    cr_assert_null(rdl__alloc(&mem, 1));
    cr_assert_null(rdl__zalloc(&mem, 1));
    cr_assert_null(rdl__memdup(&mem, "x", 1));
    cr_assert_null(rdl__memdup(&mem, "x", SIZE_MAX));
}

Test(mem, without_hooks_the_c_library_serves)
{
    struct rdl__mem own;
    char *block;

    rdl__mem_init(&own, NULL);
    block = rdl__zalloc(&own, 64);
    cr_assert_not_null(block);
    cr_assert_eq((uintptr_t)block % _Alignof(max_align_t), 0);
    rdl__free(&own, block, 64);
    rdl__free(&own, rdl__alloc(&own, 0), 0);
}

Test(mem, wipe_overwrites)
{
    char secret[] = "hunter2";
    static const char zeros[sizeof secret];

    rdl__wipe(secret, sizeof secret);
    cr_assert_arr_eq(secret, zeros, sizeof secret);
    rdl__wipe(NULL, 0);
}
