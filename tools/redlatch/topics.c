/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/topics.h"

void topic_times(FILE *out)
{
    fputs("TIME is in seconds, or has a unit: 500ms, 2.5s, 5m, 1h, 2d.\n", out);
}

void topic_servers(FILE *out)
{
    fputs("URI is redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], rediss://... for TLS, unix:/PATH[?db=DB],\n"
          "sentinel://[[USER]:PASSWORD@]HOST[:PORT],HOST[:PORT].../MASTER[/DB] for the master that they name,\n"
          "cluster://[[USER]:PASSWORD@]HOST[:PORT],HOST[:PORT]... for a cluster, clusters://... with TLS.\n"
          "Put passwords into REDLATCH_SERVER, or into a file, @FILE: ps shows the command line to everybody.\n"
          "Sentinels that require a password of their own get it from REDLATCH_SENTINEL_PASSWORD, and the\n"
          "user from REDLATCH_SENTINEL_USERNAME. COMMAND inherits no password, unless --pass-server is given.\n",
          out);
}

void topic_command(FILE *out)
{
    fputs("COMMAND finds in its environment REDLATCH_NAME (several NAMEs have a + between them), and\n"
          "REDLATCH_TOKEN, a number that grows whenever the lock changes hands; there is none with\n"
          "several NAMEs, -s and --permits. When the lock is lost, COMMAND and all that it started get\n"
          "SIGTERM and, after --grace, SIGKILL.\n",
          out);
}

static void topic_environment(FILE *out)
{
    fputs("REDLATCH_SERVER             the server's address, where --server does not say one\n"
          "REDLATCH_SENTINEL_USERNAME  for sentinels that want one\n"
          "REDLATCH_SENTINEL_PASSWORD  likewise\n"
          "NO_COLOR                    where it is not empty, top uses no colours\n"
          "\n",
          out);
    topic_command(out);
}

static void topic_types(FILE *out)
{
    fputs("redlatch run takes, by --type and other options:\n"
          "\n"
          "  reentrant     one at a time; what is taken without an option (Redisson's RLock)\n"
          "  nonreentrant  the same; in a program, a second take by the same owner is an error\n"
          "  fair          first come, first served (RFairLock)\n"
          "  fenced        with a token that a counter of its own makes grow (RFencedLock)\n"
          "  spin          for very short holds: who waits tries again and again (RSpinLock)\n"
          "  simple        the cheapest, shared with code that uses SET NX PX\n"
          "  -s, -x        a read-write lock: many readers, or one writer\n"
          "  --permits N   a semaphore: N at once\n"
          "  --redlock     one lock on several independent servers\n"
          "  NAME NAME --  several locks, all or none\n",
          out);
}

static void topic_statuses(FILE *out)
{
    fputs("    0  done; of run: COMMAND's status was 0\n"
          "    1  run and wait: not in that time; unlock: nothing was done; doctor: warnings\n"
          "    2  doctor: something is critical\n"
          "    3  unlock: a holder that was shown no longer holds it\n"
          "   64  the command line or the address of the server is wrong, or NAME is no lock\n"
          "   69  no server, or no answer from it; of several: from too few\n"
          "   70  the server refused, the system is out of memory or processes, or stdout cannot be written\n"
          "   75  run: the lock was lost before COMMAND had ended\n"
          "  124  run: COMMAND was ended after --max-hold\n"
          "  126  run: COMMAND cannot be executed\n"
          "  127  run: there is no such COMMAND\n"
          "128+N  ended by signal N\n"
          "\n"
          "Any other status of run is COMMAND's.\n",
          out);
}

const struct topic topics[] = {
    {"command", "what the command of run is told, and when it is ended", topic_command},
    {"environment", "variables", topic_environment},
    {"servers", "addresses, passwords, sentinels and clusters", topic_servers},
    {"statuses", "what exit statuses say", topic_statuses},
    {"times", "how times are written", topic_times},
    {"types", "kinds of locks", topic_types},
    {NULL, NULL, NULL},
};
