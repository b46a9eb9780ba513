/* SPDX-License-Identifier: MIT */
/* check_deeds.c - each call is answered once, in time, and with an answer that it may have.
 *
 * That it is answered once, and never from inside, is seen where answers come in (cast.c); that it is answered at all,
 * by the run's end.
 */
#include "tests/sim/checks.h"
#include "tests/sim/net.h"

#include <string.h>

#define SLACK_NS (2 * RDL__MS)

/* An acquire's wait counts from its call; whatever has no wait of its own, from when its turn comes (async.h). */
static bool has_deadline(const struct deed *d)
{
    return d->deadline != RDL__NEVER && (!d->queued || (d->verb == TAKE && d->wait_ms > 0));
}

static int64_t lateness(const struct deed *d)
{
    return how_late(d->actor->app, d->called, d->deadline, d->verb == TAKE && d->wait_ms != 0);
}

static void in_time(const struct deed *d)
{
    if (!has_deadline(d) || d->actor->app->dead || d->actor->app->ending || lateness(d) <= SLACK_NS)
        return;
    violated("no call outlives its deadline", "a call of %s is %lld us late", d->actor->name,
             (long long)(lateness(d) / RDL__US));
}

/* It asks for a lock alone that its actor shares already: it would wait for itself. */
static bool reads_already(const struct deed *d)
{
    return d->verb == TAKE && !shares(d->end) && d->actor->holds[other_end(d->end)].granted > 0;
}

static bool may_answer(const struct deed *d)
{
    switch (d->result) {
    case RDL_OK:
        return true;
    case 1:
        return d->verb == FORCE || d->verb == IS_LOCKED || d->verb == REMAINING;
    case RDL_ETIMEDOUT:
        return d->verb == TAKE && d->wait_ms != RDL_WAIT_FOREVER;
    case RDL_ENOTOWNER:
        return d->verb == RELEASE || d->verb == EXTEND;
    case RDL_ELOST:
        return d->verb == TAKE || d->verb == RELEASE || d->verb == EXTEND || d->verb == REMAINING;
    case RDL_EDEADLK:
        return d->verb == TAKE && (!name_at(d->end)->kind->reentrant || reads_already(d));
    case RDL_ECANCELED:
        return d->verb == TAKE && d->canceled;
    case RDL_ECLOSED:
        return d->actor->app->ending;
    case RDL_EUNKNOWN:
    case RDL_ECONN:
        return true;
    default:
        return d->verb == REMAINING && d->result > 0;
    }
}

/* The server has lost the hold meanwhile, outside of the promise. */
static bool taken_away(const struct deed *d)
{
    const struct name *name = name_at(d->end);

    return name->void_at >= d->called || was_forced(name, d->actor->holds[d->end].field);
}

/* Of calls with all the time in the world, when nothing was disturbed. */
static void as_it_should(const struct deed *d)
{
    bool doubtful = d->result == RDL_EUNKNOWN || d->result == RDL_ECONN;

    if (!app_calm(d->actor->app, d->called) || d->queued || d->actor->crowd)
        return;
    if (doubtful && (d->verb != TAKE || d->wait_ms == 0 || d->wait_ms == RDL_WAIT_FOREVER) && time_to_connect())
        violated("a server that answers is heard", "a call of %s answers %s", d->actor->name,
                 rdl_err_name((int)d->result));
    if (d->verb == RELEASE && d->sure && d->result != RDL_OK && time_to_connect() && !taken_away(d))
        violated("what is held can be given back", "an unlock of %s answers %s", d->actor->name,
                 rdl_err_name((int)d->result));
}

/* Who waits for the server as for a holder waits until its wait is over; and where the host alone may know of the lock,
 * who does not wait learns of an outage before that, if it is no nested take. */
static void outwaits(const struct deed *d)
{
    bool in_doubt = d->result == RDL_ECONN || d->result == RDL_EUNKNOWN;

    if (d->verb != TAKE || name_at(d->end)->outage < RDL_OUTAGE_WAIT || !in_doubt)
        return;
    if (d->wait_ms == 0 && (!is_local(d->end) || d->queued || d->actor->holds[d->end].granted > 0))
        return;
    if (d->deadline == RDL__NEVER || process_clock(&d->actor->app->process) < d->deadline)
        violated("who waits for the server waits to the end", "a take of %s answers %s", d->actor->name,
                 rdl_err_name((int)d->result));
}

/* The outermost take; a nested one adds nothing. */
static void never_alone_and_shared(const struct deed *d)
{
    if (reads_already(d) && d->result == RDL_OK && d->actor->holds[d->end].granted == 1)
        violated("who reads is not let in to write", "%s has both ends of %s", d->actor->name, name_at(d->end)->text);
}

static void deed_answered(const struct deed *d)
{
    never_alone_and_shared(d);
    if (!may_answer(d))
        violated("answers make sense", "verb %d of %s answers %lld (%s)", (int)d->verb, d->actor->name,
                 (long long)d->result, d->result < 0 ? rdl_err_name((int)d->result) : "no code");
    in_time(d);
    outwaits(d);
    as_it_should(d);
}

/* No later than what was sent is answered: a thread that reads for its answer looks up then. */
static void comes_back(const struct deed *d)
{
    int64_t since = d->canceled_at;

    if (d->verb == TAKE && since >= 0 && app_calm(d->actor->app, since) &&
        world_now() - since > SLACK_NS + 2 * net_round_trip() + net_connect_time() + world_lag(since))
        violated("who is canceled comes back", "%s waits since %lld us", d->actor->name,
                 (long long)((world_now() - since) / RDL__US));
}

static void deeds_under_way(void)
{
    for (struct rdl__link *l = cast.deeds.next; l != &cast.deeds; l = l->next) {
        in_time(rdl__container(l, struct deed, link));
        comes_back(rdl__container(l, struct deed, link));
    }
}

const struct check check_answers = {.event = deeds_under_way, .answered = deed_answered};
