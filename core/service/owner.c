/* SPDX-License-Identifier: MIT */
/* owner.c - threads and their owners.
 *
 * A thread has a slot for each client: a small block that thread and owner share, so that either may end first. It is
 * memory of the C library because the client may be gone when the thread ends. A thread-local pointer has the list of
 * slots; one process-wide key exists only for its destructor, which runs when a thread ends. That key is the library's
 * only global.
 *
 * Locks: a slot's mutex is taken before an owner's. The client's owners_mu is never held together with a slot's.
 */
#include "core/service/owner.h"

#include "core/base/err.h"
#include "core/service/life.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rdl__thread_slot {
    struct rdl__thread_slot *next; /* the thread's list; thread only */
    uint64_t serial;               /* the client's: an address may be used again */
    pid_t pid;                     /* of the process that made it */
    rdl_owner_t *bound;            /* thread only; a reference */
    struct rdl__mutex mu;
    rdl_owner_t *own; /* under mu; a reference; NULL: the client is closed, or the thread gone */
    _Atomic int refs; /* thread, owner */
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;
static _Thread_local struct rdl__thread_slot *slots;

static void slot_unref(struct rdl__thread_slot *slot)
{
    if (atomic_fetch_sub_explicit(&slot->refs, 1, memory_order_acq_rel) != 1)
        return;
    rdl__mutex_done(&slot->mu);
    free(slot);
}

/* The owner is gone: orphan its records. */
static void owner_gone(rdl_owner_t *owner)
{
    struct rdl__link *l;

    for (;;) {
        struct rdl__owner_link *owner_link;

        rdl__mutex_lock(&owner->mu);
        owner->gone = true;
        l = rdl__list_pop(&owner->links);
        rdl__mutex_unlock(&owner->mu);
        if (l == NULL)
            return;
        owner_link = rdl__container(l, struct rdl__owner_link, link);
        owner_link->orphan(owner_link);
    }
}

/* What becomes of the owner's holds is told to the user, so that is not done under the mutex, but as a call that a
 * closing client waits for. Where none begins any more they are left to their leases, as by the client itself. */
static void slot_leave(struct rdl__thread_slot *slot)
{
    rdl_client_t *client = NULL;
    rdl_owner_t *own;

    if (slot->bound != NULL)
        rdl__owner_unref(slot->bound);
    rdl__mutex_lock(&slot->mu);
    own = slot->own;
    slot->own = NULL;
    if (own != NULL && rdl__client_debt_begins(own->client) == RDL_OK)
        client = rdl__client_ref(own->client);
    rdl__mutex_unlock(&slot->mu);
    if (client != NULL)
        owner_gone(own);
    if (own != NULL)
        rdl__owner_unref(own);
    if (client != NULL) {
        rdl__client_call_ends(client);
        rdl__client_unref(client);
    }
    slot_unref(slot);
}

static void thread_ends(void *arg)
{
    struct rdl__thread_slot *slot;

    (void)arg;
    while ((slot = slots) != NULL) {
        slots = slot->next;
        if (slot->pid == getpid()) /* else it is the parent process's, as in prune */
            slot_leave(slot);
    }
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, thread_ends) == 0;
}

/* @locks takes slot->mu */
static bool was_closed(struct rdl__thread_slot *slot)
{
    bool closed;

    rdl__mutex_lock(&slot->mu);
    closed = slot->own == NULL;
    rdl__mutex_unlock(&slot->mu);
    return closed;
}

/* Drop the slots of clients that were closed, and those from before a fork: those are the parent process's, and their
 * mutexes may be locked for ever. */
static void prune(void)
{
    struct rdl__thread_slot **at = &slots, *slot;
    const pid_t here = getpid();

    while ((slot = *at) != NULL) {
        bool ours = slot->pid == here;

        if (ours && !was_closed(slot)) {
            at = &slot->next;
            continue;
        }
        *at = slot->next;
        if (ours)
            slot_leave(slot);
    }
}

static rdl_owner_t *owner_make(rdl_client_t *client, struct rdl__thread_slot *slot)
{
    rdl_owner_t *owner = rdl__zalloc(&client->mem, sizeof *owner);

    if (owner == NULL)
        return NULL;
    if (rdl__mutex_init(&owner->mu) < 0) {
        rdl__free(&client->mem, owner, sizeof *owner);
        return NULL;
    }
    owner->client = rdl__client_ref(client);
    owner->slot = slot;
    atomic_init(&owner->refs, 1);
    rdl__list_init(&owner->links);
    rdl__list_init(&owner->calls);
    rdl__mutex_lock(&client->owners_mu);
    owner->index = client->owner_count++;
    owner->lane = (unsigned char)(owner->index % client->home.lane_count);
    rdl__list_push_back(&client->owners, &owner->link);
    rdl__mutex_unlock(&client->owners_mu);
    return owner;
}

