/* SPDX-License-Identifier: MIT */
/* test_cached_harm.c - locks that stay with their client (option cache_ms), and what goes wrong around them: renewals
 * that are late, answers, recalls and connections that are lost, processes that stop, fork or die, rights that are
 * missing.
 */
#include "tests/live/child.h"
#include "tests/live/kept.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEASE_MS 10000
#define LONG_MS 60000 /* a cache that does not end by itself before a test does */
#define LIFE_MS 6000  /* of a lease that is renewed */

LIVE_SUITE(cached_harm, 60);

static struct losses losses;

/* A lock that stays, is idle, and whose losses are noted. */
static rdl_lock_t *idle(rdl_client_t *client, int64_t cache_ms)
{
    rdl_lock_t *lock = reentrant(client, NAME, LOCK_OPTIONS(.cache_ms = cache_ms));

    losses_init(&losses);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    make_idle(lock);
    return lock;
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

/* The channel of its recalls is left for the handle that is gone, and listened to for the one that came. */
Test(cached_harm, lock_that_is_made_again_as_its_last_handle_is_freed_hears_that_it_is_wanted)
{
    rdl_client_t *other;
    rdl_lock_t *lock, *rival;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    rival = reentrant(other, NAME, NULL);
    for (int i = 0; i < 10; i++) {
        rdl_lock_free(idle(st.client, LONG_MS));
        lock = idle(st.client, LONG_MS);
        expect(RDL_OK, rdl_try_lock(rival, LONG_MS / 6, LEASE_MS, &err));
        give(rival);
        rdl_lock_free(lock);
    }
    rdl_lock_free(rival);
    rdl_client_close(other);
}

/* ---- renewals --------------------------------------------------------------------------------------------------- */

/* Renewals come late, until the owner inside is at risk. The line is not cut by that. */
static void be_at_risk(rdl_lock_t *lock, unsigned times)
{
    proxy_freeze(st.proxy, PROXY_TO_SERVER);
    cr_assert(losses_wait(&losses, RDL_AT_RISK, times, LIFE_MS), "%u times told", losses_count(&losses, RDL_AT_RISK));
    expect(RDL_AT_RISK, rdl_hold_state(lock, &err));
    proxy_thaw(st.proxy, PROXY_TO_SERVER);
    cr_assert(WAIT_UNTIL(rdl_hold_state(lock, &err) == RDL_HELD, LIFE_MS));
}

Test(cached_harm, risk_says_for_how_long_the_hold_is_valid_however_long_it_is_held)
{
    rdl_lock_t *lock;
    int64_t until;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LIFE_MS));
    lock = idle(st.client, LONG_MS);
    take(lock);
    for (until = now_ms() + LIFE_MS * 3 / 2; now_ms() < until; let_pass_ms(50)) /* renewed past its first lease */
        expect_between(LIFE_MS / 4, rdl_remaining_ms(lock, &err), LIFE_MS);
    be_at_risk(lock, 1);
    expect_between(1, losses_get(&losses, RDL_AT_RISK)->remaining_ms, LIFE_MS * 2 / 3);
    give(lock);
    rdl_lock_free(lock);
}

Test(cached_harm, every_owner_of_a_kept_hold_is_told_that_it_is_at_risk)
{
    char field[80];
    rdl_lock_t *lock;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LIFE_MS));
    lock = idle(st.client, LONG_MS);
    (void)snprintf(field, sizeof field, "%s", kept_field());
    for (unsigned i = 1; i <= 3; i++) {
        take(lock);
        be_at_risk(lock, i);
        give(lock);
        cr_assert_str_eq(kept_field(), field);
    }
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), 3);
    rdl_lock_free(lock);
}

/* ---- extending -------------------------------------------------------------------------------------------------- */

