/* SPDX-License-Identifier: MIT */
/* spin.c - the lock for very short holds, whose waiters poll: Redisson's RSpinLock (wire.md).
 *
 * The reentrant lock's hash, without a subscription: waiters try again after an exponential, jittered pause.
 * The defaults are Redisson's, 1 to 128 ms. Its unlock still publishes, so that ordinary waiters on the name are woken
 * at once.
 */
#include "locks/hash.h"
#include "locks/types.h"

#include "core/base/err.h"
#include "core/wire/names.h"

static int options(const struct rdl__lock_ops *ops, rdl_lock_options_t *o, struct rdl__settings *settings,
                   rdl_err_t *err)
{
    if (o->retry.kind == RDL_RETRY_NONE)
        return rdl__err_set(err, RDL_EINVAL, "lock option retry is RDL_RETRY_NONE: a %s lock would not try again",
                            ops->name);
    return rdl__options_plain(ops, o, settings, err);
}

/* Not a channel: waiters of one name only share a timer. */
static void waits_on(struct rdl__buf *to, struct rdl__call *call)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__name_prefix(to, "redlatch_poll", name->bytes, name->node.key_len);
}

#define SPIN                                                                                                           \
    .name = "spin", .kind = "spin", .news = RDL__NEWS_NONE, .waits_on = waits_on, .nests = true,                       \
    .retry = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 1, .max_ms = 128}, .put_take = rdl__hash_put_take,              \
    .decode_take = rdl__decode_take, RDL__IN_HASH

static const struct rdl__lock_ops kept = {
    RDL__CACHED,
    SPIN,
    .put_confirm = rdl__extend_encode,
};

const struct rdl__lock_ops rdl__spin_ops = {
    .handle = &rdl__single_handle,
    .kept = &kept,
    SPIN,
    .alone = true,
};

RDL__CONSTRUCTOR(rdl_spin_lock, rdl__spin_ops, options)
