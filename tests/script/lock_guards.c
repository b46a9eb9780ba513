/* SPDX-License-Identifier: MIT */
/* lock_guards.c - for the enumeration: what a request that was carried out leaves behind (protocol.md, 2).
 *
 * Its id is an owner's name with a number of its own, "A:1", and here the guard's key as well.
 */
#include "tests/script/lock_model.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_MS 3600000
#define OWNERS "ABC"
#define NUMBERS 8

const char guard_keep[] = "3600000";

/* Where it is, or belongs. */
static size_t place_in(const struct lock_holds *guards, const char *request)
{
    size_t at = 0;

    while (at < guards->count && strcmp(guards->at[at].owner, request) < 0)
        at++;
    return at;
}

static bool is_at(const struct lock_holds *guards, size_t at, const char *request)
{
    return at < guards->count && strcmp(guards->at[at].owner, request) == 0;
}

const struct lock_hold *guard_of(const struct lock_state *s, const char *request)
{
    size_t at = place_in(&s->guards, request);

    return is_at(&s->guards, at, request) ? &s->guards.at[at] : NULL;
}

void guard_set(struct lock_state *s, const char *request, int64_t answer, int64_t now_ms)
{
    struct lock_holds *guards = &s->guards;
    size_t at = place_in(guards, request);
    struct lock_hold *guard = &guards->at[at];

    if (!is_at(guards, at, request)) {
        if (guards->count == LOCK_HOLDS_MAX)
            die("enumeration: more than %d guards", LOCK_HOLDS_MAX);
        memmove(guard + 1, guard, (guards->count - at) * sizeof *guard);
        guards->count++;
        memcpy(guard->owner, request, sizeof guard->owner);
    }
    guard->count = answer;
    guard->until_ms = now_ms + KEEP_MS;
}

static bool look_at_one(struct keyspace *ks, struct lock_state *ret, const char *request)
{
    struct reply *r = ks_say(ks, "GET", request);
    bool there = r->kind == REPLY_STRING;
    int64_t answer = there ? atoll(r->text) : 0, left;

    reply_free(r);
    if (!there)
        return true;
    r = ks_say(ks, "PTTL", request);
    left = r->kind == REPLY_INTEGER ? r->integer : -1;
    reply_free(r);
    if (left > 0)
        guard_set(ret, request, answer, ks_time(ks) / 1000 + left - KEEP_MS);
    return left > 0;
}

bool guards_look(struct keyspace *ks, struct lock_state *ret)
{
    bool well = true;

    for (const char *owner = OWNERS; *owner != '\0'; owner++) {
        for (unsigned n = 1; n < NUMBERS && well; n++) {
            char request[LOCK_OWNER_SIZE] = {0};

            (void)snprintf(request, sizeof request, "%c:%u", *owner, n);
            well = look_at_one(ks, ret, request);
        }
    }
    return well;
}
