/* SPDX-License-Identifier: MIT */
/* plan.c - random runs.
 *
 * Scale: a round trip takes 0.2 to 12 ms, calls and leases last tens to hundreds of them, and a run is a few dozen
 * calls within some hundred milliseconds, so that much happens at once. Nothing goes wrong in a quarter of the runs:
 * there the checkers are strictest. Faults end before the run does; then everybody must come through.
 *
 * What the runs are about is a struct workload: the locks' is here. To add a fault: a function and a row in `faults`.
 * It says whom it disturbs, and for how long.
 */
#include "tests/sim/plan.h"

#include "tests/sim/apps.h"
#include "tests/sim/checks.h"
#include "tests/sim/mishaps.h"
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/sim/workload.h"
#include "tests/sim/world.h"
#include "tests/support/wait.h"

#include <string.h>

#define SPAN_NS (400 * RDL__MS) /* when faults happen */
#define LONGEST_LEASE_MS 3000
#define LONGEST_STEP_NS (20 * RDL__SEC)
#define MOST_FAULTS 6

/* ---- faults ----------------------------------------------------------------------------------------------------- */

static struct app *any_app(void)
{
    struct app *app = &sim.apps[draw(sim.app_count)];

    return app->dead || app->ending || app->process.stopped ? NULL : app;
}

/* And its successor soon after: what the first one owed is still owed. */
static void cut_twice(void)
{
    struct conn *conn = net_any(NULL);
    const struct process *process;

    if (conn == NULL)
        return;
    process = net_owner(conn);
    net_cut(conn);
    fibre_sleep((int64_t)draw((uint64_t)(2 * net_connect_time())));
    if ((conn = net_last(process)) != NULL)
        net_cut_after(conn, UP, draw(120));
}

#define LOOKS 50 /* for a moment in which something is on its way: so many, and so far apart */
#define LOOK_NS (200 * RDL__US)

static struct conn *one_that_carries(void)
{
    struct conn *conn = net_carrying();

    for (size_t i = 0; conn == NULL && i < LOOKS; i++) {
        fibre_sleep(LOOK_NS);
        conn = net_carrying();
    }
    return conn;
}

static void cancel_all(struct app *app)
{
    struct process *before = process_enter(&app->process);

    for (size_t i = 0; i < sim.caller_count; i++)
        if (sim.callers[i].app == app)
            cancel_caller(&sim.callers[i]);
    (void)process_enter(before);
}

/* A request is left on its way, and whoever sent it gives up before there is another connection: the undo is the first
 * thing that goes over that one. */
static void cut_and_cancel(void)
{
    struct conn *conn = one_that_carries();
    struct app *app;

    if (conn == NULL)
        return;
    app = app_that_owns(net_owner(conn));
    net_cut(conn);
    fibre_sleep((int64_t)draw((uint64_t)(net_connect_time())));
    if (!app->dead && !app->ending && !app->process.stopped)
        cancel_all(app);
}

static void hold_up(void)
{
    struct conn *conn = net_any(NULL);
    int64_t ns = draw_ms(1, 150);

    if (conn == NULL)
        return;
    app_disturb(app_that_owns(net_owner(conn)), ns + sim_find_out_ns());
    net_hold(conn, chance(1, 2) ? UP : DOWN, world_now() + ns);
}

static void cut_off(void)
{
    struct app *app = any_app();
    int64_t ns = draw_ms(1, 200);

    if (app == NULL)
        return;
    app_disturb(app, ns + sim_find_out_ns());
    net_partition(&app->process, world_now() + ns);
}

static void stop_app(void)
{
    struct app *app = any_app();
    int64_t ns = draw_ms(1, 400);

    if (app == NULL)
        return;
    say("%s is stopped for %.3f ms", app->process.name, (double)ns / (double)RDL__MS);
    app_disturb(app, ns + sim_settle_ns());
    process_stop(&app->process);
    fibre_sleep(ns);
    if (app->process.stopped && !app->dead)
        process_go(&app->process);
}

