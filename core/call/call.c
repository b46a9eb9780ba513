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

static void drive(rdl_op_t *op, rdl__step_t step, int64_t now);

/* ---- life ------------------------------------------------------------------------------------------------------- */

/* Nobody has a reference to it. */
static void op_unused(rdl_op_t *op)
{
    rdl_owner_t *owner = op->owner;
    rdl_lock_t *lock = op->lock;

    if (op->verb->gone != NULL) {
        op->verb->gone(op);
        return;
    }
    rdl__free(&rdl__op_client(op)->mem, op->words, op->words_size);
    if (op->verb->copies_permits)
        rdl__free(&rdl__op_client(op)->mem, op->permits, (size_t)op->count * sizeof *op->permits);
    rdl__owner_give_spare(owner, op, sizeof *op);
    rdl__owner_unref(owner);
    rdl__handle_unref(lock);
}

static inline void unref_by(rdl_op_t *op, unsigned refs)
{
    if (atomic_fetch_sub_explicit(&op->refs, refs, memory_order_acq_rel) == refs)
        op_unused(op);
}

static void unref(rdl_op_t *op)
{
    unref_by(op, 1);
}

static void ref(rdl_op_t *op)
{
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

static void on_task(struct rdl__task *task, int64_t now);
static void on_cancel(struct rdl__task *task, int64_t now);
static void on_timer(struct rdl__timer *timer, int64_t now);
static void cancel(struct rdl__underway *call, int code);

/* The list of permits that the verb is about, for as long as the call lasts. False: no memory. */
static bool copy_permits(rdl_op_t *op, const struct rdl__order *order)
{
    size_t size = (size_t)order->count * sizeof *op->permits;

    op->permits = order->permits;
    if (!op->verb->copies_permits || order->permits == NULL)
        return true;
    if ((op->permits = rdl__alloc(&order->lock->name->client->mem, size)) != NULL)
        memcpy(op->permits, order->permits, size);
    return op->permits != NULL;
}

static void op_ready(rdl_op_t *op)
{
    op->underway.cancel = cancel;
    rdl__list_init(&op->underway.link);
    rdl__list_init(&op->pending);
    rdl__list_init(&op->debt.link);
    rdl__task_init(&op->task, on_task);
    rdl__task_init(&op->cancel_task, on_cancel);
    rdl__timer_init(&op->timer, on_timer);
}

/* Memory for a call, as rdl__owner_take_spare gives it; at last what was set aside. */
static rdl_op_t *op_memory(const struct rdl__order *order, rdl_owner_t *owner, bool *ret_fresh)
{
    rdl_op_t *op = rdl__owner_take_spare(owner, sizeof *op, ret_fresh);

    if (op == NULL && order->reserve != NULL)
        op = rdl__reserve_take(order->reserve);
    return op;
}

static rdl_op_t *op_make(const struct rdl__order *order, rdl_owner_t *owner)
{
    bool fresh;
    rdl_op_t *op = op_memory(order, owner, &fresh);

    if (op == NULL)
        return NULL;
    if (fresh)
        op_ready(op);
    rdl__clear(op, offsetof(rdl_op_t, timer));
    op->timer.fire = on_timer; /* whatever an undo has made of them */
    op->task.run = on_task;
    op->verb = order->verb;
    if (!copy_permits(op, order)) {
        rdl__owner_give_spare(owner, op, sizeof *op);
        return NULL;
    }
    op->lock = rdl__handle_ref(order->lock);
    op->ops = order->lock->ops;
    op->owner = rdl__owner_ref(owner);
    op->shard = &op->lock->name->client->home;
    op->lane = owner->lane;
    op->fn = order->fn;
    op->arg = order->arg;
    op->wait_ms = order->wait_ms;
    op->lease_ms = order->lease_ms;
    op->count = (int32_t)order->count;
    op->n = order->n;
    op->once = order->once || order->wait_ms == 0;
    op->direct = order->direct;
    op->owed = order->owed;
    atomic_init(&op->refs, 1);
    rdl__parker_init(&op->done);
    return op;
}

/* ---- the record ------------------------------------------------------------------------------------------------- */

/* Become the verb in flight on the owner's record. 1: done, or no record is needed; 0: queued behind another verb, the
 * loop goes on when that has ended, which may be at once (so *ret_op, if wanted, is set before); RDL_ENOMEM. */
static int enter(rdl_op_t *op, rdl_op_t **ret_op)
{
    struct rdl__name *name = rdl__op_name(op);
    struct rdl__record *rec;
    int rc = 1;

    if (!op->verb->on_record) {
        if (ret_op != NULL)
            *ret_op = op;
        return 1;
    }
    rdl__mutex_lock(&name->mu);
    rec = rdl__record_find(name, op->owner, op->ops);
    if (rec == NULL && op->owed)
        rec = rdl__record_find_orphan(name, op->owner, op->ops);
    if (rec == NULL && op->verb->acquires && (rec = rdl__record_make(name, op->owner, op->ops)) == NULL)
        rc = RDL_ENOMEM;
    if (rc > 0 && ret_op != NULL)
        *ret_op = op;
    if (rec != NULL) {
        if (name->idle == rec)
            name->idle = NULL;
        atomic_fetch_add_explicit(&rec->refs, 1, memory_order_relaxed);
        op->rec = rec;
        if (rec->active == NULL) {
            rec->active = op;
        } else {
            op->was_queued = true;
            rdl__list_push_back(&rec->pending, &op->pending);
            rdl__loop_post(rdl__client_loop(rdl__op_client(op)),
                           &op->task); /* here, where leave and end_queued cannot be first */
            rc = 0;
        }
    }
    rdl__mutex_unlock(&name->mu);
    return rc;
}

/* However the call has ended: what it sent may have run at the server, until now. A hold that is renewed for good lasts
 * a lease from whenever that is asked (rdl__record_most_ms), and needs no note.  @locks the name's */
static void note_lease(const rdl_op_t *op, struct rdl__record *rec, int64_t now)
{
    int64_t ends_by;

    rdl__assert_locked(&rec->name->mu);
    if (!op->verb->prolongs || op->sent_to == NULL || op->n != rec->n ||
        (op->lease_ms == RDL_LEASE_AUTO && rec->renewed && !rec->may_come))
        return;
    ends_by = rdl__watchdog_expiry(rdl__op_client(op)->watchdog, now, rdl__op_lease_ms(op));
    if (ends_by > rec->ends_by)
        rec->ends_by = ends_by;
}

/* Let the next verb have the record. */
static void leave(rdl_op_t *op, int64_t now)
{
    struct rdl__record *rec = op->rec;
    struct rdl__name *name = rdl__op_name(op);
    struct rdl__link *l;
    bool abandon;

    if (rec == NULL)
        return;
    op->rec = NULL;
    rdl__mutex_lock(&name->mu);
    note_lease(op, rec, now);
    l = rdl__list_pop(&rec->pending);
    rec->active = l == NULL ? NULL : rdl__container(l, rdl_op_t, pending);
    if (rec->active != NULL)
        rdl__loop_post(rdl__client_loop(rdl__op_client(op)), &rec->active->task);
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

/* What an answer is in that respect. RDL__DETOUR_ASK: op->ask says where.  @locks the lane's */
static enum rdl__detour detour_of(rdl_op_t *op, const struct rdl__reply *reply)
{
    if (reply->type != RDL__REPLY_ERROR || rdl__op_client(op)->map == NULL)
        return RDL__DETOUR_NONE;
    return rdl__client_detour(rdl__op_client(op), reply, &op->ask);
}

/* Is the lock elsewhere, while the request waits for a connection? Where it was sent by an ASK it is to stay: the map
 * does not know of that. */
static bool misrouted(const struct rdl__req *req)
{
    const rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    return !req->asking && rdl__name_shard(rdl__op_name(op)) != op->shard;
}

/* ---- undo ------------------------------------------------------------------------------------------------------- */

static void encode_undo(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    (void)eval;
    op->undo_failed = false;
    if (op->verb->undo_more != NULL)
        req->owed += (unsigned char)op->verb->undo_more(op);
    op->verb->put_undo(op, to,
                       true); /* were its script unknown, it would be sent again, behind what was sent meanwhile */
}

static void decode_undo(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    (void)now;
    op->undo_detour = (unsigned char)detour_of(op, reply);
    op->undo_failed |= reply->type == RDL__REPLY_ERROR || (op->verb->undo_short != NULL && op->verb->undo_short(reply));
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
static void count_undo(const rdl_op_t *op, enum rdl__way way, bool more)
{
    _Atomic uint64_t *undos = &rdl__op_name(op)->undos;
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
            lane = (uint64_t)op->lane << UNDO_LANE_SHIFT |
                   (UNDOS(had, way) != 0 && ((lane & SEVERAL) != 0 || UNDO_LANE(had) != op->lane) ? SEVERAL : 0);
        has = (has & ((UINT64_C(1) << UNDO_LANE_SHIFT) - 1)) | lane;
    } while (!atomic_compare_exchange_weak(undos, &had, has));
}

/* The undo begins, or has begun as a successor and may be settled already; then done_undo has counted it down before it
 * is counted. */
static void undo_begins(rdl_op_t *op, enum rdl__way way)
{
    count_undo(op, way, true);
    ref(op);
    op->undoing = true;
}

/* The same of a call that has nothing under way. All that it sent was answered, unless some of that was sent more than
 * once. */
static void undo_begins_answered(rdl_op_t *op, enum rdl__way way)
{
    op->all_answered = !op->resent_once && !op->req.resent && !op->sent_before && !op->may_come;
    undo_begins(op, way);
}

/* Its first answer has come, or never will.  @thread loop */
static void undo_heard(rdl_op_t *op)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    count_undo(op, op->way, false);
    op->way = RDL__WAY_NONE;
}

/* It goes on by way of the loop's lane, whichever it went before.  @thread loop */
static void undo_by_loop(rdl_op_t *op)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    if (op->way == RDL__WAY_NONE || op->way == RDL__WAY_LOOP)
        return;
    count_undo(op, RDL__WAY_LOOP, true);
    count_undo(op, op->way, false);
    op->way = RDL__WAY_LOOP;
}

