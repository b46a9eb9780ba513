/* SPDX-License-Identifier: MIT */
/* lock_permit.c - the semaphore of permits with leases, for the enumeration.
 *
 * The reference is protocol.md, 2: permits use their own ids, so that a take is there or not, and giving back finds it
 * or not. A permit whose lease has ended returns when a verb comes by; its end only moves away. Each owner takes one
 * permit at a time, whose id is its name, "A:1", with dots behind it. Who says how many there are in all has a guard.
 * Permits may be taken by turns. Whoever finds more free than before says so on the channel; so does who leaves others
 * behind in a queue.
 *
 * In lock_state `count` is how many are free, and holds are those taken.
 */
#include "tests/script/lock_model.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAKEN_KEY "t"
#define ID_LEN 16

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static size_t find_permit(const struct lock_state *s, const char *id)
{
    size_t at = 0;

    while (at < s->holders && strcmp(s->holds[at].owner, id) != 0)
        at++;
    return at;
}

static void give_back(struct lock_state *s, size_t at)
{
    memmove(&s->holds[at], &s->holds[at + 1], (s->holders - at - 1) * sizeof s->holds[0]);
    s->holders--;
    s->count++;
}

/* In order of their names. */
static void add_permit(struct lock_state *s, const char *id, int64_t until_ms)
{
    size_t at = 0;

    if (s->holders == LOCK_HOLDS_MAX)
        die("enumeration: more than %d permits", LOCK_HOLDS_MAX);
    while (at < s->holders && strcmp(s->holds[at].owner, id) < 0)
        at++;
    memmove(&s->holds[at + 1], &s->holds[at], (s->holders - at) * sizeof s->holds[0]);
    s->holders++;
    s->holds[at] = (struct lock_hold){.count = 1, .until_ms = until_ms};
    memcpy(s->holds[at].owner, id, sizeof s->holds[at].owner);
}

/* True: some have. */
static bool let_return(struct lock_state *s, int64_t now_ms)
{
    size_t before = s->holders;

    for (size_t at = s->holders; at-- > 0;)
        if (s->holds[at].until_ms <= now_ms)
            give_back(s, at);
    return s->holders < before;
}

/* Until the first of them ends. */
static int64_t first_end(const struct lock_state *s, int64_t now_ms)
{
    int64_t first = -1;

    for (size_t i = 0; i < s->holders; i++)
        if (first < 0 || s->holds[i].until_ms - now_ms < first)
            first = s->holds[i].until_ms - now_ms;
    return first;
}

/* At least the lease from now. */
static void last(struct lock_hold *permit, const struct lock_call *call, int64_t now_ms)
{
    if (permit->until_ms < now_ms + call->lease_ms)
        permit->until_ms = now_ms + call->lease_ms;
}

/* `news`: more are free than before the call, like everywhere below. */
static struct lock_answer take(struct lock_state *s, const struct lock_call *call, bool news, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_TAKEN};
    struct turn turn = {.mine = true};
    size_t at = find_permit(s, call->owner);

    if (at < s->holders) {
        last(&s->holds[at], call, now_ms);
    } else {
        if (s->turns)
            turn = turn_of(s, call->owner, now_ms);
        if (turn.mine && s->count > 0) {
            add_permit(s, call->owner, now_ms + call->lease_ms);
            s->count--;
            news |= s->turns && turn_leave(s, call->owner);
        } else {
            answer.outcome = LOCK_REFUSED;
            news |= turn.dropped && !turn.mine;
            if (s->turns)
                turn_stand(s, call->owner, now_ms);
        }
    }
    answer.ms = answer.outcome == LOCK_REFUSED ? first_end(s, now_ms) : s->count > 0 ? s->count : 0;
    if (news)
        tell_free(&answer, s->count);
    return answer;
}

/* By who has it, or to undo a take. */
static struct lock_answer give(struct lock_state *s, const struct lock_call *call, bool news, int64_t now_ms)
{
    size_t at = find_permit(s, call->owner);
    bool taken = at < s->holders;
    struct lock_answer answer = {.outcome = taken ? LOCK_FREED : LOCK_NO_SUCH_HOLD};

    if (s->turns && call->verb == LOCK_RELEASE) {
        news |= turn_of(s, call->owner, now_ms).dropped;
        news |= turn_leave(s, call->owner);
    }
    if (taken)
        give_back(s, at);
    if (taken || news)
        tell_free(&answer, s->count);
    return answer;
}

static struct lock_answer extend(struct lock_state *s, const struct lock_call *call, bool news, int64_t now_ms)
{
    size_t at = find_permit(s, call->owner);
    struct lock_answer answer = {.outcome = LOCK_NO_SUCH_HOLD};

    if (at < s->holders) {
        last(&s->holds[at], call, now_ms);
        answer = (struct lock_answer){.outcome = LOCK_RENEWED, .ms = s->holds[at].until_ms - now_ms};
    }
    if (news)
        tell_free(&answer, s->count);
    return answer;
}

/* So many there are in all; fewer than none may then be free. A repeat finds that it was said, and only that. */
static struct lock_answer set(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_TAKEN};

    if (guard_of(s, call->owner) != NULL)
        return answer;
    (void)let_return(s, now_ms);
    s->count = call->count - (int64_t)s->holders;
    guard_set(s, call->owner, 1, now_ms);
    tell_free(&answer, s->count);
    return answer;
}

static struct lock_answer permit_reference(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    bool news;

    if (call->verb == LOCK_SET)
        return set(s, call, now_ms);
    news = let_return(s, now_ms);
    switch (call->verb) {
    case LOCK_TAKE:
        return take(s, call, news, now_ms);
    case LOCK_RELEASE:
    case LOCK_GIVE:
        return give(s, call, news, now_ms);
    default:
        return extend(s, call, news, now_ms);
    }
}

