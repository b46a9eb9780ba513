/* subscriber.h - one connection a node for messages: topics, subscribed again after every loss.  @thread loop, all of
 * it */
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
};

/* A channel that is wanted; embedded in its owner, which sets node.key and key_len to the channel's name. */
struct rdl__topic {
    struct rdl__table_node node;
    struct rdl__link unsent; /* waiting for its SUBSCRIBE to be written */
    const struct rdl__topic_ops *ops;
    bool confirmed; /* the present connection has acknowledged it, and the server has not taken it back */
};

/* Where channels are sharded (SSUBSCRIBE), a server has only those of its slots. It ends subscriptions when their slots
 * move, and refuses others: then the finder is told, and the owner of the topics moves them to another subscriber, or
 * has those that stay tried again. */
void rdl__subscriber_shard(struct rdl__subscriber *sub); /* before there is a topic */
void rdl__subscriber_retry(struct rdl__subscriber *sub);

struct rdl__subscriber *
rdl__subscriber_new(struct rdl__node *node);                 /* NULL: no memory. Connects when there is a topic */
void rdl__subscriber_on_demand(struct rdl__subscriber *sub); /* close the connection if there is no topic */
void rdl__subscriber_close(struct rdl__subscriber *sub);
struct rdl__subscriber *rdl__subscriber_free(struct rdl__subscriber *sub); /* NULL is fine; returns NULL */

/* No other topic of that name is there. */
void rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic, int64_t now);
void rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic);

#endif
