/* SPDX-License-Identifier: MIT */
#include "tests/sim/hosts.h"

#include "core/base/hostlock.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MOST_OPEN 256
#define MOST_FILES 16
#define NAME_SIZE 64
#define FIRST_FD 3

struct file { /* is never removed */
    unsigned host;
    char name[NAME_SIZE];
    int64_t since;
};

static struct {
    struct {
        const struct process *process; /* NULL: closed */
        unsigned host;
        struct file *file; /* NULL: the directory */
    } open[MOST_OPEN];
    struct file files[MOST_FILES];
    size_t file_count;
    const struct process *dead[MOST_OPEN];
    size_t dead_count;
} hosts;

void hosts_begin(void)
{
    memset(&hosts, 0, sizeof hosts);
}

const char *host_dir(unsigned host)
{
    static const char *const dirs[MOST_HOSTS] = {"/host/0", "/host/1"};

    return dirs[host];
}

static bool is_dead(const struct process *process)
{
    for (size_t i = 0; i < hosts.dead_count; i++)
        if (hosts.dead[i] == process)
            return true;
    return false;
}

static void close_it(size_t i)
{
    if (hosts.open[i].file != NULL)
        hosts.open[i].file->since = world_now();
    hosts.open[i].process = NULL;
}

void hosts_bury(const struct process *process)
{
    hosts.dead[hosts.dead_count++] = process;
    for (size_t i = 0; i < MOST_OPEN; i++)
        if (hosts.open[i].process == process)
            close_it(i);
}

size_t hosts_open(void)
{
    size_t count = 0;

    for (size_t i = 0; i < MOST_OPEN; i++)
        count += hosts.open[i].process != NULL;
    return count;
}

static struct file *file_of(unsigned host, const char *name)
{
    for (size_t i = 0; i < hosts.file_count; i++)
        if (hosts.files[i].host == host && strcmp(hosts.files[i].name, name) == 0)
            return &hosts.files[i];
    return NULL;
}

static struct file *make_file(unsigned host, const char *name, size_t len)
{
    struct file *file = &hosts.files[hosts.file_count++];

    if (hosts.file_count == MOST_FILES || len >= NAME_SIZE)
        die("sim: a host has too many files, or a name is too long");
    file->host = host;
    (void)snprintf(file->name, sizeof file->name, "%.*s", (int)len, name);
    return file;
}

static const struct process *holder_of(const struct file *file)
{
    for (size_t i = 0; i < MOST_OPEN; i++)
        if (hosts.open[i].process != NULL && hosts.open[i].file == file)
            return hosts.open[i].process;
    return NULL;
}

struct host_lock host_lock(unsigned host, const char *name)
{
    const struct file *file = file_of(host, name);

    if (file == NULL)
        return (struct host_lock){.process = NULL};
    return (struct host_lock){.process = holder_of(file), .since = file->since};
}

static int open_it(unsigned host, struct file *file)
{
    size_t i = 0;

    while (i < MOST_OPEN && hosts.open[i].process != NULL)
        i++;
    if (i == MOST_OPEN)
        die("sim: more than %d descriptors of hosts are open", MOST_OPEN);
    hosts.open[i].process = process_here();
    hosts.open[i].host = host;
    hosts.open[i].file = file;
    return FIRST_FD + (int)i;
}

/* ---- hostlock.h -------------------------------------------------------------------------------------------------- */

int rdl__hostlock_dir(const char *path, int *ret_dir, rdl_err_t *err)
{
    (void)err;
    *ret_dir = open_it(strcmp(path, host_dir(0)) == 0 ? 0 : 1, NULL);
    return RDL_OK;
}

int rdl__hostlock_try(int dir, const char *name, size_t len, int *ret_lock)
{
    char text[NAME_SIZE];
    struct file *file;
    unsigned host;

    point("flock");
    if (is_dead(process_here()))
        return RDL_ETIMEDOUT;
    host = hosts.open[dir - FIRST_FD].host;
    (void)snprintf(text, sizeof text, "%.*s", (int)len, name);
    if ((file = file_of(host, text)) == NULL)
        file = make_file(host, name, len);
    if (holder_of(file) != NULL)
        return RDL_ETIMEDOUT;
    *ret_lock = open_it(host, file);
    file->since = world_now();
    say("has the host's lock of %s", text);
    return RDL_OK;
}

void rdl__hostlock_leave(int lock)
{
    if (lock < 0)
        return;
    point("flock");
    if (is_dead(process_here()))
        return;
    if (hosts.open[lock - FIRST_FD].process != process_here())
        violated("descriptors are closed once", "%d of a host is not open", lock);
    if (hosts.open[lock - FIRST_FD].file != NULL)
        say("leaves the host's lock of %s", hosts.open[lock - FIRST_FD].file->name);
    close_it((size_t)(lock - FIRST_FD));
}
