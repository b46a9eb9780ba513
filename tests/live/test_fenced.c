/* SPDX-License-Identifier: MIT */
/* test_fenced.c - the fenced lock: the reentrant lock's hash, and a key beside it that counts tokens (wire.md, Fenced).
 */
#include "tests/live/live.h"

#define NAME "ledger"
#define COUNTER "redisson_lock_token:{" NAME "}"
#define LEASE_MS 10000

LIVE_SUITE(fenced, 60);

/* The counter stays for ever: it is taken away by the test, so that nothing is left behind. */
static void done_with(rdl_lock_t *lock)
{
    rdl_lock_free(lock);
    (void)probe_int(st.probe, "DEL " COUNTER);
}

Test(fenced, every_hold_has_the_next_number_of_a_key_that_never_expires)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fenced(st.client, NAME, NULL);
    cr_assert_str_eq(rdl_lock_type(lock), "fenced");
    for (int64_t token = 1; token <= 5; token++) {
        expect(RDL_ENOTOWNER, rdl_token(lock, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(token, rdl_token(lock, &err));
        cr_assert_eq(atoll(probe_text(st.probe, "GET " COUNTER)), token);
        cr_assert_eq(probe_int(st.probe, "PTTL " COUNTER), -1);
        cr_assert_eq(probe_int(st.probe, "HLEN " NAME), 1);
        expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert_eq(probe_keys(st.probe), 1);
    }
    done_with(lock);
}

Test(fenced, token_stays_while_the_owner_nests_and_leaves_again)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fenced(st.client, NAME, NULL);
    for (int i = 0; i < 3; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(1, rdl_token(lock, &err));
    }
    for (int i = 0; i < 3; i++) {
        expect(1, rdl_token(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert_str_eq(probe_text(st.probe, "GET " COUNTER), "1");
    done_with(lock);
}

/* What a Java process has counted goes on here; a refused try counts nothing. */
Test(fenced, continues_a_count_begun_elsewhere_and_refusals_do_not_count)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fenced(st.client, NAME, NULL);
    (void)probe_text(st.probe, "SET " COUNTER " 41");
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_str_eq(probe_text(st.probe, "GET " COUNTER), "41");
    (void)foreign_release(st.probe, NAME);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(42, rdl_token(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    done_with(lock);
}

Test(fenced, time_tokens_are_above_both_the_last_one_and_the_servers_clock)
{
    rdl_lock_t *lock;
    int64_t floor, first;

    stage_open(&st);
    lock = fenced(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
    floor = atoll(probe_ask(st.probe, "TIME")->items[0].text) * 1000000;
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    first = rdl_token(lock, &err);
    cr_assert_geq(first, floor);
    cr_assert_eq(atoll(probe_text(st.probe, "GET " COUNTER)), first);
    expect(RDL_OK, rdl_unlock(lock, &err));
    (void)probe_text(st.probe, "SET " COUNTER " 4000000000000000"); /* a server whose clock was ahead */
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(INT64_C(4000000000000001), rdl_token(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    done_with(lock);
}

Test(fenced, options_that_contradict_the_type_are_refused)
{
    rdl_lock_t *lock = NULL;

    stage_open(&st);
    expect(RDL_EINVAL, rdl_fenced_lock(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_NONE), &lock, &err));
    cr_assert(strstr(err.message, "tokens always") != NULL, "%s", err.message);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_COUNTER), &lock, &err));
    expect(RDL_EINVAL, rdl_fenced_lock(st.client, NAME, LOCK_OPTIONS(.fencing = (rdl_fencing_t)4), &lock, &err));
    cr_assert_null(lock);
}

/* A counter that is no number: the server's words, and no lock that nobody can fence. */
Test(fenced, counter_that_cannot_count_is_the_servers_error_and_leaves_no_hold)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fenced(st.client, NAME, NULL);
    (void)probe_text(st.probe, "SET " COUNTER " words");
    expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect_err_names(&err, RDL_ESERVER, NAME);
    cr_assert_eq(probe_int(st.probe, "EXISTS " NAME), 0);
    done_with(lock);
}

/* A1 for this type: the repeat answers the token of the first, and counts nothing. */
Test(fenced, take_repeated_after_a_lost_reply_has_the_first_ones_token)
{
    rdl_lock_t *lock;
    int cut;

    stage_open(&st, .proxied = true);
    lock = fenced(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err)); /* everything is connected and loaded */
    expect(RDL_OK, rdl_unlock(lock, &err));
    cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    cr_assert_eq(proxy_acted(st.proxy, cut), 1);
    expect(2, rdl_token(lock, &err));
    cr_assert_str_eq(probe_text(st.probe, "GET " COUNTER), "2");
    expect(1, rdl_hold_count(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    done_with(lock);
}

Test(fenced, waiters_are_woken_by_the_unlock_and_tokens_follow_the_order_of_holds)
{
    enum { THREADS = 6 };
    struct caller *callers[THREADS];
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fenced(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    for (int i = 0; i < THREADS; i++) {
        callers[i] = caller_new();
        caller_try_lock(callers[i], lock, 20000, 60000);
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (int64_t token = 2; token <= THREADS + 1; token++) {
        int i = 0;

        cr_assert(WAIT_UNTIL((i = (i + 1) % THREADS, callers[i] != NULL && caller_idle(callers[i])), SOON_MS));
        cr_assert_eq(atoll(probe_text(st.probe, "GET " COUNTER)), token);
        expect_result(RDL_OK, callers[i], SOON_MS);
        caller_unlock(callers[i], lock);
        expect_result(RDL_OK, callers[i], SOON_MS);
        caller_free(callers[i]);
        callers[i] = NULL;
    }
    done_with(lock);
}

/* What somebody has made of the counter is no token, nor is the one after it: the hold is not granted, and nothing is
 * left of it. */
Test(fenced, N11_counter_that_is_no_counter_is_an_error)
{
    static const char *const values[] = {"-5", "-1000000", "word", "1.5", "9007199254740993", "9223372036854775807"};

    for (int time = 0; time < 2; time++) {
        rdl_lock_t *lock;

        stage_open(&st);
        lock = fenced(st.client, NAME, LOCK_OPTIONS(.fencing = time == 1 ? RDL_FENCING_TIME : RDL_FENCING_DEFAULT));
        for (size_t i = time == 0 ? 0 : 2; i < sizeof values / sizeof values[0]; i++) {
            (void)probe_text(st.probe, "SET " COUNTER " %s", values[i]);
            expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
            cr_assert(strstr(err.message, "counter of fencing tokens") != NULL || strstr(err.message, "incr") != NULL,
                      "%s", err.message);
            expect(0, rdl_is_held(lock, &err));
            cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, SOON_MS));
        }
        (void)probe_text(st.probe, "SET " COUNTER " -5"); /* the server's clock is above it */
        if (time == 1) {
            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            cr_assert_gt(rdl_token(lock, &err), INT64_C(1) << 40);
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
        lock_over(st.probe, lock);
        live_again();
    }
}
