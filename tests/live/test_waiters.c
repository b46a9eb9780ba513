/* SPDX-License-Identifier: MIT */
/* test_waiters.c - who waits is woken: by a message, by the end of the lease, by the deadline; nobody sleeps beside a
 * free lock, and nobody is woken for nothing. */
#include "tests/live/live.h"

#define NAME "queue:head"
#define LEASE_MS 20000

LIVE_SUITE(waiters, 60);

static void wait_for_sleepers(const char *name, int64_t clients)
{
    char *channel = channel_of(name);

    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, channel) == clients, SOON_MS));
    free(channel);
}

static void expect_lock_and_unlock(struct caller *caller, rdl_lock_t *lock, int64_t bound_ms)
{
    expect_result(RDL_OK, caller, bound_ms);
    caller_unlock(caller, lock);
    expect_result(RDL_OK, caller, SOON_MS);
}

Test(waiters, release_in_the_same_client_wakes_the_waiter)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    wait_for_sleepers(NAME, 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_lock_and_unlock(waiter, lock, WOKEN_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* A peer's forced unlock, which deletes the lock and publishes `0`, as Redisson does: it reads no line. One of those
 * who stand there listens for all, and when it goes another does. */
Test(waiters, forced_unlock_by_a_peer_wakes_who_stands_in_line)
{
    struct caller *first = caller_new(), *second = caller_new();
    char *channel = channel_of(NAME);
    rdl_client_t *other;
    rdl_lock_t *lock, *theirs;
    bool first_is_in;

    stage_open(&st);
    other = client_open(server_uri(st.server), NULL);
    lock = reentrant(st.client, NAME, NULL);
    theirs = reentrant(other, NAME, NULL);
    for (int i = 0; i < 2; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        caller_try_lock(first, theirs, i == 0 ? 2000 : 15000, LEASE_MS);
        cr_assert(WAIT_UNTIL(probe_listeners_of(st.probe, false, channel) == 1, SOON_MS), "nobody listens for all");
        caller_try_lock(second, lock, 15000, LEASE_MS);
        wait_for_sleepers(NAME, 2);
        if (i == 0)
            expect_result(RDL_ETIMEDOUT, first, SOON_MS);
        (void)probe_int(st.probe, "DEL " NAME);
        (void)probe_int(st.probe, "PUBLISH %s 0", channel);
        cr_assert(WAIT_UNTIL((i > 0 && caller_idle(first)) || caller_idle(second), WOKEN_MS));
        first_is_in = i > 0 && caller_idle(first);
        if (first_is_in)
            expect_lock_and_unlock(first, theirs, WOKEN_MS);
        expect_lock_and_unlock(second, lock, WOKEN_MS);
        if (i > 0 && !first_is_in)
            expect_lock_and_unlock(first, theirs, WOKEN_MS);
        expect(RDL_ELOST, rdl_unlock(lock, &err));
    }
    rdl_lock_free(theirs);
    rdl_client_close(other);
    caller_free(second);
    caller_free(first);
    rdl_lock_free(lock);
    free(channel);
}

/* Two calls of one client that wait for a lock which is held elsewhere; the client listens for all in line. */
struct two {
    struct caller *first, *second;
    char *channel; /* the lock's, and its line */
    rdl_metrics_t *metrics;
    rdl_client_t *other;
    rdl_lock_t *lock, *theirs;
};

static struct two two_wait(bool proxied, int64_t second_ms)
{
    struct two two = {.first = caller_new(), .second = caller_new(), .channel = channel_of(NAME)};
    struct monitor *monitor;

    expect(RDL_OK, rdl_metrics_new(NULL, &two.metrics, &err));
    stage_open(&st, .proxied = proxied, .client = OPTIONS(.metrics = two.metrics));
    monitor = monitor_start(st.server);
    two.other = client_open(server_uri(st.server), NULL);
    two.lock = reentrant(st.client, NAME, NULL);
    two.theirs = reentrant(two.other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(two.theirs, 0, LEASE_MS, &err));
    caller_try_lock(two.first, two.lock, 15000, LEASE_MS);
    expect_sleeps(monitor, NAME); /* and listens for all */
    monitor_stop(monitor);
    caller_try_lock(two.second, two.lock, second_ms, LEASE_MS);
    cr_assert(WAIT_UNTIL(waiting_for(two.metrics, NAME) == 2, SOON_MS));
    return two;
}

static void two_end(struct two *two)
{
    rdl_lock_free(two->theirs);
    rdl_client_close(two->other);
    caller_free(two->second);
    caller_free(two->first);
    rdl_lock_free(two->lock);
    st.client = rdl_client_close(st.client);
    cr_assert_null(rdl_metrics_free(two->metrics));
    free(two->channel);
}

/* And is none of the others, whose turns its releases count, while it passes the lock on among its calls. */
Test(waiters, client_that_listens_for_all_goes_on_with_the_lock_while_other_calls_of_it_wait)
{
    struct two two = two_wait(false, 15000);

    expect(RDL_OK, rdl_unlock(two.theirs, &err));
    expect_result(RDL_OK, two.first, WOKEN_MS);
    cr_assert_eq(probe_int(st.probe, "HEXISTS %s ear", two.channel), 1);
    caller_unlock(two.first, two.lock);
    expect_result(RDL_OK, two.first, SOON_MS);
    expect_lock_and_unlock(two.second, two.lock, WOKEN_MS);
    cr_assert_eq(probe_int(st.probe, "HEXISTS %s ear", two.channel), 0);
    two_end(&two);
}

/* Clients that hear, and stand before it, and do nothing: as if they had stopped. */
static void expect_let_in_behind(int dead, int64_t bound_ms)
{
    struct caller *waiter = caller_new();
    struct probe *stopped[2] = {NULL, NULL};
    char *channel = channel_of(NAME);
    struct monitor *monitor;
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st);
    monitor = monitor_start(st.server);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    for (int i = 1; i <= dead; i++)
        (void)probe_ask(st.probe, "HSET %s %d dead%d dead%d %d head %d count %d", channel, -i, i, i, -i, -i, i);
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    expect_sleeps(monitor, NAME);
    for (int i = 1; i <= dead; i++) {
        stopped[i - 1] = probe_open(st.server);
        (void)probe_ask(stopped[i - 1], "SUBSCRIBE %s:{dead%d}", channel, i);
    }
    start = now_ms();
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_lock_and_unlock(waiter, lock, bound_ms);
    expect_between(50, now_ms() - start, bound_ms);
    left_behind = true; /* the line, for 15 s: who was woken last has not tried */
    for (int i = 0; i < dead; i++)
        probe_close(stopped[i]);
    monitor_stop(monitor);
    caller_free(waiter);
    rdl_lock_free(lock);
    free(channel);
}

Test(waiters, client_that_stops_as_it_is_woken_holds_the_next_one_up_for_100_ms)
{
    expect_let_in_behind(1, 100 + WOKEN_MS);
}

Test(waiters, two_clients_that_stop_hold_the_next_one_up_for_longer)
{
    expect_let_in_behind(2, 1500 + WOKEN_MS);
}

/* Beside others that hear its releases, as Java's, the second take is refused once, and comes a moment later. */
Test(waiters, who_has_had_the_lock_gives_way_to_those_who_have_heard_that)
{
    struct probe *other = NULL;
    char *channel = channel_of(NAME);
    rdl_lock_t *lock;
    int64_t before;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int heard = 0; heard < 2; heard++) {
        if (heard) {
            other = probe_open(st.server);
            (void)probe_ask(other, "SUBSCRIBE %s", channel);
        }
        expect(RDL_OK, rdl_try_lock(lock, 1000, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        before = probe_calls(st.probe, "evalsha");
        expect(RDL_OK, rdl_try_lock(lock, 1000, LEASE_MS, &err));
        cr_assert_eq(probe_calls(st.probe, "evalsha") - before > 1, heard == 1);
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    probe_close(other);
    rdl_lock_free(lock);
    free(channel);
}

Test(waiters, holder_that_never_unlocks_is_followed_when_its_lease_ends)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    int64_t end_us;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, 600);
    end_us = now_us() + 600 * 1000;
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    expect_result(RDL_OK, waiter, 5000);
    expect_between(-20000, caller_ended_us(waiter) - end_us, SLACK_MS * 1000);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* The hint may be missing altogether: a foreign holder without a lease, deleted without a word. At most 5 s. */
Test(waiters, holder_without_a_lease_that_vanishes_silently_is_noticed_within_five_seconds)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, 0);
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    wait_for_sleepers(NAME, 1);
    (void)probe_int(st.probe, "DEL " NAME);
    expect_lock_and_unlock(waiter, lock, 5000 + SLACK_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* T4, X1: the wait is a promise to the caller. */
Test(waiters, time_out_is_exact_and_leaves_nothing)
{
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    for (int64_t wait = 1200; wait <= 2400; wait += 600) { /* if a try were on its way, it would be unknown */
        int64_t start = now_us();

        expect(RDL_ETIMEDOUT, rdl_try_lock(lock, wait, LEASE_MS, &err));
        expect_between(wait * 1000, now_us() - start, (wait + SLACK_MS) * 1000);
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    (void)foreign_release(st.probe, NAME);
    rdl_lock_free(lock);
}

/* T4: a retry delay longer than the wait. */
Test(waiters, long_retry_delay_does_not_prolong_a_short_wait)
{
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st);
    lock = simple(st.client, NAME, LOCK_OPTIONS(.retry = {.kind = RDL_RETRY_FIXED, .min_ms = 60000, .max_ms = 60000}));
    (void)probe_text(st.probe, "SET " NAME " theirs PX 30000");
    start = now_us();
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 1500, LEASE_MS, &err));
    expect_between(1500000, now_us() - start, (1500 + SLACK_MS) * 1000);
    (void)probe_int(st.probe, "DEL " NAME);
    rdl_lock_free(lock);
}

