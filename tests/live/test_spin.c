/* SPDX-License-Identifier: MIT */
/* test_spin.c - the spin lock: the reentrant lock's hash, waited for by asking again and without a subscription. */
#include "tests/live/live.h"

#define NAME "counter:7"
#define LEASE_MS 10000

LIVE_SUITE(spin, 60);

Test(spin, is_a_reentrant_hash_that_its_owner_may_take_again)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = spin(st.client, NAME, NULL);
    cr_assert_str_eq(rdl_lock_type(lock), "spin");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(probe_int(st.probe, "HLEN " NAME), 1);
    expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(1, rdl_hold_count(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

/* A holder that says nothing when it goes, as Redisson's: the poll finds out, without any subscription. */
Test(spin, waiter_polls_finds_a_silent_release_and_subscribes_to_nothing)
{
    struct caller *waiter = caller_new();
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark;

    stage_open(&st);
    lock = spin(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, 30000);
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    caller_try_lock(waiter, lock, 20000, LEASE_MS);
    cr_assert(monitor_wait(monitor, mark, "EVALSHA|" NAME, 5, SOON_MS));
    cr_assert_eq(probe_channels(st.probe), 0);
    (void)probe_int(st.probe, "DEL " NAME);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, "SUBSCRIBE"), 0);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    monitor_stop(monitor);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* T4, and the bounds are the options'. */
Test(spin, waiters_of_a_process_ask_by_turns_as_often_as_each_would_alone)
{
    enum { WAITERS = 4, PERIOD_MS = 100, WATCHED_MS = 3000 };
    struct caller *waiters[WAITERS];
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark;
    int64_t start;

    stage_open(&st);
    lock = spin(st.client, NAME, LOCK_OPTIONS(.retry = {.kind = RDL_RETRY_FIXED, .min_ms = PERIOD_MS}));
    foreign_take(st.probe, NAME, 60000);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = caller_new();
        caller_try_lock(waiters[i], lock, WATCHED_MS + 1000, LEASE_MS);
    }
    let_pass_ms(300); /* the first tries are over */
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    start = now_ms();
    let_pass_ms(WATCHED_MS);
    (void)monitor_mark(monitor);
    expect_between(WAITERS * WATCHED_MS / PERIOD_MS / 3, (int64_t)monitor_count(monitor, mark, "EVALSHA|" NAME),
                   WAITERS * ((now_ms() - start) / PERIOD_MS + 1));
    for (int i = 0; i < WAITERS; i++) {
        int64_t rc = caller_result(waiters[i], SOON_MS);

        cr_assert(rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN, "%s", code_name(rc)); /* unknown: with a try on the way */
        caller_free(waiters[i]);
    }
    monitor_stop(monitor);
    (void)probe_int(st.probe, "DEL " NAME);
    rdl_lock_free(lock);
}

/* wire.md, Where we differ: Redisson's spin lock leaves ordinary waiters asleep. */
Test(spin, unlock_wakes_an_ordinary_waiter_on_the_name)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock, *elsewhere;
    rdl_client_t *other;
    int64_t released;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = spin(st.client, NAME, NULL);
    elsewhere = reentrant(other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, 60000, &err));
    caller_try_lock(waiter, elsewhere, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(100); /* its try after the acknowledgement is over: it sleeps */
    released = now_ms();
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_lt(now_ms() - released, WOKEN_MS, "it looked by itself");
    caller_unlock(waiter, elsewhere);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
}

Test(spin, gives_up_in_time)
{
    rdl_lock_t *lock;
    int64_t start;
    int rc;

    stage_open(&st);
    lock = spin(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, 60000);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    start = now_ms();
    rc = rdl_try_lock(lock, 300, LEASE_MS, &err);
    cr_assert(rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN, "%s", code_name(rc)); /* unknown: with a try on the way */
    expect_between(300, now_ms() - start, 300 + SLACK_MS);
    (void)probe_int(st.probe, "DEL " NAME);
    rdl_lock_free(lock);
}

Test(spin, refuses_a_policy_that_never_looks_again)
{
    rdl_lock_t *lock = NULL;

    stage_open(&st);
    expect(RDL_EINVAL, rdl_spin_lock(st.client, NAME, LOCK_OPTIONS(.retry = {.kind = RDL_RETRY_NONE}), &lock, &err));
    cr_assert_null(lock);
    cr_assert(strstr(err.message, "spin") != NULL, "%s", err.message);
}

/* T10 */
Test(spin, of_many_single_tries_at_a_time_one_wins)
{
    enum { THREADS = 16, ROUNDS = 6 };
    struct caller *callers[THREADS];
    rdl_lock_t *lock;

    stage_open(&st);
    lock = spin(st.client, NAME, NULL);
    for (int i = 0; i < THREADS; i++)
        callers[i] = caller_new();
    for (int round = 0; round < ROUNDS; round++) {
        int won = 0;

        for (int i = 0; i < THREADS; i++)
            caller_try_lock(callers[i], lock, 0, LEASE_MS);
        for (int i = 0; i < THREADS; i++)
            won += caller_result(callers[i], SOON_MS) == RDL_OK;
        cr_assert_eq(won, 1);
        for (int i = 0; i < THREADS; i++)
            caller_unlock(callers[i], lock);
        for (int i = 0; i < THREADS; i++)
            won -= caller_result(callers[i], SOON_MS) == RDL_OK;
        cr_assert_eq(won, 0);
    }
    for (int i = 0; i < THREADS; i++)
        caller_free(callers[i]);
    rdl_lock_free(lock);
}
