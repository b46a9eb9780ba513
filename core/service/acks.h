/* SPDX-License-Identifier: MIT */
/* acks.h - replicas' confirmation of what was written (acks.c; protocol.md, 8). */
#ifndef REDLATCH_SERVICE_ACKS_H
#define REDLATCH_SERVICE_ACKS_H

#include "core/io/lane.h"

#include <redlatch/lock.h>
#include <stdatomic.h>
#include <stdbool.h>

/* How many replicas must have confirmed what was written before it counts. */
struct rdl__acks {
    uint8_t replicas; /* 0: none */
    bool if_able;     /* go on unconfirmed if the server refuses WAIT */
    uint16_t timeout_ms;
};

/* The values are known to fit (rdl__check_replicas). */
static inline struct rdl__acks rdl__acks_of(int64_t replicas, bool if_able, int64_t timeout_ms)
{
    return (struct rdl__acks){.replicas = (uint8_t)replicas, .if_able = if_able, .timeout_ms = (uint16_t)timeout_ms};
}

/* What satisfies both, which are alike in if_able. */
struct rdl__acks rdl__acks_most(struct rdl__acks a, struct rdl__acks b);
void rdl__acks_bound(struct rdl__acks *acks, int64_t most_ms); /* a timeout that is no longer, but at least 1 ms */

/* The lane for requests with a WAIT, which holds up all that comes after it on a connection. */
struct rdl__acks_lane {
    struct rdl__lane *_Atomic lane; /* NULL: no lock wanted it yet */
    _Atomic int64_t refused_until;  /* the server has refused WAIT: do not ask before then; 0: ask */
};

/* Make the lane, unless there is one; false: no memory. By one thread at a time. */
bool rdl__acks_lane_open(struct rdl__acks_lane *acked, struct rdl__node *node);
void rdl__acks_lane_done(struct rdl__acks_lane *acked); /* a zeroed one is fine */

static inline struct rdl__lane *rdl__acks_lane(const struct rdl__acks_lane *acked)
{
    return atomic_load_explicit(&acked->lane, memory_order_acquire);
}

/* The server has refused WAIT: ask again after a minute, or on the next connection (rdl__acks_may).  @thread any */
void rdl__acks_refused(struct rdl__acks_lane *acked);
void rdl__acks_may(struct rdl__acks_lane *acked);

/* Is a WAIT to be sent? ASKS_REFUSED: no, the server has refused it lately, so the request fails unsent. `acks` wants
 * replicas. */
enum rdl__asking { RDL__ASKS_NOBODY, RDL__ASKS_REPLICAS, RDL__ASKS_REFUSED };
enum rdl__asking rdl__acks_asks(const struct rdl__acks *acks, const struct rdl__acks_lane *acked);

/* Append WAIT behind a request's commands, with a timeout below left_ns (RDL__NEVER: no bound). */
void rdl__acks_put_wait(const struct rdl__acks *acks, int64_t left_ns, struct rdl__buf *to);

/* The answer to WAIT: how many replicas have confirmed, RDL__ACKS_NEEDLESS or RDL__ACKS_REFUSED. The request counts if
 * that is at least acks->replicas. */
#define RDL__ACKS_NEEDLESS INT16_MAX /* WAIT was refused, and if_able */
#define RDL__ACKS_REFUSED (-1)
#define RDL__ACKS_NOT_ASKED (-2) /* RDL__ASKS_REFUSED */
int16_t rdl__acks_judge(const struct rdl__acks *acks, const struct rdl__reply *reply);

/* Why what was written does not count, for a person. said: as judged, or RDL__ACKS_NOT_ASKED; words: the server's
 * error, NULL if there is none. */
void rdl__acks_explain(const struct rdl__acks *acks, int16_t said, const char *words, char *to, size_t size);

/* Options of `whose` ("lock", "client") that say how many replicas must confirm. A timeout of 0 gets its default.
 * RDL_OK or RDL_EINVAL. */
int rdl__check_replicas(const char *whose, int32_t replicas, bool if_able, int64_t *timeout_ms, rdl_err_t *err);

/* Those of a lock, which are its client's where they say nothing. RDL_OK or RDL_EINVAL. */
int rdl__acks_resolve(const struct rdl__acks *clients, const rdl_lock_options_t *o, struct rdl__acks *ret,
                      rdl_err_t *err);

#endif
