/* SPDX-License-Identifier: MIT */
/* test_tool_text.c - what the command shows of names, addresses and results. */
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/text.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <redlatch/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

Test(tool_text, N5_an_address_for_others_has_no_user_no_password_and_all_else)
{
    static const char *const cases[][2] = {
        {"redis://us3r:pa@ss@h:1/2", "redis://h:1/2"},
        {"redis://:pa/ss@h,h2/main", "redis://h,h2/main"},
        {"unix://:pw@/run/r?db=3", "unix:///run/r?db=3"},
        {"redis://h:1", "redis://h:1"},
        {"unix:/run/r", "unix:/run/r"},
        {"pw@h", "h"},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *without = server_without_secret(cases[i][0]);

        cr_assert_str_eq(without, cases[i][1]);
        free(without);
    }
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

/* ---- stderr as a pipe ------------------------------------------------------------------------------------------- */

static int reader;

static void stderr_is_a_pipe(void)
{
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    reader = ends[0];
    cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
}

static void fill_stderr(void)
{
    char byte = '#';

    cr_assert_eq(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK), 0);
    while (write(STDERR_FILENO, &byte, 1) == 1)
        continue;
    cr_assert_eq(fcntl(STDERR_FILENO, F_SETFL, 0), 0);
}

/* What comes next is these lines, behind what filled the pipe. */
static void assert_said(const char *expected)
{
    size_t want = strlen(expected);
    char said[8192];
    size_t len = 0;

    while (len < want) {
        ssize_t n = read(reader, said + len, len > 0 ? want - len : 1);

        cr_assert_gt(n, 0);
        len += len > 0 || said[0] != '#' ? (size_t)n : 0;
    }
    said[len] = '\0';
    cr_assert_str_eq(said, expected);
}

Test(tool_text, lines_that_find_the_queue_full_are_dropped_and_counted)
{
    char expected[8192] = "";

    stderr_is_a_pipe();
    fill_stderr();
    for (int i = 0; i < 100; i++)
        text_say("line %d", i);
    for (int i = 0; i < 64; i++)
        sprintf(expected + strlen(expected), "redlatch: line %d\n", i);
    strcat(expected, "redlatch: 36 lines are missing here: nobody read this output\n");
    assert_said(expected);
    text_say("and on");
    assert_said("redlatch: and on\n");
}

Test(tool_text, a_line_that_repeats_itself_is_counted)
{
    stderr_is_a_pipe();
    for (int i = 0; i < 5; i++) {
        text_say("one");
        text_say("two");
    }
    text_say("three");
    text_flush();
    assert_said("redlatch: one\nredlatch: two\nredlatch: three\n"
                "redlatch: one (4 times more)\nredlatch: two (4 times more)\n");
}

Test(tool_text, a_line_is_cut_where_it_has_no_room)
{
    char expected[1025] = "redlatch: ";
    char text[3000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memset(expected + 10, 'x', 1013);
    strcpy(expected + 1023, "\n");
    stderr_is_a_pipe();
    text_say("%s", text);
    assert_said(expected);
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
