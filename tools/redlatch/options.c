/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/options.h"

#include "tools/redlatch/duration.h"
#include "tools/redlatch/nearest.h"
#include "tools/redlatch/text.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

/* getopt_long reports a long option as LONG_BASE + its row, and a short one as its letter. */
#define LONG_BASE 256

/* Width of the left column of the help. */
#define HELP_COLUMN 30

int usage_fail(struct usage_error *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return -1;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

int option_duration(const char *option, const char *text, int64_t min_ms, int64_t *ret_ms, struct usage_error *why)
{
    char shown[TEXT_SAFE_CAP];
    char least[32];

    text_safe(text, strlen(text), shown);
    switch (duration_parse(text, ret_ms)) {
    case DURATION_MALFORMED:
        return usage_fail(why, "--%s: '%s' is not a time (such as 10, 2.5, 500ms, 5m, 1h, 2d)", option, shown);
    case DURATION_TOO_LONG:
        return usage_fail(why, "--%s: '%s' is too long", option, shown);
    case DURATION_OK:
        break;
    }
    if (*ret_ms >= min_ms)
        return 0;
    duration_print(min_ms, least, sizeof least);
    return usage_fail(why, "--%s: '%s' is too short, the least is %s", option, shown, least);
}

int option_number(const char *option, const char *text, int min, int max, int *ret, struct usage_error *why)
{
    char shown[TEXT_SAFE_CAP];
    int n = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9' && n <= max; p++)
        n = n * 10 + (*p - '0');
    if (p == text || *p != '\0' || n < min || n > max)
        return usage_fail(why, "--%s: '%s' is not a number from %d to %d", option, text_safe(text, strlen(text), shown),
                          min, max);
    *ret = n;
    return 0;
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

/* What getopt_long wants. */
struct tables {
    struct option longs[OPTIONS_MAX + 1];
    char shorts[2 + 2 * OPTIONS_MAX + 1];
};

static void make_tables(const struct option_row *rows, size_t count, struct tables *t)
{
    struct option *o = t->longs;
    char *s = t->shorts;

    *s++ = '+'; /* stop at the first argument that is no option: what follows may be somebody else's */
    *s++ = ':'; /* tell a missing value from an unknown option */
    for (size_t i = 0; i < count; i++) {
        if (rows[i].long_name == NULL)
            continue;
        *o++ = (struct option){
            .name = rows[i].long_name,
            .has_arg = rows[i].value != NULL ? required_argument : no_argument,
            .val = LONG_BASE + (int)i,
        };
        if (rows[i].short_name == '\0')
            continue;
        *s++ = rows[i].short_name;
        if (rows[i].value != NULL)
            *s++ = ':';
    }
    *o = (struct option){0};
    *s = '\0';
}

static const struct option_row *row_of(const struct option_row *rows, size_t count, int code)
{
    if (code >= LONG_BASE)
        return &rows[code - LONG_BASE];
    for (size_t i = 0; i < count; i++)
        if (code != '\0' && rows[i].short_name == code)
            return &rows[i];
    return NULL;
}

/* A long option that is none, or may be several: `name` is what stands behind the dashes. */
static int explain_long(const struct option_row *rows, size_t count, const char *name, struct usage_error *why)
{
    const char *begun[2] = {NULL, NULL};
    struct nearest near = {.word = NULL};
    char typed[TEXT_SAFE_CAP];

    text_safe(name, strcspn(name, "="), typed);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].long_name == NULL)
            continue;
        if (strncmp(rows[i].long_name, typed, strlen(typed)) == 0)
            begun[begun[0] != NULL] = rows[i].long_name;
        nearest_try(&near, typed, rows[i].long_name);
    }
    if (begun[1] != NULL)
        return usage_fail(why, "'--%s' may be --%s or --%s", typed, begun[0], begun[1]);
    if (near.word != NULL)
        return usage_fail(why, "unknown option '--%s': is --%s meant?", typed, near.word);
    return usage_fail(why, "unknown option '--%s'", typed);
}

/* getopt_long stopped at '?' or ':'. `arg` is the argument it had last read. */
static int explain(const struct option_row *rows, size_t count, int result, const char *arg, struct usage_error *why)
{
    const struct option_row *row = row_of(rows, count, optopt);
    char shown[TEXT_SAFE_CAP];
    char letter = (char)optopt;

    if (row != NULL && result == ':')
        return usage_fail(why, "--%s wants a value: %s", row->long_name, row->value);
    if (row != NULL)
        return usage_fail(why, "--%s takes no value", row->long_name);
    if (letter != '\0')
        return usage_fail(why, "unknown option '-%s'", text_safe(&letter, 1, shown));
    return explain_long(rows, count, arg + strspn(arg, "-"), why);
}

int options_parse(const struct option_row *rows, size_t count, int argc, char *const argv[], void *to,
                  struct usage_error *why)
{
    struct tables t;
    int code;

    make_tables(rows, count, &t);
    optind = 0; /* glibc: start afresh */
    opterr = 0;
    while ((code = getopt_long(argc, argv, t.shorts, t.longs, NULL)) != -1) {
        const struct option_row *row;

        if (code == '?' || code == ':')
            return explain(rows, count, code, argv[optind - 1], why);
        row = row_of(rows, count, code);
        if (row->apply(to, row->value != NULL ? optarg : NULL, why) < 0)
            return -1;
    }
    return optind;
}

/* ---- help ------------------------------------------------------------------------------------------------------- */

static void print_row(FILE *out, const struct option_row *row)
{
    const char *line = row->help;
    int width = row->short_name != '\0' ? fprintf(out, "  -%c, --%s", row->short_name, row->long_name)
                                        : fprintf(out, "      --%s", row->long_name);

    if (row->value != NULL)
        width += fprintf(out, " %s", row->value);
    if (width >= HELP_COLUMN) {
        fputc('\n', out);
        width = 0;
    }
    while (line != NULL) {
        const char *end = strchrnul(line, '\n');

        fprintf(out, "%*s%.*s\n", HELP_COLUMN - width, "", (int)(end - line), line);
        line = *end == '\n' ? end + 1 : NULL;
        width = 0;
    }
}

void options_print(FILE *out, const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].long_name == NULL)
            fprintf(out, "%s%s:\n", i > 0 ? "\n" : "", rows[i].help);
        else if (rows[i].help != NULL)
            print_row(out, &rows[i]);
}
