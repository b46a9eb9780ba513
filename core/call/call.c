/* SPDX-License-Identifier: MIT */
/* call.c - a single lock's call: made, given its turn on the record, begun, ended.
 *
 * A call is driven by, in this order:
 *
 *   the caller's thread   begins the verb, sends on one of the shared lanes, finishes: the uncontended blocking call
 *                         never involves the loop (by_caller.c)
 *   the loop              takes over when the call has to wait for the lock or for an earlier verb of its owner; drives
 *                         asynchronous calls from the start, on a lane of its own (by_loop.c)
 *   the loop again        sends the undo, after the call has ended (undo.c)
 *   whoever reads         has the answer to a release that is not waited for (detached.c)
 *
 * A composite's thread sends its members' first requests itself (fan.c). A caller undoes what replicas did not confirm
 * itself (rdl__undo_at_once).
 *
 * A verb is a table (verb.h): begin decides locally and fills in what is to be sent, encode and decode write the
 * command and read the reply, answered returns the next step. A cancellation, a time-out and the client's closing go
 * through rdl__call_stopped. The steps of an acquire come from the machine in take.c.
 *
 * The call is its record's verb in flight from `enter` to `leave`; so it alone changes the record's number, count and
 * token. When it is given up, the record does not wait for its undo.
 *
 * References: the caller's (or that of the user's rdl_op_t), one while the loop drives the call, one for the undo, one
 * for the callback, one for a cancellation that was posted.
 */
#include "core/call/inner.h"

#include "core/base/err.h"

/* ---- life ------------------------------------------------------------------------------------------------------- */

/* The last reference was given back. */
void rdl__call_unused(rdl_op_t *op)
{
    struct rdl__call *call = rdl__call_of(op);
    rdl_owner_t *owner = op->owner;
    rdl_lock_t *lock = op->lock;

    if (call->words != NULL)
        rdl__free(&rdl__call_client(call)->mem, call->words, (size_t)call->words_len + 1);
    if (call->verb->free_arguments != NULL)
        call->verb->free_arguments(call);
    rdl__owner_give_spare(owner, call, sizeof *call);
    rdl__owner_unref(owner);
    rdl__handle_unref(lock);
}

static void cancel(struct rdl__underway *underway, int code)
{
    struct rdl__call *call = rdl__container(underway, struct rdl__call, op.underway);

    if (!rdl__op_cancels(&call->op, call->verb->acquires, code))
        return;
    rdl__call_ref(call);
    rdl__parker_post(&call->req.park, RDL__POST_CANCEL);
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->cancel_task);
}

static void call_memory(struct rdl__call *call)
{
    rdl__op_memory(&call->op, &rdl__call_op_ops, cancel);
    rdl__task_init(&call->task, rdl__call_on_task);
    rdl__task_init(&call->cancel_task, rdl__call_on_cancel);
    rdl__timer_init(&call->timer, rdl__call_on_timer);
}

/* Memory for a call: the owner's spare, fresh, or else from the order's reserve. */
static struct rdl__call *take_memory(const struct rdl__order *order, rdl_owner_t *owner, bool *ret_fresh)
{
    struct rdl__call *call = rdl__owner_take_spare(owner, sizeof *call, ret_fresh);

    if (call == NULL && order->reserve != NULL)
        call = rdl__reserve_take(order->reserve);
    if (call == NULL)
        call = rdl__detached_reserved(order, owner);
    return call;
}

static inline struct rdl__call *call_make(const struct rdl__order *order, rdl_owner_t *owner)
{
    bool fresh;
    struct rdl__call *call = take_memory(order, owner, &fresh);

    if (call == NULL)
        return NULL;
    if (fresh)
        call_memory(call);
    rdl__clear(&call->op.lock, offsetof(struct rdl__call, timer) - offsetof(struct rdl__call, op.lock));
    call->verb = order->verb;
    rdl__op_init(&call->op, order, rdl__owner_ref(owner), 1);
    (void)rdl__handle_ref(order->lock);
    call->ops = order->ops != NULL ? order->ops : order->lock->ops;
    call->shard = &order->lock->name->client->home;
    call->lane = owner->lane;
    call->amount = (int32_t)order->amount;
    call->n = order->n;
    call->one_try = order->one_try || order->wait_ms == 0;
    if (call->verb->keep_arguments != NULL && !call->verb->keep_arguments(call, order)) {
        rdl__call_unused(&call->op);
        return NULL;
    }
    return call;
}

