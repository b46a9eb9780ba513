/* SPDX-License-Identifier: MIT */
/* subcommand.h - what `redlatch WORD` can be. The table is in main.c. */
#ifndef REDLATCH_TOOL_SUBCOMMAND_H
#define REDLATCH_TOOL_SUBCOMMAND_H

#include "tools/redlatch/options.h"

#include <stdio.h>

struct subcommand {
    const char *name;
    const char *summary;                /* one line, for the list of subcommands */
    int (*main)(int argc, char **argv); /* argv[0] is the subcommand's name; returns the exit status */
    void (*help)(FILE *out);            /* NULL, as main: it is a program of its own (apart.h) */
};

/* What a program does first: see that no socket of ours becomes a descriptor 0, 1 or 2. */
void subcommand_begin(void);

/* Print `help` to stdout. Returns the exit status. */
int subcommand_print(void (*help)(FILE *out));

/* Print what was asked for to stdout: `help`, or the version. Returns the exit status. */
int subcommand_asked(enum asked asked, void (*help)(FILE *out));

/* What was printed to stdout is written now. Returns `status`; or, where it cannot be written, EXITCODE_TROUBLE, and it
 * was said why; where nobody reads any more, quietly, what a shell says of SIGPIPE. */
int subcommand_written(int status);

/* Say what is wrong with the command line of `subcommand` (NULL: of redlatch itself), and where help is. Returns the
 * exit status. */
int subcommand_misused(const char *subcommand, const struct usage_error *why);

extern const struct subcommand subcommand_doctor;
extern const struct subcommand subcommand_ls;
extern const struct subcommand subcommand_run;
extern const struct subcommand subcommand_show;
extern const struct subcommand subcommand_top;
extern const struct subcommand subcommand_unlock;
extern const struct subcommand subcommand_wait;

#endif
