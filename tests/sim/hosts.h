/* SPDX-License-Identifier: MIT */
/* hosts.h - the locks of simulated hosts, in place of core/base/hostlock.c: a table in memory, from which a process's
 * locks go as it dies, as the kernel closes its descriptors.
 */
#ifndef TESTS_SIM_HOSTS_H
#define TESTS_SIM_HOSTS_H

#include "tests/sim/world.h"

#define MOST_HOSTS 2

void hosts_begin(void);
const char *host_dir(unsigned host);            /* for the client option local_dir */
void hosts_bury(const struct process *process); /* it is dead; what it calls from now on has no effect */
size_t hosts_open(void);                        /* descriptors */

struct host_lock {
    const struct process *process; /* who has it; NULL: nobody */
    int64_t since;                 /* for how long the one, or nobody, has it; 0: it was never had */
};
struct host_lock host_lock(unsigned host, const char *name);

#endif
