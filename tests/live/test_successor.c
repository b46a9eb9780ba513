/* SPDX-License-Identifier: MIT */
/* test_successor.c - what follows to a new master: doubts, undos, releases (protocol.md, 3 and 8), and waiters of every
 * type.
 *
 * The failover is the test's own (guide.h), so that the test decides what had arrived where. */
#include "tests/live/live.h"
#include "tests/support/clock.h"
#include "tests/support/guide.h"
#include "tests/support/rights.h"

#include <stdio.h>
#include <unistd.h>

#define NAME "job"
#define LEASE_MS 60000
#define BRIEF_MS 1000

/* What a failover may take beyond itself: less than the 5 s after which a waiter who was not woken looks by itself. */
#define HEAL_MS 4000

static struct guide *guide;
static rdl_client_t *client;
static rdl_client_t *rival;

static void fini(void)
{
    client = rdl_client_close(client);
    rival = rdl_client_close(rival);
    guide_stop(guide);
}

TestSuite(successor, .fini = fini, .timeout = 60);

static void start(void)
{
    guide = guide_start(NULL);
    client = client_open(guide->uri, NULL);
}

static int64_t now_there(int which, const char *question)
{
    return probe_int(guide->probe[which], "%s", question);
}

/* The successor takes over, and the client has noticed. */
static void switch_and_leave(void)
{
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(proxy_open(guide->way) == 0, HEAL_MS));
}

/* ---- a lock of each type, named after it, and a caller for each ------------------------------------------------- */

#define KINDS_MAX 16

static rdl_lock_t *lock[KINDS_MAX];
static struct caller *caller[KINDS_MAX];

struct kind_name {
    char text[32];
};

/* The lock of that type. */
static struct kind_name name_of(const struct kind *kind)
{
    struct kind_name name;

    (void)snprintf(name.text, sizeof name.text, "a-%s", kind->type);
    return name;
}

static int64_t holds_of_all(int which)
{
    int64_t holds = 0;

    for (size_t i = 0; i < kind_count; i++)
        holds += lock_holds(guide->probe[which], name_of(&kinds[i]).text);
    return holds;
}

static void begin_all(void)
{
    cr_assert_leq(kind_count, KINDS_MAX);
    start();
    for (size_t i = 0; i < kind_count; i++) {
        lock[i] = kinds[i].make(client, name_of(&kinds[i]).text, NULL);
        caller[i] = caller_new();
    }
}

static void try_lock_all(int64_t wait_ms)
{
    for (size_t i = 0; i < kind_count; i++)
        caller_try_lock(caller[i], lock[i], wait_ms, LEASE_MS);
}

static void unlock_all(void)
{
    for (size_t i = 0; i < kind_count; i++)
        caller_unlock(caller[i], lock[i]);
}

static void expect_of_all(int64_t rc)
{
    for (size_t i = 0; i < kind_count; i++)
        expect_result(rc, caller[i], SOON_MS);
}

static void end_all(void)
{
    for (size_t i = 0; i < kind_count; i++) {
        caller_free(caller[i]);
        rdl_lock_free(lock[i]);
    }
}

/* Each has done its pair: connections are up. */
static void warm_up_all(void)
{
    try_lock_all(SOON_MS);
    expect_of_all(RDL_OK);
    unlock_all();
    expect_of_all(RDL_OK);
}

/* ---- doubts ----------------------------------------------------------------------------------------------------- */

/* Both servers have the takes, no answer comes through, nor does anything else. */
static void take_all_in_doubt(int64_t wait_ms)
{
    begin_all();
    warm_up_all();
    proxy_freeze(guide->way, PROXY_TO_CLIENT);
    try_lock_all(wait_ms);
    cr_assert(WAIT_UNTIL(holds_of_all(0) == (int64_t)kind_count, SOON_MS));
    proxy_freeze(guide->way, PROXY_TO_SERVER);
    guide_sync(guide);
    cr_assert_eq(holds_of_all(1), (int64_t)kind_count, "nothing is shown");
}

/* The repeats go to the successor, without a KILL, which would end a stranger's connection there. */
Test(successor, A1_takes_in_doubt_are_repeated_at_the_new_master_and_count_once)
{
    take_all_in_doubt(4 * SOON_MS);
    guide_switch(guide);
    expect_of_all(RDL_OK);
    cr_assert_eq(holds_of_all(1), (int64_t)kind_count);
    cr_assert_eq(probe_calls(guide->probe[1], "client|kill"), 0);
    unlock_all();
    expect_of_all(RDL_OK);
    cr_assert_eq(holds_of_all(1), 0);
    end_all();
}