static struct rdl__thread_slot *slot_make(rdl_client_t *client)
{
    struct rdl__thread_slot *slot;

    prune();
    (void)pthread_once(&key_once, make_key);
    if (!key_made || pthread_setspecific(key, &slots) != 0 || (slot = calloc(1, sizeof *slot)) == NULL)
        return NULL;
    if (rdl__mutex_init(&slot->mu) < 0) {
        free(slot);
        return NULL;
    }
    slot->serial = client->serial;
    slot->pid = getpid();
    atomic_init(&slot->refs, 2);
    if ((slot->own = owner_make(client, slot)) == NULL) {
        rdl__mutex_done(&slot->mu);
        free(slot);
        return NULL;
    }
    slot->next = slots;
    slots = slot;
    return slot;
}

static struct rdl__thread_slot *slot_of(const rdl_client_t *client)
{
    struct rdl__thread_slot *slot = slots;

    while (slot != NULL && slot->serial != client->serial)
        slot = slot->next;
    return slot;
}

static rdl_owner_t *owner_in(const struct rdl__thread_slot *slot)
{
    return slot->bound != NULL ? slot->bound : slot->own;
}

int rdl__owner_self(rdl_client_t *client, rdl_owner_t **ret_owner)
{
    struct rdl__thread_slot *slot = slot_of(client);

    if (slot == NULL && (slot = slot_make(client)) == NULL)
        return RDL_ENOMEM;
    *ret_owner = owner_in(slot);
    return *ret_owner == NULL ? RDL_ECLOSED : RDL_OK;
}

rdl_owner_t *rdl__owner_here(const rdl_client_t *client)
{
    const struct rdl__thread_slot *slot = slot_of(client);

    return slot == NULL ? NULL : owner_in(slot);
}

void rdl__owner_unused(rdl_owner_t *owner)
{
    rdl_client_t *client = owner->client;

    if (owner->slot != NULL)
        slot_unref(owner->slot);
    rdl__mutex_lock(&client->owners_mu);
    rdl__list_remove(&owner->link);
    rdl__mutex_unlock(&client->owners_mu);
    for (int i = 0; i < 2; i++)
        rdl__free(&client->mem, atomic_load(&owner->spares[i]), owner->spare_size);
    rdl__mutex_done(&owner->mu);
    rdl__free(&client->mem, owner, sizeof *owner);
    rdl__client_unref(client);
}

bool rdl__owner_link_add(rdl_owner_t *owner, struct rdl__owner_link *owner_link)
{
    bool gone;

    rdl__mutex_lock(&owner->mu);
    gone = owner->gone;
    if (!gone)
        rdl__list_push_back(&owner->links, &owner_link->link);
    rdl__mutex_unlock(&owner->mu);
    return !gone;
}

bool rdl__owner_link_remove(rdl_owner_t *owner, struct rdl__owner_link *owner_link)
{
    bool linked;

    rdl__mutex_lock(&owner->mu);
    linked = rdl__link_on(&owner_link->link);
    rdl__list_remove(&owner_link->link);
    rdl__mutex_unlock(&owner->mu);
    return linked;
}

/* A closing client cancels all calls once: a call that begins after that sees `closing`. */
void rdl__owner_begin(rdl_owner_t *owner, struct rdl__underway *call)
{
    rdl__mutex_lock(&owner->mu);
    rdl__list_push_back(&owner->calls, &call->link);
    if (atomic_load(&owner->client->closing))
        call->cancel(call, RDL_ECLOSED);
    rdl__mutex_unlock(&owner->mu);
}

void *rdl__owner_take_spare(rdl_owner_t *owner, size_t size, bool *ret_fresh)
{
    void *block = atomic_exchange_explicit(&owner->spares[0], NULL, memory_order_acquire);

    if (block == NULL)
        block = atomic_exchange_explicit(&owner->spares[1], NULL, memory_order_acquire);
    *ret_fresh = block == NULL;
    return block != NULL ? block : rdl__alloc(&owner->client->mem, size);
}

