/* SPDX-License-Identifier: MIT */
/* check_pools.h - what must hold of semaphores and latches. */
#ifndef TESTS_SIM_CHECK_POOLS_H
#define TESTS_SIM_CHECK_POOLS_H

#include "tests/sim/checks.h"
#include "tests/sim/pools.h"

extern const struct check *const pool_checks[]; /* to begin with */

void check_pool_call(const struct pool_call *call); /* it was answered, and is believed */

#endif
