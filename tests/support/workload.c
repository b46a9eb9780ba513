/* SPDX-License-Identifier: MIT */
/* workload.c - see workload.h. */
#include "tests/support/workload.h"

#include "tests/support/stage.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 1000
#define LEASE_MS 5000
#define BEGIN_BOUND_MS 60000
#define STOP_BOUND_MS 20000
#define TOLD_BOUND_MS 4000 /* less than the lease, whose end tells everybody */
#define HOLD_MOST_MS 20    /* now and then somebody stays inside for up to that */
#define NOW_AND_THEN 4
#define PROCESSES_MAX 8
#define THREADS_MAX 64
#define CLASHES_MAX 1024

/* Two turns of which only one can have been rightful. */
struct clash {
    int64_t turn[2];
    bool told; /* one of the two was */
};

/* What a lock guards. */
struct reg {
    pthread_mutex_t mu;
    int64_t newest; /* token of the last write, */
    int64_t writer; /* the turn it was of, */
    bool overtaken; /* and was that one told of its loss */
    int last;       /* process that gave it back last, from 1 */
    int64_t begun;  /* turns */
    int64_t calm;   /* turns with a higher number must be alone */
    int64_t inside[THREADS_MAX];
    int inside_count;
    struct clash clash[CLASHES_MAX];
    int clash_count;
    int64_t rounds, turns, refused, overlaps, amiss, unnoted;
};

struct shared {
    struct reg reg[WORKLOAD_LOCKS_MAX];
    atomic_bool begun; /* the URI is there */
    atomic_bool stop;
    char uri[512];
};

struct workload {
    struct workload_plan plan; /* what it points to is the caller's, and only used while starting */
    struct shared *shared;
    pid_t process[PROCESSES_MAX];
};

struct worker {
    rdl_lock_t *lock;
    struct reg *reg;
    bool kept;
    atomic_bool *stop;
    int process; /* from 1 */
    unsigned seed;
};

/* One hold of one worker. */
struct turn {
    int64_t number, token;
    bool refused;
};

/* ---- registers -------------------------------------------------------------------------------------------------- */

static void reg_init(struct reg *reg)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&reg->mu, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* @locks mu */
static bool is_of(const struct clash *clash, int64_t turn)
{
    return clash->turn[0] == turn || clash->turn[1] == turn;
}

/* @locks mu */
static void note_clash(struct reg *reg, int64_t one, int64_t other, bool told)
{
    for (int i = 0; i < reg->clash_count; i++)
        if (is_of(&reg->clash[i], one) && is_of(&reg->clash[i], other))
            return;
    reg->amiss += one > reg->calm && other > reg->calm;
    if (reg->clash_count == CLASHES_MAX)
        reg->unnoted++;
    else
        reg->clash[reg->clash_count++] = (struct clash){.turn = {one, other}, .told = told};
}

static int64_t enter(struct reg *reg)
{
    int64_t turn;

    pthread_mutex_lock(&reg->mu);
    turn = ++reg->begun;
    reg->overlaps += reg->inside_count > 0;
    for (int i = 0; i < reg->inside_count; i++)
        note_clash(reg, reg->inside[i], turn, false);
    reg->inside[reg->inside_count++] = turn;
    pthread_mutex_unlock(&reg->mu);
    return turn;
}

static void leave(struct reg *reg, int64_t turn)
{
    int i = 0;

    pthread_mutex_lock(&reg->mu);
    while (reg->inside[i] != turn)
        i++;
    reg->inside[i] = reg->inside[--reg->inside_count];
    pthread_mutex_unlock(&reg->mu);
}

static void write_to(struct reg *reg, struct turn *turn)
{
    pthread_mutex_lock(&reg->mu);
    if (turn->token > reg->newest) {
        reg->newest = turn->token;
        reg->writer = turn->number;
        reg->overtaken = false;
    } else if (reg->writer != turn->number) {
        turn->refused = true;
        reg->refused++;
        note_clash(reg, reg->writer, turn->number, reg->overtaken);
    }
    pthread_mutex_unlock(&reg->mu);
}

