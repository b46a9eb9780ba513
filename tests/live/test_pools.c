/* SPDX-License-Identifier: MIT */
/* test_pools.c - what semaphores, permit semaphores and latches do alike at the edges, by a table of the three.
 *
 * Each is here a gate: closed when its only permit is out, or its count is not down, and open otherwise. Whoever passes
 * may have something to give back. What a type has of its own is in test_semaphore, test_permits and test_latch. */
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "gate"
#define LEASE_MS 30000

LIVE_SUITE(pools, 120);

/* ---- the three -------------------------------------------------------------------------------------------------- */

struct gate {
    const char *type;
    const char *ask; /* command of a try to pass, in lower case */
    int64_t (*make)(rdl_client_t *client, void **ret_gate, rdl_err_t *e);
    int64_t (*set_up)(void *gate, rdl_err_t *e); /* once at a server: open */
    int64_t (*close)(void *gate, rdl_err_t *e);
    int64_t (*open)(void *gate, rdl_err_t *e);
    int64_t (*pass)(void *gate, int64_t wait_ms, rdl_err_t *e);
    int (*pass_async)(void *gate, int64_t wait_ms, struct outcome *o, rdl_op_t **ret_op, rdl_err_t *e);
    int64_t (*leave)(void *gate, rdl_err_t *e);
    void *(*free)(void *gate);
    bool (*is_open)(void);
};

/* By whose ids the gate is closed, and passed; no server knows this one. */
static rdl_permit_t out = {"0123456789abcdef0123456789abcdef"}, mine;

