/* SPDX-License-Identifier: MIT */
/* schedules.h - for Criterion programs that run schedules, each exactly so.
 *
 * A schedule is straight-line code in a fibre of no process: it lets callers of two processes begin verbs, lets time
 * pass, and makes the fault happen at its moment. Round trips take 2 ms, leases of RDL_LEASE_AUTO 150 ms, and every
 * checker of the random runs looks on. Names of tests begin with the id of their schedule.
 */
#ifndef TESTS_SIM_SCHEDULES_H
#define TESTS_SIM_SCHEDULES_H

#include "tests/sim/apps.h"
#include "tests/sim/checks.h"
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define ONE_WAY RDL__MS
#define LOCAL_AFTER_MS 60
#define N 0 /* the one name */
#define M 1 /* and in some schedules another */

/* Connections of a process in the order in which they are made: the loop's own, then the subscriber's. */
enum { LOOP_LANE, SUBSCRIBER };

struct schedule {
    const char *kind;
    void (*steps)(void);
    struct server_traits traits;
    bool unfenced; /* else with tokens */
    bool two_names;
    bool unconfirmed;          /* nobody waits for the answer to a blocking release */
    int64_t offset;            /* for schedules that are run again and again, each time somewhat later */
    int64_t watchdog_lease_ms; /* 0: the usual */
    size_t room;               /* bytes that a socket takes before it is full; 0: it never is */
    rdl_outage_t outage;       /* of the lock; RDL_OUTAGE_DEFAULT: there is none */
    unsigned second_host;      /* q's */
};

static const struct schedule *schedule;
static struct app *p, *q;
static struct caller *a, *b, *c; /* a of p; b and c of q */

/* ---- what schedules are made of --------------------------------------------------------------------------------- */

static inline void pass_ms(int64_t ms)
{
    fibre_sleep(ms * RDL__MS);
}

static inline struct lock_call *begin_at(struct caller *caller, size_t name, enum verb verb, int64_t wait_ms,
                                         int64_t lease_ms)
{
    struct process *before = process_enter(&caller->app->process);
    struct lock_call *call = begin_call(caller, name, verb, wait_ms, lease_ms);

    (void)process_enter(before);
    return call;
}

static inline struct lock_call *begin(struct caller *caller, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    return begin_at(caller, N, verb, wait_ms, lease_ms);
}

static inline int64_t end(struct lock_call *call)
{
    int64_t result = end_call(call);

    return result;
}

static inline int64_t do_it(struct caller *caller, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    return end(begin(caller, verb, wait_ms, lease_ms));
}

static inline void must(bool holds, const char *claim)
{
    if (!holds)
        violated("the schedule goes as it should", "%s", claim);
}

static inline void must_answer(int64_t result, int64_t expected, const char *what)
{
    if (result != expected)
        violated("the schedule goes as it should", "%s answers %lld", what, (long long)result);
}

static inline bool is_free(void)
{
    const char *field;
    size_t len;

    return !shown(&sim.names[N], &field, &len);
}

static inline int64_t ask(struct reply *reply)
{
    int64_t answer = reply->kind == REPLY_INTEGER  ? reply->integer
                     : reply->kind == REPLY_STRING ? reply->text[0] - '0'
                                                   : -1;

    reply_free(reply);
    return answer;
}

static inline void on_cut(const struct process *owner)
{
    app_disturb(owner == &p->process ? p : q, 100 * RDL__MS);
}

static inline void open_it(void *arg)
{
    app_open(arg);
}

static inline void close_it(void *arg)
{
    app_close(arg);
}

static int64_t scripts_ran;

static inline void count_script(const struct ran *ran)
{
    scripts_ran += ran->script != NULL;
}

static const struct check check_count = {.ran = count_script};

