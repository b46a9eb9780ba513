/* SPDX-License-Identifier: MIT */
/* hold.c - a record's hold as the watchdog sees it. */
#include "core/base/hostlock.h"
#include "core/call/alone.h"
#include "core/call/cached.h"
#include "core/call/call.h"
#include "core/call/record.h"
#include "scripts/scripts.h"

_Static_assert(RDL__SCRIPT_COUNT <= UINT8_MAX + 1, "a renewal's script is a byte");

static struct rdl__record *record_of(const struct rdl__hold *hold)
{
    return hold->user;
}

static void hold_key(const struct rdl__hold *hold, const char **ret_key, size_t *ret_len)
{
    const struct rdl__record *rec = record_of(hold);

    *ret_key = rec->name->bytes;
    *ret_len = rec->name->node.key_len;
}

static size_t hold_field(const struct rdl__hold *hold, char *to)
{
    const struct rdl__record *rec = record_of(hold);

    return rec->ops->field_of(to, rec->name, hold->id.n);
}

static struct rdl__renews hold_renews(const struct rdl__hold *hold)
{
    const struct rdl__record *rec = record_of(hold);

    return (struct rdl__renews){
        .acks = rdl__name_acks(rec->name), .hash_slot = rec->name->hash_slot, .script = (uint8_t)rec->ops->renew};
}

static void hold_pin(struct rdl__hold *hold)
{
    atomic_fetch_add(&record_of(hold)->refs, 1);
}

/* Where CLIENT KILL is refused, a sending of its take may still come, even after a forced unlock. */
static bool may_be_taken_again(struct rdl__record *rec)
{
    bool may;

    rdl__mutex_lock(&rec->name->mu);
    may = rec->may_come;
    rdl__mutex_unlock(&rec->name->mu);
    return may;
}

static void hold_changed(struct rdl__hold *hold, const struct rdl__hold_id *id, rdl_hold_state_t state,
                         rdl_loss_reason_t reason, int64_t now)
{
    struct rdl__record *rec = record_of(hold);

    if (rdl__is_kept(id->n)) {
        rdl__cache_changed(rec, id, state, reason, now);
        rdl__record_unref(rec);
        return;
    }
    if (state == RDL_AT_RISK && rdl__alone_degrades(rec, id, now)) {
        rdl__record_unref(rec);
        return;
    }
    rdl__name_metric(rec->name, state == RDL_LOST ? RDL_M_LOST : RDL_M_AT_RISK, 1);
    if (state == RDL_LOST && (reason == RDL_LOSS_LEASE || (reason == RDL_LOSS_GONE && may_be_taken_again(rec))))
        rdl__call_tidy(rec, id->n); /* the server's clock may still grant it (protocol.md, 3) */
    rdl__record_tell(rec, id, state, reason);
    rdl__record_unref(rec);
}

static void hold_restore(struct rdl__hold *hold, int64_t now)
{
    struct rdl__record *rec = record_of(hold);

    (void)now;
    rdl__alone_restore(rec);
    rdl__record_unref(rec);
}

static int64_t hold_trust_ms(const struct rdl__hold *hold, int64_t lease_ms)
{
    const struct rdl__record *rec = record_of(hold);

    return rec->ops->trusted_ms(rec->name, lease_ms);
}

static const struct rdl__hold_ops ops = {
    .trust_ms = hold_trust_ms,
    .key = hold_key,
    .field = hold_field,
    .renews = hold_renews,
    .pin = hold_pin,
    .changed = hold_changed,
    .restore = hold_restore,
};

/* ---- its memory ------------------------------------------------------------------------------------------------- */

bool rdl__hold_make(struct rdl__record *rec)
{
    struct rdl__hold *hold = rec->hold;

    rdl__assert_locked(&rec->name->mu);
    if (hold == NULL && (hold = rdl__alloc(&rec->name->client->mem, sizeof *hold)) == NULL)
        return false;
    *hold = (struct rdl__hold){
        .ops = &ops, .user = rec, .host = RDL__HOSTLOCK_NONE, .acked = rdl__name_acks(rec->name).replicas > 0};
    rec->hold = hold;
    return true;
}

/* Whoever else has a reference to the record may be about to tell of its last hold, or have an answer that concerns it:
 * the list, the owner and the verb in flight have one each. A hold that has ended gets no others. */
void rdl__hold_give_back(struct rdl__record *rec)
{
    rdl__mutex_lock(&rec->name->mu);
    if (rec->count == 0 && atomic_load(&rec->refs) == 3 && rec->linked) {
        rdl__free(&rec->name->client->mem, rec->hold, sizeof *rec->hold);
        rec->hold = NULL;
    }
    rdl__mutex_unlock(&rec->name->mu);
}

bool rdl__hold_reserve_anew(struct rdl__record *rec)
{
    bool made;

    rdl__mutex_lock(&rec->name->mu);
    made = rdl__hold_make(rec);
    rdl__mutex_unlock(&rec->name->mu);
    return made;
}
