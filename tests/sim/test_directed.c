/* SPDX-License-Identifier: MIT */
/* test_directed.c - schedules that are known to break locks: replies that are lost, acquires that come late, clocks,
 * grants that are lost, and servers that are away. Those about wake-ups are test_directed_wakes'.
 */
#include "tests/sim/schedules.h"

/* ---- replies that are lost -------------------------------------------------------------------------------------- */

static void acquire_reply_lost(void)
{
    net_cut_after(net_nth(&p->process, LOOP_LANE), DOWN, 0);
    must_answer(do_it(a, TAKE, 1000, RDL_LEASE_AUTO), RDL_OK, "the take");
    if (sim.names[N].kind->reentrant)
        must(ask(server_do("HGET", "N", a->holds[N].field)) == 1, "the count is 1");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must(is_free(), "one release frees it");
}

Test(directed, A1_an_acquire_repeated_after_its_reply_was_lost_counts_once)
{
    check_each_kind(acquire_reply_lost, usual);
    check_each_kind(acquire_reply_lost, no_kill);
}

/* A call that waits would get over a repeat that is refused; a single try does not. Without tokens some types have a
 * first form of their own, which is none for repeats. */
static void single_try_reply_lost(void)
{
    net_cut_after(net_nth(&p->process, LOOP_LANE), DOWN, 0);
    must_answer(do_it(a, TAKE, 0, 20000), RDL_OK, "the take");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must(is_free(), "one release frees it");
}

Test(directed, A1_a_single_try_repeated_after_its_reply_was_lost_is_granted)
{
    for (size_t i = 0; i < kind_count; i++)
        check_schedule(&(struct schedule){.kind = kinds[i].name, .steps = single_try_reply_lost, .unfenced = true});
}

static void release_reply_lost(void)
{
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    net_cut_after(net_nth(&p->process, LOOP_LANE), DOWN, 0);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the next take");
    pass_ms(400);
    must(believes(a, N), "the next hold lives on");
}

Test(directed, A2_a_release_repeated_after_its_reply_was_lost_succeeds)
{
    check_each_kind(release_reply_lost, usual);
    check_each_kind(release_reply_lost, no_kill);
}

static void outcome_unknown(void)
{
    app_disturb(p, 100 * RDL__MS);
    net_hold(net_nth(&p->process, LOOP_LANE), DOWN, world_now() + 90 * RDL__MS);
    must_answer(do_it(a, TAKE, 0, 1000), RDL_EUNKNOWN, "the take");
    pass_ms(4);
    must(is_free(), "the key is gone promptly");
}

Test(directed, A3_an_acquire_of_unknown_outcome_is_undone_promptly)
{
    check_each_kind(outcome_unknown, usual);
}

static void late_release(void)
{
    struct lock_call *release;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    net_hold(net_nth(&p->process, LOOP_LANE), UP, world_now() + 300 * RDL__MS);
    release = begin(a, RELEASE, 0, 0);
    pass_ms(1);
    net_cut(net_nth(&p->process, LOOP_LANE));
    must_answer(end(release), RDL_OK, "the release");
    must_answer(do_it(a, TAKE, 200, RDL_LEASE_AUTO), RDL_OK, "the next take");
    pass_ms(700); /* the first release may arrive now */
    must(believes(a, N), "the next hold lives on");
}

Test(directed, A6_a_late_release_leaves_the_next_hold_alone)
{
    check_each_kind(late_release, usual);
    check_each_kind(late_release, no_kill);
}

/* ---- acquires that come late ------------------------------------------------------------------------------------ */

/* The acquire is held up on its way, and its connection breaks: it will come late. */
static struct lock_call *acquire_held_up(int64_t wait_ms, int64_t lease_ms)
{
    struct conn *lane = net_nth(&p->process, LOOP_LANE);
    struct lock_call *take;

    net_hold(lane, UP, world_now() + 200 * RDL__MS);
    take = begin(a, TAKE, wait_ms, lease_ms);
    pass_ms(2);
    net_cut(lane);
    pass_ms(2); /* until the client has seen it */
    return take;
}

static struct conn *next_lane(void)
{
    struct conn *lane;

    while ((lane = net_nth(&p->process, LOOP_LANE)) == NULL)
        fibre_sleep(RDL__MS / 10);
    return lane;
}

static void late_acquire(void)
{
    struct lock_call *take = acquire_held_up(200, 1000);

    must_answer(end(take), RDL_OK, "the repeat");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    pass_ms(600);
    must(is_free(), "the late acquire leaves nothing");
}

