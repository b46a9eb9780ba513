/* SPDX-License-Identifier: MIT */
/* test_buf.c - the byte buffer and commands. */
#include "core/base/entropy.h"
#include "core/wire/buf.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct counting_alloc counting;
static struct rdl__mem mem;
static struct rdl__buf b;

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
    rdl__buf_init(&b, &mem);
}

static void tear_down(void)
{
    rdl__buf_done(&b);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(buf, .init = set_up, .fini = tear_down, .timeout = 30);

static void assert_holds(const char *bytes, size_t len)
{
    cr_assert_not(rdl__buf_failed(&b));
    cr_assert_eq(b.len, len);
    cr_assert_arr_eq(b.data, bytes, len);
}

Test(buf, keeps_what_is_put_while_it_grows)
{
    static char expected[100000];
    struct rdl__rand rand = {.state = 1};
    size_t len = 0;

    for (size_t i = 0; i < sizeof expected; i++)
        expected[i] = (char)rdl__rand_next(&rand);
    while (len < sizeof expected) {
        size_t step = rdl__rand_below(&rand, 500);

        if (step > sizeof expected - len)
            step = sizeof expected - len;
        rdl__buf_put(&b, expected + len, step);
        len += step;
    }
    assert_holds(expected, sizeof expected);
}

Test(buf, asks_for_memory_a_logarithmic_number_of_times)
{
    for (int i = 0; i < 100000; i++)
        rdl__buf_put(&b, "x", 1);
    cr_assert_leq(counting_alloc_calls(&counting), 12);
    cr_assert_eq(counting_alloc_blocks(&counting), 1);
}

Test(buf, asks_for_nothing_in_the_steady_state)
{
    rdl__cmd_str(&b, "EVALSHA");
    counting_alloc_fail_at(&counting, 0);
    for (int i = 0; i < 1000; i++) {
        rdl__buf_cut(&b, 0);
        rdl__cmd_str(&b, "EVALSHA");
    }
    cr_assert_eq(counting_alloc_calls(&counting), 0);
}

Test(buf, what_is_sent_is_dropped_once_it_is_half)
{
    size_t sent = 0;

    rdl__buf_put(&b, "abcde", 5);
    for (; sent < 3; sent++) {
        rdl__buf_drop_sent(&b, &sent);
        assert_holds("abcde", 5);
    }
    rdl__buf_drop_sent(&b, &sent);
    cr_assert_eq(sent, 0);
    assert_holds("de", 2);
    sent = 2;
    rdl__buf_drop_sent(&b, &sent);
    cr_assert_eq(sent, 0);
    cr_assert_eq(b.len, 0);
}

Test(buf, putting_nothing_is_nothing)
{
    rdl__buf_put(&b, NULL, 0);
    cr_assert_eq(b.len, 0);
    cr_assert_not(rdl__buf_failed(&b));
    rdl__cmd_arg(&b, NULL, 0);
    assert_holds("$0\r\n\r\n", 6);
}

Test(buf, an_argument_of_unknown_length_is_written_like_any_other)
{
    char text[99], expected[128];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('0' + i % 64);
    for (size_t len = 10; len <= sizeof text; len++) {
        size_t head = (size_t)snprintf(expected, sizeof expected, "$1\r\n7\r\n$%zu\r\n", len);

        rdl__cmd_int(&b, 7);
        memcpy(rdl__cmd_open(&b, sizeof text), text, len);
        rdl__cmd_close(&b, len);
        memcpy(expected + head, text, len);
        memcpy(expected + head + len, "\r\n", 2);
        assert_holds(expected, head + len + 2);
        rdl__buf_done(&b); /* so that each has to ask for room */
    }
}

Test(buf, numbers_are_arguments_in_a_buffer_and_in_an_array)
{
    static const int64_t numbers[] = {0, 9, 10, 30000, 999999999, 1000000000, INT64_MAX, -1, INT64_MIN};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char digits[24], expected[40], got[RDL__INT_ARG_MAX];
        int len = snprintf(digits, sizeof digits, "%lld", (long long)numbers[i]);
        int all = snprintf(expected, sizeof expected, "$1\r\n7\r\n$%d\r\n%s\r\n", len, digits);

        rdl__cmd_int(&b, 7);
        rdl__cmd_int(&b, numbers[i]);
        assert_holds(expected, (size_t)all);
        cr_assert_eq(rdl__int_arg(got, numbers[i]), (size_t)all - 7);
        cr_assert_arr_eq(got, expected + 7, (size_t)all - 7);
        rdl__buf_cut(&b, 0);
    }
}

