/* SPDX-License-Identifier: MIT */
/* test_cluster_refusals.c - a cluster that is down, and shards that refuse, forget or are away: said with the server's
 * words and place, and felt by nobody else (scenarios.md, C3, M6, T9, X1 and X2, on this topology).
 */
#include "tests/live/in_cluster.h"

#include <sys/stat.h>
#include <unistd.h>

CLUSTER_SUITE();

static struct losses losses;

/* ---- servers that refuse, or are away --------------------------------------------------------------------------- */

Test(cluster, X1_no_call_outlives_its_deadline_while_the_cluster_is_down)
{
    rdl_lock_t *lock;
    int64_t began;

    start_cluster(NULL);
    client = client_open(cluster->uri, NULL);
    left_behind = true;
    lock = reentrant(client, name[1].text, NULL);
    cluster_kill(cluster, CLUSTER_REPLICA_OF(0));
    cluster_kill(cluster, 0);
    cr_assert(WAIT_UNTIL(ask(1, "CLUSTER COUNTKEYSINSLOT 0") == 0 && !cluster_says_ok(cluster, 1),
                         CLUSTER_FAILOVER_BOUND_MS));
    began = now_ms();
    cr_assert_lt(rdl_try_lock(lock, 700, LEASE_MS, &err), 0); /* CLUSTERDOWN */
    cr_assert_lt(now_ms() - began, 700 + SLACK_MS);
    for (int i = 0; i < CLUSTER_NODES; i++)
        cluster_kill(cluster, i);
    began = now_ms();
    cr_assert_lt(rdl_try_lock(lock, 700, LEASE_MS, &err), 0);
    expect_between(600, now_ms() - began, 700 + SLACK_MS);
    rdl_lock_free(lock);
}

static void expect_err_names_node(int node)
{
    char *place = must_format("127.0.0.1:%d", server_port(cluster->node[node]));

    cr_assert_str_eq(err.server, place);
    cr_assert_not_null(strstr(err.message, place), "%s", err.message);
    free(place);
}

Test(cluster, T9_error_names_the_server_that_cannot_be_reached)
{
    start(NULL);
    left_behind = true;
    cluster_kill(cluster, 1);
    for (int i = 0; i < 2; i++) { /* at first the connection breaks, then there is none */
        rdl_lock_t *lock = reentrant(client, name[1].text, NULL);

        cr_assert_lt(rdl_try_lock(lock, 1500, LEASE_MS, &err), 0);
        expect_err_names_node(1);
        rdl_lock_free(lock);
    }
}

Test(cluster, X2_T9_what_a_shard_refuses_is_told_with_its_words_and_place)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name[i].text, NULL);
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "SET %s text", name[i].text);
        expect(RDL_ESERVER, rdl_try_lock(lock, 0, LEASE_MS, &err));
        cr_assert_not_null(strstr(err.message, "WRONGTYPE"), "%s", err.message);
        expect_err_names(&err, RDL_ESERVER, name[i].text);
        expect_err_names_node(i);
        (void)probe_int(p, "DEL %s", name[i].text);
        probe_close(p);
        rdl_lock_free(lock);
    }
}

static void fill_memory(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET maxmemory 1");
}

static void free_memory(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET maxmemory 0");
}

static void want_replicas(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET min-replicas-to-write 5");
}

static void want_no_replicas(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET min-replicas-to-write 0");
}

static void fail_to_save(struct probe *p)
{
    char *path = must_format("%s/dump.rdb", probe_ask(p, "CONFIG GET dir")->items[1].text);

    (void)unlink(path); /* of a replica's beginning */
    cr_assert_eq(mkdir(path, 0700), 0);
    (void)probe_text(p, "CONFIG SET save '3600 1000000'");
    (void)probe_text(p, "BGSAVE");
    cr_assert(WAIT_UNTIL(strstr(probe_text(p, "INFO persistence"), "rdb_last_bgsave_status:err") != NULL, SOON_MS));
    free(path);
}

static void save_no_more(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET save ''");
}

static void forbid_scripts(struct probe *p)
{
    limited = true;
    (void)probe_text(p, "ACL SETUSER %s -evalsha -eval", server_user(cluster->node[0]));
}

static void allow_scripts(struct probe *p)
{
    (void)probe_text(p, "ACL SETUSER %s +evalsha +eval", server_user(cluster->node[0]));
}

static struct probe *busy;

static void run_a_script_without_end(struct probe *p)
{
    (void)probe_text(p, "CONFIG SET lua-time-limit 20");
    busy = probe_open_at(probe_ask(p, "CONFIG GET unixsocket")->items[1].text);
    probe_send(busy, "EVAL 'while true do end' 0");
    cr_assert(WAIT_UNTIL(probe_ask(p, "PING")->kind == REPLY_ERROR, SOON_MS));
}

static void end_the_script(struct probe *p)
{
    (void)probe_text(p, "SCRIPT KILL");
    cr_assert_not_null(probe_next(busy, SOON_MS));
    probe_close(busy);
}

