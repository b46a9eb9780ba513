/* SPDX-License-Identifier: MIT */
/* composite/gather.c - the verbs of a composite that ask its members and combine their answers.
 *
 * Such a verb asks all members that it concerns at once, and ends as soon as the answers decide it; later ones are
 * ignored. A red lock needs a majority, a multi-lock all. A verb is a table at the end of the file: which members it
 * concerns, when it need not ask, how the answers combine.
 *
 * @locks mu, all of it
 */
#include "locks/composite/verbs.h"

#include "core/base/err.h"

#include <string.h>

/* ---- combining answers ------------------------------------------------------------------------------------------ */

static unsigned count_of(const struct rdl__composite_op *call, int64_t result)
{
    unsigned count = 0;

    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++)
        count += call->call_at[i].answered && call->call_at[i].result == result;
    return count;
}

static unsigned failures(const struct rdl__composite_op *call)
{
    unsigned count = 0;

    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++)
        count += call->call_at[i].answered && call->call_at[i].result < 0;
    return count;
}

/* Too few members have answered well: the code of the whole. RDL_ELOST if losses alone explain it, else a member's. */
static int too_few(const struct rdl__composite_op *call)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);

    return count_of(call, RDL_ELOST) > j->member_count - j->quorum ? RDL_ELOST : call->why.code;
}

/* How many members have confirmed the hold, and how many may have it although they failed. A member that did not count
 * when it was taken does not count here. */
struct tally {
    unsigned held, unknown;
};

static struct tally tally(const struct rdl__composite_op *call)
{
    struct tally t = {.held = call->spared};

    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++) {
        const struct rdl__member_call *q = &call->call_at[i];

        if (!q->answered || call->rec->hold[i].uncounted)
            continue;
        t.held += q->result == RDL_OK;
        t.unknown += q->result != RDL_OK && q->result != RDL_ELOST;
    }
    return t;
}

/* A multi-lock's release and extend wait for all answers, to name the members that were lost. The hold is lost if there
 * are too few members even with the unknown ones; a member that was neither asked nor spared is not held. */
static bool add_up_done(const struct rdl__composite_op *call, int64_t *ret)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);
    struct tally t = tally(call);

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (call->answered < call->asked && !(j->plan->majority && (call->was_lost || t.held >= j->quorum)))
        return false;
    if (call->was_lost || t.held + t.unknown < j->quorum)
        *ret = RDL_ELOST;
    else
        *ret = t.held >= j->quorum ? RDL_OK : call->why.code;
    return true;
}

/* Locked: too few members are free for anybody to take the whole. Not locked: enough are free. */
static bool add_up_locked(const struct rdl__composite_op *call, int64_t *ret)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (count_of(call, 1) > j->member_count - j->quorum)
        *ret = 1;
    else if (count_of(call, 0) >= j->quorum)
        *ret = 0;
    else if (call->answered < call->asked)
        return false;
    else
        *ret = too_few(call);
    return true;
}

static bool add_up_force(const struct rdl__composite_op *call, int64_t *ret)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (call->answered < call->asked)
        return false;
    if (j->member_count - failures(call) < j->quorum)
        *ret = too_few(call);
    else
        *ret = count_of(call, 1) > 0;
    return true;
}

/* The time until enough members are free. */
static bool add_up_remaining(const struct rdl__composite_op *call, int64_t *ret)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);
    int64_t remaining[RDL__COMPOSITE_MAX];
    unsigned n = 0;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (call->answered < call->asked)
        return false;
    for (unsigned i = 0; i < j->member_count; i++)
        if (call->call_at[i].result >= 0)
            remaining[n++] = call->call_at[i].result;
    if (n < j->quorum) {
        *ret = too_few(call);
        return true;
    }
    *ret = rdl__composite_kth_longest(remaining, n, n - j->quorum + 1);
    return true;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* Append the member's name to call->lost. */
static void note_lost(struct rdl__composite_op *call, unsigned i)
{
    const struct rdl__name *name = rdl__member_lock(rdl__composite_of_call(call), i)->name;
    size_t used = strlen(call->lost);

    if (used + 16 > sizeof call->lost)
        return;
    if (used > 0)
        call->lost[used++] = ' ';
    (void)rdl__printable(call->lost + used, sizeof call->lost - used, name->bytes, name->node.key_len);
}

static void sum_answered(struct rdl__composite_op *call, unsigned i, int64_t result, const rdl_err_t *err)
{
    struct rdl__member_call *q = &call->call_at[i];

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (rdl__composite_ended(call))
        return;
    q->answered = true;
    q->result = result;
    call->answered++;
    if (result == RDL_ELOST || result == RDL_ENOTOWNER) {
        q->result = RDL_ELOST; /* the composite took it, so it was lost */
        call->lost_count++;
        note_lost(call, i);
    } else if (result < 0 && call->why.code == RDL_OK) {
        call->why = *err;
    }
    if (call->verb->add_up(call, &result))
        rdl__composite_end(call, result);
}

