/* SPDX-License-Identifier: MIT */
/* test_metrics_text.c - metrics as text for Prometheus: which names have series, what their labels are, and each
 * number.
 */
#include "core/base/clock.h"
#include "core/base/metrics.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 50000, NAMES = 40 };

static rdl_metrics_t *metrics;
static rdl_err_t err;

static void tear_down(void)
{
    cr_assert_null(rdl_metrics_free(metrics));
}

TestSuite(metrics_text, .fini = tear_down, .timeout = 60);

#define METRICS(...) (&(rdl_metrics_options_t){.version = RDL_METRICS_OPTIONS_VERSION, __VA_ARGS__})

static void make(const rdl_metrics_options_t *options)
{
    cr_assert_eq(rdl_metrics_new(options, &metrics, &err), RDL_OK, "%s", err.message);
}

static struct rdl__meter *meter(const char *name, size_t len)
{
    struct rdl__meter *meter = calloc(1, sizeof *meter);

    rdl__meter_join(metrics, meter, name, len);
    return meter;
}

static void end(struct rdl__meter *meter)
{
    rdl__meter_leave(metrics, meter);
    free(meter);
}

/* How often the text has this. */
static int has(const char *what)
{
    char *text = rdl_metrics_text(metrics);
    int found = 0;

    cr_assert_not_null(text);
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        found++;
    free(text);
    return found;
}

static int counted(const char *label, int64_t value)
{
    char line[2048];

    (void)snprintf(line, sizeof line, "\nredlatch_attempts_total{lock=\"%s\"} %lld\n", label, (long long)value);
    return has(line);
}

/* ---- the whole of it -------------------------------------------------------------------------------------------- */

static const char *const by_lock[] = {
    "attempts",      "acquired",     "contended",    "timed_out",  "unknown",     "undone",       "released",
    "lost",          "at_risk",      "degraded",     "restored",   "local",       "kept",         "recalls",
    "kept_recalled", "kept_expired", "kept_unheard", "kept_short", "kept_closed", "kept_evicted", "kept_lost"};

static char *text_of_a_sequence(void)
{
    static const char *const bounds[] = {"0.000064", "0.000128", "0.000256",  "0.000512",   "0.001024",
                                         "0.002048", "0.004096", "0.008192",  "0.016384",   "0.032768",
                                         "0.065536", "0.131072", "0.262144",  "0.524288",   "1.048576",
                                         "2.097152", "8.388608", "33.554432", "268.435456", "4294.967296"};
    static const struct {
        rdl_metric_t metric;
        const char *family;
    } histograms[] = {
        {RDL_M_WAIT_US, "wait"}, {RDL_M_HOLD_US, "hold"}, {RDL_M_HANDOFF_US, "handoff"}, {RDL_M_RECALL_US, "recall"}};
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    for (size_t m = 0; m < sizeof by_lock / sizeof *by_lock; m++)
        fprintf(to,
                "# HELP redlatch_%s_total %s\n# TYPE redlatch_%s_total counter\nredlatch_%s_total{lock=\"\"} %d\n"
                "redlatch_%s_total{lock=\"orders\"} %d\n",
                by_lock[m], rdl_metric_text((rdl_metric_t)m), by_lock[m], by_lock[m], (int)(100 * (m + 1)), by_lock[m],
                (int)(m + 1));
    for (int m = RDL_M_RENEWED; m < RDL__FIRST_HISTOGRAM; m++)
        fprintf(to, "# HELP redlatch_%s_total %s\n# TYPE redlatch_%s_total counter\nredlatch_%s_total %d\n",
                rdl_metric_name((rdl_metric_t)m), rdl_metric_text((rdl_metric_t)m), rdl_metric_name((rdl_metric_t)m),
                rdl_metric_name((rdl_metric_t)m), 100 * (m + 1));
    for (size_t h = 0; h < sizeof histograms / sizeof *histograms; h++) {
        const char *family = histograms[h].family;

        fprintf(to, "# HELP redlatch_%s_seconds %s\n# TYPE redlatch_%s_seconds histogram\n", family,
                rdl_metric_text(histograms[h].metric), family);
        for (int i = 0; i < 20; i++)
            fprintf(to, "redlatch_%s_seconds_bucket{lock=\"\",le=\"%s\"} 0\n", family, bounds[i]);
        fprintf(to,
                "redlatch_%s_seconds_bucket{lock=\"\",le=\"+Inf\"} 0\nredlatch_%s_seconds_sum{lock=\"\"} 0.000000\n"
                "redlatch_%s_seconds_count{lock=\"\"} 0\n",
                family, family, family);
        for (int i = 0; i < 20; i++) /* 63 us, 64 us, 3 s, 2 h */
            fprintf(to, "redlatch_%s_seconds_bucket{lock=\"orders\",le=\"%s\"} %d\n", family, bounds[i],
                    i == 0   ? 1
                    : i < 16 ? 2
                             : 3);
        fprintf(to,
                "redlatch_%s_seconds_bucket{lock=\"orders\",le=\"+Inf\"} 4\n"
                "redlatch_%s_seconds_sum{lock=\"orders\"} 7203.000127\nredlatch_%s_seconds_count{lock=\"orders\"} 4\n",
                family, family, family);
    }
    fprintf(to, "# HELP redlatch_round_trip_seconds %s\n# TYPE redlatch_round_trip_seconds histogram\n",
            rdl_metric_text(RDL_M_RTT_US));
    for (int i = 0; i < 20; i++)
        fprintf(to, "redlatch_round_trip_seconds_bucket{le=\"%s\"} %d\n", bounds[i], i == 0 ? 0 : 1);
    fprintf(to, "redlatch_round_trip_seconds_bucket{le=\"+Inf\"} 1\nredlatch_round_trip_seconds_sum 0.000100\n"
                "redlatch_round_trip_seconds_count 1\n"
                "# HELP redlatch_held holds that were not given back yet\n# TYPE redlatch_held gauge\n"
                "redlatch_held{lock=\"\"} 0\nredlatch_held{lock=\"orders\"} 2\n"
                "# HELP redlatch_waiting calls that wait\n# TYPE redlatch_waiting gauge\n"
                "redlatch_waiting{lock=\"\"} 0\nredlatch_waiting{lock=\"orders\"} 3\n"
                "# HELP redlatch_longest_hold_seconds how long the oldest of these holds has lasted; 0: there is none\n"
                "# TYPE redlatch_longest_hold_seconds gauge\nredlatch_longest_hold_seconds{lock=\"\"} 0.000000\n"
                "redlatch_longest_hold_seconds{lock=\"orders\"} ");
    fclose(to);
    return text;
}

