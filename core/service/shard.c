/* SPDX-License-Identifier: MIT */
#include "core/service/shard.h"

#include "core/service/scripts.h"

#include <redlatch/error.h>

#define UNUSED_MS 3000 /* a slot that is being migrated may come back */

int rdl__shard_init(struct rdl__shard *shard, const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                    struct rdl__loop *loop, const struct rdl__node_config *config, unsigned lane_count,
                    struct rdl__uri *uri)
{
    if (rdl__node_init(&shard->node, mem, sinks, loop, config, uri) < 0 ||
        (shard->loop_lane = rdl__lane_new(&shard->node, true)) == NULL)
        return RDL_ENOMEM;
    for (shard->lane_count = 0; shard->lane_count < lane_count; shard->lane_count++)
        if ((shard->lanes[shard->lane_count] = rdl__lane_new(&shard->node, false)) == NULL)
            return RDL_ENOMEM;
    shard->node.welcome_count = rdl__scripts_load(&shard->node.welcome);
    if (rdl__buf_failed(&shard->node.welcome))
        return RDL_ENOMEM;
    shard->sub = rdl__subscriber_new(&shard->node);
    return shard->sub != NULL ? RDL_OK : RDL_ENOMEM;
}

void rdl__shard_done(struct rdl__shard *shard)
{
    shard->sub = rdl__subscriber_free(shard->sub);
    for (unsigned i = 0; i < shard->lane_count; i++)
        shard->lanes[i] = rdl__lane_free(shard->lanes[i]);
    shard->loop_lane = rdl__lane_free(shard->loop_lane);
    rdl__acks_lane_done(&shard->acked);
    shard->replay = rdl__replay_free(shard->replay);
    rdl__node_done(&shard->node);
}

/* The i-th of its lanes; NULL: there are no more. */
static struct rdl__lane *lane_at(const struct rdl__shard *shard, unsigned i)
{
    if (i == 0)
        return shard->loop_lane;
    if (i <= shard->lane_count)
        return shard->lanes[i - 1];
    return i == shard->lane_count + 1 ? rdl__acks_lane(&shard->acked) : NULL;
}

static void set_on_demand(struct rdl__shard *shard, bool on_demand, int64_t now)
{
    for (unsigned i = 0; lane_at(shard, i) != NULL; i++)
        rdl__lane_on_demand(lane_at(shard, i), on_demand, now);
    if (on_demand)
        rdl__subscriber_on_demand(shard->sub);
}

void rdl__shard_used(struct rdl__shard *shard, bool used, int64_t now)
{
    rdl__assert_on_loop(shard->node.loop);
    if (used && shard->unused_since != 0) {
        shard->unused_since = 0;
        shard->down_since = 0; /* the time without a connection while it was unused was no outage */
        set_on_demand(shard, false, now);
    } else if (!used && shard->unused_since == 0) {
        shard->unused_since = now;
    } else if (!used && now >= rdl__after_ms(shard->unused_since, UNUSED_MS)) {
        set_on_demand(shard, true, now);
    }
}

void rdl__shard_reroute(struct rdl__shard *shard, int64_t now)
{
    rdl__assert_on_loop(shard->node.loop);
    for (unsigned i = 0; lane_at(shard, i) != NULL; i++)
        rdl__lane_reroute(lane_at(shard, i), now);
}

void rdl__shard_tend(struct rdl__shard *shard, int64_t now)
{
    rdl__assert_on_loop(shard->node.loop);
    for (unsigned i = 0; lane_at(shard, i) != NULL; i++)
        rdl__lane_tend(lane_at(shard, i), now);
}

void rdl__shard_close(struct rdl__shard *shard, int64_t now)
{
    rdl__assert_on_loop(shard->node.loop);
    for (unsigned i = 0; lane_at(shard, i) != NULL; i++)
        rdl__lane_close(lane_at(shard, i), now);
    rdl__subscriber_close(shard->sub);
}

bool rdl__shard_quiet(struct rdl__shard *shard)
{
    for (unsigned i = 0; lane_at(shard, i) != NULL; i++)
        if (!rdl__lane_quiet(lane_at(shard, i)))
            return false;
    return true;
}
