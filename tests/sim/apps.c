/* SPDX-License-Identifier: MIT */
/* apps.c - apps, callers, and what callers believe. */
#include "tests/sim/apps.h"

#include "core/call/call.h"
#include "core/call/record.h"
#include "core/service/waiters.h"
#include "tests/sim/checks.h"
#include "tests/sim/hosts.h"
#include "tests/sim/net.h"
#include "tests/sim/rec.h"
#include "tests/sim/seams.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URI "unix:/simulated"
#define CLOCK_BASE (1000 * RDL__SEC)
#define PEER_WATCHDOG_MS 250

struct sim sim;

static struct counting_alloc memory;
static rdl_allocator_t hooks;

/* ---- the stage -------------------------------------------------------------------------------------------------- */

void sim_begin(void)
{
    if (hooks.alloc == NULL)
        hooks = counting_alloc_init(&memory);
    memset(&sim, 0, sizeof sim);
    hosts_begin();
    rdl__list_init(&sim.calls);
    sim.void_at = -1;
    sim.options = (rdl_client_options_t)RDL_CLIENT_OPTIONS_INIT;
    sim.options.anonymous = true;
    sim.options.connect_timeout_ms = 200;
    sim.options.command_timeout_ms = 60;
    sim.options.outage_timeout_ms = 2000;
    sim.options.watchdog_lease_ms = 150;
    sim.options.close_timeout_ms = 50;
    sim.options.reconnect_min_ms = 1;
    sim.options.reconnect_max_ms = 20;
    sim.options.ping_interval_ms = 100;
    sim.options.connections = 1;
    sim.options.allocator = &hooks;
}

void sim_end(void)
{
    world_on_event(NULL);
}

int64_t sim_linger_ns(void)
{
    int64_t linger_ms = 0;

    for (size_t i = 0; i < sim.name_count; i++) {
        const struct kind *kind = sim.names[i].kind;
        /* its channel lingers; and a client listens for recalls until cache_ms after the end of what it kept so long */
        int64_t ms = kind->life_ms > 0 || kind->line || kind->make_shared != NULL ? RDL__LINGER_MS : 0;

        if (ms < 2 * kind->cache_ms)
            ms = 2 * kind->cache_ms;
        linger_ms = ms > linger_ms ? ms : linger_ms;
    }
    return linger_ms * RDL__MS;
}

int64_t sim_blocks(void)
{
    return counting_alloc_blocks(&memory);
}

struct name *sim_name(const char *text, const struct kind *kind, bool token)
{
    struct name *n = &sim.names[sim.name_count++];

    (void)snprintf(n->text, sizeof n->text, "%s", text);
    n->kind = kind;
    /* the server's time is not for ends that are shared (locks/options.c); a kept lock may have it for its counter */
    n->by_time = token && kind->make_shared == NULL && (!kind->counted || kind->cache_ms > 0);
    n->token = n->by_time || kind->counted;
    n->void_at = n->idle_since = n->stray_since = n->seen_at = -1;
    return n;
}

/* ---- apps ------------------------------------------------------------------------------------------------------- */

struct app *sim_app(int64_t clock_ppm)
{
    struct app *app = &sim.apps[sim.app_count];
    char name[8];

    (void)snprintf(name, sizeof name, "P%zu", sim.app_count++ + 1);
    process_init(&app->process, name, CLOCK_BASE, clock_ppm);
    return app;
}

void app_open(struct app *app)
{
    rdl_client_options_t options = sim.options;
    rdl_client_t *client = NULL;
    rdl_err_t err = {0};

    options.local_dir = sim.outages ? host_dir(app->host) : NULL;
    while (!app->dead && rdl_client_open(URI, &options, &client, &err) < 0) {
        if (options.on_outage > RDL_OUTAGE_FAIL && !app->dead)
            violated("who waits for the server is opened without it", "%s", err.message);
        say("open: %s", err.message);
        fibre_sleep(RDL__MS);
    }
    app->client = client;
    if (client == NULL)
        return;
    (void)snprintf(app->id, sizeof app->id, "%s", rdl_client_id(client));
    say("open as %s", app->id);
}

