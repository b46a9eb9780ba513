/* SPDX-License-Identifier: MIT */
/* test_cached_write.c - the write end of a read-write lock that stays with its client (option cache_ms). */
#include "tests/live/child.h"
#include "tests/live/kept_ends.h"

#include <sys/wait.h>
#include <unistd.h>

LIVE_SUITE(cached_write, 60);

Test(cached_write, pair_of_a_kept_write_lock_sends_nothing)
{
    struct monitor *monitor;
    size_t mark;

    stage_open(&st);
    make_ends();
    make_idle_end(writes);
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    for (int i = 0; i < 100; i++) {
        struct caller *rival = NULL;

        take(writes);
        expect(1, rdl_is_held(writes, &err));
        expect(RDL_HELD, rdl_hold_state(writes, &err));
        take(writes);
        expect(2, rdl_hold_count(writes, &err));
        expect(1, rdl_is_locked(writes, &err));
        if (i == 0) {
            rival = caller_new();
            caller_try_lock(rival, writes, 0, LEASE_MS);
            expect_result(RDL_ETIMEDOUT, rival, SOON_MS);
            caller_free(rival);
        }
        give(writes);
        give(writes);
        expect(RDL_ENOTOWNER, rdl_unlock(writes, &err));
        expect(0, rdl_is_locked(writes, &err));
        expect(0, rdl_is_locked(reads, &err));
        expect(0, rdl_remaining_ms(writes, &err));
        expect(0, rdl_remaining_ms(reads, &err));
    }
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, NAME), 0);
    monitor_stop(monitor);
    free_ends();
}

/* Whoever it is: one who reads is refused by it, too. */
Test(cached_write, somebody_else_has_an_idle_lock_at_once)
{
    stage_open(&st);
    make_ends();
    for (int i = 0; i < 4; i++) {
        rdl_lock_t *there = i % 2 == 0 ? reads_there : writes_there;

        make_idle_end(writes);
        expect(RDL_ETIMEDOUT, rdl_try_lock(there, 0, LEASE_MS, &err)); /* and so recalls it */
        expect(RDL_OK, rdl_try_lock(there, WOKEN_MS, LEASE_MS, &err));
        cr_assert_eq(holds(KEPT, writes), 0);
        expect(RDL_ETIMEDOUT, rdl_try_lock(writes, 0, LEASE_MS, &err));
        give(there);
    }
    free_ends();
}

Test(cached_write, recall_lets_few_in_and_gives_it_back_with_the_last_unlock)
{
    struct caller *reader = caller_new(), *writer;

    stage_open(&st);
    make_ends();
    make_idle_end(writes);
    writer = inside(writes);
    caller_lock(reader, reads_there, LEASE_MS);
    let_pass_ms(50);
    cr_assert(!caller_idle(reader));
    leaves(writer, writes, RDL_OK);
    expect_result(RDL_OK, reader, WOKEN_MS);
    leaves(reader, reads_there, RDL_OK);
    caller_free(reader);
    caller_free(writer);
    free_ends();
}

/* ---- the other end, of the same process ------------------------------------------------------------------------- */

/* Even where recalls are not heard. */
Test(cached_write, one_who_reads_here_has_it_when_it_is_idle_and_when_the_writer_is_out)
{
    for (int deaf = 0; deaf < 2; deaf++) {
        struct caller *reader = caller_new(), *writer;

        stage_open(&st);
        make_ends();
        make_idle_end(writes);
        expect(RDL_OK, rdl_try_lock(reads, 0, LEASE_MS, &err)); /* nobody is in its way */
        cr_assert_eq(holds(KEPT, writes), 0);
        give(reads);
        make_idle_end(writes);
        writer = inside(writes);
        if (deaf)
            expect(1, probe_int(st.probe, "CLIENT KILL TYPE pubsub SKIPME yes") > 0);
        caller_try_lock(reader, reads, 0, LEASE_MS);
        expect_result(RDL_ETIMEDOUT, reader, SOON_MS);
        caller_try_lock(reader, reads, 100, LEASE_MS);
        expect_result(RDL_ETIMEDOUT, reader, SOON_MS);
        caller_lock(reader, reads, LEASE_MS);
        let_pass_ms(20);
        cr_assert(!caller_idle(reader));
        leaves(writer, writes, RDL_OK);
        expect_result(RDL_OK, reader, WOKEN_MS);
        cr_assert_eq(holds(KEPT, writes), 0);
        expect(RDL_ETIMEDOUT, rdl_try_lock(writes, 0, LEASE_MS, &err));
        leaves(reader, reads, RDL_OK);
        caller_free(reader);
        caller_free(writer);
        free_ends();
        live_again();
    }
}

