/* spin.c - the lock that is held for moments and waited for by asking again: Redisson's RSpinLock (wire.md).
 *
 * The reentrant lock's hash, without a subscription: those who wait look again after an exponential, jittered pause.
 * The defaults are Redisson's, 1 to 128 ms. Its unlock still publishes, so that ordinary waiters on the name are woken
 * at once.
 */
#include "locks/hash.h"
#include "locks/types.h"

const struct rdl__lock_ops rdl__spin_ops = {
    .handle = &rdl__single_handle,
    .name = "spin",
    .nests = true,
    .polls = true,
    .take = RDL__SCRIPT_REENTRANT_TAKE,
    .retry = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 1, .max_ms = 128},
    RDL__IN_HASH,
};
