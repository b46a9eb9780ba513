/* composite/inner.h - composite locks from inside: what their rooms share.
 *
 *   composite.c          the handle: which members, in which order, how they are named
 *   composite/record.c   what an owner has of a composite: its holds at the members, what they come to, what goes back
 *   composite/call.c     a call: its life, its turn on the record, whose thread drives it, how it ends
 *   composite/take.c     acquiring: carries out what the machine of multi.c or red.c orders
 *   composite/gather.c      the other verbs: ask the members, add the answers up
 *
 * A composite is made of members: handles of its own, of names that it shares with the members it was made from, which
 * may be freed. Every member is taken, renewed, released and lost as any lock is: call.c sees to repeats, undo and
 * deadlines, each member's own client to renewal. What is added here is when which member is asked for what, and what
 * it all comes to.
 *
 * Locks: a composite's mutex is taken before any other lock of ours; nothing calls into these files with one held,
 * except to cancel, and that only posts.
 *
 * References: the handle's count is the user's, one for each member's handle, each record, each call. A call's are the
 * user's or caller's, one until it has ended, one for each member call under way, for each listener, and for its
 * callback.
 *
 * To add a verb: a table in composite/gather.c, a line in composite/call.c.
 */
#ifndef REDLATCH_COMPOSITE_INNER_H
#define REDLATCH_COMPOSITE_INNER_H

#include "core/call/verb.h"
#include "locks/composite/composite.h"

struct rdl__composite_op;

struct rdl__member_handle {
    struct rdl__embedded as; /* must be first */
    struct rdl__composite *joint;
    unsigned index;
};

struct rdl__composite {
    rdl_lock_t handle; /* no name; fn and arg under mu */
    /* immutable */
    const struct rdl__plan_ops *plan;
    struct rdl__composite_options options;
    rdl_client_t *home;
    unsigned home_member; /* one that is of that client */
    unsigned n, quorum;
    bool twins; /* two members would be one lock, were their clients' servers the same */
    size_t size;
    char *name;
    size_t name_len;

    struct rdl__mutex mu;
    struct rdl__link records; /* under mu, like the next */
    bool dropped;             /* the user has freed the handle: nobody can ask for a record any more */
    struct rdl__member_handle member[];
};

/* Which server it is, as far as is known: one says who it is when it is connected to. */
struct rdl__site {
    uint64_t run; /* 0: unknown */
    uint64_t label;
};

struct rdl__member_hold {
    rdl_owner_t *owner; /* a reference */
    bool stands_in;     /* made for this record */
    bool uncounted;
    struct rdl__site site; /* what granted it */
    int64_t mine;          /* takes that are the composite's */
    int64_t n;             /* of the hold that they are member of */
    struct rdl__reserve reserve;
};

/* What one owner has of a composite. Under its mu. An acquire sets memory aside for its release, and so does each
 * member's: a lock that cannot be given back for want of memory would be held for ever. */
struct rdl__composite_record {
    struct rdl__link link;
    struct rdl__composite *joint;
    rdl_owner_t *owner; /* a reference */
    bool given;         /* the caller named it: at each hold acts itself, or one that stands for it */
    struct rdl__owner_link owner_link;
    bool linked;
    bool orphaned;
    bool lost;
    unsigned refs; /* list, owner_link, calls, event */
    int64_t count; /* as the user counts */
    int64_t want;  /* count, or one more while an acquire is under way */
    int64_t token;
    int64_t serial; /* of the hold: how many there have been */
    struct rdl__composite_op *active;
    bool beginning;                       /* somebody is at beginning what is pending */
    struct rdl__composite_op *straggling; /* an acquire that has ended with member calls still under way */
    struct rdl__link pending;
    struct rdl__callback event;  /* its owner is gone: to be told */
    struct rdl__reserve reserve; /* of calls */
    struct rdl__member_hold hold[];
};

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

/* A composite's call, and what it asks the members. Under mu; what explains the outcome does not change once it has
 * ended, so that its callback may read it. */
struct rdl__composite_op {
    rdl_op_t op;
    const struct rdl__composite_verb *verb;
    struct rdl__composite_record *rec;
    struct rdl__underway named; /* at the record's owner, when another one acts for it in the home client */
    struct rdl__link pending;   /* on the record's queue */
    struct rdl__task task;      /* of the home client's loop, like the next: to look at an asynchronous call */
    struct rdl__timer timer;
    bool queued;
    bool begun;
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
    bool listening; /* of an acquire, like the next two */
    struct rdl__plan plan;
    struct rdl__member *member;
    struct rdl__member_call call_at[];
};

/* A verb of composites. All of it runs under mu. */
struct rdl__composite_verb {
    bool acquires, on_record; /* as its member's */
    const struct rdl__verb *member;
    void (*begin)(struct rdl__composite_op *call, int64_t now);
    /* A member call was answered; it is no longer under way. */
    void (*answered)(struct rdl__composite_op *call, unsigned i, int64_t result, const rdl_err_t *err);
    /* Is the member concerned? If so it will be asked. (This and the next are composite/gather.c's.) */
    bool (*concerns)(struct rdl__composite_op *call, unsigned i);
    bool (*add_up)(const struct rdl__composite_op *call, int64_t *ret); /* False: more answers are needed */
};

