/* SPDX-License-Identifier: MIT */
/* test_redisson.c - what Redisson does, seen from outside: the facts that our side of the wire is built on.
 *
 * The library is not used here. A plain client stands for "us", command by command, so that a failure says that wire.md
 * no longer describes Redisson.
 */
#include "tests/interop/checks.h"
#include "tests/interop/party.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define NAME "orders"
#define CHANNEL "redisson_lock__channel:{" NAME "}"
#define BOUND_MS 10000

/* The name that Java's thread has on the wire. To be freed. */
static char *java_field(struct meeting *m, const char *thread)
{
    const char *answer = peer_ask(m->java[0].peer, thread, "field client0");

    cr_assert(strncmp(answer, "ok ", 3) == 0, "%s", answer);
    return must_format("%s", answer + 3);
}

/* A hold of somebody who is neither Java nor the library. */
static void hold(struct meeting *m, const char *field)
{
    cr_assert_eq(probe_int(m->probe, "HSET " NAME " %s 1", field), 1);
    cr_assert_eq(probe_int(m->probe, "PEXPIRE " NAME " %d", LONG_MS), 1);
}

static void sleep_beside(struct meeting *m, struct party *waiter)
{
    size_t mark = monitor_mark(m->monitor);

    party_start_try(waiter, RDL_WAIT_FOREVER, LONG_MS);
    wait_asleep(m, mark, waiter, NAME, CHANNEL);
}

/* The next message must be this one. */
static void assert_message(struct probe *subscriber, const char *payload)
{
    const struct reply *message = probe_next(subscriber, BOUND_MS);

    cr_assert_not_null(message);
    cr_assert_str_eq(message->items[0].text, "message");
    cr_assert_str_eq(message->items[2].text, payload);
}

Test(redisson, hold_is_a_hash_with_the_count_under_the_threads_field_and_a_lease, .timeout = 60)
{
    struct meeting m;
    struct party *java;
    const struct reply *all;
    int64_t ttl;

    meeting_open(&m, "reentrant", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK);
    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK);

    all = probe_ask(m.probe, "HGETALL " NAME);
    cr_assert_eq(all->count, 2);
    cr_assert_eq(strncmp(all->items[0].text, party_id(java), 36), 0);
    cr_assert_eq(all->items[0].text[36], ':');
    cr_assert_eq(strspn(all->items[0].text + 37, "0123456789"), all->items[0].len - 37);
    cr_assert_str_eq(all->items[1].text, "2");
    ttl = probe_int(m.probe, "PTTL " NAME);
    cr_assert(ttl > 0 && ttl <= LONG_MS);
    cr_assert_eq(probe_keys(m.probe), 1);
    meeting_close(&m);
}

Test(redisson, lock_without_a_lease_gets_the_watchdogs_and_keeps_it, .timeout = 60)
{
    enum { WATCHDOG_MS = 1500 };
    struct meeting m;
    struct party *java;
    size_t mark;

    meeting_open(&m, "reentrant", WATCHDOG_MS);
    java = party_on(&m, PARTY_JAVA, NAME);
    mark = monitor_mark(m.monitor);
    cr_assert_eq(party_try(java, 0, RDL_LEASE_AUTO), RDL_OK);
    /* Taken, then renewed every third. */
    cr_assert(
        WAIT_UNTIL(monitor_count_lua(m.monitor, mark, "\"pexpire\" \"" NAME "\" \"1500\"") >= 4, 5 * WATCHDOG_MS));
    meeting_close(&m);
}

Test(redisson, release_publishes_0_and_leaves_no_key, .timeout = 60)
{
    struct meeting m;
    struct party *java;
    struct probe *subscriber;

    meeting_open(&m, "reentrant", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    subscriber = probe_open(m.server[0]);
    (void)probe_ask(subscriber, "SUBSCRIBE " CHANNEL);

    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK);
    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK);
    cr_assert_eq(party_unlock(java), RDL_OK); /* says nothing: still held */
    cr_assert_eq(party_unlock(java), RDL_OK);
    (void)probe_int(m.probe, "PUBLISH " CHANNEL " end");
    assert_message(subscriber, "0");
    assert_message(subscriber, "end");
    /* The latch that guards its unlock goes with a command of its own, after the answer. */
    cr_assert(WAIT_UNTIL(probe_keys(m.probe) == 0, BOUND_MS), "left: %s", probe_text(m.probe, "RANDOMKEY"));
    probe_close(subscriber);
    meeting_close(&m);
}

