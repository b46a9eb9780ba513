/* SPDX-License-Identifier: MIT */
/* op.h - the user's side of a call: canceling it, waiting for it, its callback, its references.
 *
 * A single lock's call (verb.h, struct rdl__call) and a composite's (locks/composite/call.h) embed it, and drive
 * themselves; what both do alike is here (design.md, How data flows). The last reference frees it, by ops->unused.
 */
#ifndef REDLATCH_CALL_OP_H
#define REDLATCH_CALL_OP_H

#include "core/call/call.h"

/* What differs between the two. */
struct rdl__op_ops {
    void (*unused)(rdl_op_t *op); /* nobody has a reference to it  @locks none */
    /* Was it granted, and is the hold lost by the time its caller is told? Then make the result RDL_ELOST, and give
     * back what is left, without waiting.  @locks none */
    void (*see_lost)(rdl_op_t *op);
    void (*explain)(const rdl_op_t *op, rdl_err_t *err);    /* why it failed; err may be NULL  @locks none */
    void (*tell)(const rdl_op_t *op, const rdl_err_t *err); /* op->fn is not NULL. err: NULL if it did not fail */
};

struct rdl_op {
    /* set once for the life of the memory, and on no list between two calls (rdl__op_memory) */
    struct rdl__underway underway; /* under the owner's mu */
    union {
        /* Of a single lock's call: while it is the verb in flight on its record, those that queue behind it; or among
         * them. Under the name's mu. */
        struct rdl__link pending;
        struct rdl__callback callback; /* from then on; any thread: pushed to the dispatch when the call has ended */
    };
    const struct rdl__op_ops *ops;

    /* immutable once begun */
    rdl_lock_t *lock;
    rdl_owner_t *owner; /* a reference */
    rdl__callback_fn *fn;
    void *arg;
    int64_t started_at;
    int64_t wait_ms;
    int64_t lease_ms; /* verbs that have a lease of their own begin by setting it */
    bool direct;      /* fn runs as the call ends, not by the client's dispatch */
    bool owed;        /* as struct rdl__order */
    bool blocking;

    /* any thread */
    struct rdl__parker parker; /* a blocked caller, while the loop drives the call */
    _Atomic unsigned refs;
    _Atomic int cancel_code; /* RDL_OK: not canceled */

    int64_t result; /* set by the thread that drives the call */
};

_Static_assert(offsetof(struct rdl_op, pending) == offsetof(struct rdl_op, callback.link),
               "on no list in the one way: on none in the other");

void rdl__op_tell(struct rdl__callback *callback); /* call back; takes a reference over */
void rdl__op_announce(rdl_op_t *op);               /* call back, once: a direct one at once, else by the dispatch */

/* Once for the life of the memory. */
static inline void rdl__op_memory(rdl_op_t *op, const struct rdl__op_ops *ops,
                                  void (*cancel)(struct rdl__underway *underway, int code))
{
    rdl__list_init(&op->underway.link);
    rdl__list_init(&op->callback.link);
    op->ops = ops;
    op->underway.cancel = cancel;
    op->callback.run = rdl__op_tell;
}

/* Count the call in, so that the client's parts stay until it has ended (rdl__client_call_ends), and find its owner. */
static inline int rdl__op_begins(const struct rdl__order *order, rdl_client_t *client, rdl_owner_t **ret_owner)
{
    int rc = order->owed ? rdl__client_debt_begins(client) : rdl__client_call_begins(client);

    *ret_owner = order->owner;
    if (rc < 0 || order->owner != NULL)
        return rc;
    if ((rc = rdl__owner_self(client, ret_owner)) < 0)
        rdl__client_call_ends(client);
    return rc;
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

/* Until when an acquire that waits may go on: for its wait, and for `patience`, in ns, at least. */
static inline int64_t rdl__op_wait_ends(const rdl_op_t *op, int64_t patience)
{
    int64_t by = rdl__after_ms(op->started_at, op->wait_ms);

    return op->started_at + patience > by ? op->started_at + patience : by;
}

static inline int64_t rdl__op_lease_ms(const rdl_op_t *op, const rdl_client_t *client)
{
    return op->lease_ms == RDL_LEASE_AUTO ? client->watchdog_lease_ms : op->lease_ms;
}

static inline void rdl__op_ref(rdl_op_t *op)
{
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

/* True: they were the last, and the caller runs ops->unused. */
static inline bool rdl__op_unref(rdl_op_t *op, unsigned refs)
{
    return atomic_fetch_sub_explicit(&op->refs, refs, memory_order_acq_rel) == refs;
}

/* For struct rdl__underway's `cancel`: with `code`. False: it was canceled before, may not be (`owed`), or is not an
 * acquire, which alone the user may cancel. */
static inline bool rdl__op_cancels(rdl_op_t *op, bool acquires, int code)
{
    int none = RDL_OK;

    return !op->owed && (acquires || code != RDL_ECANCELED) &&
           atomic_compare_exchange_strong(&op->cancel_code, &none, code);
}

#endif
