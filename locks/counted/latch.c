/* SPDX-License-Identifier: MIT */
/* latch.c - the count-down latch: a string, the count, gone when it is open (wire.md, Latch).
 *
 * An await reads the count until it is 0; messages wake all waiters.
 */
#include "core/base/err.h"
#include "locks/args.h"
#include "locks/counted/once.h"
#include "locks/types.h"
#include "scripts/scripts.h"

#include <redlatch/latch.h>

struct rdl_latch_handle {
    rdl_lock_t handle; /* and nothing else: name.c makes it */
};

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

static rdl__step_t await_begin(struct rdl__call *call, int64_t now)
{
    (void)now;
    return rdl__acquire_begin(call);
}

static rdl__step_t await_answered(struct rdl__call *call, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_FAILED, .code = rdl__answer_failed(call)};

    (void)now;
    if (ev.code == RDL_OK && call->answer <= 0) {
        ev.kind = RDL__EV_TAKEN;
        ev.valid = true;
        call->answer = 0;
    } else if (ev.code == RDL_OK) {
        ev.kind = RDL__EV_REFUSED;
        ev.ttl_ms = -1;
    }
    return rdl__take_on(&call->take, &ev);
}

static const struct rdl__verb await_verb = {
    .acquires = true,
    .begin = await_begin,
    .encode = rdl__count_encode,
    .decode = rdl__count_decode,
    .answered = await_answered,
    .texts = rdl__nothing_done,
};

static const struct rdl__verb try_set_verb = {
    .script = RDL__SCRIPT_LATCH_TRY_SET,
    .begin = rdl__once_begin,
    .encode = rdl__once_encode,
    .decode = rdl__decode_number,
    .answered = rdl__once_answered,
    .ended = rdl__once_ended,
    .texts = rdl__done_or_not,
};

/* It is counted at this master; the guard tells a new one whether it was counted there, too. */
static void counted(const struct rdl__call *call, int64_t now)
{
    rdl__once_note(call, call->verb->script, rdl__once_put_again, true, now);
}

static rdl__step_t count_down_answered(struct rdl__call *call, int64_t now)
{
    rdl__step_t step = rdl__answer_is(call, call->answer);

    if (step.rc < 0)
        return rdl__once_failed(call, step.rc);
    call->guard.settled_n = 0;
    counted(call, now);
    return step;
}

static const struct rdl__verb count_down_verb = {
    .script = RDL__SCRIPT_LATCH_COUNT_DOWN,
    .has_successor = true,
    .successor_mode = RDL__SUCCESSOR_REPLACES,
    .begin = rdl__once_begin,
    .encode = rdl__once_encode,
    .decode = rdl__decode_number,
    .answered = count_down_answered,
    .put_undo = rdl__once_put_again,
    .undone = counted,
    .ended = rdl__once_ended,
    .texts = rdl__goes_on,
};

/* ---- the public face -------------------------------------------------------------------------------------------- */

int rdl_latch(rdl_client_t *client, const char *name, const rdl_latch_options_t *options, rdl_latch_t **ret_latch,
              rdl_err_t *err)
{
    struct rdl__settings settings = {.retry = RDL_RETRY_NONE, .fencing = RDL_FENCING_NONE};
    rdl_latch_options_t o = options != NULL ? *options : (rdl_latch_options_t)RDL_LATCH_OPTIONS_INIT;
    rdl_lock_t *handle;
    int rc;

    if (client == NULL || name == NULL || ret_latch == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL",
                            client == NULL ? "client"
                            : name == NULL ? "name"
                                           : "ret_latch");
    if (o.version != RDL_LATCH_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL,
                            "latch options have version %u: initialise them with RDL_LATCH_OPTIONS_INIT",
                            (unsigned)o.version);
    settings.on_outage = client->on_outage == RDL_OUTAGE_WAIT ? RDL_OUTAGE_WAIT : RDL_OUTAGE_FAIL;
    if ((rc = rdl__client_check(client, err)) < 0 || (rc = rdl__check_name("latch", name, &o.name_len, err)) < 0 ||
        (rc = rdl__handle_make(client, &rdl__latch_ops, name, o.name_len, &settings, &handle, err)) < 0)
        return rc;
    *ret_latch = rdl__container(handle, rdl_latch_t, handle);
    return RDL_OK;
}

rdl_latch_t *rdl_latch_free(rdl_latch_t *latch)
{
    if (latch != NULL)
        (void)rdl_lock_free(&latch->handle);
    return NULL;
}

