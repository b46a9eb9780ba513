/* SPDX-License-Identifier: MIT */
/* semaphore.h - semaphores: permits, shared by all clients that use the same name.
 *
 * Two kinds. The permits of rdl_semaphore_t are a number: any client may release them, and those of a process that died
 * are gone until others are added. A permit of rdl_permit_semaphore_t has an id and a lease, after which it returns by
 * itself. In Redis they are Java's RSemaphore and RPermitExpirableSemaphore (wire.md). The two share names: a client
 * can use a name for one of them only, as with locks.
 *
 * The number of permits is set once, by the first caller of try_set_permits; until then there are none. A
 * semaphore has no owner: permits may be acquired here and released there. The owner of a call (owner.h) only tells
 * whose calls rdl_owner_cancel ends.
 *
 * Waiters are woken by messages. Without the option `fair` any waiter whose permits are free is served: many that want
 * 1 can keep one that wants 10 waiting for ever. With it no waiter of this process overtakes another, and processes
 * take turns: the first waiter of each process keeps a place in a queue beside the semaphore. A process that dies in
 * the queue, or closes its client there, holds it up for at most a third more than its waiter_life_ms (20 s). Java
 * ignores this queue, and overtakes.
 *
 * After a call without an answer (RDL_EUNKNOWN) the library goes on in the background: it undoes an acquire or drain,
 * and repeats a release, or adding permits, until it is done exactly once. These two go on after RDL_ECONN as well:
 * calling them again would count twice. Whether permits were set must be queried. After RDL_ESERVER nothing was done;
 * what an acquire may have done is undone in the background.
 *
 * Errors of all verbs that talk to a server: RDL_ECONN, RDL_EUNKNOWN, RDL_ESERVER, RDL_EINVAL (NULL, a number out of
 * range), RDL_ENOMEM, RDL_EFORK, RDL_ECLOSED; RDL_EDEADLK of a blocking one on the client's loop thread. Others are
 * said with the verb. Blocking verbs without a wait take at most command_timeout_ms.
 */
#ifndef REDLATCH_SEMAPHORE_H
#define REDLATCH_SEMAPHORE_H

#include <redlatch/async.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdl_semaphore_handle rdl_semaphore_t;
typedef struct rdl_permit_semaphore_handle rdl_permit_semaphore_t;

/* Most permits in one call, and of one semaphore. */
#define RDL_PERMITS_MAX INT32_MAX
/* Most permits with ids in one call. */
#define RDL_PERMIT_IDS_MAX 1000
/* Lease of a permit that does not return by itself. */
#define RDL_LEASE_NEVER INT64_MAX

#define RDL_SEMAPHORE_OPTIONS_VERSION 1

typedef struct rdl_semaphore_options {
    uint32_t version; /* RDL_SEMAPHORE_OPTIONS_VERSION */
    bool fair;        /* see above; every process that takes turns must set it */
    size_t name_len;  /* the name's bytes when it is not a C string; 0: up to its NUL */
    /* Fair: how long a process keeps its place in the queue after its first waiter's last sign of life, which is a try
     * every third of that. 100 to 3600000; 0: 15000. */
    int64_t waiter_life_ms;
} rdl_semaphore_options_t;

#define RDL_SEMAPHORE_OPTIONS_INIT RDL_INIT_(rdl_semaphore_options_t, RDL_SEMAPHORE_OPTIONS_VERSION)

/* ---- semaphore -------------------------------------------------------------------------------------------------- */

/* Make a handle, to be freed with rdl_semaphore_free; nothing is sent. Two handles of a name are the same semaphore and
 * must have the same options. Errors: as the constructors of lock.h. */
RDL_API int rdl_semaphore(rdl_client_t *client, const char *name, const rdl_semaphore_options_t *options,
                          rdl_semaphore_t **ret_semaphore, rdl_err_t *err);

/* NULL is fine; returns NULL. Not while a call on this handle is under way. Permits stay taken. */
RDL_API rdl_semaphore_t *rdl_semaphore_free(rdl_semaphore_t *semaphore);

/* Valid while the handle is. */
RDL_API const char *rdl_semaphore_name(const rdl_semaphore_t *semaphore, size_t *ret_len);

