/* SPDX-License-Identifier: MIT */
/* plan_threads.c - random runs of threads that are interrupted anywhere (pct.h).
 *
 * A run is short: two or three threads of one client do a few verbs on one name, perhaps beside a client of another
 * process. One of them may be canceled by a further thread, or the client closed. Faults come where pct.c says; what
 * they cut off may come late. Clients are opened, and at the end closed, without interruptions; leases run out without
 * them, too.
 *
 * What a run is about is a row of `themes`: locks that are waited for; some that nobody waits for, so that a connection
 * is never idle; one owner that is several threads; a client that is closed meanwhile; permits and latches; composite
 * locks (composite.c).
 */
#include "tests/sim/check_pools.h"
#include "tests/sim/composite.h"
#include "tests/sim/mishaps.h"
#include "tests/sim/net.h"
#include "tests/sim/pct.h"
#include "tests/sim/pools.h"
#include "tests/sim/server.h"
#include "tests/sim/threads.h"
#include "tests/sim/workload.h"
#include "tests/support/wait.h"

#define MOST_THREADS 6
#define LONGEST_LEASE_MS 1000

struct theme {
    const struct check *const *checks;
    void (*draw)(void);
    void (*join)(struct caller *caller); /* NULL: it is there */
    void (*use)(struct caller *caller);
    unsigned closes;  /* of six runs in so many a client is closed early, */
    unsigned cancels; /* and somebody canceled */
    bool shared;      /* one owner is all threads of its client */
    bool alone;       /* there is no other client */
    unsigned points;  /* of a usual run */
};

static const struct theme *theme;
static bool in_haste; /* threads hardly rest, and meet the more */
static bool kept;     /* the locks are of those that clients keep */

