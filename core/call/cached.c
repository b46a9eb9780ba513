/* SPDX-License-Identifier: MIT */
/* cached.c - the handle of a lock that is kept by its client (cache.h).
 *
 * An owner whose record has no verb in flight takes and gives back an idle kept lock in the call itself, without a call
 * object (take_here_and_unlock, release_here_and_unlock); all else is a verb of cache_verbs.c.
 */
#include "core/call/cached.h"
#include "core/call/cache.h"

#include "core/base/err.h"

static struct rdl__cache *of_name(const struct rdl__name *name)
{
    return name->cache;
}

/* ---- without a call ---------------------------------------------------------------------------------------------
 *
 * Under the name's mutex, and while the loop listens for recalls: a client that closes ends that first (recall.c,
 * on_close), with this mutex, so that its loop, its watchdog and its owners are there until it is unlocked. */

/* Whose call it is, if it may be decided here; else NULL.  @locks the name's */
static rdl_owner_t *whose(const struct rdl__order *order)
{
    const rdl_client_t *client = order->lock->name->client;

    rdl__assert_locked(&order->lock->name->mu);
    if (!of_name(order->lock->name)->engaged || rdl__loop_here(rdl__client_loop(client)))
        return NULL;
    return order->owner != NULL ? order->owner : rdl__owner_here(client);
}

/* The owner's record, made if need be, if no verb is in flight on it; NULL: the engine's way.  @locks the name's */
static struct rdl__record *quiet_record(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                                        bool makes)
{
    struct rdl__record *rec = rdl__record_find(name, owner, ops);

    rdl__assert_locked(&name->mu);
    if (rec == NULL && makes && rdl__record_make(name, owner, ops, &rec) < 0)
        return NULL;
    return rec == NULL || rec->active != NULL ? NULL : rec;
}

/* What is counted or told once the mutex is unlocked: closing waits for it. Cannot be refused: the loop is there.
 * @locks the name's */
static void telling_begins(const struct rdl__name *name)
{
    rdl__assert_locked(&name->mu);
    (void)rdl__client_debt_begins(name->client);
}

/* Count a take that was decided here as any is. */
static void count_here(const struct rdl__name *name, int rc)
{
    rdl__name_metric(name, RDL_M_ATTEMPTS, 1);
    if (rc == RDL_OK) {
        rdl__name_metric(name, RDL_M_LOCAL, 1);
        rdl__name_metric(name, RDL_M_ACQUIRED, 1);
        rdl__name_metric(name, RDL_M_WAIT_US, 0);
    }
    rdl__client_call_ends(name->client);
}

/* Take an idle kept lock, or a local hold again. False: it is the engine's.  @locks the name's */
static bool take_here_and_unlock(const struct rdl__order *order, rdl_owner_t *owner, int64_t now, int *ret_rc)
{
    struct rdl__name *name = order->lock->name;
    struct rdl__cache *cache = of_name(name);
    struct rdl__record *rec = NULL;
    bool open = order->lock->ops == cache->ops && (cache->inside == 0 || rdl__cache_is_shared(cache)), done = false;
    bool counted = name->client->sinks.metering != RDL__NOT_METERED;

    rdl__assert_locked(&name->mu);
    if (cache->keep.state == RDL__KEEP_HELD && (rec = quiet_record(name, owner, order->lock->ops, open)) != NULL &&
        (open || rdl__cache_is_local(rec))) {
        if (rdl__cache_is_local(rec))
            done = (*ret_rc = rdl__cache_take_again(cache, rec, order->lease_ms, now)) <= 0 && *ret_rc != RDL_EINVAL;
        else if (rec->count == 0 && rdl__list_empty(&cache->queue))
            done = rdl__cache_enter(cache, rec, order->lease_ms, order->wait_ms == 0 ? RDL__WAITS_NOT : RDL__WAITS_LONG,
                                    RDL__NEVER, now) == RDL__ENTRY_IN; /* for which it does not matter how long */
        if (done && name->idle == rec)
            name->idle = NULL;
    }
    if (done && counted)
        telling_begins(name);
    if (rec != NULL && !done)
        rdl__record_retire_and_unlock(rec);
    else
        rdl__mutex_unlock(&name->mu);
    if (done && counted)
        count_here(name, *ret_rc);
    return done;
}

/* rdl__cache_leave, but a thread that it lets in is only told: the caller wakes it by *ret_wakes when the mutex is
 * free, which that one wants first.  @locks the name's */
static int leave_unwoken(struct rdl__cache *cache, struct rdl__record *rec, int64_t now, bool *ret_unnoticed,
                         struct rdl__wakes *ret_wakes)
{
    int rc;

    rdl__assert_locked(&cache->name->mu);
    ret_wakes->n = 0;
    cache->wakes = ret_wakes;
    rc = rdl__cache_leave(cache, rec, now, ret_unnoticed);
    cache->wakes = NULL;
    return rc;
}

