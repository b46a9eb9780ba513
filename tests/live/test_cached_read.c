/* SPDX-License-Identifier: MIT */
/* test_cached_read.c - the read end of a read-write lock that stays with its client (option cache_ms). */
#include "tests/live/kept_ends.h"
#include "tests/support/counting_alloc.h"

LIVE_SUITE(cached_read, 60);

/* Has one who waits for the write end elsewhere closed the gate here? */
static bool newcomer_asks(void)
{
    struct caller *caller = inside(reads);
    bool asked = holds(OWNERS, reads) == 1;

    leaves(caller, reads, RDL_OK);
    caller_free(caller);
    return asked;
}

Test(cached_read, pair_of_a_kept_read_lock_sends_nothing_whoever_else_reads)
{
    enum { READERS = 8 };
    struct caller *callers[READERS];
    struct monitor *monitor;
    size_t mark;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    for (int i = 0; i < READERS; i++)
        callers[i] = inside(reads);
    for (int i = 0; i < 100; i++) {
        take(reads);
        expect(1, rdl_is_held(reads, &err));
        expect(RDL_HELD, rdl_hold_state(reads, &err));
        take(reads);
        expect(2, rdl_hold_count(reads, &err));
        give(reads);
        give(reads);
        expect(0, rdl_is_held(reads, &err));
    }
    expect(1, rdl_is_locked(reads, &err));
    for (int i = 0; i < READERS; i++) {
        leaves(callers[i], reads, RDL_OK);
        caller_free(callers[i]);
    }
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
    monitor_stop(monitor);
    cr_assert_str_eq(probe_ask(st.probe, "HVALS " NAME)->items[1].text, "1");
    free_ends();
}

Test(cached_read, one_who_writes_elsewhere_has_an_idle_lock_at_once_and_one_who_reads_joins)
{
    stage_open(&st);
    make_ends();
    for (int i = 0; i < 3; i++) {
        make_idle_end(reads);
        take(reads_there);
        cr_assert_eq(holds(KEPT, reads), 1);
        expect(1, rdl_is_locked(reads, &err));
        give(reads_there);
        expect(0, rdl_is_locked(reads, &err));
        expect(RDL_OK, rdl_try_lock(writes_there, WOKEN_MS, LEASE_MS, &err));
        cr_assert_eq(holds(KEPT, reads), 0);
        expect(RDL_ETIMEDOUT, rdl_try_lock(reads, 0, LEASE_MS, &err));
        give(writes_there);
    }
    free_ends();
}

/* Who is inside enters again, newcomers ask the server when 10 ms have passed, and the last one out gives back. */
Test(cached_read, recall_closes_the_gate)
{
    struct caller *writer = caller_new(), *one, *two;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    one = inside(reads);
    two = inside(reads);
    caller_lock(writer, writes_there, LEASE_MS);
    cr_assert(WAIT_UNTIL(newcomer_asks(), SOON_MS)); /* as who is inside stays */
    cr_assert(newcomer_asks());                      /* and so does the next */
    caller_lock(one, reads, RDL_LEASE_AUTO);         /* again */
    expect_result(RDL_OK, one, SOON_MS);
    cr_assert_eq(holds(OWNERS, reads), 0);
    leaves(one, reads, RDL_OK);
    leaves(one, reads, RDL_OK);
    cr_assert_eq(holds(KEPT, reads), 1);
    cr_assert(!caller_idle(writer));
    leaves(two, reads, RDL_OK);
    expect_result(RDL_OK, writer, WOKEN_MS);
    leaves(writer, writes_there, RDL_OK);
    caller_free(writer);
    caller_free(one);
    caller_free(two);
    free_ends();
}

/* A writer was refused by another reader, and has recalled nobody; then the one that is kept joins. */
Test(cached_read, kept_hold_that_joins_others_is_recalled_by_who_sleeps_already)
{
    struct caller *writer = caller_new(), *here;
    int64_t tries;

    stage_open(&st);
    make_ends();
    take(reads_there);
    tries = probe_calls(st.probe, "evalsha");
    caller_lock(writer, writes_there, LEASE_MS);
    expect_asleep(tries, 2, 1);
    here = inside(reads);
    for (int i = 0; i < 1000 && holds(KEPT, reads) == 0; i++) {
        leaves(here, reads, RDL_OK);
        caller_lock(here, reads, RDL_LEASE_AUTO);
        expect_result(RDL_OK, here, SOON_MS);
    }
    cr_assert_eq(holds(KEPT, reads), 1);
    give(reads_there);
    leaves(here, reads, RDL_OK);
    expect_result(RDL_OK, writer, WOKEN_MS);
    leaves(writer, writes_there, RDL_OK);
    caller_free(writer);
    caller_free(here);
    free_ends();
}

