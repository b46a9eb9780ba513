/* SPDX-License-Identifier: MIT */
/* red.c - one lock on five servers of the program's own, which share its core: redlatch's red lock, and what it is
 * measured against: five hiredis connections that are all asked at once, and waited for until three have answered. So a
 * pair of theirs takes as long as two round trips of the slowest server in the majority. The rest of the answers is
 * read with the next ones. Nobody else wants the lock. With --far-ms a proxy before each server delays. */
#include "tests/support/proxy.h"
#include "tests/support/server.h"
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/ours.h"
#include "tools/benchmarks/programs/traffic.h"

#include <poll.h>
#include <stdlib.h>

enum { SERVERS = 5, MAJORITY = 3 };

struct common {
    const struct run *run;
    struct server *server[SERVERS];
    struct proxy *proxy[SERVERS];  /* before it when it is far away */
    rdl_client_t *client[SERVERS]; /* ours */
};

static struct common *start_servers(const struct run *run)
{
    struct common *common = allocate(1, sizeof *common);

    common->run = run;
    for (int i = 0; i < SERVERS; i++) {
        common->server[i] = server_start(NULL);
        if (run->far_ms == 0)
            continue;
        common->proxy[i] = proxy_start(common->server[i]);
        proxy_delay(common->proxy[i], PROXY_BOTH_WAYS, run->far_ms);
    }
    return common;
}

static const char *uri(const struct common *common, int i)
{
    return common->proxy[i] != NULL ? proxy_uri(common->proxy[i]) : server_uri(common->server[i]);
}

static void stop(void *arg)
{
    struct common *common = arg;

    for (int i = 0; i < SERVERS; i++) {
        (void)rdl_client_close(common->client[i]);
        proxy_stop(common->proxy[i]);
        server_stop(common->server[i]);
    }
    free(common);
}

/* ---- redlatch --------------------------------------------------------------------------------------------------- */

static void *our_start(const struct run *run, const char *server)
{
    struct common *common = start_servers(run);

    (void)server;
    for (int i = 0; i < SERVERS; i++)
        common->client[i] = ours_open(uri(common, i), NULL);
    return common;
}

static void *our_join(void *arg, const char *name)
{
    struct common *common = arg;
    rdl_lock_options_t options = RDL_LOCK_OPTIONS_INIT;
    rdl_lock_t *member[SERVERS], *lock = NULL;
    rdl_err_t err;

    options.min_uptime_ms = RDL_UPTIME_ANY; /* they have just been started */
    for (int i = 0; i < SERVERS; i++)
        member[i] = ours_lock(common->client[i], "redlatch", name);
    ours_check(rdl_red_lock(member, SERVERS, &options, &lock, &err), &err);
    for (int i = 0; i < SERVERS; i++)
        (void)rdl_lock_free(member[i]);
    return lock;
}

static void our_part(void *lock)
{
    (void)rdl_lock_free(lock);
}

static void our_take(void *lock)
{
    rdl_err_t err;

    ours_check(rdl_lock(lock, RDL_LEASE_AUTO, &err), &err);
}

static void our_release(void *lock)
{
    rdl_err_t err;

    ours_check(rdl_unlock(lock, &err), &err);
}

const struct kind_ops our_red_ops = {
    .start = our_start,
    .stop = stop,
    .join = our_join,
    .part = our_part,
    .take = our_take,
    .release = our_release,
};

/* ---- hiredis ---------------------------------------------------------------------------------------------------- */

struct node {
    redisContext *c;
    struct traffic traffic;
    int owed; /* answers */
};

static void *plain_start(const struct run *run, const char *server)
{
    (void)server;
    return start_servers(run);
}

static void *plain_join(void *arg, const char *name)
{
    const struct common *common = arg;
    struct node *nodes = allocate(SERVERS, sizeof *nodes);

    for (int i = 0; i < SERVERS; i++) {
        nodes[i].c = connect_to(uri(common, i));
        traffic_init(&nodes[i].traffic, common->run, nodes[i].c, "reentrant", name);
    }
    return nodes;
}

static void plain_part(void *arg)
{
    struct node *nodes = arg;

    for (int i = 0; i < SERVERS; i++)
        redisFree(nodes[i].c);
    free(nodes);
}

static void send_to(struct node *node, const struct request *r)
{
    int done = 0;

    redisAppendCommandArgv(node->c, r->argc, (const char **)r->argv, r->len);
    while (!done)
        if (redisBufferWrite(node->c, &done) != REDIS_OK)
            fail("red: %s", node->c->errstr);
    node->owed++;
}

static void read_from(struct node *node)
{
    void *reply = NULL;

    if (redisBufferRead(node->c) != REDIS_OK)
        fail("red: %s", node->c->errstr);
    while (redisGetReplyFromReader(node->c, &reply) == REDIS_OK && reply != NULL) {
        if (((redisReply *)reply)->type == REDIS_REPLY_ERROR)
            fail("red: %s", ((redisReply *)reply)->str);
        freeReplyObject(reply);
        node->owed--;
    }
}

static void await_majority(struct node *nodes)
{
    for (;;) {
        struct pollfd fds[SERVERS];
        int answered = 0;

        for (int i = 0; i < SERVERS; i++) {
            answered += nodes[i].owed == 0;
            fds[i] = (struct pollfd){.fd = nodes[i].c->fd, .events = POLLIN};
        }
        if (answered >= MAJORITY)
            return;
        if (poll(fds, SERVERS, -1) < 0)
            fail("poll");
        for (int i = 0; i < SERVERS; i++)
            if (fds[i].revents != 0)
                read_from(&nodes[i]);
    }
}

static void plain_take(void *arg)
{
    struct node *nodes = arg;

    for (int i = 0; i < SERVERS; i++)
        send_to(&nodes[i], &nodes[i].traffic.take);
    await_majority(nodes);
}

static void plain_release(void *arg)
{
    struct node *nodes = arg;

    for (int i = 0; i < SERVERS; i++)
        send_to(&nodes[i], &nodes[i].traffic.release);
    await_majority(nodes);
}

const struct kind_ops plain_red_ops = {
    .start = plain_start,
    .stop = stop,
    .join = plain_join,
    .part = plain_part,
    .take = plain_take,
    .release = plain_release,
};
