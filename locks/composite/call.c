/* SPDX-License-Identifier: MIT */
/* composite/call.c - a composite's call: its turn on the record, its calls of the members, its end.
 *
 * Members' loops carry it on as their answers come; deadlines, cancellation and the end are its driver's: its own
 * thread (blocking, by_caller.c) or the home client's loop (asynchronous, by_loop.c). Why it ended as it did
 * is told by tell.c.  @locks mu, all of it, unless it says otherwise
 *
 * One acquire, release or extend at a time is under way on a record; later ones queue. An acquire that has its majority
 * may leave stragglers: member calls that are still under way. The next call on that record cancels them, and begins
 * when they have ended, which does not depend on a server's answer. A release begins at once, since it asks only
 * members that were taken; a member that a straggler takes after that is given back.
 *
 * How far it has come is in phase.h:
 *
 *   prepare --(queued)--> verb->begin --member calls--> verb->answered ... rdl__composite_end --handle_due--> conclude
 */
#include "locks/composite/inner.h"
#include "locks/composite/verbs.h"

#include "core/base/err.h"

/* ---- life ------------------------------------------------------------------------------------------------------- */

size_t rdl__composite_call_size(unsigned n)
{
    return sizeof(struct rdl__composite_op) + n * (sizeof(struct rdl__member_call) + sizeof(struct rdl__member));
}

static void call_ref(struct rdl__composite_op *call)
{
    rdl__op_ref(&call->op);
}

void rdl__composite_op_unused(rdl_op_t *op)
{
    struct rdl__composite_op *call = rdl__composite_op_of(op);
    struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__mutex_lock(&j->mu);
    rdl__composite_record_unref(call->rec);
    rdl__composite_unlock(j);
    rdl__owner_unref(op->owner);
    rdl__free(&j->home->mem, call, j->call_size);
    rdl__composite_unref(j);
}

void rdl__composite_op_unref(struct rdl__composite_op *call)
{
    if (rdl__op_unref(&call->op, 1))
        rdl__composite_op_unused(&call->op);
}

static void on_cancel(struct rdl__underway *underway, int code);
static void on_cancel_named(struct rdl__underway *underway, int code);
static void on_cancel_taken(struct rdl__underway *underway, int code);

static struct rdl__composite_op *call_make(const struct rdl__order *order, const struct rdl__composite_verb *verb,
                                           struct rdl__composite *j, struct rdl__composite_record *rec, bool blocking)
{
    struct rdl__composite_op *call = rdl__alloc(&j->home->mem, j->call_size);

    rdl__assert_locked(&j->mu);
    if (call == NULL && verb->gives_back)
        call = rdl__reserve_take(&rec->reserve);
    if (call == NULL)
        return NULL;
    rdl__clear(call, j->call_size);
    rdl__op_memory(&call->op, &rdl__composite_op_ops, on_cancel);
    /* Two references: the caller's, and one until it has ended. The owner is the one in the home client. */
    rdl__op_init(&call->op, order, rdl__owner_ref(rec->hold[j->home_member].owner), 2);
    (void)rdl__composite_ref(j);
    call->op.started_at = rdl__now();
    call->op.blocking = blocking;
    rdl__list_init(&call->pending);
    rdl__list_init(&call->listening);
    rdl__task_init(&call->task, rdl__composite_on_task);
    rdl__timer_init(&call->timer, rdl__composite_on_timer);
    call->verb = verb;
    call->rec = rec;
    rec->refs++;
    call->named.cancel = on_cancel_named;
    rdl__list_init(&call->named.link);
    call->member = (struct rdl__member *)(void *)&call->call_at[j->member_count];
    for (unsigned i = 0; i < j->member_count; i++) {
        call->call_at[i].call = call;
        call->call_at[i].index = i;
        call->call_at[i].taken.cancel = on_cancel_taken;
        rdl__list_init(&call->call_at[i].taken.link);
    }
    return call;
}

