/* SPDX-License-Identifier: MIT */
/* child.c - the command: started, signalled, ended, its status taken.
 *
 * Starting. The library has threads, so between fork and exec only async-signal-safe calls are allowed: paths,
 * arguments and environment are laid out before the fork (struct plan), and the child only restores signals and tries
 * the paths. All signals are blocked across the fork: the child still has our handlers, and what they write would reach
 * our own pipe.
 *
 * Whether exec worked comes through a pipe that exec closes: nothing in it is success, an errno is the failure. It is
 * read when the child has ended, so a slow exec holds nothing up.
 *
 * When this program dies without having ended the command, the kernel kills the command (PR_SET_PDEATHSIG), because the
 * lock is no longer renewed. The signal comes when the thread that forked ends, which must therefore be the main one.
 */
#include "tools/redlatch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <paths.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char token_key[] = "REDLATCH_TOKEN=";
static const char name_key[] = "REDLATCH_NAME=";

/* Everything that the child needs, made before the fork. */
struct plan {
    char *const *argv;
    bool searched;  /* in the directories of PATH, because the name has no slash */
    char **paths;   /* to try in turn, ended by NULL; owned */
    char **shell;   /* arguments for /bin/sh when the file is a script without "#!"; [1] is the path; array owned */
    char **environ; /* array owned, and its first `facts` strings */
    size_t facts;
};

/* ---- laying out ------------------------------------------------------------------------------------------------- */

static char **free_paths(char **paths)
{
    for (size_t i = 0; paths != NULL && paths[i] != NULL; i++)
        free(paths[i]);
    free(paths);
    return NULL;
}

static void plan_done(struct plan *p)
{
    free_paths(p->paths);
    free(p->shell);
    for (size_t i = 0; i < p->facts; i++)
        free(p->environ[i]);
    free(p->environ);
}

static size_t count_strings(char *const *list)
{
    size_t n = 0;

    while (list[n] != NULL)
        n++;
    return n;
}

/* "dir/file"; an empty directory is the present one. */
static char *join(const char *dir, size_t dir_len, const char *file)
{
    char *path = NULL;

    if (asprintf(&path, "%.*s%s%s", (int)dir_len, dir, dir_len > 0 ? "/" : "", file) < 0)
        return NULL;
    return path;
}

static bool is_searched_for(const char *file)
{
    return file[0] != '\0' && strchr(file, '/') == NULL;
}

/* Where `file` may be: in each directory of PATH, or where it says itself. NULL without memory. */
static char **make_paths(const char *file)
{
    const char *path = getenv("PATH");
    const char *search = !is_searched_for(file) ? "" : path != NULL ? path : _PATH_DEFPATH;
    size_t count = 1;
    char **paths;

    for (const char *p = search; *p != '\0'; p++)
        count += *p == ':';
    paths = calloc(count + 1, sizeof *paths);
    for (size_t i = 0; paths != NULL && i < count; i++) {
        size_t len = strcspn(search, ":");

        paths[i] = join(search, len, file);
        if (paths[i] == NULL)
            return free_paths(paths);
        search += len + 1;
    }
    return paths;
}

static bool has_key(const char *entry, const char *key)
{
    return strncmp(entry, key, strlen(key)) == 0;
}

/* The present environment with our facts in front, in place of inherited ones: name, and token if there is one. False
 * without memory. */
static bool make_environ(struct plan *p, const struct child_facts *facts)
{
    char *entry;

    if ((p->environ = calloc(count_strings(environ) + 3, sizeof *p->environ)) == NULL)
        return false;
    if (asprintf(&entry, "%s%s", name_key, facts->name) < 0)
        return false;
    p->environ[p->facts++] = entry;
    if (facts->token > 0) {
        if (asprintf(&entry, "%s%" PRId64, token_key, facts->token) < 0)
            return false;
        p->environ[p->facts++] = entry;
    }
    for (size_t i = 0, n = p->facts; environ[i] != NULL; i++)
        if (!has_key(environ[i], token_key) && !has_key(environ[i], name_key))
            p->environ[n++] = environ[i];
    return true;
}

/* Call plan_done in any case. */
static int plan_make(struct plan *p, char *const argv[], const struct child_facts *facts)
{
    size_t argc = count_strings(argv);

    *p = (struct plan){.argv = argv, .searched = is_searched_for(argv[0]), .paths = make_paths(argv[0])};
    p->shell = calloc(argc + 2, sizeof *p->shell);
    if (p->paths != NULL && p->shell != NULL && make_environ(p, facts)) {
        p->shell[0] = (char *)"sh";
        memcpy(p->shell + 2, argv + 1, (argc - 1) * sizeof *argv);
        return 0;
    }
    errno = ENOMEM;
    return -1;
}

