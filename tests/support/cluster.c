/* SPDX-License-Identifier: MIT */
/* cluster.c - see cluster.h.
 *
 * Nodes that meet and are given slots take 2 s before they serve any: a master that has just started waits that long,
 * in case others have replaced it. A replica does not wait, nor does one that is promoted. So every node is started
 * with the whole cluster written in its nodes.conf, but the masters-to-be are written there as replicas of their
 * replicas, which do not run yet: each finds nothing wrong and takes over, and then the replicas start.
 *
 * Ports have to be known before that, and are reserved until all listen on them. Replication goes by way of a file
 * because without one a replica may have to wait a second for the first commands.
 */
#include "tests/support/cluster.h"

#include "tests/support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_BOUND_MS 60000
#define FOLLOW_BOUND_MS 40000 /* says why before the test's own time is up */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define MOVE_AT_ONCE 1000
#define LOOK_MS 20 /* six nodes are asked each time */
#define HASTY_MS "200"
#define HASTE_BOUND_MS 8000
#define CALM_MS "3000"
#define PATIENT_MS "600000" /* nobody is given up */

/* ---- starting --------------------------------------------------------------------------------------------------- */

struct ports {
    int port[CLUSTER_NODES], bus[CLUSTER_NODES];
};

static void reserve_ports(struct cluster *c, struct ports *ports)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        ports->port[i] = reserve_ports_of_node(&c->port_fd[2 * i], &c->port_fd[2 * i + 1]);
        ports->bus[i] = ports->port[i] + BUS_OFFSET;
    }
}

static void release_ports(const struct cluster *c)
{
    for (int i = 0; i < 2 * CLUSTER_NODES; i++)
        close(c->port_fd[i]);
}

/* Where nodes are to be reached from now on. Each speaks from an address of its own, by which the proxies tell nodes
 * and clients apart. */
static void make_fronts(struct cluster *c, const struct ports *ports, bool proxied)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        if (proxied) {
            c->front[i] = proxy_start_blind(ports->port[i]);
            c->bus[i] = proxy_start_blind(ports->bus[i]);
        }
        c->port[i] = proxied ? proxy_port(c->front[i]) : ports->port[i];
    }
}

static char *address_of(int node)
{
    return must_format("127.0.1.%d", node + 1);
}

/* Redis 6.2 takes a node's address for `?` when it hears of it on a connection that is not made yet, and its replicas
 * never find it again; over TLS on a busy machine each second cluster had one. Not where the address is announced. */
static char *fronts_config(const struct cluster *c, int node)
{
    char *address = address_of(node), *config;

    if (c->front[node] == NULL)
        config = must_format(server_is_old() ? "cluster-announce-ip 127.0.0.1" : " ");
    else
        config = must_format("cluster-announce-port %d\ncluster-announce-bus-port %d\nbind-source-addr %s",
                             c->port[node], proxy_port(c->bus[node]), address);
    free(address);
    return config;
}

/* Nobody else's: a node that listens on a port which another cluster has used must not be taken for one of its nodes.
 */
static char *new_id(int node)
{
    return must_format("%08x%016" PRIx64 "%016x", (unsigned)getpid(), now_us(), (unsigned)node);
}

/* The line of one node in the view of another, which takes the nodes from `masters` on for the masters. */
static void add_line(struct bytes *to, const struct cluster *c, const struct ports *ports, int node, int self,
                     int masters)
{
    int shard = node % CLUSTER_MASTERS;
    bool is_master = node / CLUSTER_MASTERS * CLUSTER_MASTERS == masters;
    char *slots = must_format(" %u-%u", cluster_first_slot(shard), cluster_first_slot(shard + 1) - 1);
    char *line = must_format("%s 127.0.0.1:%d@%d %s%s %s 0 0 %d connected%s\n", c->id[node], c->port[node],
                             c->bus[node] != NULL ? proxy_port(c->bus[node]) : ports->bus[node],
                             node == self ? "myself," : "", is_master ? "master" : "slave",
                             is_master ? "-" : c->id[masters + shard], shard + 1, is_master ? slots : "");

    bytes_add(to, line, strlen(line));
    free(line);
    free(slots);
}

