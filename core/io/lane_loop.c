/* SPDX-License-Identifier: MIT */
/* lane_loop.c - the loop's part of a lane: connecting, its own requests, time-outs, pings.
 *
 * After every change `attend` runs, and does all that has become due. Other threads post it as a task; after the loop's
 * own changes it runs before the loop sleeps (`flush_later`).
 *
 * The loop is the reader while it awaits replies itself, or no connection is up (lane_callers.c). It connects for the
 * first request; at once where the lane is kept up, or a connection broke that needs a KILL. While it reads, the
 * connection is given up when nothing has come for twice the command timeout while a request is unanswered (`stall`;
 * a leader does the same); an idle connection is tested with a PING (`silence`), whose answer `stall` waits for.
 */
#include "core/io/lane_inner.h"

#include <string.h>

static const struct rdl__conn_ops conn_ops;

/* ---- connecting ------------------------------------------------------------------------------------------------- */

/* @locks mu */
static bool may_start(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return !lane->closed && lane->making == NULL && rdl__list_empty(&lane->broken);
}

/* Connections to be killed are a reason to connect at once: their requests may still run.  @locks mu */
static bool wants_conn(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return lane->wanted || !rdl__list_empty(&lane->queued) ||
           (!lane->on_demand && (lane->kept_up || !rdl__list_empty(&lane->severed)));
}

/* @thread loop  @locks mu */
static void start_conn(struct rdl__lane *lane, int64_t now)
{
    struct rdl__lane_conn *lc = rdl__lane_make_room(lane) ? rdl__zalloc(lane->node->mem, sizeof *lc) : NULL;

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (lc == NULL) {
        rdl__loop_timer(lane->node->loop, &lane->memory_retry, now + RDL__LANE_MEMORY_PAUSE);
        return;
    }
    lc->lane = lane;
    rdl__conn_init(&lc->conn, lane->node, &conn_ops);
    rdl__list_init(&lc->link);
    lane->making = lc;
    rdl__conn_start(&lc->conn, now);
}

/* @thread loop */
static void stop_making(struct rdl__lane *lane)
{
    rdl__assert_on_loop(lane->node->loop);
    if (lane->making != NULL)
        rdl__lane_conn_free(lane->making);
    lane->making = NULL;
}

/* Report, once, that the connection is gone; if that was not meant, to the log as well.  @thread loop  @locks none */
static void report_down(struct rdl__lane *lane, bool meant, int64_t now)
{
    rdl_err_t why;

    rdl__assert_on_loop(lane->node->loop);
    if (!lane->told_up)
        return;
    lane->told_up = false;
    if (!meant && rdl__node_error(lane->node, RDL_ECONN, &why) < 0)
        rdl__log_again(lane->node->sinks, RDL_LOG_WARN, &lane->node->told, now, "%s", why.message);
    if (lane->on_event != NULL)
        lane->on_event(lane->on_event_arg, RDL__LANE_DOWN, now);
}

/* Is this another run of a server than that of the last connection? If the server does not tell: only where the node
 * has a finder, which may have found another server.  @thread loop */