static void late_acquire_given_up(void)
{
    struct lock_call *take = acquire_held_up(20, 1000);

    app_disturb(p, 100 * RDL__MS);
    net_hold(next_lane(), DOWN, world_now() + 50 * RDL__MS);
    must_answer(end(take), RDL_EUNKNOWN, "the take");
    pass_ms(600);
    must(is_free(), "the late acquire leaves nothing");
}

Test(directed, Q1_an_acquire_that_comes_after_its_release_leaves_nothing)
{
    check_each_kind(late_acquire, usual);
    check_each_kind(late_acquire_given_up, usual);
}

/* Its repeat is evicted before it could be given back, and the owner hears of that with its release, or from a renewal.
 */
static void late_acquire_evicted(void)
{
    struct lock_call *take = acquire_held_up(200, 1000);

    must_answer(end(take), RDL_OK, "the repeat");
    must_answer(do_it(b, FORCE, 0, 0), 1, "the eviction");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_ELOST, "the release");
    pass_ms(600); /* it has come since, and would hold the lock for a second */
    must(is_free(), "the late acquire leaves nothing");
}

static void late_acquire_evicted_and_renewed(void)
{
    struct lock_call *take = acquire_held_up(200, RDL_LEASE_AUTO);

    must_answer(end(take), RDL_OK, "the repeat");
    must_answer(do_it(b, FORCE, 0, 0), 1, "the eviction");
    pass_ms(sim.options.watchdog_lease_ms * 2 / 5);
    must(a->holds[N].told, "the owner has heard of it");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_ELOST, "the release");
    pass_ms(400); /* it has come since, and would hold the lock for a lease */
    must(is_free(), "the late acquire leaves nothing");
}

Test(directed, Q1_an_acquire_that_comes_after_its_eviction_leaves_nothing_where_kill_is_refused)
{
    check_each_kind(late_acquire_evicted, no_kill);
    for (size_t i = 0; i < kind_count; i++)
        check_schedule(&(struct schedule){.kind = kinds[i].name,
                                          .steps = late_acquire_evicted_and_renewed,
                                          .traits = no_kill,
                                          .watchdog_lease_ms = 450});
}

/* The KILL does not get through twice: the third connection must still name the first. */
static void late_acquire_and_kill_cut(void)
{
    struct lock_call *take = acquire_held_up(1000, 1000);

    for (int cuts = 0; cuts < 2; cuts++) {
        struct conn *lane = next_lane();

        pass_ms(1); /* it has sent its greeting */
        net_cut_after(lane, UP, 0);
        pass_ms(4); /* its first command has met the cut */
    }
    must_answer(end(take), RDL_OK, "the repeat");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    pass_ms(600);
    must(is_free(), "the late acquire leaves nothing");
}

Test(directed, Q2_the_same_when_the_connection_with_the_kill_is_cut)
{
    check_each_kind(late_acquire_and_kill_cut, usual);
}

/* ---- what is repeated ends -------------------------------------------------------------------------------------- */

enum { A_DAY_MS = 86400000, CALLS = 3, REPEATS = 24 }; /* of each, in an hour, at growing pauses */

/* Nobody knows whether the take has run, nor can its connection be killed. `in_doubt` leaves such a call behind. */
static void repeats_end(void (*in_doubt)(void))
{
    int64_t blocks, scripts;

    for (int i = 0; i < CALLS; i++)
        in_doubt(); /* what a client keeps for the next calls is there from now on */
    pass_ms(3600000 + 60000);
    blocks = sim_blocks();
    for (int i = 0; i < CALLS; i++)
        in_doubt();
    must(sim_blocks() > blocks, "calls are being undone");
    scripts = scripts_ran;
    pass_ms(3600000 + 60000);
    must(scripts_ran - scripts > CALLS * 10, "they are undone more than once");
    must(scripts_ran - scripts <= CALLS * REPEATS, "the pauses between repeats grow");
    scripts = scripts_ran;
    pass_ms(3600000 / 2);
    must(scripts_ran == scripts, "nothing is repeated after an hour");
    must(sim_blocks() == blocks, "the call's memory is given back");
}

static void cut_in_flight(void)
{
    pass_ms(1);
    net_cut(net_nth(&p->process, LOOP_LANE));
    pass_ms(2);                                              /* until the client has seen it */
    net_hold(next_lane(), DOWN, world_now() + 59 * RDL__MS); /* no patience is longer than command_timeout_ms */
}

