/* SPDX-License-Identifier: MIT */
/* test_plan.c - the machines of composite locks: events in, orders out. */
#include "core/base/clock.h"
#include "locks/composite/plan.h"

#include <criterion/criterion.h>
#include <string.h>

#define MOST 5
#define AT(ms) ((ms)*RDL__MS)

static struct rdl__member member[MOST];
static struct rdl__plan plan;
static const struct rdl__plan_ops *ops;

static void on(struct rdl__plan_event ev)
{
    ops->on(&plan, &ev);
}

static void prepare(const struct rdl__plan_ops *which, unsigned n, int64_t deadline)
{
    memset(member, 0, sizeof member);
    ops = which;
    plan = (struct rdl__plan){.member = member,
                              .n = n,
                              .quorum = which->majority ? n / 2 + 1 : n,
                              .one_try = deadline == 0,
                              .deadline = deadline,
                              .member_timeout_ms = 50,
                              .most_hold_ms = 100,
                              .retry = {.kind = RDL_RETRY_FIXED, .min_ms = 20, .max_ms = 20},
                              .wake_at = RDL__NEVER};
}

static void start(const struct rdl__plan_ops *which, unsigned n, int64_t deadline)
{
    prepare(which, n, deadline);
    on((struct rdl__plan_event){.kind = RDL__PLAN_START});
}

/* What member i was told since it was last looked at. */
static enum rdl__member_order told(unsigned i)
{
    enum rdl__member_order order = (enum rdl__member_order)member[i].order;

    member[i].order = RDL__MEMBER_NOTHING;
    return order;
}

static void all_told(enum rdl__member_order order)
{
    for (unsigned i = 0; i < plan.n; i++)
        cr_assert_eq(told(i), order, "member %u", i);
}

static void answer_at(int64_t ms, unsigned i, int code, int64_t until_ms)
{
    on((struct rdl__plan_event){
        .kind = RDL__PLAN_ANSWER, .member = i, .code = code, .until = AT(until_ms), .now = AT(ms)});
}

static void assert_done(int rc)
{
    cr_assert_eq(plan.phase, RDL__PLAN_DONE);
    cr_assert_eq(plan.rc, rc);
}

/* ---- multi ------------------------------------------------------------------------------------------------------ */

Test(plan_multi, asks_for_all_at_once_and_wants_every_one)
{
    start(&rdl__multi_ops, 3, RDL__NEVER);
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 2, RDL_OK, 100);
    answer_at(1, 0, RDL_OK, 100);
    cr_assert_neq(plan.phase, RDL__PLAN_DONE);
    answer_at(2, 1, RDL_OK, 90);
    assert_done(RDL_OK);
    all_told(RDL__MEMBER_NOTHING);
    cr_assert_eq(rdl__plan_until(&plan), AT(90));
}

Test(plan_multi, waits_for_the_first_refused_holding_only_what_comes_before_it)
{
    start(&rdl__multi_ops, 4, RDL__NEVER);
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_OK, 300);
    answer_at(1, 1, RDL_ETIMEDOUT, 0);
    answer_at(1, 2, RDL_OK, 300);
    answer_at(1, 3, RDL_ETIMEDOUT, 0);
    cr_assert_eq(told(0), RDL__MEMBER_NOTHING);
    cr_assert_eq(told(1), RDL__MEMBER_WAIT);
    cr_assert_eq(told(2), RDL__MEMBER_RELEASE);
    cr_assert_eq(told(3), RDL__MEMBER_NOTHING);
    cr_assert_eq(plan.wake_at, AT(21)); /* held no longer than that */
    answer_at(10, 1, RDL_OK, 310);
    cr_assert_eq(told(0), RDL__MEMBER_EXTEND); /* the lease is the whole one, for all of them */
    cr_assert_eq(told(1), RDL__MEMBER_EXTEND);
    cr_assert_eq(told(2), RDL__MEMBER_TRY);
    cr_assert_eq(told(3), RDL__MEMBER_TRY);
}

