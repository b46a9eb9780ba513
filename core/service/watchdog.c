/* watchdog.c - one heap of holds, one clock, renewals in batches, which go by server.
 *
 * A hold sits in the heap under the next moment at which something is due: its renewal, its becoming at risk, its end.
 * A renewal that is due moves the hold to the `due` list of its server's renewer, from which batches are made, at most
 * IN_FLIGHT at a time so that other commands slip in between; meanwhile the heap still knows when the hold would be at
 * risk or lost. So a server that does not answer delays its own renewals, never those of others nor the report of a
 * loss.
 *
 * Where there are several servers, the hold's slot says which renewer it is due at; it is looked up anew each time, so
 * a hold need not be moved when its slot is. A script cannot have keys of several slots, so then a batch has one slot.
 * As most have one hold, many are under way at a time (IN_FLIGHT_SPREAD), and the list is searched for others of a slot
 * no further than LOOK_AHEAD.
 *
 * Renewal every third of the lease, the first one somewhat earlier by chance, so that holds taken together are not
 * renewed together for ever. AT_RISK when less than a third of the lease is left: two renewals in a row went
 * unanswered.
 *
 * With many holds one or two are due at any moment, and a command for each would cost the server and the loop ten times
 * what the renewal does. So whoever is due takes along those that will be soon, up to COMPANY in all; more go only
 * where many are due already, because a long command is a long wait for everybody else.
 *
 * Where replicas must confirm (protocol.md, 8) a WAIT follows, on another lane, and an answer counts when that was
 * enough for its hold: else the hold stands as if nothing had been heard, unless it is gone. A WAIT is about all that
 * was written before it on the connection, so such a batch has a script for each of its slots and types, and one WAIT
 * behind them, for the most replicas that any of its holds wants. All are one request: a WAIT that was repeated alone,
 * on another connection, would confirm what that has never carried. One such batch is under way at a time, so a hold
 * that is due may wait for the batches of all others. Replicas that are dead take all the time that they are given: for
 * all those batches together less than a third of the lease (bound_wait).
 *
 * The moment of sending is the lane's, read before the request was encoded. A batch that is repeated on another
 * connection is encoded again, without the holds that were released meanwhile.
 */
#include "core/service/watchdog.h"

#include "core/base/err.h"
#include "core/service/scripts.h"
#include "core/wire/ident.h"

#include <limits.h>

#define IN_FLIGHT 2
#define IN_FLIGHT_SPREAD 32
#define LOOK_AHEAD 64
#define COMPANY 20   /* renewals that go together, although some of them would have had a little time */
#define DETOUR_MS 20 /* until a renewal that was sent elsewhere is sent again */
#define WAIT_SHARE 4 /* the part of a lease that the WAITs of all its batches may take together: a quarter */
#define GONE (-14)

/* What stands for the answer that a hold has not got. */
#define UNANSWERED INT64_MIN
#define MOVED (INT64_MIN + 1)  /* its slot is elsewhere as a whole, or nowhere for now */
#define MOVING (INT64_MIN + 2) /* its slot is on its way, key by key */

struct rdl__batch {
    struct rdl__req req;
    struct rdl__watchdog *wd;
    struct rdl__renewer *at;
    struct rdl__link free;
    struct rdl__acks acks; /* the most that any of its holds wants */
    int64_t confirmed;     /* replicas that have it; INT64_MAX: they cannot be asked, and it goes on without */
    unsigned count;        /* slots filled */
    unsigned scripts;      /* that these take */
    unsigned encoded;      /* slots in the commands as they were sent last */
    unsigned heard;        /* of these, whose script was answered */
    unsigned char slots[RDL__BATCH];    /* which ones, in the commands' order */
    unsigned char part[RDL__BATCH];     /* the script that a slot belongs to; those of one stand together */
    struct rdl__hold *hold[RDL__BATCH]; /* NULL: ended meanwhile */
    int64_t due_end[RDL__BATCH];        /* when its lease was to end, as it was sent; in the commands' order */
    int64_t ttl[RDL__BATCH];            /* answers, in the commands' order */
    struct rdl__lane *ask;              /* its only script is to be run there, this time; NULL: no */
    char refusal[128];                  /* the server's error; empty: none */
    int64_t server_us;                  /* the server's clock in the answer; 0: no usable answer */
};

/* What is due at one server. */
struct rdl__renewer {
    /* immutable */
    struct rdl__lane *lane;

    /* loop thread only */
    struct rdl__link link; /* on the watchdog's list */
    int64_t clock_offset;  /* the server's clock minus ours, microseconds, at the last renewal; 0: none yet */
    int64_t clock_at;
    int64_t clock_error; /* how much later than the server's word it was heard, at most */

    /* any thread, under the watchdog's mu */
    struct rdl__link due;
    struct rdl__link due_acked; /* those that want replicas' confirmation, and must not hold up the others */
    struct rdl__link free;      /* batches */
    bool acks_under_way;        /* a batch that waits for replicas */
    unsigned count;             /* of batches */
    struct rdl__batch batches[];
};

struct rdl__watchdog {
    /* immutable */
    const struct rdl__mem *mem;
    const struct rdl__sinks *sinks;
    struct rdl__loop *loop;
    struct rdl__watchdog_config config;
    struct rdl__renewer *home;

