/* SPDX-License-Identifier: MIT */
/* waiters.c - channels, epochs and wake-ups.
 *
 * Why no waiter sleeps beside a free lock. Each release publishes. A message, an acknowledged subscription and the
 * timer each wake the first sleeper; or, where it lets others have it at a message, the timer does, some ms later. A
 * woken waiter gets the lock (and its release publishes), or is refused by a server that has published nothing since
 * (then there is a holder, whose release publishes), or leaves and hands the wake-up on. A refusal counts only if no
 * message has come since its try was sent: the channel's epoch tells.
 *
 * So a waiter that joins a confirmed channel on which others wait may sleep at once, without a try: what wakes the
 * others reaches it in turn.
 *
 * A channel of one waiter's own lingers after it has left, and a writer's. If it joins again and nothing was heard
 * there since its refused try was sent, it sleeps: the subscription was in force all that time, so a message after the
 * refusal is yet to come. Otherwise it is woken at once: the message, which was kept (rdl__waiter_message), may be its
 * grant, or else it tries.
 *
 * Where wishes differ, that is not enough: a message may have woken nobody, because no sleeper's wish fitted, just
 * before a waiter with a smaller wish joins. So a waiter that joins such a channel when it is confirmed tries once
 * more. The number known to be free, from a message or from the answer to a try, less the wishes of waiters that are
 * trying, is offered to the sleepers in order (rdl__channel_offer). That number may be older than a grant whose answer
 * is under way: the cost is a refused try, never a lost wake-up. With in_order only the first waiter tries, and when it
 * leaves it wakes the next.
 *
 * Hearers do not count in any of this. So a waiter that finds only hearers is the first to wait, and tries once more if
 * the channel is confirmed, because a message after its refusal found no waiter to wake.
 */
#include "core/service/waiters_inner.h"

#include <redlatch/error.h>
#include <string.h>

static void end_lingering(struct rdl__channel *c)
{
    rdl__list_remove(&c->lingers);
    c->ws->lingering_count--;
    rdl__loop_timer_off(c->ws->loop, &c->hint);
}

/* An ear for all is of no use to a client that does not wait, and releases would count it among those who listen
 * without standing in line (protocol.md, 5, rule 18). */
static void linger(struct rdl__channel *c, int64_t now)
{
    struct rdl__waiters *ws = c->ws;

    c->look_at = 0;
    c->either.heard = 0;
    c->either.one = c->either.stands_back = c->lets_pass = false;
    if (c->ear.reason == RDL__EAR_FOR_ALL) {
        rdl__channel_close_ear(c);
        c->ear.reason = RDL__EAR_NOT;
    }
    rdl__list_push_back(&ws->lingering, &c->lingers);
    rdl__loop_timer(ws->loop, &c->hint, rdl__after_ms(now, rdl__news_linger_ms(c->news)));
    if (++ws->lingering_count > RDL__LINGER_MAX)
        rdl__channel_free(rdl__container(ws->lingering.next, struct rdl__channel, lingers));
}

static struct rdl__subscriber *subscriber_of(const struct rdl__channel *c)
{
    const struct rdl__waiters *ws = c->ws;

    return ws->sub_of == NULL ? ws->sub : ws->sub_of(ws->sub_of_arg, c->name, c->node.key_len);
}

static void subscribe(struct rdl__channel *c, int64_t now)
{
    c->sub = subscriber_of(c);
    rdl__subscriber_add(c->sub, &c->topic, now);
}

static struct rdl__channel *channel_new(struct rdl__waiters *ws, enum rdl__news news, const char *name, size_t len,
                                        int64_t now)
{
    size_t size = sizeof(struct rdl__channel) + len;
    struct rdl__channel *c = rdl__zalloc(ws->mem, size);

    if (c == NULL)
        return NULL;
    c->ws = ws;
    c->size = size;
    c->news = news;
    memcpy(c->name, name, len);
    c->node.key = c->topic.node.key = c->name;
    c->node.key_len = c->topic.node.key_len = (uint32_t)len;
    c->topic.ops = &rdl__news_topic_ops;
    rdl__channel_init_wakes(c);
    rdl__list_init(&c->lingers);
    rdl__table_add(&ws->channels, &c->node);
    if (rdl__news_heard(news))
        subscribe(c, now);
    return c;
}