/* It may have run: then an idle hold would outlive its process by that long. */
Test(cached_harm, hold_that_an_unanswered_extend_may_have_stretched_is_not_kept)
{
    for (int nested = 0; nested < 2; nested++) {
        rdl_lock_t *lock;

        stage_open(&st, .proxied = true, .client = OPTIONS(.command_timeout_ms = 500));
        lock = idle(st.client, LONG_MS);
        take(lock);
        (void)proxy_on(st.proxy, .action = PROXY_ANSWER, .part = PROXY_REPLY, .contains = "3600000", .answer = "");
        expect(RDL_EUNKNOWN, nested ? rdl_try_lock(lock, 0, 3600000, &err) : rdl_extend(lock, 3600000, &err));
        cr_assert_gt(probe_int(st.probe, "PTTL " NAME), 3000000);
        give(lock);
        cr_assert(WAIT_UNTIL(!is_kept(), SOON_MS));
        rdl_lock_free(lock);
        live_again();
    }
}

/* The owner's own lease is over when the answer comes: then it is nobody's any more. */
Test(cached_harm, hold_that_was_stretched_for_an_owner_who_has_lost_it_is_not_kept)
{
    struct caller *owner = caller_new();
    rdl_lock_t *lock;
    int64_t lease_ms = 700;
    int rule;

    stage_open(&st, .proxied = true);
    lock = idle(st.client, LONG_MS);
    caller_try_lock(owner, lock, 0, lease_ms);
    expect_result(RDL_OK, owner, SOON_MS);
    rule = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = "3600000");
    caller_try_lock(owner, lock, 0, 3600000);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    proxy_let_go(st.proxy, rule);
    expect_result(RDL_ELOST, owner, SOON_MS);
    cr_assert(WAIT_UNTIL(!is_kept(), SOON_MS));
    caller_unlock(owner, lock);
    expect_result(RDL_ELOST, owner, SOON_MS);
    caller_free(owner);
    rdl_lock_free(lock);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static rdl_lock_t *freed_meanwhile; /* as the next block is asked for, which is refused */

static void *alloc(size_t size, void *arg)
{
    (void)arg;
    if (freed_meanwhile == NULL || size < 200) /* a handle is smaller, what keeps a lock is not */
        return malloc(size);
    freed_meanwhile = rdl_lock_free(freed_meanwhile);
    return NULL;
}

static void dealloc(void *block, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    free(block);
}

Test(cached_harm, handle_that_could_not_be_made_and_is_the_last_leaves_nothing_kept)
{
    const rdl_allocator_t hooks = {alloc, dealloc, NULL};
    rdl_lock_t *lock, *second = NULL;

    stage_open(&st, .client = OPTIONS(.allocator = &hooks));
    lock = idle(st.client, LONG_MS);
    freed_meanwhile = lock;
    expect(RDL_ENOMEM, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.cache_ms = LONG_MS), &second, &err));
    cr_assert_null(freed_meanwhile);
    cr_assert(stage_is_clean(&st, SOON_MS)); /* long before its lease is over */
}

/* ---- recalls ---------------------------------------------------------------------------------------------------- */

#define CACHE_MS 1500

Test(cached_harm, recall_that_is_lost_costs_the_rest_of_the_time_that_it_is_kept)
{
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;
    int rule;

    stage_open(&st, .proxied = true);
    other = client_open(server_uri(st.server), NULL);
    elsewhere = reentrant(other, NAME, NULL);
    rule = proxy_on(st.proxy, .action = PROXY_ANSWER, .part = PROXY_MESSAGE, .contains = "redlatch_recall",
                    .every = true, .answer = "");
    lock = idle(st.client, CACHE_MS);
    expect(RDL_OK, rdl_try_lock(elsewhere, CACHE_MS + WOKEN_MS, LEASE_MS, &err));
    cr_assert_geq(proxy_acted(st.proxy, rule), 1);
    give(elsewhere);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
    rdl_lock_free(lock);
}

