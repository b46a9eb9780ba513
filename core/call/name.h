/* SPDX-License-Identifier: MIT */
/* name.h - names, which handles share, and handles. A name knows its type and options, so that two handles of one name
 * are one lock; it has the records of its holds (record.h). */
#ifndef REDLATCH_CALL_NAME_H
#define REDLATCH_CALL_NAME_H

#include "core/base/list.h"
#include "core/base/sync.h"
#include "core/base/table.h"
#include "core/call/type.h"
#include "core/service/client.h"
#include "core/service/life.h"
#include "core/service/routing.h"

#include <redlatch/async.h>
#include <redlatch/lock.h>

struct rdl__cache;
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
    uint32_t detaches : 1;         /* an unlock does not wait for its answer (detached.c) */
    uint32_t retry_max_ms : 22, replicas : 8;
    /* How long a waiter's place or mark lasts after each sign of life; 0: it has none. */
    uint32_t life_ms : 22, replicas_timeout_ms : 10;
    uint32_t own : 27; /* the type's own; of a kept lock with one end its cache_ms */
};

_Static_assert(sizeof(struct rdl__settings) == 16, "each idle handle pays for it");

static inline rdl_retry_t rdl__settings_retry(const struct rdl__settings *s)
{
    return (rdl_retry_t){.kind = s->retry, .min_ms = s->retry_min_ms, .max_ms = s->retry_max_ms};
}

/* Of what is raced for (share.h). */
struct rdl__share {
    _Atomic uint8_t heard; /* how many have heard its client's last release */
    _Atomic uint8_t owed;  /* how many releases it lets pass, since it has had it */
};

struct rdl__name {
    /* immutable */
    rdl_client_t *client;
    const struct rdl__lock_ops *ops; /* of the first handle; a handle of the lock's other end has its own */
    struct rdl__settings settings;
    struct rdl__table_node node; /* key: the name */

    unsigned handle_count; /* under the client's names_mu */
    _Atomic unsigned refs;
    _Atomic uint32_t waiting;  /* calls that wait at the server, and bits: drawn below */
    uint32_t next_serial : 31; /* of handles; under mu */
    uint32_t tells : 1;        /* somebody has asked to be told of losses; under mu */
    _Atomic uint64_t undos;    /* unanswered ones, by way (undo.c); 0: none */

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
    union {
        _Atomic uint16_t turns; /* how many releases that others hear do not make it give way (line.h) */
        struct rdl__share share;
    };
    char bytes[]; /* NUL-terminated */
};

/* `waiting` is one word, so that what is noted of the client's place in a queue at the server changes together with the
 * count of calls that wait there:
 *
 *      31       30      29     28        27        26     25    24 ... 0
 *     PLACED  YIELDS  LEFT  OTHERS  MAYBE_EAR  COMES  AHEAD   the count (rdl__name_waiting)
 *
 * All bits but RDL__PLACED are of the line (line.c) alone. */
#define RDL__PLACED                                                                                                    \
    (UINT32_C(1) << 31) /* the process may have a place in a queue at the server (line.h, locks/counted/once.h) */
#define RDL__YIELDS (UINT32_C(1) << 30)    /* its last release has woken another client, and it has not tried since */
#define RDL__LEFT (UINT32_C(1) << 29)      /* it has left the line by an undo since its last release entered it */
#define RDL__OTHERS (UINT32_C(1) << 28)    /* its last release was heard, and nobody stood in line: others' turn */
#define RDL__MAYBE_EAR (UINT32_C(1) << 27) /* it has been granted a hold as the ear, for others that waited */
#define RDL__COMES (UINT32_C(1) << 26)     /* a call is likely to follow its next release at once */
#define RDL__AHEAD (UINT32_C(1) << 25) /* its last release has entered it in the line, and no call of it waits yet */

/* A name of a client with counters lies behind its meter; the others do without, and must not be asked for it. */
static inline struct rdl__meter *rdl__name_meter(const struct rdl__name *name)
{
    return (struct rdl__meter *)(uintptr_t)name - 1;
}

static inline bool rdl__name_has_meter(const struct rdl__name *name)
{
    return name->client->sinks.counters != NULL;
}

/* Something has happened that is counted by name, and for the whole client (rdl__metric).  @locks none */
static inline void rdl__name_metric(const struct rdl__name *name, rdl_metric_t metric, int64_t value)
{
    const struct rdl__sinks *sinks = &name->client->sinks;

    rdl__assert_none_locked();
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

/* How many calls of this process wait at the server, of those that are counted (rdl__news_counted)? */
static inline uint32_t rdl__name_waiting(const struct rdl__name *name)
{
    return atomic_load(&name->waiting) & (RDL__AHEAD - 1);
}

static inline bool rdl__name_waited_for(const struct rdl__name *name)
{
    return rdl__name_waiting(name) > 0;
}

/* May the process have a place in a queue at the server that no call of it uses? Whoever is told so gives it up: the
 * next one is not. */
static inline bool rdl__name_take_unused_place(struct rdl__name *name)
{
    return !rdl__name_waited_for(name) && (atomic_fetch_and(&name->waiting, ~RDL__PLACED) & RDL__PLACED) != 0;
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

/* Find or make the name and a handle of it. Errors: RDL_EINVAL (another type or other options), RDL_ENOMEM. */
int rdl__handle_make(rdl_client_t *client, const struct rdl__lock_ops *ops, const char *name, size_t len,
                     const struct rdl__settings *settings, rdl_lock_t **ret_lock, rdl_err_t *err);
void rdl__handle_copy(const rdl_lock_t *lock,
                      rdl_lock_t *copy); /* `copy`, zeroed, becomes another handle of the same name */
void rdl__handle_drop(rdl_lock_t *lock); /* the user's reference */
rdl_lock_t *rdl__handle_ref(rdl_lock_t *lock);
void rdl__handle_unref(rdl_lock_t *lock);
rdl_lock_t *rdl__name_any_handle(struct rdl__name *name); /* with a reference; NULL: it has none  @locks the name's */
void rdl__name_ref(struct rdl__name *name);
void rdl__name_unref(struct rdl__name *name);

#endif
