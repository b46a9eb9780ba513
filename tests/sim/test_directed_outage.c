/* SPDX-License-Identifier: MIT */
/* test_directed_outage.c - every order of an outage, a return and a crash, for locks that the host alone may know of
 * (protocol.md, 10). Those who look on are check_outage.c's, too.
 */
#include "tests/sim/schedules.h"

#define RESTORE_MS 260 /* the server has a hold of the host's alone by then */

static void go_away(void)
{
    app_disturb(NULL, 100000 * RDL__MS);
    p->away_since = q->away_since = world_now();
    server_crash();
}

/* What was left in the air has settled in 50 ms. */
static void is_back(void)
{
    p->calm_from = q->calm_from = world_now() + 50 * RDL__MS;
    p->away_since = q->away_since = 0;
}

static void come_back(bool empty)
{
    server_restart(empty);
    if (empty)
        excuse_all("the server came back empty");
    is_back();
}

static void must_be(struct caller *caller, rdl_hold_state_t state, const char *claim)
{
    must(hold_state(caller, N) == state, claim);
}

static void take_alone(struct caller *caller)
{
    must_answer(do_it(caller, TAKE, 1000, RDL_LEASE_AUTO), RDL_OK, "the take without a server");
    must_be(caller, RDL_DEGRADED, "it is the host's alone");
}

static const char *const names[] = {"reentrant", "nonreentrant", "simple", "spin", "fenced"};

/* Each type that the host alone may know of. */
static void check_alone(void (*fn)(void), struct schedule like)
{
    like.steps = fn;
    like.outage = RDL_OUTAGE_LOCAL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        like.kind = names[i];
        check_schedule(&like);
    }
}

#define CHECK_ALONE(fn, ...) check_alone((fn), (struct schedule){__VA_ARGS__})

/* ---- one host ---------------------------------------------------------------------------------------------------- */

static void before_the_take(void)
{
    go_away();
    pass_ms(5);
    take_alone(a);
    must_answer(do_it(b, TAKE, 0, RDL_LEASE_AUTO), RDL_ETIMEDOUT, "another process's try");
    must_answer(do_it(b, TAKE, 300, RDL_LEASE_AUTO), RDL_ETIMEDOUT, "and its wait");
    come_back(false);
    pass_ms(RESTORE_MS);
    must_be(a, RDL_HELD, "it is held at the server");
    must(shows(&sim.names[N], a->holds[N].field), "which knows of it");
    must_answer(do_it(b, TAKE, 0, RDL_LEASE_AUTO), RDL_ETIMEDOUT, "another process's try");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must(is_free(), "nothing is left");
    must_answer(do_it(b, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the next take");
}

Test(directed, N14_outage_before_the_take)
{
    CHECK_ALONE(before_the_take, .offset = 0);
}

/* A take of who has it already is asked of a server that is not there, or hangs, and waits without end. */
static void nested_during_the_hold(void)
{
    struct lock_call *nested;
    bool hangs = schedule->offset != 0;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    app_disturb(NULL, 100000 * RDL__MS);
    p->away_since = q->away_since = world_now();
    if (hangs)
        process_stop(server_process());
    else
        server_crash();
    nested = begin(a, TAKE, RDL_WAIT_FOREVER, RDL_LEASE_AUTO);
    while (hold_state(a, N) == RDL_HELD)
        pass_ms(1);
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    must_answer(end(nested), RDL_OK, "the nested take, as one that begins now");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "its release");
    must_be(a, RDL_DEGRADED, "the outer hold is there");
    if (hangs)
        process_go(server_process());
    else
        server_restart(false);
    is_back();
    p->calm_from = q->calm_from = world_now() + RDL__SEC;
    pass_ms(2 * RESTORE_MS);
    must_be(a, RDL_HELD, "it is held at the server");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must(is_free(), "nothing is left");
}

Test(directed, N14_nested_take_that_was_asked_before_its_hold_is_the_hosts_alone)
{
    static const char *const nesting[] = {"reentrant", "spin", "fenced"};

    for (size_t i = 0; i < 2 * sizeof nesting / sizeof *nesting; i++)
        check_schedule(&(struct schedule){.kind = nesting[i / 2],
                                          .steps = nested_during_the_hold,
                                          .outage = RDL_OUTAGE_LOCAL,
                                          .offset = (int64_t)(i % 2)});
}

static bool empty;

static void during_the_hold(void)
{
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    fibre_sleep(schedule->offset);
    go_away();
    pass_ms(sim.options.watchdog_lease_ms * 2);
    must_be(a, RDL_DEGRADED, "the hold is not lost");
    must_answer(do_it(b, TAKE, 0, RDL_LEASE_AUTO), RDL_ETIMEDOUT, "another process's try");
    come_back(empty);
    pass_ms(RESTORE_MS);
    must_be(a, RDL_HELD, "it is held at the server");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must(is_free(), "nothing is left");
}

Test(directed, N14_outage_during_the_hold, .timeout = 120)
{
    for (int64_t offset = 0; offset < 60 * RDL__MS; offset += 7 * RDL__MS) {
        empty = !empty;
        CHECK_ALONE(during_the_hold, .offset = offset);
    }
}

/* The other process reaches the server first, and must not have it. */
static void returns_while_held(void)
{
    struct lock_call *rival;

    go_away();
    pass_ms(5);
    take_alone(a);
    rival = begin(b, TAKE, 5000, RDL_LEASE_AUTO);
    net_partition(&p->process, world_now() + 600 * RDL__MS);
    come_back(true);
    p->calm_from = world_now() + 1000 * RDL__MS;
    pass_ms(500);
    must(is_free() && !rival->done, "who waits on the host does not ask the server");
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    pass_ms(1000);
    must_be(a, RDL_HELD, "it is held at the server");
    must(!rival->done, "who waits goes on waiting");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(end(rival), RDL_OK, "who waited");
    must_be(b, RDL_HELD, "it has it at the server");
}

Test(directed, N14_return_while_held_and_another_process_reaches_the_server_first)
{
    CHECK_ALONE(returns_while_held, .offset = 0);
}

/* The release meets the return, and the offer to the server, at each moment. */
static void released_about_the_return(void)
{
    struct lock_call *rival;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    go_away();
    pass_ms(sim.options.watchdog_lease_ms * 2 / 3 + 15);
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    rival = begin(b, TAKE, 5000, RDL_LEASE_AUTO);
    come_back(false);
    p->calm_from = q->calm_from = world_now() + schedule->offset + 50 * RDL__MS;
    fibre_sleep(schedule->offset);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must_answer(end(rival), RDL_OK, "who waited");
    pass_ms(RESTORE_MS);
    must_be(b, RDL_HELD, "it has it at the server");
    must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "its release");
    pass_ms(20);
    must(is_free(), "nothing is left");
}

