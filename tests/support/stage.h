/* stage.h - what a live test stands on: a server, a probe, and a client of the library, straight or through the proxy.
 *
 * Nothing here needs Criterion, so the race programs use it too: what cannot be had aborts the test with the reason.
 */
#ifndef TESTS_SUPPORT_STAGE_H
#define TESTS_SUPPORT_STAGE_H

#include "tests/support/probe.h"
#include "tests/support/proxy.h"
#include "tests/support/server.h"
#include "tests/support/wait.h"

#include <redlatch/redlatch.h>

#define SOON_MS 5000 /* bound on what happens at once, on a machine that is busy */

struct stage {
    struct server *server;
    struct proxy *proxy; /* NULL when the client is connected straight */
    struct probe *probe; /* always straight */
    rdl_client_t *client;
};

struct stage_options {
    struct server_options server;
    bool proxied;
    const rdl_client_options_t *client;
};

/* stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = 300)) */
#define stage_open(stage, ...) stage_open_with((stage), &(struct stage_options){__VA_ARGS__})
#define OPTIONS(...) (&(rdl_client_options_t){.version = RDL_CLIENT_OPTIONS_VERSION, __VA_ARGS__})
#define LOCK_OPTIONS(...) (&(rdl_lock_options_t){.version = RDL_LOCK_OPTIONS_VERSION, __VA_ARGS__})

void stage_open_with(struct stage *stage, const struct stage_options *options);
void stage_close(struct stage *stage);

/* The URI by which the stage's client reaches its server. */
const char *stage_uri(const struct stage *stage);

/* Has the server no key and no subscription, or none soon? The key of a compensating release may take a moment. */
bool stage_is_clean(struct stage *stage, int64_t bound_ms);

/* A client, or death with its error. */
rdl_client_t *client_open(const char *uri, const rdl_client_options_t *options);

/* Handles, or death. options may be NULL. */
rdl_lock_t *reentrant(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *nonreentrant(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *read_end(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *write_end(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *simple(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *spin(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *fenced(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);
rdl_lock_t *fair(rdl_client_t *client, const char *name, const rdl_lock_options_t *options);

/* ---- a foreign client: what a Redisson process does with a reentrant lock (WIRE.md) ------------------------------------ */

void foreign_take(struct probe *p, const char *name, int64_t lease_ms); /* 0: without a time to live */
int64_t foreign_release(struct probe *p, const char *name);             /* how many subscribers were told */
char *channel_of(const char *name);                                     /* of a reentrant lock; to be freed */

#endif
