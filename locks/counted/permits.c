/* SPDX-License-Identifier: MIT */
#include "locks/counted/permits.h"

#include "core/base/err.h"
#include "core/call/share.h"
#include "locks/args.h"
#include "scripts/scripts.h"

#define DEFAULT_LIFE_MS 15000
#define HOUR_BITS 0x3fffff /* as wide as struct rdl__settings has it */

/* ---- the public face -------------------------------------------------------------------------------------------- */

int rdl__semaphore_make(rdl_client_t *client, const struct rdl__lock_ops *ops, const char *name,
                        const rdl_semaphore_options_t *options, rdl_lock_t **ret_handle, rdl_err_t *err)
{
    rdl_semaphore_options_t o = options != NULL ? *options : (rdl_semaphore_options_t)RDL_SEMAPHORE_OPTIONS_INIT;
    struct rdl__settings settings = {.retry = RDL_RETRY_NONE, .fencing = RDL_FENCING_NONE};
    int64_t life_ms = o.waiter_life_ms == 0 ? DEFAULT_LIFE_MS : o.waiter_life_ms;
    int rc;

    if (client == NULL || name == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", client == NULL ? "client" : "name");
    if (o.version != RDL_SEMAPHORE_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL,
                            "semaphore options have version %u: initialise them with RDL_SEMAPHORE_OPTIONS_INIT",
                            (unsigned)o.version);
    if (!o.fair && o.waiter_life_ms != 0)
        return rdl__err_set(err, RDL_EINVAL, "semaphore option waiter_life_ms is for fair semaphores");
    if (life_ms < 100 || life_ms > 3600000)
        return rdl__err_set(err, RDL_EINVAL, "semaphore option waiter_life_ms is %lld: it must be 100 to 3600000",
                            (long long)life_ms);
    settings.on_outage = client->on_outage == RDL_OUTAGE_WAIT ? RDL_OUTAGE_WAIT : RDL_OUTAGE_FAIL;
    settings.life_ms = o.fair ? (uint32_t)life_ms & HOUR_BITS : 0;
    if ((rc = rdl__client_check(client, err)) < 0 || (rc = rdl__check_name("semaphore", name, &o.name_len, err)) < 0)
        return rc;
    return rdl__handle_make(client, ops, name, o.name_len, &settings, ret_handle, err);
}

int rdl__check_permits(int64_t permits, int64_t least, int64_t most, rdl_err_t *err)
{
    if (permits >= least && permits <= most)
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "the number of permits is %lld: it must be %lld to %lld", (long long)permits,
                        (long long)least, (long long)most);
}

int rdl__check_more(int64_t permits, rdl_err_t *err)
{
    if (permits == 0)
        return rdl__err_set(err, RDL_EINVAL, "the number of permits is 0: there is nothing to add");
    return rdl__check_permits(permits, -(int64_t)RDL_PERMITS_MAX, RDL_PERMITS_MAX, err);
}

int64_t rdl__semaphore_do(struct rdl__order *order, rdl_lock_t *handle, int rc, rdl_err_t *err)
{
    if (rc < 0 || (rc = rdl__check_wait(order->wait_ms, err)) < 0 ||
        (rc = rdl__check_handle("semaphore", handle, err)) < 0)
        return rc;
    order->lock = handle;
    return rdl__call(order, err);
}

int rdl__semaphore_start(struct rdl__order *order, rdl_lock_t *handle, int rc, rdl_op_t **ret_op, rdl_err_t *err)
{
    if (rc < 0 || (rc = rdl__check_wait(order->wait_ms, err)) < 0 ||
        (rc = rdl__check_handle("semaphore", handle, err)) < 0)
        return rc;
    order->lock = handle;
    return rdl__start(order, ret_op, err);
}

void rdl__permits_wait_on(struct rdl__buf *to, struct rdl__call *call)
{
    rdl__channel_name(to, rdl__call_name(call));
    call->waiter.wish = (uint32_t)call->amount;
    call->waiter.in_order = rdl__in_order(rdl__call_name(call));
}

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

rdl__step_t rdl__permits_answered(struct rdl__call *call, bool valid, int64_t hint_ms)
{
    struct rdl__take_event ev = {.kind = RDL__EV_FAILED,
                                 .code = rdl__answer_failed(call),
                                 .unsure = call->req.resent || rdl__call_refused_in_doubt(call)};
    int64_t life_ms = rdl__call_name(call)->settings.life_ms;

    if (ev.code == RDL_OK && call->answer >= 0) {
        rdl__waiter_told(&call->waiter, call->answer);
        rdl__share_taken(call);
        ev.kind = RDL__EV_TAKEN;
        ev.valid = valid;
        call->answer = 0;
    } else if (ev.code == RDL_OK) {
        rdl__waiter_told(&call->waiter, -1 - call->answer);
        ev.kind = RDL__EV_REFUSED;
        ev.ttl_ms = hint_ms;
        if (life_ms > 0 &&
            (hint_ms < 0 || hint_ms > life_ms / 3)) /* the place in the queue needs a sign of life by then */
            ev.ttl_ms = life_ms / 3;
    }
    return rdl__take_on(&call->take, &ev);
}

static rdl__step_t added(struct rdl__call *call, int64_t now)
{
    if (rdl__answer_failed(call) == RDL_OK) {
        rdl__share_released(call);
        call->answer = RDL_OK;
    }
    return rdl__once_answered(call, now);
}

const struct rdl__verb rdl__verb_add_permits = {
    .script = RDL__SCRIPT_SEMAPHORE_ADD,
    .has_successor = true,
    .successor_mode = RDL__SUCCESSOR_REPLACES,
    .begin = rdl__once_begin,
    .encode = rdl__once_encode,
    .decode = rdl__decode_number,
    .answered = added,
    .put_undo = rdl__once_put_again,
    .undone = rdl__once_settled,
    .ended = rdl__once_ended,
    .texts = rdl__goes_on,
};

const struct rdl__verb rdl__verb_try_set_permits = {
    .script = RDL__SCRIPT_SEMAPHORE_TRY_SET,
    .begin = rdl__once_begin,
    .encode = rdl__once_encode,
    .decode = rdl__decode_number,
    .answered = rdl__once_answered,
    .ended = rdl__once_ended,
    .texts = rdl__done_or_not,
};
