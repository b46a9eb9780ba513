/* SPDX-License-Identifier: MIT */
/* check_server.c - what the server shows: no lock is free beside somebody who waits for it, none is held for nobody,
 * none is renewed that was given back, and in the end there is nothing.
 *
 * Bounds are in round trips of a connection that nothing disturbs. A wait may begin with two
 * new connections: connect, greet and try; connect, greet and subscribe; then it tries again.
 */
#include "core/call/keep.h"
#include "core/service/waiters.h"
#include "tests/sim/checks.h"

#include "core/io/lane.h"
#include "tests/sim/hosts.h"
#include "tests/sim/net.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <string.h>

#define UUID_LEN 36
#define LOOKS_ANYWAY_NS (5 * RDL__SEC + 60 * RDL__MS) /* who was not woken tries again after 5 s */
#define KEPT_FREED (sizeof((struct name *)NULL)->freed / FIELD_SIZE)

/* What threads take to wake up, all in all. */
static int64_t threads_ns(int64_t since)
{
    return RDL__MS / 2 + world_lag(since);
}

static int64_t latest(int64_t a, int64_t b, int64_t c)
{
    int64_t ab = a > b ? a : b;

    return ab > c ? ab : c;
}

/* ---- nobody waits beside a free lock ---------------------------------------------------------------------------- */

/* The longest that a waiter looks away when nothing announces that it may come in. */
static int64_t looks_away_ns(const struct name *name, const struct vacancy *vacancy)
{
    if (vacancy->announced && !name->kind->polls)
        return 0;
    return name->kind->pause_ms > 0 ? (name->kind->pause_ms + 10) * RDL__MS : LOOKS_ANYWAY_NS;
}

/* Who waits must stand in line, which the server may have lost. Others may have their turn. The one who was woken may
 * be gone: then the next one looks, and if it is gone, too, any other. */
static int64_t looks_ns(int64_t since)
{
    size_t gone = 0;

    for (size_t i = 0; i < sim.app_count; i++)
        gone += sim.apps[i].dead || sim.apps[i].ending || !app_calm(&sim.apps[i], since - 100 * RDL__MS);
    return gone == 0   ? RDL__TURN_MS * RDL__MS
           : gone == 1 ? RDL__LOOK_MS * RDL__MS + 4 * net_round_trip()
                       : 5 * RDL__SEC + 60 * RDL__MS;
}

/* How long those who stand before a waiter may keep it: who has died, for a life; who gives up, for its undo. */
static int64_t held_up_ns(const struct name *name, int64_t since)
{
    int64_t life = name->kind->life_ms * RDL__MS;

    if (name->kind->line)
        return name->void_at >= since - 5 * RDL__SEC ? 5 * RDL__SEC + 60 * RDL__MS : looks_ns(since);
    if (life == 0)
        return 0;
    for (size_t i = 0; i < sim.app_count; i++)
        if (sim.apps[i].dead || sim.apps[i].ending || !app_calm(&sim.apps[i], since - 2 * life))
            return 2 * life + 4 * net_round_trip();
    return 4 * net_round_trip();
}

/* A client that has kept it stands back for those of other processes, its own waiters too. And where the server has
 * lost the kept hold, as whole servers do, its own go on waiting behind it until that is noticed, by a renewal at the
 * latest. One that was evicted is told so. */
static int64_t stands_back_ns(const struct name *name, int64_t since)
{
    int64_t noticed_at = name->void_at + sim.options.watchdog_lease_ms * RDL__MS / 3;

    if (name->kind->cache_ms == 0)
        return 0;
    return RDL__PAUSE_MOST_MS * RDL__MS + (name->void_at >= 0 && noticed_at > since ? noticed_at - since : 0);
}

static bool uses(const struct app *app, const struct lock_call *but, size_t end)
{
    for (size_t i = 0; i < sim.caller_count; i++)
        if (sim.callers[i].app == app &&
            (sim.callers[i].holds[end].granted > 0 || sim.callers[i].holds[end].forgotten ||
             sim.callers[i].under_way[end] > (but->caller == &sim.callers[i])))
            return true;
    return false;
}

/* When it could ask the server, for it had the host's lock, or could have it when it looked; RDL__NEVER: others have
 * that. */
static int64_t unbarred_since(const struct lock_call *call)
{
    const struct app *app = call->caller->app;
    struct host_lock lock = host_lock(app->host, name_at(call->end)->text);

    if (!is_local(call->end) || lock.process == NULL || (lock.process == &app->process && !uses(app, call, call->end)))
        return lock.since;
    return RDL__NEVER;
}

/* Between two looks at the host's lock. */
#define LOOK_NS (64 * RDL__MS)

