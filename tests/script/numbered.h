/* SPDX-License-Identifier: MIT */
/* numbered.h - byte strings that come up again and again in a search, numbered, so that a state has their numbers. */
#ifndef TESTS_SCRIPT_NUMBERED_H
#define TESTS_SCRIPT_NUMBERED_H

#include "tests/support/resp.h"

#include <stddef.h>
#include <stdint.h>

/* A zeroed one is empty. */
struct numbered {
    struct bytes bytes; /* one after the other */
    size_t *ends;       /* where each ends */
    uint32_t count, cap;
    uint32_t *slots; /* by hash: number + 1, or 0 */
    size_t slot_count;
};

/* The number of these bytes, from 0 on: the same for the same bytes. */
uint32_t numbered_add(struct numbered *all, const void *at, size_t len);
const char *numbered_get(const struct numbered *all, uint32_t number, size_t *ret_len);
void numbered_done(struct numbered *all);

#endif
