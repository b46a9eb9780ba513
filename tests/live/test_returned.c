/* SPDX-License-Identifier: MIT */
/* test_returned.c - what a call that has returned leaves behind, and what its answer is worth at that moment, for every
 * type.
 *
 * The requests that undo a call are held back here, by the proxy: whatever comes next has to do with what they have not
 * removed yet. Semaphores and latches are in test_pools. */
#include "tests/live/live.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define NAME "overtime"
#define AS_A_WORD "$8\r\n" NAME "\r\n" /* and nothing that begins with it */
#define LEASE_MS 20000
#define WAIT_MS 3000 /* until who waits gives up: a machine that stands still meanwhile is no matter */
#define KINDS_MAX 16

LIVE_SUITE(returned, 120);

static rdl_client_t *other; /* straight to the server */

/* What a test has of each type, where all of them take their time together. */
struct each {
    const struct kind *kind;
    char *name;
    rdl_client_t *client; /* its own; NULL: st.client */
    rdl_lock_t *lock, *rival;
    struct caller *caller;
    pthread_t thread; /* the caller's */
    struct losses losses;
    struct outcome outcome;
    int reply, undo; /* rules */
};

static struct each all[KINDS_MAX];
static size_t count;

static struct each *add(const struct kind *kind, bool own_client)
{
    struct each *e = &all[count++];

    cr_assert_leq(count, KINDS_MAX);
    e->kind = kind;
    e->name = must_format(NAME "-%s", kind->type);
    e->client = own_client ? client_open(stage_uri(&st), NULL) : NULL;
    e->lock = kind->make(own_client ? e->client : st.client, e->name, NULL);
    e->rival = kind->rival(other, e->name, NULL);
    e->caller = caller_new();
    return e;
}

static void drop_all(void)
{
    for (struct each *e = all; e < all + count; e++) {
        caller_free(e->caller);
        rdl_lock_free(e->rival);
        if (left_behind)
            rdl_lock_free(e->lock);
        else
            lock_over(st.probe, e->lock);
        rdl_client_close(e->client);
        free(e->name);
    }
    count = 0;
    rdl_client_close(other);
}

static void open_proxied(const rdl_client_options_t *options)
{
    stage_open(&st, .proxied = true, .client = options);
    other = client_open(server_uri(st.server), NULL);
}

/* An undo brings its script's text along. */
static int hold_next_undo_of(const char *name)
{
    return proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVAL", .contains = name);
}

static int hold_next_undo(void)
{
    return hold_next_undo_of(AS_A_WORD);
}

/* ---- N10: a verb that has returned is over ---------------------------------------------------------------------- */

/* Its next sign of life is further away than the end of its wait. */
static const rdl_lock_options_t long_life = {.version = RDL_LOCK_OPTIONS_VERSION, .waiter_life_ms = 10 * WAIT_MS};

/* The caller's next try, while the rule holds an undo back, which goes on once the try has been sent or answered. */
static void expect_next_try(struct caller *a, rdl_lock_t *lock, int undo)
{
    uint64_t before = proxy_requests(st.proxy);

    caller_try_lock(a, lock, 0, LEASE_MS);
    (void)WAIT_UNTIL(proxy_requests(st.proxy) > before || caller_idle(a), 300);
    proxy_let_go(st.proxy, undo);
    expect_result(RDL_OK, a, SOON_MS);
    caller_unlock(a, lock);
    expect_result(RDL_OK, a, SOON_MS);
}

