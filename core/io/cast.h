/* cast.h - the servers of a cluster, and which part each plays: what an answer to CLUSTER SLOTS makes of what was known before.
 *
 * A part is a number that outlives the servers that play it (cluster.c). Pure: no socket, no thread, no clock.
 */
#ifndef REDLATCH_IO_CAST_H
#define REDLATCH_IO_CAST_H

#include "core/base/mem.h"
#include "core/wire/cluster.h"

#include <stdbool.h>

#define RDL__PARTS_MAX 1024
#define RDL__NO_PART RDL__PARTS_MAX

struct rdl__place {
    char host[256];
    int port;
};

/* A server. */
struct rdl__player {
    char id[RDL__NODE_ID_MAX]; /* empty: a guest, which was named by a redirection alone and has no slots yet */
    struct rdl__place at;      /* port 0: nobody knows */
    unsigned part;
    unsigned unasked; /* of a guest: maps since a redirection has named it */
    bool master;
    bool unsaid; /* its host: it is that of whoever was asked */
};

#define RDL__GUEST_MAPS 60 /* a guest that nothing names for so many is one no more */

struct rdl__cast {
    const struct rdl__mem *mem;
    struct rdl__player *players;
    size_t count, room;
};

void rdl__cast_init(struct rdl__cast *cast, const struct rdl__mem *mem);
void rdl__cast_done(struct rdl__cast *cast);

const struct rdl__player *rdl__cast_by_id(const struct rdl__cast *cast, const char *id); /* NULL: nobody; likewise: */
/* host empty: the only one with that port, for servers that do not say where they are (cluster-preferred-endpoint-type). */
const struct rdl__player *rdl__cast_at(const struct rdl__cast *cast, const char *host, int port);

/* Whoever makes parts. */
struct rdl__parts {
    unsigned count;                         /* 0 to count - 1 are there */
    bool (*more)(struct rdl__parts *parts); /* make part `count`, and count it. False: there cannot be more */
};

/* Read an answer into a fresh cast. `before` is who was known until now; `host` is where the answer comes from, which an
 * empty host in it means. A master whose id had a part, as its master, or else as one of its replicas, plays that; then come
 * masters who were guests; who is left gets a part that nobody plays, or a new one. Guests of before stay unless their parts
 * are taken, the answer names them as replicas, or they were not asked for long. False: the answer is no map, or there is no
 * memory or no part. */
bool rdl__cast_read(struct rdl__cast *cast, const struct rdl__cast *before, const struct rdl__reply *slots, const char *host,
                    struct rdl__parts *parts);

/* A copy of `before` with one guest more, whose part is *ret_part. False: no memory, or no part. */
bool rdl__cast_invite(struct rdl__cast *cast, const struct rdl__cast *before, const struct rdl__place *at,
                      struct rdl__parts *parts, unsigned *ret_part);

#endif
