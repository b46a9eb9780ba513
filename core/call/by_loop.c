/* SPDX-License-Identifier: MIT */
/* by_loop.c - a call that the loop drives: asynchronous ones from the start, blocking ones when they have to wait.
 *
 * It comes here by its task (rdl__call_on_task). Then answers, wake-ups (waiters.h), its timer and a cancellation each
 * give `drive` a step to carry out, until finish_on_loop.  @thread loop, all of it
 */
#include "core/call/cached.h"
#include "core/call/inner.h"
#include "core/call/share.h"

static void drive(struct rdl__call *call, rdl__step_t step, int64_t now);

void rdl__call_done_on_loop(struct rdl__req *req, int64_t now)
{
    struct rdl__call *call = rdl__container(req, struct rdl__call, req);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (rdl__call_phase(call) == RDL__HANDED) /* settled before its task ran, which would only say so */
        rdl__loop_unpost(rdl__client_loop(rdl__call_client(call)), &call->task);
    rdl__call_goes(call, RDL__BY_LOOP);
    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    drive(call, rdl__call_answered(call, now), now);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

/* Is it counted in name->waiting? Not where each may be let in at any time (waiters.h), nor who only listens. */
static bool is_counted(const struct rdl__call *call)
{
    return rdl__news_counted(call->ops->news) && !call->verb->listens;
}

/* Is it among the waiters, asleep or with a try under way? */
static bool has_joined(const struct rdl__call *call)
{
    return call->waiter.channel != NULL;
}

/* Do metrics count it as waiting? Not who only listens, nor who takes a hold to be kept: it is for calls that are
 * counted as they wait for that. */
static bool is_seen(const struct rdl__call *call)
{
    return !call->verb->listens && !rdl__is_kept(call->n);
}

static void stop_waiting(struct rdl__call *call, bool used, int64_t now)
{
    bool joined = has_joined(call);

    if (used && joined && call->waiter.news_at != 0)
        rdl__name_metric(rdl__call_name(call), RDL_M_HANDOFF_US, now - call->waiter.news_at);
    rdl__waiter_leave(&call->waiter, used, now);
    if (joined && is_seen(call))
        rdl__name_waits(rdl__call_name(call), -1);
    if (call->counted)
        atomic_fetch_sub(&rdl__call_name(call)->waiting, 1);
    call->counted = false;
}

/* When the other waiters should try again: when the lease just granted would end, or as the retry policy says. */
static int64_t next_try_ms(struct rdl__call *call)
{
    int64_t lease_ms = rdl__call_lease_ms(call);
    int64_t delay_ms = rdl__take_delay_ms(&call->take);

    return delay_ms >= 0 && delay_ms < lease_ms ? delay_ms : lease_ms;
}

/* Was it the last waiter of this process, and may the process have a place in the server's queue that nobody uses now?
 * A grant has given the place up itself. */
static bool has_place(const struct rdl__call *call, int rc)
{
    return call->verb->has_successor && call->verb->acquires && call->op.wait_ms > 0 && rc != RDL_OK &&
           !call->undo.begun && rdl__name_take_unused_place(rdl__call_name(call));
}

/* The place is given up by an undo. A call that ended before it began has drawn no number for that. */
static bool gives_place_up(struct rdl__call *call, int rc)
{
    bool gives_up = has_place(call, rc);

    if (gives_up && call->n == 0)
        call->n = rdl__client_numbers(rdl__call_client(call), call->amount > 0 ? call->amount : 1);
    return gives_up;
}

static void finish_on_loop(struct rdl__call *call, const rdl__step_t *step, int64_t now)
{
    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    /* the others were not refused because of this hold, and its release may not be published */
    if (has_joined(call) && step->rc == RDL_OK)
        rdl__waiter_hint(&call->waiter, next_try_ms(call), now);
    stop_waiting(call, step->rc == RDL_OK, now);
    rdl__call_conclude(call, step->rc, step->undo || gives_place_up(call, step->rc), true, now);
}

/* When a waiting call gives up for want of a connection: outage_timeout_ms after the connection was lost, or after the
 * call if that came later; or never.  @thread loop */
static int64_t outage_end(struct rdl__call *call)
{
    int64_t since = rdl__name_shard(rdl__call_name(call))->down_since;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (since == 0 || call->verb->listens)
        return RDL__NEVER;
    if (rdl__call_outwaits(call))
        return rdl__alone_at(call, since);
    return rdl__after_ms(since > call->op.started_at ? since : call->op.started_at,
                         rdl__call_client(call)->outage_timeout_ms);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* @thread loop */
static void set_alarm(struct rdl__call *call)
{
    int64_t at = sooner(call->deadline, outage_end(call));

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (at != RDL__NEVER)
        rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer, at);
}

static void missed(struct rdl__waiter *waiter)
{
    struct rdl__call *call = rdl__container(waiter, struct rdl__call, waiter);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    set_alarm(call);
}

static void send_on_loop(struct rdl__call *call, int64_t now)
{
    bool acked = rdl__call_asks(call) == RDL__ASKS_REPLICAS;

    rdl__call_goes(call, RDL__SENT);
    rdl__call_ready(call, acked ? &rdl__loop_acked_ops : &rdl__loop_ops,
                    rdl__way_behind_undos(call, acked ? RDL__WAY_ACKED : RDL__WAY_LOOP));
    rdl__waiter_sent(&call->waiter);
    rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer,
                    sooner(rdl__call_send_deadline(call, now), outage_end(call)));
    rdl__lane_submit(rdl__call_lane(call), &call->req);
}

