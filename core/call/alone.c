/* SPDX-License-Identifier: MIT */
#include "core/call/alone.h"

#include "core/call/inner.h"

#include <errno.h>
#include <string.h>

/* Without an end: longer than anybody holds anything. */
static int64_t lease_alone(const struct rdl__call *call)
{
    return call->op.lease_ms == RDL_LEASE_AUTO ? RDL_LEASE_MAX_MS : call->op.lease_ms;
}

static void tell(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state)
{
    rdl__name_metric(rec->name, state == RDL_DEGRADED ? RDL_M_DEGRADED : RDL_M_RESTORED, 1);
    rdl__record_tell(rec, id, state, state == RDL_DEGRADED ? RDL_LOSS_OUTAGE : RDL_LOSS_NONE);
}

/* ---- the host's lock -------------------------------------------------------------------------------------------- */

/* A take without a wait waits for the answer of a server that is there no longer than any; for one that is not, so long
 * that it can be known. */
static void wait_for_outage(struct rdl__call *call)
{
    int64_t least = rdl__after_ms(call->op.started_at, rdl__call_client(call)->local_after_ms + 1000);

    if (call->op.wait_ms == 0 && call->deadline < least)
        call->deadline = least;
}

void rdl__alone_enter(struct rdl__call *call, struct rdl__take_event *ev)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *rec = call->rec;
    const char *why;
    int rc = RDL_OK, host;

    wait_for_outage(call);
    if (rec->hold.host != RDL__HOSTLOCK_NONE) /* a verb of the same owner has had it until now */
        return;
    rc = rdl__hostlock_try(name->client->local_dir, name->bytes, name->node.key_len, &host);
    if (rc == RDL_OK) {
        rdl__mutex_lock(&name->mu);
        rec->hold.host = host;
        rdl__mutex_unlock(&name->mu);
        return;
    }
    *ev = (struct rdl__take_event){.kind = rc == RDL_ETIMEDOUT ? RDL__EV_BARRED : RDL__EV_FAILED, .code = rc};
    if (rc == RDL_ETIMEDOUT)
        return;
    why = strerror(errno);
    rdl__call_keep_words(call, why, strlen(why), false);
}

/* ---- standing in ------------------------------------------------------------------------------------------------ */

/* Is it a take that has the host's lock? */
static bool has_host(const struct rdl__call *call)
{
    return rdl__may_be_alone(call) && call->verb->acquires && call->verb->on_record && call->rec != NULL &&
           call->rec->hold.host != RDL__HOSTLOCK_NONE;
}

int64_t rdl__alone_at(struct rdl__call *call, int64_t since)
{
    int64_t down = rdl__name_shard(rdl__call_name(call))->down_since, at;

    if (!has_host(call) || call->count > 1) /* a nested take's hold decides (rdl__alone_degrades) */
        return RDL__NEVER;
    at = rdl__after_ms(down != 0 && down < since ? down : since, rdl__call_client(call)->local_after_ms);
    if (at > call->hold.alone_at)
        call->hold.alone_at = at;
    return call->hold.alone_at;
}

void rdl__alone_refused(struct rdl__call *call, int64_t now)
{
    int64_t over = call->answer > 0 ? rdl__after_ms(now, call->answer) : 0;

    if (rdl__may_be_alone(call) && over > call->hold.alone_at)
        call->hold.alone_at = over;
}

/* Is there no server now? One that was not asked, and is connected, is there. */
static bool is_time(struct rdl__call *call, bool asked, int64_t now)
{
    int64_t down = rdl__name_shard(rdl__call_name(call))->down_since;

    if (!asked && down == 0)
        return false;
    return now >= (asked ? call->hold.alone_at : rdl__alone_at(call, down));
}

static bool is_degraded(struct rdl__record *rec, int64_t now)
{
    return rdl__watchdog_state(rec->name->client->watchdog, &rec->hold, now, NULL) == RDL_DEGRADED;
}

