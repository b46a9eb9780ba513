/* SPDX-License-Identifier: MIT */
/* test_reader.c - replies out of bytes, however they are cut. */
#include "core/io/reader.h"

#include <criterion/criterion.h>
#include <redlatch/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rdl__mem mem;
static struct rdl__reader *reader;

#define SECRET "s3cr3t"

static void set_up(void)
{
    rdl__mem_init(&mem, NULL);
    reader = rdl__reader_new(&mem, SECRET);
    cr_assert_not_null(reader);
}

static void tear_down(void)
{
    (void)rdl__reader_free(reader);
}

TestSuite(reader, .init = set_up, .fini = tear_down, .timeout = 10);

static bool integer_at(const char *text, int64_t *ret_value, size_t *ret_used)
{
    const struct rdl__reply *reply;
    const char *at = text;
    bool found = rdl__reader_integer(reader, &at, text + strlen(text), &reply);

    *ret_used = (size_t)(at - text);
    if (found) {
        cr_assert_eq(reply->type, RDL__REPLY_INT);
        *ret_value = reply->integer;
    }
    return found;
}

Test(reader, a_whole_integer_is_taken_without_a_copy)
{
    static const struct {
        const char *text;
        int64_t value;
        size_t used;
    } cases[] = {
        {":0\r\n", 0, 4},
        {":-10\r\n", -10, 6},
        {":7\r\n:8\r\n", 7, 4},
        {":999999999999999999\r\n", 999999999999999999, 21},
        {":-999999999999999999\r\n+OK\r\n", -999999999999999999, 22},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = -1;
        size_t used;

        cr_assert(integer_at(cases[i].text, &value, &used), "%s", cases[i].text);
        cr_assert_eq(value, cases[i].value);
        cr_assert_eq(used, cases[i].used);
    }
}

Test(reader, anything_else_is_left_for_feeding)
{
    static const char *const texts[] = {"",     ":",       ":-",     ":\r\n",   ":-\r\n",  ":1",
                                        ":1\r", ":1x\r\n", ":1\n\r", "+OK\r\n", ":+1\r\n", ":9223372036854775807\r\n"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t value;
        size_t used;

        cr_assert_not(integer_at(texts[i], &value, &used), "%s", texts[i]);
        cr_assert_eq(used, 0);
    }
}

/* The rest of a reply must not be taken for one of its own. */
Test(reader, nothing_is_taken_while_a_reply_is_begun)
{
    static const char *const begun[] = {":1", "*2\r\n", "*2\r\n:1\r\n", "$4\r\n:1"};

    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        const struct rdl__reply *reply;
        int64_t value;
        size_t used;

        cr_assert_eq(rdl__reader_feed(reader, begun[i], strlen(begun[i])), RDL_OK);
        cr_assert_eq(rdl__reader_next(reader, &reply), RDL_OK);
        cr_assert_null(reply);
        cr_assert_not(integer_at(":5\r\n", &value, &used), "%s", begun[i]);
        tear_down();
        set_up();
    }
}

/* Redis 6.2 says where in the script it was before it says what a command was refused with; others say that last, or
 * not. */
