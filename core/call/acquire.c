/* SPDX-License-Identifier: MIT */
/* acquire.c - the verb that takes a lock: the machine in take.c decides, this sends, reads answers and sets the record.
 */
#include "core/call/alone.h"
#include "core/call/cached.h"
#include "core/call/share.h"
#include "core/call/verb.h"

#include <string.h>

static rdl__step_t say_einval(struct rdl__call *call, const char *words)
{
    rdl__call_keep_words(call, words, strlen(words), false);
    return rdl__finish_with(RDL_EINVAL);
}

bool rdl__take_others_wait(const struct rdl__call *call)
{
    return rdl__news_counted(call->ops->news) && rdl__name_waited_for(rdl__call_name(call));
}

rdl__step_t rdl__take_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *rec = call->rec;
    rdl_retry_t retry = rdl__settings_retry(&name->settings);
    struct rdl__take_event ev = {.kind = RDL__EV_START, .others_wait = rdl__take_others_wait(call)};
    int rc = call->ops->may_take(call, now);

    rdl__take_init(&call->take, call->one_try, &retry, rdl__call_seed(call));
    if (rc < 0)
        return rdl__finish_with(rc);
    if (rec->count > 0) {
        rdl_hold_state_t state = rdl__watchdog_state(name->client->watchdog, &rec->hold, now, NULL);

        if (state == RDL_LOST)
            return rdl__finish_with(RDL_ELOST);
        if (!name->settings.nests)
            return rdl__finish_with(RDL_EDEADLK);
        if (rec->count >= INT32_MAX)
            return say_einval(call, "held 2^31-1 times already");
        if (state == RDL_DEGRADED)
            return rdl__alone_again(call, now);
        ev.others_wait = false; /* a re-entry waits for nobody */
        call->n = rec->hold.id.n;
    } else {
        if (name->settings.detaches && !rdl__detached_reserve(rec))
            return rdl__finish_with(RDL_ENOMEM);
        call->n = rdl__client_number(name->client);
        ev.stands = !call->verb->restores && rdl__line_take_place(call, now);
        ev.ttl_ms = RDL__LOOK_MS;
    }
    call->count = rec->count + 1;
    call->hold.undo_count = rec->count;
    if (name->settings.on_outage == RDL_OUTAGE_LOCAL && rec->count == 0)
        rdl__alone_enter(call, &ev);
    return rdl__take_on(&call->take, &ev);
}

void rdl__take_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    call->ops->put_take(call, to, eval);
}

void rdl__take_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    call->ops->decode_take(call, reply);
}

static bool is_grant(int64_t answer)
{
    return answer == RDL__TAKEN || answer == RDL__HELD_ALREADY;
}

/* The server has granted it for lease_ms. False: that time is over already, or the owner is gone. */
static bool take_commit(struct rdl__call *call, int64_t lease_ms, int64_t now)
{
    struct rdl__record *rec = call->rec;
    struct rdl__watchdog *wd = rdl__call_client(call)->watchdog;
    bool renewed = call->op.lease_ms == RDL_LEASE_AUTO;
    bool held;

    if (now >= rdl__watchdog_validity(wd, call->req.sent_at, call->ops->trusted_ms(rec->name, lease_ms)))
        return false;
    rdl__mutex_lock(&rec->name->mu);
    if (call->count > 1) {
        held = rdl__watchdog_raise(wd, &rec->hold, call->req.sent_at, lease_ms, renewed);
    } else if ((held = !rec->orphaned)) {
        rec->hold.id.n = call->n;
        rec->hold.id.token = call->hold.token;
        rec->held_since = now;
        rdl__record_set_ends_by(rec, 0);
        rec->renewed = rec->may_come = false;
        rdl__record_begins(rec);
        rdl__watchdog_add(wd, &rec->hold, call->req.sent_at, lease_ms, renewed);
    }
    if (held) {
        rec->count = call->count;
        rec->renewed |= renewed;
        rec->may_come |= rdl__call_may_come(call);
    }
    rdl__mutex_unlock(&rec->name->mu);
    return held;
}

