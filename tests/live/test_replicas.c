/* SPDX-License-Identifier: MIT */
/* test_replicas.c - holds that count only when replicas have them, too (protocol.md, 8).
 *
 * A master with real replicas. What the tests ask: held means that so many confirmed it; what fewer confirm is undone,
 * and the error says how many did; a renewal that is not confirmed puts nothing off; the answers of several commands in
 * one request are never mistaken for another's.
 */
#include "tests/live/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "copied"
#define LEASE_MS 30000
#define REPLICAS_MAX 2
#define MANY 30 /* holds */

LIVE_SUITE(replicas, 60);

static struct server *replica[REPLICAS_MAX];

static void open_stage(unsigned replicas, bool proxied, int64_t watchdog_lease_ms)
{
    char config[64];

    stage_open(&st, .server.tcp = true, .server.config = "repl-diskless-sync-delay 0", .proxied = proxied,
               .client =
                   OPTIONS(.watchdog_lease_ms = watchdog_lease_ms, .reconnect_min_ms = 1, .reconnect_max_ms = 50));
    (void)snprintf(config, sizeof config, "replicaof 127.0.0.1 %d\nrepl-ping-replica-period 1", server_port(st.server));
    for (unsigned i = 0; i < replicas; i++)
        replica[i] = server_start(&(struct server_options){.config = config});
    cr_assert(probe_followed(st.probe, replicas, 2 * SOON_MS));
}

static void end_replicas(void)
{
    for (unsigned i = 0; i < REPLICAS_MAX; i++) {
        server_stop(replica[i]);
        replica[i] = NULL;
    }
}

/* The counter of a fenced lock's tokens stays for good. */
static void forget_tokens(void)
{
    (void)probe_ask(st.probe, "DEL redisson_lock_token:{" NAME "}");
}

#define KINDS 5
#define FAIR 4

static rdl_lock_t *of_kind(int kind, int32_t replicas)
{
    rdl_lock_t *(*const make[KINDS])(rdl_client_t *, const char *,
                                     const rdl_lock_options_t *) = {reentrant, simple, fenced, write_end, fair};

    return make[kind](st.client, NAME, LOCK_OPTIONS(.replicas = replicas, .replicas_timeout_ms = 1000));
}