/* ---- the record ------------------------------------------------------------------------------------------------- */

/* The verb in flight on it from now on.  @locks the name's */
static void have_record(struct rdl__call *call, struct rdl__record *rec)
{
    rdl__assert_locked(&rec->name->mu);
    atomic_fetch_add_explicit(&rec->refs, 1, memory_order_relaxed);
    call->rec = rec;
    rec->active = call;
}

/* The call of its owner's that sleeps without the record which this one wants; or NULL.  @locks the name's; takes the
 * owner's */
static struct rdl__call *sleeper_of(const struct rdl__call *call)
{
    rdl_owner_t *owner = call->op.owner;
    struct rdl__call *found = NULL;

    rdl__assert_locked(&rdl__call_name(call)->mu);
    if (!rdl__name_waited_for(rdl__call_name(call)))
        return NULL;
    rdl__mutex_lock(&owner->mu);
    for (struct rdl__link *l = owner->calls.next; l != &owner->calls && found == NULL; l = l->next) {
        struct rdl__underway *underway = rdl__container(l, struct rdl__underway, link);
        struct rdl__call *other = rdl__container(underway, struct rdl__call, op.underway);

        if (underway->cancel == cancel && /* not a composite's */
            other->op.lock->name == rdl__call_name(call) && other->ops == call->ops && other->unrecorded)
            found = other;
    }
    rdl__mutex_unlock(&owner->mu);
    return found;
}

/* There is no record: make one if the call needs it, to be granted or to queue behind a sleeper of its owner's. A verb
 * that does not acquire begins at once where none can be had, as nothing is held.  @locks the name's; takes the
 * owner's */
static int bring_record(const struct rdl__call *call, struct rdl__record **ret)
{
    struct rdl__call *sleeper = sleeper_of(call);
    int rc = RDL_OK;

    rdl__assert_locked(&rdl__call_name(call)->mu);
    if (sleeper != NULL || call->verb->acquires)
        rc = rdl__record_make(rdl__call_name(call), call->op.owner, call->ops, ret);
    if (sleeper != NULL && rc == RDL_OK)
        have_record(sleeper, *ret);
    return call->verb->acquires ? rc : RDL_OK;
}

void rdl__call_unrecord(struct rdl__call *call)
{
    struct rdl__record *rec = call->rec;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__mutex_lock(&rec->name->mu);
    /* Does somebody need it: its own hold, a call behind this one, or others than the list, the owner and the call? */
    if (rec->count > 0 || !rdl__list_empty(&call->op.pending) || atomic_load(&rec->refs) > 3) {
        rdl__mutex_unlock(&rec->name->mu);
        return;
    }
    call->unrecorded = true;
    call->rec = NULL;
    rec->active = NULL;
    rdl__record_let_go_and_unlock(rec);
    rdl__record_unref(rec);
}

/* The first sleeper has left the name its record's memory, and whoever has had the lock since an idle record: so one
 * that wakes alone is not short of memory. */
int rdl__call_record_anew(struct rdl__call *call)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *rec, *idle;
    int rc = RDL_OK;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__mutex_lock(&name->mu);
    while (call->rec == NULL && (rc = rdl__record_make(name, call->op.owner, call->ops, &rec)) == RDL_ENOMEM &&
           (idle = name->idle) != NULL) {
        name->idle = NULL;
        rdl__record_let_go_and_unlock(idle);
        rdl__mutex_lock(&name->mu);
    }
    if (call->rec == NULL && rc == RDL_OK)
        have_record(call, rec);
    call->unrecorded = false;
    rdl__mutex_unlock(&name->mu);
    return call->rec != NULL ? RDL_OK : rc;
}

