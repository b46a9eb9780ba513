/* waiters.h - who sleeps on which channel, and whom a message wakes (PROTOCOL.md, 5).  @thread loop, all of it
 *
 * One list a channel, whatever the handle. A waiter joins after a refusal, or instead of a first try when others wait
 * already; is told to try (ops->go); says when its try is sent, refused, or that it leaves. It touches no socket and reads
 * no clock: what it needs is the subscriber and the loop's timers.
 *
 * What a message says, and so whom it wakes, differs by channel (enum rdl__news). Where several may be let in at once, each
 * waiter has a wish, how much it wants, and each answer to a try tells how much there is (rdl__waiter_told).
 */
#ifndef REDLATCH_SERVICE_WAITERS_H
#define REDLATCH_SERVICE_WAITERS_H

#include "core/base/list.h"
#include "core/base/table.h"
#include "core/io/loop.h"
#include "core/io/subscriber.h"

#define RDL__HINT_MAX_MS 5000 /* nobody sleeps longer without looking */

struct rdl__channel;
struct rdl__waiter;

struct rdl__waiter_ops {
    void (*go)(struct rdl__waiter *waiter, int64_t now); /* woken: send a try (calling rdl__waiter_sent), or leave */
};

/* What the messages of a channel mean. All waiters of a channel say the same. */
enum rdl__news {
    RDL__NEWS_WAKE,  /* `0` wakes the first, `1` all */
    RDL__NEWS_TOTAL, /* a number above 0: so much is free. It wakes, in order, all whose wishes fit */
    RDL__NEWS_SOME,  /* a number above 0: something is free; the answer to the first one's try tells how much */
    RDL__NEWS_ALL,   /* whatever it says, it wakes all */
    RDL__NEWS_SIDES, /* whatever it says, it wakes the first of those who want to be alone and the first of those who share */
};

struct rdl__waiter {
    struct rdl__link link;        /* among the sleepers, in order */
    struct rdl__channel *channel; /* NULL: has not joined */
    const struct rdl__waiter_ops *ops;
    uint64_t epoch; /* the channel's when the try was sent */
    uint32_t place; /* in the order of joining */
    uint32_t wish;  /* how much it wants; set before it joins, like the next three */
    unsigned char news;
    bool in_order; /* nobody passes one who came before, whatever it wishes */
    bool shares;   /* RDL__NEWS_SIDES: which side */
    bool woken;    /* and no try of its was answered since */
};

struct rdl__waiters {
    const struct rdl__mem *mem;
    struct rdl__loop *loop;
    struct rdl__subscriber *sub;
    struct rdl__table channels;
};

int rdl__waiters_init(struct rdl__waiters *ws, const struct rdl__mem *mem, struct rdl__loop *loop,
                      struct rdl__subscriber *sub);
void rdl__waiters_done(struct rdl__waiters *ws); /* nobody waits any more; a zeroed one is fine */

static inline void rdl__waiter_init(struct rdl__waiter *w, const struct rdl__waiter_ops *ops)
{
    rdl__list_init(&w->link);
    w->channel = NULL;
    w->ops = ops;
    w->epoch = 0;
    w->place = 0;
    w->wish = 1;
    w->news = RDL__NEWS_WAKE;
    w->in_order = false;
    w->shares = false;
    w->woken = false;
}

/* Join and sleep until told to go: when the subscription is acknowledged, a message comes, or hint_ms has passed. Not
 * `subscribed`: only the last of these; the name is then a meeting place for such waiters and no channel's. All who join under
 * a name agree on that. The name is copied. RDL_OK; 1: joined, and to try again at once (calling rdl__waiter_sent);
 * RDL_ENOMEM. */
int rdl__waiter_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, bool subscribed,
                     int64_t hint_ms, int64_t now);

/* A try is being sent. */
void rdl__waiter_sent(struct rdl__waiter *w);

/* The try was refused, and the server says to look again in hint_ms (below 0: it cannot say). True: asleep again. False: a
 * message came since the try was sent, so the refusal says nothing: try again. */
bool rdl__waiter_refused(struct rdl__waiter *w, int64_t hint_ms, int64_t now);

/* The answer to the try says how much is free; to be called before rdl__waiter_refused, or rdl__waiter_leave. Fine for one that
 * has not joined. */
void rdl__waiter_told(struct rdl__waiter *w, int64_t total);

/* Whoever waits here should look again in hint_ms (below 0: no opinion), if not sooner. Fine for one that has not joined. */
void rdl__waiter_hint(struct rdl__waiter *w, int64_t hint_ms, int64_t now);

/* Go away; fine for one that has not joined. `used`: it was let in. Otherwise a wake-up that it had is handed on. */
void rdl__waiter_leave(struct rdl__waiter *w, bool used, int64_t now);

#endif
