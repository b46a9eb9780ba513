/* SPDX-License-Identifier: MIT */
/* composite/inner.h - what the files of a composite's call share: call.c, by_caller.c, by_loop.c, tell.c. */
#ifndef REDLATCH_COMPOSITE_INNER_H
#define REDLATCH_COMPOSITE_INNER_H

#include "locks/composite/call.h"

#define RDL__POST_NUDGE 1u /* to the parker of a blocking call: something is due */

static inline struct rdl__composite_op *rdl__composite_op_of(rdl_op_t *op)
{
    return rdl__container(op, struct rdl__composite_op, op);
}

/* ---- call.c ----------------------------------------------------------------------------------------------------- */

/* Make a call, give it its turn, and begin it if it has it. `fan`: a blocking call's. An error: nothing was done.
 * *ret_call has two references; unless ret_op is NULL the caller's is the user's, in *ret_op, which is set first, as an
 * asynchronous call may have called back when this returns.  @locks none */
int rdl__composite_prepare(const struct rdl__order *order, const struct rdl__composite_verb *verb, struct rdl__fan *fan,
                           struct rdl__composite_op **ret_call, rdl_op_t **ret_op, rdl_err_t *err);
/* Carry out what is due: the end of a queued call, a cancellation, the machine's timer. True: the call has ended.
 * @locks mu */
bool rdl__composite_handle_due(struct rdl__composite_op *call, int64_t now);
int64_t rdl__composite_next_due(const struct rdl__composite_op *call); /* if no event comes before  @locks mu */
void rdl__composite_conclude(struct rdl__composite_op *call);          /* all but the callback itself  @locks mu */
void rdl__composite_op_unused(rdl_op_t *op);                  /* the last reference was given back  @locks none */
void rdl__composite_op_unref(struct rdl__composite_op *call); /* @locks none, or mu when it is not the last */

/* ---- by_loop.c: an asynchronous call ---------------------------------------------------------------------------- */

void rdl__composite_on_task(struct rdl__task *task, int64_t now);    /* @thread the home client's loop */
void rdl__composite_on_timer(struct rdl__timer *timer, int64_t now); /* @thread the home client's loop */

/* ---- tell.c ----------------------------------------------------------------------------------------------------- */

extern const struct rdl__op_ops rdl__composite_op_ops;
void rdl__composite_explain(const rdl_op_t *op, rdl_err_t *err); /* why it failed, as a text */
/* As rdl__call_lost_meanwhile: it was granted, and lost before its caller could be told. Members that are still held
 * are given back as after a take that failed, even if the client is closing, without waiting.  @locks mu */
void rdl__composite_see_lost_meanwhile(struct rdl__composite_op *call);

#endif
