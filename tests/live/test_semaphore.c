/* SPDX-License-Identifier: MIT */
/* test_semaphore.c - permits that are numbers: how many, who waits for how many, and what a lost reply does to them. */
#include "tests/live/live.h"

#include <pthread.h>

#define NAME "pool"
#define CHANNEL "redisson_sc:{" NAME "}"

LIVE_SUITE(semaphore, 60);

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

static rdl_semaphore_t *semaphore(rdl_client_t *client, bool fair)
{
    rdl_semaphore_options_t options = RDL_SEMAPHORE_OPTIONS_INIT;
    rdl_semaphore_t *s = NULL;

    options.fair = fair;
    if (rdl_semaphore(client, NAME, &options, &s, &err) < 0)
        die("%s", err.message);
    return s;
}

static rdl_semaphore_t *open_with(int64_t permits)
{
    rdl_semaphore_t *s;

    stage_open(&st);
    left_behind = true; /* a semaphore stays, and guards go by themselves */
    s = semaphore(st.client, false);
    expect(1, rdl_semaphore_try_set_permits(s, permits, &err));
    return s;
}

static rdl_semaphore_t *open_fair(int64_t permits)
{
    rdl_semaphore_t *s;

    stage_open(&st);
    left_behind = true;
    s = semaphore(st.client, true);
    expect(1, rdl_semaphore_try_set_permits(s, permits, &err));
    return s;
}

static rdl_semaphore_t *open_proxied(int64_t permits)
{
    rdl_semaphore_t *s;

    stage_open(&st, .proxied = true,
               .client = OPTIONS(.command_timeout_ms = 2000, .reconnect_min_ms = 1, .reconnect_max_ms = 50));
    left_behind = true;
    s = semaphore(st.client, false);
    expect(1, rdl_semaphore_try_set_permits(s, permits, &err));
    expect(permits, rdl_semaphore_drain(s, &err)); /* the server knows the scripts from now on */
    expect(RDL_OK, rdl_semaphore_release(s, permits, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 0, &err));
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    return s;
}

static void note(rdl_semaphore_t *s, int64_t result, const rdl_err_t *e, void *outcome)
{
    (void)s;
    outcome_note(NULL, result, e, outcome);
}

static bool is_free(int64_t permits)
{
    return probe_int(st.probe, "GET " NAME) == permits;
}

static void begin(rdl_semaphore_t *s, int64_t permits, int64_t wait_ms, struct outcome *o, rdl_op_t **op)
{
    expect(RDL_OK, rdl_semaphore_try_acquire_async(s, NULL, permits, wait_ms, note, o, op, &err));
}

static bool sleeps(unsigned channels)
{
    return WAIT_UNTIL(probe_channels(st.probe) == (int64_t)channels, SOON_MS);
}

/* ---- how many --------------------------------------------------------------------------------------------------- */

Test(semaphore, permits_are_counted_and_refused_beyond_their_number)
{
    rdl_semaphore_t *s = open_with(3);

    cr_assert_str_eq(rdl_semaphore_name(s, NULL), NAME);
    expect(0, rdl_semaphore_try_set_permits(s, 7, &err));
    expect(3, rdl_semaphore_available(s, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 2, 0, &err));
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(s, 2, 0, &err));
    expect_err_names(&err, RDL_ETIMEDOUT, NAME);
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 0, &err));
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(s, 1, 1500, &err));
    expect(RDL_OK, rdl_semaphore_release(s, 3, &err));
    expect(RDL_OK, rdl_semaphore_add_permits(s, 4, &err));
    expect(RDL_OK, rdl_semaphore_add_permits(s, -2, &err));
    expect(5, rdl_semaphore_drain(s, &err));
    expect(0, rdl_semaphore_drain(s, &err));
    expect(RDL_OK, rdl_semaphore_add_permits(s, -2, &err));
    expect(0, rdl_semaphore_available(s, &err));
    cr_assert(is_free(-2));
    rdl_semaphore_free(s);
}

