/* SPDX-License-Identifier: MIT */
/* check_holds.c - what callers believe to hold: alone, truly, for as long as they may, and told when it is over.
 *
 * Some faults lie outside the promise: the server loses its keys, its clock jumps beyond the allowance, somebody evicts
 * the holder. Holds of before are then excused from being in the keyspace and from being alone, each by itself and from
 * that moment on, and the register that tokens are for may refuse them: who is told late of what it was granted before
 * the keys were lost comes after the next holder, and is what tokens are for. They are not excused from the rest: a
 * later hold has the higher token, and the loss is noticed in time.
 */
#include "tests/sim/checks.h"
#include "tests/sim/net.h"

#include <string.h>

/* ---- one at a time ---------------------------------------------------------------------------------------------- */

/* Who believes to hold a lock: alone, or with others, of whom two are enough to know. */
struct believers {
    const struct caller *alone, *sharing[2];
};

/* Who cannot believe so as well; NULL: nobody. */
static const struct caller *rival_of(const struct believers *b, const struct caller *caller, bool shares_it)
{
    if (b->alone != NULL && b->alone != caller)
        return b->alone;
    for (size_t i = 0; i < 2 && !shares_it; i++)
        if (b->sharing[i] != NULL && b->sharing[i] != caller)
            return b->sharing[i];
    return NULL;
}

static void join_in(struct believers *b, const struct caller *caller, bool shares_it)
{
    if (!shares_it)
        b->alone = caller;
    else if (b->sharing[0] == NULL)
        b->sharing[0] = caller;
    else if (b->sharing[0] != caller)
        b->sharing[1] = caller;
}

/* The caller believes to hold it, and has no excuse for being mistaken. */
static void alone(struct believers *b, const struct caller *caller, size_t n)
{
    const struct name *name = name_at(n);
    const struct caller *rival = rival_of(b, caller, shares(n));

    if (rival != NULL)
        violated("exclusion", "%s and %s both believe to hold %s", rival->name, caller->name, name->text);
    if (name->foreign_until > world_now())
        violated("exclusion", "%s believes to hold %s, and so does a foreign client", caller->name, name->text);
    join_in(b, caller, shares(n));
}

/* ---- truly ------------------------------------------------------------------------------------------------------ */

static void see_lost(struct caller *caller, size_t n, struct hold *h)
{
    h->lost_at = world_now();
    if (h->excuse == NULL && h->renewed && app_calm(caller->app, h->called))
        violated("a hold that is renewed is not lost without a cause", "%s has lost %s", caller->name,
                 name_at(n)->text);
}

/* Its client is changing it; once that is over its deadline may have become another meanwhile. */
static bool unseen(const struct caller *caller, size_t n, struct hold *h)
{
    if (!h->hidden && h->missed)
        h->deadline = hold_deadline(caller, n);
    h->missed = h->hidden;
    return h->hidden;
}

/* Was its time over when something could still be done about that? Threads take time: what has ended since it was last
 * looked at may have been put off just before. */
static bool was_over(const struct caller *caller, struct hold *h)
{
    int64_t now = process_clock(&caller->app->process);
    bool over = h->deadline <= (world_threaded() ? h->looked_at : now);

    h->looked_at = now;
    return over;
}

/* It is the host's alone, or is it no more? */
static void see_outage(struct caller *caller, size_t n, struct hold *h, bool believed)
{
    if (h->state == RDL_DEGRADED && h->alone_since == 0)
        checks_alone(caller, n);
    if (h->state != RDL_DEGRADED && h->alone_since != 0 && believed)
        hold_restored(caller, n);
    if (h->state == RDL_DEGRADED && h->alone_since == 0)
        h->alone_since = world_now();
    if (h->state != RDL_DEGRADED && h->alone_since != 0) {
        h->alone_since = 0;
        h->restored_at = believed ? world_now() : 0;
    }
}

static void truly(struct caller *caller, size_t n, struct hold *h, bool believed)
{
    bool alone, over;

    if (caller->app->ending || caller->app->dead || caller->crowd || unseen(caller, n, h))
        return;
    alone = h->state == RDL_DEGRADED;
    if ((believed || alone) && h->lost_at >= 0)
        violated("a lost hold does not come back", "%s has %s again", caller->name, name_at(n)->text);
    over = was_over(caller, h);
    if ((believed || alone) && over)
        violated("a late answer revives nothing", "%s still has %s", caller->name, name_at(n)->text);
    h->deadline = hold_deadline(caller, n);
    if (!believed && !alone && h->lost_at < 0)
        see_lost(caller, n, h);
    see_outage(caller, n, h, believed);
    if (believed && h->excuse == NULL && !shows(name_at(n), h->field))
        violated("who believes to hold does hold", "%s believes to hold %s as %s, and the server does not know of it",
                 caller->name, name_at(n)->text, h->field);
}

