/* SPDX-License-Identifier: MIT */
/* test_take.c - the acquire machine: events in, steps out. */
#include "core/call/take.h"

#include <criterion/criterion.h>

static const rdl_retry_t none = {.kind = RDL_RETRY_NONE};
static struct rdl__rand rng;
static struct rdl__take take;

static void set_up(void)
{
    rng = (struct rdl__rand){.state = 1};
    rdl__take_init(&take, false, &none, 1);
}

TestSuite(take, .init = set_up, .timeout = 10);

static struct rdl__take_step on(struct rdl__take_event ev)
{
    return rdl__take_on(&take, &ev);
}

static void assert_sends(struct rdl__take_step step)
{
    cr_assert_eq(step.what, RDL__DO_SEND);
    cr_assert_eq(take.state, RDL__TAKE_TRYING);
}

static void assert_waits(struct rdl__take_step step, int64_t hint_ms)
{
    cr_assert_eq(step.what, RDL__DO_WAIT);
    cr_assert_eq(step.hint_ms, hint_ms);
    cr_assert_eq(take.state, RDL__TAKE_WAITING);
}

static void assert_finishes(struct rdl__take_step step, int rc, bool undo)
{
    cr_assert_eq(step.what, RDL__DO_FINISH);
    cr_assert_eq(step.rc, rc);
    cr_assert_eq(step.undo, undo);
    cr_assert_eq(take.state, RDL__TAKE_DONE);
}

#define START ((struct rdl__take_event){.kind = RDL__EV_START})
#define BARRED ((struct rdl__take_event){.kind = RDL__EV_BARRED})
#define REFUSED(ttl) ((struct rdl__take_event){.kind = RDL__EV_REFUSED, .ttl_ms = (ttl)})
#define WOKEN ((struct rdl__take_event){.kind = RDL__EV_WOKEN})
#define TAKEN ((struct rdl__take_event){.kind = RDL__EV_TAKEN, .valid = true})
#define STOPPED(why) ((struct rdl__take_event){.kind = RDL__EV_STOPPED, .code = (why), .connected = true})

/* ---- one event after another ------------------------------------------------------------------------------------ */

Test(take, tries_first_and_is_done_when_the_lock_is_free)
{
    assert_sends(on(START));
    assert_finishes(on(TAKEN), RDL_OK, false);
    cr_assert_not(take.contended);
}

Test(take, goes_straight_to_sleep_when_others_of_the_process_wait)
{
    assert_waits(on((struct rdl__take_event){.kind = RDL__EV_START, .others_wait = true}), -1);
    assert_waits(on((struct rdl__take_event){.kind = RDL__EV_START, .stands = true, .ttl_ms = 100}), 100);
    cr_assert(take.contended);
    assert_sends(on(WOKEN));
    assert_finishes(on(TAKEN), RDL_OK, false);
}

Test(take, sleeps_after_a_refusal_as_long_as_the_holders_lease)
{
    assert_sends(on(START));
    assert_waits(on(REFUSED(1234)), 1234);
    assert_sends(on(WOKEN));
    assert_waits(on(REFUSED(5)), 5);
    cr_assert_eq(take.tries, 2);
    cr_assert(take.contended);
}

Test(take, who_is_told_asleep_that_it_has_the_lock_is_done_without_another_try)
{
    assert_sends(on(START));
    assert_waits(on((struct rdl__take_event){.kind = RDL__EV_REFUSED, .ttl_ms = 5, .queued = true}), 5);
    assert_finishes(on(TAKEN), RDL_OK, false);
    cr_assert_eq(take.tries, 1);
}

Test(take, passes_on_that_the_lease_is_unknown)
{
    assert_sends(on(START));
    assert_waits(on(REFUSED(-1)), -1);
}

Test(take, once_asks_even_when_others_wait_and_never_waits)
{
    rdl__take_init(&take, true, &none, 1);
    assert_sends(on((struct rdl__take_event){.kind = RDL__EV_START, .others_wait = true}));
    assert_finishes(on(REFUSED(1000)), RDL_ETIMEDOUT, false);
    cr_assert(take.contended);
}

Test(take, a_grant_that_came_too_late_is_lost_and_given_back)
{
    assert_sends(on(START));
    assert_finishes(on((struct rdl__take_event){.kind = RDL__EV_TAKEN, .valid = false}), RDL_ELOST, true);
}

Test(take, a_hold_that_is_gone_is_lost_and_nothing_is_given_back)
{
    assert_sends(on(START));
    assert_finishes(on((struct rdl__take_event){.kind = RDL__EV_GONE}), RDL_ELOST, false);
}

