/* SPDX-License-Identifier: MIT */
/* cache.c - owners of the process and a kept lock: who is let in, passed on to, or waits here (cache.h).
 *
 * All of it is decided under the name's mutex. Whoever lets in a call that waits sets its record, and then wakes it.
 *
 * A local hold is valid while its owner is inside (rdl__cache_has) and the kept hold is, and no longer than its own
 * lease. An owner that has lost it is not inside any more, so its late unlock ends nobody else's.
 */
#include "core/call/cache.h"
#include "core/call/cached.h"
#include "core/call/inner.h"

#define CACHED_FREELY 1024 /* while a client listens for fewer names it does for each, from its first take on */

static struct rdl__cache *of_name(const struct rdl__name *name)
{
    return name->cache;
}

enum rdl__keep_wait rdl__cache_wait_of(const struct rdl__call *call)
{
    return call->one_try                                ? RDL__WAITS_NOT
           : rdl__call_answer_by(call) > call->deadline ? RDL__WAITS_BRIEFLY
                                                        : RDL__WAITS_LONG;
}

/* ---- who waits here --------------------------------------------------------------------------------------------- */

static struct rdl__call *first_of(const struct rdl__link *list)
{
    struct rdl__link *l = rdl__list_first(list);

    return l == NULL ? NULL : rdl__container(l, struct rdl__call, waiter.link);
}

void rdl__cache_queue(struct rdl__cache *cache, struct rdl__call *call)
{
    struct rdl__link *list = call->ops == cache->ops ? &cache->queue : &cache->others;

    rdl__assert_locked(&cache->name->mu);
    if (list == &cache->queue && rdl__list_empty(list) && rdl__keep_awaited_until(&cache->keep) != 0)
        rdl__cache_post(cache); /* for the timer */
    call->hold.local = RDL__LOCAL_QUEUED;
    call->take.contended = cache->keep.state != RDL__KEEP_GIVING || cache->keep.wanted;
    rdl__list_init(&call->waiter.link);
    rdl__list_push_back(list, &call->waiter.link);
    rdl__name_waits(cache->name, 1);
}

void rdl__cache_unqueue(struct rdl__cache *cache, struct rdl__call *call)
{
    rdl__assert_locked(&cache->name->mu);
    rdl__list_remove(&call->waiter.link);
    rdl__name_waits(cache->name, -1);
}

/* Its waiting is over, and it runs: its caller's thread, or the loop. It is told under the mutex, as the call may end,
 * and its memory go, as soon as it knows.  @locks the name's */
static void wake(struct rdl__cache *cache, struct rdl__call *call, enum rdl__local how)
{
    rdl__assert_locked(&cache->name->mu);
    rdl__cache_unqueue(cache, call);
    call->hold.local = (unsigned char)how;
    if (rdl__call_phase(call) == RDL__BY_CALLER) {
        if (cache->wakes != NULL)
            rdl__parker_post_with(&call->req.park, RDL__POST_KEPT, cache->wakes);
        else
            rdl__parker_post(&call->req.park, RDL__POST_KEPT);
        return;
    }
    call->next = RDL__NEXT_WAITED;
    rdl__loop_post(rdl__client_loop(rdl__call_client(call)), &call->task);
}

/* Whoever waits on that list for this owner asks the server: it would wait here for itself.  @locks the name's */
static void ask_all_of(struct rdl__cache *cache, struct rdl__link *list, const rdl_owner_t *owner)
{
    struct rdl__link *next;

    rdl__assert_locked(&cache->name->mu);
    for (struct rdl__link *l = list->next; l != list; l = next) {
        struct rdl__call *call = rdl__container(l, struct rdl__call, waiter.link);

        next = l->next;
        if (call->op.owner == owner)
            wake(cache, call, RDL__LOCAL_ASKS);
    }
}

void rdl__cache_asked(struct rdl__cache *cache, const rdl_owner_t *owner, const struct rdl__lock_ops *ops)
{
    rdl__assert_locked(&cache->name->mu);
    cache->wrote = cache->wrote || !rdl__news_shares(ops->news);
    ask_all_of(cache, ops != cache->ops ? &cache->queue : &cache->others, owner);
}

/* ---- a local hold ----------------------------------------------------------------------------------------------- */

/* An explicit lease for which too little might be left of the kept hold: it is asked for at the server. */
static bool is_long(const struct rdl__cache *cache, int64_t lease_ms)
{
    return lease_ms != RDL_LEASE_AUTO && lease_ms > cache->lease_ms / 2;
}

