/* SPDX-License-Identifier: MIT */
/* test_multi.c - several locks as one: all or nothing, without circles, and what becomes of it member by member. */
#include "tests/live/contend.h"
#include "tests/live/live.h"
#include "tests/support/counting_alloc.h"

#include <pthread.h>

#define LEASE_MS 10000

LIVE_SUITE(multi, 60);

static rdl_lock_t *member[4]; /* a, b, c, d; the last of another type */
static rdl_lock_t *both;      /* of a and b */
static rdl_lock_t *multi;     /* of all but d, in another order */

static rdl_lock_t *make(rdl_lock_t *const *members, size_t n)
{
    rdl_lock_t *lock = NULL;

    expect(RDL_OK, rdl_multi_lock(members, n, NULL, &lock, &err));
    return lock;
}

static void open_all(void)
{
    member[0] = reentrant(st.client, "a", NULL);
    member[1] = nonreentrant(st.client, "b", NULL);
    member[2] = reentrant(st.client, "c", NULL);
    member[3] = simple(st.client, "d", NULL);
    both = make((rdl_lock_t *[]){member[0], member[1]}, 2);
    multi = make((rdl_lock_t *[]){member[2], member[1], member[0]}, 3);
}

static void close_all(void)
{
    rdl_lock_free(multi);
    rdl_lock_free(both);
    for (int i = 0; i < 4; i++)
        rdl_lock_free(member[i]);
}

static int64_t ttl_of(const char *name)
{
    return probe_int(st.probe, "PTTL %s", name);
}

Test(multi, takes_all_and_gives_all_back)
{
    stage_open(&st);
    open_all();
    expect(RDL_OK, rdl_try_lock(multi, 0, LEASE_MS, &err));
    cr_assert_eq(probe_keys(st.probe), 3);
    expect(1, rdl_is_held(multi, &err));
    expect(1, rdl_hold_count(multi, &err));
    expect(RDL_HELD, rdl_hold_state(multi, &err));
    expect(1, rdl_is_locked(multi, &err));
    expect(1, rdl_is_held(member[1], &err));
    expect_between(LEASE_MS - SLACK_MS, rdl_remaining_ms(multi, &err), LEASE_MS);
    expect(RDL_EINVAL, rdl_token(multi, &err));
    cr_assert_str_eq(rdl_lock_type(multi), "multi");
    cr_assert_str_eq(rdl_lock_name(multi, NULL), "a+b+c");
    expect(RDL_OK, rdl_unlock(multi, &err));
    cr_assert_eq(probe_keys(st.probe), 0);
    expect(RDL_ENOTOWNER, rdl_unlock(multi, &err));
    expect(0, rdl_is_locked(multi, &err));
    expect(0, rdl_remaining_ms(multi, &err));
    close_all();
}

/* The tries of free members at one server are one write: nothing is answered before all of them have been asked. So are
 * the releases. */
Test(multi, free_members_cost_one_round_trip)
{
    enum { TRIP_MS = 2500 };
    int64_t start;

    stage_open(&st, .proxied = true, .client = OPTIONS(.command_timeout_ms = 4 * TRIP_MS));
    open_all();
    proxy_delay(st.proxy, PROXY_TO_SERVER, TRIP_MS);
    start = now_ms();
    expect(RDL_OK, rdl_try_lock(multi, 4 * TRIP_MS, LEASE_MS, &err));
    expect_between(TRIP_MS, now_ms() - start, 2 * TRIP_MS - 1);
    start = now_ms();
    expect(RDL_OK, rdl_unlock(multi, &err));
    expect_between(TRIP_MS, now_ms() - start, 2 * TRIP_MS - 1);
    proxy_delay(st.proxy, PROXY_TO_SERVER, 0);
    close_all();
}

Test(multi, one_that_is_taken_leaves_none)
{
    stage_open(&st);
    open_all();
    foreign_take(st.probe, "b", LEASE_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(multi, 0, LEASE_MS, &err));
    cr_assert(strstr(err.message, "lock b") != NULL, "%s", err.message);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, SOON_MS));
    expect(0, rdl_hold_count(multi, &err));
    expect(0, rdl_is_held(member[0], &err));
    (void)foreign_release(st.probe, "b");
    close_all();
}

