/* SPDX-License-Identifier: MIT */
/* op.c - the user's side of a call of either kind: canceling, freeing, calling back. */
#include "core/call/op.h"

/* With RDL_DISPATCH_FD the callback runs when the program gets to it: what was granted may be lost by then. */
static void see_lost_meanwhile(rdl_op_t *op)
{
    rdl_client_t *client = op->owner->client;

    if (op->direct || !rdl__dispatch_waits(&client->dispatch) || rdl__client_call_begins(client) < 0)
        return;
    op->ops->see_lost(op);
    rdl__client_call_ends(client);
}

void rdl__op_tell(struct rdl__callback *callback)
{
    rdl_op_t *op = rdl__container(callback, rdl_op_t, callback);
    rdl_err_t err = {0};

    see_lost_meanwhile(op);
    if (op->result < 0)
        op->ops->explain(op, &err);
    if (op->fn != NULL)
        op->ops->tell(op, op->result < 0 ? &err : NULL);
    if (rdl__op_unref(op, 1))
        op->ops->unused(op);
}

void rdl__op_announce(rdl_op_t *op)
{
    rdl__op_ref(op);
    if (op->direct)
        rdl__op_tell(&op->callback);
    else
        rdl__dispatch_push(&op->owner->client->dispatch, &op->callback);
}

void rdl_op_cancel(rdl_op_t *op)
{
    if (op == NULL || rdl__client_forked(op->owner->client))
        return;
    rdl__mutex_lock(&op->owner->mu);
    if (rdl__link_on(&op->underway.link))
        op->underway.cancel(&op->underway, RDL_ECANCELED);
    rdl__mutex_unlock(&op->owner->mu);
}

rdl_op_t *rdl_op_free(rdl_op_t *op)
{
    if (op != NULL && !rdl__client_forked(op->owner->client) && rdl__op_unref(op, 1))
        op->ops->unused(op);
    return NULL;
}