/* P1: the proxy keeps the acknowledgement back until the unlock is over; nobody publishes again. */
Test(waiters, unlock_between_the_first_try_and_the_acknowledgement_is_not_missed)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    int ack;

    stage_open(&st, .proxied = true);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    ack = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REQUEST, .command = "SUBSCRIBE");
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, ack, 1, SOON_MS));
    cr_assert_eq(foreign_release(st.probe, NAME), 0); /* nobody hears it */
    proxy_let_go(st.proxy, ack);
    expect_lock_and_unlock(waiter, lock, WOKEN_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* P1, the other half: subscribed at the server, but the acknowledgement is late. */
Test(waiters, message_that_overtakes_nothing_is_not_needed_when_the_acknowledgement_is_late)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    int ack;

    stage_open(&st, .proxied = true);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    ack = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "SUBSCRIBE");
    (void)proxy_on(st.proxy, .action = PROXY_ANSWER, .part = PROXY_MESSAGE, .every = true, .answer = "");
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, ack, 1, SOON_MS));
    (void)foreign_release(st.probe, NAME);
    proxy_let_go(st.proxy, ack);
    expect_lock_and_unlock(waiter, lock, WOKEN_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* Q6: the refusal is still on its way to the client when the message arrives. It must not put the waiter to sleep. */
Test(waiters, message_that_arrives_before_a_refusal_makes_the_refusal_stale)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    int refusal, message;

    stage_open(&st, .proxied = true);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    /* the first try is refused at once, and the second, after the acknowledgement; the third, after that of the lock's
     * channel, is the one that is late */
    refusal =
        proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME, .nth = 3);
    message = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_MESSAGE, .contains = NAME);
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, refusal, 1, SOON_MS));
    cr_assert_eq(foreign_release(st.probe, NAME), 1);
    cr_assert(proxy_wait(st.proxy, message, 1, SOON_MS));
    let_pass_ms(20); /* the message is with the client */
    proxy_let_go(st.proxy, refusal);
    expect_lock_and_unlock(waiter, lock, WOKEN_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* Q6: two wait, one message comes, and the one that it wakes is just leaving. Both deadlines are tried around the
 * message; whatever happens to the first, the second must get in. */
Test(waiters, waiter_that_times_out_as_it_is_woken_hands_the_wake_up_on)
{
    enum { ROUNDS = 60, WAIT_MS = 60 };
    struct caller *first = caller_new();
    struct caller *second = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t leaves_us = now_us() + WAIT_MS * 1000;
        int64_t rc;

        foreign_take(st.probe, NAME, LEASE_MS);
        caller_try_lock(first, lock, WAIT_MS, LEASE_MS);
        let_pass_ms(5);
        caller_try_lock(second, lock, 10000, LEASE_MS);
        /* from 1 ms before the first one leaves to 1 ms after it */
        while (now_us() < leaves_us - 1000 + round * 2000 / ROUNDS)
            ;
        (void)foreign_release(st.probe, NAME);
        rc = caller_result(first, SOON_MS);
        if (rc == RDL_OK)
            caller_unlock(first, lock);
        else /* unknown: its time was up with a try on the way, which is undone */
            cr_assert(rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN, "%s: %s", code_name(rc), caller_error(first)->message);
        expect_result(RDL_OK, second, WOKEN_MS);
        caller_unlock(second, lock);
        expect_result(RDL_OK, second, SOON_MS);
        (void)caller_result(first, SOON_MS);
    }
    caller_free(first);
    caller_free(second);
    rdl_lock_free(lock);
}

