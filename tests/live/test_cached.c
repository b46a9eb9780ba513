/* SPDX-License-Identifier: MIT */
/* test_cached.c - locks that stay with their client after the unlock (option cache_ms), each type that can. */
#include "tests/live/kept.h"

#define CACHE_MS 2000
#define LEASE_MS 10000
#define CHANNEL "redlatch_recall:{" NAME "}"
#define WAKE "redisson_lock__channel:{" NAME "}"

LIVE_SUITE(cached, 60);

typedef rdl_lock_t *make_fn(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
static make_fn *const makes[] = {reentrant, nonreentrant, spin, fenced};
#define EACH_TYPE(make)                                                                                                \
    make_fn *const *make = makes;                                                                                      \
    make < makes + sizeof makes / sizeof makes[0];                                                                     \
    make++

static rdl_lock_t *cached(make_fn *make, rdl_client_t *client)
{
    return make(client, NAME, LOCK_OPTIONS(.cache_ms = CACHE_MS));
}

static rdl_metrics_t *metrics;

static int waiting(void)
{
    return waiting_for(metrics, NAME);
}

Test(cached, pair_of_a_kept_lock_sends_nothing)
{
    for (EACH_TYPE(make)) {
        struct monitor *monitor;
        rdl_lock_t *lock;
        size_t mark;

        stage_open(&st);
        lock = cached(*make, st.client);
        make_idle(lock);
        monitor = monitor_start(st.server);
        mark = monitor_mark(monitor);
        for (int i = 0; i < 100; i++) {
            take(lock);
            expect(1, rdl_is_held(lock, &err));
            expect(RDL_HELD, rdl_hold_state(lock, &err));
            give(lock);
            expect(0, rdl_is_held(lock, &err));
        }
        (void)monitor_mark(monitor);
        cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
        monitor_stop(monitor);
        lock_over(st.probe, lock);
        live_again();
    }
}

Test(cached, somebody_else_has_an_idle_lock_at_once)
{
    for (EACH_TYPE(make)) {
        rdl_client_t *other;
        rdl_lock_t *lock, *elsewhere;

        stage_open(&st);
        other = client_open(stage_uri(&st), NULL);
        lock = cached(*make, st.client);
        elsewhere = (*make)(other, NAME, NULL);
        for (int i = 0; i < 3; i++) {
            make_idle(lock);
            expect(RDL_OK, rdl_try_lock(elsewhere, 1500, LEASE_MS, &err)); /* less than the cache, and than a look */
            cr_assert(!is_kept());
            expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
            give(elsewhere);
        }
        rdl_lock_free(elsewhere);
        rdl_client_close(other);
        lock_over(st.probe, lock);
        live_again();
    }
}

/* Nobody is told that it is given back. All who poll have tried after what their policy says, and after 5 s at most. */
Test(cached, spin_lock_that_was_recalled_is_kept_again_when_all_have_tried)
{
    for (int fixed = 1; fixed >= 0; fixed--) {
        const rdl_retry_t retry = {fixed ? RDL_RETRY_FIXED : RDL_RETRY_EXPONENTIAL, 1, 3600000};
        rdl_lock_t *lock, *elsewhere;
        rdl_client_t *other;

        stage_open(&st);
        other = client_open(stage_uri(&st), NULL);
        lock = spin(st.client, NAME, LOCK_OPTIONS(.cache_ms = CACHE_MS, .retry = retry));
        elsewhere = spin(other, NAME, NULL);
        make_idle(lock);
        expect(RDL_OK, rdl_try_lock(elsewhere, 1500, LEASE_MS, &err));
        give(elsewhere);
        cr_assert(WAIT_UNTIL(is_kept_after_a_pair(lock), fixed ? 3000 : 3 * SOON_MS));
        rdl_lock_free(elsewhere);
        rdl_client_close(other);
        lock_over(st.probe, lock);
        live_again();
    }
}

Test(cached, is_given_back_when_it_has_been_kept_for_long_enough)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 300));
    make_idle(lock);
    cr_assert(stage_is_clean(&st, SOON_MS)); /* neither a key nor a subscription */
    make_idle(lock);
    rdl_lock_free(lock);
    cr_assert(stage_is_clean(&st, SOON_MS));
}