Test(take, a_failure_is_passed_on_and_undone_only_if_an_earlier_sending_may_have_run)
{
    assert_sends(on(START));
    assert_finishes(on((struct rdl__take_event){.kind = RDL__EV_FAILED, .code = RDL_ESERVER}), RDL_ESERVER, false);
    set_up();
    assert_sends(on(START));
    assert_finishes(on((struct rdl__take_event){.kind = RDL__EV_FAILED, .code = RDL_ESERVER, .unsure = true}),
                    RDL_ESERVER, true);
}

Test(take, a_place_in_a_queue_is_given_up_with_the_take_however_it_ends)
{
    const struct rdl__take_event queued = {.kind = RDL__EV_REFUSED, .ttl_ms = 1000, .queued = true};

    assert_sends(on(START));
    assert_waits(on(queued), 1000);
    assert_finishes(on(STOPPED(RDL_OK)), RDL_ETIMEDOUT, true);
    set_up();
    assert_sends(on(START));
    assert_waits(on(queued), 1000);
    assert_finishes(on(STOPPED(RDL_ECANCELED)), RDL_ECANCELED, true);
    set_up();
    assert_sends(on(START));
    assert_waits(on(queued), 1000);
    assert_sends(on(WOKEN));
    assert_finishes(on((struct rdl__take_event){.kind = RDL__EV_FAILED, .code = RDL_ESERVER}), RDL_ESERVER, true);
}

/* By what its owner has given back, and what had not arrived: that is no refusal, but it may have left a place. */
Test(take, a_refusal_that_came_early_is_asked_again_even_by_one_try)
{
    const struct rdl__take_event early = {.kind = RDL__EV_REFUSED, .ttl_ms = 1000, .queued = true, .early = true};

    rdl__take_init(&take, true, &none, 1);
    assert_sends(on(START));
    assert_sends(on(early));
    assert_sends(on(early));
    cr_assert_eq(take.tries, 0);
    cr_assert_not(take.contended);
    assert_finishes(on(REFUSED(1000)), RDL_ETIMEDOUT, false);
    set_up();
    assert_sends(on(START));
    assert_sends(on(early));
    assert_finishes(on(STOPPED(RDL_ECANCELED)), RDL_ECANCELED, true);
}

Test(take, a_stopped_try_that_may_have_run_leaves_the_queue_to_its_successor)
{
    assert_sends(on(START));
    assert_waits(on((struct rdl__take_event){.kind = RDL__EV_REFUSED, .ttl_ms = 1000, .queued = true}), 1000);
    assert_sends(on(WOKEN));
    assert_finishes(on((struct rdl__take_event){.kind = RDL__EV_STOPPED, .unsure = true}), RDL_EUNKNOWN, false);
}

static struct rdl__take_event deadline(bool unsure, bool connected)
{
    return (struct rdl__take_event){.kind = RDL__EV_STOPPED, .unsure = unsure, .connected = connected};
}

Test(take, a_deadline_while_asleep_is_a_time_out)
{
    assert_sends(on(START));
    assert_waits(on(REFUSED(1000)), 1000);
    assert_finishes(on(STOPPED(RDL_OK)), RDL_ETIMEDOUT, false);
}

Test(take, a_deadline_while_asleep_and_the_server_is_away_is_no_connection)
{
    assert_sends(on(START));
    assert_waits(on(REFUSED(1000)), 1000);
    assert_finishes(on(deadline(false, false)), RDL_ECONN, false);
}

Test(take, a_deadline_with_a_try_on_the_way_is_unknown)
{
    assert_sends(on(START));
    assert_finishes(on(deadline(true, true)), RDL_EUNKNOWN, false);
    set_up();
    assert_sends(on(START));
    assert_finishes(on(deadline(true, false)), RDL_EUNKNOWN, false);
}

Test(take, a_deadline_before_the_first_try_was_sent_is_no_connection)
{
    assert_sends(on(START));
    assert_finishes(on(deadline(false, true)), RDL_ECONN, false);
}

Test(take, a_deadline_before_a_later_try_was_sent_is_a_time_out_unless_the_connection_is_gone)
{
    for (int connected = 0; connected < 2; connected++) {
        set_up();
        assert_sends(on(START));
        assert_waits(on(REFUSED(1000)), 1000);
        assert_sends(on((struct rdl__take_event){.kind = RDL__EV_WOKEN}));
        assert_finishes(on(deadline(false, connected)), connected ? RDL_ETIMEDOUT : RDL_ECONN, false);
    }
}

