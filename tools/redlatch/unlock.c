/* SPDX-License-Identifier: MIT */
/* unlock.c - `redlatch unlock`: shows who holds a lock, asks, and evicts exactly those.
 *
 * Between the look and the answer on the terminal minutes may pass, in which the lock may change hands. So what is
 * evicted is named by what was shown, a hold's field; whoever came since is another.
 */
#include "tools/redlatch/access.h"
#include "tools/redlatch/evict.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/shown.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <redlatch/inspect.h>
#include <redlatch/lock.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct unlock_options {
    struct access access; /* first */
    const char *owner;    /* NULL: all who hold it */
    bool yes;
};

static int apply_owner(void *to, const char *text, struct usage_error *why)
{
    if (text[0] == '\0')
        return usage_fail(why, "--owner: OWNER is empty");
    ((struct unlock_options *)to)->owner = text;
    return 0;
}

static int apply_yes(void *to, const char *text, struct usage_error *why)
{
    (void)text;
    (void)why;
    ((struct unlock_options *)to)->yes = true;
    return 0;
}

static const struct option_row rows[] = {
    {'\0', "owner", "OWNER", "this holder alone, as it is shown", apply_owner},
    {'y', "yes", NULL, "do not ask", apply_yes},
    ACCESS_JSON("what became of them as a JSON object on stdout"),
    ACCESS_ROWS,
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

static void unlock_help(FILE *out)
{
    fputs("Show who holds the lock NAME, ask, and take it from them.\n"
          "\n"
          "Usage: redlatch unlock [options] NAME\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs("\n"
          "The holders that were shown are evicted and nobody else: not one who has taken the lock since.\n"
          "Whoever waits gets it at once. An evicted program of this library is told that its lock is\n"
          "lost, and a command of 'redlatch run' is ended; what it has begun may go on for a moment.\n"
          "The question is asked on the terminal; without one, --yes is wanted.\n"
          "\n"
          "Exit status:\n"
          "    0  they are evicted\n"
          "    1  nothing was done: nobody holds it, or the answer was no\n"
          "    3  a holder that was shown, or OWNER, no longer holds it: nothing was done to whoever does\n"
          "   64  the command line is wrong, or NAME is no lock\n"
          "   69  no server, or no answer from it\n"
          "   70  the server refused\n",
          out);
}

/* ---- the question ----------------------------------------------------------------------------------------------- */

static FILE *open_terminal(void)
{
    FILE *terminal = fopen("/dev/tty", "r+e");

    if (terminal == NULL && isatty(STDIN_FILENO) == 1)
        terminal = fdopen(dup(STDIN_FILENO), "r+");
    return terminal;
}

/* Returns EXITCODE_OK: yes. */
static int ask(const struct unlock_options *o, FILE *terminal, size_t meant)
{
    char answer[16] = "";

    fprintf(terminal, "Evict %s? [y/N] ", o->owner != NULL ? o->owner : meant == 1 ? "this holder" : "all of these");
    fflush(terminal);
    if (fgets(answer, sizeof answer, terminal) != NULL &&
        (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0))
        return EXITCODE_OK;
    text_say("nothing was done");
    return EXITCODE_CONFLICT;
}

/* Is the holder one of those that are meant? */
static bool is_meant(const struct unlock_options *o, const rdl_holder_t *h)
{
    return o->owner == NULL || strcmp(o->owner, h->owner) == 0;
}

static size_t count_meant(const struct unlock_options *o, const rdl_inspection_t *seen)
{
    size_t meant = 0;

    for (size_t i = 0; i < seen->holder_count; i++)
        meant += is_meant(o, &seen->holder[i]);
    return meant;
}

/* ---- what became of them ----------------------------------------------------------------------------------------- */

struct outcome {
    bool json;
    json_t *evicted, *gone; /* NULL where it is not asked for, or there is no memory */
};

static void tell(const rdl_holder_t *h, bool evicted, void *arg)
{
    struct outcome *outcome = arg;

    if (outcome->json)
        (void)json_array_append_new(evicted ? outcome->evicted : outcome->gone, json_string(h->owner));
    else if (evicted)
        printf("evicted %s\n", h->owner);
    else
        text_say("%s no longer holds it: nothing was done to whoever does", h->owner);
}

/* Returns `status`, or that it could not be written. */
static int print(const rdl_inspection_t *seen, const struct outcome *outcome, int status)
{
    char *hex = NULL;
    json_t *name = NULL, *root = NULL;

    if (outcome->json) {
        name = shown_name_json(seen->name, seen->name_len, &hex);
        root = json_pack("{s:o, s:o, s:O, s:O}", "name", name, "name_hex", hex != NULL ? json_string(hex) : json_null(),
                         "evicted", outcome->evicted, "gone", outcome->gone);
        free(hex);
        if (root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) < 0)
            text_say("%s", rdl_strerror(RDL_ENOMEM));
        putchar('\n');
        json_decref(root);
    }
    return subcommand_written(status);
}

