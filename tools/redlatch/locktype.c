/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/locktype.h"

#include "tools/redlatch/nearest.h"

#include <string.h>

/* What a type has that is not the rule, and the registry does not say: WORD_type is a comma and what it is. */
#define SECOND(first, second, ...) second
#define ODD(...) SECOND(__VA_ARGS__, )
#define QUEUES_fair , true

#define TYPE(type, constructor, tokens, ...)                                                                           \
    {.name = #type, .fencing = (tokens), .queues = ODD(QUEUES_##type, false), .make = (constructor)},

/* The first is the default. */
static const struct lock_type types[] = {RDL_LOCK_TYPES(TYPE)};

static const struct lock_type ends[] = {RDL_LOCK_ENDS(TYPE)};

const struct lock_type *lock_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0)
            return &types[i];
    return NULL;
}

const char *lock_type_nearest(const char *name)
{
    struct nearest near = {.word = NULL};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        nearest_try(&near, name, types[i].name);
    return near.word;
}

const struct lock_type *lock_type_default(void)
{
    return &types[0];
}

const struct lock_type *lock_type_shared(void)
{
    return &ends[0];
}

const struct lock_type *lock_type_exclusive(void)
{
    return &ends[1];
}
