/* SPDX-License-Identifier: MIT */
/* test_failover_work.c - work of many threads through failovers, and masters that hang or are cut off (scenarios.md,
 * C2, C6, X1).
 */
#include "tests/live/failover.h"
#include "tests/support/workload.h"

FAILOVER_SUITES();

/* ---- a workload through failovers ------------------------------------------------------------------------------- */

static struct workload *work;

static void goes_on(void)
{
    cr_assert(workload_goes_on(work, 100, FAILOVER_BOUND_MS));
}

static void begin_work(void)
{
    workload_begin(work, uri);
    goes_on();
}

/* What was done to the master of then is over, and no one else grants anything now. */
static void goes_on_in_calm(void)
{
    workload_calm(work);
    goes_on();
}

/* It begins later. */
static void start_work(void)
{
    static const char *const name = NAME;

    work = workload_start(&(struct workload_plan){.names = &name, .locks = 1, .processes = 2, .threads = 2});
}

/* Writes may have been lost, and whoever was overtaken was told. */
static struct workload_sum end_work(void)
{
    struct workload_sum sum;

    goes_on();
    sum = workload_stop(work);
    cr_assert_eq(sum.strange, 0,
                 "%" PRId64 " times two clashed and neither was told; %" PRId64 " refused, %" PRId64 " met",
                 sum.strange, sum.refused, sum.overlaps);
    return sum;
}

/* And but for those nobody met anybody. */
static void end_work_in_calm(void)
{
    struct workload_sum sum = end_work();

    cr_assert_eq(sum.amiss, 0, "%" PRId64 " times two clashed who had one master", sum.amiss);
}

TEST_EACH(C6_X1_work_goes_on_through_kill_and_failover_and_nobody_overlaps_unnoticed)
{
    start_work();
    begin_work();
    workload_harm(work);
    topology->kill(0);
    cr_assert(topology->wait_master(1));
    goes_on_in_calm();
    topology->start_again(0); /* it is made a replica */
    cr_assert(topology->wait_synced(0));
    goes_on();
    workload_harm(work);
    topology->failover();
    cr_assert(topology->wait_master(0));
    goes_on();
    cr_assert(topology->wait_synced(1)); /* until when it may have granted */
    workload_calm(work);
    end_work_in_calm();
}

/* The master answers nobody for a while; the probe is told when it is over. */
static struct probe *hang(const char *seconds)
{
    struct probe *p = topology->look(0);

    topology->hangs(0, true);
    probe_send(p, "DEBUG SLEEP %s", seconds);
    return p;
}

static void wait_awake(struct probe *p)
{
    const struct reply *said = probe_next(p, FAILOVER_BOUND_MS);

    cr_assert_not_null(said);
    cr_assert_str_eq(said->text, "OK");
    probe_close(p);
    topology->hangs(0, false);
}

static bool is_master(int which)
{
    struct probe *p = topology->look(which);
    bool master = strcmp(probe_ask(p, "ROLE")->items[0].text, "master") == 0;

    probe_close(p);
    return master;
}

#define BRIEF_S "0.2" /* nobody is given up for that */
#define LONG_S "8"    /* long before it is over there is another master */

TEST_EACH(C2_X1_master_that_hangs_briefly_goes_on_and_nobody_overlaps)
{
    struct workload_sum sum;

    start_work();
    begin_work();
    for (int i = 0; i < 3; i++) {
        wait_awake(hang(BRIEF_S));
        goes_on();
    }
    sum = end_work();
    if (is_master(1)) /* the machine stood still for longer */
        return;
    cr_assert_eq(sum.overlaps, 0);
    cr_assert_eq(sum.refused, 0);
}

/* When it wakes it takes itself for the master, and does what it was asked before. */
TEST_EACH(C2_X1_work_goes_on_past_a_master_that_hangs_until_it_is_replaced)
{
    struct probe *p;

    start_work();
    begin_work();
    workload_harm(work);
    p = hang(LONG_S);
    cr_assert(topology->wait_master(1));
    goes_on_in_calm();
    wait_awake(p);
    cr_assert(topology->wait_synced(0));
    end_work_in_calm();
}

