/* SPDX-License-Identifier: MIT */
/* server.c - what the doctor asks a server about itself: its kind, memory, persistence and replicas. */
#include "inspect/visit.h"

#include "core/base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kind ------------------------------------------------------------------------------------------------------- */

static const char not_here[] =
    "A client that is opened with this URI is refused, or its locks are where nobody else looks for them.";

/* The first master that a sentinel names. */
static void some_master(struct rdl__visit *v, char *to, size_t cap)
{
    const struct rdl__reply *name =
        rdl__reply_named(rdl__reply_at(rdl__probe_ask(v->probe, "SENTINEL", "MASTERS", NULL), 0), "name");

    (void)rdl__line(to, cap, "%s", name != NULL && name->type == RDL__REPLY_STRING ? name->str : "MASTER");
}

static void tell_sentinel(struct rdl__visit *v)
{
    char master[128], change[512];

    some_master(v, master, sizeof master);
    (void)rdl__line(change, sizeof change, "sentinel://%s:%d/%s", v->host, v->port, master);
    rdl__tell(v, RDL_SEVERITY_CRITICAL, "kind", not_here, change,
              "this is a sentinel, and the URI asks for a server that has locks");
}

static void tell_replica(struct rdl__visit *v)
{
    char host[256], change[512];
    int64_t port = rdl__visit_number(v, "master_port", 0);

    (void)rdl__visit_info(v, "master_host", host, sizeof host);
    (void)rdl__line(change, sizeof change, strchr(host, ':') != NULL ? "redis://[%s]:%lld" : "redis://%s:%lld", host,
                    (long long)port);
    rdl__tell(v, RDL_SEVERITY_CRITICAL, "kind",
              "A replica takes no writes, so no lock can be taken here; and what it shows may be old.", change,
              "this is a replica of %s:%lld, and the URI asks for a master", host, (long long)port);
}

void rdl__doctor_check_kind(struct rdl__visit *v)
{
    enum rdl__scheme scheme = v->doctor->reach.uri.scheme;
    char version[48], change[512] = "";
    bool single = scheme == RDL__SCHEME_TCP || scheme == RDL__SCHEME_UNIX;

    if (!rdl__visit_info(v, "valkey_version", version, sizeof version))
        (void)rdl__visit_info(v, "redis_version", version, sizeof version);
    if ((single || scheme == RDL__SCHEME_CLUSTER) && rdl__visit_sentinel(v)) {
        tell_sentinel(v);
    } else if (single && rdl__visit_cluster(v)) {
        if (scheme == RDL__SCHEME_TCP)
            (void)rdl__line(change, sizeof change, "cluster://%s:%d", v->host, v->port);
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "kind", not_here, change,
                  "this is a node of a cluster, and the URI asks for a single server");
    } else if (scheme == RDL__SCHEME_CLUSTER && v->info.len > 0 && !rdl__visit_cluster(v)) {
        (void)rdl__line(change, sizeof change, "redis://%s:%d", v->host, v->port);
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "kind", not_here, change,
                  "this is a server of its own, and the URI asks for a cluster");
    } else if (single && rdl__visit_replica(v)) {
        tell_replica(v);
    } else if (v->info.len > 0) {
        rdl__tell(v, RDL_SEVERITY_OK, "kind", "", "", "%s%s, %s%s", rdl__visit_cluster(v) ? "a cluster's " : "a ",
                  rdl__visit_replica(v) ? "replica" : "master",
                  rdl__visit_is(v, "server_name", "valkey") ? "valkey " : "", version);
    } else {
        char grant[256];

        (void)rdl__line(grant, sizeof grant, "ACL SETUSER %s +info", v->user);
        rdl__tell(v, RDL_SEVERITY_WARNING, "kind",
                  "Most of what would be looked at stands there. A client that cannot ask it does not notice a restart "
                  "that erased its locks, and settles doubts by repeating.",
                  grant, "INFO is refused, or not there: what stands between may be a proxy");
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void check_left(struct rdl__visit *v, int64_t most)
{
    int64_t used = rdl__visit_number(v, "used_memory", 0);
    int percent = (int)(100.0 * (double)used / (double)most);
    char change[128];

    (void)rdl__line(change, sizeof change, "CONFIG SET maxmemory %lld", 2 * (long long)most);
    if (percent >= 90)
        rdl__tell(v, RDL_SEVERITY_WARNING, "memory",
                  "A server without memory refuses to take locks (OOM), or evicts where its policy lets it.", change,
                  "%d %% of maxmemory is in use: %lld of %lld bytes", percent, (long long)used, (long long)most);
    else
        rdl__tell(v, RDL_SEVERITY_OK, "memory", "", "", "%d %% of maxmemory is in use", percent);
}

void rdl__doctor_check_memory(struct rdl__visit *v)
{
    static const char evicts[] =
        "A lock is a key with a time to live. A server that is full deletes such keys, whoever holds them, and the "
        "next client takes the lock while its holder works on.";
    static const char change[] = "CONFIG SET maxmemory-policy noeviction\nmaxmemory-policy noeviction   # redis.conf";
    char policy[48];
    int64_t most = rdl__visit_number(v, "maxmemory", 0);

    if (!rdl__visit_info(v, "maxmemory_policy", policy, sizeof policy) &&
        !rdl__visit_config(v, "maxmemory-policy", policy, sizeof policy))
        return;
    if (strcmp(policy, "noeviction") == 0)
        rdl__tell(v, RDL_SEVERITY_OK, "eviction-policy", "", "", "maxmemory-policy is noeviction: no lock is evicted");
    else if (most > 0)
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "eviction-policy", evicts, change,
                  "maxmemory-policy is %s, and maxmemory %lld bytes: the server may evict locks (%lld keys so far)",
                  policy, (long long)most, (long long)rdl__visit_number(v, "evicted_keys", 0));
    else
        rdl__tell(v, RDL_SEVERITY_NOTE, "eviction-policy", evicts, change,
                  "maxmemory-policy is %s: without maxmemory nothing is evicted, once it is set locks may be", policy);
    if (most > 0)
        check_left(v, most);
}

