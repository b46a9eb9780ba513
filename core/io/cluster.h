/* SPDX-License-Identifier: MIT */
/* cluster.h - a Redis Cluster: finding its masters, and the map of slots.
 *
 * See cluster.c. A master is a shard here: a number, and a node (node.h) whose finder this is.
 */
#ifndef REDLATCH_IO_CLUSTER_H
#define REDLATCH_IO_CLUSTER_H

#include "core/io/node.h"
#include "core/io/topology.h"
#include "core/wire/cluster.h"

#include <stdatomic.h>

struct rdl__cluster;

struct rdl__slot_map {
    _Atomic uint16_t shard[RDL__SLOTS];
};

struct rdl__cluster_ops {
    /* rdl__cluster_sharded is decided; the first masters will be set after this. */
    void (*decided)(void *arg);
    /* A new master was found: make the shard's node. NULL: no memory. */
    struct rdl__node *(*make_shard)(void *arg, unsigned shard, int64_t now);
    /* Some slots have moved to another shard. */
    void (*changed)(void *arg, int64_t now);
    /* A new map was applied, changed or not. */
    void (*confirmed)(void *arg, int64_t now);
};

/* The finder of the masters of a cluster, whose URI, of `first`, names some of the servers. `first` becomes shard 0.
 * NULL: no memory.  @thread any */
struct rdl__cluster *rdl__cluster_new(struct rdl__node *first, const struct rdl__cluster_ops *ops, void *arg);
void rdl__cluster_open(struct rdl__cluster *cluster, int64_t now); /* @thread loop */
void rdl__cluster_close(struct rdl__cluster *cluster);             /* NULL is fine.  @thread loop */
/* NULL is fine; returns NULL. The loop has stopped. */
struct rdl__cluster *rdl__cluster_free(struct rdl__cluster *cluster);

struct rdl__finder *rdl__cluster_finder(struct rdl__cluster *cluster); /* for the nodes of further shards */

/* Was the map ever found?  @thread loop */
bool rdl__cluster_found(const struct rdl__cluster *cluster);

/* Do the servers know sharded channels? Decided when the first masters are found, and for good.  @thread any */
bool rdl__cluster_sharded(const struct rdl__cluster *cluster);

/* Has the shard a master by the last map: a server with slots, or a provisional one?  @thread loop */
bool rdl__cluster_has_master(const struct rdl__cluster *cluster, unsigned shard);

const struct rdl__slot_map *rdl__cluster_map(const struct rdl__cluster *cluster);

/* The shard that has the slot, as far as is known.  @thread any */
static inline unsigned rdl__map_shard(const struct rdl__slot_map *map, unsigned slot)
{
    return atomic_load_explicit(&map->shard[slot], memory_order_acquire);
}

/* The redirection that a server's error means (wire/cluster.h). RDL__DETOUR_MOVED: the map has it from now on.
 * RDL__DETOUR_ASK: to *ret_shard. RDL__DETOUR_LATER also if the server is not known yet; then the map is asked for.
 * @thread any  @locks any but the cluster's */
enum rdl__detour rdl__cluster_detour(struct rdl__cluster *cluster, const struct rdl__reply *error, unsigned *ret_shard);

#endif
