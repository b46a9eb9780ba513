/* SPDX-License-Identifier: MIT */
/* nonreentrant.c - the general-purpose lock whose owner may not take it again: the reentrant lock's hash with count 1.
 *
 * A second take is a mistake that is found before anything is sent, from the owner's own record.
 */
#include "locks/hash.h"
#include "locks/types.h"

#define NONREENTRANT                                                                                                   \
    .name = "nonreentrant", .kind = "nonreentrant", .nests = false, .retry = {.kind = RDL_RETRY_NONE},                 \
    .put_take = rdl__hash_put_take, .decode_take = rdl__decode_take, RDL__IN_HASH, RDL__IN_LINE

static const struct rdl__lock_ops kept = {
    RDL__CACHED,
    NONREENTRANT,
    .put_confirm = rdl__extend_encode,
};

const struct rdl__lock_ops rdl__nonreentrant_ops = {
    .handle = &rdl__single_handle,
    .kept = &kept,
    NONREENTRANT,
    .alone = true,
};

RDL__CONSTRUCTOR(rdl_nonreentrant_lock, rdl__nonreentrant_ops, rdl__options_plain)
