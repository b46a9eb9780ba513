/* SPDX-License-Identifier: MIT */
/* test_simple.c - the simple lock: SET NX PX and compare-and-delete, shared with code that announces nothing. */
#include "tests/live/live.h"

#define NAME "jobs:nightly"
#define LEASE_MS 10000

LIVE_SUITE(simple, 60);

/* T1 */
Test(simple, key_holds_exactly_the_owners_value_while_held_and_is_gone_after_release)
{
    rdl_lock_t *lock;
    const char *value;

    stage_open(&st);
    lock = simple(st.client, NAME, NULL);
    cr_assert_str_eq(rdl_lock_type(lock), "simple");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_str_eq(probe_text(st.probe, "TYPE " NAME), "string");
    value = probe_text(st.probe, "GET " NAME);
    cr_assert_eq(strncmp(value, rdl_client_id(st.client), 36), 0, "%s", value);
    cr_assert_eq(value[36], ':');
    expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
    expect(1, rdl_is_held(lock, &err));
    expect(1, rdl_hold_count(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

Test(simple, is_not_reentrant_and_says_so_at_once)
{
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st);
    lock = simple(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    start = now_ms();
    expect(RDL_EDEADLK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_lock(lock, LEASE_MS, &err));
    cr_assert_lt(now_ms() - start, WOKEN_MS);
    expect(1, rdl_hold_count(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(simple, excludes_foreign_holders_of_the_same_convention_both_ways)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = simple(st.client, NAME, NULL);
    cr_assert_str_eq(probe_text(st.probe, "SET " NAME " theirs NX PX 10000"), "OK");
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect_err_names(&err, RDL_ETIMEDOUT, NAME);
    expect(1, rdl_is_locked(lock, &err));
    expect_between(10000 - SLACK_MS, rdl_remaining_ms(lock, &err), 10000);
    (void)probe_int(st.probe, "DEL " NAME);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_null(probe_text(st.probe, "SET " NAME " theirs NX PX 10000"));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* Compare-and-delete: what came after our lease is not ours to delete. */
Test(simple, release_of_an_expired_hold_leaves_the_next_holder_alone)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = simple(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, 100, &err));
    cr_assert(WAIT_UNTIL(probe_text(st.probe, "SET " NAME " theirs NX PX 10000") != NULL, SOON_MS));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert_str_eq(probe_text(st.probe, "GET " NAME), "theirs");
    expect(0, rdl_is_held(lock, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    (void)probe_int(st.probe, "DEL " NAME);
    rdl_lock_free(lock);
}

Test(simple, value_changed_by_force_makes_the_hold_lost_and_stays)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = simple(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    (void)probe_text(st.probe, "SET " NAME " theirs");
    expect(RDL_ELOST, rdl_extend(lock, LEASE_MS, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert_str_eq(probe_text(st.probe, "GET " NAME), "theirs");
    expect(1, rdl_force_unlock(lock, &err));
    expect(0, rdl_force_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

Test(simple, extends_and_is_renewed_like_any_lock)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 2500));
    lock = simple(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(3500);
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_extend(lock, 5000, &err));
    expect_between(5000 - SLACK_MS, probe_int(st.probe, "PTTL " NAME), 5000);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(simple, fencing_token_grows_with_every_hold)
{
    rdl_lock_t *lock;
    int64_t last = 0;

    stage_open(&st);
    lock = simple(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
    for (int i = 0; i < 50; i++) {
        int64_t token;

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        token = rdl_token(lock, &err);
        cr_assert_gt(token, last);
        last = token;
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    rdl_lock_free(lock);
}

/* A waiter of ours need not wait for its next look: our release announces itself. */
Test(simple, release_wakes_waiters_of_another_client_by_message)
{
    const rdl_lock_options_t *silent = LOCK_OPTIONS(.retry = {.kind = RDL_RETRY_NONE});
    struct caller *waiter = caller_new();
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = simple(st.client, NAME, silent);
    elsewhere = simple(other, NAME, silent);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_try_lock(waiter, elsewhere, 8000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, elsewhere);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
}

/* Foreign code deletes its key and tells nobody: the retry policy finds out. */
Test(simple, silent_foreign_release_is_found_by_the_retry_policy)
{
    static const rdl_retry_t policies[] = {
        {.kind = RDL_RETRY_DEFAULT},
        {.kind = RDL_RETRY_FIXED, .min_ms = 20},
        {.kind = RDL_RETRY_RANDOM, .min_ms = 10, .max_ms = 40},
        {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 5, .max_ms = 100},
    };
    struct caller *waiter = caller_new();

    stage_open(&st);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        rdl_lock_t *lock = simple(st.client, NAME, LOCK_OPTIONS(.retry = policies[i]));

        (void)probe_text(st.probe, "SET " NAME " theirs PX 30000");
        caller_try_lock(waiter, lock, 20000, LEASE_MS);
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
        (void)probe_int(st.probe, "DEL " NAME);
        expect_result(RDL_OK, waiter, WOKEN_MS); /* the default's longest pause is 1 s */
        caller_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
        rdl_lock_free(lock);
    }
    caller_free(waiter);
}

/* The retry policy is one poll for the lock, however many wait in this process. */
Test(simple, waiters_of_a_process_poll_as_one_and_at_the_given_rate)
{
    enum { WAITERS = 5, PERIOD_MS = 100, WATCHED_MS = 3000 };
    struct caller *waiters[WAITERS];
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark, polls;
    int64_t start;

    stage_open(&st);
    lock = simple(st.client, NAME, LOCK_OPTIONS(.retry = {.kind = RDL_RETRY_FIXED, .min_ms = PERIOD_MS}));
    (void)probe_text(st.probe, "SET " NAME " theirs PX 60000");
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = caller_new();
        caller_try_lock(waiters[i], lock, WATCHED_MS + 1000, LEASE_MS);
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(200); /* the first tries are over */
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    start = now_ms();
    let_pass_ms(WATCHED_MS);
    (void)monitor_mark(monitor);
    polls = monitor_count(monitor, mark, NAME);
    /* Waiters that time out with an unused wake-up hand it on: a few more than the period alone gives. */
    expect_between(WATCHED_MS / PERIOD_MS / 3, (int64_t)polls, (now_ms() - start) / PERIOD_MS + WAITERS);
    for (int i = 0; i < WAITERS; i++) {
        int64_t rc = caller_result(waiters[i], SOON_MS);

        cr_assert(rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN, "%s", code_name(rc)); /* unknown: with a try on the way */
        caller_free(waiters[i]);
    }
    monitor_stop(monitor);
    (void)probe_int(st.probe, "DEL " NAME);
    rdl_lock_free(lock);
}

Test(simple, uncontended_pair_costs_one_set_and_one_script)
{
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark;

    stage_open(&st);
    lock = simple(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err)); /* scripts are loaded, connections are up */
    expect(RDL_OK, rdl_unlock(lock, &err));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 2);
    cr_assert_eq(monitor_count(monitor, mark, "\"SET\"|" NAME), 1);
    cr_assert_eq(monitor_count(monitor, mark, "\"EVALSHA\"|" NAME), 1);
    monitor_stop(monitor);
    rdl_lock_free(lock);
}
