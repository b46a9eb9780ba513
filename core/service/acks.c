/* acks.c - replicas' confirmation of what was written (protocol.md, 8): how it is asked for. */
#include "core/service/acks.h"

#include "core/base/err.h"

#define REPLICAS_MAX 255
#define REPLICAS_TIMEOUT_MS 100
#define REPLICAS_TIMEOUT_MAX_MS 1000

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
