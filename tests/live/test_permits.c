/* SPDX-License-Identifier: MIT */
/* test_permits.c - permits with ids and leases. */
#include "tests/live/live.h"

#include <pthread.h>

#define NAME "seats"
#define TAKEN "{" NAME "}:timeout"
#define LEASE_MS 30000

LIVE_SUITE(permits, 60);

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

static rdl_permit_semaphore_t *semaphore(rdl_client_t *client, bool fair)
{
    rdl_semaphore_options_t options = RDL_SEMAPHORE_OPTIONS_INIT;
    rdl_permit_semaphore_t *s = NULL;

    options.fair = fair;
    if (rdl_permit_semaphore(client, NAME, &options, &s, &err) < 0)
        die("%s", err.message);
    return s;
}

static rdl_permit_semaphore_t *open_with(int64_t permits, bool proxied, bool fair)
{
    rdl_permit_semaphore_t *s;
    rdl_permit_t p;

    stage_open(&st, .proxied = proxied,
               .client = OPTIONS(.command_timeout_ms = 2000, .reconnect_min_ms = 1, .reconnect_max_ms = 50));
    left_behind = true; /* a semaphore stays */
    s = semaphore(st.client, fair);
    expect(1, rdl_permit_semaphore_try_set_permits(s, permits, &err));
    expect(RDL_OK,
           rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, &p, &err)); /* the server knows the scripts from now */
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, &p, &err));
    return s;
}

static void note(rdl_permit_semaphore_t *s, int64_t result, const rdl_err_t *e, void *outcome)
{
    (void)s;
    outcome_note(NULL, result, e, outcome);
}

static bool is_free(int64_t permits)
{
    return probe_int(st.probe, "GET " NAME) == permits;
}

static int64_t taken(void)
{
    return probe_int(st.probe, "ZCARD " TAKEN);
}

/* ---- ids and leases --------------------------------------------------------------------------------------------- */

Test(permits, have_ids_of_their_own_and_are_given_back_by_them)
{
    rdl_permit_semaphore_t *s = open_with(3, false, false);
    rdl_permit_t p[3], again;

    cr_assert_str_eq(rdl_permit_semaphore_name(s, NULL), NAME);
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 2, 0, LEASE_MS, p, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, RDL_LEASE_NEVER, p + 2, &err));
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(strlen(p[i].id), 32);
        cr_assert_eq(strspn(p[i].id, "0123456789abcdef"), 32);
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(p[i].id, p[k].id);
    }
    expect(RDL_ETIMEDOUT, rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, &again, &err));
    expect(0, rdl_permit_semaphore_available(s, &err));
    expect(3, rdl_permit_semaphore_acquired(s, &err));
    expect_between(LEASE_MS - 2000, rdl_permit_semaphore_remaining_ms(s, &p[0], &err), LEASE_MS);
    expect(RDL_LEASE_NEVER, rdl_permit_semaphore_remaining_ms(s, &p[2], &err));
    cr_assert_eq(probe_int(st.probe, "ZCOUNT " TAKEN " 922337203685477 +inf"), 1);
    expect(RDL_OK, rdl_permit_semaphore_release(s, 2, p + 1, &err));
    expect(RDL_ELOST, rdl_permit_semaphore_release(s, 2, p, &err));
    expect(1, rdl_permit_semaphore_acquired(s, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, p, &err));
    expect(RDL_ELOST, rdl_permit_semaphore_release(s, 1, p, &err));
    expect(RDL_ELOST, rdl_permit_semaphore_extend(s, p, LEASE_MS, &err));
    expect(RDL_ELOST, rdl_permit_semaphore_remaining_ms(s, p, &err));
    cr_assert(is_free(3));
    rdl_permit_semaphore_free(s);
}

Test(permits, number_of_permits_can_be_changed_while_some_are_taken)
{
    rdl_permit_semaphore_t *s = open_with(2, false, false);
    rdl_permit_t p;

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, &p, &err));
    expect(RDL_OK, rdl_permit_semaphore_set_permits(s, 5, &err));
    expect(4, rdl_permit_semaphore_available(s, &err));
    expect(RDL_OK, rdl_permit_semaphore_set_permits(s, 0, &err));
    cr_assert(is_free(-1));
    expect(0, rdl_permit_semaphore_available(s, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, &p, &err));
    cr_assert(is_free(0));
    expect(RDL_OK, rdl_permit_semaphore_add_permits(s, 2, &err));
    expect(2, rdl_permit_semaphore_available(s, &err));
    rdl_permit_semaphore_free(s);
}

