/* SPDX-License-Identifier: MIT */
/* test_cluster_holds.c - holds on the shards of a cluster: renewed wherever they are, beside shards that are slow,
 * silent or gone, and where replicas confirm them (scenarios.md, W1, W6 and, on this topology, C1 and C7).
 */
#include "tests/live/in_cluster.h"

CLUSTER_SUITE();

#define CONFIRMED_MS 4500 /* a lease whose renewals replicas confirm */

/* ---- renewals --------------------------------------------------------------------------------------------------- */

#define HOLDS 60

static rdl_lock_t *hold[HOLDS];
static struct losses losses;

/* All slots apart, on the shards by turns. */
static void take_holds(void)
{
    losses_init(&losses);
    for (int i = 0; i < HOLDS; i++) {
        unsigned slot = cluster_first_slot(i % SHARDS) + (unsigned)i;

        hold[i] = reentrant(client, cluster_name(slot, 0).text, NULL);
        expect(RDL_OK, rdl_on_lost(hold[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_lock(hold[i], RDL_LEASE_AUTO, &err));
    }
}

static bool is_on(int i, int shard)
{
    return i % SHARDS == shard;
}

/* Nothing was lost but on the shard `but`. */
static void expect_held(int but)
{
    for (int i = 0; i < HOLDS; i++) {
        if (!is_on(i, but))
            expect(1, rdl_is_held(hold[i], &err));
    }
}

static void give_back(int but)
{
    for (int i = 0; i < HOLDS; i++) {
        if (!is_on(i, but))
            expect(RDL_OK, rdl_unlock(hold[i], &err));
        rdl_lock_free(hold[i]);
    }
}

Test(cluster, holds_on_all_shards_are_renewed)
{
    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    take_holds();
    let_pass_ms(2 * WATCHED_MS);
    expect_held(-1);
    cr_assert_eq(cluster_keys(cluster), HOLDS);
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    give_back(-1);
}

#define MANY 600
#define MANY_LEASE_MS 6000
#define LINE_MS 20

static void count_loss(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    atomic_uint *count = arg;

    (void)lock;
    (void)loss;
    atomic_fetch_add(count, 1);
}

/* 200 at each, no two in a slot: to renew them one after another would take 8 s. */
Test(cluster, W6_many_holds_behind_a_line_that_takes_its_time_are_renewed)
{
    static rdl_lock_t *lock[MANY];
    static atomic_uint endangered;

    start_cluster(&(struct cluster_options){.proxied = true, .patient = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = MANY_LEASE_MS));
    for (int i = 0; i < MANY; i++) {
        unsigned slot = cluster_first_slot(i % SHARDS) + (unsigned)i;

        lock[i] = reentrant(client, cluster_name(slot, 0).text, NULL);
        expect(RDL_OK, rdl_on_lost(lock[i], count_loss, &endangered, &err));
        expect(RDL_OK, rdl_lock(lock[i], RDL_LEASE_AUTO, &err));
    }
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, LINE_MS);
    let_pass_ms(2 * MANY_LEASE_MS);
    cr_assert_eq(atomic_load(&endangered), 0, "%u", atomic_load(&endangered));
    cr_assert_eq(cluster_keys(cluster), MANY);
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, 0);
    for (int i = 0; i < MANY; i++) {
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        rdl_lock_free(lock[i]);
    }
}

Test(cluster, N13_wait_of_a_millisecond_gets_what_is_free_on_each_shard_over_a_long_line)
{
    enum { EACH_WAY_MS = 150 /* so that it is patient for longer than a busy machine stands still */ };

    start_cluster(&(struct cluster_options){.proxied = true, .patient = true});
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, EACH_WAY_MS);
    for (int i = 0; i < SHARDS; i++) {
        int rc = RDL_ETIMEDOUT;

        for (int tries = 0; tries < 5 && rc != RDL_OK; tries++) { /* the machine does not stand still in each */
            rdl_client_t *first = client_open(cluster->uri, OPTIONS(.connections = 1));
            rdl_lock_t *lock = reentrant(first, cluster_name(cluster_first_slot(i), 0).text, NULL);

            if ((rc = rdl_try_lock(lock, 1, LEASE_MS, &err)) == RDL_OK)
                expect(RDL_OK, rdl_unlock(lock, &err));
            rdl_lock_free(lock);
            rdl_client_close(first);
        }
        cr_assert_eq(rc, RDL_OK, "%s", err.message);
    }
    for (int i = 0; i < SHARDS; i++)
        proxy_delay(cluster->front[i], PROXY_BOTH_WAYS, 0);
}