/* Become the verb in flight on the owner's record. 1: done, or the verb needs no record; 0: queued behind another verb,
 * after which the loop begins it, perhaps before this returns: so *ret_op is set before, and not read later, as its
 * callback may have freed what it is part of; RDL_ENOMEM; RDL_ELOST: the owner is gone; a detached release has
 * failed (detached.c). */
static int enter(struct rdl__call *call, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *rec;
    int rc;

    if (!call->verb->on_record) {
        if (ret_op != NULL)
            *ret_op = &call->op;
        return 1;
    }
    rdl__mutex_lock(&name->mu);
    rec = rdl__record_find(name, call->op.owner, call->ops);
    if (rec == NULL && call->op.owed)
        rec = rdl__record_find_orphan(name, call->op.owner, call->ops);
    if (rec != NULL)
        rc = call->verb->acquires && rec->verdict != RDL_OK ? rdl__detached_verdict(rec, err) : RDL_OK;
    else if ((rc = bring_record(call, &rec)) < 0)
        (void)rdl__err_set(err, rc, NULL);
    if (rc == RDL_OK) {
        rc = 1;
        if (ret_op != NULL)
            *ret_op = &call->op;
    }
    if (rec != NULL && rc > 0) {
        if (name->idle == rec)
            name->idle = NULL;
        if (rec->active == NULL) {
            have_record(call, rec);
        } else {
            atomic_fetch_add_explicit(&rec->refs, 1, memory_order_relaxed);
            call->rec = rec;
            (void)rdl__alone_yields(rec);
            rdl__call_goes(call, RDL__QUEUED);
            rdl__list_push_back(&rec->active->op.pending, &call->op.pending);
            rdl__loop_post(rdl__client_loop(rdl__call_client(call)),
                           &call->task); /* under mu, so before leave or end_queued can */
            rc = 0;
        }
    }
    rdl__mutex_unlock(&name->mu);
    return rc;
}

/* However the call has ended: what it sent may have run at the server at any time until now, so note until when the
 * hold may last there. For a hold that is renewed for good, rdl__record_most_ms computes that instead.  @locks the
 * name's */
static void note_lease(const struct rdl__call *call, struct rdl__record *rec, int64_t now)
{
    rdl__assert_locked(&rec->name->mu);
    if (!call->verb->prolongs || call->sent_to == NULL || call->n != rec->hold.id.n ||
        (call->op.lease_ms == RDL_LEASE_AUTO && rec->renewed && !rec->may_come))
        return;
    rdl__record_lasts(rec, rdl__watchdog_expiry(rdl__call_client(call)->watchdog, now, rdl__call_lease_ms(call)));
}

/* Let the next verb have the record. */
static void leave(struct rdl__call *call, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *rec;
    struct rdl__link *l;
    bool abandon, forget;

    if (!call->unrecorded && call->rec == NULL)
        return;
    rdl__mutex_lock(&name->mu);
    call->unrecorded = false;
    if ((rec = call->rec) == NULL) { /* and nobody has come behind it */
        rdl__mutex_unlock(&name->mu);
        return;
    }
    note_lease(call, rec, now);
    if (call->undo.detached)
        rec->detached++;
    else
        call->rec = NULL;
    if ((l = rdl__list_first(&call->op.pending)) != NULL)
        rdl__list_remove(&call->op.pending); /* the queue is the next one's */
    rec->active = l == NULL ? NULL : rdl__container(l, struct rdl__call, op.pending);
    if (rec->active != NULL)
        rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &rec->active->task);
    abandon = rec->active == NULL && rec->orphaned && rec->count > 0;
    forget = rec->active == NULL && !rec->orphaned && rec->count > 0 && rdl__list_empty(&name->handles);
    if (abandon || forget)
        rdl__mutex_unlock(&name->mu);
    else
        rdl__record_retire_and_unlock(rec);
    if (abandon)
        rdl__record_abandon(rec);
    else if (forget) /* the last handle went while a composite had this verb under way */
        rdl__record_forget_all(name);
    rdl__record_unref(rec);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

