/* SPDX-License-Identifier: MIT */
/* composite/call.h - a composite's call, for its verbs (call.c).  @locks mu, all of it, unless it says otherwise */
#ifndef REDLATCH_COMPOSITE_CALL_H
#define REDLATCH_COMPOSITE_CALL_H

#include "core/call/verb.h"
#include "locks/composite/phase.h"
#include "locks/composite/record.h"

/* A composite's call of one of its members. */
struct rdl__member_call {
    struct rdl__composite_op *call;
    unsigned index;
    rdl_op_t *op; /* under way */
    bool under_way;
    bool takes;
    bool answered;
    int64_t result;
    rdl_op_t *listener; /* of an acquire: a listen call, which reports the member's releases */
    bool owing;         /* of an acquire: the member was taken, and its client's connections stay for a give-back */
    struct rdl__underway taken; /* while `owing`: that client's closing ends a multi-lock's take */
};

/* A call, and what it asks of the members. Under mu; what explains the outcome does not change once it has ended, so
 * that its callback may read it. */
struct rdl__composite_op {
    rdl_op_t op;
    const struct rdl__composite_verb *verb;
    struct rdl__composite_record *rec;
    struct rdl__underway named; /* at the record's owner, if that is not the one that acts in the home client */
    struct rdl__link pending;   /* on the record's queue, until it begins */
    struct rdl__task task;      /* of the home client's loop, like the next: they drive an asynchronous call */
    struct rdl__timer timer;
    enum rdl__composite_phase phase;
    struct rdl__fan *fan;     /* while its own thread begins it: requests to members go there */
    bool was_lost;            /* before its release */
    int64_t serial;           /* of the hold that it took */
    unsigned asked, answered; /* of verbs other than acquire, like the next */
    unsigned spared;          /* members that count, hold what is wanted, and need not be asked */
    int64_t answers_by;       /* of a red lock: members that have not answered by then have failed; or 0 */
    int64_t end_by;      /* the home client closes: answers of other clients' members are waited for until then; or 0 */
    rdl_err_t why;       /* the member's error that is reported as the whole's */
    unsigned lost_count; /* how many members were lost, and their names */
    char lost[160];
    struct rdl__link listening; /* of an acquire, like the rest: on composite->listening from its first pause on */
    uint64_t taken;             /* composite->taken when the last release was heard of */
    struct rdl__plan plan;
    struct rdl__member *member;
    struct rdl__member_call call_at[];
};

/* A verb of composites. */
struct rdl__composite_verb {
    bool acquires, on_record; /* as struct rdl__verb */
    const struct rdl__verb *member;
    bool gives_back; /* a release: uses reserved memory, and need not wait for stragglers, as it asks taken members only
                      */
    void (*begin)(struct rdl__composite_op *call, int64_t now);
    /* A member call has ended. */
    void (*answered)(struct rdl__composite_op *call, unsigned i, int64_t result, const rdl_err_t *err);
    /* Of an acquire that has begun: give its machine an event, and carry out the orders. */
    void (*feed)(struct rdl__composite_op *call, const struct rdl__plan_event *ev);
    /* Of the others (gather.c): is the member to be asked? Called once for each, as it may note that. */
    bool (*concerns)(struct rdl__composite_op *call, unsigned i);
    bool (*add_up)(const struct rdl__composite_op *call, int64_t *ret); /* False: more answers are needed */
};

/* @locks any */
static inline struct rdl__composite *rdl__composite_of_call(const struct rdl__composite_op *call)
{
    return rdl__composite_of(call->op.lock);
}

/* @locks any: the composite's, or the caller knows that it has ended, after which it stays so */
static inline bool rdl__composite_ended(const struct rdl__composite_op *call)
{
    return call->phase == RDL__COMPOSITE_ENDED;
}

static inline void rdl__composite_goes(struct rdl__composite_op *call, enum rdl__composite_phase to)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
#ifdef REDLATCH_ASSERTS
    assert(rdl__composite_phase_follows(call->phase, to));
#endif
    call->phase = to;
}

/* As rdl__call and rdl__call_async; `verb` is the composite's verb for order->verb.  @locks none */
int64_t rdl__composite_call(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_err_t *err);
int rdl__composite_call_async(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_op_t **ret_op,
                              rdl_err_t *err);

size_t rdl__composite_call_size(unsigned n); /* with n members  @locks any */

/* Begin a member's verb. RDL_OK: verb->answered will run. one_try: an acquire that does not wait for the lock. */
int rdl__composite_ask(struct rdl__composite_op *call, unsigned i, const struct rdl__verb *verb, int64_t wait_ms,
                       bool one_try);
void rdl__composite_cancel_takes(struct rdl__composite_op *call); /* cancel the member calls that are acquires */

/* Member i was taken by an acquire that is under way, and may have to be given back: its client keeps its connections
 * for that, until the give-back has begun or the acquire has ended. */
void rdl__composite_owing_begins(struct rdl__composite_op *call, unsigned i);
void rdl__composite_owing_ends(struct rdl__composite_op *call, unsigned i);
/* For all members.  @locks mu, until the call has ended */
void rdl__composite_owing_ends_all(struct rdl__composite_op *call);

/* The least time that the first answers of an acquire are waited for (rdl__call_patience), even if its wait is shorter.
 * By the home shards of the clients, since the others may be freed with their client.  @locks any */
int64_t rdl__composite_patience_ms(const struct rdl__composite *j);

/* Report the members' releases to the machine until the call has ended; best effort. */
void rdl__composite_listen(struct rdl__composite_op *call);
/* Wake the thread that drives the call.  @locks any: mu, or an owner's */
void rdl__composite_nudge(struct rdl__composite_op *call);
void rdl__composite_end(struct rdl__composite_op *call, int64_t result); /* its driver is told, and concludes it */

#endif
