/* SPDX-License-Identifier: MIT */
/* test_clock.c - the clock and the arithmetic of deadlines. */
#include "core/base/clock.h"

#include <criterion/criterion.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

TestSuite(clock, .timeout = 10);

static clockid_t asked;

static int ask(clockid_t id, struct timespec *to)
{
    asked = id;
    return (int)syscall(SYS_clock_gettime, id, to);
}

/* In place of the C library's, for what is linked into this program. */
int clock_gettime(clockid_t, struct timespec *) __attribute__((alias("ask")));

/* No other clock of the machine is both; which one is asked cannot be seen from its answers as long as nobody sets it
 * and nothing was suspended. */
Test(clock, is_the_one_that_nobody_sets_and_that_counts_suspension)
{
    asked = -1;
    (void)rdl__now();
    cr_assert_eq(asked, CLOCK_BOOTTIME);
}

Test(clock, never_goes_back)
{
    int64_t last = rdl__now();

    cr_assert_gt(last, 0);
    for (int i = 0; i < 10000; i++) {
        int64_t now = rdl__now();

        cr_assert_geq(now, last);
        last = now;
    }
}

Test(clock, after_ms_adds)
{
    cr_assert_eq(rdl__after_ms(5, 0), 5);
    cr_assert_eq(rdl__after_ms(5, 3), 5 + 3 * RDL__MS);
}

Test(clock, after_ms_says_never_instead_of_overflowing)
{
    int64_t now = 1000 * RDL__SEC;
    int64_t most = (RDL__NEVER - now) / RDL__MS;

    cr_assert_eq(rdl__after_ms(now, INT64_MAX), RDL__NEVER);
    cr_assert_eq(rdl__after_ms(now, most + 1), RDL__NEVER);
    cr_assert_eq(rdl__after_ms(now, most), now + most * RDL__MS);
}

Test(clock, ms_until_rounds_up_and_stops_at_zero)
{
    cr_assert_eq(rdl__ms_until(100, 100), 0);
    cr_assert_eq(rdl__ms_until(100, 200), 0);
    cr_assert_eq(rdl__ms_until(101, 100), 1);
    cr_assert_eq(rdl__ms_until(100 + RDL__MS, 100), 1);
    cr_assert_eq(rdl__ms_until(101 + RDL__MS, 100), 2);
    cr_assert_eq(rdl__ms_until(RDL__NEVER, 0), RDL__NEVER / RDL__MS + 1);
}
