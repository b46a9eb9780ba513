/* SPDX-License-Identifier: MIT */
/* apart.h - subcommands that are programs of their own, so that `redlatch run` does not load their libraries.
 *
 * Such a program is PREFIX/libexec/redlatch/redlatch-NAME, found from where the command itself is: bin/redlatch and
 * libexec/redlatch are in one folder. docs/decisions.md says which subcommands have one. */
#ifndef REDLATCH_TOOL_APART_H
#define REDLATCH_TOOL_APART_H

/* Become the program of the subcommand `name`, with argv[1] and so on. Returns only if that fails: the exit status, and
 * it was said why. */
int apart_execute(const char *name, char *const argv[]);

/* Likewise, to have it print its help. */
int apart_help(const char *name);

#endif
