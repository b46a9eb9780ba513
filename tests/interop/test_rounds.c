/* SPDX-License-Identifier: MIT */
/* test_rounds.c - the long form of the rounds that C and Java work under one lock. */
#include "tests/interop/checks.h"

#include <criterion/criterion.h>

Test(rounds, ten_thousand_under_a_reentrant_lock_lose_nothing, .timeout = 280)
{
    check_rounds("reentrant", 10000);
}
