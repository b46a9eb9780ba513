/* SPDX-License-Identifier: MIT */
#include "core/service/describe.h"

#include "core/service/scripts.h"
#include "scripts/scripts.h"

#include <string.h>

static const char prefix[] = "redlatch_client:{";

/* The fields that are text. One that is numbers has a line in put and decode of its own. */
static const struct {
    const char *name;
    size_t offset, cap;
} texts[] = {
#define TEXT(name)                                                                                                     \
    {                                                                                                                  \
#name, offsetof(struct rdl__description, name), sizeof(((struct rdl__description *)0)->name)                   \
    }
    TEXT(host), TEXT(program), TEXT(version), TEXT(label), TEXT(info),
#undef TEXT
};

#define TEXTS (sizeof texts / sizeof texts[0])

size_t rdl__describe_key(char to[RDL__DESCRIBE_KEY_MAX], const char *u)
{
    memcpy(to, prefix, sizeof prefix - 1);
    memcpy(to + sizeof prefix - 1, u, RDL__UUID_LEN);
    memcpy(to + sizeof prefix - 1 + RDL__UUID_LEN, "}", 2);
    return sizeof prefix - 1 + RDL__UUID_LEN + 1;
}

static void put_key(struct rdl__buf *to, const char *u)
{
    char key[RDL__DESCRIBE_KEY_MAX];

    rdl__cmd_arg(to, key, rdl__describe_key(key, u));
}

void rdl__describe_put(struct rdl__buf *to, const char *u, const struct rdl__description *d, int64_t ttl_ms, bool eval)
{
    rdl__script_begin(to, RDL__SCRIPT_CLIENT_DESCRIBE, eval, 1, 1 + 2 * (TEXTS + 2));
    put_key(to, u);
    rdl__cmd_int(to, ttl_ms);
    for (size_t i = 0; i < TEXTS; i++) {
        rdl__cmd_str(to, texts[i].name);
        rdl__cmd_str(to, (const char *)d + texts[i].offset);
    }
    rdl__cmd_str(to, "pid");
    rdl__cmd_int(to, d->pid);
    rdl__cmd_str(to, "start_ms");
    rdl__cmd_int(to, d->start_ms);
}

void rdl__describe_ask(struct rdl__buf *to, const char *u)
{
    rdl__cmd_begin(to, 2);
    rdl__cmd_str(to, "HGETALL");
    put_key(to, u);
}

/* A time to live that is over takes the key away, and wants no right that writing does not want. */
void rdl__describe_drop(struct rdl__buf *to, const char *u)
{
    rdl__cmd_begin(to, 3);
    rdl__cmd_str(to, "PEXPIRE");
    put_key(to, u);
    rdl__cmd_str(to, "0");
}

/* At most cap - 1 bytes, up to a NUL. */
static void keep_text(const struct rdl__reply *value, char *to, size_t cap)
{
    if (value == NULL || value->type != RDL__REPLY_STRING)
        return;
    memcpy(to, value->str, value->len < cap ? value->len : cap - 1);
}

static int64_t number(const struct rdl__reply *value)
{
    int64_t n;

    return value != NULL && rdl__reply_integer(value, &n) && n > 0 ? n : 0;
}

bool rdl__describe_decode(const struct rdl__reply *reply, struct rdl__description *ret)
{
    memset(ret, 0, sizeof *ret);
    if (reply == NULL || reply->type != RDL__REPLY_ARRAY || reply->len == 0)
        return false;
    for (size_t i = 0; i < TEXTS; i++)
        keep_text(rdl__reply_named(reply, texts[i].name), (char *)ret + texts[i].offset, texts[i].cap);
    ret->pid = number(rdl__reply_named(reply, "pid"));
    ret->start_ms = number(rdl__reply_named(reply, "start_ms"));
    return true;
}
