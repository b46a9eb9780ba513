/* SPDX-License-Identifier: MIT */
/* sentinels.h - a master, its replica and three sentinels, all real, that belong to one test.
 *
 * Their periods are short, so that a failover takes a second or so: it is over when somebody else is the master and all
 * sentinels say so. What cannot work aborts the test with the reason.
 */
#ifndef TESTS_SUPPORT_SENTINELS_H
#define TESTS_SUPPORT_SENTINELS_H

#include "tests/support/probe.h"
#include "tests/support/proxy.h"
#include "tests/support/server.h"

#define SENTINELS 3
#define SENTINEL_MASTER "main"
#define FAILOVER_BOUND_MS 20000 /* a failover that takes longer on any machine is none */

struct sentinels {
    struct server *data[2]; /* the master and the replica, or the other way round */
    struct server *sentinel[SENTINELS];
    struct probe *probe[SENTINELS];
    struct proxy *front; /* of data[0], for everybody; NULL: none */
    char *uri;           /* for rdl_client_open, without passwords */
    char *ca;            /* with `tls`: who vouches for master and replica; NULL without */
    char *sentinel_ca;   /* and who does for the sentinels */
};

struct sentinels_options {
    const char *password;          /* of master and replica */
    const char *sentinel_password; /* of the sentinels themselves */
    bool proxied;                  /* data[0] can be cut off: by its front, or as below */
    const char *config;            /* more lines of redis.conf, of master and replica */
    bool tls;                      /* everything over TLS, the sentinels with certificates of a CA of their own */
};

struct sentinels *
sentinels_start(const struct sentinels_options *options); /* NULL: no passwords. data[0] is the master */
void sentinels_stop(struct sentinels *s);                 /* NULL is fine */

/* New CAs and certificates in the same files, with which everybody has to connect anew. */
void sentinels_renew_certificates(struct sentinels *s);

/* Which of `data` does the first sentinel take for the master? */
int sentinels_master(const struct sentinels *s);

/* Wait until all sentinels take data[which] for the master. */
bool sentinels_wait_master(const struct sentinels *s, int which, int64_t bound_ms);

/* Wait until the other one has data[which] as a replica that follows it. */
bool sentinels_wait_synced(const struct sentinels *s, int which, int64_t bound_ms);

/* Stop the replica data[which], and see to it that nothing which the master does from now on can reach it: when it is
 * resumed, it has to ask. */
void sentinels_cut_off(const struct sentinels *s, int which);

/* Sentinels and replica do not reach data[0], clients do. For `proxied` only. */
void sentinels_isolate(const struct sentinels *s, bool on);

/* SENTINEL FAILOVER, as soon as all sentinels see that the replica follows, until one names the new master; that all do
 * is for sentinels_wait_master. */
void sentinels_failover(const struct sentinels *s);

#endif