/* The take that was sent, if any, is being undone: the hold has another number. */
bool rdl__alone_stands_in(struct rdl__call *call, bool asked)
{
    struct rdl__hold_id id = {0};
    int64_t now = rdl__now();
    struct rdl__record *rec;
    bool held;

    if (!has_host(call))
        return false;
    rec = call->rec;
    if (call->count > 1)
        return is_degraded(rec, now) && rdl__alone_again(call, now).rc == RDL_OK;
    if (call->hold.alone_at == 0 || !is_time(call, asked, now))
        return false;
    rdl__mutex_lock(&rec->name->mu);
    if ((held = !rec->orphaned)) {
        id.n = rdl__client_number(rec->name->client);
        rec->hold.id = id;
        rec->held_since = now;
        rdl__record_set_ends_by(rec, 0);
        rec->refused_until = 0;
        rec->renewed = call->op.lease_ms == RDL_LEASE_AUTO;
        rec->may_come = false;
        rdl__record_begins(rec);
        rdl__watchdog_add_alone(rdl__call_client(call)->watchdog, &rec->hold, now, lease_alone(call));
        rec->count = 1;
    }
    rdl__mutex_unlock(&rec->name->mu);
    if (held)
        tell(rec, &id, RDL_DEGRADED);
    return held;
}

/* ---- while it lasts --------------------------------------------------------------------------------------------- */

rdl__step_t rdl__alone_again(struct rdl__call *call, int64_t now)
{
    struct rdl__record *rec = call->rec;

    call->n = rec->hold.id.n;
    if (!rdl__watchdog_raise(rdl__call_client(call)->watchdog, &rec->hold, now, lease_alone(call), false))
        return rdl__finish_with(RDL_ELOST);
    rdl__mutex_lock(&rec->name->mu);
    rec->renewed |= call->op.lease_ms == RDL_LEASE_AUTO;
    rec->count++;
    rdl__mutex_unlock(&rec->name->mu);
    return rdl__finish_with(RDL_OK);
}

/* A hold that has been at the server may be there yet. */
rdl__step_t rdl__alone_release(struct rdl__call *call, int64_t now)
{
    rdl__step_t step = rdl__finish_with(RDL_OK);

    if (call->count > 0)
        return step;
    rdl__name_metric(call->rec->name, RDL_M_RELEASED, 1);
    step.undo = rdl__record_ends_by(call->rec) > now;
    return step;
}

/* A renewal that is under way may run as late as the hold's lease ends at the server, and prolong that; and
 * an extension may have asked for more. */
bool rdl__alone_degrades(struct rdl__record *rec, const struct rdl__hold_id *id, int64_t now)
{
    rdl_client_t *client = rec->name->client;
    int64_t by = rdl__watchdog_expiry(client->watchdog, now, 2 * client->watchdog_lease_ms);
    bool degrades = rec->name->settings.on_outage == RDL_OUTAGE_LOCAL;

    rdl__assert_on_loop(rdl__client_loop(client));
    rdl__mutex_lock(&rec->name->mu);
    if (degrades && (degrades = rdl__watchdog_degrade(client->watchdog, &rec->hold, id->n, now))) {
        rec->refused_until = 0;
        rdl__record_lasts(rec, by);
        if (rec->active != NULL && rec->active->verb->acquires) /* a nested take: it need not wait for the server */
            rec->active->op.underway.cancel(&rec->active->op.underway, RDL_ECONN);
    }
    rdl__mutex_unlock(&rec->name->mu);
    if (degrades)
        tell(rec, id, RDL_DEGRADED);
    return degrades;
}

/* ---- back to the server ----------------------------------------------------------------------------------------- */

void rdl__alone_restore(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;
    struct rdl__order order = {.verb = &rdl__verb_restore, .owner = rec->owner, .direct = true};

    rdl__assert_on_loop(rdl__client_loop(name->client));
    if (!rdl__lane_up(rdl__name_shard(name)->loop_lane))
        return;
    rdl__mutex_lock(&name->mu);
    if (rec->active == NULL && rec->count > 0 && !rec->orphaned)
        order.lock = rdl__name_any_handle(name);
    rdl__mutex_unlock(&name->mu);
    if (order.lock == NULL)
        return;
    (void)rdl__call_async(&order, NULL, NULL);
    rdl__handle_unref(order.lock);
}

bool rdl__alone_yields(struct rdl__record *rec)
{
    rdl__assert_locked(&rec->name->mu);
    if (!rec->active->verb->restores)
        return false;
    rec->active->op.underway.cancel(&rec->active->op.underway, RDL_ETIMEDOUT);
    return true;
}

/* A hold that has been at the server has its number there until its lease is over. Else each attempt has a number of
 * its own, as the one before it may be undone late. */
