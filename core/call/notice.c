/* SPDX-License-Identifier: MIT */
/* notice.c - what happened to a hold, told to the log at once, and by a thread of the dispatch to the callbacks of the
 * handles. What happens meanwhile joins the notice that is due, so that a slow callback makes no queue. */
#include "core/base/err.h"
#include "core/call/cached.h"
#include "core/call/record.h"

/* The next handle after `serial` that has a callback, with a reference; NULL: none.  @locks none */
static rdl_lock_t *next_listener(const struct rdl__record *rec, uint32_t serial, rdl_lost_fn *ret_fn, void **ret_arg)
{
    struct rdl__name *name = rec->name;
    rdl_lock_t *found = NULL;

    rdl__mutex_lock(&name->mu);
    for (struct rdl__link *l = name->handles.next; l != &name->handles && found == NULL; l = l->next) {
        rdl_lock_t *lock = rdl__container(l, rdl_lock_t, link);

        if (lock->serial > serial && lock->fn != NULL && lock->ops == rec->ops) {
            found = rdl__handle_ref(lock);
            *ret_fn = lock->fn;
            *ret_arg = lock->arg;
        }
    }
    rdl__mutex_unlock(&name->mu);
    return found;
}

static void tell_all(struct rdl__record *rec, const rdl_loss_t *loss)
{
    uint32_t serial = 0;
    rdl_lock_t *lock;
    rdl_lost_fn fn;
    void *arg;

    while ((lock = next_listener(rec, serial, &fn, &arg)) != NULL) {
        serial = lock->serial;
        fn(lock, loss, arg);
        rdl__handle_unref(lock);
    }
}

static void run_event(struct rdl__callback *callback)
{
    struct rdl__notice *notice = rdl__container(callback, struct rdl__notice, event), what;
    struct rdl__record *rec = notice->rec;
    struct rdl__name *name = rec->name;
    char field[RDL__FIELD_MAX + 1];
    rdl_loss_t loss = {.owner = field};
    int64_t valid_ns = 0;

    rdl__mutex_lock(&name->mu);
    what = *notice;
    notice->states = 0;
    if (rec->notices->latest == notice)
        rec->notices->latest = NULL;
    if (rec->hold.id.n == what.n && rdl__is_kept(what.n))
        valid_ns = rdl__cache_valid_for(rec, rdl__now());
    else if (rec->hold.id.n == what.n)
        (void)rdl__watchdog_state(name->client->watchdog, &rec->hold, rdl__now(), &valid_ns);
    rdl__mutex_unlock(&name->mu);
    if (notice != &rec->notices->first)
        rdl__free(&name->client->mem, notice, sizeof *notice);
    loss.token = what.token;
    field[rec->ops->field_of(field, name, what.n)] = '\0';
    if (what.states & (1u << RDL_AT_RISK)) {
        loss.state = RDL_AT_RISK;
        loss.reason = what.risk_reason;
        loss.remaining_ms = valid_ns / RDL__MS;
        tell_all(rec, &loss);
    }
    for (unsigned state = RDL_DEGRADED; (what.states & (1u << RDL_DEGRADED | 1u << RDL_HELD)) != 0; state = RDL_HELD) {
        if ((what.states & 1u << state) == 0)
            continue;
        what.states &= (uint8_t) ~(1u << state);
        loss.state = (rdl_hold_state_t)state;
        loss.reason = state == RDL_DEGRADED ? RDL_LOSS_OUTAGE : RDL_LOSS_NONE;
        loss.remaining_ms = 0;
        tell_all(rec, &loss);
    }
    if (what.states & (1u << RDL_LOST)) {
        loss.state = RDL_LOST;
        loss.reason = what.loss_reason;
        loss.remaining_ms = 0;
        tell_all(rec, &loss);
    }
    rdl__record_unref(rec);
}

static void notice_init(struct rdl__notice *notice, struct rdl__record *rec)
{
    notice->event.run = run_event;
    rdl__list_init(&notice->event.link);
    notice->rec = rec;
    notice->states = 0;
}

