/* SPDX-License-Identifier: MIT */
/* lane.h - a command pipeline that several threads share, and that survives its connections.
 *
 * A lane carries requests in order over one connection at a time. Callers that block combine on it: a caller that finds
 * no reader becomes the leader, writes for all and reads for all, and passes the role on when its own answer has come
 * and those that were answered with it are awake. The loop reads the answers for which no thread blocks: to
 * asynchronous requests, and to what callers gave up. Which file has what: lane_inner.h.
 *
 * Rules of protocol.md, 3 that are implemented here:
 *   - A request that was sent and not answered when its connection broke is repeated on the next one, in order, behind
 * a CLIENT KILL for every former connection of this lane whose own KILL is unanswered (lane_doubt.c: the latest).
 *   - The reply to a request that was given up is skipped. The request may be replaced by another one, its successor,
 * which is the loop's: an undo, sent behind it on the same connection; or the same request again, in its place (a
 * release). So every request must be safe to repeat, and to arrive late.
 */
#ifndef REDLATCH_IO_LANE_H
#define REDLATCH_IO_LANE_H

#include "core/base/sync.h"
#include "core/io/node.h"
#include "core/wire/buf.h"
#include "core/wire/reply.h"

#include <stdbool.h>

struct rdl__lane;
struct rdl__req;
struct rdl__task;

/* The most that what `more` stands for may keep the server from answering, ms: so long it is not silent. A WAIT ends up
 * to 100 ms late, as Redis looks ten times a second. */
#define RDL__LANE_MORE_MS 1200

struct rdl__req_ops {
    /* Append one command, and `more` behind it; req->owed counts these already, and is raised for any further one.
     * `eval`: with the script's text instead of its digest. Called once for each sending; a repeat (req->resent)
     * together with the earlier sending must have the effect of one.
     * @locks under the lane's */
    void (*encode)(struct rdl__req *req, struct rdl__buf *to, bool eval);
    unsigned char more;

    /* Read a reply, which is valid during the call. Called for each of the request's replies, with req->owed 0 for the
     * last.
     * @thread any  @locks under the lane's */
    void (*decode)(struct rdl__req *req, const struct rdl__reply *reply, int64_t now);

    /* The request is settled, with req->rc. NULL: a thread blocks for it, or it is detached.  @thread loop  @locks none
     */
    void (*done)(struct rdl__req *req, int64_t now);

    /* The same for a detached request (rdl__lane_detach), on the thread that has read its answer, or found that
     * none will come.  @thread any  @locks none */
    void (*detached)(struct rdl__req *req);

    /* Does another node have the request's keys by now? Asked while the lane is not connected. NULL: never.  @locks
     * under the lane's */
    bool (*misrouted)(const struct rdl__req *req);
};

enum rdl__req_state { RDL__REQ_IDLE, RDL__REQ_QUEUED, RDL__REQ_SENT, RDL__REQ_SETTLED };

#define RDL__MISROUTED 1 /* not answered, in doubt if `resent`: it belongs on another node's lane */

/* Bits posted to a blocking request's parker. */
#define RDL__POST_SETTLED 1u
#define RDL__POST_LEAD 2u   /* this request's thread is the leader now */
#define RDL__POST_CANCEL 4u /* the call was canceled */

struct rdl__req {
    struct rdl__link link;
    const struct rdl__req_ops *ops;
    int64_t sent_at; /* of the last sending, read before it */
    int rc;          /* settled: RDL_OK (decode has run), RDL_ENOMEM, RDL_ECLOSED, RDL__MISROUTED */
    uint32_t skip;   /* how many replies to given up requests come before this one's */
    unsigned char state;
    unsigned char owed; /* how many replies are still to come */
    bool resent : 1;    /* was sent before, on a connection that broke */
    bool eval : 1;      /* after NOSCRIPT: sent again with the script's text */
    bool asking : 1;    /* sent behind ASKING, to a server that is about to get the slot */
    struct rdl__parker park;
};

static inline void rdl__req_init(struct rdl__req *req, const struct rdl__req_ops *ops)
{
    rdl__list_init(&req->link);
    req->ops = ops;
    req->sent_at = 0;
    req->rc = 0;
    req->skip = 0;
    req->state = RDL__REQ_IDLE;
    req->owed = 0;
    req->resent = false;
    req->eval = false;
    req->asking = false;
    rdl__parker_init(&req->park);
}

/* The state of a request whose caller has stopped waiting. */
enum rdl__outcome {
    RDL__SETTLED, /* after all, with an answer or without: look at req->rc */
    RDL__UNSENT,  /* it was never sent */
    RDL__UNSURE,  /* it was sent; whether it ran is unknown */
};

enum rdl__successor_mode {
    RDL__SUCCESSOR_FOLLOWS,  /* sent behind the request, only if that was sent */
    RDL__SUCCESSOR_REPLACES, /* in any case, in the request's place */
};

