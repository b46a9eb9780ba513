/* SPDX-License-Identifier: MIT */
#include "core/io/conn.h"

#include "core/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum step { STEP_HELLO, STEP_AUTH, STEP_NAME, STEP_SELECT, STEP_CLIENT_INFO, STEP_INFO, STEP_ROLE, STEP_PING };

static void attempt(struct rdl__conn *conn, int64_t now);

static void fail_because(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    rdl__conn_close(conn);
    rdl__node_failed(conn->node, why, now);
    conn->ops->failed(conn, why, now);
}

static void fail(struct rdl__conn *conn, int code, int64_t now, const char *text)
{
    char where[2 * sizeof conn->node->label];
    rdl_err_t why;

    rdl__node_where(conn->node, where, sizeof where);
    (void)rdl__err_set(&why, code, "%s: %s", where, text);
    rdl__err_where(&why, conn->node->label, NULL, 0);
    fail_because(conn, &why, now);
}

/* ---- greeting --------------------------------------------------------------------------------------------------- */

/* The credentials for one greeting; password NULL: none. */
struct login {
    const char *username; /* NULL: the default one */
    const char *password;
};

static void say_hello(struct rdl__conn *conn, const struct login *login)
{
    struct rdl__buf *b = &conn->greeting;

    rdl__cmd_begin(b, login->password != NULL ? 7 : 4);
    rdl__cmd_str(b, "HELLO");
    rdl__cmd_str(b, "3");
    if (login->password != NULL) {
        rdl__cmd_str(b, "AUTH");
        rdl__cmd_str(b, login->username != NULL ? login->username : "default");
        rdl__cmd_str(b, login->password);
    }
    rdl__cmd_str(b, "SETNAME");
    rdl__cmd_str(b, conn->node->config.client_name);
    conn->steps[conn->step_count++] = STEP_HELLO;
}

static void say_auth(struct rdl__conn *conn, const struct login *login)
{
    struct rdl__buf *b = &conn->greeting;

    if (login->password != NULL) {
        rdl__cmd_begin(b, login->username != NULL ? 3 : 2);
        rdl__cmd_str(b, "AUTH");
        if (login->username != NULL)
            rdl__cmd_str(b, login->username);
        rdl__cmd_str(b, login->password);
        conn->steps[conn->step_count++] = STEP_AUTH;
    }
    rdl__cmd_begin(b, 3);
    rdl__cmd_str(b, "CLIENT");
    rdl__cmd_str(b, "SETNAME");
    rdl__cmd_str(b, conn->node->config.client_name);
    conn->steps[conn->step_count++] = STEP_NAME;
}

/* Once for each node all of INFO is asked for, in place of the part about the server: the policy stands elsewhere. */
static bool wants_policy(const struct rdl__node *node)
{
    return !node->policy_known && node->config.kind != RDL__KIND_SENTINEL && node->config.kind != RDL__KIND_ANY;
}

static void say_rest(struct rdl__conn *conn)
{
    struct rdl__buf *b = &conn->greeting;

    rdl__cmd_begin(b, 2);
    rdl__cmd_str(b, "CLIENT");
    rdl__cmd_str(b, "INFO");
    conn->steps[conn->step_count++] = STEP_CLIENT_INFO;
    rdl__cmd_begin(b, wants_policy(conn->node) ? 1 : 2);
    rdl__cmd_str(b, "INFO");
    if (!wants_policy(conn->node))
        rdl__cmd_str(b, "server");
    conn->steps[conn->step_count++] = STEP_INFO;
    if (conn->node->uri.db != 0) { /* which other kinds do not know */
        rdl__cmd_begin(b, 2);
        rdl__cmd_str(b, "SELECT");
        rdl__cmd_int(b, conn->node->uri.db);
        conn->steps[conn->step_count++] = STEP_SELECT;
    }
    if (conn->node->finder != NULL) {
        rdl__cmd_begin(b, 1);
        rdl__cmd_str(b, "ROLE");
        conn->steps[conn->step_count++] = STEP_ROLE;
    }
    rdl__cmd_begin(b, 1);
    rdl__cmd_str(b, "PING");
    conn->steps[conn->step_count++] = STEP_PING;
    rdl__buf_put(b, conn->node->welcome.data, conn->node->welcome.len);
}

static int write_greeting(struct rdl__conn *conn, const struct login *login)
{
    rdl__buf_cut(&conn->greeting, 0);
    conn->greeting_sent = 0;
    conn->step = conn->step_count = 0;
    if (conn->node->resp2)
        say_auth(conn, login);
    else
        say_hello(conn, login);
    say_rest(conn);
    return rdl__buf_failed(&conn->greeting) ? RDL_ENOMEM : RDL_OK;
}

