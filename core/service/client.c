/* SPDX-License-Identifier: MIT */
/* client.c - putting a client together, and freeing what it is made of.
 *
 * First the parts without a thread (make_client), then the loop and everything that runs on it (make_parts), each after
 * the parts that it needs. When making fails half-way, only the parts that are there are freed. Nothing is posted to
 * the loop before all parts are there, and they are freed after it has stopped (life.c). A new part is a field of
 * rdl_client, a line in make_parts, one in free_parts, and if it has connections one in life.c:close_lanes.
 */
#include "core/service/client.h"

#include "core/base/entropy.h"
#include "core/base/err.h"
#include "core/service/life.h"
#include "core/service/options.h"
#include "core/service/owner.h"
#include "core/service/routing.h"

#include <string.h>

#define VERDICT_MS 100 /* the first attempt's own time-out may come a moment after that of opening */

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void on_open(struct rdl__task *task, int64_t now)
{
    rdl_client_t *client = rdl__container(task, rdl_client_t, open_task);

    if (client->sentinels != NULL)
        rdl__sentinels_open(client->sentinels, now);
    if (client->cluster != NULL)
        rdl__cluster_open(client->cluster, now);
    rdl__lane_open(client->home.loop_lane, now);
}

static void on_retry(struct rdl__task *task, int64_t now)
{
    rdl__waiters_retry_all(&rdl__container(task, rdl_client_t, retry_task)->waiters, now);
}

static void on_sweep(struct rdl__task *task, int64_t now)
{
    (void)now;
    rdl__waiters_sweep(&rdl__container(task, rdl_client_t, sweep_task)->waiters);
}

/* The parts without threads and connections. */
static int make_client(const rdl_client_options_t *o, rdl_client_t **ret_client)
{
    struct rdl__mem mem;
    rdl_client_t *client;

    rdl__mem_init(&mem, o->allocator);
    if ((client = rdl__zalloc(&mem, sizeof *client)) == NULL)
        return RDL_ENOMEM;
    client->mem = mem;
    client->sinks = (struct rdl__sinks){.log = o->log,
                                        .log_arg = o->log_arg,
                                        .level = o->log_level,
                                        .metering = o->metrics_fn != NULL ? RDL__TOLD
                                                    : o->metrics != NULL  ? RDL__COUNTED
                                                                          : RDL__NOT_METERED,
                                        .metrics = o->metrics_fn,
                                        .metrics_arg = o->metrics_arg};
    client->connect_timeout_ms = o->connect_timeout_ms;
    client->command_timeout_ms = o->command_timeout_ms;
    client->outage_timeout_ms = o->outage_timeout_ms;
    rdl__client_renews_for(client, o->watchdog_lease_ms);
    client->cache_names = (unsigned)o->cache_names;
    client->acks = rdl__acks_of(o->replicas, o->replicas_if_able, o->replicas_timeout_ms);
    client->close_timeout_ms = o->close_timeout_ms;
    client->on_outage = o->on_outage;
    client->local_after_ms = o->local_after_ms;
    client->local_dir = RDL__HOSTLOCK_NONE;
    client->dispatch.fd = -1;
    atomic_init(&client->next_n, RDL__NUMBERS_FROM);
    rdl__parker_init(&client->parker);
    rdl__list_init(&client->owners);
    rdl__task_init(&client->open_task, on_open);
    rdl__task_init(&client->sweep_task, on_sweep);
    rdl__task_init(&client->retry_task, on_retry);
    rdl__life_init(client);
    if (rdl__mutex_init(&client->close_mu) < 0)
        goto no_close_mu;
    if (rdl__mutex_init(&client->names_mu) < 0)
        goto no_names_mu;
    if (rdl__mutex_init(&client->owners_mu) < 0)
        goto no_owners_mu;
    if (rdl__forkmark_init(&client->forkmark) < 0)
        goto no_forkmark;
    if (rdl__table_init(&client->names, &client->mem) < 0)
        goto no_names;
    if ((client->sinks.counters = rdl__metrics_ref(o->metrics)) != NULL)
        client->sinks.all = client->sinks.counters->sets[0];
    *ret_client = client;
    return RDL_OK;
no_names:
    rdl__forkmark_done(&client->forkmark);
no_forkmark:
    rdl__mutex_done(&client->owners_mu);
no_owners_mu:
    rdl__mutex_done(&client->names_mu);
no_names_mu:
    rdl__mutex_done(&client->close_mu);
no_close_mu:
    rdl__free(&mem, client, sizeof *client);
    return RDL_ENOMEM;
}

static int make_identity(rdl_client_t *client)
{
    if (rdl__uuid_make(&client->uuid) < 0 || rdl__entropy(&client->serial, sizeof client->serial) < 0)
        return RDL_ENOMEM;
    return RDL_OK;
}

