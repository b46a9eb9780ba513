/* client.c - putting a client together, and taking it apart in order.
 *
 * Closing: no new call begins; calls under way are asked to end with RDL_ECLOSED; undo commands get close_timeout_ms to be
 * answered; then lanes and subscriber close, the last callers leave, the loop stops. Holds are left to their leases. What
 * remains, a struct without a thread, goes with its last reference.
 */
#include "core/service/client.h"

#include "core/base/entropy.h"
#include "core/base/err.h"
#include "core/service/owner.h"
#include "core/service/scripts.h"

#include <stdlib.h>
#include <string.h>

#define POST_CONNECTED 1u
#define POST_FAILED 2u
#define POST_CLOSED 4u

/* ---- options ------------------------------------------------------------------------------------------------------------- */

/* One line an option: what may be asked for, and what 0 means. */
static const struct {
    const char *name;
    size_t offset;
    int64_t least, most, usual;
} times[] = {
    {"connect_timeout_ms", offsetof(rdl_client_options_t, connect_timeout_ms), 1, 3600000, 10000},
    {"command_timeout_ms", offsetof(rdl_client_options_t, command_timeout_ms), 1, 3600000, 3000},
    {"outage_timeout_ms", offsetof(rdl_client_options_t, outage_timeout_ms), 1, INT64_C(86400000) * 365, 60000},
    {"watchdog_lease_ms", offsetof(rdl_client_options_t, watchdog_lease_ms), 30, INT64_C(1) << 40, 30000},
    {"close_timeout_ms", offsetof(rdl_client_options_t, close_timeout_ms), 1, 3600000, 1000},
    {"reconnect_min_ms", offsetof(rdl_client_options_t, reconnect_min_ms), 1, 3600000, 10},
    {"reconnect_max_ms", offsetof(rdl_client_options_t, reconnect_max_ms), 1, 3600000, 1000},
    {"ping_interval_ms", offsetof(rdl_client_options_t, ping_interval_ms), 1, 3600000, 15000},
    {"drift_ms", offsetof(rdl_client_options_t, drift_ms), 0, 3600000, 2},
    {"poll_us", offsetof(rdl_client_options_t, poll_us), -1, 1000, 200},
};

static int bad_option(rdl_err_t *err, const char *name, int64_t value, int64_t least, int64_t most)
{
    return rdl__err_set(err, RDL_EINVAL, "client option %s is %lld: it must be %lld to %lld, or 0 for the default", name,
                        (long long)value, (long long)least, (long long)most);
}

static int check_int(rdl_err_t *err, const char *name, int32_t *value, int32_t least, int32_t most, int32_t usual)
{
    if (*value == 0)
        *value = usual;
    return *value >= least && *value <= most ? RDL_OK : bad_option(err, name, *value, least, most);
}

static int check_name(rdl_err_t *err, const char **name)
{
    if (*name == NULL)
        *name = "redlatch";
    for (const char *p = *name; *p != '\0'; p++)
        if (*p < '!' || *p > '~')
            return rdl__err_set(err, RDL_EINVAL, "client option client_name holds a character outside ! to ~");
    return **name != '\0' ? RDL_OK : rdl__err_set(err, RDL_EINVAL, "client option client_name is empty");
}