void rdl__call_set_deadline(struct rdl__call *call, int64_t now)
{
    if (call->verb->acquires && call->op.wait_ms > 0)
        call->deadline = rdl__op_wait_ends(&call->op, 0);
    else
        call->deadline = rdl__after_ms(now, rdl__call_client(call)->command_timeout_ms);
}

rdl__step_t rdl__call_begin(struct rdl__call *call, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);

    rdl__call_count_attempt(call);
    rdl__call_set_deadline(call, now);
    if (now != call->op.started_at && code == RDL_OK && call->verb->acquires &&
        now >= rdl__call_answer_by(call)) /* it was queued all the time */
        code = RDL_ETIMEDOUT;
    return code != RDL_OK && code != RDL_ECONN ? rdl__finish_with(code) : call->verb->begin(call, now);
}

/* A `direct` callback runs while the call still is its record's verb in flight: an owner that ends leaves a record
 * alone until then, so the callback can give back what was granted even if the owner ends at that moment. */
void rdl__call_conclude(struct rdl__call *call, int rc, bool undo, bool by_loop, int64_t now)
{
    rdl_client_t *client = rdl__call_client(call);

    if (call->op.result != rc) /* equal if rdl__undo_at_once has set it: then the loop may be reading it */
        call->op.result = rc;
    rdl__call_goes(call, RDL__ENDED);
    if (call->verb->ended != NULL)
        call->verb->ended(call, rc);
    if (rc < 0 && call->verb->acquires && call->verb->has_successor && !call->undo.begun && rdl__call_may_come(call))
        undo = true; /* it failed, but an earlier sending of it may be granted yet */
    if (undo) {      /* before the end is told, and a next verb sent */
        rdl__undo_post(call);
    }
    rdl__call_count_result(call, now); /* before anybody is told, who may read the metrics */
    if (call->op.direct)
        rdl__op_announce(&call->op);
    leave(call, now);
    rdl__owner_end(call->op.owner, &call->op.underway);
    if (call->undo.begun)
        rdl__undo_gate(call);
    else
        rdl__client_call_ends(client);
    if (!call->op.blocking && !call->op.direct)
        rdl__op_announce(&call->op);
    else if (call->op.blocking && by_loop)
        rdl__parker_post(&call->op.parker, RDL__POST_DONE);
    if (by_loop)
        rdl__call_unref(call);
}

/* ---- call.h ----------------------------------------------------------------------------------------------------- */

/* Make a call and give it its turn. 1: begin it; 0: it is queued, and the loop will; an error: nothing was done.
 * *ret_call has one reference, the caller's; unless ret_op is NULL that is the user's, in *ret_op. */
static int prepare(const struct rdl__order *order, bool blocking, struct rdl__call **ret_call, rdl_op_t **ret_op,
                   rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    struct rdl__call *call;
    rdl_owner_t *owner;
    int rc;

    if ((rc = rdl__op_begins(order, client, &owner)) < 0)
        return rdl__err_set(err, rc, NULL);
    rc = RDL_ENOMEM;
    if ((call = call_make(order, owner)) == NULL) {
        (void)rdl__err_set(err, rc, NULL);
        goto fail;
    }
    call->op.blocking = blocking;
    call->op.started_at = rdl__now();
    rdl__call_ref(call); /* the loop's, in case it drives the call */
    rdl__owner_begin(owner, &call->op.underway);
    *ret_call = call;
    if ((rc = enter(call, ret_op, err)) >= 0)
        return rc;
    rdl__owner_end(owner, &call->op.underway);
    rdl__call_unref(call);
    rdl__call_unref(call);
fail:
    rdl__client_call_ends(client);
    return rc;
}

/* Take back the count of a lost hold, which sends nothing: here, or on the loop if the owner has another verb under
 * way, for which the caller's deadline has no time. */
static void take_back(const struct rdl__order *order)
{
    struct rdl__call *call;
    int rc = prepare(order, false, &call, NULL, NULL);

    if (rc < 0)
        return;
    rdl__call_unref_by(
        call, rc > 0 && rdl__call_drive_blocking(call, rdl__call_begin(call, call->op.started_at), call->op.started_at)
                  ? 2
                  : 1);
}

