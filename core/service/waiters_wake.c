/* SPDX-License-Identifier: MIT */
/* waiters_wake.c - who sleeps on a channel, in which order, and whom a wake-up reaches.
 *
 * A waiter is woken by putting it on a list, which the loop empties before it sleeps, in on_woken alone. So there is no
 * recursion where one waiter that is woken leaves and wakes the next, and so on. A waiter that leaves while it is on
 * the list hands its wake-up on like any other.
 *
 * There may be 100,000 waiters. So only waking all visits all of them: a waiter that goes back to sleep searches its
 * place from where the last one went (struct rdl__queue), and an offer that is smaller than every wish visits none.
 */
#include "core/service/waiters_inner.h"

static struct rdl__queue *queue_of(struct rdl__channel *c, const struct rdl__waiter *w)
{
    if (rdl__waiter_hears(w))
        return &c->hearers;
    return rdl__news_shares(w->news) ? &c->sharers : &c->sleepers;
}

static struct rdl__waiter *first_in(const struct rdl__queue *q)
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
static void insert(struct rdl__queue *q, struct rdl__waiter *w)
{
    struct rdl__link *l = q->last;

    while (l != &q->waiters && joined_after(l, w))
        l = l->prev;
    while (l->next != &q->waiters && !joined_after(l->next, w))
        l = l->next;
    rdl__list_insert_before(l->next, &w->link);
    q->last = &w->link;
}

void rdl__waiter_set_woken(struct rdl__waiter *w, bool woken)
{
    if (w->woken != woken)
        w->channel->trying += woken ? (int64_t)w->wish : -(int64_t)w->wish;
    w->woken = woken;
}

void rdl__waiter_sleep(struct rdl__waiter *w)
{
    struct rdl__channel *c = w->channel;
    struct rdl__queue *q = queue_of(c, w);

    rdl__waiter_set_woken(w, false);
    if (rdl__list_empty(&q->waiters) || !joined_after(q->waiters.prev, w))
        rdl__list_push_back(&q->waiters, &w->link);
    else
        insert(q, w);
    if (w->wish < c->least)
        c->least = w->wish;
}

void rdl__waiter_off(struct rdl__waiter *w)
{
    struct rdl__queue *q = queue_of(w->channel, w);

    if (q->last == &w->link)
        q->last = w->link.prev;
    rdl__list_remove(&w->link);
    rdl__waiter_set_woken(w, false);
}

void rdl__waiter_wake(struct rdl__waiter *w)
{
    struct rdl__waiters *ws = w->channel->ws;

    rdl__waiter_off(w);
    rdl__waiter_set_woken(w, true);
    w->news_at = w->channel->news_at;
    rdl__list_push_back(&ws->woken, &w->link);
    rdl__loop_later(ws->loop, &ws->task);
}

static void wake_first_in(const struct rdl__queue *q)
{
    struct rdl__waiter *w = first_in(q);

    if (w != NULL)
        rdl__waiter_wake(w);
}

void rdl__channel_wake_first(const struct rdl__channel *c)
{
    wake_first_in(&c->sleepers);
    wake_first_in(&c->sharers);
}

void rdl__queue_wake_all(const struct rdl__queue *q)
{
    struct rdl__waiter *w;

    while ((w = first_in(q)) != NULL)
        rdl__waiter_wake(w);
}

bool rdl__waiter_stands_back(const struct rdl__waiter *w)
{
    const struct rdl__channel *c = w->channel;

    return !rdl__waiter_hears(w) && (c->either.stands_back || (c->lets_pass && !rdl__news_shares(w->news)));
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
            rdl__waiter_wake(w);
        } else if (w->wish < least) {
            least = w->wish;
        }
    }
    if (l == &c->sleepers.waiters)
        c->least = least;
}

void rdl__channel_offer(struct rdl__channel *c)
{
    struct rdl__waiter *w = first_in(&c->sleepers);

    if (w == NULL)
        return;
    if (c->known != RDL__UNKNOWN && !w->in_order)
        offer_all(c);
    else if (c->trying == 0 && (c->known == RDL__UNKNOWN || (int64_t)w->wish <= c->known))
        rdl__waiter_wake(w);
}