/* And the others take no notice. */
Test(cluster, X2_shard_that_refuses_says_why_and_holds_up_nobody_else)
{
    static const struct {
        const char *word;
        void (*cause)(struct probe *p), (*mend)(struct probe *p);
    } reasons[] = {
        {"OOM", fill_memory, free_memory},
        {"NOREPLICAS", want_replicas, want_no_replicas},
        {"MISCONF", fail_to_save, save_no_more},
        {"NOPERM", forbid_scripts, allow_scripts},
        {"BUSY", run_a_script_without_end, end_the_script},
    };

    start(NULL);
    for (int i = 0; i < SHARDS; i++)
        expect_had_in_place(name[i].text); /* who is busy lets nobody in */
    for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++) {
        const int there = (int)r % SHARDS;
        struct probe *p = probe_open(cluster->node[there]);

        reasons[r].cause(p);
        for (int i = 0; i < SHARDS; i++) {
            rdl_lock_t *lock = reentrant(client, name[i].text, NULL);

            expect(i == there ? RDL_ESERVER : RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            cr_assert(i != there || strstr(err.message, reasons[r].word) != NULL, "%s", err.message);
            expect(i == there ? RDL_ENOTOWNER : RDL_OK, rdl_unlock(lock, &err));
            rdl_lock_free(lock);
        }
        reasons[r].mend(p);
        expect_had_in_place(name[there].text);
        probe_close(p);
    }
}

/* With its old place, before anybody takes it. What it has forgotten is nobody's any more. */
Test(cluster, M6_hold_on_a_master_that_comes_back_empty_is_lost_at_once)
{
    rdl_lock_t *lock[SHARDS];

    start(NULL);
    losses_init(&losses);
    for (int i = 0; i < SHARDS; i++) {
        lock[i] = reentrant(client, name[i].text, NULL);
        expect(RDL_OK, rdl_on_lost(lock[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(lock[i], 0, LEASE_MS, &err));
    }
    cluster_kill(cluster, 0);
    cluster_start_again(cluster, 0);
    cr_assert(
        WAIT_UNTIL(cluster_says_ok(cluster, 0), SOON_MS)); /* a master that has just started waits before it serves */
    cr_assert(losses_wait(&losses, RDL_LOST, 1, HEAL_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->lock, lock[0]);
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_GONE);
    expect(RDL_ELOST, rdl_unlock(lock[0], &err));
    expect(RDL_OK, rdl_try_lock(lock[0], 0, LEASE_MS, &err));
    for (int i = 0; i < SHARDS; i++) {
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        rdl_lock_free(lock[i]);
    }
}

static int64_t scripts_at(int node)
{
    struct probe *p = probe_open(cluster->node[node]);
    const char *field = strstr(probe_text(p, "INFO memory"), "number_of_cached_scripts:");
    int64_t n = field != NULL ? strtoll(strchr(field, ':') + 1, NULL, 10) : 0;

    probe_close(p);
    return n;
}

/* So no call has to send one along. */
Test(cluster, C3_every_master_has_the_scripts_before_they_are_wanted)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++)
        cr_assert(WAIT_UNTIL(scripts_at(i) > 0, SOON_MS), "node %d", i);
    for (int i = 0; i < SHARDS; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        expect_had_in_place(name[i].text);
        cr_assert_eq(probe_calls(p, "eval"), 0);
        probe_close(p);
    }
}

Test(cluster, C3_scripts_that_are_forgotten_are_told_again)
{
    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        (void)probe_text(p, "SCRIPT FLUSH");
        expect_had_in_place(name[i].text);
        probe_close(p);
    }
}

Test(cluster, client_that_is_closed_ends_calls_on_all_shards)
{
    struct caller *waiter[SHARDS];
    struct outcome outcome[SHARDS] = {0};
    rdl_lock_t *lock[SHARDS];
    rdl_owner_t *owner;
    int64_t began;

    start(NULL);
    left_behind = true;
    expect(RDL_OK, rdl_owner_new(client, &owner, &err));
    for (int i = 0; i < SHARDS; i++) {
        struct probe *p = probe_open(cluster->node[i]);

        foreign_take(p, name[i].text, LEASE_MS);
        probe_close(p);
        lock[i] = reentrant(client, name[i].text, NULL);
        waiter[i] = caller_new();
        caller_lock(waiter[i], lock[i], LEASE_MS);
        expect(RDL_OK, rdl_lock_async(lock[i], owner, LEASE_MS, outcome_note, &outcome[i], NULL, &err));
        cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, i, name[i].text) == 1, SOON_MS));
    }
    cluster_pause(cluster, 2);
    began = now_ms();
    client = rdl_client_close(client);
    cr_assert_lt(now_ms() - began, WOKEN_MS);
    for (int i = 0; i < SHARDS; i++) {
        expect_result(RDL_ECLOSED, waiter[i], SOON_MS);
        cr_assert_eq(atomic_load(&outcome[i].calls), 1);
        expect(RDL_ECLOSED, outcome[i].result);
        caller_free(waiter[i]);
        rdl_lock_free(lock[i]);
    }
    rdl_owner_free(owner);
    cluster_resume(cluster, 2);
}
