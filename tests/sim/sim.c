/* sim.c - random runs from the command line.
 *
 *     sim --seeds A..B     run those; stop at the first that breaks a claim
 *     sim --seed N [-v]    run one; -v shows everything that happens in it
 *
 * A run is its number: the same number does the same, on every machine. Exit status 0: all claims held; 1: one did not; 2:
 * it was called wrongly.
 *
 * The last line of many runs says how fast they were. An operation is one verb that an actor calls, from its call to its
 * answer, however many commands, retries and renewals that takes; a second is one of the processor's, of which the program
 * uses one at a time.
 */
#include "tests/sim/plan.h"
#include "tests/sim/world.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAIL_LINES 60

struct wish {
    uint64_t first, last;
    bool verbose;
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

static bool read_wish(int argc, char **argv, struct wish *wish)
{
    bool some = false;
    const char *end;

    *wish = (struct wish){.first = 0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            wish->verbose = true;
        } else if (strcmp(argv[i], "--seed") == 0 && number(argv[i + 1], &end, &wish->first) && *end == '\0') {
            wish->last = wish->first;
            some = true;
            i++;
        } else if (strcmp(argv[i], "--seeds") == 0 && number(argv[i + 1], &end, &wish->first) &&
                   strncmp(end, "..", 2) == 0 && number(end + 2, &end, &wish->last) && *end == '\0') {
            some = true;
            i++;
        } else {
            return false;
        }
    }
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
    (void)plan_run(seed);
    text = world_story(&len);
    tail = tail_of(text, len);
    (void)fwrite(tail, 1, len - (size_t)(tail - text), stdout);
}

static int report(const char *self, uint64_t seed, const struct outcome *outcome)
{
    char broken[512];

    (void)snprintf(broken, sizeof broken, "%s", outcome->broken);
    if (!outcome->over)
        (void)printf("seed %" PRIu64 " does not come to an end\n", seed);
    else if (!world_tracing())
        show_run(seed);
    (void)printf("seed %llu: %s\nreplay: %s --seed %llu -v\n", (unsigned long long)seed, broken, self,
                 (unsigned long long)seed);
    return 1;
}

/* Of the processor: what else runs on the machine is not the simulator's speed. */
static double seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    double began = seconds(), took;
    int64_t operations = 0, events = 0;
    uint64_t runs = 0;
    struct wish wish;

    if (!read_wish(argc, argv, &wish)) {
        (void)fprintf(stderr, "usage: sim --seeds A..B | --seed N [-v]\n");
        return 2;
    }
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 28); /* the next run needs it again */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 26);
    if (wish.verbose) {
        (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before a crash is seen */
        world_trace(TRACE_SHOWN);
    }
    for (uint64_t seed = wish.first; seed <= wish.last; seed++) {
        struct outcome outcome = plan_run(seed);

        if (outcome.broken != NULL)
            return report(argv[0], seed, &outcome);
        runs++;
        operations += outcome.operations;
        events += outcome.events;
    }
    took = seconds() - began;
    (void)printf("%" PRIu64 " runs, %" PRId64 " operations (%.0f a second of CPU), %" PRId64 " events\n", runs, operations,
                 (double)operations / took, events);
    return 0;
}
