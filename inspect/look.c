/* SPDX-License-Identifier: MIT */
/* look.c - one look at a name: scripts/inspect.lua is asked, and its answer becomes an rdl_inspection_t.
 *
 * Which type it is, the keys say: a hash is a lock of fields, or has a mode and two ends; a string is a simple lock or
 * a number; what stands beside tells the rest. What is not to be told apart has a type of its own ("lock", "counter").
 * A new type is a key in `besides` or a channel in `channels`, and a case in `judge`. */
#include "inspect/look.h"

#include "core/base/err.h"
#include "core/service/life.h"
#include "core/service/routing.h"
#include "core/service/scripts.h"
#include "core/wire/names.h"
#include "core/wire/reply.h"
#include "scripts/scripts.h"

#include <stdlib.h>
#include <string.h>

#define NEVER_MS INT64_C(922337203685477)    /* end of a permit that has none */
#define TIME_TOKEN INT64_C(1000000000000000) /* tokens above are microseconds since 1970 */

static const struct {
    const char *prefix; /* NULL: it is suffix(N, timeout) */
} besides[] = {
    {"redisson_lock_token"}, {"redisson_lock_queue"}, {"redlatch_lock_waiters"}, {"redlatch_semaphore_queue"}, {NULL}};

#define BESIDES (sizeof besides / sizeof besides[0])

static const char *const channels[RDL__HEARD_COUNT] = {
    [RDL__HEARD_LOCK] = "redisson_lock__channel",    [RDL__HEARD_READWRITE] = "redisson_rwlock",
    [RDL__HEARD_SEMAPHORE] = "redisson_sc",          [RDL__HEARD_LATCH] = "redisson_countdownlatch__channel__{",
    [RDL__HEARD_SIMPLE] = "redlatch_simple_channel",
};

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static void put_beside(const struct rdl__look *look, unsigned i, struct rdl__buf *to)
{
    struct rdl__buf key;

    if (besides[i].prefix != NULL) {
        rdl__cmd_prefixed(to, besides[i].prefix, look->name, look->len);
        return;
    }
    rdl__buf_init(&key, &look->client->mem);
    rdl__name_suffix(&key, look->name, look->len, "timeout");
    if (rdl__buf_failed(&key))
        to->failed = true;
    else
        rdl__cmd_arg(to, key.data, key.len);
    rdl__buf_done(&key);
}

void rdl__look_put(const struct rdl__look *look, struct rdl__buf *to, bool eval)
{
    rdl__script_begin(to, RDL__SCRIPT_INSPECT, eval, 1 + (size_t)__builtin_popcount(look->beside),
                      2 + (size_t)__builtin_popcount(look->heard));
    rdl__cmd_arg(to, look->name, look->len);
    for (unsigned i = 0; i < BESIDES; i++)
        if (look->beside & 1u << i)
            put_beside(look, i, to);
    rdl__cmd_int(to, look->most);
    rdl__cmd_str(to, rdl__client_sharded(look->client) ? "shardnumsub" : "numsub");
    for (unsigned i = 0; i < RDL__HEARD_COUNT; i++)
        if (look->heard & 1u << i)
            rdl__cmd_prefixed(to, channels[i], look->name, look->len);
}

/* ---- what was answered ------------------------------------------------------------------------------------------ */

/* A key as the script says it. One that was not looked at is as if it were not there. */
struct key {
    const char *type;
    int64_t ttl, size;
    const struct rdl__reply *content, *ends;
    size_t n; /* elements of content */
};

struct answer {
    int64_t now_ms, now_us;
    struct key name, beside[BESIDES];
    int64_t heard[RDL__HEARD_COUNT]; /* -1: nobody knows */
};

static int64_t number(const struct rdl__reply *reply, int64_t otherwise)
{
    int64_t value;

    return rdl__reply_integer(reply, &value) ? value : otherwise;
}

static struct key read_key(const struct rdl__reply *reply)
{
    const struct rdl__reply *type = rdl__reply_at(reply, 0), *content = rdl__reply_at(reply, 3);