bool rdl__cache_fits(struct rdl__cache *cache, int64_t lease_ms, int64_t now)
{
    int64_t wants = lease_ms == RDL_LEASE_AUTO ? cache->lease_ms * RDL__MS / 2 : rdl__after_ms(0, lease_ms);

    rdl__assert_locked(&cache->name->mu);
    if (lease_ms == RDL_LEASE_AUTO && cache->known_until - now >= wants)
        return true;
    return rdl__cache_valid_ns(cache, now) >= wants;
}

/* The next token; false: there are no more. 0 where holds have none.  @locks the name's */
static bool next_token(struct rdl__cache *cache, int64_t *ret_token)
{
    rdl__assert_locked(&cache->name->mu);
    *ret_token = 0;
    if (cache->name->settings.fencing == RDL_FENCING_NONE)
        return true;
    if (cache->token == cache->last_token)
        return false;
    *ret_token = ++cache->token;
    return true;
}

/* A number for a local hold, never used before in this client.  @locks the name's */
static int64_t next_number(struct rdl__cache *cache)
{
    rdl__assert_locked(&cache->name->mu);
    if (cache->local_n % RDL__LOCAL_BLOCK == 0)
        cache->local_n =
            RDL__LOCAL_NUMBERS - (rdl__client_number(cache->name->client) - RDL__NUMBERS_FROM) * RDL__LOCAL_BLOCK;
    return --cache->local_n;
}

/* Let the owner in. False: what is left of the kept hold is too short.  @locks the name's */
static bool let_in(struct rdl__cache *cache, struct rdl__record *rec, int64_t lease_ms, int64_t now)
{
    bool renewed = lease_ms == RDL_LEASE_AUTO;
    int64_t token;

    rdl__assert_locked(&cache->name->mu);
    if (!rdl__cache_fits(cache, lease_ms, now) || !next_token(cache, &token))
        return false;
    if (cache->risk_told)
        rdl__watchdog_tell_anew(rdl__cache_watchdog(cache), &cache->kept_rec->hold);
    cache->risk_told = false;
    rec->hold.id = (struct rdl__hold_id){.n = next_number(cache), .token = token};
    rec->hold.state = RDL_HELD;
    rec->hold.deadline = cache->known_until;
    rec->held_since = now;
    rdl__record_set_ends_by(rec, 0);
    rec->may_come = false;
    rec->renewed = renewed;
    rec->count = 1;
    rdl__record_begins(rec);
    if (!renewed)
        rdl__watchdog_add(rdl__cache_watchdog(cache), &rec->hold, now, lease_ms, false);
    rec->inside = true;
    rec->risk_told = false;
    cache->inside++;
    cache->wrote = cache->wrote || !rdl__cache_is_shared(cache);
    ask_all_of(cache, &cache->others, rec->owner);
    return true;
}

/* The state of an owner's local hold, and how long it is valid.  @locks the name's */
static rdl_hold_state_t state_of(struct rdl__cache *cache, struct rdl__record *rec, int64_t now, int64_t *ret_valid_ns)
{
    rdl_hold_state_t state = RDL_LOST;
    int64_t own;

    rdl__assert_locked(&cache->name->mu);
    *ret_valid_ns = 0;
    if (!rdl__cache_has(cache, rec))
        return RDL_LOST;
    state = rdl__watchdog_state(rdl__cache_watchdog(cache), &cache->kept_rec->hold, now, ret_valid_ns);
    if (rec->renewed || state == RDL_LOST)
        return state;
    if (rdl__watchdog_state(rdl__cache_watchdog(cache), &rec->hold, now, &own) == RDL_LOST)
        state = RDL_LOST;
    if (own < *ret_valid_ns)
        *ret_valid_ns = own;
    return state;
}

int64_t rdl__cache_valid_for(struct rdl__record *rec, int64_t now)
{
    int64_t valid_ns;

    rdl__assert_locked(&rec->name->mu);
    (void)state_of(of_name(rec->name), rec, now, &valid_ns);
    return valid_ns;
}

int64_t rdl__cache_beside(struct rdl__record *rec)
{
    struct rdl__cache *cache = of_name(rec->name);

    rdl__assert_locked(&rec->name->mu);
    if (!rdl__cache_has(cache, rec))
        return rec->hold.id.n;
    cache->keep.stretched = cache->keep.stretched || !rdl__cache_is_shared(cache);
    return cache->keep.n;
}

