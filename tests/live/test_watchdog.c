/* SPDX-License-Identifier: MIT */
/* test_watchdog.c - holds without a lease of their own are renewed as long as they are held and not a moment longer; a
 * hold that cannot be kept is reported before anybody else can have the lock. */
#include "tests/live/live.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "ledger"
#define LEASE_MS 3600 /* of the watchdog in most tests: survives that the machine stands still for a second */
#define PERIOD_MS (LEASE_MS / 3)
#define KINDS_MAX 16

static struct losses losses;

static void set_up(void)
{
    losses_init(&losses);
    left_behind = false;
    cr_assert_leq(kind_count, KINDS_MAX);
}

TestSuite(watchdog, .init = set_up, .fini = live_fini, .timeout = 120);

/* A held lock, renewed, whose losses are noted. */
static rdl_lock_t *take(const char *name, int64_t lease_ms)
{
    rdl_lock_t *lock = reentrant(st.client, name, NULL);

    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, lease_ms, &err));
    return lock;
}

Test(watchdog, renews_a_hold_without_a_lease_until_it_is_unlocked)
{
    rdl_lock_t *lock;
    int64_t end;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = take(NAME, RDL_LEASE_AUTO);
    for (end = now_ms() + 2 * LEASE_MS; now_ms() < end; let_pass_ms(10))
        expect_between(LEASE_MS / 6, probe_int(st.probe, "PTTL " NAME), LEASE_MS);
    expect(RDL_HELD, rdl_hold_state(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST) + losses_count(&losses, RDL_AT_RISK), 0);
    rdl_lock_free(lock);
}

