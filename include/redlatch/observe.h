/* SPDX-License-Identifier: MIT */
/* observe.h - log and metrics sinks. Without a sink nothing is formatted, counted or timed.
 *
 * A sink is called on whatever thread the event happens on (the caller's, or the client's loop thread), possibly
 * several at once, never under a lock of the library. It must be quick and must not call back into the library.
 */
#ifndef REDLATCH_OBSERVE_H
#define REDLATCH_OBSERVE_H

#include <redlatch/error.h>
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

/* X(name, kind, of, text). Kind: C counter (value is what to add), H histogram (value is one observation,
 * microseconds). Of: LOCK counted by lock's name, CLIENT for the whole client. */
#define RDL_METRICS(X)                                                                                                 \
    X(RDL_M_ATTEMPTS, C, LOCK, "acquire calls started")                                                                \
    X(RDL_M_ACQUIRED, C, LOCK, "acquire calls that took the lock")                                                     \
    X(RDL_M_CONTENDED, C, LOCK, "acquire calls that found the lock taken at first")                                    \
    X(RDL_M_TIMED_OUT, C, LOCK, "acquire calls that gave up: RDL_ETIMEDOUT")                                           \
    X(RDL_M_UNKNOWN, C, LOCK, "calls that ended RDL_EUNKNOWN")                                                         \
    X(RDL_M_UNDONE, C, LOCK, "calls given up whose traces at the server were removed, or whose release was finished")  \
    X(RDL_M_RELEASED, C, LOCK, "outermost holds released")                                                             \
    X(RDL_M_LOST, C, LOCK, "holds lost")                                                                               \
    X(RDL_M_AT_RISK, C, LOCK, "holds whose renewal became overdue")                                                    \
    X(RDL_M_DEGRADED, C, LOCK, "holds that were, or became, this host's alone: there was no server")                   \
    X(RDL_M_RESTORED, C, LOCK, "such holds that took the lock at the server that was back")                            \
    X(RDL_M_LOCAL, C, LOCK, "acquire calls that took a kept lock without asking the server")                           \
    X(RDL_M_KEPT, C, LOCK, "holds taken to be kept")                                                                   \
    X(RDL_M_RECALLS, C, LOCK, "kept holds that somebody else wanted")                                                  \
    X(RDL_M_KEPT_RECALLED, C, LOCK, "kept holds given back because somebody else wanted them")                         \
    X(RDL_M_KEPT_EXPIRED, C, LOCK,                                                                                     \
      "kept holds given back because they had been kept for cache_ms, or for another name")                            \
    X(RDL_M_KEPT_UNHEARD, C, LOCK, "kept holds given back because a recall might not have been heard")                 \
    X(RDL_M_KEPT_SHORT, C, LOCK, "kept holds given back because of a lease, used-up tokens, or reads beside a write")  \
    X(RDL_M_KEPT_CLOSED, C, LOCK, "kept holds that ended with the client or the last handle")                          \
    X(RDL_M_KEPT_EVICTED, C, LOCK, "kept holds that the server no longer had")                                         \
    X(RDL_M_KEPT_LOST, C, LOCK, "kept holds whose lease ran out, or whose owner ended inside")                         \
    X(RDL_M_RENEWED, C, CLIENT, "renewals confirmed")                                                                  \
    X(RDL_M_RENEWALS_LATE, C, CLIENT, "renewals confirmed when less than half of the lease was left")                  \
    X(RDL_M_RECONNECTS, C, CLIENT, "connections established again after a loss")                                       \
    X(RDL_M_SCRIPT_LOADS, C, CLIENT, "scripts loaded again after NOSCRIPT")                                            \
    X(RDL_M_WAIT_US, H, LOCK, "time from the start of an acquire call to the lock")                                    \
    X(RDL_M_HOLD_US, H, LOCK, "time that an outermost hold lasted")                                                    \
    X(RDL_M_HANDOFF_US, H, LOCK, "time from the message that woke a waiting call to its lock")                         \
    X(RDL_M_RECALL_US, H, LOCK, "time from a recall to the answer to the kept hold's release")                         \
    X(RDL_M_RTT_US, H, CLIENT, "time from sending a command to its reply")

typedef enum rdl_metric {
#define RDL_METRICS_ENUM_(name, kind, of, text) name,
    RDL_METRICS(RDL_METRICS_ENUM_)
#undef RDL_METRICS_ENUM_
        RDL_METRIC_COUNT
} rdl_metric_t;

