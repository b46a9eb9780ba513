/* SPDX-License-Identifier: MIT */
/* record.h - records of holds, which an owner's calls share (protocol.md, 1).
 *
 * A record holds the count of one (client, owner, name, end): of a lock with two ends an owner may have two records,
 * each with its own n. At most one verb is in flight on a record; later ones queue. Only that verb changes the hold's n
 * and token and the count, under the name's mutex because others read them.
 *
 * There may be very many waiters, so a take that sleeps has no record where it can do without: it lets it go, and has
 * one again before it sends its next try. Whoever else of its owner comes meanwhile brings one, and queues behind it.
 */
#ifndef REDLATCH_CALL_RECORD_H
#define REDLATCH_CALL_RECORD_H

#include "core/base/hostlock.h"
#include "core/call/name.h"
#include "core/service/dispatch.h"
#include "core/service/owner.h"
#include "core/service/watchdog.h"

struct rdl__call;

/* States of one hold that the handles' callbacks are still to be told. Has a reference to the record while it is due.
 */
struct rdl__notice {
    struct rdl__callback event;
    struct rdl__record *rec;
    int64_t n, token;
    uint8_t states; /* bits: 1 << rdl_hold_state_t; 0: nothing */
    uint8_t risk_reason, loss_reason;
};

struct rdl__notices {
    struct rdl__notice first;
    struct rdl__notice *latest; /* that is due; NULL: none. Not `first` while that is due for an earlier hold */
};

struct rdl__record {
    struct rdl__name *name;          /* immutable; a reference */
    rdl_owner_t *owner;              /* immutable; a reference */
    const struct rdl__lock_ops *ops; /* immutable: which end of the lock */
    _Atomic unsigned refs;

    /* under the name's mu */
    int32_t count; /* 0: not held */
    struct rdl__link link;
    struct rdl__call *active; /* the verb in flight, behind which later ones queue */
    int64_t held_since;
    /* When every lease asked for this hold has ended at the server as well; renewals not counted. By the verb in flight
     * and by the loop (alone.c): rdl__record_ends_by. */
    _Atomic int64_t ends_by;
    int64_t
        refused_until; /* RDL_DEGRADED: the end of a lease for which the server has refused the hold; 0: it has not */
    bool renewed;      /* the watchdog renews the hold for good (RDL_LEASE_AUTO) */
    bool may_come;   /* a sending of its take may arrive until ends_by, as CLIENT KILL is refused: repeat the release */
    bool linked : 1; /* on the owner's list */
    bool orphaned : 1; /* the owner is gone */
    /* Of owners inside a kept lock (cache.h): */
    bool inside : 1;    /* let in, and neither left since nor told a loss */
    bool risk_told : 1; /* and told that the kept hold is at risk */
    /* Of detached releases (detached.c): */
    bool overtaken : 1;           /* one was sent again, perhaps behind its owner's next take */
    bool reserved : 1;            /* the owner has memory set aside for the next one */
    int16_t verdict;              /* how one has failed, for the next take to tell; RDL_OK: none has */
    uint16_t detached;            /* how many are unanswered; below 0 while one is settled before it is counted */
    struct rdl__notices *notices; /* NULL: nobody asked to be told (rdl__name_tells) */

    struct rdl__owner_link owner_link;
    struct rdl__hold hold; /* in use while count > 0 */
};

static inline int64_t rdl__record_ends_by(const struct rdl__record *rec)
{
    return atomic_load_explicit(&rec->ends_by, memory_order_relaxed);
}

static inline void rdl__record_set_ends_by(struct rdl__record *rec, int64_t by)
{
    atomic_store_explicit(&rec->ends_by, by, memory_order_relaxed);
}

/* A lease that was asked for it may last until then. */
static inline void rdl__record_lasts(struct rdl__record *rec, int64_t by)
{
    if (by > rdl__record_ends_by(rec))
        rdl__record_set_ends_by(rec, by);
}

