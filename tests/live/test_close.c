/* SPDX-License-Identifier: MIT */
/* test_close.c - closing a client: everything under way ends, what is owed is sent, holds stay for their lease. */
#include "tests/live/live.h"

#include <dirent.h>

#define NAME "last-orders"
#define LEASE_MS 4000

LIVE_SUITE(close, 60);

static int entries_of(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

Test(close, calls_under_way_on_other_threads_and_asynchronous_ones_end)
{
    enum { WAITERS = 6 };
    struct caller *waiters[WAITERS];
    struct outcome outcomes[WAITERS] = {0};
    rdl_owner_t *owners[WAITERS];
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, 30000);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = caller_new();
        caller_lock(waiters[i], lock, RDL_LEASE_AUTO);
        expect(RDL_OK, rdl_owner_new(st.client, &owners[i], &err));
        expect(RDL_OK, rdl_lock_async(lock, owners[i], RDL_LEASE_AUTO, outcome_note, &outcomes[i], NULL, &err));
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS redisson_lock__channel:{" NAME "}") == 1, SOON_MS));
    start = now_ms();
    cr_assert_null(rdl_client_close(st.client));
    st.client = NULL;
    cr_assert_lt(now_ms() - start, WOKEN_MS);
    cr_assert_eq(probe_int(st.probe, "EXISTS redisson_lock__channel:{" NAME "}"), 0, "it stands in line no more");
    for (int i = 0; i < WAITERS; i++) {
        expect_result(RDL_ECLOSED, waiters[i], SOON_MS);
        cr_assert_eq(atomic_load(&outcomes[i].calls), 1); /* before close returned */
        expect(RDL_ECLOSED, outcomes[i].result);
        caller_free(waiters[i]);
        rdl_owner_free(owners[i]);
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    (void)foreign_release(st.probe, NAME);
    let_pass_ms(50);
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

Test(close, handles_answer_closed_and_can_be_freed)
{
    struct outcome o = {0};
    rdl_owner_t *owner = NULL, *other = NULL;
    rdl_lock_t *lock, *made = NULL;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    st.client = rdl_client_close(st.client);
    expect(RDL_ECLOSED, rdl_try_lock(lock, 1000, LEASE_MS, &err));
    expect(RDL_ECLOSED, rdl_lock(lock, LEASE_MS, &err));
    expect(RDL_ECLOSED, rdl_unlock(lock, &err));
    expect(RDL_ECLOSED, rdl_force_unlock(lock, &err));
    expect(RDL_ECLOSED, rdl_extend(lock, LEASE_MS, &err));
    expect(RDL_ECLOSED, rdl_is_locked(lock, &err));
    expect(RDL_ECLOSED, rdl_is_held(lock, &err));
    expect(RDL_ECLOSED, rdl_hold_count(lock, &err));
    expect(RDL_ECLOSED, rdl_hold_state(lock, &err));
    expect(RDL_ECLOSED, rdl_remaining_ms(lock, &err));
    expect(RDL_ECLOSED, rdl_token(lock, &err));
    expect(RDL_ECLOSED, rdl_on_lost(lock, NULL, NULL, &err));
    expect(RDL_ECLOSED, rdl_try_lock_async(lock, owner, 0, LEASE_MS, outcome_note, &o, NULL, &err));
    expect(RDL_ECLOSED, rdl_unlock_async(lock, owner, outcome_note, &o, NULL, &err));
    expect(RDL_ECLOSED, rdl_owner_hold_state(owner, lock, &err));
    expect(RDL_ECLOSED, rdl_owner_bind(owner, &err));
    cr_assert_eq(atomic_load(&o.calls), 0);
    cr_assert_str_eq(rdl_lock_type(lock), "reentrant");
    cr_assert_null(made);
    cr_assert_null(other);
    cr_assert_null(rdl_lock_free(lock));
    cr_assert_null(rdl_owner_free(owner));
}

/* Somebody may still be working under a hold: it is not released, only no longer renewed. */
Test(close, holds_stay_for_their_lease_and_are_not_renewed)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    st.client = rdl_client_close(st.client);
    cr_assert_eq(probe_keys(st.probe), 1);
    let_pass_ms(LEASE_MS / 3);
    cr_assert_eq(probe_keys(st.probe), 1);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, LEASE_MS + SLACK_MS));
    rdl_lock_free(lock);
}

