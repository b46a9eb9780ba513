/* SPDX-License-Identifier: MIT */
/* test_local.c - RDL_OUTAGE_LOCAL: the host's own lock while there is no server (protocol.md, 10).
 *
 * Two clients here are two processes as far as that lock goes: it belongs to an open file. Processes that share nothing
 * else, and are killed, are at the end.
 */
#include "tests/live/live.h"
#include "tests/support/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "local"
#define AFTER_MS 300
#define LEASE_MS 3000
#define RETURN_MS                                                                                                      \
    4000 /* bound on what happens when the server is back: connecting again, and being offered the hold                \
          */

static char *dir;
static rdl_client_t *second;
static rdl_lock_t *lock, *other; /* of the stage's client, and of the second */

static void fini(void)
{
    live_fini();
    if (dir != NULL)
        cr_assert(folder_remove(dir));
    free(dir);
    dir = NULL;
}

TestSuite(local, .fini = fini, .timeout = 60);

#define LOCAL(...)                                                                                                     \
    OPTIONS(.on_outage = RDL_OUTAGE_LOCAL, .local_dir = dir, .local_after_ms = AFTER_MS, .reconnect_max_ms = 50,       \
            .watchdog_lease_ms = LEASE_MS, __VA_ARGS__)

static void make_dir(const struct server *server)
{
    dir = must_format("%s/host", server_dir(server));
}

/* The stage's client, and another process of its host as it were. */
static void open_two(bool proxied)
{
    st.server = server_start(NULL);
    make_dir(st.server);
    st.probe = probe_open(st.server);
    if (proxied)
        st.proxy = proxy_start(st.server);
    st.client = client_open(stage_uri(&st), LOCAL());
    second = client_open(stage_uri(&st), LOCAL());
}

static void open_locks(handle_fn *make, bool proxied)
{
    open_two(proxied);
    lock = make(st.client, NAME, NULL);
    other = make(second, NAME, NULL);
}

static void close_two(void)
{
    if (lock != NULL)
        lock_over(st.probe, lock);
    rdl_lock_free(other);
    rdl_client_close(second);
}

static void go_away(void)
{
    probe_close(st.probe);
    st.probe = NULL;
    server_kill(st.server);
}

static void come_back(void)
{
    server_start_again(st.server);
    st.probe = probe_open(st.server);
}

static bool is_in(rdl_lock_t *which, rdl_hold_state_t state)
{
    return rdl_hold_state(which, NULL) == (int)state;
}

static void expect_state(rdl_lock_t *which, rdl_hold_state_t state)
{
    cr_assert(WAIT_UNTIL(is_in(which, state), RETURN_MS), "state %d, expected %d", rdl_hold_state(which, NULL), state);
}

/* ---- one outage -------------------------------------------------------------------------------------------------- */

Test(local, without_a_server_the_host_excludes_itself_and_the_server_gets_the_hold_when_it_is_back)
{
    struct losses news;
    int64_t began;

    open_locks(fenced, false);
    losses_init(&news);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &news, &err));
    began = now_ms();
    go_away();
    expect(RDL_OK, rdl_try_lock(lock, 20000, RDL_LEASE_AUTO, &err));
    expect_between(AFTER_MS - 1, now_ms() - began, AFTER_MS + SLACK_MS);
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_ECONN, rdl_token(lock, &err));
    cr_assert(losses_wait(&news, RDL_DEGRADED, 1, SOON_MS));
    cr_assert_eq(news.notes[0].reason, RDL_LOSS_OUTAGE);
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, RDL_LEASE_AUTO, &err));
    come_back();
    cr_assert(losses_wait(&news, RDL_HELD, 1, RETURN_MS));
    expect(RDL_HELD, rdl_hold_state(lock, &err));
    cr_assert_gt(rdl_token(lock, &err), 0, "%s", err.message);
    cr_assert_eq(lock_holds(st.probe, NAME), 1);
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 100, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(other, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_HELD, rdl_hold_state(other, &err));
    expect(RDL_OK, rdl_unlock(other, &err));
    cr_assert_eq(losses_count(&news, RDL_LOST), 0);
    close_two();
}

