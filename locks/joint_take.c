/* joint_take.c - acquiring a composite: the driver of the machines of multi.c and red.c.
 *
 *   a part's answer, the timer, a cancellation  --event-->  ops->on  --an order for each part-->  a part's acquire, extend,
 *                                                                                                cancel, or give-back
 *
 * Whatever a part grants is counted in its seat before the machine hears of it, wanted or not; what the machine does not want,
 * and whatever it has not ordered back itself when it ends, goes back by the record's rule (rdl__joint_settle). So an error
 * here can leave a take unfinished, but no member taken.
 *
 * Everything is under the composite's mutex.
 */
#include "locks/joint_inner.h"

#include "core/base/clock.h"

/* ---- answers ------------------------------------------------------------------------------------------------------------- */

static int64_t take_lease_ms(const struct rdl__joint_op *call, const rdl_client_t *client)
{
    return call->op.lease_ms == RDL_LEASE_AUTO ? client->watchdog_lease_ms : call->op.lease_ms;
}

/* May the server have forgotten a holder whose lease still runs? (protocol.md, 8) */
static bool young(const struct rdl__joint_op *call, unsigned i, int64_t now)
{
    const struct rdl__joint *j = rdl__joint_op_of(call);
    int64_t lease_ms = take_lease_ms(call, rdl__joint_client(j, i));
    int64_t least_ms = j->options.min_uptime_ms > lease_ms ? j->options.min_uptime_ms : lease_ms;
    int64_t born_at = atomic_load(&rdl__name_shard(j->part[i].handle.name)->node.born_at);
    int64_t up_ms = born_at == INT64_MIN ? 0 : (now - born_at) / RDL__MS;

    return j->ops->majority && j->options.min_uptime_ms >= 0 && up_ms < least_ms;
}

/* Is a part that counts at the same server? One server has one vote, by however many ways it is reached. */
static bool second_vote(const struct rdl__joint_op *call, unsigned i)
{
    const struct rdl__joint *j = rdl__joint_op_of(call);
    bool found = false;

    for (unsigned k = 0; k < j->n && j->ops->majority; k++)
        found |= k != i && call->rec->seat[k].mine > 0 && !call->rec->seat[k].uncounted &&
                 rdl__joint_one_server(call->rec->seat[i].site, call->rec->seat[k].site);
    return found;
}

/* A part was taken: whether the machine still wants it or not, it is in the count. */
static void note_taken(struct rdl__joint_op *call, unsigned i, struct rdl__plan_event *ev)
{
    struct rdl__joint_seat *seat = &call->rec->seat[i];
    struct rdl__view view;

    seat->site = rdl__joint_site(rdl__joint_op_of(call)->part[i].handle.name);
    ev->uncounted = young(call, i, ev->now) || second_vote(call, i);
    if (seat->mine++ == 0)
        seat->uncounted = ev->uncounted;
    if (!call->ended)
        rdl__joint_owing_begins(call, i);
    view = rdl__record_view(rdl__joint_op_of(call)->part[i].handle.name, seat->owner,
                            rdl__joint_op_of(call)->part[i].handle.ops, ev->now);
    seat->n = view.n;
    ev->until = ev->now + view.left;
}

static void take_answered(struct rdl__joint_op *call, unsigned i, int64_t result, const rdl_err_t *err)
{
    struct rdl__plan_event ev = {.kind = RDL__PLAN_ANSWER, .part = i, .code = (int)result, .now = rdl__now()};

    if (result == RDL_OK && call->question[i].takes)
        note_taken(call, i, &ev);
    else if (result == RDL_OK)
        ev.until = ev.now + rdl__joint_seat_view(call->rec, i, ev.now).left;
    else if (!call->ended && err != NULL && (call->why.code == 0 || result != RDL_ECANCELED))
        call->why = *err;
    if (!call->ended)
        rdl__joint_feed(call, &ev);
    else
        rdl__joint_settle(call->rec);
}

/* ---- orders --------------------------------------------------------------------------------------------------------------- */

/* Carry out one order of the machine's. An error is the part's answer. */
static int obey(struct rdl__joint_op *call, unsigned i)
{
    struct rdl__part *part = &call->part[i];
    enum rdl__part_order order = (enum rdl__part_order)part->order;

    part->order = RDL__PART_NOTHING;
    switch (order) {
    case RDL__PART_TRY:
    case RDL__PART_WAIT:
        return rdl__joint_ask(call, i, &rdl__verb_take, part->bound_ms, order == RDL__PART_TRY);
    case RDL__PART_EXTEND:
        return rdl__joint_ask(call, i, &rdl__verb_extend, 0, false);
    case RDL__PART_CANCEL:
        if (call->question[i].under_way)
            rdl_op_cancel(call->question[i].op);
        break;
    case RDL__PART_RELEASE:
        if (call->rec->seat[i].mine >= call->rec->want && rdl__joint_give_back(call->rec, i))
            rdl__joint_owing_ends(call, i);
        break;
    case RDL__PART_NOTHING:
        break;
    }
    return RDL_OK;
}

