/* SPDX-License-Identifier: MIT */
/* permit_semaphore.c - the semaphore whose permits have ids: its handle and its public functions (permit_verbs.h). */
#include "core/base/err.h"
#include "locks/args.h"
#include "locks/counted/permit_verbs.h"
#include "locks/types.h"

struct rdl_permit_semaphore_handle {
    rdl_lock_t handle; /* and nothing else: name.c makes it */
};

int rdl_permit_semaphore(rdl_client_t *client, const char *name, const rdl_semaphore_options_t *options,
                         rdl_permit_semaphore_t **ret_semaphore, rdl_err_t *err)
{
    rdl_lock_t *handle;
    int rc;

    if (ret_semaphore == NULL)
        return rdl__err_set(err, RDL_EINVAL, "ret_semaphore is NULL");
    if ((rc = rdl__semaphore_make(client, &rdl__permit_semaphore_ops, name, options, &handle, err)) == RDL_OK)
        *ret_semaphore = rdl__container(handle, rdl_permit_semaphore_t, handle);
    return rc;
}

rdl_permit_semaphore_t *rdl_permit_semaphore_free(rdl_permit_semaphore_t *semaphore)
{
    if (semaphore != NULL)
        (void)rdl_lock_free(&semaphore->handle);
    return NULL;
}

const char *rdl_permit_semaphore_name(const rdl_permit_semaphore_t *semaphore, size_t *ret_len)
{
    return semaphore == NULL ? NULL : rdl_lock_name(&semaphore->handle, ret_len);
}

static void call_back(const rdl_op_t *op, int64_t result, const rdl_err_t *err)
{
    ((rdl_permit_semaphore_fn)op->fn)(rdl__container(op->lock, rdl_permit_semaphore_t, handle), result, err, op->arg);
}

static rdl_lock_t *handle_of(rdl_permit_semaphore_t *semaphore)
{
    return semaphore == NULL ? NULL : &semaphore->handle;
}

static int check_take(const struct rdl__order *order, rdl_err_t *err)
{
    int rc = rdl__check_permits(order->amount, 1, RDL_PERMIT_IDS_MAX, err);

    if (rc < 0)
        return rc;
    if (order->list == NULL)
        return rdl__err_set(err, RDL_EINVAL, "ret_permits is NULL");
    return order->lease_ms == RDL_LEASE_NEVER ? RDL_OK : rdl__check_lease(order->lease_ms, err);
}

static int check_ids(const struct rdl__order *order, rdl_err_t *err)
{
    const rdl_permit_t *permits = order->list;
    int rc = rdl__check_permits(order->amount, 1, RDL_PERMIT_IDS_MAX, err);

    if (rc == RDL_OK && permits == NULL)
        rc = rdl__err_set(err, RDL_EINVAL, "permits is NULL");
    for (int64_t i = 0; rc == RDL_OK && i < order->amount; i++)
        if (!rdl__permit_is_id(&permits[i]))
            rc = rdl__err_set(err, RDL_EINVAL, "permit %lld is no id: 32 lower-case hex digits are wanted",
                              (long long)i);
    return rc;
}

static int check_one(const struct rdl__order *order, rdl_err_t *err)
{
    int rc = check_ids(order, err);

    return rc < 0 || order->verb == &rdl__permit_remaining ? rc : rdl__check_lease(order->lease_ms, err);
}

static int check_number(const struct rdl__order *order, rdl_err_t *err)
{
    return rdl__check_permits(order->amount, 0, RDL_PERMITS_MAX, err);
}

/* The call copies the list, and does not write to it. */
static rdl_permit_t *list_of(const rdl_permit_t *permits)
{
    return (rdl_permit_t *)(uintptr_t)permits;
}

/* One function for each order, for the blocking and the asynchronous verb. */
static struct rdl__order take_order(int64_t count, int64_t wait_ms, int64_t lease_ms, rdl_permit_t *ret_permits)
{
    return (struct rdl__order){
        .verb = &rdl__permit_take, .amount = count, .wait_ms = wait_ms, .lease_ms = lease_ms, .list = ret_permits};
}

static struct rdl__order release_order(int64_t count, const rdl_permit_t *permits)
{
    return (struct rdl__order){.verb = &rdl__permit_release, .amount = count, .list = list_of(permits)};
}

static struct rdl__order one_order(const struct rdl__verb *verb, const rdl_permit_t *permit, int64_t lease_ms)
{
    return (struct rdl__order){.verb = verb, .amount = 1, .lease_ms = lease_ms, .list = list_of(permit)};
}

static struct rdl__order number_order(const struct rdl__verb *verb, int64_t permits)
{
    return (struct rdl__order){.verb = verb, .amount = permits};
}

int rdl_permit_semaphore_try_acquire(rdl_permit_semaphore_t *semaphore, int64_t count, int64_t wait_ms,
                                     int64_t lease_ms, rdl_permit_t *ret_permits, rdl_err_t *err)
{
    struct rdl__order order = take_order(count, wait_ms, lease_ms, ret_permits);

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), check_take(&order, err), err);
}

int rdl_permit_semaphore_acquire(rdl_permit_semaphore_t *semaphore, int64_t count, int64_t lease_ms,
                                 rdl_permit_t *ret_permits, rdl_err_t *err)
{
    return rdl_permit_semaphore_try_acquire(semaphore, count, RDL_WAIT_FOREVER, lease_ms, ret_permits, err);
}

