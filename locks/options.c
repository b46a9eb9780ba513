/* SPDX-License-Identifier: MIT */
/* options.c - making locks: the options that types have in common, and how a handle is made of them. */
#include "locks/args.h"
#include "locks/types.h"

#include "core/base/err.h"

int rdl__resolve_retry(const rdl_retry_t *usual, rdl_retry_t *retry, rdl_err_t *err)
{
    if (retry->kind == RDL_RETRY_DEFAULT) {
        if (retry->min_ms != 0 || retry->max_ms != 0)
            return rdl__err_set(err, RDL_EINVAL, "lock option retry has times but no kind");
        *retry = *usual;
        return RDL_OK;
    }
    if ((int)retry->kind < RDL_RETRY_NONE || retry->kind > RDL_RETRY_EXPONENTIAL)
        return rdl__err_set(err, RDL_EINVAL, "lock option retry.kind is %d", (int)retry->kind);
    if (retry->min_ms == 0)
        retry->min_ms = 25;
    if (retry->max_ms == 0)
        retry->max_ms = retry->min_ms > 1000 ? retry->min_ms : 1000;
    if (retry->min_ms < 1 || retry->max_ms < retry->min_ms || retry->max_ms > 3600000)
        return rdl__err_set(err, RDL_EINVAL, "lock option retry is %lld to %lld ms: it must lie in 1 to 3600000",
                            (long long)retry->min_ms, (long long)retry->max_ms);
    return RDL_OK;
}

int rdl__check_options(const rdl_lock_options_t *given, rdl_lock_options_t *o, rdl_err_t *err)
{
    *o = given != NULL ? *given : (rdl_lock_options_t)RDL_LOCK_OPTIONS_INIT;
    if (o->version != RDL_LOCK_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL, "lock options have version %u: initialise them with RDL_LOCK_OPTIONS_INIT",
                            (unsigned)o->version);
    return RDL_OK;
}

int rdl__options_fencing(const struct rdl__lock_ops *ops, bool counter, rdl_lock_options_t *o, rdl_err_t *err)
{
    if ((int)o->fencing < RDL_FENCING_DEFAULT || o->fencing > RDL_FENCING_COUNTER)
        return rdl__err_set(err, RDL_EINVAL, "lock option fencing is %d", (int)o->fencing);
    if (o->fencing == RDL_FENCING_DEFAULT)
        o->fencing = counter ? RDL_FENCING_COUNTER : RDL_FENCING_NONE;
    if (o->fencing == (counter ? RDL_FENCING_NONE : RDL_FENCING_COUNTER))
        return rdl__err_set(err, RDL_EINVAL, "lock option fencing: a %s lock has %s", ops->name,
                            counter ? "tokens always" : "no counter for tokens");
    return RDL_OK;
}

int rdl__options_life(rdl_lock_options_t *o, rdl_err_t *err)
{
    if (o->waiter_life_ms == 0)
        o->waiter_life_ms = 15000;
    if (o->waiter_life_ms < 100 || o->waiter_life_ms > 3600000)
        return rdl__err_set(err, RDL_EINVAL, "lock option waiter_life_ms is %lld: it must be 100 to 3600000",
                            (long long)o->waiter_life_ms);
    return RDL_OK;
}

int rdl__options_unqueued(const rdl_lock_options_t *o, rdl_err_t *err)
{
    if (o->nonreentrant)
        return rdl__err_set(err, RDL_EINVAL, "lock option nonreentrant is for fair locks");
    if (o->waiter_life_ms != 0)
        return rdl__err_set(
            err, RDL_EINVAL,
            "lock option waiter_life_ms is for fair locks, and with prefer_writers for read-write locks");
    return RDL_OK;
}

int rdl__options_one_end(const struct rdl__lock_ops *ops, const rdl_lock_options_t *o, rdl_err_t *err)
{
    if (!o->prefer_writers && o->peer_watchdog_ms == 0)
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "lock option %s is for read-write locks, not for a %s lock",
                        o->prefer_writers ? "prefer_writers" : "peer_watchdog_ms", ops->name);
}

