/* check_deeds.c - each call is answered once, in time, and with an answer that it may have.
 *
 * That it is answered once, and never from inside, is seen where answers come in (cast.c); that it is answered at all, by the
 * run's end.
 */
#include "tests/sim/checks.h"

#include <string.h>

#define SLACK_NS (2 * RDL__MS)

/* An acquire's wait counts from its call; whatever has no wait of its own, from when its turn comes (async.h). */
static bool has_deadline(const struct deed *d)
{
    return d->deadline != RDL__NEVER && (!d->queued || (d->verb == TAKE && d->wait_ms > 0));
}

/* How late it is. A process that was stopped meanwhile is given the time from when it went on; a verb without a wait of its
 * own may have begun only then. */
static int64_t lateness(const struct deed *d)
{
    const struct process *p = &d->actor->app->process;
    int64_t late = process_clock(p) - d->deadline;
    int64_t since = world_now() - p->went_on;

    if (p->stopped)
        return 0;
    if (p->went_on <= d->called)
        return late;
    if (d->verb != TAKE || d->wait_ms == 0)
        since -= cast.options.command_timeout_ms * RDL__MS;
    return late < since ? late : since;
}

static void in_time(const struct deed *d)
{
    if (!has_deadline(d) || d->actor->app->dead || d->actor->app->ending || lateness(d) <= SLACK_NS)
        return;
    violated("no call outlives its deadline", "a call of %s is %lld us late", d->actor->name,
             (long long)(lateness(d) / RDL__US));
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
        return d->verb == TAKE && !cast.names[d->name].kind->reentrant;
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
    const struct name *name = &cast.names[d->name];

    return name->void_at >= d->called || was_forced(name, d->actor->holds[d->name].field);
}

/* Of calls with all the time in the world, when nothing was disturbed. */
static void as_it_should(const struct deed *d)
{
    bool doubtful = d->result == RDL_EUNKNOWN || d->result == RDL_ECONN;

    if (!app_calm(d->actor->app, d->called) || d->queued)
        return;
    if (doubtful && (d->verb != TAKE || d->wait_ms == 0 || d->wait_ms == RDL_WAIT_FOREVER))
        violated("a server that answers is heard", "a call of %s answers %s", d->actor->name, rdl_err_name((int)d->result));
    if (d->verb == RELEASE && d->sure && d->result != RDL_OK && !taken_away(d))
        violated("what is held can be given back", "an unlock of %s answers %s", d->actor->name,
                 rdl_err_name((int)d->result));
}

static void deed_answered(const struct deed *d)
{
    if (!may_answer(d))
        violated("answers make sense", "verb %d of %s answers %lld (%s)", (int)d->verb, d->actor->name, (long long)d->result,
                 d->result < 0 ? rdl_err_name((int)d->result) : "no code");
    in_time(d);
    as_it_should(d);
}

static void deeds_under_way(void)
{
    for (struct rdl__link *l = cast.deeds.next; l != &cast.deeds; l = l->next)
        in_time(rdl__container(l, struct deed, link));
}

const struct check check_answers = {.event = deeds_under_way, .answered = deed_answered};
