/* SPDX-License-Identifier: MIT */
/* conn.c - a connection's steps up to the greeting (greeting.h), and what its user has of it then. */
#include "core/io/conn.h"

#include "core/base/err.h"
#include "core/io/greeting.h"

#include <errno.h>
#include <string.h>

static void fail_because(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    rdl__conn_close(conn);
    rdl__node_failed(conn->node, why, now);
    conn->ops->failed(conn, why, now);
}

void rdl__conn_fail(struct rdl__conn *conn, int code, int64_t now, const char *text)
{
    char where[2 * sizeof conn->node->label];
    rdl_err_t why;

    rdl__assert_on_loop(conn->node->loop);
    rdl__node_where(conn->node, where, sizeof where);
    (void)rdl__err_set(&why, code, "%s: %s", where, text);
    rdl__err_where(&why, conn->node->label, NULL, 0);
    fail_because(conn, &why, now);
}

/* ---- connecting ------------------------------------------------------------------------------------------------- */

static const struct rdl__addr *addr_after(const struct rdl__conn *conn, unsigned i)
{
    return &conn->addrs.addr[(i + 1) % conn->addrs.count];
}

static void dial(struct rdl__conn *conn, int64_t now)
{
    rdl__addrs_begin_with(&conn->addrs, &conn->node->first_addr);
    conn->state = RDL__CONN_CONNECTING;
    rdl__dial_start(&conn->dial, &conn->addrs, now, conn->deadline);
}

/* Go on with the handshake as far as the socket allows. */
static void secure(struct rdl__conn *conn, int64_t now)
{
    int rc = rdl__tls_handshake(conn->tls);

    if (rc < 0)
        rdl__conn_fail(conn, RDL_ECONN, now, rdl__conn_why(conn, rc));
    else if (rc == RDL__TLS_READY)
        rdl__greeting_begin(conn, now);
    else
        rdl__conn_watch(conn, rc == RDL__TLS_WANTS_WRITE ? RDL__WRITABLE : RDL__READABLE);
}

static void begin_handshake(struct rdl__conn *conn, int64_t now)
{
    char why[256];

    conn->state = RDL__CONN_SECURING;
    conn->tls = rdl__tls_begin(conn->node->config.tls, &conn->sock, conn->node->uri.host, why, sizeof why);
    if (conn->tls == NULL)
        rdl__conn_fail(conn, RDL_ECONN, now, why);
    else
        secure(conn, now);
}

static void dialed(struct rdl__dial *dial, int64_t now)
{
    struct rdl__conn *conn = rdl__container(dial, struct rdl__conn, dial);

    if (dial->sock.fd < 0) {
        rdl__conn_fail(conn, RDL_ECONN, now, strerror(dial->error));
        return;
    }
    conn->sock = dial->sock;
    conn->node->first_addr = *addr_after(conn, dial->won); /* until it has answered */
    if (conn->node->config.tls != NULL)
        begin_handshake(conn, now);
    else
        rdl__greeting_begin(conn, now);
}

static void resolved(void *arg, const struct rdl__addrs *addrs, const char *why, int64_t now)
{
    struct rdl__conn *conn = arg;
    struct rdl__resolve *resolve = conn->resolve; /* what it found is its own */

    conn->resolve = NULL;
    if (addrs == NULL) {
        rdl__conn_fail(conn, RDL_ECONN, now, why);
    } else {
        conn->addrs = *addrs;
        dial(conn, now);
    }
    (void)rdl__resolve_drop(resolve);
}

void rdl__conn_attempt(struct rdl__conn *conn, int64_t now)
{
    rdl__assert_on_loop(conn->node->loop);
    conn->deadline = rdl__after_ms(now, conn->node->config.connect_timeout_ms);
    rdl__loop_timer(conn->node->loop, &conn->timer, conn->deadline);
    if (conn->node->finder != NULL && conn->node->uri.host == NULL) {
        conn->state = RDL__CONN_FINDING;
        return;
    }
    if (rdl__resolve_numeric(&conn->node->uri, &conn->addrs)) {
        dial(conn, now);
        return;
    }
    conn->state = RDL__CONN_RESOLVING;
    conn->resolve = rdl__resolve_start(conn->node->config.resolver, &conn->node->uri, resolved, conn);
    if (conn->resolve == NULL)
        rdl__conn_fail(conn, RDL_ENOMEM, now, "cannot start a thread to resolve the name");
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    static const char *const doing[] = {
        [RDL__CONN_FINDING] = "nobody has said in time where it is",
        [RDL__CONN_RESOLVING] = "resolving the name took too long",
        [RDL__CONN_CONNECTING] = "connecting took too long",
        [RDL__CONN_SECURING] = "the TLS handshake took too long (does the server speak TLS?)",
        [RDL__CONN_GREETING] = "the server did not answer in time",
    };
    struct rdl__conn *conn = rdl__container(timer, struct rdl__conn, timer);

    if (conn->state == RDL__CONN_WAITING) {
        if (conn->node->next_attempt > now) /* another connection of this node has failed meanwhile */
            rdl__loop_timer(conn->node->loop, &conn->timer, conn->node->next_attempt);
        else
            rdl__conn_attempt(conn, now);
    } else {
        rdl__conn_fail(conn, RDL_ECONN, now, doing[conn->state]);
    }
}

