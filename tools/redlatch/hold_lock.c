/* SPDX-License-Identifier: MIT */
/* hold_lock.c - what the library calls a lock: one, several as a multi-lock, or one on several servers as a red lock.
 *
 * They differ in how the handle is made. The library renews, reports losses, and releases the members of a failed take.
 */
#include "tools/redlatch/hold.h"

#include "tools/redlatch/text.h"

#include <stdio.h>
#include <string.h>

/* What one server of a red lock may take to answer. More than the library's own bound, because it may have to be
 * connected to first; a live majority is not held up by it. */
#define NODE_MS 1000

static bool is_one(const struct run_options *o)
{
    return o->redlock == NULL && o->name_count == 1;
}

static bool has_token(const struct run_options *o)
{
    return o->redlock != NULL || (is_one(o) && o->type->fencing != RDL_FENCING_NONE);
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static int make_member(struct hold *h, size_t i, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    const struct run_options *o = h->options;
    bool red = o->redlock != NULL;
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;

    options.fencing = red ? RDL_FENCING_TIME : o->type->fencing; /* counters of several servers do not grow together */
    return o->type->make(h->clients[red ? i : 0], o->names[red ? 0 : i], &options, ret_lock, err);
}

static int join(struct hold *h, rdl_lock_t *const *members, size_t n, rdl_err_t *err)
{
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;

    if (h->options->redlock == NULL)
        return rdl_multi_lock(members, n, &options, &h->locks.lock, err);
    options.node_timeout_ms = NODE_MS;
    return rdl_red_lock(members, n, &options, &h->locks.lock, err);
}

static int make_composite(struct hold *h, rdl_err_t *err)
{
    struct hold_locks *l = &h->locks;
    size_t n = h->options->redlock != NULL ? h->client_count : h->options->name_count;
    int rc;

    for (; l->member_count < n; l->member_count++)
        if ((rc = make_member(h, l->member_count, &l->members[l->member_count], err)) < 0)
            return rc;
    return join(h, l->members, n, err);
}

/* ---- losing ----------------------------------------------------------------------------------------------------- */

static const char *reason_text(rdl_loss_reason_t reason)
{
    if (reason == RDL_LOSS_TAKEN)
        return "the server is back, and somebody else has it there";
    return reason == RDL_LOSS_GONE ? "the server no longer has it" : "its lease ran out and could not be renewed";
}

static void on_lost(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    struct hold *h = arg;
    char member[TEXT_SAFE_CAP];
    char why[2 * TEXT_SAFE_CAP];
    const char *name;
    size_t len;

    (void)lock;
    if (loss->state == RDL_DEGRADED || loss->state == RDL_HELD)
        h->events->degraded(h->arg, loss->state == RDL_DEGRADED);
    if (loss->state != RDL_LOST)
        return;
    if (loss->member == NULL || h->options->redlock != NULL) {
        h->events->lost(h->arg, loss->member == NULL ? reason_text(loss->reason) : "no majority of the servers has it");
        return;
    }
    name = rdl_lock_name(loss->member, &len);
    snprintf(why, sizeof why, "'%s': %s", text_safe(name, len, member), reason_text(loss->reason));
    h->events->lost(h->arg, why);
}

static int lock_make(struct hold *h, rdl_err_t *err)
{
    int rc = is_one(h->options) ? make_member(h, 0, &h->locks.lock, err) : make_composite(h, err);

    return rc < 0 ? rc : rdl_on_lost(h->locks.lock, on_lost, h, err);
}

/* ---- taking and releasing --------------------------------------------------------------------------------------- */

static void on_taken(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;

    (void)lock;
    h->events->taken(h->arg, (int)result, err);
}

static int lock_take(struct hold *h, int64_t wait_ms, rdl_err_t *err)
{
    return rdl_try_lock_async(h->locks.lock, NULL, wait_ms, RDL_LEASE_AUTO, on_taken, h, &h->taking, err);
}

static void on_answered(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;

    (void)lock;
    h->events->answered(h->arg, result < 0 ? (int)result : RDL_OK, err);
}

/* The verb that a red lock answers with a majority only, and a multi-lock with all. */
static int lock_ask(struct hold *h, rdl_err_t *err)
{
    return rdl_remaining_ms_async(h->locks.lock, NULL, on_answered, h, NULL, err);
}

static void on_released(rdl_lock_t *lock, int64_t result, const rdl_err_t *err, void *arg)
{
    struct hold *h = arg;

    (void)lock;
    h->events->released(h->arg, (int)result, err);
}

static int lock_release(struct hold *h, rdl_err_t *err)
{
    return rdl_unlock_async(h->locks.lock, NULL, on_released, h, NULL, err);
}

static int lock_token(struct hold *h, int64_t *ret_token, rdl_err_t *err)
{
    int64_t token;

    if (!has_token(h->options) || rdl_hold_state(h->locks.lock, NULL) == RDL_DEGRADED)
        return RDL_OK;
    if ((token = rdl_token(h->locks.lock, err)) < 0)
        return (int)token;
    *ret_token = token;
    return RDL_OK;
}

static void lock_free(struct hold *h)
{
    h->locks.lock = rdl_lock_free(h->locks.lock);
    for (size_t i = 0; i < h->locks.member_count; i++)
        h->locks.members[i] = rdl_lock_free(h->locks.members[i]);
}

const struct hold_ops hold_lock_ops = {
    .make = lock_make,
    .take = lock_take,
    .ask = lock_ask,
    .release = lock_release,
    .token = lock_token,
    .tick = NULL, /* the library renews */
    .free = lock_free,
};
