/* SPDX-License-Identifier: MIT */
/* sentinel.c - a deployment behind Sentinel: one master, which a failover replaces.
 *
 * Finding the node for a name. There is one node, the master, for all names. A failover only changes its place
 * (node.h). So nothing above the connections knows of sentinels:
 *
 *   - lanes drop their connections at once, also those that a dead or stopped server would never end, and repeat
 *     unanswered requests at the new place (lane.h), undos included. A CLIENT KILL goes only to the run of the
 * server that issued the id;
 *   - the subscriber subscribes anew, and each acknowledgement makes sleepers try (protocol.md, 5.2);
 *   - the loop's lane reports RDL__LANE_UP_ANEW; the client then has the watchdog examine every hold, and repeats the
 *     releases that the new master may not have seen (replay.h).
 *
 * Asking. Every known sentinel has a connection of its own, all the time. Each is asked as soon as it is connected,
 * every POLL_MS, when it announces +switch-master, and when the master was missed: an attempt to connect there failed,
 * or found a replica. All are asked at once, so that a silent one delays no other.
 *
 * Choosing an answer. Sentinels may disagree: one that was cut off still names the former master. A failover raises the
 * master's configuration epoch, so the answer with the highest epoch counts. One that is older than the answer that was
 * applied last is ignored, even if no other sentinel answers, as long as the present master can be reached. While a
 * failover goes on, the leader shows the old address beside the new epoch in SENTINEL MASTER;
 * SENTINEL GET-MASTER-ADDR-BY-NAME has the right one. So both commands are sent.
 *
 * Knowing the sentinels. Those of the URI are asked for good; so are up to OTHERS more that any of them names (SENTINEL
 * SENTINELS), each until no answer has named it for a while. So a client does not depend on the URI's sentinels alone.
 * An announced address may be unreachable, or belong by now to another sentinel whose master has the same name: a
 * failure to connect there is logged for debugging only, and its answers do not count before it has told the id that it
 * was announced with. The id also shows whether it is one of the URI's under another name. A sentinel that refuses
 * these commands names no others.
 *
 * One connection a sentinel serves for commands and announcements, also in RESP2, where no command is allowed during a
 * subscription: each poll but the first is UNSUBSCRIBE, the commands, SUBSCRIBE. A failover that is announced in
 * between is in the next answers.
 *
 * To support another kind of coordinator, add a finder like this one; nodes and connections do not change.
 */
#include "core/io/sentinel.h"

#include "core/base/err.h"
#include "core/io/talk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define POLL_MS 1000
#define OTHERS 8        /* beside those of the URI */
#define UNNAMED_MOST 30 /* one of them is dropped after so many answers in a row that do not name it */

/* A sentinel's commands, in this order; the first until it has told its id, the last unless it has refused it. */
enum query { ASK_ID, ASK_ADDRESS, ASK_EPOCH, ASK_OTHERS };

#define ID_SIZE 41 /* 40 digits */

struct sentinel {
    struct rdl__repeats told; /* its errors */
    struct rdl__sentinels *all;
    bool given;       /* by the URI */
    unsigned unnamed; /* if not: how many answers of other sentinels in a row have not named it */
    char
        id[ID_SIZE]; /* if given, the id that it told on this connection, else the one that it must tell; "": unknown */
    struct rdl__node node;
    struct rdl__talk talk;
    enum query last;  /* the last command whose answer is awaited */
    bool subscribing; /* SUBSCRIBE is awaited behind them: sets `subscribed` */
    bool subscribed;
    bool identified; /* it was asked for its id on this connection */
    bool alone;      /* it has refused to name others */
    bool again;      /* ask again as soon as it has answered */
    bool heard;      /* it has answered or failed since a place was known last */
    /* its last answer; host empty: it knows of no such master, or is not connected */
    char host[256];
    int port;
    int64_t epoch;
};

struct rdl__sentinels {
    struct rdl__finder finder;
    struct rdl__node *master;
    struct rdl__tls *tls; /* the sentinels' own */
    struct rdl__task ask_task;
    bool missed;       /* the master could not be reached since a place was found last */
    int64_t epoch;     /* of the answer that was applied last */
    rdl_err_t trouble; /* the last error of a sentinel of the URI */
    unsigned count;
    struct sentinel *sentinels[]; /* those of the URI, then the others */
};

