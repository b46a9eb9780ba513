/* waiters.c - channels, epochs and wake-ups.
 *
 * Why nobody sleeps beside a free lock. Each release publishes. A message, an acknowledged subscription and a timer that
 * has run out each wake the first sleeper; one who is woken either gets in (and its release publishes), or is refused by a
 * server that knew no later message (then somebody holds it, and that one's release publishes), or leaves and hands the
 * wake-up on. A refusal that a message has overtaken is no refusal: the epoch tells.
 *
 * So one who joins a confirmed channel on which others wait may go straight to sleep, without a try: whatever wakes the
 * others reaches it in turn. One who finds the channel confirmed and empty cannot happen: the last to leave unsubscribes.
 *
 * Where wishes differ, that is not enough: a message may have passed over the sleepers, because none of their wishes fitted,
 * just before somebody with a smaller wish joins. So who joins such a channel when it is confirmed tries once more. What is
 * known to be free, from a message or from the answer to a try, less what those who are trying may take of it, is offered to
 * the sleepers in order (offer). What is known may be older than a grant whose answer is on its way: that costs a try in
 * vain, never a wake-up. Where nobody may pass, only the first tries, and whoever leaves first place wakes the next.
 *
 * Where there are two sides, whoever wakes the first of one wakes the first of the other, because nobody here knows which of
 * them may come in. Who shares and is let in wakes all others who share.
 */
#include "core/service/waiters.h"

#include "core/wire/reply.h"

#include <redlatch/error.h>
#include <string.h>

struct rdl__channel {
    struct rdl__waiters *ws;
    struct rdl__table_node node;
    struct rdl__topic topic;
    bool subscribed;
    struct rdl__link sleepers;
    struct rdl__link sharers; /* sleepers who share */
    struct rdl__timer hint;
    enum rdl__news news; /* of those who wait here */
    unsigned waiters;    /* asleep and trying */
    uint32_t next_place; /* of who joins */
    uint64_t epoch;      /* raised by every message */
    int64_t known;       /* free, as far as is known; UNKNOWN */
    int64_t trying;      /* wishes of those who were woken */
    size_t size;
    char name[];
};

#define UNKNOWN INT64_C(-1)

static const struct rdl__topic_ops topic_ops;

static void channel_free(struct rdl__channel *c);

static struct rdl__link *list_of(struct rdl__channel *c, const struct rdl__waiter *w)
{
    return w->shares ? &c->sharers : &c->sleepers;
}

static void set_woken(struct rdl__waiter *w, bool woken)
{
    if (w->woken != woken)
        w->channel->trying += woken ? (int64_t)w->wish : -(int64_t)w->wish;
    w->woken = woken;
}

static void wake(struct rdl__waiter *w, int64_t now)
{
    rdl__list_remove(&w->link);
    set_woken(w, true);
    w->ops->go(w, now);
}

static struct rdl__waiter *first_in(struct rdl__link *sleepers)
{
    return rdl__list_empty(sleepers) ? NULL : rdl__container(sleepers->next, struct rdl__waiter, link);
}

static void wake_first_in(struct rdl__link *sleepers, int64_t now)
{
    struct rdl__waiter *w = first_in(sleepers);

    if (w != NULL)
        wake(w, now);
}

/* One that waited, or woke others, does so no more. */
static void release(struct rdl__channel *c)
{
    if (--c->waiters == 0)
        channel_free(c);
}

/* The first asleep, of each side. Whoever wakes up may leave, and the last one takes the channel with it. */
static void wake_first(struct rdl__channel *c, int64_t now)
{
    c->waiters++; /* so that the channel stays */
    wake_first_in(&c->sleepers, now);
    wake_first_in(&c->sharers, now);
    release(c);
}

/* The first sleeper whom the offer may reach and who fits into what is known to be free; NULL: none. */
static struct rdl__waiter *who_fits(struct rdl__channel *c)
{
    struct rdl__waiter *w = first_in(&c->sleepers);

    if (w == NULL || (w->in_order && c->trying > 0))
        return NULL;
    if (c->known == UNKNOWN)
        return c->trying > 0 ? NULL : w;
    if (w->in_order)
        return (int64_t)w->wish <= c->known ? w : NULL;
    for (struct rdl__link *l = c->sleepers.next; l != &c->sleepers; l = l->next) {
        w = rdl__container(l, struct rdl__waiter, link);
        if ((int64_t)w->wish <= c->known - c->trying)
            return w;
    }
    return NULL;
}

/* Wake, in order, all who fit. One who is woken may leave, and the last one takes the channel with it: that one ends this. */
static void offer(struct rdl__channel *c, int64_t now)
{
    struct rdl__waiter *w;

    c->waiters++; /* so that the channel stays */
    while ((w = who_fits(c)) != NULL)
        wake(w, now);
    release(c);
}

/* Everyone asleep now. */
static void wake_all(struct rdl__link *sleepers, int64_t now)
{
    struct rdl__link woken, *l;

    rdl__list_init(&woken);
    rdl__list_splice_front(&woken, sleepers);
    for (l = woken.next; l != &woken; l = l->next)
        set_woken(rdl__container(l, struct rdl__waiter, link), true);
    while ((l = rdl__list_pop(&woken)) != NULL) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        w->ops->go(w, now);
    }
}