void rdl__owner_give_spare(rdl_owner_t *owner, void *block, size_t size)
{
    owner->spare_size = size;
    for (int i = 0; i < 2; i++) {
        void *none = NULL;

        if (atomic_compare_exchange_strong_explicit(&owner->spares[i], &none, block, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
    rdl__free(&owner->client->mem, block, size);
}

static int cancel_calls(rdl_owner_t *owner, int code)
{
    int n = 0;

    rdl__mutex_lock(&owner->mu);
    for (struct rdl__link *l = owner->calls.next; l != &owner->calls; l = l->next) {
        struct rdl__underway *call = rdl__container(l, struct rdl__underway, link);

        call->cancel(call, code);
        n++;
    }
    rdl__mutex_unlock(&owner->mu);
    return n;
}

int rdl__owners_cancel(rdl_client_t *client, int code)
{
    int n = 0;

    rdl__mutex_lock(&client->owners_mu);
    for (struct rdl__link *l = client->owners.next; l != &client->owners; l = l->next)
        n += cancel_calls(rdl__container(l, rdl_owner_t, link), code);
    rdl__mutex_unlock(&client->owners_mu);
    return n;
}

/* Take a reference, unless the last one is gone and the owner is about to leave the client's list. */
static bool ref_if_any(rdl_owner_t *owner)
{
    unsigned refs = atomic_load_explicit(&owner->refs, memory_order_relaxed);

    while (refs != 0)
        if (atomic_compare_exchange_weak_explicit(&owner->refs, &refs, refs + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* The next owner that is still attached to its thread's slot, with a reference; NULL: none. */
static rdl_owner_t *next_attached(rdl_client_t *client)
{
    rdl_owner_t *found = NULL;

    rdl__mutex_lock(&client->owners_mu);
    for (struct rdl__link *l = client->owners.next; l != &client->owners && found == NULL; l = l->next) {
        rdl_owner_t *owner = rdl__container(l, rdl_owner_t, link);

        if (owner->slot != NULL && !owner->withdrawn && ref_if_any(owner)) {
            owner->withdrawn = true;
            found = owner;
        }
    }
    rdl__mutex_unlock(&client->owners_mu);
    return found;
}

void rdl__owners_close(rdl_client_t *client)
{
    rdl_owner_t *owner;

    while ((owner = next_attached(client)) != NULL) {
        struct rdl__thread_slot *slot = owner->slot;
        bool ours;

        rdl__mutex_lock(&slot->mu);
        ours = slot->own == owner; /* else its thread has just ended */
        slot->own = NULL;
        rdl__mutex_unlock(&slot->mu);
        if (ours)
            rdl__owner_unref(owner);
        rdl__owner_unref(owner);
    }
}

/* ---- owner.h ---------------------------------------------------------------------------------------------------- */

int rdl_owner_new(rdl_client_t *client, rdl_owner_t **ret_owner, rdl_err_t *err)
{
    rdl_owner_t *owner;
    int rc;

    if (client == NULL || ret_owner == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL", client == NULL ? "client" : "ret_owner");
    if ((rc = rdl__client_check(client, err)) < 0)
        return rc;
    if ((owner = owner_make(client, NULL)) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    *ret_owner = owner;
    return RDL_OK;
}

rdl_owner_t *rdl_owner_free(rdl_owner_t *owner)
{
    if (owner == NULL || rdl__client_forked(owner->client))
        return NULL;
    owner_gone(owner);
    rdl__owner_unref(owner);
    return NULL;
}

int rdl_owner_bind(rdl_owner_t *owner, rdl_err_t *err)
{
    struct rdl__thread_slot *slot;
    int rc;

    if (owner == NULL)
        return rdl__err_set(err, RDL_EINVAL, "owner is NULL");
    if ((rc = rdl__client_check(owner->client, err)) < 0)
        return rc;
    if ((slot = slot_of(owner->client)) == NULL && (slot = slot_make(owner->client)) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    (void)rdl__owner_ref(owner);
    if (slot->bound != NULL)
        rdl__owner_unref(slot->bound);
    slot->bound = owner;
    return RDL_OK;
}

void rdl_owner_unbind(rdl_client_t *client)
{
    struct rdl__thread_slot *slot;

    if (client == NULL || rdl__client_forked(client) || (slot = slot_of(client)) == NULL || slot->bound == NULL)
        return;
    rdl__owner_unref(slot->bound);
    slot->bound = NULL;
}

int rdl_owner_cancel(rdl_owner_t *owner)
{
    int rc;

    if (owner == NULL)
        return RDL_EINVAL;
    if ((rc = rdl__client_check(owner->client, NULL)) < 0)
        return rc == RDL_ECLOSED ? 0 : rc;
    return cancel_calls(owner, RDL_ECANCELED);
}
