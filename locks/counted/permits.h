/* SPDX-License-Identifier: MIT */
/* permits.h - code that the two kinds of semaphores share. */
#ifndef REDLATCH_COUNTED_PERMITS_H
#define REDLATCH_COUNTED_PERMITS_H

#include "locks/counted/once.h"

#include <redlatch/semaphore.h>

/* A handle of either kind; ret_name is what the output is called. */
int rdl__semaphore_make(rdl_client_t *client, const struct rdl__lock_ops *ops, const char *name,
                        const rdl_semaphore_options_t *options, rdl_lock_t **ret_handle, rdl_err_t *err);

int rdl__check_permits(int64_t permits, int64_t least, int64_t most, rdl_err_t *err);
int rdl__check_more(int64_t permits, rdl_err_t *err); /* a difference, not 0 */

/* Carry out the order on the handle, which may be NULL. `rc`: the result of the check of the verb's own arguments. */
int64_t rdl__semaphore_do(struct rdl__order *order, rdl_lock_t *handle, int rc, rdl_err_t *err);
int rdl__semaphore_start(struct rdl__order *order, rdl_lock_t *handle, int rc, rdl_op_t **ret_op, rdl_err_t *err);

void rdl__permits_wait_on(struct rdl__buf *to, struct rdl__call *call); /* rdl__lock_ops.waits_on */

/* The next step for an answer of 0 or more: taken, so many are left; or below 0: refused, -1 - free. hint_ms: when to
 * try again, below 0: unknown. `valid`: the permits have not expired yet. */
rdl__step_t rdl__permits_answered(struct rdl__call *call, bool valid, int64_t hint_ms);

extern const struct rdl__verb rdl__verb_add_permits; /* adds order.amount, which may be negative; also the release */
extern const struct rdl__verb rdl__verb_try_set_permits; /* to order.amount */

#endif