Test(replicas, hold_is_had_when_as_many_as_wanted_have_it)
{
    open_stage(1, false, 0);
    for (int kind = 0; kind < KINDS; kind++) {
        rdl_lock_t *lock = of_kind(kind, 1);

        for (int round = 0; round < 10; round++) {
            expect(RDL_OK, rdl_try_lock(lock, round % 2 * 5000, LEASE_MS, &err));
            expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
        rdl_lock_free(lock);
    }
    forget_tokens();
    end_replicas();
}

Test(replicas, hold_that_too_few_have_is_undone_and_says_how_many)
{
    open_stage(1, false, 0);
    for (int kind = 0; kind < KINDS; kind++) {
        rdl_lock_t *lock = of_kind(kind, 2);

        expect(RDL_ENOREPLICAS, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert(strstr(err.message, "1 of 2 replicas") != NULL, "%s", err.message);
        expect(0, rdl_is_held(lock, &err));
        cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS " NAME) == 0, SOON_MS));
        rdl_lock_free(lock);
    }
    forget_tokens();
    end_replicas();
}

/* The hold that is there stays, with its count and its time. */
Test(replicas, nested_take_and_extend_that_too_few_have_leave_the_hold_as_it_was)
{
    rdl_lock_t *lock;

    open_stage(1, false, 0);
    lock = of_kind(0, 1);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    server_pause(replica[0]);
    expect(RDL_ENOREPLICAS, rdl_try_lock(lock, 0, 2 * LEASE_MS, &err));
    cr_assert(strstr(err.message, "0 of 1 replicas") != NULL, "%s", err.message);
    expect(1, rdl_hold_count(lock, &err));
    expect(RDL_ENOREPLICAS, rdl_extend(lock, 2 * LEASE_MS, &err));
    cr_assert_leq(rdl_remaining_ms(lock, &err), LEASE_MS);
    server_resume(replica[0]);
    expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(stage_is_clean(&st, SOON_MS));
    rdl_lock_free(lock);
    end_replicas();
}

/* The confirmation is asked for in time: the call knows, and does not have to say that it does not. */
Test(replicas, call_hears_of_missing_replicas_before_its_wait_is_over)
{
    rdl_lock_t *lock;

    open_stage(1, false, 0);
    lock = of_kind(0, 1);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_pause(replica[0]);
    expect(RDL_ENOREPLICAS, rdl_try_lock(lock, 3000, LEASE_MS, &err));
    server_resume(replica[0]);
    rdl_lock_free(lock);
    end_replicas();
}

/* Others do not stand behind a WAIT. */
Test(replicas, locks_without_the_option_are_not_held_up)
{
    struct caller *waits = caller_new();
    rdl_lock_t *copied, *plain;
    int wait;

    open_stage(1, true, 0);
    copied = of_kind(0, 1);
    plain = reentrant(st.client, "plain", NULL);
    expect(RDL_OK, rdl_try_lock(copied, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(copied, &err));
    wait = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "WAIT");
    caller_try_lock(waits, copied, 4 * SOON_MS, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, wait, 1, SOON_MS));
    for (int i = 0; i < 20; i++) {
        expect(RDL_OK, rdl_try_lock(plain, SOON_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(plain, &err));
    }
    cr_assert_not(caller_idle(waits));
    proxy_let_go(st.proxy, wait);
    expect_result(RDL_OK, waits, SOON_MS);
    caller_unlock(waits, copied);
    expect_result(RDL_OK, waits, SOON_MS);
    caller_free(waits);
    rdl_lock_free(copied);
    rdl_lock_free(plain);
    end_replicas();
}

Test(replicas, asynchronous_takes_are_confirmed_too)
{
    struct outcome took = {0}, failed = {0}, unlocked = {0};
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock, *more;

    open_stage(1, false, 0);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    lock = of_kind(0, 1);
    more = reentrant(st.client, "more", LOCK_OPTIONS(.replicas = 2));
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 5000, LEASE_MS, outcome_note, &took, NULL, &err));
    expect(RDL_OK, outcome_wait(&took, SOON_MS));
    expect(RDL_OK, rdl_try_lock_async(more, owner, 5000, LEASE_MS, outcome_note, &failed, NULL, &err));
    expect(RDL_ENOREPLICAS, outcome_wait(&failed, SOON_MS));
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &unlocked, NULL, &err));
    expect(RDL_OK, outcome_wait(&unlocked, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
    rdl_lock_free(more);
    rdl_owner_free(owner);
    end_replicas();
}

Test(replicas, waiter_that_is_woken_has_it_confirmed)
{
    struct caller *waits = caller_new();

    open_stage(1, false, 0);
    for (int kind = 0; kind < KINDS; kind++) {
        rdl_lock_t *lock = of_kind(kind, 1);
        int64_t asked;

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        caller_try_lock(waits, lock, 4 * SOON_MS, RDL_LEASE_AUTO);
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
        asked = probe_calls(st.probe, "wait");
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect_result(RDL_OK, waits, SOON_MS);
        cr_assert_gt(probe_calls(st.probe, "wait"), asked);
        caller_unlock(waits, lock);
        expect_result(RDL_OK, waits, SOON_MS);
        rdl_lock_free(lock);
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, 2 * SOON_MS));
    }
    forget_tokens();
    caller_free(waits);
    end_replicas();
}