/* A thread was interrupted while it changes what is known of the lock. Whoever looks from outside sees what was before.
 */
static bool in_change(const struct caller *caller, size_t end)
{
    return seam_locked(&caller->locks[end]->name->mu);
}

/* Wait until nobody is. */
static void await_change(const struct caller *caller, size_t end)
{
    rdl__mutex_lock(&caller->locks[end]->name->mu);
    rdl__mutex_unlock(&caller->locks[end]->name->mu);
}

/* The client's own record of a hold; NULL: it has none. */
static struct rdl__record *record_of(const struct caller *caller, size_t end)
{
    struct rdl__name *n = caller->locks[end]->name;
    struct rdl__record *rec;

    rdl__mutex_lock(&n->mu);
    rec = rdl__record_find(n, caller->owner, caller->locks[end]->ops);
    rdl__mutex_unlock(&n->mu);
    return rec;
}

int64_t hold_deadline(const struct caller *caller, size_t end)
{
    const struct rdl__record *rec;

    if (in_change(caller, end))
        return caller->holds[end].deadline;
    rec = record_of(caller, end);
    return rec == NULL ? 0 : rec_valid_until(rec);
}

/* From now on the client cannot be asked. */
static void keep_beliefs(struct app *app)
{
    for (size_t i = 0; i < sim.caller_count; i++) {
        struct caller *caller = &sim.callers[i];

        for (size_t end = 0; caller->app == app && end < MOST_ENDS; end++)
            if (believes(caller, end))
                caller->holds[end].believed_until = hold_deadline(caller, end);
    }
}

void app_close(struct app *app)
{
    if (app->client == NULL)
        return;
    say("close");
    keep_beliefs(app);
    app->ending = true;
    app->gone_at = world_now();
    if (rdl_client_close(app->client) != NULL)
        violated("a client can be closed", "rdl_client_close refuses");
    app->client = NULL;
    if (net_open(&app->process) > 0)
        violated("nothing is left behind", "a closed client has connections");
    say("closed");
}

void app_crash(struct app *app)
{
    if (app->dead || app->ending)
        return;
    say("%s crashes", app->process.name);
    app->dead = true;
    app->gone_at = world_now();
    if (app->process.stopped)
        process_go(&app->process);
    net_bury(&app->process);
    hosts_bury(&app->process);
    process_stop(&app->process);
}

void app_bury(struct app *app)
{
    process_go(&app->process);
}

void app_disturb(struct app *app, int64_t settle_ns)
{
    for (size_t i = 0; i < sim.app_count; i++)
        if ((app == NULL || app == &sim.apps[i]) && sim.apps[i].calm_from < world_now() + settle_ns)
            sim.apps[i].calm_from = world_now() + settle_ns;
}

struct app *app_that_owns(const struct process *process)
{
    for (size_t i = 0; i < sim.app_count; i++)
        if (&sim.apps[i].process == process)
            return &sim.apps[i];
    die("sim: a process of nobody");
}

int64_t sim_settle_ns(void)
{
    return sim.options.reconnect_max_ms * RDL__MS + 4 * net_connect_time() + 4 * net_round_trip() + 2 * RDL__MS;
}

int64_t sim_find_out_ns(void)
{
    return (sim.options.connect_timeout_ms + 2 * sim.options.command_timeout_ms + sim.options.ping_interval_ms) *
               RDL__MS +
           sim_settle_ns();
}

void app_cut(const struct process *process)
{
    app_disturb(app_that_owns(process), sim_settle_ns());
}

bool app_calm(const struct app *app, int64_t since)
{
    return !app->dead && !app->ending && !app->process.stopped && app->calm_from <= since;
}