/* M1, and the wake-up: while b is waited for, a is held; c is not. */
Test(multi, contended_member_is_waited_for_and_no_ttl_is_above_the_lease)
{
    struct caller *caller = caller_new();

    stage_open(&st);
    open_all();
    foreign_take(st.probe, "b", 60000);
    caller_try_lock(caller, multi, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    cr_assert_eq(probe_int(st.probe, "EXISTS c"), 0);
    let_pass_ms(20);
    cr_assert(!caller_idle(caller));
    (void)foreign_release(st.probe, "b");
    expect_result(RDL_OK, caller, SOON_MS);
    for (const char *const *name = (const char *const[]){"a", "b", "c", NULL}; *name != NULL; name++)
        expect_between(LEASE_MS - 1500, ttl_of(*name), LEASE_MS);
    caller_unlock(caller, multi);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    close_all();
}

/* What is held while another is waited for goes back after a while: others know no order. */
Test(multi, holds_nothing_for_long_while_it_waits)
{
    struct caller *caller = caller_new();

    stage_open(&st);
    open_all();
    foreign_take(st.probe, "c", 60000);
    caller_try_lock(caller, multi, 20000, LEASE_MS);
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS a") == 1, SOON_MS));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS a") == 0 && probe_int(st.probe, "EXISTS b") == 0, SOON_MS));
    expect(RDL_OK, rdl_try_lock(both, 0, LEASE_MS, &err));
    (void)foreign_release(st.probe, "c");
    let_pass_ms(20);
    cr_assert(!caller_idle(caller));
    expect(RDL_OK, rdl_unlock(both, &err));
    expect_result(RDL_OK, caller, SOON_MS);
    caller_unlock(caller, multi);
    expect_result(RDL_OK, caller, SOON_MS);
    caller_free(caller);
    close_all();
}

Test(multi, time_out_leaves_nothing)
{
    int64_t start;

    stage_open(&st);
    open_all();
    foreign_take(st.probe, "c", LEASE_MS);
    start = now_ms();
    expect(RDL_ETIMEDOUT, rdl_try_lock(multi, 1500, LEASE_MS, &err));
    expect_between(1499, now_ms() - start, 1500 + SLACK_MS);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, SOON_MS));
    (void)foreign_release(st.probe, "c");
    close_all();
}

/* M3 */
Test(multi, cancel_while_acquiring_releases_every_member)
{
    struct outcome o = {0};
    rdl_owner_t *owner = NULL;
    rdl_op_t *op = NULL;

    stage_open(&st);
    open_all();
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    foreign_take(st.probe, "c", LEASE_MS);
    expect(RDL_OK, rdl_lock_async(multi, owner, RDL_LEASE_AUTO, outcome_note, &o, &op, &err));
    cr_assert(WAIT_UNTIL(probe_int(st.probe, "EXISTS a b") == 2, SOON_MS));
    rdl_op_cancel(op);
    expect(RDL_ECANCELED, outcome_wait(&o, SOON_MS));
    rdl_op_free(op);
    cr_assert(WAIT_UNTIL(probe_keys(st.probe) == 1, SOON_MS));
    expect(RDL_OK, rdl_owner_hold_state(owner, multi, &err));
    (void)foreign_release(st.probe, "c");
    rdl_owner_free(owner);
    close_all();
}

/* Its home is the other member's client, and there the wait is. */
Test(multi, owner_of_any_members_client_is_canceled)
{
    struct outcome o = {0};
    rdl_owner_t *owner = NULL;
    rdl_client_t *other;
    rdl_lock_t *far, *lock;

    stage_open(&st);
    open_all();
    other = client_open(stage_uri(&st), NULL);
    far = reentrant(other, "e", NULL);
    lock = make((rdl_lock_t *[]){member[0], far}, 2);
    expect(RDL_OK, rdl_owner_new(other, &owner, &err));
    foreign_take(st.probe, "a", LEASE_MS);
    expect(RDL_OK, rdl_lock_async(lock, owner, RDL_LEASE_AUTO, outcome_note, &o, NULL, &err));
    cr_assert(WAIT_UNTIL(probe_channels(st.probe) == 1, SOON_MS));
    cr_assert_geq(rdl_owner_cancel(owner), 1); /* what is asked of its own member may be another one */
    expect(RDL_ECANCELED, outcome_wait(&o, SOON_MS));
    (void)foreign_release(st.probe, "a");
    rdl_owner_free(owner);
    rdl_lock_free(lock);
    rdl_lock_free(far);
    rdl_client_close(other);
    close_all();
}

