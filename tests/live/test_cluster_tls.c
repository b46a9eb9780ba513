/* SPDX-License-Identifier: MIT */
/* test_cluster_tls.c - clusters://: a real cluster whose nodes speak TLS with clients and each other. Which name a
 * certificate is checked for (docs/servers.md) depends on what the cluster calls its nodes, so each test starts one of
 * its own. */
#include "tests/live/live.h"
#include "tests/support/certs.h"
#include "tests/support/cluster.h"

#define LEASE_MS 60000
#define PATIENT_MS 20000
#define SHARDS CLUSTER_MASTERS
#define TLS(...) (&(rdl_tls_options_t){.version = RDL_TLS_OPTIONS_VERSION, __VA_ARGS__})

static struct cluster *cluster;
static char *by_name; /* the URI with nodes as localhost:port, where that of the cluster has addresses */
static char *ca;

static void fini(void)
{
    if (cluster != NULL)
        cr_expect(cluster_is_clean(cluster, CLEAN_BOUND_MS), "%" PRId64 " keys and %" PRId64 " channels are left",
                  cluster_keys(cluster), cluster_channels(cluster));
    cluster_stop(cluster);
    free(by_name);
    free(ca);
}

TestSuite(cluster_tls, .fini = fini, .timeout = 60);

static char *file(const char *name)
{
    return must_format("%s/%s", server_dir(cluster->node[0]), name);
}

static void start(const char *cert_for, const char *config)
{
    cluster = cluster_start(&(struct cluster_options){.tls = cert_for, .patient = true, .config = config});
    by_name = cluster_uri(cluster, "clusters", "localhost");
    ca = file("ca.crt");
}

static struct slot_name name_on(int shard)
{
    return cluster_name(cluster_first_slot(shard), 0);
}

static void expect_works(const char *uri, const rdl_tls_options_t *tls)
{
    rdl_client_t *client = client_open(uri, OPTIONS(.tls = tls));

    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *lock = reentrant(client, name_on(i).text, NULL);

        expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
    }
    rdl_client_close(client);
}

static void expect_fails(const char *uri, const rdl_tls_options_t *tls, const char *says)
{
    rdl_client_t *client = NULL;

    expect(RDL_ECONN, rdl_client_open(uri, OPTIONS(.tls = tls, .connect_timeout_ms = 2000), &client, &err));
    cr_assert_not_null(strstr(err.message, says), "'%s' does not say '%s'", err.message, says);
}

/* ---- locks ------------------------------------------------------------------------------------------------------ */

static void expect_handed_over(rdl_lock_t *held, rdl_lock_t *wanted, int before, int after)
{
    const char *name = rdl_lock_name(held, NULL);
    struct caller *waiter = caller_new();
    int64_t released;

    expect(RDL_OK, rdl_try_lock(held, 0, LEASE_MS, &err));
    expect(RDL_ETIMEDOUT, rdl_try_lock(wanted, 0, LEASE_MS, &err));
    caller_try_lock(waiter, wanted, PATIENT_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, before, name) == 1, SOON_MS), "nobody listens");
    if (after != before)
        cluster_move(cluster, cluster_slot(name), after);
    cr_assert(WAIT_UNTIL(cluster_channels_at(cluster, after, name) == 1, SOON_MS), "nobody listens any more");
    released = now_us();
    expect(RDL_OK, rdl_unlock(held, &err));
    expect_result(RDL_OK, waiter, PATIENT_MS);
    cr_assert_lt(caller_ended_us(waiter) - released, 1000 * WOKEN_MS, "nobody was woken");
    caller_unlock(waiter, wanted);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
}

Test(cluster_tls, C5_waiters_are_woken_on_every_shard_and_where_a_slot_has_moved)
{
    rdl_client_t *client, *rival;

    start("DNS:localhost,IP:127.0.0.1", NULL);
    client = client_open(cluster->uri, OPTIONS(.tls = TLS(.ca_file = ca)));
    rival = client_open(by_name, OPTIONS(.tls = TLS(.ca_file = ca)));
    for (int i = 0; i < SHARDS; i++) {
        rdl_lock_t *held = reentrant(client, name_on(i).text, NULL), *wanted = reentrant(rival, name_on(i).text, NULL);

        expect_handed_over(held, wanted, i, i);
        expect_handed_over(held, wanted, i, (i + 1) % SHARDS);
        rdl_lock_free(held);
        rdl_lock_free(wanted);
    }
    rdl_client_close(client);
    rdl_client_close(rival);
}

