/* SPDX-License-Identifier: MIT */
/* calls.c - calls of callers, from their beginning until their answer is known. */
#include "tests/sim/apps.h"
#include "tests/sim/checks.h"
#include "tests/sim/rec.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const verbs[VERBS] = {"take", "release", "extend", "force", "is_locked", "remaining"};

static const char *lease_text(int64_t ms, char *to, size_t size)
{
    if (ms == RDL_LEASE_AUTO)
        return "auto";
    if (ms == RDL_WAIT_FOREVER)
        return "for ever";
    (void)snprintf(to, size, "%lld", (long long)ms);
    return to;
}

/* A take without a wait waits for so long that it can be known whether there is a server. */
#define TO_KNOW_MS 1000

static int64_t deadline_of(const struct lock_call *call)
{
    int64_t now = process_clock(&call->caller->app->process);
    int64_t least_ms = sim.options.local_after_ms + TO_KNOW_MS;

    if (call->verb == TAKE && call->wait_ms == RDL_WAIT_FOREVER)
        return RDL__NEVER;
    if (call->verb == TAKE && call->wait_ms == 0 && is_local(call->end) && sim.options.command_timeout_ms < least_ms)
        return rdl__after_ms(now, least_ms);
    return rdl__after_ms(now, call->verb == TAKE && call->wait_ms > 0 ? call->wait_ms : sim.options.command_timeout_ms);
}

static struct lock_call *call_new(struct caller *caller, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    struct lock_call *call = must_alloc(sizeof *call);
    char wait[24], lease[24];

    call->caller = caller;
    call->end = end;
    call->verb = verb;
    call->wait_ms = wait_ms;
    call->lease_ms = lease_ms;
    call->called = world_now();
    call->deadline = deadline_of(call);
    call->queued = caller->under_way[end]++ > 0 || caller->holds[end].doubt || caller->crowd;
    call->starter = fibre_here();
    call->canceled = caller->canceling > 0;
    call->canceled_at = -1;
    rdl__list_push_back(&sim.calls, &call->link);
    sim.call_count++;
    say("%s calls %s %s%s, wait %s, lease %s", caller->name, verbs[verb], name_at(end)->text,
        shares(end) ? " (shared)" : "", lease_text(wait_ms, wait, sizeof wait),
        lease_text(lease_ms, lease, sizeof lease));
    if (verb == RELEASE)
        believe_unlock_called(call);
    checks_called(call);
    return call;
}

static bool verb_needs_hold(enum verb verb)
{
    return verb == TAKE || verb == RELEASE || verb == EXTEND;
}

/* Looking at the record may wait for a thread that changes it. Whoever waits for the answer frees the call, and so
 * hears of it last. */
static void answered(struct lock_call *call, int64_t result)
{
    struct hold *h = &call->caller->holds[call->end];

    if (++call->answers > 1) {
        violated("each asynchronous call calls back once", "%s of %s called back %u times", verbs[call->verb],
                 call->caller->name, call->answers);
        return;
    }
    call->result = result;
    call->caller->under_way[call->end]--;
    rdl__list_remove(&call->link);
    say("%s: %s %s answers %s", call->caller->name, verbs[call->verb], name_at(call->end)->text,
        result > 0 ? "yes" : rdl_err_name((int)result));
    if (call->verb == TAKE && result == RDL_OK)
        believe_granted(call);
    if (call->verb == RELEASE)
        believe_unlock_answered(call);
    if (call->caller->crowd && !call->caller->app->ending)
        believe_record(call->caller, call->end);
    if (verb_needs_hold(call->verb))
        h->doubt = h->granted > 0 && result < 0 && result != RDL_ETIMEDOUT;
    checks_answered(call);
    call->done = true;
    if (call->waiter != NULL)
        fibre_wake(call->waiter, 0);
}

static void on_answer(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct lock_call *call = arg;

    (void)lock;
    check_callback(call->starter, result, err, call->caller->name, verbs[call->verb]);
    answered(call, result);
}

int64_t call_as(const struct caller *caller, int64_t (*call)(void *what), void *what)
{
    rdl_client_t *client = caller->app->client;
    int64_t result;
    int rc;

    if (client == NULL)
        return RDL_ECLOSED;
    if ((rc = rdl_owner_bind(caller->owner, NULL)) < 0)
        return rc;
    result = call(what);
    rdl_owner_unbind(client); /* one that is being closed is there until its last call has returned */
    return result;
}

