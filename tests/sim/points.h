/* SPDX-License-Identifier: MIT */
/* points.h - makes points (world.h) of what threads do to each other: each atomic operation, each lock and unlock of a
 * mutex.
 *
 * Included before everything else in each file of the library, when it is built for the scheduler (tests/SConscript).
 * The point is before the operation, and behind an unlock. The operations are what they are elsewhere, but as threads
 * take turns here none is seen late by another.
 */
#ifndef TESTS_SIM_POINTS_H
#define TESTS_SIM_POINTS_H

#include <stdatomic.h>

void point_(const char *what, _Bool outer, const char *file, int line);
#define POINT(what) point_(what, 0, __FILE__, __LINE__)

#define POINT_VALUE(at, read)                                                                                          \
    __extension__({                                                                                                    \
        __auto_type point_at = (at);                                                                                   \
        __typeof__((void)0, *point_at) point_value;                                                                    \
        POINT("atomic");                                                                                               \
        read;                                                                                                          \
        point_value;                                                                                                   \
    })

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit

#define atomic_load_explicit(at, order) POINT_VALUE(at, __atomic_load(point_at, &point_value, order))
#define atomic_load(at) atomic_load_explicit(at, __ATOMIC_SEQ_CST)
#define atomic_store_explicit(at, value, order)                                                                        \
    (void)POINT_VALUE(at, point_value = (value); __atomic_store(point_at, &point_value, order))
#define atomic_store(at, value) atomic_store_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_exchange_explicit(at, value, order)                                                                     \
    POINT_VALUE(at, __typeof__(point_value) point_new = (value);                                                       \
                __atomic_exchange(point_at, &point_new, &point_value, order))
#define atomic_exchange(at, value) atomic_exchange_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_add_explicit(at, value, order) (POINT("atomic"), __atomic_fetch_add(at, value, order))
#define atomic_fetch_add(at, value) atomic_fetch_add_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub_explicit(at, value, order) (POINT("atomic"), __atomic_fetch_sub(at, value, order))
#define atomic_fetch_sub(at, value) atomic_fetch_sub_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_or_explicit(at, value, order) (POINT("atomic"), __atomic_fetch_or(at, value, order))
#define atomic_fetch_or(at, value) atomic_fetch_or_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_and_explicit(at, value, order) (POINT("atomic"), __atomic_fetch_and(at, value, order))
#define atomic_fetch_and(at, value) atomic_fetch_and_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_strong_explicit(at, old, value, order, otherwise)                                      \
    __extension__({                                                                                                    \
        __auto_type point_at = (at);                                                                                   \
        __typeof__((void)0, *point_at) point_new = (value);                                                            \
        POINT("atomic");                                                                                               \
        __atomic_compare_exchange(point_at, (old), &point_new, 0, order, otherwise);                                   \
    })
#define atomic_compare_exchange_strong(at, old, value)                                                                 \
    atomic_compare_exchange_strong_explicit(at, old, value, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_weak atomic_compare_exchange_strong

#include "core/base/sync.h"

#define rdl__mutex_lock(mu) (POINT("lock"), rdl__mutex_lock(mu))
#define rdl__mutex_unlock(mu) (rdl__mutex_unlock(mu), POINT("unlocked"))

#endif
