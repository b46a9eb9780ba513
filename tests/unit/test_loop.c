/* SPDX-License-Identifier: MIT */
/* test_loop.c - the loop's thread: what is posted late. */
#include "core/io/loop.h"

#include "core/io/watch.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define LONG (60 * RDL__SEC)

/* What has run, in its order: its thread is the loop's. */
struct heard {
    struct rdl__loop *loop;
    struct rdl__task late, ends, starts;
    struct rdl__timer timer;
    struct rdl__watch watch;
    int fd; /* watched */
    char order[8];
    _Atomic unsigned count;
};

static struct rdl__mem mem;
static struct heard heard;

static void note(char what)
{
    heard.order[atomic_load(&heard.count)] = what;
    atomic_fetch_add(&heard.count, 1);
}

static void on_late(struct rdl__task *task, int64_t now)
{
    (void)task;
    (void)now;
    note('l');
}

static void on_ready(struct rdl__watch *watch, int events, int64_t now)
{
    char byte;

    (void)events;
    (void)now;
    cr_assert_eq(read(watch->fd, &byte, 1), 1);
    note('w');
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    (void)timer;
    (void)now;
    note('t');
}

static void start(struct rdl__task *task, int64_t now)
{
    (void)task;
    (void)now;
    rdl__watch_set(heard.loop, &heard.watch, heard.fd, RDL__READABLE);
    rdl__loop_timer(heard.loop, &heard.timer, rdl__now() + LONG);
    note('s');
}

static void end(struct rdl__task *task, int64_t now)
{
    (void)task;
    (void)now;
    rdl__watch_set(heard.loop, &heard.watch, -1, 0);
    rdl__loop_timer_off(heard.loop, &heard.timer);
    note('e');
}

static void until_heard(unsigned count)
{
    while (atomic_load(&heard.count) < count)
        (void)sched_yield();
}

/* The number of a sleep, which has begun. */
static uint32_t until_asleep(void)
{
    uint32_t sleep;

    while ((sleep = rdl__loop_sleep(heard.loop)) % 2 == 0)
        (void)sched_yield();
    return sleep;
}

/* A loop that watches a pipe and has a timer in LONG; returns the pipe's other end. */
static int begin(void)
{
    int fds[2];

    memset(&heard, 0, sizeof heard);
    rdl__mem_init(&mem, NULL);
    cr_assert_eq(pipe(fds), 0);
    heard.fd = fds[0];
    rdl__task_init(&heard.starts, start);
    rdl__task_init(&heard.late, on_late);
    rdl__task_init(&heard.ends, end);
    rdl__timer_init(&heard.timer, on_timer);
    rdl__watch_init(&heard.watch, on_ready);
    cr_assert_eq(rdl__loop_start(&mem, &heard.loop, NULL), RDL_OK);
    rdl__loop_post(heard.loop, &heard.starts);
    until_heard(1);
    return fds[1];
}

static void expect_order(int fd, const char *order)
{
    rdl__loop_post(heard.loop, &heard.ends);
    heard.loop = rdl__loop_stop(heard.loop);
    (void)close(fd);
    (void)close(heard.fd);
    cr_assert_str_eq(heard.order, order);
}

Test(loop, what_is_late_comes_before_what_wakes_it, .timeout = 10)
{
    int fd = begin();

    rdl__loop_post_late(heard.loop, &heard.late, until_asleep(), RDL__NEVER);
    cr_assert_eq(write(fd, "", 1), 1);
    until_heard(3);
    expect_order(fd, "slwe");
}

Test(loop, what_is_late_comes_before_what_is_posted_behind_it, .timeout = 10)
{
    int fd = begin();

    rdl__loop_post_late(heard.loop, &heard.late, until_asleep(), RDL__NEVER);
    expect_order(fd, "sle");
}

Test(loop, late_is_by_its_time, .timeout = 10)
{
    int fd = begin();

    rdl__loop_post_late(heard.loop, &heard.late, until_asleep(), rdl__now() + RDL__MS);
    until_heard(2);
    expect_order(fd, "sle");
}

Test(loop, nothing_is_late_when_the_loop_has_been_awake_since, .timeout = 10)
{
    int fd = begin();
    uint32_t sleep = until_asleep();

    cr_assert_eq(write(fd, "", 1), 1);
    until_heard(2);
    (void)until_asleep();
    rdl__loop_post_late(heard.loop, &heard.late, sleep, RDL__NEVER);
    until_heard(3);
    expect_order(fd, "swle");
}

Test(loop, nothing_is_late_that_was_asked_while_it_was_awake, .timeout = 10)
{
    int fd = begin();

    (void)until_asleep();
    rdl__loop_post_late(heard.loop, &heard.late, 0, RDL__NEVER);
    until_heard(2);
    expect_order(fd, "sle");
}