static rdl__step_t restore_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__record *rec = call->rec;
    rdl_client_t *client = rdl__call_client(call);
    int64_t valid_ns;

    if (rec == NULL || rec->count == 0 ||
        rdl__watchdog_state(client->watchdog, &rec->hold, now, &valid_ns) != RDL_DEGRADED)
        return rdl__finish_with(RDL_ENOTOWNER);
    call->n = rdl__record_ends_by(rec) > now ? rec->hold.id.n : rdl__client_number(client);
    call->count = 1;      /* whatever the owner counts: a release only lowers it */
    call->take.tries = 1; /* by the script, which may be repeated */
    call->op.lease_ms = rec->renewed ? RDL_LEASE_AUTO : rdl__ms_until(valid_ns, 0);
    return rdl__send_it();
}

/* What was granted. False: it is lost, or over already. */
static bool restore_commit(struct rdl__call *call)
{
    struct rdl__record *rec = call->rec;
    const struct rdl__hold_id id = {.n = call->n, .token = call->hold.token};
    bool held;

    rdl__mutex_lock(&rec->name->mu);
    held = !rec->orphaned && rdl__watchdog_restore(rdl__call_client(call)->watchdog, &rec->hold, &id, call->req.sent_at,
                                                   rdl__call_lease_ms(call), rec->renewed);
    if (held) {
        rdl__record_set_ends_by(rec, 0);
        rec->may_come = rdl__call_may_come(call);
    }
    rdl__mutex_unlock(&rec->name->mu);
    if (held)
        tell(rec, &id, RDL_HELD);
    return held;
}

/* What it may have left is undone, and is not there any more. */
static void forget_number(const struct rdl__call *call)
{
    if (call->rec != NULL)
        rdl__record_set_ends_by(call->rec, 0);
}

static rdl__step_t restore_failed(struct rdl__call *call, int rc, bool undo)
{
    if (undo)
        forget_number(call);
    return (rdl__step_t){.what = RDL__DO_FINISH, .rc = rc, .undo = undo};
}

/* Is what refuses it perhaps this host's? Who had the lock before, and was killed, or unlocked it without a server, has
 * left its lease there; nobody renews that. One that is prolonged, or longer than those that are renewed, is somebody
 * else's. */
static bool is_left_over(struct rdl__call *call, int64_t now)
{
    rdl_client_t *client = rdl__call_client(call);
    struct rdl__record *rec = call->rec;
    bool is;

    if (call->answer <= 0 || call->answer > client->watchdog_lease_ms)
        return false;
    rdl__mutex_lock(&rec->name->mu);
    if (rec->refused_until == 0)
        rec->refused_until = rdl__watchdog_expiry(client->watchdog, now, call->answer);
    is = rdl__after_ms(call->req.sent_at, call->answer) <= rec->refused_until;
    rdl__mutex_unlock(&rec->name->mu);
    return is;
}

static rdl__step_t restore_answered(struct rdl__call *call, int64_t now)
{
    int rc = rdl__answer_failed(call);

    if (rc < 0)
        return restore_failed(call, rc, call->req.resent || rdl__call_refused_in_doubt(call));
    if (call->answer == RDL__TAKEN || call->answer == RDL__HELD_ALREADY)
        return restore_commit(call) ? rdl__finish_with(RDL_OK) : restore_failed(call, RDL_ELOST, true);
    if (is_left_over(call, now))
        return restore_failed(call, RDL_ETIMEDOUT, false);
    rdl__watchdog_taken(rdl__call_client(call)->watchdog, &call->rec->hold, call->rec->hold.id.n);
    return rdl__finish_with(RDL_ELOST);
}

/* It was given up: if that left a successor, that is its undo. */
static void restore_ended(struct rdl__call *call, int rc)
{
    if (rc != RDL_OK && call->undo.begun)
        forget_number(call);
}

const struct rdl__verb rdl__verb_restore = {
    .on_record = true,
    .restores = true,
    .prolongs = true,
    .successor_mode = RDL__SUCCESSOR_FOLLOWS,
    RDL__UNDONE_BY_RELEASE,
    .begin = restore_begin,
    .encode = rdl__take_encode,
    .decode = rdl__take_decode,
    .answered = restore_answered,
    .ended = restore_ended,
};
