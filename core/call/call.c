/* call.c - driving verbs.
 *
 * A call passes through these hands:
 *
 *   the caller's thread   begins the verb, sends on one of the shared lanes, finishes: the uncontended blocking call
 * ends here without ever meeting the loop the loop              takes over when the call has to wait for the lock or
 * for an earlier verb of its owner; drives asynchronous calls from the start, on a lane of its own the loop again
 * carries the undo, after the caller has gone
 *
 * A composite's members are sent by its caller first (rdl__call_fan), and what replicas did not confirm its caller
 * undoes itself (undo_at_once).
 *
 * A verb is begin, which decides locally and fills in what is to be sent, encode and decode, which speak with the
 * server, and answered, which makes the next step of it; the rest of its table is said in verb.h. What stops a call
 * from outside goes through `stopped`. Acquiring asks the machine in take.c for the steps.
 *
 * The call is its record's verb in flight from enter to leave; so it alone changes n, count and token. When the call is
 * given up, its request goes on in the lane as its undo (lane.h, successors). The record does not wait for that: an
 * undo of an outermost verb concerns a number that is never used again, and one of a nested verb can only make the
 * server's count too low, which nothing depends on, because counts are absolute and only 0 deletes. Waiting would tie
 * the owner's next verb to a server that does not answer. But the server may refuse a next take because of what the
 * undo is about to remove: so while undos of the name are unanswered, takes go on the connection that they are on,
 * behind them (way_behind_undos); where they are on several, on the one that is likeliest to carry the owner's own.
 *
 * References: the caller's (or the user's, of an operation), one while the loop drives the call, one for the undo, one
 * for the callback, one for a cancellation that was posted.
 */
#include "core/call/call.h"

#include "core/base/err.h"
#include "core/call/verb.h"
#include "core/service/scripts.h"
#include "core/wire/names.h"

#include <string.h>

#define POST_DONE 1u

static void drive(struct rdl__call *call, rdl__step_t step, int64_t now);

/* ---- life ------------------------------------------------------------------------------------------------------- */

static struct rdl__call *call_of(rdl_op_t *op)
{
    return rdl__container(op, struct rdl__call, op);
}

/* Nobody has a reference to it. */
static void call_unused(rdl_op_t *op)
{
    struct rdl__call *call = call_of(op);
    rdl_owner_t *owner = op->owner;
    rdl_lock_t *lock = op->lock;

    rdl__free(&rdl__call_client(call)->mem, call->words, call->words_size);
    if (call->verb->copies_permits)
        rdl__free(&rdl__call_client(call)->mem, call->permit.list, (size_t)call->count * sizeof *call->permit.list);
    rdl__owner_give_spare(owner, call, sizeof *call);
    rdl__owner_unref(owner);
    rdl__handle_unref(lock);
}

static inline void unref_by(struct rdl__call *call, unsigned refs)
{
    if (rdl__op_unref(&call->op, refs))
        call_unused(&call->op);
}

static void unref(struct rdl__call *call)
{
    unref_by(call, 1);
}

static void ref(struct rdl__call *call)
{
    rdl__op_ref(&call->op);
}

static void on_task(struct rdl__task *task, int64_t now);
static void on_cancel(struct rdl__task *task, int64_t now);
static void on_timer(struct rdl__timer *timer, int64_t now);
static const struct rdl__op_ops op_ops;
static void cancel(struct rdl__underway *underway, int code);

/* The list of permits that the verb is about, for as long as the call lasts. False: no memory. */
static bool copy_permits(struct rdl__call *call, const struct rdl__order *order)
{
    size_t size = (size_t)order->count * sizeof *order->permits;

    if (order->permits == NULL)
        return true;
    call->permit.list = order->permits;
    if (!call->verb->copies_permits)
        return true;
    if ((call->permit.list = rdl__alloc(&order->lock->name->client->mem, size)) != NULL)
        memcpy(call->permit.list, order->permits, size);
    return call->permit.list != NULL;
}

static void call_memory(struct rdl__call *call)
{
    rdl__op_memory(&call->op, &op_ops, cancel);
    rdl__list_init(&call->pending);
    rdl__list_init(&call->debt.link);
    rdl__task_init(&call->task, on_task);
    rdl__task_init(&call->cancel_task, on_cancel);
    rdl__timer_init(&call->timer, on_timer);
}

/* Memory for a call, as rdl__owner_take_spare gives it; at last what was set aside. */
static struct rdl__call *take_memory(const struct rdl__order *order, rdl_owner_t *owner, bool *ret_fresh)
{
    struct rdl__call *call = rdl__owner_take_spare(owner, sizeof *call, ret_fresh);

    if (call == NULL && order->reserve != NULL)
        call = rdl__reserve_take(order->reserve);
    return call;
}

static struct rdl__call *call_make(const struct rdl__order *order, rdl_owner_t *owner)
{
    bool fresh;
    struct rdl__call *call = take_memory(order, owner, &fresh);

    if (call == NULL)
        return NULL;
    if (fresh)
        call_memory(call);
    rdl__clear(&call->op.lock, offsetof(struct rdl__call, timer) - offsetof(struct rdl__call, op.lock));
    call->timer.fire = on_timer; /* whatever an undo has made of them */
    call->task.run = on_task;
    call->verb = order->verb;
    if (!copy_permits(call, order)) {
        rdl__owner_give_spare(owner, call, sizeof *call);
        return NULL;
    }
    rdl__op_init(&call->op, order, rdl__owner_ref(owner), 1);
    (void)rdl__handle_ref(order->lock);
    call->ops = order->lock->ops;
    call->shard = &order->lock->name->client->home;
    call->lane = owner->lane;
    call->count = (int32_t)order->count;
    call->n = order->n;
    call->once = order->once || order->wait_ms == 0;
    return call;
}

/* ---- the record ------------------------------------------------------------------------------------------------- */

/* Become the verb in flight on the owner's record. 1: done, or no record is needed; 0: queued behind another verb, the
 * loop goes on when that has ended, which may be at once (so *ret_op is set before); RDL_ENOMEM. */
static int enter(struct rdl__call *call, rdl_op_t **ret_op)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *rec;
    int rc = 1;

    if (!call->verb->on_record) {
        *ret_op = &call->op;
        return 1;
    }
    rdl__mutex_lock(&name->mu);
    rec = rdl__record_find(name, call->op.owner, call->ops);
    if (rec == NULL && call->op.owed)
        rec = rdl__record_find_orphan(name, call->op.owner, call->ops);
    if (rec == NULL && call->verb->acquires && (rec = rdl__record_make(name, call->op.owner, call->ops)) == NULL)
        rc = RDL_ENOMEM;
    if (rc > 0)
        *ret_op = &call->op;
    if (rec != NULL) {
        if (name->idle == rec)
            name->idle = NULL;
        atomic_fetch_add_explicit(&rec->refs, 1, memory_order_relaxed);
        call->rec = rec;
        if (rec->active == NULL) {
            rec->active = call;
        } else {
            call->was_queued = true;
            rdl__list_push_back(&rec->pending, &call->pending);
            rdl__loop_post(rdl__client_loop(rdl__call_client(call)),
                           &call->task); /* here, where leave and end_queued cannot be first */
            rc = 0;
        }
    }
    rdl__mutex_unlock(&name->mu);
    return rc;
}

/* However the call has ended: what it sent may have run at the server, until now. A hold that is renewed for good lasts
 * a lease from whenever that is asked (rdl__record_most_ms), and needs no note.  @locks the name's */
static void note_lease(const struct rdl__call *call, struct rdl__record *rec, int64_t now)
{
    int64_t ends_by;

    rdl__assert_locked(&rec->name->mu);
    if (!call->verb->prolongs || call->sent_to == NULL || call->n != rec->n ||
        (call->op.lease_ms == RDL_LEASE_AUTO && rec->renewed && !rec->may_come))
        return;
    ends_by = rdl__watchdog_expiry(rdl__call_client(call)->watchdog, now, rdl__call_lease_ms(call));
    if (ends_by > rec->ends_by)
        rec->ends_by = ends_by;
}

