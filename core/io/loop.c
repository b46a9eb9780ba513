/* SPDX-License-Identifier: MIT */
/* loop.c - the loop thread, on libev.
 *
 * One timer descriptor on CLOCK_BOOTTIME serves all timers: libev's own timers stand still while the machine sleeps and
 * are rounded to milliseconds, and a lease is neither. One event descriptor wakes the loop, written only while it
 * sleeps; libev's own would abort the process where descriptors run out. Order within one turn: tasks that came while
 * it slept, descriptors and timers, other tasks, what was put off with rdl__loop_later, then sleep.
 *
 * libev aborts the process where memory runs out, too. So it watches three descriptors that are there from the
 * beginning, and has all the memory for them before the thread starts: the two above, and an epoll of ours, in which
 * all the others are. That is one more system call in a turn that has something to tell.
 */
#include "core/io/loop.h"

#include "core/base/err.h"
#include "core/base/sync.h"
#include "core/io/watch.h"

#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define READY_MAX 16 /* told at a time */

struct rdl__loop {
    /* immutable once started */
    const struct rdl__mem *mem;
    struct ev_loop *ev;
    pthread_t thread;
    int clock_fd;
    int wake_fd;
    int watch_fd; /* the epoll in which the watches are */

    /* loop thread only */
    struct ev_io wake;
    struct ev_check after_sleep;
    struct ev_io clock;
    struct ev_io watches;
    struct epoll_event ready[READY_MAX]; /* being told; data.ptr NULL: not watched any more */
    int ready_count;
    struct ev_prepare before_sleep;
    struct rdl__heap timers;
    struct rdl__link later;

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__link mailbox;
    int64_t armed;          /* what clock_fd is set to; the loop thread's while it is awake */
    _Atomic uint32_t sleep; /* odd: it sleeps; read without mu */
    bool needs_poke;        /* it sleeps, and nobody has woken it yet */
    bool stopping;
};

static struct rdl__task *next_task(struct rdl__loop *loop)
{
    struct rdl__link *l;

    rdl__mutex_lock(&loop->mu);
    l = rdl__list_pop(&loop->mailbox);
    rdl__mutex_unlock(&loop->mu);
    return l == NULL ? NULL : rdl__container(l, struct rdl__task, link);
}