static void take_for_a_day(void)
{
    struct lock_call *take;

    app_disturb(p, 100 * RDL__MS);
    net_hold(net_nth(&p->process, LOOP_LANE), UP, world_now() + 200 * RDL__MS);
    take = begin(a, TAKE, 20, A_DAY_MS);
    cut_in_flight();
    must_answer(end(take), RDL_EUNKNOWN, "the take");
    pass_ms(70);
}

static void locks_repeats_end(void)
{
    repeats_end(take_for_a_day);
}

/* All that a wait has sent is answered when its time is over; only its place in the queue is given up. */
static void wait_in_vain(void)
{
    int64_t scripts;

    take_for_a_day();
    pass_ms(3600000 + 60000); /* that is over, and the client knows that there is no KILL */
    must_answer(do_it(b, TAKE, 0, 20000), RDL_OK, "the take");
    pass_ms(1500); /* that its client listens for evictions, and has asked about it */
    must_answer(do_it(a, TAKE, 50, 20000), RDL_ETIMEDOUT, "the wait");
    scripts = scripts_ran;
    pass_ms(15000);
    must(scripts_ran - scripts <= 1, "it is undone once");
}

static bool permits_answered;

static void on_permits(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)semaphore;
    (void)err;
    (void)arg;
    permits_answered = true;
    must_answer(result, RDL_EUNKNOWN, "the take");
}

static void take_without_end(void)
{
    struct process *before = process_enter(&p->process);
    rdl_permit_semaphore_t *semaphore = NULL;
    rdl_permit_t permit;

    must_answer(rdl_permit_semaphore(p->client, "P", NULL, &semaphore, NULL), RDL_OK, "the handle");
    app_disturb(p, 100 * RDL__MS);
    net_hold(net_nth(&p->process, LOOP_LANE), UP, world_now() + 200 * RDL__MS);
    permits_answered = false;
    must_answer(rdl_permit_semaphore_try_acquire_async(semaphore, a->owner, 1, 20, RDL_LEASE_NEVER, &permit, on_permits,
                                                       NULL, NULL, NULL),
                RDL_OK, "the call");
    rdl_permit_semaphore_free(semaphore);
    (void)process_enter(before);
    cut_in_flight();
    pass_ms(80);
    must(permits_answered, "the take is answered");
}

static void permits_repeats_end(void)
{
    (void)ask(server_do("SET", "P", "5"));
    repeats_end(take_without_end);
    must(ask(server_do("GET", "P")) == 5, "no permit is gone");
    (void)ask(server_do("DEL", "P"));
}

Test(directed, N8_a_wait_in_vain_is_undone_once_where_kill_is_refused)
{
    check_schedule(&(struct schedule){.kind = "fair", .steps = wait_in_vain, .traits = no_kill});
}

Test(directed, N8_the_repeats_of_an_undo_end_whatever_the_lease, .timeout = 120)
{
    check_each_kind(locks_repeats_end, no_kill);
    check_schedule(&(struct schedule){.kind = kinds[0].name, .steps = permits_repeats_end, .traits = no_kill});
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

static struct caller *extender;

static void extend_blocking(void *arg)
{
    (void)arg;
    must_answer(call_and_wait(extender, N, EXTEND, 0, 1000), RDL_OK, "the extend");
}

static void renewal_overtaken(void)
{
    extender = a;
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    a->blocking = true; /* its verbs go another way than renewals */
    app_disturb(p, 300 * RDL__MS);
    net_hold(net_nth(&p->process, LOOP_LANE), UP, world_now() + 100 * RDL__MS);
    pass_ms(60); /* the renewal is under way */
    fibre_join(fibre_start(&p->process, extend_blocking, NULL));
    pass_ms(60); /* and has arrived */
    must(ask(server_do("PTTL", "N")) > 850, "the longer lease stays");
}

Test(directed, Q3_a_renewal_that_overtakes_an_extend_does_not_shorten_it)
{
    check_each_kind(renewal_overtaken, usual);
}

static void late_grant(void)
{
    net_hold(net_nth(&p->process, LOOP_LANE), DOWN, world_now() + 60 * RDL__MS);
    app_disturb(p, 70 * RDL__MS);
    must_answer(do_it(a, TAKE, 200, 40), RDL_ELOST, "the take");
    must(!believes(a, N), "nobody believes in it");
    pass_ms(4);
    must(is_free(), "the key is gone");
}

Test(directed, Q4_a_grant_that_is_read_after_its_validity_is_none)
{
    check_each_kind(late_grant, usual);
}

static void flushed(void)
{
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    pass_ms(10);
    server_flush_keys();
    excuse_all("the keys were flushed");
    pass_ms(56); /* a renewal period */
    must(!believes(a, N), "the loss is known");
    must(a->holds[N].told, "and told");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_ELOST, "the release");
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the next take");
    pass_ms(500);
    must(believes(a, N), "the next hold is renewed");
}

