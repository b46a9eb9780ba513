/* SPDX-License-Identifier: MIT */
/* test_types.c - what every type of single lock does alike, by itself and beside a rival.
 *
 * What happens under faults is in test_doubt, test_watchdog, test_cancel and test_thread_exit, for every type as well;
 * what a type has of its own is in a program of its own. */
#include "tests/live/live.h"

#define NAME "orders:42"
#define LEASE_MS 10000

LIVE_SUITE(types, 60);

static rdl_client_t *other;

static void open_two_clients(void)
{
    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
}

/* The server forgets the lock, with all that belongs to it. */
static void forget(void)
{
    (void)probe_text(st.probe, "FLUSHDB");
}

static void take_and_give(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(lock_keys(st.probe, NAME), 0);
}

/* A handle is a lock: same owner, same hold. What a composite has is its own. */
static rdl_lock_t *another_handle(const struct kind *kind, rdl_lock_t *lock)
{
    return kind->members > 0 ? lock : kind->make(st.client, NAME, NULL);
}

/* T2 */
Test(types, T2_a_lock_is_held_by_its_holder_alone)
{
    struct caller *thread = caller_new();

    open_two_clients();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *same = another_handle(kind, lock);
        rdl_lock_t *mirror = kind->make(other, NAME, NULL);
        rdl_lock_t *near = kind->rival(st.client, NAME, NULL), *far = kind->rival(other, NAME, NULL);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        caller_try_lock(thread, near, 0, LEASE_MS);
        expect_result(RDL_ETIMEDOUT, thread, SOON_MS);
        expect_err_names(caller_error(thread), RDL_ETIMEDOUT, rdl_lock_name(near, NULL));
        caller_unlock(thread, same);
        expect_result(RDL_ENOTOWNER, thread, SOON_MS);
        expect(RDL_ETIMEDOUT, rdl_try_lock(far, 0, LEASE_MS, &err));
        expect(1, rdl_is_held(lock, &err));
        expect(1, rdl_is_held(same, &err));
        expect(0, rdl_is_held(mirror, &err));
        expect(0, rdl_hold_count(mirror, &err));
        expect(RDL_NOT_HELD, rdl_hold_state(mirror, &err));
        expect(RDL_HELD, rdl_hold_state(lock, &err));
        expect(1, rdl_is_locked(mirror, &err));
        expect_between(LEASE_MS - SLACK_MS, rdl_remaining_ms(mirror, &err), LEASE_MS);
        expect(RDL_OK, rdl_unlock(same, &err));
        expect(0, rdl_is_locked(mirror, &err));
        expect(0, rdl_remaining_ms(mirror, &err));
        take_and_give(far);
        if (same != lock)
            rdl_lock_free(same);
        rdl_lock_free(mirror);
        rdl_lock_free(near);
        rdl_lock_free(far);
        lock_over(st.probe, lock);
    }
    caller_free(thread);
    rdl_client_close(other);
}

/* When that was begun. A grant that is read when its lease is over is none, as on a machine that stands still. */
static int64_t take_for_a_quarter_second(const struct kind *kind, rdl_lock_t *lock)
{
    int64_t start = 0;
    int rc = RDL_ELOST;

    for (int tries = 0; tries < 5 && rc != RDL_OK; tries++) {
        cr_assert(rc == RDL_ELOST || (kind->votes && rc == RDL_ENOQUORUM), "%s: %s", kind->type, err.message);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS), "%s", kind->type);
        start = now_ms();
        rc = rdl_try_lock(lock, 0, 250, &err);
    }
    cr_assert_eq(rc, RDL_OK, "%s: %s", kind->type, err.message);
    return start;
}

