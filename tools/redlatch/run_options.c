/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/run_options.h"

#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/text.h"

#include <redlatch/client.h>
#include <string.h>

#define GRACE_DEFAULT_MS 5000
#define LOCAL_AFTER_DEFAULT_MS 5000 /* the library's own */
#define LEASE_MIN_MS 30             /* rdl_client_options_t, watchdog_lease_ms */

/* ---- one function a row ----------------------------------------------------------------------------------------- */

static int apply_nonblock(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->given |= GIVEN_NONBLOCK;
    return 0;
}

static int apply_wait(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    o->given |= GIVEN_WAIT;
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
        return usage_fail(why, "--server: URI is empty");
    o->given |= GIVEN_SERVER;
    o->server = (char *)text; /* points into argv, whose strings are a program's own to change */
    return 0;
}

/* A file for TLS. */
static int take_file(const char *option, enum given given, const char *text, struct run_options *o, const char **to,
                     struct usage_error *why)
{
    if (text[0] == '\0')
        return usage_fail(why, "--%s: FILE is empty", option);
    o->given |= given;
    *to = text;
    return 0;
}

static int apply_cacert(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return take_file("cacert", GIVEN_CACERT, text, o, &o->ca_file, why);
}

static int apply_cert(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return take_file("cert", GIVEN_CERT, text, o, &o->cert_file, why);
}

static int apply_key(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return take_file("key", GIVEN_KEY, text, o, &o->key_file, why);
}

static int apply_insecure(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->given |= GIVEN_INSECURE;
    o->insecure = true;
    return 0;
}

static int apply_pass_server(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->pass_server = true;
    return 0;
}

static int apply_type(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;
    char shown[TEXT_SAFE_CAP];
    const char *near;

    o->type = lock_type_find(text);
    o->given &= ~(unsigned)GIVEN_FAIR;
    o->given |= GIVEN_TYPE | (o->type != NULL && o->type->queues ? GIVEN_FAIR : 0U);
    if (o->type != NULL)
        return 0;
    near = lock_type_nearest(text);
    return usage_fail(why, "--type: there is no type '%s'%s%s%s", text_safe(text, strlen(text), shown),
                      near != NULL ? ": is '" : ": 'redlatch help types' has them", near != NULL ? near : "",
                      near != NULL ? "' meant?" : "");
}

static int apply_shared(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->given |= GIVEN_SHARED;
    o->type = lock_type_shared();
    return 0;
}

static int apply_exclusive(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->given |= GIVEN_EXCLUSIVE;
    o->type = lock_type_exclusive();
    return 0;
}

static int apply_permits(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    o->given |= GIVEN_PERMITS;
    return option_number("permits", text, 1, PERMITS_MAX, &o->permits, why);
}

/* Is the address of `len` bytes at `uri` among those before it in the list? Two votes of one server are no majority. */
static bool is_repeated(const char *list, const char *uri, size_t len)
{
    for (const char *p = list; p < uri; p += strcspn(p, ",") + 1)
        if (strcspn(p, ",") == len && strncmp(p, uri, len) == 0)
            return true;
    return false;
}

static int apply_redlock(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;
    const char *uri = text;
    size_t count = 0;

    for (bool more = true; more; count++) {
        size_t len = strcspn(uri, ",");

        if (len == 0)
            return usage_fail(why, "--redlock: address %zu is empty", count + 1);
        if (is_repeated(text, uri, len))
            return usage_fail(why, "--redlock: address %zu is given twice", count + 1);
        more = uri[len] == ',';
        uri += len + 1;
    }
    if (count < REDLOCK_MIN || count > REDLOCK_MAX)
        return usage_fail(why, "--redlock: %d to %d addresses with commas between them, not %zu", REDLOCK_MIN,
                          REDLOCK_MAX, count);
    o->given |= GIVEN_REDLOCK;
    o->redlock = (char *)text; /* as with --server */
    return 0;
}

static int apply_on_outage(void *to, const char *text, struct usage_error *why)
{
    static const struct {
        const char *word;
        rdl_outage_t outage;
    } words[] = {{"fail", RDL_OUTAGE_FAIL}, {"wait", RDL_OUTAGE_WAIT}, {"local", RDL_OUTAGE_LOCAL}};
    struct run_options *o = to;
    char shown[TEXT_SAFE_CAP];

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].word) != 0)
            continue;
        o->on_outage = words[i].outage;
        if (o->on_outage == RDL_OUTAGE_LOCAL)
            o->given |= GIVEN_LOCAL;
        return 0;
    }
    return usage_fail(why, "--on-outage: fail, wait or local, not '%s'", text_safe(text, strlen(text), shown));
}

