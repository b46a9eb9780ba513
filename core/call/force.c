/* SPDX-License-Identifier: MIT */
/* force.c - the verb that evicts the lock's holder: a forced unlock.
 *
 * Two requests: who holds it, then the eviction of that holder and no other. Who has seen the holder already names it,
 * and sends the second alone.
 */
#include "core/call/verb.h"

#include <string.h>

enum { FORCE_ASK, FORCE_EVICT };

static void force_encode(struct rdl__call *call, struct rdl__buf *to, bool eval)
{
    const struct rdl__name *name = rdl__call_name(call);

    if (call->force.stage == FORCE_ASK) {
        call->ops->put_holder(to, name->bytes, name->node.key_len);
        return;
    }
    call->ops->put_force(call, to, eval);
}

static void force_decode(struct rdl__call *call, const struct rdl__reply *reply)
{
    const char *field;
    size_t len;

    if (call->force.stage == FORCE_EVICT) {
        rdl__decode_number(call, reply);
        return;
    }
    call->answer = call->ops->decode_holder(reply, &field, &len) ? 1 : 0;
    if (call->answer == 1)
        rdl__call_keep_words(call, field, len, false);
}

/* Was the record's hold evicted, and is that not known here yet? Not a hold that was granted after the request was
 * sent, even with the field that was named: its take may have been repeated (a message may grant a lock before its
 * waiter asks). Its renewal will tell.  @locks the name's */
static bool evicted(const struct rdl__call *call, const struct rdl__record *rec)
{
    char field[RDL__FIELD_MAX];
    size_t len = rec->ops->field_of(field, rec->name, rec->hold.id.n);

    rdl__assert_locked(&rec->name->mu);
    if (rec->count == 0 || rec->held_since >= call->req.sent_at ||
        rdl__watchdog_state(rec->name->client->watchdog, &rec->hold, rdl__now(), NULL) >= RDL_LOST)
        return false;
    return (len == call->words_len && memcmp(field, call->words, len) == 0) || call->ops->evicts_also(rec, call);
}

/* One such record, with a reference, and which hold it has; NULL: there is none. */
static struct rdl__record *next_evicted(const struct rdl__call *call, int64_t *ret_n)
{
    struct rdl__name *name = rdl__call_name(call);
    struct rdl__record *found = NULL;

    rdl__mutex_lock(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records && found == NULL; l = l->next) {
        struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (evicted(call, rec)) {
            found = rec;
            *ret_n = rec->hold.id.n;
            atomic_fetch_add(&rec->refs, 1);
        }
    }
    rdl__mutex_unlock(&name->mu);
    return found;
}

/* If this client's owners held what was evicted, report it lost at once, not at the next renewal. */
static void force_notice(const struct rdl__call *call)
{
    struct rdl__record *rec;
    int64_t n;

    while ((rec = next_evicted(call, &n)) != NULL) {
        rdl__watchdog_gone(rec->name->client->watchdog, &rec->hold, n);
        rdl__record_unref(rec);
    }
}

static rdl__step_t force_answered(struct rdl__call *call, int64_t now)
{
    (void)now;
    if (call->force.stage == FORCE_EVICT && call->answer > 0 && rdl__answer_failed(call) == RDL_OK) {
        rdl__call_freed(call);
        call->answer = 1;
        force_notice(call);
    }
    if (call->force.stage == FORCE_EVICT || call->answer == 0 || rdl__answer_failed(call) < 0)
        return rdl__answer_is(call, call->answer);
    if (call->words_len == 0)
        return rdl__finish_with(RDL_ENOMEM);
    call->force.stage = FORCE_EVICT;
    return rdl__send_it();
}

static bool evict_keep_arguments(struct rdl__call *call, const struct rdl__order *order)
{
    rdl__call_keep_words(call, order->seen, strlen(order->seen), false);
    return call->words_len > 0;
}

static rdl__step_t evict_begin(struct rdl__call *call, int64_t now)
{
    (void)now;
    call->force.stage = FORCE_EVICT;
    call->force.named = true;
    return rdl__send_it();
}

const struct rdl__verb rdl__verb_evict = {
    .keep_arguments = evict_keep_arguments,
    .begin = evict_begin,
    .encode = force_encode,
    .decode = force_decode,
    .answered = force_answered,
    .texts = rdl__done_or_not,
};

const struct rdl__verb rdl__verb_force = {
    .begin = rdl__begin_by_asking,
    .encode = force_encode,
    .decode = force_decode,
    .answered = force_answered,
    .texts = rdl__done_or_not,
};