/* T3: within bounds right after taking, and a lease in fractions of a second is a lease. */
Test(types, T3_a_lease_of_a_quarter_second_ends_after_a_quarter_second)
{
    open_two_clients();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *far = kind->rival(other, NAME, NULL);
        int64_t start = take_for_a_quarter_second(kind, lock);

        cr_assert_leq(probe_int(st.probe, "PTTL " NAME), 250);
        expect(RDL_OK, rdl_try_lock(far, SOON_MS, LEASE_MS, &err));
        /* from the local deadline on (2 ms and 1 % earlier), when the lost hold is released in case the server still
         * has it */
        expect_between(250 - 6, now_ms() - start, 250 + SLACK_MS);
        expect(RDL_ELOST, rdl_is_held(lock, &err));
        expect(RDL_ELOST, rdl_try_lock(lock, 0, LEASE_MS, &err)); /* never a new lock in silence */
        expect(RDL_ELOST, rdl_unlock(lock, &err));
        expect(0, rdl_is_held(lock, &err));
        expect(RDL_OK, rdl_unlock(far, &err));
        rdl_lock_free(far);
        lock_over(st.probe, lock);
    }
    rdl_client_close(other);
}

/* T5 */
Test(types, T5_not_held_and_no_longer_held_are_told_apart_and_forgotten_either_way)
{
    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
        expect_err_names(&err, RDL_ENOTOWNER, rdl_lock_name(lock, NULL));
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        forget();
        expect(RDL_ELOST, rdl_unlock(lock, &err));
        expect_err_names(&err, RDL_ELOST, rdl_lock_name(lock, NULL));
        expect(0, rdl_is_held(lock, &err));
        expect(0, rdl_hold_count(lock, &err));
        expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
        take_and_give(lock);
        lock_over(st.probe, lock);
    }
}

/* T6 */
Test(types, T6_extend_reaches_at_least_what_was_asked_and_adds_nothing)
{
    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_extend(lock, 2 * LEASE_MS, &err));
        expect_between(2 * LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), 2 * LEASE_MS);
        expect_between(2 * LEASE_MS - SLACK_MS, rdl_remaining_ms(lock, &err), 2 * LEASE_MS);
        expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
        expect_between(2 * LEASE_MS - 2 * SLACK_MS, probe_int(st.probe, "PTTL " NAME), 2 * LEASE_MS);
        expect_between(2 * LEASE_MS - 2 * SLACK_MS, rdl_remaining_ms(lock, &err), 2 * LEASE_MS);
        expect(RDL_OK, rdl_extend(lock, 3 * LEASE_MS, &err));
        expect_between(3 * LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), 3 * LEASE_MS);
        expect(1, rdl_hold_count(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
}

/* T6 */
Test(types, T6_what_is_unlocked_foreign_or_lost_is_not_extended_each_in_its_way)
{
    open_two_clients();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *far = kind->rival(other, NAME, NULL);

        expect(RDL_ENOTOWNER, rdl_extend(lock, LEASE_MS, &err));
        expect(RDL_OK, rdl_try_lock(far, 0, LEASE_MS, &err));
        expect(RDL_ENOTOWNER, rdl_extend(lock, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(far, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        forget();
        expect(RDL_ELOST, rdl_extend(lock, LEASE_MS, &err));
        expect(RDL_ELOST, rdl_is_held(lock, &err));
        expect(RDL_LOST, rdl_hold_state(lock, &err));
        expect(RDL_ELOST, rdl_unlock(lock, &err));
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        rdl_lock_free(far);
        lock_over(st.probe, lock);
    }
    rdl_client_close(other);
}

/* T8: even when nobody looked before. */
Test(types, T8_release_of_an_expired_hold_says_lost_for_every_nested_count)
{
    enum { KINDS_MAX = 16, BRIEF_MS = 2000 };
    rdl_lock_t *lock[KINDS_MAX];

    cr_assert_leq(kind_count, KINDS_MAX);
    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        lock[kind - kinds] = kind->make(st.client, kind_name(kind), NULL);
        for (int i = 0; i <= kind->reentrant; i++)
            expect(RDL_OK, rdl_try_lock(lock[kind - kinds], 0, BRIEF_MS, &err));
    }
    FOR_EACH_KIND(kind)
    {
        cr_assert(WAIT_UNTIL(lock_holds(st.probe, kind_name(kind)) == 0, BRIEF_MS + SOON_MS), "%s", kind->type);
        for (int i = 0; i <= kind->reentrant; i++)
            expect(RDL_ELOST, rdl_unlock(lock[kind - kinds], &err));
        expect(RDL_ENOTOWNER, rdl_unlock(lock[kind - kinds], &err));
        expect(RDL_OK, rdl_try_lock(lock[kind - kinds], SOON_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock[kind - kinds], &err));
        lock_over(st.probe, lock[kind - kinds]);
    }
}

/* ---- giving up, and bad input ----------------------------------------------------------------------------------- */

/* Of those who look by themselves the time may be up with a try on the way (lock.h, rdl_try_lock), which is undone. */
static bool waited_in_vain(const struct kind *kind, int rc)
{
    return rc == RDL_ETIMEDOUT || (kind->polls && rc == RDL_EUNKNOWN) || (kind->votes && rc == RDL_ENOQUORUM);
}

/* T4, T9: also when a policy would look again only much later. */
Test(types, T4_giving_up_is_exact_and_names_lock_and_server)
{
    enum { WAIT_MS = 150 };
    const rdl_retry_t policies[] = {{.kind = RDL_RETRY_DEFAULT},
                                    {.kind = RDL_RETRY_FIXED, .min_ms = 60000, .max_ms = 60000}};

    open_two_clients();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *rival = kind->rival(other, NAME, NULL);
        int64_t keys;

        expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
        keys = lock_keys(st.probe, NAME);
        for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
            rdl_lock_t *lock = kind->make(st.client, NAME, LOCK_OPTIONS(.retry = policies[i]));
            int64_t start = 0;
            int rc = RDL_EUNKNOWN;

            for (int tries = 0; tries < 5 && rc == RDL_EUNKNOWN; tries++) { /* unless the machine stood still */
                start = now_us();
                rc = rdl_try_lock(lock, WAIT_MS, LEASE_MS, &err);
            }
            cr_assert(waited_in_vain(kind, rc), "%s: %s", kind->type, code_name(rc));
            expect_between(WAIT_MS * 1000, now_us() - start, (WAIT_MS + SLACK_MS) * 1000);
            expect_err_names(&err, rc, rdl_lock_name(lock, NULL));
            cr_assert_str_eq(err.server + strlen("unix:"), stage_place(&st), "%s: %s", kind->type, err.server);
            rdl_lock_free(lock);
        }
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == keys && probe_channels(st.probe) == 0, SOON_MS), "%s",
                  kind->type);
        expect(RDL_OK, rdl_unlock(rival, &err));
        lock_over(st.probe, rival);
    }
    rdl_client_close(other);
}