/* The TLS contexts, if the URI is for TLS. */
static int make_tls(rdl_client_t *client, const rdl_client_options_t *o, const struct rdl__uri *uri, rdl_err_t *err)
{
    bool sentinels = uri->tls && uri->scheme == RDL__SCHEME_SENTINEL;
    int rc;

    if ((o->tls != NULL && o->tls->insecure) || (o->sentinel_tls != NULL && o->sentinel_tls->insecure))
        rdl__log(&client->sinks, RDL_LOG_WARN, "TLS without verification: any certificate is accepted");
    if (!uri->tls)
        return RDL_OK;
    rc = rdl__tls_new(&client->mem, o->tls, &client->tls, err);
    if (rc < 0 || !sentinels)
        return rc;
    return rdl__tls_new(&client->mem, o->sentinel_tls != NULL ? o->sentinel_tls : o->tls, &client->sentinel_tls, err);
}

/* What a server that may be replaced needs: the finder, and the replay log. */
static bool make_sentinels(rdl_client_t *client, const rdl_client_options_t *o)
{
    client->sentinels =
        rdl__sentinels_new(&client->home.node, client->sentinel_tls, o->sentinel_username, o->sentinel_password);
    client->home.replay = rdl__replay_new(&client->mem, client->home.loop_lane);
    return client->sentinels != NULL && client->home.replay != NULL;
}

/* Who it is, for people; and the name that its connections have at the server. */
static bool make_name(rdl_client_t *client, const rdl_client_options_t *o)
{
    char made[RDL__CLIENT_NAME_MAX];
    const char *name = o->client_name;

    rdl__describer_init(&client->describer, o);
    if (name == NULL) {
        rdl__describer_name(&client->describer, made);
        name = made;
    }
    client->client_name_size = strlen(name) + 1;
    return (client->client_name = rdl__memdup(&client->mem, name, client->client_name_size - 1)) != NULL;
}

static void on_hold(void *arg, int64_t now)
{
    rdl__describer_used(&((rdl_client_t *)arg)->describer, now);
}

/* Everything with threads and connections, in the order in which it is needed. The loop runs from the start, but
 * nothing is posted to it before all is there. */
static int make_parts(rdl_client_t *client, const rdl_client_options_t *o, struct rdl__uri *uri, rdl_err_t *err)
{
    struct rdl__watchdog_config watchdog = {.drift_ppm = o->drift_ppm,
                                            .drift_ms = o->drift_ms,
                                            .lease_ms = o->watchdog_lease_ms,
                                            .began = on_hold,
                                            .began_arg = client,
                                            .listen = rdl__routing_listen,
                                            .listen_arg = client};
    struct rdl__node_config node = {
        .connect_timeout_ms = o->connect_timeout_ms,
        .command_timeout_ms = o->command_timeout_ms,
        .reconnect_min_ms = o->reconnect_min_ms,
        .reconnect_max_ms = o->reconnect_max_ms,
        .ping_interval_ms = o->ping_interval_ms,
        .poll_ns = o->poll_us < 0 ? 0 : o->poll_us * RDL__US,
        .credentials = o->credentials,
        .credentials_arg = o->credentials_arg,
    };
    int rc;

    if (!make_name(client, o))
        return RDL_ENOMEM;
    node.client_name = client->client_name;
    node.kind = uri->scheme == RDL__SCHEME_CLUSTER ? RDL__KIND_CLUSTER : RDL__KIND_SERVER;
    if (o->local_dir != NULL && (rc = rdl__hostlock_dir(o->local_dir, &client->local_dir, err)) < 0)
        return rc;
    if ((rc = rdl__client_options_fit(o, uri, err)) < 0 || (rc = make_tls(client, o, uri, err)) < 0)
        return rc;
    node.tls = client->tls;
    if ((rc = make_identity(client)) < 0 || (rc = rdl__loop_start(&client->mem, &client->loop, err)) < 0)
        return rc;
    if ((node.resolver = client->resolver = rdl__resolver_new(client->loop)) == NULL)
        return RDL_ENOMEM;
    if ((rc = rdl__routing_equip(client, &client->home, &node, (unsigned)o->connections, uri)) < 0)
        return rc;
    if (client->home.node.uri.scheme == RDL__SCHEME_SENTINEL && !make_sentinels(client, o))
        return RDL_ENOMEM;
    if (client->home.node.uri.scheme == RDL__SCHEME_CLUSTER) {
        if (!rdl__routing_make(client, &node))
            return RDL_ENOMEM;
        watchdog.routes = &client->routes;
    }
    client->watchdog = rdl__watchdog_new(&client->mem, &client->sinks, client->loop, client->home.loop_lane,
                                         &client->home.acked, &watchdog);
    if (client->watchdog == NULL)
        return RDL_ENOMEM;
    rdl__evictions_init(&client->evictions, &client->uuid, client->watchdog);
    client->home.renewer = rdl__watchdog_home(client->watchdog);
    if ((rc = rdl__waiters_init(&client->waiters, &client->mem, client->loop, client->home.sub)) < 0)
        return rc;
    rdl__routing_spread(client);
    return rdl__dispatch_init(&client->dispatch, client->loop, o->dispatch == RDL_DISPATCH_FD, err);
}