/* The callers have given up, and their undos do not get through to the former master. */
Test(successor, A3_undos_of_takes_in_doubt_follow_to_the_new_master)
{
    take_all_in_doubt(1500);
    for (size_t i = 0; i < kind_count; i++)
        expect_result(unanswered(&kinds[i]), caller[i], SOON_MS);
    cr_assert_eq(holds_of_all(1), (int64_t)kind_count, "nothing is shown");
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(holds_of_all(1) == 0, HEAL_MS));
    end_all();
}

/* All is held, and the replica hears of nothing more. */
static void hold_all_and_part(void)
{
    begin_all();
    try_lock_all(SOON_MS);
    expect_of_all(RDL_OK);
    guide_sync(guide);
    guide_part(guide);
}

Test(successor, A2_releases_in_doubt_are_repeated_at_the_new_master)
{
    hold_all_and_part();
    proxy_freeze(guide->way, PROXY_TO_CLIENT);
    unlock_all();
    cr_assert(WAIT_UNTIL(holds_of_all(0) == 0, SOON_MS));
    cr_assert_eq(holds_of_all(1), (int64_t)kind_count, "nothing is shown");
    guide_switch(guide);
    expect_of_all(RDL_OK);
    cr_assert_eq(holds_of_all(1), 0);
    end_all();
}

/* ---- what was confirmed ----------------------------------------------------------------------------------------- */

/* As above, but nobody waits for it any more. */
Test(successor, C6_confirmed_releases_of_every_type_are_repeated_at_the_new_master)
{
    hold_all_and_part();
    unlock_all();
    expect_of_all(RDL_OK);
    cr_assert_eq(holds_of_all(1), (int64_t)kind_count, "nothing is shown");
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(holds_of_all(1) == 0, HEAL_MS));
    end_all();
}

/* For as long as the successor may have it, which is much longer than the lease that it was taken with. */
Test(successor, C6_confirmed_release_of_an_extended_hold_is_repeated_at_a_master_that_comes_late)
{
    rdl_lock_t *job;

    start();
    job = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(job, SOON_MS, BRIEF_MS, &err));
    expect(RDL_OK, rdl_extend(job, LEASE_MS, &err));
    guide_sync(guide);
    guide_part(guide);
    expect(RDL_OK, rdl_unlock(job, &err));
    let_pass_ms(BRIEF_MS + BRIEF_MS / 2);
    cr_assert_eq(now_there(1, "EXISTS " NAME), 1, "nothing is shown");
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(now_there(1, "EXISTS " NAME) == 0, HEAL_MS));
    rdl_lock_free(job);
}