static struct {
    _Atomic int calls;
    rdl_loss_t loss;
    char member[16];
} told;

static void note_loss(rdl_lock_t *lock, const rdl_loss_t *loss, void *arg)
{
    (void)arg;
    cr_assert_eq(lock, multi);
    told.loss = *loss;
    strcpy(told.member, rdl_lock_name(loss->member, NULL));
    atomic_fetch_add(&told.calls, 1);
}

/* M2 */
Test(multi, lost_member_is_named_and_the_rest_is_released)
{
    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 4500));
    open_all();
    expect(RDL_OK, rdl_on_lost(multi, note_loss, NULL, &err));
    expect(RDL_OK, rdl_try_lock(multi, 0, RDL_LEASE_AUTO, &err));
    (void)probe_int(st.probe, "DEL b");
    cr_assert(WAIT_UNTIL(atomic_load(&told.calls) == 1, SOON_MS));
    cr_assert_str_eq(told.member, "b");
    cr_assert_eq(told.loss.state, RDL_LOST);
    cr_assert_eq(told.loss.reason, RDL_LOSS_GONE);
    expect(RDL_LOST, rdl_hold_state(multi, &err));
    expect(RDL_ELOST, rdl_try_lock(multi, 0, RDL_LEASE_AUTO, &err));
    cr_assert_eq(probe_keys(st.probe), 2);
    expect(RDL_ELOST, rdl_unlock(multi, &err));
    cr_assert(strstr(err.message, "1 lost: b") != NULL, "%s", err.message);
    cr_assert_eq(probe_keys(st.probe), 0);
    expect(RDL_OK, rdl_try_lock(multi, 0, RDL_LEASE_AUTO, &err));
    expect(RDL_OK, rdl_unlock(multi, &err));
    close_all();
}

static void *take_and_end(void *lock)
{
    rdl_err_t why;

    return rdl_try_lock(lock, 0, LEASE_MS, &why) == RDL_OK ? lock : NULL;
}

/* X5: the callback that tells it has yet to run when the lock, its members and a member's client are gone. */
Test(multi, owner_that_has_ended_is_told_of_after_the_lock_and_its_members_are_freed)
{
    struct counting_alloc memory;
    rdl_allocator_t hooks = counting_alloc_init(&memory);
    rdl_client_t *other;
    rdl_lock_t *first, *second, *lock;
    pthread_t thread;
    void *took;

    stage_open(&st, .client = OPTIONS(.dispatch = RDL_DISPATCH_FD));
    other = client_open(stage_uri(&st), OPTIONS(.allocator = &hooks));
    first = reentrant(other, "a", NULL);
    second = reentrant(st.client, "b", NULL);
    lock = make((rdl_lock_t *[]){second, first}, 2); /* whose callbacks are st.client's, and whose first member is a */
    cr_assert_eq(pthread_create(&thread, NULL, take_and_end, lock), 0);
    pthread_join(thread, &took);
    cr_assert_not_null(took);
    rdl_lock_free(lock);
    rdl_lock_free(first);
    rdl_lock_free(second);
    cr_assert_null(rdl_client_close(other));
    cr_assert_gt(rdl_client_dispatch(st.client), 0);
    cr_assert_eq(counting_alloc_blocks(&memory), 0);
    counting_alloc_done(&memory);
    left_behind = true; /* what it held, for its lease */
}