#define MAKE(type_t, make, options_t)                                                                                  \
    static int64_t make##_make(rdl_client_t *client, void **ret_gate, rdl_err_t *e)                                    \
    {                                                                                                                  \
        type_t *gate = NULL;                                                                                           \
        int rc = make(client, NAME, NULL, &gate, e);                                                                   \
                                                                                                                       \
        *ret_gate = gate;                                                                                              \
        return rc;                                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    static void *make##_done(void *gate)                                                                               \
    {                                                                                                                  \
        return make##_free(gate);                                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    static void make##_note(type_t *gate, int64_t result, const rdl_err_t *e, void *outcome)                           \
    {                                                                                                                  \
        (void)gate;                                                                                                    \
        outcome_note(NULL, result, e, outcome);                                                                        \
    }

MAKE(rdl_semaphore_t, rdl_semaphore, rdl_semaphore_options_t)
MAKE(rdl_permit_semaphore_t, rdl_permit_semaphore, rdl_semaphore_options_t)
MAKE(rdl_latch_t, rdl_latch, rdl_latch_options_t)

static int64_t semaphore_set_up(void *gate, rdl_err_t *e)
{
    return rdl_semaphore_try_set_permits(gate, 1, e);
}

static int64_t semaphore_take(void *gate, rdl_err_t *e)
{
    return rdl_semaphore_try_acquire(gate, 1, 0, e);
}

static int64_t semaphore_give(void *gate, rdl_err_t *e)
{
    return rdl_semaphore_release(gate, 1, e);
}

static int64_t semaphore_pass(void *gate, int64_t wait_ms, rdl_err_t *e)
{
    return rdl_semaphore_try_acquire(gate, 1, wait_ms, e);
}

static int semaphore_pass_async(void *gate, int64_t wait_ms, struct outcome *o, rdl_op_t **ret_op, rdl_err_t *e)
{
    return rdl_semaphore_try_acquire_async(gate, NULL, 1, wait_ms, rdl_semaphore_note, o, ret_op, e);
}

static bool semaphore_is_open(void)
{
    return probe_int(st.probe, "GET " NAME) == 1;
}

static int64_t permits_set_up(void *gate, rdl_err_t *e)
{
    return rdl_permit_semaphore_try_set_permits(gate, 1, e);
}

static int64_t permits_take(void *gate, rdl_err_t *e)
{
    return rdl_permit_semaphore_try_acquire(gate, 1, 0, LEASE_MS, &out, e);
}

static int64_t permits_give(void *gate, rdl_err_t *e)
{
    return rdl_permit_semaphore_release(gate, 1, &out, e);
}

static int64_t permits_pass(void *gate, int64_t wait_ms, rdl_err_t *e)
{
    return rdl_permit_semaphore_try_acquire(gate, 1, wait_ms, LEASE_MS, &mine, e);
}

static int permits_pass_async(void *gate, int64_t wait_ms, struct outcome *o, rdl_op_t **ret_op, rdl_err_t *e)
{
    return rdl_permit_semaphore_try_acquire_async(gate, NULL, 1, wait_ms, LEASE_MS, &mine, rdl_permit_semaphore_note, o,
                                                  ret_op, e);
}

static int64_t permits_leave(void *gate, rdl_err_t *e)
{
    return rdl_permit_semaphore_release(gate, 1, &mine, e);
}

static bool permits_is_open(void)
{
    return probe_int(st.probe, "GET " NAME) == 1 && probe_int(st.probe, "ZCARD {" NAME "}:timeout") == 0;
}

static int64_t latch_set_up(void *gate, rdl_err_t *e)
{
    return rdl_latch_count(gate, e);
}

static int64_t latch_close(void *gate, rdl_err_t *e)
{
    return rdl_latch_try_set_count(gate, 1, e);
}

static int64_t latch_open(void *gate, rdl_err_t *e)
{
    return rdl_latch_count_down(gate, e);
}

static int64_t latch_pass(void *gate, int64_t wait_ms, rdl_err_t *e)
{
    return rdl_latch_await(gate, wait_ms, e);
}

static int latch_pass_async(void *gate, int64_t wait_ms, struct outcome *o, rdl_op_t **ret_op, rdl_err_t *e)
{
    return rdl_latch_await_async(gate, NULL, wait_ms, rdl_latch_note, o, ret_op, e);
}

static int64_t nothing_to_leave(void *gate, rdl_err_t *e)
{
    (void)gate;
    (void)e;
    return RDL_OK;
}

static bool latch_is_open(void)
{
    return probe_int(st.probe, "EXISTS " NAME) == 0;
}

static const struct gate gates[] = {
    {
        .type = "semaphore",
        .ask = "evalsha",
        .make = rdl_semaphore_make,
        .set_up = semaphore_set_up,
        .close = semaphore_take,
        .open = semaphore_give,
        .pass = semaphore_pass,
        .pass_async = semaphore_pass_async,
        .leave = semaphore_give,
        .free = rdl_semaphore_done,
        .is_open = semaphore_is_open,
    },
    {
        .type = "permit semaphore",
        .ask = "evalsha",
        .make = rdl_permit_semaphore_make,
        .set_up = permits_set_up,
        .close = permits_take,
        .open = permits_give,
        .pass = permits_pass,
        .pass_async = permits_pass_async,
        .leave = permits_leave,
        .free = rdl_permit_semaphore_done,
        .is_open = permits_is_open,
    },
    {
        .type = "latch",
        .ask = "get",
        .make = rdl_latch_make,
        .set_up = latch_set_up,
        .close = latch_close,
        .open = latch_open,
        .pass = latch_pass,
        .pass_async = latch_pass_async,
        .leave = nothing_to_leave,
        .free = rdl_latch_done,
        .is_open = latch_is_open,
    },
};

#define FOR_EACH_GATE(g) for (const struct gate *g = gates; g < gates + sizeof gates / sizeof gates[0]; g++)

/* A call that succeeds, whatever number it returns. */
#define expect_done(call)                                                                                              \
    do {                                                                                                               \
        int64_t expect_done_ = (call);                                                                                 \
        cr_assert_geq(expect_done_, 0, "%s: %s: %s", #call, code_name(expect_done_), err.message);                     \
    } while (0)

static void *make(const struct gate *g, rdl_client_t *client)
{
    void *gate = NULL;

    expect_done(g->make(client, &gate, &err));
    return gate;
}

/* What a test has at a time: one gate through the stage's client, and its rival through another, next to the server. */
static rdl_client_t *other;
static void *near, *far;

static void begin(const struct gate *g)
{
    near = make(g, other);
    far = make(g, st.client);
    expect_done(g->set_up(near, &err));
}

static void end(const struct gate *g)
{
    cr_assert(WAIT_UNTIL(g->is_open() && probe_channels(st.probe) == 0, SOON_MS), "%s", g->type);
    g->free(near);
    g->free(far);
    (void)probe_text(st.probe, "FLUSHDB");
}

static void open_stage(bool proxied, const rdl_client_options_t *options)
{
    stage_open(&st, .proxied = proxied, .client = options);
    other = client_open(server_uri(st.server), NULL);
    left_behind = true; /* guards go by themselves */
}

/* ---- giving up, and bad input ----------------------------------------------------------------------------------- */

/* T4, T9 */
Test(pools, T4_giving_up_is_exact_and_names_the_gate_and_the_server)
{
    enum { WAIT_MS = 1500 };

    open_stage(false, NULL);
    FOR_EACH_GATE(g)
    {
        int64_t start;

        begin(g);
        expect_done(g->close(near, &err));
        start = now_us();
        expect(RDL_ETIMEDOUT, g->pass(far, WAIT_MS, &err));
        expect_between(WAIT_MS * 1000, now_us() - start, (WAIT_MS + SLACK_MS) * 1000);
        expect_err_names(&err, RDL_ETIMEDOUT, NAME);
        cr_assert_str_eq(err.server + strlen("unix:"), stage_place(&st));
        expect_done(g->open(near, &err));
        end(g);
    }
    rdl_client_close(other);
}

/* T15, T9 */
Test(pools, T15_unreachable_server_is_a_bounded_failure_that_names_it)
{
    enum { WAIT_MS = 150 };

    open_stage(true, OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 20));
    FOR_EACH_GATE(g)
    {
        int64_t start, rc;

        begin(g);
        expect(RDL_OK, g->pass(far, 0, &err));
        expect_done(g->leave(far, &err));
        proxy_refuse(st.proxy, true);
        proxy_cut(st.proxy, PROXY_ALL);
        start = now_ms();
        rc = g->pass(far, WAIT_MS, &err);
        expect_between(0, now_ms() - start, WAIT_MS + SLACK_MS);
        cr_assert(rc == RDL_ECONN || rc == RDL_EUNKNOWN, "%s: %s", g->type, code_name(rc));
        expect_err_names(&err, rc, NAME);
        cr_assert_str_eq(err.server + strlen("unix:"), stage_place(&st));
        proxy_refuse(st.proxy, false);
        expect(RDL_OK, g->pass(far, SOON_MS, &err));
        expect_done(g->leave(far, &err));
        end(g);
    }
    rdl_client_close(other);
}

/* T12 */
Test(pools, T12_null_and_closed_handles_are_errors_and_no_crash)
{
    open_stage(false, NULL);
    FOR_EACH_GATE(g)
    {
        void *gate = NULL;
        rdl_client_t *closing = client_open(stage_uri(&st), NULL);

        expect(RDL_EINVAL, g->make(NULL, &gate, &err));
        cr_assert_null(gate);
        expect(RDL_EINVAL, g->pass(NULL, 0, &err));
        expect(RDL_EINVAL, g->pass_async(NULL, 0, NULL, NULL, &err));
        expect(RDL_EINVAL, g->close(NULL, &err));
        expect(RDL_EINVAL, g->open(NULL, &err));
        expect(RDL_EINVAL, g->set_up(NULL, &err));
        cr_assert_null(g->free(NULL));
        gate = make(g, closing);
        rdl_client_close(closing);
        expect(RDL_ECLOSED, g->pass(gate, 0, &err));
        expect(RDL_ECLOSED, g->pass_async(gate, 0, NULL, NULL, &err));
        expect(RDL_ECLOSED, g->close(gate, &err));
        expect(RDL_ECLOSED, g->open(gate, &err));
        cr_assert_null(g->free(gate));
    }
    rdl_client_close(other);
}

/* ---- processes and threads that go ------------------------------------------------------------------------------ */

/* Status 0: everything inherited said that it is. */
static int ask_inherited(const struct gate *g)
{
    bool well = g->pass(far, 100, NULL) == RDL_EFORK && g->close(far, NULL) == RDL_EFORK &&
                g->open(far, NULL) == RDL_EFORK && g->pass_async(far, 0, NULL, NULL, NULL) == RDL_EFORK &&
                g->free(far) == NULL && rdl_client_close(st.client) == NULL;

    return well ? 0 : 1;
}

/* X4, while the parent waits. */
Test(pools, X4_child_gets_errors_and_the_parents_wait_goes_on)
{
    open_stage(false, NULL);
    FOR_EACH_GATE(g)
    {
        struct outcome o = {0};
        int status = -1;
        pid_t child;

        begin(g);
        expect_done(g->close(near, &err));
        expect(RDL_OK, g->pass_async(far, 20000, &o, NULL, &err));
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
        if ((child = fork()) == 0)
            _exit(ask_inherited(g));
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "%s: status %d", g->type, status);
        cr_assert_eq(atomic_load(&o.calls), 0);
        expect_done(g->open(near, &err));
        expect(RDL_OK, outcome_wait(&o, WOKEN_MS));
        expect_done(g->leave(far, &err));
        end(g);
    }
    rdl_client_close(other);
}

static const struct gate *passed;

static int64_t pass_now(void *gate, rdl_err_t *e)
{
    return passed->pass(gate, 0, e);
}

/* X5: nobody's thread owns a permit. It stays out, and whoever knows of it gives it back. */
Test(pools, X5_permits_outlive_the_thread_that_took_them)
{
    open_stage(false, NULL);
    FOR_EACH_GATE(g)
    {
        struct caller *caller = caller_new();

        begin(g);
        passed = g;
        caller_call(caller, pass_now, far);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_free(caller);
        cr_assert_eq(g->is_open(), g->leave == nothing_to_leave, "%s", g->type);
        expect_done(g->leave(far, &err));
        end(g);
    }
    rdl_client_close(other);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static struct counting_alloc counting;

static bool passed_through(int64_t rc)
{
    cr_assert(rc == RDL_OK || rc == RDL_ENOMEM || rc == RDL_ECONN || rc == RDL_EUNKNOWN || rc == RDL_ETIMEDOUT,
              "%s: %s", code_name(rc), err.message);
    return rc == RDL_OK;
}

/* Only one allocation fails, so the second time it works. */
static void leave_with(const struct gate *g, void *gate)
{
    int64_t rc = g->leave(gate, &err);

    if (rc == RDL_ENOMEM)
        rc = g->leave(gate, &err);
    cr_assert(rc >= 0 || rc == RDL_EUNKNOWN || rc == RDL_ECONN, "%s: %s", code_name(rc), err.message);
}

static void tell(const struct gate *g, rdl_client_t *client)
{
    struct outcome o = {0};
    void *gate = NULL;

    if (!passed_through(g->make(client, &gate, &err)))
        return;
    if (passed_through(g->pass(gate, 2000, &err)))
        leave_with(g, gate);
    cr_assert(WAIT_UNTIL(g->is_open(), SOON_MS), "%s", g->type);
    expect_done(g->close(near, &err));
    if (g->pass_async(gate, 2000, &o, NULL, &err) == RDL_OK) {
        expect_done(g->open(near, &err));
        if (passed_through(outcome_wait(&o, SOON_MS)))
            leave_with(g, gate);
    } else {
        expect_done(g->open(near, &err));
    }
    g->free(gate);
}

/* Returns whether an allocation was refused. */
static bool tell_with_failure(const struct gate *g, int64_t call)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_t *client = NULL;
    bool refused;

    counting_alloc_fail_at(&counting, call);
    if (passed_through(rdl_client_open(server_uri(st.server), OPTIONS(.allocator = &hooks), &client, &err))) {
        tell(g, client);
        rdl_client_close(client);
    }
    refused = counting_alloc_refused(&counting) > 0;
    cr_assert_eq(counting_alloc_blocks(&counting), 0, "%s, allocation %" PRId64 " failing: %" PRId64 " blocks leak",
                 g->type, call, counting_alloc_blocks(&counting));
    cr_assert(WAIT_UNTIL(g->is_open() && probe_channels(st.probe) == 0, SOON_MS), "%s, allocation %" PRId64 " failing",
              g->type, call);
    counting_alloc_done(&counting);
    return refused;
}

/* X6 */
Test(pools, X6_any_allocation_that_fails_is_an_error_and_leaves_nothing_taken)
{
    open_stage(false, NULL);
    FOR_EACH_GATE(g)
    {
        int64_t call = 1;

        begin(g);
        while (tell_with_failure(g, call))
            call++;
        cr_assert_gt(call, 10); /* the hooks are used */
        end(g);
    }
    rdl_client_close(other);
}

/* ---- wake-ups --------------------------------------------------------------------------------------------------- */

/* Q6 */
Test(pools, Q6_refusal_that_a_message_has_overtaken_puts_nobody_to_sleep)
{
    open_stage(true, NULL);
    FOR_EACH_GATE(g)
    {
        struct outcome o = {0};
        int refusal, message;

        begin(g);
        expect_done(g->pass(far, 0, &err)); /* the server knows the scripts */
        expect_done(g->leave(far, &err));
        expect_done(g->close(near, &err));
        refusal = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = g->ask, .contains = NAME,
                           .nth = 2);
        message = proxy_on(st.proxy, .action = PROXY_WATCH, .part = PROXY_MESSAGE, .contains = NAME);
        expect(RDL_OK, g->pass_async(far, 15000, &o, NULL, &err));
        cr_assert(proxy_wait(st.proxy, refusal, 1, SOON_MS), "%s", g->type);
        expect_done(g->open(near, &err));
        cr_assert(proxy_wait(st.proxy, message, 1, SOON_MS), "%s", g->type);
        let_pass_ms(20); /* the message is with the client */
        proxy_let_go(st.proxy, refusal);
        expect(RDL_OK, outcome_wait(&o, WOKEN_MS)); /* it would look by itself after 5 s */
        expect_done(g->leave(far, &err));
        end(g);
    }
    rdl_client_close(other);
}

