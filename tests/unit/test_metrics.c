/* test_metrics.c - the ready-made metrics sink. */
#include <redlatch/observe.h>

#include <criterion/criterion.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BUCKETS = 40, THREADS = 4, ROUNDS = 20000 };

static rdl_metrics_t *metrics;
static rdl_metric_value_t value;

static void set_up(void)
{
    metrics = rdl_metrics_new();
    cr_assert_not_null(metrics);
}

static void tear_down(void)
{
    cr_assert_null(rdl_metrics_free(metrics));
}

TestSuite(metrics, .init = set_up, .fini = tear_down, .timeout = 30);

Test(metrics, begin_at_zero)
{
    static const rdl_metric_value_t zero;

    for (int m = 0; m < RDL_METRIC_COUNT; m++) {
        rdl_metrics_get(metrics, (rdl_metric_t)m, &value);
        cr_assert_eq(memcmp(&value, &zero, sizeof zero), 0);
    }
}

Test(metrics, counter_only_sums)
{
    rdl_metrics_sink(RDL_M_ACQUIRED, 1, metrics);
    rdl_metrics_sink(RDL_M_ACQUIRED, 5, metrics);
    rdl_metrics_get(metrics, RDL_M_ACQUIRED, &value);
    cr_assert_eq(value.sum, 6);
    cr_assert_eq(value.count, 0);
    cr_assert_eq(value.buckets[1], 0);
    rdl_metrics_get(metrics, RDL_M_CONTENDED, &value);
    cr_assert_eq(value.sum, 0);
}

Test(metrics, histogram_has_a_bucket_for_each_power_of_two)
{
    static const struct {
        int64_t us;
        size_t bucket;
    } edges[] = {
        {.us = 0, .bucket = 0},
        {.us = 1, .bucket = 1},
        {.us = 2, .bucket = 2},
        {.us = 3, .bucket = 2},
        {.us = 4, .bucket = 3},
        {.us = 7, .bucket = 3},
        {.us = 8, .bucket = 4},
        {.us = 1023, .bucket = 10},
        {.us = 1024, .bucket = 11},
        {.us = (INT64_C(1) << 38) - 1, .bucket = 38},
        {.us = INT64_C(1) << 38, .bucket = 39},
        {.us = INT64_MAX, .bucket = 39},
    };
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        uint64_t before;

        rdl_metrics_get(metrics, RDL_M_WAIT_US, &value);
        before = value.buckets[edges[i].bucket];
        rdl_metrics_sink(RDL_M_WAIT_US, edges[i].us, metrics);
        sum += (uint64_t)edges[i].us;
        rdl_metrics_get(metrics, RDL_M_WAIT_US, &value);
        cr_assert_eq(value.buckets[edges[i].bucket], before + 1, "%lld us", (long long)edges[i].us);
        cr_assert_eq(value.count, i + 1);
        cr_assert_eq(value.sum, sum);
    }
}

Test(metrics, negative_observations_count_as_zero)
{
    rdl_metrics_sink(RDL_M_HOLD_US, -5, metrics);
    rdl_metrics_get(metrics, RDL_M_HOLD_US, &value);
    cr_assert_eq(value.sum, 0);
    cr_assert_eq(value.count, 1);
    cr_assert_eq(value.buckets[0], 1);
}

Test(metrics, what_does_not_exist_is_ignored)
{
    rdl_metrics_sink(RDL_METRIC_COUNT, 1, metrics);
    rdl_metrics_sink((rdl_metric_t)-1, 1, metrics);
    rdl_metrics_sink(RDL_M_LOST, 1, NULL);
    rdl_metrics_get(metrics, RDL_METRIC_COUNT, &value);
    cr_assert_eq(value.sum, 0);
    rdl_metrics_get(NULL, RDL_M_LOST, &value);
    cr_assert_eq(value.sum, 0);
    cr_assert_null(rdl_metric_name(RDL_METRIC_COUNT));
    cr_assert_null(rdl_metric_text(RDL_METRIC_COUNT));
    cr_assert_null(rdl_metrics_free(NULL));
}

static void *report(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        rdl_metrics_sink(RDL_M_ATTEMPTS, 1, arg);
        rdl_metrics_sink(RDL_M_RTT_US, i % 4, arg);
    }
    return NULL;
}

Test(metrics, lose_nothing_among_threads)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, report, metrics), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rdl_metrics_get(metrics, RDL_M_ATTEMPTS, &value);
    cr_assert_eq(value.sum, THREADS * ROUNDS);
    rdl_metrics_get(metrics, RDL_M_RTT_US, &value);
    cr_assert_eq(value.count, THREADS * ROUNDS);
    cr_assert_eq(value.buckets[0], THREADS * ROUNDS / 4);
    cr_assert_eq(value.buckets[2], THREADS * ROUNDS / 2);
}

Test(metrics, names_and_texts_are_those_of_the_header)
{
    static const char *const names[] = {
#define NAME(name, kind, text) #name,
        RDL_METRICS(NAME)
#undef NAME
    };
    static const char *const texts[] = {
#define TEXT(name, kind, text) text,
        RDL_METRICS(TEXT)
#undef TEXT
    };

    for (int m = 0; m < RDL_METRIC_COUNT; m++) {
        char expected[64];
        const char *bare = names[m] + strlen("RDL_M_");
        size_t i;

        for (i = 0; bare[i] != '\0'; i++)
            expected[i] = (char)tolower((unsigned char)bare[i]);
        expected[i] = '\0';
        cr_assert_str_eq(rdl_metric_name((rdl_metric_t)m), expected);
        cr_assert_str_eq(rdl_metric_text((rdl_metric_t)m), texts[m]);
    }
}
