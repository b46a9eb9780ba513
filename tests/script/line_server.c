/* SPDX-License-Identifier: MIT */
#include "tests/script/line_server.h"
#include "scripts/scripts.h"
#include "tests/script/numbered.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_US INT64_C(1700000000000000)
#define WORDS_MAX 16
#define RECALLS "redlatch_recall:{" LINE_NAME "}:"

/* Redisson's scripts of a lock, in our words (wire.md). */
#define JAVA_TAKE                                                                                                      \
    "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then "                      \
    "redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return nil end "               \
    "return redis.call('pttl', KEYS[1])"
#define JAVA_RELEASE                                                                                                   \
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end "                                             \
    "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1"

enum script { TAKE, RELEASE, JAVA_TAKES, JAVA_RELEASES, SCRIPTS };

static const char *const script_names[SCRIPTS] = {"take", "release", "java_take", "java_release"};

static struct {
    struct keyspace *ks;
    char shas[SCRIPTS][KS_SHA_SIZE];
    struct numbered images, commands;
    struct line_facts *facts;
    char **texts;
    uint32_t facts_count, facts_cap;
    struct numbered runs; /* what was run: state, command and, of the line, listeners */
    struct bytes effects; /* of each, by its number */
} server;

void line_uuid(char ret[LINE_UUID + 1], unsigned client)
{
    memset(ret, 'a' + (int)client, LINE_UUID);
    for (int dash = 8; dash < 24; dash += 5)
        ret[dash] = '-';
    ret[LINE_UUID] = '\0';
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

static uint8_t number_of(const char *field)
{
    int64_t n = llabs(strtoll(field + LINE_UUID + 1, NULL, 10));

    return n >= LINE_FIRST_N ? (uint8_t)(n - LINE_FIRST_N) : (uint8_t)n;
}

static struct line_facts facts_now(void)
{
    struct line_facts facts = {.holder = LINE_NOBODY};
    struct reply *r = ks_say(server.ks, "HKEYS", LINE_NAME);

    if (r->count > 0) {
        facts.holder = (uint8_t)(r->items[0].text[0] - 'a');
        facts.n = number_of(r->items[0].text);
    }
    reply_free(r);
    r = ks_say(server.ks, "EXISTS", LINE_CHANNEL);
    facts.line = r->integer == 1;
    reply_free(r);
    return facts;
}

/* The number of the keyspace's present state. */
static uint32_t number_now(void)
{
    struct bytes image = {0};
    uint32_t number;

    ks_set_time(server.ks, START_US);
    ks_save(server.ks, &image);
    number = numbered_add(&server.images, image.at, image.len);
    bytes_done(&image);
    if (number < server.facts_count)
        return number;
    if (server.facts_count == server.facts_cap) {
        server.facts_cap = server.facts_cap == 0 ? 256 : server.facts_cap * 2;
        server.facts = must_realloc(server.facts, server.facts_cap * sizeof *server.facts);
        server.texts = must_realloc(server.texts, server.facts_cap * sizeof *server.texts);
    }
    server.texts[server.facts_count] = NULL;
    server.facts[server.facts_count++] = facts_now();
    return number;
}

static void restore(uint32_t image)
{
    size_t len;
    const char *at = numbered_get(&server.images, image, &len);

    ks_restore(server.ks, at, len);
}

struct line_facts line_facts(uint32_t image)
{
    return server.facts[image];
}

const char *line_text(uint32_t image)
{
    if (server.texts[image] == NULL) {
        restore(image);
        server.texts[image] = ks_text(server.ks);
    }
    return server.texts[image];
}

uint32_t line_lease_ends(uint32_t image)
{
    restore(image);
    reply_free(ks_say(server.ks, "DEL", LINE_NAME));
    return number_now();
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

uint16_t line_command(const char *words)
{
    uint32_t number = numbered_add(&server.commands, words, strlen(words) + 1);

    if (number >= UINT16_MAX)
        die("enumeration: more than %d commands", UINT16_MAX);
    return (uint16_t)number;
}

const char *line_command_text(uint16_t command)
{
    size_t len;

    return numbered_get(&server.commands, command, &len);
}

struct telling {
    struct line_effect *effect;
    unsigned listeners;
};

static uint8_t what_own(char payload)
{
    return payload == '0' ? SAID_OWN_0 : payload == '3' ? SAID_OWN_3 : SAID_OWN_4;
}

/* A client's own channel is the lock's with its id behind that, in braces. */
static struct line_tell tell_of(const char *channel, size_t len, const char *payload)
{
    size_t all = sizeof LINE_CHANNEL - 1, recalls = sizeof RECALLS - 1;

    if (len == all && memcmp(channel, LINE_CHANNEL, len) == 0)
        return (struct line_tell){LINE_NOBODY, payload[0] == '0' ? SAID_ALL_0 : SAID_ALL_2};
    if (len > all + 2 && memcmp(channel, LINE_CHANNEL, all) == 0)
        return (struct line_tell){(uint8_t)(channel[all + 2] - 'a'), what_own(payload[0])};
    if (len > recalls && memcmp(channel, RECALLS, recalls) == 0)
        return (struct line_tell){(uint8_t)(channel[recalls] - 'a'),
                                  (uint8_t)(SAID_RECALL | (llabs(atoll(payload)) - LINE_FIRST_N))};
    die("enumeration: nobody listens on %.*s", (int)len, channel);
}

static int64_t note(void *arg, bool sharded, const char *channel, size_t channel_len, const char *payload,
                    size_t payload_len)
{
    struct telling *telling = arg;
    struct line_tell tell = tell_of(channel, channel_len, payload);
    int64_t heard = 1;

    (void)sharded;
    (void)payload_len;
    if (tell.to == LINE_NOBODY)
        heard = __builtin_popcount(telling->listeners >> LINE_CLIENTS);
    else if (tell.what < SAID_RECALL)
        heard = (telling->listeners & LISTENS_OWN(tell.to)) != 0;
    if (heard == 0)
        return 0;
    if (telling->effect->tells == LINE_TELLS)
        die("enumeration: a command says more than %d messages", LINE_TELLS);
    telling->effect->tell[telling->effect->tells++] = tell;
    return heard;
}

/* A take's refusal is the time left, or after how many ms to look; or that, what to listen for, and when to look. */
static void read_take(struct line_effect *effect, const struct reply *r)
{
    int64_t ttl = r->kind == REPLY_ARRAY ? r->items[0].integer : r->integer;

    if (r->kind == REPLY_ERROR)
        die("enumeration: %s", r->text);
    if (r->kind == REPLY_NIL || ttl == -10 || ttl == -11) {
        effect->answer = LINE_GRANTED;
        return;
    }
    effect->answer = LINE_REFUSED;
    effect->look = ttl <= 100 ? (uint16_t)ttl : 0;
    if (r->kind == REPLY_ARRAY) {
        effect->ear = (uint8_t)r->items[1].integer;
        if (r->count > 2 && r->items[2].integer > 0)
            effect->look = (uint16_t)r->items[2].integer;
    }
}

static enum script script_of(const char *name)
{
    for (int i = 0; i < SCRIPTS; i++)
        if (strcmp(name, script_names[i]) == 0)
            return (enum script)i;
    die("enumeration: there is no script %s", name);
}

static struct line_effect run(uint32_t image, uint16_t command, unsigned listeners, bool late)
{
    struct line_effect effect = {0};
    struct telling telling = {.effect = &effect, .listeners = listeners};
    char text[512], *rest = text;
    const char *words[WORDS_MAX] = {"EVALSHA"};
    size_t argc = 1;
    enum script script;
    struct reply *reply;

    (void)snprintf(text, sizeof text, "%s", line_command_text(command));
    while (argc < WORDS_MAX && (words[argc] = strtok_r(rest, " ", &rest)) != NULL)
        argc++;
    script = script_of(words[1]);
    words[1] = server.shas[script];
    restore(image);
    if (late)
        ks_set_time(server.ks, START_US + 1);
    ks_on_publish(server.ks, note, &telling);
    reply = ks_command(server.ks, argc, words, NULL);
    ks_on_publish(server.ks, NULL, NULL);
    if (script == TAKE || script == JAVA_TAKES)
        read_take(&effect, reply);
    else if (reply->kind == REPLY_ERROR)
        die("enumeration: %s", reply->text);
    else
        effect.answer = (int8_t)reply->integer;
    reply_free(reply);
    effect.image = number_now();
    return effect;
}

struct line_effect line_run(uint32_t image, uint16_t command, unsigned listeners, bool late)
{
    uint64_t key = (uint64_t)image << 32 | (uint64_t)command << 16 | listeners << 1 | late;
    uint32_t known = server.runs.count, number = numbered_add(&server.runs, &key, sizeof key);
    struct line_effect effect;

    if (number < known) {
        memcpy(&effect, server.effects.at + number * sizeof effect, sizeof effect);
    } else {
        effect = run(image, command, listeners, late);
        bytes_add(&server.effects, (const char *)&effect, sizeof effect);
    }
    return effect;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* True: the script has the part, and is loaded without it. */
static bool load_planted(enum rdl__script_id id, const struct line_plant *plant, char ret_sha[KS_SHA_SIZE])
{
    const char *body = rdl__scripts[id].body, *at = strstr(body, plant->part);
    struct bytes text = {0};

    if (at == NULL)
        return false;
    bytes_add(&text, body, (size_t)(at - body));
    bytes_add(&text, plant->by, strlen(plant->by));
    at += strlen(plant->part);
    bytes_add(&text, at, rdl__scripts[id].body_len - (size_t)(at - body));
    ks_load(server.ks, text.at, text.len, ret_sha);
    bytes_done(&text);
    return true;
}

static bool load(enum rdl__script_id id, const struct line_plant *plant, char ret_sha[KS_SHA_SIZE])
{
    if (plant != NULL && load_planted(id, plant, ret_sha))
        return true;
    ks_load(server.ks, rdl__scripts[id].body, rdl__scripts[id].body_len, ret_sha);
    return false;
}

void line_server_open(const struct line_plant *plant)
{
    bool planted;

    server.ks = ks_new(START_US);
    planted = load(RDL__SCRIPT_REENTRANT_TAKE, plant, server.shas[TAKE]);
    planted |= load(RDL__SCRIPT_REENTRANT_RELEASE, plant, server.shas[RELEASE]);
    if (plant != NULL && !planted)
        die("enumeration: no script has the part %s", plant->part);
    ks_load(server.ks, JAVA_TAKE, sizeof JAVA_TAKE - 1, server.shas[JAVA_TAKES]);
    ks_load(server.ks, JAVA_RELEASE, sizeof JAVA_RELEASE - 1, server.shas[JAVA_RELEASES]);
    (void)number_now();
}

void line_server_close(void)
{
    ks_free(server.ks);
    numbered_done(&server.images);
    numbered_done(&server.commands);
    for (uint32_t i = 0; i < server.facts_count; i++)
        free(server.texts[i]);
    free(server.facts);
    free(server.texts);
    numbered_done(&server.runs);
    bytes_done(&server.effects);
    memset(&server, 0, sizeof server);
}
