/* SPDX-License-Identifier: MIT */
/* tell.c - how a call's end is told: to its caller in words, by callback, to the log and the metrics. */
#include "core/call/inner.h"

#include "core/base/err.h"
#include "core/service/refusals.h"
#include "core/wire/names.h"

#include <string.h>

#define SERVER_TEXT 128

/* The label of the server concerned: where the last request went, unless that was redirected; else the client's. */
static void put_server(const struct rdl__call *call, char *to)
{
    if (call->sent_to != NULL && call->detours == 0)
        rdl__node_server(&call->sent_to->node, to, SERVER_TEXT);
    else
        (void)rdl__line(to, SERVER_TEXT, "%s", rdl__client_label(rdl__call_client(call)));
}

static __attribute__((cold, noinline)) void log_unknown(const struct rdl__call *call)
{
    const struct rdl__name *name = rdl__call_name(call);
    char text[128], server[SERVER_TEXT];

    if (name->client->sinks.log == NULL)
        return;
    (void)rdl__printable(text, sizeof text, name->bytes, name->node.key_len);
    put_server(call, server);
    rdl__log(&name->client->sinks, RDL_LOG_WARN, "%s %s at %s: no answer in time, the outcome is unknown%s",
             rdl__thing(name->ops), text, server, call->undo.begun ? " and is being undone" : "");
}

/* `metering` is known where this is inlined: what only counts makes no call, for it is part of every pair. */
static inline __attribute__((always_inline)) void note(const struct rdl__name *name, enum rdl__metering metering,
                                                       rdl_metric_t metric, int64_t value)
{
    if (metering == RDL__COUNTED)
        rdl__count(rdl__name_meter(name)->set, metric, value);
    else
        rdl__name_metric(name, metric, value);
}

static inline __attribute__((always_inline)) void note_result(const struct rdl__call *call, enum rdl__metering metering,
                                                              int64_t now)
{
    const struct rdl__name *name = rdl__call_name(call);

    if (call->verb->uncounted)
        return;
    if (call->op.result == RDL_EUNKNOWN)
        note(name, metering, RDL_M_UNKNOWN, 1);
    if (!call->verb->acquires)
        return;
    if (call->take.contended)
        note(name, metering, RDL_M_CONTENDED, 1);
    if (call->op.result == RDL_ETIMEDOUT)
        note(name, metering, RDL_M_TIMED_OUT, 1);
    if (call->op.result != RDL_OK)
        return;
    note(name, metering, RDL_M_ACQUIRED, 1);
    note(name, metering, RDL_M_WAIT_US, now - call->op.started_at);
}

static __attribute__((cold, noinline)) void tell_result(const struct rdl__call *call, int64_t now)
{
    note_result(call, RDL__TOLD, now);
}

void rdl__call_count_attempt(const struct rdl__call *call)
{
    if (call->verb->acquires && !call->verb->uncounted)
        rdl__name_metric(rdl__call_name(call), RDL_M_ATTEMPTS, 1);
}

void rdl__call_count_result(const struct rdl__call *call, int64_t now)
{
    enum rdl__metering metering = rdl__call_client(call)->sinks.metering;

    if (call->op.result == RDL_EUNKNOWN)
        log_unknown(call);
    if (metering == RDL__COUNTED)
        note_result(call, RDL__COUNTED, now);
    else if (metering == RDL__TOLD)
        tell_result(call, now);
}

/* ---- why -------------------------------------------------------------------------------------------------------- */

static void explain_refusal(const struct rdl__call *call, const char *lock, const char *server, rdl_err_t *err)
{
    char why[sizeof err->message];

    (void)rdl__refusal_text(why, sizeof why, call->words);
    (void)rdl__err_set(err, RDL_ESERVER, "%s %s at %s: %s", rdl__thing(rdl__call_name(call)->ops), lock, server, why);
}

void rdl__call_explain(const rdl_op_t *op, rdl_err_t *err)
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
    if (call->op.result == RDL_ETIMEDOUT && call->op.wait_ms <= 0 && name->ops->busy != NULL)
        (void)rdl__err_set(err, RDL_ETIMEDOUT, "%s %s at %s: not acquired in time: %s", thing, lock, server,
                           name->ops->busy);
    else if (call->op.result == RDL_ETIMEDOUT && call->op.wait_ms > 0)
        (void)rdl__err_set(err, RDL_ETIMEDOUT, "%s %s at %s: not acquired within %lld ms: %s", thing, lock, server,
                           (long long)call->op.wait_ms,
                           name->ops->busy != NULL ? name->ops->busy : "somebody else holds it");
    else if (call->op.result == RDL_ESERVER && call->refused_words && call->words_len > 0)
        explain_refusal(call, lock, server, err);
    else if (call->op.result == RDL_ENOREPLICAS)
        rdl__call_explain_acks(call, lock, server, err);
    else if (call->op.result == RDL_ECONN && call->detours > 0)
        (void)rdl__err_set(err, RDL_ECONN, "%s %s at %s: no server takes it at the moment", thing, lock, server);
    else if (call->op.result == RDL_ECONN && call->sent_to != NULL &&
             rdl__node_error(&call->sent_to->node, RDL_ECONN, &why) < 0)
        (void)rdl__err_set(err, RDL_ECONN, "%s %s: %s", thing, lock, why.message);
    else if (call->op.result == RDL_EINVAL && call->words_len > 0)
        (void)rdl__err_set(err, RDL_EINVAL, "%s %s: %s", thing, lock, call->words);
    else if (call->op.result == RDL_EHOST && call->words_len > 0)
        (void)rdl__err_set(err, RDL_EHOST, "%s %s: %s: %s", thing, lock, text, call->words);
    else
        (void)rdl__err_set(err, (int)call->op.result, "%s %s at %s: %s", thing, lock, server,
                           call->verb->texts != NULL && call->verb->texts((int)call->op.result) != NULL
                               ? call->verb->texts((int)call->op.result)
                               : text);
    rdl__err_where(err, server, name->bytes, name->node.key_len);
}

/* ---- calling back ----------------------------------------------------------------------------------------------- */

/* Nothing works under such a hold, and only the count is left to be taken back: the loss has sent the release already,
 * or what was granted is over at the server as well. The order names this hold, because by its turn the owner may have
 * a later one. */
struct rdl__order rdl__call_lost_meanwhile(struct rdl__call *call)
{
    struct rdl__order back = {.lock = call->op.lock, .owner = call->op.owner, .n = call->n, .direct = true};

    if (call->op.result != RDL_OK || call->verb->lost == NULL || !call->verb->lost(call, rdl__now()))
        return back;
    call->op.result = RDL_ELOST;
    back.verb = call->verb->takes_back;
    return back;
}

static void see_lost(rdl_op_t *op)
{
    struct rdl__order back = rdl__call_lost_meanwhile(rdl__call_of(op));

    if (back.verb != NULL)
        (void)rdl__call_async(&back, NULL, NULL);
}

static void tell(const rdl_op_t *op, const rdl_err_t *err)
{
    const struct rdl__call *call = rdl__container(op, struct rdl__call, op);

    rdl__call_name(call)->ops->call_back(op, rdl__call_result(call), err);
}

const struct rdl__op_ops rdl__call_op_ops = {
    .unused = rdl__call_unused, .see_lost = see_lost, .explain = rdl__call_explain, .tell = tell};
