/* SPDX-License-Identifier: MIT */
#include "core/call/record.h"

#include "core/base/err.h"
#include "core/call/alone.h"
#include "core/call/cached.h"
#include "core/wire/names.h"

#include <string.h>

enum { FEW = 16 }; /* records of a name that are searched one by one before the owner's list is searched as well */

/* ---- names and handles ------------------------------------------------------------------------------------------ */

void rdl__name_ref(struct rdl__name *name)
{
    atomic_fetch_add_explicit(&name->refs, 1, memory_order_relaxed);
}

_Static_assert(sizeof(struct rdl__meter) % _Alignof(struct rdl__name) == 0, "a name may lie behind a meter");

/* How many bytes of a name's memory are before it: its meter, if it has one. */
static size_t name_offset(const rdl_client_t *client)
{
    return client->sinks.counters == NULL ? 0 : sizeof(struct rdl__meter);
}

static size_t name_size(size_t len)
{
    size_t size = offsetof(struct rdl__name, bytes) + len + 1;

    return size > sizeof(struct rdl__name) ? size : sizeof(struct rdl__name);
}

static struct rdl__name *name_alloc(const rdl_client_t *client, size_t len)
{
    char *block = rdl__zalloc(&client->mem, name_offset(client) + name_size(len));

    return block == NULL ? NULL : (void *)(block + name_offset(client));
}

static void name_free(const rdl_client_t *client, struct rdl__name *name, size_t len)
{
    rdl__free(&client->mem, (char *)name - name_offset(client), name_offset(client) + name_size(len));
}

