/* SPDX-License-Identifier: MIT */
/* undo.c - the undo of a call: what makes harmless at the server what the call has left there, or may have.
 *
 * When a call is given up, its request becomes its undo in the lane (lane.h, successors); a call that has no request in
 * a lane posts an undo. The undo outlives the call, whose caller already has its result. Both use the same memory, and
 * the one that ends second lets the client go on closing (rdl__undo_gate). The undo takes over the call's request, way,
 * task and timer.
 *
 * The record does not wait for it: an undo of an outermost verb concerns a number that is never used again, and one of
 * a nested verb can only make the server's count too low, which nothing depends on, because counts are absolute and
 * only 0 deletes. Waiting would block the owner's next verb while the server does not answer. But the server may refuse
 * a next take because of what the undo is about to remove: so while undos of a name are unanswered, its takes are sent
 * on the same connection, behind them (rdl__way_behind_undos); if there are undos on several connections, on the one
 * that is likeliest to carry the owner's own.
 *
 * It is repeated at growing intervals, for a lease or a waiter's life, if it was answered with an error, or while a
 * request of the call may still reach the server after it; and once more, at once, if the verb has found that it left
 * something (undo_once_more).
 */
#include "core/call/inner.h"

/* By EVAL: after NOSCRIPT it would be sent again behind requests that it must precede. Without memory for the script's
 * text by EVALSHA: NOSCRIPT is an error then, after which the undo is repeated. */
static void encode_undo(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);
    size_t before = to->len;

    (void)eval;
    call->undo.failed = false;
    if (call->verb->undo_releases)
        call->line = (unsigned char)rdl__line_note_undo(call);
    if (call->verb->undo_more != NULL)
        req->owed += (unsigned char)call->verb->undo_more(call);
    call->verb->put_undo(call, to, true);
    if (rdl__buf_failed(to)) {
        rdl__buf_cut(to, before);
        req->eval = true;
        call->verb->put_undo(call, to, false);
    }
}

static void decode_undo(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    (void)now;
    call->undo.detour = (unsigned char)rdl__call_detour_of(call, reply);
    if (call->undo.detached && !call->undo.told)
        rdl__detached_read(call, reply);
    /* a release that was given up may have entered its client in the line (rdl__line_left_over) */
    else if (call->verb->releases && reply->type == RDL__REPLY_INT)
        call->answer = reply->integer;
    call->undo.failed |=
        reply->type == RDL__REPLY_ERROR || (call->verb->undo_short != NULL && call->verb->undo_short(reply));
}

static void done_undo(struct rdl__req *req, int64_t now);

const struct rdl__req_ops rdl__undo_ops = {
    .encode = encode_undo, .decode = decode_undo, .done = done_undo, .misrouted = rdl__call_misrouted};

static const struct rdl__req_ops blocking_undo_ops = {
    .encode = encode_undo, .decode = decode_undo, .misrouted = rdl__call_misrouted};

/* ---- counting them by name -------------------------------------------------------------------------------------- */

/* A name's unanswered undos, in one word: how many go each way, and on which lane of callers. SEVERAL: that lane is the
 * latest one's, and there may be some on other lanes. The word is 0 when there are none. */
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
    atomic_fetch_add(&rdl__call_client(call)->undos, more ? 1 : -1);
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

void rdl__undo_begins(struct rdl__call *call, enum rdl__way way)
{
    count_undo(call, way, true);
    rdl__call_ref(call);
    call->undo.begun = true;
}

/* As rdl__undo_begins, for a call without a request in a lane. All its requests were answered; sendings before those,
 * on connections that broke, may not have been. */
static void undo_begins_answered(struct rdl__call *call, enum rdl__way way)
{
    call->undo.all_answered = !call->resent_once && !call->req.resent && !call->sent_before && !call->may_come;
    rdl__undo_begins(call, way);
}

void rdl__undo_heard(struct rdl__call *call)
{
    count_undo(call, call->way, false);
    call->way = RDL__WAY_NONE;
}

/* It is sent on the loop's lane from now on.  @thread loop */
static void undo_by_loop(struct rdl__call *call)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (call->way == RDL__WAY_NONE || call->way == RDL__WAY_LOOP)
        return;
    count_undo(call, RDL__WAY_LOOP, true);
    count_undo(call, call->way, false);
    call->way = RDL__WAY_LOOP;
}

/* If there are undos on several connections, the owner's own lane comes first: the owner's undos are there, as it has
 * one verb under way at a time. A request with a WAIT never goes on the loop's lane, which it would hold up. */
