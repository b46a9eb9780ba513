#include "locks/guarded.h"

#include "core/service/scripts.h"
#include "scripts/scripts.h"

#include <string.h>

#define GUARD_MS INT64_C(3600000) /* beyond the last repeat: an undo may have to wait for the server */
#define SETTLED_MOST (sizeof((struct rdl__settled *)0)->n / sizeof((struct rdl__settled *)0)->n[0])

int64_t rdl__guard_ms(const rdl_client_t *client)
{
    return client->outage_timeout_ms + GUARD_MS;
}

/* ---- guards that may go -------------------------------------------------------------------------------------------------- */

void rdl__guarded_number(rdl_op_t *op)
{
    struct rdl__name *name = rdl__op_name(op);

    op->n = rdl__client_number(name->client);
    rdl__mutex_lock(&name->mu);
    if (name->settled == NULL)
        name->settled = rdl__zalloc(&name->client->mem, sizeof *name->settled); /* without it guards go by themselves */
    if (name->settled != NULL && name->settled->count > 0)
        op->settled_n = name->settled->n[--name->settled->count];
    rdl__mutex_unlock(&name->mu);
}

static void settle(struct rdl__name *name, int64_t n)
{
    rdl__mutex_lock(&name->mu);
    if (name->settled != NULL && name->settled->count < SETTLED_MOST)
        name->settled->n[name->settled->count++] = n;
    rdl__mutex_unlock(&name->mu);
}

void rdl__guarded_settled(const rdl_op_t *op, int64_t now)
{
    (void)now;
    if (!rdl__op_may_come(op))
        settle(rdl__op_name(op), op->n);
}

/* ---- what another server may not have seen -------------------------------------------------------------------------------- */

/* A confirmed request, as it was sent. */
struct past_request {
    struct rdl__name *name;
    _Atomic unsigned refs;
    int script;
    int64_t guard; /* to go with it; 0: none */
    size_t len;
    char bytes[];
};

static void encode_past(const struct rdl__deed *deed, struct rdl__buf *to, bool eval)
{
    const struct past_request *past = deed->of;

    if (eval)
        rdl__script_with_text(to, past->script, past->bytes, past->len);
    else
        rdl__buf_put(to, past->bytes, past->len);
}

static void keep_past(const struct rdl__deed *deed)
{
    atomic_fetch_add(&((struct past_request *)deed->of)->refs, 1);
}

static void drop_past(const struct rdl__deed *deed)
{
    struct past_request *past = deed->of;
    struct rdl__name *name = past->name;

    if (atomic_fetch_sub(&past->refs, 1) != 1)
        return;
    if (past->guard != 0)
        settle(name, past->guard);
    rdl__free(&name->client->mem, past, sizeof *past + past->len);
    rdl__name_unref(name);
}

static const struct rdl__deed_ops past_ops = {.encode = encode_past, .keep = keep_past, .drop = drop_past};

/* NULL: no memory. */
static struct past_request *past_make(struct rdl__name *name, const struct rdl__buf *call, int script, int64_t guard)
{
    struct past_request *past = rdl__buf_failed(call) ? NULL : rdl__alloc(&name->client->mem, sizeof *past + call->len);

    if (past == NULL)
        return NULL;
    rdl__name_ref(name);
    past->name = name;
    atomic_init(&past->refs, 1);
    past->script = script;
    past->guard = guard;
    past->len = call->len;
    memcpy(past->bytes, call->data, call->len);
    return past;
}

void rdl__guarded_note(const rdl_op_t *op, int script, void (*put)(const rdl_op_t *op, struct rdl__buf *to, bool eval),
                       bool guard, int64_t now)
{
    const rdl_client_t *client = rdl__op_client(op);
    struct rdl__past *past = op->shard->past;
    struct rdl__deed deed = {.ops = &past_ops, .until = rdl__after_ms(now, client->outage_timeout_ms)};
    struct rdl__buf call;

    if (past != NULL) {
        rdl__buf_init(&call, &client->mem);
        put(op, &call, false);
        deed.of = past_make(rdl__op_name(op), &call, script, guard && !rdl__op_may_come(op) ? op->n : 0);
        rdl__buf_done(&call);
    }
    if (deed.of == NULL) {
        if (guard)
            rdl__guarded_settled(op, now);
        return;
    }
    rdl__past_note(past, &deed, now);
    drop_past(&deed);
}

/* ---- requests ------------------------------------------------------------------------------------------------------------ */

static void put_guard(struct rdl__buf *to, const struct rdl__name *name, int64_t n)
{
    char field[RDL__FIELD_MAX];

    rdl__put_tailed(to, "redlatch_guard", name, field, rdl__field(field, &name->client->uuid, n));
}

size_t rdl__guard_keys(const rdl_op_t *op)
{
    return op->settled_n != 0 ? 2 : 1;
}

void rdl__put_guards(const rdl_op_t *op, struct rdl__buf *to)
{
    put_guard(to, rdl__op_name(op), op->n);
    if (op->settled_n != 0)
        put_guard(to, rdl__op_name(op), op->settled_n);
}

