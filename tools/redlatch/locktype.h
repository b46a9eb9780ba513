/* locktype.h - the lock types that --type names. A new type is a row in locktype.c. */
#ifndef REDLATCH_TOOL_LOCKTYPE_H
#define REDLATCH_TOOL_LOCKTYPE_H

#include <redlatch/lock.h>

struct lock_type {
    const char *name;
    int (*make)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                rdl_err_t *err);
};

/* The type called `name`, or NULL. */
const struct lock_type *lock_type_find(const char *name);

/* The type when --type is not given. */
const struct lock_type *lock_type_default(void);

#endif
