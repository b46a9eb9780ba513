/* SPDX-License-Identifier: MIT */
/* loop.c - a client's loop in virtual time, in place of core/io/loop.c: tasks, timers, watches.
 *
 * A turn is one event. What it serves, and in which order, is what libev leaves open: descriptors, tasks and timers
 * come in an order drawn by chance; what was put off to the end of the turn comes last. A turn begins somewhat after
 * its cause, as threads do.
 *
 * In a world of threads it is one: a turn's event wakes it, and others may run in the middle of the turn.
 *
 * It holds the library to loop.h: functions that are the loop's are called on the loop, and nothing is left when it
 * ends.
 */
#include "core/io/loop.h"

#include "core/base/err.h"
#include "core/io/watch.h"
#include "tests/sim/net.h"
#include "tests/sim/world.h"
#include "tests/support/wait.h"

#include <string.h>

#define WAKE_DELAY_NS 30000 /* from a cause until the turn that serves it, at most */
#define MOST_WATCHES 64

struct rdl__loop {
    const struct rdl__mem *mem;
    struct process *process;
    struct event turn;
    struct rdl__heap timers;
    struct rdl__link mailbox;
    bool late; /* of those in the mailbox one was posted late, and comes before what wakes the loop */
    uint32_t sleep;
    struct rdl__link later;
    struct rdl__watch *watches[MOST_WATCHES];
    size_t watch_count;
    bool stopping;
    bool ended;
    struct fibre *stopper;
    struct fibre *thread; /* NULL: its turns are events */
    bool due;             /* a turn of the thread's */
};

static void must_be_here(const struct rdl__loop *loop, const char *what)
{
    if (!rdl__loop_here(loop))
        violated("the loop's functions are called on the loop", "%s is not", what);
}

/* ---- a turn ----------------------------------------------------------------------------------------------------- */

static void wake(struct rdl__loop *loop, int64_t at)
{
    event_soon(&loop->turn, at);
}

static void wake_soon(struct rdl__loop *loop)
{
    wake(loop, world_now() + draw_from(0, WAKE_DELAY_NS));
}

static int ready_for(const struct rdl__watch *watch)
{
    return net_ready(watch->fd) & watch->events;
}

static size_t find_watch(const struct rdl__loop *loop, const struct rdl__watch *watch)
{
    size_t i = 0;

    while (i < loop->watch_count && loop->watches[i] != watch)
        i++;
    return i;
}

/* Those that are watched now; each may end others. */
static void run_watches(struct rdl__loop *loop)
{
    struct rdl__watch *now[MOST_WATCHES];
    size_t count = loop->watch_count;
    size_t first = draw(count);

    memcpy(now, loop->watches, count * sizeof(struct rdl__watch *));
    for (size_t i = 0; i < count; i++) {
        struct rdl__watch *watch = now[(first + i) % count];

        if (find_watch(loop, watch) < loop->watch_count && ready_for(watch) != 0)
            watch->ready(watch, ready_for(watch), rdl__now());
    }
}

/* As many as there are now; what they post comes in the next turn. */
static void run_tasks(struct rdl__loop *loop)
{
    struct rdl__link now, *l;

    rdl__list_init(&now);
    rdl__list_splice_front(&now, &loop->mailbox);
    while ((l = rdl__list_pop(&now)) != NULL) {
        struct rdl__task *task = rdl__container(l, struct rdl__task, link);

        task->run(task, rdl__now());
    }
}

static void run_timers(struct rdl__loop *loop)
{
    struct rdl__heap_node *first;

    while ((first = rdl__heap_min(&loop->timers)) != NULL && first->at <= rdl__now()) {
        struct rdl__timer *timer = rdl__container(first, struct rdl__timer, node);

        rdl__heap_remove(&loop->timers, first);
        timer->fire(timer, rdl__now());
    }
}

static void run_later(struct rdl__loop *loop)
{
    struct rdl__link *l;

    while ((l = rdl__list_pop(&loop->later)) != NULL) {
        struct rdl__task *task = rdl__container(l, struct rdl__task, link);

        task->run(task, rdl__now());
    }
}

/* When is there something to do? */
static void set_next_turn(struct rdl__loop *loop)
{
    struct rdl__heap_node *first = rdl__heap_min(&loop->timers);

    if (!rdl__list_empty(&loop->mailbox))
        wake_soon(loop);
    for (size_t i = 0; i < loop->watch_count; i++)
        if (ready_for(loop->watches[i]) != 0)
            wake_soon(loop);
    if (first != NULL && first->at != RDL__NEVER)
        wake(loop, process_when(loop->process, first->at));
}

static void end(struct rdl__loop *loop)
{
    loop->ended = true;
    if (rdl__heap_min(&loop->timers) != NULL)
        violated("nothing is left behind", "a timer is set when the loop ends");
    if (!rdl__list_empty(&loop->later))
        violated("nothing is left behind", "something was put off when the loop ends");
    if (loop->watch_count > 0)
        violated("nothing is left behind", "a descriptor is watched when the loop ends");
    fibre_wake(loop->stopper, 0);
}