/* The epoch to which a node adds one when it takes over is different for each, and greater than that of any node which
 * runs by then: two masters of one epoch would have to agree on others first, and until then nobody elects their
 * replicas. */
static char *view_at_first(const struct cluster *c, const struct ports *ports, int self)
{
    int masters = self < CLUSTER_MASTERS ? CLUSTER_MASTERS : 0;
    char *last = must_format("vars currentEpoch %d lastVoteEpoch 0\n", 10 * (self + 1));
    struct bytes view = {0};

    for (int i = 0; i < CLUSTER_NODES; i++)
        add_line(&view, c, ports, i, self, masters);
    bytes_add(&view, last, strlen(last) + 1);
    free(last);
    return view.at;
}

static struct server *start_node(const struct cluster *c, const struct cluster_options *o, const struct ports *ports,
                                 int node)
{
    char *auth = o->password == NULL ? must_format(" ") : must_format("masterauth %s", o->password);
    const char *tls = o->tls != NULL ? "tls-cluster yes\ntls-replication yes" : "";
    char *view = view_at_first(c, ports, node);
    char *fronts = fronts_config(c, node);
    char *config = must_format("cluster-enabled yes\ncluster-config-file nodes.conf\n"
                               "cluster-node-timeout " PATIENT_MS "\ncluster-replica-validity-factor 0\n"
                               "cluster-replica-no-failover yes\n%s\n"
                               "cluster-require-full-coverage %s\n"
                               "repl-diskless-sync no\nrepl-ping-replica-period 1\n%s\n%s\n%s\n%s",
                               server_is_old() ? "" : "cluster-allow-replica-migration no", o->partial ? "no" : "yes",
                               auth, tls, fronts, o->config != NULL ? o->config : "");
    struct server *s = server_start(&(struct server_options){.tcp = true,
                                                             .tls = o->tls != NULL,
                                                             .cert_for = o->tls,
                                                             .cert_of = c->node[0],
                                                             .port = ports->port[node],
                                                             .nodes = view,
                                                             .password = o->password,
                                                             .config = config});

    free(auth);
    free(fronts);
    free(view);
    free(config);
    return s;
}

bool cluster_serves(struct probe *p)
{
    return strcmp(probe_ask(p, "ROLE")->items[0].text, "master") == 0 &&
           strstr(probe_text(p, "CLUSTER INFO"), "cluster_state:ok") != NULL;
}

static bool is_whole(const struct cluster *c);

bool cluster_says_ok(const struct cluster *c, int node)
{
    struct probe *p = probe_open(c->node[node]);
    bool ok = strstr(probe_text(p, "CLUSTER INFO"), "cluster_state:ok") != NULL;

    probe_close(p);
    return ok;
}

static void take_over(const struct cluster *c, int node)
{
    struct probe *p = probe_open(c->node[node]);

    if (!WAIT_UNTIL_EVERY(LOOK_MS, cluster_says_ok(c, node), START_BOUND_MS))
        die("node %d does not find its cluster", node);
    (void)probe_text(p, "CLUSTER FAILOVER TAKEOVER");
    probe_close(p);
}

static bool info_says(const struct cluster *c, int node, const char *what)
{
    struct probe *p = probe_open(c->node[node]);
    bool yes = strstr(probe_text(p, "INFO replication"), what) != NULL;

    probe_close(p);
    return yes;
}

static bool follows(const struct cluster *c, int node)
{
    return info_says(c, node, "master_link_status:up");
}

/* A replica is in no answer to CLUSTER SLOTS before it has been told to do something. */
static void make_known(const struct cluster *c, int replica)
{
    struct probe *p = probe_open(c->node[replica - CLUSTER_MASTERS]);

    if (!WAIT_UNTIL_EVERY(LOOK_MS, follows(c, replica), FOLLOW_BOUND_MS)) {
        server_print_log(c->node[replica]);
        server_print_log(c->node[replica - CLUSTER_MASTERS]);
        die("node %d does not follow its master", replica);
    }
    (void)probe_text(p, "FLUSHALL");
    probe_close(p);
}

