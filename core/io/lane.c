/* SPDX-License-Identifier: MIT */
/* lane.c - the queue: requests wait to be encoded, then for their replies, in order.
 *
 * Writing and reading are separate. Any thread may write: one that finds `writing` clear encodes and sends all that is
 * queued, without the mutex during the system call, until nothing is left. (When a caller leaves that to another one is
 * said in lane_callers.c.) No thread blocks in a write: when the socket is full the rest stays in `out`, and the
 * reader, which drains the other direction, goes on with it. A failed write only shuts the socket down; the reader then
 * finds the connection broken. Reading is a role (lane_callers.c).
 *
 * Replies are matched to requests by their order. Replies to given up requests are counted (`skip` of the next request,
 * `tail_skip` behind the last) and skipped.
 *
 * A caller may time out in the instant in which its request is settled. So `state` is changed under the mutex before
 * RDL__POST_SETTLED is posted, and a caller that finds its request settled waits for that bit: until then the settling
 * thread may still touch the request.
 */
#include "core/io/lane_inner.h"

#define OUT_ROOM 1024  /* the least size of `out` */
#define OUT_KEPT 65536 /* and the most that it keeps when all is sent */

/* ---- settling --------------------------------------------------------------------------------------------------- */

void rdl__lane_settle(struct rdl__lane *lane, struct rdl__req *req, int rc, struct rdl__link *wake)
{
    rdl__assert_locked(&lane->mu);
    rdl__list_remove(&req->link);
    req->state = RDL__REQ_SETTLED;
    req->rc = rc;
    if (rdl__req_loops(req)) {
        lane->loop_count--;
        rdl__list_push_back(&lane->settled, &req->link);
        if (lane->role == RDL__ROLE_CALLER) /* a caller has read the reply, but ops->done runs on the loop */
            rdl__loop_post(lane->node->loop, &lane->attend);
        return;
    }
    if (rdl__req_detached(req)) {
        lane->detached_count--;
        lane->tended = lane->tended && lane->detached_count > 0;
    }
    rdl__list_push_back(wake, &req->link);
}

/* A request may be gone once its bit is posted, so it is taken off the list first. */
void rdl__lane_wake(struct rdl__link *wake, const struct rdl__req *self)
{
    struct rdl__wakes wakes;
    struct rdl__link *l;

    wakes.n = 0;
    while ((l = rdl__list_pop(wake)) != NULL) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        if (rdl__req_detached(req))
            req->ops->detached(req);
        else if (req == self)
            rdl__parker_mark(&req->park, RDL__POST_SETTLED);
        else
            rdl__parker_post_with(&req->park, RDL__POST_SETTLED, &wakes);
    }
    rdl__wakes_send(&wakes);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void put_asking(struct rdl__buf *to)
{
    rdl__cmd_begin(to, 1);
    rdl__cmd_str(to, "ASKING");
}

/* A timer's `now` may be older than what a caller has noted. */
static void note_sound(struct rdl__lane *lane, int64_t now)
{
    rdl__assert_locked(&lane->mu);
    if (lane->silent_since < now)
        lane->silent_since = now;
}

/* Move what is queued into `out`. Without memory for more the rest waits until `out` is empty.  @thread the writer
 * @locks mu */
static void encode_queued(struct rdl__lane *lane, int64_t now, struct rdl__link *wake)
{
    rdl__assert_locked(&lane->mu);
    rdl__buf_drop_sent(&lane->out, &lane->out_sent);
    while (!rdl__list_empty(&lane->queued)) {
        struct rdl__req *req = rdl__container(lane->queued.next, struct rdl__req, link);
        size_t before = lane->out.len;

        if (req->asking)
            put_asking(&lane->out);
        req->owed = 1 + req->ops->more;
        req->ops->encode(req, &lane->out, req->eval);
        if (rdl__buf_failed(&lane->out)) {
            rdl__buf_cut(&lane->out, before);
            if (before > 0)
                return;
            rdl__lane_settle(lane, req, RDL_ENOMEM, wake);
            continue;
        }
        if (!rdl__lane_unanswered(lane))
            note_sound(lane, now);
        req->sent_at = now;
        req->state = RDL__REQ_SENT;
        req->skip += lane->tail_skip + (req->asking ? 1 : 0);
        lane->tail_skip = 0;
        rdl__list_remove(&req->link);
        rdl__list_push_back(&lane->sent, &req->link);
    }
}

