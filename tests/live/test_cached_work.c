/* SPDX-License-Identifier: MIT */
/* test_cached_work.c - processes that share a lock which each of them keeps (option cache_ms), while their connections
 * are killed, scripts forgotten and the server stands still: nobody meets anybody, and nobody goes without.
 */
#include "tests/live/live.h"
#include "tests/support/workload.h"

static const char *const names[] = {"ledger", "journal"};

LIVE_SUITE(cached_work, 120);

static struct workload *work;

static void begin(int64_t cache_ms)
{
    const struct workload_plan plan = {.names = names, .locks = 2, .processes = 3, .threads = 2, .cache_ms = cache_ms};

    work = workload_start(&plan);
    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    workload_begin(work, server_uri(st.server));
    cr_assert(workload_goes_on(work, 50, 20000));
}

static void expect_nobody_met(void)
{
    struct workload_sum sum;

    cr_assert(workload_goes_on(work, 50, 20000));
    sum = workload_stop(work);
    cr_assert_eq(sum.overlaps, 0, "%" PRId64 " times two met, of %" PRId64 " rounds", sum.overlaps, sum.rounds);
    cr_assert_gt(sum.turns, 10);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, CLEAN_BOUND_MS));
}

static void harm(const char *command)
{
    for (int i = 0; i < 20; i++) {
        (void)probe_ask(st.probe, "%s", command);
        cr_assert(workload_goes_on(work, 10, 20000));
    }
}

Test(cached_work, subscriptions_that_are_killed_bring_nobody_together)
{
    begin(1000);
    harm("CLIENT KILL TYPE pubsub");
    expect_nobody_met();
}

Test(cached_work, connections_that_are_killed_bring_nobody_together)
{
    begin(50);
    harm("CLIENT KILL TYPE normal SKIPME yes");
    expect_nobody_met();
}

Test(cached_work, scripts_that_are_forgotten_bring_nobody_together)
{
    begin(200);
    harm("SCRIPT FLUSH");
    expect_nobody_met();
}

/* Shorter than a lease. */
Test(cached_work, server_that_stands_still_now_and_then_brings_nobody_together)
{
    begin(1000);
    for (int i = 0; i < 5; i++) {
        server_pause(st.server);
        let_pass_ms(300);
        server_resume(st.server);
        cr_assert(workload_goes_on(work, 10, 20000));
    }
    expect_nobody_met();
}
