/* SPDX-License-Identifier: MIT */
/* lock_readwrite.c - the read-write lock, for the enumeration: many read or one writes, and who writes may read as
 * well.
 *
 * The reference is protocol.md, 1, 2 and 6: each end of an owner has a name of its own, a reader's hold lives as long
 * as the longest lease that its owner asked for, and the lock as long as the longest of them or as the writer's. Giving
 * back is what lowers a time to live: to that of the longest hold left, and not while somebody writes. Of a hold that
 * has outlived its time only the name is left, until the others go.
 *
 * Where writers are preferred, one that readers keep out leaves a mark for MARK_LIFE_MS, as does each further try of
 * its; beside a living mark nobody begins to read. A writer that is let in takes all marks away, and one that gives up
 * takes its own.
 *
 * How Redis holds that: a hash with `mode` and a field for each hold, and for each of a reader's counts a key of its
 * own; `look` asks that all of those end at one moment, and that there is none too many.
 */
#include "tests/script/lock_model.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITE ":write"

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static bool is_writers(const char *owner)
{
    size_t len = strlen(owner), tail = sizeof WRITE - 1;

    return len > tail && strcmp(owner + len - tail, WRITE) == 0;
}

static struct lock_hold *find_hold(struct lock_state *s, const char *owner)
{
    for (size_t i = 0; i < s->holders; i++)
        if (strcmp(s->holds[i].owner, owner) == 0)
            return &s->holds[i];
    return NULL;
}

static struct lock_hold *add_hold(struct lock_state *s, const char *owner)
{
    size_t at = 0;

    if (s->holders == LOCK_HOLDS_MAX)
        die("enumeration: more than %d holds", LOCK_HOLDS_MAX);
    while (at < s->holders && strcmp(s->holds[at].owner, owner) < 0)
        at++;
    memmove(&s->holds[at + 1], &s->holds[at], (s->holders - at) * sizeof s->holds[0]);
    s->holders++;
    s->holds[at] = (struct lock_hold){0};
    (void)snprintf(s->holds[at].owner, sizeof s->holds[at].owner, "%s", owner);
    return &s->holds[at];
}

static void grow(int64_t *time, int64_t to)
{
    if (*time < to)
        *time = to;
}

static void grow_times(struct lock_state *s, const struct lock_call *call, struct lock_hold *hold, int64_t now_ms)
{
    grow(&s->expire_ms, now_ms + call->lease_ms);
    if (lock_end(call->verb) == LOCK_MANY)
        grow(&hold->until_ms, now_ms + call->lease_ms);
}

static struct lock_answer grant(struct lock_state *s, const struct lock_call *call, struct lock_hold *hold,
                                int64_t now_ms)
{
    bool held_before = hold != NULL;

    if (!s->held) {
        s->held = true;
        s->writing = lock_end(call->verb) == LOCK_ONE;
        s->expire_ms = 0;
    }
    if (!held_before)
        hold = add_hold(s, call->owner);
    grow(&hold->count, call->count);
    grow_times(s, call, hold, now_ms);
    return (struct lock_answer){.outcome = held_before ? LOCK_HELD_ALREADY : LOCK_TAKEN};
}

/* Does what others hold let the owner in? */
static bool is_let_in(struct lock_state *s, const struct lock_call *call)
{
    if (!s->held)
        return true;
    if (lock_end(call->verb) == LOCK_ONE)
        return false;
    return !s->writing || find_hold(s, call->mate) != NULL;
}

static struct lock_answer take(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_hold *hold = find_hold(s, call->owner);

    if (hold == NULL && call->count > 1)
        return (struct lock_answer){.outcome = LOCK_HOLD_GONE};
    if (hold == NULL && !is_let_in(s, call))
        return (struct lock_answer){.outcome = LOCK_REFUSED, .ms = s->expire_ms - now_ms};
    return grant(s, call, hold, now_ms);
}

/* The hold is over: what is left of the lock lives as long as its longest reader. False: nothing is left. */
static bool settle(struct lock_state *s, int64_t now_ms)
{
    int64_t longest = 0;

    for (size_t i = 0; i < s->holders; i++)
        grow(&longest, s->holds[i].until_ms);
    if (longest <= now_ms) {
        s->held = s->writing = false;
        s->holders = 0;
        return false;
    }
    s->writing = false;
    s->expire_ms = longest;
    return true;
}

