/* SPDX-License-Identifier: MIT */
/* top_watch.h - the part of `redlatch top` that asks the servers, on a thread of its own, so that one that hangs holds
 * up nobody who looks.
 *
 * A round asks how the masters are, and looks at the locks that are known: those on the screen and the first
 * TOP_LOOKS_MOST in the order that is shown. Which locks there are a walk through all keys finds out, in small steps,
 * at first and then more rarely the longer it takes; rounds go on meanwhile. Locks beyond the first are as old as the
 * last walk.
 */
#ifndef REDLATCH_TOOL_TOP_WATCH_H
#define REDLATCH_TOOL_TOP_WATCH_H

#include "tools/redlatch/top_model.h"

#include <redlatch/client.h>
#include <redlatch/error.h>
#include <redlatch/inspect.h>

#define TOP_LOOKS_MOST 1000
#define TOP_MASTERS_MOST 64

struct top_watch;

/* What is known beside the locks. Times are those of top_now. */
struct top_state {
    struct top_view view; /* the viewer's, like the next: what is looked at first */
    size_t first, rows;
    bool paused; /* nothing is asked but requests */

    rdl_master_t master[TOP_MASTERS_MOST];
    int masters;                   /* how many there are; 0: none has answered yet */
    int64_t answered_ms;           /* the last whole round ended; 0: none yet */
    int64_t walks;                 /* whole ones */
    int64_t walk_keys, walk_total; /* of the one under way; total 0: none is */
    int64_t trouble_ms;            /* since when rounds fail; 0: they do not */
    rdl_err_t trouble;
    bool no_memory; /* some locks are missing */
    uint64_t rounds;
};

/* A question about one lock. The name, `seen` and `said` are the request's. */
struct top_request {
    enum { TOP_NOTHING, TOP_SHOW, TOP_EVICT } what;
    bool ask; /* the viewer's: to be evicted, once it is agreed to */
    char *name;
    size_t name_len;
    rdl_inspection_t *seen; /* TOP_SHOW: what was found; TOP_EVICT: whose holders are evicted */
    char *said;             /* TOP_EVICT: what became of them; or why it failed */
    bool failed;
};

/* ms, by a clock that only goes on. */
int64_t top_now(void);

/* The client and the pattern are the caller's. NULL: no memory, nor descriptors. */
struct top_watch *top_watch_new(rdl_client_t *client, const char *pattern, int64_t interval_ms);
struct top_watch *top_watch_free(struct top_watch *w); /* not while its thread runs */

/* What it knows, locked until top_watch_leave: for a moment only. */
struct top_state *top_watch_enter(struct top_watch *w, struct top_model **ret_model);
void top_watch_leave(struct top_watch *w);

/* One round on the caller's thread, with a walk where one is due. RDL_OK or an error, which is in the state, too. */
int top_watch_round(struct top_watch *w);

/* Rounds on a thread of its own. Returns 0 or an errno. */
int top_watch_start(struct top_watch *w);

/* Readable when there is something new; top_watch_heard makes it unreadable. */
int top_watch_fd(const struct top_watch *w);
void top_watch_heard(struct top_watch *w);

/* The view has changed, or it goes on after a pause: do not wait for the next round. */
void top_watch_hurry(struct top_watch *w);

/* Ask; the request is the watch's from now on. False: the one before has not been answered. */
bool top_watch_ask(struct top_watch *w, const struct top_request *request);
/* The answer, which is the caller's, to be freed with top_request_done. False: there is none yet. */
bool top_watch_answer(struct top_watch *w, struct top_request *ret);
void top_request_done(struct top_request *request);

/* End the thread. False: it hangs, for longer than a moment, in a question to a server: leave everything as it is. */
bool top_watch_end(struct top_watch *w);

#endif
