/* SPDX-License-Identifier: MIT */
/* check_pools.c - semaphores and latches: never more out than there is, nothing lost or made, nobody asleep beside what
 * would do, and where that is promised nobody passed.
 *
 * When the server loses what it knew, outside of the promise, the counts are its own from then on (sim.void_at).
 * Waiting, waking and answering go on, and are looked at.
 */
#include "tests/sim/check_pools.h"

#include "tests/script/keyspace_impl.h"
#include "tests/sim/net.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_NS (RDL__MS / 2)
#define SLACK_NS (2 * RDL__MS)
#define PLACE_LIFE_MS 15000 /* in the queue of a fair semaphore */
#define LOOKS_MS 5000       /* the longest that a waiter sleeps without looking */

static bool counts_hold(void)
{
    return sim.void_at < 0;
}

/* A wait may begin with two new connections, and each script may have to be told to the server first. */
static int64_t reaction_ns(int64_t since)
{
    return 10 * net_round_trip() + 2 * net_connect_time() + THREADS_NS + world_lag(since);
}

static bool app_there(const struct app *app)
{
    return app->client != NULL && !app->dead && !app->ending;
}

/* ---- what the keyspace shows ------------------------------------------------------------------------------------ */

static const struct key *key_of(const char *text, int len)
{
    return find_key(server_keys(), text, (size_t)len);
}

/* A key beside the semaphore, made of its name. */
static const struct key *beside(const char *before, const struct pool *p, const char *behind)
{
    bool tagged = strchr(p->text, '{') != NULL;
    char text[96];

    return key_of(
        text, snprintf(text, sizeof text, "%s%s%s%s%s", before, tagged ? "" : "{", p->text, tagged ? "" : "}", behind));
}

static const struct key *taken_of(const struct pool *p)
{
    return beside("", p, ":timeout");
}

static void set_since(int64_t *since, bool holds)
{
    if (!holds)
        *since = -1;
    else if (*since < 0)
        *since = world_now();
}

static struct app *app_named(const char *id, size_t len)
{
    for (size_t i = 0; i < sim.app_count; i++)
        if (strlen(sim.apps[i].id) == len && memcmp(sim.apps[i].id, id, len) == 0)
            return &sim.apps[i];
    return NULL;
}

static void look_at_queue(struct pool *p)
{
    const struct key *queue = beside("redlatch_semaphore_queue:", p, "");
    const struct app *first =
        queue == NULL ? NULL : app_named(queue->items.at[0].name->at, queue->items.at[0].name->len);

    if (first == p->first)
        return;
    p->first = first;
    p->first_since = world_now();
}

/* Is the place more than a name that whoever looks next will drop? */
static bool place_lives(const struct pool *p, const struct app *app)
{
    const struct key *signs = beside("redlatch_semaphore_signs:", p, "");
    size_t at = signs == NULL ? ITEM_NONE : item_find(&signs->items, app->id, strlen(app->id));

    return at != ITEM_NONE && strtoll(signs->items.at[at].value->at, NULL, 10) > ks_time(server_keys()) / 1000;
}

static struct pool *pool_named(const struct ran *ran)
{
    for (size_t i = 0; i < pool_sim.pool_count; i++)
        if (ran_word_is(ran, ran->first_key, pool_sim.pools[i].text))
            return &pool_sim.pools[i];
    die("sim: a script of no pool of ours");
}

/* Looked up once a server command, for it is asked often. */
static void look_at(struct pool *p)
{
    const struct key *count, *taken;

    if (p->seen_at == server_commands())
        return;
    p->seen_at = server_commands();
    count = key_of(p->text, (int)strlen(p->text));
    taken = p->kind->leased ? taken_of(p) : NULL;
    if (count != NULL && count->type != KEY_STRING)
        die("sim: %s is no string", p->text);
    p->free = count == NULL ? 0 : strtoll(count->string->at, NULL, 10);
    p->taken = taken == NULL ? 0 : (int64_t)taken->items.count;
    set_since(&p->free_since[0], p->kind->counts_down && p->free <= 0);
    for (size_t i = 1; i <= MOST_WISH; i++)
        set_since(&p->free_since[i], p->free >= (int64_t)i);
    if (p->fair)
        look_at_queue(p);
}