Test(directed, N14_return_while_it_is_given_back, .timeout = 120)
{
    for (int64_t offset = 0; offset <= 220 * RDL__MS; offset += 1370 * RDL__US)
        CHECK_ALONE(released_about_the_return, .offset = offset);
}

/* ---- crashes ----------------------------------------------------------------------------------------------------- */

static void crashes_alone(void)
{
    struct lock_call *rival;

    go_away();
    pass_ms(5);
    take_alone(a);
    rival = begin(b, TAKE, 5000, RDL_LEASE_AUTO);
    pass_ms(100);
    must(!rival->done, "who waits goes on waiting");
    app_crash(p);
    must_answer(end(rival), RDL_OK, "who waited");
    must_be(b, RDL_DEGRADED, "it is the host's alone");
    come_back(false);
    pass_ms(RESTORE_MS);
    must_be(b, RDL_HELD, "it has it at the server");
}

Test(directed, N14_crash_while_the_host_alone_knows)
{
    CHECK_ALONE(crashes_alone, .offset = 0);
}

/* From before the return to after the server has the hold: who comes in after the dead has it for good. */
static void crashes_about_the_return(void)
{
    struct lock_call *rival;
    int64_t before = 20 * RDL__MS;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    go_away();
    pass_ms(sim.options.watchdog_lease_ms * 2 / 3 + 15);
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    rival = begin(b, TAKE, 5000, RDL_LEASE_AUTO);
    if (schedule->offset < before) {
        fibre_sleep(schedule->offset);
        app_crash(p);
        fibre_sleep(before - schedule->offset);
        come_back(false);
    } else {
        fibre_sleep(before);
        come_back(false);
        fibre_sleep(schedule->offset - before);
        app_crash(p);
    }
    q->calm_from = world_now() + 500 * RDL__MS; /* what the dead has left is over */
    must_answer(end(rival), RDL_OK, "who waited");
    pass_ms(RESTORE_MS + 450);
    must_be(b, RDL_HELD, "it has it at the server");
    must(!b->holds[N].told, "nothing was lost");
    must_answer(do_it(b, RELEASE, 0, 0), RDL_OK, "its release");
}

