/* SPDX-License-Identifier: MIT */
/* table.c - intrusive chained hash table.
 *
 * A node keeps its hash, so growing and walking never read a key. The table doubles when it has a node per slot; when
 * there is no memory for that, it is tried again at the next addition. It never shrinks: a program that once held a
 * number of locks is likely to do so again. */
#include "core/base/table.h"

#include <redlatch/error.h>
#include <stdbool.h>
#include <string.h>

enum { FIRST_SLOTS = 16 };

/* Eight bytes a step. Each step is a bijection of the state for given bytes and of the bytes for a given state, so
 * two keys of one length that differ in one word never meet before the end. Not meant to withstand keys chosen to
 * collide: names are the program's own. */
uint64_t rdl__hash(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ len;

    for (size_t left = len; left != 0;) {
        size_t step = left < sizeof h ? left : sizeof h;
        uint64_t word = 0;

        memcpy(&word, at, step);
        h = (h ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
        h ^= h >> 32;
        at += step;
        left -= step;
    }
    h *= UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

static size_t slot_bytes(size_t slot_count)
{
    return slot_count * sizeof(struct rdl__table_node *);
}

static struct rdl__table_node **slot_of(const struct rdl__table *table, uint32_t hash)
{
    return &table->slots[hash & (table->slot_count - 1)];
}

static void push(struct rdl__table *table, struct rdl__table_node *node)
{
    struct rdl__table_node **slot = slot_of(table, node->hash);

    node->next = *slot;
    *slot = node;
}

int rdl__table_init(struct rdl__table *table, const struct rdl__mem *mem)
{
    struct rdl__table_node **slots = rdl__zalloc(mem, slot_bytes(FIRST_SLOTS));

    *table = (struct rdl__table){.mem = mem, .slots = slots, .slot_count = slots != NULL ? FIRST_SLOTS : 0};
    return slots != NULL ? RDL_OK : RDL_ENOMEM;
}

void rdl__table_done(struct rdl__table *table)
{
    rdl__free(table->mem, table->slots, slot_bytes(table->slot_count));
    *table = (struct rdl__table){0};
}

static bool is_key(const struct rdl__table_node *node, uint32_t hash, const char *key, size_t key_len)
{
    return node->hash == hash && node->key_len == key_len && (key_len == 0 || memcmp(node->key, key, key_len) == 0);
}

struct rdl__table_node *rdl__table_find(const struct rdl__table *table, const char *key, size_t key_len)
{
    uint32_t hash;
    struct rdl__table_node *node;

    if (table->count == 0)
        return NULL;
    hash = (uint32_t)rdl__hash(key, key_len);
    node = *slot_of(table, hash);
    while (node != NULL && !is_key(node, hash, key, key_len))
        node = node->next;
    return node;
}

static void grow(struct rdl__table *table)
{
    struct rdl__table old = *table;
    struct rdl__table_node **slots = rdl__zalloc(table->mem, slot_bytes(old.slot_count * 2));

    if (slots == NULL)
        return;
    table->slots = slots;
    table->slot_count = old.slot_count * 2;
    for (size_t i = 0; i < old.slot_count; i++) {
        for (struct rdl__table_node *node = old.slots[i], *next; node != NULL; node = next) {
            next = node->next;
            push(table, node);
        }
    }
    rdl__free(old.mem, old.slots, slot_bytes(old.slot_count));
}

void rdl__table_add(struct rdl__table *table, struct rdl__table_node *node)
{
    if (table->count >= table->slot_count)
        grow(table);
    node->hash = (uint32_t)rdl__hash(node->key, node->key_len);
    push(table, node);
    table->count++;
}

void rdl__table_remove(struct rdl__table *table, struct rdl__table_node *node)
{
    struct rdl__table_node **at = slot_of(table, node->hash);

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    table->count--;
}

struct rdl__table_node *rdl__table_next(const struct rdl__table *table, const struct rdl__table_node *node)
{
    size_t i = 0;

    if (node != NULL) {
        if (node->next != NULL)
            return node->next;
        i = (size_t)(node->hash & (table->slot_count - 1)) + 1;
    }
    while (i < table->slot_count && table->slots[i] == NULL)
        i++;
    return i < table->slot_count ? table->slots[i] : NULL;
}
