/* SPDX-License-Identifier: MIT */
/* conn.h - one connection to a node, from resolving its name until it is ready for commands.
 *
 * The steps: find the node's place, resolve, connect, the TLS handshake, the greeting (HELLO with AUTH, CLIENT INFO,
 * INFO, SELECT, ROLE, PING, the node's welcome); one bound for all of them (connect_timeout_ms). Of several addresses
 * the first that connects is taken (dial.h); if the greeting fails there, the next attempt begins with the address
 * behind it. ROLE is sent where the node has a finder, since the server may be a replica by now. Where the URI names a
 * single server, a sentinel or a cluster's node is refused. Error texts have only the first word of a server's answer
 * to the greeting: the rest may quote a password. Pushed messages (RESP3's `>`) are no answers to it. After `up` the
 * connection's user sends and receives on it; `ready` reports events of the socket.
 *
 * CLIENT INFO and INFO tell the id and address of this client at the server, and which run of the server it is:
 * a later CLIENT KILL needs them (protocol.md, 3).
 */
#ifndef REDLATCH_IO_CONN_H
#define REDLATCH_IO_CONN_H

#include "core/io/dial.h"
#include "core/io/node.h"
#include "core/io/reader.h"
#include "core/io/resolve.h"
#include "core/io/sock.h"
#include "core/io/tls.h"
#include "core/io/watch.h"

struct rdl__conn;

struct rdl__conn_ops {
    void (*up)(struct rdl__conn *conn, int64_t now);
    void (*failed)(struct rdl__conn *conn, const rdl_err_t *why, int64_t now); /* before up; the connection is closed */
    void (*ready)(struct rdl__conn *conn, int events, int64_t now);            /* after up */
    /* After up: the node has another place now: close the connection. NULL: its nodes have no finder. */
    void (*moved)(struct rdl__conn *conn, int64_t now);
};

enum rdl__conn_state {
    RDL__CONN_CLOSED,
    RDL__CONN_WAITING, /* for the node's next attempt to be due */
    RDL__CONN_FINDING, /* waiting for the node's finder */
    RDL__CONN_RESOLVING,
    RDL__CONN_CONNECTING,
    RDL__CONN_SECURING,
    RDL__CONN_GREETING,
    RDL__CONN_UP,
};

struct rdl__conn {
    struct rdl__node *node;
    struct rdl__link link; /* on the node's list */
    const struct rdl__conn_ops *ops;
    enum rdl__conn_state state;
    struct rdl__sock sock;
    struct rdl__tls_stream *tls; /* NULL: plain */
    struct rdl__reader *reader;
    struct rdl__watch watch;
    struct rdl__timer timer; /* next attempt due, or out of time */
    struct rdl__resolve *resolve;
    struct rdl__addrs addrs;
    struct rdl__dial dial;
    struct rdl__buf greeting;
    size_t greeting_sent;
    unsigned char steps[8]; /* the commands of the greeting, in order */
    unsigned step_count, step;
    int64_t deadline;
    int64_t greeted_at; /* when the greeting was sent; 0: its first answer has come */
    int64_t up_at;
    /* the connection at the server; id 0 and empty strings: not told */
    int64_t id;
    char addr[160];
    char run_id[48];
};

void rdl__conn_init(struct rdl__conn *conn, struct rdl__node *node, const struct rdl__conn_ops *ops);
void rdl__conn_done(struct rdl__conn *conn); /* closes it first */

/* Start, as soon as the node's next attempt is due. `failed` is never called from inside.  @thread loop */
void rdl__conn_start(struct rdl__conn *conn, int64_t now);

/* The node has another place now.  @thread loop */
void rdl__conn_moved(struct rdl__conn *conn, const rdl_err_t *unused, int64_t now);

/* The node's place is not known: an attempt that waits for it has failed.  @thread loop */
void rdl__conn_place_unknown(struct rdl__conn *conn, const rdl_err_t *why, int64_t now);

void rdl__conn_close(struct rdl__conn *conn); /* no function is called any more.  @thread loop */
void rdl__conn_watch(struct rdl__conn *conn, int events);

#define RDL__CONN_RECV RDL__TLS_RECORD /* a receive must have room for that much */

/* As rdl__sock_send, _recv and _poll, over TLS or not. After a 0 of send the next send must begin with the same bytes.
 */
static inline ssize_t rdl__conn_send(struct rdl__conn *conn, const void *bytes, size_t len)
{
    return conn->tls == NULL ? rdl__sock_send(&conn->sock, bytes, len) : rdl__tls_send(conn->tls, bytes, len);
}

static inline ssize_t rdl__conn_recv(struct rdl__conn *conn, void *to, size_t cap, int64_t now, int64_t until)
{
    return conn->tls == NULL ? rdl__sock_recv(&conn->sock, to, cap, now, until)
                             : rdl__tls_recv(conn->tls, to, cap, now, until);
}

static inline ssize_t rdl__conn_poll(struct rdl__conn *conn, void *to, size_t cap, int64_t *now, int64_t for_ns,
                                     int64_t *ret_idle)
{
    return conn->tls == NULL ? rdl__sock_poll(&conn->sock, to, cap, now, for_ns, ret_idle)
                             : rdl__tls_poll(conn->tls, to, cap, now, for_ns, ret_idle);
}

/* The text for a negative result of these; valid until the connection is closed.  @thread the one that got the result
 */
const char *rdl__conn_why(const struct rdl__conn *conn, ssize_t n);

/* For talk.h. Send the rest of `out` (*sent bytes are sent already), and watch for answers, and for room if the socket
 * is full. Receive into conn->reader. NULL, or an error text, as rdl__conn_why.  @thread loop */
const char *rdl__conn_send_out(struct rdl__conn *conn, struct rdl__buf *out, size_t *sent);
const char *rdl__conn_receive(struct rdl__conn *conn, int64_t now);

#endif
