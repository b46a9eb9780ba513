/* SPDX-License-Identifier: MIT */
/* failover.c - a master is killed while a lock is waited for: from the moment at which others know its successor until
 * the waiter has the lock. Each round has servers of its own.
 *
 * Behind sentinels that moment is when the first of them names the new master (+switch-master). In a cluster, with
 * --kind redlatch-cluster, it is when the replica takes itself for the master and says that the cluster serves.
 *
 * Who holds the lock is somebody else, whose lease ends while there is no master: so the waiter could have it as soon
 * as there is one again. Behind sentinels that may be before their word: the one that leads tells who asks a little
 * sooner. How long they took is told as well: from the kill to that moment. */
#include "tools/benchmarks/programs/ours.h"

#include "tests/support/cluster.h"
#include "tests/support/probe.h"
#include "tests/support/sentinels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOCK "bench:failover"
#define DEAD_LEASE_MS 500 /* less than the sentinels need */

struct herald {
    struct probe *probe;
    int64_t heard_at;
};

struct caller {
    rdl_lock_t *lock;
    int64_t locked_at;
};

static void *hear(void *arg)
{
    struct herald *herald = arg;

    if (probe_next(herald->probe, FAILOVER_BOUND_MS) == NULL)
        fail("no sentinel has named a new master");
    herald->heard_at = now_ns();
    return NULL;
}

static void *lock_once(void *arg)
{
    struct caller *caller = arg;
    rdl_err_t err;

    ours_check(rdl_try_lock(caller->lock, (int64_t)2 * FAILOVER_BOUND_MS, RDL_LEASE_AUTO, &err), &err);
    caller->locked_at = now_ns();
    ours_check(rdl_unlock(caller->lock, &err), &err);
    return NULL;
}

static pthread_t begin(void *(*body)(void *arg), void *arg)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, arg) != 0)
        fail("cannot start a thread");
    return thread;
}

/* The lock is held by somebody else for DEAD_LEASE_MS, and the caller asleep on its channel, when this returns. */
static pthread_t wait_for_it(const struct server *at, bool sharded, struct caller *caller)
{
    struct probe *master = probe_open(at);
    pthread_t thread;

    (void)probe_ask(master, "HSET " LOCK " somebody:1 1");
    thread = begin(lock_once, caller);
    while (probe_channels_of(master, sharded) == 0)
        pause_ns(MS);
    (void)probe_ask(master, "PEXPIRE " LOCK " %d", DEAD_LEASE_MS);
    (void)probe_ask(master, "WAIT 1 %d", DEAD_LEASE_MS);
    probe_close(master);
    return thread;
}

static void behind_sentinels(struct samples *named, struct samples *locked)
{
    struct sentinels *fleet = sentinels_start(NULL);
    rdl_client_t *client = ours_open(fleet->uri, NULL);
    struct caller caller = {.lock = ours_lock(client, "redlatch", LOCK)};
    struct herald heralds[SENTINELS];
    pthread_t heard[SENTINELS], waiter;
    int64_t killed_at, first = INT64_MAX;

    for (int i = 0; i < SENTINELS; i++) {
        heralds[i].probe = probe_open(fleet->sentinel[i]);
        (void)probe_ask(heralds[i].probe, "SUBSCRIBE +switch-master");
        heard[i] = begin(hear, &heralds[i]);
    }
    waiter = wait_for_it(fleet->data[0], false, &caller);
    killed_at = now_ns();
    server_kill(fleet->data[0]);
    (void)pthread_join(waiter, NULL);
    for (int i = 0; i < SENTINELS; i++) {
        (void)pthread_join(heard[i], NULL);
        if (heralds[i].heard_at < first)
            first = heralds[i].heard_at;
        probe_close(heralds[i].probe);
    }
    samples_add(named, first - killed_at);
    samples_add(locked, caller.locked_at - first);
    (void)rdl_client_close(client);
    (void)rdl_lock_free(caller.lock);
    sentinels_stop(fleet);
}

static void *see_it_serve(void *arg)
{
    struct herald *herald = arg;

    while (!cluster_serves(herald->probe))
        pause_ns(MS);
    herald->heard_at = now_ns();
    return NULL;
}

static void in_cluster(struct samples *named, struct samples *locked)
{
    struct cluster *fleet = cluster_start(NULL);
    int master = cluster_master(fleet, cluster_slot(LOCK));
    rdl_client_t *client = ours_open(fleet->uri, NULL);
    struct caller caller = {.lock = ours_lock(client, "redlatch", LOCK)};
    struct herald herald = {.probe = probe_open(fleet->node[CLUSTER_REPLICA_OF(master)])};
    pthread_t waiter = wait_for_it(fleet->node[master], true, &caller), seen = begin(see_it_serve, &herald);
    int64_t killed_at = now_ns();

    cluster_kill(fleet, master);
    (void)pthread_join(waiter, NULL);
    (void)pthread_join(seen, NULL);
    samples_add(named, herald.heard_at - killed_at);
    samples_add(locked, caller.locked_at - herald.heard_at);
    probe_close(herald.probe);
    (void)rdl_client_close(client);
    (void)rdl_lock_free(caller.lock);
    cluster_stop(fleet);
}

void measure_failover(const struct run *run)
{
    struct samples named = {0}, locked = {0};

    for (int64_t i = 0; i < run->rounds; i++)
        (strcmp(run->kind, "redlatch-cluster") == 0 ? in_cluster : behind_sentinels)(&named, &locked);
    answer_samples("named_", &named);
    answer_samples("locked_", &locked);
    answer_end();
    samples_done(&named);
    samples_done(&locked);
}
