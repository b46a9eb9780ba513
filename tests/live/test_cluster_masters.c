/* SPDX-License-Identifier: MIT */
/* test_cluster_masters.c - masters of a cluster that are replaced: whose word counts, how soon the new one is known,
 * and work that goes on through kills, failovers and moved slots (scenarios.md, C2, C5, C6 and X1). test_failover has
 * what becomes of single holds and waiters.
 */
#include "tests/live/in_cluster.h"
#include "tests/support/workload.h"

CLUSTER_SUITE();

/* ---- whose word counts ------------------------------------------------------------------------------------------ */

static atomic_uint followed; /* how often a shard's master was said to be node 0 */

/* "cluster HOST:PORT at HOST:PORT": that is where connections of a shard go from now on. */
static void note_place(rdl_log_level_t level, const char *line, void *arg)
{
    char place[64];
    const char *at;

    (void)arg;
    (void)snprintf(place, sizeof place, " at 127.0.0.1:%d", cluster->port[0]);
    if (level == RDL_LOG_INFO && (at = strstr(line, place)) != NULL && at[strlen(place)] == '\0')
        atomic_fetch_add(&followed, 1);
}

/* It goes on answering those who ask who has which slots, and takes itself for the master. */
Test(cluster, C2_word_of_a_master_that_was_cut_off_is_not_followed)
{
    rdl_lock_t *lock;

    start_cluster(&(struct cluster_options){.proxied = true});
    client = client_open(cluster->uri, OPTIONS(.log = note_place, .log_level = RDL_LOG_INFO));
    cr_assert_gt(atomic_load(&followed), 0);
    cluster_isolate(cluster, 0, true);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(0), CLUSTER_REPLICA_OF(0), CLUSTER_FAILOVER_BOUND_MS));
    lock = reentrant(client, name[0].text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, PATIENT_MS, LEASE_MS, &err));
    cr_assert_eq(ask(CLUSTER_REPLICA_OF(0), "EXISTS %s", name[0].text), 1);
    atomic_store(&followed, 0);
    let_pass_ms(4000); /* in which all who are asked by turns are asked, node 0 among them */
    cr_assert_eq(atomic_load(&followed), 0);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* ---- speed ------------------------------------------------------------------------------------------------------ */

#define PROMISED_MS 200 /* from the moment at which the new master serves */
#define RARELY_MS                                                                                                      \
    300 /* between two questions; it asks at least every 100 to 200 ms, and every 1000 when all is well                \
         */

/* Waits for that of a replica, on a thread of its own: the moment at which it ends is that one. */
static int64_t see_it_serve(void *probe, rdl_err_t *why)
{
    (void)why;
    return WAIT_UNTIL(cluster_serves(probe), CLUSTER_FAILOVER_BOUND_MS);
}

/* How often those who run were asked what only clients ask, along with who has which slots. */
static int64_t questions(void)
{
    int64_t n = 0;

    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct probe *p;

        if (!server_running(cluster->node[i]))
            continue;
        p = probe_open(cluster->node[i]);
        n += probe_calls(p, server_is_old() ? "pubsub" : "pubsub|shardnumsub");
        probe_close(p);
    }
    return n;
}

/* Nobody tells a client, and attempts at the dead master are rare: it has to ask. Masters die one after another. */
Test(cluster, C6_waiter_has_the_lock_soon_after_its_shard_has_a_new_master)
{
    struct caller *waiter = caller_new(), *herald = caller_new();
    int64_t asked = 0, without_ms = 0;

    start_cluster(NULL);
    client = client_open(cluster->uri, OPTIONS(.reconnect_min_ms = 60000, .reconnect_max_ms = 60000));
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, NULL);
        struct probe *master = probe_open(cluster->node[i]),
                     *replica = probe_open(cluster->node[CLUSTER_REPLICA_OF(i)]);
        int64_t died;

        foreign_take(master, name[i].text, LEASE_MS);
        caller_try_lock(waiter, lock, 2 * CLUSTER_FAILOVER_BOUND_MS, LEASE_MS);
        cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, i, name[i].text) == 1, SOON_MS));
        (void)probe_int(master, "PEXPIRE %s 1000", name[i].text); /* ends before the failover does */
        cr_assert_eq(probe_int(master, "WAIT 1 %d", SOON_MS), 1);
        probe_close(master);
        cluster_kill(cluster, i);
        died = now_us();
        asked -= questions();
        caller_call(herald, see_it_serve, replica);
        expect_result(1, herald, CLUSTER_FAILOVER_BOUND_MS + SLACK_MS);
        expect_result(RDL_OK, waiter, 2 * CLUSTER_FAILOVER_BOUND_MS);
        asked += questions();
        without_ms += (caller_ended_us(herald) - died) / 1000;
        cr_assert_lt(caller_ended_us(waiter) - caller_ended_us(herald), 1000 * (PROMISED_MS + SLACK_MS));
        cr_assert(
            cluster_wait_master(cluster, cluster_first_slot(i), CLUSTER_REPLICA_OF(i), CLUSTER_FAILOVER_BOUND_MS));
        caller_unlock(waiter, lock);
        expect_result(RDL_OK, waiter, SOON_MS);
        probe_close(replica);
        rdl_lock_free(lock);
    }
    cr_assert_gt(asked, without_ms / RARELY_MS);
    caller_free(waiter);
    caller_free(herald);
}

