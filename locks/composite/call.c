/* composite/call.c - a composite's call: its turn on the record, who drives it, how it ends.
 *
 * A call is moved on by whoever brings news: its members' loops, its own thread, the home client's loop for an
 * asynchronous one. All under the composite's mutex. It ends on its own thread (blocking), or on that loop.
 *
 * One acquire, release or extend at a time on a record; later ones queue. An acquire that has its majority may leave
 * stragglers behind. The next call on that record cancels them, and begins when they have ended, which takes no
 * server's answer; a release begins at once, for it asks only members that have been taken, and what a straggler brings
 * after it goes back.
 *
 * A blocking call's thread sends its first requests and reads their answers itself, for BY_HAND_MS at most, on lanes of
 * callers (a fan: core/io/lane.h). Later ones are its members' loops'.
 *
 *   prepare --(queued)--> verb->begin --member calls--> verb->answered ... rdl__composite_end --look--> conclude
 */
#include "locks/composite/call.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

#define POST_NEWS 1u
/* How long a calling thread reads its answers itself; meanwhile it does not hear of anything else. */
#define BY_HAND_MS 10

/* ---- life ------------------------------------------------------------------------------------------------------- */

static struct rdl__composite_op *call_of(rdl_op_t *op)
{
    return rdl__container(op, struct rdl__composite_op, op);
}

size_t rdl__composite_call_size(unsigned n)
{
    return sizeof(struct rdl__composite_op) + n * (sizeof(struct rdl__member_call) + sizeof(struct rdl__member));
}

static void call_ref(struct rdl__composite_op *call)
{
    rdl__op_ref(&call->op);
}

/* Nobody has a reference to it.  @locks none */
static void call_free(rdl_op_t *op)
{
    struct rdl__composite_op *call = call_of(op);
    struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__mutex_lock(&j->mu);
    rdl__composite_record_unref(call->rec);
    rdl__mutex_unlock(&j->mu);
    rdl__owner_unref(op->owner);
    rdl__free(&j->home->mem, call, j->call_size);
    rdl__composite_unref(j);
}

/* @locks none, or mu when it is not the last */
static void call_unref(struct rdl__composite_op *call)
{
    if (rdl__op_unref(&call->op, 1))
        call_free(&call->op);
}

static void on_task(struct rdl__task *task, int64_t now);
static void on_timer(struct rdl__timer *timer, int64_t now);
static const struct rdl__op_ops op_ops;
static void on_cancel(struct rdl__underway *underway, int code);
static void on_cancel_named(struct rdl__underway *underway, int code);
static void on_cancel_taken(struct rdl__underway *underway, int code);

static struct rdl__composite_op *call_make(const struct rdl__order *order, const struct rdl__composite_verb *verb,
                                           struct rdl__composite *j, struct rdl__composite_record *rec, bool blocking)
{
    struct rdl__composite_op *call = rdl__alloc(&j->home->mem, j->call_size);

    if (call == NULL && verb->gives_back)
        call = rdl__reserve_take(&rec->reserve);
    if (call == NULL)
        return NULL;
    rdl__clear(call, j->call_size);
    rdl__op_memory(&call->op, &op_ops, on_cancel);
    /* The caller's reference, and until it has ended. Whose cancellation, and whose client's closing, ends it. */
    rdl__op_init(&call->op, order, rdl__owner_ref(rec->hold[j->home_member].owner), 2);
    (void)rdl__composite_ref(j);
    call->op.started_at = rdl__now();
    call->op.blocking = blocking;
    rdl__list_init(&call->pending);
    rdl__list_init(&call->in_line);
    rdl__task_init(&call->task, on_task);
    rdl__timer_init(&call->timer, on_timer);
    call->verb = verb;
    call->rec = rec;
    rec->refs++;
    call->named.cancel = on_cancel_named;
    rdl__list_init(&call->named.link);
    call->member = (struct rdl__member *)(void *)&call->call_at[j->n];
    for (unsigned i = 0; i < j->n; i++) {
        call->call_at[i].call = call;
        call->call_at[i].index = i;
        call->call_at[i].taken.cancel = on_cancel_taken;
        rdl__list_init(&call->call_at[i].taken.link);
    }
    return call;
}

/* @locks mu, or an owner's (then the call is under way, and is not freed) */
void rdl__composite_nudge(struct rdl__composite_op *call)
{
    if (call->op.blocking)
        rdl__parker_post(&call->op.parker, POST_NEWS);
    else
        rdl__loop_post(rdl__client_loop(call->op.owner->client), &call->task);
}

