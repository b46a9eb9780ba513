/* SPDX-License-Identifier: MIT */
/* waiters.h - the waiters of each channel, and which of them a message wakes (protocol.md, 5).  @thread loop, all of
 * it, unless it says otherwise
 *
 * There is one list for each channel, whatever the handle. A waiter joins after a refusal, or instead of a first try
 * when others wait already. ops->go tells it to try; it reports when its try is sent or refused, and when it leaves.
 * This module touches no socket and reads no clock: it uses the subscriber and the loop's timers.
 *
 * What a message means, and so which waiters it wakes, differs by channel (waiters_news.h). Where there are many of
 * what is waited for, each waiter has a wish, how many it wants, and each answer to a try says how many are free
 * (rdl__waiter_told).
 *
 * Beside the waiters there may be hearers, which do not want the lock: they are woken by every message and every
 * acknowledged subscription, and do not make others wait. They are listeners (the listen verb's calls) and ears.
 *
 * A client's own channel (RDL__NEWS_NAMED) may have an ear: a hearer on the lock's channel, until it is closed or the
 * own channel ends (waiters_ear.c). What it hears counts as heard on the own channel. It is there for one of three
 * reasons (enum rdl__ear): the `ear` of a line at the server (protocol.md, 5, rule 17) is the client whose ear is there
 * for all in line; others' are for themselves (rule 11).
 *
 * A channel of one waiter's own, or one client's, stays subscribed for a while after the waiter has left (it lingers),
 * so that it need not subscribe again. A shared channel does not linger, because then each release would be sent to
 * every process that has waited lately; but a writer's does, until it has heard so much.
 */
#ifndef REDLATCH_SERVICE_WAITERS_H
#define REDLATCH_SERVICE_WAITERS_H

#include "core/base/list.h"
#include "core/base/table.h"
#include "core/io/loop.h"
#include "core/io/subscriber.h"
#include "core/service/waiters_news.h"

#define RDL__HINT_MAX_MS 5000   /* the longest sleep without a try */
#define RDL__LOOK_MS 100        /* who is next in line looks when another was woken so long ago */
#define RDL__TURN_MS 4          /* who is woken when it is others' turn tries after so long */
#define RDL__STALE_EAR_HEARD 12 /* an ear that has heard so many releases for nothing listens anew */
#define RDL__QUIET_EAR_MS 5000  /* an ear that hears nobody is kept so long */
#define RDL__LINGER_HEARD 16    /* a writer's channel lingers for so many messages at most, */
#define RDL__LINGER_MAX 64      /* and so many channels do; the oldest is freed */
#define RDL__MESSAGE_KEPT 64    /* bytes of a message that are kept */

struct rdl__channel;
struct rdl__waiter;
struct rdl__waiters;

struct rdl__waiter_ops {
    /* Woken: send a try (calling rdl__waiter_sent), or leave. Runs before the loop sleeps next, never inside a function
     * below. */
    void (*go)(struct rdl__waiter *waiter, int64_t now);
    /* A connection was lost while it sleeps: it may set its timer, and no more. May be NULL. */
    void (*missed)(struct rdl__waiter *waiter);
    /* A release is heard that sets waiters of all clients off; so many are free. For how many ns does the waiter's
     * client let others try? 0: it tries, too. May be NULL. */
    int64_t (*lets_pass)(struct rdl__waiter *waiter, int64_t free, int64_t now);
    /* RDL__NEWS_NAMED: the channel was told that it is its turn, and nobody waits since one with these ops has left; or
     * it ends. False: the place may be that of somebody who is about to join, and tries then. May be NULL. */
    bool (*unheard)(struct rdl__waiters *waiters, const char *channel, size_t len);
};

struct rdl__waiter {
    struct rdl__link link;        /* among the sleepers, in order, or the woken */
    struct rdl__channel *channel; /* NULL: has not joined */
    const struct rdl__waiter_ops *ops;
    union {
        int64_t tried_at; /* set before it joins: when the try was sent that was refused; 0: it has not tried */
        int64_t news_at;  /* from then on: when the message came that it was last woken by; 0: it was not by one */
    };
    uint32_t epoch; /* the channel's when the try was sent */
    uint32_t place; /* in the order of joining */
    uint32_t wish;  /* how many it wants; set before it joins, like the next three */
    unsigned char news;
    unsigned char own_tail; /* RDL__NEWS_NAMED: so much shorter is the name of the lock's channel */
    unsigned char ear_for;  /* likewise, set before it joins or is refused: an enum rdl__ear */
    bool entered : 1;       /* likewise: its refused try has left a place in the line beside the lock */
    bool is_ear : 1;        /* the ear of such a channel: a hearer */
    bool in_order : 1;      /* no waiter passes an earlier one, whatever they wish */
    bool listens : 1;       /* a listener, so a hearer: at ops->go it goes back to sleep, or leaves */
    bool woken : 1;         /* and its try was not answered since */
};

