/* SPDX-License-Identifier: MIT */
#include "core/call/share.h"

#include "core/call/cached.h"
#include "core/call/verb.h"

#define HEARD_MOST 32 /* are counted */
#define PASS_US 300   /* for each release that is owed: about as long as a change of owner takes */
#define PASS_MOST 13  /* are waited for at once: 3.9 ms */

static bool is_raced_for(const struct rdl__call *call)
{
    return rdl__news_raced_for(call->ops->news);
}

/* A repeat, or one that was not allowed to tell, does not say. */
void rdl__share_released(const struct rdl__call *call)
{
    int64_t heard = call->answer > RDL__HEARD_BY ? call->answer - RDL__HEARD_BY : 0;

    if (is_raced_for(call) && !call->req.resent && call->answer != RDL__UNTOLD && call->answer != RDL__NO_HOLD)
        atomic_store(&rdl__call_name(call)->share.heard, (uint8_t)(heard < HEARD_MOST ? heard : HEARD_MOST));
}

/* Behind the last but one it is its turn; and where channels linger it is among those that hear it itself. A quarter
 * more, as some do not listen at that moment: with too few owed those that a server tells first would have it more
 * often. */
void rdl__share_taken(const struct rdl__call *call)
{
    struct rdl__share *share = &rdl__call_name(call)->share;
    unsigned heard, less = rdl__news_linger_ms(call->ops->news) > 0 ? 2 : 1;

    if (!is_raced_for(call))
        return;
    heard = atomic_load(&share->heard);
    atomic_store(&share->owed, (uint8_t)(heard < less ? 0 : heard - less + heard / 4));
}

/* By chance, or it would miss again and again one that comes as often. */
static int64_t half_to_all_of(int64_t ns, int64_t now)
{
    return ns / 2 + now % (ns / 2);
}

/* Who takes a hold to be kept has others behind it, with deadlines of their own. */
int64_t rdl__share_pass(const struct rdl__call *call, int64_t free, int64_t now)
{
    struct rdl__share *share = &rdl__call_name(call)->share;
    int64_t ns, most = (call->deadline - now) / 2;
    uint8_t owed = atomic_load(&share->owed);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (!is_raced_for(call) || rdl__is_kept(call->n) || owed == 0)
        return 0;
    /* not if another thread was let in meanwhile, and owes anew */
    (void)atomic_compare_exchange_strong(&share->owed, &(uint8_t){owed}, (uint8_t)(owed < free ? 0 : owed - free));
    if (owed < free || most <= 0)
        return 0;
    ns = half_to_all_of((owed < PASS_MOST ? owed : PASS_MOST) * PASS_US * RDL__US, now);
    return ns < most ? ns : most;
}