/* Two calls of it try at once. One is granted, which takes the client out of the line; the other one is refused behind
 * that, which enters it, and its time is up before the first hears of its grant. */
Test(waiters, client_stands_in_no_line_when_the_last_of_its_calls_has_the_lock)
{
    struct two two = two_wait(true, 3000);
    char *own = must_format("%s", probe_ask(st.probe, "PUBSUB CHANNELS %s:*", two.channel)->items[0].text);
    int grant = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);

    expect(RDL_OK, rdl_unlock(two.theirs, &err));
    cr_assert(proxy_wait(st.proxy, grant, 1, SOON_MS));
    (void)probe_int(st.probe, "PUBLISH %s 0", own);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "HGET %s count", two.channel) == 1, SOON_MS));
    expect_result(RDL_EUNKNOWN, two.second, SOON_MS);
    proxy_let_go(st.proxy, grant);
    expect_result(RDL_OK, two.first, SOON_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS %s", two.channel) == 0, SOON_MS), "it stands there for nobody");
    caller_unlock(two.first, two.lock);
    expect_result(RDL_OK, two.first, SOON_MS);
    two_end(&two);
    free(own);
}

/* The grant leaves its client named as the ear, as the second waits still; that one's time is up before the release. */
Test(waiters, ear_that_nobody_needs_goes_with_the_release)
{
    struct two two = two_wait(true, 2000);
    int grant = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);

    expect(RDL_OK, rdl_unlock(two.theirs, &err));
    cr_assert(proxy_wait(st.proxy, grant, 1, SOON_MS));
    expect_result(RDL_ETIMEDOUT, two.second, SOON_MS);
    proxy_let_go(st.proxy, grant);
    expect_result(RDL_OK, two.first, SOON_MS);
    cr_assert_eq(probe_int(st.probe, "HEXISTS %s ear", two.channel), 1, "the grant leaves no name behind");
    caller_unlock(two.first, two.lock);
    expect_result(RDL_OK, two.first, SOON_MS);
    cr_assert_eq(probe_int(st.probe, "EXISTS %s", two.channel), 0, "a line of nobody is left");
    two_end(&two);
}

