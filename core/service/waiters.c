/* SPDX-License-Identifier: MIT */
/* waiters.c - channels, epochs and wake-ups.
 *
 * Why no waiter sleeps beside a free lock. Each release publishes. A message, an acknowledged subscription and the
 * timer each wake the first sleeper. A woken waiter gets the lock (and its release publishes), or is refused by a
 * server that has published nothing since (then there is a holder, whose release publishes), or leaves and hands the
 * wake-up on. A refusal counts only if no message has come since its try was sent: the channel's epoch tells.
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
 * more. The number known to be free, from a message or from the answer to a try, less the wishes of waiters
 * that are trying, is offered to the sleepers in order (offer). That number may be older than a grant whose answer is
 * under way: the cost is a refused try, never a lost wake-up. With in_order only the first waiter tries, and when it
 * leaves it wakes the next.
 *
 * Listeners do not count in any of this. So a waiter that finds only listeners is the first to wait, and tries once
 * more if the channel is confirmed, because a message after its refusal found no waiter to wake.
 *
 * With readers and writers, whatever wakes the first of one wakes the first of the other, because it is not known here
 * which of them will be granted. A reader that is granted wakes all other readers.
 *
 * Ours are faster than Java's, whose writers would have few turns. So behind a release by which ours have had more than
 * Java's (on_either), nobody tries for a moment: until the hint, or the next message, which may be Java's release. Whom
 * it would have woken sleeps on, and the hint is armed.
 *
 * A waiter is woken by putting it on a list, which the loop empties before it sleeps, in on_woken alone. So there is no
 * recursion where one waiter that is woken leaves and wakes the next, and so on. A waiter that leaves while it is on
 * the list hands its wake-up on like any other.
 *
 * There may be 100,000 waiters. So only waking all visits all of them: a waiter that goes back to sleep searches its
 * place from where the last one went (struct queue), and an offer that is smaller than every wish visits none.
 */
#include "core/service/waiters.h"

#include "core/wire/reply.h"

#include <redlatch/error.h>
#include <string.h>

/* Sleepers in the order of joining. */
struct queue {
    struct rdl__link waiters;
    struct rdl__link *last; /* where the last one was inserted, or the head: the next one's place is often beside it */
};

struct rdl__channel {
    struct rdl__waiters *ws;
    struct rdl__table_node node;
    struct rdl__topic topic;
    struct rdl__subscriber *sub; /* while subscribed */
    bool subscribed;
    unsigned char heard; /* RDL__NEWS_ALONE: messages since it lingers */
    struct queue sleepers;
    struct queue sharers; /* and those that are let in beside others: rdl__news_shares */
    struct queue listeners;
    struct rdl__link lingers; /* on waiters->lingering */
    struct rdl__timer hint;   /* the first sleeper is woken; or the end of its lingering */
    enum rdl__news news;      /* the same for all waiters here */
    unsigned waiters;         /* asleep or trying, listeners included */
    unsigned listening;       /* how many of them are listeners */
    unsigned sharing;         /* and how many are let in beside others */
    uint32_t next_place;      /* for the next that joins */
    uint32_t epoch;           /* raised by every message */
    struct rdl__waiter ear;   /* RDL__NEWS_NAMED: on the lock's channel, if it has joined */
    uint32_t ear_lost;        /* likewise: how often it has heard something since it has joined */
    bool ear_for_all;         /* likewise: of RDL__EAR_FOR_ALL */
    bool outside;             /* likewise: the line, which it may not enter (RDL__EAR_OUTSIDE) */
    int64_t ear_heard_at;     /* likewise: when the ear last heard what concerned it */
    int64_t look_at;          /* likewise: the first sleeper is woken then at the latest; 0: it need not */
    bool by_name;             /* RDL__NEWS_WAKE: the next `0` is none of the ears' business */
    bool one;                 /* RDL__NEWS_ALONE and _SHARED: the last message was a `1` */
    signed char lead;         /* likewise: so many turns more than Java's writers ours have had */
    unsigned char turns;      /* likewise: so many are left to Java's until these are heard again */
    bool stands_back;         /* likewise: nobody tries before the hint or the next message */
    int64_t known;            /* how many are free; UNKNOWN */
    int64_t trying;           /* sum of the woken waiters' wishes */
    uint32_t least;           /* no sleeper's wish is smaller */
    int64_t heard_at; /* when the last message or acknowledgement came; RDL__NEVER: one whose turn was missed, perhaps,
                         so who joins next tries */
    const struct rdl__waiter_ops *left; /* RDL__NEWS_NAMED: of the last one that has left */
    int64_t news_at; /* the message that wakes waiters now: when it came; 0: the timer or an acknowledgement
                        does */
    size_t size;
    size_t message_len;
    char message[RDL__MESSAGE_KEPT]; /* RDL__NEWS_OWN: the last message */
    char name[];
};