Test(reader, error_of_a_command_in_a_script_begins_with_its_word)
{
    static const struct {
        const char *said, *means;
    } cases[] = {
        {"ERR Error running script (call to f_59e6): @user_script:14: @user_script: 14: -READONLY You can't write.",
         "READONLY You can't write."},
        {"ERR Error running script (call to f_59e6): @user_script:1: @user_script: 1: -OOM command: -ERR no",
         "OOM command: -ERR no"},
        {"ERR Error running script (call to f_59e6): @user_script:49: WRONGTYPE Operation against a key: ODD kind",
         "WRONGTYPE Operation against a key: ODD kind"},
        {"ERR Error running script (call to f_59e6): @user_script:1: ERR not: OOM no",
         "ERR Error running script (call to f_59e6): @user_script:1: ERR not: OOM no"},
        {"ERR Error running script (call to f_59e6): @user_script:1: @user_script: 1: The user may not: OOM no",
         "ERR Error running script (call to f_59e6): @user_script:1: @user_script: 1: The user may not: OOM no"},
        {"ERR Error running script (call to f_59e6): @user_script:1: OOM",
         "ERR Error running script (call to f_59e6): @user_script:1: OOM"},
        {"READONLY You can't write. script: f_59e6, on @user_script:14.",
         "READONLY You can't write. script: f_59e6, on @user_script:14."},
        {"ERR Error running script (call to f_59e6): @user_script:1: nil value",
         "ERR Error running script (call to f_59e6): @user_script:1: nil value"},
        {"ERR Error running script (call to f_59e6): at: -", "ERR Error running script (call to f_59e6): at: -"},
        {"ERR no: -READONLY", "ERR no: -READONLY"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rdl__reply *reply = NULL;
        char line[256];
        int len = snprintf(line, sizeof line, "-%s\r\n", cases[i].said);

        cr_assert_eq(rdl__reader_feed(reader, line, (size_t)len), RDL_OK);
        cr_assert_eq(rdl__reader_next(reader, &reply), RDL_OK);
        cr_assert_eq(reply->type, RDL__REPLY_ERROR);
        cr_assert_str_eq(reply->str, cases[i].means);
        cr_assert_eq(reply->len, strlen(cases[i].means));
    }
}

/* Fed in two pieces, cut anywhere, or taken from the front: the same replies. */
Test(reader, a_stream_cut_anywhere_gives_the_same_replies)
{
    static const char stream[] = ":1\r\n:-22\r\n*2\r\n:3\r\n$2\r\nab\r\n:4\r\n-ERR no\r\n:5\r\n_\r\n";
    static const int64_t wanted[] = {1, -22, 2, 4, 6, 5, 0}; /* integers, else lengths */
    const size_t len = sizeof stream - 1;

    for (size_t cut = 0; cut <= len; cut++) {
        const char *const ends[] = {stream + cut, stream + len};
        const char *at = stream;
        size_t count = 0;

        for (size_t i = 0; i < 2; i++) {
            const struct rdl__reply *reply;

            while (rdl__reader_integer(reader, &at, ends[i], &reply))
                cr_assert_eq(reply->integer, wanted[count++], "cut at %zu", cut);
            cr_assert_eq(rdl__reader_feed(reader, at, (size_t)(ends[i] - at)), RDL_OK);
            at = ends[i];
            while (rdl__reader_next(reader, &reply) == RDL_OK && reply != NULL) {
                int64_t value = reply->type == RDL__REPLY_INT ? reply->integer : (int64_t)reply->len;

                cr_assert_eq(value, wanted[count++], "cut at %zu", cut);
            }
        }
        cr_assert_eq(count, sizeof wanted / sizeof *wanted, "cut at %zu", cut);
        tear_down();
        set_up();
    }
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

/* One reply as text: integers and strings as they are, arrays in brackets. */
static size_t print(char *to, size_t cap, const struct rdl__reply *r)
{
    size_t used = 0;

    if (r->type == RDL__REPLY_INT)
        return (size_t)snprintf(to, cap, "%d", (int)r->integer);
    if (r->type == RDL__REPLY_NIL)
        return (size_t)snprintf(to, cap, "nil");
    if (r->type != RDL__REPLY_ARRAY)
        return (size_t)snprintf(to, cap, "%s", r->str);
    used += (size_t)snprintf(to, cap, r->push ? ">[" : "[");
    for (size_t i = 0; i < r->len; i++) {
        used += (size_t)snprintf(to + used, cap - used, i > 0 ? " " : "");
        used += print(to + used, cap - used, r->elem[i]);
    }
    return used + (size_t)snprintf(to + used, cap - used, "]");
}

/* All replies of a stream that comes in two pieces, each printed, with bars between them. */
static void read_cut(const char *stream, size_t len, size_t cut, char *to, size_t cap)
{
    const char *const ends[] = {stream + cut, stream + len};
    const char *at = stream;
    size_t used = 0;

    to[0] = '\0';
    for (size_t i = 0; i < 2; i++) {
        const struct rdl__reply *reply;

        for (;;) {
            if (!rdl__reader_integer(reader, &at, ends[i], &reply)) {
                cr_assert_eq(rdl__reader_feed(reader, at, (size_t)(ends[i] - at)), RDL_OK);
                at = ends[i];
                cr_assert_eq(rdl__reader_next(reader, &reply), RDL_OK);
                if (reply == NULL)
                    break;
            }
            used += print(to + used, cap - used, reply);
            used += (size_t)snprintf(to + used, cap - used, "|");
        }
    }
}

/* They may stand before any value, in arrays, maps and other attributes too. */
Test(reader, attributes_are_left_out_wherever_they_stand)
{
    static const char stream[] =
        "|1\r\n+ttl\r\n:3600\r\n:1\r\n"                                           /* before a reply */
        "*2\r\n|1\r\n+a\r\n*1\r\n:9\r\n:2\r\n:3\r\n"                              /* before an element */
        "*2\r\n:4\r\n|1\r\n+a\r\n+b\r\n|2\r\n+c\r\n:0\r\n+d\r\n:0\r\n$1\r\nx\r\n" /* two, before the last */
        "%1\r\n|0\r\n+k\r\n|1\r\n|1\r\n+deep\r\n:0\r\n+a\r\n:0\r\n*1\r\n_\r\n"    /* inside one */
        ">2\r\n+m\r\n|1\r\n+a\r\n:0\r\n:5\r\n"
        "|1\r\n+a\r\n:0\r\n-ERR no\r\n"
        ":6\r\n";
    static const char wanted[] = "1|[2 3]|[4 x]|[k [nil]]|>[m 5]|ERR no|6|";

    for (size_t cut = 0; cut < sizeof stream; cut++) {
        char said[256];

        read_cut(stream, sizeof stream - 1, cut, said, sizeof said);
        cr_assert_str_eq(said, wanted, "cut at %zu", cut);
        tear_down();
        set_up();
    }
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

static struct {
    size_t now, most;
} allocated;

static void *count_alloc(size_t size, void *arg)
{
    (void)arg;
    allocated.now += size;
    if (allocated.now > allocated.most)
        allocated.most = allocated.now;
    return malloc(size);
}

static void count_free(void *block, size_t size, void *arg)
{
    (void)arg;
    allocated.now -= size;
    free(block);
}

/* `begin`, then `more` without end: refused before `most` bytes were sent, and remembered in not much more. */
static void expect_refused(const char *begin, const char *more, size_t most, const char *why)
{
    const rdl_allocator_t hooks = {.alloc = count_alloc, .free = count_free};
    const struct rdl__reply *reply = NULL;
    char piece[1024];
    size_t sent = 0, times = sizeof piece / strlen(more);
    int rc = RDL_OK;

    tear_down();
    allocated.now = allocated.most = 0;
    rdl__mem_init(&mem, &hooks);
    reader = rdl__reader_new(&mem, NULL);
    for (size_t i = 0; i < times; i++)
        memcpy(piece + i * strlen(more), more, strlen(more));
    rc = rdl__reader_feed(reader, begin, strlen(begin));
    while (rc == RDL_OK && (rc = rdl__reader_next(reader, &reply)) == RDL_OK && sent <= most) {
        cr_assert_null(reply);
        rc = rdl__reader_feed(reader, piece, times * strlen(more));
        sent += times * strlen(more);
    }
    cr_assert_eq(rc, RDL_ESERVER, "%s... is not refused", begin);
    cr_assert_leq(sent, most);
    cr_assert_not_null(strstr(rdl__reader_why(reader), why), "%s... is refused because '%s'", begin,
                       rdl__reader_why(reader));
    cr_assert_leq(allocated.most, 2 * RDL__REPLY_BYTES_MAX);
    cr_assert_eq(rdl__reader_feed(reader, ":1\r\n", 4), RDL_ESERVER); /* for good */
    cr_assert_eq(rdl__reader_next(reader, &reply), RDL_ESERVER);
}

Test(reader, what_is_too_large_is_refused_as_soon_as_it_says_so_or_has_come_so_far)
{
    expect_refused("$33554433\r\n", "x", 0, "larger");
    expect_refused("$9223372036854775807\r\n", "x", 0, "larger");
    expect_refused(">2\r\n+message\r\n$99999999999999999999999\r\n", "x", 0, "");
    expect_refused("*4294967295\r\n", ":1\r\n", 0, "larger");
    expect_refused("%2147483000\r\n", ":1\r\n", 0, "larger");
    expect_refused("|2000000000\r\n", ":1\r\n", 0, "larger");
    expect_refused("+", "x", RDL__REPLY_LINE_MAX + 2048, "larger");
    expect_refused("-", "x", RDL__REPLY_LINE_MAX + 2048, "larger");
    expect_refused(":1", "1", RDL__REPLY_LINE_MAX + 2048, "larger");
    expect_refused("*3000000\r\n", ":1\r\n", RDL__REPLY_BYTES_MAX, "larger"); /* grows by what it is kept in */
    expect_refused("*1\r\n", "|1\r\n+a\r\n:1\r\n", RDL__REPLY_BYTES_MAX + 2048, "larger");
    expect_refused("*1\r\n", "*1\r\n", 2048, "deeper");
    expect_refused("|1\r\n", "|1\r\n", RDL__REPLY_BYTES_MAX + 2048, "larger");
}

Test(reader, what_is_no_redis_is_named)
{
    static const struct {
        const char *bytes, *why;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", "web server"},
        {"\x15\x03\x03\x01\x02\x02\x32", "TLS"},
        {"SSH-2.0-OpenSSH_9.2\r\n", "not a Redis server"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rdl__reply *reply = NULL;

        cr_assert_eq(rdl__reader_feed(reader, cases[i].bytes, strlen(cases[i].bytes)), RDL_OK);
        cr_assert_eq(rdl__reader_next(reader, &reply), RDL_ESERVER);
        cr_assert_not_null(strstr(rdl__reader_why(reader), cases[i].why), "%s", rdl__reader_why(reader));
        tear_down();
        set_up();
    }
}

/* ---- secrets ---------------------------------------------------------------------------------------------------- */

Test(reader, secret_is_blotted_out_of_errors_and_nothing_else)
{
    static const char stream[] =
        "-ERR args: `" SECRET "`, `x" SECRET SECRET "`\r\n-" SECRET "\r\n+" SECRET "\r\n-ERR s3cr\r\n";
    char said[256];

    read_cut(stream, sizeof stream - 1, 0, said, sizeof said);
    cr_assert_str_eq(said, "ERR args: `******`, `x************`|" SECRET "|" SECRET "|ERR s3cr|");
}

Test(reader, secret_of_few_letters_is_blotted_out_as_a_word_only)
{
    static const char stream[] = "-ERR executing x: `x`,x \"axa\" ex x\r\n";
    char said[256];

    (void)rdl__reader_free(reader);
    reader = rdl__reader_new(&mem, "x");
    read_cut(stream, sizeof stream - 1, 0, said, sizeof said);
    cr_assert_str_eq(said, "ERR executing *: `*`,* \"axa\" ex *|");
}
