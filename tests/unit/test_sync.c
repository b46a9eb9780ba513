/* SPDX-License-Identifier: MIT */
/* test_sync.c - one thread sleeps until it is told something. tests/race/race_sync.c does it with many. */
#include "core/base/clock.h"
#include "core/base/sync.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <redlatch/error.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define BOUND (10 * RDL__SEC)

static struct rdl__parker parker;

static void set_up(void)
{
    rdl__parker_init(&parker);
}

TestSuite(sync, .init = set_up, .timeout = 30);

Test(sync, mutex_can_be_made_and_used)
{
    struct rdl__mutex mu;

    cr_assert_eq(rdl__mutex_init(&mu), RDL_OK);
    rdl__mutex_lock(&mu);
    rdl__mutex_unlock(&mu);
    rdl__mutex_done(&mu);
}

Test(sync, what_was_posted_before_is_found_at_once_and_stays)
{
    rdl__parker_post(&parker, 4);
    cr_assert_eq(rdl__park(&parker, RDL__NEVER), 4);
    cr_assert_eq(rdl__park(&parker, 0), 4);
    cr_assert_eq(rdl__parker_peek(&parker), 4);
}

Test(sync, bits_add_up_until_the_owner_takes_them_away)
{
    rdl__parker_post(&parker, 1);
    rdl__parker_mark(&parker, 8);
    rdl__parker_post(&parker, 1);
    cr_assert_eq(rdl__park(&parker, RDL__NEVER), 9);
    rdl__parker_unmark(&parker, 1);
    cr_assert_eq(rdl__park(&parker, RDL__NEVER), 8);
    rdl__parker_unmark(&parker, 8);
    cr_assert_eq(rdl__park(&parker, 0), 0);
}

Test(sync, parking_for_some_bits_ignores_the_others_but_tells_of_them)
{
    rdl__parker_post(&parker, 1);
    cr_assert_eq(rdl__park_for(&parker, 2, 0), 1);
    rdl__parker_post(&parker, 2);
    cr_assert_eq(rdl__park_for(&parker, 2, RDL__NEVER), 3);
}

Test(sync, a_deadline_that_has_passed_does_not_sleep)
{
    cr_assert_eq(rdl__park(&parker, 0), 0);
    cr_assert_eq(rdl__park(&parker, rdl__now()), 0);
}

Test(sync, a_deadline_ends_the_sleep_and_not_before)
{
    int64_t deadline = rdl__now() + 30 * RDL__MS;

    cr_assert_eq(rdl__park(&parker, deadline), 0);
    cr_assert_geq(rdl__now(), deadline);
}

/* ---- with another thread ---------------------------------------------------------------------------------------- */

struct sleeper {
    pthread_t thread;
    uint32_t bits;
    int64_t deadline;
    _Atomic pid_t tid;
    uint32_t got;
};

static void *sleeper_main(void *arg)
{
    struct sleeper *s = arg;

    s->tid = gettid();
    s->got = rdl__park_for(&parker, s->bits, s->deadline);
    return NULL;
}

static bool is_asleep(const struct sleeper *s)
{
    char path[64], state = '?';
    FILE *f;

    if (s->tid == 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)s->tid);
    if ((f = fopen(path, "r")) == NULL)
        return false;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    fclose(f);
    return state == 'S';
}

static void start_sleeping(struct sleeper *s, uint32_t bits, int64_t deadline)
{
    *s = (struct sleeper){.bits = bits, .deadline = deadline};
    cr_assert_eq(pthread_create(&s->thread, NULL, sleeper_main, s), 0);
    cr_assert(WAIT_UNTIL(is_asleep(s), 10000));
}

static uint32_t joined(struct sleeper *s)
{
    cr_assert_eq(pthread_join(s->thread, NULL), 0);
    return s->got;
}

Test(sync, a_post_wakes_a_sleeper_without_deadline)
{
    struct sleeper s;

    start_sleeping(&s, UINT32_MAX, RDL__NEVER);
    rdl__parker_post(&parker, 3);
    cr_assert_eq(joined(&s), 3);
}

Test(sync, a_post_wakes_a_sleeper_before_its_deadline)
{
    struct sleeper s;
    int64_t deadline = rdl__now() + BOUND;

    start_sleeping(&s, UINT32_MAX, deadline);
    rdl__parker_post(&parker, UINT32_MAX);
    cr_assert_eq(joined(&s), UINT32_MAX);
    cr_assert_lt(rdl__now(), deadline);
}

Test(sync, other_bits_do_not_end_the_sleep_for_some)
{
    struct sleeper s;

    start_sleeping(&s, 2, rdl__now() + BOUND);
    for (uint32_t bit = 4; bit <= 64; bit *= 2) {
        rdl__parker_post(&parker, bit);
        cr_assert(WAIT_UNTIL(is_asleep(&s), 10000));
    }
    rdl__parker_post(&parker, 2);
    cr_assert_eq(joined(&s), 126);
}

/* More than have a seat in as many rows as are woken together. */
enum { MANY = 32 * (RDL__WAKES + 2) };

static struct {
    struct rdl__parker parker;
    pthread_t thread;
} many[MANY];

static void *one_of_many(void *parker_of_mine)
{
    return rdl__park(parker_of_mine, RDL__NEVER) == 1 ? parker_of_mine : NULL;
}

Test(sync, those_who_are_woken_together_are_all_woken)
{
    struct rdl__wakes wakes = {.n = 0};

    for (int i = 0; i < MANY; i++) {
        rdl__parker_init(&many[i].parker);
        cr_assert_eq(pthread_create(&many[i].thread, NULL, one_of_many, &many[i].parker), 0);
    }
    for (int i = 0; i < MANY; i++)
        cr_assert(WAIT_UNTIL(atomic_load(&many[i].parker.word) != 0, 10000), "%d sleeps, or is about to", i);
    for (int i = 0; i < MANY; i++)
        rdl__parker_post_with(&many[i].parker, 1, &wakes);
    rdl__wakes_send(&wakes);
    for (int i = 0; i < MANY; i++) {
        void *woken;

        cr_assert_eq(pthread_join(many[i].thread, &woken), 0);
        cr_assert_eq(woken, &many[i].parker, "%d slept on", i);
    }
}

static void on_signal(int signo)
{
    (void)signo;
}

Test(sync, signals_end_no_sleep)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: system calls are interrupted */
    struct sleeper s;

    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    start_sleeping(&s, UINT32_MAX, rdl__now() + BOUND);
    for (int i = 0; i < 20; i++) {
        pthread_kill(s.thread, SIGUSR1);
        cr_assert(WAIT_UNTIL(is_asleep(&s), 10000));
    }
    rdl__parker_post(&parker, 9);
    cr_assert_eq(joined(&s), 9);
}
