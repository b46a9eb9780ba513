/* SPDX-License-Identifier: MIT */
/* test_cluster.c - locks in a real Redis Cluster: names of all slots, more than one lock, and how the cluster is found
 * and what a client may do and see there (scenarios.md, C5 and, on this topology, X1 and X7). Slots that move are
 * test_cluster_moves', renewals test_cluster_holds', shards that refuse or are away test_cluster_refusals', new masters
 * test_cluster_masters' and test_failover's.
 */
#include "tests/live/in_cluster.h"

CLUSTER_SUITE();

/* ---- names of all slots ----------------------------------------------------------------------------------------- */

Test(cluster, locks_of_all_slots_are_had_where_they_belong)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        expect_had_in_place(name[i].text);
        expect_had_in_place(cluster_name(cluster_first_slot(i + 1) - 1, 0).text);
    }
    allow_all_names();
    for (int i = 0; i < 500; i++) {
        char which[32];

        (void)snprintf(which, sizeof which, i % 2 == 0 ? "job:%d" : "{job:%d}:part", i);
        expect_had_in_place(which);
    }
}

static void expect_excludes_and_wakes(const struct kind *kind, int shard, const char *which)
{
    rdl_lock_t *held = kind->make(client, which, NULL), *wanted = kind->rival(rival, which, NULL);
    struct caller *waiter = caller_new();
    struct probe *p = probe_open(cluster->node[shard]);
    int64_t released;

    expect(RDL_OK, rdl_try_lock(held, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(wanted, 0, LEASE_MS, &err));
    caller_try_lock(waiter, wanted, PATIENT_MS, LEASE_MS);
    cr_assert(kind->polls || WAIT_UNTIL(cluster_channels_at(cluster, shard, which) == 1, SOON_MS), "%s: nobody listens",
              kind->type);
    released = now_us();
    expect(RDL_OK, rdl_unlock(held, &err));
    expect_result(RDL_OK, waiter, PATIENT_MS);
    cr_assert_lt(caller_ended_us(waiter) - released, 1000 * WOKEN_MS, "%s was not woken", kind->type);
    caller_unlock(waiter, wanted);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(wanted);
    lock_over(p, held);
    probe_close(p);
}

Test(cluster, every_type_excludes_and_wakes_on_every_shard)
{
    start(NULL);
    FOR_EACH_SINGLE_KIND(kind)
    for (int i = 0; i < SHARDS; i++) /* a name of its own for each, because a channel may linger */
        expect_excludes_and_wakes(kind, i, cluster_name(cluster_first_slot(i), (unsigned)(kind - kinds)).text);
}

Test(cluster, C5_names_that_split_are_refused_with_words)
{
    static const char *const split[] = {"a{b", "x{}y", "a}b", "{}", "}{"};
    rdl_permit_semaphore_t *permits = NULL;
    rdl_semaphore_t *semaphore = NULL;
    rdl_latch_t *latch = NULL;
    rdl_lock_t *lock = NULL;

    start(NULL);
    for (size_t i = 0; i < sizeof split / sizeof *split; i++) {
        FOR_EACH_SINGLE_KIND(kind)
        {
            expect(RDL_EINVAL, kind->constructor(client, split[i], NULL, &lock, &err));
            cr_assert_not_null(strstr(err.message, "slot"), "%s", err.message);
        }
        expect(RDL_EINVAL, rdl_semaphore(client, split[i], NULL, &semaphore, &err));
        expect(RDL_EINVAL, rdl_permit_semaphore(client, split[i], NULL, &permits, &err));
        expect(RDL_EINVAL, rdl_latch(client, split[i], NULL, &latch, &err));
    }
    cr_assert_null(lock);
    cr_assert_null(semaphore);
    cr_assert_null(permits);
    cr_assert_null(latch);
}

/* ---- what is more than one lock --------------------------------------------------------------------------------- */

static rdl_lock_t *multi_of(rdl_client_t *owner, const char *const *names, size_t n)
{
    rdl_lock_t *member[SHARDS], *multi = NULL;

    for (size_t i = 0; i < n; i++)
        member[i] = reentrant(owner, names[i], NULL);
    expect(RDL_OK, rdl_multi_lock(member, n, NULL, &multi, &err));
    for (size_t i = 0; i < n; i++)
        rdl_lock_free(member[i]);
    return multi;
}

static void expect_all_or_nothing(const char *const *names, size_t n)
{
    rdl_lock_t *multi = multi_of(client, names, n), *one = reentrant(rival, names[n - 1], NULL);
    struct caller *waiter = caller_new();

    expect(RDL_OK, rdl_try_lock(multi, 0, LEASE_MS, &err));
    cr_assert_eq(cluster_keys(cluster), (int64_t)n);
    expect(RDL_ETIMEDOUT, rdl_try_lock(one, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(multi, &err));
    cr_assert_eq(cluster_keys(cluster), 0);
    expect(RDL_OK, rdl_try_lock(one, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(multi, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(cluster_keys(cluster) == 1, SOON_MS));
    caller_try_lock(waiter, multi, PATIENT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(cluster_channels(cluster) > 0, SOON_MS));
    expect(RDL_OK, rdl_unlock(one, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_eq(cluster_keys(cluster), (int64_t)n);
    caller_unlock(waiter, multi);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(multi);
    rdl_lock_free(one);
}

Test(cluster, multi_lock_over_shards_or_within_a_slot_is_all_or_nothing)
{
    const char *const apart[] = {"{job}:a", "{job}:b", "{job}:c"};
    const char *across[SHARDS];

    start(NULL);
    allow_all_names();
    for (int i = 0; i < SHARDS; i++)
        across[i] = name[i].text;
    expect_all_or_nothing(across, SHARDS);
    expect_all_or_nothing(apart, 3);
}

struct acquire {
    rdl_semaphore_t *semaphore;
    int64_t permits;
};

static int64_t acquire(void *arg, rdl_err_t *error)
{
    const struct acquire *a = arg;

    return rdl_semaphore_try_acquire(a->semaphore, a->permits, PATIENT_MS, error);
}

static void expect_permits_pass(const char *which, int shard, bool fair_one)
{
    const rdl_semaphore_options_t options = {.version = RDL_SEMAPHORE_OPTIONS_VERSION, .fair = fair_one};
    rdl_semaphore_t *ours = NULL, *theirs = NULL;
    struct caller *waiter = caller_new();
    int64_t released;

    expect(RDL_OK, rdl_semaphore(client, which, &options, &ours, &err));
    expect(RDL_OK, rdl_semaphore(rival, which, &options, &theirs, &err));
    expect(1, rdl_semaphore_try_set_permits(ours, 3, &err));
    expect(RDL_OK, rdl_semaphore_try_acquire(ours, 2, 0, &err));
    expect(RDL_ETIMEDOUT, rdl_semaphore_try_acquire(theirs, 2, 0, &err));
    caller_call(waiter, acquire, &(struct acquire){theirs, 2});
    cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, shard, which) == 1, SOON_MS));
    released = now_us();
    expect(RDL_OK, rdl_semaphore_release(ours, 1, &err));
    expect_result(RDL_OK, waiter, PATIENT_MS);
    cr_assert_lt(caller_ended_us(waiter) - released, 1000 * WOKEN_MS);
    expect(0, rdl_semaphore_available(ours, &err));
    caller_free(waiter);
    rdl_semaphore_free(ours);
    rdl_semaphore_free(theirs);
}

Test(cluster, semaphores_pass_permits_on_every_shard)
{
    start(NULL);
    left_behind = true; /* permits, and guards that go by themselves */
    for (int i = 0; i < SHARDS; i++) {
        expect_permits_pass(name[i].text, i, false);
        expect_permits_pass(cluster_name(cluster_first_slot(i), 1).text, i, true);
    }
}

Test(cluster, permits_with_ids_are_had_and_given_back_on_every_shard)
{
    start(NULL);
    left_behind = true;
    for (int i = 0; i < SHARDS; i++) {
        rdl_permit_semaphore_t *ours = NULL, *theirs = NULL;
        rdl_permit_t permits[2];

        expect(RDL_OK, rdl_permit_semaphore(client, name[i].text, NULL, &ours, &err));
        expect(RDL_OK, rdl_permit_semaphore(rival, name[i].text, NULL, &theirs, &err));
        expect(1, rdl_permit_semaphore_try_set_permits(ours, 2, &err));
        expect(RDL_OK, rdl_permit_semaphore_try_acquire(ours, 2, 0, LEASE_MS, permits, &err));
        expect(RDL_ETIMEDOUT, rdl_permit_semaphore_try_acquire(theirs, 1, 0, LEASE_MS, permits, &err));
        expect(RDL_OK, rdl_permit_semaphore_extend(ours, &permits[0], 2 * LEASE_MS, &err));
        expect(RDL_OK, rdl_permit_semaphore_release(theirs, 2, permits, &err));
        expect(2, rdl_permit_semaphore_available(ours, &err));
        rdl_permit_semaphore_free(ours);
        rdl_permit_semaphore_free(theirs);
    }
}

static int64_t await(void *latch, rdl_err_t *error)
{
    return rdl_latch_await(latch, PATIENT_MS, error);
}

Test(cluster, latches_open_on_every_shard)
{
    start(NULL);
    left_behind = true;
    for (int i = 0; i < SHARDS; i++) {
        rdl_latch_t *ours = NULL, *theirs = NULL;
        struct caller *waiter = caller_new();
        int64_t opened;

        expect(RDL_OK, rdl_latch(client, name[i].text, NULL, &ours, &err));
        expect(RDL_OK, rdl_latch(rival, name[i].text, NULL, &theirs, &err));
        expect(1, rdl_latch_try_set_count(ours, 2, &err));
        expect(1, rdl_latch_count_down(theirs, &err));
        caller_call(waiter, await, theirs);
        cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, i, name[i].text) == 1, SOON_MS));
        opened = now_us();
        expect(0, rdl_latch_count_down(ours, &err));
        expect_result(RDL_OK, waiter, PATIENT_MS);
        cr_assert_lt(caller_ended_us(waiter) - opened, 1000 * WOKEN_MS);
        caller_free(waiter);
        rdl_latch_free(ours);
        rdl_latch_free(theirs);
    }
}