Test(permits, extending_moves_the_end_away_and_never_nearer)
{
    rdl_permit_semaphore_t *s = open_with(1, false, false);
    rdl_permit_t p;

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, &p, &err));
    expect(RDL_OK, rdl_permit_semaphore_extend(s, &p, 1000, &err));
    expect_between(LEASE_MS - 2000, rdl_permit_semaphore_remaining_ms(s, &p, &err), LEASE_MS);
    expect(RDL_OK, rdl_permit_semaphore_extend(s, &p, 2 * LEASE_MS, &err));
    expect_between(2 * LEASE_MS - 2000, rdl_permit_semaphore_remaining_ms(s, &p, &err), 2 * LEASE_MS);
    rdl_permit_semaphore_free(s);
}

/* The hint of the refusal is when the next permit ends: nothing announces that. */
Test(permits, expired_permit_wakes_who_waits_when_it_ends)
{
    enum { BRIEF_MS = 2000 };
    rdl_permit_semaphore_t *s = open_with(1, false, false);
    rdl_permit_t p, q;
    int64_t start;

    start = now_ms();
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, BRIEF_MS, &p, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 10000, LEASE_MS, &q, &err));
    expect_between(BRIEF_MS - 100, now_ms() - start, BRIEF_MS + SLACK_MS);
    expect(RDL_ELOST, rdl_permit_semaphore_release(s, 1, &p, &err));
    cr_assert_eq(taken(), 1);
    cr_assert(is_free(0));
    rdl_permit_semaphore_free(s);
}

Test(permits, N11_no_sum_exceeds_what_a_semaphore_may_have)
{
    rdl_permit_semaphore_t *s = open_with(1, false, false);
    rdl_permit_t p;

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, &p, &err));
    expect(RDL_OK, rdl_permit_semaphore_add_permits(s, RDL_PERMITS_MAX, &err));
    expect(RDL_ESERVER, rdl_permit_semaphore_add_permits(s, 1, &err));
    expect(RDL_ESERVER, rdl_permit_semaphore_release(s, 1, &p, &err));
    cr_assert_not_null(strstr(err.message, "has at most 2147483647 permits"), "%s", err.message);
    expect(RDL_PERMITS_MAX, rdl_permit_semaphore_available(s, &err));
    expect(1, rdl_permit_semaphore_acquired(s, &err));
    expect(RDL_OK, rdl_permit_semaphore_add_permits(s, -1, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, &p, &err));
    expect(RDL_OK, rdl_permit_semaphore_set_permits(s, RDL_PERMITS_MAX, &err));
    cr_assert(is_free(RDL_PERMITS_MAX));
    rdl_permit_semaphore_free(s);
}

/* Of a string and of another type: each verb says it in words of its own. */
Test(permits, N12_what_is_stored_under_the_name_and_is_no_count_is_reported)
{
    rdl_permit_semaphore_t *s = open_with(1, false, false);
    rdl_permit_t p = {"0123456789abcdef0123456789abcdef"};

    (void)probe_ask(st.probe, "SET " NAME " many");
    expect(RDL_ESERVER, rdl_permit_semaphore_available(s, &err));
    cr_assert_not_null(strstr(err.message, "no count"), "%s", err.message);
    expect(RDL_ESERVER, rdl_permit_semaphore_acquired(s, &err));
    expect(RDL_ESERVER, rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, &p, &err));
    cr_assert_not_null(strstr(err.message, "no count"), "%s", err.message);
    expect(RDL_ESERVER, rdl_permit_semaphore_release(s, 1, &p, &err));
    expect(RDL_ESERVER, rdl_permit_semaphore_set_permits(s, 1, &err));
    cr_assert_str_eq(probe_text(st.probe, "GET " NAME), "many");
    rdl_permit_semaphore_free(s);
}

