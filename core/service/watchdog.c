/* watchdog.c - one heap of holds, one clock, renewals in batches.
 *
 * A hold sits in the heap under the next moment at which something is due: its renewal, its becoming at risk, its end. A
 * renewal that is due moves the hold to the `due` list, from which batches are made, at most IN_FLIGHT at a time so that
 * other commands slip in between; meanwhile the heap still knows when the hold would be at risk or lost. So a server that
 * does not answer delays renewals, never the report of a loss.
 *
 * Renewal every third of the lease, the first one somewhat earlier by chance, so that holds taken together are not renewed
 * together for ever. AT_RISK when less than a third of the lease is left: two renewals in a row went unanswered.
 *
 * The moment of sending is the lane's, read before the request was encoded. A batch that is repeated on another connection
 * is encoded again, without the holds that were released meanwhile.
 */
#include "core/service/watchdog.h"

#include "core/base/err.h"
#include "core/service/scripts.h"
#include "core/wire/ident.h"

#define IN_FLIGHT 2
#define GONE (-14)

struct rdl__batch {
    struct rdl__req req;
    struct rdl__watchdog *wd;
    struct rdl__link free;
    int script;
    unsigned count;                     /* slots filled */
    unsigned encoded;                   /* slots in the command as it was sent last */
    unsigned char slots[RDL__BATCH];    /* which ones, in the command's order */
    struct rdl__hold *hold[RDL__BATCH]; /* NULL: ended meanwhile */
    int64_t due_end[RDL__BATCH];        /* when its lease was to end, as it was sent; in the command's order */
    int64_t ttl[RDL__BATCH];            /* answers, in the command's order */
    char refusal[128];                  /* the server's error; empty: none */
    int64_t server_us;                  /* the server's clock in the answer; 0: no usable answer */
};

struct rdl__watchdog {
    /* immutable */
    const struct rdl__mem *mem;
    const struct rdl__sinks *sinks;
    struct rdl__loop *loop;
    struct rdl__lane *lane;
    struct rdl__watchdog_config config;

    /* loop thread only */
    struct rdl__timer timer;
    struct rdl__task look; /* something may be due earlier than the timer */
    int64_t clock_offset;  /* the server's clock minus ours, microseconds, at the last renewal; 0: none yet */
    int64_t clock_at;

    /* any thread, under mu */
    struct rdl__mutex mu;
    struct rdl__heap heap;
    struct rdl__link due;
    struct rdl__link free; /* batches */
    int64_t armed;         /* when the timer will go off */
    bool closed;
    struct rdl__rand rand;
    struct rdl__batch batches[IN_FLIGHT];
};

static const struct rdl__req_ops renew_ops;

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
    if (hold->renewed && hold->renew_at < at)
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
static int64_t renewal_ms(const struct rdl__hold *hold, int64_t now)
{
    int64_t left = hold->ends_at == RDL__NEVER ? hold->lease_ms : (hold->ends_at - now) / RDL__MS + 1;

    return left < 1 ? 1 : left < hold->lease_ms ? left : hold->lease_ms;
}

/* The next renewal of a hold confirmed at `now`: after a third of the lease, up to a quarter of that earlier.  @locks mu */
static int64_t next_renewal(struct rdl__watchdog *wd, const struct rdl__hold *hold, int64_t now)
{
    int64_t third = hold->lease_ms * RDL__MS / 3;

    return now + third - (int64_t)rdl__rand_below(&wd->rand, (uint64_t)(third / 4 + 1));
}

/* It was confirmed to its end, and now has a later one that nothing is on its way to confirm.  @locks mu */
static bool rests(const struct rdl__hold *hold)
{
    return hold->renewed && hold->renew_at == RDL__NEVER && hold->batch == NULL && !rdl__link_on(&hold->due) &&
           hold->deadline < hold->ends_at;
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

/* Decide a loss; whoever calls runs `changed` afterwards.  @locks mu */
static void lose(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    detach(wd, hold);
    hold->state = RDL_LOST;
    hold->ops->pin(hold);
}

/* @locks none */
static void report(struct rdl__watchdog *wd, struct rdl__hold *hold, rdl_hold_state_t state, rdl_loss_reason_t reason,
                   int64_t now)
{
    rdl__metric(wd->sinks, state == RDL_LOST ? RDL_M_LOST : RDL_M_AT_RISK, 1);
    hold->ops->changed(hold, state, reason, now);
}

/* ---- renewing ------------------------------------------------------------------------------------------------------------ */

/* @locks mu */
static void fill(struct rdl__batch *batch)
{
    struct rdl__watchdog *wd = batch->wd;
    struct rdl__link *next;

    batch->count = 0;
    for (struct rdl__link *l = wd->due.next; l != &wd->due && batch->count < RDL__BATCH; l = next) {
        struct rdl__hold *hold = rdl__container(l, struct rdl__hold, due);

        next = l->next;
        if (batch->count == 0)
            batch->script = hold->ops->script(hold);
        else if (hold->ops->script(hold) != batch->script)
            continue;
        rdl__list_remove(l);
        hold->batch = batch;
        hold->slot = (unsigned char)batch->count;
        batch->hold[batch->count++] = hold;
    }
}

/* Make batches of what is due, as many as may be under way.  @thread loop  @locks none */
static void pump(struct rdl__watchdog *wd)
{
    for (;;) {
        struct rdl__batch *batch = NULL;

        rdl__mutex_lock(&wd->mu);
        if (!rdl__list_empty(&wd->due) && !rdl__list_empty(&wd->free) && !wd->closed) {
            batch = rdl__container(rdl__list_pop(&wd->free), struct rdl__batch, free);
            fill(batch);
        }
        rdl__mutex_unlock(&wd->mu);
        if (batch == NULL)
            return;
        rdl__req_init(&batch->req, &renew_ops);
        rdl__lane_submit(wd->lane, &batch->req);
    }
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
            rdl__cmd_int(to, renewal_ms(hold, now));
        }
    }
    rdl__mutex_unlock(&batch->wd->mu);
}

