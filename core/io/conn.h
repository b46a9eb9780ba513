/* conn.h - one connection to a node, from resolving its name until it is ready for commands.
 *
 * Find out where the node is, resolve, connect, shake hands where it is TLS, greet (HELLO with AUTH, CLIENT INFO, INFO,
 * SELECT, ROLE, PING, the node's welcome): one bound for all (connect_timeout_ms). Of several addresses the first that
 * connects is taken (dial.h); if the server there then says nothing, or nothing of use, the next attempt begins with
 * the address behind it. ROLE is asked where the node has a finder: what that has found may be a replica by now. A
 * sentinel or a cluster's node is refused where the URI names a single server. Of what the server
 * answers here only the word that an error begins with gets into messages: the rest may quote a password. After `up`
 * the connection's owner sends and receives on it as it likes; `ready` passes on what the watch sees.
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
    /* After up: the node is elsewhere now, and what goes on here is of no use any more: close it. NULL: its nodes have
     * no finder. */
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
    unsigned char steps[8]; /* what the answers in the greeting are to */
    unsigned step_count, step;
    int64_t deadline;
    int64_t greeted_at; /* the greeting began; 0: its first answer has come */
    int64_t up_at;
    /* what the server said of this connection; id 0 and empty strings: it would not say */
    int64_t id;
    char addr[160];
    char run_id[48];
};

void rdl__conn_init(struct rdl__conn *conn, struct rdl__node *node, const struct rdl__conn_ops *ops);
void rdl__conn_done(struct rdl__conn *conn); /* closes it first */

/* Start, as soon as the node's next attempt is due. `failed` is never called from inside.  @thread loop */
void rdl__conn_start(struct rdl__conn *conn, int64_t now);

/* The node is elsewhere now: go there.  @thread loop */
void rdl__conn_moved(struct rdl__conn *conn, const rdl_err_t *unused, int64_t now);

/* Nobody knows where the node is: an attempt that waits for that has failed.  @thread loop */
void rdl__conn_lost_its_way(struct rdl__conn *conn, const rdl_err_t *why, int64_t now);

void rdl__conn_close(struct rdl__conn *conn); /* nothing is called any more.  @thread loop */
void rdl__conn_watch(struct rdl__conn *conn, int events);

#define RDL__CONN_RECV RDL__TLS_RECORD /* a receive must have room for that much */

/* As rdl__sock_send, _recv and _poll, encrypted or not. What was answered with 0 must be sent again, or more that
 * begins so. */
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

/* What a negative answer of these means, for people; the text may go when the connection is closed.  @thread the one
 * that was given it */
const char *rdl__conn_why(const struct rdl__conn *conn, ssize_t n);

/* For those that talk on the loop. Send of `out` what has not gone yet (*sent of it has), and watch for answers, and
 * for room if there was too little. Receive what has come, for conn->reader. NULL, or what is wrong, as rdl__conn_why.
 * @thread loop */
const char *rdl__conn_send_out(struct rdl__conn *conn, struct rdl__buf *out, size_t *sent);
const char *rdl__conn_receive(struct rdl__conn *conn, int64_t now);

#endif
