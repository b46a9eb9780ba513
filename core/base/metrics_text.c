/* SPDX-License-Identifier: MIT */
/* metrics_text.c - metrics in Prometheus' text format, version 0.0.4.
 *
 * A family is a HELP line, a TYPE line and its samples, which must stand together: so each family goes through all sets
 * of counters. Numbers are written as integers, so that no locale changes them.
 *
 * A histogram here has a bucket for each power of two of a microsecond; the text has those in `bounds`. An observation
 * is cut to whole microseconds, so buckets 0 to i are what took less than 2^i of them.
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "core/base/clock.h"
#include "core/base/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Powers of two: each from 64 us to 2 s, and some up to 72 min for waits and holds that people make. */
static const unsigned char bounds[] = {6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25, 28, 32};

/* What the family is called, without prefix and suffix, where rdl_metric_name says otherwise. */
static const char *const histogram_names[RDL_METRIC_COUNT] = {[RDL_M_WAIT_US] = "wait",
                                                              [RDL_M_HOLD_US] = "hold",
                                                              [RDL_M_HANDOFF_US] = "handoff",
                                                              [RDL_M_RECALL_US] = "recall",
                                                              [RDL_M_RTT_US] = "round_trip"};

static const bool by_lock[RDL_METRIC_COUNT] = {
#define LOCK true
#define CLIENT false
#define ENTRY(id, kind, of, text) [id] = (of),
    RDL_METRICS(ENTRY)
#undef ENTRY
#undef CLIENT
#undef LOCK
};

#define SECONDS "%" PRIu64 ".%06" PRIu64
#define SECONDS_OF(us) (uint64_t)(us) / 1000000, (uint64_t)(us) % 1000000

static void put_head(FILE *to, const char *family, const char *type, const char *text)
{
    fprintf(to, "# HELP redlatch_%s %s\n# TYPE redlatch_%s %s\n", family, text, family, type);
}

static void put_counter(FILE *to, const rdl_metrics_t *metrics, size_t sets, rdl_metric_t metric)
{
    char family[64];

    (void)snprintf(family, sizeof family, "%s_total", rdl_metric_name(metric));
    put_head(to, family, "counter", rdl_metric_text(metric));
    for (size_t i = 0; i < (by_lock[metric] ? sets : 1); i++) {
        const struct rdl__counters *set = metrics->sets[i];
        uint64_t value = atomic_load_explicit(&set->counts[metric], memory_order_relaxed);

        if (by_lock[metric])
            fprintf(to, "redlatch_%s{lock=\"%s\"} %" PRIu64 "\n", family, set->label, value);
        else
            fprintf(to, "redlatch_%s %" PRIu64 "\n", family, value);
    }
}

/* `label`: NULL for what is the client's. */
static void put_buckets(FILE *to, const char *family, const char *label, const struct rdl__histogram *histogram)
{
    const char *open = label == NULL ? "" : "lock=\"", *close = label == NULL ? "" : "\"";
    const char *begin = label == NULL ? "" : "{", *end = label == NULL ? "" : "}";
    rdl_metric_value_t value = {0};
    uint64_t below = 0;
    size_t b = 0;

    if (label == NULL)
        label = "";
    rdl__histogram_read(histogram, &value);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        while (b <= bounds[i])
            below += value.buckets[b++];
        fprintf(to, "redlatch_%s_bucket{%s%s%s%sle=\"" SECONDS "\"} %" PRIu64 "\n", family, open, label, close,
                *open == '\0' ? "" : ",", SECONDS_OF(UINT64_C(1) << bounds[i]), below);
    }
    fprintf(to, "redlatch_%s_bucket{%s%s%s%sle=\"+Inf\"} %" PRIu64 "\n", family, open, label, close,
            *open == '\0' ? "" : ",", value.count);
    fprintf(to, "redlatch_%s_sum%s%s%s%s%s " SECONDS "\n", family, begin, open, label, close, end,
            SECONDS_OF(value.sum));
    fprintf(to, "redlatch_%s_count%s%s%s%s%s %" PRIu64 "\n", family, begin, open, label, close, end, value.count);
}

static void put_histogram(FILE *to, const rdl_metrics_t *metrics, size_t sets, rdl_metric_t metric)
{
    char family[64];

    (void)snprintf(family, sizeof family, "%s_seconds", histogram_names[metric]);
    put_head(to, family, "histogram", rdl_metric_text(metric));
    for (size_t i = 0; i < (by_lock[metric] ? sets : 1); i++)
        put_buckets(to, family, by_lock[metric] ? metrics->sets[i]->label : NULL,
                    &metrics->sets[i]->histograms[metric - RDL__FIRST_HISTOGRAM]);
}

static void put_gauges(FILE *to, const rdl_metrics_t *metrics, size_t sets)
{
    const int64_t now = rdl__now();

    put_head(to, "held", "gauge", "holds that were not given back yet");
    for (size_t i = 0; i < sets; i++)
        fprintf(to, "redlatch_held{lock=\"%s\"} %" PRIu64 "\n", metrics->sets[i]->label,
                rdl__gauges_of(metrics, metrics->sets[i]).held);
    put_head(to, "waiting", "gauge", "calls that wait");
    for (size_t i = 0; i < sets; i++)
        fprintf(to, "redlatch_waiting{lock=\"%s\"} %" PRIu64 "\n", metrics->sets[i]->label,
                rdl__gauges_of(metrics, metrics->sets[i]).waiting);
    put_head(to, "longest_hold_seconds", "gauge", "how long the oldest of these holds has lasted; 0: there is none");
    for (size_t i = 0; i < sets; i++) {
        int64_t since = rdl__gauges_of(metrics, metrics->sets[i]).held_since;

        fprintf(to, "redlatch_longest_hold_seconds{lock=\"%s\"} " SECONDS "\n", metrics->sets[i]->label,
                SECONDS_OF(since == 0 || since > now ? 0 : (now - since) / RDL__US));
    }
}

char *rdl_metrics_text(const rdl_metrics_t *metrics)
{
    char *text = NULL;
    size_t len = 0, sets;
    bool complete;
    FILE *to;

    if (metrics == NULL || rdl__forked(&metrics->forkmark) || (to = open_memstream(&text, &len)) == NULL)
        return NULL;
    sets = atomic_load_explicit(&metrics->count, memory_order_acquire);
    for (int m = 0; m < RDL_METRIC_COUNT; m++) {
        if (m < RDL__FIRST_HISTOGRAM)
            put_counter(to, metrics, sets, (rdl_metric_t)m);
        else
            put_histogram(to, metrics, sets, (rdl_metric_t)m);
    }
    put_gauges(to, metrics, sets);
    complete = !ferror(to);
    if (fclose(to) == 0 && complete)
        return text;
    free(text);
    return NULL;
}
