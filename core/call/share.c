/* SPDX-License-Identifier: MIT */
#include "core/call/share.h"

#include "core/call/verb.h"

#define HEARD_MOST 32 /* are counted */
#define PASS_US 300   /* for each release that is owed: about as long as a change of owner takes */
#define PASS_MOST 13  /* are waited for at once: 3.9 ms */

static bool is_raced_for(const struct rdl__call *call)
{
    return rdl__news_raced_for(call->ops->news);
}

void rdl__share_released(const struct rdl__call *call)
{
    int64_t heard = call->answer > RDL__HEARD_BY ? call->answer - RDL__HEARD_BY : 0;

    if (is_raced_for(call))
        atomic_store(&rdl__call_name(call)->share.heard, (uint8_t)(heard < HEARD_MOST ? heard : HEARD_MOST));
}

/* One of those that hear it is the client itself, mostly, and behind the last but one it is its turn. A quarter more,
 * as some do not listen at that moment: with too few owed those that a server tells first would have it more often. */
void rdl__share_taken(const struct rdl__call *call)
{
    struct rdl__share *share = &rdl__call_name(call)->share;
    unsigned heard;

    if (!is_raced_for(call))
        return;
    heard = atomic_load(&share->heard);
    atomic_store(&share->owed, (uint8_t)(heard < 2 ? 0 : heard - 2 + heard / 4));
}

/* By chance, or it would miss again and again one that comes as often. */
static int64_t about(int64_t ns, int64_t now)
{
    return ns / 2 + now % (ns / 2);
}

int64_t rdl__share_pass(const struct rdl__call *call, int64_t freed, int64_t now)
{
    struct rdl__share *share = &rdl__call_name(call)->share;
    int64_t owed, ns, most = (call->deadline - now) / 2;

    if (!is_raced_for(call) || (owed = atomic_load(&share->owed)) == 0)
        return 0;
    atomic_store(&share->owed, (uint8_t)(owed < freed ? 0 : owed - freed));
    if (owed < freed)
        return 0;
    ns = about((owed < PASS_MOST ? owed : PASS_MOST) * PASS_US * RDL__US, now);
    return ns < most ? ns : most;
}
