/* SPDX-License-Identifier: MIT */
/* waiters_news.c - what a message means on each kind of channel, and what somebody who joins may have missed. Kinds are
 * told apart here and in waiters_news.h alone.
 *
 * With readers and writers, whatever wakes the first of one wakes the first of the other, because it is not known here
 * which of them will be granted. A reader that is granted wakes all other readers.
 *
 * Ours are faster than Java's, whose writers would have few turns. So behind a release by which ours have had more than
 * Java's (on_either), nobody tries for a moment: until the hint, or the next message, which may be Java's release. Whom
 * it would have woken sleeps on, and the hint is armed. So it is where a waiter's client lets others have it, whose
 * sleepers are not woken at the next message either then, unless that is for them (rdl__channel_lets_pass).
 */
#include "core/service/waiters_inner.h"

#include "core/wire/reply.h"

#include <string.h>

#define TURNS 4 /* the most that are counted */

/* ---- messages --------------------------------------------------------------------------------------------------- */

/* RDL__NEWS_WAKE. */
static void on_command(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    if (len != 1 || (payload[0] != '0' && payload[0] != '1'))
        return;
    c->epoch++;
    if (payload[0] == '1') {
        c->lets_pass = false;
        rdl__queue_wake_all(&c->sleepers);
    } else if (!rdl__channel_lets_pass(c, 1, now)) {
        rdl__channel_wake_first(c);
    }
}

/* RDL__NEWS_NAMED. */
static void on_named(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    if (len == 1 && payload[0] == '0') {
        c->epoch++;
        rdl__channel_wake_first(c);
    } else if (len == 1 && payload[0] == '3') {
        rdl__channel_look_after(c, RDL__LOOK_MS, now);
    } else if (len == 1 && payload[0] == '4') {
        c->epoch++;
        rdl__channel_look_after(c, RDL__TURN_MS, now);
    }
}

static void on_total(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    const struct rdl__reply text = {.type = RDL__REPLY_STRING, .str = payload, .len = len};
    int64_t total;

    if (!rdl__reply_integer(&text, &total) || total <= 0)
        return;
    c->epoch++;
    if (rdl__channel_lets_pass(c, total, now))
        return;
    if (c->news == RDL__NEWS_SOME) {
        rdl__channel_wake_next(c);
        return;
    }
    c->known = total;
    rdl__channel_offer(c);
}

/* RDL__NEWS_ALONE and _SHARED. A writer of Java's frees it by `1` alone, one of ours by `1` and `0`. Any `0` that is
 * the next message counts as ours, a reader's behind Java's `1` as well, which costs Java that turn. Writers let only
 * writers pass, each of whom says one `1`: those that read have come in together. */
static void on_either(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    bool ours = c->either.one && len == 1 && payload[0] == '0';
    bool others;

    c->epoch++;
    if (ours && c->either.lead < TURNS) {
        c->either.lead++;
    } else if (c->either.one && !ours) {
        c->either.turns = TURNS;
        if (c->either.lead > -TURNS)
            c->either.lead--;
    }
    c->either.one = len == 1 && payload[0] == '1';
    others = c->either.one ? rdl__channel_lets_pass(c, 1, now) : ours && c->lets_pass;
    c->lets_pass = others;
    c->either.stands_back = ours && c->either.lead > 0 && c->either.turns > 0;
    if (c->either.stands_back) {
        c->either.turns--;
        /* whoever is refused meanwhile; but for no longer than since it first let others pass */
        rdl__channel_look_at(c, rdl__after_ms(others ? c->passing_since : now, RDL__TURN_MS), now);
    } else if (!others) {
        rdl__channel_wake_first(c);
    }
}

static void keep_message(struct rdl__channel *c, const char *payload, size_t len)
{
    c->own.len = len < RDL__MESSAGE_KEPT ? len : RDL__MESSAGE_KEPT;
    memcpy(c->own.message, payload, c->own.len);
}

