/* acquire.c - taking the lock: the machine in take.c decides, this speaks with the server and keeps the record. */
#include "locks/verb.h"

#include "core/service/scripts.h"

#include <string.h>

#define TOKEN_LEAST (INT64_C(1) << 40) /* an answer above it is a token: no lease is that long */

static rdl__step_t say_einval(rdl_op_t *op, const char *words)
{
    rdl__op_keep_words(op, words, strlen(words), false);
    return rdl__finish_with(RDL_EINVAL);
}

/* The owner's hold of the other end, if the lock has one: op->partner_n. An answer other than RDL_OK ends the call: who shares
 * the lock cannot have it alone as well, and what was lost is given back first. */
static int see_partner(rdl_op_t *op, int64_t now)
{
    struct rdl__name *name = rdl__op_name(op);
    rdl_hold_state_t state = RDL_NOT_HELD;
    const struct rdl__record *rec;

    op->partner_n = 0;
    if (op->ops->partner == NULL)
        return RDL_OK;
    rdl__mutex_lock(&name->mu);
    if ((rec = rdl__record_find(name, op->owner, op->ops->partner)) != NULL && rec->count > 0) {
        state = rdl__watchdog_state(name->client->watchdog, &rec->hold, now, NULL);
        op->partner_n = rec->n;
    }
    rdl__mutex_unlock(&name->mu);
    if (state == RDL_LOST)
        return RDL_ELOST;
    return state != RDL_NOT_HELD && !op->ops->shares && op->rec->count == 0 ? RDL_EDEADLK : RDL_OK;
}

static rdl__step_t take_begin(rdl_op_t *op, int64_t now)
{
    struct rdl__name *name = rdl__op_name(op);
    struct rdl__record *rec = op->rec;
    rdl_retry_t retry = rdl__settings_retry(&name->settings);
    struct rdl__take_event ev = {.kind = RDL__EV_START, .others_wait = !op->ops->shares && atomic_load(&name->waiting) > 0};
    int rc = see_partner(op, now);

    op->rand.state = name->client->serial ^ (uint64_t)op->started_at;
    rdl__take_init(&op->take, op->once, &retry);
    rdl__metric(&name->client->sinks, RDL_M_ATTEMPTS, 1);
    if (rc < 0)
        return rdl__finish_with(rc);
    if (rec->count > 0) {
        if (rdl__watchdog_state(name->client->watchdog, &rec->hold, now, NULL) == RDL_LOST)
            return rdl__finish_with(RDL_ELOST);
        if (!name->settings.reentrant)
            return rdl__finish_with(RDL_EDEADLK);
        if (rec->count >= INT32_MAX)
            return say_einval(op, "held 2^31-1 times already");
        ev.others_wait = false; /* it holds the lock: nothing to wait for */
        op->n = rec->n;
    } else {
        op->n = rdl__client_number(name->client);
    }
    if (rdl__queues(op->ops))
        ev.others_wait = false; /* the place to wait is in the server's queue */
    op->count = rec->count + 1;
    op->undo_count = rec->count;
    return rdl__take_on(&op->take, &ev, &op->rand);
}

/* Does a refusal of the try leave a place in a queue? */
static bool try_queues(const rdl_op_t *op)
{
    return rdl__queues(op->ops) && !op->take.once && op->count == 1;
}

/* The key, and as far as the type has them the keys of counter or queue. */
static void begin_script(const rdl_op_t *op, struct rdl__buf *to, bool eval, size_t args)
{
    const struct rdl__name *name = rdl__op_name(op);
    const struct rdl__lock_ops *ops = op->ops;

    if (rdl__queues(ops)) {
        rdl__script_begin(to, ops->take, eval, rdl__key_count(name), args);
        rdl__put_keys(to, name);
        return;
    }
    rdl__script_begin(to, ops->take, eval, ops->counter != NULL ? 2 : 1, args);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    if (ops->counter != NULL)
        rdl__put_prefixed(to, ops->counter, name);
}

