/* keyspace_commands.c - the commands that the keyspace knows: one function and one table row each.
 *
 * To add one: write its function in the words of keyspace_impl.h, add its row to the table at the end, and let
 * test_keyspace.c draw it. What is checked first matters when several things are wrong: the order here is Redis'.
 */
#include "tests/script/keyspace_impl.h"
#include "tests/support/wait.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- reading the words ------------------------------------------------------------------------------------------ */

static const char NOT_AN_INTEGER[] = "ERR value is not an integer or out of range";
static const char SYNTAX[] = "ERR syntax error";

static void answer_arity(struct call *c, const char *command)
{
    answer_error(c, "ERR wrong number of arguments for '%s' command", command);
}

bool parse_integer(const char *at, size_t len, int64_t *ret)
{
    bool negative = len > 1 && at[0] == '-';
    uint64_t n = 0;
    size_t i = negative;
    uint64_t limit = (uint64_t)INT64_MAX + negative;

    if (len == 1 && at[0] == '0') {
        *ret = 0;
        return true;
    }
    if (i == len || at[i] == '0')
        return false;
    for (; i < len; i++) {
        unsigned digit = (unsigned char)at[i] - (unsigned)'0';

        if (digit > 9 || n > (limit - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *ret = negative ? -(int64_t)(n - 1) - 1 : (int64_t)n;
    return true;
}

bool word_integer(struct call *c, size_t i, int64_t *ret)
{
    if (parse_integer(c->argv[i], c->len[i], ret))
        return true;
    answer_error(c, "%s", NOT_AN_INTEGER);
    return false;
}

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

bool word_is(const struct call *c, size_t i, const char *lower)
{
    return c->len[i] == strlen(lower) && strncasecmp(c->argv[i], lower, c->len[i]) == 0;
}

/* A key that word i names and that is of this type. False: it is of another, and the error has been said. No key: NULL.
 */
static bool word_key(struct call *c, size_t i, enum key_type type, struct key **ret)
{
    *ret = find_key(c->ks, c->argv[i], c->len[i]);
    if (*ret == NULL || (*ret)->type == type)
        return true;
    answer_error(c, "WRONGTYPE Operation against a key holding the wrong kind of value");
    return false;
}

/* The same, and made when there is none. */
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

/* ---- any key ---------------------------------------------------------------------------------------------------- */

static void run_exists(struct call *c)
{
    int64_t there = 0;

    for (size_t i = 1; i < c->argc; i++)
        there += find_key(c->ks, c->argv[i], c->len[i]) != NULL;
    answer_integer(c, there);
}

static void run_del(struct call *c)
{
    int64_t gone = 0;

    for (size_t i = 1; i < c->argc; i++) {
        struct key *key = find_key(c->ks, c->argv[i], c->len[i]);

        if (key == NULL)
            continue;
        remove_key(c->ks, key);
        gone++;
    }
    answer_integer(c, gone);
}

static void run_type(struct call *c)
{
    static const char *const NAMES[] = {
        [KEY_STRING] = "string", [KEY_HASH] = "hash", [KEY_LIST] = "list", [KEY_ZSET] = "zset"};
    const struct key *key = find_key(c->ks, c->argv[1], c->len[1]);

    answer_status(c, key == NULL ? "none" : NAMES[key->type]);
}

static void run_pttl(struct call *c)
{
    const struct key *key = find_key(c->ks, c->argv[1], c->len[1]);

    if (key == NULL)
        answer_integer(c, -2);
    else if (key->expire_ms == NO_EXPIRY)
        answer_integer(c, -1);
    else
        answer_integer(c, key->expire_ms - now_ms_of(c->ks));
}

static void run_persist(struct call *c)
{
    struct key *key = find_key(c->ks, c->argv[1], c->len[1]);
    bool had = key != NULL && key->expire_ms != NO_EXPIRY;

    if (had)
        key->expire_ms = NO_EXPIRY;
    answer_integer(c, had);
}

struct expire_flags {
    bool nx, xx, gt, lt;
};

static bool expire_flags(struct call *c, struct expire_flags *ret)
{
    *ret = (struct expire_flags){0};
    for (size_t i = 3; i < c->argc; i++) {
        bool *flag = word_is(c, i, "nx")   ? &ret->nx
                     : word_is(c, i, "xx") ? &ret->xx
                     : word_is(c, i, "gt") ? &ret->gt
                     : word_is(c, i, "lt") ? &ret->lt
                                           : NULL;

        if (flag == NULL) {
            answer_error(c, "ERR Unsupported option %.*s", (int)c->len[i], c->argv[i]);
            return false;
        }
        *flag = true;
    }
    if (ret->nx && (ret->xx || ret->gt || ret->lt)) {
        answer_error(c, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (ret->gt && ret->lt) {
        answer_error(c, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

static bool expire_allowed(const struct expire_flags *flags, int64_t present, int64_t wanted)
{
    if (present == NO_EXPIRY) /* counts as for ever */
        return !flags->xx && !flags->gt;
    return !flags->nx && !(flags->gt && wanted <= present) && !(flags->lt && wanted >= present);
}

static void run_pexpire(struct call *c)
{
    int64_t now = now_ms_of(c->ks);
    struct expire_flags flags;
    struct key *key;
    int64_t ms;

    if (!expire_flags(c, &flags) || !word_integer(c, 2, &ms))
        return;
    if (ms > INT64_MAX - now) {
        answer_error(c, "ERR invalid expire time in 'pexpire' command");
        return;
    }
    key = find_key(c->ks, c->argv[1], c->len[1]);
    if (key == NULL || !expire_allowed(&flags, key->expire_ms, now + ms)) {
        answer_integer(c, 0);
        return;
    }
    if (ms <= 0)
        remove_key(c->ks, key);
    else
        key->expire_ms = now + ms;
    answer_integer(c, 1);
}

/* ---- strings ---------------------------------------------------------------------------------------------------- */

static void run_get(struct call *c)
{
    struct key *key;

    if (word_key(c, 1, KEY_STRING, &key))
        answer_blob(c, key == NULL ? NULL : key->string);
}

struct set_options {
    bool nx, xx, get, keep_ttl;
    size_t px; /* the word with the time to live in ms, or 0 */
};

static bool set_options(struct call *c, struct set_options *ret)
{
    *ret = (struct set_options){0};
    for (size_t i = 3; i < c->argc; i++) {
        if (word_is(c, i, "nx") && !ret->xx)
            ret->nx = true;
        else if (word_is(c, i, "xx") && !ret->nx)
            ret->xx = true;
        else if (word_is(c, i, "get"))
            ret->get = true;
        else if (word_is(c, i, "keepttl") && ret->px == 0)
            ret->keep_ttl = true;
        else if (word_is(c, i, "px") && ret->px == 0 && !ret->keep_ttl && i + 1 < c->argc)
            ret->px = ++i;
        else {
            answer_error(c, "%s", SYNTAX);
            return false;
        }
    }
    return true;
}

/* The moment at which word `px` says that the key ends. */
static bool set_expiry(struct call *c, size_t px, int64_t *ret)
{
    int64_t now = now_ms_of(c->ks);
    int64_t ms;

    if (!word_integer(c, px, &ms))
        return false;
    if (ms <= 0 || ms > INT64_MAX - now) {
        answer_error(c, "ERR invalid expire time in 'set' command");
        return false;
    }
    *ret = now + ms;
    return true;
}

static void run_set(struct call *c)
{
    struct set_options options;
    int64_t expire_ms = NO_EXPIRY;
    struct key *key;
    bool allowed;

    if (!set_options(c, &options) || (options.px != 0 && !set_expiry(c, options.px, &expire_ms)))
        return;
    key = find_key(c->ks, c->argv[1], c->len[1]);
    if (options.get) {
        if (!word_key(c, 1, KEY_STRING, &key))
            return;
        answer_blob(c, key == NULL ? NULL : key->string);
    }
    allowed = key == NULL ? !options.xx : !options.nx;
    if (allowed) {
        if (key == NULL)
            key = add_key(c->ks, c->argv[1], c->len[1], KEY_STRING);
        set_string(key, c->argv[2], c->len[2]);
        if (!options.keep_ttl)
            key->expire_ms = expire_ms;
    }
    if (options.get)
        return;
    if (allowed)
        answer_status(c, "OK");
    else
        answer_nil(c);
}

static void set_integer(struct blob **at, int64_t n)
{
    char text[24];

    free(*at);
    *at = blob_new(text, (size_t)snprintf(text, sizeof text, "%lld", (long long)n));
}

static void add_to_string(struct call *c, int64_t by)
{
    struct key *key;
    int64_t n = 0;

    if (!word_key(c, 1, KEY_STRING, &key))
        return;
    if (key != NULL && !parse_integer(key->string->at, key->string->len, &n)) {
        answer_error(c, "%s", NOT_AN_INTEGER);
        return;
    }
    if (__builtin_add_overflow(n, by, &n)) {
        answer_error(c, "ERR increment or decrement would overflow");
        return;
    }
    if (key == NULL)
        key = add_key(c->ks, c->argv[1], c->len[1], KEY_STRING);
    set_integer(&key->string, n);
    answer_integer(c, n);
}

static void run_incr(struct call *c)
{
    add_to_string(c, 1);
}

static void run_decr(struct call *c)
{
    add_to_string(c, -1);
}

static void run_incrby(struct call *c)
{
    int64_t by;

    if (word_integer(c, 2, &by))
        add_to_string(c, by);
}

static void run_decrby(struct call *c)
{
    int64_t by;

    if (!word_integer(c, 2, &by))
        return;
    if (by == INT64_MIN)
        answer_error(c, "ERR decrement would overflow");
    else
        add_to_string(c, -by);
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
        answer_error(c, "%s", SYNTAX);
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
        answer_error(c, "%s", SYNTAX);
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

/* ---- the server ------------------------------------------------------------------------------------------------- */

static void run_time(struct call *c)
{
    char text[24];

    answer_array(c, 2);
    answer_bytes(c, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)(c->ks->now_us / 1000000)));
    answer_bytes(c, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)(c->ks->now_us % 1000000)));
}

static void send_message(struct call *c, bool sharded)
{
    struct keyspace *ks = c->ks;

    answer_integer(c, ks->publish == NULL
                          ? 0
                          : ks->publish(ks->publish_arg, sharded, c->argv[1], c->len[1], c->argv[2], c->len[2]));
}

static void run_publish(struct call *c)
{
    send_message(c, false);
}

static void run_spublish(struct call *c)
{
    send_message(c, true);
}

static void run_ping(struct call *c)
{
    if (c->argc > 2)
        answer_arity(c, "ping");
    else if (c->argc == 2)
        answer_bytes(c, c->argv[1], c->len[1]);
    else
        answer_status(c, "PONG");
}

static void run_dbsize(struct call *c)
{
    answer_integer(c, (int64_t)c->ks->key_count);
}

static void run_flushall(struct call *c)
{
    remove_all_keys(c->ks);
    answer_status(c, "OK");
}

/* ---- scripts ---------------------------------------------------------------------------------------------------- */

/* numkeys, word 2, must fit the words that follow. */
static bool numkeys_fits(struct call *c)
{
    int64_t keys;

    if (!word_integer(c, 2, &keys))
        return false;
    if (keys > (int64_t)c->argc - 3)
        answer_error(c, "ERR Number of keys can't be greater than number of args");
    else if (keys < 0)
        answer_error(c, "ERR Number of keys can't be negative");
    return !c->failed;
}

static void run_eval(struct call *c)
{
    const struct script *script;

    if (!numkeys_fits(c))
        return;
    script = script_load(c, c->argv[1], c->len[1]);
    if (script != NULL)
        script_run(c, script);
}

static void run_evalsha(struct call *c)
{
    const struct script *script;

    if (c->len[1] == KS_SHA_SIZE - 1 && !numkeys_fits(c))
        return;
    script = script_find(c->ks, c->argv[1], c->len[1]);
    if (script == NULL)
        answer_error(c, "NOSCRIPT No matching script. Please use EVAL.");
    else
        script_run(c, script);
}

static void run_script(struct call *c)
{
    if (word_is(c, 1, "load") && c->argc == 3) {
        const struct script *script = script_load(c, c->argv[2], c->len[2]);

        if (script != NULL)
            answer_bytes(c, script->sha, strlen(script->sha));
    } else if (word_is(c, 1, "exists") && c->argc > 2) {
        answer_array(c, c->argc - 2);
        for (size_t i = 2; i < c->argc; i++)
            answer_integer(c, script_find(c->ks, c->argv[i], c->len[i]) != NULL);
    } else if (word_is(c, 1, "flush") && c->argc == 2) {
        scripts_flush(c->ks);
        answer_status(c, "OK");
    } else {
        answer_error(c, "ERR unknown subcommand '%.128s'. Try SCRIPT HELP.", c->argv[1]);
    }
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct command COMMANDS[] = {
    {.name = "dbsize", .arity = 1, .run = run_dbsize},
    {.name = "decr", .arity = 2, .run = run_decr},
    {.name = "decrby", .arity = 3, .run = run_decrby},
    {.name = "del", .arity = -2, .run = run_del},
    {.name = "eval", .arity = -3, .no_script = true, .run = run_eval},
    {.name = "evalsha", .arity = -3, .no_script = true, .run = run_evalsha},
    {.name = "exists", .arity = -2, .run = run_exists},
    {.name = "flushall", .arity = -1, .run = run_flushall},
    {.name = "get", .arity = 2, .run = run_get},
    {.name = "hdel", .arity = -3, .run = run_hdel},
    {.name = "hexists", .arity = 3, .run = run_hexists},
    {.name = "hget", .arity = 3, .run = run_hget},
    {.name = "hgetall", .arity = 2, .run = run_hgetall},
    {.name = "hincrby", .arity = 4, .run = run_hincrby},
    {.name = "hkeys", .arity = 2, .run = run_hkeys},
    {.name = "hlen", .arity = 2, .run = run_hlen},
    {.name = "hset", .arity = -4, .run = run_hset},
    {.name = "incr", .arity = 2, .run = run_incr},
    {.name = "incrby", .arity = 3, .run = run_incrby},
    {.name = "lindex", .arity = 3, .run = run_lindex},
    {.name = "llen", .arity = 2, .run = run_llen},
    {.name = "lpop", .arity = -2, .run = run_lpop},
    {.name = "lpush", .arity = -3, .run = run_lpush},
    {.name = "lrange", .arity = 4, .run = run_lrange},
    {.name = "lrem", .arity = 4, .run = run_lrem},
    {.name = "persist", .arity = 2, .run = run_persist},
    {.name = "pexpire", .arity = -3, .run = run_pexpire},
    {.name = "ping", .arity = -1, .run = run_ping},
    {.name = "pttl", .arity = 2, .run = run_pttl},
    {.name = "publish", .arity = 3, .run = run_publish},
    {.name = "rpush", .arity = -3, .run = run_rpush},
    {.name = "script", .arity = -2, .no_script = true, .run = run_script},
    {.name = "set", .arity = -3, .run = run_set},
    {.name = "spublish", .arity = 3, .run = run_spublish},
    {.name = "time", .arity = 1, .run = run_time},
    {.name = "type", .arity = 2, .run = run_type},
    {.name = "zadd", .arity = -4, .run = run_zadd},
    {.name = "zcard", .arity = 2, .run = run_zcard},
    {.name = "zrange", .arity = -4, .run = run_zrange},
    {.name = "zrem", .arity = -3, .run = run_zrem},
    {.name = "zremrangebyscore", .arity = 4, .run = run_zremrangebyscore},
    {.name = "zscore", .arity = 3, .run = run_zscore},
};

#define COMMAND_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])
#define COMMAND_SLOTS 256 /* a power of two, well above COMMAND_COUNT */
#define COMMAND_NAME_MAX 32

static size_t command_slot(const char *lower, size_t len)
{
    return (size_t)ks_hash(lower, len) & (COMMAND_SLOTS - 1);
}

void commands_open(struct keyspace *ks)
{
    ks->commands = must_alloc(COMMAND_SLOTS * sizeof(struct command *));
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        size_t slot = command_slot(COMMANDS[i].name, strlen(COMMANDS[i].name));

        while (ks->commands[slot] != NULL)
            slot = (slot + 1) & (COMMAND_SLOTS - 1);
        ks->commands[slot] = &COMMANDS[i];
    }
}

const struct command *command_find(const struct keyspace *ks, const char *name, size_t len)
{
    char lower[COMMAND_NAME_MAX];
    size_t slot;

    if (len >= sizeof lower)
        return NULL;
    for (size_t i = 0; i < len; i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    lower[len] = '\0';
    slot = command_slot(lower, len);
    while (ks->commands[slot] != NULL && strcmp(ks->commands[slot]->name, lower) != 0)
        slot = (slot + 1) & (COMMAND_SLOTS - 1);
    return ks->commands[slot];
}
