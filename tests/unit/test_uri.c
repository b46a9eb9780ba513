/* SPDX-License-Identifier: MIT */
/* test_uri.c - URIs: what they mean, where they are wrong, and that a password is never repeated. */
#include "core/base/entropy.h"
#include "core/wire/uri.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct counting_alloc counting;
static struct rdl__mem mem;

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);

    rdl__mem_init(&mem, &hooks);
}

static void tear_down(void)
{
    cr_assert_eq(counting_alloc_blocks(&counting), 0);
    counting_alloc_done(&counting);
}

TestSuite(uri, .init = set_up, .fini = tear_down, .timeout = 30);

#define SEEDS_8 "a,a,a,a,a,a,a,a"
#define SEEDS_64 SEEDS_8 "," SEEDS_8 "," SEEDS_8 "," SEEDS_8 "," SEEDS_8 "," SEEDS_8 "," SEEDS_8 "," SEEDS_8
#define LONG_20 "abcdefghijklmnopqrst"
#define LONG_100 LONG_20 LONG_20 LONG_20 LONG_20 LONG_20

static const struct {
    const char *text;
    enum rdl__scheme scheme; /* TCP when not given */
    const char *host;
    int port;
    int db;
    const char *username;
    const char *password;
    const char *node;
    bool tls;
} good[] = {
    {.text = "redis://h", .host = "h", .port = 6379, .node = "h:6379"},
    {.text = "redis://h/", .host = "h", .port = 6379, .node = "h:6379"},
    {.text = "redis://h:1", .host = "h", .port = 1, .node = "h:1"},
    {.text = "redis://h:65535/15", .host = "h", .port = 65535, .db = 15, .node = "h:65535"},
    {.text = "redis://h:06379/007", .host = "h", .port = 6379, .db = 7, .node = "h:6379"},
    {.text = "redis://h/2147483647", .host = "h", .port = 6379, .db = 2147483647, .node = "h:6379"},
    {.text = "REDIS://Cache-1.example_net.:7",
     .host = "Cache-1.example_net.",
     .port = 7,
     .node = "Cache-1.example_net.:7"},
    {.text = "redis://127.0.0.1:6380", .host = "127.0.0.1", .port = 6380, .node = "127.0.0.1:6380"},
    {.text = "redis://[::1]", .host = "::1", .port = 6379, .node = "[::1]:6379"},
    {.text = "redis://[::1]:6380/2", .host = "::1", .port = 6380, .db = 2, .node = "[::1]:6380"},
    {.text = "redis://[2001:db8::192.0.2.1]/3",
     .host = "2001:db8::192.0.2.1",
     .port = 6379,
     .db = 3,
     .node = "[2001:db8::192.0.2.1]:6379"},
    {.text = "redis://[fe80::1%25eth0]:1", .host = "fe80::1%eth0", .port = 1, .node = "[fe80::1%eth0]:1"},
    {.text = "redis://h\xc3\xa9", .host = "h\xc3\xa9", .port = 6379, .node = "h\xc3\xa9:6379"},
    {.text = "redis://user:secret@h:1/2",
     .host = "h",
     .port = 1,
     .db = 2,
     .username = "user",
     .password = "secret",
     .node = "h:1"},
    {.text = "redis://:secret@h", .host = "h", .port = 6379, .password = "secret", .node = "h:6379"},
    {.text = "redis://user@h", .host = "h", .port = 6379, .username = "user", .node = "h:6379"},
    {.text = "redis://user:@h", .host = "h", .port = 6379, .username = "user", .password = "", .node = "h:6379"},
    {.text = "redis://:@h", .host = "h", .port = 6379, .password = "", .node = "h:6379"},
    {.text = "redis://@h", .host = "h", .port = 6379, .node = "h:6379"},
    {.text = "redis://user:p@ss@h",
     .host = "h",
     .port = 6379,
     .username = "user",
     .password = "p@ss",
     .node = "h:6379"},
    {.text = "redis://user:p:s:s@h",
     .host = "h",
     .port = 6379,
     .username = "user",
     .password = "p:s:s",
     .node = "h:6379"},
    {.text = "redis://user:p%40s%2fs%3F%23%25@[::1]:6380/2",
     .host = "::1",
     .port = 6380,
     .db = 2,
     .username = "user",
     .password = "p@s/s?#%",
     .node = "[::1]:6380"},
    {.text = "redis://us%3aer:%ff%0a@h",
     .host = "h",
     .port = 6379,
     .username = "us:er",
     .password = "\xff\n",
     .node = "h:6379"},
    {.text = "redis://u:a b[c]@h", .host = "h", .port = 6379, .username = "u", .password = "a b[c]", .node = "h:6379"},
    {.text = "rediss://h", .host = "h", .port = 6379, .node = "h:6379", .tls = true},
    {.text = "REDISS://u:p@[::1]:6380/2",
     .host = "::1",
     .port = 6380,
     .db = 2,
     .username = "u",
     .password = "p",
     .node = "[::1]:6380",
     .tls = true},
    {.text = "unix:/run/redis.sock",
     .scheme = RDL__SCHEME_UNIX,
     .host = "/run/redis.sock",
     .node = "unix:/run/redis.sock"},
    {.text = "UNIX:/a?db=0", .scheme = RDL__SCHEME_UNIX, .host = "/a", .node = "unix:/a"},
    {.text = "unix:/a?db=7", .scheme = RDL__SCHEME_UNIX, .host = "/a", .db = 7, .node = "unix:/a"},
    {.text = "unix:///a?db=7", .scheme = RDL__SCHEME_UNIX, .host = "/a", .db = 7, .node = "unix:/a"},
    {.text = "unix:////a", .scheme = RDL__SCHEME_UNIX, .host = "//a", .node = "unix://a"},
    {.text = "unix:/a@b:c[d]", .scheme = RDL__SCHEME_UNIX, .host = "/a@b:c[d]", .node = "unix:/a@b:c[d]"},
    {.text = "unix:/a%20b%3fc%0a", .scheme = RDL__SCHEME_UNIX, .host = "/a b?c\n", .node = "unix:/a b?c\\x0a"},
    {.text = "unix://user:p@ss@/a?db=1",
     .scheme = RDL__SCHEME_UNIX,
     .host = "/a",
     .db = 1,
     .username = "user",
     .password = "p@ss",
     .node = "unix:/a"},
    {.text = "unix://:secret@/a", .scheme = RDL__SCHEME_UNIX, .host = "/a", .password = "secret", .node = "unix:/a"},
    {.text = "unix://@/a", .scheme = RDL__SCHEME_UNIX, .host = "/a", .node = "unix:/a"},
    {.text = "unix:/" LONG_100 "123456",
     .scheme = RDL__SCHEME_UNIX,
     .host = "/" LONG_100 "123456",
     .node = "unix:/" LONG_100 "123456"},
};