/* Is there another who cannot have been right if this one was, and was nobody told so far? */
static bool clashes(struct reg *reg, int64_t turn)
{
    bool found = false;

    pthread_mutex_lock(&reg->mu);
    for (int i = 0; i < reg->clash_count; i++)
        found = found || (is_of(&reg->clash[i], turn) && !reg->clash[i].told);
    pthread_mutex_unlock(&reg->mu);
    return found;
}

static void note_told(struct reg *reg, int64_t turn)
{
    pthread_mutex_lock(&reg->mu);
    for (int i = 0; i < reg->clash_count; i++)
        reg->clash[i].told = reg->clash[i].told || is_of(&reg->clash[i], turn);
    reg->overtaken = reg->overtaken || reg->writer == turn;
    pthread_mutex_unlock(&reg->mu);
}

/* Given back in order. */
static void note_round(struct reg *reg, int process)
{
    pthread_mutex_lock(&reg->mu);
    reg->rounds++;
    reg->turns += reg->last != process;
    reg->last = process;
    pthread_mutex_unlock(&reg->mu);
}

static int64_t rounds_of(struct reg *reg)
{
    int64_t rounds;

    pthread_mutex_lock(&reg->mu);
    rounds = reg->rounds;
    pthread_mutex_unlock(&reg->mu);
    return rounds;
}

/* ---- in the processes ------------------------------------------------------------------------------------------- */

static bool is_told(const struct worker *w)
{
    int state = rdl_hold_state(w->lock, NULL);

    return state == RDL_LOST || state == RDL_AT_RISK;
}

/* Held: write, stay now and then, and write again. */
static struct turn be_inside(struct worker *w, int64_t token)
{
    struct turn turn = {.number = enter(w->reg), .token = token};

    if (w->kept)
        turn.token = turn.number;
    write_to(w->reg, &turn);
    if (rand_r(&w->seed) % NOW_AND_THEN == 0)
        let_pass_ms(1 + rand_r(&w->seed) % HOLD_MOST_MS);
    write_to(w->reg, &turn);
    leave(w->reg, turn.number);
    return turn;
}

/* And give it back. One of two who clash is wrong, and may not have heard of the new master yet: so both keep their
 * holds until one of them is told. */
static void have_turn(struct worker *w, int64_t token)
{
    struct turn turn = be_inside(w, token);
    bool told = clashes(w->reg, turn.number) &&
                WAIT_UNTIL(is_told(w) || !clashes(w->reg, turn.number), TOLD_BOUND_MS) && is_told(w);

    if (told)
        note_told(w->reg, turn.number);
    if (rdl_unlock(w->lock, NULL) != RDL_OK)
        note_told(w->reg, turn.number);
    else if (!turn.refused)
        note_round(w->reg, w->process);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    while (!atomic_load(w->stop)) {
        int64_t token;

        if (rdl_try_lock(w->lock, WAIT_MS, w->kept ? RDL_LEASE_AUTO : LEASE_MS, NULL) != RDL_OK)
            continue;
        if (w->kept)
            have_turn(w, 0);
        else if ((token = rdl_token(w->lock, NULL)) > 0)
            have_turn(w, token);
        else /* lost already */
            (void)rdl_unlock(w->lock, NULL);
    }
    return NULL;
}