Test(plan_multi, goes_on_waiting_empty_handed_when_it_has_held_some_for_long_enough)
{
    start(&rdl__multi_ops, 2, RDL__NEVER);
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_OK, 300);
    answer_at(1, 1, RDL_ETIMEDOUT, 0);
    cr_assert_eq(told(1), RDL__MEMBER_WAIT);
    on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = plan.wake_at});
    cr_assert_eq(told(0), RDL__MEMBER_RELEASE);
    cr_assert_eq(told(1), RDL__MEMBER_NOTHING);
    cr_assert_eq(plan.wake_at, RDL__NEVER);
}

Test(plan_multi, waits_first_for_a_member_that_others_have_a_turn_of)
{
    prepare(&rdl__multi_ops, 3, RDL__NEVER);
    member[1].waits = true;
    member[2].waits = true;
    on((struct rdl__plan_event){.kind = RDL__PLAN_START});
    cr_assert_eq(told(0), RDL__MEMBER_NOTHING);
    cr_assert_eq(told(1), RDL__MEMBER_WAIT);
    cr_assert_eq(told(2), RDL__MEMBER_NOTHING);
    cr_assert_eq(plan.wake_at, RDL__NEVER); /* nothing is held meanwhile */
    answer_at(1, 1, RDL_OK, 300);
    cr_assert_eq(told(0), RDL__MEMBER_TRY);
    cr_assert_eq(told(1), RDL__MEMBER_EXTEND);
    cr_assert_eq(told(2), RDL__MEMBER_TRY);
}

Test(plan_multi, single_try_gives_way_to_nobody)
{
    prepare(&rdl__multi_ops, 2, 0);
    member[0].waits = true;
    on((struct rdl__plan_event){.kind = RDL__PLAN_START});
    all_told(RDL__MEMBER_TRY);
    cr_assert_eq(plan.phase, RDL__PLAN_ROUND);
}

Test(plan_multi, wait_that_is_shorter_than_an_answer_takes_gives_way_to_nobody)
{
    prepare(&rdl__multi_ops, 2, AT(5));
    plan.patience_ms = 20;
    member[0].waits = true;
    on((struct rdl__plan_event){.kind = RDL__PLAN_START});
    all_told(RDL__MEMBER_TRY);
    cr_assert_eq(member[0].bound_ms, 20);
}

Test(plan_multi, round_behind_a_first_wait_ends_at_the_deadline)
{
    prepare(&rdl__multi_ops, 2, AT(100));
    plan.patience_ms = 80;
    plan.renewed = true;
    member[0].waits = true;
    on((struct rdl__plan_event){.kind = RDL__PLAN_START});
    cr_assert_eq(told(0), RDL__MEMBER_WAIT);
    cr_assert_eq(member[0].bound_ms, 100);
    answer_at(90, 0, RDL_OK, 300);
    cr_assert_eq(told(1), RDL__MEMBER_TRY);
    cr_assert_eq(member[1].bound_ms, 10);
}

/* A bound of 0 is command_timeout_ms. */
Test(plan_multi, round_that_begins_at_the_deadline_waits_hardly_at_all)
{
    start(&rdl__multi_ops, 2, AT(100));
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_ETIMEDOUT, 0);
    answer_at(1, 1, RDL_ETIMEDOUT, 0);
    cr_assert_eq(told(0), RDL__MEMBER_WAIT);
    answer_at(100, 0, RDL_OK, 300);
    cr_assert_eq(told(1), RDL__MEMBER_TRY);
    cr_assert_eq(member[1].bound_ms, 1);
}

Test(plan_multi, error_of_one_lets_go_of_all)
{
    start(&rdl__multi_ops, 3, RDL__NEVER);
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_OK, 300);
    answer_at(1, 1, RDL_ECONN, 0);
    assert_done(RDL_ECONN);
    cr_assert_eq(plan.culprit, 1);
    cr_assert_eq(told(0), RDL__MEMBER_RELEASE);
    cr_assert_eq(told(2), RDL__MEMBER_CANCEL);
}

Test(plan_multi, cancel_releases_and_cancels)
{
    start(&rdl__multi_ops, 2, RDL__NEVER);
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 1, RDL_OK, 300);
    on((struct rdl__plan_event){.kind = RDL__PLAN_STOP, .code = RDL_ECANCELED});
    assert_done(RDL_ECANCELED);
    cr_assert_eq(told(0), RDL__MEMBER_CANCEL);
    cr_assert_eq(told(1), RDL__MEMBER_RELEASE);
}

/* ---- red -------------------------------------------------------------------------------------------------------- */

