/* SPDX-License-Identifier: MIT */
#include "core/base/busypoll.h"

#include "core/base/clock.h"

#define CREDIT (1 * RDL__MS) /* to try with */
#define BALANCE_MAX (2 * RDL__MS)
#define LITTLE (10 * RDL__US)
#define GAIN_MOST (200 * RDL__US)
#define SLICE (500 * RDL__US) /* a thread that had the core for longer was no interrupt, but needs it */
#define PAUSE_MIN 16
#define PAUSE_MAX 8192
#define PAUSE_FOR_OTHERS 512

void rdl__busypoll_init(struct rdl__busypoll *s)
{
    s->balance = CREDIT;
    s->slept = 0;
    s->pause = 0;
    atomic_init(&s->skip, 0);
}

void rdl__busypoll_slept(struct rdl__busypoll *s, int64_t took)
{
    s->slept = s->slept == 0 ? took : s->slept + (took - s->slept) / 8;
}

static void spend(struct rdl__busypoll *s, int64_t ns)
{
    s->balance -= ns;
    if (s->balance > 0)
        return;
    s->balance = CREDIT;
    s->pause = s->pause < PAUSE_MIN ? PAUSE_MIN : s->pause * 2;
    if (s->pause > PAUSE_MAX)
        s->pause = PAUSE_MAX;
    atomic_store_explicit(&s->skip, s->pause, memory_order_relaxed);
}

void rdl__busypoll_found(struct rdl__busypoll *s, int64_t took)
{
    int64_t gain = s->slept != 0 ? s->slept - took : LITTLE;

    if (gain < LITTLE) { /* as soon as after a sleep, and sleeping is cheaper */
        spend(s, LITTLE);
        return;
    }
    s->balance += gain < GAIN_MOST ? gain : GAIN_MOST;
    if (s->balance < BALANCE_MAX)
        return;
    s->balance = BALANCE_MAX;
    s->pause /= 2;
}

void rdl__busypoll_wasted(struct rdl__busypoll *s, int64_t took)
{
    spend(s, took);
}

void rdl__busypoll_kept(struct rdl__busypoll *s, int64_t idle)
{
    spend(s, idle);
    if (idle >= SLICE && atomic_load_explicit(&s->skip, memory_order_relaxed) < PAUSE_FOR_OTHERS)
        atomic_store_explicit(&s->skip, PAUSE_FOR_OTHERS, memory_order_relaxed);
}
