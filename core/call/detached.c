/* SPDX-License-Identifier: MIT */
/* detached.c - detached releases: nobody waits for them (RDL_RELEASE_UNCONFIRMED).
 *
 * The caller's thread hands the request to its owner's lane (core/io/lane.h, rdl__lane_detach), and the call ends. What
 * goes on is the call's undo (undo.c), which has begun as that request. So the owner's next verb on the record begins
 * at once, and its takes go behind the release, on the same connection; what breaks, is redirected or refused, is
 * repeated as any undo is; and the client's closing waits for it.
 *
 * The answer is read by whoever reads the lane next: `answered` notes a release that was done, and what it says of the
 * lock's line, and leaves everything else to the loop. A release that has failed is told once: a hold that was gone by
 * rdl_on_lost; and each failure by the log, and by the next take of its owner on that lock, which the record keeps it
 * for (rdl__detached_verdict). A take that is refused while a release of its owner is unanswered, or because it has
 * overtaken one that had to be sent twice, is sent again (rdl__detached_in_the_way).
 *
 * The take reserves the memory that its release needs, so that giving back cannot fail.
 */
#include "core/call/inner.h"

#include "core/base/err.h"

/* ---- its request ------------------------------------------------------------------------------------------------ */

static void encode_detached(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    rdl__release_encode(rdl__container(req, struct rdl__call, req), to, eval);
}

void rdl__detached_read(struct rdl__call *call, const struct rdl__reply *reply)
{
    call->refused_words = false;
    if (reply->type == RDL__REPLY_ERROR)
        rdl__call_keep_words(call, reply->str, reply->len, true);
    else
        call->verb->decode(call, reply);
    call->undo.failed = call->refused_words;
}

static void decode_detached(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    (void)now;
    call->undo.detour = (unsigned char)rdl__call_detour_of(call, reply);
    rdl__detached_read(call, reply);
}

/* Its answer has come, or none will come. */
static void answered(struct rdl__req *req)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);
    int64_t now = rdl__now();
    bool failed = req->rc != RDL_OK || call->undo.failed;
    bool in_line = !failed && call->hold.undo_count == 0 && rdl__line_released(call);

    if (!failed && !in_line && call->answer != RDL__NO_HOLD && call->undo.all_answered) {
        if (call->hold.undo_count == 0)
            rdl__note_release(call, now);
        rdl__detached_ends(call);
        rdl__undo_heard(call);
        rdl__undo_gate(call);
        return;
    }
    call->next = RDL__NEXT_UNDONE;
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}

static const struct rdl__req_ops detached_ops = {
    .encode = encode_detached, .decode = decode_detached, .detached = answered, .misrouted = rdl__call_misrouted};

void rdl__detached_send(struct rdl__call *call)
{
    rdl__call_ready(call, &detached_ops, RDL__WAY_CALLERS);
    call->undo.detached = true;
    call->undo.all_answered = !call->rec->may_come; /* else a sending of its take may still arrive */
    if (call->count == 0)                           /* the watchdog no longer has it */
        call->hold.valid_until = call->rec->hold.deadline;
    call->hold.token = call->rec->hold.id.token;
    atomic_fetch_add_explicit(&call->rec->refs, 1, memory_order_relaxed);
    rdl__undo_begins(call, RDL__WAY_CALLERS);
    rdl__lane_detach(rdl__call_lane(call), &call->req);
}

/* ---- what comes of it ------------------------------------------------------------------------------------------- */

static void log_failure(const struct rdl__call *call, int code)
{
    const struct rdl__name *name = rdl__call_name(call);
    char text[128];

    if (name->client->sinks.log == NULL)
        return;
    (void)rdl__printable(text, sizeof text, name->bytes, name->node.key_len);
    rdl__log(&name->client->sinks, RDL_LOG_WARN, "%s %s at %s: an unlock that was not waited for: %s",
             rdl__thing(name->ops), text, rdl__client_label(name->client),
             code == RDL_ESERVER && call->words_len > 0 ? call->words : rdl_strerror(code));
}

/* A hold is gone that should have been there when its release was sent. If that was sent twice, the first has done it.
 */
static bool was_gone(const struct rdl__call *call)
{
    return call->answer == RDL__NO_HOLD && !call->req.resent && call->req.sent_at < call->hold.valid_until;
}

