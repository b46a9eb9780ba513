/* SPDX-License-Identifier: MIT */
/* record.h - names, which handles share, and records of holds, which an owner's calls share (protocol.md, 1).
 *
 * A name knows its type and options, so that two handles of one name are one lock. A record holds the count of one
 * (client, owner, name, end): of a lock with two ends an owner may have two records, each with its own n. At most one
 * verb is in flight on a record; later ones queue. Only that verb changes the hold's n and token and the count, under
 * the name's mutex because others read them.
 */
#ifndef REDLATCH_CALL_RECORD_H
#define REDLATCH_CALL_RECORD_H

#include "core/base/hostlock.h"
#include "core/base/list.h"
#include "core/base/sync.h"
#include "core/base/table.h"
#include "core/call/type.h"
#include "core/service/client.h"
#include "core/service/dispatch.h"
#include "core/service/life.h"
#include "core/service/owner.h"
#include "core/service/routing.h"
#include "core/service/watchdog.h"

#include <redlatch/async.h>
#include <redlatch/lock.h>

struct rdl__cache;
struct rdl__call;
struct rdl__record;

/* Numbers of requests whose guards at the server may be deleted. */
struct rdl__settled {
    unsigned count;
    int64_t n[62];
};

/* Options of a lock, with their defaults filled in. All handles of a name have the same. Packed, because there may be
 * very many names: 22 bits hold an hour, 27 a day, 10 a second. */
struct rdl__settings {
    uint32_t retry_min_ms : 22, retry : 3; /* rdl_retry_kind_t, never RDL_RETRY_DEFAULT */
    uint32_t fencing : 2;                  /* rdl_fencing_t, never RDL_FENCING_DEFAULT */
    uint32_t nests : 1;
    uint32_t replicas_if_able : 1; /* go on unconfirmed where the server refuses WAIT */
    uint32_t on_outage : 2;        /* rdl_outage_t, never RDL_OUTAGE_DEFAULT */
    uint32_t leaves : 1;           /* an unlock does not wait for its answer (left.c) */
    uint32_t retry_max_ms : 22, replicas : 8;
    /* How long a waiter's place or mark lasts after each sign of life; 0: it has none. */
    uint32_t life_ms : 22, replicas_timeout_ms : 10;
    uint32_t own : 27; /* the type's own */
};

_Static_assert(sizeof(struct rdl__settings) == 16, "each idle handle pays for it");

static inline rdl_retry_t rdl__settings_retry(const struct rdl__settings *s)
{
    return (rdl_retry_t){.kind = s->retry, .min_ms = s->retry_min_ms, .max_ms = s->retry_max_ms};
}

struct rdl__name {
    /* immutable */
    rdl_client_t *client;
    const struct rdl__lock_ops *ops; /* of the first handle; a handle of the lock's other end has its own */
    struct rdl__settings settings;
    struct rdl__table_node node; /* key: the name */

    unsigned handle_count; /* under the client's names_mu */
    _Atomic unsigned refs;
    _Atomic uint32_t waiting; /* waiting calls that stand in line (rdl__news_in_line); and the bits below */
    uint32_t next_serial;     /* of handles; under mu */
    _Atomic uint64_t undos;   /* unanswered ones, by way (undo.c); 0: none */

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__link records;
    struct rdl__link handles;
    struct rdl__record *idle;  /* on the list, although nothing is held or under way: kept for its owner's next verb */
    struct rdl__record *spare; /* memory kept for the next record */
    union {
        struct rdl__settled
            *settled; /* guards that may be deleted (locks/counted/once.c); NULL: no verb with a guard yet */
        struct rdl__cache *cache; /* where the handles are those of kept locks (cached.h) */
    };

    uint16_t hash_slot; /* immutable: in a cluster; else 0 */
    char bytes[];       /* NUL-terminated */
};

#define RDL__PLACED                                                                                                    \
    (UINT32_C(1) << 31) /* the process may have a place in a queue at the server (line.h, locks/counted/once.h) */
#define RDL__YIELDS (UINT32_C(1) << 30) /* its last release has woken another client, and it has not tried since */
#define RDL__LEFT (UINT32_C(1) << 29)   /* it has left the line by an undo since its last release entered it */

/* A name of a client with counters lies behind its meter; the others do without, and must not be asked for it. */
static inline struct rdl__meter *rdl__name_meter(const struct rdl__name *name)
{
    return (struct rdl__meter *)(uintptr_t)name - 1;
}

static inline bool rdl__name_has_meter(const struct rdl__name *name)
{
    return name->client->sinks.counters != NULL;
}

/* Something has happened that is counted by name (rdl__metric_in).  @locks none */
static inline void rdl__name_metric(const struct rdl__name *name, rdl_metric_t metric, int64_t value)
{
    const struct rdl__sinks *sinks = &name->client->sinks;

    if (sinks->metering == RDL__NOT_METERED)
        return;
    if (sinks->metering == RDL__COUNTED)
        rdl__count(rdl__name_meter(name)->set, metric, value);
    else
        rdl__metric_tell(sinks, rdl__name_has_meter(name) ? rdl__name_meter(name)->set : NULL, metric, value);
}

/* So many calls more, or less, wait for it. */
static inline void rdl__name_waits(const struct rdl__name *name, int64_t more)
{
    if (rdl__name_has_meter(name))
        (void)atomic_fetch_add_explicit(&rdl__name_meter(name)->set->waiting, more, memory_order_relaxed);
}

