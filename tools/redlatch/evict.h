/* SPDX-License-Identifier: MIT */
/* evict.h - taking a lock from those who were shown to hold it, and from nobody else. */
#ifndef REDLATCH_TOOL_EVICT_H
#define REDLATCH_TOOL_EVICT_H

#include <redlatch/inspect.h>
#include <redlatch/lock.h>
#include <stdbool.h>

/* A handle of the lock that was looked at, whatever its type. RDL_EINVAL: it is none that has holders to evict. */
int evict_open(rdl_client_t *client, const rdl_inspection_t *seen, rdl_lock_t **ret_lock, rdl_err_t *err);

/* Is told of each holder that was meant: it is evicted, or did not hold it any more. */
typedef void (*evict_told)(const rdl_holder_t *holder, bool evicted, void *arg);

/* Evict the holders in `seen`; owner not NULL: that one alone. Returns how many were gone before, or an error, which
 * ends it. */
int evict(rdl_lock_t *lock, const rdl_inspection_t *seen, const char *owner, evict_told told, void *arg,
          rdl_err_t *err);

#endif