void rdl__channel_drop(struct rdl__channel *c)
{
    if (rdl__link_on(&c->lingers))
        end_lingering(c);
    rdl__loop_timer_off(c->ws->loop, &c->hint);
    if (c->sub != NULL)
        rdl__subscriber_drop(c->sub, &c->topic);
    rdl__table_remove(&c->ws->channels, &c->node);
    rdl__free(c->ws->mem, c, c->size);
}

void rdl__channel_free(struct rdl__channel *c)
{
    (void)rdl__channel_unheard(c); /* nobody would hear of a turn any more */
    rdl__channel_close_ear(c);
    rdl__channel_drop(c);
}

/* A waiter has left: free the channel, or let it linger, if it was the last. */
static void waiter_left(struct rdl__channel *c, int64_t now)
{
    if (--c->waiters > 0)
        return;
    if (rdl__news_linger_ms(c->news) > 0 && !c->ws->closed)
        linger(c, now);
    else
        rdl__channel_free(c);
}

/* Where nothing is heard one asks for all, by turns, as often as all of them would: beside a process whose waiters each
 * ask, they would otherwise have the chances of one. */
static int64_t among_all(const struct rdl__channel *c, int64_t hint_ms)
{
    return !rdl__news_heard(c->news) && hint_ms > 0 ? hint_ms / c->waiters : hint_ms;
}

int rdl__channel_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, int64_t hint_ms,
                      int64_t now)
{
    struct rdl__table_node *n = rdl__table_find(&ws->channels, name, len);
    struct rdl__channel *c =
        n != NULL ? rdl__container(n, struct rdl__channel, node) : channel_new(ws, w->news, name, len, now);

    if (c == NULL)
        return RDL_ENOMEM;
    if (rdl__link_on(&c->lingers))
        end_lingering(c);
    w->channel = c;
    w->place = c->next_place++;
    c->waiters++;
    c->hearing += rdl__waiter_hears(w);
    c->sharing += !rdl__waiter_hears(w) && rdl__news_shares(w->news);
    rdl__channel_arm_sooner(c, among_all(c, hint_ms), now);
    if (c->topic.confirmed && rdl__news_may_have_missed(w)) {
        c->heard_at = now;
        w->news_at = 0;
        rdl__waiter_set_woken(w, true);
        return 1;
    }
    w->news_at = 0;
    rdl__waiter_sleep(w);
    return RDL_OK;
}

int rdl__waiters_init(struct rdl__waiters *ws, const struct rdl__mem *mem, struct rdl__loop *loop,
                      struct rdl__subscriber *sub)
{
    ws->mem = mem;
    ws->loop = loop;
    ws->sub = sub;
    rdl__list_init(&ws->lingering);
    rdl__waiters_init_wakes(ws);
    return rdl__table_init(&ws->channels, mem);
}

void rdl__waiters_spread(struct rdl__waiters *ws,
                         struct rdl__subscriber *(*of)(void *arg, const char *channel, size_t len), void *arg)
{
    ws->sub_of = of;
    ws->sub_of_arg = arg;
}

/* The acknowledgement from the other server makes sleepers try, so that no message in between is missed. */
void rdl__waiters_reroute(struct rdl__waiters *ws, int64_t now)
{
    struct rdl__table_node *n = NULL;

    rdl__assert_on_loop(ws->loop);
    while ((n = rdl__table_next(&ws->channels, n)) != NULL) {
        struct rdl__channel *c = rdl__container(n, struct rdl__channel, node);

        if (c->sub == NULL || subscriber_of(c) == c->sub)
            continue;
        rdl__subscriber_drop(c->sub, &c->topic);
        subscribe(c, now);
    }
}

void rdl__waiters_sweep(struct rdl__waiters *ws)
{
    rdl__assert_on_loop(ws->loop);
    while (!rdl__list_empty(&ws->lingering))
        rdl__channel_free(rdl__container(ws->lingering.next, struct rdl__channel, lingers));
}

void rdl__waiters_close(struct rdl__waiters *ws)
{
    rdl__assert_on_loop(ws->loop);
    ws->closed = true;
    rdl__waiters_sweep(ws);
}