/* Is it lost? The watchdog is not asked where that is known.  @locks the name's */
bool rdl__cache_is_lost(struct rdl__cache *cache, struct rdl__record *rec, int64_t now)
{
    int64_t valid_ns;

    rdl__assert_locked(&cache->name->mu);
    if (rdl__cache_has(cache, rec) && rec->renewed && now < cache->known_until)
        return false;
    return state_of(cache, rec, now, &valid_ns) == RDL_LOST;
}

/* ---- who is next ------------------------------------------------------------------------------------------------ */

/* @locks the name's */
static void wake_in(struct rdl__cache *cache, struct rdl__call *call)
{
    rdl__assert_locked(&cache->name->mu);
    call->n = call->rec->hold.id.n;
    wake(cache, call, RDL__LOCAL_IN);
}

/* Of those who wait, the first whose owner is still there.  @locks the name's */
static struct rdl__call *first_living(struct rdl__cache *cache)
{
    struct rdl__call *call;

    rdl__assert_locked(&cache->name->mu);
    while ((call = first_of(&cache->queue)) != NULL && call->rec->orphaned) {
        call->answer = RDL_ELOST;
        wake(cache, call, RDL__LOCAL_FAILED);
    }
    return call;
}

/* @locks the name's */
static void give_back(struct rdl__cache *cache, enum rdl__keep_end end)
{
    rdl__assert_locked(&cache->name->mu);
    rdl__keep_give(&cache->keep, cache->keep.wanted ? RDL__END_RECALLED : end);
    rdl__cache_post(cache);
}

/* An owner was not let in: if that is because the hold's tokens are used up for now, have the server asked whether it
 * has the hold, by which there are more. False: it is not; or it is a hold that may have been gone and come again
 * (rec->may_come), as somebody may have had higher ones meanwhile.  @locks the name's */
static bool ask_for_tokens(struct rdl__cache *cache, int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    if (cache->name->settings.fencing != RDL_FENCING_TIME || cache->token != cache->last_token ||
        !rdl__keep_is_open(&cache->keep, now) || cache->kept_rec->may_come)
        return false;
    cache->keep.local--; /* which was to be let in */
    if (cache->confirms == RDL__CONFIRM_NONE) {
        cache->confirms = RDL__CONFIRM_WANTED;
        rdl__cache_post(cache);
    }
    return true;
}

void rdl__cache_confirmed(struct rdl__cache *cache, int64_t n, int64_t clock_us, int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    cache->confirms = RDL__CONFIRM_NONE;
    if (cache->keep.state != RDL__KEEP_HELD || cache->keep.n != n)
        return;
    if (clock_us - 1 > cache->last_token)
        cache->last_token = clock_us - 1;
    if (cache->inside == 0 && cache->token == cache->last_token)
        give_back(cache, RDL__END_SHORT);
    else if (cache->inside == 0)
        rdl__cache_next(cache, now);
}

void rdl__cache_next(struct rdl__cache *cache, int64_t now)
{
    struct rdl__call *call = first_living(cache);

    rdl__assert_locked(&cache->name->mu);
    switch (rdl__keep_emptied(&cache->keep, call != NULL, now)) {
    case RDL__EMPTY_PASS:
        if (call != NULL && let_in(cache, call->rec, call->op.lease_ms, now))
            wake_in(cache, call);
        else if (!ask_for_tokens(cache, now))
            give_back(cache, RDL__END_SHORT);
        break;
    case RDL__EMPTY_GIVE:
        rdl__cache_post(cache);
        break;
    case RDL__EMPTY_IDLE:
        break;
    }
}

/* All of them.  @locks the name's */
static void let_in_together(struct rdl__cache *cache, int64_t now)
{
    struct rdl__call *call;

    rdl__assert_locked(&cache->name->mu);
    while ((call = first_living(cache)) != NULL) {
        cache->keep.local += cache->inside > 0;
        if (let_in(cache, call->rec, call->op.lease_ms, now))
            wake_in(cache, call);
        else
            wake(cache, call, RDL__LOCAL_ASKS);
    }
    if (cache->inside == 0)
        rdl__cache_next(cache, now);
}

