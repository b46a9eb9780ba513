/* SPDX-License-Identifier: MIT */
/* test_cancel.c - a cancelled acquire leaves nothing: no key, no renewal, no subscription; and takes nobody's wake-up.
 */
#include "tests/live/live.h"

#define NAME "canceled"
#define LEASE_MS 10000

LIVE_SUITE(cancel, 120);

static rdl_owner_t *owner_new(void)
{
    rdl_owner_t *owner = NULL;

    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    return owner;
}

/* The call was cancelled or it won; if it won, what it has is given back. */
static void settle(struct outcome *o, rdl_owner_t *owner, rdl_lock_t *lock)
{
    struct outcome given_back = {0};
    int64_t rc = outcome_wait(o, SOON_MS);

    cr_assert(rc == RDL_OK || rc == RDL_ECANCELED, "%s: %s", code_name(rc), o->err.message);
    cr_assert_eq(atomic_load(&o->calls), 1);
    if (rc == RDL_OK) {
        expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &given_back, NULL, &err));
        expect(RDL_OK, outcome_wait(&given_back, SOON_MS));
    }
}

Test(cancel, waiting_acquire_ends_at_once)
{
    struct outcome o = {0};
    rdl_op_t *op = NULL;
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st);
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &o, &op, &err));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    start = now_us();
    rdl_op_cancel(op);
    expect(RDL_ECANCELED, outcome_wait(&o, SOON_MS));
    expect_err_names(&o.err, RDL_ECANCELED, NAME);
    cr_assert_lt(o.at_us - start, SLACK_MS * 1000);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    rdl_op_cancel(op); /* twice is once */
    rdl_op_free(op);
    (void)foreign_release(st.probe, NAME);
    let_pass_ms(20);
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

/* A4, asynchronous: cancelled 0 to 5 ms after it has started, on a free lock and on a taken one. */
Test(cancel, thousand_rounds_at_any_moment_leave_nothing)
{
    enum { ROUNDS = 1000, WATCHDOG_LEASE_MS = 3000 /* no machine stands still for that long */ };
    struct monitor *monitor;
    rdl_client_t *other;
    rdl_owner_t *owner;
    size_t mark;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = WATCHDOG_LEASE_MS));
    other = client_open(stage_uri(&st), NULL);
    owner = owner_new();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *rival = kind->rival(other, NAME, NULL);

        for (int i = 0; i < ROUNDS; i++) {
            struct outcome o = {0};
            rdl_op_t *op = NULL;
            int64_t when =
                now_us() + (i * 37 % 5000) / (i % 4 == 0 ? 1 : 20); /* most within the first quarter of a ms */

            if (i % 2 == 0)
                expect(RDL_OK, rdl_try_lock(rival, SOON_MS, LEASE_MS, &err)); /* what was canceled is being undone */
            expect(RDL_OK, rdl_lock_async(lock, owner, RDL_LEASE_AUTO, outcome_note, &o, &op, &err));
            while (now_us() < when)
                ;
            rdl_op_cancel(op);
            settle(&o, owner, lock);
            rdl_op_free(op);
            if (i % 2 == 0)
                expect(RDL_OK, rdl_unlock(rival, &err));
        }
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, CLEAN_BOUND_MS), "%s", kind->type);
        rdl_lock_free(rival);
        lock_over(st.probe, lock);
    }
    cr_assert(stage_is_clean(&st, CLEAN_BOUND_MS));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    let_pass_ms(WATCHDOG_LEASE_MS * 2 / 5);
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, "EVALSHA"), 0); /* no renewal */
    cr_assert_eq(probe_keys(st.probe), 0);
    monitor_stop(monitor);
    rdl_owner_free(owner);
    rdl_client_close(other);
}

/* A4 through a slow line: the request, or its answer, is on its way when the call is cancelled. */
Test(cancel, acquire_that_is_on_its_way_is_undone)
{
    enum { ROUNDS = 60 };
    rdl_owner_t *owner;

    stage_open(&st, .proxied = true);
    owner = owner_new();
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 4);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        for (int i = 0; i < ROUNDS; i++) {
            struct outcome o = {0};
            rdl_op_t *op = NULL;
            int64_t when = now_us() + i * 12000 / ROUNDS;

            expect(RDL_OK, rdl_try_lock_async(lock, owner, 5000, RDL_LEASE_AUTO, outcome_note, &o, &op, &err));
            while (now_us() < when)
                ;
            rdl_op_cancel(op);
            settle(&o, owner, lock);
            rdl_op_free(op);
        }
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, CLEAN_BOUND_MS), "%s", kind->type);
        lock_over(st.probe, lock);
    }
    cr_assert(stage_is_clean(&st, CLEAN_BOUND_MS));
    rdl_owner_free(owner);
}

