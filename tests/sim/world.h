/* SPDX-License-Identifier: MIT */
/* world.h - virtual time: events, processes, fibres, chance, and what a run says about itself.
 *
 * Everything in the simulator happens in events, in the order of their times, on one thread. Time stands still during
 * an event. There is one world at a time, because the seams of the library (rdl__now and its like) have no argument
 * that could say which.
 *
 * A process is a clock and a switch: its events wait while it is stopped. Clocks run at rates of their own. A fibre is
 * a thread of a process: straight-line code that sleeps and blocks in virtual time. The loop of a client, and the
 * server, are no fibres: they are events that run to their end.
 *
 * Chance is one generator per world, seeded by the run's number: the same number, the same run.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "core/base/clock.h"
#include "core/base/heap.h"
#include "core/base/list.h"

#include <redlatch/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a run ------------------------------------------------------------------------------------------------------ */

struct rdl__loop;
struct fibre;

void world_begin(uint64_t seed);

/* Run `body` in a fibre of no process, and everything that it leads to, until it returns. False: it never did; the
 * world cannot be used again. */
bool world_run(void (*body)(void *arg), void *arg);

void world_end(void);

int64_t world_now(void);      /* ns since the world began */
int64_t world_events(void);   /* of this run */
void world_limit(int64_t at); /* a run that lasts longer never ends */

/* Called after each event. */
void world_on_event(void (*fn)(void));

/* ---- chance ----------------------------------------------------------------------------------------------------- */

uint64_t draw(uint64_t bound);                  /* 0..bound-1 */
int64_t draw_from(int64_t least, int64_t most); /* both included */
bool chance(unsigned in, unsigned of);

/* ---- what a run says -------------------------------------------------------------------------------------------- */

/* A claim does not hold. The first one of a run is kept; the run goes on. */
void violated(const char *claim, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *world_violation(void); /* the first one, "claim: what happened"; NULL: none */

/* What every callback of `who`, for its call of `verb`, owes. starter: who has not returned from the call; NULL: it
 * has. */
void check_callback(const struct fibre *starter, int64_t result, const rdl_err_t *err, const char *who,
                    const char *verb);

/* With tracing, lines are collected, or shown as they come, so that those before a crash are seen. */
enum trace { TRACE_OFF, TRACE_KEPT, TRACE_SHOWN };
void world_trace(enum trace how);
bool world_tracing(void);
const char *world_story(size_t *ret_len); /* what was collected */
void say_(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define say(...)                                                                                                       \
    do {                                                                                                               \
        if (world_tracing())                                                                                           \
            say_(__VA_ARGS__);                                                                                         \
    } while (0)

/* ---- processes -------------------------------------------------------------------------------------------------- */

struct process {
    char name[8];
    int64_t clock_base; /* its clock when the world began */
    int64_t clock_ppm;  /* how much faster than the world it runs, not below 0 */
    int64_t clock_step; /* what was added since */
    int64_t stop_began; /* world's time of the last stop and the last going on */
    int64_t went_on;
    bool stopped;
    struct rdl__link waiting; /* events that came while it was stopped */
};

void process_init(struct process *p, const char *name, int64_t clock_base, int64_t clock_ppm);
void process_stop(struct process *p);
void process_go(struct process *p);
int64_t process_clock(const struct process *p);               /* its clock now */
int64_t process_when(const struct process *p, int64_t local); /* the world's time at which its clock shows `local` */

/* Who is running: an event's process, NULL in the world's own events. */
struct process *process_here(void);
struct process *
process_enter(struct process *p); /* act as p: the rest of this event, or this fibre; returns the former */

/* The loop whose code is running, or NULL. */
struct rdl__loop *loop_running(void);
void loop_runs(struct rdl__loop *loop);

/* ---- events ----------------------------------------------------------------------------------------------------- */

struct event {
    struct rdl__heap_node node;
    struct rdl__link waiting; /* for its process to go on */
    void (*run)(struct event *event);
    struct process *process; /* NULL: the world's own */
};

void event_init(struct event *e, void (*run)(struct event *), struct process *process);
void event_at(struct event *e, int64_t at);   /* set or move */
void event_soon(struct event *e, int64_t at); /* the same, but never to a later moment than it was set to */
void event_off(struct event *e);
bool event_set(const struct event *e);

/* ---- fibres ----------------------------------------------------------------------------------------------------- */

/* Start `body` at once. The fibre is freed by whoever joins it. */
struct fibre *fibre_start(struct process *process, void (*body)(void *arg), void *arg);
struct fibre *fibre_here(void);           /* NULL: not in a fibre */
unsigned *fibre_mutexes(struct fibre *f); /* how many it has locked (threads.c) */

/* Give way until woken, or until the world's time is `until`. Only in a fibre. */
void fibre_wait(int64_t until);
void fibre_wake(struct fibre *f, int64_t delay);
void fibre_sleep(int64_t ns);

/* Wait until its body has returned, and free it. NULL is fine. */
void fibre_join(struct fibre *f);

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/* A fibre that may be interrupted at points (pct.h). Of those that could run the one with the most urgency does. */
struct fibre *thread_start(struct process *process, void (*body)(void *arg), void *arg);
struct fibre *thread_here(void); /* NULL: it is none */
unsigned thread_number(const struct fibre *f);
void thread_urgency(struct fibre *f, int64_t urgency);

/* Is something due, or a more urgent thread ready? */
bool thread_is_pressed(void);
void thread_give_way(void);     /* let that come first */
void thread_freeze(int64_t ns); /* stand still for so long, whatever happens */

/* A place where threads may be interrupted: `fn` decides. */
struct point {
    const char *what;
    bool outer; /* where the library meets the system */
    const char *file;
    int line;
};
void world_on_point(void (*fn)(const struct point *at));
bool world_threaded(void); /* somebody decides: loops are threads, too */
void point_(const char *what, bool outer, const char *file, int line);
#define point(what) point_(what, true, __FILE__, __LINE__)
bool world_is_quiet(void);
void world_quiet(bool quiet); /* until the other is said, points are none: whoever looks at what the library says is not
                                 interrupted */

void world_pass(int64_t ns); /* time passes while a thread runs */

/* What threads have lost since then by that and by standing still, all in all: bounds grow by so much. */
int64_t world_lag(int64_t since);

/* A thread-local variable, of which each fibre has its own value, at first NULL; `ends` is called at the end of a fibre
 * whose value is another. */
void fibre_local(void **slot, void (*ends)(void *slot));

#endif