/* It answers nothing, and nobody takes its place. */
Test(cluster, W6_shard_that_is_silent_delays_no_call_and_no_renewal_of_others)
{
    rdl_lock_t *lock[SHARDS];
    int64_t began, ends;

    start(OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    for (int i = 0; i < SHARDS; i++)
        lock[i] = reentrant(client, cluster_name(cluster_first_slot(i), 1).text, NULL);
    take_holds();
    left_behind = true;
    cluster_pause(cluster, 0);
    for (ends = now_ms() + 2 * WATCHED_MS; now_ms() < ends;) {
        for (int i = 1; i < SHARDS; i++) {
            began = now_ms();
            expect(RDL_OK, rdl_try_lock(lock[i], 0, LEASE_MS, &err));
            expect(RDL_OK, rdl_unlock(lock[i], &err));
            cr_assert_lt(now_ms() - began, SLACK_MS);
        }
    }
    expect_held(0);
    cr_assert_eq(losses_count(&losses, RDL_LOST), HOLDS / SHARDS);
    began = now_ms();
    cr_assert_lt(rdl_try_lock(lock[0], 300, LEASE_MS, &err), 0);
    expect_between(200, now_ms() - began, 300 + SLACK_MS);
    cluster_resume(cluster, 0);
    expect(RDL_OK, rdl_try_lock(lock[0], SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock[0], &err));
    give_back(0);
    for (int i = 0; i < SHARDS; i++)
        rdl_lock_free(lock[i]);
}

Test(cluster, W1_holds_outlive_three_leases_after_a_master_of_others_has_died)
{
    start_cluster(&(struct cluster_options){.partial = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    take_holds();
    left_behind = true;
    cluster_kill(cluster, CLUSTER_REPLICA_OF(0));
    cluster_kill(cluster, 0);
    let_pass_ms(3 * WATCHED_MS);
    expect_held(0);
    cr_assert_eq(losses_count(&losses, RDL_LOST), HOLDS / SHARDS);
    give_back(0);
}

/* Of the lock's own master: the others are there. Who comes later joins the first to wait, and sends nothing. */
Test(cluster, T4_wait_that_ends_while_its_shard_is_away_says_so)
{
    enum { WAIT_MS = 3000 };

    start(NULL);
    left_behind = true;
    for (int i = 1; i < SHARDS; i++) {
        struct caller *first = caller_new(), *second = caller_new();
        rdl_lock_t *held = reentrant(rival, name[i].text, NULL), *wanted = reentrant(client, name[i].text, NULL);
        struct monitor *monitor = monitor_start(cluster->node[i]);

        expect(RDL_OK, rdl_try_lock(held, 0, LEASE_MS, &err));
        caller_try_lock(first, wanted, WAIT_MS, LEASE_MS);
        expect_sleeps(monitor, name[i].text);
        monitor_stop(monitor);
        caller_try_lock(second, wanted, WAIT_MS, LEASE_MS);
        let_pass_ms(200);
        cluster_kill(cluster, i);
        expect_result(RDL_ECONN, first, WAIT_MS + 2 * SOON_MS);
        expect_result(RDL_ECONN, second, WAIT_MS + 2 * SOON_MS);
        caller_free(first);
        caller_free(second);
        rdl_lock_free(wanted);
        rdl_lock_free(held);
    }
}

/* The nodes reach each other and are well. */
Test(cluster, W1_client_that_is_cut_off_from_one_master_loses_what_it_holds_there_alone_and_in_time)
{
    const unsigned there = HOLDS / SHARDS;
    rdl_lock_t *lock;
    int64_t cut;

    start_cluster(&(struct cluster_options){.proxied = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = WATCHED_MS));
    take_holds();
    cut = now_ms();
    cluster_bar_clients(cluster, 0, true);
    cr_assert(losses_wait(&losses, RDL_AT_RISK, there, WATCHED_MS));
    cr_assert(losses_wait(&losses, RDL_LOST, there, WATCHED_MS + SLACK_MS));
    cr_assert_lt(now_ms() - cut, WATCHED_MS + SLACK_MS);
    let_pass_ms(2 * WATCHED_MS);
    expect_held(0);
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), there);
    cr_assert_eq(losses_count(&losses, RDL_LOST), there);
    cr_assert_eq(cluster_master(cluster, cluster_first_slot(0)), 0);
    cluster_bar_clients(cluster, 0, false);
    lock = reentrant(client, cluster_name(cluster_first_slot(0), 1).text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, HEAL_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    give_back(0);
}

Test(cluster, C1_replicas_of_the_shard_acknowledge_or_the_hold_is_undone)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1000));

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        cluster_pause(cluster, CLUSTER_REPLICA_OF(i));
        expect(RDL_ENOREPLICAS, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert_not_null(strstr(err.message, "0 of 1 replicas"), "%s", err.message);
        cr_assert(WAIT_UNTIL(ask(i, "EXISTS %s", name[i].text) == 0, SOON_MS));
        cluster_resume(cluster, CLUSTER_REPLICA_OF(i));
        rdl_lock_free(lock);
    }
}

