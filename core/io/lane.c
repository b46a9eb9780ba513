/* lane.c - combining callers, the loop's part, and doubts.
 *
 * Two lists hold the requests: `queued` (to be encoded) and `sent` (in the order in which replies will come). Each is
 * on one of them under `mu`. A request given up leaves no placeholder, only a count on its successor of replies to pass
 * over.
 *
 * Roles. The reader is a calling thread (CALLER: the leader), the loop (LOOP), or nobody (NONE: nothing is awaited).
 * Only the reader receives, parses, and declares a connection broken. Anybody may write: whoever finds `writing` clear
 * encodes and sends everything queued, without mu during the system call, until nothing is left. A failed write only
 * shuts the socket down; the reader finds out.
 *
 *   NONE -> CALLER   a caller with a request finds nobody reading
 *   CALLER -> CALLER the leader's answer came and other callers wait: RDL__POST_LEAD to the first
 *   CALLER -> LOOP   requests of the loop's are left, or the connection broke
 *   CALLER -> NONE   nothing is left
 *   (one thread may be the leader of several lanes, with a request on each: a fan)
 *   LOOP -> CALLER, NONE   the loop's requests are answered (never on a lane that is kept up)
 *
 * The traps: a caller may time out in the instant in which it is settled or made leader. So `state` is changed under mu
 * before the bit is posted, and nobody whose request was settled leaves before it has seen RDL__POST_SETTLED: until
 * then the settler may still touch the request. Nobody blocks in a write: when the socket is full the rest waits in
 * `out`, and the reader, who drains the other direction, goes on with it.
 *
 * A broken connection is closed by the loop, never by the thread that noticed: another may be writing to its
 * descriptor. The loop waits for that writer, and begins no new connection before: only who has left can have sent
 * nothing that the KILLs of the new one do not cover (protocol.md, 3).
 */
#include "core/io/lane.h"

#include "core/base/err.h"
#include "core/io/conn.h"

#include <errno.h>
#include <string.h>

#define RECV_SIZE RDL__CONN_RECV
#define MEMORY_PAUSE (50 * RDL__MS)
#define OUT_ROOM 1024  /* at least, for what is to be sent, */
#define OUT_KEPT 65536 /* and at most, once it is sent */
#define OTHER_RUNS 16  /* severed lines of runs of the server other than the present one, at most */

enum role { ROLE_LOOP, ROLE_NONE, ROLE_CALLER };

/* A connection of a lane, kept after its end for as long as the server must be told to forget it. */
struct line {
    struct rdl__conn conn;
    struct rdl__lane *lane;
    struct rdl__link link; /* on the lane's broken or severed list */
    struct rdl__req kill;
    bool owed;    /* something sent on it was unanswered when it broke */
    bool refused; /* the server does not play the node's part */
};

struct rdl__lane {
    /* immutable */
    struct rdl__node *node;
    bool kept_up;
    void (*on_news)(void *arg, enum rdl__lane_news news, int64_t now);
    void *on_news_arg;

    /* any thread, under mu */
    struct rdl__mutex mu;
    bool closed;
    bool on_demand; /* it connects when it is used, even if it is kept up otherwise */
    bool wanted;    /* somebody would have used it, had it been connected */
    bool writing;   /* somebody is in the writing loop */
    bool reading;   /* the leader is in recv, or about to be */
    enum role role;
    struct rdl__req *leader;
    struct line *line; /* NULL: down */
    struct rdl__link queued;
    struct rdl__link sent;
    uint32_t tail_skip;  /* replies to pass over after the last of `sent` */
    unsigned loop_owed;  /* requests on the lists that the loop answers for */
    struct rdl__buf out; /* encoded; the first out_sent bytes are gone. The writer's alone while `writing` */
    size_t out_sent;
    int64_t heard_at;         /* bytes came */
    struct rdl__link settled; /* the loop's, waiting for ops->done */
    struct rdl__link broken;  /* lines to be closed */

    /* loop thread only */
    struct line *making;      /* being connected */
    struct rdl__link severed; /* closed lines whose KILL is unanswered, the last ones last; each can be killed */
    struct rdl__task attend;
    struct rdl__task flush_later;
    struct rdl__timer stall; /* the server has been silent too long */
    struct rdl__timer memory_retry;
    struct rdl__timer silence; /* nothing was heard for ping_interval_ms */
    struct rdl__req ping;
    bool connected_once;
    char run_id[sizeof((struct rdl__conn *)NULL)->run_id]; /* of the server, when it was last connected */
    bool told_up;                                          /* the last news was RDL__LANE_UP */

    char recv[RECV_SIZE]; /* the reader's */
};

static const struct rdl__conn_ops conn_ops;
static const struct rdl__req_ops kill_ops;
static const struct rdl__req_ops ping_ops;

/* ---- settling --------------------------------------------------------------------------------------------------- */

static bool blocking(const struct rdl__req *req)
{
    return req->ops->done == NULL;
}

/* @locks mu */
static void enqueue(struct rdl__lane *lane, struct rdl__req *req)
{
    rdl__assert_locked(&lane->mu);
    req->state = RDL__REQ_QUEUED;
    rdl__list_push_back(&lane->queued, &req->link);
    if (!blocking(req))
        lane->loop_owed++;
}

/* Take a request off its list as settled. Blocking ones are collected in `wake`, for after mu.  @locks mu */
static void settle(struct rdl__lane *lane, struct rdl__req *req, int rc, struct rdl__link *wake)
{
    rdl__assert_locked(&lane->mu);
    rdl__list_remove(&req->link);
    req->state = RDL__REQ_SETTLED;
    req->rc = rc;
    if (blocking(req)) {
        rdl__list_push_back(wake, &req->link);
    } else {
        lane->loop_owed--;
        rdl__list_push_back(&lane->settled, &req->link);
        if (lane->role == ROLE_CALLER) /* who reads for the loop as well, and then leaves nothing behind for it */
            rdl__loop_post(lane->node->loop, &lane->attend);
    }
}

/* Nothing of a request may be touched once its bit is posted, so it is off the list first. `self`: the caller's own,
 * which needs no waking. */