static bool up_anew(struct rdl__lane *lane, const struct rdl__conn *conn)
{
    bool same = conn->run_id[0] == '\0' ? lane->node->finder == NULL : strcmp(conn->run_id, lane->run_id) == 0;

    rdl__assert_on_loop(lane->node->loop);
    memcpy(lane->run_id, conn->run_id, sizeof lane->run_id);
    return lane->connected_once && !same;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Run ops->done of what is settled.  @thread loop  @locks none */
static void run_settled(struct rdl__lane *lane, int64_t now)
{
    rdl__assert_on_loop(lane->node->loop);
    for (;;) {
        struct rdl__link *l;
        struct rdl__req *req;

        rdl__mutex_lock(&lane->mu);
        l = rdl__list_pop(&lane->settled);
        rdl__mutex_unlock(&lane->mu);
        if (l == NULL)
            return;
        req = rdl__container(l, struct rdl__req, link);
        req->ops->done(req, now);
    }
}

/* Watch the socket while the loop is the reader.  @thread loop  @locks mu */
static void watch_conn(struct rdl__lane *lane)
{
    int events = 0;

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (lane->live == NULL)
        return;
    if (lane->role == RDL__ROLE_LOOP)
        events = RDL__READABLE | (rdl__lane_out_pending(lane) && !lane->writing ? RDL__WRITABLE : 0);
    rdl__conn_watch(&lane->live->conn, events);
}

/* @thread loop  @locks mu */
static void set_stall(struct rdl__lane *lane)
{
    int64_t at = lane->role == RDL__ROLE_LOOP ? rdl__lane_stalls_at(lane) : RDL__NEVER;

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (at != RDL__NEVER)
        rdl__loop_timer(lane->node->loop, &lane->stall, at);
    else
        rdl__loop_timer_off(lane->node->loop, &lane->stall);
}

/* Declare the connection broken, and stop watching it.  @thread loop  @locks mu */
static void break_live(struct rdl__lane *lane, const char *why)
{
    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    rdl__conn_watch(&lane->live->conn, 0);
    rdl__lane_break(lane, why);
}

/* The same, whoever reads: a leader returns from recv, and finds the connection broken.  @thread loop  @locks mu */
static void end_live(struct rdl__lane *lane, const char *why)
{
    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (lane->role == RDL__ROLE_CALLER)
        rdl__sock_shutdown(&lane->live->conn.sock);
    else
        break_live(lane, why);
}

/* rdl__lane_received of the loop.  @thread loop  @locks mu */
static void loop_received(struct rdl__lane *lane, ssize_t n, int64_t at, struct rdl__link *wake)
{
    const char *wrong = rdl__lane_received(lane, n, at, wake);

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (wrong != NULL)
        break_live(lane, wrong);
}

/* Receive what is there. If it is nothing, for too long, that is the connection's end.  @thread loop  @locks none */
static void receive(struct rdl__lane *lane, int64_t now)
{
    struct rdl__link wake;

    rdl__assert_on_loop(lane->node->loop);
    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    if (lane->live != NULL && lane->role == RDL__ROLE_LOOP)
        loop_received(lane, rdl__conn_recv(&lane->live->conn, lane->recv, RDL__CONN_RECV, now, now), now, &wake);
    rdl__mutex_unlock(&lane->mu);
    rdl__lane_wake(&wake, NULL);
}

/* One request is under way, and the loop is about to sleep until its answer comes: poll for it first, as callers do,
 * unless there is a caller, which may need the core. So a waiter that was woken gets its lock sooner.  @thread loop
 * @locks mu, released while polling */
static void poll_on_loop(struct rdl__lane *lane)
{
    struct rdl__link *l = rdl__list_first(&lane->sent);
    struct rdl__lane_conn *lc = lane->live;
    struct rdl__link wake;
    ssize_t n;

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (!lane->kept_up || atomic_load_explicit(&lane->node->callers, memory_order_relaxed) > 0)
        return;
    if (lane->role != RDL__ROLE_LOOP || lc == NULL || l == NULL ||
        !rdl__lane_may_poll(lane, rdl__container(l, struct rdl__req, link)) || rdl__lane_out_pending(lane) ||
        !rdl__busypoll_due(&lane->node->loop_poll))
        return;
    rdl__list_init(&wake);
    rdl__mutex_unlock(&lane->mu);
    n = rdl__lane_poll(lane, lc, &lane->node->loop_poll, rdl__now(), RDL__NEVER);
    rdl__mutex_lock(&lane->mu);
    if (n != 0)
        loop_received(lane, n, rdl__now(), &wake);
    rdl__lane_flush(lane, NULL, 0); /* NOSCRIPT puts a request back into the queue */
    if (rdl__list_empty(&wake))
        return;
    rdl__mutex_unlock(&lane->mu);
    rdl__lane_wake(&wake, NULL);
    rdl__mutex_lock(&lane->mu);
}

/* ---- attending -------------------------------------------------------------------------------------------------- */

/* Settle requests whose keys another server has by now, so that they need not wait for this one. Those that block are
 * collected in `wake`.  @locks mu */
static void settle_misrouted(struct rdl__lane *lane, struct rdl__link *wake)
{
    struct rdl__link *next;

    rdl__assert_locked(&lane->mu);
    for (struct rdl__link *l = lane->queued.next; l != &lane->queued; l = next) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        next = l->next;
        if (req->ops->misrouted != NULL && req->ops->misrouted(req))
            rdl__lane_settle(lane, req, RDL__MISROUTED, wake);
    }
}

