/* SPDX-License-Identifier: MIT */
/* owner.h - who holds a lock.
 *
 * The owner of a lock may re-enter it and must unlock it. By default the owner is the calling thread: each thread has
 * an owner of its own in each client, never used again after the thread has ended. An explicit owner serves code that
 * is not one thread: asynchronous work, coroutines, thread pools, a hold handed from one thread to another.
 *
 * A thread that ends while its owner still holds locks is reported (a log line, and the lock's on_lost callback with
 * reason RDL_LOSS_THREAD_EXIT); those holds are no longer renewed and end with their lease. What it left waiting
 * (async.h) ends with RDL_ELOST when its turn comes.
 */
#ifndef REDLATCH_OWNER_H
#define REDLATCH_OWNER_H

#include <redlatch/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdl_owner rdl_owner_t;

/* Make an owner. Free it with rdl_owner_free. Errors: RDL_EINVAL, RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED. */
RDL_API int rdl_owner_new(rdl_client_t *client, rdl_owner_t **ret_owner, rdl_err_t *err);

/* Free an owner; NULL is fine; returns NULL. Not while a thread is bound to it or a call of its is under way. Holds
 * that it still has are treated like those of a thread that ended. */
RDL_API rdl_owner_t *rdl_owner_free(rdl_owner_t *owner);

/* From now on the calling thread acts as `owner` in that owner's client: blocking verbs, queries, everything. A later
 * bind replaces it. One owner may be bound to several threads; their verbs on one lock are carried out one after
 * another. Errors: RDL_EINVAL, RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED. */
RDL_API int rdl_owner_bind(rdl_owner_t *owner, rdl_err_t *err);

/* The calling thread acts as itself again in `client`. */
RDL_API void rdl_owner_unbind(rdl_client_t *client);

/* End the acquire calls that `owner` has under way, blocking or asynchronous: each returns RDL_ECANCELED unless its
 * outcome was already decided. A blocked call that is waiting for the server's answer notices within 250 ms. Later
 * calls are not affected. Returns how many were asked to end, or RDL_EINVAL, RDL_EFORK. */
RDL_API int rdl_owner_cancel(rdl_owner_t *owner);

#ifdef __cplusplus
}
#endif
#endif
