/* SPDX-License-Identifier: MIT */
/* composite/record.c - owners' records of a composite.
 *
 * An owner is of one client, a composite may span several. So a composite has records of its own, one for each owner in
 * its home client (or whichever explicit owner was given), and a record has a hold at each member, by an owner that
 * acts for it there. For a call without an explicit owner that is the calling thread's owner in that client (its own,
 * or the one that it is bound to); for one with an explicit owner, that owner in its own client, and in each other
 * client one made to stand in for it, which lives as long as the record. These owners are
 * chosen when the record is made, at the outermost acquire, and stay the same.
 *
 * A hold counts the takes that are the composite's (`mine`), so that it gives back what it has taken and no
 * more, whatever else the same owner holds of that lock. The invariant: what a hold has above the record's wanted count
 * is being released. That covers failures, giving up, stragglers and surplus alike.
 *
 * A record keeps the members' handles, and with them their names and clients, until it is freed: what it owes is given
 * back, and what it has lost is told, when the composite and the members may have been freed by their user.
 *
 * When the record's owner is gone, so are those that stand in for it, and their holds end with their leases. Another
 * owner that the thread was bound to may still be there: what was taken under that one is given back.
 *
 * @locks mu, all of it, unless it says otherwise
 */
#include "locks/composite/record.h"

#include "core/call/verb.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------------------------- */

/* @locks any */
static size_t record_size(const struct rdl__composite *j)
{
    return sizeof(struct rdl__composite_record) + j->member_count * sizeof(struct rdl__member_hold);
}

/* @locks any */
static void leave_members(struct rdl__composite_record *rec)
{
    struct rdl__composite *j = rec->composite;

    for (unsigned i = 0; i < j->member_count; i++) {
        rdl_owner_t *owner = rec->hold[i].owner;

        if (owner == NULL)
            continue;
        rdl__reserve_done(&rec->hold[i].reserve, &owner->client->mem, sizeof(struct rdl__call));
        if (rec->hold[i].stands_in)
            (void)rdl_owner_free(owner);
        else
            rdl__owner_unref(owner);
    }
}

/* Nobody else knows it, or nobody has a reference any more. May end holds of its members, which is told.  @locks none
 */
static void record_free(struct rdl__composite_record *rec)
{
    struct rdl__composite *j = rec->composite;

    leave_members(rec);
    rdl__reserve_done(&rec->reserve, &j->home->mem, j->call_size);
    rdl__owner_unref(rec->owner);
    for (unsigned i = 0; i < j->member_count; i++)
        rdl__handle_unref(rdl__member_lock(j, i));
    rdl__free(&j->home->mem, rec, record_size(j));
    (void)atomic_fetch_sub(&j->handle.refs, 1); /* not the last: the caller has one */
}

void rdl__composite_record_unref(struct rdl__composite_record *rec)
{
    rdl__assert_locked(&rec->composite->mu);
    if (--rec->refs == 0)
        rdl__list_push_back(&rec->composite->spent, &rec->link);
}

void rdl__composite_unlock(struct rdl__composite *j)
{
    struct rdl__link spent, *l;

    rdl__assert_locked(&j->mu);
    rdl__list_init(&spent);
    rdl__list_splice_front(&spent, &j->spent);
    rdl__mutex_unlock(&j->mu);
    while ((l = rdl__list_pop(&spent)) != NULL)
        record_free(rdl__container(l, struct rdl__composite_record, link));
}

static void settle_member(struct rdl__composite_record *rec, unsigned i, int64_t want)
{
    while (rec->hold[i].mine > want && rdl__composite_give_back(rec, i))
        ;
}

/* The record's owner is gone: is the owner that acts at member i still there? Not if it is the same, one that stands in
 * for it, or the same thread's owner in another client. */
static bool survives(const struct rdl__composite_record *rec, unsigned i)
{
    const rdl_owner_t *owner = rec->hold[i].owner;

    return !rec->given && owner != rec->owner && (owner->slot == NULL || rec->owner->slot == NULL);
}

/* The members' clients end the holds of owners that are gone. But a hold under another owner, which is still there,
 * would be renewed as long as that one lives: give it back. */
static void settle_survivors(struct rdl__composite_record *rec)
{
    for (unsigned i = 0; i < rec->composite->member_count; i++)
        if (survives(rec, i))
            settle_member(rec, i, 0);
}

