/* test_busypoll.c - looking before sleeping goes on where it pays, and costs next to nothing where it does not. */
#include "core/base/busypoll.h"
#include "core/base/clock.h"

#include <criterion/criterion.h>

#define WINDOW (50 * RDL__US)
#define SLICE (3 * RDL__MS) /* for which somebody else has the core */

TestSuite(busypoll, .timeout = 10);

Test(busypoll, goes_on_while_answers_come_in_time)
{
    struct rdl__busypoll s = {0};

    for (int i = 0; i < 10000; i++) {
        cr_assert(rdl__busypoll_due(&s));
        rdl__busypoll_gained(&s);
    }
}

/* Of a hundred thousand calls, fewer than one in a thousand looks in vain. */
Test(busypoll, all_but_stops_where_no_answer_comes_in_time)
{
    struct rdl__busypoll s = {0};
    int looked = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__busypoll_due(&s)) {
            looked++;
            rdl__busypoll_lost(&s, WINDOW);
        }
    cr_assert_leq(looked, 25);
    cr_assert_geq(looked, 10); /* what was in vain may have changed */
}

/* Between two slices of the other's nearly every look finds its answer, and yet it does not pay. */
Test(busypoll, all_but_stops_where_somebody_else_wants_the_core)
{
    struct rdl__busypoll s = {0};
    int looked = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__busypoll_due(&s)) {
            if (++looked % 50 == 0)
                rdl__busypoll_lost(&s, SLICE);
            else
                rdl__busypoll_gained(&s);
        }
    cr_assert_leq(looked, 2000);
}

/* One answer in fifty is late: that is no reason to sleep. */
Test(busypoll, bears_an_answer_that_is_late_now_and_then)
{
    struct rdl__busypoll s = {0};
    int looked = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__busypoll_due(&s)) {
            if (++looked % 50 == 0)
                rdl__busypoll_lost(&s, WINDOW);
            else
                rdl__busypoll_gained(&s);
        }
    cr_assert_geq(looked, 99000);
}

Test(busypoll, comes_back_when_it_pays_again)
{
    struct rdl__busypoll s = {0};
    int calls = 0;

    for (int i = 0; i < 100000; i++)
        if (rdl__busypoll_due(&s))
            rdl__busypoll_lost(&s, WINDOW);
    while (!rdl__busypoll_due(&s))
        calls++;
    cr_assert_leq(calls, 8192);
    for (int i = 0; i < 1000; i++) {
        rdl__busypoll_gained(&s);
        cr_assert(rdl__busypoll_due(&s));
    }
}
