/* SPDX-License-Identifier: MIT */
/* schedule.c - when something is due for a hold, and its changes of state.
 *
 * A hold stands in the agenda under the next moment at which something is due: its renewal, its becoming at risk, its
 * end. While a renewal is under way the agenda still knows when the hold would be at risk or lost.
 *
 * A hold is renewed every third of its lease, each time a random bit earlier, so that holds taken together are not
 * renewed together for ever. It is AT_RISK when less than a third of the lease is left: two renewals in a row were not
 * confirmed.
 *
 * All changes are here: a hold is added, raised, confirmed or not by a renewal, lost, removed. A loss is decided under
 * the mutex, where the hold is also pinned in memory, and reported after the mutex is released.
 */
#include "core/service/schedule.h"

#define DETOUR_MS 20 /* until a renewal that was redirected is sent again */

/* ---- time ------------------------------------------------------------------------------------------------------- */

int64_t rdl__watchdog_validity(const struct rdl__watchdog *wd, int64_t sent_at, int64_t lease_ms)
{
    int64_t drift =
        lease_ms * wd->config.drift_ppm + wd->config.drift_ms * RDL__MS; /* a ppm of a ms is a ns; 2^59 fit */

    return rdl__after_ms(sent_at, lease_ms) - drift;
}

/* The drift allowance is added here, where validity subtracts it. */
int64_t rdl__watchdog_expiry(const struct rdl__watchdog *wd, int64_t granted_at, int64_t lease_ms)
{
    int64_t end = rdl__after_ms(granted_at, lease_ms);

    return end + (end - rdl__watchdog_validity(wd, granted_at, lease_ms));
}

/* Put the hold there in the agenda, and wake the loop if that is first.  @locks mu */
static void move_to(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t at)
{
    rdl__assert_locked(&wd->mu);
    rdl__agenda_move(&wd->agenda, &hold->node, at);
    if (at < wd->armed && !wd->closed) {
        wd->armed = at;
        rdl__loop_post(wd->loop, &wd->rearm);
    }
}

/* @locks mu */
static void move_to_due(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__assert_locked(&wd->mu);
    move_to(wd, hold, rdl__hold_next_due(hold));
}

/* The same, or at `check_at` if nothing is due before: is it still held by then, so that it is time to listen?  @locks
 * mu */
static void move_to_check(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t check_at)
{
    int64_t at = rdl__hold_next_due(hold);

    rdl__assert_locked(&wd->mu);
    move_to(wd, hold, rdl__hold_wants_listening(wd, hold) && check_at < at ? check_at : at);
}

/* The next renewal of a hold confirmed at `now`: after a third of the lease, up to a quarter of that earlier.  @locks
 * mu */
static int64_t next_renewal(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now)
{
    int64_t third = hold->lease_ms * RDL__MS / 3;

    rdl__assert_locked(&wd->mu);
    return now + third - (int64_t)rdl__rand_below(&wd->rand, (uint64_t)(third / 4 + 1));
}

/* Its end was put off, and no renewal is due or under way that would confirm it until then? */
static bool lacks_renewal(const struct rdl__hold *hold)
{
    return hold->renewed && hold->renew_at == RDL__NEVER && !rdl__hold_under_way(hold) &&
           hold->deadline < hold->ends_at;
}

/* ---- leaving ---------------------------------------------------------------------------------------------------- */

/* Take the hold out of the agenda, its list and its batch.  @locks mu */
static void detach(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__assert_locked(&wd->mu);
    if (rdl__heap_has(&hold->node) && hold->acks.replicas > 0)
        wd->acked_holds--;
    rdl__agenda_remove(&wd->agenda, &hold->node);
    if (hold->renewal == RDL__RENEWAL_DUE)
        rdl__list_remove(&hold->due);
    else if (hold->renewal == RDL__RENEWAL_SENT)
        *hold->place = NULL;
    hold->renewal = RDL__RENEWAL_NONE;
}

struct rdl__hold_id rdl__schedule_lose(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__assert_locked(&wd->mu);
    detach(wd, hold);
    hold->state = RDL_LOST;
    hold->ops->pin(hold);
    return hold->id;
}

/* ---- a renewal's answer ---------------------------------------------------------------------------------------- */

/* A confirmation that is noted after the deadline does not revive the hold, even if it came in time: callers may have
 * been told of the loss meanwhile. So the clock is read under the mutex. */
int rdl__schedule_confirm(struct rdl__watchdog *wd, struct rdl__hold *hold, bool gone, int64_t sent_at,
                          struct rdl__hold_id *ret_id)
{
    int64_t deadline, now = rdl__now();