void rdl__channel_wake_next(struct rdl__channel *c)
{
    const struct rdl__waiter *w = first_in(&c->sleepers);

    c->known = RDL__UNKNOWN;
    if (rdl__news_wake_all(c->news))
        rdl__queue_wake_all(&c->sleepers);
    else if (w == NULL || !w->in_order || c->trying == 0)
        rdl__channel_wake_first(c);
}

/* Run ops->go of all that are woken, including those that these wake. */
static void on_woken(struct rdl__task *task, int64_t now)
{
    struct rdl__waiters *ws = rdl__container(task, struct rdl__waiters, task);
    struct rdl__link *l;

    while ((l = rdl__list_pop(&ws->woken)) != NULL) {
        struct rdl__waiter *w = rdl__container(l, struct rdl__waiter, link);

        if (rdl__waiter_stands_back(w))
            rdl__waiter_sleep(w);
        else
            w->ops->go(w, now);
    }
}

/* ---- the timer -------------------------------------------------------------------------------------------------- */

void rdl__channel_arm(struct rdl__channel *c, int64_t hint_ms, int64_t now)
{
    int64_t at;

    if (hint_ms < 0 || hint_ms > RDL__HINT_MAX_MS)
        hint_ms = RDL__HINT_MAX_MS;
    if (hint_ms < 1)
        hint_ms = 1;
    at = rdl__after_ms(now, hint_ms);
    rdl__loop_timer(c->ws->loop, &c->hint, c->look_at > 0 && c->look_at < at ? c->look_at : at);
}

void rdl__channel_arm_sooner(struct rdl__channel *c, int64_t hint_ms, int64_t now)
{
    int64_t at = c->hint.node.at;
    bool armed = rdl__heap_has(&c->hint.node);

    rdl__channel_arm(c, hint_ms, now);
    if (armed && at < c->hint.node.at)
        rdl__loop_timer(c->ws->loop, &c->hint, at);
}

void rdl__channel_look_after(struct rdl__channel *c, int64_t ms, int64_t now)
{
    c->look_at = rdl__after_ms(now, ms);
    rdl__channel_arm_sooner(c, ms, now);
}

void rdl__channel_look_at(struct rdl__channel *c, int64_t at, int64_t now)
{
    c->look_at = at;
    rdl__channel_arm(c, RDL__HINT_MAX_MS, now);
}

/* A look that is due sooner stays so: releases that others use may come for ever. */
bool rdl__channel_lets_pass(struct rdl__channel *c, int64_t free, int64_t now)
{
    struct rdl__waiter *w = first_in(&c->sleepers);
    int64_t ns = w == NULL || w->in_order || w->ops->lets_pass == NULL ? 0 : w->ops->lets_pass(w, free, now);

    if (!c->lets_pass)
        c->passing_since = now;
    else if (ns <= 0)
        c->look_at = 0; /* whoever is woken now does so */
    c->lets_pass = ns > 0;
    if (!c->lets_pass)
        return false;
    if (c->look_at == 0 || now + ns < c->look_at)
        rdl__channel_look_at(c, now + ns, now);
    wake_first_in(&c->sharers);
    return true;
}

static void on_hint(struct rdl__timer *timer, int64_t now)
{
    struct rdl__channel *c = rdl__container(timer, struct rdl__channel, hint);

    if (c->waiters == 0) {
        rdl__channel_free(c);
        return;
    }
    c->news_at = c->look_at = 0;
    c->either.stands_back = c->lets_pass = false;
    rdl__channel_arm(c, RDL__HINT_MAX_MS, now); /* until the answer to the try sets another time */
    rdl__channel_wake_next(c);
}

/* ---- new ones --------------------------------------------------------------------------------------------------- */

static void queue_init(struct rdl__queue *q)
{
    rdl__list_init(&q->waiters);
    q->last = &q->waiters;
}

void rdl__channel_init_wakes(struct rdl__channel *c)
{
    c->known = RDL__UNKNOWN;
    c->least = UINT32_MAX;
    queue_init(&c->sleepers);
    queue_init(&c->sharers);
    queue_init(&c->hearers);
    rdl__timer_init(&c->hint, on_hint);
}

void rdl__waiters_init_wakes(struct rdl__waiters *ws)
{
    rdl__list_init(&ws->woken);
    rdl__task_init(&ws->task, on_woken);
}
