/* SPDX-License-Identifier: MIT */
/* check_calls.c - each call is answered once, in time, and with an answer that it may have.
 *
 * That it is answered once, and never from inside, is seen where answers come in (apps.c); that it is answered at all,
 * by the run's end.
 */
#include "tests/sim/checks.h"
#include "tests/sim/net.h"

#include <string.h>

#define SLACK_NS (2 * RDL__MS)

/* An acquire's wait counts from its call; whatever has no wait of its own, from when its turn comes (async.h). */
static bool has_deadline(const struct lock_call *call)
{
    return call->deadline != RDL__NEVER && (!call->queued || (call->verb == TAKE && call->wait_ms > 0));
}

static int64_t lateness(const struct lock_call *call)
{
    return how_late(call->caller->app, call->called, call->deadline, call->verb == TAKE && call->wait_ms != 0);
}

static void in_time(const struct lock_call *call)
{
    if (!has_deadline(call) || call->caller->app->dead || call->caller->app->ending || lateness(call) <= SLACK_NS)
        return;
    violated("no call outlives its deadline", "a call of %s is %lld us late", call->caller->name,
             (long long)(lateness(call) / RDL__US));
}

/* It asks for a lock alone that its caller shares already: it would wait for itself. */
static bool reads_already(const struct lock_call *call)
{
    return call->verb == TAKE && !shares(call->end) && call->caller->holds[other_end(call->end)].granted > 0;
}

static bool may_answer(const struct lock_call *call)
{
    switch (call->result) {
    case RDL_OK:
        return true;
    case 1:
        return call->verb == FORCE || call->verb == IS_LOCKED || call->verb == REMAINING;
    case RDL_ETIMEDOUT:
        return call->verb == TAKE && call->wait_ms != RDL_WAIT_FOREVER;
    case RDL_ENOTOWNER:
        return call->verb == RELEASE || call->verb == EXTEND;
    case RDL_ELOST:
        return call->verb == TAKE || call->verb == RELEASE || call->verb == EXTEND || call->verb == REMAINING;
    case RDL_EDEADLK:
        return call->verb == TAKE && (!name_at(call->end)->kind->reentrant || reads_already(call));
    case RDL_ECANCELED:
        return call->verb == TAKE && call->canceled;
    case RDL_ECLOSED:
        return call->caller->app->ending;
    case RDL_EUNKNOWN:
    case RDL_ECONN:
        return true;
    default:
        return call->verb == REMAINING && call->result > 0;
    }
}

/* The server has lost the hold meanwhile, outside of the promise. */
static bool taken_away(const struct lock_call *call)
{
    const struct name *name = name_at(call->end);

    return name->void_at >= call->called || was_forced(name, call->caller->holds[call->end].field);
}

/* Of calls with all the time in the world, when nothing was disturbed. */
static void as_it_should(const struct lock_call *call)
{
    bool doubtful = call->result == RDL_EUNKNOWN || call->result == RDL_ECONN;

    if (!app_calm(call->caller->app, call->called) || call->queued || call->caller->crowd)
        return;
    if (doubtful && (call->verb != TAKE || call->wait_ms == 0 || call->wait_ms == RDL_WAIT_FOREVER) &&
        time_to_connect())
        violated("a server that answers is heard", "a call of %s answers %s", call->caller->name,
                 rdl_err_name((int)call->result));
    if (call->verb == RELEASE && call->sure && call->result != RDL_OK && time_to_connect() && !taken_away(call))
        violated("what is held can be given back", "an unlock of %s answers %s", call->caller->name,
                 rdl_err_name((int)call->result));
}

/* Who waits for the server as for a holder waits until its wait is over; and where the host alone may know of the lock,
 * who does not wait learns of an outage before that, if it is no nested take. */
static void outwaits(const struct lock_call *call)
{
    bool in_doubt = call->result == RDL_ECONN || call->result == RDL_EUNKNOWN;

    if (call->verb != TAKE || name_at(call->end)->outage < RDL_OUTAGE_WAIT || !in_doubt)
        return;
    if (call->wait_ms == 0 && (!is_local(call->end) || call->queued || call->caller->holds[call->end].granted > 0))
        return;
    if (call->deadline == RDL__NEVER || process_clock(&call->caller->app->process) < call->deadline)
        violated("who waits for the server waits to the end", "a take of %s answers %s", call->caller->name,
                 rdl_err_name((int)call->result));
}

/* The outermost take; a nested one adds nothing. */
static void never_alone_and_shared(const struct lock_call *call)
{
    if (reads_already(call) && call->result == RDL_OK && call->caller->holds[call->end].granted == 1)
        violated("who reads is not let in to write", "%s has both ends of %s", call->caller->name,
                 name_at(call->end)->text);
}

static void call_answered(const struct lock_call *call)
{
    never_alone_and_shared(call);
    if (!may_answer(call))
        violated("answers make sense", "verb %d of %s answers %lld (%s)", (int)call->verb, call->caller->name,
                 (long long)call->result, call->result < 0 ? rdl_err_name((int)call->result) : "no code");
    in_time(call);
    outwaits(call);
    as_it_should(call);
}

/* No later than what was sent is answered: a thread that reads for its answer looks up then. */
static void comes_back(const struct lock_call *call)
{
    int64_t since = call->canceled_at;

    if (call->verb == TAKE && since >= 0 && app_calm(call->caller->app, since) &&
        world_now() - since > SLACK_NS + 2 * net_round_trip() + net_connect_time() + world_lag(since))
        violated("who is canceled comes back", "%s waits since %lld us", call->caller->name,
                 (long long)((world_now() - since) / RDL__US));
}

static void calls_under_way(void)
{
    for (struct rdl__link *l = sim.calls.next; l != &sim.calls; l = l->next) {
        in_time(rdl__container(l, struct lock_call, link));
        comes_back(rdl__container(l, struct lock_call, link));
    }
}

const struct check check_answers = {.event = calls_under_way, .answered = call_answered};
