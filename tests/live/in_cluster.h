/* SPDX-License-Identifier: MIT */
/* in_cluster.h - for the Criterion programs of this folder that run in a real Redis Cluster: one cluster and two
 * clients a test.
 *
 * name[i] is in a slot that node i is the master of in the beginning. After a test no key and no channel may be left,
 * unless it says `left_behind`.
 */
#ifndef TESTS_LIVE_IN_CLUSTER_H
#define TESTS_LIVE_IN_CLUSTER_H

#include "tests/live/live.h"
#include "tests/support/cluster.h"
#include "tests/support/rights.h"

#include <stdio.h>

#define LEASE_MS 60000
#define WATCHED_MS 4500 /* a lease that is renewed, and can be waited for */
#define LONG_WATCHED_MS 9000
#define PATIENT_MS 20000
#define HEAL_MS 4000
#define PASSING_MS 3000 /* servers are asked for the map several times */
#define SHARDS CLUSTER_MASTERS

static struct cluster *cluster;
static struct slot_name name[SHARDS];
static rdl_client_t *client, *rival;
static bool limited; /* what is refused is so on purpose */

static inline void fini(void)
{
    for (int i = 0; cluster != NULL && i < CLUSTER_NODES; i++)
        if (server_running(cluster->node[i]) && !cluster->paused[i] && server_login(cluster->node[i])[0] != '\0' &&
            !limited)
            cr_expect_eq(rights_refused(cluster->node[i]), 0,
                         "something was tried that a client's rights do not allow");
    if (cluster != NULL && !left_behind) {
        cr_expect(cluster_is_clean(cluster, CLEAN_BOUND_MS), "%" PRId64 " keys and %" PRId64 " channels are left",
                  cluster_keys(cluster), cluster_channels(cluster));
    }
    client = rdl_client_close(client);
    rival = rdl_client_close(rival);
    cluster_stop(cluster);
}

#define CLUSTER_SUITE() TestSuite(cluster, .fini = fini, .timeout = 120)

static inline void start_cluster(const struct cluster_options *options)
{
    if (options != NULL && options->proxied && server_is_old())
        cr_skip_test("nodes of Redis 6.2 cannot be told from clients by the address that they come from");
    cluster = cluster_start(options);
    for (int i = 0; i < SHARDS; i++)
        name[i] = cluster_name(cluster_first_slot(i), 0);
}

/* A cluster that replaces nobody, and two clients. */
static inline void start(const rdl_client_options_t *options)
{
    start_cluster(&(struct cluster_options){.patient = true});
    client = client_open(cluster->uri, options);
    rival = client_open(cluster->uri, options);
}

/* Names with braces have other keys than those of docs/acl.md. */
static inline void allow_all_names(void)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "ACL SETUSER %s allkeys allchannels", server_user(cluster->node[i]));
        probe_close(p);
    }
}

/* A number that a node says, also of a key whose slot is only on its way there. */
__attribute__((format(printf, 2, 3))) static inline int64_t ask(int node, const char *format, ...)
{
    struct probe *p = probe_open(cluster->node[node]);
    char question[256];
    int64_t answer;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(question, sizeof question, format, args);
    va_end(args);
    (void)probe_text(p, "ASKING");
    answer = probe_int(p, "%s", question);
    probe_close(p);
    return answer;
}

static inline int shard_of(unsigned slot)
{
    int shard = 0;

    while (slot >= cluster_first_slot(shard + 1))
        shard++;
    return shard;
}

/* While it is held, and only then, it is where its name's slot belongs. */
static inline void expect_had_in_place(const char *which)
{
    rdl_lock_t *lock = reentrant(client, which, NULL);
    int shard = shard_of(cluster_slot(which));

    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(ask(shard, "EXISTS %s", which), 1, "%s", which);
    expect(1, rdl_is_locked(lock, &err));
    expect(RDL_OK, rdl_extend(lock, 2 * LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(ask(shard, "EXISTS %s", which), 0, "%s", which);
    rdl_lock_free(lock);
}

#endif