static void wake_all(struct rdl__link *wake, const struct rdl__req *self)
{
    struct rdl__link *l;

    while ((l = rdl__list_pop(wake)) != NULL) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        if (req == self)
            rdl__parker_mark(&req->park, RDL__POST_SETTLED);
        else
            rdl__parker_post(&req->park, RDL__POST_SETTLED);
    }
}

/* @thread loop  @locks none */
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

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void put_asking(struct rdl__buf *to)
{
    rdl__cmd_begin(to, 1);
    rdl__cmd_str(to, "ASKING");
}

/* Move what is queued into `out`; what `out` cannot be made longer for waits until it is empty.  @locks mu, writing */
static void encode_queued(struct rdl__lane *lane, int64_t now, struct rdl__link *wake)
{
    struct rdl__link *l;

    rdl__assert_locked(&lane->mu);
    while ((l = rdl__list_first(&lane->queued)) != NULL) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);
        size_t before = lane->out.len;

        if (req->asking)
            put_asking(&lane->out);
        req->owed = 1 + req->ops->more;
        req->ops->encode(req, &lane->out, req->eval);
        if (rdl__buf_failed(&lane->out)) {
            rdl__buf_cut(&lane->out, before);
            if (before > 0)
                return;
            settle(lane, req, RDL_ENOMEM, wake);
            continue;
        }
        req->sent_at = now;
        req->state = RDL__REQ_SENT;
        req->skip += lane->tail_skip + (req->asking ? 1 : 0);
        lane->tail_skip = 0;
        rdl__list_remove(l);
        rdl__list_push_back(&lane->sent, l);
    }
}

/* Nothing in `out` is to be sent any more. What it has grown to for very many requests at once is given back, if there
 * is memory for a small one.  @locks mu; nobody is writing, or the caller is */
static void empty_out(struct rdl__lane *lane)
{
    struct rdl__buf small;

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

static bool out_pending(const struct rdl__lane *lane)
{
    return lane->out_sent < lane->out.len;
}

/* Encode and send everything there is, unless somebody is at it. `now`: no later than the present; 0: the clock is read
 * when there is something to encode.  @locks mu, released around the system call and around waking; held again on
 * return */
static void flush(struct rdl__lane *lane, const struct rdl__req *self, int64_t now)
{
    struct line *line = lane->line;
    struct rdl__link wake;

    rdl__assert_locked(&lane->mu);
    if (lane->writing || line == NULL)
        return;
    rdl__list_init(&wake);
    lane->writing = true;
    while (lane->line == line && (out_pending(lane) || !rdl__list_empty(&lane->queued))) {
        ssize_t n;

        if (!rdl__list_empty(&lane->queued))
            encode_queued(lane, now != 0 ? now : rdl__now(), &wake);
        now = 0;
        rdl__mutex_unlock(&lane->mu);
        wake_all(&wake, self);
        n = out_pending(lane)
                ? rdl__conn_send(&line->conn, lane->out.data + lane->out_sent, lane->out.len - lane->out_sent)
                : 0;
        if (n < 0)
            rdl__sock_shutdown(&line->conn.sock);
        rdl__mutex_lock(&lane->mu);
        if (n <= 0)
            break;
        lane->out_sent += (size_t)n;
        if (lane->out_sent == lane->out.len)
            empty_out(lane);
    }
    lane->writing = false;
    if (lane->line != line) { /* broke meanwhile: what was encoded is on its way back to `queued` */
        empty_out(lane);
        rdl__loop_post(lane->node->loop, &lane->attend);
    } else if (out_pending(lane) && lane->role == ROLE_LOOP && !rdl__loop_here(lane->node->loop)) {
        rdl__loop_post(lane->node->loop, &lane->attend); /* to wait until the socket has room */
    }
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Replies will come that nobody waits for, behind those of the request before `next`.  @locks mu */
static void pass_over(struct rdl__lane *lane, struct rdl__link *next, uint32_t replies)
{
    rdl__assert_locked(&lane->mu);
    if (next != &lane->sent)
        rdl__container(next, struct rdl__req, link)->skip += replies;
    else
        lane->tail_skip += replies;
}

/* One reply, for the first request that was sent, unless it belongs to one given up. False: the connection is of no
 * use, for nobody asked for it, or because the reply says so.  @locks mu */
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
    if (lane->node->finder != NULL &&
        (rdl__reply_is_error(reply, "READONLY") || rdl__reply_is_error(reply, "MASTERDOWN"))) { /* a replica by now */
        lane->line->refused = true;
        return false;
    }
    req->owed--;
    if (!req->eval && rdl__reply_is_error(reply, "NOSCRIPT")) { /* proves that it did not run: send it with its text */
        pass_over(lane, l->next, req->owed);
        req->eval = true;
        req->state = RDL__REQ_QUEUED;
        rdl__list_remove(l);
        rdl__list_push_back(&lane->queued, l);
        return true;
    }
    req->ops->decode(req, reply, now);
    if (req->owed == 0)
        settle(lane, req, RDL_OK, wake);
    return true;
}

static const char unasked[] = "a reply that nobody asked for";

/* Bytes have come: hand out every whole reply. NULL, or what is wrong with them.  @locks mu */
static const char *take_bytes(struct rdl__lane *lane, size_t len, int64_t now, struct rdl__link *wake)
{
    struct rdl__reader *reader = lane->line->conn.reader;
    const struct rdl__reply *reply;
    const char *at = lane->recv, *end = at + len;

    lane->heard_at = now;
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
            return lane->line->refused ? reply->str : unasked;
    }
}

/* ---- broken connections ----------------------------------------------------------------------------------------- */

static bool idle(const struct rdl__lane *lane)
{
    return rdl__list_empty(&lane->queued) && rdl__list_empty(&lane->sent) && lane->tail_skip == 0 && !out_pending(lane);
}

/* KILLs are made anew for the next connection.  @locks mu */
static void drop_kills(struct rdl__lane *lane, struct rdl__link *list)
{
    struct rdl__link *next;

    rdl__assert_locked(&lane->mu);
    for (struct rdl__link *l = list->next; l != list; l = next) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        next = l->next;
        if (req->ops == &kill_ops) {
            rdl__list_remove(l);
            req->state = RDL__REQ_IDLE;
            lane->loop_owed--;
        }
    }
}

/* The connection is broken: what was sent is in doubt and will be repeated. The loop takes over.  @locks mu; the reader
 */