/* T15, T9 */
Test(types, T15_unreachable_server_is_a_bounded_failure_that_names_it)
{
    enum { WAIT_MS = 150 };
    const char *server;

    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 20));
    server = stage_place(&st);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int64_t start;
        int rc;

        take_and_give(lock);
        proxy_refuse(st.proxy, true);
        proxy_cut(st.proxy, PROXY_ALL);
        start = now_ms();
        rc = rdl_try_lock(lock, WAIT_MS, LEASE_MS, &err);
        expect_between(0, now_ms() - start, WAIT_MS + SLACK_MS);
        cr_assert(rc == (kind->votes ? RDL_ENOQUORUM : RDL_ECONN) || rc == RDL_EUNKNOWN, "%s: %s", kind->type,
                  code_name(rc));
        expect_err_names(&err, rc, rdl_lock_name(lock, NULL));
        cr_assert_not_null(strstr(err.message, server), "%s: %s", kind->type, err.message);
        proxy_refuse(st.proxy, false);
        expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS), "%s", kind->type);
        lock_over(st.probe, lock);
    }
}

/* Q5 */
Test(types, Q5_numbers_out_of_range_are_refused_and_leave_no_key)
{
    static const int64_t bad_leases[] = {
        0, -1, INT64_C(-30000), RDL_LEASE_MAX_MS + 1, INT64_C(1) << 41, INT64_MAX, INT64_MIN + 1};
    static const int64_t bad_waits[] = {-1, INT64_MIN, -RDL_LEASE_MAX_MS};

    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        for (size_t i = 0; i < sizeof bad_leases / sizeof *bad_leases; i++) {
            expect(RDL_EINVAL, rdl_try_lock(lock, 0, bad_leases[i], &err));
            expect(RDL_EINVAL, rdl_lock(lock, bad_leases[i], &err));
            expect(RDL_EINVAL, rdl_try_lock_async(lock, NULL, 0, bad_leases[i], NULL, NULL, NULL, &err));
        }
        for (size_t i = 0; i < sizeof bad_waits / sizeof *bad_waits; i++)
            expect(RDL_EINVAL, rdl_try_lock(lock, bad_waits[i], LEASE_MS, &err));
        cr_assert_eq(probe_keys(st.probe), 0, "%s", kind->type);
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        for (size_t i = 0; i < sizeof bad_leases / sizeof *bad_leases; i++) {
            expect(RDL_EINVAL, rdl_extend(lock, bad_leases[i], &err));
            expect(RDL_EINVAL, rdl_extend_async(lock, NULL, bad_leases[i], NULL, NULL, NULL, &err));
        }
        expect_between(LEASE_MS - SLACK_MS, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
        expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
}

/* T12 */
Test(types, T12_null_and_closed_handles_are_errors_and_no_crash)
{
    rdl_lock_t **closed = must_alloc(kind_count * sizeof *closed);

    open_two_clients();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = NULL;

        expect(RDL_EINVAL, kind->constructor(NULL, NAME, NULL, &lock, &err));
        expect(RDL_EINVAL, kind->constructor(st.client, NULL, NULL, &lock, &err));
        expect(RDL_EINVAL, kind->constructor(st.client, "", NULL, &lock, &err));
        expect(RDL_EINVAL, kind->constructor(st.client, NAME, NULL, NULL, &err));
        cr_assert_null(lock, "%s", kind->type);
        closed[kind - kinds] = kind->make(other, kind_name(kind), NULL);
    }
    rdl_client_close(other);
    for (size_t i = 0; i < kind_count; i++) {
        expect(RDL_ECLOSED, rdl_try_lock(closed[i], 0, LEASE_MS, &err));
        expect_err_names(&err, RDL_ECLOSED, rdl_lock_name(closed[i], NULL));
        expect(RDL_ECLOSED, rdl_try_lock_async(closed[i], NULL, 0, LEASE_MS, NULL, NULL, NULL, &err));
        expect(RDL_ECLOSED, rdl_unlock(closed[i], &err));
        expect(RDL_ECLOSED, rdl_force_unlock(closed[i], &err));
        expect(RDL_ECLOSED, rdl_extend(closed[i], LEASE_MS, &err));
        expect(RDL_ECLOSED, rdl_is_locked(closed[i], &err));
        expect(RDL_ECLOSED, rdl_is_held(closed[i], &err));
        expect(RDL_ECLOSED, rdl_hold_count(closed[i], &err));
        expect(RDL_ECLOSED, rdl_hold_state(closed[i], &err));
        expect(RDL_ECLOSED, rdl_remaining_ms(closed[i], &err));
        expect(RDL_ECLOSED, rdl_token(closed[i], &err));
        cr_assert_null(rdl_lock_free(closed[i]));
    }
    free(closed);
}