/* Let the next verb have the record. */
static void leave(struct rdl__call *call, int64_t now)
{
    struct rdl__record *rec = call->rec;
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__link *l;
    bool abandon;

    if (rec == NULL)
        return;
    call->rec = NULL;
    rdl__mutex_lock(&name->mu);
    note_lease(call, rec, now);
    l = rdl__list_pop(&rec->pending);
    rec->active = l == NULL ? NULL : rdl__container(l, struct rdl__call, pending);
    if (rec->active != NULL)
        rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &rec->active->task);
    abandon = rec->active == NULL && rec->orphaned && rec->count > 0;
    if (abandon)
        rdl__mutex_unlock(&name->mu);
    else
        rdl__record_retire(rec);
    if (abandon)
        rdl__record_abandon(rec);
    rdl__record_unref(rec);
}

/* ---- detours ---------------------------------------------------------------------------------------------------- */

/* Where locks are spread over servers, one may answer that the lock is elsewhere, or will be. That proves that the
 * request did not run there, as NOSCRIPT does. It is sent again: at once where the lock is now (MOVED), this once where
 * it is going (ASK), or after a pause (neither, or it has been sent round AT_ONCE times). All that may take as long as
 * an answer. An earlier sending may be in doubt all the same: if its connection broke before it was repeated, and the
 * repeat was then sent elsewhere. */
#define AT_ONCE 5
#define DETOUR_PAUSE_MS 10

/* What an answer is in that respect. RDL__DETOUR_ASK: call->ask says where.  @locks the lane's */
static enum rdl__detour detour_of(struct rdl__call *call, const struct rdl__reply *reply)
{
    if (reply->type != RDL__REPLY_ERROR || rdl__call_client(call)->map == NULL)
        return RDL__DETOUR_NONE;
    return rdl__client_detour(rdl__call_client(call), reply, &call->ask);
}

/* Is the lock elsewhere, while the request waits for a connection? Where it was sent by an ASK it is to stay: the map
 * does not know of that. */
static bool misrouted(const struct rdl__req *req)
{
    const struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    return !req->asking && rdl__name_shard(rdl__call_name(call)) != call->shard;
}

/* ---- undo ------------------------------------------------------------------------------------------------------- */

static void encode_undo(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    (void)eval;
    call->undo_failed = false;
    if (call->verb->undo_more != NULL)
        req->owed += (unsigned char)call->verb->undo_more(call);
    call->verb->put_undo(call, to,
                         true); /* were its script unknown, it would be sent again, behind what was sent meanwhile */
}

static void decode_undo(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    (void)now;
    call->undo_detour = (unsigned char)detour_of(call, reply);
    call->undo_failed |=
        reply->type == RDL__REPLY_ERROR || (call->verb->undo_short != NULL && call->verb->undo_short(reply));
}

static void done_undo(struct rdl__req *req, int64_t now);

static const struct rdl__req_ops undo_ops = {
    .encode = encode_undo, .decode = decode_undo, .done = done_undo, .misrouted = misrouted};

/* A name's undos that were not answered yet, in one word: how many go each way, and on which lane of callers; SEVERAL:
 * that is of the latest, and there may be some on others. The word is 0 when there are none. */
#define UNDO_BITS 19
#define UNDO_MASK ((UINT64_C(1) << UNDO_BITS) - 1)
#define UNDO_SHIFT(way) (UNDO_BITS * ((unsigned)(way)-1))
#define UNDOS(word, way) ((word) >> UNDO_SHIFT(way) & UNDO_MASK)
#define UNDO_LANE_SHIFT UNDO_SHIFT(RDL__WAY_ACKED + 1)
#define UNDO_LANE(word) ((unsigned)((word) >> UNDO_LANE_SHIFT) % RDL__LANES_MAX)
#define SEVERAL (UINT64_C(1) << 63)

_Static_assert((RDL__LANES_MAX & (RDL__LANES_MAX - 1)) == 0 && (uint64_t)RDL__LANES_MAX << 3 * UNDO_BITS <= SEVERAL,
               "the word has room for a lane");

/* One more, or one less, goes that way. */
static void count_undo(const struct rdl__call *call, enum rdl__way way, bool more)
{
    _Atomic uint64_t *undos = &rdl__call_name(call)->undos;
    uint64_t had = atomic_load(undos), has, lane;

    if (way == RDL__WAY_NONE)
        return;
    do {
        has = had & ~(UNDO_MASK << UNDO_SHIFT(way)); /* below 0 while one is settled before it is counted */
        has |= ((UNDOS(had, way) + (more ? 1 : UNDO_MASK)) & UNDO_MASK) << UNDO_SHIFT(way);
        if (way != RDL__WAY_CALLERS)
            continue;
        lane = had >> UNDO_LANE_SHIFT << UNDO_LANE_SHIFT;
        if (UNDOS(has, way) == 0)
            lane = 0;
        else if (more)
            lane = (uint64_t)call->lane << UNDO_LANE_SHIFT |
                   (UNDOS(had, way) != 0 && ((lane & SEVERAL) != 0 || UNDO_LANE(had) != call->lane) ? SEVERAL : 0);
        has = (has & ((UINT64_C(1) << UNDO_LANE_SHIFT) - 1)) | lane;
    } while (!atomic_compare_exchange_weak(undos, &had, has));
}

/* The undo begins, or has begun as a successor and may be settled already; then done_undo has counted it down before it
 * is counted. */
static void undo_begins(struct rdl__call *call, enum rdl__way way)
{
    count_undo(call, way, true);
    ref(call);
    call->undoing = true;
}

/* The same of a call that has nothing under way. All that it sent was answered, unless some of that was sent more than
 * once. */
static void undo_begins_answered(struct rdl__call *call, enum rdl__way way)
{
    call->all_answered = !call->resent_once && !call->req.resent && !call->sent_before && !call->may_come;
    undo_begins(call, way);
}

/* Its first answer has come, or never will.  @thread loop */
static void undo_heard(struct rdl__call *call)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    count_undo(call, call->way, false);
    call->way = RDL__WAY_NONE;
}

/* It goes on by way of the loop's lane, whichever it went before.  @thread loop */
static void undo_by_loop(struct rdl__call *call)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (call->way == RDL__WAY_NONE || call->way == RDL__WAY_LOOP)
        return;
    count_undo(call, RDL__WAY_LOOP, true);
    count_undo(call, call->way, false);
    call->way = RDL__WAY_LOOP;
}

/* Are there undos that its first try must not overtake? What an ended call left at the server must not refuse the next
 * one. Only the answer is waited for, as ever. */
static bool behind_undos(const struct rdl__call *call)
{
    return atomic_load(&rdl__call_name(call)->undos) != 0 && call->verb->acquires && call->take.tries == 0;
}

/* Which way that is. If they are on several, the owner's own lane comes first: its own are there, as it has one verb
 * under way at a time. What replicas confirm does not hold up the loop's lane. */
static enum rdl__way way_behind_undos(struct rdl__call *call, enum rdl__way usual)
{
    uint64_t word = behind_undos(call) ? atomic_load(&rdl__call_name(call)->undos) : 0;
    bool loops = UNDOS(word, RDL__WAY_LOOP) != 0, acked = UNDOS(word, RDL__WAY_ACKED) != 0;

    if (UNDOS(word, RDL__WAY_CALLERS) != 0) {
        if (UNDO_LANE(word) == call->lane || ((word & SEVERAL) != 0 && usual != RDL__WAY_LOOP))
            return RDL__WAY_CALLERS;
        if (!loops && !acked) {
            call->lane = (unsigned char)UNDO_LANE(word);
            return RDL__WAY_CALLERS;
        }
    }
    if (usual == RDL__WAY_ACKED)
        return usual;
    return loops ? RDL__WAY_LOOP : acked ? RDL__WAY_ACKED : usual;
}