Test(watchdog, does_not_renew_a_hold_with_a_lease_and_reports_its_end)
{
    rdl_lock_t *lock;
    const struct loss_note *note;
    int64_t start;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    start = now_us();
    lock = take(NAME, 500);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    note = losses_get(&losses, RDL_LOST);
    cr_assert_leq(note->at_us - start, (500 + SLACK_MS) * 1000);
    cr_assert_eq(note->reason, RDL_LOSS_LEASE);
    cr_assert_eq(note->lock, lock);
    cr_assert_eq(strncmp(note->owner, rdl_client_id(st.client), 36), 0);
    cr_assert_eq(note->remaining_ms, 0);
    expect(RDL_ELOST, rdl_is_held(lock, &err));
    expect(RDL_ELOST, rdl_hold_count(lock, &err));
    expect(RDL_ELOST, rdl_remaining_ms(lock, &err));
    expect(RDL_ELOST, rdl_extend(lock, 1000, &err));
    expect(RDL_LOST, rdl_hold_state(lock, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect(RDL_NOT_HELD, rdl_hold_state(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    rdl_lock_free(lock);
}

/* A nested hold without a lease makes the whole be renewed; when it is unlocked, what was promised still counts. */
Test(watchdog, renews_while_any_of_the_nested_holds_has_no_lease)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = take(NAME, LEASE_MS);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(2 * LEASE_MS);
    expect(2, rdl_hold_count(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    rdl_lock_free(lock);
}

/* W3 */
Test(watchdog, flushed_hold_is_reported_within_a_renewal_period_and_the_handle_goes_on)
{
    enum { WATCHED_MS = 3000 };
    rdl_lock_t *lock;
    int64_t start;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    lock = take(NAME, RDL_LEASE_AUTO);
    start = now_us();
    (void)probe_text(st.probe, "FLUSHALL");
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_GONE);
    cr_assert_leq(losses_get(&losses, RDL_LOST)->at_us - start, (WATCHED_MS / 3 + SLACK_MS) * 1000);
    expect(RDL_ELOST, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(WATCHED_MS + 200);
    expect(1, rdl_is_held(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    rdl_lock_free(lock);
}

/* W4: from a renewal on, two thirds of the lease are a third less than what is left. */
Test(watchdog, pause_of_two_thirds_of_a_lease_loses_nothing)
{
    enum { LEASE = 6000 };
    rdl_lock_t *lock;
    int renewal;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LEASE));
    lock = take(NAME, RDL_LEASE_AUTO);
    renewal = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    cr_assert(proxy_wait(st.proxy, renewal, 1, LEASE));
    server_pause(st.server);
    let_pass_ms(LEASE * 2 / 3);
    server_resume(st.server);
    let_pass_ms(LEASE / 2); /* more than what is left of it */
    expect(1, rdl_is_held(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 1);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    expect(RDL_HELD, rdl_hold_state(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* W4 */
Test(watchdog, pause_of_one_and_a_half_leases_is_reported_before_another_client_has_the_lock)
{
    struct caller *rival = caller_new();
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;
    const struct loss_note *note;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    other = client_open(stage_uri(&st), NULL);
    lock = take(NAME, RDL_LEASE_AUTO);
    elsewhere = reentrant(other, NAME, NULL);
    caller_try_lock(rival, elsewhere, 15000, 10000);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    server_pause(st.server);
    let_pass_ms(LEASE_MS * 3 / 2);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS)); /* by the local deadline: nobody could have told us */
    server_resume(st.server);
    expect_result(RDL_OK, rival, SOON_MS);
    note = losses_get(&losses, RDL_LOST);
    cr_assert_eq(note->reason, RDL_LOSS_LEASE);
    cr_assert_lt(note->at_us, caller_ended_us(rival));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    caller_unlock(rival, elsewhere);
    expect_result(RDL_OK, rival, SOON_MS);
    caller_free(rival);
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
}

/* W4, sharper: the server is well, only the holder is cut off, and a rival waits for the very end of the lease. The
 * holder's deadline is a hundredth earlier: its thread may be late by as much. */
Test(watchdog, holder_that_is_cut_off_knows_of_its_loss_before_the_rival_has_the_lock)
{
    enum { LEASE = 10000 };
    struct caller *rival = caller_new();
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;
    const struct loss_note *note;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LEASE));
    other = client_open(server_uri(st.server), NULL);
    lock = take(NAME, RDL_LEASE_AUTO);
    elsewhere = reentrant(other, NAME, NULL);
    caller_try_lock(rival, elsewhere, 3 * LEASE, 3 * LEASE);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    proxy_freeze(st.proxy, PROXY_BOTH_WAYS);
    expect_result(RDL_OK, rival, 2 * LEASE + SOON_MS);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    note = losses_get(&losses, RDL_LOST);
    cr_assert_lt(note->at_us, caller_ended_us(rival));
    proxy_thaw(st.proxy, PROXY_BOTH_WAYS);
    let_pass_ms(400);
    expect(RDL_ELOST, rdl_is_held(lock, &err)); /* late replies revive nothing */
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 1); /* the rival's */
    caller_unlock(rival, elsewhere);
    expect_result(RDL_OK, rival, SOON_MS);
    caller_free(rival);
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
}

Test(watchdog, overdue_renewals_put_a_hold_at_risk_and_a_renewal_brings_it_back)
{
    enum { LEASE = 6000 };
    rdl_lock_t *lock;
    const struct loss_note *note;

    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LEASE));
    lock = take(NAME, RDL_LEASE_AUTO);
    proxy_freeze(st.proxy, PROXY_TO_SERVER);
    cr_assert(losses_wait(&losses, RDL_AT_RISK, 1, LEASE));
    note = losses_get(&losses, RDL_AT_RISK);
    cr_assert_eq(note->reason, RDL_LOSS_RENEWAL);
    expect_between(1, note->remaining_ms, LEASE * 2 / 3);
    expect(RDL_AT_RISK, rdl_hold_state(lock, &err));
    expect(1, rdl_is_held(lock, &err));
    proxy_thaw(st.proxy, PROXY_TO_SERVER);
    cr_assert(WAIT_UNTIL(rdl_hold_state(lock, &err) == RDL_HELD, LEASE));
    let_pass_ms(LEASE / 2);
    expect(1, rdl_is_held(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(watchdog, loss_is_reported_once_to_every_handle_and_not_to_one_taken_off)
{
    struct losses more, none;
    rdl_lock_t *lock, *same, *third;

    losses_init(&more);
    losses_init(&none);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = take(NAME, RDL_LEASE_AUTO);
    same = reentrant(st.client, NAME, NULL);
    third = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(same, losses_note, &more, &err));
    expect(RDL_OK, rdl_on_lost(third, losses_note, &none, &err));
    expect(RDL_OK, rdl_on_lost(third, NULL, NULL, &err));
    (void)probe_int(st.probe, "DEL " NAME);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert(losses_wait(&more, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(losses_get(&more, RDL_LOST)->lock, same);
    let_pass_ms(LEASE_MS);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    cr_assert_eq(losses_count(&more, RDL_LOST), 1);
    cr_assert_eq(losses_count(&none, RDL_LOST), 0);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(same);
    rdl_lock_free(third);
}

Test(watchdog, loss_of_a_fenced_hold_names_its_token)
{
    rdl_lock_t *lock;
    int64_t token;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME));
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    token = rdl_token(lock, &err);
    (void)probe_int(st.probe, "DEL " NAME);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->token, token);
    expect(RDL_ELOST, rdl_token(lock, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect(RDL_ENOTOWNER, rdl_token(lock, &err));
    rdl_lock_free(lock);
}

/* T7 */
Test(watchdog, lease_shortened_from_outside_is_restored_by_the_next_renewal)
{
    enum { LEASE = 9000, SHORTER = LEASE * 2 / 3 };
    rdl_lock_t *lock[KINDS_MAX];

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE));
    FOR_EACH_KIND(kind)
    {
        lock[kind - kinds] = kind->make(st.client, kind_name(kind), NULL);
        expect(RDL_OK, rdl_try_lock(lock[kind - kinds], 0, RDL_LEASE_AUTO, &err));
        cr_assert_eq(probe_int(st.probe, "PEXPIRE %s %d", kind_name(kind), SHORTER), 1);
    }
    FOR_EACH_KIND(kind)
    {
        cr_assert(WAIT_UNTIL(probe_int(st.probe, "PTTL %s", kind_name(kind)) > SHORTER, LEASE), "%s", kind->type);
        expect(1, rdl_is_held(lock[kind - kinds], &err));
        cr_assert_eq(probe_int(st.probe, "PERSIST %s", kind_name(kind)), 1); /* and one that was taken away as well */
    }
    FOR_EACH_KIND(kind)
    {
        cr_assert(WAIT_UNTIL(probe_int(st.probe, "PTTL %s", kind_name(kind)) > 0, LEASE), "%s", kind->type);
        expect(RDL_OK, rdl_unlock(lock[kind - kinds], &err));
        lock_over(st.probe, lock[kind - kinds]);
    }
}

/* Q3: on two connections a renewal sent before an extend may arrive after it. Composites ask on the connection that
 * renews. */
Test(watchdog, renewal_that_overtakes_an_extend_does_not_shorten_it)
{
    stage_open(&st, .proxied = true, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int renewal;

        expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
        renewal = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
        cr_assert(proxy_wait(st.proxy, renewal, 1, LEASE_MS), "%s", kind->type);
        expect(RDL_OK, rdl_extend(lock, 20000, &err));
        expect_between(10000, probe_int(st.probe, "PTTL " NAME), 20000);
        proxy_let_go(st.proxy, renewal);
        let_pass_ms(200);
        expect_between(10000, probe_int(st.probe, "PTTL " NAME), 20000);
        expect_between(10000, rdl_remaining_ms(lock, &err), 20000);
        expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
}

/* A5 */
Test(watchdog, last_unlock_and_first_lock_at_once_leave_the_new_hold_renewed)
{
    struct caller *one = caller_new(), *two[KINDS_MAX];
    rdl_client_t *client[KINDS_MAX]; /* each with one hold at a time */
    rdl_lock_t *second[KINDS_MAX];

    stage_open(&st);
    FOR_EACH_KIND(kind)
    {
        size_t i = (size_t)(kind - kinds);
        rdl_lock_t *first;

        client[i] = client_open(stage_uri(&st), OPTIONS(.watchdog_lease_ms = LEASE_MS));
        first = kind->make(client[i], "first", NULL);
        second[i] = kind->make(client[i], kind_name(kind), NULL);
        two[i] = caller_new();
        caller_try_lock(one, first, 0, RDL_LEASE_AUTO);
        expect_result(RDL_OK, one, SOON_MS);
        let_pass_ms((kind - kinds) * PERIOD_MS / 6); /* anywhere between two renewals */
        caller_unlock(one, first);
        caller_try_lock(two[i], second[i], 0, RDL_LEASE_AUTO);
        expect_result(RDL_OK, one, SOON_MS);
        expect_result(RDL_OK, two[i], SOON_MS);
        lock_over(st.probe, first);
    }
    let_pass_ms(LEASE_MS * 3 / 2);
    FOR_EACH_KIND(kind)
    {
        size_t i = (size_t)(kind - kinds);

        cr_assert_eq(probe_int(st.probe, "EXISTS %s", kind_name(kind)), 1, "%s", kind->type);
        caller_unlock(two[i], second[i]);
        expect_result(RDL_OK, two[i], SOON_MS);
        caller_free(two[i]);
        lock_over(st.probe, second[i]);
        rdl_client_close(client[i]);
    }
    caller_free(one);
}

/* W9: the release is sent, and stuck on its way. From then on nothing may renew, so that it may come too late. */
Test(watchdog, nothing_is_renewed_once_the_release_is_sent)
{
    struct caller *holder = caller_new();

    stage_open(&st, .proxied = true,
               .client = OPTIONS(.watchdog_lease_ms = LEASE_MS, .command_timeout_ms = 4 * LEASE_MS));
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int release, renewals;
        int64_t rc;

        caller_try_lock(holder, lock, SOON_MS, RDL_LEASE_AUTO);
        expect_result(RDL_OK, holder, SOON_MS);
        let_pass_ms((kind - kinds) * 10); /* not in step with the renewals, and long before the first */
        release = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME,
                           .nth = (unsigned)kind->members); /* the last of those that go */
        caller_unlock(holder, lock);
        cr_assert(proxy_wait(st.proxy, release, 1, SOON_MS), "%s", kind->type);
        renewals = proxy_on(st.proxy, .action = PROXY_WATCH, .command = "EVALSHA", .contains = NAME, .every = true);
        let_pass_ms(2 * PERIOD_MS);
        cr_assert_eq(proxy_acted(st.proxy, renewals), 0, "%s", kind->type);
        proxy_let_go(st.proxy, release);
        rc = caller_result(holder, SOON_MS);
        cr_assert(rc == RDL_OK || rc == RDL_ELOST, "%s: %s", kind->type, caller_error(holder)->message);
        proxy_let_go(st.proxy, renewals);
        lock_over(st.probe, lock);
    }
    caller_free(holder);
}

/* W9: of reentrant locks, and a tenth of that of the others. */
Test(watchdog, ten_thousand_rounds_leave_no_renewal_behind)
{
    enum { ROUNDS = 10000 };
    struct monitor *monitor;
    size_t mark;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int rounds = kind == kinds ? ROUNDS : ROUNDS / 10;

        for (int i = 0; i < rounds; i++) {
            expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
        lock_over(st.probe, lock);
    }
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    let_pass_ms(LEASE_MS);
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, "EVALSHA"), 0);
    monitor_stop(monitor);
}

