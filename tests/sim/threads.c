/* SPDX-License-Identifier: MIT */
/* threads.c - where the library's threads meet, in a world of threads: mutexes, the futex, thread-local memory,
 * pthread_self.
 *
 * core/base/sync.c is the library's own; its system call comes here, and so do the calls of pthread_mutex_ (--wrap).
 * Whoever finds a mutex locked waits for it, and if that closes a circle of threads that wait for each other a claim is
 * broken. The checkers look at the library between two points of any thread: they never lock what is locked (seams.h).
 *
 * The library has one thread-local variable and a key whose destructor runs when a thread ends. Each fibre has a value
 * of its own of the former, and ends like a thread. How many mutexes a thread has locked, which is asserted, each fibre
 * has for itself as well.
 */
#include "core/base/clock.h"
#include "core/base/sync.h"
#include "tests/sim/seams.h"
#include "tests/sim/world.h"
#include "tests/support/wait.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define MOST_SLEEPERS 64

/* ---- who sleeps where ------------------------------------------------------------------------------------------- */

static struct {
    const void *at;             /* NULL: it was woken */
    const struct mutex *wanted; /* NULL: it sleeps on a futex */
    struct fibre *fibre;        /* NULL: the place is free */
} sleepers[MOST_SLEEPERS];

static void sleep_at(const void *at, const struct mutex *wanted, int64_t until)
{
    size_t i = 0;

    while (i < MOST_SLEEPERS && sleepers[i].fibre != NULL)
        i++;
    if (i == MOST_SLEEPERS || fibre_here() == NULL)
        die("sim: more than %d threads sleep, or what is none", MOST_SLEEPERS);
    sleepers[i].at = at;
    sleepers[i].wanted = wanted;
    sleepers[i].fibre = fibre_here();
    fibre_wait(until);
    sleepers[i].fibre = NULL;
}

/* So many of those who sleep there. */
static void wake_at(const void *at, uint32_t most)
{
    for (size_t i = 0; i < MOST_SLEEPERS && most > 0; i++) {
        if (sleepers[i].fibre == NULL || sleepers[i].at != at)
            continue;
        sleepers[i].at = NULL;
        fibre_wake(sleepers[i].fibre, 0);
        most--;
    }
}

void threads_begin(void)
{
    memset(sleepers, 0, sizeof sleepers);
}

/* ---- mutexes ---------------------------------------------------------------------------------------------------- */

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

/* What is in place of the system's; all zero is what PTHREAD_MUTEX_INITIALIZER makes. */
struct mutex {
    bool locked;
    struct fibre *by;
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "it fits");

static struct mutex *mutex_of(pthread_mutex_t *m)
{
    return (struct mutex *)(void *)m;
}

static bool blind;

bool seam_blind(void)
{
    bool was = blind;

    blind = false;
    return was;
}

bool seam_locked(const struct rdl__mutex *mu)
{
    return ((const struct mutex *)(const void *)&mu->m)->locked;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
    (void)attr;
    memset(m, 0, sizeof(pthread_mutex_t));
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
    if (mutex_of(m)->locked)
        violated("mutexes are free when they end", "one is destroyed while it is locked");
    return 0;
}

/* The mutex that the fibre waits for, or NULL. */
static const struct mutex *awaited_by(const struct fibre *f)
{
    for (size_t i = 0; i < MOST_SLEEPERS; i++)
        if (sleepers[i].fibre == f)
            return sleepers[i].wanted;
    return NULL;
}

/* Does whoever has it wait for the thread that wants it? */
static void see_circle(const struct mutex *mu)
{
    const struct fibre *by = mu->by;

    for (size_t i = 0; i <= MOST_SLEEPERS && by != NULL && mu != NULL && mu->locked; i++) {
        if (by == fibre_here() || i == MOST_SLEEPERS) {
            violated("nobody waits in a circle", "thread %u waits for a mutex that it will have to give back itself",
                     thread_number(fibre_here()));
            return;
        }
        if ((mu = awaited_by(by)) != NULL)
            by = mu->by;
    }
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    struct mutex *mu = mutex_of(m);

    if (mu->locked && world_is_quiet()) {
        blind = true;
        return 0;
    }
    if (mu->locked)
        see_circle(mu);
    while (mu->locked)
        sleep_at(mu, mu, RDL__NEVER);
    mu->locked = true;
    mu->by = fibre_here();
    return 0;
}

/* Whoever went on without it has noted itself as its holder (sync.h). */
static void still_held(pthread_mutex_t *m)
{
#ifdef REDLATCH_ASSERTS
    ((struct rdl__mutex *)(void *)m)->holder = (pthread_t)(uintptr_t)mutex_of(m)->by;
#else
    (void)m;
#endif
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    struct mutex *mu = mutex_of(m);

    if (mu->by != fibre_here() && world_is_quiet()) {
        still_held(m);
        return 0;
    }
    if (!mu->locked || mu->by != fibre_here())
        violated("mutexes are unlocked by whoever locked them", "one is unlocked that is not locked, or by another");
    mu->locked = false;
    if (fibre_here() != NULL) /* the checkers keep nobody waiting */
        wake_at(mu, 1);
    return 0;
}

/* Who has none locked may call the user's code (sync.h); the checkers are no fibre. */
unsigned *__wrap_rdl__mutexes_held(void);

unsigned *__wrap_rdl__mutexes_held(void)
{
    static unsigned outside;

    return fibre_here() != NULL ? fibre_mutexes(fibre_here()) : &outside;
}

/* ---- the futex -------------------------------------------------------------------------------------------------- */

long __wrap_syscall(long number, ...);

/* Of core/base/sync.c; nobody else makes a system call here. A sleeper looks at the word and falls asleep without a
 * point in between, as the kernel lets it. To sync.c all fibres are one thread, and share a seat; so a wake is for all
 * who sleep. */
long __wrap_syscall(long number, ...)
{
    const struct timespec *until;
    const _Atomic uint32_t *word;
    uint32_t value;
    va_list args;
    int op;

    if (number != SYS_futex)
        die("sim: system call %ld", number);
    va_start(args, number);
    word = va_arg(args, const _Atomic uint32_t *);
    op = va_arg(args, int);
    value = va_arg(args, uint32_t);
    until = va_arg(args, const struct timespec *);
    va_end(args);
    point(op == FUTEX_WAIT_BITSET_PRIVATE ? "futex wait" : "futex wake");
    if (op != FUTEX_WAIT_BITSET_PRIVATE)
        wake_at(word, value);
    else if (atomic_load(word) == value)
        sleep_at(word, NULL,
                 until == NULL ? RDL__NEVER : process_when(process_here(), until->tv_sec * RDL__SEC + until->tv_nsec));
    return 0;
}

/* ---- threads' own ----------------------------------------------------------------------------------------------- */

int __wrap_pthread_key_create(pthread_key_t *key, void (*ends)(void *));
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
pthread_t __wrap_pthread_self(void);

static void (*key_ends)(void *);

int __wrap_pthread_key_create(pthread_key_t *key, void (*ends)(void *))
{
    *key = 0;
    key_ends = ends;
    return 0;
}

static void thread_ends(void *slot)
{
    key_ends(slot);
}

/* The library's key has the address of its thread-local variable. */
int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    union {
        const void *in;
        void **slot;
    } at = {.in = value};

    (void)key;
    fibre_local(at.slot, thread_ends);
    return 0;
}

pthread_t __wrap_pthread_self(void)
{
    return (pthread_t)(uintptr_t)fibre_here();
}
