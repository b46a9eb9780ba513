/* SPDX-License-Identifier: MIT */
/* keep.h - a lock that stays with its client after the unlock, as a pure machine: events in, decisions out.
 *
 * The client has one hold at the server, the kept hold; owners of the process are let in and leave without a command
 * (protocol.md, 11, whose rules are here). The machine reads no clock and knows no call: the caller (cache.c) holds the
 * name's mutex, says what happens, and carries out what is decided.
 *
 *          take          granted        recalled, old, cut, and nobody inside         given            pause over
 *   NONE --------> TAKING -------> HELD ------------------------------------> GIVING -------> PAUSING ----------> NONE
 *    ^               | failed       | lost                                      |
 *    +---------------+--------------+-------------------------------------------+ given; neither recalled nor old
 */
#ifndef REDLATCH_CALL_KEEP_H
#define REDLATCH_CALL_KEEP_H

#include <stdbool.h>
#include <stdint.h>

/* After a recall: so many more owners are let in, within so long; of what is shared none, and who comes waits so long
 * for those inside before it asks the server. */
#define RDL__PASSES_MOST 16
#define RDL__PASSES_MS 10

/* The bounds of how long a client takes nothing after a recalled hold was given back: two round trips
 * (rdl__keep_pause), so that those outside come first. */
#define RDL__PAUSE_LEAST_MS 1
#define RDL__PAUSE_MOST_MS 10

enum rdl__keep_state {
    RDL__KEEP_NONE,    /* nothing at the server */
    RDL__KEEP_TAKING,  /* the client's take is under way */
    RDL__KEEP_HELD,    /* kept: an owner is inside, or nobody */
    RDL__KEEP_GIVING,  /* its release was sent, or is about to be: nobody is let in any more */
    RDL__KEEP_PAUSING, /* given back after a recall: the process stands back, its own waiters too */
};

/* How a kept hold came to its end. */
enum rdl__keep_end {
    RDL__END_RECALLED, /* somebody else wants it */
    RDL__END_OLD,      /* it was kept for as long as it may be */
    RDL__END_UNHEARD,  /* a recall might not be heard any more */
    RDL__END_SHORT,    /* the next owner asks for more than is left of it, its tokens are used up, or it is stretched */
    RDL__END_CLOSED,   /* the client closes, or the last handle went */
    RDL__END_ROOM,     /* the client listens for as many names as it may, and another is wanted */
    RDL__END_EVICTED,  /* the server no longer had it */
    RDL__END_LOST,
};

struct rdl__keep {
    unsigned char state; /* enum rdl__keep_state */
    unsigned char end;   /* GIVING, PAUSING: enum rdl__keep_end */
    bool shared;         /* by all owners who come: it keeps nobody out but those who want the other end */
    bool heard;          /* recalls are listened for: the subscription was confirmed and not interrupted since */
    bool sound;          /* and was before the take was sent: the hold may be kept past an unlock */
    bool wanted;         /* given back as soon as nobody is inside, and passes are counted */
    bool stretched;      /* it is not kept past its owner: it lasts at the server for longer than an idle one may, or
                            its owner has the other end, too */
    bool closed;         /* nothing is kept any more: the client closes, or the last handle went */
    bool begun;          /* TAKING, GIVING: the caller has begun to do what that state asks for, and set this */
    unsigned char doublings;
    unsigned passes;      /* since it was wanted */
    unsigned local;       /* owners let in without a command, of this hold */
    unsigned takes;       /* takes that asked the server since the last kept hold */
    int64_t n;            /* HELD, GIVING: the number of the hold */
    int64_t recalled;     /* the number that was recalled last; 0: none. One is enough: a hold is recalled while it is
                             there, so words of the one before come before those of the present one */
    int64_t suspected;    /* the number of the hold that may have been evicted last; 0: none */
    int64_t wanted_since; /* with `wanted` */
    int64_t until;        /* HELD: kept until then at most. PAUSING: the end of the pause */
    int64_t apart_until;  /* so long those may sleep for whom it was given back: nothing is kept, and owners ask the
                             server for themselves */
};

