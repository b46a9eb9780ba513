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
    void (*subscribed)(struct rdl__topic *topic,
                       int64_t now); /* acknowledged: the first time, and after every reconnect */
    void (*message)(struct rdl__topic *topic, const char *payload, size_t len, int64_t now);
};

/* A channel that is wanted; embedded in its owner, which sets node.key and key_len to the channel's name. */
struct rdl__topic {
    struct rdl__table_node node;
    struct rdl__link unsent; /* waiting for its SUBSCRIBE to be written */
    const struct rdl__topic_ops *ops;
    bool confirmed; /* the present connection has acknowledged it, and the server has not taken it back */
};

/* Where channels are sharded (SSUBSCRIBE), a server has those of its slots alone. It takes them back when their slots
 * go, and refuses others: then the finder is told, and whoever owns the topics moves them, or has those tried again
 * that have not moved. */
void rdl__subscriber_shard(struct rdl__subscriber *sub); /* before there is a topic */
void rdl__subscriber_retry(struct rdl__subscriber *sub);

struct rdl__subscriber *
rdl__subscriber_new(struct rdl__node *node); /* NULL: no memory. Connects when there is a topic */
void rdl__subscriber_on_demand(
    struct rdl__subscriber *sub); /* no connection before there is a topic again, if there is none */
void rdl__subscriber_close(struct rdl__subscriber *sub);
struct rdl__subscriber *rdl__subscriber_free(struct rdl__subscriber *sub); /* NULL is fine; returns NULL */

void rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic,
                         int64_t now); /* no other of that name is there */
void rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic);

#endif
