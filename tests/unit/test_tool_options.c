/* test_tool_options.c - the command line of `redlatch run`, read into a struct. */
#include "tools/redlatch/run_options.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 16

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
#define ACCEPT(...) cr_assert_eq(PARSE(__VA_ARGS__), 0, "refused: %s", why.text)
#define REFUSE(words, ...)                                                                                                  \
    do {                                                                                                                    \
        cr_assert_eq(PARSE(__VA_ARGS__), -1, "accepted");                                                                   \
        cr_assert(strstr(why.text, words) != NULL, "it says: %s", why.text);                                                \
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

Test(tool_options, name_and_command_alone_give_the_documented_defaults)
{
    ACCEPT("name", "true");
    cr_assert_str_eq(options.name, "name");
    assert_command("true", NULL);
    cr_assert_eq(options.wait_ms, RDL_WAIT_FOREVER);
    cr_assert_eq(options.lease_ms, 0);
    cr_assert_eq(options.max_hold_ms, 0);
    cr_assert_eq(options.grace_ms, 5000);
    cr_assert_eq(options.conflict_code, 1);
    cr_assert_null(options.server);
    cr_assert_str_eq(options.type->name, "reentrant");
    cr_assert_not(options.verbose);
}

Test(tool_options, every_option_reaches_its_field)
{
    ACCEPT("-w", "2.5", "-E", "7", "--lease", "10s", "--max-hold=1h", "--grace", "0", "--server", "unix:/s", "--type=simple",
           "--verbose", "name", "true");
    cr_assert_eq(options.wait_ms, 2500);
    cr_assert_eq(options.conflict_code, 7);
    cr_assert_eq(options.lease_ms, 10000);
    cr_assert_eq(options.max_hold_ms, 3600000);
    cr_assert_eq(options.grace_ms, 0);
    cr_assert_str_eq(options.server, "unix:/s");
    cr_assert_str_eq(options.type->name, "simple");
    cr_assert(options.verbose);
}

Test(tool_options, the_spellings_of_flock_are_understood)
{
    ACCEPT("-n", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    ACCEPT("--nb", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    ACCEPT("--nonblock", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    ACCEPT("--timeout", "3", "name", "true");
    cr_assert_eq(options.wait_ms, 3000);
    ACCEPT("-w3", "name", "true");
    cr_assert_eq(options.wait_ms, 3000);
    ACCEPT("-nE", "5", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
    cr_assert_eq(options.conflict_code, 5);
    ACCEPT("-w", "0", "name", "true");
    cr_assert_eq(options.wait_ms, 0);
}

Test(tool_options, a_wait_of_less_than_a_millisecond_is_not_nonblock)
{
    ACCEPT("-w", "0.0001", "name", "true");
    cr_assert_eq(options.wait_ms, 1);
}

Test(tool_options, options_end_at_the_name)
{
    ACCEPT("name", "ls", "-n", "--verbose");
    assert_command("ls", "-n");
    cr_assert_not(options.verbose);
    cr_assert_eq(options.wait_ms, RDL_WAIT_FOREVER);
}

Test(tool_options, a_separator_is_accepted_behind_the_name_and_before_it)
{
    ACCEPT("name", "--", "ls", "-n");
    assert_command("ls", "-n");
    ACCEPT("--", "-name", "--", "-ls", "--");
    cr_assert_str_eq(options.name, "-name");
    assert_command("-ls", "--");
    ACCEPT("--", "-name", "ls");
    assert_command("ls", NULL);
    ACCEPT("name", "--", "-c", "x");
    assert_command("-c", "x");
}

Test(tool_options, a_shell_line_is_accepted_before_and_behind_the_name)
{
    ACCEPT("-c", "a; b", "name");
    cr_assert_str_eq(options.shell, "a; b");
    cr_assert_null(options.command);
    ACCEPT("name", "-c", "a; b");
    cr_assert_str_eq(options.shell, "a; b");
    ACCEPT("name", "--command", "a; b");
    cr_assert_str_eq(options.shell, "a; b");
    ACCEPT("-c", "a; b", "name", "--");
    cr_assert_str_eq(options.shell, "a; b");
}

Test(tool_options, shell_lines_and_commands_do_not_mix)
{
    REFUSE("exclude", "-c", "x", "name", "true");
    REFUSE("twice", "-c", "x", "name", "-c", "y");
    REFUSE("one argument", "name", "-c", "echo", "hi");
    REFUSE("wants a value", "name", "-c");
}

Test(tool_options, what_is_missing_is_named)
{
    REFUSE("NAME is missing", "-n");
    REFUSE("NAME is missing", "--");
    REFUSE("COMMAND is missing", "name");
    REFUSE("COMMAND is missing", "name", "--");
    REFUSE("--wait wants a value: TIME", "-w");
    REFUSE("--server wants a value: URI", "--server");
}

Test(tool_options, names_are_not_empty_and_not_too_long)
{
    char *longest = calloc(1, RDL_NAME_MAX + 2);

    memset(longest, 'x', RDL_NAME_MAX);
    ACCEPT(longest, "true");
    longest[RDL_NAME_MAX] = 'x';
    REFUSE("longer than 524288", longest, "true");
    REFUSE("NAME is empty", "", "true");
    free(longest);
}

Test(tool_options, a_separator_further_on_is_refused_because_it_would_mean_several_names)
{
    REFUSE("one NAME only", "a", "b", "--", "true");
    REFUSE("one NAME only", "a", "git", "log", "--", "file");
    ACCEPT("a", "--", "git", "log", "--", "file");
}

Test(tool_options, an_option_behind_the_name_is_explained)
{
    REFUSE("options go before NAME", "name", "-n", "true");
    REFUSE("options go before NAME", "name", "--verbose", "true");
}

Test(tool_options, unknown_options_are_named_and_cannot_drive_the_terminal)
{
    REFUSE("unknown option '-q'", "-nq", "name", "true");
    REFUSE("unknown option '--frobnicate'", "--frobnicate=3", "name", "true");
    REFUSE("unknown option '-\\x1b'", "-\x1b", "name", "true");
    REFUSE("unknown option '-\\xff'", "-\xff", "name", "true");
    REFUSE("unknown option '--\\x1b[2J'", "--\x1b[2J", "name", "true");
    REFUSE("--verbose takes no value", "--verbose=yes", "name", "true");
}

Test(tool_options, bad_values_are_named_with_their_option)
{
    REFUSE("--wait: '-1'", "-w", "-1", "name", "true");
    REFUSE("--wait: 'nan'", "-w", "nan", "name", "true");
    REFUSE("--wait: ''", "-w", "", "name", "true");
    REFUSE("--wait: '99999999999h' is too long", "-w", "99999999999h", "name", "true");
    REFUSE("--lease: '0' is too short", "--lease", "0", "name", "true");
    REFUSE("--lease: '29ms' is too short, the least is 30 ms", "--lease", "29ms", "name", "true");
    REFUSE("--max-hold: '0' is too short", "--max-hold", "0", "name", "true");
    REFUSE("--grace: 'x'", "--grace", "x", "name", "true");
    REFUSE("--conflict-exit-code: '256'", "-E", "256", "name", "true");
    REFUSE("--conflict-exit-code: '-1'", "-E", "-1", "name", "true");
    REFUSE("--conflict-exit-code: '4294967297'", "-E", "4294967297", "name", "true");
    REFUSE("--conflict-exit-code: '1x'", "-E", "1x", "name", "true");
    REFUSE("--conflict-exit-code: ''", "-E", "", "name", "true");
    REFUSE("no type 'nosuch'", "--type", "nosuch", "name", "true");
    REFUSE("the address is empty", "--server", "", "name", "true");
}

Test(tool_options, the_whole_range_of_conflict_codes_is_accepted)
{
    ACCEPT("-E", "0", "name", "true");
    cr_assert_eq(options.conflict_code, 0);
    ACCEPT("-E", "255", "name", "true");
    cr_assert_eq(options.conflict_code, 255);
}

Test(tool_options, nonblock_and_wait_exclude_each_other_in_any_order)
{
    REFUSE("-n and -w", "-n", "-w", "3", "name", "true");
    REFUSE("-n and -w", "-w", "3", "--nb", "name", "true");
}

Test(tool_options, help_needs_nothing_else)
{
    ACCEPT("--help");
    cr_assert(options.help);
    ACCEPT("-h", "name");
    cr_assert(options.help);
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
