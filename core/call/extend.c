/* extend.c - making the hold last at least so long: a renewal of one. */
#include "core/call/verb.h"

#include "core/service/scripts.h"

static rdl__step_t extend_begin(rdl_op_t *op, int64_t now)
{
    struct rdl__record *rec = op->rec;

    if (rec == NULL || rec->count == 0)
        return rdl__finish_with(RDL_ENOTOWNER);
    if (rdl__watchdog_state(rdl__op_client(op)->watchdog, &rec->hold, now, NULL) == RDL_LOST)
        return rdl__finish_with(RDL_ELOST);
    op->n = rec->n;
    return rdl__send_it();
}

static void extend_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__op_name(op);

    rdl__script_begin(to, op->ops->renew, eval, 1, 2);
    rdl__cmd_arg(to, name->bytes, name->node.key_len);
    rdl__put_field(to, op);
    rdl__cmd_int(to, op->lease_ms);
}

static void extend_decode(rdl_op_t *op, const struct rdl__reply *reply)
{
    static const struct rdl__reply nothing = {.type = RDL__REPLY_NIL};
    const struct rdl__reply *ttl = rdl__reply_at(reply, 2);

    rdl__decode_number(op, ttl != NULL ? ttl : &nothing);
}

static rdl__step_t extend_answered(rdl_op_t *op, int64_t now)
{
    struct rdl__watchdog *wd = rdl__op_client(op)->watchdog;
    int rc = rdl__answer_failed(op);

    (void)now;
    if (rc < 0)
        return rdl__finish_with(rc);
    if (op->answer == RDL__NO_HOLD) {
        rdl__watchdog_gone(wd, &op->rec->hold, op->n);
        return rdl__finish_with(RDL_ELOST);
    }
    if (!rdl__op_acked(op))
        return rdl__finish_with(RDL_ENOREPLICAS);
    return rdl__finish_with(rdl__watchdog_raise(wd, &op->rec->hold, op->req.sent_at, op->lease_ms, false) ? RDL_OK
                                                                                                          : RDL_ELOST);
}

const struct rdl__verb rdl__verb_extend = {
    .on_record = true,
    .acked = true,
    .prolongs = true,
    .begin = extend_begin,
    .encode = extend_encode,
    .decode = extend_decode,
    .answered = extend_answered,
};
