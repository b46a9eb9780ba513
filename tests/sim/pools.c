/* SPDX-License-Identifier: MIT */
/* pools.c - pools, guests and errands. */
#include "tests/sim/pools.h"

#include "tests/sim/check_pools.h"
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lobby lobby;

static const char *const verbs[POOL_VERBS] = {"acquire", "give", "drain",      "add",  "set",
                                              "extend",  "look", "count down", "await"};

/* ---- the lobby -------------------------------------------------------------------------------------------------- */

void lobby_open(void)
{
    memset(&lobby, 0, sizeof lobby);
    rdl__list_init(&lobby.errands);
}

struct pool *pool_add(const char *text, const struct pool_kind *kind, bool fair, int64_t total)
{
    struct pool *p = &lobby.pools[lobby.pool_count++];
    char number[24];

    (void)snprintf(p->text, sizeof p->text, "%s", text);
    (void)snprintf(number, sizeof number, "%" PRId64, total);
    p->kind = kind;
    p->fair = fair;
    p->total = total;
    p->seen_at = -1;
    for (size_t i = 0; i <= MOST_WISH; i++)
        p->free_since[i] = -1;
    reply_free(server_do("SET", text, number));
    say("%s is a %s%s of %s", text, fair ? "fair " : "", kind->name, number);
    return p;
}

struct guest *guest_join(struct actor *actor)
{
    struct guest *g = &lobby.guests[actor - cast.actors];

    g->actor = actor;
    for (size_t i = 0; i < lobby.pool_count; i++)
        lobby.pools[i].kind->make(g, i);
    return g;
}

void guest_leave(struct guest *g)
{
    for (size_t i = 0; i < lobby.pool_count; i++)
        lobby.pools[i].kind->unmake(g, i);
    actor_leave(g->actor);
}

static struct stake *stake_of(const struct errand *e)
{
    return &e->guest->stakes[e->pool];
}

static struct pool *pool_of(const struct errand *e)
{
    return &lobby.pools[e->pool];
}

static int64_t clock_of(const struct guest *g)
{
    return process_clock(&g->actor->app->process);
}

int64_t guest_has(const struct guest *g, size_t pool)
{
    const struct stake *s = &g->stakes[pool];
    int64_t count = s->count;

    if (g->actor == NULL || g->actor->app->dead)
        return 0;
    for (size_t i = 0; i < s->held_count; i++)
        count += s->held[i].until > clock_of(g);
    return count;
}

/* ---- what is believed ------------------------------------------------------------------------------------------- */

/* From the moment of sending, or as near as anybody can tell; less what clocks may drift. */
static int64_t believed_until(const struct errand *e)
{
    int64_t from = e->called;

    if (e->lease_ms == RDL_LEASE_NEVER)
        return RDL__NEVER;
    if (world_lag(from) == 0 && app_calm(e->guest->actor->app, from) && world_now() - net_round_trip() > from)
        from = world_now() - net_round_trip();
    return clock_of(e->guest) - (world_now() - from) + (e->lease_ms * 98 / 100 - 2) * RDL__MS;
}

static struct held *find_held(struct stake *s, const rdl_permit_t *permit)
{
    for (size_t i = 0; i < s->held_count; i++)
        if (strcmp(s->held[i].permit.id, permit->id) == 0)
            return &s->held[i];
    return NULL;
}

static void take_held(struct stake *s, size_t pool, const rdl_permit_t *permit, int64_t until)
{
    if (s->held_count == MOST_HELD)
        die("sim: more than %d permits", MOST_HELD);
    for (size_t i = 0; i < cast.actor_count; i++)
        if (find_held(&lobby.guests[i].stakes[pool], permit) != NULL)
            violated("permits have ids of their own", "%s comes twice", permit->id);
    s->held[s->held_count++] = (struct held){.permit = *permit, .until = until};
}

static bool is_sound(const struct errand *e, const struct held *h)
{
    int64_t on_its_way = net_connect_time() + 3 * net_round_trip() + 2 * RDL__MS;

    return h->until == RDL__NEVER || h->until > clock_of(e->guest) + on_its_way;
}