/* Java reads a count as 32 bits. */
Test(semaphore, N11_no_sum_exceeds_what_a_semaphore_may_have)
{
    rdl_semaphore_t *s = open_with(RDL_PERMITS_MAX);

    expect(RDL_ESERVER, rdl_semaphore_release(s, 1, &err));
    cr_assert_not_null(strstr(err.message, "has at most 2147483647 permits"), "%s", err.message);
    expect(RDL_ESERVER, rdl_semaphore_add_permits(s, RDL_PERMITS_MAX, &err));
    cr_assert(is_free(RDL_PERMITS_MAX));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, RDL_PERMITS_MAX, 0, &err));
    expect(RDL_OK, rdl_semaphore_add_permits(s, -RDL_PERMITS_MAX, &err));
    expect(RDL_ESERVER, rdl_semaphore_add_permits(s, -1, &err));
    expect(0, rdl_semaphore_available(s, &err));
    (void)probe_ask(st.probe, "SET " NAME " 3000000000"); /* by somebody else */
    expect(RDL_ESERVER, rdl_semaphore_release(s, 1, &err));
    expect(INT64_C(3000000000), rdl_semaphore_available(s, &err));
    expect(RDL_PERMITS_MAX, rdl_semaphore_drain(s, &err));
    cr_assert(is_free(INT64_C(3000000000) - RDL_PERMITS_MAX));
    rdl_semaphore_free(s);
}

static int64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Of the one place in the queue, until when it counts as alive. */
static int64_t sign_of_life(void)
{
    const struct reply *r = probe_ask(st.probe, "HVALS redlatch_semaphore_signs:{" NAME "}");

    return r->kind == REPLY_ARRAY && r->count == 1 ? atoll(r->items[0].text) : -1;
}

/* By which a dead process is told from one that waits. */
Test(semaphore, place_of_a_fair_waiter_lives_for_as_long_as_the_option_says_and_is_renewed)
{
    enum { LIFE_MS = 3000 };
    rdl_semaphore_options_t options = {.version = 1, .fair = true, .waiter_life_ms = LIFE_MS};
    rdl_semaphore_t *s = NULL;
    struct outcome o = {0};
    int64_t first;

    stage_open(&st);
    left_behind = true;
    options.waiter_life_ms = 99;
    expect(RDL_EINVAL, rdl_semaphore(st.client, NAME, &options, &s, &err));
    options.waiter_life_ms = LIFE_MS;
    options.fair = false;
    expect(RDL_EINVAL, rdl_semaphore(st.client, NAME, &options, &s, &err));
    options.fair = true;
    expect(RDL_OK, rdl_semaphore(st.client, NAME, &options, &s, &err));
    begin(s, 1, 30000, &o, NULL);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "HLEN redlatch_semaphore_signs:{" NAME "}") == 1, SOON_MS));
    first = sign_of_life();
    expect_between(1, first - wall_ms(), LIFE_MS);
    cr_assert(WAIT_UNTIL(sign_of_life() > first, SOON_MS));
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    cr_assert_eq(outcome_wait(&o, SOON_MS), RDL_OK);
    rdl_semaphore_free(s);
}

Test(semaphore, bad_arguments_are_refused_with_words)
{
    rdl_semaphore_options_t odd = {.version = 9};
    rdl_semaphore_t *s = open_with(1), *other = NULL;
    rdl_lock_t *lock = NULL;
    rdl_latch_t *latch = NULL;

    expect(RDL_EINVAL, rdl_semaphore_acquire(NULL, 1, &err));
    expect(RDL_EINVAL, rdl_semaphore_acquire(s, 0, &err));
    expect(RDL_EINVAL, rdl_semaphore_acquire(s, RDL_PERMITS_MAX + INT64_C(1), &err));
    expect(RDL_EINVAL, rdl_semaphore_try_acquire(s, 1, -1, &err));
    expect(RDL_EINVAL, rdl_semaphore_release(s, -1, &err));
    expect(RDL_EINVAL, rdl_semaphore_add_permits(s, 0, &err));
    expect(RDL_EINVAL, rdl_semaphore_try_set_permits(s, -1, &err));
    expect(RDL_EINVAL, rdl_semaphore(st.client, NAME, &odd, &other, &err));
    expect(RDL_EINVAL, rdl_semaphore(st.client, "", NULL, &other, &err));
    expect(RDL_EINVAL, rdl_semaphore(st.client, NULL, NULL, &other, &err));
    expect(RDL_EINVAL, rdl_semaphore(st.client, NAME, NULL, NULL, &err));
    odd = (rdl_semaphore_options_t)RDL_SEMAPHORE_OPTIONS_INIT;
    odd.fair = true;
    expect(RDL_EINVAL, rdl_semaphore(st.client, NAME, &odd, &other, &err));
    cr_assert_not_null(strstr(err.message, "other semaphore options"), "%s", err.message);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, NULL, &lock, &err));
    cr_assert_not_null(strstr(err.message, "by a semaphore"), "%s", err.message);
    expect(RDL_EINVAL, rdl_latch(st.client, NAME, NULL, &latch, &err));
    cr_assert_null(rdl_semaphore_free(NULL));
    rdl_semaphore_free(s);
}

