/* SPDX-License-Identifier: MIT */
/* red.c - taking a lock on a majority of independent servers
 * (https://redis.io/docs/latest/develop/use/patterns/distributed-locks).
 *
 * A round asks all servers at once, each for member_timeout_ms at most. When a quorum has granted, the lock is held;
 * servers that have not answered yet join the hold if they grant it in time. When a quorum has become impossible,
 * everything is released on all servers, also on those that did not answer: their undo is repeated until it is settled
 * (core/call/undo.c). Then comes a random, growing pause and the next round, until the deadline. So two rivals that
 * have split the servers between them try again at different moments.
 *
 *   ROUND --quorum--> DONE
 *    ^  | lost
 *    |  v
 *   PAUSE --deadline, cancel--> DONE
 *
 * The pause ends early when a majority may be free: members' releases are heard on their channels, and what was granted
 * in a lost round was released here. While there is a holder it has a majority, so the rest is not enough. At least one
 * of the free members must have refused the last round, or not been asked by it, since our own releases are heard as
 * well. Rivals that have split the servers hear of each other's releases at the same moment. So a round that follows a
 * release begins at once the first time; after such rounds were lost, at a random moment within two round times, four,
 * at most sixteen. Of the calls that wait for one composite only the first acts on releases: otherwise n calls would
 * ask at each of n releases. Ends of leases and lost messages are not heard: for those there is the pause.
 *
 * The hold is valid until the quorum-th longest of its members' deadlines (protocol.md, 8): each of those is lease -
 * elapsed - drift, by its own client. A member whose server has been up for too short a time is held and released like
 * any other, but does not count: that server may have forgotten a holder whose lease still runs. Nor does a second
 * member at one server.
 */
#include "locks/composite/plan.h"

#include "core/base/clock.h"

static void round_lost(struct rdl__plan *p, int64_t now);

static void begin_round(struct rdl__plan *p, int64_t now)
{
    int64_t left_ms = rdl__plan_round_ms(p, now);
    int64_t bound_ms = left_ms != 0 && left_ms < p->member_timeout_ms ? left_ms : p->member_timeout_ms;

    p->phase = RDL__PLAN_ROUND;
    p->wake_at = RDL__NEVER;
    p->round_at = now;
    for (unsigned i = 0; i < p->n; i++)
        if (p->member[i].state != RDL__MEMBER_ASKED)
            rdl__plan_ask(p, i, RDL__MEMBER_TRY, bound_ms);
        else
            p->member[i].passed_over = true; /* its canceled call has not ended yet */
    p->rounds++;
    if (p->out < p->quorum)
        round_lost(p, now);
}

static unsigned failed_with(const struct rdl__plan *p, int code, unsigned *ret_member)
{
    unsigned count = 0;

    for (unsigned i = 0; i < p->n; i++)
        if ((p->member[i].state == RDL__MEMBER_FAILED || p->member[i].state == RDL__MEMBER_REFUSED) &&
            p->member[i].code == code) {
            count++;
            *ret_member = i;
        }
    return count;
}

