/* SPDX-License-Identifier: MIT */
/* race_permits.c - threads of one client, every verb of semaphores and latches.
 *
 * First two of them take blocks of leased permits at one moment: no permit twice, and none is gone. Then four do
 * whatever there is to do: never are more permits out than there are, each count-down counts once, and in the end
 * everything is back. */
#include "tests/support/race.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "seats"
#define LEASE_MS 60000

enum { THREADS = 2, MOST = 1000 };

static rdl_permit_semaphore_t *semaphore;
static rdl_permit_t taken[THREADS][MOST];
static pthread_barrier_t together;
static struct stage st;
static int64_t block;
static bool goes_on;
static atomic_uint here; /* times that a thread was about to take a block */

static int64_t phase_end;

static void phase_begins(int64_t ms)
{
    phase_end = now_ms() + ms;
}

static bool phase_goes_on(void)
{
    return race_goes_on() && now_ms() < phase_end;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const rdl_permit_t *)a)->id, ((const rdl_permit_t *)b)->id);
}

/* All of both are different, and the server has them all. */
static void compare(void)
{
    static rdl_permit_t all[THREADS * MOST];
    size_t n = (size_t)block, twice = 0;

    for (size_t t = 0; t < THREADS; t++)
        memcpy(all + t * n, taken[t], n * sizeof *all);
    qsort(all, THREADS * n, sizeof *all, by_id);
    for (size_t i = 1; i < THREADS * n; i++)
        twice += strcmp(all[i - 1].id, all[i].id) == 0;
    if (twice > 0)
        race_violation("%zu permits of %zu were granted twice", twice, THREADS * n);
    if (probe_int(st.probe, "ZCARD {" NAME "}:timeout") != (int64_t)(THREADS * n) ||
        probe_int(st.probe, "GET " NAME) != 0)
        race_violation("the server does not count those that were taken");
}

static void *run(void *arg)
{
    struct race_thread *t = arg;
    rdl_permit_t *mine = taken[t->number];
    rdl_err_t err = {0};

    for (;;) {
        (void)pthread_barrier_wait(&together);
        if (!goes_on)
            return NULL;
        meet(&here, THREADS);
        if (rdl_permit_semaphore_try_acquire(semaphore, block, 0, LEASE_MS, mine, &err) != RDL_OK)
            race_violation("of %" PRId64 " free ones %" PRId64 " were refused: %s", THREADS * block, block,
                           err.message);
        (void)pthread_barrier_wait(&together); /* they are compared */
        (void)pthread_barrier_wait(&together);
        if (rdl_permit_semaphore_release(semaphore, block, mine, &err) != RDL_OK)
            race_violation("%s", err.message);
        (void)pthread_barrier_wait(&together);
    }
}

/* Rounds in which both take half of all there are, for as long, and a few however slow the machine is; or until one is
 * wrong. */
static void take_blocks(int64_t permits, int64_t ms)
{
    char *claim = must_format("two blocks of %" PRId64 " have no permit in common", permits);
    bool wrong = false;
    int rounds = 0;

    block = permits;
    phase_begins(ms);
    for (; (phase_goes_on() || rounds <= 3) && !wrong; rounds++) {
        if (rdl_permit_semaphore_set_permits(semaphore, THREADS * permits, NULL) != RDL_OK)
            die("the number of permits cannot be set");
        (void)pthread_barrier_wait(&together);
        (void)pthread_barrier_wait(&together);
        compare();
        (void)pthread_barrier_wait(&together);
        (void)pthread_barrier_wait(&together);
        if (rdl_permit_semaphore_available(semaphore, NULL) != THREADS * permits)
            race_violation("permits are gone for good");
        wrong = race_violations() > 0;
    }
    (void)probe_int(st.probe, "DEL " NAME " {" NAME "}:timeout");
    printf("blocks of %" PRId64 ": %d rounds\n", permits, rounds);
    race_claim(!wrong, claim);
    free(claim);
}

/* ---- every verb ------------------------------------------------------------------------------------------------- */

enum { CROWD = 4, SEATS = 8, MOST_WISH = 3, ROUND_DOWNS = 25 };

#define UNDONE_MS 10000 /* a take whose time is over before it is answered is undone behind its caller's back */

static rdl_semaphore_t *numbers;
static rdl_latch_t *latch;
static atomic_int out;              /* permits that somebody has, by answers */
static atomic_int setters, openers; /* of one latch */
static pthread_barrier_t round_begins;
static void came(int64_t n)
{
    if (atomic_fetch_add(&out, (int)n) + n > SEATS + CROWD * MOST_WISH)
        race_violation("more permits are out than there are");
}

static void must(int64_t result, int64_t expected, const char *what, const rdl_err_t *err)
{
    if (result != expected)
        race_violation("%s: %" PRId64 ", %s", what, result, err->message);
}

/* Give n back, whole or one by one. Counted before, as they may be taken at once. */
static void give_numbers(struct race_thread *t, int n)
{
    rdl_err_t err = {0};

    atomic_fetch_sub(&out, n);
    if (n > 0 && race_below(&t->random, 2) == 0)
        must(rdl_semaphore_release(numbers, n, &err), RDL_OK, "release", &err);
    else
        for (int i = 0; i < n; i++)
            must(rdl_semaphore_release(numbers, 1, &err), RDL_OK, "release", &err);
}

