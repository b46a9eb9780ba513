/* SPDX-License-Identifier: MIT */
/* pools.c - pools, users and calls. */
#include "tests/sim/pools.h"

#include "tests/sim/check_pools.h"
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool_sim pool_sim;

static const char *const verbs[POOL_VERBS] = {"acquire", "give", "drain",      "add",  "set",
                                              "extend",  "look", "count down", "await"};

/* ---- what there is ---------------------------------------------------------------------------------------------- */

void pool_sim_begin(void)
{
    memset(&pool_sim, 0, sizeof pool_sim);
    rdl__list_init(&pool_sim.calls);
}

struct pool *pool_add(const char *text, const struct pool_kind *kind, bool fair, int64_t total)
{
    struct pool *p = &pool_sim.pools[pool_sim.pool_count++];
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

struct pool_user *pool_user_join(struct caller *caller)
{
    struct pool_user *user = &pool_sim.users[caller - sim.callers];

    user->caller = caller;
    for (size_t i = 0; i < pool_sim.pool_count; i++)
        pool_sim.pools[i].kind->make(user, i);
    return user;
}

void pool_user_leave(struct pool_user *user)
{
    for (size_t i = 0; i < pool_sim.pool_count; i++)
        pool_sim.pools[i].kind->unmake(user, i);
    caller_leave(user->caller);
}

static struct stake *stake_of(const struct pool_call *call)
{
    return &call->user->stakes[call->pool];
}

static struct pool *pool_of(const struct pool_call *call)
{
    return &pool_sim.pools[call->pool];
}

static int64_t clock_of(const struct pool_user *user)
{
    return process_clock(&user->caller->app->process);
}

int64_t pool_user_has(const struct pool_user *user, size_t pool)
{
    const struct stake *s = &user->stakes[pool];
    int64_t count = s->count;

    if (user->caller == NULL || user->caller->app->dead)
        return 0;
    for (size_t i = 0; i < s->held_count; i++)
        count += s->held[i].until > clock_of(user);
    return count;
}

/* ---- what is believed ------------------------------------------------------------------------------------------- */

/* From the moment of sending, or as near as anybody can tell; less what clocks may drift. */
static int64_t believed_until(const struct pool_call *call)
{
    int64_t from = call->called;

    if (call->lease_ms == RDL_LEASE_NEVER)
        return RDL__NEVER;
    if (world_lag(from) == 0 && app_calm(call->user->caller->app, from) && world_now() - net_round_trip() > from)
        from = world_now() - net_round_trip();
    return clock_of(call->user) - (world_now() - from) + (call->lease_ms * 98 / 100 - 2) * RDL__MS;
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
    for (size_t i = 0; i < sim.caller_count; i++)
        if (find_held(&pool_sim.users[i].stakes[pool], permit) != NULL)
            violated("permits have ids of their own", "%s comes twice", permit->id);
    s->held[s->held_count++] = (struct held){.permit = *permit, .until = until};
}

static bool is_sound(const struct pool_call *call, const struct held *h)
{
    int64_t on_its_way = net_connect_time() + 3 * net_round_trip() + 2 * RDL__MS;

    return h->until == RDL__NEVER || h->until > clock_of(call->user) + on_its_way;
}

/* The permits that the call is about, which are the user's first. */
static void choose_held(struct pool_call *call)
{
    const struct stake *s = stake_of(call);

    call->sure = true;
    for (int64_t i = 0; i < call->amount; i++) {
        call->permits[i] = s->held[i].permit;
        call->sure = call->sure && is_sound(call, &s->held[i]);
    }
}

/* What is given back counts as given from the moment of the call, whatever comes of it. */
static void give_called(struct pool_call *call)
{
    struct stake *s = stake_of(call);

    if (!pool_of(call)->kind->leased) {
        s->count -= call->amount;
        pool_of(call)->out -= call->amount;
        return;
    }
    choose_held(call);
    s->held_count -= (size_t)call->amount;
    memmove(s->held, s->held + call->amount, s->held_count * sizeof s->held[0]);
}

/* One of them has expired, or may have, so none was given back. Of several nobody says which: they are had, and not
 * believed in. */
static void give_refused(struct pool_call *call)
{
    for (int64_t i = 0; call->amount > 1 && i < call->amount; i++)
        take_held(stake_of(call), call->pool, &call->permits[i], 0);
}

static void acquired(struct pool_call *call)
{
    if (!pool_of(call)->kind->leased) {
        stake_of(call)->count += call->amount;
        pool_of(call)->out += call->amount;
        return;
    }
    for (int64_t i = 0; i < call->amount; i++)
        take_held(stake_of(call), call->pool, &call->permits[i], believed_until(call));
}

static void drained(struct pool_call *call)
{
    stake_of(call)->count += call->result;
    pool_of(call)->out += call->result;
}

static void extended(struct pool_call *call)
{
    struct held *h = find_held(stake_of(call), &call->permits[0]);

    if (h != NULL && h->until != RDL__NEVER && h->until < believed_until(call))
        h->until = believed_until(call);
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

bool pool_call_waits(const struct pool_call *call)
{
    return call->verb == POOL_ACQUIRE || call->verb == POOL_AWAIT;
}

bool pool_call_canceled(const struct pool_call *call)
{
    return call->canceled || call->user->caller->canceling > 0 || call->user->caller->canceled_at >= call->called;
}

/* What is free may differ when nobody knows what became of the call: once it is called, or times -1 when that is
 * known. */
static void note_doubt(const struct pool_call *call, int64_t times)
{
    struct pool *p = pool_of(call);
    size_t app = (size_t)(call->user->caller->app - sim.apps);

    switch (call->verb) {
    case POOL_ACQUIRE:
    case POOL_GIVE:
    case POOL_ADD:
    case POOL_COUNT_DOWN:
        p->doubt[app] += times * call->amount;
        break;
    case POOL_DRAIN:
        p->drains[app] += times;
        break;
    default:
        break;
    }
}

static bool is_certain(const struct pool_call *call)
{
    return call->result >= 0 || call->result == RDL_ETIMEDOUT || (call->result == RDL_ELOST && call->verb == POOL_GIVE);
}

static void pool_call_called(struct pool_call *call)
{
    struct pool *p = pool_of(call);

    if (call->verb == POOL_GIVE)
        give_called(call);
    else if (call->verb == POOL_EXTEND)
        choose_held(call);
    else if (call->verb == POOL_ADD)
        p->total += call->amount;
    else if (call->verb == POOL_COUNT_DOWN)
        p->downs += call->amount;
    note_doubt(call, 1);
}

static struct pool_call *pool_call_new(struct pool_user *user, size_t pool, enum pool_verb verb, int64_t amount,
                                       int64_t wait_ms, int64_t lease_ms)
{
    struct pool_call *call = must_alloc(sizeof *call);
    bool own_wait;

    *call = (struct pool_call){.user = user,
                               .pool = pool,
                               .verb = verb,
                               .amount = amount,
                               .wait_ms = wait_ms,
                               .lease_ms = lease_ms,
                               .called = world_now(),
                               .starter = fibre_here()};
    own_wait = pool_call_waits(call) && wait_ms > 0;
    call->deadline = rdl__after_ms(clock_of(user), own_wait ? wait_ms : sim.options.command_timeout_ms);
    rdl__list_push_back(&pool_sim.calls, &call->link);
    sim.call_count++;
    say("%s calls %s %" PRId64 " of %s, wait %" PRId64 ", lease %" PRId64, user->caller->name, verbs[verb], amount,
        pool_sim.pools[pool].text, wait_ms, lease_ms);
    pool_call_called(call);
    return call;
}

static void answered(struct pool_call *call, int64_t result)
{
    if (call->done) {
        violated("each asynchronous call calls back once", "%s of %s", verbs[call->verb], call->user->caller->name);
        return;
    }
    call->done = true;
    call->result = result;
    rdl__list_remove(&call->link);
    say("%s: %s %s answers %s %" PRId64, call->user->caller->name, verbs[call->verb], pool_of(call)->text,
        result > 0 ? "yes" : rdl_err_name((int)result), result);
    if (is_certain(call))
        note_doubt(call, -1);
    if (call->verb == POOL_ACQUIRE && result == RDL_OK)
        acquired(call);
    else if (call->verb == POOL_GIVE && pool_of(call)->kind->leased &&
             (result == RDL_ELOST || (result < 0 && !call->sure)))
        give_refused(call);
    else if (call->verb == POOL_DRAIN && result > 0)
        drained(call);
    else if (call->verb == POOL_EXTEND && result == RDL_OK)
        extended(call);
    check_pool_call(call);
    if (call->waiter != NULL)
        fibre_wake(call->waiter, 0);
}

static void called_back(struct pool_call *call, int64_t result, const rdl_err_t *err)
{
    check_callback(call->starter, result, err, call->user->caller->name, verbs[call->verb]);
    answered(call, result);
}

static int64_t call_it(void *what)
{
    struct pool_call *call = what;
    rdl_err_t err = {0};

    return pool_of(call)->kind->call(call, &err);
}

struct pool_call *begin_pool_call(struct pool_user *user, size_t pool, enum pool_verb verb, int64_t amount,
                                  int64_t wait_ms, int64_t lease_ms)
{
    struct pool_call *call = pool_call_new(user, pool, verb, amount, wait_ms, lease_ms);
    rdl_err_t err = {0};
    int rc = pool_of(call)->kind->start(call, &err);

    call->starter = NULL;
    if (rc < 0)
        answered(call, rc);
    return call;
}

int64_t end_pool_call(struct pool_call *call)
{
    int64_t result;

    while (!call->done) {
        call->waiter = fibre_here();
        fibre_wait(RDL__NEVER);
        call->waiter = NULL;
    }
    result = call->result;
    (void)rdl_op_free(call->op);
    free(call);
    return result;
}

int64_t do_pool_call(struct pool_user *user, size_t pool, enum pool_verb verb, int64_t amount, int64_t wait_ms,
                     int64_t lease_ms)
{
    struct pool_call *call;

    if (!user->caller->blocking)
        return end_pool_call(begin_pool_call(user, pool, verb, amount, wait_ms, lease_ms));
    call = pool_call_new(user, pool, verb, amount, wait_ms, lease_ms);
    call->starter = NULL;
    answered(call, call_as(user->caller, call_it, call));
    return end_pool_call(call);
}

void cancel_pool_call(struct pool_call *call)
{
    if (call->done)
        return;
    say("%s cancels its %s", call->user->caller->name, verbs[call->verb]);
    call->canceled = true;
    if (call->op != NULL) /* it has returned */
        rdl_op_cancel(call->op);
}

/* ---- permits that are numbers ----------------------------------------------------------------------------------- */

_Noreturn static void no_verb(const struct pool_call *call)
{
    die("sim: a %s has no verb %s", pool_of(call)->kind->name, verbs[call->verb]);
}

static rdl_semaphore_options_t options_of(size_t pool)
{
    rdl_semaphore_options_t options = RDL_SEMAPHORE_OPTIONS_INIT;

    options.fair = pool_sim.pools[pool].fair;
    return options;
}

static void plain_make(struct pool_user *user, size_t pool)
{
    rdl_semaphore_options_t options = options_of(pool);
    rdl_err_t err = {0};

    if (rdl_semaphore(user->caller->app->client, pool_sim.pools[pool].text, &options, &user->handles[pool].plain,
                      &err) < 0)
        die("sim: %s", err.message);
}

static void plain_unmake(struct pool_user *user, size_t pool)
{
    user->handles[pool].plain = rdl_semaphore_free(user->handles[pool].plain);
}

static int64_t plain_call(struct pool_call *call, rdl_err_t *err)
{
    rdl_semaphore_t *s = call->user->handles[call->pool].plain;

    switch (call->verb) {
    case POOL_ACQUIRE:
        return rdl_semaphore_try_acquire(s, call->amount, call->wait_ms, err);
    case POOL_GIVE:
        return rdl_semaphore_release(s, call->amount, err);
    case POOL_DRAIN:
        return rdl_semaphore_drain(s, err);
    case POOL_ADD:
        return rdl_semaphore_add_permits(s, call->amount, err);
    case POOL_SET:
        return rdl_semaphore_try_set_permits(s, pool_of(call)->total, err);
    case POOL_LOOK:
        return rdl_semaphore_available(s, err);
    default:
        no_verb(call);
    }
}

static void plain_answer(rdl_semaphore_t *s, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)s;
    called_back(arg, result, err);
}

static int plain_start(struct pool_call *call, rdl_err_t *err)
{
    rdl_semaphore_t *s = call->user->handles[call->pool].plain;
    rdl_owner_t *owner = call->user->caller->owner;

    switch (call->verb) {
    case POOL_ACQUIRE:
        return rdl_semaphore_try_acquire_async(s, owner, call->amount, call->wait_ms, plain_answer, call, &call->op,
                                               err);
    case POOL_GIVE:
        return rdl_semaphore_release_async(s, owner, call->amount, plain_answer, call, &call->op, err);
    case POOL_DRAIN:
        return rdl_semaphore_drain_async(s, owner, plain_answer, call, &call->op, err);
    case POOL_ADD:
        return rdl_semaphore_add_permits_async(s, owner, call->amount, plain_answer, call, &call->op, err);
    case POOL_SET:
        return rdl_semaphore_try_set_permits_async(s, owner, pool_of(call)->total, plain_answer, call, &call->op, err);
    case POOL_LOOK:
        return rdl_semaphore_available_async(s, owner, plain_answer, call, &call->op, err);
    default:
        no_verb(call);
    }
}

/* ---- permits with leases ---------------------------------------------------------------------------------------- */

static void leased_make(struct pool_user *user, size_t pool)
{
    rdl_semaphore_options_t options = options_of(pool);
    rdl_err_t err = {0};

    if (rdl_permit_semaphore(user->caller->app->client, pool_sim.pools[pool].text, &options,
                             &user->handles[pool].leased, &err) < 0)
        die("sim: %s", err.message);
}

static void leased_unmake(struct pool_user *user, size_t pool)
{
    user->handles[pool].leased = rdl_permit_semaphore_free(user->handles[pool].leased);
}

static int64_t leased_call(struct pool_call *call, rdl_err_t *err)
{
    rdl_permit_semaphore_t *s = call->user->handles[call->pool].leased;

    switch (call->verb) {
    case POOL_ACQUIRE:
        return rdl_permit_semaphore_try_acquire(s, call->amount, call->wait_ms, call->lease_ms, call->permits, err);
    case POOL_GIVE:
        return rdl_permit_semaphore_release(s, call->amount, call->permits, err);
    case POOL_SET:
        return rdl_permit_semaphore_set_permits(s, pool_of(call)->total, err);
    case POOL_EXTEND:
        return rdl_permit_semaphore_extend(s, call->permits, call->lease_ms, err);
    case POOL_LOOK:
        return rdl_permit_semaphore_available(s, err);
    default:
        no_verb(call);
    }
}

static void leased_answer(rdl_permit_semaphore_t *s, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)s;
    called_back(arg, result, err);
}

