/* SPDX-License-Identifier: MIT */
/* test_watchdog_losses.c - the loss of a lease is noticed, once, and in time; and a hold that has left is left alone.
 */
#include "tests/unit/watching.h"

TestSuite(watchdog, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- trouble ---------------------------------------------------------------------------------------------------- */

Test(watchdog, a_hold_whose_renewals_stay_unanswered_is_at_risk_and_then_lost_once_and_in_time)
{
    add(0);
    run_for(LEASE * 2 / 3 - 1);
    cr_assert_eq(state(0), RDL_HELD);
    run_for(1);
    cr_assert_eq(state(0), RDL_AT_RISK);
    cr_assert_eq(things[0].at_risk, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_RENEWAL);
    run_for(LEASE / 3 - 1);
    cr_assert_eq(things[0].lost, 0);
    run_for(1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
    cr_assert_eq(things[0].reported_at, T0 + LEASE);
    run_for(10 * LEASE);
    cr_assert_eq(things[0].at_risk, 1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_LOST);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, the_loss_of_many_is_reported_although_the_lane_is_full)
{
    add_many(HOLDS_MAX);
    run_for(LEASE);
    cr_assert_eq(wire.submitted, 2);
    for (int i = 0; i < HOLDS_MAX; i++) {
        cr_assert_eq(things[i].lost, 1);
        cr_assert_eq(things[i].reported_at, T0 + LEASE);
    }
}

Test(watchdog, a_late_confirmation_revives_nothing)
{
    add(0);
    run_for(LEASE);
    cr_assert_eq(things[0].lost, 1);
    (void)answer();
    cr_assert_eq(state(0), RDL_LOST);
    run_for(LEASE);
    cr_assert_eq(wire.submitted, 1);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_not(rdl__watchdog_raise(wd, hold(0), loop.now, LEASE_MS, true));
}

/* Meanwhile another thread may have asked, and been told that it is lost. */
Test(watchdog, a_confirmation_that_came_in_time_and_is_noted_late_revives_nothing)
{
    add(0);
    run_for(LEASE / 2);
    cr_assert_eq(wire.count, 1);
    preempted = LEASE / 2;
    (void)answer();
    cr_assert_eq(state(0), RDL_LOST);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
    cr_assert_eq(metrics[RDL_M_RENEWED], 0);
    rdl__watchdog_add(wd, hold(1), loop.now, LEASE_MS, true);
    loop.now += LEASE;
    cr_assert_not(rdl__watchdog_raise(wd, hold(1), loop.now - 1, LEASE_MS, true));
    cr_assert_eq(state(1), RDL_LOST);
}

Test(watchdog, a_confirmation_in_time_ends_the_risk)
{
    add(0);
    run_for(LEASE * 5 / 6);
    cr_assert_eq(state(0), RDL_AT_RISK);
    (void)answer(); /* sent long ago: valid until a lease after that */
    run_answering(loop.now + LEASE, 0);
    cr_assert_eq(state(0), RDL_HELD);
    cr_assert_eq(things[0].lost, 0);
}

Test(watchdog, a_hold_that_the_server_does_not_know_is_lost_at_once_and_its_neighbours_are_not)
{
    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    cr_assert_eq(wire.count, 1);
    cr_assert_eq(answer_but(1), 3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(things[i].lost, i == 1);
    cr_assert_eq(things[1].reason, RDL_LOSS_GONE);
    cr_assert_eq(metrics[RDL_M_RENEWED], 2);
    cr_assert_eq(state(1), RDL_LOST);
}

Test(watchdog, a_lock_that_had_no_time_to_live_is_confirmed_like_any_other)
{
    usual_ttl_ms = -1;
    add_due(0);
    run_for(0);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(metrics[RDL_M_RENEWED], 1);
    cr_assert_eq(state(0), RDL_HELD);
}

Test(watchdog, an_error_or_nonsense_for_an_answer_is_no_confirmation_and_is_tried_again_soon)
{
    static struct rdl__reply one = {.type = RDL__REPLY_INT, .integer = 1};
    static struct rdl__reply word = {.type = RDL__REPLY_STRING, .str = "x", .len = 1};
    static struct rdl__reply *few[] = {&one, &one}, *wrong[] = {&one, &one, &word};
    const struct rdl__reply answers[] = {
        {.type = RDL__REPLY_ERROR, .str = "READONLY no", .len = 11},
        {.type = RDL__REPLY_NIL},
        {.type = RDL__REPLY_ARRAY, .len = 2, .elem = few},
        {.type = RDL__REPLY_ARRAY, .len = 3, .elem = wrong},
    };

    add(0);
    for (int i = 0; i < 4; i++) {
        int64_t before;

        run_until_sent(i + 1);
        before = loop.now;
        answer_with(&answers[i]);
        run_until_sent(i + 2);
        cr_assert_leq(loop.now - before, LEASE / 10);
    }
    cr_assert_eq(metrics[RDL_M_RENEWED], 0);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(metrics[RDL_M_RENEWED], 1);
}

Test(watchdog, a_request_that_could_not_be_made_is_tried_again)
{
    struct rdl__req *req;

    add(0);
    run_until_sent(1);
    req = take_req();
    req->rc = RDL_ENOMEM;
    req->ops->done(req, loop.now);
    run_until_sent(2);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(state(0), RDL_HELD);
}

Test(watchdog, a_jump_of_the_servers_clock_is_said)
{
    add(0);
    run_until_sent(1);
    (void)answer();
    cr_assert_str_empty(last_line);
    server_ahead_us = 20 * 1000000;
    run_until_sent(2);
    (void)answer();
    cr_assert_not_null(strstr(last_line, "+20000 ms"), "%s", last_line);
    last_line[0] = '\0';
    run_until_sent(3);
    (void)answer();
    cr_assert_str_empty(last_line);
    server_ahead_us = -80 * 1000000;
    run_until_sent(4);
    (void)answer();
    cr_assert_not_null(strstr(last_line, "-100000 ms"), "%s", last_line);
}

Test(watchdog, a_lease_that_somebody_shortened_is_said_and_renewed_like_any_other)
{
    int64_t left;

    usual_ttl_ms = 5000;
    add(0);
    run_until_sent(1);
    cr_assert_eq(answer(), 1);
    cr_assert_not_null(strstr(last_line, "shortened"), "%s", last_line);
    cr_assert_eq(rdl__watchdog_state(wd, hold(0), loop.now, &left), RDL_HELD);
    cr_assert_eq(loop.now + left, wire.last_at + LEASE);
}

Test(watchdog, a_lease_that_lasts_as_long_as_it_should_is_not_called_shortened)
{
    add(0);
    run_until_sent(1);
    usual_ttl_ms = (T0 + LEASE - loop.now) / RDL__MS;
    run_for(20 * RDL__MS);
    cr_assert_eq(answer(), 1);
    cr_assert_str_empty(last_line);
}

Test(watchdog, a_renewal_is_late_that_is_confirmed_when_less_than_half_of_the_lease_is_left)
{
    add(0);
    run_for(LEASE / 2);
    cr_assert_eq(answer(), 1);
    cr_assert_eq(metrics[RDL_M_RENEWALS_LATE], 0); /* half is not less */
    run_for(LEASE / 3);
    cr_assert_eq(wire.count, 1);
    loop.now = hold(0)->deadline - LEASE / 2 + 1;
    cr_assert_eq(answer(), 1);
    cr_assert_eq(metrics[RDL_M_RENEWALS_LATE], 1);
    cr_assert_eq(metrics[RDL_M_RENEWED], 2);
}

/* ---- leaving ---------------------------------------------------------------------------------------------------- */

Test(watchdog, nothing_is_renewed_once_it_has_left)
{
    add(0);
    run_for(LEASE / 5);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_HELD);
    run_for(5 * LEASE);
    cr_assert_eq(wire.submitted, 0);
    cr_assert_eq(things[0].at_risk + things[0].lost, 0);
}

Test(watchdog, a_hold_that_left_is_not_in_a_batch_that_is_encoded_later)
{
    struct command c;

    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    cr_assert_eq(wire.count, 1);
    rdl__watchdog_remove(wd, hold(1), loop.now);
    memset(&things[1], 0xa5, sizeof things[1]); /* its memory is the owner's again */
    read_command(&c);
    cr_assert_eq(keys_in(&c), 2);
    cr_assert_eq(key_in(&c, 0) + key_in(&c, 1), 0 + 2);
    cr_assert_eq(answer_command(&c, NONE), 2);
    cr_assert_eq(metrics[RDL_M_RENEWED], 2);
}

Test(watchdog, a_hold_that_left_after_it_was_encoded_is_not_touched_by_the_answer)
{
    struct command c;

    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    read_command(&c);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), loop.now), RDL_HELD);
    memset(&things[0], 0xa5, sizeof things[0]);
    cr_assert_eq(answer_command(&c, 1), 3);
    cr_assert_eq(things[1].lost, 1);
    cr_assert_eq(things[2].lost, 0);
    cr_assert_eq(metrics[RDL_M_RENEWED], 1);
}