/* Are there undos that its first try must not overtake? What an ended call left at the server must not refuse the next
 * one. Only the answer is waited for, as ever. */
static bool behind_undos(const rdl_op_t *op)
{
    return atomic_load(&rdl__op_name(op)->undos) != 0 && op->verb->acquires && op->take.tries == 0;
}

/* Which way that is. If they are on several, the owner's own lane comes first: its own are there, as it has one verb
 * under way at a time. What replicas confirm does not hold up the loop's lane. */
static enum rdl__way way_behind_undos(rdl_op_t *op, enum rdl__way usual)
{
    uint64_t word = behind_undos(op) ? atomic_load(&rdl__op_name(op)->undos) : 0;
    bool loops = UNDOS(word, RDL__WAY_LOOP) != 0, acked = UNDOS(word, RDL__WAY_ACKED) != 0;

    if (UNDOS(word, RDL__WAY_CALLERS) != 0) {
        if (UNDO_LANE(word) == op->lane || ((word & SEVERAL) != 0 && usual != RDL__WAY_LOOP))
            return RDL__WAY_CALLERS;
        if (!loops && !acked) {
            op->lane = (unsigned char)UNDO_LANE(word);
            return RDL__WAY_CALLERS;
        }
    }
    if (usual == RDL__WAY_ACKED)
        return usual;
    return loops ? RDL__WAY_LOOP : acked ? RDL__WAY_ACKED : usual;
}

/* Called twice: when the call is concluded, and when its undo is settled. The two may happen on different threads, in
 * either order; the second ends both. */
static void undo_gate(rdl_op_t *op)
{
    if (atomic_fetch_add(&op->undo_gate, 1) == 0)
        return;
    rdl__client_call_ends(rdl__op_client(op));
    unref(op);
}

static void send_undo(rdl_op_t *op)
{
    bool resent = op->req.resent; /* stays the verb's, for rdl__op_may_come */

    rdl__req_init(&op->req, &undo_ops);
    op->req.resent = resent;
    op->req.asking = op->undo_detour == RDL__DETOUR_ASK;
    op->shard = op->req.asking ? op->ask : rdl__name_shard(rdl__op_name(op));
    if (op->way == RDL__WAY_CALLERS || op->undo_detour != RDL__DETOUR_NONE || rdl__shard_acked_lane(op->shard) == NULL)
        undo_by_loop(op);
    rdl__lane_submit(op->way == RDL__WAY_ACKED ? rdl__shard_acked_lane(op->shard) : op->shard->loop_lane, &op->req);
}

static void on_undo_task(struct rdl__task *task, int64_t now)
{
    (void)now;
    send_undo(rdl__container(task, rdl_op_t, task));
}

/* The loop is to send it, where the owner's next take goes. By now it has no other reason to look at the call.  @thread
 * any */
static void post_undo(rdl_op_t *op)
{
    op->way = rdl__shard_acked_lane(op->shard) != NULL &&
                      (op->result == RDL_ENOREPLICAS || rdl__op_asks(op) == RDL__ASKS_REPLICAS)
                  ? RDL__WAY_ACKED
                  : RDL__WAY_LOOP;
    undo_begins_answered(op, op->way);
    op->task.run = on_undo_task;
    rdl__loop_post(rdl__client_loop(rdl__op_client(op)), &op->task);
}

static void on_undo_timer(struct rdl__timer *timer, int64_t now)
{
    rdl_op_t *op = rdl__container(timer, rdl_op_t, timer);

    (void)now;
    rdl__list_remove(&op->debt.link);
    send_undo(op);
}

/* The client closes: not at its time, but now. */
static void repeat_undo(struct rdl__debt *debt)
{
    rdl_op_t *op = rdl__container(debt, rdl_op_t, debt);

    rdl__loop_timer_off(rdl__client_loop(rdl__op_client(op)), &op->timer);
    send_undo(op);
}

/* May something that the call sent come after its undo? Where CLIENT KILL is refused, unless all of it was answered. */
static bool undo_is_in_doubt(const rdl_op_t *op)
{
    return !op->all_answered && atomic_load(&op->shard->node.kill_refused);
}

/* Until when the undo may be repeated: a lease after its first answer, and no longer than RDL__REPEATS_MOST_MS. */
static int64_t undo_until(rdl_op_t *op, int64_t now)
{
    int64_t lease_ms = op->lease_ms > 0 ? op->lease_ms : rdl__op_client(op)->watchdog_lease_ms;

    if (op->undo_until == 0)
        op->undo_until = rdl__after_ms(now, lease_ms < RDL__REPEATS_MOST_MS ? lease_ms : RDL__REPEATS_MOST_MS);
    return op->undo_until;
}

/* When to repeat the undo: at 0.1, 0.3, 1, 3 ... s from one to the next, and for the last time as its time ends. */
static int64_t undo_again_at(const rdl_op_t *op, int64_t now)
{
    static const int64_t pause_ms[] = {100, 300, 1000, 3000, 10000, 30000, 100000, 300000};
    static const size_t most = sizeof pause_ms / sizeof pause_ms[0] - 1;
    int64_t at = now + (op->undo_detour != RDL__DETOUR_NONE ? DETOUR_PAUSE_MS
                                                            : pause_ms[op->undo_tries < most ? op->undo_tries : most]) *
                           RDL__MS;

    return at < op->undo_until ? at : op->undo_until;
}