/* What they may still do is unknown, and a release is repeated in the background. The last of them decides. */
void rdl__composite_answers_are_late(struct rdl__composite_op *call)
{
    rdl_err_t late;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    call->answers_by = 0;
    for (unsigned i = 0; i < rdl__composite_of_call(call)->member_count; i++)
        if (call->call_at[i].under_way && !call->call_at[i].answered)
            sum_answered(call, i, rdl__err_set(&late, RDL_EUNKNOWN, "a server has not answered within node_timeout_ms"),
                         &late);
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static bool concerns_all(struct rdl__composite_op *call, unsigned i)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    (void)call;
    (void)i;
    return true;
}

static bool concerns_taken(struct rdl__composite_op *call, unsigned i)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    return call->rec->hold[i].mine > 0;
}

/* Counts the release at once. */
static bool concerns_surplus(struct rdl__composite_op *call, unsigned i)
{
    struct rdl__member_hold *hold = &call->rec->hold[i];

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (hold->mine <= call->rec->want)
        return false;
    hold->mine--;
    return true;
}

/* A member that is not asked: does it count, and is it held as often as wanted? */
static bool spared(const struct rdl__composite_op *call, unsigned i, int64_t now)
{
    return !call->rec->hold[i].uncounted && rdl__member_hold_view(call->rec, i, now).state != RDL_NOT_HELD;
}

static void ask_those(struct rdl__composite_op *call, int64_t now)
{
    const struct rdl__composite *j = rdl__composite_of_call(call);
    unsigned n = j->member_count;
    bool ask_it[RDL__COMPOSITE_MAX];
    int64_t result;

    for (unsigned i = 0; i < n; i++) {
        call->asked += ask_it[i] = call->verb->concerns(call, i);
        /* a member that the nested take which is given back did not get */
        call->spared += !ask_it[i] && spared(call, i, now);
    }
    for (unsigned i = 0; i < n; i++) {
        int rc = ask_it[i] ? rdl__composite_ask(call, i, call->verb->member, 0, false) : RDL_OK;

        if (rc < 0)
            sum_answered(call, i, rc, &call->why);
    }
    if (j->plan->majority) {
        call->answers_by = rdl__after_ms(now, j->options.member_timeout_ms);
        rdl__composite_nudge(call); /* its timer */
    }
    if (call->asked == 0 && call->verb->add_up(call, &result))
        rdl__composite_end(call, result);
}

static void begin_release(struct rdl__composite_op *call, int64_t now)
{
    struct rdl__composite_record *rec = call->rec;

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (rec->count == 0) {
        rdl__composite_end(call, RDL_ENOTOWNER);
        return;
    }
    call->was_lost = rdl__composite_record_view(rec, now).state == RDL_LOST;
    rec->want = --rec->count;
    if (rec->count == 0)
        rec->lost = false;
    ask_those(call, now);
}

static void begin_extend(struct rdl__composite_op *call, int64_t now)
{
    struct rdl__view view = rdl__composite_record_view(call->rec, now);

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (view.state == RDL_NOT_HELD)
        rdl__composite_end(call, RDL_ENOTOWNER);
    else if (view.state == RDL_LOST)
        rdl__composite_end(call, RDL_ELOST);
    else
        ask_those(call, now);
}

/* The caller's own hold is judged locally. */
static void begin_remaining(struct rdl__composite_op *call, int64_t now)
{
    struct rdl__view view = rdl__composite_record_view(call->rec, now);

    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    if (view.state == RDL_NOT_HELD)
        ask_those(call, now);
    else if (view.state == RDL_LOST)
        rdl__composite_end(call, RDL_ELOST);
    else
        rdl__composite_end(call, rdl__ms_until(view.valid_ns, 0));
}

static void begin_by_asking(struct rdl__composite_op *call, int64_t now)
{
    rdl__assert_locked(&rdl__composite_of_call(call)->mu);
    ask_those(call, now);
}

const struct rdl__composite_verb rdl__composite_release = {
    .on_record = true,
    .member = &rdl__verb_release,
    .gives_back = true,
    .begin = begin_release,
    .answered = sum_answered,
    .concerns = concerns_surplus,
    .add_up = add_up_done,
};

const struct rdl__composite_verb rdl__composite_extend = {
    .on_record = true,
    .member = &rdl__verb_extend,
    .begin = begin_extend,
    .answered = sum_answered,
    .concerns = concerns_taken,
    .add_up = add_up_done,
};

const struct rdl__composite_verb rdl__composite_force = {
    .member = &rdl__verb_force,
    .begin = begin_by_asking,
    .answered = sum_answered,
    .concerns = concerns_all,
    .add_up = add_up_force,
};

const struct rdl__composite_verb rdl__composite_is_locked = {
    .member = &rdl__verb_is_locked,
    .begin = begin_by_asking,
    .answered = sum_answered,
    .concerns = concerns_all,
    .add_up = add_up_locked,
};

const struct rdl__composite_verb rdl__composite_remaining = {
    .member = &rdl__verb_remaining,
    .begin = begin_remaining,
    .answered = sum_answered,
    .concerns = concerns_all,
    .add_up = add_up_remaining,
};
