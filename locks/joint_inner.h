/* joint_inner.h - composite locks from inside: what their rooms share.
 *
 *   joint.c          the handle: which members, in which order, how they are named
 *   joint_record.c   what an owner has of a composite: its seats at the parts, what they come to, what goes back
 *   joint_call.c     a call: its life, its turn on the record, whose thread drives it, how it ends
 *   joint_take.c     acquiring: carries out what the machine of multi.c or red.c orders
 *   joint_sum.c      the other verbs: ask the parts, add the answers up
 *
 * A composite is made of parts: handles of its own, of names that it shares with the members it was made from, which may be
 * freed. Every part is taken, renewed, released and lost as any lock is: call.c sees to repeats, undo and deadlines, each
 * member's own client to renewal. What is added here is when which part is asked for what, and what it all comes to.
 *
 * Locks: a composite's mutex is taken before any other lock of ours; nothing calls into these files with one held, except to
 * cancel, and that only posts.
 *
 * References: the handle's count is the user's, one for each part's handle, each record, each call. A call's are the user's
 * or caller's, one until it has ended, one for each question under way, for each listener, and for its callback.
 *
 * To add a verb: a table in joint_sum.c, a line in joint_call.c.
 */
#ifndef REDLATCH_LOCKS_JOINT_INNER_H
#define REDLATCH_LOCKS_JOINT_INNER_H

#include "locks/joint.h"
#include "locks/verb.h"

struct rdl__joint_op;

struct rdl__part_handle {
    rdl_lock_t handle;
    struct rdl__joint *joint;
    unsigned index;
};

struct rdl__joint {
    rdl_lock_t handle; /* name NULL; fn and arg under mu */
    /* immutable */
    const struct rdl__plan_ops *ops;
    struct rdl__joint_options options;
    rdl_client_t *home;
    unsigned home_part; /* one that is of that client */
    unsigned n, quorum;
    bool twins; /* two members would be one lock, were their clients' servers the same */
    size_t size;
    char *name;
    size_t name_len;

    struct rdl__mutex mu;
    struct rdl__link records; /* under mu, like the next */
    bool dropped;             /* the user has freed the handle: nobody can ask for a record any more */
    struct rdl__part_handle part[];
};

/* Which server it is, as far as is known: one says who it is when it is connected to. */
struct rdl__site {
    uint64_t run; /* 0: unknown */
    uint64_t label;
};

struct rdl__joint_seat {
    rdl_owner_t *owner; /* a reference */
    bool stands_in;     /* made for this record */
    bool uncounted;
    struct rdl__site site; /* what granted it */
    int64_t mine;          /* takes that are the composite's */
    int64_t n;             /* of the hold that they are part of */
    struct rdl__reserve reserve;
};

/* What one owner has of a composite. Under its mu. An acquire sets memory aside for its release, and so does each part's: a lock
 * that cannot be given back for want of memory would be held for ever. */
struct rdl__joint_record {
    struct rdl__link link;
    struct rdl__joint *joint;
    rdl_owner_t *owner; /* a reference */
    bool given;         /* the caller named it: at each seat acts itself, or one that stands for it */
    struct rdl__tie tie;
    bool tied;
    bool orphaned;
    bool lost;
    unsigned refs; /* list, tie, calls, event */
    int64_t count; /* as the user counts */
    int64_t want;  /* count, or one more while an acquire is under way */
    int64_t token;
    struct rdl__joint_op *active;
    bool beginning;                   /* somebody is at beginning what is pending */
    struct rdl__joint_op *straggling; /* an acquire that has ended with questions still under way */
    struct rdl__link pending;
    struct rdl__callback event;  /* its owner is gone: to be told */
    struct rdl__reserve reserve; /* of calls */
    struct rdl__joint_seat seat[];
};

struct rdl__question {
    struct rdl__joint_op *call;
    unsigned index;
    rdl_op_t *op; /* under way */
    bool under_way;
    bool takes;
    bool answered;
    int64_t result;
    rdl_op_t *listener;         /* of an acquire: hears of the part's releases */
    bool owing;                 /* of an acquire: the part's client is kept open for what was taken */
    struct rdl__underway taken; /* and its closing ends a take that cannot do without */
};

/* A call: an rdl_op_t of which only the user's side is used (joint_call.c, init_op), and what it asks the parts. Under mu; what
 * explains the outcome does not change once it has ended, so that its callback may read it. */
struct rdl__joint_op {
    rdl_op_t op; /* must be first */
    const struct rdl__joint_verb *verb;
    struct rdl__joint_record *rec;
    struct rdl__underway named; /* at the record's owner, when another one acts for it in the home client */
    bool queued;
    bool begun;
    bool ended;
    struct rdl__fan *fan;     /* while its own thread begins it: where that asks the parts itself */
    bool was_lost;            /* before its release */
    unsigned asked, answered; /* of verbs other than acquire, like the next */
    unsigned spared;          /* parts that count and have what is wanted of them without being asked */
    int64_t end_by;           /* the home client closes: answers of other clients' members are waited for until then; or 0 */
    rdl_err_t why;            /* the details of a part's failure that stands for the whole */
    unsigned lost_count;      /* parts that were lost, and which, for a person */
    char lost[160];
    bool listening; /* of an acquire, like the next two */
    struct rdl__plan plan;
    struct rdl__part *part;
    struct rdl__question question[];
};

