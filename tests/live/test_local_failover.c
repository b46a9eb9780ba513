/* SPDX-License-Identifier: MIT */
/* test_local_failover.c - RDL_OUTAGE_LOCAL and RDL_OUTAGE_WAIT where the server is a master that is replaced, behind
 * Sentinel and in a cluster: the outage lasts from its death to the next one's promotion (protocol.md, 10).
 *
 * local_after_ms is shorter than a failover takes here, which docs/outages.md advises against, because that is what the
 * tests are about.
 */
#include "tests/live/failover.h"
#include "tests/support/folder.h"

#define AFTER_MS 200
#define HOLD_MS 1500 /* lease */

static char dir[] = "/tmp/redlatch-local-XXXXXX";
static rdl_client_t *second; /* another process of the host, as far as its locks go */

static void fini_local(void)
{
    second = rdl_client_close(second);
    fini();
    cr_assert(folder_remove(dir));
}

TestSuite(sentinel, .fini = fini_local, .timeout = 120);
TestSuite(cluster, .fini = fini_local, .timeout = 120);

#define LOCAL()                                                                                                        \
    OPTIONS(.on_outage = RDL_OUTAGE_LOCAL, .local_dir = dir, .local_after_ms = AFTER_MS, .reconnect_max_ms = 50,       \
            .watchdog_lease_ms = HOLD_MS)

static void open_two(void)
{
    cr_assert_not_null(mkdtemp(dir));
    client = client_open(uri, LOCAL());
    second = client_open(uri, LOCAL());
}

static bool is_in(rdl_lock_t *lock, rdl_hold_state_t state)
{
    return rdl_hold_state(lock, NULL) == (int)state;
}

/* Its bound is the failover's, and what those need who find the new master. */
#define RETURN_MS (2 * FAILOVER_BOUND_MS)

static void pass_on(rdl_lock_t *lock, rdl_lock_t *other)
{
    struct caller *waiter = caller_new();

    caller_try_lock(waiter, other, RETURN_MS, RDL_LEASE_AUTO);
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, RETURN_MS);
    caller_unlock(waiter, other);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
}

TEST_EACH(N14_hold_outlasts_the_master_and_is_the_next_ones)
{
    rdl_lock_t *lock, *other;
    struct losses news;

    open_two();
    lock = reentrant(client, NAME, NULL);
    other = reentrant(second, NAME, NULL);
    losses_init(&news);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &news, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    topology->pause(1); /* no failover before the hold is the host's alone */
    topology->kill(0);
    cr_assert(losses_wait(&news, RDL_DEGRADED, 1, HOLD_MS + SOON_MS));
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, RDL_LEASE_AUTO, &err));
    topology->resume(1);
    cr_assert(topology->wait_master(1));
    cr_assert(losses_wait(&news, RDL_HELD, 1, RETURN_MS));
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS " NAME) == 1, SOON_MS));
    expect(RDL_ETIMEDOUT, rdl_try_lock(other, 0, RDL_LEASE_AUTO, &err));
    pass_on(lock, other);
    cr_assert_eq(losses_count(&news, RDL_LOST), 0);
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

TEST_EACH(N14_take_without_a_master_is_the_hosts_alone_until_there_is_one)
{
    rdl_lock_t *lock, *other;
    struct losses news;

    open_two();
    lock = fenced(client, NAME, NULL);
    other = fenced(second, NAME, NULL);
    losses_init(&news);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &news, &err));
    topology->pause(1);
    topology->kill(0);
    expect(RDL_OK, rdl_try_lock(lock, RETURN_MS, RDL_LEASE_AUTO, &err));
    expect(RDL_DEGRADED, rdl_hold_state(lock, &err));
    topology->resume(1);
    cr_assert(topology->wait_master(1));
    cr_assert(losses_wait(&news, RDL_HELD, 1, RETURN_MS));
    cr_assert_gt(rdl_token(lock, &err), 0, "%s", err.message);
    pass_on(lock, other);
    cr_assert_eq(losses_count(&news, RDL_LOST), 0);
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

/* The one host's other process is killed, as it were, by closing: what it held is the next one's on the host, and the
 * new master's last. */
TEST_EACH(N14_unlocked_without_a_master_it_is_free_at_the_next)
{
    rdl_lock_t *lock, *other;

    open_two();
    lock = reentrant(client, NAME, NULL);
    other = reentrant(second, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS " NAME) == 1, SOON_MS));
    topology->pause(1);
    topology->kill(0);
    cr_assert(WAIT_UNTIL(is_in(lock, RDL_DEGRADED), HOLD_MS + SOON_MS));
    pass_on(lock, other);
    topology->resume(1);
    cr_assert(topology->wait_master(1));
    cr_assert(WAIT_UNTIL(ask(1, "EXISTS " NAME) == 0, RETURN_MS));
    rdl_lock_free(lock);
    rdl_lock_free(other);
}

TEST_EACH(N14_who_waits_for_the_server_outlasts_a_failover)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    cr_assert_not_null(mkdtemp(dir));
    client = client_open(uri, OPTIONS(.on_outage = RDL_OUTAGE_WAIT, .outage_timeout_ms = 100));
    lock = reentrant(client, NAME, NULL);
    topology->pause(1);
    topology->kill(0);
    caller_try_lock(waiter, lock, RETURN_MS, LEASE_MS);
    let_pass_ms(1000); /* it would have given up */
    cr_assert_not(caller_idle(waiter));
    topology->resume(1);
    cr_assert(topology->wait_master(1));
    expect_result(RDL_OK, waiter, RETURN_MS);
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}