/* Whoever leaves a fair lock passes it on, at the server, which asks no replica. */
Test(replicas, fair_hold_that_was_passed_on_counts_when_it_is_confirmed)
{
    struct caller *waits = caller_new();
    rdl_lock_t *lock;
    int64_t calls;

    open_stage(1, false, 0);
    lock = of_kind(FAIR, 1);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    calls = probe_calls(st.probe, "evalsha");
    caller_try_lock(waits, lock, 4 * SOON_MS, RDL_LEASE_AUTO);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "LLEN redisson_lock_queue:{" NAME "}") == 1, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect_asleep(calls, 2, 1); /* else it asks, whatever it is told */
    server_pause(replica[0]);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_ENOREPLICAS, waits, 2 * SOON_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS " NAME) == 0, SOON_MS));
    server_resume(replica[0]);
    cr_assert(WAIT_UNTIL(rdl_try_lock(lock, 0, LEASE_MS, &err) == RDL_OK, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    caller_free(waits);
    rdl_lock_free(lock);
    end_replicas();
}

/* protocol.md, 8: else a promoted replica, which has never heard of them, would give the lock to somebody else. */
Test(replicas, renewals_that_no_replica_confirms_put_nothing_off)
{
    struct losses losses;
    rdl_lock_t *lock, *plain;

    open_stage(1, false, 3000);
    losses_init(&losses);
    lock = of_kind(0, 1);
    plain = reentrant(st.client, "plain", NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_try_lock(plain, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(4000); /* more than the lease: renewals are confirmed */
    expect(1, rdl_is_held(lock, &err));
    server_pause(replica[0]);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    expect(RDL_ELOST, rdl_is_held(lock, &err));
    expect(1, rdl_is_held(plain, &err)); /* and those who asked for nothing go on */
    server_resume(replica[0]);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_unlock(plain, &err));
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
    rdl_lock_free(plain);
    end_replicas();
}

/* The server has it for longer than renewals ask for, so they change nothing; and a new connection has written nothing
 * before. */
Test(replicas, renewals_that_change_nothing_and_no_replica_confirms_put_nothing_off)
{
    rdl_lock_t *(*const make[])(rdl_client_t *, const char *, const rdl_lock_options_t *) = {reentrant, simple,
                                                                                             read_end};

    for (size_t i = 0; i < sizeof make / sizeof *make; i++) {
        struct losses losses;
        rdl_lock_t *lock;

        open_stage(1, false, 3000);
        losses_init(&losses);
        lock = make[i](st.client, NAME, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1000));
        expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        server_pause(replica[0]);
        expect(RDL_ENOREPLICAS, rdl_extend(lock, LEASE_MS, &err));
        (void)probe_int(st.probe, "CLIENT KILL TYPE normal");
        cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS), "kind %zu", i);
        server_resume(replica[0]);
        rdl_lock_free(lock);
        end_replicas();
        live_again();
    }
}

/* Some of the holds want more replicas than there are: each WAIT takes all of its time. */
Test(replicas, holds_that_are_confirmed_stay_beside_those_that_cannot_be)
{
    rdl_lock_t *had[MANY], *lost[MANY];
    struct losses at_had, at_lost;

    open_stage(2, false, 4500);
    losses_init(&at_had);
    losses_init(&at_lost);
    for (int i = 0; i < MANY; i++) {
        char which[32];

        (void)snprintf(which, sizeof which, "had:%d", i);
        had[i] = reentrant(st.client, which, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 900));
        (void)snprintf(which, sizeof which, "lost:%d", i);
        lost[i] = reentrant(st.client, which, LOCK_OPTIONS(.replicas = 2, .replicas_timeout_ms = 900 + i));
        expect(RDL_OK, rdl_on_lost(had[i], losses_note, &at_had, &err));
        expect(RDL_OK, rdl_on_lost(lost[i], losses_note, &at_lost, &err));
        expect(RDL_OK, rdl_try_lock(had[i], SOON_MS, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_try_lock(lost[i], SOON_MS, RDL_LEASE_AUTO, &err));
    }
    server_pause(replica[0]);
    cr_assert(losses_wait(&at_lost, RDL_LOST, MANY, 2 * SOON_MS));
    server_resume(replica[0]);
    cr_assert_eq(losses_count(&at_had, RDL_AT_RISK), 0);
    cr_assert_eq(losses_count(&at_had, RDL_LOST), 0);
    for (int i = 0; i < MANY; i++) {
        expect(RDL_OK, rdl_unlock(had[i], &err));
        expect(RDL_ELOST, rdl_unlock(lost[i], &err));
        rdl_lock_free(had[i]);
        rdl_lock_free(lost[i]);
    }
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    end_replicas();
}

