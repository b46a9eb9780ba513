/* acquire.c - taking the lock: the machine in take.c decides, this speaks with the server and keeps the record. */
#include "core/call/verb.h"

#include "core/service/scripts.h"

#include <string.h>

#define TOKEN_LEAST (INT64_C(1) << 40) /* an answer above it is a token: no lease is that long */

static rdl__step_t say_einval(struct rdl__call *call, const char *words)
{
    rdl__call_keep_words(call, words, strlen(words), false);
    return rdl__finish_with(RDL_EINVAL);
}

/* The owner's hold of the other end, if the lock has one: call->hold.partner_n. An answer other than RDL_OK ends the
 * call: who shares the lock cannot have it alone as well, and what was lost is given back first. */
static int see_partner(struct rdl__call *call, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    rdl_hold_state_t state = RDL_NOT_HELD;
    const struct rdl__record *rec;

    call->hold.partner_n = 0;
    if (call->ops->partner == NULL)
        return RDL_OK;
    rdl__mutex_lock(&name->mu);
    if ((rec = rdl__record_find(name, call->op.owner, call->ops->partner)) != NULL && rec->count > 0) {
        state = rdl__watchdog_state(name->client->watchdog, &rec->hold, now, NULL);
        call->hold.partner_n = rec->n;
    }
    rdl__mutex_unlock(&name->mu);
    if (state == RDL_LOST)
        return RDL_ELOST;
    return state != RDL_NOT_HELD && !call->ops->shares && call->rec->count == 0 ? RDL_EDEADLK : RDL_OK;
}

static rdl__step_t take_begin(struct rdl__call *call, int64_t now)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *rec = call->rec;
    rdl_retry_t retry = rdl__settings_retry(&name->settings);
    struct rdl__take_event ev = {.kind = RDL__EV_START,
                                 .others_wait = !call->ops->shares && rdl__name_waited_for(name)};
    int rc = see_partner(call, now);

    call->rand.state = name->client->serial ^ (uint64_t)call->op.started_at;
    rdl__take_init(&call->take, call->once, &retry);
    rdl__metric(&name->client->sinks, RDL_M_ATTEMPTS, 1);
    if (rc < 0)
        return rdl__finish_with(rc);
    if (rec->count > 0) {
        if (rdl__watchdog_state(name->client->watchdog, &rec->hold, now, NULL) == RDL_LOST)
            return rdl__finish_with(RDL_ELOST);
        if (!name->settings.nests)
            return rdl__finish_with(RDL_EDEADLK);
        if (rec->count >= INT32_MAX)
            return say_einval(call, "held 2^31-1 times already");
        ev.others_wait = false; /* it holds the lock: nothing to wait for */
        call->n = rec->n;
    } else {
        call->n = rdl__client_number(name->client);
    }
    if (rdl__queues(call->ops))
        ev.others_wait = false; /* the place to wait is in the server's queue */
    call->count = rec->count + 1;
    call->hold.undo_count = rec->count;
    return rdl__take_on(&call->take, &ev, &call->rand);
}

/* May a refused try leave something at the server, a place in a queue or a mark? */
static bool leaves_sign(const struct rdl__call *call)
{
    return rdl__queues(call->ops) || (rdl__marks(rdl__call_name(call)) && !call->ops->shares);
}

/* And does this one? */
static bool try_queues(const struct rdl__call *call)
{
    return leaves_sign(call) && !call->take.once && call->count == 1;
}

/* The key, and as far as the type has them the keys of counter, marks (with the channel) or queue. */
static void begin_script(const struct rdl__call *call, struct rdl__buf *to, bool eval, size_t args)
{
    const struct rdl__name *name = rdl__call_name(call);
    const struct rdl__lock_ops *ops = call->ops;
    const char *beside = rdl__marks(name) ? ops->marks : ops->counter;
    bool tells = rdl__marks(name) && !ops->shares; /* who gets in takes the marks away, and says so */

    if (rdl__queues(ops)) {
        rdl__script_begin(to, ops->take, eval, rdl__key_count(name), args);
        rdl__put_keys(to, name);
        return;
    }
    rdl__script_begin(to, ops->take, eval, beside == NULL ? 1 : tells ? 3 : 2, args);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    if (beside != NULL)
        rdl__put_prefixed(to, beside, name);
    if (tells)
        rdl__put_channel(to, name);
}

