/* composite.h - composite locks: several locks behind one handle (composite.c). */
#ifndef REDLATCH_COMPOSITE_H
#define REDLATCH_COMPOSITE_H

#include "core/call/handle.h"
#include "locks/composite/plan.h"

#define RDL__COMPOSITE_MAX 256

struct rdl__composite_options {
    rdl_retry_t retry; /* never RDL_RETRY_DEFAULT */
    int64_t member_timeout_ms;
    int64_t min_uptime_ms; /* below 0: any will do */
};

/* What all multi-locks, or all red locks, have in common. */
struct rdl__composite_kind {
    struct rdl__lock_ops type; /* handle, name, retry; the rest is of single locks */
    const struct rdl__plan_ops *plan;
};

/* A composite of 1 to RDL__COMPOSITE_MAX members, which are neither NULL nor closed. Errors: RDL_EINVAL, RDL_ENOMEM. */
int rdl__composite_make(const struct rdl__composite_kind *kind, rdl_lock_t *const *members, size_t n,
                        const struct rdl__composite_options *options, rdl_lock_t **ret_lock, rdl_err_t *err);

/* As their namesakes of call.h. */
int64_t rdl__composite_call(const struct rdl__order *order, rdl_err_t *err);
int rdl__composite_call_async(const struct rdl__order *order, rdl_op_t **ret_op, rdl_err_t *err);

/* What `owner` holds of it. token: 0 when it has none.  @locks none */
struct rdl__view rdl__composite_view(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now);

/* Why it has no tokens; NULL: it has. */
const char *rdl__composite_tokenless(const rdl_lock_t *lock);

#endif
