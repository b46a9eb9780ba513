/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/top_model.h"

#include "tools/redlatch/shown.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct top_model {
    struct top_lock **buckets; /* a power of two */
    size_t cap, count;
    struct top_lock **list; /* the last view: room for `room` */
    size_t room;
};

struct top_model *top_model_new(void)
{
    struct top_model *m = calloc(1, sizeof *m);

    if (m == NULL || (m->buckets = calloc(1024, sizeof *m->buckets)) == NULL) {
        free(m);
        return NULL;
    }
    m->cap = 1024;
    return m;
}

struct top_model *top_model_free(struct top_model *m)
{
    if (m == NULL)
        return NULL;
    for (size_t i = 0; i < m->cap; i++)
        while (m->buckets[i] != NULL) {
            struct top_lock *lock = m->buckets[i];

            m->buckets[i] = lock->next;
            free(lock);
        }
    free(m->buckets);
    free(m->list);
    free(m);
    return NULL;
}

/* ---- by name ---------------------------------------------------------------------------------------------------- */

/* FNV-1a; never 0. */
static uint64_t hash_of(const char *bytes, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash != 0 ? hash : 1;
}

static struct top_lock **place_of(const struct top_model *m, uint64_t hash, const char *name, size_t len)
{
    struct top_lock **at = &m->buckets[hash & (m->cap - 1)];

    while (*at != NULL && ((*at)->hash != hash || (*at)->name_len != len || memcmp((*at)->name, name, len) != 0))
        at = &(*at)->next;
    return at;
}

/* Without memory it stays as it is, and becomes slow. */
static void grow(struct top_model *m)
{
    size_t cap = 2 * m->cap;
    struct top_lock **more = calloc(cap, sizeof *more);

    if (more == NULL)
        return;
    for (size_t i = 0; i < m->cap; i++)
        while (m->buckets[i] != NULL) {
            struct top_lock *lock = m->buckets[i];

            m->buckets[i] = lock->next;
            lock->next = more[lock->hash & (cap - 1)];
            more[lock->hash & (cap - 1)] = lock;
        }
    free(m->buckets);
    m->buckets = more;
    m->cap = cap;
}

static struct top_lock *add(struct top_model *m, uint64_t hash, const rdl_inspection_t *found)
{
    struct top_lock *lock = calloc(1, sizeof *lock + found->name_len + 1), **at;

    if (lock == NULL)
        return NULL;
    if (m->count >= m->cap)
        grow(m);
    at = &m->buckets[hash & (m->cap - 1)];
    lock->hash = hash;
    lock->name_len = found->name_len;
    memcpy(lock->name, found->name, found->name_len);
    lock->next = *at;
    *at = lock;
    m->count++;
    return lock;
}

/* ---- what was seen ---------------------------------------------------------------------------------------------- */

/* In whatever order they are listed. */
static uint64_t who_hold(const rdl_inspection_t *found)
{
    uint64_t who = 0;

    for (size_t i = 0; i < found->holder_count; i++)
        who += hash_of(found->holder[i].owner, strlen(found->holder[i].owner));
    return who;
}

bool top_model_note(struct top_model *m, const rdl_inspection_t *found, int64_t now_ms)
{
    uint64_t hash = hash_of(found->name, found->name_len), who = who_hold(found);
    struct top_lock *lock = *place_of(m, hash, found->name, found->name_len);
    bool there = strcmp(found->type, "none") != 0 && strcmp(found->state, "free") != 0, known = lock != NULL, changed;
    char holder[SHOWN_HOLDER_ROOM];

    there = there || found->number > 0;
    if (!known && !there && found->waiters <= 0)
        return true;
    if (!known && (lock = add(m, hash, found)) == NULL)
        return false;
    changed = known && who != 0 && lock->who != 0 && who != lock->who;
    if (known && now_ms > lock->looked_ms)
        lock->changes =
            (lock->changes * TOP_LATELY_MS + (changed ? 1000 : 0)) / (double)(TOP_LATELY_MS + now_ms - lock->looked_ms);
    if (!known || strcmp(found->type, "none") != 0)
        lock->type = found->type;
    lock->state = found->state;
    lock->holders = found->holders;
    lock->waiters = found->waiters;
    lock->since_ms = shown_since(found);
    lock->left_ms = found->ttl_ms;
    lock->who = who != 0 ? who : lock->who;
    lock->there_ms = there || found->waiters > 0 || !known ? now_ms : lock->there_ms;
    lock->looked_ms = now_ms;
    (void)snprintf(lock->holder, sizeof lock->holder, "%s", shown_holders(found, holder));
    return true;
}