Test(semaphore, N12_what_is_stored_under_the_name_and_is_no_count_is_reported)
{
    rdl_semaphore_t *s = open_with(1);

    (void)probe_ask(st.probe, "SET " NAME " many");
    expect(RDL_ESERVER, rdl_semaphore_try_acquire(s, 1, 0, &err));
    cr_assert_not_null(strstr(err.message, "no count"), "%s", err.message);
    expect(RDL_ESERVER, rdl_semaphore_release(s, 1, &err));
    expect(RDL_ESERVER, rdl_semaphore_available(s, &err));
    cr_assert_not_null(strstr(err.message, "no count"), "%s", err.message);
    cr_assert_str_eq(probe_text(st.probe, "GET " NAME), "many");
    (void)probe_ask(st.probe, "DEL " NAME);
    (void)probe_ask(st.probe, "RPUSH " NAME " x");
    expect(RDL_ESERVER, rdl_semaphore_drain(s, &err));
    cr_assert_not_null(strstr(err.message, "WRONGTYPE"), "%s", err.message);
    rdl_semaphore_free(s);
}

/* Whatever it takes it gives back. */
static void *use_permits(void *arg)
{
    rdl_semaphore_t *s = arg;

    for (int i = 0; i < 300; i++) {
        int64_t got = i % 3 == 0                                           ? rdl_semaphore_drain(s, NULL)
                      : rdl_semaphore_try_acquire(s, 2, 5, NULL) == RDL_OK ? 2
                                                                           : 0;

        if (got < 0 || (got > 0 && rdl_semaphore_release(s, got, NULL) != RDL_OK))
            return s;
        if (rdl_semaphore_add_permits(s, 1, NULL) != RDL_OK || rdl_semaphore_add_permits(s, -1, NULL) != RDL_OK)
            return s;
    }
    return NULL;
}

/* Each of their requests counts once: race/race_permits has more of it. */
Test(semaphore, N1_verbs_of_two_threads_at_one_moment_add_up)
{
    rdl_semaphore_t *s = open_with(5);
    pthread_t threads[2];
    void *failed;

    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, use_permits, s), 0);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], &failed);
        cr_expect_null(failed);
    }
    cr_assert(is_free(5));
    rdl_semaphore_free(s);
}

/* Nor do those who wait in vain leave guards behind. */
/* The next verb takes one along whose undo was answered by then; of those that it comes too early for, so many stay
 * (once.c). */
Test(semaphore, many_takes_in_vain_leave_few_guards)
{
    enum { ROUNDS = 200, MOST = 70 };
    rdl_semaphore_t *s = open_fair(1);

    for (int i = 0; i < ROUNDS; i++) {
        struct outcome o = {0};
        rdl_op_t *op = NULL;

        begin(s, 2, RDL_WAIT_FOREVER, &o, &op);
        cr_assert(sleeps(1));
        rdl_op_cancel(op);
        cr_assert_eq(outcome_wait(&o, WOKEN_MS), RDL_ECANCELED);
        rdl_op_free(op);
    }
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 5000, &err));
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) <= MOST, SOON_MS), "%" PRId64 " keys", probe_keys(st.probe));
    rdl_semaphore_free(s);
}

/* A guard that was read is taken away by the next verb. */
Test(semaphore, many_rounds_leave_one_guard)
{
    rdl_semaphore_t *s = open_with(1);

    for (int i = 0; i < 100; i++) {
        expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 0, &err));
        expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    }
    cr_assert_leq(probe_keys(st.probe), 2);
    expect(1, rdl_semaphore_available(s, &err));
    rdl_semaphore_free(s);
}

/* ---- guards ----------------------------------------------------------------------------------------------------- */

static _Atomic int tired; /* how many of them have waited in vain */