static void sever(struct rdl__lane *lane, const char *why)
{
    struct line *line = lane->line;
    char server[sizeof lane->node->place];

    rdl__assert_locked(&lane->mu);
    rdl__sock_shutdown(&line->conn.sock);
    drop_kills(lane,
               &lane->sent); /* a KILL may come late: what it names is never used again by that run of the server */
    drop_kills(lane, &lane->queued);
    line->owed = !rdl__list_empty(&lane->sent) || lane->tail_skip > 0;
    rdl__list_push_back(&lane->broken, &line->link);
    lane->line = NULL;
    for (struct rdl__link *l = lane->sent.next; l != &lane->sent; l = l->next) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        req->skip = 0;
        req->resent = true;
        req->state = RDL__REQ_QUEUED;
    }
    rdl__list_splice_front(&lane->queued, &lane->sent);
    lane->tail_skip = 0;
    if (!lane->writing)
        empty_out(lane);
    lane->role = ROLE_LOOP;
    lane->leader = NULL;
    rdl__node_server(lane->node, server, sizeof server);
    rdl__mutex_lock(&lane->node->mu);
    (void)rdl__err_set(&lane->node->last_error, RDL_ECONN, "%s: connection lost: %s", server, why);
    rdl__err_where(&lane->node->last_error, server, NULL, 0);
    rdl__mutex_unlock(&lane->node->mu);
    rdl__loop_post(lane->node->loop, &lane->attend);
}

/* ---- callers ---------------------------------------------------------------------------------------------------- */

/* @locks mu */
static void give_to_loop(struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    if (lane->role != ROLE_LOOP)
        rdl__loop_post(lane->node->loop, &lane->attend);
    lane->role = ROLE_LOOP;
    lane->leader = NULL;
}

/* The reader has nothing more to do for itself: who goes on? The loop, when it has requests there, or only replies to
 * pass over are left.  @locks mu */
static void pass_role(struct rdl__lane *lane)
{
    struct rdl__link *first = rdl__list_first(rdl__list_empty(&lane->sent) ? &lane->queued : &lane->sent);

    rdl__assert_locked(&lane->mu);
    if (lane->line == NULL || lane->closed || lane->loop_owed > 0) {
        give_to_loop(lane);
    } else if (first != NULL) {
        lane->role = ROLE_CALLER;
        lane->leader = rdl__container(first, struct rdl__req, link);
        rdl__parker_post(&lane->leader->park, RDL__POST_LEAD);
    } else if (lane->tail_skip == 0 && !out_pending(lane)) {
        lane->role = ROLE_NONE;
        lane->leader = NULL;
    } else {
        give_to_loop(lane);
    }
}

/* May its sender look for the answer? Nobody else waits for anything here, nor another thread for anything of this
 * node.
 * @locks mu */
static bool may_look(const struct rdl__lane *lane, const struct rdl__req *self)
{
    rdl__assert_locked(&lane->mu);
    return lane->node->config.poll_ns > 0 && atomic_load_explicit(&lane->node->callers, memory_order_relaxed) <= 1 &&
           lane->sent.next == &self->link && lane->sent.prev == &self->link && rdl__list_empty(&lane->queued);
}

/* Look for the answer before sleeping, where that pays. 0: it has not come.  @locks none */
static ssize_t look(struct rdl__lane *lane, struct line *line, struct rdl__busypoll *account, int64_t now,
                    int64_t deadline)
{
    struct rdl__node *node = lane->node;
    int64_t most = node->config.poll_ns, began = now, idle = 0;
    ssize_t n;

    if (most > deadline - now)
        most = deadline - now;
    if (most <= 0 || atomic_exchange_explicit(&node->polling, true, memory_order_acquire))
        return 0;
    n = rdl__conn_recv(&line->conn, lane->recv, RECV_SIZE, now, now);
    if (n != 0) { /* it was there already, perhaps because the server took the core: no gain, and no loss */
        atomic_store_explicit(&node->polling, false, memory_order_release);
        return n;
    }
    n = rdl__conn_poll(&line->conn, lane->recv, RECV_SIZE, &now, most, &idle);
    if (n == 0 || atomic_load_explicit(&node->callers, memory_order_relaxed) > 1)
        rdl__busypoll_wasted(account, now - began);
    else
        rdl__busypoll_found(account, now - began);
    if (idle > 0)
        rdl__busypoll_kept(account, idle);
    atomic_store_explicit(&node->polling, false, memory_order_release);
    return n;
}

/* A lone caller has slept for its answer, which is what looking is measured by.  @locks none */
static void note_sleep(struct rdl__lane *lane, int64_t took)
{
    struct rdl__node *node = lane->node;

    if (!rdl__busypoll_notes(&node->caller_poll) ||
        atomic_exchange_explicit(&node->polling, true, memory_order_acquire))
        return;
    rdl__busypoll_slept(&node->caller_poll, took);
    atomic_store_explicit(&node->polling, false, memory_order_release);
}

static bool waited_enough(const struct rdl__req *req, int64_t now, int64_t deadline)
{
    return now >= deadline || (rdl__parker_peek(&req->park) & RDL__POST_CANCEL) != 0;
}

/* What the leader has received, or why it could not.  @locks mu */
static void leader_received(struct rdl__lane *lane, const struct rdl__req *leader, ssize_t n, int64_t now,
                            struct rdl__link *wake)
{
    const char *wrong = NULL;

    rdl__assert_locked(&lane->mu);
    lane->reading = false;
    if (n > 0)
        wrong = take_bytes(lane, (size_t)n, now, wake);
    else if (n < 0)
        wrong = rdl__conn_why(&lane->line->conn, n);
    if (wrong != NULL)
        sever(lane, wrong);
    else if (leader->state == RDL__REQ_SETTLED)
        pass_role(lane);
}

/* Write for all, read for all, until one's own request is settled or has waited long enough. The role is passed on only
 * in the first case, before the others are woken; else it is still the caller's on return, or the loop's if the
 * connection broke. While others are woken it may be taken away, and come back with another connection.
 * @locks mu, released while sending, receiving and waking */
