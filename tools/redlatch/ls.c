/* ls.c - `redlatch ls` and `redlatch show`: which locks there are, and everything about one. */
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/options.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/shown.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <redlatch/redlatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define QUIET_MS 500 /* a list that takes no longer shows no progress */
#define EVERY_MS 200

struct ls_options {
    bool help, json, tls;
    char *server; /* in argv; NULL: not given */
    rdl_tls_options_t files;
    const char *word; /* the pattern, or the name; NULL: not given */
};

/* ---- one function a row ----------------------------------------------------------------------------------------- */

static int apply_json(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct ls_options *)to)->json = true;
    return 0;
}

static int apply_help(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct ls_options *)to)->help = true;
    return 0;
}

static int apply_server(void *to, const char *text, struct usage_error *why)
{
    if (text[0] == '\0')
        return usage_fail(why, "--server: the address is empty");
    ((struct ls_options *)to)->server = (char *)text; /* argv's strings are a program's own to change */
    return 0;
}

static int apply_cacert(void *to, const char *text, struct usage_error *why)
{
    struct ls_options *o = to;

    (void)why;
    o->tls = true;
    o->files.ca_file = text;
    return 0;
}

static int apply_cert(void *to, const char *text, struct usage_error *why)
{
    struct ls_options *o = to;

    (void)why;
    o->tls = true;
    o->files.cert_file = text;
    return 0;
}

static int apply_key(void *to, const char *text, struct usage_error *why)
{
    struct ls_options *o = to;

    (void)why;
    o->tls = true;
    o->files.key_file = text;
    return 0;
}

static int apply_insecure(void *to, const char *text, struct usage_error *why)
{
    struct ls_options *o = to;

    (void)text;
    (void)why;
    o->tls = o->files.insecure = true;
    return 0;
}

