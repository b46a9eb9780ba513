/* SPDX-License-Identifier: MIT */
/* driver.h - runs from the command line.
 *
 *     PROGRAM [MODE] --seeds A..B [--jobs N]    run those; stop at the first that breaks a claim
 *     PROGRAM [MODE] --seed N [-v]              run one; -v shows everything that happens in it
 *
 * A run is its number: the same number does the same, on every machine. Exit status 0: all claims held; 1: one did not;
 * 2: it was called wrongly. Many runs are shared out among as many processes as there are processors, or --jobs.
 */
#ifndef TESTS_SIM_DRIVER_H
#define TESTS_SIM_DRIVER_H

#include "tests/sim/plan.h"

struct mode {
    const char *option; /* "": when none is given, the first */
    struct outcome (*run)(uint64_t seed);
};

int drive(int argc, char **argv, const struct mode *modes); /* the last row is all zero; returns main's status */

#endif
