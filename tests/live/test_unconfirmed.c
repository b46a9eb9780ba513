/* SPDX-License-Identifier: MIT */
/* test_unconfirmed.c - unlocks that nobody waits for (RDL_RELEASE_UNCONFIRMED): the call returns at once, the release
 * arrives, what comes next goes behind it, and whatever comes of it is told. */
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "no-hurry"
#define LEASE_MS 30000
#define PROMPT_MS SOON_MS   /* much less than a lease */
#define FEW_MS 400          /* a command's time-out, for tests that wait for it */
#define LONG_ENOUGH_MS 1500 /* until a call gives up: longer than a busy machine stands still */

LIVE_SUITE(unconfirmed, 120);

static rdl_metrics_t *metrics;
static struct losses losses;
static _Atomic unsigned warnings; /* about unlocks */

static void note_line(rdl_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level >= RDL_LOG_WARN && strstr(line, "an unlock that was not waited for") != NULL)
        atomic_fetch_add(&warnings, 1);
}

static uint64_t counter(rdl_metric_t metric)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, metric, &value);
    return value.sum;
}

static void open_with(const rdl_client_options_t *given)
{
    rdl_client_options_t o = *given;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    o.metrics = metrics;
    o.log = note_line;
    o.reconnect_min_ms = 1;
    o.reconnect_max_ms = 50;
    stage_open(&st, .proxied = true, .client = &o);
    losses_init(&losses);
    atomic_store(&warnings, 0);
}

static void open_stage(void)
{
    open_with(OPTIONS(.command_timeout_ms = 3000));
}

static void close_stage(void)
{
    st.client = rdl_client_close(st.client);
    cr_expect(stage_is_clean(&st, CLEAN_BOUND_MS), "something is left behind");
    cr_assert_null(rdl_metrics_free(metrics));
}

/* A lock whose unlocks are not waited for, warmed up: connected, scripts loaded, nothing under way. */
static rdl_lock_t *make(const struct kind *kind)
{
    rdl_lock_t *lock = kind->make(st.client, NAME, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
    uint64_t released = counter(RDL_M_RELEASED);

    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == released + 1, SOON_MS), "%s", kind->type);
    return lock;
}

/* The same, at a stage of its own, after that of the kind before it. */
static rdl_lock_t *open_for(const struct kind *kind)
{
    if (kind != kinds) {
        close_stage();
        live_again();
    }
    open_stage();
    return make(kind);
}

static void end(rdl_lock_t *lock)
{
    lock_over(st.probe, lock);
    close_stage();
}

static bool is_free(void)
{
    return lock_keys(st.probe, NAME) == 0;
}

/* The rule acts on releases alone: nothing else with the lock's name is sent meanwhile. */
static int on_release(enum proxy_action action, enum proxy_part part, size_t at, const char *answer)
{
    return proxy_on(st.proxy, .action = action, .part = part, .contains = NAME, .at = at, .answer = answer);
}

/* ---- the call returns, and the release arrives ------------------------------------------------------------------ */

Test(unconfirmed, unlock_returns_before_its_release_has_arrived)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = open_for(kind);
        int held;

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        held = on_release(PROXY_HOLD, PROXY_REQUEST, 0, NULL);
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(0, rdl_is_held(lock, &err));
        expect(RDL_ENOTOWNER, rdl_unlock(lock, &err));
        cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS)); /* sent, although nobody calls */
        cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
        proxy_let_go(st.proxy, held);
        cr_assert(WAIT_UNTIL(is_free(), SOON_MS), "%s", kind->type);
        cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == 2, SOON_MS), "%s: nobody reads the answer", kind->type);
        cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
        lock_over(st.probe, lock);
    }
    close_stage();
}

Test(unconfirmed, pair_is_two_commands_and_needs_no_memory)
{
    enum { PAIRS = 200 };
    static struct counting_alloc counting;
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    int64_t calls;
    rdl_lock_t *lock;
    uint64_t before;

    open_with(OPTIONS(.command_timeout_ms = 3000, .allocator = &hooks));
    lock = make(kinds);
    for (int i = 0; i < 10; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == 11, SOON_MS));
    before = proxy_requests(st.proxy);
    calls = counting_alloc_calls(&counting);
    for (int i = 0; i < PAIRS; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == 11 + PAIRS, SOON_MS));
    cr_assert_eq(proxy_requests(st.proxy) - before, 2 * PAIRS);
    cr_assert_eq(counting_alloc_calls(&counting), calls);
    lock_over(st.probe, lock);
    close_stage();
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

