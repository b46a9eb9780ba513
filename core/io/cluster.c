/* SPDX-License-Identifier: MIT */
/* cluster.c - a deployment of several masters, each with a share of the slots.
 *
 * Finding the node for a name. Each master is a shard: a node (node.h), which a failover moves to another server. The
 * map has the shard of each slot, a 16-bit number that any thread reads without a lock. After a failover the shard's
 * node gets another place; the node and its lanes do the rest (node.h). When a slot moves, its entry in the map
 * changes; each sending of a request reads the map.
 *
 * Telling shards apart. A shard is identified by the ids of its servers (topology.c). Shards are never removed, so a
 * pointer to one stays valid. A shard whose master has no slots left, or is gone, has its connections closed. The
 * places of all servers are kept as well, because redirections name places.
 *
 * Polling. Pollers are up to POLLERS connections to servers of the cluster, masters or replicas, at first those of the
 * URI. A poller whose server fails connects to the next known one. Every POLL_MS one poller asks for the map, by turns;
 * all ask at once when a node could not be reached, or a server redirected a request, but not more often than every
 * ASK_MS. While a master cannot be reached the interval is a share of the outage so far, because no server announces
 * that a replica was promoted. Pollers do not use the connections of locks.
 *
 * Choosing an answer. Failovers and moved slots raise the cluster's epoch (CLUSTER INFO), so an answer with an older
 * epoch than the one that was applied last comes from a server that was cut off. It is not applied, unless a master
 * could not be reached and no poller has a newer one.
 *
 * MOVED changes the one slot at once, on the thread that read it, so that no request waits for the map. A demoted
 * master answers MOVED, too, with a server that is known as a replica of the same shard: that is ignored, as the next
 * poll tells the shard's master. ASK may name a server that has no slot yet and is in no map: that becomes a
 * provisional server, a shard without slots.
 *
 * Thread: the loop, but for rdl__cluster_detour and the map.
 */
#include "core/io/cluster.h"

#include "core/base/err.h"
#include "core/io/talk.h"

#include <stdio.h>
#include <string.h>

#define POLLERS 3
#define POLL_MS 1000
#define ASK_MS 100
#define OUTAGE_SHARE 200 /* the interval is outage / this: a failover that took 20 s is found 100 ms later */
#define PROVISIONAL_AT_A_TIME 8

/* A poller's commands, in this order. */
enum query { ASK_INFO, ASK_SHARDED, ASK_SLOTS, QUERIES };

struct poller {
    struct rdl__cluster *all;
    struct rdl__node node;
    struct rdl__talk talk;
    bool again;    /* ask again as soon as it has answered */
    int64_t epoch; /* of its last answer; -1: none */
    bool sharded;
};

struct rdl__cluster {
    struct rdl__slot_map map;
    struct rdl__finder finder;
    const struct rdl__mem *mem;
    struct rdl__loop *loop;
    const struct rdl__cluster_ops *ops;
    void *arg;

    /* loop thread only */
    struct rdl__shard_numbers shards;
    struct rdl__node **nodes; /* of shards; room for RDL__SHARDS_MAX */
    int64_t now;              /* for functions that make shards */
    struct rdl__task check;
    struct rdl__timer timer; /* asks one poller, or all if `urgent` */
    bool urgent;
    bool missed;  /* a master could not be reached since an answer was applied last */
    bool decided; /* it is known whether channels are sharded */
    bool found;
    bool closed;
    int64_t asked_at; /* when all were asked last */
    int64_t epoch;    /* of the answer that was applied last */
    rdl_err_t trouble;
    struct rdl__repeats told; /* pollers' errors */
    unsigned failures;        /* of pollers, in a row */
    unsigned cursor;          /* the next candidate() for a poller */
    unsigned turn;            /* the next poller to be asked */
    struct rdl__seed *seeds;
    unsigned seed_count;
    unsigned poller_count; /* started */
    struct poller pollers[POLLERS];

    /* any thread */
    struct rdl__task post; /* runs check_map */
    _Atomic bool sharded;
    _Atomic bool remapped; /* by MOVED, and ops->changed was not called yet */
    struct rdl__mutex mu;
    struct rdl__topology topology; /* under mu, like the next; only the loop changes it */
    struct rdl__place named[PROVISIONAL_AT_A_TIME];
    unsigned named_count;
};

