/* watchdog.c - one heap of holds, one clock, renewals in batches, which go by server.
 *
 * A hold sits in the heap under the next moment at which something is due: its renewal, its becoming at risk, its end. A
 * renewal that is due moves the hold to the `due` list of its server's renewer, from which batches are made, at most IN_FLIGHT at
 * a time so that other commands slip in between; meanwhile the heap still knows when the hold would be at risk or lost. So a
 * server that does not answer delays its own renewals, never those of others nor the report of a loss.
 *
 * Where there are several servers, the hold's slot says which renewer it is due at; it is looked up anew each time, so a hold
 * need not be moved when its slot is. A script cannot have keys of several slots, so then a batch has one slot. As most have
 * one hold, many are under way at a time (IN_FLIGHT_SPREAD), and the list is searched for others of a slot no further than
 * LOOK_AHEAD.
 *
 * Renewal every third of the lease, the first one somewhat earlier by chance, so that holds taken together are not renewed
 * together for ever. AT_RISK when less than a third of the lease is left: two renewals in a row went unanswered.
 *
 * With many holds one or two are due at any moment, and a command for each would cost the server and the loop ten times what the
 * renewal does. So whoever is due takes along those that will be soon, up to COMPANY in all; more go only where many are due
 * already, because a long command is a long wait for everybody else.
 *
 * Where replicas must confirm (PROTOCOL.md, 8) a WAIT follows the script, on another lane, and the answers count when that was
 * enough: else the hold stands as if nothing had been heard, unless it is gone. One such batch is under way at a time.
 *
 * The moment of sending is the lane's, read before the request was encoded. A batch that is repeated on another connection
 * is encoded again, without the holds that were released meanwhile.
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
#define GONE (-14)

struct rdl__batch {
    struct rdl__req req;
    struct rdl__watchdog *wd;
    struct rdl__renewer *at;
    struct rdl__link free;
    int script;
    unsigned hash_slot; /* of its holds */
    struct rdl__acks acks;
    bool acked;                         /* as many replicas as were wanted have it */
    unsigned count;                     /* slots filled */
    unsigned encoded;                   /* slots in the command as it was sent last */
    unsigned char slots[RDL__BATCH];    /* which ones, in the command's order */
    struct rdl__hold *hold[RDL__BATCH]; /* NULL: ended meanwhile */
    int64_t due_end[RDL__BATCH];        /* when its lease was to end, as it was sent; in the command's order */
    int64_t ttl[RDL__BATCH];            /* answers, in the command's order */
    bool detoured;                      /* the slot is elsewhere, or will be */
    struct rdl__lane *ask;              /* then: it is to be asked there, this time; NULL: by the map, again */
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
    int64_t armed; /* when the timer will go off */
    bool closed;
    struct rdl__rand rand;
};

static const struct rdl__req_ops renew_ops, acked_renew_ops;

/* ---- time ---------------------------------------------------------------------------------------------------------------- */

int64_t rdl__watchdog_validity(const struct rdl__watchdog *wd, int64_t sent_at, int64_t lease_ms)
{
    int64_t drift_us = lease_ms * wd->config.drift_ppm / 1000 + wd->config.drift_ms * 1000; /* 2^40 ms by 2^19 ppm fits */

    return rdl__after_ms(sent_at, lease_ms) - drift_us * RDL__US;
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

    if (hold->brief)
        return trust_ms(hold, wd->config.lease_ms);
    return left < 1 ? 1 : left < hold->lease_ms ? left : hold->lease_ms;
}