/* The field of such a hold does not end with its number. */
Test(multi, lost_write_end_is_heard_of)
{
    struct losses losses;
    rdl_lock_t *ends[2], *lock;

    stage_open(&st, .client = OPTIONS(.watchdog_lease_ms = 4500));
    ends[0] = write_end(st.client, "v", NULL);
    ends[1] = write_end(st.client, "w", NULL);
    lock = make(ends, 2);
    losses_init(&losses);
    expect(RDL_OK, rdl_on_lost(lock, losses_note, &losses, &err));
    expect(RDL_OK, rdl_try_lock(lock, 0, RDL_LEASE_AUTO, &err));
    (void)probe_int(st.probe, "DEL w");
    cr_assert(losses_wait(&losses, RDL_LOST, 1, SOON_MS));
    expect(RDL_ELOST, rdl_unlock(lock, &err));
    cr_assert_eq(losses_count(&losses, RDL_LOST), 1);
    rdl_lock_free(lock);
    rdl_lock_free(ends[0]);
    rdl_lock_free(ends[1]);
}

/* Members use their own records: what their owner holds of them besides stays. */
Test(multi, gives_back_what_it_took_and_no_more)
{
    rdl_lock_t *nested;

    stage_open(&st);
    open_all();
    nested = make((rdl_lock_t *[]){member[0], member[2]}, 2);
    expect(RDL_OK, rdl_try_lock(member[0], 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(nested, 0, LEASE_MS, &err));
    expect(RDL_OK, rdl_try_lock(nested, 0, LEASE_MS, &err));
    expect(3, rdl_hold_count(member[0], &err));
    expect(2, rdl_hold_count(nested, &err));
    expect(RDL_OK, rdl_extend(nested, 2 * LEASE_MS, &err));
    expect_between(2 * LEASE_MS - SLACK_MS, rdl_remaining_ms(nested, &err), 2 * LEASE_MS);
    expect(RDL_OK, rdl_unlock(nested, &err));
    expect(RDL_OK, rdl_unlock(nested, &err));
    expect(RDL_ENOTOWNER, rdl_unlock(nested, &err));
    expect(1, rdl_hold_count(member[0], &err));
    foreign_take(st.probe, "c", LEASE_MS);
    expect(RDL_ETIMEDOUT, rdl_try_lock(nested, 0, LEASE_MS, &err));
    cr_assert(WAIT_UNTIL(rdl_hold_count(member[0], &err) == 1, SOON_MS));
    (void)foreign_release(st.probe, "c");
    expect(RDL_OK, rdl_unlock(member[0], &err));
    rdl_lock_free(nested);
    close_all();
}

Test(multi, second_take_of_a_member_that_is_not_reentrant_is_a_deadlock)
{
    stage_open(&st);
    open_all();
    expect(RDL_OK, rdl_try_lock(multi, 0, LEASE_MS, &err));
    expect(RDL_EDEADLK, rdl_try_lock(multi, RDL_WAIT_FOREVER, LEASE_MS, &err));
    expect(1, rdl_hold_count(multi, &err));
    cr_assert(WAIT_UNTIL(rdl_hold_count(member[0], &err) == 1, SOON_MS));
    expect(RDL_OK, rdl_unlock(multi, &err));
    close_all();
}

Test(multi, bad_input_is_refused)
{
    rdl_lock_t *lock = NULL;

    stage_open(&st);
    open_all();
    expect(RDL_EINVAL, rdl_multi_lock(member, 0, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock(NULL, 1, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock((rdl_lock_t *[]){member[0], NULL}, 2, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock((rdl_lock_t *[]){member[0], multi}, 2, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock((rdl_lock_t *[]){member[0], member[0]}, 2, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_red_lock((rdl_lock_t *[]){member[0], member[1]}, 2, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock(member, 2, LOCK_OPTIONS(.name_len = 1), &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock(member, 2, LOCK_OPTIONS(.peer_watchdog_ms = 1000), &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock(member, 2, LOCK_OPTIONS(.retry.kind = RDL_RETRY_NONE), &lock, &err));
    expect(RDL_EINVAL, rdl_reentrant_lock(st.client, "e", LOCK_OPTIONS(.node_timeout_ms = 1), &lock, &err));
    cr_assert_null(lock);
    close_all();
}

/* Votes that a server gives to many are no votes: two readers would both have the majority. */
Test(multi, read_lock_is_no_member_of_a_red_lock_and_both_ends_are_one_lock)
{
    rdl_lock_t *ends[2];
    rdl_lock_t *lock = NULL;

    stage_open(&st);
    ends[0] = read_end(st.client, "rw", NULL);
    ends[1] = write_end(st.client, "rw", NULL);
    expect(RDL_EINVAL, rdl_red_lock(&ends[0], 1, NULL, &lock, &err));
    expect(RDL_EINVAL, rdl_multi_lock(ends, 2, NULL, &lock, &err));
    cr_assert_null(lock);
    expect(RDL_OK, rdl_red_lock(&ends[1], 1, NULL, &lock, &err));
    rdl_lock_free(lock);
    rdl_lock_free(ends[0]);
    rdl_lock_free(ends[1]);
}

/* A member's hold is believed in for no longer than by itself, whatever the lease of the whole is. */
Test(multi, read_member_is_believed_in_for_a_peers_watchdog)
{
    rdl_lock_t *reader;

    stage_open(&st);
    open_all();
    reader = read_end(st.client, "book", LOCK_OPTIONS(.peer_watchdog_ms = 2000));
    rdl_lock_free(both);
    both = make((rdl_lock_t *[]){member[0], reader}, 2);
    expect(RDL_OK, rdl_try_lock(both, 0, LEASE_MS, &err));
    expect_between(1, rdl_remaining_ms(both, &err), 2000);
    cr_assert_gt(ttl_of("book"), LEASE_MS - SLACK_MS);
    expect(RDL_OK, rdl_unlock(both, &err));
    rdl_lock_free(reader);
    close_all();
}

/* Two clients, members on both; every order of names meets every other. */
enum { WORKERS = 6, ROUNDS = 60 };

static _Atomic int inside[3];
static _Atomic int overlaps;

static int64_t work(void *arg, rdl_err_t *reterr)
{
    rdl_lock_t **locks = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t rc = rdl_try_lock(locks[i % 3], 30000, RDL_LEASE_AUTO, reterr);
        bool uses[3] = {i % 3 != 2, i % 3 != 1, i % 3 != 0};

        if (rc < 0)
            return rc;
        for (int k = 0; k < 3; k++)
            overlaps += uses[k] && atomic_fetch_add(&inside[k], 1) != 0;
        for (int k = 0; k < 3; k++)
            (void)(uses[k] && atomic_fetch_sub(&inside[k], 1));
        if ((rc = rdl_unlock(locks[i % 3], reterr)) < 0)
            return rc;
    }
    return RDL_OK;
}

Test(multi, overlapping_sets_exclude_each_other_and_never_wait_in_a_circle)
{
    struct caller *caller[WORKERS];
    rdl_lock_t *locks[WORKERS][3], *single[WORKERS][3];
    rdl_client_t *other;

    stage_open(&st);
    other = client_open(stage_uri(&st), NULL);
    for (int w = 0; w < WORKERS; w++) {
        rdl_client_t *client = w % 2 == 0 ? st.client : other;

        single[w][0] = reentrant(client, "x", NULL);
        single[w][1] = reentrant(client, "y", NULL);
        single[w][2] = reentrant(client, "z", NULL);
        locks[w][0] = make((rdl_lock_t *[]){single[w][1], single[w][0]}, 2);
        locks[w][1] = make((rdl_lock_t *[]){single[w][0], single[w][2]}, 2);
        locks[w][2] = make((rdl_lock_t *[]){single[w][2], single[w][1]}, 2);
        caller[w] = caller_new();
    }
    for (int w = 0; w < WORKERS; w++)
        caller_call(caller[w], work, locks[w]);
    for (int w = 0; w < WORKERS; w++)
        expect_result(RDL_OK, caller[w], 50000);
    cr_assert_eq(overlaps, 0);
    for (int w = 0; w < WORKERS; w++) {
        caller_free(caller[w]);
        for (int k = 0; k < 3; k++) {
            rdl_lock_free(locks[w][k]);
            rdl_lock_free(single[w][k]);
        }
    }
    rdl_client_close(other);
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

Test(multi, gives_way_to_who_waits_for_one_of_its_members)
{
    enum { CONTENDERS = 3 };
    rdl_client_t *clients[CONTENDERS];
    rdl_lock_t *single[CONTENDERS][2], *locks[CONTENDERS];

    stage_open(&st);
    for (int i = 0; i < CONTENDERS; i++) {
        clients[i] = client_open(stage_uri(&st), NULL);
        single[i][0] = reentrant(clients[i], "x", NULL);
        single[i][1] = reentrant(clients[i], "y", NULL);
        locks[i] = i == 0 ? reentrant(clients[i], "x", NULL) : make(single[i], 2);
    }
    expect_turns(locks, CONTENDERS, 3000);
    for (int i = 0; i < CONTENDERS; i++) {
        rdl_lock_free(locks[i]);
        rdl_lock_free(single[i][0]);
        rdl_lock_free(single[i][1]);
        rdl_client_close(clients[i]);
    }
}

/* ---- cancelled, and refused ------------------------------------------------------------------------------------- */

/* Whatever moment: nothing is left but the foreign hold. */
Test(multi, canceled_at_any_moment_leaves_nothing)
{
    rdl_owner_t *owner = NULL;

    stage_open(&st);
    open_all();
    expect(RDL_OK, rdl_owner_new(st.client, &owner, &err));
    for (int i = 0; i < 300; i++) {
        struct outcome o = {0}, given_back = {0};
        rdl_op_t *op = NULL;
        int64_t when = now_us() + i * 37 % 1500, rc;

        if (i % 3 == 0)
            foreign_take(st.probe, "b", LEASE_MS);
        expect(RDL_OK, rdl_lock_async(multi, owner, RDL_LEASE_AUTO, outcome_note, &o, &op, &err));
        while (now_us() < when)
            ;
        rdl_op_cancel(op);
        rc = outcome_wait(&o, SOON_MS);
        cr_assert(rc == RDL_OK || rc == RDL_ECANCELED, "%s: %s", code_name(rc), o.err.message);
        if (rc == RDL_OK) {
            expect(RDL_OK, rdl_unlock_async(multi, owner, outcome_note, &given_back, NULL, &err));
            expect(RDL_OK, outcome_wait(&given_back, SOON_MS));
        }
        rdl_op_free(op);
        if (i % 3 == 0)
            cr_assert_neq(foreign_release(st.probe, "b"), -1);
    }
    cr_assert(stage_is_clean(&st, CLEAN_BOUND_MS));
    rdl_owner_free(owner);
    close_all();
}

/* Two clients of one server, by two ways: it is refused if that is known, and else told as soon as it is. */
Test(multi, one_lock_by_two_clients_of_its_server_is_not_waited_for)
{
    rdl_client_t *straight, *lazy;
    rdl_lock_t *of[2], *lock = NULL;

    stage_open(&st, .proxied = true);
    straight = client_open(server_uri(st.server), NULL);
    of[0] = reentrant(straight, "twin", NULL);
    of[1] = reentrant(st.client, "twin", NULL);
    expect(RDL_EINVAL, rdl_multi_lock(of, 2, NULL, &lock, &err));
    cr_assert_not_null(strstr(err.message, "two clients"), "%s", err.message);
    rdl_lock_free(of[1]);
    proxy_refuse(st.proxy, true);
    lazy = client_open(stage_uri(&st), OPTIONS(.lazy = true, .reconnect_max_ms = 10));
    of[1] = reentrant(lazy, "twin", NULL);
    expect(RDL_OK, rdl_multi_lock(of, 2, NULL, &lock, &err));
    proxy_refuse(st.proxy, false);
    expect(RDL_OK, rdl_try_lock(of[1], SOON_MS, 10000, &err));
    expect(RDL_OK, rdl_unlock(of[1], &err));
    expect(RDL_EDEADLK, rdl_try_lock(lock, 200, 10000, &err));
    cr_assert_not_null(strstr(err.message, "two clients"), "%s", err.message);
    rdl_lock_free(lock);
    rdl_lock_free(of[0]);
    rdl_lock_free(of[1]);
    rdl_client_close(lazy);
    rdl_client_close(straight);
}
