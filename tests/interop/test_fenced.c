/* SPDX-License-Identifier: MIT */
/* test_fenced.c - the fenced lock, shared by C and Java: one lock, one channel, one counter. */
#include "tests/interop/checks.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define TYPE "fenced"
#define COUNTER "redisson_lock_token:{orders}"

Test(fenced, java_is_kept_out_by_c, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(fenced, c_is_kept_out_by_java, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(fenced, java_waiter_is_woken_by_a_release_in_c, .timeout = 60)
{
    check_release_wakes(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(fenced, c_waiter_is_woken_by_a_release_in_java, .timeout = 60)
{
    check_release_wakes(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(fenced, watchdog_of_c_keeps_java_out, .timeout = 60)
{
    check_renewal_holds(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(fenced, c_takes_over_from_a_killed_jvm, .timeout = 60)
{
    check_death(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(fenced, nested_holds_of_java_are_counted_for_c, .timeout = 60)
{
    check_reentry(TYPE, PARTY_JAVA, PARTY_THREAD);
}

/* Whoever takes it raises the one counter by one; nesting raises it in Java alone (wire.md, Where we differ). */
Test(fenced, tokens_of_both_sides_come_from_one_counter, .timeout = 60)
{
    struct meeting m;
    struct party *who[2];

    meeting_open(&m, TYPE, 0);
    who[0] = party_on(&m, PARTY_THREAD, "orders");
    who[1] = party_on(&m, PARTY_JAVA, "orders");
    for (long token = 1; token <= 20; token++) {
        struct party *holder = who[token % 2];

        cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
        cr_assert_eq(atol(probe_text(m.probe, "GET " COUNTER)), token);
        cr_assert_eq(party_unlock(holder), RDL_OK);
    }
    cr_assert_eq(probe_int(m.probe, "PTTL " COUNTER), -1);
    meeting_close(&m);
}

Test(fenced, thousand_rounds_shared_with_java_lose_nothing, .timeout = 120)
{
    check_rounds(TYPE, 1000);
}
