/* SPDX-License-Identifier: MIT */
/* cache_verbs.c - the verbs of a lock that is kept by its client (cache.h).
 *
 * Each is a call of the engine, its record's verb in flight, so that an owner's verbs keep their order. What concerns a
 * local hold ends at its beginning, or waits in the cache's queue: a caller's thread sleeps in take_stays, other calls
 * are the loop's. An owner that asks the server for itself is the engine's from there on, with a number of its own.
 */
#include "core/call/cache.h"
#include "core/call/cached.h"
#include "core/call/inner.h"

static struct rdl__cache *of_call(const struct rdl__call *call)
{
    return rdl__call_name(call)->cache;
}

/* ---- the take --------------------------------------------------------------------------------------------------- */

/* What a call that waited here ends with, or does next. */
static rdl__step_t waited(struct rdl__call *call, int64_t now)
{
    unsigned char how = call->hold.local;

    call->hold.local = RDL__LOCAL_NONE;
    if (how == RDL__LOCAL_IN)
        return rdl__finish_with(RDL_OK);
    if (how == RDL__LOCAL_FAILED)
        return rdl__finish_with((int)call->answer);
    return rdl__take_begin(call, now);
}

/* Leave the queue; false: it stands in none. Until then others may let it in. A take for nobody any more is ended.
 * @locks none */
static bool left_queue(struct rdl__cache *cache, struct rdl__call *call)
{
    bool queued;

    rdl__mutex_lock(&cache->name->mu);
    if ((queued = call->hold.local == RDL__LOCAL_QUEUED)) {
        rdl__cache_unqueue(cache, call);
        call->hold.local = RDL__LOCAL_NONE;
    }
    rdl__mutex_unlock(&cache->name->mu);
    if (queued)
        rdl__cache_end_unwanted(cache);
    return queued;
}

/* Sleep until its waiting is over.  @thread the caller's  @locks none */
static rdl__step_t take_stays(struct rdl__call *call, int64_t until)
{
    struct rdl__cache *cache = of_call(call);
    uint32_t posted = rdl__park_for(&call->req.park, RDL__POST_KEPT | RDL__POST_CANCEL, until);

    if ((posted & RDL__POST_KEPT) == 0 && left_queue(cache, call))
        return rdl__call_stopped_between(call, atomic_load(&call->op.cancel_code));
    return waited(call, rdl__now());
}

/* The state of a call that has not asked the server. */
static void local_begins(struct rdl__call *call)
{
    rdl_retry_t retry = rdl__settings_retry(&rdl__call_name(call)->settings);

    rdl__take_init(&call->take, call->one_try, &retry, rdl__call_seed(call));
}

/* What an owner that does not have it does next.  @locks none */
static rdl__step_t entered(struct rdl__call *call, enum rdl__keep_entry entry, bool soon, int64_t now)
{
    switch (entry) {
    case RDL__ENTRY_IN:
        rdl__name_metric(rdl__call_name(call), RDL_M_LOCAL, 1);
        return rdl__finish_with(RDL_OK);
    case RDL__ENTRY_TAKEN:
        call->take.contended = true;
        return rdl__finish_with(RDL_ETIMEDOUT);
    case RDL__ENTRY_QUEUE:
    case RDL__ENTRY_TAKE:
        return (rdl__step_t){.what = RDL__DO_STAY, .hint_ms = soon};
    case RDL__ENTRY_ASK:
        break;
    }
    return rdl__take_begin(call, now);
}