static int apply_local_dir(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return take_file("local-dir", GIVEN_LOCAL_DIR, text, o, &o->local_dir, why);
}

static int apply_local_after(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return option_duration("local-after", text, 1, &o->local_after_ms, why);
}

static int apply_shell(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)why;
    o->shell = text;
    return 0;
}

static int take_text(const char *option, const char *text, size_t most, const char **to, struct usage_error *why)
{
    if (strlen(text) > most)
        return usage_fail(why, "--%s: it has %zu bytes, the most are %zu", option, strlen(text), most);
    *to = text;
    return 0;
}

static int apply_label(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return take_text("label", text, RDL_LABEL_MAX, &o->label, why);
}

static int apply_info(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    return take_text("info", text, RDL_INFO_MAX, &o->info, why);
}

static int apply_anonymous(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->anonymous = true;
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
    o->asked = ASKED_HELP;
    return 0;
}

static int apply_version(void *to, const char *text, struct usage_error *why)
{
    struct run_options *o = to;

    (void)text;
    (void)why;
    o->asked = ASKED_VERSION;
    return 0;
}

#define HEADING(text)                                                                                                  \
    {                                                                                                                  \
        '\0', NULL, NULL, text, NULL                                                                                   \
    }

static const struct option_row rows[] = {
    HEADING("How long to wait"),
    {'n', "nonblock", NULL, "do not wait: give up at once when the lock is taken", apply_nonblock},
    {'\0', "nb", NULL, NULL, apply_nonblock},
    {'w', "wait", "TIME", "wait for the lock at most that long; 0 is -n\n(default: as long as it takes)", apply_wait},
    {'\0', "timeout", "TIME", NULL, apply_wait},
    {'E', "conflict-exit-code", "CODE", "exit status when the lock was not acquired in time\n(0 to 255; default 1)",
     apply_conflict_code},
    {'\0', "on-outage", "MODE",
     "what an outage of the server means: fail (default), give\nup soon; wait, it is waited for like a holder: as long "
     "as\n-w allows, or as it takes; local, the lock is held on\nthis host alone: wrong where more than one host "
     "takes it",
     apply_on_outage},
    {'\0', "local-after", "TIME", "with local: how long there is no server before that\n(default 5)",
     apply_local_after},
    {'\0', "local-dir", "DIR",
     "with local: where this host's processes lock each other\nout, the same for all of them (default: /run/redlatch "
     "for\nroot, else /tmp/redlatch-UID)",
     apply_local_dir},
    HEADING("How long to hold it"),
    {'\0', "lease", "TIME",
     "the server frees the lock that long after this\nprogram died or lost the server; renewed every third\n"
     "of it while COMMAND runs (default 30)",
     apply_lease},
    {'\0', "max-hold", "TIME", "end COMMAND when it has run that long\n(default: no bound)", apply_max_hold},
    {'\0', "grace", "TIME", "time between SIGTERM and SIGKILL when COMMAND has to\nbe ended (default 5)", apply_grace},
    HEADING("The server"),
    {'\0', "server", "URI",
     "the server's address, or @FILE, whose first line has it\n(default: the environment's REDLATCH_SERVER, else\n"
     "redis://127.0.0.1:6379)",
     apply_server},
    {'\0', "pass-server", NULL, "leave the passwords of REDLATCH_SERVER and the sentinels\nin COMMAND's environment",
     apply_pass_server},
    {'\0', "cacert", "FILE", "certificates of the CAs to trust for a rediss://\nserver (default: the system's)",
     apply_cacert},
    {'\0', "cert", "FILE", "client certificate, for a server that requires one", apply_cert},
    {'\0', "key", "FILE", "the key of --cert, without a passphrase", apply_key},
    {'\0', "insecure", NULL, "accept any certificate; for tests only", apply_insecure},
    HEADING("What is taken"),
    {'s', "shared", NULL,
     "take a read-write lock for reading: many may hold it\nat once, while nobody holds it for writing", apply_shared},
    {'x', "exclusive", NULL, "take a read-write lock for writing, alone", apply_exclusive},
    {'\0', "type", "TYPE",
     "reentrant (default), nonreentrant, fair (first come,\nfirst served), fenced, spin, each shared with Redisson's\n"
     "lock of that name; or simple (with code that uses SET\nNX PX)",
     apply_type},
    {'\0', "permits", "N",
     "NAME is a semaphore for at most N commands at once. A\npermit is renewed like a lock, and returns when its\n"
     "holder is killed. Give the same N everywhere: the last\none counts",
     apply_permits},
    {'\0', "redlock", "URI,URI,...",
     "one lock on these independent servers, at least 3: taken\nwhen more than half of them grant it. One that has "
     "been\n"
     "up for less than --lease does not count",
     apply_redlock},
    HEADING("The command, and what is said"),
    {'c', "command", "LINE", "run LINE with /bin/sh instead of COMMAND", apply_shell},
    {'\0', "label", "TEXT", "what is shown to people who ask who holds the lock\n(default: COMMAND's name)",
     apply_label},
    {'\0', "info", "TEXT", "a text that they are shown as well", apply_info},
    {'\0', "anonymous", NULL, "show nobody who holds the lock: neither host, process nor\nprogram", apply_anonymous},
    {'\0', "verbose", NULL, "report on stderr what happens to the lock", apply_verbose},
    {'h', "help", NULL, "show this help", apply_help},
    {'V', "version", NULL, "show the version", apply_version},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

/* ---- what excludes what ----------------------------------------------------------------------------------------- */

static const struct {
    enum given given;
    const char *name;
} called[] = {
    {GIVEN_NONBLOCK, "-n"},         {GIVEN_WAIT, "-w"},
    {GIVEN_SHARED, "-s"},           {GIVEN_EXCLUSIVE, "-x"},
    {GIVEN_TYPE, "--type"},         {GIVEN_PERMITS, "--permits"},
    {GIVEN_REDLOCK, "--redlock"},   {GIVEN_SERVER, "--server"},
    {GIVEN_NAMES, "several NAMEs"}, {GIVEN_CACERT, "--cacert"},
    {GIVEN_CERT, "--cert"},         {GIVEN_KEY, "--key"},
    {GIVEN_INSECURE, "--insecure"}, {GIVEN_LOCAL, "--on-outage local"},
    {GIVEN_FAIR, "--type fair"},
};

static const struct {
    enum given one, other;
    const char *because;
} excluded[] = {
    {GIVEN_NONBLOCK, GIVEN_WAIT, ""},
    {GIVEN_SHARED, GIVEN_EXCLUSIVE, ""},
    {GIVEN_SHARED, GIVEN_TYPE, ": a read-write lock is a type of its own"},
    {GIVEN_EXCLUSIVE, GIVEN_TYPE, ": a read-write lock is a type of its own"},
    {GIVEN_PERMITS, GIVEN_SHARED, ": a semaphore is no read-write lock"},
    {GIVEN_PERMITS, GIVEN_EXCLUSIVE, ": a semaphore is no read-write lock"},
    {GIVEN_PERMITS, GIVEN_TYPE, ": a semaphore is a type of its own"},
    {GIVEN_PERMITS, GIVEN_REDLOCK, ": a semaphore lives on one server"},
    {GIVEN_PERMITS, GIVEN_NAMES, ": a semaphore cannot be taken together with others"},
    {GIVEN_REDLOCK, GIVEN_SHARED, ": a red lock has no readers"},
    {GIVEN_REDLOCK, GIVEN_EXCLUSIVE, ": a red lock is always exclusive"},
    {GIVEN_REDLOCK, GIVEN_SERVER, ": it names the servers itself"},
    {GIVEN_REDLOCK, GIVEN_NAMES, ": it takes one lock on several servers"},
    {GIVEN_LOCAL, GIVEN_FAIR, ": a host alone has no queue"},
    {GIVEN_LOCAL, GIVEN_SHARED, ": a host alone has no readers"},
    {GIVEN_LOCAL, GIVEN_EXCLUSIVE, ": a host alone has no readers to keep out"},
    {GIVEN_LOCAL, GIVEN_PERMITS, ": a host alone cannot count permits"},
    {GIVEN_LOCAL, GIVEN_REDLOCK, ": a majority is not to be had on one host"},
    {GIVEN_LOCAL, GIVEN_NAMES, ": one could be held without the others"},
    {GIVEN_INSECURE, GIVEN_CACERT, ": any certificate would be accepted"},
};

static const char *name_of(enum given given)
{
    size_t i = 0;

    while (called[i].given != given)
        i++;
    return called[i].name;
}

static int check_given(unsigned given, struct usage_error *why)
{
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if ((given & excluded[i].one) != 0 && (given & excluded[i].other) != 0)
            return usage_fail(why, "%s and %s cannot be combined%s", name_of(excluded[i].one),
                              name_of(excluded[i].other), excluded[i].because);
    if (((given & GIVEN_CERT) != 0) != ((given & GIVEN_KEY) != 0))
        return usage_fail(why, "--cert and --key go together");
    return 0;
}

/* ---- what follows the options ----------------------------------------------------------------------------------- */

/* Adds its length, and that of what separates it, to `total`. */
static int check_name(const char *name, size_t *total, struct usage_error *why)
{
    size_t len = strlen(name);

    if (len == 0)
        return usage_fail(why, "NAME is empty");
    *total += len + (*total > 0);
    if (*total > NAMES_LEN_MAX)
        return usage_fail(why, "NAME, or all of them with a + between them, is longer than %zu bytes", NAMES_LEN_MAX);
    return 0;
}

static int misplaced(const char *option, struct usage_error *why)
{
    char shown[TEXT_SAFE_CAP];

    return usage_fail(why, "'%s' after NAME: options go before NAME, a command of that name after --",
                      text_safe(option, strlen(option), shown));
}

/* `free_form`: a -- stood before the first one, so that what begins with a dash is a name. */
static int check_names(const struct run_options *o, bool free_form, struct usage_error *why)
{
    char shown[TEXT_SAFE_CAP];
    size_t total = 0;

    if (o->name_count > NAMES_MAX)
        return usage_fail(why, "%zu NAMEs: at most %d can be taken together", o->name_count, NAMES_MAX);
    for (size_t i = 0; i < o->name_count; i++) {
        if (check_name(o->names[i], &total, why) < 0)
            return -1;
        if (i > 0 && o->names[i][0] == '-' && !free_form)
            return misplaced(o->names[i], why);
        for (size_t k = 0; k < i; k++)
            if (strcmp(o->names[i], o->names[k]) == 0)
                return usage_fail(why, "NAME '%s' is given twice", text_safe(o->names[i], strlen(o->names[i]), shown));
    }
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

/* argv is what follows the NAMEs, `argc` of them, ended by NULL; behind a -- if there was one. */
static int take_command(int argc, char *const argv[], bool separated, struct run_options *o, struct usage_error *why)
{
    if (!separated && argc > 0 && is_shell_option(argv[0]))
        return take_shell(argc, argv, o, why);
    if (!separated && argc > 0 && argv[0][0] == '-')
        return misplaced(argv[0], why);
    if (o->shell != NULL)
        return argc == 0 ? 0 : usage_fail(why, "-c and a COMMAND cannot be combined");
    if (argc == 0)
        return usage_fail(why, "COMMAND is missing");
    o->command = argv;
    return 0;
}

/* argv is what follows the options, `argc` of them, ended by NULL. */
static int take_operands(int argc, char *const argv[], bool free_form, struct run_options *o, struct usage_error *why)
{
    int separator = find_separator(argc, argv);
    bool separated = separator >= 0;
    int names = separated ? separator : 1;
    int rest = separated ? separator + 1 : 1;

    if (argc == 0 || names == 0)
        return usage_fail(why, "NAME is missing");
    o->names = argv;
    o->name_count = (size_t)names;
    if (names > 1)
        o->given |= GIVEN_NAMES;
    if (check_names(o, free_form, why) < 0 || check_given(o->given, why) < 0)
        return -1;
    return take_command(argc - rest, argv + rest, separated, o, why);
}

int run_options_parse(int argc, char *const argv[], struct run_options *ret, struct usage_error *why)
{
    struct run_options o = {
        .type = lock_type_default(),
        .wait_ms = RDL_WAIT_FOREVER,
        .grace_ms = GRACE_DEFAULT_MS,
        .conflict_code = EXITCODE_CONFLICT,
        .on_outage = RDL_OUTAGE_FAIL,
        .local_after_ms = LOCAL_AFTER_DEFAULT_MS,
    };
    int first = options_parse(rows, ROW_COUNT, argc, argv, &o, why);

    if (first < 0)
        return -1;
    if (o.asked == ASKED_NOTHING) {
        bool free_form = strcmp(argv[first - 1], "--") == 0;

        if (check_given(o.given, why) < 0 || take_operands(argc - first, argv + first, free_form, &o, why) < 0)
            return -1;
        if ((o.given & GIVEN_NONBLOCK) != 0)
            o.wait_ms = 0;
        if (o.on_outage == RDL_OUTAGE_WAIT && o.wait_ms == 0)
            o.on_outage = RDL_OUTAGE_FAIL; /* who does not wait waits for no server either */
    }
    *ret = o;
    return 0;
}

void run_options_print(FILE *out)
{
    options_print(out, rows, ROW_COUNT);
}
