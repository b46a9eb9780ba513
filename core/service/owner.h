/* SPDX-License-Identifier: MIT */
/* owner.h - owners from inside: their records, their calls under way, and threads' owners. */
#ifndef REDLATCH_SERVICE_OWNER_H
#define REDLATCH_SERVICE_OWNER_H

#include "core/base/list.h"
#include "core/base/reserve.h"
#include "core/base/sync.h"

#include <redlatch/owner.h>
#include <stdatomic.h>
#include <stdbool.h>

/* On an owner's list of records: embedded in a record. */
struct rdl__owner_link {
    struct rdl__link link;
    void (*orphan)(struct rdl__owner_link *owner_link); /* the owner is gone; it was taken off the list  @locks none */
};

/* An owner's call under way. */
struct rdl__underway {
    struct rdl__link link;
    void (*cancel)(struct rdl__underway *call, int code); /* cancel it with `code`.  @locks the owner's */
};

struct rdl__thread_slot;

struct rdl_owner {
    /* immutable */
    rdl_client_t *client;
    unsigned index;                /* of the client's */
    unsigned char lane;            /* which of a shard's lanes its blocking calls use */
    struct rdl__thread_slot *slot; /* of a thread's own owner; NULL: made by rdl_owner_new */

    _Atomic unsigned refs;
    _Atomic(void *) spares[2]; /* calls' memory, kept for the next ones: a detached release has one */
    _Atomic size_t spare_size;
    struct rdl__link link; /* on the client's list; with `withdrawn` under the client's owners_mu */
    bool withdrawn;        /* taken from its thread by the closing client */

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__link links;
    struct rdl__link calls;
    struct rdl__reserve reserve; /* calls' memory, one for each hold whose release is detached */
    bool gone;
};

/* The calling thread's owner in this client: the bound one, or its own, made at first use. No reference: valid until
 * the thread ends or binds another, or the client is freed. RDL_OK or RDL_ENOMEM. */
int rdl__owner_self(rdl_client_t *client, rdl_owner_t **ret_owner);
/* The same if it was made, else NULL: for a caller that keeps the client from closing otherwise than by a call. */
rdl_owner_t *rdl__owner_here(const rdl_client_t *client);

static inline rdl_owner_t *rdl__owner_ref(rdl_owner_t *owner)
{
    atomic_fetch_add_explicit(&owner->refs, 1, memory_order_relaxed);
    return owner;
}
void rdl__owner_unused(rdl_owner_t *owner); /* the last reference was given back */
static inline void rdl__owner_unref(rdl_owner_t *owner)
{
    if (atomic_fetch_sub_explicit(&owner->refs, 1, memory_order_acq_rel) == 1)
        rdl__owner_unused(owner);
}

/* False, and nothing done, when the owner is gone. */
bool rdl__owner_link_add(rdl_owner_t *owner, struct rdl__owner_link *owner_link);
bool rdl__owner_link_remove(rdl_owner_t *owner,
                            struct rdl__owner_link *owner_link); /* false: `orphan` will run, or has run */
void rdl__owner_begin(rdl_owner_t *owner, struct rdl__underway *call);
static inline void rdl__owner_end(rdl_owner_t *owner, struct rdl__underway *call)
{
    rdl__mutex_lock(&owner->mu);
    rdl__list_remove(&call->link);
    rdl__mutex_unlock(&owner->mu);
}

/* Memory for a call: as the last call has left it, or fresh and uninitialised; NULL: none. All calls have one size. */
void *rdl__owner_take_spare(rdl_owner_t *owner, size_t size, bool *ret_fresh);
void rdl__owner_give_spare(rdl_owner_t *owner, void *block, size_t size);

/* Cancel every call of every owner of the client with `code`; returns how many. */
int rdl__owners_cancel(rdl_client_t *client, int code);

/* The client closes: take threads' owners from them. */
void rdl__owners_close(rdl_client_t *client);

#endif