Test(redisson, force_unlock_publishes_0_whoever_held, .timeout = 60)
{
    struct meeting m;
    struct party *java;
    struct probe *subscriber;

    meeting_open(&m, "reentrant", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    subscriber = probe_open(m.server[0]);
    (void)probe_ask(subscriber, "SUBSCRIBE " CHANNEL);

    hold(&m, "somebody:1");
    cr_assert_eq(party_force_unlock(java), 1);
    cr_assert_eq(party_force_unlock(java), 0); /* nobody: no message */
    (void)probe_int(m.probe, "PUBLISH " CHANNEL " end");
    assert_message(subscriber, "0");
    assert_message(subscriber, "end");
    cr_assert(WAIT_UNTIL(probe_keys(m.probe) == 0, BOUND_MS), "left: %s", probe_text(m.probe, "RANDOMKEY"));
    probe_close(subscriber);
    meeting_close(&m);
}

Test(redisson, respects_a_field_of_any_number_and_any_form, .timeout = 60)
{
    static const char *const numbers[] = {"1",    "9223372036854775807", "-1", "-9223372036854775808", "0",
                                          "word", "7:0123456789abcdef"};
    struct meeting m;
    struct party *java;

    meeting_open(&m, "reentrant", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char *field = must_format("01234567-89ab-cdef-0123-456789abcdef:%s", numbers[i]);

        hold(&m, field);
        cr_assert_eq(party_try(java, 0, LONG_MS), RDL_ETIMEDOUT, "%s", field);
        cr_assert_eq(party_unlock(java), RDL_ENOTOWNER, "%s", field);
        cr_assert_eq(party_is_locked(java), 1, "%s", field);
        cr_assert_eq(probe_int(m.probe, "HGET " NAME " %s", field), 1, "%s", field);
        cr_assert_eq(probe_int(m.probe, "DEL " NAME), 1);
        cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK, "%s", field);
        cr_assert_eq(party_unlock(java), RDL_OK, "%s", field);
        free(field);
    }
    meeting_close(&m);
}

Test(redisson, takes_part_in_a_hash_that_was_made_under_its_own_field, .timeout = 60)
{
    struct meeting m;
    struct party *java;
    char *field;

    meeting_open(&m, "reentrant", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK);
    field = java_field(&m, party_java_thread(java));
    cr_assert_eq(probe_int(m.probe, "HSET " NAME " %s 5", field), 0);
    cr_assert_eq(party_hold_count(java), 5); /* absolute counts are understood */
    free(field);
    meeting_close(&m);
}

Test(redisson, message_0_wakes_one_waiter_of_a_process_and_others_none, .timeout = 60)
{
    enum { TIMES = 3 };
    struct meeting m;
    struct party *first;
    struct party *second;
    size_t mark;

    meeting_open(&m, "reentrant", 0);
    first = party_on(&m, PARTY_JAVA, NAME);
    second = party_on(&m, PARTY_JAVA, NAME);
    hold(&m, "somebody:1");
    sleep_beside(&m, first);
    sleep_beside(&m, second);

    mark = monitor_mark(m.monitor);
    for (size_t i = 1; i <= TIMES; i++) {
        (void)probe_int(m.probe, "PUBLISH " CHANNEL " 7");
        (void)probe_int(m.probe, "PUBLISH " CHANNEL " 0");
        /* Both count here, and a second try for one message would be seen in a later round at the latest. */
        cr_assert(WAIT_UNTIL(tries_after(&m, mark, first, NAME) >= i, BOUND_MS));
        cr_assert_eq(tries_after(&m, mark, first, NAME), i);
    }
    cr_assert_not(party_finished(first, 0));
    cr_assert_not(party_finished(second, 0));
    meeting_close(&m);
}

Test(redisson, waiter_is_woken_by_our_deletion_and_message, .timeout = 60)
{
    struct meeting m;
    struct party *java;
    size_t mark;

    meeting_open(&m, "reentrant", 0);
    java = party_on(&m, PARTY_JAVA, NAME);
    hold(&m, "somebody:-42");
    sleep_beside(&m, java);
    mark = monitor_mark(m.monitor);
    cr_assert_eq(probe_int(m.probe, "DEL " NAME), 1);
    cr_assert_eq(probe_int(m.probe, "PUBLISH " CHANNEL " 0"), 1);
    cr_assert_eq(party_result(java, BOUND_MS), RDL_OK);
    cr_assert_eq(tries_after(&m, mark, java, NAME), 1);
    meeting_close(&m);
}