    /* loop thread only */
    struct rdl__timer timer;
    struct rdl__task look;     /* something may be due earlier than the timer */
    struct rdl__link renewers; /* home among them */

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__heap heap;
    int64_t armed;        /* when the timer will go off */
    unsigned acked_holds; /* that want replicas' confirmation */
    bool closed;
    struct rdl__rand rand;
};

static const struct rdl__req_ops renew_ops, acked_renew_ops;

/* ---- time ------------------------------------------------------------------------------------------------------- */

int64_t rdl__watchdog_validity(const struct rdl__watchdog *wd, int64_t sent_at, int64_t lease_ms)
{
    int64_t drift =
        lease_ms * wd->config.drift_ppm + wd->config.drift_ms * RDL__MS; /* a ppm of a ms is a ns; 2^59 fit */

    return rdl__after_ms(sent_at, lease_ms) - drift;
}

static int64_t risk_at(const struct rdl__hold *hold)
{
    return hold->deadline - hold->lease_ms * RDL__MS / 3;
}

/* Is its end one that renewals should have put off?  @locks mu */
static bool may_be_at_risk(const struct rdl__hold *hold)
{
    return hold->renewed && hold->state == RDL_HELD && hold->deadline < hold->ends_at;
}

/* When is something due for this hold?  @locks mu */
static int64_t next_due(const struct rdl__hold *hold)
{
    int64_t at = hold->deadline;

    if (may_be_at_risk(hold) && risk_at(hold) < at)
        at = risk_at(hold);
    if (hold->renew_at < at)
        at = hold->renew_at;
    return at;
}

/* Put the hold where it belongs in the heap; wake the loop if that is first.  @locks mu */
static void reschedule(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    int64_t at = next_due(hold);

    rdl__assert_locked(&wd->mu);
    rdl__heap_move(&wd->heap, &hold->node, at);
    if (at < wd->armed && !wd->closed) {
        wd->armed = at;
        rdl__loop_post(wd->loop, &wd->look);
    }
}

static int64_t trust_ms(const struct rdl__hold *hold, int64_t lease_ms)
{
    return hold->ops->trust_ms == NULL ? lease_ms : hold->ops->trust_ms(hold, lease_ms);
}

/* What a renewal asks for: no more than is left of the lease.  @locks mu */
static int64_t renewal_ms(const struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now)
{
    int64_t left = hold->ends_at == RDL__NEVER ? hold->lease_ms : (hold->ends_at - now) / RDL__MS + 1;

    rdl__assert_locked(&wd->mu);
    if (hold->brief)
        return trust_ms(hold, wd->config.lease_ms);
    return left < 1 ? 1 : left < hold->lease_ms ? left : hold->lease_ms;
}

/* The next renewal of a hold confirmed at `now`: after a third of the lease, up to a quarter of that earlier.  @locks
 * mu */
static int64_t next_renewal(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now)
{
    int64_t third = hold->lease_ms * RDL__MS / 3;

    rdl__assert_locked(&wd->mu);
    return now + third - (int64_t)rdl__rand_below(&wd->rand, (uint64_t)(third / 4 + 1));
}

/* Is it being renewed or examined, or about to be? Whatever comes of that sets renew_at.  @locks mu */
static bool under_way(const struct rdl__hold *hold)
{
    return hold->batch != NULL || rdl__link_on(&hold->due);
}

/* It was confirmed to its end, and now has a later one that nothing is on its way to confirm.  @locks mu */
static bool rests(const struct rdl__hold *hold)
{
    return hold->renewed && hold->renew_at == RDL__NEVER && !under_way(hold) && hold->deadline < hold->ends_at;
}

static struct rdl__acks acks_of(const struct rdl__hold *hold)
{
    return hold->ops->acks == NULL ? (struct rdl__acks){.replicas = 0} : hold->ops->acks(hold);
}

/* ---- leaving ---------------------------------------------------------------------------------------------------- */

/* Take the hold out of everything.  @locks mu */
static void detach(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__assert_locked(&wd->mu);
    if (rdl__heap_has(&hold->node) && hold->acked)
        wd->acked_holds--;
    rdl__heap_remove(&wd->heap, &hold->node);
    rdl__list_remove(&hold->due);
    if (hold->batch != NULL)
        hold->batch->hold[hold->slot] = NULL;
    hold->batch = NULL;
}

/* Decide a loss, of which hold; whoever calls runs `changed` afterwards.  @locks mu */
static struct rdl__hold_id lose(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__assert_locked(&wd->mu);
    detach(wd, hold);
    hold->state = RDL_LOST;
    return hold->ops->pin(hold);
}

/* @locks none */
static void report(struct rdl__watchdog *wd, struct rdl__hold *hold, const struct rdl__hold_id *id,
                   rdl_hold_state_t state, rdl_loss_reason_t reason, int64_t now)
{
    rdl__metric(wd->sinks, state == RDL_LOST ? RDL_M_LOST : RDL_M_AT_RISK, 1);
    hold->ops->changed(hold, id, state, reason, now);
}

/* ---- renewing --------------------------------------------------------------------------------------------------- */

static struct rdl__renewer *renewer_of(const struct rdl__watchdog *wd, const struct rdl__hold *hold)
{
    const struct rdl__routes *routes = wd->config.routes;

    return routes == NULL ? wd->home : routes->renewer(routes->arg, hold->hash_slot);
}

