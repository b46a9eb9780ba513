/* SPDX-License-Identifier: MIT */
/* keyspace_collections.c - the commands of hashes, lists and sorted sets (see keyspace_commands.c). */
#include "tests/script/keyspace_impl.h"
#include "tests/support/wait.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading the words ------------------------------------------------------------------------------------------ */

/* Answers nothing. As strtod has it: blanks before it, or nothing at all, are well. */
static bool parse_double(const struct call *c, size_t i, double *ret)
{
    char text[128]; /* words need not end in a NUL */
    char *end;

    if (c->len[i] >= sizeof text)
        return false;
    memcpy(text, c->argv[i], c->len[i]);
    text[c->len[i]] = '\0';
    *ret = strtod(text, &end);
    return end == text + c->len[i] && !isnan(*ret);
}

static bool word_double(struct call *c, size_t i, double *ret)
{
    bool well = c->len[i] > 0 && !isspace((unsigned char)c->argv[i][0]) && parse_double(c, i, ret);

    if (!well)
        answer_error(c, "ERR value is not a valid float");
    return well;
}

/* As word_key; made when there is none. */
static bool word_key_made(struct call *c, size_t i, enum key_type type, struct key **ret)
{
    if (!word_key(c, i, type, ret))
        return false;
    if (*ret == NULL)
        *ret = add_key(c->ks, c->argv[i], c->len[i], type);
    return true;
}

static struct item *find_item(struct call *c, struct key *key, size_t word)
{
    size_t at = key == NULL ? ITEM_NONE : item_find(&key->items, c->argv[word], c->len[word]);

    return at == ITEM_NONE ? NULL : &key->items.at[at];
}

/* first and last, counted from the end when negative, as places of a list of `count`; false when there are none. */
static bool clip_range(int64_t count, int64_t *first, int64_t *last)
{
    if (*first < 0)
        *first = *first + count < 0 ? 0 : *first + count;
    if (*last < 0)
        *last += count;
    if (*last >= count)
        *last = count - 1;
    return *first <= *last && *first < count;
}

/* ---- hashes ----------------------------------------------------------------------------------------------------- */

static void run_hset(struct call *c)
{
    struct key *key;
    int64_t fresh = 0;

    if (c->argc % 2 != 0) {
        answer_arity(c, "hset");
        return;
    }
    if (!word_key_made(c, 1, KEY_HASH, &key))
        return;
    for (size_t i = 2; i < c->argc; i += 2) {
        struct item *item = find_item(c, key, i);

        if (item == NULL) {
            item = item_insert(&key->items, key->items.count, c->argv[i], c->len[i]);
            fresh++;
        }
        free(item->value);
        item->value = blob_new(c->argv[i + 1], c->len[i + 1]);
    }
    answer_integer(c, fresh);
}

static void run_hget(struct call *c)
{
    struct key *key;
    const struct item *item;

    if (!word_key(c, 1, KEY_HASH, &key))
        return;
    item = find_item(c, key, 2);
    answer_blob(c, item == NULL ? NULL : item->value);
}

static void run_hmget(struct call *c)
{
    struct key *key;

    if (!word_key(c, 1, KEY_HASH, &key))
        return;
    answer_array(c, c->argc - 2);
    for (size_t i = 2; i < c->argc; i++) {
        const struct item *item = find_item(c, key, i);

        answer_blob(c, item == NULL ? NULL : item->value);
    }
}

static void run_hexists(struct call *c)
{
    struct key *key;

    if (word_key(c, 1, KEY_HASH, &key))
        answer_integer(c, find_item(c, key, 2) != NULL);
}

/* HDEL and ZREM: take out what the words from the third on name. */
static void take_out(struct call *c, enum key_type type)
{
    struct key *key;
    int64_t gone = 0;

    if (!word_key(c, 1, type, &key))
        return;
    for (size_t i = 2; key != NULL && i < c->argc; i++) {
        size_t at = item_find(&key->items, c->argv[i], c->len[i]);

        if (at == ITEM_NONE)
            continue;
        item_remove(&key->items, at);
        gone++;
    }
    if (key != NULL)
        drop_if_empty(c->ks, key);
    answer_integer(c, gone);
}