Test(cached, last_handle_and_close_give_an_idle_lock_back)
{
    rdl_client_t *other;
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 60000));
    make_idle(lock);
    rdl_lock_free(lock);
    cr_assert(stage_is_clean(&st, SOON_MS));
    other = client_open(stage_uri(&st), NULL);
    lock = reentrant(other, NAME, LOCK_OPTIONS(.cache_ms = 60000));
    make_idle(lock);
    rdl_client_close(other);
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

Test(cached, holds_nest_and_are_counted)
{
    struct caller *rival = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = cached(reentrant, st.client);
    make_idle(lock);
    for (int i = 1; i <= 5; i++) {
        take(lock);
        expect(i, rdl_hold_count(lock, &err));
    }
    caller_try_lock(rival, lock, 0, LEASE_MS);
    expect_result(RDL_ETIMEDOUT, rival, SOON_MS);
    caller_unlock(rival, lock);
    expect_result(RDL_ENOTOWNER, rival, SOON_MS);
    expect(1, rdl_is_locked(lock, &err));
    for (int i = 4; i >= 0; i--) {
        give(lock);
        expect(i, rdl_hold_count(lock, &err));
    }
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    expect(0, rdl_is_locked(lock, &err));
    expect(0, rdl_remaining_ms(lock, &err));
    cr_assert(is_kept());
    caller_try_lock(rival, lock, 0, LEASE_MS);
    expect_result(RDL_OK, rival, SOON_MS);
    caller_unlock(rival, lock);
    expect_result(RDL_OK, rival, SOON_MS);
    caller_free(rival);
    rdl_lock_free(lock);
}

Test(cached, second_take_of_a_nonreentrant_lock_by_its_owner_is_refused)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = cached(nonreentrant, st.client);
    make_idle(lock);
    take(lock);
    expect(RDL_EDEADLK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    give(lock);
    rdl_lock_free(lock);
}

Test(cached, threads_pass_it_on_without_the_server_in_the_order_in_which_they_came)
{
    enum { WAITERS = 5 };
    struct caller *callers[WAITERS];
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.metrics = metrics));
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 10 * CACHE_MS)); /* not old before the end */
    make_idle(lock);
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    take(lock);
    for (int i = 0; i < WAITERS; i++) {
        callers[i] = caller_new();
        caller_lock(callers[i], lock, i % 2 == 0 ? RDL_LEASE_AUTO : LEASE_MS / 5);
        cr_assert(WAIT_UNTIL(waiting() == i + 1, SOON_MS)); /* they come one after another */
    }
    give(lock);
    for (int i = 0; i < WAITERS; i++) {
        expect_result(RDL_OK, callers[i], SOON_MS);
        for (int later = i + 1; later < WAITERS; later++)
            cr_assert(!caller_idle(callers[later]));
        caller_unlock(callers[i], lock);
        expect_result(RDL_OK, callers[i], SOON_MS);
    }
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
    monitor_stop(monitor);
    for (int i = 0; i < WAITERS; i++)
        caller_free(callers[i]);
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    cr_assert_null(rdl_metrics_free(metrics));
}

Test(cached, explicit_lease_that_has_passed_is_lost_and_the_next_one_comes_in)
{
    struct caller *next = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = cached(fenced, st.client);
    make_idle(lock);
    expect(RDL_OK, rdl_on_lost(lock, on_lost, NULL, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, 500, &err));
    caller_lock(next, lock, RDL_LEASE_AUTO);
    expect_result(RDL_OK, next, SOON_MS);
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    cr_assert_eq(reasons[RDL_LOSS_LEASE], 1);
    expect(RDL_LOST, rdl_hold_state(lock, &err));
    expect(RDL_ELOST, rdl_try_lock(lock, 0, 500, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err)); /* ends nobody else's */
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, 500, &err));
    caller_unlock(next, lock);
    expect_result(RDL_OK, next, SOON_MS);
    cr_assert_eq(lost, 1);
    caller_free(next);
    lock_over(st.probe, lock);
}

