/* SPDX-License-Identifier: MIT */
/* test_thread_exit.c - X5: a thread that ends as a holder is reported, and its hold runs out instead of living for
 * ever. */
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#define NAME "orphan"
#define LEASE_MS 600 /* of those whose end is waited for */
#define KEPT_MS 4500 /* of those that must not end meanwhile */

static struct losses losses;

static void set_up(void)
{
    losses_init(&losses);
}

TestSuite(thread_exit, .init = set_up, .fini = live_fini, .timeout = 60);

/* A thread takes the lock as often as `count` says and ends. */
static void take_and_end(rdl_lock_t *lock, int count, int64_t lease_ms)
{
    struct caller *caller = caller_new();

    for (int i = 0; i < count; i++) {
        caller_try_lock(caller, lock, 0, lease_ms);
        expect_result(RDL_OK, caller, SOON_MS);
    }
    caller_free(caller);
}

Test(thread_exit, hold_is_reported_once_and_not_renewed)
{
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));

        losses_init(&losses);
        expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
        take_and_end(lock, kind->reentrant ? 2 : 1, RDL_LEASE_AUTO);
        cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS), "%s", kind->type);
        cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_THREAD_EXIT);
        cr_assert_eq(losses_get(&losses, RDL_LOST)->token > 0, kind->members < 2, "%s",
                     kind->type); /* a multi-lock has none */
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS), "%s", kind->type);
        let_pass_ms(LEASE_MS);
        cr_assert_eq(losses_count(&losses, RDL_LOST), 1, "%s", kind->type);
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        lock_over(st.probe, lock);
    }
}

Test(thread_exit, lock_is_free_for_others_when_the_lease_has_run_out)
{
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *next = kind->rival(st.client, NAME, NULL);
        int64_t start = now_ms();

        take_and_end(lock, 1, RDL_LEASE_AUTO);
        expect(RDL_OK, rdl_try_lock(next, 10000, RDL_LEASE_AUTO, &err));
        expect_between(LEASE_MS / 2, now_ms() - start, 2 * LEASE_MS + SLACK_MS);
        expect(RDL_OK, rdl_unlock(next, &err));
        rdl_lock_free(next);
        lock_over(st.probe, lock);
    }
}

/* A later thread may get the same thread id and even the same stack: it is another owner. */
Test(thread_exit, later_thread_does_not_inherit_the_hold)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    take_and_end(lock, 1, 60000);
    for (int i = 0; i < 10; i++) {
        struct caller *caller = caller_new();

        caller_unlock(caller, lock);
        expect_result(RDL_ENOTOWNER, caller, SOON_MS);
        caller_try_lock(caller, lock, 0, 60000);
        expect_result(RDL_ETIMEDOUT, caller, SOON_MS);
        caller_free(caller);
    }
    (void)probe_int(st.probe, "DEL " NAME);
    rdl_lock_free(lock);
}

Test(thread_exit, thread_that_gave_everything_back_is_not_reported)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = KEPT_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    for (int i = 0; i < 50; i++) {
        struct caller *caller = caller_new();

        caller_try_lock(caller, lock, SOON_MS, RDL_LEASE_AUTO);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_unlock(caller, lock);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_free(caller);
    }
    let_pass_ms(50);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(lock);
}

struct waiting {
    rdl_lock_t *lock;
    struct outcome end;
};

static int64_t begin_to_wait(void *arg, rdl_err_t *reterr)
{
    struct waiting *waiting = arg;

    return rdl_lock_async(waiting->lock, NULL, LEASE_MS, outcome_note, &waiting->end, NULL, reterr);
}

/* What it would get is nobody's: it says so, of composites too, which begin with their members anew. */
Test(thread_exit, take_that_the_thread_left_waiting_is_lost)
{
    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        struct waiting waiting = {.lock = kind->make(st.client, NAME, NULL)};
        rdl_lock_t *rival = kind->rival(st.client, NAME, NULL);
        struct caller *caller = caller_new();

        expect(RDL_OK, rdl_try_lock(rival, 0, 100 * LEASE_MS, &err));
        caller_call(caller, begin_to_wait, &waiting);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_free(caller);
        expect(RDL_OK, rdl_unlock(rival, &err));
        cr_assert_eq(outcome_wait(&waiting.end, SOON_MS), RDL_ELOST, "%s: %s", kind->type, waiting.end.err.message);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS), "%s", kind->type);
        rdl_lock_free(rival);
        lock_over(st.probe, waiting.lock);
    }
}

static int64_t bind_owner(void *owner, rdl_err_t *reterr)
{
    return rdl_owner_bind(owner, reterr);
}