enum rdl__way rdl__way_behind_undos(struct rdl__call *call, enum rdl__way usual)
{
    uint64_t word = rdl__behind_undos(call) ? atomic_load(&rdl__call_name(call)->undos) : 0;
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

/* ---- sending it, and again -------------------------------------------------------------------------------------- */

void rdl__undo_gate(struct rdl__call *call)
{
    if (atomic_fetch_add(&call->undo.gate, 1) == 0)
        return;
    rdl__client_call_ends(rdl__call_client(call));
    rdl__call_unref(call);
}

static void send_undo(struct rdl__call *call)
{
    bool resent = call->req.resent; /* stays the verb's, for rdl__call_may_come */

    rdl__req_init(&call->req, &rdl__undo_ops);
    call->req.resent = resent;
    call->req.asking = call->undo.detour == RDL__DETOUR_ASK;
    call->shard = call->req.asking ? call->ask : rdl__name_shard(rdl__call_name(call));
    if (call->way == RDL__WAY_CALLERS || call->undo.detour != RDL__DETOUR_NONE ||
        rdl__acks_lane(&call->shard->acked) == NULL)
        undo_by_loop(call);
    rdl__lane_submit(rdl__call_lane(call), &call->req);
}

/* The loop sends it, on the connection of the owner's next take. The loop has no other use for the call's task by now.
 * @thread any */
void rdl__undo_post(struct rdl__call *call)
{
    call->way = rdl__acks_lane(&call->shard->acked) != NULL &&
                        (call->op.result == RDL_ENOREPLICAS || rdl__call_asks(call) == RDL__ASKS_REPLICAS)
                    ? RDL__WAY_ACKED
                    : RDL__WAY_LOOP;
    undo_begins_answered(call, call->way);
    call->next = RDL__NEXT_UNDO;
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}

void rdl__undo_repeat(struct rdl__debt *debt)
{
    struct rdl__call *call = rdl__container(debt, struct rdl__call, repeat.debt);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__list_remove(&debt->link);
    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    send_undo(call);
}

/* May a request of the call reach the server after the undo? Where CLIENT KILL is refused, unless all were answered. */
static bool undo_is_in_doubt(const struct rdl__call *call)
{
    return !call->undo.all_answered && atomic_load(&call->shard->node.kill_refused);
}

/* Until when the undo may be repeated: for as long as a hold lasts, or a waiter's place where that is longer, from its
 * first answer, and no longer than RDL__REPEATS_MOST_MS. */
static int64_t undo_until(struct rdl__call *call, int64_t now)
{
    int64_t most_ms = call->op.lease_ms > 0 ? call->op.lease_ms : rdl__call_client(call)->watchdog_lease_ms;
    int64_t life_ms = rdl__call_name(call)->settings.life_ms;

    if (most_ms < life_ms)
        most_ms = life_ms;
    if (!call->undo.answered) {
        call->undo.answered = true;
        call->repeat.tries = 0;
        call->repeat.until = rdl__after_ms(now, most_ms < RDL__REPEATS_MOST_MS ? most_ms : RDL__REPEATS_MOST_MS);
    }
    return call->repeat.until;
}

/* When to repeat the undo: after 0.1, 0.3, 1, 3 ... s, and for the last time at repeat.until. */
static int64_t undo_again_at(const struct rdl__call *call, int64_t now)
{
    static const int64_t pause_ms[] = {100, 300, 1000, 3000, 10000, 30000, 100000, 300000};
    static const size_t most = sizeof pause_ms / sizeof pause_ms[0] - 1;
    int64_t at = now + (call->undo.detour != RDL__DETOUR_NONE
                            ? RDL__DETOUR_PAUSE_MS
                            : pause_ms[call->repeat.tries < most ? call->repeat.tries : most]) *
                           RDL__MS;

    return at < call->repeat.until ? at : call->repeat.until;
}

/* Answered: settled, unless after an error, or without CLIENT KILL, an acquire may still come late: then it is repeated
 * (protocol.md, 3). */
static void done_undo(struct rdl__req *req, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);
    rdl_client_t *client = rdl__call_client(call);
    bool again = req->rc == RDL_ENOMEM || (req->rc == RDL_OK && (call->undo.failed || undo_is_in_doubt(call)));
    int64_t at;

    if (req->rc == RDL__MISROUTED) {
        call->undo.detour = RDL__DETOUR_NONE;
        send_undo(call);
        return;
    }
    if (call->undo.detour == RDL__DETOUR_NONE && call->undo.detached && req->rc == RDL_OK)
        rdl__detached_ends(call);
    if (!again && req->rc == RDL_OK && call->verb->undo_once_more != NULL && call->verb->undo_once_more(call)) {
        send_undo(call);
        return;
    }
    if (call->undo.detour == RDL__DETOUR_NONE)
        rdl__undo_heard(call);
    if (!again || now >= undo_until(call, now) ||
        (atomic_load(&client->closing) && call->undo.detour == RDL__DETOUR_NONE)) {
        if (req->rc == RDL_OK && !call->undo.failed && call->verb->undo_releases && call->hold.undo_count == 0)
            rdl__note_release(call, now);
        if (call->undo.detached)
            rdl__detached_ends(call);
        else if (!again && req->rc == RDL_OK)
            rdl__name_metric(rdl__call_name(call), RDL_M_UNDONE, 1);
        if (!again && req->rc == RDL_OK && call->verb->undone != NULL)
            call->verb->undone(call, now);
        rdl__undo_heard(call);
        rdl__undo_gate(call);
        return;
    }
    at = undo_again_at(call, now);
    if (call->undo.detour == RDL__DETOUR_NONE)
        call->repeat.tries++;
    rdl__loop_timer(rdl__client_loop(client), &call->timer, at);
    call->repeat.debt.pay = rdl__undo_repeat;
    rdl__list_push_back(&client->debts, &call->repeat.debt.link);
}

void rdl__undo_on_task(struct rdl__call *call, int64_t now)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (call->next == RDL__NEXT_UNDO)
        send_undo(call);
    else
        done_undo(&call->req, now);
}

void rdl__undo_at_once(struct rdl__call *call, int64_t now)
{
    int64_t until = rdl__call_send_deadline(call, now);
    bool resent = call->req.resent; /* stays the verb's */

    call->op.result = RDL_ENOREPLICAS;
    call->way = RDL__WAY_CALLERS;
    undo_begins_answered(call, call->way);
    rdl__req_init(&call->req, &blocking_undo_ops);
    call->req.resent = resent;
    if (atomic_load(&call->op.cancel_code) !=
        RDL_OK) /* canceled before POST_CANCEL could reach this request: leave it to the loop */
        until = now;
    if (rdl__lane_call(rdl__call_lane(call), &call->req, until, &rdl__undo_ops, RDL__SUCCESSOR_REPLACES) !=
        RDL__SETTLED)
        return;
    call->next = RDL__NEXT_UNDONE;
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}
