/* call.c - driving verbs.
 *
 * A call passes through these hands:
 *
 *   the caller's thread   begins the verb, sends on one of the shared lanes, finishes: the uncontended blocking call ends
 *                         here without ever meeting the loop
 *   the loop              takes over when the call has to wait for the lock or for an earlier verb of its owner; drives
 *                         asynchronous calls from the start, on a lane of its own
 *   the loop again        carries the undo, after the caller has gone
 *
 * A verb is four functions: begin decides locally and fills in what is to be sent; encode and decode speak with the server;
 * answered and stopped turn what came of it into the next step. Acquiring asks the machine in take.c for the steps.
 *
 * The call is its record's verb in flight from enter to leave; so it alone changes n, count and token. When the call is given
 * up, the lane puts `undo` in its place or behind it (lane.h, heirs). An undo of an outermost acquire or release concerns a
 * number that is never used again, so the record is free at once; an undo of a nested one keeps the record until it is
 * settled.
 *
 * References: the caller's (or the user's, of an operation), one while the loop drives the call, one for the undo, one for
 * the callback, one for a cancellation that was posted.
 */
#include "locks/call.h"

#include "core/base/err.h"
#include "core/service/scripts.h"
#include "core/wire/names.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define TOKEN_LEAST (INT64_C(1) << 40) /* an answer to a take above it is a token: no lease is that long */
#define WORDS_SIZE 256

#define POST_DONE 1u

struct rdl_op {
    const struct rdl__verb *verb;
    rdl_lock_t *lock;
    rdl_owner_t *owner;
    struct rdl__record *rec; /* NULL: the verb needs none, or there is none */
    struct rdl__req req;
    struct rdl__req undo;
    struct rdl__take take;
    _Atomic unsigned refs;
    _Atomic int cancel_code; /* RDL_OK: nobody asked */
    bool blocking;
    bool looped;        /* the loop drives it and it has not ended; loop only */
    bool first_form;    /* the try was sent as ops->encode_first */
    bool undoing;       /* an undo is under way, or about to be; whoever drives the call knows */
    bool undo_failed;   /* the undo was answered with an error; loop only */
    _Atomic int undo_gate; /* call concluded, undo settled: whoever comes second ends both */
    unsigned char stage; /* of verbs with several requests */
    unsigned undo_tries; /* loop only */
    struct rdl__task undo_task;
    struct rdl__timer undo_timer;

    int64_t started_at;
    int64_t deadline;   /* of the whole call */
    int64_t wait_ms;
    int64_t lease_ms;
    int64_t n;
    int64_t count;      /* wanted, or to be left */
    int64_t undo_count; /* to be left by the undo */
    int64_t undo_until; /* repeat it no longer than that */

    int64_t answer;     /* the server's, as a number */
    char *words;        /* the server's error, or a field that it named; WORDS_SIZE or words_size */
    size_t words_size;
    size_t words_len;
    bool refused_words; /* words are an error */
    int64_t result;

    struct rdl__underway underway;
    struct rdl__link pending;
    struct rdl__task task;
    struct rdl__task cancel_task;
    struct rdl__timer timer;
    struct rdl__waiter waiter;
    struct rdl__rand rand;
    bool waiting; /* counted in the name's `waiting` */
    struct rdl__parker done;
    struct rdl__callback callback;
    rdl_done_fn fn;
    void *arg;
};

/* Acquire's steps serve every verb: send, (wait,) finish. */
typedef struct rdl__take_step step_t;

struct rdl__verb {
    bool acquires;               /* may wait, may be canceled */
    bool on_record;              /* concerns the owner's own hold */
    enum rdl__heir_mode heir_mode;
    bool has_heir;
    step_t (*begin)(rdl_op_t *op, int64_t now);
    void (*encode)(rdl_op_t *op, struct rdl__buf *to, bool eval);
    void (*decode)(rdl_op_t *op, const struct rdl__reply *reply);
    step_t (*answered)(rdl_op_t *op, int64_t now);
};

static void drive(rdl_op_t *op, step_t step, int64_t now);

static struct rdl__name *name_of(const rdl_op_t *op)
{
    return op->lock->name;
}

static rdl_client_t *client_of(const rdl_op_t *op)
{
    return op->lock->name->client;
}

static step_t finish_with(int rc)
{
    return (step_t){.what = RDL__DO_FINISH, .rc = rc};
}

static step_t send_it(void)
{
    return (step_t){.what = RDL__DO_SEND};
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static void unref(rdl_op_t *op)
{
    rdl_owner_t *owner = op->owner;
    rdl_lock_t *lock = op->lock;

    if (atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) != 1)
        return;
    rdl__free(&client_of(op)->mem, op->words, op->words_size);
    rdl__owner_give_spare(owner, op, sizeof *op);
    rdl__owner_unref(owner);
    rdl__handle_unref(lock);
}

