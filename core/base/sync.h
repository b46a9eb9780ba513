/* SPDX-License-Identifier: MIT */
/* sync.h - mutex, and a place for one thread to sleep until it is told something.
 *
 * A parker is one word, bits and where its owner sleeps: in rdl__park, until somebody posts a bit. A post is one atomic
 * operation, and a wake if the owner has ever sat down to sleep there, so there is no window in which a wake is lost;
 * the poster never touches the parker after the former, so the owner may return and reuse the memory at once.
 */
#ifndef REDLATCH_BASE_SYNC_H
#define REDLATCH_BASE_SYNC_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct rdl__mutex {
    pthread_mutex_t m;
#ifdef REDLATCH_ASSERTS
    pthread_t holder; /* 0: nobody */
#endif
};

#ifdef REDLATCH_ASSERTS
unsigned *rdl__mutexes_held(void); /* how many the calling thread has locked */
#endif

int rdl__mutex_init(struct rdl__mutex *mu); /* RDL_OK or RDL_ENOMEM */
void rdl__mutex_done(struct rdl__mutex *mu);

static inline void rdl__mutex_lock(struct rdl__mutex *mu)
{
    (void)pthread_mutex_lock(&mu->m);
#ifdef REDLATCH_ASSERTS
    __atomic_store_n(&mu->holder, pthread_self(), __ATOMIC_RELAXED);
    *rdl__mutexes_held() += 1;
#endif
}

static inline void rdl__mutex_unlock(struct rdl__mutex *mu)
{
#ifdef REDLATCH_ASSERTS
    __atomic_store_n(&mu->holder, (pthread_t)0, __ATOMIC_RELAXED);
    *rdl__mutexes_held() -= 1;
#endif
    (void)pthread_mutex_unlock(&mu->m);
}

/* A function whose comment says `@locks mu` says it to the machine as well; and where the user's code is called, that
 * the calling thread has no mutex of ours. Nothing in release. */
#ifdef REDLATCH_ASSERTS
#define rdl__assert_none_locked() assert(*rdl__mutexes_held() == 0)
#define rdl__assert_locked(mu) assert(__atomic_load_n(&(mu)->holder, __ATOMIC_RELAXED) == pthread_self())
#else
#define rdl__assert_none_locked() ((void)0)
#define rdl__assert_locked(mu) ((void)0)
#endif

struct rdl__parker {
    _Atomic uint64_t word; /* what is posted; above it the owner's seat, or 0 (sync.c) */
};

static inline void rdl__parker_init(struct rdl__parker *p)
{
    atomic_store_explicit(&p->word, 0, memory_order_relaxed); /* a late post to an earlier life may still come */
}

/* Add bits (not 0) and wake the owner. @thread any */
void rdl__parker_post(struct rdl__parker *p, uint32_t bits);

/* The owners who were posted to and are to be woken, by the rows in which they sleep: each row is one call of the
 * kernel. */
enum { RDL__WAKES = 8 };

struct rdl__wakes {
    size_t n; /* rows; 0 at first, when the rest need not be set */
    struct rdl__wakes_in {
        uint32_t row;
        uint32_t seats; /* one bit each */
    } in[RDL__WAKES];
};

/* As rdl__parker_post, but the owner is woken by rdl__wakes_send, or before, if more rows are added than there is
 * space for. @thread any */
void rdl__parker_post_with(struct rdl__parker *p, uint32_t bits, struct rdl__wakes *wakes);
/* Wake them, and begin anew. @thread any */
void rdl__wakes_send(struct rdl__wakes *wakes);

/* Sleep until anything is posted, or one of `bits`, or rdl__now() reaches `deadline` (RDL__NEVER: no bound). Returns
 * all that is posted, without taking it away. @thread the owner */
uint32_t rdl__park(struct rdl__parker *p, int64_t deadline);
uint32_t rdl__park_for(struct rdl__parker *p, uint32_t bits, int64_t deadline);

/* Add bits without waking: the owner is not asleep. Take bits away. @thread the owner */
static inline void rdl__parker_mark(struct rdl__parker *p, uint32_t bits)
{
    (void)atomic_fetch_or_explicit(&p->word, bits, memory_order_acq_rel);
}

static inline void rdl__parker_unmark(struct rdl__parker *p, uint32_t bits)
{
    (void)atomic_fetch_and_explicit(&p->word, ~(uint64_t)bits, memory_order_acq_rel);
}

static inline uint32_t rdl__parker_peek(const struct rdl__parker *p)
{
    return (uint32_t)atomic_load_explicit(&p->word, memory_order_acquire);
}

#endif