Test(successor, C6_confirmed_releases_of_permits_are_repeated_at_the_new_master)
{
    rdl_permit_semaphore_t *seats = NULL;
    rdl_permit_t mine[3], more;

    start();
    expect(RDL_OK, rdl_permit_semaphore(client, "seats", NULL, &seats, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(seats, 4, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(seats, 3, 0, RDL_LEASE_NEVER, mine, &err));
    guide_sync(guide);
    guide_part(guide);
    expect(RDL_OK, rdl_permit_semaphore_release(seats, 2, mine, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(seats, 1, 0, LEASE_MS, &more, &err));
    expect(RDL_OK,
           rdl_permit_semaphore_release(seats, 1, &more, &err)); /* of one that the successor has never heard of */
    cr_assert_eq(now_there(1, "GET seats"), 1, "nothing is shown");
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(now_there(1, "GET seats") == 3, HEAL_MS));
    expect(RDL_OK, rdl_permit_semaphore_release(seats, 1, &mine[2], &err));
    expect(4, rdl_permit_semaphore_available(seats, &err));
    rdl_permit_semaphore_free(seats);
}

/* Those that the successor has seen do not count again, though later verbs have taken guards away. */
Test(successor, C6_confirmed_count_downs_are_repeated_at_the_new_master_and_count_once)
{
    rdl_latch_t *latch = NULL;

    start();
    expect(RDL_OK, rdl_latch(client, "latch", NULL, &latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 9, &err));
    for (int left = 8; left >= 5; left--)
        expect(left, rdl_latch_count_down(latch, &err));
    guide_sync(guide);
    guide_part(guide);
    for (int left = 4; left >= 2; left--)
        expect(left, rdl_latch_count_down(latch, &err));
    cr_assert_eq(now_there(1, "GET latch"), 5, "nothing is shown");
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(now_there(1, "GET latch") <= 2, HEAL_MS));
    expect(1, rdl_latch_count_down(latch, &err));
    cr_assert_eq(now_there(1, "GET latch"), 1);
    rdl_latch_free(latch);
}

/* Their guards wait for as long as they are remembered, and go with the client. */
Test(successor, count_downs_that_are_remembered_leave_no_guards_behind_their_client)
{
    enum { LATCHES = 100 };

    start();
    for (int i = 0; i < LATCHES; i++) {
        rdl_latch_t *latch = NULL;
        char *name = must_format("latch:%d", i);

        expect(RDL_OK, rdl_latch(client, name, NULL, &latch, &err));
        expect(1, rdl_latch_try_set_count(latch, 1, &err));
        expect(0, rdl_latch_count_down(latch, &err));
        rdl_latch_free(latch);
        free(name);
    }
    cr_assert_eq(now_there(0, "DBSIZE"), LATCHES);
    client = rdl_client_close(client);
    cr_assert(WAIT_UNTIL(now_there(0, "DBSIZE") == 0, SOON_MS)); /* they were sent before the client was closed */
}

/* A release that is repeated where its take has never been would be a permit too many. */
Test(successor, C6_semaphore_never_has_more_permits_after_a_failover)
{
    rdl_semaphore_t *pool = NULL;

    start();
    expect(RDL_OK, rdl_semaphore(client, "pool", NULL, &pool, &err));
    expect(1, rdl_semaphore_try_set_permits(pool, 1, &err));
    guide_sync(guide);
    guide_part(guide);
    for (int i = 0; i < 3; i++) {
        expect(RDL_OK, rdl_semaphore_try_acquire(pool, 1, 0, &err));
        expect(RDL_OK, rdl_semaphore_release(pool, 1, &err));
    }
    switch_and_leave();
    expect(RDL_OK, rdl_semaphore_try_acquire(pool, 1, SOON_MS, &err));
    cr_assert_eq(now_there(1, "GET pool"), 0);
    rdl_semaphore_free(pool);
}

/* ---- waiters ---------------------------------------------------------------------------------------------------- */

/* Everything that may be waited for. */
struct set {
    rdl_lock_t *lock, *queued, *written, *read;
    rdl_semaphore_t *pool;
    rdl_permit_semaphore_t *seats;
    rdl_permit_t seat;
    rdl_latch_t *latch;
};

#define WAITS 7

static void set_of(struct set *s, rdl_client_t *of)
{
    s->lock = reentrant(of, NAME, NULL);
    s->queued = fair(of, "queued", NULL);
    s->written = write_end(of, "book", NULL);
    s->read = read_end(of, "news", NULL);
    expect(RDL_OK, rdl_semaphore(of, "pool", NULL, &s->pool, &err));
    expect(RDL_OK, rdl_permit_semaphore(of, "seats", NULL, &s->seats, &err));
    expect(RDL_OK, rdl_latch(of, "latch", NULL, &s->latch, &err));
}

static void set_free(struct set *s)
{
    rdl_lock_free(s->lock);
    rdl_lock_free(s->queued);
    rdl_lock_free(s->written);
    rdl_lock_free(s->read);
    rdl_semaphore_free(s->pool);
    rdl_permit_semaphore_free(s->seats);
    rdl_latch_free(s->latch);
}

static void take_all(struct set *s, rdl_lock_t *writer)
{
    expect(RDL_OK, rdl_try_lock(s->lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(s->queued, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(s->written, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(writer, 0, LEASE_MS, &err));
    expect(1, rdl_semaphore_try_set_permits(s->pool, 1, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(s->pool, 1, 0, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(s->seats, 1, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s->seats, 1, 0, LEASE_MS, &s->seat, &err));
    expect(1, rdl_latch_try_set_count(s->latch, 1, &err));
}

static void release_all(struct set *s, rdl_lock_t *writer)
{
    expect(RDL_OK, rdl_unlock(s->lock, &err));
    expect(RDL_OK, rdl_unlock(s->queued, &err));
    expect(RDL_OK, rdl_unlock(s->written, &err));
    expect(RDL_OK, rdl_unlock(writer, &err));
    expect(RDL_OK, rdl_semaphore_release(s->pool, 1, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s->seats, 1, &s->seat, &err));
    expect(0, rdl_latch_count_down(s->latch, &err));
}

static int64_t wait_for_pool(void *set, rdl_err_t *why)
{
    return rdl_semaphore_try_acquire(((struct set *)set)->pool, 1, LEASE_MS, why);
}

static int64_t wait_for_seat(void *set, rdl_err_t *why)
{
    struct set *s = set;

    return rdl_permit_semaphore_try_acquire(s->seats, 1, LEASE_MS, LEASE_MS, &s->seat, why);
}

static int64_t await_latch(void *set, rdl_err_t *why)
{
    return rdl_latch_await(((struct set *)set)->latch, LEASE_MS, why);
}

/* Each of them sleeps beside a subscription at the former master, and then at the successor; and is woken there. */
Test(successor, C6_waiters_of_every_type_subscribe_at_the_new_master_and_are_woken_there)
{
    struct caller *waiter[WAITS];
    struct set ours = {0}, theirs = {0};
    rdl_lock_t *writer;

    start();
    rival = client_open(guide->uri, NULL);
    writer = write_end(rival, "news", NULL);
    set_of(&ours, client);
    set_of(&theirs, rival);
    take_all(&theirs, writer);
    for (int i = 0; i < WAITS; i++)
        waiter[i] = caller_new();
    caller_try_lock(waiter[0], ours.lock, LEASE_MS, LEASE_MS);
    caller_try_lock(waiter[1], ours.queued, LEASE_MS, LEASE_MS);
    caller_try_lock(waiter[2], ours.written, LEASE_MS, LEASE_MS);
    caller_try_lock(waiter[3], ours.read, LEASE_MS, LEASE_MS);
    caller_call(waiter[4], wait_for_pool, &ours);
    caller_call(waiter[5], wait_for_seat, &ours);
    caller_call(waiter[6], await_latch, &ours);
    cr_assert(WAIT_UNTIL(probe_channels(guide->probe[0]) == WAITS, SOON_MS));
    guide_sync(guide);
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(probe_channels(guide->probe[1]) == WAITS, HEAL_MS));
    for (int i = 0; i < WAITS; i++)
        cr_assert(!caller_idle(waiter[i]), "%d does not wait any more", i);
    release_all(&theirs, writer);
    for (int i = 0; i < WAITS; i++)
        expect_result(RDL_OK, waiter[i], HEAL_MS); /* less than a hint's 5 s */
    cr_assert_eq(now_there(1, "GET pool"), 0);
    cr_assert_eq(now_there(1, "GET seats"), 0);
    rdl_lock_free(writer);
    set_free(&ours);
    set_free(&theirs);
    for (int i = 0; i < WAITS; i++)
        caller_free(waiter[i]);
}

/* ---- what servers say ------------------------------------------------------------------------------------------- */

/* The same run of the same server is the master again, and still has before it what its first life did not come to. */
Test(successor, Q1_what_a_master_that_returns_was_sent_before_is_killed_first)
{
    struct caller *taker = caller_new();

    guide = guide_start(NULL);
    client = client_open(guide->uri, OPTIONS(.connections = 1, .reconnect_min_ms = 1));
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *takes = kind->make(client, NAME, NULL);
        int request, kill;

        caller_try_lock(taker, takes, 5000, LEASE_MS); /* its connection is up */
        expect_result(RDL_OK, taker, SOON_MS);
        caller_unlock(taker, takes);
        expect_result(RDL_OK, taker, SOON_MS);
        request = proxy_on(guide->way, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
        kill =
            proxy_on(guide->way, .action = PROXY_WATCH, .part = PROXY_REPLY, .command = "CLIENT", .contains = "KILL");
        caller_try_lock(taker, takes, 20000, LEASE_MS);
        cr_assert(proxy_wait(guide->way, request, 1, SOON_MS));
        guide_switch(guide);
        expect_result(RDL_OK, taker, HEAL_MS);
        caller_unlock(taker, takes);
        expect_result(RDL_OK, taker, SOON_MS);
        guide_switch_back(guide);
        cr_expect(proxy_wait(guide->way, kill, 1, HEAL_MS), "%s", kind->type);
        proxy_let_go(guide->way, request);
        let_pass_ms(50);
        cr_assert_eq(lock_keys(guide->probe[0], NAME), 0, "%s: the take has run after its unlock", kind->type);
        lock_over(guide->probe[0], takes);
    }
    caller_free(taker);
}

/* Confirmed by the replica, it is known to it when it takes over; which then has none of its own. A server that forbids
 * WAIT says nothing about the next one. */
Test(successor, C1_C7_replicas_are_asked_for_anew_at_the_new_master)
{
    rdl_lock_t *strict, *lenient;

    start();
    strict = reentrant(client, NAME, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1000));
    lenient =
        reentrant(client, "lenient", LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 500, .replicas_if_able = true));
    expect(RDL_OK, rdl_try_lock(strict, SOON_MS, LEASE_MS, &err));
    cr_assert_eq(now_there(1, "HLEN " NAME), 1);
    cr_assert_eq(probe_ask(guide->probe[0], "ACL SETUSER %s -wait", server_user(guide->data[0]))->kind, REPLY_STATUS);
    expect(RDL_OK, rdl_try_lock(lenient, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lenient, &err));
    switch_and_leave();
    expect(RDL_ENOREPLICAS, rdl_try_lock(strict, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "0 of 1 replicas"), "%s", err.message);
    expect(1, rdl_hold_count(strict, &err));
    expect(RDL_ENOREPLICAS, rdl_try_lock(lenient, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "0 of 1 replicas"), "%s", err.message);
    cr_assert(WAIT_UNTIL(now_there(1, "EXISTS lenient") == 0, HEAL_MS));
    expect(RDL_OK, rdl_unlock(strict, &err));
    cr_assert_eq(now_there(1, "EXISTS " NAME), 0);
    rdl_lock_free(strict);
    rdl_lock_free(lenient);
}

/* A master that was made a replica, of which no sentinel has spoken yet, keeps its connections and refuses to write:
 * the caller waits for the successor. Whatever else a server says is the caller's to hear. */
Test(successor, X2_refusal_to_write_is_waited_out_and_other_refusals_are_told)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *job;
    int refused;

    start();
    job = reentrant(client, NAME, NULL);
    caller_try_lock(waiter, job, SOON_MS, LEASE_MS);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, job);
    expect_result(RDL_OK, waiter, SOON_MS);
    guide_part(guide);
    (void)probe_ask(guide->probe[0], "REPLICAOF 127.0.0.1 %d", server_port(guide->data[1]));
    refused = proxy_on(guide->way, .action = PROXY_WATCH, .part = PROXY_REPLY, .command = "EVALSHA");
    caller_try_lock(waiter, job, 4 * SOON_MS, LEASE_MS);
    cr_assert(proxy_wait(guide->way, refused, 1, SOON_MS));
    cr_assert(!caller_idle(waiter));
    guide_switch(guide);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, job);
    expect_result(RDL_OK, waiter, SOON_MS);
    (void)probe_text(guide->probe[1], "SET " NAME " plain");
    expect(RDL_ESERVER, rdl_try_lock(job, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "WRONGTYPE"), "%s", err.message);
    (void)probe_int(guide->probe[1], "DEL " NAME);
    (void)probe_text(guide->probe[1], "CONFIG SET maxmemory 1");
    expect(RDL_ESERVER, rdl_try_lock(job, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "OOM"), "%s", err.message);
    caller_free(waiter);
    rdl_lock_free(job);
}