static void set(const struct cluster *c, int node, const char *name, const char *value)
{
    struct probe *p = probe_open(c->node[node]);

    (void)probe_text(p, "CONFIG SET %s %s", name, value);
    probe_close(p);
}

/* From the settings of the start to those that tests are for. */
static void settle(const struct cluster *c, int node)
{
    set(c, node, "cluster-node-timeout", c->patient ? PATIENT_MS : TEXT(CLUSTER_NODE_TIMEOUT_MS));
    set(c, node, "cluster-replica-no-failover", "no");
}

static void set_all(const struct cluster *c, const char *timeout_ms)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        set(c, i, "cluster-node-timeout", timeout_ms);
}

/* While nobody may be replaced, periods that are too short for a busy machine make news spread fast. A master that was
 * given up in haste is back after twice the period that is in force by then, so it has to be a short one still. */
static void come_together(const struct cluster *c)
{
    set_all(c, HASTY_MS);
    for (int i = CLUSTER_MASTERS; i < CLUSTER_NODES; i++)
        make_known(c, i);
    (void)WAIT_UNTIL_EVERY(LOOK_MS, is_whole(c), HASTE_BOUND_MS);
    set_all(c, CALM_MS);
    if (!cluster_wait_whole(c, START_BOUND_MS))
        die("the cluster does not come together");
    for (int i = 0; i < CLUSTER_NODES; i++)
        settle(c, i);
}

char *cluster_uri(const struct cluster *c, const char *scheme, const char *host)
{
    struct bytes uri = {0};

    for (int i = 0; i < CLUSTER_NODES; i++) {
        char *part = i == 0 ? must_format("%s://%s%s:%d", scheme, server_login(c->node[0]), host, c->port[0])
                            : must_format(",%s:%d", host, c->port[i]);

        bytes_add(&uri, part, strlen(part));
        free(part);
    }
    bytes_add(&uri, "", 1);
    return uri.at;
}

struct cluster *cluster_start(const struct cluster_options *options)
{
    static const struct cluster_options defaults;
    struct cluster *c = must_alloc(sizeof *c);
    struct ports ports;

    options = options != NULL ? options : &defaults;
    c->patient = options->patient;
    reserve_ports(c, &ports);
    make_fronts(c, &ports, options->proxied);
    for (int i = 0; i < CLUSTER_NODES; i++)
        c->id[i] = new_id(i);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        c->node[i] = start_node(c, options, &ports, i);
        take_over(c, i);
    }
    for (int i = CLUSTER_MASTERS; i < CLUSTER_NODES; i++)
        c->node[i] = start_node(c, options, &ports, i);
    c->uri = cluster_uri(c, options->tls != NULL ? "clusters" : "cluster", "127.0.0.1");
    come_together(c);
    return c;
}

void cluster_stop(struct cluster *c)
{
    if (c == NULL)
        return;
    for (int i = CLUSTER_NODES; i-- > 0;) {
        server_stop(c->node[i]);
        proxy_stop(c->front[i]);
        proxy_stop(c->bus[i]);
        free(c->id[i]);
    }
    release_ports(c);
    free(c->uri);
    free(c);
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

/* What stands between the first { and the } after it is hashed alone, unless it is nothing. */
static size_t tag_of(const char **key)
{
    const char *open = strchr(*key, '{'), *close = open != NULL ? strchr(open, '}') : NULL;

    if (close == NULL || close == open + 1)
        return strlen(*key);
    *key = open + 1;
    return (size_t)(close - open - 1);
}

unsigned cluster_slot(const char *key)
{
    size_t len = tag_of(&key);
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)key[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return crc % CLUSTER_SLOTS;
}

unsigned cluster_first_slot(int master)
{
    return (unsigned)((CLUSTER_SLOTS * master + CLUSTER_MASTERS - 1) / CLUSTER_MASTERS);
}

struct slot_name cluster_name(unsigned slot, unsigned nth)
{
    struct slot_name name;

    for (unsigned i = 0;; i++) {
        (void)snprintf(name.text, sizeof name.text, "orders:%u", i);
        if (cluster_slot(name.text) == slot && nth-- == 0)
            return name;
    }
}

/* ---- what the nodes believe ------------------------------------------------------------------------------------- */

#define NOBODY (-1)

/* Who has a slot: the number of its master, and of its replicas a bit each. */
struct owner {
    int8_t master;
    uint8_t replicas;
};

struct view {
    struct owner owner[CLUSTER_SLOTS];
};

static bool answers(const struct cluster *c, int node)
{
    return server_running(c->node[node]) && !c->paused[node] && !c->alone[node];
}

static int node_at(const struct cluster *c, int64_t port)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (c->port[i] == port)
            return i;
    return NOBODY;
}

