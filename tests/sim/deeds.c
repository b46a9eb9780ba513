/* SPDX-License-Identifier: MIT */
/* deeds.c - calls of actors, from their beginning until their answer is known. */
#include "tests/sim/cast.h"
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

static int64_t deadline_of(const struct deed *d)
{
    int64_t now = process_clock(&d->actor->app->process);
    int64_t least_ms = cast.options.local_after_ms + TO_KNOW_MS;

    if (d->verb == TAKE && d->wait_ms == RDL_WAIT_FOREVER)
        return RDL__NEVER;
    if (d->verb == TAKE && d->wait_ms == 0 && is_local(d->end) && cast.options.command_timeout_ms < least_ms)
        return rdl__after_ms(now, least_ms);
    return rdl__after_ms(now, d->verb == TAKE && d->wait_ms > 0 ? d->wait_ms : cast.options.command_timeout_ms);
}

static struct deed *deed_new(struct actor *actor, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    struct deed *d = must_alloc(sizeof *d);
    char wait[24], lease[24];

    d->actor = actor;
    d->end = end;
    d->verb = verb;
    d->wait_ms = wait_ms;
    d->lease_ms = lease_ms;
    d->called = world_now();
    d->deadline = deadline_of(d);
    d->queued = actor->under_way[end]++ > 0 || actor->holds[end].doubt || actor->crowd;
    d->starter = fibre_here();
    d->canceled = actor->canceling > 0;
    d->canceled_at = -1;
    rdl__list_push_back(&cast.deeds, &d->link);
    cast.deed_count++;
    say("%s calls %s %s%s, wait %s, lease %s", actor->name, verbs[verb], name_at(end)->text,
        shares(end) ? " (shared)" : "", lease_text(wait_ms, wait, sizeof wait),
        lease_text(lease_ms, lease, sizeof lease));
    if (verb == RELEASE)
        believe_unlock_called(d);
    checks_called(d);
    return d;
}

static bool verb_needs_hold(enum verb verb)
{
    return verb == TAKE || verb == RELEASE || verb == EXTEND;
}

/* Looking at the record may wait for a thread that changes it. Whoever waits for the answer frees the deed, and so
 * hears of it last. */
static void answered(struct deed *d, int64_t result)
{
    struct hold *h = &d->actor->holds[d->end];

    if (++d->answers > 1) {
        violated("each asynchronous call calls back once", "%s of %s called back %u times", verbs[d->verb],
                 d->actor->name, d->answers);
        return;
    }
    d->result = result;
    d->actor->under_way[d->end]--;
    rdl__list_remove(&d->link);
    say("%s: %s %s answers %s", d->actor->name, verbs[d->verb], name_at(d->end)->text,
        result > 0 ? "yes" : rdl_err_name((int)result));
    if (d->verb == TAKE && result == RDL_OK)
        believe_granted(d);
    if (d->verb == RELEASE)
        believe_unlock_answered(d);
    if (d->actor->crowd && !d->actor->app->ending)
        believe_record(d->actor, d->end);
    if (verb_needs_hold(d->verb))
        h->doubt = h->granted > 0 && result < 0 && result != RDL_ETIMEDOUT;
    checks_answered(d);
    d->done = true;
    if (d->waiter != NULL)
        fibre_wake(d->waiter, 0);
}

static void on_answer(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct deed *d = arg;

    (void)lock;
    check_callback(d->starter, result, err, d->actor->name, verbs[d->verb]);
    answered(d, result);
}

int64_t act_as(const struct actor *actor, int64_t (*call)(void *what), void *what)
{
    rdl_client_t *client = actor->app->client;
    int64_t result;
    int rc;

    if (client == NULL)
        return RDL_ECLOSED;
    if ((rc = rdl_owner_bind(actor->owner, NULL)) < 0)
        return rc;
    result = call(what);
    rdl_owner_unbind(client); /* one that is being closed is there until its last call has returned */
    return result;
}

