/* SPDX-License-Identifier: MIT */
/* plan_pools.c - random runs with semaphores and latches (plan.c). */
#include "tests/sim/check_pools.h"
#include "tests/sim/mishaps.h"
#include "tests/sim/pools.h"
#include "tests/sim/workload.h"

#define MOST_LEASE_MS 3000

/* ---- what callers do -------------------------------------------------------------------------------------------- */

/* Nobody waits for ever: permits go down with whoever crashes. Now and then somebody has the patience to outlive a dead
 * place in the queue. */
static int64_t any_wait(void)
{
    int64_t wait_ms = draw_wait_ms();

    if (wait_ms >= 0)
        return wait_ms;
    return chance(1, 16) ? 30000 : draw_from(200, 1500);
}

static int64_t any_lease(void)
{
    switch (draw(8)) {
    case 0:
        return draw_from(1, 8);
    case 1:
    case 2:
        return draw_from(20, 100);
    case 3:
        return RDL_LEASE_NEVER;
    default:
        return draw_from(200, MOST_LEASE_MS);
    }
}

/* How many a user asks for, and how. */
struct terms {
    int64_t lease_ms, wait_ms, amount;
};

static struct terms any_terms(void)
{
    struct terms terms;

    terms.lease_ms = any_lease();
    terms.wait_ms = any_wait();
    terms.amount = draw_from(1, MOST_WISH);
    return terms;
}

static struct pool_call *begin(struct pool_user *user, size_t pool, enum pool_verb verb)
{
    struct terms terms = any_terms();

    return begin_pool_call(user, pool, verb, terms.amount, terms.wait_ms, terms.lease_ms);
}

static void acquire(struct pool_user *user, size_t pool, enum pool_verb verb)
{
    struct terms terms = any_terms();

    (void)do_pool_call(user, pool, verb, terms.amount, terms.wait_ms, terms.lease_ms);
}

static void acquire_and_cancel(struct pool_user *user, size_t pool, enum pool_verb verb)
{
    struct pool_call *call = begin(user, pool, verb);

    fibre_sleep(draw_ms(0, 20));
    cancel_pool_call(call);
    (void)end_pool_call(call);
}

static void acquire_and_be_canceled(struct pool_user *user, size_t pool, enum pool_verb verb)
{
    struct cancellation c;

    cancellation_begin(&c, user->caller);
    acquire(user, pool, verb);
    cancellation_end(&c);
}

static void acquire_several(struct pool_user *user, size_t pool, enum pool_verb verb)
{
    struct pool_call *calls[4];
    size_t count = 2 + draw(3);

    for (size_t i = 0; i < count; i++)
        calls[i] = begin(user, pool, verb);
    for (size_t i = 0; i < count; i++)
        (void)end_pool_call(calls[i]);
}

static void wait_any_way(struct pool_user *user, size_t pool, enum pool_verb verb)
{
    unsigned way = (unsigned)draw(16);

    if (way < 2)
        acquire_and_cancel(user, pool, verb);
    else if (way < 4)
        acquire_and_be_canceled(user, pool, verb);
    else if (way < 7)
        acquire_several(user, pool, verb);
    else
        acquire(user, pool, verb);
}

/* How many permits it can give back, sound or not. */
static int64_t has(const struct pool_user *user, size_t pool)
{
    return user->stakes[pool].count + (int64_t)user->stakes[pool].held_count;
}

static void give_some(struct pool_user *user, size_t pool)
{
    int64_t most = has(user, pool) < MOST_WISH ? has(user, pool) : MOST_WISH;

    (void)do_pool_call(user, pool, POOL_GIVE, draw_from(1, most), 0, 0);
}

static void other_verb(struct pool_user *user, size_t pool)
{
    static const enum pool_verb others[] = {POOL_LOOK, POOL_DRAIN, POOL_ADD, POOL_SET, POOL_EXTEND};
    enum pool_verb verb = others[draw(sizeof others / sizeof others[0])];

    if ((pool_sim.pools[pool].kind->verbs >> verb & 1) == 0 ||
        (verb == POOL_EXTEND && user->stakes[pool].held_count == 0))
        verb = POOL_LOOK;
    (void)do_pool_call(user, pool, verb, 1, 0, draw_from(1, MOST_LEASE_MS));
}

static void use_permits(struct pool_user *user, size_t pool)
{
    unsigned what = (unsigned)draw(16);
    bool some = has(user, pool) > 0;

    if (some)
        fibre_sleep(chance(1, 8) ? draw_ms(0, 300) : draw_ms(0, 20));
    if (!goes_on(user->caller))
        return;
    if (what < 2)
        other_verb(user, pool);
    else if (some && (what < 11 || has(user, pool) >= MOST_HELD / 2))
        give_some(user, pool);
    else
        wait_any_way(user, pool, POOL_ACQUIRE);
}

static void use_latch(struct pool_user *user, size_t pool)
{
    unsigned what = (unsigned)draw(16);

    if (what < 1)
        (void)do_pool_call(user, pool, POOL_LOOK, 0, 0, 0);
    else if (what < 8)
        (void)do_pool_call(user, pool, POOL_COUNT_DOWN, 1, 0, 0);
    else
        wait_any_way(user, pool, POOL_AWAIT);
}

static void give_all_back(struct pool_user *user)
{
    for (size_t i = 0; i < pool_sim.pool_count; i++)
        while (goes_on(user->caller) && has(user, i) > 0 && !chance(1, 64))
            give_some(user, i);
}

static void use_pools(struct caller *caller)
{
    struct pool_user *user = pool_user_join(caller);
    size_t steps = 2 + draw(8);

    for (size_t i = 0; i < steps && goes_on(caller); i++) {
        size_t pool = draw(pool_sim.pool_count);

        fibre_sleep(chance(1, 8) ? draw_ms(0, 100) : draw_ms(0, 8));
        if (!goes_on(caller))
            break;
        if (pool_sim.pools[pool].kind->counts_down)
            use_latch(user, pool);
        else
            use_permits(user, pool);
    }
    give_all_back(user);
    pool_user_leave(user);
}

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static void draw_pools(void)
{
    static const char *const texts[MOST_POOLS] = {"seats", "{slot}:pool"};
    size_t pools = chance(3, 4) ? 1 : MOST_POOLS;
    size_t apps = 1 + draw(3);

    pool_sim_begin();
    for (size_t i = 0; i < pools; i++) {
        const struct pool_kind *kind = &pool_kinds[draw(pool_kind_count)];
        int64_t total = draw_from(1, kind->counts_down ? 6 : 4);

        (void)pool_add(texts[i], kind, !kind->counts_down && chance(1, 2), total);
    }
    for (size_t i = 0; i < apps; i++)
        (void)sim_app(draw_from(0, 4000));
}

const struct workload pool_workload = {
    .checks = pool_checks, .draw = draw_pools, .use = use_pools, .counts_undone = true};