/* Take `permits` (1 to RDL_PERMITS_MAX) at once, waiting for them at most wait_ms (as rdl_try_lock: 0 asks once,
 * RDL_WAIT_FOREVER has no limit, the first answer is waited for at least 20 ms or four round trips). Also
 * RDL_ETIMEDOUT, RDL_ECANCELED. Of a fair one, 0 is RDL_ETIMEDOUT without asking while others of this process wait. */
RDL_API int rdl_semaphore_try_acquire(rdl_semaphore_t *semaphore, int64_t permits, int64_t wait_ms, rdl_err_t *err);

/* The same with RDL_WAIT_FOREVER. Without any connection it gives up after outage_timeout_ms (RDL_ECONN). */
RDL_API int rdl_semaphore_acquire(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err);

/* Give `permits` (1 to RDL_PERMITS_MAX) back, and wake waiters. Whether they were taken is not checked, but more than
 * RDL_PERMITS_MAX cannot be free: RDL_ESERVER, and nothing was done. */
RDL_API int rdl_semaphore_release(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err);

/* How many are free, 0 or more. */
RDL_API int64_t rdl_semaphore_available(rdl_semaphore_t *semaphore, rdl_err_t *err);

/* Take all that are free, without waiting (at most RDL_PERMITS_MAX, should another program have stored more). Returns
 * how many, 0 or more. */
RDL_API int64_t rdl_semaphore_drain(rdl_semaphore_t *semaphore, rdl_err_t *err);

/* Set the number of permits (0 to RDL_PERMITS_MAX), unless it is set. Returns 1 done, 0 it was set before. */
RDL_API int rdl_semaphore_try_set_permits(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err);

/* Add permits, or remove some (-RDL_PERMITS_MAX to RDL_PERMITS_MAX, not 0). RDL_ESERVER, and nothing was done, where
 * the number of free permits would leave these bounds. */
RDL_API int rdl_semaphore_add_permits(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err);

/* The same without waiting; the rules of async.h hold. `result` is what the blocking function returns. An acquire can
 * be canceled by rdl_op_cancel. */
typedef void (*rdl_semaphore_fn)(rdl_semaphore_t *semaphore, int64_t result, const rdl_err_t *err, void *arg);

RDL_API int rdl_semaphore_try_acquire_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                            int64_t wait_ms, rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op,
                                            rdl_err_t *err);
RDL_API int rdl_semaphore_acquire_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                        rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_semaphore_release_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                        rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_semaphore_available_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, rdl_semaphore_fn fn,
                                          void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_semaphore_drain_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, rdl_semaphore_fn fn, void *arg,
                                      rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_semaphore_try_set_permits_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                                rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_semaphore_add_permits_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                            rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err);

/* ---- permits with ids and leases -------------------------------------------------------------------------------- */

/* A permit's id, as Java shows it: 32 lower-case hex digits and a NUL. Plain data: it may be copied and handed on. */
typedef struct rdl_permit {
    char id[33];
} rdl_permit_t;

/* As rdl_semaphore, rdl_semaphore_free and rdl_semaphore_name. */
RDL_API int rdl_permit_semaphore(rdl_client_t *client, const char *name, const rdl_semaphore_options_t *options,
                                 rdl_permit_semaphore_t **ret_semaphore, rdl_err_t *err);
RDL_API rdl_permit_semaphore_t *rdl_permit_semaphore_free(rdl_permit_semaphore_t *semaphore);
RDL_API const char *rdl_permit_semaphore_name(const rdl_permit_semaphore_t *semaphore, size_t *ret_len);

/* Take `count` permits (1 to RDL_PERMIT_IDS_MAX) at once, waiting at most wait_ms, each for lease_ms (1 to
 * RDL_LEASE_MAX_MS, or RDL_LEASE_NEVER); their ids go to ret_permits, which has room for as many. A lease is not
 * renewed: it is the server's clock that ends it. Also RDL_ETIMEDOUT, RDL_ECANCELED, RDL_ELOST (the answer came when
 * the lease was over).
 *
 * With RDL_LEASE_NEVER the permits of a program that ends without releasing them stay taken. So do, where the server
 * refuses CLIENT KILL, those that a take on a broken connection takes after its client is closed. */
