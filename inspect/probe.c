/* SPDX-License-Identifier: MIT */
/* probe.c - a conversation with one server.
 *
 * The loop's thread makes the connection, by all the rules of conn.c: names, addresses, TLS, credentials, greeting.
 * Once it is up it watches it no longer, and the thread that asks sends and receives, as a caller does on a lane of its
 * own.
 */
#include "inspect/probe.h"

#include "core/base/err.h"
#include "core/service/options.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define POST_UP 1u
#define POST_FAILED 2u
#define POST_CLOSED 4u

/* ---- what they share -------------------------------------------------------------------------------------------- */

int rdl__reach_init(struct rdl__reach *reach, const char *uri, const rdl_client_options_t *options, rdl_err_t *err)
{
    const rdl_client_options_t *o = &reach->options;
    int rc;

    memset(reach, 0, sizeof *reach);
    if ((rc = rdl__client_options_check(options, &reach->options, err)) < 0)
        return rc;
    rdl__mem_init(&reach->mem, o->allocator);
    reach->sinks = (struct rdl__sinks){.log = o->log, .log_arg = o->log_arg, .level = o->log_level};
    if ((rc = rdl__uri_parse(&reach->mem, uri, &reach->uri, err)) < 0)
        return rc;
    if (!rdl__uri_credentials(&reach->uri, o->username, o->password))
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    if ((rc = rdl__client_options_fit(o, &reach->uri, err)) < 0)
        return rc;
    if (reach->uri.tls && (rc = rdl__tls_new(&reach->mem, o->tls, &reach->tls, err)) < 0)
        return rc;
    if (reach->uri.tls && (rc = rdl__tls_new(&reach->mem, o->sentinel_tls != NULL ? o->sentinel_tls : o->tls,
                                             &reach->sentinel_tls, err)) < 0)
        return rc;
    if ((rc = rdl__loop_start(&reach->mem, &reach->loop, err)) < 0)
        return rc;
    reach->resolver = rdl__resolver_new(reach->loop);
    return reach->resolver != NULL ? RDL_OK : rdl__err_set(err, RDL_ENOMEM, NULL);
}

void rdl__reach_done(struct rdl__reach *reach)
{
    reach->loop = rdl__loop_stop(reach->loop);
    reach->resolver = rdl__resolver_free(reach->resolver);
    reach->tls = rdl__tls_free(reach->tls);
    reach->sentinel_tls = rdl__tls_free(reach->sentinel_tls);
    rdl__uri_done(&reach->uri);
}

/* ---- on the loop ------------------------------------------------------------------------------------------------ */

static void on_open(struct rdl__task *task, int64_t now)
{
    rdl__conn_start(&rdl__container(task, struct rdl__probe, open_task)->conn, now);
}

static void on_close(struct rdl__task *task, int64_t now)
{
    struct rdl__probe *probe = rdl__container(task, struct rdl__probe, close_task);

    (void)now;
    rdl__conn_close(&probe->conn);
    rdl__parker_post(&probe->parker, POST_CLOSED);
}

static void on_up(struct rdl__conn *conn, int64_t now)
{
    (void)now;
    rdl__parker_post(&rdl__container(conn, struct rdl__probe, conn)->parker, POST_UP);
}

static void on_failed(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    struct rdl__probe *probe = rdl__container(conn, struct rdl__probe, conn);

    (void)now;
    probe->why = *why;
    rdl__parker_post(&probe->parker, POST_FAILED);
}

/* Nobody watches it once it is up, and no finder moves it. */
static void on_ready(struct rdl__conn *conn, int events, int64_t now)
{
    (void)conn;
    (void)events;
    (void)now;
}

static const struct rdl__conn_ops conn_ops = {.up = on_up, .failed = on_failed, .ready = on_ready};

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

static bool make_node(const struct rdl__reach *reach, struct rdl__probe *probe, const char *host, int port,
                      bool sentinel)
{
    const rdl_client_options_t *o = &reach->options;
    struct rdl__node_config config = {
        .kind = RDL__KIND_ANY,
        .connect_timeout_ms = o->connect_timeout_ms,
        .command_timeout_ms = o->command_timeout_ms,
        .reconnect_min_ms = o->reconnect_min_ms,
        .reconnect_max_ms = o->reconnect_max_ms,
        .ping_interval_ms = o->ping_interval_ms,
        .client_name = o->client_name != NULL ? o->client_name : "redlatch-doctor",
        .resolver = reach->resolver,
        .tls = sentinel ? reach->sentinel_tls : reach->tls,
        .credentials = sentinel ? NULL : o->credentials,
        .credentials_arg = o->credentials_arg,
    };
    struct rdl__uri uri = {.mem = &reach->mem,
                           .scheme = reach->uri.scheme == RDL__SCHEME_UNIX ? RDL__SCHEME_UNIX : RDL__SCHEME_TCP,
                           .db = sentinel ? 0 : reach->uri.db};
    bool made = rdl__uri_place(&uri, host, port) &&
                rdl__uri_credentials(&uri, sentinel ? o->sentinel_username : reach->uri.username,
                                     sentinel ? o->sentinel_password : reach->uri.password) &&
                rdl__node_init(&probe->node, &reach->mem, &reach->sinks, reach->loop, &config, &uri) == RDL_OK;

    rdl__uri_done(&uri);
    return made;
}