/* Gets every event as it happens: the client option metrics_fn, for programs that count by themselves. */
typedef void (*rdl_metrics_fn)(rdl_metric_t metric, int64_t value, void *arg);

/* ---- counted by the library ------------------------------------------------------------------------------------- */

/* Counters, histograms and gauges in memory, by lock's name: the client option `metrics`. Any number of clients may
 * count in the same one; what they count for one name is added up. docs/metrics.md describes each series.
 *
 * A name gets series of its own when its first handle is made, if it matches and fewer than `names` names have some,
 * and keeps them until the metrics are freed: a counter that went away would be a reset to those who read it. All other
 * names, and those longer than RDL_METRICS_NAME_MAX bytes, are added up under the label lock="". Multi-locks and red
 * locks count by their members: each member's takes, waits and holds, under the member's name. Semaphores and permits
 * count attempts and waits, not holds, as anybody may give them back; a latch's await is an attempt.
 *
 * All functions may be called from any thread at any time. None waits for a lock call, nor do lock calls wait for them.
 */
typedef struct rdl_metrics rdl_metrics_t;

#define RDL_METRICS_NAMES_MAX 10000
#define RDL_METRICS_NAME_MAX 256

#define RDL_METRICS_OPTIONS_VERSION 1

/* Initialise with RDL_METRICS_OPTIONS_INIT; 0 or NULL always means the default. */
typedef struct rdl_metrics_options {
    uint32_t version;  /* RDL_METRICS_OPTIONS_VERSION */
    int32_t names;     /* how many names have series of their own; 100, at most RDL_METRICS_NAMES_MAX; -1: none. Each
                          takes some 3 KB here, and 116 lines of text */
    const char *match; /* only names that match this pattern: * ? [a-z] [^a] and \ before what is meant literally, as
                          Redis has it; NULL: all. At most 1024 bytes. Copied */
} rdl_metrics_options_t;

#define RDL_METRICS_OPTIONS_INIT RDL_INIT_(rdl_metrics_options_t, RDL_METRICS_OPTIONS_VERSION)

/* Make them, all zero; `options` may be NULL. Their memory is the C library's. Errors: RDL_EINVAL (an option, with its
 * bounds), RDL_ENOMEM. */
RDL_API int rdl_metrics_new(const rdl_metrics_options_t *options, rdl_metrics_t **ret_metrics, rdl_err_t *err);

/* Give the program's reference back: once, after its last use of them. Clients that count in them keep them as long as
 * they need. NULL is fine. Returns NULL. */
RDL_API rdl_metrics_t *rdl_metrics_free(rdl_metrics_t *metrics);

/* All series as text for Prometheus (exposition format 0.0.4, Content-Type: text/plain; version=0.0.4), NUL-terminated.
 * It is the caller's: free(3). Bytes of a name that are not printable, invalid UTF-8 and backslashes are written \xHH,
 * and escaped as the format wants.
 *
 * Each number is read by itself while others are counted; a histogram's buckets, count and sum agree among themselves
 * but for the sum, which may be an observation ahead or behind. Making and freeing handles may wait while gauges are
 * read: some nanoseconds for each handle's name. NULL: memory is short; `metrics` is NULL; or this is a child that was
 * forked after they were made. */
RDL_API char *rdl_metrics_text(const rdl_metrics_t *metrics);

/* One metric, added up over all names. For a counter only `sum` is set. Bucket i of a histogram counts observations of
 * 2^(i-1) .. 2^i - 1 microseconds (bucket 0: below 1 us; the last one: everything above). */
typedef struct rdl_metric_value {
    uint64_t count;
    uint64_t sum;
    uint64_t buckets[40];
} rdl_metric_value_t;

/* Read it. All zero where `metrics` is NULL or there is no such metric. */
RDL_API void rdl_metrics_get(const rdl_metrics_t *metrics, rdl_metric_t metric, rdl_metric_value_t *ret_value);

/* The metric's name without the prefix, lower case ("acquired"), and its text; NULL out of range. Static. */
RDL_API const char *rdl_metric_name(rdl_metric_t metric);
RDL_API const char *rdl_metric_text(rdl_metric_t metric);

#ifdef __cplusplus
}
#endif
#endif
