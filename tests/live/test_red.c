/* SPDX-License-Identifier: MIT */
/* test_red.c - one lock on five servers: a majority is enough, less is nothing, and what is lost is lost. */
#include "tests/live/red.h"

TestSuite(red, .fini = fini, .timeout = 60);

/* M9 */
Test(red, M9_majority_grants_and_all_are_released)
{
    int64_t left;

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    left = rdl_remaining_ms(red[0], &err);
    expect_between(LEASE_MS - SLACK_MS, left, LEASE_MS - LEASE_MS / 100 - 2); /* lease - elapsed - drift */
    expect(1, rdl_is_held(red[0], &err));
    cr_assert_gt(rdl_token(red[0], &err), INT64_C(1) << 40);
    cr_assert(WAIT_UNTIL(keys() == N, SOON_MS)); /* the rest joins */
    expect(RDL_ETIMEDOUT, rdl_try_lock(red[1], 0, LEASE_MS, &err));
    expect(1, rdl_is_locked(red[1], &err));
    expect_between(1, rdl_remaining_ms(red[1], &err), LEASE_MS);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    expect(2, rdl_hold_count(red[0], &err));
    expect(RDL_OK, rdl_extend(red[0], 2 * LEASE_MS, &err));
    expect_between(LEASE_MS, rdl_remaining_ms(red[0], &err), 2 * LEASE_MS);
    expect(RDL_OK, rdl_unlock(red[0], &err));
    expect(RDL_OK, rdl_unlock(red[0], &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
    expect(0, rdl_is_locked(red[1], &err));
    cr_assert_str_eq(rdl_lock_type(red[0]), "red");
}

/* M8: not even one node's timeout. */
Test(red, M8_hung_minority_costs_nothing)
{
    int64_t start;

    open_with(NULL, TOLERANT);
    pause_some(2);
    start = now_ms();
    expect(RDL_OK, rdl_try_lock(red[0], SOON_MS, LEASE_MS, &err));
    cr_expect_lt(now_ms() - start, NODE_TIMEOUT_MS);
    expect(RDL_OK, rdl_unlock(red[0], &err));
    cr_expect_lt(now_ms() - start, NODE_TIMEOUT_MS);
    resume_some(2);
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS)); /* on those that did not answer, too */
}

