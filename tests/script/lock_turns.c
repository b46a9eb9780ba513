/* SPDX-License-Identifier: MIT */
/* lock_turns.c - for the enumeration: the queue of a semaphore whose waiters do not overtake, one place for each owner.
 *
 * The law: whoever is refused stands at the end, and lives for PLACE_LIFE_MS from its last try. Who is not first is
 * refused. The dead are dropped when they are first and somebody looks. When somebody goes, or was dropped, the next is
 * told what is free. Those who come at one moment, to the microsecond, stand in the order of their names; here a tick
 * is a moment.
 *
 * In lock_state a waiter's `sending` is when it came, in ms.
 */
#include "tests/script/lock_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_LIFE_MS 15000
#define PLACE_LIFE "15000"
#define QUEUE "q"
#define SIGNS "s"

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static size_t place_of(const struct lock_state *s, const char *place)
{
    size_t at = 0;

    while (at < s->waiting && strcmp(s->queue[at].owner, place) != 0)
        at++;
    return at;
}

static void drop(struct lock_state *s, size_t at)
{
    s->waiting--;
    memmove(&s->queue[at], &s->queue[at + 1], (s->waiting - at) * sizeof s->queue[0]);
}

struct turn turn_of(struct lock_state *s, const char *owner, int64_t now_ms)
{
    struct turn turn = {.dropped = false};
    char place[LOCK_OWNER_SIZE];

    place_name(place, owner);
    while (s->waiting > 0 && s->queue[0].alive_until_ms <= now_ms && strcmp(s->queue[0].owner, place) != 0) {
        drop(s, 0);
        turn.dropped = true;
    }
    turn.mine = s->waiting == 0 || strcmp(s->queue[0].owner, place) == 0;
    return turn;
}

void turn_stand(struct lock_state *s, const char *owner, int64_t now_ms)
{
    char place[LOCK_OWNER_SIZE];
    size_t at;

    place_name(place, owner);
    at = place_of(s, place);
    if (at == s->waiting) {
        while (at > 0 && s->queue[at - 1].sending == now_ms && strcmp(s->queue[at - 1].owner, place) > 0)
            at--;
        memmove(&s->queue[at + 1], &s->queue[at], (s->waiting - at) * sizeof s->queue[0]);
        s->waiting++;
        s->queue[at] = (struct lock_waiter){.sending = now_ms};
        memcpy(s->queue[at].owner, place, sizeof place);
    }
    s->queue[at].alive_until_ms = now_ms + PLACE_LIFE_MS;
}

bool turn_leave(struct lock_state *s, const char *owner)
{
    char place[LOCK_OWNER_SIZE];
    size_t at;

    place_name(place, owner);
    at = place_of(s, place);
    if (at < s->waiting)
        drop(s, at);
    return s->waiting > 0;
}

/* ---- the keyspace ----------------------------------------------------------------------------------------------- */

void turn_keys(const struct lock_call *call, struct lock_words *ret)
{
    place_name(ret->place, call->owner);
    word_add(ret, QUEUE);
    word_add(ret, SIGNS);
}

void turn_words(struct lock_words *ret, bool takes)
{
    word_add(ret, ret->place);
    word_add(ret, takes ? PLACE_LIFE : "1"); /* it is to be kept; of an undo, to be left */
}

/* What a command on a key of the queue answers, as integer or text; -1: nothing. */
static int64_t number(struct keyspace *ks, const char *verb, const char *key, const char *word)
{
    struct reply *r = ks_say(ks, verb, key, word);
    int64_t n = r->kind == REPLY_INTEGER ? r->integer : r->kind == REPLY_STRING ? atoll(r->text) : -1;

    reply_free(r);
    return n;
}

static bool read_place(struct keyspace *ks, struct lock_waiter *ret, const struct reply *place,
                       const struct reply *came)
{
    if (place->len >= sizeof ret->owner)
        return false;
    memcpy(ret->owner, place->text, place->len);
    ret->sending = atoll(came->text) / 1000;
    ret->alive_until_ms = number(ks, "HGET", SIGNS, ret->owner);
    return ret->alive_until_ms > 0;
}

bool turns_look(struct keyspace *ks, struct lock_state *ret)
{
    struct reply *r = ks_say(ks, "ZRANGE", QUEUE, "0", "-1", "WITHSCORES");
    bool well = r->kind == REPLY_ARRAY && r->count / 2 <= LOCK_QUEUE_MAX;

    ret->turns = true;
    ret->waiting = well ? r->count / 2 : 0;
    for (size_t i = 0; well && i < ret->waiting; i++)
        well = read_place(ks, &ret->queue[i], &r->items[2 * i], &r->items[2 * i + 1]);
    reply_free(r);
    return well && number(ks, "HLEN", SIGNS, NULL) == (int64_t)ret->waiting &&
           (ret->waiting == 0 || (number(ks, "PTTL", QUEUE, NULL) > 0 &&
                                  number(ks, "PTTL", QUEUE, NULL) == number(ks, "PTTL", SIGNS, NULL)));
}

/* A place has no number: all of its owner's are its. */
bool turns_waits(struct keyspace *ks, const char *owner)
{
    char place[LOCK_OWNER_SIZE];

    place_name(place, owner);
    return number(ks, "HEXISTS", SIGNS, place) == 1;
}
