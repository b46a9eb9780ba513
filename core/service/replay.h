/* SPDX-License-Identifier: MIT */
/* replay.h - a log of requests that a server has confirmed, in case the one that takes over has not seen them.
 *
 * Replication is asynchronous: after a failover right after a release the new master may still have the hold, which
 * nobody would ever release (protocol.md, 8). So a client whose server may be replaced remembers what was confirmed
 * last, and repeats it at the new master: releases, for as long as the hold could last there; of what has no hold, what
 * is safe to repeat there (protocol.md, 8), for outage_timeout_ms. A closing client forgets all of it, while it can
 * still delete the guards of these requests. The log does not know what an entry is: its ops encode it. It must be safe
 * to repeat at any time.
 *
 * At most RDL__REPLAY_MAX are remembered; then the oldest is forgotten, which replicas are likeliest to have.
 */
#ifndef REDLATCH_SERVICE_REPLAY_H
#define REDLATCH_SERVICE_REPLAY_H

#include "core/io/lane.h"

#define RDL__REPLAY_MAX 65536

struct rdl__replay;
struct rdl__replay_entry;

struct rdl__replay_ops {
    void (*encode)(const struct rdl__replay_entry *entry, struct rdl__buf *to, bool eval); /* one command */
    void (*keep)(const struct rdl__replay_entry *entry); /* a copy of the entry is made: count a reference */
    void (*drop)(const struct rdl__replay_entry *entry); /* a copy is dropped.  @thread any  @locks none */
};

struct rdl__replay_entry {
    const struct rdl__replay_ops *ops;
    void *of; /* for ops->encode, like the next three */
    const void *as;
    int64_t n;
    unsigned k;
    int64_t until; /* not repeated after this */
};

/* Repeats are sent on `lane`. NULL: no memory. */
struct rdl__replay *rdl__replay_new(const struct rdl__mem *mem, struct rdl__lane *lane);

/* Remember the entry, unless memory is short.  @thread any  @locks none */
void rdl__replay_note(struct rdl__replay *replay, const struct rdl__replay_entry *entry, int64_t now);

/* Another server has taken over: repeat all entries there, by the lane's loop. */
void rdl__replay_repeat(struct rdl__replay *replay, int64_t now);

/* Forget all: nothing will be repeated any more; by the lane's loop, or when it has stopped.  @locks none */
void rdl__replay_forget(struct rdl__replay *replay);

/* NULL is fine; returns NULL. The loop has stopped, and no entry is noted any more. */
struct rdl__replay *rdl__replay_free(struct rdl__replay *replay);

#endif
