/* SPDX-License-Identifier: MIT */
/* deployment.c - the servers of a URI that names several: the sentinels and their master, the masters of a cluster. */
#include "core/base/err.h"
#include "core/wire/cluster.h"
#include "inspect/visit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MASTERS_MAX 1024

struct place {
    char host[256];
    int port;
};

/* ---- how long a failover takes ------------------------------------------------------------------------------------
 */

static const char needs_majority[] =
    "A failover needs a majority. Without one locks are neither taken nor renewed until the master is back.";

/* A master that dies is replaced after so long at the earliest; what is not renewed by then is lost. */
static void tell_timeout(const struct rdl__doctor *d, const char *server, long long ms, const char *setting,
                         const char *change)
{
    long long lease = (long long)d->reach.options.watchdog_lease_ms;
    char what[256];

    (void)rdl__line(what, sizeof what, "%s is %lld ms, and a lease %lld ms", setting, ms, lease);
    if (ms >= lease * 2 / 3)
        rdl__tell_of(d, server, RDL_SEVERITY_WARNING, "failover",
                     "A master that dies is replaced after that time at the earliest. A hold is renewed every third of "
                     "its lease, so most are lost by then.",
                     change, what);
    else
        rdl__tell_of(d, server, RDL_SEVERITY_OK, "failover", "", "", what);
}

/* ---- sentinel --------------------------------------------------------------------------------------------------- */

