/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/exitcode.h"

#include <errno.h>
#include <redlatch/error.h>
#include <sys/wait.h>

int exitcode_of_status(int status)
{
    return WIFSIGNALED(status) ? EXITCODE_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int exitcode_of_exec(int errnum)
{
    return errnum == ENOENT ? EXITCODE_NOT_FOUND : EXITCODE_CANNOT_RUN;
}

int exitcode_of_error(int code, int conflict)
{
    switch (code) {
    case RDL_ETIMEDOUT:
        return conflict;
    case RDL_EINVAL:
        return EXITCODE_USAGE;
    case RDL_ECONN:
    case RDL_ENOQUORUM:
    case RDL_EUNKNOWN:
        return EXITCODE_NO_SERVER;
    case RDL_ELOST:
        return EXITCODE_LOST;
    default:
        return EXITCODE_TROUBLE;
    }
}
