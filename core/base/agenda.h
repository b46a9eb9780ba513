/* SPDX-License-Identifier: MIT */
/* agenda.h - what is due when, of very many things that are put off again and again. Intrusive: insertion cannot fail.
 *
 * Time is cut into slots. Only what is due in the present one is in a heap; each later slot has an unordered list,
 * which is poured into the heap when it is its turn. So a thing that is put off touches its neighbours in a list, and a
 * heap that is small enough for the cache. In one heap of a million nodes half of what a renewal costs its client would
 * be waiting for memory. What is due later than in the last slot is in the heap as well.
 *
 * A node is in an agenda, or in none: rdl__heap_has. In a list it is its own child. */
#ifndef REDLATCH_BASE_AGENDA_H
#define REDLATCH_BASE_AGENDA_H

#include "core/base/heap.h"

#define RDL__AGENDA_SHIFT 24   /* of ns: 17 ms */
#define RDL__AGENDA_SLOTS 2048 /* 34 s */

struct rdl__agenda {
    struct rdl__heap heap;
    size_t in_slots;                       /* how many nodes are in lists */
    int64_t first;                         /* the number of the first slot that has a list; RDL__AGENDA_SLOTS do */
    uint64_t used[RDL__AGENDA_SLOTS / 64]; /* a bit for each that is not empty */
    struct rdl__heap_node *slot[RDL__AGENDA_SLOTS]; /* by number, modulo */
};

void rdl__agenda_move(struct rdl__agenda *agenda, struct rdl__heap_node *node, int64_t at); /* insert or change */
void rdl__agenda_remove(struct rdl__agenda *agenda, struct rdl__heap_node *node);           /* in none: does nothing */

/* What is due first; NULL: nothing is. */
struct rdl__heap_node *rdl__agenda_min(struct rdl__agenda *agenda);

/* The node after this one (NULL: the first) in no particular order; NULL: it was the last. Nothing must change
 * meanwhile, nor be asked which is due first. */
struct rdl__heap_node *rdl__agenda_next(const struct rdl__agenda *agenda, const struct rdl__heap_node *node);

#endif