Test(directed, W3_keys_flushed_under_a_hold_are_noticed_within_a_renewal_period)
{
    check_each_kind(flushed, usual);
}

/* A rival that wants the lock all the time takes it exactly when nobody believes to hold it: the checkers see to that.
 */
static void server_stands_still_ms(int64_t ms)
{
    app_disturb(NULL, (ms + 300) * RDL__MS);
    process_stop(server_process());
    pass_ms(ms);
    process_go(server_process());
}

static void pause_short(void)
{
    struct lock_call *rival;
    int64_t answer;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    rival = begin(b, TAKE, 1000, RDL_LEASE_AUTO);
    pass_ms(100); /* just renewed */
    server_stands_still_ms(sim.options.watchdog_lease_ms * 2 / 3 - 5);
    pass_ms(200);
    must(believes(a, N), "nothing is lost");
    answer = end(rival);
    if (answer != RDL_EUNKNOWN || !sim.names[N].kind->polls) /* one that polls may be asking as its time ends */
        must_answer(answer, RDL_ETIMEDOUT, "the rival");
}

static void pause_long(void)
{
    struct lock_call *rival;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    rival = begin(b, TAKE, RDL_WAIT_FOREVER, RDL_LEASE_AUTO);
    pass_ms(20);
    server_stands_still_ms(sim.options.watchdog_lease_ms * 3 / 2);
    must(!believes(a, N), "it is lost before the server answers anybody");
    must_answer(end(rival), RDL_OK, "the rival");
}

Test(directed, W4_a_server_that_pauses_for_two_thirds_of_a_lease_loses_nothing)
{
    check_each_kind(pause_short, usual);
}

Test(directed, W4_a_server_that_pauses_for_longer_than_a_lease_takes_the_hold_before_another_has_it)
{
    check_each_kind(pause_long, usual);
}

static void stopped(void)
{
    struct lock_call *rival;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    rival = begin(b, TAKE, RDL_WAIT_FOREVER, RDL_LEASE_AUTO);
    pass_ms(20);
    app_disturb(p, 400 * RDL__MS);
    process_stop(&p->process);
    pass_ms(sim.options.watchdog_lease_ms * 3 / 2);
    must_answer(end(rival), RDL_OK, "the rival");
    must(hold_state(a, N) == RDL_LOST, "the first query says lost");
    process_go(&p->process);
    pass_ms(2);
    must(a->holds[N].told, "and so does the callback");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_ELOST, "the release");
}

Test(directed, W7_a_process_that_was_stopped_knows_that_it_lost_its_hold)
{
    check_each_kind(stopped, usual);
}

/* ---- a grant that is lost while its thread stands still ---------------------------------------------------------- */

static void take_for_20_ms(void *arg)
{
    *(int64_t *)arg = call_and_wait(a, N, TAKE, 0, 20);
}

/* Two threads are one owner. One is granted the lock and stands still for longer than the lease. Meanwhile the other
 * has an extension under way that nobody answers, and has called for an unlock and the next take. */