static const struct kind *any_kind(void)
{
    return kept ? &kept_kinds[draw(kept_kind_count)] : &kinds[draw(kind_count)];
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

/* Others of its client may have waited for it, and what it sent may be found out to be lost only then. */
static void freezes(struct process *process, int64_t ns)
{
    app_disturb(app_that_owns(process), ns + sim_find_out_ns());
}

static void hold_up(struct conn *conn)
{
    int64_t ns = draw_ms(1, 100);

    app_disturb(app_that_owns(net_owner(conn)), ns + sim_find_out_ns());
    net_hold(conn, chance(1, 2) ? UP : DOWN, world_now() + ns);
}

static void fault(void)
{
    struct conn *conn = chance(1, 2) ? net_touched() : net_any(chance(3, 4) ? process_here() : NULL);

    if (conn == NULL)
        return;
    switch (draw(8)) {
    case 0:
        net_cut_after(conn, chance(1, 2) ? UP : DOWN, draw(300));
        break;
    case 1:
        hold_up(conn);
        break;
    case 2:
        server_flush_scripts();
        break;
    default:
        net_cut(conn);
        break;
    }
}

static const struct pct_hooks hooks = {.fault = fault, .freezes = freezes};

/* ---- locks ------------------------------------------------------------------------------------------------------ */

static size_t meeting; /* of those that share an owner: the end that they use */

static int64_t any_wait(void)
{
    switch (draw(8)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return draw_from(1, 10);
    case 3:
    case 4:
        return draw_from(20, 100);
    default:
        return RDL_WAIT_FOREVER;
    }
}

static int64_t any_lease(void)
{
    switch (draw(8)) {
    case 0:
        return draw_from(5, 60);
    case 1:
        return draw_from(100, LONGEST_LEASE_MS);
    default:
        return RDL_LEASE_AUTO;
    }
}

static void rest(void)
{
    if (chance(1, in_haste ? 8 : 2))
        fibre_sleep((int64_t)draw((uint64_t)(chance(1, 8) ? 100 * RDL__MS : 3 * RDL__MS)));
}

static void take(struct caller *caller, size_t end)
{
    int64_t wait_ms = any_wait(), lease_ms = any_lease();
    struct lock_call *call;

    if (!chance(1, 4)) {
        (void)call_and_wait(caller, end, TAKE, wait_ms, lease_ms);
        return;
    }
    call = begin_call(caller, end, TAKE, wait_ms, lease_ms);
    rest();
    if (chance(1, 2))
        cancel_call(call);
    (void)end_call(call);
}

static void with_a_hold(struct caller *caller, size_t end)
{
    rest();
    if (!goes_on(caller))
        return;
    switch (draw(12)) {
    case 0:
        (void)call_and_wait(caller, end, EXTEND, 0, draw_from(50, 500));
        break;
    case 1:
    case 2:
        take(caller, end);
        break;
    default:
        (void)call_and_wait(caller, end, RELEASE, 0, 0);
        break;
    }
}

static void without_a_hold(struct caller *caller, size_t end)
{
    switch (draw(24)) {
    case 0:
        (void)call_and_wait(caller, end, IS_LOCKED, 0, 0);
        break;
    case 1:
        (void)call_and_wait(caller, end, RELEASE, 0, 0);
        break;
    case 2:
        (void)call_and_wait(caller, end, FORCE, 0, 0);
        break;
    default:
        take(caller, end);
        break;
    }
}

static size_t any_end(void)
{
    size_t end = draw(sim.name_count);

    return name_at(end)->kind->make_shared != NULL && chance(sim.sharers, 8) ? other_end(end) : end;
}

static void threads_use_locks(struct caller *caller)
{
    size_t steps = kept ? 3 + draw(8) : 1 + draw(4); /* they are kept from the second take on */
    size_t end = theme->shared ? meeting : any_end();

    for (size_t i = 0; i < steps && goes_on(caller); i++) {
        rest();
        if (!goes_on(caller))
            break;
        if (caller->holds[end].count > 0)
            with_a_hold(caller, end);
        else
            without_a_hold(caller, end);
    }
    while (goes_on(caller) && caller->holds[end].count > 0)
        (void)call_and_wait(caller, end, RELEASE, 0, 0);
    caller_leave(caller);
}

/* Of two locks each thread has one: they do not wait for each other, and share the client's connections all the more.
 */
static void draw_locks(void)
{
    static const char *const texts[] = {"orders:42", "{slot}:b"};
    size_t names = 1 + draw(2);

    sim.sharers = (unsigned)draw(8);
    for (size_t i = 0; i < names; i++) {
        bool token = chance(1, 2);

        (void)sim_name(texts[i], any_kind(), token);
    }
}

static void draw_shared(void)
{
    draw_locks();
    meeting = any_end();
}

/* Each thread takes and gives back without a pause, and waits for nobody: something is always under way. */
static void hammer(struct caller *caller)
{
    size_t steps = 2 + draw(4);

    for (size_t i = 0; i < steps && goes_on(caller); i++) {
        size_t end = draw(sim.name_count);

        (void)call_and_wait(caller, end, TAKE, 0, chance(1, 2) ? RDL_LEASE_AUTO : LONGEST_LEASE_MS);
        while (goes_on(caller) && caller->holds[end].count > 0)
            (void)call_and_wait(caller, end, RELEASE, 0, 0);
    }
    caller_leave(caller);
}

static void draw_names(void)
{
    static const char *const texts[MOST_NAMES] = {"orders:42", "{slot}:b", "c"};

    for (size_t i = 0; i < MOST_NAMES; i++)
        (void)sim_name(texts[i], any_kind(), false);
    sim.options.connections = 1;
}

/* ---- permits and latches ---------------------------------------------------------------------------------------- */

static int64_t pool_wait(void)
{
    int64_t wait_ms = any_wait();

    return wait_ms == RDL_WAIT_FOREVER ? draw_from(200, 800) : wait_ms;
}

static int64_t pool_lease(void)
{
    switch (draw(8)) {
    case 0:
        return draw_from(5, 60);
    case 1:
        return RDL_LEASE_NEVER;
    default:
        return draw_from(200, LONGEST_LEASE_MS);
    }
}

static void wait_for(struct pool_user *user, enum pool_verb verb)
{
    int64_t amount = draw_from(1, MOST_WISH), wait_ms = pool_wait(), lease_ms = pool_lease();
    struct pool_call *call;

    if (!chance(1, 4)) {
        (void)do_pool_call(user, 0, verb, amount, wait_ms, lease_ms);
        return;
    }
    call = begin_pool_call(user, 0, verb, amount, wait_ms, lease_ms);
    rest();
    if (chance(1, 2))
        cancel_pool_call(call);
    (void)end_pool_call(call);
}

static int64_t has(const struct pool_user *user)
{
    return user->stakes[0].count + (int64_t)user->stakes[0].held_count;
}

static void give_some(struct pool_user *user)
{
    int64_t most = has(user) < MOST_WISH ? has(user) : MOST_WISH;

    (void)do_pool_call(user, 0, POOL_GIVE, draw_from(1, most), 0, 0);
}

static void other_verb(struct pool_user *user)
{
    static const enum pool_verb others[] = {POOL_LOOK, POOL_DRAIN, POOL_ADD, POOL_EXTEND};
    enum pool_verb verb = others[draw(sizeof others / sizeof others[0])];

    if ((pool_sim.pools[0].kind->verbs >> verb & 1) == 0 || (verb == POOL_EXTEND && user->stakes[0].held_count == 0))
        verb = POOL_LOOK;
    (void)do_pool_call(user, 0, verb, 1, 0, draw_from(1, LONGEST_LEASE_MS));
}

static void use_permits(struct pool_user *user)
{
    unsigned what = (unsigned)draw(16);

    if (what < 1)
        other_verb(user);
    else if (has(user) > 0 && (what < 11 || has(user) > MOST_HELD / 2))
        give_some(user);
    else
        wait_for(user, POOL_ACQUIRE);
}

static void use_latch(struct pool_user *user)
{
    unsigned what = (unsigned)draw(16);

    if (what < 1)
        (void)do_pool_call(user, 0, POOL_LOOK, 0, 0, 0);
    else if (what < 8)
        (void)do_pool_call(user, 0, POOL_COUNT_DOWN, 1, 0, 0);
    else
        wait_for(user, POOL_AWAIT);
}

static void use_pools(struct caller *caller)
{
    struct pool_user *user = &pool_sim.users[caller - sim.callers];
    size_t steps = 1 + draw(4);

    for (size_t i = 0; i < steps && goes_on(caller); i++) {
        rest();
        if (!goes_on(caller))
            break;
        if (pool_sim.pools[0].kind->counts_down)
            use_latch(user);
        else
            use_permits(user);
    }
    while (goes_on(caller) && has(user) > 0)
        give_some(user);
    pool_user_leave(user);
}

/* As `hammer`, several permits at a time. */
static void hammer_permits(struct caller *caller)
{
    struct pool_user *user = &pool_sim.users[caller - sim.callers];
    size_t steps = 1 + draw(3);

    for (size_t i = 0; i < steps && goes_on(caller); i++) {
        (void)do_pool_call(user, 0, POOL_ACQUIRE, draw_from(2, MOST_WISH), 0, LONGEST_LEASE_MS);
        while (goes_on(caller) && has(user) > 0)
            give_some(user);
    }
    pool_user_leave(user);
}

static void join_as_pool_user(struct caller *caller)
{
    (void)pool_user_join(caller);
}

static void draw_pool(void)
{
    const struct pool_kind *kind = &pool_kinds[chance(1, 4) ? 1 : draw(pool_kind_count)]; /* 1: those with ids */
    bool fair = !kind->counts_down && chance(1, 3);

    pool_sim_begin();
    (void)pool_add("seats", kind, fair, draw_from(1, kind->counts_down ? 3 : 4));
}

static void draw_permits(void)
{
    pool_sim_begin();
    (void)pool_add("seats", &pool_kinds[1], false, draw_from(4, 9));
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

enum { LOCKS, BUSY, SHARED, CLOSING, POOLS, PERMITS, THEMES };

static const struct theme themes[THEMES] = {
    [LOCKS] = {lock_checks, draw_locks, NULL, threads_use_locks, .closes = 1, .cancels = 1, .points = 1000},
    [BUSY] = {lock_checks, draw_names, NULL, hammer, .alone = true, .points = 1000},
    [SHARED] = {lock_checks, draw_shared, NULL, threads_use_locks, .closes = 1, .cancels = 2, .shared = true,
                .points = 1000},
    [CLOSING] = {lock_checks, draw_locks, NULL, threads_use_locks, .closes = 6, .cancels = 2, .alone = true,
                 .points = 400},
    [PERMITS] = {pool_checks, draw_permits, join_as_pool_user, hammer_permits, .alone = true, .points = 600},
    [POOLS] = {pool_checks, draw_pool, join_as_pool_user, use_pools, .closes = 1, .cancels = 1, .points = 1000},
};

static void draw_world(void)
{
    static const int64_t delays_us[] = {50, 200, 1000, 3000};
    int64_t delay_ns = delays_us[draw(4)] * RDL__US;
    struct net_config config = {
        .delay_ns = delay_ns, .late_of_16 = 10, .lost_of_4 = 1, .room = 1 << 20, .on_cut = app_cut};
    struct server_traits traits;

    config.jitter_ns = delay_ns / (chance(1, 2) ? 1 : 10);
    config.late_ns = draw_ms(1, 500);
    traits.old = chance(1, 32);
    traits.kill_refused = chance(1, 32);
    server_begin(&traits, 0);
    net_begin(&config);
    sim_begin();
    sim.options.command_timeout_ms = draw_from(70, 140);
    sim.options.watchdog_lease_ms = draw_from(100, 300);
    sim.options.reconnect_max_ms = draw_from(2, 20);
    sim.options.connections = chance(3, 4) ? 1 : 2;
}

static void open_now(void *arg)
{
    app_open(arg);
}

static void close_now(void *arg)
{
    app_close(arg);
}

static void run_caller(void *arg)
{
    theme->use(arg);
}

static void cancel_one(void *arg)
{
    struct app *app = arg;
    struct caller *caller;

    fibre_sleep((int64_t)draw((uint64_t)(10 * RDL__MS)));
    caller = &sim.callers[draw(sim.caller_count)];
    if (caller->app == app)
        cancel_caller(caller);
}

static void close_early(void *arg)
{
    fibre_sleep((int64_t)draw((uint64_t)((chance(1, 2) ? 2 : 20) * RDL__MS)));
    app_close(arg);
}

static void run_threads(void)
{
    struct caller *callers[MOST_THREADS];
    struct fibre *threads[MOST_THREADS];
    size_t count = 0, own = 2 + draw(2);
    struct app *app = &sim.apps[0];

    for (size_t i = 0; i < own; i++)
        callers[count++] = i > 0 && theme->shared ? caller_shared(callers[0]) : caller_join(app, true);
    for (size_t i = 1; i < sim.app_count; i++)
        callers[count++] = caller_join(&sim.apps[i], true);
    for (size_t i = 0; i < sim.caller_count && theme->join != NULL; i++)
        theme->join(&sim.callers[i]);
    for (size_t i = 0; i < count; i++)
        threads[i] = thread_start(&callers[i]->app->process, run_caller, callers[i]);
    if (chance(theme->cancels, 6))
        threads[count++] = thread_start(&app->process, cancel_one, app);
    if (chance(theme->closes, 6))
        threads[count++] = thread_start(&app->process, close_early, app);
    pct_arm(true);
    for (size_t i = 0; i < count; i++)
        fibre_join(threads[i]);
    pct_arm(false);
}

static void run_in(struct app *app, void (*body)(void *))
{
    fibre_join(fibre_start(&app->process, body, app));
}

static void run_run(void *arg)
{
    size_t apps = theme->alone ? 1 : 1 + draw(2);

    (void)arg;
    for (size_t i = 0; i < apps; i++)
        run_in(sim_app(0), open_now);
    run_threads();
    fibre_sleep(sim_find_out_ns() + sim_linger_ns() + server_undo_pause());
    checks_at_rest();
    for (size_t i = 0; i < apps; i++)
        run_in(&sim.apps[i], close_now);
    fibre_sleep((LONGEST_LEASE_MS + 100) * RDL__MS);
    checks_at_end();
}

static struct outcome run(const struct theme *about, uint64_t seed)
{
    struct outcome outcome;

    world_begin(seed);
    world_limit(120 * RDL__SEC);
    threads_begin();
    theme = about;
    in_haste = chance(1, 2) || theme->alone;
    pct_begin(theme->points, &hooks);
    draw_world();
    theme->draw();
    sim.leaves = seed % 4 == 0;
    checks_begin(theme->checks);
    outcome.over = world_run(run_run, NULL);
    outcome.broken = world_violation();
    outcome.operations = sim.call_count;
    outcome.events = pct_points();
    sim_end();
    server_end();
    net_end();
    world_end();
    return outcome;
}

/* ---- composites ------------------------------------------------------------------------------------------------- */

static void composite_fault(void)
{
    struct conn *conn = chance(1, 2) ? net_touched() : net_any(NULL);

    if (conn == NULL)
        return;
    switch (draw(4)) {
    case 0:
        net_cut_after(conn, chance(1, 2) ? UP : DOWN, draw(300));
        break;
    case 1:
        net_hold(conn, chance(1, 2) ? UP : DOWN, world_now() + draw_ms(1, 100));
        break;
    default:
        net_cut(conn);
        break;
    }
}

static void composite_freezes(struct process *process, int64_t ns)
{
    (void)process;
    (void)ns;
}

static const struct pct_hooks composite_hooks = {.fault = composite_fault, .freezes = composite_freezes};

static void composite_begin(void)
{
    threads_begin();
    pct_begin(2500, &composite_hooks);
}

static const struct composite_threads composite_threads = {.begin = composite_begin, .arm = pct_arm};

struct outcome threads_composite_run(uint64_t seed)
{
    return composite_run(seed, &composite_threads);
}

/* ---- threads.h -------------------------------------------------------------------------------------------------- */

struct outcome threads_run(uint64_t seed)
{
    static const unsigned char about[] = {LOCKS, LOCKS, BUSY, SHARED, CLOSING, POOLS, POOLS, PERMITS};

    if (seed % 16 == 15)
        return threads_composite_run(seed);
    return run(&themes[about[seed % sizeof about]], seed);
}

struct outcome threads_locks_run(uint64_t seed)
{
    return run(&themes[LOCKS], seed);
}

struct outcome threads_busy_run(uint64_t seed)
{
    return run(&themes[BUSY], seed);
}

struct outcome threads_shared_run(uint64_t seed)
{
    return run(&themes[SHARED], seed);
}

struct outcome threads_closing_run(uint64_t seed)
{
    return run(&themes[CLOSING], seed);
}

/* A usual theme, of locks that clients keep. */
struct outcome threads_kept_run(uint64_t seed)
{
    static const unsigned char about[] = {LOCKS, LOCKS, BUSY, LOCKS, SHARED, CLOSING};
    struct outcome outcome;

    kept = true;
    outcome = run(&themes[about[seed % sizeof about]], seed);
    kept = false;
    return outcome;
}

struct outcome threads_pools_run(uint64_t seed)
{
    return run(&themes[POOLS], seed);
}

struct outcome threads_permits_run(uint64_t seed)
{
    return run(&themes[PERMITS], seed);
}
