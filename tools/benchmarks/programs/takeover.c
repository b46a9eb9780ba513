/* SPDX-License-Identifier: MIT */
/* takeover.c - a holder is killed: how much later than the end of its lease has the waiter got the lock?
 *
 * Nothing can be sooner than the lease, which the server ends at a time that it tells (PEXPIRETIME). */
#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/processes.h"
#include "tools/benchmarks/programs/traffic.h"

#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOCK "bench:taken-over"
#define DEAD_LEASE_MS 200

/* Shared with the holders, which are forked before this process has threads, and wait for their turn. */
struct holder {
    const struct run *run;
    sem_t go;
    sem_t held;
};

static void hold(void *arg)
{
    struct holder *holder = arg;
    struct run run = *holder->run;
    const struct kind_ops *ops = kind_of(&run)->ops;
    void *common;

    run.lease_ms = DEAD_LEASE_MS;
    (void)sem_wait(&holder->go);
    common = ops->start(&run, run.server);
    ops->take(ops->join(common, LOCK));
    (void)sem_post(&holder->held);
    for (;;)
        (void)pause();
}

static int64_t wall_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * SEC + t.tv_nsec;
}

/* When the present lease ends, on the wall clock. */
static int64_t lease_ends(redisContext *c)
{
    struct request request = {0};
    redisReply *reply;
    int64_t ms;

    request_add(&request, "PEXPIRETIME");
    request_add(&request, LOCK);
    reply = ask(c, &request);
    ms = reply->integer;
    freeReplyObject(reply);
    if (ms < 0)
        fail("the dead holder's lease was over before anybody waited");
    return ms * MS;
}

void measure_takeover(const struct run *run)
{
    const struct kind_ops *ops = kind_of(run)->ops;
    struct holder *holders = share((size_t)run->rounds * sizeof *holders);
    pid_t *pids = allocate((size_t)run->rounds, sizeof *pids);
    struct samples late = {0};
    redisContext *second;
    void *common;
    void *party;

    for (int64_t i = 0; i < run->rounds; i++) {
        holders[i].run = run;
        if (sem_init(&holders[i].go, 1, 0) < 0 || sem_init(&holders[i].held, 1, 0) < 0)
            fail("no semaphores");
        pids[i] = spawn(hold, &holders[i]);
    }
    second = connect_to(run->server);
    common = ops->start(run, run->server);
    party = ops->join(common, LOCK);
    for (int64_t i = 0; i < run->rounds; i++) {
        int64_t end;

        (void)sem_post(&holders[i].go);
        (void)sem_wait(&holders[i].held);
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
        end = lease_ends(second);
        ops->take(party);
        samples_add(&late, wall_ns() - end);
        ops->release(party);
    }
    answer_samples("late_", &late);
    answer_end();
    ops->part(party);
    ops->stop(common);
    redisFree(second);
    samples_done(&late);
    free(pids);
}