/* ---- finding the cluster ---------------------------------------------------------------------------------------- */

static void expect_opens(const char *uri)
{
    rdl_client_t *c;
    int64_t began = now_ms();

    c = client_open(uri, NULL);
    cr_assert_lt(now_ms() - began, SOON_MS);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(c, name[i].text, NULL);

        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
    }
    rdl_client_close(c);
}

Test(cluster, X1_one_seed_of_many_is_enough_be_it_a_replica)
{
    char *uri;

    start(NULL);
    cluster_pause(cluster, 3);
    uri = must_format("cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", dead_port(), server_port(cluster->node[3]),
                      server_port(cluster->node[4]));
    expect_opens(uri);
    free(uri);
    cluster_resume(cluster, 3);
}

Test(cluster, X1_no_cluster_at_all_is_said_at_once_and_why)
{
    rdl_client_t *none = NULL;
    int64_t began = now_ms();
    char *uri = must_format("cluster://127.0.0.1:%d,127.0.0.1:%d", dead_port(), dead_port());

    expect(RDL_ECONN, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_lt(now_ms() - began, SOON_MS);
    cr_assert_not_null(strstr(err.message, "Connection refused"), "%s", err.message);
    free(uri);
}

Test(cluster, X1_server_that_is_no_cluster_is_said_at_once)
{
    struct server *alone = server_start(&(struct server_options){.tcp = true});
    char *uri = must_format("cluster://127.0.0.1:%d", server_port(alone));
    rdl_client_t *none = NULL;
    int64_t began = now_ms();

    expect(RDL_ESERVER, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_lt(now_ms() - began, SOON_MS);
    cr_assert_not_null(strstr(err.message, "cluster"), "%s", err.message);
    free(uri);
    server_stop(alone);
}

static bool knows_all_places(int node)
{
    struct probe *p = probe_open(cluster->node[node]);
    bool all = strstr(probe_text(p, "CLUSTER NODES"), "noaddr") == NULL;

    probe_close(p);
    return all;
}

/* Another server is where one was. The others wait for that one, and do not know where it is; what is theirs they
 * serve. */
Test(cluster, X1_master_whose_place_nobody_knows_keeps_nobody_from_the_others)
{
    struct probe *p;

    start_cluster(&(struct cluster_options){.partial = true});
    left_behind = true;
    cluster_kill(cluster, CLUSTER_REPLICA_OF(0));
    cluster_kill(cluster, 0);
    cluster_start_again(cluster, 0);
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "CLUSTER RESET HARD");
    probe_close(p);
    for (int i = 1; i < CLUSTER_NODES; i++)
        cr_assert(i == CLUSTER_REPLICA_OF(0) || WAIT_UNTIL(!knows_all_places(i), CLUSTER_FAILOVER_BOUND_MS));
    client = client_open(cluster->uri, NULL);
    expect_had_in_place(name[1].text);
    expect_had_in_place(name[2].text);
}

static uint64_t reconnects(const rdl_metrics_t *metrics)
{
    rdl_metric_value_t value;

    rdl_metrics_get(metrics, RDL_M_RECONNECTS, &value);
    return value.sum;
}

static void skip_without_names(void)
{
    if (server_is_old())
        cr_skip_test("nodes of Redis 6.2 have addresses and no names");
}

/* Each is where it was asked, and that has two names. */
Test(cluster, nodes_that_do_not_say_where_they_are_stay_where_they_were_found)
{
    rdl_metrics_t *metrics = NULL;
    char *uri;

    skip_without_names();
    start_cluster(
        &(struct cluster_options){.patient = true, .config = "cluster-preferred-endpoint-type unknown-endpoint"});
    uri = must_format("cluster://127.0.0.1:%d,localhost:%d", cluster->port[0], cluster->port[1]);
    expect(RDL_OK, rdl_metrics_new(NULL, &metrics, &err));
    client = client_open(uri, OPTIONS(.metrics = metrics));
    for (int i = 0; i < SHARDS; i++)
        expect_had_in_place(name[i].text);
    let_pass_ms(PASSING_MS);
    cr_assert_eq(reconnects(metrics), 0, "%" PRIu64, reconnects(metrics));
    client = rdl_client_close(client);
    cr_assert_null(rdl_metrics_free(metrics));
    free(uri);
}

/* A node that is to be called by a name, and has been given none, tells its address beside. */
Test(cluster, nodes_that_have_no_name_yet_are_found_by_their_address)
{
    struct probe *p;
    char *uri;

    skip_without_names();
    start_cluster(&(struct cluster_options){.patient = true, .config = "cluster-preferred-endpoint-type hostname"});
    p = probe_open(cluster->node[0]);
    (void)probe_text(p, "CONFIG SET bind '127.0.0.1 127.0.0.2'");
    probe_close(p);
    uri = must_format("cluster://127.0.0.2:%d", cluster->port[0]);
    client = client_open(uri, NULL);
    for (int i = 0; i < SHARDS; i++)
        expect_had_in_place(name[i].text);
    free(uri);
}

Test(cluster, X7_password_is_that_of_all_nodes_and_is_told_to_nobody)
{
    rdl_client_t *none = NULL;
    char *uri;

    start_cluster(&(struct cluster_options){.password = "ofthenodes", .patient = true});
    uri = must_format("cluster://:ofthewrong@%s", strstr(cluster->uri, "//") + 2);
    expect(RDL_EAUTH, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_null(strstr(err.message, "ofthe"), "%s", err.message);
    expect(RDL_EAUTH, rdl_client_open(cluster->uri, NULL, &none, &err));
    free(uri);
    uri = must_format("cluster://:ofthenodes@%s", strstr(cluster->uri, "//") + 2);
    expect_opens(uri);
    free(uri);
}

static int64_t connections(int node)
{
    struct probe *p = probe_open(cluster->node[node]);
    int64_t n = probe_clients(p, "redlatch");

    probe_close(p);
    return n;
}

/* All slots that one of them had in the beginning go to the other at once; there are no keys. */
static void give_slots(int whose, int from, int to)
{
    unsigned first = cluster_first_slot(whose), last = cluster_first_slot(whose + 1) - 1;
    struct probe *p;

    for (int i = 0; i < CLUSTER_NODES; i++) {
        p = probe_open(cluster->node[(from + i) % CLUSTER_NODES]);
        (void)probe_ask(p, "CLUSTER DELSLOTSRANGE %u %u", first, last);
        probe_close(p);
    }
    p = probe_open(cluster->node[to]);
    (void)probe_text(p, "CLUSTER ADDSLOTSRANGE %u %u", first, last);
    probe_close(p);
    cr_assert(cluster_wait_master(cluster, first, to, CLUSTER_FAILOVER_BOUND_MS));
}

/* A poller may stay connected to the one without slots. */
Test(cluster, connections_to_a_master_without_slots_are_closed_until_it_has_some)
{
    if (server_is_old())
        cr_skip_test("a master of Redis 6.2 that has lost its slots becomes a replica");
    start_cluster(&(struct cluster_options){.patient = true});
    client = client_open(cluster->uri, NULL);
    expect_had_in_place(name[1].text);
    cr_assert_geq(connections(1), 2);
    give_slots(1, 1, 0);
    cr_assert(WAIT_UNTIL(connections(1) <= 1, PATIENT_MS), "%" PRId64 " connections", connections(1));
    give_slots(1, 0, 1);
    expect_had_in_place(name[1].text);
    cr_assert_geq(connections(1), 2);
}