Test(directed, N14_crash_about_the_return, .timeout = 120)
{
    for (int64_t offset = 0; offset <= 260 * RDL__MS; offset += 3170 * RDL__US)
        CHECK_ALONE(crashes_about_the_return, .offset = offset);
}

/* Killed while the server has its hold, which is away, and back before the lease is over there. */
static void refused_by_the_dead(void)
{
    struct lock_call *rival;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    pass_ms(5);
    go_away();
    rival = begin(b, TAKE, 5000, RDL_LEASE_AUTO);
    app_crash(p);
    must_answer(end(rival), RDL_OK, "who waited");
    must_be(b, RDL_DEGRADED, "it is the host's alone");
    must(!is_free(), "the server has the hold of the dead");
    come_back(false);
    q->calm_from = world_now() + 2 * RDL__SEC;
    while (hold_state(b, N) == RDL_DEGRADED)
        pass_ms(1);
    must_be(b, RDL_HELD, "it has it at the server");
    must(!b->holds[N].told, "nothing was lost");
}

Test(directed, N14_return_with_what_the_dead_has_left)
{
    CHECK_ALONE(refused_by_the_dead, .watchdog_lease_ms = 600);
}

/* ---- what the server has of it ----------------------------------------------------------------------------------- */

/* Nobody knows whether the extension has run. */
static void released_after_an_extension_in_doubt(void)
{
    struct lock_call *extension;

    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    app_disturb(NULL, 200 * RDL__MS);
    net_hold(net_nth(&p->process, LOOP_LANE), DOWN, world_now() + 100 * RDL__MS);
    extension = begin(a, EXTEND, 0, 20000);
    pass_ms(10);
    go_away();
    (void)end(extension);
    pass_ms(sim.options.watchdog_lease_ms);
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    pass_ms(3 * sim.options.watchdog_lease_ms);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    must(!is_free(), "the server has it");
    come_back(false);
    pass_ms(50);
    must(is_free(), "it is released there");
}

Test(directed, N14_what_the_server_has_for_long_is_released_when_it_is_back)
{
    CHECK_ALONE(released_after_an_extension_in_doubt, .offset = 0);
}

/* The server hangs, with a renewal on its way, and goes on just before the lease is over there. */
static void released_after_a_late_renewal(void)
{
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    pass_ms(10);
    app_disturb(NULL, 100000 * RDL__MS);
    p->away_since = q->away_since = world_now();
    process_stop(server_process());
    while (hold_state(a, N) != RDL_DEGRADED)
        pass_ms(1);
    pass_ms(30);
    process_go(server_process());
    pass_ms(2);
    is_back();
    p->calm_from = world_now() + 2 * RDL__SEC;
    net_partition(&p->process, world_now() + 135 * RDL__MS);
    pass_ms(134);
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    must(!is_free(), "the server has had its renewal after that");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
    pass_ms(4);
    must(is_free(), "it is released there");
}

Test(directed, N14_return_with_a_renewal_that_runs_late)
{
    CHECK_ALONE(released_after_a_late_renewal, .offset = 0);
}

/* It is offered to a server that hangs. Where connections cannot be killed, what undoes that is repeated later, and
 * must not meet the hold. */
static void offered_in_vain(void)
{
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    pass_ms(10);
    app_disturb(NULL, 100000 * RDL__MS);
    p->away_since = q->away_since = world_now();
    process_stop(server_process());
    pass_ms(3 * sim.options.watchdog_lease_ms);
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    process_go(server_process());
    is_back();
    p->calm_from = q->calm_from = world_now() + RDL__SEC;
    pass_ms(2 * RESTORE_MS);
    must_be(a, RDL_HELD, "it is held at the server");
    pass_ms(5000);
    must_be(a, RDL_HELD, "and stays so");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
}

Test(directed, N14_return_of_a_server_that_was_asked_in_vain)
{
    CHECK_ALONE(offered_in_vain, .traits = no_kill);
    CHECK_ALONE(offered_in_vain, .traits = usual, .watchdog_lease_ms = 600);
    CHECK_ALONE(offered_in_vain, .traits = no_kill, .watchdog_lease_ms = 600);
}