/* Answered: settled, unless an error or the lack of CLIENT KILL leaves room for an acquire that comes late: then it is
 * repeated (protocol.md, 3). */
static void done_undo(struct rdl__req *req, int64_t now)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);
    rdl_client_t *client = rdl__op_client(op);
    bool again = req->rc == RDL_ENOMEM || (req->rc == RDL_OK && (op->undo_failed || undo_is_in_doubt(op)));
    int64_t at;

    if (req->rc == RDL__MISROUTED) {
        op->undo_detour = RDL__DETOUR_NONE;
        send_undo(op);
        return;
    }
    if (op->undo_detour == RDL__DETOUR_NONE)
        undo_heard(op);
    if (!again || now >= undo_until(op, now) ||
        (atomic_load(&client->closing) && op->undo_detour == RDL__DETOUR_NONE)) {
        if (req->rc == RDL_OK && !op->undo_failed && op->verb->put_undo == rdl__put_undo && op->undo_count == 0)
            rdl__note_release(op, now);
        if (!again && req->rc == RDL_OK && op->verb->undone != NULL)
            op->verb->undone(op, now);
        undo_heard(op);
        undo_gate(op);
        return;
    }
    at = undo_again_at(op, now);
    if (op->undo_detour == RDL__DETOUR_NONE)
        op->undo_tries++;
    op->timer.fire = on_undo_timer;
    rdl__loop_timer(rdl__client_loop(client), &op->timer, at);
    op->debt.pay = repeat_undo;
    rdl__list_push_back(&client->debts, &op->debt.link);
}

/* ---- ending ----------------------------------------------------------------------------------------------------- */

#define SERVER_TEXT 128

/* The server concerned, for people: the one that the last request went to, if that has not sent it elsewhere; or all of
 * them. */
static void put_server(const rdl_op_t *op, char *to)
{
    if (op->sent_to != NULL && op->detours == 0)
        rdl__node_server(&op->sent_to->node, to, SERVER_TEXT);
    else
        (void)rdl__line(to, SERVER_TEXT, "%s", rdl__client_label(rdl__op_client(op)));
}

static void log_unknown(const rdl_op_t *op)
{
    const struct rdl__name *name = rdl__op_name(op);
    char text[128], server[SERVER_TEXT];

    if (name->client->sinks.log == NULL)
        return;
    (void)rdl__printable(text, sizeof text, name->bytes, name->node.key_len);
    put_server(op, server);
    rdl__log(&name->client->sinks, RDL_LOG_WARN, "%s %s at %s: no answer in time, the outcome is unknown%s",
             rdl__thing(name->ops), text, server, op->undoing ? " and is being undone" : "");
}

static void count_result(const rdl_op_t *op, int64_t now)
{
    const struct rdl__sinks *sinks = &rdl__op_client(op)->sinks;

    if (op->result == RDL_EUNKNOWN)
        log_unknown(op);
    if (!rdl__metered(sinks))
        return;
    if (op->result == RDL_EUNKNOWN)
        rdl__metric(sinks, RDL_M_UNKNOWN, 1);
    if (!op->verb->acquires)
        return;
    if (op->take.contended)
        rdl__metric(sinks, RDL_M_CONTENDED, 1);
    if (op->result == RDL_ETIMEDOUT)
        rdl__metric(sinks, RDL_M_TIMED_OUT, 1);
    if (op->result != RDL_OK)
        return;
    rdl__metric(sinks, RDL_M_ACQUIRED, 1);
    rdl__metric(sinks, RDL_M_WAIT_US, (now - op->started_at) / RDL__US);
}

static void run_callback(struct rdl__callback *callback);

/* Tell whoever asked for it, once.  @locks none */
static void announce(rdl_op_t *op)
{
    ref(op);
    rdl__list_init(&op->callback.link);
    op->callback.run = run_callback;
    if (op->direct)
        run_callback(&op->callback);
    else
        rdl__dispatch_push(&rdl__op_client(op)->dispatch, &op->callback);
}

/* The outcome is decided. `undo`: start one (a successor is under way already). `by_loop`: the loop drove the call, and
 * gives its reference back: the call may be gone on return.
 *
 * Who is told directly is told while the call still has its owner's record: an owner that ends leaves a record alone
 * while a verb is in flight on it, so what was granted can be given back by whoever hears of it, in whatever moment the
 * owner ends. */
static void conclude(rdl_op_t *op, int rc, bool undo, bool by_loop, int64_t now)
{
    rdl_client_t *client = rdl__op_client(op);

    if (op->result != rc) /* the loop may read it already: an undo that was begun at once */
        op->result = rc;
    if (by_loop)
        op->looped = false;
    if (op->verb->ended != NULL)
        op->verb->ended(op, rc);
    if (rc < 0 && op->verb->acquires && op->verb->has_successor && !op->undoing && rdl__op_may_come(op))
        undo = true; /* refused, or what not; but an earlier sending of it may be granted yet */
    if (undo) {      /* before anybody hears of the end, and sends something else */
        post_undo(op);
    }
    if (op->direct)
        announce(op);
    leave(op, now);
    rdl__owner_end(op->owner, &op->underway);
    count_result(op, now);
    if (op->undoing)
        undo_gate(op);
    else
        rdl__client_call_ends(client);
    if (!op->blocking && !op->direct)
        announce(op);
    else if (op->blocking && by_loop)
        rdl__parker_post(&op->done, POST_DONE);
    if (by_loop)
        unref(op);
}

static int64_t result_of(const rdl_op_t *op)
{
    return op->result == RDL_OK && !op->verb->on_record ? op->answer : op->result;
}

static void explain_acks(const rdl_op_t *op, const char *lock, const char *server, rdl_err_t *err)
{
    const struct rdl__name *name = rdl__op_name(op);
    const char *undone = op->verb->acquires ? "; given back" : "";

    if (op->acks == RDL__ACKS_NOT_ASKED)
        (void)rdl__err_set(err, RDL_ENOREPLICAS,
                           "%s %s at %s: cannot wait for replicas: the server has refused WAIT lately",
                           rdl__thing(name->ops), lock, server);
    else if (op->acks < 0)
        (void)rdl__err_set(err, RDL_ENOREPLICAS, "%s %s at %s: cannot wait for replicas: %s%s", rdl__thing(name->ops),
                           lock, server, op->words_len > 0 ? op->words : "the server gave no reason", undone);
    else
        (void)rdl__err_set(err, RDL_ENOREPLICAS, "%s %s at %s: %d of %u replicas have confirmed it in time%s",
                           rdl__thing(name->ops), lock, server, (int)op->acks, (unsigned)name->settings.replicas,
                           undone);
}

/* In the server's own words. Of a command in a script they may name the line alone, so that stands in place of its
 * number. */
static void explain_refusal(const rdl_op_t *op, const char *lock, const char *server, rdl_err_t *err)
{
    const char *thing = rdl__thing(rdl__op_name(op)->ops), *where = strstr(op->words, " script: ");
    size_t len, words_len = where != NULL ? (size_t)(where - op->words) : op->words_len;
    const char *line = rdl__script_line(op->words, &len);

    if (line == NULL)
        (void)rdl__err_set(err, RDL_ESERVER, "%s %s at %s: %s", thing, lock, server, op->words);
    else
        (void)rdl__err_set(err, RDL_ESERVER, "%s %s at %s: %.*s: %.*s", thing, lock, server, (int)words_len, op->words,
                           (int)len, line);
}

