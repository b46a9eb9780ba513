/* SPDX-License-Identifier: MIT */
/* test_spin.c - the spin lock, shared by C and Java. Neither side's waiters listen; both sides' holds are the same
 * hash. */
#include "tests/interop/checks.h"

#include <criterion/criterion.h>

#define TYPE "spin"

Test(spin, java_is_kept_out_by_c, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(spin, c_is_kept_out_by_java, .timeout = 60)
{
    check_exclusion(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(spin, watchdog_of_c_keeps_java_out, .timeout = 60)
{
    check_renewal_holds(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(spin, watchdog_of_java_keeps_c_out, .timeout = 60)
{
    check_renewal_holds(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(spin, nested_holds_of_c_are_counted_for_java, .timeout = 60)
{
    check_reentry(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(spin, nested_holds_of_java_are_counted_for_c, .timeout = 60)
{
    check_reentry(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(spin, thousand_rounds_shared_with_java_lose_nothing, .timeout = 120)
{
    check_rounds(TYPE, 1000);
}