Test(cached_write, ends_are_kept_by_turns_and_never_both)
{
    stage_open(&st);
    make_ends();
    for (int i = 0; i < 3; i++) {
        make_idle_end(reads);
        make_idle_end(writes); /* asserts that the other one is not kept */
    }
    free_ends();
}

Test(cached_write, one_who_reads_is_told_that_it_would_wait_for_itself)
{
    stage_open(&st);
    make_ends();
    for (int i = 0; i < 5; i++) {
        take(reads);
        expect(RDL_EDEADLK, rdl_try_lock(writes, 0, LEASE_MS, &err));
        expect(RDL_EDEADLK, rdl_lock(writes, RDL_LEASE_AUTO, &err));
        give(reads);
        take(writes);
        give(writes);
    }
    free_ends();
}

static void on_error(rdl_lock_t *lock, int64_t result, const rdl_err_t *why, void *got)
{
    (void)lock;
    (void)why;
    *(_Atomic int64_t *)got = result;
}

/* Also if it waits to write, behind others who read here, before it reads. */
Test(cached_write, one_who_comes_to_read_is_told_that_its_write_would_wait_for_itself)
{
    _Atomic int64_t written = 1;
    rdl_owner_t *owner = NULL;
    struct caller *reader;

    stage_open(&st);
    make_ends();
    make_idle_end(reads);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    reader = inside(reads);
    expect(RDL_OK, rdl_lock_async(writes, owner, RDL_LEASE_AUTO, on_error, &written, NULL, &err));
    expect(RDL_OK, rdl_lock_async(reads, owner, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
    cr_assert(WAIT_UNTIL(called == 1 && written != 1, SOON_MS), "it waits for who reads beside it");
    cr_assert_eq(written, RDL_EDEADLK);
    expect(RDL_OK, rdl_unlock_async(reads, owner, on_done, NULL, NULL, &err));
    cr_assert(WAIT_UNTIL(called == 2, SOON_MS));
    rdl_owner_free(owner);
    leaves(reader, reads, RDL_OK);
    caller_free(reader);
    free_ends();
}

/* It waits for another's write, and its own is granted while its last try is under way: in some rounds. */
Test(cached_write, read_of_an_owner_who_is_let_in_to_write_meanwhile_tries_again)
{
    enum { ROUNDS = 15 };
    rdl_metrics_t *metrics;
    rdl_owner_t *owner = NULL;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.metrics = metrics));
    make_ends();
    make_idle_end(writes);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    for (int round = 0; round < ROUNDS; round++) {
        called = 0;
        take(writes_there);
        for (int i = 0; i < 2; i++) {
            expect(RDL_OK, rdl_lock_async(i == 0 ? reads : writes, owner, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
            cr_assert(WAIT_UNTIL(waiting_for(metrics, NAME) == i + 1, SOON_MS));
        }
        give(writes_there);
        cr_assert(WAIT_UNTIL(called == 2, WOKEN_MS), "%d", called);
        expect(RDL_OK, rdl_unlock_async(writes, owner, NULL, NULL, NULL, &err));
        expect(RDL_OK, rdl_unlock_async(reads, owner, on_done, NULL, NULL, &err));
        cr_assert(WAIT_UNTIL(called == 3, SOON_MS));
    }
    rdl_owner_free(owner);
    free_ends();
    st.client = rdl_client_close(st.client);
    cr_assert_null(rdl_metrics_free(metrics));
}

/* The owner comes to write and to read behind one who writes here, and both end in time. Answers what its writing does:
 * it is let in to what is kept, and the read beside it; or, once 10 ms are over since that was wanted for the read, the
 * read has the lock, and the writing would wait for itself. */
static int64_t owner_writes_and_reads(rdl_owner_t *owner, rdl_metrics_t *metrics, struct caller *writer, bool late)
{
    _Atomic int64_t written = 1;
    int before = called;

    make_idle_end(writes);
    caller_lock(writer, writes, RDL_LEASE_AUTO);
    expect_result(RDL_OK, writer, SOON_MS);
    expect(RDL_OK, rdl_lock_async(writes, owner, RDL_LEASE_AUTO, on_error, &written, NULL, &err));
    expect(RDL_OK, rdl_lock_async(reads, owner, RDL_LEASE_AUTO, on_done, NULL, NULL, &err));
    cr_assert(WAIT_UNTIL(waiting_for(metrics, NAME) == 2, SOON_MS));
    if (late)
        let_pass_ms(20);
    leaves(writer, writes, RDL_OK);
    cr_assert(WAIT_UNTIL(called == before + 1 && written != 1, WOKEN_MS), "%d, %d", called - before, (int)written);
    cr_assert(written == RDL_OK || written == RDL_EDEADLK, "%s", code_name(written));
    expect(written == RDL_OK ? RDL_HELD : 0, rdl_owner_hold_state(owner, writes, &err));
    expect(RDL_HELD, rdl_owner_hold_state(owner, reads, &err));
    if (written == RDL_OK)
        expect(RDL_OK, rdl_unlock_async(writes, owner, NULL, NULL, NULL, &err));
    expect(RDL_OK, rdl_unlock_async(reads, owner, on_done, NULL, NULL, &err));
    cr_assert(WAIT_UNTIL(called == before + 2, SOON_MS));
    return written;
}

Test(cached_write, read_of_an_owner_who_comes_to_write_does_not_wait_for_itself)
{
    enum { ROUNDS = 100 }; /* the 10 ms may be over in any of them */
    struct caller *writer = caller_new();
    rdl_owner_t *owner = NULL;
    rdl_metrics_t *metrics;
    int round = 0;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.metrics = metrics));
    make_ends();
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_EDEADLK, owner_writes_and_reads(owner, metrics, writer, true));
    while (round < ROUNDS && owner_writes_and_reads(owner, metrics, writer, false) != RDL_OK)
        round++;
    cr_assert_lt(round, ROUNDS, "its writing was never let in");
    rdl_owner_free(owner);
    caller_free(writer);
    free_ends();
    cr_assert_null(rdl_metrics_free(metrics));
}