#define UNKNOWN INT64_C(-1)
#define TURNS 4 /* the most that are counted */

static const struct rdl__topic_ops topic_ops;

static void channel_free(struct rdl__channel *c);
static void close_ear(struct rdl__channel *c);

static void queue_init(struct queue *q)
{
    rdl__list_init(&q->waiters);
    q->last = &q->waiters;
}

static struct queue *queue_of(struct rdl__channel *c, const struct rdl__waiter *w)
{
    if (w->listens)
        return &c->listeners;
    return rdl__news_shares(w->news) ? &c->sharers : &c->sleepers;
}

static struct rdl__waiter *first_in(const struct queue *q)
{
    struct rdl__link *l = rdl__list_first(&q->waiters);

    return l == NULL ? NULL : rdl__container(l, struct rdl__waiter, link);
}

/* Did the one at `l` join after w? */
static bool joined_after(const struct rdl__link *l, const struct rdl__waiter *w)
{
    return (int32_t)(rdl__container(l, struct rdl__waiter, link)->place - w->place) > 0;
}

/* Insert it in the order of joining, searching from q->last. */
static void insert(struct queue *q, struct rdl__waiter *w)
{
    struct rdl__link *l = q->last;

    while (l != &q->waiters && joined_after(l, w))
        l = l->prev;
    while (l->next != &q->waiters && !joined_after(l->next, w))
        l = l->next;
    rdl__list_insert_before(l->next, &w->link);
    q->last = &w->link;
}

/* Put it to sleep in the order of joining: the first time, or again. */
static void sleep_on(struct rdl__channel *c, struct rdl__waiter *w)
{
    struct queue *q = queue_of(c, w);

    if (rdl__list_empty(&q->waiters) || !joined_after(q->waiters.prev, w))
        rdl__list_push_back(&q->waiters, &w->link);
    else
        insert(q, w);
    if (w->wish < c->least)
        c->least = w->wish;
}

/* Take it off its list, the sleepers' or the woken. */
static void off(struct rdl__waiter *w)
{
    struct queue *q = queue_of(w->channel, w);

    if (q->last == &w->link)
        q->last = w->link.prev;
    rdl__list_remove(&w->link);
}

static void set_woken(struct rdl__waiter *w, bool woken)
{
    if (w->woken != woken)
        w->channel->trying += woken ? (int64_t)w->wish : -(int64_t)w->wish;
    w->woken = woken;
}

static void wake(struct rdl__waiter *w)
{
    struct rdl__waiters *ws = w->channel->ws;

    off(w);
    set_woken(w, true);
    w->news_at = w->channel->news_at;
    rdl__list_push_back(&ws->woken, &w->link);
    rdl__loop_later(ws->loop, &ws->task);
}

static void wake_first_in(const struct queue *q)
{
    struct rdl__waiter *w = first_in(q);

    if (w != NULL)
        wake(w);
}

/* Wake the first sleeper of each side. */
static void wake_first(const struct rdl__channel *c)
{
    wake_first_in(&c->sleepers);
    wake_first_in(&c->sharers);
}

/* Wake all that sleep now. */
static void wake_all(const struct queue *q)
{
    struct rdl__waiter *w;

    while ((w = first_in(q)) != NULL)
        wake(w);
}

/* Run ops->go of all that are woken, including those that these wake. */
static void on_woken(struct rdl__task *task, int64_t now)
{
    struct rdl__waiters *ws = rdl__container(task, struct rdl__waiters, task);
    struct rdl__link *l;

    while ((l = rdl__list_pop(&ws->woken)) != NULL) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        if (w->channel->stands_back && !w->listens) { /* it is Java's turn */
            set_woken(w, false);
            sleep_on(w->channel, w);
        } else {
            w->ops->go(w, now);
        }
    }
}

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
    c->heard = 0;
    c->one = c->stands_back = false;
    if (c->ear_for_all)
        close_ear(c);
    c->ear_for_all = false;
    rdl__list_push_back(&ws->lingering, &c->lingers);
    rdl__loop_timer(ws->loop, &c->hint,
                    rdl__after_ms(now, c->news == RDL__NEWS_OWN ? RDL__LINGER_MS : RDL__CLIENT_LINGER_MS));
    if (++ws->lingering_count > RDL__LINGER_MAX)
        channel_free(rdl__container(ws->lingering.next, struct rdl__channel, lingers));
}

