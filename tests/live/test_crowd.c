/* SPDX-License-Identifier: MIT */
/* test_crowd.c - 100,000 who wait for one lock, and all of them end at one moment: canceled, closed, out of time, let
 * in. The stack of whoever ends them must not grow with their number, nor the time by its square.
 *
 * They are calls of one client, each of an owner of its own. Somebody else, of another client, is in before them. What
 * happens at one moment happens in a callback, in which the loop stands still: whatever comes meanwhile, a message,
 * their time, a cancellation each, it finds together when the callback is over. */
#include "tests/live/live.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#define NAME "crowd"
#define LEASE_MS 600000
#define END_BOUND_MS 120000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MANY = 10000, FEW = 500 };
#else
enum { MANY = 30000, FEW = 1500 };
#endif

LIVE_SUITE(crowd, 600);

/* ---- what they wait for ----------------------------------------------------------------------------------------- */

struct member {
    struct crowd *crowd;
    rdl_owner_t *owner;
    rdl_op_t *op;
    rdl_permit_t permit;
    int64_t result;
    unsigned calls;
};

struct crowd {
    const struct sort *sort;
    rdl_client_t *client, *other;
    void *gate, *rival;
    rdl_owner_t *rival_owner, *owner;
    struct member *members;
    size_t size;
    void (*at_once)(struct crowd *c); /* in a callback, when all wait; NULL: nothing is */
    int64_t all_started_at_us;
    int64_t wait_ms;
    bool passes_on; /* whoever was let in leaves at once */
    unsigned looks;
    sem_t stands; /* the loop does */
    atomic_size_t ended, let_in, left;
};

/* A type, seen as something that is open or shut. */
struct sort {
    const char *type;
    const struct kind *kind; /* NULL: not a lock */
    void (*make)(struct crowd *c);
    void (*shut)(struct crowd *c);
    void (*open)(struct crowd *c, size_t many); /* by the rival; so many may pass, where that can be said */
    int (*wait)(struct member *m, int64_t wait_ms);
    int (*look)(struct crowd *c); /* a question, answered when all have been refused or have joined those who were */
    void (*free)(struct crowd *c);
};

static void ended(struct member *m, int64_t result);
static void all_wait(struct crowd *c);

static void left(rdl_lock_t *lock, int64_t result, const rdl_err_t *e, void *arg)
{
    struct crowd *c = arg;

    (void)lock;
    cr_assert(result == RDL_OK || result == RDL_ECLOSED, "%s: %s", c->sort->type, e != NULL ? e->message : "");
    atomic_fetch_add(&c->left, 1);
}

static void not_held(rdl_lock_t *lock, int64_t result, const rdl_err_t *e, void *arg)
{
    struct crowd *c = arg;

    (void)lock;
    (void)e;
    cr_assert_eq(result, RDL_ENOTOWNER, "%s: %s", c->sort->type, code_name(result));
    atomic_fetch_add(&c->ended, 1);
}

static void lock_ended(rdl_lock_t *lock, int64_t result, const rdl_err_t *e, void *arg)
{
    (void)lock;
    (void)e;
    ended(arg, result);
}

static void lock_looked(rdl_lock_t *lock, int64_t result, const rdl_err_t *e, void *arg)
{
    (void)lock;
    (void)result;
    (void)e;
    all_wait(arg);
}

static void lock_make(struct crowd *c)
{
    c->gate = c->sort->kind->make(c->client, NAME, NULL);
    c->rival = c->sort->kind->rival(c->other, NAME, NULL);
}

