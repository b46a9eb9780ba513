/* SPDX-License-Identifier: MIT */
/* failover.h - for the Criterion programs of this folder about failovers of a master with a replica, whoever arranges
 * them: real sentinels, or the nodes of a real cluster.
 *
 * Tests are written against `struct topology`; TEST_EACH makes one of each kind out of them, of the suites sentinel and
 * cluster. The master of NAME is server 0 in the beginning, server 1 its replica.
 */
#ifndef TESTS_LIVE_FAILOVER_H
#define TESTS_LIVE_FAILOVER_H

#include "tests/live/live.h"
#include "tests/support/cluster.h"
#include "tests/support/sentinels.h"

#define NAME "job"
#define LEASE_MS 60000

/* What a failover may take beyond what those need who arrange it: less than the 5 s after which a waiter who was not
 * woken looks by itself. */
#define HEAL_MS 4000

struct topology {
    const char *(*start)(void); /* the URI */
    void (*stop)(void);
    const struct server *(*server)(int which);
    struct probe *(*look)(int which);
    void (*kill)(int which);
    void (*start_again)(int which);
    void (*pause)(int which);
    void (*resume)(int which);
    void (*hangs)(int which, bool on); /* what it hears from DEBUG SLEEP on it answers later */
    void (*cut_off)(void);             /* the replica: nothing of what comes now reaches it */
    void (*failover)(void);            /* arranged, when the replica is ready for it */
    bool (*wait_master)(int which);
    bool (*wait_synced)(int which); /* as a replica */
};

static const struct topology *topology;
static const char *uri;
static rdl_client_t *client;

/* ---- sentinels -------------------------------------------------------------------------------------------------- */

static struct sentinels *sentinels;

static inline const char *sentinel_start(void)
{
    sentinels = sentinels_start(NULL);
    return sentinels->uri;
}

static inline void sentinel_stop(void)
{
    sentinels_stop(sentinels);
}

static inline const struct server *sentinel_server(int which)
{
    return sentinels->data[which];
}

static inline struct probe *sentinel_look(int which)
{
    return probe_open(sentinels->data[which]);
}

static inline void sentinel_kill(int which)
{
    server_kill(sentinels->data[which]);
}

static inline void sentinel_start_again(int which)
{
    server_start_again(sentinels->data[which]);
}

static inline void sentinel_pause(int which)
{
    server_pause(sentinels->data[which]);
}

static inline void sentinel_resume(int which)
{
    server_resume(sentinels->data[which]);
}

/* Nobody asks it. */
static inline void sentinel_hangs(int which, bool on)
{
    (void)which;
    (void)on;
}

static inline void sentinel_cut_off(void)
{
    sentinels_cut_off(sentinels, 1);
}

static inline void sentinel_failover(void)
{
    sentinels_failover(sentinels);
}

static inline bool sentinel_wait_master(int which)
{
    return sentinels_wait_master(sentinels, which, FAILOVER_BOUND_MS);
}

static inline bool sentinel_wait_synced(int which)
{
    return sentinels_wait_synced(sentinels, which, FAILOVER_BOUND_MS);
}

static const struct topology by_sentinels = {
    .start = sentinel_start,
    .stop = sentinel_stop,
    .server = sentinel_server,
    .look = sentinel_look,
    .kill = sentinel_kill,
    .start_again = sentinel_start_again,
    .pause = sentinel_pause,
    .resume = sentinel_resume,
    .hangs = sentinel_hangs,
    .cut_off = sentinel_cut_off,
    .failover = sentinel_failover,
    .wait_master = sentinel_wait_master,
    .wait_synced = sentinel_wait_synced,
};

/* ---- a cluster -------------------------------------------------------------------------------------------------- */

static struct cluster *cluster;
static int node[2]; /* numbers of the two servers */

static inline const char *cluster_begin(void)
{
    cluster = cluster_start(NULL);
    node[0] = cluster_master(cluster, cluster_slot(NAME));
    node[1] = CLUSTER_REPLICA_OF(node[0]);
    return cluster->uri;
}

static inline void cluster_end(void)
{
    cluster_stop(cluster);
}

static inline const struct server *cluster_server(int which)
{
    return cluster->node[node[which]];
}

/* A replica that is not told READONLY knows of nothing. */
static inline struct probe *cluster_look(int which)
{
    struct probe *p = probe_open(cluster->node[node[which]]);

    (void)probe_text(p, "READONLY");
    return p;
}

static inline void cluster_kill_one(int which)
{
    cluster_kill(cluster, node[which]);
}

static inline void cluster_start_one_again(int which)
{
    cluster_start_again(cluster, node[which]);
}

static inline void cluster_pause_one(int which)
{
    cluster_pause(cluster, node[which]);
}

static inline void cluster_resume_one(int which)
{
    cluster_resume(cluster, node[which]);
}

static inline void cluster_one_hangs(int which, bool on)
{
    cluster->paused[node[which]] = on;
}

static inline void cluster_cut_off_replica(void)
{
    cluster_cut_off(cluster, node[1]);
}

/* The node that was killed has become the replica. */
static inline void cluster_change_places(void)
{
    cluster_failover(cluster, node[0]);
}

static inline bool cluster_wait_for_master(int which)
{
    return cluster_wait_master(cluster, cluster_slot(NAME), node[which], CLUSTER_FAILOVER_BOUND_MS);
}

static inline bool cluster_wait_synced(int which)
{
    (void)which;
    return cluster_wait_whole(cluster, CLUSTER_FAILOVER_BOUND_MS);
}

static const struct topology by_cluster = {
    .start = cluster_begin,
    .stop = cluster_end,
    .server = cluster_server,
    .look = cluster_look,
    .kill = cluster_kill_one,
    .start_again = cluster_start_one_again,
    .pause = cluster_pause_one,
    .resume = cluster_resume_one,
    .hangs = cluster_one_hangs,
    .cut_off = cluster_cut_off_replica,
    .failover = cluster_change_places,
    .wait_master = cluster_wait_for_master,
    .wait_synced = cluster_wait_synced,
};

/* ---- both ------------------------------------------------------------------------------------------------------- */

static inline void start(const struct topology *which)
{
    topology = which;
    uri = topology->start();
}

static inline void fini(void)
{
    client = rdl_client_close(client);
    if (topology != NULL)
        topology->stop();
}

#define FAILOVER_SUITES()                                                                                              \
    TestSuite(sentinel, .fini = fini, .timeout = 120);                                                                 \
    TestSuite(cluster, .fini = fini, .timeout = 120)

#define TEST_EACH(what)                                                                                                \
    static void what(void);                                                                                            \
    Test(sentinel, what)                                                                                               \
    {                                                                                                                  \
        start(&by_sentinels);                                                                                          \
        what();                                                                                                        \
    }                                                                                                                  \
    Test(cluster, what)                                                                                                \
    {                                                                                                                  \
        start(&by_cluster);                                                                                            \
        what();                                                                                                        \
    }                                                                                                                  \
    static void what(void)

static inline int64_t ask(int which, const char *question)
{
    struct probe *p = topology->look(which);
    int64_t answer = probe_int(p, "%s", question);

    probe_close(p);
    return answer;
}

#endif