/* Called twice: when the call is concluded, and when its undo is settled. The two may happen on different threads, in
 * either order; the second ends both. */
static void undo_gate(struct rdl__call *call)
{
    if (atomic_fetch_add(&call->undo_gate, 1) == 0)
        return;
    rdl__client_call_ends(rdl__call_client(call));
    unref(call);
}

static void send_undo(struct rdl__call *call)
{
    bool resent = call->req.resent; /* stays the verb's, for rdl__call_may_come */

    rdl__req_init(&call->req, &undo_ops);
    call->req.resent = resent;
    call->req.asking = call->undo_detour == RDL__DETOUR_ASK;
    call->shard = call->req.asking ? call->ask : rdl__name_shard(rdl__call_name(call));
    if (call->way == RDL__WAY_CALLERS || call->undo_detour != RDL__DETOUR_NONE ||
        rdl__shard_acked_lane(call->shard) == NULL)
        undo_by_loop(call);
    rdl__lane_submit(call->way == RDL__WAY_ACKED ? rdl__shard_acked_lane(call->shard) : call->shard->loop_lane,
                     &call->req);
}

static void on_undo_task(struct rdl__task *task, int64_t now)
{
    (void)now;
    send_undo(rdl__container(task, struct rdl__call, task));
}

/* The loop is to send it, where the owner's next take goes. By now it has no other reason to look at the call.  @thread
 * any */
static void post_undo(struct rdl__call *call)
{
    call->way = rdl__shard_acked_lane(call->shard) != NULL &&
                        (call->op.result == RDL_ENOREPLICAS || rdl__call_asks(call) == RDL__ASKS_REPLICAS)
                    ? RDL__WAY_ACKED
                    : RDL__WAY_LOOP;
    undo_begins_answered(call, call->way);
    call->task.run = on_undo_task;
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}

static void on_undo_timer(struct rdl__timer *timer, int64_t now)
{
    struct rdl__call *call = rdl__container(timer, struct rdl__call, timer);

    (void)now;
    rdl__list_remove(&call->debt.link);
    send_undo(call);
}

/* The client closes: not at its time, but now. */
static void repeat_undo(struct rdl__debt *debt)
{
    struct rdl__call *call = rdl__container(debt, struct rdl__call, debt);

    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    send_undo(call);
}

/* May something that the call sent come after its undo? Where CLIENT KILL is refused, unless all of it was answered. */
static bool undo_is_in_doubt(const struct rdl__call *call)
{
    return !call->all_answered && atomic_load(&call->shard->node.kill_refused);
}

/* Until when the undo may be repeated: a lease after its first answer, and no longer than RDL__REPEATS_MOST_MS. */
static int64_t undo_until(struct rdl__call *call, int64_t now)
{
    int64_t lease_ms = call->op.lease_ms > 0 ? call->op.lease_ms : rdl__call_client(call)->watchdog_lease_ms;

    if (call->undo_until == 0)
        call->undo_until = rdl__after_ms(now, lease_ms < RDL__REPEATS_MOST_MS ? lease_ms : RDL__REPEATS_MOST_MS);
    return call->undo_until;
}

/* When to repeat the undo: at 0.1, 0.3, 1, 3 ... s from one to the next, and for the last time as its time ends. */
static int64_t undo_again_at(const struct rdl__call *call, int64_t now)
{
    static const int64_t pause_ms[] = {100, 300, 1000, 3000, 10000, 30000, 100000, 300000};
    static const size_t most = sizeof pause_ms / sizeof pause_ms[0] - 1;
    int64_t at =
        now + (call->undo_detour != RDL__DETOUR_NONE ? DETOUR_PAUSE_MS
                                                     : pause_ms[call->undo_tries < most ? call->undo_tries : most]) *
                  RDL__MS;

    return at < call->undo_until ? at : call->undo_until;
}

/* Answered: settled, unless an error or the lack of CLIENT KILL leaves room for an acquire that comes late: then it is
 * repeated (protocol.md, 3). */
static void done_undo(struct rdl__req *req, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);
    rdl_client_t *client = rdl__call_client(call);
    bool again = req->rc == RDL_ENOMEM || (req->rc == RDL_OK && (call->undo_failed || undo_is_in_doubt(call)));
    int64_t at;

    if (req->rc == RDL__MISROUTED) {
        call->undo_detour = RDL__DETOUR_NONE;
        send_undo(call);
        return;
    }
    if (call->undo_detour == RDL__DETOUR_NONE)
        undo_heard(call);
    if (!again || now >= undo_until(call, now) ||
        (atomic_load(&client->closing) && call->undo_detour == RDL__DETOUR_NONE)) {
        if (req->rc == RDL_OK && !call->undo_failed && call->verb->undo_releases && call->hold.undo_count == 0)
            rdl__note_release(call, now);
        if (!again && req->rc == RDL_OK && call->verb->undone != NULL)
            call->verb->undone(call, now);
        undo_heard(call);
        undo_gate(call);
        return;
    }
    at = undo_again_at(call, now);
    if (call->undo_detour == RDL__DETOUR_NONE)
        call->undo_tries++;
    call->timer.fire = on_undo_timer;
    rdl__loop_timer(rdl__client_loop(client), &call->timer, at);
    call->debt.pay = repeat_undo;
    rdl__list_push_back(&client->debts, &call->debt.link);
}

/* ---- ending ----------------------------------------------------------------------------------------------------- */

#define SERVER_TEXT 128

/* The server concerned, for people: the one that the last request went to, if that has not sent it elsewhere; or all of
 * them. */
static void put_server(const struct rdl__call *call, char *to)
{
    if (call->sent_to != NULL && call->detours == 0)
        rdl__node_server(&call->sent_to->node, to, SERVER_TEXT);
    else
        (void)rdl__line(to, SERVER_TEXT, "%s", rdl__client_label(rdl__call_client(call)));
}

static void log_unknown(const struct rdl__call *call)
{
    const struct rdl__name *name = rdl__call_name(call);
    char text[128], server[SERVER_TEXT];

    if (name->client->sinks.log == NULL)
        return;
    (void)rdl__printable(text, sizeof text, name->bytes, name->node.key_len);
    put_server(call, server);
    rdl__log(&name->client->sinks, RDL_LOG_WARN, "%s %s at %s: no answer in time, the outcome is unknown%s",
             rdl__thing(name->ops), text, server, call->undoing ? " and is being undone" : "");
}

static void count_result(const struct rdl__call *call, int64_t now)
{
    const struct rdl__sinks *sinks = &rdl__call_client(call)->sinks;

    if (call->op.result == RDL_EUNKNOWN)
        log_unknown(call);
    if (!rdl__metered(sinks))
        return;
    if (call->op.result == RDL_EUNKNOWN)
        rdl__metric(sinks, RDL_M_UNKNOWN, 1);
    if (!call->verb->acquires)
        return;
    if (call->take.contended)
        rdl__metric(sinks, RDL_M_CONTENDED, 1);
    if (call->op.result == RDL_ETIMEDOUT)
        rdl__metric(sinks, RDL_M_TIMED_OUT, 1);
    if (call->op.result != RDL_OK)
        return;
    rdl__metric(sinks, RDL_M_ACQUIRED, 1);
    rdl__metric(sinks, RDL_M_WAIT_US, (now - call->op.started_at) / RDL__US);
}

/* Tell whoever asked for it, once.  @locks none */
static void announce(struct rdl__call *call)
{
    ref(call);
    if (call->op.direct)
        rdl__op_tell(&call->op.callback);
    else
        rdl__dispatch_push(&rdl__call_client(call)->dispatch, &call->op.callback);
}

/* The outcome is decided. `undo`: start one (a successor is under way already). `by_loop`: the loop drove the call, and
 * gives its reference back: the call may be gone on return.
 *
 * Who is told directly is told while the call still has its owner's record: an owner that ends leaves a record alone
 * while a verb is in flight on it, so what was granted can be given back by whoever hears of it, in whatever moment the
 * owner ends. */
