/* op.h - what the user has of a call: to cancel it, to wait for it, to be told of its end.
 *
 * A single lock's call (verb.h, struct rdl__call) and a composite's (locks/composite/inner.h) embed it. Each drives
 * itself; what is here is the same of both. It goes with its last reference, by `unused`.
 */
#ifndef REDLATCH_CALL_OP_H
#define REDLATCH_CALL_OP_H

#include "core/call/call.h"

struct rdl_op {
    /* What is set once for the life of the memory, and on no list between two calls (rdl__op_memory). */
    struct rdl__underway underway; /* under the owner's mu */
    struct rdl__callback callback; /* of any thread: the end is to be told */
    void (*unused)(rdl_op_t *op);  /* nobody has a reference to it */

    /* immutable once begun */
    rdl_lock_t *lock;
    rdl_owner_t *owner; /* a reference */
    rdl__callback_fn *fn;
    void *arg;
    int64_t started_at;
    int64_t wait_ms;
    int64_t lease_ms; /* verbs that have a lease of their own begin by setting it */
    bool direct;      /* fn runs as the call ends, whatever the client's dispatch */
    bool owed;        /* the client's closing waits for it */
    bool blocking;

    int64_t result; /* by whoever drives the call */

    /* any thread */
    struct rdl__parker parker; /* a blocked caller, while others drive the call */
    _Atomic unsigned refs;
    _Atomic int cancel_code; /* RDL_OK: nobody asked */
};

/* Once for the life of the memory; the functions are set by hand. */
static inline void rdl__op_memory(rdl_op_t *op)
{
    rdl__list_init(&op->underway.link);
    rdl__list_init(&op->callback.link);
}

/* A new call; the rest is zero. Takes over a reference to the owner; that of the lock is the caller's to count. */
static inline void rdl__op_init(rdl_op_t *op, const struct rdl__order *order, rdl_owner_t *owner, unsigned refs)
{
    op->lock = order->lock;
    op->owner = owner;
    op->fn = order->fn;
    op->arg = order->arg;
    op->wait_ms = order->wait_ms;
    op->lease_ms = order->lease_ms;
    op->direct = order->direct;
    op->owed = order->owed;
    atomic_init(&op->refs, refs);
    rdl__parker_init(&op->parker);
}

static inline void rdl__op_ref(rdl_op_t *op)
{
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

/* True: they were the last, and the caller lets the call go. */
static inline bool rdl__op_unref(rdl_op_t *op, unsigned refs)
{
    return atomic_fetch_sub_explicit(&op->refs, refs, memory_order_acq_rel) == refs;
}

/* Somebody wants it to end with `code`. Is that to be? Not if it was asked before; and a user ends only what waits.
 * @locks the owner's */
static inline bool rdl__op_cancels(rdl_op_t *op, bool acquires, int code)
{
    int none = RDL_OK;

    return !op->owed && (acquires || code != RDL_ECANCELED) &&
           atomic_compare_exchange_strong(&op->cancel_code, &none, code);
}

#endif
