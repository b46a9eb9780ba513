/* SPDX-License-Identifier: MIT */
/* extend.c - the verb that makes a hold last at least lease_ms from now: the renewal's script for one lock. */
#include "core/call/cached.h"
#include "core/call/verb.h"

#include "core/service/scripts.h"

rdl__step_t rdl__extend_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__watchdog *wd = rdl__call_client(call)->watchdog;
    struct rdl__record *rec = call->rec;
    rdl_hold_state_t state;

    if (rec == NULL || rec->count == 0)
        return rdl__finish_with(RDL_ENOTOWNER);
    if ((state = rdl__watchdog_state(wd, rec->hold, now, NULL)) == RDL_LOST)
        return rdl__finish_with(RDL_ELOST);
    if (state == RDL_DEGRADED)
        return rdl__finish_with(rdl__watchdog_raise(wd, rec->hold, now, call->op.lease_ms, false) ? RDL_OK : RDL_ELOST);
    call->n = rec->hold->id.n;
    return rdl__send_it();
}

void rdl__extend_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__script_begin(to, call->ops->renew, eval, 1, 2);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_field(to, call);
    rdl__cmd_int(to, call->op.lease_ms);
}

void rdl__extend_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    static const struct rdl__reply nothing = {.type = RDL__REPLY_NIL};
    const struct rdl__reply *ttl = rdl__reply_at(reply, 2);

    rdl__decode_number(call, ttl != NULL ? ttl : &nothing);
}

rdl__step_t rdl__extend_answered(struct rdl__call *call, int64_t now)
{
    struct rdl__watchdog *wd = rdl__call_client(call)->watchdog;
    int rc = rdl__answer_failed(call);

    (void)now;
    if (rc < 0)
        return rdl__finish_with(rc);
    if (call->answer == RDL__NO_HOLD) {
        rdl__watchdog_gone(wd, call->rec->hold, call->n);
        return rdl__finish_with(RDL_ELOST);
    }
    if (!rdl__call_acked(call))
        return rdl__finish_with(RDL_ENOREPLICAS);
    return rdl__finish_with(
        rdl__watchdog_raise(wd, call->rec->hold, call->req.sent_at, call->op.lease_ms, false) ? RDL_OK : RDL_ELOST);
}

const struct rdl__verb rdl__verb_extend = {
    .on_record = true,
    .acked = true,
    .prolongs = true,
    .begin = rdl__extend_begin,
    .encode = rdl__extend_encode,
    .decode = rdl__extend_decode,
    .answered = rdl__extend_answered,
    .kept = &rdl__cached_extend,
    .texts = rdl__done_or_not,
};
