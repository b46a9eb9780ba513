/* SPDX-License-Identifier: MIT */
/* test_alloc.c - X6: whichever allocation fails, the call says so, and nothing leaks, crashes or stays locked.
 *
 * One story is told again and again, its n-th allocation failing, until a telling needs fewer than n. What fails is the
 * library's own memory, through its hooks; each call in the story may answer RDL_ENOMEM, and then the story goes on as
 * well as it can.
 */
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#define NAME "frugal"
#define LEASE_MS 30000
#define MAX_FAILURES 20000 /* a story has a few hundred allocations */
#define WAITERS 2          /* who sleeps has no record, but the first one's memory is kept */

LIVE_SUITE(alloc, 240);

static struct counting_alloc counting;
static rdl_client_t *rich; /* with the usual memory */

static rdl_client_t *open_counting(const rdl_allocator_t *hooks)
{
    rdl_client_t *client = NULL;
    int rc =
        rdl_client_open(server_uri(st.server), OPTIONS(.allocator = hooks, .connect_timeout_ms = 2000), &client, &err);

    cr_assert(rc == RDL_OK || rc == RDL_ENOMEM || rc == RDL_ECONN, "%s: %s", code_name(rc), err.message);
    cr_assert_eq(rc == RDL_OK, client != NULL);
    return client;
}

/* What an acquire may answer when memory is short: nothing but the truth. */
static bool took(int64_t rc)
{
    cr_assert(rc == RDL_OK || rc == RDL_ENOMEM || rc == RDL_ETIMEDOUT || rc == RDL_ECONN || rc == RDL_EUNKNOWN ||
                  rc == RDL_ENOQUORUM,
              "%s: %s", code_name(rc), err.message);
    return rc == RDL_OK;
}

/* Giving back must not need memory that was there when the lock was taken. */
static void give_back(rdl_lock_t *lock)
{
    int rc = rdl_unlock(lock, &err);

    cr_assert(rc == RDL_OK || rc == RDL_EUNKNOWN || rc == RDL_ECONN, "%s: %s", code_name(rc), err.message);
    expect(0, rdl_is_held(lock, &err));
}

static void give_back_async(rdl_lock_t *lock, rdl_owner_t *owner)
{
    struct outcome o = {0};

    expect(RDL_OK, rdl_unlock_async(lock, owner, outcome_note, &o, NULL, &err));
    expect(RDL_OK, outcome_wait(&o, SOON_MS));
}

/* The next whose call has ended, or NULL. */
static struct outcome *next_ended(struct outcome *outcomes, const bool *waits)
{
    for (int i = 0; i < WAITERS; i++)
        if (waits[i] && atomic_load(&outcomes[i].calls) > 0)
            return &outcomes[i];
    return NULL;
}

/* Waiters, with memory short, and a rival with as much as it wants. */
static void contend(rdl_client_t *client, rdl_lock_t *lock, rdl_lock_t *rival)
{
    rdl_owner_t *owners[WAITERS] = {NULL};
    struct outcome locked[WAITERS] = {0}, *ended;
    bool waits[WAITERS] = {false};
    int left = 0;

    expect(RDL_OK, rdl_try_lock(rival, SOON_MS, LEASE_MS, &err)); /* what was given up may be on its way back */
    (void)took(rdl_try_lock(lock, 30, LEASE_MS, &err));
    for (int i = 0; i < WAITERS; i++) {
        waits[i] =
            rdl_owner_new(client, &owners[i], &err) == RDL_OK &&
            rdl_try_lock_async(lock, owners[i], 2000, RDL_LEASE_AUTO, outcome_note, &locked[i], NULL, &err) == RDL_OK;
        left += waits[i];
    }
    expect(RDL_OK, rdl_unlock(rival, &err));
    for (; left > 0; left--) {
        cr_assert(WAIT_UNTIL((ended = next_ended(locked, waits)) != NULL, SOON_MS));
        waits[ended - locked] = false;
        if (took(outcome_wait(ended, SOON_MS)))
            give_back_async(lock, owners[ended - locked]);
        cr_assert_eq(atomic_load(&ended->calls), 1);
    }
    for (int i = 0; i < WAITERS; i++)
        rdl_owner_free(owners[i]);
}

static void tell(rdl_client_t *client, const struct kind *kind)
{
    rdl_lock_t *lock = NULL, *rival;
    int rc = kind->constructor(client, NAME, LOCK_OPTIONS(.fencing = RDL_FENCING_TIME), &lock, &err);

    cr_assert(rc == RDL_OK || rc == RDL_ENOMEM, "%s", code_name(rc));
    if (rc != RDL_OK)
        return;
    if (took(rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, &err))) {
        (void)rdl_extend(lock, 2 * LEASE_MS, &err);
        give_back(lock);
    }
    rival = kind->rival(rich, NAME, NULL);
    contend(client, lock, rival);
    rdl_lock_free(rival);
    lock_over(st.probe, lock);
}

