/* SPDX-License-Identifier: MIT */
/* test_secrets.c - X7, N5: a password never appears in a log line or an error text, whatever goes wrong, and whatever a
 * server answers. */
#include "tests/live/live.h"
#include "tests/support/scripted.h"

#include <stdio.h>

#define PASSWORD "s3cr3t-Pa55"
#define IN_URI "s3cr3t%%2DPa55" /* the same, one character escaped; doubled for printf */
#define SENTINELS_PASSWORD "tw0-Pa55"
#define USER "us3r"
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
    static const char *const secrets[] = {PASSWORD, "s3cr3t", "Pa55", USER};

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
    int rc =
        rdl_client_open(uri, OPTIONS(.password = password, .connect_timeout_ms = 5000, .log = hear), &client, &err);

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
    expect(RDL_OK, rdl_try_lock(lock, 5000, RDL_LEASE_AUTO, &err));
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
    expect(RDL_OK, rdl_try_lock(lock, 5000, 30000, &err));
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

/* ---- servers that answer with what they were sent (N5) ---------------------------------------------------------- */

struct echo {
    const char *word; /* that errors begin with; "": what was sent, at once */
    bool all;         /* all that has come to this server, rather than the one request */
    bool raw;         /* the request itself, byte by byte */
    _Atomic int well; /* so many connections are greeted well first */
    bool twice;       /* of those the PING has a second answer, which is an echo */
    struct bytes heard;
};

static const char *const echo_words[] = {"ERR ",     "WRONGPASS ", "NOAUTH ",    "NOPERM ",
                                         "NOPROTO ", "LOADING ",   "DENIED ",    "READONLY ",
                                         "BUSY ",    "",           "UNHEARDOF ", "ERR max number of clients "};

static void add_words(struct bytes *to, const char *at, size_t len)
{
    size_t n;
    const char *word;

    for (size_t i = 0; (word = resp_word(at, len, i, &n)) != NULL; i++) {
        bytes_add(to, "`", 1);
        bytes_add(to, word, n);
        bytes_add(to, "`, ", 3);
    }
}

static void complain(const struct echo *echo, const char *request, size_t len, struct bytes *to)
{
    scripted_say(to, "-");
    scripted_say(to, echo->word);
    if (echo->word[0] != '\0')
        scripted_say(to, "unknown command, with args beginning with: ");
    if (echo->all)
        bytes_add(to, echo->heard.at, echo->heard.len);
    else
        add_words(to, request, len);
    scripted_say(to, "\r\n");
}

static void answer_echo(void *arg, const char *request, size_t len, struct bytes *to)
{
    struct echo *echo = arg;
    bool hello = scripted_is(request, len, "HELLO");

    add_words(&echo->heard, request, len);
    if (hello && echo->well-- > 0) {
        scripted_say(to, "%1\r\n+proto\r\n:3\r\n");
    } else if (hello || scripted_is(request, len, "AUTH") || echo->well < 0) {
        if (echo->raw)
            bytes_add(to, request, len);
        else
            complain(echo, request, len, to);
    } else if (scripted_is(request, len, "CLIENT") || scripted_is(request, len, "INFO")) {
        scripted_say(to, "$15\r\nid=7 addr=me:80\r\n");
    } else if (scripted_is(request, len, "PING")) {
        scripted_say(to, "+PONG\r\n");
        if (echo->twice)
            complain(echo, request, len, to);
    } else if (scripted_is(request, len, "EVALSHA") && !echo->all) {
        scripted_say(to, ":60000\r\n"); /* somebody else has it */
    } else {
        complain(echo, request, len, to);
    }
}

static const struct place {
    const char *before, *behind; /* the port */
} places[] = {
    {"redis://" USER ":" PASSWORD "@127.0.0.1:", ""},
    {"redis://:" PASSWORD "@127.0.0.1:", "/3"},
    {"sentinel://:" PASSWORD "@127.0.0.1:", "/main"},
    {"cluster://:" PASSWORD "@127.0.0.1:", ""},
};

#define PLACES (sizeof places / sizeof *places)

/* A client of that server is opened, and uses it where it can. */
static void check_echo(struct echo *echo, const struct place *place, bool lazy)
{
    struct scripted *server = scripted_start(answer_echo, echo);
    char *uri = must_format("%s%d%s", place->before, scripted_port(server), place->behind);
    rdl_client_t *client = NULL;
    rdl_lock_t *lock = NULL;

    memset(&err, 0, sizeof err);
    (void)rdl_client_open(uri,
                          OPTIONS(.connect_timeout_ms = 3000, .command_timeout_ms = 300, .log = hear, .lazy = lazy,
                                  .sentinel_username = echo->all ? NULL : USER,
                                  .sentinel_password = SENTINELS_PASSWORD),
                          &client, &err);
    expect_nothing_said();
    if (client != NULL && rdl_reentrant_lock(client, NAME, NULL, &lock, &err) == RDL_OK) {
        cr_assert_lt(rdl_try_lock(lock, 100, RDL_LEASE_AUTO, &err), 0);
        expect_nothing_said();
        rdl_lock_free(lock);
    }
    rdl_client_close(client);
    expect_nothing_said();
    scripted_stop(server);
    bytes_done(&echo->heard);
    free(uri);
}

/* Those that do not know HELLO or AUTH (renamed, Redis 5, proxies) quote it, with what stood behind it. */
Test(secrets, N5_greetings_that_are_answered_with_themselves_tell_nothing)
{
    for (size_t i = 0; i < sizeof echo_words / sizeof *echo_words; i++)
        for (size_t k = 0; k < PLACES; k++)
            check_echo(&(struct echo){.word = echo_words[i]}, &places[k], false);
    for (size_t k = 0; k < PLACES; k++)
        check_echo(&(struct echo){.raw = true}, &places[k], false);
}

/* The subscriber's connection, say, or one that is made again. */
Test(secrets, N5_later_connections_that_are_answered_with_themselves_tell_nothing)
{
    for (int well = 1; well <= 2; well++)
        check_echo(&(struct echo){.word = "ERR ", .well = well}, &places[0], false);
    check_echo(&(struct echo){.word = "ERR "}, &places[0], true);
}

/* An answer too many is one that nobody asked for, or taken for that to the next request. */
Test(secrets, N5_greetings_that_are_answered_twice_tell_nothing)
{
    for (size_t k = 1; k < PLACES; k++) /* those without a user's name, which is no secret */
        check_echo(&(struct echo){.word = "ERR ", .well = 100, .all = true, .twice = true}, &places[k], false);
}

/* In answer to a lock's verb, say. */
Test(secrets, N5_password_that_is_quoted_later_is_blotted_out)
{
    for (size_t k = 1; k < PLACES; k++) /* those without a user's name, which is no secret */
        check_echo(&(struct echo){.word = "ERR ", .well = 100, .all = true}, &places[k], false);
}
