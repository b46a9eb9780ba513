/* SPDX-License-Identifier: MIT */
/* clock.c - the library's clock. Every Linux that can run this has CLOCK_BOOTTIME, so reading it does not fail. */
#include "core/base/clock.h"

#include <time.h>

int64_t rdl__now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * RDL__SEC + now.tv_nsec;
}

int64_t rdl__awake(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * RDL__SEC + now.tv_nsec;
}

int64_t rdl__wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / RDL__MS;
}

int64_t rdl__wall(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * RDL__SEC + now.tv_nsec;
}