/* What happened, for a person. */
static void explain(const rdl_op_t *op, rdl_err_t *err)
{
    const struct rdl__name *name = rdl__op_name(op);
    const char *text = rdl_strerror((int)op->result), *thing = rdl__thing(name->ops);
    char lock[96], server[SERVER_TEXT];
    rdl_err_t why;

    if (err == NULL)
        return;
    (void)rdl__printable(lock, sizeof lock, name->bytes, name->node.key_len);
    put_server(op, server);
    if (op->result == RDL_ETIMEDOUT && (op->wait_ms > 0 || name->ops->busy != NULL))
        (void)rdl__err_set(err, RDL_ETIMEDOUT, "%s %s at %s: not acquired within %lld ms: %s", thing, lock, server,
                           (long long)op->wait_ms,
                           name->ops->busy != NULL ? name->ops->busy : "somebody else holds it");
    else if (op->result == RDL_ESERVER && op->refused_words && op->words_len > 0)
        explain_refusal(op, lock, server, err);
    else if (op->result == RDL_ENOREPLICAS)
        explain_acks(op, lock, server, err);
    else if (op->result == RDL_ECONN && op->detours > 0)
        (void)rdl__err_set(err, RDL_ECONN, "%s %s at %s: no server takes it at the moment", thing, lock, server);
    else if (op->result == RDL_ECONN && op->sent_to != NULL && rdl__node_error(&op->sent_to->node, RDL_ECONN, &why) < 0)
        (void)rdl__err_set(err, RDL_ECONN, "%s %s: %s", thing, lock, why.message);
    else if (op->result == RDL_EINVAL && op->words_len > 0)
        (void)rdl__err_set(err, RDL_EINVAL, "%s %s: %s", thing, lock, op->words);
    else
        (void)rdl__err_set(err, (int)op->result, "%s %s at %s: %s", thing, lock, server,
                           op->verb->texts != NULL && op->verb->texts((int)op->result) != NULL
                               ? op->verb->texts((int)op->result)
                               : text);
    rdl__err_where(err, server, name->bytes, name->node.key_len);
}

/* Was it granted while its caller slept, and is it lost as the caller comes to hear of that? Nobody works under it
 * then, and nothing is left to be undone but the count: whoever decided the loss has sent the release, and permits are
 * over at the server as well. Returns the order that takes the count back, of this hold: by its turn the owner may have
 * a later one. Its verb is NULL when all is well.  @locks none */
static struct rdl__order lost_meanwhile(rdl_op_t *op)
{
    struct rdl__order back = {.lock = op->lock, .owner = op->owner, .n = op->n, .direct = true};

    if (op->result != RDL_OK || op->verb->lost == NULL || !op->verb->lost(op, rdl__now()))
        return back;
    op->result = RDL_ELOST;
    back.verb = op->verb->on_record ? &rdl__verb_release : NULL;
    return back;
}

/* The callback of a lock's verb. */
static void call_back(const rdl_op_t *op, int64_t result, const rdl_err_t *err)
{
    ((rdl_done_fn)op->fn)(op->lock, result, err, op->arg);
}

static void run_callback(struct rdl__callback *callback)
{
    rdl_op_t *op = rdl__container(callback, rdl_op_t, callback);
    void (*tell)(const rdl_op_t *op, int64_t result, const rdl_err_t *err) = rdl__op_name(op)->ops->call_back;
    rdl_client_t *client = rdl__op_client(op);
    struct rdl__order back;
    rdl_err_t err = {0};

    if (!op->direct && rdl__dispatch_waits(&client->dispatch) && rdl__client_call_begins(client) == RDL_OK) {
        if ((back = lost_meanwhile(op)).verb != NULL)
            (void)rdl__call_async(&back, NULL, NULL);
        rdl__client_call_ends(client);
    }
    if (op->result < 0)
        explain(op, &err);
    if (op->fn != NULL)
        (tell != NULL ? tell : call_back)(op, result_of(op), op->result < 0 ? &err : NULL);
    unref(op);
}

/* ---- sending: requests of either thread ------------------------------------------------------------------------- */

/* Until when an answer may come. A short wait is to get what is free, as none at all does, although it takes some time
 * to say so: for the first try there is patience. What a composite asks of its parts has a bound of its own
 * (rdl__call_patience). */
static int64_t answer_by(const rdl_op_t *op)
{
    int64_t patient;

    if (op->deadline - op->started_at >= rdl__op_client(op)->command_timeout_ms * RDL__MS) /* no patience is longer */
        return op->deadline;
    if (!op->verb->acquires || op->wait_ms <= 0 || op->direct || op->take.tries > 0)
        return op->deadline;
    patient = op->started_at + rdl__call_patience(rdl__op_client(op), op->shard);
    return patient > op->deadline ? patient : op->deadline;
}

/* Ask for the replicas' confirmation, in time for the call to hear of it. */
static __attribute__((noinline)) void put_wait(const rdl_op_t *op, struct rdl__buf *to)
{
    const struct rdl__settings *s = &rdl__op_name(op)->settings;
    int64_t left_ms = op->deadline == RDL__NEVER ? INT32_MAX : (answer_by(op) - rdl__now()) / RDL__MS * 3 / 4;

    rdl__cmd_wait(to, s->replicas,
                  left_ms < 1                        ? 1
                  : left_ms < s->replicas_timeout_ms ? (uint32_t)left_ms
                                                     : s->replicas_timeout_ms);
}

static void encode(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    op->verb->encode(op, to, eval);
    if (req->ops->more > 0)
        put_wait(op, to);
}

/* What the replicas have to say. */
static __attribute__((noinline)) void decode_acks(rdl_op_t *op, const struct rdl__reply *reply)
{
    const struct rdl__settings *s = &rdl__op_name(op)->settings;
    int64_t acks;

    if (reply->type != RDL__REPLY_ERROR) {
        op->acks = rdl__reply_integer(reply, &acks) && acks <= INT32_MAX ? (int32_t)acks : 0;
        return;
    }
    op->acks = RDL__ACKS_REFUSED;
    if (rdl__reply_refuses_wait(reply)) {
        atomic_store(&op->shard->wait_refused_until, rdl__after_ms(rdl__now(), RDL__WAIT_REFUSED_MS));
        op->acks = s->replicas_if_able ? INT32_MAX : RDL__ACKS_REFUSED;
    }
    if (op->acks < 0 && !op->refused_words)
        rdl__op_keep_words(op, reply->str, reply->len, false);
}

static void decode(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    (void)now;
    if (req->ops->more > 0 && req->owed == 0) {
        decode_acks(op, reply);
        return;
    }
    op->refused_words = false;
    op->detour = (unsigned char)detour_of(op, reply);
    if (op->detour != RDL__DETOUR_NONE)
        return;
    if (reply->type == RDL__REPLY_ERROR)
        rdl__op_keep_words(op, reply->str, reply->len, true);
    else
        op->verb->decode(op, reply);
}

/* Until when one request may go unanswered. */
static int64_t send_deadline(const rdl_op_t *op, int64_t now)
{
    int64_t most = rdl__after_ms(now, rdl__op_client(op)->outage_timeout_ms);
    int64_t by = answer_by(op);

    return by < most ? by : most;
}

static rdl__step_t sent_elsewhere(rdl_op_t *op, int64_t now)
{
    op->may_come = rdl__op_may_come(op);
    op->sent_before = op->req.resent; /* which is kept from one sending to the next */
    if (op->detours++ == 0)
        op->detours_until = send_deadline(op, op->req.sent_at != 0 ? op->req.sent_at : now);
    if (op->detours > AT_ONCE)
        op->detour = RDL__DETOUR_LATER;
    return rdl__send_it();
}