Test(cached, tokens_grow_with_every_owner)
{
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;
    int64_t last = 0;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = cached(fenced, st.client);
    elsewhere = fenced(other, NAME, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 6000; i++) { /* more than one take reserves */
            int64_t token;

            take(lock);
            token = rdl_token(lock, &err);
            cr_assert_gt(token, last);
            last = token;
            give(lock);
        }
        take(elsewhere);
        cr_assert_gt(rdl_token(elsewhere, &err), last);
        last = rdl_token(elsewhere, &err);
        give(elsewhere);
    }
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    lock_over(st.probe, lock);
}

/* Of the server's time: whoever comes next, here or elsewhere, has a higher one, and Java counts on from it. */
Test(cached, tokens_of_time_grow_with_every_owner)
{
    const rdl_lock_options_t *plain = LOCK_OPTIONS(.fencing = RDL_FENCING_TIME);
    const rdl_lock_options_t *kept = LOCK_OPTIONS(.cache_ms = CACHE_MS, .fencing = RDL_FENCING_TIME);

    for (EACH_TYPE(make)) {
        rdl_client_t *other;
        rdl_lock_t *lock, *elsewhere;
        int64_t last = 0;

        stage_open(&st);
        other = client_open(stage_uri(&st), NULL);
        lock = (*make)(st.client, NAME, kept);
        elsewhere = (*make)(other, NAME, plain);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 2000 || !is_kept(); i++) {
                take(lock);
                cr_assert_gt(rdl_token(lock, &err), last);
                last = rdl_token(lock, &err);
                if (*make != nonreentrant) { /* nested, it is the same */
                    take(lock);
                    cr_assert_eq(rdl_token(lock, &err), last);
                    give(lock);
                }
                give(lock);
            }
            if (*make == fenced)
                cr_assert_gt(probe_int(st.probe, "INCR redisson_lock_token:{" NAME "}"), last);
            take(elsewhere);
            cr_assert_gt(rdl_token(elsewhere, &err), last);
            last = rdl_token(elsewhere, &err);
            give(elsewhere);
        }
        rdl_lock_free(elsewhere);
        rdl_client_close(other);
        lock_over(st.probe, lock);
        live_again();
    }
}

/* Once they were asked for they last for as many owners as microseconds had gone by. */
Test(cached, tokens_of_time_are_asked_for_once_for_many_owners)
{
    for (EACH_TYPE(make)) {
        struct monitor *monitor;
        rdl_lock_t *lock;
        int64_t first;
        size_t mark;

        stage_open(&st);
        lock = (*make)(st.client, NAME, LOCK_OPTIONS(.cache_ms = 10 * CACHE_MS, .fencing = RDL_FENCING_TIME));
        make_idle(lock);
        first = now_ms();
        cr_assert(WAIT_UNTIL(now_ms() > first + 20, SOON_MS));
        take(lock);
        give(lock);
        monitor = monitor_start(st.server);
        mark = monitor_mark(monitor);
        for (int i = 0; i < 1000; i++) {
            expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
            give(lock);
        }
        (void)monitor_mark(monitor);
        cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
        monitor_stop(monitor);
        lock_over(st.probe, lock);
        live_again();
    }
}

static int64_t take_turns(void *lock, rdl_err_t *why)
{
    int64_t rc = RDL_OK;

    for (int i = 0; i < 100 && rc == RDL_OK; i++)
        if ((rc = rdl_lock(lock, RDL_LEASE_AUTO, why)) == RDL_OK)
            rc = rdl_unlock(lock, why);
    return rc;
}

/* A single try waits for them as for any answer; and threads that come together each get theirs. */
Test(cached, tokens_of_time_that_have_to_be_asked_for_are_waited_for)
{
    enum { THREADS = 4 };
    struct caller *callers[THREADS];
    rdl_lock_t *lock;

    stage_open(&st);
    lock = fenced(st.client, NAME, LOCK_OPTIONS(.cache_ms = 10 * CACHE_MS, .fencing = RDL_FENCING_TIME));
    make_idle(lock);
    for (int i = 0; i < 300; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        give(lock);
    }
    for (int i = 0; i < THREADS; i++)
        caller_call(callers[i] = caller_new(), take_turns, lock);
    for (int i = 0; i < THREADS; i++) {
        expect_result(RDL_OK, callers[i], SOON_MS);
        caller_free(callers[i]);
    }
    lock_over(st.probe, lock);
}

