#include "tools/redlatch/findings.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100
#define INDENT 10

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

/* Wrap a text behind `at` columns that are written already; what terminals obey is left out. */
static void print_wrapped(FILE *out, const char *text, int at)
{
    while (*text != '\0') {
        int word = (int)strcspn(text, " ");

        if (at > INDENT && at + 1 + word > WIDTH)
            at = fprintf(out, "\n%*s", INDENT, "") - 1;
        else if (at > INDENT)
            at += fprintf(out, " ");
        for (const char *p = text; p < text + word; p++)
            fputc((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p, out);
        at += word;
        text += word + (text[word] == ' ');
    }
    fputc('\n', out);
}

static void print_change(FILE *out, const char *lines)
{
    while (*lines != '\0') {
        int len = (int)strcspn(lines, "\n");

        fprintf(out, "%*s  %.*s\n", INDENT, "", len, lines);
        lines += len + (lines[len] == '\n');
    }
}

void findings_print(FILE *out, const struct findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const rdl_finding_t *one = &f->all[i];
        char head[320];

        fprintf(out, "%-*s", INDENT, rdl_severity_name(one->severity));
        (void)snprintf(head, sizeof head, "%s at %s:", one->id, one->server);
        fprintf(out, "%s", head);
        print_wrapped(out, one->what, INDENT + (int)strlen(head));
        if (one->why[0] != '\0') {
            fprintf(out, "%*s", INDENT, "");
            print_wrapped(out, one->why, INDENT);
        }
        print_change(out, one->change);
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
