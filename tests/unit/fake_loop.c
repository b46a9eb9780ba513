/* SPDX-License-Identifier: MIT */
#include "tests/unit/fake_loop.h"

#include "tests/support/wait.h"

enum { EVENTS_MAX = 10000000 }; /* a timer that rearms itself for now would go on for ever */

static const struct rdl__loop *clock_of;

int64_t rdl__now(void)
{
    return clock_of->now;
}

int64_t rdl__awake(void)
{
    return rdl__now();
}

int64_t rdl__wall_ms(void)
{
    return rdl__now() / RDL__MS;
}

void fake_loop_init(struct rdl__loop *loop, int64_t now)
{
    *loop = (struct rdl__loop){.now = now};
    rdl__list_init(&loop->tasks);
    clock_of = loop;
}

static bool run_task(struct rdl__loop *loop)
{
    struct rdl__link *l = rdl__list_pop(&loop->tasks);
    struct rdl__task *task = l != NULL ? rdl__container(l, struct rdl__task, link) : NULL;

    if (task != NULL)
        task->run(task, loop->now);
    return task != NULL;
}

static bool run_timer(struct rdl__loop *loop, int64_t until)
{
    struct rdl__heap_node *first = rdl__heap_min(&loop->timers);
    struct rdl__timer *timer;

    if (first == NULL || first->at > until)
        return false;
    timer = rdl__container(first, struct rdl__timer, node);
    if (first->at > loop->now)
        loop->now = first->at;
    rdl__heap_remove(&loop->timers, first);
    timer->fire(timer, loop->now);
    return true;
}

bool fake_loop_tasks(struct rdl__loop *loop)
{
    bool any = false;

    while (run_task(loop))
        any = true;
    return any;
}

void fake_loop_run(struct rdl__loop *loop, int64_t until)
{
    for (int events = 0; run_task(loop) || run_timer(loop, until); events++) {
        if (events == EVENTS_MAX)
            die("the loop does not come to rest");
    }
    loop->now = until;
}

/* ---- core/io/loop.h --------------------------------------------------------------------------------------------- */

void rdl__loop_post(struct rdl__loop *loop, struct rdl__task *task)
{
    if (!rdl__link_on(&task->link))
        rdl__list_push_back(&loop->tasks, &task->link);
}

void rdl__loop_post_late(struct rdl__loop *loop, struct rdl__task *task, uint32_t sleep, int64_t at)
{
    (void)sleep;
    (void)at;
    rdl__loop_post(loop, task);
}

uint32_t rdl__loop_sleep(const struct rdl__loop *loop)
{
    (void)loop;
    return 0;
}

void rdl__loop_unpost(struct rdl__loop *loop, struct rdl__task *task)
{
    (void)loop;
    rdl__list_remove(&task->link);
}

void rdl__loop_later(struct rdl__loop *loop, struct rdl__task *task)
{
    rdl__loop_post(loop, task);
}

void rdl__loop_not_later(struct rdl__loop *loop, struct rdl__task *task)
{
    rdl__loop_unpost(loop, task);
}

void rdl__loop_timer(struct rdl__loop *loop, struct rdl__timer *timer, int64_t at)
{
    rdl__heap_move(&loop->timers, &timer->node, at);
}

void rdl__loop_timer_off(struct rdl__loop *loop, struct rdl__timer *timer)
{
    rdl__heap_remove(&loop->timers, &timer->node);
}

bool rdl__loop_here(const struct rdl__loop *loop)
{
    (void)loop;
    return true;
}