/* ---- applying an answer ---------------------------------------------------------------------------------------- */

static bool more_shards(struct rdl__shard_numbers *shards)
{
    struct rdl__cluster *c = rdl__container(shards, struct rdl__cluster, shards);

    if ((c->nodes[shards->count] = c->ops->make_shard(c->arg, shards->count, c->now)) == NULL)
        return false;
    shards->count++;
    return true;
}

/* Takes over the contents of `fresh`. */
static void set_topology(struct rdl__cluster *c, struct rdl__topology *fresh)
{
    struct rdl__topology old;

    rdl__mutex_lock(&c->mu);
    old = c->topology;
    c->topology = *fresh;
    rdl__mutex_unlock(&c->mu);
    rdl__topology_init(fresh, c->mem);
    rdl__topology_done(&old);
}

/* True: some slot has changed its shard. */
static bool set_map(struct rdl__cluster *c, const struct rdl__reply *slots)
{
    bool changed = false;
    struct rdl__slot_range range;

    for (size_t i = 0; i < slots->len; i++) {
        const struct rdl__server *master;

        if (!rdl__slot_range_at(slots, i, &range) ||
            (master = rdl__topology_by_id(&c->topology, range.master.id)) == NULL)
            continue;
        for (unsigned slot = range.first; slot <= range.last; slot++)
            changed |= atomic_exchange_explicit(&c->map.shard[slot], (uint16_t)master->shard, memory_order_acq_rel) !=
                       master->shard;
    }
    return changed;
}

/* A server that does not tell its host has, in each poller's answer, the host of that poller. Keep the first one,
 * unless it cannot be reached there. */
static void keep_places(const struct rdl__cluster *c, struct rdl__topology *fresh)
{
    for (size_t i = 0; i < fresh->count; i++) {
        struct rdl__server *p = &fresh->servers[i];
        const struct rdl__server *was = p->unsaid ? rdl__topology_by_id(&c->topology, p->id) : NULL;

        if (was != NULL && was->at.port == p->at.port && (!was->master || rdl__node_reachable(c->nodes[was->shard])))
            memcpy(p->at.host, was->at.host, sizeof p->at.host);
    }
}

/* Set the nodes' places to their masters'. */
static void place_shards(struct rdl__cluster *c, int64_t now)
{
    for (size_t i = 0; i < c->topology.count; i++) {
        const struct rdl__server *p = &c->topology.servers[i];

        if (p->master && p->at.port != 0)
            (void)rdl__node_found(c->nodes[p->shard], p->at.host, p->at.port,
                                  now); /* no memory: the next answer will do */
    }
}

static void tell_changes(struct rdl__cluster *c, bool changed, int64_t now)
{
    if (atomic_exchange(&c->remapped, false) || changed)
        c->ops->changed(c->arg, now);
}

/* Is the poller's answer too old to be applied? */
static bool outdated(const struct rdl__cluster *c, const struct poller *s)
{
    if (s->epoch >= c->epoch)
        return false;
    for (unsigned i = 0; i < c->poller_count; i++)
        if (!c->missed || c->pollers[i].epoch > s->epoch)
            return true;
    return false;
}

static void start_pollers(struct rdl__cluster *c, unsigned wanted, int64_t now);

static void decide(struct rdl__cluster *c, bool sharded)
{
    if (c->decided)
        return;
    c->decided = true;
    atomic_store(&c->sharded, sharded);
    c->ops->decided(c->arg);
}

/* Apply an answer to CLUSTER SLOTS. False: it is no usable map. */
static bool follow(struct poller *s, const struct rdl__reply *slots, int64_t now)
{
    struct rdl__cluster *c = s->all;
    struct rdl__slot_range range;
    struct rdl__topology fresh;

    if (!rdl__slot_range_at(slots, 0, &range))
        return false;
    decide(c, s->sharded);
    c->now = now;
    rdl__topology_init(&fresh, c->mem);
    if (!rdl__topology_read(&fresh, &c->topology, slots, s->node.uri.host, &c->shards)) {
        rdl__topology_done(&fresh);
        return false;
    }
    keep_places(c, &fresh);
    set_topology(c, &fresh);
    place_shards(c, now);
    c->found = true;
    c->missed = false;
    c->epoch = s->epoch;
    tell_changes(c, set_map(c, slots), now);
    c->ops->confirmed(c->arg, now);
    start_pollers(c, POLLERS, now);
    return true;
}

