/* SPDX-License-Identifier: MIT */
/* test_counting_alloc.c - the allocator that other tests lean on sees what it says it sees. */
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

static struct counting_alloc counting;
static rdl_allocator_t hooks;

static void set_up(void)
{
    hooks = counting_alloc_init(&counting);
}

TestSuite(counting_alloc, .init = set_up, .timeout = 10);

Test(counting_alloc, counts_live_blocks_and_bytes)
{
    void *a = hooks.alloc(10, hooks.arg);
    void *b = hooks.alloc(100, hooks.arg);

    cr_assert_eq(counting_alloc_blocks(&counting), 2);
    cr_assert_eq(counting_alloc_bytes(&counting), 110);
    hooks.free(a, 10, hooks.arg);
    cr_assert_eq(counting_alloc_blocks(&counting), 1);
    cr_assert_eq(counting_alloc_bytes(&counting), 100);
    hooks.free(b, 100, hooks.arg);
    cr_assert_eq(counting_alloc_bytes(&counting), 0);
    cr_assert_eq(counting_alloc_peak_bytes(&counting), 110);
    counting_alloc_done(&counting);
}

Test(counting_alloc, aligns_for_every_type)
{
    for (size_t size = 1; size < 70; size++) {
        void *block = hooks.alloc(size, hooks.arg);

        cr_assert_eq((uintptr_t)block % _Alignof(max_align_t), 0);
        memset(block, 0, size);
        hooks.free(block, size, hooks.arg);
    }
    counting_alloc_done(&counting);
}

Test(counting_alloc, fails_at_one_call_and_counts_it)
{
    void *blocks[4];

    counting_alloc_fail_at(&counting, 3);
    for (int i = 0; i < 4; i++)
        blocks[i] = hooks.alloc(8, hooks.arg);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(blocks[i] == NULL, i == 2);
    cr_assert_eq(counting_alloc_calls(&counting), 4);
    cr_assert_eq(counting_alloc_refused(&counting), 1);
    for (int i = 0; i < 4; i++) {
        if (i != 2)
            hooks.free(blocks[i], 8, hooks.arg);
    }
    counting_alloc_done(&counting);
}

Test(counting_alloc, fails_from_a_call_on_until_told_otherwise)
{
    void *first, *last;

    counting_alloc_fail_from(&counting, 2);
    first = hooks.alloc(8, hooks.arg);
    cr_assert_not_null(first);
    for (int i = 0; i < 5; i++)
        cr_assert_null(hooks.alloc(8, hooks.arg));
    counting_alloc_fail_at(&counting, 0);
    last = hooks.alloc(8, hooks.arg);
    cr_assert_not_null(last);
    hooks.free(first, 8, hooks.arg);
    hooks.free(last, 8, hooks.arg);
    counting_alloc_done(&counting);
}

Test(counting_alloc, aborts_on_a_wrong_size, .signal = SIGABRT)
{
    hooks.free(hooks.alloc(8, hooks.arg), 9, hooks.arg);
}

Test(counting_alloc, aborts_on_a_foreign_block, .signal = SIGABRT)
{
    static max_align_t memory[16];

    hooks.free(memory + 8, 8, hooks.arg);
}

#if !defined(__SANITIZE_ADDRESS__) /* which reports it in its own way */
Test(counting_alloc, aborts_on_a_block_given_back_twice, .signal = SIGABRT)
{
    void *block = hooks.alloc(8, hooks.arg);

    hooks.free(block, 8, hooks.arg);
    hooks.free(block, 8, hooks.arg);
}
#endif
