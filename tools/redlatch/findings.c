/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/findings.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100 /* at most; less on a terminal that is narrower */
#define INDENT 10
#define NARROW 40 /* what is narrower is indented less */
#define NARROW_INDENT 2

/* ---- kept ------------------------------------------------------------------------------------------------------- */

static void drop(const rdl_finding_t *finding)
{
    free((char *)finding->id);
    free((char *)finding->server);
    free((char *)finding->what);
    free((char *)finding->why);
    free((char *)finding->change);
}

static bool grow(struct findings *f)
{
    size_t room = f->room > 0 ? 2 * f->room : 32;
    rdl_finding_t *all = f->count < f->room ? f->all : reallocarray(f->all, room, sizeof *all);

    if (all == NULL)
        return false;
    if (all != f->all)
        f->room = room;
    f->all = all;
    return true;
}

void findings_add(const rdl_finding_t *finding, void *findings)
{
    struct findings *f = findings;
    rdl_finding_t kept = {.id = strdup(finding->id),
                          .severity = finding->severity,
                          .server = strdup(finding->server),
                          .what = strdup(finding->what),
                          .why = strdup(finding->why),
                          .change = strdup(finding->change)};

    if (kept.id != NULL && kept.server != NULL && kept.what != NULL && kept.why != NULL && kept.change != NULL &&
        grow(f)) {
        f->all[f->count++] = kept;
    } else {
        drop(&kept);
        f->failed = true;
    }
}

void findings_done(struct findings *f)
{
    for (size_t i = 0; i < f->count; i++)
        drop(&f->all[i]);
    free(f->all);
}

void findings_sort(struct findings *f)
{
    for (size_t i = 1; i < f->count; i++) {
        rdl_finding_t one = f->all[i];
        size_t k = i;

        for (; k > 0 && f->all[k - 1].severity < one.severity; k--)
            f->all[k] = f->all[k - 1];
        f->all[k] = one;
    }
}

rdl_severity_t findings_worst(const struct findings *f)
{
    rdl_severity_t worst = RDL_SEVERITY_OK;

    for (size_t i = 0; i < f->count; i++)
        if (f->all[i].severity > worst)
            worst = f->all[i].severity;
    return worst;
}

/* ---- shown ------------------------------------------------------------------------------------------------------ */

struct sheet {
    FILE *out;
    int width, indent;
};

/* Wrap a text behind `at` columns that are written already; what terminals obey is left out. */
static void print_wrapped(const struct sheet *s, const char *text, int at)
{
    while (*text != '\0') {
        int word = (int)strcspn(text, " ");

        if (at > s->indent && at + 1 + word > s->width)
            at = fprintf(s->out, "\n%*s", s->indent, "") - 1;
        else if (at > s->indent)
            at += fprintf(s->out, " ");
        for (const char *p = text; p < text + word; p++)
            fputc((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p, s->out);
        at += word;
        text += word + (text[word] == ' ');
    }
    fputc('\n', s->out);
}

static void print_change(const struct sheet *s, const char *lines)
{
    while (*lines != '\0') {
        int len = (int)strcspn(lines, "\n");

        fprintf(s->out, "%*s  %.*s\n", s->indent, "", len, lines);
        lines += len + (lines[len] == '\n');
    }
}

void findings_print(FILE *out, const struct findings *f, int width)
{
    struct sheet s = {.out = out,
                      .width = width > 0 && width < WIDTH ? width : WIDTH,
                      .indent = width > 0 && width < NARROW ? NARROW_INDENT : INDENT};

    for (size_t i = 0; i < f->count; i++) {
        const rdl_finding_t *one = &f->all[i];
        char head[320];
        int at = fprintf(out, "%-*s", INDENT, rdl_severity_name(one->severity));

        (void)snprintf(head, sizeof head, "%s at %s:", one->id, one->server);
        at += fprintf(out, "%s", head);
        print_wrapped(&s, one->what, at);
        if (one->why[0] != '\0') {
            fprintf(out, "%*s", s.indent, "");
            print_wrapped(&s, one->why, s.indent);
        }
        print_change(&s, one->change);
    }
}

bool findings_print_json(FILE *out, const struct findings *f)
{
    json_t *all = json_array();
    json_t *root = json_pack("{s:s, s:o}", "worst", rdl_severity_name(findings_worst(f)), "findings", all);
    bool done = root != NULL;

    for (size_t i = 0; i < f->count && done; i++) {
        const rdl_finding_t *one = &f->all[i];

        done = json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "id", one->id, "severity",
                                                    rdl_severity_name(one->severity), "server", one->server, "what",
                                                    one->what, "why", one->why, "change", one->change)) == 0;
    }
    if (done)
        done = json_dumpf(root, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;
    json_decref(root);
    return done;
}
