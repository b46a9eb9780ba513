/* SPDX-License-Identifier: MIT */
/* test_record.c - records: what an owner has of a name, looked up among many, kept for the next verb, and let go when
 * the owner, the handles or the client go.
 *
 * The client is a real one, and lazy: nobody is there, and nothing is sent. The tests do what the verb in flight does.
 */
#include "core/call/record.h"
#include "tests/support/counting_alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define LEASE_MS 60000

static struct counting_alloc counting;
static rdl_client_t *client;
static rdl_lock_t *lock;
static struct rdl__name *name;

static void set_up(void)
{
    rdl_allocator_t hooks = counting_alloc_init(&counting);
    rdl_client_options_t options = {.version = RDL_CLIENT_OPTIONS_VERSION, .lazy = true, .allocator = &hooks};

    cr_assert_eq(rdl_client_open("redis://127.0.0.1:1", &options, &client, NULL), RDL_OK);
    cr_assert_eq(rdl_reentrant_lock(client, "orders", NULL, &lock, NULL), RDL_OK);
    name = lock->name;
}

static void tear_down(void)
{
    rdl_lock_free(lock);
    client = rdl_client_close(client);
    cr_assert_eq(counting_alloc_blocks(&counting), 0, "%d blocks are left", (int)counting_alloc_blocks(&counting));
    counting_alloc_done(&counting);
}

TestSuite(record, .init = set_up, .fini = tear_down, .timeout = 60);

static rdl_owner_t *new_owner(void)
{
    rdl_owner_t *owner = NULL;

    cr_assert_eq(rdl_owner_new(client, &owner, NULL), RDL_OK);
    return owner;
}

static struct rdl__record *make(rdl_owner_t *owner)
{
    struct rdl__record *rec;

    rdl__mutex_lock(&name->mu);
    cr_assert_eq(rdl__record_make(name, owner, lock->ops, &rec), RDL_OK);
    rdl__mutex_unlock(&name->mu);
    return rec;
}

static struct rdl__record *find(rdl_owner_t *owner)
{
    struct rdl__record *rec;

    rdl__mutex_lock(&name->mu);
    rec = rdl__record_find(name, owner, lock->ops);
    rdl__mutex_unlock(&name->mu);
    return rec;
}

static void retire(struct rdl__record *rec)
{
    rdl__mutex_lock(&name->mu);
    rdl__record_retire_and_unlock(rec);
}

static struct rdl__view view(rdl_owner_t *owner)
{
    return rdl__record_view(name, owner, lock->ops, rdl__now());
}

/* As a verb that was granted hold `n` has it. */
static struct rdl__record *hold(rdl_owner_t *owner, int64_t n, int32_t count)
{
    struct rdl__record *rec = make(owner);

    cr_assert_not_null(rec);
    rec->hold.id.n = n;
    rec->hold.id.token = 10 * n;
    rdl__watchdog_add(client->watchdog, &rec->hold, rdl__now(), LEASE_MS, false);
    rdl__record_set_count(rec, count);
    return rec;
}

static void give_back(struct rdl__record *rec)
{
    rdl__record_set_count(rec, 0);
    (void)rdl__watchdog_remove(client->watchdog, &rec->hold, rdl__now());
    retire(rec);
}

static size_t records(void)
{
    size_t n = 0;

    rdl__mutex_lock(&name->mu);
    for (struct rdl__link *l = name->records.next; l != &name->records; l = l->next)
        n++;
    rdl__mutex_unlock(&name->mu);
    return n;
}

/* ---- views ------------------------------------------------------------------------------------------------------ */

Test(record, view_of_what_is_not_held_says_so_with_and_without_a_record)
{
    rdl_owner_t *owner = new_owner();
    struct rdl__record *rec;

    cr_assert_eq(view(owner).state, RDL_NOT_HELD);
    rec = make(owner);
    cr_assert_eq(view(owner).state, RDL_NOT_HELD);
    cr_assert_eq(view(owner).count, 0);
    retire(rec);
    rdl_owner_free(owner);
}