/* The shard that has the lock now. */
static inline struct rdl__shard *rdl__name_shard(const struct rdl__name *name)
{
    return rdl__client_shard(name->client, name->hash_slot);
}

/* Does any call of this process wait? */
static inline bool rdl__name_waited_for(const struct rdl__name *name)
{
    return (atomic_load(&name->waiting) & ~(RDL__PLACED | RDL__YIELDS | RDL__LEFT)) > 0;
}

static inline struct rdl__acks rdl__name_acks(const struct rdl__name *name)
{
    if (name->settings.replicas == 0)
        return (struct rdl__acks){.replicas = 0};
    return rdl__acks_of(name->settings.replicas, name->settings.replicas_if_able, name->settings.replicas_timeout_ms);
}

/* A handle (handle.h). A composite's is the first member of struct rdl__composite, and has no name. */
struct rdl_lock_handle {
    struct rdl__name *name;
    const struct rdl__lock_ops *ops;
    _Atomic unsigned refs;
    uint32_t embedded : 1; /* in a struct rdl__embedded */
    uint32_t serial : 31;  /* the order of the list */
    /* under the name's mu */
    struct rdl__link link;
    rdl_lost_fn fn;
    void *arg;
};

/* A handle that is part of a larger struct: a composite's member. */
struct rdl__embedded {
    rdl_lock_t handle;
    void (*let_go)(rdl_lock_t *lock); /* the last reference was given back: let the larger struct go */
};

/* States of one hold that the handles' callbacks are still to be told. Has a reference to the record while it is due.
 */
struct rdl__notice {
    struct rdl__callback event;
    struct rdl__record *rec;
    int64_t n, token;
    uint8_t states; /* bits: 1 << rdl_hold_state_t; 0: nothing */
    uint8_t risk_reason, loss_reason;
};

struct rdl__record {
    struct rdl__name *name;          /* immutable; a reference */
    rdl_owner_t *owner;              /* immutable; a reference */
    const struct rdl__lock_ops *ops; /* immutable: which end of the lock */
    _Atomic unsigned refs;

    /* under the name's mu */
    int32_t count; /* 0: not held */
    struct rdl__link link;
    struct rdl__call *active; /* the verb in flight */
    struct rdl__link pending;
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
    /* Of releases that are not waited for (left.c): */
    bool overtaken : 1; /* one was sent again, perhaps behind its owner's next take */
    bool reserved : 1;  /* the owner has memory set aside for the next one */
    int16_t verdict;    /* how one has failed, for the next take to tell; RDL_OK: none has */
    uint16_t left;      /* how many are unanswered; below 0 while one is settled before it is counted */
    struct rdl__notice notice;
    struct rdl__notice *latest; /* notice that is due; NULL: none. Not `notice` while that is due for an earlier hold */

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

/* Find or make the name and a handle of it. Errors: RDL_EINVAL (another type or other options), RDL_ENOMEM. */
int rdl__handle_make(rdl_client_t *client, const struct rdl__lock_ops *ops, const char *name, size_t len,
                     const struct rdl__settings *settings, rdl_lock_t **ret_lock, rdl_err_t *err);
void rdl__handle_copy(const rdl_lock_t *lock,
                      rdl_lock_t *copy); /* `copy`, zeroed, becomes another handle of the same name */
void rdl__handle_drop(rdl_lock_t *lock); /* the user's reference */
rdl_lock_t *rdl__handle_ref(rdl_lock_t *lock);
void rdl__handle_unref(rdl_lock_t *lock);
void rdl__name_ref(struct rdl__name *name);
void rdl__name_unref(struct rdl__name *name);

/* An owner's hold of a lock, or of one end of it, by the local clock. */
struct rdl__view {
    rdl_hold_state_t state;
    int64_t count;
    int64_t token;
    int64_t n;
    int64_t left; /* how long it is still valid, ns */
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

    if (rdl__name_has_meter(rec->name))
        rdl__meter_set(meter, rdl__meter_held(meter) + 1,
                       rdl__meter_held(meter) == 0 ? rec->held_since : rdl__meter_since(meter));
}
void rdl__record_ends(const struct rdl__record *rec);

/* How long, in ms, the server may keep the present hold from now on: the longest lease asked for, also by extends and
 * nested takes whose outcome is unknown. Longer than the hold counts as held here.  @locks the name's, or by the verb
 * in flight */
int64_t rdl__record_most_ms(const struct rdl__record *rec, int64_t now);

/* If nothing is held or under way, make it the idle record, or take it off the list.  @locks the name's, which is
 * released */
void rdl__record_retire(struct rdl__record *rec);
void rdl__record_unused(struct rdl__record *rec); /* nobody has a reference to it */
void rdl__left_done(struct rdl__record *rec);     /* left.c: free what is reserved */
static inline void rdl__record_unref(struct rdl__record *rec)
{
    if (atomic_fetch_sub_explicit(&rec->refs, 1, memory_order_acq_rel) == 1)
        rdl__record_unused(rec);
}

/* The owner is gone, and no verb is in flight: report the hold lost, and retire the record.  @locks none */
void rdl__record_abandon(struct rdl__record *rec);

/* A hold of this record was lost, or is at risk: tell every handle that asked.  @locks none */
void rdl__record_tell(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                      rdl_loss_reason_t reason);

#endif
