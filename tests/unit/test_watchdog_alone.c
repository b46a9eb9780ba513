/* SPDX-License-Identifier: MIT */
/* test_watchdog_alone.c - holds of the host alone (RDL_DEGRADED), as the watchdog has them. */
#include "tests/unit/watching.h"

TestSuite(alone, .init = set_up, .fini = tear_down, .timeout = 10);

#define RESTORE (200 * RDL__MS) /* schedule.h */

static void be_at_risk(int i)
{
    add(i);
    run_for(2 * LEASE / 3 + 1); /* its renewal is under way, and not answered */
    cr_assert_eq(state(i), RDL_AT_RISK);
}

Test(alone, the_server_is_not_asked_about_it_and_its_user_is_asked_to_restore_it)
{
    rdl__watchdog_add_alone(wd, hold(0), loop.now, RDL_LEASE_MAX_MS);
    cr_assert_eq(state(0), RDL_DEGRADED);
    run_for(RESTORE - 1);
    cr_assert_eq(things[0].restores, 0);
    run_for(1);
    cr_assert_eq(things[0].restores, 1);
    run_for(10 * LEASE);
    cr_assert_geq(things[0].restores, 10 * LEASE / RESTORE);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    rdl__watchdog_verify(wd, 1);
    rdl__watchdog_verify(wd, 0);
    cr_assert_eq(wire.submitted, 0);
    cr_assert_eq(state(0), RDL_DEGRADED);
    cr_assert_eq(things[0].lost, 0);
}

Test(alone, it_is_renewed_as_any_other_when_the_server_has_it)
{
    const struct rdl__hold_id id = {.n = 1, .token = 7};

    rdl__watchdog_add_alone(wd, hold(0), loop.now, RDL_LEASE_MAX_MS);
    run_for(LEASE);
    cr_assert(rdl__watchdog_restore(wd, hold(0), &id, loop.now, LEASE_MS, true));
    cr_assert_eq(state(0), RDL_HELD);
    run_until_sent(1);
    cr_assert_eq(answer_but(0), 1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_GONE);
}

Test(alone, what_was_granted_and_is_over_is_no_hold_and_it_stays_alone)
{
    const struct rdl__hold_id id = {.n = 1, .token = 7};
    int64_t sent_at = loop.now;

    rdl__watchdog_add_alone(wd, hold(0), loop.now, RDL_LEASE_MAX_MS);
    run_for(LEASE);
    cr_assert_not(rdl__watchdog_restore(wd, hold(0), &id, sent_at, LEASE_MS, true));
    cr_assert_eq(state(0), RDL_DEGRADED);
}

Test(alone, it_is_lost_when_somebody_else_has_it_and_not_by_what_the_server_says_of_an_earlier_hold)
{
    rdl__watchdog_add_alone(wd, hold(0), loop.now, RDL_LEASE_MAX_MS);
    rdl__watchdog_gone(wd, hold(0), 1);
    cr_assert_eq(state(0), RDL_DEGRADED);
    rdl__watchdog_taken(wd, hold(0), 2);
    cr_assert_eq(state(0), RDL_DEGRADED);
    rdl__watchdog_taken(wd, hold(0), 1);
    cr_assert_eq(state(0), RDL_LOST);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_TAKEN);
}

Test(alone, a_lease_with_an_end_ends)
{
    const struct rdl__hold_id id = {.n = 1, .token = 7};

    rdl__watchdog_add_alone(wd, hold(0), loop.now, LEASE_MS);
    run_for(LEASE - 1);
    cr_assert_eq(things[0].lost, 0);
    run_for(1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
    cr_assert_not(rdl__watchdog_restore(wd, hold(0), &id, loop.now, LEASE_MS, true));
    cr_assert_eq(state(0), RDL_LOST);
}

Test(alone, a_hold_at_risk_parts_and_the_answer_to_its_renewal_does_not_concern_it)
{
    struct command renewal;

    be_at_risk(0);
    read_command(&renewal);                                         /* it has been sent */
    cr_assert_not(rdl__watchdog_degrade(wd, hold(0), 2, loop.now)); /* another hold */
    cr_assert(rdl__watchdog_degrade(wd, hold(0), 1, loop.now));
    cr_assert_eq(state(0), RDL_DEGRADED);
    cr_assert_eq(answer_command(&renewal, 0), 1);
    run_for(LEASE);
    cr_assert_eq(state(0), RDL_DEGRADED);
    cr_assert_eq(things[0].lost, 0);
}

Test(alone, a_hold_that_is_well_or_lost_or_has_an_end_does_not_part)
{
    add(0);
    cr_assert_not(rdl__watchdog_degrade(wd, hold(0), 1, loop.now));
    be_at_risk(1);
    run_for(LEASE / 3);
    cr_assert_eq(state(1), RDL_LOST);
    cr_assert_not(rdl__watchdog_degrade(wd, hold(1), 2, loop.now));
    rdl__watchdog_add(wd, hold(2), loop.now, LEASE_MS, false);
    cr_assert_not(rdl__watchdog_degrade(wd, hold(2), 3, loop.now));
    cr_assert_eq(state(2), RDL_HELD);
}

Test(alone, it_is_released_as_what_it_is)
{
    rdl__watchdog_add_alone(wd, hold(0), loop.now, RDL_LEASE_MAX_MS);
    cr_assert(rdl__watchdog_raise(wd, hold(0), loop.now, LEASE_MS, false)); /* an extend that does not shorten */
    run_for(2 * LEASE);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_DEGRADED);
    run_for(LEASE);
    cr_assert_eq(things[0].lost, 0);
    cr_assert_eq(wire.submitted, 0);
}