Test(take, whoever_stops_it_says_why)
{
    static const int reasons[] = {RDL_ECANCELED, RDL_ECLOSED, RDL_ECONN, RDL_ENOMEM};

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        set_up();
        assert_sends(on(START));
        assert_finishes(on(STOPPED(reasons[i])), reasons[i], false);
        set_up();
        assert_sends(on(START));
        assert_waits(on(REFUSED(-1)), -1);
        assert_finishes(on(STOPPED(reasons[i])), reasons[i], false);
    }
}

/* ---- the retry policy ------------------------------------------------------------------------------------------- */

Test(take, none_has_no_opinion)
{
    for (unsigned tries = 0; tries < 100; tries++)
        cr_assert_lt(rdl__retry_delay_ms(&none, tries, &rng), 0);
}

Test(take, fixed_is_fixed)
{
    static const rdl_retry_t fixed = {.kind = RDL_RETRY_FIXED, .min_ms = 40, .max_ms = 1000};

    for (unsigned tries = 0; tries < 100; tries++)
        cr_assert_eq(rdl__retry_delay_ms(&fixed, tries, &rng), 40);
}

/* Draw often; the least and the most. */
static void draw(const rdl_retry_t *retry, unsigned tries, int64_t *least, int64_t *most)
{
    *least = INT64_MAX;
    *most = INT64_MIN;
    for (int i = 0; i < 5000; i++) {
        int64_t ms = rdl__retry_delay_ms(retry, tries, &rng);

        *least = ms < *least ? ms : *least;
        *most = ms > *most ? ms : *most;
    }
}

Test(take, random_uses_its_whole_range_and_no_more)
{
    static const rdl_retry_t random = {.kind = RDL_RETRY_RANDOM, .min_ms = 10, .max_ms = 30};
    static const rdl_retry_t point = {.kind = RDL_RETRY_RANDOM, .min_ms = 7, .max_ms = 7};
    int64_t least, most;

    draw(&random, 0, &least, &most);
    cr_assert_eq(least, 10);
    cr_assert_eq(most, 30);
    draw(&point, 3, &least, &most);
    cr_assert_eq(least, 7);
    cr_assert_eq(most, 7);
}

Test(take, exponential_doubles_its_range_up_to_the_most)
{
    static const rdl_retry_t exponential = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 4, .max_ms = 100};
    static const int64_t tops[] = {4, 8, 16, 32, 64, 100, 100};
    int64_t least, most;

    for (unsigned tries = 0; tries < sizeof tops / sizeof *tops; tries++) {
        draw(&exponential, tries, &least, &most);
        cr_assert_eq(least, 0);
        cr_assert_eq(most, tops[tries]);
    }
}

Test(take, exponential_stays_in_range_after_any_number_of_tries)
{
    static const rdl_retry_t widest = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 3600000, .max_ms = 3600000};
    static const unsigned tries[] = {0, 1, 29, 30, 31, 32, 62, 63, 64, 65, UINT32_MAX};

    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        int64_t ms = rdl__retry_delay_ms(&widest, tries[i], &rng);

        cr_assert(ms >= 0 && ms <= 3600000);
    }
}

/* Whoever asked for it has asked often meanwhile. */
Test(take, who_comes_to_ask_late_goes_on_as_if_it_had_asked_by_itself)
{
    static const rdl_retry_t exponential = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 1, .max_ms = 128};
    static const struct {
        int64_t waited_ms;
        unsigned tries;
    } cases[] = {{0, 1}, {5, 1}, {6, 2}, {300, 8}, {INT64_MAX, 31}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rdl__take_init(&take, false, &exponential, 1);
        assert_sends(on(START));
        (void)on((struct rdl__take_event){.kind = RDL__EV_REFUSED, .ttl_ms = 30000, .waited_ms = cases[i].waited_ms});
        cr_assert_eq(take.tries, cases[i].tries);
        rdl__take_init(&take, false, &exponential, 1);
        assert_sends(on(START));
        assert_sends(on((struct rdl__take_event){
            .kind = RDL__EV_REFUSED, .ttl_ms = 30000, .waited_ms = cases[i].waited_ms, .early = true}));
        cr_assert_eq(take.tries, 0, "it was its own");
    }
}

Test(take, the_sooner_of_lease_and_policy_counts)
{
    static const rdl_retry_t fixed = {.kind = RDL_RETRY_FIXED, .min_ms = 40, .max_ms = 1000};

    rdl__take_init(&take, false, &fixed, 1);
    assert_sends(on(START));
    assert_waits(on(REFUSED(1000)), 40);
    assert_sends(on(WOKEN));
    assert_waits(on(REFUSED(39)), 39);
    assert_sends(on(WOKEN));
    assert_waits(on(REFUSED(-1)), 40);
    assert_sends(on(WOKEN));
    assert_waits(on(REFUSED(0)), 0);
}

