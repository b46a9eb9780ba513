/* SPDX-License-Identifier: MIT */
#include "core/io/node.h"

#include "core/base/err.h"
#include "core/base/table.h"
#include "core/io/conn.h"

#include <stdio.h>
#include <string.h>

#define BRIEF (100 * RDL__MS) /* a connection that breaks sooner was of no use */

int rdl__node_init(struct rdl__node *node, const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                   struct rdl__loop *loop, const struct rdl__node_config *config, struct rdl__uri *uri)
{
    memset(node, 0, sizeof *node);
    if (rdl__mutex_init(&node->mu) < 0)
        return RDL_ENOMEM;
    atomic_init(&node->run, 0);
    atomic_init(&node->born_at, INT64_MIN);
    node->mem = mem;
    node->sinks = sinks;
    node->loop = loop;
    node->config = *config;
    node->uri = *uri;
    *uri = (struct rdl__uri){0};
    rdl__uri_node(&node->uri, node->label, sizeof node->label);
    rdl__list_init(&node->conns);
    rdl__buf_init(&node->welcome, mem);
    rdl__busypoll_init(&node->caller_poll);
    rdl__busypoll_init(&node->loop_poll);
    (void)rdl__entropy(&node->rand.state, sizeof node->rand.state);
    return RDL_OK;
}

void rdl__node_done(struct rdl__node *node)
{
    if (node->mem == NULL)
        return;
    rdl__buf_done(&node->welcome);
    rdl__uri_done(&node->uri);
    rdl__mutex_done(&node->mu);
    node->mem = NULL;
}

/* An attempt has failed, like all others for `outage`. The next one comes after a twentieth of that: so the end of a
 * short outage is found quickly, and after a long one, with jitter of a factor of two, a fleet's attempts are spread
 * evenly. */
static void missed(struct rdl__node *node, int64_t outage, int64_t now)
{
    int64_t pause = outage / 20;

    if (pause < node->config.reconnect_min_ms * RDL__MS)
        pause = node->config.reconnect_min_ms * RDL__MS;
    if (pause > node->config.reconnect_max_ms * RDL__MS)
        pause = node->config.reconnect_max_ms * RDL__MS;
    node->next_attempt = now + pause / 2 + (int64_t)rdl__rand_below(&node->rand, (uint64_t)(pause / 2 + 1));
    if (node->finder != NULL)
        node->finder->missed(node->finder);
}

void rdl__node_failed(struct rdl__node *node, const rdl_err_t *why, int64_t now)
{
    rdl__assert_on_loop(node->loop);
    rdl__mutex_lock(&node->mu);
    node->last_error = *why;
    rdl__mutex_unlock(&node->mu);
    if (node->outage_began == 0)
        node->outage_began = now;
    node->attempts++;
    missed(node, now - node->outage_began, now);
}

/* Do connections still break at once? Such attempts follow each other after reconnect_max_ms at most, unless something
 * else delays them. */
static bool still_useless(const struct rdl__node *node, int64_t now)
{
    return node->vain_since != 0 && now - node->vain_at <= 2 * node->config.reconnect_max_ms * RDL__MS;
}

void rdl__node_broke(struct rdl__node *node, int64_t up_at, bool refused, int64_t now)
{
    rdl__assert_on_loop(node->loop);
    if ((!refused && now - up_at >= BRIEF) || node->placed_at > up_at)
        return;
    if (!still_useless(node, now))
        node->vain_since = now;
    node->vain_at = now;
    missed(node, now - node->vain_since, now);
}

int64_t rdl__node_missed_since(const struct rdl__node *node, int64_t now)
{
    rdl__assert_on_loop(node->loop);
    if (node->outage_began != 0)
        return node->outage_began;
    return still_useless(node, now) && node->vain_at > node->placed_at ? node->vain_since : 0;
}

void rdl__node_connected(struct rdl__node *node, int64_t now)
{
    rdl__assert_on_loop(node->loop);
    if (node->outage_began != 0)
        rdl__log(node->sinks, RDL_LOG_INFO, "%s: reachable again after %lld ms and %u attempts in vain", node->label,
                 (long long)((now - node->outage_began) / RDL__MS), node->attempts);
    if (!still_useless(node, now))
        node->told = (struct rdl__repeats){0};
    node->attempts = 0;
    node->has_been_up = true;
    node->outage_began = 0;
    node->next_attempt = 0;
    rdl__mutex_lock(&node->mu);
    node->last_error = (rdl_err_t){0};
    rdl__mutex_unlock(&node->mu);
}