static void expect_string(const char *uri, const char *got, const char *expected)
{
    if (expected == NULL || got == NULL)
        cr_expect(expected == NULL && got == NULL, "%s: %s instead of %s", uri, got, expected);
    else
        cr_expect_str_eq(got, expected, "%s: %s instead of %s", uri, got, expected);
}

Test(uri, means_what_its_parts_say)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct rdl__uri uri;
        rdl_err_t err = {.message = "untouched"};
        char node[200];

        cr_assert_eq(rdl__uri_parse(&mem, good[i].text, &uri, &err), RDL_OK, "%s: %s", good[i].text, err.message);
        cr_expect_str_eq(err.message, "untouched");
        cr_expect_eq(uri.scheme, good[i].scheme, "%s", good[i].text);
        cr_expect_eq(uri.port, good[i].port, "%s", good[i].text);
        cr_expect_eq(uri.db, good[i].db, "%s", good[i].text);
        cr_expect_eq(uri.tls, good[i].tls, "%s", good[i].text);
        expect_string(good[i].text, uri.host, good[i].host);
        expect_string(good[i].text, uri.username, good[i].username);
        expect_string(good[i].text, uri.password, good[i].password);
        rdl__uri_node(&uri, node, sizeof node);
        expect_string(good[i].text, node, good[i].node);
        rdl__uri_done(&uri);
    }
}

