#include "core/io/conn.h"

#include "core/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum step { STEP_HELLO, STEP_AUTH, STEP_NAME, STEP_SELECT, STEP_CLIENT_INFO, STEP_INFO, STEP_PING };

static void attempt(struct rdl__conn *conn, int64_t now);

static void fail(struct rdl__conn *conn, int code, int64_t now, const char *text)
{
    rdl_err_t why;

    (void)rdl__err_set(&why, code, "%s: %s", conn->node->label, text);
    rdl__err_where(&why, conn->node->label, NULL, 0);
    rdl__conn_close(conn);
    rdl__node_failed(conn->node, &why, now);
    conn->ops->failed(conn, &why, now);
}

/* ---- greeting ------------------------------------------------------------------------------------------------------------ */

static void say_hello(struct rdl__conn *conn)
{
    const struct rdl__uri *uri = &conn->node->uri;
    struct rdl__buf *b = &conn->greeting;

    rdl__cmd_begin(b, uri->password != NULL ? 7 : 4);
    rdl__cmd_str(b, "HELLO");
    rdl__cmd_str(b, "3");
    if (uri->password != NULL) {
        rdl__cmd_str(b, "AUTH");
        rdl__cmd_str(b, uri->username != NULL ? uri->username : "default");
        rdl__cmd_str(b, uri->password);
    }
    rdl__cmd_str(b, "SETNAME");
    rdl__cmd_str(b, conn->node->config.client_name);
    conn->steps[conn->step_count++] = STEP_HELLO;
}

static void say_auth(struct rdl__conn *conn)
{
    const struct rdl__uri *uri = &conn->node->uri;
    struct rdl__buf *b = &conn->greeting;

    if (uri->password != NULL) {
        rdl__cmd_begin(b, uri->username != NULL ? 3 : 2);
        rdl__cmd_str(b, "AUTH");
        if (uri->username != NULL)
            rdl__cmd_str(b, uri->username);
        rdl__cmd_str(b, uri->password);
        conn->steps[conn->step_count++] = STEP_AUTH;
    }
    rdl__cmd_begin(b, 3);
    rdl__cmd_str(b, "CLIENT");
    rdl__cmd_str(b, "SETNAME");
    rdl__cmd_str(b, conn->node->config.client_name);
    conn->steps[conn->step_count++] = STEP_NAME;
}

static void say_rest(struct rdl__conn *conn)
{
    struct rdl__buf *b = &conn->greeting;

    if (conn->node->uri.db != 0) {
        rdl__cmd_begin(b, 2);
        rdl__cmd_str(b, "SELECT");
        rdl__cmd_int(b, conn->node->uri.db);
        conn->steps[conn->step_count++] = STEP_SELECT;
    }
    rdl__cmd_begin(b, 2);
    rdl__cmd_str(b, "CLIENT");
    rdl__cmd_str(b, "INFO");
    conn->steps[conn->step_count++] = STEP_CLIENT_INFO;
    rdl__cmd_begin(b, 2);
    rdl__cmd_str(b, "INFO");
    rdl__cmd_str(b, "server");
    conn->steps[conn->step_count++] = STEP_INFO;
    rdl__cmd_begin(b, 1);
    rdl__cmd_str(b, "PING");
    conn->steps[conn->step_count++] = STEP_PING;
    rdl__buf_put(b, conn->node->welcome.data, conn->node->welcome.len);
}

static bool write_greeting(struct rdl__conn *conn)
{
    rdl__buf_cut(&conn->greeting, 0);
    conn->greeting_sent = 0;
    conn->step = conn->step_count = 0;
    if (conn->node->resp2)
        say_auth(conn);
    else
        say_hello(conn);
    say_rest(conn);
    return !rdl__buf_failed(&conn->greeting);
}

/* Whatever was said may hold a password. */
static void forget_greeting(struct rdl__conn *conn)
{
    if (conn->greeting.data != NULL)
        rdl__wipe(conn->greeting.data, conn->greeting.len);
    rdl__buf_done(&conn->greeting);
    rdl__buf_init(&conn->greeting, conn->node->mem);
}

static void keep_field(const struct rdl__reply *reply, const char *key, char sep, char *to, size_t cap)
{
    const char *value;
    size_t len;

    to[0] = '\0';
    if (rdl__reply_field(reply, key, sep, &value, &len) && len < cap) {
        memcpy(to, value, len);
        to[len] = '\0';
    }
}

static void keep_client_info(struct rdl__conn *conn, const struct rdl__reply *reply)
{
    char id[24];
    long long n = 0;

    keep_field(reply, "id", '=', id, sizeof id);
    keep_field(reply, "addr", '=', conn->addr, sizeof conn->addr);
    conn->id = sscanf(id, "%lld", &n) == 1 ? n : 0;
}

