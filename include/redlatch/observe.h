/* observe.h - log and metrics sinks. Without a sink nothing is formatted, counted or timed.
 *
 * A sink is called on whatever thread the event happens on (the caller's, or the client's loop thread), possibly
 * several at once, never under a lock of the library. It must be quick and must not call back into the library.
 */
#ifndef REDLATCH_OBSERVE_H
#define REDLATCH_OBSERVE_H

#include <redlatch/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rdl_log_level {
    RDL_LOG_DEBUG = 0, /* connects, subscriptions, retries */
    RDL_LOG_INFO = 1,  /* reconnected, servers found */
    RDL_LOG_WARN = 2,  /* connection lost, hold at risk, outcome unknown; a server that may evict locks, or whose clock
                          jumps */
    RDL_LOG_ERROR = 3, /* hold lost */
} rdl_log_level_t;

/* `line` has no newline and no password in it; it is valid during the call only. What goes wrong again and again while
 * a client tries to connect is told once, then with a count after 10 s, 20 s and so on up to 10 minutes; that it is
 * connected again is told, too, with the number of attempts. */
typedef void (*rdl_log_fn)(rdl_log_level_t level, const char *line, void *arg);

/* X(name, kind, text). Kind: C counter (value is what to add), H histogram (value is one observation, microseconds). */
#define RDL_METRICS(X)                                                                                                 \
    X(RDL_M_ATTEMPTS, C, "acquire calls started")                                                                      \
    X(RDL_M_ACQUIRED, C, "acquire calls that took the lock")                                                           \
    X(RDL_M_CONTENDED, C, "acquire calls that found the lock taken at first")                                          \
    X(RDL_M_TIMED_OUT, C, "acquire calls that gave up: RDL_ETIMEDOUT")                                                 \
    X(RDL_M_UNKNOWN, C, "calls that ended RDL_EUNKNOWN")                                                               \
    X(RDL_M_RELEASED, C, "outermost holds released")                                                                   \
    X(RDL_M_LOST, C, "holds lost")                                                                                     \
    X(RDL_M_AT_RISK, C, "times that a hold's renewal became overdue")                                                  \
    X(RDL_M_RENEWED, C, "renewals confirmed")                                                                          \
    X(RDL_M_RECONNECTS, C, "connections established again after a loss")                                               \
    X(RDL_M_SCRIPT_LOADS, C, "scripts loaded again after NOSCRIPT")                                                    \
    X(RDL_M_WAIT_US, H, "time from the start of an acquire call to the lock")                                          \
    X(RDL_M_HOLD_US, H, "time that an outermost hold lasted")                                                          \
    X(RDL_M_RTT_US, H, "time from sending a command to its reply")

typedef enum rdl_metric {
#define RDL_METRICS_ENUM_(name, kind, text) name,
    RDL_METRICS(RDL_METRICS_ENUM_)
#undef RDL_METRICS_ENUM_
        RDL_METRIC_COUNT
} rdl_metric_t;

typedef void (*rdl_metrics_fn)(rdl_metric_t metric, int64_t value, void *arg);

/* A ready-made sink: counts in memory, without locks. Pass rdl_metrics_sink with an rdl_metrics_t as its argument. */
typedef struct rdl_metrics rdl_metrics_t;

/* One metric as read by rdl_metrics_get. For a counter only `sum` is set. Bucket i of a histogram counts observations
 * of 2^(i-1) .. 2^i - 1 microseconds (bucket 0: below 1 us; the last one: everything above). */
typedef struct rdl_metric_value {
    uint64_t count;
    uint64_t sum;
    uint64_t buckets[40];
} rdl_metric_value_t;

/* Make a sink; NULL when memory is short. Free it with rdl_metrics_free (NULL is fine; returns NULL) after the clients
 * that report to it are closed. */
RDL_API rdl_metrics_t *rdl_metrics_new(void);
RDL_API rdl_metrics_t *rdl_metrics_free(rdl_metrics_t *metrics);
RDL_API void rdl_metrics_sink(rdl_metric_t metric, int64_t value, void *metrics);

/* Read one metric. The parts of a histogram are read one by one while others may be counting. */
RDL_API void rdl_metrics_get(const rdl_metrics_t *metrics, rdl_metric_t metric, rdl_metric_value_t *ret_value);

/* The metric's name without the prefix, lower case ("acquired"), and its text; NULL out of range. Static. */
RDL_API const char *rdl_metric_name(rdl_metric_t metric);
RDL_API const char *rdl_metric_text(rdl_metric_t metric);

#ifdef __cplusplus
}
#endif
#endif