static void expect_seed(const struct rdl__uri *uri, unsigned i, const char *host, int port)
{
    cr_assert_lt(i, uri->seed_count);
    cr_assert_str_eq(uri->seeds[i].host, host);
    cr_assert_eq(uri->seeds[i].port, port);
}

Test(uri, sentinels_are_listed_and_user_password_and_db_are_the_masters)
{
    struct rdl__uri uri;
    char node[40];

    cr_assert_eq(rdl__uri_parse(&mem, "sentinel://u:p,@s@a,[::1]:7,b.c:26380/my%2fmaster/3", &uri, NULL), RDL_OK);
    cr_assert_eq(uri.scheme, RDL__SCHEME_SENTINEL);
    cr_assert(!uri.tls);
    cr_assert_eq(uri.seed_count, 3);
    expect_seed(&uri, 0, "a", 26379);
    expect_seed(&uri, 1, "::1", 7);
    expect_seed(&uri, 2, "b.c", 26380);
    cr_assert_str_eq(uri.master, "my/master");
    cr_assert_eq(uri.db, 3);
    cr_assert_str_eq(uri.username, "u");
    cr_assert_str_eq(uri.password, "p,@s");
    cr_assert_null(uri.host, "where the master is nobody has said");
    rdl__uri_node(&uri, node, sizeof node);
    cr_assert_str_eq(node, "master my/master");
    cr_assert(rdl__uri_place(&uri, "10.0.0.1", 6380));
    cr_assert(rdl__uri_place(&uri, "10.0.0.2", 6381));
    cr_assert_str_eq(uri.host, "10.0.0.2");
    cr_assert_eq(uri.port, 6381);
    counting_alloc_fail_at(&counting, 1);
    cr_assert(!rdl__uri_place(&uri, "10.0.0.3", 6382));
    cr_assert_str_eq(uri.host, "10.0.0.2");
    rdl__uri_done(&uri);
}

Test(uri, sentinels_in_the_plural_speak_tls)
{
    struct rdl__uri uri;

    cr_assert_eq(rdl__uri_parse(&mem, "Sentinels://a,b:7/m", &uri, NULL), RDL_OK);
    cr_assert_eq(uri.scheme, RDL__SCHEME_SENTINEL);
    cr_assert(uri.tls);
    expect_seed(&uri, 0, "a", 26379);
    expect_seed(&uri, 1, "b", 7);
    rdl__uri_done(&uri);
}

Test(uri, servers_of_a_cluster_are_listed)
{
    struct rdl__uri uri;
    char node[40];

    cr_assert_eq(rdl__uri_parse(&mem, "Cluster://u:p@[::1]:7,b/0", &uri, NULL), RDL_OK);
    cr_assert_eq(uri.scheme, RDL__SCHEME_CLUSTER);
    cr_assert(!uri.tls);
    cr_assert_eq(uri.seed_count, 2);
    expect_seed(&uri, 0, "::1", 7);
    expect_seed(&uri, 1, "b", 6379);
    cr_assert_str_eq(uri.username, "u");
    cr_assert_str_eq(uri.password, "p");
    cr_assert_null(uri.host);
    rdl__uri_node(&uri, node, sizeof node);
    cr_assert_str_eq(node, "cluster [::1]:7");
    rdl__uri_done(&uri);
    cr_assert_eq(rdl__uri_parse(&mem, "clusters://a", &uri, NULL), RDL_OK);
    cr_assert_eq(uri.scheme, RDL__SCHEME_CLUSTER);
    cr_assert(uri.tls);
    rdl__uri_done(&uri);
}

