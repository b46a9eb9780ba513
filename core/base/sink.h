/* sink.h - passing events to the user's log and metrics sinks; nothing is formatted or measured when there is none. */
#ifndef REDLATCH_BASE_SINK_H
#define REDLATCH_BASE_SINK_H

#include <redlatch/observe.h>
#include <stdbool.h>
#include <stdint.h>

struct rdl__sinks {
    rdl_log_fn log;
    void *log_arg;
    rdl_log_level_t level;
    rdl_metrics_fn metrics;
    void *metrics_arg;
};

/* @locks none held: a sink is the user's code */
void rdl__log_(const struct rdl__sinks *s, rdl_log_level_t level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define rdl__log(s, lvl, ...)                                                                                          \
    do {                                                                                                               \
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

/* @locks as rdl__log_ */
void rdl__log_again(const struct rdl__sinks *s, rdl_log_level_t level, struct rdl__repeats *r, int64_t now,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static inline bool rdl__metered(const struct rdl__sinks *s)
{
    return s->metrics != NULL;
}

static inline void rdl__metric(const struct rdl__sinks *s, rdl_metric_t metric, int64_t value)
{
    if (s->metrics != NULL)
        s->metrics(metric, value, s->metrics_arg);
}

#endif
