/* run.c - `redlatch run`: its help, and from the command line to a session. */
#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/run_options.h"
#include "tools/redlatch/server.h"
#include "tools/redlatch/session.h"
#include "tools/redlatch/subcommand.h"
#include "tools/redlatch/text.h"

#include <redlatch/error.h>
#include <stdlib.h>
#include <string.h>

static void run_help(FILE *out)
{
    fputs("Take the lock NAME, run COMMAND, release the lock.\n"
          "\n"
          "Usage: redlatch run [options] NAME [--] COMMAND [ARG...]\n"
          "       redlatch run [options] NAME -c 'SHELL COMMAND'\n"
          "\n",
          out);
    run_options_print(out);
    fputs("\n"
          "TIME is in seconds, or has a unit: 500ms, 2.5s, 5m, 1h.\n"
          "URI is redis://[[USER:]PASSWORD@]HOST[:PORT][/DB] or unix:/PATH[?db=DB]. Passwords belong into\n"
          "REDLATCH_SERVER: ps shows the command line to everybody.\n"
          "\n"
          "COMMAND finds in its environment REDLATCH_NAME, and REDLATCH_TOKEN, a number that grows\n"
          "whenever the lock changes hands. When the lock is lost, COMMAND and all that it started\n"
          "get SIGTERM and, after --grace, SIGKILL.\n"
          "\n"
          "Exit status:\n"
          "  that of COMMAND, or 128+n when signal n ended it (or ended the wait for the lock)\n"
          "    1  the lock was not acquired in time (-E changes it)\n"
          "   64  the command line or the address of the server is wrong\n"
          "   69  no server, or no answer from it\n"
          "   70  the server refused, or the system is out of memory or processes\n"
          "   75  the lock was lost before COMMAND had ended\n"
          "  124  COMMAND was ended after --max-hold\n"
          "  126  COMMAND cannot be executed\n"
          "  127  there is no such COMMAND\n"
          "\n"
          "Examples:\n"
          "  redlatch run nightly -- backup.sh /srv\n"
          "  redlatch run -n -E 0 report -- make report       # skip it while another host is at it\n"
          "  redlatch run -w 30 --max-hold 1h db:migrate -- ./migrate\n"
          "  redlatch run --server redis://db1:6379/2 counter -c 'n=$(cat n); echo $((n+1)) >n'\n",
          out);
}

static int run_main(int argc, char **argv)
{
    struct run_options options;
    struct usage_error why;
    const char *uri = getenv("REDLATCH_SERVER");
    char *copy = NULL;
    int rc;

    if (run_options_parse(argc, argv, &options, &why) < 0)
        return subcommand_misused(subcommand_run.name, &why);
    if (options.help)
        return subcommand_print(run_help);
    if (options.server != NULL) {
        if ((copy = strdup(options.server)) == NULL) {
            text_say("%s", rdl_strerror(RDL_ENOMEM));
            return EXITCODE_TROUBLE;
        }
        server_hide_secret(options.server);
        uri = copy;
    } else if (uri == NULL || uri[0] == '\0') {
        uri = SERVER_DEFAULT;
    }
    rc = session_run(&options, uri);
    free(copy);
    return rc;
}

const struct subcommand subcommand_run = {
    .name = "run",
    .summary = "run a command under a lock",
    .main = run_main,
    .help = run_help,
};