static void ref(rdl_op_t *op)
{
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

static void on_task(struct rdl__task *task, int64_t now);
static void on_cancel(struct rdl__task *task, int64_t now);
static void on_timer(struct rdl__timer *timer, int64_t now);
static void on_undo_task(struct rdl__task *task, int64_t now);
static void on_undo_timer(struct rdl__timer *timer, int64_t now);
static void run_callback(struct rdl__callback *callback);
static void cancel(struct rdl__underway *call, int code);
static const struct rdl__waiter_ops waiter_ops;

static rdl_op_t *op_make(const struct rdl__order *order, rdl_owner_t *owner)
{
    rdl_op_t *op = rdl__owner_take_spare(owner, sizeof *op);

    if (op == NULL)
        return NULL;
    op->verb = order->verb;
    op->lock = rdl__handle_ref(order->lock);
    op->owner = rdl__owner_ref(owner);
    op->fn = order->fn;
    op->arg = order->arg;
    op->wait_ms = order->wait_ms;
    op->lease_ms = order->lease_ms;
    atomic_init(&op->refs, 1);
    op->underway.cancel = cancel;
    rdl__list_init(&op->underway.link);
    rdl__list_init(&op->pending);
    rdl__task_init(&op->task, on_task);
    rdl__task_init(&op->cancel_task, on_cancel);
    rdl__timer_init(&op->timer, on_timer);
    rdl__task_init(&op->undo_task, on_undo_task);
    rdl__timer_init(&op->undo_timer, on_undo_timer);
    op->rand.state = order->lock->name->client->serial ^ (uint64_t)rdl__now();
    rdl__waiter_init(&op->waiter, &waiter_ops);
    rdl__parker_init(&op->done);
    rdl__list_init(&op->callback.link);
    op->callback.run = run_callback;
    return op;
}

/* Keep bytes of the server's; cut to what there is room for when memory is short.  @locks the lane's */
static void keep_words(rdl_op_t *op, const char *bytes, size_t len, bool error)
{
    size_t size = len + 1;

    op->refused_words = error;
    op->words_len = 0;
    if (op->words_size < size) {
        rdl__free(&client_of(op)->mem, op->words, op->words_size);
        op->words = rdl__alloc(&client_of(op)->mem, size);
        op->words_size = op->words == NULL ? 0 : size;
    }
    if (op->words == NULL)
        return;
    memcpy(op->words, bytes, len);
    op->words[len] = '\0';
    op->words_len = len;
}

/* ---- the record ---------------------------------------------------------------------------------------------------------- */

/* Become the verb in flight on the owner's record. 1: done, or no record is needed; 0: queued behind another verb, the loop
 * goes on when that has ended, which may be at once (so *ret_op, if wanted, is set before); RDL_ENOMEM. */
static int enter(rdl_op_t *op, rdl_op_t **ret_op)
{
    struct rdl__name *name = name_of(op);
    struct rdl__record *rec;
    int rc = 1;

    if (!op->verb->on_record) {
        if (ret_op != NULL)
            *ret_op = op;
        return 1;
    }
    rdl__mutex_lock(&name->mu);
    rec = rdl__record_find(name, op->owner);
    if (rec == NULL && op->verb->acquires && (rec = rdl__record_make(name, op->owner)) == NULL)
        rc = RDL_ENOMEM;
    if (rc > 0 && ret_op != NULL)
        *ret_op = op;
    if (rec != NULL) {
        atomic_fetch_add_explicit(&rec->refs, 1, memory_order_relaxed);
        op->rec = rec;
        if (rec->active == NULL) {
            rec->active = op;
        } else {
            rdl__list_push_back(&rec->pending, &op->pending);
            rc = 0;
        }
    }
    rdl__mutex_unlock(&name->mu);
    return rc;
}

/* Let the next verb have the record. */
static void leave(rdl_op_t *op)
{
    struct rdl__record *rec = op->rec;
    struct rdl__name *name = name_of(op);
    struct rdl__link *l;
    bool abandon;

    if (rec == NULL)
        return;
    op->rec = NULL;
    rdl__mutex_lock(&name->mu);
    l = rdl__list_pop(&rec->pending);
    rec->active = l == NULL ? NULL : rdl__container(l, rdl_op_t, pending);
    if (rec->active != NULL)
        rdl__loop_post(client_of(op)->node.loop, &rec->active->task);
    abandon = rec->active == NULL && rec->orphaned && rec->count > 0;
    if (abandon)
        rdl__mutex_unlock(&name->mu);
    else
        rdl__record_retire(rec);
    if (abandon)
        rdl__record_abandon(rec);
    rdl__record_unref(rec);
}

static void set_count(struct rdl__record *rec, int64_t count)
{
    rdl__mutex_lock(&rec->name->mu);
    rec->count = count;
    rdl__mutex_unlock(&rec->name->mu);
}

/* ---- encoding ------------------------------------------------------------------------------------------------------------ */

static void put_channel(struct rdl__buf *to, const struct rdl__name *name)
{
    char head[16];
    size_t len = rdl__name_prefix_len(name->ops->channel, name->bytes, name->node.key_len);
    size_t n = rdl__itoa(head + 1, (int64_t)len);

    head[0] = '$';
    head[n + 1] = '\r';
    head[n + 2] = '\n';
    rdl__buf_put(to, head, n + 3);
    rdl__name_prefix(to, name->ops->channel, name->bytes, name->node.key_len);
    rdl__buf_put(to, "\r\n", 2);
}

static void put_field(struct rdl__buf *to, const struct rdl__name *name, int64_t n)
{
    char field[RDL__FIELD_MAX];

    rdl__cmd_arg(to, field, rdl__field(field, &name->client->uuid, n));
}

static void put_release(struct rdl__buf *to, const rdl_op_t *op, bool eval, int64_t left)
{
    const struct rdl__name *name = name_of(op);

    rdl__script_begin(to, name->ops->release, eval, 2, 2);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    put_channel(to, name);
    put_field(to, name, op->n);
    rdl__cmd_int(to, left);
}

/* ---- undo ---------------------------------------------------------------------------------------------------------------- */

static void encode_undo(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, undo);

    put_release(to, op, eval, op->undo_count);
}

static void decode_undo(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    (void)now;
    rdl__container(req, rdl_op_t, undo)->undo_failed = reply->type == RDL__REPLY_ERROR;
}

static void done_undo(struct rdl__req *req, int64_t now);

static const struct rdl__req_ops undo_ops = {.encode = encode_undo, .decode = decode_undo, .done = done_undo};

