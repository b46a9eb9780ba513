/* SPDX-License-Identifier: MIT */
/* top_model.h - what `redlatch top` knows of locks: how each was when it was last looked at, how often it has changed
 * hands, and in which order they are shown.
 *
 * Pure: no terminal, no server, no clock. Times are the caller's, in ms by a clock that only goes on. One thread at a
 * time: whoever shares a model locks it.
 *
 * A lock that is found free stays for a while, as free, so that one that is taken again and again does not flicker. */
#ifndef REDLATCH_TOOL_TOP_MODEL_H
#define REDLATCH_TOOL_TOP_MODEL_H

#include <redlatch/inspect.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_FREE_MS 10000   /* so long a lock that has become free is shown */
#define TOP_LATELY_MS 10000 /* changes of holder per second are those of about so long */
#define TOP_PATTERN_ROOM 64

struct top_model;

/* As it was when it was last looked at. */
struct top_lock {
    const char *type, *state;  /* static */
    int64_t holders, waiters;  /* waiters -1: not known */
    int64_t since_ms, left_ms; /* -1: not known, no end */
    double changes;            /* of holder, per second, as seen: one at most between two looks */
    int64_t there_ms;          /* it was last held, or was there at all */
    int64_t looked_ms;
    uint64_t who;    /* tells who held it last; 0: nobody did */
    char holder[64]; /* as a table says it */
    uint64_t hash;
    struct top_lock *next; /* of those with about the same hash */
    size_t name_len;
    char name[]; /* and a NUL */
};

enum top_order {
    TOP_BY_WAITERS, /* the most contended first: who wait, then changes, then holders */
    TOP_BY_CHANGES,
    TOP_BY_HOLDERS,
    TOP_BY_SINCE, /* the longest hold first */
    TOP_BY_LEFT,  /* the lease that ends first */
    TOP_BY_NAME,
    TOP_ORDERS
};

struct top_view {
    enum top_order order;
    bool reverse;
    char pattern[TOP_PATTERN_ROOM]; /* as in a shell; without *, ? and [ it is a part of the name; "": all */
};

struct top_count {
    size_t locks, held, waited_for;
    int64_t waiters;
};

struct top_model *top_model_new(void); /* NULL: no memory */
struct top_model *top_model_free(struct top_model *m);

/* A look at a lock; what is free and was not known stays unknown. False: no memory. */
bool top_model_note(struct top_model *m, const rdl_inspection_t *found, int64_t now_ms);

/* Forget those that nobody has looked at since `since_ms`, which a whole walk would have found, and those that were
 * free for long when they were. */
void top_model_sweep(struct top_model *m, int64_t since_ms);

/* Those that match, in order. The list is the model's, and good until its next call. Returns how many. */
size_t top_model_view(struct top_model *m, const struct top_view *view, struct top_lock *const **ret_locks);

/* All of them. */
struct top_count top_model_count(const struct top_model *m);

#endif