    rdl__assert_locked(&wd->mu);
    hold->renewal = RDL__RENEWAL_NONE;
    hold->by_itself = false;
    if (hold->deadline <= now || gone) {
        int reason = gone ? RDL_LOSS_GONE : RDL_LOSS_LEASE;

        *ret_id = rdl__schedule_lose(wd, hold);
        return reason;
    }
    if (hold->brief)
        hold->lease_ms = rdl__hold_trust_ms(hold, wd->config.lease_ms);
    hold->brief = false;
    deadline = rdl__watchdog_validity(wd, sent_at, hold->lease_ms);
    if (deadline > hold->ends_at)
        deadline = hold->ends_at;
    if (deadline > hold->deadline)
        hold->deadline = deadline;
    if (rdl__hold_risk_at(hold) > now)
        hold->state = RDL_HELD;
    hold->renew_at = hold->deadline < hold->ends_at ? next_renewal(wd, hold, sent_at) : RDL__NEVER;
    if (hold->again)
        hold->renew_at = now;
    hold->again = false;
    move_to_due(wd, hold);
    return 0;
}

void rdl__schedule_retry(struct rdl__watchdog *wd, struct rdl__hold *hold, bool soon, bool by_itself, int64_t now)
{
    int64_t pause = hold->lease_ms * RDL__MS / 20;

    rdl__assert_locked(&wd->mu);
    hold->renewal = RDL__RENEWAL_NONE;
    hold->by_itself = by_itself;
    hold->again = false;
    hold->renew_at = now + (soon && pause > DETOUR_MS * RDL__MS ? DETOUR_MS * RDL__MS : pause);
    move_to_due(wd, hold);
}

/* ---- watchdog.h: holds ------------------------------------------------------------------------------------------ */

/* The server has granted it.  @locks mu */
static void begin(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms, bool renewed)
{
    int64_t trusted_ms = rdl__hold_trust_ms(hold, lease_ms);

    rdl__assert_locked(&wd->mu);
    wd->acked_holds += hold->acks.replicas > 0 ? 1 : 0;
    hold->node = (struct rdl__heap_node){0};
    hold->renewal = RDL__RENEWAL_NONE;
    hold->deadline = rdl__watchdog_validity(wd, sent_at, trusted_ms);
    hold->ends_at = renewed ? RDL__NEVER : rdl__watchdog_validity(wd, sent_at, lease_ms);
    hold->lease_ms = trusted_ms;
    hold->renewed = renewed || trusted_ms < lease_ms;
    hold->state = RDL_HELD;
    hold->told_risk = false;
    hold->by_itself = false;
    hold->again = false;
    hold->brief = renewed && lease_ms < wd->config.lease_ms;
    hold->renew_at = hold->renewed ? next_renewal(wd, hold, sent_at) : RDL__NEVER;
    move_to_check(wd, hold, rdl__after_ms(sent_at, RDL__LISTEN_AFTER_MS));
}

void rdl__watchdog_add(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                       bool renewed)
{
    rdl__mutex_lock(&wd->mu);
    begin(wd, hold, sent_at, lease_ms, renewed);
    rdl__mutex_unlock(&wd->mu);
}

/* ---- watchdog.h: holds of the host alone ------------------------------------------------------------------------ */

/* @locks mu */
static void be_alone(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now, int64_t lease_ms)
{
    rdl__assert_locked(&wd->mu);
    hold->state = RDL_DEGRADED;
    hold->lease_ms = lease_ms;
    hold->deadline = hold->ends_at = rdl__watchdog_validity(wd, now, lease_ms);
    hold->renewed = hold->brief = hold->again = hold->by_itself = false;
    hold->renew_at = rdl__after_ms(now, RDL__RESTORE_MS);
    move_to_due(wd, hold);
}

void rdl__watchdog_add_alone(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now, int64_t lease_ms)
{
    rdl__mutex_lock(&wd->mu);
    hold->node = (struct rdl__heap_node){0};
    hold->renewal = RDL__RENEWAL_NONE;
    hold->told_risk = false;
    be_alone(wd, hold, now, lease_ms);
    rdl__mutex_unlock(&wd->mu);
}

bool rdl__watchdog_degrade(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n, int64_t now)
{
    bool degrades;

    rdl__mutex_lock(&wd->mu);
    degrades = rdl__heap_has(&hold->node) && hold->id.n == n && hold->state == RDL_AT_RISK && hold->deadline > now &&
               hold->ends_at == RDL__NEVER;
    if (degrades) {
        detach(wd, hold);
        be_alone(wd, hold, now, RDL_LEASE_MAX_MS);
    }
    rdl__mutex_unlock(&wd->mu);
    return degrades;
}

bool rdl__watchdog_restore(struct rdl__watchdog *wd, struct rdl__hold *hold, const struct rdl__hold_id *id,
                           int64_t sent_at, int64_t lease_ms, bool renewed)
{
    bool restored;
    int64_t now;

    rdl__mutex_lock(&wd->mu);
    now = rdl__now(); /* here, as in rdl__schedule_confirm */
    restored = hold->state == RDL_DEGRADED && rdl__heap_has(&hold->node) && hold->deadline > now &&
               rdl__watchdog_validity(wd, sent_at, rdl__hold_trust_ms(hold, lease_ms)) > now;
    if (restored) {
        detach(wd, hold);
        hold->id = *id;
        begin(wd, hold, sent_at, lease_ms, renewed);
    }
    rdl__mutex_unlock(&wd->mu);
    return restored;
}