extern const struct rdl__hold_ops rdl__hold_ops; /* hold.c */

/* An owner's hold of a lock, or of one end of it, by the local clock. */
struct rdl__view {
    rdl_hold_state_t state;
    int64_t count;
    int64_t token;
    int64_t n;
    int64_t valid_ns; /* how long it is still valid */
};

/* The client is not closed yet (rdl__client_call_begins).  @locks none */
struct rdl__view rdl__record_view(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                                  int64_t now);

/* The owner's record of that end, or NULL.  @locks the name's; takes the owner's */
struct rdl__record *rdl__record_find(const struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops);

/* The record of an owner that is gone, while a verb is in flight on it; or NULL.  @locks the name's */
struct rdl__record *rdl__record_find_orphan(const struct rdl__name *name, const rdl_owner_t *owner,
                                            const struct rdl__lock_ops *ops);

/* A new record on the name's list, which has the only reference to it. Errors: RDL_ENOMEM; RDL_ELOST: the owner is
 * gone, and would lose what it takes.  @locks the name's */
int rdl__record_make(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                     struct rdl__record **ret);

void rdl__record_set_count(struct rdl__record *rec, int32_t count); /* by the verb in flight */
void rdl__record_clear(struct rdl__record *rec); /* the same to 0, of a hold that is not in the gauges */

/* A hold has begun, or has ended: for the gauges. `count` is set.  @locks the name's */
static inline void rdl__record_begins(const struct rdl__record *rec)
{
    struct rdl__meter *meter = rdl__name_meter(rec->name);

    rdl__assert_locked(&rec->name->mu);
    if (rdl__name_has_meter(rec->name))
        rdl__meter_set(meter, rdl__meter_held(meter) + 1,
                       rdl__meter_held(meter) == 0 ? rec->held_since : rdl__meter_since(meter));
}
void rdl__record_ends(const struct rdl__record *rec);

/* How long, in ms, the server may keep the present hold from now on: the longest lease asked for, also by extends and
 * nested takes whose outcome is unknown. Longer than the hold counts as held here.  @locks the name's; not for the
 * verb in flight */
int64_t rdl__record_most_ms(const struct rdl__record *rec, int64_t now);

/* If nothing is held or under way, make it the idle record, the first on the list, or take it off the list.  @locks
 * the name's */
void rdl__record_retire_and_unlock(struct rdl__record *rec);
/* Take it off the list, with the list's and the owner's references.  @locks the name's */
void rdl__record_let_go_and_unlock(struct rdl__record *rec);
void rdl__record_unused(struct rdl__record *rec);                           /* nobody has a reference to it */
void rdl__record_free(const rdl_client_t *client, struct rdl__record *rec); /* its memory; NULL is fine */
void rdl__detached_done(struct rdl__record *rec); /* detached.c: free what is reserved  @locks the name's */
static inline void rdl__record_unref(struct rdl__record *rec)
{
    if (atomic_fetch_sub_explicit(&rec->refs, 1, memory_order_acq_rel) == 1)
        rdl__record_unused(rec);
}

/* The owner is gone, and no verb is in flight: report the hold lost, and retire the record.  @locks none */
void rdl__record_abandon(struct rdl__record *rec);

/* The name has no handle any more: stop renewing what its owners hold, and retire their records. The holds end with
 * their leases.  @locks none */
void rdl__record_forget_all(struct rdl__name *name);

/* ---- notice.c ---------------------------------------------------------------------------------------------------- */

/* What telling of its holds takes, for the life of the record's memory. False: there is none.  @locks the name's */
bool rdl__notices_make(struct rdl__record *rec);

/* A handle asks to be told: losses need no memory from now on. RDL_OK or RDL_ENOMEM.  @locks the name's */
int rdl__name_tells(struct rdl__name *name);

/* A hold of this record was lost, or is at risk: tell every handle that asked.  @locks none */
void rdl__record_tell(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                      rdl_loss_reason_t reason);

#endif