/* An owner's mutex will do, as the call is under way then, and is not freed. */
void rdl__composite_nudge(struct rdl__composite_op *call)
{
    if (call->op.blocking)
        rdl__parker_post(&call->op.parker, RDL__POST_NUDGE);
    else
        rdl__loop_post(rdl__client_loop(call->op.owner->client), &call->task);
}

/* @locks any: the owner's */
static void on_cancel(struct rdl__underway *underway, int code)
{
    struct rdl__composite_op *call = rdl__container(underway, struct rdl__composite_op, op.underway);

    if (rdl__op_cancels(&call->op, call->verb->acquires, code))
        rdl__composite_nudge(call);
}

/* The closing of another client than the home ends only the calls of its own members.
 * @locks any: the owner's */
static void on_cancel_named(struct rdl__underway *underway, int code)
{
    struct rdl__composite_op *call = rdl__container(underway, struct rdl__composite_op, named);

    if (code != RDL_ECLOSED)
        on_cancel(&call->op.underway, code);
}

/* A client whose member was taken closes: a multi-lock, which needs all members, ends.  @locks any: the owner's */
static void on_cancel_taken(struct rdl__underway *underway, int code)
{
    struct rdl__composite_op *call = rdl__container(underway, struct rdl__member_call, taken)->call;

    if (code == RDL_ECLOSED && !rdl__composite_of_call(call)->plan->majority)
        on_cancel(&call->op.underway, code);
}

/* From now on it can be canceled, also by the owner that the user named, if that is of another client than the home. */
static void enlist(struct rdl__composite_op *call)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    rdl__owner_begin(call->op.owner, &call->op.underway);
    if (call->rec->owner != call->op.owner)
        rdl__owner_begin(call->rec->owner, &call->named);
}

static void delist(struct rdl__composite_op *call)
{
    rdl__owner_end(call->op.owner, &call->op.underway);
    rdl__owner_end(call->rec->owner, &call->named);
}

/* Not for the home client: the call itself keeps that open. */
void rdl__composite_owing_begins(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__member_call *q = &call->call_at[i];
    rdl_owner_t *owner = call->rec->hold[i].owner;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (owner->client == call->op.owner->client || q->owing)
        return;
    q->owing = true;
    rdl__client_owing_begins(owner->client);
    rdl__owner_begin(owner, &q->taken);
}

static void owing_ends(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__member_call *q = &call->call_at[i];
    rdl_owner_t *owner = call->rec->hold[i].owner;

    if (!q->owing)
        return;
    q->owing = false;
    rdl__owner_end(owner, &q->taken);
    rdl__client_owing_ends(owner->client);
}

void rdl__composite_owing_ends(struct rdl__composite_op *call, unsigned i)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    owing_ends(call, i);
}

void rdl__composite_owing_ends_all(struct rdl__composite_op *call)
{
    if (!rdl__composite_ended(call))
        rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++)
        owing_ends(call, i);
}

/* ---- asking the members ----------------------------------------------------------------------------------------- */

static void on_answer(rdl_lock_t *member, int64_t result, const rdl_err_t *err, void *arg);

int rdl__composite_ask(struct rdl__composite_op *call, unsigned i, const struct rdl__verb *verb, int64_t wait_ms,
                       bool one_try)
{
    struct rdl__member_call *q = &call->call_at[i];
    struct rdl__member_hold *hold = &call->rec->hold[i];
    struct rdl__order order = {
        .verb = verb,
        .lock = rdl__member_lock(rdl__composite_of_call(call), i),
        .owner = hold->owner,
        .wait_ms = wait_ms,
        .lease_ms = call->op.lease_ms,
        .fn = (rdl__callback_fn *)on_answer,
        .arg = q,
        .one_try = one_try,
        .direct = true,
        .owed = call->verb->gives_back,
        .fan = call->fan,
        .reserve = call->verb->gives_back ? &hold->reserve : NULL,
    };
    bool takes = verb->acquires;
    int rc;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (takes &&
        !rdl__reserve_fill(&hold->reserve, &hold->owner->client->mem, sizeof(struct rdl__call), hold->mine + 1))
        return rdl__err_set(&call->why, RDL_ENOMEM, NULL);
    if ((rc = rdl__call_async(&order, &q->op, &call->why)) < 0)
        return rc;
    q->under_way = true;
    q->takes = takes;
    call_ref(call);
    return RDL_OK;
}

