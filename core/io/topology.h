/* SPDX-License-Identifier: MIT */
/* topology.h - the servers of a cluster and the shard of each: what an answer to CLUSTER SLOTS makes of what was known
 * before.
 *
 * A shard is a number that outlives its servers (cluster.c). Pure: no socket, no thread, no clock.
 */
#ifndef REDLATCH_IO_TOPOLOGY_H
#define REDLATCH_IO_TOPOLOGY_H

#include "core/base/mem.h"
#include "core/wire/cluster.h"

#include <stdbool.h>

#define RDL__SHARDS_MAX 1024
#define RDL__NO_SHARD RDL__SHARDS_MAX

struct rdl__place {
    char host[256];
    int port;
};

/* A provisional server is one that a redirection alone has named; it has no slots yet. */
struct rdl__server {
    char id[RDL__NODE_ID_MAX]; /* empty: it is provisional */
    struct rdl__place at;      /* port 0: unknown */
    unsigned shard;
    unsigned unnamed; /* provisional: maps since a redirection has named it */
    bool master;
    bool unsaid; /* the answer did not say its host: it is that of the server that was asked */
};

#define RDL__PROVISIONAL_MAPS 60 /* a provisional server that no redirection names for so many maps is forgotten */

struct rdl__topology {
    const struct rdl__mem *mem;
    struct rdl__server *servers;
    size_t count, room;
};

void rdl__topology_init(struct rdl__topology *topology, const struct rdl__mem *mem);
void rdl__topology_done(struct rdl__topology *topology);

/* The server with that id; NULL: there is none. */
const struct rdl__server *rdl__topology_by_id(const struct rdl__topology *topology, const char *id);

/* The server at that place; NULL: there is none. host empty: the only one with that port, for servers that do not say
 * where they are (cluster-preferred-endpoint-type). */
const struct rdl__server *rdl__topology_at(const struct rdl__topology *topology, const char *host, int port);

/* The shards that there are. */
struct rdl__shard_numbers {
    unsigned count;                                  /* 0 to count - 1 are there */
    bool (*more)(struct rdl__shard_numbers *shards); /* make shard `count`, and count it. False: there cannot be more */
};

/* Read an answer into a fresh topology. `before` has the servers that were known until now; `host` is where the answer
 * comes from, which an empty host in it means. A master gets the shard of which its id was the master, or else a
 * replica, or that of the provisional server at its place; or else one that has no master any more, or a new one.
 * Provisional servers of `before` stay unless their shards are taken, the answer names them, or no redirection has
 * named them for long. False: the answer is no map, or there is no memory or no shard. */
bool rdl__topology_read(struct rdl__topology *topology, const struct rdl__topology *before,
                        const struct rdl__reply *slots, const char *host, struct rdl__shard_numbers *shards);

/* A copy of `before` with one provisional server more, whose shard is *ret_shard. False: no memory, or no shard. */
bool rdl__topology_invite(struct rdl__topology *topology, const struct rdl__topology *before,
                          const struct rdl__place *at, struct rdl__shard_numbers *shards, unsigned *ret_shard);

#endif
