/* SPDX-License-Identifier: MIT */
/* inspect.c - the public questions about one lock: look at its keys (look.c), then ask who its holders are (who.c). */
#include "core/base/err.h"
#include "core/call/handle.h"
#include "core/wire/names.h"
#include "inspect/ask.h"
#include "inspect/look.h"
#include "inspect/who.h"

#include <redlatch/redlatch.h>

#include <string.h>

static void put(void *arg, unsigned i, struct rdl__buf *to, bool eval)
{
    (void)i;
    rdl__look_put(arg, to, eval);
}

static void take(void *arg, unsigned i, const struct rdl__reply *reply)
{
    (void)i;
    rdl__look_take(arg, reply);
}

/* Look, and make of what went wrong an error about that name. */
static int look_at(struct rdl__look *look, rdl_err_t *err)
{
    const struct rdl__ask ask = {.commands = 1, .put = put, .take = take, .arg = look};
    unsigned slot = rdl__ask_slot_of(look->client, look->name, look->len);
    char printable[96];
    int rc = rdl__ask_slot(look->client, slot, &ask, err);

    if (rc == RDL_OK && look->rc == RDL_ESERVER)
        rc = rdl__ask_refused(rdl__client_label(look->client), look->words, err);
    else if (rc == RDL_OK && look->rc == RDL_EINVAL) {
        (void)rdl__printable(printable, sizeof printable, look->name, look->len);
        rc = rdl__err_set(err, RDL_EINVAL, "'%s' is no lock: it is %s", printable, look->words);
    } else if (rc == RDL_OK && look->rc < 0) {
        rc = rdl__err_set(err, look->rc, NULL);
    }
    if (rc < 0) {
        rdl__err_where(err, NULL, look->name, look->len);
        look->made = rdl_inspection_free(look->made);
    }
    return rc;
}

static void describe(rdl_inspection_t *inspection, rdl_client_t *client)
{
    struct rdl__who who;

    if (rdl__who_init(&who, client) < 0)
        return;
    rdl__who_want(&who, inspection);
    rdl__who_ask(&who);
    rdl__who_tell(&who, inspection);
    rdl__who_done(&who);
}

/* The whole question, of a client that stays whole meanwhile. RDL_OK: look->made is the caller's. */
static int inspect(struct rdl__look *look, rdl_err_t *err)
{
    int rc;

    if ((rc = rdl__client_blocking_visit_begins(look->client, err)) < 0)
        return rc;
    if ((rc = look_at(look, err)) == RDL_OK)
        describe(look->made, look->client);
    rdl__client_visit_ends(look->client);
    return rc;
}

/* ---- of a handle ------------------------------------------------------------------------------------------------ */

/* What is looked at for each type, so that its own rights and those for looking are enough. */
static const struct type {
    const char *name;
    unsigned beside, heard;
    bool any_value;
} types[] = {
    {"fenced", RDL__BESIDE_TOKEN, 1u << RDL__HEARD_LOCK, false},
    {"fair", RDL__BESIDE_QUEUE | RDL__BESIDE_SIGNS, 0, false},
    {"read", 0, 1u << RDL__HEARD_READWRITE, false},
    {"write", 0, 1u << RDL__HEARD_READWRITE, false},
    {"simple", 0, 1u << RDL__HEARD_SIMPLE, true},
    {NULL, 0, 1u << RDL__HEARD_LOCK, false},
};

static int look_by_handle(const rdl_lock_t *lock, size_t room, bool hear, struct rdl__look *look, rdl_err_t *err)
{
    const struct type *type = types;

    if (lock == NULL)
        return rdl__err_set(err, RDL_EINVAL, "lock is NULL");
    if (lock->ops->handle->has_members)
        return rdl__err_set(err, RDL_EINVAL,
                            "a lock that is made of several has no holders of its own: ask its members");
    while (type->name != NULL && strcmp(type->name, lock->ops->name) != 0)
        type++;
    *look = (struct rdl__look){
        .client = rdl__lock_client(lock),
        .beside = type->beside,
        .heard = hear ? type->heard : 0,
        .any_value = type->any_value,
        .most = room == 0                ? 1
                : room < RDL_INSPECT_MAX ? (unsigned)room
                                         : RDL_INSPECT_MAX,
    };
    look->name = rdl__lock_name(lock, &look->len);
    return inspect(look, err);
}

int64_t rdl_holders(rdl_lock_t *lock, rdl_holder_t *ret_holders, size_t room, rdl_err_t *err)
{
    struct rdl__look look;
    int64_t holders;
    int rc;

    if (ret_holders == NULL && room > 0)
        return rdl__err_set(err, RDL_EINVAL, "ret_holders is NULL");
    if ((rc = look_by_handle(lock, room, false, &look, err)) < 0)
        return rc;
    holders = look.made->holders;
    for (size_t i = 0; i < look.made->holder_count && i < room; i++)
        ret_holders[i] = look.made->holder[i];
    (void)rdl_inspection_free(look.made);
    return holders;
}

int64_t rdl_waiters(rdl_lock_t *lock, rdl_waiter_t *ret_waiters, size_t room, size_t *ret_listed, rdl_err_t *err)
{
    struct rdl__look look;
    int64_t waiters;
    size_t listed;
    int rc;

    if (ret_waiters == NULL && room > 0)
        return rdl__err_set(err, RDL_EINVAL, "ret_waiters is NULL");
    if ((rc = look_by_handle(lock, room, true, &look, err)) < 0)
        return rc;
    waiters = look.heard == 0 && look.made->waiters < 0 ? 0 : look.made->waiters; /* who waits would be in its queue */
    listed = look.made->waiter_count < room ? look.made->waiter_count : room;
    for (size_t i = 0; i < listed; i++)
        ret_waiters[i] = look.made->waiter[i];
    (void)rdl_inspection_free(look.made);
    if (waiters < 0)
        return rdl__ask_refused(rdl__client_label(look.client), "NOPERM PUBSUB NUMSUB", err);
    if (ret_listed != NULL)
        *ret_listed = listed;
    return waiters;
}

/* ---- of a name -------------------------------------------------------------------------------------------------- */

int rdl_inspect(rdl_client_t *client, const char *name, size_t name_len, rdl_inspection_t **ret_inspection,
                rdl_err_t *err)
{
    struct rdl__look look = {
        .client = client, .name = name, .beside = RDL__BESIDE_ALL, .heard = RDL__HEARD_ALL, .most = RDL_INSPECT_MAX};
    int rc;

    if (client == NULL || name == NULL || ret_inspection == NULL)
        return rdl__err_set(err, RDL_EINVAL, "%s is NULL",
                            client == NULL ? "client"
                            : name == NULL ? "name"
                                           : "ret_inspection");
    look.len = name_len != 0 ? name_len : strnlen(name, RDL_NAME_MAX + 1);
    if (look.len == 0 || look.len > RDL_NAME_MAX)
        return rdl__err_set(err, RDL_EINVAL, "the name has %s", look.len == 0 ? "no bytes" : "too many bytes");
    if (client->map != NULL && !rdl__name_one_slot(name, look.len))
        return rdl__err_set(err, RDL_EINVAL, "the keys of a lock of that name would lie in several slots of a cluster");
    if ((rc = inspect(&look, err)) == RDL_OK)
        *ret_inspection = look.made;
    return rc;
}
