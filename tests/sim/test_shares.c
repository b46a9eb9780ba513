/* SPDX-License-Identifier: MIT */
/* test_shares.c - what each of many processes gets of that for which all race (protocol.md, 5, rule 21): the server
 * tells them of a release in an order that stays, and the first to try has it. Here they are at distances that differ.
 * And of what one keeps that others poll for (11).
 */
#include "tests/sim/net.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

#include <criterion/criterion.h>
#include <redlatch/redlatch.h>
#include <stdio.h>

#define ONE_WAY (RDL__MS / 10)

enum { SHARERS_MOST = 16 };

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

static const struct shared {
    int (*of)(rdl_client_t *, const char *, const rdl_lock_options_t *, rdl_lock_t **, rdl_err_t *); /* NULL: permits */
    int64_t cache_ms;
    int64_t work_ns, rest_ns; /* how long one has it, and stays away then */
    int64_t turn_ns;          /* of one, with what comes before it: no longer than that on average */
    int64_t long_ns;          /* all of it */
    int sharers;
} * shared;

static struct sharer sharers[SHARERS_MOST];
static int64_t over_at;
static bool inside;

static void left(struct sharer *s, int64_t result)
{
    cr_assert_eq(result, RDL_OK);
    event_at(&s->comes, world_now() + shared->rest_ns);
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
    event_at(&s->leaves, world_now() + shared->work_ns);
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
    cr_assert_eq(s->lock != NULL ? rdl_lock_async(s->lock, s->owner, RDL_LEASE_AUTO, on_locked, s, NULL, NULL)
                                 : rdl_semaphore_acquire_async(s->semaphore, s->owner, 1, on_acquired, s, NULL, NULL),
                 RDL_OK);
}

static void begin(void *arg)
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_lock_options_t locks = RDL_LOCK_OPTIONS_INIT;
    struct sharer *s = arg;

    options.anonymous = true;
    options.connections = 1;
    options.ping_interval_ms = 600000;
    cr_assert_eq(rdl_client_open("redis://127.0.0.1:6379", &options, &s->client, NULL), RDL_OK);
    cr_assert_eq(rdl_owner_new(s->client, &s->owner, NULL), RDL_OK);
    if (shared->of != NULL) {
        locks.cache_ms = shared->cache_ms;
        cr_assert_eq(shared->of(s->client, "N", &locks, &s->lock, NULL), RDL_OK);
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
    over_at = world_now() + shared->long_ns;
    for (int i = 0; i < shared->sharers; i++) {
        char name[24];

        (void)snprintf(name, sizeof name, "P%d", i);
        process_init(&sharers[i].process, name, RDL__SEC, 0);
        event_init(&sharers[i].leaves, leave, &sharers[i].process);
        event_init(&sharers[i].comes, come, &sharers[i].process);
        fibre_join(fibre_start(&sharers[i].process, begin, &sharers[i]));
    }
    for (int i = 0; i < shared->sharers; i++) {
        while (!sharers[i].out)
            fibre_sleep(RDL__MS);
        fibre_join(fibre_start(&sharers[i].process, end, &sharers[i]));
    }
}

/* None gets less than a quarter of its even share. */
static void expect_shares(const struct shared *what)
{
    int sum = 0, least = INT32_MAX;
    bool over;

    shared = what;
    world_trace(TRACE_OFF);
    world_begin(1);
    world_limit(3600 * RDL__SEC);
    over = world_run(whole_run, NULL);
    cr_assert(over && world_violation() == NULL);
    for (int i = 0; i < shared->sharers; i++) {
        sum += sharers[i].had;
        least = sharers[i].had < least ? sharers[i].had : least;
    }
    printf("%d times in %d s, the least %.2f of an even share\n", sum, (int)(what->long_ns / RDL__SEC),
           (double)least * what->sharers / sum);
    cr_expect_geq(least, sum / what->sharers / 4);
    cr_expect_geq(sum, what->long_ns / what->turn_ns);
    server_end();
    net_end();
    world_end();
}

#define RACE .work_ns = RDL__MS, .rest_ns = 3 * RDL__MS, .turn_ns = 2 * RDL__MS, .long_ns = 3 * RDL__SEC, .sharers = 16

Test(shares, of_a_write_lock, .timeout = 60)
{
    expect_shares(&(struct shared){.of = rdl_write_lock, RACE});
}

Test(shares, of_a_simple_lock, .timeout = 60)
{
    expect_shares(&(struct shared){.of = rdl_simple_lock, RACE});
}

Test(shares, of_a_semaphores_permit, .timeout = 60)
{
    expect_shares(&(struct shared){RACE});
}

/* Who polls recalls a hold, and is asleep when it is given back. */
Test(shares, of_a_spin_lock_that_its_client_keeps, .timeout = 60)
{
    expect_shares(&(struct shared){.of = rdl_spin_lock,
                                   .cache_ms = 10000,
                                   .work_ns = 60 * RDL__US,
                                   .turn_ns = RDL__MS,
                                   .long_ns = 5 * RDL__SEC,
                                   .sharers = 2});
}
