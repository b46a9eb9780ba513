/* SPDX-License-Identifier: MIT */
/* routing.c - which shard a client's request goes to: the only one, or in a cluster the slot's.
 *
 * The cluster (io/cluster.h) finds masters and keeps the map from slot to shard. Here shards are made as masters are
 * found, on the loop, and stay until the client is freed; a shard is published by an atomic pointer, so callers need no
 * lock. When the map changes, renewals, waiters' channels and requests that wait for a connection are moved. MOVED or
 * ASK is a detour: it changes the map, or sends the request to another shard this once.
 *
 * The events of a shard's loop lane are handled here as well (on_lane_event): down, up, up at another server.
 */
#include "core/service/routing.h"

#include "core/base/err.h"
#include "core/wire/names.h"

#include <string.h>

/* ---- shards ----------------------------------------------------------------------------------------------------- */

/* Is there no use in waiting longer for the first connection? A master that was found, and that cannot be reached, may
 * be about to be replaced. */
static bool is_final(rdl_client_t *client)
{
    bool found = (client->sentinels != NULL && rdl__sentinels_found(client->sentinels)) ||
                 (client->cluster != NULL && rdl__cluster_found(client->cluster));

    return !found || rdl__node_error(&client->home.node, RDL_ECONN, NULL) != RDL_ECONN;
}

static void on_lane_event(void *arg, enum rdl__lane_event event, int64_t now)
{
    struct rdl__shard *shard = arg;
    rdl_client_t *client = shard->client;

    if ((event == RDL__LANE_DOWN || event == RDL__LANE_FAILED) && shard->down_since == 0) {
        shard->down_since = now;
        rdl__waiters_missed(&client->waiters);
    }
    if (event == RDL__LANE_UP_ANEW) {
        rdl__watchdog_examine(client->watchdog, shard->renewer);
        if (shard->replay != NULL)
            rdl__replay_repeat(shard->replay, now);
    }
    if (event == RDL__LANE_UP || event == RDL__LANE_UP_ANEW) {
        shard->down_since = 0;
        rdl__describer_up(&client->describer, shard->loop_lane, event == RDL__LANE_UP_ANEW, now);
        rdl__acks_may(&shard->acked); /* the acks lane may not be connected, and so have no event of its own */
        rdl__parker_post(&client->parker, RDL__POST_CONNECTED);
    } else if (event == RDL__LANE_FAILED && is_final(client)) {
        rdl__parker_post(&client->parker, RDL__POST_FAILED);
    }
}

int rdl__routing_equip(rdl_client_t *client, struct rdl__shard *shard, const struct rdl__node_config *config,
                       unsigned lane_count, struct rdl__uri *uri)
{
    int rc;

    shard->client = client;
    rc = rdl__shard_init(shard, &client->mem, &client->sinks, client->loop, config, lane_count, uri);
    if (rc < 0)
        return rc;
    rdl__lane_on_event(shard->loop_lane, on_lane_event, shard);
    return RDL_OK;
}

struct rdl__shard *rdl__routing_shard(rdl_client_t *client, unsigned i)
{
    if (i == 0)
        return &client->home;
    return client->shards == NULL || i == RDL__SHARDS_MAX
               ? NULL
               : atomic_load_explicit(&client->shards[i], memory_order_acquire);
}

int rdl__client_wants_acks(rdl_client_t *client, rdl_err_t *err)
{
    int rc = RDL_OK;

    rdl__mutex_lock(&client->names_mu);
    if (client->acks_closed)
        rc = RDL_ECLOSED;
    else if (!rdl__acks_lane_open(&client->home.acked, &client->home.node))
        rc = RDL_ENOMEM;
    rdl__mutex_unlock(&client->names_mu);
    return rc < 0 ? rdl__err_set(err, rc, NULL) : RDL_OK;
}

/* ---- a cluster's ------------------------------------------------------------------------------------------------ */

/* Make the parts of a further shard. */
static bool equip_shard(rdl_client_t *client, struct rdl__shard *shard)
{
    const struct rdl__uri *first = &client->home.node.uri;
    struct rdl__uri uri = {.mem = &client->mem, .scheme = RDL__SCHEME_CLUSTER, .tls = first->tls};
    bool made = rdl__uri_credentials(&uri, first->username, first->password) &&
                rdl__routing_equip(client, shard, &client->shard_config, client->home.lane_count, &uri) == RDL_OK;

    rdl__uri_done(&uri);
    if (!made || (shard->replay = rdl__replay_new(&client->mem, shard->loop_lane)) == NULL ||
        !rdl__acks_lane_open(&shard->acked, &shard->node))
        return false;
    if (rdl__client_sharded(client))
        rdl__subscriber_shard(shard->sub);
    memcpy(shard->node.label, client->home.node.label, sizeof shard->node.label);
    shard->node.finder = rdl__cluster_finder(client->cluster);
    return (shard->renewer = rdl__renewer_new(client->watchdog, shard->loop_lane, &shard->acked)) != NULL;
}

