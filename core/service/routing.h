/* SPDX-License-Identifier: MIT */
/* routing.h - which shard a client's request goes to (routing.c). */
#ifndef REDLATCH_SERVICE_ROUTING_H
#define REDLATCH_SERVICE_ROUTING_H

#include "core/service/client.h"

/* The shard that has a slot now.  @thread any */
static inline struct rdl__shard *rdl__client_shard(rdl_client_t *client, unsigned hash_slot)
{
    return client->map == NULL
               ? &client->home
               : atomic_load_explicit(&client->shards[rdl__map_shard(client->map, hash_slot)], memory_order_acquire);
}

/* Are channels sharded? Decided before any request is answered, and for good.  @thread any */
static inline bool rdl__client_sharded(const rdl_client_t *client)
{
    return client->map != NULL && rdl__cluster_sharded(client->cluster);
}

/* Does the server's error redirect a request? RDL__DETOUR_MOVED: the map was changed. RDL__DETOUR_ASK: to *ret_ask,
 * this once.
 * @thread any  @locks any but the cluster's */
enum rdl__detour rdl__client_detour(rdl_client_t *client, const struct rdl__reply *error, struct rdl__shard **ret_ask);

/* A lock wants replicas' confirmation: make the acks lanes, unless they are there. RDL_OK, RDL_ENOMEM or RDL_ECLOSED.
 */
int rdl__client_wants_acks(rdl_client_t *client, rdl_err_t *err);

/* Make the parts of a shard, with a node for the URI. RDL_OK or RDL_ENOMEM. */
int rdl__routing_equip(rdl_client_t *client, struct rdl__shard *shard, const struct rdl__node_config *config,
                       unsigned lane_count, struct rdl__uri *uri);

/* Make the finder of a cluster's shards, the first of which is there; and free the shards. False: no memory. */
bool rdl__routing_make(rdl_client_t *client, const struct rdl__node_config *config);
void rdl__routing_spread(rdl_client_t *client); /* once the waiters are made, too */
void rdl__routing_free(rdl_client_t *client);

void rdl__routing_listen(void *arg,
                         int64_t now); /* for evictions, where the map says now; arg: the client.  @thread loop */

struct rdl__shard *rdl__routing_shard(rdl_client_t *client, unsigned i); /* shard i; NULL: there are no more */

#endif
