/* SPDX-License-Identifier: MIT */
/* test_cached_work.c - processes that share a lock which each of them keeps (option cache_ms), while their connections
 * are killed, scripts forgotten and the server stands still: nobody meets anybody, and nobody goes without.
 */
#include "tests/live/contend.h"
#include "tests/live/kept.h"
#include "tests/support/workload.h"

static const char *const names[] = {"ledger", "journal"};

LIVE_SUITE(cached_work, 120);

/* It is given back again and again, being too old; the shortest wait gets it as none does. */
Test(cached_work, brief_wait_gets_what_nobody_else_wants)
{
    enum { GIVEN_BACK = 200, ANSWER_MS = 20 }; /* so long the answer to a first try is waited for, at least */
    rdl_metric_value_t given_back = {0};
    rdl_metrics_t *metrics;
    rdl_lock_t *lock;

    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    stage_open(&st, .client = OPTIONS(.metrics = metrics));
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.cache_ms = 2));
    while (given_back.sum < GIVEN_BACK) {
        int64_t start = now_ms();

        if (rdl_try_lock(lock, 1, RDL_LEASE_AUTO, &err) == RDL_OK)
            give(lock);
        else /* on a machine that stands still */
            cr_assert_geq(now_ms() - start, ANSWER_MS, "%s", err.message);
        rdl_metrics_get(metrics, RDL_M_KEPT_EXPIRED, &given_back);
    }
    rdl_lock_free(lock);
    st.client = rdl_client_close(st.client);
    cr_assert_null(rdl_metrics_free(metrics));
}

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

/* ---- by turns --------------------------------------------------------------------------------------------------- */

enum { CONTENDERS = 4, ALL_TURNS = 6000, LONG_MS = 60000 };

/* While their holds are recalled so soon that each asks the server for every take, too: then the lock is a plain one.
 */
Test(cached_work, clients_that_want_it_all_the_time_have_it_equally_often_and_a_release_wakes_one)
{
    rdl_client_t *clients[CONTENDERS];
    rdl_lock_t *locks[CONTENDERS];
    int64_t scripts;

    stage_open(&st);
    for (int i = 0; i < CONTENDERS; i++) {
        clients[i] = client_open(stage_uri(&st), NULL);
        locks[i] = reentrant(clients[i], NAME, LOCK_OPTIONS(.cache_ms = LONG_MS));
    }
    scripts = probe_calls(st.probe, "evalsha");
    expect_turns(locks, CONTENDERS, ALL_TURNS);
    for (int i = 0; i < CONTENDERS; i++) {
        rdl_lock_free(locks[i]);
        rdl_client_close(clients[i]);
    }
    scripts = probe_calls(st.probe, "evalsha") - scripts;
    cr_assert_leq(scripts, 3 * ALL_TURNS, "%" PRId64 " scripts: a take and a release each, and a few refusals",
                  scripts);
}

static void expect_in_line(int64_t count)
{
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "HGET redisson_lock__channel:{" NAME "} count") == count, SOON_MS));
}

/* Who stands in line does not try, so it cannot recall what another one is granted before it. */
Test(cached_work, hold_that_is_kept_is_recalled_by_who_stands_in_line_already)
{
    struct caller *second = caller_new(), *third = caller_new();
    rdl_client_t *others[2];
    rdl_lock_t *plain, *keeps, *waits;
    int64_t scripts;

    stage_open(&st);
    others[0] = client_open(stage_uri(&st), NULL);
    others[1] = client_open(stage_uri(&st), NULL);
    plain = reentrant(st.client, NAME, NULL);
    keeps = reentrant(others[0], NAME, LOCK_OPTIONS(.cache_ms = LONG_MS));
    waits = reentrant(others[1], NAME, NULL);
    for (int i = 0; i < 5; i++)
        make_idle(keeps); /* so often that the next take is one that is kept, too */
    take(plain);
    caller_lock(second, keeps, RDL_LEASE_AUTO);
    expect_in_line(1);
    caller_lock(third, waits, RDL_LEASE_AUTO);
    expect_in_line(2);
    scripts = probe_calls(st.probe, "evalsha");
    give(plain);
    expect_result(RDL_OK, second, SOON_MS);
    cr_assert_eq(probe_int(st.probe, "HLEN " NAME), 2, "its hold, and that it is wanted");
    caller_unlock(second, keeps);
    expect_result(RDL_OK, second, SOON_MS);
    expect_result(RDL_OK, third, SOON_MS);
    cr_assert_eq(probe_calls(st.probe, "evalsha") - scripts, 4, "two releases and two takes: it does not have to look");
    caller_unlock(third, waits);
    expect_result(RDL_OK, third, SOON_MS);
    caller_free(second);
    caller_free(third);
    rdl_lock_free(waits);
    rdl_lock_free(keeps);
    rdl_lock_free(plain);
    rdl_client_close(others[0]);
    rdl_client_close(others[1]);
}

/* ---- harm ------------------------------------------------------------------------------------------------------- */

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