static void take_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__op_name(op);
    char field[RDL__FIELD_MAX];
    struct rdl__try t = {
        .name = name->bytes,
        .name_len = name->node.key_len,
        .field = field,
        .field_len = rdl__hold_field(field, name, op->ops, op->n),
        .count = op->count,
        .lease_ms = rdl__op_lease_ms(op),
        .token = name->settings.fencing == RDL_FENCING_TIME,
    };
    bool queues;

    op->first_form = op->ops->encode_first != NULL && !t.token && op->take.tries == 0 && !op->req.resent;
    if (op->first_form) {
        op->ops->encode_first(to, &t);
        return;
    }
    queues = rdl__queues(op->ops);
    begin_script(op, to, eval, queues || op->partner_n != 0 ? 5 : t.token ? 4 : 3);
    rdl__cmd_arg(to, t.field, t.field_len);
    rdl__cmd_int(to, t.count);
    rdl__cmd_int(to, t.lease_ms);
    if (t.token || queues || op->partner_n != 0)
        rdl__cmd_arg(to, t.token ? "1" : "0", 1);
    if (queues)
        rdl__cmd_int(to, try_queues(op) ? name->settings.own_ms : 0);
    else if (op->partner_n != 0)
        rdl__cmd_arg(to, field, rdl__hold_field(field, name, op->ops->partner, op->partner_n));
}

static void take_decode(rdl_op_t *op, const struct rdl__reply *reply)
{
    if (!op->first_form || !op->ops->decode_first(reply, &op->answer))
        rdl__decode_number(op, reply);
}

/* A first sending may still be on its way, and the server does not let us kill its connection (PROTOCOL.md, 3). */
static int64_t debt_of(const rdl_op_t *op, int64_t now)
{
    bool owed = op->req.resent && atomic_load(&rdl__op_client(op)->node.kill_refused);

    return owed ? rdl__after_ms(now, rdl__op_lease_ms(op)) : 0;
}

/* The token in a server's answer; 0: there is none. */
static int64_t token_in(int64_t answer)
{
    if (answer < RDL__COUNTED)
        return RDL__COUNTED - answer;
    return answer > TOKEN_LEAST ? answer : 0;
}

/* The server has granted it: believe that for as long as the lease goes. */
static bool take_commit(rdl_op_t *op, int64_t now)
{
    struct rdl__record *rec = op->rec;
    struct rdl__watchdog *wd = rdl__op_client(op)->watchdog;
    bool renewed = op->lease_ms == RDL_LEASE_AUTO;
    int64_t debt_until = debt_of(op, now);
    bool held;

    if (now >= rdl__watchdog_validity(wd, op->req.sent_at, rdl__trust_ms(rec->name, op->ops, rdl__op_lease_ms(op))))
        return false;
    rdl__mutex_lock(&rec->name->mu);
    if (op->count > 1) {
        held = rdl__watchdog_raise(wd, &rec->hold, op->req.sent_at, rdl__op_lease_ms(op), renewed, now);
    } else if ((held = !rec->orphaned)) {
        rec->n = op->n;
        rec->token = token_in(op->answer);
        rec->held_since = now;
        rec->debt_until = 0;
        rdl__watchdog_add(wd, &rec->hold, op->req.sent_at, rdl__op_lease_ms(op), renewed);
    }
    if (held) {
        rec->count = op->count;
        if (debt_until > rec->debt_until)
            rec->debt_until = debt_until;
    }
    rdl__mutex_unlock(&rec->name->mu);
    return held;
}

static rdl__step_t take_answered(rdl_op_t *op, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_FAILED, .unsure = op->req.resent};
    int rc;

    if (op->req.rc != RDL_OK) {
        ev.code = op->req.rc;
    } else if (op->refused_words) {
        ev.code = RDL_ESERVER;
    } else if (op->answer == RDL__GONE) {
        ev.kind = RDL__EV_GONE;
        rdl__watchdog_gone(rdl__op_client(op)->watchdog, &op->rec->hold);
    } else if (op->answer == RDL__TAKEN || op->answer == RDL__HELD || token_in(op->answer) > 0) {
        ev.kind = RDL__EV_TAKEN;
        ev.valid = take_commit(op, now);
    } else if ((rc = see_partner(op, now)) < 0) { /* by the caller itself: it has taken the other end meanwhile */
        ev.code = rc;
    } else {
        ev.kind = RDL__EV_REFUSED;
        ev.queued = try_queues(op);
        ev.ttl_ms = op->answer;
    }
    return rdl__take_on(&op->take, &ev, &op->rand);
}

const struct rdl__verb rdl__verb_take = {
    .acquires = true,
    .on_record = true,
    .heir_mode = RDL__HEIR_FOLLOWS,
    .has_heir = true,
    .put_undo = rdl__put_undo,
    .begin = take_begin,
    .encode = take_encode,
    .decode = take_decode,
    .answered = take_answered,
};
