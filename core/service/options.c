/* SPDX-License-Identifier: MIT */
/* options.c - a client's options: bounds, defaults, and what cannot be combined with the URI. */
#include "core/service/options.h"

#include "core/base/err.h"
#include "core/service/acks.h"
#include "core/service/shard.h"

#include <stddef.h>
#include <string.h>

/* One line an option: its bounds and its default. */
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
    {"describe_interval_ms", offsetof(rdl_client_options_t, describe_interval_ms), 10, 86400000, 30000},
    {"drift_ms", offsetof(rdl_client_options_t, drift_ms), 0, 3600000, 2},
    {"local_after_ms", offsetof(rdl_client_options_t, local_after_ms), 1, 86400000, 5000},
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

static int check_name(rdl_err_t *err, const char *name)
{
    if (name == NULL)
        return RDL_OK;
    for (const char *p = name; *p != '\0'; p++)
        if (*p < '!' || *p > '~')
            return rdl__err_set(err, RDL_EINVAL, "client option client_name holds a character outside ! to ~");
    return *name != '\0' ? RDL_OK : rdl__err_set(err, RDL_EINVAL, "client option client_name is empty");
}

static int check_text(rdl_err_t *err, const char *name, const char *text, size_t most)
{
    if (text == NULL || strlen(text) <= most)
        return RDL_OK;
    return rdl__err_set(err, RDL_EINVAL, "client option %s has %zu bytes: at most %zu", name, strlen(text), most);
}

int rdl__client_options_check(const rdl_client_options_t *given, rdl_client_options_t *o, rdl_err_t *err)
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
    if ((rc = check_int(err, "connections", &o->connections, 1, RDL__LANES_MAX, 2)) < 0 ||
        (rc = check_int(err, "cache_names", &o->cache_names, 1, 1000000, 10000)) < 0 ||
        (rc = check_int(err, "drift_ppm", &o->drift_ppm, 1, 500000, 10000)) < 0 ||
        (rc = check_name(err, o->client_name)) < 0 || (rc = check_text(err, "label", o->label, RDL_LABEL_MAX)) < 0 ||
        (rc = check_text(err, "info", o->info, RDL_INFO_MAX)) < 0 ||
        (rc = rdl__check_replicas("client", o->replicas, o->replicas_if_able, &o->replicas_timeout_ms, err)) < 0)
        return rc;
    if (o->dispatch != RDL_DISPATCH_LOOP && o->dispatch != RDL_DISPATCH_FD)
        return rdl__err_set(err, RDL_EINVAL, "client option dispatch is %d", (int)o->dispatch);
    if (o->on_outage == RDL_OUTAGE_DEFAULT)
        o->on_outage = RDL_OUTAGE_FAIL;
    if ((int)o->on_outage < RDL_OUTAGE_FAIL || o->on_outage > RDL_OUTAGE_LOCAL)
        return rdl__err_set(err, RDL_EINVAL, "client option on_outage is %d", (int)o->on_outage);
    if (o->on_outage == RDL_OUTAGE_LOCAL && o->local_dir == NULL)
        return rdl__err_set(err, RDL_EINVAL, "client option on_outage is RDL_OUTAGE_LOCAL, and there is no local_dir");
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

/* A user without a password is never sent, and `redis://secret@host` may be meant as a password. */
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

/* Options for TLS with a URI that is not for TLS are refused, so that a connection is not unencrypted by mistake. */
int rdl__client_options_fit(const rdl_client_options_t *o, const struct rdl__uri *uri, rdl_err_t *err)
{
    int rc = check_login(o, uri, err);

    if (rc < 0)
        return rc;
    if (o->tls != NULL && !uri->tls)
        return rdl__err_set(err, RDL_EINVAL, "client option tls is given, and the URI is not rediss://");
    if (o->sentinel_tls != NULL && !(uri->tls && uri->scheme == RDL__SCHEME_SENTINEL))
        return rdl__err_set(err, RDL_EINVAL, "client option sentinel_tls is given, and the URI is not sentinels://");
    return RDL_OK;
}
