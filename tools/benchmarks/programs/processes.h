/* SPDX-License-Identifier: MIT */
/* processes.h - measurements in which several processes lock: they are forked before any of them connects, and share
 * memory.
 */
#ifndef TOOLS_BENCHMARKS_PROCESSES_H
#define TOOLS_BENCHMARKS_PROCESSES_H

#include "tools/benchmarks/programs/measure.h"

#include <sys/types.h>

/* Fork a process that runs `body` and ends; it does not outlive this one. */
pid_t spawn(void (*body)(void *arg), void *arg);

/* Wait for its end, which must be a good one. */
void reap(pid_t pid);

#endif
