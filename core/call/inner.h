/* SPDX-License-Identifier: MIT */
/* inner.h - the engine from inside: what the files that drive a single lock's call share.
 *
 *   call.c        makes a call, gives it its turn on the record, begins and ends it; the API
 *   by_caller.c   its caller's thread drives it
 *   by_loop.c     the loop drives it: waiting, cancellation, deadlines
 *   fan.c         its caller sends it with others, and leaves it to the loop
 *   alone.c       the host's own lock, which some takes need, and which stands in for a server that is away
 *   request.c     its request: encoding, answers, redirections, deadlines, giving up
 *   acked.c       replicas that must confirm it
 *   undo.c        its undo at the server, which outlives it
 *   detached.c    a release that is not waited for
 *   tell.c        how its end is told: callback, words, log, metrics
 */
#ifndef REDLATCH_CALL_INNER_H
#define REDLATCH_CALL_INNER_H

#include "core/call/alone.h"
#include "core/call/verb.h"

#define RDL__POST_DONE 1u /* to op.parker of a blocked caller: the loop has ended its call */

/* ---- phases (phase.h) ------------------------------------------------------------------------------------------- */

static inline enum rdl__phase rdl__call_phase(const struct rdl__call *call)
{
    return (enum rdl__phase)atomic_load_explicit(&call->phase, memory_order_relaxed);
}

static inline void rdl__call_goes(struct rdl__call *call, enum rdl__phase to)
{
#ifdef REDLATCH_ASSERTS
    assert(rdl__phase_follows(rdl__call_phase(call), to));
#endif
    atomic_store_explicit(&call->phase, (unsigned char)to, memory_order_relaxed);
}

/* From here on the call is the loop's.  @thread the one that drives it */
static inline void rdl__call_hand_over(struct rdl__call *call, enum rdl__next next)
{
    call->next = (unsigned char)next;
    rdl__call_goes(call, RDL__HANDED);
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}

/* ---- call.c ----------------------------------------------------------------------------------------------------- */

static inline struct rdl__call *rdl__call_of(rdl_op_t *op)
{
    return rdl__container(op, struct rdl__call, op);
}

void rdl__call_unused(rdl_op_t *op); /* nobody has a reference to it */

static inline void rdl__call_unref_by(struct rdl__call *call, unsigned refs)
{
    if (rdl__op_unref(&call->op, refs))
        rdl__call_unused(&call->op);
}

static inline void rdl__call_unref(struct rdl__call *call)
{
    rdl__call_unref_by(call, 1);
}

static inline void rdl__call_ref(struct rdl__call *call)
{
    rdl__op_ref(&call->op);
}

/* The call has fallen asleep and may do without its record; unless others refer to that, it lets it go. `unrecorded` is
 * set then. It has one again: RDL_OK, RDL_ENOMEM, or RDL_ELOST: its owner is gone.  @thread loop  @locks takes the
 * name's */
void rdl__call_unrecord(struct rdl__call *call);
int rdl__call_record_anew(struct rdl__call *call);

/* The wait counts from the call. The answer of a verb without a wait counts from `now`, when its turn has come. */
void rdl__call_set_deadline(struct rdl__call *call, int64_t now);

/* Its turn has come: the verb's first step.  @thread the one that drives it */
rdl__step_t rdl__call_begin(struct rdl__call *call, int64_t now);

/* The outcome is decided. `undo`: start one; false if none is wanted, or a successor is under way as the undo.
 * `by_loop`: the loop drove the call, and gives its reference back: the call may be gone on return. */
void rdl__call_conclude(struct rdl__call *call, int rc, bool undo, bool by_loop, int64_t now);

/* ---- by_caller.c ------------------------------------------------------------------------------------------------ */

/* Drive until the call has ended (true) or is handed to the loop, to wait (false).  @thread the caller's */
bool rdl__call_drive_blocking(struct rdl__call *call, rdl__step_t step, int64_t now);

/* ---- by_loop.c: @thread loop, all of it ------------------------------------------------------------------------- */

/* Posted when the call is queued, to set its deadline's timer, and when the loop takes it over (call->next). */
void rdl__call_on_task(struct rdl__task *task, int64_t now);
void rdl__call_on_timer(struct rdl__timer *timer, int64_t now);
void rdl__call_on_cancel(struct rdl__task *task, int64_t now);
void rdl__call_done_on_loop(struct rdl__req *req, int64_t now);

