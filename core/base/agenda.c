/* SPDX-License-Identifier: MIT */
#include "core/base/agenda.h"

static int64_t slot_of(int64_t at)
{
    return at >> RDL__AGENDA_SHIFT;
}

static unsigned index_of(int64_t slot)
{
    return (unsigned)((uint64_t)slot % RDL__AGENDA_SLOTS);
}

static bool in_list(const struct rdl__heap_node *node)
{
    return node->child == node;
}

/* The index of the first list from `index` on, around the end, that is not empty. There is one. */
static unsigned next_used(const struct rdl__agenda *agenda, unsigned index)
{
    unsigned word = index / 64;
    uint64_t bits = agenda->used[word] & ~UINT64_C(0) << index % 64;

    while (bits == 0) {
        word = (word + 1) % (RDL__AGENDA_SLOTS / 64);
        bits = agenda->used[word];
    }
    return word * 64 + (unsigned)__builtin_ctzll(bits);
}

static void list_add(struct rdl__agenda *agenda, struct rdl__heap_node *node, int64_t at)
{
    unsigned i = index_of(slot_of(at));

    node->at = at;
    node->child = node->prev = node;
    node->next = agenda->slot[i];
    if (node->next != NULL)
        node->next->prev = node;
    agenda->slot[i] = node;
    agenda->used[i / 64] |= UINT64_C(1) << i % 64;
    agenda->in_slots++;
}

static void list_remove(struct rdl__agenda *agenda, struct rdl__heap_node *node)
{
    unsigned i = index_of(slot_of(node->at));
    bool first = node->prev == node;

    if (node->next != NULL)
        node->next->prev = first ? node->next : node->prev;
    if (!first)
        node->prev->next = node->next;
    else if ((agenda->slot[i] = node->next) == NULL)
        agenda->used[i / 64] &= ~(UINT64_C(1) << i % 64);
    node->child = node->next = node->prev = NULL;
    agenda->in_slots--;
}

/* Put all that is due in this slot, the first that is not empty, into the heap; the lists begin behind it. */
static void pour(struct rdl__agenda *agenda, int64_t slot)
{
    struct rdl__heap_node *node = agenda->slot[index_of(slot)], *next;

    for (; node != NULL; node = next) {
        int64_t at = node->at;

        next = node->next;
        list_remove(agenda, node);
        rdl__heap_insert(&agenda->heap, node, at);
    }
    agenda->first = slot + 1;
}

void rdl__agenda_remove(struct rdl__agenda *agenda, struct rdl__heap_node *node)
{
    if (in_list(node))
        list_remove(agenda, node);
    else
        rdl__heap_remove(&agenda->heap, node);
}

void rdl__agenda_move(struct rdl__agenda *agenda, struct rdl__heap_node *node, int64_t at)
{
    const struct rdl__heap_node *min;
    int64_t slot = slot_of(at);

    rdl__agenda_remove(agenda, node);
    min = rdl__heap_min(&agenda->heap);
    if (agenda->in_slots == 0 && min != NULL)
        agenda->first = slot_of(min->at) + 1; /* the lists begin behind what is due first, wherever that has got to */
    if (min != NULL && slot >= agenda->first && slot - agenda->first < RDL__AGENDA_SLOTS)
        list_add(agenda, node, at);
    else
        rdl__heap_insert(&agenda->heap, node, at);
}

struct rdl__heap_node *rdl__agenda_min(struct rdl__agenda *agenda)
{
    while (agenda->in_slots > 0) {
        const struct rdl__heap_node *min = rdl__heap_min(&agenda->heap);
        unsigned from = index_of(agenda->first), ahead = (next_used(agenda, from) - from) % RDL__AGENDA_SLOTS;
        int64_t slot = agenda->first + ahead;

        if (min != NULL && slot_of(min->at) < slot)
            break;
        pour(agenda, slot);
    }
    return rdl__heap_min(&agenda->heap);
}

struct rdl__heap_node *rdl__agenda_next(const struct rdl__agenda *agenda, const struct rdl__heap_node *node)
{
    struct rdl__heap_node *next;
    unsigned i = 0;

    if (node == NULL) {
        next = rdl__heap_min(&agenda->heap);
    } else if (in_list(node)) {
        next = node->next;
        i = index_of(slot_of(node->at)) + 1;
    } else {
        next = rdl__heap_next(node);
    }
    for (; next == NULL && i < RDL__AGENDA_SLOTS; i++)
        next = agenda->slot[i];
    return next;
}
