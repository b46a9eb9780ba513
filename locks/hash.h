/* SPDX-License-Identifier: MIT */
/* hash.h - functions of the types whose hold is Redisson's hash of one field (wire.md, Reentrant). */
#ifndef REDLATCH_LOCKS_HASH_H
#define REDLATCH_LOCKS_HASH_H

#include "core/call/verb.h"
#include "scripts/scripts.h"

#define RDL__HASH_CHANNEL "redisson_lock__channel"

/* Who holds it: the hash's field. */
void rdl__hash_put_holder(struct rdl__buf *to, const char *name, size_t len);
bool rdl__hash_decode_holder(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len);

void rdl__hash_put_take(struct rdl__call *call, struct rdl__buf *to, bool eval);
void rdl__hash_put_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count);
void rdl__hash_put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval);

/* Members of the table of a type whose hold is the hash; it may have further keys. */
#define RDL__HOLD_IN_HASH                                                                                              \
    .call_back = rdl__lock_call_back, .channel = RDL__HASH_CHANNEL, .renew = RDL__SCRIPT_REENTRANT_RENEW,              \
    RDL__ONE_END, .put_query = rdl__put_exists, .decode_query = rdl__decode_number,                                    \
    .put_holder = rdl__hash_put_holder, .decode_holder = rdl__hash_decode_holder

/* And of one whose release and forced unlock need no further keys. */
#define RDL__IN_HASH                                                                                                   \
    RDL__HOLD_IN_HASH, .leaves_trace = rdl__leaves_no_trace, .granted = rdl__granted_by_answer,                        \
                       .put_release = rdl__hash_put_release, .put_force = rdl__hash_put_force

/* And of one whose waiting clients stand in line (wire.md, Line), kept or not. */
#define RDL__IN_LINE .news = RDL__NEWS_NAMED, .waits_on = rdl__waits_in_line

#endif