static int leased_start(struct pool_call *call, rdl_err_t *err)
{
    rdl_permit_semaphore_t *s = call->user->handles[call->pool].leased;
    rdl_owner_t *owner = call->user->caller->owner;

    switch (call->verb) {
    case POOL_ACQUIRE:
        return rdl_permit_semaphore_try_acquire_async(s, owner, call->amount, call->wait_ms, call->lease_ms,
                                                      call->permits, leased_answer, call, &call->op, err);
    case POOL_GIVE:
        return rdl_permit_semaphore_release_async(s, owner, call->amount, call->permits, leased_answer, call, &call->op,
                                                  err);
    case POOL_SET:
        return rdl_permit_semaphore_set_permits_async(s, owner, pool_of(call)->total, leased_answer, call, &call->op,
                                                      err);
    case POOL_EXTEND:
        return rdl_permit_semaphore_extend_async(s, owner, call->permits, call->lease_ms, leased_answer, call,
                                                 &call->op, err);
    case POOL_LOOK:
        return rdl_permit_semaphore_available_async(s, owner, leased_answer, call, &call->op, err);
    default:
        no_verb(call);
    }
}

/* ---- latches ---------------------------------------------------------------------------------------------------- */

static void latch_make(struct pool_user *user, size_t pool)
{
    rdl_err_t err = {0};

    if (rdl_latch(user->caller->app->client, pool_sim.pools[pool].text, NULL, &user->handles[pool].latch, &err) < 0)
        die("sim: %s", err.message);
}