static rdl__step_t take_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__cache *cache = of_call(call);
    struct rdl__record *rec = call->rec;
    enum rdl__keep_wait wait;
    enum rdl__keep_entry entry;
    bool soon;
    int rc = RDL_OK;

    local_begins(call);
    wait = rdl__cache_wait_of(call);
    rdl__mutex_lock(&cache->name->mu);
    if (rdl__cache_is_local(rec)) {
        call->n = rec->hold.id.n;
        if ((rc = rdl__cache_take_again(cache, rec, call->op.lease_ms, now)) > 0) {
            call->hold.local = RDL__LOCAL_EXTENDS;
            call->hold.undo_count = rec->count;
            call->n = cache->keep.n;
        }
        rdl__mutex_unlock(&cache->name->mu);
        return rc > 0 ? rdl__send_it() : rdl__finish_with(rc);
    }
    entry = rec->count > 0 || rec->orphaned
                ? RDL__ENTRY_ASK
                : rdl__cache_enter(cache, rec, call->op.lease_ms, wait, call->deadline, now);
    if (entry == RDL__ENTRY_QUEUE || entry == RDL__ENTRY_TAKE)
        rdl__cache_queue(cache, call);
    if (entry == RDL__ENTRY_IN)
        call->n = rec->hold.id.n;
    /* As long as for the answer to a first try: while one is under way for it, or the server's clock is asked for, and
     * where it waits briefly, or not, while what is in its way is given back; not for who is inside. */
    soon = (cache->keep.state == RDL__KEEP_TAKING && !rdl__name_waited_for(cache->name)) ||
           cache->confirms != RDL__CONFIRM_NONE || (wait != RDL__WAITS_LONG && cache->keep.state == RDL__KEEP_GIVING);
    rdl__mutex_unlock(&cache->name->mu);
    return entered(call, entry, soon, now);
}

/* ---- more time of the kept hold, for an extend or a nested take ------------------------------------------------- */

static void take_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    if (call->hold.local == RDL__LOCAL_EXTENDS)
        rdl__extend_encode(call, to, eval);
    else
        rdl__take_encode(call, to, eval);
}

static void take_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    if (call->hold.local == RDL__LOCAL_EXTENDS)
        rdl__extend_decode(call, reply);
    else
        rdl__take_decode(call, reply);
}

/* The server has the kept hold for lease_ms from the sending on. False: it is lost, or the owner's is.  @locks the
 * name's */
static bool extended(struct rdl__cache *cache, const struct rdl__call *call)
{
    struct rdl__watchdog *wd = rdl__cache_watchdog(cache);
    int64_t lease_ms = call->op.lease_ms;

    rdl__assert_locked(&cache->name->mu);
    if (!rdl__cache_has(cache, call->rec) || cache->keep.n != call->n ||
        !rdl__watchdog_raise(wd, &cache->kept_rec->hold, call->req.sent_at, lease_ms, true))
        return false;
    return call->rec->renewed || rdl__watchdog_raise(wd, &call->rec->hold, call->req.sent_at, lease_ms, false);
}

static rdl__step_t extend_answered(struct rdl__call *call, int64_t now)
{
    struct rdl__cache *cache = of_call(call);
    struct rdl__record *kept = NULL;
    int rc = rdl__answer_failed(call);
    bool nests = call->hold.local == RDL__LOCAL_EXTENDS;

    (void)now;
    call->hold.local = RDL__LOCAL_NONE;
    if (rc == RDL_OK && call->answer != RDL__NO_HOLD && !rdl__call_acked(call))
        rc = RDL_ENOREPLICAS;
    if (rc < 0)
        return rdl__finish_with(rc);
    rdl__mutex_lock(&cache->name->mu);
    if (call->answer == RDL__NO_HOLD && rdl__cache_has(cache, call->rec) && (kept = cache->kept_rec) != NULL)
        atomic_fetch_add(&kept->refs, 1);
    rc = call->answer != RDL__NO_HOLD && extended(cache, call) ? RDL_OK : RDL_ELOST;
    if (rc == RDL_OK && nests)
        call->rec->count++;
    rdl__mutex_unlock(&cache->name->mu);
    if (kept != NULL) {
        rdl__watchdog_gone(rdl__cache_watchdog(cache), &kept->hold, call->n);
        rdl__record_unref(kept);
    }
    return rdl__finish_with(rc);
}

/* However it has ended, what it sent may have run, and the server has the kept hold for so long: it is not kept past
 * its owner, who may have lost it meanwhile. */
