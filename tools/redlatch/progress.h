/* progress.h - while somebody waits at a terminal: for what, how long by now, and who holds it.
 *
 * One line, that is gone when the wait is over. Nothing is shown in the first second, nor where stderr is no terminal.
 * A thread of its own asks who it is: the session waits for no answer but its lock's. */
#ifndef REDLATCH_TOOL_PROGRESS_H
#define REDLATCH_TOOL_PROGRESS_H

#include "tools/redlatch/run_options.h"

#include <pthread.h>
#include <redlatch/client.h>

#define PROGRESS_FIRST_MS 1000 /* of a wait, without a line */
#define PROGRESS_EVERY_MS 2000

struct progress {
    const struct run_options *options;
    rdl_client_t *const *clients;
    size_t client_count;
    const char *name; /* for people */
    int64_t began_ms;
    bool begun; /* there is a thread */
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t ended;
    bool over; /* under mu, as whatever is shown is */
};

/* What is waited for, as it is shown: `holder` is what holder.h says, or "". */
void progress_show(const char *name, int64_t waited_ms, const char *holder);

/* The clients must stay open until progress_done. */
void progress_begin(struct progress *p, const struct run_options *options, rdl_client_t *const *clients, size_t count,
                    const char *name);

/* Nothing is shown any more. More than one call is fine, and one without a beginning. */
void progress_end(struct progress *p);

/* Waits for the thread: for an answer of the server at most. */
void progress_done(struct progress *p);

#endif