/* A waiter has left: free the channel, or let it linger, if it was the last. */
static void waiter_left(struct rdl__channel *c, int64_t now)
{
    if (--c->waiters > 0)
        return;
    if (rdl__news_lingers(c->news) && !c->ws->closed)
        linger(c, now);
    else
        channel_free(c);
}

/* Wake, in order, all sleepers whose wishes fit into what is known to be free, less what woken waiters may take. */
static void offer_all(struct rdl__channel *c)
{
    struct rdl__link *l = c->sleepers.waiters.next;
    int64_t left = c->known - c->trying;
    uint32_t least = UINT32_MAX;

    if (left < (int64_t)c->least)
        return;
    while (l != &c->sleepers.waiters && left > 0) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        l = l->next;
        if ((int64_t)w->wish <= left) {
            left -= (int64_t)w->wish;
            wake(w);
        } else if (w->wish < least) {
            least = w->wish;
        }
    }
    if (l == &c->sleepers.waiters)
        c->least = least;
}

/* Wake the sleepers that may get what is known to be free. */
static void offer(struct rdl__channel *c)
{
    struct rdl__waiter *w = first_in(&c->sleepers);

    if (w == NULL)
        return;
    if (c->known != UNKNOWN && !w->in_order)
        offer_all(c);
    else if (c->trying == 0 && (c->known == UNKNOWN || (int64_t)w->wish <= c->known))
        wake(w);
}

/* Does every message wake all waiters? */
static bool wakes_all(const struct rdl__channel *c)
{
    return c->news == RDL__NEWS_ALL || c->news == RDL__NEWS_OWN;
}

static bool wishes_differ(const struct rdl__channel *c)
{
    return c->news == RDL__NEWS_TOTAL || c->news == RDL__NEWS_SOME;
}

/* Without knowing what is free: wake the first sleeper, or all where every message does. */
static void wake_next(struct rdl__channel *c)
{
    const struct rdl__waiter *w = first_in(&c->sleepers);

    c->known = UNKNOWN;
    if (wakes_all(c))
        wake_all(&c->sleepers);
    else if (w == NULL || !w->in_order || c->trying == 0)
        wake_first(c);
}

static void arm(struct rdl__channel *c, int64_t hint_ms, int64_t now)
{
    int64_t at;

    if (hint_ms < 0 || hint_ms > RDL__HINT_MAX_MS)
        hint_ms = RDL__HINT_MAX_MS;
    if (hint_ms < 1)
        hint_ms = 1;
    at = rdl__after_ms(now, hint_ms);
    rdl__loop_timer(c->ws->loop, &c->hint, c->look_at > 0 && c->look_at < at ? c->look_at : at);
}

/* Where nothing is heard one asks for all, by turns, as often as all of them would: beside a process whose waiters each
 * ask, they would otherwise have the chances of one. */
static int64_t among_all(const struct rdl__channel *c, int64_t hint_ms)
{
    return c->news == RDL__NEWS_NONE && hint_ms > 0 ? hint_ms / c->waiters : hint_ms;
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

    if (c->waiters == 0) {
        channel_free(c);
        return;
    }
    c->news_at = c->look_at = 0;
    c->stands_back = false;
    arm(c, RDL__HINT_MAX_MS, now); /* until the answer to the try sets another time */
    wake_next(c);
}

/* What was heard, or may not have been, makes sleepers try. */
static void retry(struct rdl__channel *c, int64_t now)
{
    c->epoch++;
    c->heard_at = now;
    c->news_at = 0;
    c->one = c->stands_back = false;
    if (c->waiters == 0) { /* it lingers; a turn may have been missed */
        if (c->news == RDL__NEWS_NAMED)
            c->heard_at = RDL__NEVER;
        return;
    }
    wake_next(c);
    wake_all(&c->listeners);
}

static void on_subscribed(struct rdl__topic *topic, int64_t now)
{
    retry(rdl__container(topic, struct rdl__channel, topic), now);
}

void rdl__waiters_retry(struct rdl__waiters *ws, const char *name, size_t len, int64_t now)
{
    struct rdl__table_node *n = rdl__table_find(&ws->channels, name, len);

    rdl__assert_on_loop(ws->loop);
    if (n != NULL)
        retry(rdl__container(n, struct rdl__channel, node), now);
}