Test(cached_read, one_who_writes_here_has_it_when_the_last_reader_is_out)
{
    struct caller *writer = caller_new(), *one;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    expect(RDL_OK, rdl_try_lock(writes, 0, LEASE_MS, &err)); /* nobody is in its way */
    give(writes);
    make_idle_end(reads);
    one = inside(reads);
    take(reads);
    expect(RDL_EDEADLK, rdl_try_lock(writes, 0, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_lock(writes, RDL_LEASE_AUTO, &err));
    cr_assert(!newcomer_asks());
    caller_try_lock(writer, writes, 100, LEASE_MS);
    expect_result(RDL_ETIMEDOUT, writer, SOON_MS);
    cr_assert(newcomer_asks());
    caller_try_lock(writer, writes, 0, LEASE_MS);
    expect_result(RDL_ETIMEDOUT, writer, SOON_MS);
    caller_lock(writer, writes, LEASE_MS);
    give(reads);
    cr_assert(!caller_idle(writer));
    leaves(one, reads, RDL_OK);
    expect_result(RDL_OK, writer, WOKEN_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(reads, 0, LEASE_MS, &err));
    leaves(writer, writes, RDL_OK);
    take(reads);
    give(reads);
    caller_free(writer);
    caller_free(one);
    free_ends();
}

/* Recalls are not heard: what is idle is given back, and who writes here waits for no message. */
Test(cached_read, one_who_writes_here_needs_no_recall)
{
    struct caller *writer = caller_new(), *one;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    one = inside(reads);
    expect(1, (int64_t)probe_int(st.probe, "CLIENT KILL TYPE pubsub SKIPME yes") > 0);
    caller_lock(writer, writes, LEASE_MS);
    cr_assert(WAIT_UNTIL(newcomer_asks(), SOON_MS));
    leaves(one, reads, RDL_OK);
    expect_result(RDL_OK, writer, WOKEN_MS);
    leaves(writer, writes, RDL_OK);
    caller_free(writer);
    caller_free(one);
    free_ends();
}

Test(cached_read, owner_who_writes_reads_as_ever_and_goes_on_reading)
{
    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    take(writes);
    for (int i = 0; i < 5; i++) {
        take(reads);
        cr_assert_eq(holds(KEPT, reads) + holds(KEPT, writes), 0);
        give(reads);
    }
    take(reads);
    give(writes);
    expect(1, rdl_is_held(reads, &err));
    expect(RDL_OK, rdl_try_lock(reads_there, WOKEN_MS, LEASE_MS, &err)); /* others come in */
    give(reads_there);
    give(reads);
    make_idle_end(reads);
    free_ends();
}

/* ---- loss ------------------------------------------------------------------------------------------------------- */

Test(cached_read, all_who_are_inside_an_evicted_hold_are_told_once)
{
    enum { READERS = 5 };
    struct caller *callers[READERS];

    stage_open(&st);
    make_ends();
    expect(RDL_OK, rdl_on_lost(reads, on_lost, NULL, &err));
    for (int here = 0; here < 2; here++) {
        make_idle_end(reads);
        lost = reasons[RDL_LOSS_GONE] = 0;
        for (int i = 0; i < READERS; i++)
            callers[i] = inside(reads);
        expect(RDL_OK, rdl_try_lock(reads, 0, 4000, &err)); /* by the watchdog */
        expect(1, rdl_force_unlock(here ? reads : reads_there, &err));
        cr_assert(WAIT_UNTIL(lost == READERS + 1, SOON_MS));
        expect(RDL_LOST, rdl_hold_state(reads, &err));
        expect(RDL_OK, rdl_try_lock(writes_there, 0, LEASE_MS, &err));
        give(writes_there);
        expect(RDL_ELOST, rdl_unlock(reads, &err));
        for (int i = 0; i < READERS; i++) {
            leaves(callers[i], reads, RDL_ELOST);
            caller_free(callers[i]);
        }
        cr_assert_eq(lost, READERS + 1);
        cr_assert_eq(reasons[RDL_LOSS_GONE], READERS + 1);
    }
    free_ends();
}

Test(cached_read, explicit_lease_that_has_passed_is_lost_and_the_others_read_on)
{
    struct caller *one;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    expect(RDL_OK, rdl_on_lost(reads, on_lost, NULL, &err));
    one = inside(reads);
    expect(RDL_OK, rdl_try_lock(reads, 0, 500, &err));
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    cr_assert_eq(reasons[RDL_LOSS_LEASE], 1);
    expect(RDL_ELOST, rdl_try_lock(reads, 0, 500, &err));
    expect(RDL_ELOST, rdl_unlock(reads, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(reads, &err));
    cr_assert_eq(holds(KEPT, reads), 1);
    expect(RDL_ETIMEDOUT, rdl_try_lock(writes_there, 200, LEASE_MS, &err)); /* of whom nobody is left at the end */
    leaves(one, reads, RDL_OK);
    cr_assert(WAIT_UNTIL(holds(KEPT, reads) == 0, SOON_MS));
    cr_assert_eq(lost, 1);
    caller_free(one);
    free_ends();
}

Test(cached_read, lease_is_extended_for_one_of_those_inside)
{
    struct caller *one;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    one = inside(reads);
    expect(RDL_OK, rdl_try_lock(reads, 0, 1000, &err));
    expect(RDL_OK, rdl_extend(reads, 25000, &err));
    expect_between(20000, rdl_remaining_ms(reads, &err), 25000);
    cr_assert_geq(probe_int(st.probe, "PTTL " NAME), 20000);
    give(reads);
    leaves(one, reads, RDL_OK);
    caller_free(one);
    free_ends();
}

/* It may still be at work: the hold is left to its lease when the others have left, and nobody else comes in. */
Test(cached_read, thread_that_ends_inside_keeps_writers_out_for_a_lease_and_nobody_else)
{
    struct caller *one, *dying;
    rdl_metrics_t *metrics = NULL;
    rdl_metric_value_t left_to_lease;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 2000, .metrics = metrics));
    make_ends();
    make_idle_end(reads);
    expect(RDL_OK, rdl_on_lost(reads, on_lost, NULL, &err));
    one = inside(reads);
    dying = inside(reads);
    caller_free(dying);
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    cr_assert_eq(reasons[RDL_LOSS_THREAD_EXIT], 1);
    cr_assert(newcomer_asks());
    leaves(one, reads, RDL_OK);
    cr_assert_eq(holds(KEPT, reads), 1);
    expect(1, rdl_is_locked(reads, &err)); /* here as elsewhere, as it is kept no more */
    expect(1, rdl_is_locked(reads_there, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(writes_there, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(writes_there, 8000, LEASE_MS, &err));
    expect(0, rdl_is_locked(reads, &err));
    give(writes_there);
    cr_assert_eq(lost, 1);
    rdl_metrics_get(metrics, RDL_M_KEPT_LOST, &left_to_lease);
    cr_assert_eq(left_to_lease.sum, 1);
    caller_free(one);
    free_ends();
    cr_assert_null(rdl_metrics_free(metrics));
}

static atomic_bool telling, may_tell;

/* On the loop, of the first of those who have lost it. */
static void tell_slowly(rdl_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(line, "hold lost") == NULL || atomic_exchange(&telling, true))
        return;
    while (!atomic_load(&may_tell))
        let_pass_ms(1);
}

/* X5: whoever is told first. */
Test(cached_read, owner_who_ends_as_the_loss_is_told_to_those_inside_is_no_hold_that_anybody_looks_after)
{
    for (int dying = 0; dying < 2; dying++) {
        struct counting_alloc memory;
        rdl_allocator_t hooks = counting_alloc_init(&memory);
        struct caller *reader[2];

        stage_open(&st, .client = OPTIONS(.allocator = &hooks, .log = tell_slowly));
        make_ends();
        make_idle_end(reads);
        atomic_store(&telling, false);
        atomic_store(&may_tell, false);
        for (int i = 0; i < 2; i++) {
            reader[i] = caller_new();
            caller_try_lock(reader[i], reads, SOON_MS, LEASE_MS);
            expect_result(RDL_OK, reader[i], SOON_MS);
        }
        expect(1, rdl_force_unlock(reads_there, &err));
        cr_assert(WAIT_UNTIL(atomic_load(&telling), SOON_MS));
        caller_free(reader[dying]);
        atomic_store(&may_tell, true);
        caller_free(reader[1 - dying]);
        for (int i = 0; i < 3; i++) {
            expect(RDL_OK, rdl_try_lock(reads, SOON_MS, LEASE_MS, &err));
            give(reads);
        }
        free_ends();
        cr_assert_null(rdl_client_close(st.client));
        st.client = NULL;
        cr_assert_eq(counting_alloc_blocks(&memory), 0);
        counting_alloc_done(&memory);
        live_again();
    }
}

/* ---- ends ------------------------------------------------------------------------------------------------------- */

Test(cached_read, handles_of_a_name_agree_about_it)
{
    rdl_lock_t *lock = NULL, *multi = NULL;

    stage_open(&st);
    make_kept(st.client);
    expect(RDL_EINVAL, rdl_write_lock(st.client, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_read_lock(st.client, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_write_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = 1), &lock, &err));
    expect(RDL_EINVAL,
           rdl_read_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = CACHE_MS, .peer_watchdog_ms = 5), &lock, &err));
    expect(RDL_EINVAL,
           rdl_read_lock(st.client, "x", LOCK_OPTIONS(.cache_ms = 1000, .fencing = RDL_FENCING_TIME), &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock(&reads, 1, NULL, &multi, &err));
    expect(RDL_EINVAL, rdl_multi_lock(&writes, 1, NULL, &multi, &err));
    writes = rdl_lock_free(writes);
    make_idle_end(reads);
    rdl_lock_free(reads);
    cr_assert(stage_is_clean(&st, SOON_MS));
}

