/* SPDX-License-Identifier: MIT */
/* request.c - a call's request, whoever drives the call: encoding, decoding, redirections, deadlines, and giving up.
 */
#include "core/call/inner.h"

/* A cluster's node may redirect a request (a detour): that proves, as NOSCRIPT does, that it did not run there. It is
 * sent again at once, to where the slot is now (MOVED) or, this once, to where it is being moved (ASK); or after a
 * pause, if the map does not know the server, or after AT_ONCE redirections in a row. All of them together may take as
 * long as one answer. An earlier sending may be in doubt all the same: if its connection broke, and its repeat was
 * redirected. */
#define AT_ONCE 5

enum rdl__detour rdl__call_detour_of(struct rdl__call *call, const struct rdl__reply *reply)
{
    if (reply->type != RDL__REPLY_ERROR || rdl__call_client(call)->map == NULL)
        return RDL__DETOUR_NONE;
    return rdl__client_detour(rdl__call_client(call), reply, &call->ask);
}

/* Has the slot moved while the request waits for a connection? A request that follows an ASK stays: the map does not
 * know of that server. */
bool rdl__call_misrouted(const struct rdl__req *req)
{
    const struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    return !req->asking && rdl__name_shard(rdl__call_name(call)) != call->shard;
}

/* ---- until when ------------------------------------------------------------------------------------------------- */

/* When waiting for an answer ends: at the deadline. For the first try of an acquire not before rdl__call_patience, so
 * that the shortest wait_ms gets a free lock as 0 does. A composite bounds its members' calls itself. */
int64_t rdl__call_answer_by(const struct rdl__call *call)
{
    if (call->deadline - call->op.started_at >=
        rdl__call_client(call)->command_timeout_ms * RDL__MS) /* the most that rdl__call_patience returns */
        return call->deadline;
    if (!call->verb->acquires || call->op.wait_ms <= 0 || call->op.direct || call->take.tries > 0)
        return call->deadline;
    return rdl__op_wait_ends(&call->op, rdl__call_patience(rdl__call_client(call), call->shard));
}

#define FIRST_TRY_MS 20 /* least: connecting takes several round trips, and threads run late on a busy machine */
#define FIRST_TRY_ROUND_TRIPS 4

int64_t rdl__call_patience(const rdl_client_t *client, const struct rdl__shard *shard)
{
    int64_t patience = FIRST_TRY_ROUND_TRIPS * atomic_load_explicit(&shard->node.round_trip, memory_order_relaxed);
    int64_t most = client->command_timeout_ms * RDL__MS;

    if (patience < FIRST_TRY_MS * RDL__MS)
        patience = FIRST_TRY_MS * RDL__MS;
    return patience < most ? patience : most;
}

/* ---- what is sent, and what is answered ------------------------------------------------------------------------- */

static void encode(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    call->verb->encode(call, to, eval);
    if (req->ops->more > 0)
        rdl__call_put_wait(call, to);
}

static void decode(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    (void)now;
    if (req->ops->more > 0 && req->owed == 0) {
        rdl__call_hear_acks(call, reply);
        return;
    }
    call->refused_words = false;
    call->detour = (unsigned char)rdl__call_detour_of(call, reply);
    if (call->detour != RDL__DETOUR_NONE)
        return;
    if (reply->type == RDL__REPLY_ERROR)
        rdl__call_keep_words(call, reply->str, reply->len, true);
    else
        call->verb->decode(call, reply);
}

const struct rdl__req_ops rdl__blocking_ops = {.encode = encode, .decode = decode, .misrouted = rdl__call_misrouted};

const struct rdl__req_ops rdl__loop_ops = {
    .encode = encode, .decode = decode, .done = rdl__call_done_on_loop, .misrouted = rdl__call_misrouted};
const struct rdl__req_ops rdl__blocking_acked_ops = {
    .encode = encode, .decode = decode, .misrouted = rdl__call_misrouted, .more = 1};
const struct rdl__req_ops rdl__loop_acked_ops = {
    .encode = encode, .decode = decode, .done = rdl__call_done_on_loop, .misrouted = rdl__call_misrouted, .more = 1};

