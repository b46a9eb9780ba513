/* SPDX-License-Identifier: MIT */
/* lane_inner.h - the lane from inside: for its files, and its unit test.
 *
 *   lane.c          the queue: requests, writing, reading, settling
 *   lane_callers.c  the reader's role, and threads that block for their answers
 *   lane_fan.c      one thread that blocks for answers on several lanes
 *   lane_loop.c     what the loop does: connecting, keeping up, reading, watching
 *   lane_doubt.c    broken connections, and CLIENT KILL
 *
 * A request is on one list at a time: `queued` (to be encoded) or `sent` (in the order in which replies will come),
 * then `settled` until the loop has run its ops->done. A request that was given up is on no list; the next request
 * counts its replies, to skip them.
 */
#ifndef REDLATCH_IO_LANE_INNER_H
#define REDLATCH_IO_LANE_INNER_H

#include "core/io/lane.h"

#include "core/io/conn.h"

#define RDL__LANE_MEMORY_PAUSE (50 * RDL__MS)

/* Who reads, parses, and declares a connection broken (lane_callers.c). */
enum rdl__lane_role {
    RDL__ROLE_LOOP,   /* the loop: from the start, and again whenever no connection is up */
    RDL__ROLE_NONE,   /* nobody: nothing is awaited */
    RDL__ROLE_CALLER, /* the thread that blocks for `leader` */
};

/* A connection of a lane. After its end it is kept until the server has answered a CLIENT KILL for it. */
struct rdl__lane_conn {
    struct rdl__conn conn;
    struct rdl__lane *lane;
    struct rdl__link link; /* on the lane's broken or severed list */
    struct rdl__req kill;
    bool unanswered; /* something sent on it was, when it broke */
    bool refused;    /* the server is a replica */
};

struct rdl__lane {
    /* immutable */
    struct rdl__node *node;
    void (*on_event)(void *arg, enum rdl__lane_event event, int64_t now);
    void *on_event_arg;
    bool kept_up;

    /* any thread, under mu */
    struct rdl__mutex mu;

    /* under mu: its connections */
    struct rdl__lane_conn *live; /* NULL: down */
    struct rdl__link broken;     /* connections to be closed */
    struct rdl__link severed;    /* closed, with an unanswered KILL each, the newest last */
    bool closed;
    bool on_demand; /* connect only for a request, even if kept_up */
    bool wanted;    /* a fan would have used it, had it been connected */

    /* under mu: its requests */
    unsigned loop_count;     /* how many on the lists are the loop's */
    unsigned detached_count; /* and how many are detached */
    uint32_t tail_skip;      /* how many replies to skip after the last of `sent` */
    struct rdl__link queued;
    struct rdl__link sent;
    struct rdl__link settled; /* the loop's, waiting for ops->done */

    /* under mu: who writes */
    struct rdl__buf out; /* encoded requests; the first out_sent bytes are sent. The writer's alone while `writing` */
    size_t out_sent;
    int64_t expected_by; /* until when who comes leaves the writing to others (lane_callers.c, write_or_leave): */
    unsigned expected;   /* callers that were woken together, less those that have come since, whoever they are */
    bool writing;        /* a thread is in rdl__lane_flush */

    /* under mu: who reads */
    bool reading;             /* the leader is in recv, or about to call it */
    bool tend_set;            /* the loop will look whether somebody reads what is detached: `tend` */
    bool tended;              /* nobody did: the loop reads until all of that is answered */
    struct rdl__req *leader;  /* RDL__ROLE_CALLER: the request whose thread reads; else NULL */
    enum rdl__lane_role role; /* set with `leader` by rdl__lane_set_role */

    /* under mu: whether the server is silent (rdl__lane_stalls_at) */
    bool had_more; /* a request had `more`: those whose replies are skipped are on no list, and may be ones, too */
    int64_t silent_since; /* bytes came, or the first was sent of what is not answered; the later of these */

    /* loop thread only */
    struct rdl__lane_conn *making; /* a connection that is being made */
    struct rdl__task attend;
    struct rdl__task flush_later;
    struct rdl__timer stall; /* the server has not answered for too long */
    struct rdl__timer memory_retry;
    struct rdl__timer silence; /* nothing was heard for ping_interval_ms */
    struct rdl__task set_tend; /* for the first detached request */
    struct rdl__timer tend;
    struct rdl__req ping;
    bool connected_once;
    char run_id[sizeof((struct rdl__conn *)NULL)->run_id]; /* of the server of the last connection */
    bool told_up;                                          /* the last event was RDL__LANE_UP */

    char recv[RDL__CONN_RECV]; /* the reader's */
};

/* ---- lane.c ----------------------------------------------------------------------------------------------------- */

/* Is it the loop's? Does nobody wait for it? Otherwise a thread blocks for it. */
static inline bool rdl__req_loops(const struct rdl__req *req)
{
    return req->ops->done != NULL;
}

static inline bool rdl__req_detached(const struct rdl__req *req)
{
    return req->ops->detached != NULL;
}

/* Must the loop read, because its own requests are under way, or because nobody else has read?  @locks mu */
static inline bool rdl__lane_loop_reads(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return lane->loop_count > 0 || lane->tended;
}

/* @locks mu */
static inline void rdl__lane_enqueue(struct rdl__lane *lane, struct rdl__req *req)
{
    rdl__assert_locked(&lane->mu);
    req->state = RDL__REQ_QUEUED;
    lane->had_more |= req->ops->more > 0;
    rdl__list_push_back(&lane->queued, &req->link);
    if (rdl__req_loops(req))
        lane->loop_count++;
    else if (rdl__req_detached(req))
        lane->detached_count++;
}