/* Ask one sentinel where the master is. True: it knows. */
static bool ask_sentinel(struct rdl__doctor *d, struct rdl__probe *sentinel, struct place *ret)
{
    const struct rdl__reply *at =
        rdl__probe_ask(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", d->reach.uri.master, NULL);
    const struct rdl__reply *host = rdl__reply_at(at, 0), *port = rdl__reply_at(at, 1);
    int64_t number;

    if (host != NULL && host->type == RDL__REPLY_STRING && port != NULL && rdl__reply_integer(port, &number)) {
        (void)rdl__line(ret->host, sizeof ret->host, "%s", host->str);
        ret->port = (int)number;
        return true;
    }
    if (at->type == RDL__REPLY_NIL)
        rdl__tell_of(d, sentinel->node.label, RDL_SEVERITY_CRITICAL, "kind",
                     "A client that asks this sentinel finds no server.",
                     "sentinel://HOSTS/MASTER, as SENTINEL MASTERS has it", "it knows no master of that name");
    else
        rdl__tell_of(d, sentinel->node.label, RDL_SEVERITY_CRITICAL, "kind", "A client that asks it finds no server.",
                     "", "this is no sentinel, or it does not let us ask");
    return false;
}

static long long number_of(const struct rdl__reply *map, const char *name)
{
    int64_t n;

    return rdl__reply_named(map, name) != NULL && rdl__reply_integer(rdl__reply_named(map, name), &n) ? (long long)n
                                                                                                      : -1;
}

/* What is wrong with a failover, as one sentinel sees it. */
static void tell_failover(const struct rdl__doctor *d, const struct rdl__probe *sentinel, rdl_severity_t severity,
                          const char *why, const char *change, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
static void tell_failover(const struct rdl__doctor *d, const struct rdl__probe *sentinel, rdl_severity_t severity,
                          const char *why, const char *change, const char *fmt, ...)
{
    char what[256];
    va_list args;

    va_start(args, fmt);
    (void)rdl__vline(what, sizeof what, fmt, args);
    va_end(args);
    rdl__tell_of(d, sentinel->node.label, severity, "failover", why, change, what);
}

/* What a sentinel that knows the master says of it. */
static void check_sentinel(const struct rdl__doctor *d, struct rdl__probe *sentinel)
{
    const char *name = d->reach.uri.master;
    const struct rdl__reply *master = rdl__probe_ask(sentinel, "SENTINEL", "MASTER", name, NULL);
    const struct rdl__reply *flags = rdl__reply_named(master, "flags");
    long long quorum = number_of(master, "quorum"), sentinels = number_of(master, "num-other-sentinels") + 1;
    char change[256];

    if (quorum < 0)
        return;
    if (flags != NULL && flags->type == RDL__REPLY_STRING && strstr(flags->str, "_down") != NULL)
        tell_failover(d, sentinel, RDL_SEVERITY_CRITICAL, "No lock is taken there until it is up or replaced.", "",
                      "the master is down, as this sentinel sees it");
    (void)rdl__line(change, sizeof change, "SENTINEL SET %s quorum %lld", name, sentinels / 2 + 1);
    if (quorum > sentinels)
        tell_failover(d, sentinel, RDL_SEVERITY_CRITICAL, "No failover is ever begun.", change,
                      "the quorum is %lld, of %lld sentinels", quorum, sentinels);
    if (sentinels < 3)
        tell_failover(d, sentinel, RDL_SEVERITY_WARNING, needs_majority, "",
                      "%lld sentinel%s in all: three are the least that may lose one", sentinels,
                      sentinels == 1 ? "" : "s");
    if (number_of(master, "num-slaves") == 0)
        tell_failover(d, sentinel, RDL_SEVERITY_WARNING, "When the master dies there is nobody to take over.", "",
                      "the master has no replicas");
    (void)rdl__line(change, sizeof change, "SENTINEL SET %s down-after-milliseconds 5000", name);
    tell_timeout(d, sentinel->node.label, number_of(master, "down-after-milliseconds"), "down-after-milliseconds",
                 change);
}

void rdl__doctor_sentinels(struct rdl__doctor *d)
{
    const struct rdl__uri *uri = &d->reach.uri;
    struct place master, said;
    bool known = false;

    for (unsigned i = 0; i < uri->seed_count; i++) {
        struct rdl__probe *probe = NULL;
        rdl_err_t err = {0};

        if (rdl__probe_open(&d->reach, uri->seeds[i].host, uri->seeds[i].port, true, &probe, &err) < 0) {
            rdl__doctor_unreachable(d, &err, RDL_SEVERITY_WARNING);
            continue;
        }
        if (ask_sentinel(d, probe, &said)) {
            if (known && (master.port != said.port || strcmp(master.host, said.host) != 0))
                tell_failover(d, probe, RDL_SEVERITY_CRITICAL,
                              "Clients that ask different sentinels take locks at different servers.", "",
                              "it says that the master is %s:%d, and another one that it is %s:%d", said.host,
                              said.port, master.host, master.port);
            master = known ? master : said;
            known = true;
            check_sentinel(d, probe);
        }
        (void)rdl__probe_close(probe);
    }
    if (known)
        rdl__doctor_visit(d, master.host, master.port);
    else
        rdl__tell_of(d, uri->master, RDL_SEVERITY_CRITICAL, "unreachable",
                     "Without a master no lock is taken, renewed or given back.", "", "no sentinel says where it is");
}

/* ---- cluster ---------------------------------------------------------------------------------------------------- */

/* What CLUSTER INFO says. */
static void check_state(struct rdl__visit *v)
{
    struct rdl__visit cluster = *v; /* with that in place of its INFO */
    char state[16];
    long long masters;

    cluster.info = *rdl__probe_ask(v->probe, "CLUSTER", "INFO", NULL);
    if (cluster.info.type != RDL__REPLY_STRING)
        return;
    masters = (long long)rdl__visit_number(&cluster, "cluster_size", 0);
    if (rdl__visit_info(&cluster, "cluster_state", state, sizeof state) && strcmp(state, "ok") != 0)
        rdl__tell(v, RDL_SEVERITY_CRITICAL, "failover", "Locks are refused (CLUSTERDOWN).",
                  "redis-cli --cluster fix HOST:PORT", "cluster_state is %s, %lld of 16384 slots are served", state,
                  (long long)rdl__visit_number(&cluster, "cluster_slots_ok", 0));
    if (masters < 3)
        rdl__tell(v, RDL_SEVERITY_WARNING, "failover", needs_majority, "",
                  "%lld master%s: three are the least that may lose one", masters, masters == 1 ? "" : "s");
}

void rdl__doctor_check_failover(struct rdl__visit *v)
{
    char timeout[24];

    if (!rdl__visit_cluster(v))
        return;
    check_state(v);
    if (rdl__visit_config(v, "cluster-node-timeout", timeout, sizeof timeout))
        tell_timeout(v->doctor, v->server, strtoll(timeout, NULL, 10), "cluster-node-timeout",
                     "CONFIG SET cluster-node-timeout 5000");
}

/* The masters, as a server names them; at most MASTERS_MAX. */
static size_t read_masters(struct rdl__probe *probe, const char *host, struct place *masters)
{
    const struct rdl__reply *slots = rdl__probe_ask(probe, "CLUSTER", "SLOTS", NULL);
    struct rdl__slot_range range;
    size_t count = 0;

    for (size_t i = 0; rdl__slot_range_at(slots, i, &range); i++) {
        struct place *to = &masters[count];
        size_t k = 0;

        if (range.master.port == 0 || count == MASTERS_MAX)
            continue;
        (void)rdl__line(to->host, sizeof to->host, "%s", range.master.host[0] != '\0' ? range.master.host : host);
        to->port = range.master.port;
        while (k < count && (masters[k].port != to->port || strcmp(masters[k].host, to->host) != 0))
            k++;
        count += k == count;
    }
    return count;
}

static void visit_masters(struct rdl__doctor *d, const struct place *masters, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rdl__doctor_visit(d, masters[i].host, masters[i].port);
}

void rdl__doctor_cluster(struct rdl__doctor *d)
{
    const struct rdl__uri *uri = &d->reach.uri;
    size_t size = MASTERS_MAX * sizeof(struct place);
    struct place *masters = rdl__alloc(&d->reach.mem, size);
    size_t count = 0;

    for (unsigned i = 0; i < uri->seed_count && count == 0 && masters != NULL; i++) {
        struct rdl__probe *probe = NULL;
        rdl_err_t err = {0};

        if (rdl__probe_open(&d->reach, uri->seeds[i].host, uri->seeds[i].port, false, &probe, &err) < 0) {
            rdl__doctor_unreachable(d, &err, i + 1 < uri->seed_count ? RDL_SEVERITY_WARNING : RDL_SEVERITY_CRITICAL);
            continue;
        }
        if ((count = read_masters(probe, uri->seeds[i].host, masters)) == 0)
            rdl__doctor_visit(d, uri->seeds[i].host, uri->seeds[i].port);
        (void)rdl__probe_close(probe);
    }
    if (masters != NULL)
        visit_masters(d, masters, count);
    rdl__free(&d->reach.mem, masters, size);
}