Test(metrics_text, is_this_for_such_a_sequence_of_events)
{
    static const int64_t us[] = {63, 64, 3000000, 7200000000};
    struct rdl__meter *orders;
    char *text, *expected = text_of_a_sequence();
    int64_t since = rdl__now() - 40 * RDL__SEC;
    double longest;

    make(NULL);
    orders = meter("orders", 6);
    for (int m = 0; m < RDL__FIRST_HISTOGRAM; m++) {
        rdl__count(orders->set, (rdl_metric_t)m, m + 1);
        rdl__count(metrics->sets[0], (rdl_metric_t)m, 100 * (m + 1));
    }
    for (int h = RDL__FIRST_HISTOGRAM; h < RDL_M_RTT_US; h++)
        for (size_t i = 0; i < sizeof us / sizeof *us; i++)
            rdl__count(orders->set, (rdl_metric_t)h, us[i] * 1000 + 999);
    rdl__count(metrics->sets[0], RDL_M_RTT_US, 100000);
    rdl__meter_set(orders, 2, since);
    orders->set->waiting = 3;
    text = rdl_metrics_text(metrics);
    cr_assert_not_null(text);
    for (size_t i = 0, line = 1; expected[i] != '\0'; line += expected[i++] == '\n')
        cr_assert_eq(text[i], expected[i], "line %zu: %.80s, expected %.80s", line, text + i, expected + i);
    longest = strtod(text + strlen(expected), NULL);
    cr_assert(longest >= 40 && longest < 100, "%f", longest);
    cr_assert_eq(text[strlen(text) - 1], '\n');
    free(text);
    free(expected);
    end(orders);
}

/* ---- which names ------------------------------------------------------------------------------------------------ */

Test(metrics_text, first_names_have_series_of_their_own_and_the_others_are_added_up)
{
    struct rdl__meter *meters[6];

    make(METRICS(.names = 3));
    for (int i = 0; i < 6; i++) {
        char name[2] = {(char)('a' + i), '\0'};

        meters[i] = meter(name, 1);
        rdl__count(meters[i]->set, RDL_M_ATTEMPTS, 1);
        rdl__meter_set(meters[i], 1, rdl__now() - (i + 1) * 1000 * RDL__SEC);
    }
    cr_assert(counted("a", 1) && counted("b", 1) && counted("c", 1));
    cr_assert_eq(has("\"d\""), 0);
    cr_assert(counted("", 3));
    cr_assert_eq(has("\nredlatch_held{lock=\"\"} 3\n"), 1);
    cr_assert_eq(has("\nredlatch_longest_hold_seconds{lock=\"\"} 600"), 1); /* the oldest of the three */
    for (int i = 0; i < 6; i++)
        end(meters[i]);
}

