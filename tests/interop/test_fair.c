/* SPDX-License-Identifier: MIT */
/* test_fair.c - the fair lock, shared by C and Java: one queue, and to each waiter its own channel.
 *
 * Order is checked on a ring of parties: all of them stand in the queue, in an order that the test made; who has had
 * the lock goes to the end. Whom the lock goes to, and that nobody else has it, is known for every round.
 */
#include "tests/interop/checks.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#define TYPE "fair"
#define NAME "orders"
#define QUEUE "redisson_lock_queue:{" NAME "}"
#define CHANNEL "redisson_lock__channel:{" NAME "}"
#define SOON_MS 10000
#define WOKEN_MS 3000

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static void expect_queued(struct meeting *m, int64_t n)
{
    cr_assert(WAIT_UNTIL(probe_int(m->probe, "LLEN " QUEUE) == n, SOON_MS),
              "%" PRId64 " in the queue, expected %" PRId64, probe_int(m->probe, "LLEN " QUEUE), n);
}

/* The party waits, as the last of n. */
static void queue_up(struct meeting *m, struct party *who, int64_t n)
{
    party_start_try(who, LONG_MS, LONG_MS);
    expect_queued(m, n);
}

/* It listens, and has tried so often: again when it had subscribed. Ours finds itself subscribed when it comes again.
 */
static void wait_listening(struct meeting *m, size_t mark, const struct party *waiter, const char *channel,
                           size_t tries)
{
    cr_assert(WAIT_UNTIL(probe_subscribers(m->probe, channel) > 0, SOON_MS), "no subscription to %s", channel);
    cr_assert(WAIT_UNTIL(tries_after(m, mark, waiter, NAME) >= tries, SOON_MS), "fewer than %zu tries", tries);
}

/* ---- wake-ups --------------------------------------------------------------------------------------------------- */

static void check_wake_up(enum party_kind holder_kind, enum party_kind waiter_kind)
{
    struct meeting m;
    struct party *holder, *waiter;
    char *channel;
    int64_t released;
    size_t mark;

    meeting_open(&m, TYPE, 0);
    holder = party_on(&m, holder_kind, NAME);
    waiter = party_on(&m, waiter_kind, NAME);
    for (int turn = 0; turn < 3; turn++) {
        cr_assert_eq(party_try(holder, LONG_MS, LONG_MS), RDL_OK);
        mark = monitor_mark(m.monitor);
        queue_up(&m, waiter, 1);
        channel = must_format(CHANNEL ":%s", probe_text(m.probe, "LINDEX " QUEUE " 0"));
        wait_listening(&m, mark, waiter, channel, turn > 0 && waiter_kind != PARTY_JAVA ? 1 : 2);
        mark = monitor_mark(m.monitor);
        released = now_ms();
        cr_assert_eq(party_unlock(holder), RDL_OK);
        cr_assert_eq(party_result(waiter, SOON_MS), RDL_OK);
        cr_assert_lt(now_ms() - released, WOKEN_MS);
        cr_assert_eq(tries_after(&m, mark, waiter, NAME), 1);
        cr_assert_eq(party_unlock(waiter), RDL_OK);
        free(channel);
    }
    cr_assert(WAIT_UNTIL(probe_keys(m.probe) == 0, SOON_MS));
    meeting_close(&m);
}

Test(fair, java_waiter_is_woken_by_a_release_in_c, .timeout = 60)
{
    check_wake_up(PARTY_THREAD, PARTY_JAVA);
}

Test(fair, c_waiter_is_woken_by_a_release_in_java, .timeout = 60)
{
    check_wake_up(PARTY_JAVA, PARTY_THREAD);
}

/* ---- what all exclusive types have in common -------------------------------------------------------------------- */