/* An undo may begin from now on; repeat it no longer than a lease from `latest`. */
static void undo_prepare(rdl_op_t *op, int64_t latest)
{
    int64_t lease_ms = op->lease_ms > 0 ? op->lease_ms : client_of(op)->watchdog_lease_ms;

    rdl__req_init(&op->undo, &undo_ops);
    op->undo_until = rdl__after_ms(latest, lease_ms);
}

/* The undo begins, or has begun as an heir and may be settled already. */
static void undo_begins(rdl_op_t *op)
{
    ref(op);
    op->undoing = true;
}

/* Called twice: when the call is concluded, and when its undo is settled. The two may happen on different threads, in either
 * order; the second ends both. */
static void undo_gate(rdl_op_t *op)
{
    if (atomic_fetch_add(&op->undo_gate, 1) == 0)
        return;
    leave(op); /* of a nested verb: it kept the record */
    rdl__client_call_ends(client_of(op));
    unref(op);
}

static void send_undo(rdl_op_t *op)
{
    rdl__req_init(&op->undo, &undo_ops);
    rdl__lane_submit(client_of(op)->loop_lane, &op->undo);
}

static void on_undo_task(struct rdl__task *task, int64_t now)
{
    (void)now;
    send_undo(rdl__container(task, rdl_op_t, undo_task));
}

static void on_undo_timer(struct rdl__timer *timer, int64_t now)
{
    (void)now;
    send_undo(rdl__container(timer, rdl_op_t, undo_timer));
}

/* Answered: settled, unless an error or the lack of CLIENT KILL leaves room for an acquire that comes late: then it is
 * repeated at 0.1, 0.3, 1, 3 ... s until a lease has passed (PROTOCOL.md, 3). */
static void done_undo(struct rdl__req *req, int64_t now)
{
    static const int64_t pause_ms[] = {100, 300, 1000, 3000, 10000};
    rdl_op_t *op = rdl__container(req, rdl_op_t, undo);
    rdl_client_t *client = client_of(op);
    bool again = req->rc == RDL_ENOMEM || (req->rc == RDL_OK && (op->undo_failed || atomic_load(&client->node.kill_refused)));
    unsigned i = op->undo_tries < 4 ? op->undo_tries : 4;

    if (!again || now >= op->undo_until || atomic_load(&client->closing)) {
        undo_gate(op);
        return;
    }
    op->undo_tries++;
    rdl__loop_timer(client->node.loop, &op->undo_timer, now + pause_ms[i] * RDL__MS);
}

/* ---- ending -------------------------------------------------------------------------------------------------------------- */

