/* test_restricted.c - servers that lack something, or forbid it: each fallback of docs/servers.md, by its effect.
 *
 * Whatever is missing, locks work, messages wake, a lost reply is settled, and nothing is left behind. */
#include "tests/live/live.h"

#define NAME "annex"
#define LEASE_MS 20000
#define SHORT_LEASE_MS 1000 /* doubts are settled within one where CLIENT KILL is not there */

LIVE_SUITE(restricted, 60);

static void open_restricted(const char *config)
{
    stage_open(&st, .proxied = true, .server = {.config = config},
               .client = OPTIONS(.watchdog_lease_ms = SHORT_LEASE_MS, .ping_interval_ms = 50, .command_timeout_ms = 1000));
}

/* ---- what must work ------------------------------------------------------------------------------------------------------ */

static void lock_and_renew(void)
{
    rdl_lock_t *lock = reentrant(st.client, NAME, NULL);

    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    let_pass_ms(3 * SHORT_LEASE_MS / 2);
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    rdl_lock_free(lock);
}

static void be_woken(void)
{
    struct actor *waiter = actor_new();
    rdl_lock_t *lock = reentrant(st.client, NAME, NULL);

    foreign_take(st.probe, NAME, LEASE_MS);
    actor_try_lock(waiter, lock, LEASE_MS, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(200); /* pings on the listening connection */
    cr_assert_eq(foreign_release(st.probe, NAME), 1);
    expect_result(RDL_OK, waiter, 2000);
    actor_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    actor_free(waiter);
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
    st.client = client_open(stage_uri(&st), OPTIONS(.username = "app", .password = "pw", .watchdog_lease_ms = SHORT_LEASE_MS,
                                                    .ping_interval_ms = 50, .command_timeout_ms = 1000));
    expect_all_works();
}

static void expect_all_works_without(const char *rights)
{
    start_without(rights);
    expect_all_works_for_app();
}

/* ---- what may be missing ------------------------------------------------------------------------------------------------- */

Test(restricted, no_hello)
{
    expect_all_works_with("rename-command HELLO \"\"");
}

/* As some proxies answer; a server itself never forbids it. */
Test(restricted, hello_not_allowed)
{
    int rule;

    start_without("");
    rule = proxy_on(st.proxy, .action = PROXY_ANSWER, .command = "HELLO", .answer = "-NOPERM not here\r\n", .every = true);
    expect_all_works_for_app();
    cr_assert_eq(proxy_acted(st.proxy, rule), 1); /* remembered */
}

Test(restricted, no_client)
{
    expect_all_works_without("-client");
}

Test(restricted, no_client_info_and_no_client_kill)
{
    expect_all_works_without("-client|info -client|kill");
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
Test(restricted, no_administration_at_all)
{
    expect_all_works_without(
        "-@admin -@dangerous -client -info -script -config -wait -acl -role -ping -pubsub -select -command");
}

Test(restricted, neither_hello_nor_administration)
{
    expect_all_works_with("rename-command HELLO \"\"\nrename-command CLIENT \"\"\nrename-command CONFIG \"\"\n"
                          "rename-command WAIT \"\"\nrename-command ROLE \"\"");
}