    return (struct key){
        .type = type != NULL && type->type == RDL__REPLY_STRING ? type->str : "none",
        .ttl = number(rdl__reply_at(reply, 1), -2),
        .size = number(rdl__reply_at(reply, 2), 0),
        .content = content,
        .n = content != NULL && content->type == RDL__REPLY_ARRAY ? content->len : 0,
        .ends = rdl__reply_at(reply, 4),
    };
}

static bool is(const struct key *key, const char *type)
{
    return strcmp(key->type, type) == 0;
}

static void read_answer(const struct rdl__look *look, const struct rdl__reply *reply, struct answer *a)
{
    int64_t seconds = number(rdl__reply_at(reply, 0), 0);
    const struct rdl__reply *heard;
    size_t at = 3, channel = 1;

    a->now_us = seconds * 1000000 + number(rdl__reply_at(reply, 1), 0);
    a->now_ms = a->now_us / 1000;
    a->name = read_key(rdl__reply_at(reply, 2));
    for (unsigned i = 0; i < BESIDES; i++)
        a->beside[i] = read_key(look->beside & 1u << i ? rdl__reply_at(reply, at++) : NULL);
    heard = rdl__reply_at(reply, at);
    for (unsigned i = 0; i < RDL__HEARD_COUNT; i++) {
        a->heard[i] = -1;
        if ((look->heard & 1u << i) == 0)
            continue;
        a->heard[i] = number(rdl__reply_at(heard, channel), -1);
        channel += 2;
    }
}

/* Element i of the content; NULL: it is no text. */
static const struct rdl__reply *text_at(const struct key *key, size_t i)
{
    const struct rdl__reply *text = rdl__reply_at(key->content, i);

    return text != NULL && text->type == RDL__REPLY_STRING ? text : NULL;
}

/* ---- owners ----------------------------------------------------------------------------------------------------- */

static bool is_uuid(const char *text, size_t len)
{
    if (len < RDL__UUID_LEN)
        return false;
    for (size_t i = 0; i < RDL__UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash != (text[i] == '-') || (!dash && memchr("0123456789abcdef", text[i], 16) == NULL))
            return false;
    }
    return true;
}

bool rdl__is_owner(const char *text, size_t len)
{
    return len > RDL__UUID_LEN + 1 && is_uuid(text, len) && text[RDL__UUID_LEN] == ':' &&
           (text[RDL__UUID_LEN + 1] == '-' || (text[RDL__UUID_LEN + 1] >= '0' && text[RDL__UUID_LEN + 1] <= '9'));
}

static void set_owner(char *owner, char *client, const struct rdl__reply *text)
{
    (void)rdl__printable(owner, RDL_OWNER_ROOM, text->str, text->len);
    if (is_uuid(text->str, text->len))
        memcpy(client, text->str, RDL__UUID_LEN);
}

static void set_permit(char *owner, const struct rdl__reply *id)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < id->len && 2 * i + 2 < RDL_OWNER_ROOM; i++) {
        owner[2 * i] = digits[(unsigned char)id->str[i] >> 4];
        owner[2 * i + 1] = digits[id->str[i] & 15];
    }
}

/* ---- making an inspection --------------------------------------------------------------------------------------- */

struct inspection {
    rdl_inspection_t is;
    rdl_client_t *client; /* a reference */
    size_t size;
    rdl_holder_t *holders;
    rdl_waiter_t *waiters;
};

_Static_assert(sizeof(struct inspection) % _Alignof(rdl_holder_t) == 0, "holders follow it");

static struct inspection *make(const struct rdl__look *look, size_t holders, size_t waiters)
{
    size_t size =
        sizeof(struct inspection) + holders * sizeof(rdl_holder_t) + waiters * sizeof(rdl_waiter_t) + look->len + 1;
    struct inspection *made = rdl__zalloc(&look->client->mem, size);
    char *name;

