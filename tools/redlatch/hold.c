/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/hold.h"

#include "tools/redlatch/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_MS 10000       /* reaching the server; -w lowers it, ... */
#define CONNECT_LEAST_MS 1000  /* ... but not below this: a short wait is about other holders, not about the network */
#define LEASE_DEFAULT_MS 30000 /* the library's own */
#define CLOSE_MS 200 /* of a red lock's servers, some of which may be dead: what they are owed ends with its lease */

int64_t hold_connect_ms(int64_t wait_ms)
{
    if (wait_ms < CONNECT_LEAST_MS)
        return CONNECT_LEAST_MS;
    return wait_ms < CONNECT_MS ? wait_ms : CONNECT_MS;
}

int64_t hold_lease_ms(const struct run_options *options)
{
    return options->lease_ms > 0 ? options->lease_ms : LEASE_DEFAULT_MS;
}

/* Called by the library on any thread: connections that were lost, renewals that are overdue. That the hold is lost,
 * its only error, is said by the session, verbose or not. */
static void on_log(rdl_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level < RDL_LOG_ERROR)
        text_say("%s", line);
}

/* Who asks wants to hear of the command: that it runs under this one they know. Of its file the end counts. */
static const char *label_of(const struct run_options *o, char to[RDL_LABEL_MAX + 1])
{
    const char *file = o->command != NULL ? o->command[0] : "";
    const char *name = strrchr(file, '/');

    if (o->label != NULL)
        return o->label;
    (void)snprintf(to, RDL_LABEL_MAX + 1, "%s", name != NULL ? name + 1 : file);
    return to;
}

void hold_access(const struct run_options *o, rdl_client_options_t *options, rdl_tls_options_t *tls)
{
    tls->ca_file = o->ca_file;
    tls->cert_file = o->cert_file;
    tls->key_file = o->key_file;
    tls->insecure = o->insecure;
    options->tls = (o->given & GIVEN_TLS) != 0 ? tls : NULL;
    options->sentinel_username = o->sentinel_username;
    options->sentinel_password = o->sentinel_password;
    options->connections = 1;
}

#define LOCAL_DIR_CAP 64

/* The same for whatever a user starts, however it is started: what the environment says differs between a terminal and
 * cron. */
static const char *local_dir(const struct run_options *o, char to[LOCAL_DIR_CAP])
{
    if (o->on_outage != RDL_OUTAGE_LOCAL || o->local_dir != NULL)
        return o->local_dir;
    if (geteuid() == 0)
        return "/run/redlatch";
    (void)snprintf(to, LOCAL_DIR_CAP, "/tmp/redlatch-%ld", (long)geteuid());
    return to;
}

static int open_client(struct hold *h, const char *uri, rdl_err_t *err)
{
    const struct run_options *o = h->options;
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_tls_options_t tls = RDL_TLS_OPTIONS_INIT;
    char label[RDL_LABEL_MAX + 1], dir[LOCAL_DIR_CAP];

    hold_access(o, &options, &tls);
    options.dispatch = RDL_DISPATCH_FD;
    options.connect_timeout_ms = hold_connect_ms(o->wait_ms);
    options.outage_timeout_ms = HOLD_OUTAGE_MS;
    options.on_outage = o->on_outage;
    options.local_dir = local_dir(o, dir);
    options.local_after_ms = o->local_after_ms;
    if (o->on_outage == RDL_OUTAGE_LOCAL && options.connect_timeout_ms > o->local_after_ms)
        options.connect_timeout_ms = o->local_after_ms;
    options.watchdog_lease_ms = hold_lease_ms(o);
    options.label = label_of(o, label);
    options.info = o->info;
    options.anonymous = o->anonymous;
    options.log = o->verbose ? on_log : NULL;
    options.log_level = RDL_LOG_WARN;
    if (o->redlock != NULL) {
        options.lazy = true; /* a minority may be down */
        options.close_timeout_ms = CLOSE_MS;
    }
    return rdl_client_open(uri, &options, &h->clients[h->client_count], err);
}

int hold_open(struct hold *h, const struct run_options *options, const char *const *uris, size_t count, rdl_err_t *err)
{
    int rc;

    h->options = options;
    h->ops = options->permits > 0 ? &hold_permit_ops : &hold_lock_ops;
    h->permit.timer_fd = -1;
    for (; h->client_count < count; h->client_count++)
        if ((rc = open_client(h, uris[h->client_count], err)) < 0)
            return rc;
    return RDL_OK;
}

int hold_begin(struct hold *h, const struct hold_events *events, void *arg, rdl_err_t *err)
{
    h->events = events;
    h->arg = arg;
    return h->ops->make(h, err);
}

void hold_close(struct hold *h)
{
    h->taking = rdl_op_free(h->taking);
    for (size_t i = 0; i < h->client_count; i++)
        h->clients[i] = rdl_client_close(h->clients[i]);
    h->ops->free(h); /* only now is no call under way */
}

int hold_take(struct hold *h, int64_t wait_ms, rdl_err_t *err)
{
    h->taking = rdl_op_free(h->taking);
    return h->ops->take(h, wait_ms, err);
}

void hold_cancel(struct hold *h)
{
    h->permit.canceled = true;
    if (h->taking != NULL)
        rdl_op_cancel(h->taking);
}

int hold_ask(struct hold *h, rdl_err_t *err)
{
    return h->ops->ask(h, err);
}

int hold_release(struct hold *h, rdl_err_t *err)
{
    return h->ops->release(h, err);
}

int hold_token(struct hold *h, int64_t *ret_token, rdl_err_t *err)
{
    *ret_token = 0;
    return h->ops->token != NULL ? h->ops->token(h, ret_token, err) : RDL_OK;
}

size_t hold_poll(const struct hold *h, struct pollfd fds[HOLD_FDS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < h->client_count; i++)
        fds[n++] = (struct pollfd){.fd = rdl_client_fd(h->clients[i]), .events = POLLIN};
    if (h->permit.timer_fd >= 0)
        fds[n++] = (struct pollfd){.fd = h->permit.timer_fd, .events = POLLIN};
    return n;
}

void hold_dispatch(struct hold *h)
{
    for (size_t i = 0; i < h->client_count; i++)
        rdl_client_dispatch(h->clients[i]);
    if (h->ops->tick != NULL)
        h->ops->tick(h);
}