/* Take one count of a local hold back. False: it is the engine's.  @locks the name's */
static bool release_here_and_unlock(const struct rdl__order *order, rdl_owner_t *owner, int64_t now, int *ret_rc)
{
    struct rdl__name *name = order->lock->name;
    struct rdl__record *rec = quiet_record(name, owner, order->lock->ops, false);
    struct rdl__hold_id id;
    struct rdl__wakes wakes;
    bool unnoticed, outermost, tells;
    int64_t since;

    rdl__assert_locked(&name->mu);
    if (!rdl__cache_is_local(rec)) {
        rdl__mutex_unlock(&name->mu);
        return false;
    }
    id = rec->hold.id;
    since = rec->held_since;
    *ret_rc = leave_unwoken(of_name(name), rec, now, &unnoticed, &wakes);
    outermost = rec->count == 0;
    if ((tells = unnoticed || name->client->sinks.metering != RDL__NOT_METERED)) {
        telling_begins(name);
        atomic_fetch_add(&rec->refs, 1);
    }
    rdl__record_retire_and_unlock(rec);
    rdl__wakes_send(&wakes);
    if (tells) {
        rdl__cache_tell_left(rec, &id, outermost, unnoticed, *ret_rc, since, now);
        rdl__record_unref(rec);
        rdl__client_call_ends(name->client);
    }
    return true;
}

/* ---- the handle ------------------------------------------------------------------------------------------------- */

static int64_t say(const struct rdl__order *order, int rc, rdl_err_t *err)
{
    char text[96];

    if (rc >= RDL_OK || err == NULL)
        return rc;
    (void)rdl__printable(text, sizeof text, order->lock->name->bytes, order->lock->name->node.key_len);
    (void)rdl__err_set(err, rc, "lock %s: %s", text, rdl_strerror(rc));
    rdl__err_where(err, NULL, order->lock->name->bytes, order->lock->name->node.key_len);
    return rc;
}

/* The same order of another verb; NULL: of its own. */
static struct rdl__order as(const struct rdl__order *order, const struct rdl__verb *verb)
{
    struct rdl__order same = *order;

    if (verb != NULL)
        same.verb = verb;
    return same;
}

/* By a call of the engine. */
static __attribute__((noinline)) int64_t call_engine(const struct rdl__order *order, const struct rdl__verb *verb,
                                                     rdl_err_t *err)
{
    const struct rdl__order same = as(order, verb);

    return rdl__call(&same, err);
}

static int64_t cached_call(const struct rdl__order *order, rdl_err_t *err)
{
    struct rdl__name *name = order->lock->name;
    rdl_owner_t *owner;
    bool done = false;
    int rc = RDL_OK;

    if (!order->verb->acquires && !order->verb->releases)
        return call_engine(order, order->verb->kept, err);
    rdl__mutex_lock(&name->mu);
    if ((owner = whose(order)) == NULL)
        rdl__mutex_unlock(&name->mu);
    else if (order->verb->acquires)
        done = take_here_and_unlock(order, owner, rdl__now(), &rc);
    else
        done = release_here_and_unlock(order, owner, rdl__now(), &rc);
    return done ? say(order, rc, err) : call_engine(order, order->verb->kept, err);
}

static int cached_call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    const struct rdl__order same = as(order, order->verb->kept);

    return rdl__call_async(&same, ret_op, err);
}

static struct rdl__view view(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now)
{
    return rdl__cache_view(lock->name, owner, lock->ops, now);
}

/* The last handle: nothing is kept any more. Returns the record of a hold that cannot be released, or NULL: with
 * somebody inside, whose hold is left to its lease like any; or by a client that closes.  @locks the name's */
static struct rdl__record *last_drop(struct rdl__cache *cache, bool closing)
{
    enum rdl__keep_state state = cache->keep.state;

    rdl__assert_locked(&cache->name->mu);
    cache->keep.closed = true;
    if (!closing)
        rdl__cache_post(cache); /* to disengage */
    if ((state == RDL__KEEP_HELD && (closing || cache->inside > 0)) ||
        (state == RDL__KEEP_GIVING && closing && !cache->keep.begun))
        return rdl__cache_leave_to_lease(cache);
    if (state == RDL__KEEP_HELD)
        rdl__keep_give(&cache->keep, RDL__END_CLOSED);
    return NULL;
}

static void drop(rdl_lock_t *lock)
{
    struct rdl__name *name = lock->name;
    rdl_client_t *client = name->client;
    struct rdl__record *kept = NULL;
    struct rdl__cache *cache;
    bool closing = rdl__client_call_begins(client) < 0, last;

    rdl__line_dropped(name); /* as rdl__handle_drop */
    rdl__mutex_lock(&name->mu);
    lock->fn = NULL;
    rdl__list_remove(&lock->link); /* here, so that of two threads one has the last */
    cache = of_name(name);         /* NULL: there was no memory for it */
    if ((last = rdl__list_empty(&name->handles) && cache != NULL))
        kept = last_drop(cache, closing);
    rdl__mutex_unlock(&name->mu);
    if (kept != NULL)
        rdl__cache_forget_kept(cache, kept);
    if (last && !closing) {
        rdl__cache_release(cache, lock);
        (void)rdl_owner_cancel(cache->keeper);
    }
    if (!closing)
        rdl__client_call_ends(client); /* first: the handle may be the last that keeps it */
    rdl__handle_drop(lock);
}

const struct rdl__handle_ops rdl__cached_handle = {
    .cached = true,
    .client = rdl__single_client,
    .name = rdl__single_name,
    .drop = drop,
    .on_lost = rdl__single_on_lost,
    .knows = rdl__single_knows,
    .view = view,
    .tokenless = rdl__single_tokenless,
    .call = cached_call,
    .call_async = cached_call_async,
};
