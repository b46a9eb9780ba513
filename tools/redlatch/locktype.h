/* SPDX-License-Identifier: MIT */
/* locktype.h - the lock types that a command line can name. They are those of <redlatch/lock.h>. */
#ifndef REDLATCH_TOOL_LOCKTYPE_H
#define REDLATCH_TOOL_LOCKTYPE_H

#include <redlatch/lock.h>

struct lock_type {
    const char *name;
    rdl_fencing_t fencing; /* what its tokens are made of; RDL_FENCING_NONE: it has none */
    bool queues;           /* who waits has a place in a queue at the server, so a host alone cannot grant it */
    int (*make)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                rdl_err_t *err);
};

/* The type that --type calls `name`, or NULL. */
const struct lock_type *lock_type_find(const char *name);

/* The type that is meant by a misspelt name; NULL: none is near. */
const char *lock_type_nearest(const char *name);

/* The type when none is asked for. */
const struct lock_type *lock_type_default(void);

/* The ends of the read-write lock, for -s and -x. The shared one has no tokens: its holders do not follow each other,
 * so a resource could not tell by a token who is late. */
const struct lock_type *lock_type_shared(void);
const struct lock_type *lock_type_exclusive(void);

#endif