static int64_t connections_ever(int which)
{
    static const char field[] = "total_connections_received:";
    const char *info = probe_text(guide->probe[which], "INFO stats");

    return strtoll(strstr(info, field) + strlen(field), NULL, 10);
}

/* It cannot be asked whether it is a replica, and its refusals to write are no reason to hurry: the sentinel goes on
 * naming it. */
Test(successor, X2_replica_that_may_not_be_asked_for_its_role_is_not_stormed)
{
    rdl_lock_t *orders;
    int64_t before, refused, made;
    char *uri;

    guide = guide_start(NULL);
    rights_grant(guide->data[0], "Every program", "app");
    rights_grant(guide->data[0], "Reentrant, non-reentrant and spin lock", "app");
    uri = must_format("sentinel://app:secret@127.0.0.1:%d/main", proxy_port(guide->mouth));
    client = client_open(uri, NULL);
    orders = reentrant(client, "orders:42", NULL);
    expect(RDL_OK, rdl_try_lock(orders, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(orders, &err));
    guide_part(guide);
    (void)probe_text(guide->probe[1], "CONFIG SET repl-diskless-sync-delay 0");
    (void)probe_ask(guide->probe[0], "REPLICAOF 127.0.0.1 %d", server_port(guide->data[1]));
    cr_assert(
        WAIT_UNTIL(strstr(probe_text(guide->probe[0], "INFO replication"), "master_link_status:up") != NULL, SOON_MS));
    before = connections_ever(0);
    refused = probe_calls(guide->probe[0], "evalsha");
    cr_assert_lt(rdl_try_lock(orders, 1000, LEASE_MS, &err), 0);
    cr_assert_gt(probe_calls(guide->probe[0], "evalsha"), refused, "nothing is shown");
    made = connections_ever(0) - before;
    cr_assert_lt(made, 200, "%" PRId64 " connections", made);
    guide_switch(guide);
    rdl_lock_free(orders);
    free(uri);
}

/* ---- clocks ----------------------------------------------------------------------------------------------------- */

static _Atomic bool jump_was_told;

static void hear(rdl_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(line, "clock jumped by +") != NULL)
        atomic_store(&jump_was_told, true);
}