/* Where it waits for a batch.  @locks mu */
static struct rdl__link *due_list(struct rdl__renewer *at, const struct rdl__hold *hold)
{
    return acks_of(hold).replicas > 0 ? &at->due_acked : &at->due;
}

/* @locks mu */
static void becomes_due(struct rdl__renewer *at, struct rdl__hold *hold)
{
    hold->renew_at = RDL__NEVER;
    rdl__list_push_back(due_list(at, hold), &hold->due);
}

/* May it go with those that are in the batch already, by a script of its own if need be?  @locks mu */
static bool fits(const struct rdl__batch *batch, const struct rdl__hold *hold)
{
    struct rdl__acks acks = acks_of(hold);

    rdl__assert_locked(&batch->wd->mu);
    return batch->count == 0 || (!hold->alone && !batch->hold[0]->alone && acks.if_able == batch->acks.if_able &&
                                 acks.lane == batch->acks.lane);
}

/* @locks mu */
static bool shares_script(const struct rdl__hold *first, const struct rdl__hold *hold)
{
    return hold->hash_slot == first->hash_slot && hold->ops->script(hold) == first->ops->script(first);
}

/* @locks mu */
static void take_along(struct rdl__batch *batch, struct rdl__hold *hold)
{
    struct rdl__acks acks = acks_of(hold);

    rdl__assert_locked(&batch->wd->mu);
    if (batch->count > 0 && acks.replicas < batch->acks.replicas)
        acks.replicas = batch->acks.replicas;
    if (batch->count > 0 && acks.timeout_ms < batch->acks.timeout_ms)
        acks.timeout_ms = batch->acks.timeout_ms;
    batch->acks = acks;
    rdl__list_remove(&hold->due);
    hold->batch = batch;
    hold->slot = (unsigned char)batch->count;
    batch->part[batch->count] = (unsigned char)batch->scripts;
    batch->hold[batch->count++] = hold;
}

/* Add a script: for the first that is due there and may go, and what may share it. False: none may.  @locks mu */
static bool add_script(struct rdl__batch *batch, const struct rdl__link *due)
{
    unsigned left = batch->wd->config.routes == NULL ? UINT_MAX : LOOK_AHEAD;
    const struct rdl__hold *first = NULL;
    struct rdl__link *next;

    rdl__assert_locked(&batch->wd->mu);
    for (struct rdl__link *l = due->next; l != due && batch->count < RDL__BATCH && left-- > 0; l = next) {
        struct rdl__hold *hold = rdl__container(l, struct rdl__hold, due);

        next = l->next;
        if ((first != NULL && !shares_script(first, hold)) || !fits(batch, hold))
            continue;
        if (first == NULL)
            first = hold;
        take_along(batch, hold);
    }
    batch->scripts += first != NULL ? 1 : 0;
    return first != NULL;
}

/* Replicas may take as long as the holds allow, but those that are dead must not put off the other batches for long. A
 * hold that is due waits for the one under way, full ones of the others, its own, and one that could not be filled.
 * @locks mu */
static void bound_wait(struct rdl__batch *batch)
{
    int64_t most = INT64_MAX;

    rdl__assert_locked(&batch->wd->mu);
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->hold[i]->lease_ms < most)
            most = batch->hold[i]->lease_ms;
    most /= (int64_t)WAIT_SHARE * (3 + batch->wd->acked_holds / RDL__BATCH);
    if (most < batch->acks.timeout_ms)
        batch->acks.timeout_ms = most < 1 ? 1 : (uint32_t)most;
}

/* With the first that is due there, and what may go along.  @locks mu */
static void fill(struct rdl__batch *batch, const struct rdl__link *due)
{
    rdl__assert_locked(&batch->wd->mu);
    batch->count = batch->scripts = 0;
    while (add_script(batch, due) && batch->acks.replicas > 0)
        ;
    if (batch->acks.replicas > 0)
        bound_wait(batch);
    batch->at->acks_under_way |= batch->acks.replicas > 0;
}

static void submit(struct rdl__batch *batch)
{
    bool acked = batch->acks.replicas > 0;

    rdl__req_init(&batch->req, acked ? &acked_renew_ops : &renew_ops);
    rdl__lane_submit(acked ? batch->acks.lane : batch->at->lane, &batch->req);
}

/* What may go now; NULL: nothing. One batch at a time waits for replicas, so the others are never without one.  @locks
 * mu */
static const struct rdl__link *next_due_list(const struct rdl__renewer *at)
{
    if (!rdl__list_empty(&at->due_acked) && !at->acks_under_way)
        return &at->due_acked;
    return rdl__list_empty(&at->due) ? NULL : &at->due;
}

/* Make batches of what is due there, as many as may be under way.  @thread loop  @locks none */
static void pump(struct rdl__watchdog *wd, struct rdl__renewer *at)
{
    rdl__assert_on_loop(wd->loop);
    for (;;) {
        struct rdl__batch *batch = NULL;
        const struct rdl__link *due;

        rdl__mutex_lock(&wd->mu);
        due = next_due_list(at);
        if (due != NULL && !rdl__list_empty(&at->free) && !wd->closed) {
            batch = rdl__container(rdl__list_pop(&at->free), struct rdl__batch, free);
            fill(batch, due);
        }
        rdl__mutex_unlock(&wd->mu);
        if (batch == NULL)
            return;
        submit(batch);
    }
}

