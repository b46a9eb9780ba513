/* SPDX-License-Identifier: MIT */
/* watchdog.h - keeps held leases alive, and says when one is lost.
 *
 * The watchdog has every hold from the moment it is granted until just before its release is sent, so no renewal starts
 * after a release. Its user embeds a struct rdl__hold and fills in its facts; the watchdog knows no lock type.
 *
 *   schedule.c   a hold's changes: added, raised, confirmed, lost, removed; when something is due for it
 *   watchdog.c   the agenda's timer: what is due now
 *   renewer.c    one server's renewals: holds that are due there go into batches
 *   renewal.c    one batch: its request, and its answers
 */
#ifndef REDLATCH_SERVICE_WATCHDOG_H
#define REDLATCH_SERVICE_WATCHDOG_H

#include "core/base/agenda.h"
#include "core/base/entropy.h"
#include "core/base/list.h"
#include "core/base/sink.h"
#include "core/base/sync.h"
#include "core/io/lane.h"
#include "core/io/loop.h"
#include "core/service/acks.h"

#include <redlatch/lock.h>
#include <stdbool.h>

#define RDL__BATCH                                                                                                     \
    100 /* holds in one request: a script for more would block the server for longer than a millisecond */

struct rdl__hold;

/* Which hold it is: when its loss is told, the struct may have the owner's next hold already. */
struct rdl__hold_id {
    int64_t n, token;
};

/* Functions that are the same for all holds of one user. The first three return facts that never change: fields would
 * cost each hold more bytes. */
struct rdl__hold_ops {
    void (*key)(const struct rdl__hold *hold, const char **ret_key, size_t *ret_len);
    size_t (*field)(const struct rdl__hold *hold, char *to); /* to: RDL__FIELD_MAX */
    /* How long a hold that was confirmed for lease_ms counts as held; NULL: lease_ms. If that is less than the lease,
     * it is confirmed again until the lease ends. */
    int64_t (*trust_ms)(const struct rdl__hold *hold, int64_t lease_ms);
    void (*pin)(struct rdl__hold *hold); /* keep it in memory until `changed` has run.  @locks watchdog's */
    /* The hold is at risk, or lost.  @thread any  @locks none */
    void (*changed)(struct rdl__hold *hold, const struct rdl__hold_id *id, rdl_hold_state_t state,
                    rdl_loss_reason_t reason, int64_t now);
    /* The hold is the host's alone, and it is time to see whether the server can have it. `pin` has run. NULL where no
     * hold is ever alone.  @thread loop  @locks none */
    void (*restore)(struct rdl__hold *hold, int64_t now);
};

enum rdl__renewal { RDL__RENEWAL_NONE, RDL__RENEWAL_DUE, RDL__RENEWAL_SENT };

/* Embedded in the user's record of the hold. */
struct rdl__hold {
    /* set by its user; immutable while the watchdog has the hold */
    const struct rdl__hold_ops *ops;
    struct rdl__hold_id id;
    struct rdl__acks acks; /* how many replicas must confirm each renewal */
    uint16_t hash_slot;    /* of its key, in a cluster; else 0 */
    /* The renewal's script: KEYS the locks, ARGV field and lease of each; answers {s, us, ttl or -14 ...}. */
    uint8_t script;

    int host; /* its user's alone, here because here is room for it: the host's lock that goes with it (hostlock.h) */

    /* under the watchdog's mutex */
    uint8_t state; /* rdl_hold_state_t */
    uint8_t renewed : 1;
    uint8_t told_risk : 1;      /* RDL_AT_RISK is reported once a hold */
    uint8_t brief : 1;          /* granted for less than the lease that renewals ask for */
    uint8_t by_itself : 1;      /* its next renewal is a batch of its own */
    uint8_t again : 1;          /* what is under way may have been answered too early: ask again after it */
    uint8_t renewal : 2;        /* enum rdl__renewal */
    struct rdl__heap_node node; /* in the agenda, by when something is due */
    union {
        struct rdl__link due;     /* RDL__RENEWAL_DUE: on its renewer's list */
        struct rdl__hold **place; /* RDL__RENEWAL_SENT: in the batch */
    };
    int64_t deadline; /* valid until then */
    int64_t ends_at;  /* no renewal lasts longer than this: the end of its lease; RDL__NEVER: renewed without end */
    int64_t renew_at; /* RDL__NEVER: not renewed, or under way */
    int64_t lease_ms; /* of one renewal */
};

struct rdl__renewer;

/* In a cluster: the servers of holds, by the slots of their keys. */
struct rdl__routes {
    void *arg;
    struct rdl__renewer *(*renewer)(void *arg, unsigned slot); /* of the server that has the slot now.  @locks any */
    /* Does the server's error redirect the renewal? *ret_ask: the lane to send it on, this once; NULL: send it again
     * soon, by the map.  @locks the lane's */
    bool (*detoured)(void *arg, const struct rdl__reply *error, bool acked, struct rdl__lane **ret_ask);
};

