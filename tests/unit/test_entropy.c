/* SPDX-License-Identifier: MIT */
/* test_entropy.c - randomness: of the kernel, and of the generator behind jitter. */
#include "core/base/entropy.h"

#include <criterion/criterion.h>
#include <redlatch/error.h>
#include <string.h>

TestSuite(entropy, .timeout = 10);

Test(entropy, fills_large_buffers_to_the_last_byte)
{
    enum { LEN = 1 << 20 }; /* more than one call gives */
    static unsigned char bytes[LEN];
    size_t seen[256] = {0};

    cr_assert_eq(rdl__entropy(bytes, LEN), RDL_OK);
    for (size_t i = 0; i < LEN; i++)
        seen[bytes[i]]++;
    for (int i = 0; i < 256; i++)
        cr_assert(seen[i] > LEN / 512 && seen[i] < LEN / 128, "byte %d came %zu times", i, seen[i]);
    cr_assert_neq(memcmp(bytes, bytes + LEN - 32, 32), 0);
}

Test(entropy, differs_from_call_to_call)
{
    unsigned char a[16], b[16];

    cr_assert_eq(rdl__entropy(a, sizeof a), RDL_OK);
    cr_assert_eq(rdl__entropy(b, sizeof b), RDL_OK);
    cr_assert_neq(memcmp(a, b, sizeof a), 0);
    cr_assert_eq(rdl__entropy(NULL, 0), RDL_OK);
}

Test(entropy, generator_repeats_itself_for_a_seed)
{
    struct rdl__rand a = {.state = 42}, b = {.state = 42}, c = {.state = 43};
    uint64_t first = rdl__rand_next(&a);

    cr_assert_eq(rdl__rand_next(&b), first);
    cr_assert_neq(rdl__rand_next(&c), first);
}

Test(entropy, below_stays_below_and_reaches_everything)
{
    struct rdl__rand r = {.state = 1};
    int seen[10] = {0};

    for (int i = 0; i < 10000; i++) {
        uint64_t n = rdl__rand_below(&r, 10);

        cr_assert_lt(n, 10);
        seen[n]++;
    }
    for (int i = 0; i < 10; i++)
        cr_assert(seen[i] > 800 && seen[i] < 1200);
    cr_assert_eq(rdl__rand_below(&r, 0), 0);
    cr_assert_eq(rdl__rand_below(&r, 1), 0);
}
