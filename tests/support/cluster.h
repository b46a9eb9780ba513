/* SPDX-License-Identifier: MIT */
/* cluster.h - a Redis Cluster of three masters and their replicas, all real, that belongs to one test.
 *
 * It starts within a second. Its periods are short, so that a failover takes some two seconds; how long it has taken is
 * for cluster_wait_master to say. Nodes are called by their number: 0 to 2 begin as masters of a third of the slots
 * each, and CLUSTER_REPLICA_OF(i) as the replica of i. What cannot work aborts the test with the reason.
 *
 * A cluster belongs to the test's main thread, as its servers do.
 */
#ifndef TESTS_SUPPORT_CLUSTER_H
#define TESTS_SUPPORT_CLUSTER_H

#include "tests/support/probe.h"
#include "tests/support/proxy.h"
#include "tests/support/server.h"

#define CLUSTER_MASTERS 3
#define CLUSTER_NODES 6
#define CLUSTER_REPLICA_OF(master) ((master) + CLUSTER_MASTERS)
#define CLUSTER_SLOTS 16384
#define CLUSTER_NODE_TIMEOUT_MS 1000    /* cluster-node-timeout, unless they are patient */
#define CLUSTER_FAILOVER_BOUND_MS 40000 /* a failover that takes longer on any machine is none */

struct cluster {
    struct server *node[CLUSTER_NODES];
    char *id[CLUSTER_NODES];
    int port[CLUSTER_NODES];        /* as it is announced */
    int port_fd[2 * CLUSTER_NODES]; /* keep the nodes' ports and those of their bus */
    bool paused[CLUSTER_NODES];
    bool alone[CLUSTER_NODES];          /* it reaches no other node */
    struct proxy *front[CLUSTER_NODES]; /* of the port for clients, which replicas use too; NULL: none, like the next */
    struct proxy *bus[CLUSTER_NODES];
    bool patient;
    char *uri; /* of all nodes, for rdl_client_open, without a password */
};

struct cluster_options {
    const char *password; /* of all nodes */
    bool partial;         /* what is left of the slots is served while the others have no master */
    bool patient;         /* a node that is silent is not given up within any test */
    bool proxied;         /* nodes can be cut off, by the last two of the failures below */
    const char
        *tls; /* clients and nodes speak TLS; all have one certificate, for what stands here in the form of certs.h */
    const char *config; /* more lines of redis.conf, of all nodes */
};

struct cluster *cluster_start(const struct cluster_options *options); /* NULL: all defaults */
void cluster_stop(struct cluster *c);                                 /* NULL is fine */

/* All nodes under another name, as cluster or clusters; to be freed. */
char *cluster_uri(const struct cluster *c, const char *scheme, const char *host);

/* ---- slots ------------------------------------------------------------------------------------------------------ */

/* The slot of a key, by a computation of the tests' own. */
unsigned cluster_slot(const char *key);

/* The first slot that a master has in the beginning. */
unsigned cluster_first_slot(int master);

/* A name in a slot: the `nth` one, from 0. All are different, and none has a hash tag. */
struct slot_name {
    char text[24];
};

struct slot_name cluster_name(unsigned slot, unsigned nth);

/* The number of the node that is the slot's master, by the word of all that run; -1 while they do not agree on one that
 * runs. */
int cluster_master(const struct cluster *c, unsigned slot);

/* To the slot's present master, which there must be. */
struct probe *cluster_probe(const struct cluster *c, unsigned slot);

/* ---- what the masters of now have ------------------------------------------------------------------------------- */

int64_t cluster_keys(const struct cluster *c);

/* Channels of either kind that somebody listens to; at one node, those whose name has these words in it. */
int64_t cluster_channels(const struct cluster *c);
int64_t cluster_channels_at(const struct cluster *c, int node, const char *words);

/* Have they neither, or soon? */
bool cluster_is_clean(const struct cluster *c, int64_t bound_ms);

/* ---- failures --------------------------------------------------------------------------------------------------- */

void cluster_kill(struct cluster *c, int node);        /* SIGKILL */
void cluster_start_again(struct cluster *c, int node); /* with its place in the cluster and without data */
void cluster_pause(struct cluster *c, int node);       /* SIGSTOP */
void cluster_resume(struct cluster *c, int node);

/* Stop a replica, and see to it that nothing which its master does from now on can reach it: when it is resumed, it has
 * to ask. */
void cluster_cut_off(struct cluster *c, int replica);

/* CLUSTER FAILOVER, once the cluster is whole: master and replica agree on changing places, which cluster_wait_master
 * sees done. */
void cluster_failover(const struct cluster *c, int replica);

/* Wait until all nodes that run take `node` for the slot's master. */
bool cluster_wait_master(const struct cluster *c, unsigned slot, int node, int64_t bound_ms);

/* Wait until all nodes that run agree on who has which slots, none is without a master that runs, every other node that
 * runs follows its master, and all know it. (So not while a master has no slots.) */
bool cluster_wait_whole(const struct cluster *c, int64_t bound_ms);

/* Does the node say that the cluster serves? */
bool cluster_says_ok(const struct cluster *c, int node);

/* Does whoever is asked take itself for a master, and say that the cluster serves? */
bool cluster_serves(struct probe *p);

/* Clients do not reach that node, all others do. For `proxied` only, like the next. */
void cluster_bar_clients(struct cluster *c, int node, bool on);

/* The node and the others do not reach each other, clients reach all. What it believes counts no more in what is said
 * of the nodes here, until it is back. */
void cluster_isolate(struct cluster *c, int node, bool on);

/* ---- moving slots ----------------------------------------------------------------------------------------------- */

/* From here on the slot is on its way to the master `to`: what its present one does not have is asked for there (ASK).
 */
void cluster_begin_move(const struct cluster *c, unsigned slot, int to);

/* Move the slot's keys of now; the answer is how many. */
int64_t cluster_move_keys(const struct cluster *c, unsigned slot, int to);

/* The slot is at `to`, and all masters know it. Its keys must be there. */
void cluster_end_move(const struct cluster *c, unsigned slot, int to);

/* All three. */
void cluster_move(const struct cluster *c, unsigned slot, int to);

#endif
