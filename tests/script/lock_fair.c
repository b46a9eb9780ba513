/* lock_fair.c - the fair lock, for the enumeration: a reentrant lock and its queue.
 *
 * The reference is PROTOCOL.md, 7 without peers: whoever is refused stands in the queue, first come, first served, and lives for
 * LIFE_MS after each try; the dead are dropped when they are at the front and somebody looks; who frees the lock, or leaves
 * the front of the queue of a free one, names the first that lives. Scores, arrivals and times to live of the queue's keys
 * are how Redis holds that, so `look` asks that they make sense, and the reference does not know them.
 */
#include "tests/script/lock_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_MS 2000
#define LIFE_TEXT "2000"
#define HEADROOM_MS 900000
#define KEEP_MS 3600000
#define QUEUE "q"
#define SCORES "t"
#define WAITERS "w"

/* ---- the reference -------------------------------------------------------------------------------------------------------- */

static size_t place_of(const struct lock_state *s, const char *owner)
{
    size_t at = 0;

    while (at < s->waiting && strcmp(s->queue[at].owner, owner) != 0)
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
    while (s->waiting > 0 && s->queue[0].alive_until_ms <= now_ms && strcmp(s->queue[0].owner, but) != 0)
        leave(s, 0);
}

static void name_successor(struct lock_state *s, struct lock_answer *answer, int64_t now_ms)
{
    drop_dead(s, "", now_ms);
    if (s->waiting > 0)
        memcpy(answer->woken, s->queue[0].owner, LOCK_OWNER_SIZE);
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct lock_answer stand(struct lock_state *s, const struct lock_call *call, size_t dropped, int64_t now_ms)
{
    struct lock_answer answer = {.outcome = LOCK_REFUSED, .ms = LIFE_MS / 3};
    size_t at = place_of(s, call->owner);

    if (!s->held && dropped > 0)
        memcpy(answer.woken, s->queue[0].owner, LOCK_OWNER_SIZE);
    if (at == s->waiting)
        memcpy(s->queue[s->waiting++].owner, call->owner, LOCK_OWNER_SIZE);
    s->queue[at].alive_until_ms = now_ms + LIFE_MS;
    answer.ms = lesser(answer.ms, s->queue[0].alive_until_ms - now_ms);
    if (s->held && s->expire_ms != NEVER)
        answer.ms = lesser(answer.ms, s->expire_ms - now_ms);
    if (answer.ms < 1)
        answer.ms = 1;
    return answer;
}

static struct lock_answer take(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    size_t before = s->waiting;

    if ((s->held && strcmp(s->owner, call->owner) == 0) || call->count > 1)
        return mutex_reference(s, call, now_ms);
    drop_dead(s, call->owner, now_ms);
    if (s->held || (s->waiting > 0 && strcmp(s->queue[0].owner, call->owner) != 0))
        return stand(s, call, before - s->waiting, now_ms);
    if (s->waiting > 0)
        leave(s, 0);
    return mutex_reference(s, call, now_ms);
}

static struct lock_answer release(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer = mutex_reference(s, call, now_ms);
    size_t at = place_of(s, call->owner);

    if (answer.outcome == LOCK_FREED) {
        name_successor(s, &answer, now_ms);
    } else if (call->count == 0 && at < s->waiting) {
        leave(s, at);
        if (at == 0 && !s->held)
            name_successor(s, &answer, now_ms);
    }
    return answer;
}

static struct lock_answer fair_reference(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    if (call->verb == LOCK_TAKE)
        return take(state, call, now_ms);
    return call->verb == LOCK_RELEASE ? release(state, call, now_ms) : mutex_reference(state, call, now_ms);
}

/* ---- the keyspace ---------------------------------------------------------------------------------------------------------- */

static void fair_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    if (call->verb == LOCK_RENEW) {
        mutex_lay_out(call, sha, ret);
        return;
    }
    ret->count = 0;
    (void)snprintf(ret->numbers[0], sizeof ret->numbers[0], "%" PRId64, call->count);
    (void)snprintf(ret->numbers[1], sizeof ret->numbers[1], "%" PRId64, call->lease_ms);
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
    if (call->verb == LOCK_RELEASE)
        return;
    word_add(ret, ret->numbers[1]);
    word_add(ret, "0");
    word_add(ret, LIFE_TEXT);
}

/* A number that a command answers, as integer or text; below 0: it does not. */
static int64_t number(struct keyspace *ks, const char *verb, const char *key, const char *word)
{
    struct reply *r = ks_say(ks, verb, key, word);
    int64_t n = r->kind == REPLY_INTEGER ? r->integer : r->kind == REPLY_STRING ? atoll(r->text) : -1;

    reply_free(r);
    return n;
}

/* The waiter's sign of life, and is what else is known of it in order? */
static bool read_waiter(struct keyspace *ks, struct lock_waiter *w, int64_t *arrival)
{
    struct reply *r = ks_say(ks, "HGET", WAITERS, w->owner);
    int64_t before = *arrival;
    bool well = r->kind == REPLY_STRING && sscanf(r->text, "%" SCNd64 ":%" SCNd64, arrival, &w->alive_until_ms) == 2 &&
                *arrival > before;

    reply_free(r);
    return well && number(ks, "ZSCORE", SCORES, w->owner) == w->alive_until_ms + HEADROOM_MS;
}

static bool keys_end_together(struct keyspace *ks)
{
    int64_t left = number(ks, "PTTL", QUEUE, NULL);

    return left > KEEP_MS - 100000 && number(ks, "PTTL", SCORES, NULL) == left && number(ks, "PTTL", WAITERS, NULL) == left;
}

static bool read_queue(struct keyspace *ks, struct lock_state *ret)
{
    struct reply *r = ks_say(ks, "LRANGE", QUEUE, "0", "-1");
    int64_t arrival = 0;
    bool well = r->kind == REPLY_ARRAY && r->count <= LOCK_QUEUE_MAX;

    for (size_t i = 0; well && i < r->count; i++) {
        memcpy(ret->queue[i].owner, r->items[i].text, r->items[i].len);
        well = read_waiter(ks, &ret->queue[i], &arrival);
    }
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
    return number(ks, "HEXISTS", WAITERS, owner) == 1;
}

const struct lock_type fair_type = {
    .name = "fair",
    .reentrant = true,
    .scripts = {[LOCK_TAKE] = "fair_take", [LOCK_RELEASE] = "fair_release", [LOCK_RENEW] = "reentrant_renew"},
    .lay_out = fair_lay_out,
    .read = mutex_read,
    .look = fair_look,
    .holds = fair_holds,
    .waits = fair_waits,
    .reference = fair_reference,
};
