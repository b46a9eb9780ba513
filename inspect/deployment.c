/* deployment.c - the servers of a URI that names several: the sentinels and their master, the masters of a cluster. */
#include "core/base/err.h"
#include "core/wire/cluster.h"
#include "inspect/visit.h"

#include <stdlib.h>
#include <string.h>

#define MASTERS_MAX 1024

struct place {
    char host[256];
    int port;
};

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
        if (ask_sentinel(d, probe, &said) && !known) {
            known = true;
            master = said;
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
