/* SPDX-License-Identifier: MIT */
/* race_close.c - closing a client while everything is under way on it: blocking and asynchronous calls, questions,
 * holds with renewals. Every blocking call returns, every callback comes once and before close returns, and so does all
 * that is counted of a kept lock. Of a multi-lock nothing is left that nobody was told to hold. */
#include "tests/support/race.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 6 };

struct life {
    rdl_client_t *client;
    rdl_lock_t *locks[3];
    rdl_owner_t *owner;
    atomic_bool closed; /* close has returned */
    atomic_uint started, called;
};

static atomic_ullong lives, calls;

static void called_back(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct life *life = arg;

    (void)lock;
    if (result < 0 && (err == NULL || err->code != result))
        race_violation("a callback's error does not explain its result");
    if (atomic_load(&life->closed))
        race_violation("a callback after close");
    atomic_fetch_add(&life->called, 1);
}

static bool acceptable(int64_t rc)
{
    return rc >= 0 || rc == RDL_ECLOSED || rc == RDL_ETIMEDOUT || rc == RDL_ENOTOWNER || rc == RDL_EDEADLK ||
           rc == RDL_EUNKNOWN || rc == RDL_ECONN || rc == RDL_ECANCELED || rc == RDL_ELOST;
}

static void start_async(struct life *life, struct race_thread *t, rdl_lock_t *lock)
{
    rdl_owner_t *owner = race_below(&t->random, 2) ? life->owner : NULL;
    rdl_op_t *op = NULL;
    int rc;

    atomic_fetch_add(&life->started, 1);
    rc = race_below(&t->random, 2) ? rdl_lock_async(lock, owner, RDL_LEASE_AUTO, called_back, life, &op, NULL)
                                   : rdl_unlock_async(lock, owner, called_back, life, NULL, NULL);
    if (rc != RDL_OK)
        atomic_fetch_sub(&life->started, 1);
    if (race_below(&t->random, 2))
        rdl_op_cancel(op);
    rdl_op_free(op);
}

static int64_t do_something(struct life *life, struct race_thread *t)
{
    rdl_lock_t *lock = life->locks[race_below(&t->random, 3)];

    switch (race_below(&t->random, 7)) {
    case 0:
        return rdl_lock(lock, RDL_LEASE_AUTO, NULL);
    case 1:
        return rdl_try_lock(lock, race_below(&t->random, 30), 500, NULL);
    case 2:
    case 3:
        return rdl_unlock(lock, NULL);
    case 4:
        return rdl_is_locked(lock, NULL);
    case 5:
        return rdl_hold_count(lock, NULL);
    default:
        start_async(life, t, lock);
        return 0;
    }
}

static void *live(void *arg)
{
    struct race_thread *t = arg;
    struct life *life = t->arg;
    int64_t rc = 0;

    while (rc != RDL_ECLOSED) {
        rc = do_something(life, t);
        atomic_fetch_add(&calls, 1);
        if (!acceptable(rc))
            race_violation("a call returned %s", rdl_err_name((int)rc));
    }
    return NULL;
}

/* Open, let them loose, close at some moment, and see that all came home. The threads know handles only: the client
 * itself is freed by close. */
static void live_once(struct stage *st, unsigned *random, bool dispatching)
{
    static struct life life;
    struct race_thread threads[THREADS];
    int64_t start;

    atomic_store(&life.closed, false);
    atomic_store(&life.started, 0);
    atomic_store(&life.called, 0);
    life.client = client_open(server_uri(st->server),
                              OPTIONS(.watchdog_lease_ms = 60, .close_timeout_ms = race_below(random, 2) ? 500 : 1,
                                      .connections = race_below(random, 2) ? 1 : 4,
                                      .dispatch = dispatching ? RDL_DISPATCH_FD : RDL_DISPATCH_LOOP));
    life.locks[0] = reentrant(life.client, "closing0", NULL);
    life.locks[1] = simple(life.client, "closing1", NULL);
    life.locks[2] = reentrant(life.client, "closing2", NULL);
    if (rdl_owner_new(life.client, &life.owner, NULL) < 0)
        die("no owner");
    race_start(threads, THREADS, live, &life);
    if (dispatching) {
        for (int64_t end = now_ms() + race_below(random, 60); now_ms() < end; let_pass_ms(1))
            (void)rdl_client_dispatch(life.client);
    } else {
        let_pass_ms(race_below(random, 60));
    }
    start = now_ms();
    (void)rdl_client_close(life.client);
    atomic_store(&life.closed, true);
    if (now_ms() - start > 3000)
        race_violation("close took %lld ms", (long long)(now_ms() - start));
    race_join(threads, THREADS);
    if (atomic_load(&life.called) != atomic_load(&life.started))
        race_violation("%u callbacks for %u calls", atomic_load(&life.called), atomic_load(&life.started));
    for (int i = 0; i < 3; i++)
        rdl_lock_free(life.locks[i]);
    rdl_owner_free(life.owner);
    atomic_fetch_add(&lives, 1);
}

/* ---- a multi-lock ----------------------------------------------------------------------------------------------- */

enum { TAKERS = 4, MEMBERS = 2 };

static atomic_uint left_held; /* takes that were granted, and not given back */

