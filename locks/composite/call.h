/* composite/call.h - a composite's call, as its verbs see it (call.c). All under the composite's mutex, unless it says
 * otherwise. */
#ifndef REDLATCH_COMPOSITE_CALL_H
#define REDLATCH_COMPOSITE_CALL_H

#include "core/call/verb.h"
#include "locks/composite/record.h"

/* What a call asks of one member. */
struct rdl__member_call {
    struct rdl__composite_op *call;
    unsigned index;
    rdl_op_t *op; /* under way */
    bool under_way;
    bool takes;
    bool answered;
    int64_t result;
    rdl_op_t *listener;         /* of an acquire: hears of the member's releases */
    bool owing;                 /* of an acquire: the member's client is kept open for what was taken */
    struct rdl__underway taken; /* and its closing ends a take that cannot do without */
};

/* A call, and what it asks of the members. Under mu; what explains the outcome does not change once it has ended, so
 * that its callback may read it. */
struct rdl__composite_op {
    rdl_op_t op;
    const struct rdl__composite_verb *verb;
    struct rdl__composite_record *rec;
    struct rdl__underway named; /* at the record's owner, when another one acts for it in the home client */
    struct rdl__link pending;   /* on the record's queue: until it begins */
    struct rdl__task task;      /* of the home client's loop, like the next: to look at an asynchronous call */
    struct rdl__timer timer;
    bool ended;
    struct rdl__fan *fan;     /* while its own thread begins it: where that asks the members itself */
    bool was_lost;            /* before its release */
    int64_t serial;           /* of the hold that it took */
    unsigned asked, answered; /* of verbs other than acquire, like the next */
    unsigned spared;          /* members that count and have what is wanted of them without being asked */
    int64_t end_by;      /* the home client closes: answers of other clients' members are waited for until then; or 0 */
    rdl_err_t why;       /* the details of a member's failure that stands for the whole */
    unsigned lost_count; /* members that were lost, and which, for a person */
    char lost[160];
    struct rdl__link in_line; /* of an acquire, like the rest: on the composite's list from its first pause on */
    uint64_t taken;           /* as of its composite, when its news was heard */
    bool its_turn;            /* to act on what was heard, as it has become the first there */
    struct rdl__plan plan;
    struct rdl__member *member;
    struct rdl__member_call call_at[];
};

/* A verb of composites. */
struct rdl__composite_verb {
    bool acquires, on_record; /* as its member's */
    const struct rdl__verb *member;
    bool gives_back; /* a release: with memory that was set aside, and beside stragglers, as it asks only who was taken
                      */
    void (*begin)(struct rdl__composite_op *call, int64_t now);
    /* A member call was answered; it is no longer under way. */
    void (*answered)(struct rdl__composite_op *call, unsigned i, int64_t result, const rdl_err_t *err);
    /* Of an acquire that has begun: an event for its machine, and all that follows from it at once. */
    void (*feed)(struct rdl__composite_op *call, const struct rdl__plan_event *ev);
    /* Of the others (gather.c): is the member concerned? If so it will be asked. */
    bool (*concerns)(struct rdl__composite_op *call, unsigned i);
    bool (*add_up)(const struct rdl__composite_op *call, int64_t *ret); /* False: more answers are needed */
};

static inline struct rdl__composite *rdl__composite_of_call(const struct rdl__composite_op *call)
{
    return rdl__composite_of(call->op.lock);
}

/* As their namesakes of core/call/call.h; `verb` is what the order's verb is to a composite.  @locks none */
int64_t rdl__composite_call(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_err_t *err);
int rdl__composite_call_async(const struct rdl__order *order, const struct rdl__composite_verb *verb, rdl_op_t **ret_op,
                              rdl_err_t *err);

size_t rdl__composite_call_size(unsigned n); /* with n members  @locks any */

/* Begin a member's verb. RDL_OK: `answered` will run. once: an acquire that does not wait for the lock. */
int rdl__composite_ask(struct rdl__composite_op *call, unsigned i, const struct rdl__verb *verb, int64_t wait_ms,
                       bool once);
void rdl__composite_cancel_takes(struct rdl__composite_op *call); /* those that take */

/* Member i was taken by an acquire that is under way, and may have to be given back: its client stays open for that. It
 * ends as the give-back is begun, or as the whole is the caller's. */
void rdl__composite_owing_begins(struct rdl__composite_op *call, unsigned i);
void rdl__composite_owing_ends(struct rdl__composite_op *call, unsigned i);
/* Of all members; of a call that has ended its own thread does it without mu. */
void rdl__composite_owing_ends_all(struct rdl__composite_op *call);

/* For how long the first answers of an acquire are waited for, be its wait shorter: by the home shards of its clients,
 * as another may go with its client.  @locks any */
int64_t rdl__composite_patience_ms(const struct rdl__composite *j);

/* Feed the machine with what is heard of the members' releases; until the call has ended, or as long as it goes. */
void rdl__composite_listen(struct rdl__composite_op *call);
void rdl__composite_nudge(struct rdl__composite_op *call); /* whoever drives the call should look at it */
void rdl__composite_end(struct rdl__composite_op *call, int64_t result);

#endif