static void crash_app(void)
{
    struct app *app = any_app();

    if (app != NULL)
        app_crash(app);
}

static void close_now(void *arg)
{
    app_close(arg);
}

static void close_app(void)
{
    struct app *app = any_app();

    if (app != NULL && app->client != NULL)
        fibre_join(fibre_start(&app->process, close_now, app));
}

static void stop_server(void)
{
    int64_t ns = draw_ms(1, 300);

    if (!server_up())
        return;
    say("the server is stopped for %.3f ms", (double)ns / (double)RDL__MS);
    app_disturb(NULL, ns + sim_find_out_ns());
    process_stop(server_process());
    fibre_sleep(ns);
    process_go(server_process());
}

static void crash_server(void)
{
    int64_t ns = draw_ms(0, 100);
    bool empty = chance(1, 3);

    if (!server_up())
        return;
    app_disturb(NULL, ns + sim_find_out_ns());
    server_crash();
    fibre_sleep(ns);
    server_restart(empty);
    if (empty)
        excuse_all("the server came back empty");
}

static void flush_scripts(void)
{
    say("scripts are flushed");
    server_flush_scripts();
}

static void flush_keys(void)
{
    server_flush_keys();
    excuse_all("the keys were flushed");
}

static int64_t nudged_at; /* in this run; -1: not yet */

/* Within the allowance, which the rates of the clocks leave room for, once a lease: nothing is excused. */
static void nudge_clock(void)
{
    if (nudged_at >= 0 && world_now() - nudged_at <= LONGEST_LEASE_MS * RDL__MS)
        return;
    nudged_at = world_now();
    server_step_clock(draw_from(0, RDL__MS));
}

static void step_clock(void)
{
    int64_t ns = draw_from(-LONGEST_STEP_NS, LONGEST_STEP_NS);

    server_step_clock(chance(1, 2) ? ns : ns / 1000);
    excuse_all("the server's clock was stepped");
}

static const struct fault faults[] = {
    {fault_cut, 6},    {cut_and_cancel, 6}, {fault_cut_after, 12}, {cut_twice, 6},   {hold_up, 6},
    {cut_off, 4},      {stop_app, 5},       {crash_app, 2},        {close_app, 2},   {stop_server, 4},
    {crash_server, 4}, {flush_scripts, 2},  {flush_keys, 1},       {nudge_clock, 2}, {step_clock, 1},
};

static const struct workload *workload; /* the run's */

static void one_fault(void *arg)
{
    (void)arg;
    if (workload->faults != NULL && chance(1, 2))
        fault_strikes(workload->faults, workload->fault_count, SPAN_NS);
    else
        fault_strikes(faults, sizeof faults / sizeof faults[0], SPAN_NS);
}

/* ---- what callers do -------------------------------------------------------------------------------------------- */

bool goes_on(const struct caller *caller)
{
    return !caller->app->dead && !caller->app->ending;
}

/* Who holds one lock does not wait for ever for another: that would be the callers' deadlock, not the library's. */
static bool holds_another(const struct caller *caller, size_t end)
{
    for (size_t n = 0; n < MOST_ENDS; n++)
        if (name_at(n) != name_at(end) && caller->holds[n].granted > 0)
            return true;
    return false;
}

static int64_t any_wait(const struct caller *caller, size_t end)
{
    int64_t wait_ms = draw_wait_ms();

    if (wait_ms >= 0)
        return wait_ms;
    return holds_another(caller, end) ? draw_from(20, 200) : RDL_WAIT_FOREVER;
}

static int64_t any_lease(void)
{
    switch (draw(16)) {
    case 0:
        return draw_from(1, 8);
    case 1:
    case 2:
    case 3:
        return draw_from(20, 60);
    case 4:
    case 5:
    case 6:
    case 7:
        return draw_from(100, 400);
    case 8:
        return draw_from(1000, LONGEST_LEASE_MS);
    default:
        return RDL_LEASE_AUTO;
    }
}

/* How a caller asks for a lock. */
struct terms {
    int64_t lease_ms, wait_ms;
};

