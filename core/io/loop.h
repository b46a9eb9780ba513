/* SPDX-License-Identifier: MIT */
/* loop.h - the client's thread: tasks from other threads, timers, and a flush before every sleep.
 *
 * Everything a timer or task touches belongs to the loop thread unless its own header says otherwise. Descriptors are
 * watched through watch.h. Seam: the simulator links a loop.c of its own that runs all this under virtual time.
 */
#ifndef REDLATCH_IO_LOOP_H
#define REDLATCH_IO_LOOP_H

#include "core/base/clock.h"
#include "core/base/heap.h"
#include "core/base/list.h"
#include "core/base/mem.h"

#include <assert.h>
#include <redlatch/error.h>
#include <stdbool.h>

struct rdl__loop;

/* The thread's stack, whatever the process' limit (ulimit -s). Half of it is for what the user runs there, as client.h
 * says; how much the library needs is known (tests/static/recursion). */
#define RDL__LOOP_STACK (1024 * 1024)

/* A message to the loop, embedded in what it is about: posting needs no memory, and posting twice is posting once. */
struct rdl__task {
    struct rdl__link link;
    void (*run)(struct rdl__task *task, int64_t now);
};

struct rdl__timer {
    struct rdl__heap_node node;
    void (*fire)(struct rdl__timer *timer, int64_t now);
};

static inline void rdl__task_init(struct rdl__task *task, void (*run)(struct rdl__task *, int64_t))
{
    rdl__list_init(&task->link);
    task->run = run;
}

static inline void rdl__timer_init(struct rdl__timer *timer, void (*fire)(struct rdl__timer *, int64_t))
{
    timer->node = (struct rdl__heap_node){0};
    timer->fire = fire;
}

/* Make the loop and start its thread, with all signals blocked. RDL_ENOMEM when either cannot be had. */
int rdl__loop_start(const struct rdl__mem *mem, struct rdl__loop **ret_loop, rdl_err_t *err);

/* End the thread after the tasks posted so far, wait for it, and free the loop; NULL is fine.  @thread not the loop */
struct rdl__loop *rdl__loop_stop(struct rdl__loop *loop);

/* Run the task soon on the loop thread; does nothing when it is posted already.  @thread any */
void rdl__loop_post(struct rdl__loop *loop, struct rdl__task *task);

/* As rdl__loop_post, but without waking the loop, for a task that has nothing to do before something else wakes that:
 * it runs then, before the messages and timers of that wake-up, and at `at` at the latest. `sleep` is what
 * rdl__loop_sleep returned before the caller found that the task has nothing to do. If the loop was awake then, or has
 * been since, or if its next timer is later than `at`, this is rdl__loop_post. A task that waits so counts as posted:
 * rdl__loop_post of the same task does not wake the loop for it.  @thread any */
void rdl__loop_post_late(struct rdl__loop *loop, struct rdl__task *task, uint32_t sleep, int64_t at);
uint32_t rdl__loop_sleep(const struct rdl__loop *loop); /* odd: it sleeps, and each time it is another number */

/* Take back a task that has not run.  @thread any, but it may be running when the caller is not the loop */
void rdl__loop_unpost(struct rdl__loop *loop, struct rdl__task *task);

/* Run the task before the loop sleeps next.  @thread loop */
void rdl__loop_later(struct rdl__loop *loop, struct rdl__task *task);
void rdl__loop_not_later(struct rdl__loop *loop, struct rdl__task *task);

/* Set or move a timer; it is taken off before it fires.  @thread loop */
void rdl__loop_timer(struct rdl__loop *loop, struct rdl__timer *timer, int64_t at);
void rdl__loop_timer_off(struct rdl__loop *loop, struct rdl__timer *timer);

bool rdl__loop_here(const struct rdl__loop *loop); /* is the calling thread the loop's? */

/* A function whose comment says `@thread loop` says it to the machine as well; nothing in release. */
#ifdef REDLATCH_ASSERTS
#define rdl__assert_on_loop(loop) assert(rdl__loop_here(loop))
#else
#define rdl__assert_on_loop(loop) ((void)0)
#endif

#endif
