/* simple.c - the lock everybody's code speaks: a string whose value is the owner's, SET NX PX, compare and delete.
 *
 * The first try is the plain command, six times cheaper in the server than a script. It says nothing of the time left,
 * and cannot be repeated (its second run would refuse itself), so every later try is the script's. The channel is our
 * own: only our unlock publishes, foreign ones are found by polling.
 */
#include "locks/types.h"
#include "scripts/scripts.h"

#include <string.h>

static void encode_first(struct rdl__buf *to, const struct rdl__try *t)
{
    rdl__cmd_begin(to, 6);
    rdl__cmd_arg(to, "SET", 3);
    rdl__cmd_arg(to, t->name, t->name_len);
    rdl__cmd_arg(to, t->field, t->field_len);
    rdl__cmd_arg(to, "NX", 2);
    rdl__cmd_arg(to, "PX", 2);
    rdl__cmd_int(to, t->lease_ms);
}

static bool decode_first(const struct rdl__reply *reply, int64_t *ret)
{
    if (reply->type == RDL__REPLY_NIL)
        *ret = -1; /* refused, time left unknown */
    else if (reply->type == RDL__REPLY_STRING && strcmp(reply->str, "OK") == 0)
        *ret = RDL__TAKEN;
    else
        return false;
    return true;
}

static void encode_holder(struct rdl__buf *to, const char *name, size_t len)
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
    .nests = false,
    .channel = "redlatch_simple_channel",
    .take = RDL__SCRIPT_SIMPLE_TAKE,
    .release = RDL__SCRIPT_SIMPLE_RELEASE,
    .renew = RDL__SCRIPT_SIMPLE_RENEW,
    .force = RDL__SCRIPT_SIMPLE_FORCE,
    .retry = {.kind = RDL_RETRY_EXPONENTIAL, .min_ms = 25, .max_ms = 1000},
    .encode_first = encode_first,
    .decode_first = decode_first,
    .encode_holder = encode_holder,
    .decode_holder = decode_holder,
};
