/* lane.h - a command pipeline that several threads share, and that survives its connections.
 *
 * A lane carries requests in order over one connection at a time. Callers that block combine on it: a caller that finds
 * no reader becomes the leader, writes for all and reads for all, and passes the role on when its own answer has come.
 * The loop reads the answers for which no thread blocks: to asynchronous requests, and to what callers gave up. Which
 * file has what: lane_inner.h.
 *
 * Rules of protocol.md, 3 that live here:
 *   - A request that was sent and not answered when its connection broke is repeated on the next one, in order, behind
 * a CLIENT KILL for every former connection of this lane whose own KILL is unanswered.
 *   - The reply to a request that was given up is passed over. The request may go on as another one, its successor,
 * which is the loop's: it follows on the same connection (an undo), or takes the place of the one given up (a release
 * goes on). So every request must bear being repeated, and arriving late.
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

struct rdl__req_ops {
    /* Append one command, and `more` behind it; req->owed counts these already, and is raised for any further one.
     * `eval`: with the script's text instead of its digest. Called once for each sending; a repeat (req->resent) and
     * what was sent before must together do no more than one of them.  @locks under the lane's */
    void (*encode)(struct rdl__req *req, struct rdl__buf *to, bool eval);
    unsigned char more;

    /* Keep what the reply says; it is gone afterwards. Called for each of the replies, the last when req->owed is 0.
     * @thread any  @locks under the lane's */
    void (*decode)(struct rdl__req *req, const struct rdl__reply *reply, int64_t now);

    /* The request is settled: req->rc says how. NULL: somebody blocks for it.  @thread loop  @locks none */
    void (*done)(struct rdl__req *req, int64_t now);

    /* Has another node by now what the request is about? Asked while the lane is not connected. NULL: never.  @locks
     * under the lane's */
    bool (*misrouted)(const struct rdl__req *req);
};

enum rdl__req_state { RDL__REQ_IDLE, RDL__REQ_QUEUED, RDL__REQ_SENT, RDL__REQ_SETTLED };

#define RDL__MISROUTED 1 /* there is no answer, and it may be in doubt (`resent`): another lane is the right one */

/* Bits posted to a blocking request's parker. */
#define RDL__POST_SETTLED 1u
#define RDL__POST_LEAD 2u   /* the leader's role is yours */
#define RDL__POST_CANCEL 4u /* posted by whoever cancels the call */

struct rdl__req {
    struct rdl__link link;
    const struct rdl__req_ops *ops;
    int64_t sent_at; /* of the last sending, read before it */
    int rc;          /* settled: RDL_OK (decode has run), RDL_ENOMEM, RDL_ECLOSED, RDL__MISROUTED */
    uint32_t skip;   /* replies to requests given up that come before this one's */
    unsigned char state;
    unsigned char owed; /* replies that are to come, once sent */
    bool resent;        /* was sent before on a connection that broke */
    bool eval;          /* the server did not know the script: sent again with its text */
    bool asking;        /* behind an ASKING: the server takes it although the slot is not its own yet */
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

/* What became of a request that its caller stopped waiting for. */
enum rdl__outcome {
    RDL__ANSWERED, /* settled after all: look at req->rc */
    RDL__UNSENT,   /* the server has never seen it */
    RDL__UNSURE,   /* it was sent; whether it ran is unknown */
};

enum rdl__successor_mode {
    RDL__SUCCESSOR_FOLLOWS,  /* only if the request was sent: goes behind what is left of it */
    RDL__SUCCESSOR_REPLACES, /* always: takes its place */
};

/* A lane of `node`. kept_up: it is the loop's own, connected as long as it lives; otherwise it connects when it is
 * used. NULL: no memory. */
struct rdl__lane *rdl__lane_new(struct rdl__node *node, bool kept_up);

enum rdl__lane_news {
    RDL__LANE_UP,
    RDL__LANE_UP_ANEW, /* at another server than before, or at one that was started anew: it may know less */
    RDL__LANE_DOWN,
    RDL__LANE_FAILED, /* an attempt to connect has failed */
};

/* Be told on the loop. Set before the lane is used. */
void rdl__lane_on_news(struct rdl__lane *lane, void (*fn)(void *arg, enum rdl__lane_news news, int64_t now), void *arg);

/* Connect now rather than at the first request.  @thread loop */
void rdl__lane_open(struct rdl__lane *lane, int64_t now);

/* Slots have moved between this node and others: requests that wait for a connection here are to ask ops->misrouted
 * again.  @thread loop */
void rdl__lane_reroute(struct rdl__lane *lane, int64_t now);

/* Whether the lane is connected only on demand. If so, its connection is closed unless something is under way (then
 * call this again later), and is made at the next request.  @thread loop */
void rdl__lane_on_demand(struct rdl__lane *lane, bool on_demand, int64_t now);

/* Settle everything with RDL_ECLOSED and take nothing more.  @thread loop */
void rdl__lane_close(struct rdl__lane *lane, int64_t now);
bool rdl__lane_quiet(struct rdl__lane *lane);             /* closed, and no caller is inside any more.  @thread any */
struct rdl__lane *rdl__lane_free(struct rdl__lane *lane); /* quiet, and the loop stopped. NULL is fine; returns NULL */

/* Send a request and wait for its reply until `deadline`, or until RDL__POST_CANCEL is posted to req->park. When the
 * wait ends without a reply, the same struct becomes its successor with these ops (NULL: it has none), which is the
 * loop's alone by the time this returns. It keeps `resent`.  @thread any but the loop */
enum rdl__outcome rdl__lane_call(struct rdl__lane *lane, struct rdl__req *req, int64_t deadline,
                                 const struct rdl__req_ops *successor, enum rdl__successor_mode mode);

/* Send a request; ops->done will run. On a lane of callers, too.  @thread loop */
void rdl__lane_submit(struct rdl__lane *lane, struct rdl__req *req);

/* Give up a submitted request. Unless RDL__ANSWERED, its done will not run, but its successor's may.  @thread loop */
enum rdl__outcome rdl__lane_give_up(struct rdl__lane *lane, struct rdl__req *req, const struct rdl__req_ops *successor,
                                    enum rdl__successor_mode mode);

bool rdl__lane_up(struct rdl__lane *lane); /* @thread any */

/* ---- several lanes at once -------------------------------------------------------------------------------------- */

/* A fan: requests that one thread has on several lanes, where it reads the answers itself, so that no loop has to be
 * woken. The thread is the leader of each of its lanes, and other callers there wait for it to read: between sending
 * and leaving it does nothing that may take long. See lane_fan.c.  @thread the one that sends, all of it */
#define RDL__FAN_MAX 16

struct rdl__fan {
    unsigned n; /* 0 to begin with */
    struct {
        struct rdl__lane *lane;
        struct rdl__req *req;
    } at[RDL__FAN_MAX];
};

/* Add a request that blocks (no ops->done); it goes out with the next wait. False, and nothing was done: the lane is
 * not connected (it will be, for the next time), its reader is not of the fan, or the fan is full. */
bool rdl__fan_send(struct rdl__fan *fan, struct rdl__lane *lane, struct rdl__req *req);

/* Send and read until one of them should leave: its index; or -1 when `until` has come. It looks at least once. */
int rdl__fan_wait(struct rdl__fan *fan, int64_t until);

/* Take one out; others may change places. True: it is settled. False: the loop goes on with it as a submitted one, with
 * these ops, and `task` has been posted, before anything else that the loop hears of it. */
bool rdl__fan_leave(struct rdl__fan *fan, unsigned i, const struct rdl__req_ops *ops, struct rdl__task *task);

#endif