static void count_result(const rdl_op_t *op, int64_t now)
{
    const struct rdl__sinks *sinks = &client_of(op)->sinks;

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

/* The outcome is decided. `undo`: start one (an heir is under way already). `by_loop`: the loop drove the call, and gives its
 * reference back: the call may be gone on return. */
static void conclude(rdl_op_t *op, int64_t rc, bool undo, bool by_loop, int64_t now)
{
    rdl_client_t *client = client_of(op);

    op->result = rc;
    if (by_loop)
        op->looped = false;
    if (undo) {
        undo_prepare(op, now);
        undo_begins(op);
    }
    if (!op->undoing || op->undo_count == 0)
        leave(op);
    rdl__owner_end(op->owner, &op->underway);
    count_result(op, now);
    if (undo)
        rdl__loop_post(client->node.loop, &op->undo_task);
    if (op->undoing)
        undo_gate(op);
    else
        rdl__client_call_ends(client);
    if (!op->blocking) {
        ref(op);
        rdl__dispatch_push(&client->dispatch, &op->callback);
    } else if (by_loop) {
        rdl__parker_post(&op->done, POST_DONE);
    }
    if (by_loop)
        unref(op);
}

/* What happened, for a person. */
static void explain(const rdl_op_t *op, rdl_err_t *err)
{
    const struct rdl__name *name = name_of(op);
    const char *label = name->client->node.label, *text = rdl_strerror((int)op->result);
    char lock[96];
    rdl_err_t why;

    if (err == NULL)
        return;
    (void)rdl__printable(lock, sizeof lock, name->bytes, name->node.key_len);
    if (op->result == RDL_ETIMEDOUT && op->wait_ms > 0)
        (void)rdl__err_set(err, RDL_ETIMEDOUT, "lock %s at %s: not acquired within %lld ms: somebody else holds it", lock, label,
                           (long long)op->wait_ms);
    else if (op->result == RDL_ESERVER && op->refused_words && op->words_len > 0)
        (void)rdl__err_set(err, RDL_ESERVER, "lock %s at %s: %s", lock, label, op->words);
    else if (op->result == RDL_ECONN && rdl__node_error(&name->client->node, RDL_ECONN, &why) < 0)
        (void)rdl__err_set(err, RDL_ECONN, "lock %s: %s", lock, why.message);
    else if (op->result == RDL_EINVAL && op->words_len > 0)
        (void)rdl__err_set(err, RDL_EINVAL, "lock %s: %s", lock, op->words);
    else
        (void)rdl__err_set(err, (int)op->result, "lock %s at %s: %s", lock, label, text);
    rdl__err_where(err, label, name->bytes, name->node.key_len);
}

static void run_callback(struct rdl__callback *callback)
{
    rdl_op_t *op = rdl__container(callback, rdl_op_t, callback);
    rdl_err_t err = {0};

    if (op->result < 0)
        explain(op, &err);
    if (op->fn != NULL)
        op->fn(op->lock, op->result, op->result < 0 ? &err : NULL, op->arg);
    unref(op);
}

/* ---- sending: requests of either thread ---------------------------------------------------------------------------------- */

static void encode(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    op->verb->encode(op, to, eval);
}

static void decode(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    (void)now;
    op->refused_words = false;
    if (reply->type == RDL__REPLY_ERROR)
        keep_words(op, reply->str, reply->len, true);
    else
        op->verb->decode(op, reply);
}

static step_t answered(rdl_op_t *op, int64_t now)
{
    const struct rdl__sinks *sinks = &client_of(op)->sinks;

    op->req.state = RDL__REQ_IDLE;
    if (op->req.rc == RDL_OK)
        rdl__metric(sinks, RDL_M_RTT_US, (now - op->req.sent_at) / RDL__US);
    if (op->req.eval)
        rdl__metric(sinks, RDL_M_SCRIPT_LOADS, 1);
    return op->verb->answered(op, now);
}

static void done_on_loop(struct rdl__req *req, int64_t now)
{
    rdl_op_t *op = rdl__container(req, rdl_op_t, req);

    rdl__loop_timer_off(client_of(op)->node.loop, &op->timer);
    drive(op, answered(op, now), now);
}

static const struct rdl__req_ops blocking_ops = {.encode = encode, .decode = decode};
static const struct rdl__req_ops loop_ops = {.encode = encode, .decode = decode, .done = done_on_loop};

/* Until when one request may go unanswered. */
static int64_t send_deadline(const rdl_op_t *op, int64_t now)
{
    int64_t most = rdl__after_ms(now, client_of(op)->outage_timeout_ms);

    return op->deadline < most ? op->deadline : most;
}

/* Everything of it is set before it may take over: it may be settled before whoever gave up hears of it. */
static struct rdl__req *heir_of(rdl_op_t *op, int64_t now)
{
    if (!op->verb->has_heir)
        return NULL;
    undo_prepare(op, send_deadline(op, now));
    return &op->undo;
}

/* The request under way was given up: does its heir go on? */
static void heir_begins(rdl_op_t *op, enum rdl__outcome outcome)
{
    if (op->verb->has_heir && (outcome == RDL__UNSURE || op->verb->heir_mode == RDL__HEIR_REPLACES))
        undo_begins(op);
}

/* Waiting ends: `code`, or RDL_OK when the deadline has come. */
static step_t stopped(rdl_op_t *op, int code, enum rdl__outcome outcome)
{
    struct rdl__take_event ev = {
        .kind = RDL__EV_STOPPED,
        .code = code,
        .unsent = outcome == RDL__UNSENT,
        .unsure = outcome == RDL__UNSURE,
    };

    if (op->verb->acquires)
        return rdl__take_on(&op->take, &ev, NULL);
    if (code != RDL_OK)
        return finish_with(code);
    return finish_with(outcome == RDL__UNSENT ? RDL_ECONN : RDL_EUNKNOWN);
}

/* ---- the caller's thread ------------------------------------------------------------------------------------------------- */

/* Drive until the call has ended (true) or is handed to the loop, to wait (false).  @thread the caller's */
static bool drive_blocking(rdl_op_t *op, step_t step, int64_t now)
{
    while (step.what == RDL__DO_SEND) {
        enum rdl__outcome outcome;
        int code;

        rdl__req_init(&op->req, &blocking_ops);
        if ((code = atomic_load(&op->cancel_code)) != RDL_OK) { /* asked before the request could be told of it */
            step = finish_with(code);
            break;
        }
        outcome = rdl__lane_call(rdl__client_lane(client_of(op), op->owner->index), &op->req, send_deadline(op, now),
                                 heir_of(op, now), op->verb->heir_mode);
        now = rdl__now();
        if (outcome == RDL__ANSWERED) {
            step = answered(op, now);
        } else {
            heir_begins(op, outcome);
            step = stopped(op, atomic_load(&op->cancel_code), outcome);
        }
    }
    if (step.what == RDL__DO_FINISH) {
        conclude(op, step.rc, step.undo, false, now);
        return true;
    }
    op->answer = step.hint_ms; /* for the loop, which goes to wait */
    rdl__loop_post(client_of(op)->node.loop, &op->task);
    return false;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------ */

static void stop_waiting(rdl_op_t *op, bool used, int64_t now)
{
    rdl__waiter_leave(&op->waiter, used, now);
    if (op->waiting)
        atomic_fetch_sub(&name_of(op)->waiting, 1);
    op->waiting = false;
}

static void finish_on_loop(rdl_op_t *op, const step_t *step, int64_t now)
{
    rdl__loop_timer_off(client_of(op)->node.loop, &op->timer);
    stop_waiting(op, step->rc == RDL_OK, now);
    conclude(op, step->rc, step->undo, true, now);
}

static void send_on_loop(rdl_op_t *op, int64_t now)
{
    rdl__req_init(&op->req, &loop_ops);
    rdl__waiter_sent(&op->waiter);
    rdl__loop_timer(client_of(op)->node.loop, &op->timer, send_deadline(op, now));
    rdl__lane_submit(client_of(op)->loop_lane, &op->req);
}

/* Join the waiters, or go back to them. False: no memory. */
static bool wait_on_loop(rdl_op_t *op, int64_t hint_ms, int64_t now)
{
    struct rdl__name *name = name_of(op);
    struct rdl__buf channel;
    int rc;

    if (op->deadline != RDL__NEVER)
        rdl__loop_timer(name->client->node.loop, &op->timer, op->deadline);
    rdl__buf_init(&channel, &name->client->mem);
    rdl__name_prefix(&channel, name->ops->channel, name->bytes, name->node.key_len);
    rc = rdl__buf_failed(&channel) ? RDL_ENOMEM
                                   : rdl__waiter_join(&name->client->waiters, &op->waiter, channel.data, channel.len, hint_ms, now);
    rdl__buf_done(&channel);
    if (rc < 0)
        return false;
    op->waiting = true;
    atomic_fetch_add(&name->waiting, 1);
    return true;
}

/* Carry out a step; the rest follows when something happens.  @thread loop */
static void drive(rdl_op_t *op, step_t step, int64_t now)
{
    struct rdl__take_event woken = {.kind = RDL__EV_WOKEN};
    int code = atomic_load(&op->cancel_code);

    if (step.what != RDL__DO_FINISH && code != RDL_OK)
        step = stopped(op, code, RDL__UNSENT);
    if (step.what == RDL__DO_WAIT && op->waiter.channel == NULL) {
        if (wait_on_loop(op, step.hint_ms, now))
            return;
        step = finish_with(RDL_ENOMEM);
    } else if (step.what == RDL__DO_WAIT) {
        if (rdl__waiter_refused(&op->waiter, step.hint_ms, now)) {
            if (op->deadline != RDL__NEVER)
                rdl__loop_timer(client_of(op)->node.loop, &op->timer, op->deadline);
            return;
        }
        step = rdl__take_on(&op->take, &woken, &op->rand);
    }
    if (step.what == RDL__DO_SEND)
        send_on_loop(op, now);
    else
        finish_on_loop(op, &step, now);
}

static void go(struct rdl__waiter *waiter, int64_t now)
{
    rdl_op_t *op = rdl__container(waiter, rdl_op_t, waiter);
    struct rdl__take_event woken = {.kind = RDL__EV_WOKEN};

    drive(op, rdl__take_on(&op->take, &woken, &op->rand), now);
}

static const struct rdl__waiter_ops waiter_ops = {.go = go};

/* End the call now, whatever it is doing.  @thread loop */
static void stop(rdl_op_t *op, int code, int64_t now)
{
    enum rdl__outcome outcome = RDL__UNSENT;
    step_t step;

    if (op->req.state == RDL__REQ_QUEUED || op->req.state == RDL__REQ_SENT || op->req.state == RDL__REQ_SETTLED) {
        outcome = rdl__lane_give_up(client_of(op)->loop_lane, &op->req, heir_of(op, now), op->verb->heir_mode);
        if (outcome == RDL__ANSWERED)
            return; /* and its `done` is about to run */
        heir_begins(op, outcome);
    }
    step = stopped(op, code, outcome);
    finish_on_loop(op, &step, now);
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    stop(rdl__container(timer, rdl_op_t, timer), RDL_OK, now);
}

static step_t begin(rdl_op_t *op, int64_t now)
{
    int code = atomic_load(&op->cancel_code);

    return code != RDL_OK ? finish_with(code) : op->verb->begin(op, now);
}

/* Posted when the loop takes the call over, to begin it, or to wait.  @thread loop */
static void on_task(struct rdl__task *task, int64_t now)
{
    rdl_op_t *op = rdl__container(task, rdl_op_t, task);

    op->looped = true;
    if (op->take.state == RDL__TAKE_WAITING) {
        step_t step = {.what = RDL__DO_WAIT, .hint_ms = op->answer};

        drive(op, step, now);
    } else {
        drive(op, begin(op, now), now);
    }
}

/* ---- canceling ----------------------------------------------------------------------------------------------------------- */

static void cancel(struct rdl__underway *call, int code)
{
    rdl_op_t *op = rdl__container(call, rdl_op_t, underway);
    int none = RDL_OK;

    if ((!op->verb->acquires && code == RDL_ECANCELED) || !atomic_compare_exchange_strong(&op->cancel_code, &none, code))
        return;
    ref(op);
    rdl__parker_post(&op->req.park, RDL__POST_CANCEL);
    rdl__loop_post(client_of(op)->node.loop, &op->cancel_task);
}

/* Take a call out of its record's queue. False: it is not there.  @thread loop */
static bool unqueue(rdl_op_t *op)
{
    bool queued;

    rdl__mutex_lock(&name_of(op)->mu);
    queued = rdl__link_on(&op->pending);
    rdl__list_remove(&op->pending);
    rdl__mutex_unlock(&name_of(op)->mu);
    return queued;
}

/* A call that its own thread drives looks for itself, and one that is on its way to the loop will when it gets here. */
static void on_cancel(struct rdl__task *task, int64_t now)
{
    rdl_op_t *op = rdl__container(task, rdl_op_t, cancel_task);
    int code = atomic_load(&op->cancel_code);

    if (unqueue(op)) {
        rdl__record_unref(op->rec);
        op->rec = NULL;
        conclude(op, code, false, true, now);
    } else if (op->looped) {
        stop(op, code, now);
    }
    unref(op);
}

/* ---- acquire ------------------------------------------------------------------------------------------------------------- */

static int64_t lease_of(const rdl_op_t *op)
{
    return op->lease_ms == RDL_LEASE_AUTO ? client_of(op)->watchdog_lease_ms : op->lease_ms;
}

static step_t say_einval(rdl_op_t *op, const char *words)
{
    keep_words(op, words, strlen(words), false);
    return finish_with(RDL_EINVAL);
}

static step_t take_begin(rdl_op_t *op, int64_t now)
{
    struct rdl__name *name = name_of(op);
    struct rdl__record *rec = op->rec;
    struct rdl__take_event ev = {.kind = RDL__EV_START, .others_wait = atomic_load(&name->waiting) > 0};

    rdl__take_init(&op->take, op->wait_ms == 0, &name->retry);
    rdl__metric(&name->client->sinks, RDL_M_ATTEMPTS, 1);
    if (rec->count > 0) {
        if (rdl__watchdog_state(name->client->watchdog, &rec->hold, now, NULL) == RDL_LOST)
            return finish_with(RDL_ELOST);
        if (!name->ops->reentrant)
            return finish_with(RDL_EDEADLK);
        if (rec->count >= INT32_MAX)
            return say_einval(op, "held 2^31-1 times already");
        ev.others_wait = false; /* it holds the lock: nothing to wait for */
        op->n = rec->n;
    } else {
        op->n = rdl__client_number(name->client);
    }
    op->count = rec->count + 1;
    op->undo_count = rec->count;
    return rdl__take_on(&op->take, &ev, &op->rand);
}

static void take_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = name_of(op);
    char field[RDL__FIELD_MAX];
    struct rdl__try t = {
        .name = name->bytes,
        .name_len = name->node.key_len,
        .field = field,
        .field_len = rdl__field(field, &name->client->uuid, op->n),
        .count = op->count,
        .lease_ms = lease_of(op),
        .token = name->token,
    };

    op->first_form = name->ops->encode_first != NULL && !t.token && op->take.tries == 0 && !op->req.resent;
    if (op->first_form) {
        name->ops->encode_first(to, &t);
        return;
    }
    rdl__script_begin(to, name->ops->take, eval, 1, t.token ? 4 : 3);
    rdl__cmd_arg(to, t.name, t.name_len);
    rdl__cmd_arg(to, t.field, t.field_len);
    rdl__cmd_int(to, t.count);
    rdl__cmd_int(to, t.lease_ms);
    if (t.token)
        rdl__cmd_arg(to, "1", 1);
}

static void number_decode(rdl_op_t *op, const struct rdl__reply *reply)
{
    static const char odd[] = "an answer that is not understood";

    if (!rdl__reply_integer(reply, &op->answer))
        keep_words(op, odd, sizeof odd - 1, true);
}

static void take_decode(rdl_op_t *op, const struct rdl__reply *reply)
{
    if (!op->first_form || !name_of(op)->ops->decode_first(reply, &op->answer))
        number_decode(op, reply);
}

/* The server has granted it: believe that for as long as the lease goes. */
static bool take_commit(rdl_op_t *op, int64_t now)
{
    struct rdl__record *rec = op->rec;
    struct rdl__watchdog *wd = client_of(op)->watchdog;
    bool renewed = op->lease_ms == RDL_LEASE_AUTO;
    bool orphaned;

    if (now >= rdl__watchdog_validity(wd, op->req.sent_at, lease_of(op)))
        return false;
    if (op->count > 1) {
        if (!rdl__watchdog_raise(wd, &rec->hold, op->req.sent_at, lease_of(op), renewed, now))
            return false;
        set_count(rec, op->count);
        return true;
    }
    rdl__mutex_lock(&rec->name->mu);
    orphaned = rec->orphaned;
    rec->n = op->n;
    rec->token = op->answer > TOKEN_LEAST ? op->answer : 0;
    rec->held_since = now;
    rdl__mutex_unlock(&rec->name->mu);
    if (orphaned)
        return false;
    rdl__watchdog_add(wd, &rec->hold, op->req.sent_at, lease_of(op), renewed);
    set_count(rec, 1);
    return true;
}

static step_t take_answered(rdl_op_t *op, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_FAILED, .unsure = op->req.resent};

    if (op->req.rc != RDL_OK) {
        ev.code = op->req.rc;
    } else if (op->refused_words) {
        ev.code = RDL_ESERVER;
    } else if (op->answer == RDL__GONE) {
        ev.kind = RDL__EV_GONE;
        rdl__watchdog_gone(client_of(op)->watchdog, &op->rec->hold);
    } else if (op->answer == RDL__TAKEN || op->answer == RDL__HELD || op->answer > TOKEN_LEAST) {
        ev.kind = RDL__EV_TAKEN;
        ev.valid = take_commit(op, now);
    } else {
        ev.kind = RDL__EV_REFUSED;
        ev.ttl_ms = op->answer;
    }
    return rdl__take_on(&op->take, &ev, &op->rand);
}

