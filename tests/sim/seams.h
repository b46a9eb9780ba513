/* SPDX-License-Identifier: MIT */
/* seams.h - what the simulator's places to sleep let others see: seams.c's, and threads.c's in a world of threads. */
#ifndef TESTS_SIM_SEAMS_H
#define TESTS_SIM_SEAMS_H

#include "core/base/sync.h"

#include <stdbool.h>

bool seam_locked(const struct rdl__mutex *mu);

/* In a quiet world (world.h) whoever finds a mutex locked goes on without it: what it reads there counts for nothing.
 * Has somebody, since this was asked last? */
bool seam_blind(void);

#endif
