/* SPDX-License-Identifier: MIT */
/* main.c - the redlatch command: finds the subcommand, and helps.
 *
 * A subcommand is a file that ends in one const struct subcommand, a row in `table` and a section of redlatch.1. It
 * uses the public headers only, as any program could. One that has libraries which the others should not load is a
 * program of its own, whose row has a name and a summary only (apart.h). */
#include "tools/redlatch/apart.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/nearest.h"
#include "tools/redlatch/options.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"
#include "tools/redlatch/topics.h"

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

static const struct topic *find_topic(const char *name)
{
    for (const struct topic *topic = topics; topic->name != NULL; topic++)
        if (strcmp(topic->name, name) == 0)
            return topic;
    return NULL;
}

/* `what`: what there is none of; topics are looked for where `caller` has some. */
static int unknown(const char *caller, const char *what, const char *word)
{
    struct nearest near = {.word = NULL};
    char shown[TEXT_SAFE_CAP];
    struct usage_error why;

    for (size_t i = 0; i < TABLE_COUNT; i++)
        nearest_try(&near, word, table[i]->name);
    for (const struct topic *topic = topics; caller != NULL && topic->name != NULL; topic++)
        nearest_try(&near, word, topic->name);
    usage_fail(&why, "there is no %s '%s'%s%s%s", what, text_safe(word, strlen(word), shown),
               near.word != NULL ? ": is '" : "", near.word != NULL ? near.word : "",
               near.word != NULL ? "' meant?" : "");
    return subcommand_misused(caller, &why);
}

static int too_many(const char *caller, const char *word)
{
    char shown[TEXT_SAFE_CAP];
    struct usage_error why;

    usage_fail(&why, "'%s' is one argument too many", text_safe(word, strlen(word), shown));
    return subcommand_misused(caller, &why);
}

static void print_topics(FILE *out)
{
    for (const struct topic *topic = topics; topic->name != NULL; topic++)
        fprintf(out, "    %-13s%s\n", topic->name, topic->summary);
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
          "'redlatch SUBCOMMAND --help' says more, and so does redlatch(1). 'redlatch help TOPIC' is about:\n"
          "\n",
          out);
    print_topics(out);
}

static void print_help_help(FILE *out)
{
    fputs("Usage: redlatch help [SUBCOMMAND | TOPIC]\n"
          "\n"
          "TOPIC is one of:\n"
          "\n",
          out);
    print_topics(out);
}

static bool is_first(int argc, char **argv, const char *letter, const char *word)
{
    return argc > 1 && (strcmp(argv[1], letter) == 0 || strcmp(argv[1], word) == 0);
}

static bool wants_help(int argc, char **argv)
{
    return is_first(argc, argv, "-h", "--help");
}

static bool wants_version(int argc, char **argv)
{
    return is_first(argc, argv, "-V", "--version");
}

static int help_main(int argc, char **argv)
{
    const struct subcommand *about;
    const struct topic *topic;

    if (argc > 2)
        return too_many("help", argv[2]);
    if (wants_help(argc, argv) || wants_version(argc, argv))
        return subcommand_asked(wants_help(argc, argv) ? ASKED_HELP : ASKED_VERSION, print_help_help);
    if (argc < 2)
        return subcommand_print(print_help);
    if ((topic = find_topic(argv[1])) != NULL)
        return subcommand_print(topic->print);
    if ((about = find(argv[1])) == NULL)
        return unknown("help", "subcommand or topic", argv[1]);
    return about->help != NULL ? subcommand_print(about->help) : apart_help(about->name);
}

static const struct subcommand subcommand_help = {
    .name = "help",
    .summary = "show this help, or that of a subcommand",
    .main = help_main,
    .help = print_help_help,
};

/* ---- version ---------------------------------------------------------------------------------------------------- */

static void print_version_help(FILE *out)
{
    fputs("Usage: redlatch version\n", out);
}

static int version_main(int argc, char **argv)
{
    bool asked = wants_help(argc, argv) || wants_version(argc, argv);

    if (argc > 1 + asked)
        return too_many("version", argv[1 + asked]);
    return subcommand_asked(wants_help(argc, argv) ? ASKED_HELP : ASKED_VERSION, print_version_help);
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
        return help_main(argc - 1, argv + 1);
    if (wants_version(argc, argv))
        return version_main(argc - 1, argv + 1);
    if ((subcommand = find(argv[1])) == NULL)
        return unknown(NULL, "subcommand", argv[1]);
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
