/* SPDX-License-Identifier: MIT */
/* client.h - a client from inside: its parts.
 *
 * The parts stop when the client is closed; the struct itself stays until the last handle, owner and call is freed
 * (life.c).
 */
#ifndef REDLATCH_SERVICE_CLIENT_H
#define REDLATCH_SERVICE_CLIENT_H

#include "core/base/forkmark.h"
#include "core/base/hostlock.h"
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
#include "core/wire/buf.h"
#include "core/wire/ident.h"

#include <redlatch/client.h>
#include <redlatch/error.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Something that an ended call will do later, as the next repeat of an undo: done at once when the client closes.
 * @thread loop */
struct rdl__debt {
    struct rdl__link link;
    void (*pay)(struct rdl__debt *debt); /* do it; it was taken off the list */
};

/* The loop posts these to a thread that opens or closes, on `parker`. */
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
    char lease_arg[RDL__INT_ARG_MAX]; /* it as rdl__cmd_int writes it: nearly every take has it */
    unsigned char lease_arg_len;
    int64_t close_timeout_ms;
    rdl_outage_t on_outage; /* the default for locks; never RDL_OUTAGE_DEFAULT */
    int64_t local_after_ms;
    int local_dir;                 /* hostlock.h; RDL__HOSTLOCK_NONE: it has none */
    struct rdl__acks acks;         /* the default for locks */
    struct rdl__loop *loop;        /* NULL once closed; other threads than the loop read it under close_mu */
    struct rdl__tls *tls;          /* NULL: plain connections */
    struct rdl__shard home;        /* the first; the only one, unless there are several masters */
    struct rdl__tls *sentinel_tls; /* NULL: they speak plainly */
    struct rdl__resolver *resolver;
    struct rdl__sentinels *sentinels; /* the finder of home's node; NULL: no Sentinel */
    struct rdl__cluster *cluster;     /* the finder of all shards' nodes; NULL, like the next two: no cluster */
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
    struct rdl__task retry_task;
    struct rdl__timer close_timer;
    struct rdl__link debts;  /* struct rdl__debt */
    struct rdl__link cached; /* names whose recalls are listened for (core/call/recall.c) */
    bool close_told;         /* the closing thread was told that it may stop the loop */

    /* any thread */
    _Atomic unsigned refs;
    _Atomic bool closing;
    _Atomic unsigned calls; /* under way, undos included */
    _Atomic int undos;      /* unanswered; below 0 while one is answered before it is counted */
    _Atomic unsigned owing; /* composites' takes that may have to release a member here (rdl__client_owing_begins) */
    unsigned cache_names;   /* the option; immutable */
    _Atomic unsigned cached_names; /* whose recalls are listened for (core/call/cache.h) */
    _Atomic int64_t next_n;        /* the n of the next U:n */
    struct rdl__parker parker;     /* RDL__POST_...: the thread that opens or closes */

    struct rdl__mutex close_mu;
    bool lanes_closed; /* by the loop; other threads read it under close_mu */
    bool acks_closed;  /* under names_mu: no lane for replicas' confirmation is opened any more */

    struct rdl__mutex names_mu;
    struct rdl__table names; /* struct rdl__name; under names_mu */

    struct rdl__mutex owners_mu;
    struct rdl__link owners; /* under owners_mu, like the next */
    unsigned owner_count;
};

static inline bool rdl__client_forked(const rdl_client_t *client)
{
    return rdl__forked(&client->forkmark);
}

/* The first number. All have 16 digits, by which scripts know that the hold's release reads the line beside the lock
 * (scripts/line.inc). */
#define RDL__NUMBERS_FROM INT64_C(1000000000000001)

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

/* How long what is renewed lasts; before any call. */
static inline void rdl__client_renews_for(rdl_client_t *client, int64_t lease_ms)
{
    client->watchdog_lease_ms = lease_ms;
    client->lease_arg_len = (unsigned char)rdl__int_arg(client->lease_arg, lease_ms);
}

/* The server or servers, for messages. */
static inline const char *rdl__client_label(const rdl_client_t *client)
{
    return client->home.node.label;
}

#endif
