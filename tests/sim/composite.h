/* SPDX-License-Identifier: MIT */
/* composite.h - a random run of composite locks over several servers, in a world of threads or not. */
#ifndef TESTS_SIM_COMPOSITE_H
#define TESTS_SIM_COMPOSITE_H

#include "tests/sim/plan.h"

/* How threads are interrupted, in a world of them. */
struct composite_threads {
    void (*begin)(void); /* once the world is there */
    void (*arm)(bool on);
};

struct outcome composite_run(uint64_t seed, const struct composite_threads *how); /* NULL: there are none */

#endif
