/* SPDX-License-Identifier: MIT */
/* kept.c - the hold that a client keeps at the server: its take, its release, its loss (cache.h).
 *
 * What is to be sent is decided by whoever has the name's mutex, and sent by the loop, one at a time. A take, a release
 * and a cut of the subscription are each noted under the mutex before anybody is let in or not let in because of it. So
 * nobody is let in after a release was decided, and nothing is kept on the word of a subscription that was not in
 * force, at the server that granted, when the take was sent (protocol.md, 11).
 */
#include "core/call/cache.h"
#include "core/call/cached.h"

static struct rdl__cache *of_record(const struct rdl__record *rec)
{
    return rec->name->cache;
}

/* ---- the keeper's verbs ----------------------------------------------------------------------------------------- */

/* The number is negative, as a mark for those who are refused. */
static rdl__step_t take_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    rdl_retry_t retry = rdl__settings_retry(&name->settings);
    struct rdl__take_event ev = {.kind = RDL__EV_START, .others_wait = rdl__take_others_wait(call)};
    int rc = call->ops->may_take(call, now);

    if (rc < 0)
        return rdl__finish_with(rc);
    rdl__take_init(&call->take, call->one_try, &retry, rdl__call_seed(call));
    call->n = -rdl__client_number(name->client);
    call->count = 1;
    call->hold.undo_count = 0;
    ev.stands = rdl__line_take_place(call, now);
    ev.ttl_ms = RDL__LOOK_MS;
    return rdl__take_on(&call->take, &ev);
}

static const struct rdl__verb kept_take = {
    RDL__TAKES,
    .uncounted = true,
    .undo_once_more = rdl__line_left_over,
    .undone = rdl__line_undone,
    .begin = take_begin,
    .encode = rdl__take_encode,
    .decode = rdl__take_decode,
    .answered = rdl__take_answered,
    .woken = rdl__take_woken,
};

/* As any outermost release, but that nobody is told of its loss, and that it needs no record: whoever frees the last
 * handle forgets the keeper's, maybe just before. */
static rdl__step_t release_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__record *rec = call->rec;

    call->count = call->hold.undo_count = 0;
    if (rec == NULL || rec->count == 0 || rec->hold.id.n != call->n) {
        call->op.lease_ms = rdl__call_client(call)->watchdog_lease_ms;
        return rdl__send_it();
    }
    call->op.lease_ms = rdl__record_most_ms(rec, now);
    rdl__record_clear(rec);
    return rdl__watchdog_remove(rdl__call_client(call)->watchdog, &rec->hold, now) == RDL_LOST
               ? rdl__finish_with(RDL_ELOST)
               : rdl__send_it();
}

static rdl__step_t release_answered(struct rdl__call *call, int64_t now)
{
    rdl__step_t step = {.what = RDL__DO_FINISH, .rc = call->req.rc, .undo = call->req.rc != RDL_ECLOSED};

    call->may_come |= call->rec != NULL && call->rec->may_come;
    if (call->req.rc != RDL_OK)
        return step;
    step.rc = call->refused_words ? RDL_ESERVER : RDL_OK;
    if (call->refused_words)
        return step;
    step.undo = call->rec != NULL && call->rec->may_come && rdl__record_ends_by(call->rec) > now;
    step.undo |= rdl__line_released(call);
    if (call->answer != RDL__NO_HOLD) {
        rdl__call_freed(call);
        rdl__note_release(call, now);
    } else if (!call->req.resent) { /* else the first of them has done it */
        step.rc = RDL_ENOTOWNER;
    }
    return step;
}

static const struct rdl__verb kept_release = {
    RDL__RELEASES, /* undone, it may have to leave the line */
    .undo_once_more = rdl__line_left_over,
    .undone = rdl__line_undone,
    .begin = release_begin,
    .answered = release_answered,
};

/* As an extend of what is there, whose answer has the server's clock besides. */
static void confirm_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    call->ops->put_confirm(call, to, eval);
}

static void confirm_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    const struct rdl__reply *seconds = rdl__reply_at(reply, 0), *more = rdl__reply_at(reply, 1);
    int64_t s, us;

    rdl__extend_decode(call, reply);
    call->hold.clock_us = 0;
    if (seconds != NULL && more != NULL && rdl__reply_integer(seconds, &s) && rdl__reply_integer(more, &us))
        call->hold.clock_us = s * 1000000 + us;
}

static void confirm_ended(struct rdl__call *call, int rc)
{
    struct rdl__cache *cache = rdl__call_name(call)->cache;

    rdl__mutex_lock(&cache->name->mu);
    rdl__cache_confirmed(cache, call->n, rc == RDL_OK ? call->hold.clock_us : 0, rdl__now());
    rdl__mutex_unlock(&cache->name->mu);
}

