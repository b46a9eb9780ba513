/* client.h - a client inside: what it is made of, and how long that lives.
 *
 * The parts stop when the client is closed; the struct itself stays until the last handle, owner and call is gone.
 */
#ifndef REDLATCH_SERVICE_CLIENT_H
#define REDLATCH_SERVICE_CLIENT_H

#include "core/base/forkmark.h"
#include "core/base/mem.h"
#include "core/base/sink.h"
#include "core/base/sync.h"
#include "core/base/table.h"
#include "core/io/lane.h"
#include "core/io/loop.h"
#include "core/io/node.h"
#include "core/io/subscriber.h"
#include "core/service/dispatch.h"
#include "core/service/waiters.h"
#include "core/service/watchdog.h"
#include "core/wire/ident.h"

#include <redlatch/client.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RDL__LANES_MAX 64

struct rdl_client {
    /* immutable once open */
    struct rdl__mem mem;
    struct rdl__sinks sinks;
    struct rdl__forkmark forkmark;
    struct rdl__uuid uuid;
    uint64_t serial;
    char *client_name;
    size_t client_name_size;
    int64_t connect_timeout_ms;
    int64_t command_timeout_ms;
    int64_t outage_timeout_ms;
    int64_t watchdog_lease_ms;
    int64_t close_timeout_ms;
    struct rdl__loop *loop; /* NULL once closed, under close_mu for those who are not its thread */
    struct rdl__node node;
    struct rdl__lane *lanes[RDL__LANES_MAX]; /* for callers that block */
    unsigned lane_count;
    struct rdl__lane *loop_lane; /* for everything else */
    struct rdl__subscriber *sub;
    struct rdl__watchdog *watchdog;
    struct rdl__dispatch dispatch;

    /* loop thread only */
    struct rdl__waiters waiters;
    struct rdl__task open_task;
    struct rdl__task close_task;
    struct rdl__task idle_task;
    struct rdl__timer close_timer;
    bool lanes_closed;

    /* any thread */
    _Atomic unsigned refs;
    _Atomic bool closing;
    _Atomic unsigned calls;    /* under way, undo commands among them */
    _Atomic int64_t next_n;    /* the n of the next U:n */
    struct rdl__parker parker; /* whoever opens or closes */

    struct rdl__mutex close_mu;

    struct rdl__mutex names_mu;
    struct rdl__table names; /* of locks, by whoever makes them; under names_mu */

    struct rdl__mutex owners_mu;
    struct rdl__link owners; /* under owners_mu, like the next */
    unsigned owner_count;
};

rdl_client_t *rdl__client_ref(rdl_client_t *client);
void rdl__client_unref(rdl_client_t *client);

static inline bool rdl__client_forked(const rdl_client_t *client)
{
    return rdl__forked(&client->forkmark);
}

/* RDL_OK, RDL_EFORK or RDL_ECLOSED. */
int rdl__client_check(const rdl_client_t *client, rdl_err_t *err);

/* A call begins (RDL_OK, or RDL_ECLOSED and nothing done) and ends, its undo included. */
int rdl__client_call_begins(rdl_client_t *client);
void rdl__client_call_ends(rdl_client_t *client);

/* Take a hold out of the watchdog of a client that is closing, if that still runs. */
void rdl__client_forget_hold(rdl_client_t *client, struct rdl__hold *hold);

/* A number never used before in this client (PROTOCOL.md, 1). */
static inline int64_t rdl__client_number(rdl_client_t *client)
{
    return atomic_fetch_add_explicit(&client->next_n, 1, memory_order_relaxed);
}

static inline struct rdl__lane *rdl__client_lane(const rdl_client_t *client, unsigned index)
{
    return client->lanes[index % client->lane_count];
}

#endif
