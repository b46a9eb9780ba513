/* SPDX-License-Identifier: MIT */
/* composite/phase.h - how far a composite's call has come (call.c). Under the composite's mutex.
 *
 *   QUEUED --> BEGUN --(an acquire pauses)--> LISTENING <--> HAS_TURN
 *
 * and from each of them ENDED.
 */
#ifndef REDLATCH_COMPOSITE_PHASE_H
#define REDLATCH_COMPOSITE_PHASE_H

#include <stdbool.h>

enum rdl__composite_phase {
    RDL__COMPOSITE_QUEUED, /* until its turn on the record comes; at once for a verb that is not on it */
    RDL__COMPOSITE_BEGUN,
    RDL__COMPOSITE_LISTENING, /* on composite->listening */
    RDL__COMPOSITE_HAS_TURN,  /* it has become the first there: it is to act on the releases noted so far */
    RDL__COMPOSITE_ENDED,     /* stragglers may still be under way */
};

/* May one follow the other? */
static inline bool rdl__composite_phase_follows(enum rdl__composite_phase from, enum rdl__composite_phase to)
{
    switch (to) {
    case RDL__COMPOSITE_QUEUED:
        break;
    case RDL__COMPOSITE_BEGUN:
        return from == RDL__COMPOSITE_QUEUED;
    case RDL__COMPOSITE_LISTENING:
        return from == RDL__COMPOSITE_BEGUN || from == RDL__COMPOSITE_HAS_TURN;
    case RDL__COMPOSITE_HAS_TURN:
        return from == RDL__COMPOSITE_LISTENING;
    case RDL__COMPOSITE_ENDED:
        return from != RDL__COMPOSITE_ENDED;
    }
    return false;
}

#endif