Test(plan_red, quorum_is_enough_and_valid_until_its_first_end)
{
    start(&rdl__red_ops, 5, 0);
    all_told(RDL__MEMBER_TRY);
    cr_assert_eq(member[0].bound_ms, 50);
    answer_at(1, 0, RDL_OK, 300);
    answer_at(1, 1, RDL_EUNKNOWN, 0);
    answer_at(2, 4, RDL_OK, 100);
    cr_assert_neq(plan.phase, RDL__PLAN_DONE);
    answer_at(3, 2, RDL_OK, 200);
    assert_done(RDL_OK);
    cr_assert_eq(told(3), RDL__MEMBER_NOTHING);    /* the last may still join */
    cr_assert_eq(rdl__plan_until(&plan), AT(100)); /* the longest would let two hold it (protocol.md, 8) */
}

Test(plan_red, part_that_is_not_to_be_counted_does_not_count)
{
    start(&rdl__red_ops, 3, 0);
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_OK, 300);
    on((struct rdl__plan_event){
        .kind = RDL__PLAN_ANSWER, .member = 1, .uncounted = true, .until = AT(300), .now = AT(1)});
    cr_assert_neq(plan.phase, RDL__PLAN_DONE);
    answer_at(2, 2, RDL_ETIMEDOUT, 0);
    assert_done(RDL_ENOQUORUM);
    cr_assert_eq(told(0), RDL__MEMBER_RELEASE);
    cr_assert_eq(told(1), RDL__MEMBER_RELEASE);
}

Test(plan_red, lost_round_ends_early_pauses_and_begins_anew)
{
    start(&rdl__red_ops, 3, AT(1000));
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 2, RDL_OK, 300);
    answer_at(1, 0, RDL_ETIMEDOUT, 0);
    answer_at(1, 1, RDL_ETIMEDOUT, 0);
    cr_assert_eq(plan.phase, RDL__PLAN_PAUSE);
    cr_assert_eq(told(2), RDL__MEMBER_RELEASE);
    cr_assert_eq(plan.wake_at, AT(21));
    on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = AT(21)});
    all_told(RDL__MEMBER_TRY);
    on((struct rdl__plan_event){.kind = RDL__PLAN_STOP, .code = RDL_ECANCELED});
    all_told(RDL__MEMBER_CANCEL);
    answer_at(22, 0, RDL_OK, 300); /* it was granted before it could be canceled */
    cr_assert_eq(told(0), RDL__MEMBER_RELEASE);
}

Test(plan_red, part_that_was_given_up_says_nothing_about_the_next_round)
{
    start(&rdl__red_ops, 3, AT(1000));
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_ETIMEDOUT, 0);
    answer_at(2, 1, RDL_ETIMEDOUT, 0);
    cr_assert_eq(told(2), RDL__MEMBER_CANCEL);
    on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = AT(30)});
    cr_assert_eq(plan.phase, RDL__PLAN_ROUND);
    answer_at(31, 2, RDL_ECANCELED, 0);
    answer_at(32, 0, RDL_OK, 100);
    answer_at(33, 1, RDL_ETIMEDOUT, 0);
    cr_assert_eq(plan.phase, RDL__PLAN_PAUSE);
}

Test(plan_red, majority_that_is_over_already_is_none)
{
    start(&rdl__red_ops, 3, 0);
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_OK, 10);
    answer_at(20, 1, RDL_OK, 300);
    answer_at(20, 2, RDL_ECONN, 0);
    assert_done(RDL_ENOQUORUM);
    cr_assert_eq(told(0), RDL__MEMBER_RELEASE);
    cr_assert_eq(told(1), RDL__MEMBER_RELEASE);
}

Test(plan_red, says_who_is_to_blame)
{
    start(&rdl__red_ops, 3, 0);
    answer_at(1, 0, RDL_ETIMEDOUT, 0);
    answer_at(1, 1, RDL_ETIMEDOUT, 0);
    assert_done(RDL_ETIMEDOUT);
    start(&rdl__red_ops, 3, AT(1000));
    answer_at(1, 0, RDL_EDEADLK, 0);
    answer_at(1, 1, RDL_ETIMEDOUT, 0);
    assert_done(RDL_EDEADLK);
}

/* ---- red, told of releases -------------------------------------------------------------------------------------- */