static void waits(const struct name *name, const struct vacancy *vacancy, const struct lock_call *call)
{
    int64_t since = latest(latest(vacancy->since, unbarred_since(call), 0), call->called, call->caller->app->calm_from);
    int64_t bound = looks_away_ns(name, vacancy) + held_up_ns(name, since) + 4 * net_round_trip() +
                    2 * net_connect_time() + threads_ns(since) + stands_back_ns(name, since) +
                    (is_local(call->end) ? LOOK_NS : 0);
    int64_t left = call->deadline == RDL__NEVER ? bound : call->deadline - process_clock(&call->caller->app->process);

    if (world_now() - since <= bound || left < RDL__MS || !app_calm(call->caller->app, since) || !server_up())
        return;
    if (name->kind->life_ms > 0 && server_stepped_back())
        return; /* the dead live for longer, too */
    violated("nobody sleeps beside a free lock", "%s waits for %s, which has been free for %lld us", call->caller->name,
             name->text, (long long)((world_now() - since) / RDL__US));
}

static void see_vacancy(struct vacancy *vacancy, bool open)
{
    if (!open)
        *vacancy = (struct vacancy){.since = -1};
    else if (vacancy->since < 0)
        vacancy->since = world_now();
}

static bool admits(const struct name *name)
{
    return name->kind->admits != NULL && name->kind->admits(server_keys(), name->text);
}

static void see_free(struct name *name)
{
    const char *field;
    size_t len;

    see_vacancy(&name->vacancy[0], !shown(name, &field, &len));
    see_vacancy(&name->vacancy[1], admits(name));
}

static void wakes(void)
{
    for (size_t n = 0; n < sim.name_count; n++)
        see_free(name_at(n));
    for (struct rdl__link *l = sim.calls.next; l != &sim.calls; l = l->next) {
        const struct lock_call *call = rdl__container(l, struct lock_call, link);
        const struct name *name = name_at(call->end);
        const struct vacancy *vacancy = &name->vacancy[shares(call->end)];

        if (call->verb == TAKE && vacancy->since >= 0 && !call->queued && !call->canceled)
            waits(name, vacancy, call);
    }
}

static void announced(struct vacancy *vacancy)
{
    if (!vacancy->announced)
        vacancy->since = world_now();
    vacancy->announced = true;
}

/* A release that freed the lock has announced it, and so has one that took away what kept sharers out. */
static void freed(const struct ran *ran)
{
    struct name *name;
    char *forced;
    bool is_freed;

    if (ran->script == NULL || ran->reply->kind != REPLY_INTEGER ||
        (!ends_in(ran->script, "_release") && !ends_in(ran->script, "_force")))
        return;
    name = ran_name(ran, ran->first_key);
    is_freed = ran->reply->integer > 0 && ran->reply->integer != 2; /* else to tell was refused */
    if (is_freed || (name->vacancy[1].since < 0 && admits(name)))
        announced(&name->vacancy[1]);
    if (!is_freed)
        return;
    announced(&name->vacancy[0]);
    if (!ends_in(ran->script, "_force"))
        return;
    forced = name->forced[name->forced_count++ % (sizeof name->forced / sizeof *name->forced)];
    ran_copy_word(forced, ran, ran->first_arg);
    name->foreign_until = 0;
    if (name->kind->make_shared != NULL)
        name->void_at = world_now(); /* all who share it are evicted */
    for (size_t i = 0; i < sim.caller_count; i++) {
        size_t end = (size_t)(name - sim.names);

        if (name->kind->make_shared != NULL || strcmp(sim.callers[i].holds[end].field, forced) == 0)
            excuse_both(&sim.callers[i], end, "it was evicted");
    }
}

const struct check check_wakes = {.event = wakes, .ran = freed};

/* ---- nothing is held for nobody --------------------------------------------------------------------------------- */

/* The app whose field that is, if it lives. */
static struct app *app_of(const char *field, size_t len)
{
    for (size_t i = 0; i < sim.app_count; i++) {
        const char *id = sim.apps[i].client == NULL ? NULL : rdl_client_id(sim.apps[i].client);

        if (id != NULL && len > strlen(id) && memcmp(field, id, strlen(id)) == 0)
            return &sim.apps[i];
    }
    return NULL;
}

static bool was_left(const struct name *name, const char *field, size_t len)
{
    for (size_t i = 0; i < sizeof name->left / sizeof name->left[0] && i < name->left_count; i++)
        if (strlen(name->left[i]) == len && memcmp(name->left[i], field, len) == 0)
            return true;
    return false;
}

static bool is_field(const struct hold *h, const char *field, size_t len)
{
    return h->count > 0 && strlen(h->field) == len && memcmp(h->field, field, len) == 0;
}

