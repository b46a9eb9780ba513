/* SPDX-License-Identifier: MIT */
/* epoll.c - redlatch in a loop over epoll(7). */
#include "job.h"

#include <sys/epoll.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int fd = jobs_begin(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event watched = {.events = EPOLLIN, .data.fd = fd};
    struct epoll_event ready;

    if (fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &watched) == 0)
        do
            epoll_wait(set, &ready, 1, -1); /* a program has more to watch, and looks at ready.data */
        while (jobs_go_on());
    close(set);
    return jobs_end();
}
