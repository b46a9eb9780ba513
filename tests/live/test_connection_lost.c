/* SPDX-License-Identifier: MIT */
/* test_connection_lost.c - ways to lose a server, that every call ends in time whatever it does, and the way back. */
#include "tests/live/live.h"

#define NAME "bridge"
#define LEASE_MS 20000

LIVE_SUITE(connection, 60);

/* ---- the server goes away --------------------------------------------------------------------------------------- */

Test(connection, restarted_server_is_used_again_and_an_empty_one_means_a_lost_hold)
{
    struct losses losses;
    rdl_lock_t *lock;

    losses_init(&losses);
    stage_open(&st, .server = {.tcp = true}, .client = OPTIONS(.watchdog_lease_ms = 4500));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    probe_close(st.probe);
    server_kill(st.server);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(lock, 5000, RDL_LEASE_AUTO, &err));
    let_pass_ms(5500);
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(connection, hold_survives_a_restart_of_a_server_that_keeps_its_data)
{
    rdl_lock_t *lock;

    stage_open(&st, .server = {.config = "appendonly yes\nappendfsync always"},
               .client = OPTIONS(.watchdog_lease_ms = 12000));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    probe_close(st.probe);
    server_kill(st.server);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    let_pass_ms(4500);
    expect(1, rdl_is_held(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(connection, waiter_outlives_a_restart_and_subscribes_again)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    char *channel = channel_of(NAME);

    stage_open(&st, .server = {.config = "appendonly yes\nappendfsync always"});
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    caller_try_lock(waiter, lock, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, channel) == 1, SOON_MS));
    probe_close(st.probe);
    server_kill(st.server);
    let_pass_ms(100);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    cr_assert(WAIT_UNTIL(probe_listeners_of(st.probe, false, channel) == 1, SOON_MS));
    let_pass_ms(50);
    cr_assert_eq(foreign_release(st.probe, NAME), 1);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
    free(channel);
}

/* A call that is waiting when the server goes does not fail because of it. */
Test(connection, acquire_started_without_a_server_succeeds_when_it_comes)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    probe_close(st.probe);
    server_kill(st.server);
    caller_try_lock(waiter, lock, 20000, LEASE_MS);
    let_pass_ms(300);
    cr_assert_not(caller_idle(waiter));
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* Cutting again and again under load: every verb succeeds, none counts twice. */
Test(connection, cuts_under_load_are_survived_by_every_verb)
{
    enum { ROUNDS = 60 };
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 20));
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        proxy_cut_after(st.proxy, i % 2 == 0 ? PROXY_TO_SERVER : PROXY_TO_CLIENT, (size_t)i * 17 % 301);
        for (int j = 0; j < 5; j++) {
            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            expect(2, rdl_hold_count(lock, &err));
            expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
    }
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

/* ---- deadlines: X1 ---------------------------------------------------------------------------------------------- */

#define BOUND_MS 1500 /* for each verb; longer than a busy machine stands still */

/* Each verb at a server that is gone or hangs; `wait_ms` bounds the acquire, command_timeout_ms the others. */
static void expect_all_bounded(rdl_lock_t *held, rdl_lock_t *free_lock)
{
    int64_t start = now_ms();
    int rc = rdl_try_lock(free_lock, BOUND_MS, LEASE_MS, &err);

    cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s: %s", code_name(rc), err.message);
    expect_between(0, now_ms() - start, BOUND_MS + SLACK_MS);
    start = now_ms();
    rc = rdl_try_lock(free_lock, 0, LEASE_MS, &err);
    cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s", code_name(rc));
    expect_between(0, now_ms() - start, BOUND_MS + SLACK_MS);
    start = now_ms();
    rc = rdl_extend(held, LEASE_MS, &err);
    cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s", code_name(rc));
    expect_between(0, now_ms() - start, BOUND_MS + SLACK_MS);
    start = now_ms();
    rc = rdl_is_locked(free_lock, &err);
    cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s", code_name(rc));
    expect_between(0, now_ms() - start, BOUND_MS + SLACK_MS);
    start = now_ms();
    rc = rdl_force_unlock(free_lock, &err);
    cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s", code_name(rc));
    expect_between(0, now_ms() - start, BOUND_MS + SLACK_MS);
    start = now_ms();
    rc = rdl_unlock(held, &err);
    cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s", code_name(rc));
    expect_between(0, now_ms() - start, BOUND_MS + SLACK_MS);
    cr_assert_neq(err.server[0], '\0'); /* T9 */
    expect(0, rdl_is_held(held, &err)); /* given up from the moment of the call */
}

