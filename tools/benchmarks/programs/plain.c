/* SPDX-License-Identifier: MIT */
/* plain.c - what a careful programmer writes with hiredis alone: the kinds that are measured against.
 *
 * A party has a connection for commands, and once it has found the lock taken, a second one that stays subscribed to
 * the lock's channel. Messages that came before a try are thrown away; after a refusal the next message, or the end of
 * the holder's lease, leads to another try. So no wake-up is lost, and every release wakes all who wait. */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/traffic.h"

#include <poll.h>
#include <stdlib.h>

struct common {
    const struct run *run;
    const char *server;
};

struct party {
    redisContext *commands;
    redisContext *messages; /* NULL: never had to wait */
    int unread;             /* answers, where a release is not waited for */
    const char *server;
    struct traffic traffic;
};

static void *start(const struct run *run, const char *server)
{
    struct common *common = allocate(1, sizeof *common);

    *common = (struct common){.run = run, .server = server};
    return common;
}

static void stop(void *common)
{
    free(common);
}

static void *join_as(const struct common *common, const char *kind, const char *lock)
{
    struct party *party = allocate(1, sizeof *party);

    *party = (struct party){.commands = connect_to(common->server), .server = common->server};
    traffic_init(&party->traffic, common->run, party->commands, kind, lock);
    return party;
}

static void *join(void *arg, const char *lock)
{
    const struct common *common = arg;

    return join_as(common, common->run->kind, lock);
}

static void part(void *arg)
{
    struct party *party = arg;

    redisFree(party->commands);
    if (party->messages != NULL)
        redisFree(party->messages);
    free(party);
}

static void renew(struct party *party, struct request *next)
{
    if (party->traffic.renew != NULL)
        party->traffic.renew(&party->traffic, next);
}

/* TAKEN, or for how many ms a try is no use unless a message comes. */
static int64_t try(struct party *party)
{
    redisReply *reply;
    int64_t left;

    renew(party, &party->traffic.take);
    reply = ask(party->commands, &party->traffic.take);
    left = party->traffic.left(reply);
    freeReplyObject(reply);
    return left;
}

/* Everything that is there, or, when nothing is, what comes within wait_ms. */
static void read_messages(struct party *party, int64_t wait_ms)
{
    struct pollfd fd = {.fd = party->messages->fd, .events = POLLIN};
    void *message = NULL;

    if (poll(&fd, 1, (int)wait_ms) <= 0)
        return;
    if (redisBufferRead(party->messages) != REDIS_OK)
        fail("subscription: %s", party->messages->errstr);
    while (redisGetReplyFromReader(party->messages, &message) == REDIS_OK && message != NULL)
        freeReplyObject(message);
}

static void subscribe(struct party *party)
{
    struct request request = {0};

    party->messages = connect_to(party->server);
    request_add(&request, "SUBSCRIBE");
    request_add(&request, party->traffic.channel);
    tell(party->messages, &request);
}

static void take(void *arg)
{
    struct party *party = arg;
    int64_t left;

    if (party->messages != NULL)
        read_messages(party, 0);
    while ((left = try(party)) != TAKEN) {
        if (party->messages == NULL)
            subscribe(party);
        else
            read_messages(party, left);
    }
}

static void release(void *arg)
{
    struct party *party = arg;

    renew(party, &party->traffic.release);
    tell(party->commands, &party->traffic.release);
    if (party->traffic.after.argc > 0)
        tell(party->commands, &party->traffic.after);
}

const struct kind_ops plain_ops = {
    .start = start,
    .stop = stop,
    .join = join,
    .part = part,
    .take = take,
    .release = release,
};

/* ---- releases that are not waited for, of locks that nobody else wants ------------------------------------------ */

static void *join_unwaited(void *arg, const char *lock)
{
    return join_as(arg, "reentrant", lock);
}

static void send_only(struct party *party, const struct request *r)
{
    int done = 0;

    if (redisAppendCommandArgv(party->commands, r->argc, (const char **)r->argv, r->len) != REDIS_OK)
        fail("%s: %s", r->argv[0], party->commands->errstr);
    while (!done)
        if (redisBufferWrite(party->commands, &done) != REDIS_OK)
            fail("%s: %s", r->argv[0], party->commands->errstr);
    party->unread++;
}

/* What was not waited for is answered before. */
static void take_behind(void *arg)
{
    struct party *party = arg;
    redisReply *reply = NULL;

    for (send_only(party, &party->traffic.take); party->unread > 0; party->unread--) {
        freeReplyObject(reply);
        if (redisGetReply(party->commands, (void **)&reply) != REDIS_OK)
            fail("no answer: %s", party->commands->errstr);
    }
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR || party->traffic.left(reply) != TAKEN)
        fail("somebody else wants it");
    freeReplyObject(reply);
}

static void release_unwaited(void *arg)
{
    struct party *party = arg;

    send_only(party, &party->traffic.release);
}

const struct kind_ops unwaited_ops = {
    .start = start,
    .stop = stop,
    .join = join_unwaited,
    .part = part,
    .take = take_behind,
    .release = release_unwaited,
};