void rdl__composite_cancel_takes(struct rdl__composite_op *call)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++)
        if (call->call_at[i].under_way && call->call_at[i].takes)
            rdl_op_cancel(call->call_at[i].op);
}

static void on_heard(rdl_lock_t *member, int64_t result, const rdl_err_t *err, void *arg);

static void listen_to(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__composite *j = rdl__composite_of_call(call);
    struct rdl__member_call *q = &call->call_at[i];
    struct rdl__order order = {
        .verb = &rdl__verb_listen,
        .lock = rdl__member_lock(j, i),
        .owner = call->rec->hold[i].owner,
        .wait_ms = RDL_WAIT_FOREVER,
        .fn = (rdl__callback_fn *)on_heard,
        .arg = q,
        .direct = true,
    };

    if (rdl__call_async(&order, &q->listener, NULL) == RDL_OK)
        call_ref(call);
}

/* Not members whose releases are not heard on a shared channel (fair, spin). */
void rdl__composite_listen(struct rdl__composite_op *call)
{
    struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    rdl__composite_goes(call, RDL__COMPOSITE_LISTENING);
    call->plan.behind = !rdl__list_empty(&j->listening);
    rdl__list_push_back(&j->listening, &call->listening);
    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++) {
        if (rdl__news_public(rdl__member_lock(rdl__composite_of_call(call), i)->ops->news))
            listen_to(call, i);
    }
}

/* The first call that listens ends: the next one acts on releases from now on, and on those that it has noted. */
static void pass_turn(struct rdl__composite *j)
{
    struct rdl__composite_op *next;

    if (rdl__list_empty(&j->listening))
        return;
    next = rdl__container(j->listening.next, struct rdl__composite_op, listening);
    if (!next->plan.behind)
        return;
    next->plan.behind = false;
    rdl__composite_goes(next, RDL__COMPOSITE_HAS_TURN);
    rdl__composite_nudge(next);
}

static void end_listening(struct rdl__composite_op *call)
{
    struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__list_remove(&call->listening);
    if (call->verb->acquires && call->op.result == RDL_OK)
        j->taken++;
    pass_turn(j);
    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++)
        rdl_op_cancel(call->call_at[i].listener);
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

/* Take the record's next call off the queue, if it may begin: no other is active, and no straggler hinders it. */
static struct rdl__composite_op *next_call(struct rdl__composite_record *rec)
{
    struct rdl__link *l = rdl__list_first(&rec->pending);

    if (rec->active != NULL || l == NULL)
        return NULL;
    if (rec->straggling != NULL) {
        rdl__composite_cancel_takes(rec->straggling);
        if (!rdl__container(l, struct rdl__composite_op, pending)->verb->gives_back)
            return NULL;
    }
    rdl__list_remove(l);
    return rdl__container(l, struct rdl__composite_op, pending);
}

/* A call may end as it begins, and so call this again: the loop here then begins the next one. */
static void begin_next(struct rdl__composite_record *rec)
{
    struct rdl__composite_op *call;

    rdl__assert_locked(&rec->composite->mu);
    if (rec->beginning)
        return;
    rec->beginning = true;
    while ((call = next_call(rec)) != NULL) {
        rec->active = call;
        rdl__composite_goes(call, RDL__COMPOSITE_BEGUN);
        call->verb->begin(call, rdl__now());
    }
    rec->beginning = false;
}

static bool asking(const struct rdl__composite_op *call)
{
    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++)
        if (call->call_at[i].under_way)
            return true;
    return false;
}