/* ---- a process that is stopped ---------------------------------------------------------------------------------- */

/* What the child says of itself, in this order: when it holds; then what it found when it ran again. */
struct report {
    int64_t held;     /* rdl_is_held, the first thing it asks */
    int64_t unlocked; /* rdl_unlock */
    unsigned losses;  /* callbacks */
    int64_t loss_reason;
};

/* Each member's loss is told of. */
static unsigned losses_of(const struct kind *kind)
{
    return kind->members > 0 ? (unsigned)kind->members : 1;
}

/* The main flow of a process that holds a lock, is stopped without knowing, and runs again when it is told. */
static void hold_and_report(const struct kind *kind, int go, int say)
{
    rdl_client_t *client = client_open(server_uri(st.server), OPTIONS(.watchdog_lease_ms = LEASE_MS));
    rdl_lock_t *lock = kind->make(client, kind_name(kind), NULL);
    struct report report = {0};
    char byte = 'h';

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not left behind, stopped, if the test fails */
    (void)rdl_on_lost(lock, losses_note, &losses, NULL);
    if (rdl_try_lock(lock, 0, RDL_LEASE_AUTO, NULL) != RDL_OK || write(say, &byte, 1) != 1 || read(go, &byte, 1) != 1)
        _exit(1);
    report.held = rdl_is_held(lock, NULL);
    (void)losses_wait(&losses, RDL_LOST, losses_of(kind), SOON_MS);
    report.losses = losses_count(&losses, RDL_LOST);
    report.loss_reason = report.losses > 0 ? (int64_t)losses_get(&losses, RDL_LOST)->reason : 0;
    report.unlocked = rdl_unlock(lock, NULL);
    if (write(say, &report, sizeof report) != sizeof report)
        _exit(1);
    rdl_lock_free(lock);
    rdl_client_close(client);
    _exit(0);
}

