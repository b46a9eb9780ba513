/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct process {
    pid_t pid;
    pid_t parent;
    char state;
    unsigned long long birth; /* in clock ticks since boot */
};

struct snapshot {
    struct process *list;
    size_t count;
    size_t cap;
};

/* Read /proc/PID/stat (proc(5)). The second field is the program's name in brackets, which may hold anything, brackets
 * and blanks too; the rest follows the last closing one. */
static bool read_process(pid_t pid, struct process *ret)
{
    char path[48];
    char text[1024];
    struct process p = {.pid = pid};
    const char *rest;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    rest = strrchr(text, ')');
    if (rest == NULL ||
        sscanf(rest + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &p.state,
               &p.parent, &p.birth) != 3)
        return false;
    *ret = p;
    return true;
}

/* ---- a look at all processes ------------------------------------------------------------------------------------ */

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a;
    const struct process *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool add(struct snapshot *s, const struct process *p)
{
    if (s->count == s->cap) {
        size_t cap = s->cap == 0 ? 256 : s->cap * 2;
        struct process *list = realloc(s->list, cap * sizeof *list);

        if (list == NULL)
            return false;
        s->list = list;
        s->cap = cap;
    }
    s->list[s->count++] = *p;
    return true;
}

/* Add the process, unless it cannot be read: then it has ended. False: no memory. */
static bool add_pid(struct snapshot *s, pid_t pid)
{
    struct process p;

    return !read_process(pid, &p) || add(s, &p);
}

/* All processes, by pid. */
static void take(struct snapshot *s)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        int pid = atoi(entry->d_name); /* 0 for what is no number */

        if (pid > 0 && !add_pid(s, pid))
            break;
    }
    if (dir != NULL)
        closedir(dir);
    if (s->count > 0)
        qsort(s->list, s->count, sizeof *s->list, by_pid);
}

static const struct process *lookup(const struct snapshot *s, pid_t pid)
{
    struct process key = {.pid = pid};

    return s->count == 0 ? NULL : bsearch(&key, s->list, s->count, sizeof *s->list, by_pid);
}

/* ---- who belongs to it ------------------------------------------------------------------------------------------ */

/* The kernel lists the children by the thread that started them; whoever exec'ed us did so as the main one. */
int family_begin(struct family *ret)
{
    struct snapshot s = {0};
    char path[64];
    FILE *in;
    int pid;
    bool whole = true;

    prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    in = fopen(path, "re");
    while (in != NULL && whole && fscanf(in, "%d", &pid) == 1)
        whole = add_pid(&s, pid);
    if (in != NULL)
        fclose(in);
    *ret = (struct family){.strangers = s.list, .count = s.count};
    if (whole)
        return 0;
    family_done(ret);
    errno = ENOMEM;
    return -1;
}

void family_done(struct family *f)
{
    free(f->strangers);
    *f = (struct family){0};
}

static bool is_stranger(const struct family *f, const struct process *p)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->strangers[i].pid == p->pid && f->strangers[i].birth == p->birth)
            return true;
    return false;
}

/* Whether the line of its parents leads to us, and not through a stranger. The snapshot is not taken at one instant, so
 * parents might form a circle in it; no line is longer than the list. */
static bool belongs(const struct family *f, const struct snapshot *s, const struct process *p)
{
    pid_t self = getpid();

    for (size_t steps = 0; p != NULL && steps <= s->count; steps++) {
        if (p->parent == self)
            return !is_stranger(f, p);
        p = lookup(s, p->parent);
    }
    return false;
}

/* ---- signals ---------------------------------------------------------------------------------------------------- */

/* False: it is gone, or not ours to signal. */
static bool reach(pid_t pid, int signo)
{
    return kill(pid, signo) == 0;
}

size_t family_signal(const struct family *f, pid_t first, int signo)
{
    struct snapshot s = {0};
    size_t count = 0;

    take(&s);
    if (first > 0 && reach(first, signo))
        count++;
    for (size_t i = 0; i < s.count; i++) {
        const struct process *p = &s.list[i];

        if (p->pid == first || p->state == 'Z' || p->state == 'X' || !belongs(f, &s, p))
            continue;
        if (reach(p->pid, signo))
            count++;
    }
    free(s.list);
    return count;
}
