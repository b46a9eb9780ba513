/* SPDX-License-Identifier: MIT */
/* subcommand.c - what every subcommand does, in the command itself or as a program of its own. */
#include "tools/redlatch/subcommand.h"

#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <fcntl.h>
#include <redlatch/version.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* A descriptor 0, 1 or 2 that the caller left closed would be the next socket's, and our messages would end up in it.
 * What goes to the standard output fails still: nobody has it. The placeholder is closed on exec, so the command finds
 * it as we did. */
void subcommand_begin(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) /* so it is the lowest that is free */
            (void)open("/dev/null", (fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) | O_CLOEXEC);
}

int subcommand_written(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return EXITCODE_SIGNAL + SIGPIPE;
    text_say("cannot write to the standard output: %s", strerror(errno));
    return EXITCODE_TROUBLE;
}

int subcommand_print(void (*help)(FILE *out))
{
    help(stdout);
    return subcommand_written(EXITCODE_OK);
}

static void print_version(FILE *out)
{
    fprintf(out, "redlatch %s\n", rdl_version());
}

int subcommand_asked(enum asked asked, void (*help)(FILE *out))
{
    return subcommand_print(asked == ASKED_VERSION ? print_version : help);
}

int subcommand_misused(const char *subcommand, const struct usage_error *why)
{
    const char *name = subcommand != NULL ? subcommand : "";
    const char *gap = subcommand != NULL ? " " : "";

    text_say("%s%s%s", name, subcommand != NULL ? ": " : "", why->text);
    text_say("try 'redlatch%s%s --help'", gap, name);
    return EXITCODE_USAGE;
}