void rdl__waiters_retry_all(struct rdl__waiters *ws, int64_t now)
{
    rdl__assert_on_loop(ws->loop);
    for (struct rdl__table_node *n = rdl__table_next(&ws->channels, NULL); n != NULL;
         n = rdl__table_next(&ws->channels, n)) {
        struct rdl__channel *c = rdl__container(n, struct rdl__channel, node);

        if (c->news == RDL__NEWS_NAMED)
            retry(c, now);
    }
}

/* RDL__NEWS_WAKE. */
static void on_command(struct rdl__channel *c, const char *payload, size_t len)
{
    if (len != 1 || (payload[0] != '0' && payload[0] != '1'))
        return;
    c->epoch++;
    if (payload[0] == '1')
        wake_all(&c->sleepers);
    else
        wake_first(c);
}

/* The first sleeper tries after that time, at the latest. */
static void look_after(struct rdl__channel *c, int64_t ms, int64_t now)
{
    c->look_at = rdl__after_ms(now, ms);
    arm_sooner(c, ms, now);
}

/* RDL__NEWS_NAMED. */
static void on_named(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    if (len == 1 && payload[0] == '0') {
        c->epoch++;
        wake_first(c);
    } else if (len == 1 && payload[0] == '3') {
        look_after(c, RDL__LOOK_MS, now);
    } else if (len == 1 && payload[0] == '4') {
        c->epoch++;
        look_after(c, RDL__TURN_MS, now);
    }
}

static void on_total(struct rdl__channel *c, const char *payload, size_t len)
{
    const struct rdl__reply text = {.type = RDL__REPLY_STRING, .str = payload, .len = len};
    int64_t total;

    if (!rdl__reply_integer(&text, &total) || total <= 0)
        return;
    c->epoch++;
    if (c->news == RDL__NEWS_SOME) {
        wake_next(c);
        return;
    }
    c->known = total;
    offer(c);
}

/* RDL__NEWS_ALONE and _SHARED. A writer of Java's frees it by `1` alone, one of ours by `1` and `0`. Any `0` that is
 * the next message counts as ours, a reader's behind Java's `1` as well, which costs Java that turn. */
static void on_either(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    bool ours = c->one && len == 1 && payload[0] == '0';

    c->epoch++;
    if (ours && c->lead < TURNS) {
        c->lead++;
    } else if (c->one && !ours) {
        c->turns = TURNS;
        if (c->lead > -TURNS)
            c->lead--;
    }
    c->one = len == 1 && payload[0] == '1';
    c->stands_back = ours && c->lead > 0 && c->turns > 0;
    if (c->stands_back) {
        c->turns--;
        look_after(c, RDL__TURN_MS, now); /* whoever is refused meanwhile */
    } else {
        wake_first(c);
    }
}

static void keep_message(struct rdl__channel *c, const char *payload, size_t len)
{
    c->message_len = len < RDL__MESSAGE_KEPT ? len : RDL__MESSAGE_KEPT;
    memcpy(c->message, payload, c->message_len);
}

static void wake_by(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    if (c->news == RDL__NEWS_WAKE) {
        on_command(c, payload, len);
    } else if (c->news == RDL__NEWS_NAMED) {
        on_named(c, payload, len, now);
    } else if (wakes_all(c)) {
        c->epoch++;
        wake_all(&c->sleepers);
    } else if (wishes_differ(c)) {
        on_total(c, payload, len);
    } else {
        on_either(c, payload, len, now);
    }
}

/* A release has woken the first in line by name. A client that may not enter the line tries 2 ms later (protocol.md, 5,
 * rule 11): after that one, which tries at once, and before it if that was told to wait for RDL__TURN_MS. */
static void on_anothers_turn(struct rdl__channel *c, int64_t now)
{
    if (!c->outside)
        return;
    c->epoch++;
    look_after(c, RDL__TURN_MS / 2, now);
}

/* On a lock's channel `2` says that the `0` behind it is no news for ears: the first in line was woken by name. */
static void wake_listeners(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    bool by_name = c->by_name;
    struct rdl__link *l = c->listeners.waiters.next;

    c->by_name = c->news == RDL__NEWS_WAKE && len == 1 && payload[0] == '2';
    while (!c->by_name && l != &c->listeners.waiters) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        l = l->next;
        if (!w->is_ear || !by_name)
            wake(w);
        else
            on_anothers_turn(rdl__container(w, struct rdl__channel, ear), now);
    }
}