/* How it will wait. In a queue a sending that is repeated is another one, of another moment. */
static void put_waiter(struct rdl__call *call, struct rdl__buf *to)
{
    rdl__cmd_int(to, try_queues(call) ? rdl__call_name(call)->settings.life_ms : 0);
    if (!rdl__queues(call->ops))
        return;
    rdl__put_place(to, call);
    rdl__cmd_int(to, ++call->hold.sendings);
}

static void take_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);
    char field[RDL__FIELD_MAX];
    struct rdl__try t = {
        .name = name->bytes,
        .name_len = name->node.key_len,
        .field = field,
        .field_len = rdl__hold_field(field, name, call->ops, call->n),
        .count = call->count,
        .lease_ms = rdl__call_lease_ms(call),
        .token = name->settings.fencing == RDL_FENCING_TIME,
    };
    bool more;

    call->hold.first_form = call->ops->encode_first != NULL && !t.token && call->take.tries == 0 && !call->req.resent;
    if (call->hold.first_form) {
        call->ops->encode_first(to, &t);
        return;
    }
    more = leaves_sign(call) || call->hold.partner_n != 0;
    begin_script(call, to, eval,
                 (rdl__queues(call->ops) ? 7
                  : more                 ? 5
                  : t.token              ? 4
                                         : 3) +
                     (leaves_sign(call) ? rdl__publish_args(name) : 0));
    rdl__cmd_arg(to, t.field, t.field_len);
    rdl__cmd_int(to, t.count);
    rdl__cmd_int(to, t.lease_ms);
    if (t.token || more)
        rdl__cmd_arg(to, t.token ? "1" : "0", 1);
    if (leaves_sign(call)) {
        put_waiter(call, to);
        rdl__put_publish_last(to, name);
    } else if (call->hold.partner_n != 0) {
        rdl__cmd_arg(to, field, rdl__hold_field(field, name, call->ops->partner, call->hold.partner_n));
    }
}

static void take_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    if (!call->hold.first_form || !call->ops->decode_first(reply, &call->answer))
        rdl__decode_number(call, reply);
}

/* The token in a server's answer; 0: there is none. */
static int64_t token_in(int64_t answer)
{
    if (answer < RDL__COUNTED)
        return RDL__COUNTED - answer;
    return answer > TOKEN_LEAST ? answer : 0;
}

static bool is_grant(int64_t answer)
{
    return answer == RDL__TAKEN || answer == RDL__HELD || token_in(answer) > 0;
}

/* The server has granted it for lease_ms: believe that for as long as it goes. */
static bool take_commit(struct rdl__call *call, int64_t lease_ms, int64_t now)
{
    struct rdl__record *rec = call->rec;
    struct rdl__watchdog *wd = rdl__call_client(call)->watchdog;
    bool renewed = call->op.lease_ms == RDL_LEASE_AUTO;
    bool held;

    if (now >= rdl__watchdog_validity(wd, call->req.sent_at, rdl__trust_ms(rec->name, call->ops, lease_ms)))
        return false;
    rdl__mutex_lock(&rec->name->mu);
    if (call->count > 1) {
        held = rdl__watchdog_raise(wd, &rec->hold, call->req.sent_at, lease_ms, renewed);
    } else if ((held = !rec->orphaned)) {
        rec->n = call->n;
        rec->token = token_in(call->answer);
        rec->held_since = now;
        rec->ends_by = 0;
        rec->renewed = rec->may_come = false;
        rdl__watchdog_add(wd, &rec->hold, call->req.sent_at, lease_ms, renewed);
    }
    if (held) {
        rec->count = call->count;
        rec->renewed |= renewed;
        rec->may_come |= rdl__call_may_come(call);
    }
    rdl__mutex_unlock(&rec->name->mu);
    return held;
}