void note_patience(void)
{
    for (size_t i = 0; i < sim.app_count; i++) {
        struct app *app = &sim.apps[i];
        int64_t ns;

        world_quiet(true);
        ns = app->client == NULL || app->ending ? 0 : rdl__call_patience(app->client, &app->client->home);
        world_quiet(false);
        if (ns > app->patience)
            app->patience = ns;
    }
}

/* A first try's answer is waited for so long at least. Clocks of processes run apart, and by the end of an event
 * another answer may have brought it down by an eighth. */
static int64_t patience(const struct app *app)
{
    return app->patience + app->patience / 6;
}

int64_t how_late(const struct app *app, int64_t called, int64_t deadline, bool own_wait)
{
    const struct process *p = &app->process;
    int64_t lag = world_lag(called), late = process_clock(p) - deadline - lag;
    int64_t since = world_now() - p->went_on;

    if (p->stopped)
        return 0;
    if (own_wait && world_now() - called - patience(app) - lag < late)
        late = world_now() - called - patience(app) - lag;
    if (p->went_on <= called)
        return late;
    if (!own_wait)
        since -= sim.options.command_timeout_ms * RDL__MS;
    return late < since ? late : since;
}

/* ---- what callers believe --------------------------------------------------------------------------------------- */

rdl_hold_state_t hold_state(struct caller *caller, size_t end)
{
    struct process *before = process_here();
    struct hold *h = &caller->holds[end];
    int state;

    (void)process_enter(&caller->app->process);
    world_quiet(true);
    state = rdl_owner_hold_state(caller->owner, caller->locks[end], NULL);
    world_quiet(false);
    (void)process_enter(before);
    h->hidden = seam_blind();
    if (h->hidden)
        return h->deadline > process_clock(&caller->app->process) ? h->state : RDL_NOT_HELD;
    h->state = state < 0 ? RDL_NOT_HELD : (rdl_hold_state_t)state;
    return h->state;
}

bool believes(struct caller *caller, size_t end)
{
    const struct hold *h = &caller->holds[end];
    rdl_hold_state_t state;

    if (h->count == 0 || caller->app->dead)
        return false;
    if (caller->app->ending)
        return process_clock(&caller->app->process) < h->believed_until;
    state = hold_state(caller, end);
    return state == RDL_HELD || state == RDL_AT_RISK;
}

void excuse(struct hold *hold, const char *why)
{
    if (hold->excuse == NULL)
        hold->excuse = why;
}

void excuse_both(struct caller *caller, size_t end, const char *why)
{
    struct hold *both[] = {&caller->holds[end], &caller->holds[other_end(end)]};

    for (size_t i = 0; i < 2; i++)
        if (both[i]->granted > 0)
            excuse(both[i], why);
}

void excuse_all(const char *why)
{
    sim.void_at = world_now();
    for (size_t n = 0; n < sim.name_count; n++) {
        name_at(n)->void_at = world_now();
        name_at(n)->foreign_until = 0;
        if (!name_at(n)->by_time)
            name_at(n)->token_best = 0; /* the count begins again */
        for (size_t i = 0; i < sim.caller_count; i++)
            excuse_both(&sim.callers[i], n, why);
    }
}

static void recount(struct hold *h)
{
    h->count = h->granted > h->leaving ? h->granted - h->leaving : 0;
}

bool was_forced(const struct name *name, const char *field)
{
    for (size_t i = 0; i < sizeof name->forced / sizeof *name->forced; i++)
        if (field[0] != '\0' && strcmp(name->forced[i], field) == 0)
            return true;
    return false;
}

static bool was_told(const struct caller *caller, const char *field)
{
    for (size_t i = 0; i < 8; i++)
        if (field[0] != '\0' && strcmp(caller->told[i], field) == 0)
            return true;
    return false;
}

static void ask_token(struct caller *caller, size_t end)
{
    int64_t token;

    world_quiet(true);
    if (name_at(end)->token && (token = rdl_owner_token(caller->owner, caller->locks[end], NULL)) > 0)
        caller->holds[end].token = token;
    world_quiet(false);
}

