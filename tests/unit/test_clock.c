/* test_clock.c - the clock and the arithmetic of deadlines. */
#include "core/base/clock.h"

#include <criterion/criterion.h>

TestSuite(clock, .timeout = 10);

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
    cr_assert_eq(rdl__after_ms(now, most), RDL__NEVER);
    cr_assert_eq(rdl__after_ms(now, most - 1), now + (most - 1) * RDL__MS);
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