/* Those of the random runs, and the count. */
static inline const struct check *const *all_checks(void)
{
    const struct check *const *usual_checks = schedule->outage == RDL_OUTAGE_DEFAULT ? lock_checks : outage_checks;
    static const struct check *all[16];
    size_t n = 0;

    while (usual_checks[n] != NULL) {
        all[n] = usual_checks[n];
        n++;
    }
    all[n] = &check_count;
    return all;
}

static inline void set_up(void)
{
    const struct net_config net = {.delay_ns = ONE_WAY,
                                   .late_of_16 = 16,
                                   .late_ns = 300 * RDL__MS,
                                   .room = schedule->room == 0 ? 1 << 20 : schedule->room,
                                   .on_cut = on_cut};

    server_begin(&schedule->traits, 0);
    net_begin(&net);
    sim_begin();
    if (schedule->watchdog_lease_ms != 0)
        sim.options.watchdog_lease_ms = schedule->watchdog_lease_ms;
    sim.outages = schedule->outage != RDL_OUTAGE_DEFAULT;
    sim.leaves = schedule->unconfirmed;
    sim.options.local_after_ms = LOCAL_AFTER_MS;
    sim_name("N", kind_named(schedule->kind), !schedule->unfenced)->outage = schedule->outage;
    if (schedule->two_names)
        (void)sim_name("M", kind_named(schedule->kind), !schedule->unfenced);
    p = sim_app(0);
    q = sim_app(0);
    q->host = schedule->second_host;
    checks_begin(all_checks());
    fibre_join(fibre_start(&p->process, open_it, p));
    fibre_join(fibre_start(&q->process, open_it, q));
    a = caller_join(p, false);
    b = caller_join(q, false);
    c = caller_join(q, false);
}

static inline void tear_down(void)
{
    struct caller *const all[] = {a, b, c};

    pass_ms(500);
    fibre_sleep(sim_linger_ns());
    checks_at_rest();
    if (p->dead)
        app_bury(p);
    for (size_t i = 0; i < 3; i++) {
        while (!all[i]->app->dead && all[i]->holds[N].granted > 0)
            (void)do_it(all[i], RELEASE, 0, 0);
        (void)process_enter(&all[i]->app->process);
        caller_leave(all[i]);
        (void)process_enter(NULL);
    }
    fibre_join(fibre_start(&p->process, close_it, p));
    fibre_join(fibre_start(&q->process, close_it, q));
    pass_ms(2000);
    checks_at_end();
}

static inline void whole_schedule(void *arg)
{
    (void)arg;
    set_up();
    schedule->steps();
    tear_down();
}

static inline void check_schedule(const struct schedule *what)
{
    bool over;
    char broken[512] = "";
    size_t len;
    const char *story;

    schedule = what;
    world_trace(TRACE_KEPT);
    world_begin(1);
    world_limit(100 * 3600 * RDL__SEC);
    over = world_run(whole_schedule, NULL);
    if (world_violation() != NULL)
        (void)snprintf(broken, sizeof broken, "%s", world_violation());
    story = world_story(&len);
    cr_assert(over && broken[0] == '\0', "%s (offset %lld us)\n%.*s", broken, (long long)(what->offset / RDL__US),
              (int)len, story);
    sim_end();
    server_end();
    net_end();
    world_end();
}

/* The same for each type. */
static inline void check_each_kind(void (*fn)(void), struct server_traits traits)
{
    for (size_t i = 0; i < kind_count; i++)
        check_schedule(&(struct schedule){.kind = kinds[i].name, .steps = fn, .traits = traits});
}

/* The same at many moments, a twentieth of a way apart. */
static inline void check_at_each(void (*fn)(void), int64_t from, int64_t to)
{
    for (int64_t offset = from; offset <= to; offset += ONE_WAY / 20)
        for (size_t i = 0; i < kind_count; i++)
            check_schedule(&(struct schedule){.kind = kinds[i].name, .steps = fn, .offset = offset});
}

static const struct server_traits usual = {.old = false};
static const struct server_traits no_kill = {.kill_refused = true};

#endif