const struct rdl__verb rdl__verb_take = {
    .acquires = true,
    .on_record = true,
    .heir_mode = RDL__HEIR_FOLLOWS,
    .has_heir = true,
    .begin = take_begin,
    .encode = take_encode,
    .decode = take_decode,
    .answered = take_answered,
};

/* ---- release ------------------------------------------------------------------------------------------------------------- */

/* The outermost release takes the hold out of the watchdog first, so that no renewal starts after it. */
static step_t release_begin(rdl_op_t *op, int64_t now)
{
    struct rdl__record *rec = op->rec;
    struct rdl__watchdog *wd = client_of(op)->watchdog;
    rdl_hold_state_t state;
    int64_t left;

    if (rec == NULL || rec->count == 0)
        return finish_with(RDL_ENOTOWNER);
    left = rec->count - 1;
    op->n = rec->n;
    op->count = op->undo_count = left;
    op->lease_ms = rec->hold.lease_ms;
    state = left == 0 ? rdl__watchdog_remove(wd, &rec->hold, now) : rdl__watchdog_state(wd, &rec->hold, now, NULL);
    set_count(rec, left);
    if (left == 0)
        rdl__metric(&client_of(op)->sinks, RDL_M_HOLD_US, (now - rec->held_since) / RDL__US);
    return state == RDL_LOST ? finish_with(RDL_ELOST) : send_it();
}

