/* SPDX-License-Identifier: MIT */
/* metrics.c - sets of counters, made and read; metrics_text.c writes them as text.
 *
 * A new metric is a line in RDL_METRICS and its name in the table below. */
#include "core/base/metrics.h"

#include "core/base/err.h"
#include "core/base/glob.h"

#include <string.h>

enum { MATCH_MAX = 1024, NAMES_USUAL = 100, TOLD = sizeof((rdl_metric_value_t *)0)->buckets / sizeof(uint64_t) };

#define NAME_RDL_M_ATTEMPTS "attempts"
#define NAME_RDL_M_ACQUIRED "acquired"
#define NAME_RDL_M_CONTENDED "contended"
#define NAME_RDL_M_TIMED_OUT "timed_out"
#define NAME_RDL_M_UNKNOWN "unknown"
#define NAME_RDL_M_UNDONE "undone"
#define NAME_RDL_M_RELEASED "released"
#define NAME_RDL_M_LOST "lost"
#define NAME_RDL_M_AT_RISK "at_risk"
#define NAME_RDL_M_DEGRADED "degraded"
#define NAME_RDL_M_RESTORED "restored"
#define NAME_RDL_M_LOCAL "local"
#define NAME_RDL_M_KEPT "kept"
#define NAME_RDL_M_RECALLS "recalls"
#define NAME_RDL_M_KEPT_RECALLED "kept_recalled"
#define NAME_RDL_M_KEPT_EXPIRED "kept_expired"
#define NAME_RDL_M_KEPT_UNHEARD "kept_unheard"
#define NAME_RDL_M_KEPT_SHORT "kept_short"
#define NAME_RDL_M_KEPT_CLOSED "kept_closed"
#define NAME_RDL_M_KEPT_EVICTED "kept_evicted"
#define NAME_RDL_M_KEPT_LOST "kept_lost"
#define NAME_RDL_M_RENEWED "renewed"
#define NAME_RDL_M_RENEWALS_LATE "renewals_late"
#define NAME_RDL_M_RECONNECTS "reconnects"
#define NAME_RDL_M_SCRIPT_LOADS "script_loads"
#define NAME_RDL_M_WAIT_US "wait_us"
#define NAME_RDL_M_HOLD_US "hold_us"
#define NAME_RDL_M_HANDOFF_US "handoff_us"
#define NAME_RDL_M_RECALL_US "recall_us"
#define NAME_RDL_M_RTT_US "rtt_us"

static const struct {
    const char *name;
    const char *text;
} metrics_list[RDL_METRIC_COUNT] = {
#define ENTRY(id, kind, of, text_) [id] = {.name = NAME_##id, .text = (text_)},
    RDL_METRICS(ENTRY)
#undef ENTRY
};

enum { C = 0, H = 1 };

#define IN_ORDER(id, kind, of, text)                                                                                   \
    _Static_assert(((id) >= RDL__FIRST_HISTOGRAM) == (kind), "counters come before histograms");
RDL_METRICS(IN_ORDER)

static bool in_range(rdl_metric_t metric)
{
    return (unsigned)metric < RDL_METRIC_COUNT;
}