struct stopped {
    int go[2], say[2];
    pid_t child;
};

static void stop_one(struct stopped *s, const struct kind *kind)
{
    char byte;

    cr_assert_eq(pipe(s->go), 0);
    cr_assert_eq(pipe(s->say), 0);
    if ((s->child = fork()) == 0)
        hold_and_report(kind, s->go[0], s->say[1]);
    (void)close(s->go[0]);
    (void)close(s->say[1]); /* so that its end is heard of */
    cr_assert_eq(read(s->say[0], &byte, 1), 1);
    cr_assert_eq(lock_holds(st.probe, kind_name(kind)), 1, "%s", kind->type);
    kill(s->child, SIGSTOP);
}

static void check_stopped(struct stopped *s, const struct kind *kind)
{
    struct report report;
    int status;

    cr_assert_eq(lock_holds(st.probe, kind_name(kind)), 0, "%s", kind->type);
    cr_assert_eq(write(s->go[1], "g", 1), 1); /* it finds this when it runs again */
    kill(s->child, SIGCONT);
    cr_assert_eq(read(s->say[0], &report, sizeof report), sizeof report);
    cr_assert_eq(report.held, RDL_ELOST, "%s", kind->type);
    cr_assert_eq(report.losses, losses_of(kind), "%s", kind->type);
    cr_assert_eq(report.unlocked, RDL_ELOST, "%s", kind->type);
    cr_assert_eq(waitpid(s->child, &status, 0), s->child);
    cr_assert_eq(status, 0);
    (void)close(s->go[1]);
    (void)close(s->say[0]);
}

/* W7 */
Test(watchdog, process_stopped_for_one_and_a_half_leases_hears_of_its_loss_first_thing)
{
    struct stopped stopped[KINDS_MAX];

    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    FOR_EACH_KIND(kind)
    stop_one(&stopped[kind - kinds], kind);
    let_pass_ms(LEASE_MS * 3 / 2);
    FOR_EACH_KIND(kind)
    check_stopped(&stopped[kind - kinds], kind);
}