static struct lock_answer release(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_hold *hold = find_hold(s, call->owner);
    bool reads = lock_end(call->verb) == LOCK_MANY;

    if (hold == NULL)
        return (struct lock_answer){.outcome = LOCK_NO_SUCH_HOLD};
    if (call->count > 0) {
        if (hold->count > call->count)
            hold->count = call->count;
        return (struct lock_answer){.outcome = LOCK_STILL_HELD};
    }
    s->holders--;
    memmove(hold, hold + 1, (size_t)(&s->holds[s->holders] - hold) * sizeof *hold);
    if (reads && (s->writing || settle(s, now_ms)))
        return (struct lock_answer){.outcome = LOCK_STILL_HELD};
    if (!reads)
        (void)settle(s, now_ms);
    return (struct lock_answer){.outcome = LOCK_FREED};
}

static struct lock_answer renew(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_hold *hold = find_hold(s, call->owner);
    struct lock_answer answer = {.outcome = LOCK_RENEWED, .ms = s->expire_ms - now_ms};

    if (hold == NULL)
        return (struct lock_answer){.outcome = LOCK_NO_SUCH_HOLD};
    grow_times(s, call, hold, now_ms);
    return answer;
}

/* The verb as it is called at the other end. */
static enum lock_verb plain(enum lock_verb verb)
{
    switch (verb) {
    case LOCK_READ_TAKE:
        return LOCK_TAKE;
    case LOCK_READ_RELEASE:
        return LOCK_RELEASE;
    case LOCK_READ_RENEW:
    case LOCK_PEER_RENEW:
        return LOCK_RENEW;
    default:
        return verb;
    }
}

static struct lock_answer readwrite_reference(struct lock_state *state, const struct lock_call *call, int64_t now_ms)
{
    switch (plain(call->verb)) {
    case LOCK_TAKE:
        return take(state, call, now_ms);
    case LOCK_RELEASE:
        return release(state, call, now_ms);
    default:
        return renew(state, call, now_ms);
    }
}

/* ---- the reference, with marks ---------------------------------------------------------------------------------- */

/* A writer's take that readers refuse. */
static struct lock_answer leave_mark(struct lock_state *s, const struct lock_call *call, struct lock_answer refused,
                                     int64_t now_ms)
{
    mark_put(s, call->owner, now_ms + MARK_LIFE_MS);
    if (refused.ms > MARK_LIFE_MS / 3)
        refused.ms = MARK_LIFE_MS / 3;
    return refused;
}

static struct lock_answer write_take(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    bool reading = s->held && !s->writing;
    struct lock_answer answer = take(s, call, now_ms);

    if (answer.outcome == LOCK_TAKEN)
        s->waiting = 0;
    return answer.outcome == LOCK_REFUSED && reading ? leave_mark(s, call, answer, now_ms) : answer;
}

static struct lock_answer read_take(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    bool begins = find_hold(s, call->owner) == NULL && call->count == 1 && !(s->held && s->writing);

    if (begins && s->waiting > 0)
        return (struct lock_answer){.outcome = LOCK_REFUSED, .ms = s->queue[s->waiting - 1].alive_until_ms - now_ms};
    return take(s, call, now_ms);
}

static struct lock_answer preferring_reference(struct lock_state *s, const struct lock_call *call, int64_t now_ms)
{
    struct lock_answer answer;

    if (call->verb == LOCK_TAKE)
        return write_take(s, call, now_ms);
    if (call->verb == LOCK_READ_TAKE)
        return read_take(s, call, now_ms);
    answer = readwrite_reference(s, call, now_ms);
    if (call->verb == LOCK_RELEASE && call->count == 0 && answer.outcome == LOCK_NO_SUCH_HOLD)
        (void)mark_drop(s, call->owner);
    return answer;
}

/* ---- the keyspace ----------------------------------------------------------------------------------------------- */

static void readwrite_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    mutex_lay_out_as(plain(call->verb), call, sha, ret);
    if (call->verb != LOCK_READ_TAKE || call->mate[0] == '\0')
        return;
    word_add(ret, "0"); /* no token */
    word_add(ret, call->mate);
}

static void insert_word(struct lock_words *w, size_t at, const char *word)
{
    word_add(w, "");
    memmove(&w->at[at + 1], &w->at[at], (w->count - 1 - at) * sizeof w->at[0]);
    w->at[at] = word;
}

/* The marks are the last key of take and release; but a writer's take names the channel, too, and how long its mark
 * lives. */