void rdl__composite_record_retire(struct rdl__composite_record *rec)
{
    rdl__assert_locked(&rec->composite->mu);
    if (rec->active != NULL || rec->straggling != NULL || !rdl__list_empty(&rec->pending) ||
        (rec->count > 0 && !rec->orphaned && !rec->composite->dropped) || !rdl__link_on(&rec->link))
        return;
    if (rec->orphaned)
        settle_survivors(rec);
    rdl__list_remove(&rec->link);
    if (rec->linked && rdl__owner_link_remove(rec->owner, &rec->owner_link)) {
        rec->linked = false;
        rdl__composite_record_unref(rec);
    }
    rdl__composite_record_unref(rec);
}

void rdl__composite_records_drop(struct rdl__composite *j)
{
    struct rdl__link *next;

    rdl__assert_locked(&j->mu);
    j->dropped = true;
    for (struct rdl__link *l = j->records.next; l != &j->records; l = next) {
        next = l->next;
        rdl__composite_record_retire(rdl__container(l, struct rdl__composite_record, link));
    }
}

/* The field of the record's hold at member i. */
static size_t hold_field(char *to, const struct rdl__composite_record *rec, unsigned i)
{
    const rdl_lock_t *member = rdl__member_lock(rec->composite, i);

    rdl__assert_locked(&rec->composite->mu);
    return member->ops->field_of(to, member->name, rec->hold[i].n);
}

/* @locks none */
static void tell_orphaned(struct rdl__callback *callback)
{
    struct rdl__composite_record *rec = rdl__container(callback, struct rdl__composite_record, event);
    struct rdl__composite *j = rdl__composite_ref(rec->composite);
    char field[RDL__FIELD_MAX + 1];
    rdl_loss_t loss = {.state = RDL_LOST, .reason = RDL_LOSS_THREAD_EXIT, .owner = field};
    rdl_lost_fn fn;
    void *arg;

    rdl__mutex_lock(&j->mu);
    field[hold_field(field, rec, 0)] = '\0';
    loss.token = rec->token;
    fn = j->handle.fn;
    arg = j->handle.arg;
    rdl__composite_record_unref(rec);
    rdl__composite_unlock(j);
    if (fn != NULL)
        fn(&j->handle, &loss, arg);
    rdl__composite_unref(j);
}

/* Its owner is gone.  @locks none */
static void orphan(struct rdl__owner_link *owner_link)
{
    struct rdl__composite_record *rec = rdl__container(owner_link, struct rdl__composite_record, owner_link);
    struct rdl__composite *j = rdl__composite_ref(rec->composite);

    rdl__mutex_lock(&j->mu);
    rec->linked = false;
    rec->orphaned = true;
    if (rec->count > 0 && !rec->lost && rdl__client_call_begins(j->home) == RDL_OK) {
        rec->refs++;
        rdl__dispatch_push(&j->home->dispatch, &rec->event);
        rdl__client_call_ends(j->home);
    }
    rec->lost = true;
    rdl__composite_record_retire(rec);
    rdl__composite_record_unref(rec);
    rdl__composite_unlock(j);
    rdl__composite_unref(j);
}

static bool is_of(const struct rdl__composite_record *rec, const struct rdl__composite *j, const rdl_owner_t *owner)
{
    rdl__assert_locked(&j->mu);
    return rec->owner == owner && rec->composite == j && !rec->orphaned;
}

/* Search the composite's records and the owner's in parallel, until one of the lists ends: thousands of owners may wait
 * for one composite, and one owner may hold thousands. The records of an owner that is gone may be on the first list
 * only. */
static struct rdl__composite_record *record_find(const struct rdl__composite *j, rdl_owner_t *owner)
{
    struct rdl__composite_record *found = NULL;
    struct rdl__link *l = j->records.next, *t;

    rdl__assert_locked(&j->mu);
    rdl__mutex_lock(&owner->mu);
    t = owner->links.next;
    while (found == NULL && l != &j->records && (t != &owner->links || owner->gone)) {
        struct rdl__composite_record *rec = rdl__container(l, struct rdl__composite_record, link);

        if (is_of(rec, j, owner))
            found = rec;
        l = l->next;
        if (t == &owner->links)
            continue;
        if (rdl__container(t, struct rdl__owner_link, link)->orphan == orphan) { /* not a single lock's record */
            rec = rdl__container(t, struct rdl__composite_record, owner_link.link);
            if (is_of(rec, j, owner))
                found = rec;
        }
        t = t->next;
    }
    rdl__mutex_unlock(&owner->mu);
    return found;
}

/* The calling thread's owner in that client, with a reference.  @locks none */
static int refer_to_self(rdl_client_t *client, rdl_owner_t **ret)
{
    int rc = rdl__client_call_begins(client);

    if (rc < 0)
        return rc;
    if ((rc = rdl__owner_self(client, ret)) == RDL_OK)
        (void)rdl__owner_ref(*ret);
    rdl__client_call_ends(client);
    return rc;
}

