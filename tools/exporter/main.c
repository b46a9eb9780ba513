/* SPDX-License-Identifier: MIT */
/* main.c - `redlatch exporter`: serves what a deployment shows to Prometheus. A program of its own (apart.h).
 *
 * The main thread waits for a signal that ends it; web.c answers, gather.c asks the servers. */
#include "tools/exporter/gather.h"
#include "tools/exporter/web.h"
#include "tools/redlatch/access.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MIN_MS 100
#define DOCTOR_INTERVAL_MIN_MS 1000
#define MAX_LOCKS 100000

struct exporter_options {
    struct access access; /* first */
    struct web_address listen;
    struct gather_options gather;
};

/* ---- one function a row ----------------------------------------------------------------------------------------- */

static int apply_listen(void *to, const char *text, struct usage_error *why)
{
    return web_parse(text, &((struct exporter_options *)to)->listen, why);
}

static int apply_interval(void *to, const char *text, struct usage_error *why)
{
    return option_duration("interval", text, 0, &((struct exporter_options *)to)->gather.interval_ms, why);
}

static int apply_doctor_interval(void *to, const char *text, struct usage_error *why)
{
    int64_t *ms = &((struct exporter_options *)to)->gather.doctor_interval_ms;

    if (option_duration("doctor-interval", text, 0, ms, why) < 0)
        return -1;
    return *ms == 0 ? 0 : option_duration("doctor-interval", text, DOCTOR_INTERVAL_MIN_MS, ms, why);
}

static int apply_timeout(void *to, const char *text, struct usage_error *why)
{
    return option_duration("timeout", text, TIMEOUT_MIN_MS, &((struct exporter_options *)to)->gather.timeout_ms, why);
}

static int apply_max_locks(void *to, const char *text, struct usage_error *why)
{
    return option_number("max-locks", text, 0, MAX_LOCKS, &((struct exporter_options *)to)->gather.max_locks, why);
}

static const struct option_row rows[] = {
    {'\0', "listen", "[HOST]:PORT", "where to serve; port 0: any (default 127.0.0.1:10379)", apply_listen},
    {'\0', "interval", "TIME", "what a scan has found is served for so long (default 10)", apply_interval},
    {'\0', "doctor-interval", "TIME", "how often doctor looks; 0: never (default 5m)", apply_doctor_interval},
    {'\0', "timeout", "TIME", "no scrape waits longer for servers (default 5)", apply_timeout},
    {'\0', "max-locks", "N", "so many have their own series, the rest is counted\n(default 1000)", apply_max_locks},
    ACCESS_ROWS,
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

static void exporter_help(FILE *out)
{
    fputs("Serve to Prometheus, by HTTP, which locks there are, who waits, and what doctor finds.\n"
          "\n"
          "Usage: redlatch exporter [options] [PATTERN]\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs("\n"
          "PATTERN is what names have to match, as for 'redlatch ls'. The metrics are at /metrics; the first\n"
          "line on stdout is their address. Servers are asked when somebody scrapes, and scrapes at the same\n"
          "time share a scan. Servers that do not answer are redlatch_up 0. It ends on SIGTERM and SIGINT.\n"
          "\n"
          "Exit status:\n"
          "    0  a signal has ended it\n"
          "   64  the command line or the address of the server is wrong\n"
          "   70  it cannot listen there, or stdout cannot be written\n"
          "\n"
          "Examples:\n"
          "  redlatch exporter --server redis://db1\n"
          "  redlatch exporter --listen 0.0.0.0:10379 --max-locks 100 'orders:*'\n",
          out);
}

/* Options may stand behind the pattern as well. */
static int parse(int argc, char **argv, struct exporter_options *o, struct usage_error *why)
{
    int first = options_parse(rows, ROW_COUNT, argc, argv, o, why), more;

    if (first < 0 || o->access.asked != ASKED_NOTHING || first >= argc)
        return first < 0 ? -1 : 0;
    o->gather.pattern = argv[first];
    if ((more = options_parse(rows, ROW_COUNT, argc - first, argv + first, o, why)) < 0)
        return -1;
    return o->access.asked != ASKED_NOTHING || first + more >= argc
               ? 0
               : usage_fail(why, "one PATTERN is wanted, and there are two");
}

/* ---- the exporter ----------------------------------------------------------------------------------------------- */

/* Is the server's address one, whether or not there is a server? Returns EXITCODE_OK, or the exit status, and it was
 * said why. */
static int check_address(const struct exporter_options *o)
{
    rdl_client_options_t options = o->gather.client;
    rdl_client_t *client = NULL;
    rdl_err_t err = {0};
    int status;

    options.lazy = true;
    status =
        rdl_client_open(o->gather.uri, &options, &client, &err) < 0 ? access_not_opened(&o->access, &err) : EXITCODE_OK;
    rdl_client_close(client);
    return status;
}

/* Signals that end it are taken by sigwait. */
static sigset_t hold_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t ends;

    sigemptyset(&ends);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    return ends;
}

/* Serve until a signal comes. */
static int serve(int fd, struct gather *g, const sigset_t *ends)
{
    struct web *web = web_start(fd, g);
    int status = EXITCODE_TROUBLE, signo;

    if (web == NULL)
        return status;
    if (!web_print_url(stdout, fd)) {
        text_say("cannot write to the standard output: %s", strerror(errno));
    } else {
        while (sigwait(ends, &signo) != 0)
            continue;
        status = EXITCODE_OK;
    }
    web_stop(web);
    return status;
}

static int export(const struct exporter_options *o)
{
    sigset_t ends = hold_signals();
    int status = check_address(o), fd;
    struct gather *g;

    if (status != EXITCODE_OK)
        return status;
    if ((fd = web_listen(&o->listen)) < 0)
        return EXITCODE_TROUBLE;
    if ((g = gather_start(&o->gather)) == NULL) {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        return EXITCODE_TROUBLE;
    }
    status = serve(fd, g, &ends);
    if (gather_stop(g))
        return status;
    text_flush();
    _exit(status); /* a thread that a server keeps waiting uses what exit would take down */
}

static int exporter_main(int argc, char **argv)
{
    struct exporter_options o = {
        .access = ACCESS_INIT,
        .gather = {.client = RDL_CLIENT_OPTIONS_INIT,
                   .interval_ms = 10000,
                   .doctor_interval_ms = 300000,
                   .timeout_ms = 5000,
                   .max_locks = 1000},
    };
    struct usage_error why;
    int status = EXITCODE_OK;
    char *uri;

    (void)snprintf(o.listen.port, sizeof o.listen.port, "%d", WEB_PORT);
    if (parse(argc, argv, &o, &why) < 0)
        return subcommand_misused("exporter", &why);
    if (o.access.asked != ASKED_NOTHING)
        return subcommand_asked(o.access.asked, exporter_help);
    if ((uri = server_find(o.access.server, &status)) == NULL)
        return status;
    access_options(&o.access, &o.gather.client);
    o.gather.uri = uri;
    status = export(&o);
    free(uri);
    return status;
}

int main(int argc, char **argv)
{
    int status;

    subcommand_begin();
    status = exporter_main(argc, argv);
    text_flush();
    return status;
}
