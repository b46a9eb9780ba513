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
#include "core/io/cluster.h"
#include "core/io/loop.h"
#include "core/io/sentinel.h"
#include "core/service/describer.h"
#include "core/service/dispatch.h"
#include "core/service/evictions.h"
#include "core/service/shard.h"
#include "core/service/waiters.h"
#include "core/service/watchdog.h"
#include "core/wire/ident.h"

#include <redlatch/client.h>
#include <redlatch/error.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What an ended call owes and has put off: paid at once when the client closes, which would wait for it.  @thread loop
 */
struct rdl__debt {
    struct rdl__link link;
    void (*pay)(struct rdl__debt *debt); /* it is on no list any more */
};

/* What who opens or closes is told by the loop, on `parker`. */
#define RDL__POST_CONNECTED 1u
#define RDL__POST_FAILED 2u
#define RDL__POST_CLOSED 4u

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
    struct rdl__acks acks;         /* of locks that say nothing of their own */
    struct rdl__loop *loop;        /* NULL once closed, under close_mu for those who are not its thread */
    struct rdl__tls *tls;          /* NULL: plain connections */
    struct rdl__shard home;        /* the first; the only one, unless there are several masters */
    struct rdl__tls *sentinel_tls; /* NULL: they speak plainly */
    struct rdl__resolver *resolver;
    struct rdl__sentinels *sentinels; /* who find its node; NULL: it is where its URI says, or there is a cluster */
    struct rdl__cluster *cluster; /* who finds the nodes of all shards; NULL: there are no others, nor the next two */
    const struct rdl__slot_map *map;
    struct rdl__shard *_Atomic *shards; /* RDL__SHARDS_MAX of them; made by the loop, the first is `home` */
    struct rdl__node_config shard_config;
    struct rdl__routes routes;
    struct rdl__watchdog *watchdog;
    struct rdl__dispatch dispatch;
    struct rdl__describer describer;

    /* loop thread only */
    struct rdl__waiters waiters;
    struct rdl__evictions evictions;
    struct rdl__task open_task;
    struct rdl__task close_task;
    struct rdl__task idle_task;
    struct rdl__task sweep_task;
    struct rdl__timer close_timer;
    struct rdl__link debts; /* that are put off */
    bool close_told;        /* who closes may stop the loop */

    /* any thread */
    _Atomic unsigned refs;
    _Atomic bool closing;
    _Atomic unsigned calls;    /* under way, undo commands among them */
    _Atomic unsigned owing;    /* what may yet have to be given back, by calls that are none of its own */
    _Atomic int64_t next_n;    /* the n of the next U:n */
    struct rdl__parker parker; /* RDL__POST_...: whoever opens or closes */

    struct rdl__mutex close_mu;
    bool lanes_closed; /* by the loop; others look under close_mu */
    bool acks_closed;  /* under names_mu: no lane for replicas' confirmation is opened any more */

    struct rdl__mutex names_mu;
    struct rdl__table names; /* of locks, by whoever makes them; under names_mu */

    struct rdl__mutex owners_mu;
    struct rdl__link owners; /* under owners_mu, like the next */
    unsigned owner_count;
};

static inline bool rdl__client_forked(const rdl_client_t *client)
{
    return rdl__forked(&client->forkmark);
}

/* `count` numbers never used before in this client, from the one returned on (protocol.md, 1 and 2).  @thread any */
static inline int64_t rdl__client_numbers(rdl_client_t *client, int64_t count)
{
    return atomic_fetch_add_explicit(&client->next_n, count, memory_order_relaxed);
}

static inline int64_t rdl__client_number(rdl_client_t *client)
{
    return rdl__client_numbers(client, 1);
}

/* What stays the client's own after it was closed. */
static inline struct rdl__loop *rdl__client_loop(const rdl_client_t *client)
{
    return client->home.node.loop;
}

/* The server, or servers, for people. */
static inline const char *rdl__client_label(const rdl_client_t *client)
{
    return client->home.node.label;
}

#endif
