/* SPDX-License-Identifier: MIT */
/* options.h - command-line options as a table, one row each.
 *
 * The table is the only place that knows an option: getopt_long's tables and the help text are made from it. A
 * subcommand has a struct of its own that the rows fill in, and one function a row that reads the value. Everything
 * here is pure: no output, no exit, no look at the environment. To add an option, add a row (and its line to
 * redlatch.1). */
#ifndef REDLATCH_TOOL_OPTIONS_H
#define REDLATCH_TOOL_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Room in one table, for the lists that getopt_long wants. */
#define OPTIONS_MAX 48

/* What is asked for in place of what the subcommand does; then nothing else is set or checked. */
enum asked { ASKED_NOTHING, ASKED_HELP, ASKED_VERSION };

/* What is wrong with a command line, in one line without a full stop, fit for a terminal. */
struct usage_error {
    char text[320];
};

struct option_row {
    char short_name;       /* '\0': none */
    const char *long_name; /* without the dashes; NULL: no option, but what those behind it are about, as `help` says */
    const char *value;     /* what the help calls its value; NULL: it takes none */
    const char *help;      /* lines separated by newlines; NULL: another name of the row before it, not shown */
    /* Store the option in `to`, the subcommand's struct. `text` is NULL when it takes no value, else it points into
     * argv. Returns 0, or -1 with `why` filled in. */
    int (*apply)(void *to, const char *text, struct usage_error *why);
};

/* Read the options in argv[1..] up to the first argument that is none, or past a "--". Returns the index of what
 * follows, or -1 with `why` filled in. Uses getopt's global state: one call at a time. */
int options_parse(const struct option_row *rows, size_t count, int argc, char *const argv[], void *to,
                  struct usage_error *why);

/* The part of a help text that lists the options. */
void options_print(FILE *out, const struct option_row *rows, size_t count);

/* Fill in `why` and return -1. */
int usage_fail(struct usage_error *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Read the value of the option called `option`. Each returns 0, or -1 with `why` filled in. */
int option_duration(const char *option, const char *text, int64_t min_ms, int64_t *ret_ms, struct usage_error *why);
int option_number(const char *option, const char *text, int min, int max, int *ret, struct usage_error *why);

#endif
