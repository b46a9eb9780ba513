/* SPDX-License-Identifier: MIT */
/* party.c - see party.h.
 *
 * A C party is a loop that reads requests from a socket, carries them out and writes back what came of them; it runs on
 * a thread or in a forked process. A Java party is a thread of the peer, told by lines. `struct kind_ops` is what the
 * two have in common; everything else here is written against it.
 */
#include "tests/interop/party.h"
#include "tests/interop/mixed.h"
#include "tests/support/stage.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_BOUND_MS 30000

static int preferring_read(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                           rdl_lock_t **ret_lock, rdl_err_t *err)
{
    (void)options;
    return rdl_read_lock(client, name, LOCK_OPTIONS(.prefer_writers = true), ret_lock, err);
}

static int preferring_write(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                            rdl_lock_t **ret_lock, rdl_err_t *err)
{
    (void)options;
    return rdl_write_lock(client, name, LOCK_OPTIONS(.prefer_writers = true), ret_lock, err);
}

static int watched_read(rdl_client_t *client, const char *name, const rdl_lock_options_t *options,
                        rdl_lock_t **ret_lock, rdl_err_t *err)
{
    (void)options;
    return rdl_read_lock(client, name, LOCK_OPTIONS(.peer_watchdog_ms = BRIEF_WATCHDOG_MS), ret_lock, err);
}

static int brief_fair(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                      rdl_err_t *err)
{
    (void)options;
    return rdl_fair_lock(client, name, LOCK_OPTIONS(.waiter_life_ms = BRIEF_LIFE_MS), ret_lock, err);
}

/* Kept for so briefly that Java, which recalls nobody, gets its turn. */
static int kept(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                rdl_err_t *err)
{
    (void)options;
    return rdl_fenced_lock(client, name, LOCK_OPTIONS(.cache_ms = KEPT_MS), ret_lock, err);
}

/* Of three names; Java's is of the same, given in another order. It has short pauses, because each time that the two
 * sides have met costs one. */
static int multi(rdl_client_t *const *clients, const char *name, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    static const char *const tails[] = {"a", "b", "c"};
    rdl_lock_t *members[3] = {NULL};
    int rc = RDL_OK;

    for (int i = 0; i < 3 && rc == RDL_OK; i++) {
        char *member = must_format("%s:%s", name, tails[i]);

        rc = rdl_reentrant_lock(clients[0], member, NULL, &members[i], err);
        free(member);
    }
    if (rc == RDL_OK)
        rc = rdl_multi_lock(members, 3, LOCK_OPTIONS(.retry = {RDL_RETRY_RANDOM, 5, 20}), ret_lock, err);
    for (int i = 0; i < 3; i++)
        rdl_lock_free(members[i]);
    return rc;
}

/* Of the same name at every server; these are as young as the test. */
static int red_with(rdl_retry_t retry, rdl_client_t *const *clients, const char *name, rdl_lock_t **ret_lock,
                    rdl_err_t *err)
{
    const rdl_lock_options_t *options =
        LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = 1000, .retry = retry);
    rdl_lock_t *members[MEETING_SERVERS] = {NULL};
    int rc = RDL_OK;

    for (int i = 0; i < MEETING_SERVERS && rc == RDL_OK; i++)
        rc = rdl_reentrant_lock(clients[i], name, NULL, &members[i], err);
    if (rc == RDL_OK)
        rc = rdl_red_lock(members, MEETING_SERVERS, options, ret_lock, err);
    for (int i = 0; i < MEETING_SERVERS; i++)
        rdl_lock_free(members[i]);
    return rc;
}

static int red(rdl_client_t *const *clients, const char *name, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    return red_with((rdl_retry_t){RDL_RETRY_EXPONENTIAL, 5, 80}, clients, name, ret_lock, err);
}

/* Whose waiters have to be woken. */
static int unasked_red(rdl_client_t *const *clients, const char *name, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    return red_with((rdl_retry_t){RDL_RETRY_FIXED, LONG_MS, LONG_MS}, clients, name, ret_lock, err);
}

