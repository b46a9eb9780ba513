/* SPDX-License-Identifier: MIT */
/* test_refusal_text.c - what servers' errors are made into for people. */
#include "core/service/refusals.h"

#include "scripts/scripts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(refusals, .timeout = 10);

static void expect_text(const char *error, const char *text)
{
    char said[320];

    cr_expect_eq(rdl__refusal_text(said, sizeof said, error), strlen(text));
    cr_expect_str_eq(said, text);
}

Test(refusals, says_what_it_means_and_what_helps_before_the_servers_words)
{
    expect_text("READONLY You can't write against a read only replica. script: 59e6, on @user_script:14.",
                "this is a replica, which takes no writes: locks are taken at its master (READONLY You can't write "
                "against a read only replica.)");
    expect_text("OOM command not allowed when used memory > 'maxmemory'.",
                "the server has no memory left: raise its maxmemory (OOM command not allowed when used memory > "
                "'maxmemory'.)");
    expect_text("ERR unknown command 'EVALSHA', with args beginning with:",
                "the server, or a proxy before it, does not know a command that locks need (ERR unknown command "
                "'EVALSHA', with args beginning with:)");
}

/* Redis 6.2 says it in another way than later ones. */
Test(refusals, a_right_that_a_script_lacks_is_one)
{
    expect_text("NOPERM this user has no permissions to run the 'evalsha' command",
                "the user lacks a right, which redlatch doctor names (NOPERM this user has no permissions to run the "
                "'evalsha' command)");
    expect_text("ERR The user executing the script can't run this command or subcommand script: 59e6, on "
                "@user_script:5.",
                "the user lacks a right, which redlatch doctor names (ERR The user executing the script can't run this "
                "command or subcommand)");
    expect_text("ERR Error running script (call to f_59e6): @user_script:22: @user_script: 22: The user executing the "
                "script can't run this command or subcommand",
                "the user lacks a right, which redlatch doctor names (The user executing the script can't run this "
                "command or subcommand)");
}

Test(refusals, newer_servers_name_the_right)
{
    static const char error[] = "ERR ACL failure in script: User app has no permissions to run the 'hset' command "
                                "script: 59e6, on @user_script:1.";
    size_t len;

    expect_text(error,
                "the user lacks a right, which redlatch doctor names (ERR ACL failure in script: User app has no "
                "permissions to run the 'hset' command)");
    cr_assert(rdl__refusal_of_rights(error));
    cr_assert_not(rdl__refusal_of_rights("OOM no"));
    cr_assert_eq(rdl__refusal_words(error, &len), error);
    cr_assert_eq(len, (size_t)(strstr(error, " script: 59e6") - error));
}

Test(refusals, what_our_scripts_say_is_said_as_it_is)
{
    expect_text("ERR redlatch: the name is held as a lock of another type script: 59e6, on @user_script:5.",
                "the name is held as a lock of another type");
}

Test(refusals, what_nobody_knows_is_said_with_the_line_of_the_script)
{
    const struct rdl__script *script = &rdl__scripts[1];
    const char *second = strchr(script->body, '\n') + 1;
    char error[256], text[512];

    expect_text("ODD words", "ODD words");
    (void)snprintf(error, sizeof error, "ERR odd words script: %s, on @user_script:2.", script->sha);
    (void)snprintf(text, sizeof text, "ERR odd words: %.*s", (int)strcspn(second, "\n"), second);
    expect_text(error, text);
    (void)snprintf(error, sizeof error, "ERR Error running script (call to f_%s): @user_script:2: ERR odd words",
                   script->sha);
    expect_text(error, text);
}
