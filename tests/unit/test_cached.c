/* SPDX-License-Identifier: MIT */
/* test_cached.c - a lock that its client keeps, from inside: what its loop is told of, and what many owners cost.
 *
 * The client is a real one, and lazy: nobody is there, and nothing is sent. The tests do what a server's answers do.
 */
#include "core/call/cache.h"
#include "core/call/cached.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>

#define CACHE_MS 60000
#define LEASE_MS 240000
#define SOON_MS 10000

static struct counting_alloc counting;
static rdl_client_t *client;
static rdl_lock_t *reads;
static struct rdl__name *name;
static struct rdl__cache *cache;

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_options_t options = {.version = RDL_CLIENT_OPTIONS_VERSION, .lazy = true, .allocator = &hooks};
    rdl_lock_options_t kept = RDL_LOCK_OPTIONS_INIT;

    kept.cache_ms = CACHE_MS;
    cr_assert_eq(rdl_client_open("redis://127.0.0.1:1", &options, &client, NULL), RDL_OK);
    cr_assert_eq(rdl_read_lock(client, "orders", &kept, &reads, NULL), RDL_OK);
    name = reads->name;
    cache = name->cache;
}

static void tear_down(void)
{
    reads = rdl_lock_free(reads);
    client = rdl_client_close(client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0, "%d blocks are left", (int)counting_alloc_blocks(&counting));
    counting_alloc_done(&counting);
}

TestSuite(cached, .init = set_up, .fini = tear_down, .timeout = 60);

/* One of the cache's that are the mutex's. */
static bool is_set(const bool *flag)
{
    bool set;

    rdl__mutex_lock(&name->mu);
    set = *flag;
    rdl__mutex_unlock(&name->mu);
    return set;
}

static void engage(void)
{
    rdl__mutex_lock(&name->mu);
    cache->used_at = rdl__now();
    cache->to_engage = true;
    rdl__cache_post(cache);
    rdl__mutex_unlock(&name->mu);
    cr_assert(WAIT_UNTIL(is_set(&cache->engaged), SOON_MS));
}

/* As a grant has it. Returns the keeper's record. */
static struct rdl__record *keep(void)
{
    struct rdl__record *rec;

    rdl__mutex_lock(&name->mu);
    cr_assert_eq(rdl__record_make(name, cache->keeper, cache->ops, &rec), RDL_OK);
    rec->hold.id.n = -rdl__client_number(client);
    rec->count = 1;
    rdl__watchdog_add(client->watchdog, &rec->hold, rdl__now(), LEASE_MS, false);
    cache->kept_rec = rec;
    cache->keep.sound = true;
    rdl__keep_granted(&cache->keep, rec->hold.id.n, rdl__now(), CACHE_MS);
    rdl__mutex_unlock(&name->mu);
    return rec;
}

/* ---- what the loop is told of ----------------------------------------------------------------------------------- */

/* Whoever frees the last handle leaves it to its lease, after the loop has looked, and found no handle. */
Test(cached, name_whose_hold_is_left_to_its_lease_is_looked_at_again)
{
    engage();
    (void)keep();
    rdl__mutex_lock(&name->mu);
    cache->owner_died = cache->keep.closed = true;
    rdl__keep_give(&cache->keep, RDL__END_RECALLED);
    rdl__mutex_unlock(&name->mu);
    rdl__cache_release(cache, reads);
    cr_assert(WAIT_UNTIL(!is_set(&cache->engaged), SOON_MS));
    cr_assert_eq(cache->keep.state, RDL__KEEP_NONE);
}

/* It has made room for another while what it is told is on its way: it would take the place of a third. */
Test(cached, name_is_listened_for_only_when_somebody_comes)
{
    for (int i = 0; i < 2; i++) { /* when the second has begun the first is over */
        rdl__mutex_lock(&name->mu);
        cache->used_at = rdl__now();
        rdl__cache_post(cache);
        rdl__mutex_unlock(&name->mu);
        cr_assert(WAIT_UNTIL(!is_set(&cache->posted), SOON_MS));
    }
    cr_assert(!is_set(&cache->engaged));
}

/* ---- what many owners cost -------------------------------------------------------------------------------------- */

enum { READERS = 16000, TIMES = 3 };

static rdl_owner_t *owners[READERS];

static int64_t cpu_us(void)
{
    struct timespec ts;

    cr_assert_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void let_in(void)
{
    for (int i = 0; i < READERS; i++) {
        struct rdl__record *rec;

        cr_assert_eq(rdl_owner_new(client, &owners[i], NULL), RDL_OK);
        rdl__mutex_lock(&name->mu);
        cr_assert_eq(rdl__record_make(name, owners[i], cache->ops, &rec), RDL_OK);
        rec->hold.id.n = RDL__LOCAL_NUMBERS - 1 - i;
        rec->count = 1;
        rec->renewed = rec->inside = true;
        cache->inside++;
        rdl__mutex_unlock(&name->mu);
    }
}

/* How many have been told a risk. Looks through all of them. */
static int told(void)
{
    int count = 0;

    rdl__mutex_lock(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records; l = l->next)
        count += rdl__container(l, struct rdl__record, link)->risk_told;
    rdl__mutex_unlock(&name->mu);
    return count;
}

static void tell_nobody(void)
{
    rdl__mutex_lock(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records; l = l->next)
        rdl__container(l, struct rdl__record, link)->risk_told = false;
    rdl__mutex_unlock(&name->mu);
}

/* Telling them takes as long as looking through them some 10 times, at the best of several; if each were looked for
 * among all, thousands of times. */
Test(cached, telling_many_readers_costs_in_proportion)
{
    struct rdl__record *kept = keep();
    int64_t telling = INT64_MAX, looking = INT64_MAX;

    let_in();
    for (int time = 0; time < TIMES; time++) {
        int64_t from, between, to;

        tell_nobody();
        from = cpu_us();
        rdl__cache_changed(kept, &kept->hold.id, RDL_AT_RISK, RDL_LOSS_RENEWAL, rdl__now());
        between = cpu_us();
        cr_assert_eq(told(), READERS);
        to = cpu_us();
        telling = between - from < telling ? between - from : telling;
        looking = to - between < looking ? to - between : looking;
    }
    cr_assert_lt(telling, 500 * looking, "told in %d us, looked through in %d", (int)telling, (int)looking);
    for (int i = 0; i < READERS; i++)
        (void)rdl_owner_free(owners[i]);
}