/* A buffer that has grown above OUT_KEPT is replaced by a small one, if there is memory for that. */
void rdl__lane_empty_out(struct rdl__lane *lane)
{
    struct rdl__buf small;

    rdl__assert_locked(&lane->mu);
    rdl__buf_cut(&lane->out, 0);
    lane->out_sent = 0;
    if (lane->out.cap <= OUT_KEPT)
        return;
    rdl__buf_init(&small, lane->out.mem);
    if (!rdl__buf_reserve(&small, OUT_ROOM))
        return;
    rdl__buf_done(&lane->out);
    lane->out = small;
}

bool rdl__lane_make_room(struct rdl__lane *lane)
{
    bool room;

    rdl__assert_locked(&lane->mu);
    room = rdl__buf_reserve(&lane->out, OUT_ROOM);
    if (!room)
        rdl__buf_cut(&lane->out, lane->out.len);
    return room;
}

void rdl__lane_flush(struct rdl__lane *lane, const struct rdl__req *self, int64_t now)
{
    struct rdl__lane_conn *lc = lane->live;
    struct rdl__link wake;

    rdl__assert_locked(&lane->mu);
    if (lane->writing || lc == NULL)
        return;
    rdl__list_init(&wake);
    lane->writing = true;
    while (lane->live == lc && (rdl__lane_out_pending(lane) || !rdl__list_empty(&lane->queued))) {
        ssize_t n;

        encode_queued(lane, now != 0 ? now : rdl__now(), &wake);
        now = 0;
        rdl__mutex_unlock(&lane->mu);
        if (!rdl__list_empty(&wake))
            rdl__lane_wake(&wake, self);
        n = rdl__lane_out_pending(lane)
                ? rdl__conn_send(&lc->conn, lane->out.data + lane->out_sent, lane->out.len - lane->out_sent)
                : 0;
        if (n < 0)
            rdl__sock_shutdown(&lc->conn.sock);
        rdl__mutex_lock(&lane->mu);
        if (n <= 0)
            break;
        lane->out_sent += (size_t)n;
        if (lane->out_sent == lane->out.len)
            rdl__lane_empty_out(lane);
    }
    lane->writing = false;
    if (lane->live != lc) { /* it broke meanwhile: what was encoded is back in `queued` */
        rdl__lane_empty_out(lane);
        rdl__loop_post(lane->node->loop, &lane->attend);
    } else if (rdl__lane_out_pending(lane) && lane->role == RDL__ROLE_LOOP && !rdl__loop_here(lane->node->loop)) {
        rdl__loop_post(lane->node->loop, &lane->attend); /* to wait until the socket has room */
    }
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Skip so many replies before that to `next`, a link of `sent`, or its head.  @locks mu */
static void pass_over(struct rdl__lane *lane, struct rdl__link *next, uint32_t replies)
{
    rdl__assert_locked(&lane->mu);
    if (next != &lane->sent)
        rdl__container(next, struct rdl__req, link)->skip += replies;
    else
        lane->tail_skip += replies;
}

/* Give one reply to the first request of `sent`, or skip it. False: close the connection, because there is no request
 * for the reply, or the server is a replica.  @thread the reader  @locks mu */
static bool hand_out(struct rdl__lane *lane, const struct rdl__reply *reply, int64_t now, struct rdl__link *wake)
{
    struct rdl__link *l = rdl__list_first(&lane->sent);
    struct rdl__req *req;

    rdl__assert_locked(&lane->mu);
    if (reply->push)
        return true;
    if (l == NULL) {
        if (lane->tail_skip == 0)
            return false;
        lane->tail_skip--;
        return true;
    }
    req = rdl__container(l, struct rdl__req, link);
    if (req->skip > 0) {
        req->skip--;
        return true;
    }
    if (lane->node->finder != NULL && (rdl__reply_is_error(reply, "READONLY") ||
                                       rdl__reply_is_error(reply, "MASTERDOWN"))) { /* it is a replica now */
        lane->live->refused = true;
        return false;
    }
    req->owed--;
    if (!req->eval && rdl__reply_is_error(reply, "NOSCRIPT")) { /* it did not run: send it with its text */
        pass_over(lane, l->next, req->owed);
        req->eval = true;
        req->state = RDL__REQ_QUEUED;
        rdl__list_remove(l);
        rdl__list_push_back(&lane->queued, l);
        return true;
    }
    req->ops->decode(req, reply, now);
    if (req->owed == 0)
        rdl__lane_settle(lane, req, RDL_OK, wake);
    return true;
}

static const char unasked[] = "a reply that nobody asked for";

/* `len` bytes were received into `recv`: hand out every whole reply. NULL, or an error text.  @thread the reader
 * @locks mu */
static const char *take_bytes(struct rdl__lane *lane, size_t len, int64_t now, struct rdl__link *wake)
{
    struct rdl__reader *reader = lane->live->conn.reader;
    const struct rdl__reply *reply;
    const char *at = lane->recv, *end = at + len;

    rdl__assert_locked(&lane->mu);
    note_sound(lane, now);
    while (at < end && rdl__reader_integer(reader, &at, end, &reply))
        if (!hand_out(lane, reply, now, wake))
            return unasked;
    if (at == end)
        return NULL;
    if (rdl__reader_feed(reader, at, (size_t)(end - at)) < 0)
        return rdl__reader_why(reader);
    for (;;) {
        if (rdl__reader_next(reader, &reply) < 0)
            return rdl__reader_why(reader);
        if (reply == NULL)
            return NULL;
        if (!hand_out(lane, reply, now, wake))
            return lane->live->refused ? reply->str : unasked;
    }
}

int64_t rdl__lane_stalls_at(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    if (lane->live == NULL || !rdl__lane_unanswered(lane))
        return RDL__NEVER;
    return rdl__after_ms(lane->silent_since,
                         2 * lane->node->config.command_timeout_ms + (lane->had_more ? RDL__LANE_MORE_MS : 0));
}

const char *rdl__lane_received(struct rdl__lane *lane, ssize_t n, int64_t at, struct rdl__link *wake)
{
    rdl__assert_locked(&lane->mu);
    if (n > 0)
        return take_bytes(lane, (size_t)n, at, wake);
    if (n < 0)
        return rdl__conn_why(&lane->live->conn, n);
    return at >= rdl__lane_stalls_at(lane) ? "the server does not answer" : NULL;
}

/* ---- giving up -------------------------------------------------------------------------------------------------- */

enum rdl__outcome rdl__lane_drop(struct rdl__lane *lane, struct rdl__req *req, const struct rdl__req_ops *successor,
                                 enum rdl__successor_mode mode)
{
    bool on_wire = req->state == RDL__REQ_SENT;
    bool unsure = on_wire || req->resent;
    bool in_place = successor != NULL && (mode == RDL__SUCCESSOR_REPLACES || (unsure && !on_wire));

    rdl__assert_locked(&lane->mu);
    if (req->state == RDL__REQ_SETTLED)
        return RDL__SETTLED;
    if (rdl__req_loops(req))
        lane->loop_count--;
    if (!in_place) {
        if (on_wire)
            pass_over(lane, req->link.next, req->skip + req->owed);
        rdl__list_remove(&req->link);
        req->state = RDL__REQ_IDLE;
        req->skip = 0;
    }
    if (in_place || (successor != NULL && unsure)) {
        req->ops = successor;
        req->eval = false;
    }
    if (in_place) {
        lane->loop_count++;
    } else if (successor != NULL && unsure) {
        req->asking = false; /* the server will redirect it if need be */
        rdl__lane_enqueue(lane, req);
    }
    return unsure ? RDL__UNSURE : RDL__UNSENT;
}

/* ---- lane.h ----------------------------------------------------------------------------------------------------- */

struct rdl__lane *rdl__lane_new(struct rdl__node *node, bool kept_up)
{
    struct rdl__lane *lane = rdl__zalloc(node->mem, sizeof *lane);

    if (lane == NULL)
        return NULL;
    if (rdl__mutex_init(&lane->mu) < 0) {
        rdl__free(node->mem, lane, sizeof *lane);
        return NULL;
    }
    lane->node = node;
    lane->kept_up = kept_up;
    lane->role = RDL__ROLE_LOOP;
    rdl__list_init(&lane->queued);
    rdl__list_init(&lane->sent);
    rdl__list_init(&lane->settled);
    rdl__list_init(&lane->broken);
    rdl__list_init(&lane->severed);
    rdl__buf_init(&lane->out, node->mem);
    rdl__lane_init_loop(lane);
    return lane;
}

void rdl__lane_on_event(struct rdl__lane *lane, void (*fn)(void *, enum rdl__lane_event, int64_t), void *arg)
{
    lane->on_event = fn;
    lane->on_event_arg = arg;
}

bool rdl__lane_quiet(struct rdl__lane *lane)
{
    bool quiet;

    rdl__mutex_lock(&lane->mu);
    quiet = lane->closed && lane->role != RDL__ROLE_CALLER && !lane->writing && rdl__list_empty(&lane->broken);
    rdl__mutex_unlock(&lane->mu);
    return quiet;
}

struct rdl__lane *rdl__lane_free(struct rdl__lane *lane)
{
    struct rdl__link *l;

    if (lane == NULL)
        return NULL;
    if (lane->live != NULL)
        rdl__lane_conn_free(lane->live);
    while ((l = rdl__list_pop(&lane->broken)) != NULL)
        rdl__lane_conn_free(rdl__container(l, struct rdl__lane_conn, link));
    while ((l = rdl__list_pop(&lane->severed)) != NULL)
        rdl__lane_conn_free(rdl__container(l, struct rdl__lane_conn, link));
    rdl__buf_done(&lane->out);
    rdl__mutex_done(&lane->mu);
    rdl__free(lane->node->mem, lane, sizeof *lane);
    return NULL;
}

void rdl__lane_submit(struct rdl__lane *lane, struct rdl__req *req)
{
    rdl__assert_on_loop(lane->node->loop);
    rdl__mutex_lock(&lane->mu);
    if (lane->closed) {
        req->state = RDL__REQ_SETTLED;
        req->rc = RDL_ECLOSED;
        rdl__list_push_back(&lane->settled, &req->link);
    } else {
        rdl__lane_enqueue(lane, req);
    }
    rdl__mutex_unlock(&lane->mu);
    rdl__loop_later(lane->node->loop, &lane->flush_later);
}

enum rdl__outcome rdl__lane_give_up(struct rdl__lane *lane, struct rdl__req *req, const struct rdl__req_ops *successor,
                                    enum rdl__successor_mode mode)
{
    enum rdl__outcome outcome;

    rdl__assert_on_loop(lane->node->loop);
    rdl__mutex_lock(&lane->mu);
    outcome = rdl__lane_drop(lane, req, successor, mode);
    rdl__mutex_unlock(&lane->mu);
    rdl__loop_later(lane->node->loop, &lane->flush_later);
    return outcome;
}

bool rdl__lane_up(struct rdl__lane *lane)
{
    bool up;

    rdl__mutex_lock(&lane->mu);
    up = lane->live != NULL;
    rdl__mutex_unlock(&lane->mu);
    return up;
}
