/* SPDX-License-Identifier: MIT */
/* test_credentials.c - who a connection is: asked of the program each time, refused under a code of its own, never
 * quoted. */
#include "tests/live/live.h"
#include "tests/support/cluster.h"
#include "tests/support/sentinels.h"

#include <stdatomic.h>
#include <stdio.h>

#define NAME "badge"
#define LEASE_MS 20000
#define FIRST "first-Pa55"
#define SECOND "second-Pa55"

LIVE_SUITE(credentials, 60);

/* What the program knows: where a real one would keep the token that it fetched last. */
static struct {
    pthread_mutex_t mu;
    const char *username;
    const char *password; /* NULL: none to be had */
    unsigned asked;
} known = {.mu = PTHREAD_MUTEX_INITIALIZER};

static int tell(rdl_credentials_t *credentials, void *arg)
{
    int rc = -1;

    cr_assert_eq(arg, &known);
    cr_assert_eq(credentials->username[0], '\0');
    cr_assert_eq(credentials->password[0], '\0');
    pthread_mutex_lock(&known.mu);
    known.asked++;
    if (known.password != NULL) {
        snprintf(credentials->username, sizeof credentials->username, "%s", known.username);
        snprintf(credentials->password, sizeof credentials->password, "%s", known.password);
        rc = RDL_OK;
    }
    pthread_mutex_unlock(&known.mu);
    return rc;
}

static void know(const char *username, const char *password)
{
    pthread_mutex_lock(&known.mu);
    known.username = username;
    known.password = password;
    pthread_mutex_unlock(&known.mu);
}

static unsigned asked(void)
{
    unsigned n;

    pthread_mutex_lock(&known.mu);
    n = known.asked;
    pthread_mutex_unlock(&known.mu);
    return n;
}

static void start(const char *config)
{
    char *all = must_format("user app on >" FIRST " ~* &* +@all\n%s", config);

    st.server = server_start(&(struct server_options){.password = "default-Pa55", .config = all});
    st.probe = probe_open(st.server);
    free(all);
}

/* Opening fails with `code`, and says `says` but no password. */
static void expect_refused(int code, const rdl_client_options_t *options, const char *says)
{
    rdl_client_t *client = NULL;

    expect(code, rdl_client_open(server_uri(st.server), options, &client, &err));
    cr_assert_not_null(strstr(err.message, says), "'%s' does not say '%s'", err.message, says);
    cr_assert_null(strstr(err.message, "Pa55"), "%s", err.message);
}

/* ---- the callback ----------------------------------------------------------------------------------------------- */

#define ASK .credentials = tell, .credentials_arg = &known

/* A hold and a waiter live through a change of the password. */
static void expect_rotation(void)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    unsigned before;

    know("app", FIRST);
    st.client = client_open(server_uri(st.server), OPTIONS(ASK));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_try_lock(waiter, lock, LEASE_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    (void)probe_text(st.probe, "ACL SETUSER app resetpass >" SECOND);
    know("app", SECOND);
    before = asked();
    (void)probe_int(st.probe, "CLIENT KILL USER app");
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_geq(asked() - before, 2); /* the subscriber's, and one for commands */
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

Test(credentials, are_asked_for_each_connection)
{
    start("");
    expect_rotation();
}

Test(credentials, are_asked_for_each_connection_of_resp2_too)
{
    start("rename-command HELLO \"\"");
    expect_rotation();
}

/* From now on this is the password; whoever was connected with another is cut off, and comes back with it. */
static void let_in(struct server *const *server, size_t n, const char *password)
{
    for (size_t i = 0; i < n; i++) {
        struct probe *p = probe_open(server[i]);

        (void)probe_text(p, "ACL SETUSER app on resetpass >%s ~* &* +@all", password);
        (void)probe_int(p, "CLIENT KILL USER app");
        probe_close(p);
    }
    know("app", password);
}

static void expect_had(rdl_client_t *client, const char *which)
{
    rdl_lock_t *lock = reentrant(client, which, NULL);

    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* The map is asked for with them, too: a slot that has moved is found. */
Test(credentials, are_asked_for_again_on_every_shard_of_a_cluster)
{
    struct cluster *cluster = cluster_start(&(struct cluster_options){.patient = true, .password = "default-Pa55"});
    rdl_client_t *client;

    let_in(cluster->node, CLUSTER_NODES, FIRST);
    client = client_open(cluster->uri, OPTIONS(ASK));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CLUSTER_MASTERS; i++)
            expect_had(client, cluster_name(cluster_first_slot(i), 0).text);
        cluster_move(cluster, cluster_first_slot(0), 1 - round);
        expect_had(client, cluster_name(cluster_first_slot(0), 0).text);
        if (round == 0)
            let_in(cluster->node, CLUSTER_NODES, SECOND);
    }
    (void)rdl_client_close(client);
    cluster_stop(cluster);
}