/* Choose the owner that acts at member i.  @locks none */
static int take_place(struct rdl__composite_record *rec, unsigned i)
{
    struct rdl__composite *j = rec->composite;
    rdl_client_t *client = rdl__member_client(j, i);
    rdl_owner_t *owner = NULL;

    if (rec->given && rec->owner->client == client)
        owner = rec->owner;
    for (unsigned k = 0; k < i && owner == NULL; k++)
        if (rdl__member_client(j, k) == client)
            owner = rec->hold[k].owner;
    if (owner == NULL && rec->given) {
        rec->hold[i].stands_in = true;
        return rdl_owner_new(client, &rec->hold[i].owner, NULL);
    }
    if (owner == NULL)
        return refer_to_self(client, &rec->hold[i].owner);
    rec->hold[i].owner = rdl__owner_ref(owner);
    return RDL_OK;
}

/* Make one that nobody else knows.  @locks none */
static int record_make(struct rdl__composite *j, rdl_owner_t *owner, bool given, struct rdl__composite_record **ret)
{
    struct rdl__composite_record *rec = rdl__zalloc(&j->home->mem, record_size(j));
    int rc = RDL_OK;

    if (rec == NULL)
        return RDL_ENOMEM;
    rec->composite = rdl__composite_ref(j);
    for (unsigned i = 0; i < j->member_count; i++)
        (void)rdl__handle_ref(rdl__member_lock(j, i));
    rec->owner = rdl__owner_ref(owner);
    rec->given = given;
    rec->refs = 1;
    rec->owner_link.orphan = orphan;
    rec->event.run = tell_orphaned;
    rdl__list_init(&rec->link);
    rdl__list_init(&rec->owner_link.link);
    rdl__list_init(&rec->pending);
    rdl__list_init(&rec->event.link);
    for (unsigned i = 0; i < j->member_count && rc == RDL_OK; i++)
        rc = take_place(rec, i);
    if (rc < 0)
        record_free(rec);
    else
        *ret = rec;
    return rc;
}

/* Put it on the list, which takes the reference over. RDL_ELOST: the owner is gone. */
static int record_add(struct rdl__composite_record *rec)
{
    rdl__assert_locked(&rec->composite->mu);
    if (!rdl__owner_link_add(rec->owner, &rec->owner_link))
        return RDL_ELOST;
    rec->linked = true;
    rec->refs++;
    rdl__list_push_back(&rec->composite->records, &rec->link);
    return RDL_OK;
}

int rdl__composite_record_of(struct rdl__composite *j, rdl_owner_t *owner, bool given,
                             struct rdl__composite_record **ret)
{
    struct rdl__composite_record *made;
    int rc;

    rdl__assert_locked(&j->mu);
    if ((*ret = record_find(j, owner)) != NULL)
        return RDL_OK;
    rdl__composite_unlock(j); /* record_make may take a thread slot's mutex, which comes before mu (orphan) */
    rc = record_make(j, owner, given, &made);
    rdl__mutex_lock(&j->mu);
    if (rc < 0)
        return rc;
    if ((*ret = record_find(j, owner)) == NULL && (rc = record_add(made)) == RDL_OK)
        *ret = made;
    else
        rdl__composite_record_unref(made); /* another thread has made one meanwhile, or the owner is gone */
    return rc;
}

/* ---- what is held ----------------------------------------------------------------------------------------------- */

struct rdl__view rdl__member_hold_view(const struct rdl__composite_record *rec, unsigned i, int64_t now)
{
    const struct rdl__member_hold *hold = &rec->hold[i];
    struct rdl__composite *j = rec->composite;
    struct rdl__view view = {.state = RDL_NOT_HELD};

    rdl__assert_locked(&rec->composite->mu);
    if (hold->mine == 0 || (rdl__client_call_begins(rdl__member_client(j, i)) < 0 &&
                            rdl__client_debt_begins(rdl__member_client(j, i)) < 0))
        return view; /* a client that is closing has its holds as long as it has connections */
    view = rdl__record_view(rdl__member_lock(j, i)->name, hold->owner, rdl__member_lock(j, i)->ops, now);
    rdl__client_call_ends(rdl__member_client(j, i));
    if (view.n != hold->n || view.state == RDL_LOST)
        view.state = RDL_NOT_HELD;
    return view;
}

/* @locks any */
static int longest_first(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return a < b ? 1 : a > b ? -1 : 0;
}

