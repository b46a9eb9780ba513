/* family.h - the command and every process that it started, for ending them when the lock is gone.
 *
 * A signal to the command alone is not enough: a shell that dies of SIGTERM leaves the program behind that it was running.
 * Process groups do not help: the command shares ours, so that the terminal's keys and job control work as without us. So
 * this program is the subreaper: a process whose parent dies becomes our child, none gets out of the tree below us, and
 * /proc shows the tree. Without /proc only the command itself is found. */
#ifndef REDLATCH_TOOL_FAMILY_H
#define REDLATCH_TOOL_FAMILY_H

#include <stddef.h>
#include <sys/types.h>

/* Become the parent of descendants that lose theirs. Call before the command is started. */
void family_adopt(void);

/* When the process started, in the unit of /proc; 0 when that cannot be known. */
unsigned long long family_birth(pid_t pid);

/* Send `signo` (0: send nothing, only count) to the living processes below us that are not older than `birth`, `first`
 * before all others: a shell must learn of its end before the program whose end it waits for. Processes older than the
 * command were handed to us by whoever exec'ed us and are none of its family. Returns how many there are. */
size_t family_signal(pid_t first, unsigned long long birth, int signo);

#endif