/* Q6: who sleeps while the subscription is cut hears of what it has missed. */
Test(pools, Q6_waiter_whose_subscription_is_cut_as_it_opens_passes)
{
    open_stage(true, OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 20));
    FOR_EACH_GATE(g)
    {
        struct outcome o = {0};
        int64_t calls;

        begin(g);
        expect_done(g->close(near, &err));
        calls = probe_calls(st.probe, g->ask);
        expect(RDL_OK, g->pass_async(far, 15000, &o, NULL, &err));
        expect_asleep_at(st.probe, false, g->ask, calls, 2, 1);
        proxy_refuse(st.proxy, true);
        proxy_cut(st.proxy, PROXY_SUBSCRIBERS);
        cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
        expect_done(g->open(near, &err));
        proxy_refuse(st.proxy, false);
        expect(RDL_OK, outcome_wait(&o, WOKEN_MS)); /* not after 5 s, by the hint */
        expect_done(g->leave(far, &err));
        end(g);
    }
    rdl_client_close(other);
}

/* A4, Q6: one of two that wait is canceled at any moment about the opening. */
Test(pools, A4_canceled_at_any_moment_leaves_nothing_and_takes_no_wake_up_along)
{
    enum { ROUNDS = 120 };

    open_stage(false, NULL);
    FOR_EACH_GATE(g)
    {
        begin(g);
        for (int round = 0; round < ROUNDS; round++) {
            struct outcome first = {0}, second = {0};
            rdl_op_t *op = NULL;
            int64_t rc, when;

            expect_done(g->close(near, &err));
            expect(RDL_OK, g->pass_async(far, RDL_WAIT_FOREVER, &first, &op, &err));
            expect(RDL_OK, g->pass_async(far, 10000, &second, NULL, &err));
            if (round % 2 == 0)
                cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
            expect_done(g->open(near, &err));
            for (when = now_us() + round * 2; now_us() < when;)
                ;
            rdl_op_cancel(op);
            rc = outcome_wait(&first, SOON_MS);
            cr_assert(rc == RDL_OK || rc == RDL_ECANCELED, "%s: %s", g->type, code_name(rc));
            if (rc == RDL_OK)
                expect_done(g->leave(far, &err));
            expect(RDL_OK, outcome_wait(&second, WOKEN_MS));
            expect_done(g->leave(far, &err));
            rdl_op_free(op);
            cr_assert(WAIT_UNTIL(g->is_open(), SOON_MS), "%s, round %d", g->type, round);
        }
        end(g);
    }
    rdl_client_close(other);
}