static void *wait_a_little(void *arg)
{
    rdl_semaphore_t *s = semaphore(st.client, true);

    for (int i = 0; i < 20; i++)
        if (rdl_semaphore_try_acquire(s, 1, i % 4, arg) == RDL_OK)
            (void)rdl_semaphore_release(s, 1, NULL);
        else
            (void)atomic_fetch_add(&tired, 1);
    rdl_semaphore_free(s);
    return NULL;
}

/* Most of these calls end before they were sent. */
Test(semaphore, short_waits_of_many_threads_leave_no_guards)
{
    rdl_semaphore_t *s = open_fair(1);
    pthread_t threads[64];
    size_t count = sizeof threads / sizeof threads[0];

    for (size_t i = 0; i < count; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, wait_a_little, NULL), 0);
    for (size_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    cr_assert_gt(atomic_load(&tired), 64);
    rdl_semaphore_free(s);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, SOON_MS), "%" PRId64 " keys", probe_keys(st.probe));
}

static _Atomic int ended;

static void count_end(rdl_semaphore_t *s, int64_t result, const rdl_err_t *e, void *arg)
{
    (void)s;
    (void)e;
    (void)arg;
    (void)atomic_fetch_add(&ended, result == RDL_OK);
}

#define AT_ONCE 5000
#define FEW_KEYS 100

static void all_end(void)
{
    cr_assert(WAIT_UNTIL(atomic_load(&ended) == AT_ONCE, 30000), "%d", atomic_load(&ended));
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) <= FEW_KEYS, SOON_MS), "%" PRId64 " keys", probe_keys(st.probe));
    atomic_store(&ended, 0);
}

Test(semaphore, thousands_of_calls_at_once_leave_few_guards_and_none_behind_the_last_handle)
{
    rdl_semaphore_t *s = open_with(AT_ONCE);

    for (int i = 0; i < AT_ONCE; i++)
        expect(RDL_OK, rdl_semaphore_try_acquire_async(s, NULL, 1, 0, count_end, NULL, NULL, &err));
    all_end();
    for (int i = 0; i < AT_ONCE; i++)
        expect(RDL_OK, rdl_semaphore_release_async(s, NULL, 1, count_end, NULL, NULL, &err));
    all_end();
    cr_assert(is_free(AT_ONCE));
    rdl_semaphore_free(s);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, SOON_MS), "%" PRId64 " keys", probe_keys(st.probe));
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

/* P5 */
Test(semaphore, waiter_for_two_is_woken_by_a_release_of_two)
{
    rdl_semaphore_t *s = open_with(2);
    struct outcome o = {0};

    expect(RDL_OK, rdl_semaphore_try_acquire(s, 2, 0, &err));
    begin(s, 2, 10000, &o, NULL);
    cr_assert(sleeps(1));
    expect(RDL_OK, rdl_semaphore_release(s, 2, &err));
    cr_assert_eq(outcome_wait(&o, WOKEN_MS), RDL_OK);
    cr_assert(is_free(0));
    cr_assert(sleeps(0));
    rdl_semaphore_free(s);
}

/* protocol.md, 5.6 */
Test(semaphore, release_wakes_all_whose_wishes_fit_and_passes_over_who_wants_more)
{
    rdl_semaphore_t *s = open_with(0);
    struct outcome big = {0}, small[3] = {{0}};
    rdl_op_t *op = NULL;

    begin(s, 10, RDL_WAIT_FOREVER, &big, &op);
    for (size_t i = 0; i < 3; i++)
        begin(s, 1, 10000, &small[i], NULL);
    cr_assert(sleeps(1));
    expect(RDL_OK, rdl_semaphore_release(s, 3, &err));
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(outcome_wait(&small[i], WOKEN_MS), RDL_OK);
    cr_assert(is_free(0));
    cr_assert_eq(atomic_load(&big.calls), 0);
    rdl_op_cancel(op);
    cr_assert_eq(outcome_wait(&big, WOKEN_MS), RDL_ECANCELED);
    rdl_op_free(op);
    cr_assert(sleeps(0));
    rdl_semaphore_free(s);
}

