/* SPDX-License-Identifier: MIT */
/* handle.h - what a handle of a lock does, as a table: one for single locks (handle.c), one for those that their client
 * keeps (cached.c), and one for composites (locks/composite/handle.c).
 *
 * A lock type's table names it (type.h, `handle`). Arguments have been checked by the caller (locks/lock.c). */
#ifndef REDLATCH_CALL_HANDLE_H
#define REDLATCH_CALL_HANDLE_H

#include "core/call/call.h"
#include "core/call/record.h"

struct rdl__handle_ops {
    bool has_members;                                /* a composite, which cannot be a member */
    bool cached;                                     /* kept by its client, which no composite can */
    rdl_client_t *(*client)(const rdl_lock_t *lock); /* whose callbacks and timers it uses */
    const char *(*name)(const rdl_lock_t *lock, size_t *ret_len);
    void (*drop)(rdl_lock_t *lock);                                  /* the user's reference  @locks none */
    int64_t (*call)(const struct rdl__order *order, rdl_err_t *err); /* this and the next: as in call.h */
    int (*call_async)(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err);
    int (*on_lost)(rdl_lock_t *lock, rdl_lost_fn fn, void *arg);     /* RDL_OK or RDL_ENOMEM  @locks none */
    bool (*knows)(const rdl_lock_t *lock, const rdl_owner_t *owner); /* is it an owner of one of its clients? */
    /* What the owner holds of it. token: 0 when it has none. The client is not closed yet (rdl__client_call_begins).
     * @locks none */
    struct rdl__view (*view)(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now);
    const char *(*tokenless)(const rdl_lock_t *lock); /* why it has no tokens; NULL: it has */
};

extern const struct rdl__handle_ops rdl__single_handle; /* handle.c, as what kept locks share with it */
rdl_client_t *rdl__single_client(const rdl_lock_t *lock);
const char *rdl__single_name(const rdl_lock_t *lock, size_t *ret_len);
int rdl__single_on_lost(rdl_lock_t *lock, rdl_lost_fn fn, void *arg);
bool rdl__single_knows(const rdl_lock_t *lock, const rdl_owner_t *owner);
const char *rdl__single_tokenless(const rdl_lock_t *lock);

static inline rdl_client_t *rdl__lock_client(const rdl_lock_t *lock)
{
    return lock->ops->handle->client(lock);
}

static inline const char *rdl__lock_name(const rdl_lock_t *lock, size_t *ret_len)
{
    return lock->ops->handle->name(lock, ret_len);
}

static inline int64_t rdl__lock_call(const struct rdl__order *order, rdl_err_t *err)
{
    return order->lock->ops->handle->call(order, err);
}

static inline int rdl__lock_call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    return order->lock->ops->handle->call_async(order, ret_op, err);
}

#endif
