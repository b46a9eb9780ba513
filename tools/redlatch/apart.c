/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/apart.h"

#include "tools/redlatch/exitcode.h"
#include "tools/redlatch/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "libexec/redlatch/redlatch-"

/* Cut the last part of a path. */
static void cut(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL)
        *slash = '\0';
}

int apart_execute(const char *name, char *const argv[])
{
    char own[PATH_MAX], path[PATH_MAX + 64], shown[TEXT_SAFE_CAP];
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    int why;

    own[len > 0 ? len : 0] = '\0';
    cut(own); /* redlatch */
    cut(own); /* bin */
    (void)snprintf(path, sizeof path, "%s/" FOLDER "%s", own, name);
    (void)execv(path, argv);
    why = errno;
    text_say("cannot run '%s': %s", text_safe(path, strlen(path), shown), strerror(why));
    return exitcode_of_exec(why);
}

int apart_help(const char *name)
{
    char copy[32], option[] = "--help";
    char *argv[] = {copy, option, NULL};

    (void)snprintf(copy, sizeof copy, "%s", name);
    return apart_execute(name, argv);
}
