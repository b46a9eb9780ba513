/* SPDX-License-Identifier: MIT */
/* check_outage.c - locks that the host alone may know of while there is no server (protocol.md, 10).
 *
 * Of one host nobody joins who holds such a lock, or was told that it is lost and has not unlocked: whatever the server
 * does, forgets or says. Hosts do exclude each other only at the server, so holds of the host's alone are not compared
 * with those of others, but the server has the last word on them, soon.
 */
#include "tests/sim/checks.h"
#include "tests/sim/hosts.h"
#include "tests/sim/net.h"

#include "core/service/schedule.h"
#include "tests/script/keyspace_impl.h"

#include <stdio.h>
#include <string.h>

#define NEWS_NS (2 * RDL__MS)

static bool lives(const struct app *app)
{
    return !app->dead && !app->ending;
}

static bool is_told_of(const struct app *app)
{
    return lives(app) && !app->process.stopped;
}

/* ---- one of a host at a time ------------------------------------------------------------------------------------- */

static void has_host(const struct caller *caller, size_t n, const struct caller *holders[MOST_HOSTS][MOST_NAMES])
{
    const struct app *app = caller->app;
    const struct caller **holder = &holders[app->host][n % MOST_NAMES];

    if (*holder != NULL && *holder != caller)
        violated("one of a host at a time", "%s and %s of host %u have %s", (*holder)->name, caller->name, app->host,
                 name_at(n)->text);
    *holder = caller;
    if (host_lock(app->host, name_at(n)->text).process != &app->process)
        violated("who holds has the host's lock", "%s has %s without it", caller->name, name_at(n)->text);
}

static void hosts_exclude(void)
{
    const struct caller *holders[MOST_HOSTS][MOST_NAMES] = {{NULL}};

    EACH_HOLD(caller, n, h)
    {
        if (is_local(n) && caller->owner != NULL && !caller->app->dead && !caller->crowd)
            has_host(caller, n, holders);
    }
}

static void hosts_at_end(void)
{
    if (hosts_open() != 0)
        violated("nothing is left behind", "%zu descriptors of hosts are open", hosts_open());
}

const struct check check_hosts = {.event = hosts_exclude, .at_end = hosts_at_end};

/* ---- alone, and back at the server ------------------------------------------------------------------------------- */

static void begins_alone(struct caller *caller, size_t n)
{
    struct hold *h = &caller->holds[n];
    struct process *before = process_enter(&caller->app->process);

    if (!is_local(n))
        violated("nobody else is alone", "%s is", caller->name);
    if (app_calm(caller->app, h->called))
        violated("nobody is alone beside a server", "%s has %s", caller->name, name_at(n)->text);
    world_quiet(true);
    if (name_at(n)->token && rdl_owner_token(caller->owner, caller->locks[n], NULL) != RDL_ECONN)
        violated("who is alone has no token", "%s has one of %s", caller->name, name_at(n)->text);
    world_quiet(false);
    (void)process_enter(before);
    h->rivalled = false;
    h->token = 0;
}

static int64_t left_ms(const struct name *name)
{
    const struct key *key = find_key(server_keys(), name->text, strlen(name->text));

    return key == NULL || key->expire_ms == NO_EXPIRY ? 0 : key->expire_ms - ks_time(server_keys()) / 1000;
}

/* Does the server show somebody, but for what this host has left there? Of that, who lives by the lease that he asked
 * for may look like somebody. */
static bool is_rivalled(const struct caller *caller, size_t n)
{
    const char *field;
    size_t len;

    if (!shown(name_at(n), &field, &len))
        return false;
    if (left_ms(name_at(n)) > sim.options.watchdog_lease_ms)
        return true;
    for (size_t i = 0; i < sim.app_count; i++) {
        const char *id = sim.apps[i].id;

        if (sim.apps[i].host == caller->app->host && id[0] != '\0' && len > strlen(id) &&
            memcmp(field, id, strlen(id)) == 0)
            return false;
    }
    return true;
}

/* Offered to the server now and then, unless its owner has a verb under way, and granted once nobody is there. */
static void comes_back(const struct caller *caller, size_t n, struct hold *h)
{
    int64_t bound = (RDL__RESTORE_MS + 10) * RDL__MS + 4 * net_round_trip() + net_connect_time();
    const char *field;
    size_t len;
    int64_t since;

    if (caller->under_way[n] > 0 || shown(name_at(n), &field, &len))
        h->busy_at = world_now();
    since = h->alone_since > h->busy_at ? h->alone_since : h->busy_at;
    if (caller->app->calm_from > since)
        since = caller->app->calm_from;
    if (server_up() && app_calm(caller->app, since) && world_now() - since > bound + world_lag(since))
        violated("who is alone asks the server when it is back", "%s has %s alone for %lld us", caller->name,
                 name_at(n)->text, (long long)((world_now() - since) / RDL__US));
}

static void is_told(const struct caller *caller, size_t n, const struct hold *h)
{
    int64_t since = h->alone_since != 0 ? h->alone_since : h->restored_at;
    rdl_hold_state_t now = h->alone_since != 0 ? RDL_DEGRADED : RDL_HELD;

    if (since == 0 || h->lost_at >= 0 || !is_told_of(caller->app) ||
        (caller->outage_told[n].state == now && strcmp(caller->outage_told[n].id, h->id) == 0))
        return;
    if (caller->app->process.went_on > since)
        since = caller->app->process.went_on;
    if (caller->outage_told[n].at > since) /* it was otherwise in between, for a moment that no check fell into */
        since = caller->outage_told[n].at;
    if (world_now() - since > NEWS_NS + world_lag(since))
        violated("an outage and its end are told", "%s is not told that %s is %s", caller->name, name_at(n)->text,
                 now == RDL_HELD ? "held" : "the host's alone");
}

