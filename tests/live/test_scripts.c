/* SPDX-License-Identifier: MIT */
/* test_scripts.c - C3: the server forgets our scripts, and nobody notices. */
#include "tests/live/live.h"

#define NAME "scripted"
#define LEASE_MS 20000

LIVE_SUITE(scripts, 60);

static void flush(void)
{
    cr_assert_str_eq(probe_text(st.probe, "SCRIPT FLUSH"), "OK");
}

Test(scripts, flush_before_each_verb_is_not_noticed)
{
    static const rdl_fencing_t fencings[] = {RDL_FENCING_NONE, RDL_FENCING_TIME};

    stage_open(&st);
    for (int type = 0; type < 2; type++) {
        for (int i = 0; i < 2; i++) {
            const rdl_lock_options_t *options = LOCK_OPTIONS(.fencing = fencings[i]);
            rdl_lock_t *lock = type == 0 ? reentrant(st.client, NAME, options) : simple(st.client, NAME, options);

            flush();
            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            flush();
            expect(RDL_OK, rdl_extend(lock, 2 * LEASE_MS, &err));
            flush();
            expect(1, rdl_is_locked(lock, &err));
            flush();
            expect(RDL_OK, rdl_unlock(lock, &err));
            expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
            flush();
            expect(1, rdl_force_unlock(lock, &err));
            flush();
            expect(RDL_ELOST, rdl_unlock(lock, &err));
            cr_assert_eq(probe_keys(st.probe), 0);
            rdl_lock_free(lock);
        }
    }
}

Test(scripts, flush_under_a_held_lock_does_not_stop_its_renewal)
{
    rdl_lock_t *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 3000));
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    for (int i = 0; i < 90; i++) {
        flush();
        let_pass_ms(50);
    }
    expect(1, rdl_is_held(lock, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
}

static void note(rdl_semaphore_t *s, int64_t result, const rdl_err_t *e, void *outcome)
{
    (void)s;
    outcome_note(NULL, result, e, outcome);
}

/* The loop, which is alone with its request, looks for the answer before it sleeps. What it finds says that the script
 * must be sent with its text, and nothing comes by any more that would remind it. */
Test(scripts, script_is_sent_at_once_when_the_loop_itself_looked_for_the_answer)
{
    rdl_semaphore_t *s = NULL;

    stage_open(&st, .client = OPTIONS(.poll_us = 1000, .command_timeout_ms = 20000));
    left_behind = true; /* a semaphore stays */
    expect(RDL_OK, rdl_semaphore(st.client, NAME, NULL, &s, &err));
    expect(1, rdl_semaphore_try_set_permits(s, 1000, &err));
    for (int i = 0; i < 50; i++) {
        struct outcome o = {0};

        flush();
        expect(RDL_OK, rdl_semaphore_try_acquire_async(s, NULL, 1, 0, note, &o, NULL, &err));
        cr_assert_eq(outcome_wait(&o, 5000), RDL_OK);
    }
    rdl_semaphore_free(s);
}

Test(scripts, flush_while_a_waiter_sleeps_does_not_keep_it_out)
{
    struct caller *waiter = caller_new();
    rdl_lock_t *lock;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    caller_try_lock(waiter, lock, 10000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    flush();
    expect(RDL_OK, rdl_unlock(lock, &err));
    expect_result(RDL_OK, waiter, WOKEN_MS);
    flush();
    caller_unlock(waiter, lock);
    expect_result(RDL_OK, waiter, SOON_MS);
    caller_free(waiter);
    rdl_lock_free(lock);
}

/* A script is loaded for one answer, not for every one after it. */
Test(scripts, forgotten_script_is_loaded_once)
{
    struct monitor *monitor;
    rdl_lock_t *lock;
    size_t mark;

    stage_open(&st);
    lock = reentrant(st.client, NAME, NULL);
    flush();
    expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    monitor = monitor_start(st.server);
    mark = monitor_mark(monitor);
    for (int i = 0; i < 10; i++) {
        expect(RDL_OK, rdl_try_lock(lock, 0, LEASE_MS, &err));
        expect(RDL_OK, rdl_unlock(lock, &err));
    }
    (void)monitor_mark(monitor);
    cr_assert_eq(monitor_count(monitor, mark, "\"EVAL\""), 0);
    cr_assert_eq(monitor_count(monitor, mark, "\"SCRIPT\""), 0);
    cr_assert_eq(monitor_count(monitor, mark, "\"EVALSHA\""), 20);
    monitor_stop(monitor);
    rdl_lock_free(lock);
}

static int64_t pairs(void *arg, rdl_err_t *reterr)
{
    rdl_lock_t *lock = arg;
    int64_t rc = RDL_OK;

    for (int i = 0; i < 500 && rc == RDL_OK; i++) {
        if ((rc = rdl_lock(lock, LEASE_MS, reterr)) == RDL_OK)
            rc = rdl_unlock(lock, reterr);
    }
    return rc;
}

Test(scripts, flushes_in_the_middle_of_a_contended_run_go_unnoticed)
{
    enum { CALLERS = 6 };
    struct caller *callers[CALLERS];
    rdl_lock_t *locks[2];
    int busy;

    stage_open(&st);
    locks[0] = reentrant(st.client, NAME "-1", NULL);
    locks[1] = simple(st.client, NAME "-2", NULL);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = caller_new();
        caller_call(callers[i], pairs, locks[i % 2]);
    }
    do {
        flush();
        let_pass_ms(3);
        busy = 0;
        for (int i = 0; i < CALLERS; i++)
            busy += !caller_idle(callers[i]);
    } while (busy > 0);
    for (int i = 0; i < CALLERS; i++) {
        expect_result(RDL_OK, callers[i], 30000);
        caller_free(callers[i]);
    }
    rdl_lock_free(locks[0]);
    rdl_lock_free(locks[1]);
}
