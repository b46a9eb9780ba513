/* SPDX-License-Identifier: MIT */
/* phase.h - how far a call has come, and who drives it.
 *
 *                              +--------- by its caller's thread ---------+
 *                              |                                          v
 *   BY_CALLER --(the record is another's)--> QUEUED --(canceled, late)--> ENDED
 *       |    ^                                 |                          ^
 *       |    +--(a fan's was settled)--+       | (its turn)               |
 *       |                              |       v                          |
 *       +--(to wait, asynchronous)--> HANDED --> BY_LOOP -----------------+
 *                                                |   ^
 *                                                v   | (an answer; woken; the timer; stopped)
 *                                        SENT, ASLEEP, PAUSING, DELAYED
 *
 * Its caller's thread writes the phase up to QUEUED or HANDED, the loop alone from there on. Other threads may read it:
 * the value may be out of date, but not on which side of that boundary it is.
 */
#ifndef REDLATCH_CALL_PHASE_H
#define REDLATCH_CALL_PHASE_H

#include <stdbool.h>

enum rdl__phase {
    RDL__BY_CALLER, /* its caller's thread has it */
    RDL__QUEUED,    /* behind another verb of its record; or that one has ended, and the loop's task is posted */
    RDL__HANDED,    /* on its way to the loop, which does what call->next says */
    RDL__BY_LOOP,   /* the loop is carrying out a step */
    RDL__SENT,      /* the loop's: a request is in a lane */
    RDL__ASLEEP,    /* the loop's: among the waiters (waiters.h), or it stays for its task (RDL__DO_STAY) */
    RDL__PAUSING,   /* the loop's: a request that was redirected, or came too early, is sent again at its timer */
    RDL__DELAYED,   /* the loop's: its verb is asked again when the timer fires */
    RDL__ENDED,     /* its undo may still be under way */
};

/* The pending step: what the loop does when the call's task runs. */
enum rdl__next {
    RDL__NEXT_BEGIN,  /* begin the verb */
    RDL__NEXT_SEND,   /* send its request; after a pause, if it was redirected too often */
    RDL__NEXT_WATCH,  /* a request is under way already: set its timer */
    RDL__NEXT_WAIT,   /* join the waiters; call->answer: try again in so many ms */
    RDL__NEXT_DELAY,  /* ask the verb again in call->answer ms */
    RDL__NEXT_WAITED, /* what it stayed for (RDL__DO_STAY) has come */
    RDL__NEXT_END,    /* conclude with call->op.result */
    RDL__NEXT_UNDO,   /* send the undo */
    RDL__NEXT_UNDONE, /* the undo was answered */
};

static inline bool rdl__phase_is_loops(enum rdl__phase phase)
{
    return phase >= RDL__BY_LOOP && phase <= RDL__DELAYED;
}

/* May one follow the other? */
static inline bool rdl__phase_follows(enum rdl__phase from, enum rdl__phase to)
{
    switch (from) {
    case RDL__BY_CALLER:
        return to == RDL__QUEUED || to == RDL__HANDED || to == RDL__ENDED;
    case RDL__QUEUED:
        return to == RDL__BY_LOOP || to == RDL__ENDED;
    case RDL__HANDED:
        return to == RDL__BY_LOOP || to == RDL__BY_CALLER;
    case RDL__BY_LOOP:
        return to == RDL__SENT || to == RDL__ASLEEP || to == RDL__PAUSING || to == RDL__DELAYED || to == RDL__ENDED;
    case RDL__SENT:
    case RDL__ASLEEP:
    case RDL__PAUSING:
    case RDL__DELAYED:
        return to == RDL__BY_LOOP;
    case RDL__ENDED:
        break;
    }
    return false;
}

#endif
