/* SPDX-License-Identifier: MIT */
/* test_clock.c - Q11: the server's clock is set under held locks. What is promised then, and what is said.
 *
 * Leases end by the server's clock. A step forward takes as much off every lease; a step back makes those that the
 * server has longer. Neither goes unnoticed, and a hold that the server has ended is LOST as soon as it is renewed. */
#include "tests/live/live.h"
#include "tests/support/clock.h"
#include "tests/support/cluster.h"

#include <stdio.h>
#include <unistd.h>

#define LONG "archive"
#define SHORT "counter"
#define LONG_MS 60000
#define SHORT_MS 3000
#define SECOND INT64_C(1000000)

LIVE_SUITE(clock, 60);

static _Atomic int64_t *offset_us;
static char *offset_path;

static struct {
    pthread_mutex_t mu;
    char jump[200]; /* what was said of one */
} said = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void hear(rdl_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    pthread_mutex_lock(&said.mu);
    if (strstr(line, "clock jumped") != NULL)
        snprintf(said.jump, sizeof said.jump, "%s", line);
    pthread_mutex_unlock(&said.mu);
}

static bool has_said(const char *words)
{
    bool yes;

    pthread_mutex_lock(&said.mu);
    yes = strstr(said.jump, words) != NULL;
    pthread_mutex_unlock(&said.mu);
    return yes;
}

/* The clocks of servers that are started now can be set, all as one. */
static void begin_clock(void)
{
    offset_us = clock_make(&offset_path);
    clock_preload(offset_path);
}

static void end_clock(void)
{
    clock_preload(NULL);
    unlink(offset_path);
    free(offset_path);
}

/* A server whose clock can be set, and a client that renews every second. */
static void open_with_clock(void)
{
    begin_clock();
    st.server = server_start(NULL);
    end_clock();
    st.probe = probe_open(st.server);
    st.client = client_open(server_uri(st.server), OPTIONS(.watchdog_lease_ms = SHORT_MS, .log = hear));
}

static void see_renewals(int64_t n)
{
    int64_t before = probe_calls(st.probe, "time");

    cr_assert(WAIT_UNTIL(probe_calls(st.probe, "time") >= before + n, SOON_MS));
}

/* From now on nothing is asked about a hold that is not renewed: the client has begun to listen for evictions, and has
 * asked once about all. */
static void see_it_listens(void)
{
    cr_assert(WAIT_UNTIL(probe_ask(st.probe, "PUBSUB CHANNELS redlatch_lost:*")->count == 1, SOON_MS));
    see_renewals(2);
}

static void expect_kept_from_others(rdl_lock_t *lock)
{
    struct caller *rival = caller_new();

    caller_try_lock(rival, lock, 0, LONG_MS);
    expect_result(RDL_ETIMEDOUT, rival, SOON_MS);
    caller_free(rival);
}

static int64_t server_seconds(void)
{
    return strtoll(probe_ask(st.probe, "TIME")->items[0].text, NULL, 10);
}

Test(clock, Q11_step_forward_takes_as_much_off_every_lease_and_is_reported)
{
    struct losses losses;
    rdl_lock_t *keeper, *counter;
    int64_t before;

    open_with_clock();
    losses_init(&losses);
    keeper = reentrant(st.client, LONG, NULL);
    counter = reentrant(st.client, SHORT, NULL);
    expect(RDL_OK, rdl_on_lost(counter, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(keeper, 0, LONG_MS, &err));
    expect(RDL_OK, rdl_try_lock(counter, 0, RDL_LEASE_AUTO, &err));
    see_it_listens();
    before = server_seconds();
    atomic_store(offset_us, 20 * SECOND);
    expect_between(before + 20, server_seconds(), before + 22); /* it really is set */
    cr_assert(WAIT_UNTIL(has_said("jumped by +"), SOON_MS));
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    expect(RDL_ELOST, rdl_unlock(counter, &err));
    expect_between(LONG_MS - 20000 - SOON_MS, probe_int(st.probe, "PTTL " LONG), LONG_MS - 20000);
    expect_kept_from_others(keeper);
    expect(1, rdl_is_held(keeper, &err));
    expect(RDL_OK, rdl_try_lock(counter, 0, RDL_LEASE_AUTO, &err)); /* and all goes on by the new time */
    see_renewals(2);
    expect(1, rdl_is_held(counter, &err));
    expect(RDL_OK, rdl_unlock(counter, &err));
    expect(RDL_OK, rdl_unlock(keeper, &err));
    rdl_lock_free(keeper);
    rdl_lock_free(counter);
}

Test(clock, Q11_step_back_loses_nothing_and_is_reported)
{
    rdl_lock_t *keeper, *counter;

    open_with_clock();
    keeper = reentrant(st.client, LONG, NULL);
    counter = reentrant(st.client, SHORT, NULL);
    expect(RDL_OK, rdl_try_lock(keeper, 0, LONG_MS, &err));
    expect(RDL_OK, rdl_try_lock(counter, 0, RDL_LEASE_AUTO, &err));
    see_renewals(1);
    atomic_store(offset_us, -100 * SECOND);
    cr_assert(WAIT_UNTIL(has_said("jumped by -"), SOON_MS));
    expect_between(100000, probe_int(st.probe, "PTTL " SHORT), 100000 + SHORT_MS); /* only its holder frees it sooner */
    see_renewals(4);
    expect_kept_from_others(counter);
    expect_kept_from_others(keeper);
    expect(1, rdl_is_held(counter, &err));
    expect(RDL_OK, rdl_unlock(counter, &err));
    expect(RDL_OK, rdl_unlock(keeper, &err));
    rdl_lock_free(keeper);
    rdl_lock_free(counter);
}

static bool all_renewed(const struct cluster *cluster)
{
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        struct probe *p = probe_open(cluster->node[i]);
        int64_t calls = probe_calls(p, "time");

        probe_close(p);
        if (calls == 0)
            return false;
    }
    return true;
}

Test(clock, Q11_step_forward_of_a_cluster_is_reported_and_what_it_has_ended_is_lost_on_every_shard)
{
    struct cluster *cluster;
    struct losses losses;
    rdl_lock_t *lock[CLUSTER_MASTERS];
    rdl_client_t *client;

    begin_clock();
    cluster = cluster_start(&(struct cluster_options){.patient = true});
    end_clock();
    client = client_open(cluster->uri, OPTIONS(.watchdog_lease_ms = SHORT_MS, .log = hear));
    losses_init(&losses);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        lock[i] = reentrant(client, cluster_name(cluster_first_slot(i), 0).text, NULL);
        expect(RDL_OK, rdl_on_lost(lock[i], losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(lock[i], 0, RDL_LEASE_AUTO, &err));
    }
    cr_assert(WAIT_UNTIL(all_renewed(cluster), SOON_MS));
    atomic_store(offset_us, 20 * SECOND);
    cr_assert(WAIT_UNTIL(has_said("jumped by +"), SOON_MS));
    cr_assert(losses_wait(&losses, RDL_LOST, CLUSTER_MASTERS, SOON_MS));
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        expect(RDL_ELOST, rdl_unlock(lock[i], &err));
        expect(RDL_OK, rdl_try_lock(lock[i], 0, RDL_LEASE_AUTO, &err));
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        rdl_lock_free(lock[i]);
    }
    rdl_client_close(client);
    cluster_stop(cluster);
}
