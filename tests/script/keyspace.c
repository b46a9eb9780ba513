/* SPDX-License-Identifier: MIT */
/* keyspace.c - keys and values, time, images, and running one command. keyspace_impl.h tells the parts. */
#include "tests/script/keyspace.h"
#include "tests/script/keyspace_impl.h"
#include "tests/support/wait.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- byte strings and lists of them ----------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 uint128;

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint128 product = (uint128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* What is long is taken 32 bytes at a time, by two that do not wait for each other. */
uint64_t ks_hash(const void *at, size_t len)
{
    const unsigned char *byte = at;
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ len, other = h;
    uint64_t word, words[4];

    for (; len >= sizeof words; len -= sizeof words, byte += sizeof words) {
        memcpy(words, byte, sizeof words);
        h = mixed(words[0] ^ UINT64_C(0xa0761d6478bd642f), words[1] ^ h);
        other = mixed(words[2] ^ UINT64_C(0xe7037ed1a0b428db), words[3] ^ other);
    }
    h ^= other * UINT64_C(0xff51afd7ed558ccd);
    for (; len >= sizeof word; len -= sizeof word, byte += sizeof word) {
        memcpy(&word, byte, sizeof word);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, byte, len);
    h = (h ^ word) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 29;
}

struct blob *blob_new(const char *at, size_t len)
{
    struct blob *b = must_realloc(NULL, sizeof *b + len + 1);

    b->len = (uint32_t)len;
    b->hash = (uint32_t)ks_hash(at, len);
    memcpy(b->at, at, len);
    b->at[len] = '\0';
    return b;
}

bool blob_is(const struct blob *b, const char *at, size_t len)
{
    return b->len == len && memcmp(b->at, at, len) == 0;
}

static int bytes_order(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

int blob_order(const struct blob *a, const struct blob *b)
{
    return bytes_order(a->at, a->len, b->at, b->len);
}

#define FEW 8 /* are compared as fast as a tag is made */

static uint32_t tag_of(const char *name, size_t len)
{
    uint32_t first = 0;
    uint32_t last = 0;

    memcpy(&first, name, len < sizeof first ? len : sizeof first);
    memcpy(&last, len < sizeof last ? name : name + len - sizeof last, len < sizeof last ? len : sizeof last);
    return first ^ last * 31;
}

size_t item_find(const struct items *items, const char *name, size_t len)
{
    uint32_t tag = items->count > FEW ? tag_of(name, len) : 0;

    for (size_t i = 0; i < items->count; i++)
        if ((items->count <= FEW || items->at[i].tag == tag) && blob_is(items->at[i].name, name, len))
            return i;
    return ITEM_NONE;
}

struct item *item_insert(struct items *items, size_t at, const char *name, size_t len)
{
    if (items->count == items->cap) {
        items->cap = items->cap == 0 ? 2 : items->cap * 2;
        items->at = must_realloc(items->at, items->cap * sizeof *items->at);
    }
    memmove(items->at + at + 1, items->at + at, (items->count - at) * sizeof *items->at);
    items->count++;
    items->at[at] = (struct item){.name = blob_new(name, len), .tag = tag_of(name, len)};
    return &items->at[at];
}

void item_remove(struct items *items, size_t at)
{
    free(items->at[at].name);
    free(items->at[at].value);
    items->count--;
    memmove(items->at + at, items->at + at + 1, (items->count - at) * sizeof *items->at);
}

size_t item_rank(const struct items *items, double score, const char *name, size_t len)
{
    size_t low = 0;
    size_t high = items->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct item *item = &items->at[middle];

        if (item->score < score ||
            (item->score == score && bytes_order(item->name->at, item->name->len, name, len) < 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

#define FIRST_SLOT_COUNT 16

int64_t now_ms_of(const struct keyspace *ks)
{
    return ks->now_us / 1000;
}

static bool is_over(const struct keyspace *ks, const struct key *key)
{
    return key->expire_ms != NO_EXPIRY && now_ms_of(ks) > key->expire_ms;
}

static struct key **slot_of(const struct keyspace *ks, uint64_t hash)
{
    return &ks->slots[(uint32_t)hash & (ks->slot_count - 1)];
}

static void empty_key(struct key *key)
{
    for (size_t i = key->items.count; i > 0; i--)
        item_remove(&key->items, i - 1);
    free(key->items.at);
    free(key->string);
    key->items = (struct items){0};
    key->string = NULL;
}

struct key *find_key(struct keyspace *ks, const char *name, size_t len)
{
    struct key *key = *slot_of(ks, ks_hash(name, len));

    while (key != NULL && !blob_is(key->name, name, len))
        key = key->next;
    if (key != NULL && is_over(ks, key)) {
        remove_key(ks, key);
        key = NULL;
    }
    return key;
}

static void grow_slots(struct keyspace *ks)
{
    struct key **old = ks->slots;
    size_t old_count = ks->slot_count;

    ks->slot_count = old_count * 2;
    ks->slots = must_alloc(ks->slot_count * sizeof(struct key *));
    for (size_t i = 0; i < old_count; i++) {
        for (struct key *key = old[i], *next; key != NULL; key = next) {
            struct key **slot = slot_of(ks, key->name->hash);

            next = key->next;
            key->next = *slot;
            *slot = key;
        }
    }
    free(old);
}

struct key *add_key(struct keyspace *ks, const char *name, size_t len, enum key_type type)
{
    struct key *key = must_alloc(sizeof *key);
    struct key **slot;

    if (ks->key_count >= ks->slot_count)
        grow_slots(ks);
    key->name = blob_new(name, len);
    key->type = type;
    key->expire_ms = NO_EXPIRY;
    slot = slot_of(ks, key->name->hash);
    key->next = *slot;
    *slot = key;
    ks->key_count++;
    return key;
}

void remove_key(struct keyspace *ks, struct key *key)
{
    struct key **link = slot_of(ks, key->name->hash);

    while (*link != key)
        link = &(*link)->next;
    *link = key->next;
    ks->key_count--;
    empty_key(key);
    free(key->name);
    free(key);
}

void remove_all_keys(struct keyspace *ks)
{
    for (size_t i = 0; i < ks->slot_count; i++)
        while (ks->slots[i] != NULL)
            remove_key(ks, ks->slots[i]);
}

void drop_if_empty(struct keyspace *ks, struct key *key)
{
    if (key->items.count == 0)
        remove_key(ks, key);
}

void set_string(struct key *key, const char *at, size_t len)
{
    struct blob *b = blob_new(at, len);

    empty_key(key);
    key->type = KEY_STRING;
    key->string = b;
}

/* ---- life and time ---------------------------------------------------------------------------------------------- */

struct keyspace *ks_new(int64_t now_us)
{
    struct keyspace *ks = must_alloc(sizeof *ks);

    ks->now_us = now_us;
    ks->slot_count = FIRST_SLOT_COUNT;
    ks->slots = must_alloc(ks->slot_count * sizeof(struct key *));
    commands_open(ks);
    lua_open_keyspace(ks);
    return ks;
}

struct keyspace *ks_free(struct keyspace *ks)
{
    if (ks == NULL)
        return NULL;
    remove_all_keys(ks);
    lua_close_keyspace(ks);
    free(ks->words);
    free(ks->word_len);
    free(ks->called);
    free(ks->commands);
    free(ks->slots);
    free(ks);
    return NULL;
}

int64_t ks_time(const struct keyspace *ks)
{
    return ks->now_us;
}

void ks_set_time(struct keyspace *ks, int64_t now_us)
{
    ks->now_us = now_us;
}

void ks_advance(struct keyspace *ks, int64_t us)
{
    ks->now_us += us;
}

void ks_on_publish(struct keyspace *ks, ks_publish_fn fn, void *arg)
{
    ks->publish = fn;
    ks->publish_arg = arg;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

void reply_set_text(struct reply *r, enum reply_kind kind, const char *at, size_t len)
{
    r->kind = kind;
    r->text = must_realloc(NULL, len + 1);
    memcpy(r->text, at, len);
    r->text[len] = '\0';
    r->len = len;
}

/* Where the next answer goes when no script asks. */
static struct reply *next_reply(struct call *c)
{
    if (c->array_left == 0)
        return c->reply;
    c->array_left--;
    return &c->reply->items[c->array_said++];
}

/* The value on top of the script's stack is the next answer. */
static void said_to_script(struct call *c)
{
    if (c->array_left == 0)
        return;
    c->array_left--;
    lua_rawseti(c->lua, -2, (int)++c->array_said);
}

void answer_integer(struct call *c, int64_t n)
{
    if (c->lua == NULL) {
        struct reply *r = next_reply(c);

        r->kind = REPLY_INTEGER;
        r->integer = n;
        return;
    }
    lua_pushnumber(c->lua, (lua_Number)n);
    said_to_script(c);
}

void answer_nil(struct call *c)
{
    if (c->lua == NULL) {
        next_reply(c)->kind = REPLY_NIL;
        return;
    }
    lua_pushboolean(c->lua, 0);
    said_to_script(c);
}

void answer_bytes(struct call *c, const char *at, size_t len)
{
    if (c->lua == NULL) {
        reply_set_text(next_reply(c), REPLY_STRING, at, len);
        return;
    }
    lua_pushlstring(c->lua, at, len);
    said_to_script(c);
}

void answer_blob(struct call *c, const struct blob *b)
{
    if (b == NULL)
        answer_nil(c);
    else
        answer_bytes(c, b->at, b->len);
}

void answer_double(struct call *c, double d)
{
    char text[40];

    if (isinf(d))
        answer_bytes(c, d > 0 ? "inf" : "-inf", d > 0 ? 3 : 4);
    else
        answer_bytes(c, text, (size_t)snprintf(text, sizeof text, "%.17g", d));
}

void answer_status(struct call *c, const char *text)
{
    if (c->lua == NULL) {
        reply_set_text(next_reply(c), REPLY_STATUS, text, strlen(text));
        return;
    }
    lua_createtable(c->lua, 0, 1);
    lua_pushstring(c->lua, text);
    lua_setfield(c->lua, -2, "ok");
    said_to_script(c);
}

void answer_array(struct call *c, size_t count)
{
    if (c->lua == NULL) {
        c->reply->kind = REPLY_ARRAY;
        c->reply->count = count;
        c->reply->items = must_alloc((count + 1) * sizeof *c->reply->items);
    } else {
        lua_createtable(c->lua, (int)count, 0);
    }
    c->array_left = count;
}

void answer_error(struct call *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(c->ks->error, sizeof c->ks->error, format, args);
    va_end(args);
    c->failed = true;
}

/* ---- running a command ------------------------------------------------------------------------------------------ */

/* What was asked for, as far as it fits. */
static void answer_unknown(struct call *c)
{
    char args[140];
    size_t len = 0;

    args[0] = '\0';
    for (size_t i = 1; i < c->argc && len < 128; i++) {
        size_t room = 128 - len;
        size_t word = strnlen(c->argv[i], c->len[i]); /* as C would print it */

        len += (size_t)snprintf(args + len, sizeof args - len, "'%.*s' ", (int)(word < room ? word : room), c->argv[i]);
    }
    answer_error(c, "ERR unknown command '%.*s', with args beginning with: %s",
                 (int)(c->len[0] < 128 ? c->len[0] : 128), c->argv[0], args);
}

void run_command(struct call *c)
{
    const struct command *command = command_find(c->ks, c->argv[0], c->len[0]);
    bool counts;

    if (command == NULL) {
        if (c->lua != NULL)
            answer_error(c, "ERR Unknown Redis command called from script");
        else
            answer_unknown(c);
        return;
    }
    counts = command->arity > 0 ? c->argc == (size_t)command->arity : c->argc >= (size_t)-command->arity;
    if (!counts && c->lua != NULL)
        answer_error(c, "ERR Wrong number of args calling Redis command from script");
    else if (!counts)
        answer_error(c, "ERR wrong number of arguments for '%s' command", command->name);
    else if (command->no_script && c->lua != NULL)
        answer_error(c, "ERR This Redis command is not allowed from script");
    else
        command->run(c);
}

static struct reply *run_words(struct keyspace *ks, size_t argc, const char *const *argv, const size_t *len)
{
    struct call c = {.ks = ks, .argc = argc, .argv = argv, .len = len, .reply = must_alloc(sizeof *c.reply)};

    run_command(&c);
    if (c.failed)
        reply_set_text(c.reply, REPLY_ERROR, ks->error, strlen(ks->error));
    return c.reply;
}

struct reply *ks_command(struct keyspace *ks, size_t argc, const char *const *argv, const size_t *len)
{
    size_t few[16];
    size_t *measured = NULL;
    struct reply *reply;

    if (len == NULL) {
        measured = argc <= sizeof few / sizeof few[0] ? few : must_alloc(argc * sizeof *measured);
        for (size_t i = 0; i < argc; i++)
            measured[i] = strlen(argv[i]);
        len = measured;
    }
    reply = run_words(ks, argc, argv, len);
    if (measured != few)
        free(measured);
    return reply;
}

struct reply *ks_say_(struct keyspace *ks, const char *first, ...)
{
    const char *argv[64];
    size_t argc = 0;
    va_list words;

    va_start(words, first);
    for (const char *word = first; word != NULL; word = va_arg(words, const char *)) {
        if (argc == sizeof argv / sizeof argv[0])
            die("ks_say: more than %zu words", argc);
        argv[argc++] = word;
    }
    va_end(words);
    return ks_command(ks, argc, argv, NULL);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

void ks_refuse(struct keyspace *ks, size_t nth, const char *command)
{
    ks->refuse_nth = nth;
    ks->refuse_command = command;
}

size_t ks_calls(const struct keyspace *ks)
{
    return ks->called_count;
}

const char *ks_called(const struct keyspace *ks, size_t nth)
{
    return ks->called[nth - 1];
}

/* ---- images ----------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return blob_order((*(struct key *const *)a)->name, (*(struct key *const *)b)->name);
}

static void save_number(struct bytes *to, int64_t n)
{
    bytes_add(to, &n, sizeof n);
}

static void save_blob(struct bytes *to, const struct blob *b)
{
    bytes_add(to, &b->len, sizeof b->len);
    bytes_add(to, b->at, b->len);
}

static void save_key(struct bytes *to, const struct key *key)
{
    char type = (char)key->type;

    bytes_add(to, &type, 1);
    save_number(to, key->expire_ms);
    save_blob(to, key->name);
    if (key->type == KEY_STRING) {
        save_blob(to, key->string);
        return;
    }
    save_number(to, (int64_t)key->items.count);
    for (size_t i = 0; i < key->items.count; i++) {
        const struct item *item = &key->items.at[i];

        save_blob(to, item->name);
        if (key->type == KEY_HASH)
            save_blob(to, item->value);
        else if (key->type == KEY_ZSET)
            bytes_add(to, &item->score, sizeof item->score);
    }
}

/* Those whose time is not over, by name. */
static struct key **living_keys(struct keyspace *ks, size_t *ret_count)
{
    struct key **all = must_alloc((ks->key_count + 1) * sizeof(struct key *));
    size_t count = 0;

    for (size_t i = 0; i < ks->slot_count; i++)
        for (struct key *key = ks->slots[i]; key != NULL; key = key->next)
            if (!is_over(ks, key))
                all[count++] = key;
    qsort(all, count, sizeof(struct key *), by_name);
    *ret_count = count;
    return all;
}

static void write_item(struct bytes *to, const struct key *key, const struct item *item)
{
    char score[40];

    bytes_add(to, key->name->at, key->name->len);
    bytes_add(to, "\t", 1);
    bytes_add(to, item->name->at, item->name->len);
    if (key->type == KEY_HASH) {
        bytes_add(to, "=", 1);
        bytes_add(to, item->value->at, item->value->len);
    } else if (key->type == KEY_ZSET) {
        bytes_add(to, score, (size_t)snprintf(score, sizeof score, "=%.17g", item->score));
    }
    bytes_add(to, "\n", 1);
}

char *ks_text(struct keyspace *ks)
{
    size_t count;
    struct key **all = living_keys(ks, &count);
    struct bytes to = {0};
    char left[40];

    for (size_t i = 0; i < count; i++) {
        const struct key *key = all[i];

        if (key->type == KEY_STRING)
            write_item(&to, key, &(struct item){.name = key->string});
        for (size_t at = 0; at < key->items.count; at++)
            write_item(&to, key, &key->items.at[at]);
        bytes_add(&to, key->name->at, key->name->len);
        bytes_add(&to, left,
                  (size_t)snprintf(left, sizeof left, "\tttl %lld\n",
                                   key->expire_ms == NO_EXPIRY ? -1LL : (long long)(key->expire_ms - now_ms_of(ks))));
    }
    bytes_add(&to, "", 1);
    free(all);
    return to.at;
}

void ks_save(struct keyspace *ks, struct bytes *to)
{
    size_t count;
    struct key **all = living_keys(ks, &count);

    save_number(to, ks->now_us);
    for (size_t i = 0; i < count; i++)
        save_key(to, all[i]);
    free(all);
}

struct view {
    const char *at;
    size_t len;
};

static void take_bytes(struct view *from, void *to, size_t len)
{
    if (len > from->len)
        die("keyspace: the image is cut short");
    memcpy(to, from->at, len);
    from->at += len;
    from->len -= len;
}

static int64_t take_number(struct view *from)
{
    int64_t n;

    take_bytes(from, &n, sizeof n);
    return n;
}

/* A string of the image, left where it is. */
static struct view take_string(struct view *from)
{
    uint32_t len;
    struct view string;

    take_bytes(from, &len, sizeof len);
    if (len > from->len)
        die("keyspace: the image is cut short");
    string = (struct view){from->at, len};
    from->at += len;
    from->len -= len;
    return string;
}

static void restore_items(struct key *key, struct view *from)
{
    size_t count = (size_t)take_number(from);

    for (size_t i = 0; i < count; i++) {
        struct view name = take_string(from);
        struct item *item = item_insert(&key->items, i, name.at, name.len);

        if (key->type == KEY_HASH) {
            struct view value = take_string(from);

            item->value = blob_new(value.at, value.len);
        } else if (key->type == KEY_ZSET) {
            take_bytes(from, &item->score, sizeof item->score);
        }
    }
}

static void restore_key(struct keyspace *ks, struct view *from)
{
    char type;
    int64_t expire_ms;
    struct view name;
    struct key *key;

    take_bytes(from, &type, 1);
    expire_ms = take_number(from);
    name = take_string(from);
    key = add_key(ks, name.at, name.len, (enum key_type)type);
    key->expire_ms = expire_ms;
    if (key->type == KEY_STRING) {
        struct view string = take_string(from);

        set_string(key, string.at, string.len);
    } else {
        restore_items(key, from);
    }
}

void ks_restore(struct keyspace *ks, const char *image, size_t len)
{
    struct view from = {image, len};

    remove_all_keys(ks);
    ks->now_us = take_number(&from);
    while (from.len > 0)
        restore_key(ks, &from);
}