static void beliefs(void)
{
    struct believers believers[MOST_NAMES] = {{NULL}};

    EACH_HOLD(caller, n, h)
    {
        bool believed = believes(caller, n);

        truly(caller, n, h, believed);
        if (believed && h->excuse == NULL)
            alone(&believers[n % MOST_NAMES], caller, n);
    }
}

const struct check check_holds = {.event = beliefs};

/* ---- tokens ----------------------------------------------------------------------------------------------------- */

/* A register that refuses what is older than the newest token seen: it must never refuse a holder. */
static void token_granted(struct caller *caller, size_t n)
{
    struct name *name = name_at(n);
    const struct hold *h = &caller->holds[n];

    if (!name->token || server_stepped_back() || caller->crowd)
        return;
    if (h->token == 0 && believes(caller, n) && !h->hidden)
        violated("a fenced hold has a token", "%s has none for %s", caller->name, name->text);
    if (h->token != 0 && h->token == name->token_best && strcmp(h->field, name->token_best_of) == 0)
        return;
    if (h->token != 0 && h->token <= name->token_best && h->excuse == NULL && believes(caller, n))
        violated("tokens grow", "%s has %lld for %s after %lld", caller->name, (long long)h->token, name->text,
                 (long long)name->token_best);
    if (!name->by_time && h->excuse != NULL)
        return; /* of a count that may have begun again since */
    if (h->token > name->token_best) {
        name->token_best = h->token;
        memcpy(name->token_best_of, h->field, FIELD_SIZE);
    }
}

const struct check check_tokens = {.granted = token_granted};

/* ---- losses ----------------------------------------------------------------------------------------------------- */

#define NEWS_NS (2 * RDL__MS)

static void loss_told(struct caller *caller, size_t n, const rdl_loss_t *loss)
{
    EACH_HOLD(other, i, h)
    {
        if (i != n || other->app != caller->app || other->app->ending || strcmp(h->id, loss->owner) != 0)
            continue;
        if (loss->state == RDL_LOST && other == caller && h->told)
            violated("a loss is told once", "%s is told of %s again", caller->name, loss->owner);
        if (loss->state == RDL_LOST && believes(other, i))
            violated("what is told lost is lost", "%s still believes in %s", other->name, loss->owner);
        if (loss->state == RDL_LOST && other == caller)
            h->told = true;
    }
}

/* It is lost, and whoever runs could have said so: the deadline is its own, and needs no server (protocol.md, 4). */
static bool untold(const struct caller *caller, const struct hold *h)
{
    const struct process *p = &caller->app->process;
    int64_t since = h->lost_at > p->went_on ? h->lost_at : p->went_on;

    return h->lost_at >= 0 && !h->told && !caller->app->dead && !caller->app->ending && !p->stopped &&
           world_now() - since > NEWS_NS + world_lag(since);
}

/* The server has had it no more for so long that the watchdog should have asked since. */
static bool overdue(const struct caller *caller, const struct hold *h)
{
    int64_t period = sim.options.watchdog_lease_ms * RDL__MS / 3 + net_round_trip() + NEWS_NS + world_lag(h->gone_at);

    return h->renewed && h->lost_at < 0 && h->gone_at >= 0 && world_now() - h->gone_at > period &&
           app_calm(caller->app, h->gone_at);
}

static void losses(void)
{
    EACH_HOLD(caller, n, h)
    {
        if (caller->crowd)
            continue;
        if (h->alone_since != 0 || shows(name_at(n), h->field))
            h->gone_at = -1;
        else if (h->gone_at < 0)
            h->gone_at = world_now();
        if (untold(caller, h))
            violated("a loss is told", "%s knows nothing of %s", caller->name, h->field);
        if (overdue(caller, h))
            violated("a loss is noticed within a renewal period", "%s still believes in %s: %s", caller->name, h->field,
                     h->excuse);
    }
}

const struct check check_losses = {.told = loss_told, .event = losses};