/* One after another, and none of their answers is read meanwhile. */
Test(unconfirmed, giving_back_needs_no_memory_however_much_is_held)
{
    enum { HELD = 20 };
    static struct counting_alloc counting;
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_lock_t *locks[HELD];
    char name[32];

    open_with(OPTIONS(.command_timeout_ms = 3000, .allocator = &hooks));
    for (int i = 0; i < HELD; i++) {
        (void)snprintf(name, sizeof name, NAME "-%d", i);
        locks[i] = reentrant(st.client, name, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
        expect(RDL_OK, rdl_try_lock(locks[i], 5000, LEASE_MS, &err));
    }
    proxy_freeze(st.proxy, PROXY_TO_CLIENT);
    counting_alloc_fail_from(&counting, 1);
    for (int i = 0; i < HELD; i++)
        expect(RDL_OK, rdl_unlock(locks[i], &err));
    counting_alloc_fail_at(&counting, 0);
    proxy_thaw(st.proxy, PROXY_TO_CLIENT);
    cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == HELD, SOON_MS));
    cr_assert_eq(probe_keys(st.probe), 0);
    for (int i = 0; i < HELD; i++)
        rdl_lock_free(locks[i]);
    close_stage();
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

/* ---- what comes next goes behind it ----------------------------------------------------------------------------- */

Test(unconfirmed, next_take_goes_behind_the_release_of_whichever_thread)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        struct caller *caller = caller_new();
        rdl_lock_t *lock = open_for(kind);

        for (int i = 0; i < 3; i++) {
            int held;

            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            held = on_release(PROXY_HOLD, PROXY_REQUEST, 0, NULL);
            expect(RDL_OK, rdl_unlock(lock, &err));
            cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
            caller_try_lock(caller, lock, 0, LEASE_MS); /* has a lane of its own */
            let_pass_ms(20);                            /* what went another way would be refused by now */
            proxy_let_go(st.proxy, held);
            expect_result(RDL_OK, caller, SOON_MS);
            cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
            caller_unlock(caller, lock);
            expect_result(RDL_OK, caller, SOON_MS);
        }
        cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == 7, SOON_MS));
        cr_assert_eq(counter(RDL_M_CONTENDED), 0, "%s", kind->type);
        caller_free(caller);
        lock_over(st.probe, lock);
    }
    close_stage();
}

Test(unconfirmed, take_and_unlock_of_one_thread_overlap)
{
    enum { PAIRS = 50 };

    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = open_for(kind);

        for (int i = 0; i < PAIRS; i++) {
            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s", kind->type);
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
        cr_assert(WAIT_UNTIL(is_free() && counter(RDL_M_RELEASED) == 1 + PAIRS, SOON_MS), "%s", kind->type);
        cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
        lock_over(st.probe, lock);
    }
    close_stage();
}

Test(unconfirmed, nested_holds_are_given_back_one_by_one)
{
    rdl_lock_t *lock = open_for(kinds);

    for (int i = 0; i < 3; i++)
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    for (int64_t count = 2; count > 0; count--) {
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(count, rdl_hold_count(lock, &err));
        cr_assert(WAIT_UNTIL(lock_holds(st.probe, NAME) == count, SOON_MS));
    }
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(lock_holds(st.probe, NAME), 2);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    end(lock);
}