/* Why the round was lost. True: for good, since another round would end the same. */
static bool judge(const struct rdl__plan *p, int *ret_code, unsigned *ret_member)
{
    static const int ours[] = {RDL_ECANCELED, RDL_EDEADLK, RDL_EINVAL, RDL_ENOMEM};
    static const int theirs[] = {RDL_ELOST, RDL_ECLOSED};
    unsigned spare = p->n - p->quorum;

    for (unsigned i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (failed_with(p, *ret_code = ours[i], ret_member) > 0)
            return true;
    for (unsigned i = 0; i < sizeof theirs / sizeof theirs[0]; i++)
        if (failed_with(p, *ret_code = theirs[i], ret_member) > spare)
            return true;
    *ret_code = failed_with(p, RDL_ETIMEDOUT, ret_member) > spare ? RDL_ETIMEDOUT : RDL_ENOQUORUM;
    return false;
}

/* Judged by the members that can be asked. At least one of them has refused, or was passed over by, the last round:
 * otherwise the next round would be the one that was just lost. */
static bool majority_may_be_had(const struct rdl__plan *p)
{
    unsigned open = 0, left = 0;

    for (unsigned i = 0; i < p->n; i++) {
        if (!p->member[i].open || p->member[i].state == RDL__MEMBER_ASKED)
            continue;
        open += !p->member[i].uncounted;
        left += p->member[i].anothers || p->member[i].passed_over;
    }
    return open >= p->quorum && left > 0;
}

/* End the pause early if a majority may be free. */
static void bring_forward(struct rdl__plan *p, int64_t now)
{
    int64_t at = now;

    if (p->hurried || p->behind || !majority_may_be_had(p))
        return;
    p->hurried = true;
    if (p->in_vain > 0)
        at += (int64_t)rdl__rand_below(&p->rand, (uint64_t)p->round_ns << (p->in_vain < 4 ? p->in_vain : 4));
    if (at < p->wake_at)
        p->wake_at = at;
}

static void round_lost(struct rdl__plan *p, int64_t now)
{
    bool final = judge(p, &p->rc, &p->culprit);

    if (final || p->one_try || rdl__plan_late(p, now)) {
        rdl__plan_finish(p, p->rc, p->culprit);
        return;
    }
    for (unsigned i = 0; i < p->n; i++)
        rdl__plan_let_go(p, i);
    p->phase = RDL__PLAN_PAUSE;
    p->wake_at = rdl__after_ms(now, rdl__plan_pause_ms(p));
    if (p->wake_at > p->deadline)
        p->wake_at = p->deadline;
    p->conflicts++;
    p->in_vain = p->hurried ? p->in_vain + 1 : 0;
    p->hurried = false;
    p->round_ns = now - p->round_at;
    bring_forward(p, now);
}

static unsigned granted(const struct rdl__plan *p)
{
    unsigned count = 0;

    for (unsigned i = 0; i < p->n; i++)
        count += p->member[i].state == RDL__MEMBER_TAKEN && !p->member[i].uncounted;
    return count;
}

static void answered(struct rdl__plan *p, const struct rdl__plan_event *ev)
{
    bool wanted = rdl__plan_note(p, ev);
    unsigned had;

    if (p->phase == RDL__PLAN_PAUSE)
        bring_forward(p, ev->now);
    if (!wanted || p->phase != RDL__PLAN_ROUND)
        return;
    had = granted(p);
    if (had >= p->quorum && rdl__plan_until(p) > ev->now)
        rdl__plan_finish(p, RDL_OK, 0);
    else if (had + p->out < p->quorum || p->out == 0)
        round_lost(p, ev->now);
}

static void red_on(struct rdl__plan *p, const struct rdl__plan_event *ev)
{
    switch (ev->kind) {
    case RDL__PLAN_START:
        begin_round(p, ev->now);
        break;
    case RDL__PLAN_ANSWER:
        answered(p, ev);
        break;
    case RDL__PLAN_TIMER:
        if (rdl__plan_late(p, ev->now))
            rdl__plan_finish(p, p->rc, p->culprit);
        else
            begin_round(p, ev->now);
        break;
    case RDL__PLAN_RELEASED:
        p->member[ev->member].open = true;
        if (p->phase == RDL__PLAN_PAUSE)
            bring_forward(p, ev->now);
        break;
    case RDL__PLAN_TURN:
        if (p->phase == RDL__PLAN_PAUSE)
            bring_forward(p, ev->now);
        break;
    case RDL__PLAN_STOP:
        rdl__plan_finish(p, ev->code, 0);
        break;
    }
}

const struct rdl__plan_ops rdl__red_ops = {
    .on = red_on,
    .majority = true,
    .wants_releases = true,
};