Test(cached_read, last_handle_and_close_give_an_idle_lock_back_and_age_does)
{
    rdl_client_t *client;

    stage_open(&st);
    make_kept(st.client);
    make_idle_end(reads);
    rdl_lock_free(reads);
    cr_assert_eq(holds(KEPT, reads), 1);
    take(writes); /* by the handle that is left */
    give(writes);
    rdl_lock_free(writes);
    cr_assert(stage_is_clean(&st, SOON_MS));
    client = client_open(stage_uri(&st), NULL);
    make_kept(client);
    make_idle_end(reads);
    rdl_client_close(client);
    cr_assert_eq(probe_keys(st.probe), 0);
    writes = rdl_lock_free(writes);
    rdl_lock_free(reads);
    reads = read_end(st.client, NAME, LOCK_OPTIONS(.cache_ms = 300));
    make_idle_end(reads);
    cr_assert(stage_is_clean(&st, SOON_MS));
    rdl_lock_free(reads);
}

/* ---- asynchronous verbs ----------------------------------------------------------------------------------------- */

Test(cached_read, asynchronous_verbs_share_it)
{
    rdl_owner_t *one = NULL, *two = NULL, *three = NULL;
    rdl_op_t *op = NULL;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    expect(RDL_OK, rdl_owner_new(st.client, &one, &err));
    expect(RDL_OK, rdl_owner_new(st.client, &two, &err));
    expect(RDL_OK, rdl_owner_new(st.client, &three, &err));
    calling = true;
    expect(RDL_OK, rdl_try_lock_async(reads, one, 0, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
    calling = false;
    expect_done(RDL_OK);
    expect(RDL_OK, rdl_try_lock_async(reads, two, 0, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
    expect_done(RDL_OK);
    expect(RDL_OK, rdl_try_lock_async(writes, two, 0, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
    expect_done(RDL_EDEADLK);
    expect(RDL_OK, rdl_try_lock_async(writes, three, 8000, RDL_LEASE_AUTO, on_done, NULL, &op, &err));
    rdl_op_cancel(op);
    expect_done(RDL_ECANCELED);
    rdl_op_free(op);
    expect(RDL_OK, rdl_lock_async(writes, three, LEASE_MS, on_done, NULL, NULL, &err));
    expect(RDL_OK, rdl_unlock_async(reads, one, NULL, NULL, NULL, &err));
    cr_assert_eq(rdl_owner_hold_state(three, writes, &err), RDL_NOT_HELD);
    expect(RDL_OK, rdl_unlock_async(reads, two, NULL, NULL, NULL, &err));
    expect_done(RDL_OK);
    expect(RDL_HELD, rdl_owner_hold_state(three, writes, &err));
    expect(RDL_OK, rdl_unlock_async(writes, three, on_done, NULL, NULL, &err));
    expect_done(RDL_OK);
    rdl_owner_free(one);
    rdl_owner_free(two);
    rdl_owner_free(three);
    free_ends();
}
