/* SPDX-License-Identifier: MIT */
/* clock.c - the library's clock. Every Linux that can run this has CLOCK_BOOTTIME, so reading it does not fail. */
#include "core/base/clock.h"

#include <time.h>

static inline int64_t read_clock(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * RDL__SEC + now.tv_nsec;
}

int64_t rdl__now(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t rdl__awake(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t rdl__wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t rdl__wall_ms(void)
{
    return rdl__wall() / RDL__MS;
}
