/* SPDX-License-Identifier: MIT */
/* test_cluster_inspect.c - who holds locks of a cluster, who waits for them, and which there are: on every master, and
 * of a slot that moves. */
#include "tests/live/in_cluster.h"

CLUSTER_SUITE();

static int count(const rdl_inspection_t *lock, const rdl_list_progress_t *progress, void *arg)
{
    (void)progress;
    if (lock != NULL)
        for (int i = 0; i < SHARDS; i++)
            if (strcmp(lock->name, name[i].text) == 0)
                ((int *)arg)[i]++;
    return 0;
}

static void expect_holder(rdl_lock_t *lock, const rdl_client_t *whose)
{
    rdl_holder_t holder;

    expect(1, rdl_holders(lock, &holder, 1, &err));
    cr_assert_str_eq(holder.client, rdl_client_id(whose));
}

Test(cluster, holders_and_waiters_are_told_and_listed_on_every_master)
{
    struct caller *waiter[SHARDS];
    rdl_lock_t *lock[SHARDS], *wanted[SHARDS];
    rdl_inspection_t *seen = NULL;
    rdl_master_t master[SHARDS];
    rdl_name_t names[SHARDS];
    int found[SHARDS] = {0};

    start(NULL);
    for (int i = 0; i < SHARDS; i++) {
        lock[i] = reentrant(client, name[i].text, NULL);
        wanted[i] = reentrant(rival, name[i].text, NULL);
        expect(RDL_OK, rdl_try_lock(lock[i], 0, LEASE_MS, &err));
        waiter[i] = caller_new();
        caller_lock(waiter[i], wanted[i], LEASE_MS);
        cr_assert(WAIT_UNTIL(rdl_waiters(lock[i], NULL, 0, NULL, &err) == 1, SOON_MS));
        expect_holder(wanted[i], client);
        expect(RDL_OK, rdl_inspect(rival, name[i].text, 0, &seen, &err));
        cr_assert_str_eq(seen->type, "lock");
        cr_assert_eq(seen->waiters, 1);
        seen = rdl_inspection_free(seen);
    }
    expect(SHARDS, rdl_list(rival, NULL, count, found, &err));
    for (int i = 0; i < SHARDS; i++)
        names[i] = (rdl_name_t){.bytes = name[i].text, .len = strlen(name[i].text)};
    expect(SHARDS, rdl_list_names(rival, names, SHARDS, count, found, &err));
    expect(SHARDS, rdl_masters(rival, master, SHARDS, &err));
    for (int i = 0; i < SHARDS; i++) {
        cr_assert_eq(found[i], 2);
        cr_assert_eq(master[i].rc, RDL_OK);
        cr_assert_geq(master[i].keys, 1);
        cr_assert(i == 0 || strcmp(master[i].server, master[i - 1].server) != 0);
        expect(RDL_OK, rdl_unlock(lock[i], &err));
        expect_result(RDL_OK, waiter[i], SOON_MS);
        caller_unlock(waiter[i], wanted[i]);
        expect_result(RDL_OK, waiter[i], SOON_MS);
        caller_free(waiter[i]);
        rdl_lock_free(wanted[i]);
        rdl_lock_free(lock[i]);
    }
    expect(RDL_EINVAL, rdl_inspect(client, "a{b", 0, &seen, &err));
}

Test(cluster, a_holder_is_told_while_its_slot_moves_and_after)
{
    unsigned slot = cluster_first_slot(0);
    rdl_lock_t *lock;

    start(NULL);
    lock = reentrant(client, name[0].text, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    cluster_begin_move(cluster, slot, 1);
    expect_holder(lock, client);
    cr_assert_eq(cluster_move_keys(cluster, slot, 1), 1);
    expect_holder(lock, client); /* by an ASK */
    cluster_end_move(cluster, slot, 1);
    expect_holder(lock, client); /* by a MOVED */
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}