int rdl__options_plain(const struct rdl__lock_ops *ops, rdl_lock_options_t *o, struct rdl__settings *settings,
                       rdl_err_t *err)
{
    int rc;

    (void)settings;
    if ((rc = rdl__options_fencing(ops, false, o, err)) < 0 || (rc = rdl__options_one_end(ops, o, err)) < 0)
        return rc;
    return rdl__options_unqueued(o, err);
}

/* Who wants replicas to confirm holds waits for answers. */
static int check_release(const rdl_lock_options_t *o, const struct rdl__acks *acks, rdl_err_t *err)
{
    if ((int)o->release < RDL_RELEASE_DEFAULT || o->release > RDL_RELEASE_UNCONFIRMED)
        return rdl__err_set(err, RDL_EINVAL, "lock option release is %d", (int)o->release);
    if (o->release == RDL_RELEASE_UNCONFIRMED && acks->replicas > 0)
        return rdl__err_set(err, RDL_EINVAL,
                            "lock option release: RDL_RELEASE_UNCONFIRMED does not go with the option replicas");
    return RDL_OK;
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

/* Fields of struct rdl__settings; the values are known to fit. */
#define HOUR_BITS 0x3fffff
#define SECOND_BITS 0x3ff
#define MINUTE_BITS 0xffff

/* What a lock waits for, and options that are for red locks only. */
static int check_single(const struct rdl__lock_ops *ops, const rdl_lock_options_t *o, rdl_err_t *err)
{
    if ((int)o->on_outage < RDL_OUTAGE_DEFAULT || o->on_outage > RDL_OUTAGE_LOCAL)
        return rdl__err_set(err, RDL_EINVAL, "lock option on_outage is %d", (int)o->on_outage);
    if (o->node_timeout_ms == 0 && o->min_uptime_ms == 0)
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "lock option %s is for red locks, not for a %s lock",
                        o->node_timeout_ms != 0 ? "node_timeout_ms" : "min_uptime_ms", ops->name);
}

/* Which locks a host may hold alone: those that one holds at a time, where the host's lock is all the order that there
 * is, and nobody wants replicas to have it. */
static int check_local(const rdl_client_t *client, const struct rdl__lock_ops *ops,
                       const struct rdl__settings *settings, rdl_err_t *err)
{
    const char *why = NULL;

    if (settings->on_outage != RDL_OUTAGE_LOCAL)
        return RDL_OK;
    if (ops->handle->cached)
        return rdl__err_set(err, RDL_EINVAL, "lock option cache_ms: a kept lock cannot be RDL_OUTAGE_LOCAL");
    if (!ops->alone)
        return rdl__err_set(err, RDL_EINVAL,
                            "option on_outage: a %s lock cannot be RDL_OUTAGE_LOCAL: say another in its own options",
                            ops->name);
    if (settings->replicas > 0)
        why = "a hold of one host alone has no replicas that confirm it";
    else if (settings->detaches)
        why = "the host's lock is given back behind the server's, so that is waited for: not RDL_RELEASE_UNCONFIRMED";
    else if (client->local_dir == RDL__HOSTLOCK_NONE)
        why = "the client option local_dir is missing";
    return why == NULL ? RDL_OK : rdl__err_set(err, RDL_EINVAL, "option on_outage is RDL_OUTAGE_LOCAL: %s", why);
}

#define CACHE_MOST_MS 60000

/* Is the lock to be kept by its client? Then its table is another. */
static int check_cache(const struct rdl__lock_ops **ops, const rdl_client_t *client, const rdl_lock_options_t *o,
                       rdl_err_t *err)
{
    if (o->cache_ms == 0)
        return RDL_OK;
    if (o->cache_ms < 0 || o->cache_ms > CACHE_MOST_MS)
        return rdl__err_set(err, RDL_EINVAL, "lock option cache_ms is %lld: it must be 0 to %d", (long long)o->cache_ms,
                            CACHE_MOST_MS);
    if ((*ops)->kept == NULL)
        return rdl__err_set(err, RDL_EINVAL, "lock option cache_ms is not for a %s lock", (*ops)->name);
    if (o->fencing == RDL_FENCING_TIME && (*ops)->kept->put_confirm == NULL)
        return rdl__err_set(err, RDL_EINVAL, "lock option cache_ms: a kept %s lock has no tokens", (*ops)->name);
    if (client->map != NULL)
        return rdl__err_set(err, RDL_EINVAL, "lock option cache_ms is not for clusters");
    if (o->release == RDL_RELEASE_UNCONFIRMED)
        return rdl__err_set(err, RDL_EINVAL,
                            "lock option cache_ms: the unlock of a kept lock waits for nothing without `release`");
    *ops = (*ops)->kept;
    return RDL_OK;
}

