/* SPDX-License-Identifier: MIT */
/* shard.h - one master of a client's, whichever server that is at the moment: a node and the connections to it.
 *
 * A client of one server has one shard, and so has one behind Sentinel. A client of a cluster has one for each master;
 * the cluster's map says which has a name (io/cluster.h). Waiters and the watchdog belong to the client; each shard has
 * a subscriber for the one and a renewer for the other.
 */
#ifndef REDLATCH_SERVICE_SHARD_H
#define REDLATCH_SERVICE_SHARD_H

#include "core/io/lane.h"
#include "core/io/node.h"
#include "core/io/subscriber.h"
#include "core/service/replay.h"
#include "core/service/watchdog.h"

#include <redlatch/client.h>
#include <stdatomic.h>

#define RDL__LANES_MAX 64

struct rdl__shard {
    /* immutable once made */
    rdl_client_t *client;
    struct rdl__node node;
    struct rdl__lane *lanes[RDL__LANES_MAX]; /* for callers that block */
    unsigned lane_count;
    struct rdl__lane *loop_lane; /* for everything else */
    struct rdl__subscriber *sub;
    struct rdl__renewer *renewer; /* the watchdog's */
    struct rdl__replay *replay;   /* NULL: the server is never replaced */

    /* loop thread only */
    int64_t unused_since; /* since when no server is this master; 0: one is */

    /* any thread, written by the loop: since when the loop's lane has not been connected; 0: it is, or the first
     * attempt is under way */
    _Atomic int64_t down_since;

    struct rdl__acks_lane acked; /* opened under the client's names_mu */
};

/* A zeroed shard gets a node, which takes over `uri`, and the lanes and the subscriber; the rest is the client's to
 * add. RDL_OK or RDL_ENOMEM; rdl__shard_done either way.  @thread any */
int rdl__shard_init(struct rdl__shard *shard, const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                    struct rdl__loop *loop, const struct rdl__node_config *config, unsigned lane_count,
                    struct rdl__uri *uri);
void rdl__shard_done(
    struct rdl__shard *shard); /* a zeroed one is fine. The loop has stopped, or has never heard of it */

/* Is a server this master? If none is for a while, its connections are closed. Called with each new map.  @thread loop
 */
void rdl__shard_used(struct rdl__shard *shard, bool used, int64_t now);

/* Slots have moved: so do requests that wait for a connection here.  @thread loop */
void rdl__shard_reroute(struct rdl__shard *shard, int64_t now);

/* Read the answers that nobody waits for.  @thread loop */
void rdl__shard_tend(struct rdl__shard *shard, int64_t now);

/* Close its lanes and its subscriber; once the last caller has left, it is quiet.  @thread loop */
void rdl__shard_close(struct rdl__shard *shard, int64_t now);
bool rdl__shard_quiet(struct rdl__shard *shard); /* @thread any */

static inline struct rdl__lane *rdl__shard_lane(const struct rdl__shard *shard, unsigned index)
{
    return shard->lanes[index];
}

#endif
