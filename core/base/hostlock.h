/* SPDX-License-Identifier: MIT */
/* hostlock.h - locks among the processes of one host: flock(2) on a file for each name, in a directory that they share.
 *
 * The kernel frees such a lock when its descriptor is closed, however the process ends; so a file left over means
 * nothing, and none is ever removed. A lock belongs to the open file, not to the thread or the process: two descriptors
 * exclude each other wherever they are, and a child that is forked and does not exec keeps its parent's.  @thread any
 */
#ifndef REDLATCH_BASE_HOSTLOCK_H
#define REDLATCH_BASE_HOSTLOCK_H

#include <redlatch/error.h>
#include <stddef.h>

#define RDL__HOSTLOCK_NONE (-1)

/* Open the directory, or make it, for this user alone. It must be on a file system of this host, and be the user's own
 * or root's, and nobody but the owner and its group may write to it: who can make and remove files there can make two
 * locks of one. *ret_dir is to be closed. RDL_OK or RDL_EINVAL. */
int rdl__hostlock_dir(const char *path, int *ret_dir, rdl_err_t *err);

/* Take the lock of that name, without waiting, to be given back by rdl__hostlock_leave. RDL_OK; RDL_ETIMEDOUT: somebody
 * has it; RDL_EHOST: the file cannot be used, errno says why. */
int rdl__hostlock_try(int dir, const char *name, size_t len, int *ret_lock);
void rdl__hostlock_leave(int lock); /* RDL__HOSTLOCK_NONE is fine */

#endif