static const struct rdl__verb kept_confirm = {
    .on_record = true,
    .acked = true,
    .prolongs = true,
    .uncounted = true, /* no answer: the hold is given back, and nothing is unknown */
    .begin = rdl__extend_begin,
    .encode = confirm_encode,
    .decode = confirm_decode,
    .answered = rdl__extend_answered,
    .ended = confirm_ended,
};

/* ---- the hold --------------------------------------------------------------------------------------------------- */

int64_t rdl__cache_valid_ns(struct rdl__cache *cache, int64_t now)
{
    int64_t valid_ns;

    rdl__assert_locked(&cache->name->mu);
    if (rdl__watchdog_state(rdl__cache_watchdog(cache), &cache->kept_rec->hold, now, &valid_ns) == RDL_LOST)
        valid_ns = 0;
    cache->known_until = now + valid_ns;
    return valid_ns;
}

/* The kept hold has ended so: the user may be told, so not under the mutex under which it has.  @locks none */
static void count_end(const struct rdl__cache *cache, enum rdl__keep_end end)
{
    static const rdl_metric_t metrics[] = {
        [RDL__END_RECALLED] = RDL_M_KEPT_RECALLED, [RDL__END_OLD] = RDL_M_KEPT_EXPIRED,
        [RDL__END_UNHEARD] = RDL_M_KEPT_UNHEARD,   [RDL__END_SHORT] = RDL_M_KEPT_SHORT,
        [RDL__END_ROOM] = RDL_M_KEPT_EXPIRED,      [RDL__END_CLOSED] = RDL_M_KEPT_CLOSED,
        [RDL__END_EVICTED] = RDL_M_KEPT_EVICTED,   [RDL__END_LOST] = RDL_M_KEPT_LOST,
    };

    rdl__name_metric(cache->name, metrics[end], 1);
}

/* Does any owner hold the end that excludes others?  @locks the name's */
static bool writes_here(const struct rdl__cache *cache)
{
    struct rdl__name *name = cache->name;

    rdl__assert_locked(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records; l = l->next) {
        const struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (rec->ops->other_end != NULL && !rdl__news_shares(rec->ops->news) && rec->count > 0)
            return true;
    }
    return false;
}

/* The take has ended, on the loop. */
static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *why, void *arg)
{
    struct rdl__cache *cache = arg;
    struct rdl__name *name = cache->name;
    int64_t now = rdl__now(), suspected = 0;

    (void)why;
    rdl__mutex_lock(&name->mu);
    cache->keep.sound = cache->keep.sound && rdl__cache_at_home(cache);
    if (result == RDL_OK) {
        cache->kept_rec = rdl__record_find(name, cache->keeper, cache->ops);
        cache->kept_rec->renewed = true;
        rdl__record_ends(cache->kept_rec); /* nobody holds it yet */
        rdl__watchdog_keep(rdl__cache_watchdog(cache), &cache->kept_rec->hold);
        cache->token = cache->kept_rec->hold.id.token - 1;
        cache->last_token = cache->token + (name->settings.fencing == RDL_FENCING_TIME ? 1 : RDL__TOKENS_KEPT);
        cache->owner_died = cache->leaves = false;
        cache->wrote = cache->wrote && writes_here(cache);
        rdl__keep_granted(&cache->keep, cache->kept_rec->hold.id.n, now, cache->cache_ms);
        if (rdl__name_waited_for(name)) /* by owners of this process whom another hold has refused: they recall none */
            rdl__keep_want(&cache->keep, now);
        suspected = cache->keep.suspected == cache->keep.n ? cache->keep.n : 0;
        rdl__cache_first(cache, now);
    } else {
        rdl__keep_failed(&cache->keep);
        rdl__cache_fail(cache, (int)result);
        rdl__cache_anew(cache, now);
    }
    rdl__mutex_unlock(&name->mu);
    if (result == RDL_OK)
        rdl__name_metric(name, RDL_M_KEPT, 1);
    if (suspected != 0)
        rdl__watchdog_verify(rdl__cache_watchdog(cache), suspected);
    rdl__cache_arm(cache);
    rdl__cache_release(cache, lock); /* the last handle may be gone, and the task would find none */
}

