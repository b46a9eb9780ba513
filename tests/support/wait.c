/* SPDX-License-Identifier: MIT */
#include "tests/support/wait.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t now_ms(void)
{
    return now_us() / 1000;
}

void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

struct timespec until_ms(int64_t ms)
{
    int64_t due = now_us() + ms * 1000;

    return (struct timespec){.tv_sec = due / 1000000, .tv_nsec = due % 1000000 * 1000};
}

void let_pass_ms(int64_t ms)
{
    struct timespec due = until_ms(ms);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        ;
}

static const char *limited;

static void took_too_much(int signo)
{
    static const char text[] = "tests/support: more of a processor than it may takes: ";

    (void)signo;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)!write(STDERR_FILENO, limited, strlen(limited));
    abort();
}

int64_t user_us(void)
{
    struct rusage spent;

    if (getrusage(RUSAGE_SELF, &spent) != 0)
        die("no account of a processor");
    return spent.ru_utime.tv_sec * 1000000 + spent.ru_utime.tv_usec;
}

void limit_user_us(int64_t us, const char *what)
{
    const struct itimerval limit = {.it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};

    limited = what;
    if (signal(SIGVTALRM, took_too_much) == SIG_ERR || setitimer(ITIMER_VIRTUAL, &limit, NULL) != 0)
        die("no limit of a processor");
}

void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("tests/support: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

void meet(atomic_uint *here, unsigned party)
{
    unsigned all = (atomic_fetch_add(here, 1) / party + 1) * party;

    for (unsigned spins = 1; atomic_load(here) < all; spins++)
        if (spins % 100000 == 0)
            (void)sched_yield(); /* they may want this very processor */
}

void *must_alloc(size_t size)
{
    void *block = calloc(1, size);

    if (block == NULL)
        die("out of memory");
    return block;
}

void *must_realloc(void *block, size_t size)
{
    if ((block = realloc(block, size)) == NULL)
        die("out of memory");
    return block;
}

char *must_format(const char *format, ...)
{
    va_list args;
    char *text = NULL;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        die("out of memory");
    va_end(args);
    return text;
}
