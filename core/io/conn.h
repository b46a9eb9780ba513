/* conn.h - one connection to a node, from resolving its name until it is ready for commands.
 *
 * Resolve, connect, greet (HELLO with AUTH, SELECT, CLIENT INFO, INFO, PING, the node's welcome): one pipeline, one bound
 * (connect_timeout_ms). Then `up`, and whoever owns the connection reads and writes its socket as it likes; `ready` passes
 * on what the watch sees.
 *
 * CLIENT INFO and INFO tell who we are to the server (id, address) and which run of the server it is. That is what a later
 * CLIENT KILL needs (PROTOCOL.md, 3).
 */
#ifndef REDLATCH_IO_CONN_H
#define REDLATCH_IO_CONN_H

#include "core/io/node.h"
#include "core/io/reader.h"
#include "core/io/resolve.h"
#include "core/io/sock.h"
#include "core/io/watch.h"

struct rdl__conn;

struct rdl__conn_ops {
    void (*up)(struct rdl__conn *conn, int64_t now);
    void (*failed)(struct rdl__conn *conn, const rdl_err_t *why, int64_t now); /* before up; the connection is closed */
    void (*ready)(struct rdl__conn *conn, int events, int64_t now);            /* after up */
};

enum rdl__conn_state {
    RDL__CONN_CLOSED,
    RDL__CONN_WAITING, /* for the node's next attempt to be due */
    RDL__CONN_RESOLVING,
    RDL__CONN_CONNECTING,
    RDL__CONN_GREETING,
    RDL__CONN_UP,
};

struct rdl__conn {
    struct rdl__node *node;
    const struct rdl__conn_ops *ops;
    enum rdl__conn_state state;
    struct rdl__sock sock;
    struct rdl__reader *reader;
    struct rdl__watch watch;
    struct rdl__timer timer; /* next attempt due, or out of time */
    struct rdl__resolve *resolve;
    struct rdl__addrs addrs;
    unsigned addr_next;
    struct rdl__buf greeting;
    size_t greeting_sent;
    unsigned char steps[8]; /* what the answers in the greeting are to */
    unsigned step_count, step;
    int64_t deadline;
    /* what the server said of this connection; id 0 and empty strings: it would not say */
    int64_t id;
    char addr[160];
    char run_id[48];
};

void rdl__conn_init(struct rdl__conn *conn, struct rdl__node *node, const struct rdl__conn_ops *ops);
void rdl__conn_done(struct rdl__conn *conn); /* closes it first */

/* Start, as soon as the node's next attempt is due. `failed` is never called from inside.  @thread loop */
void rdl__conn_start(struct rdl__conn *conn, int64_t now);

void rdl__conn_close(struct rdl__conn *conn); /* nothing is called any more.  @thread loop */
void rdl__conn_watch(struct rdl__conn *conn, int events);

#endif