static void lost_beside_a_call_under_way(void)
{
    struct lock_call *others[4];
    struct process still;
    struct fibre *thread;
    int64_t result = 1;

    process_init(&still, "still", p->process.clock_base, 0); /* stops alone, and is of p otherwise */
    a->blocking = a->crowd = true;
    app_disturb(p, 200 * RDL__MS);
    others[0] = begin(a, TAKE, 0, 1000);
    others[1] = begin(a, RELEASE, 0, 0);
    thread = fibre_start(&still, take_for_20_ms, &result); /* queued behind these, so the loop drives it */
    fibre_sleep(RDL__US);
    process_stop(&still);
    others[2] = begin(a, EXTEND, 0, 1000);
    fibre_sleep(5 * ONE_WAY + ONE_WAY / 2);
    net_hold(net_nth(&p->process, LOOP_LANE), UP, world_now() + 40 * RDL__MS);
    pass_ms(30);
    must(others[1]->done && hold_state(a, N) == RDL_LOST, "it was granted, and is lost");
    must_answer(end(others[1]), RDL_OK, "the unlock before it");
    others[1] = begin(a, RELEASE, 0, 0);
    others[3] = begin(a, TAKE, 0, 1000);
    process_go(&still);
    pass_ms(1);
    must_answer(result, RDL_ELOST, "who was granted it");
    must(!others[2]->done, "it does not wait for the extension");
    must_answer(end(others[0]), RDL_OK, "the first take");
    must_answer(end(others[2]), RDL_ELOST, "the extension");
    must_answer(end(others[1]), RDL_ELOST, "the unlock");
    must_answer(end(others[3]), RDL_OK, "the next take");
    pass_ms(10);
    must(hold_state(a, N) == RDL_HELD && !is_free(), "the next hold is not given back");
    fibre_join(thread);
}

Test(directed, N15_a_grant_that_is_lost_waits_for_nobody_and_takes_back_no_later_hold)
{
    check_each_kind(lost_beside_a_call_under_way, usual);
}

/* ---- renewals beside a release ----------------------------------------------------------------------------------- */

static void take_blocking(void *arg)
{
    (void)arg;
    must_answer(call_and_wait(a, N, TAKE, 2000, RDL_LEASE_AUTO), RDL_OK, "the take");
}

static void release_blocking(void *arg)
{
    (void)arg;
    must_answer(call_and_wait(a, N, RELEASE, 0, 0), RDL_OK, "the release");
}

/* Undos carry their script, which the socket of the loop's lane takes piece by piece. The renewal is sent behind some
 * of them; before it has left the process the release is sent by another lane, and is there first. */
static void renewal_in_a_full_socket(void)
{
    struct caller *hasty = caller_join(p, false);

    a->blocking = true;
    fibre_join(fibre_start(&p->process, take_blocking, NULL));
    pass_ms(34);
    for (int i = 0; i < 8; i++) {
        struct lock_call *take = begin_at(hasty, M, TAKE, 1000, 1000);

        pass_ms(1);
        cancel_call(take);
        must_answer(end(take), RDL_ECANCELED, "a take that is given up");
    }
    pass_ms(10); /* the renewal is sent by now */
    fibre_join(fibre_start(&p->process, release_blocking, NULL));
    must(is_free(), "the release is there");
    pass_ms(100); /* and the renewal */
    (void)process_enter(&p->process);
    caller_leave(hasty);
    (void)process_enter(NULL);
}

Test(directed, W9_a_renewal_that_is_sent_before_its_release_may_arrive_after_it)
{
    check_schedule(
        &(struct schedule){.kind = "reentrant", .steps = renewal_in_a_full_socket, .two_names = true, .room = 1000});
}

static void release_that_is_answered_late(void)
{
    a->blocking = true;
    fibre_join(fibre_start(&p->process, take_blocking, NULL));
    net_hold(net_last(&p->process), DOWN, world_now() + 60 * RDL__MS);
    fibre_join(fibre_start(&p->process, release_blocking, NULL));
}

/* The checkers see it. */
Test(directed, W9_nothing_is_renewed_while_its_release_waits_for_an_answer)
{
    check_each_kind(release_that_is_answered_late, usual);
}

/* ---- a server that is not there --------------------------------------------------------------------------------- */

static void in_time(int64_t wait_ms, int64_t bound_ms, int64_t expected, const char *what)
{
    int64_t began = world_now();

    must_answer(do_it(a, TAKE, wait_ms, 1000), expected, what);
    must(world_now() - began <= bound_ms * RDL__MS + RDL__MS, "it answers in time");
}

static void server_down(void)
{
    app_disturb(NULL, 2000 * RDL__MS);
    server_crash();
    pass_ms(5);
    in_time(50, 50, RDL_ECONN, "a take with the server down");
    server_restart(false);
    pass_ms(100);
    process_stop(server_process());
    in_time(50, 50, RDL_EUNKNOWN, "a take with the server silent");
    in_time(0, sim.options.command_timeout_ms, RDL_EUNKNOWN, "a single try with the server silent");
    process_go(server_process());
    pass_ms(300);
    must(is_free(), "nothing is left");
    in_time(50, 50, RDL_OK, "a take with the server back");
}

Test(directed, X1_deadlines_hold_with_the_server_down_or_silent)
{
    check_each_kind(server_down, usual);
}