/* The total comes from a peer, and again from another release: each wakes who fits. */
Test(semaphore, foreign_release_wakes_by_its_total)
{
    rdl_semaphore_t *s = open_with(0);
    struct outcome o = {0};

    begin(s, 2, 10000, &o, NULL);
    cr_assert(sleeps(1));
    (void)probe_ask(st.probe, "INCRBY " NAME " 1");
    (void)probe_ask(st.probe, "PUBLISH " CHANNEL " 1");
    (void)probe_ask(st.probe, "INCRBY " NAME " 1");
    (void)probe_ask(st.probe, "PUBLISH " CHANNEL " 2");
    cr_assert_eq(outcome_wait(&o, WOKEN_MS), RDL_OK);
    rdl_semaphore_free(s);
}

Test(semaphore, who_joins_sleepers_with_a_smaller_wish_is_let_in_at_once)
{
    rdl_semaphore_t *s = open_with(1);
    struct outcome big = {0};
    rdl_op_t *op = NULL;

    begin(s, 5, RDL_WAIT_FOREVER, &big, &op);
    cr_assert(sleeps(1));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 1000, &err));
    expect(RDL_OK, rdl_semaphore_release(s, 5, &err));
    cr_assert_eq(outcome_wait(&big, WOKEN_MS), RDL_OK);
    rdl_op_free(op);
    rdl_semaphore_free(s);
}

/* ---- fair ------------------------------------------------------------------------------------------------------- */

Test(semaphore, fair_waiter_for_many_is_not_passed_by_waiters_for_one)
{
    rdl_semaphore_t *s = open_fair(0);
    struct outcome big = {0}, small = {0};

    begin(s, 3, 10000, &big, NULL);
    cr_assert(sleeps(1));
    begin(s, 1, 10000, &small, NULL);
    for (int i = 0; i < 2; i++) {
        expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
        expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(s, 1, 0, &err));
    }
    cr_assert_eq(atomic_load(&small.calls), 0);
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    cr_assert_eq(outcome_wait(&big, WOKEN_MS), RDL_OK);
    cr_assert_eq(atomic_load(&small.calls), 0);
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    cr_assert_eq(outcome_wait(&small, WOKEN_MS), RDL_OK);
    cr_assert(is_free(0));
    rdl_semaphore_free(s);
}

Test(semaphore, fair_processes_do_not_pass_each_other)
{
    rdl_semaphore_t *s = open_fair(0), *theirs;
    rdl_client_t *other = client_open(stage_uri(&st), NULL);
    struct outcome big = {0}, small = {0};

    theirs = semaphore(other, true);
    begin(s, 2, 10000, &big, NULL);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD redlatch_semaphore_queue:{" NAME "}") == 1, SOON_MS));
    begin(theirs, 1, 10000, &small, NULL);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD redlatch_semaphore_queue:{" NAME "}") == 2, SOON_MS));
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(theirs, 1, 0, &err));
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    cr_assert_eq(outcome_wait(&big, WOKEN_MS), RDL_OK);
    cr_assert_eq(atomic_load(&small.calls), 0);
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    cr_assert_eq(outcome_wait(&small, WOKEN_MS), RDL_OK);
    cr_assert_eq(probe_int(st.probe, "ZCARD redlatch_semaphore_queue:{" NAME "}"), 0);
    rdl_semaphore_free(theirs);
    rdl_client_close(other);
    rdl_semaphore_free(s);
}

static bool queue_has(int64_t processes)
{
    return WAIT_UNTIL(probe_int(st.probe, "ZCARD redlatch_semaphore_queue:{" NAME "}") == processes, SOON_MS);
}

/* The first to come has tried, and the second never has: the place is left by the last, whichever that is. */
Test(semaphore, fair_process_of_which_nobody_waits_any_more_has_no_place_in_the_queue)
{
    rdl_semaphore_t *s = open_fair(1);
    struct outcome o[2] = {{0}};
    rdl_op_t *ops[2] = {NULL};

    for (size_t i = 0; i < 2; i++) {
        begin(s, 5, RDL_WAIT_FOREVER, &o[i], &ops[i]);
        cr_assert(sleeps(1) && queue_has(1));
    }
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(s, 1, 0, &err));
    cr_assert(queue_has(1));
    for (size_t i = 0; i < 2; i++) {
        rdl_op_cancel(ops[i]);
        cr_assert_eq(outcome_wait(&o[i], WOKEN_MS), RDL_ECANCELED);
        rdl_op_free(ops[i]);
    }
    cr_assert(queue_has(0));
    rdl_semaphore_free(s);
}

