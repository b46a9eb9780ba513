/* SPDX-License-Identifier: MIT */
/* plan.h - acquiring several locks as one: a pure machine, events in, orders out.
 *
 * It reads no clock and owns no call. The driver (composite/take.c) passes an event in, then carries out the order that
 * each member has got and sets the timer. Two machines have this interface: multi.c wants all members, red.c a
 * majority.
 *
 * A member:     FREE --TRY, WAIT--> ASKED --granted--> TAKEN --RELEASE--> FREE
 *                                   |  refused, failed                  TAKEN --EXTEND--> ASKED
 *                                   v
 *                                REFUSED, FAILED      (treated as FREE when the next round begins)
 *
 * A member that is ASKED stays so until its answer has come, whatever was decided meanwhile: CANCEL only makes the
 * answer come sooner. Answers after DONE are the driver's.
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
    RDL__MEMBER_TRY,     /* take it without waiting for it; the answer may take bound_ms (0: command_timeout_ms) */
    RDL__MEMBER_WAIT,    /* take it, waiting for it at most bound_ms */
    RDL__MEMBER_EXTEND,  /* extend its hold to a lease from now */
    RDL__MEMBER_CANCEL,  /* cancel its call */
    RDL__MEMBER_RELEASE, /* give one take back; the answer is not waited for */
};

struct rdl__member {
    unsigned char state;
    unsigned char order; /* enum rdl__member_order; the driver clears it */
    bool given_up;       /* ASKED, but a grant is no longer wanted */
    bool uncounted; /* TAKEN, but not towards the quorum: its server may have forgotten a holder, or has a vote already
                     */
    bool waits;     /* multi.c: others have a turn of it before, so the first take of it waits; set before the start */
    bool open;      /* red.c: may be free: released, by us or by others, since it was last asked */
    bool was_open;  /* `open` before it was last asked: restored if that is not answered */
    bool anothers;  /* red.c: its last answer, wanted or not, was a refusal */
    bool passed_over; /* red.c: the last round could not ask it, as it had not answered the round before */
    int code;         /* of the last answer */
    int64_t bound_ms;
    int64_t until; /* TAKEN: valid until then */
};

enum rdl__plan_phase { RDL__PLAN_ROUND, RDL__PLAN_WAIT, RDL__PLAN_PAUSE, RDL__PLAN_DONE };

struct rdl__plan {
    /* set before the start */
    struct rdl__member *member; /* zeroed, but for `waits` */
    unsigned n;
    unsigned quorum;     /* how many members must be held */
    bool one_try;        /* one round, without waiting for a release */
    bool renewed;        /* the lease is RDL_LEASE_AUTO */
    int64_t deadline;    /* RDL__NEVER: none; 0: with one_try, command_timeout_ms for each answer */
    int64_t patience_ms; /* the least time that the first round's answers are waited for, within member_timeout_ms */
    int64_t member_timeout_ms; /* red.c: how long one server is waited for */
    int64_t most_hold_ms;      /* multi.c: how long some may be held while waiting for another */
    rdl_retry_t retry;
    struct rdl__rand rand;

    enum rdl__plan_phase phase;
    unsigned out;       /* how many members are ASKED and not given up */
    unsigned rounds;    /* begun */
    unsigned conflicts; /* rounds lost */
    unsigned at;        /* multi.c: the member waited for */
    unsigned culprit;   /* DONE with an error: the member that caused it */
    int64_t wake_at;    /* when RDL__PLAN_TIMER is wanted; RDL__NEVER: not */
    int rc;             /* DONE: the outcome; PAUSE: the outcome if no further round succeeds */
    int64_t round_at;   /* red.c: when the round began */
    int64_t round_ns;   /* how long the last round took */
    bool behind;        /* red.c: set by the driver: another waiter of this composite acts on releases */
    bool hurried;       /* the round, or the next one, was brought forward by a release */
    unsigned in_vain;   /* how many hurried rounds in a row were lost */
};

enum rdl__plan_event_kind {
    RDL__PLAN_START,
    RDL__PLAN_ANSWER,
    RDL__PLAN_TIMER,
    RDL__PLAN_STOP,
    RDL__PLAN_RELEASED,
    RDL__PLAN_TURN /* `behind` is over */
};

struct rdl__plan_event {
    enum rdl__plan_event_kind kind;
    int64_t now;
    unsigned member; /* ANSWER, as the next three; RELEASED: the member that was, or may have been */
    int code;        /* RDL_OK; RDL_ETIMEDOUT: refused; or another error. STOP: why */
    bool uncounted;
    int64_t until;
};

struct rdl__plan_ops {
    void (*on)(struct rdl__plan *p, const struct rdl__plan_event *ev);
    bool majority;       /* a minority may be missing, when it is taken and while it is held */
    bool wants_releases; /* it wants RDL__PLAN_RELEASED from its first PAUSE on */
};

extern const struct rdl__plan_ops rdl__multi_ops;
extern const struct rdl__plan_ops rdl__red_ops;

/* ---- plan.c: what the machines have in common ------------------------------------------------------------------- */

/* Give a member that is not ASKED an order that will be answered. */
void rdl__plan_ask(struct rdl__plan *p, unsigned i, enum rdl__member_order order, int64_t bound_ms);

/* Give a member up: release it if TAKEN; cancel it if ASKED, and release what that may still take. */
void rdl__plan_let_go(struct rdl__plan *p, unsigned i);

/* Note an answer. False: the member was given up, and a grant is being released. */
bool rdl__plan_note(struct rdl__plan *p, const struct rdl__plan_event *ev);

/* The end. Unless rc is RDL_OK every member is given up. */
void rdl__plan_finish(struct rdl__plan *p, int rc, unsigned culprit);

/* Time left until the deadline in whole ms, with wait_ms' special values; and the bound for the answers of a new round.
 */
int64_t rdl__plan_left_ms(const struct rdl__plan *p, int64_t now);
int64_t rdl__plan_round_ms(const struct rdl__plan *p, int64_t now);
bool rdl__plan_late(const struct rdl__plan *p, int64_t now);

/* The retry policy's pause after so many conflicts; at least 1 ms. */
int64_t rdl__plan_pause_ms(struct rdl__plan *p);

/* When the hold ends by itself: the quorum-th longest of the counted members' ends; INT64_MIN: too few members. */
int64_t rdl__plan_until(const struct rdl__plan *p);

#endif
