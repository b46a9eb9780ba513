/* reentrant.c - the general-purpose lock: a hash of one field (wire.md, Reentrant). */
#include "locks/hash.h"
#include "locks/types.h"

const struct rdl__lock_ops rdl__reentrant_ops = {
    .handle = &rdl__single_handle,
    .name = "reentrant",
    .nests = true,
    .take = RDL__SCRIPT_REENTRANT_TAKE,
    .retry = {.kind = RDL_RETRY_NONE},
    RDL__IN_HASH,
};
