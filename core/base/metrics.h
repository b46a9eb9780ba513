/* SPDX-License-Identifier: MIT */
/* metrics.h - counters, histograms and gauges, by lock's name (observe.h), from inside.
 *
 * A set of counters belongs to a name; the first set is that of all names without one, and of the whole client. Any
 * thread adds with relaxed atomics: nothing is ordered by them. Sets are only ever added, so who reads takes no mutex.
 *
 * A gauge of holds is read where it is kept anyway: each name of a client that counts has a meter, on its set's list.
 */
#ifndef REDLATCH_BASE_METRICS_H
#define REDLATCH_BASE_METRICS_H

#include "core/base/forkmark.h"
#include "core/base/list.h"
#include "core/base/sync.h"
#include "core/base/table.h"

#include <redlatch/observe.h>
#include <stdbool.h>

#define RDL__BUCKETS 64                    /* more than are told, so that none needs a bound */
#define RDL__FIRST_HISTOGRAM RDL_M_WAIT_US /* the counters come before it */

struct rdl__histogram {
    _Atomic uint64_t sum;
    _Atomic uint64_t buckets[RDL__BUCKETS];
};

struct rdl__counters {
    _Atomic uint64_t counts[RDL__FIRST_HISTOGRAM];
    struct rdl__histogram histograms[RDL_METRIC_COUNT - RDL__FIRST_HISTOGRAM];
    _Atomic int64_t waiting; /* calls asleep for the lock, or about to try again */

    struct rdl__link meters; /* under the metrics' mu */

    /* immutable */
    struct rdl__table_node node; /* key: the name; under the metrics' mu */
    const char *label;           /* as the text has it */
    char bytes[];
};

/* What a name of one client holds. Written under the name's mutex, read by anybody. */
struct rdl__meter {
    struct rdl__counters *set;  /* immutable */
    struct rdl__link link;      /* under the metrics' mu */
    _Atomic int64_t held_since; /* when the oldest of its holds was granted; 0: it has none */
    _Atomic uint32_t held;
};

struct rdl_metrics {
    /* immutable */
    struct rdl__forkmark forkmark;
    struct rdl__mem mem; /* the C library's: the metrics are the program's, not a client's */
    char *match;         /* NULL: all names */
    size_t most;         /* sets */

    _Atomic unsigned refs;
    _Atomic size_t count; /* of sets; raised when the next one is complete */
    struct rdl__mutex mu; /* a leaf */
    struct rdl__table names;
    struct rdl__counters *sets[];
};

rdl_metrics_t *rdl__metrics_ref(rdl_metrics_t *metrics); /* NULL is fine; given back by rdl_metrics_free */

/* A name begins, or ends. Where memory is short it is counted with those that have no set of their own. */
void rdl__meter_join(rdl_metrics_t *metrics, struct rdl__meter *meter, const char *name, size_t len);
void rdl__meter_leave(rdl_metrics_t *metrics, struct rdl__meter *meter);

static inline void rdl__add(_Atomic uint64_t *to, uint64_t value)
{
    (void)atomic_fetch_add_explicit(to, value, memory_order_relaxed);
}

/* Add to a counter, or note a time in ns; one below 0 counts as 0.  @thread any */
static inline void rdl__count(struct rdl__counters *set, rdl_metric_t metric, int64_t value)
{
    if (metric < RDL__FIRST_HISTOGRAM) {
        rdl__add(&set->counts[metric], (uint64_t)value);
    } else {
        struct rdl__histogram *histogram = &set->histograms[metric - RDL__FIRST_HISTOGRAM];
        uint64_t us = (uint64_t)(value > 0 ? value : 0) / 1000;

        rdl__add(&histogram->sum, us);
        rdl__add(&histogram->buckets[63 - __builtin_clzll(us << 1 | 1)], 1); /* how many bits it has */
    }
}

/* Holds and waiting calls of all names in the set. */
struct rdl__gauges {
    uint64_t held, waiting;
    int64_t held_since; /* 0: none */
};

static inline uint32_t rdl__meter_held(const struct rdl__meter *meter)
{
    return atomic_load_explicit(&meter->held, memory_order_relaxed);
}

static inline int64_t rdl__meter_since(const struct rdl__meter *meter)
{
    return atomic_load_explicit(&meter->held_since, memory_order_relaxed);
}

/* By one thread at a time: under the name's mutex. */
static inline void rdl__meter_set(struct rdl__meter *meter, uint32_t held, int64_t since)
{
    atomic_store_explicit(&meter->held, held, memory_order_relaxed);
    atomic_store_explicit(&meter->held_since, since, memory_order_relaxed);
}

struct rdl__gauges rdl__gauges_of(const rdl_metrics_t *metrics, const struct rdl__counters *set);
void rdl__histogram_read(const struct rdl__histogram *histogram, rdl_metric_value_t *ret_value); /* adds to it */

#endif
