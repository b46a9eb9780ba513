/* SPDX-License-Identifier: MIT */
/* acked.c - what a call has to do with replicas that must confirm it (core/service/acks.h; protocol.md, 8).
 *
 * A verb whose table says `acked`, of a lock with the option `replicas`, is sent with a WAIT behind it, on the lane for
 * that (RDL__WAY_ACKED), by the request's table with `more`. Its grant, extend or nested take counts if
 * rdl__call_acked. Nothing here runs for a lock without the option.
 */
#include "core/call/inner.h"

#include "core/base/err.h"

enum rdl__asking rdl__call_asks_replicas(const struct rdl__call *call)
{
    struct rdl__acks acks = rdl__name_acks(rdl__call_name(call));

    return rdl__acks_asks(&acks, &rdl__name_shard(rdl__call_name(call))->acked);
}

rdl__step_t rdl__call_not_asked(struct rdl__call *call)
{
    call->acks = RDL__ACKS_NOT_ASKED;
    return rdl__call_stopped_between(call, RDL_ENOREPLICAS);
}

void rdl__call_put_wait(const struct rdl__call *call, struct rdl__buf *to)
{
    struct rdl__acks acks = rdl__name_acks(rdl__call_name(call));

    rdl__acks_put_wait(&acks, call->deadline == RDL__NEVER ? RDL__NEVER : rdl__call_answer_by(call) - rdl__now(), to);
}

void rdl__call_hear_acks(struct rdl__call *call, const struct rdl__reply *reply)
{
    struct rdl__acks acks = rdl__name_acks(rdl__call_name(call));

    call->acks = rdl__acks_judge(&acks, reply);
    if (rdl__reply_refuses_wait(reply))
        rdl__acks_refused(&call->shard->acked);
    if (call->acks < 0 && !call->refused_words)
        rdl__call_keep_words(call, reply->str, reply->len, false);
}

bool rdl__call_acked(const struct rdl__call *call)
{
    return call->req.ops->more == 0 || call->acks >= (int32_t)rdl__call_name(call)->settings.replicas;
}

void rdl__call_explain_acks(const struct rdl__call *call, const char *lock, const char *server, rdl_err_t *err)
{
    const struct rdl__name *name = rdl__call_name(call);
    struct rdl__acks acks = rdl__name_acks(name);
    char why[sizeof err->message];

    rdl__acks_explain(&acks, call->acks, call->words_len > 0 ? call->words : NULL, why, sizeof why);
    (void)rdl__err_set(err, RDL_ENOREPLICAS, "%s %s at %s: %s%s", rdl__thing(name->ops), lock, server, why,
                       call->verb->acquires && call->acks != RDL__ACKS_NOT_ASKED ? "; given back" : "");
}
