/* hash.h - what the types share that live in Redisson's hash of one field (wire.md, Reentrant): all but the take. */
#ifndef REDLATCH_LOCKS_HASH_H
#define REDLATCH_LOCKS_HASH_H

#include "core/call/type.h"
#include "scripts/scripts.h"

/* Who holds it: the hash's field. */
void rdl__hash_encode_holder(struct rdl__buf *to, const char *name, size_t len);
bool rdl__hash_decode_holder(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len);

/* Part of such a type's table. */
#define RDL__IN_HASH                                                                                                   \
    .channel = "redisson_lock__channel", .release = RDL__SCRIPT_REENTRANT_RELEASE,                                     \
    .renew = RDL__SCRIPT_REENTRANT_RENEW, .force = RDL__SCRIPT_REENTRANT_FORCE,                                        \
    .encode_holder = rdl__hash_encode_holder, .decode_holder = rdl__hash_decode_holder

#endif
