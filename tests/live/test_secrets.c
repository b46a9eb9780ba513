/* test_secrets.c - X7: a password never appears in a log line or an error text, whatever goes wrong. */
#include "tests/live/live.h"

#include <stdio.h>

#define PASSWORD "s3cr3t-Pa55"
#define IN_URI "s3cr3t%%2DPa55" /* the same, one character escaped; doubled for printf */
#define NAME "vault"

LIVE_SUITE(secrets, 60);

/* All that a client says, in one text. */
static struct {
    pthread_mutex_t mu;
    struct bytes text;
    unsigned lines;
} said = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void hear(rdl_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    pthread_mutex_lock(&said.mu);
    bytes_add(&said.text, line, strlen(line));
    bytes_add(&said.text, "\n", 1);
    said.lines++;
    pthread_mutex_unlock(&said.mu);
}

static void expect_free_of_secrets(const void *text, size_t len)
{
    static const char *const secrets[] = {PASSWORD, "s3cr3t", "Pa55"};

    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        cr_assert_null(memmem(text, len, secrets[i], strlen(secrets[i])), "%.*s", (int)len, (const char *)text);
}

static void expect_nothing_said(void)
{
    expect_free_of_secrets(&err, sizeof err);
    pthread_mutex_lock(&said.mu);
    if (said.text.len > 0)
        expect_free_of_secrets(said.text.at, said.text.len);
    pthread_mutex_unlock(&said.mu);
}

static void open_server(void)
{
    st.server = server_start(
        &(struct server_options){.tcp = true, .password = PASSWORD, .config = "user app on >" PASSWORD " ~* &* +@all"});
    st.probe = probe_open(st.server);
}

static int try_open(const char *uri, const char *password, rdl_client_t **ret)
{
    rdl_client_t *client = NULL;
    int rc = rdl_client_open(uri, OPTIONS(.password = password, .connect_timeout_ms = 500, .log = hear), &client, &err);

    expect_nothing_said();
    if (ret != NULL)
        *ret = client;
    else
        rdl_client_close(client);
    return rc;
}

Test(secrets, failed_opens_do_not_quote_the_password)
{
    static const char *const uris[] = {
        "redis://app:" PASSWORD "@127.0.0.1:1",           /* nobody there */
        "redis://app:" PASSWORD "@no-such-host.invalid",  /* no such name */
        "redis://:" PASSWORD "@127.0.0.1:99999",          /* malformed behind the password */
        "redis://app:" PASSWORD "@/0",                    /* no host */
        "redis://app:" PASSWORD,                          /* no @: the password looks like a port */
        "redis://app:" PASSWORD "%zz@127.0.0.1",          /* bad escape inside it */
        "redis://app:" PASSWORD "%00@127.0.0.1",          /* a NUL inside it */
        "unix://app:" PASSWORD "@/nonexistent/socket",    /* no such file */
        "unix://app:" PASSWORD "@relative",               /* not absolute */
        "http://app:" PASSWORD "@127.0.0.1",              /* no such scheme */
        "rediss://app:" PASSWORD "@127.0.0.1",            /* not yet */
        "app:" PASSWORD "@127.0.0.1",                     /* no scheme */
        "redis://" PASSWORD "@127.0.0.1:1",               /* a user only */
        "redis://app:" PASSWORD "@127.0.0.1/" PASSWORD,   /* as a database */
        "redis://app:" PASSWORD "@127.0.0.1/0?" PASSWORD, /* as a parameter */
    };

    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++)
        cr_assert_lt(try_open(uris[i], NULL, NULL), 0, "%s", uris[i]);
    (void)try_open("redis://127.0.0.1:1", PASSWORD, NULL);
}

Test(secrets, refused_credentials_are_not_quoted)
{
    char *uri;

    open_server();
    uri = must_format("redis://app:" IN_URI "-wrong@127.0.0.1:%d", server_port(st.server));
    cr_assert_eq(try_open(uri, NULL, NULL), RDL_EAUTH);
    free(uri);
    uri = must_format("redis://nobody:" IN_URI "@127.0.0.1:%d", server_port(st.server));
    cr_assert_eq(try_open(uri, NULL, NULL), RDL_EAUTH);
    free(uri);
    cr_assert_eq(try_open(server_uri(st.server), PASSWORD "-wrong", NULL), RDL_EAUTH);
}

/* A life with trouble in it, all of it logged. */
Test(secrets, log_of_a_troubled_life_is_free_of_the_password)
{
    rdl_client_t *client = NULL;
    rdl_lock_t *lock;
    char *uri;

    open_server();
    uri = must_format("redis://app:" IN_URI "@127.0.0.1:%d", server_port(st.server));
    expect(RDL_OK, try_open(uri, NULL, &client));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 2000, RDL_LEASE_AUTO, &err));
    (void)probe_text(st.probe, "ACL SETUSER app -evalsha -eval");
    (void)rdl_unlock(lock, &err);
    expect_nothing_said();
    (void)probe_text(st.probe, "ACL SETUSER app resetpass >other"); /* the next AUTH is refused */
    (void)probe_int(st.probe, "CLIENT KILL TYPE normal SKIPME yes");
    (void)rdl_try_lock(lock, 500, 1000, &err);
    expect_nothing_said();
    probe_close(st.probe);
    server_kill(st.server);
    (void)rdl_try_lock(lock, 300, 1000, &err);
    expect_nothing_said();
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    expect(RDL_OK, rdl_try_lock(lock, 5000, 1000, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_client_close(client);
    expect_nothing_said();
    pthread_mutex_lock(&said.mu);
    cr_assert_gt(said.lines, 3); /* it did speak */
    pthread_mutex_unlock(&said.mu);
    free(uri);
}

/* The server's own slow log and monitor are its business, but a name that we choose for people must not carry it. */
Test(secrets, client_list_does_not_show_the_password)
{
    rdl_client_t *client = NULL;
    const char *list;
    char *uri;

    open_server();
    uri = must_format("redis://app:" IN_URI "@127.0.0.1:%d", server_port(st.server));
    expect(RDL_OK, try_open(uri, NULL, &client));
    list = probe_text(st.probe, "CLIENT LIST");
    expect_free_of_secrets(list, strlen(list));
    rdl_client_close(client);
    free(uri);
}