/* `leader`: of RDL__ROLE_CALLER alone.  @locks mu */
static inline void rdl__lane_set_role(struct rdl__lane *lane, enum rdl__lane_role role, struct rdl__req *leader)
{
    rdl__assert_locked(&lane->mu);
    assert((role == RDL__ROLE_CALLER) == (leader != NULL));
    lane->role = role;
    lane->leader = leader;
}

/* Are answers to come, be they of requests that were given up?  @locks mu */
static inline bool rdl__lane_unanswered(const struct rdl__lane *lane)
{
    rdl__assert_locked(&lane->mu);
    return !rdl__list_empty(&lane->sent) || lane->tail_skip > 0;
}

static inline bool rdl__lane_out_pending(const struct rdl__lane *lane)
{
    return lane->out_sent < lane->out.len;
}

/* Take a request off its list as settled. Those that are not the loop's are collected in `wake`, for rdl__lane_wake.
 * @locks mu */
void rdl__lane_settle(struct rdl__lane *lane, struct rdl__req *req, int rc, struct rdl__link *wake);

/* Post RDL__POST_SETTLED to each of `wake`, or run its ops->detached. `self`: the calling thread's own request, which
 * needs no waking; or NULL.  @thread any  @locks none */
void rdl__lane_wake(struct rdl__link *wake, const struct rdl__req *self);

/* Encode and send all queued requests, unless another thread is writing. `now`: no later than the present; 0: the clock
 * is read when there is something to encode.  @locks mu, released around the system call and around waking */
void rdl__lane_flush(struct rdl__lane *lane, const struct rdl__req *self, int64_t now);

/* Empty `out`.  @locks mu; no other thread is writing */
void rdl__lane_empty_out(struct rdl__lane *lane);

/* Make room in `out` for a few requests, so that what was taken on one lane can be released on another without
 * allocating. False: no memory.  @locks mu; no thread is writing */
bool rdl__lane_make_room(struct rdl__lane *lane);

/* When the connection is given up if nothing comes until then, so that its requests can be repeated on another, and
 * what is asked next is not in vain; RDL__NEVER: nothing is unanswered.  @locks mu */
int64_t rdl__lane_stalls_at(const struct rdl__lane *lane);

/* A receive into `recv` has brought n bytes, an error, or nothing: hand out every whole reply. NULL, or an error text:
 * the connection is broken. `at`: the present; where nothing has come, when the receive began, as an answer may have
 * come since, while this thread stood still: only a receive that began late proves silence.  @thread the reader
 * @locks mu */
const char *rdl__lane_received(struct rdl__lane *lane, ssize_t n, int64_t at, struct rdl__link *wake);

/* rdl__lane_give_up, for those that hold the mutex.  @locks mu */
enum rdl__outcome rdl__lane_drop(struct rdl__lane *lane, struct rdl__req *req, const struct rdl__req_ops *successor,
                                 enum rdl__successor_mode mode);

/* ---- lane_callers.c --------------------------------------------------------------------------------------------- */

/* The reader needs no more replies itself. The loop becomes the reader if it has requests there, or if only replies to
 * skip are left; else the first caller that waits; else there is none, also while requests that nobody waits for are
 * unanswered.  @thread the reader  @locks mu */
void rdl__lane_pass_role(struct rdl__lane *lane);

/* rdl__lane_received of the leader. It does not pass its role on, although its own request may be settled now.  @thread
 * the leader  @locks mu */
void rdl__lane_leader_received(struct rdl__lane *lane, ssize_t n, int64_t at, struct rdl__link *wake);

/* May the reader poll for the answer to `self`? Only if it is the lane's only request that somebody waits for, and no
 * other caller waits for this node.  @locks mu */
bool rdl__lane_may_poll(const struct rdl__lane *lane, const struct rdl__req *self);

/* Poll for the answer before sleeping. As rdl__conn_recv; 0: it has not come.  @thread the reader  @locks none */
ssize_t rdl__lane_poll(struct rdl__lane *lane, struct rdl__lane_conn *lc, struct rdl__busypoll *account, int64_t now,
                       int64_t deadline);

/* ---- lane_loop.c ------------------------------------------------------------------------------------------------ */

/* Set up the loop's tasks and timers of a new lane.  @thread any */
void rdl__lane_init_loop(struct rdl__lane *lane);

/* ---- lane_doubt.c ----------------------------------------------------------------------------------------------- */

/* The connection is broken: what was sent is in doubt, and goes back to the front of `queued` to be repeated. The loop
 * becomes the reader.  @thread the reader  @locks mu */
void rdl__lane_break(struct rdl__lane *lane, const char *why);

/* Close the connections that broke, and keep those whose requests may still run.  @thread loop  @locks mu */
void rdl__lane_close_broken(struct rdl__lane *lane, int64_t now);

/* Queue, before anything else, a KILL for every severed connection that the server behind `fresh` may still serve.
 * @thread loop  @locks mu */
void rdl__lane_queue_kills(struct rdl__lane *lane, const struct rdl__lane_conn *fresh);

/* Take every KILL off the lists; the next connection makes new ones.  @locks mu */
void rdl__lane_drop_kills(struct rdl__lane *lane);

void rdl__lane_conn_free(struct rdl__lane_conn *lc);

#endif
