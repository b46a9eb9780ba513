/* SPDX-License-Identifier: MIT */
/* node.h - one server: where it is, how to greet it, how its connections come back.
 *
 * Lanes and the subscriber share a node. It knows no lock.
 *
 * A node is a master rather than a machine. Where it has a finder, that sets the master's place, and sets it again when
 * another server has become the master. Then every connection to the former place is dropped, and made again to the new
 * one; unanswered requests follow (lane.h). To the layers above this is an outage.
 */
#ifndef REDLATCH_IO_NODE_H
#define REDLATCH_IO_NODE_H

#include "core/base/busypoll.h"
#include "core/base/entropy.h"
#include "core/base/mem.h"
#include "core/base/sink.h"
#include "core/base/sync.h"
#include "core/io/loop.h"
#include "core/io/resolve.h"
#include "core/io/tls.h"
#include "core/wire/buf.h"
#include "core/wire/uri.h"

#include <stdatomic.h>
#include <stdbool.h>

/* The kind of server that the URI names; RDL__KIND_ANY: whatever it is. */
enum rdl__kind { RDL__KIND_SERVER, RDL__KIND_SENTINEL, RDL__KIND_CLUSTER, RDL__KIND_ANY };

struct rdl__node_config {
    enum rdl__kind kind;
    int64_t connect_timeout_ms;
    int64_t command_timeout_ms;
    int64_t reconnect_min_ms;
    int64_t reconnect_max_ms;
    int64_t ping_interval_ms;
    int64_t poll_ns; /* how long a lone caller may poll for its answer before it sleeps; 0: not at all */
    const char *client_name;
    struct rdl__resolver *resolver;
    struct rdl__tls *tls;           /* NULL: plain connections */
    rdl_credentials_fn credentials; /* called for each connection; NULL: the URI's are used */
    void *credentials_arg;
};

/* Finds the place of a node whose URI does not name it. Set before the node is used. */
struct rdl__finder {
    /* An attempt to connect has failed, or the server there is no master: find it again. May do no more than note
     * that.  @thread loop */
    void (*missed)(struct rdl__finder *finder);
};

struct rdl__node {
    /* immutable after rdl__node_init, except the place in `uri`, which is the loop's */
    const struct rdl__mem *mem;
    const struct rdl__sinks *sinks;
    struct rdl__loop *loop;
    struct rdl__node_config config;
    struct rdl__uri uri;
    char label[128];         /* the server, for people */
    struct rdl__buf welcome; /* commands (SCRIPT LOAD) of the greeting, whose answers are ignored */
    unsigned welcome_count;
    struct rdl__finder *finder; /* NULL: the node is where its URI says */

    /* loop thread only */
    struct rdl__link conns; /* all of the node's connections */
    struct rdl__rand rand;
    bool resp2; /* the server knows no HELLO */
    bool has_been_up;
    bool policy_known;           /* whether the server may evict locks: looked at, and told if it does */
    struct rdl__repeats told;    /* why connections were not made, or lost */
    unsigned attempts;           /* failed attempts to connect since the last success */
    int64_t outage_began;        /* 0: the last attempt to connect succeeded */
    int64_t next_attempt;        /* no attempt before then */
    struct rdl__addr first_addr; /* of several, the one to be tried first; len 0: none in particular */
    int64_t placed_at;           /* when the finder has moved it last */
    int64_t vain_since;          /* since when connections were of no use, as of vain_at (rdl__node_broke); 0: never */
    int64_t vain_at;             /* when the last such one broke */

    /* any thread */
    _Atomic uint64_t run;       /* hash of the run id of the server of the last connection; 0: unknown */
    _Atomic int64_t born_at;    /* the latest time, by our clock, at which the server can have started */
    _Atomic bool kill_refused;  /* CLIENT KILL was refused: undos are repeated instead (protocol.md, 3) */
    _Atomic int64_t round_trip; /* about the longest recent one, ns; 0: unknown */
    _Atomic bool polling;       /* a thread polls for an answer; it alone may touch the accounts */
    _Atomic unsigned callers;   /* threads that wait for an answer */
    struct rdl__busypoll caller_poll;
    struct rdl__busypoll loop_poll;
    struct rdl__mutex mu;
    rdl_err_t last_error; /* under mu, like the next: why the last attempt to connect failed */
    char place[128];      /* of a cluster's node, once it is found, for messages; else "" */
};

/* Takes over `uri`. The pointers must outlive the node. RDL_OK or RDL_ENOMEM. */
int rdl__node_init(struct rdl__node *node, const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                   struct rdl__loop *loop, const struct rdl__node_config *config, struct rdl__uri *uri);
void rdl__node_done(struct rdl__node *node);

/* An attempt to connect failed, or succeeded: when may the next one start?  @thread loop */
void rdl__node_failed(struct rdl__node *node, const rdl_err_t *why, int64_t now);
void rdl__node_connected(struct rdl__node *node, int64_t now);

/* A connection that was up since up_at has ended. If it was of no use, because it broke at once or the server is a
 * replica (`refused`), it counts as a failed attempt: the next one is delayed, and the finder is told.  @thread loop */
void rdl__node_broke(struct rdl__node *node, int64_t up_at, bool refused, int64_t now);

/* Since when attempts have failed or connections been of no use; 0: the last one was good.  @thread loop */
int64_t rdl__node_missed_since(const struct rdl__node *node, int64_t now);

/* The uptime in a greeting's INFO (whole seconds, rounded down; "": not told, so the server may have started just now).
 * Of several connections the latest possible start counts.  @thread loop */
void rdl__node_uptime(struct rdl__node *node, const char *seconds, int64_t now);

/* The run id in a greeting's INFO ("": not told).  @thread loop */
void rdl__node_run(struct rdl__node *node, const char *run_id);

/* A request was answered after `took` ns. A longer time than before counts at once; much shorter ones lower it
 * gradually, so that most calls have nothing to write.  @thread any */
static inline void rdl__node_round_trip(struct rdl__node *node, int64_t took)
{
    int64_t had = atomic_load_explicit(&node->round_trip, memory_order_relaxed);

    if (took > had || took < had / 2)
        atomic_store_explicit(&node->round_trip, took > had ? took : had - (had - took) / 8, memory_order_relaxed);
}

/* The finder sets the place. Connections to any other place are dropped. False: no memory.  @thread loop */
bool rdl__node_found(struct rdl__node *node, const char *host, int port, int64_t now);

/* Has the last attempt to connect succeeded, or was there none?  @thread loop */
static inline bool rdl__node_reachable(const struct rdl__node *node)
{
    rdl__assert_on_loop(node->loop);
    return node->outage_began == 0;
}

/* The finder has asked all that it can, and has no place.  @thread loop */
void rdl__node_not_found(struct rdl__node *node, const rdl_err_t *why, int64_t now);

/* The server, for messages: its label; of a cluster's node, whose label is the cluster's, its place.  @thread any
 * @locks takes mu */
void rdl__node_server(struct rdl__node *node, char *to, size_t cap);

/* Its present place, for messages.  @thread loop */
void rdl__node_where(const struct rdl__node *node, char *to, size_t cap);

/* Copy the reason for the last failure into err, with `code` unless the reason has a better one. Returns the code.
 * @thread any */
int rdl__node_error(struct rdl__node *node, int code, rdl_err_t *err);

#endif
