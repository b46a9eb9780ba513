/* SPDX-License-Identifier: MIT */
/* lock_simple.c - the simple lock, for the enumeration: a string, the holder's value. Its first try is a plain SET NX
 * PX. */
#include "tests/script/lock_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void simple_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    if (call->verb != LOCK_FIRST_TRY) {
        mutex_lay_out(call, sha, ret);
        return;
    }
    ret->count = 0;
    (void)snprintf(ret->numbers[1], sizeof ret->numbers[1], "%" PRId64, call->lease_ms);
    word_add(ret, "SET");
    word_add(ret, LOCK_NAME);
    word_add(ret, call->owner);
    word_add(ret, "NX");
    word_add(ret, "PX");
    word_add(ret, ret->numbers[1]);
}

static struct lock_answer simple_read(enum lock_verb verb, const struct reply *reply)
{
    if (verb != LOCK_FIRST_TRY)
        return mutex_read(verb, reply);
    return (struct lock_answer){.outcome = reply->kind == REPLY_STATUS ? LOCK_TAKEN
                                           : reply->kind == REPLY_NIL  ? LOCK_REFUSED_BLIND
                                                                       : LOCK_UNREADABLE};
}

static bool simple_look(struct keyspace *ks, struct lock_state *ret)
{
    *ret = (struct lock_state){0};
    if (ask_integer(ks, -1, "EXISTS", NULL) == 0)
        return true;
    ret->held = true;
    ret->count = 1;
    ret->expire_ms = ask_expiry(ks);
    return ask_text(ks, ret->owner, "GET", NULL);
}

static bool simple_holds(struct keyspace *ks, const char *owner)
{
    char holder[LOCK_OWNER_SIZE];

    return ask_text(ks, holder, "GET", NULL) && strcmp(holder, owner) == 0;
}

const struct lock_type simple_type = {
    .name = "simple",
    .has_first_try = true,
    .scripts = {[LOCK_TAKE] = "simple_take", [LOCK_RELEASE] = "simple_release", [LOCK_RENEW] = "simple_renew"},
    .lay_out = simple_lay_out,
    .read = simple_read,
    .look = simple_look,
    .holds = simple_holds,
    .reference = mutex_reference,
};
