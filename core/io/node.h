/* node.h - one server: where it is, how to greet it, how its connections come back.
 *
 * A node is what lanes and the subscriber have in common. It knows no lock. A topology is a set of nodes; today there is one.
 */
#ifndef REDLATCH_IO_NODE_H
#define REDLATCH_IO_NODE_H

#include "core/base/busypoll.h"
#include "core/base/entropy.h"
#include "core/base/mem.h"
#include "core/base/sink.h"
#include "core/base/sync.h"
#include "core/io/loop.h"
#include "core/wire/buf.h"
#include "core/wire/uri.h"

#include <stdatomic.h>
#include <stdbool.h>

struct rdl__node_config {
    int64_t connect_timeout_ms;
    int64_t command_timeout_ms;
    int64_t reconnect_min_ms;
    int64_t reconnect_max_ms;
    int64_t ping_interval_ms;
    int64_t poll_ns; /* a lone caller may look that long for its answer before it sleeps; 0: never */
    const char *client_name;
};

struct rdl__node {
    /* immutable after rdl__node_init */
    const struct rdl__mem *mem;
    const struct rdl__sinks *sinks;
    struct rdl__loop *loop;
    struct rdl__node_config config;
    struct rdl__uri uri;
    char label[128];         /* the server, for people */
    struct rdl__buf welcome; /* commands (SCRIPT LOAD) sent when a connection is made, their answers not looked at */
    unsigned welcome_count;

    /* loop thread only */
    struct rdl__rand rand;
    bool resp2;           /* the server knows no HELLO */
    int64_t outage_began; /* 0: the last attempt to connect succeeded */
    int64_t next_attempt; /* not before */

    /* any thread */
    _Atomic int64_t born_at;   /* the server cannot have started later than that, by our clock */
    _Atomic bool kill_refused; /* CLIENT KILL was refused: doubts are settled by repeating (PROTOCOL.md, 3) */
    _Atomic bool polling;      /* somebody looks for an answer; the account is its alone */
    _Atomic unsigned callers;  /* threads that wait for an answer */
    struct rdl__busypoll caller_poll;
    struct rdl__busypoll loop_poll;
    struct rdl__mutex mu;
    rdl_err_t last_error; /* under mu: why the last attempt to connect failed */
};

/* Takes over `uri`. The pointers must outlive the node. RDL_OK or RDL_ENOMEM. */
int rdl__node_init(struct rdl__node *node, const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                   struct rdl__loop *loop, const struct rdl__node_config *config, struct rdl__uri *uri);
void rdl__node_done(struct rdl__node *node);

/* An attempt to connect failed, or succeeded: when may the next one start?  @thread loop */
void rdl__node_failed(struct rdl__node *node, const rdl_err_t *why, int64_t now);
void rdl__node_connected(struct rdl__node *node, int64_t now);

/* A greeting's INFO says how long the server has been up (in whole seconds, rounded down; "": it does not say, and may have
 * started just now). Of several connections' words the latest moment counts.  @thread loop */
void rdl__node_uptime(struct rdl__node *node, const char *seconds, int64_t now);

/* Copy the reason for the last failure into err, with `code` unless the reason has a better one. Returns the code.
 * @thread any */
int rdl__node_error(struct rdl__node *node, int code, rdl_err_t *err);

#endif
