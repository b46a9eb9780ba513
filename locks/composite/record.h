/* composite/record.h - what an owner has of a composite (record.c). All under the composite's mutex, unless it says
 * otherwise. */
#ifndef REDLATCH_COMPOSITE_RECORD_H
#define REDLATCH_COMPOSITE_RECORD_H

#include "core/base/reserve.h"
#include "locks/composite/composite.h"

struct rdl__composite_op;

/* The record at one member. */
struct rdl__member_hold {
    rdl_owner_t *owner;          /* who acts there; a reference */
    bool stands_in;              /* made for this record */
    bool uncounted;              /* as of struct rdl__member */
    struct rdl__site site;       /* what granted it */
    int64_t mine;                /* takes that are the composite's */
    int64_t n;                   /* of the member's hold that they are takes of */
    struct rdl__reserve reserve; /* of calls that release it */
};

/* An acquire sets memory aside for its release, and for each member's: a lock that cannot be given back for want of
 * memory would be held for ever. */
struct rdl__composite_record {
    struct rdl__link link;
    struct rdl__composite *composite;
    rdl_owner_t *owner; /* a reference */
    bool given;         /* the caller named it: at each member acts itself, or one that stands in for it */
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

/* The owner's record; mu is let go of while one is made. `given`: the caller named the owner. Errors: RDL_ENOMEM,
 * RDL_ECLOSED. */
int rdl__composite_record_of(struct rdl__composite *j, rdl_owner_t *owner, bool given,
                             struct rdl__composite_record **ret);
void rdl__composite_record_unref(struct rdl__composite_record *rec);
/* Off the list, when there is nothing to remember. */
void rdl__composite_record_retire(struct rdl__composite_record *rec);
/* The handle is freed: so is what nothing is under way on. */
void rdl__composite_records_drop(struct rdl__composite *j);

/* The member's hold, if it is still the one that the composite took. */
struct rdl__view rdl__member_hold_view(const struct rdl__composite_record *rec, unsigned i, int64_t now);
/* The whole. Once too few members hold it is lost for good. */
struct rdl__view rdl__composite_record_view(struct rdl__composite_record *rec, int64_t now);
/* What `owner` holds of it. token: 0 when it has none.  @locks none */
struct rdl__view rdl__composite_view(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now);

/* Release one take of the composite's at member i; nobody waits for it. False: no memory, or the client has no
 * connections any more; the next time that things are settled it is tried again. */
bool rdl__composite_give_back(struct rdl__composite_record *rec, unsigned i);
/* What is above the wanted count goes back; all of it, when a majority that was lost leaves a rest. */
void rdl__composite_settle(struct rdl__composite_record *rec);

/* A member's rdl_lost_fn.  @locks none */
void rdl__composite_member_lost(rdl_lock_t *member, const rdl_loss_t *loss, void *arg);

/* The k-th longest of n numbers, 1 <= k <= n; sorts them.  @locks any */
int64_t rdl__composite_kth_longest(int64_t *left, unsigned n, unsigned k);

#endif