void rdl__guarded_put(const rdl_op_t *op, struct rdl__buf *to, bool eval, const struct rdl__guarded_form *form)
{
    const struct rdl__name *name = rdl__op_name(op);
    bool queue = form->queue && name->settings.in_order, forgets = form->forgets && op->settled_n != 0;

    rdl__script_begin(to, form->script, eval, 3 + (queue ? 2U : 0U) + (forgets ? 1U : 0U),
                      queue ? 5 : 2 + rdl__publish_args(name));
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_channel(to, name);
    put_guard(to, name, op->n);
    if (queue)
        rdl__put_queue(to, name);
    if (forgets)
        put_guard(to, name, op->settled_n);
    rdl__cmd_int(to, op->count);
    rdl__cmd_int(to, rdl__guard_ms(name->client));
    if (!queue) {
        rdl__put_publish_last(to, name);
        return;
    }
    rdl__put_publish(to, name);
    rdl__put_turn(op, to, form->place);
}

void rdl__put_turn(const rdl_op_t *op, struct rdl__buf *to, enum rdl__turn what)
{
    struct rdl__name *name = rdl__op_name(op);

    rdl__cmd_arg(to, name->client->uuid.text, RDL__UUID_LEN);
    if (what != RDL__TURN_KEPT) {
        rdl__cmd_int(to, what == RDL__TURN_LEFT && !rdl__name_waited_for(name));
        return;
    }
    if (op->wait_ms > 0)
        (void)atomic_fetch_or(&name->waiting, RDL__PLACED);
    rdl__cmd_int(to, op->wait_ms > 0);
}

void rdl__put_queue(struct rdl__buf *to, const struct rdl__name *name)
{
    rdl__put_prefixed(to, "redlatch_semaphore_queue", name);
    rdl__put_prefixed(to, "redlatch_semaphore_signs", name);
}

/* ---- whole verbs --------------------------------------------------------------------------------------------------------- */

rdl__step_t rdl__guarded_begin(rdl_op_t *op, int64_t now)
{
    (void)now;
    op->lease_ms = rdl__op_client(op)->outage_timeout_ms; /* for as long an undo may be repeated */
    rdl__guarded_number(op);
    return rdl__send_it();
}

void rdl__guarded_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    rdl__guarded_put(op, to, eval, &(struct rdl__guarded_form){.script = op->verb->script, .forgets = true});
}

void rdl__guarded_put_again(const rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    rdl__guarded_put(op, to, eval, &(struct rdl__guarded_form){.script = op->verb->script});
}

void rdl__guarded_put_undo(const rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    rdl__guarded_put(
        op, to, eval,
        &(struct rdl__guarded_form){.script = RDL__SCRIPT_SEMAPHORE_UNDO, .queue = true, .place = RDL__TURN_LEFT});
}

rdl__step_t rdl__guarded_answered(rdl_op_t *op, int64_t now)
{
    rdl__step_t step = rdl__answer_is(op, op->answer);

    if (step.rc < 0)
        return rdl__guarded_failed(op, step.rc);
    rdl__guarded_settled(op, now);
    return step;
}

rdl__step_t rdl__guarded_failed(const rdl_op_t *op, int rc)
{
    bool unsure = op->verb->has_heir && op->req.resent && rc != RDL_ECLOSED;

    return (rdl__step_t){.what = RDL__DO_FINISH, .rc = unsure ? RDL_EUNKNOWN : rc, .undo = unsure};
}

const char *rdl__goes_on(int code)
{
    switch (code) {
    case RDL_EUNKNOWN:
        return "the server did not answer in time: it goes on in the background";
    case RDL_ECONN:
        return "no connection to the server: it goes on in the background";
    default:
        return NULL;
    }
}

const char *rdl__done_or_not(int code)
{
    return code == RDL_EUNKNOWN ? "the server did not answer in time: it was done or not" : NULL;
}

const char *rdl__nothing_done(int code)
{
    return code == RDL_EUNKNOWN ? "the server did not answer in time" : NULL;
}

/* ---- the count ----------------------------------------------------------------------------------------------------------- */

void rdl__count_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    (void)eval;
    rdl__cmd_begin(to, 2);
    rdl__cmd_arg(to, "GET", 3);
    rdl__cmd_arg(to, rdl__op_name(op)->bytes, rdl__op_name(op)->node.key_len);
}

void rdl__count_decode(rdl_op_t *op, const struct rdl__reply *reply)
{
    op->answer = 0;
    if (reply->type != RDL__REPLY_NIL)
        rdl__decode_number(op, reply);
}

static rdl__step_t count_answered(rdl_op_t *op, int64_t now)
{
    (void)now;
    return rdl__answer_is(op, op->answer < 0 ? 0 : op->answer);
}

const struct rdl__verb rdl__verb_count = {
    .begin = rdl__begin_by_asking,
    .encode = rdl__count_encode,
    .decode = rdl__count_decode,
    .answered = count_answered,
    .texts = rdl__nothing_done,
};

/* ---- acquiring ----------------------------------------------------------------------------------------------------------- */

rdl__step_t rdl__acquire_begin(rdl_op_t *op)
{
    static const rdl_retry_t no_retry = {.kind = RDL_RETRY_NONE};
    struct rdl__name *name = rdl__op_name(op);
    struct rdl__take_event ev = {
        .kind = RDL__EV_START,
        .others_wait = name->settings.in_order && rdl__name_waited_for(name),
    };

    op->rand.state = name->client->serial ^ (uint64_t)op->started_at;
    rdl__take_init(&op->take, op->wait_ms == 0, &no_retry);
    rdl__metric(&name->client->sinks, RDL_M_ATTEMPTS, 1);
    if (ev.others_wait && op->wait_ms == 0)
        return rdl__finish_with(RDL_ETIMEDOUT); /* it would pass them, if their place is not kept at the moment */
    return rdl__take_on(&op->take, &ev, &op->rand);
}