/* Each type has a script of its own, and all of them have one WAIT. */
Test(replicas, renewals_whose_connection_is_cut_anywhere_are_repeated_with_their_wait)
{
    rdl_lock_t *(*const make[])(rdl_client_t *, const char *, const rdl_lock_options_t *) = {reentrant, simple,
                                                                                             write_end};
    rdl_lock_t *lock[3];
    struct losses losses;
    int cuts;

    open_stage(1, true, 3000);
    losses_init(&losses);
    for (int i = 0; i < 3; i++) {
        lock[i] = make[i](st.client, (const char *[]){"one", "two", "three"}[i], LOCK_OPTIONS(.replicas = 1));
        expect(RDL_OK, rdl_on_lost(lock[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(lock[i], SOON_MS, RDL_LEASE_AUTO, &err));
    }
    for (unsigned i = 0; i < 6; i++) {
        int cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY,
                           .command = i % 2 == 0 ? "WAIT" : "EVALSHA", .nth = i % 2 == 0 ? 1 : 1 + i / 2, .at = i);

        cr_assert(proxy_wait(st.proxy, cut, 1, SOON_MS));
        cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    }
    server_pause(replica[0]);
    cuts = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "WAIT", .every = true);
    cr_assert(losses_wait(&losses, RDL_LOST, 3, SOON_MS)); /* a WAIT alone would be content with whom it finds there */
    proxy_let_go(st.proxy, cuts);
    server_resume(replica[0]);
    for (int i = 0; i < 3; i++) {
        expect(RDL_ELOST, rdl_unlock(lock[i], &err));
        rdl_lock_free(lock[i]);
    }
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    end_replicas();
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

Test(replicas, forgotten_scripts_are_sent_again_and_confirmed)
{
    rdl_lock_t *lock;

    open_stage(1, false, 0);
    lock = of_kind(0, 1);
    for (int i = 0; i < 5; i++) {
        (void)probe_ask(st.probe, "SCRIPT FLUSH");
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    rdl_lock_free(lock);
    end_replicas();
}

Test(replicas, connection_lost_between_the_two_answers_counts_once)
{
    rdl_lock_t *lock;

    open_stage(1, true, 0);
    lock = of_kind(0, 1);
    for (size_t at = 0; at <= 4; at += 2) {
        int cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "WAIT", .at = at);

        expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
        cr_assert_eq(proxy_acted(st.proxy, cut), 1);
        expect(1, rdl_hold_count(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert_eq(probe_keys(st.probe), 0);
    }
    rdl_lock_free(lock);
    end_replicas();
}

/* Both answers of a call that was given up are passed over. */
Test(replicas, answers_of_a_call_given_up_are_nobody_elses)
{
    rdl_lock_t *lock, *other;

    open_stage(1, true, 0);
    lock = of_kind(0, 1);
    other = reentrant(st.client, "other", LOCK_OPTIONS(.replicas = 1));
    for (int round = 0; round < 3; round++) {
        expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        proxy_freeze(st.proxy, PROXY_TO_CLIENT);
        expect(RDL_EUNKNOWN, rdl_try_lock(lock, 100, LEASE_MS, &err));
        proxy_thaw(st.proxy, PROXY_TO_CLIENT);
        for (int i = 0; i < 5; i++) {
            expect(RDL_OK, rdl_try_lock(other, 0, LEASE_MS, &err)); /* one that waits would get over it */
            expect(RDL_OK, rdl_extend(other, LEASE_MS, &err));
            expect(RDL_OK, rdl_unlock(other, &err));
        }
        cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    }
    rdl_lock_free(lock);
    rdl_lock_free(other);
    end_replicas();
}

/* ---- servers that do not wait ----------------------------------------------------------------------------------- */

/* "Given back" is true when it is said: the next try does not find what the one before it has left. */
Test(replicas, tries_that_are_undone_are_not_in_the_way_of_the_next)
{
    struct outcome one;
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock;

    open_stage(1, false, 0);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.replicas = 2, .replicas_timeout_ms = 10));
    for (int i = 0; i < 50; i++)
        expect(RDL_ENOREPLICAS, rdl_try_lock(lock, 0, LEASE_MS, &err));
    for (int i = 0; i < 50; i++) {
        one = (struct outcome){0};
        expect(RDL_OK, rdl_try_lock_async(lock, owner, 0, LEASE_MS, outcome_note, &one, NULL, &err));
        expect(RDL_ENOREPLICAS, outcome_wait(&one, SOON_MS));
    }
    rdl_lock_free(lock);
    rdl_owner_free(owner);
    end_replicas();
}

/* The same of one that had to wait: it is undone by the loop, while its owner goes on. Who has it meanwhile is no
 * client of ours. */
Test(replicas, tries_that_waited_and_are_undone_are_not_in_the_way_of_the_next)
{
    enum { ROUNDS = 100, OTHERS_LEASE_MS = 20 };
    rdl_lock_t *lock;

    open_stage(0, false, 0);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1));
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(probe_int(st.probe, "HSET " NAME " other 1"), 1);
        (void)probe_int(st.probe, "PEXPIRE " NAME " %d", OTHERS_LEASE_MS);
        expect(RDL_ENOREPLICAS, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
        expect(RDL_ENOREPLICAS, rdl_try_lock(lock, 0, LEASE_MS, &err));
    }
    rdl_lock_free(lock);
}

