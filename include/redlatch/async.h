/* SPDX-License-Identifier: MIT */
/* async.h - the verbs that talk to a server, without waiting.
 *
 * Each returns at once: RDL_OK, and then `fn` runs exactly once, where the client's callbacks run (client.h), never
 * inside the call; or an error (RDL_EINVAL, RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED), and then `fn` never runs.
 *
 * `owner` is the owner that acts; NULL: the calling thread's own. Acquires, unlocks and extends of one owner on one
 * lock are carried out in the order in which they were called, forced unlocks and questions at once. An acquire's wait
 * counts from the call, the time-out of other verbs from when their turn comes. `fn` may be NULL.
 */
#ifndef REDLATCH_ASYNC_H
#define REDLATCH_ASYNC_H

#include <redlatch/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A call under way. */
typedef struct rdl_op rdl_op_t;

/* `result` is what the blocking function returns; `err` has the details when it is negative and is NULL otherwise,
 * valid during the call. May call any function of the library but rdl_client_close; blocking verbs stall the loop
 * thread with RDL_DISPATCH_LOOP and are refused there (RDL_EDEADLK). */
typedef void (*rdl_done_fn)(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg);

/* The verbs of lock.h, by these names, without waiting. An unlock calls back when it has been answered, whatever the
 * option `release` says. When ret_op is not NULL it gets a reference to the call, to be freed with rdl_op_free at any
 * time: it has it before `fn` can run, so `fn` may free it. */
RDL_API int rdl_try_lock_async(rdl_lock_t *lock, rdl_owner_t *owner, int64_t wait_ms, int64_t lease_ms, rdl_done_fn fn,
                               void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_lock_async(rdl_lock_t *lock, rdl_owner_t *owner, int64_t lease_ms, rdl_done_fn fn, void *arg,
                           rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_unlock_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                             rdl_err_t *err);
RDL_API int rdl_force_unlock_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                                   rdl_err_t *err);
RDL_API int rdl_extend_async(rdl_lock_t *lock, rdl_owner_t *owner, int64_t lease_ms, rdl_done_fn fn, void *arg,
                             rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_is_locked_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                                rdl_err_t *err);
RDL_API int rdl_remaining_ms_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                                   rdl_err_t *err);

/* Ask the call to end. An acquire that is waiting ends with RDL_ECANCELED; what it may have done at the server is
 * undone. Calls whose outcome is decided, and all other verbs, are not affected. The callback runs in any case. */
RDL_API void rdl_op_cancel(rdl_op_t *op);

/* Free the reference; the call goes on. NULL is fine; returns NULL. */
RDL_API rdl_op_t *rdl_op_free(rdl_op_t *op);

/* As rdl_hold_state and rdl_token (lock.h), for an explicit owner that the calling thread is not bound to (owner.h). */
RDL_API int rdl_owner_hold_state(rdl_owner_t *owner, rdl_lock_t *lock, rdl_err_t *err);
RDL_API int64_t rdl_owner_token(rdl_owner_t *owner, rdl_lock_t *lock, rdl_err_t *err);

#ifdef __cplusplus
}
#endif
#endif
