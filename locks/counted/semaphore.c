/* SPDX-License-Identifier: MIT */
/* semaphore.c - the semaphore: a string, the number of free permits (wire.md, Semaphore). */
#include "core/base/err.h"
#include "locks/counted/permits.h"
#include "locks/types.h"
#include "scripts/scripts.h"

struct rdl_semaphore_handle {
    rdl_lock_t handle; /* and nothing else: name.c makes it */
};

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

static rdl__step_t take_begin(struct rdl__call *call, int64_t now)
{
    (void)now;
    call->op.lease_ms = rdl__call_client(call)->outage_timeout_ms;
    rdl__once_number(call);
    return rdl__acquire_begin(call);
}

static void take_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__once_put(call, to, eval,
                  &(struct rdl__once_form){.script = RDL__SCRIPT_SEMAPHORE_TAKE, .queue = true, .forgets = true});
}

static rdl__step_t take_answered(struct rdl__call *call, int64_t now)
{
    if (rdl__answer_failed(call) == RDL_OK)
        call->guard.settled_n = 0;
    if (rdl__answer_failed(call) == RDL_OK && call->answer >= 0)
        rdl__once_settled(call, now);
    return rdl__permits_answered(call, true, -1);
}

static const struct rdl__verb take_verb = {
    .acquires = true,
    .has_successor = true,
    .successor_mode = RDL__SUCCESSOR_FOLLOWS,
    .begin = take_begin,
    .encode = take_encode,
    .decode = rdl__decode_number,
    .answered = take_answered,
    .put_undo = rdl__once_put_undo,
    .undone = rdl__once_settled,
    .ended = rdl__once_ended,
};

static const struct rdl__verb drain_verb = {
    .script = RDL__SCRIPT_SEMAPHORE_DRAIN,
    .has_successor = true,
    .successor_mode = RDL__SUCCESSOR_FOLLOWS,
    .begin = rdl__once_begin,
    .encode = rdl__once_encode,
    .decode = rdl__decode_number,
    .answered = rdl__once_answered,
    .put_undo = rdl__once_put_undo,
    .undone = rdl__once_settled,
    .ended = rdl__once_ended,
};

/* ---- the public face -------------------------------------------------------------------------------------------- */

int rdl_semaphore(rdl_client_t *client, const char *name, const rdl_semaphore_options_t *options,
                  rdl_semaphore_t **ret_semaphore, rdl_err_t *err)
{
    rdl_lock_t *handle;
    int rc;

    if (ret_semaphore == NULL)
        return rdl__err_set(err, RDL_EINVAL, "ret_semaphore is NULL");
    if ((rc = rdl__semaphore_make(client, &rdl__semaphore_ops, name, options, &handle, err)) == RDL_OK)
        *ret_semaphore = rdl__container(handle, rdl_semaphore_t, handle);
    return rc;
}

rdl_semaphore_t *rdl_semaphore_free(rdl_semaphore_t *semaphore)
{
    if (semaphore != NULL)
        (void)rdl_lock_free(&semaphore->handle);
    return NULL;
}

const char *rdl_semaphore_name(const rdl_semaphore_t *semaphore, size_t *ret_len)
{
    return semaphore == NULL ? NULL : rdl_lock_name(&semaphore->handle, ret_len);
}

static void call_back(const rdl_op_t *op, int64_t result, const rdl_err_t *err)
{
    ((rdl_semaphore_fn)op->fn)(rdl__container(op->lock, rdl_semaphore_t, handle), result, err, op->arg);
}

static rdl_lock_t *handle_of(rdl_semaphore_t *semaphore)
{
    return semaphore == NULL ? NULL : &semaphore->handle;
}

static int check_wanted(int64_t permits, rdl_err_t *err)
{
    return rdl__check_permits(permits, 1, RDL_PERMITS_MAX, err);
}