static void on_message(struct rdl__topic *topic, const char *payload, size_t len, int64_t now)
{
    struct rdl__channel *c = rdl__container(topic, struct rdl__channel, topic);

    c->heard_at = c->news_at = now;
    if (c->news == RDL__NEWS_OWN)
        keep_message(c, payload, len);
    if (c->waiters == 0) { /* it lingers; not for long, or each release would go to all who have waited lately */
        if (c->news == RDL__NEWS_NAMED && len == 1 && payload[0] != '3' && c->left->unheard != NULL &&
            !c->left->unheard(c->ws, c->name, c->node.key_len))
            c->heard_at = RDL__NEVER;
        if (c->news == RDL__NEWS_ALONE && ++c->heard == RDL__LINGER_HEARD)
            rdl__loop_timer(c->ws->loop, &c->hint, now);
        return;
    }
    wake_by(c, payload, len, now);
    wake_listeners(c, payload, len, now);
}

static const struct rdl__topic_ops topic_ops = {.subscribed = on_subscribed, .message = on_message};

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
    c->known = UNKNOWN;
    memcpy(c->name, name, len);
    c->node.key = c->topic.node.key = c->name;
    c->node.key_len = c->topic.node.key_len = (uint32_t)len;
    c->topic.ops = &topic_ops;
    c->least = UINT32_MAX;
    queue_init(&c->sleepers);
    queue_init(&c->sharers);
    queue_init(&c->listeners);
    rdl__list_init(&c->lingers);
    rdl__timer_init(&c->hint, on_hint);
    rdl__table_add(&ws->channels, &c->node);
    c->subscribed = news != RDL__NEWS_NONE;
    if (c->subscribed)
        subscribe(c, now);
    return c;
}

/* The lock was freed by somebody who does not know the line, or its channel was subscribed to. */
static void on_ear(struct rdl__waiter *ear, int64_t now)
{
    struct rdl__channel *c = rdl__container(ear, struct rdl__channel, ear);

    rdl__waiter_sent(ear);
    (void)rdl__waiter_refused(ear, -1, now);
    c->epoch++;
    c->ear_lost++;
    c->heard_at = c->news_at = c->ear_heard_at = now;
    wake_first(c);
}

static const struct rdl__waiter_ops ear_ops = {.go = on_ear};

static int join_channel(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, int64_t hint_ms,
                        int64_t now);

static void drop_channel(struct rdl__channel *c)
{
    if (rdl__link_on(&c->lingers))
        end_lingering(c);
    rdl__loop_timer_off(c->ws->loop, &c->hint);
    if (c->subscribed)
        rdl__subscriber_drop(c->sub, &c->topic);
    rdl__table_remove(&c->ws->channels, &c->node);
    rdl__free(c->ws->mem, c, c->size);
}

static void close_ear(struct rdl__channel *c)
{
    struct rdl__channel *shared = c->ear.channel;

    if (shared == NULL)
        return;
    off(&c->ear);
    c->ear.channel = NULL;
    shared->listening--;
    if (--shared->waiters == 0)
        drop_channel(shared);
}

/* As the waiter was told. An ear that has heard nobody for long is closed when the present holder's release reads the
 * line: a release counts who listens. Without memory the timer stands in. */
static void set_ear(struct rdl__channel *c, const struct rdl__waiter *w, int64_t now)
{
    if (w->own_tail == 0 || !w->entered)
        return;
    if (w->ear_for == RDL__EAR_NOT && (c->ear_for_all || now >= rdl__after_ms(c->ear_heard_at, RDL__EAR_MS)))
        close_ear(c);
    c->ear_for_all = w->ear_for == RDL__EAR_FOR_ALL && (c->ear_for_all || c->ear.channel == NULL);
    if (w->ear_for == RDL__EAR_PEER && c->ear_lost >= RDL__EAR_LOST)
        close_ear(c);
    c->outside = w->ear_for == RDL__EAR_OUTSIDE;
    if (w->ear_for == RDL__EAR_NOT || c->ear.channel != NULL)
        return;
    c->ear_lost = 0;
    rdl__waiter_init(&c->ear, &ear_ops);
    c->ear.listens = c->ear.is_ear = true;
    if (join_channel(c->ws, &c->ear, c->name, c->node.key_len - w->own_tail, -1, now) == 1) {
        sleep_on(c->ear.channel, &c->ear);
        wake(&c->ear);
    }
}