Test(buf, an_argument_that_finds_no_memory_is_not_opened)
{
    rdl__cmd_int(&b, 1);
    counting_alloc_fail_at(&counting, 1);
    cr_assert_null(rdl__cmd_open(&b, 99));
    cr_assert(rdl__buf_failed(&b));
    rdl__cmd_int(&b, 12345);
    cr_assert_eq(b.len, 7);
}

Test(buf, shortage_sticks_until_cut)
{
    rdl__buf_put(&b, "begin", 5);
    counting_alloc_fail_at(&counting, 1);
    rdl__buf_put(&b, "0123456789012345678901234567890123456789012345678901234567890123", 64);
    cr_assert(rdl__buf_failed(&b));
    rdl__buf_put(&b, "x", 1);
    rdl__cmd_int(&b, 1);
    rdl__cmd_begin(&b, 1);
    cr_assert(rdl__buf_failed(&b));
    cr_assert_eq(b.len, 5);
    rdl__buf_cut(&b, 5);
    rdl__buf_put(&b, "!", 1);
    assert_holds("begin!", 6);
}

Test(buf, sizes_that_overflow_are_shortage)
{
    rdl__buf_put(&b, "abc", 3);
    cr_assert_not(rdl__buf_reserve(&b, SIZE_MAX));
    cr_assert(rdl__buf_failed(&b));
    rdl__buf_cut(&b, 3);
    cr_assert_not(rdl__buf_reserve(&b, SIZE_MAX - 2));
    rdl__buf_cut(&b, 3);
    rdl__cmd_arg(&b, "abc", SIZE_MAX - 3);
    cr_assert(rdl__buf_failed(&b));
    rdl__buf_cut(&b, 3);
    assert_holds("abc", 3);
}

Test(buf, done_takes_a_zeroed_buffer_and_may_be_repeated)
{
    struct rdl__buf zeroed = {0};

    rdl__buf_done(&zeroed);
    rdl__buf_put(&b, "abc", 3);
    rdl__buf_done(&b);
    rdl__buf_done(&b);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    rdl__buf_put(&b, "abc", 3);
    assert_holds("abc", 3);
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

Test(buf, command_is_what_the_server_reads)
{
    static const char expected[] =
        "*5\r\n$3\r\nSET\r\n$3\r\na\0b\r\n$0\r\n\r\n$2\r\n-7\r\n$20\r\n-9223372036854775808\r\n";

    rdl__cmd_begin(&b, 5);
    rdl__cmd_str(&b, "SET");
    rdl__cmd_arg(&b, "a\0b", 3);
    rdl__cmd_str(&b, "");
    rdl__cmd_int(&b, -7);
    rdl__cmd_int(&b, INT64_MIN);
    assert_holds(expected, sizeof expected - 1);
}

Test(buf, lengths_of_several_digits_are_right)
{
    static char bytes[123456];
    char header[32];
    size_t header_len = (size_t)snprintf(header, sizeof header, "*1000000\r\n$%zu\r\n", sizeof bytes);

    memset(bytes, 'z', sizeof bytes);
    rdl__cmd_begin(&b, 1000000);
    rdl__cmd_arg(&b, bytes, sizeof bytes);
    cr_assert_eq(b.len, header_len + sizeof bytes + 2);
    cr_assert_arr_eq(b.data, header, header_len);
    cr_assert_arr_eq(b.data + header_len, bytes, sizeof bytes);
    cr_assert_arr_eq(b.data + b.len - 2, "\r\n", 2);
}

Test(buf, every_failing_allocation_leaves_a_buffer_that_can_be_used_again)
{
    static char name[300];

    memset(name, 'n', sizeof name);
    for (int64_t k = 1;; k++) {
        rdl__buf_done(&b);
        counting_alloc_fail_at(&counting, k);
        rdl__cmd_begin(&b, 3);
        rdl__cmd_arg(&b, name, sizeof name);
        rdl__cmd_arg(&b, name, sizeof name);
        rdl__cmd_int(&b, 30000);
        if (!rdl__buf_failed(&b))
            break;
        rdl__buf_cut(&b, 0);
        rdl__cmd_begin(&b, 1);
        assert_holds("*1\r\n", 4);
    }
    cr_assert_eq(counting_alloc_refused(&counting), 0);
}