static void use_numbers(struct race_thread *t)
{
    int n = 1 + race_below(&t->random, MOST_WISH);
    rdl_err_t err = {0};
    int64_t got;

    switch (race_below(&t->random, 8)) {
    case 0:
        if ((got = rdl_semaphore_drain(numbers, &err)) < 0)
            race_violation("drain: %s", err.message);
        came(got > 0 ? got : 0);
        give_numbers(t, got > 0 ? (int)got : 0);
        break;
    case 1:
        must(rdl_semaphore_add_permits(numbers, n, &err), RDL_OK, "add", &err);
        must(rdl_semaphore_add_permits(numbers, -n, &err), RDL_OK, "add", &err);
        break;
    case 2:
        must(rdl_semaphore_try_set_permits(numbers, 99, &err), 0, "try_set", &err);
        if (rdl_semaphore_available(numbers, &err) < 0)
            race_violation("available: %s", err.message);
        break;
    default:
        if (rdl_semaphore_try_acquire(numbers, n, race_below(&t->random, 20), &err) == RDL_OK) {
            came(n);
            give_numbers(t, n);
        }
    }
}

static void use_leased(struct race_thread *t)
{
    int n = 1 + race_below(&t->random, MOST_WISH), first = race_below(&t->random, n + 1);
    rdl_permit_t mine[MOST_WISH];
    rdl_err_t err = {0};

    if (rdl_permit_semaphore_try_acquire(semaphore, n, race_below(&t->random, 20), LEASE_MS, mine, &err) != RDL_OK)
        return;
    came(n);
    must(rdl_permit_semaphore_extend(semaphore, mine, 2 * LEASE_MS, &err), RDL_OK, "extend", &err);
    if (rdl_permit_semaphore_remaining_ms(semaphore, mine, &err) <= LEASE_MS)
        race_violation("remaining: %s", err.message);
    if (rdl_permit_semaphore_acquired(semaphore, &err) < n ||
        rdl_permit_semaphore_available(semaphore, &err) > SEATS - n)
        race_violation("those that are taken are not counted");
    atomic_fetch_sub(&out, n);
    if (first > 0)
        must(rdl_permit_semaphore_release(semaphore, first, mine, &err), RDL_OK, "release of some", &err);
    if (first < n)
        must(rdl_permit_semaphore_release(semaphore, n - first, mine + first, &err), RDL_OK, "release of the others",
             &err);
}

static void *run_numbers(void *arg)
{
    while (phase_goes_on())
        use_numbers(arg);
    return NULL;
}

static void *run_leased(void *arg)
{
    while (phase_goes_on())
        use_leased(arg);
    return NULL;
}

/* One of them sets it, all count it down, one opens it. */
static void *run_latch(void *arg)
{
    const struct race_thread *t = arg;
    rdl_err_t err = {0};

    for (int i = 0; i < (int)(intptr_t)t->arg; i++) {
        int64_t left;

        if (rdl_latch_try_set_count(latch, CROWD * ROUND_DOWNS, &err) == 1)
            atomic_fetch_add(&setters, 1);
        (void)pthread_barrier_wait(&round_begins);
        for (int down = 0; down < ROUND_DOWNS; down++) {
            if ((left = rdl_latch_count_down(latch, &err)) < 0)
                race_violation("count_down: %s", err.message);
            atomic_fetch_add(&openers, left == 0);
        }
        must(rdl_latch_await(latch, 20000, &err), RDL_OK, "await", &err);
        must(rdl_latch_count(latch, &err), 0, "count", &err);
        (void)pthread_barrier_wait(&round_begins);
    }
    return NULL;
}

static void crowd(void *(*fn)(void *), void *arg)
{
    struct race_thread threads[CROWD];

    phase_begins(2000);
    atomic_store(&out, 0);
    race_start(threads, CROWD, fn, arg);
    race_join(threads, CROWD);
}

static void every_verb(void)
{
    enum { ROUNDS = 40 };

    if (rdl_semaphore(st.client, "numbers", NULL, &numbers, NULL) != RDL_OK ||
        rdl_semaphore_try_set_permits(numbers, SEATS, NULL) != 1 ||
        rdl_permit_semaphore_set_permits(semaphore, SEATS, NULL) != RDL_OK ||
        rdl_latch(st.client, "latch", NULL, &latch, NULL) != RDL_OK)
        die("no semaphore, or no latch");
    crowd(run_numbers, NULL);
    race_claim(race_violations() == 0 && WAIT_UNTIL(rdl_semaphore_available(numbers, NULL) == SEATS, UNDONE_MS),
               "permits that are numbers add up");
    crowd(run_leased, NULL);
    race_claim(race_violations() == 0 &&
                   WAIT_UNTIL(rdl_permit_semaphore_available(semaphore, NULL) == SEATS, UNDONE_MS) &&
                   rdl_permit_semaphore_acquired(semaphore, NULL) == 0,
               "leased permits add up");
    (void)pthread_barrier_init(&round_begins, NULL, CROWD);
    crowd(run_latch, (void *)(intptr_t)ROUNDS);
    (void)pthread_barrier_destroy(&round_begins);
    race_claim(race_violations() == 0 && atomic_load(&setters) == ROUNDS && atomic_load(&openers) == ROUNDS,
               "each latch is set once and opened once");
    rdl_latch_free(latch);
    rdl_semaphore_free(numbers);
}

int main(int argc, char **argv)
{
    struct race_thread threads[THREADS];

    race_begin(argc, argv);
    stage_open(&st);
    if (rdl_permit_semaphore(st.client, NAME, NULL, &semaphore, NULL) != RDL_OK)
        die("no semaphore");
    (void)pthread_barrier_init(&together, NULL, THREADS + 1);
    race_start(threads, THREADS, run, NULL);
    goes_on = true;
    take_blocks(100, race_left_ms() / 6);
    take_blocks(MOST, race_left_ms() / 2);
    goes_on = false;
    (void)pthread_barrier_wait(&together);
    race_join(threads, THREADS);
    (void)pthread_barrier_destroy(&together);
    every_verb();
    rdl_permit_semaphore_free(semaphore);
    stage_close(&st);
    return race_end();
}