static uint64_t read_relaxed(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* ---- sets ------------------------------------------------------------------------------------------------------- */

/* Room for a label: each byte may become \xHH, with its backslash doubled. */
static size_t label_size(size_t len)
{
    return 5 * len + 1;
}

/* The name in printable form, with quotes and backslashes escaped. */
static void put_label(char *to, const char *name, size_t len)
{
    char printable[4 * RDL_METRICS_NAME_MAX + 5];
    size_t printable_len = rdl__printable(printable, sizeof printable, name, len);

    for (size_t i = 0; i < printable_len; i++) {
        if (printable[i] == '"' || printable[i] == '\\')
            *to++ = '\\';
        *to++ = printable[i];
    }
    *to = '\0';
}

static size_t set_size(size_t len)
{
    return sizeof(struct rdl__counters) + len + label_size(len);
}

/* NULL: no memory.  @locks mu; but for the first, when nobody has the metrics yet */
static struct rdl__counters *add_set(rdl_metrics_t *metrics, const char *name, size_t len)
{
    size_t count = atomic_load_explicit(&metrics->count, memory_order_relaxed);
    struct rdl__counters *set = rdl__zalloc(&metrics->mem, set_size(len));

    if (count > 0)
        rdl__assert_locked(&metrics->mu);
    if (set == NULL)
        return NULL;
    rdl__list_init(&set->meters);
    memcpy(set->bytes, name, len);
    put_label(set->bytes + len, name, len);
    set->label = set->bytes + len;
    set->node.key = set->bytes;
    set->node.key_len = (uint32_t)len;
    metrics->sets[count] = set;
    atomic_store_explicit(&metrics->count, count + 1, memory_order_release);
    return set;
}

/* @locks mu */
static struct rdl__counters *find_set(rdl_metrics_t *metrics, const char *name, size_t len)
{
    struct rdl__table_node *node;
    struct rdl__counters *set;

    rdl__assert_locked(&metrics->mu);
    if (len > RDL_METRICS_NAME_MAX ||
        (metrics->match != NULL && !rdl__glob(metrics->match, strlen(metrics->match), name, len)))
        return metrics->sets[0];
    if ((node = rdl__table_find(&metrics->names, name, len)) != NULL)
        return rdl__container(node, struct rdl__counters, node);
    if (metrics->count == metrics->most || (set = add_set(metrics, name, len)) == NULL)
        return metrics->sets[0];
    rdl__table_add(&metrics->names, &set->node);
    return set;
}

void rdl__meter_join(rdl_metrics_t *metrics, struct rdl__meter *meter, const char *name, size_t len)
{
    rdl__mutex_lock(&metrics->mu);
    meter->set = find_set(metrics, name, len);
    rdl__list_push_back(&meter->set->meters, &meter->link);
    rdl__mutex_unlock(&metrics->mu);
}

void rdl__meter_leave(rdl_metrics_t *metrics, struct rdl__meter *meter)
{
    rdl__mutex_lock(&metrics->mu);
    rdl__list_remove(&meter->link);
    rdl__mutex_unlock(&metrics->mu);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static int check_options(const rdl_metrics_options_t *given, rdl_metrics_options_t *o, rdl_err_t *err)
{
    *o = given != NULL ? *given : (rdl_metrics_options_t)RDL_METRICS_OPTIONS_INIT;
    if (o->version != RDL_METRICS_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL,
                            "metrics options have version %u: initialise them with RDL_METRICS_OPTIONS_INIT",
                            (unsigned)o->version);
    if (o->names < -1 || o->names > RDL_METRICS_NAMES_MAX)
        return rdl__err_set(err, RDL_EINVAL,
                            "metrics option names is %d: it must be 1 to %d, -1 for none, or 0 for the default",
                            (int)o->names, RDL_METRICS_NAMES_MAX);
    if (o->match != NULL && strlen(o->match) > MATCH_MAX)
        return rdl__err_set(err, RDL_EINVAL, "metrics option match has %zu bytes: at most %d", strlen(o->match),
                            (int)MATCH_MAX);
    if (o->names == 0)
        o->names = NAMES_USUAL;
    return RDL_OK;
}

static size_t metrics_size(size_t most)
{
    return sizeof(rdl_metrics_t) + most * sizeof(struct rdl__counters *);
}

static void metrics_unmake(rdl_metrics_t *metrics)
{
    for (size_t i = 0; i < metrics->count; i++)
        rdl__free(&metrics->mem, metrics->sets[i], set_size(metrics->sets[i]->node.key_len));
    if (metrics->match != NULL)
        rdl__free(&metrics->mem, metrics->match, strlen(metrics->match) + 1);
    rdl__table_done(&metrics->names);
    rdl__mutex_done(&metrics->mu);
    rdl__forkmark_done(&metrics->forkmark);
    rdl__free(&metrics->mem, metrics, metrics_size(metrics->most));
}

int rdl_metrics_new(const rdl_metrics_options_t *options, rdl_metrics_t **ret_metrics, rdl_err_t *err)
{
    rdl_metrics_options_t o;
    struct rdl__mem mem;
    rdl_metrics_t *metrics;
    size_t most;
    int rc;

    if (ret_metrics == NULL)
        return rdl__err_set(err, RDL_EINVAL, "ret_metrics is NULL");
    if ((rc = check_options(options, &o, err)) < 0)
        return rc;
    rdl__mem_init(&mem, NULL);
    most = o.names < 0 ? 1 : (size_t)o.names + 1;
    if ((metrics = rdl__zalloc(&mem, metrics_size(most))) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    metrics->mem = mem;
    metrics->most = most;
    atomic_init(&metrics->refs, 1);
    if (rdl__mutex_init(&metrics->mu) < 0) {
        rdl__free(&mem, metrics, metrics_size(most));
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    if (rdl__forkmark_init(&metrics->forkmark) < 0 || rdl__table_init(&metrics->names, &metrics->mem) < 0 ||
        (o.match != NULL && (metrics->match = rdl__memdup(&mem, o.match, strlen(o.match))) == NULL) ||
        add_set(metrics, "", 0) == NULL) {
        metrics_unmake(metrics);
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    *ret_metrics = metrics;
    return RDL_OK;
}

rdl_metrics_t *rdl__metrics_ref(rdl_metrics_t *metrics)
{
    if (metrics != NULL)
        atomic_fetch_add_explicit(&metrics->refs, 1, memory_order_relaxed);
    return metrics;
}

rdl_metrics_t *rdl_metrics_free(rdl_metrics_t *metrics)
{
    if (metrics != NULL && atomic_fetch_sub_explicit(&metrics->refs, 1, memory_order_acq_rel) == 1)
        metrics_unmake(metrics);
    return NULL;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

void rdl__histogram_read(const struct rdl__histogram *histogram, rdl_metric_value_t *ret_value)
{
    ret_value->sum += read_relaxed(&histogram->sum);
    for (size_t b = 0; b < RDL__BUCKETS; b++) {
        uint64_t count = read_relaxed(&histogram->buckets[b]);

        ret_value->buckets[b < TOLD ? b : TOLD - 1] += count;
        ret_value->count += count;
    }
}

struct rdl__gauges rdl__gauges_of(const rdl_metrics_t *metrics, const struct rdl__counters *set)
{
    struct rdl__mutex *mu = &((rdl_metrics_t *)(uintptr_t)metrics)->mu;
    int64_t waiting = atomic_load_explicit(&set->waiting, memory_order_relaxed);
    struct rdl__gauges gauges = {.waiting = waiting > 0 ? (uint64_t)waiting : 0};

    rdl__mutex_lock(mu);
    for (const struct rdl__link *l = set->meters.next; l != &set->meters; l = l->next) {
        const struct rdl__meter *meter = rdl__container(l, struct rdl__meter, link);
        int64_t since = rdl__meter_since(meter);

        gauges.held += rdl__meter_held(meter);
        if (since != 0 && (gauges.held_since == 0 || since < gauges.held_since))
            gauges.held_since = since;
    }
    rdl__mutex_unlock(mu);
    return gauges;
}

void rdl_metrics_get(const rdl_metrics_t *metrics, rdl_metric_t metric, rdl_metric_value_t *ret_value)
{
    size_t count =
        metrics != NULL && in_range(metric) ? atomic_load_explicit(&metrics->count, memory_order_acquire) : 0;
    rdl_metric_value_t value = {0};

    for (size_t i = 0; i < count; i++) {
        if (metric >= RDL__FIRST_HISTOGRAM)
            rdl__histogram_read(&metrics->sets[i]->histograms[metric - RDL__FIRST_HISTOGRAM], &value);
        else
            value.sum += read_relaxed(&metrics->sets[i]->counts[metric]);
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