static atomic_int in_vain; /* lines about attempts to connect */

static void note_attempt(rdl_log_level_t level, const char *line, void *arg)
{
    (void)level, (void)line, (void)arg;
    atomic_fetch_add(&in_vain, 1);
}

/* Q6: the one that is woken cannot ask, and its time is up. */
Test(waiters, waiter_that_times_out_without_a_connection_hands_its_wake_up_on)
{
    struct caller *first = caller_new();
    struct caller *second = caller_new();
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true,
               .client = OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 50, .log = note_attempt));
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    caller_try_lock(first, lock, 1500, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    caller_try_lock(second, lock, 10000, LEASE_MS);
    let_pass_ms(50);
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_COMMANDERS);
    cr_assert(WAIT_UNTIL(atomic_load(&in_vain) > 0, SOON_MS)); /* the client knows: nothing of first's is on its way */
    (void)foreign_release(st.probe, NAME);
    cr_assert_lt(caller_result(first, SOON_MS), 0);
    proxy_refuse(st.proxy, false);
    expect_result(RDL_OK, second, WOKEN_MS);
    caller_unlock(second, lock);
    expect_result(RDL_OK, second, SOON_MS);
    caller_free(first);
    caller_free(second);
    rdl_lock_free(lock);
}

/* P4, Q6: the subscription is gone when the unlock happens. The reconnected subscriber makes everybody look. */
Test(waiters, cut_subscriber_is_replaced_and_its_waiters_look_again)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    caller_try_lock(waiter, lock, 15000, LEASE_MS);
    wait_for_sleepers(NAME, 1);
    let_pass_ms(50); /* it has tried again and sleeps */
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_SUBSCRIBERS);
    wait_for_sleepers(NAME, 0);
    cr_assert_eq(foreign_release(st.probe, NAME), 0);
    proxy_refuse(st.proxy, false);
    expect_lock_and_unlock(waiter, lock, WOKEN_MS); /* not after 5 s, by the hint */
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* P4: every connection is cut, many times, while a lock changes hands: nobody stays asleep. */
Test(waiters, cuts_in_the_middle_of_hand_overs_lose_nobody)
{
    enum { WAITERS = 4, ROUNDS = 12 };
    struct caller *waiters[WAITERS];
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = caller_new();
    for (int round = 0; round < ROUNDS; round++) {
        expect(RDL_OK, rdl_try_lock(lock, 10000, LEASE_MS, &err));
        for (int i = 0; i < WAITERS; i++)
            caller_try_lock(waiters[i], lock, 20000, LEASE_MS);
        wait_for_sleepers(NAME, 1);
        expect(RDL_OK, rdl_unlock(lock, &err));
        for (int left = WAITERS; left > 0; left--) {
            int winner = -1;

            proxy_cut(st.proxy, PROXY_SUBSCRIBERS);
            cr_assert(WAIT_UNTIL(({
                                     for (int i = 0; i < WAITERS && winner < 0; i++)
                                         winner = waiters[i] != NULL && caller_idle(waiters[i]) ? i : -1;
                                     winner >= 0;
                                 }),
                                 10000));
            expect_lock_and_unlock(waiters[winner], lock, SOON_MS);
            caller_free(waiters[winner]);
            waiters[winner] = NULL;
        }
        for (int i = 0; i < WAITERS; i++)
            waiters[i] = caller_new();
    }
    for (int i = 0; i < WAITERS; i++)
        caller_free(waiters[i]);
    rdl_lock_free(lock);
}