static void on_ready(struct rdl__watch *watch, int events, int64_t now)
{
    struct rdl__conn *conn = rdl__container(watch, struct rdl__conn, watch);

    if (conn->state == RDL__CONN_SECURING)
        secure(conn, now);
    else if (conn->state == RDL__CONN_GREETING)
        rdl__greeting_ready(conn, events, now);
    else
        conn->ops->ready(conn, events, now);
}

/* ---- conn.h ----------------------------------------------------------------------------------------------------- */

void rdl__conn_init(struct rdl__conn *conn, struct rdl__node *node, const struct rdl__conn_ops *ops)
{
    memset(conn, 0, sizeof *conn);
    conn->node = node;
    conn->ops = ops;
    conn->sock.fd = -1;
    rdl__list_push_back(&node->conns, &conn->link);
    rdl__buf_init(&conn->greeting, node->mem);
    rdl__watch_init(&conn->watch, on_ready);
    rdl__timer_init(&conn->timer, on_timer);
    rdl__dial_init(&conn->dial, node->loop, dialed);
}

void rdl__conn_done(struct rdl__conn *conn)
{
    rdl__conn_close(conn);
    rdl__list_remove(&conn->link);
    rdl__buf_done(&conn->greeting);
}

void rdl__conn_start(struct rdl__conn *conn, int64_t now)
{
    rdl__assert_on_loop(conn->node->loop);
    conn->state = RDL__CONN_WAITING;
    rdl__loop_timer(conn->node->loop, &conn->timer, conn->node->next_attempt > now ? conn->node->next_attempt : now);
}

void rdl__conn_moved(struct rdl__conn *conn, const rdl_err_t *unused, int64_t now)
{
    rdl__assert_on_loop(conn->node->loop);
    (void)unused;
    if (conn->state == RDL__CONN_UP) {
        conn->ops->moved(conn, now);
    } else if (conn->state != RDL__CONN_CLOSED) {
        rdl__conn_close(conn);
        rdl__conn_start(conn, now);
    }
}

void rdl__conn_place_unknown(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    rdl__assert_on_loop(conn->node->loop);
    if (conn->state == RDL__CONN_FINDING)
        fail_because(conn, why, now);
}

void rdl__conn_close(struct rdl__conn *conn)
{
    if (conn->state == RDL__CONN_CLOSED) /* as ever when it is freed, by then without a loop */
        return;
    rdl__assert_on_loop(conn->node->loop);
    rdl__loop_timer_off(conn->node->loop, &conn->timer);
    conn->resolve = rdl__resolve_drop(conn->resolve);
    rdl__dial_stop(&conn->dial);
    rdl__conn_watch(conn, 0);
    conn->tls = rdl__tls_end(conn->tls);
    rdl__sock_close(&conn->sock);
    conn->reader = rdl__reader_free(conn->reader);
    rdl__greeting_forget(conn);
    conn->state = RDL__CONN_CLOSED;
}

void rdl__conn_watch(struct rdl__conn *conn, int events)
{
    rdl__assert_on_loop(conn->node->loop);
    rdl__watch_set(conn->node->loop, &conn->watch, conn->sock.fd, events);
}

const char *rdl__conn_why(const struct rdl__conn *conn, ssize_t n)
{
    if (n == -EPIPE)
        return "the server closed the connection";
    return conn->tls != NULL && n == -EPROTO ? rdl__tls_why(conn->tls) : strerror((int)-n);
}

const char *rdl__conn_send_out(struct rdl__conn *conn, struct rdl__buf *out, size_t *sent)
{
    rdl__assert_on_loop(conn->node->loop);
    while (*sent < out->len) {
        ssize_t n = rdl__conn_send(conn, out->data + *sent, out->len - *sent);

        if (n < 0)
            return rdl__conn_why(conn, n);
        if (n == 0)
            break;
        *sent += (size_t)n;
    }
    rdl__buf_drop_sent(out, sent);
    rdl__conn_watch(conn, RDL__READABLE | (out->len > 0 ? RDL__WRITABLE : 0));
    return NULL;
}

const char *rdl__conn_receive(struct rdl__conn *conn, int64_t now)
{
    char bytes[RDL__CONN_RECV];
    ssize_t n = rdl__conn_recv(conn, bytes, sizeof bytes, now, now);

    rdl__assert_on_loop(conn->node->loop);
    if (n < 0)
        return rdl__conn_why(conn, n);
    return n > 0 && rdl__reader_feed(conn->reader, bytes, (size_t)n) < 0 ? rdl__reader_why(conn->reader) : NULL;
}
