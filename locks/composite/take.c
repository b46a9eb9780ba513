/* SPDX-License-Identifier: MIT */
/* composite/take.c - acquiring a composite: the driver of the machines of multi.c and red.c.
 *
 *   a member's answer or release, the timer, a cancellation --event--> the machine
 *   the machine --an order for each member--> a member's acquire, extend, cancel, or give-back
 *
 * Every grant is counted in the record's hold of that member before the machine is told. What the machine does not
 * want, and what is left when it ends without the lock, is given back by rdl__composite_settle. So an error here cannot
 * leave a member taken.
 *
 * @locks mu, all of it
 */
#include "locks/composite/verbs.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/call/line.h"

static void feed(struct rdl__composite_op *call, const struct rdl__plan_event *ev);

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* May the server have forgotten a holder whose lease still runs? (protocol.md, 8) */
static bool young(const struct rdl__composite_op *call, unsigned i, int64_t now)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);
    int64_t lease_ms = rdl__op_lease_ms(&call->op, rdl__member_client(j, i));
    int64_t least_ms = j->options.min_uptime_ms > lease_ms ? j->options.min_uptime_ms : lease_ms;
    int64_t born_at = atomic_load(&rdl__name_shard(rdl__member_lock(j, i)->name)->node.born_at);
    int64_t up_ms = born_at == INT64_MIN ? 0 : (now - born_at) / RDL__MS;

    return j->plan->majority && j->options.min_uptime_ms >= 0 && up_ms < least_ms;
}

/* Is a member that counts at the same server? One server has one vote, by however many ways it is reached. */
static bool second_vote(const struct rdl__composite_op *call, unsigned i)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);
    bool found = false;

    for (unsigned k = 0; k < j->member_count && j->plan->majority; k++)
        found |= k != i && call->rec->hold[k].mine > 0 && !call->rec->hold[k].uncounted &&
                 rdl__composite_one_server(call->rec->hold[i].site, call->rec->hold[k].site);
    return found;
}

/* A member was taken: count it, whether the machine still wants it or not. */
static void note_taken(struct rdl__composite_op *call, unsigned i, struct rdl__plan_event *ev)
{
    struct rdl__member_hold *hold = &call->rec->hold[i];
    struct rdl__view view;

    hold->site = rdl__composite_site(rdl__member_lock(rdl__composite_of_call(call), i)->name);
    ev->uncounted = young(call, i, ev->now) || second_vote(call, i);
    if (hold->mine++ == 0)
        hold->uncounted = ev->uncounted;
    if (!rdl__composite_ended(call))
        rdl__composite_owing_begins(call, i);
    view = rdl__record_view(rdl__member_lock(rdl__composite_of_call(call), i)->name, hold->owner,
                            rdl__member_lock(rdl__composite_of_call(call), i)->ops, ev->now);
    hold->n = view.n;
    ev->until = ev->now + view.valid_ns;
}

static void take_answered(struct rdl__composite_op *call, unsigned i, int64_t result, const rdl_err_t *err)
{
    struct rdl__plan_event ev = {.kind = RDL__PLAN_ANSWER, .member = i, .code = (int)result, .now = rdl__now()};

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (result == RDL_OK && call->call_at[i].takes)
        note_taken(call, i, &ev);
    else if (result == RDL_OK)
        ev.until = ev.now + rdl__member_hold_view(call->rec, i, ev.now).valid_ns;
    else if (!rdl__composite_ended(call) && err != NULL && (call->why.code == 0 || result != RDL_ECANCELED))
        call->why = *err;
    if (!rdl__composite_ended(call))
        feed(call, &ev);
    else
        rdl__composite_settle(call->rec);
}

/* ---- orders ----------------------------------------------------------------------------------------------------- */

/* A server that hangs leaves the undo of each take, and a red lock's callers go on without it: past so many it is not
 * asked, and counts as one that cannot be reached. An undo is some 10 KB. */
#define UNDOS_MOST 1000

static int try_member(struct rdl__composite_op *call, unsigned i)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);

    if (j->plan->majority && atomic_load(&rdl__member_client(j, i)->undos) >= UNDOS_MOST)
        return rdl__err_set(&call->why, RDL_ECONN, "the server has yet to answer %d undos", UNDOS_MOST);
    return rdl__composite_ask(call, i, &rdl__verb_take, call->member[i].bound_ms, true);
}

/* Carry out the machine's order for a member. An error counts as the member's answer. */
static int obey(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__member *member = &call->member[i];
    enum rdl__member_order order = (enum rdl__member_order)member->order;

    member->order = RDL__MEMBER_NOTHING;
    switch (order) {
    case RDL__MEMBER_TRY:
        return try_member(call, i);
    case RDL__MEMBER_WAIT:
        return rdl__composite_ask(call, i, &rdl__verb_take, member->bound_ms, false);
    case RDL__MEMBER_EXTEND:
        return rdl__composite_ask(call, i, &rdl__verb_extend, 0, false);
    case RDL__MEMBER_CANCEL:
        if (call->call_at[i].under_way)
            rdl_op_cancel(call->call_at[i].op);
        break;
    case RDL__MEMBER_RELEASE:
        if (call->rec->hold[i].mine >= call->rec->want && rdl__composite_give_back(call->rec, i))
            rdl__composite_owing_ends(call, i);
        break;
    case RDL__MEMBER_NOTHING:
        break;
    }
    return RDL_OK;
}

