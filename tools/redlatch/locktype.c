#include "tools/redlatch/locktype.h"

#include <string.h>

static const struct lock_type types[] = {
    {.name = "reentrant", .make = rdl_reentrant_lock},
    {.name = "simple", .make = rdl_simple_lock},
};

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