/* Replicas keep the moments at which keys end: a successor whose clock is ahead takes that off every lease. What is
 * gone is LOST at once, what is left is made whole again, and the clock is spoken of. */
Test(successor, Q11_new_master_whose_clock_is_ahead_is_reported_and_leases_are_restored_or_lost)
{
    struct losses losses;
    rdl_lock_t *lasting, *brief;
    char *clock = NULL;

    if (server_is_old())
        cr_skip_test("Redis 6.2 tells its replicas how long a key has, not until when");
    atomic_store(clock_make(&clock), 20 * INT64_C(1000000));
    guide = guide_start(clock);
    unlink(clock);
    free(clock);
    losses_init(&losses);
    client = client_open(guide->uri, OPTIONS(.watchdog_lease_ms = 3000, .log = hear));
    lasting = reentrant(client, NAME, NULL);
    brief = reentrant(client, "brief", NULL);
    expect(RDL_OK, rdl_on_lost(brief, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lasting, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(brief, 0, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(probe_calls(guide->probe[0], "time") > 0, SOON_MS));
    guide_sync(guide);
    cr_assert_leq(now_there(1, "PTTL " NAME), LEASE_MS - 20000, "nothing is shown");
    guide_switch(guide);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, HEAL_MS));
    cr_assert(WAIT_UNTIL(atomic_load(&jump_was_told), HEAL_MS));
    expect(RDL_ELOST, rdl_unlock(brief, &err));
    cr_assert(WAIT_UNTIL(now_there(1, "PTTL " NAME) > LEASE_MS - 2 * SOON_MS, HEAL_MS));
    expect(1, rdl_is_held(lasting, &err));
    expect(RDL_OK, rdl_unlock(lasting, &err));
    rdl_lock_free(lasting);
    rdl_lock_free(brief);
}

