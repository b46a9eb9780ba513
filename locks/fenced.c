/* SPDX-License-Identifier: MIT */
/* fenced.c - the lock whose every hold has a higher token than the one before: Redisson's RFencedLock (wire.md,
 * Fenced).
 *
 * The reentrant lock's hash beside a counter that the take raises, in the same script, when the lock changes hands.
 * Everything else is the hash's.
 */
#include "core/service/scripts.h"
#include "locks/hash.h"
#include "locks/types.h"

#define COUNTER "redisson_lock_token"
#define COUNTED (-1000) /* token t is answered as COUNTED - t: below all other answers */

static int options(const struct rdl__lock_ops *ops, rdl_lock_options_t *o, struct rdl__settings *settings,
                   rdl_err_t *err)
{
    int rc;

    (void)settings;
    if ((rc = rdl__options_fencing(ops, true, o, err)) < 0 || (rc = rdl__options_one_end(ops, o, err)) < 0)
        return rc;
    return rdl__options_unqueued(o, err);
}

static void put_take(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__put_take(call, to, eval, RDL__SCRIPT_FENCED_TAKE, COUNTER, 0);
}

/* Where its client keeps it: a hold to be kept has tokens for all who are let in; the server's time is asked for them
 * as they are needed. */
static void put_kept_take(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    bool draws = rdl__is_kept(call->n) && !rdl__wants_token(call);

    rdl__put_take(call, to, eval, RDL__SCRIPT_FENCED_TAKE, COUNTER, draws ? RDL__TOKENS_KEPT : 0);
}

/* Java counts on from the tokens that were given here. */
static void put_confirm(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__script_begin(to, RDL__SCRIPT_FENCED_CONFIRM, eval, 2, 2);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_prefixed(to, COUNTER, name);
    rdl__put_field(to, call);
    rdl__cmd_int(to, call->op.lease_ms);
}

static void decode_take(struct rdl__call *call, const struct rdl__reply *reply)
{
    rdl__decode_take(call, reply);
    if (call->answer >= COUNTED)
        return;
    call->hold.token = COUNTED - call->answer;
    call->answer = RDL__TAKEN;
}

#define FENCED                                                                                                         \
    .name = "fenced", .kind = "fenced", .nests = true, .retry = {.kind = RDL_RETRY_NONE}, .decode_take = decode_take,  \
    RDL__IN_HASH, RDL__IN_LINE

static const struct rdl__lock_ops kept = {
    RDL__CACHED,
    FENCED,
    .put_take = put_kept_take,
    .put_confirm = put_confirm,
};

const struct rdl__lock_ops rdl__fenced_ops = {
    .handle = &rdl__single_handle,
    .kept = &kept,
    FENCED,
    .alone = true,
    .put_take = put_take,
};

RDL__CONSTRUCTOR(rdl_fenced_lock, rdl__fenced_ops, options)
