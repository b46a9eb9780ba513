/* sink.c - formatting one log line. */
#include "core/base/sink.h"

#include "core/base/err.h"

#include <stdarg.h>

enum { LINE_MAX_BYTES = 1024 };

void rdl__log_(const struct rdl__sinks *s, rdl_log_level_t level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)rdl__vline(line, sizeof line, fmt, args);
    va_end(args);
    s->log(level, line, s->log_arg);
}