/* ---- a red lock that has it among its members ------------------------------------------------------------------- */

#define MEMBERS 3
#define YOUNG_MS 3000

/* A successor may have forgotten somebody whose lease still runs. Here it would make a majority with the one other
 * server that is free. */
Test(successor, M6_new_master_counts_for_a_red_lock_only_when_it_is_old_enough)
{
    const rdl_lock_options_t *wanted = LOCK_OPTIONS(.min_uptime_ms = YOUNG_MS, .node_timeout_ms = 1000);
    struct server *server[MEMBERS] = {NULL};
    rdl_client_t *of[MEMBERS];
    rdl_lock_t *member[MEMBERS], *red;
    struct probe *p;
    int64_t switched;

    guide = guide_start(NULL);
    for (int i = 0; i < MEMBERS; i++) {
        server[i] = i == 0 ? NULL : server_start(NULL);
        of[i] = client_open(i == 0 ? guide->uri : server_uri(server[i]), OPTIONS(.watchdog_lease_ms = YOUNG_MS));
        member[i] = reentrant(of[i], NAME, NULL);
    }
    p = probe_open(server[1]);
    foreign_take(p, NAME, 600000);
    expect(RDL_OK, rdl_red_lock(member, MEMBERS, wanted, &red, &err));
    expect(RDL_OK, rdl_try_lock(red, 4 * YOUNG_MS, RDL_LEASE_AUTO, &err)); /* once they are old enough */
    expect(RDL_OK, rdl_unlock(red, &err));
    switched = now_us();
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(proxy_open(guide->way) == 0, HEAL_MS));
    expect(RDL_OK, rdl_try_lock(red, 4 * YOUNG_MS, RDL_LEASE_AUTO, &err));
    cr_assert_geq(now_us() - switched, 1000 * YOUNG_MS, "it counted too early");
    expect(RDL_OK, rdl_unlock(red, &err));
    probe_close(p);
    rdl_lock_free(red);
    for (int i = 0; i < MEMBERS; i++) {
        rdl_lock_free(member[i]);
        rdl_client_close(of[i]);
        server_stop(server[i]);
    }
}
