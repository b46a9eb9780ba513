/* SPDX-License-Identifier: MIT */
/* race_async.c - asynchronous calls from many threads: chains whose callbacks start the next call, for many owners on
 * few locks, with the callbacks on the loop's thread in one client and on two threads of the program's in another.
 * Every call that said RDL_OK calls back once; whoever is inside is alone. */
#include "tests/support/race.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { STARTERS = 4, CHAINS = 24, LOCKS = 3, DISPATCHERS = 2 };

struct chain {
    rdl_owner_t *owner;
    unsigned random;
    int which;
    atomic_bool idle; /* nothing of this chain is under way */
};

static rdl_client_t *clients[2]; /* by way of dispatch */
static rdl_lock_t *locks[2][LOCKS];
static struct guarded resources[LOCKS];
static struct chain chains[2][CHAINS];
static atomic_bool over;
static atomic_ullong started, called, acquired;

static void go_on(struct chain *chain, rdl_lock_t *lock);

static void unlocked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct chain *chain = arg;

    atomic_fetch_add(&called, 1);
    if (result != RDL_OK)
        race_violation("unlock: %s", err->message);
    go_on(chain, lock);
}

static void locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct chain *chain = arg;

    atomic_fetch_add(&called, 1);
    if (result == RDL_ETIMEDOUT || result == RDL_EUNKNOWN ||
        result == RDL_ECONN) { /* not connected yet, and in a hurry */
        go_on(chain, lock);
        return;
    }
    if (result != RDL_OK) {
        race_violation("lock: %s: %s", rdl_err_name((int)result), err->message);
        atomic_store(&chain->idle, true);
        return;
    }
    atomic_fetch_add(&acquired, 1);
    guarded_enter(&resources[chain->which], rdl_owner_token(chain->owner, lock, NULL));
    guarded_leave(&resources[chain->which]);
    atomic_fetch_add(&started, 1);
    if (rdl_unlock_async(lock, chain->owner, unlocked, chain, NULL, NULL) != RDL_OK)
        race_violation("unlock could not be started");
}

/* The next link of the chain, or its end. */
static void go_on(struct chain *chain, rdl_lock_t *lock)
{
    int64_t wait = race_below(&chain->random, 3) == 0 ? race_below(&chain->random, 5) + 1 : 20000;

    if (atomic_load(&over)) {
        atomic_store(&chain->idle, true);
        return;
    }
    atomic_fetch_add(&started, 1);
    if (rdl_try_lock_async(lock, chain->owner, wait, RDL_LEASE_AUTO, locked, chain, NULL, NULL) != RDL_OK)
        race_violation("lock could not be started");
}

static void *start_chains(void *arg)
{
    struct race_thread *t = arg;

    for (int i = t->number; i < 2 * CHAINS; i += STARTERS) {
        struct chain *chain = &chains[i % 2][i / 2];

        chain->random = t->random + (unsigned)i;
        chain->which = race_below(&chain->random, LOCKS);
        go_on(chain, locks[i % 2][chain->which]);
    }
    return NULL;
}

static bool all_idle(void)
{
    for (int i = 0; i < 2 * CHAINS; i++) {
        if (!atomic_load(&chains[i % 2][i / 2].idle))
            return false;
    }
    return true;
}

static atomic_bool dispatch_over;

static void *dispatch(void *arg)
{
    struct pollfd wait = {.fd = rdl_client_fd(clients[1]), .events = POLLIN};

    (void)arg;
    while (!atomic_load(&dispatch_over)) {
        if (poll(&wait, 1, 20) > 0 && rdl_client_dispatch(clients[1]) < 0)
            race_violation("dispatch failed");
    }
    return NULL;
}

static void set_up(struct stage *st)
{
    const rdl_lock_options_t *fenced = LOCK_OPTIONS(.fencing = RDL_FENCING_TIME);

    clients[0] = st->client;
    clients[1] = client_open(stage_uri(st), OPTIONS(.dispatch = RDL_DISPATCH_FD));
    for (int i = 0; i < 2 * LOCKS; i++) {
        char *name = must_format("chained%d", i / 2);

        locks[i % 2][i / 2] = reentrant(clients[i % 2], name, fenced);
        free(name);
    }
    for (int i = 0; i < 2 * CHAINS; i++) {
        if (rdl_owner_new(clients[i % 2], &chains[i % 2][i / 2].owner, NULL) < 0)
            die("no owner");
    }
}

int main(int argc, char **argv)
{
    struct race_thread starters[STARTERS], dispatchers[DISPATCHERS];
    struct stage st;

    race_begin(argc, argv);
    race_wants(&acquired, 100);
    stage_open(&st, .client = NULL);
    set_up(&st);
    race_start(dispatchers, DISPATCHERS, dispatch, NULL);
    race_start(starters, STARTERS, start_chains, NULL);
    race_join(starters, STARTERS);
    while (race_goes_on())
        let_pass_ms(20);
    atomic_store(&over, true);
    race_claim(WAIT_UNTIL(all_idle(), 30000), "every chain comes to its end");
    atomic_store(&dispatch_over, true);
    race_join(dispatchers, DISPATCHERS);
    printf("%llu calls, %llu callbacks, %llu acquired\n", started, called, acquired);
    race_claim(started == called, "every call calls back, once");
    race_claim(race_violations() == 0, "whoever is inside is alone, with a token above the last");
    race_claim(race_had_them(), "the locks were taken");
    race_claim(stage_ends_clean(&st, 5000), "nothing is left at the server");
    for (int i = 0; i < 2 * CHAINS; i++)
        rdl_owner_free(chains[i % 2][i / 2].owner);
    for (int i = 0; i < 2 * LOCKS; i++)
        rdl_lock_free(locks[i % 2][i / 2]);
    rdl_client_close(clients[1]);
    stage_close(&st);
    return race_end();
}
