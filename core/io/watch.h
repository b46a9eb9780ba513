/* SPDX-License-Identifier: MIT */
/* watch.h - watching a descriptor from the loop.
 * @thread loop, all of it, unless it says otherwise
 */
#ifndef REDLATCH_IO_WATCH_H
#define REDLATCH_IO_WATCH_H

#include "core/io/loop.h"

#define RDL__READABLE 1
#define RDL__WRITABLE 2

struct rdl__watch {
    int fd;
    int events; /* what is watched for now */
    void (*ready)(struct rdl__watch *watch, int events, int64_t now);
};

/* @thread any */
void rdl__watch_init(struct rdl__watch *watch, void (*ready)(struct rdl__watch *, int, int64_t));

/* Watch `fd` for `events` from now on, in place of what was watched for; 0: no more. Must be 0 before fd is closed.
 * Where the kernel has no memory for it nothing comes: what is waited for has a bound of its own. */
void rdl__watch_set(struct rdl__loop *loop, struct rdl__watch *watch, int fd, int events);

#endif