/* For how long at most others sleep who are told of no release, if they poll as this client does.  @locks the name's */
static int64_t longest_poll_ns(const struct rdl__cache *cache)
{
    rdl_retry_t retry = rdl__settings_retry(&cache->name->settings);
    int64_t longest_ms = retry.kind == RDL_RETRY_FIXED ? retry.min_ms : retry.max_ms;

    rdl__assert_locked(&cache->name->mu);
    if (rdl__news_heard(cache->ops->news))
        return 0;
    return (longest_ms < RDL__HINT_MAX_MS ? longest_ms : RDL__HINT_MAX_MS) * RDL__MS;
}

/* The release has ended, on the loop. */
static void on_released(rdl_lock_t *lock, int64_t result, const rdl_err_t *why, void *arg)
{
    struct rdl__cache *cache = arg;
    struct rdl__name *name = cache->name;
    int64_t now = rdl__now(), wanted_ns = -1;
    enum rdl__keep_end end;

    (void)lock;
    (void)why;
    rdl__mutex_lock(&name->mu);
    cache->kept_rec = NULL;
    end = result == RDL_ELOST       ? RDL__END_LOST
          : result == RDL_ENOTOWNER ? RDL__END_EVICTED
                                    : (enum rdl__keep_end)cache->keep.end;
    if (cache->keep.wanted)
        wanted_ns = now - cache->keep.wanted_since;
    rdl__keep_given(&cache->keep, now, rdl__keep_pause(atomic_load(&rdl__name_shard(name)->node.round_trip)),
                    longest_poll_ns(cache));
    rdl__cache_anew(cache, now);
    if (cache->keep.closed || cache->leaves)
        rdl__cache_post(cache); /* to disengage */
    rdl__mutex_unlock(&name->mu);
    count_end(cache, end);
    if (wanted_ns >= 0)
        rdl__name_metric(name, RDL_M_RECALL_US, wanted_ns);
    rdl__cache_arm(cache);
}

/* The kept hold has ended elsewhere than on the loop, or otherwise than the loop waits for: is its name still in use?
 * @locks the name's */
static void post_if_engaged(struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    if (cache->engaged)
        rdl__cache_post(cache);
}

void rdl__cache_cannot(struct rdl__cache *cache)
{
    struct rdl__name *name = cache->name;
    struct rdl__record *kept;
    int64_t now = rdl__now();

    rdl__mutex_lock(&name->mu);
    kept = cache->keep.state == RDL__KEEP_GIVING ? rdl__record_find(name, cache->keeper, cache->ops) : NULL;
    if (kept == NULL) { /* the take did not begin, or the last handle's end has forgotten the hold */
        cache->kept_rec = NULL;
        rdl__keep_failed(&cache->keep);
        rdl__cache_anew(cache, now);
        rdl__mutex_unlock(&name->mu);
        return;
    }
    rdl__watchdog_forget(rdl__cache_watchdog(cache), &kept->hold); /* it ends with its lease */
    cache->kept_rec = NULL;
    kept->count = 0;
    rdl__keep_lost(&cache->keep, RDL__END_LOST);
    rdl__cache_anew(cache, now);
    post_if_engaged(cache); /* it may have found it in use, as the last handle was dropped */
    rdl__record_retire_and_unlock(kept);
    count_end(cache, RDL__END_LOST);
}

void rdl__cache_release(struct rdl__cache *cache, rdl_lock_t *lock)
{
    struct rdl__order order = {.verb = &kept_release,
                               .lock = lock,
                               .owner = cache->keeper,
                               .fn = (rdl__callback_fn *)on_released,
                               .arg = cache,
                               .direct = true,
                               .owed = true};
    bool due, owner_died;

    rdl__mutex_lock(&cache->name->mu);
    owner_died = cache->owner_died; /* its lease is the one that the owner had who ended inside */
    due = cache->keep.state == RDL__KEEP_GIVING && !cache->keep.begun;
    cache->keep.begun = cache->keep.begun || due;
    order.n = cache->keep.n;
    order.ops = cache->ops;
    rdl__mutex_unlock(&cache->name->mu);
    if (due && (owner_died || rdl__call_async(&order, NULL, NULL) < 0))
        rdl__cache_cannot(cache);
}

/* @thread loop  @locks none */
void rdl__cache_take(struct rdl__cache *cache, rdl_lock_t *lock)
{
    struct rdl__order order = {.verb = &kept_take,
                               .lock = lock,
                               .owner = cache->keeper,
                               .lease_ms = cache->lease_ms,
                               .fn = (rdl__callback_fn *)on_taken,
                               .arg = cache,
                               .direct = true};

    rdl__assert_on_loop(rdl__client_loop(cache->name->client));
    rdl__mutex_lock(&cache->name->mu);
    cache->keep.sound = cache->keep.heard && rdl__cache_at_home(cache);
    order.ops = cache->ops;
    order.wait_ms = cache->one_try ? 0 : RDL_WAIT_FOREVER;
    rdl__mutex_unlock(&cache->name->mu);
    if (rdl__call_async(&order, NULL, NULL) < 0)
        rdl__cache_cannot(cache);
    rdl__cache_end_unwanted(cache); /* its callers may have given up before there was a take to cancel */
}