Test(returned, N10_place_in_the_queue_that_is_given_up_is_not_in_the_owners_way)
{
    struct caller *a = caller_new();
    rdl_lock_t *lock, *rival;
    int64_t calls;
    int undo;

    open_proxied(NULL);
    lock = fair(st.client, NAME, &long_life);
    rival = fair(other, NAME, &long_life);
    expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
    calls = probe_calls(st.probe, "evalsha");
    caller_try_lock(a, lock, WAIT_MS, LEASE_MS);
    expect_asleep(calls, 2, 1);
    undo = hold_next_undo();
    expect_result(RDL_ETIMEDOUT, a, WAIT_MS + SOON_MS);
    expect(RDL_OK, rdl_unlock(rival, &err)); /* who left is granted it */
    expect_next_try(a, lock, undo);
    caller_free(a);
    rdl_lock_free(rival);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

static int64_t let_go_soon(void *undo, rdl_err_t *e)
{
    uint64_t before = proxy_requests(st.proxy);

    (void)e;
    (void)WAIT_UNTIL(proxy_requests(st.proxy) > before, 300);
    proxy_let_go(st.proxy, *(int *)undo);
    return RDL_OK;
}

Test(returned, N10_place_of_a_wait_that_was_canceled_is_not_in_the_owners_way)
{
    struct caller *a = caller_new();
    struct outcome wait = {0};
    rdl_lock_t *lock, *rival;
    rdl_op_t *op = NULL;
    int64_t calls;
    int undo;

    open_proxied(NULL);
    lock = fair(st.client, NAME, &long_life);
    rival = fair(other, NAME, &long_life);
    expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
    calls = probe_calls(st.probe, "evalsha");
    expect(RDL_OK, rdl_lock_async(lock, NULL, LEASE_MS, outcome_note, &wait, &op, &err));
    expect_asleep(calls, 2, 1);
    undo = hold_next_undo();
    rdl_op_cancel(op);
    expect(RDL_ECANCELED, outcome_wait(&wait, SOON_MS));
    expect(RDL_OK, rdl_unlock(rival, &err));
    caller_call(a, let_go_soon, &undo);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect_result(RDL_OK, a, SOON_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    caller_free(a);
    rdl_op_free(op);
    rdl_lock_free(rival);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* A writer that is preferred, and gives up while readers hold the lock, is not in its own way when it reads. */
Test(returned, N10_mark_of_a_writer_that_gave_up_is_not_in_the_way_of_its_reading)
{
    const rdl_lock_options_t *prefer = LOCK_OPTIONS(.prefer_writers = true, .waiter_life_ms = 10 * WAIT_MS);
    struct caller *a = caller_new();
    rdl_lock_t *reads, *writes, *rival;
    int64_t calls;
    int undo;

    open_proxied(NULL);
    reads = read_end(st.client, NAME, prefer);
    writes = write_end(st.client, NAME, prefer);
    rival = read_end(other, NAME, prefer);
    expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
    calls = probe_calls(st.probe, "evalsha");
    caller_try_lock(a, writes, WAIT_MS, LEASE_MS);
    expect_asleep(calls, 2, 1);
    undo = hold_next_undo();
    expect_result(RDL_ETIMEDOUT, a, WAIT_MS + SOON_MS);
    expect_next_try(a, reads, undo);
    expect(RDL_OK, rdl_unlock(rival, &err));
    caller_free(a);
    rdl_lock_free(rival);
    rdl_lock_free(writes);
    rdl_lock_free(reads);
    rdl_client_close(other);
}

/* Scripts by which one that has to wait looks, before it is asleep; 0: it has no message to be woken by. */
static int scripts_to_sleep(const struct kind *kind)
{
    if (kind->members > 0) /* both members, the first once more, and when it listens */
        return 4;
    return kind->polls ? 0 : strcmp(kind->take, "EVALSHA") == 0 ? 2 : 1;
}

/* One that is asleep, though the lock will be free. */
static void add_sleeper(const struct kind *kind)
{
    struct each *e = add(kind, true);
    int64_t calls;

    expect(RDL_OK, rdl_try_lock(e->rival, 0, LEASE_MS, &err));
    calls = probe_calls(st.probe, "evalsha");
    caller_try_lock(e->caller, e->lock, WAIT_MS, LEASE_MS);
    expect_asleep(calls, scripts_to_sleep(kind), 1);
}

/* What has passed the proxy before its rules were there is answered: the server reads it before the first of these, or
 * together with that and so before the second. */
static void let_server_catch_up(void)
{
    for (int i = 0; i < 2; i++)
        cr_assert_str_eq(probe_text(st.probe, "PING"), "PONG");
}

/* A waiter is granted the lock, is not told, and gives up: the undo is on its way when its owner tries anew. The fair
 * lock's waiters are told by a message, and a red lock asks all its servers anew. */
Test(returned, N10_grant_that_nobody_heard_of_is_not_in_its_owners_way)
{
    open_proxied(NULL);
    for (int paces = 0; paces < 2; paces++) /* who sends scripts unasked comes last, as they are counted */
        FOR_EACH_KIND(kind)
        {
            if (kind->paces == paces && !kind->votes && strcmp(kind->type, "fair") != 0 && scripts_to_sleep(kind) > 0)
                add_sleeper(kind);
        }
    for (struct each *e = all; e < all + count; e++) {
        e->reply =
            proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = e->name);
        e->undo = hold_next_undo_of(e->name);
        let_server_catch_up(); /* a look that is under way would be granted, and told */
        expect(RDL_OK, rdl_unlock(e->rival, &err));
    }
    for (struct each *e = all; e < all + count; e++) {
        expect_result(RDL_EUNKNOWN, e->caller, WAIT_MS + SOON_MS);
        cr_assert(proxy_wait(st.proxy, e->reply, 1, SOON_MS), "%s", e->kind->type);
        proxy_let_go(st.proxy, e->reply);
        expect_next_try(e->caller, e->lock, e->undo);
    }
    drop_all();
}

/* The caller's take is granted, and its answer held back until it has given up: `undo` holds back what removes the
 * grant. */
static int leave_undo(struct caller *a, rdl_lock_t *lock)
{
    int reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = AS_A_WORD);
    int undo = proxy_on(st.proxy, .action = PROXY_HOLD, .contains = AS_A_WORD, .nth = 2); /* in whatever form */

    caller_try_lock(a, lock, 50, LEASE_MS);
    expect_result(RDL_EUNKNOWN, a, SOON_MS);
    cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS));
    cr_assert(proxy_wait(st.proxy, undo, 1, SOON_MS));
    proxy_let_go(st.proxy, reply);
    return undo;
}

