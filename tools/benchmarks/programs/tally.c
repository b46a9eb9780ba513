/* SPDX-License-Identifier: MIT */
/* tally.c - see tally.h. */
#include "tools/benchmarks/programs/tally.h"

#include "tools/benchmarks/programs/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const from_clients[] = {"evalsha",     "eval",        "script|load",    "subscribe",
                                           "unsubscribe", "ssubscribe",  "sunsubscribe",   "ping",
                                           "hello",       "client|info", "client|setname", "client|kill"};

/* The number after `name` in text, or 0. */
static double number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at == NULL ? 0 : strtod(at + strlen(name), NULL);
}

static double of_command(const char *info, const char *command, const char *field)
{
    char *line = format("cmdstat_%s:", command);
    const char *at = strstr(info, line);

    free(line);
    return at == NULL ? 0 : number_after(at, field);
}

struct tally tally_read(struct redisContext *c, const char *plain)
{
    struct tally t = {0};
    struct request info = {0};
    redisReply *reply;

    request_add(&info, "INFO");
    request_add(&info, "everything");
    reply = ask(c, &info);
    for (size_t i = 0; i < sizeof from_clients / sizeof *from_clients; i++)
        t.commands += of_command(reply->str, from_clients[i], "calls=");
    t.script_us = of_command(reply->str, "evalsha", "usec=") + of_command(reply->str, "eval", "usec=");
    t.server_us = 1e6 * (number_after(reply->str, "used_cpu_sys:") + number_after(reply->str, "used_cpu_user:"));
    if (plain != NULL) {
        t.plain_calls = of_command(reply->str, plain, "calls=");
        t.plain_us = of_command(reply->str, plain, "usec=");
    }
    freeReplyObject(reply);
    t.client_us = (double)cpu_ns() / (double)US;
    return t;
}

void tally_answer(const struct tally *from, const struct tally *to, double pairs)
{
    double plain_calls = to->plain_calls - from->plain_calls;
    double plain_us = plain_calls > 0 ? (to->plain_us - from->plain_us) / plain_calls : 0;

    answer_number("server_us", (to->server_us - from->server_us) / pairs);
    answer_number("client_us", (to->client_us - from->client_us) / pairs);
    answer_number("script_us", (to->script_us - from->script_us) / pairs + plain_us);
    answer_number("commands", (to->commands - from->commands) / pairs + (plain_calls > 0 ? 1 : 0));
}

void tally_phase(struct redisContext *c, const char *plain, struct phase phase, struct tally *from, struct tally *to)
{
    sleep_until(phase.start);
    *from = tally_read(c, plain);
    sleep_until(phase.end);
    *to = tally_read(c, plain);
}
