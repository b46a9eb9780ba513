/* SPDX-License-Identifier: MIT */
/* three.c - three locks at one server, wanted together, by hiredis: as many scripts in one write, which is what a
 * multi-lock sends; or one script that takes them all, knowing what type they are (three_takes.lua), or told
 * (any_takes.lua). They go back by one DEL, so that nearly all that the server has to do for a pair is taking. Nobody
 * else wants them. */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/traffic.h"

#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3 };

/* Words of a reentrant lock's take, as traffic.c lays it out. */
enum { KEY = 3, ARGUMENTS = 4, END = 7 };

struct party {
    redisContext *c;
    struct request take[MEMBERS];
    int takes;
    struct request give_back;
};

static void *start(const struct run *run, const char *server)
{
    (void)server;
    return (void *)(uintptr_t)run;
}

static void stop(void *run)
{
    (void)run;
}

/* One request of them all. types: a letter for each, or NULL. */
static void make_one(struct request *one, redisContext *c, const struct run *run, const struct traffic *members,
                     const char *script, const char *types)
{
    request_add(one, "EVALSHA");
    request_add(one, load_script(c, run->tree, script));
    request_add(one, format("%d", MEMBERS));
    for (int i = 0; i < MEMBERS; i++)
        request_add(one, members[i].take.argv[KEY]);
    if (types != NULL)
        request_add(one, types);
    for (int i = 0; i < MEMBERS; i++)
        for (int k = ARGUMENTS; k < END; k++)
            request_add(one, members[i].take.argv[k]);
}

static void *join(void *arg, const char *name)
{
    const struct run *run = arg;
    struct party *party = allocate(1, sizeof *party);
    struct traffic members[MEMBERS];

    party->c = connect_to(run->server);
    request_add(&party->give_back, "DEL");
    for (int i = 0; i < MEMBERS; i++) {
        traffic_init(&members[i], run, party->c, "reentrant", format("%s:%c", name, 'a' + i));
        party->take[i] = members[i].take;
        request_add(&party->give_back, members[i].take.argv[KEY]);
    }
    party->takes = MEMBERS;
    if (strcmp(run->kind, "three") == 0)
        return party;
    party->takes = 1;
    party->take[0] = (struct request){0};
    if (strcmp(run->kind, "three-in-one") == 0)
        make_one(party->take, party->c, run, members, "tools/benchmarks/programs/three_takes", NULL);
    else
        make_one(party->take, party->c, run, members, "tools/benchmarks/programs/any_takes", "rrr");
    return party;
}

static void part(void *arg)
{
    struct party *party = arg;

    redisFree(party->c);
    free(party);
}

static void must_be_taken(const redisReply *reply)
{
    for (size_t i = 0; i < reply->elements; i++)
        must_be_taken(reply->element[i]);
    if (reply->type != REDIS_REPLY_ARRAY && (reply->type != REDIS_REPLY_INTEGER || reply->integer >= -1))
        fail("three: not taken: %s", reply->type == REDIS_REPLY_ERROR ? reply->str : "somebody else has one");
}

static void take(void *arg)
{
    const struct party *party = arg;
    redisReply *reply = NULL;

    for (int i = 0; i < party->takes; i++)
        redisAppendCommandArgv(party->c, party->take[i].argc, (const char **)party->take[i].argv, party->take[i].len);
    for (int i = 0; i < party->takes; i++) {
        if (redisGetReply(party->c, (void **)&reply) != REDIS_OK)
            fail("three: %s", party->c->errstr);
        must_be_taken(reply);
        freeReplyObject(reply);
    }
}

static void release(void *arg)
{
    const struct party *party = arg;

    tell(party->c, &party->give_back);
}

const struct kind_ops three_ops = {
    .start = start,
    .stop = stop,
    .join = join,
    .part = part,
    .take = take,
    .release = release,
};