/* ---- judging ---------------------------------------------------------------------------------------------------- */

/* The sentinel whose answer counts; NULL: none has a master. */
static const struct sentinel *best(const struct rdl__sentinels *all)
{
    const struct sentinel *found = NULL;

    for (unsigned i = 0; i < all->count; i++) {
        const struct sentinel *s = all->sentinels[i];

        if (s->host[0] != '\0' && (found == NULL || s->epoch > found->epoch))
            found = s;
    }
    return found;
}

static bool all_heard(const struct rdl__sentinels *all)
{
    for (unsigned i = 0; i < all->count; i++)
        if (all->sentinels[i]->given && !all->sentinels[i]->heard)
            return false;
    return true;
}

static void report_not_found(struct rdl__sentinels *all, int64_t now)
{
    rdl_err_t why;

    (void)rdl__err_set(&why, all->trouble.code, "%s: no sentinel knows where it is: %s", all->master->label,
                       all->trouble.message);
    rdl__err_where(&why, all->master->label, NULL, 0);
    rdl__node_not_found(all->master, &why, now);
}

/* A sentinel has answered, or was lost. */
static void judge(struct rdl__sentinels *all, int64_t now)
{
    const struct sentinel *s = best(all);

    if (s == NULL) {
        if (all->master->uri.host == NULL && all_heard(all))
            report_not_found(all, now);
        return;
    }
    if (s->epoch < all->epoch && !all->missed)
        return;
    if (!rdl__node_found(all->master, s->host, s->port, now))
        return; /* out of memory: try again with the next answer */
    all->epoch = s->epoch;
    all->missed = false;
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static void put_query(struct sentinel *s, enum query query)
{
    static const char *const verbs[] = {
        [ASK_ID] = "MYID",
        [ASK_ADDRESS] = "GET-MASTER-ADDR-BY-NAME",
        [ASK_EPOCH] = "MASTER",
        [ASK_OTHERS] = "SENTINELS",
    };

    rdl__talk_put(&s->talk, "SENTINEL", verbs[query], query == ASK_ID ? NULL : s->all->master->uri.master, NULL);
}

static void ask(struct sentinel *s, int64_t now)
{
    enum query first = s->identified ? ASK_ADDRESS : ASK_ID, last = s->alone ? ASK_EPOCH : ASK_OTHERS;

    if (!rdl__talk_up(&s->talk))
        return;
    s->again = s->talk.awaited > 0 || s->subscribing;
    if (s->again)
        return;
    if (s->subscribed) /* else UNSUBSCRIBE could be answered with an error, which could not be told from the commands'
                        */
        rdl__talk_put(&s->talk, "UNSUBSCRIBE", "+switch-master", NULL);
    for (enum query query = first; query <= last; query++)
        put_query(s, query);
    rdl__talk_put(&s->talk, "SUBSCRIBE", "+switch-master", NULL);
    s->last = last;
    s->subscribing = true;
    rdl__talk_ask(&s->talk, last - first + 1, now);
}

static void ask_all(struct rdl__sentinels *all, int64_t now)
{
    for (unsigned i = 0; i < all->count; i++)
        ask(all->sentinels[i], now);
}

static void on_ask_task(struct rdl__task *task, int64_t now)
{
    ask_all(rdl__container(task, struct rdl__sentinels, ask_task), now);
}

/* The sentinels are asked after the caller, a node, has returned. */
static void missed(struct rdl__finder *finder)
{
    struct rdl__sentinels *all = rdl__container(finder, struct rdl__sentinels, finder);

    all->missed = true;
    rdl__loop_later(all->master->loop, &all->ask_task);
}

static void on_due(struct rdl__talk *talk, int64_t now)
{
    struct sentinel *s = rdl__container(talk, struct sentinel, talk);

    if (s->subscribing)
        rdl__talk_lose(talk, RDL_ECONN, "it does not answer", now);
    else
        ask(s, now);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static bool says(const struct rdl__reply *r, const char *word)
{
    return r != NULL && r->type == RDL__REPLY_STRING && strcmp(r->str, word) == 0;
}

/* Is it a push message of a subscription? */
static bool is_news(const struct rdl__reply *reply)
{
    const struct rdl__reply *kind = rdl__reply_at(reply, 0);

    return reply->push ||
           (reply->len == 3 && (says(kind, "message") || says(kind, "subscribe") || says(kind, "unsubscribe")));
}

/* Only errors of the URI's sentinels are reported. */
static void note_trouble(struct sentinel *s, int code, const char *text)
{
    if (s->given)
        (void)rdl__err_set(&s->all->trouble, code, "sentinel %s: %s", s->node.label, text);
}

static void take_address(struct sentinel *s, const struct rdl__reply *reply)
{
    const struct rdl__reply *host = rdl__reply_at(reply, 0);
    int64_t port;

    s->host[0] = '\0';
    if (host == NULL || host->type != RDL__REPLY_STRING || host->len >= sizeof s->host ||
        !rdl__reply_integer(rdl__reply_at(reply, 1), &port) || port < 1 || port > 65535) {
        note_trouble(s, RDL_ECONN,
                     rdl__reply_is_error(reply, "ERR unknown command") ? "it is no sentinel, but a server of its own"
                     : reply->type == RDL__REPLY_ERROR                 ? reply->str
                                                                       : "it knows of no such master");
        return;
    }
    memcpy(s->host, host->str, host->len + 1);
    s->port = (int)port;
}

/* Without an epoch an answer is the oldest. */
static void take_epoch(struct sentinel *s, const struct rdl__reply *reply, int64_t now)
{
    const struct rdl__reply *epoch = rdl__reply_named(reply, "config-epoch");

    if (epoch == NULL || !rdl__reply_integer(epoch, &s->epoch))
        s->epoch = 0;
    s->heard = true;
    judge(s->all, now);
}

/* ---- the others ------------------------------------------------------------------------------------------------- */

/* One element of the answer to SENTINEL SENTINELS. */
struct entry {
    const char *id, *host;
    int port;
};

static bool read_entry(const struct rdl__reply *told, struct entry *ret)
{
    const struct rdl__reply *id = rdl__reply_named(told, "runid"), *host = rdl__reply_named(told, "ip"),
                            *port = rdl__reply_named(told, "port");
    int64_t number;

    if (id == NULL || id->type != RDL__REPLY_STRING || id->len == 0 || id->len >= ID_SIZE || host == NULL ||
        host->type != RDL__REPLY_STRING || host->len == 0 || port == NULL || !rdl__reply_integer(port, &number) ||
        number < 1 || number > 65535)
        return false;
    *ret = (struct entry){id->str, host->str, (int)number};
    return true;
}

static bool is_at(const struct sentinel *s, const struct entry *e)
{
    return s->node.uri.port == e->port && strcmp(s->node.uri.host, e->host) == 0;
}

static struct sentinel *sentinel_new(struct rdl__sentinels *all, const char *host, int port, const char *username,
                                     const char *password);
static struct sentinel *sentinel_free(struct sentinel *s);

/* Free a sentinel; not the one whose answer is being read. */
static void forget(struct rdl__sentinels *all, unsigned i)
{
    rdl__log(all->master->sinks, RDL_LOG_DEBUG, "sentinel %s is not asked any more", all->sentinels[i]->node.label);
    rdl__talk_stop(&all->sentinels[i]->talk);
    (void)sentinel_free(all->sentinels[i]);
    all->sentinels[i] = all->sentinels[--all->count];
}

/* Add a sentinel that is named for the first time. */
static void add_named(struct rdl__sentinels *all, const struct entry *e, int64_t now)
{
    const struct rdl__uri *as = &all->sentinels[0]->node.uri;
    struct sentinel *s;

    if (all->count == all->master->uri.seed_count + OTHERS ||
        (s = sentinel_new(all, e->host, e->port, as->username, as->password)) == NULL)
        return; /* the next answer will do */
    memcpy(s->id, e->id, strlen(e->id) + 1);
    rdl__log(all->master->sinks, RDL_LOG_DEBUG, "sentinel %s is asked as well", s->node.label);
    rdl__conn_start(&s->talk.conn, now);
}

/* An answer names a sentinel. One with another address counts as another. */
static void take_entry(struct rdl__sentinels *all, const struct entry *e, int64_t now)
{
    for (unsigned i = 0; i < all->count; i++) {
        struct sentinel *s = all->sentinels[i];

        if (s->given ? is_at(s, e) || strcmp(s->id, e->id) == 0 : is_at(s, e) && strcmp(s->id, e->id) == 0) {
            s->unnamed = 0;
            return;
        }
    }
    add_named(all, e, now);
}

static void take_others(struct sentinel *s, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__sentinels *all = s->all;
    struct entry e;

    if (rdl__reply_is_error(reply, "NOPERM"))
        s->alone = true;
    if (s->alone || reply->type != RDL__REPLY_ARRAY)
        return;
    for (unsigned i = 0; i < all->count; i++)
        all->sentinels[i]->unnamed += all->sentinels[i] != s;
    for (size_t i = 0; i < reply->len; i++)
        if (read_entry(rdl__reply_at(reply, i), &e))
            take_entry(all, &e, now);
    for (unsigned i = all->count; i-- > 0;)
        if (!all->sentinels[i]->given && all->sentinels[i] != s && all->sentinels[i]->unnamed >= UNNAMED_MOST)
            forget(all, i);
}

/* A sentinel of the URI has told its id: drop the same one if it was added under another address. */
static void take_own_id(struct sentinel *s, const char *id, size_t len)
{
    struct rdl__sentinels *all = s->all;

    memcpy(s->id, id, len + 1);
    for (unsigned i = all->count; i-- > 0;)
        if (!all->sentinels[i]->given && strcmp(all->sentinels[i]->id, s->id) == 0)
            forget(all, i);
}

static void take_id(struct sentinel *s, const struct rdl__reply *reply, int64_t now)
{
    bool told = reply->type == RDL__REPLY_STRING && reply->len > 0 && reply->len < ID_SIZE;

    s->identified = true;
    if (s->given && told)
        take_own_id(s, reply->str, reply->len);
    else if (s->given)
        s->alone = true; /* it would refuse to name others as well */
    else if (!told || strcmp(s->id, reply->str) != 0)
        rdl__talk_lose(&s->talk, RDL_ECONN, "it is not the one that was announced", now);
}

/* It announces failovers from now on; or it refuses to, and is only polled. */
static void take_subscription(struct sentinel *s, bool subscribed, int64_t now)
{
    if (!s->subscribing)
        return;
    s->subscribing = false;
    s->subscribed = subscribed;
    if (s->again)
        ask(s, now);
}

static void take_answer(struct sentinel *s, const struct rdl__reply *reply, int64_t now)
{
    if (s->talk.awaited == 0) {
        take_subscription(s, false, now);
        return;
    }
    switch ((enum query)(s->last + 1 - s->talk.awaited--)) {
    case ASK_ID:
        take_id(s, reply, now);
        break;
    case ASK_ADDRESS:
        take_address(s, reply);
        break;
    case ASK_EPOCH:
        take_epoch(s, reply, now);
        break;
    default:
        take_others(s, reply, now);
        break;
    }
    if (rdl__talk_up(&s->talk) && s->talk.awaited == 0)
        rdl__talk_pause(&s->talk, rdl__after_ms(now, POLL_MS));
}

static void on_reply(struct rdl__talk *talk, const struct rdl__reply *reply, int64_t now)
{
    struct sentinel *s = rdl__container(talk, struct sentinel, talk);

    if (!is_news(reply))
        take_answer(s, reply, now);
    else if (says(rdl__reply_at(reply, 0), "message"))
        rdl__loop_later(s->node.loop, &s->all->ask_task);
    else if (says(rdl__reply_at(reply, 0), "subscribe"))
        take_subscription(s, true, now);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

/* Forget its last answer. */
static void silent(struct sentinel *s)
{
    s->subscribing = s->subscribed = false;
    s->identified = false;
    s->alone = false;
    if (s->given)
        s->id[0] = '\0';
    s->again = false;
    s->heard = true;
    s->host[0] = '\0';
}

static void on_lost(struct rdl__talk *talk, const rdl_err_t *why, bool was_up, int64_t now)
{
    struct sentinel *s = rdl__container(talk, struct sentinel, talk);
    struct rdl__sentinels *all = s->all;

    if (was_up)
        rdl__node_failed(&s->node, why, now);
    silent(s);
    if (s->given)
        (void)rdl__err_set(&all->trouble, why->code, "sentinel %s", why->message);
    rdl__log_again(s->node.sinks, s->given ? RDL_LOG_WARN : RDL_LOG_DEBUG, &s->told, now, "sentinel %s", why->message);
    rdl__conn_start(&talk->conn, now);
    judge(all, now);
}

static void on_up(struct rdl__talk *talk, int64_t now)
{
    ask(rdl__container(talk, struct sentinel, talk), now);
}

static const struct rdl__talk_ops talk_ops = {.up = on_up, .reply = on_reply, .lost = on_lost, .due = on_due};

/* ---- sentinel.h ------------------------------------------------------------------------------------------------- */

/* Make its node. False: no memory, and there is nothing to undo. */
static bool place(struct sentinel *s, const char *host, int port, const char *username, const char *password)
{
    struct rdl__node *master = s->all->master;
    struct rdl__uri uri = {.mem = master->mem, .scheme = RDL__SCHEME_TCP};
    struct rdl__node_config config = master->config;
    bool made;

    config.kind = RDL__KIND_SENTINEL;
    config.credentials = NULL; /* the master's */
    config.tls = s->all->tls;
    made = rdl__uri_place(&uri, host, port) && rdl__uri_credentials(&uri, username, password) &&
           rdl__node_init(&s->node, master->mem, master->sinks, master->loop, &config, &uri) == RDL_OK;
    rdl__uri_done(&uri);
    return made;
}

/* Add one that has not answered yet. NULL: no memory. */
static struct sentinel *sentinel_new(struct rdl__sentinels *all, const char *host, int port, const char *username,
                                     const char *password)
{
    struct sentinel *s = rdl__zalloc(all->master->mem, sizeof *s);

    if (s == NULL)
        return NULL;
    s->all = all;
    if (!place(s, host, port, username, password)) {
        rdl__free(all->master->mem, s, sizeof *s);
        return NULL;
    }
    rdl__talk_init(&s->talk, &s->node, &talk_ops);
    all->sentinels[all->count++] = s;
    return s;
}

static struct sentinel *sentinel_free(struct sentinel *s)
{
    rdl__talk_done(&s->talk);
    rdl__node_done(&s->node);
    rdl__free(s->all->master->mem, s, sizeof *s);
    return NULL;
}

static size_t size_of(unsigned given)
{
    return sizeof(struct rdl__sentinels) + (given + OTHERS) * sizeof(struct sentinel *);
}

struct rdl__sentinels *rdl__sentinels_new(struct rdl__node *master, struct rdl__tls *tls, const char *username,
                                          const char *password)
{
    unsigned given = master->uri.seed_count;
    struct rdl__sentinels *all = rdl__zalloc(master->mem, size_of(given));

    if (all == NULL)
        return NULL;
    all->finder.missed = missed;
    all->master = master;
    all->tls = tls;
    all->trouble.code = RDL_ECONN;
    rdl__task_init(&all->ask_task, on_ask_task);
    for (unsigned i = 0; i < given; i++) {
        const struct rdl__seed *seed = &master->uri.seeds[i];
        struct sentinel *s = sentinel_new(all, seed->host, seed->port, username, password);

        if (s == NULL)
            return rdl__sentinels_free(all);
        s->given = true;
    }
    master->finder = &all->finder;
    return all;
}

void rdl__sentinels_open(struct rdl__sentinels *all, int64_t now)
{
    rdl__assert_on_loop(all->master->loop);
    for (unsigned i = 0; i < all->count; i++)
        rdl__conn_start(&all->sentinels[i]->talk.conn, now);
}

void rdl__sentinels_close(struct rdl__sentinels *all)
{
    if (all == NULL)
        return;
    rdl__assert_on_loop(all->master->loop);
    rdl__loop_not_later(all->master->loop, &all->ask_task);
    for (unsigned i = 0; i < all->count; i++) {
        rdl__talk_stop(&all->sentinels[i]->talk);
        silent(all->sentinels[i]);
    }
}

struct rdl__sentinels *rdl__sentinels_free(struct rdl__sentinels *all)
{
    if (all == NULL)
        return NULL;
    while (all->count > 0)
        (void)sentinel_free(all->sentinels[--all->count]);
    rdl__free(all->master->mem, all, size_of(all->master->uri.seed_count));
    return NULL;
}

bool rdl__sentinels_found(const struct rdl__sentinels *all)
{
    rdl__assert_on_loop(all->master->loop);
    return all->master->uri.host != NULL;
}
