/* SPDX-License-Identifier: MIT */
/* sink.h - passing events to the user's log and metrics sinks; nothing is formatted or measured when there is none. A
 * sink is the user's code, so who tells one has no mutex locked; that is asserted whether there is one or not. */
#ifndef REDLATCH_BASE_SINK_H
#define REDLATCH_BASE_SINK_H

#include "core/base/metrics.h"
#include "core/base/sync.h"

enum rdl__metering { RDL__NOT_METERED, RDL__COUNTED, RDL__TOLD /* by `metrics`, and counted if there are counters */ };

struct rdl__sinks {
    rdl_log_fn log;
    void *log_arg;
    rdl_log_level_t level;
    enum rdl__metering metering;
    rdl_metrics_t *counters;   /* NULL, like the next: no counters */
    struct rdl__counters *all; /* of the whole client */
    rdl_metrics_fn metrics;
    void *metrics_arg;
};

/* @locks none held: a sink is the user's code */
void rdl__log_(const struct rdl__sinks *s, rdl_log_level_t level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define rdl__log(s, lvl, ...)                                                                                          \
    do {                                                                                                               \
        rdl__assert_none_locked();                                                                                     \
        if ((s)->log != NULL && (lvl) >= (s)->level)                                                                   \
            rdl__log_((s), (lvl), __VA_ARGS__);                                                                        \
    } while (0)

/* Lines that come again and again: each is told when it is new, then as a count, ever more rarely: after 10 s, 20 s ...
 * 10 min. One that was not heard for as long as that is new again. Zeroed: none was told. Not locked. */
struct rdl__repeats {
    struct {
        uint64_t of;      /* the line's hash; 0: none */
        int64_t told_at;  /* last */
        int64_t heard_at; /* last */
        int64_t pause;
        unsigned untold;
    } lines[8];
};

/* @locks none */
void rdl__log_again(const struct rdl__sinks *s, rdl_log_level_t level, struct rdl__repeats *r, int64_t now,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* To the user's function, and to `set` unless it is NULL.  @locks none */
void rdl__metric_tell(const struct rdl__sinks *s, struct rdl__counters *set, rdl_metric_t metric, int64_t value)
    __attribute__((cold));

/* Something has happened that is counted for the whole client; times are in ns.  @locks none: the function is the
 * user's */
static inline void rdl__metric(const struct rdl__sinks *s, rdl_metric_t metric, int64_t value)
{
    rdl__assert_none_locked();
    if (s->metering == RDL__NOT_METERED)
        return;
    if (s->metering == RDL__COUNTED)
        rdl__count(s->all, metric, value);
    else
        rdl__metric_tell(s, s->all, metric, value);
}

#endif