/* One more in a row; beyond AT_ONCE they are not told apart. */
static void count_detour(struct rdl__call *call, int64_t since)
{
    if (call->detours == 0)
        call->detours_until = rdl__call_send_deadline(call, since);
    if (call->detours <= AT_ONCE)
        call->detours++;
}

static rdl__step_t sent_elsewhere(struct rdl__call *call, int64_t now)
{
    call->may_come = rdl__call_may_come(call);
    call->sent_before = call->req.resent; /* rdl__call_ready passes it on to the next request */
    count_detour(call, call->req.sent_at != 0 ? call->req.sent_at : now);
    if (call->detours > AT_ONCE)
        call->detour = RDL__DETOUR_LATER;
    return rdl__send_it();
}

void rdl__call_pauses(struct rdl__call *call, int64_t now)
{
    count_detour(call, now);
    call->detour = RDL__DETOUR_LATER;
}

rdl__step_t rdl__call_answered(struct rdl__call *call, int64_t now)
{
    const struct rdl__sinks *sinks = &rdl__call_client(call)->sinks;

    call->req.state = RDL__REQ_IDLE;
    if (call->req.rc == RDL_OK) {
        rdl__metric(sinks, RDL_M_RTT_US, now - call->req.sent_at);
        if (call->req.ops->more == 0)
            rdl__node_round_trip(&call->shard->node, now - call->req.sent_at);
    }
    if (call->req.eval)
        rdl__metric(sinks, RDL_M_SCRIPT_LOADS, 1);
    if (call->req.rc == RDL__MISROUTED)
        call->detour = RDL__DETOUR_MOVED;
    if (call->detour != RDL__DETOUR_NONE && call->req.rc >= RDL_OK)
        return sent_elsewhere(call, now);
    call->detours = 0;
    return call->verb->answered(call, now);
}

/* ---- giving up -------------------------------------------------------------------------------------------------- */

/* Does a request that was given up leave a successor? */
static bool leaves_successor(const struct rdl__call *call, enum rdl__outcome outcome)
{
    return call->verb->has_successor &&
           (outcome == RDL__UNSURE || call->verb->successor_mode == RDL__SUCCESSOR_REPLACES);
}

void rdl__call_successor_begins(struct rdl__call *call, enum rdl__outcome outcome, enum rdl__way way)
{
    if (leaves_successor(call, outcome))
        rdl__undo_begins(call, way);
}

static rdl__step_t stopped(struct rdl__call *call, int code, enum rdl__outcome outcome)
{
    struct rdl__take_event ev = {
        .kind = RDL__EV_STOPPED,
        .code = code,
        .unsure = outcome == RDL__UNSURE,
        .connected = call->detours == 0 && rdl__lane_up(rdl__name_shard(rdl__call_name(call))->loop_lane),
    };

    if (call->verb->acquires)
        return rdl__take_on(&call->take, &ev);
    if (code != RDL_OK)
        return rdl__finish_with(code);
    return rdl__finish_with(outcome == RDL__UNSENT ? RDL_ECONN : RDL_EUNKNOWN);
}

rdl__step_t rdl__call_stopped(struct rdl__call *call, int code, enum rdl__outcome outcome)
{
    if ((code == RDL_OK || code == RDL_ECONN) && rdl__alone_stands_in(call, true))
        return rdl__finish_with(RDL_OK);
    return stopped(call, code, outcome);
}

/* As rdl__call_stopped, while no request of the call is in a lane. If it was being redirected, no successor was left
 * there: the undo is a step of its own. */
rdl__step_t rdl__call_stopped_between(struct rdl__call *call, int code)
{
    enum rdl__outcome outcome = call->detours > 0 && call->sent_before ? RDL__UNSURE : RDL__UNSENT;
    rdl__step_t step;

    if ((code == RDL_OK || code == RDL_ECONN) && rdl__alone_stands_in(call, false))
        return rdl__finish_with(RDL_OK);
    step = stopped(call, code, outcome);
    step.undo = step.undo || (call->detours > 0 && leaves_successor(call, outcome));
    return step;
}