static void conclude(struct rdl__call *call, int rc, bool undo, bool by_loop, int64_t now)
{
    rdl_client_t *client = rdl__call_client(call);

    if (call->op.result != rc) /* the loop may read it already: an undo that was begun at once */
        call->op.result = rc;
    if (by_loop)
        call->looped = false;
    if (call->verb->ended != NULL)
        call->verb->ended(call, rc);
    if (rc < 0 && call->verb->acquires && call->verb->has_successor && !call->undoing && rdl__call_may_come(call))
        undo = true; /* refused, or what not; but an earlier sending of it may be granted yet */
    if (undo) {      /* before anybody hears of the end, and sends something else */
        post_undo(call);
    }
    if (call->op.direct)
        announce(call);
    leave(call, now);
    rdl__owner_end(call->op.owner, &call->op.underway);
    count_result(call, now);
    if (call->undoing)
        undo_gate(call);
    else
        rdl__client_call_ends(client);
    if (!call->op.blocking && !call->op.direct)
        announce(call);
    else if (call->op.blocking && by_loop)
        rdl__parker_post(&call->op.parker, POST_DONE);
    if (by_loop)
        unref(call);
}

static int64_t result_of(const struct rdl__call *call)
{
    return call->op.result == RDL_OK && !call->verb->on_record ? call->answer : call->op.result;
}

static void explain_acks(const struct rdl__call *call, const char *lock, const char *server, rdl_err_t *err)
{
    const struct rdl__name *name = rdl__call_name(call);
    const char *undone = call->verb->acquires ? "; given back" : "";

    if (call->acks == RDL__ACKS_NOT_ASKED)
        (void)rdl__err_set(err, RDL_ENOREPLICAS,
                           "%s %s at %s: cannot wait for replicas: the server has refused WAIT lately",
                           rdl__thing(name->ops), lock, server);
    else if (call->acks < 0)
        (void)rdl__err_set(err, RDL_ENOREPLICAS, "%s %s at %s: cannot wait for replicas: %s%s", rdl__thing(name->ops),
                           lock, server, call->words_len > 0 ? call->words : "the server gave no reason", undone);
    else
        (void)rdl__err_set(err, RDL_ENOREPLICAS, "%s %s at %s: %d of %u replicas have confirmed it in time%s",
                           rdl__thing(name->ops), lock, server, (int)call->acks, (unsigned)name->settings.replicas,
                           undone);
}

/* In the server's own words. Of a command in a script they may name the line alone, so that stands in place of its
 * number. */
static void explain_refusal(const struct rdl__call *call, const char *lock, const char *server, rdl_err_t *err)
{
    const char *thing = rdl__thing(rdl__call_name(call)->ops), *where = strstr(call->words, " script: ");
    size_t len, words_len = where != NULL ? (size_t)(where - call->words) : call->words_len;
    const char *line = rdl__script_line(call->words, &len);

    if (line == NULL)
        (void)rdl__err_set(err, RDL_ESERVER, "%s %s at %s: %s", thing, lock, server, call->words);
    else
        (void)rdl__err_set(err, RDL_ESERVER, "%s %s at %s: %.*s: %.*s", thing, lock, server, (int)words_len,
                           call->words, (int)len, line);
}

/* What happened, for a person. */
static void explain(const rdl_op_t *op, rdl_err_t *err)
{
    const struct rdl__call *call = rdl__container(op, struct rdl__call, op);
    const struct rdl__name *name = rdl__call_name(call);
    const char *text = rdl_strerror((int)call->op.result), *thing = rdl__thing(name->ops);
    char lock[96], server[SERVER_TEXT];
    rdl_err_t why;

    if (err == NULL)
        return;
    (void)rdl__printable(lock, sizeof lock, name->bytes, name->node.key_len);
    put_server(call, server);
    if (call->op.result == RDL_ETIMEDOUT && (call->op.wait_ms > 0 || name->ops->busy != NULL))
        (void)rdl__err_set(err, RDL_ETIMEDOUT, "%s %s at %s: not acquired within %lld ms: %s", thing, lock, server,
                           (long long)call->op.wait_ms,
                           name->ops->busy != NULL ? name->ops->busy : "somebody else holds it");
    else if (call->op.result == RDL_ESERVER && call->refused_words && call->words_len > 0)
        explain_refusal(call, lock, server, err);
    else if (call->op.result == RDL_ENOREPLICAS)
        explain_acks(call, lock, server, err);
    else if (call->op.result == RDL_ECONN && call->detours > 0)
        (void)rdl__err_set(err, RDL_ECONN, "%s %s at %s: no server takes it at the moment", thing, lock, server);
    else if (call->op.result == RDL_ECONN && call->sent_to != NULL &&
             rdl__node_error(&call->sent_to->node, RDL_ECONN, &why) < 0)
        (void)rdl__err_set(err, RDL_ECONN, "%s %s: %s", thing, lock, why.message);
    else if (call->op.result == RDL_EINVAL && call->words_len > 0)
        (void)rdl__err_set(err, RDL_EINVAL, "%s %s: %s", thing, lock, call->words);
    else
        (void)rdl__err_set(err, (int)call->op.result, "%s %s at %s: %s", thing, lock, server,
                           call->verb->texts != NULL && call->verb->texts((int)call->op.result) != NULL
                               ? call->verb->texts((int)call->op.result)
                               : text);
    rdl__err_where(err, server, name->bytes, name->node.key_len);
}

/* Was it granted while its caller slept, and is it lost as the caller comes to hear of that? Nobody works under it
 * then, and nothing is left to be undone but the count: whoever decided the loss has sent the release, and permits are
 * over at the server as well. Returns the order that takes the count back, of this hold: by its turn the owner may have
 * a later one. Its verb is NULL when all is well.  @locks none */
static struct rdl__order lost_meanwhile(struct rdl__call *call)
{
    struct rdl__order back = {.lock = call->op.lock, .owner = call->op.owner, .n = call->n, .direct = true};

    if (call->op.result != RDL_OK || call->verb->lost == NULL || !call->verb->lost(call, rdl__now()))
        return back;
    call->op.result = RDL_ELOST;
    back.verb = call->verb->on_record ? &rdl__verb_release : NULL;
    return back;
}

static void see_lost(rdl_op_t *op)
{
    struct rdl__order back = lost_meanwhile(call_of(op));

    if (back.verb != NULL)
        (void)rdl__call_async(&back, NULL, NULL);
}

static void tell(const rdl_op_t *op, const rdl_err_t *err)
{
    const struct rdl__call *call = rdl__container(op, struct rdl__call, op);

    rdl__call_name(call)->ops->call_back(op, result_of(call), err);
}

static const struct rdl__op_ops op_ops = {
    .unused = call_unused, .see_lost = see_lost, .explain = explain, .tell = tell};

/* ---- sending: requests of either thread ------------------------------------------------------------------------- */

/* Until when an answer may come. A short wait is to get what is free, as none at all does, although it takes some time
 * to say so: for the first try there is patience. What a composite asks of its members has a bound of its own
 * (rdl__call_patience). */
static int64_t answer_by(const struct rdl__call *call)
{
    int64_t patient;

    if (call->deadline - call->op.started_at >=
        rdl__call_client(call)->command_timeout_ms * RDL__MS) /* no patience is longer */
        return call->deadline;
    if (!call->verb->acquires || call->op.wait_ms <= 0 || call->op.direct || call->take.tries > 0)
        return call->deadline;
    patient = call->op.started_at + rdl__call_patience(rdl__call_client(call), call->shard);
    return patient > call->deadline ? patient : call->deadline;
}

