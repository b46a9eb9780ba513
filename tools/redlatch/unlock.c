/* unlock.c - `redlatch unlock`: shows who holds a lock, asks, and evicts exactly those.
 *
 * Between the look and the answer on the terminal minutes may pass, in which the lock may change hands. So what is
 * evicted is named by what was shown, a hold's field; whoever came since is another.
 */
#include "tools/redlatch/access.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/shown.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <redlatch/inspect.h>
#include <redlatch/lock.h>
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

/* ---- the eviction ----------------------------------------------------------------------------------------------- */

static int open_lock(rdl_client_t *client, const rdl_inspection_t *seen, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    static const struct {
        const char *type;
        int (*make)(rdl_client_t *client, const char *name, const rdl_lock_options_t *options, rdl_lock_t **ret_lock,
                    rdl_err_t *err);
    } types[] = {
        {"lock", rdl_reentrant_lock}, {"fenced", rdl_fenced_lock},    {"fair", rdl_fair_lock},
        {"simple", rdl_simple_lock},  {"read-write", rdl_write_lock},
    };
    char shown[TEXT_SAFE_CAP];

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(seen->type, types[i].type) == 0)
            return types[i].make(client, seen->name, NULL, ret_lock, err);
    err->code = RDL_EINVAL;
    (void)snprintf(err->message, sizeof err->message, "'%s' is a %s: it has no holders to evict",
                   text_safe(seen->name, seen->name_len, shown), seen->type);
    return RDL_EINVAL;
}

/* One end's holders. Returns an exit status; what one said stays, unless the next is worse off. */
static int evict_end(rdl_lock_t *lock, const struct unlock_options *o, const rdl_inspection_t *seen, bool writers,
                     int status)
{
    rdl_err_t err = {0};

    for (size_t i = 0; i < seen->holder_count; i++) {
        const rdl_holder_t *h = &seen->holder[i];
        int rc;

        if (!is_meant(o, h) || (h->end == RDL_END_WRITE) != writers)
            continue;
        if ((rc = rdl_evict(lock, h->owner, &err)) < 0)
            return access_failed(&err);
        if (rc == 1) {
            printf("evicted %s\n", h->owner);
            continue;
        }
        text_say("%s no longer holds it: nothing was done to whoever does", h->owner);
        status = EXITCODE_CHANGED;
    }
    return status;
}

/* Readers first: what a writer reads goes with it. */
static int evict(rdl_lock_t *lock, const struct unlock_options *o, const rdl_inspection_t *seen)
{
    int status = evict_end(lock, o, seen, false, EXITCODE_OK);

    if (status == EXITCODE_OK || status == EXITCODE_CHANGED)
        status = evict_end(lock, o, seen, true, status);
    return status;
}

/* ---- unlock ------------------------------------------------------------------------------------------------------ */

static int flushed(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    text_say("cannot write to the standard output: %s", strerror(errno));
    return EXITCODE_TROUBLE;
}

/* Whose eviction was not asked for, or has not been agreed to: the exit status. EXITCODE_OK: go on. */
static int settle(const struct unlock_options *o, const rdl_inspection_t *seen, FILE *terminal)
{
    char shown[TEXT_SAFE_CAP];
    size_t meant;

    if (seen->holder_count == 0) {
        text_say("nobody holds '%s'", text_safe(o->access.name, strlen(o->access.name), shown));
        return EXITCODE_CONFLICT;
    }
    shown_all(stdout, seen);
    if ((meant = count_meant(o, seen)) == 0) {
        text_say("%s does not hold it", text_safe(o->owner, strlen(o->owner), shown));
        return EXITCODE_CHANGED;
    }
    if (flushed(EXITCODE_OK) != EXITCODE_OK)
        return EXITCODE_TROUBLE;
    return o->yes ? EXITCODE_OK : ask(o, terminal, meant);
}

static int unlock_at(rdl_client_t *client, const struct unlock_options *o, FILE *terminal)
{
    rdl_inspection_t *seen = NULL;
    rdl_lock_t *lock = NULL;
    rdl_err_t err = {0};
    int status;

    if (rdl_inspect(client, o->access.name, 0, &seen, &err) < 0)
        return access_failed(&err);
    if (strcmp(seen->type, "none") != 0 && open_lock(client, seen, &lock, &err) < 0)
        status = access_failed(&err);
    else if ((status = settle(o, seen, terminal)) == EXITCODE_OK)
        status = flushed(evict(lock, o, seen));
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

    if (access_parse(rows, ROW_COUNT, argc, argv, &o.access, &why) < 0)
        return subcommand_misused(subcommand_unlock.name, &why);
    if (o.access.help)
        return subcommand_print(unlock_help);
    if (!o.yes && (terminal = open_terminal()) == NULL) {
        (void)usage_fail(&why, "there is no terminal to ask on: --yes says that it is meant");
        return subcommand_misused(subcommand_unlock.name, &why);
    }
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