/* Returns whether an allocation was refused. */
static bool tell_with_failure(const struct kind *kind, int64_t call, bool from_there_on)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_t *client;
    bool refused;

    if (from_there_on)
        counting_alloc_fail_from(&counting, call);
    else
        counting_alloc_fail_at(&counting, call);
    if ((client = open_counting(&hooks)) != NULL) {
        tell(client, kind);
        rdl_client_close(client);
    }
    refused = counting_alloc_refused(&counting) > 0;
    cr_assert_eq(counting_alloc_blocks(&counting), 0, "%s, allocation %" PRId64 " failing: %" PRId64 " blocks leak",
                 kind->type, call, counting_alloc_blocks(&counting));
    cr_assert(!from_there_on || stage_lines_end(&st), "who could not leave the line stands there for ever");
    cr_assert(stage_is_clean(&st, CLEAN_BOUND_MS), "%s, allocation %" PRId64 " failing: something is left", kind->type,
              call);
    counting_alloc_done(&counting);
    return refused;
}

static void open_server(void)
{
    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    rich = client_open(server_uri(st.server), NULL);
}

static void close_server(void)
{
    rdl_client_close(rich);
}

Test(alloc, any_single_failure_is_an_error_and_leaves_nothing)
{
    open_server();
    FOR_EACH_KIND(kind)
    {
        int64_t call = 1;

        while (tell_with_failure(kind, call, false)) {
            call++;
            cr_assert_lt(call, MAX_FAILURES);
        }
        cr_assert_gt(call, 10); /* the hooks are used */
    }
    close_server();
}

/* Memory that has run out and stays out. Steps grow, for most of the story is the same then, and each type takes
 * steps of its own, for most of it is the same for all. A waiter cannot leave its place in a line
 * then, which dies by itself: for the fair lock that is test_fair's. */
Test(alloc, memory_that_runs_out_for_good_is_an_error_and_leaves_nothing)
{
    open_server();
    FOR_EACH_KIND(kind)
    {
        int64_t call = 1 + (kind - kinds);

        if (kind->constructor == rdl_fair_lock)
            continue;
        while (tell_with_failure(kind, call, true)) {
            call += 4 + call / 20;
            cr_assert_lt(call, MAX_FAILURES);
        }
    }
    close_server();
}

/* As often as they were taken, and whoever is at it. */
Test(alloc, holds_of_all_types_are_given_back_without_memory)
{
    open_server();
    FOR_EACH_KIND(kind)
    {
        const int depth = kind->reentrant ? 3 : 1;
        rdl_allocator_t hooks = counting_alloc_init(&counting);
        rdl_client_t *client = open_counting(&hooks);
        rdl_lock_t *lock = kind->make(client, NAME, NULL);

        for (int i = 0; i < depth; i++)
            expect(RDL_OK, rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, &err));
        counting_alloc_fail_from(&counting, 1);
        for (int i = 0; i < depth; i++)
            expect(RDL_OK, rdl_unlock(lock, &err));
        expect(0, lock_keys(st.probe, NAME));
        lock_over(st.probe, lock);
        rdl_client_close(client);
        counting_alloc_done(&counting);
    }
    close_server();
}

/* Nor is what undoes them to need any: a take is given up, whose answer is on its way. */
Test(alloc, takes_of_all_types_are_undone_without_memory)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    struct caller *caller = caller_new();
    rdl_client_t *client;

    stage_open(&st, .proxied = true);
    client = client_open(stage_uri(&st), OPTIONS(.allocator = &hooks));
    for (const struct kind *kind = kinds; kind < kinds + single_kind_count; kind++) {
        rdl_lock_t *lock = kind->make(client, NAME, NULL);
        int reply;

        caller_try_lock(caller, lock, 0, LEASE_MS);
        expect_result(RDL_OK, caller, SOON_MS);
        caller_unlock(caller, lock);
        expect_result(RDL_OK, caller, SOON_MS);
        reply = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = kind->take, .contains = NAME);
        caller_try_lock(caller, lock, 200, LEASE_MS);
        cr_assert(proxy_wait(st.proxy, reply, 1, SOON_MS));
        counting_alloc_fail_from(&counting, 1);
        expect_result(RDL_EUNKNOWN, caller, SOON_MS);
        proxy_let_go(st.proxy, reply);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, CLEAN_BOUND_MS), "%s: not undone", kind->type);
        counting_alloc_fail_from(&counting, 0);
        lock_over(st.probe, lock);
    }
    rdl_client_close(client);
    counting_alloc_done(&counting);
    caller_free(caller);
}

