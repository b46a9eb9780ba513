/* plan.h - acquiring several locks as one: a pure machine, events in, orders out.
 *
 * It reads no clock and owns no call. The driver (composite/take.c) tells what happened, then carries out the order
 * that each member was left with and sets the timer. Two machines share this face: multi.c wants all of its members,
 * red.c a majority.
 *
 * A member:     FREE --TRY, WAIT--> ASKED --granted--> TAKEN --RELEASE--> FREE
 *                                   |  refused, failed                  TAKEN --EXTEND--> ASKED
 *                                   v
 *                                REFUSED, FAILED      (and as good as FREE when the next round begins)
 *
 * A member that is ASKED stays so until its answer has come, whatever was decided meanwhile: CANCEL only asks it to
 * hurry. Late answers are the driver's.
 */
#ifndef REDLATCH_COMPOSITE_PLAN_H
#define REDLATCH_COMPOSITE_PLAN_H

#include "core/base/entropy.h"

#include <redlatch/lock.h>
#include <stdbool.h>

enum rdl__member_state {
    RDL__MEMBER_FREE,
    RDL__MEMBER_ASKED,
    RDL__MEMBER_TAKEN,
    RDL__MEMBER_REFUSED,
    RDL__MEMBER_FAILED
};

enum rdl__member_order {
    RDL__MEMBER_NOTHING,
    RDL__MEMBER_TRY,     /* take it without waiting for it; the answer may take bound_ms (0: as long as any answer) */
    RDL__MEMBER_WAIT,    /* take it, waiting for it at most bound_ms */
    RDL__MEMBER_EXTEND,  /* see that its hold lasts a lease from now */
    RDL__MEMBER_CANCEL,  /* end what was asked of it */
    RDL__MEMBER_RELEASE, /* undo one take; nobody waits for the answer */
};

struct rdl__member {
    unsigned char state;
    unsigned char order; /* the driver takes it off */
    bool given_up;       /* ASKED, but its answer is no longer wanted */
    bool uncounted; /* TAKEN, but from a server that may have forgotten an earlier holder, or that is counted already */
    bool open;      /* red.c: maybe free; it was released, by us or by others, since it was asked for */
    bool was_open;  /* before it was asked for last: so it is still, unless that was answered */
    bool anothers;  /* red.c: somebody else had it when it answered last, wanted or not */
    bool passed_over; /* red.c: the last round could not ask it, for it had not answered the one before yet */
    int code;         /* FAILED: why */
    int64_t bound_ms;
    int64_t until; /* TAKEN: valid until then */
};

enum rdl__plan_phase { RDL__PLAN_ROUND, RDL__PLAN_WAIT, RDL__PLAN_PAUSE, RDL__PLAN_DONE };

struct rdl__plan {
    /* set before the start */
    struct rdl__member *member; /* zeroed */
    unsigned n;
    unsigned quorum;  /* how many must be had */
    bool once;        /* do not wait for anybody's release */
    bool renewed;     /* the lease is RDL_LEASE_AUTO */
    int64_t deadline; /* RDL__NEVER: none. once: of the one round's answers; 0: as long as any answer takes */
    int64_t
        patience_ms; /* how long the first round's answers are waited for at least, if member_timeout_ms is not less */
    int64_t member_timeout_ms; /* red.c: how long one server is waited for */
    int64_t most_hold_ms;      /* multi.c: how long some may be held while waiting for another */
    rdl_retry_t retry;
    struct rdl__rand rand;

    enum rdl__plan_phase phase;
    unsigned out;       /* members ASKED and not given up */
    unsigned rounds;    /* begun */
    unsigned conflicts; /* rounds lost */
    unsigned at;        /* multi.c: the member waited for */
    unsigned culprit;   /* DONE with an error: a member that stands for it */
    int64_t wake_at;    /* send RDL__PLAN_TIMER then; RDL__NEVER: no need */
    int rc;             /* DONE: the outcome; PAUSE: what it would be */
    int64_t round_at;   /* red.c: when the round began */
    int64_t round_ns;   /* and how long the last one took */
    bool behind;        /* red.c: another waiter of this composite acts on news; by the driver */
    bool hurried;       /* the round, or the one to come, was brought forward by news */
    unsigned in_vain;   /* of those were lost */
};

enum rdl__plan_event_kind {
    RDL__PLAN_START,
    RDL__PLAN_ANSWER,
    RDL__PLAN_TIMER,
    RDL__PLAN_STOP,
    RDL__PLAN_NEWS,
    RDL__PLAN_TURN /* `behind` is over */
};

struct rdl__plan_event {
    enum rdl__plan_event_kind kind;
    int64_t now;
    unsigned member; /* ANSWER, and the next three; NEWS: that has been released, or may have been without our hearing
                        of it */
    int code;        /* RDL_OK, RDL_ETIMEDOUT: somebody else has it, or another error. STOP: why */
    bool uncounted;
    int64_t until;
};

struct rdl__plan_ops {
    void (*on)(struct rdl__plan *p, const struct rdl__plan_event *ev);
    bool majority;   /* a minority may be missing, at taking and for as long as it is held */
    bool wants_news; /* from its first PAUSE on, what is heard of members is fed to it */
};

extern const struct rdl__plan_ops rdl__multi_ops;
extern const struct rdl__plan_ops rdl__red_ops;

/* ---- plan.c: what the machines have in common ------------------------------------------------------------------- */

/* Give a FREE, REFUSED, FAILED or TAKEN member something to do that will be answered. */
void rdl__plan_ask(struct rdl__plan *p, unsigned i, enum rdl__member_order order, int64_t bound_ms);

/* Let go of a member: release it if TAKEN; if ASKED, ask it to end and want its answer no more. */
void rdl__plan_let_go(struct rdl__plan *p, unsigned i);

/* Note an answer. False: it was no longer wanted, and what it brought is being released. */
bool rdl__plan_note(struct rdl__plan *p, const struct rdl__plan_event *ev);

/* The end. Unless rc is RDL_OK everything is let go. */
void rdl__plan_finish(struct rdl__plan *p, int rc, unsigned culprit);

/* Time left until the deadline in whole milliseconds, as wait_ms has it; and how long the answers of a round that
 * begins may take. */
int64_t rdl__plan_left_ms(const struct rdl__plan *p, int64_t now);
int64_t rdl__plan_round_ms(const struct rdl__plan *p, int64_t now);
bool rdl__plan_late(const struct rdl__plan *p, int64_t now);

/* A pause that grows with the conflicts, as the retry policy has it; at least 1 ms. */
int64_t rdl__plan_pause_ms(struct rdl__plan *p);

/* When the hold that was taken ends by itself: the quorum-th longest of the members that count; INT64_MIN: too few of
 * them. */
int64_t rdl__plan_until(const struct rdl__plan *p);

#endif