/* Ask for the replicas' confirmation, in time for the call to hear of it. */
static __attribute__((noinline)) void put_wait(const struct rdl__call *call, struct rdl__buf *to)
{
    const struct rdl__settings *s = &rdl__call_name(call)->settings;
    int64_t left_ms = call->deadline == RDL__NEVER ? INT32_MAX : (answer_by(call) - rdl__now()) / RDL__MS * 3 / 4;

    rdl__cmd_wait(to, s->replicas,
                  left_ms < 1                        ? 1
                  : left_ms < s->replicas_timeout_ms ? (uint32_t)left_ms
                                                     : s->replicas_timeout_ms);
}

static void encode(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    call->verb->encode(call, to, eval);
    if (req->ops->more > 0)
        put_wait(call, to);
}

/* What the replicas have to say. */
static __attribute__((noinline)) void decode_acks(struct rdl__call *call, const struct rdl__reply *reply)
{
    const struct rdl__settings *s = &rdl__call_name(call)->settings;
    int64_t acks;

    if (reply->type != RDL__REPLY_ERROR) {
        call->acks = rdl__reply_integer(reply, &acks) && acks <= INT32_MAX ? (int32_t)acks : 0;
        return;
    }
    call->acks = RDL__ACKS_REFUSED;
    if (rdl__reply_refuses_wait(reply)) {
        atomic_store(&call->shard->wait_refused_until, rdl__after_ms(rdl__now(), RDL__WAIT_REFUSED_MS));
        call->acks = s->replicas_if_able ? INT32_MAX : RDL__ACKS_REFUSED;
    }
    if (call->acks < 0 && !call->refused_words)
        rdl__call_keep_words(call, reply->str, reply->len, false);
}

static void decode(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    (void)now;
    if (req->ops->more > 0 && req->owed == 0) {
        decode_acks(call, reply);
        return;
    }
    call->refused_words = false;
    call->detour = (unsigned char)detour_of(call, reply);
    if (call->detour != RDL__DETOUR_NONE)
        return;
    if (reply->type == RDL__REPLY_ERROR)
        rdl__call_keep_words(call, reply->str, reply->len, true);
    else
        call->verb->decode(call, reply);
}

/* Until when one request may go unanswered. */
static int64_t send_deadline(const struct rdl__call *call, int64_t now)
{
    int64_t most = rdl__after_ms(now, rdl__call_client(call)->outage_timeout_ms);
    int64_t by = answer_by(call);

    return by < most ? by : most;
}

static rdl__step_t sent_elsewhere(struct rdl__call *call, int64_t now)
{
    call->may_come = rdl__call_may_come(call);
    call->sent_before = call->req.resent; /* which is kept from one sending to the next */
    if (call->detours++ == 0)
        call->detours_until = send_deadline(call, call->req.sent_at != 0 ? call->req.sent_at : now);
    if (call->detours > AT_ONCE)
        call->detour = RDL__DETOUR_LATER;
    return rdl__send_it();
}