Test(watchdog, a_repeated_batch_is_encoded_without_those_that_left_meanwhile)
{
    struct command c;

    for (int i = 0; i < 3; i++)
        add_due(i);
    run_for(0);
    read_command(&c);
    cr_assert_eq(keys_in(&c), 3);
    rdl__buf_done(&c.text); /* the connection breaks */
    rdl__watchdog_remove(wd, hold(2), loop.now);
    read_command(&c);
    cr_assert_eq(keys_in(&c), 2);
    cr_assert_eq(answer_command(&c, 1), 2);
    cr_assert_eq(things[0].lost, 0);
    cr_assert_eq(things[1].lost, 1);
}

Test(watchdog, a_batch_whose_holds_have_all_left_is_a_harmless_command)
{
    struct command c;

    add_due(0);
    run_for(0);
    rdl__watchdog_remove(wd, hold(0), loop.now);
    read_command(&c);
    cr_assert_eq(c.argc, 1);
    cr_assert_str_eq(c.argv[0], "PING");
    rdl__buf_done(&c.text);
    cr_assert_eq(answer(), 0);
    add(1);
    run_until_sent(2); /* the batch is free again */
}

Test(watchdog, leaving_tells_of_a_loss_that_nobody_had_noticed)
{
    rdl__watchdog_add(wd, hold(0), T0, 1000, false);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(0), T0 + 1000 * RDL__MS), RDL_LOST);
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_LEASE);
    run_for(10 * RDL__SEC);
    cr_assert_eq(things[0].lost, 1);
}

