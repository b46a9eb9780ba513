/* SPDX-License-Identifier: MIT */
/* lock_counted.c - semaphore and latch, for the enumeration: a number, and a guard for each request that changed it.
 *
 * The reference is protocol.md, 2: each verb carries the id of its request, which is stored with its answer in the same
 * script. So a request changes the number once, however often it comes, and one that was undone changes it no more. A
 * semaphore may be taken by turns. Whoever changes what is free says so on the channel; so does who leaves others
 * behind in a queue.
 *
 * In lock_state `held` says that the number is there, and `count` is the number.
 */
#include "tests/script/lock_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static void change(struct lock_state *s, int64_t by)
{
    s->held = true;
    s->expire_ms = NEVER;
    s->count += by;
}

/* Some are free now, and nobody was in front of them, or somebody is left behind. */
static struct lock_answer semaphore_take(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_TAKEN};
    struct turn turn = {.mine = true};

    if (guard_of(s, call->owner) != NULL) {
        answer.ms = s->count;
        return answer;
    }
    if (s->turns)
        turn = turn_of(s, call->owner, now_ms);
    if (turn.mine && s->count >= call->count) {
        change(s, -call->count);
        guard_set(s, call->owner, call->count, now_ms);
        answer.ms = s->count;
        if (s->turns && turn_leave(s, call->owner))
            tell_free(&answer, s->count);
        return answer;
    }
    answer = (struct lock_answer){.outcome = LOCK_REFUSED, .ms = turn.mine ? s->count : 0};
    if (s->turns)
        turn_stand(s, call->owner, now_ms);
    if (turn.dropped && !turn.mine)
        tell_free(&answer, s->count);
    return answer;
}

/* What was taken goes back, and a take that comes later finds itself carried out. */
static struct lock_answer semaphore_undo(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    const struct lock_hold *guard = guard_of(s, call->owner);
    struct lock_answer answer = {.outcome = LOCK_FREED, .ms = guard != NULL ? guard->count : 0};
    bool news = answer.ms > 0;

    if (s->turns) {
        news |= turn_of(s, call->owner, now_ms).dropped;
        news |= turn_leave(s, call->owner);
    }
    if (answer.ms > 0)
        change(s, answer.ms);
    guard_set(s, call->owner, 0, now_ms);
    if (news)
        tell_free(&answer, s->count);
    return answer;
}

static struct lock_answer semaphore_drain(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    int64_t taken = s->count > 0 ? s->count : 0;

    if (guard_of(s, call->owner) == NULL) {
        if (taken > 0)
            change(s, -taken);
        guard_set(s, call->owner, taken, now_ms);
    }
    return (struct lock_answer){.outcome = LOCK_TAKEN, .ms = guard_of(s, call->owner)->count};
}

static struct lock_answer semaphore_give(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_FREED};

    if (guard_of(s, call->owner) == NULL) {
        change(s, call->count);
        guard_set(s, call->owner, 1, now_ms);
        tell_free(&answer, s->count);
    }
    return answer;
}

/* Of a semaphore or a latch: said once, by the first. */
static struct lock_answer set_once(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_TAKEN};

    if (guard_of(s, call->owner) == NULL) {
        bool first = !s->held;

        if (first)
            change(s, call->count);
        guard_set(s, call->owner, first, now_ms);
        if (first)
            tell_free(&answer, s->count);
    }
    answer.ms = guard_of(s, call->owner)->count;
    return answer;
}

static struct lock_answer semaphore_reference(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    switch (call->verb) {
    case LOCK_TAKE:
        return semaphore_take(s, call, now_ms);
    case LOCK_RELEASE:
        return semaphore_undo(s, call, now_ms);
    case LOCK_DRAIN:
        return semaphore_drain(s, call, now_ms);
    case LOCK_SET:
        return set_once(s, call, now_ms);
    default:
        return semaphore_give(s, call, now_ms);
    }
}

static struct lock_answer latch_reference(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_TAKEN};

    if (call->verb == LOCK_SET) {
        bool open = !s->held;

        answer = set_once(s, call, now_ms);
        if (open && s->held)
            memcpy(answer.told, "1", 2); /* not open any more, however much is to be counted */
        return answer;
    }
    if (guard_of(s, call->owner) == NULL) {
        if (s->held && --s->count == 0) {
            s->held = false;
            memcpy(answer.told, "0", 2);
        }
        guard_set(s, call->owner, s->count, now_ms);
    }
    answer.ms = guard_of(s, call->owner)->count;
    return answer;
}

