/* SPDX-License-Identifier: MIT */
#include "tools/exporter/exposition.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

void exposition_head(FILE *out, const char *metric, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", metric, help, metric);
}

void exposition_seconds(FILE *out, int64_t ms)
{
    fprintf(out, "%" PRId64 ".%03d", ms / 1000, (int)(ms % 1000));
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

/* How many bytes the character has that `at` begins with; 0: it is none that may be in a label as it is. A backslash is
 * none, so that no two names have one label. The ranges are those of RFC 3629, section 4. */
static size_t character(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char first, last, low, high; /* of the first byte, of the second */
        size_t len;
    } forms[] = {
        {0x20, 0x5b, 0, 0, 1},       {0x5d, 0x7e, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (at[0] < forms[i].first || at[0] > forms[i].last)
            continue;
        if (forms[i].len == 1)
            return 1;
        if (left < forms[i].len || at[1] < forms[i].low || at[1] > forms[i].high)
            return 0;
        for (size_t k = 2; k < forms[i].len; k++)
            if (at[k] < 0x80 || at[k] > 0xbf)
                return 0;
        return forms[i].len;
    }
    return 0;
}

void exposition_label(FILE *out, const char *bytes, size_t len)
{
    const unsigned char *at = (const unsigned char *)bytes;

    while (len > 0) {
        size_t whole = character(at, len), step = whole > 0 ? whole : 1;

        if (whole == 0)
            fprintf(out, "\\\\x%02x", (unsigned)at[0]);
        else if (at[0] == '"')
            fputs("\\\"", out);
        else
            (void)fwrite(at, 1, whole, out);
        at += step;
        len -= step;
    }
}

/* ---- findings --------------------------------------------------------------------------------------------------- */

static bool alike(const rdl_finding_t *a, const rdl_finding_t *b)
{
    return a->severity == b->severity && strcmp(a->id, b->id) == 0 && strcmp(a->server, b->server) == 0;
}

/* A sample for all findings that have the labels of the i-th, where the first of them stands. */
static void print_finding(FILE *out, const struct findings *f, size_t i)
{
    const rdl_finding_t *one = &f->all[i];
    int count = 0;

    for (size_t k = 0; k < f->count; k++) {
        if (k < i && alike(&f->all[k], one))
            return;
        count += alike(&f->all[k], one);
    }
    fprintf(out, "redlatch_doctor_finding{id=\"%s\",severity=\"%s\",server=\"", one->id,
            rdl_severity_name(one->severity));
    exposition_label(out, one->server, strlen(one->server));
    fprintf(out, "\"} %d\n", count);
}

void exposition_findings(FILE *out, const struct findings *f)
{
    int64_t counts[RDL_SEVERITY_CRITICAL + 1] = {0};

    for (size_t i = 0; i < f->count; i++)
        counts[f->all[i].severity]++;
    exposition_head(out, "redlatch_doctor_findings", "What redlatch doctor finds, by severity.");
    for (int i = RDL_SEVERITY_OK; i <= RDL_SEVERITY_CRITICAL; i++)
        fprintf(out, "redlatch_doctor_findings{severity=\"%s\"} %" PRId64 "\n", rdl_severity_name((rdl_severity_t)i),
                counts[i]);
    exposition_head(out, "redlatch_doctor_finding", "How many findings of redlatch doctor have these labels.");
    for (size_t i = 0; i < f->count; i++)
        print_finding(out, f, i);
}
