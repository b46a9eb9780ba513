/* SPDX-License-Identifier: MIT */
/* nearest.h - which of some words was meant by one that is misspelt. */
#ifndef REDLATCH_TOOL_NEAREST_H
#define REDLATCH_TOOL_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *word; /* NULL: none is near */
    size_t slips;
};

/* Is `candidate` nearer to what was typed than what is there already? A letter that is missing, too many, wrong, or
 * swapped with the next is a slip; one in three letters may be. Upper case is none. */
void nearest_try(struct nearest *n, const char *typed, const char *candidate);

#endif