/* ---- the keyspace ----------------------------------------------------------------------------------------------- */

static void lay_out_set(const struct lock_call *call, struct lock_words *ret)
{
    (void)snprintf(ret->numbers[0], sizeof ret->numbers[0], "%" PRId64, call->count);
    word_add(ret, call->owner);
    word_add(ret, "publish");
    word_add(ret, ret->numbers[0]);
    word_add(ret, guard_keep);
}

static void lay_out(const struct lock_call *call, const char *sha, bool turns, struct lock_words *ret)
{
    bool takes = call->verb == LOCK_TAKE || call->verb == LOCK_RELEASE;

    ret->count = 0;
    word_add(ret, "EVALSHA");
    word_add(ret, sha);
    word_add(ret, takes && turns ? "5" : call->verb == LOCK_SET ? "4" : "3");
    word_add(ret, LOCK_NAME);
    word_add(ret, TAKEN_KEY);
    word_add(ret, LOCK_CHANNEL);
    if (call->verb == LOCK_SET) {
        lay_out_set(call, ret);
        return;
    }
    (void)snprintf(ret->numbers[1], sizeof ret->numbers[1], "%" PRId64, call->lease_ms);
    (void)snprintf(ret->id, sizeof ret->id, "%s...............", call->owner);
    ret->id[ID_LEN] = '\0';
    if (takes && turns)
        turn_keys(call, ret);
    if (takes)
        word_add(ret, ret->numbers[1]);
    word_add(ret, "publish");
    if (call->verb == LOCK_RENEW)
        word_add(ret, ret->numbers[1]);
    if (takes && turns) {
        turn_words(ret, call->verb == LOCK_TAKE);
    } else if (takes) {
        word_add(ret, "p"); /* no place in a queue, */
        word_add(ret, "0"); /* and none wanted */
    }
    word_add(ret, ret->id);
}

static void permit_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    lay_out(call, sha, false, ret);
}

static void fair_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    lay_out(call, sha, true, ret);
}

static struct lock_answer permit_read(enum lock_verb verb, const struct reply *reply)
{
    bool refused = verb == LOCK_TAKE && reply->kind == REPLY_ARRAY && reply->count == 2;

    if (refused)
        return (struct lock_answer){.outcome = LOCK_REFUSED, .ms = reply->items[1].integer};
    if (reply->kind != REPLY_INTEGER)
        return (struct lock_answer){.outcome = LOCK_UNREADABLE};
    if (verb == LOCK_TAKE || verb == LOCK_SET)
        return (struct lock_answer){.outcome = LOCK_TAKEN, .ms = reply->integer};
    if (verb == LOCK_RENEW && reply->integer > 0)
        return (struct lock_answer){.outcome = LOCK_RENEWED, .ms = reply->integer};
    return (struct lock_answer){.outcome = reply->integer == 1 ? LOCK_FREED : LOCK_NO_SUCH_HOLD};
}

static bool read_permit(struct lock_state *ret, const struct reply *id, const struct reply *score)
{
    char owner[LOCK_OWNER_SIZE] = {0};
    size_t len = strcspn(id->text, ".");

    if (id->len != ID_LEN || len >= sizeof owner)
        return false;
    memcpy(owner, id->text, len);
    add_permit(ret, owner, atoll(score->text));
    return true;
}

static bool permit_look(struct keyspace *ks, struct lock_state *ret)
{
    char free_now[LOCK_OWNER_SIZE];
    struct reply *r = ks_say(ks, "ZRANGE", TAKEN_KEY, "0", "-1", "WITHSCORES");
    bool well = r->kind == REPLY_ARRAY;

    *ret = (struct lock_state){.held = true, .expire_ms = NEVER};
    for (size_t i = 0; well && i + 1 < r->count; i += 2)
        well = read_permit(ret, &r->items[i], &r->items[i + 1]);
    reply_free(r);
    if (!ask_text(ks, free_now, "GET", NULL))
        return false;
    ret->count = atoll(free_now);
    return well && guards_look(ks, ret);
}

static bool fair_look(struct keyspace *ks, struct lock_state *ret)
{
    return permit_look(ks, ret) && turns_look(ks, ret);
}

static bool permit_holds(struct keyspace *ks, const char *owner)
{
    struct lock_state s;
    size_t at;

    if (!permit_look(ks, &s))
        return false;
    at = find_permit(&s, owner);
    return at < s.holders && s.holds[at].until_ms > ks_time(ks) / 1000;
}

#define PERMIT_SCRIPTS                                                                                                 \
    {                                                                                                                  \
        [LOCK_TAKE] = "permit_take", [LOCK_RELEASE] = "permit_undo", [LOCK_GIVE] = "permit_release",                   \
        [LOCK_RENEW] = "permit_extend", [LOCK_SET] = "permit_set"                                                      \
    }

const struct lock_type permit_type = {
    .name = "permit",
    .stock = 1,
    .most = 2,
    .tells = true,
    .scripts = PERMIT_SCRIPTS,
    .lay_out = permit_lay_out,
    .read = permit_read,
    .look = permit_look,
    .holds = permit_holds,
    .reference = permit_reference,
};

/* After two ticks a place is over. */
const struct lock_type fair_permit_type = {
    .name = "fair permit",
    .stock = 1,
    .most = 2,
    .tick_ms = 8000,
    .turns = true,
    .tells = true,
    .scripts = PERMIT_SCRIPTS,
    .lay_out = fair_lay_out,
    .read = permit_read,
    .look = fair_look,
    .holds = permit_holds,
    .waits = turns_waits,
    .reference = permit_reference,
};
