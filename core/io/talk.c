/* SPDX-License-Identifier: MIT */
#include "core/io/talk.h"

#include "core/base/err.h"

#include <stdarg.h>

static void on_up(struct rdl__conn *conn, int64_t now)
{
    struct rdl__talk *talk = rdl__container(conn, struct rdl__talk, conn);

    talk->ops->up(talk, now);
}

static void on_failed(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    struct rdl__talk *talk = rdl__container(conn, struct rdl__talk, conn);

    talk->ops->lost(talk, why, false, now);
}

static void on_ready(struct rdl__conn *conn, int events, int64_t now)
{
    struct rdl__talk *talk = rdl__container(conn, struct rdl__talk, conn);
    const struct rdl__reply *reply;
    const char *wrong;

    if (events & RDL__WRITABLE)
        rdl__talk_send(talk, now);
    if (!(events & RDL__READABLE) || !rdl__talk_up(talk))
        return;
    wrong = rdl__conn_receive(conn, now);
    now = rdl__now(); /* what was sent later cannot be among these bytes (waiters.c) */
    while (wrong == NULL && rdl__talk_up(talk)) {
        if (rdl__reader_next(conn->reader, &reply) < 0)
            wrong = rdl__reader_why(conn->reader);
        else if (reply != NULL)
            talk->ops->reply(talk, reply, now);
        else
            return;
    }
    if (wrong != NULL)
        rdl__talk_lose(talk, RDL_ECONN, wrong, now);
}

static void on_moved(struct rdl__conn *conn, int64_t now)
{
    rdl__talk_lose(rdl__container(conn, struct rdl__talk, conn), RDL_ECONN, "another server has taken over", now);
}

static const struct rdl__conn_ops conn_ops = {.up = on_up, .failed = on_failed, .ready = on_ready, .moved = on_moved};

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    struct rdl__talk *talk = rdl__container(timer, struct rdl__talk, timer);

    if (talk->awaited > 0)
        rdl__talk_lose(talk, RDL_ECONN, "it does not answer", now);
    else if (talk->ops->due != NULL)
        talk->ops->due(talk, now);
}

void rdl__talk_init(struct rdl__talk *talk, struct rdl__node *node, const struct rdl__talk_ops *ops)
{
    rdl__conn_init(&talk->conn, node, &conn_ops);
    talk->ops = ops;
    rdl__buf_init(&talk->out, node->mem);
    talk->out_sent = 0;
    rdl__timer_init(&talk->timer, on_timer);
    talk->awaited = 0;
}

void rdl__talk_done(struct rdl__talk *talk)
{
    if (talk->ops == NULL)
        return;
    rdl__conn_done(&talk->conn);
    rdl__buf_done(&talk->out);
}

void rdl__talk_put(struct rdl__talk *talk, const char *word, ...)
{
    va_list words;
    size_t n = 1;

    rdl__assert_on_loop(talk->conn.node->loop);
    va_start(words, word);
    while (va_arg(words, const char *) != NULL)
        n++;
    va_end(words);
    rdl__cmd_begin(&talk->out, n);
    va_start(words, word);
    for (; word != NULL; word = va_arg(words, const char *))
        rdl__cmd_str(&talk->out, word);
    va_end(words);
}

void rdl__talk_send(struct rdl__talk *talk, int64_t now)
{
    const char *wrong;

    rdl__assert_on_loop(talk->conn.node->loop);
    if (rdl__buf_failed(&talk->out))
        rdl__talk_lose(talk, RDL_ENOMEM, rdl_strerror(RDL_ENOMEM), now);
    else if ((wrong = rdl__conn_send_out(&talk->conn, &talk->out, &talk->out_sent)) != NULL)
        rdl__talk_lose(talk, RDL_ECONN, wrong, now);
}

void rdl__talk_ask(struct rdl__talk *talk, unsigned answers, int64_t now)
{
    rdl__assert_on_loop(talk->conn.node->loop);
    talk->awaited = answers;
    rdl__talk_pause(talk, rdl__after_ms(now, talk->conn.node->config.command_timeout_ms));
    rdl__talk_send(talk, now);
}

void rdl__talk_pause(struct rdl__talk *talk, int64_t until)
{
    rdl__assert_on_loop(talk->conn.node->loop);
    rdl__loop_timer(talk->conn.node->loop, &talk->timer, until);
}

void rdl__talk_lose(struct rdl__talk *talk, int code, const char *why, int64_t now)
{
    rdl_err_t err = {0};

    rdl__assert_on_loop(talk->conn.node->loop);
    (void)rdl__err_set(&err, code, "%s: %s", talk->conn.node->label, why);
    rdl__talk_stop(talk);
    talk->ops->lost(talk, &err, true, now);
}

void rdl__talk_stop(struct rdl__talk *talk)
{
    rdl__assert_on_loop(talk->conn.node->loop);
    rdl__conn_close(&talk->conn);
    rdl__loop_timer_off(talk->conn.node->loop, &talk->timer);
    rdl__buf_cut(&talk->out, 0);
    talk->out_sent = 0;
    talk->awaited = 0;
}
