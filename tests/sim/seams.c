/* SPDX-License-Identifier: MIT */
/* seams.c - the simulator's places to sleep, in place of core/base/sync.c. Whoever parks is a fibre and gives way.
 *
 * There is one thread, so a mutex that is found locked was locked twice by the same code, or was kept across a sleep.
 * Locking is inline in core/base/sync.h; the linker leads its pthread calls here (--wrap).
 */
#include "tests/sim/seams.h"
#include "core/base/clock.h"
#include "tests/sim/world.h"
#include "tests/support/wait.h"

#include <redlatch/error.h>
#include <string.h>

#define MOST_SLEEPERS 64
#define WAKE_DELAY_NS 20000 /* from a post until the sleeper runs, at most */

/* ---- mutexes ---------------------------------------------------------------------------------------------------- */

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

/* Its first byte says whether it is locked; all zero is what PTHREAD_MUTEX_INITIALIZER makes. */
static unsigned char *mark_of(pthread_mutex_t *m)
{
    return (unsigned char *)m;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
    (void)attr;
    memset(m, 0, sizeof(pthread_mutex_t));
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
    if (*mark_of(m) != 0)
        violated("mutexes are free when they end", "one is destroyed while it is locked");
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    if (*mark_of(m) != 0)
        violated("mutexes are short",
                 "one is locked while it is locked: twice by the same code, or kept across a sleep");
    *mark_of(m) = 1;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (*mark_of(m) != 1)
        violated("mutexes are unlocked by whoever locked them", "one is unlocked that is not locked");
    *mark_of(m) = 0;
    return 0;
}

bool seam_locked(const struct rdl__mutex *mu)
{
    return *(const unsigned char *)&mu->m != 0;
}

bool seam_blind(void)
{
    return false;
}

#ifdef REDLATCH_ASSERTS
unsigned *rdl__mutexes_held(void)
{
    static unsigned held; /* nobody is interrupted while it has one */

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

/* ---- parkers ---------------------------------------------------------------------------------------------------- */

/* Who sleeps where. */
static struct {
    const struct rdl__parker *parker;
    struct fibre *fibre;
} sleepers[MOST_SLEEPERS];

void rdl__parker_post(struct rdl__parker *p, uint32_t bits)
{
    (void)atomic_fetch_or_explicit(&p->word, bits, memory_order_acq_rel);
    for (size_t i = 0; i < MOST_SLEEPERS; i++)
        if (sleepers[i].parker == p)
            fibre_wake(sleepers[i].fibre, draw_from(0, WAKE_DELAY_NS));
}

void rdl__parker_post_with(struct rdl__parker *p, uint32_t bits, struct rdl__wakes *wakes)
{
    (void)wakes;
    rdl__parker_post(p, bits);
}

void rdl__wakes_send(struct rdl__wakes *wakes)
{
    (void)wakes;
}

static size_t free_place(void)
{
    for (size_t i = 0; i < MOST_SLEEPERS; i++)
        if (sleepers[i].parker == NULL)
            return i;
    die("sim: more than %d threads sleep", MOST_SLEEPERS);
}

uint32_t rdl__park_for(struct rdl__parker *p, uint32_t bits, int64_t deadline)
{
    while ((rdl__parker_peek(p) & bits) == 0) {
        size_t place = free_place();

        if (deadline <= rdl__now())
            break;
        sleepers[place].parker = p;
        sleepers[place].fibre = fibre_here();
        fibre_wait(process_when(process_here(), deadline));
        sleepers[place].parker = NULL;
    }
    return rdl__parker_peek(p);
}

uint32_t rdl__park(struct rdl__parker *p, int64_t deadline)
{
    return rdl__park_for(p, UINT32_MAX, deadline);
}