Test(cached, evicted_hold_is_lost_for_whoever_is_inside)
{
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = cached(reentrant, st.client);
    elsewhere = reentrant(other, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, on_lost, NULL, &err));
    make_idle(lock);
    take(lock);
    expect(1, rdl_force_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    cr_assert_eq(reasons[RDL_LOSS_GONE], 1);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    make_idle(lock);
    expect(1, rdl_force_unlock(elsewhere, &err));
    expect(RDL_OK, rdl_try_lock(elsewhere, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 300, LEASE_MS, &err));
    give(elsewhere);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    rdl_lock_free(lock);
}

/* Past `until` the loop's timer is off: the loss itself has it look again. */
Test(cached, name_whose_hold_was_lost_late_is_not_listened_for_for_ever)
{
    rdl_lock_t *lock;
    int64_t held_at;

    stage_open(&st);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 100));
    expect(RDL_OK, rdl_on_lost(lock, on_lost, NULL, &err));
    do { /* what is kept is kept from the first owner on */
        take(lock);
        if (is_kept())
            break;
        give(lock);
    } while (true);
    held_at = now_ms();
    cr_assert(WAIT_UNTIL(now_ms() > held_at + 200, SOON_MS));
    expect(1, rdl_force_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert(stage_is_clean(&st, SOON_MS)); /* no subscription */
    lock_over(st.probe, lock);
}

Test(cached, thread_that_ends_inside_keeps_it_for_a_lease_at_most)
{
    struct caller *dying = caller_new();
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 2000));
    lock = cached(reentrant, st.client);
    make_idle(lock);
    expect(RDL_OK, rdl_on_lost(lock, on_lost, NULL, &err));
    caller_lock(dying, lock, RDL_LEASE_AUTO);
    expect_result(RDL_OK, dying, SOON_MS);
    caller_free(dying);
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    cr_assert_eq(reasons[RDL_LOSS_THREAD_EXIT], 1);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(lock, 8000, LEASE_MS, &err));
    give(lock);
    rdl_lock_free(lock);
}

Test(cached, options_that_do_not_go_with_it_are_refused)
{
    rdl_lock_t *lock = NULL, *multi = NULL;

    stage_open(&st);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = -1), &lock, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = 60001), &lock, &err));
    expect(RDL_EINVAL, rdl_fair_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = 1000), &lock, &err));
    expect(RDL_EINVAL, rdl_simple_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = 1000), &lock, &err));
    lock = cached(reentrant, st.client);
    expect(RDL_EINVAL, rdl_multi_lock(&lock, 1, NULL, &multi, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, NULL, &multi, &err));
    rdl_lock_free(lock);
}

/* ---- asynchronous verbs ----------------------------------------------------------------------------------------- */