/* Does a caller of the app have, or want, the lock? */
static bool concerns(const struct app *app, size_t n, const char *field, size_t len)
{
    for (size_t i = 0; i < sim.caller_count; i++) {
        const struct caller *a = &sim.callers[i];
        size_t other = other_end(n);

        if (a->app == app && (a->under_way[n] + a->under_way[other] > 0 || is_field(&a->holds[n], field, len) ||
                              is_field(&a->holds[other], field, len)))
            return true;
    }
    return false;
}

/* For how long nobody may read what has become of a release that is not waited for: that its connection is broken, or
 * the server has no script. */
static int64_t answers_unread_ns(const struct app *app)
{
    return sim.leaves && (server_forgot_scripts() || !app_calm(app, 0)) ? 2 * RDL__LANE_TEND_MS * RDL__MS : 0;
}

/* Its client means to keep it: for cache_ms at most, with nobody inside (protocol.md, 11). */
static bool is_kept(const char *field, size_t len)
{
    return len > UUID_LEN + 1 && field[UUID_LEN + 1] == '-';
}

static void see_stray(size_t n)
{
    struct name *name = name_at(n);
    /* a release may have been given up while its connection was being made */
    int64_t bound = 4 * net_round_trip() + net_connect_time() + server_undo_pause();
    int64_t since;
    const char *field;
    const struct app *app;
    size_t len;

    if (!shown(name, &field, &len) || (app = app_of(field, len)) == NULL || app->ending || app->dead ||
        was_left(name, field, len) || concerns(app, n, field, len) || (is_local(n) && server_stepped_back())) {
        name->stray_since = -1;
        return;
    }
    if (name->stray_since < 0 || strlen(name->stray) != len || memcmp(name->stray, field, len) != 0)
        name->stray_since = world_now();
    bound += answers_unread_ns(app) + (is_kept(field, len) ? name->kind->cache_ms * RDL__MS : 0);
    (void)snprintf(name->stray, sizeof name->stray, "%.*s", (int)len, field);
    since = latest(name->stray_since, app->calm_from, 0);
    if (!app->process.stopped && server_up() && world_now() - since > bound + threads_ns(since))
        violated("nothing is held for nobody", "%s has been held as %.*s for %lld us, and nobody has it or wants it",
                 name->text, (int)len, field, (long long)((world_now() - name->stray_since) / RDL__US));
}

static void strays(void)
{
    for (size_t n = 0; n < sim.name_count; n++)
        see_stray(n);
}

const struct check check_strays = {.event = strays};

/* ---- nobody waits beside a kept lock that nobody uses ------------------------------------------------------------ */

/* The app that keeps it, and nobody of which has it or wants it; NULL: there is none. *ret_write: it keeps sharers out,
 * too. */
static const struct app *idle_keeper(size_t n, bool *ret_write)
{
    const struct app *app;
    const char *field;
    size_t len;

    if (!shown(name_at(n), &field, &len) || !is_kept(field, len) || (app = app_of(field, len)) == NULL)
        return NULL;
    *ret_write = len > 6 && memcmp(field + len - 6, ":write", 6) == 0;
    return was_left(name_at(n), field, len) || concerns(app, n, field, len) ? NULL : app;
}

/* Does one wait for those who have what its own process keeps of the other end? It asks the server when they are out.
 */
static bool waits_here(const struct lock_call *call)
{
    size_t end = other_end(call->end);

    for (struct caller *a = sim.callers; a < sim.callers + sim.caller_count; a++)
        if (a->app == call->caller->app && a->locks[end] != NULL && believes(a, end) &&
            is_kept(a->holds[end].field, strlen(a->holds[end].field)))
            return true;
    return false;
}

/* Whoever waits is refused, which recalls it: the message, the release, its message, and another try. */
static void idles(void)
{
    for (size_t n = 0; n < sim.name_count; n++) {
        struct name *name = name_at(n);
        bool writes = false;
        const struct app *app = name->kind->cache_ms > 0 ? idle_keeper(n, &writes) : NULL;

        if (app == NULL)
            name->idle_since = -1;
        else if (name->idle_since < 0)
            name->idle_since = world_now();
        for (struct rdl__link *l = sim.calls.next; app != NULL && l != &sim.calls; l = l->next) {
            struct lock_call *call = rdl__container(l, struct lock_call, link);
            int64_t since, bound;

            if (call->verb != TAKE || name_at(call->end) != name || (shares(call->end) && !writes))
                continue;
            if (waits_here(call))
                call->here = world_now();
            since = latest(latest(name->idle_since, call->called, call->caller->app->calm_from), app->calm_from,
                           call->here);
            bound = (name->kind->polls ? (name->kind->pause_ms + 10) * RDL__MS : 0) + 6 * net_round_trip() +
                    2 * net_connect_time() + threads_ns(since) + stands_back_ns(name, since);
            if (name->void_at >= 0 && world_now() - name->void_at < LOOKS_ANYWAY_NS)
                continue; /* the hold that it, or who waits before it, has recalled is gone without a word */
            if (!call->queued && !call->canceled && world_now() - since > bound && app_calm(call->caller->app, since) &&
                app_calm(app, since) && server_up())
                violated("nobody sleeps beside a kept lock that nobody uses", "%s waits for %s, idle for %lld us",
                         call->caller->name, name->text, (long long)((world_now() - name->idle_since) / RDL__US));
        }
    }
}