static const struct option_row rows[] = {
    {'\0', "json", NULL, "JSON instead of text; redlatch(1) has the fields", apply_json},
    {'\0', "server", "URI", "where the locks are; as for run, like the next", apply_server},
    {'\0', "cacert", "FILE", "who vouches for a rediss:// server", apply_cacert},
    {'\0', "cert", "FILE", "our own certificate, for a server that wants one", apply_cert},
    {'\0', "key", "FILE", "and its key, without a passphrase", apply_key},
    {'\0', "insecure", NULL, "believe any rediss:// server; for tests only", apply_insecure},
    {'h', "help", NULL, "show this help", apply_help},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

static const char statuses[] = "\n"
                               "Exit status:\n"
                               "    0  done\n"
                               "   64  the command line or the address of the server is wrong, or NAME is no lock\n"
                               "   69  no server, or no answer from it\n"
                               "   70  the server refused, or stdout cannot be written\n"
                               "\n"
                               "Examples:\n";

static void ls_help(FILE *out)
{
    fputs("List the locks, semaphores and latches that there are, Redisson's too.\n"
          "\n"
          "Usage: redlatch ls [options] [PATTERN]\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs("\n"
          "PATTERN is what names have to match: * is anything, ? one byte, [a-z] one of those. All of a\n"
          "server's keys are gone through, in small steps that hold up nobody. WAIT is how many wait.\n",
          out);
    fputs(statuses, out);
    fputs("  redlatch ls\n"
          "  redlatch ls --json 'orders:*' | jq -r 'select(.waiters > 0) | .name'\n",
          out);
}

static void show_help(FILE *out)
{
    fputs("Show everything about the lock, semaphore or latch NAME: who holds it, who waits.\n"
          "\n"
          "Usage: redlatch show [options] NAME\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs(statuses, out);
    fputs("  redlatch show nightly\n"
          "  redlatch show --json nightly | jq '.holder_list[].by.host'\n",
          out);
}

/* Options may stand behind the word as well. */
static int parse(int argc, char **argv, struct ls_options *o, struct usage_error *why)
{
    int first = options_parse(rows, ROW_COUNT, argc, argv, o, why), more;

    if (first < 0 || o->help || first >= argc)
        return first < 0 ? -1 : 0;
    o->word = argv[first];
    if ((more = options_parse(rows, ROW_COUNT, argc - first, argv + first, o, why)) < 0)
        return -1;
    if (!o->help && first + more < argc)
        return usage_fail(why, "one name is looked at, and there are two");
    return 0;
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

static int terminal_width(void)
{
    struct winsize size;

    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return SHOWN_UNBOUNDED;
    return size.ws_col;
}

/* Nobody reads it any more: no reason for words. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return EXITCODE_SIGNAL + SIGPIPE;
    text_say("cannot write to the standard output: %s", strerror(errno));
    return EXITCODE_TROUBLE;
}

static int failed(const rdl_err_t *err)
{
    text_say("%s", err->message);
    return exitcode_of_error(err->code, EXITCODE_TROUBLE);
}

/* ---- ls --------------------------------------------------------------------------------------------------------- */

struct listing {
    const struct ls_options *o;
    int width;
    bool headed, no_memory, progress_shown;
    int64_t began_ms, told_ms; /* progress, by a clock that only goes on */
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void clear_progress(struct listing *l)
{
    if (l->progress_shown)
        (void)fputs("\r\033[K", stderr);
    l->progress_shown = false;
}

static void show_progress(struct listing *l, const rdl_list_progress_t *progress)
{
    int64_t now = now_ms();

    if (!isatty(STDERR_FILENO) || now - l->began_ms < QUIET_MS || now - l->told_ms < EVERY_MS)
        return;
    l->told_ms = now;
    l->progress_shown = true;
    (void)fprintf(stderr, "\r%lld of %lld keys", (long long)progress->keys, (long long)progress->keys_total);
    (void)fflush(stderr);
}

static int on_lock(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg)
{
    struct listing *l = arg;

    if (found == NULL) {
        show_progress(l, progress);
        return fflush(stdout) != 0 || ferror(stdout);
    }
    clear_progress(l);
    if (l->o->json) {
        l->no_memory = !shown_json(stdout, found, false);
        return l->no_memory || ferror(stdout);
    }
    if (!l->headed)
        shown_head(stdout, l->width);
    l->headed = true;
    shown_line(stdout, found, l->width);
    return ferror(stdout);
}

static int list(rdl_client_t *client, const struct ls_options *o)
{
    struct listing listing = {.o = o, .width = terminal_width(), .began_ms = now_ms()};
    rdl_err_t err;
    int64_t found = rdl_list(client, o->word, on_lock, &listing, &err);

    clear_progress(&listing);
    if (found < 0)
        return failed(&err);
    if (listing.no_memory) {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        return EXITCODE_TROUBLE;
    }
    return finish(EXITCODE_OK);
}

/* ---- show ------------------------------------------------------------------------------------------------------- */

static int show(rdl_client_t *client, const struct ls_options *o)
{
    rdl_inspection_t *lock = NULL;
    bool shown = true;
    rdl_err_t err;

    if (rdl_inspect(client, o->word, 0, &lock, &err) < 0)
        return failed(&err);
    if (o->json)
        shown = shown_json(stdout, lock, true);
    else
        shown_all(stdout, lock);
    rdl_inspection_free(lock);
    if (!shown)
        text_say("%s", rdl_strerror(RDL_ENOMEM));
    return shown ? finish(EXITCODE_OK) : EXITCODE_TROUBLE;
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

static int with_client(const struct ls_options *o, int (*look)(rdl_client_t *, const struct ls_options *))
{
    rdl_client_options_t options = RDL_CLIENT_OPTIONS_INIT;
    rdl_client_t *client = NULL;
    rdl_err_t err;
    char *uri;
    int rc;

    if ((uri = server_find(o->server, &rc)) == NULL)
        return rc;
    options.tls = o->tls ? &o->files : NULL;
    options.sentinel_username = getenv("REDLATCH_SENTINEL_USERNAME");
    options.sentinel_password = getenv("REDLATCH_SENTINEL_PASSWORD");
    rc = rdl_client_open(uri, &options, &client, &err) < 0 ? failed(&err) : look(client, o);
    rdl_client_close(client);
    free(uri);
    return rc;
}

static int ls_main(int argc, char **argv)
{
    struct ls_options o = {.files = RDL_TLS_OPTIONS_INIT};
    struct usage_error why;

    if (parse(argc, argv, &o, &why) < 0)
        return subcommand_misused(subcommand_ls.name, &why);
    return o.help ? subcommand_print(ls_help) : with_client(&o, list);
}

static int show_main(int argc, char **argv)
{
    struct ls_options o = {.files = RDL_TLS_OPTIONS_INIT};
    struct usage_error why;
    int rc = parse(argc, argv, &o, &why);

    if (rc == 0 && !o.help && (o.word == NULL || o.word[0] == '\0'))
        rc = usage_fail(&why, "NAME is missing");
    if (rc < 0)
        return subcommand_misused(subcommand_show.name, &why);
    return o.help ? subcommand_print(show_help) : with_client(&o, show);
}

const struct subcommand subcommand_ls = {
    .name = "ls",
    .summary = "list the locks that there are",
    .main = ls_main,
    .help = ls_help,
};

const struct subcommand subcommand_show = {
    .name = "show",
    .summary = "who holds a lock, and who waits",
    .main = show_main,
    .help = show_help,
};
