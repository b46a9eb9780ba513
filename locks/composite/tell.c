/* SPDX-License-Identifier: MIT */
/* composite/tell.c - how the end of a composite's call is told: the text of its error, a loss before that, the
 * callback. */
#include "locks/composite/inner.h"

#include "core/base/err.h"

#include <stdio.h>

static const char *vote_of(const struct rdl__member *member)
{
    if (member->code == RDL_OK && member->until > 0)
        return member->uncounted ? "does not count" : "granted";
    switch (member->code) {
    case RDL_ETIMEDOUT:
        return "refused";
    case RDL_OK:
    case RDL_ECANCELED:
        return "not waited for";
    case RDL_EUNKNOWN:
        return "no answer";
    case RDL_ECONN:
        return "not reached";
    default:
        return rdl_err_name(member->code);
    }
}

/* Why there was no majority, with each server's vote as far as there is room. */
static void explain_votes(const struct rdl__composite_op *call, rdl_err_t *err)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);
    char votes[sizeof err->message] = "";
    unsigned taken = 0, refused = 0, void_votes = 0;
    size_t len = 0;

    for (unsigned i = 0; i < j->member_count; i++) {
        taken += call->member[i].code == RDL_OK && call->member[i].until > 0;
        void_votes += call->member[i].code == RDL_OK && call->member[i].until > 0 && call->member[i].uncounted;
        refused += call->member[i].code == RDL_ETIMEDOUT;
        if (len < sizeof votes)
            len += (size_t)snprintf(votes + len, sizeof votes - len, "%s %s %s", i > 0 ? "," : "",
                                    rdl__client_label(rdl__member_client(j, i)), vote_of(&call->member[i]));
    }
    (void)rdl__err_set(err, (int)call->op.result,
                       "%s lock of %u: %u granted it (%u of them do not count: up for less than a lease, or counted "
                       "already), %u refused, %u did not answer; %u are needed:%s",
                       j->handle.ops->name, j->member_count, taken, void_votes, refused,
                       j->member_count - taken - refused, j->quorum, votes);
}

void rdl__composite_explain(const rdl_op_t *op, rdl_err_t *err)
{
    const struct rdl__composite_op *call = rdl__container(op, struct rdl__composite_op, op);
    const struct rdl__composite *j = rdl__composite_of_call(call);
    int code = (int)call->op.result;
    bool why = call->why.code == code;

    if (err == NULL)
        return;
    if (call->verb->acquires && j->plan->majority && (code == RDL_ENOQUORUM || code == RDL_ETIMEDOUT))
        explain_votes(call, err);
    else if (code == RDL_ELOST && call->lost_count > 0)
        (void)rdl__err_set(err, code, "%s lock of %u: %u lost: %s", j->handle.ops->name, j->member_count,
                           call->lost_count, call->lost);
    else
        (void)rdl__err_set(err, code, "%s lock of %u: %s", j->handle.ops->name, j->member_count,
                           why ? call->why.message : rdl_strerror(code));
    rdl__err_where(err, why ? call->why.server : NULL, j->name, j->name_len);
}

void rdl__composite_see_lost_meanwhile(struct rdl__composite_op *call)
{
    struct rdl__composite_record *rec = call->rec;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (call->op.result != RDL_OK || !call->verb->acquires || call->serial != rec->serial ||
        rdl__composite_record_view(rec, rdl__now()).state != RDL_LOST)
        return;
    call->op.result = RDL_ELOST;
    rec->count--;
    rec->want--;
    rec->lost = rec->want > 0;
    rdl__composite_settle(rec);
}

static void see_lost(rdl_op_t *op)
{
    struct rdl__composite_op *call = rdl__composite_op_of(op);
    struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__mutex_lock(&j->mu);
    rdl__composite_see_lost_meanwhile(call);
    rdl__composite_record_retire(call->rec);
    rdl__composite_unlock(j);
}

static void tell(const rdl_op_t *op, const rdl_err_t *err)
{
    ((rdl_done_fn)op->fn)(op->lock, op->result, err, op->arg);
}

const struct rdl__op_ops rdl__composite_op_ops = {
    .unused = rdl__composite_op_unused, .see_lost = see_lost, .explain = rdl__composite_explain, .tell = tell};
