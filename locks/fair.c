/* SPDX-License-Identifier: MIT */
/* fair.c - first come, first served: the reentrant lock's hash, and a queue beside it (wire.md, Fair; protocol.md, 7).
 *
 * A refused take leaves a place in the queue, and is the waiter's sign of life; the refusal says when the next one is
 * due. The script that frees the lock grants it to the first living waiter, and publishes that on the waiter's own
 * channel: so a change of owner costs a take and a release (docs/decisions.md). A take that is given up is undone by
 * the release, which takes away the hold or the place. So queueing needs no verbs of its own, and the rules of the
 * queue are all in the scripts. call->hold.own counts the sendings of a take.
 */
#include "core/service/scripts.h"
#include "locks/hash.h"
#include "locks/types.h"

#include <string.h>

#define KEYS 5

/* ---- what is sent ----------------------------------------------------------------------------------------------- */

static void put_keys(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_channel(to, name);
    rdl__put_prefixed(to, "redisson_lock_queue", name);
    rdl__put_prefixed(to, "redisson_lock_timeout", name);
    rdl__put_prefixed(to, "redlatch_lock_waiters", name);
}

/* Only a first take waits in the queue: who holds the lock already has nothing to wait for. */
static bool leaves_trace(const struct rdl__call *call)
{
    return !call->take.one_try && call->count == 1;
}

/* Each sending has a number, since a grant counts from the moment of one sending. */
static void put_take(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__script_begin(to, RDL__SCRIPT_FAIR_TAKE, eval, KEYS, 7 + rdl__publish_args(name));
    put_keys(to, name);
    rdl__put_take_args(call, to, true);
    rdl__cmd_int(to, leaves_trace(call) ? name->settings.life_ms : 0);
    rdl__put_place(to, call);
    rdl__cmd_int(to, ++call->hold.own);
    rdl__put_publish_last(to, name);
}

static void put_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count)
{
    const struct rdl__name *name = hold->name;

    rdl__script_begin(to, RDL__SCRIPT_FAIR_RELEASE, eval, KEYS, 3 + rdl__publish_args(name));
    put_keys(to, name);
    rdl__cmd_field(to, &name->client->uuid, hold->n);
    rdl__cmd_int(to, count);
    rdl__cmd_field(to, &name->client->uuid, hold->k);
    rdl__put_publish_last(to, name);
}

static void put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);

    rdl__script_begin(to, RDL__SCRIPT_FAIR_FORCE, eval, KEYS, 1 + rdl__publish_args(name));
    put_keys(to, name);
    rdl__cmd_arg(to, call->words, call->words_len);
    rdl__put_publish_last(to, name);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

/* Each waiting owner has a channel of its own. */
static void waits_on(struct rdl__buf *to, struct rdl__call *call)
{
    char place[RDL__FIELD_MAX];

    rdl__channel_name(to, rdl__call_name(call));
    rdl__buf_put(to, ":", 1);
    rdl__buf_put(to, place, rdl__place(place, call));
}

/* The message `n:sending:token` on the owner's channel: the lock was granted to n, for no longer than the sign of life
 * of this sending counts. It is used for the last sending only, because only its moment is known. Returns the token, or
 * 0; below 0: there is no such message. */
static int64_t told_token(const struct rdl__call *call)
{
    size_t len, head;
    const char *said = rdl__waiter_message(&call->waiter, &len);
    struct rdl__reply rest = {.type = RDL__REPLY_STRING};
    char words[RDL__MESSAGE_KEPT];
    int64_t token;

    head = rdl__itoa(words, call->n);
    words[head++] = ':';
    head += rdl__itoa(words + head, call->hold.own);
    words[head++] = ':';
    if (len <= head || memcmp(said, words, head) != 0)
        return -1;
    rest.str = said + head;
    rest.len = len - head;
    return rdl__reply_integer(&rest, &token) ? token : -1;
}

/* Has a message granted the lock? The grant counts from the last sending: the server keeps it for the lease, or for the
 * life of a waiter, if that is shorter. If much less is left than was asked for, it is not used, and another try
 * confirms the hold for the whole lease. */
static bool granted(struct rdl__call *call, int64_t now, int64_t *ret_lease_ms)
{
    int64_t lease_ms = rdl__call_lease_ms(call), life_ms = rdl__call_name(call)->settings.life_ms;
    int64_t sure_ms = lease_ms < life_ms ? lease_ms : life_ms;
    int64_t spent_ms = (now - call->req.sent_at) / RDL__MS;
    bool enough =
        call->op.lease_ms == RDL_LEASE_AUTO ? spent_ms < sure_ms / 2 : sure_ms == lease_ms && spent_ms < lease_ms / 10;
    int64_t token = enough ? told_token(call) : -1;

    if (token < 0)
        return false;
    call->hold.token = token;
    *ret_lease_ms = sure_ms;
    return true;
}

static int options(const struct rdl__lock_ops *ops, rdl_lock_options_t *o, struct rdl__settings *settings,
                   rdl_err_t *err)
{
    int rc;

    (void)settings;
    if ((rc = rdl__options_fencing(ops, false, o, err)) < 0 || (rc = rdl__options_one_end(ops, o, err)) < 0)
        return rc;
    return rdl__options_life(o, err);
}

const struct rdl__lock_ops rdl__fair_ops = {
    .handle = &rdl__single_handle,
    .name = "fair",
    .kind = "fair",
    .news = RDL__NEWS_OWN,
    .waits_on = waits_on,
    .nests = true,
    .retry = {.kind = RDL_RETRY_NONE},
    .put_take = put_take,
    .decode_take = rdl__decode_take,
    .leaves_trace = leaves_trace,
    .granted = granted,
    .put_release = put_release,
    .put_force = put_force,
    RDL__HOLD_IN_HASH,
};

RDL__CONSTRUCTOR(rdl_fair_lock, rdl__fair_ops, options)
