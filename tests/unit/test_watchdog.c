/* SPDX-License-Identifier: MIT */
/* test_watchdog.c - leases are renewed in time, in batches, spread; raised; and asked about where a server may have
 * forgotten. What goes wrong, and holds that leave, are test_watchdog_losses'.
 */
#include "tests/unit/watching.h"

TestSuite(watchdog, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- validity --------------------------------------------------------------------------------------------------- */

Test(watchdog, validity_is_the_lease_less_the_allowance_for_drift)
{
    rdl__watchdog_close(wd);
    wd = rdl__watchdog_free(wd);
    open_watchdog(10000, 2);
    cr_assert_eq(rdl__watchdog_validity(wd, T0, 30000), T0 + 30000 * RDL__MS - 300 * RDL__MS - 2 * RDL__MS);
    cr_assert_eq(rdl__watchdog_validity(wd, T0, 1), T0 + RDL__MS - 10 * RDL__US - 2 * RDL__MS);
    cr_assert_gt(rdl__watchdog_validity(wd, T0, RDL_LEASE_MAX_MS), T0 + RDL_LEASE_MAX_MS / 100 * 98 * RDL__MS);
}

/* Whoever believes in a hold stops early; whoever minds what the server still has goes on for longer. */
Test(watchdog, expiry_is_the_lease_and_the_allowance_for_drift)
{
    rdl__watchdog_close(wd);
    wd = rdl__watchdog_free(wd);
    open_watchdog(10000, 2);
    cr_assert_eq(rdl__watchdog_expiry(wd, T0, 30000), T0 + 30000 * RDL__MS + 300 * RDL__MS + 2 * RDL__MS);
    cr_assert_gt(rdl__watchdog_expiry(wd, T0, RDL_LEASE_MAX_MS), T0 + RDL_LEASE_MAX_MS * RDL__MS);
}

Test(watchdog, time_left_counts_from_the_sending_and_ends_in_lost)
{
    int64_t left;

    rdl__watchdog_add(wd, hold(0), T0 - 100 * RDL__MS, 1000, false);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), T0, &left), RDL_HELD);
    cr_assert_eq(left, 900 * RDL__MS);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), T0 + 900 * RDL__MS - 1, &left), RDL_HELD);
    cr_assert_eq(left, 1);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), T0 + 900 * RDL__MS, &left),
                 RDL_LOST); /* before anybody has noticed */
    cr_assert_eq(left, 0);
    cr_assert_eq(things[0].lost, 0);
}

/* ---- renewing --------------------------------------------------------------------------------------------------- */

Test(watchdog, waits_until_due_then_renews)
{
    struct command c;

    add(0);
    run_for(LEASE / 4 - RDL__MS);
    cr_assert_eq(wire.submitted, 0);
    run_until_sent(1);
    cr_assert_leq(loop.now, T0 + LEASE / 3 + RDL__MS);
    read_command(&c);
    cr_assert_eq(c.argc, 6);
    cr_assert_str_eq(c.argv[0], "EVALSHA");
    cr_assert_str_eq(c.argv[1], rdl__scripts[RDL__SCRIPT_REENTRANT_RENEW].sha);
    cr_assert_str_eq(c.argv[2], "1");
    cr_assert_str_eq(c.argv[3], "lock:0");
    cr_assert_str_eq(c.argv[4], "8e03978e-40d5-43e8-bc93-6894a57f9324:0");
    cr_assert_str_eq(c.argv[5], "30000");
    rdl__buf_done(&c.text);
    rdl__watchdog_remove(wd, hold(0), loop.now);
}

/* A quarter of the lease is for three batches: the one under way, one that is full, and its own. */
Test(watchdog, replicas_are_waited_for_at_most_for_a_share_of_the_shortest_lease)
{
    enum { SHORT_MS = 3000, WAIT_MS = SHORT_MS / 4 / 3 };
    struct rdl__acks_lane acked = {.lane = &wire};
    struct command c;
    char wait[64];

    rdl__watchdog_close(wd);
    wd = rdl__watchdog_free(wd);
    open_watchdog_acked(&acked);
    hold(0)->acks = rdl__acks_of(1, false, 1000);
    hold(1)->acks = rdl__acks_of(2, false, 900);
    rdl__watchdog_add(wd, hold(0), loop.now - LEASE, 2 * LEASE_MS, true);
    rdl__watchdog_add(wd, hold(1), loop.now - SHORT_MS / 3 * RDL__MS, SHORT_MS, true);
    run_until_sent(1);
    read_command(&c);
    cr_assert_eq(keys_in(&c), 2);
    snprintf(wait, sizeof wait, "*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$3\r\n%d\r\n", WAIT_MS);
    cr_assert_str_eq(c.argv[c.argc - 1] + strlen(c.argv[c.argc - 1]) + 2, wait);
    rdl__buf_done(&c.text);
    rdl__watchdog_remove(wd, hold(0), loop.now);
    rdl__watchdog_remove(wd, hold(1), loop.now);
}