/* The queue is left by who gives up, and the next one is told. */
Test(semaphore, fair_waiter_that_gives_up_lets_the_next_process_in)
{
    rdl_semaphore_t *s = open_fair(1), *theirs;
    rdl_client_t *other = client_open(stage_uri(&st), NULL);
    struct outcome big = {0}, small = {0};
    rdl_op_t *op = NULL;

    theirs = semaphore(other, true);
    begin(s, 5, RDL_WAIT_FOREVER, &big, &op);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD redlatch_semaphore_queue:{" NAME "}") == 1, SOON_MS));
    begin(theirs, 1, 10000, &small, NULL);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD redlatch_semaphore_queue:{" NAME "}") == 2, SOON_MS));
    rdl_op_cancel(op);
    cr_assert_eq(outcome_wait(&big, WOKEN_MS), RDL_ECANCELED);
    cr_assert_eq(outcome_wait(&small, WOKEN_MS), RDL_OK);
    rdl_op_free(op);
    rdl_semaphore_free(theirs);
    rdl_client_close(other);
    rdl_semaphore_free(s);
}

/* ---- lost replies ----------------------------------------------------------------------------------------------- */

/* A1, A2: whatever is lost, each verb counts once. */
Test(semaphore, verbs_whose_replies_are_lost_count_once)
{
    rdl_semaphore_t *s = open_proxied(5);

    for (size_t at = 0; at <= 4; at++) {
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(RDL_OK, rdl_semaphore_try_acquire(s, 2, at % 2 == 0 ? 0 : 5000, &err));
        cr_assert(is_free(3));
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(RDL_OK, rdl_semaphore_release(s, 2, &err));
        cr_assert(is_free(5));
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(5, rdl_semaphore_drain(s, &err));
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(RDL_OK, rdl_semaphore_add_permits(s, 5, &err));
        cr_assert(is_free(5));
    }
    rdl_semaphore_free(s);
}

Test(semaphore, verbs_cut_at_any_byte_of_their_request_count_once)
{
    rdl_semaphore_t *s = open_proxied(1);

    for (size_t at = 0; at < 300; at += 23) {
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .command = "EVALSHA", .contains = NAME, .at = at);
        expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 5000, &err));
        cr_assert(is_free(0));
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .command = "EVALSHA", .contains = NAME, .at = at);
        expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
        cr_assert(is_free(1));
    }
    rdl_semaphore_free(s);
}

/* A3, Q1 */
Test(semaphore, take_whose_outcome_is_unknown_is_undone)
{
    rdl_semaphore_t *s = open_proxied(3);
    int held = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);

    expect(RDL_EUNKNOWN, rdl_semaphore_try_acquire(s, 2, 0, &err));
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(is_free(3), SOON_MS));
    held = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    expect(RDL_EUNKNOWN, rdl_semaphore_drain(s, &err));
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS " NAME) == 1 && is_free(3), SOON_MS));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 3, 0, &err));
    rdl_semaphore_free(s);
}

Test(semaphore, release_whose_outcome_is_unknown_goes_on_once)
{
    rdl_semaphore_t *s = open_proxied(3);
    int held;

    expect(RDL_OK, rdl_semaphore_try_acquire(s, 3, 0, &err));
    held = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    expect(RDL_EUNKNOWN, rdl_semaphore_release(s, 2, &err));
    cr_assert_not_null(strstr(err.message, "goes on"), "%s", err.message);
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(is_free(2), SOON_MS));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 2, 0, &err));
    cr_assert(is_free(0));
    rdl_semaphore_free(s);
}

/* The server has refused: a caller that tries again gives back once. What went on in the background would go before the
 * look. */
Test(semaphore, release_that_the_server_refused_does_not_go_on)
{
    rdl_semaphore_t *s = open_proxied(3);
    struct outcome o = {0};

    (void)proxy_on(st.proxy, .action = PROXY_ANSWER, .command = "EVALSHA", .contains = NAME,
                   .answer = "-OOM nothing left\r\n");
    expect(RDL_ESERVER, rdl_semaphore_release(s, 1, &err));
    expect(RDL_OK, rdl_semaphore_available_async(s, NULL, note, &o, NULL, &err));
    cr_assert_eq(outcome_wait(&o, SOON_MS), 3);
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    cr_assert(is_free(4));
    rdl_semaphore_free(s);
}