static void preferring_lay_out(const struct lock_call *call, const char *sha, struct lock_words *ret)
{
    enum lock_verb verb = plain(call->verb);
    size_t at = verb == LOCK_RELEASE ? 5 : 4;

    readwrite_lay_out(call, sha, ret);
    if (verb == LOCK_RENEW)
        return;
    insert_word(ret, at, MARKS);
    ret->at[2] = verb == LOCK_RELEASE ? "3" : "2";
    if (call->verb == LOCK_TAKE) {
        insert_word(ret, at + 1, LOCK_CHANNEL);
        ret->at[2] = "3";
        word_add(ret, "0"); /* no token */
        word_add(ret, MARK_LIFE);
    }
}

static struct lock_answer readwrite_read(enum lock_verb verb, const struct reply *reply)
{
    return mutex_read(plain(verb), reply);
}

/* When the key of the reader's i-th count ends; 0: there is none; NEVER: it never does, which must not be. */
static int64_t count_ends(struct keyspace *ks, const char *owner, int64_t i)
{
    char key[64];
    struct reply *r;
    int64_t left;

    (void)snprintf(key, sizeof key, "{" LOCK_NAME "}:%s:rwlock_timeout:%d", owner, (int)i);
    r = ks_say(ks, "PTTL", key);
    left = r->kind == REPLY_INTEGER ? r->integer : -1;
    reply_free(r);
    return left >= 0 ? ks_time(ks) / 1000 + left : left == -2 ? 0 : NEVER;
}

static bool read_times(struct keyspace *ks, struct lock_hold *hold)
{
    int64_t until = count_ends(ks, hold->owner, 1), ends;

    for (int64_t i = 2; i <= hold->count; i++) /* the first lasts longest */
        if ((ends = count_ends(ks, hold->owner, i)) > until || ends == NEVER)
            return false;
    hold->until_ms = until;
    return until != NEVER && count_ends(ks, hold->owner, hold->count + 1) == 0;
}

static bool read_field(struct keyspace *ks, struct lock_state *ret, const char *field, const char *value)
{
    struct lock_hold *hold;

    if (strcmp(field, "mode") == 0) {
        ret->writing = strcmp(value, "write") == 0;
        return true;
    }
    if (strlen(field) >= LOCK_OWNER_SIZE)
        return false;
    hold = add_hold(ret, field);
    hold->count = atoll(value);
    return hold->count > 0 && (is_writers(field) || read_times(ks, hold));
}

static bool readwrite_look(struct keyspace *ks, struct lock_state *ret)
{
    struct reply *r = ks_say(ks, "HGETALL", LOCK_NAME);
    bool well = r->kind == REPLY_ARRAY;

    *ret = (struct lock_state){0};
    for (size_t i = 0; well && i + 1 < r->count; i += 2)
        well = read_field(ks, ret, r->items[i].text, r->items[i + 1].text);
    ret->held = well && r->count > 0;
    reply_free(r);
    if (!ret->held)
        return well;
    ret->expire_ms = ask_expiry(ks);
    return ret->holders > 0 && ret->expire_ms != NEVER;
}

/* Do the marks end with the last of them? */
static bool marks_end(struct keyspace *ks, const struct lock_state *s)
{
    struct reply *r = ks_say(ks, "PTTL", MARKS);
    int64_t left = r->kind == REPLY_INTEGER ? r->integer : -1;

    reply_free(r);
    return s->waiting == 0 ? left != -1 : left == s->queue[s->waiting - 1].alive_until_ms - ks_time(ks) / 1000;
}

static bool preferring_look(struct keyspace *ks, struct lock_state *ret)
{
    return readwrite_look(ks, ret) && marks_look(ks, ret) && marks_end(ks, ret);
}

#define READWRITE_SCRIPTS                                                                                              \
    {                                                                                                                  \
        [LOCK_TAKE] = "write_take", [LOCK_RELEASE] = "write_release", [LOCK_RENEW] = "reentrant_renew",                \
        [LOCK_READ_TAKE] = "read_take", [LOCK_READ_RELEASE] = "read_release", [LOCK_READ_RENEW] = "read_renew"         \
    }

const struct lock_type readwrite_type = {
    .name = "read-write",
    .reentrant = true,
    .ending = WRITE,
    .scripts = READWRITE_SCRIPTS,
    .lay_out = readwrite_lay_out,
    .read = readwrite_read,
    .look = readwrite_look,
    .holds = hash_holds,
    .reference = readwrite_reference,
};

const struct lock_type preferring_type = {
    .name = "read-write, writers preferred",
    .reentrant = true,
    .ending = WRITE,
    .scripts = READWRITE_SCRIPTS,
    .lay_out = preferring_lay_out,
    .read = readwrite_read,
    .look = preferring_look,
    .holds = hash_holds,
    .waits = marks_waits,
    .reference = preferring_reference,
};
