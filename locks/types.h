/* SPDX-License-Identifier: MIT */
/* types.h - the lock types: one const table and a constructor each, in a file of its own, and what their options share.
 *
 * docs/adding-a-lock-type.md adds one.
 */
#ifndef REDLATCH_LOCKS_TYPES_H
#define REDLATCH_LOCKS_TYPES_H

#include "core/call/cached.h"
#include "core/call/handle.h"

/* Each type of the registry (RDL_LOCK_TYPES in <redlatch/lock.h>) has its table, and each end. */
#define RDL__TABLE_(type, ...) extern const struct rdl__lock_ops rdl__##type##_ops;
RDL_LOCK_TYPES(RDL__TABLE_)
RDL_LOCK_ENDS(RDL__TABLE_)
#undef RDL__TABLE_

extern const struct rdl__lock_ops rdl__semaphore_ops;
extern const struct rdl__lock_ops rdl__permit_semaphore_ops;
extern const struct rdl__lock_ops rdl__latch_ops;

/* ---- options.c: a type's constructor ----------------------------------------------------------------------------- */

/* Check what is the type's own among the options of a handle that is made, and fill in its defaults. */
typedef int rdl__options_fn(const struct rdl__lock_ops *ops, rdl_lock_options_t *o, struct rdl__settings *settings,
                            rdl_err_t *err);

int rdl__lock_make(const struct rdl__lock_ops *ops, rdl__options_fn *check, rdl_client_t *client, const char *name,
                   const rdl_lock_options_t *given, rdl_lock_t **ret_lock, rdl_err_t *err);

/* The function `constructor` of the public header, for the type whose table is `ops`. */
#define RDL__CONSTRUCTOR(constructor, ops, check)                                                                      \
    int constructor(rdl_client_t *client, const char *name, const rdl_lock_options_t *given, rdl_lock_t **ret_lock,    \
                    rdl_err_t *err)                                                                                    \
    {                                                                                                                  \
        return rdl__lock_make(&(ops), check, client, name, given, ret_lock, err);                                      \
    }

/* What `check` may be, or parts of it. */

/* All that every lock has, and nothing besides. */
rdl__options_fn rdl__options_plain;

/* Tokens of the server's time, if they are wanted; or from a counter, and then always. */
int rdl__options_fencing(const struct rdl__lock_ops *ops, bool counter, rdl_lock_options_t *o, rdl_err_t *err);

/* How long a waiter is kept in mind at the server after a sign of life. */
int rdl__options_life(rdl_lock_options_t *o, rdl_err_t *err);

/* What only fair locks, and only read-write locks, have. */
int rdl__options_unqueued(const rdl_lock_options_t *o, rdl_err_t *err);
int rdl__options_one_end(const struct rdl__lock_ops *ops, const rdl_lock_options_t *o, rdl_err_t *err);

#endif
