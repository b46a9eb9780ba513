/* SPDX-License-Identifier: MIT */
/* clocks.c - the clocks of a server and of this host: how far apart they are, and whether one steps.
 *
 * A look is the quickest of a few questions for TIME, which was answered at about the middle of its round trip. Two
 * looks are PAUSE_MS apart at least; what the clocks went on between them is compared with this host's monotonic clock.
 */
#include "core/base/err.h"
#include "inspect/visit.h"

#include <stdlib.h>

#define READINGS 5
#define PAUSE_MS 300
#define APART (1 * RDL__SEC) /* of clocks that nobody sets by each other */
#define STEP (100 * RDL__MS) /* less is the work of what keeps them set */

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static struct rdl__clocks read_clocks(struct rdl__visit *v)
{
    struct rdl__clocks best = {.error = RDL__NEVER};

    for (int i = 0; i < READINGS; i++) {
        int64_t before = rdl__now(), wall = rdl__wall(), s, us, error;
        const struct rdl__reply *time = rdl__probe_ask(v->probe, "TIME", NULL);
        int64_t after = rdl__now();

        if (time->type != RDL__REPLY_ARRAY || time->len < 2 || !rdl__reply_integer(time->elem[0], &s) ||
            !rdl__reply_integer(time->elem[1], &us))
            break;
        error = (after - before) / 2;
        if (error < best.error)
            best = (struct rdl__clocks){before + error, wall + error, s * RDL__SEC + us * RDL__US, error};
    }
    return best;
}

void rdl__clocks_begin(struct rdl__visit *v)
{
    v->clocks = read_clocks(v);
}

/* How far a clock has gone more than the monotonic one, in ms; 0: no more than the looks may be wrong. */
static long long stepped(int64_t went, int64_t passed, int64_t error)
{
    return distance(went, passed) > STEP + error ? (long long)((went - passed) / RDL__MS) : 0;
}

static void check_steps(const struct rdl__visit *v, const struct rdl__clocks *then, const struct rdl__clocks *now)
{
    int64_t passed = now->now - then->now, error = now->error + then->error;
    long long server = stepped(now->server - then->server, passed, error);
    long long host = stepped(now->wall - then->wall, passed, error);

    if (server != 0)
        rdl__tell(
            v, RDL_SEVERITY_CRITICAL, "clock-step",
            "A server ends leases by its time of day: a step forward frees locks whose holders work on, a step back "
            "keeps those of the dead.",
            "timedatectl set-ntp true   # on the server's host, so that the clock is slewed",
            "the server's clock stepped by %lld ms within %lld ms", server, (long long)(passed / RDL__MS));
    if (host != 0)
        rdl__tell(v, RDL_SEVERITY_WARNING, "clock-step",
                  "redlatch measures leases by a clock that does not step; a server on this host does not.",
                  "timedatectl set-ntp true   # so that the clock is slewed",
                  "this host's clock stepped by %lld ms within %lld ms", host, (long long)(passed / RDL__MS));
    if (server == 0 && host == 0)
        rdl__tell(v, RDL_SEVERITY_OK, "clock-step", "", "", "no clock stepped within %lld ms",
                  (long long)(passed / RDL__MS));
}

void rdl__doctor_check_clocks(struct rdl__visit *v)
{
    struct rdl__parker nobody;
    struct rdl__clocks now;
    int64_t apart;

    if (v->clocks.server == 0) {
        rdl__tell(v, RDL_SEVERITY_NOTE, "clock", "Renewals ask for it.", "",
                  "TIME is refused: clocks were not compared");
        return;
    }
    rdl__parker_init(&nobody);
    (void)rdl__park(&nobody, rdl__after_ms(v->clocks.now, PAUSE_MS));
    now = read_clocks(v);
    if (now.server == 0)
        return;
    check_steps(v, &v->clocks, &now);
    apart = now.server - now.wall;
    if (distance(now.server, now.wall) > APART + now.error)
        rdl__tell(
            v, RDL_SEVERITY_WARNING, "clock",
            "Tokens are the server's clock: after a failover to one that is behind they go back. What people read "
            "in logs is off by as much.",
            "timedatectl set-ntp true   # on both",
            "the server's clock is %lld ms %s this host's, give or take %lld ms", llabs((long long)(apart / RDL__MS)),
            apart > 0 ? "before" : "behind", (long long)(now.error / RDL__MS) + 1);
    else
        rdl__tell(v, RDL_SEVERITY_OK, "clock", "", "", "%lld ms from this host's, give or take %lld ms",
                  (long long)(apart / RDL__MS), (long long)(now.error / RDL__MS) + 1);
}
