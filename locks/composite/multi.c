/* SPDX-License-Identifier: MIT */
/* multi.c - taking all of several locks, or none.
 *
 * A round tries every member that is not held yet, all at once and without waiting: one round trip when all are free,
 * and one write where they are of one client. If some are refused, the first of them in the members' order is waited
 * for as a single lock is, by message; of the granted members those before it are kept meanwhile and those behind it
 * released. Then comes the next round.
 *
 * If others have a turn of a member first (core/call/line.h), it begins by waiting for that one, holding nothing: its
 * tries give way to nobody, and it would take the members again before those whom its release has just woken.
 *
 *   ROUND --all granted--> DONE
 *    |  ^
 *    v  | granted
 *   WAIT --time, cancel--> DONE
 *
 * While a member is waited for, only members before it in the order are held. All multi-locks order the members that
 * they share alike (composite.c sorts them), so among them no deadlock is possible, and each round gets further than
 * the one before.
 *
 * Java, and code that takes one lock inside another, know no such order. So members are held while waiting for a
 * bounded, random time only (retry; a third of the lease at most). Then they are released, and the wait goes on.
 *
 * With a lease of its own a take extends the members that it holds in every later round, so that in the end each has
 * the whole lease; no time to live is ever above it.
 *
 * One script for all members in one slot was measured and not taken (docs/decisions.md). The round trip is the same.
 * The server's time for three free members is the same within 3 %, and 6 % less with an append-only file. One script
 * would take all or none in one step; but a round copes with partial grants anyway, and every grant that is not wanted
 * has its own undo (core/call/undo.c). Answers, repeats and undos of the members would have to be separated from one
 * shared request.
 */
#include "locks/composite/plan.h"

#include "core/base/clock.h"

/* Try all members that are not held, and extend those that are to a whole lease. */
static void begin_round(struct rdl__plan *p, int64_t now)
{
    int64_t left_ms = rdl__plan_round_ms(p, now);

    if (left_ms < 1 && p->deadline != 0)
        left_ms = 1; /* 0 would be command_timeout_ms */
    p->phase = RDL__PLAN_ROUND;
    p->wake_at = RDL__NEVER;
    for (unsigned i = 0; i < p->n; i++) {
        if (p->member[i].state != RDL__MEMBER_TAKEN) {
            rdl__plan_ask(p, i, RDL__MEMBER_TRY, left_ms);
        } else if (!p->renewed) {
            rdl__plan_ask(p, i, RDL__MEMBER_EXTEND, left_ms);
            p->wake_at = p->deadline; /* an extend's own bound, command_timeout_ms, may be later */
        }
    }
    p->rounds++;
    if (p->out == 0)
        rdl__plan_finish(p, RDL_OK, 0);
}

/* The first member that was refused; p->n: none. */
static unsigned first_refused(const struct rdl__plan *p)
{
    unsigned i = 0;

    while (i < p->n && p->member[i].state != RDL__MEMBER_REFUSED)
        i++;
    return i;
}

/* How long the members before `at` may be held while it is waited for. */
static int64_t hold_until(struct rdl__plan *p, unsigned at, int64_t now)
{
    int64_t ms = rdl__plan_pause_ms(p);

    if (at == 0)
        return RDL__NEVER;
    return rdl__after_ms(now, ms < p->most_hold_ms ? ms : p->most_hold_ms);
}

/* Nothing is held. Of several members of which others have a turn only the first is waited for: by the time that it is
 * taken, those whose turn the rest were have had a round trip more. A wait that may be over before its first answer
 * gives way to nobody, as a single try: it would not get what is free. A longer one needs no patience. */
static void begin(struct rdl__plan *p, int64_t now)
{
    int64_t left_ms = rdl__plan_left_ms(p, now);
    unsigned at = 0;

    while (at < p->n && !p->member[at].waits)
        at++;
    if (p->one_try || at == p->n || left_ms < p->patience_ms) {
        begin_round(p, now);
        return;
    }
    p->phase = RDL__PLAN_WAIT;
    p->at = at;
    p->patience_ms = 0;
    rdl__plan_ask(p, at, RDL__MEMBER_WAIT, left_ms);
}

static void wait_for(struct rdl__plan *p, unsigned at, int64_t now)
{
    for (unsigned i = at + 1; i < p->n; i++)
        rdl__plan_let_go(p, i);
    p->phase = RDL__PLAN_WAIT;
    p->at = at;
    p->wake_at = hold_until(p, at, now);
    p->conflicts++;
    rdl__plan_ask(p, at, RDL__MEMBER_WAIT, rdl__plan_left_ms(p, now));
}

static void end_round(struct rdl__plan *p, int64_t now)
{
    unsigned at = first_refused(p);

    if (at == p->n)
        rdl__plan_finish(p, RDL_OK, 0);
    else if (p->one_try || rdl__plan_late(p, now))
        rdl__plan_finish(p, RDL_ETIMEDOUT, at);
    else
        wait_for(p, at, now);
}

static void answered(struct rdl__plan *p, const struct rdl__plan_event *ev)
{
    if (!rdl__plan_note(p, ev))
        return;
    if (ev->code != RDL_OK && (ev->code != RDL_ETIMEDOUT || p->phase == RDL__PLAN_WAIT))
        rdl__plan_finish(p, ev->code, ev->member);
    else if (p->phase == RDL__PLAN_WAIT)
        begin_round(p, ev->now);
    else if (p->out == 0)
        end_round(p, ev->now);
}

/* The timer: members were held long enough while another was waited for; or extends of a round were not answered by the
 * deadline. */
static void on_timer(struct rdl__plan *p)
{
    if (p->phase == RDL__PLAN_ROUND) {
        rdl__plan_finish(p, RDL_EUNKNOWN, 0);
        return;
    }
    p->wake_at = RDL__NEVER;
    for (unsigned i = 0; i < p->n; i++)
        if (i != p->at)
            rdl__plan_let_go(p, i);
}

static void multi_on(struct rdl__plan *p, const struct rdl__plan_event *ev)
{
    switch (ev->kind) {
    case RDL__PLAN_START:
        begin(p, ev->now);
        break;
    case RDL__PLAN_ANSWER:
        answered(p, ev);
        break;
    case RDL__PLAN_TIMER:
        on_timer(p);
        break;
    case RDL__PLAN_STOP:
        rdl__plan_finish(p, ev->code, p->at);
        break;
    case RDL__PLAN_RELEASED:
    case RDL__PLAN_TURN:
        break;
    }
}

const struct rdl__plan_ops rdl__multi_ops = {
    .on = multi_on,
    .majority = false,
};