/* Do all that is due. What is sent is sent by a clock that is read now: `now` is from before a callback, maybe.
 * @thread loop  @locks none */
static void attend(struct rdl__lane *lane, int64_t now)
{
    struct rdl__link wake;
    bool down, closed, on_demand;

    rdl__assert_on_loop(lane->node->loop);
    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    closed = lane->closed;
    on_demand = lane->on_demand;
    if (lane->role == RDL__ROLE_NONE && rdl__lane_loop_reads(lane))
        rdl__lane_set_role(lane, RDL__ROLE_LOOP, NULL);
    if (lane->role == RDL__ROLE_LOOP && lane->live != NULL) {
        if (closed)
            break_live(lane, "the client is closed");
        else
            rdl__lane_flush(lane, NULL, 0);
        poll_on_loop(lane);
        if (lane->live != NULL && !lane->kept_up && !rdl__lane_loop_reads(lane))
            rdl__lane_pass_role(lane);
    } else if (lane->live != NULL && lane->reading) {
        rdl__lane_flush(lane, NULL, 0); /* the leader is in recv: what the loop has submitted goes out now */
    }
    down = lane->live == NULL;
    if (down)
        settle_misrouted(lane, &wake);
    rdl__lane_close_broken(lane, now);
    watch_conn(lane);
    set_stall(lane);
    if (down && may_start(lane) && wants_conn(lane))
        start_conn(lane, now);
    rdl__mutex_unlock(&lane->mu);
    rdl__lane_wake(&wake, NULL);
    if (down)
        report_down(lane, closed || on_demand, now);
    run_settled(lane, now);
}

static void on_attend(struct rdl__task *task, int64_t now)
{
    attend(rdl__container(task, struct rdl__lane, attend), now);
}

static void on_flush_later(struct rdl__task *task, int64_t now)
{
    attend(rdl__container(task, struct rdl__lane, flush_later), now);
}

static void on_memory_retry(struct rdl__timer *timer, int64_t now)
{
    attend(rdl__container(timer, struct rdl__lane, memory_retry), now);
}

static void on_stall(struct rdl__timer *timer, int64_t now)
{
    struct rdl__lane *lane = rdl__container(timer, struct rdl__lane, stall);

    receive(lane, now);
    attend(lane, now);
}

/* ---- detached requests ------------------------------------------------------------------------------------------ */

static const struct rdl__req *first_detached(const struct rdl__link *list)
{
    for (const struct rdl__link *l = list->next; l != list; l = l->next)
        if (rdl__req_detached(rdl__container(l, struct rdl__req, link)))
            return rdl__container(l, struct rdl__req, link);
    return NULL;
}

/* As long as callers come they read the answers. If one has not been read for a while, the loop reads. It is woken for
 * the first detached request, and looks every RDL__LANE_TEND_MS until it finds none: not for each one. */
static void on_tend(struct rdl__timer *timer, int64_t now)
{
    struct rdl__lane *lane = rdl__container(timer, struct rdl__lane, tend);
    const struct rdl__req *first;
    bool old;

    rdl__mutex_lock(&lane->mu);
    first = first_detached(&lane->sent);
    old = first != NULL && now >= rdl__after_ms(first->sent_at, RDL__LANE_TEND_MS);
    lane->tend_set = lane->detached_count > 0 && !lane->closed;
    if (lane->tend_set)
        rdl__loop_timer(lane->node->loop, &lane->tend, rdl__after_ms(now, RDL__LANE_TEND_MS));
    rdl__mutex_unlock(&lane->mu);
    if (old)
        rdl__lane_tend(lane, now);
}

