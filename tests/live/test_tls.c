/* SPDX-License-Identifier: MIT */
/* test_tls.c - rediss://: whom the client believes, how a refusal reads, and that a stream of records loses nothing.
 *
 * The everyday verbs over TLS are tested by other programs of this folder, which tests/SConscript runs a second time
 * with $REDLATCH_TEST_TLS. */
#include "tests/live/live.h"
#include "tests/support/certs.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME "vault"
#define LEASE_MS 20000
#define TLS(...) (&(rdl_tls_options_t){.version = RDL_TLS_OPTIONS_VERSION, __VA_ARGS__})

LIVE_SUITE(tls, 60);

static char *file(const char *name)
{
    return must_format("%s/%s", server_dir(st.server), name);
}

static void start_server(const char *config)
{
    st.server = server_start(&(struct server_options){.tls = true, .config = config});
    st.probe = probe_open(st.server);
}

static void use(rdl_client_t *client)
{
    rdl_lock_t *lock = reentrant(client, NAME, NULL);

    expect(RDL_OK, rdl_try_lock(lock, 5000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

static void expect_works(const char *uri, const rdl_tls_options_t *tls)
{
    rdl_client_t *client = client_open(uri, OPTIONS(.tls = tls));

    use(client);
    rdl_client_close(client);
}

static void expect_fails(int code, const char *uri, const rdl_tls_options_t *tls, const char *says)
{
    rdl_client_t *client = NULL;

    expect(code, rdl_client_open(uri, OPTIONS(.tls = tls, .connect_timeout_ms = 2000), &client, &err));
    cr_assert_not_null(strstr(err.message, says), "'%s' does not say '%s'", err.message, says);
}

/* ---- whom to believe -------------------------------------------------------------------------------------------- */

Test(tls, believes_who_is_signed_by_the_ca_given_by_file_or_folder_or_by_the_system)
{
    char *ca, *dir, *by_address;

    start_server(NULL);
    ca = file("ca.crt");
    dir = file("authorities");
    by_address = must_format("rediss://127.0.0.1:%d/3", server_port(st.server));
    expect_works(server_uri(st.server), TLS(.ca_file = ca));
    expect_works(by_address, TLS(.ca_file = ca));
    expect_works(server_uri(st.server), NULL); /* $SSL_CERT_FILE is the system's */
    setenv("SSL_CERT_FILE", "/nonexistent", 1);
    expect_fails(RDL_ECONN, server_uri(st.server), NULL, "is not accepted");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.ca_file = dir), dir);
    free(ca);
    free(dir);
    free(by_address);
}

Test(tls, another_ca_is_refused)
{
    char *other;

    start_server(NULL);
    certs_make_ca(server_dir(st.server), "other");
    other = file("other.crt");
    expect_fails(RDL_ECONN, server_uri(st.server), TLS(.ca_file = other), "the server's certificate is not accepted");
    expect_works(server_uri(st.server), TLS(.insecure = true));
    free(other);
}

Test(tls, certificate_must_be_for_the_host_or_the_name_given)
{
    char *ca, *address;

    start_server(NULL);
    ca = file("ca.crt");
    address = must_format("rediss://127.0.0.2:%d", server_port(st.server));
    expect_fails(RDL_ECONN, server_uri(st.server), TLS(.ca_file = ca, .server_name = "vault.internal"),
                 "the server's certificate is not for vault.internal");
    expect_fails(RDL_ECONN, server_uri(st.server), TLS(.ca_file = ca, .server_name = "10.0.0.1"),
                 "is not for 10.0.0.1");
    expect_works(server_uri(st.server), TLS(.ca_file = ca, .server_name = "127.0.0.1"));
    server_kill(st.server);
    certs_issue(server_dir(st.server), "ca", "server", "DNS:vault.internal", 2);
    server_start_again(st.server);
    expect_fails(RDL_ECONN, server_uri(st.server), TLS(.ca_file = ca), "is not for localhost");
    expect_works(server_uri(st.server), TLS(.ca_file = ca, .server_name = "vault.internal"));
    expect_works(server_uri(st.server), TLS(.ca_file = ca, .server_name = "vault.internal."));
    probe_close(st.probe);
    st.probe = probe_open(st.server);
    free(address);
    free(ca);
}

Test(tls, expired_certificate_is_refused)
{
    char *ca;

    start_server(NULL);
    server_kill(st.server);
    certs_issue(server_dir(st.server), "ca", "server", "DNS:localhost", -1);
    server_start_again(st.server);
    ca = file("ca.crt");
    expect_fails(RDL_ECONN, server_uri(st.server), TLS(.ca_file = ca), "expired");
    expect_works(server_uri(st.server), TLS(.insecure = true));
    probe_close(st.probe);
    st.probe = probe_open(st.server);
    free(ca);
}

/* ---- who we are ------------------------------------------------------------------------------------------------- */

/* TLS 1.3 refuses after the handshake, when requests may be on their way. */
static void expect_client_certificate_wanted(const char *config)
{
    char *ca, *cert, *key, *other_cert, *other_key;

    start_server(config);
    certs_issue(server_dir(st.server), "ca", "client", "DNS:client", 2);
    certs_make_ca(server_dir(st.server), "other");
    ca = file("ca.crt");
    cert = file("client.crt");
    key = file("client.key");
    other_cert = file("other.crt");
    other_key = file("other.key");
    expect_works(server_uri(st.server), TLS(.ca_file = ca, .cert_file = cert, .key_file = key));
    for (int i = 0; i < 20; i++) {
        rdl_client_t *client = NULL;

        expect(RDL_ECONN, rdl_client_open(server_uri(st.server), OPTIONS(.tls = TLS(.ca_file = ca)), &client, &err));
        cr_assert_not_null(strstr(err.message, "certificate"), "%s", err.message);
    }
    expect_fails(RDL_ECONN, server_uri(st.server), TLS(.ca_file = ca, .cert_file = other_cert, .key_file = other_key),
                 "certificate");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.ca_file = ca, .cert_file = cert, .key_file = other_key),
                 "key_file");
    free(ca);
    free(cert);
    free(key);
    free(other_cert);
    free(other_key);
}

