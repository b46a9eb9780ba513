/* SPDX-License-Identifier: MIT */
/* test_cluster.c - C and Java in one Redis Cluster: names of every shard, sharded channels on both sides, a slot that
 * moves. */
#include "tests/interop/checks.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define NAME "orders"
#define TYPE "reentrant"
#define WOKEN_MS 3000 /* less than anybody looks by himself */
#define BOUND_MS 10000
#define PATIENT_MS 60000 /* a wait that is not to end before its event */

static void init(void)
{
    meetings_in_a_cluster(NAME);
}

TestSuite(cluster, .init = init, .timeout = 120);

Test(cluster, java_is_kept_out_by_c)
{
    check_exclusion(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(cluster, c_is_kept_out_by_java)
{
    check_exclusion(TYPE, PARTY_JAVA, PARTY_THREAD);
}

Test(cluster, watchdog_of_c_keeps_java_out)
{
    check_renewal_holds(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(cluster, c_is_evicted_by_java)
{
    check_force_unlock(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(cluster, java_is_evicted_by_c)
{
    check_force_unlock(TYPE, PARTY_JAVA, PARTY_THREAD);
}

/* check_hand_over sees one message by `spublish`, and one try that it caused. */
Test(cluster, waiters_of_both_sides_are_woken_by_sharded_messages_on_every_shard)
{
    struct meeting m;

    meeting_open(&m, TYPE, 0);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        struct slot_name name = cluster_name(cluster_first_slot(i), 0);
        struct party *c = party_on(&m, PARTY_THREAD, name.text), *java = party_on(&m, PARTY_JAVA, name.text);
        char *channel = must_format("redisson_lock__channel:{%s}", name.text);

        meeting_look_at(&m, m.cluster->node[i]);
        check_hand_over(&m, c, java, name.text, channel);
        check_hand_over(&m, java, c, name.text, channel);
        cr_assert_eq(probe_subscribers(m.probe, channel), 0);
        free(channel);
    }
    meeting_close(&m);
}

Test(cluster, waiter_of_c_is_woken_by_java_where_the_slot_has_moved)
{
    unsigned slot = cluster_slot(NAME);
    char *channel = must_format("redisson_lock__channel:{%s}", NAME);
    struct party *c, *java;
    struct meeting m;
    int64_t released;
    int to;

    meeting_open(&m, TYPE, 0);
    c = party_on(&m, PARTY_THREAD, NAME);
    java = party_on(&m, PARTY_JAVA, NAME);
    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK);
    party_start_try(c, PATIENT_MS, LONG_MS);
    cr_assert(WAIT_UNTIL(probe_subscribers_of(m.probe, true, channel) == 1, BOUND_MS));
    to = (cluster_master(m.cluster, slot) + 1) % CLUSTER_MASTERS;
    cluster_move(m.cluster, slot, to);
    meeting_look_at(&m, m.cluster->node[to]);
    cr_assert(WAIT_UNTIL(probe_subscribers_of(m.probe, true, channel) == 1, BOUND_MS));
    cr_assert_eq(party_unlock(java),
                 RDL_OK); /* Redisson may take until its next scan, 5 s, to get it to the other node */
    released = now_ms();
    cr_assert_eq(party_result(c, BOUND_MS), RDL_OK);
    cr_assert_lt(now_ms() - released, WOKEN_MS);
    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_unlock(c), RDL_OK);
    cr_assert_eq(party_try(java, 0, LONG_MS), RDL_OK);
    meeting_close(&m);
    free(channel);
}

Test(cluster, hundreds_of_rounds_lose_nothing)
{
    check_rounds(TYPE, 400);
}

Test(cluster, fair_lock_of_c_keeps_java_out)
{
    check_exclusion("fair", PARTY_THREAD, PARTY_JAVA);
}

Test(cluster, fair_lock_of_java_keeps_c_out)
{
    check_exclusion("fair", PARTY_JAVA, PARTY_THREAD);
}

/* Each waiter has a channel of its own, whose name the tag keeps in the lock's slot. */
Test(cluster, fair_waiters_of_both_sides_are_woken_by_sharded_messages_in_their_order)
{
    struct meeting m;
    struct party *c, *java;

    meeting_open(&m, "fair", 0);
    c = party_on(&m, PARTY_THREAD, NAME);
    java = party_on(&m, PARTY_JAVA, NAME);
    for (int i = 0; i < 4; i++) {
        struct party *holder = i % 2 == 0 ? c : java, *waiter = i % 2 == 0 ? java : c;
        int64_t released;

        cr_assert_eq(party_try(holder, 0, LONG_MS), RDL_OK);
        party_start_try(waiter, PATIENT_MS, LONG_MS);
        cr_assert(WAIT_UNTIL(probe_channels_of(m.probe, true) == 1, BOUND_MS), "nobody listens");
        released = now_ms();
        cr_assert_eq(party_unlock(holder), RDL_OK);
        cr_assert_eq(party_result(waiter, BOUND_MS), RDL_OK);
        cr_assert_lt(now_ms() - released, WOKEN_MS);
        cr_assert_eq(party_unlock(waiter), RDL_OK);
        cr_assert(WAIT_UNTIL(probe_channels_of(m.probe, true) == 0, BOUND_MS), "somebody goes on listening");
    }
    meeting_close(&m);
}

Test(cluster, rounds_under_a_fair_lock_lose_nothing)
{
    check_rounds("fair", 200);
}

Test(cluster, rounds_under_a_multi_lock_lose_nothing)
{
    check_rounds("multi", 200);
}

Test(cluster, mixed_rounds_of_readers_and_writers_lose_nothing)
{
    check_mixed("read", 300);
}