/* The kernel accepts for it, and nobody shakes hands: calls connect where they have not been yet. */
Test(cluster_tls, X1_shard_that_hangs_in_the_handshake_delays_no_other_and_no_call_beyond_its_deadline)
{
    enum { WAIT_MS = 3000 };
    rdl_client_t *client;
    rdl_lock_t *lock[SHARDS];
    int64_t began;

    start("DNS:localhost,IP:127.0.0.1", NULL);
    client = client_open(cluster->uri, OPTIONS(.tls = TLS(.ca_file = ca)));
    cluster_pause(cluster, 0);
    for (int i = 0; i < SHARDS; i++) {
        lock[i] = reentrant(client, name_on(i).text, NULL);
        began = now_ms();
        expect(i == 0 ? RDL_ECONN : RDL_OK, rdl_try_lock(lock[i], WAIT_MS, LEASE_MS, &err));
        cr_assert_lt(now_ms() - began, WAIT_MS + SLACK_MS);
    }
    cluster_resume(cluster, 0);
    expect(RDL_OK, rdl_try_lock(lock[0], PATIENT_MS, LEASE_MS, &err));
    for (int i = 0; i < SHARDS; i++) {
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        rdl_lock_free(lock[i]);
    }
    rdl_client_close(client);
}

/* ---- whom to believe -------------------------------------------------------------------------------------------- */

Test(cluster_tls, another_ca_is_refused_with_words)
{
    char *other;

    start("DNS:localhost,IP:127.0.0.1", NULL);
    certs_make_ca(server_dir(cluster->node[0]), "other");
    other = file("other.crt");
    expect_fails(cluster->uri, TLS(.ca_file = other), "the server's certificate is not accepted");
    expect_works(cluster->uri, TLS(.insecure = true));
    free(other);
}

/* A new CA and new certificates, under a client with holds: present connections stay as they are, the next are made
 * with what is in the files by then. */
Test(cluster_tls, files_that_change_are_read_wherever_the_client_connects_again)
{
    const char *dir;
    char *cert, *key;
    rdl_client_t *client, *rival;
    rdl_lock_t *held[SHARDS], *wanted[SHARDS];

    start("DNS:localhost,IP:127.0.0.1", "tls-auth-clients yes");
    dir = server_dir(cluster->node[0]);
    certs_issue(dir, "ca", "client", "DNS:client", 2);
    cert = file("client.crt");
    key = file("client.key");
    expect_fails(cluster->uri, TLS(.ca_file = ca), "certificate");
    client = client_open(cluster->uri, OPTIONS(.tls = TLS(.ca_file = ca, .cert_file = cert, .key_file = key)));
    rival = client_open(by_name, OPTIONS(.tls = TLS(.ca_file = ca, .cert_file = cert, .key_file = key)));
    for (int i = 0; i < SHARDS; i++) {
        held[i] = reentrant(client, name_on(i).text, NULL);
        wanted[i] = reentrant(rival, name_on(i).text, NULL);
        expect(RDL_OK, rdl_try_lock(held[i], 0, LEASE_MS, &err));
    }
    certs_make_ca(dir, "ca");
    certs_issue(dir, "ca", "server", "DNS:localhost,IP:127.0.0.1", 2);
    certs_issue(dir, "ca", "client", "DNS:client", 2);
    for (int i = 0; i < CLUSTER_NODES; i++)
        server_read_certificates(cluster->node[i]);
    for (int i = 0; i < SHARDS; i++) {
        cr_assert(WAIT_UNTIL(rdl_extend(held[i], 2 * LEASE_MS, &err) == RDL_OK, SOON_MS), "%s", err.message);
        expect(RDL_OK, rdl_unlock(held[i], &err));
        expect_handed_over(held[i], wanted[i], i, i);
        rdl_lock_free(held[i]);
        rdl_lock_free(wanted[i]);
    }
    rdl_client_close(client);
    rdl_client_close(rival);
    free(cert);
    free(key);
}

/* The URI's names are those of the first connections only. */
Test(cluster_tls, nodes_announced_by_address_must_prove_the_address_or_the_name_given)
{
    start("DNS:localhost", NULL);
    expect_fails(cluster->uri, TLS(.ca_file = ca), "the server's certificate is not for 127.0.0.1");
    expect_fails(by_name, TLS(.ca_file = ca), "the server's certificate is not for 127.0.0.1");
    expect_fails(by_name, TLS(.ca_file = ca, .server_name = "cache.internal"), "is not for cache.internal");
    expect_works(by_name, TLS(.ca_file = ca, .server_name = "localhost"));
    expect_works(cluster->uri, TLS(.ca_file = ca, .server_name = "localhost"));
}

Test(cluster_tls, nodes_announced_by_name_must_prove_the_name)
{
    if (server_is_old())
        cr_skip_test("nodes of Redis 6.2 have addresses and no names");
    start("DNS:localhost", "cluster-announce-hostname localhost\ncluster-preferred-endpoint-type hostname");
    expect_works(by_name, TLS(.ca_file = ca));
    expect_fails(cluster->uri, TLS(.ca_file = ca), "the server's certificate is not for 127.0.0.1");
}
