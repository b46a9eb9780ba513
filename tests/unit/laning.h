/* SPDX-License-Identifier: MIT */
/* laning.h - for test_lane.c: the connection and the socket under a lane, and requests that tell what became of them.
 *
 * The lane's files are the real ones, and so are the node and the reader; the loop is a fake one, and so are the
 * connection and the socket, below. One thread does all: while a caller is inside rdl__lane_call, what others do
 * happens in `meanwhile`, which the fake socket runs when the leader receives, or in `while_sending`. A second caller
 * is a request that is queued there; its thread would sleep on its parker, whose bits tell what it was woken for. */
#ifndef TESTS_UNIT_LANING_H
#define TESTS_UNIT_LANING_H

#include "core/io/lane_inner.h"
#include "tests/support/counting_alloc.h"
#include "tests/unit/fake_loop.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ID "0123456789012345678901234567890123456789"

static struct rdl__loop loop;
static struct counting_alloc counting;
static struct rdl__mem mem;
static const struct rdl__sinks sinks;
static struct rdl__node the_node;

/* ---- the connection and its socket ------------------------------------------------------------------------------ */

static struct rdl__conn *fresh; /* started last */
static int64_t last_id;
static const char *run_id = RUN_ID; /* of the server that the next connection reaches */
static char sent[4096];             /* on all connections, one behind the other */
static size_t sent_len, room;
static const char *coming; /* what the next receive finds; NULL: the connection broke */
static const char *later;  /* and the one after it */
static void (*meanwhile)(void);
static void (*while_sending)(void);

void rdl__conn_init(struct rdl__conn *conn, struct rdl__node *node, const struct rdl__conn_ops *ops)
{
    *conn = (struct rdl__conn){.node = node, .ops = ops, .sock.fd = -1};
    rdl__list_init(&conn->link);
}

void rdl__conn_close(struct rdl__conn *conn)
{
    conn->reader = rdl__reader_free(conn->reader);
    conn->state = RDL__CONN_CLOSED;
}

void rdl__conn_done(struct rdl__conn *conn)
{
    rdl__conn_close(conn);
}

void rdl__conn_start(struct rdl__conn *conn, int64_t now)
{
    (void)now;
    conn->state = RDL__CONN_CONNECTING;
    fresh = conn;
}

void rdl__conn_watch(struct rdl__conn *conn, int events)
{
    conn->watch.events = events;
}

void rdl__conn_moved(struct rdl__conn *conn, const rdl_err_t *unused, int64_t now)
{
    (void)unused;
    conn->ops->moved(conn, now);
}

void rdl__conn_place_unknown(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    conn->ops->failed(conn, why, now);
}

const char *rdl__conn_why(const struct rdl__conn *conn, ssize_t n)
{
    (void)conn;
    return strerror((int)-n);
}

ssize_t rdl__sock_send(struct rdl__sock *s, const void *bytes, size_t len)
{
    void (*others)(void) = while_sending;

    (void)s;
    while_sending = NULL;
    if (others != NULL)
        others();
    if (len > room)
        len = room;
    cr_assert_lt(sent_len + len, sizeof sent);
    memcpy(sent + sent_len, bytes, len);
    sent_len += len;
    room -= len;
    return (ssize_t)len;
}

ssize_t rdl__sock_recv(struct rdl__sock *s, void *to, size_t cap, int64_t now, int64_t until)
{
    void (*others)(void) = meanwhile;
    const char *come;
    size_t len;

    (void)s;
    meanwhile = NULL;
    if (others != NULL)
        others();
    if (coming == NULL)
        return -EPIPE;
    come = coming;
    coming = later;
    later = "";
    if ((len = strlen(come)) == 0) { /* nothing comes: time passes */
        if (until > now)
            loop.now = until;
        return 0;
    }
    cr_assert_leq(len, cap);
    memcpy(to, come, len);
    return (ssize_t)len;
}

ssize_t rdl__sock_poll(struct rdl__sock *s, void *to, size_t cap, int64_t *now, int64_t for_ns, int64_t *ret_idle)
{
    ssize_t len = rdl__sock_recv(s, to, cap, *now, *now);

    (void)for_ns;
    *now = loop.now;
    *ret_idle = 0;
    return len;
}

void rdl__sock_wait(struct rdl__sock *s, bool writable, int64_t now, int64_t until)
{
    (void)s, (void)writable, (void)now, (void)until;
    room = sizeof sent;
}

