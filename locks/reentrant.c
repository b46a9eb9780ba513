/* SPDX-License-Identifier: MIT */
/* reentrant.c - the general-purpose lock: a hash of one field (wire.md, Reentrant). */
#include "locks/hash.h"
#include "locks/types.h"

#define REENTRANT                                                                                                      \
    .name = "reentrant", .kind = "reentrant", .nests = true, .retry = {.kind = RDL_RETRY_NONE},                        \
    .put_take = rdl__hash_put_take, .decode_take = rdl__decode_take, RDL__IN_HASH, RDL__IN_LINE

static const struct rdl__lock_ops kept = {
    RDL__CACHED,
    REENTRANT,
    .put_confirm = rdl__extend_encode,
};

const struct rdl__lock_ops rdl__reentrant_ops = {
    .handle = &rdl__single_handle,
    .kept = &kept,
    REENTRANT,
    .alone = true,
};

RDL__CONSTRUCTOR(rdl_reentrant_lock, rdl__reentrant_ops, rdl__options_plain)
