/* SPDX-License-Identifier: MIT */
/* reserve.h - blocks of one size, set aside for when there is no memory. Not locked.
 *
 * Blocks lie on a stack by their first bytes. */
#ifndef REDLATCH_BASE_RESERVE_H
#define REDLATCH_BASE_RESERVE_H

#include "core/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct rdl__reserve {
    void *top;
    int64_t n;
};

/* See that there are `n` at least, of `size` bytes each. False: no memory. */
bool rdl__reserve_fill(struct rdl__reserve *r, const struct rdl__mem *mem, size_t size, int64_t n);
void *rdl__reserve_take(struct rdl__reserve *r); /* uninitialised; NULL: none is left */
void rdl__reserve_done(struct rdl__reserve *r, const struct rdl__mem *mem, size_t size);

#endif