/* What a call of unknown outcome owes is sent before the client is gone. */
Test(close, undo_that_is_owed_is_sent)
{
    rdl_lock_t *lock;
    int reply;

    stage_open(&st, .proxied = true);
    lock = reentrant(st.client, NAME, NULL);
    for (int round = 0; round < 2; round++) {
        reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = round == 0 ? PROXY_REPLY : PROXY_REQUEST,
                         .command = "EVALSHA", .contains = NAME);
        expect(RDL_EUNKNOWN, rdl_try_lock(lock, 100, 60000, &err));
        if (round == 0)
            continue;
        rdl_lock_free(lock);
        st.client = rdl_client_close(st.client); /* the request and its undo are still held back */
        proxy_let_go(st.proxy, reply);
        cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
        let_pass_ms(100);
        cr_assert_eq(probe_keys(st.probe), 0);
    }
}

/* What a composite lock still owes its members is sent before the client is gone, whatever moment of the take it is. */
enum { MEMBERS = 3 };

static rdl_lock_t *member[MEMBERS];

static rdl_lock_t *multi_of_three(rdl_client_t *const *clients)
{
    static const char *const names[MEMBERS] = {"a", "b", "c"};
    rdl_lock_t *multi = NULL;

    for (int i = 0; i < MEMBERS; i++)
        member[i] = reentrant(clients[i], names[i], NULL);
    expect(RDL_OK, rdl_multi_lock(member, MEMBERS, NULL, &multi, &err));
    return multi;
}

static void free_multi(rdl_lock_t *multi)
{
    rdl_lock_free(multi);
    for (int i = 0; i < MEMBERS; i++)
        rdl_lock_free(member[i]);
}

Test(close, give_backs_of_a_failed_multi_take_are_finished)
{
    stage_open(&st, .proxied = true);
    foreign_take(st.probe, "c", 60000);
    proxy_delay(st.proxy, PROXY_TO_SERVER, 20);
    for (int round = 0; round < 15; round++) { /* so that some closing meets what was not sent */
        rdl_client_t *client = client_open(stage_uri(&st), NULL);
        rdl_lock_t *multi = multi_of_three((rdl_client_t *[]){client, client, client});
        int rc = rdl_try_lock(multi, round % 3 == 0 ? 0 : 100, RDL_LEASE_AUTO, &err);

        cr_assert(rc == RDL_ETIMEDOUT || rc == RDL_EUNKNOWN, "%s", code_name(rc)); /* or its last try was on its way */
        rdl_client_close(client);
        cr_assert_eq(probe_keys(st.probe), 1, "round %d leaves %" PRId64 " keys", round, probe_keys(st.probe));
        free_multi(multi);
    }
    (void)foreign_release(st.probe, "c");
}