static void pause_on_loop(struct rdl__call *call, int64_t now)
{
    int64_t again = rdl__after_ms(now, call->take.early ? RDL__EARLY_PAUSE_MS : RDL__DETOUR_PAUSE_MS);

    rdl__call_goes(call, RDL__PAUSING);
    rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer,
                    again < call->detours_until ? again : call->detours_until);
}

/* @thread loop */
static void delay_on_loop(struct rdl__call *call, int64_t hint_ms, int64_t now)
{
    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__call_goes(call, RDL__DELAYED);
    rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer,
                    sooner(rdl__after_ms(now, hint_ms), call->deadline));
}

static const struct rdl__waiter_ops waiter_ops;

static void waiter_ready(struct rdl__call *call)
{
    rdl__waiter_init(&call->waiter, &waiter_ops);
    call->waiter.news = (unsigned char)call->ops->news;
    call->waiter.listens = call->verb->listens;
    call->waiter.tried_at = call->take.tries > 0            ? call->req.sent_at
                            : call->line == RDL__LINE_STOOD ? call->op.started_at
                                                            : 0;
}

static void note_refusal(struct rdl__call *call)
{
    call->waiter.ear_for = call->ear_for;
    call->waiter.entered = call->line != RDL__LINE_NOT;
}

/* Join the waiters. RDL_OK: asleep; 1: to try again; RDL_ENOMEM. */
static int wait_on_loop(struct rdl__call *call, int64_t hint_ms, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__buf channel;
    int rc;

    set_alarm(call);
    rdl__describer_used(&name->client->describer, now);
    waiter_ready(call);
    rdl__buf_init(&channel, &name->client->mem);
    call->ops->waits_on(&channel, call);
    note_refusal(call);
    rc = rdl__buf_failed(&channel)
             ? RDL_ENOMEM
             : rdl__waiter_join(&name->client->waiters, &call->waiter, channel.data, channel.len, hint_ms, now);
    rdl__buf_done(&channel);
    if (rc < 0)
        return rc;
    if (is_seen(call))
        rdl__name_waits(name, 1);
    if (is_counted(call) && !call->counted)
        atomic_fetch_add(&name->waiting, 1);
    call->counted = is_counted(call);
    return rc;
}

/* It was woken, or a message has come since its refused try was sent: the next step. */
static rdl__step_t woken(struct rdl__call *call, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_WOKEN};

    return call->verb->woken != NULL ? call->verb->woken(call, now) : rdl__take_on(&call->take, &ev);
}

static rdl__step_t failed(struct rdl__call *call, int code)
{
    struct rdl__take_event ev = {.kind = RDL__EV_FAILED, .code = code};

    return rdl__take_on(&call->take, &ev);
}

/* Go to sleep among the waiters, or back. False: *step is to be done instead. */
static bool sleeps(struct rdl__call *call, rdl__step_t *step, int64_t now)
{
    int rc;

    rdl__call_goes(call, RDL__ASLEEP);
    if (!has_joined(call)) {
        if ((rc = wait_on_loop(call, step->hint_ms, now)) == RDL_OK)
            return true;
        rdl__call_goes(call, RDL__BY_LOOP);
        *step = rc < 0 ? failed(call, rc) : woken(call, now);
        return false;
    }
    note_refusal(call);
    set_alarm(call);
    if (rdl__waiter_refused(&call->waiter, step->hint_ms, now))
        return true;
    rdl__call_goes(call, RDL__BY_LOOP);
    *step = woken(call, now);
    return false;
}

/* Does it need its record no more before it sends another try? Who comes of its owner's looks for it among those that
 * are counted. A composite's give-back looks for the record itself, which also has what a detached release needs, and
 * the host's own lock. */
