/* SPDX-License-Identifier: MIT */
/* handoff.c - from one process to another: from before the holder releases until the waiter has the lock.
 *
 * The waiter has been waiting for a while when the holder releases, and nobody else wants the lock. With --far MS the
 * waiter alone is behind a proxy that delays so long each way: the message to it, its request and the answer are three
 * hops. What three hops take is measured by PING over the same proxy, which is two.
 *
 * Beside it, recall: the holder's client keeps the lock after the release, and somebody else, who has no such option,
 * wants it: from before the call until it has the lock. */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/processes.h"
#include "tools/benchmarks/programs/traffic.h"

#include "tests/support/proxy.h"
#include "tests/support/server.h"

#include <semaphore.h>

#define LOCK "bench:handed"

/* Long enough for the waiter to be asleep: a try, the subscription, another try, each two hops, and as much again. */
#define WAITING_HOPS 12
#define WAITING_NS (5 * MS)

/* Shared by the two. */
struct table {
    const struct run *run;
    const char *server;  /* the holder's */
    sem_t held;          /* the holder has the lock */
    sem_t asking;        /* the waiter is about to ask for it */
    sem_t done;          /* the waiter had it, and it is free again */
    int64_t released_at; /* or asked for */
    bool over;
};

/* For as long as it takes its client to keep it, and a few more, so that keeping it was worth it. */
static void have_kept(const struct kind_ops *ops, void *party, redisContext *c)
{
    enum { USED = 8 };
    struct request exists = {0};

    request_add(&exists, "EXISTS");
    request_add(&exists, LOCK);
    for (int used = 0; used < USED;) {
        redisReply *reply;

        ops->take(party);
        ops->release(party);
        reply = ask(c, &exists);
        used = reply->integer == 1 ? used + 1 : 0;
        freeReplyObject(reply);
    }
}

static void keep(void *arg)
{
    struct table *table = arg;
    const struct kind_ops *ops = kind_of(table->run)->ops;
    void *common = ops->start(table->run, table->server);
    void *party = ops->join(common, LOCK);
    redisContext *c = connect_to(table->server);

    do {
        have_kept(ops, party, c);
        (void)sem_post(&table->held);
        (void)sem_wait(&table->done);
    } while (!table->over);
    ops->part(party);
    ops->stop(common);
    redisFree(c);
}

static void hold_and_release(void *arg)
{
    struct table *table = arg;
    const struct kind_ops *ops = kind_of(table->run)->ops;
    void *common = ops->start(table->run, table->server);
    void *party = ops->join(common, LOCK);

    for (;;) {
        ops->take(party);
        (void)sem_post(&table->held);
        (void)sem_wait(&table->asking);
        pause_ns(WAITING_NS + WAITING_HOPS * table->run->far_ms * MS);
        table->released_at = now_ns();
        ops->release(party);
        (void)sem_wait(&table->done);
        if (table->over)
            break;
    }
    ops->part(party);
    ops->stop(common);
}

static void wait_and_take(struct table *table, const struct run *run, const char *server, bool recalls,
                          struct samples *samples)
{
    const struct kind_ops *ops = kind_of(run)->ops;
    void *common = ops->start(run, server);
    void *party = ops->join(common, LOCK);
    struct phase phase = phase_from_now(run);

    while (!table->over) {
        int64_t now;

        (void)sem_wait(&table->held);
        if (recalls) {
            pause_ns(WAITING_NS); /* as idle as all are in a hand-off */
            table->released_at = now_ns();
        } else {
            (void)sem_post(&table->asking);
        }
        ops->take(party);
        now = now_ns();
        if (table->released_at >= phase.start && now <= phase.end)
            samples_add(samples, now - table->released_at);
        ops->release(party);
        table->over = now >= phase.end;
        (void)sem_post(&table->done);
    }
    ops->part(party);
    ops->stop(common);
}

static struct table *lay(const struct run *run)
{
    struct table *table = share(sizeof *table);

    table->run = run;
    table->server = run->server;
    if (sem_init(&table->held, 1, 0) < 0 || sem_init(&table->asking, 1, 0) < 0 || sem_init(&table->done, 1, 0) < 0)
        fail("no semaphores");
    return table;
}

void measure_recall(const struct run *run)
{
    struct table *table = lay(run);
    struct run outsider = *run;
    struct samples samples = {0};
    pid_t holder = spawn(keep, table);

    outsider.kind = "redlatch";
    wait_and_take(table, &outsider, run->server, true, &samples);
    reap(holder);
    answer_samples("", &samples);
    answer_end();
    samples_done(&samples);
}

void measure_handoff(const struct run *run)
{
    struct table *table = lay(run);
    struct server *server = run->far_ms > 0 ? server_start(NULL) : NULL;
    struct proxy *proxy = NULL;
    const char *waiters = run->server;
    struct samples samples = {0};
    struct samples round_trips = {0};
    pid_t holder;

    if (server != NULL)
        table->server = server_uri(server);
    holder = spawn(hold_and_release, table);
    if (server != NULL) {
        proxy = proxy_start(server);
        proxy_delay(proxy, PROXY_BOTH_WAYS, run->far_ms);
        waiters = proxy_uri(proxy);
        ping(waiters, &round_trips);
    }
    wait_and_take(table, run, waiters, false, &samples);
    reap(holder);
    answer_samples("", &samples);
    if (proxy != NULL)
        answer_samples("ping_", &round_trips);
    answer_end();
    proxy_stop(proxy);
    server_stop(server);
    samples_done(&samples);
    samples_done(&round_trips);
}