static void extend_ended(struct rdl__call *call, int rc)
{
    struct rdl__cache *cache = of_call(call);
    int64_t now = rdl__now(), ends_by;

    (void)rc;
    if (!rdl__is_kept(call->n) || call->sent_to == NULL)
        return;
    ends_by = rdl__watchdog_expiry(rdl__cache_watchdog(cache), now, call->op.lease_ms);
    rdl__mutex_lock(&cache->name->mu);
    if (cache->kept_rec != NULL && cache->keep.n == call->n) {
        rdl__record_lasts(cache->kept_rec, ends_by);
        cache->keep.stretched = cache->keep.stretched || call->op.lease_ms > cache->lease_ms;
        if (cache->keep.state == RDL__KEEP_HELD && cache->inside == 0)
            rdl__cache_next(cache, now);
    }
    rdl__mutex_unlock(&cache->name->mu);
}

static rdl__step_t take_answered(struct rdl__call *call, int64_t now)
{
    return call->hold.local == RDL__LOCAL_EXTENDS ? extend_answered(call, now) : rdl__take_answered(call, now);
}

static rdl__step_t extend_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__cache *cache = of_call(call);
    struct rdl__record *rec = call->rec;
    bool lost = false, here = false;

    if (!rdl__cache_is_local(rec))
        return rdl__extend_begin(call, now);
    rdl__mutex_lock(&cache->name->mu);
    call->n = cache->keep.n;
    if (!(lost = rdl__cache_is_lost(cache, rec, now)) && (here = rdl__cache_fits(cache, call->op.lease_ms, now)) &&
        !rec->renewed)
        (void)rdl__watchdog_raise(rdl__cache_watchdog(cache), &rec->hold, now, call->op.lease_ms, false);
    rdl__mutex_unlock(&cache->name->mu);
    return lost ? rdl__finish_with(RDL_ELOST) : here ? rdl__finish_with(RDL_OK) : rdl__send_it();
}

static rdl__step_t any_extend_answered(struct rdl__call *call, int64_t now)
{
    return rdl__is_kept(call->n) ? extend_answered(call, now) : rdl__extend_answered(call, now);
}

/* ---- the release ------------------------------------------------------------------------------------------------ */

static rdl__step_t release_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__cache *cache = of_call(call);
    struct rdl__record *rec = call->rec;
    struct rdl__hold_id id;
    bool unnoticed, outermost;
    int rc;

    if (!rdl__cache_is_local(rec))
        return rdl__release_begin(call, now);
    if (call->n != 0 && call->n != rec->hold.id.n)
        return rdl__finish_with(RDL_ENOTOWNER);
    rdl__mutex_lock(&cache->name->mu);
    id = rec->hold.id;
    rc = rdl__cache_leave(cache, rec, now, &unnoticed);
    outermost = rec->count == 0;
    rdl__mutex_unlock(&cache->name->mu);
    rdl__cache_tell_left(rec, &id, outermost, unnoticed, rc, rec->held_since, now);
    return rdl__finish_with(rc);
}

/* ---- a call that waits on the loop, and ends -------------------------------------------------------------------- */

static rdl__step_t take_woken(struct rdl__call *call, int64_t now)
{
    return call->hold.local == RDL__LOCAL_NONE ? rdl__take_woken(call, now) : waited(call, now);
}

/* It has ended otherwise than by what it waited here for: it leaves the queue, or gives back what it was let in to. */
static void take_ended(struct rdl__call *call, int rc)
{
    struct rdl__cache *cache = of_call(call);
    struct rdl__record *rec = call->rec;
    int64_t now;

    if (left_queue(cache, call))
        return;
    extend_ended(call, rc);
    if (rc == RDL_OK && call->ops->other_end != NULL && !rdl__is_kept(call->n)) {
        rdl__mutex_lock(&cache->name->mu);
        rdl__cache_asked(cache, call->op.owner, call->ops);
        rdl__mutex_unlock(&cache->name->mu);
        rdl__cache_end_unwanted(cache);
    }
    if (call->hold.local == RDL__LOCAL_NONE || call->hold.local == RDL__LOCAL_EXTENDS)
        return;
    now = rdl__now();
    rdl__mutex_lock(&cache->name->mu);
    rdl__loop_unpost(rdl__client_loop(rdl__call_client(call)), &call->task);
    if (call->hold.local == RDL__LOCAL_IN) {
        rec->count = 0;
        rdl__record_ends(rec);
        rdl__cache_end(cache, rec, now);
    }
    call->hold.local = RDL__LOCAL_NONE;
    rdl__mutex_unlock(&cache->name->mu);
}