Test(local, what_is_unlocked_without_a_server_is_the_next_ones_on_the_host)
{
    struct caller *waiter = caller_new();

    open_locks(reentrant, false);
    go_away();
    expect(RDL_OK, rdl_try_lock(lock, 20000, RDL_LEASE_AUTO, &err));
    caller_try_lock(waiter, other, 20000, RDL_LEASE_AUTO);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err)); /* a re-entry asks nobody */
    expect(RDL_OK, rdl_extend(lock, LEASE_MS, &err));
    expect(2, rdl_hold_count(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    cr_assert_not(caller_idle(waiter));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    come_back();
    caller_unlock(waiter, other);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    close_two();
}

/* The connection is cut for this host alone; somebody else takes the lock meanwhile. */
Test(local, who_finds_the_lock_taken_at_the_server_is_told_that_it_is_lost)
{
    struct losses news;

    open_locks(reentrant, true);
    losses_init(&news);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &news, &err));
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    expect(RDL_OK, rdl_try_lock(lock, 20000, RDL_LEASE_AUTO, &err));
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    foreign_take(st.probe, NAME, 60000);
    proxy_refuse(st.proxy, false);
    cr_assert(losses_wait(&news, RDL_LOST, 1, RETURN_MS));
    cr_assert_eq(news.notes[news.count - 1].reason, RDL_LOSS_TAKEN);
    expect(RDL_ELOST, rdl_is_held(lock, &err));
    cr_assert_eq(lock_holds(st.probe, NAME), 1);
    foreign_release(st.probe, NAME);
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, RDL_LEASE_AUTO, &err)); /* no second one of this host beside it */
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(other, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_unlock(other, &err));
    close_two();
}

/* Take it while the server is away, where somebody has left a lease then. How many scripts have run there. */
static int64_t take_alone_beside_a_lease(struct losses *news)
{
    int64_t calls;

    open_locks(reentrant, true);
    losses_init(news);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, news, &err));
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    expect(RDL_OK, rdl_try_lock(lock, 20000, RDL_LEASE_AUTO, &err));
    calls = probe_calls(st.probe, "evalsha");
    foreign_take(st.probe, NAME, LEASE_MS - 500);
    return calls;
}

/* A process of the host that had it when the server went away has left its lease there: whoever died, or unlocked
 * without a server, may not end the next one's hold. */
Test(local, lease_that_nobody_renews_is_waited_for)
{
    struct losses news;
    int64_t calls, began;

    calls = take_alone_beside_a_lease(&news);
    began = now_ms();
    proxy_refuse(st.proxy, false);
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "evalsha") > calls + 1, RETURN_MS)); /* it was refused, and asks again */
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    cr_assert(losses_wait(&news, RDL_HELD, 1, RETURN_MS));
    cr_assert_geq(now_ms() - began, LEASE_MS - 600);
    cr_assert_eq(losses_count(&news, RDL_LOST), 0);
    close_two();
}

Test(local, who_is_refused_by_a_lease_that_is_renewed_has_lost_the_lock)
{
    struct losses news;
    int64_t calls;

    calls = take_alone_beside_a_lease(&news);
    proxy_refuse(st.proxy, false);
    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "evalsha") > calls, RETURN_MS));
    (void)probe_int(st.probe, "PEXPIRE " NAME " 2900");
    cr_assert(losses_wait(&news, RDL_LOST, 1, 2000)); /* and not when the first lease is over */
    cr_assert_eq(news.notes[news.count - 1].reason, RDL_LOSS_TAKEN);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    foreign_release(st.probe, NAME);
    close_two();
}