static void on_cancel(struct rdl__underway *underway, int code)
{
    struct rdl__composite_op *call = rdl__container(underway, struct rdl__composite_op, op.underway);

    if (rdl__op_cancels(&call->op, call->verb->acquires, code))
        rdl__composite_nudge(call);
}

/* The closing of a client that is not the home ends only what is asked of its own members. */
static void on_cancel_named(struct rdl__underway *underway, int code)
{
    struct rdl__composite_op *call = rdl__container(underway, struct rdl__composite_op, named);

    if (code != RDL_ECLOSED)
        on_cancel(&call->op.underway, code);
}

/* A client whose member was taken closes: who needs all of them has no use for the rest. */
static void on_cancel_taken(struct rdl__underway *underway, int code)
{
    struct rdl__composite_op *call = rdl__container(underway, struct rdl__member_call, taken)->call;

    if (code == RDL_ECLOSED && !rdl__composite_of_call(call)->plan->majority)
        on_cancel(&call->op.underway, code);
}

/* From now on it can be canceled: by the owner that the user knows, too, which may be of another client than the home.
 */
static void enlist(struct rdl__composite_op *call)
{
    rdl__owner_begin(call->op.owner, &call->op.underway);
    if (call->rec->owner != call->op.owner)
        rdl__owner_begin(call->rec->owner, &call->named);
}

static void delist(struct rdl__composite_op *call)
{
    rdl__owner_end(call->op.owner, &call->op.underway);
    rdl__owner_end(call->rec->owner, &call->named);
}

/* The call itself keeps the home client open. */
void rdl__composite_owing_begins(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__member_call *q = &call->call_at[i];
    rdl_owner_t *owner = call->rec->hold[i].owner;

    if (owner->client == call->op.owner->client || q->owing)
        return;
    q->owing = true;
    rdl__client_owing_begins(owner->client);
    rdl__owner_begin(owner, &q->taken);
}

void rdl__composite_owing_ends(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__member_call *q = &call->call_at[i];
    rdl_owner_t *owner = call->rec->hold[i].owner;

    if (!q->owing)
        return;
    q->owing = false;
    rdl__owner_end(owner, &q->taken);
    rdl__client_owing_ends(owner->client);
}

void rdl__composite_owing_ends_all(struct rdl__composite_op *call)
{
    for (unsigned i = 0; i < rdl__composite_of_call(call)->n; i++)
        rdl__composite_owing_ends(call, i);
}

/* ---- asking the members ----------------------------------------------------------------------------------------- */

static void on_answer(rdl_lock_t *member, int64_t result, const rdl_err_t *err, void *arg);

int rdl__composite_ask(struct rdl__composite_op *call, unsigned i, const struct rdl__verb *verb, int64_t wait_ms,
                       bool once)
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
        .once = once,
        .direct = true,
        .owed = call->verb->gives_back,
        .fan = call->fan,
        .reserve = call->verb->gives_back ? &hold->reserve : NULL,
    };
    bool takes = verb->acquires;
    int rc;

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
    for (unsigned i = 0; i < rdl__composite_of_call(call)->n; i++)
        if (call->call_at[i].under_way && call->call_at[i].takes)
            rdl_op_cancel(call->call_at[i].op);
}

static void on_news(rdl_lock_t *member, int64_t result, const rdl_err_t *err, void *arg);

static void listen_to(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__composite *j = rdl__composite_of_call(call);
    struct rdl__member_call *q = &call->call_at[i];
    struct rdl__order order = {
        .verb = &rdl__verb_listen,
        .lock = rdl__member_lock(j, i),
        .owner = call->rec->hold[i].owner,
        .wait_ms = RDL_WAIT_FOREVER,
        .fn = (rdl__callback_fn *)on_news,
        .arg = q,
        .direct = true,
    };

    if (rdl__call_async(&order, &q->listener, NULL) == RDL_OK)
        call_ref(call);
}

/* Not where each waiter has a channel of its own, or waiters want none. */
void rdl__composite_listen(struct rdl__composite_op *call)
{
    struct rdl__composite *j = rdl__composite_of_call(call);

    call->plan.behind = !rdl__list_empty(&j->line);
    rdl__list_push_back(&j->line, &call->in_line);
    for (unsigned i = 0; i < rdl__composite_of_call(call)->n; i++) {
        if (rdl__member_lock(rdl__composite_of_call(call), i)->ops->tells_all)
            listen_to(call, i);
    }
}