/* ---- reads of the writer ---------------------------------------------------------------------------------------- */

/* It reads beside its own kept hold, and goes on reading; the next one who writes here is not let in to that. */
Test(cached_write, writer_reads_and_goes_on_reading)
{
    struct caller *next = caller_new();

    stage_open(&st);
    make_ends();
    make_idle_end(writes);
    take(writes);
    take(reads);
    take(reads);
    take(writes);
    cr_assert_eq(holds(KEPT, writes), 1);
    expect(1, rdl_is_locked(reads, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(reads_there, 0, LEASE_MS, &err));
    caller_lock(next, writes, LEASE_MS);
    give(writes);
    give(writes);
    expect(RDL_OK, rdl_try_lock(reads_there, WOKEN_MS, LEASE_MS, &err)); /* others come in */
    cr_assert(!caller_idle(next));
    expect(1, rdl_is_held(reads, &err));
    expect(RDL_EDEADLK, rdl_try_lock(writes, 0, LEASE_MS, &err));
    give(reads);
    give(reads);
    cr_assert(!caller_idle(next));
    give(reads_there);
    expect_result(RDL_OK, next, WOKEN_MS);
    leaves(next, writes, RDL_OK);
    caller_free(next);
    free_ends();
}

Test(cached_write, hold_that_its_writer_has_read_beside_is_not_kept)
{
    stage_open(&st);
    make_ends();
    make_idle_end(writes);
    take(writes);
    take(reads);
    give(reads);
    give(writes);
    cr_assert(WAIT_UNTIL(holds(KEPT, writes) == 0, SOON_MS)); /* nobody else wants it */
    free_ends();
}

/* ---- loss ------------------------------------------------------------------------------------------------------- */

Test(cached_write, evicted_hold_is_lost_for_whoever_is_inside)
{
    stage_open(&st);
    make_ends();
    expect(RDL_OK, rdl_on_lost(writes, on_lost, NULL, &err));
    for (int here = 0; here < 2; here++) {
        make_idle_end(writes);
        take(writes);
        lost = 0;
        expect(1, rdl_force_unlock(here ? writes : writes_there, &err));
        cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
        expect(RDL_LOST, rdl_hold_state(writes, &err));
        expect(RDL_ELOST, rdl_try_lock(reads, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_try_lock(writes_there, 0, LEASE_MS, &err));
        give(writes_there);
        expect(RDL_ELOST, rdl_unlock(writes, &err));
        cr_assert_eq(lost, 1);
    }
    cr_assert_eq(reasons[RDL_LOSS_GONE], 2);
    free_ends();
}

Test(cached_write, explicit_lease_that_has_passed_is_lost_and_the_next_one_comes_in)
{
    struct caller *next = caller_new();

    stage_open(&st);
    make_ends();
    make_idle_end(writes);
    expect(RDL_OK, rdl_on_lost(writes, on_lost, NULL, &err));
    expect(RDL_OK, rdl_try_lock(writes, 0, 500, &err));
    caller_lock(next, writes, RDL_LEASE_AUTO);
    expect_result(RDL_OK, next, SOON_MS);
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    cr_assert_eq(reasons[RDL_LOSS_LEASE], 1);
    expect(RDL_ELOST, rdl_unlock(writes, &err)); /* ends nobody else's */
    expect(RDL_ETIMEDOUT, rdl_try_lock(writes, 0, 500, &err));
    leaves(next, writes, RDL_OK);
    take(writes);
    expect(RDL_OK, rdl_extend(writes, 25000, &err));
    give(writes);
    caller_free(next);
    free_ends();
}

Test(cached_write, thread_that_ends_inside_keeps_all_out_for_a_lease)
{
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 2000));
    make_ends();
    make_idle_end(writes);
    expect(RDL_OK, rdl_on_lost(writes, on_lost, NULL, &err));
    caller_free(inside(writes));
    cr_assert(WAIT_UNTIL(lost == 1, SOON_MS));
    cr_assert_eq(reasons[RDL_LOSS_THREAD_EXIT], 1);
    expect(RDL_ETIMEDOUT, rdl_try_lock(reads, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(reads_there, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(reads, 8000, LEASE_MS, &err));
    give(reads);
    free_ends();
}

/* ---- preferred writers ------------------------------------------------------------------------------------------ */

/* A take of the client's that waits would keep readers out for nobody, once its callers have given up. */
Test(cached_write, writer_that_is_preferred_and_gives_up_keeps_no_reader_out)
{
    stage_open(&st);
    writes = write_end(st.client, NAME, LOCK_OPTIONS(.cache_ms = CACHE_MS, .prefer_writers = true));
    other = client_open(stage_uri(&st), NULL);
    reads_there = read_end(other, NAME, LOCK_OPTIONS(.prefer_writers = true));
    reads = read_end(st.client, NAME, LOCK_OPTIONS(.cache_ms = CACHE_MS, .prefer_writers = true));
    make_idle_end(writes);
    for (int i = 0; i < 4; i++) {
        struct caller *reader = caller_new();

        expect(RDL_OK, rdl_try_lock(reads_there, WOKEN_MS, LEASE_MS, &err));
        expect(RDL_ETIMEDOUT, rdl_try_lock(writes, 100, LEASE_MS, &err));
        caller_try_lock(reader, reads_there, SOON_MS, LEASE_MS);
        expect_result(RDL_OK, reader, WOKEN_MS);
        leaves(reader, reads_there, RDL_OK);
        give(reads_there);
        caller_free(reader);
        take(writes);
        give(writes);
    }
    rdl_lock_free(reads_there);
    rdl_client_close(other);
    rdl_lock_free(reads);
    lock_over(st.probe, writes);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

#define PROCESSES 2
#define ROUNDS 400

/* Write by turns, and read what the last one has written; a counter without the lock's care would lose some. */
static int write_and_read(const char *uri, int seed)
{
    struct probe *probe = probe_open(st.server);
    rdl_client_t *client = client_open(uri, NULL);
    rdl_lock_t *mine_reads = read_end(client, NAME, LOCK_OPTIONS(.cache_ms = 300));
    rdl_lock_t *mine_writes = write_end(client, NAME, LOCK_OPTIONS(.cache_ms = 300));

    for (int i = 0; i < ROUNDS; i++) {
        bool writer = (i * 7 + seed) % 50 < 25;
        rdl_lock_t *end = writer ? mine_writes : mine_reads;
        int64_t seen;

        CHECK_IN_CHILD(rdl_try_lock(end, SOON_MS, RDL_LEASE_AUTO, NULL) == RDL_OK);
        seen = probe_int(probe, "GET written");
        if (writer) {
            (void)probe_ask(probe, "SET written %lld", (long long)seen + 1);
            if (i % 5 == 0) {
                CHECK_IN_CHILD(rdl_try_lock(mine_reads, SOON_MS, RDL_LEASE_AUTO, NULL) == RDL_OK);
                CHECK_IN_CHILD(rdl_unlock(mine_writes, NULL) == RDL_OK);
                end = mine_reads;
                seen++;
            }
        }
        if (end == mine_reads)
            CHECK_IN_CHILD(probe_int(probe, "GET written") == seen);
        CHECK_IN_CHILD(rdl_unlock(end, NULL) == RDL_OK);
    }
    rdl_lock_free(mine_reads);
    rdl_lock_free(mine_writes);
    rdl_client_close(client);
    probe_close(probe);
    return 0;
}

Test(cached_write, processes_that_keep_both_ends_see_what_was_written_last)
{
    int64_t expected = 0;
    pid_t children[PROCESSES];

    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    (void)probe_ask(st.probe, "SET written 0");
    for (int p = 0; p < PROCESSES; p++) {
        if ((children[p] = fork()) == 0)
            _exit(write_and_read(server_uri(st.server), p * 25));
        for (int i = 0; i < ROUNDS; i++)
            expected += (i * 7 + p * 25) % 50 < 25;
    }
    for (int p = 0; p < PROCESSES; p++)
        expect_child_succeeds(children[p]);
    cr_assert_eq(probe_int(st.probe, "GET written"), expected);
    (void)probe_ask(st.probe, "DEL written");
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, CLEAN_BOUND_MS));
}