static void lead(struct rdl__lane *lane, struct rdl__req *self, int64_t deadline)
{
    struct rdl__link wake;
    int64_t now = 0;

    rdl__assert_locked(&lane->mu);
    rdl__list_init(&wake);
    while (lane->leader == self && self->state != RDL__REQ_SETTLED &&
           (now == 0 || !waited_enough(self, now, deadline))) {
        struct line *line = lane->line;
        bool full, lone, looks;
        ssize_t n = 0;
        int64_t began;

        began = now = rdl__now();
        flush(lane, self, now);
        if (self->state == RDL__REQ_SETTLED)
            break;
        full = out_pending(lane) && !lane->writing;
        lone = !full && may_look(lane, self);
        looks = lone && rdl__busypoll_due(&lane->node->caller_poll);
        lane->reading = true;
        rdl__mutex_unlock(&lane->mu);
        if (full)
            rdl__sock_wait(&line->conn.sock, true, now, deadline);
        else if (looks)
            n = look(lane, line, &lane->node->caller_poll, now, deadline);
        if (n == 0)
            n = rdl__conn_recv(&line->conn, lane->recv, RECV_SIZE, now, full ? now : deadline);
        now = rdl__now();
        if (lone && !looks && n > 0)
            note_sleep(lane, now - began);
        rdl__mutex_lock(&lane->mu);
        leader_received(lane, self, n, now, &wake);
        if (wake.next == &self->link && wake.prev == &self->link) { /* as usual: nobody else's answer came */
            rdl__list_remove(&self->link);
            rdl__parker_mark(&self->park, RDL__POST_SETTLED);
        } else if (!rdl__list_empty(&wake)) {
            rdl__mutex_unlock(&lane->mu);
            wake_all(&wake, self);
            rdl__mutex_lock(&lane->mu);
        }
    }
}

/* @locks mu */
static enum rdl__outcome give_up(struct rdl__lane *lane, struct rdl__req *req, const struct rdl__req_ops *successor,
                                 enum rdl__successor_mode mode)
{
    bool on_wire = req->state == RDL__REQ_SENT;
    bool unsure = on_wire || req->resent;
    bool in_place = successor != NULL && (mode == RDL__SUCCESSOR_REPLACES || (unsure && !on_wire));

    rdl__assert_locked(&lane->mu);
    if (req->state == RDL__REQ_SETTLED)
        return RDL__ANSWERED;
    if (!blocking(req))
        lane->loop_owed--;
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
        lane->loop_owed++;
    } else if (successor != NULL && unsure) {
        req->asking = false; /* the server will say where it is to go */
        enqueue(lane, req);
    }
    return unsure ? RDL__UNSURE : RDL__UNSENT;
}

static enum rdl__outcome send_and_wait(struct rdl__lane *lane, struct rdl__req *req, int64_t deadline,
                                       const struct rdl__req_ops *successor, enum rdl__successor_mode mode)
{
    enum rdl__outcome outcome = RDL__ANSWERED;

    rdl__mutex_lock(&lane->mu);
    if (lane->closed) {
        rdl__mutex_unlock(&lane->mu);
        req->state = RDL__REQ_SETTLED;
        req->rc = RDL_ECLOSED;
        return RDL__ANSWERED;
    }
    enqueue(lane, req);
    if (lane->line == NULL)
        rdl__loop_post(lane->node->loop, &lane->attend);
    while (outcome == RDL__ANSWERED && req->state != RDL__REQ_SETTLED) {
        if (lane->role == ROLE_NONE || lane->leader == req) {
            lane->role = ROLE_CALLER;
            lane->leader = req;
            lead(lane, req, deadline);
        } else {
            uint32_t bits;

            rdl__parker_unmark(&req->park,
                               RDL__POST_LEAD); /* of a role that was taken away; flush may let a new one in */
            if (lane->role == ROLE_LOOP || lane->reading)
                flush(lane, req, rdl__now()); /* the reader is not about to write: do it oneself */
            rdl__mutex_unlock(&lane->mu);
            bits = rdl__park(&req->park, deadline);
            if ((bits & (RDL__POST_SETTLED | RDL__POST_LEAD)) == RDL__POST_SETTLED)
                return RDL__ANSWERED; /* with the role of leader one does not leave: it is passed on below */
            rdl__mutex_lock(&lane->mu);
        }
        if (req->state != RDL__REQ_SETTLED && waited_enough(req, rdl__now(), deadline))
            outcome = give_up(lane, req, successor, mode);
        if (lane->leader == req && (outcome != RDL__ANSWERED || req->state == RDL__REQ_SETTLED))
            pass_role(lane);
    }
    if (outcome != RDL__ANSWERED && lane->role == ROLE_LOOP)
        rdl__loop_post(lane->node->loop, &lane->attend);
    else if (outcome != RDL__ANSWERED && lane->reading)
        flush(lane, NULL, rdl__now()); /* the successor */
    rdl__mutex_unlock(&lane->mu);
    if (outcome == RDL__ANSWERED && (rdl__parker_peek(&req->park) & RDL__POST_SETTLED) == 0)
        (void)rdl__park_for(&req->park, RDL__POST_SETTLED, RDL__NEVER);
    return outcome;
}

enum rdl__outcome rdl__lane_call(struct rdl__lane *lane, struct rdl__req *req, int64_t deadline,
                                 const struct rdl__req_ops *successor, enum rdl__successor_mode mode)
{
    enum rdl__outcome outcome;

    atomic_fetch_add_explicit(&lane->node->callers, 1, memory_order_relaxed);
    outcome = send_and_wait(lane, req, deadline, successor, mode);
    atomic_fetch_sub_explicit(&lane->node->callers, 1, memory_order_relaxed);
    return outcome;
}

/* ---- several lanes at once -------------------------------------------------------------------------------------- */

static bool in_fan(const struct rdl__fan *fan, const struct rdl__req *req)
{
    for (unsigned i = 0; i < fan->n; i++)
        if (fan->at[i].req == req)
            return true;
    return false;
}

/* What TLS has decrypted ahead cannot be waited for with others.  @locks mu */
static bool can_lead(const struct rdl__fan *fan, const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return fan->n < RDL__FAN_MAX && !lane->closed && lane->line != NULL && lane->line->conn.tls == NULL &&
           (lane->role == ROLE_NONE || (lane->role == ROLE_CALLER && in_fan(fan, lane->leader)));
}