static bool take_lost(const struct rdl__call *call, int64_t now)
{
    struct rdl__view view = rdl__cache_view(rdl__call_name(call), call->op.owner, call->ops, now);

    return view.state == RDL_LOST && view.n == call->n;
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

/* The number of the hold that is kept here with nobody inside; 0: there is none. *ret_inside: an owner of this process
 * is inside, of that end. *ret_shared: others elsewhere may have the lock beside what is kept. */
static int64_t idle_hold(struct rdl__call *call, bool *ret_inside, bool *ret_shared)
{
    struct rdl__cache *cache = of_call(call);
    int64_t n;

    rdl__mutex_lock(&cache->name->mu);
    *ret_inside = cache->inside > 0 && cache->ops == call->ops;
    *ret_shared = rdl__cache_is_shared(cache);
    n = cache->keep.state == RDL__KEEP_HELD && cache->inside == 0 ? cache->keep.n : 0;
    rdl__mutex_unlock(&cache->name->mu);
    return n;
}

/* A lock that is kept here and idle is free, whatever the server says; one that others elsewhere may share is asked
 * about, but for that hold. */
static rdl__step_t is_locked_begin(struct rdl__call *call, int64_t now)
{
    bool inside, shared;

    call->n = idle_hold(call, &inside, &shared);
    if (!inside && (call->n == 0 || shared))
        return rdl__begin_by_asking(call, now);
    call->answer = inside;
    return rdl__finish_with(RDL_OK);
}

static rdl__step_t remaining_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__view view = rdl__cache_view(rdl__call_name(call), call->op.owner, call->ops, now);
    bool inside, shared;

    call->answer = rdl__ms_until(view.valid_ns, 0);
    if (view.state == RDL_NOT_HELD && (idle_hold(call, &inside, &shared) == 0 || shared))
        return rdl__remaining_begin(call, now);
    return rdl__finish_with(view.state == RDL_LOST ? RDL_ELOST : RDL_OK);
}

/* ---- the verbs -------------------------------------------------------------------------------------------------- */

const struct rdl__verb rdl__cached_release = {
    RDL__RELEASES, /* undone, it may have to leave the line */
    .undo_once_more = rdl__line_left_over,
    .undone = rdl__line_undone,
    .begin = release_begin,
    .answered = rdl__release_answered,
};

const struct rdl__verb rdl__cached_take = {
    RDL__TAKES,
    .undo_once_more = rdl__line_left_over,
    .undone = rdl__line_undone,
    .begin = take_begin,
    .encode = take_encode,
    .decode = take_decode,
    .answered = take_answered,
    .woken = take_woken,
    .stay = take_stays,
    .ended = take_ended,
    .lost = take_lost,
    .takes_back = &rdl__cached_release,
};

const struct rdl__verb rdl__cached_extend = {
    .on_record = true,
    .acked = true,
    .prolongs = true,
    .begin = extend_begin,
    .encode = rdl__extend_encode,
    .decode = rdl__extend_decode,
    .answered = any_extend_answered,
    .ended = extend_ended,
    .texts = rdl__done_or_not,
};

const struct rdl__verb rdl__cached_is_locked = {
    .begin = is_locked_begin,
    .encode = rdl__is_locked_encode,
    .decode = rdl__is_locked_decode,
    .answered = rdl__is_locked_answered,
    .texts = rdl__nothing_done,
};

const struct rdl__verb rdl__cached_remaining = {
    .begin = remaining_begin,
    .encode = rdl__remaining_encode,
    .decode = rdl__decode_number,
    .answered = rdl__remaining_answered,
    .texts = rdl__nothing_done,
};
