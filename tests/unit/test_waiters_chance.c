/* SPDX-License-Identifier: MIT */
/* test_waiters_chance.c - chance decides what happens next, at a server with one lock and at one with permits, and
 * nobody sleeps beside what would let it in (protocol.md, 5).
 */
#include "core/base/entropy.h"
#include "tests/unit/waiting.h"

TestSuite(waiters, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- a world where chance decides what happens next ------------------------------------------------------------- */

/* A server with one lock and a subscription, and a process with some callers. Requests, answers and messages are under
 * way for any time; the subscription breaks and comes back; callers cancel. The hint timer never fires here: messages
 * and acknowledgements alone must get everybody in. */

enum { CALLERS = 4, QUEUE_MAX = 64, STEPS = 400 };

enum phase { IDLE, TRYING, ASLEEP, HOLDING, GAVE_UP /* and its request may still be under way */ };
enum request { NOTHING, TRY, TRY_UNDONE /* a try and, behind it, what undoes it */, GRANTED, REFUSED };
enum news { SUBSCRIBED, MESSAGE_0, MESSAGE_1 };

struct caller {
    struct rdl__waiter waiter;
    enum phase phase;
    enum request request;
};

static struct {
    struct rdl__rand rand;
    struct caller callers[CALLERS];
    int waiting;            /* callers that have not got in, as the process counts them */
    struct caller *holder;  /* at the server; NULL: free, or the stranger has it */
    bool stranger;          /* another process holds it */
    bool connected;         /* the subscriber is */
    bool asked, subscribed; /* SUBSCRIBE is under way; the server has carried it out */
    enum news queue[QUEUE_MAX];
    size_t queued;
    int grants;
} world;

static size_t chance(size_t bound)
{
    return (size_t)rdl__rand_below(&world.rand, bound);
}

static void enqueue(enum news news)
{
    if (!world.subscribed)
        return;
    cr_assert_lt(world.queued, QUEUE_MAX);
    world.queue[world.queued++] = news;
}

static void send_try(struct caller *c)
{
    cr_assert_eq(c->request, NOTHING);
    rdl__waiter_sent(&c->waiter);
    c->phase = TRYING;
    c->request = TRY;
}

static void on_caller_go(struct rdl__waiter *w, int64_t now)
{
    (void)now;
    send_try(rdl__container(w, struct caller, waiter));
}

static const struct rdl__waiter_ops caller_ops = {.go = on_caller_go};

static void fall_asleep(struct caller *c)
{
    size_t before = sub.count;

    cr_assert_eq(rdl__waiter_join(&waiters, &c->waiter, "ch", 2, -1, loop.now), RDL_OK);
    c->phase = ASLEEP;
    if (before == 0)
        world.asked = world.connected;
}

static void forget_subscription_if_unused(void)
{
    if (sub.count != 0)
        return;
    world.asked = world.subscribed = false;
    world.queued = 0;
}

static void start(struct caller *c)
{
    if (c->phase != IDLE)
        return;
    if (world.waiting++ > 0)
        fall_asleep(c);
    else
        send_try(c);
}

static void leave(struct caller *c, bool used)
{
    world.waiting--;
    rdl__waiter_leave(&c->waiter, used, loop.now);
    forget_subscription_if_unused();
}

static void cancel(struct caller *c)
{
    if (c->phase == ASLEEP) {
        c->phase = IDLE;
        leave(c, false);
    } else if (c->phase == TRYING) {
        c->phase = GAVE_UP;
        if (c->request == TRY)
            c->request = TRY_UNDONE;
        leave(c, false);
    }
}

static bool is_free(void)
{
    return world.holder == NULL && !world.stranger;
}

static void release_at_server(void)
{
    world.holder = NULL;
    world.stranger = false;
    enqueue(chance(8) == 0 ? MESSAGE_1 : MESSAGE_0);
}

/* The server carries a request out. */
static void serve(struct caller *c)
{
    if (c->request == TRY) {
        c->request = is_free() ? GRANTED : REFUSED;
        if (c->request == GRANTED)
            world.holder = c;
    } else if (c->request == TRY_UNDONE) {
        c->request = NOTHING;
        c->phase = IDLE;
        if (is_free())
            release_at_server();
    }
}

/* An answer arrives. */
static void answer(struct caller *c)
{
    enum request got = c->request;

    if (got != GRANTED && got != REFUSED)
        return;
    c->request = NOTHING;
    if (c->phase == GAVE_UP) {
        c->phase = IDLE;
        if (got == GRANTED)
            release_at_server();
    } else if (got == GRANTED) {
        c->phase = HOLDING;
        world.grants++;
        leave(c, true);
    } else if (c->waiter.channel == NULL) {
        fall_asleep(c);
    } else if (rdl__waiter_refused(&c->waiter, -1, loop.now)) {
        c->phase = ASLEEP;
    } else {
        send_try(c);
    }
}

static void unlock(struct caller *c)
{
    if (c->phase != HOLDING)
        return;
    c->phase = IDLE;
    release_at_server();
}

/* The subscriber's connection: SUBSCRIBE is carried out, a message is read, the connection breaks, or comes back. */
static void subscribe_at_server(void)
{
    if (!world.asked)
        return;
    world.asked = false;
    world.subscribed = true;
    enqueue(SUBSCRIBED);
}

static void read_news(void)
{
    enum news news = world.queue[0];

    if (world.queued == 0)
        return;
    world.queued--;
    memmove(world.queue, world.queue + 1, world.queued * sizeof *world.queue);
    if (news == SUBSCRIBED)
        acknowledge();
    else
        message(news == MESSAGE_0 ? "0" : "1");
}

static void disconnect(void)
{
    world.connected = world.asked = world.subscribed = false;
    world.queued = 0;
}

static void reconnect(void)
{
    if (world.connected)
        return;
    world.connected = true;
    world.asked = sub.count != 0;
}

static void any_step(void)
{
    struct caller *c = &world.callers[chance(CALLERS)];

    switch (chance(16)) {
    case 0:
    case 1:
        start(c);
        break;
    case 2:
        cancel(c);
        break;
    case 3:
    case 4:
        unlock(c);
        break;
    case 5:
    case 6:
    case 7:
        serve(c);
        break;
    case 8:
    case 9:
        answer(c);
        break;
    case 10:
    case 11:
        read_news();
        break;
    case 12:
        subscribe_at_server();
        break;
    case 13:
        if (chance(4) == 0)
            disconnect();
        break;
    case 14:
        reconnect();
        break;
    default:
        if (world.stranger)
            release_at_server();
        else if (is_free() && chance(3) == 0)
            world.stranger = true;
        break;
    }
}

static bool settled(void)
{
    bool any = world.queued != 0 || world.asked || world.stranger;

    for (int i = 0; i < CALLERS; i++)
        any = any || world.callers[i].request != NOTHING || world.callers[i].phase == HOLDING;
    return !any;
}

/* Nobody comes any more, and everything that is under way arrives. */
static void let_settle(void)
{
    reconnect();
    for (int rounds = 0; turn() || !settled(); rounds++) {
        cr_assert_lt(rounds, 1000);
        if (world.stranger)
            release_at_server();
        subscribe_at_server();
        read_news();
        for (int i = 0; i < CALLERS; i++) {
            serve(&world.callers[i]);
            answer(&world.callers[i]);
            unlock(&world.callers[i]);
        }
    }
}

Test(waiters, nobody_sleeps_beside_a_free_lock_whatever_chance_does)
{
    int grants = 0;

    turns_end_by_chance = true;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        memset(&world, 0, sizeof world);
        world.rand.state = seed;
        world.connected = true;
        for (int i = 0; i < CALLERS; i++)
            rdl__waiter_init(&world.callers[i].waiter, &caller_ops);
        for (int i = 0; i < STEPS; i++) {
            any_step();
            if (chance(4) > 0)
                (void)turn();
        }
        let_settle();
        for (int i = 0; i < CALLERS; i++)
            cr_assert_eq(world.callers[i].phase, IDLE, "seed %llu: caller %d sleeps, the lock is free",
                         (unsigned long long)seed, i);
        cr_assert_eq(sub.count, 0);
        grants += world.grants;
    }
    cr_assert_gt(grants, 50000, "%d grants are too few to mean anything", grants);
}