/* The first of those who listen ends: the next one acts on news from now on, and on what the first leaves open. */
static void pass_turn(struct rdl__composite *j)
{
    struct rdl__composite_op *next;

    if (rdl__list_empty(&j->line))
        return;
    next = rdl__container(j->line.next, struct rdl__composite_op, in_line);
    if (!next->plan.behind)
        return;
    next->plan.behind = false;
    next->its_turn = true;
    rdl__composite_nudge(next);
}

static void end_listening(struct rdl__composite_op *call)
{
    struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__list_remove(&call->in_line);
    if (call->verb->acquires && call->op.result == RDL_OK)
        j->taken++;
    pass_turn(j);
    for (unsigned i = 0; i < rdl__composite_of_call(call)->n; i++)
        rdl_op_cancel(call->call_at[i].listener);
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

static bool queued(const struct rdl__composite_op *call)
{
    return rdl__link_on(&call->pending);
}

/* The record's next call, if it may begin: nothing of the last one is under way. */
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

/* One may end as it begins, and come back here: the next one is then begun by whoever began it. */
static void begin_next(struct rdl__composite_record *rec)
{
    struct rdl__composite_op *call;

    if (rec->beginning)
        return;
    rec->beginning = true;
    while ((call = next_call(rec)) != NULL) {
        rec->active = call;
        call->verb->begin(call, rdl__now());
    }
    rec->beginning = false;
}

static bool asking(const struct rdl__composite_op *call)
{
    for (unsigned i = 0; i < rdl__composite_of_call(call)->n; i++)
        if (call->call_at[i].under_way)
            return true;
    return false;
}

/* Whoever drives the call will conclude it. */
void rdl__composite_end(struct rdl__composite_op *call, int64_t result)
{
    struct rdl__composite_record *rec = call->rec;

    call->ended = true;
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

/* All that it asked has been answered, too. */
static void straggled(struct rdl__composite_op *call)
{
    struct rdl__composite_record *rec = call->rec;

    if (rec->straggling != call || asking(call))
        return;
    rec->straggling = NULL;
    begin_next(rec);
    rdl__composite_record_retire(rec);
    call_unref(call); /* the member call that was just answered has one, too */
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
    rdl__mutex_unlock(&j->mu);
    (void)rdl_op_free(op);
    call_unref(call);
    rdl__composite_unref(j);
}

/* @thread the member's loop  @locks none */
static void on_news(rdl_lock_t *member, int64_t result, const rdl_err_t *err, void *arg)
{
    struct rdl__member_call *q = arg;
    struct rdl__composite_op *call = q->call;
    struct rdl__composite *j = rdl__composite_ref(rdl__composite_of_call(call));
    struct rdl__plan_event news = {.kind = RDL__PLAN_NEWS, .member = q->index, .now = rdl__now()};
    rdl_op_t *ended = NULL;

    (void)member;
    (void)err;
    rdl__mutex_lock(&j->mu);
    if (result != RDL__HEARD) {
        ended = q->listener;
        q->listener = NULL;
    } else if (!call->ended) {
        call->verb->feed(call, &news);
    }
    rdl__mutex_unlock(&j->mu);
    if (ended != NULL) {
        (void)rdl_op_free(ended);
        call_unref(call);
    }
    rdl__composite_unref(j);
}

/* ---- what is due ------------------------------------------------------------------------------------------------ */

/* By what a handle keeps of its client: no call is under way there, so that it may be closed meanwhile, with its
 * shards. */
int64_t rdl__composite_patience_ms(const struct rdl__composite *j)
{
    int64_t most = 0;

    for (unsigned i = 0; i < j->n; i++) {
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

/* Look what is due. True: the call has ended.  @locks mu */
static bool look(struct rdl__composite_op *call, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);
    struct rdl__plan_event stop = {.kind = RDL__PLAN_STOP, .code = code, .now = now};
    struct rdl__plan_event timer = {.kind = RDL__PLAN_TIMER, .now = now};
    struct rdl__plan_event turn = {.kind = RDL__PLAN_TURN, .now = now};

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (queued(call) && code == RDL_OK && now >= turn_by(call))
        code = RDL_ETIMEDOUT;
    if (call->ended)
        return true;
    if (call->its_turn)
        call->verb->feed(call, &turn);
    call->its_turn = false;
    if (queued(call) && code != RDL_OK) {
        rdl__list_remove(&call->pending);
        rdl__composite_end(call, code);
    } else if (queued(call)) {
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
    return call->ended;
}

/* When to look next, if nothing happens.  @locks mu */
static int64_t next_look(const struct rdl__composite_op *call)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (queued(call))
        return turn_by(call);
    if (call->verb->acquires)
        return call->plan.wake_at;
    return call->end_by != 0 ? call->end_by : RDL__NEVER;
}

/* Last thing but for the callback.  @locks mu */
static void conclude(struct rdl__composite_op *call)
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

static const char *vote_of(const struct rdl__member *member)
{
    if (member->code == RDL_OK && member->until > 0)
        return member->uncounted ? "does not count" : "granted";
    switch (member->code) {
    case RDL_ETIMEDOUT:
        return "refused";
    case RDL_OK:
    case RDL_ECANCELED:
        return "not waited for";
    case RDL_EUNKNOWN:
        return "no answer";
    case RDL_ECONN:
        return "not reached";
    default:
        return rdl_err_name(member->code);
    }
}

/* Why there was no majority; at the end what each server said, as far as there is room. */
static void explain_votes(const struct rdl__composite_op *call, rdl_err_t *err)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);
    char votes[sizeof err->message] = "";
    unsigned taken = 0, refused = 0, void_votes = 0;
    size_t len = 0;

    for (unsigned i = 0; i < j->n; i++) {
        taken += call->member[i].code == RDL_OK && call->member[i].until > 0;
        void_votes += call->member[i].code == RDL_OK && call->member[i].until > 0 && call->member[i].uncounted;
        refused += call->member[i].code == RDL_ETIMEDOUT;
        if (len < sizeof votes)
            len += (size_t)snprintf(votes + len, sizeof votes - len, "%s %s %s", i > 0 ? "," : "",
                                    rdl__client_label(rdl__member_client(j, i)), vote_of(&call->member[i]));
    }
    (void)rdl__err_set(err, (int)call->op.result,
                       "%s lock of %u: %u granted it (%u of them do not count: up for less than a lease, or counted "
                       "already), %u refused, %u did not answer; %u are needed:%s",
                       j->handle.ops->name, j->n, taken, void_votes, refused, j->n - taken - refused, j->quorum, votes);
}

static void explain(const rdl_op_t *op, rdl_err_t *err)
{
    const struct rdl__composite_op *call = rdl__container(op, struct rdl__composite_op, op);
    const struct rdl__composite *j = rdl__composite_of_call(call);
    int code = (int)call->op.result;
    bool why = call->why.code == code;

    if (err == NULL)
        return;
    if (call->verb->acquires && j->plan->majority && (code == RDL_ENOQUORUM || code == RDL_ETIMEDOUT))
        explain_votes(call, err);
    else if (code == RDL_ELOST && call->lost_count > 0)
        (void)rdl__err_set(err, code, "%s lock of %u: %u lost: %s", j->handle.ops->name, j->n, call->lost_count,
                           call->lost);
    else
        (void)rdl__err_set(err, code, "%s lock of %u: %s", j->handle.ops->name, j->n,
                           why ? call->why.message : rdl_strerror(code));
    rdl__err_where(err, why ? call->why.server : NULL, j->name, j->name_len);
}

/* As call.c's: it was granted, and is lost by now that its caller hears of it. What members still hold for it goes back
 * as after a take that failed, even if the client is closing; nobody waits for that.  @locks mu */
static void see_lost_meanwhile(struct rdl__composite_op *call)
{
    struct rdl__composite_record *rec = call->rec;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (call->op.result != RDL_OK || !call->verb->acquires || call->serial != rec->serial ||
        rdl__composite_record_view(rec, rdl__now()).state != RDL_LOST)
        return;
    call->op.result = RDL_ELOST;
    rec->count--;
    rec->want--;
    rec->lost = rec->want > 0;
    rdl__composite_settle(rec);
}

static void see_lost(rdl_op_t *op)
{
    struct rdl__composite_op *call = call_of(op);
    struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__mutex_lock(&j->mu);
    see_lost_meanwhile(call);
    rdl__composite_record_retire(call->rec);
    rdl__mutex_unlock(&j->mu);
}

static void tell(const rdl_op_t *op, const rdl_err_t *err)
{
    ((rdl_done_fn)op->fn)(op->lock, op->result, err, op->arg);
}

static const struct rdl__op_ops op_ops = {.unused = call_free, .see_lost = see_lost, .explain = explain, .tell = tell};

/* ---- an asynchronous call --------------------------------------------------------------------------------------- */

/* @thread the home client's loop */
static void drive(struct rdl__composite_op *call, int64_t now)
{
    struct rdl__composite *j = rdl__composite_ref(rdl__composite_of_call(call));
    rdl_client_t *home = j->home;
    bool ended;

    rdl__mutex_lock(&j->mu);
    ended = look(call, now);
    if (!ended && next_look(call) != RDL__NEVER)
        rdl__loop_timer(rdl__client_loop(home), &call->timer, next_look(call));
    else if (!ended)
        rdl__loop_timer_off(rdl__client_loop(home), &call->timer);
    else
        conclude(call);
    rdl__mutex_unlock(&j->mu);
    if (ended) {
        rdl__client_call_ends(home);
        call_unref(call);
    }
    rdl__composite_unref(j);
}

static void on_task(struct rdl__task *task, int64_t now)
{
    drive(rdl__container(task, struct rdl__composite_op, task), now);
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    drive(rdl__container(timer, struct rdl__composite_op, timer), now);
}

/* ---- call.h ----------------------------------------------------------------------------------------------------- */

/* Everything up to the beginning; a blocking call's thread has a fan. An error: nothing was done. *ret_call has two
 * references, the caller's is the user's by *ret_op, unless that is NULL. An asynchronous one may have called back when
 * this returns, so *ret_op is set before. */
static int prepare(const struct rdl__order *order, const struct rdl__composite_verb *verb, struct rdl__fan *fan,
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
        call->verb->begin(call, call->op.started_at);
    }
    call->fan = NULL;
    if (fan == NULL)
        rdl__composite_nudge(call);
out:
    rdl__mutex_unlock(&j->mu);
    if (rc == RDL_OK)
        return rc;
    rdl__client_call_ends(j->home);
    return rdl__err_set(err, rc, NULL);
}

