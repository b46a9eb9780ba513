/* cluster.h - a deployment of several masters, each with a share of the slots: finding them, and the map of slots.
 *
 * See cluster.c. What this knows of a master is a shard: a number, and a node whose finder this is (node.h).
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
    /* The first masters are about to be found: rdl__cluster_sharded is decided. */
    void (*decided)(void *arg);
    /* There is a further master: make the shard's node. NULL: no memory. */
    struct rdl__node *(*make_shard)(void *arg, unsigned shard, int64_t now);
    /* Some slots are another shard's now. */
    void (*changed)(void *arg, int64_t now);
    /* A new answer confirms where everything is. */
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

/* Was any master found, ever?  @thread loop */
bool rdl__cluster_found(const struct rdl__cluster *cluster);

/* Do the servers know sharded channels? Decided when the first masters are found, and for good.  @thread any */
bool rdl__cluster_sharded(const struct rdl__cluster *cluster);

/* Has the shard a master, by the last answer: a server with slots, or a provisional one, which may get some?  @thread
 * loop
 */
bool rdl__cluster_has_master(const struct rdl__cluster *cluster, unsigned shard);

const struct rdl__slot_map *rdl__cluster_map(const struct rdl__cluster *cluster);

/* The shard that has the slot, as far as is known.  @thread any */
static inline unsigned rdl__map_shard(const struct rdl__slot_map *map, unsigned slot)
{
    return atomic_load_explicit(&map->shard[slot], memory_order_acquire);
}

/* What a server's error says of slots (wire/cluster.h). Where it says RDL__DETOUR_MOVED, the map knows it from now on;
 * RDL__DETOUR_ASK: *ret_shard is to be asked. Either of them about a server that is not known yet is RDL__DETOUR_LATER,
 * and somebody will be asked.  @thread any  @locks any but ours */
enum rdl__detour rdl__cluster_detour(struct rdl__cluster *cluster, const struct rdl__reply *error, unsigned *ret_shard);

/* The map may be old: look again.  @thread loop */
void rdl__cluster_doubt(struct rdl__cluster *cluster);

#endif