/* After it: what is free can be had, and what was unlocked without an answer is freed in the background. */
static void expect_recovery(rdl_lock_t *held, rdl_lock_t *free_lock)
{
    expect(RDL_OK, rdl_try_lock(free_lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(free_lock, &err));
    expect(RDL_OK, rdl_try_lock(held, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(held, &err));
    rdl_lock_free(held);
    rdl_lock_free(free_lock);
}

static void open_for_deadlines(rdl_lock_t **held, rdl_lock_t **free_lock)
{
    stage_open(&st, .proxied = true,
               .client =
                   OPTIONS(.command_timeout_ms = BOUND_MS, .connect_timeout_ms = BOUND_MS, .reconnect_max_ms = 100));
    *held = reentrant(st.client, "held", NULL);
    *free_lock = reentrant(st.client, "free", NULL);
    expect(RDL_OK, rdl_try_lock(*held, 0, LEASE_MS, &err));
}

Test(connection, deadlines_hold_while_nobody_listens)
{
    rdl_lock_t *held, *free_lock;

    open_for_deadlines(&held, &free_lock);
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    expect_all_bounded(held, free_lock);
    proxy_refuse(st.proxy, false);
    expect_recovery(held, free_lock);
}

Test(connection, deadlines_hold_while_the_line_is_frozen)
{
    rdl_lock_t *held, *free_lock;

    open_for_deadlines(&held, &free_lock);
    proxy_freeze(st.proxy, PROXY_BOTH_WAYS);
    expect_all_bounded(held, free_lock);
    proxy_thaw(st.proxy, PROXY_BOTH_WAYS);
    expect_recovery(held, free_lock);
}

Test(connection, deadlines_hold_while_the_server_is_stopped)
{
    rdl_lock_t *held, *free_lock;

    open_for_deadlines(&held, &free_lock);
    server_pause(st.server);
    expect_all_bounded(held, free_lock);
    server_resume(st.server);
    expect_recovery(held, free_lock);
}

Test(connection, deadlines_hold_while_answers_are_swallowed)
{
    rdl_lock_t *held, *free_lock;

    open_for_deadlines(&held, &free_lock);
    proxy_swallow(st.proxy, PROXY_TO_CLIENT, true);
    expect_all_bounded(held, free_lock);
    proxy_swallow(st.proxy, PROXY_TO_CLIENT, false);
    expect_recovery(held, free_lock);
}

Test(connection, deadlines_hold_while_the_line_is_slow)
{
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st, .proxied = true, .client = OPTIONS(.command_timeout_ms = BOUND_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err)); /* its connection is up */
    expect(RDL_OK, rdl_unlock(lock, &err));
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 500);
    for (int i = 0; i < 3; i++) {
        start = now_ms();
        expect(RDL_EUNKNOWN, rdl_try_lock(lock, 200, LEASE_MS, &err));
        expect_between(200, now_ms() - start, 200 + SLACK_MS);
    }
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 0);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
}

/* The script is not known any more, and loading it hangs; or subscribing hangs. */
Test(connection, deadlines_hold_at_script_and_subscribe)
{
    static const char *const steps[] = {"SCRIPT", "EVAL", "SUBSCRIBE"};
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true);
    lock = reentrant(st.client, NAME, NULL);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int rule = proxy_on(st.proxy, .action = PROXY_HOLD, .command = steps[i], .every = true);
        int64_t start;
        int rc;

        (void)probe_text(st.probe, "SCRIPT FLUSH");
        if (i == 2)
            foreign_take(st.probe, NAME, LEASE_MS);
        start = now_ms();
        rc = rdl_try_lock(lock, 250, LEASE_MS, &err);
        expect_between(0, now_ms() - start, 250 + SLACK_MS);
        if (i == 2)
            cr_assert_eq(rc, RDL_ETIMEDOUT, "%s", code_name(rc));
        if (rc == RDL_OK) /* loading is another command's business */
            expect(RDL_OK, rdl_unlock(lock, &err));
        proxy_let_go(st.proxy, rule);
        (void)foreign_release(st.probe, NAME);
        expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err)); /* what hung is settled before the next step */
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
}