/* ---- crowds ----------------------------------------------------------------------------------------------------- */

#define TRIES 100
#define CLIENTS 5

/* How many of the callers got it, each by one try; all give it back. */
static int winners_of(struct caller **callers, rdl_lock_t **locks)
{
    int64_t results[TRIES];
    int winners = 0;

    for (int i = 0; i < TRIES; i++)
        caller_try_lock(callers[i], locks[i % CLIENTS], 0, LEASE_MS);
    for (int i = 0; i < TRIES; i++) {
        results[i] = caller_result(callers[i], 20000);
        cr_assert(results[i] == RDL_OK || results[i] == RDL_ETIMEDOUT, "%s", code_name(results[i]));
        winners += results[i] == RDL_OK;
    }
    for (int i = 0; i < TRIES; i++) {
        if (results[i] != RDL_OK)
            continue;
        caller_unlock(callers[i], locks[i % CLIENTS]);
        expect_result(RDL_OK, callers[i], SOON_MS);
    }
    return winners;
}

/* T10; of those who share, all win. Of those who want several locks at a time each may have kept another one out. */
Test(types, T10_hundred_concurrent_single_tries_have_one_winner)
{
    struct caller *callers[TRIES];
    rdl_client_t *clients[CLIENTS];
    rdl_lock_t *locks[CLIENTS];

    stage_open(&st);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_open(stage_uri(&st), NULL);
    for (int i = 0; i < TRIES; i++)
        callers[i] = caller_new();
    FOR_EACH_KIND(kind)
    {
        for (int i = 0; i < CLIENTS; i++)
            locks[i] = kind->make(clients[i], NAME, NULL);
        expect_between(kind->members > 1 ? 0 : 1, winners_of(callers, locks), kind->rival == kind->make ? 1 : TRIES);
        for (int i = 0; i < CLIENTS; i++)
            lock_over(st.probe, locks[i]);
    }
    for (int i = 0; i < TRIES; i++)
        caller_free(callers[i]);
    for (int i = 0; i < CLIENTS; i++)
        rdl_client_close(clients[i]);
}