/* P7 */
Test(waiters, one_unlock_wakes_one_of_hundred_waiters)
{
    enum { WAITERS = 100 };
    struct caller *waiters[WAITERS];
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark, tries;
    int winners = 0;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, LEASE_MS);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = caller_new();
        caller_try_lock(waiters[i], lock, 4500, LEASE_MS);
    }
    wait_for_sleepers(NAME, 1);
    let_pass_ms(300); /* all have tried twice and sleep */
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    cr_assert_eq(foreign_release(st.probe, NAME), 1); /* one subscription for all */
    for (int i = 0; i < WAITERS; i++)
        winners += caller_result(waiters[i], 2 * SOON_MS) == RDL_OK;
    (void)monitor_mark(monitor);
    tries = monitor_count(monitor, mark, "EVALSHA|" NAME);
    cr_assert_eq(winners, 1);
    expect_between(1, (int64_t)tries, 3);
    (void)probe_int(st.probe, "DEL " NAME);
    for (int i = 0; i < WAITERS; i++)
        caller_free(waiters[i]); /* the winner's thread ends as a holder */
    monitor_stop(monitor);
    rdl_lock_free(lock);
}

/* design.md, Speed: about two commands a hand-off, however many wait. */
Test(waiters, hand_off_among_fifty_waiters_costs_two_commands_each)
{
    enum { WAITERS = 50 };
    struct caller *waiters[WAITERS];
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark, commands;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = caller_new();
        caller_try_lock(waiters[i], lock, 30000, LEASE_MS);
    }
    wait_for_sleepers(NAME, 1);
    let_pass_ms(200);
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (int done = 0; done < WAITERS;) {
        int before = done;

        for (int i = 0; i < WAITERS; i++) {
            if (waiters[i] == NULL || !caller_idle(waiters[i]))
                continue;
            expect_lock_and_unlock(waiters[i], lock, SOON_MS);
            caller_free(waiters[i]);
            waiters[i] = NULL;
            done++;
        }
        if (done == before)
            let_pass_ms(1);
    }
    (void)monitor_mark(monitor);
    commands = monitor_count(monitor, mark, "EVALSHA|" NAME);
    expect_between(2 * WAITERS, (int64_t)commands, 2 * WAITERS + WAITERS / 5);
    monitor_stop(monitor);
    rdl_lock_free(lock);
}

