/* SPDX-License-Identifier: MIT */
/* masters.c - the masters of a deployment: which there are, and how each is. */
#include "inspect/masters.h"

#include "core/base/err.h"
#include "core/service/life.h"
#include "core/service/routing.h"
#include "inspect/ask.h"

#include <redlatch/redlatch.h>

unsigned rdl__masters(rdl_client_t *client, struct rdl__shard **masters)
{
    unsigned count = 0;

    if (client->map == NULL) {
        masters[0] = &client->home;
        return 1;
    }
    for (unsigned slot = 0; slot < RDL__SLOTS; slot++) {
        struct rdl__shard *its = rdl__client_shard(client, slot);
        unsigned i = 0;

        while (i < count && masters[i] != its)
            i++;
        if (i == count && count < RDL__SHARDS_MAX)
            masters[count++] = its;
    }
    return count;
}

static void put(void *arg, unsigned i, struct rdl__buf *to, bool eval)
{
    (void)arg;
    (void)eval;
    rdl__cmd_begin(to, 1);
    rdl__cmd_str(to, i == 0 ? "TIME" : "DBSIZE");
}

/* What the user may not ask is not known. */
static void take(void *arg, unsigned i, const struct rdl__reply *reply)
{
    rdl_master_t *master = arg;
    int64_t seconds, us;

    if (i == 1 && !rdl__reply_integer(reply, &master->keys))
        master->keys = -1;
    if (i == 0 && rdl__reply_at(reply, 1) != NULL && rdl__reply_integer(rdl__reply_at(reply, 0), &seconds) &&
        rdl__reply_integer(rdl__reply_at(reply, 1), &us))
        master->now_ms = seconds * 1000 + us / 1000;
}

static int ask(rdl_client_t *client, struct rdl__shard *shard, rdl_master_t *master, rdl_err_t *err)
{
    int64_t began = rdl__now();

    *master = (rdl_master_t){.keys = -1, .round_trip_us = -1};
    master->rc = rdl__ask_shard(client, shard, &(struct rdl__ask){2, put, take, master}, err);
    if (master->rc == RDL_OK)
        master->round_trip_us = (rdl__now() - began) / 1000;
    rdl__node_server(&shard->node, master->server, sizeof master->server);
    return master->rc;
}

/* RDL_OK, or the first that went wrong where nothing went right. */
static int ask_all(rdl_client_t *client, struct rdl__shard **masters, rdl_master_t *ret_masters, size_t room,
                   unsigned *ret_count, rdl_err_t *err)
{
    rdl_master_t first;
    rdl_err_t why = {0};
    int rc = ask(client, &client->home, &first, &why), worst = rc;
    unsigned count = rdl__masters(client, masters);

    for (unsigned i = 0; i < count && (i < room || worst < 0); i++) {
        rdl_master_t unwanted, *master = i < room ? &ret_masters[i] : &unwanted;
        rdl_err_t other;

        *master = first;
        if (masters[i] != &client->home && ask(client, masters[i], master, &other) == RDL_OK)
            worst = RDL_OK;
    }
    *ret_count = count;
    if (worst < 0 && err != NULL)
        *err = why;
    return worst;
}

int rdl_masters(rdl_client_t *client, rdl_master_t *ret_masters, size_t room, rdl_err_t *err)
{
    struct rdl__shard **masters;
    unsigned count = 0;
    int rc;

    if (client == NULL || (ret_masters == NULL && room > 0))
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", client == NULL ? "client" : "ret_masters");
    if ((rc = rdl__client_blocking_visit_begins(client, err)) < 0)
        return rc;
    if ((masters = rdl__zalloc(&client->mem, RDL__SHARDS_MAX * sizeof *masters)) != NULL)
        rc = ask_all(client, masters, ret_masters, room, &count, err);
    else
        rc = rdl__err_set(err, RDL_ENOMEM, NULL);
    rdl__free(&client->mem, (void *)masters, RDL__SHARDS_MAX * sizeof *masters);
    rdl__client_visit_ends(client);
    return rc < 0 ? rc : (int)count;
}
