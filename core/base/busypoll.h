/* SPDX-License-Identifier: MIT */
/* busypoll.h - is it worth polling for an answer before sleeping?
 *
 * A thread that sleeps until its answer comes has to be woken, and so has the server when it has slept, which between
 * two cores takes longer than the work itself. Polling saves that, and costs CPU time. Whether it pays is not known
 * beforehand: a server on the same core cannot answer before this thread sleeps, a distant one will not in time, and
 * another thread may need the core. So an account is kept: credited with the time that an answer came sooner than after
 * the usual sleep, debited with polling that found nothing, or that kept others from the core. At 0 polling is
 * suspended for a number of calls that doubles each time, up to PAUSE_MAX; then a small credit pays for another try,
 * and a long run of gains shortens the pause. So where polling does not help it is hardly ever done.
 *
 * Pure; one thread at a time but where it says otherwise.
 */
#ifndef REDLATCH_BASE_BUSYPOLL_H
#define REDLATCH_BASE_BUSYPOLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rdl__busypoll {
    int64_t balance;       /* ns */
    int64_t slept;         /* about how long a wait takes that sleeps; 0: unknown */
    uint32_t pause;        /* how many calls do not poll when the balance is 0 */
    _Atomic uint32_t skip; /* how many of them are left */
};

void rdl__busypoll_init(struct rdl__busypoll *s);

/* Another wait begins: poll before sleeping?  @thread any; a call counted twice or not at all does no harm */
static inline bool rdl__busypoll_due(struct rdl__busypoll *s)
{
    uint32_t skip = atomic_load_explicit(&s->skip, memory_order_relaxed);

    if (skip == 0)
        return true;
    atomic_store_explicit(&s->skip, skip - 1, memory_order_relaxed);
    return false;
}

/* Is the time of this wait, which does not poll, to be noted? One in sixteen is. */
static inline bool rdl__busypoll_notes(const struct rdl__busypoll *s)
{
    return (atomic_load_explicit(&s->skip, memory_order_relaxed) & 15) == 0;
}

void rdl__busypoll_slept(struct rdl__busypoll *s, int64_t took);  /* a wait without polling, ns */
void rdl__busypoll_found(struct rdl__busypoll *s, int64_t took);  /* the answer came while polling */
void rdl__busypoll_wasted(struct rdl__busypoll *s, int64_t took); /* it did not */
void rdl__busypoll_kept(struct rdl__busypoll *s, int64_t idle); /* another thread had the core for so long meanwhile */

#endif
