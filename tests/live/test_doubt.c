/* SPDX-License-Identifier: MIT */
/* test_doubt.c - commands whose outcome is unknown: replies that are lost, requests that come late (protocol.md, 2 and
 * 3).
 *
 * The proxy is the network. What the tests ask of the library: a repeated verb counts once; a call that does not know
 * says so; and whatever had been sent, soon no key is left that nobody knows of.
 */
#include "tests/live/live.h"

#define NAME "doubtful"
#define LEASE_MS 30000
#define PROMPT_MS SOON_MS /* much less than a lease */
#define SHORT_MS 1500     /* until a call gives up: longer than a busy machine stands still */

LIVE_SUITE(doubt, 60);

static void open_stage(int64_t command_timeout_ms)
{
    stage_open(&st, .proxied = true,
               .client =
                   OPTIONS(.command_timeout_ms = command_timeout_ms, .reconnect_min_ms = 1, .reconnect_max_ms = 50));
}

/* The pair that shows that the line is well: connections up, scripts loaded. */
static void warm_up(rdl_lock_t *lock)
{
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
}

/* ---- A1, A2: lost replies --------------------------------------------------------------------------------------- */

/* A1: at every byte of the reply. A call that waits would get over a repeat that is refused, a single try would not. */
Test(doubt, acquire_whose_reply_is_lost_is_repeated_and_counts_once)
{
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock;

        if (kind != kinds)
            live_again(); /* the proxy minds 64 rules */
        open_stage(3000);
        lock = kind->make(st.client, NAME, NULL);
        warm_up(lock);
        for (size_t at = 0; at <= 8; at++) {
            int cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = kind->take,
                               .contains = NAME, .at = at);

            expect(RDL_OK, rdl_try_lock(lock, at % 2 == 0 ? 0 : 5000, LEASE_MS, &err));
            cr_assert_eq(proxy_acted(st.proxy, cut), 1, "%s, at %zu", kind->type, at);
            expect(1, rdl_hold_count(lock, &err));
            cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
            expect(RDL_OK, rdl_unlock(lock, &err));
            cr_assert_eq(lock_keys(st.probe, NAME), 0);
        }
        lock_over(st.probe, lock);
    }
}

