/* SPDX-License-Identifier: MIT */
/* args.h - argument checks that locks, semaphores and latches share. */
#ifndef REDLATCH_LOCKS_ARGS_H
#define REDLATCH_LOCKS_ARGS_H

#include "core/call/handle.h"

/* The caller's options, or the defaults if there are none. */
int rdl__check_options(const rdl_lock_options_t *given, rdl_lock_options_t *o, rdl_err_t *err);
/* The policy with its defaults filled in, or what is wrong with it. `usual` is the type's. */
int rdl__resolve_retry(const rdl_retry_t *usual, rdl_retry_t *retry, rdl_err_t *err);

/* *len: the name's, 0: up to its NUL. `thing` is what the name is of, for the error text. */
int rdl__check_name(const char *thing, const char *name, size_t *len, rdl_err_t *err);
int rdl__check_wait(int64_t wait_ms, rdl_err_t *err);
int rdl__check_lease(int64_t lease_ms, rdl_err_t *err);

/* The handle, which may be NULL, and its client. */
int rdl__check_handle(const char *thing, const rdl_lock_t *lock, rdl_err_t *err);
int rdl__check_owner(const rdl_owner_t *owner, const rdl_lock_t *lock, rdl_err_t *err);

/* Check the order's owner, then do it on the loop. The handle is checked already. */
int rdl__start(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err);

#endif