/* The handle, and for a lock that is kept what its name needs for that. */
static int make_handle(const struct rdl__lock_ops *ops, rdl_client_t *client, const char *name,
                       const rdl_lock_options_t *o, const struct rdl__settings *settings, rdl_lock_t **ret_lock,
                       rdl_err_t *err)
{
    rdl_lock_t *lock;
    int rc = rdl__handle_make(client, ops, name, o->name_len, settings, &lock, err);

    if (rc == RDL_OK && o->cache_ms != 0 && (rc = rdl__cache_make(lock, o->cache_ms)) < 0) {
        ops->handle->drop(lock);
        (void)rdl__err_set(err, rc,
                           rc == RDL_EINVAL ? "the name is in use in this client with another cache_ms" : NULL);
    }
    if (rc == RDL_OK)
        *ret_lock = lock;
    return rc;
}

int rdl__lock_make(const struct rdl__lock_ops *ops, rdl__options_fn *check, rdl_client_t *client, const char *name,
                   const rdl_lock_options_t *given, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    struct rdl__settings settings = {0};
    struct rdl__acks acks;
    rdl_lock_options_t o;
    int rc;

    if (client == NULL || name == NULL || ret_lock == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL",
                            client == NULL ? "client"
                            : name == NULL ? "name"
                                           : "ret_lock");
    if ((rc = rdl__client_check(client, err)) < 0 || (rc = rdl__check_options(given, &o, err)) < 0 ||
        (rc = check_single(ops, &o, err)) < 0 || (rc = rdl__resolve_retry(&ops->retry, &o.retry, err)) < 0 ||
        (rc = check(ops, &o, &settings, err)) < 0 || (rc = check_cache(&ops, client, &o, err)) < 0 ||
        (rc = rdl__acks_resolve(&client->acks, &o, &acks, err)) < 0 || (rc = check_release(&o, &acks, err)) < 0 ||
        (rc = acks.replicas > 0 ? rdl__client_wants_acks(client, err) : RDL_OK) < 0 ||
        (rc = rdl__check_name("lock", name, &o.name_len, err)) < 0)
        return rc;
    if (o.cache_ms != 0 && ops->other_end == NULL) /* with one end: another cache_ms is another setting */
        settings.own = (uint32_t)o.cache_ms & MINUTE_BITS;
    settings.retry = (uint32_t)o.retry.kind & 7;
    settings.retry_min_ms = (uint32_t)o.retry.min_ms & HOUR_BITS;
    settings.retry_max_ms = (uint32_t)o.retry.max_ms & HOUR_BITS;
    settings.life_ms = (uint32_t)o.waiter_life_ms & HOUR_BITS;
    settings.fencing = (uint32_t)o.fencing & 3;
    settings.nests = ops->nests && !o.nonreentrant;
    settings.replicas = acks.replicas;
    settings.replicas_timeout_ms = (uint32_t)acks.timeout_ms & SECOND_BITS;
    settings.replicas_if_able = acks.if_able;
    settings.on_outage = (uint32_t)(o.on_outage != RDL_OUTAGE_DEFAULT ? o.on_outage : client->on_outage) & 3;
    settings.detaches = o.release == RDL_RELEASE_UNCONFIRMED;
    if ((rc = check_local(client, ops, &settings, err)) < 0)
        return rc;
    return make_handle(ops, client, name, &o, &settings, ret_lock, err);
}
