/* renewer.h - inside the watchdog: what is due at one server (renewer.c), and the batches of it (renewal.c). */
#ifndef REDLATCH_SERVICE_RENEWER_H
#define REDLATCH_SERVICE_RENEWER_H

#include "core/service/schedule.h"

struct rdl__batch {
    struct rdl__req req;
    struct rdl__watchdog *wd;
    struct rdl__renewer *at;
    struct rdl__link free;
    struct rdl__acks acks;              /* the most that any of its holds wants */
    int32_t confirmed;                  /* what they say: replicas that have it, or RDL__ACKS_... */
    unsigned count;                     /* slots filled */
    unsigned scripts;                   /* that these take */
    unsigned encoded;                   /* slots in the commands as they were sent last */
    unsigned heard;                     /* of these, whose script was answered */
    unsigned char slots[RDL__BATCH];    /* which ones, in the commands' order */
    unsigned char part[RDL__BATCH];     /* the script that a slot belongs to; those of one stand together */
    struct rdl__hold *hold[RDL__BATCH]; /* NULL: ended meanwhile */
    int64_t due_end[RDL__BATCH];        /* when its lease was to end, as it was sent; in the commands' order */
    int64_t ttl[RDL__BATCH];            /* answers, in the commands' order */
    struct rdl__lane *ask;              /* its only script is to be run there, this time; NULL: no */
    char refusal[128];                  /* the server's error; empty: none */
    int64_t server_us;                  /* the server's clock in the answer; 0: no usable answer */
};

/* What is due at one server. */
struct rdl__renewer {
    /* immutable */
    struct rdl__lane *lane;
    const struct rdl__acks_lane *acked; /* for batches that replicas are to confirm */

    /* loop thread only */
    struct rdl__link link; /* on the watchdog's list */
    int64_t clock_offset;  /* the server's clock minus ours, microseconds, at the last renewal; 0: none yet */
    int64_t clock_at;
    int64_t clock_error; /* how much later than the server's word it was heard, at most */

    /* any thread, under the watchdog's mu */
    struct rdl__link due;
    struct rdl__link due_acked; /* those that want replicas' confirmation, and must not hold up the others */
    struct rdl__link free;      /* batches */
    bool acks_under_way;        /* a batch that waits for replicas */
    unsigned count;             /* of batches */
    struct rdl__batch batches[];
};

/* Where a hold is renewed now. */
struct rdl__renewer *rdl__renewer_of(const struct rdl__watchdog *wd, const struct rdl__hold *hold);

/* The hold's renewal waits for a batch from now on.  @locks the watchdog's */
void rdl__renewer_due(struct rdl__renewer *at, struct rdl__hold *hold);

/* Make batches of what is due there, as many as may be under way; or wherever something is.  @thread loop  @locks none
 */
void rdl__renewer_pump(struct rdl__watchdog *wd, struct rdl__renewer *at);
void rdl__renewers_pump(struct rdl__watchdog *wd);

/* Send a batch that was filled; its answers are applied to its holds (renewal.c).  @thread loop */
void rdl__renewal_send(struct rdl__batch *batch);

#endif
