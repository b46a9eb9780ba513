/* lock_counted.c - semaphore and latch, for the enumeration: a number, and a guard for each request that changed it.
 *
 * The reference is PROTOCOL.md, 2: each verb carries the id of its request, which is stored with its answer in the same script.
 * So a request changes the number once, however often it comes, and one that was undone changes it no more. A request's id
 * is an owner's name with a number of its own, "A:1", and here the guard's key as well.
 *
 * In lock_state `held` says that the number is there, `count` is the number, and holds are the guards with their answers.
 */
#include "tests/script/lock_model.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_MS 3600000
#define KEEP_TEXT "3600000"
#define GUARD_OWNERS "ABC"
#define GUARD_NUMBERS 8

/* ---- the reference -------------------------------------------------------------------------------------------------------- */

static struct lock_hold *find_guard(struct lock_state *s, const char *request)
{
    for (size_t i = 0; i < s->holders; i++)
        if (strcmp(s->holds[i].owner, request) == 0)
            return &s->holds[i];
    return NULL;
}

static void set_guard(struct lock_state *s, const char *request, int64_t answer, int64_t now_ms)
{
    struct lock_hold *guard = find_guard(s, request);
    size_t at = 0;

    if (guard == NULL) {
        if (s->holders == LOCK_HOLDS_MAX)
            die("enumeration: more than %d guards", LOCK_HOLDS_MAX);
        while (at < s->holders && strcmp(s->holds[at].owner, request) < 0)
            at++;
        guard = &s->holds[at];
        memmove(guard + 1, guard, (s->holders - at) * sizeof *guard);
        s->holders++;
        memcpy(guard->owner, request, sizeof guard->owner);
    }
    guard->count = answer;
    guard->until_ms = now_ms + KEEP_MS;
}

static void change(struct lock_state *s, int64_t by)
{
    s->held = true;
    s->expire_ms = NEVER;
    s->count += by;
}

static struct lock_answer semaphore_reference(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    const struct lock_hold *guard = find_guard(s, call->owner);
    int64_t back = guard != NULL ? guard->count : 0;

    switch (call->verb) {
    case LOCK_TAKE:
        if (guard == NULL && s->count < call->count)
            return (struct lock_answer){.outcome = LOCK_REFUSED, .ms = s->count};
        if (guard == NULL) {
            change(s, -call->count);
            set_guard(s, call->owner, call->count, now_ms);
        }
        return (struct lock_answer){.outcome = LOCK_TAKEN, .ms = s->count};
    case LOCK_RELEASE: /* undo: a take that comes later finds itself carried out */
        if (back > 0)
            change(s, back);
        set_guard(s, call->owner, 0, now_ms);
        return (struct lock_answer){.outcome = LOCK_FREED, .ms = back};
    default:
        if (guard == NULL) {
            change(s, call->count);
            set_guard(s, call->owner, 1, now_ms);
        }
        return (struct lock_answer){.outcome = LOCK_FREED};
    }
}

static struct lock_answer latch_reference(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    const struct lock_hold *guard = find_guard(s, call->owner);

    if (guard != NULL)
        return (struct lock_answer){.outcome = LOCK_TAKEN, .ms = guard->count};
    if (s->held && --s->count == 0)
        s->held = false;
    set_guard(s, call->owner, s->count, now_ms);
    return (struct lock_answer){.outcome = LOCK_TAKEN, .ms = s->count};
}

/* ---- the keyspace ---------------------------------------------------------------------------------------------------------- */

static void counted_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    ret->count = 0;
    (void)snprintf(ret->numbers[0], sizeof ret->numbers[0], "%" PRId64, call->count);
    word_add(ret, "EVALSHA");
    word_add(ret, sha);
    word_add(ret, "3");
    word_add(ret, LOCK_NAME);
    word_add(ret, LOCK_CHANNEL);
    word_add(ret, call->owner);
    word_add(ret, ret->numbers[0]);
    word_add(ret, KEEP_TEXT);
}

static struct lock_answer counted_read(enum lock_verb verb, const struct reply *reply)
{
    int64_t n = reply->integer;

    if (reply->kind != REPLY_INTEGER)
        return (struct lock_answer){.outcome = LOCK_UNREADABLE};
    if (verb != LOCK_TAKE)
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

static bool read_guard(struct keyspace *ks, struct lock_state *ret, const char *request)
{
    struct reply *r;
    int64_t answer;
    bool ends;

    if (!read_number(ks, request, &answer))
        return true;
    r = ks_say(ks, "PTTL", request);
    ends = r->kind == REPLY_INTEGER && r->integer > 0;
    if (ends)
        set_guard(ret, request, answer, ks_time(ks) / 1000 + r->integer - KEEP_MS);
    reply_free(r);
    return ends;
}

static bool counted_look(struct keyspace *ks, struct lock_state *ret)
{
    bool well = true;

    *ret = (struct lock_state){0};
    ret->held = read_number(ks, LOCK_NAME, &ret->count);
    ret->expire_ms = NEVER;
    for (const char *owner = GUARD_OWNERS; *owner != '\0'; owner++) {
        for (unsigned n = 1; n < GUARD_NUMBERS && well; n++) {
            char request[LOCK_OWNER_SIZE] = {0};

            (void)snprintf(request, sizeof request, "%c:%u", *owner, n);
            well = read_guard(ks, ret, request);
        }
    }
    return well;
}

const struct lock_type semaphore_type = {
    .name = "semaphore",
    .stock = 2,
    .scripts = {[LOCK_TAKE] = "semaphore_take", [LOCK_RELEASE] = "semaphore_undo", [LOCK_GIVE] = "semaphore_add"},
    .lay_out = counted_lay_out,
    .read = counted_read,
    .look = counted_look,
    .reference = semaphore_reference,
};

const struct lock_type latch_type = {
    .name = "latch",
    .stock = 3,
    .scripts = {[LOCK_TAKE] = "latch_count_down"},
    .lay_out = counted_lay_out,
    .read = counted_read,
    .look = counted_look,
    .reference = latch_reference,
};
