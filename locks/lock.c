/* SPDX-License-Identifier: MIT */
/* lock.c - the public functions of locks: checking arguments, making orders, and the queries that need no server. */
#include "core/base/err.h"
#include "core/call/call.h"
#include "core/call/record.h"
#include "locks/args.h"

#include <redlatch/redlatch.h>

#include <string.h>

/* ---- arguments -------------------------------------------------------------------------------------------------- */

int rdl__check_name(const char *thing, const char *name, size_t *len, rdl_err_t *err)
{
    if (*len == 0)
        *len = strnlen(name, RDL_NAME_MAX + 1);
    if (*len == 0)
        return rdl__err_set(err, RDL_EINVAL, "the %s's name is empty", thing);
    if (*len > RDL_NAME_MAX)
        return rdl__err_set(err, RDL_EINVAL, "the %s's name is longer than %zu bytes", thing, RDL_NAME_MAX);
    return RDL_OK;
}

int rdl__check_lease(int64_t lease_ms, rdl_err_t *err)
{
    if (lease_ms >= 1 && lease_ms <= RDL_LEASE_MAX_MS)
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "the lease is %lld ms: it must be 1 to 2^40, or RDL_LEASE_AUTO to acquire",
                        (long long)lease_ms);
}

int rdl__check_wait(int64_t wait_ms, rdl_err_t *err)
{
    if (wait_ms >= 0)
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "the wait is %lld ms: it must be 0 or more, or RDL_WAIT_FOREVER",
                        (long long)wait_ms);
}

static int check_acquire(int64_t wait_ms, int64_t lease_ms, rdl_err_t *err)
{
    int rc = rdl__check_wait(wait_ms, err);

    return rc < 0 || lease_ms == RDL_LEASE_AUTO ? rc : rdl__check_lease(lease_ms, err);
}

static void say_where(const rdl_lock_t *lock, rdl_err_t *err)
{
    size_t len;
    const char *name = rdl__lock_name(lock, &len);

    rdl__err_where(err, NULL, name, len);
}

int rdl__check_handle(const char *thing, const rdl_lock_t *lock, rdl_err_t *err)
{
    int rc;

    if (lock == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", thing);
    if ((rc = rdl__client_check(rdl__lock_client(lock), err)) < 0)
        say_where(lock, err);
    return rc;
}

static int check_handle(const rdl_lock_t *lock, rdl_err_t *err)
{
    return rdl__check_handle("lock", lock, err);
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

rdl_lock_t *rdl_lock_free(rdl_lock_t *lock)
{
    if (lock == NULL || rdl__client_forked(rdl__lock_client(lock)))
        return NULL;
    lock->ops->handle->drop(lock);
    return NULL;
}

const char *rdl_lock_name(const rdl_lock_t *lock, size_t *ret_len)
{
    size_t len;

    return lock == NULL ? NULL : rdl__lock_name(lock, ret_len != NULL ? ret_len : &len);
}

const char *rdl_lock_type(const rdl_lock_t *lock)
{
    return lock == NULL ? NULL : lock->ops->name;
}

/* ---- verbs that ask the server, blocking ------------------------------------------------------------------------ */

int rdl_try_lock(rdl_lock_t *lock, int64_t wait_ms, int64_t lease_ms, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_take, .lock = lock, .wait_ms = wait_ms, .lease_ms = lease_ms};
    int rc;

    if ((rc = check_handle(lock, err)) < 0 || (rc = check_acquire(wait_ms, lease_ms, err)) < 0)
        return rc;
    return (int)rdl__lock_call(&order, err);
}

int rdl_lock(rdl_lock_t *lock, int64_t lease_ms, rdl_err_t *err)
{
    return rdl_try_lock(lock, RDL_WAIT_FOREVER, lease_ms, err);
}

static int64_t call_plain(const struct rdl__verb *verb, rdl_lock_t *lock, rdl_err_t *err)
{
    struct rdl__order order = {.verb = verb, .lock = lock};
    int rc = check_handle(lock, err);

    return rc < 0 ? rc : rdl__lock_call(&order, err);
}

int rdl_unlock(rdl_lock_t *lock, rdl_err_t *err)
{
    return (int)call_plain(&rdl__verb_release, lock, err);
}

int rdl_force_unlock(rdl_lock_t *lock, rdl_err_t *err)
{
    return (int)call_plain(&rdl__verb_force, lock, err);
}

int rdl_evict(rdl_lock_t *lock, const char *owner, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_evict, .lock = lock, .seen = owner};
    int rc = check_handle(lock, err);

    if (rc < 0)
        return rc;
    if (owner == NULL || owner[0] == '\0')
        return rdl__err_set(err, RDL_EINVAL, "owner is %s", owner == NULL ? "NULL" : "empty");
    if (lock->ops->handle->has_members)
        return rdl__err_set(err, RDL_EINVAL, "a lock of several members has no owner of its own: evict from each");
    return (int)rdl__lock_call(&order, err);
}

