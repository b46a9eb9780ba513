/* SPDX-License-Identifier: MIT */
/* lock_fair.c - the fair lock, for the enumeration: a reentrant lock and its queue.
 *
 * The reference is protocol.md, 7 without peers: whoever is refused stands in the queue, first come, first served, and
 * lives for LIFE_MS after each try; the dead are dropped when they are at the front and somebody looks; a free lock is
 * passed on to the first that lives by whoever frees it, leaves the front of its queue, or looks and is not that one.
 * Scores, arrivals and times to live of the queue's keys are how Redis holds that, so `look` asks that they make sense,
 * and the reference does not know them.
 */
#include "tests/script/lock_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_TICKS 2
#define LIFE_MS 2000
#define LIFE_TEXT "2000"
#define HEADROOM_MS 900000
#define KEEP_MS 3600000
#define QUEUE "q"
#define SCORES "t"
#define WAITERS "w"

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static int64_t number_in(const char *owner)
{
    return atoll(owner + strcspn(owner, ":") + 1);
}

static bool same_place(const char *a, const char *b)
{
    char at[LOCK_OWNER_SIZE], bt[LOCK_OWNER_SIZE];

    place_name(at, a);
    place_name(bt, b);
    return strcmp(at, bt) == 0;
}

static size_t place_of(const struct lock_state *s, const char *owner)
{
    size_t at = 0;

    while (at < s->waiting && !same_place(s->queue[at].owner, owner))
        at++;
    return at;
}

static void leave(struct lock_state *s, size_t at)
{
    memmove(&s->queue[at], &s->queue[at + 1], (s->waiting - at - 1) * sizeof s->queue[0]);
    s->waiting--;
}

static void drop_dead(struct lock_state *s, const char *but, int64_t now_ms)
{
    while (s->waiting > 0 && s->queue[0].alive_until_ms <= now_ms && !same_place(s->queue[0].owner, but))
        leave(s, 0);
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A free lock is the first's that lives, as long as that one lives, and it is told which sending of its take that rests
 * on. */
static void pass_on(struct lock_state *s, struct lock_answer *answer, int64_t now_ms)
{
    struct lock_waiter *first = &s->queue[0];

    if (s->held)
        return;
    drop_dead(s, "", now_ms);
    if (s->waiting == 0)
        return;
    s->held = true;
    s->count = 1;
    s->expire_ms = now_ms + lesser(first->lease_ms, first->alive_until_ms - now_ms);
    memcpy(s->owner, first->owner, LOCK_OWNER_SIZE);
    place_name(answer->woken, first->owner);
    (void)snprintf(answer->said, sizeof answer->said, "%" PRId64 ":%" PRId64 ":0", number_in(first->owner),
                   first->sending);
    leave(s, 0);
}

static void stand(struct lock_state *s, const struct lock_call *call, struct lock_answer *answer, int64_t now_ms)
{
    size_t at = place_of(s, call->owner);

    if (at == s->waiting)
        memcpy(s->queue[s->waiting++].owner, call->owner, LOCK_OWNER_SIZE);
    s->queue[at].alive_until_ms = now_ms + LIFE_MS;
    s->queue[at].lease_ms = call->lease_ms;
    s->queue[at].sending = call->sending;
    answer->outcome = LOCK_REFUSED;
    answer->ms = lesser(LIFE_MS / 3, s->queue[0].alive_until_ms - now_ms);
    if (s->held && s->expire_ms != NEVER)
        answer->ms = lesser(answer->ms, s->expire_ms - now_ms);
    if (answer->ms < 1)
        answer->ms = 1;
}

/* Of two takes of an owner the later counts. */
static struct lock_answer take(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_REFUSED, .ms = s->held ? s->expire_ms - now_ms : -1};
    size_t at = place_of(s, call->owner);
    int64_t other = at < s->waiting ? number_in(s->queue[at].owner) : number_in(call->owner);

    if ((s->held && strcmp(s->owner, call->owner) == 0) || call->count > 1)
        return mutex_reference(s, call, now_ms);
    if (other > number_in(call->owner))
        return answer;
    if (other < number_in(call->owner))
        leave(s, at);
    drop_dead(s, call->owner, now_ms);
    if (!s->held && (s->waiting == 0 || same_place(s->queue[0].owner, call->owner))) {
        if (s->waiting > 0)
            leave(s, 0);
        return mutex_reference(s, call, now_ms);
    }
    pass_on(s, &answer, now_ms);
    stand(s, call, &answer, now_ms);
    return answer;
}

static struct lock_answer release(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = mutex_reference(s, call, now_ms);
    size_t at = place_of(s, call->owner);

    if (answer.outcome == LOCK_FREED) {
        pass_on(s, &answer, now_ms);
    } else if (call->count == 0 && at < s->waiting && strcmp(s->queue[at].owner, call->owner) == 0) {
        leave(s, at);
        if (at == 0)
            pass_on(s, &answer, now_ms);
    }
    return answer;
}

