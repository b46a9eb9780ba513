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

/* A world by chance: a server with so many permits, callers who want some, a line each for requests, replies and
 * messages. Hints never come. When all lines are empty, nobody may sleep beside what it wants. */
enum { GUESTS = 5, LINE = 512 };

enum guest_state { AWAY, ON_LINE, IN_BED, INSIDE };

struct guest {
    struct rdl__waiter waiter;
    enum guest_state state;
};

static struct {
    struct rdl__rand rand;
    struct guest guests[GUESTS];
    bool in_order, unacknowledged;
    enum rdl__news news;
    int64_t free;
    struct guest *requests[LINE];
    struct {
        struct guest *guest;
        bool taken;
        int64_t total;
    } replies[LINE];
    int64_t messages[LINE];
    size_t requests_at, requests_end, replies_at, replies_end, messages_at, messages_end;
} inn;

static void guest_sends(struct guest *g)
{
    g->state = ON_LINE;
    rdl__waiter_sent(&g->waiter);
    inn.requests[inn.requests_end++ % LINE] = g;
}

static void guest_leaves(struct guest *g, enum guest_state state)
{
    g->state = state;
    rdl__waiter_leave(&g->waiter, state == INSIDE, loop.now);
}

static void guest_goes(struct rdl__waiter *w, int64_t now)
{
    struct guest *g = rdl__container(w, struct guest, waiter);

    (void)now;
    if (rdl__rand_below(&inn.rand, 8) == 0)
        guest_leaves(g, AWAY);
    else
        guest_sends(g);
}

static const struct rdl__waiter_ops guest_ops = {.go = guest_goes};

static void guest_joins(struct guest *g)
{
    bool first = sub.count == 0;
    int rc;

    g->state = IN_BED;
    rc = rdl__waiter_join(&waiters, &g->waiter, "inn", 3, -1, loop.now);
    cr_assert_geq(rc, 0);
    inn.unacknowledged = inn.unacknowledged || first;
    if (rc == 1)
        guest_sends(g);
}

static bool somebody_waits(void)
{
    return sub.count > 0;
}

static void guest_comes(struct guest *g)
{
    rdl__waiter_init(&g->waiter, &guest_ops);
    g->waiter.wish = 1 + (uint32_t)rdl__rand_below(&inn.rand, 4);
    g->waiter.news = (unsigned char)inn.news;
    g->waiter.in_order = inn.in_order;
    if (inn.in_order && somebody_waits())
        guest_joins(g);
    else
        guest_sends(g);
}

static void more_is_free(int64_t much)
{
    inn.free += much;
    inn.messages[inn.messages_end++ % LINE] = inn.news == RDL__NEWS_TOTAL ? inn.free : much;
}

static void serve_guest(void)
{
    struct guest *g = inn.requests[inn.requests_at++ % LINE];
    bool taken = inn.free >= g->waiter.wish;

    if (taken)
        inn.free -= g->waiter.wish;
    inn.replies[inn.replies_end % LINE].guest = g;
    inn.replies[inn.replies_end % LINE].taken = taken;
    inn.replies[inn.replies_end++ % LINE].total = inn.free;
}

static void hear_reply(void)
{
    size_t i = inn.replies_at++ % LINE;
    struct guest *g = inn.replies[i].guest;

    rdl__waiter_told(&g->waiter, inn.replies[i].total);
    if (inn.replies[i].taken) {
        guest_leaves(g, INSIDE);
    } else if (g->waiter.channel == NULL) {
        guest_joins(g);
    } else {
        g->state = IN_BED;
        if (!rdl__waiter_refused(&g->waiter, -1, loop.now))
            guest_sends(g);
    }
}

static void hear_message(void)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, inn.messages[inn.messages_at++ % LINE]);
    if (sub.count > 0 && sub.topics[0]->confirmed)
        message(text);
}

static void hear_acknowledgement(void)
{
    inn.unacknowledged = false;
    if (sub.count == 0)
        return;
    sub.topics[0]->confirmed = true;
    acknowledge();
}

static bool something_is_on_its_way(void)
{
    switch (rdl__rand_below(&inn.rand, 4)) {
    case 0:
        if (inn.requests_at != inn.requests_end)
            serve_guest();
        break;
    case 1:
        if (inn.replies_at != inn.replies_end)
            hear_reply();
        break;
    case 2:
        if (inn.messages_at != inn.messages_end)
            hear_message();
        break;
    default:
        if (inn.unacknowledged)
            hear_acknowledgement();
        break;
    }
    return inn.requests_at != inn.requests_end || inn.replies_at != inn.replies_end ||
           inn.messages_at != inn.messages_end || inn.unacknowledged;
}

static void somebody_acts(void)
{
    struct guest *g = &inn.guests[rdl__rand_below(&inn.rand, GUESTS)];

    if (g->state == AWAY) {
        guest_comes(g);
    } else if (g->state == INSIDE) {
        g->state = AWAY;
        more_is_free(g->waiter.wish);
    } else if (g->state == IN_BED && rdl__rand_below(&inn.rand, 8) == 0) {
        guest_leaves(g, AWAY);
    }
}

static void nobody_sleeps_beside_what_it_wants(uint64_t seed)
{
    const struct guest *first = NULL;

    for (size_t i = 0; i < GUESTS; i++) {
        const struct guest *g = &inn.guests[i];

        if (g->state != IN_BED)
            continue;
        if (first == NULL || (int32_t)(g->waiter.place - first->waiter.place) < 0)
            first = g;
        if (!inn.in_order)
            cr_assert_gt(g->waiter.wish, inn.free, "seed %" PRIu64, seed);
    }
    if (first != NULL)
        cr_assert_gt(first->waiter.wish, inn.free, "seed %" PRIu64, seed);
}

static void check_inn(uint64_t seed)
{
    memset(&inn, 0, sizeof inn);
    inn.rand.state = seed;
    inn.in_order = rdl__rand_below(&inn.rand, 2) == 0;
    inn.news = rdl__rand_below(&inn.rand, 2) == 0 ? RDL__NEWS_TOTAL : RDL__NEWS_SOME;
    inn.free = (int64_t)rdl__rand_below(&inn.rand, 6);
    for (size_t i = 0; i < GUESTS; i++)
        rdl__waiter_init(&inn.guests[i].waiter, &guest_ops);
    for (int round = 0; round < 6; round++) {
        for (int step = 0; step < 20; step++) {
            if (rdl__rand_below(&inn.rand, 3) == 0)
                somebody_acts();
            (void)something_is_on_its_way();
            if (rdl__rand_below(&inn.rand, 4) > 0)
                (void)turn();
        }
        while (something_is_on_its_way() || turn())
            ;
        nobody_sleeps_beside_what_it_wants(seed);
    }
    for (size_t i = 0; i < GUESTS; i++)
        rdl__waiter_leave(&inn.guests[i].waiter, true, loop.now);
    for (size_t i = 0; i < GUESTS; i++) /* whoever was woken by that */
        rdl__waiter_leave(&inn.guests[i].waiter, true, loop.now);
}

Test(waiters, nobody_sleeps_beside_permits_that_would_do)
{
    turns_end_by_chance = true;
    for (uint64_t seed = 1; seed <= 20000; seed++)
        check_inn(seed);
}