/* The permits that the errand is about, which are the guest's first. */
static void choose_held(struct errand *e)
{
    const struct stake *s = stake_of(e);

    e->sure = true;
    for (int64_t i = 0; i < e->amount; i++) {
        e->permits[i] = s->held[i].permit;
        e->sure = e->sure && is_sound(e, &s->held[i]);
    }
}

/* What is given back counts as given from the moment of the call, whatever comes of it. */
static void give_called(struct errand *e)
{
    struct stake *s = stake_of(e);

    if (!pool_of(e)->kind->leased) {
        s->count -= e->amount;
        pool_of(e)->out -= e->amount;
        return;
    }
    choose_held(e);
    s->held_count -= (size_t)e->amount;
    memmove(s->held, s->held + e->amount, s->held_count * sizeof s->held[0]);
}

/* One of them has expired, or may have, so none was given back. Of several nobody says which: they are had, and not
 * believed in. */
static void give_refused(struct errand *e)
{
    for (int64_t i = 0; e->amount > 1 && i < e->amount; i++)
        take_held(stake_of(e), e->pool, &e->permits[i], 0);
}

static void acquired(struct errand *e)
{
    if (!pool_of(e)->kind->leased) {
        stake_of(e)->count += e->amount;
        pool_of(e)->out += e->amount;
        return;
    }
    for (int64_t i = 0; i < e->amount; i++)
        take_held(stake_of(e), e->pool, &e->permits[i], believed_until(e));
}

static void drained(struct errand *e)
{
    stake_of(e)->count += e->result;
    pool_of(e)->out += e->result;
}

static void extended(struct errand *e)
{
    struct held *h = find_held(stake_of(e), &e->permits[0]);

    if (h != NULL && h->until != RDL__NEVER && h->until < believed_until(e))
        h->until = believed_until(e);
}

/* ---- errands ---------------------------------------------------------------------------------------------------- */

bool errand_waits(const struct errand *e)
{
    return e->verb == POOL_ACQUIRE || e->verb == POOL_AWAIT;
}

bool errand_canceled(const struct errand *e)
{
    return e->canceled || e->guest->actor->canceling > 0 || e->guest->actor->canceled_at >= e->called;
}

/* What is free may differ when nobody knows what became of the errand: once it is called, or times -1 when that is
 * known. */
static void note_doubt(const struct errand *e, int64_t times)
{
    struct pool *p = pool_of(e);
    size_t app = (size_t)(e->guest->actor->app - cast.apps);

    switch (e->verb) {
    case POOL_ACQUIRE:
    case POOL_GIVE:
    case POOL_ADD:
    case POOL_COUNT_DOWN:
        p->doubt[app] += times * e->amount;
        break;
    case POOL_DRAIN:
        p->drains[app] += times;
        break;
    default:
        break;
    }
}

static bool is_certain(const struct errand *e)
{
    return e->result >= 0 || e->result == RDL_ETIMEDOUT || (e->result == RDL_ELOST && e->verb == POOL_GIVE);
}

static void errand_called(struct errand *e)
{
    struct pool *p = pool_of(e);

    if (e->verb == POOL_GIVE)
        give_called(e);
    else if (e->verb == POOL_EXTEND)
        choose_held(e);
    else if (e->verb == POOL_ADD)
        p->total += e->amount;
    else if (e->verb == POOL_COUNT_DOWN)
        p->downs += e->amount;
    note_doubt(e, 1);
}