/* When the refused is to look again: at the end of the holder's lease, or sooner if the answer says so besides. */
static int64_t looks_after(const struct rdl__call *call)
{
    return call->look_ms > 0 && (call->answer < 0 || call->look_ms < call->answer) ? call->look_ms : call->answer;
}

rdl__step_t rdl__take_answered(struct rdl__call *call, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_FAILED, .unsure = call->req.resent};
    int64_t own = call->hold.own;
    bool gone;
    int rc;

    if (call->req.rc != RDL_OK) {
        ev.code = call->req.rc;
    } else if (call->refused_words) {
        ev.code = RDL_ESERVER;
        ev.unsure |= rdl__call_refused_in_doubt(call);
    } else if (call->answer == RDL__GONE) {
        ev.kind = RDL__EV_GONE;
        rdl__watchdog_gone(rdl__call_client(call)->watchdog, &call->rec->hold, call->n);
    } else if (is_grant(call->answer) && !rdl__call_acked(call)) {
        ev.code = RDL_ENOREPLICAS;
        ev.unsure = true; /* undo it at the master and at those replicas that have it */
    } else if (is_grant(call->answer)) {
        ev.kind = RDL__EV_TAKEN;
        rdl__line_granted(call);
        rdl__share_taken(call);
        ev.valid = take_commit(call, rdl__call_lease_ms(call), now);
    } else if ((rc = call->ops->may_take(call, now)) < 0) {
        ev.code = rc;
    } else {
        ev.kind = RDL__EV_REFUSED;
        rdl__line_refused(call);
        ev.queued = call->ops->leaves_trace(call);
        ev.ttl_ms = looks_after(call);
        ev.waited_ms = rdl__news_heard(call->ops->news) ? 0 : (now - call->op.started_at) / RDL__MS;
        if ((ev.early = rdl__detached_in_the_way(call, &gone)) && !gone)
            rdl__call_pauses(call, now);
        ev.early = ev.early || call->hold.own != own; /* its owner has the other end by now: the try has not said so */
        rdl__alone_refused(call, now);
    }
    return rdl__take_on(&call->take, &ev);
}

/* The message that woke it may have granted the lock; not where replicas must confirm, since no WAIT was sent with it.
 */
rdl__step_t rdl__take_woken(struct rdl__call *call, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_WOKEN};
    int64_t lease_ms;

    if (call->take.state == RDL__TAKE_BARRED) {
        ev = (struct rdl__take_event){.kind = RDL__EV_START, .others_wait = rdl__take_others_wait(call)};
        rdl__alone_enter(call, &ev);
        return rdl__take_on(&call->take, &ev);
    }
    if (rdl__call_asks(call) == RDL__ASKS_NOBODY && call->ops->granted(call, now, &lease_ms)) {
        ev.kind = RDL__EV_TAKEN;
        ev.valid = take_commit(call, lease_ms, now);
    }
    return rdl__take_on(&call->take, &ev);
}

static bool take_lost(const struct rdl__call *call, int64_t now)
{
    struct rdl__view view = rdl__record_view(rdl__call_name(call), call->op.owner, call->ops, now);

    return view.state == RDL_LOST && view.n == call->n;
}

const struct rdl__verb rdl__verb_take = {
    RDL__TAKES,
    .unrecorded = true,
    .undo_once_more = rdl__line_left_over,
    .undone = rdl__line_undone,
    .begin = rdl__take_begin,
    .encode = rdl__take_encode,
    .decode = rdl__take_decode,
    .answered = rdl__take_answered,
    .woken = rdl__take_woken,
    .lost = take_lost,
    .takes_back = &rdl__verb_release,
    .kept = &rdl__cached_take,
};
