/* SPDX-License-Identifier: MIT */
/* test_shares.c - what each of many processes gets of that for which all race (protocol.md, 5, rule 21): the server
 * tells them of a release in an order that stays, and the first to try has it. Here they are at distances that differ.
 */
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

#include <criterion/criterion.h>
#include <redlatch/redlatch.h>
#include <stdio.h>

#define ONE_WAY (RDL__MS / 10)
#define WORK_NS RDL__MS
#define REST_NS (3 * RDL__MS)
#define LONG_NS (3 * RDL__SEC)

enum { SHARERS = 16 };

/* The lock, or the semaphore. */
struct sharer {
    struct process process;
    struct event leaves, comes;
    rdl_client_t *client;
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    rdl_semaphore_t *semaphore;
    int had;
    bool out; /* for good */
};

static struct sharer sharers[SHARERS];
static int64_t over_at;
static bool inside;
static int (*of)(rdl_client_t *, const char *, const rdl_lock_options_t *, rdl_lock_t **,
                 rdl_err_t *); /* NULL: permits */

static void left(struct sharer *s, int64_t result)
{
    cr_assert_eq(result, RDL_OK);
    event_at(&s->comes, world_now() + REST_NS);
}

static void on_unlocked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)lock;
    (void)err;
    left(arg, result);
}

static void on_released(rdl_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)semaphore;
    (void)err;
    left(arg, result);
}

static void leave(struct event *event)
{
    struct sharer *s = rdl__container(event, struct sharer, leaves);

    inside = false;
    cr_assert_eq(s->lock != NULL ? rdl_unlock_async(s->lock, s->owner, on_unlocked, s, NULL, NULL)
                                 : rdl_semaphore_release_async(s->semaphore, s->owner, 1, on_released, s, NULL, NULL),
                 RDL_OK);
}

static void is_in(struct sharer *s, int64_t result)
{
    cr_assert_eq(result, RDL_OK);
    cr_assert(!inside, "two are in");
    inside = true;
    s->had++;
    event_at(&s->leaves, world_now() + WORK_NS);
}

static void on_locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)lock;
    (void)err;
    is_in(arg, result);
}

static void on_acquired(rdl_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)semaphore;
    (void)err;
    is_in(arg, result);
}

static void come(struct event *event)
{
    struct sharer *s = rdl__container(event, struct sharer, comes);

    if ((s->out = world_now() >= over_at))
        return;
    cr_assert_eq(s->lock != NULL ? rdl_lock_async(s->lock, s->owner, 600000, on_locked, s, NULL, NULL)
                                 : rdl_semaphore_acquire_async(s->semaphore, s->owner, 1, on_acquired, s, NULL, NULL),
                 RDL_OK);
}

static void begin(void *arg)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    struct sharer *s = arg;

    options.anonymous = true;
    options.connections = 1;
    options.ping_interval_ms = 600000;
    cr_assert_eq(rdl_client_open("redis://127.0.0.1:6379", &options, &s->client, NULL), RDL_OK);
    cr_assert_eq(rdl_owner_new(s->client, &s->owner, NULL), RDL_OK);
    if (of != NULL) {
        cr_assert_eq(of(s->client, "N", NULL, &s->lock, NULL), RDL_OK);
    } else {
        cr_assert_eq(rdl_semaphore(s->client, "N", NULL, &s->semaphore, NULL), RDL_OK);
        cr_assert_geq(rdl_semaphore_try_set_permits(s->semaphore, 1, NULL), 0);
    }
    event_at(&s->comes, world_now());
}

static void end(void *arg)
{
    struct sharer *s = arg;

    rdl_owner_free(s->owner);
    rdl_lock_free(s->lock);
    rdl_semaphore_free(s->semaphore);
    rdl_client_close(s->client);
}

static void whole_run(void *arg)
{
    const struct net_config net = {.delay_ns = ONE_WAY, .farther_ns = RDL__US, .room = 1 << 20};
    static const struct server_traits traits = {.old = false};

    (void)arg;
    server_begin(&traits, 0);
    net_begin(&net);
    over_at = world_now() + LONG_NS;
    for (size_t i = 0; i < SHARERS; i++) {
        char name[24];

        (void)snprintf(name, sizeof name, "P%zu", i);
        process_init(&sharers[i].process, name, RDL__SEC, 0);
        event_init(&sharers[i].leaves, leave, &sharers[i].process);
        event_init(&sharers[i].comes, come, &sharers[i].process);
        fibre_join(fibre_start(&sharers[i].process, begin, &sharers[i]));
    }
    for (size_t i = 0; i < SHARERS; i++) {
        while (!sharers[i].out)
            fibre_sleep(RDL__MS);
        fibre_join(fibre_start(&sharers[i].process, end, &sharers[i]));
    }
}

/* None gets less than a quarter of its even share. */
static void expect_shares(void)
{
    int sum = 0, least = INT32_MAX;
    bool over;

    world_trace(TRACE_OFF);
    world_begin(1);
    world_limit(3600 * RDL__SEC);
    over = world_run(whole_run, NULL);
    cr_assert(over && world_violation() == NULL);
    for (int i = 0; i < SHARERS; i++) {
        sum += sharers[i].had;
        least = sharers[i].had < least ? sharers[i].had : least;
    }
    printf("%d times in 3 s, the least %.2f of an even share\n", sum, (double)least * SHARERS / sum);
    cr_expect_geq(least, sum / SHARERS / 4);
    cr_expect_geq(sum, LONG_NS / (2 * WORK_NS), "and it is not free for half of the time");
    server_end();
    net_end();
    world_end();
}

Test(shares, of_a_write_lock, .timeout = 60)
{
    of = rdl_write_lock;
    expect_shares();
}

Test(shares, of_a_simple_lock, .timeout = 60)
{
    of = rdl_simple_lock;
    expect_shares();
}

Test(shares, of_a_semaphores_permit, .timeout = 60)
{
    expect_shares();
}