/* A1: at every byte of the request, where it may have arrived or not. */
Test(doubt, acquire_cut_at_any_byte_of_its_request_is_repeated_and_counts_once)
{
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock;

        if (kind != kinds)
            live_again(); /* the proxy minds 64 rules */
        open_stage(3000);
        lock = kind->make(st.client, NAME, NULL);
        warm_up(lock);
        for (size_t at = 0; at < 200; at += 7) { /* a take has some 180 bytes */
            int cut = proxy_on(st.proxy, .action = PROXY_CUT, .command = kind->take, .contains = NAME, .at = at);

            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            cr_assert_eq(proxy_acted(st.proxy, cut), 1, "%s, at %zu", kind->type, at);
            expect(1, rdl_hold_count(lock, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
            cr_assert_eq(lock_keys(st.probe, NAME), 0);
        }
        lock_over(st.probe, lock);
    }
}

/* A1 inside a hold: the count is absolute. */
Test(doubt, nested_acquire_whose_reply_is_lost_counts_once)
{
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock;

        if (kind != kinds)
            live_again(); /* the proxy minds 64 rules */
        open_stage(3000);
        lock = kind->make(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
        if (!kind->reentrant) {
            lock_over(st.probe, lock);
            continue;
        }
        expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
        for (int64_t count = 2; count <= 6; count++) {
            int64_t token = rdl_token(lock, &err);

            (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            expect(count, rdl_hold_count(lock, &err));
            cr_assert_eq(lock_holds(st.probe, NAME), count);
            expect(token, rdl_token(lock, &err));
        }
        for (int64_t count = 5; count >= 0; count--) {
            (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
            expect(RDL_OK, rdl_unlock(lock, &err));
            expect(count, rdl_hold_count(lock, &err));
            cr_assert_eq(lock_holds(st.probe, NAME), count);
        }
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        lock_over(st.probe, lock);
    }
}

/* A1: a waiter's try that succeeds, and whose reply is lost. */
Test(doubt, woken_waiter_whose_grant_is_lost_has_it_nonetheless)
{
    struct caller *waiter = caller_new();
    rdl_client_t *other;

    open_stage(3000);
    other = client_open(server_uri(st.server), NULL);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL), *rival = kind->rival(other, NAME, NULL);

        expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
        caller_try_lock(waiter, lock, 20000, LEASE_MS);
        cr_assert(kind->polls || WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
        let_pass_ms(50);
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
        expect(RDL_OK, rdl_unlock(rival, &err));
        expect_result(RDL_OK, waiter, WOKEN_MS);
        cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
        caller_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
        rdl_lock_free(rival);
        lock_over(st.probe, lock);
    }
    caller_free(waiter);
    rdl_client_close(other);
}

/* A2 */
Test(doubt, unlock_whose_reply_is_lost_is_repeated_and_spares_the_next_hold)
{
    open_stage(3000);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        warm_up(lock);
        for (size_t at = 0; at <= 4; at++) {
            int cut;

            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                           .at = at);
            expect(RDL_OK, rdl_unlock(lock, &err));
            cr_assert_eq(proxy_acted(st.proxy, cut), 1, "%s, at %zu", kind->type, at);
            cr_assert_eq(lock_keys(st.probe, NAME), 0);
            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            let_pass_ms(20);
            cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
            expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
        lock_over(st.probe, lock);
    }
}

Test(doubt, extend_and_force_unlock_whose_replies_are_lost_are_repeated)
{
    open_stage(3000);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);

        expect(RDL_OK, rdl_try_lock(lock, 5000, 5000, &err));
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
        expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
        expect_between(LEASE_MS - 2000, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
        cr_assert_geq(rdl_force_unlock(lock, &err), 0, "%s", err.message);
        cr_assert_eq(lock_holds(st.probe, NAME), 0);
        expect(RDL_ELOST, rdl_unlock(lock, &err));
        (void)probe_text(st.probe, "FLUSHDB"); /* a read lock's timeout keys stay (wire.md) */
        lock_over(st.probe, lock);
    }
}

/* ---- A3: unknown outcomes --------------------------------------------------------------------------------------- */

/* A3: it ran, the reply does not come in time. The caller is told, and the key is gone long before the lease. */
Test(doubt, acquire_of_unknown_outcome_says_so_and_is_undone_promptly)
{
    open_stage(SHORT_MS);
    FOR_EACH_KIND(kind)
    {
        static const int64_t waits[] = {0, 200};

        for (size_t i = 0; i < 2; i++) {
            rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
            int64_t start;
            int reply;

            warm_up(lock);
            reply =
                proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = kind->take, .contains = NAME);
            start = now_ms();
            expect(unanswered(kind), rdl_try_lock(lock, kind->votes ? 200 : waits[i], LEASE_MS, &err));
            expect_between(200, now_ms() - start, SHORT_MS + SLACK_MS);
            expect_err_names(&err, unanswered(kind), rdl_lock_name(lock, NULL));
            cr_assert_eq(proxy_acted(st.proxy, reply), 1);
            cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, PROMPT_MS));
            expect(0, rdl_is_held(lock, &err));
            proxy_let_go(st.proxy, reply);
            warm_up(lock);
            lock_over(st.probe, lock);
        }
    }
}

