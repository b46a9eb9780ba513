/* SPDX-License-Identifier: MIT */
/* record.c - records: found, made, kept for their owner's next verb, and let go. */
#include "core/call/record.h"

#include "core/call/alone.h"
#include "core/call/cached.h"

#include <string.h>

enum { FEW = 16 }; /* records of a name that are searched one by one before the owner's list is searched as well */

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
        view.state = rdl__watchdog_state(name->client->watchdog, &rec->hold, now, &view.valid_ns);
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
    uint32_t held;

    rdl__assert_locked(&rec->name->mu);
    if (!rdl__name_has_meter(rec->name))
        return;
    held = rdl__meter_held(meter) - 1;
    rdl__meter_set(meter, held,
                   held == 0                                    ? 0
                   : rdl__meter_since(meter) == rec->held_since ? oldest_hold(rec->name)
                                                                : rdl__meter_since(meter));
}

void rdl__record_abandon(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;

    if (rdl__client_call_begins(name->client) == RDL_OK) {
        if (rdl__is_kept(rec->hold.id.n)) {
            rdl__cache_abandon(rec, false);
            /* a lease of its own, if the kept hold is lost and that is yet to be told */
            rdl__watchdog_forget(name->client->watchdog, &rec->hold);
        } else {
            rdl__watchdog_orphan(name->client->watchdog, &rec->hold);
        }
        rdl__client_call_ends(name->client);
    } else if (rdl__is_kept(rec->hold.id.n)) {
        rdl__cache_abandon(rec, true);
    } else {
        rdl__client_forget_hold(name->client, &rec->hold);
    }
    rdl__mutex_lock(&name->mu);
    rec->count = 0;
    rdl__record_ends(rec);
    rdl__record_retire_and_unlock(rec);
}

static void orphan(struct rdl__owner_link *owner_link)
{
    struct rdl__record *rec = rdl__container(owner_link, struct rdl__record, owner_link);
    struct rdl__name *name = rec->name;

    rdl__mutex_lock(&name->mu);
    rec->linked = false;
    rec->orphaned = true;
    if (rec->active != NULL || rec->count == 0) {
        rdl__record_retire_and_unlock(rec); /* a verb in flight: `leave` abandons what is held then */
    } else {
        rdl__mutex_unlock(&name->mu);
        rdl__record_abandon(rec);
    }
    rdl__record_unref(rec);
}

void rdl__record_free(const rdl_client_t *client, struct rdl__record *rec)
{
    if (rec == NULL)
        return;
    rdl__free(&client->mem, rec->notices, sizeof *rec->notices);
    rdl__free(&client->mem, rec, sizeof *rec);
}

/* Zeroed but for its name, and for its notices. NULL: no memory.  @locks the name's */
static struct rdl__record *spare_or_new(struct rdl__name *name)
{
    struct rdl__record *rec = name->spare;
    struct rdl__notices *notices = rec != NULL ? rec->notices : NULL;

    rdl__assert_locked(&name->mu);
    name->spare = NULL;
    if (rec == NULL && (rec = rdl__alloc(&name->client->mem, sizeof *rec)) == NULL)
        return NULL;
    memset(rec, 0, sizeof *rec);
    rec->name = name;
    rec->notices = notices;
    if (!name->tells || rdl__notices_make(rec))
        return rec;
    rdl__record_free(name->client, rec);
    return NULL;
}

int rdl__record_make(struct rdl__name *name, rdl_owner_t *owner, const struct rdl__lock_ops *ops,
                     struct rdl__record **ret)
{
    struct rdl__record *rec = spare_or_new(name);

    rdl__assert_locked(&name->mu);
    if (rec == NULL)
        return RDL_ENOMEM;
    rdl__list_init(&rec->owner_link.link);
    rec->owner_link.orphan = orphan;
    if (!rdl__owner_link_add(owner, &rec->owner_link)) {
        name->spare = rec;
        return RDL_ELOST;
    }
    rec->linked = true;
    rdl__name_ref(name);
    rec->owner = rdl__owner_ref(owner);
    atomic_init(&rec->refs, 2); /* the list's, the owner link's */
    rec->hold.host = RDL__HOSTLOCK_NONE;
    rec->ops = ops;
    rec->hold.ops = &rdl__hold_ops;
    rec->hold.script = (uint8_t)ops->renew;
    rec->hold.acks = rdl__name_acks(name);
    rec->hold.hash_slot = name->hash_slot;
    rdl__list_push_front(&name->records, &rec->link);
    *ret = rec;
    return RDL_OK;
}

int64_t rdl__record_most_ms(const struct rdl__record *rec, int64_t now)
{
    const rdl_client_t *client = rec->name->client;
    int64_t ends_by = rdl__record_ends_by(rec);
    int64_t by = rec->renewed ? rdl__watchdog_expiry(client->watchdog, now, client->watchdog_lease_ms) : now;

    if (rec->active == NULL)
        rdl__assert_locked(&rec->name->mu);
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

void rdl__record_let_go_and_unlock(struct rdl__record *rec)
{
    bool unlinked = rec->linked && rdl__owner_link_remove(rec->owner, &rec->owner_link);

    rdl__assert_locked(&rec->name->mu);
    rec->linked = false;
    rdl__list_remove(&rec->link);
    rdl__mutex_unlock(&rec->name->mu);
    if (unlinked)
        rdl__record_unref(rec);
    rdl__record_unref(rec);
}

/* A name keeps one idle record, as its owner is likely to come again; the one before it goes. It is put before those of
 * who holds the name beside it, to be found at once. */
void rdl__record_retire_and_unlock(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;
    bool owes = rec->detached != 0 || rec->verdict != RDL_OK; /* its owner's next take wants to know */
    struct rdl__record *leaving = NULL;

    rdl__assert_locked(&rec->name->mu);
    if (rec->active != NULL || rec->count > 0 || !rdl__link_on(&rec->link)) {
        rdl__mutex_unlock(&name->mu);
        return;
    }
    if (rec->hold.host != RDL__HOSTLOCK_NONE) { /* after the server's release: who comes next asks the server */
        rdl__hostlock_leave(rec->hold.host);
        rec->hold.host = RDL__HOSTLOCK_NONE;
    }
    if (rec->orphaned || rdl__list_empty(&name->handles)) { /* without a handle there is no next verb */
        leaving = rec;
        if (name->idle == rec)
            name->idle = NULL;
    } else if (!owes && name->idle != rec) {
        leaving = name->idle;
        name->idle = rec;
        if (name->records.next != &rec->link) {
            rdl__list_remove(&rec->link);
            rdl__list_push_front(&name->records, &rec->link);
        }
    }
    if (leaving != NULL)
        rdl__record_let_go_and_unlock(leaving);
    else
        rdl__mutex_unlock(&name->mu);
}

void rdl__record_unused(struct rdl__record *rec)
{
    struct rdl__name *name = rec->name;
    rdl_owner_t *owner = rec->owner;

    rdl__mutex_lock(&name->mu);
    rdl__detached_done(rec);
    if (name->spare == NULL) {
        name->spare = rec;
        rec = NULL;
    }
    rdl__mutex_unlock(&name->mu);
    rdl__record_free(name->client, rec);
    rdl__owner_unref(owner);
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
    rdl__record_retire_and_unlock(rec);
}

void rdl__record_forget_all(struct rdl__name *name)
{
    struct rdl__record *rec;

    while ((rec = next_abandoned(name)) != NULL) {
        forget_hold(rec);
        rdl__record_unref(rec);
    }
}
