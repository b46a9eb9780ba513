/* busypoll.h - is it worth looking again and again before sleeping?
 *
 * A thread that sleeps until its answer comes has to be woken, and so has the server when it has slept, which between
 * two cores takes longer than the work itself. Looking for the answer all the while saves that, and costs the core.
 * Whether it pays is not known beforehand: a server on the same core cannot even answer before the looker sleeps, a far
 * one will not, and somebody else may want the core. So accounts are kept. What an answer came sooner than after the
 * usual sleep comes in; what was spent in vain, or taken from others, goes out. When nothing is left, looking is
 * suspended for a number of calls that doubles each time, up to PAUSE_MAX; then a small credit pays for another try,
 * and a long run of gains shortens the pause. So where looking does not help it is as good as never done.
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
    int64_t slept;         /* what a wait takes that sleeps, about; 0: not known */
    uint32_t pause;        /* calls to let pass when nothing is left */
    _Atomic uint32_t skip; /* of them still to pass */
};

void rdl__busypoll_init(struct rdl__busypoll *s);

/* Another wait begins: look before sleeping?  @thread any; a call counted twice or not at all does no harm */
static inline bool rdl__busypoll_due(struct rdl__busypoll *s)
{
    uint32_t skip = atomic_load_explicit(&s->skip, memory_order_relaxed);

    if (skip == 0)
        return true;
    atomic_store_explicit(&s->skip, skip - 1, memory_order_relaxed);
    return false;
}

/* Is the wait that does not look to be noted? One in sixteen is enough. */
static inline bool rdl__busypoll_notes(const struct rdl__busypoll *s)
{
    return (atomic_load_explicit(&s->skip, memory_order_relaxed) & 15) == 0;
}

void rdl__busypoll_slept(struct rdl__busypoll *s, int64_t took);  /* a wait that did not look, ns */
void rdl__busypoll_found(struct rdl__busypoll *s, int64_t took);  /* the answer came while looking */
void rdl__busypoll_wasted(struct rdl__busypoll *s, int64_t took); /* it did not */
void rdl__busypoll_kept(struct rdl__busypoll *s, int64_t idle);   /* somebody else had the core for so long meanwhile */

#endif