Test(watchdog, keeps_a_hold_alive_for_as_long_as_it_is_confirmed)
{
    add(0);
    run_answering(T0 + 100 * LEASE, 20 * RDL__MS);
    cr_assert_eq(state(0), RDL_HELD);
    cr_assert_eq(things[0].at_risk + things[0].lost, 0);
    cr_assert(metrics[RDL_M_RENEWED] >= 299 && metrics[RDL_M_RENEWED] <= 405, "%d", (int)metrics[RDL_M_RENEWED]);
    cr_assert_eq(metrics[RDL_M_RENEWED], wire.submitted);
}

Test(watchdog, an_explicit_lease_is_not_renewed)
{
    rdl__watchdog_add(wd, hold(0), T0, LEASE_MS, false);
    run_for(LEASE - 1);
    cr_assert_eq(wire.submitted, 0);
    cr_assert_eq(things[0].at_risk + things[0].lost, 0);
    run_for(1);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, a_confirmation_counts_from_its_sending)
{
    int64_t left, sent_at;

    add(0);
    run_until_sent(1);
    sent_at = wire.last_at;
    run_for(5 * RDL__SEC);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), loop.now, &left), RDL_HELD);
    cr_assert_eq(loop.now + left, sent_at + LEASE);
}

Test(watchdog, hold_that_was_granted_for_less_is_renewed_in_time_and_then_for_the_usual_lease)
{
    enum { LESS_MS = LEASE_MS / 2 };
    struct command c;
    int64_t left;

    rdl__watchdog_add(wd, hold(0), T0, LESS_MS, true);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), loop.now, &left), RDL_HELD);
    cr_assert_eq(left, LESS_MS * RDL__MS);
    run_until_sent(1);
    cr_assert_leq(loop.now, T0 + LESS_MS * RDL__MS / 3);
    cr_assert_eq(things[0].at_risk, 0);
    read_command(&c);
    cr_assert_str_eq(c.argv[c.argc - 1], "30000");
    cr_assert_eq(answer_command(&c, NONE), 1);
    (void)rdl__watchdog_state(wd, hold(0), loop.now, &left);
    cr_assert_eq(loop.now + left, wire.last_at + LEASE);
    run_for(LEASE / 4 - RDL__MS);
    cr_assert_eq(wire.submitted, 1);
    run_until_sent(2);
    read_command(&c);
    cr_assert_str_eq(c.argv[c.argc - 1], "30000");
    cr_assert_eq(answer_command(&c, NONE), 1);
    (void)rdl__watchdog_remove(wd, hold(0), loop.now);
}

Test(watchdog, holds_taken_together_are_not_renewed_together)
{
    enum { TENTHS = 10 };
    int renewed[TENTHS] = {0};
    int64_t third = LEASE / 3;

    add_many(HOLDS_MAX);
    run_for(third * 3 / 4 - 1);
    cr_assert_eq(wire.submitted, 0);
    for (int tenth = 0; tenth < TENTHS; tenth++) {
        int64_t end = T0 + third * 3 / 4 + third / 4 / TENTHS * (tenth + 1);

        while (loop.now < end) {
            fake_loop_run(&loop, loop.now + 5 * RDL__MS);
            while (wire.count > 0)
                renewed[tenth] += (int)answer();
        }
    }
    for (int tenth = 0; tenth < TENTHS; tenth++)
        cr_assert(renewed[tenth] > 50 && renewed[tenth] < 170, "tenth %d: %d of 1000", tenth, renewed[tenth]);
    run_answering(T0 + 20 * LEASE, 0);
    for (int i = 0; i < HOLDS_MAX; i++)
        cr_assert_eq(things[i].at_risk + things[i].lost, 0);
}

Test(watchdog, what_is_due_together_travels_in_batches_of_at_most_100_two_at_a_time)
{
    add_many(250);
    run_for(LEASE / 3 + RDL__MS); /* all are due; the first batches were small and are not answered yet */
    cr_assert_eq(wire.count, 2);
    while (wire.count > 0) {
        size_t under_way = wire.count;

        cr_assert_leq(under_way, 2);
        cr_assert_leq(answer(), RDL__BATCH);
    }
    cr_assert_eq(metrics[RDL_M_RENEWED], 250);
    cr_assert_leq(wire.submitted, 2 + 3);
}

/* One or two are due at any moment. */
Test(watchdog, those_that_are_nearly_due_go_along)
{
    add_many(HOLDS_MAX);
    run_answering(T0 + LEASE / 3, RDL__MS);
    cr_assert_geq(metrics[RDL_M_RENEWED], HOLDS_MAX);
    cr_assert_leq(wire.submitted, metrics[RDL_M_RENEWED] / 16, "%d commands", wire.submitted);
}

Test(watchdog, nobody_goes_along_long_before_its_time)
{
    add(0);
    run_for(LEASE / 6); /* twice as much as chance could bring them together by */
    add(1);
    run_until_sent(1);
    cr_assert_eq(answer(), 1);
}