static struct terms any_terms(const struct caller *caller, size_t end)
{
    struct terms terms;

    terms.lease_ms = any_lease();
    terms.wait_ms = any_wait(caller, end);
    return terms;
}

static void take(struct caller *caller, size_t end)
{
    struct terms terms = any_terms(caller, end);

    (void)call_and_wait(caller, end, TAKE, terms.wait_ms, terms.lease_ms);
}

static void on_cancellation(struct event *e)
{
    cancel_caller(rdl__container(e, struct cancellation, event)->caller);
}

void cancellation_begin(struct cancellation *c, struct caller *caller)
{
    c->caller = caller;
    event_init(&c->event, on_cancellation, &caller->app->process);
    event_at(&c->event, world_now() + draw_ms(0, 60));
}

void cancellation_end(struct cancellation *c)
{
    event_off(&c->event);
}

/* Somebody else cancels whatever the caller has under way. */
static void take_and_be_canceled(struct caller *caller, size_t end)
{
    struct cancellation c;

    cancellation_begin(&c, caller);
    take(caller, end);
    cancellation_end(&c);
}

static void take_and_cancel(struct caller *caller, size_t end)
{
    struct terms terms = any_terms(caller, end);
    struct lock_call *call = begin_call(caller, end, TAKE, terms.wait_ms, terms.lease_ms);

    fibre_sleep(draw_ms(0, 20));
    cancel_call(call);
    (void)end_call(call);
}

/* Several verbs are called before the first is answered. */
static void do_at_once(struct caller *caller, size_t end)
{
    static const enum verb usual[] = {TAKE, RELEASE, TAKE, EXTEND, RELEASE, RELEASE};
    struct lock_call *calls[6];
    size_t count = 2 + draw(5);

    for (size_t i = 0; i < count; i++) {
        struct terms terms = {.lease_ms = usual[i] == EXTEND ? 200 : any_lease()};

        terms.wait_ms = any_wait(caller, end);
        calls[i] = begin_call(caller, end, usual[i], terms.wait_ms, terms.lease_ms);
    }
    for (size_t i = 0; i < count; i++)
        (void)end_call(calls[i]);
}

static void take_any_way(struct caller *caller, size_t end)
{
    unsigned way = (unsigned)draw(16);

    if (way < 2)
        take_and_be_canceled(caller, end);
    else if (way < 4)
        take_and_cancel(caller, end);
    else if (way < 5)
        do_at_once(caller, end);
    else
        take(caller, end);
}

static void without_a_hold(struct caller *caller, size_t end)
{
    switch (draw(24)) {
    case 0:
        (void)call_and_wait(caller, end, IS_LOCKED, 0, 0);
        break;
    case 1:
        (void)call_and_wait(caller, end, REMAINING, 0, 0);
        break;
    case 2:
        (void)call_and_wait(caller, end, RELEASE, 0, 0);
        break;
    case 3:
        if (chance(1, 4))
            (void)call_and_wait(caller, end, FORCE, 0, 0);
        break;
    default:
        take_any_way(caller, end);
        break;
    }
}

static void with_a_hold(struct caller *caller, size_t end)
{
    if (workload->lasting && chance(1, 3))
        fibre_sleep(draw_ms(0, 1000));
    else
        fibre_sleep(chance(1, 8) ? draw_ms(0, 300) : draw_ms(0, 20));
    if (!goes_on(caller))
        return;
    switch (draw(16)) {
    case 0:
    case 1:
        (void)call_and_wait(caller, end, EXTEND, 0, draw_from(1, 500));
        break;
    case 2:
        (void)call_and_wait(caller, end, IS_LOCKED, 0, 0);
        break;
    case 3:
    case 4:
    case 5:
        take_any_way(caller, end);
        break;
    default:
        (void)call_and_wait(caller, end, RELEASE, 0, 0);
        break;
    }
}

static void give_all_back(struct caller *caller)
{
    for (size_t end = 0; end < MOST_ENDS; end++) {
        if (caller->locks[end] != NULL && chance(1, 32))
            caller_forget(caller, end);
        while (goes_on(caller) && caller->holds[end].count > 0)
            (void)call_and_wait(caller, end, RELEASE, 0, 0);
    }
}