static void news_at(int64_t ms, unsigned i)
{
    on((struct rdl__plan_event){.kind = RDL__PLAN_RELEASED, .member = i, .now = AT(ms)});
}

/* A round of three that begins now and is lost a millisecond later: server 0 grants, the others are somebody's. */
static void lose_round(int64_t ms)
{
    if (plan.phase == RDL__PLAN_PAUSE)
        on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = AT(ms)});
    all_told(RDL__MEMBER_TRY);
    answer_at(ms + 1, 0, RDL_OK, 10000);
    answer_at(ms + 1, 1, RDL_ETIMEDOUT, 0);
    answer_at(ms + 1, 2, RDL_ETIMEDOUT, 0);
    cr_assert_eq(plan.phase, RDL__PLAN_PAUSE);
    cr_assert_eq(told(0), RDL__MEMBER_RELEASE);
}

Test(plan_red, waiter_behind_another_acts_on_news_when_it_is_its_turn)
{
    start(&rdl__red_ops, 3, AT(1000));
    lose_round(0);
    plan.behind = true;
    news_at(5, 0);
    news_at(6, 2);
    cr_assert_eq(plan.wake_at, AT(21));
    plan.behind = false;
    on((struct rdl__plan_event){.kind = RDL__PLAN_TURN, .now = AT(8)});
    cr_assert_eq(plan.wake_at, AT(8));
}

Test(plan_red, pause_ends_when_a_majority_may_be_had)
{
    start(&rdl__red_ops, 3, AT(1000));
    lose_round(0);
    cr_assert_eq(plan.wake_at, AT(21));
    news_at(5, 0); /* of our own release: that one was to be had anyway */
    cr_assert_eq(plan.wake_at, AT(21));
    news_at(6, 2);
    cr_assert_eq(plan.wake_at, AT(6));
}

Test(plan_red, news_that_overtakes_its_refusal_counts)
{
    start(&rdl__red_ops, 3, AT(1000));
    news_at(0, 1);
    lose_round(0);
    cr_assert_eq(plan.wake_at, AT(1));
}

/* The others had refused before it was its turn. */
Test(plan_red, part_that_was_not_tried_is_as_open_as_before)
{
    start(&rdl__red_ops, 3, AT(1000));
    lose_round(0);
    on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = AT(30)});
    all_told(RDL__MEMBER_TRY);
    answer_at(31, 1, RDL_ETIMEDOUT, 0);
    answer_at(31, 2, RDL_ETIMEDOUT, 0);
    cr_assert_eq(told(0), RDL__MEMBER_CANCEL);
    answer_at(32, 0, RDL_ECANCELED, 0);
    news_at(40, 1);
    cr_assert_eq(plan.wake_at, AT(40));
}

/* Of five, 0 and 1 cannot be reached and 2 refuses; by then 3 and 4 are on their way, and 3 is somebody's, too. */
Test(plan_red, refusal_that_comes_late_is_one)
{
    start(&rdl__red_ops, 5, AT(1000));
    all_told(RDL__MEMBER_TRY);
    answer_at(1, 0, RDL_ECONN, 0);
    answer_at(1, 1, RDL_ECONN, 0);
    answer_at(1, 2, RDL_ETIMEDOUT, 0);
    cr_assert_eq(told(3), RDL__MEMBER_CANCEL);
    answer_at(2, 3, RDL_ETIMEDOUT, 0);
    answer_at(2, 4, RDL_OK, 10000);
    news_at(3, 0); /* it is back */
    cr_assert_eq(plan.wake_at, AT(21));
    news_at(4, 3);
    cr_assert_eq(plan.wake_at, AT(4));
}

/* Two rounds of five, both lost: 1, 2 and 3 refuse the first, in which 0 and 4 are given up; 1 refuses the second, in
 * which only 1, 2 and 3 can be asked, and 2 and 3 are given up. Server 4 grants what nobody wants any more. */
