/* SPDX-License-Identifier: MIT */
#include "tests/script/numbered.h"
#include "tests/script/keyspace.h"
#include "tests/support/wait.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024 /* a power of two */

const char *numbered_get(const struct numbered *all, uint32_t number, size_t *ret_len)
{
    size_t begins = number == 0 ? 0 : all->ends[number - 1];

    *ret_len = all->ends[number] - begins;
    return all->bytes.at + begins;
}

static uint32_t *slot_of(const struct numbered *all, const void *at, size_t len)
{
    size_t slot = (size_t)ks_hash(at, len) & (all->slot_count - 1), had_len;

    for (;; slot = (slot + 1) & (all->slot_count - 1)) {
        const char *had;

        if (all->slots[slot] == 0)
            return &all->slots[slot];
        had = numbered_get(all, all->slots[slot] - 1, &had_len);
        if (had_len == len && memcmp(had, at, len) == 0)
            return &all->slots[slot];
    }
}

static void grow_slots(struct numbered *all)
{
    free(all->slots);
    all->slot_count = all->slot_count == 0 ? FIRST_SLOTS : all->slot_count * 2;
    all->slots = must_alloc(all->slot_count * sizeof *all->slots);
    for (uint32_t i = 0; i < all->count; i++) {
        size_t len;
        const char *at = numbered_get(all, i, &len);

        *slot_of(all, at, len) = i + 1;
    }
}

uint32_t numbered_add(struct numbered *all, const void *at, size_t len)
{
    uint32_t *slot;

    if (all->count * 2 >= all->slot_count)
        grow_slots(all);
    if (*(slot = slot_of(all, at, len)) != 0)
        return *slot - 1;
    if (all->count == all->cap) {
        all->cap = all->cap == 0 ? FIRST_SLOTS : all->cap * 2;
        all->ends = must_realloc(all->ends, all->cap * sizeof *all->ends);
    }
    bytes_add(&all->bytes, at, len);
    all->ends[all->count] = all->bytes.len;
    *slot = ++all->count;
    return all->count - 1;
}

void numbered_done(struct numbered *all)
{
    bytes_done(&all->bytes);
    free(all->ends);
    free(all->slots);
    *all = (struct numbered){0};
}