static struct errand *errand_new(struct guest *g, size_t pool, enum pool_verb verb, int64_t amount, int64_t wait_ms,
                                 int64_t lease_ms)
{
    struct errand *e = must_alloc(sizeof *e);
    bool own_wait;

    *e = (struct errand){.guest = g,
                         .pool = pool,
                         .verb = verb,
                         .amount = amount,
                         .wait_ms = wait_ms,
                         .lease_ms = lease_ms,
                         .called = world_now(),
                         .starter = fibre_here()};
    own_wait = errand_waits(e) && wait_ms > 0;
    e->deadline = rdl__after_ms(clock_of(g), own_wait ? wait_ms : cast.options.command_timeout_ms);
    rdl__list_push_back(&lobby.errands, &e->link);
    cast.deed_count++;
    say("%s calls %s %" PRId64 " of %s, wait %" PRId64 ", lease %" PRId64, g->actor->name, verbs[verb], amount,
        lobby.pools[pool].text, wait_ms, lease_ms);
    errand_called(e);
    return e;
}

static void answered(struct errand *e, int64_t result)
{
    if (e->done) {
        violated("each asynchronous call calls back once", "%s of %s", verbs[e->verb], e->guest->actor->name);
        return;
    }
    e->done = true;
    e->result = result;
    rdl__list_remove(&e->link);
    say("%s: %s %s answers %s %" PRId64, e->guest->actor->name, verbs[e->verb], pool_of(e)->text,
        result > 0 ? "yes" : rdl_err_name((int)result), result);
    if (is_certain(e))
        note_doubt(e, -1);
    if (e->verb == POOL_ACQUIRE && result == RDL_OK)
        acquired(e);
    else if (e->verb == POOL_GIVE && pool_of(e)->kind->leased && (result == RDL_ELOST || (result < 0 && !e->sure)))
        give_refused(e);
    else if (e->verb == POOL_DRAIN && result > 0)
        drained(e);
    else if (e->verb == POOL_EXTEND && result == RDL_OK)
        extended(e);
    check_errand(e);
    if (e->waiter != NULL)
        fibre_wake(e->waiter, 0);
}

static void called_back(struct errand *e, int64_t result, const rdl_err_t *err)
{
    check_callback(e->starter, result, err, e->guest->actor->name, verbs[e->verb]);
    answered(e, result);
}

static int64_t call_it(void *what)
{
    struct errand *e = what;
    rdl_err_t err = {0};

    return pool_of(e)->kind->call(e, &err);
}

struct errand *begin_errand(struct guest *g, size_t pool, enum pool_verb verb, int64_t amount, int64_t wait_ms,
                            int64_t lease_ms)
{
    struct errand *e = errand_new(g, pool, verb, amount, wait_ms, lease_ms);
    rdl_err_t err = {0};
    int rc = pool_of(e)->kind->start(e, &err);

    e->starter = NULL;
    if (rc < 0)
        answered(e, rc);
    return e;
}

int64_t end_errand(struct errand *e)
{
    int64_t result;

    while (!e->done) {
        e->waiter = fibre_here();
        fibre_wait(RDL__NEVER);
        e->waiter = NULL;
    }
    result = e->result;
    (void)rdl_op_free(e->op);
    free(e);
    return result;
}

int64_t run_errand(struct guest *g, size_t pool, enum pool_verb verb, int64_t amount, int64_t wait_ms, int64_t lease_ms)
{
    struct errand *e;

    if (!g->actor->blocking)
        return end_errand(begin_errand(g, pool, verb, amount, wait_ms, lease_ms));
    e = errand_new(g, pool, verb, amount, wait_ms, lease_ms);
    e->starter = NULL;
    answered(e, act_as(g->actor, call_it, e));
    return end_errand(e);
}

void cancel_errand(struct errand *e)
{
    if (e->done)
        return;
    say("%s cancels its %s", e->guest->actor->name, verbs[e->verb]);
    e->canceled = true;
    if (e->op != NULL) /* it has returned */
        rdl_op_cancel(e->op);
}

/* ---- permits that are numbers ----------------------------------------------------------------------------------- */

_Noreturn static void no_verb(const struct errand *e)
{
    die("sim: a %s has no verb %s", pool_of(e)->kind->name, verbs[e->verb]);
}

static rdl_semaphore_options_t options_of(size_t pool)
{
    rdl_semaphore_options_t options = RDL_SEMAPHORE_OPTIONS_INIT;

    options.fair = lobby.pools[pool].fair;
    return options;
}