/* A named owner is not the thread: its hold goes on. */
Test(thread_exit, hold_of_a_named_owner_outlives_the_thread)
{
    struct caller *caller = caller_new();
    struct outcome o = {0};
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = KEPT_MS));
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    caller_call(caller, bind_owner, owner);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_try_lock(caller, lock, 0, RDL_LEASE_AUTO);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    let_pass_ms(KEPT_MS * 5 / 4);
    expect(RDL_HELD, rdl_owner_hold_state(owner, lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

static int64_t unbind_owner(void *client, rdl_err_t *reterr)
{
    (void)reterr;
    rdl_owner_unbind(client);
    return RDL_OK;
}

/* A multi-lock of a member here and one in another client. In one of the two clients its thread acts as `owner`. */
struct two_clients {
    struct caller *thread;
    rdl_client_t *other;
    rdl_owner_t *owner;
    rdl_lock_t *near, *far, *multi;
};

static void two_clients_open(struct two_clients *t, bool bound_at_home)
{
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = KEPT_MS));
    t->other = client_open(stage_uri(&st), OPTIONS(.watchdog_lease_ms = KEPT_MS));
    t->near = reentrant(st.client, "near", NULL);
    t->far = reentrant(t->other, "far", NULL);
    expect(RDL_OK, rdl_multi_lock((rdl_lock_t *[]){t->near, t->far}, 2, NULL, &t->multi, &err));
    expect(RDL_OK, rdl_on_lost(t->multi, losses_note, &losses, &err));
    expect(RDL_OK, rdl_owner_new(bound_at_home ? st.client : t->other, &t->owner, &err));
    t->thread = caller_new();
    caller_call(t->thread, bind_owner, t->owner);
    expect_result(RDL_OK, t->thread, SOON_MS);
    for (int i = 0; i < 2; i++) {
        caller_try_lock(t->thread, t->multi, 0, RDL_LEASE_AUTO);
        expect_result(RDL_OK, t->thread, SOON_MS);
    }
}

/* Of what the composite took nothing is held on for nobody. */
static void expect_all_let_go(void)
{
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS far") == 0, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS near") == 0, KEPT_MS + SOON_MS));
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_THREAD_EXIT);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
}

static void two_clients_close(struct two_clients *t)
{
    rdl_lock_free(t->multi);
    rdl_lock_free(t->near);
    rdl_lock_free(t->far);
    rdl_client_close(t->other);
}

Test(thread_exit, member_that_a_named_owner_took_for_the_thread_is_given_back)
{
    struct two_clients t;

    two_clients_open(&t, false);
    caller_free(t.thread);
    expect_all_let_go();
    rdl_owner_free(t.owner);
    two_clients_close(&t);
}

Test(thread_exit, member_that_a_thread_took_for_a_freed_owner_is_given_back)
{
    struct two_clients t;

    two_clients_open(&t, true);
    caller_call(t.thread, unbind_owner, st.client);
    expect_result(RDL_OK, t.thread, SOON_MS);
    rdl_owner_free(t.owner);
    expect_all_let_go();
    caller_free(t.thread);
    two_clients_close(&t);
}

/* What both its owners held ends with its lease, and not before: somebody may still be working under it. */
Test(thread_exit, members_that_the_thread_itself_took_run_out)
{
    struct caller *caller = caller_new();
    rdl_lock_t *near, *far, *multi = NULL;
    rdl_client_t *other;
    int64_t start;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    other = client_open(stage_uri(&st), OPTIONS(.watchdog_lease_ms = LEASE_MS));
    near = write_end(st.client, "near", NULL);
    far = write_end(other, "far", NULL);
    expect(RDL_OK, rdl_multi_lock((rdl_lock_t *[]){far, near}, 2, NULL, &multi, &err));
    expect(RDL_OK, rdl_on_lost(multi, losses_note, &losses, &err));
    start = now_ms();
    caller_try_lock(caller, multi, 0, RDL_LEASE_AUTO);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, 2 * LEASE_MS + SLACK_MS));
    cr_assert_geq(now_ms() - start, LEASE_MS / 2);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert_str_eq(strrchr(losses_get(&losses, RDL_LOST)->owner, ':'), ":write"); /* a member's, as on the wire */
    rdl_lock_free(multi);
    rdl_lock_free(near);
    rdl_lock_free(far);
    rdl_client_close(other);
}

/* The client may be gone before the thread ends, and the other way round: neither crashes. */
Test(thread_exit, thread_may_end_after_its_client)
{
    struct caller *caller = caller_new();
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, NULL);
    caller_try_lock(caller, lock, 0, RDL_LEASE_AUTO);
    expect_result(RDL_OK, caller, SOON_MS);
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    caller_free(caller);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
}

static void lock_and_unlock_on_threads(rdl_lock_t *lock, int threads)
{
    for (int i = 0; i < threads; i++) {
        struct caller *caller = caller_new();

        caller_try_lock(caller, lock, 5000, RDL_LEASE_AUTO);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_unlock(caller, lock);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_free(caller);
    }
}

/* Threads that come and go cost nothing that stays. */
Test(thread_exit, thousand_short_threads_leave_no_memory)
{
    static struct counting_alloc counting;
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_lock_t *lock;
    int64_t before;

    stage_open(&st, .client = OPTIONS(.allocator = &hooks));
    lock = reentrant(st.client, NAME, NULL);
    lock_and_unlock_on_threads(lock, 20);
    before = counting_alloc_bytes(&counting);
    lock_and_unlock_on_threads(lock, 1000);
    cr_assert(WAIT_UNTIL(counting_alloc_bytes(&counting) <= before + 4096, SOON_MS), "%" PRId64 " bytes, then %" PRId64,
              before, counting_alloc_bytes(&counting));
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}
