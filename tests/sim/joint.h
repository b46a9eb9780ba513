/* SPDX-License-Identifier: MIT */
/* joint.h - a random run of composite locks over several servers, in a world of threads or not. */
#ifndef TESTS_SIM_JOINT_H
#define TESTS_SIM_JOINT_H

#include "tests/sim/plan.h"

/* How threads are interrupted, in a world of them. */
struct joint_threads {
    void (*begin)(void); /* once the world is there */
    void (*arm)(bool on);
};

struct outcome joint_run(uint64_t seed, const struct joint_threads *how); /* NULL: there are none */

#endif