int rdl__probe_open(const struct rdl__reach *reach, const char *host, int port, bool sentinel,
                    struct rdl__probe **ret_probe, rdl_err_t *err)
{
    struct rdl__probe *probe = rdl__zalloc(&reach->mem, sizeof *probe);

    if (probe == NULL || !make_node(reach, probe, host, port, sentinel)) {
        rdl__free(&reach->mem, probe, sizeof *probe);
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    rdl__conn_init(&probe->conn, &probe->node, &conn_ops);
    rdl__buf_init(&probe->out, &reach->mem);
    rdl__parker_init(&probe->parker);
    rdl__task_init(&probe->open_task, on_open);
    rdl__task_init(&probe->close_task, on_close);
    rdl__loop_post(reach->loop, &probe->open_task);
    /* The connection has a bound of its own. */
    if (rdl__park_for(&probe->parker, POST_UP | POST_FAILED, RDL__NEVER) & POST_FAILED) {
        int rc = probe->why.code;

        if (err != NULL)
            *err = probe->why;
        (void)rdl__probe_close(probe);
        return rc;
    }
    *ret_probe = probe;
    return RDL_OK;
}

struct rdl__probe *rdl__probe_close(struct rdl__probe *probe)
{
    const struct rdl__mem *mem;

    if (probe == NULL)
        return NULL;
    mem = probe->node.mem;
    rdl__loop_post(probe->node.loop, &probe->close_task);
    (void)rdl__park_for(&probe->parker, POST_CLOSED, RDL__NEVER);
    rdl__conn_done(&probe->conn);
    rdl__buf_done(&probe->out);
    rdl__node_done(&probe->node);
    rdl__free(mem, probe, sizeof *probe);
    return NULL;
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* There are no answers any more. `why` NULL: the reason stands there already. */
static const struct rdl__reply *lost(struct rdl__probe *probe, const char *why)
{
    if (!probe->broken) {
        (void)rdl__err_set(&probe->why, RDL_ECONN, "%s: %s", probe->node.label, why);
        rdl__err_where(&probe->why, probe->node.label, NULL, 0);
    }
    probe->broken = true;
    probe->none = (struct rdl__reply){.type = RDL__REPLY_ERROR, .str = "ERR no answer", .len = 13};
    return &probe->none;
}

static void append(struct rdl__probe *probe, const char *word, va_list words)
{
    va_list counted;
    size_t n = 1;

    va_copy(counted, words);
    while (va_arg(counted, const char *) != NULL)
        n++;
    va_end(counted);
    rdl__cmd_begin(&probe->out, n);
    for (; word != NULL; word = va_arg(words, const char *))
        rdl__cmd_str(&probe->out, word);
}

void rdl__probe_flush(struct rdl__probe *probe)
{
    int64_t now = rdl__now();
    int64_t deadline = rdl__after_ms(now, probe->node.config.command_timeout_ms);
    size_t sent = 0;

    if (rdl__buf_failed(&probe->out))
        (void)lost(probe, rdl_strerror(RDL_ENOMEM));
    while (!probe->broken && sent < probe->out.len) {
        ssize_t n = rdl__conn_send(&probe->conn, probe->out.data + sent, probe->out.len - sent);

        if (n < 0) {
            (void)lost(probe, rdl__conn_why(&probe->conn, n));
        } else if (n == 0) {
            if ((now = rdl__now()) >= deadline)
                (void)lost(probe, "it does not take what it is asked");
            else
                rdl__sock_wait(&probe->conn.sock, true, now, deadline);
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    rdl__buf_cut(&probe->out, 0);
}

void rdl__probe_send(struct rdl__probe *probe, const char *word, ...)
{
    va_list words;

    if (probe->broken)
        return;
    va_start(words, word);
    append(probe, word, words);
    va_end(words);
    rdl__probe_flush(probe);
}

const struct rdl__reply *rdl__probe_next(struct rdl__probe *probe)
{
    int64_t now = rdl__now();
    int64_t deadline = rdl__after_ms(now, probe->node.config.command_timeout_ms);
    struct rdl__reader *reader = probe->conn.reader;
    const struct rdl__reply *reply = NULL;
    char bytes[RDL__CONN_RECV];

    while (!probe->broken) {
        ssize_t n;

        if (rdl__reader_next(reader, &reply) < 0)
            return lost(probe, rdl__reader_why(reader));
        if (reply != NULL)
            return reply;
        if (now >= deadline)
            return lost(probe, "it does not answer");
        n = rdl__conn_recv(&probe->conn, bytes, sizeof bytes, now, deadline);
        if (n < 0 && n != -EINTR)
            return lost(probe, rdl__conn_why(&probe->conn, n));
        if (n > 0 && rdl__reader_feed(reader, bytes, (size_t)n) < 0)
            return lost(probe, rdl__reader_why(reader));
        now = rdl__now();
    }
    return lost(probe, NULL);
}

const struct rdl__reply *rdl__probe_ask(struct rdl__probe *probe, const char *word, ...)
{
    const struct rdl__reply *reply;
    va_list words;

    if (!probe->broken) {
        va_start(words, word);
        append(probe, word, words);
        va_end(words);
        rdl__probe_flush(probe);
    }
    do
        reply = rdl__probe_next(probe);
    while (reply->push);
    return reply;
}
