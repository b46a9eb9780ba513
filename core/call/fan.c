/* SPDX-License-Identifier: MIT */
/* fan.c - calls that one thread sends together, and whose answers it reads for a while (core/io/lane.h, a fan): a
 * composite's calls of its members. The loops drive on what has not ended by then.
 *
 * They are made under the composite's mutex, and begin when the thread has given that back, since a verb's beginning
 * may be told to the user's metrics function.
 */
#include "core/call/inner.h"

void rdl__call_join_fan(struct rdl__call *call, struct rdl__fan *fan)
{
    if (fan->to_begin_count == RDL__FAN_MAX)
        rdl__call_hand_over(call, RDL__NEXT_BEGIN);
    else
        fan->to_begin[fan->to_begin_count++] = &call->req;
}

static void send_in_fan(struct rdl__call *call, struct rdl__fan *fan)
{
    rdl__step_t step;

    if (rdl__call_asks(call) != RDL__ASKS_NOBODY || rdl__behind_undos(call)) {
        rdl__call_hand_over(call, RDL__NEXT_BEGIN);
        return;
    }
    step = rdl__call_begin(call, call->op.started_at);
    if (step.what == RDL__DO_FINISH) {
        call->op.result = step.rc;
        rdl__call_hand_over(call, RDL__NEXT_END);
        return;
    }
    if (step.what != RDL__DO_SEND) {
        call->answer = step.hint_ms; /* as RDL__NEXT_WAIT has it */
        rdl__call_hand_over(call, step.what == RDL__DO_WAIT ? RDL__NEXT_WAIT : RDL__NEXT_DELAY);
        return;
    }
    rdl__call_ready(call, &rdl__blocking_ops, RDL__WAY_CALLERS);
    if (rdl__fan_send(fan, rdl__call_lane(call), &call->req))
        return;
    call->req.state = RDL__REQ_IDLE;
    rdl__call_hand_over(call, RDL__NEXT_SEND);
}

void rdl__call_fan_begin(struct rdl__fan *fan)
{
    for (unsigned i = 0; i < fan->to_begin_count; i++)
        send_in_fan(rdl__container(fan->to_begin[i], struct rdl__call, req), fan);
    fan->to_begin_count = 0;
}

/* The i-th call is answered, or the loop takes it over. */
static void leave_fan(struct rdl__fan *fan, unsigned i)
{
    struct rdl__call *call = rdl__container(fan->at[i].req, struct rdl__call, req);
    int64_t now = rdl__now();
    rdl__step_t step;

    call->next = RDL__NEXT_WATCH;
    rdl__call_goes(call, RDL__HANDED);
    if (!rdl__fan_leave(fan, i, &rdl__loop_ops, &call->task))
        return;
    rdl__call_goes(call, RDL__BY_CALLER);
    /* the loop's lane may have room for it; it has if the lock was taken on that lane */
    if (call->req.rc == RDL_ENOMEM) {
        call->req.state = RDL__REQ_IDLE;
        step = rdl__send_it();
    } else {
        step = rdl__call_answered(call, now);
    }
    if (step.what == RDL__DO_FINISH) {
        rdl__call_conclude(call, step.rc, step.undo, false, now);
        rdl__call_unref(call); /* the loop's */
        return;
    }
    call->answer = step.hint_ms;
    rdl__call_hand_over(call, step.what == RDL__DO_SEND ? RDL__NEXT_SEND : RDL__NEXT_WAIT);
}

/* The call with the earliest deadline. */
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

bool rdl__call_fan_wait(struct rdl__fan *fan, int64_t until)
{
    int64_t deadline;
    unsigned urgent = most_urgent(fan, &deadline);
    int i = fan->n == 0 ? -1 : rdl__fan_wait(fan, until < deadline ? until : deadline);

    if (i < 0 && deadline < until)
        i = (int)urgent; /* its deadline: the loop ends it */
    if (i >= 0)
        leave_fan(fan, (unsigned)i);
    return i >= 0;
}

void rdl__call_fan_leave(struct rdl__fan *fan)
{
    while (fan->n > 0)
        leave_fan(fan, fan->n - 1);
}