Test(cached, asynchronous_verbs_call_back_and_never_inside_the_call)
{
    rdl_owner_t *one = NULL, *two = NULL;
    rdl_op_t *op = NULL;
    rdl_lock_t *lock;

    stage_open(&st);
    lock = cached(reentrant, st.client);
    make_idle(lock);
    expect(RDL_OK, rdl_owner_new(st.client, &one, &err));
    expect(RDL_OK, rdl_owner_new(st.client, &two, &err));
    calling = true;
    expect(RDL_OK, rdl_try_lock_async(lock, one, 0, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
    calling = false;
    expect_done(RDL_OK);
    expect(RDL_OK, rdl_try_lock_async(lock, two, 100, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
    expect_done(RDL_ETIMEDOUT);
    expect(RDL_OK, rdl_try_lock_async(lock, two, 8000, RDL_LEASE_AUTO, on_done, NULL, &op, &err));
    rdl_op_cancel(op);
    expect_done(RDL_ECANCELED);
    rdl_op_free(op);
    expect(RDL_OK, rdl_lock_async(lock, two, 2000, on_done, NULL, NULL, &err));
    expect(RDL_OK, rdl_unlock_async(lock, one, on_done, NULL, NULL, &err));
    cr_assert(WAIT_UNTIL(called == 5, SOON_MS));
    expect(RDL_HELD, rdl_owner_hold_state(two, lock, &err));
    expect(RDL_NOT_HELD, rdl_owner_hold_state(one, lock, &err));
    expect(RDL_OK, rdl_unlock_async(lock, two, NULL, NULL, NULL, &err));
    cr_assert(WAIT_UNTIL(rdl_owner_hold_state(two, lock, &err) == RDL_NOT_HELD, SOON_MS));
    take(lock);
    give(lock);
    rdl_owner_free(one);
    rdl_owner_free(two);
    rdl_lock_free(lock);
}

/* ---- metrics ---------------------------------------------------------------------------------------------------- */

static int64_t counted(rdl_metric_t metric)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, metric, &value);
    return (int64_t)value.sum;
}

static int64_t ended(void)
{
    int64_t sum = 0;

    for (rdl_metric_t m = RDL_M_KEPT_RECALLED; m <= RDL_M_KEPT_LOST; m++)
        sum += counted(m);
    return sum;
}

/* One more kept hold has ended, so, and each that ended was counted once. */
static void expect_ended(rdl_metric_t how, int64_t times)
{
    cr_assert(WAIT_UNTIL(counted(how) == times, SOON_MS), "%s: %" PRId64, rdl_metric_name(how), counted(how));
    cr_assert_eq(ended(), counted(RDL_M_KEPT));
}

Test(cached, each_kept_hold_is_counted_by_how_it_ended)
{
    struct caller *dying = caller_new();
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere, *brief;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.metrics = metrics, .watchdog_lease_ms = 3000));
    other = client_open(stage_uri(&st), NULL);
    elsewhere = reentrant(other, NAME, NULL);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 60000));
    make_idle(lock);
    take(elsewhere);
    expect_ended(RDL_M_KEPT_RECALLED, 1);
    give(elsewhere);
    make_idle(lock);
    expect(1, rdl_force_unlock(elsewhere, &err));
    expect_ended(RDL_M_KEPT_EVICTED, 1);
    make_idle(lock);
    expect(1, (int64_t)probe_int(st.probe, "CLIENT KILL TYPE pubsub SKIPME yes") > 0);
    expect_ended(RDL_M_KEPT_UNHEARD, 1);
    make_idle(lock);
    take(lock);
    expect(RDL_OK, rdl_extend(lock, 100000, &err));
    give(lock);
    expect_ended(RDL_M_KEPT_SHORT, 1);
    make_idle(lock);
    caller_lock(dying, lock, RDL_LEASE_AUTO);
    expect_result(RDL_OK, dying, SOON_MS);
    caller_free(dying);
    expect_ended(RDL_M_KEPT_LOST, 1);
    cr_assert(WAIT_UNTIL(!is_kept(), SOON_MS));
    make_idle(lock);
    rdl_lock_free(lock);
    expect_ended(RDL_M_KEPT_CLOSED, 1);
    brief = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 100));
    make_idle(brief);
    expect_ended(RDL_M_KEPT_EXPIRED, 1);
    rdl_lock_free(brief);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    st.client = rdl_client_close(st.client);
    cr_assert_null(rdl_metrics_free(metrics));
}

/* Whoever was refused by another hold has recalled that, and not the one that is granted here meanwhile. */
Test(cached, owner_who_was_refused_at_the_server_is_not_left_beside_an_idle_lock)
{
    struct caller *early = caller_new(), *late = caller_new();
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;
    int refusal;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .proxied = true, .client = OPTIONS(.metrics = metrics));
    other = client_open(server_uri(st.server), NULL);
    elsewhere = reentrant(other, NAME, NULL);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 60000));
    make_idle(lock);
    for (int i = 0; i < 3; i++) { /* that makes it worth keeping */
        take(lock);
        give(lock);
    }
    cr_assert(WAIT_UNTIL(rdl_try_lock(elsewhere, 0, LEASE_MS, &err) == RDL_OK, SOON_MS)); /* it does not listen */
    refusal = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    caller_lock(early, lock, RDL_LEASE_AUTO);
    cr_assert(proxy_wait(st.proxy, refusal, 1, SOON_MS));
    caller_lock(late, lock, RDL_LEASE_AUTO);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, WAKE) == 1, SOON_MS)); /* the take that is to be kept */
    expect(1, waiting());
    proxy_let_go(st.proxy, refusal);
    cr_assert(WAIT_UNTIL(waiting() == 2, SOON_MS));
    give(elsewhere);
    expect_result(RDL_OK, late, SOON_MS);
    cr_assert(is_kept_or_wanted());
    caller_unlock(late, lock);
    expect_result(RDL_OK, late, SOON_MS);
    expect_result(RDL_OK, early, SOON_MS);
    cr_assert_eq(counted(RDL_M_RECALLS), 1, "it has waited until it looked"); /* that one was the other's */
    cr_assert_eq(counted(RDL_M_KEPT_RECALLED), 2);
    caller_free(early);
    caller_free(late);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    cr_assert_null(rdl_metrics_free(metrics));
}