/* By the id: newer servers name the port for connections such as the probe's, which with TLS is none. */
static int node_in(const struct cluster *c, const struct reply *address)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (strcmp(c->id[i], address->items[2].text) == 0)
            return i;
    return NOBODY;
}

/* From one range of CLUSTER SLOTS: first and last slot, then address after address, the master's first. */
static struct owner owner_in(const struct cluster *c, const struct reply *range)
{
    struct owner owner = {.master = (int8_t)node_in(c, &range->items[2])};

    for (size_t i = 3; i < range->count; i++) {
        int replica = node_in(c, &range->items[i]);

        owner.replicas |= (uint8_t)(replica == NOBODY ? 0 : 1U << replica);
    }
    return owner;
}

/* What a node believes; to be freed. */
static struct view *view_by(const struct cluster *c, int node)
{
    struct probe *p = probe_open(c->node[node]);
    const struct reply *ranges = probe_ask(p, "CLUSTER SLOTS");
    struct view *view = must_alloc(sizeof *view);

    for (int i = 0; i < CLUSTER_SLOTS; i++)
        view->owner[i].master = NOBODY;
    for (size_t i = 0; ranges->kind == REPLY_ARRAY && i < ranges->count; i++) {
        const struct reply *range = &ranges->items[i];
        struct owner owner = owner_in(c, range);

        for (int64_t slot = range->items[0].integer; slot <= range->items[1].integer; slot++)
            view->owner[slot] = owner;
    }
    probe_close(p);
    return view;
}

/* Does everybody who answers believe the same of who masters the slots from `first` to `last`? The view of one of them,
 * to be freed; NULL: no. */
static struct view *common_view(const struct cluster *c, unsigned first, unsigned last)
{
    struct view *common = NULL;

    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct view *view = answers(c, i) ? view_by(c, i) : NULL;
        bool other = false;

        for (unsigned slot = first; common != NULL && view != NULL && slot <= last; slot++)
            other = other || view->owner[slot].master != common->owner[slot].master;
        if (view != NULL) {
            free(common);
            common = view;
        }
        if (other) {
            free(common);
            return NULL;
        }
    }
    return common;
}

int cluster_master(const struct cluster *c, unsigned slot)
{
    struct view *view = common_view(c, slot, slot);
    int master = view == NULL ? NOBODY : view->owner[slot].master;

    free(view);
    return master != NOBODY && answers(c, master) ? master : NOBODY;
}

struct probe *cluster_probe(const struct cluster *c, unsigned slot)
{
    int master = cluster_master(c, slot);

    if (master < 0)
        die("slot %u has no master", slot);
    return probe_open(c->node[master]);
}

/* ---- what the masters have -------------------------------------------------------------------------------------- */

static int64_t keys_at(const struct cluster *c, int node)
{
    struct probe *p = probe_open(c->node[node]);
    int64_t n = probe_keys(p);

    probe_close(p);
    return n;
}

int64_t cluster_channels_at(const struct cluster *c, int node, const char *words)
{
    struct probe *p = probe_open(c->node[node]);
    char *pattern = must_format("*%s*", words);
    int64_t n = probe_channels_like(p, true, pattern) + probe_channels_like(p, false, pattern);

    free(pattern);
    probe_close(p);
    return n;
}

static int64_t our_channels_at(const struct cluster *c, int node)
{
    return cluster_channels_at(c, node, "redisson");
}

static int64_t sum_of_masters(const struct cluster *c, int64_t (*at)(const struct cluster *c, int node))
{
    int64_t sum = 0;

    for (int i = 0; i < CLUSTER_NODES; i++)
        if (answers(c, i) && info_says(c, i, "role:master"))
            sum += at(c, i);
    return sum;
}