static void on_set_tend(struct rdl__task *task, int64_t now)
{
    struct rdl__lane *lane = rdl__container(task, struct rdl__lane, set_tend);

    rdl__mutex_lock(&lane->mu);
    if (!lane->closed)
        rdl__loop_timer(lane->node->loop, &lane->tend, rdl__after_ms(now, RDL__LANE_TEND_MS));
    rdl__mutex_unlock(&lane->mu);
}

void rdl__lane_tend(struct rdl__lane *lane, int64_t now)
{
    rdl__assert_on_loop(lane->node->loop);
    rdl__mutex_lock(&lane->mu);
    lane->tended = lane->detached_count > 0;
    rdl__mutex_unlock(&lane->mu);
    attend(lane, now);
}

/* ---- pings ------------------------------------------------------------------------------------------------------ */

static void encode_ping(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    (void)req;
    (void)eval;
    rdl__cmd_begin(to, 1);
    rdl__cmd_str(to, "PING");
}

/* Any answer will do. */
static void decode_ping(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    (void)req;
    (void)reply;
    (void)now;
}

static void done_ping(struct rdl__req *req, int64_t now)
{
    (void)now;
    req->state = RDL__REQ_IDLE;
}

static const struct rdl__req_ops ping_ops = {.encode = encode_ping, .decode = decode_ping, .done = done_ping};

