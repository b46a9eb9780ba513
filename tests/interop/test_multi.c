/* SPDX-License-Identifier: MIT */
/* test_multi.c - multi-locks of C and Java over the same three names, which each side was given in another order. Java
 * waits for them one after another and gives all back when one takes too long; it knows no order, so only what ours
 * does about holding and waiting keeps the two from standing in each other's way. Java's has no questions: they are
 * asked of members. */
#include "tests/interop/checks.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>

#define TYPE "multi"
#define NAME "several"
#define WOKEN_MS 3000 /* less than either looks by itself */

static void assert_free(struct meeting *m)
{
    cr_assert(WAIT_UNTIL(probe_keys(m->probe) == 0, 5000), "keys are left");
}

static void check_turns(enum party_kind first, enum party_kind second)
{
    struct meeting m;
    struct party *holder, *other, *single;
    int64_t released;

    meeting_open(&m, TYPE, 0);
    holder = party_on(&m, first, NAME);
    other = party_on(&m, second, NAME);
    single = party_on(&m, second, NAME ":b");
    party_turn_to(single, "reentrant");
    cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
    cr_assert_eq(probe_keys(m.probe), 3);
    cr_assert_eq(party_try(other, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_try(other, 300, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_try(single, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_unlock(holder), RDL_OK);
    assert_free(&m);
    cr_assert_eq(party_try(single, 0, LONG_MS), RDL_OK);
    cr_assert_eq(party_try(holder, 300, LONG_MS), RDL_ETIMEDOUT);
    cr_assert(WAIT_UNTIL(probe_keys(m.probe) == 1, 5000), "a take that failed keeps members");
    party_start_try(holder, LONG_MS, LONG_MS);
    cr_assert(!party_finished(holder, 100));
    cr_assert_eq(party_unlock(single), RDL_OK);
    released = now_ms();
    cr_assert_eq(party_result(holder, 10000), RDL_OK);
    cr_assert_lt(now_ms() - released, WOKEN_MS);
    cr_assert_eq(party_unlock(holder), RDL_OK);
    assert_free(&m);
    meeting_close(&m);
}

Test(multi, java_is_kept_out_by_c_and_waits_for_it, .timeout = 60)
{
    check_turns(PARTY_THREAD, PARTY_JAVA);
}

Test(multi, c_is_kept_out_by_java_and_waits_for_it, .timeout = 60)
{
    check_turns(PARTY_JAVA, PARTY_THREAD);
}

Test(multi, java_takes_over_when_the_leases_of_a_dead_c_holder_end, .timeout = 60)
{
    check_takeover(TYPE, PARTY_PROCESS, PARTY_JAVA);
}

Test(multi, c_takes_over_when_the_leases_of_a_dead_java_holder_end, .timeout = 60)
{
    check_takeover(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(multi, thousands_of_rounds_shared_with_java_lose_nothing, .timeout = 120)
{
    check_rounds_of_pairs(TYPE, 4000);
}

Test(multi, crowd_of_c_and_java_shares_and_loses_nothing, .timeout = 120)
{
    check_rounds(TYPE, 200);
}
