/* SPDX-License-Identifier: MIT */
/* cluster.h - what the servers of a cluster say of slots: redirections, and the map. Views into replies; nothing is
 * kept.
 */
#ifndef REDLATCH_WIRE_CLUSTER_H
#define REDLATCH_WIRE_CLUSTER_H

#include "core/wire/reply.h"

#define RDL__SLOTS 16384
#define RDL__NODE_ID_MAX 48 /* bytes of a server's id, its NUL among them */

/* An error reply that sends a command elsewhere, or asks for patience. None of them has written anything. */
enum rdl__detour {
    RDL__DETOUR_NONE,  /* the reply is something else */
    RDL__DETOUR_MOVED, /* the slot is there now */
    RDL__DETOUR_ASK,   /* this key may be there already: ASKING, and the command, there, once */
    RDL__DETOUR_LATER, /* TRYAGAIN, CLUSTERDOWN, or a script needs a key that is on its way: the same again in a moment
                        */
};

struct rdl__redirect {
    enum rdl__detour what;
    unsigned slot;  /* MOVED and ASK, like the next two */
    char host[256]; /* without brackets; empty: it does not say */
    int port;
};

/* What the reply is. MOVED or ASK that are not understood are RDL__DETOUR_LATER: the map will tell. */
struct rdl__redirect rdl__redirect_of(const struct rdl__reply *reply);

/* One server of a range. Strings are the reply's. */
struct rdl__slot_node {
    const char *host; /* empty: of the server that was asked */
    int port;         /* 0: nobody knows where it is */
    const char *id;   /* not empty, usually 40 characters; stays its own whatever its place */
};

/* Range i of the answer to CLUSTER SLOTS. */
struct rdl__slot_range {
    unsigned first, last;
    struct rdl__slot_node master;
    const struct rdl__reply *members; /* for rdl__slot_range_replica */
};

/* False: there is no such range, or it is not understood. */
bool rdl__slot_range_at(const struct rdl__reply *slots, size_t i, struct rdl__slot_range *ret);
bool rdl__slot_range_replica(const struct rdl__slot_range *range, size_t i, struct rdl__slot_node *ret);

#endif
