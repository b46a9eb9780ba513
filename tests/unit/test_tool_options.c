/* SPDX-License-Identifier: MIT */
/* test_tool_options.c - the command line of `redlatch run`, read into a struct. */
#include "tools/redlatch/run_options.h"

#include <criterion/criterion.h>
#include <redlatch/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX (NAMES_MAX + 8)

static struct run_options options;
static struct usage_error why;
static char *args[ARGS_MAX + 2];

/* The options point into the words, which therefore live until the next ones come. */
static void free_args(void)
{
    for (char **arg = args; *arg != NULL; arg++)
        free(*arg);
    args[0] = NULL;
}

TestSuite(tool_options, .fini = free_args, .timeout = 10);

/* Parse "run" and the words given, ended by NULL. Writable copies, as main's are. */
static int parse_list(const char *const *words)
{
    int argc = 0;

    free_args();
    why.text[0] = '\0';
    args[argc++] = strdup("run");
    for (; *words != NULL; words++)
        args[argc++] = strdup(*words);
    args[argc] = NULL;
    return run_options_parse(argc, args, &options, &why);
}

#define PARSE(...) parse_list((const char *const[]){__VA_ARGS__, NULL})
#define EXPECT_ACCEPTED(...) cr_assert_eq(PARSE(__VA_ARGS__), 0, "refused: %s", why.text)
#define EXPECT_REFUSED(words, ...)                                                                                     \
    do {                                                                                                               \
        cr_assert_eq(PARSE(__VA_ARGS__), -1, "accepted");                                                              \
        cr_assert(strstr(why.text, words) != NULL, "it says: %s", why.text);                                           \
    } while (0)

static void assert_command(const char *first, const char *second)
{
    cr_assert_not_null(options.command);
    cr_assert_null(options.shell);
    cr_assert_str_eq(options.command[0], first);
    if (second == NULL)
        cr_assert_null(options.command[1]);
    else
        cr_assert_str_eq(options.command[1], second);
}

static void assert_names(const char *first, const char *second)
{
    cr_assert_eq(options.name_count, second != NULL ? 2 : 1);
    cr_assert_str_eq(options.names[0], first);
    if (second != NULL)
        cr_assert_str_eq(options.names[1], second);
}

Test(tool_options, name_and_command_alone_give_the_documented_defaults)
{
    EXPECT_ACCEPTED("name", "true");
    assert_names("name", NULL);
    assert_command("true", NULL);
    cr_assert_eq(options.wait_ms, RDL_WAIT_FOREVER);
    cr_assert_eq(options.lease_ms, 0);
    cr_assert_eq(options.max_hold_ms, 0);
    cr_assert_eq(options.grace_ms, 5000);
    cr_assert_eq(options.conflict_code, 1);
    cr_assert_null(options.server);
    cr_assert_null(options.redlock);
    cr_assert_eq(options.permits, 0);
    cr_assert_str_eq(options.type->name, "reentrant");
    cr_assert_not(options.verbose);
}

Test(tool_options, every_option_reaches_its_field)
{
    EXPECT_ACCEPTED("-w", "2.5", "-E", "7", "--lease", "10s", "--max-hold=1h", "--grace", "0", "--server", "unix:/s",
                    "--type=simple", "--verbose", "name", "true");
    cr_assert_eq(options.wait_ms, 2500);
    cr_assert_eq(options.conflict_code, 7);
    cr_assert_eq(options.lease_ms, 10000);
    cr_assert_eq(options.max_hold_ms, 3600000);
    cr_assert_eq(options.grace_ms, 0);
    cr_assert_str_eq(options.server, "unix:/s");
    cr_assert_str_eq(options.type->name, "simple");
    cr_assert(options.verbose);
}