int64_t rdl__call(const struct rdl__order *order, rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    struct rdl__order back;
    struct rdl__call *call;
    unsigned refs = 1;
    int64_t result;
    int rc;

    if ((rc = rdl__client_call_begins(client)) < 0) /* so that the client stays whole until the outcome is told */
        return rdl__err_set(err, rc, NULL);
    if ((rc = rdl__client_may_block(client, err)) < 0 || (rc = prepare(order, true, &call, NULL, err)) < 0) {
        rdl__client_call_ends(client);
        return rc;
    }
    if (rc > 0 && rdl__behind_undos(call) &&
        rdl__way_behind_undos(call, RDL__WAY_CALLERS) != RDL__WAY_CALLERS) { /* the loop has yet to send some of them */
        rdl__call_hand_over(call, RDL__NEXT_BEGIN);
        rc = 0;
    }
    if (rc == 0 || !rdl__call_drive_blocking(call, rdl__call_begin(call, call->op.started_at), call->op.started_at)) {
        (void)rdl__park_for(&call->op.parker, RDL__POST_DONE, RDL__NEVER);
        if ((back = rdl__call_lost_meanwhile(call)).verb != NULL)
            take_back(&back);
    } else {
        refs = 2; /* the loop's, too, which never drove it; and it ended just now, so it cannot be lost meanwhile */
    }
    result = rdl__call_result(call);
    if (result < 0)
        rdl__call_explain(&call->op, err);
    rdl__client_call_ends(client);
    rdl__call_unref_by(call, refs);
    return result;
}

int rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__call *call;
    int rc;

    if ((rc = prepare(order, false, &call, ret_op, err)) < 0)
        return rc;
    if (rc > 0 && order->fan != NULL)
        rdl__call_join_fan(call, order->fan);
    else if (rc > 0)
        rdl__call_hand_over(call, RDL__NEXT_BEGIN);
    if (ret_op == NULL)
        rdl__call_unref(call);
    return RDL_OK;
}

/* A call that consists of its undo alone, which is posted when it says what that is: of what the record has, or NULL.
 * NULL: there is no memory or no handle, or the client closes. */
static struct rdl__call *make_undo(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__record *rec)
{
    struct rdl__order order = {.verb = &rdl__verb_release, .lease_ms = name->client->watchdog_lease_ms};
    int64_t most_ms;
    struct rdl__call *call;

    if (rdl__client_call_begins(name->client) < 0)
        return NULL;
    rdl__mutex_lock(&name->mu);
    if (rec != NULL && (most_ms = rdl__record_most_ms(rec, rdl__now())) > order.lease_ms)
        order.lease_ms = most_ms;
    order.lock = rdl__name_any_handle(name);
    rdl__mutex_unlock(&name->mu);
    call = order.lock == NULL ? NULL : call_make(&order, owner);
    if (order.lock != NULL)
        rdl__handle_unref(order.lock);
    if (call == NULL)
        rdl__client_call_ends(name->client);
    return call;
}

static void post_undo(struct rdl__call *call)
{
    rdl__call_goes(call, RDL__ENDED);
    rdl__undo_post(call);
    rdl__undo_gate(call);
    rdl__call_unref(call);
}

void rdl__call_tidy(struct rdl__record *rec, int64_t n)
{
    struct rdl__call *call = make_undo(rec->name, rec->owner, rec);

    if (call == NULL)
        return;
    call->n = n;
    call->ops = rec->ops;  /* the handle may be of the other end */
    call->may_come = true; /* the hold's take, where CLIENT KILL is refused */
    post_undo(call);
}

bool rdl__call_leave_line(struct rdl__name *name)
{
    rdl_owner_t *owner;
    struct rdl__call *call = NULL;

    if (rdl__client_call_begins(name->client) < 0)
        return false;
    if (rdl__owner_self(name->client, &owner) == RDL_OK)
        call = make_undo(name, owner, NULL);
    if (call != NULL) {
        call->n = rdl__client_number(name->client);
        call->line = RDL__LINE_BACK; /* as the release by which it may stand there, so that the undo leaves */
        post_undo(call);
    }
    rdl__client_call_ends(name->client);
    return call != NULL;
}