Test(unconfirmed, writer_becomes_a_reader)
{
    rdl_lock_t *w, *r;

    open_stage();
    w = write_end(st.client, NAME, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
    r = read_end(st.client, NAME, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
    for (int i = 0; i < 20; i++) {
        expect(RDL_OK, rdl_try_lock(w, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_try_lock(r, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(w, &err));
        expect(1, rdl_is_held(r, &err));
        expect(RDL_OK, rdl_unlock(r, &err));
    }
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    rdl_lock_free(r);
    lock_over(st.probe, w);
    close_stage();
}

/* The scripts are gone: the release is sent again with its text, and so is the take behind it. */
Test(unconfirmed, scripts_that_are_gone_change_nothing)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = open_for(kind);

        for (int i = 0; i < 5; i++) {
            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            cr_assert_str_eq(probe_text(st.probe, "SCRIPT FLUSH"), "OK");
            expect(RDL_OK, rdl_unlock(lock, &err));
            if (i % 2 == 0)
                cr_assert(WAIT_UNTIL(is_free(), SOON_MS), "%s", kind->type);
        }
        cr_assert(WAIT_UNTIL(is_free(), SOON_MS), "%s", kind->type);
        lock_over(st.probe, lock);
    }
    close_stage();
}

/* The release alone is asked for its text: the take behind it comes first, is refused, and comes again. */
Test(unconfirmed, take_that_the_release_comes_behind_is_not_refused)
{
    open_stage();
    for (int i = 0; i < 3; i++) {
        rdl_lock_t *lock = make(kinds);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        (void)on_release(PROXY_ANSWER, PROXY_REQUEST, 0, "-NOSCRIPT it was flushed\r\n");
        expect(RDL_OK, rdl_unlock(lock, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
        lock_over(st.probe, lock);
    }
    close_stage();
}

/* ---- what comes of it is told ----------------------------------------------------------------------------------- */

Test(unconfirmed, hold_that_was_gone_is_told_once_by_callback_and_by_the_next_take)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = open_for(kind);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        (void)probe_ask(st.probe, "FLUSHDB");
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS), "%s", kind->type);
        cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_GONE);
        cr_assert(WAIT_UNTIL(atomic_load(&warnings) == 1, SOON_MS));
        expect(RDL_ELOST, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert_not_null(strstr(err.message, "not waited for"), "%s", err.message);
        expect(0, rdl_is_held(lock, &err));
        cr_assert(is_free(), "%s", kind->type);
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(WAIT_UNTIL(is_free() && counter(RDL_M_RELEASED) == 2, SOON_MS), "%s", kind->type);
        expect(1, losses_count(&losses, RDL_LOST));
        cr_assert_eq(counter(RDL_M_LOST), 1);
        cr_assert_eq(atomic_load(&warnings), 1);
        lock_over(st.probe, lock);
    }
    close_stage();
}

