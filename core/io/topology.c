/* SPDX-License-Identifier: MIT */
#include "core/io/topology.h"

#include <string.h>

enum round { WAS_MASTER, WAS_REPLICA, WAS_PROVISIONAL, IS_NEW, ROUNDS };

void rdl__topology_init(struct rdl__topology *topology, const struct rdl__mem *mem)
{
    *topology = (struct rdl__topology){.mem = mem};
}

void rdl__topology_done(struct rdl__topology *topology)
{
    rdl__free(topology->mem, topology->servers, topology->room * sizeof *topology->servers);
    rdl__topology_init(topology, topology->mem);
}

const struct rdl__server *rdl__topology_by_id(const struct rdl__topology *topology, const char *id)
{
    for (size_t i = 0; i < topology->count; i++)
        if (strcmp(topology->servers[i].id, id) == 0)
            return &topology->servers[i];
    return NULL;
}

const struct rdl__server *rdl__topology_at(const struct rdl__topology *topology, const char *host, int port)
{
    const struct rdl__server *found = NULL;

    for (size_t i = 0; i < topology->count; i++) {
        const struct rdl__server *p = &topology->servers[i];

        if (p->at.port != port || (host[0] != '\0' && strcmp(p->at.host, host) != 0))
            continue;
        if (host[0] != '\0')
            return p;
        if (found != NULL)
            return NULL;
        found = p;
    }
    return found;
}

/* Add a server; NULL: no memory. */
static struct rdl__server *add(struct rdl__topology *topology)
{
    if (topology->count == topology->room) {
        size_t room = topology->room == 0 ? 16 : 2 * topology->room;
        struct rdl__server *servers = rdl__alloc(topology->mem, room * sizeof *servers);

        if (servers == NULL)
            return NULL;
        if (topology->count > 0)
            memcpy(servers, topology->servers, topology->count * sizeof *servers);
        rdl__free(topology->mem, topology->servers, topology->room * sizeof *topology->servers);
        topology->servers = servers;
        topology->room = room;
    }
    topology->servers[topology->count] = (struct rdl__server){.shard = RDL__NO_SHARD};
    return &topology->servers[topology->count++];
}

static bool add_copy(struct rdl__topology *topology, const struct rdl__server *of)
{
    struct rdl__server *p = add(topology);

    if (p != NULL)
        *p = *of;
    return p != NULL;
}

/* Add a member of a range, unless it is there. False: no memory. */
static bool add_member(struct rdl__topology *topology, const struct rdl__slot_node *m, bool master, const char *asked)
{
    const char *host = m->host[0] != '\0' ? m->host : asked;
    struct rdl__server *p;

    if (rdl__topology_by_id(topology, m->id) != NULL || strlen(host) >= sizeof p->at.host)
        return true;
    if ((p = add(topology)) == NULL)
        return false;
    memcpy(p->id, m->id, strlen(m->id) + 1);
    memcpy(p->at.host, host, strlen(host) + 1);
    p->at.port = m->port;
    p->master = master;
    p->unsaid = m->host[0] == '\0';
    return true;
}

/* All servers that the answer names. False: no memory, or the answer is no map. */
static bool read_members(struct rdl__topology *topology, const struct rdl__reply *slots, const char *asked)
{
    struct rdl__slot_range range;
    struct rdl__slot_node replica;

    for (size_t i = 0; rdl__reply_at(slots, i) != NULL; i++)
        if (!rdl__slot_range_at(slots, i, &range) || !add_member(topology, &range.master, true, asked))
            return false;
    for (size_t i = 0; rdl__slot_range_at(slots, i, &range); i++)
        for (size_t k = 0; rdl__slot_range_replica(&range, k, &replica); k++)
            if (!add_member(topology, &replica, false, asked))
                return false;
    return topology->count > 0;
}

/* The lowest shard without a master, or a new one; RDL__NO_SHARD: there cannot be more. */
static unsigned free_shard(const bool *taken, struct rdl__shard_numbers *shards)
{
    for (unsigned i = 0; i < shards->count; i++)
        if (!taken[i])
            return i;
    return shards->count < RDL__SHARDS_MAX && shards->more(shards) ? shards->count - 1 : RDL__NO_SHARD;
}