int rdl_semaphore_try_acquire(rdl_semaphore_t *semaphore, int64_t permits, int64_t wait_ms, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &take_verb, .amount = permits, .wait_ms = wait_ms};

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), check_wanted(permits, err), err);
}

int rdl_semaphore_acquire(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err)
{
    return rdl_semaphore_try_acquire(semaphore, permits, RDL_WAIT_FOREVER, err);
}

int rdl_semaphore_release(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_add_permits, .amount = permits};

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), check_wanted(permits, err), err);
}

int64_t rdl_semaphore_available(rdl_semaphore_t *semaphore, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_count};

    return rdl__semaphore_do(&order, handle_of(semaphore), RDL_OK, err);
}

int64_t rdl_semaphore_drain(rdl_semaphore_t *semaphore, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &drain_verb};

    return rdl__semaphore_do(&order, handle_of(semaphore), RDL_OK, err);
}

int rdl_semaphore_try_set_permits(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_try_set_permits, .amount = permits};

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), rdl__check_permits(permits, 0, RDL_PERMITS_MAX, err),
                                  err);
}

int rdl_semaphore_add_permits(rdl_semaphore_t *semaphore, int64_t permits, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_add_permits, .amount = permits};

    return (int)rdl__semaphore_do(&order, handle_of(semaphore), rdl__check_more(permits, err), err);
}

static int start(struct rdl__order *order, rdl_semaphore_t *semaphore, rdl_semaphore_fn fn, int rc, rdl_op_t **ret_op,
                 rdl_err_t *err)
{
    order->fn = (rdl__callback_fn *)fn;
    return rdl__semaphore_start(order, handle_of(semaphore), rc, ret_op, err);
}

int rdl_semaphore_try_acquire_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits, int64_t wait_ms,
                                    rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &take_verb, .owner = owner, .amount = permits, .wait_ms = wait_ms, .arg = arg};

    return start(&order, semaphore, fn, check_wanted(permits, err), ret_op, err);
}

int rdl_semaphore_acquire_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits, rdl_semaphore_fn fn,
                                void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    return rdl_semaphore_try_acquire_async(semaphore, owner, permits, RDL_WAIT_FOREVER, fn, arg, ret_op, err);
}

int rdl_semaphore_release_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits, rdl_semaphore_fn fn,
                                void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_add_permits, .owner = owner, .amount = permits, .arg = arg};

    return start(&order, semaphore, fn, check_wanted(permits, err), ret_op, err);
}

int rdl_semaphore_available_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, rdl_semaphore_fn fn, void *arg,
                                  rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_count, .owner = owner, .arg = arg};

    return start(&order, semaphore, fn, RDL_OK, ret_op, err);
}

int rdl_semaphore_drain_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, rdl_semaphore_fn fn, void *arg,
                              rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &drain_verb, .owner = owner, .arg = arg};

    return start(&order, semaphore, fn, RDL_OK, ret_op, err);
}

int rdl_semaphore_try_set_permits_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                        rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_try_set_permits, .owner = owner, .amount = permits, .arg = arg};

    return start(&order, semaphore, fn, rdl__check_permits(permits, 0, RDL_PERMITS_MAX, err), ret_op, err);
}

int rdl_semaphore_add_permits_async(rdl_semaphore_t *semaphore, rdl_owner_t *owner, int64_t permits,
                                    rdl_semaphore_fn fn, void *arg, rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_add_permits, .owner = owner, .amount = permits, .arg = arg};

    return start(&order, semaphore, fn, rdl__check_more(permits, err), ret_op, err);
}

const struct rdl__lock_ops rdl__semaphore_ops = {
    .handle = &rdl__single_handle,
    .name = "semaphore",
    .kind = "semaphore",
    .waits_on = rdl__permits_wait_on,
    .thing = "semaphore",
    .busy = "too few permits are free",
    .unused = rdl__guards_sweep,
    .channel = "redisson_sc",
    .news = RDL__NEWS_TOTAL,
    .call_back = call_back,
};