Test(tls, client_certificate_is_shown_to_a_server_that_wants_one)
{
    expect_client_certificate_wanted("tls-auth-clients yes");
}

Test(tls, client_certificate_is_shown_by_version_1_2_too)
{
    expect_client_certificate_wanted("tls-auth-clients yes\ntls-protocols TLSv1.2");
}

Test(tls, key_with_a_passphrase_is_an_error_and_nobody_is_asked)
{
    char *cert, *key;
    FILE *f;

    start_server(NULL);
    certs_issue(server_dir(st.server), "ca", "client", "DNS:client", 2);
    cert = file("client.crt");
    key = file("locked.key");
    cr_assert_not_null(f = fopen(key, "w"));
    fprintf(f, "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"
               "00112233445566778899AABBCCDDEEFF\n\nAAECAwQFBgcICQoLDA0ODw==\n-----END EC PRIVATE KEY-----\n");
    cr_assert_eq(fclose(f), 0);
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.cert_file = cert, .key_file = key), "key_file");
    free(cert);
    free(key);
}

/* ---- options that make no sense --------------------------------------------------------------------------------- */

Test(tls, options_that_contradict_are_refused)
{
    char *ca;

    start_server(NULL);
    ca = file("ca.crt");
    expect_fails(RDL_EINVAL, "redis://localhost", TLS(.ca_file = ca), "not rediss://");
    expect_fails(RDL_EINVAL, "unix:/nonexistent", TLS(.insecure = true), "not rediss://");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.cert_file = ca), "without key_file");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.key_file = ca), "without cert_file");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.ca_file = ca, .insecure = true), "insecure");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.ca_dir = ca, .insecure = true), "insecure");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.ca_file = "/nonexistent/ca"), "No such file or directory");
    expect_fails(RDL_EINVAL, server_uri(st.server), TLS(.server_name = ""), "server_name");
    expect_fails(RDL_EINVAL, server_uri(st.server), &(rdl_tls_options_t){.version = 7}, "version 7");
    free(ca);
}

/* ---- who does not speak TLS, or not at all ---------------------------------------------------------------------- */

/* A plain server waits for the end of a line. It comes by chance, if at all: a listener that says nothing is the usual
 * case, and an answer that is not TLS the other. */
Test(tls, plain_server_is_not_taken_for_a_secure_one)
{
    char *uri;

    st.server = server_start(&(struct server_options){.tcp = true});
    st.probe = probe_open(st.server);
    uri = must_format("rediss://127.0.0.1:%d", server_port(st.server));
    expect_fails(RDL_ECONN, uri, TLS(.insecure = true), "speak TLS");
    free(uri);
}

