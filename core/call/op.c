/* op.c - what the user may do with a call of any kind. */
#include "core/call/op.h"

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
        op->unused(op);
    return NULL;
}