/* Callers have several connections. Whoever comes next goes behind the undo all the same, and comes by either way. */
Test(returned, N10_undo_of_a_caller_is_not_overtaken_on_another_connection)
{
    struct caller *a = caller_new(), *b = caller_new();
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock;

    open_proxied(OPTIONS(.connections = 4));
    lock = reentrant(st.client, NAME, NULL);
    caller_try_lock(a, lock, 0, LEASE_MS); /* both are connected */
    expect_result(RDL_OK, a, SOON_MS);
    caller_unlock(a, lock);
    expect_result(RDL_OK, a, SOON_MS);
    caller_try_lock(b, lock, 0, LEASE_MS);
    expect_result(RDL_OK, b, SOON_MS);
    caller_unlock(b, lock);
    expect_result(RDL_OK, b, SOON_MS);
    for (int i = 0; i < 2; i++) {
        expect_next_try(b, lock, leave_undo(a, lock));
        expect_next_try(a, lock, leave_undo(a, lock));
    }
    for (int i = 0; i < 4; i++) { /* an owner of the loop's, whichever connection is its own */
        struct outcome take = {0}, back = {0};
        int undo = leave_undo(a, lock);
        uint64_t before = proxy_requests(st.proxy);

        expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
        expect(RDL_OK, rdl_try_lock_async(lock, owner, 0, LEASE_MS, outcome_note, &take, NULL, &err));
        (void)WAIT_UNTIL(proxy_requests(st.proxy) > before, 300);
        proxy_let_go(st.proxy, undo);
        expect(RDL_OK, outcome_wait(&take, SOON_MS));
        expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &back, NULL, &err));
        expect(RDL_OK, outcome_wait(&back, SOON_MS));
        rdl_owner_free(owner);
    }
    caller_free(a);
    caller_free(b);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* However many connections there are: sixteen owners later comes one whose own is another. */