Test(tls, secure_server_is_not_taken_for_a_plain_one)
{
    rdl_client_t *client = NULL;
    char *uri;

    start_server(NULL);
    uri = must_format("redis://127.0.0.1:%d", server_port(st.server));
    expect(RDL_ECONN, rdl_client_open(uri, OPTIONS(.connect_timeout_ms = 2000), &client, &err));
    cr_assert_neq(err.message[0], '\0');
    free(uri);
}

struct listener {
    int fd;
    int port;
    char *uri;
};

/* Somebody who accepts (the kernel does) and never says a word. */
static struct listener listen_in_silence(const char *host)
{
    struct listener l;

    l.port = reserve_port(&l.fd);
    cr_assert_eq(listen(l.fd, 64), 0);
    l.uri = must_format("rediss://%s:%d", host, l.port);
    return l;
}

static void listener_done(struct listener *l)
{
    close(l->fd);
    free(l->uri);
}

/* X1 */
Test(tls, handshake_that_hangs_ends_with_the_deadline_of_the_call)
{
    struct listener l = listen_in_silence("localhost");
    rdl_client_t *client = NULL;
    rdl_lock_t *lock;
    int64_t start = now_ms();

    expect(RDL_ECONN,
           rdl_client_open(l.uri, OPTIONS(.tls = TLS(.insecure = true), .connect_timeout_ms = 300), &client, &err));
    expect_between(300, now_ms() - start, 300 + SLACK_MS);
    client = client_open(l.uri, OPTIONS(.tls = TLS(.insecure = true), .lazy = true, .command_timeout_ms = 200));
    lock = reentrant(client, NAME, NULL);
    start = now_ms();
    expect(RDL_ECONN, rdl_try_lock(lock, 250, LEASE_MS, &err));
    expect_between(250, now_ms() - start, 250 + SLACK_MS);
    start = now_ms();
    expect(RDL_ECONN, rdl_is_locked(lock, &err));
    expect_between(200, now_ms() - start, 200 + SLACK_MS);
    rdl_lock_free(lock);
    start = now_ms();
    rdl_client_close(client);
    expect_between(0, now_ms() - start, 1000 + SLACK_MS);
    listener_done(&l);
}

/* What the client says first, up to `cap` bytes. */
static size_t first_words(const struct listener *l, char *to, size_t cap)
{
    struct pollfd wait = {.fd = l->fd, .events = POLLIN};
    ssize_t n;

    cr_assert_eq(poll(&wait, 1, SOON_MS), 1);
    cr_assert_geq(wait.fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC), 0);
    cr_assert_eq(poll(&wait, 1, SOON_MS), 1);
    n = read(wait.fd, to, cap);
    close(wait.fd);
    return n > 0 ? (size_t)n : 0;
}

static void expect_asked_for(const char *host, const char *server_name, const char *name, bool expected)
{
    struct listener l = listen_in_silence(host);
    rdl_client_t *client =
        client_open(l.uri, OPTIONS(.tls = TLS(.insecure = true, .server_name = server_name), .lazy = true));
    char hello[4096];
    size_t len = first_words(&l, hello, sizeof hello);

    cr_assert_gt(len, 0);
    cr_assert_eq(memmem(hello, len, name, strlen(name)) != NULL, expected, "%s", name);
    rdl_client_close(client);
    listener_done(&l);
}

Test(tls, server_is_told_which_name_is_meant_but_no_address)
{
    expect_asked_for("localhost", NULL, "localhost", true);
    expect_asked_for("127.0.0.1", NULL, "127.0.0.1", false);
    expect_asked_for("127.0.0.1", "vault.internal", "vault.internal", true);
}

/* ---- rotation --------------------------------------------------------------------------------------------------- */