static int64_t lock_as_owner(void *arg, rdl_err_t *reterr)
{
    void **args = arg;
    int rc = rdl_owner_bind(args[0], reterr);

    return rc < 0 ? rc : rdl_lock(args[1], RDL_LEASE_AUTO, reterr);
}

/* A4, blocking: rdl_owner_cancel ends what the owner's thread waits for. */
Test(cancel, blocked_call_of_a_bound_owner_is_ended_by_another_thread)
{
    struct caller *caller = caller_new();
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    void *args[2];

    stage_open(&st);
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    args[0] = owner;
    args[1] = lock;
    foreign_take(st.probe, NAME, LEASE_MS);
    caller_call(caller, lock_as_owner, args);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(1, rdl_owner_cancel(owner));
    expect_result(RDL_ECANCELED, caller, WOKEN_MS);
    expect(0, rdl_owner_cancel(owner)); /* later calls are not affected */
    (void)foreign_release(st.probe, NAME);
    caller_call(caller, lock_as_owner, args);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_unlock(caller, lock);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

Test(cancel, blocked_call_that_waits_for_an_answer_is_ended_and_undone)
{
    struct caller *caller = caller_new();
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    void *args[2];
    int reply;

    stage_open(&st, .proxied = true);
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    args[0] = owner;
    args[1] = lock;
    reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    caller_call(caller, lock_as_owner, args);
    cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS));
    cr_assert_eq(probe_keys(st.probe), 1); /* it ran */
    expect(1, rdl_owner_cancel(owner));
    expect_result(RDL_ECANCELED, caller, WOKEN_MS);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS)); /* and is undone, the reply still held back */
    proxy_let_go(st.proxy, reply);
    caller_free(caller);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

/* protocol.md, 5.4: a message wakes the first waiter just as it is cancelled; the second must not sleep on. */
Test(cancel, cancelled_waiter_hands_an_unused_wake_up_on)
{
    enum { ROUNDS = 200 };
    rdl_owner_t *first, *second;
    rdl_lock_t *lock;

    stage_open(&st);
    first = owner_new();
    second = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        struct outcome o[3] = {0};
        rdl_op_t *op = NULL;
        int64_t when;

        foreign_take(st.probe, NAME, LEASE_MS);
        expect(RDL_OK, rdl_lock_async(lock, first, LEASE_MS, outcome_note, &o[0], &op, &err));
        expect(RDL_OK, rdl_lock_async(lock, second, LEASE_MS, outcome_note, &o[1], NULL, &err));
        cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS redisson_lock__channel:{" NAME "}") == 1, SOON_MS));
        (void)foreign_release(st.probe, NAME);
        for (when = now_us() + i * 2; now_us() < when;)
            ;
        rdl_op_cancel(op);
        settle(&o[0], first, lock);
        expect(RDL_OK, outcome_wait(&o[1], WOKEN_MS));
        expect(RDL_OK, rdl_unlock_async(lock, second, outcome_note, &o[2], NULL, &err));
        expect(RDL_OK, outcome_wait(&o[2], SOON_MS));
        rdl_op_free(op);
        cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    }
    rdl_owner_free(first);
    rdl_owner_free(second);
    rdl_lock_free(lock);
}

Test(cancel, other_verbs_are_not_affected)
{
    struct outcome locked = {0}, extended = {0}, unlocked = {0};
    rdl_op_t *op = NULL;
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true);
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &locked, NULL, &err));
    expect(RDL_OK, outcome_wait(&locked, SOON_MS));
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 20);
    expect(RDL_OK, rdl_extend_async(lock, owner, 2 * LEASE_MS, outcome_note, &extended, &op, &err));
    rdl_op_cancel(op);
    rdl_op_free(op);
    expect(RDL_OK, outcome_wait(&extended, SOON_MS));
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &unlocked, &op, &err));
    rdl_op_cancel(op);
    rdl_op_free(op);
    expect(RDL_OK, outcome_wait(&unlocked, SOON_MS));
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

/* The outcome of a call without a connection is decided by the cancel as well. */
Test(cancel, acquire_without_a_connection_is_ended)
{
    struct outcome o = {0};
    rdl_op_t *op = NULL;
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true);
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &o, &op, &err));
    let_pass_ms(50);
    cr_assert_eq(atomic_load(&o.calls), 0);
    rdl_op_cancel(op);
    expect(RDL_ECANCELED, outcome_wait(&o, WOKEN_MS));
    proxy_refuse(st.proxy, false);
    rdl_op_free(op);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}
