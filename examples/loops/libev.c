/* SPDX-License-Identifier: MIT */
/* libev.c - redlatch in a loop of libev. */
#include "job.h"

#include <ev.h>

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)events;
    if (!jobs_go_on())
        ev_io_stop(loop, watcher); /* the loop ends with its last watcher */
}

int main(int argc, char **argv)
{
    int fd = jobs_begin(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    struct ev_loop *loop = ev_default_loop(0);
    ev_io watcher;

    if (fd >= 0) {
        ev_io_init(&watcher, on_readable, fd, EV_READ);
        ev_io_start(loop, &watcher);
        ev_run(loop, 0);
    }
    ev_loop_destroy(loop);
    return jobs_end();
}