/* Somebody should look, although nothing is known. */
static void wake_somebody(struct rdl__channel *c, int64_t now)
{
    const struct rdl__waiter *w = first_in(&c->sleepers);

    c->known = UNKNOWN;
    if (c->news == RDL__NEWS_ALL)
        wake_all(&c->sleepers, now);
    else if (w == NULL || !w->in_order || c->trying == 0)
        wake_first(c, now);
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
    wake_somebody(c, now);
}

static void on_subscribed(struct rdl__topic *topic, int64_t now)
{
    struct rdl__channel *c = rdl__container(topic, struct rdl__channel, topic);

    c->epoch++;
    wake_somebody(c, now);
}

/* `0` and `1` on a channel where they are commands. */
static void on_command(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    if (len != 1 || (payload[0] != '0' && payload[0] != '1'))
        return;
    c->epoch++;
    if (payload[0] == '1')
        wake_all(&c->sleepers, now);
    else
        wake_first(c, now);
}

static void on_total(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    const struct rdl__reply text = {.type = RDL__REPLY_STRING, .str = payload, .len = len};
    int64_t total;

    if (!rdl__reply_integer(&text, &total) || total <= 0)
        return;
    c->epoch++;
    if (c->news == RDL__NEWS_SOME) {
        wake_somebody(c, now);
        return;
    }
    c->known = total;
    offer(c, now);
}

static void on_message(struct rdl__topic *topic, const char *payload, size_t len, int64_t now)
{
    struct rdl__channel *c = rdl__container(topic, struct rdl__channel, topic);

    if (c->news == RDL__NEWS_WAKE) {
        on_command(c, payload, len, now);
    } else if (c->news == RDL__NEWS_ALL) {
        c->epoch++;
        wake_all(&c->sleepers, now);
    } else if (c->news == RDL__NEWS_SIDES) {
        c->epoch++;
        wake_first(c, now);
    } else {
        on_total(c, payload, len, now);
    }
}

static const struct rdl__topic_ops topic_ops = {.subscribed = on_subscribed, .message = on_message};

static struct rdl__channel *channel_new(struct rdl__waiters *ws, enum rdl__news news, const char *name, size_t len,
                                        bool subscribed, int64_t now)
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
    rdl__list_init(&c->sleepers);
    rdl__list_init(&c->sharers);
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

/* May a message have passed over the sleepers, or let others in who share, between the waiter's refusal and its joining? */
static bool may_have_missed(const struct rdl__waiter *w)
{
    switch ((enum rdl__news)w->news) {
    case RDL__NEWS_WAKE:
        return false;
    case RDL__NEWS_SIDES:
        return w->shares;
    default:
        return !w->in_order;
    }
}

int rdl__waiter_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, bool subscribed,
                     int64_t hint_ms, int64_t now)
{
    struct rdl__table_node *n = rdl__table_find(&ws->channels, name, len);
    struct rdl__channel *c =
        n != NULL ? rdl__container(n, struct rdl__channel, node) : channel_new(ws, w->news, name, len, subscribed, now);

    if (c == NULL)
        return RDL_ENOMEM;
    w->channel = c;
    w->place = c->next_place++;
    c->waiters++;
    arm_sooner(c, hint_ms, now);
    if (c->topic.confirmed && may_have_missed(w)) {
        set_woken(w, true);
        return 1;
    }
    rdl__list_push_back(list_of(c, w), &w->link);
    return RDL_OK;
}

void rdl__waiter_told(struct rdl__waiter *w, int64_t total)
{
    if (w->channel != NULL && w->epoch == w->channel->epoch)
        w->channel->known = total;
}

/* Back among the sleepers, to where it came. */
static void sleep_again(struct rdl__link *sleepers, struct rdl__waiter *w)
{
    struct rdl__link *l = sleepers->next;

    while (l != sleepers && (int32_t)(rdl__container(l, struct rdl__waiter, link)->place - w->place) < 0)
        l = l->next;
    rdl__list_insert_before(l, &w->link);
}

static bool wishes_differ(const struct rdl__channel *c)
{
    return c->news == RDL__NEWS_TOTAL || c->news == RDL__NEWS_SOME;
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
    set_woken(w, false);
    sleep_again(list_of(c, w), w);
    arm(c, hint_ms, now);
    if (wishes_differ(c))
        offer(c, now);
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
    bool was_woken = w->woken;

    if (c == NULL)
        return;
    rdl__list_remove(&w->link);
    set_woken(w, false);
    w->channel = NULL;
    if (w->in_order)
        c->known = UNKNOWN; /* whoever is first now has not tried yet */
    if (used && w->shares)
        wake_all(&c->sharers, now);
    else if (wishes_differ(c) && (was_woken || w->in_order))
        offer(c, now);
    else if (was_woken && !used)
        wake_first(c, now);
    release(c);
}