static void hold_begins(struct caller *caller, size_t end, const struct lock_call *call)
{
    struct hold *h = &caller->holds[end];
    const struct rdl__record *rec;

    await_change(caller, end);
    rec = record_of(caller, end);
    *h = (struct hold){.granted = 1,
                       .leaving = h->leaving,
                       .state = RDL_HELD,
                       .since = world_now(),
                       .called = call->called,
                       .lost_at = -1,
                       .gone_at = -1};
    recount(h);
    if (rec != NULL) {
        rec_fields(h, rec);
        h->deadline = rec_valid_until(rec);
        h->told = was_told(caller, h->id);
        if (name_at(end)->void_at >= rec_rests_since(caller, rec, call))
            excuse(h, "the server has lost what it rests on");
    } else {
        excuse(h, "its record is gone");
    }
    if (name_at(end)->void_at >= call->called)
        excuse(h, "the server has lost it");
    if (was_forced(name_at(end), h->field))
        excuse(h, "it was evicted");
    ask_token(caller, end);
    if (h->count > 0)
        checks_granted(caller, end);
}

/* Its deadline says when it was asked for, at the earliest. */
void hold_restored(struct caller *caller, size_t end)
{
    struct hold *h = &caller->holds[end];
    const struct rdl__record *rec = record_of(caller, end);
    const char *text = name_at(end)->text;
    struct process *before;

    if (rec == NULL)
        return;
    rec_fields(h, rec);
    h->deadline = rec_valid_until(rec);
    h->gone_at = -1;
    h->excuse = NULL;
    if (name_at(end)->void_at >= process_when(&caller->app->process, rec_asked_at(rec)))
        excuse(h, "the server has lost it");
    if (was_forced(name_at(end), h->field))
        excuse(h, "it was evicted");
    say("%s: %s is held at the server now, as %s", caller->name, text, h->field);
    before = process_enter(&caller->app->process);
    ask_token(caller, end);
    (void)process_enter(before);
    checks_granted(caller, end);
}

/* Of an owner that is several threads one may give back what the other was granted, before either is noted: what is so
 * is the client's to say. */
void believe_record(struct caller *caller, size_t end)
{
    struct hold *h = &caller->holds[end];
    const struct rdl__record *rec;

    await_change(caller, end);
    rec = record_of(caller, end);
    h->granted = rec == NULL ? 0 : rec->count;
    if (rec != NULL) {
        rec_fields(h, rec);
        h->told = was_told(caller, h->id); /* it may be the owner's next hold */
        if (was_forced(name_at(end), h->field))
            excuse(h, "it was evicted");
    }
    recount(h);
}

/* A take was granted. */
void believe_granted(struct lock_call *call)
{
    struct hold *h = &call->caller->holds[call->end];
    bool unseen = h->count == 0;

    if (h->granted == 0)
        hold_begins(call->caller, call->end, call);
    else
        h->granted++;
    recount(h);
    if (unseen)
        h->deadline = hold_deadline(call->caller, call->end);
    h->renewed = h->renewed || call->lease_ms == RDL_LEASE_AUTO;
}

/* The hold counts as given up from the moment of the call, whatever comes of it. */
void believe_unlock_called(struct lock_call *call)
{
    struct hold *h = &call->caller->holds[call->end];

    call->alone = h->count == 1 && hold_state(call->caller, call->end) == RDL_DEGRADED;
    call->sure = h->count > 0 && believes(call->caller, call->end) && h->excuse == NULL &&
                 h->deadline > process_clock(&call->caller->app->process) + net_connect_time() + 2 * net_round_trip() +
                                   2 * RDL__MS;
    h->leaving++;
    recount(h);
}

