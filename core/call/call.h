/* SPDX-License-Identifier: MIT */
/* call.h - a verb under way: one object for the blocking call, the asynchronous call and the undo after either.
 *
 * See call.c for how it is driven. Its memory is the owner's spare block, so the next call costs no allocation.
 */
#ifndef REDLATCH_CALL_CALL_H
#define REDLATCH_CALL_CALL_H

#include "core/base/reserve.h"
#include "core/call/record.h"
#include "core/call/take.h"
#include "core/io/lane.h"
#include "core/service/dispatch.h"
#include "core/service/owner.h"
#include "core/service/waiters.h"

#include <redlatch/async.h>

struct rdl__verb;

extern const struct rdl__verb rdl__verb_take; /* wait_ms, lease_ms */
extern const struct rdl__verb rdl__verb_release;
extern const struct rdl__verb rdl__verb_extend; /* lease_ms */
extern const struct rdl__verb rdl__verb_force;
extern const struct rdl__verb rdl__verb_evict;   /* seen */
extern const struct rdl__verb rdl__verb_restore; /* alone.c: the hold n */
extern const struct rdl__verb rdl__verb_is_locked;
extern const struct rdl__verb rdl__verb_remaining;
extern const struct rdl__verb rdl__verb_listen; /* where rdl__news_public; its order is `direct` */

#define RDL__HEARD 1 /* its function's result for each message: the lock may be free */

/* What to do. Arguments are checked already. */
struct rdl__order {
    const struct rdl__verb *verb;
    rdl_lock_t *lock;
    rdl_owner_t *owner;              /* NULL: the calling thread's */
    const struct rdl__lock_ops *ops; /* which end of the lock; NULL: the handle's */
    int64_t wait_ms;
    int64_t lease_ms;
    int64_t amount;       /* of verbs without a hold: of how many units they are; its absolute value below 2^31 */
    int64_t n;            /* a release: the number of the only hold that it may release; 0: of any */
    const char *seen;     /* an eviction: the field that is to go, as it was shown */
    void *list;           /* of `amount` elements, where verb->keep_arguments says of what */
    rdl__callback_fn *fn; /* asynchronous: of the type's own signature; runs where callbacks run; may be NULL */
    void *arg;
    bool one_try; /* an acquire that does not wait for the lock: wait_ms bounds the answer (0: command_timeout_ms) */
    bool direct;  /* fn runs as the call ends, on the loop or in rdl__call_fan_wait, never in rdl__call_async, and must
                     not block */
    bool owed;    /* not an acquire: allowed while the client closes, and closing waits for it as for an undo */
    struct rdl__fan *fan; /* the calling thread sends it, if it can, and reads the answer in rdl__call_fan_wait; NULL:
                             the loop does both */
    struct rdl__reserve
        *reserve; /* blocks of struct rdl__call, of the client's allocator: used where allocating fails. May be NULL */
};

/* Do it and wait. Returns the verb's result. */
int64_t rdl__call(const struct rdl__order *order, rdl_err_t *err);

/* Do it on the loop. RDL_OK, or an error and then fn never runs. */
int rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err);

/* The least time, in ns, that the answer to an acquire's first try is waited for, even if wait_ms is shorter: some
 * recent round trips of that server, command_timeout_ms at most.  @thread any */
int64_t rdl__call_patience(const rdl_client_t *client, const struct rdl__shard *shard);

/* Begin the calls that were made with this fan.  @thread the one that has made them  @locks none */
void rdl__call_fan_begin(struct rdl__fan *fan);

/* Wait until `until` for an answer to one of the fan's calls, and drive that call on: false if the fan is empty, or
 * time is up. Leave: hand the rest to their loops.  @thread the one that sent them  @locks none */
bool rdl__call_fan_wait(struct rdl__fan *fan, int64_t until);
void rdl__call_fan_leave(struct rdl__fan *fan);

/* Release hold n, which was lost, in case the server still has it; best effort, not waited for.  @thread any  @locks
 * none */
void rdl__call_tidy(struct rdl__record *rec, int64_t n);

/* The client stands in that lock's line, and no call of it waits: it leaves. False: it does not, as there is no memory
 * or no handle, or the client closes.  @thread any  @locks none */
bool rdl__call_leave_line(struct rdl__name *name);

#endif