static bool needs_no_record(const struct rdl__call *call)
{
    const struct rdl__settings *settings = &rdl__call_name(call)->settings;

    return call->verb->unrecorded && is_counted(call) && !call->op.direct && !settings->detaches &&
           settings->on_outage != RDL_OUTAGE_LOCAL;
}

/* Wait as the verb says, until the call's task runs.  @thread loop */
static void stay(struct rdl__call *call, const rdl__step_t *step)
{
    int64_t until = step->hint_ms != 0 ? rdl__call_answer_by(call) : call->deadline;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__call_goes(call, RDL__ASLEEP);
    if (until != RDL__NEVER)
        rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer, until);
}

/* Carry out a step. The next one follows an event.  @thread loop */
static void drive(struct rdl__call *call, rdl__step_t step, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code), rc;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (step.what != RDL__DO_FINISH && code != RDL_OK)
        step = rdl__call_stopped_between(call, code);
    while (step.what == RDL__DO_WAIT) {
        if (now >= call->deadline) {
            step = rdl__call_stopped_between(call, RDL_OK);
        } else if (sleeps(call, &step, now)) {
            if (needs_no_record(call))
                rdl__call_unrecord(call);
            return;
        }
    }
    if (step.what == RDL__DO_STAY) {
        stay(call, &step);
        return;
    }
    if (step.what == RDL__DO_SEND && rdl__call_asks(call) == RDL__ASKS_REFUSED)
        step = rdl__call_not_asked(call);
    if (step.what == RDL__DO_SEND && call->unrecorded && (rc = rdl__call_record_anew(call)) < 0)
        step = failed(call, rc);
    if (step.what == RDL__DO_SEND && call->detour == RDL__DETOUR_LATER)
        pause_on_loop(call, now);
    else if (step.what == RDL__DO_SEND)
        send_on_loop(call, now);
    else if (step.what == RDL__DO_DELAY)
        delay_on_loop(call, step.hint_ms, now);
    else
        finish_on_loop(call, &step, now);
}

static void go(struct rdl__waiter *waiter, int64_t now)
{
    struct rdl__call *call = rdl__container(waiter, struct rdl__call, waiter);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__call_goes(call, RDL__BY_LOOP);
    drive(call, woken(call, now), now);
}

static bool unheard(struct rdl__waiters *ws, const char *channel, size_t len)
{
    rdl__assert_on_loop(ws->loop);
    return rdl__line_unheard(rdl__container(ws, rdl_client_t, waiters), channel, len);
}

static int64_t lets_pass(struct rdl__waiter *waiter, int64_t free, int64_t now)
{
    const struct rdl__call *call = rdl__container(waiter, struct rdl__call, waiter);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    return rdl__share_pass(call, free, now);
}

static const struct rdl__waiter_ops waiter_ops = {
    .go = go, .missed = missed, .lets_pass = lets_pass, .unheard = unheard};

/* ---- ending it from outside ------------------------------------------------------------------------------------- */

/* End the call now, whatever its phase.  @thread loop */
static void stop(struct rdl__call *call, int code, int64_t now)
{
    rdl__step_t step;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (rdl__call_phase(call) == RDL__SENT) {
        enum rdl__way way = call->way;
        enum rdl__outcome outcome =
            rdl__lane_give_up(rdl__call_lane(call), &call->req, rdl__call_successor(call), call->verb->successor_mode);

        if (outcome == RDL__SETTLED)
            return; /* ops->done is about to run */
        rdl__call_goes(call, RDL__BY_LOOP);
        rdl__call_successor_begins(call, outcome, way);
        step = rdl__call_stopped(call, code, outcome);
    } else {
        rdl__call_goes(call, RDL__BY_LOOP);
        step = rdl__call_stopped_between(call, code);
    }
    finish_on_loop(call, &step, now);
}

/* @locks the name's */
static bool is_queued(const struct rdl__call *call)
{
    rdl__assert_locked(&rdl__call_name(call)->mu);
    return rdl__call_phase(call) == RDL__QUEUED && call->rec->active != call;
}

/* End a call that is in its record's queue with `code`. False: it is not there.  @thread loop */
static bool end_queued(struct rdl__call *call, int code, int64_t now)
{
    bool queued;

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__mutex_lock(&rdl__call_name(call)->mu);
    if ((queued = is_queued(call))) {
        rdl__list_remove(&call->op.pending);
        rdl__loop_unpost(rdl__client_loop(rdl__call_client(call)), &call->task); /* else the task would set the timer */
    }
    rdl__mutex_unlock(&rdl__call_name(call)->mu);
    if (!queued)
        return false;
    rdl__record_unref(call->rec);
    call->rec = NULL;
    rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    rdl__call_count_attempt(call);
    rdl__call_conclude(call, code, false, true, now);
    return true;
}

