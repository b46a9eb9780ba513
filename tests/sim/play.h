/* SPDX-License-Identifier: MIT */
/* play.h - what a random run is about: what there is, who plays with it, and what must hold then. All the rest of a run
 * (the world, the apps, the faults, the ending) is plan.c's. To add one: a file like plan_pools.c, and a word in sim.c.
 */
#ifndef TESTS_SIM_PLAY_H
#define TESTS_SIM_PLAY_H

#include "tests/sim/cast.h"
#include "tests/sim/checks.h"
#include "tests/sim/mishaps.h"

struct play {
    const struct check *const *checks;
    void (*draw)(void);               /* what there is; once the world is there */
    struct fibre *(*stranger)(void);  /* somebody who does not use the library, or NULL */
    void (*act)(struct actor *actor); /* all that the actor does, to its leaving */
    bool counts_undone;               /* its checks at rest want every undo to have been carried out */
    bool lasting;                     /* some holds are for long */
    const struct fault *faults;       /* half of a run's are of these; NULL: none */
    size_t fault_count;
};

extern const struct play lock_play;   /* plan.c */
extern const struct play pool_play;   /* plan_pools.c */
extern const struct play outage_play; /* plan_outage.c */

void act_on_locks(struct actor *actor);
struct fibre *start_stranger(void);

bool goes_on(const struct actor *actor);

/* Cancels the actor's calls from outside, at some moment of the next ms. */
struct cancellation {
    struct event event;
    struct actor *actor;
};

void cancellation_begin(struct cancellation *c, struct actor *actor);
void cancellation_end(struct cancellation *c);

#endif
