/* SPDX-License-Identifier: MIT */
/* schedule.h - inside the watchdog: its state, and a hold's changes of state (schedule.c). */
#ifndef REDLATCH_SERVICE_SCHEDULE_H
#define REDLATCH_SERVICE_SCHEDULE_H

#include "core/service/watchdog.h"

/* Who has a hold for so long listens for evictions; holds that are shorter never pay for that. */
#define RDL__LISTEN_AFTER_MS INT64_C(1000)

/* A hold of the host's alone is offered to the server so often, where that can be reached. */
#define RDL__RESTORE_MS INT64_C(200)

struct rdl__watchdog {
    /* immutable */
    const struct rdl__mem *mem;
    const struct rdl__sinks *sinks;
    struct rdl__loop *loop;
    struct rdl__watchdog_config config;
    struct rdl__renewer *home;

    /* loop thread only */
    struct rdl__timer timer;
    struct rdl__task rearm;    /* set the timer earlier */
    struct rdl__link renewers; /* home among them */

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__agenda agenda;
    int64_t armed;        /* when the timer will go off */
    unsigned acked_holds; /* holds that want replicas' confirmation */
    bool closed;
    bool listens; /* config.listen was called, or is about to be */
    struct rdl__rand rand;
};

/* Of a hold's fields, which are under mu: */

static inline int64_t rdl__hold_risk_at(const struct rdl__hold *hold)
{
    return hold->deadline - hold->lease_ms * RDL__MS / 3;
}

/* Is its deadline one that renewals should have put off? */
static inline bool rdl__hold_may_be_at_risk(const struct rdl__hold *hold)
{
    return hold->renewed && hold->state == RDL_HELD && hold->deadline < hold->ends_at;
}

/* Would a renewal that is confirmed now be late: half the way from the last one to the end of the lease? */
static inline bool rdl__hold_late(const struct rdl__hold *hold, int64_t now)
{
    return !hold->brief && hold->deadline - now < hold->lease_ms * RDL__MS / 2;
}

/* When is something due for this hold? */
static inline int64_t rdl__hold_next_due(const struct rdl__hold *hold)
{
    int64_t at = hold->deadline;

    if (rdl__hold_may_be_at_risk(hold) && rdl__hold_risk_at(hold) < at)
        at = rdl__hold_risk_at(hold);
    if (hold->renew_at < at)
        at = hold->renew_at;
    return at;
}

/* Is a renewal of it under way, or due? Its outcome sets renew_at. */
static inline bool rdl__hold_under_way(const struct rdl__hold *hold)
{
    return hold->renewal != RDL__RENEWAL_NONE;
}

static inline int64_t rdl__hold_trust_ms(const struct rdl__hold *hold, int64_t lease_ms)
{
    return hold->ops->trust_ms == NULL ? lease_ms : hold->ops->trust_ms(hold, lease_ms);
}

/* Is it one for which evictions are worth hearing of, and nobody listens yet? A lease that is renewed every second, or
 * shorter than that, is not.  @locks mu */
static inline bool rdl__hold_wants_listening(const struct rdl__watchdog *wd, const struct rdl__hold *hold)
{
    rdl__assert_locked(&wd->mu);
    return !wd->listens && wd->config.listen != NULL && hold->lease_ms > 3 * RDL__LISTEN_AFTER_MS;
}

/* Mark the hold lost, and return its id. The caller reports that after releasing mu.  @locks mu */
struct rdl__hold_id rdl__schedule_lose(struct rdl__watchdog *wd, struct rdl__hold *hold);

/* A renewal sent at `sent_at` has confirmed the hold, or found it `gone`. RDL_LOSS_*: the hold *ret_id is lost, and the
 * caller reports that; 0: it goes on.  @locks mu */
int rdl__schedule_confirm(struct rdl__watchdog *wd, struct rdl__hold *hold, bool gone, int64_t sent_at,
                          struct rdl__hold_id *ret_id);

/* A renewal failed, and is repeated: `soon`, if it was only redirected; `by_itself`, in a batch of its own, while its
 * slot is being migrated key by key, so that no server has the keys of all holds.  @locks mu */
void rdl__schedule_retry(struct rdl__watchdog *wd, struct rdl__hold *hold, bool soon, bool by_itself, int64_t now);

#endif