static size_t any_end(void)
{
    size_t end = draw(sim.name_count);

    return name_at(end)->kind->make_shared != NULL && chance(sim.sharers, 8) ? other_end(end) : end;
}

void use_locks(struct caller *caller)
{
    size_t steps = 2 + draw(7);

    for (size_t i = 0; i < steps && goes_on(caller); i++) {
        size_t end = any_end();

        fibre_sleep(chance(1, 8) ? draw_ms(0, 100) : draw_ms(0, 8));
        if (!goes_on(caller))
            break;
        if (caller->holds[end].count > 0)
            with_a_hold(caller, end);
        else
            without_a_hold(caller, end);
    }
    give_all_back(caller);
    caller_leave(caller);
}

static void run_caller(void *arg)
{
    workload->use(arg);
}

static void run_app(void *arg)
{
    struct app *app = arg;
    struct fibre *fibres[MOST_CALLERS];
    size_t count = 1 + draw(3);

    fibre_sleep(chance(1, 4) ? draw_ms(0, 50) : 0);
    app_open(app);
    if (app->client == NULL || app->ending)
        return;
    for (size_t i = 0; i < count; i++)
        fibres[i] = fibre_start(&app->process, run_caller, caller_join(app, chance(1, 2)));
    for (size_t i = 0; i < count; i++)
        fibre_join(fibres[i]);
}