int64_t cluster_keys(const struct cluster *c)
{
    return sum_of_masters(c, keys_at);
}

int64_t cluster_channels(const struct cluster *c)
{
    return sum_of_masters(c, our_channels_at);
}

bool cluster_is_clean(const struct cluster *c, int64_t bound_ms)
{
    return WAIT_UNTIL_EVERY(LOOK_MS, cluster_keys(c) == 0 && cluster_channels(c) == 0, bound_ms);
}

/* ---- failures --------------------------------------------------------------------------------------------------- */

void cluster_kill(struct cluster *c, int node)
{
    server_kill(c->node[node]);
    c->paused[node] = false;
}

void cluster_start_again(struct cluster *c, int node)
{
    server_start_again(c->node[node]);
    settle(c, node);
}

void cluster_pause(struct cluster *c, int node)
{
    server_pause(c->node[node]);
    c->paused[node] = true;
}

void cluster_resume(struct cluster *c, int node)
{
    server_resume(c->node[node]);
    c->paused[node] = false;
}

/* The number of the master that a replica has; -1: none of ours, or it is no replica. */
static int master_of(const struct cluster *c, int replica)
{
    struct probe *p = probe_open(c->node[replica]);
    const char *port = strstr(probe_text(p, "INFO replication"), "master_port:");
    int master = port != NULL ? node_at(c, strtol(port + strlen("master_port:"), NULL, 10)) : -1;

    probe_close(p);
    return master;
}

void cluster_cut_off(struct cluster *c, int replica)
{
    int master = master_of(c, replica);
    struct probe *p;

    if (master < 0)
        die("node %d is no replica", replica);
    p = probe_open(c->node[master]);
    cluster_pause(c, replica);
    (void)probe_int(p, "CLIENT KILL TYPE replica");
    probe_close(p);
}

/* Before its master knows the replica it would not listen. */
void cluster_failover(const struct cluster *c, int replica)
{
    struct probe *p;

    if (!cluster_wait_whole(c, START_BOUND_MS))
        die("the cluster is in no state to change masters");
    p = probe_open(c->node[replica]);
    (void)probe_text(p, "CLUSTER FAILOVER");
    probe_close(p);
}

void cluster_bar_clients(struct cluster *c, int node, bool on)
{
    proxy_bar(c->front[node], "127.0.0.1", on);
}

static void bar_node(struct cluster *c, int node, int other, bool on)
{
    char *address = address_of(other);

    proxy_bar(c->front[node], address, on);
    proxy_bar(c->bus[node], address, on);
    free(address);
}

void cluster_isolate(struct cluster *c, int node, bool on)
{
    c->alone[node] = on;
    for (int i = 0; i < CLUSTER_NODES; i++) {
        if (i != node) {
            bar_node(c, node, i, on);
            bar_node(c, i, node, on);
        }
    }
}

/* To explain a failure. */
static void print_view(const struct cluster *c, int node)
{
    struct view *view = view_by(c, node);
    unsigned first = 0;

    fprintf(stderr, "node %d, %s:", node, cluster_says_ok(c, node) ? "ok" : "not ok");
    for (unsigned slot = 1; slot <= CLUSTER_SLOTS; slot++) {
        struct owner owner = view->owner[first];

        if (slot < CLUSTER_SLOTS && view->owner[slot].master == owner.master &&
            view->owner[slot].replicas == owner.replicas)
            continue;
        fprintf(stderr, " %u-%u at %d (replicas %#x)", first, slot - 1, owner.master, owner.replicas);
        first = slot;
    }
    fputc('\n', stderr);
    free(view);
}

static bool said(const struct cluster *c, bool met)
{
    for (int i = 0; !met && i < CLUSTER_NODES; i++) {
        if (answers(c, i))
            print_view(c, i);
        server_print_log(c->node[i]);
    }
    return met;
}

bool cluster_wait_master(const struct cluster *c, unsigned slot, int node, int64_t bound_ms)
{
    return said(c, WAIT_UNTIL_EVERY(LOOK_MS, cluster_master(c, slot) == node, bound_ms));
}

