/* SPDX-License-Identifier: MIT */
#include "core/call/take.h"

int64_t rdl__retry_delay_ms(const rdl_retry_t *retry, unsigned tries, struct rdl__rand *rand)
{
    int64_t most;

    switch (retry->kind) {
    case RDL_RETRY_FIXED:
        return retry->min_ms;
    case RDL_RETRY_RANDOM:
        return retry->min_ms + (int64_t)rdl__rand_below(rand, (uint64_t)(retry->max_ms - retry->min_ms) + 1);
    case RDL_RETRY_EXPONENTIAL:
        most = tries > 30 || retry->min_ms << tries > retry->max_ms ? retry->max_ms : retry->min_ms << tries;
        return (int64_t)rdl__rand_below(rand, (uint64_t)most + 1);
    case RDL_RETRY_DEFAULT:
    case RDL_RETRY_NONE:
        break;
    }
    return -1;
}

#define HOUR_BITS ((UINT32_C(1) << 22) - 1)

void rdl__take_init(struct rdl__take *t, bool one_try, const rdl_retry_t *retry, uint16_t seed)
{
    *t = (struct rdl__take){
        .one_try = one_try,
        .retry = (uint32_t)retry->kind & 7,
        .retry_min_ms = (uint32_t)retry->min_ms & HOUR_BITS,
        .retry_max_ms = (uint32_t)retry->max_ms & HOUR_BITS,
        .state = RDL__TAKE_NEW,
        .seed = seed,
    };
}

int64_t rdl__take_delay_ms(const struct rdl__take *t)
{
    const rdl_retry_t retry = {.kind = t->retry, .min_ms = t->retry_min_ms, .max_ms = t->retry_max_ms};
    struct rdl__rand rand = {.state = (uint64_t)t->seed << 16 | t->tries};

    return rdl__retry_delay_ms(&retry, t->tries, &rand);
}

static struct rdl__take_step send_try(struct rdl__take *t)
{
    t->state = RDL__TAKE_TRYING;
    return (struct rdl__take_step){.what = RDL__DO_SEND};
}

static struct rdl__take_step wait_for(struct rdl__take *t, int64_t hint_ms)
{
    t->state = RDL__TAKE_WAITING;
    t->contended = true;
    return (struct rdl__take_step){.what = RDL__DO_WAIT, .hint_ms = hint_ms};
}

#define DELAY_MOST 6 /* of 64 ms: the host's lock tells nobody that it is free */
_Static_assert(DELAY_MOST < 8, "bars has room");

static struct rdl__take_step finish(struct rdl__take *t, int rc, bool undo)
{
    t->state = RDL__TAKE_DONE;
    return (struct rdl__take_step){.what = RDL__DO_FINISH, .rc = rc, .undo = undo};
}

static struct rdl__take_step barred(struct rdl__take *t)
{
    int64_t delay_ms = INT64_C(1) << t->bars;

    if (t->one_try)
        return finish(t, RDL_ETIMEDOUT, false);
    t->state = RDL__TAKE_BARRED;
    t->contended = true;
    if (t->bars < DELAY_MOST)
        t->bars++;
    return (struct rdl__take_step){.what = RDL__DO_DELAY, .hint_ms = delay_ms};
}

/* Where nothing is heard the first of a client's waiters asks for all (waiters.c), and the others have asked once when
 * their turn comes. They go on as if they had asked by themselves, as others' waiters do: until their pauses reach a
 * part of what they have waited. */
#define PART_OF_WAITED 3

static void catch_up(struct rdl__take *t, int64_t waited_ms)
{
    while (t->retry == RDL_RETRY_EXPONENTIAL && t->tries < 30 &&
           (int64_t)t->retry_min_ms << t->tries < waited_ms / PART_OF_WAITED)
        t->tries++;
}

/* The sooner of what the server and the policy say. */
static struct rdl__take_step refused(struct rdl__take *t, const struct rdl__take_event *ev)
{
    int64_t ttl_ms = ev->ttl_ms, delay_ms;

    t->queued = ev->queued;
    if ((t->early = ev->early))
        return send_try(t);
    catch_up(t, ev->waited_ms);
    delay_ms = rdl__take_delay_ms(t);
    if (t->tries < UINT16_MAX)
        t->tries++;
    t->contended = true;
    if (t->one_try)
        return finish(t, RDL_ETIMEDOUT, false);
    if (ttl_ms < 0 || (delay_ms >= 0 && delay_ms < ttl_ms))
        return wait_for(t, delay_ms);
    return wait_for(t, ttl_ms);
}

static struct rdl__take_step stopped(struct rdl__take *t, const struct rdl__take_event *ev)
{
    bool undo = t->queued && !ev->unsure;

    if (ev->code != RDL_OK)
        return finish(t, ev->code, undo);
    if (ev->unsure)
        return finish(t, RDL_EUNKNOWN, undo);
    return finish(t, t->contended && (ev->connected || t->state == RDL__TAKE_BARRED) ? RDL_ETIMEDOUT : RDL_ECONN, undo);
}

struct rdl__take_step rdl__take_on(struct rdl__take *t, const struct rdl__take_event *ev)
{
    switch (ev->kind) {
    case RDL__EV_START:
        if (ev->stands)
            return wait_for(t, ev->ttl_ms);
        return ev->others_wait && !t->one_try ? wait_for(t, rdl__take_delay_ms(t)) : send_try(t);
    case RDL__EV_BARRED:
        return barred(t);
    case RDL__EV_TAKEN:
        return ev->valid ? finish(t, RDL_OK, false) : finish(t, RDL_ELOST, true);
    case RDL__EV_REFUSED:
        return refused(t, ev);
    case RDL__EV_GONE:
        return finish(t, RDL_ELOST, false);
    case RDL__EV_FAILED:
        return finish(t, ev->code, ev->unsure || t->queued);
    case RDL__EV_WOKEN:
        return send_try(t);
    case RDL__EV_STOPPED:
        return stopped(t, ev);
    }
    return finish(t, RDL_EINVAL, false);
}