Test(uri, sixty_four_sentinels_may_be_listed)
{
    struct rdl__uri uri;

    cr_assert_eq(rdl__uri_parse(&mem, "sentinel://" SEEDS_64 "/m", &uri, NULL), RDL_OK);
    cr_assert_eq(uri.seed_count, 64);
    rdl__uri_done(&uri);
}

/* `at` counts from 1, as a person does. */
static const struct {
    const char *text;
    size_t at;
    const char *what;
} faulty[] = {
    {.text = "", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = "localhost", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = "localhost:6379", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = "http://h", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = ":", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = "redis", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = " redis://h", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = "redisss://h", .at = 1, .what = "none of redis://host, rediss://host, unix:/path"},
    {.text = "cluster:h", .at = 9, .what = "no // after the scheme"},
    {.text = "cluster://", .at = 11, .what = "no host"},
    {.text = "cluster://a,", .at = 13, .what = "no host"},
    {.text = "cluster://a,b:0", .at = 15, .what = "a port that is not 1 to 65535"},
    {.text = "cluster://a/1", .at = 13, .what = "a database that a cluster does not have"},
    {.text = "clusters://a,b/x", .at = 16, .what = "a database that is not 0 to 2147483647"},
    {.text = "cluster://a?x", .at = 12, .what = "a query"},
    {.text = "sentinel:h/m", .at = 10, .what = "no // after the scheme"},
    {.text = "sentinel://", .at = 12, .what = "no host"},
    {.text = "sentinel:///m", .at = 12, .what = "no host"},
    {.text = "Sentinel://h", .at = 13, .what = "no name of a master"},
    {.text = "sentinel://h/", .at = 14, .what = "no name of a master"},
    {.text = "sentinel://h//1", .at = 14, .what = "no name of a master"},
    {.text = "sentinel://h?m", .at = 13, .what = "no name of a master"},
    {.text = "sentinel://a,/m", .at = 14, .what = "no host"},
    {.text = "sentinel://a,,b/m", .at = 14, .what = "no host"},
    {.text = "sentinel://a, b/m", .at = 14, .what = "a character that a host's name cannot have"},
    {.text = "sentinel://a:1,b:0/m", .at = 18, .what = "a port that is not 1 to 65535"},
    {.text = "sentinel://a:1:2,b/m", .at = 14, .what = "a second colon"},
    {.text = "sentinel://[::1],[::2]x/m", .at = 23, .what = "something else than a port after the IPv6 address"},
    {.text = "sentinel://a,b/m/x", .at = 18, .what = "a database that is not 0 to 2147483647"},
    {.text = "sentinel://a,b/m/1?x", .at = 19, .what = "a query"},
    {.text = "sentinel://" SEEDS_64 ",a/m", .at = 12 + 128, .what = "one host too many"},
    {.text = "redis:", .at = 7, .what = "no // after the scheme"},
    {.text = "redis:h", .at = 7, .what = "no // after the scheme"},
    {.text = "redis:/h", .at = 8, .what = "no // after the scheme"},
    {.text = "redis://", .at = 9, .what = "no host"},
    {.text = "redis://:6379", .at = 9, .what = "no host"},
    {.text = "redis:///1", .at = 9, .what = "no host"},
    {.text = "redis://u:p@", .at = 13, .what = "no host"},
    {.text = "redis://:pa/ss@h", .at = 9, .what = "no host"},
    {.text = "redis://u:pa/ss@h", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://u:1/ss@h", .at = 13, .what = "a database that is not 0 to 2147483647"},
    {.text = "redis://h h", .at = 10, .what = "a character that a host's name cannot have"},
    {.text = "redis://h%41", .at = 10, .what = "a character that a host's name cannot have"},
    {.text = "redis://h]", .at = 10, .what = "a character that a host's name cannot have"},
    {.text = "redis://h,i", .at = 10, .what = "a character that a host's name cannot have"},
    {.text = "redis://h:", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h:/1", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h:0", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h:65536", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h:99999999999999999999", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h:-1", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h:+1", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h: 1", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h:1x", .at = 11, .what = "a port that is not 1 to 65535"},
    {.text = "redis://fe80::1", .at = 14, .what = "a second colon"},
    {.text = "redis://[::1", .at = 13, .what = "no ] after the IPv6 address"},
    {.text = "redis://[::1/2]", .at = 13, .what = "no ] after the IPv6 address"},
    {.text = "redis://[]", .at = 10, .what = "no IPv6 address between the brackets"},
    {.text = "redis://[127.0.0.1]", .at = 10, .what = "no IPv6 address between the brackets"},
    {.text = "redis://[h]", .at = 10, .what = "no IPv6 address between the brackets"},
    {.text = "redis://[:::]", .at = 10, .what = "no IPv6 address between the brackets"},
    {.text = "redis://[1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1]",
     .at = 10,
     .what = "no IPv6 address between the brackets"},
    {.text = "redis://[fe80::1%25]", .at = 17, .what = "no %25 and zone after the IPv6 address"},
    {.text = "redis://[fe80::1%41eth0]", .at = 17, .what = "no %25 and zone after the IPv6 address"},
    {.text = "redis://[fe80::1%eth0]", .at = 17, .what = "a percent sign without two hex digits"},
    {.text = "redis://[fe80::1%25e%20]", .at = 21, .what = "a character that a zone cannot have"},
    {.text = "redis://[::1]x", .at = 14, .what = "something else than a port after the IPv6 address"},
    {.text = "redis://[::1]:x", .at = 15, .what = "a port that is not 1 to 65535"},
    {.text = "redis://h/x", .at = 11, .what = "a database that is not 0 to 2147483647"},
    {.text = "redis://h/-1", .at = 11, .what = "a database that is not 0 to 2147483647"},
    {.text = "redis://h/1/", .at = 11, .what = "a database that is not 0 to 2147483647"},
    {.text = "redis://h/1 ", .at = 11, .what = "a database that is not 0 to 2147483647"},
    {.text = "redis://h/2147483648", .at = 11, .what = "a database that is not 0 to 2147483647"},
    {.text = "redis://h//", .at = 11, .what = "a database that is not 0 to 2147483647"},
    {.text = "redis://h?db=1", .at = 10, .what = "a query"},
    {.text = "redis://h/1?", .at = 12, .what = "a query"},
    {.text = "redis://h#x", .at = 10, .what = "a fragment"},
    {.text = "redis://u:p#q@h", .at = 12, .what = "a fragment"},
    {.text = "redis://u:%@h", .at = 11, .what = "a percent sign without two hex digits"},
    {.text = "redis://u:%4@h", .at = 11, .what = "a percent sign without two hex digits"},
    {.text = "redis://u:%4g@h", .at = 11, .what = "a percent sign without two hex digits"},
    {.text = "redis://h/%", .at = 11, .what = "a percent sign without two hex digits"},
    {.text = "unix:/a%4", .at = 8, .what = "a percent sign without two hex digits"},
    {.text = "redis://u:a%00b@h", .at = 12, .what = "a %00"},
    {.text = "unix:/a%00", .at = 8, .what = "a %00"},
    {.text = "redis://h/1\n", .at = 12, .what = "a control character"},
    {.text = "redis://u:p\tq@h", .at = 12, .what = "a control character"},
    {.text = "unix:/a\x7f", .at = 8, .what = "a control character"},
    {.text = "unix:", .at = 6, .what = "no path"},
    {.text = "unix:?db=1", .at = 6, .what = "no path"},
    {.text = "unix://", .at = 8, .what = "no path"},
    {.text = "unix://u:p@", .at = 12, .what = "no path"},
    {.text = "unix:a", .at = 6, .what = "a path that does not begin with /"},
    {.text = "unix:./a", .at = 6, .what = "a path that does not begin with /"},
    {.text = "unix://h/a", .at = 8, .what = "a host"},
    {.text = "unix://u:p@h/a", .at = 12, .what = "a host"},
    {.text = "unix:/a?", .at = 9, .what = "an unknown query parameter"},
    {.text = "unix:/a?dbs=1", .at = 9, .what = "an unknown query parameter"},
    {.text = "unix:/a?DB=1", .at = 9, .what = "an unknown query parameter"},
    {.text = "unix:/a?timeout=1", .at = 9, .what = "an unknown query parameter"},
    {.text = "unix:/a?db=", .at = 12, .what = "a database that is not 0 to 2147483647"},
    {.text = "unix:/a?db=x", .at = 12, .what = "a database that is not 0 to 2147483647"},
    {.text = "unix:/a?db=1&db=2", .at = 12, .what = "a database that is not 0 to 2147483647"},
    {.text = "unix:/" LONG_100 "1234567", .at = 6, .what = "a path that is too long for a socket"},
};

Test(uri, mistakes_are_named_with_their_place)
{
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        static const struct rdl__uri untouched;
        struct rdl__uri uri = untouched;
        rdl_err_t err = {0};
        char place[40];

        snprintf(place, sizeof place, " at character %zu", faulty[i].at);
        cr_assert_eq(rdl__uri_parse(&mem, faulty[i].text, &uri, &err), RDL_EINVAL, "%s", faulty[i].text);
        cr_expect_eq(err.code, RDL_EINVAL);
        cr_expect_not_null(strstr(err.message, faulty[i].what), "%s: %s", faulty[i].text, err.message);
        cr_expect(strlen(err.message) >= strlen(place) &&
                      strcmp(err.message + strlen(err.message) - strlen(place), place) == 0,
                  "%s: %s instead of%s", faulty[i].text, err.message, place);
        cr_expect_eq(memcmp(&uri, &untouched, sizeof uri), 0, "%s", faulty[i].text);
        cr_expect_eq(rdl__uri_parse(&mem, faulty[i].text, &uri, NULL), RDL_EINVAL);
    }
}