Test(returned, N10_undo_of_a_caller_is_not_overtaken_on_any_of_many_connections)
{
    enum { CONNECTIONS = 32 };
    struct caller *a = caller_new(), *b = caller_new();
    rdl_lock_t *lock;

    open_proxied(OPTIONS(.connections = CONNECTIONS));
    lock = reentrant(st.client, NAME, NULL);
    caller_try_lock(a, lock, 0, LEASE_MS);
    expect_result(RDL_OK, a, SOON_MS);
    caller_unlock(a, lock);
    expect_result(RDL_OK, a, SOON_MS);
    for (int i = 1; i < CONNECTIONS / 2; i++) {
        rdl_owner_t *owner = NULL;

        expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
        rdl_owner_free(owner);
    }
    caller_try_lock(b, lock, 0, LEASE_MS);
    expect_result(RDL_OK, b, SOON_MS);
    caller_unlock(b, lock);
    expect_result(RDL_OK, b, SOON_MS);
    expect_next_try(b, lock, leave_undo(a, lock));
    expect_next_try(a, lock, leave_undo(b, lock));
    caller_free(a);
    caller_free(b);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* An undo on the loop's connection, of somebody else's call, does not take a take away from behind its owner's own. */
Test(returned, N10_undo_of_a_caller_is_not_overtaken_by_way_of_another_undo)
{
    struct caller *a = caller_new();
    struct outcome shared = {0};
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock;
    int reply, own, theirs;

    open_proxied(NULL);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .contains = AS_A_WORD);
    caller_try_lock(a, lock, 1200, LEASE_MS);
    cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS));
    theirs = proxy_on(st.proxy, .action = PROXY_HOLD, .contains = AS_A_WORD);
    expect(RDL_OK, rdl_try_lock_async(lock, owner, 50, LEASE_MS, outcome_note, &shared, NULL, &err));
    expect(RDL_EUNKNOWN, outcome_wait(&shared, SOON_MS));
    own = proxy_on(st.proxy, .action = PROXY_HOLD, .contains = AS_A_WORD);
    expect_result(RDL_EUNKNOWN, a, SOON_MS);
    cr_assert(proxy_wait(st.proxy, own, 1, SOON_MS));
    proxy_let_go(st.proxy, reply);
    expect_next_try(a, lock, own);
    proxy_let_go(st.proxy, theirs);
    caller_free(a);
    rdl_owner_free(owner);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* The server forgets its scripts, and another client tells it again how to take a lock, but not how to undo that. */
Test(returned, N10_undo_whose_script_was_forgotten_is_not_overtaken)
{
    struct caller *a = caller_new();
    rdl_lock_t *lock, *teacher;
    int undo;

    open_proxied(NULL);
    lock = reentrant(st.client, NAME, NULL);
    teacher = reentrant(other, "teacher", NULL);
    expect(RDL_OK, rdl_try_lock(teacher, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(teacher, &err));
    undo = leave_undo(a, lock);
    cr_assert_str_eq(probe_text(st.probe, "SCRIPT FLUSH"), "OK");
    expect(RDL_OK, rdl_try_lock(teacher, 0, LEASE_MS, &err));
    expect_next_try(a, lock, undo);
    expect(RDL_OK, rdl_unlock(teacher, &err));
    caller_free(a);
    rdl_lock_free(teacher);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* ---- N13: the answer to a first try is waited for --------------------------------------------------------------- */

/* Unless a machine stands still for as long as the answer is waited for. */
Test(returned, N13_wait_of_a_millisecond_gets_what_is_free_over_a_long_line)
{
    enum { EACH_WAY_MS = 30, PATIENCE_MS = 4 * 2 * EACH_WAY_MS };

    open_proxied(NULL);
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, EACH_WAY_MS);
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int64_t start;
        int rc;

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err)); /* how long it takes is known from here on */
        expect(RDL_OK, rdl_unlock(lock, &err));
        start = now_ms();
        rc = rdl_try_lock(lock, 1, LEASE_MS, &err);
        cr_assert(rc == RDL_OK || now_ms() - start >= PATIENCE_MS, "%s: %s after %" PRId64 " ms", kind->type,
                  err.message, now_ms() - start);
        if (rc == RDL_OK)
            expect(RDL_OK, rdl_unlock(lock, &err));
        lock_over(st.probe, lock);
    }
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 0);
    rdl_client_close(other);
}

