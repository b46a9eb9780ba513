/* SPDX-License-Identifier: MIT */
/* test_watchdog_told.c - when the watchdog has its client listen for evictions, and what it makes of one that is told.
 */
#include "tests/unit/watching.h"

static int listening;

static void listen_for(void *arg, int64_t now)
{
    int *count = arg;

    (void)now;
    ++*count;
}

static void set_up_listener(void)
{
    const struct rdl__watchdog_config config = {.lease_ms = LEASE_MS, .listen = listen_for, .listen_arg = &listening};

    set_up();
    rdl__watchdog_close(wd);
    rdl__watchdog_free(wd);
    wd = rdl__watchdog_new(&mem, &sinks, &loop, &wire, NULL, &config);
    listening = 0;
}

TestSuite(told, .init = set_up_listener, .fini = tear_down, .timeout = 60);

Test(told, a_hold_that_lasts_for_a_second_has_its_client_listen_once)
{
    add(0);
    run_for(RDL__SEC - 1);
    cr_assert_eq(listening, 0);
    run_for(1);
    cr_assert_eq(listening, 1);
    add(1);
    run_for(2 * RDL__SEC);
    cr_assert_eq(listening, 1);
    cr_assert_eq(wire.submitted, 0);
}

Test(told, a_lease_with_an_end_counts_as_well_and_so_does_one_that_is_raised_meanwhile)
{
    rdl__watchdog_add(wd, hold(0), T0, LEASE_MS, false);
    run_for(RDL__SEC / 2);
    cr_assert(rdl__watchdog_raise(wd, hold(0), loop.now, 2 * LEASE_MS, false));
    run_for(RDL__SEC / 2);
    cr_assert_eq(listening, 1);
}

Test(told, holds_that_come_and_go_have_it_listen_to_nothing)
{
    for (int i = 0; i < 20; i++) {
        rdl__watchdog_add(wd, hold(0), loop.now, LEASE_MS, true);
        run_for(RDL__SEC - 1);
        rdl__watchdog_remove(wd, hold(0), loop.now);
    }
    cr_assert_eq(listening, 0);
}

Test(told, leases_that_end_or_are_renewed_within_a_second_are_not_worth_it)
{
    rdl__watchdog_add(wd, hold(0), T0, 3000, false);
    run_for(4 * RDL__SEC);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(listening, 0);
}

Test(told, what_is_said_to_be_gone_is_asked_about_at_once_and_nothing_else_is)
{
    struct command c;

    for (int i = 0; i < 3; i++)
        rdl__watchdog_add(wd, hold(i), T0, LEASE_MS, i != 1);
    rdl__watchdog_verify(wd, 2); /* hold(1) */
    cr_assert_eq(wire.submitted, 1);
    read_command(&c);
    cr_assert_eq(keys_in(&c), 1);
    cr_assert_eq(key_in(&c, 0), 1);
    cr_assert_eq(answer_command(&c, 1), 1);
    cr_assert_eq(things[1].lost, 1);
    cr_assert_eq(things[1].reason, RDL_LOSS_GONE);
    cr_assert_eq(things[0].lost + things[2].lost, 0);
}

Test(told, what_is_there_after_all_goes_on_being_held)
{
    add(0);
    rdl__watchdog_verify(wd, 1);
    rdl__watchdog_verify(wd, 77);
    cr_assert_eq(answer(), 1);
    run_for(RDL__SEC);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(things[0].lost, 0);
}

Test(told, all_are_asked_about_when_anything_may_have_been_said)
{
    add_many(3);
    rdl__watchdog_verify(wd, 0);
    cr_assert_eq(answer(), 3);
    cr_assert_eq(things[0].lost + things[1].lost + things[2].lost, 0);
}

/* The renewal that is under way may have been carried out before the eviction. */
Test(told, what_is_said_during_a_renewal_is_asked_about_again_after_it)
{
    add_due(0);
    run_for(0);
    cr_assert_eq(wire.submitted, 1);
    rdl__watchdog_verify(wd, 1);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(answer(), 1);
    run_for(0);
    cr_assert_eq(wire.submitted, 2);
    cr_assert_eq(answer_but(0), 1);
    cr_assert_eq(things[0].lost, 1);
}
