/* SPDX-License-Identifier: MIT */
/* test_sentinel.c - finding the master by real sentinels (scenarios.md, C6, X1 and X7); test_failover has what comes of
 * losing it. */
#include "tests/live/live.h"
#include "tests/support/certs.h"
#include "tests/support/guide.h"
#include "tests/support/proxy.h"
#include "tests/support/rights.h"
#include "tests/support/sentinels.h"

#include <stdatomic.h>
#include <stdio.h>

#define NAME "job"
#define LEASE_MS 60000

static struct sentinels *fleet;
static struct guide *guide; /* instead */
static rdl_client_t *client;

static void fini(void)
{
    client = rdl_client_close(client);
    sentinels_stop(fleet);
    guide_stop(guide);
}

TestSuite(sentinel, .fini = fini, .timeout = 120);

static void start(void)
{
    fleet = sentinels_start(NULL);
    client = client_open(fleet->uri, NULL);
}

static int64_t ask(int which, const char *question)
{
    struct probe *p = probe_open(fleet->data[which]);
    int64_t answer = probe_int(p, "%s", question);

    probe_close(p);
    return answer;
}

Test(sentinel, C6_master_is_found_and_locks_are_taken_there)
{
    rdl_lock_t *lock;

    start();
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(ask(0, "EXISTS " NAME), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(ask(0, "EXISTS " NAME), 0);
    rdl_lock_free(lock);
}

Test(sentinel, C6_database_is_the_one_of_the_address_at_every_master)
{
    rdl_lock_t *lock;
    char *uri;

    fleet = sentinels_start(NULL);
    uri = must_format("%s/3", fleet->uri);
    client = client_open(uri, NULL);
    lock = reentrant(client, NAME, NULL);
    for (int master = 0; master < 2; master++) {
        struct probe *p = probe_open(fleet->data[master]);

        expect(RDL_OK, rdl_try_lock(lock, FAILOVER_BOUND_MS, LEASE_MS, &err));
        cr_assert_eq(probe_int(p, "EXISTS " NAME), 0);
        (void)probe_text(p, "SELECT 3");
        cr_assert_eq(probe_int(p, "EXISTS " NAME), 1);
        expect(RDL_OK, rdl_unlock(lock, &err));
        probe_close(p);
        if (master == 0)
            sentinels_failover(fleet);
        cr_assert(sentinels_wait_master(fleet, 1, FAILOVER_BOUND_MS) || master == 1);
    }
    rdl_lock_free(lock);
    free(uri);
}

Test(sentinel, X1_dead_and_silent_sentinels_delay_nobody)
{
    rdl_lock_t *lock;
    int64_t began;

    fleet = sentinels_start(NULL);
    server_kill(fleet->sentinel[0]);
    server_pause(fleet->sentinel[1]);
    began = now_ms();
    client = client_open(fleet->uri, NULL);
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_lt(now_ms() - began, SOON_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    server_resume(fleet->sentinel[1]);
}

Test(sentinel, X1_no_sentinel_at_all_is_said_at_once_and_why)
{
    rdl_client_t *none = NULL;
    int64_t began = now_ms();
    char *uri = must_format("sentinel://127.0.0.1:%d/main", dead_port());

    expect(RDL_ECONN, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_lt(now_ms() - began, SOON_MS);
    cr_assert_not_null(strstr(err.message, "no sentinel knows where it is"), "%s", err.message);
    cr_assert_str_eq(err.server, "master main");
    free(uri);
}

Test(sentinel, X1_master_that_nobody_knows_is_said_at_once)
{
    rdl_client_t *none = NULL;
    int64_t began;
    char *uri;

    fleet = sentinels_start(NULL);
    uri = must_format("sentinel://127.0.0.1:%d/nobody", server_port(fleet->sentinel[0]));
    began = now_ms();
    expect(RDL_ECONN, rdl_client_open(uri, NULL, &none, &err));
    cr_assert_lt(now_ms() - began, SOON_MS);
    cr_assert_not_null(strstr(err.message, "it knows of no such master"), "%s", err.message);
    free(uri);
}

Test(sentinel, X7_master_and_sentinels_have_passwords_of_their_own)
{
    rdl_client_t *none = NULL;
    rdl_lock_t *lock;
    char *uri;

    fleet =
        sentinels_start(&(struct sentinels_options){.password = "ofthemaster", .sentinel_password = "ofthesentinels"});
    uri = must_format("sentinel://:ofthemaster@127.0.0.1:%d/main", server_port(fleet->sentinel[0]));
    expect(RDL_EAUTH, rdl_client_open(uri, OPTIONS(.sentinel_password = "wrong"), &none, &err));
    cr_assert_null(strstr(err.message, "ofthe"), "%s", err.message);
    client = client_open(uri, OPTIONS(.sentinel_password = "ofthesentinels"));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(uri);
}

/* ---- sentinels that nobody has given ---------------------------------------------------------------------------- */

/* The client knows one of them only. */
static char *uri_of_one(int which)
{
    return must_format("sentinel://127.0.0.1:%d/" SENTINEL_MASTER, server_port(fleet->sentinel[which]));
}

static void start_with_one(const rdl_client_options_t *options)
{
    char *uri;

    fleet = sentinels_start(NULL);
    uri = uri_of_one(0);
    client = client_open(uri, options);
    free(uri);
}

static bool asks(int which)
{
    return probe_clients(fleet->probe[which], "redlatch") == 1;
}

Test(sentinel, C6_failover_is_followed_when_the_only_sentinel_given_is_dead)
{
    rdl_lock_t *lock;

    start_with_one(NULL);
    cr_assert(WAIT_UNTIL(asks(1) && asks(2), SOON_MS));
    server_kill(fleet->sentinel[0]);
    server_kill(fleet->data[0]);
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 2 * FAILOVER_BOUND_MS, LEASE_MS, &err));
    cr_assert_eq(ask(1, "EXISTS " NAME), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* It sits where a dead one was, its master has the same name, and its epoch is higher than anybody's. */
static struct server *start_impostor(int port, const struct server *master)
{
    char *config = must_format("sentinel monitor " SENTINEL_MASTER " 127.0.0.1 %d 1\n"
                               "sentinel config-epoch " SENTINEL_MASTER " 99",
                               server_port(master));
    struct server *impostor =
        server_start(&(struct server_options){.tcp = true, .port = port, .sentinel = true, .config = config});

    free(config);
    return impostor;
}

static atomic_uint disbelieved, forgotten;

static void hear(rdl_log_level_t level, const char *message, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(message, "not the one that was announced") != NULL)
        atomic_fetch_add(&disbelieved, 1);
    if (strstr(message, "is not asked any more") != NULL)
        atomic_fetch_add(&forgotten, 1);
}

Test(sentinel, C6_sentinel_of_another_deployment_where_an_announced_one_was_is_not_believed)
{
    struct server *master = server_start(&(struct server_options){.tcp = true}), *impostor;
    rdl_lock_t *lock;

    start_with_one(OPTIONS(.log = hear, .log_level = RDL_LOG_DEBUG));
    cr_assert(WAIT_UNTIL(asks(2), SOON_MS));
    server_kill(fleet->sentinel[2]);
    impostor = start_impostor(server_port(fleet->sentinel[2]), master);
    cr_assert(WAIT_UNTIL(atomic_load(&disbelieved) > 0, SOON_MS));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(ask(0, "EXISTS " NAME), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    server_stop(impostor);
    server_stop(master);
}

#define FORGOTTEN_BOUND_MS 60000 /* some 15 s: 30 answers, two a second */

/* Does it know of one other only? SENTINEL RESET forgets all, and those that live make themselves known again; the last
 * word of one that is dead may still have been on its way. */
static bool knows_one(int which)
{
    size_t others = probe_ask(fleet->probe[which], "SENTINEL SENTINELS " SENTINEL_MASTER)->count;

    if (others > 1)
        (void)probe_int(fleet->probe[which], "SENTINEL RESET " SENTINEL_MASTER);
    return others == 1;
}

Test(sentinel, C6_sentinel_that_nobody_names_any_more_is_forgotten)
{
    start_with_one(OPTIONS(.log = hear, .log_level = RDL_LOG_DEBUG));
    cr_assert(WAIT_UNTIL(asks(1) && asks(2), SOON_MS));
    server_kill(fleet->sentinel[2]);
    cr_assert(WAIT_UNTIL(knows_one(0) && knows_one(1), FORGOTTEN_BOUND_MS));
    cr_assert(WAIT_UNTIL(atomic_load(&forgotten) > 0, FORGOTTEN_BOUND_MS));
    cr_assert_eq(atomic_load(&forgotten), 1);
    cr_assert(asks(0) && asks(1));
}

/* For how long the client has been asking it, each second once. */
static int asked_for_s(int which)
{
    const char *found = strstr(probe_text(fleet->probe[which], "CLIENT LIST"), " name=redlatch age=");
    int age = 0;

    return found != NULL && sscanf(found, " name=redlatch age=%d", &age) == 1 ? age : 0;
}

/* The one of the URI is announced by its address, and is known by its id. */
Test(sentinel, C6_sentinel_under_two_names_is_asked_once)
{
    char *uri;

    fleet = sentinels_start(NULL);
    uri = must_format("sentinel://localhost:%d/" SENTINEL_MASTER, server_port(fleet->sentinel[0]));
    client = client_open(uri, NULL);
    free(uri);
    cr_assert(WAIT_UNTIL(asked_for_s(1) > 2 && asked_for_s(2) > 2, SOON_MS), "the others were not asked for long");
    cr_assert(asks(0));
}

/* ---- whose word counts ------------------------------------------------------------------------------------------ */

#define HEAL_MS 4000
#define MORE 3 /* questions, before which any word would have been followed */

static unsigned asked(struct proxy *mouth, const int rules[2])
{
    return proxy_acted(mouth, rules[0]);
}

#define ANNOUNCEMENTS 20
#define POLL_MS 1000 /* between two questions when nothing is announced */

/* Each is answered by a question, long before the next would be asked anyway. */
Test(sentinel, C6_each_announcement_makes_the_client_ask)
{
    int64_t began;

    guide = guide_start(NULL);
    client = client_open(guide->uri, NULL);
    began = now_ms();
    for (int i = 0; i < ANNOUNCEMENTS; i++) {
        unsigned before = asked(guide->mouth, guide->rules);

        cr_assert(WAIT_UNTIL(probe_int(guide->herald, "PUBLISH +switch-master main") == 1, SOON_MS));
        cr_assert(proxy_wait(guide->mouth, guide->rules[0], before + 1, SOON_MS));
    }
    cr_assert_lt(now_ms() - began, ANNOUNCEMENTS * POLL_MS / 2);
}

/* The master has become a replica, and no sentinel has heard of it. */
Test(sentinel, C6_replica_that_is_still_named_is_asked_for_nothing)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;
    unsigned accepted;
    int verbs;

    guide = guide_start(NULL);
    client = client_open(guide->uri, OPTIONS(.reconnect_min_ms = 1, .reconnect_max_ms = 50));
    lock = reentrant(client, NAME, NULL);
    guide_part(guide);
    (void)probe_text(guide->probe[0], "REPLICAOF 127.0.0.1 %d", server_port(guide->data[1]));
    verbs = proxy_on(guide->way, .action = PROXY_WATCH, .contains = "EVAL", .every = true);
    accepted = proxy_accepted(guide->way);
    proxy_cut(guide->way, PROXY_ALL);
    caller_try_lock(waiter, lock, 4 * SOON_MS, LEASE_MS);
    cr_assert(proxy_wait_accepted(guide->way, accepted + 10, 2 * SOON_MS));
    cr_assert_eq(proxy_acted(guide->way, verbs), 0);
    cr_assert(!caller_idle(waiter));
    guide_switch(guide);
    expect_result(RDL_OK, waiter, SOON_MS);
    cr_assert_eq(lock_holds(guide->probe[1], NAME), 1);
    cr_assert_eq(proxy_acted(guide->way, verbs), 0);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* Two sentinels, and the failover has passed the first one by. */
static void start_with_laggard(void)
{
    guide = guide_start(NULL);
    guide_add_laggard(guide);
    client = client_open(guide->uri, NULL);
    guide_switch(guide);
    cr_assert(WAIT_UNTIL(proxy_open(guide->way) == 0, HEAL_MS), "the new master is not followed");
}

/* And nobody has tried the former one since it was left. */
static void expect_taken_at_successor(unsigned accepted)
{
    rdl_lock_t *lock = reentrant(client, NAME, NULL);

    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    cr_assert_eq(lock_holds(guide->probe[1], NAME), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(proxy_accepted(guide->way), accepted);
    rdl_lock_free(lock);
}

Test(sentinel, C6_newer_word_counts_whoever_says_it)
{
    unsigned accepted, mouth, past;

    start_with_laggard();
    accepted = proxy_accepted(guide->way);
    mouth = asked(guide->mouth, guide->rules) + MORE;
    past = asked(guide->past, guide->past_rules) + MORE;
    cr_assert(proxy_wait(guide->mouth, guide->rules[0], mouth, SOON_MS));
    cr_assert(proxy_wait(guide->past, guide->past_rules[0], past, SOON_MS));
    expect_taken_at_successor(accepted);
}

/* Nobody else is heard any more, and the new master is well. */
Test(sentinel, C6_older_word_is_not_followed_back)
{
    unsigned accepted, past;

    start_with_laggard();
    accepted = proxy_accepted(guide->way);
    past = asked(guide->past, guide->past_rules) + MORE;
    proxy_refuse(guide->mouth, true);
    proxy_cut(guide->mouth, PROXY_ALL);
    cr_assert(proxy_wait(guide->past, guide->past_rules[0], past, SOON_MS));
    expect_taken_at_successor(accepted);
}

/* ---- TLS -------------------------------------------------------------------------------------------------------- */

#define BELIEVES(file) (&(rdl_tls_options_t){.version = RDL_TLS_OPTIONS_VERSION, .ca_file = (file)})

Test(sentinel, X1_sentinels_and_masters_speak_tls_and_each_has_a_ca_of_its_own)
{
    rdl_client_t *none = NULL;
    rdl_lock_t *lock;

    fleet = sentinels_start(&(struct sentinels_options){.tls = true});
    expect(RDL_ECONN, rdl_client_open(fleet->uri, OPTIONS(.tls = BELIEVES(fleet->ca)), &none, &err));
    cr_assert_not_null(strstr(err.message, "sentinel 127.0.0.1"), "%s", err.message);
    cr_assert_not_null(strstr(err.message, "certificate is not accepted"), "%s", err.message);
    expect(RDL_ECONN, rdl_client_open(fleet->uri,
                                      OPTIONS(.connect_timeout_ms = 1000, .tls = BELIEVES(fleet->sentinel_ca),
                                              .sentinel_tls = BELIEVES(fleet->sentinel_ca)),
                                      &none, &err));
    cr_assert_not_null(strstr(err.message, "master main"), "%s", err.message);
    client = client_open(fleet->uri, OPTIONS(.tls = BELIEVES(fleet->ca), .sentinel_tls = BELIEVES(fleet->sentinel_ca)));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_kill(fleet->data[0]);
    expect(RDL_OK, rdl_try_lock(lock, 2 * FAILOVER_BOUND_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

/* From now on master and replica want to know who connects. */
static void want_certificates(void)
{
    for (int i = 0; i < 2; i++) {
        struct probe *p = probe_open(fleet->data[i]);

        (void)probe_text(p, "CONFIG SET tls-ca-cert-file %s/both.crt", server_dir(fleet->data[0]));
        (void)probe_text(p, "CONFIG SET tls-auth-clients yes");
        probe_close(p);
    }
}

Test(sentinel, files_for_tls_that_change_are_read_when_the_client_connects_again)
{
    rdl_client_t *none = NULL;
    const char *dir;
    char *cert, *key;
    rdl_lock_t *lock;

    fleet = sentinels_start(&(struct sentinels_options){.tls = true});
    dir = server_dir(fleet->data[0]);
    cert = must_format("%s/client.crt", dir);
    key = must_format("%s/client.key", dir);
    certs_issue(dir, "ca", "client", "DNS:client", 2);
    want_certificates();
    expect(RDL_ECONN, rdl_client_open(fleet->uri,
                                      OPTIONS(.connect_timeout_ms = 1000, .tls = BELIEVES(fleet->ca),
                                              .sentinel_tls = BELIEVES(fleet->sentinel_ca)),
                                      &none, &err));
    cr_assert_not_null(strstr(err.message, "certificate"), "%s", err.message);
    client = client_open(
        fleet->uri,
        OPTIONS(.tls = (&(rdl_tls_options_t){
                    .version = RDL_TLS_OPTIONS_VERSION, .ca_file = fleet->ca, .cert_file = cert, .key_file = key}),
                .sentinel_tls = BELIEVES(fleet->sentinel_ca)));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    sentinels_renew_certificates(fleet);
    certs_issue(dir, "ca", "client", "DNS:client", 2);
    cr_assert(WAIT_UNTIL(rdl_extend(lock, 2 * LEASE_MS, &err) == RDL_OK, SOON_MS), "%s", err.message);
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_kill(fleet->data[0]);
    expect(RDL_OK, rdl_try_lock(lock, 2 * FAILOVER_BOUND_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(cert);
    free(key);
}

Test(sentinel, X1_options_for_tls_that_the_uri_does_not_ask_for_are_refused)
{
    rdl_client_t *none = NULL;

    expect(RDL_EINVAL, rdl_client_open("sentinel://h/main", OPTIONS(.tls = BELIEVES(NULL)), &none, &err));
    expect(RDL_EINVAL, rdl_client_open("rediss://h", OPTIONS(.sentinel_tls = BELIEVES(NULL)), &none, &err));
    cr_assert_not_null(strstr(err.message, "the URI is not sentinels://"), "%s", err.message);
}

/* ---- rights ----------------------------------------------------------------------------------------------------- */

Test(sentinel, C6_documented_rights_are_enough_through_a_failover)
{
    rdl_lock_t *lock;
    char *uri;

    fleet = sentinels_start(NULL);
    for (int i = 0; i < 2; i++) {
        rights_grant(fleet->data[i], "Every program", "app");
        rights_grant(fleet->data[i], "Behind Sentinel", "app");
        rights_grant(fleet->data[i], "Reentrant, non-reentrant and spin lock", "app");
    }
    for (int i = 0; i < SENTINELS; i++)
        rights_grant(fleet->sentinel[i], "Behind Sentinel", "finder");
    uri = must_format("sentinel://app:secret@%s", strstr(fleet->uri, "//") + 2);
    client = client_open(uri, OPTIONS(.sentinel_username = "finder", .sentinel_password = "secret"));
    lock = reentrant(client, "orders:42", NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_kill(fleet->data[0]);
    expect(RDL_OK, rdl_try_lock(lock, 2 * FAILOVER_BOUND_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(rights_refused(fleet->data[1]), 0);
    for (int i = 0; i < SENTINELS; i++)
        cr_assert_eq(rights_refused(fleet->sentinel[i]), 0);
    rdl_lock_free(lock);
    free(uri);
}

/* It asks for ids and names once, and no more. */
Test(sentinel, C6_sentinel_that_may_not_name_others_is_asked_alone)
{
    struct proxy *proxy;
    struct probe *p;
    rdl_lock_t *lock;
    char *uri;
    int asked, ids, names;

    fleet = sentinels_start(NULL);
    rights_grant(fleet->sentinel[0], "Behind Sentinel", "finder");
    p = probe_open(fleet->sentinel[0]);
    (void)probe_text(p, "ACL SETUSER finder -sentinel +sentinel|get-master-addr-by-name +sentinel|master");
    probe_close(p);
    proxy = proxy_start(fleet->sentinel[0]);
    asked = proxy_on(proxy, .action = PROXY_WATCH, .contains = "GET-MASTER", .every = true);
    ids = proxy_on(proxy, .action = PROXY_WATCH, .contains = "MYID", .every = true);
    names = proxy_on(proxy, .action = PROXY_WATCH, .contains = "SENTINELS", .every = true);
    uri = must_format("sentinel://%s/" SENTINEL_MASTER, strstr(proxy_uri(proxy), "//") + 2);
    client = client_open(uri, OPTIONS(.sentinel_username = "finder", .sentinel_password = "secret"));
    cr_assert(proxy_wait(proxy, asked, 3, SOON_MS));
    cr_assert_eq(proxy_acted(proxy, ids), 1);
    cr_assert_eq(proxy_acted(proxy, names), 1);
    cr_assert(!asks(1) && !asks(2));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    client = rdl_client_close(client);
    proxy_stop(proxy);
    free(uri);
}

/* Nor is what it refuses taken for an answer to something else. */
Test(sentinel, C6_sentinel_that_lets_nobody_subscribe_is_polled)
{
    struct probe *p;
    rdl_lock_t *lock;
    char *uri;

    fleet = sentinels_start(NULL);
    rights_grant(fleet->sentinel[0], "Behind Sentinel", "finder");
    p = probe_open(fleet->sentinel[0]);
    (void)probe_text(p, "ACL SETUSER finder -subscribe -unsubscribe");
    probe_close(p);
    uri = uri_of_one(0);
    client = client_open(uri, OPTIONS(.sentinel_username = "finder", .sentinel_password = "secret"));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(uri);
}

/* ---- speed ------------------------------------------------------------------------------------------------------ */

#define PROMISED_MS 200 /* from the first sentinel's word */

/* Hears one announcement, on a thread of its own: the moment at which it ends is that of the announcement. */
static int64_t hear_of_new_master(void *probe, rdl_err_t *why)
{
    (void)why;
    return probe_next(probe, FAILOVER_BOUND_MS) != NULL;
}

Test(sentinel, C6_waiter_has_the_lock_soon_after_the_first_sentinel_names_the_new_master)
{
    struct caller *waiter = caller_new(), *herald[SENTINELS];
    struct probe *p[SENTINELS], *master;
    int64_t first = INT64_MAX;
    rdl_lock_t *lock;

    start();
    lock = reentrant(client, NAME, NULL);
    master = probe_open(fleet->data[0]);
    foreign_take(master, NAME, 1500); /* ends before the failover does */
    probe_close(master);
    for (int i = 0; i < SENTINELS; i++) {
        p[i] = probe_open(fleet->sentinel[i]);
        (void)probe_ask(p[i], "SUBSCRIBE +switch-master");
        herald[i] = caller_new();
        caller_call(herald[i], hear_of_new_master, p[i]);
    }
    caller_try_lock(waiter, lock, 2 * FAILOVER_BOUND_MS, LEASE_MS);
    server_kill(fleet->data[0]);
    expect_result(RDL_OK, waiter, 2 * FAILOVER_BOUND_MS);
    for (int i = 0; i < SENTINELS; i++) {
        expect_result(1, herald[i], FAILOVER_BOUND_MS);
        if (caller_ended_us(herald[i]) < first)
            first = caller_ended_us(herald[i]);
        caller_free(herald[i]);
        probe_close(p[i]);
    }
    cr_assert_lt(caller_ended_us(waiter) - first, 1000 * (PROMISED_MS + SLACK_MS));
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}