/* ---- provisional servers ---------------------------------------------------------------------------------------- */

static void welcome(struct rdl__cluster *c, const struct rdl__place *at, int64_t now)
{
    const struct rdl__server *known = rdl__topology_at(&c->topology, at->host, at->port);
    struct rdl__topology fresh;
    unsigned shard;

    if (known != NULL)
        c->topology.servers[known - c->topology.servers].unnamed = 0;
    if (!c->found || known != NULL)
        return;
    c->now = now;
    rdl__topology_init(&fresh, c->mem);
    if (rdl__topology_invite(&fresh, &c->topology, at, &c->shards, &shard)) {
        set_topology(c, &fresh);
        (void)rdl__node_found(c->nodes[shard], at->host, at->port, now);
    }
    rdl__topology_done(&fresh);
}

static void welcome_all(struct rdl__cluster *c, int64_t now)
{
    struct rdl__place named[PROVISIONAL_AT_A_TIME];
    unsigned count;

    rdl__mutex_lock(&c->mu);
    count = c->named_count;
    memcpy(named, c->named, count * sizeof named[0]);
    c->named_count = 0;
    rdl__mutex_unlock(&c->mu);
    for (unsigned i = 0; i < count; i++)
        welcome(c, &named[i], now);
}

/* @locks mu */
static void name_provisional(struct rdl__cluster *c, const struct rdl__redirect *to)
{
    struct rdl__place *p;

    rdl__assert_locked(&c->mu);
    for (unsigned i = 0; i < c->named_count; i++)
        if (c->named[i].port == to->port && strcmp(c->named[i].host, to->host) == 0)
            return;
    if (c->named_count == PROVISIONAL_AT_A_TIME || to->host[0] == '\0')
        return;
    p = &c->named[c->named_count++];
    memcpy(p->host, to->host, strlen(to->host) + 1);
    p->port = to->port;
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static void ask(struct poller *s, int64_t now)
{
    if (!rdl__talk_up(&s->talk))
        return;
    s->again = s->talk.awaited > 0;
    if (s->again)
        return;
    rdl__talk_put(&s->talk, "CLUSTER", "INFO", NULL);
    rdl__talk_put(&s->talk, "PUBSUB", "SHARDNUMSUB", NULL);
    rdl__talk_put(&s->talk, "CLUSTER", "SLOTS", NULL);
    rdl__talk_ask(&s->talk, QUERIES, now);
}

static void ask_again_later(struct rdl__cluster *c, int64_t now)
{
    int64_t pause = POLL_MS * RDL__MS;

    for (unsigned i = 0; i < c->shards.count; i++) {
        int64_t since = rdl__node_missed_since(c->nodes[i], now);

        if (since != 0 && (now - since) / OUTAGE_SHARE < pause)
            pause = (now - since) / OUTAGE_SHARE;
    }
    rdl__loop_timer(c->loop, &c->timer, now + (pause > ASK_MS * RDL__MS ? pause : ASK_MS * RDL__MS));
}

static void ask_all(struct rdl__cluster *c, int64_t now)
{
    c->urgent = false;
    c->asked_at = now;
    ask_again_later(c, now);
    for (unsigned i = 0; i < c->poller_count; i++)
        ask(&c->pollers[i], now);
}

static void ask_next(struct rdl__cluster *c, int64_t now)
{
    ask_again_later(c, now);
    for (unsigned i = 0; i < c->poller_count; i++) {
        struct poller *s = &c->pollers[c->turn++ % c->poller_count];

        if (rdl__talk_up(&s->talk) && s->talk.awaited == 0) {
            ask(s, now);
            return;
        }
    }
}

static void on_poll(struct rdl__timer *timer, int64_t now)
{
    struct rdl__cluster *c = rdl__container(timer, struct rdl__cluster, timer);

    if (c->urgent)
        ask_all(c, now);
    else
        ask_next(c, now);
}

/* The map may be old: ask all pollers, or as soon as ASK_MS have passed. */
static void check_map(struct rdl__cluster *c, int64_t now)
{
    if (c->closed)
        return;
    welcome_all(c, now);
    tell_changes(c, false, now);
    c->urgent = true;
    if (now >= rdl__after_ms(c->asked_at, ASK_MS))
        ask_all(c, now);
    else
        rdl__loop_timer(c->loop, &c->timer, rdl__after_ms(c->asked_at, ASK_MS));
}

static void on_check(struct rdl__task *task, int64_t now)
{
    check_map(rdl__container(task, struct rdl__cluster, check), now);
}

static void on_post(struct rdl__task *task, int64_t now)
{
    check_map(rdl__container(task, struct rdl__cluster, post), now);
}

/* The map is checked after the caller, a node, has returned.  @thread loop */
static void missed(struct rdl__finder *finder)
{
    struct rdl__cluster *c = rdl__container(finder, struct rdl__cluster, finder);

    rdl__assert_on_loop(c->loop);
    c->missed = true;
    rdl__loop_later(c->loop, &c->check);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* Without an epoch an answer is the oldest. */
static void take_info(struct poller *s, const struct rdl__reply *reply)
{
    const char *value;
    long long epoch = 0;
    size_t len;

    if (rdl__reply_field(reply, "cluster_current_epoch", ':', &value, &len))
        (void)sscanf(value, "%lld", &epoch);
    s->epoch = epoch;
}

static void take_slots(struct poller *s, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__cluster *c = s->all;

    if (reply->type == RDL__REPLY_ERROR) {
        rdl__talk_lose(&s->talk, RDL_ESERVER,
                       rdl__reply_is_error(reply, "ERR This instance has cluster support disabled")
                           ? "it is no node of a cluster"
                           : reply->str,
                       now);
        return;
    }
    welcome_all(c, now);
    if (!outdated(c, s) && !follow(s, reply, now)) {
        rdl__talk_lose(&s->talk, RDL_ECONN, reply->len == 0 ? "it knows of no slots" : "it knows of no masters", now);
        return;
    }
    c->failures = 0;
    if (s->again)
        ask(s, now);
}

static void on_reply(struct rdl__talk *talk, const struct rdl__reply *reply, int64_t now)
{
    struct poller *s = rdl__container(talk, struct poller, talk);

    if (talk->awaited == 0 || reply->push)
        return;
    switch ((enum query)(QUERIES - talk->awaited--)) {
    case ASK_INFO:
        take_info(s, reply);
        break;
    case ASK_SHARDED:
        s->sharded = reply->type != RDL__REPLY_ERROR;
        break;
    default:
        take_slots(s, reply, now);
        break;
    }
}

/* ---- pollers ---------------------------------------------------------------------------------------------------- */

/* The i-th server for a poller: the known ones, then those of the URI. One whose host is unknown is replaced by one of
 * the URI. */
static struct rdl__seed candidate(const struct rdl__cluster *c, size_t i)
{
    i %= c->topology.count + c->seed_count;
    if (i < c->topology.count && c->topology.servers[i].at.port != 0)
        return (struct rdl__seed){c->topology.servers[i].at.host, c->topology.servers[i].at.port};
    return c->seeds[i < c->topology.count ? i % c->seed_count : i - c->topology.count];
}

static bool polled(const struct rdl__cluster *c, const struct rdl__seed *at)
{
    for (unsigned i = 0; i < c->poller_count; i++)
        if (c->pollers[i].node.uri.port == at->port && strcmp(c->pollers[i].node.uri.host, at->host) == 0)
            return true;
    return false;
}

/* Connect the poller to another server, if possible to one without a poller, when the next attempt is due. */
static void poll_another(struct poller *s, int64_t now)
{
    struct rdl__cluster *c = s->all;
    size_t tries = c->topology.count + c->seed_count;
    struct rdl__seed at = candidate(c, c->cursor++);

    while (--tries > 0 && polled(c, &at))
        at = candidate(c, c->cursor++);
    if (rdl__uri_place(&s->node.uri, at.host, at.port))
        rdl__uri_node(&s->node.uri, s->node.label, sizeof s->node.label);
    rdl__conn_start(&s->talk.conn, now);
}

static void report_not_found(struct rdl__cluster *c, int64_t now)
{
    struct rdl__node *first = c->nodes[0];
    rdl_err_t why;

    (void)rdl__err_set(&why, c->trouble.code, "%s: none of its servers tells its masters: %s", first->label,
                       c->trouble.message);
    rdl__err_where(&why, first->label, NULL, 0);
    rdl__node_not_found(first, &why, now);
}

static void on_lost(struct rdl__talk *talk, const rdl_err_t *why, bool was_up, int64_t now)
{
    struct poller *s = rdl__container(talk, struct poller, talk);
    struct rdl__cluster *c = s->all;

    if (was_up)
        rdl__node_failed(&s->node, why, now);
    c->trouble = *why;
    s->again = false;
    s->epoch = -1;
    rdl__log_again(s->node.sinks, RDL_LOG_WARN, &c->told, now, "%s", c->trouble.message);
    poll_another(s, now);
    if (++c->failures >= c->seed_count && !c->found)
        report_not_found(c, now);
}

static void on_up(struct rdl__talk *talk, int64_t now)
{
    ask(rdl__container(talk, struct poller, talk), now);
}

static const struct rdl__talk_ops talk_ops = {.up = on_up, .reply = on_reply, .lost = on_lost};

static void start_pollers(struct rdl__cluster *c, unsigned wanted, int64_t now)
{
    while (c->poller_count < wanted) {
        struct poller *s = &c->pollers[c->poller_count];

        poll_another(s, now); /* before it is counted, so that its own place does not count as polled */
        c->poller_count++;
    }
}

/* ---- cluster.h -------------------------------------------------------------------------------------------------- */

static bool poller_init(struct poller *s, struct rdl__cluster *c, const struct rdl__node *first)
{
    struct rdl__uri uri = {.mem = c->mem, .scheme = RDL__SCHEME_TCP};
    struct rdl__node_config config = first->config;
    int rc = RDL_ENOMEM;

    /* No long pauses: an attempt is usually at another server than the one before. */
    if (config.reconnect_min_ms > ASK_MS)
        config.reconnect_min_ms = ASK_MS;
    if (config.reconnect_max_ms > POLL_MS)
        config.reconnect_max_ms = POLL_MS;
    s->all = c;
    if (rdl__uri_place(&uri, c->seeds[0].host, c->seeds[0].port) &&
        rdl__uri_credentials(&uri, first->uri.username, first->uri.password))
        rc = rdl__node_init(&s->node, c->mem, first->sinks, first->loop, &config, &uri);
    rdl__uri_done(&uri);
    if (rc < 0)
        return false;
    rdl__talk_init(&s->talk, &s->node, &talk_ops);
    s->epoch = -1;
    return true;
}

struct rdl__cluster *rdl__cluster_new(struct rdl__node *first, const struct rdl__cluster_ops *ops, void *arg)
{
    struct rdl__cluster *c = rdl__zalloc(first->mem, sizeof *c);

    if (c == NULL)
        return NULL;
    if (rdl__mutex_init(&c->mu) < 0) {
        rdl__free(first->mem, c, sizeof *c);
        return NULL;
    }
    c->finder.missed = missed;
    c->mem = first->mem;
    c->loop = first->loop;
    c->ops = ops;
    c->arg = arg;
    c->seeds = first->uri.seeds;
    c->seed_count = first->uri.seed_count;
    c->trouble.code = RDL_ECONN;
    rdl__task_init(&c->check, on_check);
    rdl__task_init(&c->post, on_post);
    rdl__timer_init(&c->timer, on_poll);
    rdl__topology_init(&c->topology, c->mem);
    if ((c->nodes = rdl__zalloc(c->mem, RDL__SHARDS_MAX * sizeof *c->nodes)) == NULL)
        return rdl__cluster_free(c);
    c->shards = (struct rdl__shard_numbers){.count = 1, .more = more_shards};
    c->nodes[0] = first;
    for (unsigned i = 0; i < POLLERS; i++)
        if (!poller_init(&c->pollers[i], c, first))
            return rdl__cluster_free(c);
    first->finder = &c->finder;
    return c;
}

void rdl__cluster_open(struct rdl__cluster *c, int64_t now)
{
    rdl__assert_on_loop(c->loop);
    c->asked_at = now - ASK_MS * RDL__MS;
    start_pollers(c, c->seed_count < POLLERS ? c->seed_count : POLLERS, now);
    rdl__loop_timer(c->loop, &c->timer, rdl__after_ms(now, POLL_MS));
}

void rdl__cluster_close(struct rdl__cluster *c)
{
    if (c == NULL)
        return;
    rdl__assert_on_loop(c->loop);
    c->closed = true;
    rdl__loop_not_later(c->loop, &c->check);
    rdl__loop_timer_off(c->loop, &c->timer);
    for (unsigned i = 0; i < POLLERS; i++)
        rdl__talk_stop(&c->pollers[i].talk);
}

struct rdl__cluster *rdl__cluster_free(struct rdl__cluster *c)
{
    if (c == NULL)
        return NULL;
    for (unsigned i = 0; i < POLLERS && c->pollers[i].all != NULL; i++) {
        rdl__talk_done(&c->pollers[i].talk);
        rdl__node_done(&c->pollers[i].node);
    }
    if (c->nodes != NULL)
        rdl__free(c->mem, (void *)c->nodes, RDL__SHARDS_MAX * sizeof *c->nodes);
    rdl__topology_done(&c->topology);
    rdl__mutex_done(&c->mu);
    rdl__free(c->mem, c, sizeof *c);
    return NULL;
}

struct rdl__finder *rdl__cluster_finder(struct rdl__cluster *c)
{
    return &c->finder;
}

bool rdl__cluster_found(const struct rdl__cluster *c)
{
    rdl__assert_on_loop(c->loop);
    return c->found;
}

bool rdl__cluster_sharded(const struct rdl__cluster *c)
{
    return atomic_load_explicit(&c->sharded, memory_order_relaxed);
}

bool rdl__cluster_has_master(const struct rdl__cluster *c, unsigned shard)
{
    rdl__assert_on_loop(c->loop);
    for (size_t i = 0; i < c->topology.count; i++)
        if (c->topology.servers[i].master && c->topology.servers[i].shard == shard)
            return true;
    return false;
}

const struct rdl__slot_map *rdl__cluster_map(const struct rdl__cluster *c)
{
    return &c->map;
}

/* @locks mu */
static enum rdl__detour take_redirect(struct rdl__cluster *c, const struct rdl__redirect *to, unsigned *ret_shard)
{
    const struct rdl__server *k = rdl__topology_at(&c->topology, to->host, to->port);

    rdl__assert_locked(&c->mu);
    if (k != NULL && k->master && to->what == RDL__DETOUR_MOVED) {
        if (atomic_exchange_explicit(&c->map.shard[to->slot], (uint16_t)k->shard, memory_order_acq_rel) != k->shard)
            atomic_store(&c->remapped, true);
        return RDL__DETOUR_MOVED;
    }
    if (to->what == RDL__DETOUR_ASK && (k == NULL || k->id[0] == '\0'))
        name_provisional(c, to);
    if (k != NULL && k->master && to->what == RDL__DETOUR_ASK) {
        *ret_shard = k->shard;
        return RDL__DETOUR_ASK;
    }
    return RDL__DETOUR_LATER;
}

enum rdl__detour rdl__cluster_detour(struct rdl__cluster *c, const struct rdl__reply *error, unsigned *ret_shard)
{
    struct rdl__redirect to = rdl__redirect_of(error);
    enum rdl__detour what = to.what;

    if (what == RDL__DETOUR_NONE)
        return what;
    if (what != RDL__DETOUR_LATER) {
        rdl__mutex_lock(&c->mu);
        what = take_redirect(c, &to, ret_shard);
        rdl__mutex_unlock(&c->mu);
    }
    if (what != RDL__DETOUR_ASK)
        rdl__loop_post(c->loop, &c->post);
    return what;
}
