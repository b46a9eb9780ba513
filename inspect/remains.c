/* SPDX-License-Identifier: MIT */
/* remains.c - keys beside locks that nothing takes away: queues of fair locks whose waiters are all dead, and keys that
 * are written with a time to live and have none any more.
 *
 * The first keys of a server are gone through, as those of a list are. What a step of SCAN brings is asked about in one
 * request; the user may not read all of it, and what he may not is left out.
 */
#include "core/base/err.h"
#include "core/wire/buf.h"
#include "inspect/visit.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 10000 /* no more are gone through, about */
#define STEP 100
#define KEY_MAX 4096  /* bytes of one that is looked at */
#define DEAD_MS 60000 /* a waiter that was to be dropped so long ago has not been seen by anybody since */

static const char queue[] = "redisson_lock_queue:", scores[] = "redisson_lock_timeout:";

/* What is written with a time to live, always. */
static const char *const mortal[] = {"redlatch_guard:",           "redlatch_client:{",
                                     "redlatch_lock_waiters:",    "redlatch_semaphore_queue:",
                                     "redlatch_semaphore_signs:", "redlatch_rwlock_writers:"};

enum kind { OTHER, QUEUE, SCORES, MORTAL };

struct remains {
    struct rdl__visit *v;
    struct rdl__buf keys; /* of this step: each its kind, its length, its bytes */
    unsigned count;
    int64_t now_ms;
    long long seen, endless, dead, unscored;
    char first_endless[128], first_dead[128], first_unscored[128];
};

struct head {
    enum kind kind;
    size_t len;
};

static bool begins(const struct rdl__reply *key, const char *with)
{
    return key->len > strlen(with) && memcmp(key->str, with, strlen(with)) == 0;
}

static enum kind kind_of(const struct rdl__reply *key)
{
    if (begins(key, queue))
        return QUEUE;
    if (begins(key, scores))
        return SCORES;
    for (size_t i = 0; i < sizeof mortal / sizeof *mortal; i++)
        if (begins(key, mortal[i]))
            return MORTAL;
    return memmem(key->str, key->len, ":rwlock_timeout:", 16) != NULL ? MORTAL : OTHER;
}

/* ---- one step --------------------------------------------------------------------------------------------------- */

static void keep(struct remains *r, const struct rdl__reply *key)
{
    struct head head = {.kind = key->type == RDL__REPLY_STRING ? kind_of(key) : OTHER, .len = key->len};

    if (head.kind == OTHER || key->len > KEY_MAX)
        return;
    rdl__buf_put(&r->keys, &head, sizeof head);
    rdl__buf_put(&r->keys, key->str, key->len);
    r->count++;
}

/* The key at `*at`, which moves behind it. */
static const char *next_key(const struct remains *r, size_t *at, struct head *ret)
{
    const char *key = r->keys.data + *at + sizeof *ret;

    memcpy(ret, r->keys.data + *at, sizeof *ret);
    *at += sizeof *ret + ret->len;
    return key;
}

static void put_question(struct rdl__buf *to, const struct head *head, const char *key)
{
    if (head->kind == SCORES) {
        rdl__cmd_begin(to, 5);
        rdl__cmd_str(to, "ZRANGE");
        rdl__cmd_arg(to, key, head->len);
        rdl__cmd_str(to, "-1");
        rdl__cmd_str(to, "-1");
        rdl__cmd_str(to, "WITHSCORES");
    } else if (head->kind == QUEUE) { /* in one piece: it may be left meanwhile */
        char other[sizeof scores + KEY_MAX];
        size_t rest = head->len - (sizeof queue - 1);

        memcpy(other, scores, sizeof scores - 1);
        memcpy(other + sizeof scores - 1, key + sizeof queue - 1, rest);
        rdl__cmd_begin(to, 5);
        rdl__cmd_str(to, "EVAL");
        rdl__cmd_str(to, "return redis.call('llen', KEYS[1]) > 0 and redis.call('zcard', KEYS[2]) or 1");
        rdl__cmd_str(to, "2");
        rdl__cmd_arg(to, key, head->len);
        rdl__cmd_arg(to, other, sizeof scores - 1 + rest);
    } else {
        rdl__cmd_begin(to, 2);
        rdl__cmd_str(to, "PTTL");
        rdl__cmd_arg(to, key, head->len);
    }
}

static void note(long long *count, char first[128], const char *key, size_t len)
{
    if ((*count)++ == 0)
        (void)rdl__printable(first, 128, key, len);
}

