/* SPDX-License-Identifier: MIT */
/* heap.c - pairing heap.
 *
 * A node's children form a list; every child is due no earlier than its parent. Two heaps are melded by making the
 * later root the first child of the earlier one: insertion and moving forward in time's order cost that one step.
 * Removal melds the orphaned children in pairs from left to right and then the pairs from right to left, which is what
 * bounds the amortised cost by the logarithm; both passes are loops, for a heap may be a list of 100,000 siblings.
 *
 * The root's prev is itself, so that `prev == NULL` alone means "in no heap". */
#include "core/base/heap.h"

/* Both are roots. Of equals `a` stays on top. */
static struct rdl__heap_node *meld(struct rdl__heap_node *a, struct rdl__heap_node *b)
{
    struct rdl__heap_node *top = b->at < a->at ? b : a;
    struct rdl__heap_node *sub = top == a ? b : a;

    sub->prev = top;
    sub->next = top->child;
    if (sub->next != NULL)
        sub->next->prev = sub;
    top->child = sub;
    return top;
}

/* Make one tree of a list of siblings; NULL of none. The result's next and prev are for the caller to set. */
static struct rdl__heap_node *meld_siblings(struct rdl__heap_node *first)
{
    struct rdl__heap_node *pairs = NULL; /* a stack, linked by next */
    struct rdl__heap_node *tree;

    while (first != NULL) {
        struct rdl__heap_node *a = first;
        struct rdl__heap_node *b = a->next;

        first = b != NULL ? b->next : NULL;
        tree = b != NULL ? meld(a, b) : a;
        tree->next = pairs;
        pairs = tree;
    }
    if ((tree = pairs) == NULL)
        return NULL;
    pairs = tree->next;
    while (pairs != NULL) {
        struct rdl__heap_node *rest = pairs->next;

        tree = meld(tree, pairs);
        pairs = rest;
    }
    return tree;
}

/* Put a tree that has no parent beside the heap's. */
static void add_tree(struct rdl__heap *heap, struct rdl__heap_node *tree)
{
    if (tree == NULL)
        return;
    heap->root = heap->root != NULL ? meld(heap->root, tree) : tree;
    heap->root->prev = heap->root;
    heap->root->next = NULL;
}

/* Take the tree under `node` out of the heap, children and all. */
static void cut_tree(struct rdl__heap *heap, struct rdl__heap_node *node)
{
    if (node == heap->root) {
        heap->root = NULL;
        return;
    }
    if (node->prev->child == node)
        node->prev->child = node->next;
    else
        node->prev->next = node->next;
    if (node->next != NULL)
        node->next->prev = node->prev;
}

void rdl__heap_insert(struct rdl__heap *heap, struct rdl__heap_node *node, int64_t at)
{
    node->child = NULL;
    node->at = at;
    add_tree(heap, node);
    heap->count++;
}

void rdl__heap_remove(struct rdl__heap *heap, struct rdl__heap_node *node)
{
    if (!rdl__heap_has(node))
        return;
    cut_tree(heap, node);
    add_tree(heap, meld_siblings(node->child));
    node->child = node->next = node->prev = NULL;
    heap->count--;
}

void rdl__heap_move(struct rdl__heap *heap, struct rdl__heap_node *node, int64_t at)
{
    if (rdl__heap_has(node) && at <= node->at) { /* its children are still due no earlier: they come along */
        cut_tree(heap, node);
        node->at = at;
        add_tree(heap, node);
    } else {
        rdl__heap_remove(heap, node);
        rdl__heap_insert(heap, node, at);
    }
}

struct rdl__heap_node *rdl__heap_next(const struct rdl__heap_node *node)
{
    if (node->child != NULL)
        return node->child;
    while (node->prev != node) {
        if (node->next != NULL)
            return node->next;
        while (node->prev->child != node) /* back to the first child, who knows the parent */
            node = node->prev;
        node = node->prev;
    }
    return NULL;
}