/* The thread that drives the call concludes it. */
void rdl__composite_end(struct rdl__composite_op *call, int64_t result)
{
    struct rdl__composite_record *rec = call->rec;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    rdl__composite_goes(call, RDL__COMPOSITE_ENDED);
    call->op.result = result;
    end_listening(call);
    if (call->verb->acquires && asking(call)) {
        rec->straggling = call;
        call_ref(call);
    }
    if (rec->active == call)
        rec->active = NULL;
    rdl__composite_nudge(call);
    begin_next(rec);
}

/* A call that has ended: have its stragglers ended, too? Then the record is free for the next call. */
static void straggled(struct rdl__composite_op *call)
{
    struct rdl__composite_record *rec = call->rec;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (rec->straggling != call || asking(call))
        return;
    rec->straggling = NULL;
    begin_next(rec);
    rdl__composite_record_retire(rec);
    rdl__composite_op_unref(call); /* not the last: the member call that has just ended has one */
}

/* @thread the member's loop, or the call's own  @locks none */
static void on_answer(rdl_lock_t *member, int64_t result, const rdl_err_t *err, void *arg)
{
    struct rdl__member_call *q = arg;
    struct rdl__composite_op *call = q->call;
    struct rdl__composite *j = rdl__composite_ref(rdl__composite_of_call(call));
    rdl_op_t *op;

    (void)member;
    rdl__mutex_lock(&j->mu);
    op = q->op;
    q->op = NULL;
    q->under_way = false;
    call->verb->answered(call, q->index, result, err);
    straggled(call);
    rdl__composite_unlock(j);
    (void)rdl_op_free(op);
    rdl__composite_op_unref(call);
    rdl__composite_unref(j);
}

/* @thread the member's loop  @locks none */
static void on_heard(rdl_lock_t *member, int64_t result, const rdl_err_t *err, void *arg)
{
    struct rdl__member_call *q = arg;
    struct rdl__composite_op *call = q->call;
    struct rdl__composite *j = rdl__composite_ref(rdl__composite_of_call(call));
    struct rdl__plan_event news = {.kind = RDL__PLAN_RELEASED, .member = q->index, .now = rdl__now()};
    rdl_op_t *ended = NULL;

    rdl__assert_on_loop(rdl__client_loop(rdl__member_client(j, q->index)));
    (void)member;
    (void)err;
    rdl__mutex_lock(&j->mu);
    if (result != RDL__HEARD) {
        ended = q->listener;
        q->listener = NULL;
    } else if (!rdl__composite_ended(call)) {
        call->verb->feed(call, &news);
    }
    rdl__composite_unlock(j);
    if (ended != NULL) {
        (void)rdl_op_free(ended);
        rdl__composite_op_unref(call);
    }
    rdl__composite_unref(j);
}

/* ---- what is due ------------------------------------------------------------------------------------------------ */

/* The clients may be closing meanwhile; their structs stay as long as the handles. */
int64_t rdl__composite_patience_ms(const struct rdl__composite *j)
{
    int64_t most = 0;

    for (unsigned i = 0; i < j->member_count; i++) {
        rdl_client_t *client = rdl__member_client(j, i);
        int64_t ns = rdl__call_patience(client, &client->home);

        if (ns > most)
            most = ns;
    }
    return most / RDL__MS;
}

/* How long it waits for its turn.  @locks mu */
static int64_t turn_by(const struct rdl__composite_op *call)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (!call->verb->acquires || call->op.wait_ms == 0)
        return RDL__NEVER;
    return rdl__op_wait_ends(&call->op, rdl__composite_patience_ms(rdl__composite_of_call(call)) * RDL__MS);
}

