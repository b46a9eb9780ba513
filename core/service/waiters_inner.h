/* SPDX-License-Identifier: MIT */
/* waiters_inner.h - the waiters of a channel from inside, for their files. All of it runs on the loop, which the
 * functions of waiters.h assert that lead here.
 *
 *   waiters.c       channels, and their waiters' joining, tries and leaving
 *   waiters_wake.c  who sleeps in which order, and whom a wake-up reaches
 *   waiters_news.c  what each kind of message wakes, and what may have been missed
 *   waiters_ear.c   the ear of a client's own channel
 */
#ifndef REDLATCH_SERVICE_WAITERS_INNER_H
#define REDLATCH_SERVICE_WAITERS_INNER_H

#include "core/service/waiters.h"

/* Those that sleep, in the order of joining. */
struct rdl__queue {
    struct rdl__link waiters;
    struct rdl__link *last; /* where the last one was inserted, or the head: the next one's place is often beside it */
};

struct rdl__channel {
    struct rdl__waiters *ws;
    struct rdl__table_node node;
    struct rdl__topic topic;
    struct rdl__subscriber *sub; /* NULL: it is not subscribed to */
    enum rdl__news news;         /* its first waiter's; of the others' only a writer's and a reader's may differ */
    size_t size;

    /* who waits */
    struct rdl__queue sleepers;
    struct rdl__queue sharers;          /* and those that are let in beside others: rdl__news_shares */
    struct rdl__queue hearers;          /* listeners and ears */
    unsigned waiters;                   /* asleep or trying, hearers included; 0: it lingers */
    unsigned hearing;                   /* how many of them are hearers */
    unsigned sharing;                   /* and how many are let in beside others */
    uint32_t next_place;                /* for the next that joins */
    const struct rdl__waiter_ops *left; /* of the last one that has left */
    struct rdl__link lingers;           /* on waiters->lingering */

    /* what they know */
    uint32_t epoch;   /* raised by whatever makes a refusal out of date */
    int64_t heard_at; /* when the last message or acknowledgement came; RDL__NEVER: one whose turn was missed, perhaps,
                         so who joins next tries */
    int64_t news_at;  /* the message that wakes waiters now: when it came; 0: the timer or an acknowledgement does */
    int64_t known;    /* how many are free; RDL__UNKNOWN */
    int64_t trying;   /* sum of the woken waiters' wishes */
    uint32_t least;   /* no sleeper's wish is smaller */

    /* when the first sleeper is woken without a message */
    struct rdl__timer hint; /* as a refusal says, and at look_at; or, without waiters, the end of its lingering */
    int64_t look_at;        /* then at the latest, whatever later refusals say; 0: it need not */
    int64_t passing_since;  /* if the next is true */
    bool lets_pass;         /* only then, or at the next message: its client lets others try; sharers do not wait */

    /* each of one kind of news, and 0 in channels of others */
    bool by_name;            /* RDL__NEWS_WAKE: the next `0` is none of the ears' business */
    struct {                 /* writers and readers */
        bool one;            /* the last message was a `1` */
        bool stands_back;    /* nobody tries before the hint or the next message */
        signed char lead;    /* so many turns more than Java's writers ours have had */
        unsigned char turns; /* so many are left to Java's until these are heard again */
        unsigned char heard; /* messages since it lingers */
    } either;
    struct {                       /* RDL__NEWS_NAMED: its ear, on the lock's channel */
        struct rdl__waiter waiter; /* if it has joined */
        enum rdl__ear reason;      /* RDL__EAR_FOR_ALL: it was opened as that; else what the last waiter was told */
        uint32_t heard;            /* how many releases since it has joined */
        int64_t heard_at;          /* when the last one of all came, also if it has joined since */
    } ear;
    struct { /* one waiter's own: the last message */
        size_t len;
        char message[RDL__MESSAGE_KEPT];
    } own;

    char name[];
};

#define RDL__UNKNOWN INT64_C(-1)

/* Does it not want the lock? */
static inline bool rdl__waiter_hears(const struct rdl__waiter *w)
{
    return w->listens || w->is_ear;
}

/* ---- waiters.c -------------------------------------------------------------------------------------------------- */

/* rdl__waiter_join, without an ear. */
int rdl__channel_join(struct rdl__waiters *ws, struct rdl__waiter *w, const char *name, size_t len, int64_t hint_ms,
                      int64_t now);

void rdl__channel_drop(struct rdl__channel *c); /* free one without waiters that has no ear */
void rdl__channel_free(struct rdl__channel *c); /* and one that lingers, with its ear */

/* ---- waiters_wake.c --------------------------------------------------------------------------------------------- */

void rdl__waiters_init_wakes(struct rdl__waiters *ws);
void rdl__channel_init_wakes(struct rdl__channel *c);

/* It is trying from now on, or not any more. */
void rdl__waiter_set_woken(struct rdl__waiter *w, bool woken);

/* Put it to sleep in the order of joining: the first time, or again. */
void rdl__waiter_sleep(struct rdl__waiter *w);

/* Take it off its list, the sleepers' or the woken. */
void rdl__waiter_off(struct rdl__waiter *w);

void rdl__waiter_wake(struct rdl__waiter *w);               /* one that sleeps */
void rdl__queue_wake_all(const struct rdl__queue *q);       /* all that sleep now */
void rdl__channel_wake_first(const struct rdl__channel *c); /* the first sleeper and the first sharer */

/* Without knowing what is free: wake the first of each, or all where every message does. */
void rdl__channel_wake_next(struct rdl__channel *c);

/* A release is heard, behind which so many are free (ops->lets_pass). True: it is for others, and only who shares is
 * woken. Whose try is under way, as the only one who waits, is not asked: the next release counts. */
bool rdl__channel_lets_pass(struct rdl__channel *c, int64_t free, int64_t now);

/* Is it not the turn of this waiter, which would try? */
bool rdl__waiter_stands_back(const struct rdl__waiter *w);

/* Wake the sleepers that may get what is known to be free. */
void rdl__channel_offer(struct rdl__channel *c);

/* Wake the next in hint_ms (below 0: unknown). Sooner: or when it would have been woken, if that is before: the newer
 * refusal may be about another holder. Look after: after `ms` at the latest, whatever is said until then. Look at: at
 * that time, also if it was to be sooner. */
void rdl__channel_arm(struct rdl__channel *c, int64_t hint_ms, int64_t now);
void rdl__channel_arm_sooner(struct rdl__channel *c, int64_t hint_ms, int64_t now);
void rdl__channel_look_after(struct rdl__channel *c, int64_t ms, int64_t now);
void rdl__channel_look_at(struct rdl__channel *c, int64_t at, int64_t now);

/* ---- waiters_news.c --------------------------------------------------------------------------------------------- */

extern const struct rdl__topic_ops rdl__news_topic_ops;

/* May a message between the waiter's refusal and its joining have been meant for it: one that woke no sleeper, that
 * woke other readers only, or that found no waiter? */
bool rdl__news_may_have_missed(const struct rdl__waiter *w);

/* Nobody waits who would hear of a turn of RDL__NEWS_NAMED: ops->unheard of who has left last, or true. */
bool rdl__channel_unheard(struct rdl__channel *c);

/* ---- waiters_ear.c ---------------------------------------------------------------------------------------------- */

/* Open or close the channel's ear, as the waiter was told. Without memory the timer stands in for it. */
void rdl__channel_set_ear(struct rdl__channel *c, const struct rdl__waiter *w, int64_t now);
void rdl__channel_close_ear(struct rdl__channel *c); /* does nothing if there is none */

#endif