/* ---- wake-ups --------------------------------------------------------------------------------------------------- */

/* A waiter sleeps, or is about to: it has tried, subscribed and tried again, and the answer to that is held by the
 * rule. */
static int hold_the_last_refusal(const struct kind *kind)
{
    /* Of all members at once, then of the one that is waited for; a simple lock's first is another command. */
    unsigned tries = kind->members > 0 ? (unsigned)kind->members + 2 : strcmp(kind->take, "EVALSHA") != 0 ? 1 : 2;

    return proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                    .nth = tries);
}

/* Q6. Who polls hears no message. */
Test(types, Q6_refusal_that_a_message_has_overtaken_puts_nobody_to_sleep)
{
    struct caller *waiter = caller_new();

    stage_open(&st, .proxied = true);
    other = client_open(server_uri(st.server), NULL);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock, *rival;
        int refusal, message;

        if (kind->polls)
            continue;
        lock = kind->make(st.client, NAME, NULL);
        rival = kind->rival(other, NAME, NULL);
        expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
        refusal = hold_the_last_refusal(kind);
        message = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_MESSAGE, .contains = NAME);
        caller_try_lock(waiter, lock, 15000, LEASE_MS);
        cr_assert(proxy_wait(st.proxy, refusal, 1, SOON_MS), "%s", kind->type);
        expect(RDL_OK, rdl_unlock(rival, &err));
        cr_assert(proxy_wait(st.proxy, message, 1, SOON_MS), "%s", kind->type);
        let_pass_ms(20); /* the message is with the client */
        proxy_let_go(st.proxy, refusal);
        expect_result(RDL_OK, waiter, WOKEN_MS); /* it would look by itself after 5 s */
        caller_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
        rdl_lock_free(rival);
        lock_over(st.probe, lock);
    }
    caller_free(waiter);
    rdl_client_close(other);
}

/* Freed as the first of two gives up: whatever that one had, the second gets in. */
static void check_freed_as_it_leaves(struct caller *first, struct caller *second, rdl_lock_t *lock, rdl_lock_t *rival,
                                     int64_t at_us)
{
    enum { WAIT_MS = 60 };
    int64_t leaves_us, rc;

    expect(RDL_OK, rdl_try_lock(rival, SOON_MS, LEASE_MS, &err)); /* what was given up may be on its way back */
    leaves_us = now_us() + WAIT_MS * 1000;
    caller_try_lock(first, lock, WAIT_MS, LEASE_MS);
    let_pass_ms(5);
    caller_try_lock(second, lock, 10000, LEASE_MS);
    while (now_us() < leaves_us + at_us)
        ;
    expect(RDL_OK, rdl_unlock(rival, &err));
    if ((rc = caller_result(first, SOON_MS)) == RDL_OK)
        caller_unlock(first, lock);
    else /* unknown: its time was up with a try on the way, which is undone */
        cr_assert(rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN || rc == RDL_ENOQUORUM, "%s: %s", code_name(rc),
                  caller_error(first)->message);
    expect_result(RDL_OK, second, WOKEN_MS);
    (void)caller_result(first, SOON_MS);
    caller_unlock(second, lock);
    expect_result(RDL_OK, second, SOON_MS);
}