Test(uri, null_is_an_error)
{
    struct rdl__uri uri;

    cr_assert_eq(rdl__uri_parse(&mem, NULL, &uri, NULL), RDL_EINVAL);
}

Test(uri, done_takes_a_zeroed_one_and_leaves_one)
{
    struct rdl__uri uri = {0};

    rdl__uri_done(&uri);
    cr_assert_eq(rdl__uri_parse(&mem, "redis://u:p@h", &uri, NULL), RDL_OK);
    rdl__uri_done(&uri);
    cr_assert_null(uri.password);
    rdl__uri_done(&uri);
}

Test(uri, other_credentials_replace_those_of_the_uri_where_they_are_given)
{
    struct rdl__uri uri;

    cr_assert_eq(rdl__uri_parse(&mem, "redis://u:p@h", &uri, NULL), RDL_OK);
    cr_assert(rdl__uri_credentials(&uri, NULL, NULL));
    cr_assert_str_eq(uri.username, "u");
    cr_assert_str_eq(uri.password, "p");
    cr_assert(rdl__uri_credentials(&uri, NULL, "other"));
    cr_assert_str_eq(uri.username, "u");
    cr_assert_str_eq(uri.password, "other");
    cr_assert(rdl__uri_credentials(&uri, "who", ""));
    cr_assert_str_eq(uri.username, "who");
    cr_assert_str_eq(uri.password, "");
    rdl__uri_done(&uri);
    cr_assert_eq(rdl__uri_parse(&mem, "redis://h", &uri, NULL), RDL_OK);
    cr_assert(rdl__uri_credentials(&uri, "who", NULL));
    cr_assert_str_eq(uri.username, "who");
    cr_assert_null(uri.password);
    rdl__uri_done(&uri);
}