/* ---- persistence ------------------------------------------------------------------------------------------------ */

static void check_writes(struct rdl__visit *v)
{
    bool snapshot = rdl__visit_is(v, "rdb_last_bgsave_status", "err");
    char stops[8];

    if (rdl__visit_is(v, "aof_last_write_status", "err"))
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "writes", "The server refuses writes (MISCONF) until its disk works again.",
                  "", "the append-only file cannot be written");
    else if (snapshot && rdl__visit_config(v, "stop-writes-on-bgsave-error", stops, sizeof stops) &&
             strcmp(stops, "yes") == 0)
        rdl__tell(
            v, RDL_SEVERITY_CRITICAL, "writes",
            "The server refuses writes (MISCONF) until a snapshot has been saved: no lock is taken or given back.",
            "CONFIG SET stop-writes-on-bgsave-error no", "the last snapshot failed");
    else if (snapshot)
        rdl__tell(v, RDL_SEVERITY_WARNING, "writes", "A restart goes back to the one before it.", "",
                  "the last snapshot failed");
}

void rdl__doctor_check_persistence(struct rdl__visit *v)
{
    static const char on[] = "CONFIG SET appendonly yes\nCONFIG SET appendfsync always\nCONFIG REWRITE";
    char sync[16], save[256];
    int64_t aof = rdl__visit_number(v, "aof_enabled", -1);

    check_writes(v);
    if (aof < 0)
        return;
    (void)rdl__visit_config(v, "appendfsync", sync, sizeof sync);
    if (aof == 1 && strcmp(sync, "always") == 0)
        rdl__tell(v, RDL_SEVERITY_OK, "persistence", "", "",
                  "appendonly yes, appendfsync always: a restart forgets nothing");
    else if (aof == 1)
        rdl__tell(
            v, RDL_SEVERITY_NOTE, "persistence",
            "A lock that was granted in that time is free after a restart, while its holder works on; a token may "
            "be given twice.",
            "CONFIG SET appendfsync always\nCONFIG REWRITE", "appendonly yes, appendfsync %s: a crash forgets %s",
            sync[0] != '\0' ? sync : "unknown",
            strcmp(sync, "no") == 0 ? "what the system had not written" : "up to two seconds");
    else if (rdl__visit_config(v, "save", save, sizeof save) && save[0] == '\0')
        rdl__tell(v, RDL_SEVERITY_WARNING, "persistence",
                  "After a restart every lock is free, while its holders work on, and tokens begin anew.", on,
                  "appendonly no, and no snapshots: a restart forgets every lock");
    else
        rdl__tell(
            v, RDL_SEVERITY_WARNING, "persistence",
            "After a restart locks that were granted since are free, while their holders work on; those given back "
            "since are held again; and tokens are given twice.",
            on, "appendonly no%s%s%s: a restart goes back to the last snapshot, if there is one",
            save[0] != '\0' ? " (save " : "", save, save[0] != '\0' ? ")" : "");
}

