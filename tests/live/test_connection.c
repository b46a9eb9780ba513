/* SPDX-License-Identifier: MIT */
/* test_connection.c - ways to a server, and what is no way: another kind of server, other credentials, one that hangs.
 */
#include "tests/live/live.h"
#include "tests/support/scripted.h"

#include <stdio.h>
#include <unistd.h>

#define NAME "bridge"
#define LEASE_MS 20000

LIVE_SUITE(connection, 60);

static void expect_usable(rdl_client_t *client)
{
    rdl_lock_t *lock = reentrant(client, NAME, NULL);
    rdl_lock_t *other = simple(client, NAME "-simple", NULL);

    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_extend(lock, 2 * LEASE_MS, &err));
    expect(1, rdl_is_locked(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect(RDL_OK, rdl_try_lock(other, 5000, LEASE_MS, &err));
    expect(1, rdl_force_unlock(other, &err));
    (void)rdl_unlock(other, &err);
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

static void expect_open_fails(int code, const char *uri, const rdl_client_options_t *options, const char *says)
{
    rdl_client_t *client = NULL;

    expect(code, rdl_client_open(uri, options, &client, &err));
    cr_assert_null(client);
    cr_assert_eq(err.code, code);
    cr_assert_not_null(strstr(err.message, says), "'%s' does not say '%s'", err.message, says);
}

/* ---- ways in ---------------------------------------------------------------------------------------------------- */

Test(connection, by_unix_socket)
{
    stage_open(&st);
    expect_usable(st.client);
    cr_assert_gt(probe_clients(st.probe, "redlatch"), 0);
}

Test(connection, by_tcp_by_address_and_by_name)
{
    rdl_client_t *named;
    char *uri;

    stage_open(&st, .server = {.tcp = true});
    expect_usable(st.client);
    uri = must_format("redis://localhost:%d", server_port(st.server));
    named = client_open(uri, OPTIONS(.client_name = "by-name"));
    expect_usable(named);
    cr_assert_gt(probe_clients(st.probe, "by-name"), 0);
    rdl_client_close(named);
    free(uri);
}

Test(connection, with_a_password_in_the_uri_or_in_the_options)
{
    char *uri;
    rdl_client_t *client;

    st.server = server_start(&(struct server_options){.tcp = true, .password = "p@ss:w/rd"});
    st.probe = probe_open(st.server);
    uri = must_format("redis://:p%%40ss%%3Aw%%2Frd@127.0.0.1:%d", server_port(st.server));
    client = client_open(uri, NULL);
    expect_usable(client);
    rdl_client_close(client);
    client = client_open(server_uri(st.server), OPTIONS(.password = "p@ss:w/rd"));
    expect_usable(client);
    rdl_client_close(client);
    expect_open_fails(RDL_EAUTH, server_uri(st.server), NULL, "NOAUTH");
    expect_open_fails(RDL_EAUTH, server_uri(st.server), OPTIONS(.password = "wrong"), "WRONGPASS");
    free(uri);
}

/* client.h, lazy */
Test(connection, to_a_server_that_comes_later)
{
    rdl_client_t *client;
    rdl_lock_t *lock;

    st.server = server_start(NULL);
    server_kill(st.server);
    client = client_open(server_uri(st.server), OPTIONS(.lazy = true, .command_timeout_ms = 1500));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_ECONN, rdl_try_lock(lock, 0, LEASE_MS, &err));
    server_start_again(st.server);
    expect(RDL_OK, rdl_try_lock(lock, 20000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_client_close(client);
}

Test(connection, that_is_refused_later_is_the_calls_error)
{
    rdl_client_t *client;
    rdl_lock_t *lock;

    st.server = server_start(&(struct server_options){.password = "pw"});
    client = client_open(server_uri(st.server), OPTIONS(.lazy = true, .password = "wrong", .command_timeout_ms = 3000));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_ECONN, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "WRONGPASS"), "%s", err.message);
    rdl_lock_free(lock);
    rdl_client_close(client);
    client = client_open(server_uri(st.server),
                         OPTIONS(.lazy = true)); /* closed before it was ever connected, or just then */
    rdl_client_close(client);
    expect_open_fails(RDL_EINVAL, "redis://host:port", OPTIONS(.lazy = true), "port");
}

/* client.h: options, and what they point to, are copied. */
Test(connection, with_options_that_are_gone_after_the_open)
{
    char *password = must_format("pw"), *name = must_format("copied");
    rdl_client_options_t *options = must_alloc(sizeof *options);

    st.server = server_start(&(struct server_options){.password = "pw"});
    st.probe = probe_open(st.server);
    *options = *OPTIONS(.password = password, .client_name = name);
    st.client = client_open(server_uri(st.server), options);
    memset(password, 'x', 2);
    memset(name, 'x', 6);
    memset(options, 0xff, sizeof *options);
    free(password);
    free(name);
    free(options);
    expect_usable(st.client);
    (void)probe_int(st.probe, "CLIENT KILL TYPE normal SKIPME yes");
    expect_usable(st.client);
    cr_assert_gt(probe_clients(st.probe, "copied"), 0);
}

Test(connection, by_tcp_over_ipv6)
{
    rdl_client_t *client = NULL;
    char *uri;
    int rc;

    stage_open(&st, .server = {.tcp = true, .config = "bind 127.0.0.1 -::1"});
    uri = must_format("redis://[::1]:%d", server_port(st.server));
    rc = rdl_client_open(uri, OPTIONS(.connect_timeout_ms = 1000), &client, &err);
    free(uri);
    if (rc == RDL_ECONN)
        cr_skip_test("no IPv6 here: %s", err.message);
    expect(RDL_OK, rc);
    expect_usable(client);
    rdl_client_close(client);
}

Test(connection, to_another_database)
{
    char *uri;
    rdl_client_t *client;
    rdl_lock_t *lock;

    stage_open(&st);
    uri = must_format("%s?db=3", server_uri(st.server));
    client = client_open(uri, NULL);
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    cr_assert_eq(probe_ask(st.probe, "SELECT 3")->kind, REPLY_STATUS);
    cr_assert_eq(probe_keys(st.probe), 1);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_client_close(client);
    free(uri);
    uri = must_format("%s?db=99", server_uri(st.server));
    expect_open_fails(RDL_ESERVER, uri, NULL, "no database");
    free(uri);
}

Test(connection, two_clients_of_a_process_do_not_meet)
{
    rdl_client_t *other;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    cr_assert_str_neq(rdl_client_id(st.client), rdl_client_id(other));
    cr_assert_eq(strlen(rdl_client_id(other)), 36);
    expect_usable(other);
    rdl_client_close(other);
    expect_usable(st.client);
}

Test(connection, idle_client_sends_pings_and_nothing_else)
{
    struct monitor *monitor;
    size_t mark, all;

    stage_open(&st, .client = OPTIONS(.ping_interval_ms = 100));
    expect_usable(st.client);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    let_pass_ms(700);
    all = monitor_mark(monitor) - mark - 1; /* the mark itself */
    cr_assert_eq(monitor_count(monitor, mark, "PING"), all);
    expect_between(2, (int64_t)all, 40);
    monitor_stop(monitor);
}

/* ---- no way in: bounded, with the reason (T15, X1) -------------------------------------------------------------- */

Test(connection, open_says_why_nobody_could_be_reached)
{
    char *uri = must_format("redis://127.0.0.1:%d", dead_port());
    int64_t start = now_ms();

    expect_open_fails(RDL_ECONN, uri, OPTIONS(.connect_timeout_ms = 1000), "refused");
    expect_open_fails(RDL_ECONN, "unix:/nonexistent/redis.sock", OPTIONS(.connect_timeout_ms = 1000), "No such file");
    cr_assert_str_eq(err.server, "unix:/nonexistent/redis.sock");
    expect_open_fails(RDL_ECONN, "redis://no-such-host.invalid", OPTIONS(.connect_timeout_ms = 2000),
                      "no-such-host.invalid");
    cr_assert_lt(now_ms() - start, 6000);
    free(uri);
}

/* ---- another kind of server than the URI says (N12) ------------------------------------------------------------- */

/* With and without HELLO. */
static void expect_kind(const struct server_options *options, const char *scheme, const char *behind, int code,
                        const char *says)
{
    for (int old = 0; old < 2; old++) {
        struct server_options o = *options;
        int fd, bus_fd;
        char *config = must_format("%s\n%s", o.config != NULL ? o.config : "", old ? "rename-command HELLO \"\"" : ""),
             *uri;

        o.config = config;
        o.port = reserve_ports_of_node(&fd, &bus_fd);
        st.server = server_start(&o);
        st.probe = probe_open(st.server);
        uri = must_format("%s://127.0.0.1:%d%s", scheme, server_port(st.server), behind);
        expect_open_fails(code, uri, OPTIONS(.connect_timeout_ms = 5000), says);
        free(config);
        free(uri);
        live_again();
        (void)close(fd);
        (void)close(bus_fd);
    }
}

Test(connection, N12_server_of_another_kind_is_called_what_it_is)
{
    static const struct server_options single = {.tcp = true}, node = {.tcp = true, .config = "cluster-enabled yes"},
                                       sentinel = {.tcp = true, .sentinel = true};

    expect_kind(&sentinel, "redis", "", RDL_ESERVER, "this is a sentinel: the URI is sentinel://");
    expect_kind(&sentinel, "redis", "/3", RDL_ESERVER, "this is a sentinel: the URI is sentinel://");
    expect_kind(&node, "redis", "", RDL_ESERVER, "this is a node of a cluster: the URI is cluster://");
    expect_kind(&node, "redis", "/3", RDL_ESERVER, "this is a node of a cluster: the URI is cluster://");
    expect_kind(&single, "sentinel", "/main", RDL_ECONN, "it is no sentinel, but a server of its own");
    expect_kind(&single, "cluster", "", RDL_ESERVER, "it is no node of a cluster");
    expect_kind(&sentinel, "cluster", "", RDL_ESERVER, "this is a sentinel: the URI is sentinel://");
}

/* Who comes back as something else says so with the next call. */
Test(connection, N12_server_that_comes_back_as_another_kind_is_called_what_it_is)
{
    int fd, bus_fd, port = reserve_ports_of_node(&fd, &bus_fd);
    rdl_lock_t *lock;

    st.server = server_start(&(struct server_options){.tcp = true, .port = port});
    st.client = client_open(server_uri(st.server), OPTIONS(.command_timeout_ms = 1500));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    server_stop(st.server);
    st.server = server_start(&(struct server_options){.tcp = true, .port = port, .config = "cluster-enabled yes"});
    st.probe = probe_open(st.server);
    cr_assert(WAIT_UNTIL(rdl_try_lock(lock, 0, LEASE_MS, &err) < 0 &&
                             strstr(err.message, "this is a node of a cluster") != NULL,
                         20000),
              "%s", err.message);
    rdl_lock_free(lock);
    (void)close(fd);
    (void)close(bus_fd);
}

/* client.h: a lazy client waits until it is a master. */
Test(connection, N12_replica_is_called_one_and_waited_for)
{
    char *config = must_format("replicaof 127.0.0.1 %d", dead_port());
    rdl_lock_t *lock;

    st.server = server_start(&(struct server_options){.tcp = true, .config = config});
    st.probe = probe_open(st.server);
    expect_open_fails(RDL_ESERVER, server_uri(st.server), NULL, "this is a replica");
    st.client = client_open(server_uri(st.server), OPTIONS(.lazy = true, .command_timeout_ms = 1500));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_ECONN, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cr_assert_not_null(strstr(err.message, "this is a replica"), "%s", err.message);
    (void)probe_text(st.probe, "REPLICAOF NO ONE");
    expect(RDL_OK, rdl_try_lock(lock, 20000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(config);
}

static void answer_as_web_server(void *arg, const char *request, size_t len, struct bytes *to)
{
    (void)arg;
    (void)request;
    (void)len;
    scripted_say(to, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

Test(connection, N12_web_server_is_called_that)
{
    struct scripted *web = scripted_start(answer_as_web_server, NULL);
    char *uri = must_format("redis://127.0.0.1:%d", scripted_port(web));

    expect_open_fails(RDL_ECONN, uri, NULL, "this is a web server");
    scripted_stop(web);
    free(uri);
}

/* Else each later answer is taken for that to the question before, and the greeting's last for the first call's. */
Test(connection, message_within_the_greeting_is_no_answer)
{
    st.server = server_start(NULL);
    st.probe = probe_open(st.server);
    st.proxy = proxy_start(st.server);
    (void)proxy_on(st.proxy, .action = PROXY_ANSWER, .part = PROXY_REPLY, .command = "PING", .every = true,
                   .answer = ">2\r\n+news\r\n:1\r\n+PONG\r\n");
    st.client = client_open(proxy_uri(st.proxy), NULL);
    expect_usable(st.client);
}

/* ---- URIs that say who we are (client.h) ------------------------------------------------------------------------ */

/* What stands before the @ without a colon is a user; who wrote his password there must not believe that it was sent.
 */
Test(connection, user_without_a_password_is_refused_with_words)
{
    static const char *const uris[] = {"redis://secret@127.0.0.1:1", "rediss://secret@127.0.0.1:1",
                                       "sentinel://secret@127.0.0.1:1/main", "cluster://secret@127.0.0.1:1",
                                       "unix://secret@/nowhere"};

    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        expect_open_fails(RDL_EINVAL, uris[i], NULL, "user without a password: write :password@");
        cr_assert_null(strstr(err.message, "secret"));
        expect_open_fails(RDL_EINVAL, uris[i], OPTIONS(.lazy = true), "user without a password");
    }
    expect_open_fails(RDL_EINVAL, "redis://127.0.0.1:1", OPTIONS(.username = "app"), "username");
    expect_open_fails(RDL_EINVAL, "sentinel://127.0.0.1:1/main", OPTIONS(.sentinel_username = "app"),
                      "sentinel_username");
}

Test(connection, user_of_the_uri_may_have_no_password_or_that_of_the_options)
{
    char *uri;

    st.server = server_start(&(struct server_options){
        .tcp = true, .config = "user lone on >pw ~* &* +@all\nuser open on nopass ~* &* +@all"});
    st.probe = probe_open(st.server);
    uri = must_format("redis://lone@127.0.0.1:%d", server_port(st.server));
    st.client = client_open(uri, OPTIONS(.password = "pw"));
    expect_usable(st.client);
    st.client = rdl_client_close(st.client);
    free(uri);
    uri = must_format("redis://open:@127.0.0.1:%d", server_port(st.server));
    st.client = client_open(uri, NULL);
    expect_usable(st.client);
    free(uri);
}

/* It answers the greeting like somebody who does not know it, and closes the connection. */
Test(connection, open_says_that_the_server_has_no_room)
{
    static const char *const passwords[] = {"secret", NULL};

    for (size_t i = 0; i < sizeof passwords / sizeof *passwords; i++) {
        rdl_client_t *client = NULL;

        st.server = server_start(&(struct server_options){.tcp = true, .password = passwords[i]});
        st.probe = probe_open(st.server);
        (void)probe_text(st.probe, "CONFIG SET maxclients 1");
        expect(RDL_ESERVER, rdl_client_open(server_uri(st.server), OPTIONS(.password = passwords[i]), &client, &err));
        cr_assert_not_null(strstr(err.message, "max number of clients"), "%s", err.message);
        (void)probe_text(st.probe, "CONFIG SET maxclients 100"); /* for who looks at it afterwards */
        live_again();
    }
}

Test(connection, open_refuses_options_out_of_range)
{
    static const rdl_client_options_t bad[] = {
        {.version = 0},
        {.version = 99},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .watchdog_lease_ms = 29},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .watchdog_lease_ms = -1},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .connections = 65},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .connections = -1},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .cache_names = 1000001},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .connect_timeout_ms = -1},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .command_timeout_ms = -1},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .drift_ppm = -1},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .client_name = "two words"},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .client_name = "line\r\nFLUSHALL"},
        {.version = RDL_CLIENT_OPTIONS_VERSION, .dispatch = 7},
    };
    rdl_client_t *client = NULL;

    stage_open(&st);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(rdl_client_open(server_uri(st.server), &bad[i], &client, &err), RDL_EINVAL, "number %zu", i);
        cr_assert_null(client);
    }
    expect_open_fails(RDL_EINVAL, "http://127.0.0.1", NULL, "");
    expect_open_fails(RDL_EINVAL, "", NULL, "");
}

