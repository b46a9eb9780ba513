/* SPDX-License-Identifier: MIT */
/* renewal.c - one renewal request: a batch of holds, its commands, and the answers for each hold.
 *
 * The moment of sending is the lane's, read before the request was encoded. A batch that is repeated on another
 * connection is encoded again, without the holds that were released meanwhile.
 */
#include "core/service/renewer.h"

#include "core/base/err.h"
#include "core/service/refusals.h"
#include "core/service/scripts.h"
#include "core/wire/ident.h"

#define GONE (-14)

/* In place of a hold's answer. */
#define UNANSWERED INT64_MIN
#define MOVED (INT64_MIN + 1)  /* another server has its slot, or none has for now */
#define MOVING (INT64_MIN + 2) /* its slot is being migrated, key by key */

/* ---- the request ------------------------------------------------------------------------------------------------ */

/* How many entries, from `first` on, are in its script? */
static unsigned script_length(const struct rdl__batch *batch, unsigned first)
{
    unsigned end = first;

    while (end < batch->encoded && batch->script_of[batch->slots[end]] == batch->script_of[batch->slots[first]])
        end++;
    return end - first;
}

/* The lease that a renewal asks for: no more than is left until ends_at.  @locks mu */
static int64_t renewal_ms(const struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now)
{
    int64_t left = hold->ends_at == RDL__NEVER ? hold->lease_ms : (hold->ends_at - now) / RDL__MS + 1;

    rdl__assert_locked(&wd->mu);
    if (hold->brief)
        return rdl__hold_trust_ms(hold, wd->config.lease_ms);
    return left < 1 ? 1 : left < hold->lease_ms ? left : hold->lease_ms;
}

/* @locks mu */
static void encode_script(struct rdl__batch *batch, unsigned first, unsigned count, struct rdl__buf *to, bool eval)
{
    const struct rdl__hold *hold = batch->hold[batch->slots[first]];
    char field[RDL__FIELD_MAX];
    int64_t now = rdl__now();
    const char *key;
    size_t len;

    rdl__assert_locked(&batch->wd->mu);
    rdl__script_begin(to, hold->script, eval, count, (size_t)2 * count);
    for (unsigned i = first; i < first + count; i++) {
        hold = batch->hold[batch->slots[i]];
        hold->ops->key(hold, &key, &len);
        rdl__cmd_arg(to, key, len);
        batch->due_end[i] = hold->deadline;
    }
    for (unsigned i = first; i < first + count; i++) {
        hold = batch->hold[batch->slots[i]];
        rdl__cmd_arg(to, field, hold->ops->field(hold, field));
        rdl__cmd_int(to, renewal_ms(batch->wd, hold, now));
    }
}

/* Choose the entries to send: those whose hold was not released meanwhile.  @locks mu */
static void begin_encoding(struct rdl__batch *batch)
{
    rdl__assert_locked(&batch->wd->mu);
    batch->encoded = batch->heard = 0;
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->hold[i] != NULL)
            batch->slots[batch->encoded++] = (unsigned char)i;
    batch->confirmed = 0;
    batch->server_us = 0;
    batch->refusal[0] = '\0';
    batch->ask = NULL;
}

static void encode_renew(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    unsigned scripts = 0;

    rdl__mutex_lock(&batch->wd->mu); /* so that no hold is removed while it is encoded */
    begin_encoding(batch);
    for (unsigned i = 0, count; i < batch->encoded; i += count, scripts++)
        encode_script(batch, i, count = script_length(batch, i), to, eval);
    rdl__mutex_unlock(&batch->wd->mu);
    if (scripts == 0) { /* all were released meanwhile, but a request needs a command */
        rdl__cmd_begin(to, 1);
        rdl__cmd_str(to, "PING");
    } else {
        req->owed += (unsigned char)(scripts - 1);
    }
    if (req->ops->more > 0)
        rdl__acks_put_wait(&batch->acks, RDL__NEVER, to);
}

/* ---- its answers ------------------------------------------------------------------------------------------------ */

/* The answer to WAIT. */
static void decode_acks(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    batch->confirmed = rdl__acks_judge(&batch->acks, reply);
    if (batch->confirmed < 0)
        (void)rdl__refusal_text(batch->refusal, sizeof batch->refusal, reply->str);
}