bool rdl__composite_handle_due(struct rdl__composite_op *call, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);
    struct rdl__plan_event stop = {.kind = RDL__PLAN_STOP, .code = code, .now = now};
    struct rdl__plan_event timer = {.kind = RDL__PLAN_TIMER, .now = now};
    struct rdl__plan_event turn = {.kind = RDL__PLAN_TURN, .now = now};
    bool queued = call->phase == RDL__COMPOSITE_QUEUED;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (queued && code == RDL_OK && now >= turn_by(call))
        code = RDL_ETIMEDOUT;
    if (!rdl__composite_ended(call) && call->answers_by != 0 && now >= call->answers_by)
        rdl__composite_answers_are_late(call);
    if (rdl__composite_ended(call))
        return true;
    if (call->phase == RDL__COMPOSITE_HAS_TURN) {
        rdl__composite_goes(call, RDL__COMPOSITE_LISTENING);
        call->verb->feed(call, &turn);
    }
    if (queued && code != RDL_OK) {
        rdl__list_remove(&call->pending);
        rdl__composite_end(call, code);
    } else if (queued) {
        return false;
    } else if (call->verb->acquires && code != RDL_OK) {
        call->verb->feed(call, &stop);
    } else if (code != RDL_OK) {
        if (call->end_by == 0)
            call->end_by = rdl__after_ms(now, call->op.owner->client->close_timeout_ms);
        if (now >= call->end_by)
            rdl__composite_end(call, code);
    } else if (call->verb->acquires && now >= call->plan.wake_at) {
        call->verb->feed(call, &timer);
    }
    return rdl__composite_ended(call);
}

int64_t rdl__composite_next_due(const struct rdl__composite_op *call)
{
    int64_t ends_by = call->end_by != 0 ? call->end_by : RDL__NEVER;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (call->phase == RDL__COMPOSITE_QUEUED)
        return turn_by(call);
    if (call->verb->acquires)
        return call->plan.wake_at;
    return call->answers_by != 0 && call->answers_by < ends_by ? call->answers_by : ends_by;
}

void rdl__composite_conclude(struct rdl__composite_op *call)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    delist(call);
    if (!call->op.blocking) {
        rdl_client_t *home = call->op.owner->client;

        rdl__loop_unpost(rdl__client_loop(home), &call->task);
        rdl__loop_timer_off(rdl__client_loop(home), &call->timer);
        rdl__op_announce(&call->op);
    }
    rdl__composite_record_retire(call->rec);
}

/* ---- the beginning ---------------------------------------------------------------------------------------------- */

int rdl__composite_prepare(const struct rdl__order *order, const struct rdl__composite_verb *verb, struct rdl__fan *fan,
                           struct rdl__composite_op **ret_call, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__composite *j = rdl__composite_of(order->lock);
    struct rdl__composite_record *rec;
    struct rdl__composite_op *call;
    rdl_owner_t *owner;
    int rc;

    if ((rc = rdl__op_begins(order, j->home, &owner)) < 0)
        return rdl__err_set(err, rc, NULL);
    rdl__mutex_lock(&j->mu);
    if ((rc = rdl__composite_record_of(j, owner, order->owner != NULL, &rec)) < 0)
        goto out;
    rc = RDL_ENOMEM;
    if ((call = call_make(order, verb, j, rec, fan != NULL)) == NULL) {
        rdl__composite_record_retire(rec);
        goto out;
    }
    rc = RDL_OK;
    enlist(call);
    *ret_call = call;
    if (ret_op != NULL)
        *ret_op = &call->op;
    call->fan = fan;
    if (call->verb->on_record) {
        rdl__list_push_back(&rec->pending, &call->pending);
        begin_next(rec);
    } else {
        rdl__composite_goes(call, RDL__COMPOSITE_BEGUN);
        call->verb->begin(call, call->op.started_at);
    }
    call->fan = NULL;
    if (fan == NULL)
        rdl__composite_nudge(call);
out:
    rdl__composite_unlock(j);
    if (rc == RDL_OK)
        return rc;
    rdl__client_call_ends(j->home);
    return rdl__err_set(err, rc, NULL);
}
