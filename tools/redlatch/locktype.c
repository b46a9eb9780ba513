#include "tools/redlatch/locktype.h"

#include <string.h>

/* The first is the default. */
static const struct lock_type types[] = {
    {.name = "reentrant", .fencing = RDL_FENCING_TIME, .make = rdl_reentrant_lock},
    {.name = "nonreentrant", .fencing = RDL_FENCING_TIME, .make = rdl_nonreentrant_lock},
    {.name = "fair", .fencing = RDL_FENCING_TIME, .make = rdl_fair_lock},
    {.name = "fenced", .fencing = RDL_FENCING_COUNTER, .make = rdl_fenced_lock},
    {.name = "spin", .fencing = RDL_FENCING_TIME, .make = rdl_spin_lock},
    {.name = "simple", .fencing = RDL_FENCING_TIME, .make = rdl_simple_lock},
};

static const struct lock_type shared = {.name = "read", .fencing = RDL_FENCING_NONE, .make = rdl_read_lock};
static const struct lock_type exclusive = {.name = "write", .fencing = RDL_FENCING_TIME, .make = rdl_write_lock};

const struct lock_type *lock_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0)
            return &types[i];
    return NULL;
}

const struct lock_type *lock_type_default(void)
{
    return &types[0];
}

const struct lock_type *lock_type_shared(void)
{
    return &shared;
}

const struct lock_type *lock_type_exclusive(void)
{
    return &exclusive;
}
