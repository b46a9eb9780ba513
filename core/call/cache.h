/* SPDX-License-Identifier: MIT */
/* cache.h - a lock that is kept by its client, from inside: what these files share.
 *
 *   keep.c         what is to be done with a kept hold, by its state: the machine, pure (keep.h)
 *   cache.c        owners of the process: who is let in, passed on to, or waits here
 *   cached.c       the handle; what an owner whom nobody is in the way of does without a call (cached.h)
 *   cache_verbs.c  the verbs, as calls of the engine
 *   kept.c         the client's own hold: its take and release, its loss
 *   recall.c       who else wants it, for how long the loop listens for that, and the loop's timer; what a name gets
 *                  when its first handle is made
 *
 * The kept hold is an ordinary hold of an owner that stands for the client, the keeper: its take, renewals, release and
 * undo are the engine's, and its number is negative (wire.md, Identity). The hold of an owner that was let in (a local
 * hold) is its record as of any lock, with a negative number of its own, which the server never sees. It is in the
 * watchdog only if its lease is explicit, and then it ends before the kept hold does; nothing is ever sent for it.
 *
 * Of a lock with two ends one is kept at a time: that which the last owner came for while nothing was at the
 * server. Readers share one kept hold: all who wait are let in with the grant, and others join until somebody wants it;
 * from then on newcomers wait for it to be given back, but not for long, and then take holds of their own. Whoever
 * wants the end that is not kept asks the server for itself, when what is kept was given back. Only a writer's own
 * reads are beside its kept hold, which then ends with it.
 */
#ifndef REDLATCH_CALL_CACHE_H
#define REDLATCH_CALL_CACHE_H

#include "core/call/keep.h"
#include "core/call/verb.h"

#define RDL__RECALL_PREFIX "redlatch_recall"
#define RDL__LOCAL_NUMBERS (-(INT64_C(1) << 62)) /* those of local holds begin below, and are drawn in blocks */
#define RDL__LOCAL_BLOCK (INT64_C(1) << 20)
#define RDL__POST_KEPT 256u /* to req.park of a caller that waits here, beside the bits of lane.h */

/* How a call that waits here stands: struct rdl__hold_fields, local. */
enum rdl__local {
    RDL__LOCAL_NONE,
    RDL__LOCAL_QUEUED,  /* in the cache's queue */
    RDL__LOCAL_IN,      /* let in */
    RDL__LOCAL_ASKS,    /* to ask the server for itself */
    RDL__LOCAL_FAILED,  /* ends with call->answer */
    RDL__LOCAL_EXTENDS, /* not waiting: it asks for more time of the kept hold */
};

/* Tokens of the server's time lie below its clock as of the last word that the kept hold was there; for more of them
 * the loop asks again. */
enum rdl__confirm { RDL__CONFIRM_NONE, RDL__CONFIRM_WANTED, RDL__CONFIRM_SENT };

struct rdl__cache {
    /* immutable */
    struct rdl__name *name; /* whose this is; no reference */
    rdl_owner_t *keeper;
    int64_t cache_ms;
    int64_t lease_ms; /* of the kept hold */

    /* any thread, under the name's mu */
    const struct rdl__lock_ops *ops; /* of the end that is kept; NONE: that was, last */
    struct rdl__keep keep;
    unsigned char doublings; /* of the other end: the keep's, until it is turned to */
    unsigned takes;
    unsigned inside;              /* HELD: how many owners are: those of rdl__cache_has */
    struct rdl__record *kept_rec; /* HELD: the keeper's */
    struct rdl__link queue;       /* calls that wait here, by their waiter.link */
    struct rdl__link others;      /* and those of the end that is not kept, until nothing is */
    int64_t known_until;          /* HELD: the hold is valid so long at least, unless it is lost */
    int64_t local_n;              /* the number of the last local hold; they fall */
    int64_t ended_n;              /* local holds from this number up were of an earlier kept hold, and have ended */
    int64_t token, last_token;    /* the last that was given, and the last of the hold's; equal: there are no more */
    unsigned char confirms;       /* HELD: enum rdl__confirm */
    int64_t used_at;              /* the last time that somebody wanted the lock */
    bool one_try;                 /* TAKING: for a call that does not wait */
    bool risk_told;               /* HELD: of the hold, to an owner before, or to nobody */
    bool owner_died;              /* HELD: an owner that shares it has ended inside: it is left to its lease */
    bool wrote;                   /* an owner here may hold the end that excludes others */
    bool posted;                  /* the task is, with a reference to the name */
    bool leaves;                  /* its release makes room for another name, unless it is taken anew by then */
    bool to_engage;               /* an owner has come for whom the loop is to listen for recalls */
    bool engaged;                 /* it listens, with a reference to the name */
    struct rdl__wakes *wakes;     /* NULL: threads that are let in are woken at once; else told, and put here */

