/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A fraction is kept in units of 10^-9; digits behind those only matter in that they are not zero. */
#define FRACTION_ONE INT64_C(1000000000)

static const struct unit {
    const char *suffix;
    int64_t ms;
} units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}, {"d", 24 * 60 * 60 * 1000},
};

struct number {
    int64_t whole;    /* stops growing above DURATION_MAX_MS: too long in every unit */
    int64_t fraction; /* in 1/FRACTION_ONE */
    bool inexact;     /* there were further digits, not all zero */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Read the digits at `text`. Returns what follows them, or NULL when there are none, or none behind the point. */
static const char *read_number(const char *text, struct number *ret)
{
    struct number n = {0};
    const char *p = text;

    for (; is_digit(*p); p++)
        if (n.whole <= DURATION_MAX_MS)
            n.whole = n.whole * 10 + (*p - '0');
    if (*p == '.') {
        int64_t scale = FRACTION_ONE / 10;

        if (!is_digit(*++p))
            return NULL;
        for (; is_digit(*p); p++, scale /= 10) {
            n.fraction += (*p - '0') * scale;
            n.inexact |= scale == 0 && *p != '0';
        }
    }
    *ret = n;
    return p == text ? NULL : p;
}

enum duration_result duration_parse(const char *text, int64_t *ret_ms)
{
    struct number n;
    const char *suffix = read_number(text, &n);
    const struct unit *unit = NULL;

    for (size_t i = 0; suffix != NULL && i < sizeof units / sizeof *units; i++)
        if (strcmp(suffix, units[i].suffix) == 0)
            unit = &units[i];
    if (unit == NULL)
        return DURATION_MALFORMED;
    if (n.whole > DURATION_MAX_MS / unit->ms)
        return DURATION_TOO_LONG;

    int64_t fraction = n.fraction * unit->ms;
    int64_t ms = n.whole * unit->ms + fraction / FRACTION_ONE;

    if (fraction % FRACTION_ONE != 0 || n.inexact)
        ms++;
    if (ms > DURATION_MAX_MS)
        return DURATION_TOO_LONG;
    *ret_ms = ms;
    return DURATION_OK;
}

void duration_print(int64_t ms, char *to, size_t cap)
{
    int64_t s = ms / 1000;

    if (ms < 1000)
        snprintf(to, cap, "%" PRId64 " ms", ms);
    else if (s < 60)
        snprintf(to, cap, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    else if (s < 60 * 60)
        snprintf(to, cap, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (s < 24 * 60 * 60)
        snprintf(to, cap, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
    else
        snprintf(to, cap, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
}

void duration_print_exact(int64_t ms, char *to, size_t cap)
{
    int digits = ms % 1000 == 0 ? 0 : ms % 100 == 0 ? 1 : ms % 10 == 0 ? 2 : 3;

    if (ms < 1000 || ms >= 60 * 1000)
        duration_print(ms, to, cap);
    else
        snprintf(to, cap, "%.*f s", digits, (double)ms / 1000);
}