Test(tool_options, a_label_and_more_are_bounded)
{
    char words[RDL_INFO_MAX + 2];

    EXPECT_ACCEPTED("--label", "the nightly one", "--info=ticket 7", "--anonymous", "name", "true");
    cr_assert_str_eq(options.label, "the nightly one");
    cr_assert_str_eq(options.info, "ticket 7");
    cr_assert(options.anonymous);
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    EXPECT_REFUSED("--info: it has 1025 bytes, the most are 1024", "--info", words, "name", "true");
    EXPECT_REFUSED("--label: it has 1025 bytes, the most are 128", "--label", words, "name", "true");
}

Test(tool_options, the_spellings_of_flock_are_understood)
{
    EXPECT_ACCEPTED("-n", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    EXPECT_ACCEPTED("--nb", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    EXPECT_ACCEPTED("--nonblock", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    EXPECT_ACCEPTED("--timeout", "3", "name", "true");
    cr_assert_eq(options.wait_ms, 3000);
    EXPECT_ACCEPTED("-w3", "name", "true");
    cr_assert_eq(options.wait_ms, 3000);
    EXPECT_ACCEPTED("-nE", "5", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    cr_assert_eq(options.conflict_code, 5);
    EXPECT_ACCEPTED("-w", "0", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
}

Test(tool_options, a_wait_of_less_than_a_millisecond_is_not_nonblock)
{
    EXPECT_ACCEPTED("-w", "0.0001", "name", "true");
    cr_assert_eq(options.wait_ms, 1);
}

Test(tool_options, options_end_at_the_name)
{
    EXPECT_ACCEPTED("name", "ls", "-n", "--verbose");
    assert_command("ls", "-n");
    cr_assert_not(options.verbose);
    cr_assert_eq(options.wait_ms, RDL_WAIT_FOREVER);
}

Test(tool_options, a_separator_is_accepted_behind_the_name_and_before_it)
{
    EXPECT_ACCEPTED("name", "--", "ls", "-n");
    assert_command("ls", "-n");
    EXPECT_ACCEPTED("--", "-name", "--", "-ls", "--");
    assert_names("-name", NULL);
    assert_command("-ls", "--");
    EXPECT_ACCEPTED("--", "-name", "ls");
    assert_command("ls", NULL);
    EXPECT_ACCEPTED("name", "--", "-c", "x");
    assert_command("-c", "x");
}

Test(tool_options, a_shell_line_is_accepted_before_and_behind_the_name)
{
    EXPECT_ACCEPTED("-c", "a; b", "name");
    cr_assert_str_eq(options.shell, "a; b");
    cr_assert_null(options.command);
    EXPECT_ACCEPTED("name", "-c", "a; b");
    cr_assert_str_eq(options.shell, "a; b");
    EXPECT_ACCEPTED("name", "--command", "a; b");
    cr_assert_str_eq(options.shell, "a; b");
    EXPECT_ACCEPTED("-c", "a; b", "name", "--");
    cr_assert_str_eq(options.shell, "a; b");
}

Test(tool_options, shell_lines_and_commands_do_not_mix)
{
    EXPECT_REFUSED("cannot be combined", "-c", "x", "name", "true");
    EXPECT_REFUSED("twice", "-c", "x", "name", "-c", "y");
    EXPECT_REFUSED("one argument", "name", "-c", "echo", "hi");
    EXPECT_REFUSED("wants a value", "name", "-c");
}

Test(tool_options, what_is_missing_is_named)
{
    EXPECT_REFUSED("NAME is missing", "-n");
    EXPECT_REFUSED("NAME is missing", "--");
    EXPECT_REFUSED("COMMAND is missing", "name");
    EXPECT_REFUSED("COMMAND is missing", "name", "--");
    EXPECT_REFUSED("--wait wants a value: TIME", "-w");
    EXPECT_REFUSED("--server wants a value: URI", "--server");
}

Test(tool_options, names_are_not_empty_and_not_too_long)
{
    char *longest = calloc(1, NAMES_LEN_MAX + 2);

    memset(longest, 'x', NAMES_LEN_MAX);
    EXPECT_ACCEPTED(longest, "true");
    EXPECT_REFUSED("longer than 131057", longest, "y", "--", "true");
    longest[NAMES_LEN_MAX - 2] = '\0';
    EXPECT_ACCEPTED(longest, "y", "--", "true");
    EXPECT_REFUSED("longer than 131057", longest, "yy", "--", "true");
    memset(longest, 'x', NAMES_LEN_MAX + 1);
    EXPECT_REFUSED("longer than 131057", longest, "true");
    EXPECT_REFUSED("NAME is empty", "", "true");
    free(longest);
}

Test(tool_options, all_that_stands_before_a_separator_is_a_name)
{
    EXPECT_ACCEPTED("a", "b", "--", "ls", "-n");
    assert_names("a", "b");
    assert_command("ls", "-n");
    EXPECT_ACCEPTED("-n", "a", "b", "--", "ls", "--");
    assert_names("a", "b");
    assert_command("ls", "--");
    EXPECT_ACCEPTED("--", "-a", "-b", "--", "ls");
    assert_names("-a", "-b");
    EXPECT_ACCEPTED("-c", "x; y", "a", "b", "--");
    assert_names("a", "b");
    cr_assert_str_eq(options.shell, "x; y");
    EXPECT_ACCEPTED("a", "b", "c");
    assert_names("a", NULL);
    assert_command("b", "c");
    EXPECT_ACCEPTED("a", "--", "git", "log", "--", "file");
    assert_names("a", NULL);
    assert_command("git", "log");
}

Test(tool_options, several_names_are_checked_one_by_one)
{
    EXPECT_REFUSED("NAME is empty", "a", "", "--", "true");
    EXPECT_REFUSED("NAME 'a\\x1b' is given twice", "a\x1b", "b", "a\x1b", "--", "true");
    EXPECT_REFUSED("'-n' after NAME", "a", "-n", "--", "true");
    EXPECT_REFUSED("COMMAND is missing", "a", "b", "--");
    EXPECT_REFUSED("NAME is missing", "-n", "--", "--", "true");
}

/* Parse that many names and a command. */
static int parse_names(int count)
{
    static char text[NAMES_MAX + 1][16];
    const char *words[NAMES_MAX + 4];

    for (int i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "n%d", i);
        words[i] = text[i];
    }
    words[count] = "--";
    words[count + 1] = "true";
    words[count + 2] = NULL;
    return parse_list(words);
}

Test(tool_options, as_many_names_as_a_multi_lock_has_members_are_accepted)
{
    cr_assert_eq(parse_names(NAMES_MAX), 0, "%s", why.text);
    cr_assert_eq(options.name_count, NAMES_MAX);
    cr_assert_eq(parse_names(NAMES_MAX + 1), -1);
    cr_assert_str_eq(why.text, "257 NAMEs: at most 256 can be taken together");
}

Test(tool_options, every_type_is_found_by_its_name_and_the_ends_of_a_read_write_lock_by_letters)
{
    static const char *const types[] = {"reentrant", "nonreentrant", "fair", "fenced", "spin", "simple"};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        EXPECT_ACCEPTED("--type", types[i], "name", "true");
        cr_assert_str_eq(options.type->name, types[i]);
    }
    EXPECT_ACCEPTED("-s", "name", "true");
    cr_assert_str_eq(options.type->name, "read");
    EXPECT_ACCEPTED("--shared", "a", "b", "--", "true");
    cr_assert_str_eq(options.type->name, "read");
    EXPECT_ACCEPTED("-nx", "name", "true");
    cr_assert_str_eq(options.type->name, "write");
    EXPECT_ACCEPTED("--exclusive", "name", "true");
    cr_assert_str_eq(options.type->name, "write");
    EXPECT_REFUSED("no type 'read'", "--type", "read", "name", "true");
}

Test(tool_options, permits_are_counted_from_one)
{
    EXPECT_ACCEPTED("--permits", "1", "name", "true");
    cr_assert_eq(options.permits, 1);
    EXPECT_ACCEPTED("--permits=1000000", "name", "true");
    cr_assert_eq(options.permits, 1000000);
    EXPECT_REFUSED("--permits: '0'", "--permits", "0", "name", "true");
    EXPECT_REFUSED("--permits: '1000001'", "--permits", "1000001", "name", "true");
    EXPECT_REFUSED("--permits: 'all'", "--permits", "all", "name", "true");
}

Test(tool_options, a_red_lock_has_three_servers_or_more_and_no_two_the_same)
{
    EXPECT_ACCEPTED("--redlock", "redis://a,redis://b,unix:/c", "name", "true");
    cr_assert_str_eq(options.redlock, "redis://a,redis://b,unix:/c");
    EXPECT_ACCEPTED("--redlock", "a,ab,abc", "name", "true");
    EXPECT_REFUSED("--redlock: 3 to 63 addresses with commas between them, not 1", "--redlock", "redis://a", "name",
                   "true");
    EXPECT_REFUSED("not 2", "--redlock", "redis://a,redis://b", "name", "true");
    EXPECT_REFUSED("address 1 is empty", "--redlock", "", "name", "true");
    EXPECT_REFUSED("address 2 is empty", "--redlock", "a,,b", "name", "true");
    EXPECT_REFUSED("address 3 is empty", "--redlock", "a,b,", "name", "true");
    EXPECT_REFUSED("address 3 is given twice", "--redlock", "a,b,a", "name", "true");
}

Test(tool_options, files_for_tls_have_names_and_a_certificate_its_key)
{
    EXPECT_ACCEPTED("--cacert", "/ca", "--cert=/crt", "--key", "/key", "name", "true");
    cr_assert_str_eq(options.ca_file, "/ca");
    cr_assert_str_eq(options.cert_file, "/crt");
    cr_assert_str_eq(options.key_file, "/key");
    cr_assert_not(options.insecure);
    EXPECT_ACCEPTED("--insecure", "name", "true");
    cr_assert(options.insecure);
    EXPECT_REFUSED("--cacert: FILE is empty", "--cacert", "", "name", "true");
    EXPECT_REFUSED("--cert: FILE is empty", "--cert=", "name", "true");
    EXPECT_REFUSED("--key: FILE is empty", "--key=", "name", "true");
    EXPECT_REFUSED("--cert and --key go together", "--cert", "/crt", "name", "true");
    EXPECT_REFUSED("--cert and --key go together", "--key", "/key", "name", "true");
    EXPECT_REFUSED("--insecure and --cacert cannot be combined", "--cacert", "/ca", "--insecure", "name", "true");
}

Test(tool_options, what_makes_no_sense_together_is_named)
{
    EXPECT_REFUSED("-s and -x cannot be combined", "-s", "-x", "name", "true");
    EXPECT_REFUSED("-s and --type cannot be combined: a read-write lock is a type of its own", "--type", "fair", "-s",
                   "name", "true");
    EXPECT_REFUSED("-x and --type cannot be combined", "-x", "--type", "fair", "name", "true");
    EXPECT_REFUSED("--permits and -s cannot be combined", "-s", "--permits", "2", "name", "true");
    EXPECT_REFUSED("--permits and -x cannot be combined", "-x", "--permits", "2", "name", "true");
    EXPECT_REFUSED("--permits and --type cannot be combined", "--permits", "2", "--type", "fair", "name", "true");
    EXPECT_REFUSED("--permits and --redlock cannot be combined", "--permits", "2", "--redlock", "a,b,c", "name",
                   "true");
    EXPECT_REFUSED("--permits and several NAMEs cannot be combined", "--permits", "2", "a", "b", "--", "true");
    EXPECT_REFUSED("--redlock and -s cannot be combined", "--redlock", "a,b,c", "-s", "name", "true");
    EXPECT_REFUSED("--redlock and -x cannot be combined", "--redlock", "a,b,c", "-x", "name", "true");
    EXPECT_REFUSED("--redlock and --server cannot be combined", "--redlock", "a,b,c", "--server", "d", "name", "true");
    EXPECT_REFUSED("--redlock and several NAMEs cannot be combined", "--redlock", "a,b,c", "a", "b", "--", "true");
    EXPECT_ACCEPTED("--redlock", "a,b,c", "--type", "fair", "name", "true");
    EXPECT_ACCEPTED("--type", "fair", "a", "b", "--", "true");
    EXPECT_ACCEPTED("--permits", "2", "--server", "d", "-w", "1", "name", "true");
}

Test(tool_options, an_option_behind_the_name_is_explained)
{
    EXPECT_REFUSED("options go before NAME", "name", "-n", "true");
    EXPECT_REFUSED("options go before NAME", "name", "--verbose", "true");
}

Test(tool_options, unknown_options_are_named_and_cannot_drive_the_terminal)
{
    EXPECT_REFUSED("unknown option '-q'", "-nq", "name", "true");
    EXPECT_REFUSED("unknown option '--frobnicate'", "--frobnicate=3", "name", "true");
    EXPECT_REFUSED("unknown option '-\\x1b'", "-\x1b", "name", "true");
    EXPECT_REFUSED("unknown option '-\\xff'", "-\xff", "name", "true");
    EXPECT_REFUSED("unknown option '--\\x1b[2J'", "--\x1b[2J", "name", "true");
    EXPECT_REFUSED("--anonymous takes no value", "--anonymous=yes", "name", "true");
    EXPECT_REFUSED("--verbose takes no value", "--verbose=yes", "name", "true");
}

Test(tool_options, bad_values_are_named_with_their_option)
{
    EXPECT_REFUSED("--wait: '-1'", "-w", "-1", "name", "true");
    EXPECT_REFUSED("--wait: 'nan'", "-w", "nan", "name", "true");
    EXPECT_REFUSED("--wait: ''", "-w", "", "name", "true");
    EXPECT_REFUSED("--wait: '99999999999h' is too long", "-w", "99999999999h", "name", "true");
    EXPECT_REFUSED("--lease: '0' is too short", "--lease", "0", "name", "true");
    EXPECT_REFUSED("--lease: '29ms' is too short, the least is 30 ms", "--lease", "29ms", "name", "true");
    EXPECT_REFUSED("--max-hold: '0' is too short", "--max-hold", "0", "name", "true");
    EXPECT_REFUSED("--grace: 'x'", "--grace", "x", "name", "true");
    EXPECT_REFUSED("--conflict-exit-code: '256'", "-E", "256", "name", "true");
    EXPECT_REFUSED("--conflict-exit-code: '-1'", "-E", "-1", "name", "true");
    EXPECT_REFUSED("--conflict-exit-code: '4294967297'", "-E", "4294967297", "name", "true");
    EXPECT_REFUSED("--conflict-exit-code: '1x'", "-E", "1x", "name", "true");
    EXPECT_REFUSED("--conflict-exit-code: ''", "-E", "", "name", "true");
    EXPECT_REFUSED("no type 'nosuch'", "--type", "nosuch", "name", "true");
    EXPECT_REFUSED("--server: URI is empty", "--server", "", "name", "true");
}

Test(tool_options, the_whole_range_of_conflict_codes_is_accepted)
{
    EXPECT_ACCEPTED("-E", "0", "name", "true");
    cr_assert_eq(options.conflict_code, 0);
    EXPECT_ACCEPTED("-E", "255", "name", "true");
    cr_assert_eq(options.conflict_code, 255);
}

Test(tool_options, nonblock_and_wait_exclude_each_other_in_any_order)
{
    EXPECT_REFUSED("-n and -w", "-n", "-w", "3", "name", "true");
    EXPECT_REFUSED("-n and -w", "-w", "3", "--nb", "name", "true");
}

Test(tool_options, help_needs_nothing_else)
{
    EXPECT_ACCEPTED("--help");
    cr_assert_eq(options.asked, ASKED_HELP);
    EXPECT_ACCEPTED("-h", "name");
    cr_assert_eq(options.asked, ASKED_HELP);
}

Test(tool_options, every_option_that_is_shown_fits_the_page)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    run_options_print(out);
    fclose(out);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        cr_assert_leq(strlen(line), 95, "%s", line);
    free(text);
}
