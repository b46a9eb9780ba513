/* SPDX-License-Identifier: MIT */
/* test_outage.c - the option on_outage: what acquires, and opening, do while no server can be reached. */
#include "tests/live/live.h"

#define NAME "outage"
#define LEASE_MS 3000
#define OUTAGE_MS 200 /* less than the outages here: who heeds it gives up */

LIVE_SUITE(outage, 60);

/* A server that is dead, and a probe for when it is not. */
static void start_dead(void)
{
    st.server = server_start(NULL);
    server_kill(st.server);
}

Test(outage, N14_opening_goes_on_without_a_server)
{
    rdl_client_t *client;
    rdl_lock_t *lock;

    start_dead();
    expect(RDL_ECONN, rdl_client_open(server_uri(st.server), OPTIONS(.on_outage = RDL_OUTAGE_FAIL), &client, &err));
    client = client_open(server_uri(st.server), OPTIONS(.on_outage = RDL_OUTAGE_WAIT, .outage_timeout_ms = OUTAGE_MS));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_ECONN, rdl_try_lock(lock, OUTAGE_MS, LEASE_MS, &err)); /* its wait is over */
    server_start_again(st.server);
    expect(RDL_OK, rdl_try_lock(lock, 20000, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    rdl_client_close(client);
}

/* What is wrong with the server and does not pass is an error as ever. */
Test(outage, N14_opening_fails_where_the_server_refuses)
{
    rdl_client_t *client;

    st.server = server_start(&(struct server_options){.password = "pw"});
    expect(RDL_EAUTH, rdl_client_open(server_uri(st.server), OPTIONS(.on_outage = RDL_OUTAGE_WAIT, .password = "wrong"),
                                      &client, &err));
    cr_assert_not_null(strstr(err.message, "WRONGPASS"), "%s", err.message);
}

/* One that fails, for comparison, and one that outwaits, each by the client's option and by the lock's. */
Test(outage, N14_the_wait_alone_bounds_who_waits_for_the_server)
{
    struct caller *fails = caller_new(), *waits = caller_new(), *for_ever = caller_new();
    rdl_lock_t *failing, *waiting, *own;
    rdl_client_t *patient;

    stage_open(&st, .client = OPTIONS(.outage_timeout_ms = OUTAGE_MS));
    patient = client_open(stage_uri(&st), OPTIONS(.outage_timeout_ms = OUTAGE_MS, .on_outage = RDL_OUTAGE_WAIT));
    failing = reentrant(patient, "failing", LOCK_OPTIONS(.on_outage = RDL_OUTAGE_FAIL));
    waiting = reentrant(patient, "waiting", NULL);
    own = reentrant(st.client, "own", LOCK_OPTIONS(.on_outage = RDL_OUTAGE_WAIT));
    probe_close(st.probe);
    server_kill(st.server);
    caller_try_lock(waits, waiting, 60000, LEASE_MS);
    caller_lock(for_ever, own, LEASE_MS);
    caller_lock(fails, failing, LEASE_MS);
    expect_result(RDL_ECONN, fails, SOON_MS);
    cr_assert(caller_idle(waits) == false && caller_idle(for_ever) == false);
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    expect_result(RDL_OK, waits, SOON_MS);
    expect_result(RDL_OK, for_ever, SOON_MS);
    caller_unlock(waits, waiting);
    caller_unlock(for_ever, own);
    expect_result(RDL_OK, waits, SOON_MS);
    expect_result(RDL_OK, for_ever, SOON_MS);
    caller_free(fails);
    caller_free(waits);
    caller_free(for_ever);
    rdl_lock_free(failing);
    rdl_lock_free(waiting);
    rdl_lock_free(own);
    rdl_client_close(patient);
}

/* Asleep behind a holder as the server dies: the outage does not end it, and it gets the lock at the server that comes
 * back empty. */
Test(outage, N14_who_sleeps_goes_on_sleeping_through_an_outage)
{
    struct caller *sleeper = caller_new();
    rdl_lock_t *lock;
    int64_t scripts;

    stage_open(&st, .client = OPTIONS(.outage_timeout_ms = OUTAGE_MS, .on_outage = RDL_OUTAGE_WAIT));
    lock = reentrant(st.client, NAME, NULL);
    foreign_take(st.probe, NAME, 60000);
    scripts = probe_calls(st.probe, "evalsha");
    caller_try_lock(sleeper, lock, 60000, LEASE_MS);
    expect_asleep(scripts, 2, 1);
    probe_close(st.probe);
    server_kill(st.server);
    let_pass_ms(5 * OUTAGE_MS); /* it would have given up */
    cr_assert_not(caller_idle(sleeper));
    server_start_again(st.server);
    st.probe = probe_open(st.server);
    expect_result(RDL_OK, sleeper, 2 * SOON_MS);
    caller_unlock(sleeper, lock);
    expect_result(RDL_OK, sleeper, SOON_MS);
    caller_free(sleeper);
    rdl_lock_free(lock);
}

Test(outage, options_that_are_none_are_refused)
{
    rdl_client_t *client;
    rdl_lock_t *lock, *other;

    stage_open(&st);
    expect(RDL_EINVAL, rdl_client_open(stage_uri(&st), OPTIONS(.on_outage = (rdl_outage_t)9), &client, &err));
    cr_assert_not_null(strstr(err.message, "on_outage"), "%s", err.message);
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, LOCK_OPTIONS(.on_outage = (rdl_outage_t)9), &lock, &err));
    cr_assert_not_null(strstr(err.message, "on_outage"), "%s", err.message);
    lock = reentrant(st.client, NAME, LOCK_OPTIONS(.on_outage = RDL_OUTAGE_WAIT));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, NAME, NULL, &other, &err)); /* other options, the default */
    rdl_lock_free(lock);
}
