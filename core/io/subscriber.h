/* SPDX-License-Identifier: MIT */
/* subscriber.h - a node's connection for subscriptions, which are made again on each new connection.  @thread loop, all
 * of it, unless it says otherwise */
#ifndef REDLATCH_IO_SUBSCRIBER_H
#define REDLATCH_IO_SUBSCRIBER_H

#include "core/base/list.h"
#include "core/base/table.h"
#include "core/io/node.h"

struct rdl__subscriber;
struct rdl__topic;

struct rdl__topic_ops {
    /* The subscription was acknowledged: the first time, and after every reconnect. */
    void (*subscribed)(struct rdl__topic *topic, int64_t now);
    void (*message)(struct rdl__topic *topic, const char *payload, size_t len, int64_t now);
    /* It is no longer in force, and will be made again: messages may be missed. May neither add nor drop topics. NULL:
     * nothing. */
    void (*interrupted)(struct rdl__topic *topic, int64_t now);
};

/* A channel to be subscribed to; embedded in its user, which sets node.key and key_len to the channel's name. */
struct rdl__topic {
    struct rdl__table_node node;
    struct rdl__link unsent; /* waiting for its SUBSCRIBE to be written */
    const struct rdl__topic_ops *ops;
    bool confirmed; /* subscribed to on the present connection, and acknowledged */
    bool plain;     /* set before it is added: never sharded, and done without, on a connection where ACL forbids it */
    bool forgone;   /* of such a one: the present connection has been refused it */
};

/* Sharded channels (SSUBSCRIBE) are at the server that has their slot. A server ends subscriptions when their slots
 * move, and refuses those of other slots: then the finder is told, and the user of the topics moves them to another
 * subscriber, or retries those that stay. */
void rdl__subscriber_shard(struct rdl__subscriber *sub); /* before there is a topic */
void rdl__subscriber_retry(struct rdl__subscriber *sub);

/* NULL: no memory. Connects when there is a topic.  @thread any */
struct rdl__subscriber *rdl__subscriber_new(struct rdl__node *node);
void rdl__subscriber_on_demand(struct rdl__subscriber *sub); /* close the connection if there is no topic */
void rdl__subscriber_close(struct rdl__subscriber *sub);
struct rdl__subscriber *
rdl__subscriber_free(struct rdl__subscriber *sub); /* NULL is fine; returns NULL.  @thread any, the loop has stopped */

/* The subscriber has no other topic of that name. */
void rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic, int64_t now);
void rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic);

#endif