/* Nobody but the hold's owner is told by a verb. */
Test(unconfirmed, other_owners_takes_are_not_told)
{
    struct caller *caller = caller_new();
    rdl_lock_t *lock = open_for(kinds);

    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    (void)probe_ask(st.probe, "FLUSHDB");
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    for (int i = 0; i < 3; i++) {
        caller_try_lock(caller, lock, 0, LEASE_MS);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_unlock(caller, lock);
        expect_result(RDL_OK, caller, SOON_MS);
    }
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    expect(RDL_ELOST, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_free(caller);
    end(lock);
}

/* The server refuses it: it is repeated, and does not stay for its lease. */
Test(unconfirmed, refused_release_is_told_and_repeated)
{
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = open_for(kind);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        (void)on_release(PROXY_ANSWER, PROXY_REQUEST, 0, "-NOPERM not for you\r\n");
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(WAIT_UNTIL(atomic_load(&warnings) == 1, SOON_MS), "%s", kind->type);
        cr_assert(WAIT_UNTIL(is_free(), PROMPT_MS), "%s", kind->type);
        expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_try_lock(lock, 1000, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
        expect(0, losses_count(&losses, RDL_LOST));
        lock_over(st.probe, lock);
    }
    close_stage();
}

/* A hold that ended by its lease before its release could be sent was not lost: it was given back in time. The owner
 * took it by the loop, and its own connection has never been there. */
Test(unconfirmed, release_that_is_sent_after_the_lease_tells_of_no_loss)
{
    enum { SHORT_LEASE_MS = 2000 };
    rdl_owner_t *owner = NULL;
    struct outcome o = {0};
    rdl_lock_t *lock = open_for(kinds);

    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_OK, rdl_lock_async(lock, owner, SHORT_LEASE_MS, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    expect(RDL_OK, rdl_owner_bind(owner, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(is_free(), 2 * SHORT_LEASE_MS));
    proxy_refuse(st.proxy, false);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    rdl_owner_unbind(st.client);
    rdl_owner_free(owner);
    expect(0, losses_count(&losses, RDL_LOST));
    cr_assert_eq(atomic_load(&warnings), 0);
    end(lock);
}

Test(unconfirmed, hold_that_is_known_to_be_lost_is_told_by_the_unlock_itself)
{
    rdl_lock_t *lock = open_for(kinds);

    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(1, rdl_force_unlock(lock, &err));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    cr_assert(WAIT_UNTIL(losses_count(&losses, RDL_LOST) == 1, SOON_MS)); /* told by the loop */
    end(lock);
}

/* ---- connections that break ------------------------------------------------------------------------------------- */

/* A2 and A6: at any byte of its request or reply; a hold that is taken behind it stays. */
Test(unconfirmed, release_whose_connection_breaks_is_repeated)
{
    static const struct {
        enum proxy_part part;
        size_t at;
    } cuts[] = {
        {PROXY_REQUEST, 0}, {PROXY_REQUEST, 60}, {PROXY_REQUEST, PROXY_WHOLE}, {PROXY_REPLY, 0}, {PROXY_REPLY, 2}};

    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = open_for(kind);

        for (size_t i = 0; i < 2 * sizeof cuts / sizeof cuts[0]; i++) {
            uint64_t released = counter(RDL_M_RELEASED);

            expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
            (void)on_release(PROXY_CUT, cuts[i / 2].part, cuts[i / 2].at, NULL);
            expect(RDL_OK, rdl_unlock(lock, &err));
            if (i % 2 != 0) { /* at once, or when it has arrived */
                expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
                cr_assert_eq(lock_holds(st.probe, NAME), 1, "%s, %zu", kind->type, i);
                expect(RDL_OK, rdl_unlock(lock, &err));
            }
            cr_assert(WAIT_UNTIL(is_free(), PROMPT_MS), "%s, %zu", kind->type, i);
            cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == released + 1 + i % 2, SOON_MS), "%s, %zu", kind->type, i);
        }
        expect(0, losses_count(&losses, RDL_LOST));
        cr_assert_eq(atomic_load(&warnings), 0, "%s", kind->type);
        lock_over(st.probe, lock);
    }
    close_stage();
}

/* The server does not answer, and nobody calls: the loop gives the connection up, and repeats the release. */
Test(unconfirmed, answer_that_does_not_come_is_not_waited_for_in_vain)
{
    rdl_lock_t *lock;

    open_with(OPTIONS(.command_timeout_ms = FEW_MS));
    lock = make(kinds);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    (void)on_release(PROXY_ANSWER, PROXY_REPLY, 0, "");
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == 2, PROMPT_MS));
    cr_assert(is_free());
    expect(0, losses_count(&losses, RDL_LOST));
    end(lock);
}

/* ---- ends ------------------------------------------------------------------------------------------------------- */

static int64_t close_client(void *client, rdl_err_t *why)
{
    (void)why;
    return rdl_client_close(client) == NULL;
}

/* The server reads nothing, and no other call of this client comes that could send the rest. */
Test(unconfirmed, what_a_full_socket_has_no_room_for_goes_when_it_has)
{
    enum { LOCKS = 4000 };
    rdl_lock_t **locks = must_alloc(LOCKS * sizeof *locks);
    char name[600];

    stage_open(&st, .client = OPTIONS(.command_timeout_ms = 60000, .ping_interval_ms = 60000));
    memset(name, 'x', sizeof name);
    for (int i = 0; i < LOCKS; i++) {
        (void)snprintf(name + 500, sizeof name - 500, "%d", i);
        locks[i] = reentrant(st.client, name, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
        expect(RDL_OK, rdl_try_lock(locks[i], 5000, 600000, &err));
    }
    server_pause(st.server);
    for (int i = 0; i < LOCKS; i++)
        expect(RDL_OK, rdl_unlock(locks[i], &err));
    server_resume(st.server);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, 4 * SOON_MS));
    for (int i = 0; i < LOCKS; i++)
        rdl_lock_free(locks[i]);
    free(locks);
}