static void wake_by(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    if (c->news == RDL__NEWS_WAKE) {
        on_command(c, payload, len, now);
    } else if (c->news == RDL__NEWS_NAMED) {
        on_named(c, payload, len, now);
    } else if (rdl__news_wake_all(c->news)) {
        c->epoch++;
        rdl__queue_wake_all(&c->sleepers);
    } else if (rdl__news_count(c->news)) {
        on_total(c, payload, len, now);
    } else {
        on_either(c, payload, len, now);
    }
}

/* A release has woken the first in line by name. A client that may not enter the line tries 2 ms later (protocol.md, 5,
 * rule 11): after that one, which tries at once, and before it if that was told to wait for RDL__TURN_MS. */
static void on_anothers_turn(struct rdl__channel *c, int64_t now)
{
    if (c->ear.reason != RDL__EAR_OUTSIDE)
        return;
    c->epoch++;
    rdl__channel_look_after(c, RDL__TURN_MS / 2, now);
}

/* On a lock's channel `2` says that the `0` behind it is no news for ears: the first in line was woken by name. */
static void wake_hearers(struct rdl__channel *c, const char *payload, size_t len, int64_t now)
{
    bool by_name = c->by_name;
    struct rdl__link *l = c->hearers.waiters.next;

    c->by_name = c->news == RDL__NEWS_WAKE && len == 1 && payload[0] == '2';
    while (!c->by_name && l != &c->hearers.waiters) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        l = l->next;
        if (!w->is_ear || !by_name)
            rdl__waiter_wake(w);
        else
            on_anothers_turn(rdl__container(w, struct rdl__channel, ear.waiter), now);
    }
}

bool rdl__channel_unheard(struct rdl__channel *c)
{
    return c->news != RDL__NEWS_NAMED || c->left == NULL || c->left->unheard == NULL ||
           c->left->unheard(c->ws, c->name, c->node.key_len);
}

static void on_message(struct rdl__topic *topic, const char *payload, size_t len, int64_t now)
{
    struct rdl__channel *c = rdl__container(topic, struct rdl__channel, topic);

    c->heard_at = c->news_at = now;
    if (c->news == RDL__NEWS_OWN)
        keep_message(c, payload, len);
    if (c->waiters == 0) { /* it lingers; not for long, or each release would go to all who have waited lately */
        if (len == 1 && payload[0] != '3' && !rdl__channel_unheard(c))
            c->heard_at = RDL__NEVER;
        if (c->news == RDL__NEWS_ALONE && ++c->either.heard == RDL__LINGER_HEARD)
            rdl__loop_timer(c->ws->loop, &c->hint, now);
        return;
    }
    wake_by(c, payload, len, now);
    wake_hearers(c, payload, len, now);
}

/* ---- what may not have been heard ------------------------------------------------------------------------------- */

/* What was heard, or may not have been, makes sleepers try. */
static void retry(struct rdl__channel *c, int64_t now)
{
    c->epoch++;
    c->heard_at = now;
    c->news_at = 0;
    c->either.one = c->either.stands_back = c->lets_pass = false;
    if (c->waiters == 0) { /* it lingers; a turn may have been missed */
        if (c->news == RDL__NEWS_NAMED)
            c->heard_at = RDL__NEVER;
        return;
    }
    rdl__channel_wake_next(c);
    rdl__queue_wake_all(&c->hearers);
}

static void on_subscribed(struct rdl__topic *topic, int64_t now)
{
    retry(rdl__container(topic, struct rdl__channel, topic), now);
}

const struct rdl__topic_ops rdl__news_topic_ops = {.subscribed = on_subscribed, .message = on_message};

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

bool rdl__news_may_have_missed(const struct rdl__waiter *w)
{
    bool first = w->channel->waiters - w->channel->hearing <= 1;

    if (rdl__waiter_hears(w))
        return true;
    switch ((enum rdl__news)w->news) {
    case RDL__NEWS_WAKE:
        return first && w->channel->hearing > 0;
    case RDL__NEWS_ALONE: /* a message that found readers alone; who shares what a client keeps publishes no release */
        return w->channel->waiters == 1 ? w->channel->heard_at >= w->tried_at
                                        : w->channel->waiters - w->channel->hearing - w->channel->sharing <= 1;
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
