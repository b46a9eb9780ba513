/* SPDX-License-Identifier: MIT */
/* test_owner.c - who holds: a thread, unless the program names an owner. */
#include "tests/live/live.h"

#define NAME "baton"
#define LEASE_MS 10000

LIVE_SUITE(owner, 60);

static rdl_owner_t *owner_new(void)
{
    rdl_owner_t *owner = NULL;

    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    return owner;
}

static int64_t bind_owner(void *owner, rdl_err_t *reterr)
{
    return rdl_owner_bind(owner, reterr);
}

static int64_t unbind_owner(void *client, rdl_err_t *reterr)
{
    (void)reterr;
    rdl_owner_unbind(client);
    return RDL_OK;
}

static int64_t ask_held(void *lock, rdl_err_t *reterr)
{
    return rdl_is_held(lock, reterr);
}

Test(owner, threads_are_owners_of_their_own)
{
    struct caller *one = caller_new();
    struct caller *two = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    caller_try_lock(one, lock, 0, LEASE_MS);
    expect_result(RDL_OK, one, SOON_MS);
    caller_try_lock(two, lock, 0, LEASE_MS);
    expect_result(RDL_ETIMEDOUT, two, SOON_MS);
    caller_unlock(two, lock);
    expect_result(RDL_ENOTOWNER, two, SOON_MS);
    caller_unlock(one, lock);
    expect_result(RDL_OK, one, SOON_MS);
    caller_free(one);
    caller_free(two);
    rdl_lock_free(lock);
}

static int64_t take(void *lock, rdl_err_t *reterr)
{
    return rdl_try_lock(lock, 0, LEASE_MS, reterr);
}

/* The thread acts as the owner from now on. */
static void act_as(struct caller *thread, rdl_owner_t *owner)
{
    caller_call(thread, bind_owner, owner);
    expect_result(RDL_OK, thread, SOON_MS);
}

/* T11: taken on one thread, given back on another. */
Test(owner, T11_hold_of_a_named_owner_moves_between_threads)
{
    struct caller *one = caller_new();
    struct caller *two = caller_new();
    rdl_owner_t *owner;

    stage_open(&st);
    owner = owner_new();
    act_as(one, owner);
    act_as(two, owner);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));

        caller_call(one, take, lock);
        expect_result(RDL_OK, one, SOON_MS);
        expect(RDL_HELD, rdl_owner_hold_state(owner, lock, &err));
        if (kind->members < 2) /* a multi-lock has no token of its own */
            cr_assert_gt(rdl_owner_token(owner, lock, &err), 0, "%s", kind->type);
        expect(RDL_NOT_HELD, rdl_hold_state(lock, &err)); /* the main thread is somebody else */
        caller_call(two, ask_held, lock);
        expect_result(1, two, SOON_MS);
        if (kind->reentrant) { /* re-enters the other thread's hold */
            caller_call(two, take, lock);
            expect_result(RDL_OK, two, SOON_MS);
            caller_unlock(one, lock);
            expect_result(RDL_OK, one, SOON_MS);
        }
        caller_unlock(two, lock);
        expect_result(RDL_OK, two, SOON_MS);
        cr_assert_eq(lock_keys(st.probe, NAME), 0, "%s", kind->type);
        lock_over(st.probe, lock);
    }
    caller_call(one, unbind_owner, st.client);
    (void)caller_result(one, SOON_MS);
    caller_call(two, unbind_owner, st.client);
    (void)caller_result(two, SOON_MS);
    caller_free(one);
    caller_free(two);
    rdl_owner_free(owner);
}

Test(owner, unbound_thread_is_itself_again)
{
    rdl_owner_t *owner, *other;
    rdl_lock_t *lock;

    stage_open(&st);
    owner = owner_new();
    other = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err)); /* as itself */
    expect(RDL_OK, rdl_owner_bind(owner, &err));
    expect(0, rdl_is_held(lock, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_owner_bind(other, &err)); /* replaces */
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    rdl_owner_unbind(st.client);
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_owner_unbind(st.client); /* once more does nothing */
    rdl_owner_free(owner);
    rdl_owner_free(other);
    rdl_lock_free(lock);
}

Test(owner, binding_concerns_one_client)
{
    rdl_client_t *other;
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    owner = owner_new();
    lock = reentrant(other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_owner_bind(owner, &err)); /* of st.client */
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_owner_unbind(st.client);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

Test(owner, owner_of_another_client_is_refused)
{
    struct outcome o = {0};
    rdl_client_t *other;
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    owner = owner_new();
    lock = reentrant(other, NAME, NULL);
    expect(RDL_EINVAL, rdl_try_lock_async(lock, owner, 0, LEASE_MS, outcome_note, &o, NULL, &err));
    expect(RDL_EINVAL, rdl_owner_hold_state(owner, lock, &err));
    expect(RDL_EINVAL, rdl_owner_token(owner, lock, &err));
    rdl_owner_free(owner);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* owner.h: freed with holds, it is treated like a thread that ended. */
Test(owner, freed_owners_hold_is_reported_and_runs_out)
{
    struct losses losses;
    struct outcome o = {0};
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    losses_init(&losses);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 3000));
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 0, RDL_LEASE_AUTO, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    cr_assert_null(rdl_owner_free(owner));
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_THREAD_EXIT);
    cr_assert_eq(probe_keys(st.probe), 1); /* somebody may still be working under it */
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, 3000 + SLACK_MS));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* One owner on several threads: verbs on one lock, one after another, all of one count. */
struct shared_rounds {
    rdl_owner_t *owner;
    rdl_lock_t *lock;
};

static int64_t enter_and_leave(void *arg, rdl_err_t *reterr)
{
    struct shared_rounds *rounds = arg;
    int64_t rc = rdl_owner_bind(rounds->owner, reterr);

    for (int i = 0; i < 300 && rc == RDL_OK; i++) {
        if ((rc = rdl_lock(rounds->lock, LEASE_MS, reterr)) == RDL_OK)
            rc = rdl_unlock(rounds->lock, reterr);
    }
    rdl_owner_unbind(st.client);
    return rc;
}

Test(owner, threads_of_one_owner_take_turns_on_one_count)
{
    enum { CALLERS = 4 };
    struct caller *callers[CALLERS];
    struct shared_rounds rounds;

    stage_open(&st);
    rounds.owner = owner_new();
    rounds.lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = caller_new();
        caller_call(callers[i], enter_and_leave, &rounds);
    }
    for (int i = 0; i < CALLERS; i++) {
        expect_result(RDL_OK, callers[i], 30000);
        caller_free(callers[i]);
    }
    expect(RDL_NOT_HELD, rdl_owner_hold_state(rounds.owner, rounds.lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_owner_free(rounds.owner);
    rdl_lock_free(rounds.lock);
}
