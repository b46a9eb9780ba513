/* SPDX-License-Identifier: MIT */
/* ls.c - `redlatch ls` and `redlatch show`: which locks there are, and everything about one. */
#include "tools/redlatch/access.h"
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/shown.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <redlatch/redlatch.h>
#include <time.h>
#include <unistd.h>

#define QUIET_MS 500 /* a list that takes no longer shows no progress */
#define EVERY_MS 200

static const struct option_row rows[] = {
    ACCESS_JSON("JSON instead of text; redlatch(1) has the fields"),
    ACCESS_ROWS,
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

_Static_assert(ROW_COUNT <= OPTIONS_MAX, "getopt_long's tables are too small");

static const char statuses[] = "\n"
                               "Exit status:\n"
                               "    0  done\n"
                               "   64  the command line or the address of the server is wrong, or NAME is no lock\n"
                               "   69  no server, or no answer from it\n"
                               "   70  the server refused, or stdout cannot be written\n"
                               "\n"
                               "Examples:\n";

static void ls_help(FILE *out)
{
    fputs("List the locks, semaphores and latches that there are, Redisson's too.\n"
          "\n"
          "Usage: redlatch ls [options] [PATTERN]\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs("\n"
          "PATTERN is what names have to match: * is anything, ? one byte, [a-z] one of those. All of a\n"
          "server's keys are gone through, in small steps that hold up nobody. WAIT is how many wait.\n",
          out);
    fputs(statuses, out);
    fputs("  redlatch ls\n"
          "  redlatch ls --json 'orders:*' | jq -r 'select(.waiters > 0) | .name'\n",
          out);
}

static void show_help(FILE *out)
{
    fputs("Show everything about the lock, semaphore or latch NAME: who holds it, who waits.\n"
          "\n"
          "Usage: redlatch show [options] NAME\n"
          "\n",
          out);
    options_print(out, rows, ROW_COUNT);
    fputs(statuses, out);
    fputs("  redlatch show nightly\n"
          "  redlatch show --json nightly | jq '.holder_list[].by.host'\n",
          out);
}

/* ---- ls --------------------------------------------------------------------------------------------------------- */

struct listing {
    const struct access *a;
    int width;
    bool headed, no_memory, progress_shown;
    int64_t began_ms, told_ms; /* progress, by a clock that only goes on */
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void clear_progress(struct listing *l)
{
    if (l->progress_shown)
        (void)fputs("\r\033[K", stderr);
    l->progress_shown = false;
}

static void show_progress(struct listing *l, const rdl_list_progress_t *progress)
{
    int64_t now = now_ms();

    if (!isatty(STDERR_FILENO) || now - l->began_ms < QUIET_MS || now - l->told_ms < EVERY_MS)
        return;
    l->told_ms = now;
    l->progress_shown = true;
    (void)fprintf(stderr, "\r%lld of %lld keys", (long long)progress->keys, (long long)progress->keys_total);
    (void)fflush(stderr);
}

static int on_lock(const rdl_inspection_t *found, const rdl_list_progress_t *progress, void *arg)
{
    struct listing *l = arg;

    if (found == NULL) {
        show_progress(l, progress);
        return fflush(stdout) != 0 || ferror(stdout);
    }
    clear_progress(l);
    if (l->a->json) {
        l->no_memory = !shown_json(stdout, found, false);
        return l->no_memory || ferror(stdout);
    }
    if (!l->headed)
        shown_head(stdout, l->width, false);
    l->headed = true;
    shown_line(stdout, found, l->width);
    return ferror(stdout);
}

static int list(rdl_client_t *client, const struct access *a)
{
    struct listing listing = {.a = a, .width = shown_width(), .began_ms = now_ms()};
    rdl_err_t err;
    int64_t found = rdl_list(client, a->word, on_lock, &listing, &err);

    clear_progress(&listing);
    if (found < 0)
        return access_failed(&err);
    if (listing.no_memory) {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        return EXITCODE_TROUBLE;
    }
    return subcommand_written(EXITCODE_OK);
}

/* ---- show ------------------------------------------------------------------------------------------------------- */

static int show(rdl_client_t *client, const struct access *a)
{
    rdl_inspection_t *lock = NULL;
    bool shown = true;
    rdl_err_t err;

    if (rdl_inspect(client, a->word, 0, &lock, &err) < 0)
        return access_failed(&err);
    if (a->json)
        shown = shown_json(stdout, lock, true);
    else
        shown_all(stdout, lock);
    rdl_inspection_free(lock);
    if (!shown)
        text_say("%s", rdl_strerror(RDL_ENOMEM));
    return shown ? subcommand_written(EXITCODE_OK) : EXITCODE_TROUBLE;
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

static int look(const struct subcommand *self, const char *word, int argc, char **argv,
                int (*look_at)(rdl_client_t *, const struct access *))
{
    struct access a = ACCESS_INIT;
    rdl_client_t *client = NULL;
    struct usage_error why;
    int status;

    if (access_parse(rows, ROW_COUNT, argc, argv, word, &a, &why) < 0)
        return subcommand_misused(self->name, &why);
    if (a.asked != ASKED_NOTHING)
        return subcommand_asked(a.asked, self->help);
    if ((status = access_open(&a, &client)) == EXITCODE_OK)
        status = look_at(client, &a);
    rdl_client_close(client);
    return status;
}

static int ls_main(int argc, char **argv)
{
    return look(&subcommand_ls, "[PATTERN]", argc, argv, list);
}

static int show_main(int argc, char **argv)
{
    return look(&subcommand_show, "NAME", argc, argv, show);
}

const struct subcommand subcommand_ls = {
    .name = "ls",
    .summary = "list the locks that there are",
    .main = ls_main,
    .help = ls_help,
};

const struct subcommand subcommand_show = {
    .name = "show",
    .summary = "who holds a lock, and who waits",
    .main = show_main,
    .help = show_help,
};