/* A lane of `node`. kept_up: the loop's own, which stays connected; otherwise it connects when it is used. NULL: no
 * memory. */
struct rdl__lane *rdl__lane_new(struct rdl__node *node, bool kept_up);

enum rdl__lane_event {
    RDL__LANE_UP,
    RDL__LANE_UP_ANEW, /* up at another server than before, or at one that was restarted: it may have lost data */
    RDL__LANE_DOWN,
    RDL__LANE_FAILED, /* an attempt to connect has failed */
};

/* Call fn on the loop for each event. Set before the lane is used. */
void rdl__lane_on_event(struct rdl__lane *lane, void (*fn)(void *arg, enum rdl__lane_event event, int64_t now),
                        void *arg);

/* Connect now rather than at the first request.  @thread loop */
void rdl__lane_open(struct rdl__lane *lane, int64_t now);

/* Slots have moved: ask ops->misrouted again for requests that wait for a connection.  @thread loop */
void rdl__lane_reroute(struct rdl__lane *lane, int64_t now);

/* Should the lane connect only for a request? If so, its connection is closed, unless requests are under way (then call
 * this again later).  @thread loop */
void rdl__lane_on_demand(struct rdl__lane *lane, bool on_demand, int64_t now);

/* Settle all requests with RDL_ECLOSED, also those that come later.  @thread loop */
void rdl__lane_close(struct rdl__lane *lane, int64_t now);
bool rdl__lane_quiet(struct rdl__lane *lane);             /* closed, and no caller is inside any more.  @thread any */
struct rdl__lane *rdl__lane_free(struct rdl__lane *lane); /* quiet, and the loop stopped. NULL is fine; returns NULL */

/* Send a request and wait for its reply until `deadline`, or until RDL__POST_CANCEL is posted to req->park. If the wait
 * ends without a reply, the same struct becomes the successor, with the ops `successor` (NULL: there is none), and is
 * the loop's alone when this returns. It keeps `resent`.  @thread any but the loop */
enum rdl__outcome rdl__lane_call(struct rdl__lane *lane, struct rdl__req *req, int64_t deadline,
                                 const struct rdl__req_ops *successor, enum rdl__successor_mode mode);

/* Send a request; ops->done will run. On a lane of callers, too.  @thread loop */
void rdl__lane_submit(struct rdl__lane *lane, struct rdl__req *req);

/* Send a detached request: one that nobody waits for, on a lane of callers; at once, if the lane is connected. Its
 * answer is read by the next caller of the lane; if none comes, by the loop, RDL__LANE_TEND_MS later or twice that.
 * ops->detached runs then.
 * Tend: let the loop read now.  @thread any but the loop; tend: loop */
#define RDL__LANE_TEND_MS 10
void rdl__lane_detach(struct rdl__lane *lane, struct rdl__req *req);
void rdl__lane_tend(struct rdl__lane *lane, int64_t now);

/* Give up a submitted request. Unless RDL__SETTLED, its done will not run, but its successor's may.  @thread loop */
enum rdl__outcome rdl__lane_give_up(struct rdl__lane *lane, struct rdl__req *req, const struct rdl__req_ops *successor,
                                    enum rdl__successor_mode mode);

bool rdl__lane_up(struct rdl__lane *lane); /* @thread any */

/* ---- several lanes at once -------------------------------------------------------------------------------------- */

/* A fan: requests of one thread on several lanes. The thread reads the answers itself, so that no loop has to be woken.
 * It is the leader of each of these lanes, where other callers wait for it to read: so between sending and leaving it
 * must not do anything slow. See lane_fan.c.  @thread the one that sends, all of it */
#define RDL__FAN_MAX 16

struct rdl__fan {
    unsigned n; /* 0 to begin with */
    struct {
        struct rdl__lane *lane;
        struct rdl__req *req;
    } at[RDL__FAN_MAX];
    unsigned to_begin_count;
    struct rdl__req *to_begin[RDL__FAN_MAX]; /* of calls that have not begun yet (core/call/fan.c) */
};

/* Add a request that blocks (no ops->done); rdl__fan_wait sends it. False, and nothing was done: the lane is not
 * connected (it will connect), has a reader outside the fan, or the fan is full. */
bool rdl__fan_send(struct rdl__fan *fan, struct rdl__lane *lane, struct rdl__req *req);

/* Send and read until a request must leave the fan: its index; or -1 when `until` has come. Reads at least once. */
int rdl__fan_wait(struct rdl__fan *fan, int64_t until);

/* Take request i out; the others' indices may change. True: it is settled. False: it is the loop's, as a submitted
 * request with these ops, and `task` was posted before the loop can get its answer. */
bool rdl__fan_leave(struct rdl__fan *fan, unsigned i, const struct rdl__req_ops *ops, struct rdl__task *task);

#endif
