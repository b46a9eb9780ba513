/* SPDX-License-Identifier: MIT */
/* test_dispatch.c - RDL_DISPATCH_FD: callbacks run in rdl_client_dispatch and nowhere else. */
#include "tests/live/live.h"

#include <poll.h>
#include <stdio.h>

#define NAME "program-loop"
#define LEASE_MS 10000

LIVE_SUITE(dispatch, 60);

static void open_stage(void)
{
    stage_open(&st, .client = OPTIONS(.dispatch = RDL_DISPATCH_FD, .watchdog_lease_ms = 4500));
}

static bool readable(int64_t bound_ms)
{
    struct pollfd wait = {.fd = rdl_client_fd(st.client), .events = POLLIN};

    return poll(&wait, 1, (int)bound_ms) == 1 && (wait.revents & POLLIN) != 0;
}

/* A program's loop, until `calls` is reached. */
static void run_until(const atomic_uint *calls, unsigned n, int64_t bound_ms)
{
    int64_t end = now_ms() + bound_ms;

    while (atomic_load(calls) < n) {
        cr_assert_lt(now_ms(), end, "a callback has not come");
        if (readable(end - now_ms()))
            cr_assert_geq(rdl_client_dispatch(st.client), 0);
    }
}

Test(dispatch, callbacks_wait_for_the_program_to_call_dispatch)
{
    struct outcome o = {0};
    rdl_lock_t *lock;

    open_stage();
    lock = reentrant(st.client, NAME, NULL);
    cr_assert_geq(rdl_client_fd(st.client), 0);
    expect(0, rdl_client_dispatch(st.client));
    cr_assert_not(readable(30));
    expect(RDL_OK, rdl_try_lock_async(lock, NULL, 0, LEASE_MS, outcome_note, &o, NULL, &err));
    cr_assert(readable(SOON_MS));
    let_pass_ms(30);
    cr_assert_eq(atomic_load(&o.calls), 0);
    expect(1, rdl_client_dispatch(st.client));
    cr_assert_eq(atomic_load(&o.calls), 1);
    expect(RDL_OK, o.result);
    cr_assert(pthread_equal(o.thread, pthread_self()));
    cr_assert_not(readable(30));
    expect(0, rdl_client_dispatch(st.client));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(dispatch, losses_are_told_there_as_well)
{
    struct losses losses;
    rdl_lock_t *lock;

    losses_init(&losses);
    open_stage();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    (void)probe_int(st.probe, "DEL " NAME);
    cr_assert(readable(SOON_MS));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    expect(RDL_ELOST, rdl_is_held(lock, &err)); /* the state does not wait for the callback */
    cr_assert_geq(rdl_client_dispatch(st.client), 1);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

struct told {
    unsigned lost;
    char owner[3][80];
};

static void note_owner(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    struct told *told = arg;

    (void)lock;
    if (loss->state == RDL_LOST && told->lost < 3)
        (void)snprintf(told->owner[told->lost++], sizeof told->owner[0], "%s", loss->owner);
}

/* The news of one hold is still due when the next one is lost. */
/* Its risk, that nobody has heard of by then, is not told as another loss. */
Test(dispatch, composite_that_was_at_risk_first_is_lost_once)
{
    struct losses losses;
    rdl_lock_t *member, *multi = NULL;

    losses_init(&losses);
    open_stage();
    member = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_multi_lock(&member, 1, NULL, &multi, &err));
    expect(RDL_OK, rdl_on_lost(multi, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(multi, 0, RDL_LEASE_AUTO, &err));
    server_pause(st.server);
    cr_assert(WAIT_UNTIL(rdl_hold_state(multi, &err) == RDL_LOST, SOON_MS));
    server_resume(st.server);
    while (losses_count(&losses, RDL_LOST) == 0) {
        cr_assert(readable(SOON_MS));
        cr_assert_geq(rdl_client_dispatch(st.client), 0);
    }
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_LEASE);
    expect(RDL_ELOST, rdl_unlock(multi, &err));
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    (void)rdl_client_dispatch(st.client);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), 0);
    rdl_lock_free(multi);
    rdl_lock_free(member);
}

Test(dispatch, each_of_several_losses_is_told_and_under_its_own_hold)
{
    struct told told = {0};
    rdl_lock_t *lock;

    open_stage();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, note_owner, &told, &err));
    for (int i = 0; i < 3; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        (void)probe_int(st.probe, "DEL " NAME);
        cr_assert(WAIT_UNTIL(rdl_is_held(lock, &err) == RDL_ELOST, SOON_MS));
        expect(RDL_ELOST, rdl_unlock(lock, &err));
    }
    cr_assert_eq(told.lost, 0);
    while (readable(0))
        cr_assert_geq(rdl_client_dispatch(st.client), 1);
    cr_assert_eq(told.lost, 3);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++)
            cr_assert_str_neq(told.owner[i], told.owner[k]);
    rdl_lock_free(lock);
}