/* ---- T4: on a fake clock ---------------------------------------------------------------------------------------- */

/* A driver in a world where a try is answered at once and somebody else holds the lock for `held_ms`: carries out the
 * steps until the machine is done. */
struct world {
    int64_t now_ms;
    int64_t deadline_ms;
    int64_t held_ms;
    int sends;
};

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int drive(struct world *w)
{
    struct rdl__take_step step = on(START);

    while (step.what != RDL__DO_FINISH) {
        if (step.what == RDL__DO_SEND) {
            w->sends++;
            step = w->now_ms >= w->held_ms ? on(TAKEN) : on(REFUSED(w->held_ms - w->now_ms));
            continue;
        }
        w->now_ms = step.hint_ms < 0 ? w->deadline_ms : sooner(w->now_ms + step.hint_ms, w->deadline_ms);
        step = w->now_ms >= w->deadline_ms ? on(STOPPED(RDL_OK)) : on(WOKEN);
    }
    return step.rc;
}

Test(take, gives_up_exactly_at_its_deadline_even_when_the_delay_is_longer)
{
    static const rdl_retry_t slow = {.kind = RDL_RETRY_FIXED, .min_ms = 5000, .max_ms = 5000};
    struct world w = {.deadline_ms = 1000, .held_ms = 60000};

    rdl__take_init(&take, false, &slow, 1);
    cr_assert_eq(drive(&w), RDL_ETIMEDOUT);
    cr_assert_eq(w.now_ms, 1000);
    cr_assert_eq(w.sends, 1);
}

Test(take, polls_as_often_as_the_policy_says_until_the_deadline)
{
    static const rdl_retry_t fixed = {.kind = RDL_RETRY_FIXED, .min_ms = 100, .max_ms = 100};
    struct world w = {.deadline_ms = 1000, .held_ms = 60000};

    rdl__take_init(&take, false, &fixed, 1);
    cr_assert_eq(drive(&w), RDL_ETIMEDOUT);
    cr_assert_eq(w.now_ms, 1000);
    cr_assert_eq(w.sends, 10);
}

Test(take, takes_over_the_moment_the_lease_of_a_dead_holder_ends)
{
    struct world w = {.deadline_ms = 60000, .held_ms = 2345};

    cr_assert_eq(drive(&w), RDL_OK);
    cr_assert_eq(w.now_ms, 2345);
    cr_assert_eq(w.sends, 2);
}

Test(take, exponential_polling_ends_and_is_bounded)
{
    static const rdl_retry_t exponential = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 25, .max_ms = 1000};

    for (uint16_t seed = 1; seed <= 50; seed++) {
        struct world w = {.deadline_ms = 60000, .held_ms = 100000};

        rdl__take_init(&take, false, &exponential, seed);
        cr_assert_eq(drive(&w), RDL_ETIMEDOUT);
        cr_assert_eq(w.now_ms, 60000);
        cr_assert(w.sends > 60 && w.sends < 260, "%d tries in a minute", w.sends);
    }
}

/* ---- somebody of the host has its lock -------------------------------------------------------------------------- */

static void assert_delays(struct rdl__take_step step, int64_t ms)
{
    cr_assert_eq(step.what, RDL__DO_DELAY);
    cr_assert_eq(step.hint_ms, ms);
    cr_assert_eq(take.state, RDL__TAKE_BARRED);
}

Test(take, looks_again_ever_more_rarely_while_it_is_barred_and_starts_when_it_is_not)
{
    for (int i = 0; i < 10; i++)
        assert_delays(on(BARRED), i < 6 ? 1 << i : 64);
    assert_sends(on(START));
    cr_assert(take.contended);
    assert_finishes(on(TAKEN), RDL_OK, false);
}

Test(take, barred_try_without_a_wait_is_refused)
{
    rdl__take_init(&take, true, &none, 1);
    assert_finishes(on(BARRED), RDL_ETIMEDOUT, false);
}

/* Who has it is known, server or no server. */
Test(take, whose_time_is_over_while_it_is_barred_has_been_refused)
{
    assert_delays(on(BARRED), 1);
    assert_finishes(on((struct rdl__take_event){.kind = RDL__EV_STOPPED}), RDL_ETIMEDOUT, false);
    set_up();
    assert_delays(on(BARRED), 1);
    assert_finishes(on(STOPPED(RDL_ECANCELED)), RDL_ECANCELED, false);
}
