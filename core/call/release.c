/* release.c - giving back one acquire. */
#include "core/call/verb.h"

/* The outermost release takes the hold out of the watchdog first, so that no renewal starts after it. */
static rdl__step_t release_begin(rdl_op_t *op, int64_t now)
{
    struct rdl__record *rec = op->rec;
    struct rdl__watchdog *wd = rdl__op_client(op)->watchdog;
    rdl_hold_state_t state;
    int32_t left;

    if (rec == NULL || rec->count == 0 || (op->n != 0 && op->n != rec->n))
        return rdl__finish_with(RDL_ENOTOWNER);
    left = rec->count - 1;
    op->n = rec->n;
    op->count = op->undo_count = left;
    op->lease_ms = rdl__record_most_ms(rec, now);
    rdl__record_set_count(rec, left); /* from here on it is nobody else's to tell of its loss (force.c) */
    state = left == 0 ? rdl__watchdog_remove(wd, &rec->hold, now) : rdl__watchdog_state(wd, &rec->hold, now, NULL);
    if (left == 0)
        rdl__metric(&rdl__op_client(op)->sinks, RDL_M_HOLD_US, (now - rec->held_since) / RDL__US);
    return state == RDL_LOST ? rdl__finish_with(RDL_ELOST) : rdl__send_it();
}

static void release_encode(rdl_op_t *op, struct rdl__buf *to, bool eval)
{
    rdl__put_release(to, op, eval, op->count);
}

static rdl__step_t release_answered(rdl_op_t *op, int64_t now)
{
    rdl__step_t again = {.what = RDL__DO_FINISH, .rc = op->req.rc, .undo = op->req.rc != RDL_ECLOSED};
    bool late =
        op->count == 0 && op->rec->may_come && op->rec->ends_by > now; /* it may yet be taken, whoever has ended it */

    op->may_come |= op->rec->may_come; /* the take of what is released */
    if (op->req.rc != RDL_OK)
        return again;
    if (op->refused_words) {
        again.rc = RDL_ESERVER;
        return again;
    }
    if (op->answer == RDL__NO_HOLD && !(op->req.resent && op->count == 0)) { /* a repeat finds its own work done */
        if (op->count > 0) {
            rdl__watchdog_gone(rdl__op_client(op)->watchdog, &op->rec->hold, op->n);
        } else {
            rdl__metric(&rdl__op_client(op)->sinks, RDL_M_LOST, 1);
            rdl__record_tell(op->rec, &(struct rdl__hold_id){op->n, op->rec->token}, RDL_LOST, RDL_LOSS_GONE);
        }
        again.rc = RDL_ELOST;
        again.undo = late;
        return again;
    }
    if (op->count == 0) {
        rdl__op_freed(op);
        rdl__note_release(op, now);
        rdl__metric(&rdl__op_client(op)->sinks, RDL_M_RELEASED, 1);
    }
    again.rc = RDL_OK;
    again.undo = late;
    return again;
}

const struct rdl__verb rdl__verb_release = {
    .on_record = true,
    .successor_mode = RDL__SUCCESSOR_REPLACES,
    .has_successor = true,
    .put_undo = rdl__put_undo,
    .begin = release_begin,
    .encode = release_encode,
    .decode = rdl__decode_number,
    .answered = release_answered,
};