/* Returns false when the connection has failed or starts over. */
static bool take_answer(struct rdl__conn *conn, const struct rdl__reply *reply, int64_t now)
{
    bool error = reply->type == RDL__REPLY_ERROR;
    char uptime[24];

    if (conn->step >= conn->step_count) { /* the welcome: a script that could not be loaded is found out by NOSCRIPT */
        conn->step++;
        return true;
    }
    switch ((enum step)conn->steps[conn->step++]) {
    case STEP_HELLO:
        if (error && (rdl__reply_is_error(reply, "ERR") || rdl__reply_is_error(reply, "NOPROTO"))) {
            conn->node->resp2 = true;
            rdl__conn_close(conn);
            attempt(conn, now);
            return false;
        }
        /* fall through */
    case STEP_AUTH:
    case STEP_SELECT:
        if (error) {
            fail(conn, RDL_ESERVER, now, reply->str);
            return false;
        }
        return true;
    case STEP_NAME:
        return true;
    case STEP_CLIENT_INFO:
        keep_client_info(conn, reply);
        return true;
    case STEP_INFO:
        keep_field(reply, "run_id", ':', conn->run_id, sizeof conn->run_id);
        keep_field(reply, "uptime_in_seconds", ':', uptime, sizeof uptime);
        rdl__node_uptime(conn->node, uptime, now);
        return true;
    case STEP_PING:
        if (rdl__reply_is_error(reply, "LOADING")) { /* it greets, but no lock works yet */
            fail(conn, RDL_ESERVER, now, reply->str);
            return false;
        }
        return true;
    }
    return true;
}

static bool send_greeting(struct rdl__conn *conn, int64_t now)
{
    while (conn->greeting_sent < conn->greeting.len) {
        ssize_t n =
            rdl__sock_send(&conn->sock, conn->greeting.data + conn->greeting_sent, conn->greeting.len - conn->greeting_sent);

        if (n < 0) {
            fail(conn, RDL_ECONN, now, strerror((int)-n));
            return false;
        }
        if (n == 0)
            break;
        conn->greeting_sent += (size_t)n;
    }
    rdl__conn_watch(conn, RDL__READABLE | (conn->greeting_sent < conn->greeting.len ? RDL__WRITABLE : 0));
    return true;
}

static void finish(struct rdl__conn *conn, int64_t now)
{
    rdl__loop_timer_off(conn->node->loop, &conn->timer);
    rdl__conn_watch(conn, 0);
    forget_greeting(conn);
    conn->state = RDL__CONN_UP;
    rdl__node_connected(conn->node, now);
    rdl__log(conn->node->sinks, RDL_LOG_DEBUG, "%s: connected (client id %lld)", conn->node->label, (long long)conn->id);
    conn->ops->up(conn, now);
}

static void greet(struct rdl__conn *conn, int events, int64_t now)
{
    const struct rdl__reply *reply;
    char bytes[8192];
    ssize_t n;

    if ((events & RDL__WRITABLE) && !send_greeting(conn, now))
        return;
    if (!(events & RDL__READABLE))
        return;
    n = rdl__sock_recv(&conn->sock, bytes, sizeof bytes, now, now);
    if (n < 0) {
        fail(conn, RDL_ECONN, now, n == -EPIPE ? "the server closed the connection" : strerror((int)-n));
        return;
    }
    if (n > 0 && rdl__reader_feed(conn->reader, bytes, (size_t)n) < 0) {
        fail(conn, RDL_ECONN, now, "this is not a Redis server");
        return;
    }
    while (conn->step < conn->step_count + conn->node->welcome_count) {
        if (rdl__reader_next(conn->reader, &reply) < 0) {
            fail(conn, RDL_ECONN, now, "this is not a Redis server");
            return;
        }
        if (reply == NULL)
            return;
        if (!take_answer(conn, reply, now))
            return;
    }
    finish(conn, now);
}

/* ---- getting there ------------------------------------------------------------------------------------------------------- */

static void try_next_address(struct rdl__conn *conn, int64_t now)
{
    int rc = -EADDRNOTAVAIL;

    while (conn->addr_next < conn->addrs.count) {
        if ((rc = rdl__sock_open(&conn->sock, &conn->addrs.addr[conn->addr_next++])) == RDL_OK) {
            conn->state = RDL__CONN_CONNECTING;
            rdl__conn_watch(conn, RDL__WRITABLE);
            return;
        }
    }
    fail(conn, RDL_ECONN, now, strerror(-rc));
}

