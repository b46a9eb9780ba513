/* SPDX-License-Identifier: MIT */
/* visit.h - one server as the doctor looks at it: the conversation, what it said of itself, and how findings are told.
 *
 * Checks of one subject are a file each: a function of a visit, listed in doctor.c.
 */
#ifndef REDLATCH_INSPECT_VISIT_H
#define REDLATCH_INSPECT_VISIT_H

#include "inspect/probe.h"

#include <redlatch/doctor.h>

struct rdl__doctor {
    struct rdl__reach reach;
    const char *name;         /* of a lock, to try; NULL: none in particular */
    const char *const *names; /* of locks that are taken together */
    size_t name_count;
    rdl_finding_fn fn;
    void *arg;
};

struct rdl__visit {
    struct rdl__doctor *doctor;
    struct rdl__probe *probe;
    const char *server; /* for people */
    char host[256];     /* where it is; a path for unix: */
    int port;
    char user[128];         /* who we are there; "default" where it does not say */
    struct rdl__reply info; /* a copy of its INFO; an empty string where that is refused */
    bool config;            /* it answers CONFIG GET */
    bool busy;              /* a script has it */
    struct rdl__clocks {
        int64_t now, wall, server, error; /* ns; `server` 0: it does not say, or there was no look */
    } clocks;                             /* as they were when the visit began */
};

/* Tell a finding; the text after `change` says what it is like. `why` and `change` may be "". Nothing once the server
 * does not answer any more: what it has not answered is no fault of another kind. */
void rdl__tell(const struct rdl__visit *v, rdl_severity_t severity, const char *id, const char *why, const char *change,
               const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* The same of a server with which there is no conversation. */
void rdl__tell_of(const struct rdl__doctor *d, const char *server, rdl_severity_t severity, const char *id,
                  const char *why, const char *change, const char *what);

/* A field of INFO, cut to cap; false, and empty: it is not there. The same as a number, `none` where there is none. */
bool rdl__visit_info(const struct rdl__visit *v, const char *key, char *to, size_t cap);
int64_t rdl__visit_number(const struct rdl__visit *v, const char *key, int64_t none);

/* A setting. False, and empty: it is not known, or may not be asked for. */
bool rdl__visit_config(struct rdl__visit *v, const char *name, char *to, size_t cap);

static inline bool rdl__visit_is(const struct rdl__visit *v, const char *key, const char *value)
{
    char is[64];

    return rdl__visit_info(v, key, is, sizeof is) && strcmp(is, value) == 0;
}

/* Of what kind it is. */
bool rdl__visit_sentinel(const struct rdl__visit *v);
bool rdl__visit_cluster(const struct rdl__visit *v);
bool rdl__visit_replica(const struct rdl__visit *v);

/* ---- who visits ------------------------------------------------------------------------------------------------- */

/* Look at the server there, by all checks; one that cannot be reached is a finding. */
void rdl__doctor_visit(struct rdl__doctor *d, const char *host, int port);
void rdl__doctor_unreachable(const struct rdl__doctor *d, const rdl_err_t *err, rdl_severity_t severity);

/* deployment.c: those that the URI names, and all masters. */
void rdl__doctor_sentinels(struct rdl__doctor *d);
void rdl__doctor_cluster(struct rdl__doctor *d);

/* leftovers.c: leases, and names: of the whole deployment, as a client sees it; nothing where none can be opened. */
void rdl__doctor_leftovers(const struct rdl__doctor *d, const char *uri, const char *server);

/* names.c: names, in a cluster: those of the options, and the number of locks that it has without hash tags. */
void rdl__doctor_names(const struct rdl__doctor *d, const char *server);
void rdl__doctor_untagged(const struct rdl__doctor *d, const char *server, long long untagged, int masters);

/* ---- checks ----------------------------------------------------------------------------------------------------- */

void rdl__doctor_check_kind(struct rdl__visit *v);        /* server.c: what it is, against what the URI says */
void rdl__doctor_check_memory(struct rdl__visit *v);      /* eviction-policy, memory */
void rdl__doctor_check_persistence(struct rdl__visit *v); /* persistence, writes */
void rdl__doctor_check_replicas(struct rdl__visit *v);    /* replicas, min-replicas */
void rdl__doctor_check_failover(struct rdl__visit *v);    /* deployment.c: failover, of a cluster */
void rdl__doctor_check_rights(struct rdl__visit *v);      /* rights.c: rights, commands */
void rdl__doctor_check_scripts(struct rdl__visit *v);     /* health.c: scripts */
void rdl__doctor_check_messages(struct rdl__visit *v);    /* messages */
void rdl__doctor_check_round_trip(struct rdl__visit *v);  /* round-trip */
void rdl__doctor_check_remains(struct rdl__visit *v);     /* remains.c: queues, remains */
void rdl__clocks_begin(struct rdl__visit *v);             /* clocks.c: the first look at them */
void rdl__doctor_check_clocks(struct rdl__visit *v);      /* clock, clock-step */

#endif
