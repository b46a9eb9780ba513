/* SPDX-License-Identifier: MIT */
#include "inspect/visit.h"

#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rdl__tell_of(const struct rdl__doctor *d, const char *server, rdl_severity_t severity, const char *id,
                  const char *why, const char *change, const char *what)
{
    rdl_finding_t finding = {
        .id = id, .severity = severity, .server = server, .what = what, .why = why, .change = change};

    d->fn(&finding, d->arg);
}

void rdl__tell(const struct rdl__visit *v, rdl_severity_t severity, const char *id, const char *why, const char *change,
               const char *fmt, ...)
{
    char what[512];
    va_list args;

    if (v->probe->broken)
        return;
    va_start(args, fmt);
    (void)rdl__vline(what, sizeof what, fmt, args);
    va_end(args);
    rdl__tell_of(v->doctor, v->server, severity, id, why, change, what);
}

bool rdl__visit_info(const struct rdl__visit *v, const char *key, char *to, size_t cap)
{
    const char *value;
    size_t len;

    to[0] = '\0';
    if (!rdl__reply_field(&v->info, key, ':', &value, &len))
        return false;
    (void)rdl__line(to, cap, "%.*s", (int)len, value);
    return true;
}

int64_t rdl__visit_number(const struct rdl__visit *v, const char *key, int64_t none)
{
    char text[32];
    char *end;
    long long n;

    if (!rdl__visit_info(v, key, text, sizeof text))
        return none;
    n = strtoll(text, &end, 10);
    return end != text ? n : none;
}

bool rdl__visit_config(struct rdl__visit *v, const char *name, char *to, size_t cap)
{
    const struct rdl__reply *value;

    to[0] = '\0';
    if (!v->config)
        return false;
    value = rdl__reply_at(rdl__probe_ask(v->probe, "CONFIG", "GET", name, NULL), 1);
    if (value == NULL || value->type != RDL__REPLY_STRING)
        return false;
    (void)rdl__line(to, cap, "%s", value->str);
    return true;
}

bool rdl__visit_sentinel(const struct rdl__visit *v)
{
    return rdl__visit_is(v, "redis_mode", "sentinel") || rdl__visit_is(v, "server_mode", "sentinel") ||
           rdl__visit_is(v, "redict_mode", "sentinel");
}

bool rdl__visit_cluster(const struct rdl__visit *v)
{
    return rdl__visit_number(v, "cluster_enabled", 0) == 1;
}

bool rdl__visit_replica(const struct rdl__visit *v)
{
    return rdl__visit_is(v, "role", "slave") || rdl__visit_is(v, "role", "replica");
}