/* Anybody may publish there. */
Test(cached_harm, recalls_that_are_doubled_or_old_or_no_recalls_end_nothing)
{
    static const char *const nothing[] = {"x", "-", ":gone",   "-99999999999999999999999",
                                          "0", "7", "-1:gone", "5:gone:gone"};
    char channel[128], field[80];
    rdl_lock_t *lock;

    stage_open(&st);
    lock = idle(st.client, LONG_MS);
    (void)snprintf(field, sizeof field, "%s", kept_field());
    (void)snprintf(channel, sizeof channel, "redlatch_recall:{" NAME "}:%.36s", field);
    take(lock);
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
        cr_assert_eq(probe_int(st.probe, "PUBLISH %s %s", channel, nothing[i]), 1);
    cr_assert_eq(probe_int(st.probe, "PUBLISH %s %s:gone", channel, field + 37), 1); /* it is not */
    let_pass_ms(100);
    expect(RDL_HELD, rdl_hold_state(lock, &err));
    give(lock);
    cr_assert(WAIT_UNTIL(!is_kept(), SOON_MS)); /* somebody seems to want it */
    for (int twice = 0; twice < 2; twice++)
        cr_assert_eq(probe_int(st.probe, "PUBLISH %s %s", channel, field + 37), 1);
    make_idle(lock);
    cr_assert_str_neq(kept_field(), field);
    cr_assert_eq(probe_int(st.probe, "PUBLISH %s %s", channel, field + 37), 1);
    let_pass_ms(100);
    cr_assert(is_kept());
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(lock);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

Test(cached_harm, cut_of_the_subscription_gives_back_what_is_idle_at_once_and_the_rest_with_its_unlock)
{
    struct caller *waiter = caller_new();
    char field[80];
    rdl_lock_t *lock;
    unsigned accepted;

    stage_open(&st, .proxied = true);
    lock = idle(st.client, LONG_MS);
    proxy_cut(st.proxy, PROXY_SUBSCRIBERS);
    cr_assert(WAIT_UNTIL(!is_kept(), SOON_MS));
    make_idle(lock);
    (void)snprintf(field, sizeof field, "%s", kept_field());
    take(lock);
    caller_lock(waiter, lock, RDL_LEASE_AUTO); /* waits here */
    accepted = proxy_accepted(st.proxy);
    proxy_cut(st.proxy, PROXY_SUBSCRIBERS);
    cr_assert(proxy_wait_accepted(st.proxy, accepted + 1, SOON_MS)); /* it has noticed, */
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) > 0, SOON_MS));    /* and listens again */
    cr_assert_str_eq(kept_field(), field);
    give(lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_str_neq(kept_field(), field, "the next one was let in to a hold that may be lost");
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* No command is needed as long as the hold lasts, and none helps when it is over. */
Test(cached_harm, kept_hold_is_used_without_a_server_until_its_lease_is_over_and_no_longer)
{
    int64_t began;
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LIFE_MS, .command_timeout_ms = 500));
    lock = idle(st.client, LONG_MS);
    began = now_ms();
    server_pause(st.server);
    for (int i = 0; i < 100; i++) {
        take(lock);
        give(lock);
    }
    expect(RDL_OK, rdl_try_lock(lock, 0, 1000, &err));
    give(lock);
    take(lock);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, LIFE_MS + SOON_MS));
    cr_assert_leq(losses_get(&losses, RDL_LOST)->at_us / 1000 - began, LIFE_MS + SLACK_MS);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert_neq(rdl_try_lock(lock, 300, RDL_LEASE_AUTO, &err), RDL_OK);
    server_resume(st.server);
    take(lock);
    give(lock);
    rdl_lock_free(lock);
}

/* The server says nothing, so the kept hold is not renewed; and half of its lease is more than what is asked for. */
Test(cached_harm, lease_for_which_too_little_is_left_of_the_kept_hold_is_not_granted_here)
{
    rdl_lock_t *lock;
    int64_t until;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LIFE_MS, .command_timeout_ms = 500));
    lock = idle(st.client, LONG_MS);
    server_pause(st.server);
    expect(RDL_OK, rdl_try_lock(lock, 0, LIFE_MS / 3, &err));
    give(lock);
    for (until = now_ms() + LIFE_MS * 3 / 4; now_ms() < until; let_pass_ms(10))
        ;
    cr_assert_neq(rdl_try_lock(lock, 0, LIFE_MS / 3, &err), RDL_OK);
    server_resume(st.server);
    take(lock);
    give(lock);
    rdl_lock_free(lock);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