    /* loop thread only */
    struct rdl__task task;
    struct rdl__timer timer;
    struct rdl__topic topic;
    struct rdl__subscriber *sub;
    uint64_t run; /* of the server that confirmed the subscription */
    struct rdl__debt debt;
    struct rdl__link room; /* engaged: in the client's list of such names */
    size_t size;
    char channel[];
};

static inline struct rdl__watchdog *rdl__cache_watchdog(const struct rdl__cache *cache)
{
    return cache->name->client->watchdog;
}

/* Is what is kept an end that many owners share?  @locks the name's */
static inline bool rdl__cache_is_shared(const struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    return rdl__news_shares(cache->ops->news);
}

/* ---- kept.c ----------------------------------------------------------------------------------------------------- */

/* How long the kept hold is valid, for certain; 0: not any more. Notes that for owners who come next (known_until).
 * @locks the name's */
int64_t rdl__cache_valid_ns(struct rdl__cache *cache, int64_t now);

/* Begin the client's take: the keep's state has asked for it.  @thread loop  @locks none */
void rdl__cache_take(struct rdl__cache *cache, rdl_lock_t *lock);
/* What the state asks for does not begin: there is no memory, or no handle; or a release that is left to the lease.
 * @locks none */
void rdl__cache_cannot(struct rdl__cache *cache);
/* Leave the kept hold to its lease: nobody is inside any more, and nobody is told. Returns its record, with a reference
 * that rdl__cache_forget_kept takes.  @locks the name's */
struct rdl__record *rdl__cache_leave_to_lease(struct rdl__cache *cache);
/* The rest of that: have the watchdog forget the hold, and count its end.  @locks none */
void rdl__cache_forget_kept(struct rdl__cache *cache, struct rdl__record *kept);
/* Ask the server whether it has hold n, and its clock.  @thread loop  @locks none */
void rdl__cache_confirm(struct rdl__cache *cache, rdl_lock_t *lock, int64_t n);
/* Release the kept hold now, if that is what the keep's state asks for. `lock`: a handle of the name.  @locks none */
void rdl__cache_release(struct rdl__cache *cache, rdl_lock_t *lock);

/* ---- recall.c --------------------------------------------------------------------------------------------------- */

/* Have the loop do what the keep's state asks for, or listen for recalls.  @locks the name's */
void rdl__cache_post(struct rdl__cache *cache);
/* The state has changed: when does the loop have to act by itself?  @thread loop  @locks none */
void rdl__cache_arm(struct rdl__cache *cache);
/* Is the server that has the lock now the one that confirmed the subscription?  @thread loop */
bool rdl__cache_at_home(const struct rdl__cache *cache);

/* ---- cache.c ---------------------------------------------------------------------------------------------------- */

/* Does the record have a local hold? NULL: no. */
static inline bool rdl__cache_is_local(const struct rdl__record *rec)
{
    return rec != NULL && rec->count > 0 && rec->hold.id.n < 0;
}

/* The state is HELD and nobody is inside: let the next one in, keep the hold, or give it back.  @locks the name's */
void rdl__cache_next(struct rdl__cache *cache, int64_t now);
/* The client's take was granted: let in whom it was sent for, before anything else. Who asks for more than it has asks
 * the server.  @locks the name's */
