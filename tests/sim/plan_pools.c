/* SPDX-License-Identifier: MIT */
/* plan_pools.c - random runs with semaphores and latches (plan.c). */
#include "tests/sim/check_pools.h"
#include "tests/sim/mishaps.h"
#include "tests/sim/play.h"
#include "tests/sim/pools.h"

#define MOST_LEASE_MS 3000

/* ---- what actors do --------------------------------------------------------------------------------------------- */

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

/* How many a guest asks for, and how. */
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

static struct errand *begin(struct guest *g, size_t pool, enum pool_verb verb)
{
    struct terms terms = any_terms();

    return begin_errand(g, pool, verb, terms.amount, terms.wait_ms, terms.lease_ms);
}

static void acquire(struct guest *g, size_t pool, enum pool_verb verb)
{
    struct terms terms = any_terms();

    (void)run_errand(g, pool, verb, terms.amount, terms.wait_ms, terms.lease_ms);
}

static void acquire_and_cancel(struct guest *g, size_t pool, enum pool_verb verb)
{
    struct errand *e = begin(g, pool, verb);

    fibre_sleep(draw_ms(0, 20));
    cancel_errand(e);
    (void)end_errand(e);
}

static void acquire_and_be_canceled(struct guest *g, size_t pool, enum pool_verb verb)
{
    struct cancellation c;

    cancellation_begin(&c, g->actor);
    acquire(g, pool, verb);
    cancellation_end(&c);
}

static void acquire_several(struct guest *g, size_t pool, enum pool_verb verb)
{
    struct errand *errands[4];
    size_t count = 2 + draw(3);

    for (size_t i = 0; i < count; i++)
        errands[i] = begin(g, pool, verb);
    for (size_t i = 0; i < count; i++)
        (void)end_errand(errands[i]);
}

static void wait_any_way(struct guest *g, size_t pool, enum pool_verb verb)
{
    unsigned way = (unsigned)draw(16);

    if (way < 2)
        acquire_and_cancel(g, pool, verb);
    else if (way < 4)
        acquire_and_be_canceled(g, pool, verb);
    else if (way < 7)
        acquire_several(g, pool, verb);
    else
        acquire(g, pool, verb);
}

/* How many permits it can give back, sound or not. */
static int64_t has(const struct guest *g, size_t pool)
{
    return g->stakes[pool].count + (int64_t)g->stakes[pool].held_count;
}

static void give_some(struct guest *g, size_t pool)
{
    int64_t most = has(g, pool) < MOST_WISH ? has(g, pool) : MOST_WISH;

    (void)run_errand(g, pool, POOL_GIVE, draw_from(1, most), 0, 0);
}

static void other_verb(struct guest *g, size_t pool)
{
    static const enum pool_verb others[] = {POOL_LOOK, POOL_DRAIN, POOL_ADD, POOL_SET, POOL_EXTEND};
    enum pool_verb verb = others[draw(sizeof others / sizeof others[0])];

    if ((lobby.pools[pool].kind->verbs >> verb & 1) == 0 || (verb == POOL_EXTEND && g->stakes[pool].held_count == 0))
        verb = POOL_LOOK;
    (void)run_errand(g, pool, verb, 1, 0, draw_from(1, MOST_LEASE_MS));
}

static void use_permits(struct guest *g, size_t pool)
{
    unsigned what = (unsigned)draw(16);
    bool some = has(g, pool) > 0;

    if (some)
        fibre_sleep(chance(1, 8) ? draw_ms(0, 300) : draw_ms(0, 20));
    if (!goes_on(g->actor))
        return;
    if (what < 2)
        other_verb(g, pool);
    else if (some && (what < 11 || has(g, pool) >= MOST_HELD / 2))
        give_some(g, pool);
    else
        wait_any_way(g, pool, POOL_ACQUIRE);
}

static void use_latch(struct guest *g, size_t pool)
{
    unsigned what = (unsigned)draw(16);

    if (what < 1)
        (void)run_errand(g, pool, POOL_LOOK, 0, 0, 0);
    else if (what < 8)
        (void)run_errand(g, pool, POOL_COUNT_DOWN, 1, 0, 0);
    else
        wait_any_way(g, pool, POOL_AWAIT);
}

static void give_all_back(struct guest *g)
{
    for (size_t i = 0; i < lobby.pool_count; i++)
        while (goes_on(g->actor) && has(g, i) > 0 && !chance(1, 64))
            give_some(g, i);
}

static void act_as_guest(struct actor *actor)
{
    struct guest *g = guest_join(actor);
    size_t steps = 2 + draw(8);

    for (size_t i = 0; i < steps && goes_on(actor); i++) {
        size_t pool = draw(lobby.pool_count);

        fibre_sleep(chance(1, 8) ? draw_ms(0, 100) : draw_ms(0, 8));
        if (!goes_on(actor))
            break;
        if (lobby.pools[pool].kind->counts_down)
            use_latch(g, pool);
        else
            use_permits(g, pool);
    }
    give_all_back(g);
    guest_leave(g);
}

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static void draw_pools(void)
{
    static const char *const texts[MOST_POOLS] = {"seats", "{slot}:pool"};
    size_t pools = chance(3, 4) ? 1 : MOST_POOLS;
    size_t apps = 1 + draw(3);

    lobby_open();
    for (size_t i = 0; i < pools; i++) {
        const struct pool_kind *kind = &pool_kinds[draw(pool_kind_count)];
        int64_t total = draw_from(1, kind->counts_down ? 6 : 4);

        (void)pool_add(texts[i], kind, !kind->counts_down && chance(1, 2), total);
    }
    for (size_t i = 0; i < apps; i++)
        (void)cast_app(draw_from(0, 4000));
}

const struct play pool_play = {.checks = pool_checks, .draw = draw_pools, .act = act_as_guest, .counts_undone = true};