/* RDL_OK, or how it has failed.  @thread that of the answer  @locks none */
static int judge(const struct rdl__call *call)
{
    const struct rdl__name *name = rdl__call_name(call);

    if (call->req.rc != RDL_OK || call->undo.detour != RDL__DETOUR_NONE) {
        rdl__name_metric(name, RDL_M_UNKNOWN, 1);
        return RDL_EUNKNOWN;
    }
    if (call->refused_words)
        return RDL_ESERVER;
    if (call->hold.undo_count > 0) { /* the hold itself is told to be lost */
        if (call->answer == RDL__NO_HOLD && !call->req.resent)
            rdl__watchdog_gone(name->client->watchdog, &call->rec->hold, call->n);
        return RDL_OK;
    }
    if (was_gone(call)) {
        rdl__name_metric(name, RDL_M_LOST, 1);
        rdl__record_tell(call->rec, &(struct rdl__hold_id){call->n, call->hold.token}, RDL_LOST, RDL_LOSS_GONE);
        return RDL_ELOST;
    }
    rdl__call_freed(call);
    rdl__name_metric(name, RDL_M_RELEASED, 1);
    return RDL_OK;
}

void rdl__detached_ends(struct rdl__call *call)
{
    struct rdl__record *rec = call->rec;
    int code;

    if (call->undo.told)
        return;
    call->undo.told = true;
    code = judge(call);
    if (code != RDL_OK)
        log_failure(call, code);
    rdl__mutex_lock(&rec->name->mu);
    rec->detached--;
    rec->overtaken |= call->req.eval || call->next == RDL__NEXT_UNDONE;
    if (code != RDL_OK)
        rec->verdict = (int16_t)code;
    rdl__record_retire_and_unlock(rec);
    rdl__record_unref(rec);
}

int rdl__detached_verdict(struct rdl__record *rec, rdl_err_t *err)
{
    int code = rec->verdict;

    rdl__assert_locked(&rec->name->mu);
    rec->verdict = RDL_OK;
    (void)rdl__err_set(err, code, "the unlock before this, which was not waited for, has failed: %s",
                       rdl_strerror(code));
    rdl__err_where(err, rdl__client_label(rec->name->client), rec->name->bytes, rec->name->node.key_len);
    return code;
}

bool rdl__detached_in_the_way(struct rdl__call *call, bool *ret_gone)
{
    struct rdl__record *rec = call->rec;
    bool in_the_way;

    if (!rdl__call_name(call)->settings.detaches || call->waiter.channel != NULL)
        return false; /* who waits already is woken */
    rdl__mutex_lock(&rec->name->mu);
    *ret_gone = rec->detached == 0;
    in_the_way = !*ret_gone || rec->overtaken;
    rec->overtaken = false;
    rdl__mutex_unlock(&rec->name->mu);
    return in_the_way;
}

/* ---- its memory ------------------------------------------------------------------------------------------------- */

bool rdl__detached_reserve(struct rdl__record *rec)
{
    struct rdl__reserve *reserve = &rec->owner->reserve;
    bool reserved;

    rdl__mutex_lock(&rec->name->mu);
    rdl__mutex_lock(&rec->owner->mu);
    if (!rec->reserved)
        rec->reserved = rdl__reserve_fill(reserve, &rec->name->client->mem, sizeof(struct rdl__call), reserve->n + 1);
    reserved = rec->reserved;
    rdl__mutex_unlock(&rec->owner->mu);
    rdl__mutex_unlock(&rec->name->mu);
    return reserved;
}

/* What is set aside for the record, or NULL.  @locks the name's; takes the owner's */
static struct rdl__call *take_reserved(struct rdl__record *rec)
{
    struct rdl__call *call = NULL;

    rdl__assert_locked(&rec->name->mu);
    if (!rec->reserved)
        return NULL;
    rec->reserved = false;
    rdl__mutex_lock(&rec->owner->mu);
    call = rdl__reserve_take(&rec->owner->reserve);
    rdl__mutex_unlock(&rec->owner->mu);
    return call;
}

struct rdl__call *rdl__detached_reserved(const struct rdl__order *order, rdl_owner_t *owner)
{
    struct rdl__name *name = order->lock->name;
    struct rdl__record *rec;
    struct rdl__call *call = NULL;

    if (!order->verb->releases)
        return NULL;
    rdl__mutex_lock(&name->mu);
    rec = rdl__record_find(name, owner, order->lock->ops);
    if (rec != NULL && rec->active == NULL && rec->count == 1)
        call = take_reserved(rec);
    rdl__mutex_unlock(&name->mu);
    return call;
}

void rdl__detached_done(struct rdl__record *rec)
{
    rdl__assert_locked(&rec->name->mu);
    rdl__free(&rec->name->client->mem, take_reserved(rec), sizeof(struct rdl__call));
}