/* @thread loop  @locks none */
void rdl__cache_confirm(struct rdl__cache *cache, rdl_lock_t *lock, int64_t n)
{
    struct rdl__order order = {.verb = &kept_confirm,
                               .lock = lock,
                               .owner = cache->keeper,
                               .lease_ms = cache->lease_ms,
                               .n = n,
                               .direct = true};

    rdl__assert_on_loop(rdl__client_loop(cache->name->client));
    rdl__mutex_lock(&cache->name->mu);
    order.ops = cache->ops;
    rdl__mutex_unlock(&cache->name->mu);
    if (lock != NULL && rdl__call_async(&order, NULL, NULL) == RDL_OK)
        return;
    rdl__mutex_lock(&cache->name->mu);
    rdl__cache_confirmed(cache, n, 0, rdl__now());
    rdl__mutex_unlock(&cache->name->mu);
}

/* ---- its loss --------------------------------------------------------------------------------------------------- */

/* Nobody is inside any more, and the kept hold has ended.  @locks the name's */
static void empty(struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    cache->kept_rec->count = 0;
    cache->kept_rec = NULL;
    cache->inside = 0;
    cache->ended_n = cache->local_n;
}

/* The kept hold is lost: so are the holds of the owners inside, and those who wait here ask for themselves. That it has
 * ended is the caller's to count.  @locks the name's */
static void lose(struct rdl__cache *cache, enum rdl__keep_end end, int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    empty(cache);
    rdl__keep_lost(&cache->keep, end);
    rdl__cache_anew(cache, now);
    post_if_engaged(cache); /* past `until` its timer is off */
}

/* The next owner behind `after` (NULL: the first) that is to be told the kept hold's new state, noted as told, with a
 * reference, and which hold it has; NULL: all are. Gives the reference to `after` back. If that has left the list, or
 * is idle and thus the first on it, all are looked through; no other is put before one that is yet to be told, as who
 * is idle is not inside. Who comes in meanwhile, maybe before it on the list, is told by itself.  @locks none */
static struct rdl__record *next_to_tell(struct rdl__cache *cache, rdl_hold_state_t state, struct rdl__record *after,
                                        struct rdl__hold_id *ret_id)
{
    struct rdl__name *name = cache->name;
    struct rdl__record *found = NULL;
    struct rdl__link *l;

    rdl__mutex_lock(&name->mu);
    l = after != NULL && rdl__link_on(&after->link) ? after->link.next : name->records.next;
    for (; l != &name->records && found == NULL; l = l->next) {
        struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (rec->inside && rdl__cache_has(cache, rec) == (state != RDL_LOST) && !(state != RDL_LOST && rec->risk_told))
            found = rec;
    }
    if (found != NULL) {
        atomic_fetch_add(&found->refs, 1);
        *ret_id = found->hold.id;
        found->risk_told = true;
    }
    if (found != NULL && state == RDL_LOST) {
        rdl__watchdog_forget(rdl__cache_watchdog(cache), &found->hold);
        found->hold.state = RDL_LOST;
        found->inside = false;
    }
    rdl__mutex_unlock(&name->mu);
    if (after != NULL)
        rdl__record_unref(after);
    return found;
}

/* Tell an owner what has become of its hold.  @locks none */
static void tell(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                 rdl_loss_reason_t reason)
{
    rdl__name_metric(rec->name, state == RDL_LOST ? RDL_M_LOST : RDL_M_AT_RISK, 1);
    rdl__record_tell(rec, id, state, reason);
}

static void kept_changed(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                         rdl_loss_reason_t reason, int64_t now)
{
    enum rdl__keep_end end = reason == RDL_LOSS_GONE ? RDL__END_EVICTED : RDL__END_LOST;
    struct rdl__cache *cache = of_record(rec);
    struct rdl__name *name = rec->name;
    struct rdl__record *who = NULL;
    struct rdl__hold_id local;
    bool present;

    if (state == RDL_LOST && reason == RDL_LOSS_LEASE)
        rdl__call_tidy(rec, id->n); /* the server's clock may still grant it (protocol.md, 3) */
    rdl__mutex_lock(&name->mu);
    present = cache->kept_rec == rec && cache->keep.state == RDL__KEEP_HELD && rec->hold.id.n == id->n;
    if (present) {
        cache->risk_told = state != RDL_LOST;
        if (state == RDL_LOST)
            lose(cache, end, now);
    }
    if (state == RDL_LOST)
        rdl__record_retire_and_unlock(rec);
    else
        rdl__mutex_unlock(&name->mu);
    if (present && state == RDL_LOST)
        count_end(cache, end);
    while (present && (who = next_to_tell(cache, state, who, &local)) != NULL)
        tell(who, &local, state, reason);
}

