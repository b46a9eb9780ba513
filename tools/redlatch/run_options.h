/* run_options.h - the command line of `redlatch run`, as data.
 *
 *   run [options] NAME [--] COMMAND [ARG...]
 *   run [options] NAME -c 'SHELL COMMAND'
 *
 * Pure: nothing is printed, no environment is read, nothing is allocated. All strings point into argv. */
#ifndef REDLATCH_TOOL_RUN_OPTIONS_H
#define REDLATCH_TOOL_RUN_OPTIONS_H

#include "tools/redlatch/locktype.h"
#include "tools/redlatch/options.h"

#include <stdbool.h>

struct run_options {
    bool help;            /* asked for; then nothing else is set or checked */
    const char *name;     /* 1 to RDL_NAME_MAX bytes */
    char *const *command; /* ended by NULL, at least one; NULL with `shell` */
    const char *shell;    /* a line for /bin/sh -c; NULL with `command` */
    char *server;         /* --server; NULL when not given */
    const struct lock_type *type;
    int64_t wait_ms;     /* 0: ask once; RDL_WAIT_FOREVER */
    int64_t lease_ms;    /* 0: the library's own */
    int64_t max_hold_ms; /* 0: no bound */
    int64_t grace_ms;
    int conflict_code;
    bool nonblock; /* -n was given */
    bool wait;     /* -w was given */
    bool verbose;
};

/* Returns 0, or -1 with `why` filled in. argv[0] is the subcommand's name. */
int run_options_parse(int argc, char *const argv[], struct run_options *ret, struct usage_error *why);

/* The options' part of the help. */
void run_options_print(FILE *out);

#endif