static void plain_make(struct guest *g, size_t pool)
{
    rdl_semaphore_options_t options = options_of(pool);
    rdl_err_t err = {0};

    if (rdl_semaphore(g->actor->app->client, lobby.pools[pool].text, &options, &g->handles[pool].plain, &err) < 0)
        die("sim: %s", err.message);
}

static void plain_unmake(struct guest *g, size_t pool)
{
    g->handles[pool].plain = rdl_semaphore_free(g->handles[pool].plain);
}

static int64_t plain_call(struct errand *e, rdl_err_t *err)
{
    rdl_semaphore_t *s = e->guest->handles[e->pool].plain;

    switch (e->verb) {
    case POOL_ACQUIRE:
        return rdl_semaphore_try_acquire(s, e->amount, e->wait_ms, err);
    case POOL_GIVE:
        return rdl_semaphore_release(s, e->amount, err);
    case POOL_DRAIN:
        return rdl_semaphore_drain(s, err);
    case POOL_ADD:
        return rdl_semaphore_add_permits(s, e->amount, err);
    case POOL_SET:
        return rdl_semaphore_try_set_permits(s, pool_of(e)->total, err);
    case POOL_LOOK:
        return rdl_semaphore_available(s, err);
    default:
        no_verb(e);
    }
}

static void plain_answer(rdl_semaphore_t *s, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)s;
    called_back(arg, result, err);
}

static int plain_start(struct errand *e, rdl_err_t *err)
{
    rdl_semaphore_t *s = e->guest->handles[e->pool].plain;
    rdl_owner_t *owner = e->guest->actor->owner;

    switch (e->verb) {
    case POOL_ACQUIRE:
        return rdl_semaphore_try_acquire_async(s, owner, e->amount, e->wait_ms, plain_answer, e, &e->op, err);
    case POOL_GIVE:
        return rdl_semaphore_release_async(s, owner, e->amount, plain_answer, e, &e->op, err);
    case POOL_DRAIN:
        return rdl_semaphore_drain_async(s, owner, plain_answer, e, &e->op, err);
    case POOL_ADD:
        return rdl_semaphore_add_permits_async(s, owner, e->amount, plain_answer, e, &e->op, err);
    case POOL_SET:
        return rdl_semaphore_try_set_permits_async(s, owner, pool_of(e)->total, plain_answer, e, &e->op, err);
    case POOL_LOOK:
        return rdl_semaphore_available_async(s, owner, plain_answer, e, &e->op, err);
    default:
        no_verb(e);
    }
}

/* ---- permits with leases ---------------------------------------------------------------------------------------- */

static void leased_make(struct guest *g, size_t pool)
{
    rdl_semaphore_options_t options = options_of(pool);
    rdl_err_t err = {0};

    if (rdl_permit_semaphore(g->actor->app->client, lobby.pools[pool].text, &options, &g->handles[pool].leased, &err) <
        0)
        die("sim: %s", err.message);
}

static void leased_unmake(struct guest *g, size_t pool)
{
    g->handles[pool].leased = rdl_permit_semaphore_free(g->handles[pool].leased);
}

static int64_t leased_call(struct errand *e, rdl_err_t *err)
{
    rdl_permit_semaphore_t *s = e->guest->handles[e->pool].leased;

    switch (e->verb) {
    case POOL_ACQUIRE:
        return rdl_permit_semaphore_try_acquire(s, e->amount, e->wait_ms, e->lease_ms, e->permits, err);
    case POOL_GIVE:
        return rdl_permit_semaphore_release(s, e->amount, e->permits, err);
    case POOL_SET:
        return rdl_permit_semaphore_set_permits(s, pool_of(e)->total, err);
    case POOL_EXTEND:
        return rdl_permit_semaphore_extend(s, e->permits, e->lease_ms, err);
    case POOL_LOOK:
        return rdl_permit_semaphore_available(s, err);
    default:
        no_verb(e);
    }
}

static void leased_answer(rdl_permit_semaphore_t *s, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)s;
    called_back(arg, result, err);
}