/* The shard that the master has by this round's rule; RDL__NO_SHARD: none. */
static unsigned shard_by(enum round round, const struct rdl__server *master, const struct rdl__topology *before,
                         const bool *taken, struct rdl__shard_numbers *shards)
{
    const struct rdl__server *was = round == WAS_PROVISIONAL
                                        ? rdl__topology_at(before, master->at.host, master->at.port)
                                        : rdl__topology_by_id(before, master->id);

    switch (round) {
    case WAS_MASTER:
        return was != NULL && was->master ? was->shard : RDL__NO_SHARD;
    case WAS_REPLICA:
        return was != NULL ? was->shard : RDL__NO_SHARD;
    case WAS_PROVISIONAL:
        return was != NULL && was->id[0] == '\0' ? was->shard : RDL__NO_SHARD;
    default:
        return free_shard(taken, shards);
    }
}

/* False: there is no shard for one of them. */
static bool place_masters(struct rdl__topology *topology, const struct rdl__topology *before, bool *taken,
                          struct rdl__shard_numbers *shards)
{
    for (enum round round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < topology->count; i++) {
            struct rdl__server *p = &topology->servers[i];
            unsigned shard;

            if (!p->master || p->shard != RDL__NO_SHARD)
                continue;
            shard = shard_by(round, p, before, taken, shards);
            if (shard == RDL__NO_SHARD && round == IS_NEW)
                return false;
            if (shard == RDL__NO_SHARD || taken[shard])
                continue;
            taken[shard] = true;
            p->shard = shard;
        }
    }
    return true;
}

/* Replicas belong to their master's shard. */
static void place_replicas(struct rdl__topology *topology, const struct rdl__reply *slots)
{
    struct rdl__slot_range range;
    struct rdl__slot_node replica;

    for (size_t i = 0; rdl__slot_range_at(slots, i, &range); i++) {
        const struct rdl__server *master = rdl__topology_by_id(topology, range.master.id);

        for (size_t k = 0; master != NULL && rdl__slot_range_replica(&range, k, &replica); k++) {
            const struct rdl__server *it = rdl__topology_by_id(topology, replica.id);

            if (it != NULL && !it->master)
                topology->servers[it - topology->servers].shard = master->shard;
        }
    }
}

/* False: no memory. */
static bool keep_provisional(struct rdl__topology *topology, const struct rdl__topology *before, const bool *taken)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct rdl__server *p = &before->servers[i];

        if (p->id[0] != '\0' || taken[p->shard] || p->unnamed == RDL__PROVISIONAL_MAPS ||
            rdl__topology_at(topology, p->at.host, p->at.port) != NULL)
            continue;
        if (!add_copy(topology, p))
            return false;
        topology->servers[topology->count - 1].unnamed++;
    }
    return true;
}

bool rdl__topology_read(struct rdl__topology *topology, const struct rdl__topology *before,
                        const struct rdl__reply *slots, const char *host, struct rdl__shard_numbers *shards)
{
    bool taken[RDL__SHARDS_MAX] = {false};

    if (!read_members(topology, slots, host) || !place_masters(topology, before, taken, shards))
        return false;
    place_replicas(topology, slots);
    return keep_provisional(topology, before, taken);
}

bool rdl__topology_invite(struct rdl__topology *topology, const struct rdl__topology *before,
                          const struct rdl__place *at, struct rdl__shard_numbers *shards, unsigned *ret_shard)
{
    bool taken[RDL__SHARDS_MAX] = {false};
    struct rdl__server *provisional;

    for (size_t i = 0; i < before->count; i++) {
        if (!add_copy(topology, &before->servers[i]))
            return false;
        if (before->servers[i].shard != RDL__NO_SHARD)
            taken[before->servers[i].shard] = true;
    }
    if ((provisional = add(topology)) == NULL)
        return false;
    provisional->at = *at;
    provisional->master = true;
    *ret_shard = provisional->shard = free_shard(taken, shards);
    return provisional->shard != RDL__NO_SHARD;
}
