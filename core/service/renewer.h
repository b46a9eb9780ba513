/* SPDX-License-Identifier: MIT */
/* renewer.h - inside the watchdog: the renewals of one server (renewer.c), and their batches (renewal.c). */
#ifndef REDLATCH_SERVICE_RENEWER_H
#define REDLATCH_SERVICE_RENEWER_H

#include "core/service/schedule.h"

struct rdl__batch {
    struct rdl__req req;
    struct rdl__watchdog *wd;
    struct rdl__renewer *at;
    struct rdl__link free;
    struct rdl__acks acks;               /* the most replicas and time that any of its holds wants */
    int16_t confirmed;                   /* replicas that have confirmed it, or RDL__ACKS_... */
    unsigned count;                      /* entries of `hold` */
    unsigned scripts;                    /* how many scripts these take */
    unsigned encoded;                    /* how many entries were sent last */
    unsigned heard;                      /* how many of these have an answer */
    unsigned char slots[RDL__BATCH];     /* which entries, in the commands' order */
    unsigned char script_of[RDL__BATCH]; /* the script of each entry; those of one script stand together */
    struct rdl__hold *hold[RDL__BATCH];  /* NULL: ended meanwhile */
    int64_t due_end[RDL__BATCH];         /* the hold's deadline when it was sent; in the commands' order */
    int64_t ttl[RDL__BATCH];             /* answers, in the commands' order */
    struct rdl__lane *ask;               /* ASK: the lane to send its only script on, this once; else NULL */
    char refusal[128];                   /* the server's error; empty: none */
    int64_t server_us;                   /* the server's clock in the answer; 0: no usable answer */
};

/* The renewals of one server. */
struct rdl__renewer {
    /* immutable */
    struct rdl__lane *lane;
    const struct rdl__acks_lane *acked; /* for batches that replicas are to confirm */

    /* loop thread only */
    struct rdl__link link; /* on the watchdog's list */
    int64_t clock_offset;  /* the server's clock minus ours, microseconds, at the last renewal; 0: none yet */
    int64_t clock_at;
    int64_t clock_error; /* the most by which the answer was late */

    /* any thread, under the watchdog's mu */
    struct rdl__link due;
    struct rdl__link
        due_acked;         /* of holds that want replicas' confirmation, apart so that they do not hold up the others */
    struct rdl__link free; /* batches */
    bool acks_under_way;   /* a batch with a WAIT is under way */
    unsigned count;        /* of batches */
    struct rdl__batch batches[];
};

/* The renewer of the server that has the hold now. */
struct rdl__renewer *rdl__renewer_of(const struct rdl__watchdog *wd, const struct rdl__hold *hold);

/* The hold is due: it goes into the next batch.  @locks the watchdog's */
void rdl__renewer_due(struct rdl__renewer *at, struct rdl__hold *hold);

/* Make batches of the holds that are due there, and send as many as may be under way; at one server, or at all.
 * @thread loop  @locks none */
void rdl__renewer_pump(struct rdl__watchdog *wd, struct rdl__renewer *at);
void rdl__renewers_pump(struct rdl__watchdog *wd);

/* Send a batch that was filled. Its answers are applied to its holds as they come.  @thread loop */
void rdl__renewal_send(struct rdl__batch *batch);

#endif