static struct rdl__node *on_shard(void *arg, unsigned number, int64_t now)
{
    rdl_client_t *client = arg;
    struct rdl__shard *shard = rdl__zalloc(&client->mem, sizeof *shard);

    if (shard == NULL)
        return NULL;
    if (!equip_shard(client, shard)) {
        rdl__shard_done(shard);
        rdl__free(&client->mem, shard, sizeof *shard);
        return NULL;
    }
    atomic_store_explicit(&client->shards[number], shard, memory_order_release);
    rdl__lane_open(shard->loop_lane, now);
    return &shard->node;
}

static struct rdl__shard *shard_of_slot(rdl_client_t *client, unsigned slot)
{
    return rdl__routing_shard(client, rdl__map_shard(client->map, slot));
}

static struct rdl__subscriber *subscriber_of(void *arg, const char *channel, size_t len)
{
    return shard_of_slot(arg, rdl__slot(channel, len))->sub;
}

/* Any server of a cluster will do; this one is told of when it has gone. */
void rdl__routing_listen(void *arg, int64_t now)
{
    rdl_client_t *client = arg;
    struct rdl__evictions *ev = &client->evictions;

    rdl__assert_on_loop(client->loop);
    rdl__evictions_listen(
        ev, client->cluster == NULL ? client->home.sub : subscriber_of(client, ev->channel, sizeof ev->channel), now);
}

static void on_remapped(void *arg, int64_t now)
{
    rdl_client_t *client = arg;

    rdl__watchdog_reroute(client->watchdog);
    rdl__waiters_reroute(&client->waiters, now);
    if (client->evictions.sub != NULL)
        rdl__routing_listen(client, now);
    for (unsigned i = 0; rdl__routing_shard(client, i) != NULL; i++)
        rdl__shard_reroute(rdl__routing_shard(client, i), now);
}

static void on_decided(void *arg)
{
    rdl_client_t *client = arg;

    if (rdl__client_sharded(client))
        rdl__subscriber_shard(client->home.sub);
}

static void on_confirmed(void *arg, int64_t now)
{
    rdl_client_t *client = arg;

    for (unsigned i = 0; rdl__routing_shard(client, i) != NULL; i++) {
        rdl__subscriber_retry(rdl__routing_shard(client, i)->sub);
        rdl__shard_used(rdl__routing_shard(client, i), rdl__cluster_has_master(client->cluster, i), now);
    }
}

static struct rdl__renewer *renewer_of_slot(void *arg, unsigned slot)
{
    return shard_of_slot(arg, slot)->renewer;
}

enum rdl__detour rdl__client_detour(rdl_client_t *client, const struct rdl__reply *error, struct rdl__shard **ret_ask)
{
    unsigned number = 0;
    enum rdl__detour what = rdl__cluster_detour(client->cluster, error, &number);

    if (what == RDL__DETOUR_ASK)
        *ret_ask = rdl__routing_shard(client, number);
    return what;
}

static bool renewal_detoured(void *arg, const struct rdl__reply *error, bool acked, struct rdl__lane **ret_ask)
{
    struct rdl__shard *ask = NULL;
    enum rdl__detour what = rdl__client_detour(arg, error, &ask);

    *ret_ask = ask == NULL ? NULL : acked ? rdl__acks_lane(&ask->acked) : ask->loop_lane;
    return what != RDL__DETOUR_NONE;
}

static const struct rdl__cluster_ops cluster_ops = {
    .decided = on_decided, .make_shard = on_shard, .changed = on_remapped, .confirmed = on_confirmed};

bool rdl__routing_make(rdl_client_t *client, const struct rdl__node_config *config)
{
    client->shard_config = *config;
    client->routes = (struct rdl__routes){.arg = client, .renewer = renewer_of_slot, .detoured = renewal_detoured};
    client->home.replay = rdl__replay_new(&client->mem, client->home.loop_lane);
    client->cluster = rdl__cluster_new(&client->home.node, &cluster_ops, client);
    client->shards = rdl__zalloc(&client->mem, RDL__SHARDS_MAX * sizeof *client->shards);
    if (client->home.replay == NULL || client->cluster == NULL || client->shards == NULL)
        return false;
    client->map = rdl__cluster_map(client->cluster);
    atomic_init(&client->shards[0], &client->home);
    return true;
}

void rdl__routing_spread(rdl_client_t *client)
{
    if (client->cluster != NULL)
        rdl__waiters_spread(&client->waiters, subscriber_of, client);
}

void rdl__routing_free(rdl_client_t *client)
{
    client->cluster = rdl__cluster_free(client->cluster);
    client->map = NULL;
    for (unsigned i = 1; rdl__routing_shard(client, i) != NULL; i++) {
        rdl__shard_done(client->shards[i]);
        rdl__free(&client->mem, client->shards[i], sizeof(struct rdl__shard));
    }
    if (client->shards != NULL)
        rdl__free(&client->mem, (void *)client->shards, RDL__SHARDS_MAX * sizeof *client->shards);
    client->shards = NULL;
}