static int leased_start(struct errand *e, rdl_err_t *err)
{
    rdl_permit_semaphore_t *s = e->guest->handles[e->pool].leased;
    rdl_owner_t *owner = e->guest->actor->owner;

    switch (e->verb) {
    case POOL_ACQUIRE:
        return rdl_permit_semaphore_try_acquire_async(s, owner, e->amount, e->wait_ms, e->lease_ms, e->permits,
                                                      leased_answer, e, &e->op, err);
    case POOL_GIVE:
        return rdl_permit_semaphore_release_async(s, owner, e->amount, e->permits, leased_answer, e, &e->op, err);
    case POOL_SET:
        return rdl_permit_semaphore_set_permits_async(s, owner, pool_of(e)->total, leased_answer, e, &e->op, err);
    case POOL_EXTEND:
        return rdl_permit_semaphore_extend_async(s, owner, e->permits, e->lease_ms, leased_answer, e, &e->op, err);
    case POOL_LOOK:
        return rdl_permit_semaphore_available_async(s, owner, leased_answer, e, &e->op, err);
    default:
        no_verb(e);
    }
}

/* ---- latches ---------------------------------------------------------------------------------------------------- */

static void latch_make(struct guest *g, size_t pool)
{
    rdl_err_t err = {0};

    if (rdl_latch(g->actor->app->client, lobby.pools[pool].text, NULL, &g->handles[pool].latch, &err) < 0)
        die("sim: %s", err.message);
}

static void latch_unmake(struct guest *g, size_t pool)
{
    g->handles[pool].latch = rdl_latch_free(g->handles[pool].latch);
}

static int64_t latch_call(struct errand *e, rdl_err_t *err)
{
    rdl_latch_t *latch = e->guest->handles[e->pool].latch;

    switch (e->verb) {
    case POOL_COUNT_DOWN:
        return rdl_latch_count_down(latch, err);
    case POOL_AWAIT:
        return rdl_latch_await(latch, e->wait_ms, err);
    case POOL_LOOK:
        return rdl_latch_count(latch, err);
    default:
        no_verb(e);
    }
}

static void latch_answer(rdl_latch_t *latch, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)latch;
    called_back(arg, result, err);
}

static int latch_start(struct errand *e, rdl_err_t *err)
{
    rdl_latch_t *latch = e->guest->handles[e->pool].latch;
    rdl_owner_t *owner = e->guest->actor->owner;

    switch (e->verb) {
    case POOL_COUNT_DOWN:
        return rdl_latch_count_down_async(latch, owner, latch_answer, e, &e->op, err);
    case POOL_AWAIT:
        return rdl_latch_await_async(latch, owner, e->wait_ms, latch_answer, e, &e->op, err);
    case POOL_LOOK:
        return rdl_latch_count_async(latch, owner, latch_answer, e, &e->op, err);
    default:
        no_verb(e);
    }
}

/* ---- the kinds -------------------------------------------------------------------------------------------------- */

#define VERB(verb) (1u << POOL_##verb)

const struct pool_kind pool_kinds[] = {
    {.name = "semaphore",
     .verbs = VERB(ACQUIRE) | VERB(GIVE) | VERB(DRAIN) | VERB(ADD) | VERB(SET) | VERB(LOOK),
     .make = plain_make,
     .unmake = plain_unmake,
     .call = plain_call,
     .start = plain_start},
    {.name = "permit semaphore",
     .leased = true,
     .verbs = VERB(ACQUIRE) | VERB(GIVE) | VERB(SET) | VERB(EXTEND) | VERB(LOOK),
     .make = leased_make,
     .unmake = leased_unmake,
     .call = leased_call,
     .start = leased_start},
    {.name = "latch",
     .counts_down = true,
     .verbs = VERB(COUNT_DOWN) | VERB(AWAIT) | VERB(LOOK),
     .make = latch_make,
     .unmake = latch_unmake,
     .call = latch_call,
     .start = latch_start},
};
const size_t pool_kind_count = sizeof pool_kinds / sizeof pool_kinds[0];
