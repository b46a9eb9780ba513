/* SPDX-License-Identifier: MIT */
/* family.h - the command and every process that it started, for ending them when the lock is gone.
 *
 * A signal to the command alone is not enough: a shell that dies of SIGTERM leaves the program behind that it was
 * running. Process groups do not help: the command shares ours, so that the terminal's keys and job control work as
 * without us. So this program is the subreaper: a process whose parent dies becomes our child, none gets out of the
 * tree below us, and /proc shows the tree. Without /proc only the command itself is found.
 *
 * Children that we have from before (a shell that started jobs and then exec'ed us) are none of the family. */
#ifndef REDLATCH_TOOL_FAMILY_H
#define REDLATCH_TOOL_FAMILY_H

#include <stddef.h>
#include <sys/types.h>

struct process;

struct family {
    struct process *strangers; /* our children from before; owned */
    size_t count;
};

/* Call before the command is started. Returns 0, or -1 with errno set. */
int family_begin(struct family *ret);
void family_done(struct family *f);

/* Send `signo` (0: send nothing, only count) to all of the family that live, `first` (0: nobody) before all others: a
 * shell must learn of its end before the program whose end it waits for. Returns how many there are. */
size_t family_signal(const struct family *f, pid_t first, int signo);

#endif
