/* SPDX-License-Identifier: MIT */
/* test_busypoll.c - looking before sleeping goes on where it pays, and costs next to nothing where it does not. */
#include "core/base/busypoll.h"
#include "core/base/clock.h"

#include <criterion/criterion.h>

#define WINDOW (200 * RDL__US)
#define SLICE (3 * RDL__MS) /* for which somebody else has the core */

static struct rdl__busypoll account;

static void set_up(void)
{
    rdl__busypoll_init(&account);
}

TestSuite(busypoll, .init = set_up, .timeout = 10);

/* Calls with what each costs: a sleep, or a look that `look` books. Returns how many looked. */
static int run_calls(int calls, int64_t sleep_ns, void (*look)(int count))
{
    int looked = 0;

    for (int i = 0; i < calls; i++) {
        if (rdl__busypoll_due(&account))
            look(++looked);
        else
            rdl__busypoll_slept(&account, sleep_ns);
    }
    return looked;
}

static void in_time(int count)
{
    (void)count;
    rdl__busypoll_found(&account, 40 * RDL__US);
}

Test(busypoll, goes_on_while_answers_come_in_time)
{
    cr_assert_eq(run_calls(10000, 150 * RDL__US, in_time), 10000);
}

static void in_vain(int count)
{
    (void)count;
    rdl__busypoll_wasted(&account, WINDOW);
}

/* Of two hundred thousand calls, one in a thousand looks. */
Test(busypoll, all_but_stops_where_no_answer_comes_in_time)
{
    int looked = run_calls(200000, 20 * RDL__US, in_vain);

    cr_assert_leq(looked, 200);
    cr_assert_geq(looked, 50); /* what was in vain may have changed */
}

static void between_slices(int count)
{
    rdl__busypoll_found(&account, 40 * RDL__US);
    if (count % 60 == 0)
        rdl__busypoll_kept(&account, SLICE);
}

/* Between two slices of the other's every look finds its answer; the other is to have its share all the same. */
Test(busypoll, looks_seldom_where_somebody_else_wants_the_core)
{
    cr_assert_leq(run_calls(200000, 150 * RDL__US, between_slices), 200000 / 8);
}

/* The server gets the core as soon as it has something to do: no sooner than when the caller sleeps. */
static void sharing_the_core(int count)
{
    (void)count;
    rdl__busypoll_found(&account, 45 * RDL__US);
    rdl__busypoll_kept(&account, 25 * RDL__US);
}

Test(busypoll, all_but_stops_where_the_server_has_the_same_core)
{
    cr_assert_leq(run_calls(200000, 40 * RDL__US, sharing_the_core), 4000);
}

static void late_now_and_then(int count)
{
    if (count % 20 == 0)
        rdl__busypoll_wasted(&account, WINDOW);
    else
        rdl__busypoll_found(&account, 40 * RDL__US);
}

static void interrupted_now_and_then(int count)
{
    rdl__busypoll_found(&account, 40 * RDL__US);
    if (count % 10 == 0)
        rdl__busypoll_kept(&account, 30 * RDL__US);
}

/* One answer in twenty is late, one look in ten interrupted: that is no reason to sleep. It takes some calls to find
 * out how long a sleep takes. */
Test(busypoll, bears_disturbances)
{
    cr_assert_geq(run_calls(100000, 150 * RDL__US, late_now_and_then), 95000);
    set_up();
    cr_assert_geq(run_calls(100000, 150 * RDL__US, interrupted_now_and_then), 95000);
}

Test(busypoll, comes_back_when_it_pays_again)
{
    (void)run_calls(100000, 150 * RDL__US, in_vain);
    cr_assert_geq(run_calls(30000, 150 * RDL__US, in_time), 20000);
}
