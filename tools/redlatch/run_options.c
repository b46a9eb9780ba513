#include "tools/redlatch/run_options.h"

#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/text.h"

#include <string.h>

#define GRACE_DEFAULT_MS 5000
#define LEASE_MIN_MS 30 /* rdl_client_options_t, watchdog_lease_ms */

/* ---- one function a row ------------------------------------------------------------------------------------------------- */

static int apply_nonblock(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->nonblock = true;
    return 0;
}

static int apply_wait(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    o->wait = true;
    return option_duration("wait", text, 0, &o->wait_ms, why);
}

static int apply_conflict_code(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return option_number("conflict-exit-code", text, 0, 255, &o->conflict_code, why);
}

static int apply_lease(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return option_duration("lease", text, LEASE_MIN_MS, &o->lease_ms, why);
}

static int apply_max_hold(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return option_duration("max-hold", text, 1, &o->max_hold_ms, why);
}

static int apply_grace(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return option_duration("grace", text, 0, &o->grace_ms, why);
}

static int apply_server(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    if (text[0] == '\0')
        return usage_fail(why, "--server: the address is empty");
    o->server = (char *)text; /* points into argv, whose strings are a program's own to change */
    return 0;
}

static int apply_type(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;
    char shown[TEXT_SAFE_CAP];

    o->type = lock_type_find(text);
    if (o->type == NULL)
        return usage_fail(why, "--type: there is no type '%s'", text_safe(text, strlen(text), shown));
    return 0;
}

static int apply_shell(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)why;
    o->shell = text;
    return 0;
}

static int apply_verbose(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->verbose = true;
    return 0;
}

static int apply_help(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->help = true;
    return 0;
}

static const struct option_row rows[] = {
    {'n', "nonblock", NULL, "do not wait: give up at once when the lock is taken", apply_nonblock},
    {'\0', "nb", NULL, NULL, apply_nonblock},
    {'w', "wait", "TIME", "wait for the lock at most that long; 0 is -n\n(default: as long as it takes)", apply_wait},
    {'\0', "timeout", "TIME", NULL, apply_wait},
    {'E', "conflict-exit-code", "CODE", "exit status when the lock was not acquired in time\n(0 to 255; default 1)",
     apply_conflict_code},
    {'\0', "lease", "TIME",
     "the server frees the lock that long after this\nprogram died or lost the server; renewed every third\nof it while "
     "COMMAND runs (default 30)",
     apply_lease},
    {'\0', "max-hold", "TIME", "end COMMAND when it has run that long\n(default: no bound)", apply_max_hold},
    {'\0', "grace", "TIME", "time between SIGTERM and SIGKILL when COMMAND has to\nbe ended (default 5)", apply_grace},
    {'\0', "server", "URI", "where the locks are (default: the environment's\nREDLATCH_SERVER, else redis://127.0.0.1:6379)",
     apply_server},
    {'\0', "type", "TYPE",
     "reentrant (shared with Redisson's RLock; default), or\nsimple (shared with code that uses SET NX PX)", apply_type},
    {'c', "command", "LINE", "give LINE to /bin/sh instead of running COMMAND", apply_shell},
    {'\0', "verbose", NULL, "say on stderr what happens to the lock", apply_verbose},
    {'h', "help", NULL, "show this help", apply_help},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

/* ---- what follows the options ------------------------------------------------------------------------------------------- */

static int check_name(const char *name, struct usage_error *why)
{
    size_t len = strlen(name);

    if (len == 0)
        return usage_fail(why, "NAME is empty");
    if (len > RDL_NAME_MAX)
        return usage_fail(why, "NAME is longer than %zu bytes", (size_t)RDL_NAME_MAX);
    return 0;
}

static int find_separator(int argc, char *const argv[])
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return i;
    return -1;
}

/* flock(1) takes -c behind the name too. */
static bool is_shell_option(const char *arg)
{
    return strcmp(arg, "-c") == 0 || strcmp(arg, "--command") == 0;
}

static int take_shell(int argc, char *const argv[], struct run_options *o, struct usage_error *why)
{
    if (o->shell != NULL)
        return usage_fail(why, "-c is given twice");
    if (argc < 2)
        return usage_fail(why, "--command wants a value: LINE");
    if (argc > 2)
        return usage_fail(why, "-c takes one argument: put the whole shell command in quotes");
    o->shell = argv[1];
    return 0;
}

/* argv is what follows NAME, `argc` of them, ended by NULL. */
static int take_command(int argc, char *const argv[], struct run_options *o, struct usage_error *why)
{
    char shown[TEXT_SAFE_CAP];
    int separator = find_separator(argc, argv);

    if (separator > 0)
        return usage_fail(why, "one NAME only: put -- right behind it, and the command behind that");
    if (separator < 0 && argc > 0 && is_shell_option(argv[0]))
        return take_shell(argc, argv, o, why);
    if (separator < 0 && argc > 0 && argv[0][0] == '-')
        return usage_fail(why, "'%s' behind NAME: options go before NAME, a command named so behind --",
                          text_safe(argv[0], strlen(argv[0]), shown));
    argc -= separator + 1;
    argv += separator + 1;
    if (o->shell != NULL)
        return argc == 0 ? 0 : usage_fail(why, "-c and a COMMAND exclude each other");
    if (argc == 0)
        return usage_fail(why, "COMMAND is missing");
    o->command = argv;
    return 0;
}

int run_options_parse(int argc, char *const argv[], struct run_options *ret, struct usage_error *why)
{
    struct run_options o = {
        .type = lock_type_default(),
        .wait_ms = RDL_WAIT_FOREVER,
        .grace_ms = GRACE_DEFAULT_MS,
        .conflict_code = EXITCODE_CONFLICT,
    };
    int first = options_parse(rows, ROW_COUNT, argc, argv, &o, why);

    if (first < 0)
        return -1;
    if (!o.help) {
        if (o.nonblock && o.wait)
            return usage_fail(why, "-n and -w exclude each other");
        if (o.nonblock)
            o.wait_ms = 0;
        if (first == argc)
            return usage_fail(why, "NAME is missing");
        o.name = argv[first];
        if (check_name(o.name, why) < 0 || take_command(argc - first - 1, argv + first + 1, &o, why) < 0)
            return -1;
    }
    *ret = o;
    return 0;
}

void run_options_print(FILE *out)
{
    options_print(out, rows, ROW_COUNT);
}