static void channel_free(struct rdl__channel *c)
{
    if (c->news == RDL__NEWS_NAMED && c->left != NULL && c->left->unheard != NULL)
        (void)c->left->unheard(c->ws, c->name, c->node.key_len); /* nobody would hear of a turn any more */
    close_ear(c);
    drop_channel(c);
}

int rdl__waiters_init(struct rdl__waiters *ws, const struct rdl__mem *mem, struct rdl__loop *loop,
                      struct rdl__subscriber *sub)
{
    ws->mem = mem;
    ws->loop = loop;
    ws->sub = sub;
    rdl__list_init(&ws->lingering);
    rdl__list_init(&ws->woken);
    rdl__task_init(&ws->task, on_woken);
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

        if (!c->subscribed || subscriber_of(c) == c->sub)
            continue;
        rdl__subscriber_drop(c->sub, &c->topic);
        subscribe(c, now);
    }
}

void rdl__waiters_sweep(struct rdl__waiters *ws)
{
    rdl__assert_on_loop(ws->loop);
    while (!rdl__list_empty(&ws->lingering))
        channel_free(rdl__container(ws->lingering.next, struct rdl__channel, lingers));
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

/* May a message between the waiter's refusal and its joining have been meant for it: one that woke no sleeper, that
 * woke other readers only, or that found no waiter? */
static bool may_have_missed(const struct rdl__waiter *w)
{
    bool first = w->channel->waiters - w->channel->listening <= 1;

    if (w->listens)
        return true;
    switch ((enum rdl__news)w->news) {
    case RDL__NEWS_WAKE:
        return first && w->channel->listening > 0;
    case RDL__NEWS_ALONE: /* a message that found readers alone; who shares what a client keeps publishes no release */
        return w->channel->waiters == 1 ? w->channel->heard_at >= w->tried_at
                                        : w->channel->waiters - w->channel->listening - w->channel->sharing <= 1;
    case RDL__NEWS_OWN:
        return w->channel->heard_at >= w->tried_at;
    case RDL__NEWS_NAMED:
        return first && (!w->entered || w->channel->heard_at >= w->tried_at);
    case RDL__NEWS_SHARED:
        return true;
    default:
        return !w->in_order;
    }
}

static int join_channel(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, int64_t hint_ms,
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
    c->listening += w->listens;
    c->sharing += !w->listens && rdl__news_shares(w->news);
    arm_sooner(c, among_all(c, hint_ms), now);
    if (c->topic.confirmed && may_have_missed(w)) {
        c->heard_at = now;
        w->news_at = 0;
        set_woken(w, true);
        return 1;
    }
    w->news_at = 0;
    sleep_on(c, w);
    return RDL_OK;
}

int rdl__waiter_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, int64_t hint_ms,
                     int64_t now)
{
    int rc;

    rdl__assert_on_loop(ws->loop);
    rc = join_channel(ws, w, name, len, hint_ms, now);
    if (rc >= 0)
        set_ear(w->channel, w, now);
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
    *ret_len = w->channel == NULL ? 0 : w->channel->message_len;
    return w->channel == NULL ? NULL : w->channel->message;
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
    if (w->epoch != c->epoch) {
        w->news_at = c->news_at;
        return false;
    }
    set_woken(w, false);
    sleep_on(c, w);
    if (w->listens)
        return true;
    set_ear(c, w, now);
    arm(c, among_all(c, hint_ms), now);
    if (wishes_differ(c))
        offer(c);
    return true;
}

static void tell_missed(const struct queue *q)
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
        arm_sooner(w->channel, hint_ms, now);
}

void rdl__waiter_leave(struct rdl__waiter *w, bool used, int64_t now)
{
    struct rdl__channel *c = w->channel;
    bool was_woken = w->woken;

    if (c == NULL)
        return;
    rdl__assert_on_loop(c->ws->loop);
    off(w);
    set_woken(w, false);
    w->channel = NULL;
    c->left = w->ops;
    c->listening -= w->listens;
    c->sharing -= !w->listens && rdl__news_shares(w->news);
    if (w->in_order)
        c->known = UNKNOWN; /* the first waiter now has not tried yet */
    if (used)
        c->stands_back = false;
    if (used && w->news == RDL__NEWS_SHARED)
        wake_all(&c->sharers);
    else if (wishes_differ(c) && (was_woken || w->in_order))
        offer(c);
    else if (was_woken && !used)
        wake_first(c);
    waiter_left(c, now);
}
