/* SPDX-License-Identifier: MIT */
/* composite/by_loop.c - a composite's asynchronous call, driven by the home client's loop. */
#include "locks/composite/inner.h"

static void drive(struct rdl__composite_op *call, int64_t now)
{
    struct rdl__composite *j = rdl__composite_ref(rdl__composite_of_call(call));
    rdl_client_t *home = j->home;
    bool ended;

    rdl__mutex_lock(&j->mu);
    ended = rdl__composite_handle_due(call, now);
    if (!ended && rdl__composite_next_due(call) != RDL__NEVER)
        rdl__loop_timer(rdl__client_loop(home), &call->timer, rdl__composite_next_due(call));
    else if (!ended)
        rdl__loop_timer_off(rdl__client_loop(home), &call->timer);
    else
        rdl__composite_conclude(call);
    rdl__composite_unlock(j);
    if (ended) {
        rdl__client_call_ends(home);
        rdl__composite_op_unref(call);
    }
    rdl__composite_unref(j);
}

void rdl__composite_on_task(struct rdl__task *task, int64_t now)
{
    struct rdl__composite_op *call = rdl__container(task, struct rdl__composite_op, task);

    rdl__assert_on_loop(rdl__client_loop(rdl__composite_of_call(call)->home));
    drive(call, now);
}

void rdl__composite_on_timer(struct rdl__timer *timer, int64_t now)
{
    struct rdl__composite_op *call = rdl__container(timer, struct rdl__composite_op, timer);

    rdl__assert_on_loop(rdl__client_loop(rdl__composite_of_call(call)->home));
    drive(call, now);
}

int rdl__composite_call_async(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_op_t **ret_op,
                              rdl_err_t *err)
{
    struct rdl__composite_op *call = NULL;
    int rc = rdl__composite_prepare(order, verb, NULL, &call, ret_op, err);

    if (rc == RDL_OK && ret_op == NULL)
        rdl__composite_op_unref(call);
    return rc;
}