static void lock_shut(struct crowd *c)
{
    struct outcome o = {0};

    expect(RDL_OK, rdl_lock_async(c->rival, c->rival_owner, LEASE_MS, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
}

static void lock_open(struct crowd *c, size_t many)
{
    struct outcome o = {0};

    (void)many;
    cr_assert_eq(rdl_unlock_async(c->rival, c->rival_owner, outcome_note, &o, NULL, NULL), RDL_OK);
    cr_assert_eq(outcome_wait(&o, SOON_MS), RDL_OK);
}

static int lock_wait(struct member *m, int64_t wait_ms)
{
    return rdl_try_lock_async(m->crowd->gate, m->owner, wait_ms, LEASE_MS, lock_ended, m, &m->op, &err);
}

static int lock_look(struct crowd *c)
{
    return rdl_is_locked_async(c->gate, NULL, lock_looked, c, NULL, &err);
}

static void lock_free(struct crowd *c)
{
    rdl_lock_free(c->gate);
    rdl_lock_free(c->rival);
}

/* What semaphores, permit semaphores and latches do alike. */
#define ALIKE(what, type_t)                                                                                            \
    static void what##_ended(type_t *gate, int64_t result, const rdl_err_t *e, void *arg)                              \
    {                                                                                                                  \
        (void)gate;                                                                                                    \
        (void)e;                                                                                                       \
        ended(arg, result);                                                                                            \
    }                                                                                                                  \
                                                                                                                       \
    static void what##_looked(type_t *gate, int64_t result, const rdl_err_t *e, void *arg)                             \
    {                                                                                                                  \
        (void)gate;                                                                                                    \
        (void)result;                                                                                                  \
        (void)e;                                                                                                       \
        all_wait(arg);                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    static void what##_free(struct crowd *c)                                                                           \
    {                                                                                                                  \
        rdl_##what##_free(c->gate);                                                                                    \
        rdl_##what##_free(c->rival);                                                                                   \
    }

ALIKE(semaphore, rdl_semaphore_t)
ALIKE(permit_semaphore, rdl_permit_semaphore_t)
ALIKE(latch, rdl_latch_t)

static void make_semaphore(struct crowd *c, rdl_semaphore_options_t *options)
{
    rdl_semaphore_t *gate = NULL, *rival = NULL;

    expect(RDL_OK, rdl_semaphore(c->client, NAME, options, &gate, &err));
    expect(RDL_OK, rdl_semaphore(c->other, NAME, options, &rival, &err));
    c->gate = gate;
    c->rival = rival;
}

static void semaphore_make(struct crowd *c)
{
    make_semaphore(c, NULL);
}

static void fair_semaphore_make(struct crowd *c)
{
    make_semaphore(c, &(rdl_semaphore_options_t){.version = RDL_SEMAPHORE_OPTIONS_VERSION, .fair = true});
}

static void semaphore_shut(struct crowd *c)
{
    expect(1, rdl_semaphore_try_set_permits(c->rival, 1, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(c->rival, 1, 0, &err));
}

static void semaphore_open(struct crowd *c, size_t many)
{
    cr_assert_eq(rdl_semaphore_release(c->rival, (int64_t)many, NULL), RDL_OK);
}

static int semaphore_wait(struct member *m, int64_t wait_ms)
{
    return rdl_semaphore_try_acquire_async(m->crowd->gate, NULL, 1, wait_ms, semaphore_ended, m, &m->op, &err);
}

static int semaphore_look(struct crowd *c)
{
    return rdl_semaphore_available_async(c->gate, NULL, semaphore_looked, c, NULL, &err);
}

static void permit_semaphore_make(struct crowd *c)
{
    rdl_permit_semaphore_t *gate = NULL, *rival = NULL;

    expect(RDL_OK, rdl_permit_semaphore(c->client, NAME, NULL, &gate, &err));
    expect(RDL_OK, rdl_permit_semaphore(c->other, NAME, NULL, &rival, &err));
    c->gate = gate;
    c->rival = rival;
}

static void permit_semaphore_shut(struct crowd *c)
{
    rdl_permit_t permit;

    expect(1, rdl_permit_semaphore_try_set_permits(c->rival, 1, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(c->rival, 1, 0, LEASE_MS, &permit, &err));
}

static void permit_semaphore_open(struct crowd *c, size_t many)
{
    cr_assert_geq(rdl_permit_semaphore_add_permits(c->rival, (int64_t)many, NULL), 0);
}

static int permit_semaphore_wait(struct member *m, int64_t wait_ms)
{
    return rdl_permit_semaphore_try_acquire_async(m->crowd->gate, NULL, 1, wait_ms, LEASE_MS, &m->permit,
                                                  permit_semaphore_ended, m, &m->op, &err);
}

static int permit_semaphore_look(struct crowd *c)
{
    return rdl_permit_semaphore_available_async(c->gate, NULL, permit_semaphore_looked, c, NULL, &err);
}

static void latch_make(struct crowd *c)
{
    rdl_latch_t *gate = NULL, *rival = NULL;

    expect(RDL_OK, rdl_latch(c->client, NAME, NULL, &gate, &err));
    expect(RDL_OK, rdl_latch(c->other, NAME, NULL, &rival, &err));
    c->gate = gate;
    c->rival = rival;
}

static void latch_shut(struct crowd *c)
{
    expect(1, rdl_latch_try_set_count(c->rival, 1, &err));
}

static void latch_open(struct crowd *c, size_t many)
{
    (void)many;
    cr_assert_geq(rdl_latch_count_down(c->rival, NULL), 0);
}

static int latch_wait(struct member *m, int64_t wait_ms)
{
    return rdl_latch_await_async(m->crowd->gate, NULL, wait_ms, latch_ended, m, &m->op, &err);
}

static int latch_look(struct crowd *c)
{
    return rdl_latch_count_async(c->gate, NULL, latch_looked, c, NULL, &err);
}

static const struct sort lock_sort = {
    .make = lock_make, .shut = lock_shut, .open = lock_open, .wait = lock_wait, .look = lock_look, .free = lock_free};
static const struct sort counted[] = {
    {.type = "semaphore",
     .make = semaphore_make,
     .shut = semaphore_shut,
     .open = semaphore_open,
     .wait = semaphore_wait,
     .look = semaphore_look,
     .free = semaphore_free},
    {.type = "fair semaphore",
     .make = fair_semaphore_make,
     .shut = semaphore_shut,
     .open = semaphore_open,
     .wait = semaphore_wait,
     .look = semaphore_look,
     .free = semaphore_free},
    {.type = "permit semaphore",
     .make = permit_semaphore_make,
     .shut = permit_semaphore_shut,
     .open = permit_semaphore_open,
     .wait = permit_semaphore_wait,
     .look = permit_semaphore_look,
     .free = permit_semaphore_free},
    {.type = "latch",
     .make = latch_make,
     .shut = latch_shut,
     .open = latch_open,
     .wait = latch_wait,
     .look = latch_look,
     .free = latch_free},
};

enum { COUNTED = sizeof counted / sizeof *counted };

/* The i-th of all types, locks first; false: there are no more. */
static bool sort_at(size_t i, struct sort *ret)
{
    if (i >= kind_count + COUNTED)
        return false;
    *ret = i < kind_count ? lock_sort : counted[i - kind_count];
    if (i < kind_count) {
        ret->kind = &kinds[i];
        ret->type = kinds[i].type;
    }
    return true;
}

/* Of each type as many, but where each costs the server as much as there are: Java's clients keep a fair lock's queue
 * as a list, from which a place is taken by looking for it. */
static size_t size_of(const struct sort *sort)
{
    return sort->kind != NULL && sort->kind->constructor == rdl_fair_lock ? MANY / 20 : MANY;
}

/* Red locks and those that poll ask again by themselves, the more often the longer all that takes. */
static bool asks_unasked(const struct sort *sort)
{
    return sort->kind != NULL && (sort->kind->votes || sort->kind->paces);
}

/* A composite's take is several of its parts', and their undos: the time of a whole check is short. And each reader
 * that was let in and goes makes the server look at the names of all who are in. */
static size_t fewer_of(const struct sort *sort)
{
    if (sort->kind != NULL && sort->kind->constructor == rdl_read_lock)
        return FEW;
    return sort->kind != NULL && sort->kind->members > 0 ? MANY / 5 : size_of(sort);
}

/* ---- a crowd ---------------------------------------------------------------------------------------------------- */

static void ended(struct member *m, int64_t result)
{
    struct crowd *c = m->crowd;

    m->calls++;
    m->result = result;
    atomic_fetch_add(&c->let_in, result == RDL_OK);
    if (result == RDL_OK && c->passes_on)
        cr_assert_eq(rdl_unlock_async(c->gate, m->owner, left, c, NULL, NULL), RDL_OK);
    atomic_fetch_add(&c->ended, 1);
}

/* Who shares a lock has tried a second time when its channel was confirmed. */
static void all_wait(struct crowd *c)
{
    if (c->looks++ == 0) {
        cr_assert_eq(c->sort->look(c), RDL_OK);
        return;
    }
    if (c->at_once != NULL)
        c->at_once(c);
    sem_post(&c->stands);
}

/* Let a crowd gather before a shut gate. When all wait, `at_once` runs in a callback. */
static void gather(struct crowd *c)
{
    const struct sort *sort = c->sort;
    size_t size = c->size;

    sem_init(&c->stands, 0, 0);
    c->client = client_open(stage_uri(&st), OPTIONS(.command_timeout_ms = END_BOUND_MS, .close_timeout_ms = 60000));
    c->other = client_open(stage_uri(&st), NULL);
    expect(RDL_OK, rdl_owner_new(c->other, &c->rival_owner, &err));
    sort->make(c);
    sort->shut(c);
    cr_assert_not_null(c->members = calloc(size, sizeof *c->members));
    for (size_t i = 0; i < size; i++) {
        c->members[i].crowd = c;
        if (sort->kind != NULL)
            expect(RDL_OK, rdl_owner_new(c->client, &c->members[i].owner, &err));
    }
    for (size_t i = 0; i < size; i++)
        expect(RDL_OK, sort->wait(&c->members[i], c->wait_ms));
    c->all_started_at_us = now_us();
    expect(RDL_OK, sort->look(c));
    cr_assert_eq(sem_wait(&c->stands), 0);
}

static void disperse(struct crowd *c)
{
    for (size_t i = 0; i < c->size; i++) {
        cr_assert_eq(c->members[i].calls, 1, "%s: %zu", c->sort->type, i);
        rdl_op_free(c->members[i].op);
        rdl_owner_free(c->members[i].owner);
    }
    c->sort->free(c);
    rdl_owner_free(c->rival_owner);
    rdl_client_close(c->client);
    rdl_client_close(c->other);
    sem_destroy(&c->stands);
    free(c->members);
    (void)probe_ask(st.probe, "FLUSHALL");
}

static bool all_ended(struct crowd *c)
{
    return WAIT_UNTIL(atomic_load(&c->ended) == c->size, END_BOUND_MS);
}

/* All ended as `code`, or were let in. Of a red lock that is granted as its client closes the majority may be gone
 * again when its caller is told. */
static void all_are(const struct crowd *c, int code)
{
    for (size_t i = 0; i < c->size; i++) {
        int64_t result = c->members[i].result;
        bool lost = result == RDL_ELOST && code == RDL_ECLOSED && c->sort->kind != NULL && c->sort->kind->votes;

        cr_assert(result == code || result == RDL_OK || lost, "%s: %s", c->sort->type, code_name(result));
    }
}

/* ---- N3 --------------------------------------------------------------------------------------------------------- */

static void open_and_cancel(struct crowd *c)
{
    c->sort->open(c, 1);
    for (size_t i = 0; i < c->size; i++)
        rdl_op_cancel(c->members[i].op);
}

static void cancel_so_many(const struct sort *sort, size_t size)
{
    struct crowd c = {.sort = sort, .size = size, .wait_ms = RDL_WAIT_FOREVER, .at_once = open_and_cancel};

    gather(&c);
    cr_assert(all_ended(&c), "%s", sort->type);
    all_are(&c, RDL_ECANCELED);
    disperse(&c);
}

static int64_t cpu_of(const struct sort *sort, size_t size)
{
    int64_t start = user_us();

    cancel_so_many(sort, size);
    return user_us() - start;
}

/* Ten times as many would take a hundred times as long; a few first, so that this is known soon. A processor that
 * others share is slower at one moment than at another: what counts is how long the few took at the slowest of some. */
static void cancel_crowd(const struct sort *sort)
{
    size_t most = asks_unasked(sort) ? fewer_of(sort) : size_of(sort);
    int64_t before = 0;

    for (size_t size = most / 100; size <= most; size *= 10) {
        int64_t slowest = 0;

        for (int i = 0; i < (size < most ? 4 : 1); i++) {
            int64_t took;

            if (before != 0 && !asks_unasked(sort))
                limit_user_us(30 * before + 100000, sort->type);
            took = cpu_of(sort, size);
            limit_user_us(0, NULL);
            slowest = took > slowest ? took : slowest;
        }
        before = slowest;
    }
}

static void close_crowd(const struct sort *sort)
{
    struct crowd c = {.sort = sort, .size = fewer_of(sort), .wait_ms = RDL_WAIT_FOREVER};

    gather(&c);
    sort->open(&c, 1);
    c.client = rdl_client_close(c.client);
    cr_assert_eq(atomic_load(&c.ended), c.size, "%s", sort->type);
    all_are(&c, RDL_ECLOSED);
    disperse(&c);
}

static void open_when_it_is_too_late(struct crowd *c)
{
    c->sort->open(c, 1);
    while (now_us() < c->all_started_at_us + (c->wait_ms + 20) * 1000)
        let_pass_ms(10);
}

static void time_crowd_out(const struct sort *sort)
{
    struct crowd c = {.sort = sort, .size = fewer_of(sort), .wait_ms = 500, .at_once = open_when_it_is_too_late};

    gather(&c);
    cr_assert(all_ended(&c), "%s", sort->type);
    for (size_t i = 0; i < c.size; i++) {
        int64_t result = c.members[i].result; /* a try was perhaps under way, or had not begun */

        cr_assert(result == RDL_ETIMEDOUT || result == RDL_EUNKNOWN || result == RDL_ECONN || result == RDL_ENOQUORUM ||
                      result == RDL_OK,
                  "%s: %s", sort->type, code_name(result));
    }
    disperse(&c);
}

/* Where many may be in, all are at once; else one after the other. Whoever is let in asks the server, but at a latch.
 */
static void let_crowd_in(const struct sort *sort)
{
    struct crowd c = {.sort = sort, .size = strcmp(sort->type, "latch") == 0 ? MANY : FEW, .wait_ms = RDL_WAIT_FOREVER};

    c.passes_on = sort->kind != NULL && sort->kind->constructor != rdl_read_lock;
    if (sort->kind != NULL && (sort->kind->polls || sort->kind->votes)) /* they come back when they please */
        c.size = FEW / 50;
    gather(&c);
    sort->open(&c, c.size);
    cr_assert(all_ended(&c), "%s: %zu of %zu", sort->type, atomic_load(&c.ended), c.size);
    cr_assert_eq(atomic_load(&c.let_in), c.size);
    if (c.passes_on)
        cr_assert(WAIT_UNTIL(atomic_load(&c.left) == c.size, END_BOUND_MS), "%s", sort->type);
    disperse(&c);
}

static void check_each_sort(void (*end)(const struct sort *sort))
{
    struct sort sort;

    stage_open(&st);
    for (size_t i = 0; sort_at(i, &sort); i++)
        end(&sort);
}

Test(crowd, N3_all_are_canceled_in_a_callback_and_the_work_grows_with_their_number)
{
    check_each_sort(cancel_crowd);
}

Test(crowd, N3_the_client_is_closed_while_others_release)
{
    check_each_sort(close_crowd);
}

Test(crowd, N3_the_time_of_all_is_up_at_once)
{
    check_each_sort(time_crowd_out);
}

Test(crowd, N3_all_are_let_in)
{
    check_each_sort(let_crowd_in);
}

/* They wait for one another, in their owner's queue, and each ends as it begins. */
Test(crowd, N3_what_is_queued_behind_an_owners_take_ends_at_once)
{
    struct outcome take = {0};
    rdl_op_t *op = NULL;
    struct sort sort;

    stage_open(&st);
    for (size_t i = 0; sort_at(i, &sort) && sort.kind != NULL; i++) {
        struct crowd c = {.sort = &sort, .size = MANY};

        c.client = client_open(stage_uri(&st), OPTIONS(.command_timeout_ms = END_BOUND_MS));
        c.other = client_open(stage_uri(&st), NULL);
        expect(RDL_OK, rdl_owner_new(c.client, &c.owner, &err));
        expect(RDL_OK, rdl_owner_new(c.other, &c.rival_owner, &err));
        sort.make(&c);
        sort.shut(&c);
        memset(&take, 0, sizeof take);
        expect(RDL_OK, rdl_lock_async(c.gate, c.owner, LEASE_MS, outcome_note, &take, &op, &err));
        for (size_t k = 0; k < c.size; k++)
            expect(RDL_OK, rdl_unlock_async(c.gate, c.owner, not_held, &c, NULL, &err));
        rdl_op_cancel(op);
        rdl_op_free(op);
        expect(RDL_ECANCELED, outcome_wait(&take, END_BOUND_MS));
        cr_assert(all_ended(&c), "%s", sort.type);
        sort.free(&c);
        rdl_owner_free(c.owner);
        rdl_owner_free(c.rival_owner);
        rdl_client_close(c.client);
        rdl_client_close(c.other);
        (void)probe_ask(st.probe, "FLUSHALL");
    }
}

/* For so long that whoever asks meanwhile, and should not, is refused and counted. */
static int64_t have_it_once(void *lock, rdl_err_t *e)
{
    int rc = rdl_try_lock(lock, END_BOUND_MS, LEASE_MS, e);

    if (rc < 0)
        return rc;
    let_pass_ms(20);
    return rdl_unlock(lock, e);
}

/* Who pauses for longer than the test lasts has heard of it. The first of them gives up before. */
Test(crowd, N3_release_of_a_red_lock_wakes_one_of_those_who_wait_for_it)
{
    enum { SOME = 16 };
    struct caller *caller[SOME];
    rdl_client_t *client;
    rdl_lock_t *member, *red;
    int64_t calls;

    stage_open(&st);
    client = client_open(stage_uri(&st), NULL);
    member = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_red_lock(&member, 1,
                                LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = 1000,
                                             .retry = {RDL_RETRY_FIXED, 600000, 600000}),
                                &red, &err));
    expect(RDL_OK, rdl_try_lock(red, 0, LEASE_MS, &err));
    calls = probe_calls(st.probe, "evalsha");
    for (int i = 0; i < SOME; i++) {
        caller[i] = caller_new();
        if (i == 0)
            caller_try_lock(caller[i], red, 1500, LEASE_MS);
        else
            caller_call(caller[i], have_it_once, red);
        cr_assert(WAIT_UNTIL(probe_calls(st.probe, "evalsha") - calls > i && probe_channels(st.probe) == 1, SOON_MS));
    }
    expect_result(RDL_ETIMEDOUT, caller[0], SOON_MS);
    calls = probe_calls(st.probe, "evalsha");
    expect(RDL_OK, rdl_unlock(red, &err));
    for (int i = 1; i < SOME; i++)
        expect_result(RDL_OK, caller[i], SOON_MS);
    expect_between(2 * (SOME - 1), probe_calls(st.probe, "evalsha") - calls, 3 * SOME);
    for (int i = 0; i < SOME; i++)
        caller_free(caller[i]);
    rdl_lock_free(red);
    rdl_lock_free(member);
    rdl_client_close(client);
}
