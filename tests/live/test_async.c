/* SPDX-License-Identifier: MIT */
/* test_async.c - asynchronous verbs: RDL_OK means one callback, never inside the call; an error means none. */
#include "tests/live/live.h"

#define NAME "batch:7"
#define LEASE_MS 10000

LIVE_SUITE(async, 60);

static rdl_owner_t *owner_new(void)
{
    rdl_owner_t *owner = NULL;

    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    return owner;
}

Test(async, every_verb_calls_back_once_with_what_its_blocking_twin_returns)
{
    struct outcome o[8] = {0};
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    stage_open(&st);
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 0, LEASE_MS, outcome_note, &o[0], NULL, &err));
    expect(RDL_OK, outcome_wait(&o[0], SOON_MS));
    cr_assert_not(o[0].had_err);
    cr_assert_eq(o[0].lock, lock);
    expect(RDL_OK, rdl_is_locked_async(lock, owner, outcome_note, &o[1], NULL, &err));
    expect(1, outcome_wait(&o[1], SOON_MS));
    expect(RDL_OK, rdl_extend_async(lock, owner, 2 * LEASE_MS, outcome_note, &o[2], NULL, &err));
    expect(RDL_OK, outcome_wait(&o[2], SOON_MS));
    expect(RDL_OK, rdl_remaining_ms_async(lock, owner, outcome_note, &o[3], NULL, &err));
    expect_between(2 * LEASE_MS - 2000, outcome_wait(&o[3], SOON_MS), 2 * LEASE_MS);
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &o[4], NULL, &err));
    expect(RDL_OK, outcome_wait(&o[4], SOON_MS));
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &o[5], NULL, &err));
    expect(RDL_OK, outcome_wait(&o[5], SOON_MS));
    expect(RDL_HELD, rdl_owner_hold_state(owner, lock, &err));
    expect(RDL_OK, rdl_force_unlock_async(lock, NULL, outcome_note, &o[6], NULL, &err));
    expect(1, outcome_wait(&o[6], SOON_MS));
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &o[7], NULL, &err));
    expect(RDL_ELOST, outcome_wait(&o[7], SOON_MS));
    cr_assert(o[7].had_err);
    expect_err_names(&o[7].err, RDL_ELOST, NAME);
    for (size_t i = 0; i < 8; i++) {
        cr_assert_eq(atomic_load(&o[i].calls), 1);
        cr_assert_not(pthread_equal(o[i].thread, pthread_self()));
    }
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

Test(async, errors_at_the_call_mean_that_no_callback_comes)
{
    struct outcome o = {0};
    rdl_lock_t *lock;
    rdl_op_t *op = NULL;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_EINVAL, rdl_try_lock_async(NULL, NULL, 0, LEASE_MS, outcome_note, &o, &op, &err));
    expect(RDL_EINVAL, rdl_try_lock_async(lock, NULL, -1, LEASE_MS, outcome_note, &o, &op, &err));
    expect(RDL_EINVAL, rdl_lock_async(lock, NULL, 0, outcome_note, &o, &op, &err));
    expect(RDL_EINVAL, rdl_extend_async(lock, NULL, -5, outcome_note, &o, &op, &err));
    expect(RDL_EINVAL, rdl_unlock_async(NULL, NULL, outcome_note, &o, &op, &err));
    expect(RDL_EINVAL, rdl_force_unlock_async(NULL, NULL, outcome_note, &o, &op, &err));
    expect(RDL_EINVAL, rdl_is_locked_async(NULL, NULL, outcome_note, &o, &op, &err));
    expect(RDL_EINVAL, rdl_remaining_ms_async(NULL, NULL, outcome_note, &o, &op, &err));
    let_pass_ms(50);
    cr_assert_eq(atomic_load(&o.calls), 0);
    cr_assert_null(op);
    rdl_lock_free(lock);
}

Test(async, errors_of_the_verb_arrive_in_the_callback)
{
    struct outcome refused = {0}, foreign = {0}, timed_out = {0};
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st);
    owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 0, LEASE_MS, outcome_note, &refused, NULL, &err));
    expect(RDL_ETIMEDOUT, outcome_wait(&refused, SOON_MS));
    cr_assert(refused.had_err);
    expect_err_names(&refused.err, RDL_ETIMEDOUT, NAME);
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &foreign, NULL, &err));
    expect(RDL_ENOTOWNER, outcome_wait(&foreign, SOON_MS));
    start = now_us();
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 1500, LEASE_MS, outcome_note, &timed_out, NULL, &err));
    expect(RDL_ETIMEDOUT, outcome_wait(&timed_out, SOON_MS));
    expect_between(1500000, timed_out.at_us - start, (1500 + SLACK_MS) * 1000);
    (void)foreign_release(st.probe, NAME);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