/* Free the parts, some of which may be missing. The loop has stopped. */
static void free_parts(rdl_client_t *client)
{
    if (client->dispatch.loop != NULL)
        rdl__dispatch_done(&client->dispatch);
    rdl__waiters_done(&client->waiters);
    client->watchdog = rdl__watchdog_free(client->watchdog);
    client->sentinels = rdl__sentinels_free(client->sentinels);
    rdl__routing_free(client);
    rdl__shard_done(&client->home);
    client->tls = rdl__tls_free(client->tls);
    client->sentinel_tls = rdl__tls_free(client->sentinel_tls);
    client->resolver = rdl__resolver_free(client->resolver);
    rdl__free(&client->mem, client->client_name, client->client_name_size);
}

/* Wait for the first connection. A refusal is final here: a daemon that wants to wait tries again. */
static int await_connection(rdl_client_t *client, rdl_err_t *err)
{
    int64_t deadline = rdl__after_ms(rdl__now(), client->connect_timeout_ms + VERDICT_MS);
    uint32_t posted = rdl__park(&client->parker, deadline);
    rdl_err_t why;

    if (posted & RDL__POST_CONNECTED)
        return RDL_OK;
    if (posted != 0)
        return rdl__node_error(&client->home.node, RDL_ECONN, err);
    (void)rdl__node_error(&client->home.node, RDL_ECONN, &why);
    return rdl__err_set(err, RDL_ECONN, "%s: no connection within %lld ms (%s)", client->home.node.label,
                        (long long)client->connect_timeout_ms, why.message);
}

/* Does it pass by itself? */
static bool is_outage(int rc, const rdl_err_t *why)
{
    return rc == RDL_ECONN || (rc == RDL_ESERVER && strstr(why->message, "(LOADING)") != NULL);
}

int rdl_client_open(const char *uri, const rdl_client_options_t *options, rdl_client_t **ret_client, rdl_err_t *err)
{
    struct rdl__uri parsed = {0};
    rdl_client_options_t o;
    rdl_client_t *client = NULL;
    rdl_err_t why = {0};
    int rc;

    if (uri == NULL || ret_client == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", uri == NULL ? "uri" : "ret_client");
    if ((rc = rdl__client_options_check(options, &o, err)) < 0)
        return rc;
    if ((rc = make_client(&o, &client)) < 0)
        return rdl__err_set(err, rc, NULL);
    if ((rc = rdl__uri_parse(&client->mem, uri, &parsed, err)) < 0)
        goto fail_unmade;
    rc = rdl__uri_credentials(&parsed, o.username, o.password) ? make_parts(client, &o, &parsed, &why) : RDL_ENOMEM;
    if (rc < 0) {
        rc = rdl__err_set(err, rc, "%s", why.code == rc ? why.message : rdl_strerror(rc));
        goto fail_unmade;
    }
    rdl__loop_post(client->loop, &client->open_task);
    if (!o.lazy && (rc = await_connection(client, &why)) < 0 &&
        (o.on_outage == RDL_OUTAGE_FAIL || !is_outage(rc, &why))) {
        (void)rdl_client_close(client);
        if (err != NULL)
            *err = why;
        return rc;
    }
    *ret_client = client;
    return RDL_OK;
fail_unmade:
    rdl__uri_done(&parsed);
    client->loop = rdl__loop_stop(client->loop);
    free_parts(client);
    rdl__client_unref(client);
    return rc;
}

/* ---- closing ---------------------------------------------------------------------------------------------------- */

/* With RDL_DISPATCH_FD the program may not call rdl_client_dispatch any more. */
static void run_last_callbacks(rdl_client_t *client)
{
    while (client->dispatch.fd >= 0 && rdl__dispatch_run(&client->dispatch) > 0)
        ;
}

rdl_client_t *rdl_client_close(rdl_client_t *client)
{
    if (client == NULL || rdl__client_forked(client))
        return NULL;
    if (atomic_load(
            &client->closing)) /* perhaps from a callback; there is no loop any more to compare the thread with */
        return client;
    if (rdl__loop_here(client->loop) || rdl__dispatch_here(&client->dispatch))
        return client;
    atomic_store(&client->closing, true);
    (void)rdl__owners_cancel(client, RDL_ECLOSED);
    rdl__life_close(client);
    run_last_callbacks(client);
    rdl__owners_close(client);
    free_parts(client);
    rdl__client_unref(client);
    return NULL;
}

/* ---- client.h --------------------------------------------------------------------------------------------------- */

int rdl_client_fd(rdl_client_t *client)
{
    int rc;

    if (client == NULL)
        return RDL_EINVAL;
    if ((rc = rdl__client_check(client, NULL)) < 0)
        return rc;
    return client->dispatch.fd >= 0 ? client->dispatch.fd : RDL_EINVAL;
}

int rdl_client_dispatch(rdl_client_t *client)
{
    int rc;

    if (client == NULL)
        return RDL_EINVAL;
    if ((rc = rdl__client_check(client, NULL)) < 0 || (rc = rdl__client_visit_begins(client)) < 0)
        return rc;
    rc = client->dispatch.fd >= 0 ? rdl__dispatch_run(&client->dispatch) : RDL_EINVAL;
    rdl__client_visit_ends(client);
    return rc;
}

const char *rdl_client_id(const rdl_client_t *client)
{
    return client == NULL ? NULL : client->uuid.text;
}
