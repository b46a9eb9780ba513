/* SPDX-License-Identifier: MIT */
/* test_metrics.c - what is counted, for the whole client and by name, is what is read. */
#include "core/base/metrics.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BUCKETS = 40, THREADS = 4, ROUNDS = 4000000 };

static rdl_metrics_t *metrics;
static rdl_metric_value_t value;

static void set_up(void)
{
    cr_assert_eq(rdl_metrics_new(NULL, &metrics, NULL), RDL_OK);
}

static void count(rdl_metric_t metric, int64_t amount)
{
    rdl__count(metrics->sets[0], metric, metric < RDL__FIRST_HISTOGRAM ? amount : 1000 * amount + 999);
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
    count(RDL_M_ACQUIRED, 1);
    count(RDL_M_ACQUIRED, 5);
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
        {.us = INT64_MAX / 1000 - 1, .bucket = 39},
    };
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        uint64_t before;

        rdl_metrics_get(metrics, RDL_M_WAIT_US, &value);
        before = value.buckets[edges[i].bucket];
        count(RDL_M_WAIT_US, edges[i].us);
        sum += (uint64_t)edges[i].us;
        rdl_metrics_get(metrics, RDL_M_WAIT_US, &value);
        cr_assert_eq(value.buckets[edges[i].bucket], before + 1, "%lld us", (long long)edges[i].us);
        cr_assert_eq(value.count, i + 1);
        cr_assert_eq(value.sum, sum);
    }
}

Test(metrics, negative_observations_count_as_zero)
{
    rdl__count(metrics->sets[0], RDL_M_HOLD_US, -5000);
    rdl_metrics_get(metrics, RDL_M_HOLD_US, &value);
    cr_assert_eq(value.sum, 0);
    cr_assert_eq(value.count, 1);
    cr_assert_eq(value.buckets[0], 1);
}

Test(metrics, what_does_not_exist_is_ignored)
{
    count(RDL_M_LOST, 1);
    rdl_metrics_get(metrics, RDL_METRIC_COUNT, &value);
    cr_assert_eq(value.sum, 0);
    rdl_metrics_get(metrics, (rdl_metric_t)-1, &value);
    cr_assert_eq(value.sum, 0);
    rdl_metrics_get(NULL, RDL_M_LOST, &value);
    cr_assert_eq(value.sum, 0);
    cr_assert_null(rdl_metric_name(RDL_METRIC_COUNT));
    cr_assert_null(rdl_metric_text(RDL_METRIC_COUNT));
    cr_assert_null(rdl_metrics_free(NULL));
}

static pthread_barrier_t together;

static void *report(void *arg)
{
    (void)pthread_barrier_wait(&together);
    for (int i = 0; i < ROUNDS; i++) {
        rdl__count(arg, RDL_M_ATTEMPTS, 1);
        rdl__count(arg, RDL_M_RTT_US, i % 4 * 1000);
    }
    return NULL;
}

Test(metrics, lose_nothing_among_threads)
{
    pthread_t threads[THREADS];

    cr_assert_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, report, metrics->sets[0]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rdl_metrics_get(metrics, RDL_M_ATTEMPTS, &value);
    cr_assert_eq(value.sum, THREADS * ROUNDS);
    rdl_metrics_get(metrics, RDL_M_RTT_US, &value);
    cr_assert_eq(value.count, THREADS * ROUNDS);
    cr_assert_eq(value.buckets[0], THREADS * ROUNDS / 4);
    cr_assert_eq(value.buckets[2], THREADS * ROUNDS / 2);
}

Test(metrics, what_is_counted_by_name_is_added_up)
{
    struct rdl__meter a, b;

    rdl__meter_join(metrics, &a, "a", 1);
    rdl__meter_join(metrics, &b, "b", 1);
    rdl__count(a.set, RDL_M_LOST, 1);
    rdl__count(b.set, RDL_M_LOST, 2);
    count(RDL_M_LOST, 4);
    rdl__count(a.set, RDL_M_WAIT_US, 1000);
    rdl__count(b.set, RDL_M_WAIT_US, 2000);
    rdl_metrics_get(metrics, RDL_M_LOST, &value);
    cr_assert_eq(value.sum, 7);
    rdl_metrics_get(metrics, RDL_M_WAIT_US, &value);
    cr_assert_eq(value.sum, 3);
    cr_assert_eq(value.count, 2);
    cr_assert_eq(value.buckets[1], 1);
    cr_assert_eq(value.buckets[2], 1);
    rdl__meter_leave(metrics, &a);
    rdl__meter_leave(metrics, &b);
}

Test(metrics, names_and_texts_are_those_of_the_header)
{
    static const char *const names[] = {
#define NAME(name, kind, of, text) #name,
        RDL_METRICS(NAME)
#undef NAME
    };
    static const char *const texts[] = {
#define TEXT(name, kind, of, text) text,
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
