/* SPDX-License-Identifier: MIT */
/* test_reply.c - views of replies. */
#include "core/wire/reply.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(reply, .timeout = 10);

static struct rdl__reply text(enum rdl__reply_type type, const char *str)
{
    return (struct rdl__reply){.type = type, .str = str, .len = strlen(str)};
}

Test(reply, error_is_known_by_its_first_word)
{
    struct rdl__reply noscript = text(RDL__REPLY_ERROR, "NOSCRIPT No matching script.");
    struct rdl__reply bare = text(RDL__REPLY_ERROR, "NOSCRIPT");
    struct rdl__reply longer = text(RDL__REPLY_ERROR, "NOSCRIPTS x");
    struct rdl__reply shorter = text(RDL__REPLY_ERROR, "NOSCRIP");
    struct rdl__reply string = text(RDL__REPLY_STRING, "NOSCRIPT No matching script.");

    cr_assert(rdl__reply_is_error(&noscript, "NOSCRIPT"));
    cr_assert(rdl__reply_is_error(&bare, "NOSCRIPT"));
    cr_assert_not(rdl__reply_is_error(&longer, "NOSCRIPT"));
    cr_assert_not(rdl__reply_is_error(&shorter, "NOSCRIPT"));
    cr_assert_not(rdl__reply_is_error(&string, "NOSCRIPT"));
    cr_assert_not(rdl__reply_is_error(NULL, "NOSCRIPT"));
}

Test(reply, N7_errors_that_prove_that_nothing_was_written_are_known)
{
    static const char *const nothing[] = {
        "NOSCRIPT No matching script.",
        "OOM command not allowed when used memory > 'maxmemory'. script: f1d2d2f924e986ac86fdf7b36c94bcdf32, on @u:9.",
        "READONLY You can't write against a read only replica.",
        "LOADING Redis is loading the dataset in memory",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "NOPERM User app has no permissions to access the 'orders' key",
        "ERR redlatch: the name is held as a lock of another type",
    };
    static const char *const maybe[] = {
        "ERR The user executing the script can't run this command or subcommand (pexpire)",
        "NOPERM ACL failure in script: User app has no permissions to run the 'pexpire' command",
        "ERR value is not an integer or out of range",
        "ERR redlatch",
        "ERR upstream failure",
        "OOMS",
        "",
    };

    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        struct rdl__reply r = text(RDL__REPLY_ERROR, nothing[i]);

        cr_expect(rdl__reply_wrote_nothing(&r), "%s", nothing[i]);
        r.type = RDL__REPLY_STRING;
        cr_expect_not(rdl__reply_wrote_nothing(&r), "%s", nothing[i]);
    }
    for (size_t i = 0; i < sizeof maybe / sizeof maybe[0]; i++) {
        struct rdl__reply r = text(RDL__REPLY_ERROR, maybe[i]);

        cr_expect_not(rdl__reply_wrote_nothing(&r), "%s", maybe[i]);
    }
    cr_expect_not(rdl__reply_wrote_nothing(NULL));
}

Test(reply, integer_may_be_an_integer_or_a_whole_decimal_string)
{
    static const struct {
        const char *str;
        int64_t value;
    } good[] = {
        {.str = "0", .value = 0},
        {.str = "-0", .value = 0},
        {.str = "7", .value = 7},
        {.str = "-12", .value = -12},
        {.str = "007", .value = 7},
        {.str = "9223372036854775807", .value = INT64_MAX},
        {.str = "-9223372036854775808", .value = INT64_MIN},
    };
    struct rdl__reply r = {.type = RDL__REPLY_INT, .integer = -5};
    int64_t value = 0;

    cr_assert(rdl__reply_integer(&r, &value));
    cr_assert_eq(value, -5);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        r = text(RDL__REPLY_STRING, good[i].str);
        cr_assert(rdl__reply_integer(&r, &value), "%s", good[i].str);
        cr_assert_eq(value, good[i].value, "%s", good[i].str);
    }
}