/* With no limit of its own, lock gives up when nobody has been reached for outage_timeout_ms. */
Test(connection, lock_without_a_limit_gives_up_after_the_outage_timeout)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true, .client = OPTIONS(.outage_timeout_ms = 2000));
    lock = reentrant(st.client, NAME, NULL);
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    caller_lock(waiter, lock, LEASE_MS);
    expect_result(RDL_ECONN, waiter, SOON_MS);
    expect_between(1900000, caller_took_us(waiter), 1000 * (2000 + SLACK_MS));
    expect_err_names(caller_error(waiter), RDL_ECONN, NAME);
    proxy_refuse(st.proxy, false);
    caller_lock(waiter, lock, LEASE_MS);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* ---- coming back ------------------------------------------------------------------------------------------------ */

Test(connection, reconnecting_is_paced)
{
    enum { OUTAGE_MS = 1000 };
    rdl_lock_t *lock;
    unsigned before;

    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 20, .reconnect_max_ms = 200));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    probe_close(st.probe);
    server_kill(st.server); /* the proxy accepts and closes at once */
    before = proxy_accepted(st.proxy);
    let_pass_ms(OUTAGE_MS);
    expect_between(2, (int64_t)(proxy_accepted(st.proxy) - before), 60);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    (void)rdl_unlock(lock, &err);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* A line that died without a word: the ping on the idle connection finds out, long before the 5 s of the hint. */
Test(connection, dead_subscriber_line_is_found_by_its_ping)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true, .client = OPTIONS(.ping_interval_ms = 200, .command_timeout_ms = 1000));
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    caller_try_lock(waiter, lock, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(50);
    proxy_cut_server_side(st.proxy, PROXY_SUBSCRIBERS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    cr_assert_eq(foreign_release(st.probe, NAME), 0);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* The same for the connections that callers use: the next caller must not be the one who finds out. */
Test(connection, dead_command_lines_are_found_by_their_pings)
{
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true, .client = OPTIONS(.ping_interval_ms = 100, .command_timeout_ms = BOUND_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    proxy_cut_server_side(st.proxy, PROXY_ALL);
    let_pass_ms(100 + 2 * BOUND_MS + SLACK_MS); /* silence, and the answer that does not come */
    expect(RDL_OK, rdl_try_lock(lock, BOUND_MS - 100, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* The thread that asks reads itself, and has longer to wait than a connection may be silent: it does not sit out its
 * own time beside a line that somebody else's box has forgotten. */
Test(connection, call_leaves_a_line_from_which_no_answer_comes)
{
    struct caller *caller = caller_new();
    rdl_lock_t *lock;
    uint64_t replies;

    stage_open(&st, .proxied = true, .client = OPTIONS(.connections = 1, .command_timeout_ms = 200));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    replies = proxy_replies(st.proxy);
    proxy_swallow(st.proxy, PROXY_TO_CLIENT, true);
    caller_try_lock(caller, lock, 60000, LEASE_MS);
    cr_assert(WAIT_UNTIL(proxy_replies(st.proxy) > replies, SOON_MS));
    proxy_swallow(st.proxy, PROXY_TO_CLIENT, false);
    expect_result(RDL_OK, caller, 10000);
    caller_unlock(caller, lock);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    rdl_lock_free(lock);
}

/* CLIENT KILL from an operator is an ordinary broken connection. */
Test(connection, killed_connections_come_back)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < 20; i++) {
        expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
        (void)probe_int(st.probe, "CLIENT KILL TYPE normal SKIPME yes");
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    rdl_lock_free(lock);
}

/* Concurrent callers share connections. */
Test(connection, many_threads_share_few_connections)
{
    enum { CALLERS = 40 };
    struct caller *callers[CALLERS];
    rdl_lock_t *locks[CALLERS];

    stage_open(&st);
    for (int i = 0; i < CALLERS; i++) {
        char *name = must_format("shared%d", i);

        locks[i] = reentrant(st.client, name, NULL);
        callers[i] = caller_new();
        free(name);
    }
    for (int round = 0; round < 10; round++)
        take_and_give_at_once(callers, locks, CALLERS, LEASE_MS);
    expect_between(1, probe_clients(st.probe, "redlatch"), 4 + 2); /* and the loop's own, and the subscriber */
    for (int i = 0; i < CALLERS; i++) {
        caller_free(callers[i]);
        rdl_lock_free(locks[i]);
    }
}
