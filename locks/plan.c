/* plan.c - what the machines of composite locks have in common. */
#include "locks/plan.h"

#include "core/base/clock.h"
#include "locks/take.h"

void rdl__plan_ask(struct rdl__plan *p, unsigned i, enum rdl__part_order order, int64_t bound_ms)
{
    struct rdl__part *part = &p->part[i];

    part->state = RDL__PART_ASKED;
    part->order = (unsigned char)order;
    part->bound_ms = bound_ms;
    part->given_up = false;
    part->was_open = part->open;
    part->open = false;
    part->passed_over = false;
    part->code = RDL_OK;
    part->until = 0;
    p->out++;
}

static void release(struct rdl__part *part)
{
    part->state = RDL__PART_FREE;
    part->order = RDL__PART_RELEASE;
    part->open = true;
}

void rdl__plan_let_go(struct rdl__plan *p, unsigned i)
{
    struct rdl__part *part = &p->part[i];

    if (part->state == RDL__PART_TAKEN) {
        release(part);
    } else if (part->state == RDL__PART_ASKED && !part->given_up) {
        p->out--;
        if (part->order == RDL__PART_TRY || part->order == RDL__PART_WAIT) { /* it has not begun */
            part->state = RDL__PART_FREE;
            part->order = RDL__PART_NOTHING;
            part->open |= part->was_open;
        } else if (part->order == RDL__PART_EXTEND) {
            release(part);
        } else {
            part->given_up = true;
            part->order = RDL__PART_CANCEL;
        }
    }
}

bool rdl__plan_note(struct rdl__plan *p, const struct rdl__plan_event *ev)
{
    struct rdl__part *part = &p->part[ev->part];
    bool wanted = !part->given_up;

    if (wanted)
        p->out--;
    part->given_up = false;
    part->code = ev->code;
    part->until = ev->until;
    part->uncounted = ev->uncounted;
    if (ev->code == RDL_OK || ev->code == RDL_ETIMEDOUT)
        part->anothers = ev->code != RDL_OK;
    if (ev->code == RDL_OK)
        part->state = RDL__PART_TAKEN;
    else if (!wanted) /* why says nothing about the round that is under way */
        part->state = RDL__PART_FREE;
    else
        part->state = ev->code == RDL_ETIMEDOUT ? RDL__PART_REFUSED : RDL__PART_FAILED;
    if (!wanted && part->state == RDL__PART_TAKEN)
        release(part);
    else if (!wanted && ev->code != RDL_ETIMEDOUT) /* it was not tried, maybe */
        part->open |= part->was_open;
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

/* How many parts count and are valid for longer than `than`, or as long. */
static unsigned as_long(const struct rdl__plan *p, int64_t than)
{
    unsigned count = 0;

    for (unsigned i = 0; i < p->n; i++)
        count += p->part[i].state == RDL__PART_TAKEN && !p->part[i].uncounted && p->part[i].until >= than;
    return count;
}

int64_t rdl__plan_until(const struct rdl__plan *p)
{
    int64_t until = INT64_MIN;

    for (unsigned i = 0; i < p->n; i++)
        if (p->part[i].until > until && as_long(p, p->part[i].until) >= p->quorum)
            until = p->part[i].until;
    return until;
}