static void lose_two_rounds(void)
{
    start(&rdl__red_ops, 5, AT(1000));
    all_told(RDL__MEMBER_TRY);
    for (unsigned i = 1; i <= 3; i++)
        answer_at(1, i, RDL_ETIMEDOUT, 0);
    cr_assert_eq(told(0), RDL__MEMBER_CANCEL);
    cr_assert_eq(told(4), RDL__MEMBER_CANCEL);
    on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = AT(21)});
    for (unsigned i = 1; i <= 3; i++)
        cr_assert_eq(told(i), RDL__MEMBER_TRY);
    answer_at(22, 1, RDL_ETIMEDOUT, 0);
    cr_assert_eq(plan.phase, RDL__PLAN_PAUSE);
    cr_assert_eq(told(2), RDL__MEMBER_CANCEL);
    cr_assert_eq(told(3), RDL__MEMBER_CANCEL);
    answer_at(23, 4, RDL_OK, 10000);
    cr_assert_eq(told(4), RDL__MEMBER_RELEASE);
}

/* Whoever has not answered yet cannot be asked. */
Test(plan_red, round_waits_for_answers_of_those_it_wants_to_ask)
{
    lose_two_rounds();
    news_at(25, 1);
    news_at(26, 2);
    cr_assert_eq(plan.wake_at, AT(42));
    answer_at(27, 2, RDL_ETIMEDOUT, 0); /* which the news has overtaken */
    cr_assert_eq(plan.wake_at, AT(27));
}

/* Nobody refused: it was our own releases. */
Test(plan_red, young_parts_are_no_news)
{
    start(&rdl__red_ops, 3, AT(1000));
    all_told(RDL__MEMBER_TRY);
    for (unsigned i = 0; i < 3; i++)
        on((struct rdl__plan_event){
            .kind = RDL__PLAN_ANSWER, .member = i, .uncounted = true, .until = AT(300), .now = AT(1)});
    for (unsigned i = 0; i < 3; i++)
        news_at(2, i);
    cr_assert_eq(plan.wake_at, AT(21));
}

/* Rivals hear the same news. */
Test(plan_red, rounds_that_news_brought_forward_in_vain_spread)
{
    int64_t ms = 0, latest = 0;

    start(&rdl__red_ops, 3, AT(10000));
    plan.retry = (rdl_retry_t){.kind = RDL_RETRY_FIXED, .min_ms = 50, .max_ms = 50};
    lose_round(ms);
    for (unsigned lost = 0; lost < 40; lost++) {
        news_at(ms + 1, 1);
        cr_assert_leq(plan.wake_at, AT(ms + 1 + (lost == 0 ? 0 : 1 << (lost < 4 ? lost : 4))));
        latest = plan.wake_at - AT(ms + 1) > latest ? plan.wake_at - AT(ms + 1) : latest;
        lose_round(ms += 20);
    }
    cr_assert_gt(latest, AT(8));
    on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = AT(ms += 60)}); /* of a whole pause */
    lose_round(ms);
    news_at(ms + 1, 1);
    cr_assert_eq(plan.wake_at, AT(ms + 1));
}

/* ---- red, in a world of its own --------------------------------------------------------------------------------- */

/* Five servers, whoever else takes and releases there, and what is on the way between them and the machine. It
 * overtakes in any order, but for what one channel carries. Nothing fails, and the pause is endless: only news ends it.
 */
#define ENDLESS_MS 1000000
#define LONG_WALK 120

enum step { NOT_SENT, SENT, ANSWERED };

static struct world {
    struct rdl__rand rand;
    int64_t ms;
    bool listening;
    struct place {
        enum { FREE, OURS, ANOTHERS } holder;
        bool asked;
        bool give_back; /* a release of ours is on its way there */
        bool hears;     /* the subscription is there */
        unsigned heard; /* and its messages that are on their way to us */
        enum step step; /* of what was asked */
        int code;
    } at[MOST];
} world;

static bool chance(unsigned percent)
{
    return rdl__rand_below(&world.rand, 100) < percent;
}

static void free_it(struct place *at)
{
    at->holder = FREE;
    at->heard += at->hears;
}

static void run_take(struct place *at)
{
    at->code = at->holder == FREE ? RDL_OK : RDL_ETIMEDOUT;
    at->holder = at->holder == FREE ? OURS : at->holder;
}

/* What was sent and is not waited for is undone behind it. */
static void cancel(struct place *at)
{
    if (!at->asked || at->step == ANSWERED)
        return;
    if (at->step == SENT) {
        run_take(at);
        at->give_back = true;
    }
    at->step = ANSWERED;
    at->code = RDL_ECANCELED;
}

