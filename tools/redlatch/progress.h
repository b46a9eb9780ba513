/* SPDX-License-Identifier: MIT */
/* progress.h - while somebody waits at a terminal: for what, how long by now, and who holds it.
 *
 * One line, that is gone when the wait is over. Nothing is shown in the first second, nor where stderr is no terminal.
 * A thread with a client of its own asks who it is, or says why there is no answer: the session waits for no answer but
 * its lock's, and nobody who gives up waits for this one. */
#ifndef REDLATCH_TOOL_PROGRESS_H
#define REDLATCH_TOOL_PROGRESS_H

#include "tools/redlatch/run_options.h"

#include <pthread.h>

#define PROGRESS_FIRST_MS 1000 /* of a wait, without a line */
#define PROGRESS_EVERY_MS 2000

struct progress {
    const struct run_options *options;
    const char *uri, *name; /* the name for people */
    int64_t began_ms;
    bool begun; /* there is a thread */
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool over, left; /* under mu, as whatever is shown is: nothing more is to be, and the thread has seen it */
};

/* What is waited for, as it is shown: `holder` is what holder.h says, or "". */
void progress_show(const char *name, int64_t waited_ms, const char *holder);

/* Of several servers the first is asked. */
void progress_begin(struct progress *p, const struct run_options *options, const char *uri, const char *name);

/* Nothing is shown any more. More than one call is fine, and one without a beginning. */
void progress_end(struct progress *p);

/* False: the thread waits for an answer yet, and uses what exit(3) would take down, and `p`. */
bool progress_done(struct progress *p);

#endif
