/* client.c - putting a client together, and taking it apart in order.
 *
 * Closing: no new call begins; calls under way are asked to end with RDL_ECLOSED; undo commands, and calls that pay
 * what one of those owes or may owe yet (a composite lock's give-backs), get close_timeout_ms; then lanes and
 * subscriber close, the last callers leave, the loop stops. Holds are left to their leases. What remains, a struct
 * without a thread, goes with its last reference.
 */
#include "core/service/client.h"

#include "core/base/entropy.h"
#include "core/base/err.h"
#include "core/service/owner.h"
#include "core/wire/names.h"

#include <stdlib.h>
#include <string.h>

#define POST_CONNECTED 1u
#define POST_FAILED 2u
#define POST_CLOSED 4u

#define VERDICT_MS 100 /* the first attempt's own bound may end a moment after that of opening */

/* ---- options ---------------------------------------------------------------------------------------------------- */

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
    return rdl__err_set(err, RDL_EINVAL, "client option %s is %lld: it must be %lld to %lld, or 0 for the default",
                        name, (long long)value, (long long)least, (long long)most);
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

#define REPLICAS_MAX 255
#define REPLICAS_TIMEOUT_MS 100
#define REPLICAS_TIMEOUT_MAX_MS 1000

int rdl__check_replicas(const char *whose, int32_t replicas, bool if_able, int64_t *timeout_ms, rdl_err_t *err)
{
    if (replicas < 0 || replicas > REPLICAS_MAX)
        return rdl__err_set(err, RDL_EINVAL, "%s option replicas is %d: it must be 0 to %d", whose, (int)replicas,
                            REPLICAS_MAX);
    if (replicas == 0 && (*timeout_ms != 0 || if_able))
        return rdl__err_set(err, RDL_EINVAL, "%s option %s is nothing without replicas", whose,
                            if_able ? "replicas_if_able" : "replicas_timeout_ms");
    if (replicas > 0 && *timeout_ms == 0)
        *timeout_ms = REPLICAS_TIMEOUT_MS;
    if (*timeout_ms < 0 || *timeout_ms > REPLICAS_TIMEOUT_MAX_MS)
        return rdl__err_set(err, RDL_EINVAL, "%s option replicas_timeout_ms is %lld: it must be 1 to %d", whose,
                            (long long)*timeout_ms, REPLICAS_TIMEOUT_MAX_MS);
    return RDL_OK;
}