/* What an owner that does not have the lock is to do. */
enum rdl__keep_entry {
    RDL__ENTRY_IN,    /* it is let in, without a command */
    RDL__ENTRY_QUEUE, /* wait here until it is let in */
    RDL__ENTRY_TAKE,  /* the same, and the client's take is to be sent: the state is TAKING */
    RDL__ENTRY_ASK,   /* take the lock at the server for itself, as if nothing were kept */
    RDL__ENTRY_TAKEN, /* one that does not wait: another owner of this process has it */
};

/* How long an owner waits, and so for what it waits here; else it asks the server. All of them wait until what is kept
 * is given back, by which the server would refuse them. */
enum rdl__keep_wait {
    RDL__WAITS_LONG,    /* besides for who is inside, for another's take, and until a pause is over */
    RDL__WAITS_BRIEFLY, /* besides for who is inside: its wait may be over before it has asked otherwise */
    RDL__WAITS_NOT,
};

/* `free`: nobody is in the way: nobody waits here, and nobody is inside, or they share it. */
enum rdl__keep_entry rdl__keep_enter(struct rdl__keep *keep, bool free, enum rdl__keep_wait wait, int64_t now);

/* The client's take was granted as hold n. Whom it was sent for is let in, recalled or not. */
void rdl__keep_granted(struct rdl__keep *keep, int64_t n, int64_t now, int64_t cache_ms);
/* It was not. */
void rdl__keep_failed(struct rdl__keep *keep);

/* Nobody is inside: the last one has left, or somebody who waited has, or the hold was granted and nobody waits for it
 * any more. What becomes of it? `waits`: somebody waits here. */
enum rdl__keep_empty {
    RDL__EMPTY_PASS, /* let the next one in */
    RDL__EMPTY_IDLE, /* keep it */
    RDL__EMPTY_GIVE, /* give it back: the state is GIVING */
};
enum rdl__keep_empty rdl__keep_emptied(struct rdl__keep *keep, bool waits, int64_t now);

/* The next owner cannot be let in: what is left of the hold is too short for it, or its tokens are used up. */
void rdl__keep_give(struct rdl__keep *keep, enum rdl__keep_end end);

/* Hold n is wanted by somebody else. True: it is the present hold's first recall. */
bool rdl__keep_recalled(struct rdl__keep *keep, int64_t n, int64_t now);
/* The present hold is wanted by somebody of this process whom the server would refuse because of it. */
void rdl__keep_want(struct rdl__keep *keep, int64_t now);
/* HELD: may one more join those who share it, so that the hold has no end in sight? */
bool rdl__keep_is_open(const struct rdl__keep *keep, int64_t now);
/* HELD, shared and wanted: until when who comes waits here for it to be given back. Else 0. */
int64_t rdl__keep_awaited_until(const struct rdl__keep *keep);
void rdl__keep_heard(struct rdl__keep *keep);   /* the subscription is confirmed */
void rdl__keep_unheard(struct rdl__keep *keep); /* and is no more */
/* Hold n may have been evicted: nobody else is let in. True: it is the present one, and the server is to be asked. */
bool rdl__keep_suspected(struct rdl__keep *keep, int64_t n);
void rdl__keep_lost(struct rdl__keep *keep, enum rdl__keep_end end); /* the hold is, or is left to its lease */

/* The release was answered, whatever the answer. If others want it, or may, the process stands back for pause_ns, and
 * keeps nothing for apart_ns: so long those may sleep beside it who hear of no release. */
void rdl__keep_given(struct rdl__keep *keep, int64_t now, int64_t pause_ns, int64_t apart_ns);
/* True: the pause is over, and whoever waits here may go on. */
bool rdl__keep_pause_over(struct rdl__keep *keep, int64_t now);

/* Two round trips of ours, for those outside, whose are not known; within the bounds above. Both in ns. */
int64_t rdl__keep_pause(int64_t round_trip);

/* For how long the kept hold is asked, in ms: so much that it is not renewed while it is idle; watchdog_ms at most. */
int64_t rdl__keep_lease_ms(int64_t cache_ms, int64_t watchdog_ms);

#endif