Test(metrics_text, a_name_keeps_its_series_when_its_last_handle_is_freed)
{
    struct rdl__meter *twice;

    make(METRICS(.names = 1));
    twice = meter("a", 1);
    rdl__count(twice->set, RDL_M_ATTEMPTS, 1);
    rdl__meter_set(twice, 1, 1);
    end(twice);
    cr_assert(counted("a", 1));
    cr_assert_eq(has("\nredlatch_held{lock=\"a\"} 0\n"), 1);
    end(meter("b", 1));
    cr_assert_eq(has("\"b\""), 0, "the place is taken");
    twice = meter("a", 1);
    rdl__count(twice->set, RDL_M_ATTEMPTS, 1);
    end(twice);
    cr_assert(counted("a", 2));
}

Test(metrics_text, one_name_of_two_clients_has_one_series)
{
    struct rdl__meter *mine, *yours;

    make(NULL);
    mine = meter("a", 1);
    yours = meter("a", 1);
    rdl__count(mine->set, RDL_M_ATTEMPTS, 1);
    rdl__count(yours->set, RDL_M_ATTEMPTS, 1);
    rdl__meter_set(mine, 1, rdl__now() - 1000 * RDL__SEC);
    rdl__meter_set(yours, 2, rdl__now() - 2000 * RDL__SEC);
    cr_assert(counted("a", 2));
    cr_assert_eq(has("\nredlatch_held{lock=\"a\"} 3\n"), 1);
    cr_assert_eq(has("\nredlatch_longest_hold_seconds{lock=\"a\"} 2000."), 1);
    end(yours);
    cr_assert_eq(has("\nredlatch_longest_hold_seconds{lock=\"a\"} 1000."), 1);
    end(mine);
}

Test(metrics_text, only_names_that_match_have_series)
{
    make(METRICS(.names = 2, .match = "order:[0-9]*"));
    for (const char *const *name = (const char *const[]){"stock", "order:1", "order:x", "order:22", "order:3", NULL};
         *name != NULL; name++) {
        struct rdl__meter *one = meter(*name, strlen(*name));

        rdl__count(one->set, RDL_M_ATTEMPTS, 1);
        end(one);
    }
    cr_assert(counted("order:1", 1) && counted("order:22", 1) && counted("", 3));
    cr_assert_eq(has("redlatch_attempts_total{"), 3);
}

Test(metrics_text, without_names_all_are_added_up)
{
    struct rdl__meter *one;

    make(METRICS(.names = -1));
    one = meter("a", 1);
    rdl__count(one->set, RDL_M_ATTEMPTS, 1);
    cr_assert(counted("", 1));
    cr_assert_eq(has("redlatch_attempts_total{"), 1);
    end(one);
}