/* Was the script redirected? */
static bool detoured(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    const struct rdl__routes *routes = batch->wd->config.routes;

    return routes != NULL && reply->type == RDL__REPLY_ERROR &&
           routes->detoured(routes->arg, reply, batch->acks.replicas > 0, &batch->ask);
}

/* What to note for all holds of a script that was answered with an error. */
static int64_t decode_error(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    if (!detoured(batch, reply)) {
        (void)rdl__refusal_text(batch->refusal, sizeof batch->refusal, reply->str);
        return UNANSWERED;
    }
    return rdl__reply_is_error(reply, "MOVED") || rdl__reply_is_error(reply, "CLUSTERDOWN") ? MOVED : MOVING;
}

/* Put the answers for `count` holds into ret_ttl. Returns the server's clock in us; 0: it is no such answer. */
static int64_t decode_ttls(const struct rdl__reply *reply, unsigned count, int64_t *ret_ttl)
{
    int64_t s, us;

    if (reply->type != RDL__REPLY_ARRAY || reply->len != count + 2 ||
        !rdl__reply_integer(rdl__reply_at(reply, 0), &s) || !rdl__reply_integer(rdl__reply_at(reply, 1), &us))
        return 0;
    for (unsigned i = 0; i < count; i++)
        if (!rdl__reply_integer(rdl__reply_at(reply, i + 2), &ret_ttl[i]))
            return 0;
    return s * 1000000 + us;
}

static void decode_script(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    unsigned count = script_length(batch, batch->heard);
    int64_t *ttl = batch->ttl + batch->heard, server_us, failure = UNANSWERED;

    batch->heard += count;
    if ((server_us = decode_ttls(reply, count, ttl)) != 0) {
        batch->server_us = server_us;
        return;
    }
    if (reply->type == RDL__REPLY_ERROR)
        failure = decode_error(batch, reply);
    for (unsigned i = 0; i < count; i++)
        ttl[i] = failure;
}

static void decode_renew(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);

    (void)now;
    if (req->ops->more > 0 && req->owed == 0) {
        decode_acks(batch, reply);
        return;
    }
    decode_script(batch, reply);
}

/* Leases are the server's to end, by its own clock: when that clock jumps beyond the allowance, say so (protocol.md,
 * 4). */
static void judge_clock(struct rdl__watchdog *wd, struct rdl__renewer *at, int64_t server_us, int64_t sent_at,
                        int64_t now)
{
    int64_t offset = server_us - now / RDL__US, since = now - at->clock_at;
    int64_t error = now - sent_at;
    int64_t allowed = (error + at->clock_error) / RDL__US + since / RDL__US * wd->config.drift_ppm / 1000000 +
                      wd->config.drift_ms * 1000;

    if (at->clock_at != 0 && (offset - at->clock_offset > allowed || at->clock_offset - offset > allowed))
        rdl__log(wd->sinks, RDL_LOG_WARN, "the server's clock jumped by %+lld ms: leases end by that clock",
                 (long long)((offset - at->clock_offset) / 1000));
    at->clock_offset = offset;
    at->clock_at = now;
    at->clock_error = error;
}

/* Was the lease at the server shorter than it should have been? Then another program has changed it.  @locks mu */
static bool shortened(const struct rdl__batch *batch, unsigned i, int64_t now)
{
    rdl__assert_locked(&batch->wd->mu);
    return batch->ttl[i] >= 0 && batch->ttl[i] < (batch->due_end[i] - now) / RDL__MS;
}

/* Has one of the holds moved to another server? */
static bool renew_misrouted(const struct rdl__req *req)
{
    const struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    struct rdl__watchdog *wd = batch->wd;
    bool misrouted = false;

    if (wd->config.routes == NULL || req->asking)
        return false;
    rdl__mutex_lock(&wd->mu);
    for (unsigned i = 0; i < batch->count; i++)
        misrouted = misrouted || (batch->hold[i] != NULL && rdl__renewer_of(wd, batch->hold[i]) != batch->at);
    rdl__mutex_unlock(&wd->mu);
    return misrouted;
}

