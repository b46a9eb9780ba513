/* SPDX-License-Identifier: MIT */
/* take.h - the acquire call as a pure machine: events in, steps out.
 *
 * It reads no clock and owns no socket; the blocking call, the asynchronous call and the simulator drive the same
 * machine, so they cannot drift apart. The driver (by_caller.c, by_loop.c) carries out each step and reports the
 * outcome as the next event.
 *
 *             start                 refused                  woken
 *   NEW -----------------> TRYING ----------> WAITING ----------------> TRYING ...
 *    | others wait already   |  taken, gone,    |  stopped (deadline, cancel, close), or granted by a message
 *    +-----------> WAITING    |  failed, stopped |
 *                             v                  v
 *                            DONE               DONE
 *
 * Where a take has to have the host's own lock first (alone.h), it is BARRED while somebody else has that: it is
 * delayed, asks again, and starts when it has it.
 */
#ifndef REDLATCH_CALL_TAKE_H
#define REDLATCH_CALL_TAKE_H

#include "core/base/entropy.h"

#include <redlatch/lock.h>
#include <stdbool.h>

enum rdl__take_state { RDL__TAKE_NEW, RDL__TAKE_TRYING, RDL__TAKE_WAITING, RDL__TAKE_BARRED, RDL__TAKE_DONE };

struct rdl__take {
    /* set by rdl__take_init; 22 bits hold an hour */
    uint32_t retry_min_ms : 22, retry : 3; /* rdl_retry_kind_t */
    uint32_t one_try : 1;                  /* one try, no waiting */

    uint32_t contended : 1;     /* it was found taken */
    uint32_t early : 1;         /* but only by what its owner has given back, as far as is known */
    uint32_t queued : 1;        /* a refusal left a place in a queue, or a mark, at the server, to be undone unless it
                                   is granted */
    uint32_t bars : 3;          /* BARRED: how often in a row */
    uint32_t retry_max_ms : 24; /* as retry_min_ms */
    uint32_t state : 8;         /* enum rdl__take_state */
    uint16_t tries; /* refused, or as if it had been (take.c, catch_up), more or less; 0: none was, on which depends
                       how long the answer is waited for, and whether it goes behind undos */
    uint16_t seed;  /* set by rdl__take_init: of what its policy draws */
};

enum rdl__take_event_kind {
    RDL__EV_START,   /* others_wait: other calls of this process wait for the lock already; stands: its client stands
                        in the line, and is to look after ttl_ms */
    RDL__EV_BARRED,  /* somebody of this host has its lock */
    RDL__EV_TAKEN,   /* valid: the lease still runs as the answer, or the message, is read; unsure: as below */
    RDL__EV_REFUSED, /* ttl_ms: of the holder's lease, below 0 unknown; waited_ms: where it hears of nothing, for how
                        long it has waited, else 0; queued: it has left a place or a mark at the server; early: by what
                        its owner has given back, and that has not arrived */
    RDL__EV_GONE,    /* the hold to be raised is gone from the server */
    RDL__EV_FAILED,  /* code: the server's or our own error; unsure: this try, or an earlier sending of it, may have run
                      */
    RDL__EV_WOKEN,   /* try again: a message, a timer, a confirmed subscription */
    RDL__EV_STOPPED, /* code: why waiting ends; RDL_OK: the deadline. unsure: a try was under way that may have run;
                        connected: the server can be reached */
};

struct rdl__take_event {
    enum rdl__take_event_kind kind;
    bool others_wait;
    bool stands;
    bool valid;
    bool connected;
    bool queued;
    bool early;
    bool unsure;
    int code;
    int64_t ttl_ms;
    int64_t waited_ms;
};

enum rdl__take_do {
    RDL__DO_SEND,   /* send a try */
    RDL__DO_WAIT,   /* join the waiters, or go back to them; hint_ms: try again after that time, below 0: unknown */
    RDL__DO_DELAY,  /* ask the verb again after hint_ms */
    RDL__DO_STAY,   /* wait as the verb says (verb.h), which also says when that is over; hint_ms: at least as long as a
                       first try is waited for, or not (0). Never from this machine */
    RDL__DO_FINISH, /* rc; undo: the server may have a hold or a place for us that is not wanted. False after
                       RDL__EV_STOPPED of a try that may have run: its successor in the lane undoes it */
};

/* Of 16 bytes, which functions return in registers. */
struct rdl__take_step {
    enum rdl__take_do what : 8;
    bool undo;
    int rc;
    int64_t hint_ms;
};
_Static_assert(sizeof(struct rdl__take_step) == 16, "every call passes it on several times");

void rdl__take_init(struct rdl__take *t, bool one_try, const rdl_retry_t *retry, uint16_t seed);
struct rdl__take_step rdl__take_on(struct rdl__take *t, const struct rdl__take_event *ev);

/* How long the policy lets a waiter sleep at most after `tries` refusals; below 0: no bound. */
int64_t rdl__retry_delay_ms(const rdl_retry_t *retry, unsigned tries, struct rdl__rand *rand);
int64_t rdl__take_delay_ms(const struct rdl__take *t); /* the same by this call's policy and refusals */

#endif