static void take_answer(struct remains *r, const struct head *head, const char *key, const struct rdl__reply *reply)
{
    const struct rdl__reply *entry = rdl__reply_at(reply, 0), *score = rdl__reply_at(reply, 1);
    int64_t number = 0;

    if (entry != NULL && entry->type == RDL__REPLY_ARRAY) /* RESP3 */
        score = rdl__reply_at(entry, 1);
    if (head->kind == SCORES && score != NULL && score->type == RDL__REPLY_STRING) {
        if (r->now_ms > 0 && strtod(score->str, NULL) < (double)(r->now_ms - DEAD_MS))
            note(&r->dead, r->first_dead, key, head->len);
    } else if (head->kind != SCORES && rdl__reply_integer(reply, &number)) {
        if (head->kind == QUEUE && number == 0)
            note(&r->unscored, r->first_unscored, key, head->len);
        if (head->kind == MORTAL && number == -1)
            note(&r->endless, r->first_endless, key, head->len);
    }
}

static void ask(struct remains *r)
{
    struct rdl__probe *probe = r->v->probe;
    struct head head;
    size_t at = 0;

    for (unsigned i = 0; i < r->count; i++) {
        const char *key = next_key(r, &at, &head);

        put_question(&probe->out, &head, key);
    }
    rdl__probe_flush(probe);
    at = 0;
    for (unsigned i = 0; i < r->count && !probe->broken; i++) {
        const char *key = next_key(r, &at, &head);

        take_answer(r, &head, key, rdl__probe_next(probe));
    }
}

/* False: there is no more, or not for this user. */
static bool step(struct remains *r, char cursor[24])
{
    const struct rdl__reply *reply = rdl__probe_ask(r->v->probe, "SCAN", cursor, "COUNT", "100", NULL);
    const struct rdl__reply *next = rdl__reply_at(reply, 0), *found = rdl__reply_at(reply, 1);

    if (next == NULL || next->type != RDL__REPLY_STRING)
        return false;
    (void)rdl__line(cursor, 24, "%s", next->str);
    rdl__buf_cut(&r->keys, 0);
    r->count = 0;
    for (size_t i = 0; rdl__reply_at(found, i) != NULL; i++)
        keep(r, rdl__reply_at(found, i));
    r->seen += STEP;
    if (rdl__buf_failed(&r->keys))
        return false;
    ask(r);
    return strcmp(cursor, "0") != 0 && r->seen < KEYS_MAX && !r->v->probe->broken;
}

/* ---- findings --------------------------------------------------------------------------------------------------- */

static const char *plural(long long n)
{
    return n == 1 ? "" : "s";
}

static void tell_queues(const struct remains *r)
{
    char change[384];

    (void)rdl__line(change, sizeof change, "DEL %s", r->first_unscored);
    if (r->unscored > 0)
        rdl__tell(r->v, RDL_SEVERITY_WARNING, "queues",
                  "A waiter without a time is never dropped: a Redisson process waits behind it for ever. Somebody has "
                  "removed the times, or the server has evicted them.",
                  change, "%lld queue%s of fair locks %s waiters without a time: %s", r->unscored, plural(r->unscored),
                  r->unscored == 1 ? "has" : "have", r->first_unscored);
    (void)rdl__line(change, sizeof change, "DEL %s%s %s", queue, r->first_dead + sizeof scores - 1, r->first_dead);
    if (r->dead > 0)
        rdl__tell(r->v, RDL_SEVERITY_NOTE, "queues",
                  "The next who wants the lock drops them. Where nobody does they stay, if Redisson has written them.",
                  change, "in %lld queue%s of fair locks all waiters are dead: %s", r->dead, plural(r->dead),
                  r->first_dead);
    if (r->dead == 0 && r->unscored == 0)
        rdl__tell(r->v, RDL_SEVERITY_OK, "queues", "", "", "no queue of a fair lock is stale");
}

static void tell_remains(const struct remains *r)
{
    char change[384];

    (void)rdl__line(change, sizeof change, "PEXPIRE %s 3600000", r->first_endless);
    if (r->endless > 0)
        rdl__tell(
            r->v, RDL_SEVERITY_NOTE, "remains",
            "Guards, signs of life and descriptions are written with a time to live: somebody has removed it, and "
            "they stay.",
            change, "%lld key%s beside locks %s no time to live: %s", r->endless, plural(r->endless),
            r->endless == 1 ? "has" : "have", r->first_endless);
    else
        rdl__tell(r->v, RDL_SEVERITY_OK, "remains", "", "", "all keys beside locks have a time to live");
}

void rdl__doctor_check_remains(struct rdl__visit *v)
{
    struct remains r = {.v = v, .now_ms = v->clocks.server / RDL__MS};
    char cursor[24] = "0";

    if (rdl__visit_replica(v))
        return;
    rdl__buf_init(&r.keys, v->probe->node.mem);
    while (step(&r, cursor))
        continue;
    rdl__buf_done(&r.keys);
    if (r.seen > 0 && !v->probe->broken) {
        tell_queues(&r);
        tell_remains(&r);
    }
}