/* A3, asynchronous. */
Test(doubt, asynchronous_acquire_of_unknown_outcome_is_undone_promptly)
{
    rdl_owner_t *owner = NULL;

    open_stage(SHORT_MS);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        struct outcome o = {0};
        int reply;

        reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = kind->take, .contains = NAME);
        expect(RDL_OK, rdl_try_lock_async(lock, owner, 200, LEASE_MS, outcome_note, &o, NULL, &err));
        expect(unanswered(kind), outcome_wait(&o, SOON_MS));
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, PROMPT_MS));
        proxy_let_go(st.proxy, reply);
        lock_over(st.probe, lock);
    }
    rdl_owner_free(owner);
}

/* A3 inside a hold: the undo returns to the count that was confirmed, and the hold goes on. */
Test(doubt, nested_acquire_of_unknown_outcome_falls_back_to_the_confirmed_count)
{
    open_stage(SHORT_MS);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int reply;

        if (!kind->reentrant) {
            lock_over(st.probe, lock);
            continue;
        }
        expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
        reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
        expect(unanswered(kind), rdl_try_lock(lock, 200, LEASE_MS, &err));
        cr_assert(WAIT_UNTIL(lock_holds(st.probe, NAME) == 1, PROMPT_MS));
        expect(1, rdl_hold_count(lock, &err));
        proxy_let_go(st.proxy, reply);
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        lock_over(st.probe, lock);
    }
}

/* A3: while the undo is on its way the owner tries again; the new hold has a number of its own and is not undone. */
Test(doubt, undo_of_an_unknown_acquire_spares_the_owners_next_hold)
{
    open_stage(SHORT_MS);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int reply;

        warm_up(lock);
        for (int i = 0; i < 5; i++) {
            reply =
                proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = kind->take, .contains = NAME);
            expect(unanswered(kind), rdl_try_lock(lock, 150, LEASE_MS, &err));
            proxy_let_go(st.proxy, reply);
            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            let_pass_ms(100);
            expect(1, rdl_is_held(lock, &err));
            cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
            expect(RDL_OK, rdl_unlock(lock, &err));
            cr_assert_eq(lock_keys(st.probe, NAME), 0);
        }
        lock_over(st.probe, lock);
    }
}

/* The lock is taken, and its unlock is held by the rule that is returned: its caller does not know. */
static int lose_an_unlock(rdl_lock_t *lock)
{
    int request;

    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    expect(RDL_EUNKNOWN, rdl_unlock(lock, &err));
    cr_assert_eq(proxy_acted(st.proxy, request), 1);
    return request;
}

/* An unlock that is not answered is over for its caller, and done in the background. */
Test(doubt, unlock_of_unknown_outcome_is_finished_in_the_background)
{
    open_stage(SHORT_MS);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int request = lose_an_unlock(lock);

        expect(0, rdl_is_held(lock, &err));
        expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
        cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
        proxy_let_go(st.proxy, request);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, PROMPT_MS));
        lock_over(st.probe, lock);
    }
}

/* ---- A6, Q1, Q2: late delivery ---------------------------------------------------------------------------------- */

/* A6: the late unlock finds a newer hold of the same owner. */
Test(doubt, unlock_delivered_after_its_repeat_spares_the_newer_hold)
{
    open_stage(SHORT_MS);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int request = lose_an_unlock(lock);

        proxy_cut_client_side(st.proxy, PROXY_COMMANDERS); /* the repeat goes elsewhere */
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, PROMPT_MS));
        expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
        proxy_let_go(st.proxy, request);
        let_pass_ms(100);
        cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
        expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        lock_over(st.probe, lock);
    }
}

/* Q1 */
Test(doubt, acquire_let_through_after_the_caller_gave_up_leaves_no_key)
{
    open_stage(SHORT_MS);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int request, kill;

        warm_up(lock);
        request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
        kill = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_REPLY, .command = "CLIENT", .contains = "KILL");
        expect(unanswered(kind), rdl_try_lock(lock, 200, LEASE_MS, &err));
        proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
        cr_assert(proxy_wait(st.proxy, kill, 1, SOON_MS));
        proxy_let_go(st.proxy, request);
        let_pass_ms(100);
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        warm_up(lock);
        lock_over(st.probe, lock);
    }
}

