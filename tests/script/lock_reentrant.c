/* lock_reentrant.c - the reentrant lock, for the enumeration: a hash of one field, the holder's, with its count. */
#include "tests/script/lock_model.h"

#include <stdlib.h>

static bool reentrant_look(struct keyspace *ks, struct lock_state *ret)
{
    char count[LOCK_OWNER_SIZE];

    *ret = (struct lock_state){0};
    if (ask_integer(ks, -1, "EXISTS", NULL) == 0)
        return true;
    ret->held = true;
    ret->expire_ms = ask_expiry(ks);
    if (!ask_text(ks, ret->owner, "HKEYS", NULL) || !ask_text(ks, count, "HGET", ret->owner))
        return false;
    ret->count = atoll(count);
    return true;
}

static bool reentrant_holds(struct keyspace *ks, const char *owner)
{
    return ask_integer(ks, 0, "HEXISTS", owner) == 1;
}

const struct lock_type reentrant_type = {
    .name = "reentrant",
    .reentrant = true,
    .scripts = {[LOCK_TAKE] = "reentrant_take", [LOCK_RELEASE] = "reentrant_release", [LOCK_RENEW] = "reentrant_renew"},
    .lay_out = mutex_lay_out,
    .read = mutex_read,
    .look = reentrant_look,
    .holds = reentrant_holds,
    .reference = mutex_reference,
};