/* The greeting has told how long the line is. */
Test(returned, N13_first_wait_of_a_client_gets_what_is_free_over_a_long_line)
{
    enum { EACH_WAY_MS = 150 /* so that it is patient for longer than a busy machine stands still */ };
    int rc = RDL_ETIMEDOUT;

    open_proxied(NULL);
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, EACH_WAY_MS);
    for (int tries = 0; tries < 5 && rc != RDL_OK; tries++) { /* the machine does not stand still in each */
        rdl_client_t *client = client_open(stage_uri(&st), OPTIONS(.connections = 1));
        rdl_lock_t *lock = reentrant(client, NAME, NULL);

        if ((rc = rdl_try_lock(lock, 1, LEASE_MS, &err)) == RDL_OK)
            expect(RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
        rdl_client_close(client);
    }
    cr_assert_eq(rc, RDL_OK, "%s", err.message);
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 0);
    rdl_client_close(other);
}

/* But no longer than that: not for command_timeout_ms, from a server that is silent. */
Test(returned, N13_wait_of_a_millisecond_is_over_soon_when_nobody_answers)
{
    enum { COMMAND_MS = 15000 };

    open_proxied(OPTIONS(.command_timeout_ms = COMMAND_MS));
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(st.client, NAME, NULL);
        int64_t start;

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        proxy_freeze(st.proxy, PROXY_TO_CLIENT);
        start = now_ms();
        expect(unanswered(kind), rdl_try_lock(lock, 1, LEASE_MS, &err));
        expect_between(1, now_ms() - start, COMMAND_MS / 3);
        proxy_thaw(st.proxy, PROXY_TO_CLIENT);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS), "%s", kind->type);
        lock_over(st.probe, lock);
    }
    rdl_client_close(other);
}

/* ---- N9: the server dies while all are asleep ------------------------------------------------------------------- */

enum { OUTAGE_MS = 2000, MOST_MS = 4500 /* of the 5 s after which everybody looks again anyway */ };

/* It has given up, since there was no connection for so long. Of one that was not asleep the last try was perhaps on
 * its way: it may have run, and its time began when it was sent. */
static void expect_outage(const struct each *e, int64_t killed_at)
{
    int64_t result = caller_result(e->caller, 2 * SOON_MS);
    int64_t ms = (caller_ended_us(e->caller) - killed_at) / 1000;
    bool unsure = e->kind->paces && result == RDL_EUNKNOWN;

    cr_assert(result == RDL_ECONN || unsure, "%s: %s: %s", e->kind->type, code_name(result),
              caller_error(e->caller)->message);
    cr_expect((unsure || ms >= OUTAGE_MS) && ms <= MOST_MS, "%s: %" PRId64 " ms", e->kind->type, ms);
}

static void begin_waiting(bool paces)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].kind->paces == paces && i % 2 == 0)
            caller_lock(all[i].caller, all[i].lock, LEASE_MS);
        else if (all[i].kind->paces == paces)
            caller_try_lock(all[i].caller, all[i].lock, LEASE_MS, LEASE_MS);
}

/* A red lock is not among them: without a majority it goes on asking as long as its wait. */
Test(returned, N9_outage_of_who_is_asleep_begins_when_the_server_dies)
{
    int64_t listened = 0, scripts = 0, calls, killed_at;
    struct monitor *monitor;

    stage_open(&st, .client = OPTIONS(.outage_timeout_ms = OUTAGE_MS));
    left_behind = true;
    monitor = monitor_start(st.server);
    other = client_open(stage_uri(&st), NULL);
    FOR_EACH_KIND(kind)
    {
        if (kind->votes)
            continue;
        listened += kind->paces ? 0 : 1;
        scripts += kind->paces ? 0 : scripts_to_sleep(kind);
        expect(RDL_OK, rdl_try_lock(add(kind, false)->rival, 0, LEASE_MS, &err));
    }
    calls = probe_calls(st.probe, "evalsha");
    begin_waiting(false);
    expect_asleep(calls, scripts, listened);
    for (const struct each *e = all; e < all + count; e++)
        if (!e->kind->paces && e->kind->members == 0)
            expect_sleeps_for(monitor, e->kind, e->name);
    monitor_stop(monitor);
    begin_waiting(true); /* they send scripts unasked */
    let_pass_ms(50);
    killed_at = now_us();
    server_kill(st.server);
    for (const struct each *e = all; e < all + count; e++)
        expect_outage(e, killed_at);
    drop_all();
    server_start_again(st.server);
}