/* Q1, when the caller has not given up: the repeat has the lock, gives it back, and then the first one comes. */
Test(doubt, acquire_let_through_after_its_repeat_was_unlocked_leaves_no_key)
{
    struct caller *caller = caller_new();

    open_stage(3000);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int request;

        warm_up(lock);
        request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
        caller_try_lock(caller, lock, 5000, LEASE_MS);
        cr_assert(proxy_wait(st.proxy, request, 1, SOON_MS));
        proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_unlock(caller, lock);
        expect_result(RDL_OK, caller, SOON_MS);
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        proxy_let_go(st.proxy, request);
        let_pass_ms(100);
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        lock_over(st.probe, lock);
    }
    caller_free(caller);
}

/* protocol.md, 3: the new connection begins with the KILL. If the release went before it, the acquire could come
 * between. */
Test(doubt, release_on_a_new_connection_waits_for_the_kill)
{
    struct caller *caller = caller_new();

    open_stage(SHORT_MS);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int request, kill;

        warm_up(lock);
        request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
        kill = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "CLIENT", .contains = "KILL");
        caller_try_lock(caller, lock, 200, LEASE_MS);
        cr_assert(proxy_wait(st.proxy, request, 1, SOON_MS));
        proxy_refuse(st.proxy, true); /* so that the caller gives up without a connection */
        proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
        expect_result(unanswered(kind), caller, SOON_MS);
        proxy_refuse(st.proxy, false);
        cr_assert(proxy_wait(st.proxy, kill, 1, SOON_MS));
        cr_assert_eq(lock_keys(st.probe, NAME), 0); /* what was sent before the KILL has run by now */
        proxy_let_go(st.proxy, request);
        cr_assert(WAIT_UNTIL(lock_holds(st.probe, NAME) == 1, SOON_MS));
        proxy_let_go(st.proxy, kill);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, PROMPT_MS));
        lock_over(st.probe, lock);
    }
    caller_free(caller);
}

/* Q2: the connection that carried the KILL dies as well, before the KILL arrived or before its answer did. */
Test(doubt, kill_that_is_lost_is_repeated_for_every_abandoned_connection)
{
    static const struct {
        enum proxy_part part;
        size_t at;
    } cuts[] = {
        {PROXY_REQUEST, 0}, {PROXY_REQUEST, 10}, {PROXY_REQUEST, PROXY_WHOLE}, {PROXY_REPLY, 0}, {PROXY_REPLY, 2}};
    struct caller *caller = caller_new();

    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock;

        if (kind != kinds)
            live_again(); /* the proxy minds 64 rules */
        open_stage(3000);
        lock = kind->make(st.client, NAME, NULL);
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            int request, cut;

            warm_up(lock);
            request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
            cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = cuts[i].part, .command = "CLIENT", .contains = "KILL",
                           .at = cuts[i].at);
            caller_try_lock(caller, lock, 5000, LEASE_MS);
            cr_assert(proxy_wait(st.proxy, request, 1, SOON_MS));
            proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
            expect_result(RDL_OK, caller, SOON_MS);
            cr_assert_eq(proxy_acted(st.proxy, cut), 1, "%s", kind->type);
            caller_unlock(caller, lock);
            expect_result(RDL_OK, caller, SOON_MS);
            proxy_let_go(st.proxy, request);
            let_pass_ms(100);
            cr_assert_eq(lock_keys(st.probe, NAME), 0, "cut %zu", i);
        }
        lock_over(st.probe, lock);
    }
    caller_free(caller);
}