/* A row a lock type. In Java: Locks.java. */
static const struct type {
    const char *name;
    int (*make)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                rdl_err_t *err);
    /* Or, of several locks. */
    int (*compose)(rdl_client_t *const *clients, const char *name, rdl_lock_t **ret_lock, rdl_err_t *err);
    size_t more_servers; /* than one */
} types[] = {
    {"reentrant", rdl_reentrant_lock},
    {"spin", rdl_spin_lock},
    {"fenced", rdl_fenced_lock},
    {"kept fenced", kept}, /* C only */
    {"fair", rdl_fair_lock},
    {"brief fair", brief_fair}, /* C only */
    {"read", rdl_read_lock},
    {"write", rdl_write_lock},
    {"preferring read", preferring_read},
    {"preferring write", preferring_write}, /* C only, like the next */
    {"watched read", watched_read},
    {.name = "multi", .compose = multi},
    {.name = "red", .compose = red, .more_servers = MEETING_SERVERS - 1},
    {.name = "unasked red", .compose = unasked_red, .more_servers = MEETING_SERVERS - 1}, /* C only */
};

#define TYPES (sizeof types / sizeof types[0])
#define WRITE_AFTER_READ 1 /* rows between a read end and its write end */

enum verb { TRY_LOCK, UNLOCK, FORCE_UNLOCK, IS_LOCKED, HOLD_COUNT, REMAINING, ROUNDS, MIXED };

struct request {
    enum verb verb;
    size_t type; /* in types */
    int64_t wait_ms;
    int64_t lease_ms;
    struct rounds_plan plan; /* its name is left out: it does not cross a process border */
};

struct outcome {
    int64_t result;
    struct rounds_done done;
};

struct party;

struct kind_ops {
    void (*start)(struct party *who, const struct request *request);
    bool (*finished)(struct party *who, int64_t bound_ms);
    struct outcome (*outcome)(struct party *who); /* once finished */
    void (*kill)(struct party *who);
    void (*end)(struct party *who);
};

struct party {
    const struct kind_ops *ops;
    struct meeting *meeting;
    struct java_side *java;  /* NULL: it is C */
    char *name;              /* the lock's */
    const struct type *type; /* that calls concern */
    char *id;
    /* C */
    int fd;
    pthread_t thread;
    pid_t pid;
    /* Java */
    char *java_thread;
    char *java_name; /* the lock's, as a word */
    unsigned java_id;
    enum verb java_verb;
};

/* ---- the C party's loop ----------------------------------------------------------------------------------------- */

struct c_party {
    int fd;
    rdl_client_t *clients[MEETING_SERVERS];
    rdl_lock_t *locks[TYPES]; /* made when they are first asked for */
    const char *name;
    const struct server *server; /* where what the lock protects is */
};

static int make_lock(struct c_party *c, const struct type *type, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    if (type->compose != NULL)
        return type->compose(c->clients, c->name, ret_lock, err);
    return type->make(c->clients[0], c->name, NULL, ret_lock, err);
}

static rdl_lock_t *lock_of(struct c_party *c, size_t type)
{
    rdl_err_t err;

    if (c->locks[type] == NULL && make_lock(c, &types[type], &c->locks[type], &err) < 0)
        die("cannot make the lock %s: %s", c->name, err.message);
    return c->locks[type];
}

static void free_locks(struct c_party *c)
{
    for (size_t i = 0; i < TYPES; i++)
        rdl_lock_free(c->locks[i]);
}

static struct outcome carry_out(struct c_party *c, const struct request *r)
{
    rdl_lock_t *lock = lock_of(c, r->type);
    struct outcome out = {0};
    struct rounds_plan plan = r->plan;
    struct probe *p;

    switch (r->verb) {
    case TRY_LOCK:
        out.result = rdl_try_lock(lock, r->wait_ms, r->lease_ms, NULL);
        break;
    case UNLOCK:
        out.result = rdl_unlock(lock, NULL);
        break;
    case FORCE_UNLOCK:
        out.result = rdl_force_unlock(lock, NULL);
        break;
    case IS_LOCKED:
        out.result = rdl_is_locked(lock, NULL);
        break;
    case HOLD_COUNT:
        out.result = rdl_hold_count(lock, NULL);
        break;
    case REMAINING:
        out.result = rdl_remaining_ms(lock, NULL);
        break;
    case ROUNDS:
    case MIXED:
        plan.name = c->name;
        p = probe_open(c->server);
        out.result = r->verb == ROUNDS
                         ? rounds_take_part(lock, p, &plan, &out.done)
                         : mixed_take_part(lock, lock_of(c, r->type + WRITE_AFTER_READ), p, &plan, &out.done);
        probe_close(p);
        break;
    }
    return out;
}

