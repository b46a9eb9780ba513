/* SPDX-License-Identifier: MIT */
/* name.c - names, by which a client finds the locks that it has, and their handles. */
#include "core/call/name.h"

#include "core/base/err.h"
#include "core/call/handle.h"
#include "core/call/line.h"
#include "core/wire/names.h"

#include <string.h>

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
    rdl__record_free(client, name->spare);
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
           a->replicas_if_able == b->replicas_if_able && a->on_outage == b->on_outage && a->detaches == b->detaches;
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
    lock->serial = ++lock->name->next_serial;
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

rdl_lock_t *rdl__name_any_handle(struct rdl__name *name)
{
    struct rdl__link *l = rdl__list_first(&name->handles);

    rdl__assert_locked(&name->mu);
    return l == NULL ? NULL : rdl__handle_ref(rdl__container(l, rdl_lock_t, link));
}

void rdl__handle_drop(rdl_lock_t *lock)
{
    struct rdl__name *name = lock->name;
    rdl_client_t *client = name->client;
    bool last;

    rdl__line_dropped(name); /* first: its undo needs a handle that is on the list */
    rdl__mutex_lock(&name->mu);
    lock->fn = NULL;
    rdl__list_remove(&lock->link);
    rdl__mutex_unlock(&name->mu);
    rdl__mutex_lock(&client->names_mu);
    last = --name->handle_count == 0;
    if (last)
        rdl__table_remove(&client->names, &name->node);
    rdl__mutex_unlock(&client->names_mu);
    if (last && rdl__news_linger_ms(name->ops->news) > 0)
        rdl__client_sweep(client);
    if (last)
        rdl__record_forget_all(name);
    rdl__handle_unref(lock);
}