/* For every type that has it: held before the outage, through it, and after it, at a server that has forgotten it. */
Test(local, hold_whose_renewal_is_overdue_is_the_hosts_alone_and_not_lost)
{
    static handle_fn *const makes[] = {reentrant, nonreentrant, simple, spin, fenced};
    enum { TYPES = sizeof makes / sizeof *makes };
    rdl_lock_t *locks[TYPES], *others[TYPES];
    struct losses news;

    open_two(false);
    losses_init(&news);
    for (int i = 0; i < TYPES; i++) {
        char *name = must_format(NAME "%d", i);

        locks[i] = makes[i](st.client, name, NULL);
        others[i] = makes[i](second, name, NULL);
        free(name);
        expect(RDL_OK, rdl_on_lost(locks[i], losses_note, &news, &err));
        expect(RDL_OK, rdl_try_lock(locks[i], 0, RDL_LEASE_AUTO, &err));
        expect(RDL_HELD, rdl_hold_state(locks[i], &err));
    }
    go_away();
    for (int i = 0; i < TYPES; i++)
        cr_assert(WAIT_UNTIL(is_in(locks[i], RDL_DEGRADED), LEASE_MS + SLACK_MS));
    let_pass_ms(LEASE_MS); /* they would be over */
    for (int i = 0; i < TYPES; i++) {
        expect(1, rdl_is_held(locks[i], &err));
        expect(RDL_ETIMEDOUT, rdl_try_lock(others[i], 0, RDL_LEASE_AUTO, &err));
    }
    come_back();
    for (int i = 0; i < TYPES; i++) {
        expect_state(locks[i], RDL_HELD);
        expect(RDL_OK, rdl_unlock(locks[i], &err));
        expect(RDL_OK, rdl_try_lock(others[i], 0, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_unlock(others[i], &err));
    }
    cr_assert_eq(losses_count(&news, RDL_LOST), 0);
    for (int i = 0; i < TYPES; i++) {
        lock_over(st.probe, locks[i]);
        rdl_lock_free(others[i]);
    }
    close_two();
}

/* A thread that takes again what it has, from a server that is dead or hangs, waits until the host alone has it. */
Test(local, take_of_what_one_has_waits_for_no_server_when_the_host_alone_has_it)
{
    open_locks(reentrant, false);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    server_pause(st.server);
    expect(RDL_OK, rdl_lock(lock, RDL_LEASE_AUTO, &err)); /* the suite's time limit */
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    server_resume(st.server);
    expect_state(lock, RDL_HELD);
    go_away();
    expect(RDL_OK, rdl_lock(lock, RDL_LEASE_AUTO, &err));
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    come_back();
    expect_state(lock, RDL_HELD);
    for (int i = 0; i < 3; i++) {
        expect(RDL_HELD, rdl_hold_state(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert_eq(lock_holds(st.probe, NAME), 0);
    close_two();
}

/* The server has it all the while: the same number, so that it is not refused by itself. */
Test(local, hold_that_the_server_still_has_is_confirmed_there)
{
    struct losses news;

    open_locks(simple, true);
    losses_init(&news);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &news, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    (void)probe_int(st.probe, "PEXPIRE " NAME " 60000");
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    cr_assert(losses_wait(&news, RDL_DEGRADED, 1, LEASE_MS + SLACK_MS));
    proxy_refuse(st.proxy, false);
    cr_assert(losses_wait(&news, RDL_HELD, 1, RETURN_MS));
    cr_assert_eq(losses_count(&news, RDL_LOST), 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    close_two();
}

/* One that is unlocked meanwhile is freed there when the server can be reached. */
Test(local, hold_that_the_server_still_has_is_released_there_later)
{
    open_locks(reentrant, true);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    (void)probe_int(st.probe, "PEXPIRE " NAME " 60000");
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    cr_assert(WAIT_UNTIL(is_in(lock, RDL_DEGRADED), LEASE_MS + SLACK_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(lock_holds(st.probe, NAME), 1);
    proxy_refuse(st.proxy, false);
    cr_assert(WAIT_UNTIL(lock_holds(st.probe, NAME) == 0, RETURN_MS));
    close_two();
}

Test(local, silent_server_is_none)
{
    int64_t began;

    open_locks(reentrant, false);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err)); /* connected */
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_pause(st.server);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    let_pass_ms(500); /* it has been asked to have it, and does not answer */
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, RDL_LEASE_AUTO, &err));
    server_resume(st.server);
    expect_state(lock, RDL_HELD);
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_pause(st.server);
    expect(RDL_OK, rdl_try_lock(other, 20000, RDL_LEASE_AUTO, &err));
    let_pass_ms(500);
    began = now_ms();
    expect(RDL_OK, rdl_unlock(other, &err)); /* at once, whatever was asked of the server meanwhile */
    expect_between(0, now_ms() - began, 1500);
    server_resume(st.server);
    cr_assert(WAIT_UNTIL(lock_holds(st.probe, NAME) == 0, RETURN_MS));
    close_two();
}

/* The server has said that somebody has it for a second: that is believed for as long. */
Test(local, holder_whom_the_server_has_named_is_believed_until_its_lease_is_over)
{
    struct caller *waiter = caller_new();
    int64_t began, scripts;

    open_locks(reentrant, true);
    foreign_take(st.probe, NAME, 2500);
    began = now_ms();
    scripts = probe_calls(st.probe, "evalsha");
    caller_try_lock(waiter, lock, 20000, RDL_LEASE_AUTO);
    expect_asleep(scripts, 2, 1);
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    expect_result(RDL_OK, waiter, 20000);
    cr_assert_geq(now_ms() - began, 2400);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    proxy_refuse(st.proxy, false);
    caller_free(waiter);
    cr_assert(stage_lines_end(&st), "the server is not told that the client waits no more");
    close_two();
}

/* So is what it says later, to one of three in line, who are told to look sooner than at the end of the lease. */
Test(local, holder_whose_lease_the_server_has_named_to_one_in_line_is_believed)
{
    struct caller *waiter = caller_new();
    char *line = channel_of(NAME);
    int64_t began, scripts;

    open_locks(reentrant, true);
    (void)probe_ask(st.probe, "HSET %s -1 gone1 gone1 -1 -2 gone2 gone2 -2 head -2 tail 0 count 2", line);
    (void)probe_ask(st.probe, "HSET " NAME " 00000000-0000-4000-8000-000000000000:1000000000000001 1");
    scripts = probe_calls(st.probe, "evalsha");
    caller_try_lock(waiter, lock, 20000, RDL_LEASE_AUTO);
    expect_asleep(scripts, 2, 1); /* nobody knows for how long */
    (void)probe_ask(st.probe, "PEXPIRE " NAME " 2500");
    began = now_ms();
    expect_asleep(scripts, probe_calls(st.probe, "evalsha") - scripts + 1, 1); /* it has looked meanwhile */
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    expect_result(RDL_OK, waiter, 20000);
    cr_assert_geq(now_ms() - began, 2400);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    proxy_refuse(st.proxy, false);
    caller_free(waiter);
    (void)probe_int(st.probe, "DEL %s", line);
    free(line);
    close_two();
}

/* However long somebody else has it, while the server says so. */
Test(local, server_that_is_there_is_believed_for_longer_than_an_outage_lasts)
{
    struct caller *waiter = caller_new();
    int64_t scripts;

    open_locks(reentrant, true);
    scripts = probe_calls(st.probe, "evalsha");
    foreign_take(st.probe, NAME, 0); /* nobody knows for how long */
    caller_try_lock(waiter, lock, 4 * AFTER_MS, RDL_LEASE_AUTO);
    expect_asleep(scripts, 2, 1);
    expect_result(RDL_ETIMEDOUT, waiter, SOON_MS);
    caller_try_lock(waiter, lock, 4 * AFTER_MS, RDL_LEASE_AUTO);
    let_pass_ms(3 * AFTER_MS);
    proxy_cut(st.proxy, PROXY_ALL); /* not for long enough */
    cr_assert_neq(caller_result(waiter, SOON_MS), RDL_OK);
    foreign_release(st.probe, NAME);
    caller_free(waiter);
    close_two();
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

Test(local, explicit_lease_ends_on_the_host_as_well)
{
    open_locks(reentrant, false);
    go_away();
    expect(RDL_OK, rdl_try_lock(lock, 20000, 2000, &err));
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    cr_assert(WAIT_UNTIL(is_in(lock, RDL_LOST), 2000 + SLACK_MS));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    come_back();
    close_two();
}

Test(local, wait_for_one_of_the_host_ends_in_time_and_when_it_is_canceled)
{
    struct outcome canceled = {0};
    rdl_op_t *op;
    int64_t began;

    open_locks(reentrant, false);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    began = now_ms();
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 500, RDL_LEASE_AUTO, &err));
    expect_between(499, now_ms() - began, 500 + SLACK_MS);
    expect(RDL_OK, rdl_lock_async(other, NULL, RDL_LEASE_AUTO, outcome_note, &canceled, &op, &err));
    rdl_op_cancel(op);
    cr_assert_eq(outcome_wait(&canceled, SOON_MS), RDL_ECANCELED);
    rdl_op_free(op);
    expect(RDL_OK, rdl_unlock(lock, &err));
    close_two();
}

static int64_t take_it(void *which, rdl_err_t *error)
{
    return rdl_try_lock(which, 20000, RDL_LEASE_AUTO, error);
}

/* Freed while the server is asked to have it, and does not answer. */
Test(local, handle_that_is_freed_frees_the_host)
{
    open_locks(reentrant, false);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err)); /* connected */
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_pause(st.server);
    expect(RDL_OK, rdl_try_lock(lock, 20000, RDL_LEASE_AUTO, &err));
    let_pass_ms(500);
    lock = rdl_lock_free(lock);
    expect(RDL_OK, rdl_try_lock(other, 20000, RDL_LEASE_AUTO, &err));
    server_resume(st.server);
    expect(RDL_OK, rdl_unlock(other, &err));
    close_two();
}