Test(record, view_tells_the_owners_own_hold_and_nobody_elses)
{
    rdl_owner_t *owner = new_owner(), *other = new_owner();
    struct rdl__record *rec = hold(owner, 7, 2), *others = hold(other, 8, 1);
    struct rdl__view seen = view(owner);

    cr_assert_eq(seen.state, RDL_HELD);
    cr_assert_eq(seen.count, 2);
    cr_assert_eq(seen.n, 7);
    cr_assert_eq(seen.token, 70);
    cr_assert(seen.valid_ns > 0 && seen.valid_ns < LEASE_MS * RDL__MS);
    cr_assert_eq(view(other).n, 8);
    give_back(rec);
    cr_assert_eq(view(owner).state, RDL_NOT_HELD);
    cr_assert_eq(view(other).state, RDL_HELD);
    give_back(others);
    rdl_owner_free(owner);
    rdl_owner_free(other);
}

/* ---- many ------------------------------------------------------------------------------------------------------- */

/* So many that they are looked for on the owner's list as well. */
Test(record, each_owner_of_many_finds_its_own)
{
    enum { MANY = 200 };
    rdl_owner_t *owners[MANY];
    struct rdl__record *recs[MANY];
    rdl_owner_t *stranger = new_owner();

    for (int i = 0; i < MANY; i++)
        recs[i] = hold(owners[i] = new_owner(), i + 1, 1);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(find(owners[i]), recs[i]);
    cr_assert_null(find(stranger));
    for (int i = 0; i < MANY; i++) {
        give_back(recs[i]);
        rdl_owner_free(owners[i]);
    }
    rdl_owner_free(stranger);
    cr_assert_leq(records(), 1);
}

Test(record, owner_of_many_names_finds_the_record_of_each)
{
    enum { MANY = 100 };
    rdl_owner_t *owner = new_owner();
    rdl_lock_t *locks[MANY];
    struct rdl__record *recs[MANY];

    for (int i = 0; i < MANY; i++) {
        char text[16];

        (void)snprintf(text, sizeof text, "job:%d", i);
        cr_assert_eq(rdl_reentrant_lock(client, text, NULL, &locks[i], NULL), RDL_OK);
        rdl__mutex_lock(&locks[i]->name->mu);
        cr_assert_eq(rdl__record_make(locks[i]->name, owner, locks[i]->ops, &recs[i]), RDL_OK);
        rdl__mutex_unlock(&locks[i]->name->mu);
    }
    for (int i = 0; i < MANY; i++) {
        rdl__mutex_lock(&locks[i]->name->mu);
        cr_assert_eq(rdl__record_find(locks[i]->name, owner, locks[i]->ops), recs[i]);
        rdl__mutex_unlock(&locks[i]->name->mu);
    }
    cr_assert_null(find(owner));
    rdl_owner_free(owner); /* none is held: they go */
    for (int i = 0; i < MANY; i++) {
        cr_assert(rdl__list_empty(&locks[i]->name->records));
        rdl_lock_free(locks[i]);
    }
}

/* ---- kept, and let go ------------------------------------------------------------------------------------------- */

Test(record, idle_record_is_put_before_those_who_hold)
{
    rdl_owner_t *owner = new_owner(), *other = new_owner();
    struct rdl__record *rec = hold(owner, 7, 1), *others = hold(other, 8, 1);

    cr_assert_eq(name->records.next, &others->link);
    give_back(rec);
    cr_assert_eq(name->records.next, &rec->link);
    cr_assert_eq(find(other), others);
    cr_assert_eq(records(), 2);
    give_back(others);
    rdl_owner_free(owner);
    rdl_owner_free(other);
}

Test(record, idle_record_is_kept_for_its_owner_until_another_is_idle)
{
    rdl_owner_t *owner = new_owner(), *other = new_owner();
    struct rdl__record *rec = make(owner), *others = make(other);

    retire(rec);
    cr_assert_eq(find(owner), rec);
    retire(others);
    cr_assert_null(find(owner));
    cr_assert_eq(find(other), others);
    rdl_owner_free(owner);
    rdl_owner_free(other);
}