static void pump_all(struct rdl__watchdog *wd)
{
    for (struct rdl__link *l = wd->renewers.next; l != &wd->renewers; l = l->next)
        pump(wd, rdl__container(l, struct rdl__renewer, link));
}

/* How many of the slots sent, from this one on, are in one script? */
static unsigned script_length(const struct rdl__batch *batch, unsigned first)
{
    unsigned end = first;

    while (end < batch->encoded && batch->part[batch->slots[end]] == batch->part[batch->slots[first]])
        end++;
    return end - first;
}

/* @locks mu */
static void encode_script(struct rdl__batch *batch, unsigned first, unsigned count, struct rdl__buf *to, bool eval)
{
    const struct rdl__hold *hold = batch->hold[batch->slots[first]];
    char field[RDL__FIELD_MAX];
    int64_t now = rdl__now();
    const char *key;
    size_t len;

    rdl__assert_locked(&batch->wd->mu);
    rdl__script_begin(to, hold->ops->script(hold), eval, count, (size_t)2 * count);
    for (unsigned i = first; i < first + count; i++) {
        hold = batch->hold[batch->slots[i]];
        hold->ops->key(hold, &key, &len);
        rdl__cmd_arg(to, key, len);
        batch->due_end[i] = hold->deadline;
    }
    for (unsigned i = first; i < first + count; i++) {
        hold = batch->hold[batch->slots[i]];
        rdl__cmd_arg(to, field, hold->ops->field(hold, field));
        rdl__cmd_int(to, renewal_ms(batch->wd, hold, now));
    }
}

/* Which slots are sent now; nothing is heard of them yet.  @locks mu */
static void begin_encoding(struct rdl__batch *batch)
{
    rdl__assert_locked(&batch->wd->mu);
    batch->encoded = batch->heard = 0;
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->hold[i] != NULL)
            batch->slots[batch->encoded++] = (unsigned char)i;
    batch->confirmed = 0;
    batch->server_us = 0;
    batch->refusal[0] = '\0';
    batch->ask = NULL;
}

static void encode_renew(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    unsigned scripts = 0;

    rdl__mutex_lock(&batch->wd->mu); /* so that no hold ends while it is written */
    begin_encoding(batch);
    for (unsigned i = 0, count; i < batch->encoded; i += count, scripts++)
        encode_script(batch, i, count = script_length(batch, i), to, eval);
    rdl__mutex_unlock(&batch->wd->mu);
    if (scripts == 0) { /* all released meanwhile; a request is a command all the same */
        rdl__cmd_begin(to, 1);
        rdl__cmd_str(to, "PING");
    } else {
        req->owed += (unsigned char)(scripts - 1);
    }
    if (req->ops->more > 0)
        rdl__cmd_wait(to, batch->acks.replicas, batch->acks.timeout_ms);
}

/* What the replicas have to say. */
static void decode_acks(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    if (reply->type != RDL__REPLY_ERROR)
        (void)rdl__reply_integer(reply, &batch->confirmed);
    else if (batch->acks.if_able && rdl__reply_refuses_wait(reply))
        batch->confirmed = INT64_MAX;
    else
        (void)rdl__printable(batch->refusal, sizeof batch->refusal, reply->str, reply->len);
}

/* Was the script sent elsewhere?  @locks the lane's */
static bool detoured(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    const struct rdl__routes *routes = batch->wd->config.routes;

    return routes != NULL && reply->type == RDL__REPLY_ERROR &&
           routes->detoured(routes->arg, reply, batch->acks.replicas > 0, &batch->ask);
}

/* What an error says of all holds of its script.  @locks the lane's */
static int64_t decode_error(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    if (!detoured(batch, reply)) {
        (void)rdl__printable(batch->refusal, sizeof batch->refusal, reply->str, reply->len);
        return UNANSWERED;
    }
    return rdl__reply_is_error(reply, "MOVED") || rdl__reply_is_error(reply, "CLUSTERDOWN") ? MOVED : MOVING;
}

/* The answers of `count` holds, to `ret_ttl`; the server's clock, or 0: it is no such answer. */
static int64_t decode_ttls(const struct rdl__reply *reply, unsigned count, int64_t *ret_ttl)
{
    int64_t s, us;

    if (reply->type != RDL__REPLY_ARRAY || reply->len != count + 2 ||
        !rdl__reply_integer(rdl__reply_at(reply, 0), &s) || !rdl__reply_integer(rdl__reply_at(reply, 1), &us))
        return 0;
    for (unsigned i = 0; i < count; i++)
        if (!rdl__reply_integer(rdl__reply_at(reply, i + 2), &ret_ttl[i]))
            return 0;
    return s * 1000000 + us;
}

static void decode_script(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    unsigned count = script_length(batch, batch->heard);
    int64_t *ttl = batch->ttl + batch->heard, server_us, failure = UNANSWERED;

    batch->heard += count;
    if ((server_us = decode_ttls(reply, count, ttl)) != 0) {
        batch->server_us = server_us;
        return;
    }
    if (reply->type == RDL__REPLY_ERROR)
        failure = decode_error(batch, reply);
    for (unsigned i = 0; i < count; i++)
        ttl[i] = failure;
}

static void decode_renew(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);

    (void)now;
    if (req->ops->more > 0 && req->owed == 0) {
        decode_acks(batch, reply);
        return;
    }
    decode_script(batch, reply);
}

/* Leases are the server's to end, by its own clock: when that clock jumps beyond the allowance, say so (protocol.md,
 * 4). */
