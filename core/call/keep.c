/* SPDX-License-Identifier: MIT */
#include "core/call/keep.h"

#include "core/base/clock.h"

#define DOUBLINGS_MOST 10
#define WORTH_IT 2        /* owners let in by one kept hold */
#define WORTH_IT_SHARED 1 /* of one that keeps nobody out but writers */
#define WORTH_AT_ONCE 4   /* so many: the next take's hold is kept, without one that asks for itself before */
#define LEASE_LEAST_MS 5000
#define LEASE_OF_CACHE 4 /* the first renewal of a lease is due after a quarter of it at the earliest */

/* Is this take the one whose hold is to be kept? From the second on, of one that is shared from the first; each hold
 * that was recalled too soon doubles how many go to the server by themselves before the next. Not while those for whom
 * the last one was given back may sleep. */
static bool is_to_be_kept(const struct rdl__keep *keep, int64_t now)
{
    return keep->heard && !keep->closed && now >= keep->apart_until &&
           keep->takes > 1u << keep->doublings >> keep->shared;
}

enum rdl__keep_entry rdl__keep_enter(struct rdl__keep *keep, bool free, enum rdl__keep_wait wait, int64_t now)
{
    switch ((enum rdl__keep_state)keep->state) {
    case RDL__KEEP_HELD:
        if (!free)
            return wait == RDL__WAITS_NOT ? RDL__ENTRY_TAKEN : RDL__ENTRY_QUEUE;
        if (now < keep->until) {
            keep->local++;
            return RDL__ENTRY_IN;
        }
        rdl__keep_give(keep, RDL__END_OLD);
        return RDL__ENTRY_QUEUE;
    case RDL__KEEP_GIVING: /* it would be refused of what is idle here */
        return RDL__ENTRY_QUEUE;
    case RDL__KEEP_TAKING:
    case RDL__KEEP_PAUSING:
        return wait == RDL__WAITS_LONG ? RDL__ENTRY_QUEUE : RDL__ENTRY_ASK;
    case RDL__KEEP_NONE:
        break;
    }
    if (keep->takes <= 1u << DOUBLINGS_MOST)
        keep->takes++;
    if (!is_to_be_kept(keep, now))
        return RDL__ENTRY_ASK;
    keep->state = RDL__KEEP_TAKING;
    keep->begun = false;
    keep->sound = keep->heard;
    return RDL__ENTRY_TAKE;
}

void rdl__keep_want(struct rdl__keep *keep, int64_t now)
{
    if (!keep->wanted)
        keep->wanted_since = now;
    keep->wanted = true;
}

void rdl__keep_granted(struct rdl__keep *keep, int64_t n, int64_t now, int64_t cache_ms)
{
    keep->state = RDL__KEEP_HELD;
    keep->n = n;
    keep->until = rdl__after_ms(now, cache_ms);
    keep->wanted = keep->stretched = false;
    keep->passes = keep->local = 0;
    keep->takes = 0;
    keep->sound = keep->sound && keep->suspected != n;
    if (keep->recalled == n)
        rdl__keep_want(keep, now);
}

void rdl__keep_failed(struct rdl__keep *keep)
{
    keep->state = RDL__KEEP_NONE;
    keep->takes = 0;
    if (keep->doublings < DOUBLINGS_MOST)
        keep->doublings++;
}

void rdl__keep_give(struct rdl__keep *keep, enum rdl__keep_end end)
{
    keep->state = RDL__KEEP_GIVING;
    keep->begun = false;
    keep->end = (unsigned char)end;
}

static enum rdl__keep_empty give(struct rdl__keep *keep, enum rdl__keep_end end)
{
    rdl__keep_give(keep, end);
    return RDL__EMPTY_GIVE;
}

/* After a recall: may one more be let in? */
static bool may_pass(const struct rdl__keep *keep, int64_t now)
{
    return keep->passes < RDL__PASSES_MOST && now < rdl__after_ms(keep->wanted_since, RDL__PASSES_MS);
}

