/* SPDX-License-Identifier: MIT */
/* test_threads.c - the scheduler itself: a run is its number, and what toys do wrong is found.
 *
 * A toy is two threads that meet in one way, rightly or with a mistake. Of some hundred runs of a mistake at least one
 * must break a claim, and of a right one none.
 */
#include "core/base/sync.h"
#include "tests/sim/pct.h"
#include "tests/sim/threads.h"
#include "tests/sim/world.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define RUNS 300

struct toy {
    void (*one)(void *arg), (*other)(void *arg);
};

static struct rdl__mutex mutexes[2];
static struct rdl__parker parker;
static bool ready;
static struct process process;
static struct fibre *threads[2]; /* what never ends is not lost */
static const struct toy *toy;

static void no_fault(void)
{
}

static void no_word(struct process *p, int64_t ns)
{
    (void)p;
    (void)ns;
}

static const struct pct_hooks hooks = {no_fault, no_word};

static void run_toy(void *arg)
{
    (void)arg;
    threads[0] = thread_start(&process, toy->one, NULL);
    threads[1] = thread_start(&process, toy->other, NULL);
    pct_arm(true);
    fibre_join(threads[0]);
    fibre_join(threads[1]);
    pct_arm(false);
}

/* The number of the first run that breaks a claim; 0: none does. */
static uint64_t first_broken(const struct toy *what)
{
    toy = what;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        world_begin(seed);
        threads_begin();
        pct_begin(12, &hooks);
        process_init(&process, "toy", 0, 0);
        memset(mutexes, 0, sizeof mutexes);
        rdl__parker_init(&parker);
        ready = false;
        (void)world_run(run_toy, NULL);
        if (world_violation() != NULL)
            return seed;
    }
    return 0;
}

/* ---- locks in two orders ---------------------------------------------------------------------------------------- */

static void lock_both(size_t first)
{
    point("toy");
    rdl__mutex_lock(&mutexes[first]);
    point("toy");
    rdl__mutex_lock(&mutexes[1 - first]);
    point("toy");
    rdl__mutex_unlock(&mutexes[1 - first]);
    rdl__mutex_unlock(&mutexes[first]);
}

static void lock_0_first(void *arg)
{
    (void)arg;
    lock_both(0);
}

static void lock_1_first(void *arg)
{
    (void)arg;
    lock_both(1);
}

Test(threads, circle_of_mutexes_is_found)
{
    cr_assert(first_broken(&(struct toy){lock_0_first, lock_1_first}) > 0);
    cr_expect(strstr(world_violation(), "nobody waits in a circle") != NULL, "%s", world_violation());
}

Test(threads, mutexes_in_one_order_are_no_circle)
{
    cr_assert(first_broken(&(struct toy){lock_0_first, lock_0_first}) == 0, "%s", world_violation());
}

/* ---- a wake-up that comes too early ----------------------------------------------------------------------------- */

static void wake(void *arg)
{
    (void)arg;
    point("toy");
    ready = true;
    point("toy");
    rdl__parker_post(&parker, 1);
}

static void sleep_unless_ready(void *arg)
{
    (void)arg;
    point("toy");
    if (!ready)
        (void)rdl__park(&parker, RDL__NEVER);
}

/* What was posted since it looked is gone. */
static void look_and_forget(void *arg)
{
    (void)arg;
    point("toy");
    if (ready)
        return;
    point("toy");
    rdl__parker_init(&parker);
    (void)rdl__park(&parker, RDL__NEVER);
}

Test(threads, lost_wake_up_is_found)
{
    cr_assert(first_broken(&(struct toy){look_and_forget, wake}) > 0);
    cr_expect(strstr(world_violation(), "a run ends") != NULL, "%s", world_violation());
}

Test(threads, wake_up_that_is_kept_is_not_lost)
{
    cr_assert(first_broken(&(struct toy){sleep_unless_ready, wake}) == 0, "%s", world_violation());
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static char *story_of(uint64_t seed, size_t *ret_len)
{
    struct outcome outcome;
    const char *story;
    char *copy;

    world_trace(TRACE_KEPT);
    outcome = threads_run(seed);
    cr_assert(outcome.over);
    story = world_story(ret_len);
    copy = malloc(*ret_len);
    cr_assert(copy != NULL);
    memcpy(copy, story, *ret_len);
    return copy;
}

Test(threads, run_is_its_number)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        size_t len, again_len;
        char *story = story_of(seed, &len), *again = story_of(seed, &again_len);

        cr_assert(len > 0 && len == again_len && memcmp(story, again, len) == 0, "run %d differs from itself",
                  (int)seed);
        free(story);
        free(again);
    }
}

Test(threads, threads_are_interrupted_between_instructions)
{
    size_t len;
    char *story = story_of(1, &len);

    cr_assert(memmem(story, len, "gives way at point", 18) != NULL && memmem(story, len, "core/io/lane", 12) != NULL);
    free(story);
}
