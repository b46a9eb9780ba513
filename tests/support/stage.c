#include "tests/support/stage.h"

#include <stdlib.h>
#include <string.h>

rdl_client_t *client_open(const char *uri, const rdl_client_options_t *options)
{
    rdl_client_t *client = NULL;
    rdl_err_t err;

    if (rdl_client_open(uri, options, &client, &err) < 0)
        die("rdl_client_open: %s", err.message);
    return client;
}

const char *stage_uri(const struct stage *stage)
{
    return stage->proxy != NULL ? proxy_uri(stage->proxy) : server_uri(stage->server);
}

void stage_open_with(struct stage *stage, const struct stage_options *options)
{
    stage->server = server_start(&options->server);
    stage->proxy = options->proxied ? proxy_start(stage->server) : NULL;
    stage->probe = probe_open(stage->server);
    stage->client = client_open(stage_uri(stage), options->client);
}

void stage_close(struct stage *stage)
{
    stage->client = rdl_client_close(stage->client);
    probe_close(stage->probe);
    proxy_stop(stage->proxy);
    server_stop(stage->server);
}

bool stage_is_clean(struct stage *stage, int64_t bound_ms)
{
    return WAIT_UNTIL(probe_keys(stage->probe) == 0 && probe_channels(stage->probe) == 0, bound_ms);
}

#define HANDLE(type, make)                                                                                                  \
    rdl_lock_t *type(rdl_client_t *client, const char *name, const rdl_lock_options_t *options)                             \
    {                                                                                                                       \
        rdl_lock_t *lock = NULL;                                                                                            \
        rdl_err_t err;                                                                                                      \
                                                                                                                            \
        if (make(client, name, options, &lock, &err) < 0)                                                                   \
            die(#make ": %s", err.message);                                                                                 \
        return lock;                                                                                                        \
    }

HANDLE(reentrant, rdl_reentrant_lock)
HANDLE(nonreentrant, rdl_nonreentrant_lock)
HANDLE(simple, rdl_simple_lock)
HANDLE(spin, rdl_spin_lock)
HANDLE(fenced, rdl_fenced_lock)
HANDLE(fair, rdl_fair_lock)
HANDLE(read_end, rdl_read_lock)
HANDLE(write_end, rdl_write_lock)

/* ---- foreign client ------------------------------------------------------------------------------------------------------ */

#define FOREIGN_FIELD "f7a1e6b0-0000-4000-8000-000000000000:1"

char *channel_of(const char *name)
{
    return must_format(strchr(name, '{') != NULL ? "redisson_lock__channel:%s" : "redisson_lock__channel:{%s}", name);
}

void foreign_take(struct probe *p, const char *name, int64_t lease_ms)
{
    if (probe_int(p, "HSETNX %s %s 1", name, FOREIGN_FIELD) != 1)
        die("%s is taken", name);
    if (lease_ms > 0)
        (void)probe_int(p, "PEXPIRE %s %lld", name, (long long)lease_ms);
}

int64_t foreign_release(struct probe *p, const char *name)
{
    static const char script[] = "if redis.call(\"del\", KEYS[1]) == 0 then return -1 end "
                                 "return redis.call(\"publish\", KEYS[2], \"0\")";
    char *channel = channel_of(name);
    int64_t told = probe_int(p, "EVAL '%s' 2 %s %s", script, name, channel);

    free(channel);
    return told;
}