/* A world by chance: a server with so many permits, users who want some, a line each for requests, replies and
 * messages. Hints never come. When all lines are empty, nobody may sleep beside what it wants. */
enum { USERS = 5, LINE = 512 };

enum user_state { HAS_NONE, TRIES_ONE, WAITS_ASLEEP, HAS_SOME };

struct user {
    struct rdl__waiter waiter;
    enum user_state state;
};

static struct {
    struct rdl__rand rand;
    struct user users[USERS];
    bool in_order, unacknowledged;
    enum rdl__news news;
    int64_t free;
    struct user *requests[LINE];
    struct {
        struct user *user;
        bool taken;
        int64_t total;
    } replies[LINE];
    int64_t messages[LINE];
    size_t requests_at, requests_end, replies_at, replies_end, messages_at, messages_end;
} pool;

static void user_sends(struct user *u)
{
    u->state = TRIES_ONE;
    rdl__waiter_sent(&u->waiter);
    pool.requests[pool.requests_end++ % LINE] = u;
}

static void user_leaves(struct user *u, enum user_state state)
{
    u->state = state;
    rdl__waiter_leave(&u->waiter, state == HAS_SOME, loop.now);
}

static void user_goes(struct rdl__waiter *w, int64_t now)
{
    struct user *u = rdl__container(w, struct user, waiter);

    (void)now;
    if (rdl__rand_below(&pool.rand, 8) == 0)
        user_leaves(u, HAS_NONE);
    else
        user_sends(u);
}

