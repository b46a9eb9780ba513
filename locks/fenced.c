/* fenced.c - the lock whose every hold has a higher token than the one before: Redisson's RFencedLock (wire.md,
 * Fenced).
 *
 * The reentrant lock's hash beside a counter that the take raises, in the same script, when the lock changes hands.
 * Everything else is the hash's.
 */
#include "locks/hash.h"
#include "locks/types.h"

const struct rdl__lock_ops rdl__fenced_ops = {
    .handle = &rdl__single_handle,
    .name = "fenced",
    .nests = true,
    .counter = "redisson_lock_token",
    .take = RDL__SCRIPT_FENCED_TAKE,
    .retry = {.kind = RDL_RETRY_NONE},
    RDL__IN_HASH,
};
