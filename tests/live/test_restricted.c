/* SPDX-License-Identifier: MIT */
/* test_restricted.c - servers that lack something, or forbid it: each fallback that docs/servers.md names,
 * by its effect.
 *
 * Whatever is missing, locks work, messages wake, a lost reply is settled, and nothing is left behind. */
#include "tests/live/live.h"
#include "tests/support/rights.h"
#include "tests/support/sentinels.h"

#include <stdio.h>

#define NAME "annex"
#define LEASE_MS 20000
#define SHORT_LEASE_MS 3600 /* doubts are settled within one where CLIENT KILL is not there */

LIVE_SUITE(restricted, 60);

static void open_restricted(const char *config)
{
    stage_open(&st, .proxied = true, .server = {.config = config},
               .client = OPTIONS(.watchdog_lease_ms = SHORT_LEASE_MS, .ping_interval_ms = 50));
}

/* ---- what must work --------------------------------------------------------------------------------------------- */

static void lock_and_renew(void)
{
    rdl_lock_t *lock = reentrant(st.client, NAME, NULL);

    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(SHORT_LEASE_MS * 5 / 4);
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

static void be_woken(void)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock = reentrant(st.client, NAME, NULL);
    char *channel = channel_of(NAME);

    foreign_take(st.probe, NAME, LEASE_MS);
    caller_try_lock(waiter, lock, LEASE_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_listeners_of(st.probe, false, channel) == 1, SOON_MS));
    let_pass_ms(200); /* pings on the listening connection */
    cr_assert_eq(foreign_release(st.probe, NAME), 1);
    expect_result(RDL_OK, waiter, WOKEN_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    free(channel);
    rdl_lock_free(lock);
}

/* The reply to an acquire is lost, then that to a release. */
static void settle_doubts(void)
{
    rdl_lock_t *lock = reentrant(st.client, NAME, NULL);
    int rule;

    rule = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA");
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    cr_assert_eq(proxy_acted(st.proxy, rule), 1);
    cr_assert_eq(probe_int(st.probe, "HLEN " NAME), 1);
    rule = proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA");
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(proxy_acted(st.proxy, rule), 1);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(lock);
}