/* protocol.md, 3: the acquire sits on one abandoned connection, its repeat on the next; both come late. */
Test(doubt, two_abandoned_connections_are_both_killed)
{
    struct caller *caller = caller_new();

    open_stage(5000);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int first, second;

        warm_up(lock);
        first = proxy_on(st.proxy, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
        caller_try_lock(caller, lock, 10000, LEASE_MS);
        cr_assert(proxy_wait(st.proxy, first, 1, SOON_MS));
        second = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "CLIENT", .contains = "KILL");
        proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
        cr_assert(proxy_wait(st.proxy, second, 1, SOON_MS)); /* and behind it, the repeat */
        proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_unlock(caller, lock);
        expect_result(RDL_OK, caller, SOON_MS);
        proxy_let_go(st.proxy, second);
        let_pass_ms(50);
        proxy_let_go(st.proxy, first);
        let_pass_ms(100);
        cr_assert_eq(lock_keys(st.probe, NAME), 0);
        lock_over(st.probe, lock);
    }
    caller_free(caller);
}

/* An acquire held by the proxy on a connection that the server will not be asked to kill, because of what the next one
 * may not, while its repeat has had the lock and has given it back. The rule that holds it. */
static int leave_an_acquire_behind(struct caller *caller, const char *rules, rdl_lock_t **ret_lock)
{
    int request;

    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 1));
    *ret_lock = reentrant(st.client, NAME, NULL);
    caller_try_lock(caller, *ret_lock, 5000, LEASE_MS); /* its connection is up */
    expect_result(RDL_OK, caller, SOON_MS);
    caller_unlock(caller, *ret_lock);
    expect_result(RDL_OK, caller, SOON_MS);
    stage_limit(&st, rules);
    request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    caller_try_lock(caller, *ret_lock, 5000, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, request, 1, SOON_MS));
    proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_unlock(caller, *ret_lock);
    expect_result(RDL_OK, caller, SOON_MS);
    return request;
}

#define NO_KILL "-client +client|setname +client|id +client|info"

/* protocol.md, 3: the release is repeated until one lease has passed, so a late acquire does not stay. */
static void expect_late_acquire_cleared_away(const char *rules)
{
    struct caller *caller = caller_new();
    rdl_lock_t *lock;
    int request = leave_an_acquire_behind(caller, rules, &lock);

    let_pass_ms(600); /* between two of the repeats */
    cr_assert_eq(lock_keys(st.probe, NAME), 0);
    proxy_let_go(st.proxy, request);
    cr_assert(WAIT_UNTIL(lock_holds(st.probe, NAME) == 1, SOON_MS)); /* it ran: there was no KILL */
    cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, 10000));    /* 0.1, 0.3, 1, 3 s after the doubt */
    caller_free(caller);
    rdl_lock_free(lock);
}

Test(doubt, late_acquire_is_cleared_away_where_kill_is_refused)
{
    expect_late_acquire_cleared_away(NO_KILL);
}

/* Whether it is the same run is not known, and an id of another run would be a stranger's. */
Test(doubt, late_acquire_is_cleared_away_where_the_server_no_longer_says_which_run_it_is)
{
    expect_late_acquire_cleared_away("-info");
}

/* The repeats mean the earlier hold (protocol.md, 1). */
Test(doubt, releases_repeated_where_kill_is_refused_spare_the_newer_hold)
{
    struct caller *caller = caller_new();
    rdl_lock_t *lock;
    int request = leave_an_acquire_behind(caller, NO_KILL, &lock), releases;

    caller_try_lock(caller, lock, 5000, LEASE_MS);
    expect_result(RDL_OK, caller, SOON_MS);
    releases = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_REPLY, .contains = NAME, .every = true);
    proxy_let_go(st.proxy, request);
    cr_assert(proxy_wait(st.proxy, releases, 2, 10000));
    cr_assert_eq(lock_holds(st.probe, NAME), 1);
    caller_unlock(caller, lock);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    rdl_lock_free(lock);
}

static rdl_owner_t *owner;
static struct outcome canceled;

