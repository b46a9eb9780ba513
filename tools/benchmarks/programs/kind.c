/* SPDX-License-Identifier: MIT */
/* kind.c - see kind.h. */
#include "tools/benchmarks/programs/kind.h"

#include <string.h>

const struct kind *kind_of(const struct run *run)
{
    static const struct kind kinds[] = {
        {.name = "redlatch", .ops = &ours_ops},
        {.name = "redlatch-kept", .ops = &ours_ops},
        {.name = "redlatch-fenced-kept", .ops = &ours_ops},
        {.name = "redlatch-timed-kept", .ops = &ours_ops},
        {.name = "redlatch-metered", .ops = &ours_ops},
        {.name = "redlatch-unconfirmed", .ops = &ours_ops},
        {.name = "redlatch-simple", .plain = "set", .ops = &ours_ops},
        {.name = "redlatch-fair", .ops = &ours_ops},
        {.name = "redlatch-nonreentrant", .ops = &ours_ops},
        {.name = "redlatch-spin", .ops = &ours_ops},
        {.name = "redlatch-fenced", .ops = &ours_ops},
        {.name = "redlatch-read", .ops = &ours_ops},
        {.name = "redlatch-read-kept", .ops = &ours_ops},
        {.name = "redlatch-write", .ops = &ours_ops},
        {.name = "redlatch-multi", .ops = &ours_ops},
        {.name = "redlatch-semaphore", .ops = &semaphore_ops},
        {.name = "redlatch-permit", .ops = &permit_ops},
        {.name = "redlatch-red", .ops = &our_red_ops},
        {.name = "redlatch-cluster", .ops = &our_cluster_ops},
        {.name = "redlatch-sentinel", .ops = &our_sentinel_ops},
        {.name = "reentrant", .ops = &plain_ops},
        {.name = "reentrant-unwaited", .ops = &unwaited_ops},
        {.name = "sharded", .ops = &plain_ops},
        {.name = "restored", .plain = "restore", .ops = &plain_ops},
        {.name = "restored-sharded", .plain = "restore", .ops = &plain_ops},
        {.name = "fenced", .ops = &plain_ops},
        {.name = "read", .ops = &plain_ops},
        {.name = "write", .ops = &plain_ops},
        {.name = "simple", .plain = "set", .ops = &plain_ops},
        {.name = "fair", .ops = &plain_ops},
        {.name = "semaphore", .ops = &plain_ops},
        {.name = "permit", .ops = &plain_ops},
        {.name = "red", .ops = &plain_red_ops},
        {.name = "cluster", .ops = &plain_cluster_ops},
        {.name = "three", .ops = &three_ops},
        {.name = "three-in-one", .ops = &three_ops},
        {.name = "three-of-any", .ops = &three_ops},
        {.name = "host-flock", .ops = &flock_ops},
        {.name = "host-futex", .ops = &futex_ops},
        {.name = "host-agent", .ops = &agent_ops},
        {.name = "redisson", .plain = "del", .ops = &plain_ops},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, run->kind) == 0)
            return &kinds[i];
    fail("no such kind: %s", run->kind);
}
