/* SPDX-License-Identifier: MIT */
/* cached.h - a lock that its client keeps (option cache_ms; its files: cache.h), as the rest of the library sees it. */
#ifndef REDLATCH_CALL_CACHED_H
#define REDLATCH_CALL_CACHED_H

#include "core/call/handle.h"

/* cached.c, recall.c: the table of its handles. A type's table for such locks names it, and rdl__cache_unused. */
extern const struct rdl__handle_ops rdl__cached_handle;
void rdl__cache_unused(struct rdl__name *name);
#define RDL__CACHED .handle = &rdl__cached_handle, .unused = rdl__cache_unused

/* cache_verbs.c: what verbs are of such a lock (struct rdl__verb, kept). */
extern const struct rdl__verb rdl__cached_take, rdl__cached_release, rdl__cached_extend, rdl__cached_is_locked,
    rdl__cached_remaining;

/* recall.c: give the name of a new handle what it needs for that, unless it has it. RDL_OK or an error: RDL_EINVAL, it
 * has another cache_ms. */
int rdl__cache_make(rdl_lock_t *lock, int64_t cache_ms);

/* Is that number one of a hold that is kept, or of an owner's inside one? */
static inline bool rdl__is_kept(int64_t n)
{
    return n < 0;
}

/* cache.c: how long an owner's local hold is valid: 0, not any more.  @locks the name's */
int64_t rdl__cache_valid_for(struct rdl__record *rec, int64_t now);
/* An owner with a local hold of one end is about to take the other at the server. Returns the number that its hold has
 * there; one that excludes others is from now on not kept past its owner.  @locks the name's */
int64_t rdl__cache_beside(struct rdl__record *rec);

/* kept.c. Of a record with such a number: its hold is at risk, or lost; its owner is gone, while the client is closing
 * or not.  @locks none */
void rdl__cache_changed(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                        rdl_loss_reason_t reason, int64_t now);
void rdl__cache_abandon(struct rdl__record *rec, bool closing);

#endif
