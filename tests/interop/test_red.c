/* SPDX-License-Identifier: MIT */
/* test_red.c - red locks of C and Java over the same three servers. Java asks the servers one after another and waits
 * at each; ours asks all at once, and again when it hears that a majority may be had. Java's has no questions. */
#include "tests/interop/checks.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>

#define TYPE "red"
#define NAME "quorum"
#define CHANNEL "redisson_lock__channel:{" NAME "}"
#define SOON_MS 5000
#define PATIENT_MS 20000 /* which Java divides among the servers */
#define WOKEN_MS 3000

static bool taken_at(const struct meeting *m, size_t least)
{
    size_t taken = 0;

    for (size_t i = 0; i < m->servers; i++)
        taken += probe_int(m->probes[i], "EXISTS " NAME) == 1;
    return taken >= least;
}

static bool all_free(const struct meeting *m)
{
    for (size_t i = 0; i < m->servers; i++)
        if (probe_keys(m->probes[i]) > 0)
            return false;
    return true;
}

static void check_turns(enum party_kind first, enum party_kind second)
{
    struct meeting m;
    struct party *holder, *other;

    meeting_open(&m, TYPE, 0);
    holder = party_on(&m, first, NAME);
    other = party_on(&m, second, NAME);
    for (int turn = 0; turn < 3; turn++) {
        struct party *last = holder;

        cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
        cr_assert(WAIT_UNTIL(taken_at(&m, m.servers), SOON_MS), "not everywhere");
        cr_assert_eq(party_try(other, 0, LONG_MS), RDL_ETIMEDOUT);
        cr_assert_eq(party_try(other, 300, LONG_MS), RDL_ETIMEDOUT);
        cr_assert(taken_at(&m, m.servers));
        cr_assert_eq(party_unlock(holder), RDL_OK);
        cr_assert(WAIT_UNTIL(all_free(&m), SOON_MS), "keys are left");
        holder = other;
        other = last;
    }
    meeting_close(&m);
}

Test(red, c_and_java_keep_each_other_out, .timeout = 60)
{
    check_turns(PARTY_THREAD, PARTY_JAVA);
}

/* Somebody has it at one server: that does not keep anybody out, and is not touched. At two it does. */
static void check_majority(enum party_kind kind)
{
    struct meeting m;
    struct party *who;

    meeting_open(&m, TYPE, 0);
    who = party_on(&m, kind, NAME);
    cr_assert_eq(probe_int(m.probes[1], "HSET " NAME " somebody 1"), 1);
    cr_assert_eq(party_try(who, 0, LONG_MS), RDL_OK);
    cr_assert(WAIT_UNTIL(taken_at(&m, m.servers), SOON_MS));
    cr_assert_eq(party_unlock(who), RDL_OK);
    cr_assert(WAIT_UNTIL(!taken_at(&m, 2), SOON_MS));
    cr_assert_eq(probe_int(m.probes[1], "HGET " NAME " somebody"), 1);
    cr_assert_eq(probe_int(m.probes[2], "HSET " NAME " somebody 1"), 1);
    cr_assert_eq(party_try(who, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert(WAIT_UNTIL(!taken_at(&m, 3), SOON_MS), "the third is not given back");
    meeting_close(&m);
}

Test(red, c_needs_two_of_three, .timeout = 60)
{
    check_majority(PARTY_THREAD);
}

Test(red, java_needs_two_of_three, .timeout = 60)
{
    check_majority(PARTY_JAVA);
}

static bool listened_to(const struct meeting *m, size_t least)
{
    size_t servers = 0;

    for (size_t i = 0; i < m->servers; i++)
        servers += probe_subscribers(m->probes[i], CHANNEL) > 0;
    return servers >= least;
}

/* Java's waiter listens where it waits, ours everywhere. */
static void check_wake_up(enum party_kind holder_kind, const char *waiter_type, enum party_kind waiter_kind,
                          size_t listens)
{
    struct meeting m;
    struct party *holder, *waiter;
    int64_t released;

    meeting_open(&m, TYPE, 0);
    holder = party_on(&m, holder_kind, NAME);
    waiter = party_on(&m, waiter_kind, NAME);
    party_turn_to(waiter, waiter_type);
    for (int turn = 0; turn < 3; turn++) {
        cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
        cr_assert(WAIT_UNTIL(taken_at(&m, m.servers), SOON_MS));
        party_start_try(waiter, PATIENT_MS, LONG_MS);
        cr_assert(WAIT_UNTIL(listened_to(&m, listens), SOON_MS), "no subscription");
        released = now_ms();
        cr_assert_eq(party_unlock(holder), RDL_OK);
        cr_assert_eq(party_result(waiter, PATIENT_MS), RDL_OK);
        cr_assert_lt(now_ms() - released, WOKEN_MS);
        cr_assert_eq(party_unlock(waiter), RDL_OK);
        cr_assert(WAIT_UNTIL(!listened_to(&m, 1), SOON_MS), "still subscribed");
    }
    meeting_close(&m);
}

Test(red, java_waiter_is_woken_by_releases_in_c, .timeout = 60)
{
    check_wake_up(PARTY_THREAD, TYPE, PARTY_JAVA, 1);
}

Test(red, c_waiter_is_woken_by_releases_in_java, .timeout = 60)
{
    check_wake_up(PARTY_JAVA, "unasked red", PARTY_THREAD, 3);
}

Test(red, java_takes_over_when_the_leases_of_a_dead_c_holder_end, .timeout = 60)
{
    check_takeover(TYPE, PARTY_PROCESS, PARTY_JAVA);
}

Test(red, c_takes_over_when_the_leases_of_a_dead_java_holder_end, .timeout = 60)
{
    check_takeover(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(red, thousands_of_rounds_shared_with_java_lose_nothing, .timeout = 120)
{
    check_rounds_of_pairs(TYPE, 2000);
}

Test(red, crowd_of_c_and_java_shares_and_loses_nothing, .timeout = 120)
{
    check_rounds(TYPE, 200);
}