Test(close, a_multi_take_that_closing_ends_gives_its_members_back)
{
    rdl_client_t *client, *other;
    struct outcome o = {0};
    rdl_lock_t *multi;

    stage_open(&st, .proxied = true);
    foreign_take(st.probe, "c", 60000);
    client = client_open(stage_uri(&st), NULL);
    other = client_open(server_uri(st.server), NULL);
    multi = multi_of_three((rdl_client_t *[]){client, other, client});
    expect(RDL_OK, rdl_lock_async(multi, NULL, RDL_LEASE_AUTO, outcome_note, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS a b") == 2, SOON_MS));
    proxy_delay(st.proxy, PROXY_TO_SERVER, 20);
    rdl_client_close(client);
    rdl_client_close(other);
    cr_assert_eq(atomic_load(&o.calls), 1);
    expect(RDL_ECLOSED, o.result);
    cr_assert_eq(probe_keys(st.probe), 1);
    free_multi(multi);
    (void)foreign_release(st.probe, "c");
}

/* The client of a member that has been granted closes, while the take goes on at another's. */
Test(close, client_of_a_member_that_was_taken_closes_when_that_is_given_back)
{
    rdl_client_t *client, *other;
    struct outcome o = {0};
    rdl_lock_t *multi;

    stage_open(&st);
    foreign_take(st.probe, "c", 60000);
    for (unsigned round = 0; round < 12; round++) { /* so that some closing is over before the other's give-back */
        client = client_open(server_uri(st.server), OPTIONS(.close_timeout_ms = 20000));
        other = client_open(server_uri(st.server), OPTIONS(.close_timeout_ms = 20000));
        multi = multi_of_three((rdl_client_t *[]){round % 2 ? client : other, round % 2 ? other : client, client});
        expect(RDL_OK, rdl_lock_async(multi, NULL, 60000, outcome_note, &o, NULL, &err));
        cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS a b") == 2, SOON_MS));
        rdl_client_close(other);
        cr_assert_eq(probe_int(st.probe, round % 2 ? "EXISTS b" : "EXISTS a"), 0);
        cr_assert(WAIT_UNTIL(atomic_load(&o.calls) == round + 1, SOON_MS));
        expect(RDL_ECLOSED, o.result);
        rdl_client_close(client);
        cr_assert_eq(probe_keys(st.probe), 1);
        free_multi(multi);
    }
    (void)foreign_release(st.probe, "c");
}

Test(close, a_multi_lock_that_is_being_released_is_released)
{
    struct outcome o = {0};
    rdl_client_t *client;
    rdl_lock_t *multi;

    stage_open(&st, .proxied = true);
    client = client_open(stage_uri(&st), NULL);
    multi = multi_of_three((rdl_client_t *[]){client, client, client});
    expect(RDL_OK, rdl_try_lock(multi, 0, RDL_LEASE_AUTO, &err));
    proxy_delay(st.proxy, PROXY_TO_SERVER, 20);
    expect(RDL_OK, rdl_unlock_async(multi, NULL, outcome_note, &o, NULL, &err));
    rdl_client_close(client);
    cr_assert_eq(atomic_load(&o.calls), 1);
    cr_assert_eq(probe_keys(st.probe), 0);
    expect(RDL_OK, o.result);
    free_multi(multi);
}

Test(close, hanging_server_delays_the_give_backs_by_the_close_time_out_at_most)
{
    enum { CLOSE_MS = 200 };
    struct outcome o = {0};
    rdl_client_t *client;
    rdl_lock_t *multi;
    int64_t start;

    stage_open(&st, .proxied = true);
    foreign_take(st.probe, "c", 60000);
    client = client_open(stage_uri(&st), OPTIONS(.close_timeout_ms = CLOSE_MS));
    multi = multi_of_three((rdl_client_t *[]){client, client, client});
    expect(RDL_OK, rdl_lock_async(multi, NULL, RDL_LEASE_AUTO, outcome_note, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS a b") == 2, SOON_MS));
    proxy_freeze(st.proxy, PROXY_BOTH_WAYS);
    start = now_ms();
    rdl_client_close(client);
    expect_between(CLOSE_MS, now_ms() - start, CLOSE_MS + SLACK_MS);
    expect(RDL_ECLOSED, o.result);
    free_multi(multi);
    proxy_thaw(st.proxy, PROXY_BOTH_WAYS);
    (void)foreign_release(st.probe, "c");
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS)); /* what was sent goes its way */
}

/* The member at a server that is silent is of another client, which is not closed and may wait longer. */
static void expect_members_of_others_delay_nothing(bool blocking)
{
    enum { CLOSE_MS = 200, COMMAND_MS = 20000 };
    struct caller *unlocker = caller_new();
    rdl_client_t *client, *other;
    struct outcome o = {0};
    rdl_lock_t *multi;
    int64_t start;

    stage_open(&st, .proxied = true);
    client = client_open(server_uri(st.server), OPTIONS(.close_timeout_ms = CLOSE_MS));
    other = client_open(stage_uri(&st), OPTIONS(.command_timeout_ms = COMMAND_MS));
    multi = multi_of_three((rdl_client_t *[]){client, other, client});
    if (blocking) {
        caller_try_lock(unlocker, multi, 5000, RDL_LEASE_AUTO);
        expect_result(RDL_OK, unlocker, SOON_MS);
    } else {
        expect(RDL_OK, rdl_try_lock(multi, 5000, RDL_LEASE_AUTO, &err));
    }
    proxy_freeze(st.proxy, PROXY_BOTH_WAYS);
    if (blocking)
        caller_unlock(unlocker, multi);
    else
        expect(RDL_OK, rdl_unlock_async(multi, NULL, outcome_note, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS a c") == 0, SOON_MS));
    start = now_ms();
    rdl_client_close(client);
    expect_between(0, now_ms() - start, COMMAND_MS / 3);
    if (blocking)
        expect_result(RDL_ECLOSED, unlocker, SOON_MS);
    else
        expect(RDL_ECLOSED, o.result);
    proxy_thaw(st.proxy, PROXY_BOTH_WAYS);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS)); /* the other client has sent it */
    rdl_client_close(other);
    free_multi(multi);
    caller_free(unlocker);
}

Test(close, unlock_of_a_member_of_another_client_does_not_delay_close)
{
    expect_members_of_others_delay_nothing(true);
}

Test(close, asynchronous_unlock_of_a_member_of_another_client_does_not_delay_close)
{
    expect_members_of_others_delay_nothing(false);
}

Test(close, hanging_server_delays_close_by_its_time_out_at_most)
{
    enum { CLOSE_MS = 200 };
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st, .proxied = true, .client = OPTIONS(.close_timeout_ms = CLOSE_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err)); /* its connection is up */
    expect(RDL_OK, rdl_unlock(lock, &err));
    proxy_freeze(st.proxy, PROXY_BOTH_WAYS);
    expect(RDL_EUNKNOWN, rdl_try_lock(lock, 100, 60000, &err));
    start = now_ms();
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    expect_between(0, now_ms() - start, CLOSE_MS + SLACK_MS);
    proxy_thaw(st.proxy, PROXY_BOTH_WAYS);
    cr_assert(WAIT_UNTIL(proxy_open(st.proxy) == 0, SOON_MS));
    let_pass_ms(50);
    cr_assert_eq(probe_keys(st.probe), 0); /* the undo followed the acquire down the same line */
}

/* Where CLIENT KILL is refused an undo is repeated for as long as a lease, at ever longer pauses. Closing does not wait
 * for the next of them: it goes at once. */
Test(close, undo_that_is_repeated_does_not_delay_close_and_goes_once_more)
{
    enum { CLOSE_MS = 3000, PAUSE_MS = 10000 }; /* the pause that follows the fifth answer */
    struct outcome o = {0};
    unsigned undone;
    int undos;
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st, .proxied = true, .client = OPTIONS(.reconnect_min_ms = 1, .close_timeout_ms = CLOSE_MS));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err)); /* its connection is up */
    expect(RDL_OK, rdl_unlock(lock, &err));
    stage_limit(&st, "-client +client|setname +client|id +client|info");
    (void)proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    undos = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_REPLY, .command = "EVAL", .contains = NAME,
                     .every = true);
    expect(RDL_EUNKNOWN, rdl_try_lock(lock, 100, 60000, &err));
    proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
    cr_assert(proxy_wait(st.proxy, undos, 5, PAUSE_MS));
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, outcome_note, &o, NULL, &err));
    expect(0, outcome_wait(&o, PAUSE_MS / 2)); /* behind it: the client has read the fifth */
    undone = proxy_acted(st.proxy, undos);
    start = now_ms();
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    expect_between(0, now_ms() - start, PAUSE_MS / 2);
    cr_assert_eq(proxy_acted(st.proxy, undos), undone + 1);
}