static rdl__step_t answered(struct rdl__call *call, int64_t now)
{
    const struct rdl__sinks *sinks = &rdl__call_client(call)->sinks;

    call->req.state = RDL__REQ_IDLE;
    if (call->req.rc == RDL_OK) {
        rdl__metric(sinks, RDL_M_RTT_US, (now - call->req.sent_at) / RDL__US);
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

/* The loop drives it from now on. Its task may be posted still: to say just that.  @thread loop */
static void taken_over(struct rdl__call *call)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    call->looped = true;
    if (call->handed == RDL__HANDED_SENT)
        rdl__loop_unpost(rdl__client_loop(rdl__call_client(call)), &call->task);
    call->handed = RDL__HANDED_AS_IT_IS;
}

static void done_on_loop(struct rdl__req *req, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    taken_over(call);
    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    drive(call, answered(call, now), now);
}

static const struct rdl__req_ops blocking_ops = {.encode = encode, .decode = decode, .misrouted = misrouted};
static const struct rdl__req_ops loop_ops = {
    .encode = encode, .decode = decode, .done = done_on_loop, .misrouted = misrouted};
static const struct rdl__req_ops blocking_acked_ops = {
    .encode = encode, .decode = decode, .misrouted = misrouted, .more = 1};
static const struct rdl__req_ops loop_acked_ops = {
    .encode = encode, .decode = decode, .done = done_on_loop, .misrouted = misrouted, .more = 1};

/* The lane on which the request travels. */
static struct rdl__lane *lane_of(const struct rdl__call *call)
{
    if (call->way == RDL__WAY_CALLERS)
        return rdl__shard_lane(call->shard, call->lane);
    return call->way == RDL__WAY_ACKED ? rdl__shard_acked_lane(call->shard) : call->shard->loop_lane;
}

/* Make the request ready to go, and say where. */
static void ready(struct rdl__call *call, const struct rdl__req_ops *ops, enum rdl__way way)
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

/* It may be settled before whoever gave up hears of it: nothing is prepared for it then. */
static const struct rdl__req_ops *successor_of(const struct rdl__call *call)
{
    return call->verb->has_successor ? &undo_ops : NULL;
}

/* Its request was given up: has it a successor that goes on? */
static bool leaves_successor(const struct rdl__call *call, enum rdl__outcome outcome)
{
    return call->verb->has_successor &&
           (outcome == RDL__UNSURE || call->verb->successor_mode == RDL__SUCCESSOR_REPLACES);
}

static void successor_begins(struct rdl__call *call, enum rdl__outcome outcome, enum rdl__way way)
{
    if (leaves_successor(call, outcome))
        undo_begins(call, way);
}

/* Waiting ends: `code`, or RDL_OK when the deadline has come. */
static rdl__step_t stopped(struct rdl__call *call, int code, enum rdl__outcome outcome)
{
    struct rdl__take_event ev = {
        .kind = RDL__EV_STOPPED,
        .code = code,
        .unsure = outcome == RDL__UNSURE,
        .connected = call->detours == 0 && rdl__lane_up(rdl__name_shard(rdl__call_name(call))->loop_lane),
    };

    if (call->verb->acquires)
        return rdl__take_on(&call->take, &ev, NULL);
    if (code != RDL_OK)
        return rdl__finish_with(code);
    return rdl__finish_with(outcome == RDL__UNSENT ? RDL_ECONN : RDL_EUNKNOWN);
}

/* As `stopped`, while no request of it is in a lane: if it was being sent round, nobody else has seen to its successor.
 */
static rdl__step_t stopped_between(struct rdl__call *call, int code)
{
    enum rdl__outcome outcome = call->detours > 0 && call->sent_before ? RDL__UNSURE : RDL__UNSENT;
    rdl__step_t step = stopped(call, code, outcome);

    step.undo = step.undo || (call->detours > 0 && leaves_successor(call, outcome));
    return step;
}

/* Instead of a request that would be undone. */
static rdl__step_t not_asked(struct rdl__call *call)
{
    call->acks = RDL__ACKS_NOT_ASKED;
    return stopped_between(call, RDL_ENOREPLICAS);
}

/* ---- the caller's thread ---------------------------------------------------------------------------------------- */

static const struct rdl__req_ops blocking_undo_ops = {
    .encode = encode_undo, .decode = decode_undo, .misrouted = misrouted};

static void on_undone_task(struct rdl__task *task, int64_t now)
{
    done_undo(&rdl__container(task, struct rdl__call, task)->req, now);
}

/* What replicas have not confirmed is gone when the caller hears of it, if the server answers in time. */
static void undo_at_once(struct rdl__call *call, int64_t now)
{
    int64_t until = send_deadline(call, now);
    bool resent = call->req.resent; /* stays the verb's */

    call->op.result = RDL_ENOREPLICAS;
    call->way = RDL__WAY_CALLERS;
    undo_begins_answered(call, call->way);
    rdl__req_init(&call->req, &blocking_undo_ops);
    call->req.resent = resent;
    if (atomic_load(&call->op.cancel_code) != RDL_OK) /* before the request could be told of it: the loop goes on */
        until = now;
    if (rdl__lane_call(lane_of(call), &call->req, until, &undo_ops, RDL__SUCCESSOR_REPLACES) != RDL__ANSWERED)
        return;
    call->task.run = on_undone_task;
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}

/* Drive until the call has ended (true) or is handed to the loop, to wait (false).  @thread the caller's */
static bool drive_blocking(struct rdl__call *call, rdl__step_t step, int64_t now)
{
    while (step.what == RDL__DO_SEND && call->detour != RDL__DETOUR_LATER) {
        enum rdl__asking asks = rdl__call_asks(call);
        enum rdl__way way = asks == RDL__ASKS_REPLICAS ? RDL__WAY_ACKED : RDL__WAY_CALLERS;
        enum rdl__outcome outcome;
        int code;

        if (asks == RDL__ASKS_IN_VAIN) {
            step = not_asked(call);
            break;
        }
        if (behind_undos(call) && way_behind_undos(call, way) == RDL__WAY_CALLERS)
            way = RDL__WAY_CALLERS;
        ready(call, asks == RDL__ASKS_REPLICAS ? &blocking_acked_ops : &blocking_ops, way);
        if ((code = atomic_load(&call->op.cancel_code)) != RDL_OK) { /* asked before the request could be told of it */
            step = stopped_between(call, code);
            break;
        }
        outcome = rdl__lane_call(lane_of(call), &call->req, send_deadline(call, now), successor_of(call),
                                 call->verb->successor_mode);
        now = rdl__now();
        if (outcome == RDL__ANSWERED) {
            step = answered(call, now);
        } else {
            successor_begins(call, outcome, way);
            step = stopped(call, atomic_load(&call->op.cancel_code), outcome);
        }
    }
    if (step.what == RDL__DO_FINISH) {
        if (step.undo && step.rc == RDL_ENOREPLICAS && call->req.ops->more > 0) {
            undo_at_once(call, now);
            step.undo = false;
        }
        conclude(call, step.rc, step.undo, false, now);
        return true;
    }
    call->answer = step.hint_ms; /* for the loop, which goes to wait, or sends it again in a while */
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
    return false;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

/* Is it counted among those who wait? */
static bool waits_alone(const struct rdl__call *call)
{
    return call->ops->in_line && !call->verb->listens;
}

static void stop_waiting(struct rdl__call *call, bool used, int64_t now)
{
    rdl__waiter_leave(&call->waiter, used, now);
    if (call->waiting && waits_alone(call))
        atomic_fetch_sub(&rdl__call_name(call)->waiting, 1);
    call->waiting = false;
}

/* How soon those who go on waiting should look: when the lease just granted would end, or as the retry policy says. */
static int64_t look_again_ms(struct rdl__call *call)
{
    int64_t lease_ms = rdl__call_lease_ms(call);
    int64_t delay_ms = rdl__take_delay_ms(&call->take, &call->rand);

    return delay_ms >= 0 && delay_ms < lease_ms ? delay_ms : lease_ms;
}

/* Was it the last to wait, and is there perhaps a place in a queue at the server, which is for whoever of this process
 * waits? One that was let in has left it. */
static bool leaves_place(const struct rdl__call *call, int rc)
{
    struct rdl__name *name = rdl__call_name(call);

    return call->verb->acquires && name->settings.in_order && call->op.wait_ms > 0 && rc != RDL_OK && !call->undoing &&
           !rdl__name_waited_for(name) && (atomic_fetch_and(&name->waiting, ~RDL__PLACED) & RDL__PLACED) != 0;
}

/* A call that ended before it began has no number, and its undo wants one that is nobody's. */
static bool leave_place(struct rdl__call *call, int rc)
{
    bool leaves = leaves_place(call, rc);

    if (leaves && call->n == 0)
        call->n = rdl__client_numbers(rdl__call_client(call), call->count);
    return leaves;
}

static void finish_on_loop(struct rdl__call *call, const rdl__step_t *step, int64_t now)
{
    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    if (call->waiting &&
        step->rc == RDL_OK) /* the others have not been refused by this hold, and may never be told of its end */
        rdl__waiter_hint(&call->waiter, look_again_ms(call), now);
    stop_waiting(call, step->rc == RDL_OK, now);
    conclude(call, step->rc, step->undo || leave_place(call, step->rc), true, now);
}

/* When it gives up because there is no connection: for who waits already the outage has begun when it began.  @thread
 * loop */
static int64_t outage_end(const struct rdl__call *call)
{
    int64_t since = rdl__name_shard(rdl__call_name(call))->down_since;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (since == 0 || call->verb->listens)
        return RDL__NEVER;
    return rdl__after_ms(since > call->op.started_at ? since : call->op.started_at,
                         rdl__call_client(call)->outage_timeout_ms);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool asleep(const struct rdl__call *call)
{
    return call->waiting && call->req.state == RDL__REQ_IDLE;
}

/* @thread loop */
static void set_alarm(struct rdl__call *call)
{
    int64_t at = sooner(call->deadline, outage_end(call));

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (at != RDL__NEVER)
        rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer, at);
}

static void missed(struct rdl__waiter *waiter)
{
    set_alarm(rdl__container(waiter, struct rdl__call, waiter));
}

static void send_on_loop(struct rdl__call *call, int64_t now)
{
    bool acked = rdl__call_asks(call) == RDL__ASKS_REPLICAS;

    ready(call, acked ? &loop_acked_ops : &loop_ops, way_behind_undos(call, acked ? RDL__WAY_ACKED : RDL__WAY_LOOP));
    rdl__waiter_sent(&call->waiter);
    rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer,
                    sooner(send_deadline(call, now), outage_end(call)));
    rdl__lane_submit(lane_of(call), &call->req);
}

static void pause_on_loop(struct rdl__call *call, int64_t now)
{
    int64_t again = rdl__after_ms(now, DETOUR_PAUSE_MS);

    call->pausing = true;
    rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer,
                    again < call->detours_until ? again : call->detours_until);
}

static const struct rdl__waiter_ops waiter_ops;

static void waiter_ready(struct rdl__call *call)
{
    rdl__waiter_init(&call->waiter, &waiter_ops);
    call->waiter.news = (unsigned char)call->ops->news;
    call->waiter.shares = call->ops->shares && call->ops->news == RDL__NEWS_SIDES;
    call->waiter.in_order = rdl__call_name(call)->settings.in_order;
    call->waiter.listens = call->verb->listens;
    if (!call->verb->on_record && call->count > 0)
        call->waiter.wish = (uint32_t)call->count;
    call->waiter.tried_at = call->take.tries > 0 ? call->req.sent_at : 0;
}

/* Join the waiters. RDL_OK: asleep; 1: to try again; RDL_ENOMEM. */
static int wait_on_loop(struct rdl__call *call, int64_t hint_ms, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__buf channel;
    bool subscribed;
    int rc;

    set_alarm(call);
    waiter_ready(call);
    rdl__buf_init(&channel, &name->client->mem);
    subscribed = call->ops->meet(&channel, call);
    rc = rdl__buf_failed(&channel) ? RDL_ENOMEM
                                   : rdl__waiter_join(&name->client->waiters, &call->waiter, channel.data, channel.len,
                                                      subscribed, hint_ms, now);
    rdl__buf_done(&channel);
    if (rc < 0)
        return rc;
    call->waiting = true;
    if (waits_alone(call))
        atomic_fetch_add(&name->waiting, 1);
    return rc;
}

/* It is told to look, or its refusal was overtaken. */
static rdl__step_t woken(struct rdl__call *call, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_WOKEN};

    return call->verb->woken != NULL ? call->verb->woken(call, now) : rdl__take_on(&call->take, &ev, &call->rand);
}

/* Go to sleep among the waiters, or back. False: *step is to be done instead. */
static bool sleeps(struct rdl__call *call, rdl__step_t *step, int64_t now)
{
    struct rdl__take_event no_memory = {.kind = RDL__EV_FAILED, .code = RDL_ENOMEM};
    int rc;

    if (call->waiter.channel == NULL) {
        if ((rc = wait_on_loop(call, step->hint_ms, now)) == RDL_OK)
            return true;
        *step = rc < 0 ? rdl__take_on(&call->take, &no_memory, &call->rand) : woken(call, now);
        return false;
    }
    set_alarm(call); /* before others are woken, who may end this call */
    if (rdl__waiter_refused(&call->waiter, step->hint_ms, now))
        return true;
    *step = woken(call, now);
    return false;
}