Test(cached_harm, child_gets_errors_and_its_parent_keeps_the_lock)
{
    rdl_owner_t *owner = NULL;
    char field[80];
    rdl_lock_t *lock;
    pid_t child;

    stage_open(&st);
    lock = idle(st.client, LONG_MS);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    (void)snprintf(field, sizeof field, "%s", kept_field());
    for (int inside = 0; inside < 2; inside++) {
        if (inside)
            take(lock);
        if ((child = fork()) == 0) {
            CHECK_IN_CHILD(rdl_try_lock(lock, 0, RDL_LEASE_AUTO, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_unlock(lock, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_extend(lock, 1000, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_is_held(lock, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_is_locked(lock, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_remaining_ms(lock, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_try_lock_async(lock, owner, 0, 1000, NULL, NULL, NULL, NULL) == RDL_EFORK);
            CHECK_IN_CHILD(rdl_lock_free(lock) == NULL);
            CHECK_IN_CHILD(rdl_owner_free(owner) == NULL);
            CHECK_IN_CHILD(rdl_client_close(st.client) == NULL);
            _exit(0);
        }
        expect_child_succeeds(child);
        cr_assert_str_eq(kept_field(), field);
    }
    give(lock);
    cr_assert_str_eq(kept_field(), field);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

/* A process that keeps the lock, idle or with an owner inside, and says so; told to go on it takes the lock, or
 * unlocks, and ends with what that returned. */
static pid_t start_keeper(bool inside, int *ret_tell, int *ret_hear)
{
    int to[2], from[2];
    pid_t child;

    cr_assert(pipe(to) == 0 && pipe(from) == 0);
    if ((child = fork()) != 0) {
        close(to[0]);
        close(from[1]);
        *ret_tell = to[1];
        *ret_hear = from[0];
        return child;
    }
    {
        rdl_client_t *client = client_open(server_uri(st.server), OPTIONS(.watchdog_lease_ms = LIFE_MS));
        rdl_lock_t *lock = reentrant(client, NAME, LOCK_OPTIONS(.cache_ms = LONG_MS));
        char word = 'k';
        int rc;

        for (int i = 0; i < 1000 && (i < 4 || inside); i++) {
            CHECK_IN_CHILD(rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, NULL) == RDL_OK);
            if (inside && i > 4)
                break;
            CHECK_IN_CHILD(rdl_unlock(lock, NULL) == RDL_OK);
            let_pass_ms(10); /* the subscription */
        }
        CHECK_IN_CHILD(write(from[1], &word, 1) == 1 && read(to[0], &word, 1) == 1);
        rc = inside ? rdl_unlock(lock, NULL) : rdl_try_lock(lock, 0, RDL_LEASE_AUTO, NULL);
        rdl_lock_free(lock);
        rdl_client_close(client);
        _exit(-rc);
    }
}

Test(cached_harm, process_that_is_stopped_bars_others_for_a_lease_at_most_and_then_believes_in_nothing)
{
    for (int inside = 0; inside < 2; inside++) {
        rdl_lock_t *lock;
        int tell, hear, status;
        char word;
        pid_t child;

        st.server = server_start(NULL);
        st.probe = probe_open(st.server);
        child = start_keeper(inside != 0, &tell, &hear);
        cr_assert_eq(read(hear, &word, 1), 1);
        cr_assert(is_kept());
        kill(child, SIGSTOP);
        st.client = client_open(server_uri(st.server), OPTIONS(.watchdog_lease_ms = LIFE_MS));
        lock = reentrant(st.client, NAME, NULL);
        expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LONG_MS, &err));
        expect(RDL_OK, rdl_try_lock(lock, LIFE_MS + WOKEN_MS, LONG_MS, &err));
        kill(child, SIGCONT);
        cr_assert_eq(write(tell, "g", 1), 1);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status), "%#x", (unsigned)status);
        cr_assert_eq(WEXITSTATUS(status), inside ? -RDL_ELOST : -RDL_ETIMEDOUT, "%s", code_name(-WEXITSTATUS(status)));
        give(lock);
        rdl_lock_free(lock);
        close(tell);
        close(hear);
        live_again();
    }
}

/* ---- ends ------------------------------------------------------------------------------------------------------- */

Test(cached_harm, waits_of_a_process_end_in_time_and_leave_no_trace)
{
    rdl_owner_t *owner = NULL;
    struct outcome o = {0};
    struct caller *waiter = caller_new();
    rdl_op_t *op = NULL;
    rdl_lock_t *lock;

    stage_open(&st);
    lock = idle(st.client, LONG_MS);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    take(lock);
    caller_try_lock(waiter, lock, 50, RDL_LEASE_AUTO);
    expect_result(RDL_ETIMEDOUT, waiter, SOON_MS);
    expect(RDL_OK, rdl_lock_async(lock, owner, RDL_LEASE_AUTO, outcome_note, &o, &op, &err));
    caller_lock(waiter, lock, RDL_LEASE_AUTO);
    expect(1, rdl_owner_cancel(owner)); /* of the first in line: the second comes in */
    expect(RDL_ECANCELED, outcome_wait(&o, SOON_MS));
    give(lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert(is_kept());
    cr_assert_eq(atomic_load(&o.calls), 1);
    rdl_op_free(op);
    rdl_owner_free(owner);
    caller_free(waiter);
    rdl_lock_free(lock);
}

Test(cached_harm, close_with_an_owner_inside_leaves_its_hold_to_the_lease_and_tells_who_waits)
{
    struct caller *waiter = caller_new(), *owner = caller_new();
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 2000));
    lock = idle(st.client, LONG_MS);
    caller_lock(owner, lock, RDL_LEASE_AUTO);
    expect_result(RDL_OK, owner, SOON_MS);
    caller_lock(waiter, lock, RDL_LEASE_AUTO);
    let_pass_ms(50);
    st.client = rdl_client_close(st.client);
    expect_result(RDL_ECLOSED, waiter, SOON_MS);
    caller_unlock(owner, lock);
    expect_result(RDL_ECLOSED, owner, SOON_MS);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(lock);
    caller_free(waiter);
    caller_free(owner);
    cr_assert(stage_is_clean(&st, 2000 + SOON_MS));
}

static int64_t close_client(void *client, rdl_err_t *why)
{
    (void)why;
    rdl_client_close(client);
    return RDL_OK;
}

/* The closing waits for an answer, and for longer than the lease. */
Test(cached_harm, owner_that_ends_while_its_client_closes_is_forgotten)
{
    struct caller *owner = caller_new(), *closer = caller_new();
    rdl_lock_t *lock, *plain;

    stage_open(&st,
               .client = OPTIONS(.watchdog_lease_ms = 2000, .command_timeout_ms = 30000, .close_timeout_ms = 4000));
    lock = idle(st.client, LONG_MS);
    plain = reentrant(st.client, "hasty", LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
    expect(RDL_OK, rdl_try_lock(plain, SOON_MS, LEASE_MS, &err));
    caller_lock(owner, lock, RDL_LEASE_AUTO);
    expect_result(RDL_OK, owner, SOON_MS);
    server_pause(st.server);
    expect(RDL_OK, rdl_unlock(plain, &err));
    caller_call(closer, close_client, st.client);
    cr_assert(WAIT_UNTIL(rdl_hold_state(plain, &err) == RDL_ECLOSED, SOON_MS));
    caller_free(owner);
    expect_result(RDL_OK, closer, 4000 + SOON_MS);
    st.client = NULL;
    server_resume(st.server);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0,
                 "a loss is told of an owner that is gone, by a client that closes");
    rdl_lock_free(lock);
    rdl_lock_free(plain);
    caller_free(closer);
    cr_assert(stage_is_clean(&st, LEASE_MS + SOON_MS));
}

/* ---- where callbacks run ---------------------------------------------------------------------------------------- */

Test(cached_harm, local_grant_calls_back_where_callbacks_run)
{
    rdl_owner_t *owner = NULL;
    struct outcome o = {0};
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.dispatch = RDL_DISPATCH_FD));
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = LONG_MS));
    make_idle(lock);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 0, RDL_LEASE_AUTO, outcome_note, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(rdl_owner_hold_state(owner, lock, &err) == RDL_HELD, SOON_MS));
    let_pass_ms(20);
    cr_assert_eq(atomic_load(&o.calls), 0);
    cr_assert(WAIT_UNTIL(rdl_client_dispatch(st.client) >= 0 && atomic_load(&o.calls) == 1, SOON_MS));
    cr_assert_eq(o.result, RDL_OK);
    cr_assert(pthread_equal(o.thread, pthread_self()));
    rdl_owner_free(owner); /* inside */
    left_behind = true;
    rdl_lock_free(lock);
}
