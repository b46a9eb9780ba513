/* SPDX-License-Identifier: MIT */
/* kept.h - what tests of locks that stay with their client (option cache_ms) share: the lock NAME, and whether the
 * server has a hold of it that is kept.
 */
#ifndef TESTS_LIVE_KEPT_H
#define TESTS_LIVE_KEPT_H

#include "tests/live/live.h"

#define NAME "catalogue"

static inline void take(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, &err));
}

static inline void give(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_unlock(lock, &err));
}

static inline const char *kept_field_among(size_t fields)
{
    const struct reply *keys = probe_ask(st.probe, "HKEYS " NAME);
    bool kept = keys->count > 0 && keys->count <= fields && strlen(keys->items[0].text) > 38;

    return kept && keys->items[0].text[37] == '-' ? keys->items[0].text : "";
}

/* The field of a hold that is kept, `U:-n`; "": there is none. It is good until the probe's next question. */
static inline const char *kept_field(void)
{
    return kept_field_among(1);
}

/* Whoever was refused of it leaves a mark behind it. */
static inline bool is_kept_or_wanted(void)
{
    return kept_field_among(2)[0] != '\0';
}

static inline bool is_kept(void)
{
    return kept_field()[0] != '\0';
}

static inline bool is_kept_after_a_pair(rdl_lock_t *lock)
{
    take(lock);
    give(lock);
    return is_kept();
}

/* Use the lock until it stays, and is idle. */
static inline void make_idle(rdl_lock_t *lock)
{
    cr_assert(WAIT_UNTIL(is_kept_after_a_pair(lock), SOON_MS), "the lock is never kept");
}

/* ---- what callbacks say ------------------------------------------------------------------------------------------ */

static _Atomic int lost, reasons[8];

static inline void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    (void)lock;
    (void)arg;
    if (loss->state == RDL_LOST) {
        reasons[loss->reason]++;
        lost++;
    }
}

static _Atomic int called, last_result;
static _Thread_local bool calling;
static _Atomic bool inside_call;

static inline void on_done(rdl_lock_t *lock, int64_t result, const rdl_err_t *why, void *arg)
{
    (void)lock;
    (void)why;
    (void)arg;
    inside_call = inside_call || calling;
    last_result = (int)result;
    called++;
}

static inline void expect_done(int result)
{
    static int so_far;

    so_far++;
    cr_assert(WAIT_UNTIL(called == so_far, SOON_MS));
    cr_assert_eq(last_result, result);
    cr_assert(!inside_call);
}

#endif
