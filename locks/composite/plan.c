/* SPDX-License-Identifier: MIT */
/* plan.c - what the machines of composite locks have in common. */
#include "locks/composite/plan.h"

#include "core/base/clock.h"
#include "core/call/take.h"

void rdl__plan_ask(struct rdl__plan *p, unsigned i, enum rdl__member_order order, int64_t bound_ms)
{
    struct rdl__member *member = &p->member[i];

    member->state = RDL__MEMBER_ASKED;
    member->order = (unsigned char)order;
    member->bound_ms = bound_ms;
    member->given_up = false;
    member->was_open = member->open;
    member->open = false;
    member->passed_over = false;
    member->code = RDL_OK;
    member->until = 0;
    p->out++;
}

static void release(struct rdl__member *member)
{
    member->state = RDL__MEMBER_FREE;
    member->order = RDL__MEMBER_RELEASE;
    member->open = true;
}

void rdl__plan_let_go(struct rdl__plan *p, unsigned i)
{
    struct rdl__member *member = &p->member[i];

    if (member->state == RDL__MEMBER_TAKEN) {
        release(member);
    } else if (member->state == RDL__MEMBER_ASKED && !member->given_up) {
        p->out--;
        if (member->order == RDL__MEMBER_TRY || member->order == RDL__MEMBER_WAIT) { /* the driver has not begun it */
            member->state = RDL__MEMBER_FREE;
            member->order = RDL__MEMBER_NOTHING;
            member->open |= member->was_open;
        } else if (member->order == RDL__MEMBER_EXTEND) {
            release(member);
        } else {
            member->given_up = true;
            member->order = RDL__MEMBER_CANCEL;
        }
    }
}

bool rdl__plan_note(struct rdl__plan *p, const struct rdl__plan_event *ev)
{
    struct rdl__member *member = &p->member[ev->member];
    bool wanted = !member->given_up;

    if (wanted)
        p->out--;
    member->given_up = false;
    member->code = ev->code;
    member->until = ev->until;
    member->uncounted = ev->uncounted;
    if (ev->code == RDL_OK || ev->code == RDL_ETIMEDOUT)
        member->anothers = ev->code != RDL_OK;
    if (ev->code == RDL_OK)
        member->state = RDL__MEMBER_TAKEN;
    else if (!wanted) /* its error says nothing about the present round */
        member->state = RDL__MEMBER_FREE;
    else
        member->state = ev->code == RDL_ETIMEDOUT ? RDL__MEMBER_REFUSED : RDL__MEMBER_FAILED;
    if (!wanted && member->state == RDL__MEMBER_TAKEN)
        release(member);
    else if (!wanted && ev->code != RDL_ETIMEDOUT) /* perhaps it was never sent */
        member->open |= member->was_open;
    return wanted;
}

void rdl__plan_finish(struct rdl__plan *p, int rc, unsigned culprit)
{
    for (unsigned i = 0; rc < 0 && i < p->n; i++)
        rdl__plan_let_go(p, i);
    p->phase = RDL__PLAN_DONE;
    p->wake_at = RDL__NEVER;
    p->rc = rc;
    p->culprit = culprit;
}

int64_t rdl__plan_left_ms(const struct rdl__plan *p, int64_t now)
{
    if (p->deadline == RDL__NEVER)
        return RDL_WAIT_FOREVER;
    return p->deadline == 0 ? 0 : rdl__ms_until(p->deadline, now);
}

int64_t rdl__plan_round_ms(const struct rdl__plan *p, int64_t now)
{
    int64_t left_ms = rdl__plan_left_ms(p, now);

    return p->rounds == 0 && p->deadline != 0 && left_ms < p->patience_ms ? p->patience_ms : left_ms;
}

bool rdl__plan_late(const struct rdl__plan *p, int64_t now)
{
    return p->deadline != 0 && now >= p->deadline;
}

int64_t rdl__plan_pause_ms(struct rdl__plan *p)
{
    int64_t ms = rdl__retry_delay_ms(&p->retry, p->conflicts, &p->rand);

    return ms < 1 ? 1 : ms;
}

/* How many counted members are valid until `than` or longer. */
static unsigned as_long(const struct rdl__plan *p, int64_t than)
{
    unsigned count = 0;

    for (unsigned i = 0; i < p->n; i++)
        count += p->member[i].state == RDL__MEMBER_TAKEN && !p->member[i].uncounted && p->member[i].until >= than;
    return count;
}

int64_t rdl__plan_until(const struct rdl__plan *p)
{
    int64_t until = INT64_MIN;

    for (unsigned i = 0; i < p->n; i++)
        if (p->member[i].until > until && as_long(p, p->member[i].until) >= p->quorum)
            until = p->member[i].until;
    return until;
}
