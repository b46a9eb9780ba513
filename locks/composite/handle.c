/* SPDX-License-Identifier: MIT */
/* composite/handle.c - multi-locks and red locks as locks: the tables of their handles, and their constructors. */
#include "core/base/err.h"
#include "locks/args.h"
#include "locks/composite/verbs.h"

#include <assert.h>

/* ---- the table -------------------------------------------------------------------------------------------------- */

static rdl_client_t *composite_client(const rdl_lock_t *lock)
{
    return rdl__composite_of(lock)->home;
}

static const char *composite_name(const rdl_lock_t *lock, size_t *ret_len)
{
    *ret_len = rdl__composite_of(lock)->name_len;
    return rdl__composite_of(lock)->name;
}

static void composite_drop(rdl_lock_t *lock)
{
    struct rdl__composite *j = rdl__composite_of(lock);

    rdl__mutex_lock(&j->mu);
    lock->fn = NULL;
    rdl__composite_records_drop(j);
    rdl__composite_unlock(j);
    for (unsigned i = 0; i < j->member_count; i++)
        rdl__handle_drop(rdl__member_lock(j, i));
    rdl__composite_unref(j);
}

static int composite_on_lost(rdl_lock_t *lock, rdl_lost_fn fn, void *arg)
{
    struct rdl__composite *j = rdl__composite_of(lock);

    rdl__mutex_lock(&j->mu);
    lock->fn = fn;
    lock->arg = arg;
    rdl__composite_unlock(j);
    return RDL_OK;
}

/* Is it an owner of any member's client? */
static bool composite_knows(const rdl_lock_t *lock, const rdl_owner_t *owner)
{
    const struct rdl__composite *j = rdl__composite_of(lock);

    for (unsigned i = 0; i < j->member_count; i++)
        if (rdl__member_client(j, i) == owner->client)
            return true;
    return false;
}

static const struct rdl__composite_verb *const verbs[] = {
    &rdl__composite_take,  &rdl__composite_release,   &rdl__composite_extend,
    &rdl__composite_force, &rdl__composite_is_locked, &rdl__composite_remaining,
};

static const struct rdl__composite_verb *verb_of(const struct rdl__order *order)
{
    size_t i = 0;

    while (verbs[i]->member != order->verb) {
        i++;
        assert(i < sizeof verbs / sizeof *verbs);
    }
    return verbs[i];
}

static int64_t composite_call(const struct rdl__order *order, rdl_err_t *err)
{
    return rdl__composite_call(order, verb_of(order), err);
}

static int composite_call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    return rdl__composite_call_async(order, verb_of(order), ret_op, err);
}

static const struct rdl__handle_ops composite_handle = {
    .has_members = true,
    .client = composite_client,
    .name = composite_name,
    .drop = composite_drop,
    .call = composite_call,
    .call_async = composite_call_async,
    .on_lost = composite_on_lost,
    .knows = composite_knows,
    .view = rdl__composite_view,
    .tokenless = rdl__composite_tokenless,
};

static const struct rdl__composite_kind multi_kind = {
    .type = {.handle = &composite_handle,
             .name = "multi",
             .retry = {.kind = RDL_RETRY_RANDOM, .min_ms = 250, .max_ms = 500}},
    .plan = &rdl__multi_ops,
    .member_lost = rdl__composite_member_lost,
    .call_size = rdl__composite_call_size,
};

static const struct rdl__composite_kind red_kind = {
    .type = {.handle = &composite_handle,
             .name = "red",
             .retry = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 25, .max_ms = 400}},
    .plan = &rdl__red_ops,
    .member_lost = rdl__composite_member_lost,
    .call_size = rdl__composite_call_size,
};

/* ---- constructors ----------------------------------------------------------------------------------------------- */

/* Check a composite's options, and fill in the defaults. */
static int resolve(const struct rdl__composite_kind *kind, const rdl_client_t *client, const rdl_lock_options_t *o,
                   struct rdl__composite_options *ret, rdl_err_t *err)
{
    if (o->fencing != RDL_FENCING_DEFAULT || o->name_len != 0 || o->nonreentrant || o->waiter_life_ms != 0 ||
        o->peer_watchdog_ms != 0 || o->prefer_writers || o->cache_ms != 0 || o->replicas != 0 ||
        o->replicas_timeout_ms != 0 || o->replicas_if_able || o->release != RDL_RELEASE_DEFAULT)
        return rdl__err_set(err, RDL_EINVAL, "lock options of single locks belong to the members of a %s lock",
                            kind->type.name);
    if (!kind->plan->majority && (o->node_timeout_ms != 0 || o->min_uptime_ms != 0))
        return rdl__err_set(err, RDL_EINVAL, "lock options node_timeout_ms and min_uptime_ms are for red locks");
    if (o->node_timeout_ms < 0 || o->node_timeout_ms > 3600000)
        return rdl__err_set(err, RDL_EINVAL,
                            "lock option node_timeout_ms is %lld: it must lie in 1 to 3600000, or be 0",
                            (long long)o->node_timeout_ms);
    if (o->min_uptime_ms < RDL_UPTIME_ANY || o->min_uptime_ms > RDL_LEASE_MAX_MS)
        return rdl__err_set(err, RDL_EINVAL,
                            "lock option min_uptime_ms is %lld: it must lie in 1 to 2^40, or be 0 or"
                            " RDL_UPTIME_ANY",
                            (long long)o->min_uptime_ms);
    if (o->retry.kind == RDL_RETRY_NONE)
        return rdl__err_set(err, RDL_EINVAL, "lock option retry is RDL_RETRY_NONE: a %s lock has to back off",
                            kind->type.name);
    ret->retry = o->retry;
    ret->member_timeout_ms = o->node_timeout_ms == 0 ? 50 : o->node_timeout_ms;
    ret->min_uptime_ms = o->min_uptime_ms == 0 ? client->watchdog_lease_ms : o->min_uptime_ms;
    return RDL_OK;
}

static int make(const struct rdl__composite_kind *kind, rdl_lock_t *const *members, size_t n,
                const rdl_lock_options_t *given, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    struct rdl__composite_options options;
    rdl_lock_options_t o;
    int rc;

    if (members == NULL || ret_lock == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", members == NULL ? "members" : "ret_lock");
    if (n < 1 || n > RDL__COMPOSITE_MAX)
        return rdl__err_set(err, RDL_EINVAL, "a %s lock of %zu: it must have 1 to %d members", kind->type.name, n,
                            RDL__COMPOSITE_MAX);
    for (size_t i = 0; i < n; i++)
        if ((rc = rdl__check_handle("lock", members[i], err)) < 0)
            return rc;
    if ((rc = rdl__check_options(given, &o, err)) < 0 ||
        (rc = resolve(kind, rdl__lock_client(members[0]), &o, &options, err)) < 0 ||
        (rc = rdl__resolve_retry(&kind->type.retry, &options.retry, err)) < 0)
        return rc;
    return rdl__composite_make(kind, members, n, &options, ret_lock, err);
}

int rdl_multi_lock(rdl_lock_t *const *members, size_t n, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                   rdl_err_t *err)
{
    return make(&multi_kind, members, n, options, ret_lock, err);
}

int rdl_red_lock(rdl_lock_t *const *members, size_t n, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                 rdl_err_t *err)
{
    return make(&red_kind, members, n, options, ret_lock, err);
}