Test(uri, shortage_at_every_allocation_is_an_error_and_leaks_nothing)
{
    static const struct {
        const char *text;
        int64_t blocks;
    } uris[] = {
        {"redis://u:p@h:1/2", 3}, {"redis://u:p@[::1]", 3}, {"unix://u:p@/a?db=1", 3}, {"sentinel://u:p@a,b/m", 6}};

    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        struct rdl__uri uri;
        rdl_err_t err;
        int64_t k = 0;
        int rc;

        do {
            counting_alloc_fail_at(&counting, ++k);
            rc = rdl__uri_parse(&mem, uris[i].text, &uri, &err);
            cr_assert(rc == RDL_OK || (rc == RDL_ENOMEM && err.code == RDL_ENOMEM));
            cr_assert_eq(counting_alloc_blocks(&counting), rc == RDL_OK ? uris[i].blocks : 0);
        } while (rc != RDL_OK);
        cr_assert_eq(k, uris[i].blocks + 1);
        rdl__uri_done(&uri);
    }
}

Test(uri, node_is_cut_to_its_room)
{
    struct rdl__uri uri;
    char node[12];

    cr_assert_eq(rdl__uri_parse(&mem, "redis://u:p@cache.example.net:1234", &uri, NULL), RDL_OK);
    rdl__uri_node(&uri, node, sizeof node);
    cr_assert_str_eq(node, "cache.ex...");
    rdl__uri_done(&uri);
}