void rdl__name_unref(struct rdl__name *name)
{
    rdl_client_t *client = name->client;

    if (atomic_fetch_sub_explicit(&name->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (name->ops->unused != NULL)
        name->ops->unused(name);
    rdl__free(&client->mem, name->spare, sizeof *name->spare);
    rdl__free(&client->mem, name->settled, sizeof *name->settled);
    rdl__mutex_done(&name->mu);
    if (rdl__name_has_meter(name))
        rdl__meter_leave(client->sinks.counters, rdl__name_meter(name));
    name_free(client, name, name->node.key_len);
    rdl__client_unref(client);
}

static struct rdl__name *name_make(rdl_client_t *client, const struct rdl__lock_ops *ops, const char *bytes, size_t len,
                                   const struct rdl__settings *settings)
{
    struct rdl__name *name = name_alloc(client, len);

    if (name == NULL)
        return NULL;
    if (rdl__mutex_init(&name->mu) < 0) {
        name_free(client, name, len);
        return NULL;
    }
    name->client = rdl__client_ref(client);
    name->ops = ops;
    name->settings = *settings;
    memcpy(name->bytes, bytes, len);
    name->node.key = name->bytes;
    name->node.key_len = (uint32_t)len;
    name->hash_slot = client->map == NULL ? 0 : (uint16_t)rdl__slot(bytes, len);
    atomic_init(&name->refs, 1);
    rdl__list_init(&name->records);
    rdl__list_init(&name->handles);
    if (rdl__name_has_meter(name))
        rdl__meter_join(client->sinks.counters, rdl__name_meter(name), bytes, len);
    return name;
}

static bool same_settings(const struct rdl__settings *a, const struct rdl__settings *b)
{
    return a->retry == b->retry && a->retry_min_ms == b->retry_min_ms && a->retry_max_ms == b->retry_max_ms &&
           a->fencing == b->fencing && a->nests == b->nests && a->life_ms == b->life_ms && a->own == b->own &&
           a->replicas == b->replicas && a->replicas_timeout_ms == b->replicas_timeout_ms &&
           a->replicas_if_able == b->replicas_if_able && a->on_outage == b->on_outage && a->leaves == b->leaves;
}

static int mismatch(const struct rdl__name *name, const struct rdl__lock_ops *ops, const struct rdl__settings *settings,
                    rdl_err_t *err)
{
    if (strcmp(name->ops->kind, ops->kind) != 0) {
        (void)rdl__err_set(err, RDL_EINVAL, "the name is in use in this client by a %s%s", name->ops->name,
                           name->ops->thing == NULL ? " lock" : "");
        rdl__err_where(err, NULL, name->bytes, name->node.key_len);
        return RDL_EINVAL;
    }
    if (name->ops->handle->cached != ops->handle->cached || !same_settings(&name->settings, settings)) {
        (void)rdl__err_set(err, RDL_EINVAL, "the name is in use in this client with other %s options",
                           rdl__thing(name->ops));
        rdl__err_where(err, NULL, name->bytes, name->node.key_len);
        return RDL_EINVAL;
    }
    return RDL_OK;
}

/* @locks the client's names_mu */
static int name_find_or_make(rdl_client_t *client, const struct rdl__lock_ops *ops, const char *bytes, size_t len,
                             const struct rdl__settings *settings, struct rdl__name **ret, rdl_err_t *err)
{
    struct rdl__table_node *node = rdl__table_find(&client->names, bytes, len);
    int rc;

    rdl__assert_locked(&client->names_mu);
    if (node != NULL) {
        struct rdl__name *name = rdl__container(node, struct rdl__name, node);

        if ((rc = mismatch(name, ops, settings, err)) < 0)
            return rc;
        rdl__name_ref(name);
        *ret = name;
        return RDL_OK;
    }
    if ((*ret = name_make(client, ops, bytes, len, settings)) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    rdl__table_add(&client->names, &(*ret)->node);
    return RDL_OK;
}

/* Put a handle on its name's list. */
static void enlist(rdl_lock_t *lock)
{
    atomic_init(&lock->refs, 1);
    rdl__mutex_lock(&lock->name->mu);
    lock->serial = ++lock->name->next_serial & 0x7fffffff;
    rdl__list_push_back(&lock->name->handles, &lock->link);
    rdl__mutex_unlock(&lock->name->mu);
}

/* A lock's keys, and its channel, must be at one server. */
static int check_slots(const struct rdl__lock_ops *ops, const char *name, size_t len, rdl_err_t *err)
{
    const char *why = NULL;

    if (!rdl__name_one_slot(name, len))
        why = len == 0 ? "it is empty" : "with these braces its keys would lie in several slots";
    else if (strchr(ops->channel, '{') != NULL && memchr(name, '{', len) != NULL)
        why = "the channel of such a name with a hash tag would lie in another slot";
    if (why == NULL)
        return RDL_OK;
    (void)rdl__err_set(err, RDL_EINVAL, "a cluster cannot have a %s of this name: %s", rdl__thing(ops), why);
    rdl__err_where(err, NULL, name, len);
    return RDL_EINVAL;
}

int rdl__handle_make(rdl_client_t *client, const struct rdl__lock_ops *ops, const char *name, size_t len,
                     const struct rdl__settings *settings, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    rdl_lock_t *lock;
    int rc;

    if (client->map != NULL && (rc = check_slots(ops, name, len, err)) < 0)
        return rc;
    if ((lock = rdl__zalloc(&client->mem, sizeof *lock)) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    rdl__mutex_lock(&client->names_mu);
    if ((rc = name_find_or_make(client, ops, name, len, settings, &lock->name, err)) == RDL_OK)
        lock->name->handle_count++;
    rdl__mutex_unlock(&client->names_mu);
    if (rc < 0) {
        rdl__free(&client->mem, lock, sizeof *lock);
        return rc;
    }
    lock->ops = ops;
    enlist(lock);
    *ret_lock = lock;
    return RDL_OK;
}

void rdl__handle_copy(const rdl_lock_t *lock, rdl_lock_t *copy)
{
    copy->name = lock->name;
    copy->ops = lock->ops;
    rdl__name_ref(copy->name);
    rdl__mutex_lock(&copy->name->client->names_mu);
    copy->name->handle_count++;
    rdl__mutex_unlock(&copy->name->client->names_mu);
    enlist(copy);
}

rdl_lock_t *rdl__handle_ref(rdl_lock_t *lock)
{
    atomic_fetch_add_explicit(&lock->refs, 1, memory_order_relaxed);
    return lock;
}

void rdl__handle_unref(rdl_lock_t *lock)
{
    struct rdl__name *name = lock->name;

    if (atomic_fetch_sub_explicit(&lock->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (lock->embedded)
        rdl__container(lock, struct rdl__embedded, handle)->let_go(lock);
    else
        rdl__free(&name->client->mem, lock, sizeof *lock);
    rdl__name_unref(name);
}

/* The next record on which nothing is under way, marked as gone, with a reference; NULL: none left. */
static struct rdl__record *next_abandoned(struct rdl__name *name)
{
    struct rdl__record *found = NULL;

    rdl__mutex_lock(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records && found == NULL; l = l->next) {
        struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (rec->active != NULL && !rec->orphaned && rdl__alone_yields(rec))
            rec->orphaned = true; /* its end abandons the hold */
        if (rec->active == NULL && !rec->orphaned) {
            found = rec;
            rec->orphaned = true;
            atomic_fetch_add(&rec->refs, 1);
        }
    }
    rdl__mutex_unlock(&name->mu);
    return found;
}

static void forget_hold(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;
    bool held = rec->count > 0;

    rdl__record_set_count(rec, 0); /* first: see release.c */
    if (rdl__client_call_begins(name->client) == RDL_OK) {
        if (held)
            (void)rdl__watchdog_remove(name->client->watchdog, &rec->hold, rdl__now());
        rdl__client_call_ends(name->client);
    } else if (held) {
        rdl__client_forget_hold(name->client, &rec->hold);
    }
    rdl__mutex_lock(&name->mu);
    rdl__record_retire(rec);
}

void rdl__handle_drop(rdl_lock_t *lock)
{
    struct rdl__name *name = lock->name;
    rdl_client_t *client = name->client;
    struct rdl__record *rec;
    bool last;

    rdl__mutex_lock(&name->mu);
    lock->fn = NULL;
    rdl__list_remove(&lock->link);
    rdl__mutex_unlock(&name->mu);
    rdl__mutex_lock(&client->names_mu);
    last = --name->handle_count == 0;
    if (last)
        rdl__table_remove(&client->names, &name->node);
    rdl__mutex_unlock(&client->names_mu);
    if (last && rdl__news_lingers(name->ops->news))
        rdl__client_sweep(client);
    while (last && (rec = next_abandoned(name)) != NULL) {
        forget_hold(rec);
        rdl__record_unref(rec);
    }
    rdl__handle_unref(lock);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static void notice_init(struct rdl__notice *notice, struct rdl__record *rec);

static void orphan(struct rdl__owner_link *owner_link);

static bool is_of(const struct rdl__record *rec, const rdl_owner_t *owner, const struct rdl__lock_ops *ops)
{
    return rec->owner == owner && rec->ops == ops && !rec->orphaned;
}

/* Search the rest of the name's records, from `l` on, and the owner's records in parallel, until one of the lists ends:
 * thousands of owners may wait for one lock, and one owner may hold thousands. The records of an owner that is gone may
 * be on the name's list only. */
static __attribute__((noinline)) struct rdl__record *find_by_turns(const struct rdl__name *name, struct rdl__link *l,
                                                                   rdl_owner_t *owner, const struct rdl__lock_ops *ops)
{
    struct rdl__record *found = NULL;
    struct rdl__link *t;

    rdl__mutex_lock(&owner->mu);
    t = owner->links.next;
    while (found == NULL && l != &name->records && (t != &owner->links || owner->gone)) {
        struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (is_of(rec, owner, ops))
            found = rec;
        l = l->next;
        if (t == &owner->links)
            continue;
        if (rdl__container(t, struct rdl__owner_link, link)->orphan == orphan) { /* not a composite's record */
            rec = rdl__container(t, struct rdl__record, owner_link.link);
            if (rec->name == name && is_of(rec, owner, ops))
                found = rec;
        }
        t = t->next;
    }
    rdl__mutex_unlock(&owner->mu);
    return found;
}

struct rdl__record *rdl__record_find(const struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops)
{
    struct rdl__link *l = name->records.next;

    rdl__assert_locked(&name->mu);
    for (int i = 0; i < FEW; i++, l = l->next) {
        struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (l == &name->records)
            return NULL;
        if (is_of(rec, owner, ops))
            return rec;
    }
    return find_by_turns(name, l, owner, ops);
}

struct rdl__record *rdl__record_find_orphan(const struct rdl__name *name, const rdl_owner_t *owner,
                                            const struct rdl__lock_ops *ops)
{
    rdl__assert_locked(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records; l = l->next) {
        struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (rec->owner == owner && rec->ops == ops && rec->orphaned && rec->active != NULL)
            return rec;
    }
    return NULL;
}

struct rdl__view rdl__record_view(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                                  int64_t now)
{
    struct rdl__view view = {.state = RDL_NOT_HELD};
    const struct rdl__record *rec;

    rdl__mutex_lock(&name->mu);
    if ((rec = rdl__record_find(name, owner, ops)) != NULL && rec->count > 0) {
        view.count = rec->count;
        view.token = rec->hold.id.token;
        view.n = rec->hold.id.n;
        view.state = rdl__watchdog_state(name->client->watchdog, &rec->hold, now, &view.left);
    }
    rdl__mutex_unlock(&name->mu);
    return view;
}

/* When the oldest hold of the name was granted; 0: there is none. */
static int64_t oldest_hold(const struct rdl__name *name)
{
    int64_t oldest = 0;

    rdl__assert_locked(&name->mu);
    for (const struct rdl__link *l = name->records.next; l != &name->records; l = l->next) {
        const struct rdl__record *rec = rdl__container(l, struct rdl__record, link);

        if (rec->count > 0 && (oldest == 0 || rec->held_since < oldest))
            oldest = rec->held_since;
    }
    return oldest;
}

/* Only where others hold it beside the oldest are all looked through as that one ends. */
void rdl__record_ends(const struct rdl__record *rec)
{
    struct rdl__meter *meter = rdl__name_meter(rec->name);
    uint32_t left;

    rdl__assert_locked(&rec->name->mu);
    if (!rdl__name_has_meter(rec->name))
        return;
    left = rdl__meter_held(meter) - 1;
    rdl__meter_set(meter, left,
                   left == 0                                    ? 0
                   : rdl__meter_since(meter) == rec->held_since ? oldest_hold(rec->name)
                                                                : rdl__meter_since(meter));
}

void rdl__record_abandon(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;

    if (rdl__client_call_begins(name->client) == RDL_OK) {
        if (rdl__is_kept(rec->hold.id.n))
            rdl__cache_abandon(rec, false);
        else
            rdl__watchdog_orphan(name->client->watchdog, &rec->hold);
        rdl__client_call_ends(name->client);
    } else if (rdl__is_kept(rec->hold.id.n)) {
        rdl__cache_abandon(rec, true);
    } else {
        rdl__client_forget_hold(name->client, &rec->hold);
    }
    rdl__mutex_lock(&name->mu);
    rec->count = 0;
    rdl__record_ends(rec);
    rdl__record_retire(rec);
}

static void orphan(struct rdl__owner_link *owner_link)
{
    struct rdl__record *rec = rdl__container(owner_link, struct rdl__record, owner_link);
    struct rdl__name *name = rec->name;

    rdl__mutex_lock(&name->mu);
    rec->linked = false;
    rec->orphaned = true;
    if (rec->active != NULL || rec->count == 0) {
        rdl__record_retire(rec); /* a verb in flight: `leave` abandons what is held then */
    } else {
        rdl__mutex_unlock(&name->mu);
        rdl__record_abandon(rec);
    }
    rdl__record_unref(rec);
}

int rdl__record_make(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                     struct rdl__record **ret)
{
    struct rdl__record *rec = name->spare;

    rdl__assert_locked(&name->mu);
    name->spare = NULL;
    if (rec == NULL && (rec = rdl__alloc(&name->client->mem, sizeof *rec)) == NULL)
        return RDL_ENOMEM;
    memset(rec, 0, sizeof *rec);
    rdl__list_init(&rec->owner_link.link);
    rec->owner_link.orphan = orphan;
    if (!rdl__owner_link_add(owner, &rec->owner_link)) {
        name->spare = rec;
        return RDL_ELOST;
    }
    rec->linked = true;
    rec->name = name;
    rdl__name_ref(name);
    rec->owner = rdl__owner_ref(owner);
    atomic_init(&rec->refs, 2); /* the list's, the owner link's */
    rdl__list_init(&rec->pending);
    notice_init(&rec->notice, rec);
    rec->hold.host = RDL__HOSTLOCK_NONE;
    rec->ops = ops;
    rec->hold.ops = &rdl__hold_ops;
    rec->hold.script = (uint8_t)ops->renew;
    rec->hold.acks = rdl__name_acks(name);
    rec->hold.hash_slot = name->hash_slot;
    rdl__list_init(&rec->hold.due);
    rdl__list_push_front(&name->records, &rec->link);
    *ret = rec;
    return RDL_OK;
}

int64_t rdl__record_most_ms(const struct rdl__record *rec, int64_t now)
{
    const rdl_client_t *client = rec->name->client;
    int64_t ends_by = rdl__record_ends_by(rec);
    int64_t by = rec->renewed ? rdl__watchdog_expiry(client->watchdog, now, client->watchdog_lease_ms) : now;

    return ((ends_by > by ? ends_by : by) - now) / RDL__MS + 1;
}

void rdl__record_set_count(struct rdl__record *rec, int32_t count)
{
    bool ends = count == 0 && rec->count > 0;

    rdl__mutex_lock(&rec->name->mu);
    rec->count = count;
    if (ends)
        rdl__record_ends(rec);
    rdl__mutex_unlock(&rec->name->mu);
}

void rdl__record_clear(struct rdl__record *rec)
{
    rdl__mutex_lock(&rec->name->mu);
    rec->count = 0;
    rdl__mutex_unlock(&rec->name->mu);
}

/* Off the list. True: the owner link's reference is free, too.  @locks the name's */
static bool unlist(struct rdl__record *rec)
{
    bool unlinked = rec->linked && rdl__owner_link_remove(rec->owner, &rec->owner_link);

    rdl__assert_locked(&rec->name->mu);
    rec->linked = false;
    rdl__list_remove(&rec->link);
    return unlinked;
}

/* A name keeps one idle record, as its owner is likely to come again; the one before it goes. */
void rdl__record_retire(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;
    bool busy = rec->active != NULL || !rdl__list_empty(&rec->pending) || rec->count > 0 || !rdl__link_on(&rec->link);
    bool owes = rec->left != 0 || rec->verdict != RDL_OK; /* its owner's next take wants to know */
    struct rdl__record *leaving = NULL;
    bool unlinked = false;

    rdl__assert_locked(&rec->name->mu);
    if (!busy &&
        rec->hold.host != RDL__HOSTLOCK_NONE) { /* after the server's release: who comes next asks the server */
        rdl__hostlock_leave(rec->hold.host);
        rec->hold.host = RDL__HOSTLOCK_NONE;
    }
    if (!busy && (rec->orphaned || rdl__list_empty(&name->handles))) { /* without a handle there is no next verb */
        leaving = rec;
        if (name->idle == rec)
            name->idle = NULL;
    } else if (!busy && !owes && name->idle != rec) {
        leaving = name->idle;
        name->idle = rec;
    }
    if (leaving != NULL)
        unlinked = unlist(leaving);
    rdl__mutex_unlock(&name->mu);
    if (leaving == NULL)
        return;
    if (unlinked)
        rdl__record_unref(leaving);
    rdl__record_unref(leaving);
}

void rdl__record_unused(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;
    rdl_owner_t *owner = rec->owner;

    rdl__left_done(rec);
    rdl__mutex_lock(&name->mu);
    if (name->spare == NULL) {
        name->spare = rec;
        rec = NULL;
    }
    rdl__mutex_unlock(&name->mu);
    rdl__free(&name->client->mem, rec, sizeof *rec);
    rdl__owner_unref(owner);
    rdl__name_unref(name);
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

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
    int64_t left = 0;

    rdl__mutex_lock(&name->mu);
    what = *notice;
    notice->states = 0;
    if (rec->latest == notice)
        rec->latest = NULL;
    if (rec->hold.id.n == what.n && rdl__is_kept(what.n))
        left = rdl__cache_valid_for(rec, rdl__now());
    else if (rec->hold.id.n == what.n)
        (void)rdl__watchdog_state(name->client->watchdog, &rec->hold, rdl__now(), &left);
    rdl__mutex_unlock(&name->mu);
    if (notice != &rec->notice)
        rdl__free(&name->client->mem, notice, sizeof *notice);
    loss.token = what.token;
    field[rec->ops->field_of(field, name, what.n)] = '\0';
    if (what.states & (1u << RDL_AT_RISK)) {
        loss.state = RDL_AT_RISK;
        loss.reason = what.risk_reason;
        loss.remaining_ms = left / RDL__MS;
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

/* The notice for hold n. One that is due for an earlier hold stays, unless there is no memory for another: then it is
 * overwritten, and only the log has both.  @locks the name's */
static struct rdl__notice *notice_of(struct rdl__record *rec, int64_t n)
{
    struct rdl__notice *notice = rec->latest;

    rdl__assert_locked(&rec->name->mu);
    if (notice != NULL && notice->n == n)
        return notice;
    if (rec->notice.states == 0 || (notice = rdl__alloc(&rec->name->client->mem, sizeof *notice)) == NULL)
        return &rec->notice;
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
        rdl__client_doubt(name->client); /* who waits here stands in no line: the release was to enter it */
    rdl__mutex_lock(&name->mu);
    rec->latest = notice = notice_of(rec, id->n);
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