/* The server forgets the scripts: nobody notices (C3). */
static void forget_scripts(void)
{
    rdl_lock_t *lock = reentrant(st.client, NAME, NULL);

    (void)probe_text(st.probe, "SCRIPT FLUSH");
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

static void expect_all_works(void)
{
    lock_and_renew();
    be_woken();
    settle_doubts();
    forget_scripts();
}

static void expect_all_works_with(const char *config)
{
    open_restricted(config);
    expect_all_works();
}

/* The probe must keep every right, so it is the default user, and the client another. */
static void start_without(const char *rights)
{
    char *config = must_format("user app on >pw ~* &* +@all %s", rights);

    st.server = server_start(&(struct server_options){.config = config});
    st.proxy = proxy_start(st.server);
    st.probe = probe_open(st.server);
    free(config);
}

static void expect_all_works_for_app(void)
{
    st.client = client_open(stage_uri(&st), OPTIONS(.username = "app", .password = "pw",
                                                    .watchdog_lease_ms = SHORT_LEASE_MS, .ping_interval_ms = 50));
    expect_all_works();
}

static void expect_all_works_without(const char *rights)
{
    start_without(rights);
    expect_all_works_for_app();
}

/* ---- what may be missing ---------------------------------------------------------------------------------------- */

Test(restricted, no_hello)
{
    expect_all_works_with("rename-command HELLO \"\"");
}

/* As some proxies answer; a server itself never forbids it. */
Test(restricted, hello_not_allowed)
{
    int rule;

    start_without("");
    rule =
        proxy_on(st.proxy, .action = PROXY_ANSWER, .command = "HELLO", .answer = "-NOPERM not here\r\n", .every = true);
    expect_all_works_for_app();
    cr_assert_eq(proxy_acted(st.proxy, rule), 1); /* remembered */
}

Test(restricted, no_client)
{
    expect_all_works_without("-client");
}

Test(restricted, no_client_info_and_no_client_kill)
{
    expect_all_works_without("-client +client|setname +client|id");
}

Test(restricted, no_info)
{
    expect_all_works_without("-info");
}

Test(restricted, no_script_load)
{
    expect_all_works_without("-script");
}

Test(restricted, no_ping)
{
    expect_all_works_without("-ping");
}

/* All that managed services are known to refuse, at once. */
#define NO_ADMINISTRATION                                                                                              \
    "-@admin -@dangerous -client -info -script -config -wait -acl -role -ping -pubsub -select -command"

Test(restricted, no_administration_at_all)
{
    expect_all_works_without(NO_ADMINISTRATION);
}

Test(restricted, neither_hello_nor_administration)
{
    expect_all_works_with("rename-command HELLO \"\"\nrename-command CLIENT \"\"\nrename-command CONFIG \"\"\n"
                          "rename-command WAIT \"\"\nrename-command ROLE \"\"");
}

/* ---- what only some use ----------------------------------------------------------------------------------------- */

/* Locks that want replicas say so, or go on without. */
static void expect_no_wait(const char *says)
{
    rdl_lock_t *strict = reentrant(st.client, NAME, LOCK_OPTIONS(.replicas = 1)), *lenient;

    expect(RDL_ENOREPLICAS, rdl_try_lock(strict, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, says), "%s", err.message);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    rdl_lock_free(strict);
    lenient = reentrant(st.client, NAME, LOCK_OPTIONS(.replicas = 1, .replicas_if_able = true));
    expect(RDL_OK, rdl_try_lock(lenient, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lenient, &err));
    rdl_lock_free(lenient);
}

Test(restricted, no_wait)
{
    start_without("-wait");
    st.client = client_open(stage_uri(&st), OPTIONS(.username = "app", .password = "pw"));
    expect_no_wait("NOPERM");
}

Test(restricted, wait_unknown)
{
    stage_open(&st, .server = {.config = "rename-command WAIT \"\""});
    expect_no_wait("unknown command");
}

#define OLD_MS 3000

/* A red lock at one server that is old enough, by a client that has just come. */
static int64_t old_server_grants(const char *rights, rdl_lock_t **ret_red)
{
    rdl_lock_t *member;

    start_without(rights);
    let_pass_ms(2 * OLD_MS); /* its age is told in seconds */
    st.client = client_open(stage_uri(&st), OPTIONS(.username = "app", .password = "pw"));
    member = reentrant(st.client, NAME, NULL);
    expect(RDL_OK,
           rdl_red_lock(&member, 1, LOCK_OPTIONS(.min_uptime_ms = OLD_MS, .node_timeout_ms = 1000), ret_red, &err));
    rdl_lock_free(member);
    return rdl_try_lock(*ret_red, 0, SHORT_LEASE_MS, &err);
}

Test(restricted, no_info_for_a_red_lock)
{
    rdl_lock_t *red = NULL;

    expect(RDL_OK, old_server_grants("", &red));
    expect(RDL_OK, rdl_unlock(red, &err));
    rdl_lock_free(red);
    live_again();
    expect(RDL_ENOQUORUM, old_server_grants("-info", &red));
    cr_assert_not_null(strstr(err.message, "does not count"), "%s", err.message);
    expect(RDL_OK, rdl_try_lock(red, 2 * OLD_MS + SOON_MS, SHORT_LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(red, &err));
    rdl_lock_free(red);
}

/* The hold is gone with the data: who can tell the runs apart says so at once. Who cannot asks when it subscribes to
 * evictions anew; without that right, too, it is said at the next word about the hold. */
Test(restricted, no_info_about_an_empty_restart)
{
    for (int without = 0; without < 2; without++) {
        struct losses losses;
        rdl_lock_t *lock;

        losses_init(&losses);
        start_without(without == 0 ? "" : "-info resetchannels");
        st.client = client_open(stage_uri(&st), OPTIONS(.username = "app", .password = "pw", .ping_interval_ms = 50));
        lock = reentrant(st.client, NAME, NULL);
        expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
        expect(RDL_OK, rdl_try_lock(lock, 0, 3 * LEASE_MS, &err));
        probe_close(st.probe);
        server_kill(st.server);
        server_start_again(st.server);
        st.probe = probe_open(st.server);
        cr_assert_eq(losses_wait(&losses, RDL_LOST, 1, without == 0 ? 2 * SOON_MS : 2000), without == 0);
        expect(RDL_ELOST, rdl_unlock(lock, &err));
        rdl_lock_free(lock);
        live_again();
    }
}

/* ---- behind Sentinel -------------------------------------------------------------------------------------------- */

static struct sentinels *fleet;
static rdl_client_t *led;

static void end_fleet(void)
{
    led = rdl_client_close(led);
    sentinels_stop(fleet);
}

TestSuite(behind_sentinel, .fini = end_fleet, .timeout = 120);

static void expect_failover_followed(int ends_at)
{
    rdl_lock_t *lock = reentrant(led, NAME, NULL);
    struct caller *waiter = caller_new();

    expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_pause(fleet->data[1 - ends_at]);
    caller_try_lock(waiter, lock, 2 * FAILOVER_BOUND_MS, LEASE_MS);
    cr_assert(sentinels_wait_master(fleet, ends_at, FAILOVER_BOUND_MS));
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    server_resume(fleet->data[1 - ends_at]);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* No ROLE either. */
Test(behind_sentinel, no_administration_at_the_master)
{
    char *uri;

    fleet = sentinels_start(NULL);
    for (int i = 0; i < 2; i++) {
        struct probe *p = probe_open(fleet->data[i]);

        (void)probe_text(p, "ACL SETUSER app on >pw ~* &* +@all " NO_ADMINISTRATION);
        probe_close(p);
    }
    uri = must_format("sentinel://app:pw@%s", strstr(fleet->uri, "//") + 2);
    led = client_open(uri, NULL);
    expect_failover_followed(1);
    free(uri);
}

/* One sentinel, through a proxy; what it does not know or may not be asked. */
static void expect_follows_one_sentinel(const char *rights, bool hello_unknown)
{
    struct probe *p;
    struct proxy *way;
    char *uri;

    fleet = sentinels_start(NULL);
    p = probe_open(fleet->sentinel[0]);
    (void)probe_text(p, "ACL SETUSER finder on >pw ~* &* +@all -sentinel +sentinel|get-master-addr-by-name %s", rights);
    probe_close(p);
    way = proxy_start(fleet->sentinel[0]);
    if (hello_unknown)
        (void)proxy_on(way, .action = PROXY_ANSWER, .command = "HELLO", .answer = "-ERR unknown command\r\n",
                       .every = true);
    uri = must_format("sentinel://127.0.0.1:%d/" SENTINEL_MASTER, proxy_port(way));
    led = client_open(uri, OPTIONS(.sentinel_username = "finder", .sentinel_password = "pw"));
    expect_failover_followed(1);
    led = rdl_client_close(led);
    proxy_stop(way);
    free(uri);
}

Test(behind_sentinel, no_hello_at_the_sentinel)
{
    expect_follows_one_sentinel("+sentinel|master", true);
}

Test(behind_sentinel, no_sentinel_master)
{
    expect_follows_one_sentinel("", false);
}

Test(behind_sentinel, no_subscribe_at_the_sentinel)
{
    expect_follows_one_sentinel("+sentinel|master -subscribe -unsubscribe", false);
}

/* ---- who may not use the channel of evictions -------------------------------------------------------------------- */

#define LONG_MS 600000
#define SOME_MS 6000 /* renewed every two seconds */

static struct losses losses;
static unsigned warnings;
static char warning[256];

static void count_warnings(rdl_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level == RDL_LOG_WARN && warnings++ == 0)
        (void)snprintf(warning, sizeof warning, "%s", line);
}

static char *grant_all_but_the_channel(const char *user)
{
    (void)probe_text(st.probe, "ACL SETUSER %s reset on >secret allkeys resetchannels &redisson_* +@all", user);
    return must_format("unix://%s:secret@%s", user, server_socket(st.server));
}

/* Neither may use the channel: the eviction is done, the victim hears of it from its renewal, and nobody is warned. */
Test(restricted, rights_to_the_channel_are_not_needed)
{
    rdl_client_t *victim, *evictor;
    rdl_lock_t *lock, *far;
    char *uri;

    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    losses_init(&losses);
    uri = grant_all_but_the_channel("app");
    victim = client_open(uri, OPTIONS(.watchdog_lease_ms = SOME_MS, .log = count_warnings));
    evictor = client_open(uri, NULL);
    lock = reentrant(victim, NAME, NULL);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(rights_refused(st.server) >= 1, SOON_MS));
    far = reentrant(evictor, NAME, NULL);
    expect(1, rdl_force_unlock(far, &err));
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    cr_assert_eq(losses_get(&losses, RDL_LOST)->reason, RDL_LOSS_GONE);
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(far);
    rdl_client_close(victim);
    rdl_client_close(evictor);
    cr_assert_eq(warnings, 0, "%u: %s", warnings, warning);
    free(uri);
}

/* A waiter's channel on the same connection is subscribed to all the same. */
Test(restricted, client_without_the_right_hears_on_other_channels)
{
    struct caller *waiter = caller_new();
    rdl_client_t *other;
    rdl_lock_t *lock, *far, *wanted;
    char *uri, *channel = channel_of(NAME);

    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    uri = grant_all_but_the_channel("app");
    st.client = client_open(uri, OPTIONS(.watchdog_lease_ms = LONG_MS));
    other = client_open(uri, NULL);
    lock = reentrant(st.client, NAME "2", NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(rights_refused(st.server) >= 1, SOON_MS));
    far = reentrant(other, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(far, 0, LONG_MS, &err));
    wanted = reentrant(st.client, NAME, NULL);
    caller_try_lock(waiter, wanted, LONG_MS, LONG_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, channel) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(far, &err));
    expect_result(RDL_OK, waiter, WOKEN_MS);
    expect(RDL_OK, rdl_unlock(lock, &err));
    left_behind = true;
    caller_free(waiter);
    rdl_lock_free(wanted);
    rdl_lock_free(far);
    rdl_lock_free(lock);
    rdl_client_close(other);
    free(uri);
    free(channel);
}