int64_t rdl__composite_kth_longest(int64_t *at, unsigned n, unsigned k)
{
    qsort(at, n, sizeof at[0], longest_first);
    return at[k - 1];
}

struct rdl__view rdl__composite_record_view(struct rdl__composite_record *rec, int64_t now)
{
    struct rdl__composite *j = rec->composite;
    struct rdl__view view = {.state = RDL_NOT_HELD, .count = rec->count, .token = rec->token};
    int64_t valid_ns[RDL__COMPOSITE_MAX];
    unsigned held = 0, well = 0;

    rdl__assert_locked(&rec->composite->mu);
    if (rec->count == 0)
        return view;
    for (unsigned i = 0; i < j->member_count; i++) {
        struct rdl__view hold = rdl__member_hold_view(rec, i, now);

        if (hold.state == RDL_NOT_HELD || rec->hold[i].uncounted)
            continue;
        valid_ns[held++] = hold.valid_ns;
        well += hold.state == RDL_HELD;
    }
    rec->lost = rec->lost || held < j->quorum;
    if (rec->lost) {
        view.state = RDL_LOST;
        return view;
    }
    view.valid_ns = rdl__composite_kth_longest(valid_ns, held, j->quorum);
    view.state = well < j->quorum ? RDL_AT_RISK : RDL_HELD;
    return view;
}

struct rdl__view rdl__composite_view(rdl_lock_t *lock, rdl_owner_t *owner, int64_t now)
{
    struct rdl__composite *j = rdl__composite_of(lock);
    struct rdl__view view = {.state = RDL_NOT_HELD};
    struct rdl__composite_record *rec;

    rdl__mutex_lock(&j->mu);
    if ((rec = record_find(j, owner)) != NULL)
        view = rdl__composite_record_view(rec, now);
    rdl__composite_unlock(j);
    return view;
}

/* ---- giving back, and losing ------------------------------------------------------------------------------------ */

bool rdl__composite_give_back(struct rdl__composite_record *rec, unsigned i)
{
    struct rdl__order order = {.verb = &rdl__verb_release,
                               .lock = rdl__member_lock(rec->composite, i),
                               .owner = rec->hold[i].owner,
                               .direct = true,
                               .owed = true,
                               .reserve = &rec->hold[i].reserve};

    rdl__assert_locked(&rec->composite->mu);
    if (rdl__call_async(&order, NULL, NULL) < 0)
        return false;
    rec->hold[i].mine--;
    return true;
}

void rdl__composite_settle(struct rdl__composite_record *rec)
{
    int64_t want = rec->lost && rec->composite->plan->majority ? 0 : rec->want;

    rdl__assert_locked(&rec->composite->mu);
    for (unsigned i = 0; i < rec->composite->member_count; i++)
        settle_member(rec, i, want);
}

/* The record whose hold at that member bears this field.  @locks mu */
static struct rdl__composite_record *record_of_field(const struct rdl__composite *j, unsigned i, const char *field)
{
    char text[RDL__FIELD_MAX + 1];

    rdl__assert_locked(&j->mu);
    for (struct rdl__link *l = j->records.next; l != &j->records; l = l->next) {
        struct rdl__composite_record *rec = rdl__container(l, struct rdl__composite_record, link);

        if (rec->hold[i].mine == 0 || rec->count == 0) /* cheap to skip: thousands may be waiting */
            continue;
        text[hold_field(text, rec, i)] = '\0';
        if (strcmp(text, field) == 0)
            return rec;
    }
    return NULL;
}

void rdl__composite_member_lost(rdl_lock_t *member, const rdl_loss_t *loss, void *arg)
{
    struct rdl__member_handle *handle = rdl__container(member, struct rdl__member_handle, as.handle);
    struct rdl__composite *j = handle->composite; /* which the member's handle keeps */
    rdl_loss_t news = *loss;
    rdl_lost_fn fn = NULL;
    struct rdl__composite_record *rec;

    rdl__mutex_lock(&j->mu);
    if ((rec = record_of_field(j, handle->index, loss->owner)) != NULL) {
        struct rdl__view view = rdl__composite_record_view(rec, rdl__now());

        news.member = member;
        news.state = view.state == RDL_LOST ? RDL_LOST : RDL_AT_RISK;
        news.remaining_ms = view.valid_ns / RDL__MS;
        if (loss->state == RDL_LOST || news.state != RDL_LOST) /* else this was a risk, and is told as a loss next */
            fn = j->handle.fn;
        arg = j->handle.arg;
        rdl__composite_settle(rec);
    }
    rdl__composite_unlock(j);
    if (fn != NULL)
        fn(&j->handle, &news, arg);
}