extern const struct rdl__composite_verb rdl__composite_take;
extern const struct rdl__composite_verb rdl__composite_release;
extern const struct rdl__composite_verb rdl__composite_extend;
extern const struct rdl__composite_verb rdl__composite_force;
extern const struct rdl__composite_verb rdl__composite_is_locked;
extern const struct rdl__composite_verb rdl__composite_remaining;

static inline struct rdl__composite *rdl__composite_of(const rdl_lock_t *lock)
{
    return rdl__container(lock, struct rdl__composite, handle);
}

static inline struct rdl__composite *rdl__composite_op_of(const struct rdl__composite_op *call)
{
    return rdl__composite_of(call->op.lock);
}

static inline rdl_lock_t *rdl__member_lock(const struct rdl__composite *j, unsigned i)
{
    return (rdl_lock_t *)&j->member[i].as.handle;
}

static inline rdl_client_t *rdl__composite_client(const struct rdl__composite *j, unsigned i)
{
    return j->member[i].as.handle.name->client;
}

/* ---- composite.c ------------------------------------------------------------------------------------------------ */

/* Where the name is. For those whom its client cannot close under: a call of that client, or its loop.  @locks any */
struct rdl__site rdl__composite_site(const struct rdl__name *name);
bool rdl__composite_one_server(struct rdl__site a, struct rdl__site b);
/* A multi-lock that names one lock twice would wait for itself. It may be found out only when all servers are known, or
 * moved. RDL_OK, or RDL_EDEADLK.  @locks any */
int rdl__composite_check_twins(struct rdl__composite *j, rdl_err_t *err);
struct rdl__composite *rdl__composite_ref(struct rdl__composite *j);
void rdl__composite_unref(struct rdl__composite *j); /* @locks none */

/* ---- composite/record.c: all under mu, unless they say otherwise ------------------------------------------------ */

/* The owner's record; mu is let go of while one is made. `given`: the caller named the owner. Errors: RDL_ENOMEM,
 * RDL_ECLOSED. */
int rdl__composite_record_of(struct rdl__composite *j, rdl_owner_t *owner, bool given,
                             struct rdl__composite_record **ret);
void rdl__composite_record_unref(struct rdl__composite_record *rec);
void rdl__composite_record_retire(
    struct rdl__composite_record *rec); /* off the list when there is nothing to remember */
void rdl__composite_records_drop(
    struct rdl__composite *j); /* the handle is freed: so is what nothing is under way on */

/* The hold's hold, if it is still the one that the composite took. */
struct rdl__view rdl__member_hold_view(const struct rdl__composite_record *rec, unsigned i, int64_t now);
/* The whole. Once too few holds hold it is lost for good. */
struct rdl__view rdl__composite_record_view(struct rdl__composite_record *rec, int64_t now);

/* Release one take of the composite's at member i; nobody waits for it. False: no memory, or the client has no
 * connections any more; the next time that things are settled it is tried again. */
bool rdl__composite_give_back(struct rdl__composite_record *rec, unsigned i);
/* What is above the wanted count goes back; all of it, when a majority that was lost leaves a rest. */
void rdl__composite_settle(struct rdl__composite_record *rec);

/* A member's rdl_lost_fn.  @locks none */
void rdl__composite_member_lost(rdl_lock_t *member, const rdl_loss_t *loss, void *arg);

/* The k-th longest of n numbers, 1 <= k <= n; sorts them.  @locks any */
int64_t rdl__composite_kth_longest(int64_t *left, unsigned n, unsigned k);

/* ---- composite/call.c: under mu --------------------------------------------------------------------------------- */

size_t rdl__composite_op_size(const struct rdl__composite *j);

/* Begin a member's verb. RDL_OK: `answered` will run. once: an acquire that does not wait for the lock. */
int rdl__composite_ask(struct rdl__composite_op *call, unsigned i, const struct rdl__verb *verb, int64_t wait_ms,
                       bool once);
void rdl__composite_cancel_takes(struct rdl__composite_op *call); /* those that take */
/* Part i was taken by an acquire that is under way, and may have to be given back: its client stays open for that. It
 * ends as the give-back is begun, or as the whole is the caller's. */
void rdl__composite_owing_begins(struct rdl__composite_op *call, unsigned i);
void rdl__composite_owing_ends(struct rdl__composite_op *call, unsigned i);
void rdl__composite_owing_ends_all(
    struct rdl__composite_op *call); /* or, of a call that has ended, by its own thread without mu */
/* Feed the machine with what is heard of the members' releases; until the call has ended, or as long as it goes. */
void rdl__composite_listen(struct rdl__composite_op *call);
void rdl__composite_nudge(struct rdl__composite_op *call); /* whoever drives the call should look at it */
void rdl__composite_end(struct rdl__composite_op *call, int64_t result);

/* ---- composite/take.c: under mu --------------------------------------------------------------------------------- */

/* For how long the first answers of an acquire are waited for, be its wait shorter: by the home shards of its clients,
 * as another may go with its client. */
int64_t rdl__composite_patience_ms(const struct rdl__composite *j);

/* An event for the machine of an acquire that has begun, and all that follows from it at once. */
void rdl__composite_feed(struct rdl__composite_op *call, const struct rdl__plan_event *ev);

#endif
