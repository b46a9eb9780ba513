/* SPDX-License-Identifier: MIT */
/* composite.c - making a composite: its members, their order, its name.
 *
 * The members are checked, put in the order in which their locks are taken, and named; all of that is immutable
 * afterwards. The home of a composite is the client of the member that was given first: there its callbacks run and its
 * timers go off.
 */
#include "locks/composite/composite.h"

#include "core/base/err.h"

#include <stdlib.h>
#include <string.h>

void rdl__composite_unref(struct rdl__composite *j)
{
    rdl_client_t *home = j->home;

    if (atomic_fetch_sub_explicit(&j->handle.refs, 1, memory_order_acq_rel) != 1)
        return;
    rdl__mutex_done(&j->mu);
    rdl__free(&home->mem, j, j->size);
    rdl__client_unref(home);
}

struct rdl__composite *rdl__composite_ref(struct rdl__composite *j)
{
    atomic_fetch_add_explicit(&j->handle.refs, 1, memory_order_relaxed);
    return j;
}

static void member_gone(rdl_lock_t *member)
{
    rdl__composite_unref(rdl__container(member, struct rdl__member_handle, as.handle)->composite);
}

/* The order in which all multi-locks take what they have in common: by name, then by server. */
static int by_order(const void *one, const void *other)
{
    const struct rdl__name *a = (*(rdl_lock_t *const *)one)->name, *b = (*(rdl_lock_t *const *)other)->name;
    size_t shorter = a->node.key_len < b->node.key_len ? a->node.key_len : b->node.key_len;
    int order = memcmp(a->bytes, b->bytes, shorter);

    if (order == 0 && a->node.key_len != b->node.key_len)
        order = a->node.key_len < b->node.key_len ? -1 : 1;
    return order != 0 ? order : strcmp(rdl__client_label(a->client), rdl__client_label(b->client));
}

struct rdl__site rdl__composite_site(const struct rdl__name *name)
{
    struct rdl__node *node = &rdl__name_shard(name)->node;

    return (struct rdl__site){.run = atomic_load(&node->run), .label = rdl__hash(node->label, strlen(node->label))};
}

bool rdl__composite_one_server(struct rdl__site a, struct rdl__site b)
{
    return (a.run != 0 && a.run == b.run) || a.label == b.label;
}

/* The client may be closing while the composite is made. */
static int member_site(const rdl_lock_t *member, struct rdl__site *ret)
{
    int rc = rdl__client_call_begins(member->name->client);

    if (rc < 0)
        return rc;
    *ret = rdl__composite_site(member->name);
    rdl__client_call_ends(member->name->client);
    return RDL_OK;
}

/* Are two names of different clients equal, in databases of the same number? */
static bool same_text(const struct rdl__name *a, const struct rdl__name *b)
{
    return a->client != b->client && a->node.key_len == b->node.key_len &&
           memcmp(a->bytes, b->bytes, a->node.key_len) == 0 &&
           a->client->home.node.uri.db == b->client->home.node.uri.db;
}

/* Are they one lock, as far as their servers are known?  RDL_EDEADLK: yes. RDL_OK: no. RDL_ECLOSED */
static int same_lock(const rdl_lock_t *a, const rdl_lock_t *b)
{
    struct rdl__site one, other;
    int rc;

    if (!same_text(a->name, b->name))
        return RDL_OK;
    if ((rc = member_site(a, &one)) < 0 || (rc = member_site(b, &other)) < 0)
        return rc;
    return rdl__composite_one_server(one, other) ? RDL_EDEADLK : RDL_OK;
}

int rdl__composite_check_duplicates(struct rdl__composite *j, rdl_err_t *err)
{
    for (unsigned i = 1; j->duplicates && i < j->member_count; i++)
        for (unsigned k = i; k-- > 0 && same_text(rdl__member_lock(j, k)->name, rdl__member_lock(j, i)->name);)
            if (same_lock(rdl__member_lock(j, k), rdl__member_lock(j, i)) == RDL_EDEADLK)
                return rdl__err_set(err, RDL_EDEADLK, "two members are the same lock, at one server by two clients");
    return RDL_OK;
}

/* Twice the same lock would wait for itself or count twice; two votes of one server are no majority, nor are votes that
 * each server gives to many at a time. */
