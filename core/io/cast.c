#include "core/io/cast.h"

#include <string.h>

enum round { WAS_MASTER, WAS_REPLICA, WAS_GUEST, IS_NEW, ROUNDS };

void rdl__cast_init(struct rdl__cast *cast, const struct rdl__mem *mem)
{
    *cast = (struct rdl__cast){.mem = mem};
}

void rdl__cast_done(struct rdl__cast *cast)
{
    rdl__free(cast->mem, cast->players, cast->room * sizeof *cast->players);
    rdl__cast_init(cast, cast->mem);
}

const struct rdl__player *rdl__cast_by_id(const struct rdl__cast *cast, const char *id)
{
    for (size_t i = 0; i < cast->count; i++)
        if (strcmp(cast->players[i].id, id) == 0)
            return &cast->players[i];
    return NULL;
}

const struct rdl__player *rdl__cast_at(const struct rdl__cast *cast, const char *host, int port)
{
    const struct rdl__player *found = NULL;

    for (size_t i = 0; i < cast->count; i++) {
        const struct rdl__player *p = &cast->players[i];

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

/* One player more; NULL: no memory. */
static struct rdl__player *add(struct rdl__cast *cast)
{
    if (cast->count == cast->room) {
        size_t room = cast->room == 0 ? 16 : 2 * cast->room;
        struct rdl__player *players = rdl__alloc(cast->mem, room * sizeof *players);

        if (players == NULL)
            return NULL;
        if (cast->count > 0)
            memcpy(players, cast->players, cast->count * sizeof *players);
        rdl__free(cast->mem, cast->players, cast->room * sizeof *cast->players);
        cast->players = players;
        cast->room = room;
    }
    cast->players[cast->count] = (struct rdl__player){.part = RDL__NO_PART};
    return &cast->players[cast->count++];
}

static bool add_copy(struct rdl__cast *cast, const struct rdl__player *of)
{
    struct rdl__player *p = add(cast);

    if (p != NULL)
        *p = *of;
    return p != NULL;
}

/* Add a member of a range, unless it is there. False: no memory. */
static bool add_member(struct rdl__cast *cast, const struct rdl__member *m, bool master, const char *asked)
{
    const char *host = m->host[0] != '\0' ? m->host : asked;
    struct rdl__player *p;

    if (rdl__cast_by_id(cast, m->id) != NULL || strlen(host) >= sizeof p->at.host)
        return true;
    if ((p = add(cast)) == NULL)
        return false;
    memcpy(p->id, m->id, strlen(m->id) + 1);
    memcpy(p->at.host, host, strlen(host) + 1);
    p->at.port = m->port;
    p->master = master;
    p->unsaid = m->host[0] == '\0';
    return true;
}

/* All servers that the answer names. False: no memory, or the answer is no map. */
static bool read_members(struct rdl__cast *cast, const struct rdl__reply *slots, const char *asked)
{
    struct rdl__slot_range range;
    struct rdl__member replica;

    for (size_t i = 0; rdl__reply_at(slots, i) != NULL; i++)
        if (!rdl__slot_range_at(slots, i, &range) || !add_member(cast, &range.master, true, asked))
            return false;
    for (size_t i = 0; rdl__slot_range_at(slots, i, &range); i++)
        for (size_t k = 0; rdl__slot_range_replica(&range, k, &replica); k++)
            if (!add_member(cast, &replica, false, asked))
                return false;
    return cast->count > 0;
}

/* The lowest part that nobody plays, or a new one; RDL__NO_PART: there cannot be more. */
static unsigned free_part(const bool *taken, struct rdl__parts *parts)
{
    for (unsigned i = 0; i < parts->count; i++)
        if (!taken[i])
            return i;
    return parts->count < RDL__PARTS_MAX && parts->more(parts) ? parts->count - 1 : RDL__NO_PART;
}

/* The part that the master has by this round's rule; RDL__NO_PART: none. */
static unsigned part_by(enum round round, const struct rdl__player *master, const struct rdl__cast *before,
                        const bool *taken, struct rdl__parts *parts)
{
    const struct rdl__player *was =
        round == WAS_GUEST ? rdl__cast_at(before, master->at.host, master->at.port) : rdl__cast_by_id(before, master->id);

    switch (round) {
    case WAS_MASTER:
        return was != NULL && was->master ? was->part : RDL__NO_PART;
    case WAS_REPLICA:
        return was != NULL ? was->part : RDL__NO_PART;
    case WAS_GUEST:
        return was != NULL && was->id[0] == '\0' ? was->part : RDL__NO_PART;
    default:
        return free_part(taken, parts);
    }
}

/* False: there is no part for one of them. */
static bool cast_masters(struct rdl__cast *cast, const struct rdl__cast *before, bool *taken, struct rdl__parts *parts)
{
    for (enum round round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < cast->count; i++) {
            struct rdl__player *p = &cast->players[i];
            unsigned part;

            if (!p->master || p->part != RDL__NO_PART)
                continue;
            part = part_by(round, p, before, taken, parts);
            if (part == RDL__NO_PART && round == IS_NEW)
                return false;
            if (part == RDL__NO_PART || taken[part])
                continue;
            taken[part] = true;
            p->part = part;
        }
    }
    return true;
}

/* Replicas belong to their master's part. */
static void cast_replicas(struct rdl__cast *cast, const struct rdl__reply *slots)
{
    struct rdl__slot_range range;
    struct rdl__member replica;

    for (size_t i = 0; rdl__slot_range_at(slots, i, &range); i++) {
        const struct rdl__player *master = rdl__cast_by_id(cast, range.master.id);

        for (size_t k = 0; master != NULL && rdl__slot_range_replica(&range, k, &replica); k++) {
            const struct rdl__player *it = rdl__cast_by_id(cast, replica.id);

            if (it != NULL && !it->master)
                cast->players[it - cast->players].part = master->part;
        }
    }
}

/* False: no memory. */
static bool keep_guests(struct rdl__cast *cast, const struct rdl__cast *before, const bool *taken)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct rdl__player *p = &before->players[i];

        if (p->id[0] != '\0' || taken[p->part] || p->unasked == RDL__GUEST_MAPS ||
            rdl__cast_at(cast, p->at.host, p->at.port) != NULL)
            continue;
        if (!add_copy(cast, p))
            return false;
        cast->players[cast->count - 1].unasked++;
    }
    return true;
}

bool rdl__cast_read(struct rdl__cast *cast, const struct rdl__cast *before, const struct rdl__reply *slots, const char *host,
                    struct rdl__parts *parts)
{
    bool taken[RDL__PARTS_MAX] = {false};

    if (!read_members(cast, slots, host) || !cast_masters(cast, before, taken, parts))
        return false;
    cast_replicas(cast, slots);
    return keep_guests(cast, before, taken);
}

bool rdl__cast_invite(struct rdl__cast *cast, const struct rdl__cast *before, const struct rdl__place *at,
                      struct rdl__parts *parts, unsigned *ret_part)
{
    bool taken[RDL__PARTS_MAX] = {false};
    struct rdl__player *guest;

    for (size_t i = 0; i < before->count; i++) {
        if (!add_copy(cast, &before->players[i]))
            return false;
        if (before->players[i].part != RDL__NO_PART)
            taken[before->players[i].part] = true;
    }
    if ((guest = add(cast)) == NULL)
        return false;
    guest->at = *at;
    guest->master = true;
    *ret_part = guest->part = free_part(taken, parts);
    return guest->part != RDL__NO_PART;
}