enum rdl__keep_empty rdl__keep_emptied(struct rdl__keep *keep, bool waits, int64_t now)
{
    if (!keep->sound || keep->closed)
        return give(keep, keep->wanted ? RDL__END_RECALLED : keep->closed ? RDL__END_CLOSED : RDL__END_UNHEARD);
    if (keep->stretched)
        return give(keep, keep->wanted ? RDL__END_RECALLED : RDL__END_SHORT);
    if (now >= keep->until)
        return give(keep, RDL__END_OLD);
    if (keep->wanted && (keep->shared || !waits || !may_pass(keep, now)))
        return give(keep, RDL__END_RECALLED);
    if (!waits)
        return RDL__EMPTY_IDLE;
    keep->passes += keep->wanted;
    keep->local++;
    return RDL__EMPTY_PASS;
}

/* Numbers of holds are negative, and fall. A recall may come before the answer that says which number was granted. */
bool rdl__keep_recalled(struct rdl__keep *keep, int64_t n, int64_t now)
{
    bool first = keep->state == RDL__KEEP_HELD && n == keep->n && !keep->wanted;

    keep->recalled = n;
    if (first)
        rdl__keep_want(keep, now);
    return first;
}

bool rdl__keep_is_open(const struct rdl__keep *keep, int64_t now)
{
    return keep->sound && !keep->wanted && !keep->closed && !keep->stretched && now < keep->until;
}

int64_t rdl__keep_awaited_until(const struct rdl__keep *keep)
{
    bool ends = keep->shared && keep->state == RDL__KEEP_HELD && keep->wanted;

    return ends ? rdl__after_ms(keep->wanted_since, RDL__PASSES_MS) : 0;
}

void rdl__keep_heard(struct rdl__keep *keep)
{
    keep->heard = true;
}

void rdl__keep_unheard(struct rdl__keep *keep)
{
    keep->heard = keep->sound = false;
}

/* As a recall, it may come before the answer. */
bool rdl__keep_suspected(struct rdl__keep *keep, int64_t n)
{
    bool present = keep->state == RDL__KEEP_HELD && n == keep->n;

    keep->suspected = n;
    keep->sound = keep->sound && !present;
    return present;
}

static void ended(struct rdl__keep *keep)
{
    keep->n = 0;
    keep->wanted = false;
    keep->takes = keep->local >= WORTH_AT_ONCE;
    if (keep->local >= (keep->shared ? WORTH_IT_SHARED : WORTH_IT))
        keep->doublings = 0;
    else if (keep->doublings < DOUBLINGS_MOST && (keep->end == RDL__END_RECALLED || keep->end == RDL__END_SHORT))
        keep->doublings++;
}

void rdl__keep_lost(struct rdl__keep *keep, enum rdl__keep_end end)
{
    keep->state = RDL__KEEP_NONE;
    keep->end = (unsigned char)end;
    ended(keep);
}

void rdl__keep_given(struct rdl__keep *keep, int64_t now, int64_t pause_ns, int64_t apart_ns)
{
    bool others = keep->end == RDL__END_RECALLED || keep->end == RDL__END_OLD;

    if (others)
        keep->apart_until = now + apart_ns;
    keep->state = others ? RDL__KEEP_PAUSING : RDL__KEEP_NONE;
    keep->until = now + pause_ns;
    ended(keep);
}

bool rdl__keep_pause_over(struct rdl__keep *keep, int64_t now)
{
    if (keep->state != RDL__KEEP_PAUSING || now < keep->until)
        return false;
    keep->state = RDL__KEEP_NONE;
    return true;
}

int64_t rdl__keep_pause(int64_t round_trip)
{
    int64_t pause = 2 * round_trip;

    if (pause < RDL__PAUSE_LEAST_MS * RDL__MS)
        return RDL__PAUSE_LEAST_MS * RDL__MS;
    return pause < RDL__PAUSE_MOST_MS * RDL__MS ? pause : RDL__PAUSE_MOST_MS * RDL__MS;
}

int64_t rdl__keep_lease_ms(int64_t cache_ms, int64_t watchdog_ms)
{
    int64_t lease_ms = LEASE_OF_CACHE * cache_ms > LEASE_LEAST_MS ? LEASE_OF_CACHE * cache_ms : LEASE_LEAST_MS;

    return lease_ms < watchdog_ms ? lease_ms : watchdog_ms;
}