void rdl__node_uptime(struct rdl__node *node, const char *seconds, int64_t now)
{
    long long up = 0;
    int64_t born_at = now;

    rdl__assert_on_loop(node->loop);
    /* A difference of whole seconds of its clock: up to one less has passed. */
    if (sscanf(seconds, "%lld", &up) == 1 && up > 0 && up < INT32_MAX)
        born_at = now - (up - 1) * RDL__SEC;
    if (born_at > atomic_load(&node->born_at))
        atomic_store(&node->born_at, born_at);
}

void rdl__node_run(struct rdl__node *node, const char *run_id)
{
    rdl__assert_on_loop(node->loop);
    atomic_store(&node->run, run_id[0] == '\0' ? 0 : rdl__hash(run_id, strlen(run_id)) | 1);
}

/* Call `tell` for each connection that the node has now; that may end and start connections. */
static void tell_conns(struct rdl__node *node, void (*tell)(struct rdl__conn *conn, const rdl_err_t *why, int64_t now),
                       const rdl_err_t *why, int64_t now)
{
    struct rdl__link told, *l;

    rdl__list_init(&told);
    rdl__list_splice_front(&told, &node->conns);
    while ((l = rdl__list_pop(&told)) != NULL) {
        rdl__list_push_back(&node->conns, l);
        tell(rdl__container(l, struct rdl__conn, link), why, now);
    }
}

static void note_place(struct rdl__node *node)
{
    struct rdl__uri at = {.scheme = RDL__SCHEME_TCP, .host = node->uri.host, .port = node->uri.port};

    if (node->uri.scheme != RDL__SCHEME_CLUSTER)
        return;
    rdl__mutex_lock(&node->mu);
    rdl__uri_node(&at, node->place, sizeof node->place);
    rdl__mutex_unlock(&node->mu);
}

bool rdl__node_found(struct rdl__node *node, const char *host, int port, int64_t now)
{
    bool first = node->uri.host == NULL;
    char where[sizeof node->label];

    rdl__assert_on_loop(node->loop);
    if (!first && strcmp(node->uri.host, host) == 0 && node->uri.port == port)
        return true;
    if (!rdl__uri_place(&node->uri, host, port))
        return false;
    note_place(node);
    if (!first) /* another server, which may have lost data */
        atomic_store(&node->born_at, now);
    node->placed_at = now;
    node->next_attempt = 0;
    rdl__node_where(node, where, sizeof where);
    rdl__log(node->sinks, RDL_LOG_INFO, "%s", where);
    tell_conns(node, rdl__conn_moved, NULL, now);
    return true;
}

void rdl__node_not_found(struct rdl__node *node, const rdl_err_t *why, int64_t now)
{
    rdl__assert_on_loop(node->loop);
    tell_conns(node, rdl__conn_place_unknown, why, now);
}

void rdl__node_server(struct rdl__node *node, char *to, size_t cap)
{
    rdl__mutex_lock(&node->mu);
    (void)rdl__line(to, cap, "%s", node->place[0] != '\0' ? node->place : node->label);
    rdl__mutex_unlock(&node->mu);
}

void rdl__node_where(const struct rdl__node *node, char *to, size_t cap)
{
    rdl__assert_on_loop(node->loop);
    if (node->finder == NULL || node->uri.host == NULL)
        (void)rdl__line(to, cap, "%s", node->label);
    else
        (void)rdl__line(to, cap, strchr(node->uri.host, ':') != NULL ? "%s at [%s]:%d" : "%s at %s:%d", node->label,
                        node->uri.host, node->uri.port);
}

int rdl__node_error(struct rdl__node *node, int code, rdl_err_t *err)
{
    char server[sizeof node->place];
    rdl_err_t why;

    rdl__mutex_lock(&node->mu);
    why = node->last_error;
    rdl__mutex_unlock(&node->mu);
    if (why.code == RDL_ESERVER || why.code == RDL_EAUTH)
        code = why.code;
    if (why.message[0] != '\0') {
        (void)rdl__err_set(err, code, "%s", why.message);
    } else {
        rdl__node_server(node, server, sizeof server);
        (void)rdl__err_set(err, code, "%s: it could not be sent in time", server);
    }
    rdl__err_where(err, node->label, NULL, 0);
    return code;
}
