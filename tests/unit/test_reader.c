/* test_reader.c - replies out of bytes, however they are cut. */
#include "core/io/reader.h"

#include <criterion/criterion.h>
#include <redlatch/error.h>
#include <stdio.h>
#include <string.h>

static struct rdl__mem mem;
static struct rdl__reader *reader;

static void set_up(void)
{
    rdl__mem_init(&mem, NULL);
    reader = rdl__reader_new(&mem);
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

/* Redis 6.2 says where in the script it was before it says what a command was refused with; others say that last, or not. */
Test(reader, error_of_a_command_in_a_script_begins_with_its_word)
{
    static const struct {
        const char *said, *means;
    } cases[] = {
        {"ERR Error running script (call to f_59e6): @user_script:14: @user_script: 14: -READONLY You can't write.",
         "READONLY You can't write."},
        {"ERR Error running script (call to f_59e6): @user_script:1: @user_script: 1: -OOM command: -ERR no",
         "OOM command: -ERR no"},
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