Test(local, thread_that_ends_frees_the_host)
{
    struct caller *holder = caller_new();
    struct losses news;

    open_locks(reentrant, false);
    losses_init(&news);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &news, &err));
    go_away();
    caller_call(holder, take_it, lock);
    expect_result(RDL_OK, holder, SOON_MS);
    caller_free(holder);
    cr_assert(losses_wait(&news, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(news.notes[news.count - 1].reason, RDL_LOSS_THREAD_EXIT);
    expect(RDL_OK, rdl_try_lock(other, 20000, RDL_LEASE_AUTO, &err));
    come_back();
    expect(RDL_OK, rdl_unlock(other, &err));
    close_two();
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void expect_open(int expected, const char *path, const char *word)
{
    rdl_client_t *client = NULL;

    expect(expected,
           rdl_client_open(stage_uri(&st), OPTIONS(.on_outage = RDL_OUTAGE_LOCAL, .local_dir = path), &client, &err));
    cr_assert(expected == RDL_OK || strstr(err.message, word) != NULL, "%s", err.message);
    rdl_client_close(client);
}

Test(local, directory_that_others_could_meddle_with_is_refused)
{
    char *below, *linked, *slashed;

    stage_open(&st);
    make_dir(st.server);
    below = must_format("%s/no/such", dir);
    linked = must_format("%s/link", server_dir(st.server));
    slashed = must_format("%s//", linked);
    expect_open(RDL_EINVAL, NULL, "local_dir");
    expect_open(RDL_EINVAL, below, "cannot be made");
    cr_assert_eq(symlink(server_dir(st.server), linked), 0);
    expect_open(RDL_EINVAL, linked, "cannot be used");
    expect_open(RDL_EINVAL, slashed, "cannot be used");
    cr_assert_eq(mkdir(dir, 0700), 0);
    cr_assert_eq(chmod(dir, 01777), 0);
    expect_open(RDL_EINVAL, dir, "everybody");
    if (geteuid() == 0) {
        cr_assert_eq(chmod(dir, 0700), 0);
        cr_assert_eq(chown(dir, 4711, 4711), 0);
        expect_open(RDL_EINVAL, dir, "another user");
        cr_assert_eq(chown(dir, 0, 0), 0);
    }
    cr_assert_eq(chmod(dir, 02770), 0);
    expect_open(RDL_OK, dir, "");
    free(below);
    free(linked);
    free(slashed);
}

Test(local, file_that_cannot_be_used_is_an_error_and_nothing_is_sent)
{
    char *file;
    int64_t scripts;

    open_locks(reentrant, false);
    file = must_format("%s/" NAME ".lock", dir);
    scripts = probe_calls(st.probe, "evalsha");
    cr_assert_eq(symlink("/dev/null", file), 0);
    expect(RDL_EHOST, rdl_try_lock(lock, 100, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, strerror(ELOOP)), "it does not say why: %s", err.message);
    cr_assert_eq(probe_calls(st.probe, "evalsha"), scripts);
    cr_assert_eq(unlink(file), 0);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    free(file);
    close_two();
}

Test(local, locks_that_cannot_have_it_say_so)
{
    rdl_lock_t *members[2];

    open_two(false);
    expect(RDL_EINVAL, rdl_fair_lock(st.client, NAME, NULL, &lock, &err));
    cr_assert_not_null(strstr(err.message, "fair lock"), "%s", err.message);
    expect(RDL_EINVAL, rdl_read_lock(st.client, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_write_lock(st.client, NAME, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.replicas = 1), &lock, &err));
    cr_assert_not_null(strstr(err.message, "replicas"), "%s", err.message);
    lock = fair(st.client, NAME, LOCK_OPTIONS(.on_outage = RDL_OUTAGE_WAIT));
    lock = rdl_lock_free(lock);
    members[0] = reentrant(st.client, "a", NULL);
    members[1] = reentrant(st.client, "b", NULL);
    expect(RDL_EINVAL, rdl_multi_lock(members, 2, NULL, &lock, &err));
    cr_assert_not_null(strstr(err.message, "member 0"), "%s", err.message);
    rdl_lock_free(members[0]);
    rdl_lock_free(members[1]);
    close_two();
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

struct shared {
    atomic_int inside;
    atomic_int violations;
    atomic_int lost;     /* holders that were told */
    atomic_int degraded; /* holds that were */
    atomic_int rounds;
    atomic_int stop;
    atomic_int holding; /* the pid of a child that waits to be killed */
};

static struct shared *shared;

static void share(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(shared, MAP_FAILED);
}

static pid_t start_holder(void)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    lock = reentrant(client_open(server_uri(st.server), LOCAL()), NAME, NULL);
    if (rdl_try_lock(lock, 20000, RDL_LEASE_AUTO, NULL) != RDL_OK)
        _exit(1);
    atomic_store(&shared->degraded, rdl_hold_state(lock, NULL) == RDL_DEGRADED);
    atomic_store(&shared->holding, getpid());
    for (;;)
        pause();
}

/* Whatever the server does meanwhile: killed before, while and after it is away. */
Test(local, process_that_is_killed_frees_the_host_at_once)
{
    int status;

    share();
    st.server = server_start(NULL);
    make_dir(st.server);
    server_kill(st.server);
    st.client = client_open(server_uri(st.server), LOCAL());
    lock = reentrant(st.client, NAME, NULL);
    for (int back = 0; back < 2; back++) {
        pid_t child;

        atomic_store(&shared->holding, 0);
        child = start_holder();
        cr_assert(WAIT_UNTIL(atomic_load(&shared->holding) == child, 2 * SOON_MS));
        cr_assert_eq(atomic_load(&shared->degraded), 1);
        expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        if (back) {
            server_start_again(st.server);
            st.probe = probe_open(st.server);
            cr_assert(WAIT_UNTIL(lock_holds(st.probe, NAME) == 1, RETURN_MS)); /* it is held there now */
            expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        }
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        expect(RDL_OK, rdl_try_lock(lock, LEASE_MS + SOON_MS, RDL_LEASE_AUTO, &err));
        expect(back ? RDL_HELD : RDL_DEGRADED, rdl_hold_state(lock, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    rdl_lock_free(lock);
}

static void one_round(unsigned *seed)
{
    bool degraded;

    if (rdl_try_lock(lock, 10000, RDL_LEASE_AUTO, NULL) != RDL_OK)
        return;
    if (atomic_fetch_add(&shared->inside, 1) != 0)
        atomic_fetch_add(&shared->violations, 1);
    degraded = rdl_hold_state(lock, NULL) == RDL_DEGRADED;
    let_pass_ms(rand_r(seed) % 8 == 0 ? 300 : 3);
    atomic_fetch_sub(&shared->inside, 1);
    if (degraded || rdl_hold_state(lock, NULL) == RDL_DEGRADED)
        atomic_fetch_add(&shared->degraded, 1);
    if (rdl_unlock(lock, NULL) == RDL_ELOST)
        atomic_fetch_add(&shared->lost, 1);
    atomic_fetch_add(&shared->rounds, 1);
}

static pid_t start_worker(unsigned seed)
{
    pid_t child = fork();
    rdl_client_t *client;

    if (child != 0)
        return child;
    client = client_open(server_uri(st.server), LOCAL());
    lock = reentrant(client, NAME, NULL);
    while (!atomic_load(&shared->stop))
        one_round(&seed);
    rdl_lock_free(lock);
    rdl_client_close(client);
    _exit(0);
}

static bool goes_on(int rounds)
{
    int had = atomic_load(&shared->rounds);

    return WAIT_UNTIL(atomic_load(&shared->rounds) >= had + rounds, 20000);
}

/* Processes of one host race for the lock while the server is killed, comes back empty, hangs and goes on: never two at
 * once. */
Test(local, processes_of_the_host_never_overlap_through_outages_and_returns, .timeout = 120)
{
    enum { WORKERS = 4, OUTAGES = 4 };
    pid_t worker[WORKERS];
    int status;

    share();
    st.server = server_start(NULL);
    make_dir(st.server);
    for (unsigned i = 0; i < WORKERS; i++)
        worker[i] = start_worker(i + 1);
    for (int i = 0; i < OUTAGES; i++) {
        int degraded = atomic_load(&shared->degraded);

        cr_assert(goes_on(10), "stuck before outage %d", i);
        if (i % 2 == 0)
            server_kill(st.server);
        else
            server_pause(st.server);
        cr_assert(WAIT_UNTIL(atomic_load(&shared->degraded) > degraded + 3, 20000), "not degraded in outage %d", i);
        cr_assert(goes_on(5), "stuck in outage %d", i);
        if (i % 2 == 0)
            server_start_again(st.server);
        else
            server_resume(st.server);
    }
    cr_assert(goes_on(10), "stuck at the end");
    atomic_store(&shared->stop, 1);
    for (int i = 0; i < WORKERS; i++) {
        cr_assert_eq(waitpid(worker[i], &status, 0), worker[i]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    }
    cr_assert_eq(atomic_load(&shared->violations), 0, "%d overlaps", atomic_load(&shared->violations));
}