RDL_API int rdl_permit_semaphore_try_acquire(rdl_permit_semaphore_t *semaphore, int64_t count, int64_t wait_ms,
                                             int64_t lease_ms, rdl_permit_t *ret_permits, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_acquire(rdl_permit_semaphore_t *semaphore, int64_t count, int64_t lease_ms,
                                         rdl_permit_t *ret_permits, rdl_err_t *err);

/* Give back those `count` permits (1 to RDL_PERMIT_IDS_MAX, no id twice), wherever they were acquired. Also RDL_ELOST:
 * one of them has expired or was released already; then none is released. A call that goes on in the background, where
 * nobody is told, gives back those that are still taken. */
RDL_API int rdl_permit_semaphore_release(rdl_permit_semaphore_t *semaphore, int64_t count, const rdl_permit_t *permits,
                                         rdl_err_t *err);

/* Make the permit last at least lease_ms from now; never shortens it. Also RDL_ELOST. */
RDL_API int rdl_permit_semaphore_extend(rdl_permit_semaphore_t *semaphore, const rdl_permit_t *permit, int64_t lease_ms,
                                        rdl_err_t *err);

/* How long the permit still lasts, by the server's clock; RDL_LEASE_NEVER. Also RDL_ELOST. */
RDL_API int64_t rdl_permit_semaphore_remaining_ms(rdl_permit_semaphore_t *semaphore, const rdl_permit_t *permit,
                                                  rdl_err_t *err);

/* How many permits are free, and how many are taken; expired ones count as free. */
RDL_API int64_t rdl_permit_semaphore_available(rdl_permit_semaphore_t *semaphore, rdl_err_t *err);
RDL_API int64_t rdl_permit_semaphore_acquired(rdl_permit_semaphore_t *semaphore, rdl_err_t *err);

/* As those of rdl_semaphore_t; set_permits sets the number of all, free and taken, whatever it was before. */
RDL_API int rdl_permit_semaphore_try_set_permits(rdl_permit_semaphore_t *semaphore, int64_t permits, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_set_permits(rdl_permit_semaphore_t *semaphore, int64_t permits, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_add_permits(rdl_permit_semaphore_t *semaphore, int64_t permits, rdl_err_t *err);

/* The same without waiting. ret_permits must stay until the callback; lists of permits are copied. */
typedef void (*rdl_permit_semaphore_fn)(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *err,
                                        void *arg);

RDL_API int rdl_permit_semaphore_try_acquire_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t count,
                                                   int64_t wait_ms, int64_t lease_ms, rdl_permit_t *ret_permits,
                                                   rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op,
                                                   rdl_err_t *err);
RDL_API int rdl_permit_semaphore_acquire_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t count,
                                               int64_t lease_ms, rdl_permit_t *ret_permits, rdl_permit_semaphore_fn fn,
                                               void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_release_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t count,
                                               const rdl_permit_t *permits, rdl_permit_semaphore_fn fn, void *arg,
                                               rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_extend_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                              const rdl_permit_t *permit, int64_t lease_ms, rdl_permit_semaphore_fn fn,
                                              void *arg, rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_remaining_ms_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                                    const rdl_permit_t *permit, rdl_permit_semaphore_fn fn, void *arg,
                                                    rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_available_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                                 rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op,
                                                 rdl_err_t *err);
RDL_API int rdl_permit_semaphore_acquired_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                                rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op,
                                                rdl_err_t *err);
RDL_API int rdl_permit_semaphore_try_set_permits_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                                       int64_t permits, rdl_permit_semaphore_fn fn, void *arg,
                                                       rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_set_permits_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                                   int64_t permits, rdl_permit_semaphore_fn fn, void *arg,
                                                   rdl_op_t **ret_op, rdl_err_t *err);
RDL_API int rdl_permit_semaphore_add_permits_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                                   int64_t permits, rdl_permit_semaphore_fn fn, void *arg,
                                                   rdl_op_t **ret_op, rdl_err_t *err);

#ifdef __cplusplus
}
#endif
#endif