Test(reply, what_is_no_integer_is_refused_and_leaves_the_output_alone)
{
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1.0",
        "1e3",
        "0x10",
        "--1",
        "1-",
        "nan",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999",
    };
    struct rdl__reply r;
    int64_t value = 77;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        r = text(RDL__REPLY_STRING, bad[i]);
        cr_assert_not(rdl__reply_integer(&r, &value), "%s", bad[i]);
    }
    r = (struct rdl__reply){.type = RDL__REPLY_STRING, .str = "1\0002", .len = 3};
    cr_assert_not(rdl__reply_integer(&r, &value));
    r = text(RDL__REPLY_ERROR, "1");
    cr_assert_not(rdl__reply_integer(&r, &value));
    r = (struct rdl__reply){.type = RDL__REPLY_NIL};
    cr_assert_not(rdl__reply_integer(&r, &value));
    cr_assert_not(rdl__reply_integer(NULL, &value));
    cr_assert_eq(value, 77);
}

Test(reply, element_is_null_where_there_is_none)
{
    struct rdl__reply a = {.type = RDL__REPLY_INT}, inner = {.type = RDL__REPLY_ARRAY};
    struct rdl__reply *elements[] = {&a, &inner};
    struct rdl__reply array = {.type = RDL__REPLY_ARRAY, .len = 2, .elem = elements};
    struct rdl__reply string = text(RDL__REPLY_STRING, "abc");

    cr_assert_eq(rdl__reply_at(&array, 0), &a);
    cr_assert_eq(rdl__reply_at(&array, 1), &inner);
    cr_assert_null(rdl__reply_at(&array, 2));
    cr_assert_null(rdl__reply_at(&string, 0));
    cr_assert_null(rdl__reply_at(NULL, 0));
    cr_assert_null(rdl__reply_at(rdl__reply_at(rdl__reply_at(&array, 1), 0), 0));
}

/* The field's value, or NULL. */
static const char *field(const char *from, const char *key, char sep)
{
    static char copy[256];
    struct rdl__reply r = text(RDL__REPLY_STRING, from);
    const char *value;
    size_t len;

    if (!rdl__reply_field(&r, key, sep, &value, &len))
        return NULL;
    cr_assert(value >= r.str && value + len <= r.str + r.len);
    memcpy(copy, value, len);
    copy[len] = '\0';
    return copy;
}

static const char info[] =
    "# Server\r\nredis_version:7.0.15\r\nos:Linux 6.1 x86_64\r\nempty:\r\nuptime_in_seconds:12\r\n";
static const char client[] = "id=3 addr=127.0.0.1:1 laddr=127.0.0.1:6379 name= lib-ver=a=b user=default redir=-1\n";

Test(reply, field_of_info)
{
    cr_assert_str_eq(field(info, "redis_version", ':'), "7.0.15");
    cr_assert_str_eq(field(info, "os", ':'), "Linux 6.1 x86_64");
    cr_assert_str_eq(field(info, "empty", ':'), "");
    cr_assert_str_eq(field(info, "uptime_in_seconds", ':'), "12");
}

Test(reply, field_of_client_info)
{
    cr_assert_str_eq(field(client, "id", '='), "3");
    cr_assert_str_eq(field(client, "addr", '='), "127.0.0.1:1");
    cr_assert_str_eq(field(client, "laddr", '='), "127.0.0.1:6379");
    cr_assert_str_eq(field(client, "name", '='), "");
    cr_assert_str_eq(field(client, "lib-ver", '='), "a=b");
    cr_assert_str_eq(field(client, "redir", '='), "-1");
}

Test(reply, field_must_match_whole_and_at_its_place)
{
    cr_assert_null(field(info, "version", ':'));
    cr_assert_null(field(info, "redis", ':'));
    cr_assert_null(field(info, "redis_version", '='));
    cr_assert_null(field(info, "x86_64", ':'));
    cr_assert_null(field(client, "ddr", '='));
    cr_assert_null(field(client, "b", '='));
    cr_assert_null(field("", "a", ':'));
    cr_assert_null(field("a", "a", ':'));
    cr_assert_null(field("\r\n\r\n", "a", ':'));
}

Test(reply, field_may_end_with_the_text_and_the_first_counts)
{
    cr_assert_str_eq(field("a:1", "a", ':'), "1");
    cr_assert_str_eq(field("a:", "a", ':'), "");
    cr_assert_str_eq(field("a=1 a=2", "a", '='), "1");
}

Test(reply, only_a_string_has_fields)
{
    struct rdl__reply error = text(RDL__REPLY_ERROR, "a:1");
    const char *value;
    size_t len;

    cr_assert_not(rdl__reply_field(&error, "a", ':', &value, &len));
    cr_assert_not(rdl__reply_field(NULL, "a", ':', &value, &len));
}
