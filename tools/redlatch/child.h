/* SPDX-License-Identifier: MIT */
/* child.h - the command: started, signalled, ended, its status taken. */
#ifndef REDLATCH_TOOL_CHILD_H
#define REDLATCH_TOOL_CHILD_H

#include "tools/redlatch/family.h"
#include "tools/redlatch/signals.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid;      /* 0: not started */
    bool ended;     /* reaped; `status` is there */
    int status;     /* as from waitpid */
    int exec_errno; /* why it could not be executed; 0 */
    int report_fd;  /* the end to read of the pipe that tells exec_errno; -1 when it has been read */
    struct family family;
};

/* The facts about its lock that the command finds in its environment. */
struct child_facts {
    const char *name;
    int64_t token; /* 0: it has none */
};

/* Free what it has; the process is not affected. A zeroed one is fine. */
void child_done(struct child *c);

/* Start argv[0], found as by execvp(3). Whether it could be executed is known when it has ended: exec_errno.
 * Returns 0, or -1 with errno set; then nothing was started. */
int child_start(struct child *c, char *const argv[], const struct child_facts *facts);

/* Reap every child that has ended; the command's status goes into `c`. Never waits. */
void child_reap(struct child *c);

/* Pass a signal on to the command, unless it has it already: a terminal's signal goes to the whole process group. */
void child_forward(const struct child *c, const struct signal_event *event);

/* Ask the command and every process that it started to end; child_kill makes them. */
void child_terminate(const struct child *c);
void child_kill(const struct child *c);

/* Is any of them still there? */
bool child_family_lives(const struct child *c);

#endif
