/* SPDX-License-Identifier: MIT */
/* alone.h - locks for which the host's own lock stands in while there is no server (RDL_OUTAGE_LOCAL; protocol.md, 10).
 *
 * Whatever takes such a lock has the host's lock first (core/base/hostlock.h) and gives it back last: the record keeps
 * it in hold.host, from the outermost take's beginning until nothing is held or under way (record.c). So whoever is
 * told that there is no server is alone on the host, and stays so whatever the server does later.
 *
 * Such a hold is RDL_DEGRADED: the watchdog has it, renews nothing, and offers it to the server now and then, by a verb
 * of its own that gives way to the owner's. Locks that are not RDL_OUTAGE_LOCAL come by here only where calls give up.
 */
#ifndef REDLATCH_CALL_ALONE_H
#define REDLATCH_CALL_ALONE_H

#include "core/call/verb.h"

/* Does the host's lock stand in for this one? */
static inline bool rdl__may_be_alone(const struct rdl__call *call)
{
    return rdl__call_name(call)->settings.on_outage == RDL_OUTAGE_LOCAL;
}

/* An outermost take: have the host's lock. If it cannot be had, *ev becomes what the machine is to be told. */
void rdl__alone_enter(struct rdl__call *call, struct rdl__take_event *ev);

/* When the host's lock stands in for the server's: local_after_ms after the connection was lost, or without an answer
 * from `since` on; RDL__NEVER: it does not. Noted in the call. */
int64_t rdl__alone_at(struct rdl__call *call, int64_t since);

/* The server has said that somebody else has it: until the end of that lease it may be so.  @thread the one that drives
 * the call */
void rdl__alone_refused(struct rdl__call *call, int64_t now);

/* Waiting for the server has ended, for its answer if it was `asked`. Does the host's lock stand in? Then it is held. A
 * nested take stands in where its hold is the host's alone. */
bool rdl__alone_stands_in(struct rdl__call *call, bool asked);

/* Is it a nested take that may have to end before it is answered? Nobody can tell a thread that reads for its own
 * answer (lane_callers.c), so the loop sends it. */
static inline bool rdl__alone_by_loop(const struct rdl__call *call)
{
    return rdl__may_be_alone(call) && call->verb->acquires && call->count > 1;
}

/* A nested take, and a release, of a hold of the host's alone. */
rdl__step_t rdl__alone_again(struct rdl__call *call, int64_t now);
rdl__step_t rdl__alone_release(struct rdl__call *call, int64_t now);

/* The hold's renewal is overdue: if it may be the host's alone, it is from now on, and a nested take that is under way
 * ends, as if canceled with RDL_ECONN.  @thread loop  @locks none */
bool rdl__alone_degrades(struct rdl__record *rec, const struct rdl__hold_id *id, int64_t now);

/* Cancel what the record has under way, if that is rdl__alone_restore's take; false: it is not.  @locks the name's */
bool rdl__alone_yields(struct rdl__record *rec);

/* Ask the server to have it, if it can be reached and the owner has no verb under way.  @thread loop  @locks none */
void rdl__alone_restore(struct rdl__record *rec);

#endif