Test(fair, java_is_kept_out_by_c, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(fair, c_is_kept_out_by_java, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(fair, watchdog_of_c_keeps_java_out, .timeout = 60)
{
    check_renewal_holds(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(fair, watchdog_of_java_keeps_c_out, .timeout = 60)
{
    check_renewal_holds(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(fair, nested_holds_of_c_are_counted_for_java, .timeout = 60)
{
    check_reentry(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(fair, nested_holds_of_java_are_counted_for_c, .timeout = 60)
{
    check_reentry(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(fair, thousand_rounds_shared_with_java_lose_nothing, .timeout = 120)
{
    check_rounds(TYPE, 1000);
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

#define RING_MAX 64

/* Lock in hand or not, by the party's own call. */
static void expect_alone(struct party *const *ring, size_t count, size_t holder)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(i == holder || !party_finished(ring[i], 0), "party %zu has it beside, or before, party %zu", i,
                  holder);
}

static void check_order(const enum party_kind *kinds, size_t kind_count, size_t count, int rounds)
{
    struct meeting m;
    struct party *ring[RING_MAX];
    struct party *first;

    meeting_open(&m, TYPE, 0);
    first = party_on(&m, kinds[0], NAME);
    cr_assert_eq(party_try(first, LONG_MS, LONG_MS), RDL_OK);
    for (size_t i = 0; i < count; i++) {
        ring[i] = party_on(&m, kinds[i % kind_count], NAME);
        queue_up(&m, ring[i], (int64_t)i + 1);
    }
    cr_assert_eq(party_unlock(first), RDL_OK);
    for (int round = 0; round < rounds; round++) {
        size_t at = (size_t)round % count;

        cr_assert_eq(party_result(ring[at], SOON_MS), RDL_OK, "round %d", round);
        if (round > 0 && round + (int)count <= rounds)
            queue_up(&m, ring[(at + count - 1) % count], (int64_t)count - 1);
        if (round + (int)count <= rounds)
            expect_alone(ring, count, at);
        cr_assert_eq(party_unlock(ring[at]), RDL_OK);
    }
    cr_assert(WAIT_UNTIL(probe_keys(m.probe) == 0, SOON_MS), "left: %s", probe_text(m.probe, "RANDOMKEY"));
    meeting_close(&m);
}

Test(fair, c_waiters_of_several_processes_are_served_in_order_a_thousand_times, .timeout = 120)
{
    static const enum party_kind kinds[] = {PARTY_THREAD, PARTY_PROCESS};

    check_order(kinds, 2, 8, 1000);
}

Test(fair, c_and_java_waiters_are_served_in_one_order_a_thousand_times, .timeout = 200)
{
    static const enum party_kind kinds[] = {PARTY_THREAD, PARTY_JAVA, PARTY_PROCESS, PARTY_JAVA, PARTY_JAVA};

    check_order(kinds, 5, 10, 1000);
}

/* F9: the threads of this process, of two JVMs, and as many processes of one thread. */
Test(fair, long_queue_of_c_and_two_jvms_is_served_in_order, .timeout = 240)
{
    static const enum party_kind kinds[] = {PARTY_JAVA, PARTY_THREAD, PARTY_JAVA_2, PARTY_PROCESS};

    check_order(kinds, 4, RING_MAX, 2 * RING_MAX);
}

/* ---- deaths ----------------------------------------------------------------------------------------------------- */

/* The waiter has the lock as soon as the dead holder's lease has ended, which began when it was asked for or later. */
static void check_take_over(enum party_kind holds, enum party_kind waits)
{
    struct meeting m;
    struct party *holder, *waiter;
    int64_t asked, had, over;

    meeting_open(&m, TYPE, 0);
    holder = party_on(&m, holds, NAME);
    waiter = party_on(&m, waits, NAME);
    asked = now_ms();
    cr_assert_eq(party_try(holder, 0, 4000), RDL_OK);
    had = now_ms();
    queue_up(&m, waiter, 1);
    party_kill(holder);
    cr_assert_eq(party_result(waiter, SOON_MS), RDL_OK);
    over = now_ms();
    cr_assert_geq(over - asked, 4000);
    cr_assert_lt(over - had, 4000 + WOKEN_MS);
    cr_assert_eq(party_unlock(waiter), RDL_OK);
    meeting_close(&m);
}

Test(fair, java_takes_over_when_the_lease_of_a_dead_c_holder_ends, .timeout = 60)
{
    check_take_over(PARTY_PROCESS, PARTY_JAVA);
}

Test(fair, c_takes_over_when_the_lease_of_a_dead_java_holder_ends, .timeout = 60)
{
    check_take_over(PARTY_JAVA, PARTY_THREAD);
}

/* Java would wait for the score of the dead. The waiter in C behind it sees to it that it need not. */
Test(fair, dead_c_waiter_in_front_of_java_is_passed_over_by_the_signs_of_a_living_one, .timeout = 90)
{
    struct meeting m;
    struct party *holder, *dead, *java, *last;
    int64_t killed;

    meeting_open(&m, TYPE, 0);
    holder = party_on(&m, PARTY_THREAD, NAME);
    dead = party_on(&m, PARTY_PROCESS, NAME);
    java = party_on(&m, PARTY_JAVA, NAME);
    last = party_on(&m, PARTY_THREAD, NAME);
    party_turn_to(holder, "brief fair");
    party_turn_to(dead, "brief fair");
    party_turn_to(last, "brief fair");
    cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
    queue_up(&m, dead, 1);
    queue_up(&m, java, 2);
    queue_up(&m, last, 3);
    party_kill(dead);
    killed = now_ms();
    cr_assert_eq(party_unlock(holder), RDL_OK);
    cr_assert_eq(party_result(java, BRIEF_LIFE_MS + SOON_MS), RDL_OK);
    cr_assert_lt(now_ms() - killed, BRIEF_LIFE_MS + WOKEN_MS);
    cr_assert(!party_finished(last, 0));
    cr_assert_eq(party_unlock(java), RDL_OK);
    cr_assert_eq(party_result(last, SOON_MS), RDL_OK);
    cr_assert_eq(party_unlock(last), RDL_OK);
    meeting_close(&m);
}

/* ---- giving up -------------------------------------------------------------------------------------------------- */

Test(fair, waiters_of_either_side_that_give_up_leave_the_order_of_the_others, .timeout = 60)
{
    static const enum party_kind KINDS[] = {PARTY_JAVA, PARTY_THREAD, PARTY_THREAD,
                                            PARTY_JAVA, PARTY_JAVA,   PARTY_THREAD};
    enum { PARTIES = sizeof KINDS / sizeof KINDS[0], GIVE_UP = 2 };
    struct meeting m;
    struct party *holder, *who[PARTIES];

    meeting_open(&m, TYPE, 0);
    holder = party_on(&m, PARTY_THREAD, NAME);
    cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
    for (size_t i = 0; i < PARTIES; i++) {
        who[i] = party_on(&m, KINDS[i], NAME);
        party_start_try(who[i], i < GIVE_UP ? 1500 : LONG_MS, LONG_MS);
        expect_queued(&m, (int64_t)i + 1);
    }
    for (size_t i = 0; i < GIVE_UP; i++)
        cr_assert_eq(party_result(who[i], SOON_MS), RDL_ETIMEDOUT);
    expect_queued(&m, PARTIES - GIVE_UP);
    cr_assert_eq(party_unlock(holder), RDL_OK);
    for (size_t i = GIVE_UP; i < PARTIES; i++) {
        cr_assert_eq(party_result(who[i], SOON_MS), RDL_OK);
        for (size_t later = i + 1; later < PARTIES; later++)
            cr_assert(!party_finished(who[later], 0));
        cr_assert_eq(party_unlock(who[i]), RDL_OK);
    }
    meeting_close(&m);
}