TEST_EACH(C2_X1_work_goes_on_past_a_master_that_is_stopped_and_comes_back)
{
    start_work();
    begin_work();
    workload_harm(work);
    topology->pause(0);
    cr_assert(topology->wait_master(1));
    goes_on_in_calm();
    topology->resume(0);
    cr_assert(topology->wait_synced(0));
    end_work_in_calm();
}

/* The master can be cut off, and work goes on there. */
static void start_proxied(void)
{
    if (server_is_old())
        cr_skip_test("nodes of Redis 6.2 cannot be told from clients by the address that they come from");
    start_work();
    topology = &by_sentinels;
    sentinels = sentinels_start(&(struct sentinels_options){.proxied = true});
    uri = sentinels->uri;
    begin_work();
}

/* What was on its way to it arrives when it is no master any more. */
Test(sentinel, C2_X1_work_goes_on_past_a_master_that_nobody_reaches)
{
    start_proxied();
    workload_harm(work);
    proxy_freeze(sentinels->front, PROXY_BOTH_WAYS);
    cr_assert(topology->wait_master(1));
    goes_on_in_calm();
    proxy_thaw(sentinels->front, PROXY_BOTH_WAYS);
    cr_assert(topology->wait_synced(0));
    end_work_in_calm();
}

/* It goes on granting whatever it is asked. */
Test(sentinel, C2_X1_master_that_clients_alone_reach_is_left_for_its_successor)
{
    start_proxied();
    workload_harm(work);
    sentinels_isolate(sentinels, true);
    cr_assert(topology->wait_master(1));
    cr_assert(WAIT_UNTIL(proxy_open(sentinels->front) == 0, HEAL_MS));
    goes_on_in_calm();
    cr_assert(is_master(0), "nothing is shown");
    sentinels_isolate(sentinels, false);
    cr_assert(topology->wait_synced(0));
    end_work_in_calm();
}

/* ---- of locks that stay with their clients ---------------------------------------------------------------------- */

/* What a failover has lost is found by the cut that comes with it: nobody is let in to it any more. */
Test(sentinel, C6_X1_work_under_a_kept_lock_goes_on_through_kill_and_failover_and_nobody_overlaps_unnoticed)
{
    static const char *const name = NAME;
    const struct workload_plan plan = {.names = &name, .locks = 1, .processes = 2, .threads = 2, .cache_ms = 1000};

    work = workload_start(&plan);
    start(&by_sentinels);
    begin_work();
    workload_harm(work);
    topology->kill(0);
    cr_assert(topology->wait_master(1));
    goes_on_in_calm();
    topology->start_again(0);
    cr_assert(topology->wait_synced(0));
    goes_on();
    workload_harm(work);
    topology->failover();
    cr_assert(topology->wait_master(0));
    goes_on();
    cr_assert(topology->wait_synced(1));
    workload_calm(work);
    end_work_in_calm();
}

/* An idle one, which the new master has never heard of. */
Test(sentinel, C6_idle_lock_is_not_kept_past_its_master)
{
    rdl_client_t *other;
    rdl_lock_t *lock, *elsewhere;
    bool kept = false;

    start(&by_sentinels);
    client = client_open(uri, NULL);
    other = client_open(uri, NULL);
    lock = reentrant(client, NAME, LOCK_OPTIONS(.cache_ms = 60000));
    elsewhere = reentrant(other, NAME, NULL);
    cr_assert(topology->wait_synced(1));
    topology->cut_off();
    for (int i = 0; i < 1000 && !kept; i++) {
        expect(RDL_OK, rdl_try_lock(lock, FAILOVER_BOUND_MS, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        kept = ask(0, "HLEN " NAME) == 1;
    }
    cr_assert(kept, "it is never kept");
    topology->kill(0);
    topology->resume(1);
    cr_assert(topology->wait_master(1));
    expect(RDL_OK, rdl_try_lock(elsewhere, FAILOVER_BOUND_MS, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(lock, 100, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_unlock(elsewhere, &err));
    expect(RDL_OK, rdl_try_lock(lock, FAILOVER_BOUND_MS, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(elsewhere);
    rdl_client_close(other);
}