/* ---- the keyspace ----------------------------------------------------------------------------------------------- */

static void lay_out(const struct lock_call *call, const char *sha, bool turns, struct lock_words *ret)
{
    ret->count = 0;
    (void)snprintf(ret->numbers[0], sizeof ret->numbers[0], "%" PRId64, call->count);
    word_add(ret, "EVALSHA");
    word_add(ret, sha);
    word_add(ret, turns ? "5" : "3");
    word_add(ret, LOCK_NAME);
    word_add(ret, LOCK_CHANNEL);
    word_add(ret, call->owner);
    if (turns)
        turn_keys(call, ret);
    word_add(ret, ret->numbers[0]);
    word_add(ret, guard_keep);
    if (turns) {
        word_add(ret, "publish");
        turn_words(ret, call->verb == LOCK_TAKE);
    }
}

static void counted_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    lay_out(call, sha, false, ret);
}

/* Only who takes, and who undoes that, knows of turns. */
static void fair_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    lay_out(call, sha, call->verb == LOCK_TAKE || call->verb == LOCK_RELEASE, ret);
}

static struct lock_answer counted_read(enum lock_verb verb, const struct reply *reply)
{
    int64_t n = reply->integer;

    if (reply->kind != REPLY_INTEGER)
        return (struct lock_answer){.outcome = LOCK_UNREADABLE};
    if (verb == LOCK_RELEASE || verb == LOCK_GIVE)
        return (struct lock_answer){.outcome = LOCK_FREED, .ms = n};
    return n >= 0 ? (struct lock_answer){.outcome = LOCK_TAKEN, .ms = n}
                  : (struct lock_answer){.outcome = LOCK_REFUSED, .ms = -1 - n};
}

/* False: there is none. */
static bool read_number(struct keyspace *ks, const char *key, int64_t *ret)
{
    struct reply *r = ks_say(ks, "GET", key);
    bool there = r->kind == REPLY_STRING;

    if (there)
        *ret = atoll(r->text);
    reply_free(r);
    return there;
}

static bool counted_look(struct keyspace *ks, struct lock_state *ret)
{
    *ret = (struct lock_state){.expire_ms = NEVER};
    ret->held = read_number(ks, LOCK_NAME, &ret->count);
    return guards_look(ks, ret);
}

static bool fair_look(struct keyspace *ks, struct lock_state *ret)
{
    return counted_look(ks, ret) && turns_look(ks, ret);
}

/* What all semaphores have in common. */
#define SEMAPHORE                                                                                                      \
    .stock = 2, .tells = true,                                                                                         \
    .scripts = {[LOCK_TAKE] = "semaphore_take",                                                                        \
                [LOCK_RELEASE] = "semaphore_undo",                                                                     \
                [LOCK_GIVE] = "semaphore_add",                                                                         \
                [LOCK_DRAIN] = "semaphore_drain",                                                                      \
                [LOCK_SET] = "semaphore_try_set"},                                                                     \
    .read = counted_read, .reference = semaphore_reference

const struct lock_type semaphore_type = {
    .name = "semaphore",
    SEMAPHORE,
    .lay_out = counted_lay_out,
    .look = counted_look,
};

const struct lock_type bare_semaphore_type = {
    .name = "semaphore that somebody sets",
    SEMAPHORE,
    .bare = true,
    .lay_out = counted_lay_out,
    .look = counted_look,
};

/* After two ticks a place is over. */
const struct lock_type fair_semaphore_type = {
    .name = "fair semaphore",
    SEMAPHORE,
    .tick_ms = 8000,
    .turns = true,
    .lay_out = fair_lay_out,
    .look = fair_look,
    .waits = turns_waits,
};

const struct lock_type latch_type = {
    .name = "latch",
    .stock = 3,
    .tells = true,
    .scripts = {[LOCK_TAKE] = "latch_count_down", [LOCK_SET] = "latch_try_set"},
    .lay_out = counted_lay_out,
    .read = counted_read,
    .look = counted_look,
    .reference = latch_reference,
};