bool rdl__fan_send(struct rdl__fan *fan, struct rdl__lane *lane, struct rdl__req *req)
{
    bool sent;

    rdl__mutex_lock(&lane->mu);
    sent = can_lead(fan, lane);
    if (sent) {
        fan->at[fan->n].lane = lane;
        fan->at[fan->n++].req = req;
        enqueue(lane, req);
        lane->leader = lane->role == ROLE_NONE ? req : lane->leader;
        lane->role = ROLE_CALLER;
        atomic_fetch_add_explicit(&lane->node->callers, 1, memory_order_relaxed);
    } else if (lane->line == NULL && !lane->closed && !lane->wanted) {
        lane->wanted = true;
        rdl__loop_post(lane->node->loop, &lane->attend);
    }
    rdl__mutex_unlock(&lane->mu);
    return sent;
}

/* Its wakers' part for those that are in the fan, whose thread is awake. */
static void wake_others(const struct rdl__fan *fan, struct rdl__link *wake)
{
    struct rdl__link *next;

    for (struct rdl__link *l = wake->next; l != wake; l = next) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        next = l->next;
        if (!in_fan(fan, req))
            continue;
        rdl__list_remove(l);
        rdl__parker_mark(&req->park, RDL__POST_SETTLED);
    }
    wake_all(wake, NULL);
}

/* What has come on the lane that `leader` leads, or why nothing will any more. Nobody but the leader takes its line
 * away. */
static void read_lane(const struct rdl__fan *fan, struct rdl__lane *lane, const struct rdl__req *leader)
{
    int64_t now = rdl__now();
    ssize_t n = rdl__conn_recv(&lane->line->conn, lane->recv, RECV_SIZE, now, now);
    struct rdl__link wake;

    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    leader_received(lane, leader, n, now, &wake);
    rdl__mutex_unlock(&lane->mu);
    wake_others(fan, &wake);
}

/* A fan's lanes that are waited for: of those with several of its requests the leader's stands for all. */
struct reading {
    unsigned n;
    struct rdl__sock_wait waits[RDL__FAN_MAX];
    struct {
        struct rdl__lane *lane;
        struct rdl__req *leader;
    } of[RDL__FAN_MAX];
};

/* Write what is to be written for the i-th, and see to it that it is waited for. True: there is nothing to wait for. */
static bool leaves(struct rdl__fan *fan, unsigned i, struct reading *r, int64_t now)
{
    struct rdl__lane *lane = fan->at[i].lane;
    struct rdl__req *req = fan->at[i].req;
    bool led;

    rdl__mutex_lock(&lane->mu);
    if (lane->leader == req && req->state != RDL__REQ_SETTLED)
        flush(lane, req, now);
    led = req->state != RDL__REQ_SETTLED && lane->leader != NULL && in_fan(fan, lane->leader);
    if (led && lane->leader == req) {
        lane->reading = true;
        r->waits[r->n] =
            (struct rdl__sock_wait){.sock = &lane->line->conn.sock, .writable = out_pending(lane) && !lane->writing};
        r->of[r->n].lane = lane;
        r->of[r->n++].leader = req;
    }
    rdl__mutex_unlock(&lane->mu);
    return !led;
}

static void stop_reading(const struct reading *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        rdl__mutex_lock(&r->of[i].lane->mu);
        r->of[i].lane->reading = false;
        rdl__mutex_unlock(&r->of[i].lane->mu);
    }
}

int rdl__fan_wait(struct rdl__fan *fan, int64_t until)
{
    for (bool late = false;;) {
        struct reading r = {0};
        int64_t now = rdl__now();
        int leaver = -1;

        for (unsigned i = 0; i < fan->n; i++)
            if (leaves(fan, i, &r, now))
                leaver = (int)i;
        if (leaver >= 0 || late) {
            stop_reading(&r);
            return leaver;
        }
        late = now >= until;
        rdl__sock_wait_any(r.waits, r.n, now, until);
        for (unsigned i = 0; i < r.n; i++)
            if (r.waits[i].ready)
                read_lane(fan, r.of[i].lane, r.of[i].leader);
    }
}

bool rdl__fan_leave(struct rdl__fan *fan, unsigned i, const struct rdl__req_ops *ops, struct rdl__task *task)
{
    struct rdl__lane *lane = fan->at[i].lane;
    struct rdl__req *req = fan->at[i].req;
    bool settled;

    rdl__mutex_lock(&lane->mu);
    settled = req->state == RDL__REQ_SETTLED;
    if (!settled) {
        req->ops = ops;
        lane->loop_owed++;
        rdl__loop_post(lane->node->loop, task);
    }
    if (lane->leader == req)
        pass_role(lane);
    else if (!settled && lane->role == ROLE_LOOP)
        rdl__loop_post(lane->node->loop, &lane->attend);
    else if (!settled && lane->reading)
        flush(lane, NULL, rdl__now());
    atomic_fetch_sub_explicit(&lane->node->callers, 1, memory_order_relaxed);
    rdl__mutex_unlock(&lane->mu); /* what is the loop's may end from here on, and the lane with it */
    if (settled && (rdl__parker_peek(&req->park) & RDL__POST_SETTLED) == 0)
        (void)rdl__park_for(&req->park, RDL__POST_SETTLED, RDL__NEVER);
    fan->at[i] = fan->at[--fan->n];
    return settled;
}

/* ---- the loop's part -------------------------------------------------------------------------------------------- */

static void line_free(struct line *line)
{
    const struct rdl__mem *mem = line->lane->node->mem;

    rdl__conn_done(&line->conn);
    rdl__free(mem, line, sizeof *line);
}

/* Has the server said who it and we are? */
static bool can_be_killed(const struct line *line)
{
    return line->conn.id != 0 && line->conn.run_id[0] != '\0';
}

/* Close what broke; remember those whose requests may still run.  @thread loop  @locks mu */
static void close_broken(struct rdl__lane *lane, int64_t now)
{
    struct rdl__link *l;

    rdl__assert_on_loop(lane->node->loop);
    rdl__assert_locked(&lane->mu);
    if (lane->writing)
        return; /* the writer posts `attend` when it is out */
    while ((l = rdl__list_pop(&lane->broken)) != NULL) {
        struct line *line = rdl__container(l, struct line, link);

        rdl__conn_close(&line->conn);
        if (!lane->closed)
            rdl__node_broke(lane->node, line->conn.up_at, line->refused, now);
        if (line->owed && can_be_killed(line)) {
            rdl__list_push_back(&lane->severed, &line->link);
            continue;
        }
        if (line->owed)
            atomic_store(&lane->node->kill_refused, true);
        line_free(line);
    }
}