/* Does the server have a hold of that name? */
static bool is_there(const char *name)
{
    return probe_int(st.probe, "EXISTS %s", name) == 1;
}

static void use(rdl_lock_t *lock, int times)
{
    for (int i = 0; i < times; i++) {
        take(lock);
        give(lock);
    }
}

/* A lock of each name. */
static void make_each(rdl_lock_t **locks, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        locks[i] = reentrant(st.client, names[i], LOCK_OPTIONS(.cache_ms = 30 * CACHE_MS));
}

/* However often it is used meanwhile. */
static void use_until_kept(rdl_lock_t *lock, const char *name)
{
    for (int tries = 0; tries < 1000 && !is_there(name); tries++)
        use(lock, 1);
    cr_assert(is_there(name), "%s never gets a place", name);
}

static void free_each(rdl_lock_t **locks, int count)
{
    for (int i = 0; i < count; i++)
        rdl_lock_free(locks[i]);
    st.client = rdl_client_close(st.client);
}

/* Of more names than a client may keep those are kept that are wanted; and one that is taken once costs no more than
 * without the option. */
Test(cached, names_beyond_as_many_as_may_be_kept_take_the_place_of_what_is_wanted_least)
{
    rdl_lock_t *locks[3];
    const char *const names[] = {"first", "second", "third"};

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.metrics = metrics, .cache_names = 2));
    make_each(locks, names, 3);
    for (int i = 0; i < 2; i++)
        use_until_kept(locks[i], names[i]);
    cr_assert(is_there("first") && is_there("second"));
    use(locks[0], 1);
    use(locks[2], 1);
    cr_assert(is_there("first") && is_there("second"), "a name that was taken once has taken a place");
    use_until_kept(locks[2], "third");
    cr_assert(is_there("first"), "what was wanted since has gone");
    cr_assert_not(is_there("second"));
    expect(1, counted(RDL_M_KEPT_EXPIRED));
    free_each(locks, 3);
    cr_assert_null(rdl_metrics_free(metrics));
}

static void on_another(rdl_lock_t *lock, int64_t result, const rdl_err_t *why, void *arg)
{
    (void)lock;
    (void)why;
    *(_Atomic int64_t *)arg = result;
}

