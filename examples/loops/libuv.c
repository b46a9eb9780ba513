/* SPDX-License-Identifier: MIT */
/* libuv.c - redlatch in a loop of libuv. */
#include "job.h"

#include <uv.h>

static void on_readable(uv_poll_t *watcher, int status, int events)
{
    (void)status;
    (void)events;
    if (!jobs_go_on())
        uv_close((uv_handle_t *)watcher, NULL); /* the loop ends with its last handle */
}

int main(int argc, char **argv)
{
    int fd = jobs_begin(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    uv_loop_t *loop = uv_default_loop();
    uv_poll_t watcher;

    if (fd >= 0 && uv_poll_init(loop, &watcher, fd) == 0) {
        uv_poll_start(&watcher, UV_READABLE, on_readable);
        uv_run(loop, UV_RUN_DEFAULT);
    }
    uv_loop_close(loop);
    return jobs_end();
}