/* ---- X7: no error repeats a password ---------------------------------------------------------------------------- */

/* Words that no message of ours contains, and which a password in a faulty URI may fall apart into. */
static void random_secret(struct rdl__rand *rand, char *to, size_t cap)
{
    static const char *const pieces[] = {"ZQJ", "zq9", "@", ":", "/", "?", "#",  "%",  "%2",
                                         "%00", "[",   "]", "&", "=", " ", "\t", "\\", "\xc3\xa9"};
    size_t count = 2 + rdl__rand_below(rand, 8);

    to[0] = '\0';
    for (size_t i = 0; i < count; i++)
        strncat(to, pieces[rdl__rand_below(rand, sizeof pieces / sizeof *pieces)], cap - strlen(to) - 1);
}

Test(uri, no_error_text_contains_a_piece_of_a_password)
{
    static const char *const frames[] = {
        "redis://u:%s@h:1/2",
        "redis://:%s@h",
        "redis://%s@",
        "rediss://u:%s@h",
        "redis:u:%s@h",
        "unix://u:%s@/a",
        "unix://u:%s@h/a",
        "unix:/a?password=%s",
        "redis://[%s]",
        "redis://h:%s",
        "redis://h/%s",
        "redis://h?%s",
        "redis://h#%s",
        "%s",
        "%s://h",
    };
    struct rdl__rand rand = {.state = 4};
    size_t errors = 0;

    for (int round = 0; round < 20000; round++) {
        const char *frame = frames[rdl__rand_below(&rand, sizeof frames / sizeof *frames)];
        const char *hole = strstr(frame, "%s");
        char secret[64], text[128];
        struct rdl__uri uri;
        rdl_err_t err = {0};

        random_secret(&rand, secret, sizeof secret);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - frame), frame, secret, hole + 2);
        if (rdl__uri_parse(&mem, text, &uri, &err) == RDL_OK) {
            char node[200];

            rdl__uri_node(&uri, node, sizeof node);
            cr_assert(strstr(frame, "@h") == NULL || strpbrk(node, "ZQJq9") == NULL || strstr(node, uri.host) != NULL);
            rdl__uri_done(&uri);
            continue;
        }
        errors++;
        cr_assert_null(strcasestr(err.message, "zq"), "%s: %s", text, err.message);
        cr_assert_str_empty(err.server);
        cr_assert_str_empty(err.lock);
    }
    cr_assert_gt(errors, 5000);
}
