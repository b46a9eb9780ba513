/* joint.h - a random run of composite locks over several servers. */
#ifndef TESTS_SIM_JOINT_H
#define TESTS_SIM_JOINT_H

#include "tests/sim/plan.h"

struct outcome joint_run(uint64_t seed);

#endif