/* Its answer UNBLOCKED is no refusal to be asked: nobody has confirmed anything. */
Test(replicas, master_that_is_replaced_while_it_waits_has_confirmed_nothing)
{
    struct caller *takes = caller_new();
    rdl_lock_t *lock;

    open_stage(1, false, 0);
    lock =
        reentrant(st.client, NAME, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1000, .replicas_if_able = true));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_pause(replica[0]);
    caller_try_lock(takes, lock, 0, LEASE_MS);
    cr_assert(WAIT_UNTIL(strstr(probe_text(st.probe, "INFO clients"), "blocked_clients:1") != NULL, SOON_MS));
    (void)probe_ask(st.probe, "REPLICAOF 127.0.0.1 1");
    expect_result(RDL_ENOREPLICAS, takes, SOON_MS);
    (void)probe_ask(st.probe, "REPLICAOF NO ONE");
    server_resume(replica[0]);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS " NAME) == 0, SOON_MS));
    caller_free(takes);
    rdl_lock_free(lock);
    end_replicas();
}

/* As the option of a client it is that of its locks. */
Test(replicas, clients_option_is_that_of_its_locks_unless_they_have_their_own)
{
    static const rdl_client_options_t bad[] = {
        {.version = RDL_CLIENT_OPTIONS_VERSION, .replicas = -1},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .replicas = 256},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .replicas = 1, .replicas_timeout_ms = 1001},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .replicas_timeout_ms = 10},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .replicas_if_able = true},
    };
    rdl_client_t *client = NULL;
    rdl_lock_t *usual, *own, *none;

    open_stage(1, false, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect(RDL_EINVAL, rdl_client_open(server_uri(st.server), &bad[i], &client, &err));
        cr_assert(strstr(err.message, "client option replicas") != NULL, "%s", err.message);
    }
    client = client_open(server_uri(st.server), OPTIONS(.replicas = 2, .replicas_timeout_ms = 50));
    usual = reentrant(client, "usual", NULL);
    own = reentrant(client, "own", LOCK_OPTIONS(.replicas = 1));
    none = reentrant(client, "none", LOCK_OPTIONS(.replicas = RDL_REPLICAS_NONE));
    expect(RDL_ENOREPLICAS, rdl_try_lock(usual, 0, LEASE_MS, &err));
    cr_assert(strstr(err.message, "1 of 2 replicas") != NULL, "%s", err.message);
    expect(RDL_OK, rdl_try_lock(own, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(own, &err));
    expect(RDL_OK, rdl_try_lock(none, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(none, &err));
    rdl_lock_free(usual);
    rdl_lock_free(own);
    rdl_lock_free(none);
    (void)rdl_client_close(client);
    end_replicas();
}

Test(replicas, server_that_forbids_waiting_is_an_error_unless_the_lock_goes_on_without)
{
    rdl_lock_t *strict, *lenient;
    int64_t sent;

    open_stage(0, false, 3600);
    stage_limit(&st, "-wait");
    strict = of_kind(0, 1);
    expect(RDL_ENOREPLICAS, rdl_try_lock(strict, 0, LEASE_MS, &err));
    cr_assert(strstr(err.message, "NOPERM") != NULL, "%s", err.message);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    sent = probe_calls(st.probe, "evalsha");
    for (int i = 0; i < 5; i++) { /* it is known */
        expect(RDL_ENOREPLICAS, rdl_try_lock(strict, i % 2 * 100, LEASE_MS, &err));
        cr_assert(strstr(err.message, "refused WAIT") != NULL, "%s", err.message);
    }
    cr_assert_eq(probe_calls(st.probe, "evalsha"), sent);
    lenient = reentrant(st.client, "lenient", LOCK_OPTIONS(.replicas = 1, .replicas_if_able = true));
    expect(RDL_OK, rdl_try_lock(lenient, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(4500);
    expect(1, rdl_is_held(lenient, &err));
    expect(RDL_OK, rdl_unlock(lenient, &err));
    stage_limit(&st, "+wait");
    (void)probe_ask(st.probe, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert(WAIT_UNTIL(rdl_try_lock(strict, SOON_MS, LEASE_MS, &err) == RDL_ENOREPLICAS &&
                             strstr(err.message, "0 of 1 replicas") != NULL,
                         SOON_MS),
              "%s", err.message);
    rdl_lock_free(strict);
    rdl_lock_free(lenient);
}

Test(replicas, bad_options_are_refused)
{
    static const rdl_lock_options_t bad[] = {
        {.version = RDL_LOCK_OPTIONS_VERSION, .replicas = -2},
        {.version = RDL_LOCK_OPTIONS_VERSION, .replicas = 256},
        {.version = RDL_LOCK_OPTIONS_VERSION, .replicas = RDL_REPLICAS_NONE, .replicas_if_able = true},
        {.version = RDL_LOCK_OPTIONS_VERSION, .replicas = 1, .replicas_timeout_ms = 1001},
        {.version = RDL_LOCK_OPTIONS_VERSION, .replicas = 1, .replicas_timeout_ms = -1},
        {.version = RDL_LOCK_OPTIONS_VERSION, .replicas_timeout_ms = 10},
        {.version = RDL_LOCK_OPTIONS_VERSION, .replicas_if_able = true},
    };
    rdl_lock_t *lock = NULL;

    stage_open(&st);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, &bad[i], &lock, &err));
        cr_assert(strstr(err.message, "replicas") != NULL, "%s", err.message);
    }
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_EINVAL,
           rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.replicas = 1), &lock, &err)); /* one lock, one option */
    rdl_lock_free(lock);
}