int rdl_is_locked(rdl_lock_t *lock, rdl_err_t *err)
{
    return (int)call_plain(&rdl__verb_is_locked, lock, err);
}

int rdl_extend(rdl_lock_t *lock, int64_t lease_ms, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_extend, .lock = lock, .lease_ms = lease_ms};
    int rc;

    if ((rc = check_handle(lock, err)) < 0 || (rc = rdl__check_lease(lease_ms, err)) < 0)
        return rc;
    return (int)rdl__lock_call(&order, err);
}

/* ---- the present hold, by local judgement ----------------------------------------------------------------------- */

/* The present hold of `owner` (NULL: the calling thread's), by local judgement. */
static int present_hold(rdl_lock_t *lock, rdl_owner_t *owner, struct rdl__view *view, rdl_err_t *err)
{
    rdl_client_t *client;
    int rc;

    *view = (struct rdl__view){.state = RDL_NOT_HELD};
    if ((rc = check_handle(lock, err)) < 0)
        return rc;
    client = rdl__lock_client(lock);
    if ((rc = rdl__client_call_begins(client)) < 0)
        return rdl__err_set(err, rc, NULL);
    if (owner == NULL && (rc = rdl__owner_self(client, &owner)) < 0)
        (void)rdl__err_set(err, rc, NULL);
    else
        *view = lock->ops->handle->view(lock, owner, rdl__now());
    rdl__client_call_ends(client);
    return rc;
}

static int say(const rdl_lock_t *lock, int code, rdl_err_t *err)
{
    char text[96];
    size_t len;
    const char *name = rdl__lock_name(lock, &len);

    (void)rdl__printable(text, sizeof text, name, len);
    (void)rdl__err_set(err, code, "lock %s: %s", text, rdl_strerror(code));
    say_where(lock, err);
    return code;
}

int rdl_is_held(rdl_lock_t *lock, rdl_err_t *err)
{
    struct rdl__view view;
    int rc = present_hold(lock, NULL, &view, err);

    if (rc < 0)
        return rc;
    if (view.state == RDL_LOST)
        return say(lock, RDL_ELOST, err);
    return view.state != RDL_NOT_HELD;
}

int64_t rdl_hold_count(rdl_lock_t *lock, rdl_err_t *err)
{
    struct rdl__view view;
    int rc = present_hold(lock, NULL, &view, err);

    if (rc < 0)
        return rc;
    return view.state == RDL_LOST ? say(lock, RDL_ELOST, err) : view.count;
}

static int hold_state(rdl_owner_t *owner, rdl_lock_t *lock, rdl_err_t *err)
{
    struct rdl__view view;
    int rc = present_hold(lock, owner, &view, err);

    return rc < 0 ? rc : (int)view.state;
}

int rdl_hold_state(rdl_lock_t *lock, rdl_err_t *err)
{
    return hold_state(NULL, lock, err);
}

static int64_t token(rdl_owner_t *owner, rdl_lock_t *lock, rdl_err_t *err)
{
    const char *why_none;
    struct rdl__view view;
    int rc = present_hold(lock, owner, &view, err);

    if (rc < 0)
        return rc;
    if ((why_none = lock->ops->handle->tokenless(lock)) != NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s", why_none);
    if (view.state == RDL_NOT_HELD)
        return say(lock, RDL_ENOTOWNER, err);
    if (view.state == RDL_DEGRADED)
        return rdl__err_set(err, RDL_ECONN,
                            "the lock is held on this host alone: it has a token when the server is back");
    return view.state == RDL_LOST ? say(lock, RDL_ELOST, err) : view.token;
}

int64_t rdl_token(rdl_lock_t *lock, rdl_err_t *err)
{
    return token(NULL, lock, err);
}

int rdl__check_owner(const rdl_owner_t *owner, const rdl_lock_t *lock, rdl_err_t *err)
{
    if (owner == NULL)
        return rdl__err_set(err, RDL_EINVAL, "owner is NULL");
    if (lock == NULL || lock->ops->handle->knows(lock, owner))
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "owner and lock belong to different clients");
}

