/* test_thread_exit.c - X5: a thread that ends as a holder is reported, and its hold runs out instead of living for ever. */
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#define NAME "orphan"
#define LEASE_MS 600

static struct losses losses;

static void set_up(void)
{
    losses_init(&losses);
}

TestSuite(thread_exit, .init = set_up, .fini = live_fini, .timeout = 60);

/* A thread takes the lock as often as `count` says and ends. */
static void take_and_end(rdl_lock_t *lock, int count, int64_t lease_ms)
{
    struct actor *actor = actor_new();

    for (int i = 0; i < count; i++) {
        actor_try_lock(actor, lock, 0, lease_ms);
        expect_result(RDL_OK, actor, SOON_MS);
    }
    actor_free(actor);
}

Test(thread_exit, hold_is_reported_once_and_not_renewed)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    take_and_end(lock, 2, RDL_LEASE_AUTO);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_THREAD_EXIT);
    cr_assert_gt(losses_get(&losses, RDL_LOST)->token, 0);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, LEASE_MS + 500));
    let_pass_ms(LEASE_MS);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

Test(thread_exit, lock_is_free_for_others_when_the_lease_has_run_out)
{
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, NULL);
    start = now_ms();
    take_and_end(lock, 1, RDL_LEASE_AUTO);
    expect(RDL_OK, rdl_try_lock(lock, 10000, RDL_LEASE_AUTO, &err));
    expect_between(LEASE_MS / 2, now_ms() - start, 2 * LEASE_MS + 500);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* A later thread may get the same thread id and even the same stack: it is another owner. */
Test(thread_exit, later_thread_does_not_inherit_the_hold)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    take_and_end(lock, 1, 1000);
    for (int i = 0; i < 10; i++) {
        struct actor *actor = actor_new();

        actor_unlock(actor, lock);
        expect_result(RDL_ENOTOWNER, actor, SOON_MS);
        actor_try_lock(actor, lock, 0, 1000);
        expect_result(RDL_ETIMEDOUT, actor, SOON_MS);
        actor_free(actor);
    }
    (void)probe_int(st.probe, "DEL " NAME);
    rdl_lock_free(lock);
}

Test(thread_exit, thread_that_gave_everything_back_is_not_reported)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    for (int i = 0; i < 50; i++) {
        struct actor *actor = actor_new();

        actor_try_lock(actor, lock, 1000, RDL_LEASE_AUTO);
        expect_result(RDL_OK, actor, SOON_MS);
        actor_unlock(actor, lock);
        expect_result(RDL_OK, actor, SOON_MS);
        actor_free(actor);
    }
    let_pass_ms(50);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(lock);
}

static int64_t bind_owner(void *owner, rdl_err_t *reterr)
{
    return rdl_owner_bind(owner, reterr);
}

/* A named owner is not the thread: its hold goes on. */
Test(thread_exit, hold_of_a_named_owner_outlives_the_thread)
{
    struct actor *actor = actor_new();
    struct outcome o = {0};
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    actor_call(actor, bind_owner, owner);
    expect_result(RDL_OK, actor, SOON_MS);
    actor_try_lock(actor, lock, 0, RDL_LEASE_AUTO);
    expect_result(RDL_OK, actor, SOON_MS);
    actor_free(actor);
    let_pass_ms(2 * LEASE_MS);
    expect(RDL_HELD, rdl_owner_hold_state(owner, lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

/* The client may be gone before the thread ends, and the other way round: neither crashes. */
Test(thread_exit, thread_may_end_after_its_client)
{
    struct actor *actor = actor_new();
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, NULL);
    actor_try_lock(actor, lock, 0, RDL_LEASE_AUTO);
    expect_result(RDL_OK, actor, SOON_MS);
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    actor_free(actor);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, LEASE_MS + 500));
}

static void lock_and_unlock_on_threads(rdl_lock_t *lock, int threads)
{
    for (int i = 0; i < threads; i++) {
        struct actor *actor = actor_new();

        actor_try_lock(actor, lock, 5000, RDL_LEASE_AUTO);
        expect_result(RDL_OK, actor, SOON_MS);
        actor_unlock(actor, lock);
        expect_result(RDL_OK, actor, SOON_MS);
        actor_free(actor);
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
