/* SPDX-License-Identifier: MIT */
/* refusals.h - what a server's error means for somebody who wants a lock. */
#ifndef REDLATCH_SERVICE_REFUSALS_H
#define REDLATCH_SERVICE_REFUSALS_H

#include <stdbool.h>
#include <stddef.h>

/* Write for a person what the error is about and what helps, and the server's own words behind it in parentheses, as
 * far as they are about more than which script it was. Of an error whose meaning is not known: its words, and the line
 * of our script that it names, if it does. One line; cut as rdl__line does. Returns the length. */
size_t rdl__refusal_text(char *to, size_t cap, const char *error);

/* Is a right missing? Servers say it in several ways, and others where it is a script that is refused. */
bool rdl__refusal_of_rights(const char *error);

/* The error's own words, without which script of ours it was and where in it. Not NUL-terminated. */
const char *rdl__refusal_words(const char *error, size_t *ret_len);

#endif