/* Does the answer settle the renewal?  @locks mu */
static bool counts(const struct rdl__batch *batch, const struct rdl__hold *hold, int64_t ttl)
{
    rdl__assert_locked(&batch->wd->mu);
    if (ttl == UNANSWERED || ttl == MOVED || ttl == MOVING)
        return false;
    return ttl == GONE || batch->confirmed >= hold->acks.replicas;
}

/* Send the batch to the server of an ASK. Its WAIT is not about this server's replicas, so the next batch may go. */
static void ask_there(struct rdl__batch *batch)
{
    struct rdl__watchdog *wd = batch->wd;

    rdl__mutex_lock(&wd->mu);
    if (batch->acks.replicas > 0 && !batch->req.asking)
        batch->at->acks_under_way = false;
    rdl__mutex_unlock(&wd->mu);
    rdl__req_init(&batch->req, batch->req.ops);
    batch->req.asking = true;
    rdl__lane_submit(batch->ask, &batch->req);
    rdl__renewer_pump(wd, batch->at);
}

static void done_renew(struct rdl__req *req, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    struct rdl__watchdog *wd = batch->wd;
    bool settled = req->rc == RDL_OK;
    int64_t unheard = req->rc == RDL__MISROUTED ? MOVED : UNANSWERED;
    int64_t renewed = 0, late = 0, meddled = 0;

    if (settled && batch->ask != NULL && script_length(batch, 0) == batch->encoded) {
        ask_there(batch);
        return;
    }
    if (settled && batch->server_us != 0)
        judge_clock(wd, batch->at, batch->server_us, req->sent_at, now);
    for (unsigned i = 0; i < (settled ? batch->encoded : batch->count); i++) {
        unsigned slot = settled ? batch->slots[i] : i;
        int64_t ttl = settled ? batch->ttl[i] : unheard;
        struct rdl__hold *hold;
        struct rdl__hold_id id;
        int lost = 0;

        rdl__mutex_lock(&wd->mu);
        if ((hold = batch->hold[slot]) != NULL) {
            bool was_late = rdl__hold_late(hold, now);

            batch->hold[slot] = NULL;
            meddled += settled && shortened(batch, i, now) ? 1 : 0;
            if (!counts(batch, hold, ttl))
                rdl__schedule_retry(wd, hold, ttl == MOVED || ttl == MOVING, ttl == MOVING, now);
            else if ((lost = rdl__schedule_confirm(wd, hold, ttl == GONE, req->sent_at, &id)) == 0) {
                renewed++;
                late += was_late;
            }
        }
        rdl__mutex_unlock(&wd->mu);
        if (lost != 0)
            hold->ops->changed(hold, &id, RDL_LOST, (rdl_loss_reason_t)lost, now);
    }
    if (settled && batch->refusal[0] != '\0')
        rdl__log(wd->sinks, RDL_LOG_WARN, "%u renewals were refused: %s", batch->encoded, batch->refusal);
    if (meddled > 0)
        rdl__log(wd->sinks, RDL_LOG_WARN, "%lld leases had been shortened at the server; they are restored",
                 (long long)meddled);
    if (renewed > 0)
        rdl__metric(wd->sinks, RDL_M_RENEWED, renewed);
    if (late > 0)
        rdl__metric(wd->sinks, RDL_M_RENEWALS_LATE, late);
    rdl__mutex_lock(&wd->mu);
    if (batch->acks.replicas > 0 && !req->asking)
        batch->at->acks_under_way = false;
    rdl__list_push_back(&batch->at->free, &batch->free);
    rdl__mutex_unlock(&wd->mu);
    rdl__renewer_pump(wd, batch->at);
}

static const struct rdl__req_ops renew_ops = {
    .encode = encode_renew, .decode = decode_renew, .done = done_renew, .misrouted = renew_misrouted};
static const struct rdl__req_ops acked_renew_ops = {
    .encode = encode_renew, .decode = decode_renew, .done = done_renew, .misrouted = renew_misrouted, .more = 1};

void rdl__renewal_send(struct rdl__batch *batch)
{
    bool acked = batch->acks.replicas > 0;

    rdl__assert_on_loop(batch->wd->loop);
    rdl__req_init(&batch->req, acked ? &acked_renew_ops : &renew_ops);
    rdl__lane_submit(acked ? rdl__acks_lane(batch->at->acked) : batch->at->lane, &batch->req);
}
