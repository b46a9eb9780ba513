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
#define PROCESSES_MAX 8
#define THREADS_MAX 64

/* What a lock guards. */
struct reg {
    _Atomic int64_t newest; /* token of the last write */
    atomic_int inside;
    atomic_int last; /* process that wrote last, from 1 */
    _Atomic int64_t rounds, turns, refused, strange, overlaps;
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
    atomic_bool *stop;
    int process; /* from 1 */
};

/* ---- in the processes ---------------------------------------------------------------------------------------------------- */

static bool write_with(struct reg *reg, int64_t token)
{
    int64_t newest = atomic_load(&reg->newest);

    do {
        if (token <= newest) {
            atomic_fetch_add(&reg->refused, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&reg->newest, &newest, token));
    return true;
}

static bool write_alone(struct reg *reg, int64_t token)
{
    bool accepted;

    if (atomic_fetch_add(&reg->inside, 1) != 0)
        atomic_fetch_add(&reg->overlaps, 1);
    accepted = write_with(reg, token);
    atomic_fetch_sub(&reg->inside, 1);
    return accepted;
}

/* Held: write, and give it back. Whoever was overtaken must be told so in the end. */
static void have_turn(const struct worker *w, int64_t token)
{
    bool accepted = write_alone(w->reg, token);
    bool turn = atomic_exchange(&w->reg->last, w->process) != w->process;

    if (rdl_unlock(w->lock, NULL) != RDL_OK)
        return;
    atomic_fetch_add(accepted ? &w->reg->rounds : &w->reg->strange, 1);
    atomic_fetch_add(&w->reg->turns, turn ? 1 : 0);
}

static void *work(void *arg)
{
    const struct worker *w = arg;

    while (!atomic_load(w->stop)) {
        int64_t token;

        if (rdl_try_lock(w->lock, WAIT_MS, LEASE_MS, NULL) != RDL_OK)
            continue;
        if ((token = rdl_token(w->lock, NULL)) > 0)
            have_turn(w, token);
        else /* lost already */
            (void)rdl_unlock(w->lock, NULL);
    }
    return NULL;
}

static _Noreturn void run_process(const struct workload *w, int number)
{
    struct worker worker[WORKLOAD_LOCKS_MAX];
    pthread_t thread[THREADS_MAX];
    rdl_client_t *client;
    int threads = 0;

    if (!WAIT_UNTIL(atomic_load(&w->shared->begun), BEGIN_BOUND_MS))
        die("the workload does not begin");
    client = client_open(w->shared->uri, NULL);
    for (size_t i = 0; i < w->plan.locks; i++) {
        worker[i] = (struct worker){
            .lock = reentrant(client, w->plan.names[i], LOCK_OPTIONS(.fencing = RDL_FENCING_TIME)),
            .reg = &w->shared->reg[i],
            .stop = &w->shared->stop,
            .process = number,
        };
        for (int j = 0; j < w->plan.threads; j++)
            if (pthread_create(&thread[threads++], NULL, work, &worker[i]) != 0)
                die("cannot start a thread");
    }
    while (threads > 0)
        pthread_join(thread[--threads], NULL);
    for (size_t i = 0; i < w->plan.locks; i++)
        rdl_lock_free(worker[i].lock);
    rdl_client_close(client);
    _exit(0);
}

/* ---- in the test --------------------------------------------------------------------------------------------------------- */

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

static bool all_reached(const struct workload *w, const int64_t *goal)
{
    for (size_t i = 0; i < w->plan.locks; i++)
        if (atomic_load(&w->shared->reg[i].rounds) < goal[i])
            return false;
    return true;
}

bool workload_goes_on(struct workload *w, int64_t more, int64_t bound_ms)
{
    int64_t goal[WORKLOAD_LOCKS_MAX];
    bool met;

    for (size_t i = 0; i < w->plan.locks; i++)
        goal[i] = atomic_load(&w->shared->reg[i].rounds) + more;
    met = WAIT_UNTIL(all_reached(w, goal), bound_ms);
    for (size_t i = 0; !met && i < w->plan.locks; i++)
        fprintf(stderr, "lock %zu: %lld rounds of %lld\n", i, (long long)atomic_load(&w->shared->reg[i].rounds),
                (long long)goal[i]);
    return met;
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

        sum.rounds += atomic_load(&reg->rounds);
        sum.turns += atomic_load(&reg->turns);
        sum.refused += atomic_load(&reg->refused);
        sum.strange += atomic_load(&reg->strange);
        sum.overlaps += atomic_load(&reg->overlaps);
    }
    munmap(w->shared, sizeof *w->shared);
    free(w);
    return sum;
}