    if (made == NULL)
        return NULL;
    made->client = rdl__client_ref(look->client);
    made->size = size;
    made->holders = (rdl_holder_t *)(made + 1);
    made->waiters = (rdl_waiter_t *)(made->holders + holders);
    name = (char *)(made->waiters + waiters);
    memcpy(name, look->name, look->len);
    made->is = (rdl_inspection_t){.name = name,
                                  .name_len = look->len,
                                  .type = "none",
                                  .state = "free",
                                  .ttl_ms = -1,
                                  .number = -1,
                                  .holder = made->holders,
                                  .waiter = made->waiters};
    return made;
}

rdl_inspection_t *rdl_inspection_free(rdl_inspection_t *inspection)
{
    struct inspection *made = inspection == NULL ? NULL : rdl__container(inspection, struct inspection, is);

    if (made != NULL) {
        rdl_client_t *client = made->client;

        rdl__free(&client->mem, made, made->size);
        rdl__client_unref(client);
    }
    return NULL;
}

rdl_holder_t *rdl__inspection_holders(rdl_inspection_t *inspection)
{
    return rdl__container(inspection, struct inspection, is)->holders;
}

rdl_waiter_t *rdl__inspection_waiters(rdl_inspection_t *inspection)
{
    return rdl__container(inspection, struct inspection, is)->waiters;
}

/* The next place in the list of holders, for an owner that has `left_ms`; NULL: it is full. */
static rdl_holder_t *add_holder(struct inspection *made, const struct rdl__look *look, int64_t left_ms)
{
    rdl_holder_t *holder = &made->holders[made->is.holder_count];

    if (made->is.holder_count >= look->most)
        return NULL;
    made->is.holder_count++;
    holder->count = 1;
    holder->left_ms = left_ms < 0 ? -1 : left_ms;
    return holder;
}

/* ---- which type ------------------------------------------------------------------------------------------------- */

static int no_lock(struct rdl__look *look, const char *what)
{
    look->rc = RDL_EINVAL;
    (void)rdl__line(look->words, sizeof look->words, "%s", what);
    return RDL_EINVAL;
}

static void listen_on(struct inspection *made, const struct answer *a, unsigned channel)
{
    made->is.waiters = a->heard[channel];
}

/* The fields of a hash, its mode left out. `ends`: it has two. */
static void judge_fields(struct inspection *made, const struct rdl__look *look, const struct answer *a, bool ends)
{
    const struct key *hash = &a->name;
    int64_t dead = 0;

    for (size_t i = 0; i + 1 < hash->n; i += 2) {
        const struct rdl__reply *field = text_at(hash, i);
        int64_t left = ends ? number(rdl__reply_at(hash->ends, 1 + i / 2), -2) : hash->ttl;
        bool writes;
        rdl_holder_t *holder;

        if (field == NULL || (ends && strcmp(field->str, "mode") == 0))
            continue;
        writes = ends && field->len > 6 && strcmp(field->str + field->len - 6, ":write") == 0;
        if (ends && !writes && left == -2) { /* a reader whose lease has ended while others read */
            dead++;
            continue;
        }
        if ((holder = add_holder(made, look, writes ? hash->ttl : left)) == NULL)
            break;
        set_owner(holder->owner, holder->client, field);
        holder->count = number(rdl__reply_at(hash->content, i + 1), 1);
        holder->end = !ends ? RDL_END_NONE : writes ? RDL_END_WRITE : RDL_END_READ;
    }
    made->is.holders = hash->size - (ends ? 1 : 0) - dead;
}

static void judge_token(struct inspection *made, const struct answer *a)
{
    made->is.type = "fenced";
    made->is.token = number(rdl__reply_at(a->beside[0].content, 0), 0);
    for (size_t i = 0; i < made->is.holder_count; i++) {
        made->holders[i].token = made->is.token;
        if (made->is.token > TIME_TOKEN && made->is.token <= a->now_us)
            made->holders[i].since_ms = made->is.token / 1000;
    }
}

