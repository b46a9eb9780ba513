/* SPDX-License-Identifier: MIT */
/* exitcode.h - what the command's exit status says. The man page and the help list the same numbers.
 *
 * The codes follow sysexits(3), timeout(1) and the shell, so that they keep out of the way of 128+n and of each other.
 */
#ifndef REDLATCH_TOOL_EXITCODE_H
#define REDLATCH_TOOL_EXITCODE_H

enum exitcode {
    EXITCODE_OK = 0,
    EXITCODE_CONFLICT = 1,     /* not acquired in time; -E changes it */
    EXITCODE_WARNINGS = 1,     /* doctor: the worst finding is a warning */
    EXITCODE_CRITICAL = 2,     /* doctor: it is worse */
    EXITCODE_CHANGED = 3,      /* unlock: a holder that was shown is gone, and who came since was left alone */
    EXITCODE_USAGE = 64,       /* EX_USAGE: the command line or the server's address is wrong */
    EXITCODE_NO_SERVER = 69,   /* EX_UNAVAILABLE: no server, or no answer from it; too few of several */
    EXITCODE_TROUBLE = 70,     /* EX_SOFTWARE: the server refused, memory or processes ran out */
    EXITCODE_LOST = 75,        /* EX_TEMPFAIL: the lock was lost before the command had ended */
    EXITCODE_MAX_HOLD = 124,   /* as timeout(1): the command was ended after --max-hold */
    EXITCODE_CANNOT_RUN = 126, /* as the shell: found, but not to be executed */
    EXITCODE_NOT_FOUND = 127,  /* as the shell: no such command */
    EXITCODE_SIGNAL = 128,     /* plus the signal's number */
};

/* What a shell would say of a process that ended with `status`, as filled in by waitpid. */
int exitcode_of_status(int status);

/* The status for a command that could not be executed for `errnum`. */
int exitcode_of_exec(int errnum);

/* The status for an acquire that ended with `code`, a negative RDL_E...; `conflict` is what -E asks for. */
int exitcode_of_error(int code, int conflict);

#endif
