/* watchdog.h - keeps held leases alive, and says when one is lost.
 *
 * Every hold is here from the moment it is granted until the moment before its release is sent, so no renewal starts
 * after a release. What is held has a struct rdl__hold, with its facts filled in; of lock types nothing is known here.
 */
#ifndef REDLATCH_SERVICE_WATCHDOG_H
#define REDLATCH_SERVICE_WATCHDOG_H

#include "core/base/entropy.h"
#include "core/base/heap.h"
#include "core/base/list.h"
#include "core/base/sink.h"
#include "core/base/sync.h"
#include "core/io/lane.h"
#include "core/io/loop.h"
#include "core/service/acks.h"

#include <redlatch/lock.h>
#include <stdbool.h>

#define RDL__BATCH 100 /* a script that renews more holds the server up for longer than a millisecond */

struct rdl__hold;

/* Which hold it is: by the time news of it is told, the struct may serve the owner's next one. */
struct rdl__hold_id {
    int64_t n, token;
};

/* What is the same for every hold of whoever embeds it. The first three tell what never changes, and would cost each
 * hold more bytes than it is worth. */
struct rdl__hold_ops {
    void (*key)(const struct rdl__hold *hold, const char **ret_key, size_t *ret_len);
    size_t (*field)(const struct rdl__hold *hold, char *to); /* to: RDL__FIELD_MAX */
    /* How long after a confirmation for lease_ms the hold is believed in; NULL: lease_ms. One that is believed in for
     * less than its lease is confirmed again until that lease ends. */
    int64_t (*trust_ms)(const struct rdl__hold *hold, int64_t lease_ms);
    void (*pin)(struct rdl__hold *hold); /* keep it in memory until `changed` has run.  @locks watchdog's */
    /* The hold is at risk, or lost.  @thread any  @locks none */
    void (*changed)(struct rdl__hold *hold, const struct rdl__hold_id *id, rdl_hold_state_t state,
                    rdl_loss_reason_t reason, int64_t now);
};

/* Embedded in what is held. */
struct rdl__hold {
    /* set by whose it is; they do not change while the watchdog has the hold */
    const struct rdl__hold_ops *ops;
    struct rdl__hold_id id;
    struct rdl__acks acks; /* what each renewal wants of replicas */
    uint16_t hash_slot;    /* of its key, where holds are spread over servers by that; else 0 */
    /* The script: KEYS the locks, ARGV field and lease of each; answers {seconds, microseconds, ttl or -14 ...}. */
    uint8_t script;

    /* under the watchdog's mutex */
    uint8_t state : 2; /* rdl_hold_state_t */
    uint8_t renewed : 1;
    uint8_t told_risk : 1;      /* RDL_AT_RISK is reported once a hold */
    uint8_t brief : 1;          /* granted for less than renewals ask for */
    uint8_t alone : 1;          /* its next renewal is a batch of its own */
    struct rdl__heap_node node; /* by when something is due */
    struct rdl__link due;       /* on the watchdog's list of holds to renew */
    struct rdl__hold **place;   /* in the batch that renews it; NULL: none does */
    int64_t deadline;           /* valid until then */
    int64_t ends_at;  /* its lease is over then, however often it is confirmed; RDL__NEVER: renewed for good */
    int64_t renew_at; /* RDL__NEVER: not renewed, or under way */
    int64_t lease_ms; /* of one renewal */
};

struct rdl__renewer;

/* Where holds are spread over several servers by the slots of their keys. */
struct rdl__routes {
    void *arg;
    struct rdl__renewer *(*renewer)(void *arg, unsigned slot); /* where it is now.  @locks any */
    /* Does the server's error send the renewal elsewhere? *ret_ask: this once, there; NULL: soon again, by the map.
     * @locks the lane's */
    bool (*detoured)(void *arg, const struct rdl__reply *error, bool acked, struct rdl__lane **ret_ask);
};

struct rdl__watchdog_config {
    int32_t drift_ppm;
    int64_t drift_ms;
    int64_t lease_ms;                 /* of what is renewed: a hold that was granted for less is renewed for this */
    const struct rdl__routes *routes; /* NULL: all are at one server */
};

struct rdl__watchdog;

/* Renewals at the first server travel on `lane`; those that want replicas' confirmation on that of `acked`, which may
 * be opened later. NULL: no memory. */
struct rdl__watchdog *rdl__watchdog_new(const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                                        struct rdl__loop *loop, struct rdl__lane *lane,
                                        const struct rdl__acks_lane *acked, const struct rdl__watchdog_config *config);
struct rdl__renewer *rdl__watchdog_home(const struct rdl__watchdog *wd); /* of the first server */
/* Of a further one, whose renewals travel on those. It goes with the watchdog. NULL: no memory.
 * @thread loop, or before there is any other */
struct rdl__renewer *rdl__renewer_new(struct rdl__watchdog *wd, struct rdl__lane *lane,
                                      const struct rdl__acks_lane *acked);
void rdl__watchdog_close(struct rdl__watchdog *wd); /* nothing is renewed or reported any more.  @thread loop */
struct rdl__watchdog *rdl__watchdog_free(struct rdl__watchdog *wd);

/* Until when a lease granted or raised by a request sent at `sent_at` may be believed in. */
int64_t rdl__watchdog_validity(const struct rdl__watchdog *wd, int64_t sent_at, int64_t lease_ms);

/* By when a lease that the server granted at `granted_at` or before is over there as well. */
int64_t rdl__watchdog_expiry(const struct rdl__watchdog *wd, int64_t granted_at, int64_t lease_ms);

/* A hold begins, granted by a request sent at `sent_at` with a lease of lease_ms; renewed if `renewed`.  @thread any */
void rdl__watchdog_add(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                       bool renewed);

/* The hold was confirmed for lease_ms by a request sent at `sent_at`; renewed from now on if `renewed`. False: it is
 * lost; a late answer revives nothing, nor does one that came in time and is noted late.  @thread any */
bool rdl__watchdog_raise(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                         bool renewed);

/* The hold ends, before its release is sent. Returns the state that it was in; a loss that nobody had noticed yet is
 * reported from inside.  @thread any */
rdl_hold_state_t rdl__watchdog_remove(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now);

/* The hold is no longer looked after, and nobody is told: the client is closing.  @thread any */
void rdl__watchdog_forget(struct rdl__watchdog *wd, struct rdl__hold *hold);

/* The server says that hold n is gone. ops->changed will run, once, if it is still looked after.  @thread any */
void rdl__watchdog_gone(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n);

/* Its owner is gone: lost, and no longer renewed.  @thread any */
void rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold);

/* The server may have forgotten holds: ask it about each of its now.  @thread loop */
void rdl__watchdog_examine(struct rdl__watchdog *wd, struct rdl__renewer *at);

/* Some slots are elsewhere now: so is what is due.  @thread loop */
void rdl__watchdog_reroute(struct rdl__watchdog *wd);

/* State and time left at `now`. A hold whose time is over is LOST although nobody has reported it yet.  @thread any */
rdl_hold_state_t rdl__watchdog_state(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now,
                                     int64_t *ret_left_ns);

#endif