static void judge_clock(struct rdl__watchdog *wd, struct rdl__renewer *at, int64_t server_us, int64_t sent_at,
                        int64_t now)
{
    int64_t offset = server_us - now / RDL__US, since = now - at->clock_at;
    int64_t error = now - sent_at;
    int64_t allowed = (error + at->clock_error) / RDL__US + since / RDL__US * wd->config.drift_ppm / 1000000 +
                      wd->config.drift_ms * 1000;

    if (at->clock_at != 0 && (offset - at->clock_offset > allowed || at->clock_offset - offset > allowed))
        rdl__log(wd->sinks, RDL_LOG_WARN, "the server's clock jumped by %+lld ms: leases end by that clock",
                 (long long)((offset - at->clock_offset) / 1000));
    at->clock_offset = offset;
    at->clock_at = now;
    at->clock_error = error;
}

/* Does the server's lease run out before it should? Then somebody has meddled with it.  @locks mu */
static bool shortened(const struct rdl__batch *batch, unsigned i, int64_t now)
{
    rdl__assert_locked(&batch->wd->mu);
    return batch->ttl[i] >= 0 && batch->ttl[i] < (batch->due_end[i] - now) / RDL__MS;
}

/* One answer. RDL_LOSS_*: the hold *ret_id is lost, and the caller reports; 0: it goes on. What is noted after the
 * deadline revives nothing, whenever it came: whoever has asked meanwhile was told that the hold is lost. So the clock
 * is read under the mutex.  @locks mu */
static int apply(struct rdl__watchdog *wd, struct rdl__hold *hold, const struct rdl__batch *batch, int64_t ttl,
                 struct rdl__hold_id *ret_id)
{
    int64_t deadline, now = rdl__now();

    rdl__assert_locked(&wd->mu);
    hold->batch = NULL;
    hold->alone = false;
    if (hold->deadline <= now || ttl == GONE) {
        int reason = ttl == GONE ? RDL_LOSS_GONE : RDL_LOSS_LEASE;

        *ret_id = lose(wd, hold);
        return reason;
    }
    if (hold->brief)
        hold->lease_ms = trust_ms(hold, wd->config.lease_ms);
    hold->brief = false;
    deadline = rdl__watchdog_validity(wd, batch->req.sent_at, hold->lease_ms);
    if (deadline > hold->ends_at)
        deadline = hold->ends_at;
    if (deadline > hold->deadline)
        hold->deadline = deadline;
    if (risk_at(hold) > now)
        hold->state = RDL_HELD;
    hold->renew_at = hold->deadline < hold->ends_at ? next_renewal(wd, hold, batch->req.sent_at) : RDL__NEVER;
    reschedule(wd, hold);
    return 0;
}

/* Soon, if it was only sent elsewhere; and alone, because of keys that are on their way one by one no server has all.
 * @locks mu */
static void retry_later(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t ttl, int64_t now)
{
    int64_t pause = hold->lease_ms * RDL__MS / 20;
    bool soon = ttl == MOVED || ttl == MOVING;

    rdl__assert_locked(&wd->mu);
    hold->batch = NULL;
    hold->alone = ttl == MOVING;
    hold->renew_at = now + (soon && pause > DETOUR_MS * RDL__MS ? DETOUR_MS * RDL__MS : pause);
    reschedule(wd, hold);
}

/* Is one of them due elsewhere by now?  @locks the lane's */
static bool renew_misrouted(const struct rdl__req *req)
{
    const struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    struct rdl__watchdog *wd = batch->wd;
    bool misrouted = false;

    if (wd->config.routes == NULL || req->asking)
        return false;
    rdl__mutex_lock(&wd->mu);
    for (unsigned i = 0; i < batch->count; i++)
        misrouted = misrouted || (batch->hold[i] != NULL && renewer_of(wd, batch->hold[i]) != batch->at);
    rdl__mutex_unlock(&wd->mu);
    return misrouted;
}

/* Does the answer count?  @locks mu */
static bool counts(const struct rdl__batch *batch, const struct rdl__hold *hold, int64_t ttl)
{
    rdl__assert_locked(&batch->wd->mu);
    if (ttl == UNANSWERED || ttl == MOVED || ttl == MOVING)
        return false;
    return ttl == GONE || batch->confirmed >= acks_of(hold).replicas;
}

/* Whoever is waited for there, it is not the replicas of this one. */
static void ask_there(struct rdl__batch *batch)
{
    struct rdl__watchdog *wd = batch->wd;

    rdl__mutex_lock(&wd->mu);
    if (batch->acks.replicas > 0 && !batch->req.asking)
        batch->at->acks_under_way = false;
    rdl__mutex_unlock(&wd->mu);
    rdl__req_init(&batch->req, batch->req.ops);
    batch->req.asking = true;
    rdl__lane_submit(batch->ask, &batch->req);
    pump(wd, batch->at);
}