static const struct rdl__waiter_ops user_ops = {.go = user_goes};

static void user_joins(struct user *u)
{
    bool first = sub.count == 0;
    int rc;

    u->state = WAITS_ASLEEP;
    rc = rdl__waiter_join(&waiters, &u->waiter, "pool", 4, -1, loop.now);
    cr_assert_geq(rc, 0);
    pool.unacknowledged = pool.unacknowledged || first;
    if (rc == 1)
        user_sends(u);
}

static bool somebody_waits(void)
{
    return sub.count > 0;
}

static void user_comes(struct user *u)
{
    rdl__waiter_init(&u->waiter, &user_ops);
    u->waiter.wish = 1 + (uint32_t)rdl__rand_below(&pool.rand, 4);
    u->waiter.news = (unsigned char)pool.news;
    u->waiter.in_order = pool.in_order;
    if (pool.in_order && somebody_waits())
        user_joins(u);
    else
        user_sends(u);
}

static void more_is_free(int64_t much)
{
    pool.free += much;
    pool.messages[pool.messages_end++ % LINE] = pool.news == RDL__NEWS_TOTAL ? pool.free : much;
}

static void serve_user(void)
{
    struct user *u = pool.requests[pool.requests_at++ % LINE];
    bool taken = pool.free >= u->waiter.wish;

    if (taken)
        pool.free -= u->waiter.wish;
    pool.replies[pool.replies_end % LINE].user = u;
    pool.replies[pool.replies_end % LINE].taken = taken;
    pool.replies[pool.replies_end++ % LINE].total = pool.free;
}

static void hear_reply(void)
{
    size_t i = pool.replies_at++ % LINE;
    struct user *u = pool.replies[i].user;

    rdl__waiter_told(&u->waiter, pool.replies[i].total);
    if (pool.replies[i].taken) {
        user_leaves(u, HAS_SOME);
    } else if (u->waiter.channel == NULL) {
        user_joins(u);
    } else {
        u->state = WAITS_ASLEEP;
        if (!rdl__waiter_refused(&u->waiter, -1, loop.now))
            user_sends(u);
    }
}