const char *rdl_latch_name(const rdl_latch_t *latch, size_t *ret_len)
{
    return latch == NULL ? NULL : rdl_lock_name(&latch->handle, ret_len);
}

static int check_count(int64_t count, rdl_err_t *err)
{
    if (count >= 1 && count <= INT32_MAX)
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "the count is %lld: it must be 1 to 2^31-1", (long long)count);
}

static int check_latch(const rdl_latch_t *latch, rdl_err_t *err)
{
    return rdl__check_handle("latch", latch == NULL ? NULL : &latch->handle, err);
}

static void call_back(const rdl_op_t *op, int64_t result, const rdl_err_t *err)
{
    ((rdl_latch_fn)op->fn)(rdl__container(op->lock, rdl_latch_t, handle), result, err, op->arg);
}

/* Check the handle, and carry the verb out. `rc`: the result of the check of the verb's own arguments. */
static int64_t do_it(const struct rdl__verb *verb, rdl_latch_t *latch, int64_t count, int64_t wait_ms, int rc,
                     rdl_err_t *err)
{
    struct rdl__order order = {.verb = verb, .amount = count, .wait_ms = wait_ms};

    if (rc < 0 || (rc = check_latch(latch, err)) < 0)
        return rc;
    order.lock = &latch->handle;
    return rdl__call(&order, err);
}

static int start_it(struct rdl__order *order, rdl_latch_t *latch, rdl_latch_fn fn, int rc, rdl_op_t **ret_op,
                    rdl_err_t *err)
{
    if (rc < 0 || (rc = check_latch(latch, err)) < 0)
        return rc;
    order->lock = &latch->handle;
    order->fn = (rdl__callback_fn *)fn;
    return rdl__start(order, ret_op, err);
}

int rdl_latch_try_set_count(rdl_latch_t *latch, int64_t count, rdl_err_t *err)
{
    return (int)do_it(&try_set_verb, latch, count, 0, check_count(count, err), err);
}

int64_t rdl_latch_count_down(rdl_latch_t *latch, rdl_err_t *err)
{
    return do_it(&count_down_verb, latch, 1, 0, RDL_OK, err);
}

int64_t rdl_latch_count(rdl_latch_t *latch, rdl_err_t *err)
{
    return do_it(&rdl__verb_count, latch, 0, 0, RDL_OK, err);
}

int rdl_latch_await(rdl_latch_t *latch, int64_t wait_ms, rdl_err_t *err)
{
    return (int)do_it(&await_verb, latch, 0, wait_ms, rdl__check_wait(wait_ms, err), err);
}

int rdl_latch_try_set_count_async(rdl_latch_t *latch, rdl_owner_t *owner, int64_t count, rdl_latch_fn fn, void *arg,
                                  rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &try_set_verb, .owner = owner, .amount = count, .arg = arg};

    return start_it(&order, latch, fn, check_count(count, err), ret_op, err);
}

int rdl_latch_count_down_async(rdl_latch_t *latch, rdl_owner_t *owner, rdl_latch_fn fn, void *arg, rdl_op_t **ret_op,
                               rdl_err_t *err)
{
    struct rdl__order order = {.verb = &count_down_verb, .owner = owner, .amount = 1, .arg = arg};

    return start_it(&order, latch, fn, RDL_OK, ret_op, err);
}

int rdl_latch_count_async(rdl_latch_t *latch, rdl_owner_t *owner, rdl_latch_fn fn, void *arg, rdl_op_t **ret_op,
                          rdl_err_t *err)
{
    struct rdl__order order = {.verb = &rdl__verb_count, .owner = owner, .arg = arg};

    return start_it(&order, latch, fn, RDL_OK, ret_op, err);
}

int rdl_latch_await_async(rdl_latch_t *latch, rdl_owner_t *owner, int64_t wait_ms, rdl_latch_fn fn, void *arg,
                          rdl_op_t **ret_op, rdl_err_t *err)
{
    struct rdl__order order = {.verb = &await_verb, .owner = owner, .wait_ms = wait_ms, .arg = arg};

    return start_it(&order, latch, fn, rdl__check_wait(wait_ms, err), ret_op, err);
}

const struct rdl__lock_ops rdl__latch_ops = {
    .handle = &rdl__single_handle,
    .name = "latch",
    .thing = "latch",
    .busy = "it has not been counted down to 0",
    .unused = rdl__guards_sweep,
    .kind = "latch",
    .channel = "redisson_countdownlatch__channel__{",
    .waits_on = rdl__waits_on_channel,
    .news = RDL__NEWS_ALL,
    .call_back = call_back,
};