/* Does the node believe that each slot has a master which answers, and that all who answer have a part in it? */
static bool sees_whole(const struct cluster *c, int node)
{
    struct view *view = view_by(c, node);
    unsigned seen = 0, there = 0;
    bool whole = true;

    for (unsigned slot = 0; slot < CLUSTER_SLOTS; slot++) {
        struct owner owner = view->owner[slot];

        whole = whole && owner.master != NOBODY && answers(c, owner.master);
        seen |= owner.replicas | (owner.master != NOBODY ? 1U << owner.master : 0);
    }
    for (int i = 0; i < CLUSTER_NODES; i++)
        there |= answers(c, i) ? 1U << i : 0;
    free(view);
    return whole && (seen & there) == there;
}

static bool is_whole(const struct cluster *c)
{
    struct view *view = common_view(c, 0, CLUSTER_SLOTS - 1);
    bool whole = view != NULL;

    for (int i = 0; whole && i < CLUSTER_NODES; i++)
        whole = !answers(c, i) ||
                (cluster_says_ok(c, i) && (follows(c, i) || info_says(c, i, "role:master")) && sees_whole(c, i));
    free(view);
    return whole;
}

bool cluster_wait_whole(const struct cluster *c, int64_t bound_ms)
{
    return said(c, WAIT_UNTIL_EVERY(LOOK_MS, is_whole(c), bound_ms));
}

/* ---- moving slots ----------------------------------------------------------------------------------------------- */

void cluster_begin_move(const struct cluster *c, unsigned slot, int to)
{
    int from = cluster_master(c, slot);
    struct probe *source = cluster_probe(c, slot), *target = probe_open(c->node[to]);

    (void)probe_text(target, "CLUSTER SETSLOT %u IMPORTING %s", slot, c->id[from]);
    (void)probe_text(source, "CLUSTER SETSLOT %u MIGRATING %s", slot, c->id[to]);
    probe_close(source);
    probe_close(target);
}

/* False: the target does not know at the moment that the cluster is well, as after it stood still. */
static bool migrate(struct probe *source, const struct server *to, const char *key)
{
    const char *password = server_password(to);
    const struct reply *r =
        password != NULL ? probe_ask(source, "MIGRATE 127.0.0.1 %d '%s' 0 %d AUTH %s", server_port(to), key,
                                     START_BOUND_MS, password)
                         : probe_ask(source, "MIGRATE 127.0.0.1 %d '%s' 0 %d", server_port(to), key, START_BOUND_MS);

    if (r->kind == REPLY_ERROR && strstr(r->text, "CLUSTERDOWN") == NULL)
        die("the key is not moved: %s", r->text);
    return r->kind != REPLY_ERROR;
}

int64_t cluster_move_keys(const struct cluster *c, unsigned slot, int to)
{
    struct probe *source = cluster_probe(c, slot), *reader = cluster_probe(c, slot);
    const struct reply *keys = probe_ask(reader, "CLUSTER GETKEYSINSLOT %u %d", slot, MOVE_AT_ONCE);
    int64_t count = (int64_t)keys->count;

    for (size_t i = 0; i < keys->count; i++)
        if (!WAIT_UNTIL(migrate(source, c->node[to], keys->items[i].text), START_BOUND_MS))
            die("the keys of slot %u are not moved: the cluster is down", slot);
    probe_close(source);
    probe_close(reader);
    return count;
}

static void announce(const struct cluster *c, int node, unsigned slot, int to)
{
    struct probe *p = probe_open(c->node[node]);

    (void)probe_text(p, "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    probe_close(p);
}

void cluster_end_move(const struct cluster *c, unsigned slot, int to)
{
    int from = cluster_master(c, slot);

    announce(c, to, slot, to);
    announce(c, from, slot, to);
    if (!cluster_wait_master(c, slot, to, START_BOUND_MS))
        die("slot %u does not get to node %d", slot, to);
}

void cluster_move(const struct cluster *c, unsigned slot, int to)
{
    cluster_begin_move(c, slot, to);
    while (cluster_move_keys(c, slot, to) > 0)
        ;
    cluster_end_move(c, slot, to);
}
