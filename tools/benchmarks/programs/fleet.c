/* SPDX-License-Identifier: MIT */
/* fleet.c - the reentrant lock on servers of the program's own, whose masters are on the core of the row's server: a
 * cluster of three masters, or a master behind three sentinels. Their replicas are killed before anything is measured:
 * what they do would be measured as well, and a single server has none. Plain hiredis is told which master of the
 * cluster has the lock's slot. With --far-ms a proxy before each of those delays. */
#include "tests/support/cluster.h"
#include "tests/support/probe.h"
#include "tests/support/proxy.h"
#include "tests/support/sentinels.h"
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/ours.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct common {
    const struct run *run;
    struct cluster *cluster;     /* NULL: the other one */
    struct sentinels *sentinels; /* likewise */
    void *ours;                  /* ours_ops' own */
};

/* Its other threads have nothing to do. */
static void put_on_core(const struct server *server, int64_t core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(server_pid(server), sizeof cores, &cores) < 0)
        fail("a server cannot be put on core %lld", (long long)core);
}

/* The replicas are gone. Put the master on a core, and wait until it has stopped writing down what they would have
 * missed: that is a part of every command that writes, and a server that never had a replica does not do it. */
static void leave_alone(const struct server *master, int64_t core)
{
    struct probe *p = probe_open(master);

    put_on_core(master, core);
    (void)probe_ask(p, "CONFIG SET repl-backlog-ttl 1");
    while (strstr(probe_text(p, "INFO replication"), "repl_backlog_active:0") == NULL)
        pause_ns(10 * MS);
    probe_close(p);
}

static struct common *start_masters(const struct run *run)
{
    const struct cluster_options options = {
        .patient = true, /* nodes say little to each other */
        .proxied = run->far_ms > 0,
    };
    struct common *common = allocate(1, sizeof *common);

    common->run = run;
    common->cluster = cluster_start(&options);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        cluster_kill(common->cluster, CLUSTER_REPLICA_OF(i));
        leave_alone(common->cluster->node[i], run->core);
        if (run->far_ms > 0)
            proxy_delay(common->cluster->front[i], PROXY_BOTH_WAYS, run->far_ms);
    }
    return common;
}

static void stop_masters(void *arg)
{
    struct common *common = arg;

    cluster_stop(common->cluster);
    sentinels_stop(common->sentinels);
    free(common);
}

static void *start_ours(struct common *common, const char *uri)
{
    struct run single = *common->run;

    single.kind = "redlatch";
    common->ours = ours_ops.start(&single, uri);
    return common;
}

static void *start(const struct run *run, const char *server)
{
    struct common *common = start_masters(run);

    (void)server;
    return start_ours(common, common->cluster->uri);
}

static void *start_behind_sentinels(const struct run *run, const char *server)
{
    struct common *common = allocate(1, sizeof *common);

    (void)server;
    common->run = run;
    common->sentinels = sentinels_start(NULL);
    server_kill(common->sentinels->data[1]);
    leave_alone(common->sentinels->data[0], run->core);
    return start_ours(common, common->sentinels->uri);
}

static void stop(void *arg)
{
    struct common *common = arg;

    ours_ops.stop(common->ours);
    stop_masters(common);
}

static void *join(void *arg, const char *name)
{
    const struct common *common = arg;

    return ours_ops.join(common->ours, name);
}

const struct kind_ops our_cluster_ops = {
    .start = start,
    .stop = stop,
    .join = join,
    .part = ours_part,
    .take = ours_take,
    .release = ours_release,
};

const struct kind_ops our_sentinel_ops = {
    .start = start_behind_sentinels,
    .stop = stop,
    .join = join,
    .part = ours_part,
    .take = ours_take,
    .release = ours_release,
};

/* ---- hiredis ---------------------------------------------------------------------------------------------------- */

struct party {
    void *common; /* plain_ops' own, like the next */
    void *party;
};

static void *plain_start(const struct run *run, const char *server)
{
    struct run *sharded = allocate(1, sizeof *sharded); /* as long as the program */

    (void)server;
    *sharded = *run;
    sharded->kind = "sharded";
    return start_masters(sharded);
}

static void *plain_join(void *arg, const char *name)
{
    const struct common *common = arg;
    struct party *party = allocate(1, sizeof *party);
    int master = cluster_master(common->cluster, cluster_slot(name));

    party->common = plain_ops.start(common->run, format("redis://127.0.0.1:%d", common->cluster->port[master]));
    party->party = plain_ops.join(party->common, name);
    return party;
}

static void plain_part(void *arg)
{
    struct party *party = arg;

    plain_ops.part(party->party);
    plain_ops.stop(party->common);
    free(party);
}

static void plain_take(void *arg)
{
    const struct party *party = arg;

    plain_ops.take(party->party);
}

static void plain_release(void *arg)
{
    const struct party *party = arg;

    plain_ops.release(party->party);
}

const struct kind_ops plain_cluster_ops = {
    .start = plain_start,
    .stop = stop_masters,
    .join = plain_join,
    .part = plain_part,
    .take = plain_take,
    .release = plain_release,
};