/* By its own client, when the server is back and has not been asked yet. */
static void forced(void)
{
    must_answer(do_it(a, TAKE, 0, RDL_LEASE_AUTO), RDL_OK, "the take");
    go_away();
    pass_ms(sim.options.watchdog_lease_ms * 2 / 3 + 20);
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    come_back(false);
    pass_ms(40);
    must_be(a, RDL_DEGRADED, "it still is");
    must_answer(do_it(a, FORCE, 0, 0), 1, "the forced unlock of what the server has");
    must_be(a, RDL_DEGRADED, "what the host alone knows of is none of the server's");
    pass_ms(RESTORE_MS);
    must_be(a, RDL_HELD, "the server has it again");
}

Test(directed, N14_forced_unlock_of_what_is_the_hosts_alone_comes_to_an_end, .timeout = 8)
{
    CHECK_ALONE(forced, .watchdog_lease_ms = 600);
}

/* ---- two hosts --------------------------------------------------------------------------------------------------- */

/* Each has it alone: the server has the last word, and who has the lock there is told that it has. */
static void two_are_alone(void)
{
    struct caller *loser;

    go_away();
    pass_ms(5);
    take_alone(a);
    fibre_sleep(schedule->offset);
    take_alone(b);
    come_back(false);
    p->calm_from = q->calm_from = world_now() + 500 * RDL__MS;
    pass_ms(RESTORE_MS + sim.options.watchdog_lease_ms);
    loser = hold_state(a, N) == RDL_HELD ? b : a;
    must(hold_state(a, N) == RDL_HELD || hold_state(b, N) == RDL_HELD, "one has it at the server");
    must_be(loser, RDL_LOST, "the other has lost it");
    must(loser->holds[N].told, "and was told");
    must_answer(do_it(loser, RELEASE, 0, 0), RDL_ELOST, "its release");
}

Test(directed, N14_return_to_two_hosts_that_were_alone)
{
    for (int64_t offset = 0; offset <= 200 * RDL__MS; offset += 23 * RDL__MS)
        CHECK_ALONE(two_are_alone, .offset = offset, .second_host = 1);
}

/* b has it at the server, which a does not reach. */
static void taken_meanwhile(void)
{
    struct lock_call *next;

    app_disturb(p, 100000 * RDL__MS);
    net_partition(&p->process, world_now() + 400 * RDL__MS);
    must_answer(do_it(a, TAKE, 300, RDL_LEASE_AUTO), RDL_OK, "the take of who is cut off");
    must_be(a, RDL_DEGRADED, "it is the host's alone");
    must_answer(do_it(b, TAKE, 0, schedule->offset), RDL_OK, "the other host's take");
    p->calm_from = world_now() + 1000 * RDL__MS;
    pass_ms(800);
    must_be(a, RDL_LOST, "it is lost");
    must(a->holds[N].told, "and that was told");
    must_be(b, RDL_HELD, "the other host has it");
    next = begin(b, RELEASE, 0, 0);
    must_answer(do_it(a, RELEASE, 0, 0), RDL_ELOST, "the release of what was lost");
    must_answer(end(next), RDL_OK, "the other's release");
    must(is_free(), "nothing is left");
}

/* By one that is renewed, and one with a long lease of its own. */
Test(directed, N14_return_with_anothers_hold)
{
    CHECK_ALONE(taken_meanwhile, .offset = RDL_LEASE_AUTO, .second_host = 1);
    CHECK_ALONE(taken_meanwhile, .offset = 20000, .second_host = 1);
}

/* ---- who waits for the server ------------------------------------------------------------------------------------ */

static void waits_for_the_server(void)
{
    struct lock_call *first, *second;
    int64_t began = world_now();

    go_away();
    pass_ms(5);
    first = begin(a, TAKE, RDL_WAIT_FOREVER, RDL_LEASE_AUTO);
    second = begin(b, TAKE, 300, RDL_LEASE_AUTO);
    must_answer(end(second), RDL_ECONN, "who waits for a while");
    must(world_now() - began >= 305 * RDL__MS, "it has waited for as long");
    pass_ms(5000); /* longer than outage_timeout_ms */
    must(!first->done, "who waits without end does");
    come_back(true);
    must_answer(end(first), RDL_OK, "it has the lock");
    must_answer(do_it(a, RELEASE, 0, 0), RDL_OK, "the release");
}

Test(directed, N14_who_waits_for_the_server_waits_for_as_long_as_for_a_holder)
{
    for (size_t i = 0; i < kind_count; i++)
        check_schedule(
            &(struct schedule){.kind = kinds[i].name, .steps = waits_for_the_server, .outage = RDL_OUTAGE_WAIT});
}