static void release_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    put_release(to, op, eval, op->count);
}

static step_t release_answered(rdl_op_t *op, int64_t now)
{
    step_t again = {.what = RDL__DO_FINISH, .rc = op->req.rc, .undo = op->req.rc != RDL_ECLOSED};

    (void)now;
    if (op->req.rc != RDL_OK)
        return again;
    if (op->refused_words) {
        again.rc = RDL_ESERVER;
        return again;
    }
    if (op->answer == RDL__NO_HOLD && !(op->req.resent && op->count == 0)) { /* a repeat finds its own work done */
        if (op->count > 0) {
            rdl__watchdog_gone(client_of(op)->watchdog, &op->rec->hold);
        } else {
            rdl__metric(&client_of(op)->sinks, RDL_M_LOST, 1);
            rdl__record_tell(op->rec, RDL_LOST, RDL_LOSS_GONE);
        }
        return finish_with(RDL_ELOST);
    }
    if (op->count == 0)
        rdl__metric(&client_of(op)->sinks, RDL_M_RELEASED, 1);
    return finish_with(RDL_OK);
}

const struct rdl__verb rdl__verb_release = {
    .on_record = true,
    .heir_mode = RDL__HEIR_REPLACES,
    .has_heir = true,
    .begin = release_begin,
    .encode = release_encode,
    .decode = number_decode,
    .answered = release_answered,
};