void top_model_sweep(struct top_model *m, int64_t since_ms)
{
    for (size_t i = 0; i < m->cap; i++)
        for (struct top_lock **at = &m->buckets[i]; *at != NULL;) {
            struct top_lock *lock = *at;

            if (lock->looked_ms >= since_ms && lock->looked_ms - lock->there_ms <= TOP_FREE_MS) {
                at = &lock->next;
                continue;
            }
            *at = lock->next;
            free(lock);
            m->count--;
        }
}

/* ---- what is shown ---------------------------------------------------------------------------------------------- */

static int by_name(const struct top_lock *a, const struct top_lock *b)
{
    int c = memcmp(a->name, b->name, a->name_len < b->name_len ? a->name_len : b->name_len);

    return c != 0 ? c : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int most(double a, double b)
{
    return (a < b) - (a > b);
}

/* What has no end, or is not known, comes last. */
static int least_known(int64_t a, int64_t b)
{
    return (a < 0) != (b < 0) ? (a < 0) - (b < 0) : (a > b) - (a < b);
}

static int contended(const struct top_lock *a, const struct top_lock *b)
{
    int c = most((double)a->waiters, (double)b->waiters);

    c = c != 0 ? c : most(a->changes, b->changes);
    return c != 0 ? c : most((double)a->holders, (double)b->holders);
}

static int in_order(const void *left, const void *right, void *arg)
{
    const struct top_lock *a = *(struct top_lock *const *)left, *b = *(struct top_lock *const *)right;
    const struct top_view *view = arg;
    int c = 0;

    switch (view->order) {
    case TOP_BY_WAITERS:
        c = contended(a, b);
        break;
    case TOP_BY_CHANGES:
        c = most(a->changes, b->changes);
        break;
    case TOP_BY_HOLDERS:
        c = most((double)a->holders, (double)b->holders);
        break;
    case TOP_BY_SINCE:
        c = most((double)a->since_ms, (double)b->since_ms);
        break;
    case TOP_BY_LEFT:
        c = least_known(a->left_ms, b->left_ms);
        break;
    case TOP_BY_NAME:
    case TOP_ORDERS:
        break;
    }
    c = c != 0 ? c : by_name(a, b);
    return view->reverse ? -c : c;
}

static bool matches(const struct top_view *view, const struct top_lock *lock)
{
    if (view->pattern[0] == '\0')
        return true;
    if (strpbrk(view->pattern, "*?[") == NULL)
        return memmem(lock->name, lock->name_len, view->pattern, strlen(view->pattern)) != NULL;
    return fnmatch(view->pattern, lock->name, 0) == 0;
}

size_t top_model_view(struct top_model *m, const struct top_view *view, struct top_lock *const **ret_locks)
{
    size_t n = 0;

    if (m->room < m->count) {
        struct top_lock **more = realloc(m->list, m->cap * sizeof *more);

        m->list = more != NULL ? more : m->list;
        m->room = more != NULL ? m->cap : m->room;
    }
    for (size_t i = 0; i < m->cap; i++)
        for (struct top_lock *lock = m->buckets[i]; lock != NULL && n < m->room; lock = lock->next)
            if (matches(view, lock))
                m->list[n++] = lock;
    if (n > 0)
        qsort_r(m->list, n, sizeof *m->list, in_order, (void *)view);
    *ret_locks = m->list;
    return n;
}

struct top_count top_model_count(const struct top_model *m)
{
    struct top_count count = {.locks = m->count};

    for (size_t i = 0; i < m->cap; i++)
        for (const struct top_lock *lock = m->buckets[i]; lock != NULL; lock = lock->next) {
            count.held += lock->holders > 0;
            count.waited_for += lock->waiters > 0;
            count.waiters += lock->waiters > 0 ? lock->waiters : 0;
        }
    return count;
}
