/* SPDX-License-Identifier: MIT */
/* race_cluster.c - many threads and chains of asynchronous calls on locks of all shards of a real cluster, while slots
 * move, masters and replicas change places, and clients are opened, and closed in the middle of their calls.
 * Nothing that is done here loses a write, so whoever is inside is alone; every call comes home, and nothing is left.
 *
 * Two names a shard: the slot of one moves, that of the other stays, and tells who the shard's master is. The cluster
 * is the main thread's, which does the harm; the others know its URI. */
#include "tests/support/cluster.h"
#include "tests/support/race.h"

#include <stdio.h>

enum { SHARDS = CLUSTER_MASTERS, LOCKS = 2 * SHARDS, CALLERS = 6, CHAINS = 12, OPENERS = 2, FIRST_CALLS = 4 };

#define BRIEF_LEASE_MS 300 /* what a client that is closed early leaves behind ends soon */
#define HOME_MS 30000
#define SAME_VOTES_MS 5000
#define CLEAN_MS 20000 /* who left a fair queue by closing stays in it for 15 s */

/* Each name is of one type, whoever uses it. */
static handle_fn *const make[LOCKS] = {reentrant, simple, fair, write_end, nonreentrant, reentrant};

struct chain {
    rdl_owner_t *owner;
    unsigned random;
    int which;
    atomic_bool idle; /* nothing of it is under way */
};

static struct cluster *cluster;
static struct guarded resources[LOCKS];
static rdl_lock_t *locks[LOCKS]; /* of callers and chains */
static struct chain chains[CHAINS];
static atomic_bool over;
static atomic_ullong acquired, refused, started, called, closed_early;

static unsigned slot_of(int which)
{
    return cluster_first_slot(which / 2) + (unsigned)which % 2;
}

static rdl_lock_t *lock_of(rdl_client_t *client, int which)
{
    return make[which](client, cluster_name(slot_of(which), 0).text, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
}

/* True: it did what it should. What else it says must be nothing but that it could not, or could not know. */
static bool note(int64_t rc, const char *verb, const rdl_err_t *err)
{
    if (rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN || rc == RDL_ECONN)
        atomic_fetch_add(&refused, 1);
    else if (rc != RDL_OK)
        race_violation("%s: %s: %s", verb, rdl_err_name((int)rc), err->message);
    return rc == RDL_OK;
}

static void use(int which, int64_t token)
{
    atomic_fetch_add(&acquired, 1);
    guarded_enter(&resources[which], token);
    guarded_leave(&resources[which]);
}

/* ---- blocking calls --------------------------------------------------------------------------------------------- */

static void call(struct race_thread *t, rdl_lock_t *const *handles)
{
    static const int64_t waits[] = {0, 5, 500, 20000};
    int which = race_below(&t->random, LOCKS);
    rdl_err_t err = {0};

    if (!note(rdl_try_lock(handles[which], waits[race_below(&t->random, 4)],
                           race_below(&t->random, 2) ? RDL_LEASE_AUTO : 20000, &err),
              "try_lock", &err))
        return;
    use(which, rdl_token(handles[which], NULL));
    if (rdl_is_held(handles[which], &err) != 1)
        race_violation("held, and told otherwise");
    (void)note(rdl_unlock(handles[which], &err), "unlock", &err);
}

static void *call_on(void *arg)
{
    while (!atomic_load(&over))
        call(arg, locks);
    return NULL;
}

/* ---- asynchronous calls ----------------------------------------------------------------------------------------- */

static void go_on(struct chain *chain);

static void unlocked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    (void)lock;
    atomic_fetch_add(&called, 1);
    (void)note(result, "asynchronous unlock", err);
    go_on(arg);
}

static void locked(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct chain *chain = arg;

    atomic_fetch_add(&called, 1);
    if (!note(result, "asynchronous lock", err)) {
        go_on(chain);
        return;
    }
    use(chain->which, rdl_owner_token(chain->owner, lock, NULL));
    atomic_fetch_add(&started, 1);
    if (rdl_unlock_async(lock, chain->owner, unlocked, chain, NULL, NULL) != RDL_OK)
        race_violation("unlock could not be started");
}

/* The next link of the chain, on any of the locks, or its end. */
static void go_on(struct chain *chain)
{
    int64_t wait = race_below(&chain->random, 3) == 0 ? race_below(&chain->random, 5) + 1 : 20000;

    if (atomic_load(&over)) {
        atomic_store(&chain->idle, true);
        return;
    }
    chain->which = race_below(&chain->random, LOCKS);
    atomic_fetch_add(&started, 1);
    if (rdl_try_lock_async(locks[chain->which], chain->owner, wait, RDL_LEASE_AUTO, locked, chain, NULL, NULL) !=
        RDL_OK)
        race_violation("lock could not be started");
}

static bool all_idle(void)
{
    for (int i = 0; i < CHAINS; i++)
        if (!atomic_load(&chains[i].idle))
            return false;
    return true;
}

/* ---- clients that are closed early ------------------------------------------------------------------------------ */

/* A client's calls that are under way as it is closed. */
struct brief {
    rdl_client_t *client;
    rdl_lock_t *locks[LOCKS];
    rdl_owner_t *owners[LOCKS];
    atomic_uint started, called;
};

/* Of a hold that comes before the end nothing is made. */
static void cut_short(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct brief *b = arg;

    (void)lock;
    if (result != RDL_ECLOSED)
        (void)note(result, "a lock of a client that is closed", err);
    atomic_fetch_add(&b->called, 1);
}