Test(watchdog, each_script_has_its_own_batches)
{
    struct command c;
    int of_simple = 0;

    for (int i = 0; i < 10; i += 2)
        things[i].hold.script = RDL__SCRIPT_SIMPLE_RENEW;
    add(10); /* due some time; occupies the lane together with the next */
    run_until_sent(1);
    for (int i = 0; i < 10; i++)
        add_due(i);
    run_for(0);
    while (wire.count > 0) {
        bool simple;

        read_command(&c);
        simple = strcmp(c.argv[1], rdl__scripts[RDL__SCRIPT_SIMPLE_RENEW].sha) == 0;
        for (size_t k = 0; k < keys_in(&c); k++) {
            int i = key_in(&c, k);

            cr_assert_eq(simple, i < 10 && i % 2 == 0);
            of_simple += simple;
        }
        (void)answer_command(&c, NONE);
    }
    cr_assert_eq(of_simple, 5);
    cr_assert_eq(metrics[RDL_M_RENEWED], 11);
}

/* ---- raising ---------------------------------------------------------------------------------------------------- */

Test(watchdog, raising_lengthens_and_never_shortens)
{
    int64_t left;

    rdl__watchdog_add(wd, hold(0), T0, 5000, false);
    cr_assert(rdl__watchdog_raise(wd, hold(0), T0, 8000, false));
    cr_assert(rdl__watchdog_raise(wd, hold(0), T0, 2000, false));
    (void)rdl__watchdog_state(wd, hold(0), T0, &left);
    cr_assert_eq(left, 8 * RDL__SEC);
    fake_loop_run(&loop, T0 + 8 * RDL__SEC - 1);
    cr_assert_eq(things[0].lost, 0);
    fake_loop_run(&loop, T0 + 8 * RDL__SEC);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, raising_after_the_end_is_refused)
{
    rdl__watchdog_add(wd, hold(0), T0, 5000, false);
    loop.now = T0 + 5 * RDL__SEC;
    cr_assert_not(rdl__watchdog_raise(wd, hold(0), T0, 60000, false));
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_LOST);
}

/* It was given up while the server was asked to prolong it. */
Test(watchdog, raising_what_was_forgotten_is_refused)
{
    rdl__watchdog_add(wd, hold(0), T0, 5000, false);
    rdl__watchdog_forget(wd, hold(0));
    cr_assert_not(rdl__watchdog_raise(wd, hold(0), T0, 8000, false));
    cr_assert_not(rdl__watchdog_holds(wd));
}

Test(watchdog, raising_may_start_renewal)
{
    rdl__watchdog_add(wd, hold(0), T0, 60000, false);
    cr_assert(rdl__watchdog_raise(wd, hold(0), T0, LEASE_MS, true));
    run_answering(T0 + 5 * LEASE, 0);
    cr_assert_geq(wire.submitted, 14);
    cr_assert_eq(state(0), RDL_HELD);
}

/* ---- a server that may have forgotten --------------------------------------------------------------------------- */

Test(watchdog, examining_asks_at_once_about_every_hold_renewed_or_not)
{
    add(0);
    rdl__watchdog_add(wd, hold(1), loop.now, LEASE_MS, false);
    add(2);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(answer_but(1), 3);
    cr_assert_eq(things[1].lost, 1);
    cr_assert_eq(things[1].reason, RDL_LOSS_GONE);
    cr_assert_eq(things[0].lost + things[2].lost, 0);
    cr_assert_eq(wire.count, 0);
}

Test(watchdog, a_lease_with_an_end_that_stood_the_examination_is_not_renewed_after_it)
{
    rdl__watchdog_add(wd, hold(0), T0, LEASE_MS, false);
    run_for(LEASE / 2);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(answer(), 1);
    run_for(LEASE / 2 - 1);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(things[0].lost, 0);
    run_for(1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
}

Test(watchdog, an_examination_that_was_not_answered_is_made_again)
{
    static const struct rdl__reply refusal = {.type = RDL__REPLY_ERROR, .str = "LOADING", .len = 7};

    rdl__watchdog_add(wd, hold(0), T0, LEASE_MS, false);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    answer_with(&refusal);
    run_until_sent(2);
    cr_assert_leq(loop.now, T0 + LEASE / 10);
    cr_assert_eq(answer_but(0), 1);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, holds_whose_renewal_is_under_way_are_not_asked_about_twice)
{
    add_due(0);
    run_for(0);
    cr_assert_eq(wire.submitted, 1);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(answer(), 1);
}

/* What lies in a batch, or waits for one, must not be scheduled a second time: a batch would remember a hold that is
 * gone. */
Test(watchdog, a_lease_that_is_made_to_last_while_it_is_examined_is_not_asked_about_twice)
{
    rdl__watchdog_add(wd, hold(0), T0, 4 * LEASE_MS, false);
    rdl__watchdog_examine(wd, rdl__watchdog_home(wd));
    cr_assert_eq(wire.submitted, 1);
    cr_assert(rdl__watchdog_raise(wd, hold(0), loop.now, LEASE_MS, true));
    run_for(LEASE);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(answer(), 1);
    run_until_sent(2);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(things[0].lost, 0);
}