static void serve(struct c_party *c)
{
    struct request request;

    while (recv(c->fd, &request, sizeof request, 0) == sizeof request) {
        struct outcome outcome = carry_out(c, &request);

        if (send(c->fd, &outcome, sizeof outcome, MSG_NOSIGNAL) != sizeof outcome)
            return;
    }
}

static const struct type *type_called(const char *name)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    }
    die("no lock type %s", name);
}

static void open_clients(const struct meeting *m, rdl_client_t **clients)
{
    for (size_t i = 0; i < m->servers; i++)
        clients[i] = client_open(m->uri[i], OPTIONS(.watchdog_lease_ms = m->watchdog_ms));
}

static void close_clients(rdl_client_t *const *clients)
{
    for (size_t i = 0; i < MEETING_SERVERS; i++)
        rdl_client_close(clients[i]);
}

/* ---- the test's end of a C party -------------------------------------------------------------------------------- */

static void c_start(struct party *who, const struct request *request)
{
    struct request r = *request;

    r.type = (size_t)(who->type - types);
    if (send(who->fd, &r, sizeof r, MSG_NOSIGNAL) != sizeof r)
        die("the party has ended");
}

static bool c_finished(struct party *who, int64_t bound_ms)
{
    struct pollfd wait = {.fd = who->fd, .events = POLLIN};

    return poll(&wait, 1, (int)bound_ms) == 1;
}

static struct outcome c_outcome(struct party *who)
{
    struct outcome outcome;

    if (recv(who->fd, &outcome, sizeof outcome, 0) != sizeof outcome)
        die("the party has ended");
    return outcome;
}

/* ---- a thread --------------------------------------------------------------------------------------------------- */

static void *run_thread(void *arg)
{
    struct c_party *c = arg;

    serve(c);
    free_locks(c);
    close(c->fd);
    free(c);
    return NULL;
}

static void thread_end(struct party *who)
{
    close(who->fd);
    pthread_join(who->thread, NULL);
}

static void thread_kill(struct party *who)
{
    (void)who;
    die("a thread cannot be killed alone");
}

static const struct kind_ops thread_ops = {
    .start = c_start,
    .finished = c_finished,
    .outcome = c_outcome,
    .kill = thread_kill,
    .end = thread_end,
};

static void make_thread(struct party *who, int fd)
{
    struct c_party *c = must_alloc(sizeof *c);
    struct meeting *m = who->meeting;

    if (m->clients[0] == NULL)
        open_clients(m, m->clients);
    *c = (struct c_party){.fd = fd, .name = who->name, .server = m->server[0]};
    memcpy(c->clients, m->clients, sizeof c->clients);
    who->id = must_format("%s", rdl_client_id(m->clients[0]));
    if (pthread_create(&who->thread, NULL, run_thread, c) != 0)
        die("cannot start a thread");
}

/* ---- a process -------------------------------------------------------------------------------------------------- */

/* The first thing that it says is its client's id. */
static _Noreturn void run_process(const struct party *who, int fd)
{
    struct c_party c = {.fd = fd, .name = who->name, .server = who->meeting->server[0]};

    open_clients(who->meeting, c.clients);
    if (send(fd, rdl_client_id(c.clients[0]), 36, MSG_NOSIGNAL) == 36)
        serve(&c);
    free_locks(&c);
    close_clients(c.clients);
    _exit(0);
}

