/* SPDX-License-Identifier: MIT */
/* rounds.h - work in bulk under a lock that Java works under as well; the same in Java is
 * peer/src/redlatch/peer/Rounds.java.
 *
 * The string {NAME}:record holds "COUNT SIDE IN_A_ROW": how many rounds there were, which side (J or C) had the last
 * one, and how many in a row it has had. A round, under the lock: raise {NAME}:inside, which must give 1; read the
 * record; write it with COUNT one higher; lower {NAME}:inside. Somebody else inside is an overlap. The record is not
 * protected by anything but the lock, so an update that is lost shows in the end, when COUNT is held against the sum of
 * everybody's rounds.
 *
 * A round after one of the other side is a crossing. When a side had `streak` rounds in a row its participants ask
 * again only when the other side had one, so that the lock crosses all the time, however much faster one side is.
 */
#ifndef TESTS_INTEROP_ROUNDS_H
#define TESTS_INTEROP_ROUNDS_H

#include "tests/support/probe.h"

#include <redlatch/redlatch.h>
#include <stdint.h>

struct rounds_plan {
    const char *name; /* the lock's */
    int64_t goal;     /* ends when COUNT is there */
    int64_t streak;
    int64_t lease_ms; /* as for rdl_try_lock */
    int64_t bound_ms; /* on the wait for one lock, and for the other side */
};

struct rounds_done {
    int64_t rounds; /* by this participant */
    int64_t overlaps;
    int64_t crossings;
};

/* An empty record. */
void rounds_prepare(struct probe *p, const char *name);

/* The record's COUNT. */
int64_t rounds_count(struct probe *p, const char *name);

/* Take part until the end, as the calling thread. RDL_OK, or what went wrong with the lock. */
int rounds_take_part(rdl_lock_t *lock, struct probe *p, const struct rounds_plan *plan, struct rounds_done *done);

#endif