Test(permits, bad_arguments_are_refused_with_words)
{
    rdl_permit_semaphore_t *s = open_with(1, false, false);
    rdl_permit_t odd = {"0123456789abcdef0123456789ABCDEF"}, p;
    rdl_semaphore_t *plain = NULL;

    expect(RDL_EINVAL, rdl_permit_semaphore_acquire(NULL, 1, LEASE_MS, &p, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_acquire(s, 0, LEASE_MS, &p, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_acquire(s, RDL_PERMIT_IDS_MAX + 1, LEASE_MS, &p, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_acquire(s, 1, 0, &p, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_acquire(s, 1, RDL_LEASE_AUTO, &p, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_acquire(s, 1, LEASE_MS, NULL, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_release(s, 1, &odd, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_release(s, 1, NULL, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_extend(s, &odd, LEASE_MS, &err));
    expect(RDL_EINVAL, rdl_permit_semaphore_set_permits(s, -1, &err));
    expect(RDL_EINVAL, rdl_semaphore(st.client, NAME, NULL, &plain, &err));
    cr_assert_not_null(strstr(err.message, "by a permit semaphore"), "%s", err.message);
    cr_assert_null(rdl_permit_semaphore_free(NULL));
    rdl_permit_semaphore_free(s);
}

Test(permits, a_thousand_at_once)
{
    rdl_permit_semaphore_t *s = open_with(1000, false, false);
    rdl_permit_t *p = must_alloc(RDL_PERMIT_IDS_MAX * sizeof *p);

    expect(RDL_OK, rdl_permit_semaphore_acquire(s, RDL_PERMIT_IDS_MAX, LEASE_MS, p, &err));
    cr_assert_eq(taken(), RDL_PERMIT_IDS_MAX);
    expect(RDL_OK, rdl_permit_semaphore_release(s, RDL_PERMIT_IDS_MAX, p, &err));
    cr_assert_eq(taken(), 0);
    p[1] = p[0];
    expect(RDL_ELOST, rdl_permit_semaphore_release(s, 2, p, &err));
    free(p);
    rdl_permit_semaphore_free(s);
}

/* ---- two threads of one client ---------------------------------------------------------------------------------- */

struct taker {
    rdl_permit_semaphore_t *semaphore;
    atomic_uint *here;
    rdl_permit_t permits[RDL_PERMIT_IDS_MAX];
    int64_t result;
    pthread_t id;
};

static void *take_block(void *arg)
{
    struct taker *t = arg;

    meet(t->here, 2);
    t->result = rdl_permit_semaphore_try_acquire(t->semaphore, RDL_PERMIT_IDS_MAX, 0, LEASE_MS, t->permits, NULL);
    return NULL;
}

/* As many as both ask for are free, and all of them are taken: so none is taken twice. race/race_permits has more of
 * it. */
Test(permits, N1_blocks_that_two_threads_take_at_one_moment_have_no_permit_in_common)
{
    enum { ROUNDS = 30 };
    rdl_permit_semaphore_t *s = open_with(2 * RDL_PERMIT_IDS_MAX, false, false);
    struct taker *takers = must_alloc(2 * sizeof *takers);
    atomic_uint here = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++) {
            takers[i].semaphore = s;
            takers[i].here = &here;
            cr_assert_eq(pthread_create(&takers[i].id, NULL, take_block, &takers[i]), 0);
        }
        for (int i = 0; i < 2; i++)
            (void)pthread_join(takers[i].id, NULL);
        cr_assert(takers[0].result == RDL_OK && takers[1].result == RDL_OK, "round %d", round);
        cr_assert_eq(taken(), 2 * RDL_PERMIT_IDS_MAX, "round %d: %" PRId64 " are taken", round, taken());
        for (int i = 0; i < 2; i++)
            expect(RDL_OK, rdl_permit_semaphore_release(s, RDL_PERMIT_IDS_MAX, takers[i].permits, &err));
        cr_assert(is_free(2 * RDL_PERMIT_IDS_MAX), "round %d", round);
    }
    free(takers);
    rdl_permit_semaphore_free(s);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

Test(permits, release_wakes_as_many_as_fit)
{
    rdl_permit_semaphore_t *s = open_with(2, false, false);
    rdl_permit_t p[2], q[2];
    struct outcome o[2] = {{0}};

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 2, 0, LEASE_MS, p, &err));
    for (size_t i = 0; i < 2; i++)
        expect(RDL_OK,
               rdl_permit_semaphore_try_acquire_async(s, NULL, 1, 10000, LEASE_MS, &q[i], note, &o[i], NULL, &err));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 2, p, &err));
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(outcome_wait(&o[i], WOKEN_MS), RDL_OK);
    expect(RDL_OK, rdl_permit_semaphore_release(s, 2, q, &err));
    cr_assert(is_free(2));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    rdl_permit_semaphore_free(s);
}

/* P5 */
Test(permits, P5_waiter_for_two_is_woken_by_a_release_of_two)
{
    rdl_permit_semaphore_t *s = open_with(2, false, false);
    rdl_permit_t p[2], q[2];
    struct outcome o = {0};

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 2, 0, LEASE_MS, p, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire_async(s, NULL, 2, 10000, LEASE_MS, q, note, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 2, p, &err));
    cr_assert_eq(outcome_wait(&o, WOKEN_MS), RDL_OK);
    expect(RDL_OK, rdl_permit_semaphore_release(s, 2, q, &err));
    cr_assert(is_free(2));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 0, SOON_MS));
    rdl_permit_semaphore_free(s);
}

