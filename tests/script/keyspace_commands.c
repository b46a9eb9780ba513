/* SPDX-License-Identifier: MIT */
/* keyspace_commands.c - the commands that the keyspace knows: one function and one table row each; those of hashes,
 * lists and sorted sets are keyspace_collections.c's.
 *
 * To add one: write its function in the words of keyspace_impl.h, add its row to the table at the end, and let
 * test_keyspace.c draw it. What is checked first matters when several things are wrong: the order here is Redis'.
 */
#include "tests/script/keyspace_impl.h"
#include "tests/support/wait.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- reading the words ------------------------------------------------------------------------------------------ */

static const char NOT_AN_INTEGER[] = "ERR value is not an integer or out of range";

void answer_arity(struct call *c, const char *command)
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

bool word_is(const struct call *c, size_t i, const char *lower)
{
    return c->len[i] == strlen(lower) && strncasecmp(c->argv[i], lower, c->len[i]) == 0;
}

bool word_key(struct call *c, size_t i, enum key_type type, struct key **ret)
{
    *ret = find_key(c->ks, c->argv[i], c->len[i]);
    if (*ret == NULL || (*ret)->type == type)
        return true;
    answer_error(c, "WRONGTYPE Operation against a key holding the wrong kind of value");
    return false;
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
            answer_error(c, SYNTAX_ERROR);
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

void set_integer(struct blob **at, int64_t n)
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
    {.name = "incr", .arity = 2, .run = run_incr},
    {.name = "incrby", .arity = 3, .run = run_incrby},
    {.name = "persist", .arity = 2, .run = run_persist},
    {.name = "pexpire", .arity = -3, .run = run_pexpire},
    {.name = "ping", .arity = -1, .run = run_ping},
    {.name = "pttl", .arity = 2, .run = run_pttl},
    {.name = "publish", .arity = 3, .run = run_publish},
    {.name = "script", .arity = -2, .no_script = true, .run = run_script},
    {.name = "set", .arity = -3, .run = run_set},
    {.name = "spublish", .arity = 3, .run = run_spublish},
    {.name = "time", .arity = 1, .run = run_time},
    {.name = "type", .arity = 2, .run = run_type},
};

#define COMMAND_SLOTS 256 /* a power of two, well above the number of commands */
#define COMMAND_NAME_MAX 32

static size_t command_slot(const char *lower, size_t len)
{
    return (size_t)ks_hash(lower, len) & (COMMAND_SLOTS - 1);
}

static void add_commands(struct keyspace *ks, const struct command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t slot = command_slot(commands[i].name, strlen(commands[i].name));

        while (ks->commands[slot] != NULL)
            slot = (slot + 1) & (COMMAND_SLOTS - 1);
        ks->commands[slot] = &commands[i];
    }
}

void commands_open(struct keyspace *ks)
{
    ks->commands = must_alloc(COMMAND_SLOTS * sizeof(struct command *));
    add_commands(ks, COMMANDS, sizeof COMMANDS / sizeof COMMANDS[0]);
    add_commands(ks, collection_commands, collection_command_count);
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