/* Nor where none is answered, so that each call's memory is with its repeats when the next one begins. */
Test(alloc, unlocks_that_are_not_answered_need_no_memory)
{
    enum { DEPTH = 6 }; /* an owner's spare memory is not enough */
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_t *client = NULL;

    open_server();
    expect(RDL_OK, rdl_client_open(server_uri(st.server), OPTIONS(.allocator = &hooks, .command_timeout_ms = 200),
                                   &client, &err));
    FOR_EACH_KIND(kind)
    {
        rdl_lock_t *lock;

        if (kind->members == 0 || kind->votes)
            continue;
        lock = kind->make(client, NAME, NULL);
        for (int i = 0; i < DEPTH; i++)
            expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
        server_pause(st.server);
        counting_alloc_fail_from(&counting, 1);
        for (int i = 0; i < DEPTH; i++) {
            int rc = rdl_unlock(lock, &err);

            cr_assert(rc == RDL_EUNKNOWN || rc == RDL_ECONN, "unlock %d: %s", i, code_name(rc));
        }
        counting_alloc_fail_from(&counting, 0);
        server_resume(st.server);
        cr_assert(WAIT_UNTIL(lock_keys(st.probe, NAME) == 0, SOON_MS));
        rdl_lock_free(lock);
    }
    rdl_client_close(client);
    counting_alloc_done(&counting);
    close_server();
}

/* What telling takes is there from when somebody has asked, before the hold or while there is one. */
Test(alloc, losses_are_told_without_memory)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    struct losses losses, later;
    rdl_client_t *client;
    rdl_lock_t *lock, *again;

    losses_init(&losses);
    losses_init(&later);
    open_server();
    client = open_counting(&hooks);
    lock = reentrant(client, NAME, NULL);
    again = reentrant(client, NAME, NULL);
    for (int round = 1; round <= 2; round++) {
        expect(RDL_OK, rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, &err));
        if (round == 1) {
            counting_alloc_fail_from(&counting, 1);
            expect(RDL_ENOMEM, rdl_on_lost(again, losses_note, &later, &err));
            counting_alloc_fail_from(&counting, 0);
            expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
        }
        (void)probe_text(st.probe, "FLUSHALL");
        counting_alloc_fail_from(&counting, 1);
        expect(RDL_ELOST, rdl_extend(lock, LEASE_MS, &err));
        cr_assert(losses_wait(&losses, RDL_LOST, (unsigned)round, SOON_MS));
        expect(RDL_ELOST, rdl_unlock(lock, &err));
        counting_alloc_fail_from(&counting, 0);
    }
    cr_assert_null(losses_get(&later, RDL_LOST));
    rdl_lock_free(again);
    rdl_lock_free(lock);
    rdl_client_close(client);
    close_server();
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

/* design.md: no allocation in steady state. Of composites that is not said. */
Test(alloc, uncontended_pairs_allocate_nothing)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_t *client;

    open_server();
    client = open_counting(&hooks);
    FOR_EACH_SINGLE_KIND(kind)
    {
        rdl_lock_t *lock = kind->make(client, NAME, NULL);
        int64_t before = 0;

        for (int round = 0; round < 120; round++) {
            if (round == 20)
                before = counting_alloc_calls(&counting);
            expect(RDL_OK, rdl_try_lock(lock, SOON_MS, RDL_LEASE_AUTO, &err));
            expect(RDL_OK, rdl_unlock(lock, &err));
        }
        cr_assert_eq(counting_alloc_calls(&counting), before, "%s", kind->type);
        lock_over(st.probe, lock);
    }
    rdl_client_close(client);
    close_server();
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

/* ---- the loop's own memory -------------------------------------------------------------------------------------- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have a realloc of their own */

static _Atomic bool no_large_blocks;

void *__libc_realloc(void *block, size_t size);

/* libev asks the C library, and ends the process when there is nothing. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): in place of the C library's */
__attribute__((visibility("default"))) void *realloc(void *block, size_t size)
{
    return size >= 16384 && atomic_load(&no_large_blocks) ? NULL : __libc_realloc(block, size);
}

/* libev has a table by descriptors. The subscriber's connection, which comes with the first wait, has one here that is
 * far above those before it, with no memory for a larger table; nor is there any for another client. */
Test(alloc, X6_connection_needs_no_table_of_the_loops_and_a_client_says_so)
{
    struct caller *holder = caller_new();
    rdl_client_t *other = NULL;
    struct rlimit most;
    rdl_lock_t *lock;
    int fd;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    caller_try_lock(holder, lock, 0, LEASE_MS);
    expect_result(RDL_OK, holder, SOON_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &most), 0);
    most.rlim_cur = most.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &most);
    do
        fd = dup(STDERR_FILENO);
    while (fd >= 0 && fd < 3000);
    cr_assert_geq(fd, 3000);
    atomic_store(&no_large_blocks, true);
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 1500, LEASE_MS, &err));
    expect(RDL_ENOMEM, rdl_client_open(server_uri(st.server), NULL, &other, &err));
    atomic_store(&no_large_blocks, false);
    caller_unlock(holder, lock);
    expect_result(RDL_OK, holder, SOON_MS);
    caller_free(holder);
    rdl_lock_free(lock);
}

#endif
