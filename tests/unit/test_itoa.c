/* SPDX-License-Identifier: MIT */
/* test_itoa.c - decimal numbers against the C library's. */
#include "core/base/entropy.h"
#include "core/wire/buf.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

TestSuite(itoa, .timeout = 10);

static void assert_itoa(int64_t value)
{
    char expected[32], got[32];
    size_t len;

    memset(got, '#', sizeof got);
    snprintf(expected, sizeof expected, "%" PRId64, value);
    len = rdl__itoa(got, value);
    cr_assert_eq(len, strlen(expected), "%s", expected);
    cr_assert_arr_eq(got, expected, len, "%s", expected);
    cr_assert_eq(got[len], '#');
}

Test(itoa, is_right_around_every_power_of_ten)
{
    int64_t power = 1;

    for (int i = 0; i <= 18; i++, power *= i <= 18 ? 10 : 1) {
        for (int64_t near = -2; near <= 2; near++) {
            assert_itoa(power + near);
            assert_itoa(-power + near);
        }
    }
}

Test(itoa, is_right_around_every_power_of_two_and_at_the_ends)
{
    for (int bit = 0; bit < 63; bit++) {
        int64_t power = INT64_C(1) << bit;

        for (int64_t near = -1; near <= 1; near++) {
            assert_itoa(power + near);
            assert_itoa(-power + near);
        }
    }
    assert_itoa(INT64_MAX);
    assert_itoa(INT64_MIN);
    assert_itoa(INT64_MIN + 1);
}

Test(itoa, is_right_for_small_and_random_numbers)
{
    struct rdl__rand rand = {.state = 11};

    for (int64_t i = -1100; i <= 11000; i++)
        assert_itoa(i);
    for (int i = 0; i < 20000; i++)
        assert_itoa((int64_t)(rdl__rand_next(&rand) >> rdl__rand_below(&rand, 64)));
}