Test(unconfirmed, closing_waits_for_the_answer)
{
    struct caller *caller = caller_new();
    rdl_lock_t *lock;
    int held;

    open_with(OPTIONS(.command_timeout_ms = 3000, .close_timeout_ms = 30000));
    lock = make(kinds);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    held = on_release(PROXY_HOLD, PROXY_REQUEST, 0, NULL);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
    caller_call(caller, close_client, st.client);
    let_pass_ms(100);
    cr_assert(!caller_idle(caller));
    proxy_let_go(st.proxy, held);
    expect_result(1, caller, SOON_MS);
    st.client = NULL;
    cr_assert(is_free());
    cr_assert_eq(counter(RDL_M_RELEASED), 2);
    rdl_lock_free(lock);
    caller_free(caller);
    close_stage();
}

Test(unconfirmed, closing_is_bounded_where_no_answer_comes)
{
    enum { CLOSE_MS = 300 };
    rdl_lock_t *lock;
    int64_t start;
    int held;

    open_with(OPTIONS(.command_timeout_ms = 30000, .close_timeout_ms = CLOSE_MS));
    lock = make(kinds);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    held = on_release(PROXY_HOLD, PROXY_REQUEST, 0, NULL);
    expect(RDL_OK, rdl_unlock(lock, &err));
    start = now_ms();
    st.client = rdl_client_close(st.client);
    expect_between(CLOSE_MS, now_ms() - start, CLOSE_MS + SLACK_MS);
    cr_assert_eq(counter(RDL_M_UNKNOWN), 1);
    cr_assert_eq(atomic_load(&warnings), 1);
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS)); /* it had been sent */
    rdl_lock_free(lock);
    close_stage();
}

static int64_t use_and_free(void *client, rdl_err_t *why)
{
    rdl_lock_t *lock = reentrant(client, NAME, LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED));
    int64_t rc = rdl_try_lock(lock, 5000, LEASE_MS, why);

    if (rc == RDL_OK)
        rc = rdl_unlock(lock, why);
    rdl_lock_free(lock);
    return rc;
}

/* The handle is freed, and the thread ends, while the release is held up. */
Test(unconfirmed, handle_and_thread_may_go_at_once)
{
    open_stage();
    for (int i = 0; i < 5; i++) {
        struct caller *caller = caller_new();
        int held = proxy_on(st.proxy, .action = PROXY_HOLD, .contains = NAME, .nth = 2); /* after the take */

        caller_call(caller, use_and_free, st.client);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_free(caller);
        cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
        proxy_let_go(st.proxy, held);
        cr_assert(WAIT_UNTIL(is_free() && counter(RDL_M_RELEASED) == (uint64_t)i + 1, SOON_MS), "%d", i);
    }
    close_stage();
}

