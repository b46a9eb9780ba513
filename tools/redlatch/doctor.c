/* doctor.c - `redlatch doctor`: is this deployment safe for locks? */
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/findings.h"
#include "tools/redlatch/options.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <redlatch/doctor.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MIN_MS 30 /* rdl_client_options_t, watchdog_lease_ms */

struct doctor_options {
    bool help, json;
    char *server; /* in argv; NULL: not given */
    const char *name;
    int64_t lease_ms;
    bool tls; /* any of the next */
    rdl_tls_options_t files;
};

/* ---- one function a row ----------------------------------------------------------------------------------------- */

static int apply_json(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct doctor_options *)to)->json = true;
    return 0;
}

static int apply_help(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct doctor_options *)to)->help = true;
    return 0;
}

static int apply_server(void *to, const char *text, struct usage_error *why)
{
    if (text[0] == '\0')
        return usage_fail(why, "the address is empty");
    ((struct doctor_options *)to)->server = (char *)text; /* argv's strings are a program's own to change */
    return 0;
}

static int apply_name(void *to, const char *text, struct usage_error *why)
{
    if (text[0] == '\0')
        return usage_fail(why, "--name: NAME is empty");
    ((struct doctor_options *)to)->name = text;
    return 0;
}

static int apply_lease(void *to, const char *text, struct usage_error *why)
{
    return option_duration("lease", text, LEASE_MIN_MS, &((struct doctor_options *)to)->lease_ms, why);
}

static int apply_cacert(void *to, const char *text, struct usage_error *why)
{
    struct doctor_options *o = to;

    (void)why;
    o->tls = true;
    o->files.ca_file = text;
    return 0;
}

static int apply_cert(void *to, const char *text, struct usage_error *why)
{
    struct doctor_options *o = to;

    (void)why;
    o->tls = true;
    o->files.cert_file = text;
    return 0;
}

static int apply_key(void *to, const char *text, struct usage_error *why)
{
    struct doctor_options *o = to;

    (void)why;
    o->tls = true;
    o->files.key_file = text;
    return 0;
}

static int apply_insecure(void *to, const char *text, struct usage_error *why)
{
    struct doctor_options *o = to;

    (void)text;
    (void)why;
    o->tls = o->files.insecure = true;
    return 0;
}

static const struct option_row rows[] = {
    {'\0', "json", NULL, "one JSON object on stdout instead of text", apply_json},
    {'\0', "name", "NAME", "of a lock that is to be allowed: the rights for its keys\nare tried as well", apply_name},
    {'\0', "lease", "TIME", "what round trips are judged by (default 30)", apply_lease},
    {'\0', "server", "URI", "the same as URI", apply_server},
    {'\0', "cacert", "FILE", "as for run, like the next", apply_cacert},
    {'\0', "cert", "FILE", "our own certificate, for a server that wants one", apply_cert},
    {'\0', "key", "FILE", "and its key, without a passphrase", apply_key},
    {'\0', "insecure", NULL, "believe any rediss:// server; for tests only", apply_insecure},
    {'h', "help", NULL, "show this help", apply_help},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

static void doctor_help(FILE *out)
{
    fputs("Look whether a server, or several, are safe for locks, and say what to change.\n"
          "\n"
          "Usage: redlatch doctor [options] [URI]\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs("\n"
          "URI is what 'redlatch run --server' takes; without it the environment's REDLATCH_SERVER counts,\n"
          "else redis://127.0.0.1:6379. Nothing is changed at the servers, and no lock is taken.\n"
          "\n"
          "Each finding says what is the case, why it matters, and the line to change. Exit status:\n"
          "    0  nothing to do: all is fine, or there are notes only\n"
          "    1  warnings: locks work, and there is an event that breaks them\n"
          "    2  critical: locks do not work, or can be taken from their holders; or no server answers\n"
          "   64  the command line or the address of the server is wrong\n"
          "   70  out of memory, or stdout cannot be written\n"
          "\n"
          "Examples:\n"
          "  redlatch doctor redis://db1\n"
          "  redlatch doctor --json cluster://db1,db2,db3 | jq '.findings[] | select(.severity == \"critical\")'\n",
          out);
}

/* ---- doctor ----------------------------------------------------------------------------------------------------- */

static int parse(int argc, char **argv, struct doctor_options *o, struct usage_error *why)
{
    int first = options_parse(rows, ROW_COUNT, argc, argv, o, why);

    if (first < 0 || o->help)
        return first < 0 ? -1 : 0;
    if (argc - first > 1 || (argc > first && o->server != NULL))
        return usage_fail(why, "one URI is looked at, and there are two");
    return argc > first ? apply_server(o, argv[first], why) : 0;
}

static int show(struct findings *f, bool json)
{
    static const int statuses[] = {EXITCODE_OK, EXITCODE_OK, EXITCODE_WARNINGS, EXITCODE_CRITICAL};
    bool shown = !f->failed;

    findings_sort(f);
    if (json)
        shown = findings_print_json(stdout, f) && shown;
    else
        findings_print(stdout, f);
    if (fflush(stdout) != 0 || ferror(stdout) || !shown) {
        text_say("cannot write to the standard output: %s", errno != 0 ? strerror(errno) : rdl_strerror(RDL_ENOMEM));
        return EXITCODE_TROUBLE;
    }
    return statuses[findings_worst(f)];
}

static int examine(const char *uri, const struct doctor_options *o)
{
    rdl_client_options_t client = RDL_CLIENT_OPTIONS_INIT;
    rdl_doctor_options_t options = RDL_DOCTOR_OPTIONS_INIT;
    struct findings findings = {.count = 0};
    rdl_err_t err;
    int rc;

    client.tls = o->tls ? &o->files : NULL;
    client.watchdog_lease_ms = o->lease_ms;
    client.sentinel_username = getenv("REDLATCH_SENTINEL_USERNAME");
    client.sentinel_password = getenv("REDLATCH_SENTINEL_PASSWORD");
    options.name = o->name;
    rc = rdl_doctor(uri, &client, &options, findings_add, &findings, &err);
    if (rc < 0) {
        text_say(rc == RDL_EINVAL ? "the address of the server, or an option for TLS, is wrong: %s" : "%s",
                 err.message);
        rc = rc == RDL_EINVAL ? EXITCODE_USAGE : EXITCODE_TROUBLE;
    } else {
        rc = show(&findings, o->json);
    }
    findings_done(&findings);
    return rc;
}

static int doctor_main(int argc, char **argv)
{
    struct doctor_options o = {.files = RDL_TLS_OPTIONS_INIT};
    struct usage_error why;
    char *uri;
    int rc;

    if (parse(argc, argv, &o, &why) < 0)
        return subcommand_misused(subcommand_doctor.name, &why);
    if (o.help)
        return subcommand_print(doctor_help);
    if ((uri = server_find(o.server, &rc)) == NULL)
        return rc;
    rc = examine(uri, &o);
    free(uri);
    return rc;
}

const struct subcommand subcommand_doctor = {
    .name = "doctor",
    .summary = "look whether servers are safe for locks",
    .main = doctor_main,
    .help = doctor_help,
};
