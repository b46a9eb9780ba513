/* SPDX-License-Identifier: MIT */
#include "core/io/greeting.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

enum step { STEP_HELLO, STEP_AUTH, STEP_NAME, STEP_SELECT, STEP_CLIENT_INFO, STEP_INFO, STEP_ROLE, STEP_PING };

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

void rdl__greeting_forget(struct rdl__conn *conn)
{
    rdl__assert_on_loop(conn->node->loop);
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
        rdl__conn_fail(conn, RDL_ESERVER, now, but);
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
    rdl__conn_fail(conn, who ? RDL_EAUTH : RDL_ESERVER, now, text);
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
            rdl__conn_attempt(conn, now);
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
            rdl__conn_fail(conn, RDL_ECONN, now, "it is a replica");
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
        rdl__conn_fail(conn, RDL_ECONN, now, wrong);
    return wrong == NULL;
}

static void finish(struct rdl__conn *conn, int64_t now)
{
    char where[2 * sizeof conn->node->label];

    rdl__loop_timer_off(conn->node->loop, &conn->timer);
    rdl__conn_watch(conn, 0);
    rdl__greeting_forget(conn);
    conn->state = RDL__CONN_UP;
    conn->up_at = now;
    conn->node->first_addr = conn->addrs.addr[conn->dial.won];
    rdl__node_connected(conn->node, now);
    rdl__node_where(conn->node, where, sizeof where);
    rdl__log(conn->node->sinks, RDL_LOG_DEBUG, "%s: connected (client id %lld)", where, (long long)conn->id);
    conn->ops->up(conn, now);
}

void rdl__greeting_begin(struct rdl__conn *conn, int64_t now)
{
    int rc;

    rdl__assert_on_loop(conn->node->loop);
    conn->state = RDL__CONN_GREETING;
    conn->greeted_at = now;
    if ((rc = prepare_greeting(conn)) < 0)
        rdl__conn_fail(conn, rc, now, rc == RDL_EAUTH ? "the callback has no credentials" : rdl_strerror(rc));
    else
        (void)send_greeting(conn, now);
}

void rdl__greeting_ready(struct rdl__conn *conn, int events, int64_t now)
{
    const struct rdl__reply *reply;
    const char *wrong;

    rdl__assert_on_loop(conn->node->loop);
    if ((events & RDL__WRITABLE) && !send_greeting(conn, now))
        return;
    if (!(events & RDL__READABLE))
        return;
    if ((wrong = rdl__conn_receive(conn, now)) != NULL) {
        rdl__conn_fail(conn, RDL_ECONN, now, wrong);
        return;
    }
    if (conn->greeted_at != 0) /* the first call that takes a lock is to know how far away the server is */
        rdl__node_round_trip(conn->node, now - conn->greeted_at);
    conn->greeted_at = 0;
    while (conn->step < conn->step_count + conn->node->welcome_count) {
        if (rdl__reader_next(conn->reader, &reply) < 0) {
            rdl__conn_fail(conn, RDL_ECONN, now, rdl__reader_why(conn->reader));
            return;
        }
        if (reply == NULL)
            return;
        if (!reply->push && !take_answer(conn, reply, now))
            return;
    }
    finish(conn, now);
}