void rdl__cache_first(struct rdl__cache *cache, int64_t now)
{
    struct rdl__call *call = first_living(cache);

    rdl__assert_locked(&cache->name->mu);
    (void)rdl__cache_valid_ns(cache, now);
    if (rdl__cache_is_shared(cache))
        let_in_together(cache, now);
    else if (call == NULL)
        rdl__cache_next(cache, now);
    else if (let_in(cache, call->rec, call->op.lease_ms, now))
        wake_in(cache, call);
    else
        give_back(cache, RDL__END_SHORT);
}

/* What was kept is given back: calls that wait briefly, or not, ask, all but the one that the lock is taken for. @locks
 * the name's */
static void brief_ones_ask(struct rdl__cache *cache)
{
    struct rdl__link *next, *l = cache->queue.next;

    rdl__assert_locked(&cache->name->mu);
    if (cache->keep.state == RDL__KEEP_TAKING && l != &cache->queue)
        l = l->next;
    for (; l != &cache->queue; l = next) {
        struct rdl__call *call = rdl__container(l, struct rdl__call, waiter.link);

        next = l->next;
        if (rdl__cache_wait_of(call) != RDL__WAITS_LONG)
            wake(cache, call, RDL__LOCAL_ASKS);
    }
}

/* One that asks the server first goes that way with all those before it; with the first that is to be kept for, the
 * others wait on.  @locks the name's */
void rdl__cache_anew(struct rdl__cache *cache, int64_t now)
{
    struct rdl__call *call;

    rdl__assert_locked(&cache->name->mu);
    while ((call = first_of(&cache->others)) != NULL)
        wake(cache, call, RDL__LOCAL_ASKS);
    while (cache->keep.state == RDL__KEEP_NONE && (call = first_of(&cache->queue)) != NULL) {
        if (!is_long(cache, call->op.lease_ms) &&
            rdl__keep_enter(&cache->keep, false, RDL__WAITS_LONG, now) == RDL__ENTRY_TAKE) { /* or ASK, however long */
            cache->one_try = call->one_try;
            rdl__cache_post(cache);
        } else {
            wake(cache, call, RDL__LOCAL_ASKS);
        }
    }
    brief_ones_ask(cache);
}

void rdl__cache_all_ask(struct rdl__cache *cache)
{
    struct rdl__call *call;

    rdl__assert_locked(&cache->name->mu);
    while ((call = first_of(&cache->queue)) != NULL)
        wake(cache, call, RDL__LOCAL_ASKS);
}

void rdl__cache_end_unwanted(struct rdl__cache *cache)
{
    bool unwanted;

    rdl__mutex_lock(&cache->name->mu);
    unwanted = cache->keep.state == RDL__KEEP_TAKING && rdl__list_empty(&cache->queue);
    rdl__mutex_unlock(&cache->name->mu);
    if (unwanted)
        (void)rdl_owner_cancel(cache->keeper);
}

void rdl__cache_fail(struct rdl__cache *cache, int rc)
{
    struct rdl__link *next;

    rdl__assert_locked(&cache->name->mu);
    if (rc != RDL_ETIMEDOUT && rc != RDL_ECONN && rc != RDL_EUNKNOWN && rc != RDL_ECLOSED)
        return; /* the server's own words are to be heard */
    for (struct rdl__link *l = cache->queue.next; l != &cache->queue; l = next) {
        struct rdl__call *call = rdl__container(l, struct rdl__call, waiter.link);

        next = l->next;
        if (!call->one_try)
            continue;
        call->answer = rc;
        wake(cache, call, RDL__LOCAL_FAILED);
    }
}

/* ---- coming in and leaving -------------------------------------------------------------------------------------- */

/* Is it time to listen for recalls? Where many names are in use only of one that was wanted lately: one that is taken
 * once in a while would cost a subscription each time. The loop makes room for it, if need be.  @locks the name's */
static bool may_engage(const struct rdl__cache *cache, int64_t now)
{
    const rdl_client_t *client = cache->name->client;
    unsigned names, freely = client->cache_names < CACHED_FREELY ? client->cache_names : CACHED_FREELY;

    rdl__assert_locked(&cache->name->mu);
    if (cache->engaged || cache->keep.closed)
        return false;
    names = atomic_load_explicit(&client->cached_names, memory_order_relaxed);
    return names < freely || (cache->used_at != 0 && now < rdl__after_ms(cache->used_at, cache->cache_ms));
}

/* Does the owner have the other end? A reader is not looked for among all while nobody writes here.  @locks the
 * name's */
