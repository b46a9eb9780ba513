/* SPDX-License-Identifier: MIT */
/* test_nonreentrant.c - the non-reentrant lock: the reentrant lock's hash, whose owner may not take it twice. */
#include "tests/live/live.h"

#define NAME "ledger"
#define LEASE_MS 10000

LIVE_SUITE(nonreentrant, 60);

Test(nonreentrant, is_a_hash_with_a_count_of_one_that_the_holder_alone_has)
{
    struct caller *rival = caller_new();
    rdl_lock_t *lock;
    const struct reply *all;

    stage_open(&st);
    lock = nonreentrant(st.client, NAME, NULL);
    cr_assert_str_eq(rdl_lock_type(lock), "nonreentrant");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    all = probe_ask(st.probe, "HGETALL " NAME);
    cr_assert_eq(all->count, 2);
    cr_assert_eq(strncmp(all->items[0].text, rdl_client_id(st.client), 36), 0);
    cr_assert_str_eq(all->items[1].text, "1");
    expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
    caller_try_lock(rival, lock, 0, LEASE_MS);
    expect_result(RDL_ETIMEDOUT, rival, SOON_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    caller_free(rival);
    rdl_lock_free(lock);
}

Test(nonreentrant, second_take_by_its_owner_fails_at_once_and_sends_nothing)
{
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark;

    stage_open(&st);
    lock = nonreentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    expect(RDL_EDEADLK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect_err_names(&err, RDL_EDEADLK, NAME);
    expect(RDL_EDEADLK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_lock(lock, RDL_LEASE_AUTO, &err));
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
    expect(1, rdl_hold_count(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    monitor_stop(monitor);
    rdl_lock_free(lock);
}

/* On the wire it is the reentrant lock: they exclude and wake each other. Only within one client the types must not
 * mix. */
Test(nonreentrant, excludes_and_wakes_reentrant_locks_of_another_client)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock, *elsewhere, *same = NULL;
    rdl_client_t *other;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = nonreentrant(st.client, NAME, NULL);
    elsewhere = reentrant(other, NAME, NULL);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, NULL, &same, &err));
    cr_assert(strstr(err.message, "nonreentrant") != NULL, "%s", err.message);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(elsewhere, 0, LEASE_MS, &err));
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
