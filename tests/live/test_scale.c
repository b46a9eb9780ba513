/* SPDX-License-Identifier: MIT */
/* test_scale.c - large numbers: W6, P6, P7. Long: not part of the everyday run. */
#include "tests/live/live.h"

#include <sys/resource.h>

LIVE_SUITE(scale, 280);

static int64_t rss_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Calls that call back; how many have, and how many of them failed. */
static struct {
    atomic_uint done;
    atomic_uint failed;
    _Atomic int64_t failure;
} tally;

static void count(rdl_lock_t *lock, int64_t result, const rdl_err_t *error, void *arg)
{
    (void)lock;
    (void)error;
    (void)arg;
    if (result != RDL_OK) {
        atomic_fetch_add(&tally.failed, 1);
        atomic_store(&tally.failure, result);
    }
    atomic_fetch_add(&tally.done, 1);
}

static void wait_tally(unsigned n, int64_t bound_ms)
{
    cr_assert(WAIT_UNTIL(atomic_load(&tally.done) >= n, bound_ms), "%u of %u calls have ended",
              atomic_load(&tally.done), n);
    cr_assert_eq(atomic_load(&tally.done), n);
    cr_assert_eq(atomic_load(&tally.failed), 0, "%s", code_name(atomic_load(&tally.failure)));
    atomic_store(&tally.done, 0);
}

static rdl_lock_t **make_locks(int n)
{
    rdl_lock_t **locks = must_alloc((size_t)n * sizeof *locks);

    for (int i = 0; i < n; i++) {
        char *name = must_format("many:%d", i);

        locks[i] = reentrant(st.client, name, NULL);
        free(name);
    }
    return locks;
}

/* W6: all are renewed in time. A hold that was renewed on time never has less than two thirds of its lease left; the
 * slack is for the sampling and the machine. */
Test(scale, hundred_thousand_holds_are_renewed_in_time)
{
    enum { HOLDS = 100000, LEASE_MS = 30000, LATE_MS = 2500, WINDOW = 2000 };
    struct losses losses;
    rdl_lock_t **locks;
    rdl_owner_t *owner = NULL;
    int64_t lowest = LEASE_MS, before = rss_kib();
    unsigned seed = 1;

    losses_init(&losses);
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = LEASE_MS));
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    locks = make_locks(HOLDS);
    for (int i = 0; i < HOLDS; i += WINDOW) {
        for (int j = i; j < i + WINDOW; j++) {
            expect(RDL_OK, rdl_on_lost(locks[j], losses_note, &losses, &err));
            expect(RDL_OK, rdl_lock_async(locks[j], owner, RDL_LEASE_AUTO, count, NULL, NULL, &err));
        }
        wait_tally(WINDOW, 30000);
    }
    for (int64_t end = now_ms() + LEASE_MS * 4 / 3; now_ms() < end; let_pass_ms(1)) {
        int64_t left = probe_int(st.probe, "PTTL many:%d", rand_r(&seed) % HOLDS);

        lowest = left < lowest ? left : lowest;
    }
    expect_between(LEASE_MS * 2 / 3 - LATE_MS, lowest, LEASE_MS);
    cr_assert_eq(probe_keys(st.probe), HOLDS);
    cr_assert_eq(losses_count(&losses, RDL_LOST) + losses_count(&losses, RDL_AT_RISK), 0);
    cr_assert_lt((rss_kib() - before) * 1024 / HOLDS,
                 4096); /* bytes a hold, generously: handle, record, its bookkeeping */
    for (int i = 0; i < HOLDS; i += WINDOW) {
        for (int j = i; j < i + WINDOW; j++)
            expect(RDL_OK, rdl_unlock_async(locks[j], owner, count, NULL, NULL, &err));
        wait_tally(WINDOW, 30000);
    }
    cr_assert_eq(probe_keys(st.probe), 0);
    for (int i = 0; i < HOLDS; i++)
        rdl_lock_free(locks[i]);
    rdl_owner_free(owner);
    free(locks);
}

/* P6: no limit on subscriptions, and all are given back. */
Test(scale, ten_thousand_contended_locks_are_all_acquired_when_released)
{
    enum { LOCKS = 10000 };
    rdl_lock_t **locks;
    rdl_owner_t *owner = NULL;

    stage_open(&st);
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    locks = make_locks(LOCKS);
    for (int i = 0; i < LOCKS; i++) {
        char *name = must_format("many:%d", i);

        foreign_take(st.probe, name, 600000);
        free(name);
        expect(RDL_OK, rdl_lock_async(locks[i], owner, RDL_LEASE_AUTO, count, NULL, NULL, &err));
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == LOCKS, 60000));
    cr_assert_eq(atomic_load(&tally.done), 0);
    for (int i = 0; i < LOCKS; i++) {
        char *name = must_format("many:%d", i);

        (void)foreign_release(st.probe, name);
        free(name);
    }
    wait_tally(LOCKS, 30000);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, 10000));
    for (int i = 0; i < LOCKS; i++)
        expect(RDL_OK, rdl_unlock_async(locks[i], owner, count, NULL, NULL, &err));
    wait_tally(LOCKS, 30000);
    for (int i = 0; i < LOCKS; i++)
        rdl_lock_free(locks[i]);
    rdl_owner_free(owner);
    free(locks);
}

/* P7: of a thousand waiters in one process one unlock wakes one. */
Test(scale, one_unlock_wakes_one_of_thousand_waiters)
{
    enum { WAITERS = 1000, ROUNDS = 200 };
    static struct outcome outcomes[WAITERS];
    static rdl_owner_t *owners[WAITERS];
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark, commands;
    int next = 0;

    stage_open(&st);
    lock = reentrant(st.client, "many", NULL);
    foreign_take(st.probe, "many", 600000);
    for (int i = 0; i < WAITERS; i++) {
        expect(RDL_OK, rdl_owner_new(st.client, &owners[i], &err));
        expect(RDL_OK, rdl_lock_async(lock, owners[i], RDL_LEASE_AUTO, outcome_note, &outcomes[i], NULL, &err));
    }
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    let_pass_ms(500); /* all have tried again and sleep */
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    (void)foreign_release(st.probe, "many");
    for (int round = 0; round < ROUNDS; round++) {
        struct outcome unlocked = {0};

        cr_assert(WAIT_UNTIL(({
                                 for (int i = 0; i < WAITERS && atomic_load(&outcomes[next].calls) == 0; i++)
                                     next = (next + 1) % WAITERS;
                                 atomic_load(&outcomes[next].calls) > 0;
                             }),
                             SOON_MS));
        expect(RDL_OK, outcomes[next].result);
        expect(RDL_OK, rdl_unlock_async(lock, owners[next], outcome_note, &unlocked, NULL, &err));
        expect(RDL_OK, outcome_wait(&unlocked, SOON_MS));
        atomic_store(&outcomes[next].calls, 0);
    }
    (void)monitor_mark(monitor);
    commands = monitor_count(monitor, mark, "EVALSHA");
    expect_between(2 * ROUNDS, (int64_t)commands, 2 * ROUNDS + ROUNDS / 10); /* design.md, Speed: 2.05 a hand-off */
    monitor_stop(monitor);
    st.client = rdl_client_close(st.client);
    for (int i = 0; i < WAITERS; i++)
        rdl_owner_free(owners[i]);
    rdl_lock_free(lock);
}
