/* replay.h - a log of requests that a server has confirmed, in case the one that takes over has not seen them.
 *
 * Replication is asynchronous: a failover right after a release may revive the hold at the new master, where nobody
 * would ever release it (protocol.md, 8). So a client whose server may be replaced remembers what it has confirmed
 * last, and repeats it at the new master: releases, for as long as the hold could still live there; count-downs and
 * give-backs of permits with ids, for outage_timeout_ms. As it closes it forgets all, while guards that go with them
 * can still be taken away. What an entry is, the log does not know: whoever notes it says how to encode it. It must
 * bear repeating at any time.
 *
 * At most RDL__REPLAY_MAX are remembered; then the oldest is forgotten, which is the one that a replica is likeliest to
 * have seen.
 */
#ifndef REDLATCH_SERVICE_REPLAY_H
#define REDLATCH_SERVICE_REPLAY_H

#include "core/io/lane.h"

#define RDL__REPLAY_MAX 65536

struct rdl__replay;
struct rdl__replay_entry;

struct rdl__replay_ops {
    void (*encode)(const struct rdl__replay_entry *entry, struct rdl__buf *to, bool eval); /* one command */
    void (*keep)(const struct rdl__replay_entry *entry); /* another copy of the entry is made */
    void (*drop)(const struct rdl__replay_entry *entry); /* a copy goes.  @thread any  @locks none */
};

struct rdl__replay_entry {
    const struct rdl__replay_ops *ops;
    void *of; /* whatever the one who notes it wants to find again, like the next three */
    const void *as;
    int64_t n;
    unsigned k;
    int64_t until; /* of no interest afterwards */
};

/* Repeats travel on `lane`. NULL: no memory. */
struct rdl__replay *rdl__replay_new(const struct rdl__mem *mem, struct rdl__lane *lane);

/* Remember the entry; when memory is short it is not.  @thread any  @locks none */
void rdl__replay_note(struct rdl__replay *replay, const struct rdl__replay_entry *entry, int64_t now);

/* Another server has taken over: repeat what is remembered there.  @thread loop */
void rdl__replay_repeat(struct rdl__replay *replay, int64_t now);

/* Nobody will be told of a successor any more: forget all.  @thread loop  @locks none */
void rdl__replay_forget(struct rdl__replay *replay);

/* NULL is fine; returns NULL. The loop has stopped, and nobody notes any more. */
struct rdl__replay *rdl__replay_free(struct rdl__replay *replay);

#endif