static void decode_renew(struct rdl__req *req, const struct rdl__reply *reply, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    int64_t s, us;

    (void)now;
    batch->server_us = 0;
    batch->refusal[0] = '\0';
    if (reply->type == RDL__REPLY_ERROR)
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
static void judge_clock(struct rdl__watchdog *wd, int64_t server_us, int64_t sent_at, int64_t now)
{
    int64_t offset = server_us - now / RDL__US, since = now - wd->clock_at;
    int64_t allowed =
        (now - sent_at) / RDL__US + since / RDL__US * wd->config.drift_ppm / 1000000 + wd->config.drift_ms * 1000;

    if (wd->clock_at != 0 && (offset - wd->clock_offset > allowed || wd->clock_offset - offset > allowed))
        rdl__log(wd->sinks, RDL_LOG_WARN, "the server's clock jumped by %+lld ms: leases end by that clock",
                 (long long)((offset - wd->clock_offset) / 1000));
    wd->clock_offset = offset;
    wd->clock_at = now;
}

/* Does the server's lease run out before it should? Then somebody has meddled with it.  @locks mu */
static bool shortened(const struct rdl__batch *batch, unsigned i, int64_t now)
{
    return batch->ttl[i] >= 0 && batch->ttl[i] < (batch->due_end[i] - now) / RDL__MS;
}

/* One answer. RDL_LOSS_*: the hold is lost, and the caller reports; 0: it goes on. What comes after the deadline revives
 * nothing.  @locks mu */
static int apply(struct rdl__watchdog *wd, struct rdl__hold *hold, const struct rdl__batch *batch, int64_t ttl, int64_t now)
{
    int64_t deadline = rdl__watchdog_validity(wd, batch->req.sent_at, hold->lease_ms);

    hold->batch = NULL;
    if (hold->deadline <= now || ttl == GONE) {
        int reason = ttl == GONE ? RDL_LOSS_GONE : RDL_LOSS_LEASE;

        lose(wd, hold);
        return reason;
    }
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

static void retry_later(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t now)
{
    hold->batch = NULL;
    hold->renew_at = now + hold->lease_ms * RDL__MS / 20;
    reschedule(wd, hold);
}

static void done_renew(struct rdl__req *req, int64_t now)
{
    struct rdl__batch *batch = rdl__container(req, struct rdl__batch, req);
    struct rdl__watchdog *wd = batch->wd;
    bool answered = req->rc == RDL_OK && batch->server_us != 0;
    int64_t renewed = 0, meddled = 0;

    if (answered)
        judge_clock(wd, batch->server_us, req->sent_at, now);
    for (unsigned i = 0; i < batch->encoded || (!answered && i < batch->count); i++) {
        unsigned slot = answered ? batch->slots[i] : i;
        struct rdl__hold *hold;
        int lost = 0;

        rdl__mutex_lock(&wd->mu);
        if ((hold = batch->hold[slot]) != NULL) {
            batch->hold[slot] = NULL;
            meddled += answered && shortened(batch, i, now) ? 1 : 0;
            if (!answered)
                retry_later(wd, hold, now);
            else if ((lost = apply(wd, hold, batch, batch->ttl[i], now)) == 0)
                renewed++;
        }
        rdl__mutex_unlock(&wd->mu);
        if (lost != 0)
            report(wd, hold, RDL_LOST, (rdl_loss_reason_t)lost, now);
    }
    if (req->rc == RDL_OK && batch->refusal[0] != '\0')
        rdl__log(wd->sinks, RDL_LOG_WARN, "%u renewals were refused: %s", batch->encoded, batch->refusal);
    if (meddled > 0)
        rdl__log(wd->sinks, RDL_LOG_WARN, "%lld leases had been shortened at the server; they are restored",
                 (long long)meddled);
    if (renewed > 0)
        rdl__metric(wd->sinks, RDL_M_RENEWED, renewed);
    rdl__mutex_lock(&wd->mu);
    rdl__list_push_back(&wd->free, &batch->free);
    rdl__mutex_unlock(&wd->mu);
    pump(wd);
}

static const struct rdl__req_ops renew_ops = {.encode = encode_renew, .decode = decode_renew, .done = done_renew};

/* ---- what is due --------------------------------------------------------------------------------------------------------- */

/* Handle the first hold of the heap if its moment has come. False: none.  @thread loop  @locks none */
static bool step(struct rdl__watchdog *wd, int64_t now)
{
    rdl_hold_state_t news = RDL_NOT_HELD;
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
        lose(wd, hold);
        news = RDL_LOST;
    } else {
        if (hold->renewed && hold->renew_at <= now) {
            hold->renew_at = RDL__NEVER;
            rdl__list_push_back(&wd->due, &hold->due);
        }
        if (may_be_at_risk(hold) && risk_at(hold) <= now) {
            hold->state = RDL_AT_RISK;
            if (!hold->told_risk) {
                hold->told_risk = true;
                hold->ops->pin(hold);
                news = RDL_AT_RISK;
            }
        }
        rdl__heap_move(&wd->heap, &hold->node, next_due(hold));
    }
    rdl__mutex_unlock(&wd->mu);
    if (news != RDL_NOT_HELD)
        report(wd, hold, news, news == RDL_LOST ? RDL_LOSS_LEASE : RDL_LOSS_RENEWAL, now);
    return true;
}

static void tick(struct rdl__watchdog *wd, int64_t now)
{
    int64_t armed;

    while (step(wd, now))
        ;
    pump(wd);
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
    wd->lane = lane;
    wd->config = *config;
    wd->armed = RDL__NEVER;
    (void)rdl__entropy(&wd->rand.state, sizeof wd->rand.state);
    rdl__timer_init(&wd->timer, on_timer);
    rdl__task_init(&wd->look, on_look);
    rdl__list_init(&wd->due);
    rdl__list_init(&wd->free);
    for (int i = 0; i < IN_FLIGHT; i++) {
        wd->batches[i].wd = wd;
        rdl__list_push_back(&wd->free, &wd->batches[i].free);
    }
    return wd;
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
    if (wd == NULL)
        return NULL;
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
    hold->renew_at = hold->renewed ? next_renewal(wd, hold, sent_at) : RDL__NEVER;
    reschedule(wd, hold);
    rdl__mutex_unlock(&wd->mu);
}

bool rdl__watchdog_raise(struct rdl__watchdog *wd, struct rdl__hold *hold, int64_t sent_at, int64_t lease_ms, bool renewed,
                         int64_t now)
{
    int64_t trusted_ms = trust_ms(hold, lease_ms), deadline = rdl__watchdog_validity(wd, sent_at, trusted_ms);
    int64_t ends_at = renewed ? RDL__NEVER : rdl__watchdog_validity(wd, sent_at, lease_ms);
    bool alive;

    rdl__mutex_lock(&wd->mu);
    alive = hold->state != RDL_LOST && hold->deadline > now;
    if (alive) {
        if (deadline > hold->deadline)
            hold->deadline = deadline;
        if (ends_at > hold->ends_at)
            hold->ends_at = ends_at;
        if ((renewed || trusted_ms < lease_ms) && !hold->renewed) {
            hold->renewed = true;
            hold->lease_ms = trusted_ms;
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
    rdl_hold_state_t state;
    bool unnoticed;

    rdl__mutex_lock(&wd->mu);
    unnoticed = hold->state != RDL_LOST && hold->deadline <= now;
    if (unnoticed)
        lose(wd, hold);
    else
        detach(wd, hold);
    state = (rdl_hold_state_t)hold->state;
    rdl__mutex_unlock(&wd->mu);
    if (unnoticed)
        report(wd, hold, RDL_LOST, RDL_LOSS_LEASE, now);
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
    bool news = false;
    int64_t now = rdl__now();

    rdl__mutex_lock(&wd->mu);
    if (hold->state == RDL_HELD || hold->state == RDL_AT_RISK) {
        lose(wd, hold);
        news = true;
    }
    rdl__mutex_unlock(&wd->mu);
    if (news)
        report(wd, hold, RDL_LOST, reason, now);
}

void rdl__watchdog_gone(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    lose_now(wd, hold, RDL_LOSS_GONE);
}

void rdl__watchdog_orphan(struct rdl__watchdog *wd, struct rdl__hold *hold)
{
    lose_now(wd, hold, RDL_LOSS_THREAD_EXIT);
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
