/* SPDX-License-Identifier: MIT */
#include "tests/script/kept_server.h"
#include "scripts/scripts.h"
#include "tests/script/numbered.h"
#include "tests/support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_US INT64_C(1700000000000000)
#define CHANNEL "redisson_rwlock:{" KEPT_NAME "}"
#define RECALLS "redlatch_recall:{" KEPT_NAME "}:"
#define WORDS_MAX 16

/* What is known of a state. */
struct facts {
    char *fields; /* of the lock, a space before and behind each */
    bool empty;
};

static struct {
    struct keyspace *ks;
    struct numbered images, commands;
    struct facts *facts;
    uint32_t facts_count, facts_cap;
    struct numbered runs; /* states and commands that were run */
    struct bytes effects; /* of each, by its number */
} server;

/* ---- states ----------------------------------------------------------------------------------------------------- */

static char *fields_now(void)
{
    struct reply *r = ks_say(server.ks, "HKEYS", KEPT_NAME);
    struct bytes text = {0};

    bytes_add(&text, " ", 1);
    for (size_t i = 0; i < r->count; i++) {
        bytes_add(&text, r->items[i].text, r->items[i].len);
        bytes_add(&text, " ", 1);
    }
    bytes_add(&text, "", 1);
    reply_free(r);
    return text.at;
}

/* The number of the keyspace's present state. */
static uint32_t number_now(void)
{
    struct bytes image = {0};
    char *text;
    uint32_t number;

    ks_save(server.ks, &image);
    number = numbered_add(&server.images, image.at, image.len);
    bytes_done(&image);
    if (number < server.facts_count)
        return number;
    if (server.facts_count == server.facts_cap) {
        server.facts_cap = server.facts_cap == 0 ? 256 : server.facts_cap * 2;
        server.facts = must_realloc(server.facts, server.facts_cap * sizeof *server.facts);
    }
    text = ks_text(server.ks);
    server.facts[server.facts_count++] = (struct facts){.fields = fields_now(), .empty = text[0] == '\0'};
    free(text);
    return number;
}

static void restore(uint32_t image)
{
    size_t len;
    const char *at = numbered_get(&server.images, image, &len);

    ks_restore(server.ks, at, len);
}

bool server_has(uint32_t image, const char *field)
{
    char word[KEPT_FIELD + 2];

    (void)snprintf(word, sizeof word, " %s ", field);
    return strstr(server.facts[image].fields, word) != NULL;
}

bool server_is_empty(uint32_t image)
{
    return server.facts[image].empty;
}

const char *server_text(uint32_t image)
{
    return server.facts[image].fields;
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

uint16_t server_command(const char *frame, size_t len)
{
    uint32_t number = numbered_add(&server.commands, frame, len);

    if (number >= UINT16_MAX)
        die("enumeration: more than %d commands", UINT16_MAX);
    return (uint16_t)number;
}

/* A message on the lock's channel is for all who wait; one on a client's tells it which hold is wanted. */
static int64_t note(void *arg, bool sharded, const char *channel, size_t channel_len, const char *payload,
                    size_t payload_len)
{
    struct server_effect *effect = arg;
    size_t head = sizeof RECALLS - 1;

    (void)sharded;
    if (channel_len == sizeof CHANNEL - 1 && memcmp(channel, CHANNEL, channel_len) == 0) {
        effect->woke = true;
    } else if (channel_len > head && memcmp(channel, RECALLS, head) == 0 && payload_len > 1) {
        if (effect->recalls == KEPT_RECALLS)
            die("enumeration: a command says more than %d recalls", KEPT_RECALLS);
        effect->recall[effect->recalls++] =
            (struct server_recall){.client = channel[head], .n = (uint8_t)-atoi(payload)};
    } else {
        die("enumeration: nobody listens on %.*s", (int)channel_len, channel);
    }
    return 0;
}

static struct server_effect run(uint32_t image, uint16_t command)
{
    struct server_effect effect = {0};
    const char *words[WORDS_MAX];
    size_t lens[WORDS_MAX], argc = 0, len;
    const char *frame = numbered_get(&server.commands, command, &len);
    struct reply *reply;

    while ((words[argc] = resp_word(frame, len, argc, &lens[argc])) != NULL)
        if (++argc == WORDS_MAX)
            die("enumeration: a command of more than %d words", WORDS_MAX - 1);
    restore(image);
    ks_on_publish(server.ks, note, &effect);
    reply = ks_command(server.ks, argc, words, lens);
    ks_on_publish(server.ks, NULL, NULL);
    if (reply->kind != REPLY_INTEGER)
        die("enumeration: %s", reply->text != NULL ? reply->text : "an answer that is no number");
    effect.answer = reply->integer;
    reply_free(reply);
    effect.image = number_now();
    return effect;
}

struct server_effect server_run(uint32_t image, uint16_t command)
{
    uint64_t key = (uint64_t)image << 16 | command;
    uint32_t known = server.runs.count, number = numbered_add(&server.runs, &key, sizeof key);
    struct server_effect effect;

    if (number < known) {
        memcpy(&effect, server.effects.at + number * sizeof effect, sizeof effect);
    } else {
        effect = run(image, command);
        bytes_add(&server.effects, (const char *)&effect, sizeof effect);
    }
    return effect;
}

/* ---- leases ----------------------------------------------------------------------------------------------------- */

static bool is_dead(const char *field, const char dead[][KEPT_FIELD], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(field, dead[i]) == 0)
            return true;
    return false;
}

static void renew_others(const char dead[][KEPT_FIELD], size_t count)
{
    struct reply *r = ks_say(server.ks, "HKEYS", KEPT_NAME);
    char lease[8];

    (void)snprintf(lease, sizeof lease, "%d", KEPT_LEASE_MS);
    for (size_t i = 0; i < r->count; i++) {
        const char *field = r->items[i].text;
        bool writes = r->items[i].len > 6 && strcmp(field + r->items[i].len - 6, ":write") == 0;

        if (strcmp(field, "mode") != 0 && !is_dead(field, dead, count))
            reply_free(ks_say(server.ks, "EVALSHA",
                              rdl__scripts[writes ? RDL__SCRIPT_REENTRANT_RENEW : RDL__SCRIPT_READ_RENEW].sha, "1",
                              KEPT_NAME, field, lease));
    }
    reply_free(r);
}

uint32_t server_leases_end(uint32_t image, const char dead[][KEPT_FIELD], size_t count)
{
    restore(image);
    renew_others(dead, count);
    for (int half = 0; half < 2; half++) {
        ks_advance(server.ks, (KEPT_LEASE_MS / 2 + 1) * INT64_C(1000));
        renew_others(dead, count);
    }
    return number_now();
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

void server_load(const char *name, char ret_sha[KS_SHA_SIZE])
{
    ks_load_planted(server.ks, name, ret_sha);
}

void server_open(void)
{
    char sha[KS_SHA_SIZE];

    server.ks = ks_new(START_US);
    for (size_t i = 1; i < RDL__SCRIPT_COUNT; i++)
        ks_load(server.ks, rdl__scripts[i].body, rdl__scripts[i].body_len, sha);
    (void)number_now();
}

void server_close(void)
{
    ks_free(server.ks);
    numbered_done(&server.images);
    numbered_done(&server.commands);
    for (uint32_t i = 0; i < server.facts_count; i++)
        free(server.facts[i].fields);
    free(server.facts);
    numbered_done(&server.runs);
    bytes_done(&server.effects);
    memset(&server, 0, sizeof server);
}