static void latch_unmake(struct pool_user *user, size_t pool)
{
    user->handles[pool].latch = rdl_latch_free(user->handles[pool].latch);
}

static int64_t latch_call(struct pool_call *call, rdl_err_t *err)
{
    rdl_latch_t *latch = call->user->handles[call->pool].latch;

    switch (call->verb) {
    case POOL_COUNT_DOWN:
        return rdl_latch_count_down(latch, err);
    case POOL_AWAIT:
        return rdl_latch_await(latch, call->wait_ms, err);
    case POOL_LOOK:
        return rdl_latch_count(latch, err);
    default:
        no_verb(call);
    }
}

static void latch_answer(rdl_latch_t *latch, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)latch;
    called_back(arg, result, err);
}

static int latch_start(struct pool_call *call, rdl_err_t *err)
{
    rdl_latch_t *latch = call->user->handles[call->pool].latch;
    rdl_owner_t *owner = call->user->caller->owner;

    switch (call->verb) {
    case POOL_COUNT_DOWN:
        return rdl_latch_count_down_async(latch, owner, latch_answer, call, &call->op, err);
    case POOL_AWAIT:
        return rdl_latch_await_async(latch, owner, call->wait_ms, latch_answer, call, &call->op, err);
    case POOL_LOOK:
        return rdl_latch_count_async(latch, owner, latch_answer, call, &call->op, err);
    default:
        no_verb(call);
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