/* ---- fan.c ------------------------------------------------------------------------------------------------------ */

/* The call begins with rdl__call_fan_begin; or the loop begins it. */
void rdl__call_join_fan(struct rdl__call *call, struct rdl__fan *fan);

/* ---- request.c -------------------------------------------------------------------------------------------------- */

extern const struct rdl__req_ops rdl__blocking_ops, rdl__blocking_acked_ops;
extern const struct rdl__req_ops rdl__loop_ops, rdl__loop_acked_ops;

#define RDL__DETOUR_PAUSE_MS 10
#define RDL__EARLY_PAUSE_MS 1 /* a take is asked again that has come before its owner's release */

/* For a request's `decode`: does the answer send it elsewhere? RDL__DETOUR_ASK: to call->ask. */
enum rdl__detour rdl__call_detour_of(struct rdl__call *call, const struct rdl__reply *reply);
bool rdl__call_misrouted(const struct rdl__req *req);

/* Does it wait for a server as it waits for a holder? Acquires of types without holds do, too. */
static inline bool rdl__call_outwaits(const struct rdl__call *call)
{
    return call->verb->acquires && rdl__call_name(call)->settings.on_outage != RDL_OUTAGE_FAIL;
}

int64_t rdl__call_answer_by(const struct rdl__call *call); /* when waiting for an answer ends */

/* When waiting for the answer to one request ends. */
static inline int64_t rdl__call_send_deadline(struct rdl__call *call, int64_t now)
{
    int64_t most = rdl__call_outwaits(call) ? rdl__alone_at(call, now)
                                            : rdl__after_ms(now, rdl__call_client(call)->outage_timeout_ms);
    int64_t by = rdl__call_answer_by(call);

    return by < most ? by : most;
}

rdl__step_t rdl__call_answered(struct rdl__call *call, int64_t now);

/* Its request was given up: if it leaves a successor in the lane, that is the call's undo. */
void rdl__call_successor_begins(struct rdl__call *call, enum rdl__outcome outcome, enum rdl__way way);

/* Waiting ends: `code`, or RDL_OK when the deadline has come. Between: no request of the call is in a lane. */
rdl__step_t rdl__call_stopped(struct rdl__call *call, int code, enum rdl__outcome outcome);
rdl__step_t rdl__call_stopped_between(struct rdl__call *call, int code);

/* ---- acked.c ---------------------------------------------------------------------------------------------------- */

/* Instead of a request that would be undone, as the server has refused WAIT lately (RDL__ASKS_REFUSED). */
rdl__step_t rdl__call_not_asked(struct rdl__call *call);

/* For a request's `encode`: append WAIT, with a timeout that ends before the call's. For `decode`: its answer. */
void rdl__call_put_wait(const struct rdl__call *call, struct rdl__buf *to);
void rdl__call_hear_acks(struct rdl__call *call, const struct rdl__reply *reply);

/* RDL_ENOREPLICAS, with what `lock` and `server` are called. */
void rdl__call_explain_acks(const struct rdl__call *call, const char *lock, const char *server, rdl_err_t *err);

/* ---- undo.c ----------------------------------------------------------------------------------------------------- */

extern const struct rdl__req_ops rdl__undo_ops;

/* Its pending step, RDL__NEXT_UNDO or RDL__NEXT_UNDONE.  @thread loop */
void rdl__undo_on_task(struct rdl__call *call, int64_t now);
/* Send it again: its time has come, or the client closes and does not wait for that.  @thread loop */
void rdl__undo_repeat(struct rdl__debt *debt);

/* The undo begins; or it has begun as a successor, and may be settled already: then it was counted down before it is
 * counted up here. */
void rdl__undo_begins(struct rdl__call *call, enum rdl__way way);
void rdl__undo_post(struct rdl__call *call); /* the loop is to send it  @thread any */
/* Undo what replicas have not confirmed before the call returns, if the server answers in time.  @thread the caller's
 */
void rdl__undo_at_once(struct rdl__call *call, int64_t now);

/* Called twice: when the call is concluded, and when its undo is settled, perhaps on different threads and in either
 * order. The second lets the client go on closing, and gives the undo's reference back. */
