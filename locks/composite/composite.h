/* composite.h - composite locks: several locks behind one handle (composite.c). */
#ifndef REDLATCH_COMPOSITE_H
#define REDLATCH_COMPOSITE_H

#include "core/call/call.h"
#include "core/call/record.h"
#include "locks/composite/plan.h"

#define RDL__COMPOSITE_MAX 256

struct rdl__composite_options {
    rdl_retry_t retry; /* never RDL_RETRY_DEFAULT */
    int64_t member_timeout_ms;
    int64_t min_uptime_ms; /* below 0: any will do */
};

/* Is the handle a composite's? */
static inline bool rdl__lock_composite(const rdl_lock_t *lock)
{
    return lock->name == NULL;
}

/* The handle's client; of a composite, its first member's: there its callbacks run and its timers go off. */
rdl_client_t *rdl__composite_home(const rdl_lock_t *lock);
static inline rdl_client_t *rdl__lock_client(const rdl_lock_t *lock)
{
    return rdl__lock_composite(lock) ? rdl__composite_home(lock) : lock->name->client;
}

/* Its name: of a composite, its members' with a `+` between them. */
const char *rdl__lock_name(const rdl_lock_t *lock, size_t *ret_len);

/* A composite of 1 to RDL__COMPOSITE_MAX members, which are neither NULL nor closed. Errors: RDL_EINVAL, RDL_ENOMEM. */
int rdl__composite_make(const struct rdl__plan_ops *ops, rdl_lock_t *const *members, size_t n,
                        const struct rdl__composite_options *options, rdl_lock_t **ret_lock, rdl_err_t *err);
void rdl__composite_drop(rdl_lock_t *lock); /* the user's reference */

const char *rdl__composite_type(const rdl_lock_t *lock);
int rdl__composite_on_lost(rdl_lock_t *lock, rdl_lost_fn fn, void *arg);

/* As their namesakes of call.h. */
int64_t rdl__composite_call(const struct rdl__order *order, rdl_err_t *err);
int rdl__composite_call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err);

/* Do what the order says, with whatever its handle is. */
static inline int64_t rdl__lock_call(const struct rdl__order *order, rdl_err_t *err)
{
    return rdl__lock_composite(order->lock) ? rdl__composite_call(order, err) : rdl__call(order, err);
}

static inline int rdl__lock_call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err)
{
    return rdl__lock_composite(order->lock) ? rdl__composite_call_async(order, ret_op, err)
                                            : rdl__call_async(order, ret_op, err);
}

/* May `owner` act in it? It must be of the client of one of its members. */
bool rdl__composite_knows(const rdl_lock_t *lock, const rdl_owner_t *owner);

/* What `owner` holds of it. token: 0 when it has none.  @locks none */
struct rdl__view rdl__composite_view(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now);

/* Why it has no tokens; NULL: it has. */
const char *rdl__composite_tokenless(const rdl_lock_t *lock);

#endif
