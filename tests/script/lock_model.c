/* SPDX-License-Identifier: MIT */
#include "tests/script/lock_model.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static bool is_owner(const struct lock_state *state, const struct lock_call *call)
{
    return state->held && strcmp(state->owner, call->owner) == 0;
}

static int64_t time_left(const struct lock_state *state, int64_t now_ms)
{
    return state->expire_ms == NEVER ? -1 : state->expire_ms - now_ms;
}

/* protocol.md, 2: a time to live only grows. One that was taken off is put back. */
static void grow_lease(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    if (state->expire_ms < now_ms + call->lease_ms)
        state->expire_ms = now_ms + call->lease_ms;
}

static struct lock_answer take(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    if (!is_owner(state, call) && call->count > 1)
        return (struct lock_answer){.outcome = LOCK_HOLD_GONE};
    if (!state->held) {
        state->held = true;
        state->count = 1;
        state->expire_ms = now_ms + call->lease_ms;
        memcpy(state->owner, call->owner, sizeof state->owner);
        return (struct lock_answer){.outcome = LOCK_TAKEN};
    }
    if (call->verb == LOCK_FIRST_TRY)
        return (struct lock_answer){.outcome = LOCK_REFUSED_BLIND};
    if (!is_owner(state, call))
        return (struct lock_answer){.outcome = LOCK_REFUSED, .ms = time_left(state, now_ms)};
    if (state->count < call->count)
        state->count = call->count;
    grow_lease(state, call, now_ms);
    return (struct lock_answer){.outcome = LOCK_HELD_ALREADY};
}

static struct lock_answer release(struct lock_state *state, const struct lock_call *call)
{
    if (!is_owner(state, call))
        return (struct lock_answer){.outcome = LOCK_NO_SUCH_HOLD};
    if (call->count == 0) {
        state->held = false;
        return (struct lock_answer){.outcome = LOCK_FREED};
    }
    if (state->count > call->count)
        state->count = call->count;
    return (struct lock_answer){.outcome = LOCK_STILL_HELD};
}

static struct lock_answer renew(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_RENEWED, .ms = time_left(state, now_ms)};

    if (!is_owner(state, call))
        return (struct lock_answer){.outcome = LOCK_NO_SUCH_HOLD};
    grow_lease(state, call, now_ms);
    return answer;
}

struct lock_answer mutex_reference(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    switch (call->verb) {
    case LOCK_FIRST_TRY:
    case LOCK_TAKE:
        return take(state, call, now_ms);
    case LOCK_RELEASE:
        return release(state, call);
    default:
        return renew(state, call, now_ms);
    }
}

void place_name(char ret[LOCK_OWNER_SIZE], const char *owner)
{
    memset(ret, 0, LOCK_OWNER_SIZE);
    memcpy(ret, owner, strcspn(owner, ":"));
}

void tell_free(struct lock_answer *answer, int64_t count)
{
    if (count > 0)
        (void)snprintf(answer->told, sizeof answer->told, "%" PRId64, count);
}

/* ---- words and answers of mutex scripts ------------------------------------------------------------------------- */

void word_add(struct lock_words *w, const char *word)
{
    if (w->count == LOCK_WORDS)
        die("enumeration: a command of more than %d words", LOCK_WORDS);
    w->at[w->count++] = word;
}

void mutex_lay_out_as(enum lock_verb verb, const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    ret->count = 0;
    (void)snprintf(ret->numbers[0], sizeof ret->numbers[0], "%" PRId64, call->count);
    (void)snprintf(ret->numbers[1], sizeof ret->numbers[1], "%" PRId64, call->lease_ms);
    word_add(ret, "EVALSHA");
    word_add(ret, sha);
    word_add(ret, verb == LOCK_RELEASE ? "2" : "1");
    word_add(ret, LOCK_NAME);
    if (verb == LOCK_RELEASE)
        word_add(ret, LOCK_CHANNEL);
    word_add(ret, call->owner);
    if (verb != LOCK_RENEW)
        word_add(ret, ret->numbers[0]);
    if (verb == LOCK_RELEASE)
        word_add(ret, "publish");
    word_add(ret, ret->numbers[1]);
}

void mutex_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    mutex_lay_out_as(call->verb, call, sha, ret);
}

static struct lock_answer read_take(int64_t n)
{
    switch (n) {
    case -10:
        return (struct lock_answer){.outcome = LOCK_TAKEN};
    case -11:
        return (struct lock_answer){.outcome = LOCK_HELD_ALREADY};
    case -12:
        return (struct lock_answer){.outcome = LOCK_HOLD_GONE};
    default:
        return (struct lock_answer){.outcome = n >= -1 ? LOCK_REFUSED : LOCK_UNREADABLE, .ms = n};
    }
}

static struct lock_answer read_release(int64_t n)
{
    return (struct lock_answer){.outcome = n == 1     ? LOCK_FREED
                                           : n == 0   ? LOCK_STILL_HELD
                                           : n == -14 ? LOCK_NO_SUCH_HOLD
                                                      : LOCK_UNREADABLE};
}

static struct lock_answer read_renew(const struct reply *reply)
{
    int64_t n;

    if (reply->kind != REPLY_ARRAY || reply->count != 3 || reply->items[2].kind != REPLY_INTEGER)
        return (struct lock_answer){.outcome = LOCK_UNREADABLE};
    n = reply->items[2].integer;
    if (n >= -1)
        return (struct lock_answer){.outcome = LOCK_RENEWED, .ms = n};
    return (struct lock_answer){.outcome = n == -14 ? LOCK_NO_SUCH_HOLD : LOCK_UNREADABLE};
}

struct lock_answer mutex_read(enum lock_verb verb, const struct reply *reply)
{
    if (verb == LOCK_RENEW)
        return read_renew(reply);
    if (reply->kind != REPLY_INTEGER)
        return (struct lock_answer){.outcome = LOCK_UNREADABLE};
    return verb == LOCK_RELEASE ? read_release(reply->integer) : read_take(reply->integer);
}

/* ---- looking at the keyspace ------------------------------------------------------------------------------------ */

int64_t ask_integer(struct keyspace *ks, int64_t otherwise, const char *verb, const char *word)
{
    struct reply *r = ks_say(ks, verb, LOCK_NAME, word);
    int64_t n = r->kind == REPLY_INTEGER ? r->integer : otherwise;

    reply_free(r);
    return n;
}

bool ask_text(struct keyspace *ks, char ret[LOCK_OWNER_SIZE], const char *verb, const char *word)
{
    struct reply *r = ks_say(ks, verb, LOCK_NAME, word);
    const struct reply *text = r->kind == REPLY_ARRAY && r->count == 1 ? &r->items[0] : r;
    bool fits = text->kind == REPLY_STRING && text->len < LOCK_OWNER_SIZE;

    memset(ret, 0, LOCK_OWNER_SIZE);
    if (fits)
        memcpy(ret, text->text, text->len);
    reply_free(r);
    return fits;
}

int64_t ask_expiry(struct keyspace *ks)
{
    int64_t left = ask_integer(ks, NEVER, "PTTL", NULL);

    return left < 0 ? NEVER : ks_time(ks) / 1000 + left;
}

bool hash_look(struct keyspace *ks, struct lock_state *ret)
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

bool hash_holds(struct keyspace *ks, const char *owner)
{
    return ask_integer(ks, 0, "HEXISTS", owner) == 1;
}
