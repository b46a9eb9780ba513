/* SPDX-License-Identifier: MIT */
/* sink.c - formatting one log line. */
#include "core/base/sink.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/table.h"

#include <stdarg.h>

enum { LINE_MAX_BYTES = 1024 };

#define REPEAT_MIN (10 * RDL__SEC)
#define REPEAT_MAX (600 * RDL__SEC)

void rdl__log_(const struct rdl__sinks *s, rdl_log_level_t level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)rdl__vline(line, sizeof line, fmt, args);
    va_end(args);
    s->log(level, line, s->log_arg);
}

void rdl__metric_tell(const struct rdl__sinks *s, struct rdl__counters *set, rdl_metric_t metric, int64_t value)
{
    if (set != NULL)
        rdl__count(set, metric, value);
    s->metrics(metric, metric < RDL__FIRST_HISTOGRAM ? value : value / RDL__US, s->metrics_arg);
}

/* The place of that line, or the one whose line was heard longest ago, made free. */
static unsigned find_repeat(struct rdl__repeats *r, uint64_t of, int64_t now)
{
    unsigned oldest = 0;

    for (unsigned i = 0; i < sizeof r->lines / sizeof *r->lines; i++) {
        if (r->lines[i].of == of && now - r->lines[i].heard_at < r->lines[i].pause)
            return i;
        if (r->lines[i].of == of || r->lines[i].of == 0 ||
            (r->lines[oldest].of != 0 && r->lines[i].heard_at < r->lines[oldest].heard_at))
            oldest = i;
        if (r->lines[i].of == of)
            break;
    }
    r->lines[oldest].of = 0;
    return oldest;
}

void rdl__log_again(const struct rdl__sinks *s, rdl_log_level_t level, struct rdl__repeats *r, int64_t now,
                    const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    uint64_t of;
    va_list args;
    size_t len;
    unsigned i;

    rdl__assert_none_locked();
    if (s->log == NULL || level < s->level)
        return;
    va_start(args, fmt);
    len = rdl__vline(line, sizeof line, fmt, args);
    va_end(args);
    of = rdl__hash(line, len) | 1;
    i = find_repeat(r, of, now);
    r->lines[i].heard_at = now;
    if (r->lines[i].of == 0) {
        r->lines[i].of = of;
        r->lines[i].told_at = now;
        r->lines[i].pause = REPEAT_MIN;
        r->lines[i].untold = 0;
        s->log(level, line, s->log_arg);
        return;
    }
    r->lines[i].untold++;
    if (now - r->lines[i].told_at < r->lines[i].pause)
        return;
    rdl__log_(s, level, "%s (%u times more in %lld s)", line, r->lines[i].untold,
              (long long)((now - r->lines[i].told_at) / RDL__SEC));
    r->lines[i].told_at = now;
    r->lines[i].untold = 0;
    r->lines[i].pause = r->lines[i].pause < REPEAT_MAX / 2 ? 2 * r->lines[i].pause : REPEAT_MAX;
}
