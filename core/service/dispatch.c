/* SPDX-License-Identifier: MIT */
#include "core/service/dispatch.h"

#include "core/base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_task(struct rdl__task *task, int64_t now)
{
    (void)now;
    (void)rdl__dispatch_run(rdl__container(task, struct rdl__dispatch, task));
}

int rdl__dispatch_init(struct rdl__dispatch *d, struct rdl__loop *loop, bool with_fd, rdl_err_t *err)
{
    if (rdl__mutex_init(&d->mu) < 0)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    d->loop = loop;
    d->fd = with_fd ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    rdl__task_init(&d->task, on_task);
    rdl__list_init(&d->ready);
    d->running = false;
    if (with_fd && d->fd < 0) {
        (void)rdl__err_set(err, RDL_ENOMEM, "cannot make a descriptor: %s", strerror(errno));
        rdl__mutex_done(&d->mu);
        d->loop = NULL;
        return RDL_ENOMEM;
    }
    return RDL_OK;
}

void rdl__dispatch_done(struct rdl__dispatch *d)
{
    if (d->fd >= 0)
        (void)close(d->fd);
    d->fd = -1;
    rdl__mutex_done(&d->mu);
}

void rdl__dispatch_push(struct rdl__dispatch *d, struct rdl__callback *callback)
{
    const uint64_t one = 1;
    bool first = false;

    rdl__mutex_lock(&d->mu);
    if (!rdl__link_on(&callback->link)) {
        first = rdl__list_empty(&d->ready);
        rdl__list_push_back(&d->ready, &callback->link);
    }
    rdl__mutex_unlock(&d->mu);
    if (!first)
        return;
    if (d->fd < 0)
        rdl__loop_post(d->loop, &d->task);
    else if (write(d->fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is readable, which is all that is wanted */
}

static size_t count(const struct rdl__link *list)
{
    size_t n = 0;

    for (const struct rdl__link *l = list->next; l != list; l = l->next)
        n++;
    return n;
}

/* Those that are due now, and no more: a callback that starts the next call must not keep its thread for ever. */
int rdl__dispatch_run(struct rdl__dispatch *d)
{
    const uint64_t one = 1;
    struct rdl__link *l;
    uint64_t ticks;
    size_t due;
    int ran = 0;

    if (d->fd >= 0 && read(d->fd, &ticks, sizeof ticks) < 0)
        ticks = 0;
    rdl__mutex_lock(&d->mu);
    d->running = true;
    d->runner = pthread_self();
    for (due = count(&d->ready); due > 0 && (l = rdl__list_pop(&d->ready)) != NULL; due--) {
        struct rdl__callback *callback = rdl__container(l, struct rdl__callback, link);

        rdl__mutex_unlock(&d->mu);
        callback->run(callback);
        ran++;
        rdl__mutex_lock(&d->mu);
    }
    d->running = false;
    due = rdl__list_empty(&d->ready) ? 0 : 1;
    rdl__mutex_unlock(&d->mu);
    if (due > 0 && d->fd < 0)
        rdl__loop_post(d->loop, &d->task);
    else if (due > 0 && write(d->fd, &one, sizeof one) < 0)
        return ran;
    return ran;
}

bool rdl__dispatch_here(struct rdl__dispatch *d)
{
    bool here;

    rdl__mutex_lock(&d->mu);
    here = d->running && pthread_equal(d->runner, pthread_self());
    rdl__mutex_unlock(&d->mu);
    return here;
}
