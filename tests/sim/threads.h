/* SPDX-License-Identifier: MIT */
/* threads.h - threads.c's, and the runs of threads (plan_threads.c). */
#ifndef TESTS_SIM_THREADS_H
#define TESTS_SIM_THREADS_H

#include "tests/sim/plan.h"

void threads_begin(void); /* nobody sleeps anywhere */

struct outcome threads_run(uint64_t seed); /* of any theme; of one alone: */
struct outcome threads_locks_run(uint64_t seed);
struct outcome threads_busy_run(uint64_t seed);
struct outcome threads_shared_run(uint64_t seed);
struct outcome threads_closing_run(uint64_t seed);
struct outcome threads_kept_run(uint64_t seed);
struct outcome threads_pools_run(uint64_t seed);
struct outcome threads_composite_run(uint64_t seed);
struct outcome threads_permits_run(uint64_t seed);

#endif