/* The next renewal of a hold confirmed at `now`: after a third of the lease, up to a quarter of that earlier.  @locks mu */
static int64_t next_renewal(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now)
{
    int64_t third = hold->lease_ms * RDL__MS / 3;

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

/* ---- leaving ------------------------------------------------------------------------------------------------------------- */

/* Take the hold out of everything.  @locks mu */
static void detach(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    rdl__heap_remove(&wd->heap, &hold->node);
    rdl__list_remove(&hold->due);
    if (hold->batch != NULL)
        hold->batch->hold[hold->slot] = NULL;
    hold->batch = NULL;
}

/* Decide a loss, of which hold; whoever calls runs `changed` afterwards.  @locks mu */
static struct rdl__hold_id lose(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    detach(wd, hold);
    hold->state = RDL_LOST;
    return hold->ops->pin(hold);
}

/* @locks none */
static void report(struct rdl__watchdog *wd, struct rdl__hold *hold, const struct rdl__hold_id *id, rdl_hold_state_t state,
                   rdl_loss_reason_t reason, int64_t now)
{
    rdl__metric(wd->sinks, state == RDL_LOST ? RDL_M_LOST : RDL_M_AT_RISK, 1);
    hold->ops->changed(hold, id, state, reason, now);
}

/* ---- renewing ------------------------------------------------------------------------------------------------------------ */

static struct rdl__renewer *renewer_of(const struct rdl__watchdog *wd, const struct rdl__hold *hold)
{
    const struct rdl__routes *routes = wd->config.routes;

    return routes == NULL ? wd->home : routes->renewer(routes->arg, hold->hash_slot);
}

static struct rdl__acks acks_of(const struct rdl__hold *hold)
{
    return hold->ops->acks == NULL ? (struct rdl__acks){.replicas = 0} : hold->ops->acks(hold);
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

/* May it go with those that are in the batch already?  @locks mu */
static bool fits(const struct rdl__batch *batch, const struct rdl__hold *hold)
{
    struct rdl__acks acks = acks_of(hold);

    return !hold->alone && !batch->hold[0]->alone && hold->hash_slot == batch->hash_slot &&
           hold->ops->script(hold) == batch->script && acks.replicas == batch->acks.replicas &&
           acks.timeout_ms == batch->acks.timeout_ms && acks.if_able == batch->acks.if_able;
}

/* With the first that is due there, and what may go along.  @locks mu */
static void fill(struct rdl__batch *batch, const struct rdl__link *due)
{
    unsigned left = batch->wd->config.routes == NULL ? UINT_MAX : LOOK_AHEAD;
    struct rdl__link *next;

    batch->count = 0;
    for (struct rdl__link *l = due->next; l != due && batch->count < RDL__BATCH && left-- > 0; l = next) {
        struct rdl__hold *hold = rdl__container(l, struct rdl__hold, due);

        next = l->next;
        if (batch->count > 0 && !fits(batch, hold))
            continue;
        if (batch->count == 0) {
            batch->script = hold->ops->script(hold);
            batch->hash_slot = hold->hash_slot;
            batch->acks = acks_of(hold);
        }
        rdl__list_remove(l);
        hold->batch = batch;
        hold->slot = (unsigned char)batch->count;
        batch->hold[batch->count++] = hold;
    }
    batch->at->acks_under_way |= batch->acks.replicas > 0;
}

static void submit(struct rdl__batch *batch)
{
    bool acked = batch->acks.replicas > 0;

    rdl__req_init(&batch->req, acked ? &acked_renew_ops : &renew_ops);
    rdl__lane_submit(acked ? batch->acks.lane : batch->at->lane, &batch->req);
}

/* What may go now; NULL: nothing. One batch at a time waits for replicas, so the others are never without one.  @locks mu */
static const struct rdl__link *next_due_list(const struct rdl__renewer *at)
{
    if (!rdl__list_empty(&at->due_acked) && !at->acks_under_way)
        return &at->due_acked;
    return rdl__list_empty(&at->due) ? NULL : &at->due;
}

/* Make batches of what is due there, as many as may be under way.  @thread loop  @locks none */
static void pump(struct rdl__watchdog *wd, struct rdl__renewer *at)
{
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

static void encode_renew(struct rdl__req *req, struct rdl__buf *to, bool eval)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    char field[RDL__FIELD_MAX];
    int64_t now = rdl__now();
    const char *key;
    size_t len;

    rdl__mutex_lock(&batch->wd->mu); /* so that no hold ends while it is written */
    batch->encoded = 0;
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->hold[i] != NULL)
            batch->slots[batch->encoded++] = (unsigned char)i;
    if (batch->encoded == 0) { /* all released meanwhile; a request is one command all the same */
        rdl__cmd_begin(to, 1);
        rdl__cmd_str(to, "PING");
    } else {
        rdl__script_begin(to, batch->script, eval, batch->encoded, (size_t)2 * batch->encoded);
        for (unsigned i = 0; i < batch->encoded; i++) {
            const struct rdl__hold *hold = batch->hold[batch->slots[i]];

            hold->ops->key(hold, &key, &len);
            rdl__cmd_arg(to, key, len);
            batch->due_end[i] = hold->deadline;
        }
        for (unsigned i = 0; i < batch->encoded; i++) {
            const struct rdl__hold *hold = batch->hold[batch->slots[i]];

            rdl__cmd_arg(to, field, hold->ops->field(hold, field));
            rdl__cmd_int(to, renewal_ms(batch->wd, hold, now));
        }
    }
    rdl__mutex_unlock(&batch->wd->mu);
    if (req->ops->more > 0)
        rdl__cmd_wait(to, batch->acks.replicas, batch->acks.timeout_ms);
}

/* What the replicas have to say. */
static void decode_acks(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    int64_t acks;

    batch->acked = reply->type == RDL__REPLY_ERROR ? batch->acks.if_able
                                                   : rdl__reply_integer(reply, &acks) && acks >= batch->acks.replicas;
    if (reply->type == RDL__REPLY_ERROR && !batch->acks.if_able)
        (void)rdl__printable(batch->refusal, sizeof batch->refusal, reply->str, reply->len);
}

/* Was the batch sent elsewhere?  @locks the lane's */
static bool detoured(struct rdl__batch *batch, const struct rdl__reply *reply)
{
    const struct rdl__routes *routes = batch->wd->config.routes;

    return routes != NULL && reply->type == RDL__REPLY_ERROR && routes->detoured(routes->arg, reply, &batch->ask);
}

static void decode_renew(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    int64_t s, us;

    (void)now;
    if (req->ops->more > 0 && req->owed == 0) {
        decode_acks(batch, reply);
        return;
    }
    batch->acked = batch->acks.replicas == 0;
    batch->server_us = 0;
    batch->refusal[0] = '\0';
    batch->ask = NULL;
    batch->detoured = detoured(batch, reply);
    if (reply->type == RDL__REPLY_ERROR && !batch->detoured)
        (void)rdl__printable(batch->refusal, sizeof batch->refusal, reply->str, reply->len);
    if (reply->type != RDL__REPLY_ARRAY || reply->len != batch->encoded + 2 ||
        !rdl__reply_integer(rdl__reply_at(reply, 0), &s) || !rdl__reply_integer(rdl__reply_at(reply, 1), &us))
        return;
    for (unsigned i = 0; i < batch->encoded; i++)
        if (!rdl__reply_integer(rdl__reply_at(reply, i + 2), &batch->ttl[i]))
            return;
    batch->server_us = s * 1000000 + us;
}

/* Leases are the server's to end, by its own clock: when that clock jumps beyond the allowance, say so (PROTOCOL.md, 4). */
static void judge_clock(struct rdl__watchdog *wd, struct rdl__renewer *at, int64_t server_us, int64_t sent_at, int64_t now)
{
    int64_t offset = server_us - now / RDL__US, since = now - at->clock_at;
    int64_t error = now - sent_at;
    int64_t allowed =
        (error + at->clock_error) / RDL__US + since / RDL__US * wd->config.drift_ppm / 1000000 + wd->config.drift_ms * 1000;

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
    return batch->ttl[i] >= 0 && batch->ttl[i] < (batch->due_end[i] - now) / RDL__MS;
}

/* One answer. RDL_LOSS_*: the hold *ret_id is lost, and the caller reports; 0: it goes on. What comes after the deadline
 * revives nothing.  @locks mu */
static int apply(struct rdl__watchdog *wd, struct rdl__hold *hold, const struct rdl__batch *batch, int64_t ttl, int64_t now,
                 struct rdl__hold_id *ret_id)
{
    int64_t deadline;

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
static void retry_later(struct rdl__watchdog *wd, struct rdl__hold *hold, bool soon, int64_t now)
{
    int64_t pause = hold->lease_ms * RDL__MS / 20;

    hold->batch = NULL;
    hold->alone = soon;
    hold->renew_at = now + (soon && pause > DETOUR_MS * RDL__MS ? DETOUR_MS * RDL__MS : pause);
    reschedule(wd, hold);
}

static void done_renew(struct rdl__req *req, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    struct rdl__watchdog *wd = batch->wd;
    bool answered = req->rc == RDL_OK && batch->server_us != 0;
    int64_t renewed = 0, meddled = 0;

    if (req->rc == RDL_OK && batch->detoured && batch->ask != NULL) {
        rdl__req_init(req, req->ops);
        req->asking = true;
        rdl__lane_submit(batch->ask, req);
        return;
    }
    if (answered)
        judge_clock(wd, batch->at, batch->server_us, req->sent_at, now);
    for (unsigned i = 0; i < batch->encoded || (!answered && i < batch->count); i++) {
        unsigned slot = answered ? batch->slots[i] : i;
        struct rdl__hold *hold;
        struct rdl__hold_id id;
        int lost = 0;

        rdl__mutex_lock(&wd->mu);
        if ((hold = batch->hold[slot]) != NULL) {
            batch->hold[slot] = NULL;
            meddled += answered && shortened(batch, i, now) ? 1 : 0;
            if (!answered || (!batch->acked && batch->ttl[i] != GONE))
                retry_later(wd, hold, req->rc == RDL_OK && batch->detoured, now);
            else if ((lost = apply(wd, hold, batch, batch->ttl[i], now, &id)) == 0)
                renewed++;
        }
        rdl__mutex_unlock(&wd->mu);
        if (lost != 0)
            report(wd, hold, &id, RDL_LOST, (rdl_loss_reason_t)lost, now);
    }
    if (req->rc == RDL_OK && batch->refusal[0] != '\0')
        rdl__log(wd->sinks, RDL_LOG_WARN, "%u renewals were refused: %s", batch->encoded, batch->refusal);
    if (meddled > 0)
        rdl__log(wd->sinks, RDL_LOG_WARN, "%lld leases had been shortened at the server; they are restored",
                 (long long)meddled);
    if (renewed > 0)
        rdl__metric(wd->sinks, RDL_M_RENEWED, renewed);
    rdl__mutex_lock(&wd->mu);
    if (batch->acks.replicas > 0)
        batch->at->acks_under_way = false;
    rdl__list_push_back(&batch->at->free, &batch->free);
    rdl__mutex_unlock(&wd->mu);
    pump(wd, batch->at);
}

static const struct rdl__req_ops renew_ops = {.encode = encode_renew, .decode = decode_renew, .done = done_renew};
static const struct rdl__req_ops acked_renew_ops = {
    .encode = encode_renew, .decode = decode_renew, .done = done_renew, .more = 1};

/* ---- what is due --------------------------------------------------------------------------------------------------------- */

/* Handle the first hold of the heap if its moment has come; *count those that are to be renewed. False: none.
 * @thread loop  @locks none */
static bool step(struct rdl__watchdog *wd, int64_t now, unsigned *count)
{
    rdl_hold_state_t news = RDL_NOT_HELD;
    struct rdl__hold_id id = {0};
    struct rdl__heap_node *first;
    struct rdl__hold *hold;

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

/* May the hold's next renewal be sent now, with others? A little early: a thirty-second part of the usual time.  @locks mu */
static bool may_go_along(const struct rdl__hold *hold, int64_t now)
{
    return hold->node.at == hold->renew_at && hold->renew_at - now <= hold->lease_ms * RDL__MS / 3 / 32;
}

/* Where there are many holds, one or two are due at any moment. Each command costs everybody a turn of the loop and of the server,
 * so those that are due are sent with the next few.  @thread loop  @locks none */
static void find_company(struct rdl__watchdog *wd, unsigned count, int64_t now)
{
    struct rdl__heap_node *first;

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

/* Something is due earlier than the timer goes off. The timer is only ever set earlier here, never put off: a hold that comes
 * and goes between two turns of the loop would otherwise wake it each time. */
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

/* ---- watchdog.h ---------------------------------------------------------------------------------------------------------- */

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

struct rdl__watchdog *rdl__watchdog_new(const struct rdl__mem *mem, const struct rdl__sinks *sinks, struct rdl__loop *loop,
                                        struct rdl__lane *lane, const struct rdl__watchdog_config *config)
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

void rdl__watchdog_add(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms, bool renewed)
{
    int64_t trusted_ms = trust_ms(hold, lease_ms);

    rdl__mutex_lock(&wd->mu);
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

bool rdl__watchdog_raise(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms, bool renewed,
                         int64_t now)
{
    int64_t trusted_ms = trust_ms(hold, lease_ms), deadline = rdl__watchdog_validity(wd, sent_at, trusted_ms);
    int64_t ends_at = renewed ? RDL__NEVER : rdl__watchdog_validity(wd, sent_at, lease_ms);
    bool alive, for_good;

    rdl__mutex_lock(&wd->mu);
    alive = hold->state != RDL_LOST && hold->deadline > now;
    if (alive) {
        for_good = renewed && hold->ends_at != RDL__NEVER; /* so far confirmed until its end, at longer intervals maybe */
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

static void lose_now(struct rdl__watchdog *wd, struct rdl__hold *hold, rdl_loss_reason_t reason)
{
    struct rdl__hold_id id = {0};
    bool news = false;
    int64_t now = rdl__now();

    rdl__mutex_lock(&wd->mu);
    if (hold->state == RDL_HELD || hold->state == RDL_AT_RISK) {
        id = lose(wd, hold);
        news = true;
    }
    rdl__mutex_unlock(&wd->mu);
    if (news)
        report(wd, hold, &id, RDL_LOST, reason, now);
}

void rdl__watchdog_gone(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    lose_now(wd, hold, RDL_LOSS_GONE);
}

void rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    lose_now(wd, hold, RDL_LOSS_THREAD_EXIT);
}

/* Holds of a batch that is under way are asked about when that is repeated. */
void rdl__watchdog_examine(struct rdl__watchdog *wd, struct rdl__renewer *at)
{
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
