/* SPDX-License-Identifier: MIT */
/* waiters_news.h - what the messages of a channel mean: what types say of themselves in their tables, and what others
 * ask of that. */
#ifndef REDLATCH_SERVICE_WAITERS_NEWS_H
#define REDLATCH_SERVICE_WAITERS_NEWS_H

#include <stdbool.h>

#define RDL__LINGER_MS 5000        /* how long a channel of one waiter's own lingers, */
#define RDL__CLIENT_LINGER_MS 2000 /* and one of a client's own, or a writer's */

/* What the messages of a channel mean: a value for each way of waking (protocol.md, 5), of which a type has one. All
 * waiters of a channel say the same, but for writers and readers. What else depends on it others ask by the functions
 * below; the values are for types' tables and waiters_news.c. */
enum rdl__news {
    RDL__NEWS_WAKE,   /* `0` wakes the first waiter, `1` all */
    RDL__NEWS_TOTAL,  /* a number above 0: so many are free. It wakes, in order, all whose wishes fit */
    RDL__NEWS_SOME,   /* a number above 0: some are free; the answer to the first waiter's try says how many */
    RDL__NEWS_ALL,    /* any message wakes all */
    RDL__NEWS_OWN,    /* any message is for the one waiter whose channel this is, which may read it
                         (rdl__waiter_message) */
    RDL__NEWS_ALONE,  /* any message wakes the first writer, such as this waiter, and the first reader */
    RDL__NEWS_SHARED, /* the same, of a reader */
    RDL__NEWS_NAMED,  /* the channel is this client's own: `0` wakes the first waiter, `3` after RDL__LOOK_MS, `4` after
                         RDL__TURN_MS */
    RDL__NEWS_NONE,   /* the name is not subscribed to: its waiters only share a timer */
};

/* Is each release published where all can hear it, so that composites may listen?  @thread any */
static inline bool rdl__news_public(enum rdl__news news)
{
    return news != RDL__NEWS_OWN && news != RDL__NEWS_NONE;
}

/* Are the waiting calls of a process counted? A lock's next one waits behind them without a first try. Not where each
 * may be let in at any time: by a message of its own, or beside others.  @thread any */
static inline bool rdl__news_counted(enum rdl__news news)
{
    return news != RDL__NEWS_OWN && news != RDL__NEWS_SHARED;
}

/* Is a waiter let in beside others that have it?  @thread any */
static inline bool rdl__news_shares(enum rdl__news news)
{
    return news == RDL__NEWS_SHARED;
}

/* How long does a channel stay after its last waiter? Of those that many share only a writer's stays, to whom readers'
 * comings and goings say little. 0: not at all.  @thread any */
static inline int rdl__news_linger_ms(enum rdl__news news)
{
    if (news == RDL__NEWS_OWN)
        return RDL__LINGER_MS;
    return news == RDL__NEWS_NAMED || news == RDL__NEWS_ALONE ? RDL__CLIENT_LINGER_MS : 0;
}

/* Is the name a channel that is subscribed to?  @thread any */
static inline bool rdl__news_heard(enum rdl__news news)
{
    return news != RDL__NEWS_NONE;
}

/* Does every message wake all waiters?  @thread any */
static inline bool rdl__news_wake_all(enum rdl__news news)
{
    return news == RDL__NEWS_ALL || news == RDL__NEWS_OWN;
}

/* Are there many of what is waited for, of which each waiter may want another number?  @thread any */
static inline bool rdl__news_count(enum rdl__news news)
{
    return news == RDL__NEWS_TOTAL || news == RDL__NEWS_SOME;
}

/* Does a message set waiters of all clients off, of whom a few are let in?  @thread any */
static inline bool rdl__news_raced_for(enum rdl__news news)
{
    return news == RDL__NEWS_WAKE || news == RDL__NEWS_ALONE || rdl__news_count(news);
}

/* RDL__NEWS_NAMED: is a client that is refused to have an ear, and what for? As the scripts answer it (protocol.md, 5,
 * rules 11 and 17). */
enum rdl__ear {
    RDL__EAR_NOT,
    RDL__EAR_PEER,    /* for itself: the holder is a peer's, whose release is published on the lock's channel alone */
    RDL__EAR_FOR_ALL, /* for all in line, until it is told RDL__EAR_NOT */
    RDL__EAR_OUTSIDE, /* for itself, outside the line, which it may not enter: it minds also what wakes another by name
                       */
};

#endif