static int64_t call_as_bound(void *what)
{
    const struct deed *d = what;
    rdl_lock_t *lock = d->actor->locks[d->end];
    rdl_err_t err = {0};

    switch (d->verb) {
    case TAKE:
        return rdl_try_lock(lock, d->wait_ms, d->lease_ms, &err);
    case RELEASE:
        return rdl_unlock(lock, &err);
    case EXTEND:
        return rdl_extend(lock, d->lease_ms, &err);
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

static int call_async(struct deed *d, rdl_err_t *err)
{
    rdl_lock_t *lock = d->actor->locks[d->end];
    rdl_owner_t *owner = d->actor->owner;

    switch (d->verb) {
    case TAKE:
        return rdl_try_lock_async(lock, owner, d->wait_ms, d->lease_ms, on_answer, d, &d->op, err);
    case RELEASE:
        return rdl_unlock_async(lock, owner, on_answer, d, &d->op, err);
    case EXTEND:
        return rdl_extend_async(lock, owner, d->lease_ms, on_answer, d, &d->op, err);
    case FORCE:
        return rdl_force_unlock_async(lock, owner, on_answer, d, &d->op, err);
    case IS_LOCKED:
        return rdl_is_locked_async(lock, owner, on_answer, d, &d->op, err);
    case REMAINING:
        return rdl_remaining_ms_async(lock, owner, on_answer, d, &d->op, err);
    case VERBS:
        break;
    }
    die("sim: no verb");
}

struct deed *begin_deed(struct actor *actor, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    struct deed *d = deed_new(actor, end, verb, wait_ms, lease_ms);
    rdl_err_t err = {0};
    int rc = call_async(d, &err);

    d->starter = NULL;
    if (rc < 0)
        answered(d, rc);
    return d;
}

int64_t end_deed(struct deed *d)
{
    int64_t result;

    while (!d->done) {
        d->waiter = fibre_here();
        fibre_wait(RDL__NEVER);
        d->waiter = NULL;
    }
    result = d->result;
    (void)rdl_op_free(d->op);
    free(d);
    return result;
}

int64_t act(struct actor *actor, size_t end, enum verb verb, int64_t wait_ms, int64_t lease_ms)
{
    struct deed *d;

    if (!actor->blocking)
        return end_deed(begin_deed(actor, end, verb, wait_ms, lease_ms));
    d = deed_new(actor, end, verb, wait_ms, lease_ms);
    d->starter = NULL;
    answered(d, act_as(actor, call_as_bound, d));
    return end_deed(d);
}

void cancel_deed(struct deed *d)
{
    if (d->done)
        return;
    say("%s cancels its %s", d->actor->name, verbs[d->verb]);
    d->canceled = true;
    if (d->op == NULL) /* it has not returned */
        return;
    rdl_op_cancel(d->op);
    d->canceled_at = world_now();
}

void cancel_actor(struct actor *actor)
{
    int64_t began;
    int count = 0;
    bool all; /* were known to the client already */

    if (actor->owner == NULL || actor->app->client == NULL || actor->app->ending)
        return;
    say("%s is canceled", actor->name);
    began = actor->canceled_at = world_now();
    for (struct rdl__link *l = cast.deeds.next; l != &cast.deeds; l = l->next) {
        struct deed *d = rdl__container(l, struct deed, link);

        d->canceled = d->canceled || d->actor == actor;
        count += d->actor == actor;
    }
    actor->canceling++;
    all = rdl_owner_cancel(actor->owner) == count;
    actor->canceling--;
    actor->canceled_at = world_now();
    for (struct rdl__link *l = cast.deeds.next; all && l != &cast.deeds; l = l->next) {
        struct deed *d = rdl__container(l, struct deed, link);

        if (d->actor == actor && d->called <= began && d->canceled_at < 0)
            d->canceled_at = world_now();
    }
}
