/* SPDX-License-Identifier: MIT */
/* job.h - what the examples of event loops do: three jobs at a time on one thread, each of which takes a lock, works
 * for a moment, and releases it. The files beside it show what each loop needs for that, which is to watch one
 * descriptor.
 *
 *     gcc epoll.c job.c -o epoll $(pkg-config --cflags --libs redlatch)
 */
#ifndef EXAMPLES_LOOPS_JOB_H
#define EXAMPLES_LOOPS_JOB_H

#include <redlatch/redlatch.h>
#include <stdbool.h>

/* Open the client at `uri` with RDL_DISPATCH_FD, and begin the jobs. The descriptor to watch for reading, or -1, and it
 * has said why. Blocks until the client is connected (the option `lazy` would not). */
int jobs_begin(const char *uri);

/* The descriptor is readable: run the callbacks that are due. Never blocks. False: all jobs have ended, stop the loop.
 */
bool jobs_go_on(void);

/* Free everything. The program's exit status. */
int jobs_end(void);

#endif