struct rdl__watchdog_config {
    int32_t drift_ppm;
    int64_t drift_ms;
    int64_t lease_ms; /* of RDL_LEASE_AUTO; a hold that was granted for less is renewed for this as well */
    const struct rdl__routes *routes; /* NULL: one server has all holds */
    /* There is a hold: told of the first, and of others now and then; NULL: to nobody.  @thread loop  @locks none */
    void (*began)(void *arg, int64_t now);
    void *began_arg;
    /* A hold has lasted for a while: from now on it is worth hearing of evictions. Called once. NULL: never.
     * @thread loop  @locks none */
    void (*listen)(void *arg, int64_t now);
    void *listen_arg;
};

struct rdl__watchdog;

/* Renewals at the first server travel on `lane`; those that want replicas' confirmation on that of `acked`, which may
 * be opened later. NULL: no memory. */
struct rdl__watchdog *rdl__watchdog_new(const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                                        struct rdl__loop *loop, struct rdl__lane *lane,
                                        const struct rdl__acks_lane *acked, const struct rdl__watchdog_config *config);
struct rdl__renewer *rdl__watchdog_home(const struct rdl__watchdog *wd); /* of the first server */
/* A further server's renewer. It is freed with the watchdog. NULL: no memory.  @thread loop; but for the first */
struct rdl__renewer *rdl__renewer_new(struct rdl__watchdog *wd, struct rdl__lane *lane,
                                      const struct rdl__acks_lane *acked);
void rdl__watchdog_close(struct rdl__watchdog *wd); /* nothing is renewed or reported any more.  @thread loop */
struct rdl__watchdog *rdl__watchdog_free(struct rdl__watchdog *wd);

/* Until when a lease that was granted by a request sent at `sent_at` counts as held. */
int64_t rdl__watchdog_validity(const struct rdl__watchdog *wd, int64_t sent_at, int64_t lease_ms);

/* When a lease that the server granted at `granted_at` or before has ended there as well. */
int64_t rdl__watchdog_expiry(const struct rdl__watchdog *wd, int64_t granted_at, int64_t lease_ms);

/* Add a hold that was granted for lease_ms by a request sent at `sent_at`; `renewed`: without end (RDL_LEASE_AUTO).
 * @thread any */
void rdl__watchdog_add(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                       bool renewed);

/* The hold was confirmed for lease_ms by a request sent at `sent_at`; renewed from now on if `renewed`. False: it is
 * lost, which an answer that is noted after its deadline does not change.  @thread any */
bool rdl__watchdog_raise(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                         bool renewed);

/* RDL_DEGRADED: the server is not asked about such a hold, and ops->restore is called for it now and then.
 *
 * add_alone: a hold that the server does not have, for lease_ms.
 * degrade: hold n, which is renewed without end, is alone from now on, without end. False: it is lost, or is being
 *          released.
 * restore: the server has granted it as `id`. It was alone, and is a hold like any other from now on. False: it is
 *          lost, or what was granted is over.
 * taken: somebody else has it at the server: hold n is lost.  @thread any */
void rdl__watchdog_add_alone(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now, int64_t lease_ms);
bool rdl__watchdog_degrade(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n, int64_t now);
bool rdl__watchdog_restore(struct rdl__watchdog *wd, struct rdl__hold *hold, const struct rdl__hold_id *id,
                           int64_t sent_at, int64_t lease_ms, bool renewed);
void rdl__watchdog_taken(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n);
/* The hold is renewed without end from now on. Until its first renewal, which asks for config.lease_ms if that is
 * longer, it has the lease that it was granted for.  @thread any */
void rdl__watchdog_keep(struct rdl__watchdog *wd, struct rdl__hold *hold);

/* Somebody else has it from now on, who is to be told that it is at risk as well.  @thread any */
void rdl__watchdog_tell_anew(struct rdl__watchdog *wd, struct rdl__hold *hold);

/* Remove the hold, before its release is sent. Returns the state that it was in; a loss that was not reported yet is
 * reported from inside.  @thread any */
rdl_hold_state_t rdl__watchdog_remove(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now);

/* Remove the hold without a report: the client is closing.  @thread any */
void rdl__watchdog_forget(struct rdl__watchdog *wd, struct rdl__hold *hold);

/* The server says that hold n is gone: ops->changed is called if the watchdog still has it.  @thread any */
void rdl__watchdog_gone(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n);

/* Its owner is gone: report the hold lost, and renew it no more.  @thread any */
void rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold);

/* The server may have forgotten holds: renew all of this server's now.  @thread loop */
void rdl__watchdog_examine(struct rdl__watchdog *wd, struct rdl__renewer *at);

/* Is there any hold?  @thread any */
bool rdl__watchdog_holds(struct rdl__watchdog *wd);

/* Hold n may be gone, or, n 0, any may be: ask the server about it now.  @thread loop */
void rdl__watchdog_verify(struct rdl__watchdog *wd, int64_t n);

/* Some slots have moved: move the renewals that are due to their servers.  @thread loop */
void rdl__watchdog_reroute(struct rdl__watchdog *wd);

/* State at `now`, and how long it is still valid. A hold whose deadline has passed is LOST, reported or not.  @thread
 * any */
rdl_hold_state_t rdl__watchdog_state(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now,
                                     int64_t *ret_valid_ns);

#endif
