/* SPDX-License-Identifier: MIT */
/* subscriber.c - a node's connection for subscriptions.
 *
 * Subscriptions are written before the loop sleeps, up to 100 channels a command. An acknowledgement is matched by the
 * channel's name alone: if a topic was dropped and added again in between, the first acknowledgement counts for the new
 * topic, and the second one follows. No message is lost by that, since every acknowledgement makes sleepers try
 * (protocol.md, 5).
 *
 * If a server refuses a channel, because a script has been running for too long or an ACL forbids it, the subscription
 * is sent again after a pause that grows to some seconds, with one channel a command. But a plain topic, which the
 * client can do without: a user without the right to it is refused it once a connection, and that is no warning. Errors
 * name no channel: another channel's error may cost a plain topic its repetition, not its acknowledgement.
 *
 * A server that does not have a sharded channel's slot refuses it, and one that loses the slot ends the subscription.
 * Neither names the server that has it: the finder does, and then topics move to another subscriber, or are retried
 * here.
 *
 * A connection that has been silent for ping_interval_ms is tested with a PING.
 */
#include "core/io/subscriber.h"

#include "core/io/talk.h"
#include "core/wire/cluster.h"

#include <errno.h>
#include <string.h>

#define CHANNELS_A_COMMAND 100
#define AGAIN_MIN_MS 20
#define AGAIN_MAX_MS 5000

struct rdl__subscriber {
    struct rdl__node *node;
    struct rdl__talk talk;
    struct rdl__table topics;
    struct rdl__link unsent;
    struct rdl__task write_later;
    struct rdl__timer again; /* to subscribe to refused channels again */
    int64_t again_ms;        /* the present pause; 0: none is refused */
    int64_t heard_at;
    bool sharded;
    bool refused; /* some topics have no subscription, and none is on its way */
    bool connected_once;
};

/* ---- losing and finding the server ------------------------------------------------------------------------------ */

static void want_connection(struct rdl__subscriber *sub, int64_t now)
{
    if (sub->talk.conn.state == RDL__CONN_CLOSED && sub->topics.count > 0)
        rdl__conn_start(&sub->talk.conn, now);
}

/* The connection has ended. */
static void forget_refusals(struct rdl__subscriber *sub)
{
    rdl__loop_timer_off(sub->node->loop, &sub->again);
    sub->refused = false;
    sub->again_ms = 0;
}

static void interrupt(struct rdl__topic *topic, int64_t now)
{
    if (topic->confirmed && topic->ops->interrupted != NULL)
        topic->ops->interrupted(topic, now);
    topic->confirmed = false;
}