Test(permits, fair_waiter_for_many_is_not_passed_by_waiters_for_one)
{
    rdl_permit_semaphore_t *s = open_with(2, false, true);
    rdl_permit_t p[2], big[2], small;
    struct outcome o[2] = {{0}};

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 2, 0, LEASE_MS, p, &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire_async(s, NULL, 2, 10000, LEASE_MS, big, note, &o[0], NULL, &err));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    expect(RDL_OK,
           rdl_permit_semaphore_try_acquire_async(s, NULL, 1, 10000, LEASE_MS, &small, note, &o[1], NULL, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, p, &err));
    expect(RDL_ETIMEDOUT, rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, p, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, p + 1, &err));
    cr_assert_eq(outcome_wait(&o[0], WOKEN_MS), RDL_OK);
    cr_assert_eq(atomic_load(&o[1].calls), 0);
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, big, &err));
    cr_assert_eq(outcome_wait(&o[1], WOKEN_MS), RDL_OK);
    rdl_permit_semaphore_free(s);
}

/* ---- lost replies ----------------------------------------------------------------------------------------------- */

Test(permits, verbs_whose_replies_are_lost_count_once)
{
    rdl_permit_semaphore_t *s = open_with(4, true, false);
    rdl_permit_t p[2];

    for (size_t at = 0; at <= 4; at++) {
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 2, 5000, LEASE_MS, p, &err));
        cr_assert(is_free(2));
        cr_assert_eq(taken(), 2);
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME,
                       .at = at);
        expect(RDL_OK, rdl_permit_semaphore_release(s, 2, p, &err));
        cr_assert(is_free(4));
        cr_assert_eq(taken(), 0);
    }
    rdl_permit_semaphore_free(s);
}

/* None of those in the list went: a repeat that finds one of them must not take that for its own work. */
Test(permits, release_that_was_refused_and_whose_reply_was_lost_is_refused_again)
{
    rdl_permit_semaphore_t *s = open_with(2, true, false);
    rdl_permit_t p[2];

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 2, 5000, LEASE_MS, p, &err));
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, p, &err));
    (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    expect(RDL_ELOST, rdl_permit_semaphore_release(s, 2, p, &err));
    cr_assert_eq(taken(), 1);
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, p + 1, &err));
    rdl_permit_semaphore_free(s);
}

/* A3 */
Test(permits, take_whose_outcome_is_unknown_is_undone_and_a_release_goes_on)
{
    rdl_permit_semaphore_t *s = open_with(3, true, false);
    int held = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    rdl_permit_t p[2];

    expect(RDL_EUNKNOWN, rdl_permit_semaphore_try_acquire(s, 2, 0, LEASE_MS, p, &err));
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(is_free(3) && taken() == 0, SOON_MS));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 2, 0, LEASE_MS, p, &err));
    held = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    expect(RDL_EUNKNOWN, rdl_permit_semaphore_release(s, 2, p, &err));
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(is_free(3) && taken() == 0, SOON_MS));
    rdl_permit_semaphore_free(s);
}