/* A call that consists of its undo alone. */
void rdl__call_tidy(struct rdl__record *rec)
{
    rdl_client_t *client = rec->name->client;
    struct rdl__order order = {.verb = &rdl__verb_release, .lease_ms = client->watchdog_lease_ms};
    rdl_op_t *op;
    int64_t n;

    if (rdl__client_call_begins(client) < 0)
        return;
    rdl__mutex_lock(&rec->name->mu);
    n = rec->n;
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
    undo_prepare(op, rdl__now());
    undo_begins(op);
    undo_gate(op);
    rdl__loop_post(client->node.loop, &op->undo_task);
    unref(op);
}

/* ---- extend -------------------------------------------------------------------------------------------------------------- */

static step_t extend_begin(rdl_op_t *op, int64_t now)
{
    struct rdl__record *rec = op->rec;

    if (rec == NULL || rec->count == 0)
        return finish_with(RDL_ENOTOWNER);
    if (rdl__watchdog_state(client_of(op)->watchdog, &rec->hold, now, NULL) == RDL_LOST)
        return finish_with(RDL_ELOST);
    op->n = rec->n;
    return send_it();
}

static void extend_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = name_of(op);

    rdl__script_begin(to, name->ops->renew, eval, 1, 2);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    put_field(to, name, op->n);
    rdl__cmd_int(to, op->lease_ms);
}

static void extend_decode(rdl_op_t *op, const struct rdl__reply *reply)
{
    static const struct rdl__reply nothing = {.type = RDL__REPLY_NIL};
    const struct rdl__reply *ttl = rdl__reply_at(reply, 2);

    number_decode(op, ttl != NULL ? ttl : &nothing);
}

/* What every verb makes of an answer that is none. RDL_OK: it is one. */
static int answer_failed(const rdl_op_t *op)
{
    if (op->req.rc != RDL_OK)
        return op->req.rc;
    return op->refused_words ? RDL_ESERVER : RDL_OK;
}

static step_t extend_answered(rdl_op_t *op, int64_t now)
{
    struct rdl__watchdog *wd = client_of(op)->watchdog;
    int rc = answer_failed(op);

    if (rc < 0)
        return finish_with(rc);
    if (op->answer == RDL__NO_HOLD) {
        rdl__watchdog_gone(wd, &op->rec->hold);
        return finish_with(RDL_ELOST);
    }
    return finish_with(rdl__watchdog_raise(wd, &op->rec->hold, op->req.sent_at, op->lease_ms, false, now) ? RDL_OK : RDL_ELOST);
}

const struct rdl__verb rdl__verb_extend = {
    .on_record = true,
    .begin = extend_begin,
    .encode = extend_encode,
    .decode = extend_decode,
    .answered = extend_answered,
};

/* ---- questions, and force-unlock: whoever holds it ----------------------------------------------------------------------- */

static step_t ask(rdl_op_t *op, int64_t now)
{
    (void)op;
    (void)now;
    return send_it();
}

static void encode_question(rdl_op_t *op, struct rdl__buf *to, const char *command)
{
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, command);
    rdl__cmd_arg(to, name_of(op)->bytes, name_of(op)->node.key_len);
}

static void is_locked_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    (void)eval;
    encode_question(op, to, "EXISTS");
}

static void remaining_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    (void)eval;
    encode_question(op, to, "PTTL");
}

/* The result of a verb whose answer is its result. A code below RDL_OK is never an answer. */
static step_t answer_is(rdl_op_t *op, int64_t value)
{
    int rc = answer_failed(op);

    op->answer = value;
    return rc < 0 ? finish_with(rc) : (step_t){.what = RDL__DO_FINISH, .rc = RDL_OK};
}

static step_t is_locked_answered(rdl_op_t *op, int64_t now)
{
    (void)now;
    return answer_is(op, op->answer != 0);
}

static step_t remaining_answered(rdl_op_t *op, int64_t now)
{
    (void)now;
    if (op->answer == -1)
        return answer_is(op, INT64_MAX); /* somebody took the end off it */
    return answer_is(op, op->answer < 0 ? 0 : op->answer);
}

const struct rdl__verb rdl__verb_is_locked = {
    .begin = ask,
    .encode = is_locked_encode,
    .decode = number_decode,
    .answered = is_locked_answered,
};

/* What the owner holds needs no server. */
static step_t remaining_begin(rdl_op_t *op, int64_t now)
{
    struct rdl__name *name = name_of(op);
    rdl_hold_state_t state = RDL_NOT_HELD;
    const struct rdl__record *rec;
    int64_t left = 0;

    rdl__mutex_lock(&name->mu);
    if ((rec = rdl__record_find(name, op->owner)) != NULL && rec->count > 0)
        state = rdl__watchdog_state(name->client->watchdog, &rec->hold, now, &left);
    rdl__mutex_unlock(&name->mu);
    op->answer = rdl__ms_until(left, 0);
    if (state == RDL_NOT_HELD)
        return send_it();
    return finish_with(state == RDL_LOST ? RDL_ELOST : RDL_OK);
}

const struct rdl__verb rdl__verb_remaining = {
    .begin = remaining_begin,
    .encode = remaining_encode,
    .decode = number_decode,
    .answered = remaining_answered,
};

