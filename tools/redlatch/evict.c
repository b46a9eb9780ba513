/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/evict.h"

#include "tools/redlatch/locktype.h"
#include "tools/redlatch/text.h"

#include <stdio.h>
#include <string.h>

int evict_open(rdl_client_t *client, const rdl_inspection_t *seen, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    const struct lock_type *type = strcmp(seen->type, "lock") == 0         ? lock_type_default()
                                   : strcmp(seen->type, "read-write") == 0 ? lock_type_exclusive()
                                                                           : lock_type_find(seen->type);
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    char shown[TEXT_SAFE_CAP];

    options.name_len = seen->name_len;
    if (type != NULL)
        return type->make(client, seen->name, &options, ret_lock, err);
    err->code = RDL_EINVAL;
    (void)snprintf(err->message, sizeof err->message, "'%s' is a %s: it has no holders to evict",
                   text_safe(seen->name, seen->name_len, shown), seen->type);
    return RDL_EINVAL;
}

/* One end's holders. */
static int evict_end(rdl_lock_t *lock, const rdl_inspection_t *seen, const char *owner, bool writers, evict_told told,
                     void *arg, rdl_err_t *err)
{
    int gone = 0;

    for (size_t i = 0; i < seen->holder_count; i++) {
        const rdl_holder_t *h = &seen->holder[i];
        int rc;

        if ((owner != NULL && strcmp(owner, h->owner) != 0) || (h->end == RDL_END_WRITE) != writers)
            continue;
        if ((rc = rdl_evict(lock, h->owner, err)) < 0)
            return rc;
        gone += rc != 1;
        told(h, rc == 1, arg);
    }
    return gone;
}

/* Readers first: what a writer reads goes with it. */
int evict(rdl_lock_t *lock, const rdl_inspection_t *seen, const char *owner, evict_told told, void *arg, rdl_err_t *err)
{
    int readers = evict_end(lock, seen, owner, false, told, arg, err), writers;

    if (readers < 0)
        return readers;
    writers = evict_end(lock, seen, owner, true, told, arg, err);
    return writers < 0 ? writers : readers + writers;
}