static rdl__step_t take_answered(struct rdl__call *call, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_FAILED, .unsure = call->req.resent};
    int rc;

    if (call->req.rc != RDL_OK) {
        ev.code = call->req.rc;
    } else if (call->refused_words) {
        ev.code = RDL_ESERVER;
        ev.unsure |= rdl__call_refused_in_doubt(call);
    } else if (call->answer == RDL__GONE) {
        ev.kind = RDL__EV_GONE;
        rdl__watchdog_gone(rdl__call_client(call)->watchdog, &call->rec->hold, call->n);
    } else if (is_grant(call->answer) && !rdl__call_acked(call)) {
        ev.code = RDL_ENOREPLICAS;
        ev.unsure = true; /* whoever has it is to forget it */
    } else if (is_grant(call->answer)) {
        ev.kind = RDL__EV_TAKEN;
        ev.valid = take_commit(call, rdl__call_lease_ms(call), now);
    } else if ((rc = see_partner(call, now)) < 0) { /* by the caller itself: it has taken the other end meanwhile */
        ev.code = rc;
    } else {
        ev.kind = RDL__EV_REFUSED;
        ev.queued = try_queues(call);
        ev.ttl_ms = call->answer;
    }
    return rdl__take_on(&call->take, &ev, &call->rand);
}

/* `n:sending:token`, on the owner's channel: the lock was granted to n, for no longer than this sending's sign of life
 * counts. Only the last sending will do, because only its moment is known. The token, or 0; below 0: no such words. */
static int64_t granted_token(const struct rdl__call *call)
{
    size_t len, head;
    const char *said = rdl__waiter_said(&call->waiter, &len);
    struct rdl__reply rest = {.type = RDL__REPLY_STRING};
    char words[RDL__SAID_MAX];
    int64_t token;

    head = rdl__itoa(words, call->n);
    words[head++] = ':';
    head += rdl__itoa(words + head, call->hold.sendings);
    words[head++] = ':';
    if (len <= head || memcmp(said, words, head) != 0)
        return -1;
    rest.str = said + head;
    rest.len = len - head;
    return rdl__reply_integer(&rest, &token) ? token : -1;
}

/* Told that it has the lock? It rests on the last sending: from that moment the server keeps it for the lease, or for
 * as long as the sign of life goes, if that is shorter. Where that is much less than what was asked for, another try
 * makes it whole; so it does when the words were about something else, and where replicas are to confirm what nobody
 * has asked them about. */
static rdl__step_t take_woken(struct rdl__call *call, int64_t now)
{
    struct rdl__take_event ev = {.kind = RDL__EV_WOKEN};
    int64_t lease_ms = rdl__call_lease_ms(call), life_ms = rdl__call_name(call)->settings.life_ms;
    int64_t sure_ms = lease_ms < life_ms ? lease_ms : life_ms;
    int64_t spent_ms = (now - call->req.sent_at) / RDL__MS;
    bool enough =
        call->op.lease_ms == RDL_LEASE_AUTO ? spent_ms < sure_ms / 2 : sure_ms == lease_ms && spent_ms < lease_ms / 10;
    int64_t token =
        rdl__queues(call->ops) && enough && rdl__call_asks(call) == RDL__ASKS_NOBODY ? granted_token(call) : -1;

    if (token >= 0) {
        call->answer = token > 0 ? token : RDL__TAKEN;
        ev.kind = RDL__EV_TAKEN;
        ev.valid = take_commit(call, sure_ms, now);
    }
    return rdl__take_on(&call->take, &ev, &call->rand);
}

static bool take_lost(const struct rdl__call *call, int64_t now)
{
    struct rdl__view view = rdl__record_view(rdl__call_name(call), call->op.owner, call->ops, now);

    return view.state == RDL_LOST && view.n == call->n;
}

const struct rdl__verb rdl__verb_take = {
    .acquires = true,
    .on_record = true,
    .acked = true,
    .prolongs = true,
    .successor_mode = RDL__SUCCESSOR_FOLLOWS,
    .has_successor = true,
    .put_undo = rdl__put_undo,
    .undo_releases = true,
    .begin = take_begin,
    .encode = take_encode,
    .decode = take_decode,
    .answered = take_answered,
    .woken = take_woken,
    .lost = take_lost,
};