/* Q4 */
Test(permits, grant_whose_reply_is_read_after_its_lease_is_given_back)
{
    rdl_permit_semaphore_t *s = open_with(1, true, false);
    int held = proxy_on(st.proxy, .action = PROXY_HOLD, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    struct outcome o = {0};
    rdl_permit_t p;

    expect(RDL_OK, rdl_permit_semaphore_try_acquire_async(s, NULL, 1, 0, 100, &p, note, &o, NULL, &err));
    cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
    let_pass_ms(150);
    proxy_let_go(st.proxy, held);
    cr_assert_eq(outcome_wait(&o, SOON_MS), RDL_ELOST);
    cr_assert(WAIT_UNTIL(is_free(1), SOON_MS));
    rdl_permit_semaphore_free(s);
}

/* A caller who is told gives back the others by himself. Here nobody is told. */
Test(permits, release_that_goes_on_gives_back_those_that_are_left)
{
    rdl_permit_semaphore_t *s = open_with(3, false, false);
    rdl_permit_t p[2];

    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, 1500, &p[0], &err));
    expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, RDL_LEASE_NEVER, &p[1], &err));
    server_pause(st.server);
    expect(RDL_EUNKNOWN,
           rdl_permit_semaphore_release(s, 2, p, &err)); /* after command_timeout_ms: the first has expired */
    server_resume(st.server);
    cr_assert(WAIT_UNTIL(taken() == 0 && is_free(3), SOON_MS), "%" PRId64 " are taken", taken());
    rdl_permit_semaphore_free(s);
}

/* ---- where CLIENT KILL is refused ------------------------------------------------------------------------------- */

#define NO_KILL "-client +client|setname +client|id +client|info"

static rdl_permit_semaphore_t *open_without_kill(bool fair)
{
    rdl_permit_semaphore_t *s = open_with(1, true, fair);

    stage_limit(&st, NO_KILL);
    return s;
}

/* protocol.md, 3: the caller was told of permits that were sent for once, so that whoever gives them back is rid of
 * them. */
static void expect_late_take_cleared_away(bool fair)
{
    rdl_permit_semaphore_t *s = open_without_kill(fair);
    int held = proxy_on(st.proxy, .action = PROXY_HOLD, .command = "EVALSHA", .contains = NAME);
    rdl_client_t *other = client_open(server_uri(st.server), NULL);
    rdl_permit_semaphore_t *others = semaphore(other, fair);
    struct outcome o = {0};
    rdl_permit_t p;

    expect(RDL_OK, rdl_permit_semaphore_try_acquire_async(s, NULL, 1, 5000, RDL_LEASE_NEVER, &p, note, &o, NULL, &err));
    cr_assert(proxy_wait(st.proxy, held, 1, SOON_MS));
    proxy_cut_client_side(st.proxy, PROXY_COMMANDERS);
    cr_assert_eq(outcome_wait(&o, SOON_MS), RDL_OK);
    expect(RDL_OK, rdl_permit_semaphore_release(others, 1, &p, &err));
    let_pass_ms(600); /* between two undos of what was sent first */
    cr_assert(is_free(1));
    proxy_let_go(st.proxy, held);
    cr_assert(WAIT_UNTIL(taken() == 1, SOON_MS));             /* it ran: there was no KILL */
    cr_assert(WAIT_UNTIL(taken() == 0 && is_free(1), 15000)); /* 0.1, 0.3, 1, 3, 10 s after the doubt */
    rdl_permit_semaphore_free(others);
    (void)rdl_client_close(other);
    rdl_permit_semaphore_free(s);
}

Test(permits, take_that_comes_after_its_permits_were_given_back_is_undone_where_kill_is_refused)
{
    expect_late_take_cleared_away(false);
}

Test(permits, fair_take_that_comes_after_its_permits_were_given_back_is_undone_where_kill_is_refused)
{
    expect_late_take_cleared_away(true);
}

