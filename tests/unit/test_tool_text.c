/* test_tool_text.c - what the command shows of names, addresses and results. */
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/text.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <redlatch/error.h>
#include <stdio.h>
#include <string.h>

TestSuite(tool_text, .timeout = 10);

static void assert_safe(const char *bytes, size_t len, const char *expected)
{
    char to[TEXT_SAFE_CAP];

    cr_assert_str_eq(text_safe(bytes, len, to), expected);
}

static void assert_label(const char *uri, const char *expected)
{
    char label[TEXT_SAFE_CAP];

    cr_assert_str_eq(server_label(uri, label), expected);
}

static void assert_hidden(const char *uri, const char *expected)
{
    char copy[128];

    snprintf(copy, sizeof copy, "%s", uri);
    server_hide_secret(copy);
    cr_assert_str_eq(copy, expected);
}

Test(tool_text, printable_bytes_stay_and_others_are_escaped)
{
    assert_safe("", 0, "");
    assert_safe("orders:42 ~", 11, "orders:42 ~");
    assert_safe("a\0b", 3, "a\\x00b");
    assert_safe("\x1b[31m\n\x7f\xff", 8, "\\x1b[31m\\x0a\\x7f\\xff");
}

Test(tool_text, long_texts_are_cut_with_an_ellipsis_and_never_within_an_escape)
{
    char bytes[300];
    char to[TEXT_SAFE_CAP];

    for (size_t skip = 0; skip < 4; skip++) {
        memset(bytes, 'a', skip);
        memset(bytes + skip, '\xff', sizeof bytes - skip);
        text_safe(bytes, sizeof bytes, to);
        cr_assert_lt(strlen(to), sizeof to);
        cr_assert_str_eq(to + strlen(to) - 7, "\\xff...");
    }
}

Test(tool_text, a_server_is_shown_without_user_password_and_query)
{
    assert_label("redis://127.0.0.1:6379", "redis://127.0.0.1:6379");
    assert_label("redis://user:secret@db1:6380/2", "redis://db1:6380/2");
    assert_label("redis://:secret@[::1]:6380", "redis://[::1]:6380");
    assert_label("unix:/run/redis.sock?db=3", "unix:/run/redis.sock");
    assert_label("unix://u:secret@/run/redis.sock", "unix:///run/redis.sock");
}

Test(tool_text, a_password_that_should_have_been_encoded_is_not_shown_either)
{
    assert_label("redis://u:sec/ret@db1", "redis://db1");
    assert_label("redis://u:sec@ret@db1", "redis://db1");
    assert_label("redis://u:sec?ret@db1", "redis://db1");
    assert_label("u:secret@db1", "db1");
    assert_label("u:sec://ret@db1", "db1");
    assert_label("u@sec://ret@db1", "db1");
}

Test(tool_text, a_server_of_strange_bytes_cannot_drive_the_terminal)
{
    assert_label("redis://h\x1b[2J", "redis://h\\x1b[2J");
    assert_label("\x1b://h", "\\x1b://h");
}

Test(tool_text, the_secret_part_of_an_argument_is_overwritten_in_place)
{
    assert_hidden("redis://user:secret@db1:6380/2", "redis://xxxxxxxxxxx@db1:6380/2");
    assert_hidden("redis://db1", "redis://db1");
    assert_hidden("secret@db1", "xxxxxx@db1");
    assert_hidden("@", "@");
    assert_hidden("", "");
}

Test(tool_text, of_a_list_with_a_secret_in_it_nothing_is_left)
{
    char secret[] = "redis://u:p,w@a,redis://b";
    char open[] = "redis://a,redis://b";

    server_hide_secrets(secret);
    cr_assert_eq(strspn(secret, "x"), sizeof secret - 1);
    server_hide_secrets(open);
    cr_assert_str_eq(open, "redis://a,redis://b");
}

Test(tool_text, the_exit_status_of_a_process_passes_through)
{
    for (int code = 0; code < 256; code++)
        cr_assert_eq(exitcode_of_status(code << 8), code);
    for (int signo = 1; signo < 65; signo++)
        cr_assert_eq(exitcode_of_status(signo), 128 + signo);
    cr_assert_eq(exitcode_of_status(11 | 0x80), 139, "with a core dump");
}

Test(tool_text, exec_failures_are_told_apart_as_by_the_shell)
{
    cr_assert_eq(exitcode_of_exec(ENOENT), 127);
    cr_assert_eq(exitcode_of_exec(EACCES), 126);
    cr_assert_eq(exitcode_of_exec(E2BIG), 126);
}

Test(tool_text, every_error_of_the_library_has_its_exit_status)
{
    cr_assert_eq(exitcode_of_error(RDL_ETIMEDOUT, 1), 1);
    cr_assert_eq(exitcode_of_error(RDL_ETIMEDOUT, 42), 42);
    cr_assert_eq(exitcode_of_error(RDL_EINVAL, 42), 64);
    cr_assert_eq(exitcode_of_error(RDL_ECONN, 42), 69);
    cr_assert_eq(exitcode_of_error(RDL_EUNKNOWN, 42), 69);
    cr_assert_eq(exitcode_of_error(RDL_ENOQUORUM, 42), 69);
    cr_assert_eq(exitcode_of_error(RDL_ELOST, 42), 75);
    cr_assert_eq(exitcode_of_error(RDL_ESERVER, 42), 70);
    cr_assert_eq(exitcode_of_error(RDL_ENOMEM, 42), 70);
}