static void ask_for_everything(struct brief *b)
{
    for (int i = 0; i < LOCKS; i++) {
        if (rdl_owner_new(b->client, &b->owners[i], NULL) < 0)
            die("no owner");
        if (rdl_try_lock_async(b->locks[i], b->owners[i], 20000, BRIEF_LEASE_MS, cut_short, b, NULL, NULL) == RDL_OK)
            atomic_fetch_add(&b->started, 1);
        else
            race_violation("a take could not be started");
    }
}

static void open_and_close(struct race_thread *t)
{
    struct brief b = {.client = client_open(cluster->uri, OPTIONS(.connections = 1))};

    for (int i = 0; i < LOCKS; i++)
        b.locks[i] = lock_of(b.client, i);
    for (int i = 0; i < FIRST_CALLS; i++)
        call(t, b.locks);
    ask_for_everything(&b);
    let_pass_ms(race_below(&t->random, 10));
    (void)rdl_client_close(b.client);
    if (atomic_load(&b.called) != atomic_load(&b.started))
        race_violation("%u callbacks for %u calls of a client that was closed", atomic_load(&b.called),
                       atomic_load(&b.started));
    for (int i = 0; i < LOCKS; i++) {
        rdl_lock_free(b.locks[i]);
        rdl_owner_free(b.owners[i]);
    }
    atomic_fetch_add(&closed_early, 1);
}

static void *open_and_close_on(void *arg)
{
    while (!atomic_load(&over))
        open_and_close(arg);
    return NULL;
}

/* ---- harm ------------------------------------------------------------------------------------------------------- */

static int master_of(int shard)
{
    unsigned slot = slot_of(2 * shard + 1);

    if (!WAIT_UNTIL(cluster_master(cluster, slot) >= 0, CLUSTER_FAILOVER_BOUND_MS))
        die("shard %d has no master", shard);
    return cluster_master(cluster, slot);
}

/* Slowly enough that calls meet each of its steps. */
static void move_slot(int shard, unsigned *random)
{
    unsigned slot = slot_of(2 * shard);
    int from = cluster_master(cluster, slot), to = race_below(random, SHARDS);

    while (master_of(to) == from)
        to = (to + 1) % SHARDS;
    to = master_of(to);
    cluster_begin_move(cluster, slot, to);
    let_pass_ms(race_below(random, 20));
    while (cluster_move_keys(cluster, slot, to) > 0)
        ;
    let_pass_ms(race_below(random, 20));
    cluster_end_move(cluster, slot, to);
}

/* A node that is to take over again within 4 s counts the votes of the last time, and nobody follows it. */
static bool may_change_places(int replica)
{
    static int64_t last_ms[CLUSTER_NODES];
    bool may = last_ms[replica] == 0 || now_ms() - last_ms[replica] > SAME_VOTES_MS;

    if (may)
        last_ms[replica] = now_ms();
    return may;
}

static void change_places(int shard)
{
    int master = master_of(shard), replica = master < SHARDS ? CLUSTER_REPLICA_OF(master) : master - SHARDS;

    if (!may_change_places(replica))
        return;
    cluster_failover(cluster, replica);
    if (!cluster_wait_master(cluster, slot_of(2 * shard + 1), replica, CLUSTER_FAILOVER_BOUND_MS))
        die("shard %d does not change its master", shard);
}

/* Each kind of it once at least, however slow the machine is. */
static unsigned do_harm(void)
{
    unsigned random = 23, times = 0;

    for (; race_goes_on() || times < 3; times++) {
        int shard = race_below(&random, SHARDS);

        if (times % 3 == 2)
            change_places(shard);
        else
            move_slot(shard, &random);
    }
    return times;
}

/* ---- the race --------------------------------------------------------------------------------------------------- */

static void set_up(rdl_client_t *client)
{
    for (int i = 0; i < LOCKS; i++)
        locks[i] = lock_of(client, i);
    for (int i = 0; i < CHAINS; i++)
        if (rdl_owner_new(client, &chains[i].owner, NULL) < 0)
            die("no owner");
}

static void clear_away(void)
{
    for (int i = 0; i < CHAINS; i++)
        rdl_owner_free(chains[i].owner);
    for (int i = 0; i < LOCKS; i++)
        rdl_lock_free(locks[i]);
}

static void *start_chains(void *arg)
{
    struct race_thread *t = arg;

    for (int i = 0; i < CHAINS; i++) {
        chains[i].random = t->random + (unsigned)i;
        go_on(&chains[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct race_thread callers[CALLERS], openers[OPENERS], starter;
    rdl_client_t *client;
    unsigned harm;

    race_begin(argc, argv);
    race_wants(&acquired, 100);
    race_wants(&closed_early, 0);
    cluster = cluster_start(NULL);
    client = client_open(cluster->uri, NULL);
    set_up(client);
    race_start(&starter, 1, start_chains, NULL);
    race_start(callers, CALLERS, call_on, NULL);
    race_start(openers, OPENERS, open_and_close_on, NULL);
    harm = do_harm();
    atomic_store(&over, true);
    race_join(&starter, 1);
    race_join(callers, CALLERS);
    race_join(openers, OPENERS);
    race_claim(WAIT_UNTIL(all_idle(), HOME_MS), "every chain comes to its end");
    printf("%u times harm, %llu acquired, %llu refused, %llu clients closed early; %llu calls, %llu callbacks\n", harm,
           acquired, refused, closed_early, started, called);
    race_claim(started == called, "every call calls back, once");
    race_claim(race_violations() == 0, "whoever is inside is alone, with a token above the last");
    race_claim(race_had_them(), "locks were taken, and clients closed early");
    race_claim(cluster_is_clean(cluster, CLEAN_MS), "nothing is left at any master");
    clear_away();
    rdl_client_close(client);
    cluster_stop(cluster);
    return race_end();
}
