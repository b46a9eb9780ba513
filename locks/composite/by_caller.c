/* SPDX-License-Identifier: MIT */
/* composite/by_caller.c - a composite's blocking call, driven by its caller's thread.
 *
 * The thread sends the first requests and reads their answers itself, for BY_HAND_MS at most, on lanes of callers (a
 * fan: core/io/lane.h). After that the members' loops do, and it sleeps until something is due or the call has ended.
 */
#include "locks/composite/inner.h"

#include "core/base/err.h"

/* How long a calling thread reads its answers itself; other events have to wait for that. */
#define BY_HAND_MS 10

/* So no loop has to be woken for the first answers. The loops read what comes after the call has ended, or after
 * BY_HAND_MS. */
static void read_answers(struct rdl__composite_op *call, struct rdl__fan *fan)
{
    struct rdl__composite *j = rdl__composite_of_call(call);
    const int64_t most = rdl__after_ms(call->op.started_at, BY_HAND_MS);
    bool on = true;

    while (on && fan->n > 0) {
        int64_t now = rdl__now(), until;
        bool ended;

        rdl__mutex_lock(&j->mu);
        ended = rdl__composite_handle_due(call, now);
        until = ended ? now : rdl__composite_next_due(call) < most ? rdl__composite_next_due(call) : most;
        rdl__composite_unlock(j);
        on = rdl__call_fan_wait(fan, until) || (!ended && rdl__now() < most);
    }
    rdl__call_fan_leave(fan);
}

static bool on_some_loop(const struct rdl__composite *j)
{
    bool here = false;

    for (unsigned i = 0; i < j->member_count && !here; i++) {
        if (rdl__client_call_begins(rdl__member_client(j, i)) < 0)
            continue;
        here = rdl__loop_here(rdl__client_loop(rdl__member_client(j, i)));
        rdl__client_call_ends(rdl__member_client(j, i));
    }
    return here;
}

int64_t rdl__composite_call(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_err_t *err)
{
    struct rdl__composite *j = rdl__composite_of(order->lock);
    struct rdl__composite_op *call = NULL;
    struct rdl__fan fan = {0};
    bool slept = false;
    int64_t result;
    int rc;

    if (on_some_loop(j))
        return rdl__err_set(err, RDL_EDEADLK, "a blocking verb on a client's loop thread would wait for itself");
    if ((rc = rdl__composite_prepare(order, verb, &fan, &call, NULL, err)) < 0)
        return rc;
    rdl__call_fan_begin(&fan);
    read_answers(call, &fan);
    rdl__mutex_lock(&j->mu);
    for (;;) {
        int64_t until;

        rdl__parker_unmark(&call->op.parker, RDL__POST_NUDGE);
        if (rdl__composite_handle_due(call, rdl__now()))
            break;
        until = rdl__composite_next_due(call);
        rdl__composite_unlock(j);
        (void)rdl__park(&call->op.parker, until);
        slept = true;
        rdl__mutex_lock(&j->mu);
    }
    if (slept)
        rdl__composite_see_lost_meanwhile(call);
    rdl__composite_conclude(call);
    result = call->op.result;
    if (result < 0)
        rdl__composite_explain(&call->op, err);
    rdl__composite_unlock(j);
    rdl__composite_owing_ends_all(call);
    rdl__client_call_ends(j->home);
    rdl__composite_op_unref(call);
    rdl__composite_op_unref(call);
    return result;
}