void rdl__call_on_timer(struct rdl__timer *timer, int64_t now)
{
    struct rdl__call *call = rdl__container(timer, struct rdl__call, timer);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (call->undo.answered) {
        rdl__undo_repeat(&call->repeat.debt);
        return;
    }
    if (rdl__call_phase(call) == RDL__PAUSING && now < call->detours_until) {
        rdl__call_goes(call, RDL__BY_LOOP);
        call->detour = RDL__DETOUR_NONE;
        drive(call, rdl__send_it(), now);
        return;
    }
    if (rdl__call_phase(call) == RDL__DELAYED && now < call->deadline) {
        rdl__call_goes(call, RDL__BY_LOOP);
        drive(call, woken(call, now), now);
        return;
    }
    if (end_queued(call, RDL_ETIMEDOUT, now) || !rdl__phase_is_loops(rdl__call_phase(call)))
        return; /* it is about to begin, and rdl__call_begin checks the time */
    if (rdl__call_phase(call) != RDL__ASLEEP || now >= call->deadline)
        stop(call, RDL_OK, now);
    else if (now >= outage_end(call))
        stop(call, RDL_ECONN, now);
    else
        set_alarm(call);
}

/* A call that its caller's thread drives checks cancel_code itself; one that is HANDED does when its task runs. */
void rdl__call_on_cancel(struct rdl__task *task, int64_t now)
{
    struct rdl__call *call = rdl__container(task, struct rdl__call, cancel_task);
    int code = atomic_load(&call->op.cancel_code);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (!end_queued(call, code, now) && rdl__phase_is_loops(rdl__call_phase(call)))
        stop(call, code, now);
    rdl__call_unref(call);
}

/* ---- taking it over --------------------------------------------------------------------------------------------- */

static bool still_queued(struct rdl__call *call)
{
    bool queued;

    rdl__mutex_lock(&rdl__call_name(call)->mu);
    queued = is_queued(call);
    rdl__mutex_unlock(&rdl__call_name(call)->mu);
    return queued;
}

/* The first step of a call that the loop takes over. */
static rdl__step_t pending_step(struct rdl__call *call, int64_t now)
{
    switch (call->next) {
    case RDL__NEXT_SEND:
        return rdl__send_it();
    case RDL__NEXT_WAIT:
        return (rdl__step_t){.what = RDL__DO_WAIT, .hint_ms = call->answer};
    case RDL__NEXT_DELAY:
        return (rdl__step_t){.what = RDL__DO_DELAY, .hint_ms = call->answer};
    case RDL__NEXT_WAITED:
        return woken(call, now);
    case RDL__NEXT_END:
        return rdl__finish_with((int)call->op.result);
    default:
        return rdl__call_begin(call, now);
    }
}

/* Its caller's thread has sent its request.  @thread loop */
static void watch(struct rdl__call *call, int64_t now)
{
    int code = atomic_load(&call->op.cancel_code);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    rdl__call_goes(call, RDL__SENT);
    if (code != RDL_OK)
        stop(call, code, now);
    else
        rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer, rdl__call_send_deadline(call, now));
}

void rdl__call_on_task(struct rdl__task *task, int64_t now)
{
    struct rdl__call *call = rdl__container(task, struct rdl__call, task);

    rdl__assert_on_loop(rdl__client_loop(rdl__call_client(call)));
    if (call->next == RDL__NEXT_UNDO || call->next == RDL__NEXT_UNDONE) {
        rdl__undo_on_task(call, now);
        return;
    }
    if (rdl__call_phase(call) == RDL__QUEUED) {
        if (still_queued(call)) {
            rdl__call_set_deadline(call, call->op.started_at);
            if (call->verb->acquires && call->deadline != RDL__NEVER)
                rdl__loop_timer(rdl__client_loop(rdl__call_client(call)), &call->timer, rdl__call_answer_by(call));
            return;
        }
        /* the verb before it has ended; the posts of `enter` and `leave` may have become one */
        rdl__loop_unpost(rdl__client_loop(rdl__call_client(call)), &call->task);
        rdl__loop_timer_off(rdl__client_loop(rdl__call_client(call)), &call->timer);
    }
    rdl__call_goes(call, RDL__BY_LOOP);
    if (call->next == RDL__NEXT_WATCH)
        watch(call, now);
    else
        drive(call, pending_step(call, now), now);
}