/* What the first sending has taken is not in the way of the repeat, whether or not the refusal was known before. */
Test(permits, single_take_whose_reply_is_lost_is_granted_where_kill_is_refused)
{
    rdl_permit_semaphore_t *s = open_without_kill(false);
    rdl_permit_t p;

    for (int i = 0; i < 3; i++) {
        (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
        expect(RDL_OK, rdl_permit_semaphore_try_acquire(s, 1, 0, LEASE_MS, &p, &err));
        cr_assert(is_free(0));
        cr_assert_eq(taken(), 1);
        expect(RDL_OK, rdl_permit_semaphore_release(s, 1, &p, &err));
        cr_assert(is_free(1));
        cr_assert_eq(taken(), 0);
    }
    rdl_permit_semaphore_free(s);
}

#define SHORT_MS 3000 /* a lease; longer than a machine stands still between the grant and its being read */

/* Granted to a second sending, and not told yet, while the undo of the first is repeated. */
static rdl_permit_semaphore_t *granted_again(int64_t lease_ms, rdl_permit_t *p, struct outcome *o)
{
    rdl_permit_semaphore_t *s = open_without_kill(false);
    int undone = proxy_on(st.proxy, .part = PROXY_REPLY, .command = "EVAL", .contains = NAME, .every = true);

    rdl_permit_semaphore_free(s);
    (void)rdl_client_close(st.client);
    st.client = client_open(stage_uri(&st),
                            OPTIONS(.dispatch = RDL_DISPATCH_FD, .reconnect_min_ms = 1, .reconnect_max_ms = 50));
    s = semaphore(st.client, false);
    (void)proxy_on(st.proxy, .action = PROXY_CUT, .part = PROXY_REPLY, .command = "EVALSHA", .contains = NAME);
    expect(RDL_OK, rdl_permit_semaphore_try_acquire_async(s, NULL, 1, 5000, lease_ms, p, note, o, NULL, &err));
    cr_assert(proxy_wait(st.proxy, undone, 2, SOON_MS)); /* before the second sending, and after its answer */
    cr_assert_eq(taken(), 1);
    return s;
}

static int64_t result(struct outcome *o)
{
    cr_assert(WAIT_UNTIL(rdl_client_dispatch(st.client) >= 0 && atomic_load(&o->calls) > 0, SOON_MS));
    return outcome_wait(o, SOON_MS);
}

Test(permits, N15_permit_that_is_over_when_its_callback_runs_is_told_as_lost_while_an_undo_is_repeated)
{
    struct outcome o = {0};
    rdl_permit_t p;
    rdl_permit_semaphore_t *s = granted_again(SHORT_MS, &p, &o);

    let_pass_ms(SHORT_MS + 100);
    expect(RDL_ELOST, result(&o));
    rdl_permit_semaphore_free(s);
}

Test(permits, N15_permit_that_goes_on_is_told_as_granted_while_an_undo_waits_for_a_connection)
{
    struct outcome o = {0};
    rdl_permit_t p;
    rdl_permit_semaphore_t *s = granted_again(LEASE_MS, &p, &o);

    proxy_refuse(st.proxy, true);
    proxy_cut(st.proxy, PROXY_ALL);
    let_pass_ms(1500); /* the undo is repeated in that time, at the latest */
    expect(RDL_OK, result(&o));
    proxy_refuse(st.proxy, false);
    expect(RDL_OK, rdl_permit_semaphore_release(s, 1, &p, &err));
    cr_assert(is_free(1));
    rdl_permit_semaphore_free(s);
}

/* ---- a take that never began ------------------------------------------------------------------------------------ */

/* Asks for twenty more, and cancels that before the loop, whose thread this is, can begin it. */
struct hasty {
    rdl_permit_t p[20];
    struct outcome first, second;
};

static void ask_and_cancel(rdl_permit_semaphore_t *s, int64_t result, const rdl_err_t *e, void *arg)
{
    struct hasty *h = arg;
    rdl_op_t *op = NULL;

    cr_assert(rdl_permit_semaphore_try_acquire_async(s, NULL, 20, 10000, LEASE_MS, h->p, note, &h->second, &op, NULL) ==
              RDL_OK);
    rdl_op_cancel(op);
    (void)rdl_op_free(op);
    note(s, result, e, &h->first);
}

/* The first take has waited, so there may be a place in the queue, which the second, as the last to end, gives up. */
Test(permits, take_that_is_canceled_before_it_began_gives_back_nobodys)
{
    rdl_permit_semaphore_t *s = open_with(4, false, true);
    rdl_permit_t mine;
    struct hasty h = {.first.result = 0};

    expect(RDL_OK,
           rdl_permit_semaphore_try_acquire_async(s, NULL, 1, 10000, LEASE_MS, &mine, ask_and_cancel, &h, NULL, &err));
    expect(RDL_OK, outcome_wait(&h.first, SOON_MS));
    expect(RDL_ECANCELED, outcome_wait(&h.second, SOON_MS));
    rdl_permit_semaphore_free(s);
    st.client = rdl_client_close(st.client); /* by then the place is given up */
    expect(1, taken());
    cr_assert(is_free(3));
}