/* ---- never more out than there is ------------------------------------------------------------------------------- */

static int64_t believed_out(size_t pool)
{
    int64_t out = 0;

    for (size_t i = 0; i < sim.caller_count; i++)
        out += pool_user_has(&pool_sim.users[i], pool);
    return out;
}

static void overdrawn(void)
{
    for (size_t i = 0; counts_hold() && i < pool_sim.pool_count; i++) {
        const struct pool *p = &pool_sim.pools[i];

        if (!p->kind->counts_down && believed_out(i) > p->total)
            violated("never more out than there is", "%" PRId64 " of %s, of which there are %" PRId64, believed_out(i),
                     p->text, p->total);
    }
}

/* Of permits with leases, each is free or taken. */
static void conserved(void)
{
    for (size_t i = 0; counts_hold() && i < pool_sim.pool_count; i++) {
        struct pool *p = &pool_sim.pools[i];

        look_at(p);
        if (p->kind->leased && p->free + p->taken != p->total)
            violated("permits are neither lost nor made", "%s has %" PRId64 " free and %" PRId64 " taken of %" PRId64,
                     p->text, p->free, p->taken, p->total);
    }
}

static void counts(void)
{
    overdrawn();
    conserved();
}

static const struct check check_counts = {.event = counts};

/* ---- in the end, the count follows from what was done ----------------------------------------------------------- */

/* Where CLIENT KILL is refused a client undoes again and again what may come late. What comes when it is gone, or
 * between the last undo and that, stays. */
static int64_t left_by(const struct pool *p, size_t i)
{
    return sim.apps[i].gone_at - p->late_at[i] <= server_undo_pause() ? p->late[i] : 0;
}

/* What nobody knows, because those who knew are gone. */
static int64_t doubt_in(const struct pool *p)
{
    int64_t doubt = 0;

    for (size_t i = 0; i < sim.app_count; i++)
        if (!app_there(&sim.apps[i]))
            doubt += p->doubt[i] + p->drains[i] * p->total + left_by(p, i);
    return doubt;
}

static void must_be_free(const struct pool *p, int64_t least, int64_t most)
{
    if (p->free < least || p->free > most)
        violated("permits are neither lost nor made",
                 "in the end %s has %" PRId64 " free, expected %" PRId64 " to %" PRId64, p->text, p->free, least, most);
}

static int64_t at_least_0(int64_t n)
{
    return n > 0 ? n : 0;
}

