/* SPDX-License-Identifier: MIT */
/* scripts.h - saying a script to the server. */
#ifndef REDLATCH_SERVICE_SCRIPTS_H
#define REDLATCH_SERVICE_SCRIPTS_H

#include "core/wire/buf.h"

/* Begin EVALSHA (eval: EVAL with the text, which also makes the server remember it) of a script with `keys` keys and
 * `args` arguments, which the caller appends. */
void rdl__script_begin(struct rdl__buf *to, int script, bool eval, size_t keys, size_t args);

/* Append the same request with the text in place of the hash; `call` is a whole one that was begun with EVALSHA. */
void rdl__script_with_text(struct rdl__buf *to, int script, const char *call, size_t len);

/* Append SCRIPT LOAD for every script of the greeting. Returns their number. */
unsigned rdl__scripts_load(struct rdl__buf *to);

/* The line of a script of ours that a server's error is about, if it names script and line; NULL: it does not. Not
 * NUL-terminated. */
const char *rdl__script_line(const char *error, size_t *ret_len);

#endif
