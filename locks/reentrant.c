/* reentrant.c - the general-purpose lock: a hash of one field (WIRE.md, Reentrant). */
#include "locks/type.h"
#include "scripts/scripts.h"

static void encode_holder(struct rdl__buf *to, const char *name, size_t len)
{
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "HKEYS");
    rdl__cmd_arg(to, name, len);
}

static bool decode_holder(const struct rdl__reply *reply, const char **ret_field, size_t *ret_len)
{
    const struct rdl__reply *field = rdl__reply_at(reply, 0);

    if (field == NULL || field->type != RDL__REPLY_STRING)
        return false;
    *ret_field = field->str;
    *ret_len = field->len;
    return true;
}

const struct rdl__lock_ops rdl__reentrant_ops = {
    .name = "reentrant",
    .reentrant = true,
    .channel = "redisson_lock__channel",
    .take = RDL__SCRIPT_REENTRANT_TAKE,
    .release = RDL__SCRIPT_REENTRANT_RELEASE,
    .renew = RDL__SCRIPT_REENTRANT_RENEW,
    .force = RDL__SCRIPT_REENTRANT_FORCE,
    .retry = {.kind = RDL_RETRY_NONE},
    .encode_holder = encode_holder,
    .decode_holder = decode_holder,
};