/* ---- what a call leaves behind, and how long it waits (test_returned has it of locks) --------------------------- */

struct pass {
    const struct gate *gate;
    int64_t wait_ms;
};

static int64_t pass_as(void *pass, rdl_err_t *e)
{
    const struct pass *p = pass;

    return p->gate->pass(far, p->wait_ms, e);
}

/* A waiter is let in, is not told, and gives up: its undo is on its way when the next one comes. A latch has nothing to
 * undo. */
Test(pools, N10_permits_that_nobody_heard_of_are_not_in_the_way_of_the_next_take)
{
    struct caller *a = caller_new();

    open_stage(true, NULL);
    FOR_EACH_GATE(g)
    {
        struct pass waits = {g, 800}, tries = {g, 0};
        int reply, undo;
        int64_t calls;
        uint64_t before;

        if (strcmp(g->type, "latch") == 0)
            continue;
        begin(g);
        expect(RDL_OK, g->pass(far, 0, &err)); /* the server knows the scripts */
        expect_done(g->leave(far, &err));
        expect_done(g->close(near, &err));
        calls = probe_calls(st.probe, g->ask);
        caller_call(a, pass_as, &waits);
        expect_asleep_at(st.probe, false, g->ask, calls, 2, 1);
        reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
        undo = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVAL", .contains = NAME);
        expect_done(g->open(near, &err));
        expect_result(RDL_EUNKNOWN, a, SOON_MS);
        cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS), "%s", g->type);
        proxy_let_go(st.proxy, reply);
        before = proxy_requests(st.proxy);
        caller_call(a, pass_as, &tries);
        (void)WAIT_UNTIL(proxy_requests(st.proxy) > before || caller_idle(a), 300);
        proxy_let_go(st.proxy, undo);
        expect_result(RDL_OK, a, SOON_MS);
        expect_done(g->leave(far, &err));
        end(g);
    }
    caller_free(a);
    rdl_client_close(other);
}