/* Carry out a step; the rest follows when something happens.  @thread loop */
static void drive(struct rdl__call *call, rdl__step_t step, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (step.what != RDL__DO_FINISH && code != RDL_OK)
        step = stopped_between(call, code);
    while (step.what == RDL__DO_WAIT) {
        if (now >= call->deadline)
            step = stopped_between(call, RDL_OK);
        else if (sleeps(call, &step, now))
            return;
    }
    if (step.what == RDL__DO_SEND && rdl__call_asks(call) == RDL__ASKS_IN_VAIN)
        step = not_asked(call);
    if (step.what == RDL__DO_SEND && call->detour == RDL__DETOUR_LATER)
        pause_on_loop(call, now);
    else if (step.what == RDL__DO_SEND)
        send_on_loop(call, now);
    else
        finish_on_loop(call, &step, now);
}

static void go(struct rdl__waiter *waiter, int64_t now)
{
    struct rdl__call *call = rdl__container(waiter, struct rdl__call, waiter);

    drive(call, woken(call, now), now);
}

static const struct rdl__waiter_ops waiter_ops = {.go = go, .missed = missed};

/* End the call now, whatever it is doing.  @thread loop */
static void stop(struct rdl__call *call, int code, int64_t now)
{
    rdl__step_t step;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    call->pausing = false;
    if (call->req.state == RDL__REQ_QUEUED || call->req.state == RDL__REQ_SENT || call->req.state == RDL__REQ_SETTLED) {
        enum rdl__way way = call->way;
        enum rdl__outcome outcome =
            rdl__lane_give_up(lane_of(call), &call->req, successor_of(call), call->verb->successor_mode);

        if (outcome == RDL__ANSWERED)
            return; /* and its `done` is about to run */
        successor_begins(call, outcome, way);
        step = stopped(call, code, outcome);
    } else {
        step = stopped_between(call, code);
    }
    finish_on_loop(call, &step, now);
}

/* Take a call out of its record's queue, as ended with `code`. False: it is not there.  @thread loop */
static bool end_queued(struct rdl__call *call, int code, int64_t now)
{
    bool queued;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__mutex_lock(&rdl__call_name(call)->mu);
    queued = rdl__link_on(&call->pending);
    rdl__list_remove(&call->pending);
    if (queued)
        rdl__loop_unpost(rdl__client_loop(rdl__call_client(call)),
                         &call->task); /* it may have been about to set the timer */
    rdl__mutex_unlock(&rdl__call_name(call)->mu);
    if (!queued)
        return false;
    rdl__record_unref(call->rec);
    call->rec = NULL;
    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    conclude(call, code, false, true, now);
    return true;
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    struct rdl__call *call = rdl__container(timer, struct rdl__call, timer);

    if (call->pausing && now < call->detours_until) {
        call->pausing = false;
        call->detour = RDL__DETOUR_NONE;
        drive(call, rdl__send_it(), now);
        return;
    }
    if (end_queued(call, RDL_ETIMEDOUT, now) || !call->looped) /* it is on its way to begin, and will see the time */
        return;
    if (!asleep(call) || now >= call->deadline)
        stop(call, RDL_OK, now);
    else if (now >= outage_end(call))
        stop(call, RDL_ECONN, now);
    else
        set_alarm(call);
}

#define FIRST_TRY_MS                                                                                                   \
    20 /* at least: connecting takes as long as several answers, and threads are late on a busy machine */
#define FIRST_TRY_ROUND_TRIPS 4

int64_t rdl__call_patience(const rdl_client_t *client, const struct rdl__shard *shard)
{
    int64_t patience = FIRST_TRY_ROUND_TRIPS * atomic_load_explicit(&shard->node.round_trip, memory_order_relaxed);
    int64_t most = client->command_timeout_ms * RDL__MS;

    if (patience < FIRST_TRY_MS * RDL__MS)
        patience = FIRST_TRY_MS * RDL__MS;
    return patience < most ? patience : most;
}

/* The call's deadline. A wait counts from the call; one answer, for a call without a wait, from when its turn came. */
static void set_deadline(struct rdl__call *call, int64_t now)
{
    if (call->verb->acquires && call->op.wait_ms == RDL_WAIT_FOREVER)
        call->deadline = RDL__NEVER;
    else if (call->verb->acquires && call->op.wait_ms > 0)
        call->deadline = rdl__after_ms(call->op.started_at, call->op.wait_ms);
    else
        call->deadline = rdl__after_ms(now, rdl__call_client(call)->command_timeout_ms);
}

static rdl__step_t begin(struct rdl__call *call, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);

    set_deadline(call, now);
    if (now != call->op.started_at && code == RDL_OK && call->verb->acquires &&
        now >= answer_by(call)) /* queued all the time */
        code = RDL_ETIMEDOUT;
    return code != RDL_OK ? rdl__finish_with(code) : call->verb->begin(call, now);
}

static bool is_queued(struct rdl__call *call)
{
    bool queued;

    rdl__mutex_lock(&rdl__call_name(call)->mu);
    queued = rdl__link_on(&call->pending);
    rdl__mutex_unlock(&rdl__call_name(call)->mu);
    return queued;
}

/* It was sent before the loop knew of it.  @thread loop */
static void watch(struct rdl__call *call, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (code != RDL_OK)
        stop(call, code, now);
    else
        rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer, send_deadline(call, now));
}

/* Posted when the call is queued (an acquire waits there no longer than anywhere), and when the loop takes it over, to
 * begin it, or to wait.  @thread loop */
static void on_task(struct rdl__task *task, int64_t now)
{
    struct rdl__call *call = rdl__container(task, struct rdl__call, task);
    unsigned char handed;

    if (call->was_queued && is_queued(call)) {
        set_deadline(call, call->op.started_at);
        if (call->verb->acquires && call->deadline != RDL__NEVER)
            rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer, answer_by(call));
        return;
    }
    if (call->was_queued) /* the two posts may have met: the verb before it ended while this one was on its way here */
        rdl__loop_unpost(rdl__client_loop(rdl__call_client(call)), &call->task);
    handed = call->handed;
    taken_over(call);
    if (handed == RDL__HANDED_SENT) {
        watch(call, now);
    } else if (handed == RDL__HANDED_TO_SEND) {
        drive(call, rdl__send_it(), now);
    } else if (handed == RDL__HANDED_ENDED) {
        drive(call, rdl__finish_with((int)call->op.result), now);
    } else if (call->take.state == RDL__TAKE_WAITING) {
        rdl__step_t step = {.what = RDL__DO_WAIT, .hint_ms = call->answer};

        drive(call, step, now);
    } else if (call->detour == RDL__DETOUR_LATER) {
        drive(call, rdl__send_it(), now);
    } else {
        rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
        drive(call, begin(call, now), now);
    }
}

/* ---- an asynchronous call that its caller drives at first ------------------------------------------------------- */

/* Begin it, and send it on a lane that the calling thread reads. False: the loop should go on with it. */
static bool send_in_fan(struct rdl__call *call, struct rdl__fan *fan)
{
    rdl__step_t step;

    if (rdl__call_asks(call) != RDL__ASKS_NOBODY || behind_undos(call))
        return false;
    step = begin(call, call->op.started_at);
    if (step.what == RDL__DO_FINISH) {
        call->op.result = step.rc;
        call->handed = RDL__HANDED_ENDED;
        return false;
    }
    ready(call, &blocking_ops, RDL__WAY_CALLERS);
    if (rdl__fan_send(fan, lane_of(call), &call->req))
        return true;
    call->req.state = RDL__REQ_IDLE;
    call->handed = RDL__HANDED_TO_SEND;
    return false;
}