/* An earlier sending may have run: what the server says to the repeat is not the outcome. */
Test(semaphore, release_whose_repeat_is_refused_goes_on_once)
{
    rdl_semaphore_t *s = open_proxied(3);

    (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    (void)proxy_on(st.proxy, .action = PROXY_ANSWER, .command = "EVALSHA", .contains = NAME, .nth = 2,
                   .answer = "-OOM nothing left\r\n");
    expect(RDL_EUNKNOWN, rdl_semaphore_release(s, 1, &err));
    expect(4, rdl_semaphore_available(s, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 4, 0, &err));
    cr_assert(is_free(0));
    rdl_semaphore_free(s);
}

/* A4 */
Test(semaphore, cancelled_acquires_leave_no_permit_taken_and_no_subscription)
{
    rdl_semaphore_t *s = open_with(2);

    for (int i = 0; i < 300; i++) {
        struct outcome o = {0};
        rdl_op_t *op = NULL;
        int64_t result;

        begin(s, 1 + i % 3, RDL_WAIT_FOREVER, &o, &op);
        if (i % 4 == 3)
            let_pass_ms(1);
        rdl_op_cancel(op);
        result = outcome_wait(&o, SOON_MS);
        cr_assert(result == RDL_OK || result == RDL_ECANCELED, "%" PRId64, result);
        if (result == RDL_OK)
            expect(RDL_OK, rdl_semaphore_release(s, 1 + i % 3, &err));
        rdl_op_free(op);
    }
    cr_assert(WAIT_UNTIL(is_free(2), SOON_MS));
    cr_assert(sleeps(0));
    rdl_semaphore_free(s);
}

/* ---- crowds ----------------------------------------------------------------------------------------------------- */

struct visitor {
    rdl_semaphore_t *semaphore;
    atomic_int *inside;
    atomic_int *most;
    int64_t permits;
    int rounds;
};

static int64_t visit(void *arg, rdl_err_t *e)
{
    struct visitor *v = arg;
    int rc = RDL_OK;

    for (int i = 0; i < v->rounds && rc == RDL_OK; i++) {
        int now, most;

        if ((rc = rdl_semaphore_try_acquire(v->semaphore, v->permits, 20000, e)) < 0)
            break;
        now = atomic_fetch_add(v->inside, (int)v->permits) + (int)v->permits;
        for (most = atomic_load(v->most); now > most && !atomic_compare_exchange_weak(v->most, &most, now);)
            ;
        (void)atomic_fetch_sub(v->inside, (int)v->permits);
        rc = rdl_semaphore_release(v->semaphore, v->permits, e);
    }
    return rc;
}

static void check_crowd(bool fair)
{
    enum { VISITORS = 8, CLIENTS = 2, PERMITS = 3 };
    rdl_semaphore_t *s = fair ? open_fair(PERMITS) : open_with(PERMITS), *handles[CLIENTS];
    rdl_client_t *other = client_open(stage_uri(&st), NULL);
    struct visitor visitors[VISITORS];
    struct caller *callers[VISITORS];
    atomic_int inside, most;

    atomic_init(&inside, 0);
    atomic_init(&most, 0);
    handles[0] = s;
    handles[1] = semaphore(other, fair);
    for (size_t i = 0; i < VISITORS; i++) {
        visitors[i] = (struct visitor){handles[i % CLIENTS], &inside, &most, 1 + (int64_t)i % PERMITS, 60};
        callers[i] = caller_new();
        caller_call(callers[i], visit, &visitors[i]);
    }
    for (size_t i = 0; i < VISITORS; i++)
        expect_result(RDL_OK, callers[i], 50000);
    for (size_t i = 0; i < VISITORS; i++)
        caller_free(callers[i]);
    cr_assert_leq(atomic_load(&most), PERMITS);
    cr_assert(is_free(PERMITS));
    cr_assert(sleeps(0));
    rdl_semaphore_free(handles[1]);
    rdl_client_close(other);
    rdl_semaphore_free(s);
}

Test(semaphore, crowd_never_has_more_permits_than_there_are)
{
    check_crowd(false);
}

Test(semaphore, fair_crowd_gets_through)
{
    check_crowd(true);
}