static void turn(struct rdl__loop *loop)
{
    static void (*const parts[3])(struct rdl__loop *) = {run_watches, run_tasks, run_timers};
    size_t first = draw(3);
    size_t step = 1 + draw(2);

    loop_runs(loop);
    loop->sleep++;
    if (loop->late)
        run_tasks(loop);
    loop->late = false;
    for (size_t i = 0; i < 3; i++)
        parts[(first + i * step) % 3](loop);
    run_later(loop);
    if (loop->stopping && rdl__list_empty(&loop->mailbox))
        end(loop);
    else
        set_next_turn(loop);
    loop->sleep++;
    loop_runs(NULL);
}

static void on_turn(struct event *e)
{
    struct rdl__loop *loop = rdl__container(e, struct rdl__loop, turn);

    loop->due = true;
    if (loop->thread != NULL)
        fibre_wake(loop->thread, 0);
    else
        turn(loop);
}

static void be_loop(void *arg)
{
    struct rdl__loop *loop = arg;

    while (!loop->ended) {
        while (!loop->due)
            fibre_wait(RDL__NEVER);
        loop->due = false;
        turn(loop);
    }
}

/* ---- loop.h ----------------------------------------------------------------------------------------------------- */

int rdl__loop_start(const struct rdl__mem *mem, struct rdl__loop **ret_loop, rdl_err_t *err)
{
    struct rdl__loop *loop = rdl__zalloc(mem, sizeof *loop);

    if (loop == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    loop->mem = mem;
    loop->process = process_here();
    loop->sleep = 1;
    rdl__list_init(&loop->mailbox);
    rdl__list_init(&loop->later);
    event_init(&loop->turn, on_turn, loop->process);
    if (world_threaded())
        loop->thread = thread_start(loop->process, be_loop, loop);
    *ret_loop = loop;
    return RDL_OK;
}

struct rdl__loop *rdl__loop_stop(struct rdl__loop *loop)
{
    if (loop == NULL)
        return NULL;
    loop->stopping = true;
    loop->stopper = fibre_here();
    wake_soon(loop);
    while (!loop->ended)
        fibre_wait(RDL__NEVER);
    fibre_join(loop->thread);
    event_off(&loop->turn);
    rdl__free(loop->mem, loop, sizeof *loop);
    return NULL;
}

void rdl__loop_post(struct rdl__loop *loop, struct rdl__task *task)
{
    point("post");
    if (rdl__link_on(&task->link))
        return;
    rdl__list_push_back(&loop->mailbox, &task->link);
    if (!rdl__loop_here(loop))
        wake_soon(loop);
}

uint32_t rdl__loop_sleep(const struct rdl__loop *loop)
{
    point("loop's sleep");
    return loop->sleep;
}

void rdl__loop_post_late(struct rdl__loop *loop, struct rdl__task *task, uint32_t sleep, int64_t at)
{
    if (sleep % 2 == 0 || sleep != loop->sleep) {
        rdl__loop_post(loop, task);
        return;
    }
    point("post");
    if (sleep != loop->sleep || rdl__link_on(&task->link)) {
        rdl__loop_post(loop, task);
        return;
    }
    loop->late = true;
    rdl__list_push_back(&loop->mailbox, &task->link);
    wake(loop, process_when(loop->process, at));
}

void rdl__loop_unpost(struct rdl__loop *loop, struct rdl__task *task)
{
    (void)loop;
    point("unpost");
    rdl__list_remove(&task->link);
}

void rdl__loop_later(struct rdl__loop *loop, struct rdl__task *task)
{
    must_be_here(loop, "rdl__loop_later");
    if (!rdl__link_on(&task->link))
        rdl__list_push_back(&loop->later, &task->link);
}

void rdl__loop_not_later(struct rdl__loop *loop, struct rdl__task *task)
{
    must_be_here(loop, "rdl__loop_not_later");
    rdl__list_remove(&task->link);
}

void rdl__loop_timer(struct rdl__loop *loop, struct rdl__timer *timer, int64_t at)
{
    must_be_here(loop, "rdl__loop_timer");
    rdl__heap_move(&loop->timers, &timer->node, at);
}

void rdl__loop_timer_off(struct rdl__loop *loop, struct rdl__timer *timer)
{
    if (rdl__heap_has(&timer->node))
        must_be_here(loop, "rdl__loop_timer_off");
    rdl__heap_remove(&loop->timers, &timer->node);
}

bool rdl__loop_here(const struct rdl__loop *loop)
{
    return loop != NULL && loop == loop_running();
}

/* ---- watch.h ---------------------------------------------------------------------------------------------------- */

static void on_ready(void *arg)
{
    wake_soon(arg);
}

void rdl__watch_init(struct rdl__watch *watch, void (*ready)(struct rdl__watch *, int, int64_t))
{
    watch->fd = -1;
    watch->events = 0;
    watch->ready = ready;
}

void rdl__watch_set(struct rdl__loop *loop, struct rdl__watch *watch, int fd, int events)
{
    if (watch->events == events)
        return;
    must_be_here(loop, "rdl__watch_set");
    if (watch->events != 0) {
        loop->watches[find_watch(loop, watch)] = loop->watches[loop->watch_count - 1];
        loop->watch_count--;
        net_watch(watch->fd, NULL, NULL);
    }
    watch->events = events;
    watch->fd = fd;
    if (events == 0)
        return;
    if (loop->watch_count == MOST_WATCHES)
        die("sim: more than %d descriptors are watched", MOST_WATCHES);
    loop->watches[loop->watch_count++] = watch;
    net_watch(fd, on_ready, loop);
    if (ready_for(watch) != 0)
        wake_soon(loop);
}
