/* SPDX-License-Identifier: MIT */
/* kind.h - who locks: redlatch, or a program of plain hiredis that sends the same scripts.
 *
 * What is measured is written once, against this table. A party is one who locks, by itself: a thread or a process;
 * parties of one process have a common part. Whatever fails is the end of the program.
 *
 *   redlatch, redlatch-TYPE   one client a process, through the public headers; without a type the reentrant lock
 *   redlatch-kept             the reentrant lock, kept by its client (the lock option cache_ms)
 *   redlatch-fenced-kept,     the same of the fenced lock, whose tokens are counted or the server's time (the lock
 *   redlatch-timed-kept       option fencing)
 *   redlatch-metered          the reentrant lock, counted by name (the client option metrics)
 *   redlatch-unconfirmed      the reentrant lock, whose unlock waits for nothing (the lock option release)
 *   redlatch-multi            of three names
 *   redlatch-red, red         one lock on five servers of the program's own (red.c)
 *   redlatch-cluster, cluster the reentrant lock, on a cluster of the program's own (fleet.c)
 *   redlatch-sentinel         the reentrant lock, behind sentinels of the program's own (fleet.c)
 *   three                     three locks by as many scripts in one write (three.c)
 *   three-in-one, three-of-any  by one script
 *   host-flock, host-futex, host-agent  no server: host.c
 *   reentrant and the like    a hiredis connection a party, with that traffic (traffic.h)
 *   reentrant-unwaited        the same, but a release is sent and not waited for: its answer is read with the next one
 */
#ifndef TOOLS_BENCHMARKS_KIND_H
#define TOOLS_BENCHMARKS_KIND_H

#include "tools/benchmarks/programs/measure.h"

struct kind_ops {
    void *(*start)(const struct run *run, const char *server); /* server: where, run->server or a proxy before it */
    void (*stop)(void *common);
    void *(*join)(void *common, const char *lock);
    void (*part)(void *party);
    void (*take)(void *party); /* waits for the lock */
    void (*release)(void *party);
};

struct kind {
    const char *name;
    const char *plain; /* the one command of a pair that is no script, as INFO writes it, or NULL */
    const struct kind_ops *ops;
};

/* That of --kind. */
const struct kind *kind_of(const struct run *run);

extern const struct kind_ops ours_ops;
extern const struct kind_ops plain_ops;
extern const struct kind_ops unwaited_ops;
extern const struct kind_ops semaphore_ops;
extern const struct kind_ops permit_ops;
extern const struct kind_ops our_red_ops;
extern const struct kind_ops our_cluster_ops;
extern const struct kind_ops our_sentinel_ops;
extern const struct kind_ops plain_red_ops;
extern const struct kind_ops plain_cluster_ops;
extern const struct kind_ops three_ops;
extern const struct kind_ops flock_ops;
extern const struct kind_ops futex_ops;
extern const struct kind_ops agent_ops;

#endif
