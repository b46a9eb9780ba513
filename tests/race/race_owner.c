/* SPDX-License-Identifier: MIT */
/* race_owner.c - owners that are not threads: a hold handed from thread to thread, and one owner on several threads at
 * once.
 *
 * Half of the threads pass batons: whoever has a baton holds its lock as the baton's owner, works, and leaves the
 * unlocking, or the next nested lock, to another thread. The others fight for the same locks as themselves. */
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATONS = 3, RUNNERS = 5, RIVALS = 3 };

struct baton {
    rdl_owner_t *owner;
    rdl_lock_t *lock;
    struct guarded resource;
    int count; /* holds; the runner's who has the baton */
};

static rdl_client_t *client;
static struct baton batons[BATONS];
static atomic_bool over;
static atomic_ullong handed, taken;

/* Batons that nobody has at the moment. */
static struct {
    pthread_mutex_t mu;
    struct baton *free[BATONS];
    int count;
} rack = {.mu = PTHREAD_MUTEX_INITIALIZER};

static struct baton *pick(struct race_thread *t)
{
    struct baton *baton = NULL;
    int i;

    pthread_mutex_lock(&rack.mu);
    if (rack.count > 0) {
        i = race_below(&t->random, rack.count);
        baton = rack.free[i];
        rack.free[i] = rack.free[--rack.count];
    }
    pthread_mutex_unlock(&rack.mu);
    return baton;
}

static void put_back(struct baton *baton)
{
    pthread_mutex_lock(&rack.mu);
    rack.free[rack.count++] = baton;
    pthread_mutex_unlock(&rack.mu);
}

static void expect(int rc, const char *verb, const rdl_err_t *err)
{
    if (rc != RDL_OK)
        race_violation("%s: %s: %s", verb, rdl_err_name(rc), err->message);
}

/* One step with the baton: deeper in, or out. Bound to its owner, so the hold of whoever had it before is ours. */
static void step(struct race_thread *t, struct baton *baton, bool only_out)
{
    rdl_err_t err = {0};

    expect(rdl_owner_bind(baton->owner, &err), "bind", &err);
    if (rdl_hold_count(baton->lock, NULL) != baton->count)
        race_violation("%d holds by our count, %lld by the library's", baton->count,
                       (long long)rdl_hold_count(baton->lock, NULL));
    if (baton->count < 3 && !only_out && race_below(&t->random, 2) == 0) {
        expect(rdl_try_lock(baton->lock, 10000, RDL_LEASE_AUTO, &err), "lock", &err);
        if (baton->count++ == 0)
            guarded_enter(&baton->resource, rdl_token(baton->lock, NULL));
    } else if (baton->count > 0) {
        if (--baton->count == 0)
            guarded_leave(&baton->resource);
        expect(rdl_unlock(baton->lock, &err), "unlock", &err);
    }
    rdl_owner_unbind(client);
    atomic_fetch_add(&handed, 1);
}

static void *run_with_batons(void *arg)
{
    struct race_thread *t = arg;

    while (!atomic_load(&over)) {
        struct baton *baton = pick(t);

        if (baton == NULL)
            continue;
        step(t, baton, false);
        put_back(baton);
    }
    return NULL;
}

static void *rival(void *arg)
{
    struct race_thread *t = arg;
    rdl_err_t err = {0};

    while (!atomic_load(&over)) {
        struct baton *baton = &batons[race_below(&t->random, BATONS)];
        int rc = rdl_try_lock(baton->lock, race_below(&t->random, 20), RDL_LEASE_AUTO, &err);

        if (rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN || rc == RDL_ECONN) /* not connected yet, and in a hurry */
            continue;
        expect(rc, "rival's lock", &err);
        atomic_fetch_add(&taken, 1);
        guarded_enter(&baton->resource, rdl_token(baton->lock, NULL));
        guarded_leave(&baton->resource);
        expect(rdl_unlock(baton->lock, &err), "rival's unlock", &err);
    }
    return NULL;
}

/* One owner bound to all of them at once: verbs take turns, and the count comes out even. */
static void *crowd(void *arg)
{
    struct race_thread *t = arg;
    struct baton *baton = t->arg;
    rdl_err_t err = {0};

    expect(rdl_owner_bind(baton->owner, &err), "bind", &err);
    for (int i = 0; i < 200; i++) {
        expect(rdl_lock(baton->lock, RDL_LEASE_AUTO, &err), "crowd's lock", &err);
        expect(rdl_unlock(baton->lock, &err), "crowd's unlock", &err);
    }
    rdl_owner_unbind(client);
    return NULL;
}

static void make_batons(void)
{
    for (int i = 0; i < BATONS; i++) {
        char *name = must_format("baton%d", i);

        batons[i].lock = reentrant(client, name, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
        if (rdl_owner_new(client, &batons[i].owner, NULL) < 0)
            die("no owner");
        put_back(&batons[i]);
        free(name);
    }
}

int main(int argc, char **argv)
{
    struct race_thread runners[RUNNERS], rivals[RIVALS], all[RUNNERS + RIVALS];
    struct stage st;

    race_begin(argc, argv);
    race_wants(&handed, 100);
    race_wants(&taken, 10);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 5000));
    client = st.client;
    make_batons();
    race_start(runners, RUNNERS, run_with_batons, NULL);
    race_start(rivals, RIVALS, rival, NULL);
    while (race_goes_on())
        let_pass_ms(20);
    atomic_store(&over, true);
    race_join(runners, RUNNERS);
    race_join(rivals, RIVALS);
    for (int i = 0; i < BATONS; i++) {
        while (batons[i].count > 0)
            step(&runners[0], &batons[i], true);
    }
    printf("%llu steps, %llu taken by rivals\n", handed, taken);
    race_claim(race_violations() == 0, "a hold moves between threads and stays one hold");
    race_claim(race_had_them(), "batons and rivals had their turns");
    race_start(all, RUNNERS + RIVALS, crowd, &batons[0]);
    race_join(all, RUNNERS + RIVALS);
    race_claim(race_violations() == 0, "one owner on many threads: verbs take turns");
    race_claim(stage_ends_clean(&st, 5000), "nothing is left at the server");
    for (int i = 0; i < BATONS; i++) {
        rdl_lock_free(batons[i].lock);
        rdl_owner_free(batons[i].owner);
    }
    stage_close(&st);
    return race_end();
}