int rdl_owner_hold_state(rdl_owner_t *owner, rdl_lock_t *lock, rdl_err_t *err)
{
    int rc = rdl__check_owner(owner, lock, err);

    return rc < 0 ? rc : hold_state(owner, lock, err);
}

int64_t rdl_owner_token(rdl_owner_t *owner, rdl_lock_t *lock, rdl_err_t *err)
{
    int rc = rdl__check_owner(owner, lock, err);

    return rc < 0 ? rc : token(owner, lock, err);
}

int64_t rdl_remaining_ms(rdl_lock_t *lock, rdl_err_t *err)
{
    return call_plain(&rdl__verb_remaining, lock, err);
}

int rdl_on_lost(rdl_lock_t *lock, rdl_lost_fn fn, void *arg, rdl_err_t *err)
{
    int rc = check_handle(lock, err);

    if (rc < 0)
        return rc;
    rc = lock->ops->handle->on_lost(lock, fn, arg);
    return rc < 0 ? rdl__err_set(err, rc, NULL) : RDL_OK;
}

/* ---- verbs that ask the server, without waiting ----------------------------------------------------------------- */

int rdl__start(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    int rc = order->owner == NULL ? RDL_OK : rdl__check_owner(order->owner, order->lock, err);

    return rc < 0 ? rc : rdl__lock_call_async(order, ret_op, err);
}

static int start(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    int rc = check_handle(order->lock, err);

    return rc < 0 ? rc : rdl__start(order, ret_op, err);
}

int rdl_try_lock_async(rdl_lock_t *lock, rdl_owner_t *owner, int64_t wait_ms, int64_t lease_ms, rdl_done_fn fn,
                       void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_take,
                               .lock = lock,
                               .owner = owner,
                               .wait_ms = wait_ms,
                               .lease_ms = lease_ms,
                               .fn = (rdl__callback_fn *)fn,
                               .arg = arg};
    int rc = check_acquire(wait_ms, lease_ms, err);

    return rc < 0 ? rc : start(&order, ret_op, err);
}

int rdl_lock_async(rdl_lock_t *lock, rdl_owner_t *owner, int64_t lease_ms, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                   rdl_err_t *err)
{
    return rdl_try_lock_async(lock, owner, RDL_WAIT_FOREVER, lease_ms, fn, arg, ret_op, err);
}

int rdl_unlock_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {
        .verb = &rdl__verb_release, .lock = lock, .owner = owner, .fn = (rdl__callback_fn *)fn, .arg = arg};

    return start(&order, ret_op, err);
}

int rdl_force_unlock_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                           rdl_err_t *err)
{
    struct rdl__order order = {
        .verb = &rdl__verb_force, .lock = lock, .owner = owner, .fn = (rdl__callback_fn *)fn, .arg = arg};

    return start(&order, ret_op, err);
}

int rdl_extend_async(rdl_lock_t *lock, rdl_owner_t *owner, int64_t lease_ms, rdl_done_fn fn, void *arg,
                     rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_extend,
                               .lock = lock,
                               .owner = owner,
                               .lease_ms = lease_ms,
                               .fn = (rdl__callback_fn *)fn,
                               .arg = arg};
    int rc = rdl__check_lease(lease_ms, err);

    return rc < 0 ? rc : start(&order, ret_op, err);
}

int rdl_is_locked_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                        rdl_err_t *err)
{
    struct rdl__order order = {
        .verb = &rdl__verb_is_locked, .lock = lock, .owner = owner, .fn = (rdl__callback_fn *)fn, .arg = arg};

    return start(&order, ret_op, err);
}

int rdl_remaining_ms_async(rdl_lock_t *lock, rdl_owner_t *owner, rdl_done_fn fn, void *arg, rdl_op_t **ret_op,
                           rdl_err_t *err)
{
    struct rdl__order order = {
        .verb = &rdl__verb_remaining, .lock = lock, .owner = owner, .fn = (rdl__callback_fn *)fn, .arg = arg};

    return start(&order, ret_op, err);
}