static void connected(struct rdl__conn *conn, int64_t now)
{
    int error = rdl__sock_error(&conn->sock);

    rdl__conn_watch(conn, 0);
    if (error != 0) {
        rdl__sock_close(&conn->sock);
        if (conn->addr_next < conn->addrs.count)
            try_next_address(conn, now);
        else
            fail(conn, RDL_ECONN, now, strerror(error));
        return;
    }
    conn->state = RDL__CONN_GREETING;
    if ((conn->reader = rdl__reader_new(conn->node->mem)) == NULL || !write_greeting(conn)) {
        fail(conn, RDL_ENOMEM, now, rdl_strerror(RDL_ENOMEM));
        return;
    }
    (void)send_greeting(conn, now);
}

static void resolved(void *arg, const struct rdl__addrs *addrs, const char *why, int64_t now)
{
    struct rdl__conn *conn = arg;
    struct rdl__resolve *resolve = conn->resolve; /* what it found is its own */

    conn->resolve = NULL;
    if (addrs == NULL) {
        fail(conn, RDL_ECONN, now, why);
    } else {
        conn->addrs = *addrs;
        conn->addr_next = 0;
        try_next_address(conn, now);
    }
    (void)rdl__resolve_drop(resolve);
}

static void attempt(struct rdl__conn *conn, int64_t now)
{
    conn->deadline = rdl__after_ms(now, conn->node->config.connect_timeout_ms);
    rdl__loop_timer(conn->node->loop, &conn->timer, conn->deadline);
    conn->addr_next = 0;
    if (rdl__resolve_numeric(&conn->node->uri, &conn->addrs)) {
        try_next_address(conn, now);
        return;
    }
    conn->state = RDL__CONN_RESOLVING;
    conn->resolve = rdl__resolve_start(conn->node->loop, &conn->node->uri, resolved, conn);
    if (conn->resolve == NULL)
        fail(conn, RDL_ENOMEM, now, "cannot start a thread to resolve the name");
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    static const char *const doing[] = {
        [RDL__CONN_RESOLVING] = "resolving the name took too long",
        [RDL__CONN_CONNECTING] = "connecting took too long",
        [RDL__CONN_GREETING] = "the server did not answer in time",
    };
    struct rdl__conn *conn = rdl__container(timer, struct rdl__conn, timer);

    if (conn->state == RDL__CONN_WAITING) {
        if (conn->node->next_attempt > now) /* another connection of this node has failed meanwhile */
            rdl__loop_timer(conn->node->loop, &conn->timer, conn->node->next_attempt);
        else
            attempt(conn, now);
    } else {
        fail(conn, RDL_ECONN, now, doing[conn->state]);
    }
}

static void on_ready(struct rdl__watch *watch, int events, int64_t now)
{
    struct rdl__conn *conn = rdl__container(watch, struct rdl__conn, watch);

    if (conn->state == RDL__CONN_CONNECTING)
        connected(conn, now);
    else if (conn->state == RDL__CONN_GREETING)
        greet(conn, events, now);
    else
        conn->ops->ready(conn, events, now);
}

/* ---- conn.h -------------------------------------------------------------------------------------------------------------- */

void rdl__conn_init(struct rdl__conn *conn, struct rdl__node *node, const struct rdl__conn_ops *ops)
{
    memset(conn, 0, sizeof *conn);
    conn->node = node;
    conn->ops = ops;
    conn->sock.fd = -1;
    rdl__buf_init(&conn->greeting, node->mem);
    rdl__watch_init(&conn->watch, on_ready);
    rdl__timer_init(&conn->timer, on_timer);
}

void rdl__conn_done(struct rdl__conn *conn)
{
    rdl__conn_close(conn);
    rdl__buf_done(&conn->greeting);
}

void rdl__conn_start(struct rdl__conn *conn, int64_t now)
{
    conn->state = RDL__CONN_WAITING;
    rdl__loop_timer(conn->node->loop, &conn->timer, conn->node->next_attempt > now ? conn->node->next_attempt : now);
}

void rdl__conn_close(struct rdl__conn *conn)
{
    rdl__loop_timer_off(conn->node->loop, &conn->timer);
    conn->resolve = rdl__resolve_drop(conn->resolve);
    rdl__conn_watch(conn, 0);
    rdl__sock_close(&conn->sock);
    conn->reader = rdl__reader_free(conn->reader);
    forget_greeting(conn);
    conn->state = RDL__CONN_CLOSED;
}

void rdl__conn_watch(struct rdl__conn *conn, int events)
{
    rdl__watch_set(conn->node->loop, &conn->watch, conn->sock.fd, events);
}