/* An owner that others made, too; and what it was told of goes with it. */
Test(unconfirmed, owner_may_go_before_its_release_is_answered)
{
    rdl_owner_t *owner = NULL;
    rdl_lock_t *lock = open_for(kinds);

    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_OK, rdl_owner_bind(owner, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    (void)probe_ask(st.probe, "FLUSHDB");
    proxy_freeze(st.proxy, PROXY_TO_CLIENT);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_owner_unbind(st.client);
    rdl_owner_free(owner);
    proxy_thaw(st.proxy, PROXY_TO_CLIENT);
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    end(lock);
}

/* The child has its parent's memory, and neither sends nor waits for what is under way there. */
Test(unconfirmed, child_leaves_its_parents_release_alone)
{
    rdl_lock_t *lock;
    int held, status = -1;
    pid_t child;

    open_stage();
    lock = make(kinds);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    held = on_release(PROXY_HOLD, PROXY_REQUEST, 0, NULL);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
    if ((child = fork()) == 0)
        _exit(rdl_try_lock(lock, 0, LEASE_MS, NULL) == RDL_EFORK && rdl_unlock(lock, NULL) == RDL_EFORK &&
                      rdl_lock_free(lock) == NULL && rdl_client_close(st.client) == NULL
                  ? 0
                  : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(lock_holds(st.probe, NAME), 1);
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(is_free() && counter(RDL_M_RELEASED) == 2, SOON_MS));
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    end(lock);
}

/* ---- the line --------------------------------------------------------------------------------------------------- */

/* Two stand in line that hear, and do not try. When the answer is read, the next take knows that one was woken. */
Test(unconfirmed, who_has_woken_another_gives_way_to_it)
{
    char *channel = channel_of(NAME);
    struct probe *others[2];
    rdl_lock_t *lock;
    int64_t before;

    open_stage();
    lock = make(kinds);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    (void)probe_ask(st.probe, "HSET " NAME " %s:wanted 1", probe_ask(st.probe, "HKEYS " NAME)->items[0].text);
    (void)probe_ask(st.probe, "HSET %s 0 other0 other0 0 1 other1 other1 1 head 0 tail 2 count 2", channel);
    for (int i = 0; i < 2; i++) {
        others[i] = probe_open(st.server);
        (void)probe_ask(others[i], "SUBSCRIBE %s:{other%d}", channel, i);
    }
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(WAIT_UNTIL(counter(RDL_M_RELEASED) == 2, SOON_MS));
    before = probe_calls(st.probe, "evalsha");
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    cr_assert_gt(probe_calls(st.probe, "evalsha") - before, 1, "it was not refused first");
    (void)probe_int(st.probe, "DEL %s", channel);
    expect(RDL_OK, rdl_unlock(lock, &err));
    for (int i = 0; i < 2; i++)
        probe_close(others[i]);
    end(lock);
    free(channel);
}

/* The release arrives after the call that waited has given up, and has left the line. */
Test(unconfirmed, release_that_enters_the_line_for_nobody_leaves_it)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    int held;

    open_with(OPTIONS(.command_timeout_ms = 4 * LONG_ENOUGH_MS));
    lock = make(kinds);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_try_lock(waiter, lock, LONG_ENOUGH_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "HLEN " NAME) == 2, SOON_MS)); /* it is wanted */
    held = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = "stay");
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
    expect_result(RDL_ETIMEDOUT, waiter, SOON_MS);
    cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 1, SOON_MS), "the place is not left");
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(is_free(), SOON_MS));
    caller_free(waiter);
    end(lock);
}

/* ---- what it does not change ------------------------------------------------------------------------------------ */

/* An asynchronous unlock calls back when it is answered; a composite's unlock waits for its members'. */
Test(unconfirmed, asynchronous_and_composite_unlocks_wait_for_their_answers)
{
    rdl_owner_t *owner = NULL;
    struct outcome o = {0};
    rdl_lock_t *lock, *all = NULL;

    open_stage();
    lock = make(kinds);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    expect(RDL_OK, rdl_lock_async(lock, owner, LEASE_MS, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    memset(&o, 0, sizeof o);
    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
    cr_assert(is_free());
    expect(RDL_OK, rdl_multi_lock(&lock, 1, NULL, &all, &err));
    expect(RDL_OK, rdl_try_lock(all, 1000, LEASE_MS, &err));
    cr_assert_eq(lock_holds(st.probe, NAME), 1);
    expect(RDL_OK, rdl_unlock(all, &err));
    cr_assert(is_free());
    rdl_lock_free(all);
    rdl_owner_free(owner);
    end(lock);
}

Test(unconfirmed, option_is_refused_where_it_has_no_meaning)
{
    const rdl_lock_options_t *o = LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED);
    rdl_lock_t *lock, *made = NULL;

    open_stage();
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, o, &made, &err)); /* handles of a name have one option */
    expect(RDL_EINVAL, rdl_multi_lock(&lock, 1, o, &made, &err));
    expect(RDL_EINVAL, rdl_red_lock(&lock, 1, o, &made, &err));
    expect(RDL_EINVAL,
           rdl_reentrant_lock(st.client, "b", LOCK_OPTIONS(.release = RDL_RELEASE_UNCONFIRMED, .replicas = 1), &made,
                              &err));
    cr_assert_not_null(strstr(err.message, "replicas"), "%s", err.message);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "b", LOCK_OPTIONS(.release = 3), &made, &err));
    expect(RDL_OK, rdl_reentrant_lock(st.client, "b", LOCK_OPTIONS(.release = RDL_RELEASE_CONFIRMED), &made, &err));
    rdl_lock_free(made);
    rdl_lock_free(lock);
    close_stage();
}
