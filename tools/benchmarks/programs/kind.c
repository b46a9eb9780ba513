/* kind.c - see kind.h. */
#include "tools/benchmarks/programs/kind.h"

#include <string.h>

const struct kind *kind_of(const struct run *run)
{
    static const struct kind kinds[] = {
        {.name = "redlatch", .ops = &ours_ops},
        {.name = "redlatch-simple", .plain = "set", .ops = &ours_ops},
        {.name = "reentrant", .ops = &plain_ops},
        {.name = "simple", .plain = "set", .ops = &plain_ops},
        {.name = "redisson", .plain = "del", .ops = &plain_ops},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, run->kind) == 0)
            return &kinds[i];
    fail("no such kind: %s", run->kind);
}