/* A name that is wanted again while another still makes room for it needs no more room. */
Test(cached, only_one_name_leaves_for_another)
{
    rdl_lock_t *locks[4];
    const char *const names[] = {"first", "second", "last", "another"};
    rdl_owner_t *one = NULL, *two = NULL;
    _Atomic int64_t taken = 1, refused = 1;
    int leaving;

    stage_open(&st, .proxied = true, .client = OPTIONS(.cache_names = 3));
    expect(RDL_OK, rdl_owner_new(st.client, &one, &err));
    expect(RDL_OK, rdl_owner_new(st.client, &two, &err));
    make_each(locks, names, 4);
    for (int i = 0; i < 3; i++)
        use_until_kept(locks[i], names[i]);
    use(locks[3], 1);
    leaving = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = "first");
    expect(RDL_OK, rdl_lock_async(locks[3], one, RDL_LEASE_AUTO, on_another, (void *)&taken, NULL, &err));
    cr_assert(proxy_wait(st.proxy, leaving, 1, SOON_MS));
    expect(RDL_OK, rdl_try_lock_async(locks[3], two, 0, RDL_LEASE_AUTO, on_another, (void *)&refused, NULL, &err));
    for (int i = 2; i >= 1; i--) { /* the loop sees to one after the other; the server answers nothing yet */
        expect(RDL_OK, rdl_try_lock_async(locks[i], one, 0, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
        expect_done(RDL_OK);
    }
    proxy_let_go(st.proxy, leaving);
    cr_assert(WAIT_UNTIL(taken == RDL_OK && refused == RDL_ETIMEDOUT, SOON_MS));
    cr_assert_not(is_there("first"));
    for (int i = 3; i >= 1; i--) {
        expect(RDL_OK, rdl_unlock_async(locks[i], one, on_done, NULL, NULL, &err));
        expect_done(RDL_OK);
    }
    rdl_owner_free(one);
    rdl_owner_free(two);
    free_each(locks, 4);
}

/* It was to make room, and is taken anew instead, and held elsewhere: another makes room. */
Test(cached, name_that_was_to_make_room_and_is_waited_for_bars_no_other)
{
    rdl_client_t *other;
    rdl_lock_t *locks[3], *there;
    struct caller *early = caller_new();
    const char *const names[] = {"first", "second", "another"};
    int leaving;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .proxied = true, .client = OPTIONS(.metrics = metrics, .cache_names = 2));
    other = client_open(server_uri(st.server), NULL);
    there = reentrant(other, "first", NULL);
    make_each(locks, names, 3);
    for (int i = 0; i < 2; i++) {
        use_until_kept(locks[i], names[i]);
        use(locks[i], 8); /* so it is kept again by its next take */
    }
    leaving = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = "first");
    use(locks[2], 2);
    cr_assert(proxy_wait(st.proxy, leaving, 1, SOON_MS));
    expect(RDL_OK, rdl_try_lock(there, 0, LEASE_MS, &err));
    caller_lock(early, locks[0], RDL_LEASE_AUTO);
    cr_assert(WAIT_UNTIL(waiting_for(metrics, "first") == 1, SOON_MS)); /* for the answer */
    proxy_let_go(st.proxy, leaving);
    use_until_kept(locks[2], "another");
    expect(RDL_OK, rdl_unlock(there, &err));
    expect_result(RDL_OK, early, SOON_MS);
    caller_unlock(early, locks[0]);
    expect_result(RDL_OK, early, SOON_MS);
    caller_free(early);
    rdl_lock_free(there);
    rdl_client_close(other);
    free_each(locks, 3);
    cr_assert_null(rdl_metrics_free(metrics));
}

/* What is idle has to be given back for a lease that is as long as the kept hold's. */
Test(cached, single_try_is_not_refused_of_what_its_own_client_keeps)
{
    for (EACH_TYPE(make)) {
        rdl_lock_t *lock;

        stage_open(&st);
        lock = cached(*make, st.client);
        for (int i = 0; i < 3; i++) {
            make_idle(lock);
            expect(RDL_OK, rdl_try_lock(lock, 0, 3 * LEASE_MS, &err));
            give(lock);
        }
        make_idle(lock);
        expect(RDL_OK, rdl_try_lock_async(lock, NULL, 0, 3 * LEASE_MS, on_done, NULL, NULL, &err));
        expect_done(RDL_OK);
        give(lock);
        lock_over(st.probe, lock);
        live_again();
    }
}

Test(cached, lock_that_all_have_given_up_is_taken_for_nobody)
{
    rdl_lock_t *lock, *elsewhere;
    rdl_client_t *other;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    lock = cached(reentrant, st.client);
    elsewhere = reentrant(other, NAME, NULL);
    make_idle(lock);
    cr_assert(WAIT_UNTIL(rdl_try_lock(elsewhere, 0, LEASE_MS, &err) == RDL_OK, SOON_MS)); /* it listens to nothing */
    for (int i = 0; i < 6; i++) /* each second one, or fourth, is for a hold that is to be kept */
        expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 50, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, WAKE) == 0, SOON_MS), "somebody waits on");
    give(elsewhere);
    expect(RDL_OK, rdl_try_lock(elsewhere, 0, LEASE_MS, &err));
    give(elsewhere);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    rdl_lock_free(lock);
}
