/* SPDX-License-Identifier: MIT */
#include "tools/redlatch/signals.h"

#include "tools/redlatch/exitcode.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* Signals that a program is sent by others and can catch, beside the real-time ones. Those that report a fault of its
 * own (SIGSEGV, SIGABRT, ...) keep their default, and so do SIGTTIN and SIGTTOU: the kernel sends them to the whole
 * process group, which then stops as one. */
static const struct handled {
    int signo;
    enum signal_kind kind;
    bool terminal; /* terminals send it, to their whole foreground process group */
} handled[] = {
    {.signo = SIGCHLD, .kind = SIGNAL_CHILD},
    {.signo = SIGHUP, .kind = SIGNAL_ENDS, .terminal = true},
    {.signo = SIGINT, .kind = SIGNAL_ENDS, .terminal = true},
    {.signo = SIGQUIT, .kind = SIGNAL_ENDS, .terminal = true},
    {.signo = SIGTERM, .kind = SIGNAL_ENDS},
    {.signo = SIGUSR1, .kind = SIGNAL_ENDS},
    {.signo = SIGUSR2, .kind = SIGNAL_ENDS},
    {.signo = SIGALRM, .kind = SIGNAL_ENDS},
    {.signo = SIGVTALRM, .kind = SIGNAL_ENDS},
    {.signo = SIGPROF, .kind = SIGNAL_ENDS},
    {.signo = SIGXCPU, .kind = SIGNAL_ENDS},
    {.signo = SIGIO, .kind = SIGNAL_ENDS},
    {.signo = SIGPWR, .kind = SIGNAL_ENDS},
    {.signo = SIGTSTP, .kind = SIGNAL_STOPS, .terminal = true},
    {.signo = SIGCONT, .kind = SIGNAL_TELLS, .terminal = true},
    {.signo = SIGWINCH, .kind = SIGNAL_TELLS, .terminal = true},
};

static const struct handled real_time = {.kind = SIGNAL_ENDS};

#define HANDLED_COUNT (sizeof handled / sizeof *handled)

static int pipe_fd[2] = {-1, -1};
static volatile sig_atomic_t deferred;
static void (*volatile last_act)(void); /* before what ends at once */

/* Signals that found the pipe full: once each, however often they came, as the kernel does with standard signals. */
enum missed { NOT_MISSED, MISSED, MISSED_FROM_TERMINAL };
static volatile sig_atomic_t missed[NSIG];

/* As found at the start. Indexed by signal; `changed` tells which. */
static struct sigaction found[NSIG];
static bool changed[NSIG];
static sigset_t found_mask;
static sigset_t own_mask;

static const struct handled *handled_of(int signo)
{
    for (size_t i = 0; i < HANDLED_COUNT; i++)
        if (handled[i].signo == signo)
            return &handled[i];
    return &real_time;
}

static void on_signal(int signo, siginfo_t *info, void *context)
{
    const struct handled *row = handled_of(signo);
    struct signal_event event = {
        .signo = signo,
        .kind = row->kind,
        .from_terminal = row->terminal && info->si_code == SI_KERNEL,
    };
    int saved = errno;

    (void)context;
    if (!deferred && event.kind == SIGNAL_ENDS) {
        if (last_act != NULL)
            last_act();
        _exit(EXITCODE_SIGNAL + signo);
    }
    /* Written whole or not at all. */
    if (write(pipe_fd[1], &event, sizeof event) < 0)
        missed[signo] = event.from_terminal ? MISSED_FROM_TERMINAL : MISSED;
    errno = saved;
}

/* Returns 0 or -1. A signal that the caller had ignored is left alone, but for SIGCHLD: without it no status reaches
 * us. */
static int change(int signo, const struct sigaction *action)
{
    if (sigaction(signo, NULL, &found[signo]) < 0)
        return -1;
    if (found[signo].sa_handler == SIG_IGN && signo != SIGCHLD)
        return 0;
    if (sigaction(signo, action, NULL) < 0)
        return -1;
    changed[signo] = true;
    sigdelset(&own_mask, signo);
    return 0;
}

int signals_open(void)
{
    struct sigaction catch = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    if (pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    sigfillset(&catch.sa_mask);
    pthread_sigmask(SIG_SETMASK, NULL, &found_mask);
    own_mask = found_mask;
    for (size_t i = 0; i < HANDLED_COUNT; i++)
        if (change(handled[i].signo, &catch) < 0)
            return -1;
    for (int signo = SIGRTMIN; signo <= SIGRTMAX; signo++)
        if (change(signo, &catch) < 0)
            return -1;
    /* A reader of our stderr that went away must not take the command down with us. */
    if (change(SIGPIPE, &ignore) < 0)
        return -1;
    pthread_sigmask(SIG_SETMASK, &own_mask, NULL);
    return pipe_fd[0];
}

void signals_defer(void)
{
    deferred = 1;
}

void signals_end_at_once(void (*last)(void))
{
    last_act = last;
    deferred = 0;
}

bool signals_read(struct signal_event *ret)
{
    if (read(pipe_fd[0], ret, sizeof *ret) == (ssize_t)sizeof *ret)
        return true;
    /* The pipe is empty, so nothing is missed from here on until it is full again, and then there is something to read.
     */
    for (int signo = 1; signo < NSIG; signo++) {
        if (missed[signo] == NOT_MISSED)
            continue;
        *ret = (struct signal_event){
            .signo = signo,
            .kind = handled_of(signo)->kind,
            .from_terminal = missed[signo] == MISSED_FROM_TERMINAL,
        };
        missed[signo] = NOT_MISSED;
        return true;
    }
    return false;
}

void signals_stop_self(void)
{
    struct sigaction stop = {.sa_handler = SIG_DFL};
    struct sigaction catch;

    sigaction(SIGTSTP, &stop, &catch);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &catch, NULL);
}

void signals_hold(void)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

void signals_release(void)
{
    pthread_sigmask(SIG_SETMASK, &own_mask, NULL);
}

void signals_restore(void)
{
    for (int signo = 1; signo < NSIG; signo++)
        if (changed[signo])
            sigaction(signo, &found[signo], NULL);
    pthread_sigmask(SIG_SETMASK, &found_mask, NULL);
}