Test(pools, N13_wait_of_a_millisecond_gets_what_is_free_over_a_long_line)
{
    open_stage(true, NULL);
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 100); /* a first try is waited for four times as long as the line takes */
    FOR_EACH_GATE(g)
    {
        begin(g);
        for (int64_t wait_ms = 0; wait_ms <= 1; wait_ms++) { /* how long it takes is known from the first on */
            expect(RDL_OK, g->pass(far, wait_ms, &err));
            expect_done(g->leave(far, &err));
        }
        end(g);
    }
    proxy_delay(st.proxy, PROXY_BOTH_WAYS, 0);
    rdl_client_close(other);
}

Test(pools, N9_outage_of_who_is_asleep_begins_when_the_server_dies)
{
    enum { OUTAGE_MS = 2000, MOST_MS = 4500 /* of the 5 s after which everybody looks again anyway */ };
    struct caller *a = caller_new();

    FOR_EACH_GATE(g)
    {
        struct pass waits = {g, RDL_WAIT_FOREVER};
        int64_t calls, killed_at;

        open_stage(false, OPTIONS(.outage_timeout_ms = OUTAGE_MS));
        begin(g);
        expect_done(g->close(near, &err));
        calls = probe_calls(st.probe, g->ask);
        caller_call(a, pass_as, &waits);
        expect_asleep_at(st.probe, false, g->ask, calls, 2, 1);
        g->free(near);
        rdl_client_close(other);
        killed_at = now_us();
        server_kill(st.server);
        expect_result(RDL_ECONN, a, 2 * SOON_MS);
        expect_between(OUTAGE_MS, (caller_ended_us(a) - killed_at) / 1000, MOST_MS);
        g->free(far);
        server_start_again(st.server);
        live_again();
    }
    caller_free(a);
}