/* Q6: from 1 ms before the first one leaves to 1 ms after it. */
Test(types, Q6_waiter_that_times_out_as_it_is_woken_hands_the_wake_up_on)
{
    enum { ROUNDS = 8 };
    struct caller *first = caller_new(), *second = caller_new();

    open_two_clients();
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *rival = kind->rival(other, NAME, NULL);

        for (int round = 0; round < ROUNDS; round++)
            check_freed_as_it_leaves(first, second, lock, rival, -1000 + round * 2000 / ROUNDS);
        rdl_lock_free(rival);
        lock_over(st.probe, lock);
    }
    caller_free(first);
    caller_free(second);
    rdl_client_close(other);
}

/* ---- liveness under faults -------------------------------------------------------------------------------------- */

#define ONE_WAY_MS 10
#define ROUND_TRIP_MS (2 * ONE_WAY_MS)

/* What goes wrong as the lock is freed. */
enum fault { NOTHING, SUBSCRIBER_IS_CUT, TRY_IS_CUT, ANSWER_IS_CUT, FAULTS };

static void let_happen(enum fault fault)
{
    enum proxy_part part = fault == TRY_IS_CUT ? PROXY_REQUEST : PROXY_REPLY;

    if (fault == SUBSCRIBER_IS_CUT)
        proxy_cut(st.proxy, PROXY_SUBSCRIBERS);
    else if (fault != NOTHING)
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = part, .command = "EVALSHA", .contains = NAME, .at = 3);
}

/* `waiter` sleeps for `lock` at the far end of a slow line while `rival` is held, next to the server, and freed. */
static void check_freed_beside(struct caller *waiter, rdl_lock_t *lock, rdl_lock_t *rival, const struct kind *kind,
                               enum fault fault)
{
    int64_t freed;

    expect(RDL_OK, rdl_try_lock(rival, 0, 60000, &err));
    caller_try_lock(waiter, lock, 30000, 60000);
    cr_assert(kind->polls || WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(3 * ROUND_TRIP_MS); /* its try after the acknowledgement is over */
    let_happen(fault);
    freed = now_ms();
    expect(RDL_OK, rdl_unlock(rival, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_leq(now_ms() - freed, 5 * ROUND_TRIP_MS + (kind->polls ? 128 : 0) + SLACK_MS, "%s, fault %d: %lld ms",
                  kind->type, (int)fault, (long long)(now_ms() - freed));
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
}

/* Who wants to write is kept out by readers as well. */
static handle_fn *second_rival(const struct kind *kind)
{
    return kind->constructor == rdl_write_lock ? read_end : kind->rival;
}

/* Q6, too: the subscription is established again while a waiter sleeps. Five round trips are: connect, greet, subscribe
 * or kill, try, answer; a sleeper that was forgotten looks after 5 s. */
Test(types, free_lock_with_a_live_waiter_is_taken_within_five_round_trips_whatever_is_cut)
{
    struct caller *waiter = caller_new();

    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 5));
    other = client_open(server_uri(st.server), NULL);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        handle_fn *rivals[] = {kind->rival, second_rival(kind)};

        for (unsigned i = 0; i < (rivals[1] != rivals[0] ? 2 * FAULTS : FAULTS); i++) {
            rdl_lock_t *rival = rivals[i / FAULTS](other, NAME, NULL);

            proxy_delay(st.proxy, PROXY_BOTH_WAYS, ONE_WAY_MS);
            check_freed_beside(waiter, lock, rival, kind, (enum fault)(i % FAULTS));
            rdl_lock_free(rival);
        }
        lock_over(st.probe, lock);
    }
    caller_free(waiter);
    rdl_client_close(other);
}