void rdl__waiters_done(struct rdl__waiters *ws)
{
    rdl__table_done(&ws->channels);
}

int rdl__waiter_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, int64_t hint_ms,
                     int64_t now)
{
    int rc;

    rdl__assert_on_loop(ws->loop);
    rc = rdl__channel_join(ws, w, name, len, hint_ms, now);
    if (rc >= 0)
        rdl__channel_set_ear(w->channel, w, now);
    return rc;
}

void rdl__waiter_told(struct rdl__waiter *w, int64_t total)
{
    if (w->channel != NULL)
        rdl__assert_on_loop(w->channel->ws->loop);
    if (w->channel != NULL && w->epoch == w->channel->epoch)
        w->channel->known = total;
}

const char *rdl__waiter_message(const struct rdl__waiter *w, size_t *ret_len)
{
    if (w->channel != NULL)
        rdl__assert_on_loop(w->channel->ws->loop);
    *ret_len = w->channel == NULL ? 0 : w->channel->own.len;
    return w->channel == NULL ? NULL : w->channel->own.message;
}

void rdl__waiter_sent(struct rdl__waiter *w)
{
    if (w->channel != NULL)
        rdl__assert_on_loop(w->channel->ws->loop);
    if (w->channel != NULL)
        w->epoch = w->channel->epoch;
}

bool rdl__waiter_refused(struct rdl__waiter *w, int64_t hint_ms, int64_t now)
{
    struct rdl__channel *c = w->channel;

    rdl__assert_on_loop(c->ws->loop);
    if (w->epoch != c->epoch && !rdl__waiter_stands_back(w)) {
        w->news_at = c->news_at;
        return false;
    }
    rdl__waiter_sleep(w);
    if (rdl__waiter_hears(w))
        return true;
    rdl__channel_set_ear(c, w, now);
    rdl__channel_arm(c, among_all(c, hint_ms), now);
    if (rdl__news_count(c->news))
        rdl__channel_offer(c);
    return true;
}

static void tell_missed(const struct rdl__queue *q)
{
    for (struct rdl__link *l = q->waiters.next; l != &q->waiters; l = l->next) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        if (w->ops->missed != NULL)
            w->ops->missed(w);
    }
}

void rdl__waiters_missed(struct rdl__waiters *ws)
{
    rdl__assert_on_loop(ws->loop);
    for (struct rdl__table_node *node = rdl__table_next(&ws->channels, NULL); node != NULL;
         node = rdl__table_next(&ws->channels, node)) {
        const struct rdl__channel *c = rdl__container(node, struct rdl__channel, node);

        tell_missed(&c->sleepers);
        tell_missed(&c->sharers);
    }
}

void rdl__waiter_hint(struct rdl__waiter *w, int64_t hint_ms, int64_t now)
{
    if (w->channel != NULL)
        rdl__assert_on_loop(w->channel->ws->loop);
    if (w->channel != NULL && hint_ms >= 0)
        rdl__channel_arm_sooner(w->channel, among_all(w->channel, hint_ms), now);
}

void rdl__waiter_leave(struct rdl__waiter *w, bool used, int64_t now)
{
    struct rdl__channel *c = w->channel;
    bool was_woken = w->woken;

    if (c == NULL)
        return;
    rdl__assert_on_loop(c->ws->loop);
    rdl__waiter_off(w);
    w->channel = NULL;
    c->left = w->ops;
    c->hearing -= rdl__waiter_hears(w);
    c->sharing -= !rdl__waiter_hears(w) && rdl__news_shares(w->news);
    if (w->in_order)
        c->known = RDL__UNKNOWN; /* the first waiter now has not tried yet */
    if (used && c->lets_pass)
        c->look_at = 0;
    if (used)
        c->either.stands_back = c->lets_pass = false;
    if (used && rdl__news_shares(w->news))
        rdl__queue_wake_all(&c->sharers);
    else if (rdl__news_count(c->news) && (was_woken || w->in_order))
        rdl__channel_offer(c);
    else if (was_woken && !used)
        rdl__channel_wake_first(c);
    waiter_left(c, now);
}
