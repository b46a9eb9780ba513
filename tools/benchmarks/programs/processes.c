/* SPDX-License-Identifier: MIT */
/* processes.c - N processes on one lock, each with --threads, nothing done inside, and see processes.h.
 *
 * What counts are changes of owner: a thread that takes the lock again makes none. One that slept beside a free lock
 * would show as a long gap between a release and the next take, or as a long wait.
 *
 * turns: they do not compete but come one after the other, and in its turn each thread of a process takes the lock
 * once.
 */
#include "tools/benchmarks/programs/processes.h"

#include "tools/benchmarks/programs/kind.h"
#include "tools/benchmarks/programs/tally.h"
#include "tools/benchmarks/programs/traffic.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t spawn(void (*body)(void *arg), void *arg)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        fail("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        body(arg);
    _exit(0);
}

void reap(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            fail("waitpid: %s", strerror(errno));
    if (status != 0)
        fail("a process of the measurement did not end well");
}

/* Shared. What the lock guards is touched by its holder only, but for the counters that are looked at from outside. */
struct field {
    const struct run *run;
    _Atomic int64_t start, end; /* of what is measured; known when all have connected */
    _Atomic int64_t connected;
    _Atomic int64_t inside; /* 1: somebody is */
    _Atomic int64_t changes;
    _Atomic int64_t pairs;
    _Atomic int64_t longest_gap;
    _Atomic int64_t longest_wait;
    int64_t last; /* who had it */
    int64_t released_at;
};

/* A process, and one of its threads. */
struct place {
    struct field *field;
    int64_t number;     /* of the process; of a thread of one, among all threads */
    sem_t *turn, *next; /* its own and the next one's; NULL: all compete */
    bool *over;         /* this was the last turn */
    pthread_barrier_t *together;
    bool first; /* of its threads */
    void *party;
};

/* Is there another take? By turns the first thread waits and decides, for all of its process. */
static bool goes_on(const struct place *place)
{
    if (place->turn == NULL)
        return now_ns() < place->field->end;
    if (place->first) {
        (void)sem_wait(place->turn);
        *place->over = now_ns() >= place->field->end;
    }
    (void)pthread_barrier_wait(place->together);
    return !*place->over;
}

static void turn_ends(const struct place *place)
{
    if (place->turn == NULL)
        return;
    (void)pthread_barrier_wait(place->together);
    if (place->first)
        (void)sem_post(place->next);
}

static void inside(struct field *field, int64_t me, int64_t asked_at)
{
    int64_t now = now_ns();

    if (atomic_exchange(&field->inside, 1) != 0)
        fail("two hold one lock");
    if (field->last != me)
        atomic_fetch_add(&field->changes, 1);
    atomic_fetch_add(&field->pairs, 1);
    if (asked_at >= field->start && now < field->end) {
        raise_to(&field->longest_wait, now - asked_at);
        if (field->released_at >= field->start)
            raise_to(&field->longest_gap, now - field->released_at);
    }
    field->last = me;
    atomic_store(&field->inside, 0);
    field->released_at = now_ns();
}

static void *contend(void *arg)
{
    const struct place *place = arg;
    struct field *field = place->field;
    const struct kind_ops *ops = kind_of(field->run)->ops;

    while (goes_on(place)) {
        int64_t asked_at = now_ns();

        ops->take(place->party);
        inside(field, place->number, asked_at);
        ops->release(place->party);
        turn_ends(place);
    }
    return NULL;
}

static void be_process(void *arg)
{
    const struct place *place = arg;
    const struct run *run = place->field->run;
    const struct kind_ops *ops = kind_of(run)->ops;
    void *common = ops->start(run, run->server);
    struct place *places = allocate((size_t)run->threads, sizeof *places);
    pthread_barrier_t together;
    bool over = false;

    (void)pthread_barrier_init(&together, NULL, (unsigned)run->threads);
    for (int64_t i = 0; i < run->threads; i++) {
        places[i] = *place;
        places[i].number = place->number * run->threads + i;
        places[i].together = &together;
        places[i].over = &over;
        places[i].first = i == 0;
        places[i].party = ops->join(common, "bench:contended");
    }
    atomic_fetch_add(&place->field->connected, 1);
    run_threads(run->threads, contend, places, sizeof *places);
    if (place->turn != NULL)
        (void)sem_post(place->next); /* who may end as well */
    for (int64_t i = 0; i < run->threads; i++)
        ops->part(places[i].party);
    ops->stop(common);
    free(places);
}

static void measure(const struct run *run, bool by_turns)
{
    sem_t *turns = share((size_t)run->processes * sizeof *turns);
    struct field *field = share(sizeof *field);
    struct place *places = allocate((size_t)run->processes, sizeof *places);
    pid_t *pids = allocate((size_t)run->processes, sizeof *pids);
    redisContext *c;
    struct tally from;
    struct tally to;
    struct phase phase;
    int64_t changes, pairs;

    field->run = run;
    field->start = field->end = INT64_MAX;
    field->last = -1;
    for (int64_t i = 0; i < run->processes; i++) {
        places[i] = (struct place){.field = field, .number = i};
        if (by_turns) {
            places[i].turn = &turns[i];
            places[i].next = &turns[(i + 1) % run->processes];
            if (sem_init(places[i].turn, 1, i == 0 ? 1 : 0) < 0)
                fail("no semaphores");
        }
        pids[i] = spawn(be_process, &places[i]);
    }
    c = connect_to(run->server);
    while (atomic_load(&field->connected) < run->processes)
        pause_ns(MS);
    phase = phase_from_now(run);
    field->start = phase.start;
    field->end = phase.end;
    sleep_until(phase.start);
    changes = -atomic_load(&field->changes);
    pairs = -atomic_load(&field->pairs);
    from = tally_read(c, NULL);
    sleep_until(phase.end);
    changes += atomic_load(&field->changes);
    pairs += atomic_load(&field->pairs);
    to = tally_read(c, NULL);
    for (int64_t i = 0; i < run->processes; i++)
        reap(pids[i]);
    if (changes == 0)
        fail("the lock never changed hands");
    answer_number("count", (double)changes);
    answer_number("per_second", (double)changes / run->seconds);
    answer_number("longest_gap_ms", (double)atomic_load(&field->longest_gap) / (double)MS);
    answer_number("longest_wait_ms", (double)atomic_load(&field->longest_wait) / (double)MS);
    tally_answer(&from, &to, (double)changes);
    answer_number("pairs_per_second", (double)pairs / run->seconds);
    answer_number("commands_a_pair", (to.commands - from.commands) / (double)pairs);
    answer_end();
    redisFree(c);
    free(places);
    free(pids);
}

void measure_processes(const struct run *run)
{
    measure(run, false);
}

void measure_turns(const struct run *run)
{
    measure(run, true);
}