static void hear_message(void)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, pool.messages[pool.messages_at++ % LINE]);
    if (sub.count > 0 && sub.topics[0]->confirmed)
        message(text);
}

static void hear_acknowledgement(void)
{
    pool.unacknowledged = false;
    if (sub.count == 0)
        return;
    sub.topics[0]->confirmed = true;
    acknowledge();
}

static bool something_is_on_its_way(void)
{
    switch (rdl__rand_below(&pool.rand, 4)) {
    case 0:
        if (pool.requests_at != pool.requests_end)
            serve_user();
        break;
    case 1:
        if (pool.replies_at != pool.replies_end)
            hear_reply();
        break;
    case 2:
        if (pool.messages_at != pool.messages_end)
            hear_message();
        break;
    default:
        if (pool.unacknowledged)
            hear_acknowledgement();
        break;
    }
    return pool.requests_at != pool.requests_end || pool.replies_at != pool.replies_end ||
           pool.messages_at != pool.messages_end || pool.unacknowledged;
}

static void somebody_acts(void)
{
    struct user *u = &pool.users[rdl__rand_below(&pool.rand, USERS)];

    if (u->state == HAS_NONE) {
        user_comes(u);
    } else if (u->state == HAS_SOME) {
        u->state = HAS_NONE;
        more_is_free(u->waiter.wish);
    } else if (u->state == WAITS_ASLEEP && rdl__rand_below(&pool.rand, 8) == 0) {
        user_leaves(u, HAS_NONE);
    }
}

static void nobody_sleeps_beside_what_it_wants(uint64_t seed)
{
    const struct user *first = NULL;

    for (size_t i = 0; i < USERS; i++) {
        const struct user *u = &pool.users[i];

        if (u->state != WAITS_ASLEEP)
            continue;
        if (first == NULL || (int32_t)(u->waiter.place - first->waiter.place) < 0)
            first = u;
        if (!pool.in_order)
            cr_assert_gt(u->waiter.wish, pool.free, "seed %" PRIu64, seed);
    }
    if (first != NULL)
        cr_assert_gt(first->waiter.wish, pool.free, "seed %" PRIu64, seed);
}

static void check_pool(uint64_t seed)
{
    memset(&pool, 0, sizeof pool);
    pool.rand.state = seed;
    pool.in_order = rdl__rand_below(&pool.rand, 2) == 0;
    pool.news = rdl__rand_below(&pool.rand, 2) == 0 ? RDL__NEWS_TOTAL : RDL__NEWS_SOME;
    pool.free = (int64_t)rdl__rand_below(&pool.rand, 6);
    for (size_t i = 0; i < USERS; i++)
        rdl__waiter_init(&pool.users[i].waiter, &user_ops);
    for (int round = 0; round < 6; round++) {
        for (int step = 0; step < 20; step++) {
            if (rdl__rand_below(&pool.rand, 3) == 0)
                somebody_acts();
            (void)something_is_on_its_way();
            if (rdl__rand_below(&pool.rand, 4) > 0)
                (void)turn();
        }
        while (something_is_on_its_way() || turn())
            ;
        nobody_sleeps_beside_what_it_wants(seed);
    }
    for (size_t i = 0; i < USERS; i++)
        rdl__waiter_leave(&pool.users[i].waiter, true, loop.now);
    for (size_t i = 0; i < USERS; i++) /* whoever was woken by that */
        rdl__waiter_leave(&pool.users[i].waiter, true, loop.now);
}

Test(waiters, nobody_sleeps_beside_permits_that_would_do)
{
    turns_end_by_chance = true;
    for (uint64_t seed = 1; seed <= 20000; seed++)
        check_pool(seed);
}
