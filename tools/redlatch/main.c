/* main.c - the redlatch command: finds the subcommand, and helps.
 *
 * A subcommand is a file that ends in one const struct subcommand, a row in `table` and a section of redlatch.1. It
 * uses the public headers only, as any program could. One that has libraries which the others should not load is a
 * program of its own, whose row has a name and a summary only (apart.h). */
#include "tools/redlatch/apart.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/options.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <redlatch/version.h>
#include <stdbool.h>
#include <string.h>

static const struct subcommand subcommand_exporter = {
    .name = "exporter",
    .summary = "serve what there is to Prometheus, by HTTP",
};
static const struct subcommand subcommand_help;
static const struct subcommand subcommand_version;

static const struct subcommand *const table[] = {
    &subcommand_run, &subcommand_ls,     &subcommand_show,     &subcommand_unlock, &subcommand_wait,
    &subcommand_top, &subcommand_doctor, &subcommand_exporter, &subcommand_help,   &subcommand_version,
};

#define TABLE_COUNT (sizeof table / sizeof *table)

static const struct subcommand *find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

/* ---- help ------------------------------------------------------------------------------------------------------- */

static int unknown(const char *caller, const char *word)
{
    char shown[TEXT_SAFE_CAP];
    struct usage_error why;

    usage_fail(&why, "there is no subcommand '%s'", text_safe(word, strlen(word), shown));
    return subcommand_misused(caller, &why);
}

static void print_help(FILE *out)
{
    fputs("Distributed locks on Redis and Valkey.\n"
          "\n"
          "Usage: redlatch SUBCOMMAND ...\n"
          "\n",
          out);
    for (size_t i = 0; i < TABLE_COUNT; i++)
        fprintf(out, "  %-10s%s\n", table[i]->name, table[i]->summary);
    fputs("\n"
          "  -h, --help     show this help\n"
          "  -V, --version  show the version\n"
          "\n"
          "'redlatch SUBCOMMAND --help' says more, and so does redlatch(1).\n",
          out);
}

static void print_help_help(FILE *out)
{
    fputs("Usage: redlatch help [SUBCOMMAND]\n", out);
}

static bool wants_help(int argc, char **argv)
{
    return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

static int help_main(int argc, char **argv)
{
    const struct subcommand *about;

    if (wants_help(argc, argv))
        return subcommand_print(print_help_help);
    if (argc < 2)
        return subcommand_print(print_help);
    if ((about = find(argv[1])) == NULL)
        return unknown("help", argv[1]);
    return about->help != NULL ? subcommand_print(about->help) : apart_help(about->name);
}

static const struct subcommand subcommand_help = {
    .name = "help",
    .summary = "show this help, or that of a subcommand",
    .main = help_main,
    .help = print_help_help,
};

/* ---- version ---------------------------------------------------------------------------------------------------- */

static void print_version(FILE *out)
{
    fprintf(out, "redlatch %s\n", rdl_version());
}

static void print_version_help(FILE *out)
{
    fputs("Usage: redlatch version\n", out);
}

static int version_main(int argc, char **argv)
{
    return subcommand_print(wants_help(argc, argv) ? print_version_help : print_version);
}

static const struct subcommand subcommand_version = {
    .name = "version",
    .summary = "show the version",
    .main = version_main,
    .help = print_version_help,
};

/* ---- main -------------------------------------------------------------------------------------------------------- */

static int dispatch(int argc, char **argv)
{
    const struct subcommand *subcommand;
    struct usage_error why;

    if (argc < 2) {
        usage_fail(&why, "SUBCOMMAND is missing");
        return subcommand_misused(NULL, &why);
    }
    if (wants_help(argc, argv))
        return subcommand_print(print_help);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return subcommand_print(print_version);
    if ((subcommand = find(argv[1])) == NULL)
        return unknown(NULL, argv[1]);
    return subcommand->main != NULL ? subcommand->main(argc - 1, argv + 1) : apart_execute(subcommand->name, argv + 1);
}

int main(int argc, char **argv)
{
    int rc;

    subcommand_begin();
    rc = dispatch(argc, argv);
    text_flush();
    return rc;
}