/* Copy the options with defaults filled in, or say what is wrong with them. */
static int check_options(const rdl_client_options_t *given, rdl_client_options_t *o, rdl_err_t *err)
{
    int rc;

    *o = given != NULL ? *given : (rdl_client_options_t)RDL_CLIENT_OPTIONS_INIT;
    if (o->version != RDL_CLIENT_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL, "client options have version %u: initialise them with RDL_CLIENT_OPTIONS_INIT",
                            (unsigned)o->version);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        int64_t value;

        memcpy(&value, (const char *)o + times[i].offset, sizeof value);
        if (value == 0)
            value = times[i].usual;
        if (value < times[i].least || value > times[i].most)
            return bad_option(err, times[i].name, value, times[i].least, times[i].most);
        memcpy((char *)o + times[i].offset, &value, sizeof value);
    }
    if ((rc = check_int(err, "connections", &o->connections, 1, RDL__LANES_MAX, 4)) < 0 ||
        (rc = check_int(err, "drift_ppm", &o->drift_ppm, 1, 500000, 10000)) < 0 ||
        (rc = check_name(err, &o->client_name)) < 0)
        return rc;
    if (o->dispatch != RDL_DISPATCH_LOOP && o->dispatch != RDL_DISPATCH_FD)
        return rdl__err_set(err, RDL_EINVAL, "client option dispatch is %d", (int)o->dispatch);
    if (o->reconnect_max_ms < o->reconnect_min_ms)
        return rdl__err_set(err, RDL_EINVAL, "client option reconnect_max_ms is less than reconnect_min_ms");
    if (o->allocator != NULL && (o->allocator->alloc == NULL || o->allocator->free == NULL))
        return rdl__err_set(err, RDL_EINVAL, "client option allocator lacks a function");
    return RDL_OK;
}

/* The options' credentials in place of the URI's. */
static int override_credentials(const struct rdl__mem *mem, const rdl_client_options_t *o, struct rdl__uri *uri)
{
    char *username = NULL, *password = NULL;

    if (o->username != NULL && (username = rdl__memdup(mem, o->username, strlen(o->username))) == NULL)
        return RDL_ENOMEM;
    if (o->password != NULL && (password = rdl__memdup(mem, o->password, strlen(o->password))) == NULL) {
        rdl__free(mem, username, username == NULL ? 0 : strlen(username) + 1);
        return RDL_ENOMEM;
    }
    rdl__uri_credentials(uri, username, password);
    return RDL_OK;
}

/* ---- opening ------------------------------------------------------------------------------------------------------------- */

static void on_news(void *arg, enum rdl__lane_news news, int64_t now)
{
    rdl_client_t *client = arg;

    (void)now;
    if (news == RDL__LANE_UP)
        rdl__parker_post(&client->parker, POST_CONNECTED);
    else if (news == RDL__LANE_FAILED)
        rdl__parker_post(&client->parker, POST_FAILED);
}

static void on_open(struct rdl__task *task, int64_t now)
{
    rdl__lane_open(rdl__container(task, rdl_client_t, open_task)->loop_lane, now);
}

static void on_close(struct rdl__task *task, int64_t now);
static void on_idle(struct rdl__task *task, int64_t now);
static void on_close_timer(struct rdl__timer *timer, int64_t now);