/* The lease of the owner inside has ended: the next one may come in. */
static void local_changed(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_loss_reason_t reason, int64_t now)
{
    struct rdl__cache *cache = of_record(rec);
    bool was_inside;

    rdl__mutex_lock(&rec->name->mu);
    /* it may be told so late that it was given back, and its owner let in again */
    was_inside = rdl__cache_has(cache, rec) && rec->hold.id.n == id->n;
    if (was_inside)
        rdl__cache_without(cache, rec, now);
    rdl__mutex_unlock(&rec->name->mu);
    if (was_inside) /* else it was lost with the kept hold, and that is told */
        tell(rec, id, RDL_LOST, reason);
}

void rdl__cache_changed(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                        rdl_loss_reason_t reason, int64_t now)
{
    if (rec->owner == of_record(rec)->keeper)
        kept_changed(rec, id, state, reason, now);
    else
        local_changed(rec, id, reason, now);
}

struct rdl__record *rdl__cache_leave_to_lease(struct rdl__cache *cache)
{
    struct rdl__record *kept = cache->kept_rec;
    struct rdl__name *name = cache->name;

    rdl__assert_locked(&name->mu);
    atomic_fetch_add(&kept->refs, 1);
    empty(cache);
    for (struct rdl__link *l = name->records.next; l != &name->records; l = l->next)
        rdl__container(l, struct rdl__record, link)->inside = false; /* nobody is told */
    rdl__keep_lost(&cache->keep, RDL__END_CLOSED);
    rdl__cache_anew(cache, rdl__now());
    return kept;
}

void rdl__cache_forget_kept(struct rdl__cache *cache, struct rdl__record *kept)
{
    rdl_client_t *client = cache->name->client;

    rdl__client_forget_hold(client, &kept->hold);
    if (rdl__client_debt_begins(client) == RDL_OK) { /* else the user was told that nothing is told any more */
        count_end(cache, RDL__END_CLOSED);
        rdl__client_call_ends(client);
    }
    rdl__record_unref(kept);
}

/* The client closes: nobody is told, and the holds are left to their leases. */
static void abandon_closing(struct rdl__record *rec, struct rdl__cache *cache)
{
    rdl_client_t *client = rec->name->client;
    struct rdl__record *kept = NULL;

    rdl__mutex_lock(&rec->name->mu);
    if (rdl__cache_has(cache, rec))
        kept = rdl__cache_leave_to_lease(cache);
    rdl__mutex_unlock(&rec->name->mu);
    rdl__client_forget_hold(client, &rec->hold);
    if (kept != NULL)
        rdl__cache_forget_kept(cache, kept);
}

/* An owner that shares the kept hold has ended inside: nobody else comes in, and the hold is left to its lease when
 * the last of them has left, and renewed until then. */
static void abandon_shared(struct rdl__record *rec, struct rdl__cache *cache)
{
    struct rdl__hold_id id;
    bool was_inside;

    rdl__mutex_lock(&rec->name->mu);
    id = rec->hold.id;
    was_inside = rec->inside;
    if (rdl__cache_has(cache, rec)) {
        cache->owner_died = true;
        cache->keep.sound = false;
        rdl__cache_end(cache, rec, rdl__now());
    }
    rec->inside = false;
    rdl__mutex_unlock(&rec->name->mu);
    if (was_inside)
        tell(rec, &id, RDL_LOST, RDL_LOSS_THREAD_EXIT);
}

void rdl__cache_abandon(struct rdl__record *rec, bool closing)
{
    struct rdl__cache *cache = of_record(rec);
    struct rdl__record *kept = NULL;

    if (closing) {
        abandon_closing(rec, cache);
        return;
    }
    if (rdl__news_shares(rec->ops->news)) {
        abandon_shared(rec, cache);
        return;
    }
    rdl__mutex_lock(&rec->name->mu);
    if (rdl__cache_has(cache, rec) && (kept = cache->kept_rec) != NULL)
        atomic_fetch_add(&kept->refs, 1);
    rdl__mutex_unlock(&rec->name->mu);
    if (kept == NULL)
        return;
    rdl__watchdog_orphan(rdl__cache_watchdog(cache), &kept->hold);
    rdl__record_unref(kept);
}
