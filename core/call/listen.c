/* SPDX-License-Identifier: MIT */
/* listen.c - the verb that reports a lock's releases without taking it: for composites (locks/composite).
 *
 * It joins the lock's waiters as a listener (waiters.h), sends nothing, and lasts until it is canceled. Each message on
 * the lock's channel, and each confirmed subscription, calls its function with RDL__HEARD; the end does so with its
 * code, as of any verb.
 */
#include "core/call/verb.h"

static rdl__step_t sleep_on(void)
{
    return (rdl__step_t){.what = RDL__DO_WAIT, .hint_ms = -1};
}

static rdl__step_t listen_begin(struct rdl__call *call, int64_t now)
{
    (void)call;
    (void)now;
    return sleep_on();
}

static rdl__step_t listen_woken(struct rdl__call *call, int64_t now)
{
    (void)now;
    rdl__waiter_sent(&call->waiter); /* messages from now on wake it again */
    ((rdl_done_fn)call->op.fn)(call->op.lock, RDL__HEARD, NULL, call->op.arg);
    return sleep_on();
}

const struct rdl__verb rdl__verb_listen = {
    .acquires = true,
    .listens = true,
    .uncounted = true,
    .begin = listen_begin,
    .woken = listen_woken,
};
