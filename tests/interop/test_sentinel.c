/* SPDX-License-Identifier: MIT */
/* test_sentinel.c - C and Java behind the same sentinels, before and after the death of their master. */
#include "tests/interop/checks.h"
#include "tests/support/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define TYPE "reentrant"
#define CHANNEL_OF(name) "redisson_lock__channel:{" name "}"
#define PATIENT_MS 60000 /* a wait that is not to end before its event */

static void init(void)
{
    meetings_behind_sentinels();
}

TestSuite(sentinel, .init = init, .timeout = 120);

Test(sentinel, java_is_kept_out_by_c)
{
    check_exclusion(TYPE, PARTY_THREAD, PARTY_JAVA);
}

Test(sentinel, c_is_kept_out_by_java)
{
    check_exclusion(TYPE, PARTY_JAVA, PARTY_THREAD);
}

static void check_hand_over_both_ways(struct meeting *m, struct party *a, struct party *b, const char *name,
                                      const char *channel)
{
    check_hand_over(m, a, b, name, channel);
    check_hand_over(m, b, a, name, channel);
}

Test(sentinel, waiters_of_both_sides_are_woken)
{
    struct meeting m;

    meeting_open(&m, TYPE, 0);
    check_hand_over_both_ways(&m, party_on(&m, PARTY_THREAD, "orders"), party_on(&m, PARTY_JAVA, "orders"), "orders",
                              CHANNEL_OF("orders"));
    meeting_close(&m);
}

/* A lock that one side holds and the other waits for. */
struct claim {
    const char *name, *channel;
    struct party *holder, *waiter;
};

static struct claim claim(struct meeting *m, enum party_kind holder, enum party_kind waiter, const char *name,
                          const char *channel)
{
    struct claim c = {name, channel, party_on(m, holder, name), party_on(m, waiter, name)};
    size_t mark;

    cr_assert_eq(party_try(c.holder, 0, RDL_LEASE_AUTO), RDL_OK);
    mark = monitor_mark(m->monitor);
    party_start_try(c.waiter, PATIENT_MS, LONG_MS);
    wait_asleep(m, mark, c.waiter, name, channel);
    return c;
}

/* Java's commands fail until it has heard of the new master, which it does by itself: it waits there when it has. */
static void check_after_failover(struct meeting *m, const struct claim *c)
{
    cr_assert(WAIT_UNTIL(probe_subscribers(m->probe, c->channel) == 1, FAILOVER_BOUND_MS), "nobody waits for %s",
              c->name);
    cr_assert(!party_finished(c->waiter, 0), "%s is held, and the waiter got it", c->name);
    cr_assert_eq(party_hold_count(c->holder), 1);
    cr_assert_eq(party_unlock(c->holder), RDL_OK);
    cr_assert_eq(party_result(c->waiter, PATIENT_MS), RDL_OK);
    cr_assert_eq(party_try(c->holder, 0, LONG_MS), RDL_ETIMEDOUT);
    cr_assert_eq(party_unlock(c->waiter), RDL_OK);
    check_hand_over_both_ways(m, c->holder, c->waiter, c->name, c->channel);
}

Test(sentinel, both_go_on_excluding_and_waking_each_other_at_the_new_master)
{
    struct claim ours, theirs;
    struct meeting m;

    meeting_open(&m, TYPE, 0);
    ours = claim(&m, PARTY_THREAD, PARTY_JAVA, "orders", CHANNEL_OF("orders"));
    theirs = claim(&m, PARTY_JAVA, PARTY_THREAD, "parcels", CHANNEL_OF("parcels"));
    cr_assert(sentinels_wait_synced(m.sentinels, 1, FAILOVER_BOUND_MS));
    server_kill(m.sentinels->data[0]);
    cr_assert(sentinels_wait_master(m.sentinels, 1, FAILOVER_BOUND_MS));
    meeting_look_at(&m, m.sentinels->data[1]);
    cr_assert_eq(probe_int(m.probe, "EXISTS orders parcels"), 2, "the new master does not know them: nothing is shown");
    check_after_failover(&m, &ours);
    check_after_failover(&m, &theirs);
    meeting_close(&m);
}