/* With the credentials that the program gives for this connection. */
static int write_greeting_as_told(struct rdl__conn *conn)
{
    const struct rdl__node_config *config = &conn->node->config;
    rdl_credentials_t told = {0};
    struct login login = {.password = told.password};
    int rc = config->credentials(&told, config->credentials_arg);

    told.username[sizeof told.username - 1] = told.password[sizeof told.password - 1] = '\0';
    if (told.username[0] != '\0')
        login.username = told.username;
    rc = rc < 0 ? RDL_EAUTH : write_greeting(conn, &login);
    rdl__wipe(&told, sizeof told);
    return rc;
}

/* RDL_OK, RDL_ENOMEM, or RDL_EAUTH: the program has no credentials for us. */
static int prepare_greeting(struct rdl__conn *conn)
{
    const struct login fixed = {conn->node->uri.username, conn->node->uri.password};

    if ((conn->reader = rdl__reader_new(conn->node->mem, conn->node->uri.password)) == NULL)
        return RDL_ENOMEM;
    return conn->node->config.credentials != NULL ? write_greeting_as_told(conn) : write_greeting(conn, &fixed);
}

/* It may hold a password. */
static void forget_greeting(struct rdl__conn *conn)
{
    if (conn->greeting.data != NULL)
        rdl__wipe(conn->greeting.data, conn->greeting.cap); /* its length is 0 once it was sent */
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

static bool is_text(const struct rdl__reply *r, const char *text)
{
    return r != NULL && r->type == RDL__REPLY_STRING && strcmp(r->str, text) == 0;
}

/* A replica that does not let us ask refuses when something is to be written. */
static bool is_replica(const struct rdl__reply *role)
{
    const struct rdl__reply *word = rdl__reply_at(role, 0);

    return word != NULL && word->type == RDL__REPLY_STRING && strcmp(word->str, "master") != 0;
}

/* Where the URI names a single server or a cluster: is it one? It may not tell. A server that becomes a replica later
 * refuses by itself, and one that a finder names is asked for its ROLE; a server that is no sentinel, or of its own and
 * no node of a cluster, does not know the commands that these are asked. Returns false when the connection has failed.
 */
static bool is_as_told(struct rdl__conn *conn, const char *mode, size_t len, bool replica, int64_t now)
{
    static const struct {
        const char *mode, *means;
        enum rdl__kind kind;
    } others[] = {
        {"sentinel", "this is a sentinel: the URI is sentinel://hosts/master", RDL__KIND_SENTINEL},
        {"cluster", "this is a node of a cluster: the URI is cluster://hosts", RDL__KIND_CLUSTER},
    };
    const struct rdl__node *node = conn->node;
    const char *but = NULL;

    if (node->config.kind != RDL__KIND_SERVER && node->config.kind != RDL__KIND_CLUSTER)
        return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (node->config.kind != others[i].kind && len == strlen(others[i].mode) &&
            memcmp(mode, others[i].mode, len) == 0)
            but = others[i].means;
    if (replica && node->config.kind == RDL__KIND_SERVER && node->finder == NULL && !node->has_been_up)
        but = "this is a replica: locks are taken at its master, which redlatch doctor names";
    if (but != NULL)
        fail(conn, RDL_ESERVER, now, but);
    return but == NULL;
}

static bool take_hello(struct rdl__conn *conn, const struct rdl__reply *hello, int64_t now)
{
    const struct rdl__reply *mode = rdl__reply_named(hello, "mode");
    bool told = mode != NULL && mode->type == RDL__REPLY_STRING;

    return is_as_told(conn, told ? mode->str : "", told ? mode->len : 0,
                      is_text(rdl__reply_named(hello, "role"), "replica"), now);
}

/* A lock is a key with a time to live: will the server delete some when it is full?  @thread loop */
static void judge_policy(struct rdl__node *node, const struct rdl__reply *info)
{
    char policy[32], most[24];

    rdl__assert_on_loop(node->loop);
    keep_field(info, "maxmemory_policy", ':', policy, sizeof policy);
    keep_field(info, "maxmemory", ':', most, sizeof most);
    if (policy[0] == '\0' || !wants_policy(node))
        return;
    node->policy_known = true;
    if (strcmp(policy, "noeviction") != 0 && strcmp(most, "0") != 0)
        rdl__log(node->sinks, RDL_LOG_WARN,
                 "%s: maxmemory-policy is %s: a server that is full takes locks from their holders (redlatch doctor)",
                 node->label, policy);
}

static bool take_info(struct rdl__conn *conn, const struct rdl__reply *info, int64_t now)
{
    const char *mode;
    char uptime[24];
    size_t len;

    keep_field(info, "run_id", ':', conn->run_id, sizeof conn->run_id);
    keep_field(info, "uptime_in_seconds", ':', uptime, sizeof uptime);
    rdl__node_run(conn->node, conn->run_id);
    rdl__node_uptime(conn->node, uptime, now);
    judge_policy(conn->node, info);
    if (!rdl__reply_field(info, "redis_mode", ':', &mode, &len) &&
        !rdl__reply_field(info, "server_mode", ':', &mode, &len) &&
        !rdl__reply_field(info, "redict_mode", ':', &mode, &len))
        return true;
    return is_as_told(conn, mode, len, false, now);
}

/* A command of the greeting was refused. The message is ours, but for the first word of the server's: a server that
 * does not know HELLO or AUTH may quote what it was sent, and a proxy may answer one request too many. */
static void refused(struct rdl__conn *conn, enum step step, const struct rdl__reply *error, int64_t now)
{
    static const char *const asked[] = {
        [STEP_HELLO] = "HELLO", [STEP_AUTH] = "AUTH", [STEP_SELECT] = "SELECT", [STEP_PING] = "PING"};
    static const struct {
        const char *word, *means;
    } known[] = {
        {"WRONGPASS", "no such user, or a wrong password"},
        {"NOAUTH", "the server wants a password"},
        {"LOADING", "the server is loading its data"},
        {"DENIED", "the server is in protected mode, and takes connections from its own machine only"},
        {"ERR max number of clients", "the server has the max number of clients that it takes"},
    };
    bool who = step == STEP_AUTH || rdl__reply_is_error(error, "WRONGPASS") || rdl__reply_is_error(error, "NOAUTH");
    char text[128];
    const char *means = NULL;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (rdl__reply_is_error(error, known[i].word))
            means = known[i].means;
    if (step == STEP_SELECT && rdl__reply_is_error(error, "ERR"))
        (void)rdl__line(text, sizeof text, "the server has no database %d (ERR)", conn->node->uri.db);
    else if (means == NULL)
        (void)rdl__line(text, sizeof text, "the server refused %s (%s)", asked[step], rdl__reply_word(error));
    else
        (void)rdl__line(text, sizeof text, "%s (%s)", means, rdl__reply_word(error));
    fail(conn, who ? RDL_EAUTH : RDL_ESERVER, now, text);
}

/* HELLO is not known, or not with this protocol, or not allowed. */
static bool wants_older(const struct rdl__reply *error)
{
    return rdl__reply_is_error(error, "ERR") || rdl__reply_is_error(error, "NOPROTO") ||
           rdl__reply_is_error(error, "NOPERM");
}

/* Returns false when the connection has failed or starts over. */
static bool take_answer(struct rdl__conn *conn, const struct rdl__reply *reply, int64_t now)
{
    bool error = reply->type == RDL__REPLY_ERROR;
    enum step step;

    if (conn->step >= conn->step_count) { /* the welcome: a script that could not be loaded is found out by NOSCRIPT */
        conn->step++;
        return true;
    }
    if (conn->step == 0 &&
        rdl__reply_is_error(reply, "ERR max number of clients")) { /* said before it reads what is asked */
        refused(conn, STEP_HELLO, reply, now);
        return false;
    }
    switch (step = (enum step)conn->steps[conn->step++]) {
    case STEP_HELLO:
        if (error && wants_older(reply)) {
            rdl__log(conn->node->sinks, RDL_LOG_INFO, "%s: no HELLO 3, so RESP2 (%s)", conn->node->label,
                     rdl__reply_word(reply));
            conn->node->resp2 = true;
            rdl__conn_close(conn);
            attempt(conn, now);
            return false;
        }
        /* fall through */
    case STEP_AUTH:
    case STEP_SELECT:
        if (error) {
            refused(conn, step, reply, now);
            return false;
        }
        return step != STEP_HELLO || take_hello(conn, reply, now);
    case STEP_NAME:
        return true;
    case STEP_CLIENT_INFO:
        keep_client_info(conn, reply);
        return true;
    case STEP_INFO:
        return take_info(conn, reply, now);
    case STEP_ROLE:
        if (is_replica(reply)) {
            fail(conn, RDL_ECONN, now, "it is a replica");
            return false;
        }
        return true;
    case STEP_PING:
        /* It greets, but no lock works yet, or ever. That PING itself is not allowed does not matter. */
        if (rdl__reply_is_error(reply, "LOADING") || rdl__reply_is_error(reply, "NOAUTH")) {
            refused(conn, step, reply, now);
            return false;
        }
        return true;
    }
    return true;
}

static bool send_greeting(struct rdl__conn *conn, int64_t now)
{
    const char *wrong = rdl__conn_send_out(conn, &conn->greeting, &conn->greeting_sent);

    if (wrong != NULL)
        fail(conn, RDL_ECONN, now, wrong);
    return wrong == NULL;
}

static void finish(struct rdl__conn *conn, int64_t now)
{
    char where[2 * sizeof conn->node->label];

    rdl__loop_timer_off(conn->node->loop, &conn->timer);
    rdl__conn_watch(conn, 0);
    forget_greeting(conn);
    conn->state = RDL__CONN_UP;
    conn->up_at = now;
    conn->node->first_addr = conn->addrs.addr[conn->dial.won];
    rdl__node_connected(conn->node, now);
    rdl__node_where(conn->node, where, sizeof where);
    rdl__log(conn->node->sinks, RDL_LOG_DEBUG, "%s: connected (client id %lld)", where, (long long)conn->id);
    conn->ops->up(conn, now);
}

static void greet(struct rdl__conn *conn, int events, int64_t now)
{
    const struct rdl__reply *reply;
    const char *wrong;

    if ((events & RDL__WRITABLE) && !send_greeting(conn, now))
        return;
    if (!(events & RDL__READABLE))
        return;
    if ((wrong = rdl__conn_receive(conn, now)) != NULL) {
        fail(conn, RDL_ECONN, now, wrong);
        return;
    }
    if (conn->greeted_at != 0) /* the first call that takes a lock is to know how far away the server is */
        rdl__node_round_trip(conn->node, now - conn->greeted_at);
    conn->greeted_at = 0;
    while (conn->step < conn->step_count + conn->node->welcome_count) {
        if (rdl__reader_next(conn->reader, &reply) < 0) {
            fail(conn, RDL_ECONN, now, rdl__reader_why(conn->reader));
            return;
        }
        if (reply == NULL)
            return;
        if (!reply->push && !take_answer(conn, reply, now))
            return;
    }
    finish(conn, now);
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

static void begin_greeting(struct rdl__conn *conn, int64_t now)
{
    int rc;

    conn->state = RDL__CONN_GREETING;
    conn->greeted_at = now;
    if ((rc = prepare_greeting(conn)) < 0)
        fail(conn, rc, now, rc == RDL_EAUTH ? "the callback has no credentials" : rdl_strerror(rc));
    else
        (void)send_greeting(conn, now);
}

/* Go on with the handshake as far as the socket allows. */
static void secure(struct rdl__conn *conn, int64_t now)
{
    int rc = rdl__tls_handshake(conn->tls);

    if (rc < 0)
        fail(conn, RDL_ECONN, now, rdl__conn_why(conn, rc));
    else if (rc == RDL__TLS_READY)
        begin_greeting(conn, now);
    else
        rdl__conn_watch(conn, rc == RDL__TLS_WANTS_WRITE ? RDL__WRITABLE : RDL__READABLE);
}

static void begin_handshake(struct rdl__conn *conn, int64_t now)
{
    char why[256];

    conn->state = RDL__CONN_SECURING;
    conn->tls = rdl__tls_begin(conn->node->config.tls, &conn->sock, conn->node->uri.host, why, sizeof why);
    if (conn->tls == NULL)
        fail(conn, RDL_ECONN, now, why);
    else
        secure(conn, now);
}

static void dialed(struct rdl__dial *dial, int64_t now)
{
    struct rdl__conn *conn = rdl__container(dial, struct rdl__conn, dial);

    if (dial->sock.fd < 0) {
        fail(conn, RDL_ECONN, now, strerror(dial->error));
        return;
    }
    conn->sock = dial->sock;
    conn->node->first_addr = *addr_after(conn, dial->won); /* until it has answered */
    if (conn->node->config.tls != NULL)
        begin_handshake(conn, now);
    else
        begin_greeting(conn, now);
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
        dial(conn, now);
    }
    (void)rdl__resolve_drop(resolve);
}

static void attempt(struct rdl__conn *conn, int64_t now)
{
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
        fail(conn, RDL_ENOMEM, now, "cannot start a thread to resolve the name");
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
            attempt(conn, now);
    } else {
        fail(conn, RDL_ECONN, now, doing[conn->state]);
    }
}

static void on_ready(struct rdl__watch *watch, int events, int64_t now)
{
    struct rdl__conn *conn = rdl__container(watch, struct rdl__conn, watch);

    if (conn->state == RDL__CONN_SECURING)
        secure(conn, now);
    else if (conn->state == RDL__CONN_GREETING)
        greet(conn, events, now);
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
    forget_greeting(conn);
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
    if (*sent == out->len) {
        rdl__buf_cut(out, 0);
        *sent = 0;
    }
    rdl__conn_watch(conn, RDL__READABLE | (out->len > 0 ? RDL__WRITABLE : 0));
    return NULL;
}

const char *rdl__conn_receive(struct rdl__conn *conn, int64_t now)
{
    char bytes[RDL__CONN_RECV];
    ssize_t n = rdl__conn_recv(conn, bytes, sizeof bytes, now, now);

    if (n < 0)
        return rdl__conn_why(conn, n);
    return n > 0 && rdl__reader_feed(conn->reader, bytes, (size_t)n) < 0 ? rdl__reader_why(conn->reader) : NULL;
}