bool rdl__notices_make(struct rdl__record *rec)
{
    rdl__assert_locked(&rec->name->mu);
    if (rec->notices == NULL && (rec->notices = rdl__zalloc(&rec->name->client->mem, sizeof *rec->notices)) != NULL)
        notice_init(&rec->notices->first, rec);
    return rec->notices != NULL;
}

int rdl__name_tells(struct rdl__name *name)
{
    rdl__assert_locked(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records; l = l->next)
        if (!rdl__notices_make(rdl__container(l, struct rdl__record, link)))
            return RDL_ENOMEM;
    name->tells = true;
    return RDL_OK;
}

/* The notice for hold n. One that is due for an earlier hold stays, unless there is no memory for another: then it is
 * overwritten, and only the log has both.  @locks the name's */
static struct rdl__notice *notice_of(struct rdl__record *rec, int64_t n)
{
    struct rdl__notice *notice = rec->notices->latest;

    rdl__assert_locked(&rec->name->mu);
    if (notice != NULL && notice->n == n)
        return notice;
    if (rec->notices->first.states == 0 || (notice = rdl__alloc(&rec->name->client->mem, sizeof *notice)) == NULL)
        return &rec->notices->first;
    notice_init(notice, rec);
    return notice;
}

static void log_news(const struct rdl__record *rec, rdl_hold_state_t state, rdl_loss_reason_t reason)
{
    static const char *const why[] = {
        [RDL_LOSS_LEASE] = "its lease ran out",
        [RDL_LOSS_GONE] = "the server no longer has it",
        [RDL_LOSS_THREAD_EXIT] = "its owner ended without unlocking",
        [RDL_LOSS_RENEWAL] = "its renewal is overdue",
        [RDL_LOSS_OUTAGE] = "there is no server",
        [RDL_LOSS_TAKEN] = "the server is back, and somebody else has it there",
        [RDL_LOSS_NONE] = "the server is back",
    };
    static const char *const now[] = {
        [RDL_HELD] = "held at the server again",
        [RDL_AT_RISK] = "at risk",
        [RDL_LOST] = "lost",
        [RDL_DEGRADED] = "degraded, held on this host alone",
    };
    const struct rdl__sinks *sinks = &rec->name->client->sinks;
    char name[128];

    if (sinks->log == NULL)
        return;
    (void)rdl__printable(name, sizeof name, rec->name->bytes, rec->name->node.key_len);
    rdl__log(sinks,
             state == RDL_LOST   ? RDL_LOG_ERROR
             : state == RDL_HELD ? RDL_LOG_INFO
                                 : RDL_LOG_WARN,
             "lock %s at %s: hold %s: %s", name, rdl__client_label(rec->name->client), now[state], why[reason]);
}

void rdl__record_tell(struct rdl__record *rec, const struct rdl__hold_id *id, rdl_hold_state_t state,
                      rdl_loss_reason_t reason)
{
    struct rdl__name *name = rec->name;
    struct rdl__notice *notice;
    bool fresh;

    log_news(rec, state, reason);
    if (state == RDL_LOST && name->ops->news == RDL__NEWS_NAMED && rdl__name_waited_for(name))
        rdl__client_retry_waiters(name->client); /* who waits here stands in no line: the release was to enter it */
    rdl__mutex_lock(&name->mu);
    if (rec->notices == NULL) {
        rdl__mutex_unlock(&name->mu);
        return;
    }
    rec->notices->latest = notice = notice_of(rec, id->n);
    fresh = notice->states == 0;
    if (notice->n != id->n)
        notice->states = 0;
    if (state == RDL_DEGRADED || state == RDL_HELD)
        notice->states &= (uint8_t) ~(1u << RDL_DEGRADED | 1u << RDL_HELD);
    notice->states |= (uint8_t)(1u << state);
    notice->n = id->n;
    notice->token = id->token;
    if (state == RDL_LOST)
        notice->loss_reason = (uint8_t)reason;
    else if (state == RDL_AT_RISK)
        notice->risk_reason = (uint8_t)reason;
    rdl__mutex_unlock(&name->mu);
    if (fresh) {
        atomic_fetch_add(&rec->refs, 1);
        rdl__dispatch_push(&name->client->dispatch, &notice->event);
    }
}