/* Whoever has the lock by then, it is not known: the words are of the server. */
Test(returned, T4_wait_that_ends_while_the_server_is_away_says_so)
{
    enum { PATIENT_MS = 4500 }; /* until all are seen asleep, and nobody looks again (RDL__HINT_MAX_MS) */
    struct monitor *monitor;

    stage_open(&st, .client = OPTIONS(0));
    left_behind = true;
    monitor = monitor_start(st.server);
    other = client_open(stage_uri(&st), NULL);
    FOR_EACH_KIND(kind)
    {
        if (kind->members > 0 || kind->paces)
            continue; /* a red lock says RDL_ENOQUORUM; of who asks unasked a try may be on the way */
        expect(RDL_OK, rdl_try_lock(add(kind, false)->rival, 0, LEASE_MS, &err));
    }
    for (struct each *e = all; e < all + count; e++)
        caller_try_lock(e->caller, e->lock, PATIENT_MS, LEASE_MS);
    for (struct each *e = all; e < all + count; e++) /* nothing of theirs is on its way */
        expect_sleeps_for(monitor, e->kind, e->name);
    monitor_stop(monitor);
    let_pass_ms(50); /* the answer to the last of them */
    server_kill(st.server);
    for (struct each *e = all; e < all + count; e++)
        expect_result(RDL_ECONN, e->caller, PATIENT_MS + 2 * SOON_MS);
    drop_all();
    server_start_again(st.server);
}