/* A new CA and a new certificate of the server's, under a running client with a hold: it reconnects by itself. */
Test(tls, files_that_change_are_read_when_the_client_connects_again)
{
    rdl_lock_t *lock;
    char *ca, *cert, *key;

    start_server("tls-auth-clients yes\nappendonly yes\nappendfsync always");
    certs_issue(server_dir(st.server), "ca", "client", "DNS:client", 2);
    ca = file("ca.crt");
    cert = file("client.crt");
    key = file("client.key");
    st.client =
        client_open(server_uri(st.server),
                    OPTIONS(.tls = TLS(.ca_file = ca, .cert_file = cert, .key_file = key), .command_timeout_ms = 300));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    probe_close(st.probe);
    server_kill(st.server);
    certs_make_ca(server_dir(st.server), "new");
    certs_issue(server_dir(st.server), "new", "server", "DNS:localhost", 2);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    (void)rdl_is_locked(lock, &err); /* finds the connection broken */
    expect(RDL_ECONN, rdl_is_locked(lock, &err));
    cr_assert_not_null(strstr(err.message, "is not accepted"), "%s", err.message);
    server_kill(st.server);
    certs_make_ca(server_dir(st.server), "ca");
    certs_issue(server_dir(st.server), "ca", "server", "DNS:localhost", 2);
    certs_issue(server_dir(st.server), "ca", "client", "DNS:client", 2);
    server_start_again(st.server);
    probe_close(st.probe);
    st.probe = probe_open(st.server);
    cr_assert(WAIT_UNTIL(rdl_extend(lock, 2 * LEASE_MS, &err) == RDL_OK, SOON_MS), "%s", err.message);
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(ca);
    free(cert);
    free(key);
}

/* ---- the stream ------------------------------------------------------------------------------------------------- */

/* Requests and replies of many records, written while others read. */
Test(tls, many_callers_share_few_streams)
{
    enum { CALLERS = 24, ROUNDS = 10, NAME_LEN = 40000 };
    struct caller *callers[CALLERS];
    rdl_lock_t *locks[CALLERS];

    start_server(NULL);
    st.client = client_open(server_uri(st.server), NULL);
    for (int i = 0; i < CALLERS; i++) {
        char *name = must_alloc(NAME_LEN + 1);

        memset(name, 'A' + i, NAME_LEN);
        locks[i] = reentrant(st.client, name, NULL);
        callers[i] = caller_new();
        free(name);
    }
    for (int round = 0; round < ROUNDS; round++)
        take_and_give_at_once(callers, locks, CALLERS, LEASE_MS);
    expect_between(1, probe_clients(st.probe, "redlatch"), 4 + 2);
    for (int i = 0; i < CALLERS; i++) {
        caller_free(callers[i]);
        rdl_lock_free(locks[i]);
    }
}

/* Nothing waits inside OpenSSL for the next byte: messages that come as one long burst are all there at its end. */
Test(tls, burst_of_messages_is_read_to_its_end)
{
    enum { WAITERS = 200, NAME_LEN = 600 };
    struct caller *callers[WAITERS];
    rdl_lock_t *locks[WAITERS];
    char *name = must_alloc(NAME_LEN + 1), **channels = must_alloc(WAITERS * sizeof *channels);

    start_server(NULL);
    st.client = client_open(server_uri(st.server), NULL);
    for (int i = 0; i < WAITERS; i++) {
        snprintf(name, NAME_LEN + 1, "%0*d", NAME_LEN, i);
        locks[i] = reentrant(st.client, name, NULL);
        channels[i] = channel_of(name);
        callers[i] = caller_new();
        foreign_take(st.probe, name, LEASE_MS);
        caller_try_lock(callers[i], locks[i], LEASE_MS, LEASE_MS);
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == WAITERS, SOON_MS));
    (void)probe_text(st.probe, "FLUSHALL");
    (void)probe_text(st.probe, "MULTI");
    for (int i = 0; i < WAITERS; i++)
        (void)probe_text(st.probe, "PUBLISH %s 0", channels[i]);
    (void)probe_ask(st.probe, "EXEC");
    for (int i = 0; i < WAITERS; i++) {
        expect_result(RDL_OK, callers[i], SOON_MS);
        caller_unlock(callers[i], locks[i]);
        expect_result(RDL_OK, callers[i], SOON_MS);
        caller_free(callers[i]);
        rdl_lock_free(locks[i]);
        free(channels[i]);
    }
    free(channels);
    free(name);
}

Test(tls, cut_connections_come_back)
{
    rdl_lock_t *lock;

    start_server(NULL);
    st.client = client_open(server_uri(st.server), NULL);
    lock = reentrant(st.client, NAME, NULL);
    for (int i = 0; i < 20; i++) {
        expect(RDL_OK, rdl_try_lock(lock, SOON_MS, LEASE_MS, &err));
        (void)probe_int(st.probe, "CLIENT KILL TYPE normal SKIPME yes");
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    rdl_lock_free(lock);
}
