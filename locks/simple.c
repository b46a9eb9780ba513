/* SPDX-License-Identifier: MIT */
/* simple.c - the lock that much other code uses, too: a string with the owner's value, SET NX PX, compare and delete.
 *
 * The first try is the plain command, six times cheaper in the server than a script. It says nothing of the time left,
 * and cannot be repeated (its second run would refuse itself), so every later try is the script's. Only
 * redlatch's unlock publishes, on a channel of its own; other software's unlocks are found by polling.
 */
#include "core/call/verb.h"
#include "locks/types.h"
#include "scripts/scripts.h"

#include <string.h>

enum { BY_SCRIPT, BY_COMMAND }; /* call->hold.form */

static void put_command(const struct rdl__call *call, struct rdl__buf *to)
{
    rdl__cmd_begin(to, 6);
    rdl__cmd_arg(to, "SET", 3);
    rdl__cmd_arg(to, rdl__call_name(call)->bytes, rdl__call_name(call)->node.key_len);
    rdl__put_field(to, call);
    rdl__cmd_arg(to, "NX", 2);
    rdl__cmd_arg(to, "PX", 2);
    rdl__put_lease(to, call);
}

static void put_take(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    call->hold.form = !rdl__wants_token(call) && call->take.tries == 0 && !call->req.resent ? BY_COMMAND : BY_SCRIPT;
    if (call->hold.form == BY_COMMAND)
        put_command(call, to);
    else
        rdl__put_take(call, to, eval, RDL__SCRIPT_SIMPLE_TAKE, NULL, 0);
}

static void decode_take(struct rdl__call *call, const struct rdl__reply *reply)
{
    call->hold.token = 0;
    if (call->hold.form == BY_COMMAND && reply->type == RDL__REPLY_NIL)
        call->answer = -1; /* refused, time left unknown */
    else if (call->hold.form == BY_COMMAND && reply->type == RDL__REPLY_STRING && strcmp(reply->str, "OK") == 0)
        call->answer = RDL__TAKEN;
    else
        rdl__decode_take(call, reply);
}

static void put_release(struct rdl__buf *to, const struct rdl__hold_of *hold, bool eval, int64_t count)
{
    rdl__put_release(to, hold, eval, count, RDL__SCRIPT_SIMPLE_RELEASE);
}

static void put_force(const struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    rdl__put_force(call, to, eval, RDL__SCRIPT_SIMPLE_FORCE);
}

static void put_holder(struct rdl__buf *to, const char *name, size_t len)
{
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "GET");
    rdl__cmd_arg(to, name, len);
}

static bool decode_holder(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len)
{
    if (reply->type != RDL__REPLY_STRING)
        return false;
    *ret_field = reply->str;
    *ret_len = reply->len;
    return true;
}

const struct rdl__lock_ops rdl__simple_ops = {
    .handle = &rdl__single_handle,
    .name = "simple",
    .kind = "simple",
    .call_back = rdl__lock_call_back,
    .channel = "redlatch_simple_channel",
    .news = RDL__NEWS_WAKE,
    .waits_on = rdl__waits_on_channel,
    .nests = false,
    .alone = true,
    .retry = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 25, .max_ms = 1000},
    .renew = RDL__SCRIPT_SIMPLE_RENEW,
    RDL__ONE_END,
    .put_take = put_take,
    .decode_take = decode_take,
    .leaves_trace = rdl__leaves_no_trace,
    .granted = rdl__granted_by_answer,
    .put_release = put_release,
    .put_query = rdl__put_exists,
    .decode_query = rdl__decode_number,
    .put_holder = put_holder,
    .decode_holder = decode_holder,
    .put_force = put_force,
};

RDL__CONSTRUCTOR(rdl_simple_lock, rdl__simple_ops, rdl__options_plain)