static atomic_uint warnings; /* of the client's connections */

static void note_warning(rdl_log_level_t level, const char *line, void *arg)
{
    (void)line;
    (void)arg;
    if (level == RDL_LOG_WARN)
        atomic_fetch_add(&warnings, 1);
}

/* Guards of a name that is no longer used are taken away in passing: they have a time to live. */
static void expect_guards_delay_nothing(void (*away)(void))
{
    enum { CLOSE_MS = 20000 };
    rdl_semaphore_t *s = NULL;
    int64_t start;

    stage_open(&st, .proxied = true, .client = OPTIONS(.close_timeout_ms = CLOSE_MS, .log = note_warning));
    left_behind = true;
    expect(RDL_OK, rdl_semaphore(st.client, NAME, NULL, &s, &err));
    expect(1, rdl_semaphore_try_set_permits(s, 1, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(s, 1, 0, &err));
    expect(RDL_OK, rdl_semaphore_release(s, 1, &err));
    away();
    start = now_ms();
    rdl_semaphore_free(s);
    cr_assert_null(rdl_client_close(st.client));
    st.client = NULL;
    expect_between(0, now_ms() - start, CLOSE_MS / 3);
}

static void cut_off(void)
{
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    cr_assert(WAIT_UNTIL(atomic_load(&warnings) > 0, SOON_MS)); /* it knows, and sends nothing to who has gone */
}

static void fall_silent(void)
{
    proxy_freeze(st.proxy, PROXY_TO_CLIENT);
}

Test(close, guards_do_not_delay_close_without_a_server)
{
    expect_guards_delay_nothing(cut_off);
}

Test(close, guards_do_not_delay_close_where_the_server_is_silent)
{
    expect_guards_delay_nothing(fall_silent);
}

Test(close, close_without_a_server_does_not_hang)
{
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    probe_close(st.probe);
    server_kill(st.server);
    start = now_ms();
    st.client = rdl_client_close(st.client);
    cr_assert_lt(now_ms() - start, 1000 + SLACK_MS);
    rdl_lock_free(lock);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
}

static void close_in_callback(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    struct outcome *o = arg;

    outcome_note(lock, rdl_client_close(st.client) == st.client ? result : RDL_ECLOSED, error, o);
}

/* client.h: it then does nothing and returns its argument. */
Test(close, close_in_a_callback_does_nothing)
{
    struct outcome o = {0};
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_is_locked_async(lock, NULL, close_in_callback, &o, NULL, &err));
    expect(0, outcome_wait(&o, SOON_MS));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(close, opened_and_closed_clients_leave_no_descriptor_thread_or_connection)
{
    int fds, threads;

    stage_open(&st);
    fds = entries_of("/proc/self/fd");
    threads = entries_of("/proc/self/task");
    for (int i = 0; i < 100; i++) {
        rdl_client_t *client = client_open(server_uri(st.server), OPTIONS(.client_name = "short-lived"));
        rdl_lock_t *lock = reentrant(client, NAME, NULL);

        if (i % 2 == 0) {
            expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
        if (i % 3 == 0)
            rdl_lock_free(lock);
        rdl_client_close(client);
        if (i % 3 != 0)
            rdl_lock_free(lock);
    }
    cr_assert_eq(entries_of("/proc/self/fd"), fds);
    cr_assert_eq(entries_of("/proc/self/task"), threads);
    cr_assert(WAIT_UNTIL(probe_clients(st.probe, "short-lived") == 0, SOON_MS));
}
