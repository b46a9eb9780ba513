/* SPDX-License-Identifier: MIT */
/* libevent.c - redlatch in a loop of libevent. */
#include "job.h"

#include <event2/event.h>

static void on_readable(evutil_socket_t fd, short events, void *base)
{
    (void)fd;
    (void)events;
    if (!jobs_go_on())
        event_base_loopbreak(base);
}

int main(int argc, char **argv)
{
    int fd = jobs_begin(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    struct event_base *base = event_base_new();
    struct event *watcher = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, base);

    if (fd >= 0) {
        event_add(watcher, NULL);
        event_base_dispatch(base);
    }
    event_free(watcher);
    event_base_free(base);
    return jobs_end();
}
