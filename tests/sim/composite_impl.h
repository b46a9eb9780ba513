/* SPDX-License-Identifier: MIT */
/* composite_impl.h - one run of composite locks, for composite.c, which makes it, and composite_checks.c, which judges
 * it. */
#ifndef TESTS_SIM_COMPOSITE_IMPL_H
#define TESTS_SIM_COMPOSITE_IMPL_H

#include "tests/sim/server.h"
#include "tests/sim/world.h"

#include <redlatch/redlatch.h>

#define MOST_PARTIES 3
#define MOST_CALLERS 3 /* of a party */
#define MOST_NAMES 3
#define MOST_LOCKS 3
#define MOST_FAULTS 5
#define SPAN_NS (300 * RDL__MS) /* when faults happen */
#define LONGEST_LEASE_MS 3000
#define LONGEST_PAUSE_MS 60
#define UNASKED_PAUSE_MS 200000
#define SPREAD_ROUNDS 16 /* locks/composite/red.c */
#define NODE_MS 40
#define CLOCK_BASE (1000 * RDL__SEC)

/* A composite: of these names, in this order. */
struct set {
    unsigned count;
    unsigned name[MOST_NAMES];
};

/* Name 1 is in all of them, so that an owner of its client may act in all. */
static const struct set sets[MOST_LOCKS] = {{2, {1, 0}}, {2, {2, 1}}, {3, {2, 0, 1}}};
static const char *const names[MOST_NAMES] = {"x", "y", "z"};

struct party {
    struct process process;
    rdl_client_t *client[MOST_SERVERS];
    rdl_lock_t *member[MOST_SERVERS];
    rdl_lock_t *lock[MOST_LOCKS];
    bool ending, dead;
};

struct caller {
    char name[8];
    struct party *party;
    rdl_owner_t *owner; /* NULL: the thread, by blocking verbs */
    size_t lock;        /* which it holds, or asks for */
    int64_t count;      /* takes granted, less unlocks called */
    bool waits;         /* a take is under way that may wait as long as it takes */

    /* of the call under way */
    struct fibre *waiter;
    const struct fibre *starter; /* who has not returned from the call; NULL: it has */
    bool answered;
    unsigned answers;
    int64_t result;
};

struct composite_run {
    rdl_client_options_t options;
    bool red;
    bool calm;    /* nothing goes wrong in this run, or any more */
    bool unasked; /* nobody looks by itself within the run: what is released has to be heard of */
    unsigned servers;
    size_t lock_count, party_count, caller_count;
    struct party parties[MOST_PARTIES];
    struct caller callers[MOST_PARTIES * MOST_CALLERS];
    int64_t free_since; /* no name is taken at any server; -1: one is, or nobody waits */
    int64_t operations;
};

extern struct composite_run composite;

bool composite_believes(const struct caller *caller); /* that it holds */
void composite_on_event(void);                        /* look at all after each event */
void composite_check_nothing_left(const char *when);

#endif