/* A verb of composites. All of it runs under mu. */
struct rdl__joint_verb {
    struct rdl__verb as_op; /* acquires, on_record: as theirs; gone */
    const struct rdl__verb *part;
    void (*begin)(struct rdl__joint_op *call, int64_t now);
    /* A question was answered; it is no longer under way. */
    void (*answered)(struct rdl__joint_op *call, unsigned i, int64_t result, const rdl_err_t *err);
    /* Is the part concerned? If so it will be asked. (This and the next are joint_sum.c's.) */
    bool (*concerns)(struct rdl__joint_op *call, unsigned i);
    bool (*add_up)(const struct rdl__joint_op *call, int64_t *ret); /* False: more answers are needed */
};

extern const struct rdl__joint_verb rdl__joint_take;
extern const struct rdl__joint_verb rdl__joint_release;
extern const struct rdl__joint_verb rdl__joint_extend;
extern const struct rdl__joint_verb rdl__joint_force;
extern const struct rdl__joint_verb rdl__joint_is_locked;
extern const struct rdl__joint_verb rdl__joint_remaining;

static inline struct rdl__joint *rdl__joint_of(const rdl_lock_t *lock)
{
    return rdl__container(lock, struct rdl__joint, handle);
}

static inline struct rdl__joint *rdl__joint_op_of(const struct rdl__joint_op *call)
{
    return rdl__joint_of(call->op.lock);
}

static inline rdl_client_t *rdl__joint_client(const struct rdl__joint *j, unsigned i)
{
    return j->part[i].handle.name->client;
}

/* ---- joint.c ------------------------------------------------------------------------------------------------------------- */

/* Where the name is. For those whom its client cannot close under: a call of that client, or its loop.  @locks any */
struct rdl__site rdl__joint_site(const struct rdl__name *name);
bool rdl__joint_one_server(struct rdl__site a, struct rdl__site b);
/* A multi-lock that names one lock twice would wait for itself. It may be found out only when all servers are known, or moved.
 * RDL_OK, or RDL_EDEADLK.  @locks any */
int rdl__joint_check_twins(struct rdl__joint *j, rdl_err_t *err);
struct rdl__joint *rdl__joint_ref(struct rdl__joint *j);
void rdl__joint_unref(struct rdl__joint *j); /* @locks none */

/* ---- joint_record.c: all under mu, unless they say otherwise --------------------------------------------------------------- */

/* The owner's record; mu is let go of while one is made. `given`: the caller named the owner. Errors: RDL_ENOMEM, RDL_ECLOSED. */
int rdl__joint_record_of(struct rdl__joint *j, rdl_owner_t *owner, bool given, struct rdl__joint_record **ret);
void rdl__joint_record_unref(struct rdl__joint_record *rec);
void rdl__joint_record_retire(struct rdl__joint_record *rec); /* off the list when there is nothing to remember */
void rdl__joint_records_drop(struct rdl__joint *j);           /* the handle is freed: so is what nothing is under way on */

/* The seat's hold, if it is still the one that the composite took. */
struct rdl__view rdl__joint_seat_view(const struct rdl__joint_record *rec, unsigned i, int64_t now);
/* The whole. Once too few seats hold it is lost for good. */
struct rdl__view rdl__joint_record_view(struct rdl__joint_record *rec, int64_t now);

/* Release one take of the composite's at part i; nobody waits for it. False: no memory, or the client has no connections any
 * more; the next time that things are settled it is tried again. */
bool rdl__joint_give_back(struct rdl__joint_record *rec, unsigned i);
/* What is above the wanted count goes back; all of it, when a majority that was lost leaves a rest. */
void rdl__joint_settle(struct rdl__joint_record *rec);

/* A part's rdl_lost_fn.  @locks none */
void rdl__joint_part_lost(rdl_lock_t *part, const rdl_loss_t *loss, void *arg);

/* The k-th longest of n numbers, 1 <= k <= n; sorts them.  @locks any */
int64_t rdl__joint_kth_longest(int64_t *left, unsigned n, unsigned k);

/* ---- joint_call.c: under mu ------------------------------------------------------------------------------------------------ */

size_t rdl__joint_op_size(const struct rdl__joint *j);

/* For tables. */
void rdl__joint_op_gone(rdl_op_t *op);

/* Begin a part's verb. RDL_OK: `answered` will run. once: an acquire that does not wait for the lock. */
int rdl__joint_ask(struct rdl__joint_op *call, unsigned i, const struct rdl__verb *verb, int64_t wait_ms, bool once);
void rdl__joint_cancel_questions(struct rdl__joint_op *call); /* those that take */
/* Part i was taken by an acquire that is under way, and may have to be given back: its client stays open for that. It ends as the
 * give-back is begun, or as the whole is the caller's. */
void rdl__joint_owing_begins(struct rdl__joint_op *call, unsigned i);
void rdl__joint_owing_ends(struct rdl__joint_op *call, unsigned i);
void rdl__joint_owing_ends_all(struct rdl__joint_op *call); /* or, of a call that has ended, by its own thread without mu */
/* Feed the machine with what is heard of the parts' releases; until the call has ended, or as long as it goes. */
void rdl__joint_listen(struct rdl__joint_op *call);
void rdl__joint_nudge(struct rdl__joint_op *call); /* whoever drives the call should look at it */
void rdl__joint_end(struct rdl__joint_op *call, int64_t result);

/* ---- joint_take.c: under mu ------------------------------------------------------------------------------------------------ */

/* For how long the first answers of an acquire are waited for, be its wait shorter: by the home shards of its clients, as another
 * may go with its client. */
int64_t rdl__joint_patience_ms(const struct rdl__joint *j);

/* An event for the machine of an acquire that has begun, and all that follows from it at once. */
void rdl__joint_feed(struct rdl__joint_op *call, const struct rdl__plan_event *ev);

#endif
