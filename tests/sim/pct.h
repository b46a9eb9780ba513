/* SPDX-License-Identifier: MIT */
/* pct.h - who runs, in a world of threads, and where the run is disturbed: all of it drawn from the run's number.
 *
 * After Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010: threads
 * have random urgencies, the most urgent that can run does, and at a few points, drawn among all that there will be,
 * something changes. There, a bug that needs d - 1 things to come in a certain order, of n threads in k points, is
 * found by a run with a chance of 1 in n * k^(d-1) at least, whatever else there is. Ours gives that up for what
 * follows.
 *
 * Points are not alike. So a third of the changes count only outer points, where the library meets the system: what is
 * sent or received, sleeps or wakes; what a thread leaves undone while it stands behind one of them is seen by others.
 * And another third count only points that nobody has met before in the run: a line that is rarely met is as likely as
 * one that always is.
 *
 * A change is one of these: the thread becomes the least urgent; it stands still for some time, from 1 us to a quarter
 * of a second, which goes on for everybody else; a fault strikes; or a fault strikes and then it stands still. In a few
 * runs all urgencies are drawn anew now and then.
 */
#ifndef TESTS_SIM_PCT_H
#define TESTS_SIM_PCT_H

#include "tests/sim/world.h"

struct pct_hooks {
    void (*fault)(void);
    void (*freezes)(struct process *process, int64_t ns);
};

/* Draw a run of about so many points. Nothing is interrupted before pct_arm. */
void pct_begin(unsigned points, const struct pct_hooks *hooks);
void pct_arm(bool on);
unsigned pct_points(void); /* that there were */

#endif