/* Not the loop's thread: blocking is the program's own decision. */
static void block(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    struct outcome *o = arg;

    o->result = rdl_try_lock(lock, SOON_MS, LEASE_MS, NULL);
    if (o->result == RDL_OK)
        o->result = rdl_unlock(lock, NULL);
    outcome_note(lock, result < 0 ? result : o->result, error, o);
}

Test(dispatch, callback_may_block_and_may_dispatch)
{
    struct outcome o = {0};
    rdl_lock_t *lock;

    open_stage();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, block, &o, NULL, &err));
    run_until(&o.calls, 1, SOON_MS);
    expect(RDL_OK, o.result);
    rdl_lock_free(lock);
}

Test(dispatch, many_callbacks_come_once_each)
{
    enum { CALLS = 2000 };
    static struct outcome outcomes[CALLS];
    unsigned ran = 0;
    rdl_lock_t *lock;

    open_stage();
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < CALLS; i++)
        expect(RDL_OK, rdl_is_locked_async(lock, NULL, outcome_note, &outcomes[i], NULL, &err));
    for (int64_t end = now_ms() + 10000; ran < CALLS && now_ms() < end;) {
        if (readable(SOON_MS))
            ran += (unsigned)rdl_client_dispatch(st.client);
    }
    cr_assert_eq(ran, CALLS);
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(atomic_load(&outcomes[i].calls), 1);
    rdl_lock_free(lock);
}

Test(dispatch, close_runs_what_is_due_and_what_it_ends)
{
    struct outcome done = {0}, waiting = {0};
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock;

    open_stage();
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, outcome_note, &done, NULL, &err));
    cr_assert(readable(SOON_MS));
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &waiting, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    st.client = rdl_client_close(st.client);
    cr_assert_eq(atomic_load(&done.calls), 1);
    cr_assert_eq(atomic_load(&waiting.calls), 1);
    expect(RDL_ECLOSED, waiting.result);
    cr_assert(pthread_equal(waiting.thread, pthread_self()));
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

static atomic_bool inside, may_leave, closed;

static void stay_inside(rdl_lock_t *lock, int64_t result, const rdl_err_t *e, void *arg)
{
    atomic_store(&inside, true);
    while (!atomic_load(&may_leave))
        let_pass_ms(1);
    outcome_note(lock, result, e, arg);
}

static void *dispatch_once(void *client)
{
    return rdl_client_dispatch(client) == 1 ? client : NULL;
}

static void *close_it(void *client)
{
    rdl_client_t *left = rdl_client_close(client);

    atomic_store(&closed, true);
    return left;
}

Test(dispatch, close_waits_for_a_callback_that_another_thread_runs)
{
    struct outcome o = {0};
    pthread_t runs, closes;
    void *ran, *left;
    rdl_lock_t *lock;

    open_stage();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, stay_inside, &o, NULL, &err));
    cr_assert(readable(SOON_MS));
    cr_assert_eq(pthread_create(&runs, NULL, dispatch_once, st.client), 0);
    cr_assert(WAIT_UNTIL(atomic_load(&inside), SOON_MS));
    cr_assert_eq(pthread_create(&closes, NULL, close_it, st.client), 0);
    cr_assert(WAIT_UNTIL(rdl_is_locked(lock, NULL) == RDL_ECLOSED, SOON_MS));
    let_pass_ms(200); /* in which it would have closed */
    cr_assert_not(atomic_load(&closed));
    atomic_store(&may_leave, true);
    pthread_join(runs, &ran);
    pthread_join(closes, &left);
    cr_assert_eq(ran, st.client);
    cr_assert_null(left);
    cr_assert_eq(atomic_load(&o.calls), 1);
    st.client = NULL;
    rdl_lock_free(lock);
}

Test(dispatch, descriptor_and_dispatch_belong_to_this_mode_only)
{
    stage_open(&st);
    expect(RDL_EINVAL, rdl_client_fd(st.client));
    expect(RDL_EINVAL, rdl_client_dispatch(st.client));
}

/* ---- the loop's stack ------------------------------------------------------------------------------------------- */

/* As client.h says. */
static void use_half_a_mebibyte(rdl_lock_t *lock, int64_t result, const rdl_err_t *e, void *arg)
{
    volatile char block[512 * 1024];

    for (size_t i = sizeof block; i > 0; i -= 1024) /* from the top down, as a stack grows */
        block[i - 1] = 1;
    outcome_note(lock, result, e, arg);
}

Test(dispatch, N3_a_callback_has_half_a_mebibyte_of_stack)
{
    struct outcome o = {0};
    pthread_attr_t small;
    rdl_lock_t *lock;

    cr_assert_eq(pthread_attr_init(&small), 0);
    cr_assert_eq(pthread_attr_setstacksize(&small, 256 * 1024), 0);
    cr_assert_eq(pthread_setattr_default_np(&small), 0); /* as with a small `ulimit -s` */
    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock_async(lock, NULL, 0, LEASE_MS, use_half_a_mebibyte, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    (void)pthread_attr_destroy(&small);
}
