/* SPDX-License-Identifier: MIT */
/* check_pools.c - semaphores and latches: never more out than there is, nothing lost or made, nobody asleep beside what
 * would do, and where that is promised nobody passed.
 *
 * When the server loses what it knew, outside of the promise, the counts are its own from then on (cast.void_at).
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
    return cast.void_at < 0;
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
    for (size_t i = 0; i < cast.app_count; i++)
        if (strlen(cast.apps[i].id) == len && memcmp(cast.apps[i].id, id, len) == 0)
            return &cast.apps[i];
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
    for (size_t i = 0; i < lobby.pool_count; i++)
        if (ran_word_is(ran, ran->first_key, lobby.pools[i].text))
            return &lobby.pools[i];
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

    for (size_t i = 0; i < cast.actor_count; i++)
        out += guest_has(&lobby.guests[i], pool);
    return out;
}

static void overdrawn(void)
{
    for (size_t i = 0; counts_hold() && i < lobby.pool_count; i++) {
        const struct pool *p = &lobby.pools[i];

        if (!p->kind->counts_down && believed_out(i) > p->total)
            violated("never more out than there is", "%" PRId64 " of %s, of which there are %" PRId64, believed_out(i),
                     p->text, p->total);
    }
}

/* Of permits with leases, each is free or taken. */
static void conserved(void)
{
    for (size_t i = 0; counts_hold() && i < lobby.pool_count; i++) {
        struct pool *p = &lobby.pools[i];

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
    return cast.apps[i].gone_at - p->late_at[i] <= server_undo_pause() ? p->late[i] : 0;
}

/* What nobody knows, because those who knew are gone. */
static int64_t doubt_in(const struct pool *p)
{
    int64_t doubt = 0;

    for (size_t i = 0; i < cast.app_count; i++)
        if (!app_there(&cast.apps[i]))
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
    for (size_t i = 0; i < cast.actor_count; i++)
        for (size_t k = 0; k < lobby.guests[i].stakes[pool].held_count; k++)
            if (strcmp(lobby.guests[i].stakes[pool].held[k].permit.id, text) == 0)
                return true;
    return false;
}

/* Taken by nobody who knows of it, and not about to expire. */
static int64_t strays_in(size_t pool)
{
    const struct key *taken = taken_of(&lobby.pools[pool]);
    int64_t strays = 0, now_ms = ks_time(server_keys()) / 1000;

    for (size_t i = 0; taken != NULL && i < taken->items.count; i++)
        strays += taken->items.at[i].score > (double)now_ms && !is_known(pool, taken->items.at[i].name);
    return strays;
}

static void settled(void)
{
    for (size_t i = 0; counts_hold() && i < lobby.pool_count; i++) {
        struct pool *p = &lobby.pools[i];

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
    i = (size_t)(app - cast.apps);
    if (world_now() - p->late_at[i] > server_undo_pause())
        p->late[i] = 0;
    p->late[i] += (int64_t)(ran->argc - ran->first_arg) - 4;
    p->late_at[i] = world_now();
}

static const struct check check_ledger = {.at_rest = settled, .ran = late_takes};

/* ---- nobody sleeps beside what would do ------------------------------------------------------------------------- */

static bool is_asleep(const struct errand *e)
{
    return errand_waits(e) && e->wait_ms > 0 && !errand_canceled(e);
}

/* What the app's waiters want: of a fair one any of them may be the first, and nobody passes it. */
static int64_t wish_of(const struct errand *e)
{
    int64_t wish = e->verb == POOL_AWAIT ? 0 : e->amount;

    for (struct rdl__link *l = lobby.errands.next; lobby.pools[e->pool].fair && l != &lobby.errands; l = l->next) {
        const struct errand *other = rdl__container(l, struct errand, link);

        if (other->pool == e->pool && other->guest->actor->app == e->guest->actor->app && errand_waits(other) &&
            other->amount > wish)
            wish = other->amount;
    }
    return wish;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Since when the errand should have been let in; -1: it should not yet. */
static int64_t let_in_since(const struct errand *e)
{
    const struct pool *p = &lobby.pools[e->pool];
    const struct app *app = e->guest->actor->app, *first = p->first;
    int64_t since = p->free_since[wish_of(e)];

    if (since < 0 || !is_asleep(e))
        return -1;
    since = later(later(since, e->called), app->calm_from);
    if (!counts_hold()) /* what was lost was not announced */
        since = later(since, cast.void_at + LOOKS_MS * RDL__MS);
    if (p->fair)
        since = later(since, later(p->first_since, p->left_at[app - cast.apps]));
    if (first == NULL || first == app)
        return since;
    if (app_there(first) || server_stepped_back())
        return -1;
    return later(since, first->gone_at) + (PLACE_LIFE_MS + 2 * LOOKS_MS) * RDL__MS; /* the dead hold it up so long */
}

static void see_sleeper(const struct errand *e)
{
    const struct app *app = e->guest->actor->app;
    int64_t since = let_in_since(e);

    if (since < 0 || world_now() - since <= reaction_ns(since) ||
        e->deadline - process_clock(&app->process) < RDL__MS || !app_calm(app, since) || !server_up())
        return;
    violated("nobody sleeps beside what would do",
             "%s waits for %" PRId64 " of %s, which have been free for %" PRId64 " us", e->guest->actor->name,
             e->amount, lobby.pools[e->pool].text, (world_now() - since) / RDL__US);
}

/* A place in the queue is for somebody who waits. Where CLIENT KILL is refused a try that comes late may leave one for
 * a life. */
static void see_place(struct pool *p)
{
    const struct app *first = p->first;
    int64_t since, late_ns = server_undo_pause() > 0 ? (PLACE_LIFE_MS + LOOKS_MS) * RDL__MS : 0;

    for (size_t i = 0; i < cast.app_count; i++) {
        bool waited_for = false;

        for (struct rdl__link *l = lobby.errands.next; l != &lobby.errands; l = l->next) {
            const struct errand *e = rdl__container(l, struct errand, link);

            waited_for =
                waited_for || (&lobby.pools[e->pool] == p && errand_waits(e) && e->guest->actor->app == &cast.apps[i]);
        }
        set_since(&p->idle_since[i], !waited_for);
    }
    if (first == NULL || p->idle_since[first - cast.apps] < 0 || !counts_hold())
        return;
    since = later(p->idle_since[first - cast.apps], first->calm_from);
    if (app_calm(first, since) && server_up() && world_now() - since > reaction_ns(since) + late_ns &&
        place_lives(p, first))
        violated("a place is for who waits", "%s is first in the queue of %s and does not wait", first->process.name,
                 p->text);
}

static void wakes(void)
{
    for (size_t i = 0; i < lobby.pool_count; i++) {
        look_at(&lobby.pools[i]);
        if (lobby.pools[i].fair)
            see_place(&lobby.pools[i]);
    }
    for (struct rdl__link *l = lobby.errands.next; l != &lobby.errands; l = l->next)
        see_sleeper(rdl__container(l, struct errand, link));
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
    if (p->line.void_at != cast.void_at) /* what was granted is forgotten, and may be granted anew */
        memset(p->granted, 0, sizeof p->granted);
    line_void(&p->line, cast.void_at);
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
static void passes(const struct errand *e)
{
    for (struct rdl__link *l = lobby.errands.next; l != &lobby.errands; l = l->next) {
        const struct errand *other = rdl__container(l, struct errand, link);

        if (other->pool == e->pool && other->guest->actor->app == e->guest->actor->app && is_asleep(other) &&
            e->called - other->called > reaction_ns(other->called) && app_calm(other->guest->actor->app, other->called))
            violated("first come, first served", "%s passes %s, who has waited for %s for %" PRId64 " us",
                     e->guest->actor->name, other->guest->actor->name, lobby.pools[e->pool].text,
                     (world_now() - other->called) / RDL__US);
    }
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static bool has_own_wait(const struct errand *e)
{
    return errand_waits(e) && e->wait_ms > 0;
}

static void in_time(const struct errand *e)
{
    const struct app *app = e->guest->actor->app;
    int64_t late = how_late(app, e->called, e->deadline, has_own_wait(e));

    if (!app->dead && !app->ending && late > SLACK_NS)
        violated("no call outlives its deadline", "a call of %s is %" PRId64 " us late", e->guest->actor->name,
                 late / RDL__US);
}

static void under_way(void)
{
    for (struct rdl__link *l = lobby.errands.next; l != &lobby.errands; l = l->next)
        in_time(rdl__container(l, struct errand, link));
}

static const struct check check_deadlines = {.event = under_way};

static bool may_answer(const struct errand *e)
{
    const struct pool *p = &lobby.pools[e->pool];

    switch (e->result) {
    case RDL_OK:
    case RDL_EUNKNOWN:
    case RDL_ECONN:
        return true;
    case RDL_ETIMEDOUT:
        return errand_waits(e);
    case RDL_ECANCELED:
        return errand_waits(e) && errand_canceled(e);
    case RDL_ECLOSED:
        return e->guest->actor->app->ending;
    case RDL_ELOST:
        return p->kind->leased && (e->verb == POOL_ACQUIRE || e->verb == POOL_GIVE || e->verb == POOL_EXTEND);
    default:
        if (e->verb == POOL_SET)
            return e->result == 1;
        return e->result > 0 && (e->result <= p->total || !counts_hold()) &&
               (e->verb == POOL_LOOK || e->verb == POOL_DRAIN || e->verb == POOL_COUNT_DOWN);
    }
}

/* Of calls with all the time in the world, when nothing was disturbed. */
static void as_it_should(const struct errand *e)
{
    const struct actor *actor = e->guest->actor;

    if (!app_calm(actor->app, e->called))
        return;
    if ((e->result == RDL_EUNKNOWN || e->result == RDL_ECONN) && !has_own_wait(e) && time_to_connect())
        violated("a server that answers is heard", "a call of %s answers %s", actor->name,
                 rdl_err_name((int)e->result));
    if (e->result == RDL_ELOST && (e->verb == POOL_GIVE || e->verb == POOL_EXTEND) && e->sure && counts_hold())
        violated("what was taken lasts", "a permit of %s is not known any more", actor->name);
}

void check_errand(const struct errand *e)
{
    struct pool *p = &lobby.pools[e->pool];

    if (!may_answer(e))
        violated("answers make sense", "verb %d of %s answers %" PRId64, (int)e->verb, e->guest->actor->name,
                 e->result);
    in_time(e);
    as_it_should(e);
    if (errand_waits(e))
        p->left_at[e->guest->actor->app - cast.apps] = world_now();
    if (e->verb == POOL_AWAIT && e->result == RDL_OK && p->downs < p->total && counts_hold())
        violated("a latch opens at zero", "%s goes on when %" PRId64 " of %" PRId64 " were counted down",
                 e->guest->actor->name, p->downs, p->total);
    if (p->fair && e->verb == POOL_ACQUIRE && e->result == RDL_OK)
        passes(e);
}

const struct check *const pool_checks[] = {
    &check_counts, &check_ledger, &check_sleepers, &check_turns, &check_deadlines, &check_leftovers, NULL};
