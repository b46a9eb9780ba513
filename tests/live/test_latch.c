/* SPDX-License-Identifier: MIT */
/* test_latch.c - the count-down latch: opened once, by the last, for all. */
#include "tests/live/live.h"

#include <pthread.h>

#define NAME "doors"
#define CHANNEL "redisson_countdownlatch__channel__{" NAME "}"

LIVE_SUITE(latch, 60);

static rdl_latch_t *open_latch(bool proxied)
{
    rdl_latch_t *latch = NULL;

    stage_open(&st, .proxied = proxied,
               .client = OPTIONS(.command_timeout_ms = 2000, .reconnect_min_ms = 1, .reconnect_max_ms = 50));
    left_behind = true; /* guards go by themselves */
    expect(RDL_OK, rdl_latch(st.client, NAME, NULL, &latch, &err));
    return latch;
}

static void note(rdl_latch_t *latch, int64_t result, const rdl_err_t *e, void *outcome)
{
    (void)latch;
    outcome_note(NULL, result, e, outcome);
}

Test(latch, counts_down_opens_and_may_be_set_again)
{
    rdl_latch_t *latch = open_latch(false);

    cr_assert_str_eq(rdl_latch_name(latch, NULL), NAME);
    expect(0, rdl_latch_count(latch, &err));
    expect(RDL_OK, rdl_latch_await(latch, 0, &err));
    expect(0, rdl_latch_count_down(latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 2, &err));
    expect(0, rdl_latch_try_set_count(latch, 9, &err));
    expect(RDL_ETIMEDOUT, rdl_latch_await(latch, 0, &err));
    expect_err_names(&err, RDL_ETIMEDOUT, NAME);
    expect(RDL_ETIMEDOUT, rdl_latch_await(latch, 1500, &err));
    expect(1, rdl_latch_count_down(latch, &err));
    expect(1, rdl_latch_count(latch, &err));
    expect(0, rdl_latch_count_down(latch, &err));
    expect(RDL_OK, rdl_latch_await(latch, RDL_WAIT_FOREVER, &err));
    cr_assert_eq(probe_int(st.probe, "EXISTS " NAME), 0);
    expect(1, rdl_latch_try_set_count(latch, 1, &err));
    rdl_latch_free(latch);
}

Test(latch, bad_arguments_are_refused_with_words)
{
    rdl_latch_options_t odd = {.version = 9};
    rdl_latch_t *latch = open_latch(false), *other = NULL;

    expect(RDL_EINVAL, rdl_latch_try_set_count(latch, 0, &err));
    expect(RDL_EINVAL, rdl_latch_try_set_count(latch, INT64_C(1) << 31, &err));
    expect(RDL_EINVAL, rdl_latch_await(latch, -1, &err));
    expect(RDL_EINVAL, rdl_latch_await(NULL, 0, &err));
    expect(RDL_EINVAL, rdl_latch(st.client, NAME, &odd, &other, &err));
    expect(RDL_EINVAL, rdl_latch(st.client, NAME, NULL, NULL, &err));
    cr_assert_null(rdl_latch_free(NULL));
    rdl_latch_free(latch);
}

Test(latch, N12_what_is_stored_under_the_name_and_is_no_count_is_reported)
{
    rdl_latch_t *latch = open_latch(false);

    (void)probe_ask(st.probe, "SET " NAME " many");
    expect(RDL_ESERVER, rdl_latch_count(latch, &err));
    cr_assert_not_null(strstr(err.message, "no count"), "%s", err.message);
    expect(RDL_ESERVER, rdl_latch_await(latch, 100, &err));
    cr_assert_not_null(strstr(err.message, "no count"), "%s", err.message);
    expect(RDL_ESERVER, rdl_latch_count_down(latch, &err));
    cr_assert_not_null(strstr(err.message, "no count"), "%s", err.message);
    cr_assert_str_eq(probe_text(st.probe, "GET " NAME), "many");
    rdl_latch_free(latch);
}

static void *count_down(void *arg)
{
    intptr_t opened = 0;

    for (int i = 0; i < 200; i++)
        opened += rdl_latch_count_down(arg, NULL) == 0;
    return (void *)opened;
}

/* Each counts once: race/race_permits has more of it. */
Test(latch, N1_count_downs_of_two_threads_at_one_moment_open_it_once)
{
    rdl_latch_t *latch = open_latch(false);
    pthread_t threads[2];
    intptr_t opened = 0;
    void *result;

    expect(1, rdl_latch_try_set_count(latch, 401, &err));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_down, latch), 0);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], &result);
        opened += (intptr_t)result;
    }
    cr_assert_eq(opened, 0);
    expect(1, rdl_latch_count(latch, &err));
    expect(0, rdl_latch_count_down(latch, &err));
    rdl_latch_free(latch);
}