/* On the loop's thread, so that the next call is canceled before it begins. */
static void begin_and_cancel(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    rdl_op_t *op = NULL;

    (void)rdl_try_lock_async(lock, owner, 5000, LEASE_MS, outcome_note, &canceled, &op, NULL);
    rdl_op_cancel(op);
    rdl_op_free(op);
    outcome_note(lock, result, error, arg);
}

/* Nor is what takes a client out of the line, for a call that ended before it had a number, the newer hold's. */
Test(doubt, place_given_up_for_a_call_that_never_began_spares_the_newer_hold)
{
    struct outcome in = {0}, out = {0};
    rdl_lock_t *lock;
    int64_t undone, scripts;
    int undo;

    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 1));
    stage_limit(&st, NO_KILL);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    foreign_take(st.probe, NAME, LEASE_MS);
    scripts = probe_calls(st.probe, "evalsha");
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 20000, LEASE_MS, outcome_note, &in, NULL, &err));
    expect_asleep(scripts, 2, 1);
    (void)foreign_release(st.probe, NAME);
    expect(RDL_OK, outcome_wait(&in, WOKEN_MS)); /* from the line */
    undo = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVAL", .contains = NAME);
    expect(RDL_OK, rdl_unlock_async(lock, owner, begin_and_cancel, &out, NULL, &err));
    expect(RDL_OK, outcome_wait(&out, SOON_MS));
    expect(RDL_ECANCELED, outcome_wait(&canceled, SOON_MS));
    cr_assert(proxy_wait(st.proxy, undo, 1, SOON_MS));
    proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    undone = probe_calls(st.probe, "eval");
    proxy_let_go(st.proxy, undo);
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "eval") > undone, SOON_MS));
    cr_assert_eq(lock_holds(st.probe, NAME), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_owner_free(owner);
    rdl_lock_free(lock);
}

/* Nothing that happened to one server is done to another: ids restart with the server. */
Test(doubt, kill_goes_only_to_the_server_that_issued_the_id)
{
    rdl_lock_t *lock;
    int request, kill;

    open_stage(SHORT_MS);
    lock = reentrant(st.client, NAME, NULL);
    warm_up(lock);
    request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    kill = proxy_on(st.proxy, .action = PROXY_WATCH, .command = "CLIENT", .contains = "KILL", .every = true);
    expect(RDL_EUNKNOWN, rdl_try_lock(lock, 200, LEASE_MS, &err));
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    probe_close(st.probe);
    server_kill(st.server);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    proxy_let_go(st.proxy, request);
    proxy_refuse(st.proxy, false);
    warm_up(lock);
    cr_assert_eq(proxy_acted(st.proxy, kill), 0);
    rdl_lock_free(lock);
}

/* ---- Q4 --------------------------------------------------------------------------------------------------------- */

/* A vote that came too late would be asked for again. */
static int64_t patience(const struct kind *kind)
{
    return kind->votes ? 0 : 5000;
}

static void expect_too_late(const struct kind *kind, struct caller *caller)
{
    int64_t rc = caller_result(caller, SOON_MS);

    cr_assert(rc == RDL_ELOST || (kind->votes && rc == RDL_ENOQUORUM), "%s: %s", kind->type, code_name(rc));
}

/* Q4: granted, but the answer is read when the lease, counted from sending, is over. */
Test(doubt, grant_read_after_its_validity_is_not_a_hold_and_its_key_is_removed)
{
    enum { SHORT_LEASE_MS = 2000 };
    struct caller *caller = caller_new();

    open_stage(5000);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int request;

        warm_up(lock);
        request = proxy_on(st.proxy, .action = PROXY_HOLD, .command = kind->take, .contains = NAME);
        caller_try_lock(caller, lock, patience(kind), SHORT_LEASE_MS);
        cr_assert(proxy_wait(st.proxy, request, 1, SOON_MS));
        let_pass_ms(SHORT_LEASE_MS);
        proxy_let_go(st.proxy, request); /* the key now lives for another lease, unless it is removed */
        expect_too_late(kind, caller);
        expect(0, rdl_is_held(lock, &err));
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SHORT_LEASE_MS * 3 / 4));
        lock_over(st.probe, lock);
    }
    caller_free(caller);
}