static rdl__step_t answered(rdl_op_t *op, int64_t now)
{
    const struct rdl__sinks *sinks = &rdl__op_client(op)->sinks;

    op->req.state = RDL__REQ_IDLE;
    if (op->req.rc == RDL_OK) {
        rdl__metric(sinks, RDL_M_RTT_US, (now - op->req.sent_at) / RDL__US);
        if (op->req.ops->more == 0)
            rdl__node_round_trip(&op->shard->node, now - op->req.sent_at);
    }
    if (op->req.eval)
        rdl__metric(sinks, RDL_M_SCRIPT_LOADS, 1);
    if (op->req.rc == RDL__MISROUTED)
        op->detour = RDL__DETOUR_MOVED;
    if (op->detour != RDL__DETOUR_NONE && op->req.rc >= RDL_OK)
        return sent_elsewhere(op, now);
    op->detours = 0;
    return op->verb->answered(op, now);
}

/* The loop drives it from now on. Its task may be posted still: to say just that.  @thread loop */
static void taken_over(rdl_op_t *op)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    op->looped = true;
    if (op->handed == RDL__HANDED_SENT)
        rdl__loop_unpost(rdl__client_loop(rdl__op_client(op)), &op->task);
    op->handed = RDL__HANDED_AS_IT_IS;
}

static void done_on_loop(struct rdl__req *req, int64_t now)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    taken_over(op);
    rdl__loop_timer_off(rdl__client_loop(rdl__op_client(op)), &op->timer);
    drive(op, answered(op, now), now);
}

static const struct rdl__req_ops blocking_ops = {.encode = encode, .decode = decode, .misrouted = misrouted};
static const struct rdl__req_ops loop_ops = {
    .encode = encode, .decode = decode, .done = done_on_loop, .misrouted = misrouted};
static const struct rdl__req_ops blocking_acked_ops = {
    .encode = encode, .decode = decode, .misrouted = misrouted, .more = 1};
static const struct rdl__req_ops loop_acked_ops = {
    .encode = encode, .decode = decode, .done = done_on_loop, .misrouted = misrouted, .more = 1};

/* The lane on which the request travels. */
static struct rdl__lane *lane_of(const rdl_op_t *op)
{
    if (op->way == RDL__WAY_CALLERS)
        return rdl__shard_lane(op->shard, op->lane);
    return op->way == RDL__WAY_ACKED ? rdl__shard_acked_lane(op->shard) : op->shard->loop_lane;
}

/* Make the request ready to go, and say where. */
static void ready(rdl_op_t *op, const struct rdl__req_ops *ops, enum rdl__way way)
{
    op->resent_once |= op->req.resent;
    rdl__req_init(&op->req, ops);
    op->way = (unsigned char)way;
    op->sent_to = op->shard = rdl__name_shard(rdl__op_name(op));
    if (op->detours == 0)
        return;
    op->req.resent = op->sent_before;
    op->req.asking = op->detour == RDL__DETOUR_ASK;
    if (op->req.asking)
        op->sent_to = op->shard = op->ask;
    op->detour = RDL__DETOUR_NONE;
}

/* It may be settled before whoever gave up hears of it: nothing is prepared for it then. */
static const struct rdl__req_ops *successor_of(const rdl_op_t *op)
{
    return op->verb->has_successor ? &undo_ops : NULL;
}

/* Its request was given up: has it a successor that goes on? */
static bool leaves_successor(const rdl_op_t *op, enum rdl__outcome outcome)
{
    return op->verb->has_successor && (outcome == RDL__UNSURE || op->verb->successor_mode == RDL__SUCCESSOR_REPLACES);
}

static void successor_begins(rdl_op_t *op, enum rdl__outcome outcome, enum rdl__way way)
{
    if (leaves_successor(op, outcome))
        undo_begins(op, way);
}

/* Waiting ends: `code`, or RDL_OK when the deadline has come. */
static rdl__step_t stopped(rdl_op_t *op, int code, enum rdl__outcome outcome)
{
    struct rdl__take_event ev = {
        .kind = RDL__EV_STOPPED,
        .code = code,
        .unsure = outcome == RDL__UNSURE,
        .connected = op->detours == 0 && rdl__lane_up(rdl__name_shard(rdl__op_name(op))->loop_lane),
    };

    if (op->verb->acquires)
        return rdl__take_on(&op->take, &ev, NULL);
    if (code != RDL_OK)
        return rdl__finish_with(code);
    return rdl__finish_with(outcome == RDL__UNSENT ? RDL_ECONN : RDL_EUNKNOWN);
}

/* As `stopped`, while no request of it is in a lane: if it was being sent round, nobody else has seen to its successor.
 */
static rdl__step_t stopped_between(rdl_op_t *op, int code)
{
    enum rdl__outcome outcome = op->detours > 0 && op->sent_before ? RDL__UNSURE : RDL__UNSENT;
    rdl__step_t step = stopped(op, code, outcome);

    step.undo = step.undo || (op->detours > 0 && leaves_successor(op, outcome));
    return step;
}

/* Instead of a request that would be undone. */
static rdl__step_t not_asked(rdl_op_t *op)
{
    op->acks = RDL__ACKS_NOT_ASKED;
    return stopped_between(op, RDL_ENOREPLICAS);
}

/* ---- the caller's thread ---------------------------------------------------------------------------------------- */

static const struct rdl__req_ops blocking_undo_ops = {
    .encode = encode_undo, .decode = decode_undo, .misrouted = misrouted};

static void on_undone_task(struct rdl__task *task, int64_t now)
{
    done_undo(&rdl__container(task, rdl_op_t, task)->req, now);
}

/* What replicas have not confirmed is gone when the caller hears of it, if the server answers in time. */
static void undo_at_once(rdl_op_t *op, int64_t now)
{
    int64_t until = send_deadline(op, now);
    bool resent = op->req.resent; /* stays the verb's */

    op->result = RDL_ENOREPLICAS;
    op->way = RDL__WAY_CALLERS;
    undo_begins_answered(op, op->way);
    rdl__req_init(&op->req, &blocking_undo_ops);
    op->req.resent = resent;
    if (atomic_load(&op->cancel_code) != RDL_OK) /* before the request could be told of it: the loop goes on */
        until = now;
    if (rdl__lane_call(lane_of(op), &op->req, until, &undo_ops, RDL__SUCCESSOR_REPLACES) != RDL__ANSWERED)
        return;
    op->task.run = on_undone_task;
    rdl__loop_post(rdl__client_loop(rdl__op_client(op)), &op->task);
}