static void obey(void)
{
    for (unsigned i = 0; i < MOST; i++)
        switch (told(i)) {
        case RDL__MEMBER_TRY:
            world.at[i].asked = true;
            world.at[i].step = NOT_SENT;
            break;
        case RDL__MEMBER_CANCEL:
            cancel(&world.at[i]);
            break;
        case RDL__MEMBER_RELEASE:
            world.at[i].give_back = true;
            break;
        default:
            break;
        }
    world.listening |= plan.phase == RDL__PLAN_PAUSE;
}

/* The next thing on the way between the machine and one server happens; false: there is none. */
static bool something_happens(unsigned i)
{
    struct place *at = &world.at[i];
    unsigned what = (unsigned)rdl__rand_below(&world.rand, 4);

    for (unsigned k = 0; k < 4; k++, what = (what + 1) % 4)
        if (what == 0 && at->asked && at->step == NOT_SENT && !at->give_back) {
            at->step = SENT;
            return true;
        } else if (what == 1 && at->asked && at->step == SENT) {
            run_take(at);
            at->step = ANSWERED;
            return true;
        } else if (what == 1 && at->asked && at->step == ANSWERED) {
            at->asked = false;
            answer_at(world.ms, i, at->code, ENDLESS_MS);
            return true;
        } else if (what == 2 && at->give_back && !(at->asked && at->step == SENT)) {
            at->give_back = false;
            if (at->holder == OURS)
                free_it(at);
            return true;
        } else if (what == 3 && world.listening && !at->hears) {
            at->hears = true;
            at->heard = 1; /* the confirmation */
            return true;
        } else if (what == 3 && at->heard > 0) {
            at->heard--;
            news_at(world.ms, i);
            return true;
        }
    return false;
}

static void others_do_something(unsigned i)
{
    if (world.at[i].holder == FREE)
        world.at[i].holder = ANOTHERS;
    else if (world.at[i].holder == ANOTHERS)
        free_it(&world.at[i]);
}

/* The machine's timer is due, unless it is the end of a whole pause. */
static bool timer_is_due(void)
{
    if (plan.phase != RDL__PLAN_PAUSE || plan.wake_at > AT(world.ms + ENDLESS_MS / 2))
        return false;
    if (plan.wake_at > AT(world.ms))
        world.ms = plan.wake_at / RDL__MS;
    on((struct rdl__plan_event){.kind = RDL__PLAN_TIMER, .now = AT(world.ms)});
    return true;
}

static void some_step(void)
{
    unsigned i = (unsigned)rdl__rand_below(&world.rand, MOST);

    world.ms += chance(20);
    if (chance(15))
        others_do_something(i);
    else if (!chance(15) || !timer_is_due())
        (void)something_happens(i);
    obey();
}

static void let_it_come_to_rest(void)
{
    bool more = true;

    while (more && plan.phase != RDL__PLAN_DONE) {
        more = timer_is_due();
        obey();
        for (unsigned i = 0; i < MOST; i++) {
            more |= something_happens(i);
            obey();
        }
    }
}

static void check_walk(uint64_t seed)
{
    world = (struct world){.rand.state = seed};
    for (unsigned i = 0; i < MOST; i++)
        world.at[i].holder = chance(50) ? ANOTHERS : FREE;
    start(&rdl__red_ops, MOST, RDL__NEVER);
    plan.retry = (rdl_retry_t){.kind = RDL_RETRY_FIXED, .min_ms = ENDLESS_MS, .max_ms = ENDLESS_MS};
    obey();
    for (unsigned n = 0; n < LONG_WALK && plan.phase != RDL__PLAN_DONE; n++)
        some_step();
    for (unsigned i = 0; i < MOST; i++) /* whoever has some of them lets go, but for a minority */
        if (world.at[i].holder == ANOTHERS && i > 1)
            free_it(&world.at[i]);
    let_it_come_to_rest();
    cr_assert_eq(plan.phase, RDL__PLAN_DONE, "seed %llu: sleeps beside a free majority", (unsigned long long)seed);
    cr_assert_eq(plan.rc, RDL_OK);
}

Test(plan_red, never_sleeps_beside_a_free_majority)
{
    for (uint64_t seed = 1; seed <= 20000; seed++)
        check_walk(seed);
}
