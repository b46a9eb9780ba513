/* SPDX-License-Identifier: MIT */
/* evictions.c - the channel on which a client hears of evictions.
 *
 * Who evicts a hold publishes its number on a channel of the client that had it. That is a hint and no proof: it makes
 * the watchdog ask the server about that hold at once, and the answer is judged as that of any renewal. So a message
 * that is late, forged or cut short costs a renewal, and one that is not heard is made up for by the next renewal.
 *
 * What was said before the subscription, or while its connection was broken, nobody has heard. So each acknowledgement
 * asks about all holds.
 *
 * Nobody listens before a hold has lasted for a while (schedule.h, RDL__LISTEN_AFTER_MS): short holds cost nothing.
 *
 * The channel is a plain one in a cluster, too: a script may publish there whatever slot its keys have, and a client
 * needs one subscription wherever its holds are.
 */
#include "core/service/evictions.h"

#include "core/service/schedule.h"
#include "core/wire/reply.h"

#include <string.h>

static void on_subscribed(struct rdl__topic *topic, int64_t now)
{
    (void)now;
    rdl__watchdog_verify(rdl__container(topic, struct rdl__evictions, topic)->watchdog, 0);
}

/* `n`, or with a lock type's own ending behind it: the rest of the hold's field. */
static void on_message(struct rdl__topic *topic, const char *payload, size_t len, int64_t now)
{
    const char *ending = memchr(payload, ':', len);
    const struct rdl__reply text = {
        .type = RDL__REPLY_STRING, .str = payload, .len = ending == NULL ? len : (size_t)(ending - payload)};
    int64_t n;

    (void)now;
    if (rdl__reply_integer(&text, &n) && n != 0)
        rdl__watchdog_verify(rdl__container(topic, struct rdl__evictions, topic)->watchdog, n);
}

static const struct rdl__topic_ops topic_ops = {.subscribed = on_subscribed, .message = on_message};

void rdl__evictions_init(struct rdl__evictions *ev, const struct rdl__uuid *uuid, struct rdl__watchdog *watchdog)
{
    size_t head = sizeof RDL__EVICTIONS_CHANNEL - 1;

    memcpy(ev->channel, RDL__EVICTIONS_CHANNEL, head);
    memcpy(ev->channel + head, uuid->text, RDL__UUID_LEN);
    ev->channel[head + RDL__UUID_LEN] = '}';
    ev->topic.node.key = ev->channel;
    ev->topic.node.key_len = (uint32_t)sizeof ev->channel;
    ev->topic.ops = &topic_ops;
    ev->topic.plain = true;
    ev->watchdog = watchdog;
    ev->sub = NULL;
}

void rdl__evictions_listen(struct rdl__evictions *ev, struct rdl__subscriber *sub, int64_t now)
{
    rdl__assert_on_loop(ev->watchdog->loop);
    if (ev->sub == sub)
        return;
    rdl__evictions_close(ev);
    ev->sub = sub;
    rdl__subscriber_add(sub, &ev->topic, now);
}

void rdl__evictions_close(struct rdl__evictions *ev)
{
    rdl__assert_on_loop(ev->watchdog->loop);
    if (ev->sub != NULL)
        rdl__subscriber_drop(ev->sub, &ev->topic);
    ev->sub = NULL;
}