int rdl_permit_semaphore_release(rdl_permit_semaphore_t *semaphore, int64_t count, const rdl_permit_t *permits,
                                 rdl_err_t *err)
{
    struct rdl__order order = release_order(count, permits);

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), check_ids(&order, err), err);
}

int rdl_permit_semaphore_extend(rdl_permit_semaphore_t *semaphore, const rdl_permit_t *permit, int64_t lease_ms,
                                rdl_err_t *err)
{
    struct rdl__order order = one_order(&rdl__permit_extend, permit, lease_ms);

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), check_one(&order, err), err);
}

int64_t rdl_permit_semaphore_remaining_ms(rdl_permit_semaphore_t *semaphore, const rdl_permit_t *permit, rdl_err_t *err)
{
    struct rdl__order order = one_order(&rdl__permit_remaining, permit, 0);

    return rdl__semaphore_do(&order, handle_of(semaphore), check_one(&order, err), err);
}

int64_t rdl_permit_semaphore_available(rdl_permit_semaphore_t *semaphore, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__permit_available, 0);

    return rdl__semaphore_do(&order, handle_of(semaphore), RDL_OK, err);
}

int64_t rdl_permit_semaphore_acquired(rdl_permit_semaphore_t *semaphore, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__permit_acquired, 0);

    return rdl__semaphore_do(&order, handle_of(semaphore), RDL_OK, err);
}

int rdl_permit_semaphore_try_set_permits(rdl_permit_semaphore_t *semaphore, int64_t permits, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__verb_try_set_permits, permits);

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), check_number(&order, err), err);
}

int rdl_permit_semaphore_set_permits(rdl_permit_semaphore_t *semaphore, int64_t permits, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__permit_set, permits);

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), check_number(&order, err), err);
}

int rdl_permit_semaphore_add_permits(rdl_permit_semaphore_t *semaphore, int64_t permits, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__verb_add_permits, permits);

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), rdl__check_more(permits, err), err);
}

/* The further arguments of asynchronous verbs. */
struct later {
    rdl_owner_t *owner;
    rdl_permit_semaphore_fn fn;
    void *arg;
};

static int start(struct rdl__order *order, rdl_permit_semaphore_t *semaphore, const struct later *later, int rc,
                 rdl_op_t **ret_op, rdl_err_t *err)
{
    order->owner = later->owner;
    order->fn = (rdl__callback_fn *)later->fn;
    order->arg = later->arg;
    return rdl__semaphore_start(order, handle_of(semaphore), rc, ret_op, err);
}

int rdl_permit_semaphore_try_acquire_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t count,
                                           int64_t wait_ms, int64_t lease_ms, rdl_permit_t *ret_permits,
                                           rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = take_order(count, wait_ms, lease_ms, ret_permits);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, check_take(&order, err), ret_op, err);
}

int rdl_permit_semaphore_acquire_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t count,
                                       int64_t lease_ms, rdl_permit_t *ret_permits, rdl_permit_semaphore_fn fn,
                                       void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    return rdl_permit_semaphore_try_acquire_async(semaphore, owner, count, RDL_WAIT_FOREVER, lease_ms, ret_permits, fn,
                                                  arg, ret_op, err);
}

int rdl_permit_semaphore_release_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t count,
                                       const rdl_permit_t *permits, rdl_permit_semaphore_fn fn, void *arg,
                                       rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = release_order(count, permits);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, check_ids(&order, err), ret_op, err);
}

int rdl_permit_semaphore_extend_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, const rdl_permit_t *permit,
                                      int64_t lease_ms, rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op,
                                      rdl_err_t *err)
{
    struct rdl__order order = one_order(&rdl__permit_extend, permit, lease_ms);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, check_one(&order, err), ret_op, err);
}

int rdl_permit_semaphore_remaining_ms_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                            const rdl_permit_t *permit, rdl_permit_semaphore_fn fn, void *arg,
                                            rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = one_order(&rdl__permit_remaining, permit, 0);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, check_one(&order, err), ret_op, err);
}

int rdl_permit_semaphore_available_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                         rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__permit_available, 0);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, RDL_OK, ret_op, err);
}

int rdl_permit_semaphore_acquired_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner,
                                        rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__permit_acquired, 0);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, RDL_OK, ret_op, err);
}

int rdl_permit_semaphore_try_set_permits_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                               rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__verb_try_set_permits, permits);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, check_number(&order, err), ret_op, err);
}

int rdl_permit_semaphore_set_permits_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                           rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__permit_set, permits);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, check_number(&order, err), ret_op, err);
}

int rdl_permit_semaphore_add_permits_async(rdl_permit_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                           rdl_permit_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = number_order(&rdl__verb_add_permits, permits);

    return start(&order, semaphore, &(struct later){owner, fn, arg}, rdl__check_more(permits, err), ret_op, err);
}

const struct rdl__lock_ops rdl__permit_semaphore_ops = {
    .handle = &rdl__single_handle,
    .name = "permit semaphore",
    .kind = "permit semaphore",
    .waits_on = rdl__permits_wait_on,
    .thing = "semaphore",
    .busy = "too few permits are free",
    .unused = rdl__guards_sweep,
    .channel = "redisson_sc",
    .news = RDL__NEWS_SOME,
    .call_back = call_back,
};