/* ---- work through everything ------------------------------------------------------------------------------------ */

#define ROUNDS 50

static struct workload *work;

static void goes_on(void)
{
    cr_assert(workload_goes_on(work, ROUNDS, CLUSTER_FAILOVER_BOUND_MS));
}

static void start_work(const struct cluster_options *options)
{
    const char *names[SHARDS];

    for (int i = 0; i < SHARDS; i++) {
        name[i] = cluster_name(cluster_first_slot(i), 0);
        names[i] = name[i].text;
    }
    work = workload_start(&(struct workload_plan){.names = names, .locks = SHARDS, .processes = 3, .threads = 1});
    start_cluster(options);
    workload_begin(work, cluster->uri);
    goes_on();
}

/* Whoever clashed with another, one of them was told. */
static void expect_told(void)
{
    struct workload_sum sum = workload_stop(work);

    cr_assert_eq(sum.amiss, 0, "%" PRId64 " times two clashed who had one master", sum.amiss);
    cr_assert_eq(sum.strange, 0,
                 "%" PRId64 " times two clashed and neither was told; %" PRId64 " refused, %" PRId64 " met",
                 sum.strange, sum.refused, sum.overlaps);
}

/* name[i] goes to the i-th next of `masters`. */
static void move_on(const int *masters, int distance)
{
    for (int i = 0; i < SHARDS; i++)
        cluster_move(cluster, cluster_first_slot(i), masters[(i + distance) % SHARDS]);
    goes_on();
}

static void change_places(int replica)
{
    unsigned slot = cluster_first_slot(replica % SHARDS) + 1; /* one that no test moves */

    cluster_failover(cluster, replica);
    cr_assert(cluster_wait_master(cluster, slot, replica, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
}

Test(cluster, C2_C5_nobody_overlaps_through_moved_slots_and_arranged_failovers)
{
    static const int masters[SHARDS] = {0, 1, 2};
    struct workload_sum sum;

    start_work(NULL);
    for (int distance = 1; distance <= SHARDS; distance++)
        move_on(masters, distance);
    for (int i = 0; i < SHARDS; i++)
        change_places(CLUSTER_REPLICA_OF(i));
    sum = workload_stop(work);
    cr_assert_eq(sum.overlaps, 0);
    cr_assert_eq(sum.refused, 0);
    cr_assert_gt(sum.turns, sum.rounds / 10, "%" PRId64 " changes of owner in %" PRId64 " rounds", sum.turns,
                 sum.rounds);
}

/* A master dies, and its replica takes over; one is stopped until it is replaced; slots go to the new masters; and all
 * change places again. Writes may be lost, and then nobody may be left in the belief that he was alone. */
Test(cluster, C2_C5_X1_work_goes_on_through_kills_and_nobody_overlaps_unnoticed)
{
    static const int masters[SHARDS] = {3, 4, 2};

    start_work(NULL);
    workload_harm(work);
    cluster_kill(cluster, 0);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(0), 3, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
    cluster_start_again(cluster, 0);
    cluster_pause(cluster, 1);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(1), 4, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
    cluster_resume(cluster, 1);
    cr_assert(cluster_wait_whole(cluster, CLUSTER_FAILOVER_BOUND_MS));
    workload_calm(work);
    move_on(masters, 1);
    change_places(0);
    workload_harm(work);
    cluster_kill(cluster, 2);
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(2) + 1, 5, CLUSTER_FAILOVER_BOUND_MS));
    workload_calm(work);
    goes_on();
    expect_told();
    left_behind = true; /* the last node is not there to be asked */
}

/* Clients reach it, the other nodes do not, and have the replica in its place. What it grants until it gives up is
 * lost. */
Test(cluster, C2_X1_master_without_the_others_stops_granting_and_nobody_overlaps_unnoticed)
{
    struct slot_name other = cluster_name(cluster_first_slot(0), 1);
    struct probe *p;

    start_work(&(struct cluster_options){.proxied = true});
    workload_harm(work);
    cluster_isolate(cluster, 0, true);
    cr_assert(WAIT_UNTIL(!cluster_says_ok(cluster, 0), 2 * CLUSTER_NODE_TIMEOUT_MS + SLACK_MS), "it goes on granting");
    cr_assert(cluster_wait_master(cluster, cluster_first_slot(0), CLUSTER_REPLICA_OF(0), CLUSTER_FAILOVER_BOUND_MS));
    workload_calm(work);
    goes_on();
    p = probe_open(cluster->node[0]);
    cr_assert_not_null(strstr(probe_ask(p, "SET %s grant NX", other.text)->text, "CLUSTERDOWN"));
    probe_close(p);
    cluster_isolate(cluster, 0, false);
    cr_assert(cluster_wait_whole(cluster, CLUSTER_FAILOVER_BOUND_MS));
    goes_on();
    expect_told();
}
