/* SPDX-License-Identifier: MIT */
/* table.h - intrusive hash table from a byte string to a struct, chained, growing by itself.
 *
 * When memory for growing is short it stays as it is and chains get longer; only rdl__table_init can fail.
 */
#ifndef REDLATCH_BASE_TABLE_H
#define REDLATCH_BASE_TABLE_H

#include "core/base/mem.h"

#include <stddef.h>
#include <stdint.h>

struct rdl__table_node {
    struct rdl__table_node *next;
    const char *key; /* belongs to the struct around the node */
    uint32_t key_len;
    uint32_t hash; /* the lower half */
};

struct rdl__table {
    const struct rdl__mem *mem;
    struct rdl__table_node **slots;
    size_t slot_count; /* a power of two */
    size_t count;
};

int rdl__table_init(struct rdl__table *table, const struct rdl__mem *mem); /* RDL_OK or RDL_ENOMEM */
void rdl__table_done(struct rdl__table *table); /* frees the slots, not what they point to; a zeroed table is fine */

struct rdl__table_node *rdl__table_find(const struct rdl__table *table, const char *key, size_t key_len);
/* node->key and key_len are set by the caller; the key must not be there yet. */
void rdl__table_add(struct rdl__table *table, struct rdl__table_node *node);
void rdl__table_remove(struct rdl__table *table, struct rdl__table_node *node);
/* Walk: NULL starts, NULL ends. The node given may have been removed by the caller since only if `next` was read
 * before. */
struct rdl__table_node *rdl__table_next(const struct rdl__table *table, const struct rdl__table_node *node);

uint64_t rdl__hash(const void *bytes, size_t len);

#endif