struct rdl__waiters {
    const struct rdl__mem *mem;
    struct rdl__loop *loop;
    struct rdl__subscriber *sub;
    struct rdl__subscriber *(*sub_of)(void *arg, const char *channel, size_t len); /* NULL: `sub` is all channels' */
    void *sub_of_arg;
    struct rdl__table channels;
    struct rdl__link lingering; /* channels without waiters, the oldest first */
    unsigned lingering_count;
    struct rdl__link woken; /* whose ops->go is to run */
    struct rdl__task task;  /* which runs it */
    bool closed;
};

/* @thread any */
int rdl__waiters_init(struct rdl__waiters *ws, const struct rdl__mem *mem, struct rdl__loop *loop,
                      struct rdl__subscriber *sub);
/* Channels are spread over several subscribers: `of` returns a channel's. rdl__waiters_reroute: some have changed. Set
 * before the first waiter joins.  @thread any */
void rdl__waiters_spread(struct rdl__waiters *ws,
                         struct rdl__subscriber *(*of)(void *arg, const char *channel, size_t len), void *arg);
void rdl__waiters_reroute(struct rdl__waiters *ws, int64_t now); /* @thread loop */
void rdl__waiters_missed(struct rdl__waiters *ws); /* a connection was lost: ops->missed of all sleepers */
void rdl__waiters_sweep(struct rdl__waiters *ws);  /* free the channels that linger */
void rdl__waiters_close(struct rdl__waiters *ws);  /* the same, and none will linger any more */
/* Without waiters; closed, or never used; a zeroed one is fine.  @thread any, the loop has stopped */
void rdl__waiters_done(struct rdl__waiters *ws);

/* @thread any */
static inline void rdl__waiter_init(struct rdl__waiter *w, const struct rdl__waiter_ops *ops)
{
    rdl__list_init(&w->link);
    w->channel = NULL;
    w->ops = ops;
    w->epoch = 0;
    w->tried_at = 0;
    w->place = 0;
    w->wish = 1;
    w->news = RDL__NEWS_WAKE;
    w->own_tail = 0;
    w->entered = false;
    w->ear_for = RDL__EAR_NOT;
    w->is_ear = false;
    w->in_order = false;
    w->listens = false;
    w->woken = false;
}

/* Join and sleep until ops->go: when the subscription is acknowledged, a message comes, or hint_ms has passed
 * (of a name that is not subscribed to: only the last of these). The name is copied. RDL_OK; 1: joined, and to try
 * again at once (calling rdl__waiter_sent); RDL_ENOMEM. */
int rdl__waiter_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, int64_t hint_ms,
                     int64_t now);

/* The client may not stand in the line of this channel any more: who waits tries again. */
void rdl__waiters_retry(struct rdl__waiters *ws, const char *name, size_t len, int64_t now);

void rdl__waiters_retry_all(struct rdl__waiters *ws, int64_t now); /* the same of every line */

/* A try is being sent. */
void rdl__waiter_sent(struct rdl__waiter *w);

/* The try was refused, and the server says to try again in hint_ms (below 0: unknown). True: asleep again. False: a
 * message has come since the try was sent, so the refusal may be out of date: try again. */
bool rdl__waiter_refused(struct rdl__waiter *w, int64_t hint_ms, int64_t now);

/* The answer to the try says how many are free. Call it before rdl__waiter_refused or rdl__waiter_leave. Does
 * nothing for one that has not joined. */
void rdl__waiter_told(struct rdl__waiter *w, int64_t total);

/* The last message on a channel of its own, cut at RDL__MESSAGE_KEPT bytes and not NUL-terminated; it may be about an
 * earlier wait. *ret_len 0: none yet, or the waiter has not joined. */
const char *rdl__waiter_message(const struct rdl__waiter *w, size_t *ret_len);

/* The first waiter of this channel should try again in hint_ms at the latest (below 0: unchanged). Does nothing for one
 * that has not joined. */
void rdl__waiter_hint(struct rdl__waiter *w, int64_t hint_ms, int64_t now);

/* Leave; does nothing for one that has not joined. `used`: it has got the lock. Otherwise a wake-up that it had is
 * handed on to the next. */
void rdl__waiter_leave(struct rdl__waiter *w, bool used, int64_t now);

#endif