static void outages(void)
{
    EACH_HOLD(caller, n, h)
    {
        if (!is_local(n) || !lives(caller->app) || caller->crowd)
            continue;
        if (h->alone_since != 0) {
            h->rivalled = h->rivalled || is_rivalled(caller, n);
            comes_back(caller, n, h);
        }
        is_told(caller, n, h);
    }
}

/* Why a hold may end: one that is renewed, and lives, ends for want of a server only where its process stood still. */
static void lost(const struct caller *caller, size_t n, const struct hold *h, const rdl_loss_t *loss)
{
    const struct process *p = &caller->app->process;
    int64_t ns = sim.options.watchdog_lease_ms * RDL__MS;

    if (loss->reason == RDL_LOSS_TAKEN && !h->rivalled)
        violated("who is alone loses it to somebody", "%s has lost %s, which nobody has", caller->name,
                 name_at(n)->text);
    if (loss->reason == RDL_LOSS_LEASE && h->renewed && !p->stopped &&
        (p->went_on == 0 || world_now() - p->went_on > ns))
        violated("a hold that is renewed is not lost in an outage", "%s has lost %s", caller->name, name_at(n)->text);
}

static void told(struct caller *caller, size_t n, const rdl_loss_t *loss)
{
    struct hold *h = &caller->holds[n];

    if (loss->state == RDL_DEGRADED || loss->state == RDL_HELD) {
        caller->outage_told[n].state = loss->state;
        caller->outage_told[n].at = world_now();
        (void)snprintf(caller->outage_told[n].id, FIELD_SIZE, "%s", loss->owner);
    }
    if (h->count == 0 || !is_local(n) || !lives(caller->app))
        return;
    if (loss->state == RDL_LOST && strcmp(h->id, loss->owner) == 0)
        lost(caller, n, h, loss);
}

const struct check check_returning = {.alone = begins_alone, .event = outages, .told = told};

/* ---- who waits --------------------------------------------------------------------------------------------------- */

/* The end of the leases that the server may have told of. */
static void see_lease(struct name *name)
{
    int64_t left = server_up() ? left_ms(name) : 0;

    if (world_now() + left * RDL__MS > name->known_until)
        name->known_until = world_now() + left * RDL__MS;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Without a server for so long, and nobody of the host has its lock but who waits: it is let in. */
static void let_in(const struct lock_call *call)
{
    const struct app *app = call->caller->app;
    struct host_lock lock = host_lock(app->host, name_at(call->end)->text);
    int64_t since = later(later(app->away_since, call->called), later(lock.since, app->process.went_on));
    int64_t bound = (sim.options.local_after_ms + 80) * RDL__MS + net_connect_time() + world_lag(since);

    since = later(since, name_at(call->end)->known_until * 51 / 50 + 2 * RDL__MS);
    if (app->away_since == 0 || !is_told_of(app) || call->queued || call->canceled || world_now() - since <= bound)
        return;
    if (lock.process == NULL)
        violated("who waits looks at the host's lock", "%s does not take it for %s", call->caller->name,
                 name_at(call->end)->text);
    if (lock.process != &app->process)
        return;
    for (size_t i = 0; i < sim.caller_count; i++)
        if (sim.callers[i].app == app &&
            (sim.callers[i].holds[call->end].granted > 0 || sim.callers[i].holds[call->end].forgotten ||
             (&sim.callers[i] != call->caller && sim.callers[i].under_way[call->end] > 0)))
            return;
    violated("who has the host's lock is let in without a server", "%s waits for %s", call->caller->name,
             name_at(call->end)->text);
}

/* What is the host's alone is given back without asking anybody. */
static void gives_back(const struct lock_call *call)
{
    const struct app *app = call->caller->app;

    if (call->verb != RELEASE || !call->alone || app->away_since == 0 || app->away_since > call->called ||
        !is_told_of(app) || call->queued || app->process.went_on > call->called)
        return;
    if (world_now() - call->called > NEWS_NS + world_lag(call->called))
        violated("an unlock waits for no server", "%s waits", call->caller->name);
}

/* So is what its holder takes again, also if the server was asked before that. */
static void nests(const struct lock_call *call)
{
    const struct app *app = call->caller->app;
    const struct hold *h = &call->caller->holds[call->end];
    int64_t since = later(later(h->alone_since, call->called), app->process.went_on);

    if (h->alone_since == 0 || h->granted == 0 || call->caller->crowd || call->queued || !is_told_of(app))
        return;
    if (world_now() - since > NEWS_NS + world_lag(since))
        violated("who has it alone takes it again without a server", "%s waits", call->caller->name);
}

static void patience(void)
{
    for (size_t n = 0; n < sim.name_count; n++)
        see_lease(name_at(n));
    for (struct rdl__link *l = sim.calls.next; l != &sim.calls; l = l->next) {
        const struct lock_call *call = rdl__container(l, struct lock_call, link);

        if (call->verb == TAKE && is_local(call->end))
            let_in(call);
        if (call->verb == TAKE)
            nests(call);
        gives_back(call);
    }
}

const struct check check_patience = {.event = patience};