Test(record, what_is_held_is_not_retired)
{
    rdl_owner_t *owner = new_owner();
    struct rdl__record *rec = hold(owner, 1, 1);

    retire(rec);
    cr_assert_eq(find(owner), rec);
    cr_assert_eq(view(owner).state, RDL_HELD);
    give_back(rec);
    rdl_owner_free(owner);
}

Test(record, idle_record_goes_with_the_last_handle)
{
    rdl_owner_t *owner = new_owner();
    rdl_lock_t *twin = NULL;

    retire(make(owner));
    cr_assert_eq(rdl_reentrant_lock(client, "orders", NULL, &twin, NULL), RDL_OK);
    cr_assert_eq(twin->name, name);
    rdl_lock_free(twin);
    cr_assert_eq(records(), 1);
    rdl__name_ref(name);
    lock = rdl_lock_free(lock);
    cr_assert_eq(records(), 0);
    rdl__name_unref(name);
    rdl_owner_free(owner);
}

/* ---- owners that go --------------------------------------------------------------------------------------------- */

Test(record, owner_that_goes_leaves_no_record_and_no_hold_of_the_next_owner_is_touched)
{
    rdl_owner_t *owner = new_owner(), *other = new_owner();
    struct rdl__record *others = hold(other, 2, 1);

    (void)hold(owner, 1, 1);
    cr_assert_eq(records(), 2);
    rdl_owner_free(owner);
    cr_assert_eq(records(), 1);
    cr_assert_eq(view(other).state, RDL_HELD);
    give_back(others);
    rdl_owner_free(other);
}

/* The verb ends later, and sees to what is held. */
Test(record, orphan_with_a_verb_in_flight_stays_for_that_verb_alone)
{
    rdl_owner_t *owner = rdl__owner_ref(new_owner());
    struct rdl__record *rec = hold(owner, 1, 1);
    struct rdl__call *verb = (struct rdl__call *)&counting; /* any */

    rdl__mutex_lock(&name->mu);
    rec->active = verb;
    rdl__mutex_unlock(&name->mu);
    rdl_owner_free(owner);
    cr_assert_null(find(owner));
    rdl__mutex_lock(&name->mu);
    cr_assert_eq(rdl__record_find_orphan(name, owner, lock->ops), rec);
    rec->active = NULL;
    cr_assert_null(rdl__record_find_orphan(name, owner, lock->ops));
    rdl__mutex_unlock(&name->mu);
    rdl__record_abandon(rec);
    cr_assert_eq(records(), 0);
    rdl__mutex_lock(&name->mu);
    cr_assert_eq(rdl__record_make(name, owner, lock->ops, &rec), RDL_ELOST, "who is gone gets none");
    rdl__mutex_unlock(&name->mu);
    rdl__owner_unref(owner);
}

/* As a composite's take meets it that goes on when its thread has ended. */
Test(record, owner_that_is_gone_gets_no_record)
{
    rdl_owner_t *owner = rdl__owner_ref(new_owner());
    struct rdl__record *rec = NULL;

    (void)rdl_owner_free(owner);
    rdl__mutex_lock(&name->mu);
    cr_expect_eq(rdl__record_make(name, owner, lock->ops, &rec), RDL_ELOST);
    rdl__mutex_unlock(&name->mu);
    cr_assert_null(rec);
    rdl__owner_unref(owner);
}

Test(record, memory_of_one_that_is_gone_is_used_again)
{
    rdl_owner_t *owner = new_owner(), *next = new_owner();
    struct rdl__record *rec = make(owner);
    int64_t blocks = counting_alloc_blocks(&counting);

    rdl_owner_free(owner);
    cr_assert_eq(make(next), rec);
    cr_assert_eq(counting_alloc_blocks(&counting), blocks - 1, "of the owner that is gone");
    retire(rec);
    rdl_owner_free(next);
}