bool rdl__watchdog_raise(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                         bool renewed)
{
    int64_t trusted_ms = rdl__hold_trust_ms(hold, lease_ms), deadline = rdl__watchdog_validity(wd, sent_at, trusted_ms);
    int64_t ends_at = renewed ? RDL__NEVER : rdl__watchdog_validity(wd, sent_at, lease_ms);
    bool alive, for_good;
    int64_t now;

    rdl__mutex_lock(&wd->mu);
    now = rdl__now(); /* here, as in rdl__schedule_confirm */
    /* not one that was forgotten while the server was asked about it */
    alive = rdl__heap_has(&hold->node) && hold->state != RDL_LOST && hold->deadline > now;
    if (alive) {
        for_good = renewed && hold->ends_at != RDL__NEVER; /* renewed without end from now on */
        if (deadline > hold->deadline)
            hold->deadline = deadline;
        if (ends_at > hold->ends_at)
            hold->ends_at = ends_at;
        if (for_good || (trusted_ms < lease_ms && !hold->renewed)) {
            hold->lease_ms = trusted_ms;
            hold->renewed = true;
            if (!rdl__hold_under_way(hold))
                hold->renew_at = next_renewal(wd, hold, sent_at);
        }
        if (lacks_renewal(hold))
            hold->renew_at = next_renewal(wd, hold, sent_at);
        if (hold->state == RDL_AT_RISK && rdl__hold_risk_at(hold) > now)
            hold->state = RDL_HELD;
        move_to_check(wd, hold, hold->node.at);
    }
    rdl__mutex_unlock(&wd->mu);
    return alive;
}

void rdl__watchdog_keep(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__mutex_lock(&wd->mu);
    if (rdl__heap_has(&hold->node)) { /* else it is lost */
        hold->ends_at = RDL__NEVER;
        hold->renewed = true;
        hold->brief = hold->lease_ms < wd->config.lease_ms;
        hold->renew_at = next_renewal(wd, hold, rdl__now());
        move_to_due(wd, hold);
    }
    rdl__mutex_unlock(&wd->mu);
}

void rdl__watchdog_tell_anew(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__mutex_lock(&wd->mu);
    hold->told_risk = false;
    rdl__mutex_unlock(&wd->mu);
}

rdl_hold_state_t rdl__watchdog_remove(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now)
{
    struct rdl__hold_id id = {0};
    rdl_hold_state_t state;
    bool unnoticed;

    rdl__mutex_lock(&wd->mu);
    unnoticed = hold->state != RDL_LOST && hold->deadline <= now;
    if (unnoticed)
        id = rdl__schedule_lose(wd, hold);
    else
        detach(wd, hold);
    state = (rdl_hold_state_t)hold->state;
    rdl__mutex_unlock(&wd->mu);
    if (unnoticed)
        hold->ops->changed(hold, &id, RDL_LOST, RDL_LOSS_LEASE, now);
    return state;
}

void rdl__watchdog_forget(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__mutex_lock(&wd->mu);
    detach(wd, hold);
    rdl__mutex_unlock(&wd->mu);
}

/* Not a hold that is being released: the release reports its loss. `n` 0: whatever its number. What the server says of
 * a hold concerns one that is alone only as it is to be restored. */
static void lose_now(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n, rdl_loss_reason_t reason)
{
    struct rdl__hold_id id = {0};
    int64_t now = rdl__now();
    bool looked_after;

    rdl__mutex_lock(&wd->mu);
    looked_after = rdl__heap_has(&hold->node) && (n == 0 || hold->id.n == n);
    if (n != 0 && (hold->state == RDL_DEGRADED) != (reason == RDL_LOSS_TAKEN))
        looked_after = false;
    if (looked_after)
        id = rdl__schedule_lose(wd, hold);
    rdl__mutex_unlock(&wd->mu);
    if (looked_after)
        hold->ops->changed(hold, &id, RDL_LOST, reason, now);
}

void rdl__watchdog_gone(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n)
{
    lose_now(wd, hold, n, RDL_LOSS_GONE);
}

void rdl__watchdog_taken(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n)
{
    lose_now(wd, hold, n, RDL_LOSS_TAKEN);
}

void rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    lose_now(wd, hold, 0, RDL_LOSS_THREAD_EXIT);
}

rdl_hold_state_t rdl__watchdog_state(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now,
                                     int64_t *ret_valid_ns)
{
    rdl_hold_state_t state;
    int64_t valid_ns;

    rdl__mutex_lock(&wd->mu);
    valid_ns = hold->deadline - now;
    state = valid_ns <= 0 ? RDL_LOST : (rdl_hold_state_t)hold->state;
    rdl__mutex_unlock(&wd->mu);
    if (ret_valid_ns != NULL)
        *ret_valid_ns = state == RDL_LOST ? 0 : valid_ns;
    return state;
}