/* ---- replicas --------------------------------------------------------------------------------------------------- */

#define LAG_MAX_S 10
#define BEHIND_MAX (1 << 20) /* bytes */

/* The value of a key in "ip=...,port=...,state=online,offset=1,lag=0". */
static bool part(const char *line, const char *key, char *to, size_t cap)
{
    size_t len = strlen(key);

    for (const char *p = line; p != NULL && *p != '\0'; p = strchr(p, ',') != NULL ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, key, len) == 0 && p[len] == '=') {
            (void)rdl__line(to, cap, "%.*s", (int)strcspn(p + len + 1, ","), p + len + 1);
            return true;
        }
    return false;
}

/* Is replica i as it should be? Else it is told. */
static bool check_replica(struct rdl__visit *v, int i)
{
    char key[24], line[256], ip[128] = "", port[16] = "", state[32] = "", lag[24] = "0", offset[24] = "0";
    int64_t behind;

    (void)snprintf(key, sizeof key, "slave%d", i);
    if (!rdl__visit_info(v, key, line, sizeof line))
        return true;
    (void)part(line, "ip", ip, sizeof ip);
    (void)part(line, "port", port, sizeof port);
    (void)part(line, "state", state, sizeof state);
    (void)part(line, "lag", lag, sizeof lag);
    (void)part(line, "offset", offset, sizeof offset);
    behind = rdl__visit_number(v, "master_repl_offset", 0) - strtoll(offset, NULL, 10);
    if (strcmp(state, "online") == 0 && strtoll(lag, NULL, 10) < LAG_MAX_S && behind < BEHIND_MAX)
        return true;
    rdl__tell(v, RDL_SEVERITY_WARNING, "replicas",
              "When it is promoted, locks that were granted since it was last heard of are free.", "",
              "replica %s:%s is %s, last heard of %s s ago, %lld bytes behind", ip, port, state, lag,
              (long long)behind);
    return false;
}

static void check_least(struct rdl__visit *v, int64_t replicas)
{
    static const char change[] = "CONFIG SET min-replicas-to-write 1\nCONFIG SET min-replicas-max-lag 10";
    char least[16];
    long long n, good;

    if (!rdl__visit_config(v, "min-replicas-to-write", least, sizeof least))
        return;
    n = strtoll(least, NULL, 10);
    good = (long long)rdl__visit_number(v, "min_slaves_good_slaves", replicas);
    if (n > good)
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "min-replicas",
                  "The server refuses writes (NOREPLICAS): no lock can be taken.", "",
                  "min-replicas-to-write is %lld, and %lld replicas are up", n, good);
    else if (n == 0 && replicas > 0)
        rdl__tell(v, RDL_SEVERITY_NOTE, "min-replicas",
                  "A master that is cut off from its replicas grants locks that are lost when one of them takes over.",
                  change, "min-replicas-to-write is 0");
    else if (n > 0)
        rdl__tell(v, RDL_SEVERITY_OK, "min-replicas", "", "", "min-replicas-to-write is %lld", n);
}

void rdl__doctor_check_replicas(struct rdl__visit *v)
{
    int64_t replicas = rdl__visit_number(v, "connected_slaves", -1);
    bool good = true;

    if (replicas < 0 || rdl__visit_replica(v))
        return;
    for (int i = 0; i < (int)replicas && i < 16; i++)
        good = check_replica(v, i) && good;
    if (replicas == 0)
        rdl__tell(v, RDL_SEVERITY_NOTE, "replicas", "When it is gone, locks wait until it is back.", "",
                  "it has no replicas");
    else if (good)
        rdl__tell(v, RDL_SEVERITY_OK, "replicas", "", "", "%lld replica%s, not behind", (long long)replicas,
                  replicas == 1 ? "" : "s");
    check_least(v, replicas);
}
