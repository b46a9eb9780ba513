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

void rdl__guarded_settled(const rdl_op_t *op)
{
    struct rdl__name *name = rdl__op_name(op);

    if (op->req.resent && atomic_load(&name->client->node.kill_refused))
        return;
    rdl__mutex_lock(&name->mu);
    if (name->settled != NULL && name->settled->count < SETTLED_MOST)
        name->settled->n[name->settled->count++] = op->n;
    rdl__mutex_unlock(&name->mu);
}

/* ---- requests ------------------------------------------------------------------------------------------------------------ */

static void put_guard(struct rdl__buf *to, const struct rdl__name *name, int64_t n)
{
    char field[RDL__FIELD_MAX];

    rdl__put_tailed(to, "redlatch_guard", name, field, rdl__field(field, &name->client->uuid, n));
}

void rdl__guarded_put(const rdl_op_t *op, struct rdl__buf *to, bool eval, const struct rdl__guarded_form *form)
{
    const struct rdl__name *name = rdl__op_name(op);
    bool queue = form->queue && name->settings.in_order, forgets = form->forgets && op->settled_n != 0;

    rdl__script_begin(to, form->script, eval, 3 + (queue ? 2U : 0U) + (forgets ? 1U : 0U), queue ? 5 : 2);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_channel(to, name);
    put_guard(to, name, op->n);
    if (queue)
        rdl__put_queue(to, name);
    if (forgets)
        put_guard(to, name, op->settled_n);
    rdl__cmd_int(to, op->count);
    rdl__cmd_int(to, rdl__guard_ms(name->client));
    if (!queue)
        return;
    rdl__cmd_arg(to, "publish", 7);
    rdl__cmd_arg(to, name->client->uuid.text, RDL__UUID_LEN);
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
    rdl__guarded_put(op, to, eval, &(struct rdl__guarded_form){.script = RDL__SCRIPT_SEMAPHORE_UNDO, .queue = true});
}

rdl__step_t rdl__guarded_answered(rdl_op_t *op, int64_t now)
{
    rdl__step_t step = rdl__answer_is(op, op->answer);

    (void)now;
    if (step.rc == RDL_OK)
        rdl__guarded_settled(op);
    else if (op->verb->has_heir)
        step.undo = step.rc != RDL_ECLOSED;
    return step;
}

const char *rdl__goes_on(int code)
{
    return code == RDL_EUNKNOWN ? "the server did not answer in time: it goes on in the background" : NULL;
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
        .others_wait = name->settings.in_order && atomic_load(&name->waiting) > 0,
    };

    op->rand.state = name->client->serial ^ (uint64_t)op->started_at;
    rdl__take_init(&op->take, op->wait_ms == 0, &no_retry);
    rdl__metric(&name->client->sinks, RDL_M_ATTEMPTS, 1);
    return rdl__take_on(&op->take, &ev, &op->rand);
}