Test(waiters, channels_are_counted_and_given_back)
{
    enum { LOCKS = 20 };
    struct caller *waiters[LOCKS][2];
    rdl_lock_t *locks[LOCKS];

    stage_open(&st);
    for (int i = 0; i < LOCKS; i++) {
        char *name = must_format("lock%d", i);

        foreign_take(st.probe, name, LEASE_MS);
        locks[i] = reentrant(st.client, name, NULL);
        for (int j = 0; j < 2; j++) {
            waiters[i][j] = caller_new();
            caller_try_lock(waiters[i][j], locks[i], j == 0 ? 4000 : 20000, LEASE_MS);
        }
        free(name);
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == LOCKS, SOON_MS));
    for (int i = 0; i < LOCKS; i++)
        expect_result(RDL_ETIMEDOUT, waiters[i][0], 2 * SOON_MS);
    cr_assert_eq(probe_channels(st.probe), LOCKS); /* the second ones still wait */
    for (int i = 0; i < LOCKS; i++) {
        char *name = must_format("lock%d", i);

        (void)foreign_release(st.probe, name);
        expect_lock_and_unlock(waiters[i][1], locks[i], WOKEN_MS);
        free(name);
    }
    for (int i = 0; i < LOCKS; i++) {
        caller_free(waiters[i][0]);
        caller_free(waiters[i][1]);
        rdl_lock_free(locks[i]);
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
}

/* ---- a subscription that is refused for a while ----------------------------------------------------------------- */

static struct probe *make_busy(void)
{
    struct probe *busy = probe_open(st.server);

    probe_send(busy, "EVAL 'while true do end' 0");
    cr_assert(WAIT_UNTIL(probe_ask(st.probe, "GET x")->kind == REPLY_ERROR, SOON_MS));
    return busy;
}

static void end_busy(struct probe *busy)
{
    (void)probe_text(st.probe, "SCRIPT KILL");
    cr_assert_not_null(probe_next(busy, SOON_MS));
    probe_close(busy);
}

/* A server that is busy with somebody's script says so to whoever subscribes, and is not busy for ever. */
Test(waiters, subscription_that_a_busy_server_refused_is_asked_for_again_soon)
{
    struct caller *waiter = caller_new();
    struct probe *busy;
    rdl_lock_t *lock;
    char *channel = channel_of(NAME);
    int asked, answered;

    stage_open(&st, .proxied = true, .server = {.config = "lua-time-limit 20"});
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, 30000);
    asked = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "SUBSCRIBE");
    answered = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_REPLY, .command = "SUBSCRIBE");
    caller_try_lock(waiter, lock, 25000, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, asked, 1, SOON_MS));
    busy = make_busy();
    proxy_let_go(st.proxy, asked);
    cr_assert(proxy_wait(st.proxy, answered, 1, SOON_MS));
    end_busy(busy);
    cr_assert(WAIT_UNTIL(probe_listeners_of(st.probe, false, channel) == 1, WOKEN_MS), "nobody asks again");
    cr_assert_eq(foreign_release(st.probe, NAME), 1);
    expect_lock_and_unlock(waiter, lock, WOKEN_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
    free(channel);
}