/* What was taken by way of one lane may be given back by way of another, and that must not fail for want of memory.
 * @locks mu; nobody is writing */
static bool has_room(struct rdl__lane *lane)
{
    bool room = rdl__buf_reserve(&lane->out, OUT_ROOM);

    rdl__assert_locked(&lane->mu);
    if (!room)
        rdl__buf_cut(&lane->out, lane->out.len);
    return room;
}

/* @locks mu */
static bool may_start(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return !lane->closed && lane->making == NULL && rdl__list_empty(&lane->broken);
}

/* Where something is to be killed, soon rather than before the next request: what is to be killed may still come.
 * @locks mu */
static bool wants_line(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return lane->wanted || !rdl__list_empty(&lane->queued) ||
           (!lane->on_demand && (lane->kept_up || !rdl__list_empty(&lane->severed)));
}

static void start_line(struct rdl__lane *lane, int64_t now)
{
    struct line *line = has_room(lane) ? rdl__zalloc(lane->node->mem, sizeof *line) : NULL;

    if (line == NULL) {
        rdl__loop_timer(lane->node->loop, &lane->memory_retry, now + MEMORY_PAUSE);
        return;
    }
    line->lane = lane;
    rdl__conn_init(&line->conn, lane->node, &conn_ops);
    rdl__list_init(&line->link);
    lane->making = line;
    rdl__conn_start(&line->conn, now);
}

static void watch_line(struct rdl__lane *lane)
{
    if (lane->line != NULL)
        rdl__conn_watch(
            &lane->line->conn,
            lane->role != ROLE_LOOP ? 0 : RDL__READABLE | (out_pending(lane) && !lane->writing ? RDL__WRITABLE : 0));
}

/* A server that is silent with requests outstanding is given up, so that they can be repeated elsewhere. */
static void watch_stall(struct rdl__lane *lane)
{
    if (lane->role == ROLE_LOOP && lane->line != NULL && !rdl__list_empty(&lane->sent)) {
        const struct rdl__req *first = rdl__container(lane->sent.next, struct rdl__req, link);

        rdl__loop_timer(lane->node->loop, &lane->stall,
                        rdl__after_ms(first->sent_at, 2 * lane->node->config.command_timeout_ms));
    } else {
        rdl__loop_timer_off(lane->node->loop, &lane->stall);
    }
}

/* Tell the owner, once, that the connection is gone.  @thread loop  @locks none */
static void report_down(struct rdl__lane *lane, bool wanted, int64_t now)
{
    rdl_err_t why;

    rdl__assert_on_loop(lane->node->loop);
    if (!lane->told_up)
        return;
    lane->told_up = false;
    if (!wanted && rdl__node_error(lane->node, RDL_ECONN, &why) < 0)
        rdl__log_again(lane->node->sinks, RDL_LOG_WARN, &lane->node->told, now, "%s", why.message);
    if (lane->on_news != NULL)
        lane->on_news(lane->on_news_arg, RDL__LANE_DOWN, now);
}

/* What the loop has received. n as of rdl__sock_recv, and not 0.  @locks mu */
static void loop_received(struct rdl__lane *lane, ssize_t n, int64_t now, struct rdl__link *wake)
{
    const char *wrong = n > 0 ? take_bytes(lane, (size_t)n, now, wake) : rdl__conn_why(&lane->line->conn, n);

    rdl__assert_locked(&lane->mu);
    if (wrong == NULL)
        return;
    rdl__conn_watch(&lane->line->conn, 0);
    sever(lane, wrong);
}

/* One request is under way, and the loop about to sleep until its answer comes: look for it first, as callers do,
 * unless one of them wants the core. A waiter that was woken has its lock sooner for it.  @locks mu, released while
 * looking */
static void look_on_loop(struct rdl__lane *lane)
{
    struct rdl__link *l = rdl__list_first(&lane->sent);
    struct line *line = lane->line;
    struct rdl__link wake;
    ssize_t n;

    rdl__assert_locked(&lane->mu);
    if (!lane->kept_up || atomic_load_explicit(&lane->node->callers, memory_order_relaxed) > 0)
        return;
    if (lane->role != ROLE_LOOP || line == NULL || l == NULL ||
        !may_look(lane, rdl__container(l, struct rdl__req, link)) || out_pending(lane) ||
        !rdl__busypoll_due(&lane->node->loop_poll))
        return;
    rdl__list_init(&wake);
    rdl__mutex_unlock(&lane->mu);
    n = look(lane, line, &lane->node->loop_poll, rdl__now(), RDL__NEVER);
    rdl__mutex_lock(&lane->mu);
    if (n != 0)
        loop_received(lane, n, rdl__now(), &wake);
    flush(lane, NULL, 0); /* a NOSCRIPT has put its request back into the queue */
    if (rdl__list_empty(&wake))
        return;
    rdl__mutex_unlock(&lane->mu);
    wake_all(&wake, NULL);
    rdl__mutex_lock(&lane->mu);
}

/* What another server has by now need not wait for this one. Blocking requests are collected in `wake`, for after
 * mu.  @locks mu */
static void shed(struct rdl__lane *lane, struct rdl__link *wake)
{
    struct rdl__link *next;

    rdl__assert_locked(&lane->mu);
    for (struct rdl__link *l = lane->queued.next; l != &lane->queued; l = next) {
        struct rdl__req *req = rdl__container(l, struct rdl__req, link);

        next = l->next;
        if (req->ops->misrouted != NULL && req->ops->misrouted(req))
            settle(lane, req, RDL__MISROUTED, wake);
    }
}