static bool has_other_end(const struct rdl__cache *cache, const struct rdl__record *rec)
{
    const struct rdl__record *other;

    rdl__assert_locked(&cache->name->mu);
    if (rec->ops->other_end == NULL || (rdl__news_shares(rec->ops->news) && !cache->wrote))
        return false;
    other = rdl__record_find(cache->name, rec->owner, rec->ops->other_end);
    return other != NULL && other->count > 0;
}

/* Does the owner take a hold of its own, as if nothing were kept? A long lease where there is nothing. Of a lock that
 * is shared also newcomers once the end of the present hold is in sight: they would put it off. While it is likely to
 * end soon they wait here (`awaits`), as many that ask keep the server from the release; but not for one slow reader.
 * @locks the name's */
static bool goes_by_itself(struct rdl__cache *cache, const struct rdl__record *rec, int64_t lease_ms, bool awaits,
                           int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    if (cache->keep.state == RDL__KEEP_NONE && is_long(cache, lease_ms))
        return true;
    if (cache->ops != rec->ops || !rdl__cache_is_shared(cache) || cache->inside == 0 || awaits)
        return false;
    return !rdl__keep_is_open(&cache->keep, now) || cache->risk_told || !rdl__cache_fits(cache, lease_ms, now);
}

/* Nothing is kept, and nobody waits here: from now on it is the other end that is, if one is. Each has its own reasons
 * to be kept.  @locks the name's */
static void turn_to(struct rdl__cache *cache, const struct rdl__lock_ops *ops)
{
    unsigned char doublings = cache->keep.doublings;
    unsigned takes = cache->keep.takes;

    rdl__assert_locked(&cache->name->mu);
    cache->ops = ops;
    cache->keep.shared = rdl__cache_is_shared(cache);
    cache->keep.doublings = cache->doublings;
    cache->keep.takes = cache->takes;
    cache->doublings = doublings;
    cache->takes = takes;
}

/* An owner wants the end that is not kept: it waits until what is kept is given back, as if recalled, and asks.  @locks
 * the name's */
static enum rdl__keep_entry enter_beside(struct rdl__cache *cache, bool one_try, int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    if (cache->keep.state != RDL__KEEP_HELD && cache->keep.state != RDL__KEEP_GIVING)
        return RDL__ENTRY_ASK;
    if (cache->keep.state == RDL__KEEP_HELD)
        rdl__keep_want(&cache->keep, now);
    if (cache->inside > 0)
        return one_try ? RDL__ENTRY_TAKEN : RDL__ENTRY_QUEUE;
    if (cache->keep.state == RDL__KEEP_HELD)
        rdl__cache_next(cache, now);
    return RDL__ENTRY_QUEUE;
}

enum rdl__keep_entry rdl__cache_enter(struct rdl__cache *cache, struct rdl__record *rec, int64_t lease_ms,
                                      enum rdl__keep_wait wait, int64_t until, int64_t now)
{
    int64_t ends_at = rdl__keep_awaited_until(&cache->keep);
    bool awaits = cache->inside > 0 && now < ends_at && wait == RDL__WAITS_LONG &&
                  rdl__after_ms(ends_at, RDL__PAUSE_MOST_MS) < until;
    bool free = rdl__list_empty(&cache->queue) && (cache->inside == 0 || (rdl__cache_is_shared(cache) && !awaits));
    bool engages = may_engage(cache, now);
    enum rdl__keep_entry entry;

    rdl__assert_locked(&cache->name->mu);
    if (cache->keep.state == RDL__KEEP_TAKING && rdl__name_waited_for(cache->name) && wait == RDL__WAITS_BRIEFLY)
        wait = RDL__WAITS_LONG; /* the take sleeps, and so would it, behind that: here it is let in with it */
    cache->used_at = now;
    cache->to_engage = cache->to_engage || engages;
    if (cache->ops != rec->ops && cache->keep.state == RDL__KEEP_NONE)
        turn_to(cache, rec->ops);
    if (has_other_end(cache, rec) || goes_by_itself(cache, rec, lease_ms, awaits, now))
        entry = RDL__ENTRY_ASK;
    else if (cache->ops != rec->ops)
        entry = enter_beside(cache, wait == RDL__WAITS_NOT, now);
    else
        entry = rdl__keep_enter(&cache->keep, free, wait, now);
    if (entry == RDL__ENTRY_TAKE)
        cache->one_try = wait == RDL__WAITS_NOT;
    if (entry == RDL__ENTRY_IN && !let_in(cache, rec, lease_ms, now)) {
        entry = cache->inside > 0 ? RDL__ENTRY_ASK : RDL__ENTRY_QUEUE; /* lost just now: those inside are told yet */
        if (cache->inside == 0 && !ask_for_tokens(cache, now))
            rdl__keep_give(&cache->keep, RDL__END_SHORT);
    }
    if (entry == RDL__ENTRY_TAKE || engages || (cache->keep.state == RDL__KEEP_GIVING && !cache->keep.begun))
        rdl__cache_post(cache);
    return entry;
}