const struct check check_idles = {.event = idles};

/* ---- nothing is renewed that was given back --------------------------------------------------------------------- */

/* The same script serves extend, which its caller may have called before the release and which travels on its own; and
 * the nested take of a kept lock. */
static bool being_extended(const struct app *app, const struct name *name)
{
    for (struct rdl__link *l = sim.calls.next; l != &sim.calls; l = l->next) {
        const struct lock_call *call = rdl__container(l, struct lock_call, link);

        if ((call->verb == EXTEND || (call->verb == TAKE && name->kind->cache_ms > 0)) && call->caller->app == app &&
            name_at(call->end) == name)
            return true;
    }
    return false;
}

/* The times of sending count. A renewal that was sent before its release may arrive long after it, and finds nothing:
 * they go by different connections, of which one may be late, or its socket full for a while. A thread that has encoded
 * it may stand still before it sends. */
static void renewals(const struct ran *ran)
{
    if (ran->script == NULL)
        return;
    if (ends_in(ran->script, "_release") && ran_word_is(ran, ran->first_arg + 1, "0")) {
        struct name *name = ran_name(ran, ran->first_key);

        ran_copy_word(name->released, ran, ran->first_arg);
        name->released_at = ran->sent_at;
    }
    if (!ends_in(ran->script, "_renew"))
        return;
    for (size_t word = ran->first_key, keys = (ran->argc - ran->first_key) / 3, i = 0; i < keys; i++) {
        const struct name *name = ran_name(ran, word + i);
        const struct app *app = app_of(ran->argv[word + keys + 2 * i], ran->len[word + keys + 2 * i]);

        if (ran_word_is(ran, word + keys + 2 * i, name->released) && app != NULL && app_calm(app, name->released_at) &&
            ran->sent_at - name->released_at > world_lag(name->released_at) && !being_extended(app, name))
            violated("no hold is renewed after its release was sent", "%s of %s", name->released, name->text);
    }
}

const struct check check_renewals = {.ran = renewals};

/* ---- what was given back does not come back --------------------------------------------------------------------- */

/* Numbers of holds are never used again, and the server is told to forget a connection before anything that was sent by
 * it is sent by another (protocol.md, 3): no take comes after the release of its hold. */
static void returns(const struct ran *ran)
{
    char field[FIELD_SIZE] = {0};
    struct name *name;

    if (ran->script == NULL || ran->reply->kind == REPLY_ERROR ||
        (!ends_in(ran->script, "_release") && !ends_in(ran->script, "_take")))
        return;
    name = ran_name(ran, ran->first_key);
    ran_copy_word(field, ran, ran->first_arg);
    if (ends_in(ran->script, "_release")) {
        if (ran_word_is(ran, ran->first_arg + 1, "0") && !shows(name, field))
            memcpy(name->freed[name->freed_count++ % KEPT_FREED], field, FIELD_SIZE);
        return;
    }
    for (size_t i = 0; i < KEPT_FREED && server_undo_pause() == 0; i++)
        if (strcmp(name->freed[i], field) == 0 && shows(name, field))
            violated("what was given back does not come back", "%s of %s", field, name->text);
}

const struct check check_returns = {.ran = returns};

/* ---- in the end there is nothing -------------------------------------------------------------------------------- */

static void at_rest(void)
{
    for (size_t i = 0; i < sim.app_count; i++) {
        const struct app *app = &sim.apps[i];
        size_t count = server_subscriptions(&app->process);

        if (app->client != NULL && !app->ending && !app->dead && count > 0)
            violated("nothing is left behind", "%s is subscribed to %zu channels and waits for nothing",
                     app->process.name, count);
    }
}

static void at_end(void)
{
    const char *field;
    size_t len;

    for (size_t n = 0; n < sim.name_count; n++)
        if (shown(name_at(n), &field, &len))
            violated("nothing is left behind", "%s is held as %.*s when every lease is over", name_at(n)->text,
                     (int)len, field);
    if (sim_blocks() != 0)
        violated("nothing is left behind", "%lld blocks of memory", (long long)sim_blocks());
}

const struct check check_leftovers = {.at_rest = at_rest, .at_end = at_end};
