/* SPDX-License-Identifier: MIT */
/* glib.c - redlatch in a main loop of GLib, and so of GTK. */
#include "job.h"

#include <glib-unix.h>
#include <glib.h>

static gboolean on_readable(gint fd, GIOCondition condition, gpointer loop)
{
    (void)fd;
    (void)condition;
    if (jobs_go_on())
        return G_SOURCE_CONTINUE;
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

int main(int argc, char **argv)
{
    int fd = jobs_begin(argc > 1 ? argv[1] : "redis://127.0.0.1:6379");
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);

    if (fd >= 0) {
        g_unix_fd_add(fd, G_IO_IN, on_readable, loop);
        g_main_loop_run(loop);
    }
    g_main_loop_unref(loop);
    return jobs_end();
}
