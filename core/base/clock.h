/* SPDX-License-Identifier: MIT */
/* clock.h - the one place that reads a clock.
 *
 * All times inside the library are nanoseconds of CLOCK_BOOTTIME in an int64_t: monotonic, and counting suspension, so
 * that a lease that ran out while the machine slept is seen to have run out. Everything above base takes `now` as an
 * argument. Seam: tests and the simulator link a clock.c of their own.
 */
#ifndef REDLATCH_BASE_CLOCK_H
#define REDLATCH_BASE_CLOCK_H

#include <stdint.h>

#define RDL__US INT64_C(1000)
#define RDL__MS INT64_C(1000000)
#define RDL__SEC INT64_C(1000000000)
#define RDL__NEVER INT64_MAX

int64_t rdl__now(void);

/* CLOCK_MONOTONIC, which stands still during suspension: the kernel ends a thread's sleep by it. */
int64_t rdl__awake(void);

/* The time of day, ns since 1970, for comparing clocks only: it steps. */
int64_t rdl__wall(void);

/* Milliseconds since 1970, for people to read: the host's wall clock, which may be set. Nothing is decided by it. */
int64_t rdl__wall_ms(void);

/* now + ms, RDL__NEVER instead of overflowing. ms >= 0. */
static inline int64_t rdl__after_ms(int64_t now, int64_t ms)
{
    int64_t at;

    return __builtin_mul_overflow(ms, RDL__MS, &at) || __builtin_add_overflow(at, now, &at) ? RDL__NEVER : at;
}

/* Whole milliseconds until `deadline`, rounded up, 0 when it has passed. */
static inline int64_t rdl__ms_until(int64_t deadline, int64_t now)
{
    return deadline <= now ? 0 : (deadline - now - 1) / RDL__MS + 1;
}

#endif