void believe_unlock_answered(struct lock_call *call)
{
    struct hold *h = &call->caller->holds[call->end];

    if (call->result == RDL_ENOTOWNER && h->granted > 0 && !call->caller->crowd)
        violated("what is held can be given back", "an unlock of %s answers that it holds nothing", call->caller->name);
    h->leaving--;
    if (h->granted > 0)
        h->granted--;
    recount(h);
}

static void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    struct caller *caller = arg;
    size_t end = 0;

    while (end < MOST_ENDS && caller->locks[end] != lock)
        end++;
    if (end == MOST_ENDS)
        return; /* it is being freed on another thread (lock.h) */
    say("%s is told of %s: %s", caller->name, loss->owner,
        loss->state == RDL_LOST       ? "lost"
        : loss->state == RDL_DEGRADED ? "the host's alone"
        : loss->state == RDL_HELD     ? "held"
                                      : "at risk");
    if (loss->state == RDL_LOST)
        (void)snprintf(caller->told[caller->told_count++ % 8], FIELD_SIZE, "%s", loss->owner);
    checks_told(caller, end, loss);
}

/* ---- callers ---------------------------------------------------------------------------------------------------- */

static rdl_lock_t *make_lock(struct caller *caller, size_t end)
{
    const struct name *name = name_at(end);
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_lock_t *lock = NULL;
    rdl_err_t err = {0};

    options.fencing = name->by_time ? RDL_FENCING_TIME : RDL_FENCING_DEFAULT;
    options.waiter_life_ms = name->kind->life_ms + name->kind->mark_ms;
    options.prefer_writers = name->kind->mark_ms > 0;
    options.cache_ms = name->kind->cache_ms; /* which goes with no other way to release */
    options.on_outage = name->outage;
    options.release =
        sim.leaves && options.cache_ms == 0 && !is_local(end) ? RDL_RELEASE_UNCONFIRMED : RDL_RELEASE_DEFAULT;
    options.peer_watchdog_ms = name->kind->make_shared != NULL ? PEER_WATCHDOG_MS : 0;
    if ((shares(end) ? name->kind->make_shared : name->kind->make)(caller->app->client, name->text, &options, &lock,
                                                                   &err) < 0)
        die("sim: %s", err.message);
    (void)rdl_on_lost(lock, on_lost, caller, NULL);
    return lock;
}

struct caller *caller_join(struct app *app, bool blocking)
{
    struct caller *caller = &sim.callers[sim.caller_count++];
    rdl_err_t err = {0};

    (void)snprintf(caller->name, sizeof caller->name, "a%zu", sim.caller_count);
    caller->app = app;
    caller->blocking = blocking;
    caller->canceled_at = -1;
    caller->threads = 1;
    if (rdl_owner_new(app->client, &caller->owner, &err) < 0)
        die("sim: %s", err.message);
    for (size_t i = 0; i < sim.name_count; i++) {
        caller->locks[i] = make_lock(caller, i);
        if (name_at(i)->kind->make_shared != NULL)
            caller->locks[other_end(i)] = make_lock(caller, other_end(i));
    }
    return caller;
}

struct caller *caller_shared(struct caller *caller)
{
    caller->threads++;
    caller->crowd = true;
    return caller;
}

void caller_leave(struct caller *caller)
{
    rdl_owner_t *owner = caller->owner;

    if (--caller->threads > 0)
        return;
    while (caller->canceling > 0)
        fibre_sleep(RDL__MS);
    caller->owner = NULL; /* nobody cancels it any more */
    for (size_t end = 0; end < MOST_ENDS; end++)
        caller->locks[end] = rdl_lock_free(caller->locks[end]);
    (void)rdl_owner_free(owner);
}

void caller_forget(struct caller *caller, size_t end)
{
    struct name *n = name_at(end);
    struct hold *h = &caller->holds[end];

    if (h->count > 0)
        (void)snprintf(n->left[n->left_count++ % 4], FIELD_SIZE, "%s", h->field);
    h->forgotten = h->count > 0;
    h->count = h->granted = 0;
}
