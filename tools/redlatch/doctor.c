/* SPDX-License-Identifier: MIT */
/* doctor.c - `redlatch doctor`: is this deployment safe for locks? */
#include "tools/redlatch/access.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/findings.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/shown.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <redlatch/doctor.h>
#include <stdlib.h>

#define LEASE_MIN_MS 30 /* rdl_client_options_t, watchdog_lease_ms */
#define NAMES_MOST 256  /* as many as a multi-lock has members */

struct doctor_options {
    struct access access; /* first */
    const char *names[NAMES_MOST];
    size_t name_count;
    int64_t lease_ms;
};

/* ---- one function a row ----------------------------------------------------------------------------------------- */

static int apply_name(void *to, const char *text, struct usage_error *why)
{
    struct doctor_options *o = to;

    if (text[0] == '\0')
        return usage_fail(why, "--name: NAME is empty");
    if (o->name_count == NAMES_MOST)
        return usage_fail(why, "--name: at most %d can be given", NAMES_MOST);
    o->names[o->name_count++] = text;
    return 0;
}

static int apply_lease(void *to, const char *text, struct usage_error *why)
{
    return option_duration("lease", text, LEASE_MIN_MS, &((struct doctor_options *)to)->lease_ms, why);
}

static const struct option_row rows[] = {
    ACCESS_JSON("one JSON object on stdout instead of text"),
    {'\0', "name", "NAME",
     "of a lock that is to be allowed: the rights for its keys\nare tried as well; of several that are taken "
     "together,\nwhether a cluster has them in one slot",
     apply_name},
    {'\0', "lease", "TIME", "what round trips are judged by (default 30)", apply_lease},
    ACCESS_ROWS,
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
    struct access *a = &o->access;

    if (access_parse(rows, ROW_COUNT, argc, argv, "[URI]", a, why) < 0)
        return -1;
    if (a->word != NULL && a->server != NULL && a->asked == ASKED_NOTHING)
        return usage_fail(why, "one URI is wanted, and there are two");
    a->server = a->word != NULL ? a->word : a->server;
    return 0;
}

static int show(struct findings *f, bool json)
{
    static const int statuses[] = {EXITCODE_OK, EXITCODE_OK, EXITCODE_WARNINGS, EXITCODE_CRITICAL};
    bool shown = !f->failed;

    findings_sort(f);
    if (json)
        shown = findings_print_json(stdout, f) && shown;
    else
        findings_print(stdout, f, shown_width());
    if (!shown) {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        return EXITCODE_TROUBLE;
    }
    return subcommand_written(statuses[findings_worst(f)]);
}

static int examine(const char *uri, rdl_client_options_t *client, const struct doctor_options *o)
{
    rdl_doctor_options_t options = RDL_DOCTOR_OPTIONS_INIT;
    struct findings findings = {.count = 0};
    rdl_err_t err;
    int rc;

    client->watchdog_lease_ms = o->lease_ms;
    options.name = o->name_count > 0 ? o->names[0] : NULL;
    options.names = o->names;
    options.name_count = o->name_count;
    rc = rdl_doctor(uri, client, &options, findings_add, &findings, &err);
    if (rc < 0) {
        rc = access_not_opened(&o->access, &err);
    } else {
        rc = show(&findings, o->access.json);
    }
    findings_done(&findings);
    return rc;
}

static int doctor_main(int argc, char **argv)
{
    rdl_client_options_t client = RDL_CLIENT_OPTIONS_INIT;
    struct doctor_options o = {.access = ACCESS_INIT};
    struct usage_error why;
    char *uri;
    int rc;

    if (parse(argc, argv, &o, &why) < 0)
        return subcommand_misused(subcommand_doctor.name, &why);
    if (o.access.asked != ASKED_NOTHING)
        return subcommand_asked(o.access.asked, doctor_help);
    if ((uri = server_find(o.access.server, &rc)) == NULL)
        return rc;
    access_options(&o.access, &client);
    rc = examine(uri, &client, &o);
    free(uri);
    return rc;
}

const struct subcommand subcommand_doctor = {
    .name = "doctor",
    .summary = "look whether servers are safe for locks",
    .main = doctor_main,
    .help = doctor_help,
};
