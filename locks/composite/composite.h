/* SPDX-License-Identifier: MIT */
/* composite.h - composite locks: several locks behind one handle.
 *
 * The files, each of which uses only those above it:
 *
 *   plan.h               the machines that decide which member is asked for what: plan.c, multi.c, red.c
 *   composite.h          which members a composite has, in which order, at which servers, and how it is named
 *   record.h              an owner's record of a composite: its holds of the members, its state, what is given back
 *   call.h                a call: its turn on the record, its calls of the members, what drives it, its end
 *   verbs.h, gather.c    the verbs that ask the members and combine their answers
 *            take.c      acquiring: carries out the machine's orders
 *   handle.c             the table by which a composite is a lock, and the constructors
 *
 * A composite's members are handles of its own, which share their names with the handles it was made from; those may be
 * freed. Every member is taken, renewed, released and lost as any lock is: core/call repeats, undoes and bounds its
 * requests, its own client renews it. A composite adds when which member is asked for what, and the outcome of the
 * whole.
 *
 * Locks: a composite's mutex is taken before any other mutex of the library. The other layers call these files with no
 * mutex held, except to cancel, which only posts.
 *
 * References to a composite: the user's, one for each member's handle, each record, each call. References to a call:
 * the user's or caller's, one until it has ended, one for each member call under way, for each listener, and for its
 * callback.
 *
 * To add a verb: a table in gather.c, a line in handle.c.
 */
#ifndef REDLATCH_COMPOSITE_H
#define REDLATCH_COMPOSITE_H

#include "core/call/handle.h"
#include "locks/composite/plan.h"

#define RDL__COMPOSITE_MAX 256

struct rdl__composite_options {
    rdl_retry_t retry; /* never RDL_RETRY_DEFAULT */
    int64_t member_timeout_ms;
    int64_t min_uptime_ms; /* below 0: any server counts */
};

/* What all multi-locks, or all red locks, have in common. */
struct rdl__composite_kind {
    struct rdl__lock_ops type; /* handle, name and retry alone: the rest is for single locks */
    const struct rdl__plan_ops *plan;
    rdl_lost_fn member_lost;         /* of the members' handles (record.h) */
    size_t (*call_size)(unsigned n); /* of a call of n members (call.h) */
};

struct rdl__member_handle {
    struct rdl__embedded as; /* must be first */
    struct rdl__composite *composite;
    unsigned index;
};

struct rdl__composite {
    rdl_lock_t handle; /* no name; fn and arg under mu */
    /* immutable */
    const struct rdl__plan_ops *plan;
    struct rdl__composite_options options;
    rdl_client_t *home;
    unsigned home_member; /* index of a member of that client */
    unsigned member_count, quorum;
    bool duplicates; /* two members have one name at different clients: one lock if their servers are the same */
    size_t size, call_size;
    char *name; /* the members' with a `+` between them */
    size_t name_len;

    struct rdl__mutex mu;
    struct rdl__link records;   /* under mu, like the next */
    struct rdl__link spent;     /* records that nobody has a reference to any more, until mu is given back */
    struct rdl__link listening; /* acquires that hear of the members' releases; the first acts on them */
    uint64_t taken;             /* how often it was taken, by any owner of this process */
    bool dropped;               /* the user has freed the handle: no record is looked for any more */
    struct rdl__member_handle member[];
};

/* Which server it is. Its run is known once it was connected to. */
struct rdl__site {
    uint64_t run; /* 0: unknown */
    uint64_t label;
};

static inline struct rdl__composite *rdl__composite_of(const rdl_lock_t *lock)
{
    return rdl__container(lock, struct rdl__composite, handle);
}

static inline rdl_lock_t *rdl__member_lock(const struct rdl__composite *j, unsigned i)
{
    return (rdl_lock_t *)&j->member[i].as.handle;
}

static inline rdl_client_t *rdl__member_client(const struct rdl__composite *j, unsigned i)
{
    return j->member[i].as.handle.name->client;
}

/* The server that has the name. The client may not close meanwhile: from a call of its, or on its loop.  @locks any */
struct rdl__site rdl__composite_site(const struct rdl__name *name);
bool rdl__composite_one_server(struct rdl__site a, struct rdl__site b);

/* A multi-lock that has one lock twice would wait for itself. By two clients that can be seen only once their servers
 * are known, or have changed; so each acquire checks it. RDL_OK, or RDL_EDEADLK.  @locks any */
int rdl__composite_check_duplicates(struct rdl__composite *j, rdl_err_t *err);

/* Why it has no tokens; NULL: it has. */
const char *rdl__composite_tokenless(const rdl_lock_t *lock);

/* A composite of 1 to RDL__COMPOSITE_MAX members, which are neither NULL nor closed. Errors: RDL_EINVAL, RDL_ENOMEM,
 * RDL_ECLOSED. */
int rdl__composite_make(const struct rdl__composite_kind *kind, rdl_lock_t *const *members, size_t n,
                        const struct rdl__composite_options *options, rdl_lock_t **ret_lock, rdl_err_t *err);
struct rdl__composite *rdl__composite_ref(struct rdl__composite *j);
void rdl__composite_unref(struct rdl__composite *j); /* @locks none */

/* record.c: give mu back, and free the records that nobody has a reference to, which may end holds of their members.
 * The caller has a reference to the composite.  @locks mu */
void rdl__composite_unlock(struct rdl__composite *j);

#endif