/* Drive until the call has ended (true) or is handed to the loop, to wait (false).  @thread the caller's */
static bool drive_blocking(rdl_op_t *op, rdl__step_t step, int64_t now)
{
    while (step.what == RDL__DO_SEND && op->detour != RDL__DETOUR_LATER) {
        enum rdl__asking asks = rdl__op_asks(op);
        enum rdl__way way = asks == RDL__ASKS_REPLICAS ? RDL__WAY_ACKED : RDL__WAY_CALLERS;
        enum rdl__outcome outcome;
        int code;

        if (asks == RDL__ASKS_IN_VAIN) {
            step = not_asked(op);
            break;
        }
        if (behind_undos(op) && way_behind_undos(op, way) == RDL__WAY_CALLERS)
            way = RDL__WAY_CALLERS;
        ready(op, asks == RDL__ASKS_REPLICAS ? &blocking_acked_ops : &blocking_ops, way);
        if ((code = atomic_load(&op->cancel_code)) != RDL_OK) { /* asked before the request could be told of it */
            step = stopped_between(op, code);
            break;
        }
        outcome =
            rdl__lane_call(lane_of(op), &op->req, send_deadline(op, now), successor_of(op), op->verb->successor_mode);
        now = rdl__now();
        if (outcome == RDL__ANSWERED) {
            step = answered(op, now);
        } else {
            successor_begins(op, outcome, way);
            step = stopped(op, atomic_load(&op->cancel_code), outcome);
        }
    }
    if (step.what == RDL__DO_FINISH) {
        if (step.undo && step.rc == RDL_ENOREPLICAS && op->req.ops->more > 0) {
            undo_at_once(op, now);
            step.undo = false;
        }
        conclude(op, step.rc, step.undo, false, now);
        return true;
    }
    op->answer = step.hint_ms; /* for the loop, which goes to wait, or sends it again in a while */
    rdl__loop_post(rdl__client_loop(rdl__op_client(op)), &op->task);
    return false;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

/* Does it wait to have the lock alone? */
static bool waits_alone(const rdl_op_t *op)
{
    return !op->ops->shares && !op->verb->listens;
}

static void stop_waiting(rdl_op_t *op, bool used, int64_t now)
{
    rdl__waiter_leave(&op->waiter, used, now);
    if (op->waiting && waits_alone(op))
        atomic_fetch_sub(&rdl__op_name(op)->waiting, 1);
    op->waiting = false;
}

/* How soon those who go on waiting should look: when the lease just granted would end, or as the retry policy says. */
static int64_t look_again_ms(rdl_op_t *op)
{
    int64_t lease_ms = rdl__op_lease_ms(op);
    int64_t delay_ms = rdl__take_delay_ms(&op->take, &op->rand);

    return delay_ms >= 0 && delay_ms < lease_ms ? delay_ms : lease_ms;
}

/* Was it the last to wait, and is there perhaps a place in a queue at the server, which is for whoever of this process
 * waits? One that was let in has left it. */
static bool leaves_place(const rdl_op_t *op, int rc)
{
    struct rdl__name *name = rdl__op_name(op);

    return op->verb->acquires && name->settings.in_order && op->wait_ms > 0 && rc != RDL_OK && !op->undoing &&
           !rdl__name_waited_for(name) && (atomic_fetch_and(&name->waiting, ~RDL__PLACED) & RDL__PLACED) != 0;
}

/* A call that ended before it began has no number, and its undo wants one that is nobody's. */
static bool leave_place(rdl_op_t *op, int rc)
{
    bool leaves = leaves_place(op, rc);

    if (leaves && op->n == 0)
        op->n = rdl__client_numbers(rdl__op_client(op), op->count);
    return leaves;
}

static void finish_on_loop(rdl_op_t *op, const rdl__step_t *step, int64_t now)
{
    rdl__loop_timer_off(rdl__client_loop(rdl__op_client(op)), &op->timer);
    if (op->waiting &&
        step->rc == RDL_OK) /* the others have not been refused by this hold, and may never be told of its end */
        rdl__waiter_hint(&op->waiter, look_again_ms(op), now);
    stop_waiting(op, step->rc == RDL_OK, now);
    conclude(op, step->rc, step->undo || leave_place(op, step->rc), true, now);
}

/* When it gives up because there is no connection: for who waits already the outage has begun when it began.  @thread
 * loop */
static int64_t outage_end(const rdl_op_t *op)
{
    int64_t since = rdl__name_shard(rdl__op_name(op))->down_since;

    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    if (since == 0 || op->verb->listens)
        return RDL__NEVER;
    return rdl__after_ms(since > op->started_at ? since : op->started_at, rdl__op_client(op)->outage_timeout_ms);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool asleep(const rdl_op_t *op)
{
    return op->waiting && op->req.state == RDL__REQ_IDLE;
}

/* @thread loop */
static void set_alarm(rdl_op_t *op)
{
    int64_t at = sooner(op->deadline, outage_end(op));

    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    if (at != RDL__NEVER)
        rdl__loop_timer(rdl__client_loop(rdl__op_client(op)), &op->timer, at);
}

static void missed(struct rdl__waiter *waiter)
{
    set_alarm(rdl__container(waiter, rdl_op_t, waiter));
}

static void send_on_loop(rdl_op_t *op, int64_t now)
{
    bool acked = rdl__op_asks(op) == RDL__ASKS_REPLICAS;

    ready(op, acked ? &loop_acked_ops : &loop_ops, way_behind_undos(op, acked ? RDL__WAY_ACKED : RDL__WAY_LOOP));
    rdl__waiter_sent(&op->waiter);
    rdl__loop_timer(rdl__client_loop(rdl__op_client(op)), &op->timer, sooner(send_deadline(op, now), outage_end(op)));
    rdl__lane_submit(lane_of(op), &op->req);
}

static void pause_on_loop(rdl_op_t *op, int64_t now)
{
    int64_t again = rdl__after_ms(now, DETOUR_PAUSE_MS);

    op->pausing = true;
    rdl__loop_timer(rdl__client_loop(rdl__op_client(op)), &op->timer,
                    again < op->detours_until ? again : op->detours_until);
}

/* The channel to wait on. Where the server names the successor each owner has its own; who polls listens to none, and
 * the name is only what those who wait for the same have in common. */
static void put_listened(struct rdl__buf *to, const rdl_op_t *op)
{
    const struct rdl__name *name = rdl__op_name(op);
    char place[RDL__FIELD_MAX];

    if (op->ops->polls)
        rdl__name_prefix(to, "redlatch_poll", name->bytes, name->node.key_len);
    else
        rdl__channel_name(to, name);
    if (!rdl__queues(op->ops))
        return;
    rdl__buf_put(to, ":", 1);
    rdl__buf_put(to, place, rdl__place(place, op));
}

static const struct rdl__waiter_ops waiter_ops;

static void waiter_ready(rdl_op_t *op)
{
    rdl__waiter_init(&op->waiter, &waiter_ops);
    op->waiter.news = (unsigned char)op->ops->news;
    op->waiter.shares = op->ops->shares;
    op->waiter.in_order = rdl__op_name(op)->settings.in_order;
    op->waiter.listens = op->verb->listens;
    if (!op->verb->on_record && op->count > 0)
        op->waiter.wish = (uint32_t)op->count;
    op->waiter.tried_at = op->take.tries > 0 ? op->req.sent_at : 0;
}

/* Join the waiters. RDL_OK: asleep; 1: to try again; RDL_ENOMEM. */
static int wait_on_loop(rdl_op_t *op, int64_t hint_ms, int64_t now)
{
    struct rdl__name *name = rdl__op_name(op);
    struct rdl__buf channel;
    int rc;

    set_alarm(op);
    waiter_ready(op);
    rdl__buf_init(&channel, &name->client->mem);
    put_listened(&channel, op);
    rc = rdl__buf_failed(&channel) ? RDL_ENOMEM
                                   : rdl__waiter_join(&name->client->waiters, &op->waiter, channel.data, channel.len,
                                                      !op->ops->polls, hint_ms, now);
    rdl__buf_done(&channel);
    if (rc < 0)
        return rc;
    op->waiting = true;
    if (waits_alone(op))
        atomic_fetch_add(&name->waiting, 1);
    return rc;
}

/* It is told to look, or its refusal was overtaken. */
static rdl__step_t woken(rdl_op_t *op, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_WOKEN};

    return op->verb->woken != NULL ? op->verb->woken(op, now) : rdl__take_on(&op->take, &ev, &op->rand);
}

/* Go to sleep among the waiters, or back. False: *step is to be done instead. */
static bool sleeps(rdl_op_t *op, rdl__step_t *step, int64_t now)
{
    struct rdl__take_event no_memory = {.kind = RDL__EV_FAILED, .code = RDL_ENOMEM};
    int rc;

    if (op->waiter.channel == NULL) {
        if ((rc = wait_on_loop(op, step->hint_ms, now)) == RDL_OK)
            return true;
        *step = rc < 0 ? rdl__take_on(&op->take, &no_memory, &op->rand) : woken(op, now);
        return false;
    }
    set_alarm(op); /* before others are woken, who may end this call */
    if (rdl__waiter_refused(&op->waiter, step->hint_ms, now))
        return true;
    *step = woken(op, now);
    return false;
}

/* Carry out a step; the rest follows when something happens.  @thread loop */
static void drive(rdl_op_t *op, rdl__step_t step, int64_t now)
{
    int code = atomic_load(&op->cancel_code);

    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    if (step.what != RDL__DO_FINISH && code != RDL_OK)
        step = stopped_between(op, code);
    while (step.what == RDL__DO_WAIT) {
        if (now >= op->deadline)
            step = stopped_between(op, RDL_OK);
        else if (sleeps(op, &step, now))
            return;
    }
    if (step.what == RDL__DO_SEND && rdl__op_asks(op) == RDL__ASKS_IN_VAIN)
        step = not_asked(op);
    if (step.what == RDL__DO_SEND && op->detour == RDL__DETOUR_LATER)
        pause_on_loop(op, now);
    else if (step.what == RDL__DO_SEND)
        send_on_loop(op, now);
    else
        finish_on_loop(op, &step, now);
}

static void go(struct rdl__waiter *waiter, int64_t now)
{
    rdl_op_t *op = rdl__container(waiter, rdl_op_t, waiter);

    drive(op, woken(op, now), now);
}

static const struct rdl__waiter_ops waiter_ops = {.go = go, .missed = missed};

/* End the call now, whatever it is doing.  @thread loop */
static void stop(rdl_op_t *op, int code, int64_t now)
{
    rdl__step_t step;

    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    op->pausing = false;
    if (op->req.state == RDL__REQ_QUEUED || op->req.state == RDL__REQ_SENT || op->req.state == RDL__REQ_SETTLED) {
        enum rdl__way way = op->way;
        enum rdl__outcome outcome =
            rdl__lane_give_up(lane_of(op), &op->req, successor_of(op), op->verb->successor_mode);

        if (outcome == RDL__ANSWERED)
            return; /* and its `done` is about to run */
        successor_begins(op, outcome, way);
        step = stopped(op, code, outcome);
    } else {
        step = stopped_between(op, code);
    }
    finish_on_loop(op, &step, now);
}

/* Take a call out of its record's queue, as ended with `code`. False: it is not there.  @thread loop */
static bool end_queued(rdl_op_t *op, int code, int64_t now)
{
    bool queued;

    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    rdl__mutex_lock(&rdl__op_name(op)->mu);
    queued = rdl__link_on(&op->pending);
    rdl__list_remove(&op->pending);
    if (queued)
        rdl__loop_unpost(rdl__client_loop(rdl__op_client(op)), &op->task); /* it may have been about to set the timer */
    rdl__mutex_unlock(&rdl__op_name(op)->mu);
    if (!queued)
        return false;
    rdl__record_unref(op->rec);
    op->rec = NULL;
    rdl__loop_timer_off(rdl__client_loop(rdl__op_client(op)), &op->timer);
    conclude(op, code, false, true, now);
    return true;
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    rdl_op_t *op = rdl__container(timer, rdl_op_t, timer);

    if (op->pausing && now < op->detours_until) {
        op->pausing = false;
        op->detour = RDL__DETOUR_NONE;
        drive(op, rdl__send_it(), now);
        return;
    }
    if (end_queued(op, RDL_ETIMEDOUT, now) || !op->looped) /* it is on its way to begin, and will see the time */
        return;
    if (!asleep(op) || now >= op->deadline)
        stop(op, RDL_OK, now);
    else if (now >= outage_end(op))
        stop(op, RDL_ECONN, now);
    else
        set_alarm(op);
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
static void set_deadline(rdl_op_t *op, int64_t now)
{
    if (op->verb->acquires && op->wait_ms == RDL_WAIT_FOREVER)
        op->deadline = RDL__NEVER;
    else if (op->verb->acquires && op->wait_ms > 0)
        op->deadline = rdl__after_ms(op->started_at, op->wait_ms);
    else
        op->deadline = rdl__after_ms(now, rdl__op_client(op)->command_timeout_ms);
}

static rdl__step_t begin(rdl_op_t *op, int64_t now)
{
    int code = atomic_load(&op->cancel_code);

    set_deadline(op, now);
    if (now != op->started_at && code == RDL_OK && op->verb->acquires && now >= answer_by(op)) /* queued all the time */
        code = RDL_ETIMEDOUT;
    return code != RDL_OK ? rdl__finish_with(code) : op->verb->begin(op, now);
}

static bool is_queued(rdl_op_t *op)
{
    bool queued;

    rdl__mutex_lock(&rdl__op_name(op)->mu);
    queued = rdl__link_on(&op->pending);
    rdl__mutex_unlock(&rdl__op_name(op)->mu);
    return queued;
}

/* It was sent before the loop knew of it.  @thread loop */
static void watch(rdl_op_t *op, int64_t now)
{
    int code = atomic_load(&op->cancel_code);

    rdl__assert_on_loop(rdl__client_loop(rdl__op_client(op)));
    if (code != RDL_OK)
        stop(op, code, now);
    else
        rdl__loop_timer(rdl__client_loop(rdl__op_client(op)), &op->timer, send_deadline(op, now));
}

/* Posted when the call is queued (an acquire waits there no longer than anywhere), and when the loop takes it over, to
 * begin it, or to wait.  @thread loop */
static void on_task(struct rdl__task *task, int64_t now)
{
    rdl_op_t *op = rdl__container(task, rdl_op_t, task);
    unsigned char handed;

    if (op->was_queued && is_queued(op)) {
        set_deadline(op, op->started_at);
        if (op->verb->acquires && op->deadline != RDL__NEVER)
            rdl__loop_timer(rdl__client_loop(rdl__op_client(op)), &op->timer, answer_by(op));
        return;
    }
    if (op->was_queued) /* the two posts may have met: the verb before it ended while this one was on its way here */
        rdl__loop_unpost(rdl__client_loop(rdl__op_client(op)), &op->task);
    handed = op->handed;
    taken_over(op);
    if (handed == RDL__HANDED_SENT) {
        watch(op, now);
    } else if (handed == RDL__HANDED_TO_SEND) {
        drive(op, rdl__send_it(), now);
    } else if (handed == RDL__HANDED_ENDED) {
        drive(op, rdl__finish_with((int)op->result), now);
    } else if (op->take.state == RDL__TAKE_WAITING) {
        rdl__step_t step = {.what = RDL__DO_WAIT, .hint_ms = op->answer};

        drive(op, step, now);
    } else if (op->detour == RDL__DETOUR_LATER) {
        drive(op, rdl__send_it(), now);
    } else {
        rdl__loop_timer_off(rdl__client_loop(rdl__op_client(op)), &op->timer);
        drive(op, begin(op, now), now);
    }
}

/* ---- an asynchronous call that its caller drives at first ------------------------------------------------------- */

/* Begin it, and send it on a lane that the calling thread reads. False: the loop should go on with it. */
static bool send_in_fan(rdl_op_t *op, struct rdl__fan *fan)
{
    rdl__step_t step;

    if (rdl__op_asks(op) != RDL__ASKS_NOBODY || behind_undos(op))
        return false;
    step = begin(op, op->started_at);
    if (step.what == RDL__DO_FINISH) {
        op->result = step.rc;
        op->handed = RDL__HANDED_ENDED;
        return false;
    }
    ready(op, &blocking_ops, RDL__WAY_CALLERS);
    if (rdl__fan_send(fan, lane_of(op), &op->req))
        return true;
    op->req.state = RDL__REQ_IDLE;
    op->handed = RDL__HANDED_TO_SEND;
    return false;
}

/* The i-th is answered, or to be left to the loop. */
static void leave_fan(struct rdl__fan *fan, unsigned i)
{
    rdl_op_t *op = rdl__container(fan->at[i].req, rdl_op_t, req);
    int64_t now = rdl__now();
    rdl__step_t step;

    op->handed = RDL__HANDED_SENT;
    if (!rdl__fan_leave(fan, i, &loop_ops, &op->task))
        return;
    op->handed = RDL__HANDED_AS_IT_IS;
    if (op->req.rc ==
        RDL_ENOMEM) { /* the loop's lane may have room for it: it has, if the lock was taken by way of that */
        op->req.state = RDL__REQ_IDLE;
        step = rdl__send_it();
    } else {
        step = answered(op, now);
    }
    if (step.what == RDL__DO_FINISH) {
        conclude(op, step.rc, step.undo, false, now);
        unref(op); /* the loop never had it */
        return;
    }
    if (step.what == RDL__DO_SEND && op->detour != RDL__DETOUR_LATER)
        op->handed = RDL__HANDED_TO_SEND;
    op->answer = step.hint_ms;
    rdl__loop_post(rdl__client_loop(rdl__op_client(op)), &op->task);
}

/* The one whose time is up first. */
static unsigned most_urgent(const struct rdl__fan *fan, int64_t *ret_deadline)
{
    unsigned first = 0;

    *ret_deadline = RDL__NEVER;
    for (unsigned i = 0; i < fan->n; i++) {
        const rdl_op_t *op = rdl__container(fan->at[i].req, rdl_op_t, req);

        if (op->deadline >= *ret_deadline)
            continue;
        *ret_deadline = op->deadline;
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

static void cancel(struct rdl__underway *call, int code)
{
    rdl_op_t *op = rdl__container(call, rdl_op_t, underway);
    int none = RDL_OK;

    if (op->owed || (!op->verb->acquires && code == RDL_ECANCELED) ||
        !atomic_compare_exchange_strong(&op->cancel_code, &none, code))
        return;
    ref(op);
    rdl__parker_post(&op->req.park, RDL__POST_CANCEL);
    rdl__loop_post(rdl__client_loop(rdl__op_client(op)), &op->cancel_task);
}

/* A call that its own thread drives looks for itself, and one that is on its way to the loop will when it gets here. */
static void on_cancel(struct rdl__task *task, int64_t now)
{
    rdl_op_t *op = rdl__container(task, rdl_op_t, cancel_task);
    int code = atomic_load(&op->cancel_code);

    if (!end_queued(op, code, now) && op->looped)
        stop(op, code, now);
    unref(op);
}

/* A call that consists of its undo alone. */
void rdl__call_tidy(struct rdl__record *rec, int64_t n)
{
    rdl_client_t *client = rec->name->client;
    struct rdl__order order = {.verb = &rdl__verb_release, .lease_ms = client->watchdog_lease_ms};
    int64_t most_ms;
    rdl_op_t *op;

    if (rdl__client_call_begins(client) < 0)
        return;
    rdl__mutex_lock(&rec->name->mu);
    if ((most_ms = rdl__record_most_ms(rec, rdl__now())) > order.lease_ms)
        order.lease_ms = most_ms;
    if (!rdl__list_empty(&rec->name->handles))
        order.lock = rdl__handle_ref(rdl__container(rec->name->handles.next, rdl_lock_t, link));
    rdl__mutex_unlock(&rec->name->mu);
    op = order.lock == NULL ? NULL : op_make(&order, rec->owner);
    if (order.lock != NULL)
        rdl__handle_unref(order.lock);
    if (op == NULL) {
        rdl__client_call_ends(client);
        return;
    }
    op->n = n;
    op->ops = rec->ops;  /* whichever end the handle is of */
    op->may_come = true; /* what took the hold */
    post_undo(op);
    undo_gate(op);
    unref(op);
}

/* ---- call.h ----------------------------------------------------------------------------------------------------- */

/* Everything up to the verb's own beginning. 1: begin it; 0: the loop will; an error: nothing was done, and the call is
 * gone. *ret_op has one reference, the caller's. */
static int prepare(const struct rdl__order *order, bool blocking, rdl_op_t **ret_op, rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    rdl_owner_t *owner = order->owner;
    rdl_op_t *op;
    int rc;

    rc = order->owed ? rdl__client_debt_begins(client) : rdl__client_call_begins(client);
    if (rc < 0)
        return rdl__err_set(err, rc, NULL);
    if (owner == NULL && (rc = rdl__owner_self(client, &owner)) < 0)
        goto fail;
    rc = RDL_ENOMEM;
    if ((op = op_make(order, owner)) == NULL)
        goto fail;
    op->blocking = blocking;
    op->started_at = rdl__now();
    ref(op); /* the loop's, in case it drives the call */
    rdl__owner_begin(owner, &op->underway);
    if ((rc = enter(op, ret_op)) >= 0)
        return rc;
    rdl__owner_end(owner, &op->underway);
    unref(op);
    unref(op);
fail:
    rdl__client_call_ends(client);
    return rdl__err_set(err, rc, NULL);
}

/* Give back the count of a lost hold, which asks no server: at once, or on the loop if the owner has another verb under
 * way. The caller's deadline does not allow for that one. */
static void take_back(const struct rdl__order *order)
{
    rdl_op_t *op = NULL;
    int rc = prepare(order, false, &op, NULL);

    if (rc >= 0)
        unref_by(op, rc > 0 && drive_blocking(op, begin(op, op->started_at), op->started_at) ? 2 : 1);
}

int64_t rdl__call(const struct rdl__order *order, rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    struct rdl__order back;
    rdl_op_t *op = NULL;
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
    if (rc > 0 && behind_undos(op) &&
        way_behind_undos(op, RDL__WAY_CALLERS) != RDL__WAY_CALLERS) { /* the loop has some of them to send yet */
        rdl__loop_post(rdl__client_loop(client), &op->task);
        rc = 0;
    }
    if (rc == 0 || !drive_blocking(op, begin(op, op->started_at), op->started_at)) {
        (void)rdl__park_for(&op->done, POST_DONE, RDL__NEVER);
        if ((back = lost_meanwhile(op)).verb != NULL)
            take_back(&back);
    } else {
        refs = 2; /* the loop never had it, and the clock was read as it ended */
    }
    result = result_of(op);
    if (result < 0)
        explain(op, err);
    rdl__client_call_ends(client);
    unref_by(op, refs);
    return result;
}

int rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    rdl_op_t *op = NULL;
    int rc;

    if ((rc = prepare(order, false, ret_op != NULL ? ret_op : &op, err)) < 0)
        return rc;
    if (ret_op != NULL)
        op = *ret_op;
    if (rc > 0 && (order->fan == NULL || !send_in_fan(op, order->fan)))
        rdl__loop_post(rdl__client_loop(rdl__op_client(op)), &op->task);
    if (ret_op == NULL)
        unref(op);
    return RDL_OK;
}

void rdl_op_cancel(rdl_op_t *op)
{
    if (op == NULL || rdl__client_forked(op->owner->client))
        return;
    rdl__mutex_lock(&op->owner->mu);
    if (rdl__link_on(&op->underway.link))
        op->underway.cancel(&op->underway, RDL_ECANCELED);
    rdl__mutex_unlock(&op->owner->mu);
}

rdl_op_t *rdl_op_free(rdl_op_t *op)
{
    if (op != NULL && !rdl__client_forked(op->owner->client))
        unref(op);
    return NULL;
}