/* A dead connection should be found by a ping, not by the next call. */
static void on_silence(struct rdl__timer *timer, int64_t now)
{
    struct rdl__lane *lane = rdl__container(timer, struct rdl__lane, silence);
    int64_t due;
    bool up;

    rdl__mutex_lock(&lane->mu);
    up = lane->live != NULL;
    due = rdl__after_ms(lane->silent_since, lane->node->config.ping_interval_ms);
    rdl__mutex_unlock(&lane->mu);
    if (!up)
        return;
    if (due <= now) {
        due = rdl__after_ms(now, lane->node->config.ping_interval_ms);
        if (lane->ping.state == RDL__REQ_IDLE) {
            rdl__req_init(&lane->ping, &ping_ops);
            rdl__lane_submit(lane, &lane->ping);
        }
    }
    rdl__loop_timer(lane->node->loop, &lane->silence, due);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void on_conn_ready(struct rdl__conn *conn, int events, int64_t now)
{
    struct rdl__lane_conn *lc = rdl__container(conn, struct rdl__lane_conn, conn);
    struct rdl__lane *lane = lc->lane;

    if (events & RDL__READABLE)
        receive(lane, now);
    run_settled(lane, now);
    rdl__loop_later(lane->node->loop, &lane->flush_later);
}

static void on_conn_up(struct rdl__conn *conn, int64_t now)
{
    struct rdl__lane_conn *lc = rdl__container(conn, struct rdl__lane_conn, conn);
    struct rdl__lane *lane = lc->lane;
    bool anew = up_anew(lane, conn);

    lane->making = NULL;
    if (lane->connected_once)
        rdl__metric(lane->node->sinks, RDL_M_RECONNECTS, 1);
    lane->connected_once = true;
    rdl__mutex_lock(&lane->mu);
    rdl__lane_queue_kills(lane, lc);
    lane->live = lc;
    rdl__lane_set_role(lane, RDL__ROLE_LOOP, NULL);
    lane->wanted = false;
    lane->silent_since = now;
    rdl__mutex_unlock(&lane->mu);
    rdl__loop_timer(lane->node->loop, &lane->silence, rdl__after_ms(now, lane->node->config.ping_interval_ms));
    lane->told_up = true;
    if (lane->on_event != NULL)
        lane->on_event(lane->on_event_arg, anew ? RDL__LANE_UP_ANEW : RDL__LANE_UP, now);
    attend(lane, now);
}

static void on_conn_failed(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    struct rdl__lane_conn *lc = rdl__container(conn, struct rdl__lane_conn, conn);
    struct rdl__lane *lane = lc->lane;

    rdl__log_again(lane->node->sinks, RDL_LOG_WARN, &lane->node->told, now, "cannot connect: %s", why->message);
    lane->making = NULL;
    rdl__lane_conn_free(lc);
    rdl__mutex_lock(&lane->mu);
    lane->wanted = false;
    rdl__mutex_unlock(&lane->mu);
    if (lane->on_event != NULL)
        lane->on_event(lane->on_event_arg, RDL__LANE_FAILED, now);
    attend(lane, now);
}

/* The node has moved to another server: unanswered requests follow. */
static void on_conn_moved(struct rdl__conn *conn, int64_t now)
{
    struct rdl__lane_conn *lc = rdl__container(conn, struct rdl__lane_conn, conn);
    struct rdl__lane *lane = lc->lane;

    rdl__mutex_lock(&lane->mu);
    if (lane->live == lc)
        end_live(lane, "another server has taken over");
    rdl__mutex_unlock(&lane->mu);
    attend(lane, now);
}

static const struct rdl__conn_ops conn_ops = {
    .up = on_conn_up, .failed = on_conn_failed, .ready = on_conn_ready, .moved = on_conn_moved};

void rdl__lane_init_loop(struct rdl__lane *lane)
{
    rdl__task_init(&lane->attend, on_attend);
    rdl__task_init(&lane->flush_later, on_flush_later);
    rdl__timer_init(&lane->stall, on_stall);
    rdl__timer_init(&lane->memory_retry, on_memory_retry);
    rdl__timer_init(&lane->silence, on_silence);
    rdl__task_init(&lane->set_tend, on_set_tend);
    rdl__timer_init(&lane->tend, on_tend);
}

/* ---- lane.h ----------------------------------------------------------------------------------------------------- */

void rdl__lane_open(struct rdl__lane *lane, int64_t now)
{
    rdl__assert_on_loop(lane->node->loop);
    attend(lane, now);
}

void rdl__lane_reroute(struct rdl__lane *lane, int64_t now)
{
    rdl__assert_on_loop(lane->node->loop);
    attend(lane, now);
}

/* @locks mu */
static bool idle(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return rdl__list_empty(&lane->queued) && !rdl__lane_unanswered(lane) && !rdl__lane_out_pending(lane);
}

void rdl__lane_on_demand(struct rdl__lane *lane, bool on_demand, int64_t now)
{
    bool unused;

    rdl__assert_on_loop(lane->node->loop);
    rdl__mutex_lock(&lane->mu);
    lane->on_demand = on_demand;
    unused = on_demand && idle(lane);
    if (unused && lane->live != NULL && lane->role != RDL__ROLE_CALLER && !lane->writing)
        break_live(lane, "it was not used");
    rdl__mutex_unlock(&lane->mu);
    if (unused)
        stop_making(lane);
    attend(lane, now);
}

/* @locks mu */
static void settle_all(struct rdl__lane *lane, struct rdl__link *list, struct rdl__link *wake)
{
    struct rdl__link *l;

    rdl__assert_locked(&lane->mu);
    while ((l = rdl__list_first(list)) != NULL)
        rdl__lane_settle(lane, rdl__container(l, struct rdl__req, link), RDL_ECLOSED, wake);
}

void rdl__lane_close(struct rdl__lane *lane, int64_t now)
{
    struct rdl__link wake;

    rdl__assert_on_loop(lane->node->loop);
    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    lane->closed = true;
    if (lane->live != NULL)
        end_live(lane, "the client is closed");
    rdl__lane_drop_kills(lane);
    settle_all(lane, &lane->sent, &wake);
    settle_all(lane, &lane->queued, &wake);
    rdl__mutex_unlock(&lane->mu);
    rdl__lane_wake(&wake, NULL);
    rdl__loop_timer_off(lane->node->loop, &lane->silence);
    rdl__loop_timer_off(lane->node->loop, &lane->tend);
    stop_making(lane);
    attend(lane, now);
}
