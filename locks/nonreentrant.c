/* nonreentrant.c - the general-purpose lock whose owner may not take it again: the reentrant lock's hash with count 1.
 *
 * A second take is a mistake that is found before anything is sent, from the owner's own record.
 */
#include "locks/hash.h"
#include "locks/types.h"

const struct rdl__lock_ops rdl__nonreentrant_ops = {
    .handle = &rdl__single_handle,
    .name = "nonreentrant",
    .nests = false,
    .take = RDL__SCRIPT_REENTRANT_TAKE,
    .retry = {.kind = RDL_RETRY_NONE},
    RDL__IN_HASH,
};
