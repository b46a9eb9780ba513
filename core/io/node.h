/* node.h - one server: where it is, how to greet it, how its connections come back.
 *
 * A node is what lanes and the subscriber have in common. It knows no lock.
 *
 * A node is a master rather than a machine. Where it has a finder, that says at which place the master is, and says so
 * again when another server has become the master. Then every connection to the former place is dropped, whatever it is
 * waiting for, and made again at the new one; what was unanswered follows (lane.h). The layers above notice no more
 * than an outage.
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

/* What is to be at the other end. */
enum rdl__kind { RDL__KIND_SERVER, RDL__KIND_SENTINEL, RDL__KIND_CLUSTER };

struct rdl__node_config {
    enum rdl__kind kind;
    int64_t connect_timeout_ms;
    int64_t command_timeout_ms;
    int64_t reconnect_min_ms;
    int64_t reconnect_max_ms;
    int64_t ping_interval_ms;
    int64_t poll_ns; /* a lone caller may look that long for its answer before it sleeps; 0: never */
    const char *client_name;
    struct rdl__resolver *resolver;
    struct rdl__tls *tls;           /* NULL: plain connections */
    rdl_credentials_fn credentials; /* asked for each connection; NULL: the URI's */
    void *credentials_arg;
};

/* What knows the place of a node that its URI does not name. Set before the node is used. */
struct rdl__finder {
    /* An attempt to connect has failed, or the server there is no master: look again. It must do no more than take a
     * note of that.  @thread loop */
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
    struct rdl__buf welcome; /* commands (SCRIPT LOAD) sent when a connection is made, their answers not looked at */
    unsigned welcome_count;
    struct rdl__finder *finder; /* NULL: the node is where its URI says */

    /* loop thread only */
    struct rdl__link conns; /* all of the node's connections */
    struct rdl__rand rand;
    bool resp2; /* the server knows no HELLO */
    bool has_been_up;
    struct rdl__repeats told;    /* why connections were not made, or lost */
    unsigned attempts;           /* in vain, since one succeeded */
    int64_t outage_began;        /* 0: the last attempt to connect succeeded */
    int64_t next_attempt;        /* not before */
    struct rdl__addr first_addr; /* of several, the one to be tried first; len 0: none in particular */
    int64_t placed_at;           /* the finder has moved it */
    int64_t vain_since;          /* connections break as soon as they are made; 0: they do not */
    int64_t vain_at;             /* the last one did */

    /* any thread */
    _Atomic uint64_t
        run; /* of which server, the last one that was greeted: the same number means the same; 0: unknown */
    _Atomic int64_t born_at;    /* the server cannot have started later than that, by our clock */
    _Atomic bool kill_refused;  /* CLIENT KILL was refused: doubts are settled by repeating (protocol.md, 3) */
    _Atomic int64_t round_trip; /* about the longest of recent ones, ns; 0: unknown */
    _Atomic bool polling;       /* somebody looks for an answer; the account is its alone */
    _Atomic unsigned callers;   /* threads that wait for an answer */
    struct rdl__busypoll caller_poll;
    struct rdl__busypoll loop_poll;
    struct rdl__mutex mu;
    rdl_err_t last_error; /* under mu, like the next: why the last attempt to connect failed */
    char place[128];      /* of one of many, for people, once it is found; "" */
};

/* Takes over `uri`. The pointers must outlive the node. RDL_OK or RDL_ENOMEM. */
int rdl__node_init(struct rdl__node *node, const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                   struct rdl__loop *loop, const struct rdl__node_config *config, struct rdl__uri *uri);
void rdl__node_done(struct rdl__node *node);

/* An attempt to connect failed, or succeeded: when may the next one start?  @thread loop */
void rdl__node_failed(struct rdl__node *node, const rdl_err_t *why, int64_t now);
void rdl__node_connected(struct rdl__node *node, int64_t now);

/* A connection that was up since up_at is of no use any more. If it was in vain, because it broke at once or the server
 * is a replica (`refused`), it counts as a failed attempt: the next one waits, and the finder looks.  @thread loop */
void rdl__node_broke(struct rdl__node *node, int64_t up_at, bool refused, int64_t now);

/* Since when attempts have failed or been in vain; 0: the last one was good.  @thread loop */
int64_t rdl__node_missed_since(const struct rdl__node *node, int64_t now);

/* A greeting's INFO says how long the server has been up (in whole seconds, rounded down; "": it does not say, and may
 * have started just now). Of what several connections say the latest moment counts.  @thread loop */
void rdl__node_uptime(struct rdl__node *node, const char *seconds, int64_t now);

/* A greeting's INFO says which run of which server it is ("": it does not say).  @thread loop */
void rdl__node_run(struct rdl__node *node, const char *run_id);

/* A request was answered after so many ns. A longer time than before counts at once; shorter ones bring it down by and
 * by, when they are much shorter: so most calls have nothing to write.  @thread any */
static inline void rdl__node_round_trip(struct rdl__node *node, int64_t took)
{
    int64_t had = atomic_load_explicit(&node->round_trip, memory_order_relaxed);

    if (took > had || took < had / 2)
        atomic_store_explicit(&node->round_trip, took > had ? took : had - (had - took) / 8, memory_order_relaxed);
}

/* The finder knows: the server is there. Connections to anywhere else are dropped. False: no memory.  @thread loop */
bool rdl__node_found(struct rdl__node *node, const char *host, int port, int64_t now);

/* Has the last attempt to connect, if there was any, succeeded?  @thread loop */
static inline bool rdl__node_reachable(const struct rdl__node *node)
{
    return node->outage_began == 0;
}

/* The finder has asked everybody, and nobody knows.  @thread loop */
void rdl__node_not_found(struct rdl__node *node, const rdl_err_t *why, int64_t now);

/* The server for people: its label, or where all of a cluster have one label, its place by now.  @thread any  @locks
 * takes mu */
void rdl__node_server(struct rdl__node *node, char *to, size_t cap);

/* Where its connections go now, for people.  @thread loop */
void rdl__node_where(const struct rdl__node *node, char *to, size_t cap);

/* Copy the reason for the last failure into err, with `code` unless the reason has a better one. Returns the code.
 * @thread any */
int rdl__node_error(struct rdl__node *node, int code, rdl_err_t *err);

#endif