/* All on the first shard, in slots of their own, when its replica has confirmed them. */
static void take_confirmed_holds(void)
{
    losses_init(&losses);
    for (int i = 0; i < HOLDS; i++) {
        struct slot_name which = cluster_name(cluster_first_slot(0) + (unsigned)i, 0);

        hold[i] = reentrant(client, which.text, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1000));
        expect(RDL_OK, rdl_on_lost(hold[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(hold[i], SOON_MS, RDL_LEASE_AUTO, &err));
    }
}

/* One by one they would take longer than the lease: each a round trip, and another one to the replica. */
Test(cluster, holds_of_a_shard_that_replicas_confirm_are_renewed_together)
{
    start_cluster(&(struct cluster_options){.proxied = true, .patient = true});
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = CONFIRMED_MS));
    take_confirmed_holds();
    proxy_delay(cluster->front[0], PROXY_BOTH_WAYS, 40);
    cr_assert_not(losses_wait(&losses, RDL_AT_RISK, 1, 3 * CONFIRMED_MS));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 0);
    proxy_delay(cluster->front[0], PROXY_BOTH_WAYS, 0);
    give_back(-1);
}

/* Of a batch some scripts are for elsewhere, or all are unknown, and no hold is the worse for it. */
Test(cluster, holds_that_replicas_confirm_are_renewed_while_slots_move_and_scripts_are_forgotten)
{
    unsigned first = cluster_first_slot(0);
    struct probe *p;

    start(OPTIONS(.watchdog_lease_ms = CONFIRMED_MS));
    take_confirmed_holds();
    cluster_begin_move(cluster, first, 2);
    cr_assert_eq(cluster_move_keys(cluster, first, 2), 1);
    for (unsigned i = 1; i < HOLDS; i += 2)
        cluster_move(cluster, first + i, 1);
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "SCRIPT FLUSH");
    probe_close(p);
    cr_assert_not(losses_wait(&losses, RDL_LOST, 1, 2 * CONFIRMED_MS));
    cluster_end_move(cluster, first, 2);
    cr_assert_not(losses_wait(&losses, RDL_LOST, 1, CONFIRMED_MS));
    cr_assert_eq(losses_count(&losses, RDL_AT_RISK), 0);
    give_back(-1);
}

Test(cluster, C7_shard_that_forbids_waiting_is_an_error_there_alone_unless_the_lock_goes_on_without)
{
    rdl_lock_t *lenient[SHARDS];
    struct probe *p;

    start(NULL);
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "ACL SETUSER %s -wait", server_user(cluster->node[0]));
    limited = true;
    probe_close(p);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, LOCK_OPTIONS(.replicas = 1, .replicas_timeout_ms = 1000));

        expect(i == 0 ? RDL_ENOREPLICAS : RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert(i != 0 || strstr(err.message, "NOPERM") != NULL, "%s", err.message);
        cr_assert(WAIT_UNTIL(ask(i, "EXISTS %s", name[i].text) == (i == 0 ? 0 : 1), SOON_MS));
        expect(i == 0 ? RDL_ENOTOWNER : RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
    }
    for (int i = 0; i < SHARDS; i++) {
        lenient[i] = reentrant(rival, name[i].text, LOCK_OPTIONS(.replicas = 1, .replicas_if_able = true));
        expect(RDL_OK, rdl_try_lock(lenient[i], 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lenient[i], &err));
    }
    cluster_pause(cluster, CLUSTER_REPLICA_OF(0));
    cluster_pause(cluster, CLUSTER_REPLICA_OF(1));
    expect(RDL_OK, rdl_try_lock(lenient[0], 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lenient[0], &err));
    expect(RDL_ENOREPLICAS, rdl_try_lock(lenient[1], 0, LEASE_MS, &err));
    cluster_resume(cluster, CLUSTER_REPLICA_OF(0));
    cluster_resume(cluster, CLUSTER_REPLICA_OF(1));
    for (int i = 0; i < SHARDS; i++)
        rdl_lock_free(lenient[i]);
}