/* X1: the server hangs at each step of the way in. */
Test(connection, open_is_bounded_wherever_the_server_hangs)
{
    static const char *const steps[] = {NULL, "HELLO", "CLIENT", "SCRIPT"};

    stage_open(&st, .proxied = true);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int rule = proxy_on(st.proxy, .action = PROXY_HOLD, .command = steps[i], .every = true);
        int64_t start = now_ms();
        rdl_client_t *client = NULL;
        int rc = rdl_client_open(stage_uri(&st), OPTIONS(.connect_timeout_ms = 300), &client, &err);

        if (proxy_acted(st.proxy, rule) > 0) /* else this step is not part of the way */
            cr_assert_eq(rc, RDL_ECONN, "%s: %s", steps[i] != NULL ? steps[i] : "anything", code_name(rc));
        cr_assert_lt(now_ms() - start, 300 + SLACK_MS);
        rdl_client_close(client);
        proxy_let_go(st.proxy, rule);
    }
    left_behind = true;
}

/* X1: the listener is there and accepts, and nobody answers: a machine whose process is stopped. */
Test(connection, open_at_a_stopped_server_is_bounded)
{
    rdl_client_t *client = NULL;
    int64_t start;

    stage_open(&st, .server = {.tcp = true});
    server_pause(st.server);
    start = now_ms();
    expect(RDL_ECONN, rdl_client_open(stage_uri(&st), OPTIONS(.connect_timeout_ms = 250), &client, &err));
    expect_between(250, now_ms() - start, 250 + SLACK_MS);
    server_resume(st.server);
}
