/* SPDX-License-Identifier: MIT */
/* lock_reentrant.c - the reentrant lock, for the enumeration: a hash of one field, the holder's, with its count. The
 * non-reentrant lock and the spin lock are the same scripts. */
#include "tests/script/lock_model.h"

const struct lock_type reentrant_type = {
    .name = "reentrant",
    .reentrant = true,
    .scripts = {[LOCK_TAKE] = "reentrant_take", [LOCK_RELEASE] = "reentrant_release", [LOCK_RENEW] = "reentrant_renew"},
    .lay_out = mutex_lay_out,
    .read = mutex_read,
    .look = hash_look,
    .holds = hash_holds,
    .reference = mutex_reference,
};