void rdl__undo_gate(struct rdl__call *call);

/* Are there undos that its first try must not overtake? Else the try may be refused because of what an ended call has
 * left at the server. They need not be answered first: the try goes behind them on their connection. */
static inline bool rdl__behind_undos(const struct rdl__call *call)
{
    return atomic_load(&rdl__call_name(call)->undos) != 0 &&
           (call->verb->restores || (call->verb->acquires && call->take.tries == 0));
}

/* The connection on which they are, for a try that would go the `usual` way. May set call->lane. */
enum rdl__way rdl__way_behind_undos(struct rdl__call *call, enum rdl__way usual);

/* It was answered, or ends without an answer: takes need not go behind it any more.  @thread that of the answer */
void rdl__undo_heard(struct rdl__call *call);

/* ---- detached.c ------------------------------------------------------------------------------------------------- */

/* Is its request a release to be detached? Send it then: the call has an undo from here on, and ends with
 * RDL_OK.  @thread the caller's */
static inline bool rdl__call_detaches(const struct rdl__call *call)
{
    return call->verb->releases && rdl__call_name(call)->settings.detaches && call->detours == 0;
}
void rdl__detached_send(struct rdl__call *call);

/* Later, as the undo, for its `decode`: read its answer. */
void rdl__detached_read(struct rdl__call *call, const struct rdl__reply *reply);
/* It has ended, or has been answered: told once.  @locks none */
void rdl__detached_ends(struct rdl__call *call);

/* A release of the record's owner has failed (rec->verdict), which is told here, once.  @locks the name's */
int rdl__detached_verdict(struct rdl__record *rec, rdl_err_t *err);

/* Memory for a call where there is no other: what the take has reserved for the order, a release; or NULL.  @locks
 * takes the name's */
struct rdl__call *rdl__detached_reserved(const struct rdl__order *order, rdl_owner_t *owner);

/* ---- tell.c ----------------------------------------------------------------------------------------------------- */

void rdl__call_count_attempt(const struct rdl__call *call); /* it begins, or ends without that  @locks none */
void rdl__call_count_result(const struct rdl__call *call, int64_t now); /* to the metrics, and the log */
void rdl__call_explain(const rdl_op_t *op, rdl_err_t *err);             /* why it failed, as a text */
extern const struct rdl__op_ops rdl__call_op_ops;

/* Was it granted while its caller slept, and lost before the caller could be told? Returns the order that takes the
 * count back; its verb is NULL when there is nothing to take back.  @locks none */
struct rdl__order rdl__call_lost_meanwhile(struct rdl__call *call);

static inline int64_t rdl__call_result(const struct rdl__call *call)
{
    return call->op.result == RDL_OK && !call->verb->on_record ? call->answer : call->op.result;
}

/* ---- each request ----------------------------------------------------------------------------------------------- */

/* The lane on which the request travels. */
static inline struct rdl__lane *rdl__call_lane(const struct rdl__call *call)
{
    if (call->way == RDL__WAY_CALLERS)
        return rdl__shard_lane(call->shard, call->lane);
    return call->way == RDL__WAY_ACKED ? rdl__acks_lane(&call->shard->acked) : call->shard->loop_lane;
}

/* Initialise the request, and decide where it goes. */
static inline void rdl__call_ready(struct rdl__call *call, const struct rdl__req_ops *ops, enum rdl__way way)
{
    call->resent_once |= call->req.resent;
    rdl__req_init(&call->req, ops);
    call->way = (unsigned char)way;
    call->sent_to = call->shard = rdl__name_shard(rdl__call_name(call));
    if (call->detours == 0)
        return;
    call->req.resent = call->sent_before;
    call->req.asking = call->detour == RDL__DETOUR_ASK;
    if (call->req.asking)
        call->sent_to = call->shard = call->ask;
    call->detour = RDL__DETOUR_NONE;
}

/* Ops of the request's successor, or NULL. The successor may be settled before the caller of lane_call returns, so it
 * needs nothing that is set up later. */
static inline const struct rdl__req_ops *rdl__call_successor(const struct rdl__call *call)
{
    return call->verb->has_successor ? &rdl__undo_ops : NULL;
}

#endif
