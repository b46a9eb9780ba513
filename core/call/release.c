/* SPDX-License-Identifier: MIT */
/* release.c - the verb that gives back one acquire. */
#include "core/call/alone.h"
#include "core/call/cached.h"
#include "core/call/verb.h"

/* The outermost release takes the hold out of the watchdog first, so that no renewal starts after it. */
rdl__step_t rdl__release_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__record *rec = call->rec;
    struct rdl__watchdog *wd = rdl__call_client(call)->watchdog;
    rdl_hold_state_t state;
    int32_t count;

    if (rec == NULL || rec->count == 0 || (call->n != 0 && call->n != rec->hold.id.n))
        return rdl__finish_with(RDL_ENOTOWNER);
    count = rec->count - 1;
    call->n = rec->hold.id.n;
    call->count = call->hold.undo_count = count;
    call->op.lease_ms = rdl__record_most_ms(rec, now);
    rdl__record_set_count(rec, count); /* so that force.c does not report its loss as well */
    state = count == 0 ? rdl__watchdog_remove(wd, &rec->hold, now) : rdl__watchdog_state(wd, &rec->hold, now, NULL);
    if (count == 0)
        rdl__name_metric(rec->name, RDL_M_HOLD_US, now - rec->held_since);
    if (state < RDL_LOST)
        return rdl__send_it();
    return state == RDL_LOST ? rdl__finish_with(RDL_ELOST) : rdl__alone_release(call, now);
}

rdl__step_t rdl__release_answered(struct rdl__call *call, int64_t now)
{
    rdl__step_t again = {.what = RDL__DO_FINISH, .rc = call->req.rc, .undo = call->req.rc != RDL_ECLOSED};
    bool late =
        call->count == 0 && call->rec->may_come &&
        rdl__record_ends_by(call->rec) > now; /* a sending of its take may still arrive, even after a forced unlock */

    call->may_come |= call->rec->may_come; /* a sending of its take */
    if (call->req.rc != RDL_OK)
        return again;
    if (call->refused_words) {
        again.rc = RDL_ESERVER;
        return again;
    }
    if (call->answer == RDL__NO_HOLD &&
        !(call->req.resent && call->count == 0)) { /* else an earlier sending of this release has done it */
        if (call->count > 0) {
            rdl__watchdog_gone(rdl__call_client(call)->watchdog, &call->rec->hold, call->n);
        } else {
            rdl__name_metric(call->rec->name, RDL_M_LOST, 1);
            rdl__record_tell(call->rec, &(struct rdl__hold_id){call->n, call->rec->hold.id.token}, RDL_LOST,
                             RDL_LOSS_GONE);
        }
        again.rc = RDL_ELOST;
        again.undo = late;
        return again;
    }
    if (call->count == 0) {
        rdl__call_freed(call);
        rdl__note_release(call, now);
        rdl__name_metric(call->rec->name, RDL_M_RELEASED, 1);
        late |= rdl__line_released(call);
    }
    again.rc = RDL_OK;
    again.undo = late;
    return again;
}

const struct rdl__verb rdl__verb_release = {
    RDL__RELEASES,
    .undo_once_more = rdl__line_left_over,
    .undone = rdl__line_undone,
    .begin = rdl__release_begin,
    .answered = rdl__release_answered,
    .kept = &rdl__cached_release,
};