/* The calling thread reads the first answers itself, so no loop has to be woken for them. Those that the call can do
 * without, and whatever takes longer, are the loops'. */
static void read_answers(struct rdl__composite_op *call, struct rdl__fan *fan)
{
    struct rdl__composite *j = rdl__composite_of_call(call);
    const int64_t most = rdl__after_ms(call->op.started_at, BY_HAND_MS);
    bool on = true;

    while (on && fan->n > 0) {
        int64_t now = rdl__now(), until;
        bool ended;

        rdl__mutex_lock(&j->mu);
        ended = look(call, now);
        until = ended ? now : next_look(call) < most ? next_look(call) : most;
        rdl__mutex_unlock(&j->mu);
        on = rdl__call_fan(fan, until) || (!ended && rdl__now() < most);
    }
    rdl__call_fan_leave(fan);
}

static bool on_some_loop(const struct rdl__composite *j)
{
    bool here = false;

    for (unsigned i = 0; i < j->n && !here; i++) {
        if (rdl__client_call_begins(rdl__member_client(j, i)) < 0)
            continue;
        here = rdl__loop_here(rdl__client_loop(rdl__member_client(j, i)));
        rdl__client_call_ends(rdl__member_client(j, i));
    }
    return here;
}

int64_t rdl__composite_call(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_err_t *err)
{
    struct rdl__composite *j = rdl__composite_of(order->lock);
    struct rdl__composite_op *call = NULL;
    struct rdl__fan fan = {0};
    bool slept = false;
    int64_t result;
    int rc;

    if (on_some_loop(j))
        return rdl__err_set(err, RDL_EDEADLK, "a blocking verb on a client's loop thread would wait for itself");
    if ((rc = prepare(order, verb, &fan, &call, NULL, err)) < 0)
        return rc;
    read_answers(call, &fan);
    rdl__mutex_lock(&j->mu);
    for (;;) {
        int64_t until;

        rdl__parker_unmark(&call->op.parker, POST_NEWS);
        if (look(call, rdl__now()))
            break;
        until = next_look(call);
        rdl__mutex_unlock(&j->mu);
        (void)rdl__park(&call->op.parker, until);
        slept = true;
        rdl__mutex_lock(&j->mu);
    }
    if (slept)
        see_lost_meanwhile(call);
    conclude(call);
    result = call->op.result;
    if (result < 0)
        explain(&call->op, err);
    rdl__mutex_unlock(&j->mu);
    rdl__composite_owing_ends_all(call);
    rdl__client_call_ends(j->home);
    call_unref(call);
    call_unref(call);
    return result;
}

int rdl__composite_call_async(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_op_t **ret_op,
                              rdl_err_t *err)
{
    struct rdl__composite_op *call = NULL;
    int rc = prepare(order, verb, NULL, &call, ret_op, err);

    if (rc == RDL_OK && ret_op == NULL)
        call_unref(call);
    return rc;
}