/* Somebody with another library, or none: takes by SET NX PX, and deletes what is still its own. */
static void run_foreigner(void *arg)
{
    struct name *name = arg;

    for (size_t i = 0; i < 3; i++) {
        struct reply *reply;

        fibre_sleep(draw_ms(0, 100));
        if (!server_up())
            continue;
        reply = server_do("SET", name->text, "foreign", "NX", "PX", "60");
        if (reply->kind == REPLY_STATUS) {
            name->foreign_until = world_now() + 58 * RDL__MS;
            fibre_sleep(draw_ms(0, 50));
            if (server_up() && shows(name, "foreign"))
                reply_free(server_do("DEL", name->text));
            name->foreign_until = 0;
        }
        reply_free(reply);
    }
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void draw_world(void)
{
    static const int64_t delays_us[] = {100, 100, 500, 3000};
    int64_t delay_ns = delays_us[draw(4)] * RDL__US;
    struct net_config config = {
        .delay_ns = delay_ns,
        .late_of_16 = 6,
        .lost_of_4 = 1,
        .on_cut = app_cut,
    };
    struct server_traits traits;

    config.jitter_ns = delay_ns / (chance(1, 2) ? 1 : 10);
    config.late_ns = draw_ms(1, 1000);
    config.late_turns = chance(1, 2) ? 4 : 0;
    config.room = delay_ns < RDL__MS && chance(1, 6) ? 300 + draw(1000) : 1 << 20;
    traits.old = chance(1, 16);
    traits.kill_refused = chance(1, 16);
    nudged_at = -1;
    server_begin(&traits, draw_from(0, 4000));
    net_begin(&config);
    sim_begin();
    sim.options.command_timeout_ms = draw_from(70, 140); /* enough for a new connection and two scripts */
    sim.options.watchdog_lease_ms = draw_from(100, 300);
    sim.options.reconnect_max_ms = draw_from(2, 20);
    sim.options.connections = (int32_t)draw_from(1, 2);
    sim.sharers = (unsigned)draw(8);
}

static void draw_locks_of(const struct kind *of, size_t count)
{
    static const char *const texts[MOST_NAMES] = {"orders:42", "{slot}:b", "c"};
    size_t names = chance(3, 4) ? 1 : 1 + draw(MOST_NAMES);
    size_t apps = 1 + draw(3);

    for (size_t i = 0; i < names; i++) {
        bool token = chance(1, 2);

        (void)sim_name(texts[i], &of[draw(count)], token);
    }
    for (size_t i = 0; i < apps; i++)
        (void)sim_app(draw_from(0, 4000));
}

static void draw_locks(void)
{
    draw_locks_of(kinds, kind_count);
}

static void draw_kept_locks(void)
{
    draw_locks_of(kept_kinds, kept_kind_count);
}

/* A stranger uses the first lock, if it is one that strangers know. */
struct fibre *start_stranger(void)
{
    return sim.names[0].kind->plain && chance(1, 4) ? fibre_start(NULL, run_foreigner, &sim.names[0]) : NULL;
}

const struct workload lock_workload = {
    .checks = lock_checks, .draw = draw_locks, .stranger = start_stranger, .use = use_locks};

static const struct workload kept_workload = {.checks = lock_checks, .draw = draw_kept_locks, .use = use_locks};

static void join_all(struct fibre **fibres, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fibre_join(fibres[i]);
}

static void close_all(void)
{
    for (size_t i = 0; i < sim.app_count; i++)
        fibre_join(fibre_start(&sim.apps[i].process, close_now, &sim.apps[i]));
}

static void let_leases_end(void)
{
    if (net_carried_until() > world_now())
        fibre_sleep(net_carried_until() - world_now());
    fibre_sleep((LONGEST_LEASE_MS + 100) * RDL__MS * 102 / 100);
    if (server_stepped_back())
        fibre_sleep(MOST_FAULTS * LONGEST_STEP_NS);
}

/* Crashed apps leave their fibres wherever they were; they come to their ends without the server. */
static void bury_dead(void)
{
    for (size_t i = 0; i < sim.app_count; i++) {
        struct app *app = &sim.apps[i];

        if (!app->dead)
            continue;
        app_bury(app);
        fibre_join(fibre_start(&app->process, close_now, app));
    }
}

static bool leaves; /* of the run: as sim.leaves */

static void run_run(void *arg)
{
    struct fibre *app_fibres[MOST_APPS], *fault_fibres[MOST_FAULTS], *stranger;
    size_t fault_count = chance(1, 4) ? 0 : 1 + draw(MOST_FAULTS);

    (void)arg;
    draw_world();
    workload->draw();
    sim.leaves = leaves;
    checks_begin(workload->checks);
    stranger = workload->stranger != NULL ? workload->stranger() : NULL;
    for (size_t i = 0; i < sim.app_count; i++)
        app_fibres[i] = fibre_start(&sim.apps[i].process, run_app, &sim.apps[i]);
    for (size_t i = 0; i < fault_count; i++)
        fault_fibres[i] = fibre_start(NULL, one_fault, NULL);
    join_all(fault_fibres, fault_count);
    fibre_join(stranger);
    for (size_t i = 0; i < sim.app_count; i++)
        if (!sim.apps[i].dead)
            fibre_join(app_fibres[i]);
    fibre_sleep(sim_find_out_ns() + sim_linger_ns() + (workload->counts_undone ? server_undo_pause() : 0));
    checks_at_rest();
    bury_dead();
    for (size_t i = 0; i < sim.app_count; i++)
        if (sim.apps[i].dead)
            fibre_join(app_fibres[i]);
    close_all();
    let_leases_end();
    checks_at_end();
}

static struct outcome run(const struct workload *about, uint64_t seed)
{
    struct outcome outcome;

    workload = about;
    leaves = seed % 4 == 0;
    world_begin(seed);
    world_limit(600 * RDL__SEC);
    outcome.over = world_run(run_run, NULL);
    outcome.broken = world_violation();
    outcome.operations = sim.call_count;
    outcome.events = world_events();
    sim_end();
    server_end();
    net_end();
    world_end();
    return outcome;
}

struct outcome plan_run(uint64_t seed)
{
    return run(&lock_workload, seed);
}

struct outcome kept_run(uint64_t seed)
{
    return run(&kept_workload, seed);
}

struct outcome pools_run(uint64_t seed)
{
    return run(&pool_workload, seed);
}

struct outcome outage_run(uint64_t seed)
{
    return run(&outage_workload, seed);
}