/* Who waits in a fair lock's queue; signs: `arrival:...` by place. */
static void judge_queue(struct inspection *made, const struct rdl__look *look, const struct key *queue,
                        const struct key *signs)
{
    made->is.type = "fair";
    made->is.in_order = true;
    made->is.waiters = is(queue, "list") ? queue->size : 0;
    for (size_t i = 0; is(queue, "list") && i < queue->n && i < look->most; i++) {
        rdl_waiter_t *waiter = &made->waiters[made->is.waiter_count];
        const struct rdl__reply *place = text_at(queue, i);
        const struct rdl__reply *sign =
            place == NULL || !is(signs, "hash") ? NULL : rdl__reply_named(signs->content, place->str);

        if (place == NULL)
            continue;
        made->is.waiter_count++;
        set_owner(waiter->owner, waiter->client, place);
        if (sign != NULL && sign->type == RDL__REPLY_STRING)
            waiter->since_ms = strtoll(sign->str, NULL, 10) / 1000;
    }
}

static void judge_turns(struct inspection *made, const struct rdl__look *look, const struct key *turns)
{
    made->is.in_order = true;
    made->is.waiters = turns->size;
    for (size_t i = 0; i + 1 < turns->n && i / 2 < look->most; i += 2) {
        rdl_waiter_t *waiter = &made->waiters[made->is.waiter_count];
        const struct rdl__reply *place = text_at(turns, i);

        if (place == NULL)
            continue;
        made->is.waiter_count++;
        set_owner(waiter->owner, waiter->client, place);
        waiter->since_ms = number(rdl__reply_at(turns->content, i + 1), 0) / 1000;
    }
}

static void judge_permits(struct inspection *made, const struct rdl__look *look, const struct answer *a)
{
    const struct key *permits = &a->beside[4];
    int64_t over = 0;

    made->is.type = "permit-semaphore";
    for (size_t i = 0; i + 1 < permits->n; i += 2) {
        const struct rdl__reply *id = text_at(permits, i);
        int64_t end = number(rdl__reply_at(permits->content, i + 1), NEVER_MS);
        rdl_holder_t *holder;

        if (end <= a->now_ms) {
            over++;
            continue;
        }
        if (id == NULL || (holder = add_holder(made, look, end >= NEVER_MS ? -1 : end - a->now_ms)) == NULL)
            break;
        set_permit(holder->owner, id);
    }
    made->is.holders = permits->size - over;
    made->is.number += over;
}

/* A number: of free permits, or a latch's count. */
static void judge_number(struct inspection *made, const struct rdl__look *look, const struct answer *a, int64_t value)
{
    const struct key *turns = &a->beside[3];

    made->is.number = value;
    made->is.type = "counter";
    if (is(&a->beside[4], "zset"))
        judge_permits(made, look, a);
    else if (is(turns, "zset") || a->heard[RDL__HEARD_SEMAPHORE] > 0)
        made->is.type = "semaphore";
    else if (a->heard[RDL__HEARD_LATCH] > 0)
        made->is.type = "latch";
    made->is.state = strcmp(made->is.type, "latch") == 0 ? "closed" : made->is.number > 0 ? "free" : "taken";
    listen_on(made, a, strcmp(made->is.type, "latch") == 0 ? RDL__HEARD_LATCH : RDL__HEARD_SEMAPHORE);
    if (is(turns, "zset"))
        judge_turns(made, look, turns);
}

static int judge_string(struct inspection *made, struct rdl__look *look, const struct answer *a)
{
    const struct rdl__reply *value = text_at(&a->name, 0);
    rdl_holder_t *holder;
    int64_t count;

    if (value == NULL)
        return no_lock(look, "a string that is no lock");
    if (!look->any_value && rdl__reply_integer(value, &count)) {
        judge_number(made, look, a, count);
        return RDL_OK;
    }
    if (!look->any_value && !rdl__is_owner(value->str, value->len))
        return no_lock(look, "a string that names no holder");
    made->is.type = "simple";
    made->is.state = "held";
    made->is.holders = 1;
    listen_on(made, a, RDL__HEARD_SIMPLE);
    if ((holder = add_holder(made, look, a->name.ttl)) != NULL)
        set_owner(holder->owner, holder->client, value);
    return RDL_OK;
}

