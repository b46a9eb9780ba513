/* SPDX-License-Identifier: MIT */
/* driver.c - one run, or many shared out among processes (driver.h).
 *
 * The k-th of N processes takes every N-th number from the first + k on, and notes where it is in memory that all of
 * them see. So a number that kills its process is known. When one of them has found something the others are stopped,
 * and the number is run again here, to show it.
 *
 * The last line of many runs says how fast they were. An operation is one verb that a caller calls, from its call to
 * its answer, however many commands, retries and renewals that takes; a second is one of a processor's.
 */
#include "tests/sim/driver.h"

#include "tests/sim/world.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAIL_LINES 60
#define JOBS_MAX 64

struct wish {
    uint64_t first, last, jobs;
    bool verbose;
};

static const struct mode *mode; /* chosen */

/* One process's share of the runs. */
struct share {
    uint64_t seed; /* under way, or the one that broke a claim */
    uint64_t runs;
    int64_t operations, events;
    double seconds;
    pid_t process;
    bool ended;
};

static bool number(const char *text, const char **ret_end, uint64_t *ret)
{
    char *end;

    if (text == NULL || *text < '0' || *text > '9')
        return false;
    *ret = strtoull(text, &end, 10);
    *ret_end = end;
    return true;
}

static uint64_t processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;
}

/* Is it the option of one of the modes, which is then chosen? */
static bool mode_chosen(const struct mode *modes, const char *option)
{
    for (; modes->run != NULL; modes++) {
        if (strcmp(modes->option, option) != 0)
            continue;
        mode = modes;
        return true;
    }
    return false;
}

static bool read_wish(int argc, char **argv, const struct mode *modes, struct wish *wish)
{
    bool some = false;
    const char *end;

    mode = modes;

    *wish = (struct wish){.jobs = processors()};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            wish->verbose = true;
        } else if (mode_chosen(modes, argv[i])) {
            continue;
        } else if (strcmp(argv[i], "--seed") == 0 && number(argv[i + 1], &end, &wish->first) && *end == '\0') {
            wish->last = wish->first;
            some = true;
            i++;
        } else if (strcmp(argv[i], "--seeds") == 0 && number(argv[i + 1], &end, &wish->first) &&
                   strncmp(end, "..", 2) == 0 && number(end + 2, &end, &wish->last) && *end == '\0') {
            some = true;
            i++;
        } else if (strcmp(argv[i], "--jobs") == 0 && number(argv[i + 1], &end, &wish->jobs) && *end == '\0' &&
                   wish->jobs > 0) {
            i++;
        } else {
            return false;
        }
    }
    wish->jobs = wish->jobs < JOBS_MAX ? wish->jobs : JOBS_MAX;
    return some && wish->first <= wish->last;
}

static const char *tail_of(const char *text, size_t len)
{
    size_t lines = 0;

    while (len > 0 && lines <= TAIL_LINES)
        lines += text[--len] == '\n';
    return len > 0 ? text + len + 1 : text;
}

/* Once more, now telling what happens, and the end of that. */
static void show_run(uint64_t seed)
{
    const char *text, *tail;
    size_t len;

    world_trace(TRACE_KEPT);
    (void)mode->run(seed);
    text = world_story(&len);
    tail = tail_of(text, len);
    (void)fwrite(tail, 1, len - (size_t)(tail - text), stdout);
}

/* What the run came to, and whether it broke a claim. */
static bool report(const char *self, uint64_t seed, const struct outcome *outcome)
{
    char broken[512];

    if (outcome->broken == NULL)
        return false;
    (void)snprintf(broken, sizeof broken, "%s", outcome->broken);
    if (!outcome->over)
        (void)printf("seed %" PRIu64 " does not come to an end\n", seed);
    else if (!world_tracing())
        show_run(seed);
    (void)printf("seed %" PRIu64 ": %s\nreplay: %s%s%s --seed %" PRIu64 " -v\n", seed, broken, self,
                 mode->option[0] == '\0' ? "" : " ", mode->option, seed);
    return true;
}

/* Of the processor: what else runs on the machine is not the simulator's speed. */
static double seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Every step-th number from the first on; false at the first that breaks a claim. */
static bool run_share(struct share *share, uint64_t first, uint64_t last, uint64_t step)
{
    double began = seconds();
    bool held = true;

    for (share->seed = first; held && share->seed <= last; share->seed += held ? step : 0) {
        struct outcome outcome = mode->run(share->seed);

        held = outcome.broken == NULL;
        share->runs++;
        share->operations += outcome.operations;
        share->events += outcome.events;
    }
    share->seconds = seconds() - began;
    return held;
}