static int64_t call_as_bound(void *what)
{
    const struct lock_call *call = what;
    rdl_lock_t *lock = call->caller->locks[call->end];
    rdl_err_t err = {0};

    switch (call->verb) {
    case TAKE:
        return rdl_try_lock(lock, call->wait_ms, call->lease_ms, &err);
    case RELEASE:
        return rdl_unlock(lock, &err);
    case EXTEND:
        return rdl_extend(lock, call->lease_ms, &err);
    case FORCE:
        return rdl_force_unlock(lock, &err);
    case IS_LOCKED:
        return rdl_is_locked(lock, &err);
    case REMAINING:
        return rdl_remaining_ms(lock, &err);
    case VERBS:
        break;
    }
    die("sim: no verb");
}

static int call_async(struct lock_call *call, rdl_err_t *err)
{
    rdl_lock_t *lock = call->caller->locks[call->end];
    rdl_owner_t *owner = call->caller->owner;

    switch (call->verb) {
    case TAKE:
        return rdl_try_lock_async(lock, owner, call->wait_ms, call->lease_ms, on_answer, call, &call->op, err);
    case RELEASE:
        return rdl_unlock_async(lock, owner, on_answer, call, &call->op, err);
    case EXTEND:
        return rdl_extend_async(lock, owner, call->lease_ms, on_answer, call, &call->op, err);
    case FORCE:
        return rdl_force_unlock_async(lock, owner, on_answer, call, &call->op, err);
    case IS_LOCKED:
        return rdl_is_locked_async(lock, owner, on_answer, call, &call->op, err);
    case REMAINING:
        return rdl_remaining_ms_async(lock, owner, on_answer, call, &call->op, err);
    case VERBS:
        break;
    }
    die("sim: no verb");
}

struct lock_call *begin_call(struct caller *caller, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    struct lock_call *call = call_new(caller, end, verb, wait_ms, lease_ms);
    rdl_err_t err = {0};
    int rc = call_async(call, &err);

    call->starter = NULL;
    if (rc < 0)
        answered(call, rc);
    return call;
}

int64_t end_call(struct lock_call *call)
{
    int64_t result;

    while (!call->done) {
        call->waiter = fibre_here();
        fibre_wait(RDL__NEVER);
        call->waiter = NULL;
    }
    result = call->result;
    (void)rdl_op_free(call->op);
    free(call);
    return result;
}

int64_t call_and_wait(struct caller *caller, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    struct lock_call *call;

    if (!caller->blocking)
        return end_call(begin_call(caller, end, verb, wait_ms, lease_ms));
    call = call_new(caller, end, verb, wait_ms, lease_ms);
    call->starter = NULL;
    answered(call, call_as(caller, call_as_bound, call));
    return end_call(call);
}

void cancel_call(struct lock_call *call)
{
    if (call->done)
        return;
    say("%s cancels its %s", call->caller->name, verbs[call->verb]);
    call->canceled = true;
    if (call->op == NULL) /* it has not returned */
        return;
    rdl_op_cancel(call->op);
    call->canceled_at = world_now();
}

void cancel_caller(struct caller *caller)
{
    int64_t began;
    int count = 0;
    bool all; /* were known to the client already */

    if (caller->owner == NULL || caller->app->client == NULL || caller->app->ending)
        return;
    say("%s is canceled", caller->name);
    began = caller->canceled_at = world_now();
    for (struct rdl__link *l = sim.calls.next; l != &sim.calls; l = l->next) {
        struct lock_call *call = rdl__container(l, struct lock_call, link);

        call->canceled = call->canceled || call->caller == caller;
        count += call->caller == caller;
    }
    caller->canceling++;
    all = rdl_owner_cancel(caller->owner) == count;
    caller->canceling--;
    caller->canceled_at = world_now();
    for (struct rdl__link *l = sim.calls.next; all && l != &sim.calls; l = l->next) {
        struct lock_call *call = rdl__container(l, struct lock_call, link);

        if (call->caller == caller && call->called <= began && call->canceled_at < 0)
            call->canceled_at = world_now();
    }
}