/* The only key of a hash that is not a holder's. */
static const char *mode_of(const struct key *hash)
{
    const struct rdl__reply *mode = rdl__reply_at(hash->ends, 0);

    if (mode == NULL || mode->type != RDL__REPLY_STRING)
        return NULL;
    return strcmp(mode->str, "read") == 0 ? "read" : strcmp(mode->str, "write") == 0 ? "write" : NULL;
}

static int judge_hash(struct inspection *made, struct rdl__look *look, const struct answer *a)
{
    const char *mode = mode_of(&a->name);
    const struct rdl__reply *first = text_at(&a->name, 0);

    if (mode != NULL) {
        made->is.type = "read-write";
        made->is.state = mode;
        judge_fields(made, look, a, true);
        listen_on(made, a, RDL__HEARD_READWRITE);
        return RDL_OK;
    }
    if (first == NULL || !rdl__is_owner(first->str, first->len))
        return no_lock(look, "a hash whose fields are no holders");
    made->is.type = "lock";
    made->is.state = "held";
    judge_fields(made, look, a, false);
    listen_on(made, a, RDL__HEARD_LOCK);
    return RDL_OK;
}

/* Nothing has the name, or a lock of fields has: what stands beside it. */
static void judge_besides(struct inspection *made, const struct rdl__look *look, const struct answer *a)
{
    if (is(&a->beside[0], "string"))
        judge_token(made, a);
    else if (is(&a->beside[1], "list") || is(&a->beside[2], "hash"))
        judge_queue(made, look, &a->beside[1], &a->beside[2]);
}

static int judge(struct inspection *made, struct rdl__look *look, const struct answer *a)
{
    int rc = RDL_OK;

    made->is.now_ms = a->now_ms;
    made->is.ttl_ms = a->name.ttl < 0 ? -1 : a->name.ttl;
    if (is(&a->name, "string"))
        return judge_string(made, look, a);
    if (is(&a->name, "none"))
        for (unsigned i = 0; i < RDL__HEARD_COUNT; i++)
            made->is.waiters = i == 0 || a->heard[i] > made->is.waiters ? a->heard[i] : made->is.waiters;
    else if (is(&a->name, "hash"))
        rc = judge_hash(made, look, a);
    else
        rc = no_lock(look, is(&a->name, "list")   ? "a list"
                           : is(&a->name, "zset") ? "a sorted set"
                                                  : "a key of a type that no lock has");
    if (rc == RDL_OK && strcmp(made->is.type, "read-write") != 0)
        judge_besides(made, look, a);
    return rc;
}

void rdl__look_take(struct rdl__look *look, const struct rdl__reply *reply)
{
    struct answer a = {0};
    struct inspection *made;
    size_t holders, waiters;

    look->made = rdl_inspection_free(look->made);
    look->rc = RDL_OK;
    if (reply->type != RDL__REPLY_ARRAY) {
        look->rc = RDL_ESERVER;
        (void)rdl__line(look->words, sizeof look->words, "%s",
                        reply->type == RDL__REPLY_ERROR ? reply->str : "an answer that is none");
        return;
    }
    read_answer(look, reply, &a);
    holders = a.name.n + a.beside[4].n < look->most ? a.name.n + a.beside[4].n : look->most;
    waiters = a.beside[1].n + a.beside[3].n < look->most ? a.beside[1].n + a.beside[3].n : look->most;
    if ((made = make(look, holders + 1, waiters + 1)) == NULL) {
        look->rc = RDL_ENOMEM;
        return;
    }
    if (judge(made, look, &a) == RDL_OK)
        look->made = &made->is;
    else
        (void)rdl_inspection_free(&made->is);
}
