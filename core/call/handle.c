/* SPDX-License-Identifier: MIT */
/* handle.c - the handle of a single lock. */
#include "core/call/handle.h"

rdl_client_t *rdl__single_client(const rdl_lock_t *lock)
{
    return lock->name->client;
}

const char *rdl__single_name(const rdl_lock_t *lock, size_t *ret_len)
{
    *ret_len = lock->name->node.key_len;
    return lock->name->bytes;
}

int rdl__single_on_lost(rdl_lock_t *lock, rdl_lost_fn fn, void *arg)
{
    int rc;

    rdl__mutex_lock(&lock->name->mu);
    if ((rc = fn == NULL ? RDL_OK : rdl__name_tells(lock->name)) == RDL_OK) {
        lock->fn = fn;
        lock->arg = arg;
    }
    rdl__mutex_unlock(&lock->name->mu);
    return rc;
}

bool rdl__single_knows(const rdl_lock_t *lock, const rdl_owner_t *owner)
{
    return owner->client == lock->name->client;
}

static struct rdl__view single_view(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now)
{
    return rdl__record_view(lock->name, owner, lock->ops, now);
}

const char *rdl__single_tokenless(const rdl_lock_t *lock)
{
    return lock->name->settings.fencing == RDL_FENCING_NONE ? "the lock was made without fencing" : NULL;
}

const struct rdl__handle_ops rdl__single_handle = {
    .client = rdl__single_client,
    .name = rdl__single_name,
    .drop = rdl__handle_drop,
    .call = rdl__call,
    .call_async = rdl__call_async,
    .on_lost = rdl__single_on_lost,
    .knows = rdl__single_knows,
    .view = single_view,
    .tokenless = rdl__single_tokenless,
};