void rdl__cache_first(struct rdl__cache *cache, int64_t now);
/* Nothing is kept any more: those who want the other end ask for it, brief ones ask, and if the state is NONE those
 * who wait here try anew.  @locks the name's */
void rdl__cache_anew(struct rdl__cache *cache, int64_t now);
/* Whoever waits here for the end that is kept asks the server.  @locks the name's */
void rdl__cache_all_ask(struct rdl__cache *cache);
/* If all have given up for whom the client's take was sent, it is canceled.  @locks none */
void rdl__cache_end_unwanted(struct rdl__cache *cache);
/* The server had hold n when its clock was clock_us; 0: it has not said so. Who waits here is let in, or the hold is
 * given back.  @locks the name's */
void rdl__cache_confirmed(struct rdl__cache *cache, int64_t n, int64_t clock_us, int64_t now);
/* The client's take has failed, and nothing more is to be known by asking again: so do calls that do not wait.
 * @locks the name's */
void rdl__cache_fail(struct rdl__cache *cache, int rc);

/* Is that owner inside the present kept hold? Its own lease may be over.  @locks the name's */
static inline bool rdl__cache_has(const struct rdl__cache *cache, const struct rdl__record *rec)
{
    rdl__assert_locked(&cache->name->mu);
    return rec->inside && rec->hold.id.n < cache->ended_n;
}

/* How long does the call wait? Briefly: its wait ends before the answer to a first try has to come, which it is let
 * have (rdl__call_answer_by). */
enum rdl__keep_wait rdl__cache_wait_of(const struct rdl__call *call);

/* A call waits here, for this end or the other, or no more.  @locks the name's */
void rdl__cache_queue(struct rdl__cache *cache, struct rdl__call *call);
void rdl__cache_unqueue(struct rdl__cache *cache, struct rdl__call *call);

/* An owner that does not have it: what is to be done? IN: it is let in.  @locks the name's */
enum rdl__keep_entry rdl__cache_enter(struct rdl__cache *cache, struct rdl__record *rec, int64_t lease_ms,
                                      enum rdl__keep_wait wait, int64_t until, int64_t now);
/* The owner has taken that end of two at the server: what it wants of the other it asks for as if nothing were kept.
 * @locks the name's */
void rdl__cache_asked(struct rdl__cache *cache, const rdl_owner_t *owner, const struct rdl__lock_ops *ops);
/* A nested take, decided from the record. RDL_OK: done; 1: the kept hold has to be extended.  @locks the name's */
int rdl__cache_take_again(struct rdl__cache *cache, struct rdl__record *rec, int64_t lease_ms, int64_t now);

/* Is an owner's local hold lost?  @locks the name's */
bool rdl__cache_is_lost(struct rdl__cache *cache, struct rdl__record *rec, int64_t now);
/* Is so much left of the kept hold that an owner may come in, or stay?  @locks the name's */
bool rdl__cache_fits(struct rdl__cache *cache, int64_t lease_ms, int64_t now);

/* Take one count of a local hold back: RDL_OK or RDL_ELOST. *ret_unnoticed: it is lost, and nobody knew.  @locks the
 * name's */
int rdl__cache_leave(struct rdl__cache *cache, struct rdl__record *rec, int64_t now, bool *ret_unnoticed);
/* Count what has ended so, and tell its loss. A reference to the record is the caller's.  @locks none */
void rdl__cache_tell_left(struct rdl__record *rec, const struct rdl__hold_id *id, bool outermost, bool unnoticed,
                          int rc, int64_t since, int64_t now);
/* A local hold ends whose record is not held any more, or is lost.  @locks the name's */
void rdl__cache_end(struct rdl__cache *cache, struct rdl__record *rec, int64_t now);
/* The owner is not inside any more.  @locks the name's */
void rdl__cache_without(struct rdl__cache *cache, struct rdl__record *rec, int64_t now);

/* As rdl__record_view. */
struct rdl__view rdl__cache_view(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                                 int64_t now);

#endif
