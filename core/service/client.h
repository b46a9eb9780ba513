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
#include "core/service/dispatch.h"
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

    /* loop thread only */
    struct rdl__waiters waiters;
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
    struct rdl__parker parker; /* whoever opens or closes */

    struct rdl__mutex close_mu;
    bool lanes_closed; /* by the loop; others look under close_mu */
    bool acks_closed;  /* under names_mu: no acked_lane is made any more */

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
int rdl__client_refuses(const rdl_client_t *client, rdl_err_t *err);
static inline int rdl__client_check(const rdl_client_t *client, rdl_err_t *err)
{
    if (!rdl__client_forked(client) && !atomic_load_explicit(&client->closing, memory_order_acquire))
        return RDL_OK;
    return rdl__client_refuses(client, err);
}

void rdl__client_ended_closing(rdl_client_t *client); /* the rest of what follows, while it closes */

/* A call begins (RDL_OK, or RDL_ECLOSED and nothing done) and ends, its undo included. */
static inline void rdl__client_call_ends(rdl_client_t *client)
{
    atomic_fetch_sub(&client->calls, 1);
    if (atomic_load(&client->closing))
        rdl__client_ended_closing(client);
}

static inline int rdl__client_call_begins(rdl_client_t *client)
{
    atomic_fetch_add(&client->calls, 1);
    if (!atomic_load(&client->closing))
        return RDL_OK;
    rdl__client_call_ends(client);
    return RDL_ECLOSED;
}

/* The same for a call that pays what an earlier one owes: it may begin while the client closes, for as long as there
 * are connections. RDL_ECLOSED: there are none any more. It ends as any call.  @thread any  @locks takes close_mu */
int rdl__client_debt_begins(rdl_client_t *client);

/* Something was taken that may have to be given back: a client that closes keeps its connections for that, as long as
 * it may. It begins during a call of the client's, and ends behind the debt that comes of it, if one does. */
static inline void rdl__client_owing_begins(rdl_client_t *client)
{
    atomic_fetch_add(&client->owing, 1);
}

static inline void rdl__client_owing_ends(rdl_client_t *client)
{
    atomic_fetch_sub(&client->owing, 1);
    if (atomic_load(&client->closing))
        rdl__client_ended_closing(client);
}

/* Take a hold out of the watchdog of a client that is closing, if that still runs. */
void rdl__client_forget_hold(rdl_client_t *client, struct rdl__hold *hold);

/* No channel lingers any more (waiters.h): what they were kept for may be gone.  @thread any */
void rdl__client_sweep(rdl_client_t *client);

/* `count` numbers never used before in this client, from the one returned on (protocol.md, 1 and 2).  @thread any */
static inline int64_t rdl__client_numbers(rdl_client_t *client, int64_t count)
{
    return atomic_fetch_add_explicit(&client->next_n, count, memory_order_relaxed);
}

static inline int64_t rdl__client_number(rdl_client_t *client)
{
    return rdl__client_numbers(client, 1);
}

/* Options of `whose` ("lock", "client") that say how many replicas must confirm. A timeout of 0 gets its default.
 * RDL_OK or RDL_EINVAL. */
int rdl__check_replicas(const char *whose, int32_t replicas, bool if_able, int64_t *timeout_ms, rdl_err_t *err);

/* There will be locks that want the confirmation of replicas: see that there is a lane for them. RDL_OK, RDL_ENOMEM
 * or RDL_ECLOSED. */
int rdl__client_wants_acks(rdl_client_t *client, rdl_err_t *err);

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

/* Where the keys of a slot are: the shard may be another one the next time.  @thread any */
static inline struct rdl__shard *rdl__client_shard(rdl_client_t *client, unsigned hash_slot)
{
    return client->map == NULL
               ? &client->home
               : atomic_load_explicit(&client->shards[rdl__map_shard(client->map, hash_slot)], memory_order_acquire);
}

/* Do messages go by sharded channels? Known before any request is answered, and for good.  @thread any */
static inline bool rdl__client_sharded(const rdl_client_t *client)
{
    return client->map != NULL && rdl__cluster_sharded(client->cluster);
}

/* Does the server's error send a request elsewhere? RDL__DETOUR_MOVED: the map knows it by now. RDL__DETOUR_ASK: to
 * *ret_ask, this once.  @thread any  @locks any but the cluster's */
enum rdl__detour rdl__client_detour(rdl_client_t *client, const struct rdl__reply *error, struct rdl__shard **ret_ask);

#endif
