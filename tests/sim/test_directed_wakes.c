/* SPDX-License-Identifier: MIT */
/* test_directed_wakes.c - schedules that are known to lose wake-ups (protocol.md, 5), or what was handed on. */
#include "tests/sim/schedules.h"

/* ---- wake-ups --------------------------------------------------------------------------------------------------- */

/* a's release meets b's first try, its subscription and its second try at every moment. */
static void release_meets_subscribe(void)
{
    struct lock_call *rival;

    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    rival = begin(b, TAKE, 3000, RDL_LEASE_AUTO);
    fibre_sleep(schedule->offset);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(end(rival), RDL_OK, "the rival");
}

Test(directed, P1_an_unlock_between_the_first_try_and_the_subscription_wakes, .timeout = 120)
{
    check_at_each(release_meets_subscribe, 0, 14 * ONE_WAY);
}

static void subscriber_cut(void)
{
    struct lock_call *rival;

    if (sim.names[N].kind->polls)
        return; /* it has no subscription to lose */
    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    rival = begin(b, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(30);
    net_cut(net_nth(&q->process, SUBSCRIBER));
    fibre_sleep(schedule->offset);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    pass_ms(30);
    must(rival->done, "the rival is woken soon");
    must_answer(end(rival), RDL_OK, "the rival");
}

Test(directed, P4_a_subscription_lost_while_the_lock_is_freed_loses_no_wake_up, .timeout = 120)
{
    check_at_each(subscriber_cut, 0, 12 * ONE_WAY);
}

/* b is woken in the moment in which its time is over: the other must get the wake-up. */
static void woken_when_its_time_is_over(struct caller *other)
{
    struct lock_call *first, *second;

    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    first = begin(b, TAKE, 40, RDL_LEASE_AUTO);
    pass_ms(10);
    second = begin(other, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(26);
    fibre_sleep(schedule->offset);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    if (end(first) == RDL_OK)
        must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "the first one's release");
    pass_ms(30);
    must(second->done, "the second is woken");
    must_answer(end(second), RDL_OK, "the second");
}

static void woken_at_the_deadline(void)
{
    if (!sim.names[N].kind->polls) /* nobody wakes it */
        woken_when_its_time_is_over(c);
}

Test(directed, Q6_who_is_woken_when_its_time_is_over_hands_the_wake_up_on, .timeout = 120)
{
    check_at_each(woken_at_the_deadline, 0, 5 * ONE_WAY);
}

/* The same when it is canceled in that moment. */
static void woken_and_canceled(void)
{
    struct lock_call *first, *second, *release;
    struct process *before;

    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    first = begin(b, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(30);
    second = begin(c, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(10);
    release = begin(a, RELEASE, 0, 0);
    fibre_sleep(2 * ONE_WAY + schedule->offset);
    before = process_enter(&q->process);
    cancel_call(first);
    (void)process_enter(before);
    must_answer(end(release), RDL_OK, "the release");
    if (end(first) == RDL_OK)
        must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "the first one's release");
    pass_ms(30);
    must(second->done, "the second is woken");
    must_answer(end(second), RDL_OK, "the second");
}

Test(directed, Q6_who_is_canceled_when_it_is_woken_hands_the_wake_up_on, .timeout = 120)
{
    for (int64_t offset = -100 * RDL__US; offset <= 100 * RDL__US; offset += 2 * RDL__US)
        check_schedule(&(struct schedule){.kind = "reentrant", .steps = woken_and_canceled, .offset = offset});
}

/* b and c wait, and b is woken while its process has no connection to try on: the message passes, the lane is being
 * made. So b leaves without having tried, nothing is undone at the server, and no other message will come: c depends on
 * b. */
static struct lock_call *woken_without_a_lane(int64_t wait_ms, struct lock_call **ret_second)
{
    struct lock_call *first;

    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    first = begin(b, TAKE, wait_ms, RDL_LEASE_AUTO);
    pass_ms(10);
    *ret_second = begin(c, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(20);
    app_disturb(q, 0);
    must(!first->done && !(*ret_second)->done, "both wait");
    net_cut(net_nth(&q->process, LOOP_LANE));
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    return first;
}

static void second_is_woken(struct lock_call *second)
{
    pass_ms(60);
    must(second->done, "the second is woken");
    must_answer(end(second), RDL_OK, "the second");
}

static void canceled_before_it_could_try(void)
{
    struct lock_call *second, *first = woken_without_a_lane(3000, &second);
    struct process *before;

    fibre_sleep(schedule->offset);
    before = process_enter(&q->process);
    cancel_call(first);
    (void)process_enter(before);
    if (end(first) == RDL_OK)
        must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "the first one's release");
    second_is_woken(second);
}

Test(directed, Q6_who_is_canceled_before_it_could_try_hands_the_wake_up_on, .timeout = 120)
{
    check_at_each(canceled_before_it_could_try, 0, 5 * ONE_WAY);
}

static void out_of_time_before_it_could_try(void)
{
    struct lock_call *second, *first = woken_without_a_lane(33, &second);

    if (end(first) == RDL_OK)
        must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "the first one's release");
    second_is_woken(second);
}

Test(directed, Q6_who_is_out_of_time_before_it_could_try_hands_the_wake_up_on)
{
    check_each_kind(out_of_time_before_it_could_try, usual);
}

/* b's grant is read when its lease is over at the server, too: giving it back frees nothing, and announces nothing.
 * Types that poll are woken by nothing. */
static void grant_given_back(void)
{
    struct lock_call *first, *second;

    if (sim.names[N].kind->polls)
        return;
    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    first = begin(b, TAKE, 3000, 10);
    pass_ms(10);
    second = begin(c, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(20);
    app_disturb(q, 0);
    net_hold(net_nth(&q->process, LOOP_LANE), DOWN, world_now() + 30 * RDL__MS);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(end(first), RDL_ELOST, "the first");
    second_is_woken(second);
}

Test(directed, Q6_who_gives_a_grant_back_hands_the_wake_up_on)
{
    check_each_kind(grant_given_back, usual);
}

/* The refusal of the second try is read after the message that makes it void. */
static void message_overtakes_refusal(void)
{
    struct lock_call *rival;
    int64_t began = world_now();

    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    rival = begin(b, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(3); /* the first refusal is there */
    app_disturb(q, 0);
    net_hold(net_nth(&q->process, LOOP_LANE), DOWN, world_now() + 15 * RDL__MS);
    fibre_sleep(schedule->offset);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(end(rival), RDL_OK, "the rival");
    must(world_now() - began < 40 * RDL__MS, "the rival does not sleep beside it");
}

Test(directed, Q6_a_refusal_that_a_message_has_overtaken_is_none, .timeout = 120)
{
    check_at_each(message_overtakes_refusal, 0, 15 * ONE_WAY);
}

/* ---- the line beside a lock -------------------------------------------------------------------------------------- */

static const char *const line_kinds[] = {"reentrant", "nonreentrant", "fenced"};

static void check_in_line(void (*fn)(void), int64_t from, int64_t to)
{
    for (int64_t offset = from; offset <= to; offset += ONE_WAY / 20)
        for (size_t i = 0; i < sizeof line_kinds / sizeof *line_kinds; i++)
            check_schedule(&(struct schedule){.kind = line_kinds[i], .steps = fn, .offset = offset});
}

/* b of q is woken by name as it gives up; another client, p's other caller, is the next. */
static void woken_as_it_gives_up(void)
{
    struct caller *d = caller_join(p, false);

    woken_when_its_time_is_over(d);
    must_answer(do_it(d, RELEASE, 0, 0), RDL_OK, "its release");
    (void)process_enter(&p->process);
    caller_leave(d);
    (void)process_enter(NULL);
}

Test(directed, Q7_who_gives_up_as_its_client_is_woken_hands_the_wake_up_to_another_client, .timeout = 120)
{
    check_in_line(woken_as_it_gives_up, 0, 6 * ONE_WAY);
}

/* b and c wait, of one client, which is out of the line when b has the lock: b's release enters it again, for c. */
static void released_beside_a_waiter_of_the_client(void)
{
    struct lock_call *first, *second;

    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    first = begin(b, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(8);
    second = begin(c, TAKE, 3000, RDL_LEASE_AUTO);
    pass_ms(8);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(end(first), RDL_OK, "the first");
    fibre_sleep(schedule->offset);
    must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "the first one's release");
    pass_ms(20); /* it would look by itself 100 ms after it was refused */
    must(second->done, "the second is woken");
    must_answer(end(second), RDL_OK, "the second");
}

Test(directed, Q7_who_waits_beside_a_hold_of_its_client_is_woken_by_its_release, .timeout = 120)
{
    check_in_line(released_beside_a_waiter_of_the_client, 0, 6 * ONE_WAY);
}

/* c waits behind its own client's hold, which is evicted; so the release that was to enter the line is none. */
static void hold_lost(void)
{
    struct lock_call *behind;

    must_answer(do_it(b, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    behind = begin(c, TAKE, 4500, RDL_LEASE_AUTO);
    pass_ms(50);
    (void)ask(server_do("HSET", "redisson_lock__channel:{N}", "ear", "another"));
    pass_ms(1450); /* the client listens for evictions by now, and c's client stands in line, */
    (void)ask(server_do("DEL", "redisson_lock__channel:{N}")); /* and does not any more */
    must_answer(do_it(a, FORCE, 0, 0), 1, "the eviction");
    pass_ms(50);
    must(behind->done, "who waits behind it is woken");
    must_answer(end(behind), RDL_OK, "the one behind");
}

Test(directed, Q7_who_waits_beside_a_lost_hold_of_its_client_is_woken, .timeout = 120)
{
    for (size_t i = 0; i < sizeof line_kinds / sizeof *line_kinds; i++)
        check_schedule(&(struct schedule){.kind = line_kinds[i], .steps = hold_lost, .watchdog_lease_ms = 9000});
}

/* ---- who comes back stands in line already (19) ------------------------------------------------------------------ */

static void passed_on(struct caller *from, struct lock_call *to)
{
    must_answer(do_it(from, RELEASE, 0, 0), RDL_OK, "a release");
    must_answer(end(to), RDL_OK, "the next one");
}

static struct lock_call *waits(struct caller *caller)
{
    struct lock_call *call = begin(caller, TAKE, 3000, 20000);

    pass_ms(20);
    return call;
}

/* a, b and d, of a client each, have had it by turns. Now a holds it again, and is taken for one that comes back; b's
 * last release has woken another. */
static struct caller *a_comes_back(void)
{
    struct app *r = sim_app(0);
    struct caller *d;
    struct lock_call *next, *at_once;

    fibre_join(fibre_start(&r->process, open_it, r));
    d = caller_join(r, false);
    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the first");
    passed_on(a, waits(b));
    passed_on(b, waits(d));
    passed_on(d, waits(a));
    next = begin(d, TAKE, 3000, 20000);
    pass_ms(5);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "a's release");
    at_once = begin(a, TAKE, 3000, 20000);
    must_answer(end(next), RDL_OK, "d");
    passed_on(d, at_once);
    return d;
}

/* d is the last one, and nobody is left in line. */
static void d_leaves(struct caller *d)
{
    struct app *r = d->app;

    must_answer(do_it(d, RELEASE, 0, 0), RDL_OK, "d's release");
    pass_ms(200);
    must(ask(server_do("EXISTS", "redisson_lock__channel:{N}")) == 0, "nobody is left in line");
    (void)process_enter(&r->process);
    caller_leave(d);
    (void)process_enter(NULL);
    fibre_join(fibre_start(&r->process, close_it, r));
}

/* b's first try enters the line, and its answer is lost; sent again it is granted, behind a's release, which has
 * entered a. Then nobody looks but for b's release. */
static void take_sent_again(void)
{
    struct caller *d = a_comes_back();
    struct lock_call *again, *last;

    app_disturb(q, 100 * RDL__MS);
    net_cut_after(net_nth(&q->process, LOOP_LANE), DOWN, 1);
    again = begin(b, TAKE, 3000, 20000);
    fibre_sleep(ONE_WAY / 2);
    last = begin(d, TAKE, 8000, 20000);
    fibre_sleep(ONE_WAY);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "a's release");
    must_answer(end(again), RDL_OK, "b");
    must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "b's release");
    pass_ms(150);
    must(last->done, "who waits is woken, or looks");
    must_answer(end(last), RDL_OK, "d");
    d_leaves(d);
}

static void check_unrenewed(void (*steps)(void))
{
    check_schedule(
        &(struct schedule){.kind = "reentrant", .unfenced = true, .watchdog_lease_ms = 30000, .steps = steps});
}

Test(directed, Q7_a_take_that_is_sent_again_takes_its_client_out_of_the_line)
{
    check_unrenewed(take_sent_again);
}

/* a's release has little time left when there is a connection again, and is given up; then it answers that it has
 * entered the line. */
static void release_given_up(void)
{
    struct caller *d = a_comes_back();
    struct lock_call *first = waits(b), *second = waits(d), *release;

    app_disturb(p, 100 * RDL__MS);
    net_cut(net_nth(&p->process, LOOP_LANE));
    release = begin(a, RELEASE, 0, 0);
    fibre_sleep(11 * ONE_WAY / 2); /* there is one, and it is on its way */
    net_hold(net_last(&p->process), DOWN, world_now() + 57 * RDL__MS);
    must_answer(end(release), RDL_EUNKNOWN, "a's release");
    must_answer(end(first), RDL_OK, "b");
    passed_on(b, second);
    d_leaves(d);
}

Test(directed, Q7_a_release_that_was_given_up_leaves_nobody_in_line)
{
    check_unrenewed(release_given_up);
}

static int64_t block(struct caller *caller, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    struct process *before = process_enter(&caller->app->process);
    int64_t result = call_and_wait(caller, N, verb, wait_ms, lease_ms);

    (void)process_enter(before);
    return result;
}

/* d's release, which nobody waits for, enters its client for c, behind the undo by which c has left. It is undone as
 * soon as it is answered: nobody else is woken until then. */
static void release_unconfirmed(void)
{
    struct app *r = sim_app(0);
    struct caller *d = caller_join(q, true), *e;
    struct lock_call *first, *brief, *last;
    struct conn *lane;

    fibre_join(fibre_start(&r->process, open_it, r));
    e = caller_join(r, false);
    must_answer(block(d, TAKE, 0, 20000), RDL_OK, "the take");
    lane = net_last(&q->process);
    first = waits(a);
    brief = begin(c, TAKE, 40, 20000);
    pass_ms(20);
    net_hold(lane, UP, world_now() + 40 * RDL__MS);
    must_answer(block(d, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(end(brief), RDL_ETIMEDOUT, "who gives up");
    must_answer(end(first), RDL_OK, "the first in line");
    last = waits(e);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "its release");
    pass_ms(10);
    must(last->done, "the next one is woken");
    must_answer(end(last), RDL_OK, "the next one");
    (void)process_enter(&q->process);
    caller_leave(d);
    (void)process_enter(NULL);
    d_leaves(e);
}

Test(directed, Q7_a_release_that_nobody_waits_for_leaves_the_line_at_once)
{
    check_schedule(&(struct schedule){.kind = "reentrant",
                                      .unfenced = true,
                                      .unconfirmed = true,
                                      .watchdog_lease_ms = 30000,
                                      .steps = release_unconfirmed});
}

/* ---- an eviction whose answer comes late ------------------------------------------------------------------------- */

static void force_it(void *arg)
{
    (void)arg;
    (void)call_and_wait(c, N, FORCE, 0, 0);
}

/* b is passed the lock before it listens, and does not know. c evicts it; then b's second try is granted, by the same
 * number; then c hears that it has evicted that number. */
static void evicted_and_granted_again(void)
{
    struct conn *callers;
    struct fibre *thread;
    struct lock_call *waiter;

    c->blocking = true;
    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    fibre_join(fibre_start(&q->process, force_it, NULL));
    callers = net_last(&q->process);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_ELOST, "the release of what was evicted");
    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    waiter = begin(b, TAKE, 3000, 1000);
    fibre_sleep(5 * ONE_WAY / 2);
    app_disturb(q, 100 * RDL__MS);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    thread = fibre_start(&q->process, force_it, NULL);
    fibre_sleep(5 * ONE_WAY / 2);
    net_hold(callers, DOWN, world_now() + 10 * RDL__MS);
    fibre_join(thread);
    must_answer(end(waiter), RDL_OK, "the waiter");
    must(hold_state(b, N) == RDL_HELD, "what was granted since is not lost");
    must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "its release");
    must(is_free(), "nothing is left");
}

Test(directed, A6_a_late_answer_to_an_eviction_leaves_the_next_hold_alone)
{
    check_schedule(&(struct schedule){.kind = "fair", .steps = evicted_and_granted_again});
}