Test(watchdog, who_says_gone_or_orphan_is_believed_once)
{
    add_many(2);
    rdl__watchdog_gone(wd, hold(0), 1);
    rdl__watchdog_gone(wd, hold(0), 1);
    rdl__watchdog_orphan(wd, hold(0));
    cr_assert_eq(things[0].lost, 1);
    cr_assert_eq(things[0].reason, RDL_LOSS_GONE);
    rdl__watchdog_orphan(wd, hold(1));
    cr_assert_eq(things[1].reason, RDL_LOSS_THREAD_EXIT);
    run_for(2 * LEASE);
    cr_assert_eq(things[0].lost + things[1].lost, 2);
    cr_assert_eq(wire.submitted, 0);
}

/* Somebody evicts a hold while its owner gives it back, and has the next one by the time that is told. */
Test(watchdog, only_the_hold_that_is_gone_is_lost_and_only_while_it_is_looked_after)
{
    add_many(2);
    rdl__watchdog_gone(wd, hold(0), 2);
    cr_assert_eq(rdl__watchdog_remove(wd, hold(1), T0), RDL_HELD);
    rdl__watchdog_gone(wd, hold(1), 2);
    rdl__watchdog_orphan(wd, hold(1));
    cr_assert_eq(things[0].lost + things[1].lost, 0);
    rdl__watchdog_gone(wd, hold(0), 1);
    cr_assert_eq(things[0].lost, 1);
}

/* ---- closing ---------------------------------------------------------------------------------------------------- */

Test(watchdog, closed_it_renews_and_reports_nothing)
{
    add_many(10);
    run_for(LEASE / 5);
    rdl__watchdog_close(wd);
    run_for(5 * LEASE);
    cr_assert_eq(wire.submitted, 0);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(things[i].at_risk + things[i].lost, 0);
        cr_assert_eq(state(i), RDL_LOST); /* whoever asks is told */
    }
}

Test(watchdog, cannot_be_made_without_memory)
{
    const struct rdl__watchdog_config config = {.drift_ms = 2};

    counting_alloc_fail_at(&counting, 1);
    cr_assert_null(rdl__watchdog_new(&mem, &sinks, &loop, &wire, NULL, &config));
    cr_assert_null(rdl__watchdog_free(NULL));
}
