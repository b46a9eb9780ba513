/* SPDX-License-Identifier: MIT */
/* dispatch.h - running the user's callbacks, on the loop or in rdl_client_dispatch. */
#ifndef REDLATCH_SERVICE_DISPATCH_H
#define REDLATCH_SERVICE_DISPATCH_H

#include "core/base/list.h"
#include "core/base/sync.h"
#include "core/io/loop.h"

#include <stdbool.h>

/* A callback that is due; embedded in the call or record that it is about. */
struct rdl__callback {
    struct rdl__link link;
    void (*run)(struct rdl__callback *callback); /* may free what it is embedded in */
};

struct rdl__dispatch {
    struct rdl__loop *loop;
    int fd; /* -1: callbacks run on the loop */
    struct rdl__task task;
    struct rdl__mutex mu;
    struct rdl__link ready; /* under mu, like the rest */
    bool running;
    pthread_t runner;
};

/* fd mode when `with_fd`. RDL_OK or RDL_ENOMEM. */
int rdl__dispatch_init(struct rdl__dispatch *d, struct rdl__loop *loop, bool with_fd, rdl_err_t *err);
void rdl__dispatch_done(struct rdl__dispatch *d);

/* Queue the callback: it runs once, soon, never inside this call. Does nothing if it is queued already.  @thread any */
void rdl__dispatch_push(struct rdl__dispatch *d, struct rdl__callback *callback);

/* Run what is due on the calling thread; returns how many. */
int rdl__dispatch_run(struct rdl__dispatch *d);

/* Do callbacks run only when the program calls rdl_client_dispatch?  @thread that of callbacks */
static inline bool rdl__dispatch_waits(const struct rdl__dispatch *d)
{
    return d->fd >= 0;
}

bool rdl__dispatch_here(struct rdl__dispatch *d); /* is the calling thread inside a callback? */

#endif
