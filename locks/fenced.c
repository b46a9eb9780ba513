/* fenced.c - the lock whose every hold has a higher token than the one before: Redisson's RFencedLock (wire.md,
 * Fenced).
 *
 * The reentrant lock's hash beside a counter that the take raises, in the same script, when the lock changes hands.
 * Everything else is the hash's.
 */
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
    rdl__put_take(call, to, eval, RDL__SCRIPT_FENCED_TAKE, COUNTER);
}

static void decode_take(struct rdl__call *call, const struct rdl__reply *reply)
{
    rdl__decode_take(call, reply);
    if (call->answer >= COUNTED)
        return;
    call->hold.token = COUNTED - call->answer;
    call->answer = RDL__TAKEN;
}

const struct rdl__lock_ops rdl__fenced_ops = {
    .handle = &rdl__single_handle,
    .name = "fenced",
    .kind = "fenced",
    .waits_on = rdl__waits_on_channel,
    .nests = true,
    .local = true,
    .retry = {.kind = RDL_RETRY_NONE},
    .put_take = put_take,
    .decode_take = decode_take,
    RDL__IN_HASH,
};

RDL__CONSTRUCTOR(rdl_fenced_lock, rdl__fenced_ops, options)
