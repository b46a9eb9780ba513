/* SPDX-License-Identifier: MIT */
/* acks.c - replicas' confirmation of what was written (protocol.md, 8).
 *
 * A lock may want that so many replicas have what its take, extend or renewal wrote (struct rdl__acks, from the
 * options). Then a WAIT follows the command in the same request, because a WAIT is about the writes of its own
 * connection: repeated alone on another it would confirm nothing. It holds up all that comes after it on the
 * connection, so such requests have a lane of their own at each server (struct rdl__acks_lane), opened when the first
 * lock wants it.
 *
 * The answer is the number of replicas that have confirmed; the request counts if that is enough for the lock. A
 * server, or a proxy before it, may refuse WAIT: then it is not sent for a while, and locks either go on unconfirmed
 * (if_able) or fail without being sent.
 *
 * Users: calls (core/call/acked.c), which undo what was not confirmed, and batches of renewals (renewer.c), which
 * treat it as no answer.
 */
#include "core/service/acks.h"

#include "core/base/err.h"

#define REFUSED_MS 60000 /* or until the next connection */
#define REPLICAS_MAX 255
#define REPLICAS_TIMEOUT_MS 100
#define REPLICAS_TIMEOUT_MAX_MS 1000
_Static_assert(REPLICAS_TIMEOUT_MAX_MS + 100 < RDL__LANE_MORE_MS, "a WAIT that ends late is no silence");

int rdl__check_replicas(const char *whose, int32_t replicas, bool if_able, int64_t *timeout_ms, rdl_err_t *err)
{
    if (replicas < 0 || replicas > REPLICAS_MAX)
        return rdl__err_set(err, RDL_EINVAL, "%s option replicas is %d: it must be 0 to %d", whose, (int)replicas,
                            REPLICAS_MAX);
    if (replicas == 0 && (*timeout_ms != 0 || if_able))
        return rdl__err_set(err, RDL_EINVAL, "%s option %s is nothing without replicas", whose,
                            if_able ? "replicas_if_able" : "replicas_timeout_ms");
    if (replicas > 0 && *timeout_ms == 0)
        *timeout_ms = REPLICAS_TIMEOUT_MS;
    if (*timeout_ms < 0 || *timeout_ms > REPLICAS_TIMEOUT_MAX_MS)
        return rdl__err_set(err, RDL_EINVAL, "%s option replicas_timeout_ms is %lld: it must be 1 to %d", whose,
                            (long long)*timeout_ms, REPLICAS_TIMEOUT_MAX_MS);
    return RDL_OK;
}

int rdl__acks_resolve(const struct rdl__acks *clients, const rdl_lock_options_t *o, struct rdl__acks *ret,
                      rdl_err_t *err)
{
    int32_t replicas = o->replicas == RDL_REPLICAS_NONE ? 0 : o->replicas;
    int64_t timeout_ms = o->replicas_timeout_ms;
    int rc = rdl__check_replicas("lock", replicas, o->replicas_if_able, &timeout_ms, err);

    if (rc < 0)
        return rc;
    *ret = o->replicas == 0 ? *clients : rdl__acks_of(replicas, o->replicas_if_able, timeout_ms);
    return RDL_OK;
}

struct rdl__acks rdl__acks_most(struct rdl__acks a, struct rdl__acks b)
{
    return (struct rdl__acks){.replicas = a.replicas > b.replicas ? a.replicas : b.replicas,
                              .timeout_ms = a.timeout_ms > b.timeout_ms ? a.timeout_ms : b.timeout_ms,
                              .if_able = b.if_able};
}

void rdl__acks_bound(struct rdl__acks *acks, int64_t most_ms)
{
    if (most_ms < acks->timeout_ms)
        acks->timeout_ms = most_ms < 1 ? 1 : (uint16_t)most_ms;
}

/* ---- the lane --------------------------------------------------------------------------------------------------- */

/* The next connection may be to another server, or as a user with the right. */
static void on_lane_event(void *arg, enum rdl__lane_event event, int64_t now)
{
    (void)event;
    (void)now;
    rdl__acks_may(arg);
}

bool rdl__acks_lane_open(struct rdl__acks_lane *acked, struct rdl__node *node)
{
    struct rdl__lane *lane;

    if (rdl__acks_lane(acked) != NULL)
        return true;
    if ((lane = rdl__lane_new(node, false)) == NULL)
        return false;
    rdl__lane_on_event(lane, on_lane_event, acked);
    atomic_store_explicit(&acked->lane, lane, memory_order_release);
    return true;
}

void rdl__acks_lane_done(struct rdl__acks_lane *acked)
{
    (void)rdl__lane_free(atomic_exchange(&acked->lane, NULL));
}

void rdl__acks_refused(struct rdl__acks_lane *acked)
{
    atomic_store(&acked->refused_until, rdl__after_ms(rdl__now(), REFUSED_MS));
}

void rdl__acks_may(struct rdl__acks_lane *acked)
{
    atomic_store(&acked->refused_until, 0);
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static bool refuses(const struct rdl__acks_lane *acked)
{
    int64_t until = atomic_load_explicit(&acked->refused_until, memory_order_relaxed);

    return until != 0 && rdl__now() < until;
}

enum rdl__asking rdl__acks_asks(const struct rdl__acks *acks, const struct rdl__acks_lane *acked)
{
    if (!refuses(acked))
        return RDL__ASKS_REPLICAS;
    return acks->if_able ? RDL__ASKS_NOBODY : RDL__ASKS_REFUSED;
}

void rdl__acks_put_wait(const struct rdl__acks *acks, int64_t left_ns, struct rdl__buf *to)
{
    int64_t left_ms = left_ns == RDL__NEVER ? INT64_MAX : left_ns / RDL__MS * 3 / 4;

    rdl__cmd_wait(to, acks->replicas,
                  left_ms < 1                  ? 1
                  : left_ms < acks->timeout_ms ? (uint32_t)left_ms
                                               : acks->timeout_ms);
}

int16_t rdl__acks_judge(const struct rdl__acks *acks, const struct rdl__reply *reply)
{
    int64_t confirmed;

    if (reply->type != RDL__REPLY_ERROR)
        return (int16_t)(rdl__reply_integer(reply, &confirmed) && confirmed <= INT16_MAX ? confirmed : 0);
    return acks->if_able && rdl__reply_refuses_wait(reply) ? RDL__ACKS_NEEDLESS : RDL__ACKS_REFUSED;
}

void rdl__acks_explain(const struct rdl__acks *acks, int16_t said, const char *words, char *to, size_t size)
{
    if (said >= 0)
        (void)rdl__line(to, size, "%d of %u replicas have confirmed it in time", (int)said, (unsigned)acks->replicas);
    else
        (void)rdl__line(to, size, "cannot wait for replicas: %s",
                        said == RDL__ACKS_NOT_ASKED ? "the server has refused WAIT lately"
                        : words != NULL             ? words
                                                    : "the server gave no reason");
}
