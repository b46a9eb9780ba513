/* SPDX-License-Identifier: MIT */
/* sd_event.c - redlatch in a loop of systemd's sd-event(3). */
#include "job.h"

#include <stddef.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *loop)
{
    (void)source;
    (void)fd;
    (void)events;
    return jobs_go_on() ? 0 : sd_event_exit(loop, 0);
}

int main(int argc, char **argv)
{
    int fd = jobs_begin(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    sd_event *loop = NULL;

    if (fd >= 0 && sd_event_default(&loop) >= 0 && sd_event_add_io(loop, NULL, fd, EPOLLIN, on_readable, loop) >= 0)
        sd_event_loop(loop);
    sd_event_unref(loop);
    return jobs_end();
}
