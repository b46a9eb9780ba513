/* SPDX-License-Identifier: MIT */
/* plan_outage.c - random runs of locks that outlast outages: their takes wait for the server, or the host's own lock
 * stands in for it (docs/outages.md).
 *
 * There are two to four processes on one host or on two. The server dies and comes back, with its keys or without, or
 * hangs, or a host is cut off; processes die at any moment, and at that of a return.
 */
#include "tests/sim/apps.h"
#include "tests/sim/hosts.h"
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/sim/workload.h"

#include <string.h>

#define LONGEST_OUTAGE_MS 1500

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static int64_t any_outage(void)
{
    return chance(1, 3) ? draw_ms(1, 200) : draw_ms(200, LONGEST_OUTAGE_MS);
}

/* Nobody reaches the server, or nobody of that host. */
static void go_away(unsigned host)
{
    for (size_t i = 0; i < sim.app_count; i++)
        if ((host == MOST_HOSTS || sim.apps[i].host == host) && sim.apps[i].away_since == 0)
            sim.apps[i].away_since = world_now();
}

static void is_back(void)
{
    for (size_t i = 0; i < sim.app_count; i++)
        sim.apps[i].away_since = 0;
}

/* One process dies about when the server is back. */
static void die_about(void *arg)
{
    struct app *app = arg;

    fibre_sleep(draw_ms(0, 40));
    app_crash(app);
}

static struct fibre *somebody_dies(int64_t *outage_ns)
{
    struct app *app = &sim.apps[draw(sim.app_count)];
    int64_t before = draw_ms(0, 20);

    if (!chance(1, 6) || app->dead || app->ending)
        return NULL;
    *outage_ns = before < *outage_ns ? *outage_ns - before : 0;
    return fibre_start(NULL, die_about, app);
}

static void outage(bool dies)
{
    int64_t ns = any_outage();
    bool empty = dies && chance(1, 3);
    struct fibre *mourned;

    if (!server_up())
        return;
    app_disturb(NULL, ns + sim_find_out_ns());
    go_away(MOST_HOSTS);
    if (dies)
        server_crash();
    else
        process_stop(server_process());
    say("the server is away for %.3f ms", (double)ns / (double)RDL__MS);
    fibre_sleep(ns);
    mourned = somebody_dies(&ns);
    if (mourned != NULL)
        fibre_sleep(draw_ms(0, 40));
    if (dies)
        server_restart(empty);
    else
        process_go(server_process());
    is_back();
    if (empty)
        excuse_all("the server came back empty");
    app_disturb(NULL, sim_find_out_ns());
    fibre_join(mourned);
}

static void server_dies(void)
{
    outage(true);
}

static void server_hangs(void)
{
    outage(false);
}

static void host_is_cut_off(void)
{
    unsigned host = sim.apps[draw(sim.app_count)].host;
    int64_t ns = any_outage();

    for (size_t i = 0; i < sim.app_count; i++) {
        struct app *app = &sim.apps[i];

        if (app->host != host)
            continue;
        app_disturb(app, ns + sim_find_out_ns());
        net_partition(&app->process, world_now() + ns);
    }
}

static void process_dies(void)
{
    app_crash(&sim.apps[draw(sim.app_count)]);
}

static const struct fault outages[] = {{server_dies, 6}, {server_hangs, 4}, {host_is_cut_off, 4}, {process_dies, 4}};

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static bool can_be_alone(const struct kind *kind)
{
    return kind->make_shared == NULL && kind->life_ms == 0;
}

static void count(rdl_metric_t metric, int64_t value, void *arg)
{
    (void)arg;
    sim.alone += metric == RDL_M_DEGRADED ? value : 0;
    sim.restored += metric == RDL_M_RESTORED ? value : 0;
}

static void draw_outages(void)
{
    static const char *const texts[MOST_NAMES] = {"orders:42", "{slot}:b", "c"};
    static const rdl_outage_t of_client[] = {RDL_OUTAGE_FAIL, RDL_OUTAGE_WAIT, RDL_OUTAGE_LOCAL};
    size_t names = chance(3, 4) ? 1 : 2, apps = 2 + draw(MOST_APPS - 1);
    unsigned hosts = chance(2, 3) ? 1 : 2;

    sim.outages = true;
    sim.options.on_outage = of_client[draw(3)];
    sim.options.local_after_ms = (2 * net_connect_time() + 4 * net_round_trip()) / RDL__MS + draw_from(20, 160);
    sim.options.outage_timeout_ms = draw_from(150, 2000);
    sim.options.reconnect_max_ms = draw_from(10, 40);
    if (chance(1, 3)) /* what the dead have left outlasts outages */
        sim.options.watchdog_lease_ms = draw_from(500, 1500);
    sim.options.metrics_fn = count;
    for (size_t i = 0; i < names; i++) {
        const struct kind *kind = &kinds[draw(kind_count)];
        bool token = chance(1, 2);
        struct name *name = sim_name(texts[i], kind, token);

        name->outage = can_be_alone(kind) && chance(7, 8) ? RDL_OUTAGE_LOCAL : RDL_OUTAGE_WAIT;
    }
    for (size_t i = 0; i < apps; i++)
        sim_app(draw_from(0, 4000))->host = (unsigned)draw(hosts);
}

const struct workload outage_workload = {.checks = outage_checks,
                                         .draw = draw_outages,
                                         .stranger = start_stranger,
                                         .use = use_locks,
                                         .lasting = true,
                                         .faults = outages,
                                         .fault_count = sizeof outages / sizeof outages[0]};