static void done_renew(struct rdl__req *req, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    struct rdl__watchdog *wd = batch->wd;
    bool settled = req->rc == RDL_OK;
    int64_t unheard = req->rc == RDL__MISROUTED ? MOVED : UNANSWERED;
    int64_t renewed = 0, meddled = 0;

    if (settled && batch->ask != NULL && script_length(batch, 0) == batch->encoded) {
        ask_there(batch);
        return;
    }
    if (settled && batch->server_us != 0)
        judge_clock(wd, batch->at, batch->server_us, req->sent_at, now);
    for (unsigned i = 0; i < (settled ? batch->encoded : batch->count); i++) {
        unsigned slot = settled ? batch->slots[i] : i;
        int64_t ttl = settled ? batch->ttl[i] : unheard;
        struct rdl__hold *hold;
        struct rdl__hold_id id;
        int lost = 0;

        rdl__mutex_lock(&wd->mu);
        if ((hold = batch->hold[slot]) != NULL) {
            batch->hold[slot] = NULL;
            meddled += settled && shortened(batch, i, now) ? 1 : 0;
            if (!counts(batch, hold, ttl))
                retry_later(wd, hold, ttl, now);
            else if ((lost = apply(wd, hold, batch, ttl, &id)) == 0)
                renewed++;
        }
        rdl__mutex_unlock(&wd->mu);
        if (lost != 0)
            report(wd, hold, &id, RDL_LOST, (rdl_loss_reason_t)lost, now);
    }
    if (settled && batch->refusal[0] != '\0')
        rdl__log(wd->sinks, RDL_LOG_WARN, "%u renewals were refused: %s", batch->encoded, batch->refusal);
    if (meddled > 0)
        rdl__log(wd->sinks, RDL_LOG_WARN, "%lld leases had been shortened at the server; they are restored",
                 (long long)meddled);
    if (renewed > 0)
        rdl__metric(wd->sinks, RDL_M_RENEWED, renewed);
    rdl__mutex_lock(&wd->mu);
    if (batch->acks.replicas > 0 && !req->asking)
        batch->at->acks_under_way = false;
    rdl__list_push_back(&batch->at->free, &batch->free);
    rdl__mutex_unlock(&wd->mu);
    pump(wd, batch->at);
}

static const struct rdl__req_ops renew_ops = {
    .encode = encode_renew, .decode = decode_renew, .done = done_renew, .misrouted = renew_misrouted};
static const struct rdl__req_ops acked_renew_ops = {
    .encode = encode_renew, .decode = decode_renew, .done = done_renew, .misrouted = renew_misrouted, .more = 1};

/* ---- what is due ------------------------------------------------------------------------------------------------ */

/* Handle the first hold of the heap if its moment has come; *count those that are to be renewed. False: none.
 * @thread loop  @locks none */
static bool step(struct rdl__watchdog *wd, int64_t now, unsigned *count)
{
    rdl_hold_state_t news = RDL_NOT_HELD;
    struct rdl__hold_id id = {0};
    struct rdl__heap_node *first;
    struct rdl__hold *hold;

    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    first = wd->closed ? NULL : rdl__heap_min(&wd->heap);
    if (first == NULL || first->at > now) {
        wd->armed = first == NULL ? RDL__NEVER : first->at;
        rdl__mutex_unlock(&wd->mu);
        return false;
    }
    hold = rdl__container(first, struct rdl__hold, node);
    if (hold->deadline <= now) {
        id = lose(wd, hold);
        news = RDL_LOST;
    } else {
        if (hold->renew_at <= now) {
            becomes_due(renewer_of(wd, hold), hold);
            (*count)++;
        }
        if (may_be_at_risk(hold) && risk_at(hold) <= now) {
            hold->state = RDL_AT_RISK;
            if (!hold->told_risk) {
                hold->told_risk = true;
                id = hold->ops->pin(hold);
                news = RDL_AT_RISK;
            }
        }
        rdl__heap_move(&wd->heap, &hold->node, next_due(hold));
    }
    rdl__mutex_unlock(&wd->mu);
    if (news != RDL_NOT_HELD)
        report(wd, hold, &id, news, news == RDL_LOST ? RDL_LOSS_LEASE : RDL_LOSS_RENEWAL, now);
    return true;
}

/* May the hold's next renewal be sent now, with others? A little early: a thirty-second part of the usual time.  @locks
 * mu */
static bool may_go_along(const struct rdl__hold *hold, int64_t now)
{
    return hold->node.at == hold->renew_at && hold->renew_at - now <= hold->lease_ms * RDL__MS / 3 / 32;
}

/* Where there are many holds, one or two are due at any moment. Each command costs everybody a turn of the loop and of
 * the server, so those that are due are sent with the next few.  @thread loop  @locks none */
static void find_company(struct rdl__watchdog *wd, unsigned count, int64_t now)
{
    struct rdl__heap_node *first;

    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    while (count++ < COMPANY && !wd->closed && (first = rdl__heap_min(&wd->heap)) != NULL) {
        struct rdl__hold *hold = rdl__container(first, struct rdl__hold, node);

        if (!may_go_along(hold, now))
            break;
        becomes_due(renewer_of(wd, hold), hold);
        rdl__heap_move(&wd->heap, &hold->node, next_due(hold));
    }
    first = rdl__heap_min(&wd->heap);
    wd->armed = first == NULL || wd->closed ? RDL__NEVER : first->at;
    rdl__mutex_unlock(&wd->mu);
}

static void tick(struct rdl__watchdog *wd, int64_t now)
{
    unsigned count = 0;
    int64_t armed;

    while (step(wd, now, &count))
        ;
    if (count > 0)
        find_company(wd, count, now);
    pump_all(wd);
    rdl__mutex_lock(&wd->mu);
    armed = wd->closed ? RDL__NEVER : wd->armed;
    rdl__mutex_unlock(&wd->mu);
    if (armed != RDL__NEVER)
        rdl__loop_timer(wd->loop, &wd->timer, armed);
    else
        rdl__loop_timer_off(wd->loop, &wd->timer);
}

