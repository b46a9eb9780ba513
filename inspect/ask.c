/* SPDX-License-Identifier: MIT */
/* ask.c - questions that a calling thread puts to a server, on the last of the client's lanes for callers. */
#include "inspect/ask.h"

#include "core/base/err.h"
#include "core/service/refusals.h"
#include "core/service/routing.h"
#include "core/wire/names.h"

#define PAUSE_MS 10 /* before the same is asked again, where a slot is on its way */

struct sending {
    struct rdl__req req;
    const struct rdl__ask *ask;
    rdl_client_t *client;
    struct rdl__shard *shard;
    unsigned slot;
    bool by_slot;
    enum rdl__detour detour;
    struct rdl__shard *elsewhere; /* RDL__DETOUR_ASK */
};

static void encode(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    const struct sending *s = rdl__container(req, struct sending, req);

    for (unsigned i = 0; i < s->ask->commands; i++)
        s->ask->put(s->ask->arg, i, to, eval && i == 0); /* the server knows it then */
    req->owed = (unsigned char)s->ask->commands;
}

static void decode(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct sending *s = rdl__container(req, struct sending, req);
    enum rdl__detour detour = RDL__DETOUR_NONE;

    (void)now;
    if (reply->type == RDL__REPLY_ERROR && s->client->map != NULL)
        detour = rdl__client_detour(s->client, reply, &s->elsewhere);
    if (s->by_slot)
        s->detour = detour;
    if (!s->by_slot || detour == RDL__DETOUR_NONE)
        s->ask->take(s->ask->arg, s->ask->commands - req->owed - 1, reply);
}

/* Has another server the slot by now? Where an ASK has sent it, it stays. */
static bool misrouted(const struct rdl__req *req)
{
    const struct sending *s = rdl__container(req, struct sending, req);

    return s->by_slot && !req->asking && rdl__client_shard(s->client, s->slot) != s->shard;
}

static const struct rdl__req_ops ops = {.encode = encode, .decode = decode, .misrouted = misrouted};

static int explain(struct sending *s, enum rdl__outcome outcome, rdl_err_t *err)
{
    char server[sizeof err->server];
    rdl_err_t why;
    int rc;

    rdl__node_server(&s->shard->node, server, sizeof server);
    if (outcome == RDL__UNSENT && rdl__node_error(&s->shard->node, RDL_ECONN, &why) < 0)
        rc = rdl__err_set(err, RDL_ECONN, "%s", why.message);
    else if (outcome == RDL__SETTLED)
        rc = rdl__err_set(err, s->req.rc, "%s", rdl_strerror(s->req.rc));
    else
        rc = rdl__err_set(err, outcome == RDL__UNSENT ? RDL_ECONN : RDL_EUNKNOWN,
                          "%s: no answer within %lld ms; nothing was to be changed", server,
                          (long long)s->client->command_timeout_ms);
    rdl__err_where(err, server, NULL, 0);
    return rc;
}

static enum rdl__outcome send_and_wait(struct sending *s, int64_t deadline)
{
    rdl__req_init(&s->req, &ops);
    s->req.asking = s->detour == RDL__DETOUR_ASK;
    s->detour = RDL__DETOUR_NONE;
    return rdl__lane_call(rdl__shard_lane(s->shard, s->shard->lane_count - 1), &s->req, deadline, NULL,
                          RDL__SUCCESSOR_FOLLOWS);
}

/* @thread the caller's */
static void pause_a_moment(void)
{
    struct rdl__parker parker;

    rdl__parker_init(&parker);
    (void)rdl__park(&parker, rdl__after_ms(rdl__now(), PAUSE_MS));
}

int rdl__ask_shard(rdl_client_t *client, struct rdl__shard *shard, const struct rdl__ask *ask, rdl_err_t *err)
{
    struct sending s = {.ask = ask, .client = client, .shard = shard};
    enum rdl__outcome outcome = send_and_wait(&s, rdl__after_ms(rdl__now(), client->command_timeout_ms));

    return outcome == RDL__SETTLED && s.req.rc == RDL_OK ? RDL_OK : explain(&s, outcome, err);
}

int rdl__ask_slot(rdl_client_t *client, unsigned slot, const struct rdl__ask *ask, rdl_err_t *err)
{
    struct sending s = {.ask = ask, .client = client, .slot = slot, .by_slot = true};
    int64_t deadline = rdl__after_ms(rdl__now(), client->command_timeout_ms);
    enum rdl__outcome outcome;

    do {
        if (s.detour == RDL__DETOUR_LATER)
            pause_a_moment();
        s.shard = s.detour == RDL__DETOUR_ASK ? s.elsewhere : rdl__client_shard(client, slot);
        outcome = send_and_wait(&s, deadline);
        if (outcome == RDL__SETTLED && s.req.rc == RDL_OK && s.detour == RDL__DETOUR_NONE)
            return RDL_OK;
        if (outcome != RDL__SETTLED || (s.req.rc != RDL_OK && s.req.rc != RDL__MISROUTED))
            return explain(&s, outcome, err);
    } while (rdl__now() < deadline);
    return rdl__err_set(err, RDL_ECONN, "%s: no server of the cluster has slot %u at the moment",
                        rdl__client_label(client), slot);
}

unsigned rdl__ask_slot_of(const rdl_client_t *client, const char *key, size_t len)
{
    return client->map == NULL ? 0 : rdl__slot(key, len);
}

int rdl__ask_refused(const char *server, const char *words, rdl_err_t *err)
{
    char why[sizeof err->message];
    size_t len;
    const char *said = rdl__refusal_words(words, &len);

    if (rdl__refusal_of_rights(words))
        (void)rdl__err_set(err, RDL_ESERVER, "%s: the user has not all the rights of docs/acl.md, Inspection (%.*s)",
                           server, (int)len, said);
    else if (rdl__refusal_text(why, sizeof why, words) > 0)
        (void)rdl__err_set(err, RDL_ESERVER, "%s: %s", server, why);
    rdl__err_where(err, server, NULL, 0);
    return RDL_ESERVER;
}