/* One more count of a local hold, whose own lease grows by it. False: the kept hold has to be extended first.  @locks
 * the name's */
static bool nest(struct rdl__cache *cache, struct rdl__record *rec, int64_t lease_ms, int64_t now)
{
    struct rdl__watchdog *wd = rdl__cache_watchdog(cache);

    rdl__assert_locked(&cache->name->mu);
    if (lease_ms != RDL_LEASE_AUTO && !rdl__cache_fits(cache, lease_ms, now))
        return false;
    if (lease_ms == RDL_LEASE_AUTO && !rec->renewed) {
        rdl__watchdog_forget(wd, &rec->hold);
        rec->renewed = true;
    } else if (!rec->renewed) {
        (void)rdl__watchdog_raise(wd, &rec->hold, now, lease_ms, false);
    }
    rec->count++;
    return true;
}

int rdl__cache_take_again(struct rdl__cache *cache, struct rdl__record *rec, int64_t lease_ms, int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    if (rdl__cache_is_lost(cache, rec, now))
        return RDL_ELOST;
    if (!cache->name->settings.nests)
        return RDL_EDEADLK;
    if (rec->count >= INT32_MAX)
        return RDL_EINVAL;
    return nest(cache, rec, lease_ms, now) ? RDL_OK : 1;
}

/* A local hold ends: its outermost unlock, or a grant that nobody is told of. Its loss is the caller's to tell, if this
 * is how it is noticed.  @locks the name's */
void rdl__cache_end(struct rdl__cache *cache, struct rdl__record *rec, int64_t now)
{
    rdl__assert_locked(&cache->name->mu);
    if (!rec->renewed)
        rdl__watchdog_forget(rdl__cache_watchdog(cache), &rec->hold);
    rdl__cache_without(cache, rec, now);
}

void rdl__cache_without(struct rdl__cache *cache, struct rdl__record *rec, int64_t now)
{
    bool had = rdl__cache_has(cache, rec);

    rdl__assert_locked(&cache->name->mu);
    rec->inside = false;
    if (had && --cache->inside == 0)
        rdl__cache_next(cache, now);
}

int rdl__cache_leave(struct rdl__cache *cache, struct rdl__record *rec, int64_t now, bool *ret_unnoticed)
{
    bool lost = rdl__cache_is_lost(cache, rec, now);

    rdl__assert_locked(&cache->name->mu);
    *ret_unnoticed = lost && rec->inside;
    if (--rec->count == 0)
        rdl__record_ends(rec);
    if (rec->count == 0 || lost)
        rdl__cache_end(cache, rec, now);
    if (*ret_unnoticed)
        rec->hold.state = RDL_LOST; /* the watchdog knows it no more */
    return lost ? RDL_ELOST : RDL_OK;
}

void rdl__cache_tell_left(struct rdl__record *rec, const struct rdl__hold_id *id, bool outermost, bool unnoticed,
                          int rc, int64_t since, int64_t now)
{
    if (outermost)
        rdl__name_metric(rec->name, RDL_M_HOLD_US, now - since);
    if (outermost && rc == RDL_OK)
        rdl__name_metric(rec->name, RDL_M_RELEASED, 1);
    if (!unnoticed)
        return;
    rdl__name_metric(rec->name, RDL_M_LOST, 1);
    rdl__record_tell(rec, id, RDL_LOST, RDL_LOSS_LEASE);
}

struct rdl__view rdl__cache_view(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                                 int64_t now)
{
    struct rdl__view view = {.state = RDL_NOT_HELD};
    struct rdl__record *rec;

    rdl__mutex_lock(&name->mu);
    if (rdl__cache_is_local(rec = rdl__record_find(name, owner, ops))) {
        view.count = rec->count;
        view.token = rec->hold.id.token;
        view.n = rec->hold.id.n;
        view.state = state_of(of_name(name), rec, now, &view.valid_ns);
    }
    rdl__mutex_unlock(&name->mu);
    return view.count > 0 ? view : rdl__record_view(name, owner, ops, now);
}