/* The i-th is answered, or to be left to the loop. */
static void leave_fan(struct rdl__fan *fan, unsigned i)
{
    struct rdl__call *call = rdl__container(fan->at[i].req, struct rdl__call, req);
    int64_t now = rdl__now();
    rdl__step_t step;

    call->handed = RDL__HANDED_SENT;
    if (!rdl__fan_leave(fan, i, &loop_ops, &call->task))
        return;
    call->handed = RDL__HANDED_AS_IT_IS;
    if (call->req.rc ==
        RDL_ENOMEM) { /* the loop's lane may have room for it: it has, if the lock was taken by way of that */
        call->req.state = RDL__REQ_IDLE;
        step = rdl__send_it();
    } else {
        step = answered(call, now);
    }
    if (step.what == RDL__DO_FINISH) {
        conclude(call, step.rc, step.undo, false, now);
        unref(call); /* the loop never had it */
        return;
    }
    if (step.what == RDL__DO_SEND && call->detour != RDL__DETOUR_LATER)
        call->handed = RDL__HANDED_TO_SEND;
    call->answer = step.hint_ms;
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}

/* The one whose time is up first. */
static unsigned most_urgent(const struct rdl__fan *fan, int64_t *ret_deadline)
{
    unsigned first = 0;

    *ret_deadline = RDL__NEVER;
    for (unsigned i = 0; i < fan->n; i++) {
        const struct rdl__call *call = rdl__container(fan->at[i].req, struct rdl__call, req);

        if (call->deadline >= *ret_deadline)
            continue;
        *ret_deadline = call->deadline;
        first = i;
    }
    return first;
}

bool rdl__call_fan(struct rdl__fan *fan, int64_t until)
{
    int64_t deadline;
    unsigned urgent = most_urgent(fan, &deadline);
    int i = fan->n == 0 ? -1 : rdl__fan_wait(fan, until < deadline ? until : deadline);

    if (i < 0 && deadline < until)
        i = (int)urgent; /* the loop ends it */
    if (i >= 0)
        leave_fan(fan, (unsigned)i);
    return i >= 0;
}

void rdl__call_fan_leave(struct rdl__fan *fan)
{
    while (fan->n > 0)
        leave_fan(fan, fan->n - 1);
}

/* ---- canceling -------------------------------------------------------------------------------------------------- */

static void cancel(struct rdl__underway *underway, int code)
{
    struct rdl__call *call = rdl__container(underway, struct rdl__call, op.underway);

    if (!rdl__op_cancels(&call->op, call->verb->acquires, code))
        return;
    ref(call);
    rdl__parker_post(&call->req.park, RDL__POST_CANCEL);
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->cancel_task);
}

/* A call that its own thread drives looks for itself, and one that is on its way to the loop will when it gets here. */
static void on_cancel(struct rdl__task *task, int64_t now)
{
    struct rdl__call *call = rdl__container(task, struct rdl__call, cancel_task);
    int code = atomic_load(&call->op.cancel_code);

    if (!end_queued(call, code, now) && call->looped)
        stop(call, code, now);
    unref(call);
}

/* A call that consists of its undo alone. */
void rdl__call_tidy(struct rdl__record *rec, int64_t n)
{
    rdl_client_t *client = rec->name->client;
    struct rdl__order order = {.verb = &rdl__verb_release, .lease_ms = client->watchdog_lease_ms};
    int64_t most_ms;
    struct rdl__call *call;

    if (rdl__client_call_begins(client) < 0)
        return;
    rdl__mutex_lock(&rec->name->mu);
    if ((most_ms = rdl__record_most_ms(rec, rdl__now())) > order.lease_ms)
        order.lease_ms = most_ms;
    if (!rdl__list_empty(&rec->name->handles))
        order.lock = rdl__handle_ref(rdl__container(rec->name->handles.next, rdl_lock_t, link));
    rdl__mutex_unlock(&rec->name->mu);
    call = order.lock == NULL ? NULL : call_make(&order, rec->owner);
    if (order.lock != NULL)
        rdl__handle_unref(order.lock);
    if (call == NULL) {
        rdl__client_call_ends(client);
        return;
    }
    call->n = n;
    call->ops = rec->ops;  /* whichever end the handle is of */
    call->may_come = true; /* what took the hold */
    post_undo(call);
    undo_gate(call);
    unref(call);
}

/* ---- call.h ----------------------------------------------------------------------------------------------------- */

/* Everything up to the verb's own beginning. 1: begin it; 0: the loop will; an error: nothing was done, and the call is
 * gone. *ret_op has one reference, the caller's. */
static int prepare(const struct rdl__order *order, bool blocking, rdl_op_t **ret_op, rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    struct rdl__call *call;
    rdl_owner_t *owner;
    int rc;

    if ((rc = rdl__op_begins(order, client, &owner)) < 0)
        return rdl__err_set(err, rc, NULL);
    rc = RDL_ENOMEM;
    if ((call = call_make(order, owner)) == NULL)
        goto fail;
    call->op.blocking = blocking;
    call->op.started_at = rdl__now();
    ref(call); /* the loop's, in case it drives the call */
    rdl__owner_begin(owner, &call->op.underway);
    if ((rc = enter(call, ret_op)) >= 0)
        return rc;
    rdl__owner_end(owner, &call->op.underway);
    unref(call);
    unref(call);
fail:
    rdl__client_call_ends(client);
    return rdl__err_set(err, rc, NULL);
}

/* Give back the count of a lost hold, which asks no server: at once, or on the loop if the owner has another verb under
 * way. The caller's deadline does not allow for that one. */
static void take_back(const struct rdl__order *order)
{
    rdl_op_t *op;
    int rc = prepare(order, false, &op, NULL);
    struct rdl__call *call;

    if (rc < 0)
        return;
    call = call_of(op);
    unref_by(call, rc > 0 && drive_blocking(call, begin(call, call->op.started_at), call->op.started_at) ? 2 : 1);
}

int64_t rdl__call(const struct rdl__order *order, rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    struct rdl__order back;
    struct rdl__call *call;
    rdl_op_t *op;
    unsigned refs = 1;
    int64_t result;
    int rc;

    if (rdl__loop_here(rdl__client_loop(client)))
        return rdl__err_set(err, RDL_EDEADLK, "a blocking verb on the client's loop thread would wait for itself");
    if ((rc = rdl__client_call_begins(client)) < 0) /* so that the client stays whole until the outcome is told */
        return rdl__err_set(err, rc, NULL);
    if ((rc = prepare(order, true, &op, err)) < 0) {
        rdl__client_call_ends(client);
        return rc;
    }
    call = call_of(op);
    if (rc > 0 && behind_undos(call) &&
        way_behind_undos(call, RDL__WAY_CALLERS) != RDL__WAY_CALLERS) { /* the loop has some of them to send yet */
        rdl__loop_post(rdl__client_loop(client), &call->task);
        rc = 0;
    }
    if (rc == 0 || !drive_blocking(call, begin(call, call->op.started_at), call->op.started_at)) {
        (void)rdl__park_for(&call->op.parker, POST_DONE, RDL__NEVER);
        if ((back = lost_meanwhile(call)).verb != NULL)
            take_back(&back);
    } else {
        refs = 2; /* the loop never had it, and the clock was read as it ended */
    }
    result = result_of(call);
    if (result < 0)
        explain(op, err);
    rdl__client_call_ends(client);
    unref_by(call, refs);
    return result;
}

int rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__call *call;
    rdl_op_t *op;
    int rc;

    if ((rc = prepare(order, false, ret_op != NULL ? ret_op : &op, err)) < 0)
        return rc;
    call = call_of(ret_op != NULL ? *ret_op : op);
    if (rc > 0 && (order->fan == NULL || !send_in_fan(call, order->fan)))
        rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
    if (ret_op == NULL)
        unref(call);
    return RDL_OK;
}