Test(async, null_owner_is_the_calling_thread_and_null_callback_is_fine)
{
    struct outcome o = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock_async(lock, NULL, 0, LEASE_MS, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock_async(lock, NULL, NULL, NULL, NULL, NULL));
    cr_assert(WAIT_UNTIL(rdl_is_held(lock, &err) == 0, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
}

Test(async, verbs_of_one_owner_on_one_lock_run_in_the_order_of_the_calls)
{
    enum { PAIRS = 200 };
    static struct outcome locked[PAIRS], unlocked[PAIRS];
    rdl_owner_t *owner;
    rdl_lock_t *lock;

    stage_open(&st);
    owner = owner_new();
    lock = simple(st.client, NAME, NULL); /* not re-entrant: any other order answers RDL_EDEADLK or RDL_ENOTOWNER */
    for (int i = 0; i < PAIRS; i++) {
        expect(RDL_OK, rdl_try_lock_async(lock, owner, 5000, LEASE_MS, outcome_note, &locked[i], NULL, &err));
        expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &unlocked[i], NULL, &err));
    }
    for (int i = 0; i < PAIRS; i++) {
        expect(RDL_OK, outcome_wait(&locked[i], SOON_MS));
        expect(RDL_OK, outcome_wait(&unlocked[i], SOON_MS));
        cr_assert_leq(locked[i].at_us, unlocked[i].at_us);
    }
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

Test(async, contended_call_is_woken_like_a_blocking_one)
{
    struct outcome o[3] = {0};
    rdl_owner_t *owners[3];
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < 3; i++) {
        owners[i] = owner_new();
        expect(RDL_OK, rdl_lock_async(lock, owners[i], RDL_LEASE_AUTO, outcome_note, &o[i], NULL, &err));
    }
    for (int held = 0; held < 3; held++) {
        int winner = -1;

        cr_assert(WAIT_UNTIL(({
                                 for (int i = 0; i < 3 && winner < 0; i++)
                                     winner = owners[i] != NULL && atomic_load(&o[i].calls) > 0 ? i : -1;
                                 winner >= 0;
                             }),
                             2000));
        expect(RDL_OK, outcome_wait(&o[winner], 0));
        expect(RDL_HELD, rdl_owner_hold_state(owners[winner], lock, &err));
        o[winner] = (struct outcome){0};
        expect(RDL_OK, rdl_unlock_async(lock, owners[winner], outcome_note, &o[winner], NULL, &err));
        expect(RDL_OK, outcome_wait(&o[winner], SOON_MS));
        owners[winner] = rdl_owner_free(owners[winner]);
    }
    rdl_lock_free(lock);
}

/* ---- what a callback may do ------------------------------------------------------------------------------------- */

struct chain {
    rdl_owner_t *owner;
    int left;
    int64_t blocking; /* what a blocking verb answered in the callback */
    struct outcome end;
};

static void unlock_then_lock_again(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg);

static void lock_then_unlock(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    struct chain *chain = arg;

    if (result != RDL_OK || chain->left == 0)
        outcome_note(lock, result, error, &chain->end);
    else if (rdl_unlock_async(lock, chain->owner, unlock_then_lock_again, chain, NULL, NULL) != RDL_OK)
        outcome_note(lock, RDL_EINVAL, NULL, &chain->end);
}

static void unlock_then_lock_again(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    struct chain *chain = arg;

    chain->left--;
    if (result != RDL_OK)
        outcome_note(lock, result, error, &chain->end);
    else if (rdl_try_lock_async(lock, chain->owner, 0, LEASE_MS, lock_then_unlock, chain, NULL, NULL) != RDL_OK)
        outcome_note(lock, RDL_EINVAL, NULL, &chain->end);
}

Test(async, callback_may_start_the_next_call)
{
    struct chain chain = {.left = 300};
    rdl_lock_t *lock;

    stage_open(&st);
    chain.owner = owner_new();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock_async(lock, chain.owner, 0, LEASE_MS, lock_then_unlock, &chain, NULL, &err));
    expect(RDL_OK, outcome_wait(&chain.end, 20000));
    expect(RDL_OK, rdl_unlock_async(lock, chain.owner, NULL, NULL, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_owner_free(chain.owner);
    rdl_lock_free(lock);
}

static void try_to_block(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    struct chain *chain = arg;

    chain->blocking = rdl_try_lock(lock, SOON_MS, LEASE_MS, NULL);
    outcome_note(lock, result, error, &chain->end);
}

/* A blocking verb on the loop's own thread would wait for itself. */
Test(async, blocking_verb_in_a_callback_on_the_loop_thread_is_refused)
{
    struct chain chain = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, try_to_block, &chain, NULL, &err));
    expect(0, outcome_wait(&chain.end, SOON_MS));
    expect(RDL_EDEADLK, chain.blocking);
    rdl_lock_free(lock);
}

