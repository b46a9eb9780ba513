/* SPDX-License-Identifier: MIT */
/* run.c - `redlatch run`: its help, and from the command line to a session. */
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/run_options.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/session.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"
#include "tools/redlatch/topics.h"

#include <errno.h>
#include <redlatch/error.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void run_help(FILE *out)
{
    fputs("Take the lock NAME, run COMMAND, release the lock.\n"
          "\n"
          "Usage: redlatch run [options] NAME [--] COMMAND [ARG...]\n"
          "       redlatch run [options] NAME -c 'SHELL COMMAND'\n"
          "       redlatch run [options] NAME... -- COMMAND [ARG...]       all of them, or none\n"
          "       redlatch run [options] -c 'SHELL COMMAND' NAME... --\n"
          "\n",
          out);
    run_options_print(out);
    fputc('\n', out);
    topic_times(out);
    topic_servers(out);
    fputc('\n', out);
    topic_command(out);
    fputs("\n"
          "Exit status:\n"
          "  that of COMMAND, or 128+n when signal n ended it (or ended the wait for the lock)\n"
          "    1  the lock was not acquired in time (-E changes it)\n"
          "   64  the command line or the address of the server is wrong\n"
          "   69  no server, or no answer from it; of several: from too few\n"
          "   70  the server refused, or the system is out of memory or processes\n"
          "   75  the lock was lost before COMMAND had ended\n"
          "  124  COMMAND was ended after --max-hold\n"
          "  126  COMMAND cannot be executed\n"
          "  127  there is no such COMMAND\n"
          "\n"
          "Examples:\n"
          "  redlatch run nightly -- backup.sh /srv\n"
          "  redlatch run -n -E 0 report -- make report       # skip it if another host is doing it\n"
          "  redlatch run -w 30 --max-hold 1h db:migrate -- ./migrate\n"
          "  redlatch run account:1 account:2 -- ./transfer    # both of them, or neither\n"
          "  redlatch run --permits 4 build -- make           # on four hosts at once, at most\n"
          "  redlatch run --server redis://db1:6379/2 counter -c 'n=$(cat n); echo $((n+1)) >n'\n",
          out);
}

/* The servers' addresses, as copies: in argv the secrets are overwritten. */
struct servers {
    const char *uris[REDLOCK_MAX];
    size_t count;
    char *copy;              /* what uris point into, when it came from argv; owned, like the next */
    char *read[REDLOCK_MAX]; /* what stood in files */
};

static void split(struct servers *s, char *list)
{
    char *rest = list;
    char *uri;

    while (s->count < REDLOCK_MAX && (uri = strsep(&rest, ",")) != NULL)
        s->uris[s->count++] = uri;
}

/* Replace each @FILE by its first line. False: one has none; a message was printed. */
static bool read_addresses(struct servers *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->uris[i][0] != '@')
            continue;
        if ((s->read[i] = server_read(s->uris[i] + 1)) == NULL)
            return false;
        s->uris[i] = s->read[i];
    }
    return true;
}

static void servers_done(struct servers *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->read[i]);
    free(s->copy);
}

/* Take passwords out of the environment that the command inherits, unless --pass-server; the server's address stays.
 * Before there are threads. Returns 0, or -1 without memory. Strings that getenv has returned stay valid. */
static int hide_environment(const struct run_options *o)
{
    const char *inherited = getenv("REDLATCH_SERVER");
    char *without;
    int rc;

    if (o->pass_server)
        return 0;
    unsetenv("REDLATCH_SENTINEL_USERNAME");
    unsetenv("REDLATCH_SENTINEL_PASSWORD");
    if (inherited == NULL || inherited[0] == '@')
        return 0;
    if ((without = server_without_secret(inherited)) == NULL)
        return -1;
    rc = strcmp(without, inherited) == 0 ? 0 : setenv("REDLATCH_SERVER", without, 1);
    free(without);
    return rc;
}

/* Returns 0, or -1 without memory. */
static int find_servers(const struct run_options *o, struct servers *s)
{
    const char *given = o->redlock != NULL ? o->redlock : o->server;

    if (given == NULL) {
        s->uris[s->count++] = server_inherited();
        return 0;
    }
    if ((s->copy = strdup(given)) == NULL)
        return -1;
    if (o->redlock != NULL) {
        server_hide_secrets(o->redlock);
        split(s, s->copy);
    } else {
        server_hide_secret(o->server);
        s->uris[s->count++] = s->copy;
    }
    return 0;
}

static int run_main(int argc, char **argv)
{
    struct run_options options;
    struct servers servers = {.count = 0};
    struct usage_error why;
    int rc;

    if (run_options_parse(argc, argv, &options, &why) < 0)
        return subcommand_misused(subcommand_run.name, &why);
    if (options.asked != ASKED_NOTHING)
        return subcommand_asked(options.asked, run_help);
    options.sentinel_username = getenv("REDLATCH_SENTINEL_USERNAME");
    options.sentinel_password = getenv("REDLATCH_SENTINEL_PASSWORD");
    if (find_servers(&options, &servers) < 0 || hide_environment(&options) < 0) {
        text_say("%s", rdl_strerror(RDL_ENOMEM));
        rc = EXITCODE_TROUBLE;
    } else if (!read_addresses(&servers)) {
        rc = EXITCODE_USAGE;
    } else {
        rc = session_run(&options, servers.uris, servers.count);
    }
    servers_done(&servers);
    return rc;
}

const struct subcommand subcommand_run = {
    .name = "run",
    .summary = "run a command under a lock",
    .main = run_main,
    .help = run_help,
};