/* ---- in the child: async-signal-safe calls only ----------------------------------------------------------------- */

/* Says "not here, perhaps in the next directory". */
static bool is_elsewhere(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR || errnum == ESTALE || errnum == ENODEV || errnum == ETIMEDOUT;
}

/* Returns only when no path could be executed, with the errno that tells most. For a name that was searched for that is
 * EACCES when there was such a file at all; a directory of PATH that we may not look into is as good as one without it.
 */
static int execute(const struct plan *p)
{
    int result = ENOENT;

    for (size_t i = 0; p->paths[i] != NULL; i++) {
        execve(p->paths[i], p->argv, p->environ);
        if (errno == ENOEXEC) {
            p->shell[1] = p->paths[i];
            execve(_PATH_BSHELL, p->shell, p->environ);
        }
        if (!p->searched || (errno != EACCES && !is_elsewhere(errno)))
            return errno;
        if (errno == EACCES && access(p->paths[i], F_OK) == 0)
            result = EACCES;
    }
    return result;
}

static _Noreturn void run_child(const struct plan *p, pid_t parent, int report_fd)
{
    int errnum;
    ssize_t n;

    prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
    if (getppid() != parent) /* it died before prctl */
        raise(SIGKILL);
    signals_restore();
    errnum = execute(p);
    n = write(report_fd, &errnum, sizeof errnum);
    (void)n;
    _exit(127);
}

/* ---- starting --------------------------------------------------------------------------------------------------- */

/* Fork with everything made: the plan, the family, the pipe. Returns the child's pid, or -1 with errno set. */
static pid_t fork_child(const struct plan *plan, int report_fd)
{
    pid_t parent = getpid();
    pid_t pid;

    signals_hold();
    pid = fork();
    if (pid == 0)
        run_child(plan, parent, report_fd);
    signals_release();
    return pid;
}

int child_start(struct child *c, char *const argv[], const struct child_facts *facts)
{
    struct child started = {.report_fd = -1};
    struct plan plan = {0};
    int ends[2] = {-1, -1};
    int saved;

    if (plan_make(&plan, argv, facts) == 0 && family_begin(&started.family) == 0 && pipe2(ends, O_CLOEXEC) == 0)
        started.pid = fork_child(&plan, ends[1]);
    else
        started.pid = -1;
    saved = errno;
    plan_done(&plan);
    if (ends[1] >= 0)
        close(ends[1]);
    if (started.pid > 0) {
        started.report_fd = ends[0];
        *c = started;
        return 0;
    }
    if (ends[0] >= 0)
        close(ends[0]);
    family_done(&started.family);
    errno = saved;
    return -1;
}

void child_done(struct child *c)
{
    if (c->report_fd >= 0 && c->pid != 0)
        close(c->report_fd);
    family_done(&c->family);
}

/* The child has ended, so the pipe holds its report or nothing; reading does not wait. */
static void read_report(struct child *c)
{
    int errnum;

    if (read(c->report_fd, &errnum, sizeof errnum) == (ssize_t)sizeof errnum)
        c->exec_errno = errnum;
    close(c->report_fd);
    c->report_fd = -1;
}

void child_reap(struct child *c)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != c->pid || c->ended)
            continue;
        c->ended = true;
        c->status = status;
        read_report(c);
    }
}

/* ---- signals ---------------------------------------------------------------------------------------------------- */

/* A terminal that hangs up tells the leader of its session alone, who has to pass it on; SIGCONT comes along for those
 * that are stopped. */
static bool is_for_leader(int signo)
{
    return (signo == SIGHUP || signo == SIGCONT) && getsid(0) == getpid();
}

void child_forward(const struct child *c, const struct signal_event *event)
{
    if (c->pid == 0 || c->ended)
        return;
    if (event->from_terminal && getpgid(c->pid) == getpgrp() && !is_for_leader(event->signo))
        return;
    kill(c->pid, event->signo);
}

static pid_t living(const struct child *c)
{
    return c->ended ? 0 : c->pid;
}

void child_terminate(const struct child *c)
{
    family_signal(&c->family, living(c), SIGTERM);
    family_signal(&c->family, living(c), SIGCONT); /* a stopped process acts on SIGTERM only when it goes on */
}

void child_kill(const struct child *c)
{
    family_signal(&c->family, living(c), SIGKILL);
}

bool child_family_lives(const struct child *c)
{
    return !c->ended || family_signal(&c->family, 0, 0) > 0;
}