/* An outage that is over in time is no reason to give up, when its time would have come. */
Test(returned, N9_outage_that_ends_in_time_ends_no_wait)
{
    enum { PATIENT_MS = 4000 };
    struct caller *a = caller_new();
    rdl_lock_t *lock, *rival;

    open_proxied(OPTIONS(.outage_timeout_ms = PATIENT_MS, .reconnect_max_ms = 20));
    lock = reentrant(st.client, NAME, NULL);
    rival = reentrant(other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
    caller_lock(a, lock, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    proxy_cut(st.proxy, PROXY_ALL);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(PATIENT_MS + 300);
    cr_assert(!caller_idle(a));
    expect(RDL_OK, rdl_unlock(rival, &err));
    expect_result(RDL_OK, a, SOON_MS);
    caller_unlock(a, lock);
    expect_result(RDL_OK, a, SOON_MS);
    caller_free(a);
    rdl_lock_free(rival);
    rdl_lock_free(lock);
    rdl_client_close(other);
}

/* ---- N15: what is lost between the wake-up and the return is told at the return --------------------------------- */

#define SHORT_MS 3000 /* a lease; longer than a machine stands still between the grant and its being read */

static int stop_pipe[2], go_pipe[2]; /* a thread says that it stands still; it may go on */

static void stand_still(int signal)
{
    char byte = 0;

    (void)signal;
    (void)!write(stop_pipe[1], &byte, 1);
    (void)!read(go_pipe[0], &byte, 1);
}

static int64_t who_am_i(void *arg, rdl_err_t *e)
{
    (void)e;
    *(pthread_t *)arg = pthread_self();
    return RDL_OK;
}

/* Its waiter is asleep; a thread that has not tried twice may not be. */
static void add_shorty(const struct kind *kind, int64_t *listened)
{
    struct each *e = add(kind, false);
    int64_t calls;

    losses_init(&e->losses);
    caller_call(e->caller, who_am_i, &e->thread);
    expect_result(RDL_OK, e->caller, SOON_MS);
    expect(RDL_OK, rdl_on_lost(e->lock, losses_note, &e->losses, &err));
    expect(RDL_OK, rdl_try_lock(e->rival, 0, LEASE_MS, &err));
    calls = probe_calls(st.probe, "evalsha");
    caller_try_lock(e->caller, e->lock, LEASE_MS, SHORT_MS);
    *listened += kind->polls ? 0 : 1;
    cr_assert(
        WAIT_UNTIL(kind->polls ? probe_calls(st.probe, "evalsha") >= calls + 2 : probe_channels(st.probe) == *listened,
                   SOON_MS),
        "%s", kind->type);
}

/* The waiters' threads stand still until their holds are over at the server. A red lock's grant needs its thread. */
Test(returned, N15_hold_that_is_over_when_its_waiter_wakes_up_is_told_as_lost)
{
    int64_t listened = 0;
    char byte;

    cr_assert_eq(pipe(stop_pipe) + pipe(go_pipe), 0);
    cr_assert_neq(signal(SIGUSR1, stand_still), SIG_ERR);
    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    for (int paces = 1; paces >= 0; paces--) /* who polls comes first, as scripts are counted for it */
        FOR_EACH_KIND(kind)
        {
            if (!kind->votes && kind->polls == paces)
                add_shorty(kind, &listened);
        }
    let_pass_ms(50);
    for (struct each *e = all; e < all + count; e++) {
        cr_assert_eq(pthread_kill(e->thread, SIGUSR1), 0);
        cr_assert_eq(read(stop_pipe[0], &byte, 1), 1);
        expect(RDL_OK, rdl_unlock(e->rival, &err));
    }
    for (struct each *e = all; e < all + count; e++) /* it was granted, and its lease is over */
        cr_assert(losses_wait(&e->losses, RDL_LOST, 1, SHORT_MS + SOON_MS), "%s", e->kind->type);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(write(go_pipe[1], &byte, 1), 1);
    for (struct each *e = all; e < all + count; e++) {
        expect_result(RDL_ELOST, e->caller, SOON_MS);
        caller_unlock(e->caller, e->lock);
        expect_result(RDL_ENOTOWNER, e->caller, SOON_MS);
        caller_try_lock(e->caller, e->lock, SOON_MS, LEASE_MS);
        expect_result(RDL_OK, e->caller, 2 * SOON_MS);
        caller_unlock(e->caller, e->lock);
        expect_result(RDL_OK, e->caller, SOON_MS);
    }
    drop_all();
}

/* One lock of a multi-lock is evicted while its waiter's thread stands still; the server then answers nothing, and so
 * not the release of the other one. */
Test(returned, N15_multi_that_is_lost_when_its_waiter_wakes_up_waits_for_no_server)
{
    rdl_lock_t *member[2], *multi = NULL, *rival;
    struct caller *a = caller_new();
    struct losses losses;
    pthread_t thread;
    char byte;

    cr_assert_eq(pipe(stop_pipe) + pipe(go_pipe), 0);
    cr_assert_neq(signal(SIGUSR1, stand_still), SIG_ERR);
    open_proxied(OPTIONS(.watchdog_lease_ms = SHORT_MS, .command_timeout_ms = 4 * SOON_MS));
    member[0] = reentrant(st.client, "first", NULL);
    member[1] = reentrant(st.client, "second", NULL);
    rival = reentrant(other, "first", NULL);
    expect(RDL_OK, rdl_multi_lock(member, 2, NULL, &multi, &err));
    losses_init(&losses);
    expect(RDL_OK, rdl_on_lost(multi, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(rival, 0, LEASE_MS, &err));
    caller_call(a, who_am_i, &thread);
    expect_result(RDL_OK, a, SOON_MS);
    caller_try_lock(a, multi, LEASE_MS, RDL_LEASE_AUTO);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(50);
    cr_assert_eq(pthread_kill(thread, SIGUSR1), 0);
    cr_assert_eq(read(stop_pipe[0], &byte, 1), 1);
    expect(RDL_OK, rdl_unlock(rival, &err));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS second") == 1, SOON_MS));
    let_pass_ms(50);
    expect(1, rdl_force_unlock(rival, &err));
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SHORT_MS + SOON_MS));
    proxy_freeze(st.proxy, PROXY_TO_SERVER);
    cr_assert_eq(write(go_pipe[1], &byte, 1), 1);
    expect_result(RDL_ELOST, a, SOON_MS);
    proxy_thaw(st.proxy, PROXY_TO_SERVER);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS second") == 0, SOON_MS));
    caller_try_lock(a, multi, SOON_MS, LEASE_MS);
    expect_result(RDL_OK, a, 2 * SOON_MS);
    caller_unlock(a, multi);
    expect_result(RDL_OK, a, SOON_MS);
    caller_free(a);
    rdl_lock_free(multi);
    rdl_lock_free(member[0]);
    rdl_lock_free(member[1]);
    rdl_lock_free(rival);
    rdl_client_close(other);
}

static bool has_run(struct outcome *o)
{
    return WAIT_UNTIL(rdl_client_dispatch(st.client) >= 0 && atomic_load(&o->calls) > 0, SOON_MS);
}

/* The same of callbacks, which run when the program comes to it. */
Test(returned, N15_hold_that_is_over_when_its_callback_runs_is_told_as_lost)
{
    stage_open(&st, .client = OPTIONS(.dispatch = RDL_DISPATCH_FD));
    other = client_open(stage_uri(&st), NULL);
    FOR_EACH_KIND(kind)
    {
        struct each *e = add(kind, false);

        expect(RDL_OK, rdl_lock_async(e->lock, NULL, SHORT_MS, outcome_note, &e->outcome, NULL, &err));
    }
    for (struct each *e = all; e < all + count; e++)
        cr_assert(WAIT_UNTIL(rdl_is_held(e->lock, NULL) == RDL_ELOST, SHORT_MS + SOON_MS), "%s", e->kind->type);
    for (struct each *e = all; e < all + count; e++) {
        struct outcome again = {0}, back = {0};

        cr_assert(has_run(&e->outcome), "%s", e->kind->type);
        expect(RDL_ELOST, outcome_wait(&e->outcome, SOON_MS));
        expect(RDL_OK, rdl_lock_async(e->lock, NULL, LEASE_MS, outcome_note, &again, NULL, &err));
        cr_assert(has_run(&again), "%s", e->kind->type);
        expect(RDL_OK, outcome_wait(&again, SOON_MS));
        expect(RDL_OK, rdl_unlock_async(e->lock, NULL, outcome_note, &back, NULL, &err));
        cr_assert(has_run(&back), "%s", e->kind->type);
        expect(RDL_OK, outcome_wait(&back, SOON_MS));
    }
    drop_all();
}

static void note_permit(rdl_permit_semaphore_t *semaphore, int64_t result, const rdl_err_t *e, void *outcome)
{
    (void)semaphore;
    outcome_note(NULL, result, e, outcome);
}

Test(returned, N15_permit_that_is_over_when_its_callback_runs_is_told_as_lost)
{
    rdl_permit_semaphore_t *seats = NULL;
    struct outcome o = {0};
    rdl_permit_t permit;

    stage_open(&st, .client = OPTIONS(.dispatch = RDL_DISPATCH_FD));
    left_behind = true; /* the guards */
    expect(RDL_OK, rdl_permit_semaphore(st.client, NAME, NULL, &seats, &err));
    expect(1, rdl_permit_semaphore_try_set_permits(seats, 1, &err));
    expect(RDL_OK,
           rdl_permit_semaphore_try_acquire_async(seats, NULL, 1, 0, SHORT_MS, &permit, note_permit, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "ZCARD {" NAME "}:timeout") == 1, SOON_MS));
    let_pass_ms(SHORT_MS + 100);
    cr_assert(has_run(&o));
    expect(RDL_ELOST, outcome_wait(&o, SOON_MS));
    expect(1, rdl_permit_semaphore_available(seats, &err));
    rdl_permit_semaphore_free(seats);
}
