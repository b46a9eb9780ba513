/* call.h - a verb under way: one object for the blocking call, the asynchronous call and what is left to undo after
 * either.
 *
 * See call.c for how it is driven. A call lives in the owner's spare memory, so the next one costs no allocation.
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
#include <redlatch/semaphore.h>

struct rdl__verb;

extern const struct rdl__verb rdl__verb_take; /* wait_ms, lease_ms */
extern const struct rdl__verb rdl__verb_release;
extern const struct rdl__verb rdl__verb_extend; /* lease_ms */
extern const struct rdl__verb rdl__verb_force;
extern const struct rdl__verb rdl__verb_is_locked;
extern const struct rdl__verb rdl__verb_remaining;
extern const struct rdl__verb rdl__verb_listen; /* of types whose waiters share a channel; direct */

#define RDL__HEARD 1 /* to its function: maybe the lock is free */

/* What to do. Arguments are checked already. */
struct rdl__order {
    const struct rdl__verb *verb;
    rdl_lock_t *lock;
    rdl_owner_t *owner; /* NULL: the calling thread's */
    int64_t wait_ms;
    int64_t lease_ms;
    int64_t count;         /* of permits; its absolute value below 2^31 */
    int64_t n;             /* a release: of this hold alone; 0: of whichever there is */
    rdl_permit_t *permits; /* as many; the caller's, or to be copied, as the verb says */
    rdl__callback_fn *fn;  /* asynchronous: the type's kind of callback; runs where callbacks run; may be NULL */
    void *arg;
    bool once;   /* an acquire that does not wait for the lock: wait_ms is how long the answer may take (0: as ever) */
    bool direct; /* fn runs as the call ends, on the loop or in rdl__call_fan, never in rdl__call_async, and must not
                    block */
    bool owed;   /* not an acquire: closing the client neither refuses nor ends it, but waits for it as for an undo */
    struct rdl__fan
        *fan; /* the calling thread is to send it, if it can, and goes on with rdl__call_fan; NULL: the loop sends it */
    struct rdl__reserve *reserve; /* the call's memory if there is none to be had; blocks of struct rdl__call, the
                                     client's. May be NULL */
};

/* Do it and wait. Returns the verb's result. */
int64_t rdl__call(const struct rdl__order *order, rdl_err_t *err);

/* Do it on the loop. RDL_OK, or an error and then fn never runs. */
int rdl__call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err);

/* For how long, in ns, the answer to an acquire's first try is waited for, be its wait shorter: some recent round trips
 * of that server, no longer than for any answer.  @thread any */
int64_t rdl__call_patience(const rdl_client_t *client, const struct rdl__shard *shard);

/* Wait until `until` for one of the fan's calls, and drive it on: false if there is none, or time is up. Leave:
 * whatever is left, the loops drive on.  @thread the one that sent them  @locks none */
bool rdl__call_fan(struct rdl__fan *fan, int64_t until);
void rdl__call_fan_leave(struct rdl__fan *fan);

/* Release the hold n that was lost, in case the server still has it; best effort, nobody waits.  @thread any  @locks
 * none */
void rdl__call_tidy(struct rdl__record *rec, int64_t n);

#endif
