/* SPDX-License-Identifier: MIT */
/* latch.h - a count-down latch: callers that await it go on when it has been counted down to 0.
 *
 * try_set_count sets the count; each count_down lowers it by one; at 0 the latch is open, and gone from Redis, so that
 * it may be set again. A latch that was never set is open. In Redis it is Java's RCountDownLatch (wire.md).
 *
 * A waiter is woken by a message and then reads the count: when a latch is set again at once, it may read the new
 * count and go on waiting. Use another name for another round.
 *
 * A count_down whose answer did not come in time (RDL_EUNKNOWN), or that found no connection (RDL_ECONN), goes on in
 * the background, exactly once: to call it again would count twice.
 *
 * Errors of all verbs that talk to a server: as in semaphore.h.
 */
#ifndef REDLATCH_LATCH_H
#define REDLATCH_LATCH_H

#include <redlatch/async.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdl_latch_handle rdl_latch_t;

#define RDL_LATCH_OPTIONS_VERSION 1

typedef struct rdl_latch_options {
    uint32_t version; /* RDL_LATCH_OPTIONS_VERSION */
    size_t name_len;  /* the name's bytes when it is not a C string; 0: up to its NUL */
} rdl_latch_options_t;

#define RDL_LATCH_OPTIONS_INIT RDL_INIT_(rdl_latch_options_t, RDL_LATCH_OPTIONS_VERSION)

/* Make a handle, to be freed with rdl_latch_free; nothing is sent. Errors: as the constructors of lock.h. */
RDL_API int rdl_latch(rdl_client_t *client, const char *name, const rdl_latch_options_t *options,
                      rdl_latch_t **ret_latch, rdl_err_t *err);

/* NULL is fine; returns NULL. Not while a call on this handle is under way. */
RDL_API rdl_latch_t *rdl_latch_free(rdl_latch_t *latch);

/* Valid while the handle is. */
RDL_API const char *rdl_latch_name(const rdl_latch_t *latch, size_t *ret_len);

/* Set the count (1 to 2^31-1) of an open latch. Returns 1 done, 0 it was set already. */
RDL_API int rdl_latch_try_set_count(rdl_latch_t *latch, int64_t count, rdl_err_t *err);

/* Count it down by one; the one that makes it 0 opens it. Returns the count left; 0 for an open latch, too. */
RDL_API int64_t rdl_latch_count_down(rdl_latch_t *latch, rdl_err_t *err);

/* The present count; 0: open. */
RDL_API int64_t rdl_latch_count(rdl_latch_t *latch, rdl_err_t *err);

/* Wait until the latch is open, at most wait_ms (as rdl_try_lock: 0 asks once, RDL_WAIT_FOREVER has no limit, the first
 * answer is waited for at least 20 ms or four round trips; without any connection it gives up after outage_timeout_ms).
 * RDL_OK: it is open. Also RDL_ETIMEDOUT, RDL_ECANCELED. */
RDL_API int rdl_latch_await(rdl_latch_t *latch, int64_t wait_ms, rdl_err_t *err);

/* The same without waiting; the rules of async.h hold. An await can be canceled by rdl_op_cancel. */
typedef void (*rdl_latch_fn)(rdl_latch_t *latch, int64_t result, const rdl_err_t *err, void *arg);

RDL_API int rdl_latch_try_set_count_async(rdl_latch_t *latch, rdl_owner_t *owner, int64_t count, rdl_latch_fn fn,
                                          void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_latch_count_down_async(rdl_latch_t *latch, rdl_owner_t *owner, rdl_latch_fn fn, void *arg,
                                       rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_latch_count_async(rdl_latch_t *latch, rdl_owner_t *owner, rdl_latch_fn fn, void *arg, rdl_op_t **ret_op,
                                  rdl_err_t *err);
RDL_API int rdl_latch_await_async(rdl_latch_t *latch, rdl_owner_t *owner, int64_t wait_ms, rdl_latch_fn fn, void *arg,
                                  rdl_op_t **ret_op, rdl_err_t *err);

#ifdef __cplusplus
}
#endif
#endif