static void on_lost(struct rdl__talk *talk, const rdl_err_t *why, bool was_up, int64_t now)
{
    struct rdl__subscriber *sub = rdl__container(talk, struct rdl__subscriber, talk);
    struct rdl__table_node *n = NULL;

    rdl__log_again(sub->node->sinks, RDL_LOG_WARN, &sub->node->told, now, "%s: %s",
                   was_up ? "subscriptions lost" : "cannot connect", why->message);
    if (was_up)
        rdl__node_broke(sub->node, talk->conn.up_at, false, now);
    forget_refusals(sub);
    while ((n = rdl__table_next(&sub->topics, n)) != NULL) {
        struct rdl__topic *topic = rdl__container(n, struct rdl__topic, node);

        interrupt(topic, now);
        topic->forgone = false;
        rdl__list_remove(&topic->unsent);
        rdl__list_push_back(&sub->unsent, &topic->unsent);
    }
    want_connection(sub, now);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* The word for a topic, as it begins with `s` where channels are sharded. */
static const char *word(const struct rdl__subscriber *sub, const struct rdl__topic *topic, const char *sharded)
{
    return sub->sharded && !topic->plain ? sharded : sharded + 1;
}

static struct rdl__topic *unsent_at(struct rdl__link *l)
{
    return rdl__container(l, struct rdl__topic, unsent);
}

static void encode_subscribe(struct rdl__subscriber *sub)
{
    const struct rdl__topic *first = unsent_at(sub->unsent.next);
    /* sharded: the channels of one command must be of one slot; refused: one channel must not fail the others */
    size_t n = 1, most = sub->sharded || sub->again_ms > 0 || first->plain ? 1 : CHANNELS_A_COMMAND;

    for (struct rdl__link *l = first->unsent.next; l != &sub->unsent && n < most && !unsent_at(l)->plain; l = l->next)
        n++;
    rdl__cmd_begin(&sub->talk.out, n + 1);
    rdl__cmd_str(&sub->talk.out, word(sub, first, "SSUBSCRIBE"));
    while (n-- > 0) {
        const struct rdl__topic *topic = unsent_at(rdl__list_pop(&sub->unsent));

        rdl__cmd_arg(&sub->talk.out, topic->node.key, topic->node.key_len);
    }
}

static void send_out(struct rdl__subscriber *sub, int64_t now)
{
    if (!rdl__talk_up(&sub->talk))
        return;
    while (!rdl__list_empty(&sub->unsent))
        encode_subscribe(sub);
    rdl__talk_send(&sub->talk, now);
}

static void on_write_later(struct rdl__task *task, int64_t now)
{
    send_out(rdl__container(task, struct rdl__subscriber, write_later), now);
}

static void write_later(struct rdl__subscriber *sub)
{
    rdl__loop_later(sub->node->loop, &sub->write_later);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool says(const struct rdl__reply *r, const char *word)
{
    return r != NULL && r->type == RDL__REPLY_STRING && strcmp(r->str, word) == 0;
}

/* The server does not have the channel's slot (any more). */
static void ask_around(struct rdl__subscriber *sub)
{
    sub->refused = true;
    if (sub->node->finder != NULL)
        sub->node->finder->missed(sub->node->finder);
}

/* The server refuses a channel for now, for example because a script has been running for too long. */
static void ask_again(struct rdl__subscriber *sub, int64_t now)
{
    sub->refused = true;
    if (sub->again_ms == 0) {
        sub->again_ms = AGAIN_MIN_MS;
        rdl__loop_timer(sub->node->loop, &sub->again, rdl__after_ms(now, sub->again_ms));
    }
}

/* Subscribe to refused channels again, until a pause has passed without a refusal. */
static void on_again(struct rdl__timer *timer, int64_t now)
{
    struct rdl__subscriber *sub = rdl__container(timer, struct rdl__subscriber, again);

    if (!sub->refused) {
        sub->again_ms = 0;
        return;
    }
    rdl__subscriber_retry(sub);
    sub->again_ms = sub->again_ms < AGAIN_MAX_MS / 2 ? 2 * sub->again_ms : AGAIN_MAX_MS;
    rdl__loop_timer(sub->node->loop, &sub->again, rdl__after_ms(now, sub->again_ms));
}

/* Is it that a right is missing to a plain topic, perhaps? That one is not asked for again. */
static bool forgo(struct rdl__subscriber *sub, const struct rdl__reply *error)
{
    struct rdl__table_node *n = NULL;
    bool forgone = false;

    while (rdl__reply_is_error(error, "NOPERM") && (n = rdl__table_next(&sub->topics, n)) != NULL) {
        struct rdl__topic *topic = rdl__container(n, struct rdl__topic, node);

        if (!topic->plain || topic->confirmed || topic->forgone || rdl__link_on(&topic->unsent))
            continue;
        topic->forgone = forgone = true;
    }
    return forgone;
}

/* The server refuses something. */
static void on_error(struct rdl__subscriber *sub, const struct rdl__reply *error, int64_t now)
{
    if (sub->sharded && rdl__redirect_of(error).what != RDL__DETOUR_NONE) {
        ask_around(sub);
        return;
    }
    if (forgo(sub, error))
        rdl__log(sub->node->sinks, RDL_LOG_INFO, "%s: evictions are learnt of by renewals, and no lock is kept: %s",
                 sub->node->label, error->str);
    else
        rdl__log_again(sub->node->sinks, RDL_LOG_WARN, &sub->node->told, now, "%s: cannot subscribe: %s",
                       sub->node->label, error->str);
    ask_again(sub, now);
}

static void on_reply(struct rdl__talk *talk, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__subscriber *sub = rdl__container(talk, struct rdl__subscriber, talk);
    const struct rdl__reply *kind = rdl__reply_at(reply, 0), *channel = rdl__reply_at(reply, 1);
    const struct rdl__reply *payload = rdl__reply_at(reply, 2);
    struct rdl__table_node *n;
    struct rdl__topic *topic;

    sub->heard_at = now;
    talk->awaited = 0;
    if (reply->type == RDL__REPLY_ERROR) {
        on_error(sub, reply, now);
        return;
    }
    if (channel == NULL || channel->type != RDL__REPLY_STRING)
        return; /* an answer to PING, or the last unsubscription */
    if ((n = rdl__table_find(&sub->topics, channel->str, channel->len)) == NULL)
        return; /* the topic was dropped meanwhile */
    topic = rdl__container(n, struct rdl__topic, node);
    if (says(kind, word(sub, topic, "ssubscribe"))) {
        topic->confirmed = true;
        topic->ops->subscribed(topic, now);
    } else if (says(kind, "sunsubscribe") &&
               topic->confirmed) { /* the slot has moved; or the answer to an earlier topic's drop */
        interrupt(topic, now);
        ask_around(sub);
    } else if (says(kind, word(sub, topic, "smessage")) && payload != NULL && payload->type == RDL__REPLY_STRING) {
        topic->ops->message(topic, payload->str, payload->len, now);
    }
}

static void on_due(struct rdl__talk *talk, int64_t now)
{
    struct rdl__subscriber *sub = rdl__container(talk, struct rdl__subscriber, talk);
    int64_t due = rdl__after_ms(sub->heard_at, sub->node->config.ping_interval_ms);

    if (now < due) {
        rdl__talk_pause(talk, due);
        return;
    }
    rdl__talk_put(talk, "PING", NULL);
    rdl__talk_ask(talk, 1, now);
}

static void on_up(struct rdl__talk *talk, int64_t now)
{
    struct rdl__subscriber *sub = rdl__container(talk, struct rdl__subscriber, talk);

    if (sub->connected_once)
        rdl__metric(sub->node->sinks, RDL_M_RECONNECTS, 1);
    sub->connected_once = true;
    sub->heard_at = now;
    rdl__talk_pause(talk, rdl__after_ms(now, sub->node->config.ping_interval_ms));
    send_out(sub, now);
}

static const struct rdl__talk_ops talk_ops = {.up = on_up, .reply = on_reply, .lost = on_lost, .due = on_due};

/* ---- subscriber.h ----------------------------------------------------------------------------------------------- */

struct rdl__subscriber *rdl__subscriber_new(struct rdl__node *node)
{
    struct rdl__subscriber *sub = rdl__zalloc(node->mem, sizeof *sub);

    if (sub == NULL)
        return NULL;
    if (rdl__table_init(&sub->topics, node->mem) < 0) {
        rdl__free(node->mem, sub, sizeof *sub);
        return NULL;
    }
    sub->node = node;
    rdl__talk_init(&sub->talk, node, &talk_ops);
    rdl__list_init(&sub->unsent);
    rdl__task_init(&sub->write_later, on_write_later);
    rdl__timer_init(&sub->again, on_again);
    return sub;
}

void rdl__subscriber_on_demand(struct rdl__subscriber *sub)
{
    rdl__assert_on_loop(sub->node->loop);
    if (sub->topics.count == 0)
        rdl__subscriber_close(sub);
}

void rdl__subscriber_close(struct rdl__subscriber *sub)
{
    rdl__assert_on_loop(sub->node->loop);
    rdl__talk_stop(&sub->talk);
    forget_refusals(sub);
    rdl__loop_not_later(sub->node->loop, &sub->write_later);
}

struct rdl__subscriber *rdl__subscriber_free(struct rdl__subscriber *sub)
{
    if (sub == NULL)
        return NULL;
    rdl__talk_done(&sub->talk);
    rdl__table_done(&sub->topics);
    rdl__free(sub->node->mem, sub, sizeof *sub);
    return NULL;
}

void rdl__subscriber_add(struct rdl__subscriber *sub, struct rdl__topic *topic, int64_t now)
{
    rdl__assert_on_loop(sub->node->loop);
    topic->confirmed = topic->forgone = false;
    rdl__list_init(&topic->unsent);
    rdl__table_add(&sub->topics, &topic->node);
    rdl__list_push_back(&sub->unsent, &topic->unsent);
    want_connection(sub, now);
    write_later(sub);
}

void rdl__subscriber_drop(struct rdl__subscriber *sub, struct rdl__topic *topic)
{
    rdl__assert_on_loop(sub->node->loop);
    rdl__table_remove(&sub->topics, &topic->node);
    if (rdl__link_on(&topic->unsent)) {
        rdl__list_remove(&topic->unsent);
        return;
    }
    if (!rdl__talk_up(&sub->talk) || rdl__table_find(&sub->topics, topic->node.key, topic->node.key_len) != NULL)
        return; /* another of the channel, added meanwhile, has the subscription */
    rdl__cmd_begin(&sub->talk.out, 2);
    rdl__cmd_str(&sub->talk.out, word(sub, topic, "SUNSUBSCRIBE"));
    rdl__cmd_arg(&sub->talk.out, topic->node.key, topic->node.key_len);
    write_later(sub);
}

void rdl__subscriber_shard(struct rdl__subscriber *sub)
{
    rdl__assert_on_loop(sub->node->loop);
    sub->sharded = true;
}

void rdl__subscriber_retry(struct rdl__subscriber *sub)
{
    struct rdl__table_node *n = NULL;

    rdl__assert_on_loop(sub->node->loop);
    if (!sub->refused)
        return;
    sub->refused = false;
    while ((n = rdl__table_next(&sub->topics, n)) != NULL) {
        struct rdl__topic *topic = rdl__container(n, struct rdl__topic, node);

        if (topic->confirmed || topic->forgone || rdl__link_on(&topic->unsent))
            continue;
        rdl__list_push_back(&sub->unsent, &topic->unsent);
    }
    write_later(sub);
}
