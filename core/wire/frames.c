/* SPDX-License-Identifier: MIT */
#include "core/wire/frames.h"

#include <string.h>

static bool is_aggregate(char type)
{
    return type == '*' || type == '~' || type == '>' || type == '%' || type == '|';
}

/* Does its line say how many bytes or values follow? */
static bool is_counted(char type)
{
    return type == '$' || type == '=' || type == '!' || is_aggregate(type);
}

/* A value has ended, or a line that `more` values follow. An attribute is no value of its own. */
static void count(struct rdl__frames *f, size_t more)
{
    bool unwanted = f->unwanted > 0;

    f->at = RDL__FRAMES_START;
    if (f->type == '|')
        f->unwanted += more;
    else if (unwanted)
        f->unwanted = f->unwanted + more - 1;
}

/* The line has ended. */
static enum rdl__frames_wrong end_line(struct rdl__frames *f)
{
    size_t values = f->negative || !is_aggregate(f->type) ? 0
                    : f->type == '%' || f->type == '|'    ? 2 * f->number
                                                          : f->number;

    if (is_counted(f->type) && !is_aggregate(f->type) && !f->negative) {
        f->left = f->number + 2;
        f->at = RDL__FRAMES_BYTES;
        return f->number > RDL__REPLY_BYTES_MAX ? RDL__FRAMES_TOO_LARGE : RDL__FRAMES_FINE;
    }
    count(f, values);
    return values > RDL__REPLY_BYTES_MAX / sizeof(void *) ? RDL__FRAMES_TOO_LARGE : RDL__FRAMES_FINE;
}

/* More of a line; a number has no more digits than are read here before it is too large. */
static enum rdl__frames_wrong read_number(struct rdl__frames *f, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++, f->line++) {
        if (at[i] >= '0' && at[i] <= '9' && f->number <= RDL__REPLY_BYTES_MAX)
            f->number = f->number * 10 + (size_t)(at[i] - '0');
        else if (f->line == 0 && at[i] == '-')
            f->negative = true;
        else if (at[i] != '\r')
            return f->number > RDL__REPLY_BYTES_MAX ? RDL__FRAMES_TOO_LARGE : RDL__FRAMES_MALFORMED;
    }
    return RDL__FRAMES_FINE;
}

static enum rdl__frames_wrong pass_line(struct rdl__frames *f, const char **at, const char *end)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    size_t len = (size_t)((newline != NULL ? newline : end) - *at);
    enum rdl__frames_wrong wrong = RDL__FRAMES_FINE;

    if (is_counted(f->type))
        wrong = read_number(f, *at, len);
    else if ((f->line += len) > RDL__REPLY_LINE_MAX)
        wrong = RDL__FRAMES_TOO_LARGE;
    *at += newline != NULL ? len + 1 : len;
    return wrong != RDL__FRAMES_FINE || newline == NULL ? wrong : end_line(f);
}

static void pass_bytes(struct rdl__frames *f, const char **at, const char *end)
{
    size_t len = (size_t)(end - *at) < f->left ? (size_t)(end - *at) : f->left;

    *at += len;
    if ((f->left -= len) == 0)
        count(f, 0);
}

static void begin_value(struct rdl__frames *f, char type)
{
    f->at = RDL__FRAMES_LINE;
    f->type = type;
    f->negative = false;
    f->number = f->line = 0;
}

/* Is the next byte of an attribute? */
static bool in_attribute(const struct rdl__frames *f, char next)
{
    return f->unwanted > 0 || (f->at == RDL__FRAMES_START ? next : f->type) == '|';
}

enum rdl__frames_wrong rdl__frames_pass(struct rdl__frames *f, const char **at, const char *end, bool *ret_wanted)
{
    bool unwanted = *at < end && in_attribute(f, **at);
    enum rdl__frames_wrong wrong = RDL__FRAMES_FINE;

    *ret_wanted = !unwanted;
    while (*at < end && in_attribute(f, **at) == unwanted && wrong == RDL__FRAMES_FINE) {
        const char *began = *at;

        if (f->at == RDL__FRAMES_START)
            begin_value(f, *(*at)++);
        else if (f->at == RDL__FRAMES_LINE)
            wrong = pass_line(f, at, end);
        else
            pass_bytes(f, at, end);
        f->dropped = unwanted ? f->dropped + (size_t)(*at - began) : 0;
        if (f->dropped > RDL__REPLY_BYTES_MAX)
            wrong = RDL__FRAMES_TOO_LARGE;
    }
    return wrong;
}