static void process_kill(struct party *who)
{
    if (who->pid == 0)
        return;
    kill(who->pid, SIGKILL);
    while (waitpid(who->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    who->pid = 0;
}

static void process_end(struct party *who)
{
    process_kill(who);
    close(who->fd);
}

static const struct kind_ops process_ops = {
    .start = c_start,
    .finished = c_finished,
    .outcome = c_outcome,
    .kill = process_kill,
    .end = process_end,
};

static void make_process(struct party *who, int fd)
{
    pid_t parent = getpid();
    char id[37] = "";

    fflush(NULL);
    if ((who->pid = fork()) < 0)
        die("fork: %s", strerror(errno));
    if (who->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before the line above */
            _exit(127);
        close(who->fd);
        run_process(who, fd);
    }
    close(fd);
    if (!c_finished(who, ANSWER_BOUND_MS) || recv(who->fd, id, 36, 0) != 36)
        die("the C process does not start");
    who->id = must_format("%s", id);
}

/* ---- Java ------------------------------------------------------------------------------------------------------- */

/* CLIENTS TYPE NAME */
#define JAVA_LOCK "%s %s %s"
#define JAVA_LOCK_OF(who) java_clients[(who)->type->more_servers], (who)->type->name, (who)->java_name

/* Those that a lock is made with, by the number of its servers beside the first. */
static const char *const java_clients[MEETING_SERVERS] = {"client0", "client0+client1", "client0+client1+client2"};

static int64_t java_lease(int64_t lease_ms)
{
    return lease_ms == RDL_LEASE_AUTO ? -1 : lease_ms;
}

static void java_start(struct party *who, const struct request *r)
{
    static const char *const words[] = {
        [UNLOCK] = "unlock",        [FORCE_UNLOCK] = "force", [IS_LOCKED] = "islocked",
        [HOLD_COUNT] = "holdcount", [REMAINING] = "ttl",
    };
    struct peer *peer = who->java->peer;
    long long lease_ms = java_lease(r->verb == ROUNDS || r->verb == MIXED ? r->plan.lease_ms : r->lease_ms);

    who->java_verb = r->verb;
    if (r->verb == TRY_LOCK)
        who->java_id = peer_send(peer, who->java_thread, "trylock " JAVA_LOCK " %lld %lld", JAVA_LOCK_OF(who),
                                 (long long)r->wait_ms, lease_ms);
    else if (r->verb == ROUNDS)
        who->java_id =
            peer_send(peer, who->java_thread, "rounds " JAVA_LOCK " %lld %lld %lld %lld", JAVA_LOCK_OF(who),
                      (long long)r->plan.goal, (long long)r->plan.streak, lease_ms, (long long)r->plan.bound_ms);
    else if (r->verb == MIXED)
        who->java_id =
            peer_send(peer, who->java_thread, "mixed %s %s %lld %lld %lld %lld", java_clients[0], who->java_name,
                      (long long)r->plan.goal, (long long)r->plan.streak, lease_ms, (long long)r->plan.bound_ms);
    else
        who->java_id = peer_send(peer, who->java_thread, "%s " JAVA_LOCK, words[r->verb], JAVA_LOCK_OF(who));
}

static bool java_finished(struct party *who, int64_t bound_ms)
{
    return peer_answered(who->java->peer, who->java_id, bound_ms);
}

/* The value of an answer in the library's terms. */
static int64_t in_our_terms(enum verb verb, const char *value)
{
    switch (verb) {
    case TRY_LOCK:
        return strcmp(value, "true") == 0 ? RDL_OK : RDL_ETIMEDOUT;
    case FORCE_UNLOCK:
    case IS_LOCKED:
        return strcmp(value, "true") == 0;
    case HOLD_COUNT:
        return strtoll(value, NULL, 10);
    case REMAINING:
        return strcmp(value, "-2") == 0 ? 0 : strtoll(value, NULL, 10);
    case UNLOCK:
    case ROUNDS:
    case MIXED:
        break;
    }
    return RDL_OK;
}

static struct outcome java_outcome(struct party *who)
{
    struct outcome outcome = {0};
    const char *answer = peer_answer(who->java->peer, who->java_id, 0);
    const char *value = answer + 2 + (answer[2] == ' ');

    if (strncmp(answer, "fail IllegalMonitorStateException", 33) == 0)
        outcome.result = RDL_ENOTOWNER;
    else if (strncmp(answer, "ok", 2) != 0)
        die("the peer: %s", answer);
    else
        outcome.result = in_our_terms(who->java_verb, value);
    if ((who->java_verb == ROUNDS || who->java_verb == MIXED) &&
        sscanf(value, "%" SCNd64 " %" SCNd64 " %" SCNd64, &outcome.done.rounds, &outcome.done.overlaps,
               &outcome.done.crossings) != 3)
        die("the peer: %s", answer);
    return outcome;
}

static void java_kill(struct party *who)
{
    peer_kill(who->java->peer);
}

/* The peer ends with the meeting. */
static void java_end(struct party *who)
{
    (void)who;
}

static const struct kind_ops java_ops = {
    .start = java_start,
    .finished = java_finished,
    .outcome = java_outcome,
    .kill = java_kill,
    .end = java_end,
};

static void open_java_clients(const struct meeting *m, struct java_side *side)
{
    if (side->peer == NULL)
        side->peer = peer_start();
    for (size_t i = m->servers; i-- > 0;) {
        const char *answer =
            peer_ask(side->peer, "main", "open client%zu %s %lld", i, m->uri[i], (long long)m->watchdog_ms);

        if (strncmp(answer, "ok ", 3) != 0 || strlen(answer + 3) != sizeof side->id - 1)
            die("the peer cannot open its client: %s", answer);
        strcpy(side->id, answer + 3);
    }
}

static void make_java(struct party *who, enum party_kind kind, size_t number)
{
    who->java = &who->meeting->java[kind - PARTY_JAVA];
    if (who->java->id[0] == '\0')
        open_java_clients(who->meeting, who->java);
    who->id = must_format("%s", who->java->id);
    who->java_thread = must_format("t%zu", number);
    who->java_name = peer_word(who->name);
}

/* ---- every kind ------------------------------------------------------------------------------------------------- */

static size_t free_place(const struct meeting *m)
{
    for (size_t i = 0; i < MEETING_MAX_PARTIES; i++) {
        if (m->parties[i] == NULL)
            return i;
    }
    die("more than %d parties", MEETING_MAX_PARTIES);
}

static void make_c(struct party *who, enum party_kind kind)
{
    int ends[2];

    /* Whole messages, and an end that is noticed. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        die("socketpair: %s", strerror(errno));
    who->fd = ends[0];
    if (kind == PARTY_PROCESS)
        make_process(who, ends[1]);
    else
        make_thread(who, ends[1]);
}

struct party *party_on(struct meeting *m, enum party_kind kind, const char *name)
{
    static const struct kind_ops *const ops[] = {
        [PARTY_THREAD] = &thread_ops,
        [PARTY_PROCESS] = &process_ops,
        [PARTY_JAVA] = &java_ops,
        [PARTY_JAVA_2] = &java_ops,
    };
    struct party *who = must_alloc(sizeof *who);
    size_t place = free_place(m);

    *who = (struct party){
        .ops = ops[kind], .meeting = m, .name = must_format("%s", name), .type = type_called(m->type), .fd = -1};
    if (kind >= PARTY_JAVA)
        make_java(who, kind, place);
    else
        make_c(who, kind);
    m->parties[place] = who;
    return who;
}

static void party_end(struct party *who)
{
    if (who == NULL)
        return;
    who->ops->end(who);
    free(who->name);
    free(who->id);
    free(who->java_thread);
    free(who->java_name);
    free(who);
}

void party_turn_to(struct party *who, const char *type)
{
    who->type = type_called(type);
}

void party_kill(struct party *who)
{
    who->ops->kill(who);
}

const char *party_id(const struct party *who)
{
    return who->id;
}

const char *party_java_thread(const struct party *who)
{
    return who->java_thread;
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

void party_start_try(struct party *who, int64_t wait_ms, int64_t lease_ms)
{
    who->ops->start(who, &(struct request){.verb = TRY_LOCK, .wait_ms = wait_ms, .lease_ms = lease_ms});
}

void party_start_rounds(struct party *who, const struct rounds_plan *plan)
{
    who->ops->start(who, &(struct request){.verb = ROUNDS, .plan = *plan});
}

void party_start_mixed(struct party *who, const struct rounds_plan *plan)
{
    who->ops->start(who, &(struct request){.verb = MIXED, .plan = *plan});
}

bool party_finished(struct party *who, int64_t bound_ms)
{
    return who->ops->finished(who, bound_ms);
}

static struct outcome outcome_of(struct party *who, int64_t bound_ms)
{
    if (!party_finished(who, bound_ms))
        die("a call has not ended within %lld ms", (long long)bound_ms);
    return who->ops->outcome(who);
}

int64_t party_result(struct party *who, int64_t bound_ms)
{
    return outcome_of(who, bound_ms).result;
}

struct rounds_done party_rounds(struct party *who, int64_t bound_ms)
{
    struct outcome outcome = outcome_of(who, bound_ms);

    if (outcome.result != RDL_OK)
        die("rounds ended with %s", rdl_strerror((int)outcome.result));
    return outcome.done;
}

static int64_t call(struct party *who, enum verb verb)
{
    who->ops->start(who, &(struct request){.verb = verb});
    return party_result(who, ANSWER_BOUND_MS);
}

int64_t party_try(struct party *who, int64_t wait_ms, int64_t lease_ms)
{
    party_start_try(who, wait_ms, lease_ms);
    return party_result(who, wait_ms + ANSWER_BOUND_MS);
}

int64_t party_unlock(struct party *who)
{
    return call(who, UNLOCK);
}

int64_t party_force_unlock(struct party *who)
{
    return call(who, FORCE_UNLOCK);
}

int64_t party_is_locked(struct party *who)
{
    return call(who, IS_LOCKED);
}

int64_t party_hold_count(struct party *who)
{
    return call(who, HOLD_COUNT);
}

int64_t party_remaining_ms(struct party *who)
{
    return call(who, REMAINING);
}

/* ---- the meeting ------------------------------------------------------------------------------------------------ */

static void start_servers(struct meeting *m)
{
    m->servers = 1 + type_called(m->type)->more_servers;
    for (size_t i = 0; i < m->servers; i++) {
        m->server[i] = server_start(&(struct server_options){.tcp = true});
        m->uri[i] = server_uri(m->server[i]);
    }
}

static const char *cluster_name_of_meetings;

static void start_cluster(struct meeting *m)
{
    m->servers = 1;
    m->cluster = cluster_start(&(struct cluster_options){.patient = true});
    m->server[0] = m->cluster->node[cluster_master(m->cluster, cluster_slot(cluster_name_of_meetings))];
    m->uri[0] = m->cluster->uri;
}

static void start_sentinels(struct meeting *m)
{
    m->servers = 1;
    m->sentinels = sentinels_start(NULL);
    m->server[0] = m->sentinels->data[0];
    m->uri[0] = m->sentinels->uri;
}

static void (*start_deployment)(struct meeting *m) = start_servers;

void meetings_in_a_cluster(const char *name)
{
    cluster_name_of_meetings = name;
    start_deployment = start_cluster;
}

void meetings_behind_sentinels(void)
{
    start_deployment = start_sentinels;
}

static void stop_deployment(struct meeting *m)
{
    for (size_t i = 0; m->cluster == NULL && m->sentinels == NULL && i < m->servers; i++)
        server_stop(m->server[i]);
    cluster_stop(m->cluster);
    sentinels_stop(m->sentinels);
}

void meeting_open(struct meeting *m, const char *type, int64_t watchdog_ms)
{
    *m = (struct meeting){.type = type, .watchdog_ms = watchdog_ms > 0 ? watchdog_ms : 30000};
    m->java[0].peer = peer_start(); /* first: it may skip the test */
    start_deployment(m);
    for (size_t i = 0; i < m->servers; i++)
        m->probes[i] = probe_open(m->server[i]);
    m->probe = m->probes[0];
    m->monitor = monitor_start(m->server[0]);
}

void meeting_look_at(struct meeting *m, const struct server *server)
{
    monitor_stop(m->monitor);
    probe_close(m->probe);
    m->probe = m->probes[0] = probe_open(server);
    m->monitor = monitor_start(server);
}

void meeting_close(struct meeting *m)
{
    close_clients(m->clients);                     /* ends the calls that its threads are in */
    for (size_t i = MEETING_MAX_PARTIES; i-- > 0;) /* a later process keeps the sockets of earlier ones open */
        party_end(m->parties[i]);
    monitor_stop(m->monitor);
    for (size_t i = 0; i < MEETING_PEERS; i++)
        peer_stop(m->java[i].peer);
    for (size_t i = 0; i < m->servers; i++)
        probe_close(m->probes[i]);
    stop_deployment(m);
}
