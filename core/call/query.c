/* SPDX-License-Identifier: MIT */
/* query.c - the verbs that ask: is it locked, and for how long. */
#include "core/call/cached.h"
#include "core/call/verb.h"

void rdl__is_locked_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    (void)eval;
    call->ops->put_query(to, rdl__call_name(call)->bytes, rdl__call_name(call)->node.key_len);
}

void rdl__is_locked_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    call->ops->decode_query(call, reply);
}

void rdl__remaining_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    (void)eval;
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "PTTL");
    rdl__cmd_arg(to, rdl__call_name(call)->bytes, rdl__call_name(call)->node.key_len);
}

rdl__step_t rdl__is_locked_answered(struct rdl__call *call, int64_t now)
{
    (void)now;
    return rdl__answer_is(call, call->answer != 0);
}

rdl__step_t rdl__remaining_answered(struct rdl__call *call, int64_t now)
{
    (void)now;
    if (call->answer == -1)
        return rdl__answer_is(call, INT64_MAX); /* its time to live was removed */
    return rdl__answer_is(call, call->answer < 0 ? 0 : call->answer);
}

const struct rdl__verb rdl__verb_is_locked = {
    .begin = rdl__begin_by_asking,
    .encode = rdl__is_locked_encode,
    .decode = rdl__is_locked_decode,
    .answered = rdl__is_locked_answered,
    .kept = &rdl__cached_is_locked,
    .texts = rdl__nothing_done,
};

/* The owner's own hold is judged locally; otherwise the server is asked. */
rdl__step_t rdl__remaining_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    rdl_hold_state_t state = RDL_NOT_HELD;
    const struct rdl__record *rec;
    int64_t valid_ns = 0;

    rdl__mutex_lock(&name->mu);
    if ((rec = rdl__record_find(name, call->op.owner, call->ops)) != NULL && rec->count > 0)
        state = rdl__watchdog_state(name->client->watchdog, rec->hold, now, &valid_ns);
    rdl__mutex_unlock(&name->mu);
    call->answer = rdl__ms_until(valid_ns, 0);
    if (state == RDL_NOT_HELD)
        return rdl__send_it();
    return rdl__finish_with(state == RDL_LOST ? RDL_ELOST : RDL_OK);
}

const struct rdl__verb rdl__verb_remaining = {
    .begin = rdl__remaining_begin,
    .encode = rdl__remaining_encode,
    .decode = rdl__decode_number,
    .answered = rdl__remaining_answered,
    .kept = &rdl__cached_remaining,
    .texts = rdl__nothing_done,
};