/* Nor of one whose client is closed at once. */
Test(latch, latches_that_were_used_once_leave_nothing_behind)
{
    enum { LATCHES = 200 };
    rdl_latch_t *latch = open_latch(false);

    rdl_latch_free(latch);
    for (int i = 0; i < LATCHES; i++) {
        char *name = must_format(NAME "%d", i);

        expect(RDL_OK, rdl_latch(st.client, name, NULL, &latch, &err));
        expect(1, rdl_latch_try_set_count(latch, 1, &err));
        expect(0, rdl_latch_count_down(latch, &err));
        rdl_latch_free(latch);
        free(name);
    }
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS));
    expect(RDL_OK, rdl_latch(st.client, NAME, NULL, &latch, &err));
    expect(1, rdl_latch_try_set_count(latch, 1, &err));
    expect(0, rdl_latch_count_down(latch, &err));
    cr_assert_eq(probe_keys(st.probe), 1, "the guard, while the latch may be used");
    rdl_latch_free(latch);
    rdl_client_close(st.client);
    st.client = NULL;
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 0, SOON_MS), "which is sent for, and not waited for");
}

Test(latch, all_who_await_go_on_when_it_opens)
{
    enum { WAITERS = 20 };
    rdl_latch_t *latch = open_latch(false);
    struct outcome o[WAITERS] = {{0}};

    expect(1, rdl_latch_try_set_count(latch, 2, &err));
    for (size_t i = 0; i < WAITERS; i++)
        expect(RDL_OK, rdl_latch_await_async(latch, NULL, RDL_WAIT_FOREVER, note, &o[i], NULL, &err));
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    expect(1, rdl_latch_count_down(latch, &err));
    cr_assert_eq(atomic_load(&o[0].calls), 0);
    expect(0, rdl_latch_count_down(latch, &err));
    for (size_t i = 0; i < WAITERS; i++)
        cr_assert_eq(outcome_wait(&o[i], WOKEN_MS), RDL_OK);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    rdl_latch_free(latch);
}

/* What Java's delete does. */
Test(latch, foreign_delete_lets_all_go_on)
{
    rdl_latch_t *latch = open_latch(false);
    struct outcome o = {0};

    expect(1, rdl_latch_try_set_count(latch, 2, &err));
    expect(RDL_OK, rdl_latch_await_async(latch, NULL, RDL_WAIT_FOREVER, note, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_subscribers(st.probe, CHANNEL) == 1, SOON_MS));
    (void)probe_ask(st.probe, "DEL " NAME);
    (void)probe_ask(st.probe, "PUBLISH " CHANNEL " 1");
    cr_assert_eq(outcome_wait(&o, WOKEN_MS), RDL_OK);
    rdl_latch_free(latch);
}

Test(latch, await_can_be_cancelled)
{
    rdl_latch_t *latch = open_latch(false);
    struct outcome o = {0};
    rdl_op_t *op = NULL;

    expect(1, rdl_latch_try_set_count(latch, 1, &err));
    expect(RDL_OK, rdl_latch_await_async(latch, NULL, RDL_WAIT_FOREVER, note, &o, &op, &err));
    rdl_op_cancel(op);
    cr_assert_eq(outcome_wait(&o, SOON_MS), RDL_ECANCELED);
    rdl_op_free(op);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    rdl_latch_free(latch);
}

/* A1, A2 */
Test(latch, verbs_whose_replies_are_lost_count_once)
{
    rdl_latch_t *latch = open_latch(true);

    for (size_t at = 0; at <= 4; at++) {
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(1, rdl_latch_try_set_count(latch, 2, &err));
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(1, rdl_latch_count_down(latch, &err));
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(0, rdl_latch_count_down(latch, &err));
    }
    rdl_latch_free(latch);
}

Test(latch, count_down_whose_outcome_is_unknown_goes_on_once)
{
    rdl_latch_t *latch = open_latch(true);
    int held;

    expect(1, rdl_latch_try_set_count(latch, 4, &err));
    expect(3, rdl_latch_count_down(latch, &err)); /* the server knows the script from now on */
    held = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    expect(RDL_EUNKNOWN, rdl_latch_count_down(latch, &err));
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "GET " NAME) == 2, SOON_MS));
    expect(1, rdl_latch_count_down(latch, &err));
    rdl_latch_free(latch);
}