/* ---- unlock ------------------------------------------------------------------------------------------------------ */

/* Whose eviction was not asked for, or has not been agreed to: the exit status. EXITCODE_OK: go on. */
static int settle(const struct unlock_options *o, const rdl_inspection_t *seen, FILE *terminal)
{
    char shown[TEXT_SAFE_CAP];
    size_t meant;
    int status;

    if (seen->holder_count == 0) {
        text_say("nobody holds '%s'", text_safe(o->access.word, strlen(o->access.word), shown));
        return EXITCODE_CONFLICT;
    }
    if (!o->access.json || terminal != NULL)
        shown_all(o->access.json ? terminal : stdout, seen);
    if ((meant = count_meant(o, seen)) == 0) {
        text_say("%s does not hold it", text_safe(o->owner, strlen(o->owner), shown));
        return EXITCODE_CHANGED;
    }
    if ((status = subcommand_written(EXITCODE_OK)) != EXITCODE_OK)
        return status;
    return o->yes ? EXITCODE_OK : ask(o, terminal, meant);
}

static int evict_them(rdl_lock_t *lock, const struct unlock_options *o, const rdl_inspection_t *seen,
                      struct outcome *outcome)
{
    rdl_err_t err = {0};
    int gone = evict(lock, seen, o->owner, tell, outcome, &err);

    return gone < 0 ? access_failed(&err) : gone > 0 ? EXITCODE_CHANGED : EXITCODE_OK;
}

static int unlock_at(rdl_client_t *client, const struct unlock_options *o, FILE *terminal)
{
    struct outcome outcome = {.json = o->access.json};
    rdl_inspection_t *seen = NULL;
    rdl_lock_t *lock = NULL;
    rdl_err_t err = {0};
    int status;

    if (rdl_inspect(client, o->access.word, 0, &seen, &err) < 0)
        return access_failed(&err);
    if (strcmp(seen->type, "none") != 0 && evict_open(client, seen, &lock, &err) < 0) {
        status = access_failed(&err);
    } else {
        outcome.evicted = outcome.json ? json_array() : NULL;
        outcome.gone = outcome.json ? json_array() : NULL;
        if ((status = settle(o, seen, terminal)) == EXITCODE_OK)
            status = evict_them(lock, o, seen, &outcome);
        status = print(seen, &outcome, status);
        json_decref(outcome.evicted);
        json_decref(outcome.gone);
    }
    rdl_lock_free(lock);
    rdl_inspection_free(seen);
    return status;
}

static int unlock_main(int argc, char **argv)
{
    struct unlock_options o = {.access = ACCESS_INIT};
    struct usage_error why;
    rdl_client_t *client = NULL;
    FILE *terminal = NULL;
    int status;

    if (access_parse(rows, ROW_COUNT, argc, argv, "NAME", &o.access, &why) < 0)
        return subcommand_misused(subcommand_unlock.name, &why);
    if (o.access.asked != ASKED_NOTHING)
        return subcommand_asked(o.access.asked, unlock_help);
    if (!o.yes && (terminal = open_terminal()) == NULL) {
        (void)usage_fail(&why, "there is no terminal to ask on: --yes says that it is meant");
        return subcommand_misused(subcommand_unlock.name, &why);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* it is not in the middle of several holders that it ends */
    if ((status = access_open(&o.access, &client)) == EXITCODE_OK)
        status = unlock_at(client, &o, terminal);
    rdl_client_close(client);
    if (terminal != NULL)
        fclose(terminal);
    return status;
}

const struct subcommand subcommand_unlock = {
    .name = "unlock",
    .summary = "take a lock from whoever holds it",
    .main = unlock_main,
    .help = unlock_help,
};
