/* SPDX-License-Identifier: MIT */
/* test_sink.c - events reach the user's sinks, and cost nothing when there is none. */
#include "core/base/sink.h"

#include <criterion/criterion.h>
#include <string.h>

static struct {
    int lines;
    rdl_log_level_t level;
    char line[2000];
    void *arg;
    int metrics;
    rdl_metric_t metric;
    int64_t value;
    int formatted;
} seen;

static void on_log(rdl_log_level_t level, const char *line, void *arg)
{
    seen.lines++;
    seen.level = level;
    seen.arg = arg;
    strncpy(seen.line, line, sizeof seen.line - 1);
}

static void on_metric(rdl_metric_t metric, int64_t value, void *arg)
{
    seen.metrics++;
    seen.metric = metric;
    seen.value = value;
    seen.arg = arg;
}

/* An argument that tells whether it was evaluated. */
static int argument(void)
{
    return ++seen.formatted;
}

static void set_up(void)
{
    memset(&seen, 0, sizeof seen);
}

TestSuite(sink, .init = set_up, .timeout = 10);

Test(sink, passes_a_line_with_its_level_and_argument)
{
    struct rdl__sinks s = {.log = on_log, .log_arg = &s};

    rdl__log(&s, RDL_LOG_WARN, "lost %s after %d ms", "h:1", argument());
    cr_assert_eq(seen.lines, 1);
    cr_assert_eq(seen.level, RDL_LOG_WARN);
    cr_assert_str_eq(seen.line, "lost h:1 after 1 ms");
    cr_assert_eq(seen.arg, &s);
}

Test(sink, leaves_out_what_is_below_the_level)
{
    struct rdl__sinks s = {.log = on_log, .level = RDL_LOG_WARN};

    rdl__log(&s, RDL_LOG_INFO, "%d", argument());
    rdl__log(&s, RDL_LOG_DEBUG, "%d", argument());
    cr_assert_eq(seen.lines, 0);
    cr_assert_eq(seen.formatted, 0);
    rdl__log(&s, RDL_LOG_ERROR, "%d", argument());
    cr_assert_eq(seen.lines, 1);
}

Test(sink, without_a_function_nothing_is_evaluated)
{
    struct rdl__sinks s = {.log = NULL};

    rdl__log(&s, RDL_LOG_ERROR, "%d", argument());
    rdl__metric(&s, RDL_M_LOST, 1);
    cr_assert_eq(seen.formatted, 0);
}

Test(sink, line_has_no_newline_and_a_bound)
{
    struct rdl__sinks s = {.log = on_log};
    char text[1500];

    rdl__log(&s, RDL_LOG_WARN, "a\nb\r");
    cr_assert_str_eq(seen.line, "a b ");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    rdl__log(&s, RDL_LOG_WARN, "%s", text);
    cr_assert_lt(strlen(seen.line), sizeof text - 1);
    cr_assert_str_eq(seen.line + strlen(seen.line) - 3, "...");
}

Test(sink, passes_metrics)
{
    struct rdl__sinks s = {.metering = RDL__TOLD, .metrics = on_metric, .metrics_arg = &seen};

    rdl__metric(&s, RDL_M_RTT_US, 42999); /* ns, told in us */
    cr_assert_eq(seen.metrics, 1);
    cr_assert_eq(seen.metric, RDL_M_RTT_US);
    cr_assert_eq(seen.value, 42);
    cr_assert_eq(seen.arg, &seen);
}

/* ---- lines that come again -------------------------------------------------------------------------------------- */

static struct rdl__repeats repeats;

#define SECOND INT64_C(1000000000)

static void again(const char *what, int64_t at)
{
    static const struct rdl__sinks s = {.log = on_log};

    rdl__log_again(&s, RDL_LOG_WARN, &repeats, at * SECOND, "cannot connect: %s", what);
}

Test(sink, a_line_that_comes_again_is_told_once_then_with_a_count_ever_more_rarely)
{
    static const struct {
        int64_t at;
        const char *line;
    } told[] = {{100, "cannot connect: no"},
                {110, "cannot connect: no (10 times more in 10 s)"},
                {130, "cannot connect: no (20 times more in 20 s)"},
                {170, "cannot connect: no (40 times more in 40 s)"}};

    memset(&repeats, 0, sizeof repeats);
    for (int64_t at = 100, i = 0; at < 249; at++) {
        again("no", at);
        if (i < 4 && told[i].at == at)
            cr_assert_str_eq(seen.line, told[i++].line);
        cr_assert_eq(seen.lines, i, "at %d: %s", (int)at, seen.line);
    }
    for (int64_t at = 249; at < 10000; at++)
        again("no", at);
    cr_assert_eq(seen.lines, 4 + 3 + 15); /* at 250, 410, 730, and then every 600 s */
}

Test(sink, a_line_that_was_not_heard_for_long_and_another_line_are_new)
{
    memset(&repeats, 0, sizeof repeats);
    again("no", 100);
    again("neither", 101);
    again("no", 102);
    again("neither", 103);
    cr_assert_eq(seen.lines, 2);
    again("no", 112);
    cr_assert_eq(seen.lines, 3);
    cr_assert_str_eq(seen.line, "cannot connect: no");
    for (int i = 0; i < 100; i++) { /* more than are remembered */
        char what[8] = {(char)('a' + i % 26), (char)('a' + i / 26)};

        again(what, 113);
    }
    cr_assert_eq(seen.lines, 103);
}