static bool start(struct share *share, const struct wish *wish, uint64_t k)
{
    pid_t parent = getpid(), child = fork();

    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(getppid() == parent && run_share(share, wish->first + k, wish->last, wish->jobs)
                 ? 0
                 : 1); /* the leaks are looked for */
    }
    if (child < 0)
        perror("fork");
    share->process = child; /* only here: the child sees this memory, too */
    return child > 0;
}

static struct share *share_of(struct share *shares, uint64_t n, pid_t process)
{
    for (uint64_t k = 0; k < n; k++) {
        if (shares[k].process == process)
            return &shares[k];
    }
    return NULL;
}

static void stop(struct share *shares, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++) {
        if (shares[k].process > 0 && !shares[k].ended)
            (void)kill(shares[k].process, SIGKILL);
    }
}

/* Waits for all of them. At the first that did not end well the others are stopped. */
static struct share *wait_for_shares(struct share *shares, uint64_t n, int *ret_status)
{
    struct share *bad = NULL;
    pid_t process;
    int status;

    while ((process = wait(&status)) > 0 || errno == EINTR) {
        struct share *share = process > 0 ? share_of(shares, n, process) : NULL;

        if (share == NULL)
            continue;
        share->ended = true;
        if (status != 0 && bad == NULL) {
            bad = share;
            *ret_status = status;
            stop(shares, n);
        }
    }
    return bad;
}

static int conclude(const char *self, const struct share *bad, int status)
{
    if (WIFSIGNALED(status)) {
        (void)printf("seed %" PRIu64 ": %s\nreplay: %s%s%s --seed %" PRIu64 " -v\n", bad->seed,
                     strsignal(WTERMSIG(status)), self, mode->option[0] == '\0' ? "" : " ", mode->option, bad->seed);
    } else {
        struct outcome outcome = mode->run(bad->seed);

        if (!report(self, bad->seed, &outcome))
            (void)printf("seed %" PRIu64 " ended with status %d, and holds its claims when run alone\n", bad->seed,
                         status);
    }
    return 1;
}

static int run_many(const char *self, const struct wish *wish)
{
    struct share *shares =
        mmap(NULL, sizeof *shares * wish->jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct share total = {.seed = 0}, *bad;
    int status = 0;

    if (shares == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (uint64_t k = 0; k < wish->jobs; k++) {
        if (!start(&shares[k], wish, k)) {
            stop(shares, k);
            return 1;
        }
    }
    bad = wait_for_shares(shares, wish->jobs, &status);
    if (bad != NULL)
        return conclude(self, bad, status);
    for (uint64_t k = 0; k < wish->jobs; k++) {
        total.runs += shares[k].runs;
        total.operations += shares[k].operations;
        total.events += shares[k].events;
        total.seconds += shares[k].seconds;
    }
    (void)printf("%" PRIu64 " runs, %" PRId64 " operations (%.0f a second of CPU), %" PRId64 " events\n", total.runs,
                 total.operations, (double)total.operations / total.seconds, total.events);
    return 0;
}

static int run_one(const char *self, const struct wish *wish)
{
    struct outcome outcome;

    if (wish->verbose) {
        (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before a crash is seen */
        world_trace(TRACE_SHOWN);
    }
    outcome = mode->run(wish->first);
    if (report(self, wish->first, &outcome))
        return 1;
    (void)printf("seed %" PRIu64 ": %" PRId64 " operations, %" PRId64 " events\n", wish->first, outcome.operations,
                 outcome.events);
    return 0;
}

int drive(int argc, char **argv, const struct mode *modes)
{
    struct wish wish;

    if (!read_wish(argc, argv, modes, &wish) || (wish.verbose && wish.first != wish.last)) {
        (void)fprintf(stderr, "usage: %s [MODE] --seeds A..B [--jobs N] | --seed N [-v]\n", argv[0]);
        return 2;
    }
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 28); /* the next run needs it again */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 26);
    (void)mallopt(M_MXFAST, 0); /* large blocks come and go, and each time what is small and fast would be swept up */
    return wish.first == wish.last ? run_one(argv[0], &wish) : run_many(argv[0], &wish);
}
