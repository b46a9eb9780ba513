/* SPDX-License-Identifier: MIT */
/* composite/record.h - an owner's record of a composite (record.c).  @locks mu, all of it, unless it says otherwise */
#ifndef REDLATCH_COMPOSITE_RECORD_H
#define REDLATCH_COMPOSITE_RECORD_H

#include "core/base/reserve.h"
#include "locks/composite/composite.h"

struct rdl__composite_op;

/* A record's hold of one member. */
struct rdl__member_hold {
    rdl_owner_t *owner;          /* the owner that acts in the member's client; a reference */
    bool stands_in;              /* `owner` was made for this record */
    bool uncounted;              /* as of struct rdl__member */
    struct rdl__site site;       /* the server that granted it */
    int64_t mine;                /* how many of the owner's takes are the composite's */
    int64_t n;                   /* the number of the hold that they are takes of */
    struct rdl__reserve reserve; /* of calls that release it */
};

/* An acquire reserves memory for its release and for each member's, because a release that fails for want of memory
 * would leave the lock held and renewed for ever. */
struct rdl__composite_record {
    struct rdl__link link;
    struct rdl__composite *composite;
    rdl_owner_t *owner; /* a reference */
    bool
        given; /* the caller named the owner: it acts in its own client, owners made to stand in for it in the others */
    struct rdl__owner_link owner_link;
    bool linked;
    bool orphaned;
    bool lost;
    unsigned refs; /* list, owner_link, calls, event */
    int64_t count; /* the user's takes */
    int64_t want;  /* count, or one more while an acquire is under way */
    int64_t token;
    int64_t serial; /* of the hold: how many there have been */
    struct rdl__composite_op *active;
    bool beginning;                       /* begin_next is running */
    struct rdl__composite_op *straggling; /* an acquire that has ended with member calls still under way */
    struct rdl__link pending;
    struct rdl__callback event;  /* to tell that its owner is gone */
    struct rdl__reserve reserve; /* of calls */
    struct rdl__member_hold hold[];
};

/* The owner's record. `given`: the caller named the owner. Errors: RDL_ENOMEM, RDL_ECLOSED.
 * @locks mu, released while one is made */
int rdl__composite_record_of(struct rdl__composite *j, rdl_owner_t *owner, bool given,
                             struct rdl__composite_record **ret);
/* It is freed with rdl__composite_unlock. */
void rdl__composite_record_unref(struct rdl__composite_record *rec);
/* Take the record off the list, if nothing is held or under way. */
void rdl__composite_record_retire(struct rdl__composite_record *rec);
/* The handle is freed: retire every record on which nothing is under way. */
void rdl__composite_records_drop(struct rdl__composite *j);

/* The member's hold; not held if it is lost, or not the one that the composite took. */
struct rdl__view rdl__member_hold_view(const struct rdl__composite_record *rec, unsigned i, int64_t now);
/* The composite's hold. Once too few members are held it is lost for good. */
struct rdl__view rdl__composite_record_view(struct rdl__composite_record *rec, int64_t now);
/* The owner's hold of the composite, for struct rdl__handle_ops.  @locks none */
struct rdl__view rdl__composite_view(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now);

/* Release one of the composite's takes at member i, without waiting. False: no memory, or the client has no connections
 * any more; the next rdl__composite_settle tries again. */
bool rdl__composite_give_back(struct rdl__composite_record *rec, unsigned i);
/* Give back what each member has above the wanted count; everything, if a red lock was lost. */
void rdl__composite_settle(struct rdl__composite_record *rec);

/* A member's rdl_lost_fn.  @locks none */
void rdl__composite_member_lost(rdl_lock_t *member, const rdl_loss_t *loss, void *arg);

/* The k-th longest of n numbers, 1 <= k <= n; sorts them.  @locks any */
int64_t rdl__composite_kth_longest(int64_t *at, unsigned n, unsigned k);

#endif
