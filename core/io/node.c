#include "core/io/node.h"

#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

int rdl__node_init(struct rdl__node *node, const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                   struct rdl__loop *loop, const struct rdl__node_config *config, struct rdl__uri *uri)
{
    memset(node, 0, sizeof *node);
    if (rdl__mutex_init(&node->mu) < 0)
        return RDL_ENOMEM;
    atomic_init(&node->born_at, INT64_MIN);
    node->mem = mem;
    node->sinks = sinks;
    node->loop = loop;
    node->config = *config;
    node->uri = *uri;
    *uri = (struct rdl__uri){0};
    rdl__uri_node(&node->uri, node->label, sizeof node->label);
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

/* The pause is a twentieth of the outage so far, so a short one is noticed quickly and a long one costs the returning server
 * little: with jitter of a factor of two, a fleet's attempts spread evenly. */
void rdl__node_failed(struct rdl__node *node, const rdl_err_t *why, int64_t now)
{
    int64_t pause;

    rdl__mutex_lock(&node->mu);
    node->last_error = *why;
    rdl__mutex_unlock(&node->mu);
    if (node->outage_began == 0)
        node->outage_began = now;
    pause = (now - node->outage_began) / 20;
    if (pause < node->config.reconnect_min_ms * RDL__MS)
        pause = node->config.reconnect_min_ms * RDL__MS;
    if (pause > node->config.reconnect_max_ms * RDL__MS)
        pause = node->config.reconnect_max_ms * RDL__MS;
    node->next_attempt = now + pause / 2 + (int64_t)rdl__rand_below(&node->rand, (uint64_t)(pause / 2 + 1));
}

void rdl__node_connected(struct rdl__node *node, int64_t now)
{
    if (node->outage_began != 0)
        rdl__log(node->sinks, RDL_LOG_INFO, "%s: reachable again after %lld ms", node->label,
                 (long long)((now - node->outage_began) / RDL__MS));
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

    /* A difference of whole seconds of its clock: up to one less has passed. */
    if (sscanf(seconds, "%lld", &up) == 1 && up > 0 && up < INT32_MAX)
        born_at = now - (up - 1) * RDL__SEC;
    if (born_at > atomic_load(&node->born_at))
        atomic_store(&node->born_at, born_at);
}

int rdl__node_error(struct rdl__node *node, int code, rdl_err_t *err)
{
    rdl_err_t why;

    rdl__mutex_lock(&node->mu);
    why = node->last_error;
    rdl__mutex_unlock(&node->mu);
    if (why.code == RDL_ESERVER)
        code = RDL_ESERVER;
    (void)rdl__err_set(err, code, "%s", why.message[0] != '\0' ? why.message : "it could not be sent in time");
    rdl__err_where(err, node->label, NULL, 0);
    return code;
}