/* Everything that the loop owes this lane, whatever has changed.  @thread loop  @locks none */
static void attend(struct rdl__lane *lane, int64_t now)
{
    struct rdl__link wake;
    bool down, closed, on_demand;

    rdl__assert_on_loop(lane->node->loop);
    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    closed = lane->closed;
    on_demand = lane->on_demand;
    if (lane->role == ROLE_NONE && lane->loop_owed > 0)
        lane->role = ROLE_LOOP;
    if (lane->role == ROLE_LOOP && lane->line != NULL) {
        if (closed)
            sever(lane, "the client is closed");
        else
            flush(lane, NULL, now);
        look_on_loop(lane);
        if (lane->line != NULL && !lane->kept_up && lane->loop_owed == 0)
            pass_role(lane);
    } else if (lane->line != NULL &&
               lane->reading) { /* its leader is in recv: what the loop has submitted goes out now */
        flush(lane, NULL, now);
    }
    down = lane->line == NULL;
    if (down)
        shed(lane, &wake);
    close_broken(lane, now);
    watch_line(lane);
    watch_stall(lane);
    if (down && may_start(lane) && wants_line(lane))
        start_line(lane, now);
    rdl__mutex_unlock(&lane->mu);
    wake_all(&wake, NULL);
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

    rdl__mutex_lock(&lane->mu);
    if (lane->role == ROLE_LOOP && lane->line != NULL && !rdl__list_empty(&lane->sent)) {
        const struct rdl__req *first = rdl__container(lane->sent.next, struct rdl__req, link);

        if (now >= rdl__after_ms(first->sent_at, 2 * lane->node->config.command_timeout_ms)) {
            rdl__conn_watch(&lane->line->conn, 0);
            sever(lane, "the server does not answer");
        }
    }
    rdl__mutex_unlock(&lane->mu);
    attend(lane, now);
}