static _Noreturn void run_process(const struct workload *w, int number)
{
    rdl_lock_t *lock[WORKLOAD_LOCKS_MAX];
    struct worker worker[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    rdl_client_t *client;
    int threads = 0;

    if (!WAIT_UNTIL(atomic_load(&w->shared->begun), BEGIN_BOUND_MS))
        die("the workload does not begin");
    client = client_open(w->shared->uri, OPTIONS(.watchdog_lease_ms = LEASE_MS));
    for (size_t i = 0; i < w->plan.locks; i++) {
        lock[i] = reentrant(client, w->plan.names[i],
                            LOCK_OPTIONS(.fencing = w->plan.cache_ms > 0 ? RDL_FENCING_DEFAULT : RDL_FENCING_TIME,
                                         .cache_ms = w->plan.cache_ms));
        for (int j = 0; j < w->plan.threads; j++, threads++) {
            worker[threads] = (struct worker){
                .lock = lock[i],
                .reg = &w->shared->reg[i],
                .kept = w->plan.cache_ms > 0,
                .stop = &w->shared->stop,
                .process = number,
                .seed = (unsigned)(number * THREADS_MAX + threads),
            };
            if (pthread_create(&thread[threads], NULL, work, &worker[threads]) != 0)
                die("cannot start a thread");
        }
    }
    while (threads > 0)
        pthread_join(thread[--threads], NULL);
    for (size_t i = 0; i < w->plan.locks; i++)
        rdl_lock_free(lock[i]);
    rdl_client_close(client);
    _exit(0);
}

/* ---- in the test ------------------------------------------------------------------------------------------------ */

static pid_t start_process(const struct workload *w, int number)
{
    pid_t parent = getpid(), child;

    fflush(NULL);
    if ((child = fork()) < 0)
        die("fork: %s", strerror(errno));
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(127);
    run_process(w, number);
}

struct workload *workload_start(const struct workload_plan *plan)
{
    struct workload *w = must_alloc(sizeof *w);

    if (plan->locks > WORKLOAD_LOCKS_MAX || plan->processes > PROCESSES_MAX ||
        (int)plan->locks * plan->threads > THREADS_MAX)
        die("a workload of that size is not provided for");
    w->plan = *plan;
    w->shared = mmap(NULL, sizeof *w->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->shared == MAP_FAILED)
        die("mmap: %s", strerror(errno));
    for (size_t i = 0; i < plan->locks; i++)
        reg_init(&w->shared->reg[i]);
    for (int i = 0; i < plan->processes; i++)
        w->process[i] = start_process(w, i + 1);
    if (plan->uri != NULL)
        workload_begin(w, plan->uri);
    return w;
}

void workload_begin(struct workload *w, const char *uri)
{
    if (strlen(uri) >= sizeof w->shared->uri)
        die("%s: too long for a workload", uri);
    memcpy(w->shared->uri, uri, strlen(uri) + 1);
    atomic_store(&w->shared->begun, true);
}

static bool all_reached(struct workload *w, const int64_t *goal)
{
    for (size_t i = 0; i < w->plan.locks; i++)
        if (rounds_of(&w->shared->reg[i]) < goal[i])
            return false;
    return true;
}

bool workload_goes_on(struct workload *w, int64_t more, int64_t bound_ms)
{
    int64_t goal[WORKLOAD_LOCKS_MAX];
    bool met;

    for (size_t i = 0; i < w->plan.locks; i++)
        goal[i] = rounds_of(&w->shared->reg[i]) + more;
    met = WAIT_UNTIL(all_reached(w, goal), bound_ms);
    for (size_t i = 0; !met && i < w->plan.locks; i++)
        fprintf(stderr, "lock %zu: %lld rounds of %lld\n", i, (long long)rounds_of(&w->shared->reg[i]),
                (long long)goal[i]);
    return met;
}

static void set_calm(struct workload *w, bool calm)
{
    for (size_t i = 0; i < w->plan.locks; i++) {
        struct reg *reg = &w->shared->reg[i];

        pthread_mutex_lock(&reg->mu);
        reg->calm = calm ? reg->begun : INT64_MAX;
        pthread_mutex_unlock(&reg->mu);
    }
}

void workload_harm(struct workload *w)
{
    set_calm(w, false);
}

void workload_calm(struct workload *w)
{
    set_calm(w, true);
}

static void end_process(pid_t process)
{
    int status = -1;

    if (!WAIT_UNTIL(waitpid(process, &status, WNOHANG) == process, STOP_BOUND_MS)) {
        kill(process, SIGKILL);
        die("a process of the workload does not end");
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die("a process of the workload ended with status %#x", (unsigned)status);
}

struct workload_sum workload_stop(struct workload *w)
{
    struct workload_sum sum = {0};

    atomic_store(&w->shared->stop, true);
    for (int i = 0; i < w->plan.processes; i++)
        end_process(w->process[i]);
    for (size_t i = 0; i < w->plan.locks; i++) {
        const struct reg *reg = &w->shared->reg[i];

        sum.rounds += reg->rounds;
        sum.turns += reg->turns;
        sum.refused += reg->refused;
        sum.overlaps += reg->overlaps;
        sum.amiss += reg->amiss;
        sum.strange += reg->unnoted;
        for (int j = 0; j < reg->clash_count; j++)
            sum.strange += !reg->clash[j].told;
    }
    munmap(w->shared, sizeof *w->shared);
    free(w);
    return sum;
}