static void on_timer(struct rdl__timer *timer, int64_t now)
{
    tick(rdl__container(timer, struct rdl__watchdog, timer), now);
}

/* Something is due earlier than the timer goes off. The timer is only ever set earlier here, never put off: a hold that
 * comes and goes between two turns of the loop would otherwise wake it each time. */
static void on_look(struct rdl__task *task, int64_t now)
{
    struct rdl__watchdog *wd = rdl__container(task, struct rdl__watchdog, look);
    int64_t armed;

    (void)now;
    rdl__mutex_lock(&wd->mu);
    armed = wd->closed ? RDL__NEVER : wd->armed;
    rdl__mutex_unlock(&wd->mu);
    if (armed != RDL__NEVER)
        rdl__loop_timer(wd->loop, &wd->timer, armed);
}

/* ---- watchdog.h ------------------------------------------------------------------------------------------------- */

struct rdl__renewer *rdl__renewer_new(struct rdl__watchdog *wd, struct rdl__lane *lane)
{
    unsigned count = wd->config.routes == NULL ? IN_FLIGHT : IN_FLIGHT_SPREAD;
    struct rdl__renewer *at = rdl__zalloc(wd->mem, sizeof *at + count * sizeof at->batches[0]);

    if (at == NULL)
        return NULL;
    at->lane = lane;
    at->count = count;
    rdl__list_init(&at->due);
    rdl__list_init(&at->due_acked);
    rdl__list_init(&at->free);
    for (unsigned i = 0; i < count; i++) {
        at->batches[i].wd = wd;
        at->batches[i].at = at;
        rdl__list_push_back(&at->free, &at->batches[i].free);
    }
    rdl__list_push_back(&wd->renewers, &at->link);
    return at;
}

struct rdl__watchdog *rdl__watchdog_new(const struct rdl__mem *mem, const struct rdl__sinks *sinks,
                                        struct rdl__loop *loop, struct rdl__lane *lane,
                                        const struct rdl__watchdog_config *config)
{
    struct rdl__watchdog *wd = rdl__zalloc(mem, sizeof *wd);

    if (wd == NULL)
        return NULL;
    if (rdl__mutex_init(&wd->mu) < 0) {
        rdl__free(mem, wd, sizeof *wd);
        return NULL;
    }
    wd->mem = mem;
    wd->sinks = sinks;
    wd->loop = loop;
    wd->config = *config;
    wd->armed = RDL__NEVER;
    (void)rdl__entropy(&wd->rand.state, sizeof wd->rand.state);
    rdl__timer_init(&wd->timer, on_timer);
    rdl__task_init(&wd->look, on_look);
    rdl__list_init(&wd->renewers);
    wd->home = rdl__renewer_new(wd, lane);
    return wd->home != NULL ? wd : rdl__watchdog_free(wd);
}

struct rdl__renewer *rdl__watchdog_home(const struct rdl__watchdog *wd)
{
    return wd->home;
}

void rdl__watchdog_close(struct rdl__watchdog *wd)
{
    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    wd->closed = true;
    rdl__mutex_unlock(&wd->mu);
    rdl__loop_timer_off(wd->loop, &wd->timer);
}

struct rdl__watchdog *rdl__watchdog_free(struct rdl__watchdog *wd)
{
    struct rdl__link *l;

    if (wd == NULL)
        return NULL;
    while ((l = rdl__list_pop(&wd->renewers)) != NULL) {
        struct rdl__renewer *at = rdl__container(l, struct rdl__renewer, link);

        rdl__free(wd->mem, at, sizeof *at + at->count * sizeof at->batches[0]);
    }
    rdl__mutex_done(&wd->mu);
    rdl__free(wd->mem, wd, sizeof *wd);
    return NULL;
}

void rdl__watchdog_add(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                       bool renewed)
{
    int64_t trusted_ms = trust_ms(hold, lease_ms);

    rdl__mutex_lock(&wd->mu);
    hold->acked = acks_of(hold).replicas > 0;
    wd->acked_holds += hold->acked ? 1 : 0;
    hold->node = (struct rdl__heap_node){0};
    rdl__list_init(&hold->due);
    hold->batch = NULL;
    hold->deadline = rdl__watchdog_validity(wd, sent_at, trusted_ms);
    hold->ends_at = renewed ? RDL__NEVER : rdl__watchdog_validity(wd, sent_at, lease_ms);
    hold->lease_ms = trusted_ms;
    hold->renewed = renewed || trusted_ms < lease_ms;
    hold->state = RDL_HELD;
    hold->told_risk = false;
    hold->alone = false;
    hold->brief = renewed && lease_ms < wd->config.lease_ms;
    hold->renew_at = hold->renewed ? next_renewal(wd, hold, sent_at) : RDL__NEVER;
    reschedule(wd, hold);
    rdl__mutex_unlock(&wd->mu);
}

