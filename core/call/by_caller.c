/* SPDX-License-Identifier: MIT */
/* by_caller.c - a blocking call that its caller's thread drives: it sends and reads on a lane of callers. When the call
 * has to wait for the lock, or for a pause between redirections, or may have to end early, the loop takes over.
 */
#include "core/call/inner.h"

/* Who stands in line without a try has only to fall asleep: that can wait until something wakes the loop. */
static void hand_over_in_line(struct rdl__call *call, int64_t now)
{
    int64_t looks_at = rdl__after_ms(now, call->answer);

    call->next = RDL__NEXT_WAIT;
    rdl__call_goes(call, RDL__HANDED);
    rdl__loop_post_late(rdl__client_loop(rdl__call_client(call)), &call->task, call->loop_sleep,
                        looks_at < call->deadline ? looks_at : call->deadline);
}

bool rdl__call_drive_blocking(struct rdl__call *call, rdl__step_t step, int64_t now)
{
again:
    while (step.what == RDL__DO_SEND && call->detour != RDL__DETOUR_LATER && !rdl__alone_by_loop(call)) {
        enum rdl__asking asks = rdl__call_asks(call);
        enum rdl__way way = asks == RDL__ASKS_REPLICAS ? RDL__WAY_ACKED : RDL__WAY_CALLERS;
        enum rdl__outcome outcome;
        int code;

        if (asks == RDL__ASKS_REFUSED) {
            step = rdl__call_not_asked(call);
            break;
        }
        if (rdl__behind_undos(call) && rdl__way_behind_undos(call, way) == RDL__WAY_CALLERS)
            way = RDL__WAY_CALLERS;
        rdl__call_ready(call, asks == RDL__ASKS_REPLICAS ? &rdl__blocking_acked_ops : &rdl__blocking_ops, way);
        if ((code = atomic_load(&call->op.cancel_code)) !=
            RDL_OK) { /* canceled before POST_CANCEL could reach this request */
            step = rdl__call_stopped_between(call, code);
            break;
        }
        if (rdl__call_detaches(call)) {
            rdl__detached_send(call);
            step = rdl__finish_with(RDL_OK);
            break;
        }
        outcome = rdl__lane_call(rdl__call_lane(call), &call->req, rdl__call_send_deadline(call, now),
                                 rdl__call_successor(call), call->verb->successor_mode);
        now = rdl__now();
        if (outcome == RDL__SETTLED) {
            step = rdl__call_answered(call, now);
        } else {
            rdl__call_successor_begins(call, outcome, way);
            step = rdl__call_stopped(call, atomic_load(&call->op.cancel_code), outcome);
        }
    }
    if (step.what == RDL__DO_FINISH) {
        if (step.undo && step.rc == RDL_ENOREPLICAS && call->req.ops->more > 0) {
            rdl__undo_at_once(call, now);
            step.undo = false;
        }
        rdl__call_conclude(call, step.rc, step.undo, false, now);
        return true;
    }
    if (step.what == RDL__DO_STAY) {
        step = call->verb->stay(call, step.hint_ms != 0 ? rdl__call_answer_by(call) : call->deadline);
        now = rdl__now();
        goto again;
    }
    call->answer = step.hint_ms; /* as RDL__NEXT_WAIT has it */
    if (step.what == RDL__DO_WAIT && call->line == RDL__LINE_STOOD) {
        hand_over_in_line(call, now);
        return false;
    }
    rdl__call_hand_over(call, step.what == RDL__DO_SEND   ? RDL__NEXT_SEND
                              : step.what == RDL__DO_WAIT ? RDL__NEXT_WAIT
                                                          : RDL__NEXT_DELAY);
    return false;
}