static int check_members(const struct rdl__plan_ops *plan, rdl_lock_t *const *members, size_t n, rdl_err_t *err)
{
    struct rdl__site site[RDL__COMPOSITE_MAX];
    int rc;

    for (size_t i = 0; i < n; i++) {
        if (members[i]->ops->handle->has_members)
            return rdl__err_set(err, RDL_EINVAL, "member %zu is a %s lock itself", i, members[i]->ops->name);
        if (members[i]->name->settings.on_outage == RDL_OUTAGE_LOCAL)
            return rdl__err_set(err, RDL_EINVAL,
                                "member %zu is RDL_OUTAGE_LOCAL: it could be held when the others are not", i);
        if (members[i]->ops->handle->cached)
            return rdl__err_set(err, RDL_EINVAL, "member %zu is a %s lock with cache_ms, which no composite keeps", i,
                                members[i]->ops->name);
        if (plan->majority && rdl__news_shares(members[i]->ops->news))
            return rdl__err_set(err, RDL_EINVAL,
                                "member %zu is a %s lock: a red lock wants members that exclude each other", i,
                                members[i]->ops->name);
        if (plan->majority && (rc = member_site(members[i], &site[i])) < 0)
            return rdl__err_set(err, rc, NULL);
        for (size_t k = 0; k < i; k++) {
            if (members[k]->name == members[i]->name)
                return rdl__err_set(err, RDL_EINVAL, "members %zu and %zu are the same lock", k, i);
            if (!plan->majority && (rc = same_lock(members[k], members[i])) < 0)
                return rdl__err_set(err, rc == RDL_EDEADLK ? RDL_EINVAL : rc,
                                    "members %zu and %zu are the same lock, at one server by two clients", k, i);
            if (plan->majority && rdl__composite_one_server(site[k], site[i]))
                return rdl__err_set(err, RDL_EINVAL,
                                    "members %zu and %zu are of one server: a red lock wants servers that"
                                    " fail independently",
                                    k, i);
        }
    }
    return RDL_OK;
}

static size_t name_size(rdl_lock_t *const *members, size_t n)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += members[i]->name->node.key_len + 1;
    return size;
}

static void join_names(struct rdl__composite *j)
{
    for (unsigned i = 0; i < j->member_count; i++) {
        const struct rdl__name *name = rdl__member_lock(j, i)->name;

        if (i > 0)
            j->name[j->name_len++] = '+';
        memcpy(j->name + j->name_len, name->bytes, name->node.key_len);
        j->name_len += name->node.key_len;
    }
    j->name[j->name_len] = '\0';
}

/* Members' losses are the composite's to tell.  @locks none */
static int members_tell(rdl_lock_t *const *members, size_t n)
{
    int rc = RDL_OK;

    for (size_t i = 0; i < n && rc == RDL_OK; i++) {
        rdl__mutex_lock(&members[i]->name->mu);
        rc = rdl__name_tells(members[i]->name);
        rdl__mutex_unlock(&members[i]->name->mu);
    }
    return rc;
}

static void add_members(struct rdl__composite *j, const struct rdl__composite_kind *kind, rdl_lock_t *const *members)
{
    rdl_lock_t *order[RDL__COMPOSITE_MAX];

    memcpy(order, members, j->member_count * sizeof order[0]);
    if (!j->plan->majority)
        qsort(order, j->member_count, sizeof order[0], by_order);
    for (unsigned i = 0; i < j->member_count; i++) {
        struct rdl__member_handle *member = &j->member[i];

        member->composite = rdl__composite_ref(j);
        member->index = i;
        member->as.let_go = member_gone;
        member->as.handle.embedded = true;
        member->as.handle.fn = kind->member_lost;
        rdl__handle_copy(order[i], &member->as.handle);
        if (order[i] == members[0])
            j->home_member = i;
        j->duplicates |= !j->plan->majority && i > 0 && same_text(order[i - 1]->name, order[i]->name);
    }
}

int rdl__composite_make(const struct rdl__composite_kind *kind, rdl_lock_t *const *members, size_t n,
                        const struct rdl__composite_options *options, rdl_lock_t **ret_lock, rdl_err_t *err)
{
    rdl_client_t *home = rdl__lock_client(members[0]);
    int rc = check_members(kind->plan, members, n, err);
    struct rdl__composite *j;
    size_t head, size;

    if (rc < 0)
        return rc;
    head = sizeof *j + n * sizeof j->member[0];
    size = head + name_size(members, n);
    if ((rc = members_tell(members, n)) < 0)
        return rdl__err_set(err, rc, NULL);
    if ((j = rdl__zalloc(&home->mem, size)) == NULL)
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    if (rdl__mutex_init(&j->mu) < 0) {
        rdl__free(&home->mem, j, size);
        return rdl__err_set(err, RDL_ENOMEM, NULL);
    }
    atomic_init(&j->handle.refs, 1);
    j->handle.ops = &kind->type;
    j->plan = kind->plan;
    j->options = *options;
    j->home = rdl__client_ref(home);
    j->member_count = (unsigned)n;
    j->quorum = j->plan->majority ? j->member_count / 2 + 1 : j->member_count;
    j->size = size;
    j->call_size = kind->call_size(j->member_count);
    j->name = (char *)j + head;
    rdl__list_init(&j->records);
    rdl__list_init(&j->spent);
    rdl__list_init(&j->listening);
    add_members(j, kind, members);
    join_names(j);
    *ret_lock = &j->handle;
    return RDL_OK;
}

const char *rdl__composite_tokenless(const rdl_lock_t *lock)
{
    const struct rdl__composite *j = rdl__composite_of(lock);

    if (!j->plan->majority)
        return "a multi-lock has no token of its own: each of its members may have one";
    for (unsigned i = 0; i < j->member_count; i++)
        if (rdl__member_lock(j, i)->name->settings.fencing != RDL_FENCING_TIME)
            return "a red lock has a token only if all its members were made with RDL_FENCING_TIME: counters of several"
                   " servers do not grow together";
    return NULL;
}