/* Copy the options with defaults filled in, or say what is wrong with them. */
static int check_options(const rdl_client_options_t *given, rdl_client_options_t *o, rdl_err_t *err)
{
    int rc;

    *o = given != NULL ? *given : (rdl_client_options_t)RDL_CLIENT_OPTIONS_INIT;
    if (o->version != RDL_CLIENT_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL,
                            "client options have version %u: initialise them with RDL_CLIENT_OPTIONS_INIT",
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
        (rc = check_name(err, &o->client_name)) < 0 ||
        (rc = rdl__check_replicas("client", o->replicas, o->replicas_if_able, &o->replicas_timeout_ms, err)) < 0)
        return rc;
    if (o->dispatch != RDL_DISPATCH_LOOP && o->dispatch != RDL_DISPATCH_FD)
        return rdl__err_set(err, RDL_EINVAL, "client option dispatch is %d", (int)o->dispatch);
    if (o->reconnect_max_ms < o->reconnect_min_ms)
        return rdl__err_set(err, RDL_EINVAL, "client option reconnect_max_ms is less than reconnect_min_ms");
    if (o->credentials != NULL && (o->username != NULL || o->password != NULL))
        return rdl__err_set(err, RDL_EINVAL, "client option credentials is given beside username or password");
    if (o->sentinel_username != NULL && o->sentinel_password == NULL)
        return rdl__err_set(err, RDL_EINVAL, "client option sentinel_username is given without sentinel_password");
    if (o->allocator != NULL && (o->allocator->alloc == NULL || o->allocator->free == NULL))
        return rdl__err_set(err, RDL_EINVAL, "client option allocator lacks a function");
    return RDL_OK;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* Is there no use in waiting longer for the first connection? A master that was found, and that cannot be reached, may
 * be about to be replaced. */
static bool is_final(rdl_client_t *client)
{
    bool found = (client->sentinels != NULL && rdl__sentinels_found(client->sentinels)) ||
                 (client->cluster != NULL && rdl__cluster_found(client->cluster));

    return !found || rdl__node_error(&client->home.node, RDL_ECONN, NULL) != RDL_ECONN;
}

static void on_news(void *arg, enum rdl__lane_news news, int64_t now)
{
    struct rdl__shard *shard = arg;
    rdl_client_t *client = shard->client;

    if ((news == RDL__LANE_DOWN || news == RDL__LANE_FAILED) && shard->down_since == 0) {
        shard->down_since = now;
        rdl__waiters_missed(&client->waiters);
    }
    if (news == RDL__LANE_UP_ANEW) {
        rdl__watchdog_examine(client->watchdog, shard->renewer);
        if (shard->replay != NULL)
            rdl__replay_repeat(shard->replay, now);
    }
    if (news == RDL__LANE_UP || news == RDL__LANE_UP_ANEW) {
        shard->down_since = 0;
        atomic_store(&shard->wait_refused_until, 0); /* the acked lane may be asleep, and not know that it is down */
        rdl__parker_post(&client->parker, POST_CONNECTED);
    } else if (news == RDL__LANE_FAILED && is_final(client)) {
        rdl__parker_post(&client->parker, POST_FAILED);
    }
}

static void on_open(struct rdl__task *task, int64_t now)
{
    rdl_client_t *client = rdl__container(task, rdl_client_t, open_task);

    if (client->sentinels != NULL)
        rdl__sentinels_open(client->sentinels, now);
    if (client->cluster != NULL)
        rdl__cluster_open(client->cluster, now);
    rdl__lane_open(client->home.loop_lane, now);
}

static void on_sweep(struct rdl__task *task, int64_t now)
{
    (void)now;
    rdl__waiters_sweep(&rdl__container(task, rdl_client_t, sweep_task)->waiters);
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
    client->acks = (struct rdl__acks){.replicas = (uint32_t)o->replicas,
                                      .timeout_ms = (uint32_t)o->replicas_timeout_ms,
                                      .if_able = o->replicas_if_able};
    client->close_timeout_ms = o->close_timeout_ms;
    client->dispatch.fd = -1;
    atomic_init(&client->refs, 1);
    atomic_init(&client->next_n, 1);
    rdl__parker_init(&client->parker);
    rdl__list_init(&client->owners);
    rdl__list_init(&client->debts);
    rdl__task_init(&client->open_task, on_open);
    rdl__task_init(&client->close_task, on_close);
    rdl__task_init(&client->idle_task, on_idle);
    rdl__task_init(&client->sweep_task, on_sweep);
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

/* A shard of the client's, whose node the URI is for. */
static int make_shard(rdl_client_t *client, struct rdl__shard *shard, const struct rdl__node_config *config,
                      unsigned lane_count, struct rdl__uri *uri)
{
    int rc = rdl__shard_init(shard, client, config, lane_count, uri);

    if (rc < 0)
        return rc;
    rdl__lane_on_news(shard->loop_lane, on_news, shard);
    return RDL_OK;
}

/* A name alone would be sent to nobody, and `redis://secret@host` be taken for a connection with a password. */
static int check_login(const rdl_client_options_t *o, const struct rdl__uri *uri, rdl_err_t *err)
{
    if (uri->username == NULL || uri->password != NULL || o->credentials != NULL)
        return RDL_OK;
    if (o->username != NULL)
        return rdl__err_set(err, RDL_EINVAL, "client option username is given, and there is no password");
    return rdl__err_set(err, RDL_EINVAL,
                        "invalid URI: what stands before the @ is a user without a password: write :password@, "
                        "user:password@, or user:@ if that user has none");
}

/* What TLS needs, if the URI asks for it. Who gave options for it and the wrong URI must not believe himself safe. */
static int make_tls(rdl_client_t *client, const rdl_client_options_t *o, const struct rdl__uri *uri, rdl_err_t *err)
{
    bool sentinels = uri->tls && uri->scheme == RDL__SCHEME_SENTINEL;
    int rc;

    if (o->tls != NULL && !uri->tls)
        return rdl__err_set(err, RDL_EINVAL, "client option tls is given, and the URI is not rediss://");
    if (o->sentinel_tls != NULL && !sentinels)
        return rdl__err_set(err, RDL_EINVAL, "client option sentinel_tls is given, and the URI is not sentinels://");
    if ((o->tls != NULL && o->tls->insecure) || (o->sentinel_tls != NULL && o->sentinel_tls->insecure))
        rdl__log(&client->sinks, RDL_LOG_WARN, "TLS without verification: whoever answers is believed");
    if (!uri->tls)
        return RDL_OK;
    rc = rdl__tls_new(&client->mem, o->tls, &client->tls, err);
    if (rc < 0 || !sentinels)
        return rc;
    return rdl__tls_new(&client->mem, o->sentinel_tls != NULL ? o->sentinel_tls : o->tls, &client->sentinel_tls, err);
}

/* What a server needs that may be replaced by another. */
static bool make_sentinels(rdl_client_t *client, const rdl_client_options_t *o)
{
    client->sentinels =
        rdl__sentinels_new(&client->home.node, client->sentinel_tls, o->sentinel_username, o->sentinel_password);
    client->home.replay = rdl__replay_new(&client->mem, client->home.loop_lane);
    return client->sentinels != NULL && client->home.replay != NULL;
}

/* ---- the shards of a cluster ------------------------------------------------------------------------------------ */

/* Shard i; NULL: there are no more. */
static struct rdl__shard *shard_at(rdl_client_t *client, unsigned i)
{
    if (i == 0)
        return &client->home;
    return client->shards == NULL || i == RDL__SHARDS_MAX
               ? NULL
               : atomic_load_explicit(&client->shards[i], memory_order_acquire);
}

static void on_acked_news(void *arg, enum rdl__lane_news news, int64_t now);

/* The parts of a further shard. */
static bool equip_shard(rdl_client_t *client, struct rdl__shard *shard)
{
    const struct rdl__uri *first = &client->home.node.uri;
    struct rdl__uri uri = {.mem = &client->mem, .scheme = RDL__SCHEME_CLUSTER, .tls = first->tls};
    struct rdl__lane *acked;
    bool made = rdl__uri_credentials(&uri, first->username, first->password) &&
                make_shard(client, shard, &client->shard_config, client->home.lane_count, &uri) == RDL_OK;

    rdl__uri_done(&uri);
    if (!made || (shard->replay = rdl__replay_new(&client->mem, shard->loop_lane)) == NULL ||
        (acked = rdl__lane_new(&shard->node, false)) == NULL)
        return false;
    rdl__lane_on_news(acked, on_acked_news, shard);
    atomic_store_explicit(&shard->acked_lane, acked, memory_order_release);
    if (rdl__client_sharded(client))
        rdl__subscriber_shard(shard->sub);
    memcpy(shard->node.label, client->home.node.label, sizeof shard->node.label);
    shard->node.finder = rdl__cluster_finder(client->cluster);
    return (shard->renewer = rdl__renewer_new(client->watchdog, shard->loop_lane)) != NULL;
}

static struct rdl__node *on_shard(void *arg, unsigned number, int64_t now)
{
    rdl_client_t *client = arg;
    struct rdl__shard *shard = rdl__zalloc(&client->mem, sizeof *shard);

    if (shard == NULL)
        return NULL;
    if (!equip_shard(client, shard)) {
        rdl__shard_done(shard);
        rdl__free(&client->mem, shard, sizeof *shard);
        return NULL;
    }
    atomic_store_explicit(&client->shards[number], shard, memory_order_release);
    rdl__lane_open(shard->loop_lane, now);
    return &shard->node;
}

static void on_remapped(void *arg, int64_t now)
{
    rdl_client_t *client = arg;

    rdl__watchdog_reroute(client->watchdog);
    rdl__waiters_reroute(&client->waiters, now);
    for (unsigned i = 0; shard_at(client, i) != NULL; i++)
        rdl__shard_reroute(shard_at(client, i), now);
}

static void on_decided(void *arg)
{
    rdl_client_t *client = arg;

    if (rdl__client_sharded(client))
        rdl__subscriber_shard(client->home.sub);
}

static void on_confirmed(void *arg, int64_t now)
{
    rdl_client_t *client = arg;

    for (unsigned i = 0; shard_at(client, i) != NULL; i++) {
        rdl__subscriber_retry(shard_at(client, i)->sub);
        rdl__shard_used(shard_at(client, i), rdl__cluster_plays(client->cluster, i), now);
    }
}

static struct rdl__shard *shard_of_slot(rdl_client_t *client, unsigned slot)
{
    return shard_at(client, rdl__map_shard(client->map, slot));
}

static struct rdl__renewer *renewer_of_slot(void *arg, unsigned slot)
{
    return shard_of_slot(arg, slot)->renewer;
}

static struct rdl__subscriber *subscriber_of(void *arg, const char *channel, size_t len)
{
    return shard_of_slot(arg, rdl__slot(channel, len))->sub;
}

enum rdl__detour rdl__client_detour(rdl_client_t *client, const struct rdl__reply *error, struct rdl__shard **ret_ask)
{
    unsigned number = 0;
    enum rdl__detour what = rdl__cluster_detour(client->cluster, error, &number);

    if (what == RDL__DETOUR_ASK)
        *ret_ask = shard_at(client, number);
    return what;
}

static bool renewal_detoured(void *arg, const struct rdl__reply *error, bool acked, struct rdl__lane **ret_ask)
{
    struct rdl__shard *ask = NULL;
    enum rdl__detour what = rdl__client_detour(arg, error, &ask);

    *ret_ask = ask == NULL ? NULL : acked ? rdl__shard_acked_lane(ask) : ask->loop_lane;
    return what != RDL__DETOUR_NONE;
}

static const struct rdl__cluster_ops cluster_ops = {
    .decided = on_decided, .make_shard = on_shard, .changed = on_remapped, .confirmed = on_confirmed};

static bool make_cluster(rdl_client_t *client, const struct rdl__node_config *config)
{
    client->shard_config = *config;
    client->routes = (struct rdl__routes){.arg = client, .renewer = renewer_of_slot, .detoured = renewal_detoured};
    client->home.replay = rdl__replay_new(&client->mem, client->home.loop_lane);
    client->cluster = rdl__cluster_new(&client->home.node, &cluster_ops, client);
    client->shards = rdl__zalloc(&client->mem, RDL__SHARDS_MAX * sizeof *client->shards);
    if (client->home.replay == NULL || client->cluster == NULL || client->shards == NULL)
        return false;
    client->map = rdl__cluster_map(client->cluster);
    atomic_init(&client->shards[0], &client->home);
    return true;
}

static void free_cluster(rdl_client_t *client)
{
    client->cluster = rdl__cluster_free(client->cluster);
    client->map = NULL;
    for (unsigned i = 1; shard_at(client, i) != NULL; i++) {
        rdl__shard_done(client->shards[i]);
        rdl__free(&client->mem, client->shards[i], sizeof(struct rdl__shard));
    }
    if (client->shards != NULL)
        rdl__free(&client->mem, (void *)client->shards, RDL__SHARDS_MAX * sizeof *client->shards);
    client->shards = NULL;
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

/* The next connection may be to a server that is more willing, or as a user who may. */
static void on_acked_news(void *arg, enum rdl__lane_news news, int64_t now)
{
    (void)news;
    (void)now;
    atomic_store(&((struct rdl__shard *)arg)->wait_refused_until, 0);
}

int rdl__client_wants_acks(rdl_client_t *client, rdl_err_t *err)
{
    struct rdl__lane *lane;
    int rc = RDL_OK;

    rdl__mutex_lock(&client->names_mu);
    if (client->acks_closed) {
        rc = RDL_ECLOSED;
    } else if (rdl__shard_acked_lane(&client->home) == NULL) {
        if ((lane = rdl__lane_new(&client->home.node, false)) == NULL) {
            rc = RDL_ENOMEM;
        } else {
            rdl__lane_on_news(lane, on_acked_news, &client->home);
            atomic_store_explicit(&client->home.acked_lane, lane, memory_order_release);
        }
    }
    rdl__mutex_unlock(&client->names_mu);
    return rc < 0 ? rdl__err_set(err, rc, NULL) : RDL_OK;
}

/* Everything with threads and connections, in the order in which it is needed. The loop runs from the start, but
 * nothing is posted to it before all is there. */
static int make_parts(rdl_client_t *client, const rdl_client_options_t *o, struct rdl__uri *uri, rdl_err_t *err)
{
    struct rdl__watchdog_config watchdog = {
        .drift_ppm = o->drift_ppm, .drift_ms = o->drift_ms, .lease_ms = o->watchdog_lease_ms};
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

    client->client_name_size = strlen(o->client_name) + 1;
    if ((client->client_name = rdl__memdup(&client->mem, o->client_name, client->client_name_size - 1)) == NULL)
        return RDL_ENOMEM;
    node.client_name = client->client_name;
    node.kind = uri->scheme == RDL__SCHEME_CLUSTER ? RDL__KIND_CLUSTER : RDL__KIND_SERVER;
    if ((rc = check_login(o, uri, err)) < 0 || (rc = make_tls(client, o, uri, err)) < 0)
        return rc;
    node.tls = client->tls;
    if ((rc = make_identity(client)) < 0 || (rc = rdl__loop_start(&client->mem, &client->loop, err)) < 0)
        return rc;
    if ((node.resolver = client->resolver = rdl__resolver_new(client->loop)) == NULL)
        return RDL_ENOMEM;
    if ((rc = make_shard(client, &client->home, &node, (unsigned)o->connections, uri)) < 0)
        return rc;
    if (client->home.node.uri.scheme == RDL__SCHEME_SENTINEL && !make_sentinels(client, o))
        return RDL_ENOMEM;
    if (client->home.node.uri.scheme == RDL__SCHEME_CLUSTER) {
        if (!make_cluster(client, &node))
            return RDL_ENOMEM;
        watchdog.routes = &client->routes;
    }
    client->watchdog = rdl__watchdog_new(&client->mem, &client->sinks, client->loop, client->home.loop_lane, &watchdog);
    if (client->watchdog == NULL)
        return RDL_ENOMEM;
    client->home.renewer = rdl__watchdog_home(client->watchdog);
    if ((rc = rdl__waiters_init(&client->waiters, &client->mem, client->loop, client->home.sub)) < 0)
        return rc;
    if (client->cluster != NULL)
        rdl__waiters_spread(&client->waiters, subscriber_of, client);
    return rdl__dispatch_init(&client->dispatch, client->loop, o->dispatch == RDL_DISPATCH_FD, err);
}

/* The parts, the loop having stopped; half of them may be missing. */
static void free_parts(rdl_client_t *client)
{
    if (client->dispatch.loop != NULL)
        rdl__dispatch_done(&client->dispatch);
    rdl__waiters_done(&client->waiters);
    client->watchdog = rdl__watchdog_free(client->watchdog);
    client->sentinels = rdl__sentinels_free(client->sentinels);
    free_cluster(client);
    rdl__shard_done(&client->home);
    client->tls = rdl__tls_free(client->tls);
    client->sentinel_tls = rdl__tls_free(client->sentinel_tls);
    client->resolver = rdl__resolver_free(client->resolver);
    rdl__free(&client->mem, client->client_name, client->client_name_size);
}

/* Wait for the first connection. A refusal is final here: a daemon that would rather wait tries again. */
static int await_connection(rdl_client_t *client, rdl_err_t *err)
{
    int64_t deadline = rdl__after_ms(rdl__now(), client->connect_timeout_ms + VERDICT_MS);
    uint32_t posted = rdl__park(&client->parker, deadline);
    rdl_err_t why;

    if (posted & POST_CONNECTED)
        return RDL_OK;
    if (posted != 0)
        return rdl__node_error(&client->home.node, RDL_ECONN, err);
    (void)rdl__node_error(&client->home.node, RDL_ECONN, &why);
    return rdl__err_set(err, RDL_ECONN, "%s: no connection within %lld ms (%s)", client->home.node.label,
                        (long long)client->connect_timeout_ms, why.message);
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
    rc = rdl__uri_credentials(&parsed, o.username, o.password) ? make_parts(client, &o, &parsed, &why) : RDL_ENOMEM;
    if (rc < 0) {
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

/* ---- closing ---------------------------------------------------------------------------------------------------- */

static bool shards_quiet(rdl_client_t *client)
{
    for (unsigned i = 0; shard_at(client, i) != NULL; i++)
        if (!rdl__shard_quiet(shard_at(client, i)))
            return false;
    return true;
}

/* No debt is taken on any more: now, or, unless `late`, if none is left, or may come. False: some are. What is owing
 * begins during a call, so calls are looked at first.  @thread loop */
static bool shut(rdl_client_t *client, bool late)
{
    bool shuts;

    rdl__assert_on_loop(client->loop);
    rdl__mutex_lock(&client->close_mu);
    shuts = late || (atomic_load(&client->calls) == 0 && atomic_load(&client->owing) == 0);
    client->lanes_closed = shuts;
    rdl__mutex_unlock(&client->close_mu);
    return shuts;
}

static void close_lanes(rdl_client_t *client, int64_t now)
{
    rdl__watchdog_close(client->watchdog);
    rdl__mutex_lock(&client->names_mu);
    client->acks_closed = true;
    rdl__mutex_unlock(&client->names_mu);
    rdl__waiters_close(&client->waiters);
    for (unsigned i = 0; shard_at(client, i) != NULL; i++)
        rdl__shard_close(shard_at(client, i), now);
    rdl__sentinels_close(client->sentinels);
    rdl__cluster_close(client->cluster);
}

/* What is remembered keeps names, and these keep guards at a server: they go while it is connected, and are calls until
 * then.
 * @thread loop */
static void forget_replay(rdl_client_t *client)
{
    for (unsigned i = 0; shard_at(client, i) != NULL; i++)
        if (shard_at(client, i)->replay != NULL && rdl__lane_up(shard_at(client, i)->loop_lane))
            rdl__replay_forget(shard_at(client, i)->replay);
}

/* A step further, if it is time. Calls that are refused count for a moment: once it has been told, they keep nobody.
 * @thread loop */
static void close_further(rdl_client_t *client, int64_t now)
{
    if (client->close_told)
        return;
    rdl__assert_on_loop(client->loop);
    if (!client->lanes_closed && atomic_load(&client->calls) == 0)
        forget_replay(client);
    if (!client->lanes_closed && shut(client, false))
        close_lanes(client, now);
    if (client->lanes_closed && atomic_load(&client->calls) == 0 && shards_quiet(client)) {
        rdl__loop_timer_off(rdl__client_loop(client), &client->close_timer);
        client->close_told = true;
        rdl__parker_post(&client->parker, POST_CLOSED);
    } else if (client->lanes_closed) { /* a caller is on its way out */
        rdl__loop_timer(rdl__client_loop(client), &client->close_timer, now + RDL__MS);
    }
}

/* None is put off any more: it is `closing`.  @thread loop */
static void pay_debts(rdl_client_t *client)
{
    struct rdl__link *l;

    rdl__assert_on_loop(client->loop);
    while ((l = rdl__list_pop(&client->debts)) != NULL) {
        struct rdl__debt *debt = rdl__container(l, struct rdl__debt, link);

        debt->pay(debt);
    }
}

static void on_close(struct rdl__task *task, int64_t now)
{
    rdl_client_t *client = rdl__container(task, rdl_client_t, close_task);

    if (!client->close_told) { /* a call that ended may have brought it here before */
        rdl__loop_timer(rdl__client_loop(client), &client->close_timer, rdl__after_ms(now, client->close_timeout_ms));
        pay_debts(client);
    }
    close_further(client, now);
}

static void on_idle(struct rdl__task *task, int64_t now)
{
    close_further(rdl__container(task, rdl_client_t, idle_task), now);
}

static void on_close_timer(struct rdl__timer *timer, int64_t now)
{
    rdl_client_t *client = rdl__container(timer, rdl_client_t, close_timer);

    if (!client->lanes_closed && shut(client, true))
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
    if (atomic_load(&client->closing)) /* from a callback, it may be; there is no loop to ask any more */
        return client;
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
    if ((rc = rdl__client_check(client, NULL)) < 0)
        return rc;
    return client->dispatch.fd >= 0 ? rdl__dispatch_run(&client->dispatch) : RDL_EINVAL;
}

const char *rdl_client_id(const rdl_client_t *client)
{
    return client == NULL ? NULL : client->uuid.text;
}