/* The parts without threads and connections. */
static int make_client(const rdl_client_options_t *o, rdl_client_t **ret_client)
{
    struct rdl__mem mem;
    rdl_client_t *client;

    rdl__mem_init(&mem, o->allocator);
    if ((client = rdl__zalloc(&mem, sizeof *client)) == NULL)
        return RDL_ENOMEM;
    client->mem = mem;
    client->sinks = (struct rdl__sinks){o->log, o->log_arg, o->log_level, o->metrics, o->metrics_arg};
    client->connect_timeout_ms = o->connect_timeout_ms;
    client->command_timeout_ms = o->command_timeout_ms;
    client->outage_timeout_ms = o->outage_timeout_ms;
    client->watchdog_lease_ms = o->watchdog_lease_ms;
    client->close_timeout_ms = o->close_timeout_ms;
    client->lane_count = (unsigned)o->connections;
    client->dispatch.fd = -1;
    atomic_init(&client->refs, 1);
    atomic_init(&client->next_n, 1);
    rdl__parker_init(&client->parker);
    rdl__list_init(&client->owners);
    rdl__task_init(&client->open_task, on_open);
    rdl__task_init(&client->close_task, on_close);
    rdl__task_init(&client->idle_task, on_idle);
    rdl__timer_init(&client->close_timer, on_close_timer);
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

static int make_lanes(rdl_client_t *client)
{
    if ((client->loop_lane = rdl__lane_new(&client->node, true)) == NULL)
        return RDL_ENOMEM;
    rdl__lane_on_news(client->loop_lane, on_news, client);
    for (unsigned i = 0; i < client->lane_count; i++)
        if ((client->lanes[i] = rdl__lane_new(&client->node, false)) == NULL)
            return RDL_ENOMEM;
    return RDL_OK;
}

/* Everything with threads and connections, in the order in which it is needed. The loop runs from the start, but nothing is
 * posted to it before all is there. */
static int make_parts(rdl_client_t *client, const rdl_client_options_t *o, struct rdl__uri *uri, rdl_err_t *err)
{
    const struct rdl__watchdog_config watchdog = {.drift_ppm = o->drift_ppm, .drift_ms = o->drift_ms};
    struct rdl__node_config node = {
        .connect_timeout_ms = o->connect_timeout_ms,
        .command_timeout_ms = o->command_timeout_ms,
        .reconnect_min_ms = o->reconnect_min_ms,
        .reconnect_max_ms = o->reconnect_max_ms,
        .ping_interval_ms = o->ping_interval_ms,
        .poll_ns = o->poll_us < 0 ? 0 : o->poll_us * RDL__US,
    };
    int rc;

    client->client_name_size = strlen(o->client_name) + 1;
    if ((client->client_name = rdl__memdup(&client->mem, o->client_name, client->client_name_size - 1)) == NULL)
        return RDL_ENOMEM;
    node.client_name = client->client_name;
    if ((rc = make_identity(client)) < 0 || (rc = rdl__loop_start(&client->mem, &client->loop, err)) < 0 ||
        (rc = rdl__node_init(&client->node, &client->mem, &client->sinks, client->loop, &node, uri)) < 0 ||
        (rc = make_lanes(client)) < 0)
        return rc;
    client->node.welcome_count = rdl__scripts_load(&client->node.welcome);
    if (rdl__buf_failed(&client->node.welcome))
        return RDL_ENOMEM;
    client->watchdog = rdl__watchdog_new(&client->mem, &client->sinks, client->loop, client->loop_lane, &watchdog);
    client->sub = rdl__subscriber_new(&client->node);
    if (client->watchdog == NULL || client->sub == NULL)
        return RDL_ENOMEM;
    if ((rc = rdl__waiters_init(&client->waiters, &client->mem, client->loop, client->sub)) < 0)
        return rc;
    return rdl__dispatch_init(&client->dispatch, client->loop, o->dispatch == RDL_DISPATCH_FD, err);
}

/* The parts, the loop having stopped; half of them may be missing. */
static void free_parts(rdl_client_t *client)
{
    if (client->dispatch.loop != NULL)
        rdl__dispatch_done(&client->dispatch);
    rdl__waiters_done(&client->waiters);
    client->watchdog = rdl__watchdog_free(client->watchdog);
    client->sub = rdl__subscriber_free(client->sub);
    for (unsigned i = 0; i < client->lane_count; i++)
        client->lanes[i] = rdl__lane_free(client->lanes[i]);
    client->loop_lane = rdl__lane_free(client->loop_lane);
    rdl__node_done(&client->node);
    rdl__free(&client->mem, client->client_name, client->client_name_size);
}

/* Wait for the first connection. A refusal is final here: a daemon that would rather wait tries again. */
static int await_connection(rdl_client_t *client, rdl_err_t *err)
{
    int64_t deadline = rdl__after_ms(rdl__now(), client->connect_timeout_ms);
    uint32_t posted = rdl__park(&client->parker, deadline);

    if (posted & POST_CONNECTED)
        return RDL_OK;
    if (posted == 0)
        return rdl__err_set(err, RDL_ECONN, "%s: no connection within %lld ms", client->node.label,
                            (long long)client->connect_timeout_ms);
    return rdl__node_error(&client->node, RDL_ECONN, err);
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
    if ((rc = check_options(options, &o, err)) < 0)
        return rc;
    if ((rc = make_client(&o, &client)) < 0)
        return rdl__err_set(err, rc, NULL);
    if ((rc = rdl__uri_parse(&client->mem, uri, &parsed, err)) < 0)
        goto fail_unmade;
    if ((rc = override_credentials(&client->mem, &o, &parsed)) < 0 || (rc = make_parts(client, &o, &parsed, &why)) < 0) {
        rc = rdl__err_set(err, rc, "%s", why.code == rc ? why.message : rdl_strerror(rc));
        goto fail_unmade;
    }
    rdl__loop_post(client->loop, &client->open_task);
    if (!o.lazy && (rc = await_connection(client, err)) < 0) {
        (void)rdl_client_close(client);
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

/* ---- closing ------------------------------------------------------------------------------------------------------------- */

static bool lanes_quiet(rdl_client_t *client)
{
    if (!rdl__lane_quiet(client->loop_lane))
        return false;
    for (unsigned i = 0; i < client->lane_count; i++)
        if (!rdl__lane_quiet(client->lanes[i]))
            return false;
    return true;
}

static void close_lanes(rdl_client_t *client, int64_t now)
{
    client->lanes_closed = true;
    rdl__watchdog_close(client->watchdog);
    rdl__lane_close(client->loop_lane, now);
    for (unsigned i = 0; i < client->lane_count; i++)
        rdl__lane_close(client->lanes[i], now);
    rdl__subscriber_close(client->sub);
}

/* A step further, if it is time.  @thread loop */
static void close_further(rdl_client_t *client, int64_t now)
{
    if (!client->lanes_closed && atomic_load(&client->calls) == 0)
        close_lanes(client, now);
    if (client->lanes_closed && atomic_load(&client->calls) == 0 && lanes_quiet(client)) {
        rdl__loop_timer_off(client->node.loop, &client->close_timer);
        rdl__parker_post(&client->parker, POST_CLOSED);
    } else if (client->lanes_closed) { /* a caller is on its way out */
        rdl__loop_timer(client->node.loop, &client->close_timer, now + RDL__MS);
    }
}

static void on_close(struct rdl__task *task, int64_t now)
{
    rdl_client_t *client = rdl__container(task, rdl_client_t, close_task);

    rdl__loop_timer(client->node.loop, &client->close_timer, rdl__after_ms(now, client->close_timeout_ms));
    close_further(client, now);
}

static void on_idle(struct rdl__task *task, int64_t now)
{
    close_further(rdl__container(task, rdl_client_t, idle_task), now);
}

static void on_close_timer(struct rdl__timer *timer, int64_t now)
{
    rdl_client_t *client = rdl__container(timer, rdl_client_t, close_timer);

    if (!client->lanes_closed)
        close_lanes(client, now);
    close_further(client, now);
}

/* With RDL_DISPATCH_FD nobody else may come to run them. */
static void run_last_callbacks(rdl_client_t *client)
{
    while (client->dispatch.fd >= 0 && rdl__dispatch_run(&client->dispatch) > 0)
        ;
}

static void stop_loop(rdl_client_t *client)
{
    struct rdl__loop *loop;

    rdl__mutex_lock(&client->close_mu);
    loop = client->loop;
    client->loop = NULL;
    rdl__mutex_unlock(&client->close_mu);
    (void)rdl__loop_stop(loop);
}

rdl_client_t *rdl_client_close(rdl_client_t *client)
{
    if (client == NULL || rdl__client_forked(client))
        return NULL;
    if (rdl__loop_here(client->loop) || rdl__dispatch_here(&client->dispatch))
        return client;
    atomic_store(&client->closing, true);
    (void)rdl__owners_cancel(client, RDL_ECLOSED);
    rdl__loop_post(client->loop, &client->close_task);
    (void)rdl__park_for(&client->parker, POST_CLOSED, RDL__NEVER);
    stop_loop(client);
    run_last_callbacks(client);
    rdl__owners_close(client);
    free_parts(client);
    rdl__client_unref(client);
    return NULL;
}

/* ---- client.h ------------------------------------------------------------------------------------------------------------ */

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
    if ((rc = rdl__client_check(client, NULL)) < 0)
        return rc;
    return client->dispatch.fd >= 0 ? rdl__dispatch_run(&client->dispatch) : RDL_EINVAL;
}

const char *rdl_client_id(const rdl_client_t *client)
{
    return client == NULL ? NULL : client->uuid.text;
}