/* T15 */
Test(red, T15_hung_majority_is_no_quorum_within_the_node_timeout)
{
    int64_t start;

    open_with(NULL, IMPATIENT);
    pause_some(3);
    start = now_ms();
    expect(RDL_ENOQUORUM, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    expect_between(SHORT_MS - 1, now_ms() - start, SHORT_MS + SLACK_MS);
    cr_assert(strstr(err.message, "3 are needed") != NULL, "%s", err.message);
    expect(0, rdl_hold_count(red[0], &err));
    resume_some(3);
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

/* The first call finds no connection for callers at its servers, which is made then; those after it send by themselves
 * and leave what is not answered to the loops. */
static void use_it_for_a_while(void)
{
    for (int i = 0; i < 50; i++) {
        expect(RDL_OK, rdl_try_lock(red[0], SOON_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(red[0], &err));
    }
}

Test(red, M8_minority_that_hangs_later_costs_nothing_and_is_tidied)
{
    int64_t start;

    open_with(NULL, TOLERANT);
    use_it_for_a_while();
    pause_some(2);
    start = now_ms();
    for (int i = 0; i < 3; i++) {
        expect(RDL_OK, rdl_try_lock(red[0], SOON_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(red[0], &err));
    }
    cr_expect_lt(now_ms() - start, NODE_TIMEOUT_MS);
    resume_some(2);
    use_it_for_a_while();
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

/* Of the three servers that it was taken on one hangs. */
Test(red, T15_answers_to_a_release_and_an_extend_are_waited_for_the_node_timeout)
{
    int64_t start;

    open_with(OPTIONS(.command_timeout_ms = 20000), IMPATIENT);
    use_it_for_a_while();
    server_pause(server[3]);
    server_pause(server[4]);
    expect(RDL_OK, rdl_try_lock(red[0], SOON_MS, LEASE_MS, &err));
    server_pause(server[0]);
    start = now_ms();
    expect(RDL_EUNKNOWN, rdl_extend(red[0], LEASE_MS, &err));
    expect_between(SHORT_MS - 1, now_ms() - start, SHORT_MS + SLACK_MS);
    cr_assert(strstr(err.message, "node_timeout_ms") != NULL, "%s", err.message);
    start = now_ms();
    expect(RDL_EUNKNOWN, rdl_unlock(red[0], &err));
    expect_between(SHORT_MS - 1, now_ms() - start, SHORT_MS + SLACK_MS);
    start = now_ms();
    expect(RDL_EUNKNOWN, (int)rdl_remaining_ms(red[1], &err));
    expect_between(SHORT_MS - 1, now_ms() - start, SHORT_MS + SLACK_MS);
    for (int i = 0; i < N; i += i == 0 ? 3 : 1)
        server_resume(server[i]);
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

Test(red, T15_majority_that_hangs_later_is_no_quorum_within_the_node_timeout)
{
    int64_t start;

    open_with(NULL, IMPATIENT);
    for (int i = 0; i < 3; i++) { /* who sends, the caller or its loop, is not certain each time */
        use_it_for_a_while();
        pause_some(3);
        start = now_ms();
        expect(RDL_ENOQUORUM, rdl_try_lock(red[0], 0, LEASE_MS, &err));
        expect_between(SHORT_MS - 1, now_ms() - start, SHORT_MS + SLACK_MS);
        resume_some(3);
        cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
    }
}

Test(red, killed_minority_does_not_matter_and_killed_majority_is_noticed)
{
    struct losses losses;

    open_with(OPTIONS(.watchdog_lease_ms = 3000), TOLERANT);
    losses_init(&losses);
    expect(RDL_OK, rdl_on_lost(red[0], losses_note, &losses, &err));
    server_kill(server[0]);
    server_kill(server[1]);
    probe_close(probe[0]);
    probe_close(probe[1]);
    probe[0] = probe[1] = NULL;
    expect(RDL_OK, rdl_try_lock(red[0], 20000, RDL_LEASE_AUTO, &err));
    expect(RDL_HELD, rdl_hold_state(red[0], &err));
    server_kill(server[2]);
    probe_close(probe[2]);
    probe[2] = NULL;
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    expect(RDL_ELOST, rdl_hold_count(red[0], &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS)); /* what is left of it is given back */
    expect(RDL_ELOST, rdl_unlock(red[0], &err));
    expect(0, rdl_hold_count(red[0], &err));
}

/* red[0] is held, by all but the servers that hang, when server 4 comes back empty: that one does not count, so the
 * rival has too few. */
static void come_back_empty(int hung)
{
    int rc;

    open_with(NULL, LOCK_OPTIONS(.node_timeout_ms = 1000, .min_uptime_ms = 3600000));
    rdl_lock_free(red[0]);
    expect(RDL_OK, rdl_red_lock(member[0], N, LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = 500),
                                &red[0], &err));
    pause_some(hung);
    expect(RDL_OK, rdl_try_lock(red[0], 20000, LEASE_MS, &err));
    let_pass_ms(600); /* those that hang are given up */
    server_kill(server[4]);
    server_start_again(server[4]);
    probe_close(probe[4]);
    probe[4] = probe_open(server[4]);
    resume_some(hung);
    rc = rdl_try_lock(red[1], 1500, LEASE_MS, &err);
    cr_assert(rc == RDL_ENOQUORUM ||
              rc == RDL_ETIMEDOUT); /* the latter when three have refused before the others answer */
    cr_assert(strstr(err.message, "do not count") != NULL, "%s", err.message);
}

/* A server hangs, and callers go on without it: what they leave for it to undo has a bound. */
Test(red, server_that_hangs_is_left_only_so_many_undos)
{
    enum { PAIRS = 3000, UNDOS_MOST = 1000 }; /* locks/composite/take.c */

    open_with(NULL, TOLERANT);
    pause_some(1);
    for (int i = 0; i < PAIRS; i++) {
        expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(red[0], &err));
    }
    resume_some(1);
    /* The client itself asks: pairs that took longer than a connection's patience have made it connect anew. */
    cr_assert(WAIT_UNTIL(rdl_try_lock(member[0][0], 0, LEASE_MS, &err) == RDL_OK, SOON_MS));
    expect(RDL_OK, rdl_unlock(member[0][0], &err));
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err)); /* it is asked again, behind what it was left */
    cr_assert(WAIT_UNTIL(keys() == N, SOON_MS));
    cr_assert_leq(probe_calls(probe[0], "eval"), UNDOS_MOST + 10);
    expect(RDL_OK, rdl_unlock(red[0], &err));
}

/* M6 */
Test(red, M6_server_that_restarts_empty_gives_nobody_a_majority)
{
    come_back_empty(1);
    expect(1, rdl_is_held(red[0], &err)); /* three of its four are left */
    expect(RDL_OK, rdl_unlock(red[0], &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

/* M6 */
Test(red, M6_holder_whose_majority_restarts_empty_learns_of_it)
{
    come_back_empty(2);
    cr_assert(WAIT_UNTIL(rdl_hold_state(red[0], NULL) == RDL_LOST, SOON_MS));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS)); /* what is left of it is given back */
}

/* M5: the majority's answers come when the lease is over. */
Test(red, M5_majority_that_comes_too_late_is_given_back)
{
    struct proxy *proxy[N];
    rdl_client_t *slow[N];
    rdl_lock_t *locks[N], *lock = NULL;

    open_with(NULL, TOLERANT);
    for (int i = 0; i < N; i++) {
        proxy[i] = proxy_start(server[i]);
        slow[i] = client_open(proxy_uri(proxy[i]), NULL);
        locks[i] = reentrant(slow[i], NAME, NULL);
        if (i < 3)
            proxy_delay(proxy[i], PROXY_TO_CLIENT, 300);
    }
    expect(RDL_OK, rdl_red_lock(locks, N, TOLERANT, &lock, &err));
    expect(RDL_ENOQUORUM, rdl_try_lock(lock, 0, 200, &err));
    expect(0, rdl_hold_count(lock, &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
    for (int i = 0; i < N; i++)
        proxy_delay(proxy[i], PROXY_TO_CLIENT, 0);
    expect(RDL_OK, rdl_try_lock(red[1], 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(red[1], &err));
    rdl_lock_free(lock);
    for (int i = 0; i < N; i++) {
        rdl_lock_free(locks[i]);
        rdl_client_close(slow[i]);
        proxy_stop(proxy[i]);
    }
}

Test(red, waiter_gets_it_after_the_holder)
{
    struct caller *caller = caller_new();

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    caller_try_lock(caller, red[1], 20000, LEASE_MS);
    let_pass_ms(50);
    cr_assert(!caller_idle(caller));
    expect(RDL_OK, rdl_unlock(red[0], &err));
    expect_result(RDL_OK, caller, SOON_MS);
    caller_unlock(caller, red[1]);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
}

/* Who pauses for longer than a test lasts has heard of it. */
#define UNASKED                                                                                                        \
    LOCK_OPTIONS(.min_uptime_ms = RDL_UPTIME_ANY, .node_timeout_ms = 1000, .retry = {RDL_RETRY_FIXED, 50000, 50000})
#define CHANNEL "redisson_lock__channel:{" NAME "}"

static bool listens_everywhere(void)
{
    for (int i = 0; i < N; i++)
        if (probe_subscribers(probe[i], CHANNEL) == 0)
            return false;
    return true;
}

static void somebody_has(int first, int last)
{
    for (int i = first; i <= last; i++)
        expect(1, probe_int(probe[i], "HSET " NAME " somebody 1"));
}

static void somebody_releases(int i)
{
    expect(1, probe_int(probe[i], "DEL " NAME));
    (void)probe_int(probe[i], "PUBLISH " CHANNEL " 0");
}

Test(red, waiter_is_woken_by_the_release)
{
    struct caller *caller[2] = {caller_new(), caller_new()};

    open_with(NULL, UNASKED);
    caller_try_lock(caller[0], red[0], 0, LEASE_MS);
    expect_result(RDL_OK, caller[0], SOON_MS);
    for (int i = 1; i <= 20; i++) {
        int64_t released;

        caller_try_lock(caller[i % 2], red[i % 2], 40000, LEASE_MS);
        cr_assert(WAIT_UNTIL(listens_everywhere(), SOON_MS));
        released = now_ms();
        caller_unlock(caller[(i + 1) % 2], red[(i + 1) % 2]);
        expect_result(RDL_OK, caller[(i + 1) % 2], SOON_MS);
        expect_result(RDL_OK, caller[i % 2], SOON_MS);
        expect_between(0, now_ms() - released, WOKEN_MS);
        cr_assert(WAIT_UNTIL(!listens_everywhere(), SOON_MS));
    }
    caller_free(caller[0]);
    caller_free(caller[1]);
}

/* Two were to be had all the time, and the third is released at last. */
Test(red, waiter_is_woken_when_the_majority_is_complete)
{
    struct caller *caller = caller_new();
    int64_t released;

    open_with(NULL, UNASKED);
    somebody_has(0, 2);
    caller_try_lock(caller, red[1], 40000, LEASE_MS);
    cr_assert(WAIT_UNTIL(listens_everywhere(), SOON_MS));
    released = now_ms();
    somebody_releases(1);
    expect_result(RDL_OK, caller, SOON_MS);
    expect_between(0, now_ms() - released, WOKEN_MS);
    caller_unlock(caller, red[1]);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
}

/* Of one client: the red lock's waiter, who listens and cannot have a majority, and one who wants a member. */
Test(red, listening_takes_no_turn_from_those_who_wait_for_a_member)
{
    struct caller *listener = caller_new(), *waiter = caller_new();
    int64_t released;

    open_with(NULL, UNASKED);
    somebody_has(0, 3);
    caller_try_lock(listener, red[1], RDL_WAIT_FOREVER, LEASE_MS);
    cr_assert(WAIT_UNTIL(listens_everywhere(), SOON_MS));
    caller_try_lock(waiter, member[1][0], 40000, LEASE_MS);
    let_pass_ms(50);
    cr_assert(!caller_idle(waiter));
    released = now_ms();
    somebody_releases(0);
    expect_result(RDL_OK, waiter, SOON_MS);
    expect_between(0, now_ms() - released, WOKEN_MS);
    caller_unlock(waiter, member[1][0]);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert(!caller_idle(listener));
    somebody_releases(1);
    expect_result(RDL_OK, listener, SOON_MS);
    caller_free(waiter);
    caller_free(listener);
}

/* Each take has its own majority: the first has servers 0 to 2, the nested one 2 to 4. */
Test(red, nested_take_that_another_majority_granted_is_given_back)
{
    open_with(NULL, TOLERANT);
    server_pause(server[3]);
    server_pause(server[4]);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    resume_some(N);
    pause_some(2);
    expect(RDL_OK, rdl_try_lock(red[0], SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(red[0], &err));
    expect(1, rdl_hold_count(red[0], &err));
    resume_some(2);
    expect(RDL_OK, rdl_unlock(red[0], &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

/* A lock on the first three servers, of which somebody else has the last. */
static rdl_lock_t *lock_of_two_votes(void)
{
    rdl_lock_t *lock = NULL;

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_red_lock(member[0], 3, TOLERANT, &lock, &err));
    foreign_take(probe[2], NAME, 6 * LEASE_MS);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    return lock;
}

/* Nobody has noticed yet. */
Test(red, extend_of_a_majority_that_is_gone_says_so)
{
    rdl_lock_t *lock = lock_of_two_votes();

    expect(1, probe_int(probe[0], "DEL " NAME));
    expect(RDL_ELOST, rdl_extend(lock, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "1 lost"), "%s", err.message);
    cr_assert(WAIT_UNTIL(probe_keys(probe[1]) == 0, SOON_MS)); /* the rest is given back */
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(red, unlock_of_a_majority_that_is_gone_says_so)
{
    rdl_lock_t *lock = lock_of_two_votes();

    expect(1, probe_int(probe[0], "DEL " NAME));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert_not_null(strstr(err.message, "1 lost"), "%s", err.message);
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(probe[1]), 0);
    rdl_lock_free(lock);
}

static void expect_counts(int first, int last, int64_t count)
{
    for (int i = first; i <= last; i++)
        cr_assert(WAIT_UNTIL(rdl_hold_count(member[0][i], NULL) == count, SOON_MS), "server %d", i);
}

/* The last two joined late: the nested unlock does not ask them. One of those that it asks has lost it. */
Test(red, nested_unlock_counts_no_member_that_was_lost_before)
{
    struct outcome o = {0};

    open_with(NULL, TOLERANT);
    somebody_has(3, 4);
    expect(RDL_OK, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    for (int i = 3; i < N; i++)
        expect(1, probe_int(probe[i], "DEL " NAME));
    for (int i = 0; i < 3; i++) /* they answer last, or there would be a majority without the others */
        server_pause(server[i]);
    expect(RDL_OK, rdl_try_lock_async(red[0], NULL, 0, LEASE_MS, outcome_note, &o, NULL, &err));
    expect_counts(3, 4, 1);
    for (int i = 0; i < 3; i++)
        server_resume(server[i]);
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    expect_counts(0, 2, 2);
    for (int i = 3; i < N; i++)
        expect(1, probe_int(probe[i], "DEL " NAME));
    expect(RDL_OK, rdl_extend(red[0], LEASE_MS, &err));
    expect_counts(3, 4, RDL_ELOST);
    expect(RDL_HELD, rdl_hold_state(red[0], &err));
    expect(1, probe_int(probe[0], "DEL " NAME));
    expect(RDL_ELOST, rdl_unlock(red[0], &err));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS)); /* the rest is given back */
    expect(RDL_ELOST, rdl_unlock(red[0], &err));
}

/* What does not answer may still have it: it is a failure, and no loss. */
Test(red, extend_that_too_few_answer_is_not_taken_for_a_loss)
{
    rdl_lock_t *lock = lock_of_two_votes();

    expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
    server_pause(server[0]);
    expect(RDL_EUNKNOWN, rdl_extend(lock, LEASE_MS, &err));
    server_resume(server[0]);
    expect(RDL_HELD, rdl_hold_state(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* The field of such a hold does not end with its number. */
Test(red, lost_write_ends_are_heard_of)
{
    rdl_lock_t *ends[3], *lock = NULL;
    struct losses losses;

    open_with(OPTIONS(.watchdog_lease_ms = 3000), TOLERANT);
    for (int i = 0; i < 3; i++)
        ends[i] = write_end(client[0][i], "w", NULL);
    expect(RDL_OK, rdl_red_lock(ends, 3, TOLERANT, &lock, &err));
    losses_init(&losses);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(keys() == 3, SOON_MS));
    expect(1, probe_int(probe[0], "DEL w"));
    cr_assert(losses_wait(&losses, RDL_AT_RISK, 1, SOON_MS));
    expect(1, probe_int(probe[1], "DEL w"));
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS)); /* the rest is given back */
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    for (int i = 0; i < 3; i++)
        rdl_lock_free(ends[i]);
}

/* An owner given explicitly is of one client; in the others one stands for it. */
Test(red, explicit_owner_acts_in_every_client)
{
    struct outcome taken = {0}, released = {0}, stopped = {0};
    rdl_owner_t *owner = NULL;
    rdl_op_t *op = NULL;

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_owner_new(client[0][2], &owner, &err));
    expect(RDL_OK, rdl_lock_async(red[0], owner, RDL_LEASE_AUTO, outcome_note, &taken, NULL, &err));
    expect(RDL_OK, outcome_wait(&taken, SOON_MS));
    expect(RDL_HELD, rdl_owner_hold_state(owner, red[0], &err));
    expect(0, rdl_hold_count(red[0], &err));
    expect(RDL_OK, rdl_lock_async(red[0], NULL, LEASE_MS, outcome_note, &stopped, &op, &err));
    rdl_op_cancel(op);
    expect(RDL_ECANCELED, outcome_wait(&stopped, SOON_MS));
    rdl_op_free(op);
    expect(RDL_OK, rdl_unlock_async(red[0], owner, outcome_note, &released, NULL, &err));
    expect(RDL_OK, outcome_wait(&released, SOON_MS));
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
    expect(0, rdl_force_unlock(red[0], &err));
    rdl_owner_free(owner);
}

/* The owner's client is a mere member's. Two servers are left. */
Test(red, closing_the_owners_client_does_not_end_what_a_majority_can_grant)
{
    struct outcome taken = {0}, released = {0};
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock = NULL;

    open_with(NULL, TOLERANT);
    expect(RDL_OK, rdl_red_lock(member[0], 3, TOLERANT, &lock, &err));
    expect(RDL_OK, rdl_owner_new(client[0][2], &owner, &err));
    somebody_has(0, 1);
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &taken, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_subscribers(probe[0], CHANNEL) == 1, SOON_MS));
    client[0][2] = rdl_client_close(client[0][2]);
    cr_assert_eq(atomic_load(&taken.calls), 0);
    somebody_releases(0);
    somebody_releases(1);
    expect(RDL_OK, outcome_wait(&taken, SOON_MS));
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &released, NULL, &err));
    expect(RDL_OK, outcome_wait(&released, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_keys(probe[0]) == 0 && probe_keys(probe[1]) == 0, SOON_MS));
    rdl_lock_free(lock);
    rdl_owner_free(owner);
}

/* The answer says of each server what it said, and of a majority that it refused. */
static void expect_reasons(void)
{
    int refused = 0;

    for (const char *at = err.message; (at = strstr(at, " refused")) != NULL; at++)
        refused++;
    cr_assert_geq(refused, 1 + (N + 1) / 2, "%s", err.message); /* once as a sum */
    for (int i = 0; i < N; i++)
        cr_assert_not_null(strstr(err.message, strchr(server_uri(server[i]), '1')), "%s", err.message);
}

/* Which servers others have, as bits. */
static void expect_outcome(unsigned taken)
{
    bool wins = __builtin_popcount(taken) <= N / 2;

    for (int i = 0; i < N; i++)
        if (taken >> i & 1)
            foreign_take(probe[i], NAME, 6 * LEASE_MS);
    expect(wins ? RDL_OK : RDL_ETIMEDOUT, rdl_try_lock(red[0], 0, LEASE_MS, &err));
    if (!wins)
        expect_reasons();
    for (int i = 0; i < N; i++) {
        if (taken >> i & 1)
            expect_between(5 * LEASE_MS, probe_int(probe[i], "PTTL " NAME), 6 * LEASE_MS);
        else
            cr_assert(WAIT_UNTIL(probe_int(probe[i], "EXISTS " NAME) == wins, SOON_MS), "server %d of %x", i, taken);
    }
    if (wins)
        expect(RDL_OK, rdl_unlock(red[0], &err));
    for (int i = 0; i < N; i++) {
        if (taken >> i & 1)
            cr_assert_neq(foreign_release(probe[i], NAME), -1, "server %d of %x", i, taken);
        cr_assert(WAIT_UNTIL(probe_int(probe[i], "EXISTS " NAME) == 0, SOON_MS), "server %d of %x", i, taken);
    }
}

Test(red, T14_whichever_servers_others_have_the_answer_is_right_and_theirs_is_left_alone)
{
    open_with(NULL, TOLERANT);
    for (unsigned taken = 0; taken < 1U << N; taken++)
        expect_outcome(taken);
}

/* A lock of three, two of which are server 0 by two ways, under two names, so that it would grant both. The third is
 * server 1. */
struct two_ways {
    struct proxy *proxy[2];
    rdl_client_t *client[2];
    rdl_lock_t *member[3];
    rdl_lock_t *lock;
};

static void two_ways_open(struct two_ways *w)
{
    open_with(NULL, TOLERANT);
    for (int i = 0; i < 2; i++) {
        w->proxy[i] = proxy_start(server[0]);
        proxy_refuse(w->proxy[i], true);
        w->client[i] = client_open(proxy_uri(w->proxy[i]), OPTIONS(.lazy = true, .reconnect_max_ms = 10));
        w->member[i] = reentrant(w->client[i], i == 0 ? "x" : "y", NULL);
    }
    w->member[2] = reentrant(client[0][1], "x", NULL);
    expect(RDL_OK, rdl_red_lock(w->member, 3, TOLERANT, &w->lock, &err)); /* nobody knows yet */
    for (int i = 0; i < 2; i++)
        proxy_refuse(w->proxy[i], false);
}

static void two_ways_close(struct two_ways *w)
{
    rdl_lock_free(w->lock);
    for (int i = 0; i < 3; i++)
        rdl_lock_free(w->member[i]);
    for (int i = 0; i < 2; i++) {
        rdl_client_close(w->client[i]);
        proxy_stop(w->proxy[i]);
    }
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

Test(red, T16_one_server_by_two_ways_is_refused_or_has_one_vote)
{
    struct two_ways w = {0};
    rdl_lock_t *lock = NULL;

    two_ways_open(&w);
    foreign_take(probe[1], "x", LEASE_MS);
    expect(RDL_ENOQUORUM, rdl_try_lock(w.lock, 500, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "1 of them do not count"), "%s", err.message);
    cr_assert(WAIT_UNTIL(probe_keys(probe[0]) == 0, SOON_MS));
    (void)foreign_release(probe[1], "x");
    expect(RDL_OK, rdl_try_lock(w.lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(w.lock, &err));
    expect(RDL_EINVAL, rdl_red_lock(w.member, 3, TOLERANT, &lock, &err)); /* by now it is known */
    cr_assert_not_null(strstr(err.message, "one server"), "%s", err.message);
    two_ways_close(&w);
}

/* It is held by two servers. One of them loses it, and nobody has noticed yet; the other one says so twice. */
static void lose_one_of_two(struct two_ways *w)
{
    two_ways_open(w);
    expect(RDL_OK, rdl_try_lock(w->lock, SOON_MS, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(rdl_hold_count(w->member[0], NULL) == 1 && rdl_hold_count(w->member[1], NULL) == 1, SOON_MS));
    expect(1, probe_int(probe[1], "DEL x"));
}

Test(red, extend_counts_no_server_twice)
{
    struct two_ways w = {0};

    lose_one_of_two(&w);
    expect(RDL_ELOST, rdl_extend(w.lock, LEASE_MS, &err));
    expect(RDL_ELOST, rdl_unlock(w.lock, &err));
    two_ways_close(&w);
}

Test(red, unlock_counts_no_server_twice)
{
    struct two_ways w = {0};

    lose_one_of_two(&w);
    expect(RDL_ELOST, rdl_unlock(w.lock, &err));
    two_ways_close(&w);
}

/* A thread that tries the lock and ends, and what a client's metrics do meanwhile. */
struct short_life {
    pthread_t thread;
    struct proxy *proxy[2];
    int held[2]; /* rules: refusals on their way */
    int rc;
    atomic_int waited;
};

static void *try_and_end(void *lock)
{
    return rdl_try_lock(lock, 0, LEASE_MS, NULL) == RDL_OK ? lock : NULL;
}

/* The server has granted its part; before anything comes of that, the others' refusals arrive, and the thread ends. */
static void outlive(rdl_metric_t metric, int64_t value, void *arg)
{
    struct short_life *life = arg;
    void *got = life;

    (void)value;
    if (metric != RDL_M_ACQUIRED || atomic_exchange(&life->waited, 1) != 0)
        return;
    for (int i = 0; i < 2; i++)
        proxy_let_go(life->proxy[i], life->held[i]);
    pthread_join(life->thread, &got);
    life->rc = got == NULL ? RDL_OK : RDL_EINVAL;
    atomic_store(&life->waited, 2);
}

Test(red, part_granted_to_a_thread_that_has_ended_is_given_back)
{
    struct short_life life = {0};
    rdl_lock_t *three[3], *lock = NULL;
    rdl_client_t *ways[3];

    open_with(NULL, TOLERANT);
    for (int i = 0; i < 2; i++) {
        life.proxy[i] = proxy_start(server[i]);
        life.held[i] =
            proxy_on(life.proxy[i], .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .every = true);
        foreign_take(probe[i], NAME, LEASE_MS);
    }
    for (int i = 0; i < 3; i++) {
        ways[i] = client_open(i < 2 ? proxy_uri(life.proxy[i]) : server_uri(server[2]),
                              i < 2 ? NULL : OPTIONS(.metrics_fn = outlive, .metrics_arg = &life));
        three[i] = reentrant(ways[i], NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
    }
    expect(RDL_OK, rdl_red_lock(three, 3, TOLERANT, &lock, &err));
    cr_assert_eq(pthread_create(&life.thread, NULL, try_and_end, lock), 0);
    cr_assert(WAIT_UNTIL(atomic_load(&life.waited) == 2, 2 * SOON_MS));
    expect(RDL_OK, life.rc);
    cr_assert(WAIT_UNTIL(probe_keys(probe[2]) == 0, SOON_MS));
    rdl_lock_free(lock);
    for (int i = 0; i < 3; i++) {
        rdl_lock_free(three[i]);
        rdl_client_close(ways[i]);
    }
    for (int i = 0; i < 2; i++)
        proxy_stop(life.proxy[i]);
}

static _Atomic int inside, overlaps;

static int64_t work(void *arg, rdl_err_t *reterr)
{
    for (int i = 0; i < 100; i++) {
        int64_t rc = rdl_try_lock(arg, 30000, RDL_LEASE_AUTO, reterr);

        if (rc < 0)
            return rc;
        overlaps += atomic_fetch_add(&inside, 1) != 0;
        (void)atomic_fetch_sub(&inside, 1);
        if ((rc = rdl_unlock(arg, reterr)) < 0)
            return rc;
    }
    return RDL_OK;
}

/* While a member is asked yet to prolong it: nobody renews what is there. */
Test(red, hold_whose_last_handles_go_under_an_extend_ends_with_its_lease)
{
    open_with(OPTIONS(.watchdog_lease_ms = SHORT_MS), TOLERANT);
    expect(RDL_OK, rdl_try_lock(red[0], 0, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(keys() == N, SOON_MS));
    server_pause(server[N - 1]);
    expect(RDL_OK, rdl_extend(red[0], SHORT_MS, &err));
    red[0] = rdl_lock_free(red[0]);
    for (int i = 0; i < N; i++)
        member[0][i] = rdl_lock_free(member[0][i]);
    server_resume(server[N - 1]);
    cr_assert(WAIT_UNTIL(keys() == 0, SOON_MS));
}

Test(red, rivals_exclude_each_other)
{
    struct caller *caller[4];

    open_with(NULL, TOLERANT);
    for (int i = 0; i < 4; i++)
        caller_call(caller[i] = caller_new(), work, red[i % 2]);
    for (int i = 0; i < 4; i++)
        expect_result(RDL_OK, caller[i], 50000);
    for (int i = 0; i < 4; i++)
        caller_free(caller[i]);
    cr_assert_eq(overlaps, 0);
}
