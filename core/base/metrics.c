/* metrics.c - the ready-made metrics sink: counters and histograms in memory.
 *
 * Any thread adds with relaxed atomics; nothing is ordered by them, and a reader may see one part of a histogram a
 * moment before another. Each metric has cache lines of its own, so that threads that report different ones do not
 * disturb each other. The memory is the C library's: the sink belongs to the program, not to a client.
 *
 * A new metric needs a line in RDL_METRICS and its name in the table below. */
#include <redlatch/observe.h>

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { BUCKETS = sizeof((rdl_metric_value_t){0}.buckets) / sizeof(uint64_t), CACHE_LINE = 64 };

struct cell {
    alignas(CACHE_LINE) _Atomic uint64_t count;
    _Atomic uint64_t sum;
    _Atomic uint64_t buckets[BUCKETS];
};

struct rdl_metrics {
    struct cell cells[RDL_METRIC_COUNT];
};

enum kind { C, H };

#define NAME_RDL_M_ATTEMPTS "attempts"
#define NAME_RDL_M_ACQUIRED "acquired"
#define NAME_RDL_M_CONTENDED "contended"
#define NAME_RDL_M_TIMED_OUT "timed_out"
#define NAME_RDL_M_UNKNOWN "unknown"
#define NAME_RDL_M_RELEASED "released"
#define NAME_RDL_M_LOST "lost"
#define NAME_RDL_M_AT_RISK "at_risk"
#define NAME_RDL_M_RENEWED "renewed"
#define NAME_RDL_M_RECONNECTS "reconnects"
#define NAME_RDL_M_SCRIPT_LOADS "script_loads"
#define NAME_RDL_M_WAIT_US "wait_us"
#define NAME_RDL_M_HOLD_US "hold_us"
#define NAME_RDL_M_RTT_US "rtt_us"

static const struct {
    const char *name;
    const char *text;
    enum kind kind;
} metrics_list[RDL_METRIC_COUNT] = {
#define ENTRY(id, kind_, text_) [id] = {.name = NAME_##id, .text = (text_), .kind = (kind_)},
    RDL_METRICS(ENTRY)
#undef ENTRY
};

static bool in_range(rdl_metric_t metric)
{
    return (unsigned)metric < RDL_METRIC_COUNT;
}

static void add(_Atomic uint64_t *to, uint64_t value)
{
    (void)atomic_fetch_add_explicit(to, value, memory_order_relaxed);
}

static uint64_t read_relaxed(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* The number of bits of value, and no more than there are buckets. */
static size_t bucket_of(uint64_t value)
{
    size_t bits = value == 0 ? 0 : 64 - (size_t)__builtin_clzll(value);

    return bits < BUCKETS ? bits : BUCKETS - 1;
}

rdl_metrics_t *rdl_metrics_new(void)
{
    rdl_metrics_t *metrics = aligned_alloc(alignof(rdl_metrics_t), sizeof *metrics);

    if (metrics == NULL)
        return NULL;
    for (size_t i = 0; i < RDL_METRIC_COUNT; i++) {
        struct cell *cell = &metrics->cells[i];

        atomic_init(&cell->count, 0);
        atomic_init(&cell->sum, 0);
        for (size_t b = 0; b < BUCKETS; b++)
            atomic_init(&cell->buckets[b], 0);
    }
    return metrics;
}

rdl_metrics_t *rdl_metrics_free(rdl_metrics_t *metrics)
{
    free(metrics);
    return NULL;
}

void rdl_metrics_sink(rdl_metric_t metric, int64_t value, void *metrics)
{
    struct cell *cell;
    uint64_t amount = value > 0 ? (uint64_t)value : 0;

    if (metrics == NULL || !in_range(metric))
        return;
    cell = &((rdl_metrics_t *)metrics)->cells[metric];
    add(&cell->sum, amount);
    if (metrics_list[metric].kind == H) {
        add(&cell->count, 1);
        add(&cell->buckets[bucket_of(amount)], 1);
    }
}

void rdl_metrics_get(const rdl_metrics_t *metrics, rdl_metric_t metric, rdl_metric_value_t *ret_value)
{
    rdl_metric_value_t value = {0};

    if (metrics != NULL && in_range(metric)) {
        const struct cell *cell = &metrics->cells[metric];

        value.count = read_relaxed(&cell->count);
        value.sum = read_relaxed(&cell->sum);
        for (size_t b = 0; b < BUCKETS; b++)
            value.buckets[b] = read_relaxed(&cell->buckets[b]);
    }
    *ret_value = value;
}

const char *rdl_metric_name(rdl_metric_t metric)
{
    return in_range(metric) ? metrics_list[metric].name : NULL;
}

const char *rdl_metric_text(rdl_metric_t metric)
{
    return in_range(metric) ? metrics_list[metric].text : NULL;
}