/* The same when the key is long gone with its lease: no message, no error, no key. */
Test(doubt, grant_read_after_the_key_expired_is_not_a_hold)
{
    struct caller *caller = caller_new();

    open_stage(5000);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int reply;

        warm_up(lock);
        reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = kind->take, .contains = NAME);
        caller_try_lock(caller, lock, patience(kind), 200);
        cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS));
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS));
        proxy_let_go(st.proxy, reply);
        expect_too_late(kind, caller);
        caller_unlock(caller, lock);
        expect_result(RDL_ENOTOWNER, caller, SOON_MS);
        lock_over(st.probe, lock);
    }
    caller_free(caller);
}

static uint64_t attempts(const rdl_metrics_t *metrics)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, RDL_M_ATTEMPTS, &value);
    return value.sum;
}

/* Both answers come in one piece, and a caller reads them; only the loop can end the call whose undo the second one
 * settles. */
Test(doubt, undo_whose_reply_another_caller_reads_ends_its_call)
{
    rdl_metrics_t *metrics = NULL;
    struct caller *reader = caller_new();
    rdl_lock_t *first, *second;
    int64_t began;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.connections = 1, .close_timeout_ms = 4 * SOON_MS, .metrics = metrics));
    first = reentrant(st.client, "first", NULL);
    second = reentrant(st.client, "second", NULL);
    warm_up(first);
    server_pause(st.server);
    caller_try_lock(reader, first, 30000, LEASE_MS);
    cr_assert(WAIT_UNTIL(attempts(metrics) == 2, SOON_MS));
    expect(RDL_EUNKNOWN, rdl_try_lock(second, 50, LEASE_MS, &err));
    server_resume(st.server);
    cr_assert_eq(caller_result(reader, SOON_MS), RDL_OK);
    caller_free(reader);
    rdl_lock_free(first);
    rdl_lock_free(second);
    began = now_us();
    st.client = rdl_client_close(st.client);
    cr_assert_lt(now_us() - began, SOON_MS * 1000, "closing waits for an undo that was answered");
    rdl_metrics_free(metrics);
}

/* Its first sending has entered its client in the line behind the undo of the last call that waited. */
Test(doubt, release_that_is_sent_twice_leaves_the_line_that_it_has_entered_for_nobody)
{
    for (rdl_release_t release = RDL_RELEASE_CONFIRMED; release <= RDL_RELEASE_UNCONFIRMED; release++) {
        struct caller *holder = caller_new(), *waiter = caller_new();
        rdl_lock_t *lock;
        int held, cut;

        if (release != RDL_RELEASE_CONFIRMED)
            live_again();
        open_stage(4 * SHORT_MS);
        lock = reentrant(st.client, NAME, LOCK_OPTIONS(.release = release));
        caller_lock(holder, lock, LEASE_MS);
        expect_result(RDL_OK, holder, SOON_MS);
        caller_try_lock(waiter, lock, SHORT_MS, LEASE_MS);
        cr_assert(WAIT_UNTIL(probe_int(st.probe, "HLEN " NAME) == 2, SOON_MS)); /* it is wanted */
        held = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = "stay");
        cut = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = "stay");
        caller_unlock(holder, lock);
        cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
        expect_result(RDL_ETIMEDOUT, waiter, SOON_MS);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 1, SOON_MS), "the place is not left");
        proxy_let_go(st.proxy, held);
        expect_result(RDL_OK, holder, SOON_MS);
        cr_assert(proxy_wait(st.proxy, cut, 1, SOON_MS));
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS));
        caller_free(waiter);
        caller_free(holder);
        lock_over(st.probe, lock);
    }
}