static struct lock_answer fair_reference(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    if (call->verb == LOCK_TAKE)
        return take(state, call, now_ms);
    return call->verb == LOCK_RELEASE ? release(state, call, now_ms) : mutex_reference(state, call, now_ms);
}

/* ---- the keyspace ----------------------------------------------------------------------------------------------- */

static void fair_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    if (call->verb == LOCK_RENEW) {
        mutex_lay_out(call, sha, ret);
        return;
    }
    ret->count = 0;
    (void)snprintf(ret->numbers[0], sizeof ret->numbers[0], "%" PRId64, call->count);
    (void)snprintf(ret->numbers[1], sizeof ret->numbers[1], "%" PRId64, call->lease_ms);
    (void)snprintf(ret->numbers[2], sizeof ret->numbers[2], "%" PRId64, call->sending);
    place_name(ret->place, call->owner);
    word_add(ret, "EVALSHA");
    word_add(ret, sha);
    word_add(ret, "5");
    word_add(ret, LOCK_NAME);
    word_add(ret, LOCK_CHANNEL);
    word_add(ret, QUEUE);
    word_add(ret, SCORES);
    word_add(ret, WAITERS);
    word_add(ret, call->owner);
    word_add(ret, ret->numbers[0]);
    if (call->verb == LOCK_RELEASE) {
        word_add(ret, ret->place);
        return;
    }
    word_add(ret, ret->numbers[1]);
    word_add(ret, "0");
    word_add(ret, LIFE_TEXT);
    word_add(ret, ret->place);
    word_add(ret, ret->numbers[2]);
}

/* A number that a command answers, as integer or text; below 0: it does not. */
static int64_t number(struct keyspace *ks, const char *verb, const char *key, const char *word)
{
    struct reply *r = ks_say(ks, verb, key, word);
    int64_t n = r->kind == REPLY_INTEGER ? r->integer : r->kind == REPLY_STRING ? atoll(r->text) : -1;

    reply_free(r);
    return n;
}

/* A place's sign of life. False: there is none, or it makes no sense. */
static bool read_sign(struct keyspace *ks, const char *place, struct lock_waiter *ret, int64_t *ret_arrival)
{
    struct reply *r = ks_say(ks, "HGET", WAITERS, place);
    bool well = r->kind == REPLY_STRING &&
                sscanf(r->text, "%" SCNd64 ":%" SCNd64 ":%" SCNd64 ":0:%" SCNd64 ":%15s", ret_arrival,
                       &ret->alive_until_ms, &ret->sending, &ret->lease_ms, ret->owner) == 5;

    reply_free(r);
    return well && same_place(place, ret->owner);
}

/* Who waits there, and is what else is known of it in order? */
static bool read_waiter(struct keyspace *ks, const char *place, struct lock_waiter *ret, int64_t *arrival)
{
    int64_t before = *arrival;

    return read_sign(ks, place, ret, arrival) && *arrival > before &&
           number(ks, "ZSCORE", SCORES, place) == ret->alive_until_ms + HEADROOM_MS;
}

static bool keys_end_together(struct keyspace *ks)
{
    int64_t left = number(ks, "PTTL", QUEUE, NULL);

    return left > KEEP_MS - 100000 && number(ks, "PTTL", SCORES, NULL) == left &&
           number(ks, "PTTL", WAITERS, NULL) == left;
}

static bool read_queue(struct keyspace *ks, struct lock_state *ret)
{
    struct reply *r = ks_say(ks, "LRANGE", QUEUE, "0", "-1");
    int64_t arrival = 0;
    bool well = r->kind == REPLY_ARRAY && r->count <= LOCK_QUEUE_MAX;

    for (size_t i = 0; well && i < r->count; i++)
        well = read_waiter(ks, r->items[i].text, &ret->queue[i], &arrival);
    ret->waiting = well ? r->count : 0;
    reply_free(r);
    return well && number(ks, "ZCARD", SCORES, NULL) == (int64_t)ret->waiting &&
           number(ks, "HLEN", WAITERS, NULL) == (int64_t)ret->waiting && (ret->waiting == 0 || keys_end_together(ks));
}

static bool fair_look(struct keyspace *ks, struct lock_state *ret)
{
    return reentrant_type.look(ks, ret) && read_queue(ks, ret);
}

static bool fair_holds(struct keyspace *ks, const char *owner)
{
    return reentrant_type.holds(ks, owner);
}

static bool fair_waits(struct keyspace *ks, const char *owner)
{
    struct lock_waiter waiter = {0};
    char place[LOCK_OWNER_SIZE];
    int64_t arrival;

    place_name(place, owner);
    return read_sign(ks, place, &waiter, &arrival) && strcmp(waiter.owner, owner) == 0;
}

const struct lock_type fair_type = {
    .name = "fair",
    .reentrant = true,
    .life = LIFE_TICKS,
    .scripts = {[LOCK_TAKE] = "fair_take", [LOCK_RELEASE] = "fair_release", [LOCK_RENEW] = "reentrant_renew"},
    .lay_out = fair_lay_out,
    .read = mutex_read,
    .look = fair_look,
    .holds = fair_holds,
    .waits = fair_waits,
    .reference = fair_reference,
};
