/* SPDX-License-Identifier: MIT */
/* lock_fenced.c - the fenced lock, for the enumeration: the reentrant lock's hash, and a key that counts tokens. */
#include "tests/script/lock_model.h"

#include <stdlib.h>
#include <string.h>

#define COUNTER "tokens"
#define COUNTED (-1000) /* less the token */

static void fenced_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    enum { NUMKEYS = 2, SECOND_KEY = 4 };

    mutex_lay_out(call, sha, ret);
    if (call->verb != LOCK_TAKE)
        return;
    word_add(ret, NULL);
    memmove(&ret->at[SECOND_KEY + 1], &ret->at[SECOND_KEY], (ret->count - SECOND_KEY - 1) * sizeof *ret->at);
    ret->at[SECOND_KEY] = COUNTER;
    ret->at[NUMKEYS] = "2";
}

static struct lock_answer fenced_read(enum lock_verb verb, const struct reply *reply)
{
    if (verb == LOCK_TAKE && reply->kind == REPLY_INTEGER && reply->integer < COUNTED)
        return (struct lock_answer){.outcome = LOCK_TAKEN, .ms = COUNTED - reply->integer};
    return mutex_read(verb, reply);
}

static bool fenced_look(struct keyspace *ks, struct lock_state *ret)
{
    bool readable = hash_look(ks, ret);
    struct reply *token = ks_say(ks, "GET", COUNTER);

    ret->token = token->kind == REPLY_STRING ? atoll(token->text) : 0;
    reply_free(token);
    return readable;
}

/* A hold's first take and every repeat of it answer the same token: one more than the hold's before. */
static struct lock_answer fenced_reference(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = mutex_reference(state, call, now_ms);

    if (call->verb != LOCK_TAKE || call->count > 1)
        return answer;
    if (answer.outcome == LOCK_TAKEN)
        state->token++;
    if (answer.outcome == LOCK_TAKEN || answer.outcome == LOCK_HELD_ALREADY)
        answer = (struct lock_answer){.outcome = LOCK_TAKEN, .ms = state->token};
    return answer;
}

const struct lock_type fenced_type = {
    .name = "fenced",
    .reentrant = true,
    .scripts = {[LOCK_TAKE] = "fenced_take", [LOCK_RELEASE] = "reentrant_release", [LOCK_RENEW] = "reentrant_renew"},
    .lay_out = fenced_lay_out,
    .read = fenced_read,
    .look = fenced_look,
    .holds = hash_holds,
    .reference = fenced_reference,
};