/* Until closed. */
static void *take_and_release(void *arg)
{
    rdl_lock_t *multi = ((struct race_thread *)arg)->arg;
    int64_t rc = 0;

    while (rc != RDL_ECLOSED) {
        rc = rdl_try_lock(multi, 20, 3600000, NULL);
        if (!acceptable(rc))
            race_violation("a take returned %s", rdl_err_name((int)rc));
        if (rc == RDL_OK && (rc = rdl_unlock(multi, NULL)) != RDL_OK)
            atomic_fetch_add(&left_held, 1);
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

/* Members of two clients or of one; one is closed in mid-traffic, and then the other. */
static void close_under_takes(struct stage *st, unsigned *random)
{
    static const char *const names[MEMBERS] = {"multi0", "multi1"};
    struct race_thread threads[TAKERS];
    rdl_client_t *clients[MEMBERS];
    rdl_lock_t *members[MEMBERS], *multi = NULL;
    int n = 1 + race_below(random, MEMBERS), first = race_below(random, n);

    atomic_store(&left_held, 0);
    for (int i = 0; i < n; i++)
        clients[i] = client_open(server_uri(st->server), OPTIONS(.close_timeout_ms = 5000));
    for (int i = 0; i < MEMBERS; i++)
        members[i] = reentrant(clients[i % n], names[i], NULL);
    if (rdl_multi_lock(members, MEMBERS, NULL, &multi, NULL) < 0)
        die("no multi-lock");
    race_start(threads, TAKERS, take_and_release, multi);
    let_pass_ms(race_below(random, 20));
    for (int i = 0; i < n; i++)
        (void)rdl_client_close(clients[(first + i) % n]);
    race_join(threads, TAKERS);
    if (atomic_load(&left_held) == 0 && probe_int(st->probe, "EXISTS multi0 multi1") != 0)
        race_violation("nobody holds the multi-lock, and members of it are left taken");
    (void)probe_int(st->probe, "DEL multi0 multi1");
    rdl_lock_free(multi);
    for (int i = 0; i < MEMBERS; i++)
        rdl_lock_free(members[i]);
    atomic_fetch_add(&lives, (unsigned)n);
}

/* ---- locks that are kept ---------------------------------------------------------------------------------------- */

static atomic_bool counts_no_more; /* close has returned */

static void count(rdl_metric_t metric, int64_t value, void *arg)
{
    (void)metric, (void)value, (void)arg;
    if (atomic_load(&counts_no_more))
        race_violation("counted after close");
}

/* Until closed: taken and given back without the server, for the most part. */
static void *come_and_go(void *arg)
{
    struct race_thread *t = arg;
    rdl_lock_t *const *locks = t->arg;
    int64_t rc = 0;

    while (rc != RDL_ECLOSED) {
        rdl_lock_t *lock = locks[race_below(&t->random, 2)];

        rc = rdl_try_lock(lock, 20, race_below(&t->random, 8) == 0 ? 1 : RDL_LEASE_AUTO, NULL);
        if (rc == RDL_OK)
            rc = rdl_unlock(lock, NULL);
        if (!acceptable(rc))
            race_violation("a kept lock's call returned %s", rdl_err_name((int)rc));
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

/* Each time of its own names: what somebody is inside of is left to its lease. */
static void close_under_kept(struct stage *st, unsigned *random)
{
    char *names[2] = {must_format("kept%llu", lives), must_format("shared%llu", lives)};
    struct race_thread threads[TAKERS];
    rdl_lock_t *locks[2];
    rdl_client_t *client;

    atomic_store(&counts_no_more, false);
    client = client_open(server_uri(st->server),
                         OPTIONS(.watchdog_lease_ms = 500, .metrics_fn = race_below(random, 2) == 0 ? NULL : count));
    locks[0] = nonreentrant(client, names[0], LOCK_OPTIONS(.cache_ms = 1000));
    locks[1] = read_end(client, names[1], LOCK_OPTIONS(.cache_ms = 1000));
    race_start(threads, TAKERS, come_and_go, locks);
    let_pass_ms(5 + race_below(random, 20));
    (void)rdl_client_close(client);
    atomic_store(&counts_no_more, true);
    race_join(threads, TAKERS);
    for (int i = 0; i < 2; i++) {
        rdl_lock_free(locks[i]);
        free(names[i]);
    }
    atomic_fetch_add(&lives, 1);
}

int main(int argc, char **argv)
{
    struct stage st;
    unsigned random = 5;

    race_begin(argc, argv);
    race_wants(&lives, 3);
    stage_open(&st, .client = NULL);
    while (race_goes_on()) {
        live_once(&st, &random, race_below(&random, 2) == 0);
        for (int i = 0; i < 10; i++) {
            close_under_takes(&st, &random);
            close_under_kept(&st, &random);
        }
    }
    printf("%llu clients, %llu calls\n", lives, calls);
    race_claim(race_violations() == 0, "every call returns, every callback comes once and in time");
    race_claim(race_had_them(), "clients were opened and closed");
    /* a client that closes within 1 ms has no time to leave a line */
    race_claim(stage_lines_end(&st), "no place in a line is left for longer than that lasts");
    race_claim(stage_is_clean(&st, 5000), "nothing is left at the server but for its lease");
    stage_close(&st);
    return race_end();
}