static void run_hdel(struct call *c)
{
    take_out(c, KEY_HASH);
}

/* HLEN, LLEN and ZCARD. */
static void count_items(struct call *c, enum key_type type)
{
    struct key *key;

    if (word_key(c, 1, type, &key))
        answer_integer(c, key == NULL ? 0 : (int64_t)key->items.count);
}

static void run_hlen(struct call *c)
{
    count_items(c, KEY_HASH);
}

static void run_hkeys(struct call *c)
{
    struct key *key;

    if (!word_key(c, 1, KEY_HASH, &key))
        return;
    answer_array(c, key == NULL ? 0 : key->items.count);
    for (size_t i = 0; key != NULL && i < key->items.count; i++)
        answer_blob(c, key->items.at[i].name);
}

static void run_hgetall(struct call *c)
{
    struct key *key;

    if (!word_key(c, 1, KEY_HASH, &key))
        return;
    answer_array(c, key == NULL ? 0 : 2 * key->items.count);
    for (size_t i = 0; key != NULL && i < key->items.count; i++) {
        answer_blob(c, key->items.at[i].name);
        answer_blob(c, key->items.at[i].value);
    }
}

static void run_hincrby(struct call *c)
{
    struct key *key;
    struct item *item;
    int64_t by;
    int64_t n = 0;

    if (!word_integer(c, 3, &by) || !word_key(c, 1, KEY_HASH, &key))
        return;
    item = find_item(c, key, 2);
    if (item != NULL && !parse_integer(item->value->at, item->value->len, &n)) {
        answer_error(c, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(n, by, &n)) {
        answer_error(c, "ERR increment or decrement would overflow");
        return;
    }
    if (key == NULL)
        key = add_key(c->ks, c->argv[1], c->len[1], KEY_HASH);
    if (item == NULL)
        item = item_insert(&key->items, key->items.count, c->argv[2], c->len[2]);
    set_integer(&item->value, n);
    answer_integer(c, n);
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static void push(struct call *c, bool at_head)
{
    struct key *key;

    if (!word_key_made(c, 1, KEY_LIST, &key))
        return;
    for (size_t i = 2; i < c->argc; i++)
        (void)item_insert(&key->items, at_head ? 0 : key->items.count, c->argv[i], c->len[i]);
    answer_integer(c, (int64_t)key->items.count);
}

static void run_rpush(struct call *c)
{
    push(c, false);
}

static void run_lpush(struct call *c)
{
    push(c, true);
}

/* With a count: an array of at most so many. */
static void run_lpop(struct call *c)
{
    bool counted = c->argc == 3;
    int64_t count = 1;
    struct key *key;

    if (c->argc > 3) {
        answer_arity(c, "lpop");
        return;
    }
    if (counted && (!parse_integer(c->argv[2], c->len[2], &count) || count < 0)) {
        answer_error(c, "ERR value is out of range, must be positive");
        return;
    }
    if (!word_key(c, 1, KEY_LIST, &key))
        return;
    if (key == NULL) {
        answer_nil(c);
        return;
    }
    if (count > (int64_t)key->items.count)
        count = (int64_t)key->items.count;
    if (counted)
        answer_array(c, (size_t)count);
    for (; count > 0; count--) {
        answer_blob(c, key->items.at[0].name);
        item_remove(&key->items, 0);
    }
    drop_if_empty(c->ks, key);
}

static void run_llen(struct call *c)
{
    count_items(c, KEY_LIST);
}

static void run_lindex(struct call *c)
{
    struct key *key;
    int64_t at;

    if (!word_key(c, 1, KEY_LIST, &key))
        return;
    if (key == NULL) {
        answer_nil(c);
        return;
    }
    if (!word_integer(c, 2, &at))
        return;
    if (at < 0)
        at += (int64_t)key->items.count;
    answer_blob(c, at < 0 || at >= (int64_t)key->items.count ? NULL : key->items.at[at].name);
}

static void run_lrange(struct call *c)
{
    struct key *key;
    int64_t first;
    int64_t last;
    int64_t count;

    if (!word_integer(c, 2, &first) || !word_integer(c, 3, &last) || !word_key(c, 1, KEY_LIST, &key))
        return;
    count = key == NULL ? 0 : (int64_t)key->items.count;
    if (!clip_range(count, &first, &last)) {
        answer_array(c, 0);
        return;
    }
    answer_array(c, (size_t)(last - first + 1));
    for (int64_t i = first; i <= last; i++)
        answer_blob(c, key->items.at[i].name);
}

/* Take out `limit` elements equal to word 3 (0: all), from the head or from the tail. */
static int64_t remove_equal(struct call *c, struct items *items, uint64_t limit, bool from_tail)
{
    size_t left = items->count;
    uint64_t gone = 0;

    for (size_t at = from_tail ? items->count : 0; left > 0 && (limit == 0 || gone < limit); left--) {
        if (from_tail)
            at--;
        if (blob_is(items->at[at].name, c->argv[3], c->len[3])) {
            item_remove(items, at);
            gone++;
        } else if (!from_tail) {
            at++;
        }
    }
    return (int64_t)gone;
}

static void run_lrem(struct call *c)
{
    struct key *key;
    int64_t count;
    int64_t gone;

    if (!word_integer(c, 2, &count) || !word_key(c, 1, KEY_LIST, &key))
        return;
    if (key == NULL) {
        answer_integer(c, 0);
        return;
    }
    gone = remove_equal(c, &key->items, count < 0 ? -(uint64_t)count : (uint64_t)count, count < 0);
    drop_if_empty(c->ks, key);
    answer_integer(c, gone);
}

/* ---- sorted sets ------------------------------------------------------------------------------------------------ */

struct zadd_flags {
    bool nx, xx, gt, lt, ch;
};

/* Reads the flags; returns the first word after them. */
static size_t zadd_flags(struct call *c, struct zadd_flags *ret)
{
    size_t i = 2;

    *ret = (struct zadd_flags){0};
    for (; i < c->argc; i++) {
        bool *flag = word_is(c, i, "nx")   ? &ret->nx
                     : word_is(c, i, "xx") ? &ret->xx
                     : word_is(c, i, "gt") ? &ret->gt
                     : word_is(c, i, "lt") ? &ret->lt
                     : word_is(c, i, "ch") ? &ret->ch
                                           : NULL;

        if (flag == NULL)
            break;
        *flag = true;
    }
    return i;
}

/* 1 when the member is new, or when its score has changed and changes count. */
static int64_t zadd_one(struct call *c, struct items *items, const struct zadd_flags *flags, double score, size_t word)
{
    size_t at = item_find(items, c->argv[word], c->len[word]);
    struct item *item;

    if (at == ITEM_NONE ? flags->xx : flags->nx)
        return 0;
    if (at != ITEM_NONE) {
        double present = items->at[at].score;

        if (score == present || (flags->gt && score < present) || (flags->lt && score > present))
            return 0;
        item_remove(items, at);
    }
    item = item_insert(items, item_rank(items, score, c->argv[word], c->len[word]), c->argv[word], c->len[word]);
    item->score = score;
    return at == ITEM_NONE || flags->ch;
}

static void run_zadd(struct call *c)
{
    struct zadd_flags flags;
    size_t first = zadd_flags(c, &flags);
    double score;
    struct key *key;
    int64_t changed = 0;

    if (first == c->argc || (c->argc - first) % 2 != 0) {
        answer_error(c, SYNTAX_ERROR);
        return;
    }
    if (flags.nx && flags.xx) {
        answer_error(c, "ERR XX and NX options at the same time are not compatible");
        return;
    }
    if ((flags.gt && flags.nx) || (flags.lt && flags.nx) || (flags.gt && flags.lt)) {
        answer_error(c, "ERR GT, LT, and/or NX options at the same time are not compatible");
        return;
    }
    for (size_t i = first; i < c->argc; i += 2)
        if (!word_double(c, i, &score))
            return;
    if (!word_key(c, 1, KEY_ZSET, &key))
        return;
    if (key == NULL && !flags.xx)
        key = add_key(c->ks, c->argv[1], c->len[1], KEY_ZSET);
    for (size_t i = first; key != NULL && i < c->argc; i += 2) {
        (void)word_double(c, i, &score);
        changed += zadd_one(c, &key->items, &flags, score, i + 1);
    }
    answer_integer(c, changed);
}

static void run_zrem(struct call *c)
{
    take_out(c, KEY_ZSET);
}

static void run_zcard(struct call *c)
{
    count_items(c, KEY_ZSET);
}

static void run_zscore(struct call *c)
{
    struct key *key;
    const struct item *item;

    if (!word_key(c, 1, KEY_ZSET, &key))
        return;
    item = find_item(c, key, 2);
    if (item == NULL)
        answer_nil(c);
    else
        answer_double(c, item->score);
}

static void run_zrange(struct call *c)
{
    bool with_scores = c->argc == 5 && word_is(c, 4, "withscores");
    struct key *key;
    int64_t first;
    int64_t last;
    int64_t count;

    if (c->argc > 4 && !with_scores) {
        answer_error(c, SYNTAX_ERROR);
        return;
    }
    if (!word_integer(c, 2, &first) || !word_integer(c, 3, &last) || !word_key(c, 1, KEY_ZSET, &key))
        return;
    count = key == NULL ? 0 : (int64_t)key->items.count;
    if (!clip_range(count, &first, &last)) {
        answer_array(c, 0);
        return;
    }
    answer_array(c, (size_t)(last - first + 1) * (with_scores ? 2 : 1));
    for (int64_t i = first; i <= last; i++) {
        answer_blob(c, key->items.at[i].name);
        if (with_scores)
            answer_double(c, key->items.at[i].score);
    }
}

/* Bounds belong to the range; the server's `(` is not spoken. */
static void run_zremrangebyscore(struct call *c)
{
    double least, most;
    struct key *key;
    int64_t gone = 0;

    if (!parse_double(c, 2, &least) || !parse_double(c, 3, &most)) {
        answer_error(c, "ERR min or max is not a float");
        return;
    }
    if (!word_key(c, 1, KEY_ZSET, &key))
        return;
    for (size_t at = key == NULL ? 0 : key->items.count; at-- > 0;) {
        if (key->items.at[at].score >= least && key->items.at[at].score <= most) {
            item_remove(&key->items, at);
            gone++;
        }
    }
    if (key != NULL)
        drop_if_empty(c->ks, key);
    answer_integer(c, gone);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct command collection_commands[] = {
    {.name = "hdel", .arity = -3, .run = run_hdel},
    {.name = "hexists", .arity = 3, .run = run_hexists},
    {.name = "hget", .arity = 3, .run = run_hget},
    {.name = "hgetall", .arity = 2, .run = run_hgetall},
    {.name = "hincrby", .arity = 4, .run = run_hincrby},
    {.name = "hkeys", .arity = 2, .run = run_hkeys},
    {.name = "hlen", .arity = 2, .run = run_hlen},
    {.name = "hmget", .arity = -3, .run = run_hmget},
    {.name = "hset", .arity = -4, .run = run_hset},
    {.name = "lindex", .arity = 3, .run = run_lindex},
    {.name = "llen", .arity = 2, .run = run_llen},
    {.name = "lpop", .arity = -2, .run = run_lpop},
    {.name = "lpush", .arity = -3, .run = run_lpush},
    {.name = "lrange", .arity = 4, .run = run_lrange},
    {.name = "lrem", .arity = 4, .run = run_lrem},
    {.name = "rpush", .arity = -3, .run = run_rpush},
    {.name = "zadd", .arity = -4, .run = run_zadd},
    {.name = "zcard", .arity = 2, .run = run_zcard},
    {.name = "zrange", .arity = -4, .run = run_zrange},
    {.name = "zrem", .arity = -3, .run = run_zrem},
    {.name = "zremrangebyscore", .arity = 4, .run = run_zremrangebyscore},
    {.name = "zscore", .arity = 3, .run = run_zscore},
};
const size_t collection_command_count = sizeof collection_commands / sizeof collection_commands[0];
