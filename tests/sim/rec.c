/* SPDX-License-Identifier: MIT */
/* rec.c - what the client's record of a hold says, also of a lock that the client keeps (core/call/cache.h). */
#include "tests/sim/rec.h"

#include "core/call/cache.h"

/* An owner's hold of a kept lock ends with the kept hold at the latest. */
int64_t rec_valid_until(const struct rdl__record *rec)
{
    const struct rdl__cache *cache = rec->hold.id.n < 0 ? rec->name->cache : NULL;
    int64_t until = rec->hold.deadline;

    /* rdl__cache_has, without the mutex, which whoever is interrupted may have */
    if (cache == NULL || !rec->inside || rec->hold.id.n >= cache->ended_n ||
        (!rec->renewed && until < cache->kept_rec->hold.deadline))
        return until;
    return cache->kept_rec->hold.deadline;
}

/* When the server has granted what the record rests on, at the earliest, by the world's time: who is let in to a kept
 * hold has not asked for it itself. */
int64_t rec_rests_since(const struct caller *caller, const struct rdl__record *rec, const struct lock_call *call)
{
    const struct rdl__cache *cache = rec->hold.id.n < 0 ? rec->name->cache : NULL;
    int64_t now = process_clock(&caller->app->process);

    if (cache == NULL || cache->kept_rec == NULL)
        return call->called;
    return process_when(&caller->app->process, (cache->kept_rec->held_since < now ? cache->kept_rec->held_since : now) -
                                                   cache->lease_ms * RDL__MS);
}

int64_t rec_asked_at(const struct rdl__record *rec)
{
    return rec->hold.deadline - rec->hold.lease_ms * RDL__MS;
}

void rec_fields(struct hold *h, const struct rdl__record *rec)
{
    int64_t n = rec->hold.id.n;

    h->id[rec->ops->field_of(h->id, rec->name, n)] = '\0';
    h->field[rec->ops->field_of(h->field, rec->name, n < 0 ? rec->name->cache->keep.n : n)] = '\0';
}
