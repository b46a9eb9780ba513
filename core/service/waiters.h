/* waiters.h - who sleeps on which channel, and whom a message wakes (protocol.md, 5).  @thread loop, all of it
 *
 * One list a channel, whatever the handle. A waiter joins after a refusal, or instead of a first try when others wait
 * already; is told to try (ops->go); says when its try is sent, refused, or that it leaves. It touches no socket and
 * reads no clock: what it needs is the subscriber and the loop's timers.
 *
 * What a message says, and so whom it wakes, differs by channel (enum rdl__news). Where several may be let in at once,
 * each waiter has a wish, how much it wants, and each answer to a try tells how much there is (rdl__waiter_told).
 *
 * Beside the waiters there may be listeners, who want to know when somebody else might be let in, and take nobody's
 * turn: they are told of every message and of every acknowledged subscription, and are no reason for others to wait.
 *
 * A channel of a waiter's own stays subscribed for a while after it has left (it lingers): who comes again has no need
 * to subscribe. A channel that many share does not, because then each release would wake every process that ever
 * waited.
 */
#ifndef REDLATCH_SERVICE_WAITERS_H
#define REDLATCH_SERVICE_WAITERS_H

#include "core/base/list.h"
#include "core/base/table.h"
#include "core/io/loop.h"
#include "core/io/subscriber.h"

#define RDL__HINT_MAX_MS 5000 /* nobody sleeps longer without looking */
#define RDL__LINGER_MS 5000   /* a channel of its own is kept so long for who may come again, */
#define RDL__LINGER_MAX 64    /* and no more of them than this; the oldest goes */
#define RDL__SAID_MAX 64      /* words of a message that are kept */

struct rdl__channel;
struct rdl__waiter;

struct rdl__waiter_ops {
    /* Woken: send a try (calling rdl__waiter_sent), or leave. Runs before the loop sleeps next, never inside a function
     * below. */
    void (*go)(struct rdl__waiter *waiter, int64_t now);
    /* While it sleeps a server has gone: it may set its timer, and no more. NULL: fine. */
    void (*missed)(struct rdl__waiter *waiter);
};

/* What the messages of a channel mean. All waiters of a channel say the same. */
enum rdl__news {
    RDL__NEWS_WAKE,  /* `0` wakes the first, `1` all */
    RDL__NEWS_TOTAL, /* a number above 0: so much is free. It wakes, in order, all whose wishes fit */
    RDL__NEWS_SOME,  /* a number above 0: something is free; the answer to the first one's try tells how much */
    RDL__NEWS_ALL,   /* whatever it says, it wakes all */
    RDL__NEWS_OWN,   /* whatever it says, it is for the one waiter whose channel this is, who may read it
                        (rdl__waiter_said) */
    RDL__NEWS_SIDES, /* whatever it says, it wakes the first of those who want to be alone and the first of those who
                        share */
};

struct rdl__waiter {
    struct rdl__link link;        /* among the sleepers, in order, or the woken */
    struct rdl__channel *channel; /* NULL: has not joined */
    const struct rdl__waiter_ops *ops;
    int64_t tried_at; /* set before it joins: when the try was sent that was refused; 0: it has not tried */
    uint32_t epoch;   /* the channel's when the try was sent */
    uint32_t place;   /* in the order of joining */
    uint32_t wish;    /* how much it wants; set before it joins, like the next three */
    unsigned char news;
    bool in_order : 1; /* nobody passes one who came before, whatever it wishes */
    bool shares : 1;   /* RDL__NEWS_SIDES: which side */
    bool listens : 1;  /* ops->go tells it that there is something to know: it goes back to sleep, or leaves */
    bool woken : 1;    /* and no try of its was answered since */
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

int rdl__waiters_init(struct rdl__waiters *ws, const struct rdl__mem *mem, struct rdl__loop *loop,
                      struct rdl__subscriber *sub);
/* Channels are spread over several subscribers; `of` says which is whose, until rdl__waiters_reroute says that this has
 * changed. Set before anybody waits. */
void rdl__waiters_spread(struct rdl__waiters *ws,
                         struct rdl__subscriber *(*of)(void *arg, const char *channel, size_t len), void *arg);
void rdl__waiters_reroute(struct rdl__waiters *ws, int64_t now);
void rdl__waiters_missed(struct rdl__waiters *ws); /* a server has gone: all who sleep are told */
void rdl__waiters_sweep(struct rdl__waiters *ws);  /* no channel lingers any more */
void rdl__waiters_close(struct rdl__waiters *ws);  /* and none will */
void rdl__waiters_done(
    struct rdl__waiters *ws); /* nobody waits any more; closed, or nobody ever waited; a zeroed one is fine */

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
    w->in_order = false;
    w->shares = false;
    w->listens = false;
    w->woken = false;
}

/* Join and sleep until told to go: when the subscription is acknowledged, a message comes, or hint_ms has passed. Not
 * `subscribed`: only the last of these; the name is then a meeting place for such waiters and no channel's. All who
 * join under a name agree on that. The name is copied. RDL_OK; 1: joined, and to try again at once (calling
 * rdl__waiter_sent); RDL_ENOMEM. */
int rdl__waiter_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, bool subscribed,
                     int64_t hint_ms, int64_t now);

/* A try is being sent. */
void rdl__waiter_sent(struct rdl__waiter *w);

/* The try was refused, and the server says to look again in hint_ms (below 0: it cannot say). True: asleep again.
 * False: a message came since the try was sent, so the refusal says nothing: try again. */
bool rdl__waiter_refused(struct rdl__waiter *w, int64_t hint_ms, int64_t now);

/* The answer to the try says how much is free; to be called before rdl__waiter_refused, or rdl__waiter_leave. Fine for
 * one that has not joined. */
void rdl__waiter_told(struct rdl__waiter *w, int64_t total);

/* RDL__NEWS_OWN: what the last message said, cut at RDL__SAID_MAX bytes and not NUL-terminated; it may be about an
 * earlier wait. *ret_len is 0: nothing yet, or it has not joined. */
const char *rdl__waiter_said(const struct rdl__waiter *w, size_t *ret_len);

/* Whoever waits here should look again in hint_ms (below 0: no opinion), if not sooner. Fine for one that has not
 * joined. */
void rdl__waiter_hint(struct rdl__waiter *w, int64_t hint_ms, int64_t now);

/* Go away; fine for one that has not joined. `used`: it was let in. Otherwise a wake-up that it had is handed on. */
void rdl__waiter_leave(struct rdl__waiter *w, bool used, int64_t now);

#endif
