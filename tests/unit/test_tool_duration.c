/* SPDX-License-Identifier: MIT */
/* test_tool_duration.c - times as people type them on the command line. */
#include "tools/redlatch/duration.h"

#include <criterion/criterion.h>
#include <locale.h>

TestSuite(tool_duration, .timeout = 10);

static void assert_ms(const char *text, int64_t expected)
{
    int64_t ms = -1;

    cr_assert_eq(duration_parse(text, &ms), DURATION_OK, "'%s' is refused", text);
    cr_assert_eq(ms, expected, "'%s' is %lld", text, (long long)ms);
}

static void assert_refused(const char *text, enum duration_result expected)
{
    int64_t ms = -1;

    cr_assert_eq(duration_parse(text, &ms), expected, "'%s'", text);
    cr_assert_eq(ms, -1, "'%s' wrote a value", text);
}

static void assert_shown(int64_t ms, const char *expected)
{
    char shown[32];

    duration_print(ms, shown, sizeof shown);
    cr_assert_str_eq(shown, expected);
}

Test(tool_duration, plain_numbers_are_seconds)
{
    assert_ms("0", 0);
    assert_ms("10", 10000);
    assert_ms("007", 7000);
    assert_ms("2.5", 2500);
    assert_ms(".25", 250);
    assert_ms("0.0", 0);
}

Test(tool_duration, units_are_ms_s_m_h_d)
{
    assert_ms("500ms", 500);
    assert_ms("2s", 2000);
    assert_ms("5m", 300000);
    assert_ms("1h", 3600000);
    assert_ms("1.5h", 5400000);
    assert_ms("2d", 172800000);
    assert_ms("0.5d", 43200000);
    assert_ms("0ms", 0);
}

Test(tool_duration, what_is_finer_than_a_millisecond_is_rounded_up)
{
    assert_ms("0.0001", 1);
    assert_ms("0.5ms", 1);
    assert_ms("1.001", 1001);
    assert_ms("1.0011", 1002);
    assert_ms("0.0000000000000000000001", 1);
    assert_ms("0.00000000000000000000000", 0);
    assert_ms("0.1000000000000000000001ms", 1);
}

Test(tool_duration, the_longest_is_accepted_and_one_more_is_too_long)
{
    assert_ms("1099511627776ms", DURATION_MAX_MS);
    assert_ms("1099511627.776", DURATION_MAX_MS);
    assert_refused("1099511627777ms", DURATION_TOO_LONG);
    assert_refused("1099511627.7761", DURATION_TOO_LONG);
    assert_refused("9223372036854775808", DURATION_TOO_LONG);
    assert_refused("99999999999999999999999999999999999999999h", DURATION_TOO_LONG);
    assert_refused("305419897h", DURATION_TOO_LONG);
}

Test(tool_duration, everything_else_is_malformed)
{
    static const char *const malformed[] = {
        "",     " ",     "s",   ".",   "1.",  "1.s", "..5", "1.2.3", "-1",   "+1",   "1e3",
        "0x10", "inf",   "nan", "NaN", "1 s", " 1",  "1 ",  "1S",    "1M",   "1w",   "1sm",
        "1,5",  "1_000", "ms",  "١",   "1\n", "0-",  "--1", "1mss",  "2.5 ", "1.-1", "1h1m",
    };

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        assert_refused(malformed[i], DURATION_MALFORMED);
}

Test(tool_duration, a_locale_changes_nothing)
{
    setlocale(LC_ALL, "de_DE.UTF-8");
    assert_ms("2.5", 2500);
    assert_refused("2,5", DURATION_MALFORMED);
}

Test(tool_duration, is_shown_in_units_that_fit)
{
    assert_shown(0, "0 ms");
    assert_shown(999, "999 ms");
    assert_shown(1000, "1.0 s");
    assert_shown(12345, "12.3 s");
    assert_shown(59999, "59.9 s");
    assert_shown(60000, "1 min 0 s");
    assert_shown(3599999, "59 min 59 s");
    assert_shown(3600000, "1 h 0 min");
    assert_shown(DURATION_MAX_MS, "12725 d 19 h");
}

Test(tool_duration, what_was_asked_for_is_shown_as_it_was)
{
    static const struct {
        int64_t ms;
        const char *shown;
    } exact[] = {{850, "850 ms"},   {1000, "1 s"},       {1500, "1.5 s"},      {1250, "1.25 s"},
                 {1005, "1.005 s"}, {59999, "59.999 s"}, {302000, "5 min 2 s"}};

    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        char shown[32];

        duration_print_exact(exact[i].ms, shown, sizeof shown);
        cr_assert_str_eq(shown, exact[i].shown);
    }
}
