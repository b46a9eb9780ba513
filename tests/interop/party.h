/* SPDX-License-Identifier: MIT */
/* party.h - a meeting with a server, or several, and two languages on it, and parties who take a lock there.
 *
 * A party is an owner of locks: a thread of this process, a C process of its own, or a thread of the Java peer. A test
 * tells each what to do and asks what came of it, in the same words for all three, so that one check serves both
 * directions. What a party is told to do happens on its own thread; the test goes on meanwhile.
 *
 * A meeting and its parties belong to the test's main thread. Every wait has a bound; what cannot be aborts the test
 * with the reason.
 *
 * To add a lock type: one row in `types` in party.c, one in peer/src/redlatch/peer/Locks.java, and a test_TYPE.c.
 */
#ifndef TESTS_INTEROP_PARTY_H
#define TESTS_INTEROP_PARTY_H

#include "tests/interop/peer.h"
#include "tests/interop/rounds.h"
#include "tests/support/cluster.h"
#include "tests/support/probe.h"
#include "tests/support/sentinels.h"
#include "tests/support/server.h"

#include <redlatch/redlatch.h>
#include <stdbool.h>
#include <stdint.h>

#define LONG_MS 60000          /* a lease that does not end during a test */
#define BRIEF_LIFE_MS 3000     /* of a waiter of a "brief fair" lock in C that gives no sign */
#define BRIEF_WATCHDOG_MS 3000 /* of peers, as a "watched read" lock in C takes it */

#define KEPT_MS 50 /* cache_ms of a "kept fenced" lock in C */

enum party_kind {
    PARTY_THREAD,  /* of this process; all in one client */
    PARTY_PROCESS, /* a process of its own, with a client of its own */
    PARTY_JAVA,    /* a thread of the peer; all in one client */
    PARTY_JAVA_2,  /* the same in a second peer, which is started for the first of them */
};

struct party;

#define MEETING_MAX_PARTIES 66
#define MEETING_PEERS 2
#define MEETING_SERVERS 3

struct java_side {
    struct peer *peer; /* NULL: not started */
    char id[37];       /* the U of its client at the first server; "" before its first party */
};

struct meeting {
    struct cluster *cluster; /* of it and the next one at most; neither: servers that know nothing of each other */
    struct sentinels *sentinels;
    size_t servers; /* as many as a lock of the type wants; of a deployment one, the master, in a cluster that of its
                       name */
    struct server *server[MEETING_SERVERS];
    const char *uri[MEETING_SERVERS];
    struct probe *probes[MEETING_SERVERS];
    struct probe *probe; /* of the first server, like the next */
    struct monitor *monitor;
    struct java_side java[MEETING_PEERS];
    const char *type;
    int64_t watchdog_ms;                    /* of every client */
    rdl_client_t *clients[MEETING_SERVERS]; /* of the PARTY_THREADs; NULL before the first */
    struct party *parties[MEETING_MAX_PARTIES];
};

/* Start everything; skips the test where there is no peer. watchdog_ms 0: 30000, the default of both. */
void meeting_open(struct meeting *m, const char *type, int64_t watchdog_ms);

/* Meetings of this process are in a cluster from now on, and probe and monitor at the master of `name`. */
void meetings_in_a_cluster(const char *name);

/* They are at a master with a replica behind sentinels. */
void meetings_behind_sentinels(void);

/* Probe and monitor go to that server of the deployment. */
void meeting_look_at(struct meeting *m, const struct server *server);

/* End everything, parties in the middle of a call too. */
void meeting_close(struct meeting *m);

/* A party for the lock `name`. It lives until meeting_close. */
struct party *party_on(struct meeting *m, enum party_kind kind, const char *name);

/* From now on its calls concern the lock of that type under the same name. */
void party_turn_to(struct party *who, const char *type);

/* SIGKILL to a party's process, be it a C process or the JVM. */
void party_kill(struct party *who);

/* The U in the `U:n` of its holds. */
const char *party_id(const struct party *who);

/* What its thread is called in requests to the peer; of a party in Java only. */
const char *party_java_thread(const struct party *who);

/* ---- telling a party what to do; one call at a time each -------------------------------------------------------- */

void party_start_try(struct party *who, int64_t wait_ms, int64_t lease_ms);
void party_start_rounds(struct party *who, const struct rounds_plan *plan);
void party_start_mixed(struct party *who, const struct rounds_plan *plan); /* it is turned to a read end; mixed.h */

/* Has the call ended within bound_ms? */
bool party_finished(struct party *who, int64_t bound_ms);

/* What the call returned, in the library's terms also for Java: RDL_OK, RDL_ETIMEDOUT, RDL_ENOTOWNER, a value >= 0 ...
 */
int64_t party_result(struct party *who, int64_t bound_ms);

/* The same for rounds; aborts the test when they failed. */
struct rounds_done party_rounds(struct party *who, int64_t bound_ms);

/* Whole calls. */
int64_t party_try(struct party *who, int64_t wait_ms, int64_t lease_ms);
int64_t party_unlock(struct party *who);
int64_t party_force_unlock(struct party *who);
int64_t party_is_locked(struct party *who);
int64_t party_hold_count(struct party *who);
int64_t party_remaining_ms(struct party *who);

#endif
