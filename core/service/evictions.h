/* SPDX-License-Identifier: MIT */
/* evictions.h - how a client hears that one of its holds may have been evicted (wire.md, Evictions).
 * @thread loop, all of it, unless it says otherwise
 */
#ifndef REDLATCH_SERVICE_EVICTIONS_H
#define REDLATCH_SERVICE_EVICTIONS_H

#include "core/io/subscriber.h"
#include "core/service/watchdog.h"
#include "core/wire/ident.h"

#define RDL__EVICTIONS_CHANNEL "redlatch_lost:{"

/* Embedded in the client. */
struct rdl__evictions {
    struct rdl__topic topic;
    struct rdl__watchdog *watchdog;
    struct rdl__subscriber *sub; /* which has the topic; NULL: nobody listens yet, or any more */
    char channel[sizeof RDL__EVICTIONS_CHANNEL + RDL__UUID_LEN]; /* `}` for the NUL; not terminated */
};

/* @thread any */
void rdl__evictions_init(struct rdl__evictions *ev, const struct rdl__uuid *uuid, struct rdl__watchdog *watchdog);
/* Listen there, and no longer anywhere else. */
void rdl__evictions_listen(struct rdl__evictions *ev, struct rdl__subscriber *sub, int64_t now);
void rdl__evictions_close(struct rdl__evictions *ev); /* fine for one that never listened */

#endif
