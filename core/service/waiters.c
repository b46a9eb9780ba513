/* waiters.c - channels, epochs and wake-ups.
 *
 * Why nobody sleeps beside a free lock. Each release publishes. A message, an acknowledged subscription and a timer that
 * has run out each wake the first sleeper; one who is woken either gets in (and its release publishes), or is refused by a
 * server that knew no later message (then somebody holds it, and that one's release publishes), or leaves and hands the
 * wake-up on. A refusal that a message has overtaken is no refusal: the epoch tells.
 *
 * So one who joins a confirmed channel on which others wait may go straight to sleep, without a try: whatever wakes the
 * others reaches it in turn. One who finds the channel confirmed and empty cannot happen: the last to leave unsubscribes.
 */
#include "core/service/waiters.h"

#include <redlatch/error.h>
#include <string.h>

struct rdl__channel {
    struct rdl__waiters *ws;
    struct rdl__table_node node;
    struct rdl__topic topic;
    bool subscribed;
    struct rdl__link sleepers;
    struct rdl__timer hint;
    unsigned waiters; /* asleep and trying */
    uint64_t epoch;   /* raised by every message */
    size_t size;
    char name[];
};

static const struct rdl__topic_ops topic_ops;

static void wake_first(struct rdl__channel *c, int64_t now)
{
    struct rdl__link *l = rdl__list_pop(&c->sleepers);
    struct rdl__waiter *w;

    if (l == NULL)
        return;
    w = rdl__container(l, struct rdl__waiter, link);
    w->woken = true;
    w->ops->go(w, now);
}

/* Everyone asleep now; each may leave, and the last one takes the channel with it. */
static void wake_all(struct rdl__channel *c, int64_t now)
{
    struct rdl__link woken, *l;

    rdl__list_init(&woken);
    rdl__list_splice_front(&woken, &c->sleepers);
    for (l = woken.next; l != &woken; l = l->next)
        rdl__container(l, struct rdl__waiter, link)->woken = true;
    while ((l = rdl__list_pop(&woken)) != NULL) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        w->ops->go(w, now);
    }
}

static void arm(struct rdl__channel *c, int64_t hint_ms, int64_t now)
{
    if (hint_ms < 0 || hint_ms > RDL__HINT_MAX_MS)
        hint_ms = RDL__HINT_MAX_MS;
    if (hint_ms < 1)
        hint_ms = 1;
    rdl__loop_timer(c->ws->loop, &c->hint, rdl__after_ms(now, hint_ms));
}

/* An older hint that comes sooner stands: the newer refusal may be about another holder.  */
static void arm_sooner(struct rdl__channel *c, int64_t hint_ms, int64_t now)
{
    int64_t at = c->hint.node.at;
    bool armed = rdl__heap_has(&c->hint.node);

    arm(c, hint_ms, now);
    if (armed && at < c->hint.node.at)
        rdl__loop_timer(c->ws->loop, &c->hint, at);
}

static void on_hint(struct rdl__timer *timer, int64_t now)
{
    struct rdl__channel *c = rdl__container(timer, struct rdl__channel, hint);

    arm(c, RDL__HINT_MAX_MS, now); /* until the answer to the try says better */
    wake_first(c, now);
}

static void on_subscribed(struct rdl__topic *topic, int64_t now)
{
    struct rdl__channel *c = rdl__container(topic, struct rdl__channel, topic);

    c->epoch++;
    wake_first(c, now);
}

static void on_message(struct rdl__topic *topic, const char *payload, size_t len, int64_t now)
{
    struct rdl__channel *c = rdl__container(topic, struct rdl__channel, topic);

    if (len != 1 || (payload[0] != '0' && payload[0] != '1'))
        return;
    c->epoch++;
    if (payload[0] == '1')
        wake_all(c, now);
    else
        wake_first(c, now);
}

static const struct rdl__topic_ops topic_ops = {.subscribed = on_subscribed, .message = on_message};

static struct rdl__channel *channel_new(struct rdl__waiters *ws, const char *name, size_t len, bool subscribed, int64_t now)
{
    size_t size = sizeof(struct rdl__channel) + len;
    struct rdl__channel *c = rdl__zalloc(ws->mem, size);

    if (c == NULL)
        return NULL;
    c->ws = ws;
    c->size = size;
    memcpy(c->name, name, len);
    c->node.key = c->topic.node.key = c->name;
    c->node.key_len = c->topic.node.key_len = len;
    c->topic.ops = &topic_ops;
    rdl__list_init(&c->sleepers);
    rdl__timer_init(&c->hint, on_hint);
    rdl__table_add(&ws->channels, &c->node);
    c->subscribed = subscribed;
    if (subscribed)
        rdl__subscriber_add(ws->sub, &c->topic, now);
    return c;
}

static void channel_free(struct rdl__channel *c)
{
    rdl__loop_timer_off(c->ws->loop, &c->hint);
    if (c->subscribed)
        rdl__subscriber_drop(c->ws->sub, &c->topic);
    rdl__table_remove(&c->ws->channels, &c->node);
    rdl__free(c->ws->mem, c, c->size);
}

int rdl__waiters_init(struct rdl__waiters *ws, const struct rdl__mem *mem, struct rdl__loop *loop,
                      struct rdl__subscriber *sub)
{
    ws->mem = mem;
    ws->loop = loop;
    ws->sub = sub;
    return rdl__table_init(&ws->channels, mem);
}

void rdl__waiters_done(struct rdl__waiters *ws)
{
    rdl__table_done(&ws->channels);
}

int rdl__waiter_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, bool subscribed,
                     int64_t hint_ms, int64_t now)
{
    struct rdl__table_node *n = rdl__table_find(&ws->channels, name, len);
    struct rdl__channel *c =
        n != NULL ? rdl__container(n, struct rdl__channel, node) : channel_new(ws, name, len, subscribed, now);

    if (c == NULL)
        return RDL_ENOMEM;
    w->channel = c;
    c->waiters++;
    rdl__list_push_back(&c->sleepers, &w->link);
    arm_sooner(c, hint_ms, now);
    return RDL_OK;
}

void rdl__waiter_sent(struct rdl__waiter *w)
{
    if (w->channel != NULL)
        w->epoch = w->channel->epoch;
}

bool rdl__waiter_refused(struct rdl__waiter *w, int64_t hint_ms, int64_t now)
{
    struct rdl__channel *c = w->channel;

    if (w->epoch != c->epoch)
        return false;
    w->woken = false;
    rdl__list_push_front(&c->sleepers, &w->link); /* it has waited longest */
    arm(c, hint_ms, now);
    return true;
}

void rdl__waiter_hint(struct rdl__waiter *w, int64_t hint_ms, int64_t now)
{
    if (w->channel != NULL && hint_ms >= 0)
        arm_sooner(w->channel, hint_ms, now);
}

void rdl__waiter_leave(struct rdl__waiter *w, bool used, int64_t now)
{
    struct rdl__channel *c = w->channel;
    bool hand_on = w->woken && !used;

    if (c == NULL)
        return;
    rdl__list_remove(&w->link);
    w->channel = NULL;
    w->woken = false;
    if (--c->waiters == 0)
        channel_free(c);
    else if (hand_on)
        wake_first(c, now);
}
