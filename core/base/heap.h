/* SPDX-License-Identifier: MIT */
/* heap.h - intrusive pairing heap ordered by a time. Insertion cannot fail: no memory is asked for.
 *
 * Ties are broken by insertion order only by chance; do not rely on it.
 */
#ifndef REDLATCH_BASE_HEAP_H
#define REDLATCH_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdl__heap_node {
    struct rdl__heap_node *child; /* first child */
    struct rdl__heap_node *next;  /* next sibling */
    struct rdl__heap_node
        *prev; /* previous sibling; of a first child: its parent; of the root: itself; NULL: in no heap */
    int64_t at;
};

struct rdl__heap {
    struct rdl__heap_node *root;
    size_t count;
};

void rdl__heap_insert(struct rdl__heap *heap, struct rdl__heap_node *node, int64_t at); /* node must be in no heap */
void rdl__heap_remove(struct rdl__heap *heap, struct rdl__heap_node *node);             /* in no heap: does nothing */
void rdl__heap_move(struct rdl__heap *heap, struct rdl__heap_node *node, int64_t at);   /* insert or change */

static inline bool rdl__heap_has(const struct rdl__heap_node *node)
{
    return node->prev != NULL;
}

static inline struct rdl__heap_node *rdl__heap_min(const struct rdl__heap *heap)
{
    return heap->root;
}

/* The node after this one in no particular order, beginning with the first; NULL: it was the last. The heap must not
 * change meanwhile. */
struct rdl__heap_node *rdl__heap_next(const struct rdl__heap_node *node);

#endif