static void free_op_and_handle(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    rdl_lock_free(lock);
    outcome_note(NULL, result, error, arg);
}

Test(async, callback_may_free_its_lock)
{
    struct outcome o = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, free_op_and_handle, &o, NULL, &err));
    expect(0, outcome_wait(&o, SOON_MS));
}

Test(async, reference_to_a_call_may_be_freed_at_any_time)
{
    struct outcome o[3] = {0};
    rdl_op_t *op = NULL;
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock_async(lock, NULL, 0, LEASE_MS, outcome_note, &o[0], &op, &err));
    cr_assert_not_null(op);
    cr_assert_null(rdl_op_free(op)); /* at once: the call goes on */
    expect(RDL_OK, outcome_wait(&o[0], SOON_MS));
    expect(RDL_OK, rdl_unlock_async(lock, NULL, outcome_note, &o[1], &op, &err));
    expect(RDL_OK, outcome_wait(&o[1], SOON_MS));
    rdl_op_cancel(op); /* after its end: nothing happens */
    rdl_op_free(op);
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, outcome_note, &o[2], &op, &err));
    expect(0, outcome_wait(&o[2], SOON_MS));
    rdl_lock_free(lock); /* the reference outlives the handle */
    rdl_op_free(op);
}

struct own {
    rdl_op_t *op;
    bool had_op;
    struct outcome end;
};

static void free_own_op(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    struct own *own = arg;

    own->had_op = own->op != NULL;
    own->op = rdl_op_free(own->op);
    outcome_note(lock, result, error, &own->end);
}

/* A call that needs no server calls back while the one that began it returns: its reference is there by then. */
Test(async, callback_finds_the_reference_to_its_own_call)
{
    enum { ROUNDS = 3000 };
    rdl_lock_t *lock[2];

    stage_open(&st);
    lock[0] = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_multi_lock(&lock[0], 1, NULL, &lock[1], &err));
    for (int i = 0; i < 2 * ROUNDS; i++) {
        struct own own = {0};

        expect(RDL_OK, rdl_unlock_async(lock[i % 2], NULL, free_own_op, &own, &own.op, &err));
        expect(RDL_ENOTOWNER, outcome_wait(&own.end, SOON_MS));
        cr_assert(own.had_op);
        cr_assert_null(own.op); /* and nobody sets it afterwards */
    }
    rdl_lock_free(lock[1]);
    rdl_lock_free(lock[0]);
}

/* A window of many calls: every one calls back, once. */
Test(async, thousands_in_flight_call_back_exactly_once_each)
{
    enum { OWNERS = 64, ROUNDS = 40, LOCKS = 8 };
    static struct outcome locked[OWNERS][ROUNDS], unlocked[OWNERS][ROUNDS];
    rdl_owner_t *owners[OWNERS];
    rdl_lock_t *locks[LOCKS];

    stage_open(&st);
    for (int i = 0; i < LOCKS; i++) {
        char *name = must_format("window%d", i);

        locks[i] = reentrant(st.client, name, NULL);
        free(name);
    }
    for (int i = 0; i < OWNERS; i++) {
        owners[i] = owner_new();
        for (int j = 0; j < ROUNDS; j++) {
            rdl_lock_t *lock = locks[(i + j) % LOCKS];

            expect(RDL_OK, rdl_lock_async(lock, owners[i], LEASE_MS, outcome_note, &locked[i][j], NULL, &err));
            expect(RDL_OK, rdl_unlock_async(lock, owners[i], outcome_note, &unlocked[i][j], NULL, &err));
        }
    }
    for (int i = 0; i < OWNERS; i++) {
        for (int j = 0; j < ROUNDS; j++) {
            expect(RDL_OK, outcome_wait(&locked[i][j], 30000));
            expect(RDL_OK, outcome_wait(&unlocked[i][j], 30000));
        }
    }
    let_pass_ms(50);
    for (int i = 0; i < OWNERS; i++) {
        for (int j = 0; j < ROUNDS; j++) {
            cr_assert_eq(atomic_load(&locked[i][j].calls), 1);
            cr_assert_eq(atomic_load(&unlocked[i][j].calls), 1);
        }
        rdl_owner_free(owners[i]);
    }
    for (int i = 0; i < LOCKS; i++)
        rdl_lock_free(locks[i]);
}