static void obey_all(struct rdl__joint_op *call)
{
    for (unsigned i = 0; i < call->plan.n; i++) {
        struct rdl__plan_event failed = {.kind = RDL__PLAN_ANSWER, .part = i, .code = obey(call, i)};

        if (failed.code == RDL_OK)
            continue;
        failed.now = rdl__now();
        rdl__joint_feed(call, &failed); /* which obeys anew, from the first part on */
    }
}

/* ---- beginning and ending ------------------------------------------------------------------------------------------------ */

/* Not too few, and not too late. */
static bool still_held(struct rdl__joint_op *call)
{
    struct rdl__joint_record *rec = call->rec;

    rec->count = rec->want;
    return !rec->orphaned && rdl__joint_record_view(rec, rdl__now()).state != RDL_LOST;
}

/* The largest of the parts'. */
static int64_t token_of(const struct rdl__joint_record *rec, int64_t now)
{
    int64_t token = 0;

    for (unsigned i = 0; i < rec->joint->n && rdl__joint_tokenless(&rec->joint->handle) == NULL; i++) {
        struct rdl__view view = rdl__joint_seat_view(rec, i, now);

        if (view.state != RDL_NOT_HELD && view.token > token)
            token = view.token;
    }
    return token;
}

static void end_take(struct rdl__joint_op *call)
{
    struct rdl__joint_record *rec = call->rec;
    int rc = call->plan.rc;
    int64_t before = rec->count;

    if (rc == RDL_OK && !still_held(call)) {
        rc = RDL_ELOST;
        rec->count = before;
    }
    if (rc == RDL_OK && before == 0)
        rec->token = token_of(rec, rdl__now());
    if (rc < 0) {
        rec->want = rec->count;
        rec->lost = rec->lost && rec->count > 0;
        rdl__joint_cancel_questions(call);
    }
    rdl__joint_settle(rec);
    if (rc < 0 || !call->op.blocking) /* else its thread sees whether it is still held as it returns */
        rdl__joint_owing_ends_all(call);
    rdl__joint_end(call, rc);
}

void rdl__joint_feed(struct rdl__joint_op *call, const struct rdl__plan_event *ev)
{
    bool done = call->plan.phase == RDL__PLAN_DONE;

    rdl__joint_op_of(call)->ops->on(&call->plan, ev);
    obey_all(call);
    if (call->plan.phase == RDL__PLAN_PAUSE && rdl__joint_op_of(call)->ops->wants_news && !call->listening)
        rdl__joint_listen(call);
    if (!done && call->plan.phase == RDL__PLAN_DONE && !call->ended)
        end_take(call);
    else
        rdl__joint_nudge(call); /* its timer */
}

/* By what a handle keeps of its client: no call is under way there, so that it may be closed meanwhile, with its shards. */
int64_t rdl__joint_patience_ms(const struct rdl__joint *j)
{
    int64_t most = 0;

    for (unsigned i = 0; i < j->n; i++) {
        rdl_client_t *client = rdl__joint_client(j, i);
        int64_t ns = rdl__call_patience(client, &client->home);

        if (ns > most)
            most = ns;
    }
    return most / RDL__MS;
}

static void begin_take(struct rdl__joint_op *call, int64_t now)
{
    struct rdl__joint *j = rdl__joint_op_of(call);
    struct rdl__plan *p = &call->plan;
    struct rdl__joint_record *rec = call->rec;
    struct rdl__plan_event start = {.kind = RDL__PLAN_START, .now = now};
    int64_t lease_ms = take_lease_ms(call, j->home);

    if (rdl__joint_record_view(rec, now).state == RDL_LOST) {
        rdl__joint_end(call, RDL_ELOST);
        return;
    }
    if (rdl__joint_check_twins(j, &call->why) < 0) {
        rdl__joint_end(call, RDL_EDEADLK);
        return;
    }
    if (!rdl__reserve_fill(&rec->reserve, &j->home->mem, rdl__joint_op_size(j), rec->count + 1)) {
        rdl__joint_end(call, RDL_ENOMEM);
        return;
    }
    *p = (struct rdl__plan){
        .part = call->part,
        .n = j->n,
        .quorum = j->quorum,
        .once = call->op.wait_ms == 0,
        .renewed = call->op.lease_ms == RDL_LEASE_AUTO,
        .patience_ms = call->op.wait_ms > 0 ? rdl__joint_patience_ms(j) : 0,
        .part_timeout_ms = j->options.part_timeout_ms < lease_ms ? j->options.part_timeout_ms : lease_ms,
        .most_hold_ms = lease_ms / 3,
        .retry = j->options.retry,
        .rand.state = j->home->serial ^ (uint64_t)now,
        .wake_at = RDL__NEVER,
    };
    if (!p->once)
        p->deadline =
            call->op.wait_ms == RDL_WAIT_FOREVER ? RDL__NEVER : rdl__after_ms(call->op.started_at, call->op.wait_ms);
    rec->want = rec->count + 1;
    rdl__joint_feed(call, &start);
}

const struct rdl__joint_verb rdl__joint_take = {
    .as_op = {.acquires = true, .on_record = true, .gone = rdl__joint_op_gone},
    .part = &rdl__verb_take,
    .begin = begin_take,
    .answered = take_answered,
};