/* Two requests: who holds it, then the eviction of that holder and no other. */
enum { FORCE_LOOK, FORCE_EVICT };

static void force_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = name_of(op);

    if (op->stage == FORCE_LOOK) {
        name->ops->encode_holder(to, name->bytes, name->node.key_len);
        return;
    }
    rdl__script_begin(to, name->ops->force, eval, 2, 1);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    put_channel(to, name);
    rdl__cmd_arg(to, op->words, op->words_len);
}

static void force_decode(rdl_op_t *op, const struct rdl__reply *reply)
{
    const char *field;
    size_t len;

    if (op->stage == FORCE_EVICT) {
        number_decode(op, reply);
        return;
    }
    op->answer = name_of(op)->ops->decode_holder(reply, &field, &len) ? 1 : 0;
    if (op->answer == 1)
        keep_words(op, field, len, false);
}

/* The hold that was evicted may be one of this client: then its owner need not wait to find out. */
static void force_notice(const rdl_op_t *op)
{
    struct rdl__name *name = name_of(op);
    struct rdl__record *found = NULL;
    char field[RDL__FIELD_MAX];

    rdl__mutex_lock(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records && found == NULL; l = l->next) {
        struct rdl__record *rec = rdl__container(l, struct rdl__record, link);
        size_t len = rdl__field(field, &name->client->uuid, rec->n);

        if (rec->count > 0 && len == op->words_len && memcmp(field, op->words, len) == 0) {
            found = rec;
            atomic_fetch_add(&rec->refs, 1);
        }
    }
    rdl__mutex_unlock(&name->mu);
    if (found == NULL)
        return;
    rdl__watchdog_gone(name->client->watchdog, &found->hold);
    rdl__record_unref(found);
}

static step_t force_answered(rdl_op_t *op, int64_t now)
{
    (void)now;
    if (op->stage == FORCE_EVICT && op->answer == 1 && answer_failed(op) == RDL_OK)
        force_notice(op);
    if (op->stage == FORCE_EVICT || op->answer == 0 || answer_failed(op) < 0)
        return answer_is(op, op->answer);
    if (op->words_len == 0)
        return finish_with(RDL_ENOMEM);
    op->stage = FORCE_EVICT;
    return send_it();
}

const struct rdl__verb rdl__verb_force = {
    .begin = ask,
    .encode = force_encode,
    .decode = force_decode,
    .answered = force_answered,
};

/* ---- call.h -------------------------------------------------------------------------------------------------------------- */

static void set_deadline(rdl_op_t *op, int64_t now)
{
    op->started_at = now;
    if (op->verb->acquires && op->wait_ms == RDL_WAIT_FOREVER)
        op->deadline = RDL__NEVER;
    else if (op->verb->acquires && op->wait_ms > 0)
        op->deadline = rdl__after_ms(now, op->wait_ms);
    else
        op->deadline = rdl__after_ms(now, client_of(op)->command_timeout_ms);
}

/* Everything up to the verb's own beginning. 1: begin it; 0: the loop will; an error: nothing was done, and the call is
 * gone. *ret_op has one reference, the caller's. */
static int prepare(const struct rdl__order *order, bool blocking, rdl_op_t **ret_op, rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    rdl_owner_t *owner = order->owner;
    rdl_op_t *op;
    int rc;

    if ((rc = rdl__client_call_begins(client)) < 0)
        return rdl__err_set(err, rc, NULL);
    if (owner == NULL && (rc = rdl__owner_self(client, &owner)) < 0)
        goto fail;
    rc = RDL_ENOMEM;
    if ((op = op_make(order, owner)) == NULL)
        goto fail;
    op->blocking = blocking;
    set_deadline(op, rdl__now());
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

static int64_t result_of(const rdl_op_t *op)
{
    return op->result == RDL_OK && !op->verb->on_record ? op->answer : op->result;
}

int64_t rdl__call(const struct rdl__order *order, rdl_err_t *err)
{
    rdl_client_t *client = order->lock->name->client;
    rdl_op_t *op = NULL;
    int64_t result;
    int rc;

    if (rdl__loop_here(client->node.loop))
        return rdl__err_set(err, RDL_EDEADLK, "a blocking verb on the client's loop thread would wait for itself");
    if ((rc = rdl__client_call_begins(client)) < 0) /* so that the client stays whole until the outcome is told */
        return rdl__err_set(err, rc, NULL);
    if ((rc = prepare(order, true, &op, err)) < 0) {
        rdl__client_call_ends(client);
        return rc;
    }
    if (rc == 0 || !drive_blocking(op, begin(op, op->started_at), op->started_at))
        (void)rdl__park_for(&op->done, POST_DONE, RDL__NEVER);
    else
        unref(op); /* the loop never had it */
    result = result_of(op);
    if (result < 0)
        explain(op, err);
    rdl__client_call_ends(client);
    unref(op);
    return result;
}

int rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    rdl_op_t *op = NULL;
    int rc = prepare(order, false, ret_op != NULL ? ret_op : &op, err);

    if (rc < 0)
        return rc;
    if (ret_op != NULL)
        op = *ret_op;
    if (rc > 0)
        rdl__loop_post(client_of(op)->node.loop, &op->task);
    if (ret_op == NULL)
        unref(op);
    return RDL_OK;
}

void rdl_op_cancel(rdl_op_t *op)
{
    if (op == NULL || rdl__client_forked(client_of(op)))
        return;
    rdl__mutex_lock(&op->owner->mu);
    if (rdl__link_on(&op->underway.link))
        cancel(&op->underway, RDL_ECANCELED);
    rdl__mutex_unlock(&op->owner->mu);
}

rdl_op_t *rdl_op_free(rdl_op_t *op)
{
    if (op != NULL && !rdl__client_forked(client_of(op)))
        unref(op);
    return NULL;
}