Test(metrics_text, options_have_bounds)
{
    char match[1026];

    memset(match, 'x', sizeof match - 1);
    match[sizeof match - 1] = '\0';
    cr_assert_eq(rdl_metrics_new(METRICS(.names = 10001), &metrics, &err), RDL_EINVAL);
    cr_assert_str_eq(err.message,
                     "metrics option names is 10001: it must be 1 to 10000, -1 for none, or 0 for the default");
    cr_assert_eq(rdl_metrics_new(METRICS(.names = -2), &metrics, &err), RDL_EINVAL);
    cr_assert_eq(rdl_metrics_new(METRICS(.match = match), &metrics, &err), RDL_EINVAL);
    cr_assert_str_eq(err.message, "metrics option match has 1025 bytes: at most 1024");
    cr_assert_eq(rdl_metrics_new(&(rdl_metrics_options_t){0}, &metrics, &err), RDL_EINVAL);
    cr_assert_eq(rdl_metrics_new(NULL, NULL, &err), RDL_EINVAL);
    match[1024] = '\0';
    make(METRICS(.names = 10000, .match = match));
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

Test(metrics_text, a_label_is_the_name_in_printable_form_escaped)
{
    static const struct {
        const char *name;
        size_t len;
        const char *label;
    } names[] = {{"plain", 5, "plain"},
                 {"caf\xc3\xa9", 5, "caf\xc3\xa9"},
                 {"a\"b", 3, "a\\\"b"},
                 {"a\\b", 3, "a\\\\x5cb"},
                 {"a\nb", 3, "a\\\\x0ab"},
                 {"a\0b", 3, "a\\\\x00b"},
                 {"\xff\xfe", 2, "\\\\xff\\\\xfe"},
                 {"\xed\xa0\x80", 3, "\\\\xed\\\\xa0\\\\x80"}, /* a surrogate */
                 {"\x7f", 1, "\\\\x7f"}};

    make(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rdl__meter *one = meter(names[i].name, names[i].len);

        rdl__count(one->set, RDL_M_ATTEMPTS, (int64_t)i + 1);
        cr_assert(counted(names[i].label, (int64_t)i + 1), "%s", names[i].label);
        end(one);
    }
}

Test(metrics_text, a_name_as_long_as_may_be_is_whole_and_a_longer_one_is_with_the_rest)
{
    char name[RDL_METRICS_NAME_MAX + 2], label[5 * RDL_METRICS_NAME_MAX + 1] = "";
    struct rdl__meter *one;

    memset(name, 0x01, sizeof name);
    for (int i = 0; i < RDL_METRICS_NAME_MAX; i++)
        memcpy(label + 5 * i, "\\\\x01", 6);
    make(NULL);
    one = meter(name, RDL_METRICS_NAME_MAX);
    rdl__count(one->set, RDL_M_ATTEMPTS, 1);
    end(one);
    one = meter(name, RDL_METRICS_NAME_MAX + 1);
    rdl__count(one->set, RDL_M_ATTEMPTS, 2);
    end(one);
    cr_assert(counted(label, 1) && counted("", 2));
}

/* ---- while others count ----------------------------------------------------------------------------------------- */

static void *count_along(void *arg)
{
    char name[16];

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct rdl__meter one;

        (void)snprintf(name, sizeof name, "n%d", i % NAMES);
        rdl__meter_join(metrics, &one, name, strlen(name));
        rdl__count(one.set, RDL_M_ATTEMPTS, 1);
        rdl__meter_set(&one, 1, rdl__now());
        rdl__count(one.set, RDL_M_WAIT_US, i);
        rdl__meter_leave(metrics, &one);
    }
    return NULL;
}

/* The sum of all samples of the counter, and whether each histogram's last bucket is its count. */
static int64_t read_along(void)
{
    char *text = rdl_metrics_text(metrics), *rest = text, *line;
    long long inf = -1, sum = 0;

    cr_assert_not_null(text);
    while ((line = strsep(&rest, "\n")) != NULL) {
        const char *value = strrchr(line, ' ');

        if (strncmp(line, "redlatch_attempts_total{", 24) == 0)
            sum += strtoll(value, NULL, 10);
        else if (strstr(line, "wait_seconds_bucket") != NULL)
            inf = strtoll(value, NULL, 10);
        else if (strstr(line, "wait_seconds_count") != NULL)
            cr_assert_eq(strtoll(value, NULL, 10), inf, "%s", line);
    }
    free(text);
    return sum;
}

Test(metrics_text, may_be_read_while_many_count)
{
    pthread_t threads[THREADS];
    int64_t before = 0, now;

    make(METRICS(.names = NAMES / 2));
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_along, NULL), 0);
    do {
        now = read_along();
        cr_assert_geq(now, before, "a counter that goes back");
        before = now;
    } while (now < THREADS * ROUNDS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(read_along(), THREADS * ROUNDS);
}

/* ---- and besides ------------------------------------------------------------------------------------------------ */

Test(metrics_text, is_none_in_a_child)
{
    pid_t child;
    int status;

    make(NULL);
    if ((child = fork()) == 0)
        _exit(rdl_metrics_text(metrics) == NULL ? 0 : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_null(rdl_metrics_text(NULL));
}

/* The exit status of `promtool check metrics` for the text; 127: there is none here. */
static int checked(const char *text)
{
    int ends[2], status;
    FILE *to;
    pid_t child;

    cr_assert_eq(pipe(ends), 0);
    if ((child = fork()) == 0) {
        (void)dup2(ends[0], STDIN_FILENO);
        (void)close(ends[1]);
        (void)execlp("promtool", "promtool", "check", "metrics", (char *)NULL);
        _exit(127);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)close(ends[0]);
    cr_assert_not_null(to = fdopen(ends[1], "w"));
    (void)fputs(text, to);
    (void)fclose(to);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(metrics_text, promtool_finds_no_fault)
{
    struct rdl__meter *one;
    char *text;
    int status;

    make(NULL);
    one = meter("\xff\"\\\n{a=\"b\"} 1", 13);
    rdl__count(one->set, RDL_M_WAIT_US, 1);
    text = rdl_metrics_text(metrics);
    status = checked(text);
    free(text);
    end(one);
    if (status == 127)
        cr_skip_test("there is no promtool here");
    cr_assert_eq(status, 0);
}