bool rdl__watchdog_raise(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms,
                         bool renewed)
{
    int64_t trusted_ms = trust_ms(hold, lease_ms), deadline = rdl__watchdog_validity(wd, sent_at, trusted_ms);
    int64_t ends_at = renewed ? RDL__NEVER : rdl__watchdog_validity(wd, sent_at, lease_ms);
    bool alive, for_good;
    int64_t now;

    rdl__mutex_lock(&wd->mu);
    now = rdl__now(); /* here, as in apply */
    alive = hold->state != RDL_LOST && hold->deadline > now;
    if (alive) {
        for_good =
            renewed && hold->ends_at != RDL__NEVER; /* so far confirmed until its end, at longer intervals maybe */
        if (deadline > hold->deadline)
            hold->deadline = deadline;
        if (ends_at > hold->ends_at)
            hold->ends_at = ends_at;
        if (for_good || (trusted_ms < lease_ms && !hold->renewed)) {
            hold->lease_ms = trusted_ms;
            hold->renewed = true;
            if (!under_way(hold))
                hold->renew_at = next_renewal(wd, hold, sent_at);
        }
        if (rests(hold))
            hold->renew_at = next_renewal(wd, hold, sent_at);
        if (hold->state == RDL_AT_RISK && risk_at(hold) > now)
            hold->state = RDL_HELD;
        reschedule(wd, hold);
    }
    rdl__mutex_unlock(&wd->mu);
    return alive;
}

rdl_hold_state_t rdl__watchdog_remove(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now)
{
    struct rdl__hold_id id = {0};
    rdl_hold_state_t state;
    bool unnoticed;

    rdl__mutex_lock(&wd->mu);
    unnoticed = hold->state != RDL_LOST && hold->deadline <= now;
    if (unnoticed)
        id = lose(wd, hold);
    else
        detach(wd, hold);
    state = (rdl_hold_state_t)hold->state;
    rdl__mutex_unlock(&wd->mu);
    if (unnoticed)
        report(wd, hold, &id, RDL_LOST, RDL_LOSS_LEASE, now);
    return state;
}

void rdl__watchdog_forget(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__mutex_lock(&wd->mu);
    detach(wd, hold);
    rdl__mutex_unlock(&wd->mu);
}

/* Not one that is being given back: who does that will tell. `n` 0: whichever it is. */
static void lose_now(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n, rdl_loss_reason_t reason)
{
    struct rdl__hold_id id = {0};
    int64_t now = rdl__now();
    bool looked_after;

    rdl__mutex_lock(&wd->mu);
    looked_after = rdl__heap_has(&hold->node) && (n == 0 || hold->ops->number(hold) == n);
    if (looked_after)
        id = lose(wd, hold);
    rdl__mutex_unlock(&wd->mu);
    if (looked_after)
        report(wd, hold, &id, RDL_LOST, reason, now);
}

void rdl__watchdog_gone(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t n)
{
    lose_now(wd, hold, n, RDL_LOSS_GONE);
}

void rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    lose_now(wd, hold, 0, RDL_LOSS_THREAD_EXIT);
}

/* Holds of a batch that is under way are asked about when that is repeated. */
void rdl__watchdog_examine(struct rdl__watchdog *wd, struct rdl__renewer *at)
{
    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    for (struct rdl__heap_node *n = rdl__heap_min(&wd->heap); n != NULL; n = rdl__heap_next(n)) {
        struct rdl__hold *hold = rdl__container(n, struct rdl__hold, node);

        if (!under_way(hold) && renewer_of(wd, hold) == at)
            becomes_due(at, hold);
    }
    rdl__mutex_unlock(&wd->mu);
    pump(wd, at);
}

/* Move on what is due at one whose it is no more.  @locks mu */
static void reroute(struct rdl__watchdog *wd, const struct rdl__renewer *at, const struct rdl__link *due)
{
    struct rdl__link *next;

    rdl__assert_locked(&wd->mu);
    for (struct rdl__link *l = due->next; l != due; l = next) {
        struct rdl__hold *hold = rdl__container(l, struct rdl__hold, due);

        next = l->next;
        if (renewer_of(wd, hold) == at)
            continue;
        rdl__list_remove(l);
        rdl__list_push_back(due_list(renewer_of(wd, hold), hold), l);
    }
}

void rdl__watchdog_reroute(struct rdl__watchdog *wd)
{
    rdl__assert_on_loop(wd->loop);
    rdl__mutex_lock(&wd->mu);
    for (struct rdl__link *l = wd->renewers.next; l != &wd->renewers; l = l->next) {
        const struct rdl__renewer *at = rdl__container(l, struct rdl__renewer, link);

        reroute(wd, at, &at->due);
        reroute(wd, at, &at->due_acked);
    }
    rdl__mutex_unlock(&wd->mu);
    pump_all(wd);
}

rdl_hold_state_t rdl__watchdog_state(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now,
                                     int64_t *ret_left_ns)
{
    rdl_hold_state_t state;
    int64_t left;

    rdl__mutex_lock(&wd->mu);
    left = hold->deadline - now;
    state = left <= 0 ? RDL_LOST : (rdl_hold_state_t)hold->state;
    rdl__mutex_unlock(&wd->mu);
    if (ret_left_ns != NULL)
        *ret_left_ns = state == RDL_LOST ? 0 : left;
    return state;
}

/* What was taken off for the clocks is added here. */
int64_t rdl__watchdog_expiry(const struct rdl__watchdog *wd, int64_t granted_at, int64_t lease_ms)
{
    int64_t end = rdl__after_ms(granted_at, lease_ms);

    return end + (end - rdl__watchdog_validity(wd, granted_at, lease_ms));
}