/* They are the master's, and those of whoever is its successor. */
Test(credentials, are_asked_for_again_behind_sentinels)
{
    struct sentinels *fleet = sentinels_start(&(struct sentinels_options){.password = "default-Pa55"});
    rdl_client_t *client;

    let_in(fleet->data, 2, FIRST);
    client = client_open(fleet->uri, OPTIONS(ASK));
    expect_had(client, NAME);
    let_in(fleet->data, 2, SECOND);
    expect_had(client, NAME);
    sentinels_failover(fleet);
    cr_assert(sentinels_wait_master(fleet, 1, FAILOVER_BOUND_MS));
    expect_had(client, NAME);
    (void)rdl_client_close(client);
    sentinels_stop(fleet);
}

Test(credentials, of_the_default_user_need_no_name)
{
    start("");
    know("", "default-Pa55");
    st.client = client_open(server_uri(st.server), OPTIONS(ASK)); /* asserts that it opens */
}

/* The client goes on asking: as soon as there are some it is connected. */
Test(credentials, that_are_not_to_be_had_are_asked_for_again)
{
    rdl_lock_t *lock;

    start("");
    know("app", NULL);
    expect_refused(RDL_EAUTH, OPTIONS(ASK), "the callback has no credentials");
    st.client = client_open(server_uri(st.server), OPTIONS(ASK, .lazy = true, .command_timeout_ms = 1500));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_ECONN, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "no credentials"), "%s", err.message);
    know("app", "wrong-Pa55");
    cr_assert(WAIT_UNTIL(rdl_try_lock(lock, 0, LEASE_MS, &err) == RDL_ECONN && strstr(err.message, "WRONGPASS") != NULL,
                         SOON_MS),
              "%s", err.message);
    know("app", FIRST);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

Test(credentials, are_given_in_one_way_only)
{
    start("");
    expect_refused(RDL_EINVAL, OPTIONS(ASK, .password = "x"), "beside username or password");
    expect_refused(RDL_EINVAL, OPTIONS(ASK, .username = "x"), "beside username or password");
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void expect_every_refusal(void)
{
    expect_refused(RDL_EAUTH, OPTIONS(.username = "app", .password = "wrong-Pa55"), "WRONGPASS");
    expect_refused(RDL_EAUTH, OPTIONS(.username = "nobody", .password = "wrong-Pa55"), "WRONGPASS");
    expect_refused(RDL_EAUTH, NULL, "NOAUTH");
    (void)probe_text(st.probe, "ACL SETUSER app off");
    expect_refused(RDL_EAUTH, OPTIONS(.username = "app", .password = FIRST), "WRONGPASS");
}

Test(credentials, that_are_refused_have_a_code_of_their_own)
{
    start("");
    expect_every_refusal();
}

Test(credentials, that_are_refused_in_resp2_have_it_too)
{
    start("rename-command HELLO \"\"");
    expect_every_refusal();
}