void rdl__sock_wait_any(struct rdl__sock_wait *waits, unsigned n, int64_t now, int64_t until)
{
    (void)now;
    for (unsigned i = 0; i < n; i++)
        waits[i].ready = coming == NULL || coming[0] != '\0';
    if (coming != NULL && coming[0] == '\0')
        loop.now = until;
}

void rdl__sock_shutdown(struct rdl__sock *s)
{
    (void)s;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* Its command is its name, or EVAL and its name. */
struct ask {
    struct rdl__req req;
    const char *name;
    int64_t got; /* the last reply */
    int done;
};

static void encode(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    rdl__cmd_begin(to, eval ? 2 : 1);
    if (eval)
        rdl__cmd_str(to, "EVAL");
    rdl__cmd_str(to, rdl__container(req, struct ask, req)->name);
}

static void encode_undo(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    (void)eval;
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "UNDO");
    rdl__cmd_str(to, rdl__container(req, struct ask, req)->name);
}

static void decode(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    (void)now;
    rdl__container(req, struct ask, req)->got = reply->integer;
}

static void done(struct rdl__req *req, int64_t now)
{
    (void)now;
    rdl__container(req, struct ask, req)->done++;
}

static const struct rdl__req_ops callers = {.encode = encode, .decode = decode};
static const struct rdl__req_ops loops = {.encode = encode, .decode = decode, .done = done};
static void answered(struct rdl__req *req)
{
    rdl__container(req, struct ask, req)->done++;
}

static const struct rdl__req_ops nobody_waits = {.encode = encode, .decode = decode, .detached = answered};
static const struct rdl__req_ops undo = {.encode = encode_undo, .decode = decode, .done = done};

static struct ask make(const char *name, const struct rdl__req_ops *ops)
{
    struct ask ask = {.name = name, .got = -1};

    rdl__req_init(&ask.req, ops);
    return ask;
}

static struct rdl__lane *lane, *other_lane;
static struct ask mine, other, of_loop;

/* ---- set-up ----------------------------------------------------------------------------------------------------- */

/* The commands sent since the last time, their words separated by spaces, each with a semicolon behind it. */
static const char *sent_since(void)
{
    static char text[sizeof sent];
    size_t len = 0, words_left = 0;
    char *at = sent;

    while (at < sent + sent_len) {
        char *end;
        size_t n = strtoul(at + 1, &end, 10);

        if (*at == '*') {
            words_left = n;
            at = end + 2;
            continue;
        }
        memcpy(text + len, end + 2, n);
        len += n;
        text[len++] = --words_left == 0 ? ';' : ' ';
        at = end + 2 + n + 2;
    }
    text[len] = '\0';
    sent_len = 0;
    return text;
}

/* The connection that was started is up. */
static void connect_now(void)
{
    struct rdl__conn *conn = fresh;

    cr_assert_not_null(conn, "no connection was started");
    fresh = NULL;
    conn->state = RDL__CONN_UP;
    conn->up_at = loop.now;
    conn->id = ++last_id;
    strcpy(conn->addr, "a:1");
    strcpy(conn->run_id, run_id);
    conn->reader = rdl__reader_new(&mem, NULL);
    conn->ops->up(conn, loop.now);
}

static struct rdl__lane *connected(bool kept_up)
{
    struct rdl__lane *made = rdl__lane_new(&the_node, kept_up);

    made->wanted = true;
    rdl__lane_open(made, loop.now);
    connect_now();
    fake_loop_tasks(&loop);
    return made;
}

static void set_up(void)
{
    static const struct rdl__node_config config = {.command_timeout_ms = 3000, .ping_interval_ms = 1000000};
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    struct rdl__uri uri;
    rdl_err_t err;

    rdl__mem_init(&mem, &hooks);
    fake_loop_init(&loop, 1000 * RDL__SEC);
    cr_assert_eq(rdl__uri_parse(&mem, "redis://h", &uri, &err), RDL_OK);
    cr_assert_eq(rdl__node_init(&the_node, &mem, &sinks, &loop, &config, &uri), RDL_OK);
    room = sizeof sent;
    coming = later = "";
    lane = connected(false);
    mine = make("MINE", &callers);
    other = make("OTHER", &callers);
    of_loop = make("LOOPS", &loops);
}

static struct rdl__lane *end(struct rdl__lane *which)
{
    if (which == NULL)
        return NULL;
    rdl__lane_close(which, loop.now);
    fake_loop_tasks(&loop);
    cr_assert(rdl__lane_quiet(which));
    return rdl__lane_free(which);
}

static void tear_down(void)
{
    lane = end(lane);
    other_lane = end(other_lane);
    rdl__node_done(&the_node);
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

#endif
