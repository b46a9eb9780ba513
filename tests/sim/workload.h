/* SPDX-License-Identifier: MIT */
/* workload.h - what a random run is about: what there is, how it is used, and what must hold then. All the rest of a
 * run (the world, the apps, the faults, the ending) is plan.c's. To add one: a file like plan_pools.c, and a word in
 * sim.c.
 */
#ifndef TESTS_SIM_WORKLOAD_H
#define TESTS_SIM_WORKLOAD_H

#include "tests/sim/apps.h"
#include "tests/sim/checks.h"
#include "tests/sim/mishaps.h"

struct workload {
    const struct check *const *checks;
    void (*draw)(void);                 /* what there is; once the world is there */
    struct fibre *(*stranger)(void);    /* somebody who does not use the library, or NULL */
    void (*use)(struct caller *caller); /* all that the caller does, to its leaving */
    bool counts_undone;                 /* its checks at rest want every undo to have been carried out */
    bool lasting;                       /* some holds are for long */
    const struct fault *faults;         /* half of a run's are of these; NULL: none */
    size_t fault_count;
};

extern const struct workload lock_workload;   /* plan.c */
extern const struct workload pool_workload;   /* plan_pools.c */
extern const struct workload outage_workload; /* plan_outage.c */

void use_locks(struct caller *caller);
struct fibre *start_stranger(void);

bool goes_on(const struct caller *caller);

/* Cancels the caller's calls from outside, at some moment of the next ms. */
struct cancellation {
    struct event event;
    struct caller *caller;
};

void cancellation_begin(struct cancellation *c, struct caller *caller);
void cancellation_end(struct cancellation *c);

#endif
