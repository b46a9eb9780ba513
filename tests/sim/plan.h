/* SPDX-License-Identifier: MIT */
/* plan.h - a random run: the world, who is in it, what they do and what befalls them, all of it drawn from one number.
 */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct outcome {
    bool over;          /* the run came to its end; otherwise the world cannot be used again */
    const char *broken; /* the claim that did not hold, and how; NULL: all did. Valid until the next run */
    int64_t operations;
    int64_t events;
};

struct outcome plan_run(uint64_t seed);   /* of locks, */
struct outcome kept_run(uint64_t seed);   /* of those that clients keep, */
struct outcome pools_run(uint64_t seed);  /* of semaphores and latches */
struct outcome outage_run(uint64_t seed); /* of locks that outlast outages, on one host or two */

#endif
