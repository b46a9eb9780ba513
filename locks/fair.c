/* fair.c - first come, first served: the reentrant lock's hash, and a queue beside it (wire.md, Fair; protocol.md, 7).
 *
 * A refused take leaves a place in the queue, and is the waiter's sign of life; the refusal says when the next is due.
 * Whoever frees the lock passes it on at the server, to the first waiter that lives, and says so on that one's own
 * channel: a change of owner costs a take and a release (acquire.c, take_woken; docs/decisions.md). Giving up a take is
 * giving back what it may have got, a hold or a place, and that is the release. So queueing needs no verbs of its own,
 * and its rules are all in the scripts.
 */
#include "locks/hash.h"
#include "locks/types.h"

const struct rdl__lock_ops rdl__fair_ops = {
    .handle = &rdl__single_handle,
    .name = "fair",
    .nests = true,
    .channel = "redisson_lock__channel",
    .news = RDL__NEWS_OWN,
    .queue = {"redisson_lock_queue", "redisson_lock_timeout", "redlatch_lock_waiters"},
    .take = RDL__SCRIPT_FAIR_TAKE,
    .release = RDL__SCRIPT_FAIR_RELEASE,
    .renew = RDL__SCRIPT_REENTRANT_RENEW,
    .force = RDL__SCRIPT_FAIR_FORCE,
    .retry = {.kind = RDL_RETRY_NONE},
    .encode_holder = rdl__hash_encode_holder,
    .decode_holder = rdl__hash_decode_holder,
};