static void on_conn_ready(struct rdl__conn *conn, int events, int64_t now)
{
    struct line *line = rdl__container(conn, struct line, conn);
    struct rdl__lane *lane = line->lane;
    struct rdl__link wake;

    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    if (lane->line == line && lane->role == ROLE_LOOP && (events & RDL__READABLE)) {
        ssize_t n = rdl__conn_recv(conn, lane->recv, RECV_SIZE, now, now);

        if (n != 0)
            loop_received(lane, n, now, &wake);
    }
    rdl__mutex_unlock(&lane->mu);
    wake_all(&wake, NULL);
    run_settled(lane, now);
    rdl__loop_later(lane->node->loop, &lane->flush_later);
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

/* A connection that died in silence should be found by a ping, not by the next lock call; `stall` judges the answer. */
static void on_silence(struct rdl__timer *timer, int64_t now)
{
    struct rdl__lane *lane = rdl__container(timer, struct rdl__lane, silence);
    int64_t due;
    bool up;

    rdl__mutex_lock(&lane->mu);
    up = lane->line != NULL;
    due = rdl__after_ms(lane->heard_at, lane->node->config.ping_interval_ms);
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

/* ---- CLIENT KILL ------------------------------------------------------------------------------------------------ */

static void encode_kill(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    const struct line *line = rdl__container(req, struct line, kill);

    (void)eval;
    rdl__cmd_begin(to, 6);
    rdl__cmd_str(to, "CLIENT");
    rdl__cmd_str(to, "KILL");
    rdl__cmd_str(to, "ID");
    rdl__cmd_int(to, line->conn.id);
    rdl__cmd_str(to, "ADDR");
    rdl__cmd_str(to, line->conn.addr);
}

static void decode_kill(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    const struct line *line = rdl__container(req, struct line, kill);

    (void)now;
    if (reply->type == RDL__REPLY_ERROR)
        atomic_store(&line->lane->node->kill_refused, true);
}

/* @locks mu */
static void queue_kill(struct rdl__lane *lane, struct line *line)
{
    line->kill.state = RDL__REQ_QUEUED;
    rdl__list_push_front(&lane->queued, &line->kill.link);
    lane->loop_owed++;
}

static void done_kill(struct rdl__req *req, int64_t now)
{
    struct line *line = rdl__container(req, struct line, kill);

    if (req->rc == RDL_ENOMEM) { /* in a while, before anything else; or, made anew, on the next connection */
        rdl__req_init(req, &kill_ops);
        rdl__mutex_lock(&line->lane->mu);
        if (line->lane->line != NULL)
            queue_kill(line->lane, line);
        rdl__mutex_unlock(&line->lane->mu);
        rdl__loop_timer(line->lane->node->loop, &line->lane->memory_retry, now + MEMORY_PAUSE);
        return;
    }
    rdl__list_remove(&line->link);
    line_free(line);
}

static const struct rdl__req_ops kill_ops = {.encode = encode_kill, .decode = decode_kill, .done = done_kill};

/* Queue, before anything else, a KILL for every severed line that this run of the server may still serve. To another
 * run their ids mean other clients; but that may be another server, and theirs the node's again later. So they stay,
 * the last few of them. A run that does not say which it is may be the same.  @locks mu */
static void queue_kills(struct rdl__lane *lane, const struct line *fresh)
{
    struct rdl__link *before;
    unsigned others = 0;

    rdl__assert_locked(&lane->mu);
    for (struct rdl__link *l = lane->severed.prev; l != &lane->severed; l = before) {
        struct line *line = rdl__container(l, struct line, link);
        bool same = strcmp(line->conn.run_id, fresh->conn.run_id) == 0;

        before = l->prev;
        if (same) {
            rdl__req_init(&line->kill, &kill_ops);
            queue_kill(lane, line);
        } else if (++others > OTHER_RUNS) {
            rdl__list_remove(l);
            line_free(line);
        }
    }
    if (others > 0 && fresh->conn.run_id[0] == '\0')
        atomic_store(&lane->node->kill_refused, true);
}

/* Is it another run of a server than the last one? One that does not tell is taken for another only where the node may
 * be another server at any time. */
static bool up_anew(struct rdl__lane *lane, const struct rdl__conn *conn)
{
    bool same = conn->run_id[0] == '\0' ? lane->node->finder == NULL : strcmp(conn->run_id, lane->run_id) == 0;

    memcpy(lane->run_id, conn->run_id, sizeof lane->run_id);
    return lane->connected_once && !same;
}

static void on_conn_up(struct rdl__conn *conn, int64_t now)
{
    struct line *line = rdl__container(conn, struct line, conn);
    struct rdl__lane *lane = line->lane;
    bool anew = up_anew(lane, conn);

    lane->making = NULL;
    if (lane->connected_once)
        rdl__metric(lane->node->sinks, RDL_M_RECONNECTS, 1);
    lane->connected_once = true;
    rdl__mutex_lock(&lane->mu);
    queue_kills(lane, line);
    lane->line = line;
    lane->role = ROLE_LOOP;
    lane->wanted = false;
    lane->heard_at = now;
    rdl__mutex_unlock(&lane->mu);
    rdl__loop_timer(lane->node->loop, &lane->silence, rdl__after_ms(now, lane->node->config.ping_interval_ms));
    lane->told_up = true;
    if (lane->on_news != NULL)
        lane->on_news(lane->on_news_arg, anew ? RDL__LANE_UP_ANEW : RDL__LANE_UP, now);
    attend(lane, now);
}

static void on_conn_failed(struct rdl__conn *conn, const rdl_err_t *why, int64_t now)
{
    struct line *line = rdl__container(conn, struct line, conn);
    struct rdl__lane *lane = line->lane;

    rdl__log_again(lane->node->sinks, RDL_LOG_WARN, &lane->node->told, now, "cannot connect: %s", why->message);
    lane->making = NULL;
    line_free(line);
    rdl__mutex_lock(&lane->mu);
    lane->wanted = false;
    rdl__mutex_unlock(&lane->mu);
    if (lane->on_news != NULL)
        lane->on_news(lane->on_news_arg, RDL__LANE_FAILED, now);
    attend(lane, now);
}

/* What is unanswered goes to the new place. A leader who sleeps in recv is woken to find the connection broken. */
static void on_conn_moved(struct rdl__conn *conn, int64_t now)
{
    struct line *line = rdl__container(conn, struct line, conn);
    struct rdl__lane *lane = line->lane;

    rdl__mutex_lock(&lane->mu);
    if (lane->line == line && lane->role == ROLE_CALLER) {
        rdl__sock_shutdown(&conn->sock);
    } else if (lane->line == line) {
        rdl__conn_watch(conn, 0);
        sever(lane, "another server has taken over");
    }
    rdl__mutex_unlock(&lane->mu);
    attend(lane, now);
}

static const struct rdl__conn_ops conn_ops = {
    .up = on_conn_up, .failed = on_conn_failed, .ready = on_conn_ready, .moved = on_conn_moved};

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
    lane->role = ROLE_LOOP;
    rdl__list_init(&lane->queued);
    rdl__list_init(&lane->sent);
    rdl__list_init(&lane->settled);
    rdl__list_init(&lane->broken);
    rdl__list_init(&lane->severed);
    rdl__buf_init(&lane->out, node->mem);
    rdl__task_init(&lane->attend, on_attend);
    rdl__task_init(&lane->flush_later, on_flush_later);
    rdl__timer_init(&lane->stall, on_stall);
    rdl__timer_init(&lane->memory_retry, on_memory_retry);
    rdl__timer_init(&lane->silence, on_silence);
    return lane;
}

void rdl__lane_on_news(struct rdl__lane *lane, void (*fn)(void *, enum rdl__lane_news, int64_t), void *arg)
{
    lane->on_news = fn;
    lane->on_news_arg = arg;
}

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

void rdl__lane_on_demand(struct rdl__lane *lane, bool on_demand, int64_t now)
{
    bool unused;

    rdl__assert_on_loop(lane->node->loop);
    rdl__mutex_lock(&lane->mu);
    lane->on_demand = on_demand;
    unused = on_demand && idle(lane);
    if (unused && lane->line != NULL && lane->role != ROLE_CALLER && !lane->writing) {
        rdl__conn_watch(&lane->line->conn, 0);
        sever(lane, "it was not used");
    }
    rdl__mutex_unlock(&lane->mu);
    if (unused && lane->making != NULL) {
        line_free(lane->making);
        lane->making = NULL;
    }
    attend(lane, now);
}

static void settle_all(struct rdl__lane *lane, struct rdl__link *list, struct rdl__link *wake)
{
    struct rdl__link *l;

    while ((l = rdl__list_first(list)) != NULL)
        settle(lane, rdl__container(l, struct rdl__req, link), RDL_ECLOSED, wake);
}

void rdl__lane_close(struct rdl__lane *lane, int64_t now)
{
    struct rdl__link wake;

    rdl__assert_on_loop(lane->node->loop);
    rdl__list_init(&wake);
    rdl__mutex_lock(&lane->mu);
    lane->closed = true;
    if (lane->line != NULL) {
        if (lane->role == ROLE_CALLER) {
            rdl__sock_shutdown(&lane->line->conn.sock); /* the leader returns from recv, and severs */
        } else {
            rdl__conn_watch(&lane->line->conn, 0);
            sever(lane, "the client is closed");
        }
    }
    drop_kills(lane, &lane->sent);
    drop_kills(lane, &lane->queued);
    settle_all(lane, &lane->sent, &wake);
    settle_all(lane, &lane->queued, &wake);
    rdl__mutex_unlock(&lane->mu);
    wake_all(&wake, NULL);
    rdl__loop_timer_off(lane->node->loop, &lane->silence);
    if (lane->making != NULL) {
        line_free(lane->making);
        lane->making = NULL;
    }
    attend(lane, now);
}

bool rdl__lane_quiet(struct rdl__lane *lane)
{
    bool quiet;

    rdl__mutex_lock(&lane->mu);
    quiet = lane->closed && lane->role != ROLE_CALLER && !lane->writing && rdl__list_empty(&lane->broken);
    rdl__mutex_unlock(&lane->mu);
    return quiet;
}

struct rdl__lane *rdl__lane_free(struct rdl__lane *lane)
{
    struct rdl__link *l;

    if (lane == NULL)
        return NULL;
    if (lane->line != NULL)
        line_free(lane->line);
    while ((l = rdl__list_pop(&lane->broken)) != NULL)
        line_free(rdl__container(l, struct line, link));
    while ((l = rdl__list_pop(&lane->severed)) != NULL)
        line_free(rdl__container(l, struct line, link));
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
        enqueue(lane, req);
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
    outcome = give_up(lane, req, successor, mode);
    rdl__mutex_unlock(&lane->mu);
    rdl__loop_later(lane->node->loop, &lane->flush_later);
    return outcome;
}

bool rdl__lane_up(struct rdl__lane *lane)
{
    bool up;

    rdl__mutex_lock(&lane->mu);
    up = lane->line != NULL;
    rdl__mutex_unlock(&lane->mu);
    return up;
}