static void obey_all(struct rdl__composite_op *call)
{
    for (unsigned i = 0; i < call->plan.n; i++) {
        struct rdl__plan_event failed = {.kind = RDL__PLAN_ANSWER, .member = i, .code = obey(call, i)};

        if (failed.code == RDL_OK)
            continue;
        failed.now = rdl__now();
        feed(call, &failed); /* which calls obey_all again */
    }
}

/* ---- beginning and ending --------------------------------------------------------------------------------------- */

/* Are enough members still held? Sets the count. */
static bool still_held(struct rdl__composite_op *call)
{
    struct rdl__composite_record *rec = call->rec;

    rec->count = rec->want;
    return !rec->orphaned && rdl__composite_record_view(rec, rdl__now()).state != RDL_LOST;
}

/* The largest of the members' tokens; 0: none. */
static int64_t token_of(const struct rdl__composite_record *rec, int64_t now)
{
    int64_t token = 0;

    for (unsigned i = 0; i < rec->composite->member_count && rdl__composite_tokenless(&rec->composite->handle) == NULL;
         i++) {
        struct rdl__view view = rdl__member_hold_view(rec, i, now);

        if (view.state != RDL_NOT_HELD && view.token > token)
            token = view.token;
    }
    return token;
}

static void end_take(struct rdl__composite_op *call)
{
    struct rdl__composite_record *rec = call->rec;
    int rc = call->plan.rc;
    int64_t before = rec->count;

    if (rc == RDL_OK && !still_held(call)) {
        rc = RDL_ELOST;
        rec->count = before;
    }
    if (rc == RDL_OK && before == 0) {
        rec->token = token_of(rec, rdl__now());
        rec->serial++;
    }
    call->serial = rec->serial;
    if (rc < 0) {
        rec->want = rec->count;
        rec->lost = rec->lost && rec->count > 0;
        rdl__composite_cancel_takes(call);
    }
    rdl__composite_settle(rec);
    if (rc < 0 || !call->op.blocking) /* else its thread does after see_lost_meanwhile */
        rdl__composite_owing_ends_all(call);
    rdl__composite_end(call, rc);
}

/* The composite was taken since a member was heard to be free: forget that. */
static void forget_news(struct rdl__composite_op *call)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);

    for (unsigned i = 0; call->taken != j->taken && i < j->member_count; i++)
        call->member[i].open = false;
    call->taken = j->taken;
}

static void feed(struct rdl__composite_op *call, const struct rdl__plan_event *ev)
{
    bool done = call->plan.phase == RDL__PLAN_DONE;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    forget_news(call);
    rdl__composite_of_call(call)->plan->on(&call->plan, ev);
    obey_all(call);
    if (call->plan.phase == RDL__PLAN_PAUSE && rdl__composite_of_call(call)->plan->wants_releases &&
        call->phase == RDL__COMPOSITE_BEGUN)
        rdl__composite_listen(call);
    if (!done && call->plan.phase == RDL__PLAN_DONE && !rdl__composite_ended(call))
        end_take(call);
    else
        rdl__composite_nudge(call); /* its timer */
}

static void begin_take(struct rdl__composite_op *call, int64_t now)
{
    struct rdl__composite *j = rdl__composite_of_call(call);
    struct rdl__plan *p = &call->plan;
    struct rdl__composite_record *rec = call->rec;
    struct rdl__plan_event start = {.kind = RDL__PLAN_START, .now = now};
    int64_t lease_ms = rdl__op_lease_ms(&call->op, j->home);

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (rdl__composite_record_view(rec, now).state == RDL_LOST) {
        rdl__composite_end(call, RDL_ELOST);
        return;
    }
    if (rdl__composite_check_duplicates(j, &call->why) < 0) {
        rdl__composite_end(call, RDL_EDEADLK);
        return;
    }
    if (!rdl__reserve_fill(&rec->reserve, &j->home->mem, j->call_size, rec->count + 1)) {
        rdl__composite_end(call, RDL_ENOMEM);
        return;
    }
    *p = (struct rdl__plan){
        .member = call->member,
        .n = j->member_count,
        .quorum = j->quorum,
        .one_try = call->op.wait_ms == 0,
        .renewed = call->op.lease_ms == RDL_LEASE_AUTO,
        .patience_ms = call->op.wait_ms > 0 ? rdl__composite_patience_ms(j) : 0,
        .member_timeout_ms = j->options.member_timeout_ms < lease_ms ? j->options.member_timeout_ms : lease_ms,
        .most_hold_ms = lease_ms / 3,
        .retry = j->options.retry,
        .rand.state = j->home->serial ^ (uint64_t)now,
        .wake_at = RDL__NEVER,
    };
    if (!p->one_try)
        p->deadline = rdl__op_wait_ends(&call->op, 0);
    for (unsigned i = 0; i < p->n; i++)
        p->member[i].waits = rec->count == 0 && rdl__line_waits_first(rdl__member_lock(j, i)->name);
    rec->want = rec->count + 1;
    feed(call, &start);
}

const struct rdl__composite_verb rdl__composite_take = {
    .acquires = true,
    .on_record = true,
    .member = &rdl__verb_take,
    .begin = begin_take,
    .answered = take_answered,
    .feed = feed,
};