static bool is_known(size_t pool, const struct blob *id)
{
    char text[33];

    for (size_t i = 0; i < 16; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", (unsigned char)id->at[i]);
    for (size_t i = 0; i < sim.caller_count; i++)
        for (size_t k = 0; k < pool_sim.users[i].stakes[pool].held_count; k++)
            if (strcmp(pool_sim.users[i].stakes[pool].held[k].permit.id, text) == 0)
                return true;
    return false;
}

/* Taken by nobody who knows of it, and not about to expire. */
static int64_t strays_in(size_t pool)
{
    const struct key *taken = taken_of(&pool_sim.pools[pool]);
    int64_t strays = 0, now_ms = ks_time(server_keys()) / 1000;

    for (size_t i = 0; taken != NULL && i < taken->items.count; i++)
        strays += taken->items.at[i].score > (double)now_ms && !is_known(pool, taken->items.at[i].name);
    return strays;
}

static void settled(void)
{
    for (size_t i = 0; counts_hold() && i < pool_sim.pool_count; i++) {
        struct pool *p = &pool_sim.pools[i];

        p->seen_at = -1;
        look_at(p);
        if (p->kind->counts_down)
            must_be_free(p, at_least_0(p->total - p->downs), at_least_0(p->total - p->downs + doubt_in(p)));
        else if (!p->kind->leased)
            must_be_free(p, p->total - p->out - doubt_in(p), p->total - p->out);
        else if (strays_in(i) > doubt_in(p))
            violated("permits are neither lost nor made", "%" PRId64 " of %s are taken by nobody", strays_in(i),
                     p->text);
    }
}

/* Permits that are taken by what comes late, and nobody kills. */
static void late_takes(const struct ran *ran)
{
    const struct app *app;
    struct pool *p;
    size_t i;

    if (server_undo_pause() == 0 || !ran->late || ran->script == NULL || strcmp(ran->script, "permit_take") != 0 ||
        ran->reply->kind != REPLY_INTEGER)
        return;
    p = pool_named(ran);
    if ((app = app_named(ran->argv[ran->first_arg + 2], ran->len[ran->first_arg + 2])) == NULL)
        return;
    i = (size_t)(app - sim.apps);
    if (world_now() - p->late_at[i] > server_undo_pause())
        p->late[i] = 0;
    p->late[i] += (int64_t)(ran->argc - ran->first_arg) - 4;
    p->late_at[i] = world_now();
}

static const struct check check_ledger = {.at_rest = settled, .ran = late_takes};

/* ---- nobody sleeps beside what would do ------------------------------------------------------------------------- */

static bool is_asleep(const struct pool_call *call)
{
    return pool_call_waits(call) && call->wait_ms > 0 && !pool_call_canceled(call);
}

/* What the app's waiters want: of a fair one any of them may be the first, and nobody passes it. */
static int64_t wish_of(const struct pool_call *call)
{
    int64_t wish = call->verb == POOL_AWAIT ? 0 : call->amount;

    for (struct rdl__link *l = pool_sim.calls.next; pool_sim.pools[call->pool].fair && l != &pool_sim.calls;
         l = l->next) {
        const struct pool_call *other = rdl__container(l, struct pool_call, link);

        if (other->pool == call->pool && other->user->caller->app == call->user->caller->app &&
            pool_call_waits(other) && other->amount > wish)
            wish = other->amount;
    }
    return wish;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Since when the call should have been let in; -1: it should not yet. */
static int64_t let_in_since(const struct pool_call *call)
{
    const struct pool *p = &pool_sim.pools[call->pool];
    const struct app *app = call->user->caller->app, *first = p->first;
    int64_t since = p->free_since[wish_of(call)];

    if (since < 0 || !is_asleep(call))
        return -1;
    since = later(later(since, call->called), app->calm_from);
    if (!counts_hold()) /* what was lost was not announced */
        since = later(since, sim.void_at + LOOKS_MS * RDL__MS);
    if (p->fair)
        since = later(since, later(p->first_since, p->left_at[app - sim.apps]));
    if (first == NULL || first == app)
        return since;
    if (app_there(first) || server_stepped_back())
        return -1;
    return later(since, first->gone_at) + (PLACE_LIFE_MS + 2 * LOOKS_MS) * RDL__MS; /* the dead hold it up so long */
}

static void see_sleeper(const struct pool_call *call)
{
    const struct app *app = call->user->caller->app;
    int64_t since = let_in_since(call);

    if (since < 0 || world_now() - since <= reaction_ns(since) ||
        call->deadline - process_clock(&app->process) < RDL__MS || !app_calm(app, since) || !server_up())
        return;
    violated("nobody sleeps beside what would do",
             "%s waits for %" PRId64 " of %s, which have been free for %" PRId64 " us", call->user->caller->name,
             call->amount, pool_sim.pools[call->pool].text, (world_now() - since) / RDL__US);
}

/* A place in the queue is for somebody who waits. Where CLIENT KILL is refused a try that comes late may leave one for
 * a life. */
static void see_place(struct pool *p)
{
    const struct app *first = p->first;
    int64_t since, late_ns = server_undo_pause() > 0 ? (PLACE_LIFE_MS + LOOKS_MS) * RDL__MS : 0;

    for (size_t i = 0; i < sim.app_count; i++) {
        bool waited_for = false;

        for (struct rdl__link *l = pool_sim.calls.next; l != &pool_sim.calls; l = l->next) {
            const struct pool_call *call = rdl__container(l, struct pool_call, link);

            waited_for = waited_for || (&pool_sim.pools[call->pool] == p && pool_call_waits(call) &&
                                        call->user->caller->app == &sim.apps[i]);
        }
        set_since(&p->idle_since[i], !waited_for);
    }
    if (first == NULL || p->idle_since[first - sim.apps] < 0 || !counts_hold())
        return;
    since = later(p->idle_since[first - sim.apps], first->calm_from);
    if (app_calm(first, since) && server_up() && world_now() - since > reaction_ns(since) + late_ns &&
        place_lives(p, first))
        violated("a place is for who waits", "%s is first in the queue of %s and does not wait", first->process.name,
                 p->text);
}

static void wakes(void)
{
    for (size_t i = 0; i < pool_sim.pool_count; i++) {
        look_at(&pool_sim.pools[i]);
        if (pool_sim.pools[i].fair)
            see_place(&pool_sim.pools[i]);
    }
    for (struct rdl__link *l = pool_sim.calls.next; l != &pool_sim.calls; l = l->next)
        see_sleeper(rdl__container(l, struct pool_call, link));
}

static const struct check check_sleepers = {.event = wakes};

/* ---- nobody is passed ------------------------------------------------------------------------------------------- */

/* Is it the first time that the request is granted? Requests differ in their last characters. */
static bool is_news(struct pool *p, const char *request, size_t len)
{
    size_t kept = sizeof p->granted / sizeof p->granted[0];
    char text[FIELD_SIZE] = {0};

    memcpy(text, request + (len < FIELD_SIZE ? 0 : len - FIELD_SIZE + 1), len < FIELD_SIZE ? len : FIELD_SIZE - 1);
    for (size_t i = 0; i < kept; i++)
        if (memcmp(p->granted[i], text, FIELD_SIZE) == 0)
            return false;
    memcpy(p->granted[p->granted_count++ % kept], text, FIELD_SIZE);
    return true;
}

/* Between processes: by the commands that take, and those that undo, which leave the queue. */
static void turns(const struct ran *ran)
{
    size_t place, wanted, request;
    struct pool *p;
    char who[FIELD_SIZE] = {0};
    bool takes;

    if (ran->script == NULL || ran->reply->kind == REPLY_ERROR ||
        (strcmp(ran->script, "semaphore_take") != 0 && strcmp(ran->script, "permit_take") != 0 &&
         strcmp(ran->script, "semaphore_undo") != 0 && strcmp(ran->script, "permit_undo") != 0))
        return;
    p = pool_named(ran);
    place = ran->first_arg + (p->kind->leased ? 2 : 3);
    wanted = place + 1;
    request = p->kind->leased ? wanted + 1 : ran->first_key + 2; /* an id of it, or its guard */
    takes = ends_in(ran->script, "_take");
    if (!p->fair || server_stepped_back())
        return;
    ran_copy_word(who, ran, place);
    if (p->line.void_at != sim.void_at) /* what was granted is forgotten, and may be granted anew */
        memset(p->granted, 0, sizeof p->granted);
    line_void(&p->line, sim.void_at);
    if (takes && ran->reply->kind == REPLY_INTEGER && ran->reply->integer >= 0) {
        if (is_news(p, ran->argv[request], ran->len[request]))
            line_let_in(&p->line, p->text, who);
        else if (p->kind->leased)
            line_unsure(&p->line, who); /* its permits may have expired and been taken anew */
    } else if (!takes) {
        for (size_t i = request; i < (p->kind->leased ? ran->argc : request + 1); i++)
            (void)is_news(p, ran->argv[i], ran->len[i]); /* coming late, it finds itself carried out */
        if (ran_word_is(ran, wanted, "1"))
            line_left(&p->line, who);
    } else if (!ran_word_is(ran, wanted, "0")) {
        line_refused(&p->line, p->text, who, who, PLACE_LIFE_MS);
    }
}

static const struct check check_turns = {.ran = turns};

/* Within one: whoever joined the waiters long before this one was called. */
static void passes(const struct pool_call *call)
{
    for (struct rdl__link *l = pool_sim.calls.next; l != &pool_sim.calls; l = l->next) {
        const struct pool_call *other = rdl__container(l, struct pool_call, link);

        if (other->pool == call->pool && other->user->caller->app == call->user->caller->app && is_asleep(other) &&
            call->called - other->called > reaction_ns(other->called) &&
            app_calm(other->user->caller->app, other->called))
            violated("first come, first served", "%s passes %s, who has waited for %s for %" PRId64 " us",
                     call->user->caller->name, other->user->caller->name, pool_sim.pools[call->pool].text,
                     (world_now() - other->called) / RDL__US);
    }
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static bool has_own_wait(const struct pool_call *call)
{
    return pool_call_waits(call) && call->wait_ms > 0;
}

static void in_time(const struct pool_call *call)
{
    const struct app *app = call->user->caller->app;
    int64_t late = how_late(app, call->called, call->deadline, has_own_wait(call));

    if (!app->dead && !app->ending && late > SLACK_NS)
        violated("no call outlives its deadline", "a call of %s is %" PRId64 " us late", call->user->caller->name,
                 late / RDL__US);
}

static void under_way(void)
{
    for (struct rdl__link *l = pool_sim.calls.next; l != &pool_sim.calls; l = l->next)
        in_time(rdl__container(l, struct pool_call, link));
}

static const struct check check_deadlines = {.event = under_way};

static bool may_answer(const struct pool_call *call)
{
    const struct pool *p = &pool_sim.pools[call->pool];

    switch (call->result) {
    case RDL_OK:
    case RDL_EUNKNOWN:
    case RDL_ECONN:
        return true;
    case RDL_ETIMEDOUT:
        return pool_call_waits(call);
    case RDL_ECANCELED:
        return pool_call_waits(call) && pool_call_canceled(call);
    case RDL_ECLOSED:
        return call->user->caller->app->ending;
    case RDL_ELOST:
        return p->kind->leased && (call->verb == POOL_ACQUIRE || call->verb == POOL_GIVE || call->verb == POOL_EXTEND);
    default:
        if (call->verb == POOL_SET)
            return call->result == 1;
        return call->result > 0 && (call->result <= p->total || !counts_hold()) &&
               (call->verb == POOL_LOOK || call->verb == POOL_DRAIN || call->verb == POOL_COUNT_DOWN);
    }
}

/* Of calls with all the time in the world, when nothing was disturbed. */
static void as_it_should(const struct pool_call *call)
{
    const struct caller *caller = call->user->caller;

    if (!app_calm(caller->app, call->called))
        return;
    if ((call->result == RDL_EUNKNOWN || call->result == RDL_ECONN) && !has_own_wait(call) && time_to_connect())
        violated("a server that answers is heard", "a call of %s answers %s", caller->name,
                 rdl_err_name((int)call->result));
    if (call->result == RDL_ELOST && (call->verb == POOL_GIVE || call->verb == POOL_EXTEND) && call->sure &&
        counts_hold())
        violated("what was taken lasts", "a permit of %s is not known any more", caller->name);
}

void check_pool_call(const struct pool_call *call)
{
    struct pool *p = &pool_sim.pools[call->pool];

    if (!may_answer(call))
        violated("answers make sense", "verb %d of %s answers %" PRId64, (int)call->verb, call->user->caller->name,
                 call->result);
    in_time(call);
    as_it_should(call);
    if (pool_call_waits(call))
        p->left_at[call->user->caller->app - sim.apps] = world_now();
    if (call->verb == POOL_AWAIT && call->result == RDL_OK && p->downs < p->total && counts_hold())
        violated("a latch opens at zero", "%s goes on when %" PRId64 " of %" PRId64 " were counted down",
                 call->user->caller->name, p->downs, p->total);
    if (p->fair && call->verb == POOL_ACQUIRE && call->result == RDL_OK)
        passes(call);
}

const struct check *const pool_checks[] = {
    &check_counts, &check_ledger, &check_sleepers, &check_turns, &check_deadlines, &check_leftovers, NULL};
