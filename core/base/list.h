/* SPDX-License-Identifier: MIT */
/* list.h - intrusive doubly linked list. A link that is on no list points to itself. */
#ifndef REDLATCH_BASE_LIST_H
#define REDLATCH_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct rdl__link {
    struct rdl__link *next;
    struct rdl__link *prev;
};

#define rdl__container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void rdl__list_init(struct rdl__link *l)
{
    l->next = l->prev = l;
}

static inline bool rdl__list_empty(const struct rdl__link *head)
{
    return head->next == head;
}

/* For a link rather than a head: is it on a list? */
static inline bool rdl__link_on(const struct rdl__link *l)
{
    return l->next != l;
}

static inline void rdl__list_insert_before(struct rdl__link *at, struct rdl__link *l)
{
    l->prev = at->prev;
    l->next = at;
    at->prev->next = l;
    at->prev = l;
}

static inline void rdl__list_push_back(struct rdl__link *head, struct rdl__link *l)
{
    rdl__list_insert_before(head, l);
}

static inline void rdl__list_push_front(struct rdl__link *head, struct rdl__link *l)
{
    rdl__list_insert_before(head->next, l);
}

static inline void rdl__list_remove(struct rdl__link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    rdl__list_init(l);
}

static inline struct rdl__link *rdl__list_first(const struct rdl__link *head)
{
    return rdl__list_empty(head) ? NULL : head->next;
}

static inline struct rdl__link *rdl__list_pop(struct rdl__link *head)
{
    struct rdl__link *l = rdl__list_first(head);

    if (l != NULL)
        rdl__list_remove(l);
    return l;
}

/* Move everything on `from` to the front of `to`, keeping the order. */
static inline void rdl__list_splice_front(struct rdl__link *to, struct rdl__link *from)
{
    if (rdl__list_empty(from))
        return;
    from->prev->next = to->next;
    to->next->prev = from->prev;
    to->next = from->next;
    from->next->prev = to;
    rdl__list_init(from);
}

#endif
