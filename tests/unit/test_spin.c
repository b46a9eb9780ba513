/* test_spin.c - looking before sleeping goes on where it pays, and costs next to nothing where it does not. */
#include "core/base/clock.h"
#include "core/base/spin.h"

#include <criterion/criterion.h>

#define WINDOW (50 * RDL__US)
#define SLICE (3 * RDL__MS) /* for which somebody else has the core */

TestSuite(spin, .timeout = 10);

Test(spin, goes_on_while_answers_come_in_time)
{
    struct rdl__spin s = {0};

    for (int i = 0; i < 10000; i++) {
        cr_assert(rdl__spin_due(&s));
        rdl__spin_gained(&s);
    }
}

/* Of a hundred thousand calls, fewer than one in a thousand looks in vain. */
Test(spin, all_but_stops_where_no_answer_comes_in_time)
{
    struct rdl__spin s = {0};
    int looked = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__spin_due(&s)) {
            looked++;
            rdl__spin_lost(&s, WINDOW);
        }
    cr_assert_leq(looked, 25);
    cr_assert_geq(looked, 10); /* what was in vain may have changed */
}

/* Between two slices of the other's nearly every look finds its answer, and yet it does not pay. */
Test(spin, all_but_stops_where_somebody_else_wants_the_core)
{
    struct rdl__spin s = {0};
    int looked = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__spin_due(&s)) {
            if (++looked % 50 == 0)
                rdl__spin_lost(&s, SLICE);
            else
                rdl__spin_gained(&s);
        }
    cr_assert_leq(looked, 2000);
}

/* One answer in fifty is late: that is no reason to sleep. */
Test(spin, bears_an_answer_that_is_late_now_and_then)
{
    struct rdl__spin s = {0};
    int looked = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__spin_due(&s)) {
            if (++looked % 50 == 0)
                rdl__spin_lost(&s, WINDOW);
            else
                rdl__spin_gained(&s);
        }
    cr_assert_geq(looked, 99000);
}

Test(spin, comes_back_when_it_pays_again)
{
    struct rdl__spin s = {0};
    int calls = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__spin_due(&s))
            rdl__spin_lost(&s, WINDOW);
    while (!rdl__spin_due(&s))
        calls++;
    cr_assert_leq(calls, 8192);
    for (int i = 0; i < 1000; i++) {
        rdl__spin_gained(&s);
        cr_assert(rdl__spin_due(&s));
    }
}
