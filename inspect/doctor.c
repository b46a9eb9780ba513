/* SPDX-License-Identifier: MIT */
/* doctor.c - which servers the doctor visits, and what is looked at there.
 *
 * The URI says which: one server; the master that its sentinels name, and these; all masters of a cluster. A server
 * that answers is visited: its INFO is copied, and the checks look at that and ask for more. A new check is a function
 * of a visit (visit.h) and a line in `checks`.
 */
#include "core/base/err.h"
#include "inspect/visit.h"

#include <string.h>

/* ---- a visit ---------------------------------------------------------------------------------------------------- */

static void (*const checks[])(struct rdl__visit *v) = {
    rdl__doctor_check_memory,
    rdl__doctor_check_persistence,
    rdl__doctor_check_replicas,
    rdl__doctor_check_failover,
    rdl__doctor_check_scripts,
    rdl__doctor_check_messages,
    rdl__doctor_check_round_trip,
    rdl__doctor_check_rights,
    rdl__doctor_check_remains,
    /* The last: time has passed since the first look at them. */
    rdl__doctor_check_clocks,
};

/* What the reasons of an error say behind the server. */
static const char *reason(const rdl_err_t *err)
{
    size_t len = strlen(err->server);

    if (len > 0 && strncmp(err->message, err->server, len) == 0 && strncmp(err->message + len, ": ", 2) == 0)
        return err->message + len + 2;
    return err->message;
}

void rdl__doctor_unreachable(const struct rdl__doctor *d, const rdl_err_t *err, rdl_severity_t severity)
{
    bool login = err->code == RDL_EAUTH;

    rdl__tell_of(d, err->server, severity, login ? "login" : "unreachable",
                 "Without it no lock is taken, renewed or given back here.",
                 login ? "redis://USER:PASSWORD@HOST:PORT in REDLATCH_SERVER, or the user's password at the server"
                       : "",
                 reason(err));
}

static void read_info(struct rdl__visit *v)
{
    const struct rdl__mem *mem = v->probe->node.mem;
    const struct rdl__reply *info = rdl__probe_ask(v->probe, "INFO", NULL);
    bool told = info->type == RDL__REPLY_STRING;
    char *copy = rdl__memdup(mem, told ? info->str : "", told ? info->len : 0);

    v->busy = rdl__reply_is_error(info, "BUSY");
    v->info = (struct rdl__reply){.type = RDL__REPLY_STRING, .str = copy, .len = copy != NULL && told ? info->len : 0};
}

static void read_user(struct rdl__visit *v)
{
    const struct rdl__reply *me = rdl__probe_ask(v->probe, "ACL", "WHOAMI", NULL);
    const char *told = v->doctor->reach.uri.username;

    if (me->type == RDL__REPLY_STRING)
        told = me->str;
    (void)rdl__line(v->user, sizeof v->user, "%s", told != NULL ? told : "default");
}

/* All checks, of a server that answers. */
static void check(struct rdl__visit *v)
{
    rdl__clocks_begin(v);
    read_user(v);
    v->config = rdl__reply_at(rdl__probe_ask(v->probe, "CONFIG", "GET", "maxmemory", NULL), 1) != NULL;
    rdl__doctor_check_kind(v);
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !rdl__visit_sentinel(v) && !v->probe->broken; i++)
        checks[i](v);
    if (!v->config && !rdl__visit_sentinel(v)) {
        char change[256];

        (void)rdl__line(change, sizeof change, "ACL SETUSER %s +config|get", v->user);
        rdl__tell(v, RDL_SEVERITY_NOTE, "config", "Settings that INFO does not show were not looked at.", change,
                  "CONFIG GET is refused");
    }
}

void rdl__doctor_visit(struct rdl__doctor *d, const char *host, int port)
{
    struct rdl__visit v = {.doctor = d, .port = port};
    rdl_err_t err = {0};

    (void)rdl__line(v.host, sizeof v.host, "%s", host);
    if (rdl__probe_open(&d->reach, host, port, false, &v.probe, &err) < 0) {
        rdl__doctor_unreachable(d, &err, RDL_SEVERITY_CRITICAL);
        return;
    }
    v.server = v.probe->node.label;
    read_info(&v);
    if (v.busy)
        rdl__tell(&v, RDL_SEVERITY_CRITICAL, "scripts",
                  "The server answers nobody else until it ends; leases end meanwhile.", "SCRIPT KILL",
                  "a script has been running for too long");
    else if (v.info.str != NULL)
        check(&v);
    if (v.probe->broken)
        rdl__doctor_unreachable(d, &v.probe->why, RDL_SEVERITY_CRITICAL);
    if (v.info.str != NULL)
        rdl__free(&d->reach.mem, (char *)v.info.str, v.info.len + 1);
    (void)rdl__probe_close(v.probe);
}

/* ---- doctor.h --------------------------------------------------------------------------------------------------- */

const char *rdl_severity_name(rdl_severity_t severity)
{
    static const char *const names[] = {"ok", "note", "warning", "critical"};

    return severity >= RDL_SEVERITY_OK && severity <= RDL_SEVERITY_CRITICAL ? names[severity] : NULL;
}

/* What is told, on its way to the caller. */
struct hearing {
    rdl_finding_fn fn;
    void *arg;
    rdl_severity_t worst;
};

static void hear(const rdl_finding_t *finding, void *arg)
{
    struct hearing *heard = arg;

    if (finding->severity > heard->worst)
        heard->worst = finding->severity;
    heard->fn(finding, heard->arg);
}

int rdl_doctor(const char *uri, const rdl_client_options_t *client, const rdl_doctor_options_t *options,
               rdl_finding_fn fn, void *arg, rdl_err_t *err)
{
    struct hearing heard = {.fn = fn, .arg = arg};
    rdl_doctor_options_t none = RDL_DOCTOR_OPTIONS_INIT;
    struct rdl__doctor d = {.fn = hear, .arg = &heard};
    char label[128];
    int rc;

    if (uri == NULL || fn == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", uri == NULL ? "uri" : "fn");
    options = options != NULL ? options : &none;
    if (options->version != RDL_DOCTOR_OPTIONS_VERSION)
        return rdl__err_set(err, RDL_EINVAL,
                            "doctor options have version %u: initialise them with RDL_DOCTOR_OPTIONS_INIT",
                            (unsigned)options->version);
    d.name = options->name;
    d.names = options->names;
    d.name_count = options->name_count;
    if ((rc = rdl__reach_init(&d.reach, uri, client, err)) == RDL_OK) {
        if (d.reach.uri.scheme == RDL__SCHEME_SENTINEL)
            rdl__doctor_sentinels(&d);
        else if (d.reach.uri.scheme == RDL__SCHEME_CLUSTER)
            rdl__doctor_cluster(&d);
        else
            rdl__doctor_visit(&d, d.reach.uri.host, d.reach.uri.port);
        rdl__uri_node(&d.reach.uri, label, sizeof label);
        rdl__doctor_names(&d, label);
        if (heard.worst < RDL_SEVERITY_CRITICAL)
            rdl__doctor_leftovers(&d, uri, label);
    }
    rdl__reach_done(&d.reach);
    return rc;
}
