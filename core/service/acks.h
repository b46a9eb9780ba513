/* acks.h - replicas' confirmation of what was written (acks.c; protocol.md, 8). */
#ifndef REDLATCH_SERVICE_ACKS_H
#define REDLATCH_SERVICE_ACKS_H

#include "core/io/lane.h"

#include <redlatch/error.h>
#include <stdbool.h>

/* How many replicas must have confirmed it before a renewal counts. */
struct rdl__acks {
    uint32_t replicas; /* 0: none */
    uint32_t timeout_ms;
    bool if_able; /* or the server does not let us ask */
    struct rdl__lane *lane;
};

/* Options of `whose` ("lock", "client") that say how many replicas must confirm. A timeout of 0 gets its default.
 * RDL_OK or RDL_EINVAL. */
int rdl__check_replicas(const char *whose, int32_t replicas, bool if_able, int64_t *timeout_ms, rdl_err_t *err);

#endif
