/* SPDX-License-Identifier: MIT */
/* hold.c - a record's hold as the watchdog sees it. */
#include "core/call/alone.h"
#include "core/call/cached.h"
#include "core/call/call.h"
#include "core/call/record.h"
#include "scripts/scripts.h"

_Static_assert(RDL__SCRIPT_COUNT <= UINT8_MAX + 1, "a hold's script is a byte");

static void hold_key(const struct rdl__hold *hold, const char **ret_key, size_t *ret_len)
{
    const struct rdl__record *rec = rdl__container(hold, struct rdl__record, hold);

    *ret_key = rec->name->bytes;
    *ret_len = rec->name->node.key_len;
}

static size_t hold_field(const struct rdl__hold *hold, char *to)
{
    const struct rdl__record *rec = rdl__container(hold, struct rdl__record, hold);

    return rec->ops->field_of(to, rec->name, rec->hold.id.n);
}

static void hold_pin(struct rdl__hold *hold)
{
    atomic_fetch_add(&rdl__container(hold, struct rdl__record, hold)->refs, 1);
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
    struct rdl__record *rec = rdl__container(hold, struct rdl__record, hold);

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
    struct rdl__record *rec = rdl__container(hold, struct rdl__record, hold);

    (void)now;
    rdl__alone_restore(rec);
    rdl__record_unref(rec);
}

static int64_t hold_trust_ms(const struct rdl__hold *hold, int64_t lease_ms)
{
    const struct rdl__record *rec = rdl__container(hold, struct rdl__record, hold);

    return rec->ops->trusted_ms(rec->name, lease_ms);
}

const struct rdl__hold_ops rdl__hold_ops = {
    .trust_ms = hold_trust_ms,
    .key = hold_key,
    .field = hold_field,
    .pin = hold_pin,
    .changed = hold_changed,
    .restore = hold_restore,
};