static void poke(struct rdl__loop *loop)
{
    const uint64_t one = 1;

    if (write(loop->wake_fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is readable, which is all that is wanted */
}

/* As many as there are now: one that posts itself again must not keep the loop from its descriptors. */
static void run_tasks(struct rdl__loop *loop)
{
    struct rdl__task *task;
    int64_t now = rdl__now();
    size_t due = 0;

    rdl__mutex_lock(&loop->mu);
    for (struct rdl__link *l = loop->mailbox.next; l != &loop->mailbox; l = l->next)
        due++;
    rdl__mutex_unlock(&loop->mu);
    for (; due > 0 && (task = next_task(loop)) != NULL; due--)
        task->run(task, now);
}

static void run_timers(struct rdl__loop *loop)
{
    struct rdl__heap_node *first;
    int64_t now = rdl__now();

    while ((first = rdl__heap_min(&loop->timers)) != NULL && first->at <= now) {
        struct rdl__timer *timer = rdl__container(first, struct rdl__timer, node);

        rdl__heap_remove(&loop->timers, first);
        timer->fire(timer, now);
    }
}

static void on_wake(struct ev_loop *ev, struct ev_io *w, int revents)
{
    struct rdl__loop *loop = w->data;
    uint64_t pokes;

    (void)ev;
    (void)revents;
    if (read(loop->wake_fd, &pokes, sizeof pokes) < 0)
        return;
}

static void on_after_sleep(struct ev_loop *ev, struct ev_check *w, int revents)
{
    struct rdl__loop *loop = w->data;

    (void)ev;
    (void)revents;
    rdl__mutex_lock(&loop->mu);
    loop->needs_poke = false;
    if (atomic_load(&loop->sleep) % 2 != 0)
        (void)atomic_fetch_add(&loop->sleep, 1);
    rdl__mutex_unlock(&loop->mu);
    run_tasks(loop);
}

/* Serve the watches that are ready, or READY_MAX of them. */
static void serve_watches(struct rdl__loop *loop)
{
    int count = epoll_wait(loop->watch_fd, loop->ready, READY_MAX, 0);

    loop->ready_count = count > 0 ? count : 0;
    for (int i = 0; i < loop->ready_count; i++) {
        struct rdl__watch *watch = loop->ready[i].data.ptr;
        uint32_t got = loop->ready[i].events;
        int events = 0;

        if (watch == NULL)
            continue;
        if (got & (EPOLLIN | EPOLLERR | EPOLLHUP))
            events |= RDL__READABLE;
        if (got & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            events |= RDL__WRITABLE;
        if ((events &= watch->events) != 0)
            watch->ready(watch, events, rdl__now());
    }
    loop->ready_count = 0;
}

static void on_watches(struct ev_loop *ev, struct ev_io *w, int revents)
{
    (void)ev;
    (void)revents;
    serve_watches(w->data);
}

/* Should this thread have stood still, what has come is read before the time is up for it, as far as one turn reads. */
static void on_clock(struct ev_loop *ev, struct ev_io *w, int revents)
{
    struct rdl__loop *loop = w->data;
    uint64_t ticks;

    (void)ev;
    (void)revents;
    if (read(loop->clock_fd, &ticks, sizeof ticks) > 0)
        loop->armed = RDL__NEVER;
    serve_watches(loop);
    run_timers(loop);
}

static void arm(struct rdl__loop *loop)
{
    struct rdl__heap_node *first = rdl__heap_min(&loop->timers);
    int64_t at = first == NULL ? RDL__NEVER : first->at;
    struct itimerspec when = {0};

    /* A timer that was taken off leaves the descriptor armed too early: one idle wake-up is cheaper than a system call
     * for every deadline that is met. */
    if (at >= loop->armed)
        return;
    if (at < 1)
        at = 1; /* 0 would disarm */
    when.it_value.tv_sec = at / RDL__SEC;
    when.it_value.tv_nsec = at % RDL__SEC;
    if (timerfd_settime(loop->clock_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
        loop->armed = at;
}

static void run_later(struct rdl__loop *loop)
{
    struct rdl__link *l;

    while ((l = rdl__list_pop(&loop->later)) != NULL) {
        struct rdl__task *task = rdl__container(l, struct rdl__task, link);

        task->run(task, rdl__now());
    }
}

static void on_before_sleep(struct ev_loop *ev, struct ev_prepare *w, int revents)
{
    struct rdl__loop *loop = w->data;
    bool more;

    (void)revents;
    run_tasks(loop);
    run_later(loop);
    arm(loop);
    rdl__mutex_lock(&loop->mu);
    more = !rdl__list_empty(&loop->mailbox);
    loop->needs_poke = !more;
    if (!more)
        (void)atomic_fetch_add(&loop->sleep, 1);
    if (loop->stopping && !more)
        ev_break(ev, EVBREAK_ALL);
    rdl__mutex_unlock(&loop->mu);
    if (more)
        poke(loop);
}

static void *loop_main(void *arg)
{
    struct rdl__loop *loop = arg;

    (void)pthread_setname_np(pthread_self(), "redlatch");
    ev_run(loop->ev, 0);
    return NULL;
}

/* The C library takes thread-local storage out of the stack that is asked for. Where that alone is as much (EINVAL),
 * the thread has what the system gives any. */
static int start_with_stack(struct rdl__loop *loop)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);

    if (rc != 0)
        return rc;
    if ((rc = pthread_attr_setstacksize(&attr, RDL__LOOP_STACK)) == 0)
        rc = pthread_create(&loop->thread, &attr, loop_main, loop);
    (void)pthread_attr_destroy(&attr);
    return rc == EINVAL ? pthread_create(&loop->thread, NULL, loop_main, loop) : rc;
}

static int start_thread(struct rdl__loop *loop)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = start_with_stack(loop);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static struct rdl__loop *loop_free(struct rdl__loop *loop)
{
    if (loop == NULL)
        return NULL;
    if (loop->ev != NULL)
        ev_loop_destroy(loop->ev);
    if (loop->clock_fd >= 0)
        (void)close(loop->clock_fd);
    if (loop->wake_fd >= 0)
        (void)close(loop->wake_fd);
    if (loop->watch_fd >= 0)
        (void)close(loop->watch_fd);
    rdl__mutex_done(&loop->mu);
    rdl__free(loop->mem, loop, sizeof *loop);
    return NULL;
}

/* libev asks for its memory as it starts: for a struct and some tables, one of them by descriptors. That there is as
 * much is seen before, in the way in which it asks, where nothing that compilers know of blocks is of use. */
static bool has_memory_for_ev(int highest_fd)
{
    void *volatile block = NULL;

    block = realloc(block, 32768 + 64 * ((size_t)highest_fd + 8));
    free(block);
    return block != NULL;
}

static void start_watchers(struct rdl__loop *loop)
{
    ev_io_init(&loop->wake, on_wake, loop->wake_fd, EV_READ);
    ev_io_init(&loop->clock, on_clock, loop->clock_fd, EV_READ);
    ev_io_init(&loop->watches, on_watches, loop->watch_fd, EV_READ);
    ev_check_init(&loop->after_sleep, on_after_sleep);
    ev_prepare_init(&loop->before_sleep, on_before_sleep);
    loop->wake.data = loop->clock.data = loop->watches.data = loop->after_sleep.data = loop->before_sleep.data = loop;
    ev_io_start(loop->ev, &loop->wake);
    ev_check_start(loop->ev, &loop->after_sleep);
    ev_io_start(loop->ev, &loop->clock);
    ev_io_start(loop->ev, &loop->watches);
    ev_prepare_start(loop->ev, &loop->before_sleep);
    /* All may be due at once: that libev has a place for each, it learns by that being so. */
    ev_feed_event(loop->ev, &loop->wake, 0);
    ev_feed_event(loop->ev, &loop->after_sleep, 0);
    ev_feed_event(loop->ev, &loop->clock, 0);
    ev_feed_event(loop->ev, &loop->watches, 0);
    ev_feed_event(loop->ev, &loop->before_sleep, 0);
    (void)ev_clear_pending(loop->ev, &loop->wake);
    (void)ev_clear_pending(loop->ev, &loop->after_sleep);
    (void)ev_clear_pending(loop->ev, &loop->clock);
    (void)ev_clear_pending(loop->ev, &loop->watches);
    (void)ev_clear_pending(loop->ev, &loop->before_sleep);
}

int rdl__loop_start(const struct rdl__mem *mem, struct rdl__loop **ret_loop, rdl_err_t *err)
{
    struct rdl__loop *loop = rdl__zalloc(mem, sizeof *loop);
    int rc;

    if (loop == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    loop->mem = mem;
    loop->armed = RDL__NEVER;
    loop->clock_fd = loop->wake_fd = loop->watch_fd = -1;
    rdl__list_init(&loop->mailbox);
    rdl__list_init(&loop->later);
    if (rdl__mutex_init(&loop->mu) < 0) {
        rdl__free(mem, loop, sizeof *loop);
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    if ((loop->clock_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) < 0 ||
        (loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
        (loop->watch_fd = epoll_create1(EPOLL_CLOEXEC)) < 0) {
        rc = rdl__err_set(err, RDL_ENOMEM, "cannot make a descriptor: %s", strerror(errno));
        goto fail;
    }
    if (!has_memory_for_ev(loop->watch_fd)) {
        rc = rdl__err_set(err, RDL_ENOMEM, NULL);
        goto fail;
    }
    if ((loop->ev = ev_loop_new(EVFLAG_NOENV | EVFLAG_NOSIGMASK)) == NULL) {
        rc = rdl__err_set(err, RDL_ENOMEM, "cannot make an event loop: %s", strerror(errno));
        goto fail;
    }
    start_watchers(loop);
    if ((rc = start_thread(loop)) != 0) {
        rc = rdl__err_set(err, RDL_ENOMEM, "cannot start a thread: %s", strerror(rc));
        goto fail;
    }
    *ret_loop = loop;
    return RDL_OK;
fail:
    (void)loop_free(loop);
    return rc;
}

struct rdl__loop *rdl__loop_stop(struct rdl__loop *loop)
{
    if (loop == NULL)
        return NULL;
    rdl__mutex_lock(&loop->mu);
    loop->stopping = true;
    rdl__mutex_unlock(&loop->mu);
    poke(loop);
    (void)pthread_join(loop->thread, NULL);
    return loop_free(loop);
}

/* @thread any  @locks mu, and releases it */
static void post_and_unlock(struct rdl__loop *loop, struct rdl__task *task, bool wake)
{
    rdl__assert_locked(&loop->mu);
    wake = wake && loop->needs_poke && !rdl__link_on(&task->link);
    loop->needs_poke = loop->needs_poke && !wake;
    if (!rdl__link_on(&task->link))
        rdl__list_push_back(&loop->mailbox, &task->link);
    rdl__mutex_unlock(&loop->mu);
    if (wake)
        poke(loop);
}

void rdl__loop_post(struct rdl__loop *loop, struct rdl__task *task)
{
    rdl__mutex_lock(&loop->mu);
    post_and_unlock(loop, task, true);
}

uint32_t rdl__loop_sleep(const struct rdl__loop *loop)
{
    return atomic_load(&loop->sleep);
}

void rdl__loop_post_late(struct rdl__loop *loop, struct rdl__task *task, uint32_t sleep, int64_t at)
{
    rdl__mutex_lock(&loop->mu);
    post_and_unlock(loop, task, sleep % 2 == 0 || sleep != atomic_load(&loop->sleep) || at < loop->armed);
}

void rdl__loop_unpost(struct rdl__loop *loop, struct rdl__task *task)
{
    rdl__mutex_lock(&loop->mu);
    rdl__list_remove(&task->link);
    rdl__mutex_unlock(&loop->mu);
}

void rdl__loop_later(struct rdl__loop *loop, struct rdl__task *task)
{
    rdl__assert_on_loop(loop);
    if (!rdl__link_on(&task->link))
        rdl__list_push_back(&loop->later, &task->link);
}

void rdl__loop_not_later(struct rdl__loop *loop, struct rdl__task *task)
{
    rdl__assert_on_loop(loop);
    (void)loop;
    rdl__list_remove(&task->link);
}

void rdl__loop_timer(struct rdl__loop *loop, struct rdl__timer *timer, int64_t at)
{
    rdl__assert_on_loop(loop);
    rdl__heap_move(&loop->timers, &timer->node, at);
}

void rdl__loop_timer_off(struct rdl__loop *loop, struct rdl__timer *timer)
{
    if (rdl__heap_has(&timer->node))
        rdl__assert_on_loop(loop);
    rdl__heap_remove(&loop->timers, &timer->node);
}

bool rdl__loop_here(const struct rdl__loop *loop)
{
    return pthread_equal(pthread_self(), loop->thread) != 0;
}

/* ---- watch.h ---------------------------------------------------------------------------------------------------- */

void rdl__watch_init(struct rdl__watch *watch, void (*ready)(struct rdl__watch *, int, int64_t))
{
    watch->fd = -1;
    watch->events = 0;
    watch->ready = ready;
}

/* What was seen of it in this turn is not told any more. */
static void forget_ready(struct rdl__loop *loop, const struct rdl__watch *watch)
{
    for (int i = 0; i < loop->ready_count; i++)
        if (loop->ready[i].data.ptr == watch)
            loop->ready[i].data.ptr = NULL;
}

void rdl__watch_set(struct rdl__loop *loop, struct rdl__watch *watch, int fd, int events)
{
    struct epoll_event wanted = {.data.ptr = watch,
                                 .events = (events & RDL__READABLE ? (uint32_t)EPOLLIN : 0) |
                                           (events & RDL__WRITABLE ? (uint32_t)EPOLLOUT : 0)};
    int how = watch->events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

    rdl__assert_on_loop(loop);
    if (watch->events == events)
        return;
    if (events == 0)
        forget_ready(loop, watch);
    if (watch->events != 0)
        fd = watch->fd;
    watch->fd = fd;
    if (epoll_ctl(loop->watch_fd, how, fd, &wanted) == 0 || how == EPOLL_CTL_DEL)
        watch->events = events;
}
