/* SPDX-License-Identifier: MIT */
/* sync.c - mutex, and the parker on a private futex.
 *
 * The kernel puts a thread to sleep only while the word is still what it was seen to be, and a post changes the word
 * before it wakes: there is no moment between looking and sleeping in which a post could be missed. Wakes without cause
 * (a signal, a late wake meant for an earlier parker at the same address) only lead to another look. */
#include "core/base/sync.h"

#include "core/base/clock.h"

#include <linux/futex.h>
#include <redlatch/error.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The kernel measures a futex's timeout on a clock that stands still while the machine is suspended. Looking at our own
 * clock once in a while bounds how late a deadline that passed during suspension is noticed. */
#define LONGEST_SLEEP (5 * RDL__SEC)

_Static_assert(sizeof(struct timespec) == 2 * sizeof(long), "SYS_futex reads two longs");

static void futex(struct rdl__parker *p, int op, uint32_t value, const struct timespec *timeout)
{
    (void)syscall(SYS_futex, &p->word, op, value, timeout, NULL, 0);
}

#ifdef REDLATCH_ASSERTS
unsigned *rdl__mutexes_held(void)
{
    static _Thread_local unsigned held;

    return &held;
}
#endif

int rdl__mutex_init(struct rdl__mutex *mu)
{
#ifdef REDLATCH_ASSERTS
    mu->holder = (pthread_t)0;
#endif
    return pthread_mutex_init(&mu->m, NULL) == 0 ? RDL_OK : RDL_ENOMEM;
}

void rdl__mutex_done(struct rdl__mutex *mu)
{
    (void)pthread_mutex_destroy(&mu->m);
}

void rdl__parker_post(struct rdl__parker *p, uint32_t bits)
{
    (void)atomic_fetch_or_explicit(&p->word, bits, memory_order_acq_rel);
    futex(p, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void sleep_while(struct rdl__parker *p, uint32_t value, int64_t ns)
{
    int64_t bounded = ns < LONGEST_SLEEP ? ns : LONGEST_SLEEP;
    struct timespec timeout = {.tv_sec = (time_t)(bounded / RDL__SEC), .tv_nsec = (long)(bounded % RDL__SEC)};

    futex(p, FUTEX_WAIT_PRIVATE, value, &timeout);
}

uint32_t rdl__park_for(struct rdl__parker *p, uint32_t bits, int64_t deadline)
{
    uint32_t posted;

    while (((posted = rdl__parker_peek(p)) & bits) == 0) {
        int64_t left = RDL__NEVER;

        if (deadline != RDL__NEVER && (left = deadline - rdl__now()) <= 0)
            return rdl__parker_peek(p);
        if (deadline == RDL__NEVER)
            futex(p, FUTEX_WAIT_PRIVATE, posted, NULL);
        else
            sleep_while(p, posted, left);
    }
    return posted;
}

uint32_t rdl__park(struct rdl__parker *p, int64_t deadline)
{
    return rdl__park_for(p, UINT32_MAX, deadline);
}
